/*
 * proportion.h - how often something happened, and how often it would: intervals of a count
 *
 * hits of trials independent trials. Two intervals of the underlying probability:
 *
 *   Wilson           inverts the normal test; close to its level on average, never empty.
 *   Clopper-Pearson  inverts the binomial itself; covers at least its level, so it is wide. For
 *                    claims: 0 hits in n trials leave p < 3/n at 95 % (one-sided).
 *
 * level is the coverage, e.g. 0.95. No trials: [0, 1].
 */
#ifndef KVT_FAULT_PROPORTION_H
#define KVT_FAULT_PROPORTION_H

#include <stdint.h>

struct kvt_interval {
    double low, high;
};

struct kvt_interval kvt_wilson(int64_t hits, int64_t trials, double level);
struct kvt_interval kvt_clopper_pearson(int64_t hits, int64_t trials, double level);

/* Trials that show a proportion p to within error (absolute) at this level: Leveugle et al., 2009,
 * for a population of any size. */
double kvt_trials_for(double p, double error, double level);

#endif
