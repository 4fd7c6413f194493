/*
 * vLLM's scheduler (V1): one token budget per step; running requests first, then waiting ones, so
 * that chunks of prompts ride along with decode; pages are taken as they are needed, and when they
 * run out the latest request is preempted and computed again.
 * Source: vllm/v1/core/sched/scheduler.py.
 */
#include "sim/serve/scheduler.h"

/* Preempt from the end of the running list until the next decode fits. */
static bool make_room(struct kvt_core *core, struct kvt_replica *replica)
{
    bool preempted = false;
    while (kvt_batch_demand(&replica->batch, 1) > kvt_replica_available(replica)) {
        int32_t victim =
            replica->chunked != KVT_NONE ? replica->chunked : replica->batch.members.tail;
        replica->chunked = KVT_NONE;
        kvt_replica_preempt(core, replica, victim, true);
        preempted = true;
    }
    if (preempted)
        replica->blocked = false;
    return preempted;
}

/* False when its pages do not fit: it is then preempted itself. */
static bool continue_chunked(struct kvt_core *core, struct kvt_replica *replica,
                             struct kvt_step *step, int64_t *budget)
{
    int32_t r = replica->chunked;
    const struct kvt_request *request = &core->requests[r];
    int64_t left = request->target - request->computed;
    int64_t tokens = left < *budget ? left : *budget;
    if (tokens <= 0)
        return true;
    int32_t need = kvt_pages_for(replica, request->computed + tokens) - request->home.pages;
    if (need > kvt_replica_available(replica)) {
        if (replica->spec.role == KVT_ROLE_PREFILL) { /* pieces of it may be on the link: wait */
            replica->blocked = true;
            return true;
        }
        replica->chunked = KVT_NONE;
        kvt_replica_preempt(core, replica, r, true);
        replica->blocked = true; /* it holds nothing any more, so others must give back first */
        return false;
    }
    kvt_replica_add_chunk(core, replica, step, r, (int32_t)tokens);
    *budget -= tokens;
    if (tokens == left)
        replica->chunked = KVT_NONE;
    return true;
}

/* False when no more may be admitted. */
static bool admit_head(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step,
                       int64_t *budget)
{
    int32_t r = replica->waiting.head;
    struct kvt_request *request = &core->requests[r];
    if (replica->batch.members.count + step->chunk_count >= replica->spec.max_running) {
        replica->blocked = true;
        return false;
    }
    int32_t leaf;
    int32_t shared = kvt_replica_match(core, replica, r, &leaf);
    int32_t pinned = shared > 0 ? kvt_prefix_unlocked(&replica->prefix, leaf) : 0;
    int64_t known = (int64_t)shared * replica->spec.page_tokens;
    int64_t extend = request->input + request->generated - known;
    int64_t tokens = extend < *budget ? extend : *budget;
    if (kvt_pages_for(replica, known + tokens) - shared > kvt_replica_available(replica) - pinned) {
        replica->blocked = true;
        return false;
    }
    kvt_queue_remove(&replica->waiting, core->requests, r);
    kvt_replica_begin_prefill(core, replica, r, leaf, shared);
    kvt_replica_add_chunk(core, replica, step, r, (int32_t)tokens);
    *budget -= tokens;
    if (tokens < extend)
        replica->chunked = r;
    return tokens == extend;
}

static bool plan(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step)
{
    kvt_replica_join_ended(core, replica);
    int64_t budget = replica->spec.batch_tokens;
    bool preempted = make_room(core, replica);
    if (replica->batch.members.count > 0) {
        kvt_replica_add_decode(core, replica, step);
        budget -= step->decodes;
    }
    if (replica->chunked != KVT_NONE && !continue_chunked(core, replica, step, &budget))
        preempted = true;
    while (!preempted && !replica->blocked && replica->chunked == KVT_NONE && budget > 0 &&
           replica->waiting.count > 0)
        if (!admit_head(core, replica, step, &budget))
            break;
    return step->decodes > 0 || step->chunk_count > 0;
}

const struct kvt_scheduler kvt_scheduler_VLLM = {plan, NULL, NULL};
