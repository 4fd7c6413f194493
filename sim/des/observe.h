/*
 * observe.h - what a run shows: token times, gaps between tokens, gauges over time
 *
 * Fed by the engine as steps end and effects happen. A run of k decode steps gives k gaps to each
 * member; they are added to the histogram as arithmetic progressions, one per cost segment, so that
 * a macro-step leaves exactly the bins, sums and counts that its steps one by one leave.
 *
 * Only requests that arrive at or after the warm-up are measured.
 */
#ifndef KVT_DES_OBSERVE_H
#define KVT_DES_OBSERVE_H

#include "sim/cost/costs.h"
#include "sim/metrics/metrics.h"
#include "sim/metrics/tokens.h"
#include "sim/serve/core.h"

struct kvt_gaps {     /* of one replica */
    kvt_ticks last;   /* its batch's last token */
    int64_t measured; /* members that decoded here and are measured */
};

struct kvt_observer {
    const kvt_ticks *arrival; /* borrowed */
    kvt_ticks *first_token;   /* [requests] KVT_NEVER where none */
    kvt_ticks *finish;        /* [requests] KVT_NEVER where none */
    kvt_ticks *last_token;    /* [requests] while not in a batch */
    kvt_ticks warmup;
    struct kvt_histogram itl;
    struct kvt_gaps *gaps;              /* [replicas] */
    struct kvt_series *series;          /* [replicas] */
    struct kvt_count_series *preempted; /* [replicas] preemptions over time */
    struct kvt_token_log *tokens; /* borrowed; NULL: token times are not kept; runs of one step */
    int64_t steps;
};

enum kvt_status kvt_observer_init(struct kvt_observer *observer, struct kvt_arena *arena,
                                  const kvt_ticks *arrival, int32_t requests, int32_t replicas,
                                  int32_t series_points, kvt_ticks warmup, struct kvt_err *err);

struct kvt_run { /* k times the same decode step, or one step of any kind */
    kvt_ticks start;
    int64_t steps;
    int32_t decodes, growing;
    int64_t context, windowed; /* of the first step */
};

/* A run on a replica is over at `end`; first_end is the end of its first step. Call before the
 * effects of its commit are told. */
void kvt_observe_run(struct kvt_observer *observer, const struct kvt_core *core, int32_t replica,
                     const struct kvt_costs *costs, const struct kvt_run *run,
                     const struct kvt_step *step, kvt_ticks first_end, kvt_ticks end);

void kvt_observe_effect(struct kvt_observer *observer, const struct kvt_effect *effect,
                        kvt_ticks now);

/* The gauges of a replica: those that an arrival can change while a run is under way, and all of
 * them at the end of a step, if it changed who runs and who waits. */
void kvt_observe_arrival(struct kvt_observer *observer, const struct kvt_core *core,
                         int32_t replica, kvt_ticks now);
void kvt_observe_step_end(struct kvt_observer *observer, const struct kvt_core *core,
                          int32_t replica, kvt_ticks now);

#endif
