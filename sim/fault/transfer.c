/*
 * Bytes that arrive when nobody expects them, or never, and messages that say so wrongly.
 */
#include "sim/fault/parts.h"

/* ---- late writes -------------------------------------------------------------------------- */

static struct kvt_landing *new_landing(struct kvt_faults *faults, int32_t strike, int32_t replica,
                                       int32_t r)
{
    if (faults->landing_count == KVT_LANDINGS_MAX)
        return NULL;
    struct kvt_landing *landing = &faults->landings[faults->landing_count++];
    *landing = (struct kvt_landing){.strike = strike,
                                    .replica = replica,
                                    .request = r,
                                    .time = KVT_NEVER,
                                    .first = faults->landing_page_count,
                                    .slot = -1};
    return landing;
}

static void landing_add(struct kvt_faults *faults, struct kvt_landing *landing, int32_t page,
                        int32_t index)
{
    if (faults->landing_page_count == faults->landing_page_capacity)
        return;
    int32_t *entry = &faults->landing_pages[(size_t)faults->landing_page_count++ * 3];
    entry[0] = page;
    entry[1] = (int32_t)faults->core->replicas[landing->replica].pages.generation[page];
    entry[2] = index;
    landing->count++;
}

static void cut(struct kvt_faults *faults, const struct kvt_landing *landing)
{
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_CUT,
                                           .strike = landing->strike,
                                           .replica = landing->replica,
                                           .request = landing->request,
                                           .landing = landing});
}

static void drop_landing(struct kvt_faults *faults, int32_t at)
{
    faults->landing_count--;
    for (int32_t i = at; i < faults->landing_count; i++)
        faults->landings[i] = faults->landings[i + 1];
    if (faults->landing_count == 0)
        faults->landing_page_count = 0;
}

/* Of the tokens that were planned, those that no step in flight computes. */
static int32_t computed_by_steps(const struct kvt_replica *replica, int32_t r, int32_t planned)
{
    int32_t computed = planned;
    for (int32_t i = 0; i < replica->in_flight; i++) {
        const struct kvt_step *step = &replica->steps[(replica->oldest + i) % KVT_STEPS_IN_FLIGHT];
        for (int32_t j = 0; j < step->chunk_count; j++) {
            int32_t begin = step->chunks[j].end - step->chunks[j].tokens;
            if (step->chunks[j].request == r && begin < computed)
                computed = begin;
        }
    }
    return computed;
}

int32_t kvt_fault_written(const struct kvt_core *core, int32_t id, int32_t r)
{
    const struct kvt_request *request = &core->requests[r];
    const struct kvt_batch *batch = &core->replicas[id].batch;
    int64_t run = batch->committed - request->joined;
    if (request->state == KVT_REQUEST_RUNNING) /* a new member's last chunk may be in flight */
        return computed_by_steps(&core->replicas[id], r,
                                 request->context + (int32_t)(run > 0 ? run : 0));
    if (request->state == KVT_REQUEST_READY)
        return request->context;
    bool computes = request->state == KVT_REQUEST_PREFILL || request->state == KVT_REQUEST_SENDING;
    return computes && core->replicas[id].spec.role != KVT_ROLE_DECODE
               ? computed_by_steps(&core->replicas[id], r, request->computed)
               : 0;
}

static bool defers(const struct kvt_faults *faults, int32_t replica)
{
    return kvt_guards_have(faults->guards[faults->core->replicas[replica].spec.role],
                           KVT_GUARD_DEFERRED_FREE);
}

/* F2: the step in flight writes one more token of a request that is gone. */
void kvt_fault_finished(struct kvt_faults *faults, int32_t id, int32_t r)
{
    struct kvt_replica *replica = &faults->core->replicas[id];
    struct kvt_request *request = &faults->core->requests[r];
    const struct kvt_holding *holding = kvt_replica_holding(replica, request);
    if (replica->batch.planned <= replica->batch.committed || holding->last == KVT_NONE ||
        request->context < 1)
        return;
    int32_t strike = kvt_fault_take_armed(faults, KVT_STRIKE_FREE_STEP, id, r);
    if (strike == KVT_NONE)
        return;
    faults->results[strike].activated = true;
    if (defers(faults, id))
        return;
    struct kvt_landing *landing = new_landing(faults, strike, id, r);
    if (landing == NULL)
        return;
    request->unfenced = (int16_t)(id + 1);
    landing->step = true;
    landing->slot = (request->context - 1) % replica->spec.page_tokens;
    landing_add(faults, landing, holding->last, holding->pages - 1);
    cut(faults, landing);
}

/* F2: prefill lets go of pages that are still being read by the link. */
static void sender_frees(struct kvt_faults *faults, int32_t r)
{
    struct kvt_request *request = &faults->core->requests[r];
    int32_t id = request->replica;
    if (request->sent != request->target || request->home.pages == request->home.shared)
        return; /* only the last piece lets go */
    int32_t strike = kvt_fault_take_armed(faults, KVT_STRIKE_FREE_SENDER, id, r);
    if (strike == KVT_NONE)
        return;
    faults->results[strike].activated = true;
    struct kvt_landing *landing = defers(faults, id) ? NULL : new_landing(faults, strike, id, r);
    if (landing == NULL)
        return;
    request->unfenced = (int16_t)(id + 1);
    landing->sender = true;
    /* Shared pages too: once nobody holds them they may be evicted and written. */
    for (int32_t index = 0; index < request->home.pages; index++)
        landing_add(faults, landing, kvt_fault_page_at(faults->core, id, r, index), index);
    cut(faults, landing);
}

/* Tokens of r that are written on a replica when its step in flight has written its own. */
static int32_t written_by_step(const struct kvt_core *core, int32_t id, int32_t r)
{
    const struct kvt_replica *replica = &core->replicas[id];
    const struct kvt_step *step = &replica->steps[replica->oldest];
    bool gone = core->requests[r].state >= KVT_REQUEST_COMPLETED;
    int32_t written = gone ? core->requests[r].computed : kvt_fault_written(core, id, r);
    for (int32_t i = 0; replica->in_flight > 0 && i < step->chunk_count; i++)
        if (step->chunks[i].request == r && step->chunks[i].end > written)
            written = step->chunks[i].end;
    return written;
}

/* Its transfer is through: what others wrote into those pages before went along. */
static void sender_ends(struct kvt_faults *faults, int32_t r)
{
    const struct kvt_core *core = faults->core;
    for (int32_t i = 0; i < faults->landing_count; i++) {
        const struct kvt_landing landing = faults->landings[i];
        if (!landing.sender || landing.request != r)
            continue;
        const struct kvt_pages *pages = &core->replicas[landing.replica].pages;
        int32_t tokens = core->replicas[landing.replica].spec.page_tokens;
        drop_landing(faults, i);
        for (int32_t j = 0; j < landing.count; j++) {
            const int32_t *entry = &faults->landing_pages[(size_t)(landing.first + j) * 3];
            int32_t owner = pages->owner[entry[0]];
            if (pages->generation[entry[0]] == (uint32_t)entry[1] || owner == KVT_NONE)
                continue;
            struct kvt_tag_fields fields = kvt_fault_fields(faults, landing.replica, entry[0]);
            if (!kvt_fault_is_entry(&core->replicas[landing.replica], entry[0]) &&
                fields.position * tokens >= written_by_step(core, landing.replica, owner))
                continue;
            struct kvt_deviation *d =
                kvt_fault_deviate(faults, landing.strike, core->requests[r].decode_replica, r,
                                  entry[2], KVT_BYTES_OTHER);
            if (d == NULL)
                continue;
            d->source = owner;
            d->written = fields;
            d->alike = fields.position == entry[2] &&
                       kvt_fault_same_text(core, landing.replica, r, owner, entry[2]);
        }
        return;
    }
}

/* The pages of r on its decode replica go back at its abort, and the rest of its bytes lands
 * later. */
static void land_late(struct kvt_faults *faults, int32_t strike, int32_t r)
{
    struct kvt_core *core = faults->core;
    struct kvt_request *request = &core->requests[r];
    int32_t id = request->decode_replica;
    const struct kvt_strike *s = &faults->strikes[strike];
    faults->results[strike].activated = true;
    struct kvt_landing *landing = new_landing(faults, strike, id, r);
    if (landing == NULL)
        return;
    landing->time = core->log.now + s->delay;
    if (defers(faults, id)) { /* the pages stay with r until the writer is quiet */
        landing->deferred = true;
        request->away.fences++;
        faults->results[strike].held_page_s +=
            request->away.pages * kvt_seconds_from_ticks(s->delay);
        return;
    }
    request->unfenced = (int16_t)(id + 1);
    int32_t index = 0, late = (int32_t)((double)request->away.pages * (1 - s->amount));
    for (int32_t page = request->away.first; page != KVT_NONE;
         page = core->replicas[id].pages.next[page], index++)
        if (index >= late && index * core->replicas[id].spec.page_tokens < request->sent)
            landing_add(faults, landing, page, index);
    cut(faults, landing);
}

/* F3: the client goes away while bytes are on the link. */
void kvt_fault_abort_transfer(struct kvt_faults *faults, int32_t strike, int32_t r)
{
    kvt_fault_act(faults, (struct kvt_fault_action){.kind = KVT_FAULT_CANCEL, .request = r});
    land_late(faults, strike, r);
}

void kvt_fault_aborting(struct kvt_faults *faults, int32_t r)
{
    const struct kvt_request *request = &faults->core->requests[r];
    if (request->state != KVT_REQUEST_SENDING || !request->in_transfer)
        return;
    int32_t strike =
        kvt_fault_take_armed(faults, KVT_STRIKE_WRITE_ABORT, request->decode_replica, r);
    if (strike != KVT_NONE)
        land_late(faults, strike, r);
}

void kvt_fault_sending(struct kvt_faults *faults, int32_t r)
{
    const struct kvt_request *request = &faults->core->requests[r];
    if (request->decode_replica == KVT_NONE || request->away.pages == 0)
        return;
    sender_frees(faults, r);
    int32_t strike =
        kvt_fault_take_armed(faults, KVT_STRIKE_WRITE_TRANSFER, request->decode_replica, r);
    if (strike != KVT_NONE)
        kvt_fault_abort_transfer(faults, strike, r);
}

/* A request whose bytes are on the link to where the strike may hit; KVT_NONE. */
int32_t kvt_fault_in_transfer(const struct kvt_faults *faults, int32_t strike)
{
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t first = s->request != KVT_NONE ? s->request : 0;
    int32_t end = s->request != KVT_NONE ? first + 1 : faults->core->request_count;
    for (int32_t r = first; r < end; r++) {
        const struct kvt_request *request = &faults->core->requests[r];
        bool fits = s->replica == KVT_NONE || s->replica == request->decode_replica;
        if (fits && request->state == KVT_REQUEST_SENDING && request->in_transfer)
            return r;
    }
    return KVT_NONE;
}

/* Bytes of a request that is gone land in pages that may have been given to others. Only what the
 * new owner has written already is damaged: the rest it writes over. */
static void land(struct kvt_faults *faults, const struct kvt_landing *landing)
{
    const struct kvt_core *core = faults->core;
    const struct kvt_replica *replica = &core->replicas[landing->replica];
    int32_t tokens = replica->spec.page_tokens;
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_LAND,
                                           .strike = landing->strike,
                                           .replica = landing->replica,
                                           .request = landing->request,
                                           .landing = landing});
    for (int32_t i = 0; i < landing->count; i++) {
        const int32_t *entry = &faults->landing_pages[(size_t)(landing->first + i) * 3];
        int32_t page = entry[0], owner = replica->pages.owner[page];
        uint32_t generation = replica->pages.generation[page];
        if (replica->pages.state[page] != KVT_PAGE_HELD || generation == (uint32_t)entry[1] ||
            owner == KVT_NONE)
            continue;
        struct kvt_tag_fields fields = kvt_fault_fields(faults, landing->replica, page);
        int32_t token = fields.position * tokens + (landing->slot > 0 ? landing->slot : 0);
        if (token >= kvt_fault_written(core, landing->replica, owner))
            continue;
        struct kvt_deviation *d = kvt_fault_deviate(faults, landing->strike, landing->replica,
                                                    owner, fields.position, KVT_BYTES_OTHER);
        if (d == NULL)
            continue;
        d->source = landing->request;
        d->alike = landing->slot < 0 && fields.position == entry[2] &&
                   kvt_fault_same_text(core, landing->replica, landing->request, owner, entry[2]);
        d->written = (struct kvt_tag_fields){landing->request, entry[2], (uint32_t)entry[1],
                                             fields.incarnation};
        kvt_fault_expose_running(faults, d);
        kvt_fault_wake(faults, landing->replica);
    }
}

void kvt_fault_land_step(struct kvt_faults *faults, int32_t id)
{
    for (int32_t i = 0; i < faults->landing_count;) {
        if (!faults->landings[i].step || faults->landings[i].replica != id) {
            i++;
            continue;
        }
        land(faults, &faults->landings[i]);
        drop_landing(faults, i);
    }
}

void kvt_fault_land_due(struct kvt_faults *faults)
{
    for (int32_t i = 0; i < faults->landing_count;) {
        if (faults->landings[i].time > faults->core->log.now) {
            i++;
            continue;
        }
        if (faults->landings[i].deferred)
            kvt_fault_act(faults,
                          (struct kvt_fault_action){.kind = KVT_FAULT_UNFENCE,
                                                    .request = faults->landings[i].request,
                                                    .replica = faults->landings[i].replica});
        else
            land(faults, &faults->landings[i]);
        drop_landing(faults, i);
    }
}

/* ---- transfers ---------------------------------------------------------------------------- */

static void partial(struct kvt_faults *faults, int32_t strike, int32_t id, int32_t r)
{
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t tokens = faults->core->replicas[id].spec.page_tokens;
    int32_t count = (faults->core->requests[r].sent + tokens - 1) / tokens;
    faults->results[strike].activated = true;
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_HOLD,
                                           .strike = strike,
                                           .request = r,
                                           .index = (int32_t)(count * s->amount)});
    for (int32_t index = (int32_t)(count * s->amount); index < count; index++) {
        struct kvt_deviation *d =
            kvt_fault_deviate(faults, strike, id, r, index, KVT_BYTES_PARTIAL);
        if (d == NULL)
            return;
        d->written.owner = KVT_NONE; /* whatever was there before: not this request's stamp */
        d->written.generation--;
        if (s->variant != KVT_STRIKE_PARTIAL_LOST)
            d->heals = faults->core->log.now + s->delay;
    }
}

/* Another request whose transfer to the same replica is under way. */
static int32_t another_sending(const struct kvt_core *core, int32_t r)
{
    for (int32_t other = 0; other < core->request_count; other++)
        if (other != r && core->requests[other].state == KVT_REQUEST_SENDING &&
            core->requests[other].in_transfer &&
            core->requests[other].decode_replica == core->requests[r].decode_replica)
            return other;
    return KVT_NONE;
}

static int32_t misdirect(struct kvt_faults *faults, int32_t r, int32_t id)
{
    int32_t other = another_sending(faults->core, r);
    if (other == KVT_NONE)
        return r;
    int32_t strike = kvt_fault_take_armed(faults, KVT_STRIKE_MESSAGE_OTHER, id, r);
    if (strike == KVT_NONE)
        return r;
    faults->results[strike].activated = true;
    if (kvt_guards_have(kvt_fault_guards(faults, id), KVT_GUARD_REQUEST_ID))
        return r;
    faults->swapped[0] = other;
    faults->swapped[1] = r;
    int32_t count = kvt_fault_pages(faults, id, other);
    for (int32_t index = 0; index < count; index++) {
        struct kvt_deviation *d =
            kvt_fault_deviate(faults, strike, id, other, index, KVT_BYTES_PARTIAL);
        if (d == NULL)
            break;
        d->written.owner = KVT_NONE;
        d->written.generation--;
    }
    return other;
}

/* F9: prefill never hears that it may let go; a lease ends by itself. */
static int32_t acknowledgement(struct kvt_faults *faults, int32_t r, int32_t id)
{
    int32_t strike = kvt_fault_take_armed(faults, KVT_STRIKE_MESSAGE_ACK, id, r);
    if (strike == KVT_NONE)
        return r;
    faults->results[strike].activated = true;
    const struct kvt_guards *guards = kvt_fault_guards(faults, faults->core->requests[r].replica);
    if (kvt_guards_have(guards, KVT_GUARD_LEASE) && faults->late_ack_count < KVT_LANDINGS_MAX)
        faults->late_acks[faults->late_ack_count++] =
            (struct kvt_late_ack){strike, r, faults->core->log.now + guards->lease};
    return KVT_NONE;
}

/* A word that all of r has landed: the request that it reaches, or KVT_NONE. */
static int32_t completion(struct kvt_faults *faults, int32_t r)
{
    int32_t id = faults->core->requests[r].decode_replica;
    if (faults->swapped[0] == r) { /* its own message comes now: the other one's, at last */
        int32_t other = faults->swapped[1];
        faults->swapped[0] = faults->swapped[1] = KVT_NONE;
        for (int32_t i = 0; i < faults->deviation_count; i++)
            if (faults->deviations[i].reader == r &&
                faults->deviations[i].kind == KVT_BYTES_PARTIAL)
                faults->deviations[i].heals = faults->core->log.now;
        return other;
    }
    if (faults->landing_count > 0)
        sender_ends(faults, r);
    if (faults->armed_count == 0 || faults->core->requests[r].state != KVT_REQUEST_SENDING)
        return r;
    int32_t strike = kvt_fault_take_armed(faults, KVT_STRIKE_MESSAGE_DONE, id, r);
    if (strike != KVT_NONE) {
        faults->results[strike].activated = true;
        return KVT_NONE;
    }
    strike = kvt_fault_take_armed(faults, KVT_STRIKE_MESSAGE_TWICE, id, r);
    if (strike != KVT_NONE)
        faults->results[strike].activated = true; /* a second one finds nobody waiting */
    strike = kvt_fault_take_armed(faults, KVT_STRIKE_PARTIAL_EARLY, id, r);
    if (strike == KVT_NONE)
        strike = kvt_fault_take_armed(faults, KVT_STRIKE_PARTIAL_LOST, id, r);
    if (strike != KVT_NONE)
        partial(faults, strike, id, r);
    return misdirect(faults, r, id);
}

int32_t kvt_faults_message(struct kvt_faults *faults, enum kvt_message message, int32_t r)
{
    const struct kvt_request *requests = faults->core->requests;
    if (message == KVT_MESSAGE_ACK)
        return faults->armed_count > 0 ? acknowledgement(faults, r, requests[r].decode_replica) : r;
    int32_t reached = completion(faults, r);
    /* Decode takes no second word: of a transfer that ended it keeps nothing that could be told. */
    if (reached != KVT_NONE && requests[reached].away.fences == 0)
        reached = KVT_NONE;
    kvt_fault_do(faults,
                 (struct kvt_deed){.kind = KVT_DEED_ARRIVE, .request = r, .index = reached});
    return reached;
}
