/*
 * resample.h - how far the errors of the laws reach into what a run says
 *
 *     kvt_simulation_init, _run, kvt_summary_init    the point: the config as the laws have it
 *     kvt_resample               the same load through fleets whose laws err
 *     kvt_resamples_annotate     low and high beside every metric of the point's summary
 *     kvt_resamples_release
 *
 * Resample r is a whole run of the same trace and seed in which every step time carries the errors
 * of resample r (error_factors.h): one factor per kernel family and shape, constant in the run. The
 * point estimate is the run without errors. low and high are the 5 % and the 95 % quantile over the
 * resamples, moved to include the point where it lies outside. Of n values they are those of rank
 * (n + 1)/20 and 19(n + 1)/20, linear between neighbours: a new draw lies between them with
 * probability 0.9, whatever the distribution. Fewer than 19 resamples do not reach that far; then
 * they are the smallest and the largest, which hold (n - 1)/(n + 1) of new draws.
 *
 * What is drawn knows nothing of the rest of a config, so that two configs with the same seed have
 * the same errors in resample r where they run the same kernels: compare them resample by resample
 * (kvt_resamples_values), not by their intervals.
 *
 * Not in the interval: what no law's error covers. Experts hit, lengths, scheduling rules, memory.
 *
 * Resamples run side by side (OpenMP) and share the base's trace, pools and calibrations; what
 * comes out does not depend on the number of threads. One costs a freeze (about 3 ms a role) and
 * the run, and as much memory as the base.
 */
#ifndef KVT_PLAN_RESAMPLE_H
#define KVT_PLAN_RESAMPLE_H

#include "sim/base/tell.h"
#include "sim/fault/proportion.h"
#include "sim/output/summary.h"
#include "sim/plan/simulate.h"

#define KVT_RESAMPLES_MAX 10000
#define KVT_RESAMPLES_FEW 19 /* below: low and high are the smallest and the largest */

struct kvt_resample_options {
    int32_t count; /* 1 to KVT_RESAMPLES_MAX */
    uint64_t seed; /* of the errors: the run's seed, unless runs of several seeds share them */
    bool exact;    /* every decode step by itself */
    /* One more value of each run, under this name, which no metric has; NULL: none. */
    const char *extra_name;
    double (*extra)(const struct kvt_simulation *run);
    const struct kvt_stop *stop; /* NULL: never */
    struct kvt_tell tell;
};

struct kvt_resamples {
    int32_t count;        /* resamples */
    int32_t metric_count; /* of a summary, in its order, and the extra one */
    char (*names)[48];    /* owned; [metric_count] */
    double *values;       /* owned; [metric_count][count]; NaN where a run has none */
};

/* point is the summary of base, which ran; its strikes fall in each resample too. KVT_EINTR when
 * stopped: then nothing is to be read. Other failures are those of the first resample that failed.
 * Release in any case. */
enum kvt_status kvt_resample(struct kvt_resamples *resamples, const struct kvt_simulation *base,
                             const struct kvt_summary *point,
                             const struct kvt_resample_options *options, struct kvt_err *err);
void kvt_resamples_release(struct kvt_resamples *resamples);

/* The metric's values by resample (numbers and truths, 0 or 1), or NULL for an unknown name. */
const double *kvt_resamples_values(const struct kvt_resamples *resamples, const char *name);

/* The share of the resamples in which a truth ("slo_met") holds; NaN for an unknown name. */
double kvt_resamples_share(const struct kvt_resamples *resamples, const char *name);

/* The interval of that metric around its point; NaN where it has none. KVT_ENOMEM only. */
enum kvt_status kvt_resamples_interval(const struct kvt_resamples *resamples, const char *name,
                                       double point, struct kvt_interval *interval,
                                       struct kvt_err *err);

/* The interval of count values around point; values may be NaN, which are left out. Ends are NaN
 * where no value is there. Sorts values. */
struct kvt_interval kvt_interval_of(double values[], int32_t count, double point);

/* Give every number of point that came of the run its low and high; what the config says (gpus,
 * seed, targets) has none. KVT_ENOMEM only. */
enum kvt_status kvt_resamples_annotate(const struct kvt_resamples *resamples,
                                       struct kvt_summary *point, struct kvt_err *err);

#endif
