/*
 * SGLang's scheduler: prompts first, never mixed with decode; admission against the growth that the
 * running requests are expected to show; retraction when the expectation was too low.
 * Source: schedule_policy.py (PrefillAdder), schedule_batch.py (retract_decode), scheduler.py.
 */
#include "sim/serve/scheduler.h"

#define CLIP_NEW_TOKENS 4096 /* growth beyond this is not reserved at admission */
#define RETRACT_STEPS   20   /* steps that the ratio after a retraction looks ahead */

/* Tokens that the running requests are expected to add: their outputs left, times the ratio. */
static int64_t expected_growth(const struct kvt_core *core, const struct kvt_replica *replica)
{
    const struct kvt_batch *batch = &replica->batch;
    int64_t left = batch->remaining;
    if (core->output_max > CLIP_NEW_TOKENS) {
        left = 0;
        for (int32_t r = batch->members.head; r != KVT_NONE; r = core->requests[r].next) {
            const struct kvt_request *request = &core->requests[r];
            int64_t own = /* as `remaining` counts it */
                request->joined + request->output - request->generated - batch->committed;
            left += own < CLIP_NEW_TOKENS ? own : CLIP_NEW_TOKENS;
        }
    }
    return (int64_t)((kvt_i128)left * replica->ratio >> 32);
}

struct budget {     /* what the step may still take, in tokens */
    int64_t total;  /* of the pool, growth of everyone allowed for */
    int64_t chunk;  /* of chunk_tokens */
    int64_t prompt; /* of batch_tokens */
};

static void budget_spend(struct budget *budget, const struct kvt_replica *replica, int64_t tokens,
                         int64_t growth)
{
    int64_t whole = (int64_t)kvt_pages_for(replica, tokens) * replica->spec.page_tokens;
    budget->total -= whole + growth;
    budget->chunk -= whole;
    budget->prompt -= whole;
}

static int64_t growth_of(const struct kvt_replica *replica, const struct kvt_request *request)
{
    if (replica->spec.role == KVT_ROLE_PREFILL)
        return 1;
    int64_t left = request->output - request->generated;
    return left < CLIP_NEW_TOKENS ? left : CLIP_NEW_TOKENS;
}

/* Go on with the prompt under way. False when it takes all that the step may have. */
static bool continue_chunked(struct kvt_core *core, struct kvt_replica *replica,
                             struct kvt_step *step, struct budget *budget)
{
    int32_t r = replica->chunked;
    const struct kvt_request *request = &core->requests[r];
    int64_t left = request->target - request->computed;
    int64_t room = (int64_t)(kvt_replica_available(replica) + request->home.pages) *
                       replica->spec.page_tokens -
                   request->computed;
    int64_t tokens = left < budget->chunk ? left : budget->chunk;
    if (tokens > room)
        tokens = room / replica->spec.page_tokens * replica->spec.page_tokens;
    if (tokens <= 0) {
        replica->blocked = true;
        return false;
    }
    kvt_replica_add_chunk(core, replica, step, r, (int32_t)tokens);
    bool ended = tokens == left;
    budget_spend(budget, replica, tokens, ended ? growth_of(replica, request) : 0);
    if (ended)
        replica->chunked = KVT_NONE;
    return ended;
}

/* Admit the head of the queue, whole or its first chunk. False when no more may be admitted. */
static bool admit_head(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step,
                       struct budget *budget)
{
    int32_t r = replica->waiting.head;
    struct kvt_request *request = &core->requests[r];
    int64_t page = replica->spec.page_tokens;
    int32_t leaf;
    int32_t shared = kvt_replica_match(core, replica, r, &leaf);
    int64_t pinned = shared > 0 ? kvt_prefix_unlocked(&replica->prefix, leaf) * page : 0;
    int64_t extend = request->input + request->generated - shared * page;
    int64_t growth = growth_of(replica, request);
    if (extend + growth + page >= budget->total - pinned) {
        replica->blocked = true;
        return false;
    }
    bool whole = extend <= budget->chunk;
    int64_t tokens = whole ? extend : budget->chunk / page * page;
    if (tokens <= 0)
        return false;
    kvt_queue_remove(&replica->waiting, core->requests, r);
    kvt_replica_begin_prefill(core, replica, r, leaf, shared);
    budget->total -= pinned;
    kvt_replica_add_chunk(core, replica, step, r, (int32_t)tokens);
    budget_spend(budget, replica, tokens, whole ? growth : 0);
    if (!whole)
        replica->chunked = r;
    return whole;
}

static void admit(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step)
{
    if (replica->chunked == KVT_NONE && (replica->waiting.count == 0 || replica->blocked))
        return;
    struct budget budget = {
        .total = (int64_t)kvt_replica_available(replica) * replica->spec.page_tokens -
                 expected_growth(core, replica),
        .chunk = replica->spec.chunk_tokens,
        .prompt = replica->spec.batch_tokens,
    };
    if (replica->chunked != KVT_NONE && !continue_chunked(core, replica, step, &budget))
        return;
    while (replica->waiting.count > 0 && budget.chunk > 0 && budget.prompt > 0) {
        if (replica->batch.members.count + step->chunk_count >= replica->spec.max_running) {
            replica->blocked = true;
            return;
        }
        if (!admit_head(core, replica, step, &budget))
            return;
    }
}

/* Who is retracted first: the shortest output, then the longest input, then the latest. */
static int32_t retraction_victim(const struct kvt_core *core, const struct kvt_batch *batch)
{
    int32_t victim = KVT_NONE, victim_out = 0;
    for (int32_t r = batch->members.head; r != KVT_NONE; r = core->requests[r].next) {
        int32_t out = kvt_batch_generated(batch, r);
        if (victim == KVT_NONE || out < victim_out ||
            (out == victim_out && core->requests[r].input >= core->requests[victim].input)) {
            victim = r;
            victim_out = out;
        }
    }
    return victim;
}

void kvt_scheduler_retract(struct kvt_core *core, struct kvt_replica *replica, int32_t keep)
{
    struct kvt_batch *batch = &replica->batch;
    bool retracted = false;
    while (kvt_batch_demand(batch, 1) > kvt_replica_available(replica) &&
           batch->members.count > keep) {
        kvt_replica_preempt(core, replica, retraction_victim(core, batch), false);
        retracted = true;
    }
    if (!retracted)
        return;
    replica->blocked = false; /* the batch is smaller now */
    int64_t out = 0, asked = 1;
    for (int32_t r = batch->members.head; r != KVT_NONE; r = core->requests[r].next) {
        out += kvt_batch_generated(batch, r) + RETRACT_STEPS;
        asked += core->requests[r].output;
    }
    replica->ratio = out >= asked ? INT64_C(1) << 32 : (out << 32) / asked;
}

/* The ratio of `steps` decode steps later. */
static void decay(struct kvt_replica *replica, int64_t steps)
{
    int64_t room = replica->ratio - replica->ratio_min;
    if (room <= 0)
        return;
    bool spent = steps > room / (replica->ratio_decay > 0 ? replica->ratio_decay : 1);
    replica->ratio = spent ? replica->ratio_min : replica->ratio - steps * replica->ratio_decay;
}

static bool plan(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step)
{
    kvt_replica_join_ended(core, replica);
    admit(core, replica, step);
    if (step->chunk_count > 0)
        return true;
    if (replica->batch.members.count == 0) {
        if (replica->waiting.count == 0 && replica->chunked == KVT_NONE)
            replica->ratio = replica->ratio_first;
        return false;
    }
    kvt_scheduler_retract(core, replica, 1);
    if (kvt_batch_demand(&replica->batch, 1) > kvt_replica_available(replica)) {
        replica->blocked = true; /* pages of the step in flight will come back */
        return false;
    }
    kvt_replica_add_decode(core, replica, step);
    decay(replica, 1);
    return true;
}

/* A page, and a token for the comparison: the same for prompts, for outputs before a retraction
 * and for outputs after it. */
static int64_t spare(int64_t page_tokens)
{
    return page_tokens + 1;
}

const struct kvt_scheduler kvt_scheduler_SGLANG = {plan, decay, spare};
