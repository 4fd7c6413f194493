#include "sim/plan/resample.h"

#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

/* ---- one run ------------------------------------------------------------------------------ */

/* What one run needs beside its arenas; too large for a stack. */
struct workplace {
    struct kvt_error_factors errors;
    struct kvt_simulation simulation;
    struct kvt_summary summary;
};

/* The metrics of a run that is done, and their names where nobody has written them yet. */
static void take_values(struct kvt_resamples *resamples, int32_t resample,
                        const struct kvt_resample_options *options, const struct workplace *at)
{
    const struct kvt_summary *summary = &at->summary;
    int32_t last = summary->metric_count;
    kvt_assert(resamples->metric_count == last + (options->extra != NULL));
    for (int32_t m = 0; m < last; m++)
        resamples->values[(size_t)m * (size_t)resamples->count + (size_t)resample] =
            kvt_metric_number(&summary->metrics[m]);
    if (options->extra != NULL)
        resamples->values[(size_t)last * (size_t)resamples->count + (size_t)resample] =
            options->extra(&at->simulation);
}

static enum kvt_status summarise(struct workplace *at, struct kvt_arena *arena, struct kvt_err *err)
{
    struct kvt_result result;
    KVT_TRY(kvt_simulation_result(&at->simulation, &result, err));
    return kvt_summary_init(&at->summary, &result, arena, err);
}

static enum kvt_status run_one(struct kvt_resamples *resamples, int32_t resample,
                               const struct kvt_simulation *base,
                               const struct kvt_resample_options *options, struct workplace *at,
                               struct kvt_err *err)
{
    struct kvt_simulate_options how = {.exact = options->exact, .stop = options->stop};
    if (base->faults != NULL) {
        how.strikes = base->faults->strikes;
        how.strike_count = base->faults->count;
    }
    struct kvt_arena arena;
    KVT_TRY(kvt_arena_init(&arena, KVT_SUMMARY_BYTES, err));
    kvt_error_factors_init(&at->errors, options->seed, (uint64_t)resample);
    enum kvt_status status =
        kvt_simulation_init_with_errors(&at->simulation, base, &at->errors, &how, err);
    if (status == KVT_OK) {
        status = kvt_simulation_run(&at->simulation, &how, err);
        if (status == KVT_OK)
            status = summarise(at, &arena, err);
        if (status == KVT_OK)
            take_values(resamples, resample, options, at);
        kvt_simulation_release(&at->simulation);
    }
    kvt_arena_release(&arena);
    return status;
}

/* ---- all of them -------------------------------------------------------------------------- */

/* What the threads share; all but the values are written by one at a time. */
struct crew {
    int32_t done, whole, failed; /* failed: the first resample that did, or count */
    enum kvt_status status;
    struct kvt_err err;
};

static void report(struct crew *crew, int32_t resample, enum kvt_status status,
                   const struct kvt_err *why, const struct kvt_resample_options *options)
{
    crew->done++;
    crew->whole += status == KVT_OK;
    if (status != KVT_OK && resample < crew->failed) {
        crew->failed = resample;
        crew->status = status;
        crew->err = *why;
    }
    kvt_tell(&options->tell, (double)crew->done / options->count, crew->done);
}

/* Each resample writes its own column of values: the order in which they run shows nowhere. */
static void run_all(struct kvt_resamples *resamples, const struct kvt_simulation *base,
                    const struct kvt_resample_options *options, struct crew *crew)
{
    int32_t count = options->count;
#pragma omp parallel for schedule(dynamic, 1) if (count > 1)
    for (int32_t r = 0; r < count; r++) {
        struct kvt_err why = {0};
        enum kvt_status status;
        struct workplace *at = NULL;
        if (kvt_stop_asked(options->stop))
            status = kvt_err_set(&why, KVT_EINTR, "interrupted between resamples");
        else if ((at = malloc(sizeof *at)) == NULL)
            status = kvt_err_set(&why, KVT_ENOMEM, "no memory for a run");
        else
            status = run_one(resamples, r, base, options, at, &why);
        free(at);
#pragma omp critical(kvt_resample)
        report(crew, r, status, &why, options);
    }
}

static enum kvt_status take_memory(struct kvt_resamples *resamples, const struct kvt_summary *point,
                                   const struct kvt_resample_options *options, struct kvt_err *err)
{
    int32_t last = point->metric_count;
    *resamples = (struct kvt_resamples){.count = options->count,
                                        .metric_count = last + (options->extra != NULL)};
    size_t metrics = (size_t)resamples->metric_count;
    resamples->names = calloc(metrics, sizeof *resamples->names);
    resamples->values = calloc(metrics * (size_t)options->count, sizeof *resamples->values);
    if (resamples->names == NULL || resamples->values == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d resamples", options->count);
    for (int32_t m = 0; m < last; m++)
        snprintf(resamples->names[m], sizeof *resamples->names, "%s", point->metrics[m].name);
    if (options->extra != NULL)
        snprintf(resamples->names[last], sizeof *resamples->names, "%s", options->extra_name);
    return KVT_OK;
}

enum kvt_status kvt_resample(struct kvt_resamples *resamples, const struct kvt_simulation *base,
                             const struct kvt_summary *point,
                             const struct kvt_resample_options *options, struct kvt_err *err)
{
    kvt_assert(options->count >= 1);
    kvt_assert(options->count <= KVT_RESAMPLES_MAX);
    KVT_TRY(take_memory(resamples, point, options, err));
    struct crew *crew = calloc(1, sizeof *crew);
    if (crew == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d resamples", options->count);
    crew->failed = options->count;
    run_all(resamples, base, options, crew);
    enum kvt_status status = crew->status;
    if (status == KVT_EINTR)
        kvt_err_set(err, status, "interrupted after %d of %d resample%s", crew->whole,
                    options->count, kvt_plural(options->count));
    else if (status != KVT_OK)
        kvt_err_set(err, status, "resample %d: %s", crew->failed, crew->err.text);
    free(crew);
    return status;
}

void kvt_resamples_release(struct kvt_resamples *resamples)
{
    free(resamples->names);
    free(resamples->values);
    *resamples = (struct kvt_resamples){0};
}

/* ---- what they say ------------------------------------------------------------------------ */

const double *kvt_resamples_values(const struct kvt_resamples *resamples, const char *name)
{
    for (int32_t m = 0; m < resamples->metric_count; m++)
        if (strcmp(resamples->names[m], name) == 0)
            return &resamples->values[(size_t)m * (size_t)resamples->count];
    return NULL;
}

double kvt_resamples_share(const struct kvt_resamples *resamples, const char *name)
{
    const double *values = kvt_resamples_values(resamples, name);
    double sum = 0;
    for (int32_t r = 0; values != NULL && r < resamples->count; r++)
        sum += values[r];
    return values != NULL ? sum / resamples->count : (double)NAN;
}

/* The value of this rank, 1 to count, linear between neighbours; the first and the last beyond. */
static double at_rank(const double sorted[], int32_t count, double rank)
{
    if (rank <= 1.0)
        return sorted[0];
    if (rank >= count)
        return sorted[count - 1];
    int32_t below = (int32_t)rank;
    return sorted[below - 1] + (rank - below) * (sorted[below] - sorted[below - 1]);
}

struct kvt_interval kvt_interval_of(double values[], int32_t count, double point)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            values[kept++] = values[i];
    if (kept == 0)
        return (struct kvt_interval){(double)NAN, (double)NAN};
    gsl_sort(values, 1, (size_t)kept);
    return (struct kvt_interval){
        .low = fmin(at_rank(values, kept, (kept + 1) / 20.0), point),
        .high = fmax(at_rank(values, kept, 19 * (kept + 1) / 20.0), point),
    };
}

enum kvt_status kvt_resamples_interval(const struct kvt_resamples *resamples, const char *name,
                                       double point, struct kvt_interval *interval,
                                       struct kvt_err *err)
{
    const double *values = kvt_resamples_values(resamples, name);
    *interval = (struct kvt_interval){(double)NAN, (double)NAN};
    if (values == NULL)
        return KVT_OK;
    double *scratch = malloc((size_t)resamples->count * sizeof *scratch);
    if (scratch == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for an interval");
    memcpy(scratch, values, (size_t)resamples->count * sizeof *scratch);
    *interval = kvt_interval_of(scratch, resamples->count, point);
    free(scratch);
    return KVT_OK;
}

enum kvt_status kvt_resamples_annotate(const struct kvt_resamples *resamples,
                                       struct kvt_summary *point, struct kvt_err *err)
{
    for (int32_t m = 0; m < point->metric_count; m++) {
        struct kvt_metric *metric = &point->metrics[m];
        struct kvt_interval interval;
        if (!metric->has_value || metric->is_given || metric->kind == KVT_METRIC_TEXT ||
            metric->kind == KVT_METRIC_TRUTH)
            continue;
        KVT_TRY(kvt_resamples_interval(resamples, metric->name, kvt_metric_number(metric),
                                       &interval, err));
        metric->has_interval = !isnan(interval.low);
        metric->low = interval.low;
        metric->high = interval.high;
    }
    kvt_summary_set_resamples(point, resamples->count);
    return KVT_OK;
}
