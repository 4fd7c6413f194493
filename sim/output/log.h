/*
 * log.h - where decisions go when somebody wants to read them: an HDF5 dataset, a text file, both
 *
 * A log takes records one by one into a block and, when the block is full, appends it to the
 * dataset /decisions of an HDF5 file that hdf5.h finishes later, and to a text file of one line a
 * record. Memory is one block however long the run. The digest is the engine's and is the same with
 * and without a log.
 *
 * kvt_decision_log_add cannot fail where it is called (inside the event loop): the first failure is
 * kept, later records are dropped, and kvt_decision_log_finish reports it.
 */
#ifndef KVT_OUTPUT_LOG_H
#define KVT_OUTPUT_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/decision.h"
#include "sim/base/file.h"
#include "sim/base/status.h"

#define KVT_LOG_BLOCK 16384 /* records */

struct kvt_run_file; /* hdf5.h */

struct kvt_decision_log {
    struct kvt_decision *block; /* owned, [KVT_LOG_BLOCK] */
    int32_t used;
    int64_t total;            /* records taken so far */
    struct kvt_run_file *run; /* borrowed, or NULL */
    struct kvt_output output; /* of the text file */
    FILE *text;               /* its stream; NULL: none */
    const char *const *names; /* of the replicas, for the text; may be set after begin; borrowed */
    int32_t name_count;
    struct kvt_err failure; /* the first one */
};

/* Log to run (begun, not finished; may be NULL) and to the text file text_path (may be NULL). */
enum kvt_status kvt_decision_log_begin(struct kvt_decision_log *log, struct kvt_run_file *run,
                                       const char *text_path, struct kvt_err *err);

/* Write the full block; kvt_decision_log_add calls it. */
void kvt_decision_log_flush(struct kvt_decision_log *log);

/* Take one record, copied. A few ns. */
static inline void kvt_decision_log_add(struct kvt_decision_log *log,
                                        const struct kvt_decision *decision)
{
    if (log->used == KVT_LOG_BLOCK)
        kvt_decision_log_flush(log);
    log->block[log->used++] = *decision;
}

/* Write what is left and give the text file its name. The dataset is complete when the run file is
 * finished. Whatever happens the log is released. */
enum kvt_status kvt_decision_log_finish(struct kvt_decision_log *log, struct kvt_err *err);

/* Release without finishing; the text file does not appear. Safe on a zeroed or finished log. */
void kvt_decision_log_abandon(struct kvt_decision_log *log);

/* One record in words, without a newline:
 *     0.123456789+0512 s  request 17       decode-0     PREEMPT    12
 * Times have all their digits: ns, and after the "+" ticks of 1/1024 ns. names may be NULL: then
 * replicas are numbers. Returns out. */
const char *kvt_decision_print(const struct kvt_decision *decision, const char *const names[],
                               int32_t name_count, char *out, size_t size_bytes);

#endif
