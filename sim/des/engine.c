#include "sim/des/engine.h"

/* Slots of the timeline, in their order at one time. */
enum {
    SLOT_ARRIVAL,
    SLOT_LINK,
    SLOT_DELIVERY,
    SLOT_ACKNOWLEDGEMENT,
    SLOT_REPLICAS, /* then per replica: its first layer is computed (by-layer); its step ends */
};

static int32_t layer_slot(int32_t replica)
{
    return SLOT_REPLICAS + replica;
}

static int32_t step_slot(const struct kvt_des *engine, int32_t replica)
{
    return SLOT_REPLICAS + engine->core.replica_count + replica;
}

/* A time that is out of reach (past 104 days) never comes. */
static kvt_ticks later(kvt_ticks now, kvt_ticks duration)
{
    return duration < KVT_NEVER - now ? now + duration : KVT_NEVER;
}

/* ---- delays ------------------------------------------------------------------------------- */

static enum kvt_status delay_init(struct kvt_delay *delay, struct kvt_arena *arena, int32_t most,
                                  struct kvt_err *err)
{
    *delay = (struct kvt_delay){.capacity = 16};
    while (delay->capacity < (uint32_t)most)
        delay->capacity *= 2;
    KVT_TRY(kvt_arena_get(arena, delay->capacity, sizeof(int32_t), "delays", &delay->request, err));
    return kvt_arena_get(arena, delay->capacity, sizeof(kvt_ticks), "delays", &delay->time, err);
}

static kvt_ticks delay_next(const struct kvt_delay *delay)
{
    return delay->count > 0 ? delay->time[delay->first & (delay->capacity - 1)] : KVT_NEVER;
}

static void delay_put(struct kvt_delay *delay, int32_t request, kvt_ticks time)
{
    kvt_assert(delay->count < delay->capacity);
    uint32_t at = (delay->first + delay->count++) & (delay->capacity - 1);
    delay->request[at] = request;
    delay->time[at] = time;
}

static int32_t delay_take(struct kvt_delay *delay)
{
    kvt_assert(delay->count > 0);
    delay->count--;
    return delay->request[delay->first++ & (delay->capacity - 1)];
}

static bool delay_holds(const struct kvt_delay *delay, int32_t request)
{
    for (uint32_t i = 0; i < delay->count; i++)
        if (delay->request[(delay->first + i) & (delay->capacity - 1)] == request)
            return true;
    return false;
}

/* ---- set-up ------------------------------------------------------------------------------- */

static enum kvt_status link_init(struct kvt_des *engine, struct kvt_arena *arena,
                                 struct kvt_err *err)
{
    const struct kvt_link_spec *spec = &engine->spec.link;
    const struct kvt_pool *pools = engine->core.pools;
    int32_t prefill = pools[KVT_ROLE_PREFILL].count, ports = engine->core.replica_count + 1;
    double *capacity;
    KVT_TRY(kvt_arena_get(arena, (size_t)ports, sizeof *capacity, "ports", &capacity, err));
    for (int32_t port = 0; port + 1 < ports; port++) {
        int32_t gpus = port < prefill ? spec->prefill_gpus : spec->decode_gpus;
        double bytes_per_s = spec->bytes_per_s * (spec->per == KVT_LINK_PER_GPU ? gpus : 1);
        capacity[port] = spec->per == KVT_LINK_PER_FLEET ? 0x1p60 : bytes_per_s;
    }
    capacity[ports - 1] = spec->bytes_per_s; /* of the fleet, where the link is that of the fleet */
    int32_t rows = engine->core.request_count;
    KVT_TRY(kvt_arena_get(arena, (size_t)rows, sizeof(int64_t), "bytes sent ahead",
                          &engine->ahead_bytes, err));
    KVT_TRY(kvt_link_init(&engine->link, arena, ports, capacity, rows, err));
    KVT_TRY(delay_init(&engine->deliveries, arena, rows, err));
    return delay_init(&engine->acknowledgements, arena, rows, err);
}

static bool has_link(const struct kvt_des *engine)
{
    const struct kvt_core *core = &engine->core;
    return core->disaggregated && !core->decode_only && !core->prefill_only;
}

/* When the next request arrives: from the trace, or back from a client of the closed loop. */
static void schedule_arrival(struct kvt_des *engine)
{
    kvt_ticks time = KVT_NEVER;
    if (engine->next_arrival < engine->core.request_count)
        time = engine->spec.concurrency > 0 ? delay_next(&engine->returns)
                                            : engine->spec.arrival[engine->next_arrival];
    bool comes = time != KVT_NEVER && time <= engine->spec.until;
    time = comes ? later(time, engine->spec.latency) : KVT_NEVER;
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
        if (replica->named || replica->prefix_cache)
            each += (size_t)replica->pages * 64; /* page columns, index columns, hash table */
        replicas += count;
        bytes += count * each + running * 8 * sizeof(struct kvt_effect);
    }
    bytes += rows * (sizeof(struct kvt_request) + sizeof(struct kvt_flow) + 96) + 16 * 65536;
    bytes += sizeof(uint64_t) * KVT_BINS * 8 + (size_t)spec->core.tenants * 64;
    return bytes + (replicas + 64) * 1024 + (size_t)spec->concurrency * 32;
}

enum kvt_status kvt_des_init(struct kvt_des *engine, struct kvt_arena *arena,
                             const struct kvt_des_spec *spec, struct kvt_err *err)
{
    *engine = (struct kvt_des){.spec = *spec};
    KVT_TRY(kvt_core_init(&engine->core, arena, &spec->core, err));
    int32_t replicas = engine->core.replica_count, rows = spec->core.request_count;
    KVT_TRY(kvt_arena_get(arena, (size_t)replicas, sizeof *engine->lanes, "lanes", &engine->lanes,
                          err));
    KVT_TRY(kvt_timeline_init(&engine->timeline, arena, SLOT_REPLICAS + 2 * replicas, err));
    KVT_TRY(kvt_observer_init(&engine->observer, arena, spec->arrival, rows, replicas,
                              spec->series_points, spec->warmup, err));
    if (has_link(engine))
        KVT_TRY(link_init(engine, arena, err));
    if (spec->concurrency > 0) {
        int64_t most = spec->concurrency < rows ? spec->concurrency : rows;
        KVT_TRY(delay_init(&engine->returns, arena, (int32_t)most + 1, err));
        for (int64_t i = 0; i < most; i++)
            delay_put(&engine->returns, 0, 0);
    }
    schedule_arrival(engine);
    return KVT_OK;
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

static kvt_ticks step_time(const struct kvt_costs *costs, const struct kvt_step *step)
{
    struct kvt_step_load load = {
        .decodes = step->decodes,
        .context = step->context,
        .windowed = step->windowed,
        .prompt_tokens = step->prompt_tokens,
        .pairs = step->pairs,
        .prompt_ends = step->prompt_ends,
        .copied_tokens = step->copied_tokens,
    };
    return kvt_costs_step(costs, &load);
}

static void wake(struct kvt_des *engine, int32_t replica)
{
    struct kvt_lane *lane = &engine->lanes[replica];
    int32_t slot = step_slot(engine, replica);
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

static void start_step(struct kvt_des *engine, int32_t replica)
{
    struct kvt_core *core = &engine->core;
    struct kvt_replica *state = &core->replicas[replica];
    struct kvt_lane *lane = &engine->lanes[replica];
    int32_t slot = step_slot(engine, replica);
    lane->running = state->in_flight > 0 || kvt_core_plan(core, replica) != NULL;
    if (!lane->running) {
        kvt_timeline_set(&engine->timeline, slot, KVT_NEVER);
        return;
    }
    if (state->spec.overlap)
        kvt_core_plan(core, replica);
    const struct kvt_step *step = &state->steps[state->oldest];
    const struct kvt_costs *costs = costs_of(engine, replica);
    int64_t steps = engine->spec.exact ? 1 : kvt_core_run_limit(core, replica);
    lane->run = (struct kvt_run){.start = engine->now,
                                 .steps = steps,
                                 .decodes = step->decodes,
                                 .growing = step->growing,
                                 .context = step->context,
                                 .windowed = step->windowed};
    kvt_ticks time = steps > 1 ? run_time(costs, &lane->run, steps) : step_time(costs, step);
    if (time >= KVT_NEVER - engine->now && steps > 1) { /* as many as time has room for */
        int64_t over = kvt_costs_steps_until(costs, step->decodes, step->context, step->windowed,
                                             step->growing, steps, KVT_NEVER - engine->now);
        lane->run.steps = over > 1 ? over - 1 : 1;
        time = run_time(costs, &lane->run, lane->run.steps);
    }
    lane->end = later(engine->now, time);
    kvt_assert(time > 0 && lane->end > engine->now);
    kvt_timeline_set(&engine->timeline, slot, lane->end);
    if (state->spec.role == KVT_ROLE_PREFILL && has_link(engine) &&
        engine->spec.link.stream == KVT_STREAM_BY_LAYER)
        kvt_timeline_set(&engine->timeline, layer_slot(replica),
                         later(engine->now, time / engine->spec.link.layers));
}

/* ---- transfers ---------------------------------------------------------------------------- */

static void link_changed(struct kvt_des *engine)
{
    kvt_timeline_set(&engine->timeline, SLOT_LINK, kvt_link_next(&engine->link));
}

static void link_add(struct kvt_des *engine, int32_t r, int64_t bytes, bool last)
{
    const struct kvt_request *request = &engine->core.requests[r];
    bool fleet = engine->spec.link.per == KVT_LINK_PER_FLEET;
    int32_t shared = engine->link.port_count - 1;
    kvt_link_add(&engine->link, engine->now, r, fleet ? shared : request->replica,
                 fleet ? shared : request->decode_replica, bytes, last);
    link_changed(engine);
}

/* By layer: when the first of L layers of a chunk is computed, L - 1 of L parts of the chunk may
 * flow; the last part follows when the step ends (kvt_handoff_send). */
static void first_layer(struct kvt_des *engine, int32_t replica)
{
    struct kvt_core *core = &engine->core;
    const struct kvt_replica *state = &core->replicas[replica];
    const struct kvt_step *step = &state->steps[state->oldest];
    int64_t layers = engine->spec.link.layers;
    kvt_timeline_set(&engine->timeline, layer_slot(replica), KVT_NEVER);
    for (int32_t i = 0; i < step->chunk_count; i++) {
        int32_t r = step->chunks[i].request;
        if (core->requests[r].state != KVT_REQUEST_PREFILL)
            continue;
        int64_t tokens = step->chunks[i].end - core->requests[r].sent;
        int64_t bytes = tokens * engine->spec.link.bytes_per_token / layers * (layers - 1);
        if (bytes == 0)
            continue;
        kvt_core_transfer_begin(core, r);
        link_add(engine, r, bytes, false);
        engine->ahead_bytes[r] = bytes;
    }
}

static void send(struct kvt_des *engine, const struct kvt_effect *effect)
{
    if (engine->spec.link.stream == KVT_STREAM_WHOLE && !effect->last)
        return;
    int32_t r = effect->request;
    int64_t tokens = engine->spec.link.stream == KVT_STREAM_WHOLE ? engine->core.requests[r].sent
                                                                  : effect->value;
    int64_t bytes = tokens * engine->spec.link.bytes_per_token;
    if (engine->spec.link.stream == KVT_STREAM_BY_LAYER) {
        bytes -= engine->ahead_bytes[r];
        engine->ahead_bytes[r] = 0;
    }
    link_add(engine, r, bytes, effect->last);
}

static void flows_end(struct kvt_des *engine)
{
    for (int32_t r = kvt_link_take_ended(&engine->link, engine->now); r >= 0;
         r = kvt_link_take_ended(&engine->link, engine->now))
        delay_put(&engine->deliveries, r, later(engine->now, engine->spec.link.latency));
    kvt_timeline_set(&engine->timeline, SLOT_DELIVERY, delay_next(&engine->deliveries));
    link_changed(engine);
}

/* ---- effects ------------------------------------------------------------------------------ */

static void client_returns(struct kvt_des *engine)
{
    if (engine->spec.concurrency == 0)
        return;
    delay_put(&engine->returns, 0, later(engine->now, engine->spec.think));
    schedule_arrival(engine);
}

static void transfer_cut(struct kvt_des *engine, int32_t r)
{
    if (!has_link(engine) || !engine->core.requests[r].in_transfer)
        return;
    if (kvt_link_close(&engine->link, engine->now, r)) {
        link_changed(engine);
        return;
    }
    /* Nothing of it is on the link (whole, or between two pieces that never came): it is over. */
    if (delay_holds(&engine->deliveries, r) || delay_holds(&engine->acknowledgements, r))
        return;
    delay_put(&engine->deliveries, r, later(engine->now, engine->spec.link.latency));
    kvt_timeline_set(&engine->timeline, SLOT_DELIVERY, delay_next(&engine->deliveries));
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
            send(engine, &effect);
            break;
        case KVT_EFFECT_ACK:
            delay_put(&engine->acknowledgements, effect.request,
                      later(engine->now, engine->spec.link.latency));
            kvt_timeline_set(&engine->timeline, SLOT_ACKNOWLEDGEMENT,
                             delay_next(&engine->acknowledgements));
            break;
        case KVT_EFFECT_ABORT:
            transfer_cut(engine, effect.request);
            client_returns(engine);
            break;
        case KVT_EFFECT_FINISH:
        case KVT_EFFECT_REJECT:
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

static void arrival(struct kvt_des *engine)
{
    int32_t r = engine->next_arrival++;
    if (engine->spec.concurrency > 0) {
        delay_take(&engine->returns);
        engine->spec.arrival[r] = engine->now - engine->spec.latency;
    }
    schedule_arrival(engine);
    kvt_core_arrive(&engine->core, r);
    carry_out(engine);
    const struct kvt_request *request = &engine->core.requests[r];
    int32_t replica =
        request->state == KVT_REQUEST_RESERVING ? request->decode_replica : request->replica;
    observe_waiting(engine, replica);
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
        kvt_core_extend(core, replica, run->steps - 1);
        kvt_observe_run(&engine->observer, core, replica, costs_of(engine, replica), run, step,
                        first_end, lane->end);
        lane->busy += lane->end - run->start;
        lane->steps += run->steps;
        lane->running = false;
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
        first_layer(engine, slot - SLOT_REPLICAS);
        return;
    }
    int32_t r;
    switch (slot) {
    case SLOT_ARRIVAL:
        arrival(engine);
        return;
    case SLOT_LINK:
        flows_end(engine);
        return;
    case SLOT_DELIVERY:
        r = delay_take(&engine->deliveries);
        kvt_timeline_set(&engine->timeline, SLOT_DELIVERY, delay_next(&engine->deliveries));
        kvt_core_transfer_done(&engine->core, r);
        observe_waiting(engine, engine->core.requests[r].decode_replica);
        break;
    default:
        r = delay_take(&engine->acknowledgements);
        kvt_timeline_set(&engine->timeline, SLOT_ACKNOWLEDGEMENT,
                         delay_next(&engine->acknowledgements));
        kvt_core_acknowledge(&engine->core, r);
        break;
    }
    carry_out(engine);
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
    const struct kvt_request *request = &engine->core.requests[r];
    if (request->state == KVT_REQUEST_RUNNING)
        settle(engine,
               request->decode_replica != KVT_NONE ? request->decode_replica : request->replica);
    kvt_core_cancel(&engine->core, r);
    carry_out(engine);
    observe_waiting(engine, request->replica);
    observe_waiting(engine, request->decode_replica);
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

enum kvt_status kvt_des_finish(struct kvt_des *engine, bool interrupted, struct kvt_err *err)
{
    struct kvt_core *core = &engine->core;
    for (int32_t i = 0; i < core->replica_count; i++) {
        struct kvt_series *series = &engine->observer.series[i];
        int64_t value[KVT_GAUGE_COUNT];
        for (int gauge = 0; gauge < KVT_GAUGE_COUNT; gauge++)
            value[gauge] = series->value[gauge];
        kvt_series_set(series, engine->now, value);
    }
    kvt_core_audit(core);
    if (interrupted)
        return KVT_OK;
    if (is_under_way(engine))
        return kvt_err_set(err, KVT_ELIMIT,
                           "simulated time ran out after 104 days with %lld requests left",
                           (long long)core->live);
    if (core->live == 0) {
        for (int32_t i = 0; i < core->replica_count; i++)
            kvt_assert(core->replicas[i].pages.held == 0); /* no page is lost */
        return KVT_OK;
    }
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        if (request->state != KVT_REQUEST_FUTURE && request->state < KVT_REQUEST_COMPLETED)
            return kvt_err_set(err, KVT_ELIMIT,
                               "%lld requests wait for ever; the first is number %d with %d input "
                               "and %d output tokens: its replica cannot hold it",
                               (long long)core->live, r, request->input, request->output);
    }
    return KVT_OK;
}
