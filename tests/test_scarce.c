/* Runs without what they ask for: each call that takes memory, and each wait for a device, fails
 * once on a way to it from each place. Every failure is told as one, and all memory is returned. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "runtime/fault_trial.h"
#include "runtime/validate.h"
#include "sim/base/file.h"
#include "sim/plan/campaign.h"
#include "sim/plan/evaluate.h"
#include "sim/plan/fault_estimate.h"
#include "sim/plan/search.h"
#include "sim/plan/serving_fit.h"
#include "sim/plan/sweep.h"
#include "tests/check.h"
#include "tests/devices.h"
#include "tests/runtime/fleets.h"
#include "tests/scarce.h"

static const char disaggregated[] = FLEETS_DISAGGREGATED("5", "3", "30", "20");
static const char colocated[] = FLEETS_COLOCATED("6", "2", "20", "10");

struct job {
    const char *name, *text;
    const char *const *sets;
    int32_t set_count;
    enum kvt_status (*run)(struct kvt_config *config, struct kvt_err *err);
    long unhurt; /* calls that it can do without, at most */
};

static double fixed_time(void *context, int32_t replica, const struct kvt_step *step)
{
    (void)context;
    (void)replica;
    return step->chunk_count > 0 ? 0.001 : 0.004;
}

/* Engines serve, and what they did is replayed on them. */
static enum kvt_status serve(struct kvt_config *config, struct kvt_err *err)
{
    static struct kvt_runtime runtime;
    static struct kvt_drive drive;
    struct kvt_order order = {0};
    struct kvt_replay replay;
    const struct kvt_runtime_want want = {
        .backend = KVT_BACKEND_CPU, .tag_check = true, .repeats = 1};
    runtime = (struct kvt_runtime){0};
    drive = (struct kvt_drive){.runtime = &runtime, .time = fixed_time, .order = &order};
    enum kvt_status status = kvt_runtime_init(&runtime, config, &want, err);
    if (status == KVT_OK)
        status = kvt_drive_begin(&drive, config, err);
    if (status == KVT_OK)
        status = kvt_drive_run(&drive, err);
    if (status == KVT_OK)
        status = kvt_replay_run(&replay, &order, &drive.simulation.des.spec,
                                &drive.simulation.trace, &runtime, config->run.seed, NULL, err);
    kvt_drive_release(&drive);
    kvt_runtime_release(&runtime);
    kvt_order_release(&order);
    return status;
}

static enum kvt_status validate(struct kvt_config *config, struct kvt_err *err)
{
    struct kvt_validation validation;
    const struct kvt_validate_want want = {.backend = KVT_BACKEND_CPU, .brief = true};
    enum kvt_status status = kvt_validate(&validation, config, &want, err);
    kvt_validation_release(&validation);
    return status;
}

static enum kvt_status try_faults(struct kvt_config *config, struct kvt_err *err)
{
    struct kvt_fault_trials trials = {0};
    const struct kvt_fault_trials_want want = {
        .backend = KVT_BACKEND_CPU, .threads = 1, .skip = -1};
    enum kvt_status status = kvt_fault_trials_run(config, &want, &trials, err);
    kvt_fault_trials_release(&trials);
    return status;
}

static enum kvt_status run_job(void *context, struct kvt_err *err)
{
    const struct job *job = context;
    struct kvt_config config;
    omp_set_num_threads(1); /* of this thread: kernels this small only wait for each other */
    enum kvt_status status = kvt_config_parse(&config, "c.yaml", job->text, strlen(job->text), "",
                                              job->sets, job->set_count, err);
    if (status == KVT_OK)
        status = job->run(&config, err);
    kvt_config_release(&config);
    return status;
}

static void try_job(struct job job)
{
    int threads = omp_get_max_threads();
    long tried = scarce_try(run_job, &job, job.name, job.unhurt);
    CHECK_NOTE(tried > 20, job.name);
    omp_set_num_threads(threads);
}

static void engines_that_serve_tell_what_they_lack(void)
{
    try_job((struct job){.name = "engines, GQA", .text = disaggregated, .run = serve, .unhurt = 3});
    try_job((struct job){.name = "engines, MLA", .text = colocated, .run = serve, .unhurt = 3});
}

static void a_validation_tells_what_it_lacks(void)
{
    static const char *const sets[] = {
        "fleet.prefill.scheduler.max_running=1", "fleet.decode.scheduler.max_running=2",
        "fleet.prefill.scheduler.chunk_tokens=16", "workload.open.requests=2"};
    try_job((struct job){.name = "a validation",
                         .text = disaggregated,
                         .sets = sets,
                         .set_count = 4,
                         .run = validate,
                         .unhurt = 3});
}

static void trials_tell_what_they_lack(void)
{
    static const char *const sets[] = {"faults.everywhere=true", "faults.trials=1",
                                       "faults.kinds=[late-write]",
                                       "fleet.decode.guard={digest: {check: before-read}}"};
    try_job((struct job){.name = "trials",
                         .text = disaggregated,
                         .sets = sets,
                         .set_count = 4,
                         .run = try_faults,
                         .unhurt = 1});
}

static long waits_left;

static bool fails_once(void)
{
    return waits_left-- == 0;
}

/* A device that fails once and then goes on: no step after it would tell. */
static void a_wait_that_fails_once_is_told(void)
{
    static const char *const sets[] = {"faults.everywhere=true", "faults.trials=1",
                                       "faults.kinds=[late-write]",
                                       "fleet.decode.guard={digest: {check: before-read}}"};
    struct job job = {.text = disaggregated, .sets = sets, .set_count = 4, .run = try_faults};
    const long most = 1 << 30;
    struct kvt_err err = {0};
    int threads = omp_get_max_threads();
    waits_left = most;
    devices_are(false, fails_once);
    CHECK_OK(run_job(&job, &err), err);
    long waits = most - waits_left;
    CHECK_NOTE(waits > 100, "there is something to wait for");
    for (long wait = 0; wait < waits; wait += waits / 40) {
        err = (struct kvt_err){0};
        waits_left = wait;
        CHECK_FAILS(run_job(&job, &err), err, KVT_EDEVICE);
    }
    devices_are(false, NULL);
    omp_set_num_threads(threads);
}

/* ---- without engines ---- */

/* What a run does without: the room that a trace does not need is not given back, a model is looked
 * for among all, a calibration is read again, and a bound is not known. */
#define WITHOUT 14

static const char run_text[] =
    "model: llama-3.1-8b\n"
    "engine: sglang\n"
    "fleet:\n"
    "  prefill: {gpu: h100-sxm, page_tokens: 16}\n"
    "  decode: {gpu: h100-sxm, page_tokens: 16, memory: {pages: 2000}, guard: fifo}\n"
    "  link: {bandwidth: 2 GB/s}\n"
    "workload:\n"
    "  aborts: {share: 0.3, after: 2 s}\n"
    "  open: {rate: 20 req/s, requests: 12, input: 300, output: 30}\n"
    "run: {seed: 3, until: 3 s}\n"
    "slo: {ttft: {p90: 1 s}}\n";

static enum kvt_status evaluate(struct kvt_config *config, struct kvt_err *err)
{
    static struct kvt_evaluation evaluation;
    const struct kvt_resample_options how = {.count = 2, .seed = 1};
    KVT_TRY(kvt_evaluate(&evaluation, config, NULL, &how, err));
    kvt_evaluation_release(&evaluation);
    return KVT_OK;
}

static enum kvt_status inject(struct kvt_config *config, struct kvt_err *err)
{
    static struct kvt_cell cells[KVT_FAULT_COUNT];
    const struct kvt_campaign_options how = {.threads = 1, .branch = true};
    return kvt_campaign_run(config, &how, cells, err);
}

static enum kvt_status inject_plan(struct kvt_config *config, struct kvt_err *err)
{
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static struct kvt_fault_result results[KVT_STRIKES_MAX];
    const struct kvt_campaign_options how = {.threads = 1};
    int32_t count;
    return kvt_fault_run(config, &how, strikes, results, &count, err);
}

static enum kvt_status estimate(struct kvt_config *config, enum kvt_fault_estimator estimator,
                                struct kvt_err *err)
{
    struct kvt_fault_estimate result;
    const struct kvt_campaign_options how = {.threads = 1, .branch = true};
    return kvt_fault_estimate(config, &how, estimator, 0, &result, err);
}

static enum kvt_status estimate_weighted(struct kvt_config *config, struct kvt_err *err)
{
    return estimate(config, KVT_ESTIMATE_IMPORTANCE, err);
}

static enum kvt_status estimate_split(struct kvt_config *config, struct kvt_err *err)
{
    return estimate(config, KVT_ESTIMATE_SPLITTING, err);
}

static void runs_tell_what_they_lack(void)
{
    static const char *const closed[] = {
        "workload={closed: {concurrency: 2, input: 300, output: 20, requests: 6}}"};
    try_job((struct job){.name = "a run", .text = run_text, .run = evaluate, .unhurt = WITHOUT});
    try_job((struct job){.name = "a closed loop",
                         .text = run_text,
                         .sets = closed,
                         .set_count = 1,
                         .run = evaluate,
                         .unhurt = WITHOUT});
}

static void campaigns_tell_what_they_lack(void)
{
    static const char *const trials[] = {"faults={trials: 2, kinds: [leak, wrong-map]}"};
    static const char *const plan[] = {"faults.plan=[{fault: wrong-map, at: 0.5 s}]"};
    static const char *const rates[] = {
        "faults={trials: 9, rates: [{fault: wrong-map, rate: 2000, per: hour}]}"};
    const struct {
        const char *name, *const *sets;
        enum kvt_status (*run)(struct kvt_config *config, struct kvt_err *err);
    } rows[] = {{"a campaign", trials, inject},
                {"a plan of faults", plan, inject_plan},
                {"an estimate by weights", rates, estimate_weighted},
                {"an estimate by splitting", rates, estimate_split}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        try_job((struct job){.name = rows[i].name,
                             .text = run_text,
                             .sets = rows[i].sets,
                             .set_count = 1,
                             .run = rows[i].run,
                             .unhurt = WITHOUT});
}

static const char points_text[] =
    "model: qwen3-0.6b\n"
    "engine: vllm\n"
    "fleet:\n"
    "  serve: {gpu: {choices: [l4, h100-sxm]}, replicas: {choices: [1, 2]}}\n"
    "workload: {open: {rate: 5 req/s, input: 300, output: 10, requests: 8}}\n"
    "slo: {ttft: {p90: 400 ms}, itl: {p99: 50 ms}}\n"
    "cost: {h100-sxm: 2.5 USD/h, l4: 0.6 USD/h}\n"
    "plan: {resamples: 2, lose: 1}\n";

/* The points of a file; path is that of the file. */
static enum kvt_status with_points(const char *path,
                                   enum kvt_status (*run)(const struct kvt_points *points,
                                                          struct kvt_err *err),
                                   struct kvt_err *err)
{
    struct kvt_config config;
    struct kvt_points points;
    omp_set_num_threads(1);
    KVT_TRY(kvt_config_load(&config, path, NULL, 0, err));
    enum kvt_status status = kvt_points_init(&points, &config, path, NULL, 0, err);
    if (status == KVT_OK)
        status = run(&points, err);
    kvt_points_release(&points);
    kvt_config_release(&config);
    return status;
}

static enum kvt_status run_sweep(const struct kvt_points *points, struct kvt_err *err)
{
    static struct kvt_sweep sweep;
    struct kvt_ranks alone = {.count = 1};
    const struct kvt_sweep_options how = {.threads = 1, .resamples = 2};
    enum kvt_status status = kvt_sweep_run(&sweep, points, &alone, &how, err);
    bool failed = false;
    for (int64_t i = 0; status == KVT_OK && i < sweep.count; i++)
        failed = failed || sweep.status[i] == KVT_ENOMEM;
    kvt_sweep_release(&sweep);
    return failed ? kvt_err_set(err, KVT_ENOMEM, "told of a point") : status;
}

static enum kvt_status run_search(const struct kvt_points *points, struct kvt_err *err)
{
    static struct kvt_search search;
    const struct kvt_search_options how = {.threads = 1};
    enum kvt_status status = kvt_search_run(&search, points, &how, err);
    kvt_search_release(&search);
    return status;
}

static enum kvt_status sweep_file(void *context, struct kvt_err *err)
{
    return with_points(context, run_sweep, err);
}

static enum kvt_status search_file(void *context, struct kvt_err *err)
{
    return with_points(context, run_search, err);
}

static void points_tell_what_they_lack(void)
{
    char path[300];
    struct kvt_err err = {0};
    snprintf(path, sizeof path, "%s", check_temp("scarce.yaml"));
    CHECK_OK(kvt_file_write(path, points_text, strlen(points_text), &err), err);
    CHECK_NOTE(scarce_try(sweep_file, path, "a sweep", WITHOUT) > 20, "sweep");
    CHECK_NOTE(scarce_try(search_file, path, "a search", WITHOUT) > 20, "search");
    remove(path);
}

static enum kvt_status fit_server(struct kvt_config *config, struct kvt_err *err)
{
    char results[] = /* is changed as it is read */
        "{\"backend\": \"sglang\", \"request_rate\": Infinity, \"max_concurrency\": 2, "
        "\"total_throughput\": 1, "
        "\"completed\": 4, \"total_input_tokens\": 2000, \"total_output_tokens\": 80, "
        "\"mean_ttft_ms\": 200.0, \"mean_tpot_ms\": 25.0, \"output_throughput\": 74.0}";
    struct kvt_bench_file file;
    struct kvt_serving_fit fit;
    KVT_TRY(kvt_bench_file_parse(&file, "bench.json", results, sizeof results - 1, err));
    const struct kvt_serving_run run = {"bench.json", &file.runs[0]};
    enum kvt_status status = kvt_serving_fit(&fit, config, &run, 1, 1, NULL, NULL, err);
    if (status == KVT_OK)
        kvt_serving_fit_release(&fit);
    kvt_bench_file_release(&file);
    return status;
}

static void a_fit_tells_what_it_lacks(void)
{
    static const char text[] =
        "model: qwen3-0.6b\nengine: sglang\nfleet: {serve: {gpu: h100-sxm}}\n";
    try_job((struct job){.name = "a fit", .text = text, .run = fit_server, .unhurt = WITHOUT});
}

const struct check_test check_scarce[] = {
    {"engines that serve tell what they lack", engines_that_serve_tell_what_they_lack, false},
    {"a validation tells what it lacks", a_validation_tells_what_it_lacks, false},
    {"trials tell what they lack", trials_tell_what_they_lack, false},
    {"a wait that fails once is told", a_wait_that_fails_once_is_told, false},
    {"runs tell what they lack", runs_tell_what_they_lack, false},
    {"campaigns tell what they lack", campaigns_tell_what_they_lack, false},
    {"points tell what they lack", points_tell_what_they_lack, false},
    {"a fit tells what it lacks", a_fit_tells_what_it_lacks, false},
    {NULL, NULL, false},
};
