/*
 * The decode role of a disaggregated fleet: pages are reserved before prefill starts, requests join
 * when their KV has arrived, and those that must make room wait in host memory and come back first.
 * Source: SGLang's disaggregation/decode.py; the vllm profile shares it.
 */
#include "sim/serve/scheduler.h"

#define CLIP_NEW_TOKENS 4096

/* Tokens that a newcomer may not have: room for everyone here to grow, or for one to finish. */
static int64_t reserved_tokens(const struct kvt_core *core, const struct kvt_replica *replica)
{
    const struct kvt_batch *batch = &replica->batch;
    int64_t each = replica->spec.reserved_decode_tokens;
    int64_t all = each * (batch->members.count + replica->ready.count + replica->expected);
    if (all >= CLIP_NEW_TOKENS)
        return all; /* no single request is given more than that */
    for (int32_t r = batch->members.head; r != KVT_NONE; r = core->requests[r].next) {
        const struct kvt_request *request = &core->requests[r];
        int64_t output = request->output < CLIP_NEW_TOKENS ? request->output : CLIP_NEW_TOKENS;
        int64_t single = output + request->input - batch->context;
        if (single > all)
            all = single;
    }
    return all;
}

static int64_t allocatable_tokens(const struct kvt_core *core, const struct kvt_replica *replica)
{
    return (int64_t)kvt_replica_available(replica) * replica->spec.page_tokens -
           reserved_tokens(core, replica);
}

/* Bring retracted requests back, oldest first. */
static void resume(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step)
{
    while (replica->retracted.count > 0 &&
           replica->batch.members.count < replica->spec.max_running) {
        int32_t r = replica->retracted.head;
        struct kvt_request *request = &core->requests[r];
        int32_t need = kvt_pages_for(replica, request->context);
        int64_t tokens =
            (int64_t)need * replica->spec.page_tokens + replica->spec.reserved_decode_tokens;
        bool alone = replica->batch.members.count + replica->ready.count + replica->expected == 0;
        if (alone ? need > kvt_replica_available(replica)
                  : tokens > allocatable_tokens(core, replica)) {
            replica->blocked = true;
            return;
        }
        kvt_queue_remove(&replica->retracted, core->requests, r);
        kvt_replica_take(core, replica, r, need);
        kvt_core_note(core, KVT_DECIDE_RESUME, r, replica->id, need);
        step->copied_tokens += request->context;
        kvt_replica_join(replica, r);
    }
}

static void reserve(struct kvt_core *core, struct kvt_replica *replica)
{
    while (replica->reserving.count > 0 && replica->retracted.count == 0) {
        int32_t r = replica->reserving.head;
        struct kvt_request *request = &core->requests[r];
        int64_t output = request->output < CLIP_NEW_TOKENS ? request->output : CLIP_NEW_TOKENS;
        int64_t room = allocatable_tokens(core, replica);
        int32_t tokens = request->input + request->generated; /* > input: computed again */
        int64_t fill = tokens + (int64_t)replica->spec.reserved_decode_tokens;
        int64_t single = request->input + output - replica->batch.context;
        bool many = replica->batch.members.count + replica->ready.count + replica->expected >=
                    2 * replica->spec.max_running;
        if (fill > room || single > room || many) {
            replica->blocked = true;
            return;
        }
        kvt_queue_remove(&replica->reserving, core->requests, r);
        int32_t need = kvt_pages_for(replica, tokens);
        kvt_replica_take(core, replica, r, need);
        kvt_core_note(core, KVT_DECIDE_RESERVE, r, replica->id, need);
        if (core->decode_only) {
            request->state = KVT_REQUEST_READY;
            request->context = request->input;
            kvt_queue_push(&replica->ready, core->requests, r);
            continue;
        }
        replica->expected++;
        request->state = KVT_REQUEST_WAITING;
        struct kvt_replica *prefill = &core->replicas[request->replica];
        kvt_queue_push(&prefill->waiting, core->requests, r);
        kvt_replica_wake(core, prefill, r);
    }
}

static void join_ready(struct kvt_core *core, struct kvt_replica *replica)
{
    while (replica->ready.count > 0 && replica->batch.members.count < replica->spec.max_running) {
        int32_t r = replica->ready.head;
        kvt_queue_remove(&replica->ready, core->requests, r);
        kvt_replica_join(replica, r);
    }
}

static bool plan(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step)
{
    struct kvt_batch *batch = &replica->batch;
    if (!replica->blocked) {
        resume(core, replica, step);
        reserve(core, replica);
    }
    join_ready(core, replica);
    /* The last member may go too where others hold the pages that it lacks: they can run instead.
     */
    bool others = replica->ready.count + replica->expected > 0;
    kvt_scheduler_retract(core, replica, others ? 0 : 1);
    if (batch->members.count == 0)
        join_ready(core, replica);
    if (batch->members.count == 0)
        return false;
    if (kvt_batch_demand(batch, 1) > kvt_replica_available(replica)) {
        replica->blocked = true;
        return false;
    }
    kvt_replica_add_decode(core, replica, step);
    return true;
}

const struct kvt_scheduler kvt_scheduler_decode = {plan, NULL, NULL};
