#include "sim/serve/replica.h"

#include "sim/serve/core.h"

#define RATIO_ONE         (INT64_C(1) << 32)
#define RATIO_FIRST       0.7  /* SGLang's SGLANG_INIT_NEW_TOKEN_RATIO */
#define RATIO_MIN_FACTOR  0.14 /* SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR */
#define RATIO_DECAY_STEPS 600  /* SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS */

static enum kvt_status step_init(struct kvt_step *step, struct kvt_arena *arena, int32_t running,
                                 struct kvt_err *err)
{
    size_t room = (size_t)running + 1;
    KVT_TRY(kvt_arena_get(arena, room, sizeof(struct kvt_chunk), "chunks", &step->chunks, err));
    return kvt_arena_get(arena, room, sizeof(int32_t), "joiners", &step->joiners, err);
}

enum kvt_status kvt_replica_init(struct kvt_replica *replica, struct kvt_arena *arena,
                                 struct kvt_core *core, int32_t id,
                                 const struct kvt_replica_spec *spec, int32_t *finish_position,
                                 int32_t *outgrow_position, struct kvt_err *err)
{
    *replica = (struct kvt_replica){.id = id, .spec = *spec, .chunked = KVT_NONE};
    bool named = spec->named || spec->prefix_cache;
    KVT_TRY(kvt_pages_init(&replica->pages, arena, spec->pages, named, spec->free_order, err));
    if (spec->prefix_cache)
        KVT_TRY(kvt_prefix_init(&replica->prefix, arena, &replica->pages, spec->page_tokens, err));
    KVT_TRY(kvt_batch_init(&replica->batch, arena, core->requests, spec->max_running,
                           spec->page_tokens, spec->window, finish_position, outgrow_position,
                           err));
    KVT_TRY(kvt_arena_get(arena, (size_t)spec->max_running + 1, sizeof(int32_t), "joiners",
                          &replica->fresh, err));
    for (int i = 0; i < KVT_STEPS_IN_FLIGHT; i++)
        KVT_TRY(step_init(&replica->steps[i], arena, spec->max_running, err));
    kvt_queue_init(&replica->waiting);
    kvt_queue_init(&replica->reserving);
    kvt_queue_init(&replica->ready);
    kvt_queue_init(&replica->retracted);
    kvt_queue_init(&replica->draining);
    double first = RATIO_FIRST * spec->conservativeness;
    replica->ratio_first = (int64_t)((first > 1 ? 1 : first) * (double)RATIO_ONE);
    replica->ratio_min = (int64_t)((double)replica->ratio_first * RATIO_MIN_FACTOR);
    replica->ratio_decay = (replica->ratio_first - replica->ratio_min) / RATIO_DECAY_STEPS;
    replica->ratio = replica->ratio_first;
    return KVT_OK;
}

/* Name the pages of a holding in the log, from its page number `from` of own pages on. */
static void note_pages(struct kvt_core *core, struct kvt_replica *replica, int32_t r,
                       enum kvt_decision_kind kind, int32_t first)
{
    for (int32_t page = first; page != KVT_NONE; page = replica->pages.next[page])
        kvt_core_note(core, kind, r, replica->id, page);
}

void kvt_replica_take(struct kvt_core *core, struct kvt_replica *replica, int32_t r, int32_t count)
{
    struct kvt_pages *pages = &replica->pages;
    if (pages->free < count) {
        int32_t evicted = count - pages->free;
        kvt_prefix_evict(&replica->prefix, evicted);
        if (replica->spec.zeroes)
            replica->freed_pages += evicted;
        kvt_core_note(core, KVT_DECIDE_EVICT, r, replica->id, evicted);
    }
    struct kvt_holding *holding = kvt_replica_holding(replica, &core->requests[r]);
    int32_t last = holding->last;
    kvt_pages_take(pages, holding, count, r);
    if (core->log.sink != NULL && pages->named)
        note_pages(core, replica, r, KVT_DECIDE_ALLOC,
                   last == KVT_NONE ? holding->first : pages->next[last]);
}

/* Whatever fences it. */
static void give_back(struct kvt_replica *replica, struct kvt_holding *holding)
{
    int16_t fences = holding->fences;
    holding->fences = 0;
    int32_t freed = holding->pages - holding->shared;
    kvt_pages_give_back(&replica->pages, holding);
    if (holding->shared > 0)
        freed += kvt_prefix_release(&replica->prefix, holding);
    if (replica->spec.zeroes)
        replica->freed_pages += freed;
    holding->fences = fences;
}

/* So many pages more, or fewer, are held by fences alone. */
static void count_fenced(const struct kvt_core *core, struct kvt_replica *replica, int32_t pages)
{
    double since = kvt_seconds_from_ticks(core->log.now - replica->fenced_at);
    replica->fenced_page_s += (double)replica->fenced_pages * since;
    replica->fenced_at = core->log.now;
    replica->fenced_pages += pages;
}

void kvt_replica_release(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    struct kvt_holding *holding = kvt_replica_holding(replica, &core->requests[r]);
    int32_t own = holding->pages - holding->shared;
    if (holding->fences > 0 && core->requests[r].unfenced != replica->id + 1) {
        if (!holding->releasing)
            count_fenced(core, replica, own);
        holding->releasing = true;
        return;
    }
    if (holding->releasing)
        count_fenced(core, replica, -own);
    holding->releasing = false;
    kvt_core_note(core, KVT_DECIDE_FREE, r, replica->id, holding->pages);
    give_back(replica, holding);
    if (replica->blocked) {
        replica->blocked = false;
        kvt_replica_wake(core, replica, r);
    }
}

void kvt_replica_forget(struct kvt_core *core, struct kvt_replica *replica)
{
    if (!replica->spec.prefix_cache)
        return;
    int32_t cached = replica->pages.cached;
    kvt_prefix_forget(&replica->prefix);
    if (cached == 0)
        return;
    replica->freed_pages += replica->spec.zeroes ? cached : 0;
    kvt_core_note(core, KVT_DECIDE_EVICT, KVT_NONE, replica->id, cached);
}

void kvt_replica_wake(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    if (!replica->blocked)
        kvt_core_effect(core, KVT_EFFECT_WAKE, replica->id, r, 0);
}

void kvt_replica_unfence(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    struct kvt_holding *holding = kvt_replica_holding(replica, &core->requests[r]);
    kvt_assert(holding->fences > 0);
    holding->fences--;
    if (holding->fences == 0 && holding->releasing)
        kvt_replica_release(core, replica, r);
}

static struct kvt_prefix_text text_of(const struct kvt_core *core, int32_t r)
{
    int64_t begin = core->hash_begin[r];
    return (struct kvt_prefix_text){.hashes = core->hashes + begin,
                                    .hash_count = (int32_t)(core->hash_begin[r + 1] - begin),
                                    .block_tokens = core->block_tokens};
}

int32_t kvt_replica_match(const struct kvt_core *core, const struct kvt_replica *replica, int32_t r,
                          int32_t *leaf)
{
    *leaf = KVT_NONE;
    if (!replica->spec.prefix_cache || core->hash_begin == NULL)
        return 0;
    struct kvt_prefix_text text = text_of(core, r);
    /* At least one token is computed: its output is what the next token is drawn from. */
    int32_t limit = kvt_prefix_nameable(&replica->prefix, &text, core->requests[r].input - 1);
    return kvt_prefix_match(&replica->prefix, &text, limit, leaf);
}

void kvt_replica_begin_prefill(struct kvt_core *core, struct kvt_replica *replica, int32_t r,
                               int32_t leaf, int32_t shared_pages)
{
    struct kvt_request *request = &core->requests[r];
    request->state = KVT_REQUEST_PREFILL;
    request->target = request->input + request->generated;
    request->cached = shared_pages * replica->spec.page_tokens;
    request->computed = request->cached;
    replica->prompt_tokens += request->target;
    replica->cached_tokens += request->cached;
    if (shared_pages == 0)
        return;
    kvt_prefix_lock(&replica->prefix, &request->home, leaf, shared_pages);
    kvt_core_note(core, KVT_DECIDE_SHARE, r, replica->id, shared_pages);
}

void kvt_replica_add_chunk(struct kvt_core *core, struct kvt_replica *replica,
                           struct kvt_step *step, int32_t r, int32_t tokens)
{
    struct kvt_request *request = &core->requests[r];
    kvt_assert(tokens > 0);
    kvt_assert(step->chunk_count <= replica->spec.max_running);
    int32_t need =
        kvt_pages_for(replica, (int64_t)request->computed + tokens) - request->home.pages;
    kvt_core_note(core, KVT_DECIDE_ADMIT, r, replica->id, tokens);
    if (need > 0)
        kvt_replica_take(core, replica, r, need);
    int64_t n = tokens, p = request->computed;
    step->prompt_tokens += n;
    step->pairs += n * p + n * (n + 1) / 2;
    request->computed += tokens;
    request->context = request->computed;
    request->home.fences++;
    bool last = request->computed == request->target;
    step->prompt_ends += last;
    step->chunks[step->chunk_count++] = (struct kvt_chunk){r, tokens, request->computed, last};
    if (last)
        request->generated++; /* sure now; out when the step commits */
}

void kvt_replica_join(struct kvt_replica *replica, int32_t r)
{
    replica->batch.requests[r].state = KVT_REQUEST_RUNNING;
    kvt_batch_join(&replica->batch, r);
    replica->fresh[replica->fresh_count++] = r;
}

void kvt_replica_join_ended(struct kvt_core *core, struct kvt_replica *replica)
{
    const struct kvt_step *ended = replica->unjoined;
    replica->unjoined = NULL;
    if (ended == NULL || replica->spec.role != KVT_ROLE_SERVE)
        return;
    for (int32_t i = 0; i < ended->chunk_count; i++) {
        struct kvt_request *request = &core->requests[ended->chunks[i].request];
        if (ended->chunks[i].last && request->generated < request->output &&
            request->state == KVT_REQUEST_PREFILL)
            kvt_replica_join(replica, ended->chunks[i].request);
    }
}

void kvt_replica_leave(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    struct kvt_holding *holding = kvt_replica_holding(replica, request);
    kvt_assert(request->state == KVT_REQUEST_RUNNING);
    if (replica->batch.committed <= request->joined) { /* it may still be among the fresh */
        int32_t kept = 0;
        for (int32_t i = 0; i < replica->fresh_count; i++)
            if (replica->fresh[i] != r)
                replica->fresh[kept++] = replica->fresh[i];
        replica->fresh_count = kept;
    }
    kvt_batch_leave(&replica->batch, r);
    int32_t pages = kvt_pages_for(replica, request->context);
    kvt_assert(!replica->pages.named || holding->pages == pages);
    holding->pages = pages;
}

void kvt_replica_preempt(struct kvt_core *core, struct kvt_replica *replica, int32_t r,
                         bool to_front)
{
    struct kvt_request *request = &core->requests[r];
    struct kvt_holding *holding = kvt_replica_holding(replica, request);
    bool decoded = false;
    if (request->state == KVT_REQUEST_RUNNING) {
        decoded = replica->batch.committed > request->joined;
        kvt_replica_leave(core, replica, r);
    }
    kvt_core_note(core, KVT_DECIDE_PREEMPT, r, replica->id, holding->pages);
    kvt_core_effect(core, KVT_EFFECT_PREEMPT, replica->id, r, decoded);
    request->preemptions++;
    replica->preemptions++;
    core->preemptions++;
    give_back(replica, holding); /* fences are of this replica's own steps: before any reuse */
    if (replica->spec.role == KVT_ROLE_DECODE) {
        request->state = KVT_REQUEST_RETRACTED;
        kvt_queue_push(&replica->retracted, core->requests, r);
        return;
    }
    request->state = KVT_REQUEST_WAITING;
    if (to_front)
        kvt_queue_push_front(&replica->waiting, core->requests, r);
    else
        kvt_queue_push(&replica->waiting, core->requests, r);
}

void kvt_replica_add_decode(struct kvt_core *core, struct kvt_replica *replica,
                            struct kvt_step *step)
{
    struct kvt_batch *batch = &replica->batch;
    int32_t *spare = step->joiners;
    step->joiners = replica->fresh;
    step->joiner_count = replica->fresh_count;
    replica->fresh = spare;
    replica->fresh_count = 0;
    step->decodes = batch->members.count;
    step->context = batch->context;
    step->windowed = batch->windowed;
    step->growing = batch->growing;
    if (replica->pages.named) {
        for (int32_t r = kvt_batch_first_needing(batch); r != KVT_NONE;
             r = core->requests[r].phase_next)
            kvt_replica_take(core, replica, r, 1);
    } else {
        kvt_pages_count_growth(&replica->pages, kvt_batch_demand(batch, 1));
    }
    kvt_batch_plan(batch, 1);
}
