/*
 * simulate.h - one run of a config, from its files to everything it says
 *
 *     kvt_simulation_init     read the trace, size the pools, freeze the costs, take all memory
 *     kvt_simulation_run      let the engine go: to the end, or until `stop`
 *     kvt_simulation_result   lend the columns, counters and histograms to the outputs
 *     kvt_simulation_release
 *
 * The memory of a run is one arena. A simulation may be interrupted: its result then covers what
 * ran, and requests under way count as running.
 */
#ifndef KVT_PLAN_SIMULATE_H
#define KVT_PLAN_SIMULATE_H

#include "sim/base/stop.h"
#include "sim/base/tell.h"
#include "sim/output/result.h"
#include "sim/plan/fleet.h"
#include "sim/trace/trace.h"

struct kvt_simulate_options {
    bool exact;                       /* every decode step by itself */
    bool tokens;                      /* the time of each token is wanted: exact */
    bool named;                       /* page-level records are wanted in the log */
    bool planned;                     /* the strikes of the config's faults.plan fall */
    const struct kvt_strike *strikes; /* or these; NULL: none; name pages; borrowed */
    int32_t strike_count;
    struct kvt_trace *trace; /* the requests, instead of the workload's; taken over. NULL: none */
    FILE *talk;              /* warnings of the cost model; NULL: none */
    const struct kvt_des_tap *tap; /* runs the steps, or hears of them (engine.h); or NULL */
    void (*sink)(void *context, const struct kvt_decision *decision); /* NULL: no log */
    void *context;
    const struct kvt_stop *stop; /* NULL: never */
    struct kvt_tell tell;
};

struct kvt_simulation {
    const struct kvt_config *config; /* borrowed */
    struct kvt_arena arena, costs_arena;
    struct kvt_trace trace;
    struct kvt_fleet *fleet; /* owned, as all below */
    struct kvt_des des;
    kvt_ticks *patience; /* when clients go away; NULL: nobody does */
    struct kvt_guards guards[KVT_ROLE_COUNT];
    struct kvt_strike *plan;     /* of faults.plan; NULL: not wanted, or there is none */
    struct kvt_faults *faults;   /* in the arena; NULL: none */
    struct kvt_token_log tokens; /* zeroed: not wanted */
    struct kvt_result_replica *replicas;
    char (*replica_names)[32];
    const char **names; /* of the replicas, in the order of a decision's replica; set by init */
    uint8_t *fate;
    int16_t *prefill_replica, *decode_replica, *tenant;
    int32_t *preemptions, *cached;
    int32_t role_count;
    struct kvt_result_role roles[KVT_ROLE_COUNT];
    struct kvt_result_strike *strikes; /* in the arena; NULL: none */
    char model_text[160], fleet_text[640];
    char *config_text;
    bool lent; /* trace and calibrations are those of another simulation */
    bool interrupted;
    double read_s, setup_s, engine_s;
};

/* Seconds of a monotonic wall clock, for --timing only: they reach no result. */
double kvt_wall_seconds(void);

enum kvt_status kvt_simulation_init(struct kvt_simulation *simulation,
                                    const struct kvt_config *config,
                                    const struct kvt_simulate_options *options,
                                    struct kvt_err *err);

/* The same run with errors in its step times (error_factors.h): trace, pools and calibrations are
 * lent by base, which was initialised and must stay; nothing of it changes, so that any number of
 * threads may do this at once, each with errors of its own. Warns of nothing. */
enum kvt_status kvt_simulation_init_with_errors(struct kvt_simulation *simulation,
                                                const struct kvt_simulation *base,
                                                struct kvt_error_factors *errors,
                                                const struct kvt_simulate_options *options,
                                                struct kvt_err *err);

/* KVT_EINTR when stopped; KVT_ELIMIT when requests are left that nothing will ever serve. Either
 * way the result may be taken. */
enum kvt_status kvt_simulation_run(struct kvt_simulation *simulation,
                                   const struct kvt_simulate_options *options, struct kvt_err *err);

/* Fill result; it borrows from simulation. KVT_ENOMEM only. */
enum kvt_status kvt_simulation_result(struct kvt_simulation *simulation, struct kvt_result *result,
                                      struct kvt_err *err);

/* What a result is judged by, from a config. */
void kvt_result_set_slo(struct kvt_result *result, const struct kvt_config_slo *slo);

void kvt_simulation_release(struct kvt_simulation *simulation);

#endif
