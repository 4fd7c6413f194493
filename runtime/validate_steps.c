/* What a replay's records say: factors from even blocks, errors of odd ones. */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/validate.h"
#include "sim/base/random.h"

#define INTERVAL  0.95 /* one side of a 90 % interval */
#define RESAMPLES 2000

static double time_of(const struct kvt_step_record *record)
{
    return 0.5 * (record->time[0] + record->time[1]);
}

static bool calibrates(int64_t i)
{
    return i / KVT_BLOCK_STEPS % 2 == 0;
}

/* Time of each family in a step; what no part has is with the small kernels. */
static void measured_families(const struct kvt_step_record *record,
                              double seconds[KVT_FACTOR_COUNT])
{
    double rest = time_of(record);
    memset(seconds, 0, sizeof(double) * KVT_FACTOR_COUNT);
    for (int p = 0; p < KVT_PART_COUNT; p++) {
        if (kvt_part_factors[p] != KVT_FACTOR_SMALL) {
            seconds[kvt_part_factors[p]] += record->part[p];
            rest -= record->part[p];
        }
    }
    seconds[KVT_FACTOR_SMALL] = rest > 0 ? rest : 0;
}

struct weighed {
    double ratio, weight;
};

static int by_ratio(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static double weighted_median(struct weighed *items, int64_t count)
{
    double sum = 0, seen = 0;
    qsort(items, (size_t)count, sizeof *items, by_ratio);
    for (int64_t i = 0; i < count; i++)
        sum += items[i].weight;
    for (int64_t i = 0; i < count; i++) {
        seen += items[i].weight;
        if (2 * seen >= sum)
            return items[i].ratio;
    }
    return 1;
}

/* One factor a family for all roles: the median over calibration steps of measured over predicted,
 * each step weighed by what it should take there. */
static void fit_factors(struct kvt_validation *v, const struct kvt_step_log *run,
                        struct kvt_predictor predictors[KVT_ROLE_COUNT], struct weighed *items)
{
    for (int f = 0; f < KVT_FACTOR_COUNT; f++) {
        int64_t count = 0;
        for (int64_t i = 0; i < run->count; i++) {
            double predicted[KVT_FACTOR_COUNT], measured[KVT_FACTOR_COUNT];
            const struct kvt_step_record *record = &run->records[i];
            if (!calibrates(i))
                continue;
            kvt_predictor_families(&predictors[record->role], &record->load, predicted);
            measured_families(record, measured);
            if (predicted[f] > 0 && measured[f] > 0)
                items[count++] = (struct weighed){measured[f] / predicted[f], predicted[f]};
        }
        v->factors[f] = weighted_median(items, count);
        for (int role = 0; role < KVT_ROLE_COUNT; role++)
            predictors[role].factor[f] = v->factors[f];
    }
}

static void judge_blocks(struct kvt_validation *v, const struct kvt_step_log *run,
                         const double *predicted, double *ratio)
{
    int64_t blocks = run->count / KVT_BLOCK_STEPS, fitted = 0, inside = 0;
    for (int64_t b = 0; b < blocks; b++) {
        double sum = 0, want = 0;
        for (int64_t i = b * KVT_BLOCK_STEPS; i < (b + 1) * KVT_BLOCK_STEPS; i++) {
            sum += time_of(&run->records[i]);
            want += predicted[i];
        }
        ratio[b] = log(sum / want);
    }
    double mean = 0, square = 0;
    for (int64_t b = 0; b < blocks; b += 2, fitted++)
        mean += ratio[b];
    mean /= fitted > 0 ? (double)fitted : 1;
    for (int64_t b = 0; b < blocks; b += 2)
        square += (ratio[b] - mean) * (ratio[b] - mean);
    double n = (double)fitted;
    double spread =
        fitted > 1 ? sqrt(square / (n - 1)) * sqrt(1 + 1 / n) * gsl_cdf_tdist_Pinv(INTERVAL, n - 1)
                   : (double)INFINITY;
    v->steps.blocks = blocks / 2;
    for (int64_t b = 1; b < blocks; b += 2)
        inside += fabs(ratio[b] - mean) <= spread;
    v->steps.inside = blocks / 2 > 0 ? (double)inside / (double)(blocks / 2) : 1;
}

static double quantile(double *values, int64_t count, double q)
{
    if (count == 0)
        return 0;
    gsl_sort(values, 1, (size_t)count);
    return gsl_stats_quantile_from_sorted_data(values, 1, (size_t)count, q);
}

static void judge_steps(struct kvt_validation *v, const struct kvt_step_log *run,
                        const double *predicted, double *errors)
{
    int64_t count = 0, calm = 0;
    for (int64_t i = 0; i < run->count; i++)
        if (!calibrates(i))
            errors[count++] = fabs(predicted[i] / time_of(&run->records[i]) - 1);
    v->steps.count = count;
    v->steps.median = quantile(errors, count, 0.5);
    v->steps.p90 = quantile(errors, count, 0.9);
    for (int64_t i = 0; i < run->count; i++)
        if (!calibrates(i) && run->records[i].switches == 0)
            errors[calm++] = fabs(predicted[i] / time_of(&run->records[i]) - 1);
    v->steps.flagged = count - calm;
    v->steps.flagged_median = quantile(errors, calm, 0.5);
    for (int64_t i = 0; i < run->count; i++) {
        const double *time = run->records[i].time;
        errors[i] = fabs(time[1] / time[0] - 1);
    }
    v->repeat_median = quantile(errors, run->count, 0.5);
}

static void attribute(struct kvt_validation *v, const struct kvt_step_log *run,
                      struct kvt_predictor predictors[KVT_ROLE_COUNT])
{
    double all = 0;
    for (int f = 0; f < KVT_FACTOR_COUNT; f++)
        v->misses[f] = (struct kvt_miss){.name = kvt_factor_names[f]};
    for (int64_t i = 0; i < run->count; i++) {
        double predicted[KVT_FACTOR_COUNT], measured[KVT_FACTOR_COUNT];
        const struct kvt_step_record *record = &run->records[i];
        if (calibrates(i))
            continue;
        kvt_predictor_families(&predictors[record->role], &record->load, predicted);
        measured_families(record, measured);
        all += time_of(record);
        for (int f = 0; f < KVT_FACTOR_COUNT; f++) {
            v->misses[f].measured_s += measured[f];
            v->misses[f].predicted_s += v->factors[f] * predicted[f];
        }
    }
    for (int f = 0; f < KVT_FACTOR_COUNT && all > 0; f++)
        v->misses[f].share = (v->misses[f].predicted_s - v->misses[f].measured_s) / all;
}

void kvt_validate_steps(struct kvt_validation *validation, const struct kvt_step_log *run,
                        struct kvt_predictor predictors[KVT_ROLE_COUNT])
{
    struct kvt_validation *v = validation;
    size_t count = (size_t)run->count + 1;
    double *predicted = malloc(count * sizeof *predicted);
    double *scratch = malloc(count * sizeof *scratch);
    struct weighed *items = malloc(count * sizeof *items);
    if (predicted != NULL && scratch != NULL && items != NULL) {
        fit_factors(v, run, predictors, items);
        for (int64_t i = 0; i < run->count; i++)
            predicted[i] =
                kvt_predictor_step(&predictors[run->records[i].role], &run->records[i].load);
        judge_blocks(v, run, predicted, scratch);
        judge_steps(v, run, predicted, scratch);
        attribute(v, run, predictors);
    }
    free(predicted);
    free(scratch);
    free(items);
}

void kvt_validate_tags(struct kvt_validation *validation, const struct kvt_step_log *run,
                       struct kvt_predictor predictors[KVT_ROLE_COUNT], uint64_t seed)
{
    struct kvt_validation *v = validation;
    double check = 0, step = 0;
    for (int64_t i = 0; i < run->count; i++) {
        const struct kvt_step_record *record = &run->records[i];
        if (record->load.decodes == 0)
            continue;
        check += kvt_predictor_tag_check(&predictors[record->role], record->pages);
        step += kvt_predictor_step(&predictors[record->role], &record->load);
    }
    v->tag_check.predicted = step > 0 ? check / step : 0;
    v->tag_check.pairs = run->tag_count;
    size_t count = (size_t)run->tag_count;
    double *medians = malloc(RESAMPLES * sizeof *medians);
    double *drawn = malloc((count + 1) * sizeof *drawn);
    if (count == 0 || medians == NULL || drawn == NULL) {
        free(medians);
        free(drawn);
        return;
    }
    memcpy(drawn, run->tag_ratio, count * sizeof *drawn);
    v->tag_check.measured = quantile(drawn, run->tag_count, 0.5);
    struct kvt_stream stream;
    kvt_stream_init(&stream, seed, KVT_PURPOSE_BOOTSTRAP, 0);
    for (int i = 0; i < RESAMPLES; i++) {
        for (size_t j = 0; j < count; j++)
            drawn[j] = run->tag_ratio[kvt_stream_below(&stream, count)];
        medians[i] = quantile(drawn, run->tag_count, 0.5);
    }
    v->tag_check.low = quantile(medians, RESAMPLES, 0.05);
    v->tag_check.high = quantile(medians, RESAMPLES, 0.95);
    free(medians);
    free(drawn);
}
