/*
 * Faults of a whole pool or node: pages given twice, lost or withheld; replicas that die or crawl.
 */
#include "sim/fault/parts.h"

/* F6: the page that r was just given is another's, freed by mistake; the other one's bytes are
 * lost. */
void kvt_fault_free_twice(struct kvt_faults *faults, int32_t id, int32_t r, int32_t page)
{
    const struct kvt_replica *replica = &faults->core->replicas[id];
    int32_t others = replica->batch.members.count - (replica->batch.members.head == r);
    if (others <= 0)
        return; /* nobody here whose page could be free by mistake */
    int32_t strike = kvt_fault_take_armed(faults, KVT_STRIKE_FREE_TWICE, id, r);
    if (strike == KVT_NONE)
        return;
    struct kvt_stream stream = kvt_fault_stream(faults, strike);
    int32_t theirs = KVT_NONE, victim = replica->batch.members.head;
    int64_t nth = (int64_t)kvt_stream_below(&stream, (uint64_t)replica->batch.members.count);
    for (; nth > 0; nth--)
        victim = faults->core->requests[victim].next;
    int32_t shared = kvt_replica_holding(replica, &faults->core->requests[victim])->shared;
    int32_t tokens = replica->spec.page_tokens;
    int32_t own = kvt_fault_written(faults->core, id, victim) / tokens - shared; /* full ones */
    if (victim != r && own > 0)
        theirs = shared + (int32_t)kvt_stream_below(&stream, (uint64_t)own);
    if (theirs == KVT_NONE)
        return;
    struct kvt_deviation *d =
        kvt_fault_deviate(faults, strike, id, victim, theirs, KVT_BYTES_OTHER);
    if (d == NULL)
        return;
    d->source = r;
    d->owned = kvt_fault_fields(faults, id, page); /* as for the page it is given in place of */
    d->owned.generation = d->expected.generation + 1;
    d->written = d->owned;
    d->waits = true;
    d->source_index = d->owned.position;
    d->alike =
        d->source_index == theirs && kvt_fault_same_text(faults->core, id, r, victim, theirs);
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_ALIAS,
                                           .strike = strike,
                                           .replica = id,
                                           .request = r,
                                           .index = d->source_index,
                                           .page = d->page});
    kvt_fault_wake(faults, id);
}

static void withdraw(struct kvt_faults *faults, int32_t strike, int32_t id, int32_t count,
                     kvt_ticks until)
{
    struct kvt_pages *pages = &faults->core->replicas[id].pages;
    count = count < pages->free ? count : pages->free;
    if (count <= 0 || faults->withheld_count == KVT_LANDINGS_MAX)
        return;
    struct kvt_withheld *withheld = &faults->withheld[faults->withheld_count++];
    *withheld = (struct kvt_withheld){strike, id, 0, KVT_NONE, until};
    for (; withheld->pages < count; withheld->pages++) {
        int32_t page = kvt_pages_withdraw(pages, pages->free_first);
        kvt_fault_do(faults,
                     (struct kvt_deed){
                         .kind = KVT_DEED_WITHHOLD, .strike = strike, .replica = id, .page = page});
        pages->next[page] = withheld->first;
        withheld->first = page;
    }
    faults->results[strike].activated = true;
    if (until != KVT_NEVER)
        faults->results[strike].held_page_s +=
            withheld->pages * kvt_seconds_from_ticks(until - faults->core->log.now);
}

static int32_t pick_replica(const struct kvt_faults *faults, int32_t strike)
{
    struct kvt_stream stream = kvt_fault_stream(faults, strike);
    int32_t given = faults->strikes[strike].replica;
    return given != KVT_NONE
               ? given
               : (int32_t)kvt_stream_below(&stream, (uint64_t)faults->core->replica_count);
}

/* F7 and F13: free pages are gone, for ever or for a while. A lease gives lost pages back. */
void kvt_fault_withhold(struct kvt_faults *faults, int32_t strike)
{
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t id = pick_replica(faults, strike);
    kvt_ticks until = KVT_NEVER, now = faults->core->log.now;
    int32_t count = (int32_t)s->amount;
    if (s->variant == KVT_STRIKE_LIVENESS_WITHHELD) {
        count = (int32_t)(faults->core->replicas[id].pages.free * s->amount);
        until = now + s->delay;
    } else if (kvt_guards_have(kvt_fault_guards(faults, id), KVT_GUARD_LEASE)) {
        until = now + kvt_fault_guards(faults, id)->lease;
    }
    withdraw(faults, strike, id, count, until);
}

void kvt_fault_give_back(struct kvt_faults *faults, int32_t at)
{
    struct kvt_withheld withheld = faults->withheld[at];
    struct kvt_replica *replica = &faults->core->replicas[withheld.replica];
    while (withheld.first != KVT_NONE) {
        int32_t page = withheld.first;
        withheld.first = replica->pages.next[page];
        kvt_pages_restore(&replica->pages, page);
    }
    faults->withheld_count--;
    for (int32_t i = at; i < faults->withheld_count; i++)
        faults->withheld[i] = faults->withheld[i + 1];
    replica->blocked = false;
    kvt_fault_wake(faults, withheld.replica);
}

/* A page that a guard found bad: out of service once nobody holds it. */
void kvt_fault_quarantine(struct kvt_faults *faults, int32_t replica, int32_t page)
{
    if (faults->bad_page_count == KVT_LANDINGS_MAX)
        return;
    faults->bad_pages[faults->bad_page_count][0] = replica;
    faults->bad_pages[faults->bad_page_count++][1] = page;
}

void kvt_faults_sweep(struct kvt_faults *faults)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < faults->bad_page_count; i++) {
        int32_t id = faults->bad_pages[i][0], page = faults->bad_pages[i][1];
        struct kvt_pages *pages = &faults->core->replicas[id].pages;
        if (pages->state[page] == KVT_PAGE_FREE && pages->free > 1) {
            kvt_pages_withdraw(pages, page);
            kvt_core_note(faults->core, KVT_DECIDE_QUARANTINE, KVT_NONE, id, page);
            continue;
        }
        faults->bad_pages[kept][0] = id;
        faults->bad_pages[kept++][1] = page;
    }
    faults->bad_page_count = kept;
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* Whether r has something on replica id that it cannot do without: not what it left on its prefill
 * replica once its KV has arrived on the decode one. */
static bool needs(const struct kvt_request *request, int32_t id)
{
    bool arrived = request->decode_replica != KVT_NONE && request->state >= KVT_REQUEST_READY;
    return request->decode_replica == id || (request->replica == id && !arrived);
}

/* Every request that needs the replica is lost; counters of generations start again under a new
 * incarnation. */
void kvt_fault_crash(struct kvt_faults *faults, int32_t strike, int32_t id, kvt_ticks down)
{
    struct kvt_core *core = faults->core;
    struct kvt_fault_result *result = &faults->results[strike];
    result->activated = true;
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        if (!needs(request, id) || request->state == KVT_REQUEST_FUTURE ||
            request->state >= KVT_REQUEST_COMPLETED)
            continue;
        result->lost++;
        result->spoiled++;
        kvt_fault_act(faults, (struct kvt_fault_action){.kind = KVT_FAULT_CANCEL, .request = r});
    }
    faults->incarnation[id]++;
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_CRASH, .replica = id});
    kvt_fault_act(faults, (struct kvt_fault_action){.kind = KVT_FAULT_DOWN,
                                                    .replica = id,
                                                    .until = core->log.now + down});
}

void kvt_fault_strike_node(struct kvt_faults *faults, int32_t strike)
{
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t id = pick_replica(faults, strike);
    if (s->variant == KVT_STRIKE_NODE_CRASH) {
        kvt_fault_crash(faults, strike, id, s->delay);
        return;
    }
    faults->results[strike].activated = true;
    kvt_fault_act(faults, (struct kvt_fault_action){.kind = KVT_FAULT_SLOW,
                                                    .replica = id,
                                                    .until = faults->core->log.now + s->delay,
                                                    .permille = (int64_t)(1000 * s->amount)});
}
