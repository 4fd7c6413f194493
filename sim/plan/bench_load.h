/*
 * bench_load.h - the load that a benchmark client put on a server, as a workload of a config
 *
 * A client sends its requests at a rate, or keeps so many under way; without either it sends all at
 * once. With details (bench_result.h) the requests are those of the file, in their order; with
 * totals alone they are of one length each, so that the totals come out to the token. Gaps of a
 * rate are the file's starts, else gamma with the file's burstiness, by the config's seed. Failed
 * requests are left out: how far a server got with them is not in the file.
 *
 * A rate and a limit together are a rate when the limit is not reached by Little's law (latency x
 * rate below 0.8 of it), else the limit: a client that has to wait keeps it filled.
 */
#ifndef KVT_PLAN_BENCH_LOAD_H
#define KVT_PLAN_BENCH_LOAD_H

#include "sim/config/config.h"
#include "sim/output/bench_result.h"
#include "sim/trace/trace.h"

/* The most requests under way at once in a closed run; 0 for one at a rate. */
int64_t kvt_bench_concurrency(const struct kvt_bench_run *run);

/* Put the run's load into config's workload (all of it; no warm-up, no end by time) and its
 * requests into trace. KVT_ECONFIG for lengths that no trace holds, KVT_ENOMEM. */
enum kvt_status kvt_bench_load(struct kvt_trace *trace, struct kvt_config *config,
                               const struct kvt_bench_run *run, struct kvt_err *err);

#endif
