/*
 * freeze.h - from laws to the integer tables of costs.h, once per role and run
 *
 * A frozen table is the step list (step.h) evaluated for batches 1..batch_max and for prompt
 * sizes on a grid, rounded to ticks. Where the laws are exactly linear in the context, so is the
 * table; prompt sizes lie on knots that keep tokens(m) within 0.5 % of the law.
 *
 * batch and context are those of the whole replica. With attention data parallelism the fullest
 * rank holds 1/dp of the batch, rounded up, and requests of the average context. With pipeline
 * parallelism the batch runs as pp microbatches that keep all stages busy, so that a decode step
 * takes the sum of all stages for 1/pp of the batch; a step with prompt tokens takes the sum of
 * all stages for all of its tokens, which is right for its latency and pessimistic for its rate.
 */
#ifndef KVT_COST_FREEZE_H
#define KVT_COST_FREEZE_H

#include "sim/base/arena.h"
#include "sim/base/status.h"
#include "sim/cost/costs.h"
#include "sim/cost/step.h"

/* The table of a role whose replicas run model on gpu in the given shape, for decode batches of
 * 1..batch_max requests. Memory comes from arena. calibration as kvt_calibration_load gave it.
 * overlap: the scheduler plans one step ahead; otherwise host_ticks is set. A row costs about 5 us,
 * the prompt knots about 1 ms. KVT_ENOMEM when the arena is full, KVT_ECONFIG when the model cannot
 * be split this way. */
enum kvt_status kvt_costs_freeze(struct kvt_costs *costs, struct kvt_arena *arena,
                                 const struct kvt_model *model, const struct kvt_gpu *gpu,
                                 const struct kvt_calibration *calibration,
                                 const struct kvt_step_shape *shape, int32_t batch_max,
                                 bool overlap, struct kvt_err *err);

#endif
