/*
 * fault_plan.h - from what a config says of faults and guards to strikes
 *
 * A plan is an array of strikes by time: the rows of faults.plan, or one drawn for a trial. A
 * trial's draws come from a stream of its own (seed, class, trial), so that trials of one guard are
 * trials of every other one, and of any number of threads.
 */
#ifndef KVT_PLAN_FAULT_PLAN_H
#define KVT_PLAN_FAULT_PLAN_H

#include "sim/config/config.h"
#include "sim/fault/faults.h"

/* A role's guards as the fault layer reads them. */
struct kvt_guards kvt_guards_of(const struct kvt_config_guard *guard);

/* The rows of faults.plan by time, into strikes[KVT_STRIKES_MAX]. KVT_ECONFIG points at the row: an
 * unknown variant, a replica that does not exist, one after run.until. */
enum kvt_status kvt_fault_plan(const struct kvt_config *config, int32_t replicas,
                               struct kvt_strike strikes[], int32_t *count, struct kvt_err *err);

/* Strike of trial number `trial` of a class: variant, and time in [from, until). */
struct kvt_strike kvt_fault_draw(uint64_t seed, enum kvt_fault_kind kind, int64_t trial,
                                 kvt_ticks from, kvt_ticks until);

/* Seed of what a trial's strike draws when it strikes. */
uint64_t kvt_fault_trial_seed(uint64_t seed, enum kvt_fault_kind kind, int64_t trial);

#endif
