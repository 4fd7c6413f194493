/*
 * Few rows: a law alone, with as many parameters as they can tell. A grid of 25 to 60 points holds
 * no surface, and holding a fifth of it out would waste it, so that errors are those of five folds.
 */
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/fit_parts.h"

#define ROWS_EACH   3    /* rows that one parameter needs */
#define FELT        2e-3 /* a parameter is felt when doubling it moves the rows by this much */
#define FOLDS       5
#define COVERED_MIN 20 /* rows, to split an interval's rows in two */

/* In this order they are left out when rows are few; what any law has comes last. Those of the
 * first line always are: small grids do not tell them from t0. */
#define NEVER                                                                                      \
    (1u << KVT_PARAMETER_SPLIT_TOKENS | 1u << KVT_PARAMETER_SPLIT | 1u << KVT_PARAMETER_SERIAL)
static const enum kvt_parameter order[] = {
    KVT_PARAMETER_SPLIT_TOKENS, KVT_PARAMETER_SPLIT, KVT_PARAMETER_SERIAL, KVT_PARAMETER_PAD,
    KVT_PARAMETER_TOKENS,       KVT_PARAMETER_FLOPS, KVT_PARAMETER_T0,
};
enum { ORDER = sizeof order / sizeof order[0] };

static int32_t count_of(unsigned parameters)
{
    int32_t count = 0;
    for (; parameters != 0; parameters >>= 1)
        count += (int32_t)(parameters & 1);
    return count;
}

/* Without those that no row feels at the start, and without those that the rows are too few for. */
static unsigned choose(const struct kvt_law *start, unsigned parameters,
                       const struct kvt_sample *const samples[], int64_t count)
{
    for (int p = 0; p < KVT_PARAMETER_COUNT; p++) {
        double felt = 0.0;
        for (int64_t i = 0; i < count && (parameters >> p & 1) != 0; i++)
            felt = fmax(felt, fabs(kvt_parameter_slope(start, p, &samples[i]->work)));
        if (felt < FELT)
            parameters &= ~(1u << p);
    }
    for (int o = 0; o < ORDER && count_of(parameters) * ROWS_EACH > count; o++)
        parameters &= ~(1u << order[o]);
    return parameters;
}

/* A law that keeps of the start what is fitted, and what the rest of it does not need at all. */
static struct kvt_law bare(const struct kvt_law *start, unsigned parameters)
{
    struct kvt_law law = *start;
    for (int o = 0; o < ORDER; o++)
        if ((parameters >> order[o] & 1) == 0 && order[o] != KVT_PARAMETER_T0 &&
            order[o] != KVT_PARAMETER_FLOPS)
            *kvt_parameter_of(&law, (int)order[o]) = 0.0;
    return law;
}

/* Errors and interval from measured/predicted of rows that the fold's law did not see. The coverage
 * is that of the interval of one half on the other. */
static void set_errors(struct kvt_fit *fit, double ratio[], const int half[], int64_t count,
                       double scratch[])
{
    struct kvt_fit_errors e = {.rows = count};
    int64_t inside = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        scratch[i] = fabs(1.0 / ratio[i] - 1.0);
        e.mean += scratch[i] / (double)count;
    }
    gsl_sort(scratch, 1, (size_t)count);
    e.median = gsl_stats_quantile_from_sorted_data(scratch, 1, (size_t)count, 0.5);
    e.p90 = gsl_stats_quantile_from_sorted_data(scratch, 1, (size_t)count, 0.9);
    fit->held = fit->unseen = e;
    for (int side = 0; side < 3; side++) { /* 2: all of them, last */
        int64_t n = 0;
        for (int64_t i = 0; i < count; i++)
            if (side == 2 || half[i] == side)
                scratch[n++] = ratio[i];
        if (n == 0)
            continue;
        gsl_sort(scratch, 1, (size_t)n);
        fit->low = gsl_stats_quantile_from_sorted_data(scratch, 1, (size_t)n, 0.05);
        fit->high = gsl_stats_quantile_from_sorted_data(scratch, 1, (size_t)n, 0.95);
        for (int64_t i = 0; side < 2 && i < count; i++) {
            all += half[i] != side;
            inside += half[i] != side && ratio[i] >= fit->low && ratio[i] <= fit->high;
        }
    }
    fit->coverage = count >= COVERED_MIN ? (double)inside / (double)all : 0.0;
}

struct folded { /* a row and where its hash puts it */
    const struct kvt_sample *sample;
    uint64_t hash;
};

static int by_hash(const void *x, const void *y)
{
    const struct folded *a = x, *b = y;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->sample->key > b->sample->key) - (a->sample->key < b->sample->key);
}

/* Put rows in the order of their shapes' hashes, so that a fold is a run of whole shapes, where
 * there are enough of them; else by their own. */
static void order_by_fold(struct folded rows[], int64_t count)
{
    for (int turn = 0; turn < 2; turn++) {
        int64_t distinct = 1;
        for (int64_t i = 0; i < count; i++)
            rows[i].hash = kvt_fit_hash(turn == 0 ? rows[i].sample->shape : rows[i].sample->key);
        qsort(rows, (size_t)count, sizeof *rows, by_hash);
        for (int64_t i = 1; i < count; i++)
            distinct += rows[i].hash != rows[i - 1].hash;
        if (distinct >= 2 * FOLDS)
            return;
    }
}

/* The fold of row i: equal hashes stay together. */
static int64_t fold_of(const struct folded rows[], int64_t count, int64_t i)
{
    while (i > 0 && rows[i].hash == rows[i - 1].hash)
        i--;
    return i * FOLDS / count;
}

static bool cross_validate(struct kvt_fit *fit, const struct kvt_law *start, unsigned parameters,
                           double bandwidth_max, const struct kvt_sample *const samples[],
                           int64_t count)
{
    size_t n = (size_t)count;
    struct folded *rows = malloc(n * sizeof *rows);
    const struct kvt_sample **seen = malloc(n * sizeof *seen);
    double *ratio = malloc(2 * n * sizeof *ratio);
    int *half = malloc(n * sizeof *half);
    bool fine = rows != NULL && seen != NULL && ratio != NULL && half != NULL;
    for (int64_t i = 0; fine && i < count; i++)
        rows[i].sample = samples[i];
    if (fine)
        order_by_fold(rows, count);
    for (int64_t fold = 0; fine && fold < FOLDS; fold++) {
        int64_t kept = 0;
        struct kvt_law law = *start;
        for (int64_t i = 0; i < count; i++)
            if (fold_of(rows, count, i) != fold)
                seen[kept++] = rows[i].sample;
        fine = kept > 0 && kvt_fit_law(&law, parameters, KVT_FIT_STARTS, bandwidth_max, seen, kept);
        for (int64_t i = 0; fine && i < count; i++) {
            if (fold_of(rows, count, i) != fold)
                continue;
            const struct kvt_sample *s = rows[i].sample;
            ratio[i] = s->time / kvt_law_time(&law, &s->work, NULL);
            half[i] = (int)(rows[i].hash >> 20 & 1);
        }
    }
    if (fine)
        set_errors(fit, ratio, half, count, ratio + count);
    free(rows);
    free(seen);
    free(ratio);
    free(half);
    return fine;
}

/* What no machine could do, and what the rows do not tell. */
static void judge(struct kvt_fit *fit, const struct kvt_gpu *gpu)
{
    size_t used = strlen(fit->trouble);
    const struct kvt_law *law = &fit->laws[0];
    double peak = fmax(gpu->flops_bf16, gpu->flops_fp8);
    for (int32_t i = 0; i < fit->parameter_count && used < sizeof fit->trouble; i++) {
        const struct kvt_fit_parameter *p = &fit->parameters[i];
        if (!p->known)
            used += (size_t)snprintf(fit->trouble + used, sizeof fit->trouble - used,
                                     "%s%s is not told by these rows (%.3g to %.3g)",
                                     used > 0 ? "; " : "", p->name, p->low, p->high);
    }
    if (law->flops > 1.2 * peak && peak > 0.0 && used < sizeof fit->trouble)
        snprintf(fit->trouble + used, sizeof fit->trouble - used,
                 "%s%.4g FLOP/s is more than the %.4g of %s", used > 0 ? "; " : "", law->flops,
                 peak, gpu->name);
}

bool kvt_fit_small(struct kvt_fit *fit, const struct kvt_form *form, const struct kvt_gpu *gpu,
                   const struct kvt_sample *const samples[], int64_t count)
{
    struct kvt_law start = kvt_form_start(fit->series, form, gpu);
    start = bare(&start, form->parameters & ~NEVER);
    unsigned parameters = choose(&start, form->parameters & ~NEVER, samples, count);
    start = bare(&start, parameters);
    double most = gpu->bandwidth;
    if (parameters == 0)
        return false;
    fit->laws = calloc(1, sizeof *fit->laws);
    if (fit->laws == NULL)
        return false;
    fit->laws[0] = start;
    fit->law_count = 1;
    bool fine = kvt_fit_law(&fit->laws[0], parameters, KVT_FIT_STARTS, most, samples, count) &&
                kvt_fit_parameters(fit, &fit->laws[0], parameters, samples, count) &&
                cross_validate(fit, &start, parameters, most, samples, count);
    if (!fine) {
        free(fit->laws);
        fit->laws = NULL;
        fit->law_count = 0;
        return false;
    }
    kvt_fit_grid(&fit->laws[0], samples, count);
    judge(fit, gpu);
    return true;
}
