#include "sim/report/cdf.h"

#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>

#include "sim/base/ticks.h"

#define POINTS_MAX 512
#define STEP       0.004 /* of the fraction, between points; a tenth of it in the last percent */

static bool cdf_begin(struct kvt_cdf *cdf)
{
    *cdf = (struct kvt_cdf){.x = malloc(POINTS_MAX * sizeof(double)),
                            .y = malloc(POINTS_MAX * sizeof(double))};
    return cdf->x != NULL && cdf->y != NULL;
}

void kvt_cdf_release(struct kvt_cdf *cdf)
{
    free(cdf->x);
    free(cdf->y);
    *cdf = (struct kvt_cdf){0};
}

/* A point, unless it lies so near the last one that nobody would see it. */
static void cdf_add(struct kvt_cdf *cdf, double x, double y, bool last)
{
    double before = cdf->count > 0 ? cdf->y[cdf->count - 1] : 0;
    double step = y > 0.99 ? STEP / 10 : STEP;
    if (cdf->count == POINTS_MAX || (cdf->count > 0 && !last && y - before < step))
        return;
    if (y - before > 2 * STEP && cdf->count > 0 && cdf->count + 1 < POINTS_MAX) {
        cdf->x[cdf->count] = x; /* many values at once: a stair, not a slope */
        cdf->y[cdf->count++] = before;
    }
    cdf->x[cdf->count] = x;
    cdf->y[cdf->count++] = y;
}

enum kvt_status kvt_cdf_of_histogram(struct kvt_cdf *cdf, const double pairs[], int64_t bins,
                                     struct kvt_err *err)
{
    double total = 0, sum = 0;
    if (!cdf_begin(cdf))
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a distribution");
    for (int64_t i = 0; i < bins; i++)
        total += pairs[2 * i + 1] > 0 ? pairs[2 * i + 1] : 0;
    for (int64_t i = 0; i < bins && total > 0; i++) {
        double x = pairs[2 * i] / (double)KVT_TICKS_PER_S;
        if (i == 0)
            cdf_add(cdf, x, 0, true);
        sum += pairs[2 * i + 1] > 0 ? pairs[2 * i + 1] : 0;
        cdf_add(cdf, x, sum / total, i + 1 == bins);
    }
    return KVT_OK;
}

enum kvt_status kvt_cdf_of_values(struct kvt_cdf *cdf, double values[], int64_t count,
                                  struct kvt_err *err)
{
    if (!cdf_begin(cdf))
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a distribution");
    gsl_sort(values, 1, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        if (i == 0)
            cdf_add(cdf, values[i], 0, true);
        cdf_add(cdf, values[i], (double)(i + 1) / (double)count, i + 1 == count);
    }
    return KVT_OK;
}

double kvt_mean_concurrency(const struct kvt_report_run *run)
{
    double sum = 0, duration = kvt_report_metric(run, "duration");
    const double *arrival = run->columns[KVT_REPORT_ARRIVAL];
    const double *finish = run->columns[KVT_REPORT_FINISH], *fate = run->columns[KVT_REPORT_FATE];
    for (int64_t r = 0; r < run->rows; r++)
        if (fate[r] == KVT_FATE_COMPLETED && arrival[r] >= run->warmup_s * 1e9)
            sum += (finish[r] - arrival[r]) * 1e-9;
    return duration > 0 ? sum / duration : (double)NAN;
}

/* The integral up to t of all rates is the sum of rate * (t - begin) over those that began less the
 * same for those that ended: two sums, kept by the bin in which they start to count. */
bool kvt_flow_bins_init(struct kvt_flow_bins *bins, double end_s, int32_t count)
{
    *bins = (struct kvt_flow_bins){.step = calloc((size_t)count + 1, sizeof(double)),
                                   .offset = calloc((size_t)count + 1, sizeof(double)),
                                   .width = end_s > 0 ? end_s / count : 1,
                                   .count = count};
    return bins->step != NULL && bins->offset != NULL;
}

static void add_edge(struct kvt_flow_bins *bins, double at, double rate)
{
    double bin = floor(at / bins->width);
    int32_t i = !(bin > 0) ? 0 : bin > bins->count ? bins->count : (int32_t)bin;
    bins->step[i] += rate;
    bins->offset[i] += rate * at;
}

void kvt_flow_bins_add(struct kvt_flow_bins *bins, double begin_s, double end_s, double weight)
{
    /* What comes at once is spread over a thousandth of a bin. */
    double least = bins->width * 1e-3;
    double length = end_s - begin_s > least ? end_s - begin_s : least;
    add_edge(bins, begin_s, weight / length);
    add_edge(bins, begin_s + length, -weight / length);
}

void kvt_flow_bins_take(struct kvt_flow_bins *bins, double out[])
{
    double step = 0, offset = 0, before = 0;
    for (int32_t i = 0; i < bins->count; i++) {
        double edge = (i + 1) * bins->width;
        step += bins->step[i];
        offset += bins->offset[i];
        double now = step * edge - offset;
        out[i] = fmax((now - before) / bins->width, 0);
        before = now;
    }
    free(bins->step);
    free(bins->offset);
    *bins = (struct kvt_flow_bins){0};
}
