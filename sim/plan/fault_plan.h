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

/* Bounds of strikes: the longest exponential delay of that mean (37 of it), added to any time of a
 * strike, is still a number of ticks (9.007e6 s). */
#define KVT_STRIKE_AT_MAX_S    1e6
#define KVT_STRIKE_DELAY_MAX_S 1e5

/* A role's guards as the fault layer reads them. */
struct kvt_guards kvt_guards_of(const struct kvt_config_guard *guard);

/* The variant of this class and name (NULL: its first). KVT_ECONFIG names the variants that the
 * class has. key is of the config. */
enum kvt_status kvt_fault_find_variant(enum kvt_fault_kind kind, const char *name, const char *key,
                                       struct kvt_where where, int32_t *variant,
                                       struct kvt_err *err);

/* KVT_ECONFIG when an amount is out of the range of its variant's measure. */
enum kvt_status kvt_fault_check_amount(int32_t variant, double amount, const char *key,
                                       struct kvt_where where, struct kvt_err *err);

/* The rows of faults.plan by time, into strikes[KVT_STRIKES_MAX]. KVT_ECONFIG points at the row: an
 * unknown variant, a replica that does not exist, one after run.until, an amount out of range, a
 * strike on a replica that another one has down. */
enum kvt_status kvt_fault_plan(const struct kvt_config *config, struct kvt_strike strikes[],
                               int32_t *count, struct kvt_err *err);

/* KVT_ECONFIG when faults.from and faults.until leave no time for a strike, or reach beyond
 * run.until, where no strike of a plan may fall either. */
enum kvt_status kvt_fault_check_window(const struct kvt_config *config, struct kvt_err *err);

/* What rows of faults.plan, which strikes are, can be told only beside a fleet and its load.
 * KVT_ECONFIG points at the row of a request or a page that is not there: a page must be on each
 * replica that may be struck. names: of the replicas. */
enum kvt_status kvt_fault_check_targets(const struct kvt_config *config,
                                        const struct kvt_core *core, const char *const names[],
                                        const struct kvt_strike strikes[], int32_t count,
                                        struct kvt_err *err);

/* Strike of trial number `trial` of a class: variant, and time in [from, until). Never
 * late-write/abort, which needs a client that goes away. */
struct kvt_strike kvt_fault_draw(uint64_t seed, enum kvt_fault_kind kind, int64_t trial,
                                 kvt_ticks from, kvt_ticks until);

/* Seed of what a trial's strike draws when it strikes. */
uint64_t kvt_fault_trial_seed(uint64_t seed, enum kvt_fault_kind kind, int64_t trial);

#endif
