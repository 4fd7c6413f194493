/*
 * A client goes away. The request leaves whatever queue or batch it is in; its pages go back at
 * once where nothing touches them, else when the step or the transfer in flight ends.
 */
#include "sim/serve/core.h"
#include "sim/serve/router.h"

/* Pages on a replica go back when their fences are gone. */
static void let_go(struct kvt_core *core, int32_t replica, int32_t r)
{
    struct kvt_replica *holder = &core->replicas[replica];
    if (kvt_replica_holding(holder, &core->requests[r])->pages > 0)
        kvt_replica_release(core, holder, r);
}

static void leave_prefill(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    if (replica->chunked == r)
        replica->chunked = KVT_NONE;
    let_go(core, replica->id, r);
}

static void leave_batch(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    kvt_replica_leave(core, replica, r);
    replica->blocked = false; /* the batch is smaller now */
    kvt_core_release_member(core, replica, r);
    kvt_core_effect(core, KVT_EFFECT_WAKE, replica->id, r, 0);
}

/* Whoever stood behind r may fit where r did not. */
static void leave_queue(struct kvt_core *core, struct kvt_replica *replica, struct kvt_queue *queue,
                        int32_t r)
{
    bool head = queue->head == r;
    kvt_queue_remove(queue, core->requests, r);
    if (!head)
        return;
    replica->blocked = false;
    kvt_replica_wake(core, replica, r);
}

void kvt_core_cancel(struct kvt_core *core, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    enum kvt_request_state state = (enum kvt_request_state)request->state;
    if (state == KVT_REQUEST_FUTURE || state >= KVT_REQUEST_COMPLETED)
        return; /* nothing to cancel: not here yet, or gone already */
    struct kvt_replica *home =
        request->replica != KVT_NONE ? &core->replicas[request->replica] : NULL;
    struct kvt_replica *away =
        request->decode_replica != KVT_NONE ? &core->replicas[request->decode_replica] : NULL;
    struct kvt_replica *runs = away != NULL ? away : home;
    kvt_assert(runs != NULL);
    int32_t generated =
        state == KVT_REQUEST_RUNNING ? kvt_batch_generated(&runs->batch, r) : request->generated;
    kvt_core_note(core, KVT_DECIDE_ABORT, r, runs->id, generated);
    bool decoded = state == KVT_REQUEST_RUNNING && runs->batch.committed > request->joined;
    request->state = KVT_REQUEST_ABORTED;
    switch (state) {
    case KVT_REQUEST_RESERVING:
        kvt_assert(away != NULL);
        leave_queue(core, away, &away->reserving, r);
        break;
    case KVT_REQUEST_WAITING:
        kvt_assert(home != NULL);
        leave_queue(core, home, &home->waiting, r);
        break;
    case KVT_REQUEST_PREFILL:
        kvt_assert(home != NULL);
        leave_prefill(core, home, r);
        break;
    case KVT_REQUEST_READY:
        kvt_assert(away != NULL);
        kvt_queue_remove(&away->ready, core->requests, r);
        break;
    case KVT_REQUEST_RETRACTED:
        kvt_assert(away != NULL);
        leave_queue(core, away, &away->retracted, r);
        break;
    case KVT_REQUEST_RUNNING:
        request->state = KVT_REQUEST_RUNNING; /* until it has left */
        leave_batch(core, runs, r);
        request->state = KVT_REQUEST_ABORTED;
        break;
    case KVT_REQUEST_SENDING: /* prefill's pages wait for the acknowledgement already */
    case KVT_REQUEST_FUTURE:
    case KVT_REQUEST_COMPLETED:
    case KVT_REQUEST_REJECTED:
    case KVT_REQUEST_ABORTED:
        break;
    }
    if (away != NULL && state != KVT_REQUEST_RUNNING && state != KVT_REQUEST_RETRACTED) {
        bool reserved = state == KVT_REQUEST_WAITING || state == KVT_REQUEST_PREFILL ||
                        state == KVT_REQUEST_SENDING;
        away->expected -= reserved;
        let_go(core, away->id, r);
    }
    kvt_core_leave(core, r, KVT_REQUEST_ABORTED);
    kvt_core_effect(core, KVT_EFFECT_ABORT, runs->id, r, decoded);
}
