#include "sim/des/observe.h"

enum kvt_status kvt_observer_init(struct kvt_observer *observer, struct kvt_arena *arena,
                                  const kvt_ticks *arrival, int32_t requests, int32_t replicas,
                                  int32_t series_points, kvt_ticks warmup, struct kvt_err *err)
{
    *observer = (struct kvt_observer){.arrival = arrival, .warmup = warmup};
    size_t rows = (size_t)requests, count = (size_t)replicas;
    const char *what = "token times";
    KVT_TRY(kvt_arena_get(arena, rows, sizeof(kvt_ticks), what, &observer->first_token, err));
    KVT_TRY(kvt_arena_get(arena, rows, sizeof(kvt_ticks), what, &observer->finish, err));
    KVT_TRY(kvt_arena_get(arena, rows, sizeof(kvt_ticks), what, &observer->last_token, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *observer->gaps, what, &observer->gaps, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *observer->series, what, &observer->series, err));
    for (size_t r = 0; r < rows; r++)
        observer->first_token[r] = observer->finish[r] = KVT_NEVER;
    KVT_TRY(
        kvt_arena_get(arena, count, sizeof *observer->preempted, what, &observer->preempted, err));
    for (size_t i = 0; i < count; i++) {
        KVT_TRY(kvt_series_init(&observer->series[i], arena, series_points, err));
        KVT_TRY(kvt_count_series_init(&observer->preempted[i], arena, series_points, err));
    }
    return kvt_histogram_init(&observer->itl, arena, err);
}

static bool is_measured(const struct kvt_observer *observer, int32_t r)
{
    return observer->arrival[r] >= observer->warmup;
}

/* The gaps of steps 2..k of a run, for `members` members: each gap is a step's own time. */
static void observe_steady(struct kvt_observer *observer, const struct kvt_costs *costs,
                           const struct kvt_run *run, int64_t members)
{
    const struct kvt_cost_row *row = &costs->rows[run->decodes];
    int64_t context = run->context + run->decodes;
    int64_t windowed = run->windowed + run->growing;
    int64_t left = run->steps - 1;
    int32_t segment = 0;
    while (left > 0) {
        while (segment + 1 < row->segments && row->start[segment + 1] <= context)
            segment++;
        int64_t terms = left;
        if (segment + 1 < row->segments) {
            int64_t inside = row->start[segment + 1] - context;
            int64_t reach = (inside + run->decodes - 1) / run->decodes;
            terms = reach < left ? reach : left;
        }
        kvt_ticks first = kvt_costs_decode(costs, run->decodes, context, windowed);
        int64_t slope = row->slope[segment] * run->decodes + costs->window_slope * run->growing;
        kvt_histogram_add_progression(&observer->itl, first, slope, terms, (uint64_t)members);
        context += terms * run->decodes;
        windowed += terms * run->growing;
        left -= terms;
    }
}

void kvt_observe_run(struct kvt_observer *observer, const struct kvt_core *core, int32_t replica,
                     const struct kvt_costs *costs, const struct kvt_run *run,
                     const struct kvt_step *step, kvt_ticks first_end, kvt_ticks end)
{
    observer->steps += run->steps;
    if (step->decodes == 0)
        return;
    struct kvt_gaps *gaps = &observer->gaps[replica];
    if (observer->tokens != NULL) {
        kvt_assert(run->steps == 1);
        kvt_token_log_step(observer->tokens, replica, end);
    }
    if (gaps->measured > 0)
        kvt_histogram_add(&observer->itl, first_end - gaps->last, (uint64_t)gaps->measured);
    for (int32_t i = 0; i < step->joiner_count; i++) {
        int32_t r = step->joiners[i];
        if (core->requests[r].state != KVT_REQUEST_RUNNING)
            continue; /* preempted or cancelled while its first step ran */
        if (observer->tokens != NULL)
            kvt_token_log_join(observer->tokens, replica, r);
        if (core->decode_only && observer->first_token[r] == KVT_NEVER)
            observer->first_token[r] = first_end;
        else if (is_measured(observer, r))
            kvt_histogram_add(&observer->itl, first_end - observer->last_token[r], 1);
        gaps->measured += is_measured(observer, r);
    }
    if (run->steps > 1 && gaps->measured > 0)
        observe_steady(observer, costs, run, gaps->measured);
    gaps->last = end;
}

static void log_tokens(struct kvt_token_log *tokens, const struct kvt_effect *effect, kvt_ticks now)
{
    enum kvt_effect_kind kind = (enum kvt_effect_kind)effect->kind;
    bool leaves =
        kind == KVT_EFFECT_FINISH || kind == KVT_EFFECT_PREEMPT || kind == KVT_EFFECT_ABORT;
    if (kind == KVT_EFFECT_FIRST || kind == KVT_EFFECT_TOKEN)
        kvt_token_log_prompt(tokens, effect->request, now);
    else if (leaves && effect->value != 0)
        kvt_token_log_leave(tokens, effect->replica, effect->request);
}

void kvt_observe_effect(struct kvt_observer *observer, const struct kvt_effect *effect,
                        kvt_ticks now)
{
    int32_t r = effect->request;
    struct kvt_gaps *gaps = effect->replica >= 0 ? &observer->gaps[effect->replica] : NULL;
    if (observer->tokens != NULL)
        log_tokens(observer->tokens, effect, now);
    if (effect->kind == KVT_EFFECT_PREEMPT)
        kvt_count_series_add(&observer->preempted[effect->replica], now);
    switch ((enum kvt_effect_kind)effect->kind) {
    case KVT_EFFECT_FIRST:
        observer->first_token[r] = now;
        observer->last_token[r] = now;
        break;
    case KVT_EFFECT_TOKEN:
        if (is_measured(observer, r))
            kvt_histogram_add(&observer->itl, now - observer->last_token[r], 1);
        observer->last_token[r] = now;
        break;
    case KVT_EFFECT_FINISH:
        kvt_assert(gaps != NULL);
        observer->finish[r] = now;
        gaps->measured -= effect->value != 0 && is_measured(observer, r);
        break;
    case KVT_EFFECT_PREEMPT:
    case KVT_EFFECT_ABORT:
        if (effect->value == 0)
            break;
        kvt_assert(gaps != NULL);
        observer->last_token[r] = gaps->last;
        gaps->measured -= is_measured(observer, r);
        break;
    case KVT_EFFECT_WAKE:
    case KVT_EFFECT_SEND:
    case KVT_EFFECT_ACK:
    case KVT_EFFECT_REJECT:
        break;
    }
}

static int64_t waiting_of(const struct kvt_replica *replica)
{
    return replica->waiting.count + replica->reserving.count + replica->ready.count +
           replica->retracted.count;
}

void kvt_observe_arrival(struct kvt_observer *observer, const struct kvt_core *core, int32_t id,
                         kvt_ticks now)
{
    struct kvt_series *series = &observer->series[id];
    int64_t value[KVT_GAUGE_COUNT] = {
        [KVT_GAUGE_RUNNING] = series->value[KVT_GAUGE_RUNNING],
        [KVT_GAUGE_WAITING] = waiting_of(&core->replicas[id]),
        [KVT_GAUGE_PAGES] = series->value[KVT_GAUGE_PAGES],
    };
    kvt_series_set(series, now, value);
}

/* Requests that the replica computes: its batch, and those whose prompt is in the running step. */
static int64_t running_of(const struct kvt_core *core, const struct kvt_replica *replica)
{
    int64_t running = replica->batch.members.count;
    if (replica->in_flight == 0)
        return running;
    const struct kvt_step *step = &replica->steps[replica->oldest];
    for (int32_t i = 0; i < step->chunk_count; i++)
        running += core->requests[step->chunks[i].request].state == KVT_REQUEST_PREFILL;
    return running;
}

void kvt_observe_step_end(struct kvt_observer *observer, const struct kvt_core *core, int32_t id,
                          kvt_ticks now)
{
    const struct kvt_replica *replica = &core->replicas[id];
    struct kvt_series *series = &observer->series[id];
    int64_t waiting = waiting_of(replica), running = running_of(core, replica);
    if (series->value[KVT_GAUGE_RUNNING] == running && series->value[KVT_GAUGE_WAITING] == waiting)
        return; /* pages are read when something was decided: they grow in between */
    int64_t value[KVT_GAUGE_COUNT] = {
        [KVT_GAUGE_RUNNING] = running,
        [KVT_GAUGE_WAITING] = waiting,
        [KVT_GAUGE_PAGES] = replica->pages.held,
    };
    kvt_series_set(series, now, value);
}
