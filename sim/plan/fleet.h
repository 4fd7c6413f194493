/*
 * fleet.h - from a config to a fleet that can run: pools, schedulers, step costs, link, price
 *
 * Per role: the memory ledger sizes the pool (role_memory.h), the engine's defaults fill in what
 * the config leaves out, and the calibration of its GPU is frozen into a table of step times. What
 * a role of attention data parallelism holds is the sum over its ranks, taken as balanced.
 */
#ifndef KVT_PLAN_FLEET_H
#define KVT_PLAN_FLEET_H

#include <stdio.h>

#include "sim/cost/costs.h"
#include "sim/des/engine.h"
#include "sim/plan/price.h"
#include "sim/plan/role_memory.h"

struct kvt_fleet_role {
    struct kvt_role_memory plan;
    struct kvt_replica_spec replica;
    struct kvt_price price; /* what costs were frozen from */
    struct kvt_costs costs;
};

struct kvt_fleet {
    bool present[KVT_ROLE_COUNT];
    struct kvt_fleet_role roles[KVT_ROLE_COUNT];
    struct kvt_link_spec link;
    int32_t gpus;
    double usd_per_h; /* 0: no price was given */
};

/* What a load needs of a fleet: bounds of batches and whether prompts have hashes. */
struct kvt_fleet_load {
    int64_t requests;
    double mean_output; /* tokens: steps of a request; 0: unknown, and checks made once are free */
    bool hashed;        /* prompts carry hashes: a prefix cache can do something */
    bool named;         /* pages must have names: a log, guards, faults */
};

/* Resolve a config whose domains are all chosen. Tables come from arena; talk gets warnings of the
 * cost model, or is NULL. fleet is large (200 KiB): keep it off small stacks. Release it with
 * kvt_fleet_release, after a failure too. */
enum kvt_status kvt_fleet_init(struct kvt_fleet *fleet, struct kvt_arena *arena,
                               const struct kvt_config *config, const struct kvt_fleet_load *load,
                               FILE *talk, struct kvt_err *err);
void kvt_fleet_release(struct kvt_fleet *fleet);

/* USD/h of one GPU: what the config says of it under its name or an alias, else its file; 0:
 * neither does. talk (or NULL) hears of a config that has prices for others only. */
double kvt_fleet_usd_per_gpu(const struct kvt_config *config, const struct kvt_gpu *gpu,
                             FILE *talk);

/* The same fleet with errors in its step times. Pools, schedulers and calibrations are base's,
 * which must stay; only the tables are new, in arena. Nothing is to be released. Any number of
 * threads may do this to one base. */
enum kvt_status kvt_fleet_with_errors(struct kvt_fleet *fleet, const struct kvt_fleet *base,
                                      struct kvt_arena *arena, struct kvt_error_factors *errors,
                                      struct kvt_err *err);

#endif
