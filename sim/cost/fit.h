/*
 * fit.h - laws fitted to a series of measured kernel times
 *
 * One fit takes the rows of one kernel under one stack and version (table.h) through these steps:
 *
 *   average      repeats of one row; their spread is the floor below which no error can fall
 *   judge        rows faster than the memory can deliver are left out; where they are more than a
 *                tenth, or the whole table is flat in size, the series is bad and says so
 *   hold out     every fifth shape as a whole (unseen), and every fifth row of the others; by hash,
 *                so that the same table always gives the same split
 *   law          the physical form of its family: parameters in logarithms, residuals of
 *                logarithms, trust region (gsl_multifit_nlinear) from several starts, five rounds
 *                of reweighting by 1/sqrt(1 + (r/0.1)^2)
 *   surface      what the law leaves over, by least squares with a penalty on bending (surface.h),
 *                reweighted the same way
 *   errors       on what was held out; then law and surface are fitted again to all rows
 *
 * An interval is where 90 % of measured/predicted of unseen shapes lie; its coverage is taken on
 * the half of these shapes that did not set it.
 *
 * A table of kvtwin bench is a small grid: below KVT_FIT_SURFACE_ROWS different rows it gets its
 * law alone, with one parameter per three rows at most, errors of five folds (whole shapes, where
 * there are ten), and for each parameter the interval that its covariance gives. What the rows do
 * not tell (an interval beyond a factor of two either way) stays near its start and is said in
 * trouble.
 *
 * Routed experts get a surface for every model in the table, and a general law behind them for
 * others. Shapes never get an offset of their own.
 */
#ifndef KVT_COST_FIT_H
#define KVT_COST_FIT_H

#include "sim/base/status.h"
#include "sim/cost/laws.h"
#include "sim/cost/table.h"
#include "sim/model/gpu.h"

#define KVT_FIT_SECONDS_MAX  1000.0
#define KVT_FIT_ROWS_MIN     24  /* distinct rows that a fit needs */
#define KVT_FIT_OWN_MIN      6   /* the same, of our own kernels: a law of one or two parameters */
#define KVT_FIT_SURFACE_ROWS 120 /* our own kernels: fewer get a law alone */

struct kvt_fit_errors { /* of |predicted/measured - 1| */
    int64_t rows;
    double median, mean, p90;
};

#define KVT_FIT_PARAMETERS 8

struct kvt_fit_parameter {
    const char *name;        /* "t0", "bandwidth" ... */
    double value, low, high; /* s, bytes/s, FLOP/s, tokens; 95 % of trials hold the truth */
    bool known;              /* the rows tell it */
};

struct kvt_fit {
    const struct kvt_series *series; /* borrowed */
    struct kvt_law *laws;            /* owned with their surfaces; the first that admits is used */
    int32_t law_count;
    int64_t rows, excluded; /* measured rows, repeats included; rows not fitted */
    double floor;           /* mean |row/mean - 1| of repeats; 0: no repeats */
    struct kvt_fit_errors held, unseen;
    double low, high, coverage; /* of the 90 % interval; coverage 0: too few shapes */
    int32_t parameter_count;    /* of the law, the general one where models have their own */
    struct kvt_fit_parameter parameters[KVT_FIT_PARAMETERS];
    bool bad;          /* must not be used; trouble says why */
    char trouble[200]; /* what is wrong with its rows; "" */
};

/* Fit one series; averages its samples in place. A series of few rows beside others is bad and has
 * no laws (kvt_fit_time must not be asked); otherwise KVT_ECONFIG names the file and line of the
 * first row when there is too little to fit or the fit is singular. Release with kvt_fit_release.
 * About 1 s per 10,000 rows. */
enum kvt_status kvt_fit_series(struct kvt_fit *fit, struct kvt_series *series,
                               const struct kvt_tables *tables, const struct kvt_gpu *gpu,
                               struct kvt_err *err);

/* Seconds that the fit predicts. */
double kvt_fit_time(const struct kvt_fit *fit, const struct kvt_work *work);

/* The fit's errors on rows that took no part, and the share of them inside its interval. */
enum kvt_status kvt_fit_test(const struct kvt_fit *fit, const struct kvt_sample samples[],
                             int64_t count, struct kvt_fit_errors *errors, double *inside,
                             struct kvt_err *err);

void kvt_fit_release(struct kvt_fit *fit);

#endif
