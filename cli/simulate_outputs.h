/*
 * simulate_outputs.h - what kvtwin simulate writes beside its table
 *
 *   -o RUN.h5            the run (hdf5.h), with --decisions its log
 *   --log FILE           every decision as text
 *   --perfetto FILE      a trace for ui.perfetto.dev
 *   --export FORMAT:FILE the format of a benchmark tool; repeats
 *
 * All are begun before the run, so that a place that cannot be written is told
 * at once, and appear when they are complete.
 */
#ifndef KVT_CLI_SIMULATE_OUTPUTS_H
#define KVT_CLI_SIMULATE_OUTPUTS_H

#include "cli/cli.h"
#include "sim/output/exchange.h"
#include "sim/output/hdf5.h"
#include "sim/output/log.h"
#include "sim/output/perfetto.h"
#include "sim/plan/simulate.h"

#define KVT_EXPORTS_MAX 8

struct kvt_simulate_outputs {
    bool has_file, has_log, has_trace;
    struct kvt_run_file file;
    struct kvt_decision_log log;
    struct kvt_perfetto trace;
    int32_t export_count;
    struct kvt_export {
        enum kvt_exchange format;
        struct kvt_output output;
    } exports[KVT_EXPORTS_MAX];
};

/* Begin what the command line asks for; sink and context of options are set
 * where decisions are wanted. outputs is zeroed. Abandon in any case. */
enum kvt_status kvt_simulate_outputs_begin(struct kvt_simulate_outputs *outputs,
                                           const struct kvt_cli *cli,
                                           struct kvt_simulate_options *options,
                                           struct kvt_err *err);

/* The simulation is set up: names and numbers of replicas and requests. */
enum kvt_status kvt_simulate_outputs_open(struct kvt_simulate_outputs *outputs,
                                          const struct kvt_simulation *simulation,
                                          struct kvt_err *err);

/* Write and name everything. */
enum kvt_status kvt_simulate_outputs_finish(struct kvt_simulate_outputs *outputs,
                                            const struct kvt_summary *summary, struct kvt_err *err);

/* Remove what is not finished. */
void kvt_simulate_outputs_abandon(struct kvt_simulate_outputs *outputs);

#endif
