/*
 * perfetto.h - a run as a trace for ui.perfetto.dev, in Chrome's JSON trace
 * events
 *
 * One process a replica. In it one thread a lane: a request takes the lowest
 * free lane while the replica works on it, so that there are as many rows as
 * were at most busy at once. A slice is a phase (prefill, decode, hand-off,
 * transfer, resumed), with the request in its arguments; a flow arrow joins
 * prefill and decode where KV is handed over; preemptions, rejections, faults,
 * what guards found, escapes and quarantines are instants. Counters (running,
 * waiting, KV pages; flows and rate of the link) come from the run's time
 * series.
 *
 *     kvt_perfetto_begin     is the place writable?
 *     kvt_perfetto_open      how many requests and replicas there will be
 *     kvt_perfetto_add       each decision, in order (decision.h)
 *     kvt_perfetto_finish    counters and names; the file gets its name
 *
 * Times are in us with three decimals: ns. Events are written as they end;
 * memory is 56 bytes a request, however long the run. Equal runs give equal
 * bytes. 1,000,000 requests are 255 MB.
 *
 * kvt_perfetto_add cannot fail where it is called: the first failure is kept
 * for _finish.
 */
#ifndef KVT_OUTPUT_PERFETTO_H
#define KVT_OUTPUT_PERFETTO_H

#include <stdio.h>

#include "sim/base/decision.h"
#include "sim/base/file.h"
#include "sim/output/result.h"

struct kvt_perfetto_slice {
    kvt_ticks start;
    int32_t lane;
    int16_t replica; /* -1: closed */
    int16_t phase;
};

struct kvt_perfetto_request { /* on prefill and on decode at once, at most */
    struct kvt_perfetto_slice slices[2];
    int16_t decode_replica;               /* where its KV goes; -1: nowhere */
    bool first, sent, has_start, has_end; /* of its arrow */
    kvt_ticks sent_at;
};

struct kvt_perfetto_lanes { /* of a replica */
    uint64_t *busy;         /* owned; a bit a lane */
    int32_t words, peak;
};

struct kvt_perfetto {
    struct kvt_output output;
    FILE *file;                            /* its stream */
    struct kvt_perfetto_request *requests; /* owned, [rows] */
    struct kvt_perfetto_lanes *lanes;      /* owned, [replicas] */
    int64_t rows, events;
    int32_t replicas;
    struct kvt_err failure;
};

/* Fails at once when path cannot be written. */
enum kvt_status kvt_perfetto_begin(struct kvt_perfetto *trace, const char *path,
                                   struct kvt_err *err);
enum kvt_status kvt_perfetto_open(struct kvt_perfetto *trace, int64_t rows, int32_t replicas,
                                  struct kvt_err *err);
void kvt_perfetto_add(struct kvt_perfetto *trace, const struct kvt_decision *decision);

/* Released in any case. */
enum kvt_status kvt_perfetto_finish(struct kvt_perfetto *trace, const struct kvt_result *result,
                                    struct kvt_err *err);

/* Remove what was written. Safe on a zeroed or finished trace. */
void kvt_perfetto_abandon(struct kvt_perfetto *trace);

#endif
