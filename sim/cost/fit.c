#include "sim/cost/fit.h"

#include <errno.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/fit_parts.h"

#define HELD_SHARE     5    /* one shape in so many, and one row in so many of the others */
#define EXCLUDED_SHARE 10   /* at most one row in so many may be left out as impossible */
#define CACHE_BYTES    2e8  /* more than any cache of these GPUs keeps from call to call */
#define SHAPES_MIN     16   /* unseen shapes, to split an interval's rows by them */
#define INTERVAL_ROWS  40   /* so many rows have quantiles of their own */
#define MODEL_ROWS_MIN 60   /* of one model of experts, for a surface of its own */
#define FLAT_WORK      30.0 /* so much more work ... */
#define FLAT_TIME      1.5  /* ... in less than so much more time: not kernel time */

/* The rows of one series by what they are for. */
struct split {
    const struct kvt_sample **fitted, **held, **unseen; /* one block, owned by fitted */
    int64_t fitted_count, held_count, unseen_count, unseen_shapes;
};

static struct kvt_where where_of(const struct kvt_tables *tables, const struct kvt_series *series)
{
    struct kvt_where where = {.file = tables->paths[series->first_file]};
    if (series->count > 0) {
        where.file = tables->paths[series->samples[0].file];
        where.line = series->samples[0].line;
    }
    return where;
}

static double moved_bytes(const struct kvt_sample *s)
{
    const struct kvt_work *w = &s->work;
    return w->token_bytes > 0.0 ? w->windowed * w->token_bytes : w->bytes;
}

/* Leave out rows that would need more than the memory's rate; too many of them, and the series is
 * bad and keeps them. */
static void judge_speed(struct kvt_fit *fit, struct kvt_series *series, const struct kvt_gpu *gpu)
{
    int64_t fast = 0, kept = 0;
    if (series->link || series->family == KVT_SERIES_NONE) /* their bytes are rough */
        return;
    for (int64_t i = 0; i < series->count; i++) {
        const struct kvt_sample *s = &series->samples[i];
        double bytes = moved_bytes(s);
        bool impossible = bytes > CACHE_BYTES && s->time < bytes / gpu->bandwidth;
        fast += impossible;
        fit->excluded += impossible ? s->repeats : 0;
    }
    if (fast == 0)
        return;
    if (fit->excluded * EXCLUDED_SHARE > series->rows) {
        snprintf(fit->trouble, sizeof fit->trouble,
                 "%lld of %lld rows are faster than the memory of %s can deliver their bytes",
                 (long long)fit->excluded, (long long)series->rows, gpu->name);
        fit->bad = true;
        fit->excluded = 0;
        return;
    }
    for (int64_t i = 0; i < series->count; i++) {
        const struct kvt_sample *s = &series->samples[i];
        double bytes = moved_bytes(s);
        if (!(bytes > CACHE_BYTES && s->time < bytes / gpu->bandwidth))
            series->samples[kept++] = *s;
    }
    series->count = kept;
    snprintf(fit->trouble, sizeof fit->trouble,
             "%lld of %lld rows left out: faster than the memory of %s can deliver their bytes",
             (long long)fit->excluded, (long long)series->rows, gpu->name);
}

/* A launch-bound table: the largest tenth of its work takes hardly longer than the middle. */
static void judge_flatness(struct kvt_fit *fit, const struct kvt_series *series, double scratch[])
{
    double *size = scratch, *time = scratch + series->count;
    int64_t many = 0;
    for (int64_t i = 0; i < series->count; i++)
        size[i] = moved_bytes(&series->samples[i]);
    gsl_sort(size, 1, (size_t)series->count);
    double middle = gsl_stats_quantile_from_sorted_data(size, 1, (size_t)series->count, 0.5),
           large = gsl_stats_quantile_from_sorted_data(size, 1, (size_t)series->count, 0.9);
    if (large < FLAT_WORK * middle || middle <= 0.0)
        return;
    for (int64_t i = 0; i < series->count; i++)
        if (moved_bytes(&series->samples[i]) >= large)
            time[many++] = series->samples[i].time;
    gsl_sort(time, 1, (size_t)many);
    double slow = gsl_stats_quantile_from_sorted_data(time, 1, (size_t)many, 0.5);
    many = 0;
    for (int64_t i = 0; i < series->count; i++)
        if (moved_bytes(&series->samples[i]) <= middle)
            time[many++] = series->samples[i].time;
    gsl_sort(time, 1, (size_t)many);
    double quick = gsl_stats_quantile_from_sorted_data(time, 1, (size_t)many, 0.5);
    if (slow >= FLAT_TIME * quick || fit->bad)
        return;
    snprintf(fit->trouble, sizeof fit->trouble,
             "flat in size: %.0f times the bytes of the median row take %.2f times its time; this "
             "is a launch, not a kernel",
             large / middle, slow / quick);
    fit->bad = true;
}

uint64_t kvt_fit_hash(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int by_hash(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* The hash up to which shapes are held out: a fifth of them, so that few shapes give one. */
static bool shape_limit(const struct kvt_series *series, uint64_t *limit, int64_t *count)
{
    uint64_t *hashes = malloc((size_t)series->count * sizeof *hashes);
    if (hashes == NULL)
        return false;
    for (int64_t i = 0; i < series->count; i++)
        hashes[i] = kvt_fit_hash(series->samples[i].shape);
    qsort(hashes, (size_t)series->count, sizeof *hashes, by_hash);
    int64_t distinct = 0;
    for (int64_t i = 0; i < series->count; i++)
        if (distinct == 0 || hashes[i] != hashes[distinct - 1])
            hashes[distinct++] = hashes[i];
    *count = distinct < 4 ? 0 : (distinct + HELD_SHARE - 1) / HELD_SHARE;
    *limit = *count > 0 ? hashes[*count - 1] : 0;
    free(hashes);
    return true;
}

static bool split_init(struct split *split, const struct kvt_series *series)
{
    uint64_t limit;
    size_t count = (size_t)series->count;
    errno = 0; /* ENOMEM will tell a fit without memory from one that is singular */
    *split = (struct split){.fitted = malloc(3 * count * sizeof *split->fitted)};
    if (split->fitted == NULL || !shape_limit(series, &limit, &split->unseen_shapes))
        return false;
    split->held = split->fitted + count;
    split->unseen = split->held + count;
    for (int64_t i = 0; i < series->count; i++) {
        const struct kvt_sample *s = &series->samples[i];
        if (limit > 0 && kvt_fit_hash(s->shape) <= limit)
            split->unseen[split->unseen_count++] = s;
        else if (kvt_fit_hash(s->key) % HELD_SHARE == 0)
            split->held[split->held_count++] = s;
        else
            split->fitted[split->fitted_count++] = s;
    }
    return true;
}

/* ---- laws ---- */

static const enum kvt_dim model_dims[] = {KVT_DIM_HIDDEN, KVT_DIM_EXPERTS, KVT_DIM_TOPK};
enum { MODEL_DIMS = sizeof model_dims / sizeof model_dims[0] };

static int by_model(const void *x, const void *y)
{
    const struct kvt_sample *a = *(const struct kvt_sample *const *)x;
    const struct kvt_sample *b = *(const struct kvt_sample *const *)y;
    for (int d = 0; d < MODEL_DIMS; d++) {
        double p = a->work.dim[model_dims[d]], q = b->work.dim[model_dims[d]];
        if (p != q)
            return p < q ? -1 : 1;
    }
    return (a->key > b->key) - (a->key < b->key);
}

static bool same_model(const struct kvt_sample *a, const struct kvt_sample *b)
{
    for (int d = 0; d < MODEL_DIMS; d++)
        if (a->work.dim[model_dims[d]] != b->work.dim[model_dims[d]])
            return false;
    return true;
}

void kvt_fit_grid(struct kvt_law *law, const struct kvt_sample *const samples[], int64_t count)
{
    for (int d = 0; d < KVT_DIM_COUNT; d++) {
        struct kvt_range range = {HUGE_VAL, 0.0};
        for (int64_t i = 0; i < count; i++) {
            double size = samples[i]->work.dim[d];
            range.min = fmin(range.min, size);
            range.max = fmax(range.max, size);
        }
        if (range.max > 0.0 && d != KVT_DIM_ROUTING && d != KVT_DIM_WEIGHT_BITS)
            law->grid[d] = range;
    }
}

/* Points of a law with times by batch: at the batches of the rows, or some of them. */
static void set_points(struct kvt_law *law, const struct kvt_sample *const samples[], int64_t count)
{
    law->points = 0;
    for (int64_t i = 0; i < count && law->points < KVT_LAW_POINTS; i++) {
        double batch = samples[i]->work.batch;
        int32_t at = 0;
        while (at < law->points && law->at[at] < batch)
            at++;
        if (at < law->points && law->at[at] == batch)
            continue;
        for (int32_t k = law->points++; k > at; k--)
            law->at[k] = law->at[k - 1];
        law->at[at] = batch;
    }
    for (int32_t k = 1; k < law->points; k++)
        law->time[k] = law->time[0];
}

/* One law with its surface on the rows. */
static bool fit_one(struct kvt_law *law, int starts, double bandwidth_max,
                    const struct kvt_form *form, const struct kvt_form_axis axes[],
                    const struct kvt_sample *const samples[], int64_t count)
{
    if (law->kind == KVT_LAW_SPARSE)
        set_points(law, samples, count);
    if (!kvt_fit_law(law, form->parameters, starts, bandwidth_max, samples, count))
        return false;
    kvt_fit_grid(law, samples, count);
    law->surface = kvt_fit_surface(law, form, axes, samples, count);
    return law->surface != NULL;
}

static void laws_free(struct kvt_law *laws, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        kvt_surface_free(laws[i].surface);
    free(laws);
}

/* All laws of a series on some of its rows, the general one last. NULL: singular or no memory. The
 * rows are put in another order. */
static struct kvt_law *fit_laws(const struct kvt_series *series, const struct kvt_form *form,
                                const struct kvt_gpu *gpu, const struct kvt_sample *samples[],
                                int64_t count, int32_t *law_count)
{
    enum { LAWS_MAX = 64 };
    struct kvt_law *laws = calloc(LAWS_MAX, sizeof *laws);
    struct kvt_law general = kvt_form_start(series, form, gpu);
    double most = series->link ? 2.0 * fmax(gpu->link_bandwidth, 1e9) : gpu->bandwidth;
    bool fine =
        laws != NULL && fit_one(&general, KVT_FIT_STARTS, most, form, form->axes, samples, count);
    *law_count = 0;
    if (fine && form->by_model)
        qsort(samples, (size_t)count, sizeof *samples, by_model);
    for (int64_t i = 0, end; fine && form->by_model && i < count; i = end) {
        for (end = i; end < count && same_model(samples[i], samples[end]);)
            end++;
        if (end - i < MODEL_ROWS_MIN || *law_count == LAWS_MAX - 1)
            continue;
        struct kvt_law *law = &laws[(*law_count)++];
        *law = general;
        law->surface = NULL;
        memset(law->grid, 0, sizeof law->grid);
        for (int d = 0; d < MODEL_DIMS; d++) {
            double size = samples[i]->work.dim[model_dims[d]];
            law->when[model_dims[d]] = (struct kvt_range){size, size};
        }
        fine = fit_one(law, 1, most, form, form->model_axes, &samples[i], end - i);
    }
    if (laws != NULL)
        laws[(*law_count)++] = general;
    if (!fine && laws != NULL) {
        laws_free(laws, *law_count);
        laws = NULL;
    }
    return laws;
}

static double predict(const struct kvt_law laws[], int32_t count, const struct kvt_work *work)
{
    int32_t i = 0;
    while (i + 1 < count && !kvt_law_admits(&laws[i], work))
        i++;
    return kvt_law_time(&laws[i], work, NULL);
}

double kvt_fit_time(const struct kvt_fit *fit, const struct kvt_work *work)
{
    return predict(fit->laws, fit->law_count, work);
}

/* ---- errors ---- */

static struct kvt_fit_errors errors_of(double errors[], int64_t count)
{
    struct kvt_fit_errors e = {.rows = count};
    for (int64_t i = 0; i < count; i++)
        e.mean += errors[i] / (double)count;
    gsl_sort(errors, 1, (size_t)count);
    e.median = gsl_stats_quantile_from_sorted_data(errors, 1, (size_t)count, 0.5);
    e.p90 = gsl_stats_quantile_from_sorted_data(errors, 1, (size_t)count, 0.9);
    return e;
}

static struct kvt_fit_errors errors_on(const struct kvt_law laws[], int32_t law_count,
                                       const struct kvt_sample *const samples[], int64_t count,
                                       double scratch[])
{
    for (int64_t i = 0; i < count; i++)
        scratch[i] = fabs(predict(laws, law_count, &samples[i]->work) / samples[i]->time - 1.0);
    return errors_of(scratch, count);
}

/* Which half of the held-out rows a row is in: by shapes, where there are enough of them. */
static int half_of(const struct kvt_sample *s, bool by_shape)
{
    return (int)(kvt_fit_hash((by_shape ? s->shape : s->key) + 1) & 1);
}

/* The interval of count ratios (sorted) from so many shapes: their quantiles, a little further out
 * when shapes are few; of a few rows, that of a lognormal, since their quantiles are too narrow.
 * The law itself is always inside. */
static void interval_of(struct kvt_fit *fit, double ratios[], int64_t count, double shapes)
{
    fit->low = fit->high = 1.0;
    if (count >= INTERVAL_ROWS) {
        double q = fmax(0.0, 0.05 - 0.2 / fmax(shapes, 1.0));
        fit->low = fmin(0.999, gsl_stats_quantile_from_sorted_data(ratios, 1, (size_t)count, q));
        fit->high =
            fmax(1.001, gsl_stats_quantile_from_sorted_data(ratios, 1, (size_t)count, 1.0 - q));
    } else if (count > 1) {
        double mean = 0.0, squares = 0.0, n = (double)count;
        for (int64_t i = 0; i < count; i++)
            mean += log(ratios[i]) / n;
        for (int64_t i = 0; i < count; i++)
            squares += pow(log(ratios[i]) - mean, 2.0) / (n - 1.0);
        double half = gsl_cdf_tdist_Pinv(0.95, n - 1.0) * sqrt(squares * (1.0 + 1.0 / n));
        fit->low = fmin(0.999, exp(mean - half));
        fit->high = fmax(1.001, exp(mean + half));
    }
}

/* The interval from all rows, and its coverage: half of them set one, the other half is counted
 * against it, and the other way round. */
static void set_interval(struct kvt_fit *fit, const struct kvt_law laws[], int32_t law_count,
                         const struct kvt_sample *const samples[], int64_t count, int64_t shapes,
                         double scratch[])
{
    int64_t inside = 0, all = 0;
    bool by_shape = shapes >= SHAPES_MIN;
    for (int half = 0; half < 3; half++) { /* 2: all of them, last */
        int64_t n = 0;
        for (int64_t i = 0; i < count; i++)
            if (half == 2 || half_of(samples[i], by_shape) == half)
                scratch[n++] = samples[i]->time / predict(laws, law_count, &samples[i]->work);
        gsl_sort(scratch, 1, (size_t)n);
        interval_of(fit, scratch, n, (double)(by_shape ? shapes : count) * (half < 2 ? 0.5 : 1.0));
        for (int64_t i = 0; half < 2 && n > 0 && i < count; i++) {
            if (half_of(samples[i], by_shape) == half)
                continue;
            double ratio = samples[i]->time / predict(laws, law_count, &samples[i]->work);
            inside += ratio >= fit->low && ratio <= fit->high;
            all++;
        }
    }
    fit->coverage = all > 0 ? (double)inside / (double)all : 0.0;
}

static void measure(struct kvt_fit *fit, const struct kvt_law laws[], int32_t law_count,
                    const struct split *split, double scratch[])
{
    fit->held = errors_on(laws, law_count, split->held, split->held_count, scratch);
    fit->unseen = errors_on(laws, law_count, split->unseen, split->unseen_count, scratch);
    if (split->unseen_count > 0)
        set_interval(fit, laws, law_count, split->unseen, split->unseen_count, split->unseen_shapes,
                     scratch);
    else
        set_interval(fit, laws, law_count, split->held, split->held_count, 0, scratch);
}

/* ---- the whole ---- */

static int rows_min(const struct kvt_series *series)
{
    return series->own ? KVT_FIT_OWN_MIN : KVT_FIT_ROWS_MIN;
}

static enum kvt_status check_rows(const struct kvt_series *series, struct kvt_where where,
                                  struct kvt_err *err)
{
    int least_rows = rows_min(series);
    if (series->count < least_rows)
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: want at least %d different rows to fit, got %lld", series->name,
                          least_rows, (long long)series->count);
    double least = HUGE_VAL, most = 0.0, quick = HUGE_VAL, slow = 0.0;
    for (int64_t i = 0; i < series->count; i++) {
        double bytes = moved_bytes(&series->samples[i]), time = series->samples[i].time;
        least = fmin(least, bytes), most = fmax(most, bytes);
        quick = fmin(quick, time), slow = fmax(slow, time);
    }
    if (most <= least * 1.01)
        return kvt_err_at(
            err, KVT_ECONFIG, where,
            "%s: the fit is singular: want rows of different sizes, all move %g bytes",
            series->name, most);
    if (slow <= quick)
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: the fit is singular: every row takes the same %g s", series->name,
                          slow);
    return KVT_OK;
}

/* Times that no unit but another could explain: the median row a thousand times slower than the
 * data sheet allows or twenty times faster. */
static enum kvt_status check_units(const struct kvt_series *series, const struct kvt_gpu *gpu,
                                   struct kvt_where where, double scratch[], struct kvt_err *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < series->count; i++) {
        const struct kvt_work *w = &series->samples[i].work;
        double rate = series->link ? gpu->link_bandwidth : gpu->bandwidth;
        double flops = fmax(gpu->flops_bf16, gpu->flops_fp8);
        double t = moved_bytes(&series->samples[i]) / fmax(rate, 1.0);
        if (flops > 0.0)
            t = fmax(t, fmax(w->flops, w->windowed * w->token_flops) / flops);
        scratch[n++] = series->samples[i].time / (10e-6 + t);
    }
    gsl_sort(scratch, 1, (size_t)n);
    double middle = gsl_stats_quantile_from_sorted_data(scratch, 1, (size_t)n, 0.5);
    if (middle < 200.0 && middle > 0.02)
        return KVT_OK;
    return kvt_err_at(err, KVT_ECONFIG, where,
                      "%s: want times in %s; the median row takes %.2g times what %s would need at "
                      "its peak rates",
                      series->name,
                      series->own ? "nanoseconds" : "milliseconds (dispatch: microseconds)", middle,
                      gpu->name);
}

enum kvt_status kvt_fit_series(struct kvt_fit *fit, struct kvt_series *series,
                               const struct kvt_tables *tables, const struct kvt_gpu *gpu,
                               struct kvt_err *err)
{
    *fit = (struct kvt_fit){.series = series, .rows = series->rows};
    struct kvt_where where = where_of(tables, series); /* before rows are sorted */
    kvt_series_average(series, &fit->floor);
    if (series->count < rows_min(series) && tables->series_count > 1) {
        snprintf(fit->trouble, sizeof fit->trouble, "want at least %d different rows, got %lld",
                 rows_min(series), (long long)series->count);
        fit->bad = true;
        return KVT_OK;
    }
    bool beside = series->own && tables->series_count > 1;
    enum kvt_status rows = check_rows(series, where, beside ? NULL : err);
    if (rows != KVT_OK && beside) {
        snprintf(fit->trouble, sizeof fit->trouble,
                 "the fit is singular: its rows are all of one size, or take all the same time");
        fit->bad = true;
        return KVT_OK;
    }
    KVT_TRY(rows);
    double *scratch = malloc(2 * (size_t)series->count * sizeof *scratch);
    struct split split = {0};
    enum kvt_status status =
        scratch != NULL ? check_units(series, gpu, where, scratch, err) : KVT_OK;
    if (status != KVT_OK) {
        free(scratch);
        return status;
    }
    int64_t balanced = kvt_series_judge_routing(series);
    judge_speed(fit, series, gpu);
    if (balanced > 0) {
        size_t used = strlen(fit->trouble);
        fit->excluded += balanced;
        snprintf(fit->trouble + used, sizeof fit->trouble - used,
                 "%s%lld balanced rows left out: faster than skewed ones of the same model",
                 used > 0 ? "; " : "", (long long)balanced);
    }
    const struct kvt_form *form = kvt_form_of(series);
    struct kvt_law *trial = NULL;
    int32_t trial_count = 0;
    bool memory = scratch != NULL && split_init(&split, series);
    if (memory && series->own && series->count < KVT_FIT_SURFACE_ROWS) {
        for (int64_t i = 0; i < series->count; i++)
            split.fitted[i] = &series->samples[i];
        kvt_fit_small(fit, form, gpu, split.fitted, series->count);
    } else if (memory) {
        judge_flatness(fit, series, scratch);
        trial = fit_laws(series, form, gpu, split.fitted, split.fitted_count, &trial_count);
    }
    if (trial != NULL) {
        measure(fit, trial, trial_count, &split, scratch);
        for (int64_t i = 0; i < series->count; i++)
            split.fitted[i] = &series->samples[i];
        fit->laws = fit_laws(series, form, gpu, split.fitted, series->count, &fit->law_count);
        laws_free(trial, trial_count);
    }
    if (memory && fit->laws != NULL && fit->parameter_count == 0) { /* the law took rows in order */
        int64_t stride = kvt_fit_stride(series->count), fitted = series->count / stride;
        for (int64_t i = 0; i < fitted; i++)
            split.fitted[i] = &series->samples[i * stride];
        kvt_fit_parameters(fit, &fit->laws[fit->law_count - 1], form->parameters, split.fitted,
                           fitted);
    }
    free(split.fitted);
    free(scratch);
    if (fit->laws != NULL)
        return KVT_OK;
    return memory && errno != ENOMEM
               ? kvt_err_at(err, KVT_ECONFIG, where,
                            "%s: the fit is singular: no parameters bring the law near its rows",
                            series->name)
               : kvt_err_at(err, KVT_ENOMEM, where, "%s: no memory to fit it", series->name);
}

enum kvt_status kvt_fit_test(const struct kvt_fit *fit, const struct kvt_sample samples[],
                             int64_t count, struct kvt_fit_errors *errors, double *inside,
                             struct kvt_err *err)
{
    double *scratch = malloc(((size_t)count + 1) * sizeof *scratch);
    if (scratch == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory to test it", fit->series->name);
    *inside = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double ratio = samples[i].time / kvt_fit_time(fit, &samples[i].work);
        *inside += (double)(ratio >= fit->low && ratio <= fit->high) / (double)count;
        scratch[i] = fabs(1.0 / ratio - 1.0);
    }
    *errors = errors_of(scratch, count);
    free(scratch);
    return KVT_OK;
}

void kvt_fit_release(struct kvt_fit *fit)
{
    laws_free(fit->laws, fit->law_count);
    *fit = (struct kvt_fit){0};
}
