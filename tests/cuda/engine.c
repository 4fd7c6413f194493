/*
 * Engines on the emulated CUDA device: prompts, hand-offs, retractions and decode steps give what
 * the reference backend gives, the host touches no device memory, and all of it is returned.
 *
 *   engine [PART ...]    tests whose name holds one of the parts; exit 1 when a check fails
 *
 * The reference runs first; its decisions, counts and logits are kept. Then the same config runs on
 * the emulated device, each step with the reference's tokens before it, so that every step's logits
 * can be compared: rows are within `tolerance` of the mean, a token that differs is one that the
 * reference's own logits hold within as much of the best. Where experts are routed some rows may be
 * far off: those whose router was near a tie and chose another expert.
 */
#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive.h"
#include "runtime/fault_trial.h"
#include "runtime/validate.h"
#include "tests/cuda/emulated.h"
#include "tests/runtime/fleets.h"

static const char *running;
static int failures;

__attribute__((format(printf, 3, 4))) static bool check(bool holds, int line, const char *format,
                                                        ...)
{
    if (holds)
        return true;
    va_list list;
    va_start(list, format);
    fprintf(stderr, "tests/cuda/engine.c:%d: %s: ", line, running);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    failures++;
    return false;
}
#define CHECK(holds, ...) check((holds), __LINE__, __VA_ARGS__)
#define OK(expr)          check((expr) == KVT_OK, __LINE__, "%s: %s", #expr, err.text)

static const char disaggregated[] = FLEETS_DISAGGREGATED("7", "4", "24", "24");
static const char colocated[] = FLEETS_COLOCATED("8", "3", "20", "20");

/* ---- a run that keeps its logits --------------------------------------------------------------
 */

struct logits {
    kvt_bf16 *values;
    int32_t rows;
};

struct world {
    struct kvt_config config;
    struct kvt_runtime runtime;
    struct kvt_drive drive;
    struct logits *steps;
    int64_t step_count, step_room;
    const struct world *model; /* whose tokens are taken and logits compared; NULL: none */
    double tolerance, off, size;
    int64_t tokens, other_tokens, far_off;
};

/* The clock of these runs: what crowds a pool must not depend on the machine. */
static double fixed_time(void *context, int32_t replica, const struct kvt_step *step)
{
    (void)context;
    (void)replica;
    return step->chunk_count > 0 ? 0.001 : 0.004;
}

static int32_t best_of(const kvt_bf16 *row, int32_t columns)
{
    int32_t token = 0;
    kvt_ref_argmax(row, 1, columns, &token);
    return token;
}

static void compare_row(struct world *world, const kvt_bf16 *got, const kvt_bf16 *want,
                        int32_t columns)
{
    double off = 0, size = 0, largest = 0;
    for (int32_t i = 0; i < columns; i++) {
        double x = (double)kvt_bf16_to_float(got[i]), y = (double)kvt_bf16_to_float(want[i]);
        off += fabs(x - y);
        size += fabs(y);
        largest = fmax(largest, fabs(y));
    }
    world->off += off;
    world->size += size;
    int32_t token = best_of(got, columns), wanted = best_of(want, columns);
    world->tokens++;
    world->other_tokens += token != wanted;
    if (off > world->tolerance * size) {
        world->far_off++;
        return;
    }
    CHECK(token >= 0 && (double)kvt_bf16_to_float(want[wanted]) -
                                (double)kvt_bf16_to_float(want[token < 0 ? 0 : token]) <=
                            2 * world->tolerance * largest,
          "step %lld: token %d, want %d", (long long)world->step_count, token, wanted);
}

static void keep_step(void *context, const struct kvt_step_record *record)
{
    struct world *world = context;
    struct kvt_real_replica *replica = &world->runtime.replicas[record->replica];
    struct kvt_err err = {0};
    int32_t rows = replica->rows.outputs, columns = replica->weights.model->vocab;
    size_t count = (size_t)rows * (size_t)columns;
    kvt_bf16 *values = calloc(count + 1, sizeof *values);
    if (count > 0)
        replica->device.ops->copy(&replica->device, values, replica->forward.logits, count * 2);
    OK(replica->device.ops->wait(&replica->device, &err));
    const struct world *model = world->model;
    if (model != NULL && CHECK(world->step_count < model->step_count, "more steps")) {
        const struct logits *want = &model->steps[world->step_count];
        if (CHECK(want->rows == rows, "step %lld: other rows", (long long)world->step_count))
            for (int32_t r = 0; r < rows; r++)
                compare_row(world, values + (int64_t)r * columns,
                            want->values + (int64_t)r * columns, columns);
        const struct kvt_trace *trace = world->runtime.trace;
        memcpy(world->runtime.text, model->runtime.text,
               (size_t)world->runtime.text_begin[trace->count] * sizeof(int32_t));
    }
    if (world->step_count == world->step_room) {
        world->step_room = 2 * world->step_room + 64;
        world->steps = realloc(world->steps, (size_t)world->step_room * sizeof *world->steps);
    }
    world->steps[world->step_count++] = (struct logits){values, rows};
}

static bool run_world(struct world *world, const char *text, enum kvt_backend backend,
                      const char *const sets[], int32_t set_count)
{
    struct kvt_err err = {0};
    struct kvt_runtime_want want = {.backend = backend, .tag_check = true, .repeats = 1};
    if (!OK(kvt_config_parse(&world->config, "c.yaml", text, strlen(text), "", sets, set_count,
                             &err)) ||
        !OK(kvt_runtime_init(&world->runtime, &world->config, &want, &err)))
        return false;
    world->runtime.hooks = (struct kvt_runtime_hooks){.context = world, .record = keep_step};
    world->drive.runtime = &world->runtime;
    world->drive.time = fixed_time;
    return OK(kvt_drive_begin(&world->drive, &world->config, &err)) &&
           OK(kvt_drive_run(&world->drive, &err));
}

static void end_world(struct world *world)
{
    for (int64_t i = 0; i < world->step_count; i++)
        free(world->steps[i].values);
    free(world->steps);
    kvt_drive_release(&world->drive);
    kvt_runtime_release(&world->runtime);
    kvt_config_release(&world->config);
}

/* far: share of rows that may be off; crowded: the pool is so tight that requests are retracted. */
static void compare_backends(const char *text, double tolerance, double far, bool crowded,
                             const char *const sets[], int32_t set_count)
{
    static struct world want, got;
    want = (struct world){0};
    got = (struct world){.model = &want, .tolerance = tolerance};
    if (run_world(&want, text, KVT_BACKEND_REFERENCE, sets, set_count) &&
        run_world(&got, text, KVT_BACKEND_CUDA, sets, set_count)) {
        const struct kvt_runtime_counts *a = &want.runtime.counts, *b = &got.runtime.counts;
        const struct kvt_core *core = &got.drive.simulation.des.core;
        CHECK(core->log.digest == want.drive.simulation.des.core.log.digest, "other decisions");
        CHECK(a->steps == b->steps && a->rows == b->rows && a->checks == b->checks, "other steps");
        CHECK(a->moved_bytes == b->moved_bytes && a->saved_bytes == b->saved_bytes &&
                  a->restored_bytes == b->restored_bytes,
              "other bytes were moved");
        CHECK(b->checks > 0 && b->failures == 0, "%lld of %lld tags failed", (long long)b->failures,
              (long long)b->checks);
        CHECK((core->preemptions > 0) == crowded, "%lld retractions", (long long)core->preemptions);
        for (int32_t i = 0; i < got.runtime.replica_count; i++)
            CHECK(got.runtime.replicas[i].forward.poisoned == 0, "NaN was written");
        CHECK((double)got.far_off <= far * (double)got.tokens, "%lld of %lld rows are far off",
              (long long)got.far_off, (long long)got.tokens);
        CHECK(got.other_tokens * 8 <= got.tokens, "%lld of %lld tokens differ",
              (long long)got.other_tokens, (long long)got.tokens);
        printf("    %lld steps, %lld of %lld tokens the same, logits within %.4f, %lld far off\n",
               (long long)b->steps, (long long)(got.tokens - got.other_tokens),
               (long long)got.tokens, got.off / got.size, (long long)got.far_off);
    }
    end_world(&got);
    end_world(&want);
}

static void gqa_is_handed_off(void)
{
    compare_backends(disaggregated, 0.03, 0, true, NULL, 0);
}

static void pages_alike_are_copied(void)
{
    static const char *const sets[] = {"fleet.decode.kv=bf16", "fleet.prefill.weights=fp8",
                                       "fleet.decode.weights=fp8", "workload.open.requests=2",
                                       "fleet.decode.memory.pages=40"};
    compare_backends(disaggregated, 0.25, 0, false, sets, 5); /* activations are E4M3 as well */
}

static void mla_with_experts(void)
{
    compare_backends(colocated, 0.05, 0.1, false, NULL, 0);
}

/* ---- a device and its limits ------------------------------------------------------------------
 */

static void memory_is_limited_and_returned(void)
{
    struct kvt_device device;
    struct kvt_err err = {0};
    void *a, *b, *c;
    if (!OK(kvt_device_open(&device, KVT_BACKEND_CUDA, 10000, &err)))
        return;
    OK(kvt_device_take(&device, 6000, "a", &a, &err));
    CHECK(kvt_device_take(&device, 4000, "b", &b, &err) == KVT_ENOMEM && b == NULL, "over it");
    CHECK(device.used == 6016, "used %lld", (long long)device.used);
    unsigned char bytes[64];
    memset(bytes, 1, sizeof bytes);
    device.ops->copy(&device, bytes, (char *)a + 5000, sizeof bytes);
    OK(device.ops->wait(&device, &err));
    for (size_t i = 0; i < sizeof bytes; i++)
        CHECK(bytes[i] == 0, "memory that is not zeroed");
    cuda_emulated_limit(cuda_emulated_bytes() + 100); /* the device itself has no more */
    err = (struct kvt_err){0};
    CHECK(kvt_device_take(&device, 3000, "c", &c, &err) == KVT_ENOMEM && c == NULL, "%s", err.text);
    kvt_device_give(&device, a, 6000);
    kvt_device_close(&device);
    cuda_emulated_limit((size_t)40 << 20);
    err = (struct kvt_err){0};
    CHECK(kvt_device_open(&device, KVT_BACKEND_CUDA, 16 << 20, &err) == KVT_ENOMEM &&
              strstr(err.text, "bytes free") != NULL,
          "%s", err.text);
    cuda_emulated_limit((size_t)1 << 30);
}

/* A launch that is refused is told by the next wait, once. */
static void errors_wait_for_the_wait(void)
{
    struct kvt_device device;
    struct kvt_err err = {0};
    if (!OK(kvt_device_open(&device, KVT_BACKEND_CUDA, 1 << 20, &err)))
        return;
    struct kvt_rope rope = {.rows = 1, .heads = 1, .dim = 3};
    device.ops->rope(&device, &rope);
    CHECK(device.ops->wait(&device, &err) == KVT_ELIMIT && strstr(err.text, "rope") != NULL, "%s",
          err.text);
    err = (struct kvt_err){0};
    OK(device.ops->wait(&device, &err));
    CHECK(device.ops->capture(&device, &err) == KVT_EDEVICE, "graphs are not emulated");
    kvt_device_close(&device);
}

/* ---- strikes on its pages -------------------------------------------------------------------- */

static void strikes_end_as_simulated_ones(void)
{
    struct kvt_config config;
    struct kvt_fault_trials trials = {0};
    struct kvt_err err = {0};
    struct kvt_fault_trials_want want = {.backend = KVT_BACKEND_CUDA, .skip = -1};
    static const char *const sets[] = {"workload.open.requests=2", "workload.open.output=4",
                                       "faults.everywhere=true", "faults.trials=1",
                                       "faults.kinds=[partial-transfer, residue]"};
    int32_t exposed = 0;
    if (!OK(kvt_config_parse(&config, "c.yaml", disaggregated, strlen(disaggregated), "", sets, 5,
                             &err)))
        return;
    OK(kvt_fault_trials_run(&config, &want, &trials, &err));
    CHECK(trials.count == 2, "%lld trials", (long long)trials.count);
    for (int64_t i = 0; i < trials.count; i++) {
        const struct kvt_fault_trial *trial = &trials.trials[i];
        CHECK(trial->agrees, "%s: simulated %s%s, real %s%s", kvt_fault_names[trial->kind],
              kvt_outcome_names[trial->simulated.outcome],
              trial->simulated.exposed ? " exposed" : "", kvt_outcome_names[trial->real.outcome],
              trial->real.exposed ? " exposed" : "");
        exposed += trial->real.exposed;
    }
    CHECK(exposed == 2, "%d strikes were read", exposed);
    printf("    %lld strikes end as simulated, %d read wrong bytes\n", (long long)trials.count,
           exposed);
    kvt_fault_trials_release(&trials);
    kvt_config_release(&config);
}

/* ---- calls that fail ------------------------------------------------------------------------- */

/* A few steps of both roles; whether a failure that came before the end was told. */
static enum kvt_status run_shortly(struct kvt_err *err, long *calls)
{
    static struct kvt_config config;
    static struct kvt_runtime runtime;
    static struct kvt_drive drive;
    static const char *const sets[] = {"workload.open.requests=1", "workload.open.input=17",
                                       "workload.open.output=3"};
    struct kvt_runtime_want want = {.backend = KVT_BACKEND_CUDA, .tag_check = true, .repeats = 1};
    runtime = (struct kvt_runtime){0};
    drive = (struct kvt_drive){.runtime = &runtime, .time = fixed_time};
    KVT_TRY(kvt_config_parse(&config, "c.yaml", disaggregated, strlen(disaggregated), "", sets, 3,
                             err));
    enum kvt_status status = kvt_runtime_init(&runtime, &config, &want, err);
    if (status == KVT_OK)
        status = kvt_drive_begin(&drive, &config, err);
    if (status == KVT_OK)
        status = kvt_drive_run(&drive, err);
    *calls = cuda_emulated_calls();
    kvt_drive_release(&drive);
    kvt_runtime_release(&runtime);
    kvt_config_release(&config);
    return status;
}

/* Every third call while the engines open, then every 61st. */
static void every_call_may_fail(void)
{
    long tried = 0, whole = 0;
    for (long n = 1; whole == 0 && failures < 5; n += n < 60 ? 3 : 61) {
        struct kvt_err err = {0};
        long calls = 0;
        cuda_emulated_fail(n);
        enum kvt_status status = run_shortly(&err, &calls);
        cuda_emulated_fail(0);
        if (calls < n) {
            CHECK(status == KVT_OK, "undisturbed: %s", err.text);
            whole = calls;
            break;
        }
        CHECK(status == KVT_EDEVICE || status == KVT_ENOMEM, "call %ld: status %d: %s", n,
              (int)status, err.text);
        CHECK(strstr(err.text, "emulated: ") != NULL || status == KVT_ENOMEM, "call %ld: %s", n,
              err.text);
        CHECK(cuda_emulated_bytes() == 0, "call %ld: %zu bytes were not returned", n,
              cuda_emulated_bytes());
        tried++;
    }
    printf("    %ld of %ld calls failed, each was told\n", tried, whole);
}

/* ---- validation
 * ---------------------------------------------------------------------------------- */

static void validation_runs(void)
{
    struct kvt_config config;
    struct kvt_validation validation;
    struct kvt_err err = {0};
    struct kvt_validate_want want = {.backend = KVT_BACKEND_CUDA, .brief = true};
    static const char *const sets[] = {
        "fleet.prefill.scheduler.max_running=1", "fleet.decode.scheduler.max_running=2",
        "fleet.prefill.scheduler.chunk_tokens=16", "workload.open.requests=2"};
    if (!OK(kvt_config_parse(&config, "c.yaml", disaggregated, strlen(disaggregated), "", sets, 4,
                             &err)))
        return;
    if (OK(kvt_validate(&validation, &config, &want, &err))) {
        CHECK(validation.decisions_equal, "decision %lld differs",
              (long long)validation.replay.divergence);
        CHECK(validation.tag_check.failures == 0 && validation.tag_check.pages_checked > 0, "tags");
        CHECK(validation.verdict == KVT_VERDICT_PASS, "%s", validation.why);
        CHECK(validation.poisoned == 0, "NaN was written");
    }
    kvt_validation_release(&validation);
    kvt_config_release(&config);
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"GQA: prompts in BF16, handed off into FP8, retracted, restored", gqa_is_handed_off},
    {"GQA: FP8 weights, pages of one format are copied", pages_alike_are_copied},
    {"MLA: INT4 weights, routed experts, mixed steps", mla_with_experts},
    {"memory is limited, zeroed and returned", memory_is_limited_and_returned},
    {"errors wait for the wait", errors_wait_for_the_wait},
    {"strikes end as simulated ones", strikes_end_as_simulated_ones},
    {"every call may fail", every_call_may_fail},
    {"validation runs", validation_runs},
};

int main(int argc, char **argv)
{
    int count = 0;
    omp_set_num_threads(1); /* kernels this small only wait for each other */
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        bool chosen = argc < 2;
        for (int a = 1; a < argc; a++)
            chosen = chosen || strstr(tests[i].name, argv[a]) != NULL;
        if (!chosen)
            continue;
        int before = failures;
        double start = kvt_device_now();
        running = tests[i].name;
        tests[i].run();
        CHECK(cuda_emulated_bytes() == 0, "%zu bytes were not returned", cuda_emulated_bytes());
        printf("%-72s %6.2f s %s\n", running, kvt_device_now() - start,
               failures > before ? "FAILED" : "ok");
        fflush(stdout);
        count++;
    }
    printf("%d tests, %d failed checks\n", count, failures);
    return failures == 0 && count > 0 ? 0 : 1;
}
