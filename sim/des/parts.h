/*
 * parts.h - what the files of the engine share; engine.h is the whole
 */
#ifndef KVT_DES_PARTS_H
#define KVT_DES_PARTS_H

#include "sim/des/engine.h"

/* Slots of the timeline, in their order at one time. */
enum {
    SLOT_FAULT,
    SLOT_DEADLINE, /* a client goes away */
    SLOT_ARRIVAL,
    SLOT_LINK,
    SLOT_DELIVERY,
    SLOT_ACKNOWLEDGEMENT,
    SLOT_REPLICAS, /* then per replica: its first layer is computed (by-layer); its step ends */
};

static inline int32_t kvt_des_layer_slot(int32_t replica)
{
    return SLOT_REPLICAS + replica;
}

static inline int32_t kvt_des_step_slot(const struct kvt_des *engine, int32_t replica)
{
    return SLOT_REPLICAS + engine->core.replica_count + replica;
}

/* A time that is out of reach (past 104 days) never comes. */
static inline kvt_ticks kvt_ticks_later(kvt_ticks now, kvt_ticks duration)
{
    return duration < KVT_NEVER - now ? now + duration : KVT_NEVER;
}

static inline void kvt_des_tell(const struct kvt_des *engine, enum kvt_call call, int32_t id)
{
    const struct kvt_des_tap *tap = engine->spec.tap;
    if (tap != NULL && tap->tell != NULL)
        tap->tell(tap->context, call, id, engine->now);
}

/* ---- transfers.c ---- */

enum kvt_status kvt_des_link_init(struct kvt_des *engine, struct kvt_arena *arena,
                                  struct kvt_err *err);
bool kvt_des_has_link(const struct kvt_des *engine);

/* The core sends a piece. */
void kvt_des_send(struct kvt_des *engine, const struct kvt_effect *effect);

/* The first layer of a chunk is computed. */
void kvt_des_first_layer(struct kvt_des *engine, int32_t replica);

/* Prefill will hear, after the latency, that r's transfer is complete. */
void kvt_des_acknowledge(struct kvt_des *engine, int32_t r);

/* Bytes of r are under way, even if decode was told that they are there. */
bool kvt_des_is_sending(const struct kvt_des *engine, int32_t r);

/* Flows on the link ended. */
void kvt_des_flows_end(struct kvt_des *engine);

/* The client of r went away, in transfer. */
void kvt_des_cut_transfer(struct kvt_des *engine, int32_t r, bool decoded);

#endif
