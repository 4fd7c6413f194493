/*
 * search.h - the cheapest fleet of a config's domains that meets its SLO
 *
 * Every point of the domains (points.h) is a candidate. In this order, each cheaper than the next:
 *
 *   CONTRADICTS  its keys exclude each other (a dp that does not divide tp), or what is asked: no
 *                price for an objective in USD, no replica left with plan.lose down
 *   UNFIT        its model does not fit its GPUs, or it has no calibration
 *   PRUNED       a bound that no schedule beats breaks the SLO (bounds.h)
 *   MISSES       its run breaks the SLO, or rejects more than plan.rejected
 *   UNSURE       its run meets the SLO, but fewer than plan.confidence of its resamples do
 *   MEETS        its run meets the SLO; of the best, plan.confidence of its resamples do as well
 *   DEARER       with plan.front false: costs more than the best and was not run
 *
 * All runs have the same seed and so the same arrivals, lengths and errors (common random numbers).
 * With plan.lose n the fleet with n replicas of a role fewer must meet the SLO as well, for each
 * role in turn; with faults.plan all runs have those strikes. Resamples are run for finalists only:
 * in the order of (objective, worst, number), until one is sure enough. That one is the best: the
 * same as that of running everything, for bounds drop only what misses.
 *
 * Where nothing meets the SLO, pruned candidates whose bound is nearer to it than any run are run
 * too, the nearest first, until the closest is known. What comes out does not depend on the number
 * of threads.
 */
#ifndef KVT_PLAN_SEARCH_H
#define KVT_PLAN_SEARCH_H

#include "sim/base/tell.h"
#include "sim/plan/bounds.h"
#include "sim/plan/point.h"

/* clang-format off */
#define KVT_CANDIDATE_STATES(X)                                        \
    X(CONTRADICTS, "contradicts") X(UNFIT, "unfit") X(PRUNED, "pruned") \
    X(MISSES, "misses") X(UNSURE, "unsure") X(MEETS, "meets") X(DEARER, "dearer")
/* clang-format on */
#define X(name, text) KVT_CANDIDATE_##name,
enum kvt_candidate_state { KVT_CANDIDATE_STATES(X) KVT_CANDIDATE_STATE_COUNT };
#undef X
extern const char *const kvt_candidate_state_names[KVT_CANDIDATE_STATE_COUNT];

struct kvt_candidate {
    enum kvt_candidate_state state;
    enum kvt_bound bound; /* that pruned it */
    int32_t gpus;
    bool on_front;
    bool is_unanswerable;        /* it CONTRADICTS what is asked: no price, no replica to lose */
    double usd_per_h, objective; /* NaN where unknown */
    double worst;                /* largest value/limit of the SLO's bounds; infinite: no result */
    double least;                /* what the bound that pruned it leaves of worst; else 0 */
    double confidence;           /* share of its resamples that meet the SLO; NaN: none were run */
    double *values;              /* [columns] of its run, without losses; NaN where not run */
    char limit[80];              /* the bound that is worst: "TTFT p90", "rejected" */
    char message[KVT_POINT_MESSAGE];
};

struct kvt_search_options {
    int32_t threads;             /* 0: as OpenMP has */
    bool exhaustive;             /* prune nothing; for tests */
    const struct kvt_stop *stop; /* NULL: never */
    struct kvt_tell tell;
};

/* What the winner would be with one more replica of a role. */
struct kvt_search_more {
    bool known;
    struct kvt_candidate with;
};

struct kvt_search {
    const struct kvt_points *points; /* borrowed */
    struct kvt_point_columns columns;
    int64_t count, states[KVT_CANDIDATE_STATE_COUNT];
    int64_t evaluated;                /* candidates that were run */
    struct kvt_candidate *candidates; /* [count] owned */
    int64_t best;                     /* or -1 */
    int64_t closest;                  /* without a best: the run with the smallest worst; or -1 */
    int64_t cheaper;                  /* the dearest of those cheaper than the best; or -1 */
    int64_t *front, front_count;      /* by objective; owned */
    int32_t front_ttft, front_itl;    /* columns that the front is drawn over */
    struct kvt_search_more more[KVT_ROLE_COUNT];
    double carries; /* times this traffic at which best or closest still meets the SLO; NaN */
    double rate;    /* req/s of this traffic; NaN in a closed loop */
};

/* Search. KVT_ECONFIG without an SLO, and where no candidate can answer what is asked (no price, no
 * replica to lose); KVT_EINTR when stopped. That nothing meets the SLO is KVT_OK
 * with best -1. Release in any case. */
enum kvt_status kvt_search_run(struct kvt_search *search, const struct kvt_points *points,
                               const struct kvt_search_options *options, struct kvt_err *err);
void kvt_search_release(struct kvt_search *search);

/* Why candidates were not taken, most frequent first: texts[0..], counts; returns how many, at most
 * `most`. Reasons that differ in numbers alone are one, with N for the numbers that differ. */
#define KVT_REASON_BYTES KVT_POINT_MESSAGE
int32_t kvt_search_reasons(const struct kvt_search *search, char (*texts)[KVT_REASON_BYTES],
                           int64_t counts[], int32_t most);

/* Write all candidates to path, HDF5 layout 1:
 *   /            layout, program, kind = "plan"; config: one string
 *   /settings/   a string per candidate under the path of each domain
 *   /candidates/ state, message (strings), gpus, on_front (int64), usd_per_h, objective, worst,
 *                confidence (float64)
 *   /metrics/    a float64 per candidate under the name of each column; NaN where it was not run
 *   /meta        seed, version, best (-1: none) */
enum kvt_status kvt_search_write(const struct kvt_search *search, const char *path,
                                 struct kvt_err *err);

#endif
