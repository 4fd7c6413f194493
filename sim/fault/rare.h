/*
 * rare.h - probabilities of 1e-9 in seconds: forcing and importance sampling
 *
 * A fault escapes when several unlikely things happen in a row (a client aborts in mid-transfer,
 * its writer stalls, its page is given to another before the write lands, the tag aliases).
 * Counting would take 1e11 runs. Two ways around it, each an unbiased estimate with an interval
 * (a third, splitting, is in sim/plan/fault_split.h):
 *
 *   forcing      take the unlikely branch always and multiply the probability in: kvt_force
 *   importance   draw from a likelier distribution and weigh each run by the ratio of densities:
 *   sampling     kvt_bias_event
 *
 * Both leave the logarithm of a run's weight; kvt_tally collects value * weight. Its effective
 * sample size (sum w)^2 / (sum w^2), over the runs that count, says how many equal runs the
 * weighted ones are worth: an estimate that rests on a few of them is not to be trusted, whatever
 * its interval.
 *
 * Everything is drawn from Philox streams: the same seed gives the same estimate to the last bit.
 */
#ifndef KVT_FAULT_RARE_H
#define KVT_FAULT_RARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/random.h"

struct kvt_tally {
    int64_t runs, hits;           /* a hit: a run with a value other than 0 */
    double sum, squares, largest; /* of value * weight */
};

struct kvt_estimate {
    double p;             /* per run */
    double low, high;     /* interval at the asked level */
    double error;         /* one standard error */
    double effective;     /* effective sample size of the hits */
    double largest_share; /* of the estimate, by one run */
    int64_t runs, hits;
};

/* One run ended with this value (1: it happened; a probability: the last step was integrated) and
 * logarithm of its weight. */
void kvt_tally_add(struct kvt_tally *tally, double value, double log_weight);

/* Put other's runs to tally's, in this order: the same for any number of threads that share the
 * runs out in fixed parts. */
void kvt_tally_merge(struct kvt_tally *tally, const struct kvt_tally *other);

/* Normal interval of the mean; with few hits it is too short, which `effective` shows. Where none
 * of the runs is a hit it ends where Clopper and Pearson's does, which holds for weights of at most
 * one; where all are, it begins at the mean times the lower end of theirs. */
struct kvt_estimate kvt_tally_estimate(const struct kvt_tally *tally, double level);

/* The event of probability p happens, and the run's weight bears it. */
void kvt_force(double p, double *log_weight);

/* True with probability `biased` instead of p; both inside (0, 1), or equal. */
bool kvt_bias_event(struct kvt_stream *stream, double p, double biased, double *log_weight);

#endif
