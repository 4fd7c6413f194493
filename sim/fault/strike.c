/*
 * Faults of page tables, tags and bytes: who reads what instead.
 */
#include "sim/fault/parts.h"

void kvt_fault_act(struct kvt_faults *faults, struct kvt_fault_action action)
{
    kvt_assert(faults->action_count < faults->action_capacity);
    faults->actions[faults->action_count++] = action;
}

void kvt_fault_wake(struct kvt_faults *faults, int32_t replica)
{
    kvt_fault_act(faults, (struct kvt_fault_action){.kind = KVT_FAULT_WAKE, .replica = replica});
}

const struct kvt_guards *kvt_fault_guards(const struct kvt_faults *faults, int32_t replica)
{
    return faults->guards[faults->core->replicas[replica].spec.role];
}

/* ---- targets ------------------------------------------------------------------------------ */

struct kvt_stream kvt_fault_stream(const struct kvt_faults *faults, int32_t strike)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, faults->seed, KVT_PURPOSE_FAULT, (uint64_t)strike);
    return stream;
}

/* A request that decodes somewhere the strike may hit, and where; or KVT_NONE. O(members). */
static int32_t pick(struct kvt_faults *faults, int32_t strike, struct kvt_stream *stream,
                    int32_t *replica)
{
    const struct kvt_core *core = faults->core;
    const struct kvt_strike *s = &faults->strikes[strike];
    int64_t all = 0;
    for (int32_t i = 0; i < core->replica_count; i++)
        if (s->replica == KVT_NONE || s->replica == i)
            all += core->replicas[i].batch.members.count;
    if (all == 0)
        return KVT_NONE;
    int64_t nth = (int64_t)kvt_stream_below(stream, (uint64_t)all);
    for (int32_t i = 0; i < core->replica_count; i++) {
        if (s->replica != KVT_NONE && s->replica != i)
            continue;
        for (int32_t r = core->replicas[i].batch.members.head; r != KVT_NONE;
             r = core->requests[r].next) {
            bool wanted = s->request == r;
            if (s->request == KVT_NONE ? nth-- == 0 : wanted) {
                *replica = i;
                return r;
            }
        }
    }
    return KVT_NONE;
}

int32_t kvt_fault_pages(const struct kvt_faults *faults, int32_t replica, int32_t r)
{
    const struct kvt_core *core = faults->core;
    return kvt_replica_holding(&core->replicas[replica], &core->requests[r])->pages;
}

/* A page that another request than r wrote full and decodes with, by number in the pool;
 * KVT_NONE. */
static int32_t pick_foreign(const struct kvt_faults *faults, int32_t id, int32_t r,
                            struct kvt_stream *stream)
{
    const struct kvt_core *core = faults->core;
    const struct kvt_pages *pages = &core->replicas[id].pages;
    int32_t tokens = core->replicas[id].spec.page_tokens;
    int32_t from = (int32_t)kvt_stream_below(stream, (uint64_t)pages->total);
    for (int32_t i = 0; i < pages->total; i++) {
        int32_t page = (from + i) % pages->total, owner = pages->owner[page];
        if (pages->state[page] != KVT_PAGE_HELD || owner == r || owner == KVT_NONE ||
            core->requests[owner].state != KVT_REQUEST_RUNNING)
            continue;
        int32_t index = kvt_fault_fields(faults, id, page).position;
        if (kvt_fault_page_at(core, id, owner, index) == page &&
            (index + 1) * tokens <= kvt_fault_written(core, id, owner))
            return page;
    }
    return KVT_NONE;
}

/* ---- page tables -------------------------------------------------------------------------- */

/* r reads `page` in the place of its page `index`, and expects it to be of that generation. */
static struct kvt_deviation *redirect_as(struct kvt_faults *faults, int32_t strike, int32_t id,
                                         int32_t r, int32_t index, int32_t page,
                                         uint32_t generation)
{
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_TABLE,
                                           .strike = strike,
                                           .replica = id,
                                           .request = r,
                                           .index = index,
                                           .page = page,
                                           .generation = generation});
    struct kvt_deviation *d = kvt_fault_deviate(faults, strike, id, r, index, KVT_READS_OTHER);
    if (d == NULL)
        return NULL;
    const struct kvt_pages *pages = &faults->core->replicas[id].pages;
    d->page = page;
    d->owned = d->written = kvt_fault_fields(faults, id, page);
    d->owner_free = pages->state[page] == KVT_PAGE_FREE;
    d->source = pages->owner[page];
    d->alike = d->owned.position == index &&
               kvt_fault_same_text(faults->core, id, r, d->source, index) &&
               (kvt_fault_is_entry(&faults->core->replicas[id], page) ||
                kvt_fault_written(faults->core, id, d->source) >=
                    (index + 1) * faults->core->replicas[id].spec.page_tokens);
    d->expected.generation = generation;
    kvt_fault_wake(faults, id);
    return d;
}

/* As it expects its own page to be. */
static struct kvt_deviation *redirect(struct kvt_faults *faults, int32_t strike, int32_t id,
                                      int32_t r, int32_t index, int32_t page)
{
    int32_t own = kvt_fault_page_at(faults->core, id, r, index);
    if (own == KVT_NONE)
        return NULL;
    return redirect_as(faults, strike, id, r, index, page,
                       faults->core->replicas[id].pages.generation[own]);
}

/* r appends to its last page: a redirected one is damaged for its owner, unless the writer is
 * checked before it writes. */
static void writes_into(struct kvt_faults *faults, int32_t strike, int32_t id, int32_t r,
                        int32_t index, int32_t page)
{
    const struct kvt_replica *replica = &faults->core->replicas[id];
    int32_t owner = replica->pages.owner[page];
    bool last = index == kvt_fault_pages(faults, id, r) - 1;
    if (!last || owner == KVT_NONE || owner == r || replica->pages.state[page] != KVT_PAGE_HELD)
        return;
    struct kvt_tag_fields fields = kvt_fault_fields(faults, id, page);
    struct kvt_deviation *d =
        kvt_fault_deviate(faults, strike, id, owner, fields.position, KVT_BYTES_OTHER);
    if (d == NULL)
        return;
    d->source = r;
    d->written = (struct kvt_tag_fields){r, index, fields.generation, fields.incarnation};
    d->appended = d->waits = true; /* until r's next step */
    d->source_index = index;
}

/* Pages of r's text that hold tokens; those that are full are written no more. */
static int32_t pages_with_tokens(const struct kvt_faults *faults, int32_t id, int32_t r, bool full)
{
    int32_t tokens = faults->core->replicas[id].spec.page_tokens;
    int32_t written = kvt_fault_written(faults->core, id, r);
    return full ? written / tokens : (written + tokens - 1) / tokens;
}

static void stale_reader(struct kvt_faults *faults, int32_t strike, struct kvt_stream *stream)
{
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t id, r = pick(faults, strike, stream, &id);
    if (r == KVT_NONE)
        return;
    int32_t page = s->page != KVT_NONE ? s->page : pick_foreign(faults, id, r, stream);
    int32_t full = pages_with_tokens(faults, id, r, true);
    if (page == KVT_NONE || full == 0)
        return;
    faults->results[strike].activated = true;
    if (kvt_guards_have(kvt_fault_guards(faults, id), KVT_GUARD_LEASE) &&
        s->delay <= kvt_fault_guards(faults, id)->lease)
        return; /* its page is still kept for it */
    int32_t index = (int32_t)kvt_stream_below(stream, (uint64_t)full);
    uint32_t generation = faults->core->replicas[id].pages.generation[page];
    redirect_as(faults, strike, id, r, index, page, generation - (uint32_t)s->amount);
}

static void wrong_map(struct kvt_faults *faults, int32_t strike, struct kvt_stream *stream)
{
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t id, r = pick(faults, strike, stream, &id);
    if (r == KVT_NONE)
        return;
    int32_t count = pages_with_tokens(faults, id, r, false);
    if (count == 0)
        return;
    int32_t index = (int32_t)kvt_stream_below(stream, (uint64_t)count);
    if (s->variant == KVT_STRIKE_MAP_FOREIGN) {
        int32_t page = pick_foreign(faults, id, r, stream);
        if (page == KVT_NONE)
            return;
        redirect(faults, strike, id, r, index, page);
        writes_into(faults, strike, id, r, index, page);
        return;
    }
    if (count < 2)
        return;
    index = index < count - 1 ? index : count - 2;
    int32_t other =
        s->variant == KVT_STRIKE_MAP_NEXT
            ? index + 1
            : (index + 1 + (int32_t)kvt_stream_below(stream, (uint64_t)count - 1)) % count;
    int32_t first = kvt_fault_page_at(faults->core, id, r, index);
    int32_t second = kvt_fault_page_at(faults->core, id, r, other);
    struct kvt_deviation *d = redirect(faults, strike, id, r, index, second);
    if (d != NULL)
        d->owned.owner = d->written.owner = r, d->owned.position = d->written.position = other;
    if (s->variant != KVT_STRIKE_MAP_SWAP)
        return;
    d = redirect(faults, strike, id, r, other, first);
    if (d != NULL)
        d->owned.owner = d->written.owner = r, d->owned.position = d->written.position = index;
}

/* ---- bytes -------------------------------------------------------------------------------- */

static void flip_entry(struct kvt_faults *faults, int32_t strike, struct kvt_stream *stream)
{
    const struct kvt_core *core = faults->core;
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t where, r = pick(faults, strike, stream, &where);
    if (r == KVT_NONE)
        return;
    int32_t count = pages_with_tokens(faults, where, r, true);
    if (count == 0)
        return;
    int32_t index = (int32_t)kvt_stream_below(stream, (uint64_t)count);
    int32_t page = kvt_fault_page_at(core, where, r, index) ^ (1 << (int32_t)s->amount);
    faults->results[strike].activated = true;
    if (page < core->replicas[where].pages.total)
        redirect(faults, strike, where, r, index, page);
    else /* an illegal access: the node dies of it */
        kvt_fault_crash(faults, strike, where, s->delay);
}

static void bit_flip(struct kvt_faults *faults, int32_t strike, struct kvt_stream *stream)
{
    const struct kvt_core *core = faults->core;
    const struct kvt_strike *s = &faults->strikes[strike];
    int32_t id = s->replica != KVT_NONE
                     ? s->replica
                     : (int32_t)kvt_stream_below(stream, (uint64_t)core->replica_count);
    const struct kvt_pages *pages = &core->replicas[id].pages;
    if (s->variant == KVT_STRIKE_FLIP_TABLE) {
        flip_entry(faults, strike, stream);
        return;
    }
    int32_t page =
        s->page != KVT_NONE ? s->page : (int32_t)kvt_stream_below(stream, (uint64_t)pages->total);
    int32_t tokens = core->replicas[id].spec.page_tokens;
    int32_t slot = (int32_t)kvt_stream_below(stream, (uint64_t)tokens);
    faults->results[strike].activated = true;
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_FLIP,
                                           .strike = strike,
                                           .variant = s->variant,
                                           .replica = id,
                                           .page = page,
                                           .slot = slot,
                                           .amount = (int32_t)s->amount});
    bool tag = s->variant == KVT_STRIKE_FLIP_TAG;
    if (kvt_fault_is_entry(&core->replicas[id], page)) {
        kvt_fault_poison(faults, strike, id, page, tag ? KVT_TAG_FLIPPED : KVT_BYTES_FLIPPED);
        kvt_fault_wake(faults, id);
        return;
    }
    int32_t owner = pages->owner[page];
    if (pages->state[page] != KVT_PAGE_HELD || owner == KVT_NONE)
        return; /* nobody reads it before it is written again */
    struct kvt_tag_fields fields = kvt_fault_fields(faults, id, page);
    if (kvt_fault_page_at(core, id, owner, fields.position) != page)
        return;
    int32_t written = kvt_fault_written(core, id, owner), token = fields.position * tokens;
    if (tag ? token >= written && !kvt_guards_have(kvt_fault_guards(faults, id), KVT_GUARD_TAG_SIDE)
            : token + slot >= written)
        return; /* written over before it is read */
    struct kvt_deviation *d = kvt_fault_deviate(faults, strike, id, owner, fields.position,
                                                tag ? KVT_TAG_FLIPPED : KVT_BYTES_FLIPPED);
    if (d == NULL)
        return;
    kvt_fault_expose_running(faults, d);
    kvt_fault_wake(faults, id);
}

static void prefix_poison(struct kvt_faults *faults, int32_t strike, struct kvt_stream *stream)
{
    const struct kvt_core *core = faults->core;
    const struct kvt_strike *s = &faults->strikes[strike];
    for (int32_t id = 0; id < core->replica_count && faults->poisoned_count < 16; id++) {
        const struct kvt_replica *replica = &core->replicas[id];
        if (!replica->spec.prefix_cache || (s->replica != KVT_NONE && s->replica != id))
            continue;
        int32_t from = (int32_t)kvt_stream_below(stream, (uint64_t)replica->pages.total);
        for (int32_t i = 0; i < replica->pages.total; i++) {
            int32_t page = (from + i) % replica->pages.total;
            if (replica->pages.state[page] != KVT_PAGE_CACHED)
                continue; /* whoever holds it now has read it */
            faults->results[strike].activated = true;
            kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_POISON,
                                                   .strike = strike,
                                                   .replica = id,
                                                   .page = page});
            kvt_fault_poison(faults, strike, id, page, KVT_BYTES_POISONED);
            return;
        }
    }
}

static void false_alarm(struct kvt_faults *faults, int32_t strike, struct kvt_stream *stream)
{
    int32_t id, r = pick(faults, strike, stream, &id);
    if (r == KVT_NONE || kvt_fault_deviate(faults, strike, id, r, 0, KVT_NOTHING_WRONG) == NULL)
        return;
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_ALARM, .replica = id, .request = r});
    kvt_fault_wake(faults, id);
}

void kvt_fault_strike_table(struct kvt_faults *faults, int32_t strike)
{
    struct kvt_stream stream = kvt_fault_stream(faults, strike);
    enum kvt_fault_kind kind = kvt_fault_variants[faults->strikes[strike].variant].kind;
    if (kind == KVT_FAULT_STALE_READER)
        stale_reader(faults, strike, &stream);
    else if (kind == KVT_FAULT_WRONG_MAP)
        wrong_map(faults, strike, &stream);
    else if (kind == KVT_FAULT_PREFIX_POISON)
        prefix_poison(faults, strike, &stream);
    else if (kind == KVT_FAULT_BIT_FLIP)
        bit_flip(faults, strike, &stream);
    else
        false_alarm(faults, strike, &stream);
}
