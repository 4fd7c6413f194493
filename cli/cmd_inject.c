/*
 * cmd_inject.c - fault campaigns: classes of faults against guards, or the strikes of a plan
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/config/config.h"
#include "sim/output/progress.h"
#include "sim/plan/campaign.h"

#define GUARD_BYTES  160
#define SETS_MAX     (KVT_CLI_VALUES_MAX + 16)
#define VARIANTS_MAX 1024 /* configs that the domains of one file make */

static const struct kvt_cli_option options[] = {
    {"trials", "N", "runs of one strike per class and guard; of the config, else 100"},
    {"threads", "N", "threads; as many as there are cores"},
    {"no-branch", NULL, "run every trial from the start to the end; same results, slower"},
    {NULL, NULL, NULL},
};

struct row { /* of the matrix, or of a plan */
    char config[GUARD_BYTES], guard[GUARD_BYTES];
    enum kvt_guard_check check;
    int32_t tag_bits; /* 0: no tag */
    bool planned;
    struct kvt_cell cell;
    struct kvt_strike strike;
    struct kvt_fault_result result;
    bool expected; /* the config says how it ends */
    enum kvt_fault_outcome expectation;
};

struct report {
    struct row *rows;
    int32_t count, room;
    struct kvt_progress progress;
};

static enum kvt_status add_row(struct report *report, const struct row *row, struct kvt_err *err)
{
    if (report->count == report->room) {
        int32_t room = report->room * 2 + 64;
        struct row *grown = realloc(report->rows, (size_t)room * sizeof *grown);
        if (grown == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for %d rows", room);
        report->rows = grown;
        report->room = room;
    }
    report->rows[report->count++] = *row;
    return KVT_OK;
}

/* The guards of a config, of the first role that has any: "tag-side+deferred-free". */
static void name_guard(const struct kvt_config *config, struct row *row)
{
    row->guard[0] = '\0';
    for (int role = 0; role < KVT_ROLE_COUNT && row->guard[0] == '\0'; role++) {
        const struct kvt_config_guard *guard = &config->roles[role].guard;
        for (int kind = KVT_GUARD_NONE + 1; kind < KVT_GUARD_COUNT; kind++) {
            size_t used = strlen(row->guard);
            if (!config->roles[role].present || !guard->on[kind])
                continue;
            snprintf(row->guard + used, GUARD_BYTES - used, "%s%s", used > 0 ? "+" : "",
                     kvt_guard_names[kind]);
            row->check = guard->check;
            if (kind == KVT_GUARD_TAG_SIDE || kind == KVT_GUARD_TAG_INBAND)
                row->tag_bits = guard->tag_bits;
        }
    }
    if (row->guard[0] == '\0')
        snprintf(row->guard, GUARD_BYTES, "none");
}

static bool is_same_guard(const struct row *a, const struct row *b)
{
    return strcmp(a->guard, b->guard) == 0 && a->check == b->check && a->tag_bits == b->tag_bits;
}

/* "tag-side (16 bits, before-read)" */
static const char *guard_text(const struct row *row, char out[GUARD_BYTES + 64])
{
    char bits[24] = "";
    if (row->tag_bits > 0)
        snprintf(bits, sizeof bits, "%d bits, ", row->tag_bits);
    if (strpbrk(row->guard, "-") == NULL && strcmp(row->guard, "digest") != 0 &&
        strcmp(row->guard, "canary") != 0)
        snprintf(out, GUARD_BYTES + 64, "%s", row->guard);
    else
        snprintf(out, GUARD_BYTES + 64, "%s (%s%s)", row->guard, bits, kvt_check_names[row->check]);
    return out;
}

static void tell_progress(void *context, double fraction, int64_t done)
{
    kvt_progress_tell(context, fraction, done, "trials");
}

/* ---- running ------------------------------------------------------------------------------ */

/* The row of the config's plan that a strike comes from. */
static const struct kvt_config_strike *planned_row(const struct kvt_config *config,
                                                   const struct kvt_strike *strike)
{
    return &config->faults.plan.rows[strike->row];
}

static enum kvt_status run_plan(const struct kvt_config *config, struct row *row,
                                const struct kvt_campaign_options *how, struct report *report,
                                struct kvt_err *err)
{
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static struct kvt_fault_result results[KVT_STRIKES_MAX];
    int32_t count;
    KVT_TRY(kvt_fault_run(config, how, strikes, results, &count, err));
    row->planned = true;
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_config_strike *from = planned_row(config, &strikes[i]);
        row->strike = strikes[i];
        row->result = results[i];
        row->expected = from->expected;
        row->expectation = strcmp(row->guard, "none") == 0 ? from->unguarded : from->guarded;
        KVT_TRY(add_row(report, row, err));
    }
    return KVT_OK;
}

static enum kvt_status run_config(const struct kvt_config *config, const char *path,
                                  const struct kvt_campaign_options *how, struct report *report,
                                  struct kvt_err *err)
{
    static struct kvt_cell cells[KVT_FAULT_COUNT];
    struct row row = {.planned = false};
    if (!config->faults.present)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = config->path},
                          "want a section `faults`, got none");
    const char *slash = strrchr(path, '/');
    snprintf(row.config, sizeof row.config, "%s", slash != NULL ? slash + 1 : path);
    name_guard(config, &row);
    if (config->faults.plan.count > 0)
        return run_plan(config, &row, how, report, err);
    KVT_TRY(kvt_campaign_run(config, how, cells, err));
    for (int32_t kind = 0; kind < KVT_FAULT_COUNT; kind++) {
        if (!(config->faults.kinds >> kind & 1))
            continue;
        row.cell = cells[kind];
        KVT_TRY(add_row(report, &row, err));
    }
    return KVT_OK;
}

/* Every combination of the config's domains, the last one fastest. */
static enum kvt_status run_file(const struct kvt_cli *cli, const char *path,
                                const struct kvt_config *config,
                                const struct kvt_campaign_options *how, struct report *report,
                                struct kvt_err *err)
{
    static char texts[16][512];
    static const char *sets[SETS_MAX];
    int64_t combinations = 1;
    if (config->domains > 16)
        return kvt_err_at(err, KVT_ELIMIT, config->where_domain, "want at most 16 domains, got %d",
                          config->domains);
    for (int32_t i = 0; i < config->domains; i++)
        combinations *= kvt_config_domain(config, i)->count;
    if (combinations > VARIANTS_MAX)
        return kvt_err_at(err, KVT_ELIMIT, config->where_domain,
                          "want at most %d combinations of guards and other choices, got %lld",
                          VARIANTS_MAX, (long long)combinations);
    for (int64_t number = 0; number < combinations; number++) {
        static struct kvt_config chosen;
        int32_t count = cli->set_count;
        memcpy(sets, cli->sets, (size_t)count * sizeof *sets);
        int64_t rest = number;
        for (int32_t i = config->domains - 1; i >= 0; i--) {
            const struct kvt_config_domain *domain = kvt_config_domain(config, i);
            snprintf(texts[i], sizeof texts[i], "%s=%s", domain->path,
                     domain->texts[rest % domain->count]);
            rest /= domain->count;
            sets[count++] = texts[i];
        }
        KVT_TRY(kvt_config_load(&chosen, path, sets, count, err));
        enum kvt_status status = run_config(&chosen, path, how, report, err);
        kvt_config_release(&chosen);
        KVT_TRY(status);
    }
    return KVT_OK;
}

/* ---- printing ----------------------------------------------------------------------------- */

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void print_cell_json(const struct row *row, FILE *out)
{
    const struct kvt_cell *cell = &row->cell;
    const char *estimator;
    struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
    int64_t detected = cell->outcomes[KVT_OUTCOME_DETECTED];
    fprintf(out,
            "{\"config\": \"%s\", \"fault\": \"%s\", \"guard\": \"%s\", \"check\": \"%s\", "
            "\"tag_bits\": %d, \"injected\": %lld, \"activated\": %lld, \"exposed\": %lld",
            row->config, kvt_fault_names[cell->kind], row->guard, kvt_check_names[row->check],
            row->tag_bits, (long long)cell->injected, (long long)cell->activated,
            (long long)cell->exposed);
    for (int i = 0; i < KVT_OUTCOME_COUNT; i++)
        fprintf(out, ", \"%s\": %lld", kvt_outcome_names[i], (long long)cell->outcomes[i]);
    fprintf(out,
            ", \"false_aborts\": %lld, \"escapes_per_1e9\": %.17g, \"ci_low\": %.17g, \"ci_high\": "
            "%.17g, \"estimator\": \"%s\", \"effective_samples\": %.17g, \"cross_tenant\": %lld, "
            "\"requests_hit\": %lld, \"requests_lost\": %lld, \"leaked_tokens\": %lld, "
            "\"detected_after_leak\": %lld, \"mean_detection_ms\": %.17g}",
            (long long)cell->false_aborts, 1e9 * escapes.p, 1e9 * escapes.low, 1e9 * escapes.high,
            estimator, escapes.effective, (long long)cell->cross_tenant, (long long)cell->hit,
            (long long)cell->lost, (long long)cell->leaked, (long long)cell->detected_late,
            detected > 0 ? 1e3 * cell->latency_s / (double)detected : 0);
}

static bool is_as_expected(const struct row *row)
{
    return !row->planned || !row->expected || row->result.outcome == row->expectation;
}

static void print_strike_json(const struct row *row, FILE *out)
{
    const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
    const struct kvt_fault_result *result = &row->result;
    fprintf(out,
            "{\"config\": \"%s\", \"fault\": \"%s\", \"variant\": \"%s\", \"guard\": \"%s\", "
            "\"at_s\": %.17g, \"activated\": %s, \"exposed\": %s, \"detected\": %s, \"outcome\": "
            "\"%s\", \"cross_tenant\": %s, \"requests_hit\": %d, \"requests_lost\": %d, "
            "\"false_aborts\": %d, \"leaked_tokens\": %lld",
            row->config, kvt_fault_names[info->kind], info->name, row->guard,
            kvt_seconds_from_ticks(row->strike.time), result->activated ? "true" : "false",
            result->exposed ? "true" : "false", result->detected ? "true" : "false",
            kvt_outcome_names[result->outcome], result->cross_tenant ? "true" : "false",
            result->hit, result->lost, result->false_aborts, (long long)result->leaked);
    if (row->expected)
        fprintf(out, ", \"expected\": \"%s\"", kvt_outcome_names[row->expectation]);
    fputc('}', out);
}

static void print_json(const struct report *report)
{
    for (int planned = 0; planned < 2; planned++) {
        const char *before = "";
        fputs(planned ? "], \"strikes\": [" : "{\"matrix\": [", stdout);
        for (int32_t i = 0; i < report->count; i++) {
            if (report->rows[i].planned != (planned != 0))
                continue;
            fprintf(stdout, "%s\n  ", before);
            (planned ? print_strike_json : print_cell_json)(&report->rows[i], stdout);
            before = ",";
        }
    }
    fputs("]}\n", stdout);
}

static void print_cells_text(const struct report *report, bool csv)
{
    const struct row *before = NULL;
    char guard[GUARD_BYTES + 64];
    if (csv)
        puts("config,fault,guard,injected,activated,exposed,masked,detected,escaped,"
             "undetected_harmless,hung,crashed,false_aborts,leaked_tokens,escapes_per_1e9,ci_low,"
             "ci_high,estimator,effective_samples");
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_cell *cell = &report->rows[i].cell;
        const int64_t *n = cell->outcomes;
        const char *estimator;
        if (report->rows[i].planned)
            continue;
        struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
        if (csv) {
            printf("%s,%s,%s,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%.9g,%.9g,%.9g,"
                   "%s,%.9g\n",
                   report->rows[i].config, kvt_fault_names[cell->kind], report->rows[i].guard,
                   (long long)cell->injected, (long long)cell->activated, (long long)cell->exposed,
                   (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3],
                   (long long)n[4], (long long)n[5], (long long)cell->false_aborts,
                   (long long)cell->leaked, 1e9 * escapes.p, 1e9 * escapes.low, 1e9 * escapes.high,
                   estimator, escapes.effective);
            continue;
        }
        if (before == NULL || !is_same_guard(before, &report->rows[i])) {
            printf("%sguard %s, percent of the strikes (false aborts and tokens are counts)\n"
                   "  %-17s%9s%8s%8s%9s%9s%9s%6s%8s%7s%9s%13s\n",
                   i > 0 ? "\n" : "", guard_text(&report->rows[i], guard), "fault", "strikes",
                   "struck", "masked", "detected", "escaped", "harmless", "hung", "crashed",
                   "false", "leaked", "escapes/1e9");
        }
        before = &report->rows[i];
        printf("  %-17s%9lld%8.1f%8.1f%9.1f%9.1f%9.1f%6.1f%8.1f%7lld%9lld%13.4g\n",
               kvt_fault_names[cell->kind], (long long)cell->injected,
               100 * share(cell->activated, cell->injected), 100 * share(n[0], cell->injected),
               100 * share(n[1], cell->injected), 100 * share(n[2], cell->injected),
               100 * share(n[3], cell->injected), 100 * share(n[4], cell->injected),
               100 * share(n[5], cell->injected), (long long)cell->false_aborts,
               (long long)cell->leaked, 1e9 * escapes.p);
    }
}

static void print_strikes_text(const struct report *report, bool csv)
{
    bool first = true;
    for (int32_t i = 0; i < report->count; i++) {
        const struct row *row = &report->rows[i];
        if (!row->planned)
            continue;
        const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
        if (first && csv)
            puts("config,fault,variant,guard,at_s,outcome,requests_hit,requests_lost,"
                 "leaked_tokens,cross_tenant");
        else if (first)
            printf("%-32s%-28s%-16s%9s  %-20s%5s%6s%8s\n", "config", "fault", "guard", "at (s)",
                   "outcome", "hit", "lost", "leaked");
        first = false;
        char fault[64];
        snprintf(fault, sizeof fault, "%s/%s", kvt_fault_names[info->kind], info->name);
        if (csv)
            printf("%s,%s,%s,%s,%.9g,%s,%d,%d,%lld,%d\n", row->config, kvt_fault_names[info->kind],
                   info->name, row->guard, kvt_seconds_from_ticks(row->strike.time),
                   kvt_outcome_names[row->result.outcome], row->result.hit, row->result.lost,
                   (long long)row->result.leaked, row->result.cross_tenant);
        else
            printf("%-32s%-28s%-16s%9.3f  %-20s%5d%6d%8lld%s\n", row->config, fault, row->guard,
                   kvt_seconds_from_ticks(row->strike.time),
                   row->result.activated ? kvt_outcome_names[row->result.outcome] : "never struck",
                   row->result.hit, row->result.lost, (long long)row->result.leaked,
                   is_as_expected(row) ? "" : "  not as expected");
    }
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static struct kvt_config config;
    static char trials_set[48];
    struct report report = {.rows = NULL};
    struct kvt_cli with = *cli;
    int64_t trials, threads;
    KVT_TRY(kvt_cli_get_int(cli, "trials", 1, 1000000000, 0, &trials, err));
    KVT_TRY(kvt_cli_get_int(cli, "threads", 1, 1024, 0, &threads, err));
    if (trials > 0 && with.set_count < KVT_CLI_VALUES_MAX) {
        snprintf(trials_set, sizeof trials_set, "faults.trials=%lld", (long long)trials);
        with.sets[with.set_count++] = trials_set;
    }
    struct kvt_campaign_options how = {.threads = (int32_t)threads,
                                       .branch = kvt_cli_get(cli, "no-branch") == NULL,
                                       .stop = &kvt_cli_interrupted,
                                       .progress = tell_progress,
                                       .progress_context = &report.progress,
                                       .talk = cli->verbosity >= 0 ? stderr : NULL};
    enum kvt_status status = KVT_OK;
    for (int32_t i = 0; i < cli->operand_count && status == KVT_OK; i++) {
        bool done;
        status = kvt_cli_config(&with, cli->operands[i], &config, &done, err);
        if (status != KVT_OK || done)
            continue;
        kvt_progress_begin(&report.progress, "injecting", kvt_cli_shows_progress(cli));
        status = run_file(&with, cli->operands[i], &config, &how, &report, err);
        kvt_progress_end(&report.progress);
        kvt_config_release(&config);
    }
    if (status == KVT_OK && report.count > 0) {
        if (cli->format == KVT_FORMAT_JSON) {
            print_json(&report);
        } else {
            bool cells = false;
            for (int32_t i = 0; i < report.count; i++)
                cells = cells || !report.rows[i].planned;
            if (cells)
                print_cells_text(&report, cli->format == KVT_FORMAT_CSV);
            print_strikes_text(&report, cli->format == KVT_FORMAT_CSV);
        }
    }
    int32_t other = 0;
    for (int32_t i = 0; i < report.count; i++)
        other += !is_as_expected(&report.rows[i]);
    if (status == KVT_OK && other > 0)
        status = kvt_err_set(err, KVT_NEGATIVE, "%d of %d strikes ended otherwise than expected",
                             other, report.count);
    free(report.rows);
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
        "faults.plan is run once, with the strikes that it lists.",
    .example = "kvtwin inject configs/examples/faults.yaml --format json",
    .uses = KVT_USES_CONFIG,
    .operands_min = 1,
    .operands_max = -1,
    .options = options,
    .run = run,
};
