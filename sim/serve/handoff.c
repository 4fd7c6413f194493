#include "sim/serve/handoff.h"

#include "sim/serve/router.h"

void kvt_core_transfer_begin(struct kvt_core *core, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    if (request->in_transfer)
        return;
    request->in_transfer = true;
    request->home.fences++;
    request->away.fences++;
}

void kvt_handoff_send(struct kvt_core *core, int32_t r, int32_t end, bool last)
{
    struct kvt_request *request = &core->requests[r];
    kvt_core_transfer_begin(core, r);
    int32_t tokens = end - request->sent;
    request->sent = end;
    kvt_core_note(core, KVT_DECIDE_SEND, r, request->replica, tokens);
    kvt_core_effect(core, KVT_EFFECT_SEND, request->replica, r, tokens);
    core->effects[core->effect_count - 1].last = last;
}

void kvt_core_transfer_done(struct kvt_core *core, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    struct kvt_replica *decode = &core->replicas[request->decode_replica];
    kvt_assert(request->in_transfer);
    kvt_core_note(core, KVT_DECIDE_RECV, r, decode->id, request->away.pages);
    if (request->state == KVT_REQUEST_SENDING) {
        request->state = KVT_REQUEST_READY;
        decode->expected--;
        kvt_queue_push(&decode->ready, core->requests, r);
        kvt_core_effect(core, KVT_EFFECT_WAKE, decode->id, r, 0);
    }
    kvt_replica_unfence(core, decode, r);
    kvt_core_effect(core, KVT_EFFECT_ACK, request->replica, r, 0);
}

void kvt_core_acknowledge(struct kvt_core *core, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    struct kvt_replica *prefill = &core->replicas[request->replica];
    kvt_core_note(core, KVT_DECIDE_ACK, r, prefill->id, request->home.pages);
    request->in_transfer = false;
    kvt_replica_unfence(core, prefill, r);
}
