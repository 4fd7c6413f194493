#include "sim/des/engine.h"

#include "sim/des/parts.h"

/* ---- set-up ------------------------------------------------------------------------------- */

/* When the next request arrives: from the trace, or back from a client of the closed loop. */
static void schedule_arrival(struct kvt_des *engine)
{
    kvt_ticks time = KVT_NEVER;
    if (engine->next_arrival < engine->core.request_count)
        time = engine->spec.concurrency > 0 ? kvt_delay_next(&engine->returns)
                                            : engine->spec.arrival[engine->next_arrival];
    bool comes = time != KVT_NEVER && time <= engine->spec.until;
    time = comes ? kvt_ticks_later(time, engine->spec.latency) : KVT_NEVER;
    kvt_timeline_set(&engine->timeline, SLOT_ARRIVAL, time);
}

size_t kvt_des_bytes(const struct kvt_des_spec *spec)
{
    size_t rows = (size_t)spec->core.request_count, replicas = 0, bytes = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        const struct kvt_replica_spec *replica = spec->core.roles[role];
        if (replica == NULL)
            continue;
        size_t count = (size_t)spec->core.replicas[role];
        size_t running = (size_t)replica->max_running + 1;
        size_t each = sizeof(struct kvt_replica) + sizeof(struct kvt_lane) + 4096;
        each += running * (2 * sizeof(struct kvt_step_entry) + 2 * sizeof(struct kvt_chunk) + 16);
        each += (size_t)replica->page_tokens * 12;
        each += (size_t)spec->series_points * KVT_GAUGE_COUNT * sizeof(kvt_i128);
        each += (size_t)spec->series_points * sizeof(int64_t); /* preemptions */
        if (replica->named || replica->prefix_cache)
            each += (size_t)replica->pages * 64; /* page columns, index columns, hash table */
        replicas += count;
        bytes += count * each + running * 8 * sizeof(struct kvt_effect);
    }
    bytes += spec->patience != NULL ? rows * 64 + 4096 : 0;
    bytes += rows * (sizeof(struct kvt_request) + sizeof(struct kvt_flow) + 96) + 16 * 65536;
    bytes += (size_t)spec->series_points * KVT_GAUGE_COUNT * sizeof(kvt_i128); /* of the link */
    bytes += sizeof(uint64_t) * KVT_BINS * 8 + (size_t)spec->core.tenants * 64;
    return bytes + (replicas + 64) * 1024 + (size_t)spec->concurrency * 32;
}

enum kvt_status kvt_des_init(struct kvt_des *engine, struct kvt_arena *arena,
                             const struct kvt_des_spec *spec, struct kvt_err *err)
{
    *engine = (struct kvt_des){.spec = *spec};
    engine->spec.exact = spec->exact || spec->tap != NULL;
    KVT_TRY(kvt_core_init(&engine->core, arena, &spec->core, err));
    int32_t replicas = engine->core.replica_count, rows = spec->core.request_count;
    KVT_TRY(kvt_arena_get(arena, (size_t)replicas, sizeof *engine->lanes, "lanes", &engine->lanes,
                          err));
    KVT_TRY(kvt_timeline_init(&engine->timeline, arena, SLOT_REPLICAS + 2 * replicas, err));
    KVT_TRY(kvt_observer_init(&engine->observer, arena, spec->arrival, rows, replicas,
                              spec->series_points, spec->warmup, err));
    if (kvt_des_has_link(engine))
        KVT_TRY(kvt_des_link_init(engine, arena, err));
    if (spec->patience != NULL)
        KVT_TRY(kvt_timeline_init(&engine->deadlines, arena, rows, err));
    if (spec->concurrency > 0) {
        int64_t most = spec->concurrency < rows ? spec->concurrency : rows;
        KVT_TRY(kvt_delay_init(&engine->returns, arena, (int32_t)most + 1, err));
        for (int64_t i = 0; i < most; i++)
            kvt_delay_put(&engine->returns, 0, 0);
    }
    schedule_arrival(engine);
    return KVT_OK;
}

void kvt_des_set_faults(struct kvt_des *engine, struct kvt_faults *faults)
{
    engine->faults = faults;
    kvt_timeline_set(&engine->timeline, SLOT_FAULT, kvt_faults_next(faults));
}

/* ---- steps -------------------------------------------------------------------------------- */

static const struct kvt_costs *costs_of(const struct kvt_des *engine, int32_t replica)
{
    return engine->spec.costs[engine->core.replicas[replica].spec.role];
}

static kvt_ticks run_time(const struct kvt_costs *costs, const struct kvt_run *run, int64_t steps)
{
    return kvt_costs_decode_run(costs, run->decodes, run->context, run->windowed, run->growing,
                                steps);
}

static kvt_ticks step_time(const struct kvt_des *engine, int32_t replica,
                           const struct kvt_step *step)
{
    const struct kvt_des_tap *tap = engine->spec.tap;
    if (tap != NULL && tap->run != NULL)
        return tap->run(tap->context, replica, step);
    struct kvt_step_load load = kvt_des_load(step);
    return kvt_costs_step(costs_of(engine, replica), &load);
}

static bool plan(struct kvt_des *engine, int32_t replica)
{
    bool planned = kvt_core_plan(&engine->core, replica) != NULL;
    kvt_des_tell(engine, planned ? KVT_CALL_PLAN : KVT_CALL_IDLE, replica);
    return planned;
}

static void wake(struct kvt_des *engine, int32_t replica)
{
    struct kvt_lane *lane = &engine->lanes[replica];
    int32_t slot = kvt_des_step_slot(engine, replica);
    if (!lane->running) {
        if (kvt_timeline_time(&engine->timeline, slot) == KVT_NEVER)
            kvt_timeline_set(&engine->timeline, slot, engine->now);
        return;
    }
    if (lane->run.steps == 1)
        return;
    /* The first step end that can see the change. If this replica's turn at the present time is
     * past, a step that ended just now has been followed up already, unseeing. */
    kvt_ticks seen = engine->now + (engine->position >= slot ? 1 : 0);
    if (seen > lane->end)
        return;
    const struct kvt_costs *costs = costs_of(engine, replica);
    const struct kvt_run *run = &lane->run;
    lane->run.steps = kvt_costs_steps_until(costs, run->decodes, run->context, run->windowed,
                                            run->growing, run->steps, seen - run->start);
    lane->end = run->start + run_time(costs, run, lane->run.steps);
    kvt_timeline_set(&engine->timeline, slot, lane->end);
}

/* Let the core know of the steps of a run that have ended before now. */
static void settle(struct kvt_des *engine, int32_t replica)
{
    struct kvt_lane *lane = &engine->lanes[replica];
    struct kvt_run *run = &lane->run;
    if (!lane->running || run->steps == 1)
        return;
    const struct kvt_costs *costs = costs_of(engine, replica);
    int64_t ended = kvt_costs_steps_until(costs, run->decodes, run->context, run->windowed,
                                          run->growing, run->steps, engine->now - run->start) -
                    1;
    if (ended == 0)
        return;
    const struct kvt_replica *state = &engine->core.replicas[replica];
    struct kvt_run done = *run;
    done.steps = ended;
    kvt_ticks first_end =
        run->start + kvt_costs_decode(costs, run->decodes, run->context, run->windowed);
    kvt_ticks end = run->start + run_time(costs, run, ended);
    kvt_observe_run(&engine->observer, &engine->core, replica, costs, &done,
                    &state->steps[state->oldest], first_end, end);
    kvt_core_settle(&engine->core, replica, ended);
    lane->busy += end - run->start;
    lane->steps += ended;
    run->start = end;
    run->steps -= ended;
    run->context += ended * run->decodes;
    run->windowed += ended * run->growing;
}

/* ---- effects ------------------------------------------------------------------------------ */

static void client_returns(struct kvt_des *engine)
{
    if (engine->spec.concurrency == 0)
        return;
    kvt_delay_put(&engine->returns, 0, kvt_ticks_later(engine->now, engine->spec.think));
    schedule_arrival(engine);
}

static void set_deadline(struct kvt_des *engine, int32_t r, kvt_ticks time)
{
    if (engine->spec.patience == NULL)
        return;
    kvt_timeline_set(&engine->deadlines, r, time);
    int32_t next = kvt_timeline_next(&engine->deadlines);
    kvt_timeline_set(&engine->timeline, SLOT_DEADLINE, kvt_timeline_time(&engine->deadlines, next));
}

static void carry_out(struct kvt_des *engine)
{
    struct kvt_core *core = &engine->core;
    for (int32_t i = 0; i < core->effect_count; i++) {
        const struct kvt_effect effect = core->effects[i];
        kvt_observe_effect(&engine->observer, &effect, engine->now);
        switch ((enum kvt_effect_kind)effect.kind) {
        case KVT_EFFECT_WAKE:
            wake(engine, effect.replica);
            break;
        case KVT_EFFECT_SEND:
            kvt_des_send(engine, &effect);
            break;
        case KVT_EFFECT_ACK:
            if (!engine->spec.late_ack || core->requests[effect.request].state != KVT_REQUEST_READY)
                kvt_des_acknowledge(engine, effect.request);
            break;
        case KVT_EFFECT_ABORT:
            kvt_des_cut_transfer(engine, effect.request, effect.value != 0);
            client_returns(engine);
            break;
        case KVT_EFFECT_FINISH:
        case KVT_EFFECT_REJECT:
            set_deadline(engine, effect.request, KVT_NEVER);
            client_returns(engine);
            break;
        case KVT_EFFECT_FIRST:
        case KVT_EFFECT_TOKEN:
        case KVT_EFFECT_PREEMPT:
            break;
        }
    }
    core->effect_count = 0;
}

/* ---- what happens ------------------------------------------------------------------------- */

static void observe_waiting(struct kvt_des *engine, int32_t replica)
{
    if (replica != KVT_NONE)
        kvt_observe_arrival(&engine->observer, &engine->core, replica, engine->now);
}

/* ---- faults ------------------------------------------------------------------------------- */

static bool is_watched(const struct kvt_des *engine, int32_t replica)
{
    return engine->faults != NULL && (engine->lanes[replica].slow_until > engine->now ||
                                      kvt_faults_watch(engine->faults, replica));
}

static int32_t reaches(struct kvt_des *engine, enum kvt_message message, int32_t r)
{
    return engine->faults != NULL ? kvt_faults_message(engine->faults, message, r) : r;
}

/* The request of a client that went away, or that a guard or a node's end takes with it. */
static void cancel(struct kvt_des *engine, int32_t r)
{
    const struct kvt_request *request = &engine->core.requests[r];
    if (request->state == KVT_REQUEST_RUNNING)
        settle(engine,
               request->decode_replica != KVT_NONE ? request->decode_replica : request->replica);
    kvt_des_tell(engine, KVT_CALL_CANCEL, r);
    kvt_core_cancel(&engine->core, r);
    carry_out(engine);
    observe_waiting(engine, request->replica);
    observe_waiting(engine, request->decode_replica);
}

/* A guard had no trust in what r holds; where nothing else can be done it is aborted. */
static void recover(struct kvt_des *engine, const struct kvt_fault_action *action)
{
    struct kvt_core *core = &engine->core;
    int32_t r = action->request, tokens = 0;
    const struct kvt_request *request = &core->requests[r];
    if (request->state == KVT_REQUEST_RUNNING)
        settle(engine,
               request->decode_replica != KVT_NONE ? request->decode_replica : request->replica);
    bool sent = !kvt_des_is_sending(engine, r), refetch = action->kind == KVT_FAULT_REFETCH;
    if (refetch && sent && !kvt_delay_holds(&engine->acknowledgements, r))
        tokens = kvt_core_refetch(core, r);
    if (tokens == 0 && sent)
        tokens = kvt_core_recompute(core, r);
    kvt_faults_recovered(engine->faults, action, tokens);
    if (tokens > 0)
        carry_out(engine);
    else
        cancel(engine, r);
}

/* Carry out what the faults ask for; more may come while it is done. */
static void act(struct kvt_des *engine)
{
    struct kvt_faults *faults = engine->faults;
    for (int32_t i = 0; i < faults->action_count; i++) {
        const struct kvt_fault_action action = faults->actions[i];
        struct kvt_lane *lane = &engine->lanes[action.replica];
        switch (action.kind) {
        case KVT_FAULT_CANCEL:
            cancel(engine, action.request);
            break;
        case KVT_FAULT_RECOMPUTE:
        case KVT_FAULT_REFETCH:
            recover(engine, &action);
            break;
        case KVT_FAULT_UNFENCE:
            kvt_replica_unfence(&engine->core, &engine->core.replicas[action.replica],
                                action.request);
            carry_out(engine);
            break;
        case KVT_FAULT_DOWN:
            lane->down_until = action.until;
            wake(engine, action.replica);
            break;
        case KVT_FAULT_SLOW:
            lane->slow_until = action.until;
            lane->slow_permille = action.permille;
            wake(engine, action.replica);
            break;
        case KVT_FAULT_ACK:
            kvt_core_acknowledge(&engine->core, action.request);
            carry_out(engine);
            break;
        case KVT_FAULT_WAKE:
            wake(engine, action.replica);
            break;
        }
    }
    faults->action_count = 0;
    kvt_faults_sweep(faults);
}

/* ---- clients that go away ----------------------------------------------------------------- */

static void deadline(struct kvt_des *engine)
{
    int32_t r = kvt_timeline_next(&engine->deadlines);
    set_deadline(engine, r, KVT_NEVER);
    cancel(engine, r);
}

static void arrival(struct kvt_des *engine)
{
    int32_t r = engine->next_arrival++;
    if (engine->spec.concurrency > 0) {
        kvt_delay_take(&engine->returns);
        engine->spec.arrival[r] = engine->now - engine->spec.latency;
    }
    schedule_arrival(engine);
    if (engine->spec.patience != NULL)
        set_deadline(engine, r, kvt_ticks_later(engine->now, engine->spec.patience[r]));
    kvt_des_tell(engine, KVT_CALL_ARRIVE, r);
    kvt_core_arrive(&engine->core, r);
    carry_out(engine);
    const struct kvt_request *request = &engine->core.requests[r];
    int32_t replica =
        request->state == KVT_REQUEST_RESERVING ? request->decode_replica : request->replica;
    observe_waiting(engine, replica);
}

/* Who starts to decode has been checked: its sender may let go. */
static void acknowledge_joiners(struct kvt_des *engine, const struct kvt_step *step)
{
    for (int32_t i = 0; i < step->joiner_count; i++) {
        const struct kvt_request *request = &engine->core.requests[step->joiners[i]];
        if (request->state != KVT_REQUEST_RUNNING || !request->in_transfer)
            continue;
        kvt_assert(request->away.fences == 0); /* who decodes has been told that all is there */
        kvt_des_acknowledge(engine, step->joiners[i]);
    }
}

static void start_step(struct kvt_des *engine, int32_t replica)
{
    struct kvt_core *core = &engine->core;
    struct kvt_replica *state = &core->replicas[replica];
    struct kvt_lane *lane = &engine->lanes[replica];
    int32_t slot = kvt_des_step_slot(engine, replica);
    if (lane->down_until > engine->now) {
        kvt_timeline_set(&engine->timeline, slot, lane->down_until);
        return;
    }
    bool restarts = lane->down_until > 0 && state->in_flight > 0; /* that ends first */
    if (lane->down_until > 0 && !restarts)
        kvt_replica_forget(core, state);
    lane->down_until = restarts ? lane->down_until : 0;
    bool runs = state->in_flight > 0 || plan(engine, replica);
    if (!runs) {
        kvt_timeline_set(&engine->timeline, slot, KVT_NEVER);
        return;
    }
    if (state->spec.overlap && !restarts)
        plan(engine, replica);
    if (engine->faults != NULL) {
        kvt_faults_step_starts(engine->faults, replica);
        act(engine);
    }
    if (engine->spec.late_ack)
        acknowledge_joiners(engine, &state->steps[state->oldest]);
    lane->running = true;
    kvt_des_tell(engine, KVT_CALL_START, replica);
    const struct kvt_step *step = &state->steps[state->oldest];
    const struct kvt_costs *costs = costs_of(engine, replica);
    int64_t steps =
        engine->spec.exact || is_watched(engine, replica) ? 1 : kvt_core_run_limit(core, replica);
    lane->run = (struct kvt_run){.start = engine->now,
                                 .steps = steps,
                                 .decodes = step->decodes,
                                 .growing = step->growing,
                                 .context = step->context,
                                 .windowed = step->windowed};
    kvt_ticks time =
        steps > 1 ? run_time(costs, &lane->run, steps) : step_time(engine, replica, step);
    if (time >= KVT_NEVER - engine->now && steps > 1) { /* as many as time has room for */
        int64_t over = kvt_costs_steps_until(costs, step->decodes, step->context, step->windowed,
                                             step->growing, steps, KVT_NEVER - engine->now);
        lane->run.steps = over > 1 ? over - 1 : 1;
        time = run_time(costs, &lane->run, lane->run.steps);
    }
    if (lane->slow_until > engine->now)
        time = kvt_muldiv_ceil(time, lane->slow_permille, 1000);
    lane->end = kvt_ticks_later(engine->now, time);
    kvt_assert(time > 0 && lane->end > engine->now);
    kvt_timeline_set(&engine->timeline, slot, lane->end);
    if (state->spec.role == KVT_ROLE_PREFILL && kvt_des_has_link(engine) &&
        engine->spec.link.stream == KVT_STREAM_BY_LAYER)
        kvt_timeline_set(&engine->timeline, kvt_des_layer_slot(replica),
                         kvt_ticks_later(engine->now, time / engine->spec.link.layers));
}

static void step_end(struct kvt_des *engine, int32_t replica)
{
    struct kvt_core *core = &engine->core;
    struct kvt_lane *lane = &engine->lanes[replica];
    if (lane->running) {
        const struct kvt_replica *state = &core->replicas[replica];
        const struct kvt_step *step = &state->steps[state->oldest];
        const struct kvt_run *run = &lane->run;
        kvt_ticks first_end =
            run->steps == 1 ? lane->end
                            : run->start + kvt_costs_decode(costs_of(engine, replica), run->decodes,
                                                            run->context, run->windowed);
        if (engine->faults != NULL) {
            kvt_faults_step_ends(engine->faults, replica);
            act(engine);
        }
        kvt_core_extend(core, replica, run->steps - 1);
        kvt_observe_run(&engine->observer, core, replica, costs_of(engine, replica), run, step,
                        first_end, lane->end);
        lane->busy += lane->end - run->start;
        lane->steps += run->steps;
        lane->running = false;
        kvt_des_tell(engine, KVT_CALL_COMMIT, replica);
        kvt_core_commit(core, replica, run->steps);
        /* Its own wakes say nothing new: its slot still shows the present time. */
        carry_out(engine);
    }
    start_step(engine, replica);
    carry_out(engine);
    kvt_observe_step_end(&engine->observer, core, replica, engine->now);
}

static void happen(struct kvt_des *engine, int32_t slot)
{
    int32_t replicas = engine->core.replica_count;
    if (slot >= SLOT_REPLICAS + replicas) {
        step_end(engine, slot - SLOT_REPLICAS - replicas);
        return;
    }
    if (slot >= SLOT_REPLICAS) {
        kvt_des_first_layer(engine, slot - SLOT_REPLICAS);
        return;
    }
    int32_t r;
    switch (slot) {
    case SLOT_FAULT:
        for (int32_t i = 0; i < replicas; i++)
            settle(engine, i);
        kvt_faults_strike(engine->faults);
        return;
    case SLOT_DEADLINE:
        deadline(engine);
        return;
    case SLOT_ARRIVAL:
        arrival(engine);
        return;
    case SLOT_LINK:
        kvt_des_flows_end(engine);
        return;
    case SLOT_DELIVERY:
        r = reaches(engine, KVT_MESSAGE_DONE, kvt_delay_take(&engine->deliveries));
        kvt_timeline_set(&engine->timeline, SLOT_DELIVERY, kvt_delay_next(&engine->deliveries));
        if (r == KVT_NONE)
            break;
        kvt_des_tell(engine, KVT_CALL_DELIVER, r);
        kvt_core_transfer_done(&engine->core, r);
        observe_waiting(engine, engine->core.requests[r].decode_replica);
        break;
    default:
        r = reaches(engine, KVT_MESSAGE_ACK, kvt_delay_take(&engine->acknowledgements));
        kvt_timeline_set(&engine->timeline, SLOT_ACKNOWLEDGEMENT,
                         kvt_delay_next(&engine->acknowledgements));
        if (r == KVT_NONE)
            break;
        kvt_des_tell(engine, KVT_CALL_ACK, r);
        kvt_core_acknowledge(&engine->core, r);
        break;
    }
    carry_out(engine);
}

/* What the faults made of what just happened. */
static void follow_faults(struct kvt_des *engine)
{
    if (engine->faults == NULL)
        return;
    act(engine);
    kvt_timeline_set(&engine->timeline, SLOT_FAULT, kvt_faults_next(engine->faults));
}

/* What the guards of real engines found in a step that has just been run. */
static void abort_found(struct kvt_des *engine)
{
    const struct kvt_des_tap *tap = engine->spec.tap;
    if (tap == NULL || tap->next_abort == NULL)
        return;
    for (int32_t r = tap->next_abort(tap->context); r != KVT_NONE;
         r = tap->next_abort(tap->context))
        cancel(engine, r);
}

bool kvt_des_step(struct kvt_des *engine, int64_t events)
{
    for (int64_t i = 0; i < events; i++) {
        int32_t slot = kvt_timeline_next(&engine->timeline);
        kvt_ticks time = kvt_timeline_time(&engine->timeline, slot);
        if (time == KVT_NEVER)
            return false;
        kvt_assert(time >= engine->now);
        if (time > engine->now)
            engine->position = 0;
        engine->now = engine->core.log.now = time;
        engine->position = slot > engine->position ? slot : engine->position;
        engine->events++;
        happen(engine, slot);
        abort_found(engine);
        follow_faults(engine);
    }
    return true;
}

void kvt_des_cancel(struct kvt_des *engine, int32_t r, kvt_ticks at)
{
    kvt_assert(at >= engine->now);
    kvt_assert(at <= kvt_timeline_time(&engine->timeline, kvt_timeline_next(&engine->timeline)));
    if (at > engine->now)
        engine->position = 0;
    engine->now = engine->core.log.now = at;
    cancel(engine, r);
    follow_faults(engine);
}

/* Something is yet to end, but out of reach. */
static bool is_under_way(const struct kvt_des *engine)
{
    bool running = false;
    for (int32_t i = 0; i < engine->core.replica_count; i++)
        running = running || engine->lanes[i].running;
    return running || engine->link.count > 0 || engine->deliveries.count > 0 ||
           engine->acknowledgements.count > 0;
}

static void close_series(struct kvt_series *series, kvt_ticks now)
{
    int64_t value[KVT_GAUGE_COUNT];
    for (int gauge = 0; gauge < KVT_GAUGE_COUNT; gauge++)
        value[gauge] = series->value[gauge];
    kvt_series_set(series, now, value);
}

enum kvt_status kvt_des_finish(struct kvt_des *engine, bool interrupted, struct kvt_err *err)
{
    struct kvt_core *core = &engine->core;
    for (int32_t i = 0; i < core->replica_count; i++) {
        struct kvt_series *series = &engine->observer.series[i];
        close_series(series, engine->now);
        kvt_count_series_widen(&engine->observer.preempted[i], series->width);
    }
    if (engine->link.series != NULL)
        close_series(engine->link.series, engine->now);
    kvt_core_audit(core);
    if (engine->faults != NULL)
        kvt_faults_finish(engine->faults);
    if (interrupted || engine->faults != NULL)
        return KVT_OK; /* a fault may leave requests and pages that nobody will come back for */
    if (is_under_way(engine))
        return kvt_err_set(err, KVT_ELIMIT,
                           "simulated time ran out after 104 days with %lld request%s left",
                           (long long)core->live, kvt_plural(core->live));
    if (core->live == 0) {
        for (int32_t i = 0; i < core->replica_count; i++)
            kvt_assert(core->replicas[i].pages.held == 0); /* no page is lost */
        return KVT_OK;
    }
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        if (request->state != KVT_REQUEST_FUTURE && request->state < KVT_REQUEST_COMPLETED)
            return kvt_err_set(err, KVT_ELIMIT,
                               "%lld request%s for ever; the first is number %d with %d input "
                               "and %d output tokens: its replica cannot hold it",
                               (long long)core->live, core->live == 1 ? " waits" : "s wait", r,
                               request->input, request->output);
    }
    return KVT_OK;
}
