/*
 * The core's decisions, as they fall: requests that leave end their deviations, and armed strikes
 * wait here for the event that they need.
 */
#include <string.h>

#include "sim/fault/parts.h"

/* ---- deviations --------------------------------------------------------------------------- */

int32_t kvt_fault_page_at(const struct kvt_core *core, int32_t id, int32_t r, int32_t index)
{
    const struct kvt_replica *replica = &core->replicas[id];
    const struct kvt_holding *holding = kvt_replica_holding(replica, &core->requests[r]);
    if (index < 0 || index >= holding->pages)
        return KVT_NONE;
    int32_t page = index < holding->shared ? holding->leaf : holding->first;
    if (index < holding->shared)
        for (int32_t i = holding->shared - 1; i > index; i--)
            page = replica->prefix.parent[page];
    else
        for (int32_t i = holding->shared; i < index; i++)
            page = replica->pages.next[page];
    return page;
}

bool kvt_fault_is_entry(const struct kvt_replica *replica, int32_t page)
{
    return replica->spec.prefix_cache && replica->prefix.locks[page] >= 0;
}

struct kvt_tag_fields kvt_fault_fields(const struct kvt_faults *faults, int32_t id, int32_t page)
{
    const struct kvt_replica *replica = &faults->core->replicas[id];
    struct kvt_tag_fields fields = {.owner = replica->pages.owner[page],
                                    .generation = replica->pages.generation[page],
                                    .incarnation = faults->incarnation[id]};
    if (fields.owner == KVT_NONE)
        return fields;
    if (kvt_fault_is_entry(replica, page)) {
        for (int32_t at = replica->prefix.parent[page]; at != KVT_NONE;
             at = replica->prefix.parent[at])
            fields.position++;
        return fields;
    }
    const struct kvt_holding *holding =
        kvt_replica_holding(replica, &faults->core->requests[fields.owner]);
    int32_t index = holding->shared;
    for (int32_t own = holding->first; own != KVT_NONE && own != page; index++)
        own = replica->pages.next[own];
    fields.position = index;
    return fields;
}

bool kvt_fault_same_text(const struct kvt_core *core, int32_t id, int32_t a, int32_t b,
                         int32_t index)
{
    int64_t end = (int64_t)(index + 1) * core->replicas[id].spec.page_tokens;
    if (a == KVT_NONE || b == KVT_NONE || core->hash_begin == NULL ||
        end > core->requests[a].input || end > core->requests[b].input)
        return false;
    int64_t blocks = (end + core->block_tokens - 1) / core->block_tokens;
    return memcmp(core->hashes + core->hash_begin[a], core->hashes + core->hash_begin[b],
                  (size_t)blocks * sizeof *core->hashes) == 0;
}

struct kvt_deviation *kvt_fault_deviate(struct kvt_faults *faults, int32_t strike, int32_t replica,
                                        int32_t reader, int32_t index, enum kvt_deviation_kind kind)
{
    int32_t page = kvt_fault_page_at(faults->core, replica, reader, index);
    if (faults->deviation_count == faults->deviation_capacity || page == KVT_NONE ||
        faults->core->requests[reader].state >= KVT_REQUEST_COMPLETED)
        return NULL;
    struct kvt_deviation *d = &faults->deviations[faults->deviation_count++];
    *d = (struct kvt_deviation){.strike = strike,
                                .kind = (int32_t)kind,
                                .replica = replica,
                                .reader = reader,
                                .index = index,
                                .page = page,
                                .source = KVT_NONE,
                                .source_index = KVT_NONE,
                                .heals = KVT_NEVER,
                                .open = true};
    d->expected = (struct kvt_tag_fields){reader, index,
                                          faults->core->replicas[replica].pages.generation[page],
                                          faults->incarnation[replica]};
    d->owned = d->written = d->expected;
    if (faults->draw_aliases)
        d->luck = kvt_fault_luck(faults, faults->deviation_count - 1);
    faults->open[replica]++;
    faults->results[strike].activated = true;
    return d;
}

bool kvt_fault_close(struct kvt_faults *faults, int32_t reader, int32_t generated)
{
    bool leaked = false;
    for (int32_t i = 0; i < faults->deviation_count; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        if (!d->open || d->reader != reader)
            continue;
        d->open = false;
        faults->open[d->replica]--;
        if (!d->exposed || generated <= d->generated)
            continue;
        struct kvt_fault_result *result = &faults->results[d->strike];
        bool again = false; /* several pages of one request leak its tokens once */
        for (int32_t j = 0; j < i; j++)
            again =
                again || (faults->deviations[j].strike == d->strike && !again &&
                          faults->deviations[j].reader == reader && faults->deviations[j].exposed);
        if (again)
            continue;
        leaked = true;
        result->spoiled++;
        result->leaked += generated - d->generated;
        kvt_core_note(faults->core, KVT_DECIDE_ESCAPE, reader, d->replica, d->page);
    }
    return leaked;
}

void kvt_fault_writes_no_more(struct kvt_faults *faults, int32_t r, bool has_left)
{
    for (int32_t i = 0; i < faults->deviation_count; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        if (!d->open || !d->waits || d->source != r)
            continue;
        if (!has_left && kvt_fault_has_written(faults, d)) {
            d->waits = false;
            continue;
        }
        d->open = false;
        faults->open[d->replica]--;
    }
}

/* On a decode replica the bytes go to host memory and come back into other pages, stamped anew:
 * what is wrong with them stays, and no tag tells. Elsewhere they are computed again. */
static void preempted(struct kvt_faults *faults, int32_t id, int32_t r)
{
    const struct kvt_replica *replica = &faults->core->replicas[id];
    const struct kvt_request *request = &faults->core->requests[r];
    if (replica->spec.role != KVT_ROLE_DECODE) {
        kvt_fault_close(faults, r, request->generated);
        return;
    }
    for (int32_t i = 0; i < faults->deviation_count; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        if (!d->open || d->reader != r || d->replica != id)
            continue;
        if (kvt_fault_is_wrong(d) && !kvt_fault_waits(faults, d)) {
            d->kind = KVT_BYTES_COPIED;
            d->owned = d->written = d->expected;
            d->owner_free = d->waits = false;
            d->heals = KVT_NEVER;
        } else {
            d->open = false;
            faults->open[id]--;
        }
    }
}

/* What is wrong with r's bytes at prefill came along to decode, with what the page says of itself:
 * canary and in-band tag, and the digest where prefill keeps one. A side array stays behind. */
static void came_along(struct kvt_faults *faults, int32_t id, int32_t r)
{
    const struct kvt_core *core = faults->core;
    for (int32_t i = 0; i < faults->deviation_count; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        int32_t page = kvt_fault_page_at(core, id, r, d->index);
        bool tag = d->kind == KVT_TAG_FLIPPED, flipped = d->kind == KVT_BYTES_FLIPPED;
        if (!d->open || d->reader != r || d->replica == id || page == KVT_NONE ||
            !(tag || flipped || d->kind == KVT_BYTES_POISONED) ||
            (tag && !kvt_guards_have(kvt_fault_guards(faults, id), KVT_GUARD_TAG_INBAND)))
            continue;
        if (flipped && !kvt_guards_have(kvt_fault_guards(faults, d->replica), KVT_GUARD_DIGEST))
            d->kind = KVT_BYTES_COPIED;
        faults->open[d->replica]--;
        faults->open[id]++;
        d->replica = id;
        d->page = page;
        d->expected = (struct kvt_tag_fields){
            r, d->index, core->replicas[id].pages.generation[page], faults->incarnation[id]};
        d->owned = d->written = d->expected;
    }
}

/* ---- armed strikes ------------------------------------------------------------------------ */

int32_t kvt_fault_take_armed(struct kvt_faults *faults, enum kvt_fault_variant variant,
                             int32_t replica, int32_t r)
{
    for (int32_t i = 0; i < faults->armed_count; i++) {
        int32_t strike = faults->armed[i];
        const struct kvt_strike *s = &faults->strikes[strike];
        if (s->variant != (int32_t)variant || (s->replica != KVT_NONE && s->replica != replica) ||
            (s->request != KVT_NONE && s->request != r))
            continue;
        faults->armed_count--;
        for (int32_t j = i; j < faults->armed_count; j++)
            faults->armed[j] = faults->armed[j + 1];
        return strike;
    }
    return KVT_NONE;
}

static int32_t index_of(const struct kvt_faults *faults, int32_t id, int32_t r, int32_t page)
{
    const struct kvt_replica *replica = &faults->core->replicas[id];
    const struct kvt_holding *holding = kvt_replica_holding(replica, &faults->core->requests[r]);
    int32_t index = holding->shared;
    for (int32_t own = holding->first; own != KVT_NONE && own != page; index++)
        own = replica->pages.next[own];
    return index;
}

/* F10 and F6 wait for a page to be handed out. */
static void allocated(struct kvt_faults *faults, int32_t id, int32_t r, int32_t page)
{
    int32_t strike = kvt_fault_take_armed(faults, KVT_STRIKE_RESIDUE_NAN, id, r);
    if (strike != KVT_NONE) {
        const struct kvt_guards *guards = faults->guards[faults->core->replicas[id].spec.role];
        faults->results[strike].activated = true;
        int32_t index = index_of(faults, id, r, page);
        kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_RESIDUE,
                                               .strike = strike,
                                               .replica = id,
                                               .request = r,
                                               .index = index,
                                               .page = page});
        if (!kvt_guards_have(guards, KVT_GUARD_ZERO_ON_FREE))
            kvt_fault_deviate(faults, strike, id, r, index, KVT_BYTES_RESIDUE);
    }
    if (faults->armed_count > 0)
        kvt_fault_free_twice(faults, id, r, page);
}

/* r has a page of the prefix index in its path: it reads what is wrong with it. */
static void share(struct kvt_faults *faults, const struct kvt_poisoned *poisoned, int32_t r)
{
    int32_t shared = faults->core->requests[r].home.shared;
    for (int32_t index = 0; index < shared; index++) {
        if (kvt_fault_page_at(faults->core, poisoned->replica, r, index) != poisoned->page)
            continue;
        struct kvt_deviation *d = kvt_fault_deviate(faults, poisoned->strike, poisoned->replica, r,
                                                    index, poisoned->kind);
        if (d != NULL)
            kvt_fault_expose_running(faults, d);
        return;
    }
}

void kvt_fault_poison(struct kvt_faults *faults, int32_t strike, int32_t id, int32_t page,
                      enum kvt_deviation_kind kind)
{
    const struct kvt_core *core = faults->core;
    if (faults->poisoned_count == 16)
        return;
    struct kvt_poisoned *poisoned = &faults->poisoned[faults->poisoned_count++];
    *poisoned = (struct kvt_poisoned){.strike = strike,
                                      .replica = id,
                                      .page = page,
                                      .generation = core->replicas[id].pages.generation[page],
                                      .kind = kind};
    for (int32_t r = 0; r < core->request_count; r++)
        if (core->requests[r].replica == id && core->requests[r].home.shared > 0)
            share(faults, poisoned, r);
}

/* F5: who shares a poisoned page reads another text. */
static void shares(struct kvt_faults *faults, int32_t id, int32_t r)
{
    for (int32_t i = 0; i < faults->poisoned_count; i++) {
        const struct kvt_poisoned *poisoned = &faults->poisoned[i];
        const struct kvt_pages *pages = &faults->core->replicas[poisoned->replica].pages;
        /* Unless it was evicted, and written anew. */
        if (poisoned->replica == id && pages->generation[poisoned->page] == poisoned->generation)
            share(faults, poisoned, r);
    }
}

void kvt_fault_see(void *context, const struct kvt_decision *decision)
{
    struct kvt_faults *faults = context;
    int32_t r = decision->request, id = decision->replica;
    if (faults->sink != NULL)
        faults->sink(faults->sink_context, decision);
    bool armed = faults->armed_count > 0, deviates = faults->deviation_count > 0;
    bool leaves = decision->kind == KVT_DECIDE_PREEMPT || decision->kind == KVT_DECIDE_FINISH ||
                  decision->kind == KVT_DECIDE_ABORT;
    if (decision->kind == KVT_DECIDE_ALLOC && armed)
        allocated(faults, id, r, (int32_t)decision->count);
    else if (decision->kind == KVT_DECIDE_SHARE && faults->poisoned_count > 0)
        shares(faults, id, r);
    else if (decision->kind == KVT_DECIDE_SEND && armed)
        kvt_fault_sending(faults, r);
    else if (decision->kind == KVT_DECIDE_RECV && deviates)
        came_along(faults, id, r);
    else if (decision->kind == KVT_DECIDE_PREEMPT && deviates)
        preempted(faults, id, r);
    else if (decision->kind == KVT_DECIDE_ABORT && deviates)
        kvt_fault_close(faults, r, (int32_t)decision->count);
    if (leaves && deviates)
        kvt_fault_writes_no_more(faults, r, decision->kind != KVT_DECIDE_ABORT);
    if (decision->kind == KVT_DECIDE_ABORT && armed)
        kvt_fault_aborting(faults, r);
    if (decision->kind != KVT_DECIDE_FINISH)
        return;
    if (armed)
        kvt_fault_finished(faults, id, r);
    if (deviates)
        kvt_fault_close(faults, r, faults->core->requests[r].output);
}
