/* Which fits are no kernel times, and which laws a calibration takes of many fits: by hand-made
 * fits whose answers are known. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/fit_calibration.h"
#include "sim/cost/fit_parts.h"
#include "tests/check.h"

#define ROWS 400

/* A fit with its own series and one law that takes the same time for everything. */
struct made {
    struct kvt_sample samples[ROWS];
    struct kvt_series series;
    struct kvt_law law;
    struct kvt_fit fit;
};

static struct kvt_fit *make(struct made *made, enum kvt_family family, const char *stack,
                            const char *version, const char *dtype)
{
    *made = (struct made){.series = {.family = (int32_t)family, .kind = KVT_LAW_ROOFLINE},
                          .law = {.family = family, .kind = KVT_LAW_CONSTANT, .t0 = 1e-5}};
    struct kvt_series *series = &made->series;
    snprintf(series->stack, sizeof series->stack, "%s", stack);
    snprintf(series->version, sizeof series->version, "%s", version);
    snprintf(series->dtype, sizeof series->dtype, "%s", dtype);
    snprintf(series->name, sizeof series->name, "%s %s %s %s", stack, version,
             kvt_family_names[family], dtype);
    series->samples = made->samples;
    made->fit = (struct kvt_fit){
        .series = series, .laws = &made->law, .law_count = 1, .rows = 100, .floor = 0.01};
    return &made->fit;
}

/* count rows of m tokens that take `times` as long as the law of another fit says. */
static void add_rows(struct made *made, int64_t count, double m, double times)
{
    for (int64_t i = 0; i < count; i++) {
        struct kvt_sample *sample = &made->samples[made->series.count++];
        *sample = (struct kvt_sample){.time = times * 1e-5, .repeats = 2};
        sample->work.dim[KVT_DIM_M] = m;
    }
}

static void judge_pair(struct made *a, struct made *b)
{
    struct kvt_fit fits[2] = {a->fit, b->fit};
    kvt_fits_judge(fits, 2);
    a->fit = fits[0];
    b->fit = fits[1];
}

static void caches_that_are_converted_are_no_kernels(void)
{
    static const struct {
        const char *stack, *version;
        double times;
        bool bad;
    } rows[] = {{"sglang", "0.5.14", 1.6, true},
                {"sglang", "0.5.14", 1.4, false},
                {"vllm", "0.5.14", 1.6, false},
                {"sglang", "0.5.12", 1.6, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static struct made eight, sixteen;
        make(&eight, KVT_FAMILY_MLA_DECODE_FP8, "sglang", "0.5.14", "fp8");
        make(&sixteen, KVT_FAMILY_MLA_DECODE_BF16, rows[i].stack, rows[i].version, "bfloat16");
        add_rows(&eight, 60, 1, rows[i].times);
        judge_pair(&eight, &sixteen);
        CHECK_I64(eight.fit.bad, rows[i].bad, rows[i].stack);
        CHECK_I64(sixteen.fit.bad, false, "the twin");
        if (rows[i].bad)
            CHECK_TEXT(eight.fit.trouble,
                       "8-bit KV takes 1.6 times as long as 16-bit KV: the cache is converted at "
                       "every call",
                       "why");
    }
}

static void launches_are_no_kernels(void)
{
    static const struct {
        double small, large;
        int64_t rows;
        bool same_stack, bad;
    } rows[] = {{2.0, 1.1, 60, false, true},
                {2.0, 1.4, 60, false, false}, /* slow while large as well: a slow kernel */
                {1.4, 1.1, 60, false, false},
                {2.0, 1.1, 40, false, false}, /* too few to tell */
                {2.0, 1.1, 60, true, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static struct made slow, other;
        make(&slow, KVT_FAMILY_GEMM_FP8_BLOCK, "vllm", "0.11", "fp8_block");
        make(&other, KVT_FAMILY_GEMM_FP8_BLOCK, rows[i].same_stack ? "vllm" : "sglang", "0.5.14",
             "fp8_block");
        add_rows(&slow, rows[i].rows, 16, rows[i].small);
        add_rows(&slow, 30, 1024, 9); /* neither small nor large */
        add_rows(&slow, 60, 16384, rows[i].large);
        judge_pair(&slow, &other);
        CHECK_I64(slow.fit.bad, rows[i].bad, "row");
        if (rows[i].bad)
            CHECK_TEXT(slow.fit.trouble,
                       "up to 64 rows it takes 2.0 times as long as sglang 0.5.14, from 8192 rows "
                       "on 1.10 times: launches, not kernels",
                       "why");
    }
    static struct made few, other; /* too few large ones */
    make(&few, KVT_FAMILY_GEMM_FP8_BLOCK, "vllm", "0.11", "fp8_block");
    make(&other, KVT_FAMILY_GEMM_FP8_BLOCK, "sglang", "0.5.14", "fp8_block");
    add_rows(&few, 60, 16, 2);
    add_rows(&few, 10, 16384, 1);
    judge_pair(&few, &other);
    CHECK_I64(few.fit.bad, false, "too few large ones");
    other.fit.law_count = 0;
    judge_pair(&few, &other);
    CHECK_I64(few.fit.bad, false, "nothing to compare with");
}

/* rows of one model's experts: balanced ones take `balanced` of what skewed ones take. */
static void add_routed(struct made *made, double hidden, double balanced, int64_t count)
{
    for (int64_t i = 0; i < 2 * count; i++) {
        struct kvt_sample *sample = &made->samples[made->series.count++];
        bool even = i % 2 == 0;
        *sample = (struct kvt_sample){.time = 1e-4 * (even ? balanced : 1), .repeats = 3};
        double *dim = sample->work.dim;
        dim[KVT_DIM_M] = 64, dim[KVT_DIM_HIDDEN] = hidden, dim[KVT_DIM_EXPERTS] = 128;
        dim[KVT_DIM_TOPK] = 8, dim[KVT_DIM_RANKS] = 1, dim[KVT_DIM_ROUTING] = even ? 1 : 2;
    }
}

/* 64 tokens of 8 experts are 4 rows for each of 128. */
static void routing_that_reaches_half_the_experts_is_left_out(void)
{
    static struct made made;
    make(&made, KVT_FAMILY_EXPERTS_BF16, "sglang", "0.5.14", "bfloat16");
    add_routed(&made, 4096, 0.5, 20);
    add_routed(&made, 7168, 1.0, 20); /* another model, rightly balanced */
    CHECK_I64(kvt_series_judge_routing(&made.series), 60, "rows, repeats included");
    CHECK_I64(made.series.count, 60, "20 skewed ones and the other model");
    for (int64_t i = 0; i < made.series.count; i++)
        CHECK_NOTE(made.samples[i].work.dim[KVT_DIM_HIDDEN] == 7168 ||
                       made.samples[i].work.dim[KVT_DIM_ROUTING] == 2,
                   "what is kept");
    make(&made, KVT_FAMILY_EXPERTS_BF16, "sglang", "0.5.14", "bfloat16");
    add_routed(&made, 4096, 0.5, 7);
    CHECK_I64(kvt_series_judge_routing(&made.series), 0, "too few to tell");
    make(&made, KVT_FAMILY_EXPERTS_BF16, "sglang", "0.5.14", "bfloat16");
    add_routed(&made, 4096, 0.5, 20);
    for (int64_t i = 0; i < made.series.count; i++) {
        double *dim = made.samples[i].work.dim;
        dim[KVT_DIM_M] = i % 4 < 2 ? 1 : 4096; /* few tokens; more rows than weights */
        dim[KVT_DIM_RANKS] = i % 8 < 4 ? 1 : 8;
    }
    CHECK_I64(kvt_series_judge_routing(&made.series), 0, "not bound by weights");
    make(&made, KVT_FAMILY_GEMM_BF16, "sglang", "0.5.14", "bfloat16");
    add_routed(&made, 4096, 0.5, 20);
    CHECK_I64(kvt_series_judge_routing(&made.series), 0, "no experts");
    make(&made, KVT_FAMILY_EXPERTS_BF16, "sglang", "0.5.14", "bfloat16");
    for (int model = 0; model < 80; model++) /* more than are told apart: the rest stays */
        add_routed(&made, 1000 + model, 0.5, 1);
    CHECK_I64(kvt_series_judge_routing(&made.series), 0, "many models");
    CHECK_I64(made.series.count, 160, "all are kept");
}

/* ---- which fit --------------------------------------------------------------------------- */

static void the_nearest_fit_is_found(void)
{
    static struct made a, b, wanted;
    static const struct {
        const char *stack[2], *version[2];
        int32_t rank[2];
        int64_t rows[2];
        int nearest;
        const char *why;
    } rows[] = {
        {{"vllm", "sglang"}, {"9", "1"}, {0, 5}, {9, 1}, 1, "of the same stack"},
        {{"sglang", "sglang"}, {"9", "1"}, {1, 0}, {9, 1}, 1, "of the lower rank"},
        {{"sglang", "sglang"}, {"1.9", "1.10"}, {0, 0}, {9, 1}, 1, "the newer: numbers"},
        {{"sglang", "sglang"}, {"1.3.0", "1.3.0rc2"}, {0, 0}, {9, 1}, 1, "as they come"},
        {{"sglang", "sglang"}, {"1.3a", "1.3b"}, {0, 0}, {9, 1}, 1, "the newer: letters"},
        {{"sglang", "sglang"}, {"2", "1"}, {0, 0}, {1, 9}, 0, "the newer is first"},
        {{"sglang", "sglang"}, {"1", "1"}, {0, 0}, {1, 9}, 1, "of more rows"},
        {{"sglang", "sglang"}, {"1", "1"}, {0, 0}, {9, 1}, 0, "of more rows, first"},
        {{"sglang", "sglang"}, {"1", "1"}, {0, 0}, {5, 5}, 0, "by name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct made *both[2] = {&a, &b};
        for (int k = 0; k < 2; k++) {
            make(both[k], KVT_FAMILY_GEMM_BF16, rows[i].stack[k], rows[i].version[k],
                 k == 0 ? "a" : "b");
            both[k]->series.rank = rows[i].rank[k];
            both[k]->fit.rows = rows[i].rows[k];
        }
        make(&wanted, KVT_FAMILY_GEMM_BF16, "sglang", "0", "c");
        struct kvt_fit fits[2] = {a.fit, b.fit};
        CHECK_I64(kvt_fits_for(fits, 2, &wanted.series) - fits, rows[i].nearest, rows[i].why);
        CHECK_NOTE(kvt_fits_for(fits, 2, &a.series) == &fits[0], "its own");
        fits[rows[i].nearest].law_count = 0;
        CHECK_I64(kvt_fits_for(fits, 2, &wanted.series) - fits, 1 - rows[i].nearest, "the other");
        wanted.series.family = KVT_SERIES_NONE;
        CHECK_NOTE(kvt_fits_for(fits, 2, &wanted.series) == NULL, "no step asks for it");
    }
}

static void rules_of_kernels_are_read(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"gemm-bf16", "want FAMILY=KERNEL or FAMILY:HIDDEN=KERNEL, got \"gemm-bf16\""},
        {"gemm-bf16=", "want FAMILY=KERNEL"},
        {"gemm-bf16=0123456789012345678901234567890123456789012345678", "want FAMILY=KERNEL"},
        {"gemm=deepgemm", "no family is named \"gemm\""},
        {"gemm-bf16x=deepgemm", "no family is named \"gemm-bf16x\""},
        {"gemm-bf16:=deepgemm", "want a hidden size after \":\""},
        {"gemm-bf16:0.5=deepgemm", "want a hidden size after \":\""},
        {"gemm-bf16:12x=deepgemm", "want a hidden size after \":\""},
    };
    struct kvt_kernel_rule rule;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kvt_err err = {0};
        CHECK_FAILS(kvt_kernel_rule_parse(&rule, bad[i].text, &err), err, KVT_EUSAGE);
        CHECK_HOLDS(err.text, bad[i].message, bad[i].text);
    }
    struct kvt_err err = {0};
    CHECK_OK(kvt_kernel_rule_parse(&rule, "experts-bf16:7168=triton", &err), err);
    CHECK_I64(rule.family, KVT_FAMILY_EXPERTS_BF16, "family");
    CHECK_CLOSE(rule.hidden, 7168, 0, "hidden size");
    CHECK_TEXT(rule.kernel, "triton", "kernel");
}

/* ---- building ---------------------------------------------------------------------------- */

static double t0_of(const struct kvt_calibration *c, enum kvt_family family, double hidden)
{
    for (int32_t i = 0; i < c->law_count; i++)
        if (c->laws[i].family == family && c->laws[i].when[KVT_DIM_HIDDEN].max == hidden)
            return c->laws[i].t0;
    return -1;
}

/* Two kernels of experts, each with a law for two models and a general one. */
static void wishes_choose_kernels_by_model(void)
{
    static struct made made[2];
    struct kvt_law laws[2][3];
    struct kvt_fit fits[2];
    static const char *const dtypes[] = {"bfloat16 triton", "bfloat16 flashinfer"};
    for (int k = 0; k < 2; k++) {
        fits[k] = *make(&made[k], KVT_FAMILY_EXPERTS_BF16, "sglang", "1", dtypes[k]);
        fits[k].rows = k == 0 ? 500 : 100;
        for (int l = 0; l < 3; l++) {
            laws[k][l] = made[k].law;
            laws[k][l].t0 = (k + 1) * 1e-5;
            if (l < 2)
                laws[k][l].when[KVT_DIM_HIDDEN] =
                    (struct kvt_range){4096 * (l + 1), 4096 * (l + 1)};
        }
        fits[k].laws = laws[k];
        fits[k].law_count = 3;
    }
    struct kvt_kernel_rule rule = {.family = KVT_FAMILY_EXPERTS_BF16, .hidden = 8192};
    snprintf(rule.kernel, sizeof rule.kernel, "flashinfer");
    struct kvt_build_wishes wishes = {.gpu = "h200-sxm", .stack = "sglang"};
    struct kvt_calibration c;
    struct kvt_err err = {0};
    for (int ruled = 0; ruled < 2; ruled++) {
        wishes.rules = &rule;
        wishes.rule_count = ruled;
        CHECK_OK(kvt_calibration_build(&c, fits, 2, &wishes, &err), err);
        CHECK_I64(c.law_count, 3, "each once");
        CHECK_CLOSE(t0_of(&c, KVT_FAMILY_EXPERTS_BF16, 4096), 1e-5, 0, "no rule for it: more rows");
        CHECK_CLOSE(t0_of(&c, KVT_FAMILY_EXPERTS_BF16, 8192), ruled ? 2e-5 : 1e-5, 0, "the wished");
        CHECK_CLOSE(t0_of(&c, KVT_FAMILY_EXPERTS_BF16, 0), 1e-5, 0, "the general one");
        kvt_calibration_release(&c);
    }
    rule.hidden = 0;
    CHECK_OK(kvt_calibration_build(&c, fits, 2, &wishes, &err), err);
    CHECK_CLOSE(t0_of(&c, KVT_FAMILY_EXPERTS_BF16, 4096), 2e-5, 0, "wished for every model");
    CHECK_CLOSE(t0_of(&c, KVT_FAMILY_EXPERTS_BF16, 0), 2e-5, 0, "the general one as well");
    kvt_calibration_release(&c);
}

static void what_no_table_has_is_kept(void)
{
    static struct made gemm;
    make(&gemm, KVT_FAMILY_GEMM_BF16, "sglang", "0.6", "bfloat16");
    gemm.series.weight_bits = 8;
    struct kvt_law kept[] = {
        {.family = KVT_FAMILY_HOST_FLOOR, .kind = KVT_LAW_CONSTANT, .t0 = 3e-3},
        {.family = KVT_FAMILY_GEMM_BF16, .kind = KVT_LAW_CONSTANT, .t0 = 7e-5},
        {.family = KVT_FAMILY_GEMM_BF16, .kind = KVT_LAW_CONSTANT, .t0 = 8e-5, .skew = 1.5},
        {.family = KVT_FAMILY_GEMM_FP8, .kind = KVT_LAW_CONSTANT, .t0 = 9e-5, .guess = true}};
    struct kvt_calibration keep = {.laws = kept, .law_count = 4, .skew = 1.25};
    struct kvt_kernel_rule rule = {.family = KVT_FAMILY_GEMM_BF16};
    struct kvt_build_wishes wishes = {.gpu = "h200-sxm", .keep = &keep};
    struct kvt_calibration c;
    struct kvt_err err = {0};
    CHECK_OK(kvt_calibration_build(&c, &gemm.fit, 1, &wishes, &err), err);
    CHECK_TEXT(c.name, "h200-sglang", "of the largest series' stack");
    CHECK_TEXT(c.version, "0.6", "its version");
    CHECK_CLOSE(c.skew, 1.25, 0, "skew");
    CHECK_HOLDS(c.source, "kept from an earlier calibration", "source");
    CHECK_I64(c.law_count, 3, "a table's GEMM, one fitted to serving, the host's; no guess");
    CHECK_CLOSE(t0_of(&c, KVT_FAMILY_HOST_FLOOR, 0), 3e-3, 0, "the host's");
    CHECK_CLOSE(t0_of(&c, KVT_FAMILY_GEMM_BF16, 0), 8e-5, 0, "fitted to serving, first");
    kvt_calibration_release(&c);
    snprintf(rule.kernel, sizeof rule.kernel, "keep");
    wishes.rules = &rule;
    wishes.rule_count = 1;
    CHECK_OK(kvt_calibration_build(&c, &gemm.fit, 1, &wishes, &err), err);
    CHECK_CLOSE(t0_of(&c, KVT_FAMILY_GEMM_BF16, 0), 7e-5, 0, "the earlier one, as wished");
    kvt_calibration_release(&c);
    /* Without an earlier one there is nothing to keep. */
    wishes.keep = NULL;
    CHECK_OK(kvt_calibration_build(&c, &gemm.fit, 1, &wishes, &err), err);
    CHECK_CLOSE(t0_of(&c, KVT_FAMILY_GEMM_BF16, 0), 1e-5, 0, "the table's");
    CHECK_CLOSE(c.laws[0].when[KVT_DIM_WEIGHT_BITS].max, 8.05, 1e-12, "for weights of 8 bits");
    kvt_calibration_release(&c);
}

/* As many models as a calibration has room for, and one more. */
static void too_many_laws_are_refused(void)
{
    static struct made made;
    make(&made, KVT_FAMILY_EXPERTS_BF16, "sglang", "1", "bfloat16");
    int32_t count = KVT_CALIBRATION_LAWS + 1;
    struct kvt_law *laws = calloc((size_t)count, sizeof *laws);
    struct kvt_calibration c;
    struct kvt_err err = {0};
    for (int32_t i = 0; i < count; i++) {
        laws[i] = made.law;
        laws[i].when[KVT_DIM_HIDDEN] = (struct kvt_range){i + 1, i + 1};
    }
    made.fit.laws = laws;
    made.fit.law_count = count;
    CHECK_FAILS(kvt_calibration_build(&c, &made.fit, 1,
                                      &(struct kvt_build_wishes){.gpu = "h200-sxm"}, &err),
                err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "a calibration holds at most", "how many");
    free(laws);
}

/* Sparse attention by the bits of its projections; the parameters that the rows told. */
static void laws_say_what_their_fit_knows(void)
{
    static struct made made[3];
    static const char *const dtypes[] = {"bfloat16", "fp8_block", "bfloat16 fp8_block"};
    static const double most[] = {16, 10, 10};
    for (int i = 0; i < 3; i++) {
        struct kvt_calibration c;
        struct kvt_err err = {0};
        struct kvt_fit *fit = make(&made[i], KVT_FAMILY_GEMM_BF16, "sglang", "1", dtypes[i]);
        made[i].series.kind = KVT_LAW_SPARSE;
        fit->held = (struct kvt_fit_errors){40, 0.02, 0.03, 0.06};
        fit->unseen = (struct kvt_fit_errors){30, 0.03, 0.04, 0.08};
        fit->parameter_count = 3;
        fit->parameters[0] = (struct kvt_fit_parameter){"t0", 1e-5, 1e-5, 4e-5, true};
        fit->parameters[1] = (struct kvt_fit_parameter){"flops", 1, 0.1, 10, false};
        fit->parameters[2] = (struct kvt_fit_parameter){"other", 1, 1, 2, true};
        CHECK_OK(kvt_calibration_build(&c, fit, 1, &(struct kvt_build_wishes){.gpu = "b200"}, &err),
                 err);
        CHECK_CLOSE(c.laws[0].when[KVT_DIM_WEIGHT_BITS].max, most[i], 0, dtypes[i]);
        CHECK_CLOSE(c.laws[0].plus_minus[KVT_PARAMETER_T0], log(2), 1e-12,
                    "half of a factor of four");
        CHECK_CLOSE(c.laws[0].plus_minus[KVT_PARAMETER_FLOPS], 0, 0, "which the rows do not tell");
        CHECK_CLOSE(c.laws[0].error_p90, 0.06, 0, "held out");
        CHECK_CLOSE(c.laws[0].unseen.mean, 0.04, 0, "unseen");
        CHECK_HOLDS(c.laws[0].source, "fitted to 100 rows of sglang 1 gemm-bf16", "source");
        kvt_calibration_release(&c);
    }
}

const struct check_test check_fit_calibration[] = {
    {"caches that are converted are no kernels", caches_that_are_converted_are_no_kernels, false},
    {"launches are no kernels", launches_are_no_kernels, false},
    {"routing that reaches half the experts is left out",
     routing_that_reaches_half_the_experts_is_left_out, false},
    {"the nearest fit is found", the_nearest_fit_is_found, false},
    {"rules of kernels are read", rules_of_kernels_are_read, false},
    {"wishes choose kernels by model", wishes_choose_kernels_by_model, false},
    {"what no table has is kept", what_no_table_has_is_kept, false},
    {"too many laws are refused", too_many_laws_are_refused, false},
    {"laws say what their fit knows", laws_say_what_their_fit_knows, false},
    {NULL, NULL, false},
};
