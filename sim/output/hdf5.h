/*
 * hdf5.h - a run in one HDF5 file, layout 1
 *
 *   /            attributes  layout = 1 (int32), program = "kvtwin"
 *   /requests/   1-D datasets of equal length, row r is request r of the trace
 *       arrival, first_token, finish   int64 ns from the start, rounded; -1 where there is none
 *       input, output                  int32 tokens
 *       fate                           uint8; names in the group's attribute fates
 *       prefill_replica, decode_replica   int16 index into /series attribute names; -1 for none
 *       preemptions, cached            int32; tenant int16
 *   /series/     attribute names = the replicas, space between, in the order of their indices
 *       <replica>/ running, waiting, pages   float64 means per point
 *                    preempted   int64 preemptions per point
 *           attributes  width_ns (float64, of one point), end_ns, pages, pages_peak, steps,
 *                       preemptions, evictions (int64), busy_ns
 *   /memory/ attribute names = the roles, space between
 *       <role>   attributes: gpu, replicas, gpus_per_replica, memory_bytes, and the bytes of each
 *                entry of one GPU's memory map under its name, in the order of the map (int64)
 *   /link        where prefill hands KV to decode: flows, stalled (those that wait for bytes),
 *                rate (bytes/s)   float64 means per point
 *       attributes  width_ns, end_ns, bytes_per_s (that it can carry), bytes, busy_ns
 *   /faults/<i>  strike i of a run with a fault plan: attributes fault, variant, outcome (text),
 *                time_ns, exposed_ns, detected_ns (int64; -1: not), replica, activated, hit, lost,
 *                leaked
 *   /histograms/ ttft, tpot, itl, e2el      uint64 [bins in use][2]: lower edge in ticks, count
 *   /summary     attributes: every metric of summary.h under its name (float64 or int64)
 *   /config      the effective configuration, one string
 *   /meta        attributes: seed (uint64), digest (16 hex digits), version, cpu (features that
 *                math libraries look at), hdf5, zlib, gsl, libc (their versions), interrupted,
 *                end_ns, warmup_ns (int64), title, model, fleet
 *   /decisions   when logged: compound (time int64 ticks, count int64, request int32,
 *                replica int16, kind int16), attribute kinds = the names by number
 *
 * Equal runs give equal bytes: no object times are kept and nothing depends on addresses or names.
 * Datasets are contiguous: 1,000,000 requests are 46 MB; shuffle and deflate 1 would make 15 MB of
 * them in ten times the time. /decisions is chunked. The file is written under a temporary name and
 * renamed when complete (sim/base/file.h); a failure names the path, the call and the reason, is a
 * KVT_EIO, and leaves no file.
 */
#ifndef KVT_OUTPUT_HDF5_H
#define KVT_OUTPUT_HDF5_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/decision.h"
#include "sim/base/file.h"
#include "sim/base/status.h"
#include "sim/output/summary.h"

#define KVT_RUN_LAYOUT 1

/* A file being written. HDF5's handles are kept as int64_t so that this header needs none. */
struct kvt_run_file {
    struct kvt_output output;
    int64_t file;      /* hid_t, or 0 */
    int64_t decisions; /* hid_t of the dataset, or 0 */
    int64_t decision_count;
    int *failure; /* owned; see h5_driver.h */
};

/* Begin an output at path: fails at once when it cannot be written. */
enum kvt_status kvt_run_file_begin(struct kvt_run_file *run, const char *path, struct kvt_err *err);

/* Append count records to /decisions, made on first use. */
enum kvt_status kvt_run_file_log(struct kvt_run_file *run, const struct kvt_decision decisions[],
                                 int64_t count, struct kvt_err *err);

/* Write everything else and give the file its name. The run file is released in any case. */
enum kvt_status kvt_run_file_finish(struct kvt_run_file *run, const struct kvt_summary *summary,
                                    struct kvt_err *err);

/* Remove what was written. Safe on a zeroed or finished run file. */
void kvt_run_file_abandon(struct kvt_run_file *run);

#endif
