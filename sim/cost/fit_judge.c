/* Series that others show to be no kernel times. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/cost/fit_calibration.h"
#include "sim/cost/fit_parts.h"

#define CONVERTS    1.5    /* so much slower than 16 bits: converting, not attending */
#define LAUNCHES    1.5    /* so much slower than another stack while small ... */
#define KERNELS     1.3    /* ... and at most this while large */
#define SMALL_ROWS  64.0   /* of a GEMM */
#define LARGE_ROWS  8192.0 /* the same */
#define ROWS_WANTED 50     /* of either kind, to tell */

#define MODELS_MAX      64
#define ROWS_EACH_MOST  6.0 /* of an expert, up to which its weights are what takes the time */
#define BALANCED_WANTED 8   /* rows of either routing, to tell */
#define BALANCED_SHARE  0.9 /* of the time of skewed rows, which read fewer experts */

/* Mean of log(time / what another fit says) over rows of least to most m. False: too few. */
static bool log_ratio(const struct kvt_series *s, const struct kvt_fit *other, double least,
                      double most, double *ratio)
{
    int64_t count = 0;
    double sum = 0.0;
    for (int64_t i = 0; i < s->count; i++) {
        const struct kvt_work *work = &s->samples[i].work;
        if (work->dim[KVT_DIM_M] < least || work->dim[KVT_DIM_M] > most)
            continue;
        sum += log(s->samples[i].time / kvt_fit_time(other, work));
        count++;
    }
    *ratio = count > 0 ? sum / (double)count : 0.0;
    return count >= ROWS_WANTED;
}

static void judge_cache(struct kvt_fit *fit, const struct kvt_fit *other)
{
    const struct kvt_series *s = fit->series, *twin = other->series;
    double ratio;
    if (s->family != KVT_FAMILY_MLA_DECODE_FP8 || twin->family != KVT_FAMILY_MLA_DECODE_BF16 ||
        strcmp(s->stack, twin->stack) != 0 || strcmp(s->version, twin->version) != 0)
        return;
    log_ratio(s, other, 0.0, HUGE_VAL, &ratio);
    if (ratio < log(CONVERTS))
        return;
    snprintf(fit->trouble, sizeof fit->trouble,
             "8-bit KV takes %.1f times as long as 16-bit KV: the cache is converted at every call",
             exp(ratio));
    fit->bad = true;
}

static void judge_launches(struct kvt_fit *fit, const struct kvt_fit *other)
{
    const struct kvt_series *s = fit->series, *twin = other->series;
    double small, large;
    if (s->family != KVT_FAMILY_GEMM_FP8_BLOCK || twin->family != s->family ||
        strcmp(s->stack, twin->stack) == 0 || !log_ratio(s, other, 0.0, SMALL_ROWS, &small) ||
        !log_ratio(s, other, LARGE_ROWS, HUGE_VAL, &large))
        return;
    if (small < log(LAUNCHES) || large > log(KERNELS))
        return;
    snprintf(fit->trouble, sizeof fit->trouble,
             "up to %.0f rows it takes %.1f times as long as %s %s, from %.0f rows on %.2f times: "
             "launches, not kernels",
             SMALL_ROWS, exp(small), twin->stack, twin->version, LARGE_ROWS, exp(large));
    fit->bad = true;
}

/* One model of a series of experts, and the times of its weight-bound rows by routing. */
struct routed {
    double hidden, experts, topk;
    double sum[2]; /* of log(time): balanced, by a power law */
    int64_t count[2];
};

static struct routed *model_of(struct routed models[], int32_t *count, const struct kvt_work *w)
{
    for (int32_t i = 0; i < *count; i++)
        if (models[i].hidden == w->dim[KVT_DIM_HIDDEN] &&
            models[i].experts == w->dim[KVT_DIM_EXPERTS] && models[i].topk == w->dim[KVT_DIM_TOPK])
            return &models[i];
    if (*count == MODELS_MAX)
        return NULL;
    models[*count] = (struct routed){.hidden = w->dim[KVT_DIM_HIDDEN],
                                     .experts = w->dim[KVT_DIM_EXPERTS],
                                     .topk = w->dim[KVT_DIM_TOPK]};
    return &models[(*count)++];
}

static bool is_half_hit(const struct routed *m)
{
    return m->count[0] >= BALANCED_WANTED && m->count[1] >= BALANCED_WANTED &&
           m->sum[0] / (double)m->count[0] < m->sum[1] / (double)m->count[1] + log(BALANCED_SHARE);
}

int64_t kvt_series_judge_routing(struct kvt_series *series)
{
    struct routed models[MODELS_MAX];
    int32_t count = 0;
    int64_t kept = 0, rows = 0;
    if (!kvt_family_is_experts((enum kvt_family)series->family))
        return 0;
    for (int64_t i = 0; i < series->count; i++) {
        const struct kvt_work *w = &series->samples[i].work;
        double each = w->dim[KVT_DIM_M] * w->dim[KVT_DIM_TOPK] / w->dim[KVT_DIM_EXPERTS];
        struct routed *m = model_of(models, &count, w);
        bool power = w->dim[KVT_DIM_ROUTING] > 1.0;
        if (m == NULL || w->dim[KVT_DIM_RANKS] != 1.0 || each < 1.0 || each > ROWS_EACH_MOST)
            continue;
        m->sum[power] += log(series->samples[i].time);
        m->count[power]++;
    }
    for (int64_t i = 0; i < series->count; i++) {
        const struct kvt_sample *s = &series->samples[i];
        const struct routed *m = model_of(models, &count, &s->work);
        if (m != NULL && s->work.dim[KVT_DIM_ROUTING] == 1.0 && is_half_hit(m))
            rows += s->repeats;
        else
            series->samples[kept++] = *s;
    }
    series->count = kept;
    return rows;
}

void kvt_fits_judge(struct kvt_fit fits[], int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        for (int32_t k = 0; k < count; k++) {
            if (fits[i].bad || fits[k].bad || fits[k].law_count == 0)
                continue;
            judge_cache(&fits[i], &fits[k]);
            judge_launches(&fits[i], &fits[k]);
        }
}
