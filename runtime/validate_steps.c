/* What a replay's records say: factors from even stretches, errors of odd ones. */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/validate.h"
#include "sim/base/random.h"

#define INTERVAL     0.95  /* one side of a 90 % interval of a block */
#define TAG_INTERVAL 0.995 /* one side of a 99 % interval of the tag check's cost */
#define RESAMPLES    2000
#define SHIFT        0.15 /* of the canary: another epoch begins */

static double time_of(const struct kvt_step_record *record)
{
    return 0.5 * (record->time[0] + record->time[1]);
}

/* What the judges below work with. */
struct judged {
    struct kvt_validation *v;
    const struct kvt_step_log *run;
    struct kvt_family_times *families; /* [run->count], as all below */
    double *predicted;                 /* s, of a step */
    double *by_laws;                   /* the same with one factor a family */
    double *scratch;
    struct kvt_weighed *items;
};

static double quantile(double *values, int64_t count, double q)
{
    if (count == 0)
        return 0;
    gsl_sort(values, 1, (size_t)count);
    return gsl_stats_quantile_from_sorted_data(values, 1, (size_t)count, q);
}

/* ---- predictions ---------------------------------------------------------------------------- */

static int32_t epochs(struct judged *j)
{
    const struct kvt_step_log *run = j->run;
    int32_t epoch = 0;
    double level = run->canary_count > 0 ? run->canary[0] : 1;
    for (int64_t i = 0; i < run->count; i++) {
        int64_t block = i / KVT_BLOCK_STEPS;
        if (i % KVT_BLOCK_STEPS == 0 && block < run->canary_count &&
            fabs(run->canary[block] / level - 1) > SHIFT) {
            level = run->canary[block];
            epoch++;
        }
        j->families[i].epoch = epoch;
    }
    return epoch;
}

static double step_of(const struct kvt_family_times *times, kvt_factors factors)
{
    double sum = 0;
    for (int f = 0; f < KVT_FACTOR_COUNT; f++)
        sum += factors[times->role][f] * times->predicted[f];
    return sum;
}

/* Every odd stretch by the calibrating steps around it, and its misses by family. */
static void predict(struct judged *j)
{
    struct kvt_validation *v = j->v;
    const struct kvt_step_log *run = j->run;
    kvt_factors factors, whole;
    double all = 0;
    kvt_factors_median(j->families, run->count, j->items, whole);
    for (int64_t i = 0; i < run->count; i++) {
        const struct kvt_family_times *times = &j->families[i];
        if (kvt_calibrates(i))
            continue;
        if (i % KVT_STRETCH_STEPS == 0)
            kvt_factors_near(j->families, run->count, i / KVT_STRETCH_STEPS, KVT_NEAR_STEPS,
                             j->items, factors);
        j->predicted[i] = step_of(times, factors);
        j->by_laws[i] = step_of(times, whole);
        for (int f = 0; f < KVT_FACTOR_COUNT; f++) {
            struct kvt_miss *miss = &v->misses[times->role][f];
            miss->measured_s += times->measured[f];
            miss->predicted_s += factors[times->role][f] * times->predicted[f];
            miss->laws_s += times->predicted[f];
        }
        all += time_of(&run->records[i]);
    }
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        for (int f = 0; f < KVT_FACTOR_COUNT && all > 0; f++) {
            struct kvt_miss *miss = &v->misses[role][f];
            miss->share = (miss->predicted_s - miss->measured_s) / all;
        }
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Predicted steps in blocks of 50. Each block has its interval from all others. */
static void judge_blocks(struct judged *j)
{
    struct kvt_validation *v = j->v;
    double *ratio = j->scratch, sum = 0, want = 0, total = 0, square = 0;
    int64_t blocks = 0, in_block = 0, inside = 0;
    for (int64_t i = 0; i < j->run->count; i++) {
        if (kvt_calibrates(i))
            continue;
        sum += time_of(&j->run->records[i]);
        want += j->predicted[i];
        if (++in_block < KVT_BLOCK_STEPS)
            continue;
        ratio[blocks] = log(sum / want);
        total += ratio[blocks];
        square += ratio[blocks] * ratio[blocks];
        sum = want = 0;
        in_block = 0;
        blocks++;
    }
    v->steps.blocks = blocks;
    v->steps.inside = 1;
    v->steps.high = (double)INFINITY;
    if (blocks < 3)
        return;
    double n = (double)(blocks - 1), reach = gsl_cdf_tdist_Pinv(INTERVAL, n - 1);
    for (int64_t b = 0; b < blocks; b++) {
        double mean = (total - ratio[b]) / n;
        double rest = square - ratio[b] * ratio[b] - n * mean * mean;
        double spread = reach * sqrt((rest > 0 ? rest : 0) / (n - 1) * (1 + 1 / n));
        inside += fabs(ratio[b] - mean) <= spread;
        v->steps.low = expm1(mean - spread); /* that of the last is told */
        v->steps.high = expm1(mean + spread);
    }
    v->steps.inside = (double)inside / (double)blocks;
}

static void judge_steps(struct judged *j)
{
    struct kvt_validation *v = j->v;
    const struct kvt_step_log *run = j->run;
    double *errors = j->scratch;
    int64_t count = 0, calm = 0;
    for (int64_t i = 0; i < run->count; i++)
        if (!kvt_calibrates(i))
            errors[count++] = fabs(j->predicted[i] / time_of(&run->records[i]) - 1);
    v->steps.count = count;
    v->steps.median = quantile(errors, count, 0.5);
    v->steps.p90 = quantile(errors, count, 0.9);
    count = 0;
    for (int64_t i = 0; i < run->count; i++)
        if (!kvt_calibrates(i))
            errors[count++] = fabs(j->by_laws[i] / time_of(&run->records[i]) - 1);
    v->steps.laws_median = quantile(errors, count, 0.5);
    for (int64_t i = 0; i < run->count; i++)
        if (!kvt_calibrates(i) && run->records[i].switches == 0)
            errors[calm++] = fabs(j->predicted[i] / time_of(&run->records[i]) - 1);
    v->steps.flagged = count - calm;
    v->steps.calm_median = quantile(errors, calm, 0.5);
    for (int64_t i = 0; i < run->count; i++) {
        const double *time = run->records[i].time;
        errors[i] = fabs(time[1] / time[0] - 1);
    }
    v->repeat_median = quantile(errors, run->count, 0.5);
    for (int64_t i = 0; i < run->canary_count; i++)
        errors[i] = run->canary[i];
    v->canary.median = quantile(errors, run->canary_count, 0.5);
    v->canary.low = quantile(errors, run->canary_count, 0.05);
    v->canary.high = quantile(errors, run->canary_count, 0.95);
    for (int64_t i = 0; i < run->count; i++)
        if (run->records[i].load.prompt_tokens == 0)
            errors[v->steps.decodes++] = time_of(&run->records[i]);
    v->steps.decode_s = quantile(errors, v->steps.decodes, 0.5);
}

enum kvt_status kvt_validate_steps(struct kvt_validation *validation,
                                   const struct kvt_step_log *run,
                                   struct kvt_predictor predictors[KVT_ROLE_COUNT],
                                   struct kvt_err *err)
{
    size_t count = (size_t)run->count + (size_t)run->canary_count + 1;
    struct judged j = {.v = validation,
                       .run = run,
                       .families = calloc(count, sizeof *j.families),
                       .predicted = calloc(count, sizeof *j.predicted),
                       .by_laws = calloc(count, sizeof *j.by_laws),
                       .scratch = calloc(count, sizeof *j.scratch),
                       .items = calloc(count, sizeof *j.items)};
    enum kvt_status status = KVT_OK;
    if (j.families == NULL || j.predicted == NULL || j.by_laws == NULL || j.scratch == NULL ||
        j.items == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to judge %zu steps", count);
    if (status == KVT_OK) {
        for (int64_t i = 0; i < run->count; i++)
            kvt_family_times(&j.families[i], &run->records[i], &predictors[run->records[i].role]);
        validation->canary.shifts = epochs(&j);
        predict(&j);
        judge_blocks(&j);
        judge_steps(&j);
    }
    free(j.families);
    free(j.predicted);
    free(j.by_laws);
    free(j.scratch);
    free(j.items);
    return status;
}

enum kvt_status kvt_validate_factors(const struct kvt_step_log *run,
                                     struct kvt_predictor predictors[KVT_ROLE_COUNT],
                                     struct kvt_err *err)
{
    kvt_factors factors;
    struct kvt_family_times *families = calloc((size_t)run->count + 1, sizeof *families);
    if (families == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to judge %lld steps", (long long)run->count);
    for (int64_t i = 0; i < run->count; i++)
        kvt_family_times(&families[i], &run->records[i], &predictors[run->records[i].role]);
    kvt_factors_mean(families, run->count, factors);
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        memcpy(predictors[role].factor, factors[role], sizeof factors[role]);
    free(families);
    return KVT_OK;
}

/* ---- tag check ------------------------------------------------------------------------------ */

static void resample(struct kvt_validation *v, const struct kvt_step_log *run, double *medians,
                     double *drawn, uint64_t seed)
{
    size_t count = (size_t)run->tag_count;
    memcpy(drawn, run->tag_ratio, count * sizeof *drawn);
    v->tag_check.measured = quantile(drawn, run->tag_count, 0.5);
    struct kvt_stream stream;
    kvt_stream_init(&stream, seed, KVT_PURPOSE_BOOTSTRAP, 0);
    for (int i = 0; i < RESAMPLES; i++) {
        for (size_t k = 0; k < count; k++)
            drawn[k] = run->tag_ratio[kvt_stream_below(&stream, count)];
        medians[i] = quantile(drawn, run->tag_count, 0.5);
    }
    v->tag_check.low = quantile(medians, RESAMPLES, 1 - TAG_INTERVAL);
    v->tag_check.high = quantile(medians, RESAMPLES, TAG_INTERVAL);
}

enum kvt_status kvt_validate_tags(struct kvt_validation *validation, const struct kvt_step_log *run,
                                  struct kvt_predictor predictors[KVT_ROLE_COUNT], uint64_t seed,
                                  struct kvt_err *err)
{
    struct kvt_validation *v = validation;
    double check = 0, step = 0;
    for (int64_t i = 0; i < run->count; i++) {
        const struct kvt_step_record *record = &run->records[i];
        if (record->load.decodes == 0)
            continue;
        check += kvt_predictor_tag_check(&predictors[record->role], record->pages);
        step += time_of(record);
    }
    v->tag_check.predicted = step > 0 ? check / step : 0;
    v->tag_check.pairs = run->tag_count * KVT_TAG_PAIRS;
    if (run->tag_count == 0)
        return KVT_OK;
    double *medians = malloc(RESAMPLES * sizeof *medians);
    double *drawn = malloc((size_t)run->tag_count * sizeof *drawn);
    enum kvt_status status = KVT_OK;
    if (medians == NULL || drawn == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to resample %lld steps",
                             (long long)run->tag_count);
    else
        resample(v, run, medians, drawn, seed);
    free(medians);
    free(drawn);
    return status;
}
