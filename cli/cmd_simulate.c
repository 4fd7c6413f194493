/*
 * cmd_simulate.c - run a trace or a generated load through a fleet; print the serving table
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/simulate_outputs.h"
#include "sim/base/file.h"
#include "sim/output/progress.h"
#include "sim/plan/price.h"
#include "sim/plan/resample.h"

static const struct kvt_cli_option options[] = {
    {"log", "FILE", "write every decision to a text file, one a line"},
    {"decisions", NULL, "with -o: put every decision into the file, for kvtwin diff"},
    {"perfetto", "FILE",
     "write a trace for ui.perfetto.dev: requests in lanes, counters, hand-offs"},
    {"export", "FORMAT:FILE",
     "write the result as vllm, sglang (their benchmarks) or llm-d (its report) does; repeats"},
    {"resamples", "N",
     "run N times more with other errors of the step times, for _low and _high; 0"},
    {"explain-step", NULL, "print the kernels of a step of each role instead of running"},
    {"batch", "N", "of --explain-step: requests in the decode batch; 32"},
    {"context", "TOKENS", "of --explain-step: context of each; 8192"},
    {"chunk", "TOKENS", "of --explain-step: prompt tokens of a prefill step; 8192"},
    {NULL, NULL, NULL},
};

struct outputs {
    struct kvt_simulate_outputs files;
    int32_t resamples;
    struct kvt_progress progress;
};

/* A step is printed, a run has outputs: what is for the one means nothing to the other. */
static enum kvt_status check_options(const struct kvt_cli *cli, bool explains, struct kvt_err *err)
{
    static const char *const of_run[] = {"output", "log",       "decisions", "perfetto",
                                         "export", "resamples", NULL};
    static const char *const of_step[] = {"batch", "context", "chunk", NULL};
    if (!explains)
        return kvt_cli_refuse(cli, of_step, "is for --explain-step", err);
    if (cli->format == KVT_FORMAT_CSV)
        return kvt_err_set(err, KVT_EUSAGE,
                           "--format: want text or json, --explain-step is no table");
    return kvt_cli_refuse(cli, of_run, "is for a run: --explain-step runs nothing", err);
}

static enum kvt_status explain_roles(const struct kvt_cli *cli, const struct kvt_config *config,
                                     FILE *out, struct kvt_err *err)
{
    static struct kvt_role_memory plan;
    int64_t batch, context, chunk;
    KVT_TRY(kvt_cli_get_int(cli, "batch", 1, 1 << 20, 32, &batch, err));
    KVT_TRY(kvt_cli_get_int(cli, "context", 1, 1 << 26, 8192, &context, err));
    KVT_TRY(kvt_cli_get_int(cli, "chunk", 1, 1 << 26, 8192, &chunk, err));
    bool json = cli->format == KVT_FORMAT_JSON, first = true;
    if (json)
        fputs("{\"steps\": [", out);
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (!config->roles[role].present)
            continue;
        KVT_TRY(kvt_role_memory_plan(config, (enum kvt_role)role, &plan, NULL, err));
        for (int decode = 0; decode < 2; decode++) {
            if ((decode == 0 && role == KVT_ROLE_DECODE) ||
                (decode == 1 && role == KVT_ROLE_PREFILL))
                continue;
            struct kvt_explained what = {.decodes = decode ? batch : 0,
                                         .context = decode ? context : 0,
                                         .prompt = decode ? 0 : chunk,
                                         .json = json,
                                         .talk = cli->verbosity >= 0 ? stderr : NULL};
            if (json)
                fprintf(out, "%s{\"role\": \"%s\", \"kind\": \"%s\", \"step\": ", first ? "" : ", ",
                        kvt_role_names[role], decode ? "decode" : "prefill");
            else
                fprintf(out, "%s%s, %s step\n", first ? "" : "\n", kvt_role_names[role],
                        decode ? "decode" : "prefill");
            KVT_TRY(kvt_price_explain(config, (enum kvt_role)role, &plan, &what, out, err));
            if (json)
                fputs("}", out);
            first = false;
        }
    }
    if (json)
        fputs("]}\n", out);
    return KVT_OK;
}

/* Printed once all roles are known: a later one may not fit. */
static enum kvt_status explain(const struct kvt_cli *cli, const struct kvt_config *config,
                               struct kvt_err *err)
{
    char *text = NULL;
    size_t count = 0;
    FILE *out = kvt_memory_open(&text, &count);
    if (out == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the kernels of a step");
    enum kvt_status status = explain_roles(cli, config, out, err);
    if (!kvt_memory_close(out, &text) && status == KVT_OK)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for the kernels of a step");
    if (status == KVT_OK)
        fputs(text, stdout);
    free(text);
    return status;
}

/* Intervals for the metrics of a run that went to its end; none when count is 0. */
static enum kvt_status resample(const struct kvt_cli *cli, struct outputs *outputs,
                                const struct kvt_simulation *base, struct kvt_summary *summary,
                                struct kvt_err *err)
{
    struct kvt_resamples resamples;
    struct kvt_resample_options how = {.count = outputs->resamples,
                                       .seed = base->config->run.seed,
                                       .exact = cli->exact_steps,
                                       .stop = &kvt_cli_interrupted,
                                       .tell = {kvt_progress_tell, &outputs->progress}};
    if (how.count == 0)
        return KVT_OK;
    if (how.count < KVT_RESAMPLES_FEW)
        kvt_cli_say(
            cli, 0,
            "kvtwin: note: of fewer than %d resamples low and high are the smallest and the "
            "largest",
            KVT_RESAMPLES_FEW);
    kvt_progress_begin(&outputs->progress, "resampling", "resamples", kvt_cli_shows_progress(cli));
    enum kvt_status status = kvt_resample(&resamples, base, summary, &how, err);
    kvt_progress_end(&outputs->progress);
    if (status == KVT_OK)
        status = kvt_resamples_annotate(&resamples, summary, err);
    kvt_resamples_release(&resamples);
    return status;
}

static enum kvt_status print(const struct kvt_cli *cli, const struct kvt_summary *summary,
                             struct kvt_err *err)
{
    if (cli->format == KVT_FORMAT_JSON)
        return kvt_summary_json(summary, stdout, err);
    if (cli->format == KVT_FORMAT_CSV)
        return kvt_summary_csv(summary, stdout, err);
    return kvt_summary_text(summary, stdout, err);
}

/* Why a table is empty. */
static void say_why_empty(const struct kvt_cli *cli, const struct kvt_summary *summary)
{
    const struct kvt_fate_counts *counted = &summary->counted;
    int64_t rejected = counted->fates[KVT_FATE_REJECTED];
    if (counted->arrived == 0)
        kvt_cli_say(cli, 0,
                    "kvtwin: warning: nothing is counted: no request arrived after run.warmup "
                    "(%.6g s)",
                    kvt_seconds_from_ticks(summary->result->warmup));
    else if (rejected == counted->arrived)
        kvt_cli_say(cli, 0,
                    "kvtwin: warning: rejected %lld of %lld requests: they are longer than "
                    "max_model_len, or than the KV pool of a replica",
                    (long long)rejected, (long long)counted->arrived);
}

/* What a run says, in the file and on stdout; when the resamples were interrupted, without its
 * intervals. */
static enum kvt_status report(const struct kvt_cli *cli, struct outputs *outputs,
                              const struct kvt_simulation *simulation, struct kvt_result *result,
                              double start, struct kvt_err *err)
{
    static struct kvt_summary summary;
    struct kvt_arena arena;
    KVT_TRY(kvt_arena_init(&arena, 16 << 20, err));
    enum kvt_status status = kvt_summary_init(&summary, result, &arena, err);
    enum kvt_status resampled = KVT_OK;
    if (status == KVT_OK && !result->interrupted)
        say_why_empty(cli, &summary);
    if (status == KVT_OK && !result->interrupted)
        resampled = resample(cli, outputs, simulation, &summary, err);
    if (resampled != KVT_EINTR && resampled != KVT_OK)
        status = resampled;
    double before = kvt_wall_seconds();
    if (status == KVT_OK)
        status = kvt_simulate_outputs_finish(&outputs->files, &summary, err);
    result->timing.write_s = cli->output != NULL ? kvt_wall_seconds() - before : -1;
    result->timing.show = cli->timing;
    result->timing.wall_s = kvt_wall_seconds() - start;
    if (status == KVT_OK)
        status = print(cli, &summary, err);
    kvt_arena_release(&arena);
    return status != KVT_OK ? status : resampled;
}

static enum kvt_status simulate(const struct kvt_cli *cli, const struct kvt_config *config,
                                struct outputs *outputs, double start, struct kvt_err *err)
{
    static struct kvt_simulation simulation;
    struct kvt_simulate_options how = {.exact = cli->exact_steps,
                                       .planned = true,
                                       .talk = cli->verbosity >= 0 ? stderr : NULL,
                                       .stop = &kvt_cli_interrupted,
                                       .tell = {kvt_progress_tell, &outputs->progress}};
    int64_t resamples;
    KVT_TRY(kvt_cli_get_int(cli, "resamples", 0, KVT_RESAMPLES_MAX, 0, &resamples, err));
    outputs->resamples = (int32_t)resamples;
    kvt_cli_say_rates(cli, config);
    KVT_TRY(kvt_simulate_outputs_begin(&outputs->files, cli, &how, err));
    KVT_TRY(kvt_simulation_init(&simulation, config, &how, err));
    enum kvt_status opened = kvt_simulate_outputs_open(&outputs->files, &simulation, err);
    if (opened != KVT_OK) {
        kvt_simulation_release(&simulation);
        return opened;
    }
    kvt_progress_begin(&outputs->progress, "simulating", "requests", kvt_cli_shows_progress(cli));
    enum kvt_status ran = kvt_simulation_run(&simulation, &how, err);
    kvt_progress_end(&outputs->progress);
    struct kvt_result result;
    enum kvt_status status = KVT_OK;
    if (ran == KVT_OK || ran == KVT_EINTR) {
        struct kvt_err own = {0};
        status = kvt_simulation_result(&simulation, &result, &own);
        if (status == KVT_OK)
            status = report(cli, outputs, &simulation, &result, start, &own);
        if (status != KVT_OK)
            kvt_err_set(err, status, "%s", own.text);
    }
    kvt_simulation_release(&simulation);
    return status != KVT_OK ? status : ran;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    double start = kvt_wall_seconds();
    static struct kvt_config config;
    bool done, explains = kvt_cli_get(cli, "explain-step") != NULL;
    KVT_TRY(check_options(cli, explains, err));
    KVT_TRY(kvt_cli_config(cli, cli->operands[0], &config, &done, err));
    if (done)
        return KVT_OK;
    static struct outputs outputs;
    outputs = (struct outputs){0};
    enum kvt_status status =
        explains ? explain(cli, &config, err) : simulate(cli, &config, &outputs, start, err);
    kvt_simulate_outputs_abandon(&outputs.files);
    kvt_config_release(&config);
    return status;
}

const struct kvt_command kvt_command_simulate = {
    .name = "simulate",
    .operands = "CONFIG",
    .help = "run a trace or a generated load; print the serving table",
    .description =
        "The fleet of the config serves its workload in simulated time: the decisions are those of "
        "the engine's scheduler, a step takes what the calibration of its GPU says. With -o the "
        "requests, time series, metrics and the effective config go into one HDF5 file.",
    .example = "kvtwin simulate configs/examples/quickstart.yaml -o run.h5\n"
               "kvtwin simulate configs/examples/azure-conv.yaml --set fleet.serve.replicas=2 "
               "--timing",
    .uses = KVT_USES_CONFIG | KVT_USES_OUTPUT | KVT_USES_ENGINE,
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .run = run,
};
