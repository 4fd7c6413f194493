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

/* Mark fits as bad that others show to be no kernel times:
 *   attention over an 8-bit cache that is slower than its 16-bit twin: it converts the whole cache
 * at every call, which later servers do not; block-scaled GEMMs that take 1.5 times as long as
 * another stack's while they are small and as long when they are large: what is added is the host's
 * launches. (GEMMs with one scale per tensor are not judged so: some rows hold the quantiser of
 * activations, some do not.) */
void kvt_fits_judge(struct kvt_fit fits[], int32_t count);

/* Which kernel a family runs where a table holds several: rows whose kernel_source holds the text
 * come before others, for models with one of these hidden sizes or for all of them. "keep": the
 * laws of the earlier calibration instead of any table's. */
struct kvt_kernel_rule {
    int32_t family;
    double hidden; /* 0: every model */
    char kernel[48];
};

/* Read "FAMILY=KERNEL" or "FAMILY:HIDDEN=KERNEL". KVT_EUSAGE names what is wrong. */
enum kvt_status kvt_kernel_rule_parse(struct kvt_kernel_rule *rule, const char *text,
                                      struct kvt_err *err);

/* The fit for samples of this series: of the same stack, version, op and dtype, else the nearest of
 * its family; NULL when there is none. */
const struct kvt_fit *kvt_fits_for(const struct kvt_fit fits[], int32_t count,
                                   const struct kvt_series *series);

/* What a calibration is built from, beside the fits. */
struct kvt_build_wishes {
    const struct kvt_calibration *keep; /* or NULL */
    const char *gpu;
    const char *stack;                   /* NULL: that of the largest series */
    const struct kvt_kernel_rule *rules; /* the first that matches a model counts */
    int32_t rule_count;
};

/* Build a calibration for printing: no guesses, not indexed; surfaces are copied. KVT_ENOMEM, or
 * KVT_ELIMIT for too many laws. */
enum kvt_status kvt_calibration_build(struct kvt_calibration *calibration,
                                      const struct kvt_fit fits[], int32_t count,
                                      const struct kvt_build_wishes *wishes, struct kvt_err *err);

#endif
