/*
 * proportion.h - the probability of something that happened in so many of independent trials
 *
 * The interval of Clopper and Pearson inverts the binomial itself: it covers at least its level
 * (0.95 for 95 %), so it is wide. 0 hits in n trials leave p < 3/n at 95 % (one-sided); no trials
 * leave [0, 1].
 */
#ifndef KVT_FAULT_PROPORTION_H
#define KVT_FAULT_PROPORTION_H

#include <stdint.h>

struct kvt_interval {
    double low, high;
};

struct kvt_interval kvt_clopper_pearson(int64_t hits, int64_t trials, double level);

#endif
