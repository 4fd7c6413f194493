/*
 * Transfers of the engine: from the core's SEND to the flow on the link, and from its end to the
 * message that says so.
 */
#include "sim/des/parts.h"

bool kvt_des_has_link(const struct kvt_des *engine)
{
    const struct kvt_core *core = &engine->core;
    return core->disaggregated && !core->decode_only && !core->prefill_only;
}

enum kvt_status kvt_des_link_init(struct kvt_des *engine, struct kvt_arena *arena,
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
    if (kvt_des_has_link(engine))
        KVT_TRY(kvt_link_observe(&engine->link, arena, engine->spec.series_points, err));
    KVT_TRY(kvt_delay_init(&engine->deliveries, arena, rows, err));
    return kvt_delay_init(&engine->acknowledgements, arena, rows, err);
}

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
void kvt_des_first_layer(struct kvt_des *engine, int32_t replica)
{
    struct kvt_core *core = &engine->core;
    const struct kvt_replica *state = &core->replicas[replica];
    const struct kvt_step *step = &state->steps[state->oldest];
    int64_t layers = engine->spec.link.layers;
    kvt_timeline_set(&engine->timeline, kvt_des_layer_slot(replica), KVT_NEVER);
    for (int32_t i = 0; i < step->chunk_count; i++) {
        int32_t r = step->chunks[i].request;
        if (core->requests[r].state != KVT_REQUEST_PREFILL)
            continue;
        int64_t tokens = step->chunks[i].end - core->requests[r].sent;
        int64_t bytes = tokens * engine->spec.link.bytes_per_token / layers * (layers - 1);
        if (bytes == 0)
            continue;
        kvt_des_tell(engine, KVT_CALL_TRANSFER, r);
        kvt_core_transfer_begin(core, r);
        link_add(engine, r, bytes, false);
        engine->ahead_bytes[r] = bytes;
    }
}

void kvt_des_send(struct kvt_des *engine, const struct kvt_effect *effect)
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

bool kvt_des_is_sending(const struct kvt_des *engine, int32_t r)
{
    return kvt_des_has_link(engine) &&
           (kvt_link_has(&engine->link, r) || kvt_delay_holds(&engine->deliveries, r));
}

void kvt_des_flows_end(struct kvt_des *engine)
{
    for (int32_t r = kvt_link_take_ended(&engine->link, engine->now); r >= 0;
         r = kvt_link_take_ended(&engine->link, engine->now))
        kvt_delay_put(&engine->deliveries, r,
                      kvt_ticks_later(engine->now, engine->spec.link.latency));
    kvt_timeline_set(&engine->timeline, SLOT_DELIVERY, kvt_delay_next(&engine->deliveries));
    link_changed(engine);
}

void kvt_des_acknowledge(struct kvt_des *engine, int32_t r)
{
    kvt_delay_put(&engine->acknowledgements, r,
                  kvt_ticks_later(engine->now, engine->spec.link.latency));
    kvt_timeline_set(&engine->timeline, SLOT_ACKNOWLEDGEMENT,
                     kvt_delay_next(&engine->acknowledgements));
}

void kvt_des_cut_transfer(struct kvt_des *engine, int32_t r, bool decoded)
{
    const struct kvt_request *request = &engine->core.requests[r];
    if (!kvt_des_has_link(engine) || !request->in_transfer)
        return;
    if (request->away.fences == 0) { /* it has arrived */
        if (engine->spec.late_ack && !decoded && !kvt_delay_holds(&engine->acknowledgements, r))
            kvt_des_acknowledge(engine, r);
        return; /* else the acknowledgement is under way, or was lost */
    }
    if (kvt_link_close(&engine->link, engine->now, r)) {
        link_changed(engine);
        return;
    }
    /* Nothing of it is on the link (whole, or between two pieces that never came): it is over. */
    if (kvt_delay_holds(&engine->deliveries, r) || kvt_delay_holds(&engine->acknowledgements, r))
        return;
    kvt_delay_put(&engine->deliveries, r, kvt_ticks_later(engine->now, engine->spec.link.latency));
    kvt_timeline_set(&engine->timeline, SLOT_DELIVERY, kvt_delay_next(&engine->deliveries));
}
