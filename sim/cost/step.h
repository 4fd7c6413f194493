/*
 * step.h - a step is the list of its kernels
 */
#ifndef KVT_COST_STEP_H
#define KVT_COST_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/names.h"
#include "sim/base/status.h"
#include "sim/model/gpu.h"
#include "sim/model/model.h"

struct kvt_calibration;

/* How a role runs its model: what a config's role says, without its scheduler. */
struct kvt_step_shape {
    enum kvt_engine engine;
    enum kvt_weight_dtype weights;
    enum kvt_kv_dtype kv;
    int32_t tp, pp, dp, ep, dcp; /* dp: ranks of DP attention inside the replica; >= 1 each */
    int32_t draft_tokens;        /* speculative decoding: tokens drafted a step; 0 */
    double skew;                 /* es: 1 routes uniformly; < 0: the calibration's */
};

#endif
