/*
 * link.h - transfers that share bandwidth fairly
 *
 * A flow carries the KV of one request from a source port (a prefill replica) to a sink port (a
 * decode replica). Ports have a capacity; flows share them max-min fairly: no flow can be given
 * more without taking from one that has less or as much. Shares are recomputed whenever a flow
 * starts or ends, and never in between. Bytes may be added to a flow while it runs (by chunk, by
 * layer); a flow ends when its last bytes were added and all are through.
 *
 * Everything is a whole number: a rate is bytes per 2^40 ticks (1.07 s), what is left is bytes
 * times 2^40. So a flow's end is exact, and rounds up to a tick.
 *
 * Cost: O(flows x ports) per start or end.
 */
#ifndef KVT_DES_LINK_H
#define KVT_DES_LINK_H

#include <stdbool.h>

#include "sim/base/arena.h"
#include "sim/base/ticks.h"
#include "sim/metrics/metrics.h"

#define KVT_RATE_TICKS (INT64_C(1) << 40) /* a rate is bytes per this */

struct kvt_flow {
    kvt_i128 left; /* bytes * 2^40 still to go, as of link->now */
    int64_t rate;  /* bytes per 2^40 ticks */
    int32_t source, sink;
    int32_t request;
    bool last; /* no more bytes will be added */
};

/* What a link's time series holds, in the places of a replica's gauges. */
enum kvt_link_gauge { KVT_LINK_FLOWS, KVT_LINK_STALLED, KVT_LINK_RATE };

struct kvt_link {
    int32_t port_count;
    int64_t *capacity;      /* [port_count] bytes per 2^40 ticks */
    int64_t *room;          /* [port_count] scratch of the sharing */
    int32_t *users;         /* [port_count] scratch */
    struct kvt_flow *flows; /* [flow_capacity]; the first `count` are in use, in order of start */
    int32_t *flow_of;       /* [requests] index in flows, or -1 */
    int32_t count;
    kvt_ticks now;
    int64_t bytes;             /* handed to the link in all */
    kvt_ticks busy;            /* time with at least one flow moving */
    struct kvt_series *series; /* flows, those that wait for bytes, and the sum of rates; or NULL */
};

enum kvt_status kvt_link_init(struct kvt_link *link, struct kvt_arena *arena, int32_t ports,
                              const double capacity_bytes_per_s[], int32_t requests,
                              struct kvt_err *err);

/* Keep a time series of so many points (even). */
enum kvt_status kvt_link_observe(struct kvt_link *link, struct kvt_arena *arena, int32_t points,
                                 struct kvt_err *err);

/* Add bytes for a request at time now; starts its flow if it has none. */
void kvt_link_add(struct kvt_link *link, kvt_ticks now, int32_t request, int32_t source,
                  int32_t sink, int64_t bytes, bool last);

/* No more bytes will come for this request. False if it has no flow. */
bool kvt_link_close(struct kvt_link *link, kvt_ticks now, int32_t request);

/* Whether r has a flow. */
bool kvt_link_has(const struct kvt_link *link, int32_t request);

/* When the next flow ends or runs dry, or KVT_NEVER. */
kvt_ticks kvt_link_next(const struct kvt_link *link);

/* Move to time now and take out one flow that has ended: its request, or -1 when there is none. */
int32_t kvt_link_take_ended(struct kvt_link *link, kvt_ticks now);

#endif
