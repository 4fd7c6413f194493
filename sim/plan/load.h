/*
 * load.h - from the workload of a config to the trace that a run replays
 *
 * A trace is read, an open load is generated, and a closed load is generated with all arrivals at
 * 0: its engine places request i when a finish makes room for it. Same config and seed, same trace.
 */
#ifndef KVT_PLAN_LOAD_H
#define KVT_PLAN_LOAD_H

#include "sim/config/config.h"
#include "sim/trace/generate.h"
#include "sim/trace/trace.h"

/* Tokens of one hash of a generated prompt with shared prefixes. */
#define KVT_LOAD_BLOCK_TOKENS 64

struct kvt_load {
    struct kvt_trace_spec spec;
    struct kvt_trace
        sources[2]; /* of empirical lengths of prompts and outputs; spec borrows them */
};

/* Describe a workload of kind open or closed, reading the traces that its lengths are drawn from.
 * spec.requests is KVT_UNSET where the config leaves it out. */
enum kvt_status kvt_load_init(struct kvt_load *load, const struct kvt_config *config,
                              struct kvt_err *err);

void kvt_load_release(struct kvt_load *load);

/* The requests of config, whatever the kind. A closed load without `requests` is a KVT_ECONFIG:
 * its engine draws lengths one by one (kvt_lengths_at) or sets spec.requests itself. run.until cuts
 * generated arrivals; a trace that was read is given whole. */
enum kvt_status kvt_load_trace(struct kvt_trace *trace, const struct kvt_config *config,
                               struct kvt_err *err);

#endif
