/* Validation: what the shipped configs exercise, what its verdict rests on, and all of it on a
 * model that takes a moment. Nothing here depends on how long anything takes. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "runtime/validate.h"
#include "tests/check.h"

/* ---- the shipped configs -------------------------------------------------------------------- */

struct speeds { /* s */
    double decode, member, prompt_token;
};

static double time_at(void *context, int32_t replica, const struct kvt_step *step)
{
    const struct speeds *s = context;
    (void)replica;
    if (step->prompt_tokens > 0)
        return s->decode + s->prompt_token * (double)step->prompt_tokens;
    return s->decode + s->member * (double)step->decodes;
}

static int64_t calls(const struct kvt_order *order, enum kvt_call kind)
{
    int64_t count = 0;
    for (int64_t i = 0; i < order->call_count; i++)
        count += order->calls[i].kind == (int32_t)kind;
    return count;
}

/* On machines of half and of one and a half times the speed as well. */
static void check_shipped(const char *path, const struct speeds *base)
{
    static const double scales[] = {0.67, 1, 1.5};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        struct kvt_config config;
        struct kvt_order order = {0};
        struct kvt_drive drive = {.time = time_at, .order = &order};
        struct kvt_err err = {0};
        struct speeds speeds = {scales[i] * base->decode, scales[i] * base->member,
                                scales[i] * base->prompt_token};
        drive.time_context = &speeds;
        CHECK_OK(kvt_config_load(&config, path, NULL, 0, &err), err);
        if (err.status != KVT_OK)
            return;
        CHECK_I64(config.workload.requests, 64, "requests");
        CHECK_I64(config.roles[KVT_ROLE_PREFILL].kv, KVT_KV_BF16, "KV of prefill");
        CHECK_OK(kvt_drive_begin(&drive, &config, &err), err);
        CHECK_OK(kvt_drive_run(&drive, &err), err);
        const struct kvt_core *core = &drive.simulation.des.core;
        CHECK_NOTE(calls(&order, KVT_CALL_START) >= 2000, "steps");
        CHECK_NOTE(core->preemptions >= 3, "retractions");
        CHECK_I64(calls(&order, KVT_CALL_DELIVER), 64, "hand-offs");
        kvt_drive_release(&drive);
        kvt_order_release(&order);
        kvt_config_release(&config);
    }
}

static void shipped_configs_exercise_what_they_are_for(void)
{
    const struct speeds gqa = {0.0095, 0.0003, 0.00035}, mla = {0.004, 0.0011, 0.0005};
    check_shipped("configs/examples/validate-cpu.yaml", &gqa);
    check_shipped("configs/examples/validate-cpu-mla.yaml", &mla);
}

/* ---- factors -------------------------------------------------------------------------------- */

#define STEPS 400

/* A machine that is twice as slow in the second half; laws are right but for a constant. */
static void factors_follow_the_machine(void)
{
    static struct kvt_family_times steps[STEPS];
    static struct kvt_weighed scratch[STEPS];
    kvt_factors near, median, mean;
    for (int64_t i = 0; i < STEPS; i++) {
        double slow = i < STEPS / 2 ? 1 : 2;
        steps[i] = (struct kvt_family_times){.role = KVT_ROLE_DECODE};
        steps[i].predicted[KVT_FACTOR_GEMM] = 1 + (double)(i % 7);
        steps[i].measured[KVT_FACTOR_GEMM] = slow * 1.25 * steps[i].predicted[KVT_FACTOR_GEMM];
    }
    steps[3].measured[KVT_FACTOR_GEMM] *= 1000; /* a peak moves no median */
    const double *gemm = &near[KVT_ROLE_DECODE][KVT_FACTOR_GEMM];
    kvt_factors_near(steps, STEPS, 1, KVT_NEAR_STEPS, scratch, near);
    CHECK_CLOSE(*gemm, 1.25, 1e-12, "in the fast half");
    kvt_factors_near(steps, STEPS, STEPS / KVT_STRETCH_STEPS - 1, KVT_NEAR_STEPS, scratch, near);
    CHECK_CLOSE(*gemm, 2.5, 1e-12, "in the slow half");
    CHECK_CLOSE(near[KVT_ROLE_PREFILL][KVT_FACTOR_GEMM], 1, 0, "what no step has");
    kvt_factors_median(steps, STEPS, scratch, median);
    CHECK_NOTE(median[KVT_ROLE_DECODE][KVT_FACTOR_GEMM] <= 2.5, "between them");
    /* At the shift: both halves are near, but for the canary's word. */
    for (int64_t i = STEPS / 2; i < STEPS; i++)
        steps[i].epoch = 1;
    kvt_factors_near(steps, STEPS, STEPS / 2 / KVT_STRETCH_STEPS - 1, 40, scratch, near);
    CHECK_CLOSE(*gemm, 1.25, 1e-12, "the last stretch before a shift");
    steps[3].measured[KVT_FACTOR_GEMM] /= 1000;
    kvt_factors_mean(steps, STEPS, mean);
    CHECK_CLOSE(mean[KVT_ROLE_DECODE][KVT_FACTOR_GEMM], 1.875, 0.01, "sum over sum");
}

/* A stretch that calibrates is never predicted from itself. */
static void no_stretch_calibrates_itself(void)
{
    static struct kvt_family_times steps[STEPS];
    static struct kvt_weighed scratch[STEPS];
    kvt_factors factors;
    for (int64_t i = 0; i < STEPS; i++) {
        bool own = i / KVT_STRETCH_STEPS == 20;
        steps[i] = (struct kvt_family_times){.role = KVT_ROLE_SERVE};
        steps[i].predicted[KVT_FACTOR_SMALL] = 1;
        steps[i].measured[KVT_FACTOR_SMALL] = own ? 9 : kvt_calibrates(i) ? 2 : 7;
    }
    kvt_factors_near(steps, STEPS, 20, KVT_NEAR_STEPS, scratch, factors);
    CHECK_CLOSE(factors[KVT_ROLE_SERVE][KVT_FACTOR_SMALL], 2, 0, "the others that calibrate");
}

/* ---- verdict -------------------------------------------------------------------------------- */

static struct kvt_validation good_validation(void)
{
    return (struct kvt_validation){
        .decisions_equal = true,
        .roles = 1,
        .capacity = {{.name = "decode", .predicted_pages = 7, .measured_pages = 7}},
        .steps = {.median = 0.05, .inside = 0.9},
        .repeat_median = 0.03,
        .tag_check = {.predicted = 0.001, .low = -0.01, .high = 0.01},
        .free_run = {.throughput.error = 0.11, .tpot.error = -0.11},
    };
}

static void check_verdict(struct kvt_validation v, bool brief, enum kvt_verdict want,
                          const char *why)
{
    kvt_validate_judge(&v, brief);
    CHECK_I64(v.verdict, want, why);
    CHECK_HOLDS(v.why, why, "reason");
}

static void verdicts_are_those_of_the_bounds(void)
{
    struct kvt_validation v = good_validation();
    check_verdict(v, false, KVT_VERDICT_PASS, "");
    v.steps.median = 0.09;
    check_verdict(v, false, KVT_VERDICT_FAIL, "steps: median error 9.0 %, want at most 8.0 %");
    check_verdict(v, true, KVT_VERDICT_PASS, "");
    v.repeat_median = 0.07; /* one and a half times as much is allowed */
    check_verdict(v, false, KVT_VERDICT_PASS, "");
    v.repeat_median = 0.11;
    check_verdict(v, false, KVT_VERDICT_INCONCLUSIVE, "too noisy");
    v.decisions_equal = false; /* that is wrong however noisy it is */
    v.replay.divergence = 5;
    check_verdict(v, false, KVT_VERDICT_FAIL, "decision 5 differs");
    v = good_validation();
    v.steps.inside = 0.84;
    check_verdict(v, false, KVT_VERDICT_FAIL, "84 % inside");
    v = good_validation();
    v.free_run.throughput.error = -0.13;
    check_verdict(v, false, KVT_VERDICT_FAIL, "throughput");
    v = good_validation();
    v.free_run.tpot.error = (double)NAN;
    check_verdict(v, false, KVT_VERDICT_FAIL, "mean TPOT");
    v = good_validation();
    v.tag_check.predicted = 0.02;
    check_verdict(v, false, KVT_VERDICT_FAIL, "tag check");
    v = good_validation();
    v.capacity[0].measured_pages = 6;
    check_verdict(v, true, KVT_VERDICT_FAIL, "7 pages predicted, 6 fit");
    v = good_validation();
    v.tag_check.failures = 1;
    check_verdict(v, true, KVT_VERDICT_FAIL, "without a fault");
    v = good_validation();
    v.poisoned = 1;
    check_verdict(v, true, KVT_VERDICT_FAIL, "not finite");
    v = good_validation();
    v.tokens_changed = 1;
    v.poisoned = 1; /* the first of the worst is told */
    check_verdict(v, true, KVT_VERDICT_FAIL, "a step that ran twice gave others");
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void a_small_fleet_is_validated(void)
{
    static const char *const paths[] = {"tests/runtime/validate-tiny.yaml",
                                        "tests/runtime/validate-tiny-mla.yaml"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct kvt_config config;
        struct kvt_validation v;
        struct kvt_err err = {0};
        struct kvt_validate_want want = {.backend = KVT_BACKEND_CPU, .brief = true};
        int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        CHECK_OK(kvt_config_load(&config, paths[i], NULL, 0, &err), err);
        CHECK_OK(kvt_validate(&v, &config, &want, &err), err);
        if (err.status == KVT_OK) {
            CHECK_I64(v.verdict, KVT_VERDICT_PASS, v.why);
            CHECK(v.decisions_equal);
            CHECK_I64(v.replay.decisions, v.decisions, "all of them");
            CHECK_I64(v.roles, 2, "roles");
            for (int32_t r = 0; r < v.roles; r++)
                CHECK_I64(v.capacity[r].measured_pages, v.capacity[r].predicted_pages,
                          v.capacity[r].name);
            CHECK_CLOSE(v.kv_ratio.predicted, v.kv_ratio.measured, 1e-12, "tokens of equal bytes");
            CHECK_NOTE(v.free_run.moved_bytes > 0, "KV was handed over");
            CHECK_I64(v.tag_check.failures, 0, "tags");
            CHECK_NOTE(v.tag_check.pages_checked > 0, "tags were checked");
            CHECK_I64(v.poisoned, 0, "not finite");
            CHECK_I64(v.tokens_changed, 0, "tokens of a step that ran twice");
            CHECK_NOTE(v.tokens_again > 20, "steps ran twice");
            CHECK_NOTE(v.steps_run > 20 && v.steps.count > 10, "steps");
        }
        omp_set_num_threads(threads);
        kvt_validation_release(&v);
        kvt_config_release(&config);
    }
}

static void what_validate_does_not_run_is_refused(void)
{
    static const struct {
        const char *set, *message;
    } rows[] = {
        {"fleet.decode.guard={canary: {check: before-read}}", "validate runs no guard canary"},
        {"fleet.decode.guard={digest: {check: before-read}}", "validate runs no guard digest"},
        {"fleet.decode.guard={tag-side: {bits: 32, check: sampled, sample: 0.5}}",
         "check before-read and on_hit abort, got sampled and abort"},
        {"fleet.decode.guard={tag-side: {bits: 32, check: before-read, on_hit: recompute}}",
         "got before-read and recompute"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_config config;
        struct kvt_validation v;
        struct kvt_err err = {0};
        const struct kvt_validate_want want = {.backend = KVT_BACKEND_CPU, .brief = true};
        CHECK_OK(
            kvt_config_load(&config, "tests/runtime/validate-tiny.yaml", &rows[i].set, 1, &err),
            err);
        CHECK_FAILS(kvt_validate(&v, &config, &want, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].set);
        kvt_validation_release(&v);
        kvt_config_release(&config);
    }
}

const struct check_test check_validate[] = {
    {"factors follow the machine", factors_follow_the_machine, false},
    {"no stretch calibrates itself", no_stretch_calibrates_itself, false},
    {"verdicts are those of the bounds", verdicts_are_those_of_the_bounds, false},
    {"what validate does not run is refused", what_validate_does_not_run_is_refused, false},
    {"a small fleet is validated", a_small_fleet_is_validated, false},
    {"shipped configs exercise what they are for", shipped_configs_exercise_what_they_are_for,
     false},
    {NULL, NULL, false},
};
