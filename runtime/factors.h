/*
 * factors.h - what a machine does to laws: measured over predicted time, by role and family
 *
 * Laws say how long the kernels of a step take when they are measured; moments later the same
 * machine may be a fifth slower, because others share its memory. So steps that were run give one
 * factor for each family of kernels of each role, in one of three ways:
 *
 *   near     for a stretch of steps: the weighted median over the calibrating steps closest to it
 *            in time, its own never among them
 *   median   the same over all calibrating steps: what a machine does on the whole, so that only
 *            the laws say how one step differs from another
 *   mean     over all steps: the sum of measured over the sum of predicted time, peaks included,
 *            which is what rates and mean times of a run depend on
 *
 * Stretches of KVT_STRETCH_STEPS steps calibrate (even ones) and are predicted (odd ones) in turns:
 * on a shared machine speed changes within a tenth of a second. An epoch lies between two shifts of
 * the canary (canary.h): nearest steps come from the stretch's own epoch as long as that has any.
 */
#ifndef KVT_RUNTIME_FACTORS_H
#define KVT_RUNTIME_FACTORS_H

#include "runtime/predict.h"

#define KVT_STRETCH_STEPS 5
#define KVT_NEAR_STEPS    10 /* that have the family, at least, where there are as many */

struct kvt_family_times {               /* s, of one step */
    double predicted[KVT_FACTOR_COUNT]; /* by the laws */
    double measured[KVT_FACTOR_COUNT];
    int32_t role, epoch;
};

typedef double kvt_factors[KVT_ROLE_COUNT][KVT_FACTOR_COUNT];

/* Step i is for calibration, not for judging. */
static inline bool kvt_calibrates(int64_t i)
{
    return i / KVT_STRETCH_STEPS % 2 == 0;
}

/* Families of one step: what no part of it has is with the small kernels. */
void kvt_family_times(struct kvt_family_times *times, const struct kvt_step_record *record,
                      struct kvt_predictor *predictor);

struct kvt_weighed { /* scratch of the below: one a step */
    double ratio, weight;
};

/* Factors for the steps of a stretch, from at least near steps; 1 for a family that no calibrating
 * step has. */
void kvt_factors_near(const struct kvt_family_times *steps, int64_t count, int64_t stretch,
                      int64_t near, struct kvt_weighed *scratch, kvt_factors factors);

/* Over all calibrating steps. */
void kvt_factors_median(const struct kvt_family_times *steps, int64_t count,
                        struct kvt_weighed *scratch, kvt_factors factors);

/* Over all steps; 1 for a family that none has. */
void kvt_factors_mean(const struct kvt_family_times *steps, int64_t count, kvt_factors factors);

#endif
