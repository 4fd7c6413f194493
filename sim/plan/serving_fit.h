/*
 * serving_fit.h - host constants and the skew of routing, from a user's own benchmarks
 *
 * Kernel tables say how long a GPU works; what a server adds to that (gaps between kernels, the
 * host, the front end) and how its model routes are seen only in a benchmark of it. Each run of a
 * client (bench_result.h) is simulated by the twin on the config that describes the server, and
 *
 *     r = ln(simulated / measured)      over mean TTFT, mean TPOT and, of closed loads, throughput
 *
 * is made small by gsl_multifit_nlinear over at most four constants:
 *
 *   layer     s per layer: small kernels and gaps (layer-*, of the kind that most layers are)
 *   host      s per step: host-step, or host-floor where the scheduler overlaps
 *   request   s before the first token
 *   skew      share of the experts beyond top-k that tokens hit; with experts and three loads
 *
 * Only what the runs can tell is fitted. Kept, with the reason, is a constant that moves no metric
 * by half a percent when it changes by what is usual; one whose effect others have, too (what they
 * do not explain of it is less than 15 %, or its estimate goes with theirs); and one whose interval
 * comes out wider than what is usual and than half of itself. A host floor that no step feels is
 * also tried from just below the least TPOT, and believed when it halves the squares. Other metrics
 * (medians, p99, ITL, E2EL) are compared, not fitted.
 *
 * Intervals are 95 % ones from the covariance at the end, with the spread of the residuals (at
 * least 0.2 %) and Student's t. They take what was kept as known, and know nothing of errors in the
 * kernels' laws: a constant takes both up.
 */
#ifndef KVT_PLAN_SERVING_FIT_H
#define KVT_PLAN_SERVING_FIT_H

#include <stdio.h>

#include "sim/base/stop.h"
#include "sim/config/config.h"
#include "sim/cost/calibration.h"
#include "sim/output/bench_result.h"

/* clang-format off */
#define KVT_HOST_CONSTANTS(X)                                                                      \
    X(LAYER, "layer") X(HOST, "host") X(REQUEST, "request") X(SKEW, "skew")
/* clang-format on */
enum kvt_host_constant {
#define X(name, text) KVT_HOST_CONSTANT_##name,
    KVT_HOST_CONSTANTS(X)
#undef X
        KVT_HOST_CONSTANT_COUNT
};
extern const char *const kvt_host_constant_names[KVT_HOST_CONSTANT_COUNT];

struct kvt_serving_constant {
    const char *family;               /* whose law it is: "layer-gqa-dense", "host-step" */
    double shipped, value, low, high; /* s; skew: a share. Not fitted: value is shipped */
    bool fitted;
    char why[120]; /* it was kept; "" when fitted */
};

struct kvt_serving_residual {
    int32_t run; /* index into the runs */
    enum kvt_bench_metric metric;
    double observed, before, after; /* with the shipped constants; with the fitted ones */
    bool fitted;                    /* took part in the fit; otherwise only compared */
};

struct kvt_serving_fit {
    struct kvt_serving_constant constants[KVT_HOST_CONSTANT_COUNT];
    struct kvt_serving_residual *residuals; /* owned; by run, then metric */
    int32_t residual_count;
    int32_t runs;
    int64_t simulations;                /* that it took */
    struct kvt_calibration calibration; /* owned; the shipped one with the constants replaced */
};

/* A run and where it comes from, for messages. */
struct kvt_serving_run {
    const char *path;
    const struct kvt_bench_run *run; /* borrowed */
};

/* Fit to count >= 1 runs on a server that config describes; its workload is not used. files: how
 * many files they come from, for the sources. talk gets the warnings of one run. KVT_ECONFIG with
 * the file for a run of another engine, one with neither TTFT nor TPOT nor throughput, and one that
 * the config could not serve; KVT_EINTR when *stop is set. A simulation takes milliseconds to
 * tenths of a second, a fit 20 to 100 of them for each run. Release with kvt_serving_fit_release.
 */
enum kvt_status kvt_serving_fit(struct kvt_serving_fit *fit, const struct kvt_config *config,
                                const struct kvt_serving_run runs[], int32_t count, int32_t files,
                                FILE *talk, const struct kvt_stop *stop, struct kvt_err *err);

void kvt_serving_fit_release(struct kvt_serving_fit *fit);

#endif
