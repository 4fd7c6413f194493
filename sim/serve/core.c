#include "sim/serve/core.h"

#include "sim/serve/handoff.h"
#include "sim/serve/router.h"
#include "sim/serve/scheduler.h"

#define X(name, text) &kvt_scheduler_##name,
static const struct kvt_scheduler *const schedulers[KVT_ENGINE_COUNT] = {KVT_ENGINES(X)};
#undef X

static const struct kvt_scheduler *scheduler_of(const struct kvt_replica *replica)
{
    return replica->spec.role == KVT_ROLE_DECODE ? &kvt_scheduler_decode
                                                 : schedulers[replica->spec.engine];
}

static enum kvt_status replicas_init(struct kvt_core *core, struct kvt_arena *arena,
                                     const struct kvt_core_spec *spec, struct kvt_err *err)
{
    size_t count = (size_t)core->request_count;
    int32_t *finish = NULL, *outgrow = NULL, window = 0, batch_max = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (spec->roles[role] == NULL)
            continue;
        window = spec->roles[role]->window > window ? spec->roles[role]->window : window;
        if (spec->roles[role]->max_running > batch_max)
            batch_max = spec->roles[role]->max_running;
    }
    KVT_TRY(kvt_arena_get(arena, count, sizeof *finish, "heap positions", &finish, err));
    if (window > 0)
        KVT_TRY(kvt_arena_get(arena, count, sizeof *outgrow, "heap positions", &outgrow, err));
    core->effect_capacity = 6 * batch_max + 256;
    KVT_TRY(kvt_arena_get(arena, (size_t)core->effect_capacity, sizeof *core->effects, "effects",
                          &core->effects, err));
    int32_t id = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        core->pools[role] = (struct kvt_pool){.first = id, .router = spec->routers[role]};
        if (spec->roles[role] == NULL)
            continue;
        core->pools[role].count = spec->replicas[role];
        for (int32_t i = 0; i < spec->replicas[role]; i++, id++)
            KVT_TRY(kvt_replica_init(&core->replicas[id], arena, core, id, spec->roles[role],
                                     finish, outgrow, err));
    }
    return KVT_OK;
}

enum kvt_status kvt_core_init(struct kvt_core *core, struct kvt_arena *arena,
                              const struct kvt_core_spec *spec, struct kvt_err *err)
{
    *core = (struct kvt_core){
        .request_count = spec->request_count,
        .log = {.digest = KVT_DIGEST_START},
        .tenant = spec->tenant,
        .tenants = spec->tenants > 0 ? spec->tenants : 1,
        .hash_begin = spec->hash_begin,
        .hashes = spec->hashes,
        .block_tokens = spec->block_tokens,
        .disaggregated = spec->roles[KVT_ROLE_SERVE] == NULL,
        .decode_only = spec->decode_only,
        .prefill_only = spec->prefill_only,
    };
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        core->replica_count += spec->roles[role] != NULL ? spec->replicas[role] : 0;
    kvt_assert(core->replica_count > 0);
    if (core->replica_count > INT16_MAX)
        return kvt_err_set(err, KVT_ELIMIT, "want at most %d replicas in all, got %d", INT16_MAX,
                           core->replica_count);
    KVT_TRY(kvt_arena_get(arena, (size_t)spec->request_count, sizeof *core->requests, "requests",
                          &core->requests, err));
    KVT_TRY(kvt_arena_get(arena, (size_t)core->replica_count, sizeof *core->replicas, "replicas",
                          &core->replicas, err));
    KVT_TRY(kvt_arena_get(arena, (size_t)core->tenants, sizeof *core->counts, "tenants",
                          &core->counts, err));
    for (int32_t r = 0; r < spec->request_count; r++) {
        struct kvt_request *request = &core->requests[r];
        request->input = spec->input[r];
        request->output = spec->output[r];
        request->replica = request->decode_replica = KVT_NONE;
        request->home.leaf = request->home.first = request->home.last = KVT_NONE;
        request->away = request->home;
        if (request->output > core->output_max)
            core->output_max = request->output;
    }
    return replicas_init(core, arena, spec, err);
}

static struct kvt_counts *counts_of(struct kvt_core *core, int32_t r)
{
    return &core->counts[core->tenant != NULL ? core->tenant[r] : 0];
}

/* Tokens that the first replica of a role needs to have in all to serve r, and has. */
static bool fits_role(const struct kvt_core *core, enum kvt_role role, const struct kvt_request *r,
                      int64_t *need, int64_t *have)
{
    const struct kvt_replica *replica = &core->replicas[core->pools[role].first];
    int64_t page = replica->spec.page_tokens;
    int64_t output = role == KVT_ROLE_PREFILL ? 1 : r->output;
    *have = (int64_t)replica->pages.total * page;
    *need = r->input + output; /* the most it will ever hold, plus what admission wants beside it */
    if (role == KVT_ROLE_DECODE) {
        int64_t fill = r->input + (int64_t)replica->spec.reserved_decode_tokens;
        *need = fill > *need ? fill : *need;
    }
    if (scheduler_of(replica)->spare != NULL)
        *need += scheduler_of(replica)->spare(page);
    *need = (*need + page - 1) / page * page;
    if (r->input + r->output > replica->spec.max_model_len) {
        *need = r->input + r->output;
        *have = replica->spec.max_model_len;
    }
    return *need <= *have;
}

bool kvt_core_can_serve(const struct kvt_core *core, int32_t r, int64_t *need, int64_t *have)
{
    const struct kvt_request *request = &core->requests[r];
    if (!core->disaggregated)
        return fits_role(core, KVT_ROLE_SERVE, request, need, have);
    if (!core->decode_only && !fits_role(core, KVT_ROLE_PREFILL, request, need, have))
        return false;
    return core->prefill_only || fits_role(core, KVT_ROLE_DECODE, request, need, have);
}

void kvt_core_arrive(struct kvt_core *core, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    kvt_assert(request->state == KVT_REQUEST_FUTURE);
    counts_of(core, r)->arrived++;
    kvt_core_note(core, KVT_DECIDE_ARRIVE, r, KVT_NONE, request->input);
    int64_t need, have;
    if (!kvt_core_can_serve(core, r, &need, &have)) {
        request->state = KVT_REQUEST_REJECTED;
        counts_of(core, r)->rejected++;
        kvt_core_note(core, KVT_DECIDE_REJECT, r, KVT_NONE, need);
        kvt_core_effect(core, KVT_EFFECT_REJECT, KVT_NONE, r, 0);
        return;
    }
    core->live++;
    if (core->disaggregated && !core->prefill_only) {
        if (!core->decode_only)
            request->replica = (int16_t)kvt_router_choose(core, KVT_ROLE_PREFILL, r);
        request->decode_replica = (int16_t)kvt_router_choose(core, KVT_ROLE_DECODE, r);
        struct kvt_replica *decode = &core->replicas[request->decode_replica];
        request->state = KVT_REQUEST_RESERVING;
        kvt_queue_push(&decode->reserving, core->requests, r);
        kvt_replica_wake(core, decode, r);
        return;
    }
    enum kvt_role role = core->disaggregated ? KVT_ROLE_PREFILL : KVT_ROLE_SERVE;
    request->replica = (int16_t)kvt_router_choose(core, role, r);
    struct kvt_replica *replica = &core->replicas[request->replica];
    request->state = KVT_REQUEST_WAITING;
    kvt_queue_push(&replica->waiting, core->requests, r);
    kvt_replica_wake(core, replica, r);
}

static int32_t steps_allowed(const struct kvt_replica *replica)
{
    return replica->spec.overlap ? 2 : 1;
}

const struct kvt_step *kvt_core_plan(struct kvt_core *core, int32_t id)
{
    struct kvt_replica *replica = &core->replicas[id];
    kvt_assert(replica->in_flight < steps_allowed(replica));
    struct kvt_step *step =
        &replica->steps[(replica->oldest + replica->in_flight) % KVT_STEPS_IN_FLIGHT];
    struct kvt_chunk *chunks = step->chunks;
    int32_t *joiners = step->joiners;
    *step = (struct kvt_step){.chunks = chunks, .joiners = joiners};
    if (!scheduler_of(replica)->plan(core, replica, step)) {
        /* Nothing to do although someone waits: whoever gives something back has to wake us. */
        if (replica->waiting.count + replica->reserving.count + replica->retracted.count > 0)
            replica->blocked = true;
        return NULL;
    }
    step->freed_tokens = replica->freed_pages * replica->spec.page_tokens;
    replica->freed_pages = 0;
    replica->in_flight++;
    replica->unjoined = step;
    return step;
}

int64_t kvt_core_run_limit(const struct kvt_core *core, int32_t id)
{
    const struct kvt_replica *replica = &core->replicas[id];
    const struct kvt_batch *batch = &replica->batch;
    kvt_assert(replica->in_flight > 0);
    const struct kvt_step *step = &replica->steps[replica->oldest];
    const struct kvt_step *ahead = &replica->steps[1 - replica->oldest];
    if (step->decodes == 0 || step->chunk_count > 0 || step->growing != batch->growing ||
        step->decodes != batch->members.count || replica->chunked != KVT_NONE ||
        step->copied_tokens > 0 || step->freed_tokens > 0)
        return 1;
    /* With overlap the step after this one is planned already: it must be the same again. */
    if (steps_allowed(replica) == 2 &&
        (replica->in_flight < 2 || ahead->chunk_count > 0 || ahead->decodes != step->decodes ||
         ahead->joiner_count > 0 || ahead->context != step->context + step->decodes ||
         ahead->growing != step->growing || ahead->copied_tokens > 0 || ahead->freed_tokens > 0))
        return 1;
    bool queued = replica->waiting.count + replica->reserving.count + replica->retracted.count > 0;
    if (queued && !replica->blocked)
        return 1; /* who is ready has joined in the plan just made, unless the batch is full */
    int64_t limit = kvt_batch_steps_to_finish(batch);
    int64_t regular = kvt_batch_regular_steps(batch);
    if (limit <= 1)
        return 1;
    int64_t more = limit - 1 < regular ? limit - 1 : regular;
    int64_t pages = replica->pages.named ? 0 : replica->pages.free;
    return 1 + kvt_batch_steps_within(batch, pages, more);
}

void kvt_core_extend(struct kvt_core *core, int32_t id, int64_t steps)
{
    struct kvt_replica *replica = &core->replicas[id];
    if (steps == 0)
        return;
    if (!replica->pages.named)
        kvt_pages_count_growth(&replica->pages, kvt_batch_demand(&replica->batch, steps));
    kvt_batch_plan(&replica->batch, steps);
    if (scheduler_of(replica)->repeat != NULL)
        scheduler_of(replica)->repeat(replica, steps);
    if (replica->in_flight < 2)
        return;
    struct kvt_step *ahead = &replica->steps[1 - replica->oldest];
    ahead->context += steps * ahead->decodes;
    ahead->windowed += steps * ahead->growing;
}

void kvt_core_settle(struct kvt_core *core, int32_t id, int64_t steps)
{
    struct kvt_replica *replica = &core->replicas[id];
    struct kvt_step *step = &replica->steps[replica->oldest];
    kvt_assert(replica->in_flight > 0);
    kvt_assert(steps < kvt_batch_steps_to_finish(&replica->batch));
    kvt_core_extend(core, id, steps);
    kvt_batch_commit(&replica->batch, steps);
    step->joiner_count = 0; /* their first step is among those that have ended */
}

void kvt_core_leave(struct kvt_core *core, int32_t r, enum kvt_request_state state)
{
    struct kvt_request *request = &core->requests[r];
    request->state = (uint8_t)state;
    core->live--;
    kvt_assert(core->live >= 0);
    if (state == KVT_REQUEST_COMPLETED)
        counts_of(core, r)->completed++;
    else
        counts_of(core, r)->aborted++;
    if (request->replica != KVT_NONE)
        kvt_router_done(core, request->replica, r);
    if (request->decode_replica != KVT_NONE)
        kvt_router_done(core, request->decode_replica, r);
}

void kvt_core_release_member(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    if (replica->batch.planned == replica->batch.committed ||
        core->requests[r].unfenced == replica->id + 1) {
        kvt_replica_release(core, replica, r);
        return;
    }
    core->requests[r].joined = replica->batch.planned;
    kvt_queue_push(&replica->draining, core->requests, r);
}

static void finish(struct kvt_core *core, struct kvt_replica *replica, int32_t r, bool decoded)
{
    kvt_core_note(core, KVT_DECIDE_FINISH, r, replica->id, core->requests[r].output);
    kvt_core_effect(core, KVT_EFFECT_FINISH, replica->id, r, decoded);
    kvt_core_leave(core, r, KVT_REQUEST_COMPLETED);
}

static void commit_decode(struct kvt_core *core, struct kvt_replica *replica, int64_t steps)
{
    struct kvt_batch *batch = &replica->batch;
    kvt_batch_commit(batch, steps);
    while (replica->draining.count > 0 &&
           core->requests[replica->draining.head].joined <= batch->committed) {
        int32_t r = replica->draining.head;
        kvt_queue_remove(&replica->draining, core->requests, r);
        kvt_replica_release(core, replica, r);
    }
    for (int32_t r = kvt_batch_finished(batch); r != KVT_NONE; r = kvt_batch_finished(batch)) {
        kvt_replica_leave(core, replica, r);
        kvt_assert(core->requests[r].generated == core->requests[r].output);
        finish(core, replica, r, true);
        kvt_core_release_member(core, replica, r);
    }
}

static void prompt_ended(struct kvt_core *core, struct kvt_replica *replica, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    bool first = request->preemptions == 0 || request->generated == 1;
    if (first)
        kvt_core_note(core, KVT_DECIDE_FIRST, r, replica->id, request->target);
    kvt_core_effect(core, first ? KVT_EFFECT_FIRST : KVT_EFFECT_TOKEN, replica->id, r, 0);
    bool handed_off = replica->spec.role == KVT_ROLE_PREFILL && !core->prefill_only;
    if (handed_off && request->generated < request->output) {
        request->state = KVT_REQUEST_SENDING;
        request->context = request->target;
        kvt_replica_release(core, replica, r); /* when the acknowledgement lifts the fence */
        return;
    }
    if (request->generated < request->output)
        return; /* serve: it joins the batch at the next plan */
    if (handed_off)
        core->replicas[request->decode_replica].expected--;
    finish(core, replica, r, false);
    kvt_replica_release(core, replica, r);
    if (handed_off)
        kvt_replica_release(core, &core->replicas[request->decode_replica], r);
}

static void commit_chunk(struct kvt_core *core, struct kvt_replica *replica,
                         const struct kvt_chunk *chunk)
{
    int32_t r = chunk->request;
    struct kvt_request *request = &core->requests[r];
    bool gone = request->state == KVT_REQUEST_ABORTED;
    bool preempted = request->state == KVT_REQUEST_WAITING;
    if (!gone && !preempted && replica->spec.prefix_cache && core->hash_begin != NULL) {
        int64_t begin = core->hash_begin[r];
        struct kvt_prefix_text text = {
            core->hashes + begin, (int32_t)(core->hash_begin[r + 1] - begin), core->block_tokens};
        int32_t end = chunk->end < request->input ? chunk->end : request->input;
        kvt_prefix_insert(&replica->prefix, &request->home, &text,
                          kvt_prefix_nameable(&replica->prefix, &text, end));
    }
    if (!gone && replica->spec.role == KVT_ROLE_PREFILL && !core->prefill_only)
        kvt_handoff_send(core, r, chunk->end, chunk->last);
    if (!gone && chunk->last)
        prompt_ended(core, replica, r);
    kvt_replica_unfence(core, replica, r);
}

void kvt_core_commit(struct kvt_core *core, int32_t id, int64_t steps)
{
    struct kvt_replica *replica = &core->replicas[id];
    kvt_assert(replica->in_flight > 0);
    kvt_assert(steps > 0);
    const struct kvt_step *step = &replica->steps[replica->oldest];
    kvt_assert(steps == 1 || step->chunk_count == 0);
    if (step->decodes > 0)
        commit_decode(core, replica, steps);
    for (int32_t i = 0; i < step->chunk_count; i++)
        commit_chunk(core, replica, &step->chunks[i]);
    replica->oldest = 1 - replica->oldest;
    replica->in_flight--;
    if (kvt_paranoid)
        kvt_core_validate(core);
}
