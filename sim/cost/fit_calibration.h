/*
 * fit_calibration.h - one calibration from many fits
 *
 * A table directory holds several fits of one family: versions of a stack, kernels, dtypes of the
 * cache. A calibration takes for each family the fit that is nearest to what a step runs: of the
 * wanted stack before others, captured before eager, the newest version, then the one with most
 * rows. Models of routed experts that this one lacks come from the next. Fits that are bad or that
 * no step asks for are left out; families without any fit come from keep,
 * and so do laws with a skew of their own, which published results set.
 */
#ifndef KVT_COST_FIT_CALIBRATION_H
#define KVT_COST_FIT_CALIBRATION_H

#include "sim/cost/calibration.h"
#include "sim/cost/fit.h"

/* Mark fits over an 8-bit cache as bad that are slower than their 16-bit twins: they convert the
 * whole cache at every call, which later servers do not. */
void kvt_fits_judge(struct kvt_fit fits[], int32_t count);

/* The fit for samples of this series: of the same stack, version, op and dtype, else the nearest of
 * its family; NULL when there is none. */
const struct kvt_fit *kvt_fits_for(const struct kvt_fit fits[], int32_t count,
                                   const struct kvt_series *series);

/* Build a calibration for printing: no guesses, not indexed. keep may be NULL; surfaces are copied.
 * stack may be NULL: that of the largest series. KVT_ENOMEM, or KVT_ELIMIT for too many laws. */
enum kvt_status kvt_calibration_build(struct kvt_calibration *calibration,
                                      const struct kvt_fit fits[], int32_t count,
                                      const struct kvt_calibration *keep, const char *gpu,
                                      const char *stack, struct kvt_err *err);

#endif
