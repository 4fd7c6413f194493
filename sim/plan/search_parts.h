/*
 * search_parts.h - what the files of the search share (search.c, assess.c, explain.c)
 */
#ifndef KVT_PLAN_SEARCH_PARTS_H
#define KVT_PLAN_SEARCH_PARTS_H

#include "sim/plan/search.h"

/* How one candidate is run. */
struct kvt_assess_how {
    int32_t resamples;
    bool prune;
    const char *more; /* a further set over those of its point; NULL: none */
    const struct kvt_stop *stop;
};

/* Number of GPUs and price of a point; its state where it cannot be run, MISSES where it can. */
enum kvt_status kvt_candidate_price(struct kvt_candidate *candidate,
                                    const struct kvt_points *points, int64_t number,
                                    struct kvt_err *err);

/* Run a candidate, point `number` of the search, that has a price, and judge it: state, worst,
 * values, message, and confidence when there are resamples. rate, which may be NULL, gets the
 * arrivals' rate. What is wrong with the candidate is its message; failures are those that end the
 * job (point.h). */
enum kvt_status kvt_candidate_assess(struct kvt_candidate *candidate,
                                     const struct kvt_search *search, int64_t number,
                                     const struct kvt_assess_how *how, double *rate,
                                     struct kvt_err *err);

/* Fill cheaper or closest, front, more, carries and rate of a search that is done. */
enum kvt_status kvt_search_explain(struct kvt_search *search,
                                   const struct kvt_search_options *options, struct kvt_err *err);

#endif
