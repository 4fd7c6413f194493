/*
 * fault_rates.h - the strikes of one run: those that are written and those that rates draw
 *
 * Everything is drawn before the run, each from a stream of its own (seed, row of faults.rates, and
 * replica, GPU or request), so that a row that is added or taken out leaves the others' strikes as
 * they were. Times are whole microseconds: a plan that is printed and read again strikes at the
 * same ticks.
 *
 *   hour, gpu-hour, gb-hour   a Poisson process per replica between faults.from and faults.until,
 *       of the rate times 1, its GPUs, or the bytes of its KV pool. With `lemons` a GPU is bad with
 *       that probability; bad ones carry the share `carry` of the strikes, the others the rest, so
 *       that the mean stays what the rate says (errors of memory concentrate on few parts).
 *   transfer   each request that goes from prefill to decode is struck with that probability, at
 *       the event of its own that the variant waits for
 *   abort      the same for each request whose client may go away (workload.aborts)
 *
 * With `exponential` the delay of each strike is drawn as well, from the same stream after its
 * place.
 *
 * Importance sampling: `inflate` draws shares at min(0.5, share * inflate) and rates per time at
 * rate * inflate, and the weight of the plan is the ratio of its densities.
 */
#ifndef KVT_PLAN_FAULT_RATES_H
#define KVT_PLAN_FAULT_RATES_H

#include "sim/plan/simulate.h"

/* Strikes of a run of base (initialised, without strikes, its pages named) into
 * strikes[KVT_STRIKES_MAX], by time. *log_weight is that of the draw; 0 for inflate 1. KVT_ECONFIG
 * points at a row that names a page or request that does not exist, a share above 1, or a basis
 * that the fleet or the variant does not have; KVT_ELIMIT when there are too many. */
enum kvt_status kvt_fault_draw_plan(const struct kvt_simulation *base, uint64_t seed,
                                    double inflate, struct kvt_strike strikes[], int32_t *count,
                                    double *log_weight, struct kvt_err *err);

/* The same given that at least one strike falls, whose chance *log_chance is the logarithm of: 1 -
 * exp(-H), where H adds up rate times span of each process and -log(1 - p) of each share. Its first
 * strike is where a process of rate 1 that runs through all of them in turn has its first event,
 * which is drawn given that it lies before H; what comes after is drawn as ever. KVT_ECONFIG as
 * well when nothing can strike. */
enum kvt_status kvt_fault_draw_struck_plan(const struct kvt_simulation *base, uint64_t seed,
                                           struct kvt_strike strikes[], int32_t *count,
                                           double *log_chance, struct kvt_err *err);

/* How many strikes the rates draw for a run on average. */
enum kvt_status kvt_fault_plan_mean(const struct kvt_simulation *base, double *mean,
                                    struct kvt_err *err);

/* The strikes as rows of a config's faults.plan. */
void kvt_fault_print_plan(const struct kvt_strike strikes[], int32_t count, FILE *out);

#endif
