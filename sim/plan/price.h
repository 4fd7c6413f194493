/*
 * price.h - what a role's steps cost: from its config and calibration to a frozen table
 *
 * Speculative decoding (draft_tokens) counts in memory only: how many drafted tokens are accepted
 * is not modelled yet, so steps are priced, and run, one token a request. A warning says so.
 */
#ifndef KVT_PLAN_PRICE_H
#define KVT_PLAN_PRICE_H

#include <stdio.h>

#include "sim/base/arena.h"
#include "sim/cost/costs.h"
#include "sim/cost/step.h"
#include "sim/plan/role_memory.h"

/* What the step times of a role rest on. */
struct kvt_price {
    struct kvt_calibration calibration; /* owned */
    struct kvt_step_shape shape;
};

/* Load the calibration that the config names for this GPU, else the shipped one of the engine.
 * mean_output: tokens, over which a check that is made once for a request is spread; 0: unknown. */
enum kvt_status kvt_price_init(struct kvt_price *price, const struct kvt_config *config,
                               enum kvt_role role, const struct kvt_role_memory *plan,
                               double mean_output, FILE *talk, struct kvt_err *err);
void kvt_price_release(struct kvt_price *price);

/* Freeze the step times of a role for decode batches up to batch_max. The host's time per step is
 * in the table already when the scheduler does not overlap. errors: of a resample, or NULL; with
 * them it warns of nothing and any number of threads may freeze one price. */
enum kvt_status kvt_price_freeze(const struct kvt_price *price, const struct kvt_role_memory *plan,
                                 struct kvt_arena *arena, int32_t batch_max, bool overlap,
                                 struct kvt_error_factors *errors, struct kvt_costs *costs,
                                 struct kvt_err *err);

/* The kernels of one step of a role (kvtwin simulate --explain-step): decodes requests of `context`
 * tokens each, or a prompt chunk of `prompt` tokens. */
struct kvt_explained {
    int64_t decodes, context, prompt;
    bool json;
    FILE *talk; /* gets warnings; NULL: nobody */
};
enum kvt_status kvt_price_explain(const struct kvt_config *config, enum kvt_role role,
                                  const struct kvt_role_memory *plan,
                                  const struct kvt_explained *what, FILE *out, struct kvt_err *err);

#endif
