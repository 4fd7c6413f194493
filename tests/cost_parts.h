/*
 * cost_parts.h - a GPU, shipped calibrations and frozen steps: what the suites of sim/cost share
 */
#ifndef KVT_TESTS_COST_PARTS_H
#define KVT_TESTS_COST_PARTS_H

#include "sim/base/arena.h"
#include "sim/cost/calibration.h"
#include "sim/cost/freeze.h"
#include "sim/model/gpu.h"
#include "tests/check.h"

/* An H200 as laws and tables need it, without a file. */
extern const struct kvt_gpu cost_gpu;

/* The GPU that a calibration is named after: h200-sglang has h200-sxm. */
struct kvt_gpu cost_gpu_of(const char *calibration);

/* A shipped calibration of sglang. Release it. */
struct kvt_calibration cost_shipped(const char *name);

struct kvt_step_shape cost_tensor_parallel(int32_t tp, enum kvt_kv_dtype kv);

struct frozen {
    struct kvt_arena arena; /* release it */
    struct kvt_costs costs;
};

void cost_freeze(struct frozen *f, const struct kvt_model *model,
                 const struct kvt_step_shape *shape, const struct kvt_calibration *c,
                 int32_t batch_max);

/* The file of a calibration as text; free it. */
char *cost_print(const struct kvt_calibration *c);

#endif
