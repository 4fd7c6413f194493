/* Engines without memory: each allocation of a run fails once, of the host and of the CPU device.
 * Every failure is told as one, and all memory is returned. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "runtime/fault_trial.h"
#include "runtime/validate.h"
#include "tests/check.h"
#include "tests/runtime/fleets.h"
#include "tests/scarce.h"

static const char disaggregated[] = FLEETS_DISAGGREGATED("5", "3", "30", "20");
static const char colocated[] = FLEETS_COLOCATED("6", "2", "20", "10");

struct job {
    const char *text;
    const char *const *sets;
    int32_t set_count;
    enum kvt_status (*run)(struct kvt_config *config, struct kvt_err *err);
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

/* The Nth allocation of a job fails; true while there was an Nth. It may do without one that only
 * makes a block smaller: *unhurt counts those. */
static bool fails_at(const struct job *job, long n, long *unhurt)
{
    struct kvt_config config;
    struct kvt_err err = {0};
    struct scarce_left left;
    char note[300];
    CHECK_OK(kvt_config_parse(&config, "c.yaml", job->text, strlen(job->text), "", job->sets,
                              job->set_count, &err),
             err);
    if (err.status != KVT_OK)
        return false;
    scarce_begin(n);
    enum kvt_status status = job->run(&config, &err);
    bool was = scarce_end(&left) >= n;
    kvt_config_release(&config);
    snprintf(note, sizeof note, "allocation %ld, %.200s", n, err.text);
    CHECK_I64(left.blocks, 0, note);
    CHECK_I64(left.mapped_bytes, 0, note);
    if (!was)
        CHECK_OK(status, err);
    else if (status == KVT_OK)
        ++*unhurt;
    else
        CHECK_I64(status, KVT_ENOMEM, note);
    return was;
}

/* Every `stride`th. */
static void allocations_fail(const struct job *job, long stride)
{
    int threads = omp_get_max_threads();
    omp_set_num_threads(1); /* kernels this small only wait for each other */
    long n = 1, tried = 0, unhurt = 0;
    struct kvt_config config;
    struct kvt_err err = {0};
    CHECK_OK(kvt_config_parse(&config, "c.yaml", job->text, strlen(job->text), "", job->sets,
                              job->set_count, &err),
             err);
    CHECK_OK(job->run(&config, &err), err); /* what is kept for good is taken here */
    kvt_config_release(&config);
    for (; err.status == KVT_OK && fails_at(job, n, &unhurt); n += stride)
        tried++;
    CHECK_NOTE(tried > 20, "allocations failed");
    CHECK_NOTE(unhurt <= 3, "of the arrays of a trace, once it is known how long it is");
    omp_set_num_threads(threads);
}

static void engines_that_serve_tell_what_they_lack(void)
{
    const struct job gqa = {.text = disaggregated, .run = serve};
    const struct job mla = {.text = colocated, .run = serve};
    allocations_fail(&gqa, 1);
    allocations_fail(&mla, 5);
}

static void a_validation_tells_what_it_lacks(void)
{
    static const char *const sets[] = {
        "fleet.prefill.scheduler.max_running=1", "fleet.decode.scheduler.max_running=2",
        "fleet.prefill.scheduler.chunk_tokens=16", "workload.open.requests=2"};
    const struct job job = {.text = disaggregated, .sets = sets, .set_count = 4, .run = validate};
    allocations_fail(&job, 11);
}

static void trials_tell_what_they_lack(void)
{
    static const char *const sets[] = {"faults.everywhere=true", "faults.trials=1",
                                       "faults.kinds=[late-write]",
                                       "fleet.decode.guard={digest: {check: before-read}}"};
    const struct job job = {.text = disaggregated, .sets = sets, .set_count = 4, .run = try_faults};
    allocations_fail(&job, 11);
}

const struct check_test check_scarce[] = {
    {"engines that serve tell what they lack", engines_that_serve_tell_what_they_lack, false},
    {"a validation tells what it lacks", a_validation_tells_what_it_lacks, false},
    {"trials tell what they lack", trials_tell_what_they_lack, false},
    {NULL, NULL, false},
};
