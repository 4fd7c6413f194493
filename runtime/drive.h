/*
 * drive.h - engines at work: running freely, and along a recorded order
 *
 * Freely, the event loop of sim/des moves the core and the engines run its steps: what a step takes
 * is measured, arrivals and links come from the config. The order in which the core was called, and
 * every decision it made, may be recorded.
 *
 * Where a guard of the config finds a bad page before a step, its request is aborted at that step's
 * start, as the guards of the simulator do (CHECK_MISS, ABORT).
 *
 * A replay feeds a recorded order to a core of its own, call by call at the recorded times, and to
 * engines behind it. Nothing but the order is taken from the record; each decision, pages by their
 * numbers included, must then be the recorded one. So a schedule that was simulated can be run on
 * real memory step by step, and one that was run can be simulated.
 */
#ifndef KVT_RUNTIME_DRIVE_H
#define KVT_RUNTIME_DRIVE_H

#include "runtime/engine.h"
#include "sim/plan/simulate.h"

struct kvt_order_call {
    kvt_ticks time;
    int32_t id, kind; /* kind: enum kvt_call */
};

struct kvt_order {
    struct kvt_order_call *calls; /* owned */
    int64_t call_count, call_room;
    struct kvt_decision *decisions; /* owned */
    int64_t decision_count, decision_room;
    bool full; /* no memory to keep it all */
};

void kvt_order_release(struct kvt_order *order);

/* A run whose steps take what somebody says: a function, else the engines that run them. With both,
 * the engines run and the function keeps the clock, which makes a run repeatable. */
struct kvt_drive {
    struct kvt_runtime *runtime; /* NULL: nothing runs */
    double (*time)(void *context, int32_t replica, const struct kvt_step *step); /* s; NULL */
    void *time_context;
    struct kvt_order *order; /* filled; NULL: not recorded */
    void (*sink)(void *context, const struct kvt_decision *decision); /* NULL: none */
    void *sink_context;
    const struct kvt_stop *stop;
    struct kvt_stop halt;   /* asked by a step: stop was, or an engine has failed */
    struct kvt_des_tap tap; /* set by kvt_drive_begin, as the one below */
    struct kvt_simulation simulation;
};

/* Set the simulation of config up, and bind the runtime to its core. */
enum kvt_status kvt_drive_begin(struct kvt_drive *drive, const struct kvt_config *config,
                                struct kvt_err *err);

/* Run to the end (or until stop: KVT_EINTR; the result then covers what ran). An engine that fails
 * ends the run with that step: KVT_EDEVICE or KVT_ENOMEM. */
enum kvt_status kvt_drive_run(struct kvt_drive *drive, struct kvt_err *err);

/* Release the simulation, also after a failure. Records stay. */
void kvt_drive_release(struct kvt_drive *drive);

struct kvt_replay {
    int64_t decisions;  /* made in the replay */
    int64_t divergence; /* index of the first that differs from the recorded one, or -1 */
    struct kvt_decision got, wanted; /* there; kind -1 where one side has none */
    uint64_t digest;
};

/* Replay order on a core as spec describes it, with the engines of runtime behind it (NULL: in
 * virtual time only). The order must come from a run of the same spec. The first divergence ends
 * the replay. KVT_EDEVICE and KVT_ENOMEM from the engines; KVT_EINTR. */
enum kvt_status kvt_replay_run(struct kvt_replay *replay, const struct kvt_order *order,
                               const struct kvt_des_spec *spec, const struct kvt_trace *trace,
                               struct kvt_runtime *runtime, uint64_t seed,
                               const struct kvt_stop *stop, struct kvt_err *err);

#endif
