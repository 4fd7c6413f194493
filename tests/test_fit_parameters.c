/* Parameters of every kind of law, fitted to rows that a known law made with noise on them: the
 * truth lies inside 95 % intervals about so often. */
#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/cost/fit_parts.h"
#include "tests/check.h"

#define ROWS  400
#define DRAWS 25
#define NOISE 0.05

static const struct kvt_gpu gpu = {.name = "h200-sxm",
                                   .bandwidth = 4.8e12,
                                   .flops_bf16 = 989.4e12,
                                   .flops_fp8 = 1978.9e12,
                                   .link_bandwidth = 450e9};

/* A size from low to high, evenly in logarithms. */
static double size(gsl_rng *rng, double low, double high)
{
    return low * pow(high / low, gsl_rng_uniform(rng));
}

static void gemm_row(gsl_rng *rng, struct kvt_work *w)
{
    double m = size(rng, 1, 16384), n = size(rng, 128, 32768), k = size(rng, 128, 32768);
    w->dim[KVT_DIM_K] = k;
    w->bytes = 2.0 * n * k + 2.0 * m * (n + k);
    w->flops = 2.0 * m * n * k;
}

static void experts_row(gsl_rng *rng, struct kvt_work *w)
{
    double m = size(rng, 1, 16384), inter = size(rng, 128, 2048), experts = 256, topk = 8;
    double hit = fmin(experts, m * topk), matrix = 3.0 * 7168 * inter;
    w->bytes = hit * matrix;
    w->flops = 2.0 * m * topk * matrix;
    w->tile_flops = 2.0 * hit * matrix;
}

static void decode_row(gsl_rng *rng, struct kvt_work *w)
{
    double heads = pow(2.0, 3.0 + floor(5.0 * gsl_rng_uniform(rng)));
    w->batch = floor(size(rng, 1, 512));
    w->context = w->windowed = w->batch * size(rng, 16, 65536);
    w->token_bytes = 1152;
    w->token_flops = 2.0 * heads * 1088;
}

static void sparse_row(gsl_rng *rng, struct kvt_work *w)
{
    static const double batches[] = {1, 4, 16, 64, 256};
    double length = size(rng, 16, 131072);
    w->batch = batches[gsl_rng_uniform_int(rng, 5)];
    w->context = w->batch * length;
    w->windowed = w->batch * fmin(length, 2048);
    w->token_bytes = 1152;
    w->index_bytes = 132;
}

static void link_row(gsl_rng *rng, struct kvt_work *w)
{
    w->bytes = size(rng, 512, 1e9);
}

static const struct kind {
    const char *name;
    enum kvt_family family;
    struct kvt_law truth;
    void (*row)(gsl_rng *rng, struct kvt_work *work);
} kinds[] = {
    {"gemm",
     KVT_FAMILY_GEMM_BF16,
     {.kind = KVT_LAW_ROOFLINE, .t0 = 4e-6, .serial = 0.4e-9, .bandwidth = 4.1e12, .flops = 720e12},
     gemm_row},
    {"experts",
     KVT_FAMILY_EXPERTS_FP8_BLOCK,
     {.kind = KVT_LAW_ROOFLINE, .t0 = 33e-6, .bandwidth = 3.6e12, .flops = 500e12, .pad = 24},
     experts_row},
    {"decode",
     KVT_FAMILY_MLA_DECODE_BF16,
     {.kind = KVT_LAW_DECODE,
      .t0 = 9e-6,
      .bandwidth = 3.9e12,
      .flops = 600e12,
      .tokens = 180,
      .split = 8e-6,
      .split_tokens = 600},
     decode_row},
    {"sparse",
     KVT_FAMILY_SPARSE_DECODE_BF16,
     {.kind = KVT_LAW_SPARSE,
      .bandwidth = 2.1e12,
      .index_bandwidth = 1.3e12,
      .split = 20e-6,
      .split_tokens = 900,
      .points = 5,
      .at = {1, 4, 16, 64, 256},
      .time = {70e-6, 90e-6, 115e-6, 140e-6, 165e-6}},
     sparse_row},
    {"link",
     KVT_FAMILY_ALL_GATHER,
     {.kind = KVT_LAW_ROOFLINE, .t0 = 8e-6, .bandwidth = 380e9},
     link_row},
};

/* Of the parameters that the rows tell, how many hold the truth. */
static void fit_draw(const struct kind *kind, gsl_rng *rng, int32_t *inside, int32_t *known)
{
    static struct kvt_sample samples[ROWS];
    static const struct kvt_sample *rows[ROWS];
    struct kvt_series series = {.family = (int32_t)kind->family,
                                .kind = kind->truth.kind,
                                .link = kind->family == KVT_FAMILY_ALL_GATHER};
    const struct kvt_form *form = kvt_form_of(&series);
    struct kvt_law truth = kind->truth;
    truth.p = form->p;
    for (int i = 0; i < ROWS; i++) {
        samples[i] = (struct kvt_sample){.repeats = 1};
        kind->row(rng, &samples[i].work);
        samples[i].time =
            kvt_law_time(&truth, &samples[i].work, NULL) * exp(gsl_ran_gaussian(rng, NOISE));
        rows[i] = &samples[i];
    }
    struct kvt_law law = kvt_form_start(&series, form, &gpu);
    for (int32_t k = 0; k < truth.points; k++) {
        law.at[k] = truth.at[k];
        law.time[k] = law.time[0];
    }
    law.points = truth.points;
    struct kvt_fit fit = {.series = &series};
    CHECK(kvt_fit_law(&law, form->parameters, KVT_FIT_STARTS, 1e14, rows, ROWS));
    CHECK(kvt_fit_parameters(&fit, &law, form->parameters, rows, ROWS));
    for (int32_t i = 0, next = 0; i < KVT_PARAMETER_COUNT; i++) {
        if (!(form->parameters >> i & 1) || next == fit.parameter_count)
            continue;
        const struct kvt_fit_parameter *p = &fit.parameters[next++];
        double value = *kvt_parameter_of(&truth, i);
        CHECK_CLOSE(p->value, *kvt_parameter_of(&law, i), 1e-12, p->name);
        *known += p->known;
        *inside += p->known && value >= p->low && value <= p->high;
    }
}

static void known_parameters_lie_inside_their_intervals(void)
{
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        int32_t inside = 0, known = 0;
        char note[96];
        for (int draw = 0; draw < DRAWS; draw++)
            fit_draw(&kinds[k], rng, &inside, &known);
        snprintf(note, sizeof note, "%s: %d of %d inside", kinds[k].name, inside, known);
        CHECK_NOTE(known >= 2 * DRAWS, note);
        CHECK_NOTE(inside >= 0.87 * known, note);
        CHECK_NOTE(inside < known || known < 5 * DRAWS, "intervals are not too wide either");
    }
    gsl_rng_free(rng);
}

static void rows_without_a_size_tell_nothing_of_it(void)
{
    static struct kvt_sample samples[ROWS];
    static const struct kvt_sample *rows[ROWS];
    struct kvt_series series = {.family = KVT_FAMILY_GEMM_BF16, .kind = KVT_LAW_ROOFLINE};
    const struct kvt_form *form = kvt_form_of(&series);
    struct kvt_law law = kvt_form_start(&series, form, &gpu);
    struct kvt_fit fit = {.series = &series};
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    for (int i = 0; i < ROWS; i++) { /* one row of activations: compute is never felt */
        double n = size(rng, 1024, 65536);
        samples[i].work.bytes = 2.0 * n * 8192;
        samples[i].work.flops = 2.0 * n * 8192;
        samples[i].time = (5e-6 + samples[i].work.bytes / 4e12) * exp(gsl_ran_gaussian(rng, NOISE));
        rows[i] = &samples[i];
    }
    CHECK(kvt_fit_law(&law, form->parameters, KVT_FIT_STARTS, 1e14, rows, ROWS));
    CHECK(kvt_fit_parameters(&fit, &law, form->parameters, rows, ROWS));
    for (int32_t i = 0; i < fit.parameter_count; i++) {
        bool felt = strcmp(fit.parameters[i].name, "bandwidth") == 0 ||
                    strcmp(fit.parameters[i].name, "t0") == 0;
        CHECK_NOTE(fit.parameters[i].known == felt, fit.parameters[i].name);
    }
    gsl_rng_free(rng);
}

/* clang-format off */
const struct check_test check_fit_parameters[] = {
    {"known parameters lie inside their intervals",
     known_parameters_lie_inside_their_intervals, false},
    {"rows without a size tell nothing of it", rows_without_a_size_tell_nothing_of_it, false},
    {NULL, NULL, false},
};
/* clang-format on */
