/*
 * request.h - one request as the serving core sees it, and queues of requests
 *
 * A request is an index into one table, the row of its trace. It lives through these states:
 *
 *   colocated      FUTURE > WAITING > PREFILL > RUNNING > COMPLETED
 *   disaggregated  FUTURE > RESERVING > WAITING > PREFILL > SENDING > READY > RUNNING > COMPLETED
 *
 * and may leave any of them for ABORTED, or FUTURE for REJECTED; memory pressure sends RUNNING back
 * to WAITING (recompute) or, on a decode replica, to RETRACTED (its KV waits in host memory).
 *
 * While a request decodes, nothing of it is touched per step: what changes follows from the step
 * counts of its batch (batch.h). `context` and `generated` are then as of the step it joined at.
 *
 * A holding is what a request has of one replica's pages. A request on its way from prefill to
 * decode has two. `fences` counts steps and transfers in flight that read or write the pages; they
 * go back to the pool only when it is 0.
 */
#ifndef KVT_SERVE_REQUEST_H
#define KVT_SERVE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/assert.h"

#define KVT_NONE (-1) /* no request, page, replica, or entry */

enum kvt_request_state {
    KVT_REQUEST_FUTURE,
    KVT_REQUEST_RESERVING, /* waits for pages on its decode replica */
    KVT_REQUEST_WAITING,   /* in the queue of a prefill or serve replica */
    KVT_REQUEST_PREFILL,   /* has pages; its prompt is being computed */
    KVT_REQUEST_SENDING,   /* prompt done, KV on its way to decode */
    KVT_REQUEST_READY,     /* KV is on the decode replica */
    KVT_REQUEST_RUNNING,   /* in a decode batch */
    KVT_REQUEST_RETRACTED, /* decode replica: pushed out to host memory */
    KVT_REQUEST_COMPLETED,
    KVT_REQUEST_REJECTED,
    KVT_REQUEST_ABORTED,
};

struct kvt_holding {
    int32_t pages;       /* all, shared ones included */
    int32_t shared;      /* pages of a cached prefix, held together with others */
    int32_t leaf;        /* last shared page (its path is the prefix), or KVT_NONE */
    int32_t first, last; /* own pages in the order of the text, linked; named pools only */
    int16_t fences;
    bool releasing; /* give back when fences is 0 */
};

struct kvt_request {
    int32_t input, output; /* tokens asked for */
    int32_t generated;     /* output tokens made, or sure to be made by the step in flight */
    int32_t context;       /* tokens whose KV is held */
    int64_t joined;        /* batch->planned when it joined */
    int32_t sequence;      /* of joining: the order of ties */
    int32_t target;        /* tokens that this prefill pass has to reach */
    int32_t computed;      /* of them so far, shared ones included */
    int32_t cached;        /* tokens found in the prefix cache, last pass */
    int32_t next, prev;    /* in the queue or the batch it is in */
    int32_t phase_next, phase_prev; /* batch.h: requests that need a page at the same step */
    int32_t sent;                   /* tokens handed to the link so far */
    int16_t replica;                /* prefill or serve; KVT_NONE before routing */
    int16_t decode_replica;
    int32_t preemptions;
    uint8_t state;           /* enum kvt_request_state */
    int16_t unfenced;        /* a fault: 1 + the replica where its fences do not count; 0: none */
    bool in_transfer;        /* between its first byte on the link and the acknowledgement */
    struct kvt_holding home; /* on `replica` */
    struct kvt_holding away; /* on `decode_replica` */
};

/* A queue of requests, linked through next and prev; a request is in one queue at most. */
struct kvt_queue {
    int32_t head, tail, count;
};

static inline void kvt_queue_init(struct kvt_queue *queue)
{
    *queue = (struct kvt_queue){KVT_NONE, KVT_NONE, 0};
}

static inline void kvt_queue_push(struct kvt_queue *queue, struct kvt_request *requests, int32_t r)
{
    requests[r].next = KVT_NONE;
    requests[r].prev = queue->tail;
    if (queue->tail != KVT_NONE)
        requests[queue->tail].next = r;
    else
        queue->head = r;
    queue->tail = r;
    queue->count++;
}

static inline void kvt_queue_push_front(struct kvt_queue *queue, struct kvt_request *requests,
                                        int32_t r)
{
    requests[r].prev = KVT_NONE;
    requests[r].next = queue->head;
    if (queue->head != KVT_NONE)
        requests[queue->head].prev = r;
    else
        queue->tail = r;
    queue->head = r;
    queue->count++;
}

static inline void kvt_queue_remove(struct kvt_queue *queue, struct kvt_request *requests,
                                    int32_t r)
{
    kvt_assert(queue->count > 0);
    int32_t next = requests[r].next, prev = requests[r].prev;
    if (prev != KVT_NONE)
        requests[prev].next = next;
    else
        queue->head = next;
    if (next != KVT_NONE)
        requests[next].prev = prev;
    else
        queue->tail = prev;
    queue->count--;
}

#endif
