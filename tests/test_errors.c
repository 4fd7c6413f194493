/* Error factors: their law in closed form, who shares one, and what they may not break. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/cost/calibration_print.h"
#include "sim/cost/freeze.h"
#include "tests/check.h"

#define DRAWS 20000
#define Z95   1.6448536269514722

static struct kvt_err err;

static struct kvt_gpu h200(void)
{
    struct kvt_gpu gpu;
    CHECK_OK(kvt_gpu_load(&gpu, "h200-sxm", -1.0, &err), err);
    return gpu;
}

static struct kvt_calibration calibration_of(const char *laws)
{
    static const char head[] = "calibration: t\ngpu: h200-sxm\nstack: sglang\nsource: s\nlaws:\n";
    struct kvt_calibration calibration;
    struct kvt_gpu gpu = h200();
    char text[2048];
    snprintf(text, sizeof text, "%s%s", head, laws);
    CHECK_OK(kvt_calibration_parse(&calibration, "t", text, strlen(text), &gpu, NULL, &err), err);
    return calibration;
}

static struct kvt_work gemm(double m, double n, double k)
{
    struct kvt_work work = {0};
    work.dim[KVT_DIM_M] = m;
    work.dim[KVT_DIM_N] = n;
    work.dim[KVT_DIM_K] = k;
    return work;
}

static double time_in(uint64_t resample, const struct kvt_law *law, const struct kvt_work *work,
                      double time)
{
    static struct kvt_error_factors errors;
    kvt_error_factors_init(&errors, 1, resample);
    return kvt_error_time(&errors, law, work, time);
}

static void draws_have_the_quantiles_of_their_law(void)
{
    struct kvt_law law = {.family = KVT_FAMILY_GEMM_BF16,
                          .unseen = {.rows = 9, .low = 0.8, .high = 1.5, .coverage = 0.9}};
    struct kvt_work work = gemm(1, 512, 512);
    int32_t below = 0, above = 0, slower = 0;
    double sum = 0;
    for (uint64_t r = 0; r < DRAWS; r++) {
        double factor = time_in(r, &law, &work, 1.0);
        below += factor<0.8, above += factor> 1.5, slower += factor > 1.0;
        sum += log(factor);
    }
    CHECK_CLOSE(below, 0.05 * DRAWS, 0.1, "a twentieth lies below low");
    CHECK_CLOSE(above, 0.05 * DRAWS, 0.1, "and one above high");
    CHECK_CLOSE(slower, 0.5 * DRAWS, 0.03, "the law is the median");
    /* E[max(z, 0)] = 1/sqrt(2 pi) on either side. */
    double mean = (log(1.5) + log(0.8)) / (Z95 * sqrt(2 * 3.14159265358979));
    CHECK_CLOSE(sum / DRAWS, mean, 0.1, "the mean logarithm");
}

static void a_biased_law_is_drawn_between_its_ends(void)
{
    struct kvt_law law = {.unseen = {.rows = 9, .low = 1.1, .high = 1.4}};
    struct kvt_work work = gemm(1, 512, 512);
    int32_t inside = 0, low = 0;
    for (uint64_t r = 0; r < DRAWS; r++) {
        double factor = time_in(r, &law, &work, 1.0);
        inside += factor >= 1.1 && factor <= 1.4;
        low += factor < sqrt(1.1 * 1.4);
    }
    CHECK_CLOSE(inside, 0.9 * DRAWS, 0.01, "nine in ten lie inside");
    CHECK_CLOSE(low, 0.5 * DRAWS, 0.03, "the middle is that of the logarithms");
}

static void the_width_is_the_best_that_a_law_states(void)
{
    struct kvt_law law = {.family = KVT_FAMILY_GEMM_BF16};
    struct kvt_law_spread s = kvt_law_spread_of(&law);
    CHECK_CLOSE(s.high, 1.5, 1e-12, "nothing is stated");
    CHECK_CLOSE(s.low, 1 / 1.5, 1e-12, "");
    law.guess = true;
    s = kvt_law_spread_of(&law);
    CHECK_NOTE(s.low < 0.75 && s.high > 5, "a guess may be far off");
    law.family = KVT_FAMILY_REQUEST;
    CHECK_CLOSE(kvt_law_spread_of(&law).high, 3.0, 1e-12, "a guessed constant");
    law.guess = false;
    law.error_rows = 5, law.error_mean = 0.1, law.error_median = 0.05;
    CHECK_CLOSE(kvt_law_spread_of(&law).high, 1.20615, 1e-9, "from the mean");
    law.error_median = 0.1;
    CHECK_CLOSE(kvt_law_spread_of(&law).high, 1.24387, 1e-9, "from the median");
    law.error_p90 = 0.3;
    s = kvt_law_spread_of(&law);
    CHECK_CLOSE(s.high, 1.3, 1e-12, "p90");
    CHECK_CLOSE(s.low, 1 / 1.3, 1e-12, "");
    law.unseen = (struct kvt_unseen){.low = 0.9, .high = 1.2};
    s = kvt_law_spread_of(&law);
    CHECK_CLOSE(s.low, 0.9, 1e-12, "unseen shapes");
    CHECK_CLOSE(s.high, 1.2, 1e-12, "");
    law.unseen.coverage = 0.95;
    CHECK_CLOSE(kvt_law_spread_of(&law).high, 1.2, 1e-12, "enough were covered");
    law.unseen.coverage = 0.682689492;
    CHECK_CLOSE(kvt_law_spread_of(&law).high, pow(1.2, Z95), 1e-6, "68 % is one sigma, not 1.645");
    law.scatter = 0.5;
    CHECK_CLOSE(kvt_law_spread_of(&law).high, 1.5, 1e-12, "scatter stands above all");
    law.scatter_time = 5e-6;
    s = kvt_law_spread_of(&law);
    CHECK(s.low == 1.0 && s.high == 1.0 && s.shift == 5e-6);
}

static void a_shape_has_one_error_whatever_the_batch(void)
{
    static struct kvt_error_factors errors;
    struct kvt_law law = {.family = KVT_FAMILY_GEMM_BF16, .scatter = 0.3};
    struct kvt_work a = gemm(1, 512, 7168), b = gemm(64, 512, 7168), c = gemm(1, 7168, 512);
    kvt_error_factors_init(&errors, 1, 3);
    double one = kvt_error_time(&errors, &law, &a, 1.0);
    CHECK(kvt_error_time(&errors, &law, &b, 1.0) == one);
    CHECK(kvt_error_time(&errors, &law, &c, 1.0) != one);
    CHECK(kvt_error_time(&errors, &law, &a, 2.0) == 2 * one);
    for (int n = 1; n < 2 * KVT_ERROR_SHAPES; n++) { /* more than can be remembered */
        struct kvt_work other = gemm(1, n, 9);
        double first = kvt_error_time(&errors, &law, &other, 1.0);
        double z = kvt_error_draw(1, 3, KVT_FAMILY_GEMM_BF16, &other);
        CHECK_CLOSE(first, exp(z / Z95 * log(1.3)), 1e-9, "its own draw, not a neighbour's");
        CHECK(kvt_error_time(&errors, &law, &other, 1.0) == first);
    }
    CHECK(kvt_error_time(&errors, &law, &a, 1.0) == one);
    CHECK(time_in(3, &law, &a, 1.0) == one);
    law.family = KVT_FAMILY_GEMM_FP8;
    CHECK_NOTE(kvt_error_time(&errors, &law, &a, 1.0) != one, "another family, another error");
    struct kvt_law floor = {.family = KVT_FAMILY_HOST_FLOOR, .scatter = 0.3};
    struct kvt_work tp4 = {0}, tp8 = {0};
    tp4.dim[KVT_DIM_RANKS] = 4, tp8.dim[KVT_DIM_RANKS] = 8;
    CHECK_NOTE(kvt_error_time(&errors, &floor, &tp4, 1.0) ==
                   kvt_error_time(&errors, &floor, &tp8, 1.0),
               "a constant is one number");
}

static void shapes_err_independently(void)
{
    struct kvt_work a = gemm(1, 512, 7168), b = gemm(1, 7168, 512);
    double product = 0, squares = 0;
    for (uint64_t r = 0; r < DRAWS; r++) {
        double x = kvt_error_draw(7, r, KVT_FAMILY_GEMM_BF16, &a);
        double y = kvt_error_draw(7, r, KVT_FAMILY_GEMM_BF16, &b);
        product += x * y, squares += x * x;
    }
    CHECK_NOTE(fabs(product / DRAWS) < 0.03, "four sigma of a correlation of zero");
    CHECK_CLOSE(squares / DRAWS, 1.0, 0.04, "standard normal");
    CHECK(kvt_error_draw(7, 0, KVT_FAMILY_GEMM_BF16, &a) !=
          kvt_error_draw(8, 0, KVT_FAMILY_GEMM_BF16, &a));
}

/* The draws are part of every result: a change of the hash or of the order of families would move
 * all of them. Computed by another implementation of FNV-1a, Philox and the normal quantile. */
static void draws_are_known_by_name(void)
{
    struct kvt_work work = gemm(1, 512, 7168), none = {0};
    CHECK_CLOSE(kvt_error_draw(1, 0, KVT_FAMILY_GEMM_BF16, &work), -1.2204861133, 1e-9, "");
    CHECK_CLOSE(kvt_error_draw(1, 5, KVT_FAMILY_REQUEST, &none), 0.9843799674, 1e-9, "");
}

static void constants_may_scatter_in_time(void)
{
    struct kvt_law gap = {.family = KVT_FAMILY_LAYER_MLA_MOE, .scatter_time = 5e-6};
    struct kvt_law floor = {.family = KVT_FAMILY_HOST_FLOOR, .scatter_time = 5e-6};
    struct kvt_work work = {0};
    int32_t below = 0, negative = 0, held = 0;
    for (uint64_t r = 0; r < DRAWS; r++) {
        double gap_time = time_in(r, &gap, &work, 0.0);
        below += gap_time < -5e-6, negative += gap_time < 0;
        held += time_in(r, &floor, &work, 1e-6) == 0.0;
    }
    CHECK_CLOSE(below, 0.05 * DRAWS, 0.1, "a gap may be overlap");
    CHECK_CLOSE(negative, 0.5 * DRAWS, 0.03, "");
    CHECK_CLOSE(held, 0.371 * DRAWS, 0.05, "no other time is below zero: Phi(-1.645/5)");
}

static void scatter_is_read_and_written(void)
{
    struct kvt_calibration c =
        calibration_of("- {family: request, law: constant, t0: 36 ms, scatter: 0.5, source: s}\n"
                       "- {family: layer-mla-moe, law: constant, t0: 0 us, scatter: 7.5 us, "
                       "source: s}\n"
                       "- {family: send, law: roofline, t0: 9 us, scatter: 2, source: s}\n");
    struct kvt_work work = {0};
    const struct kvt_law *law = kvt_calibration_law(&c, KVT_FAMILY_REQUEST, &work);
    CHECK(law->scatter == 0.5 && law->scatter_time == 0);
    law = kvt_calibration_law(&c, KVT_FAMILY_LAYER_MLA_MOE, &work);
    CHECK(law->scatter == 0 && law->scatter_time == 7.5e-6);
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    kvt_calibration_print(&c, "", out);
    fclose(out);
    CHECK_HOLDS(text, "  scatter: 0.5\n", "");
    CHECK_HOLDS(text, "  scatter: 7.5 us\n", "");
    CHECK_HOLDS(text, "  scatter: 2\n", "");
    free(text);
    kvt_calibration_release(&c);
    static const char *const bad[][2] = {
        {"{family: send, law: roofline, t0: 9 us, scatter: 2 us, source: s}", "scatter"},
        {"{family: request, law: constant, t0: 9 us, scatter: 0, source: s}", "more than 0"},
        {"{family: request, law: constant, t0: 9 us, scatter: -1, source: s}", "more than 0"},
        {"{family: request, law: constant, t0: 9 us, scatter: 1 GB, source: s}", "scatter"},
        {"{family: request, law: constant, t0: 9 us, scatter: [1, 2], source: s}", "scatter"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kvt_gpu gpu = h200();
        char whole[512];
        snprintf(whole, sizeof whole,
                 "calibration: t\ngpu: h200-sxm\nstack: sglang\nsource: s\nlaws:\n- %s\n",
                 bad[i][0]);
        err = (struct kvt_err){0};
        CHECK_FAILS(kvt_calibration_parse(&c, "t", whole, strlen(whole), &gpu, NULL, &err), err,
                    KVT_ECONFIG);
        CHECK_HOLDS(err.text, bad[i][1], bad[i][0]);
        CHECK_HOLDS(err.text, "t:6:", "where");
    }
    err = (struct kvt_err){0};
}

/* ---- in a step and in a frozen table ---- */

static struct kvt_kernel_list step; /* large */

static void errors_do_not_average_over_layers(void)
{
    struct kvt_calibration c = calibration_of(
        "- {family: gemm-bf16, law: roofline, t0: 10 us, scatter: 0.3, source: s}\n");
    static struct kvt_error_factors errors;
    struct kvt_model model;
    CHECK_OK(kvt_model_load(&model, "llama-3.1-8b", &err), err);
    struct kvt_step_shape shape = {.kv = KVT_KV_BF16, .layout = {1, 1, 1, 1, 1}, .skew = -1};
    struct kvt_step_work work = {.decodes = 8, .context = 8000};
    kvt_error_factors_init(&errors, 1, 2);
    struct kvt_calibration view = kvt_calibration_with_errors(&c, &errors);
    kvt_step_list(&step, &model, &shape, &view, &work, KVT_STEP_WHOLE);
    int32_t projections = 0;
    for (int32_t i = 0; i < step.count; i++) {
        const struct kvt_kernel *kernel = &step.kernels[i];
        if (kernel->law->family != KVT_FAMILY_GEMM_BF16)
            continue;
        double z = kvt_error_draw(1, 2, KVT_FAMILY_GEMM_BF16, &kernel->work);
        CHECK_CLOSE(kernel->time, 10e-6 * exp(z / Z95 * log(1.3)), 1e-9, kernel->name);
        projections += kernel->count == model.layers;
    }
    CHECK_I64(projections, 4, "qkv, o, gate_up and down, one factor for all layers of each");
    kvt_calibration_release(&c);
}

static void check_no_slower(const struct kvt_costs *costs, int64_t tokens, const char *note)
{
    kvt_ticks last = 0;
    for (int32_t b = 1; b <= costs->batch_max; b++) {
        kvt_ticks now = kvt_costs_decode(costs, b, tokens * b, costs->window * (int64_t)b);
        if (now < last)
            CHECK_I64(now, last, note);
        last = now;
    }
    for (int64_t c = 1; c < 1 << 20; c *= 2) {
        kvt_ticks now = kvt_costs_decode(costs, 16, 16 * c, 0);
        if (now < kvt_costs_decode(costs, 16, 8 * c, 0))
            CHECK_I64(now, 0, note);
    }
    for (int32_t i = 1; i < costs->token_knots; i++)
        if (costs->token_time[i] < costs->token_time[i - 1])
            CHECK_I64(costs->token_time[i], costs->token_time[i - 1], note);
}

static void frozen_tables_stay_monotone_under_errors(void)
{
    static const struct {
        const char *model, *stack;
        int32_t tp;
    } rows[] = {{"kimi-k2.6", "sglang", 8},
                {"glm-5.2", "sglang", 8},
                {"qwen3-0.6b", "vllm", 1},
                {"gpt-oss-120b", "vllm", 2},
                {"gemma-3-27b", "vllm", 4}};
    static struct kvt_error_factors errors;
    struct kvt_gpu gpu = h200();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_calibration c;
        struct kvt_model model;
        struct kvt_arena arena;
        struct kvt_costs costs;
        CHECK_OK(kvt_calibration_load(&c, NULL, &gpu, rows[i].stack, NULL, &err), err);
        CHECK_OK(kvt_model_load(&model, rows[i].model, &err), err);
        CHECK_OK(kvt_arena_init(&arena, 64 << 20, &err), err);
        struct kvt_step_shape shape = {
            .kv = KVT_KV_BF16, .layout = {rows[i].tp, 1, 1, 1, 1}, .skew = -1};
        for (uint64_t r = 0; r < 6; r++) {
            char note[64];
            snprintf(note, sizeof note, "%s, resample %d", rows[i].model, (int)r);
            kvt_error_factors_init(&errors, 1, r);
            struct kvt_calibration view = kvt_calibration_with_errors(&c, &errors);
            CHECK_OK(kvt_costs_freeze(&costs, &arena, &model, &gpu, &view, &shape, 160, true, &err),
                     err);
            check_no_slower(&costs, 1, note);
            check_no_slower(&costs, 3000, note);
        }
        kvt_arena_release(&arena);
        kvt_calibration_release(&c);
    }
}

/* clang-format off */
const struct check_test check_errors[] = {
    {"draws have the quantiles of their law", draws_have_the_quantiles_of_their_law, false},
    {"a biased law is drawn between its ends", a_biased_law_is_drawn_between_its_ends, false},
    {"the width is the best that a law states", the_width_is_the_best_that_a_law_states, false},
    {"a shape has one error whatever the batch", a_shape_has_one_error_whatever_the_batch, false},
    {"shapes err independently", shapes_err_independently, false},
    {"draws are known by name", draws_are_known_by_name, false},
    {"constants may scatter in time", constants_may_scatter_in_time, false},
    {"scatter is read and written", scatter_is_read_and_written, false},
    {"errors do not average over layers", errors_do_not_average_over_layers, false},
    {"frozen tables stay monotone under errors", frozen_tables_stay_monotone_under_errors, false},
    {NULL, NULL, false},
};
/* clang-format on */
