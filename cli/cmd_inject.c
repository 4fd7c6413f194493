/*
 * cmd_inject.c - fault campaigns: classes of faults against guards, or the strikes of a plan
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/backend.h"
#include "cli/inject_real.h"
#include "cli/inject_store.h"
#include "sim/base/file.h"
#include "sim/base/list.h"
#include "sim/config/config.h"
#include "sim/output/progress.h"
#include "sim/plan/fault_rates.h"
#include "sim/plan/points.h"

#define VARIANTS_MAX 1024 /* configs that the domains of one file make */

static const struct kvt_cli_option options[] = {
    {"backend", "NAME", "carry every strike out on real pages as well: cpu, reference or cuda"},
    {"trials", "N", "runs of one strike per class and guard; of the config, else 100"},
    {"threads", "N", "threads; as many as there are cores"},
    {"no-branch", NULL, "run every trial from the start to the end; same results, slower"},
    {"estimator", "WHICH",
     "counted, forced, importance or splitting; the last two want faults.rates"},
    {"inflate", "FACTOR", "of the rates, for importance; as makes one strike per run"},
    {"print-plan", NULL, "print the strikes of the run as faults.plan, to edit and run again"},
    {NULL, NULL, NULL},
};

/* What the command was asked for, and what it found. */
struct job {
    struct kvt_cli cli; /* with --trials among its sets */
    struct kvt_campaign_options how;
    struct kvt_inject_report report; /* owned */
    struct kvt_inject_store *store;  /* NULL: nothing is kept */
    struct kvt_progress progress;
    bool print_plan; /* nothing is run */
    bool named;      /* --estimator other than forced was given */
    bool estimates;  /* of the present config: per request, of its rates */
    enum kvt_fault_estimator estimator;
    double inflate;
};

static enum kvt_status add_row(struct kvt_inject_report *report, const struct kvt_inject_row *row,
                               struct kvt_err *err)
{
    void *grown = kvt_list_grow(report->rows, report->count, &report->room, sizeof *report->rows);
    if (grown == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for more than %d rows", report->count);
    report->rows = grown;
    report->rows[report->count++] = *row;
    return KVT_OK;
}

/* The guards of a config, of the first role that has any: "tag-side+deferred-free". */
static void name_guard(const struct kvt_config *config, struct kvt_inject_row *row)
{
    row->guard[0] = '\0';
    for (int role = 0; role < KVT_ROLE_COUNT && row->guard[0] == '\0'; role++) {
        const struct kvt_config_guard *guard = &config->roles[role].guard;
        for (int kind = KVT_GUARD_NONE + 1; kind < KVT_GUARD_COUNT; kind++) {
            size_t used = strlen(row->guard);
            if (!config->roles[role].present || !guard->on[kind])
                continue;
            snprintf(row->guard + used, KVT_INJECT_NAME_BYTES - used, "%s%s", used > 0 ? "+" : "",
                     kvt_guard_names[kind]);
            row->check = guard->check;
            row->on_hit = guard->on_hit;
            row->looks = row->looks || (KVT_GUARDS_LOOK >> kind & 1) != 0;
            if (kind == KVT_GUARD_TAG_SIDE || kind == KVT_GUARD_TAG_INBAND)
                row->tag_bits = guard->tag_bits;
        }
    }
    if (row->guard[0] == '\0')
        snprintf(row->guard, KVT_INJECT_NAME_BYTES, "none");
}

/* ---- running ------------------------------------------------------------------------------ */

static void say_strikes(const struct kvt_config *config, int32_t count, FILE *talk)
{
    if (count == 0 && talk != NULL)
        fprintf(talk, "kvtwin: note: the rates of %s draw no strike with this seed\n",
                config->path);
}

static enum kvt_status run_plan(struct job *job, const struct kvt_config *config,
                                struct kvt_inject_row *row, struct kvt_err *err)
{
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static struct kvt_fault_result results[KVT_STRIKES_MAX];
    int32_t count;
    KVT_TRY(kvt_fault_run(config, &job->how, strikes, results, &count, err));
    row->planned = true;
    say_strikes(config, count, job->how.talk);
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_config_strike *from =
            strikes[i].row >= 0 ? &config->faults.plan.rows[strikes[i].row] : NULL;
        row->strike = strikes[i];
        row->result = results[i];
        row->expected = from != NULL && from->expected;
        if (row->expected)
            row->expectation = strcmp(row->guard, "none") == 0 ? from->unguarded : from->guarded;
        KVT_TRY(add_row(&job->report, row, err));
    }
    return KVT_OK;
}

static bool is_planned(const struct kvt_config *config)
{
    return config->faults.plan.count + config->faults.rates.count > 0;
}

/* The strikes that the config writes and draws, as it would write them. */
static enum kvt_status print_plan(const struct kvt_config *config, FILE *talk, struct kvt_err *err)
{
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    struct kvt_simulation base;
    struct kvt_simulate_options how = {.named = true};
    int32_t count;
    double log_weight;
    if (!is_planned(config))
        return kvt_err_at(err, KVT_ECONFIG, config->faults.where,
                          "faults: --print-plan wants faults.plan or faults.rates: without them "
                          "each trial draws a strike of its own");
    KVT_TRY(kvt_simulation_init(&base, config, &how, err));
    enum kvt_status status =
        kvt_fault_draw_plan(&base, config->run.seed, 1, strikes, &count, &log_weight, err);
    kvt_simulation_release(&base);
    if (status != KVT_OK)
        return status;
    say_strikes(config, count, talk);
    puts("faults:");
    kvt_fault_print_plan(strikes, count, stdout);
    return KVT_OK;
}

static enum kvt_status run_config(struct job *job, struct kvt_config *config, const char *path,
                                  struct kvt_err *err)
{
    struct kvt_inject_report *report = &job->report;
    static struct kvt_cell cells[KVT_FAULT_COUNT];
    struct kvt_inject_row row = {.planned = false};
    if (!config->faults.present)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = config->path},
                          "want a section `faults`, got none");
    snprintf(row.config, sizeof row.config, "%s", kvt_path_name(path));
    name_guard(config, &row);
    if (job->print_plan)
        return print_plan(config, job->how.talk, err);
    if (report->real != NULL && (is_planned(config) || job->estimates))
        return kvt_err_at(err, KVT_ECONFIG, config->faults.where,
                          "faults: --backend wants trials of one strike, and neither a plan, nor "
                          "rates, nor an estimate per request");
    row.number = report->configs++;
    if (job->store != NULL)
        job->store->config = row.number;
    if (job->estimates) {
        row.rated = true;
        row.estimator = job->estimator;
        KVT_TRY(kvt_fault_estimate(config, &job->how, job->estimator, job->inflate, &row.estimate,
                                   err));
        return add_row(report, &row, err);
    }
    if (is_planned(config))
        return run_plan(job, config, &row, err);
    if (report->real != NULL)
        KVT_TRY(kvt_inject_real_run(report->real, config, &row, &job->how, cells, err));
    else
        KVT_TRY(kvt_campaign_run(config, &job->how, cells, err));
    for (int32_t kind = 0; kind < KVT_FAULT_COUNT; kind++) {
        if (!(config->faults.kinds >> kind & 1) ||
            (report->real != NULL && cells[kind].injected == 0))
            continue;
        row.cell = cells[kind];
        KVT_TRY(add_row(report, &row, err));
    }
    return KVT_OK;
}

/* What is wrong with a choice of a domain is told at the domain: nobody gave the --set by which the
 * choice was made. */
static enum kvt_status tell_choice(const struct kvt_points *points, int64_t point,
                                   enum kvt_status status, const struct kvt_err *why,
                                   struct kvt_err *err)
{
    for (int32_t i = 0; i < points->config->domains; i++) {
        const struct kvt_config_domain *domain = kvt_config_domain(points->config, i);
        const char *text = kvt_points_text(points, point, i);
        char set[512];
        int bytes = snprintf(set, sizeof set, "--set %s=%s: ", domain->path, text);
        if (bytes < (int)sizeof set && strncmp(why->text, set, (size_t)bytes) == 0)
            return kvt_err_at(err, status, domain->where, "of the choice %s: %s", text,
                              why->text + bytes);
    }
    return why->count > 0 ? kvt_err_set(err, status, "%s", why->text) : status;
}

/* Every point of the config (points.h). */
static enum kvt_status run_file(struct job *job, const char *path, const struct kvt_config *config,
                                struct kvt_err *err)
{
    static struct kvt_config chosen;
    struct kvt_points points;
    enum kvt_status status =
        kvt_points_init(&points, config, path, job->cli.sets, job->cli.set_count, err);
    if (status == KVT_OK && points.count > VARIANTS_MAX)
        status = kvt_err_at(err, KVT_ELIMIT, config->where_domain,
                            "want at most %d combinations of guards and other choices, got %lld",
                            VARIANTS_MAX, (long long)points.count);
    int64_t count = job->print_plan ? 1 : points.count; /* guards change nothing of a plan */
    for (int64_t i = 0; status == KVT_OK && i < count; i++) {
        struct kvt_err why = {0};
        status = kvt_points_choose(&points, i, NULL, 0, &chosen, &why);
        if (status == KVT_OK) {
            status = run_config(job, &chosen, path, &why);
            kvt_config_release(&chosen);
        }
        if (status != KVT_OK)
            status = tell_choice(&points, i, status, &why, err);
    }
    kvt_points_release(&points);
    return status;
}

/* Whose parts a journal has: version, seed, estimator and every config with all its settings. */
static enum kvt_status open_store(const struct kvt_cli *cli, struct kvt_inject_store *store,
                                  uint64_t *seed, struct kvt_err *err)
{
    static struct kvt_config config;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = kvt_memory_open(&text, &bytes);
    if (out == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a journal");
    const char *estimator = kvt_cli_get(cli, "estimator");
    fprintf(out, "kvtwin %s inject, parts of %zu bytes\nestimator %s\n", KVT_VERSION,
            sizeof(struct kvt_part), estimator != NULL ? estimator : "forced");
    enum kvt_status status = KVT_OK;
    for (int32_t i = 0; i < cli->operand_count && status == KVT_OK; i++) {
        status = kvt_config_load(&config, cli->operands[i], cli->sets, cli->set_count, err);
        bool loaded = status == KVT_OK;
        char *printed = loaded ? kvt_config_print(&config) : NULL;
        if (i == 0 && loaded)
            *seed = config.run.seed;
        if (printed == NULL && status == KVT_OK)
            status = kvt_err_set(err, KVT_ENOMEM, "no memory for a journal");
        if (printed != NULL)
            fprintf(out, "config %d\nseed %llu\n%s", i, (unsigned long long)config.run.seed,
                    printed);
        free(printed);
        if (loaded)
            kvt_config_release(&config);
    }
    if (!kvt_memory_close(out, &text) && status == KVT_OK)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for a journal");
    if (status == KVT_OK)
        status = kvt_inject_store_open(store, cli->output, text, err);
    free(text);
    return status;
}

/* What the command's options ask for. */
static enum kvt_status read_options(struct job *job, struct kvt_err *err)
{
    const struct kvt_cli *cli = &job->cli;
    int32_t threads;
    const char *which = kvt_cli_get(cli, "estimator"), *inflate = kvt_cli_get(cli, "inflate");
    KVT_TRY(kvt_cli_get_threads(cli, &threads, err));
    KVT_TRY(kvt_cli_get_double(cli, "inflate", 0, &job->inflate, err));
    job->print_plan = kvt_cli_get(cli, "print-plan") != NULL;
    if (job->print_plan && cli->output != NULL)
        return kvt_err_set(err, KVT_EUSAGE,
                           "-o is for results: --print-plan writes to standard output");
    for (int e = 0; which != NULL && e < KVT_ESTIMATE_COUNT; e++) {
        if (strcmp(which, kvt_fault_estimator_names[e]) != 0)
            continue;
        job->named = true;
        job->estimator = (enum kvt_fault_estimator)e;
    }
    if (which != NULL && !job->named && strcmp(which, "forced") != 0)
        return kvt_err_set(
            err, KVT_EUSAGE,
            "--estimator: want counted, forced, importance or splitting, got \"%.40s\"", which);
    if (inflate != NULL && (job->inflate < 1 || job->inflate > 1e15))
        return kvt_err_set(err, KVT_EUSAGE,
                           "--inflate: want a number from 1 to 1e15, got \"%.40s\"", inflate);
    if (inflate != NULL && job->estimator != KVT_ESTIMATE_IMPORTANCE)
        return kvt_err_set(err, KVT_EUSAGE, "--inflate is for --estimator importance");
    job->how = (struct kvt_campaign_options){.threads = threads,
                                             .branch = kvt_cli_get(cli, "no-branch") == NULL,
                                             .count_only = job->named &&
                                                           job->estimator == KVT_ESTIMATE_COUNTED,
                                             .stop = &kvt_cli_interrupted,
                                             .tell = {kvt_progress_tell, &job->progress},
                                             .talk = cli->verbosity >= 0 ? stderr : NULL};
    return KVT_OK;
}

static enum kvt_status run_all(struct job *job, struct kvt_err *err)
{
    const struct kvt_cli *cli = &job->cli;
    static struct kvt_config config;
    static struct kvt_inject_store store = {.journal = {.file = -1}};
    uint64_t seed = 0;
    enum kvt_status status = KVT_OK;
    bool stores = cli->output != NULL && !cli->print_config;
    if (stores) {
        status = open_store(cli, &store, &seed, err);
        job->store = &store;
        job->how.store = &store.face;
    }
    for (int32_t i = 0; i < cli->operand_count && status == KVT_OK; i++) {
        bool done;
        status = kvt_cli_config(cli, cli->operands[i], &config, &done, err);
        if (status != KVT_OK || done)
            continue;
        /* With rates, a word about estimators asks for escapes per request. */
        job->estimates =
            job->named && (job->estimator != KVT_ESTIMATE_COUNTED || config.faults.rates.count > 0);
        kvt_progress_begin(&job->progress, "injecting", "trials", kvt_cli_shows_progress(cli));
        status = run_file(job, cli->operands[i], &config, err);
        kvt_progress_end(&job->progress);
        kvt_config_release(&config);
    }
    if (stores && status == KVT_OK)
        status = kvt_inject_store_finish(&store, &job->report, seed, err);
    if (stores && status == KVT_OK && store.resumed > 0)
        kvt_cli_say(cli, 0, "kvtwin: note: %lld of %lld trials came from the journal",
                    (long long)store.resumed, (long long)store.trials);
    if (stores)
        kvt_inject_store_close(&store);
    return status;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static char trials_set[48];
    static struct job job;
    struct kvt_inject_real real = {.backend = KVT_BACKEND_CPU};
    const struct kvt_inject_report *report = &job.report;
    int64_t trials;
    job = (struct job){.cli = *cli};
    KVT_TRY(kvt_cli_backend(cli, &real.backend, err));
    KVT_TRY(kvt_cli_get_int(cli, "trials", 1, 1000000000, 0, &trials, err));
    if (trials > 0) {
        snprintf(trials_set, sizeof trials_set, "faults.trials=%lld", (long long)trials);
        job.cli.sets[job.cli.set_count++] = trials_set;
    }
    KVT_TRY(read_options(&job, err));
    job.report.real = kvt_cli_get(cli, "backend") != NULL ? &real : NULL;
    enum kvt_status status = run_all(&job, err);
    if (status == KVT_OK && report->configs > 0)
        kvt_inject_print(report, cli->format);
    int32_t other = 0;
    for (int32_t i = 0; i < report->count; i++)
        other += !kvt_inject_is_as_expected(&report->rows[i]);
    if (status == KVT_OK && other > 0)
        status = kvt_err_set(err, KVT_NEGATIVE, "%d of %d strike%s ended otherwise than expected",
                             other, report->count, kvt_plural(report->count));
    if (status == KVT_OK && real.disagreement_count > 0)
        status = kvt_err_set(
            err, KVT_NEGATIVE, "%lld of %lld trial%s ended otherwise on real pages than simulated",
            (long long)real.disagreement_count, (long long)real.trials, kvt_plural(real.trials));
    kvt_inject_real_release(&real);
    free(job.report.rows);
    job = (struct job){0};
    return status;
}

const struct kvt_command kvt_command_inject = {
    .name = "inject",
    .operands = "CONFIG...",
    .help = "fault campaign: what guards catch of faults in KV pages, and what gets past them",
    .description =
        "Each trial is the config's workload with one fault of one class; the config's guards look "
        "as they are told to. Guards are compared by giving them as a domain: "
        "fleet.decode.guard: {choices: [none, fifo, {tag-side: {bits: 16}}]}. A config with "
        "faults.plan or faults.rates is run once, with the strikes that it lists and draws; with "
        "--estimator importance or splitting often, for escapes per request at its rates. With -o "
        "the campaign goes on where it was interrupted; a file of another one is not written over.",
    .example = "kvtwin inject configs/examples/faults.yaml --format json",
    .uses = KVT_USES_CONFIG | KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = -1,
    .options = options,
    .run = run,
};
