/*
 * A guard does not trust what a request holds: its KV is made again, or sent again.
 */
#include "sim/serve/core.h"

static int32_t leave(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    bool decoded = replica->batch.committed > request->joined;
    kvt_replica_leave(core, replica, r);
    kvt_core_note(core, KVT_DECIDE_PREEMPT, r, replica->id, request->away.pages);
    kvt_core_effect(core, KVT_EFFECT_PREEMPT, replica->id, r, decoded);
    /* Steps in flight that know r run before any later one that gets these pages. */
    kvt_replica_release(core, replica, r);
    replica->blocked = false; /* the batch is smaller now */
    kvt_core_effect(core, KVT_EFFECT_WAKE, replica->id, r, 0);
    return request->input + request->generated;
}

/* Whether prefill can hold what it would have to compute. */
static bool fits_prefill(const struct kvt_core *core, const struct kvt_request *request,
                         int64_t tokens)
{
    const struct kvt_replica *prefill = &core->replicas[request->replica];
    return kvt_pages_for(prefill, tokens) + 2 <= prefill->pages.total;
}

int32_t kvt_core_recompute(struct kvt_core *core, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    if (request->state != KVT_REQUEST_RUNNING)
        return 0;
    if (request->decode_replica == KVT_NONE) {
        struct kvt_replica *replica = &core->replicas[request->replica];
        kvt_replica_preempt(core, replica, r, true);
        replica->blocked = false;
        kvt_core_effect(core, KVT_EFFECT_WAKE, replica->id, r, 0);
        return request->input + request->generated;
    }
    struct kvt_replica *decode = &core->replicas[request->decode_replica];
    int32_t generated = kvt_batch_generated(&decode->batch, r);
    if (core->decode_only || request->in_transfer || request->home.pages > 0 ||
        !fits_prefill(core, request, request->input + generated))
        return 0;
    int32_t tokens = leave(core, decode, r);
    request->preemptions++;
    decode->preemptions++;
    core->preemptions++;
    request->sent = request->computed = request->context = 0;
    request->state = KVT_REQUEST_RESERVING;
    kvt_queue_push_front(&decode->reserving, core->requests, r);
    return tokens;
}

int32_t kvt_core_refetch(struct kvt_core *core, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    if (request->state != KVT_REQUEST_RUNNING || request->decode_replica == KVT_NONE ||
        !request->in_transfer || request->away.fences > 0)
        return 0;
    struct kvt_replica *decode = &core->replicas[request->decode_replica];
    int32_t tokens = request->target;
    if (kvt_batch_generated(&decode->batch, r) > tokens - request->input + 1)
        return 0; /* it has decoded since: the sender lacks that */
    leave(core, decode, r);
    request->context = tokens;
    kvt_replica_take(core, decode, r, kvt_pages_for(decode, tokens));
    request->state = KVT_REQUEST_SENDING;
    decode->expected++;
    request->away.fences++;
    kvt_core_note(core, KVT_DECIDE_SEND, r, request->replica, tokens);
    kvt_core_effect(core, KVT_EFFECT_SEND, request->replica, r, tokens);
    core->effects[core->effect_count - 1].last = true;
    return tokens;
}
