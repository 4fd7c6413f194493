/* What strikes do to tables, pages, tags and bytes under way: strike.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/strike.h"
#include "sim/base/assert.h"

static void add_entry(struct kvt_real *real, const struct kvt_deed *deed, uint32_t generation,
                      int32_t victim)
{
    kvt_assert(real->entry_count < KVT_REAL_ENTRIES);
    real->entries[real->entry_count++] = (struct kvt_real_entry){.replica = deed->replica,
                                                                 .request = deed->request,
                                                                 .index = deed->index,
                                                                 .page = deed->page,
                                                                 .generation = generation,
                                                                 .victim = victim};
}

void kvt_real_fill(struct kvt_real *real, int32_t id, int32_t page, int value)
{
    const struct kvt_shadow *shadow = &real->shadows[id];
    memset(shadow->scratch, value, (size_t)kvt_shadow_page_bytes(shadow));
    kvt_shadow_put(shadow, page, shadow->scratch);
}

/* The page that was just given to a request is another's. */
static void alias(struct kvt_real *real, const struct kvt_deed *deed)
{
    const struct kvt_pages *pages = &real->runtime->core->replicas[deed->replica].pages;
    uint32_t generation = pages->generation[deed->page] + 1;
    add_entry(real, deed, generation, pages->owner[deed->page]);
    kvt_real_allocator(real, deed->replica);
    kvt_real_write_side(real, deed->replica, kvt_pool_page(deed->page),
                        kvt_real_tag(real, deed->replica, deed->request, deed->index, generation));
}

/* One of the two has left: the other goes on in the page that the core believes it has. */
void kvt_real_unalias(struct kvt_real *real, const struct kvt_real_entry *entry)
{
    struct kvt_shadow *shadow = &real->shadows[entry->replica];
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_replica *replica = &core->replicas[entry->replica];
    int32_t *list = real->sides[entry->replica].list;
    int32_t count =
        kvt_planned_pages(replica, kvt_replica_holding(replica, &core->requests[entry->request]),
                          list, replica->pages.total);
    if (entry->index >= count)
        return;
    int32_t own = kvt_pool_page(list[entry->index]), tokens = shadow->tokens;
    kvt_shadow_take(shadow, kvt_pool_page(entry->page), shadow->scratch);
    kvt_shadow_put(shadow, own, shadow->scratch);
    memcpy(shadow->noted + (size_t)own * (size_t)tokens,
           shadow->noted + (size_t)kvt_pool_page(entry->page) * (size_t)tokens,
           (size_t)tokens * sizeof *shadow->noted);
    if (shadow->pool->layout.tag_offset >= 0)
        kvt_shadow_stamp(shadow, own, KVT_HEADER_TAG,
                         kvt_real_tag(real, entry->replica, entry->request, entry->index,
                                      replica->pages.generation[list[entry->index]]));
}

static void flip_tag(struct kvt_real *real, const struct kvt_deed *deed, struct kvt_stream *stream)
{
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    int32_t page = kvt_pool_page(deed->page), bits = kvt_real_guards(real, deed->replica)->tag.bits;
    uint64_t bit = UINT64_C(1) << kvt_stream_below(stream, (uint64_t)bits);
    kvt_real_allocator(real, deed->replica);
    kvt_real_write_side(real, deed->replica, page,
                        real->sides[deed->replica].host[page].owner ^ bit);
    if (shadow->pool->layout.tag_offset >= 0)
        kvt_shadow_stamp(shadow, page, KVT_HEADER_TAG,
                         kvt_shadow_header(shadow, page, 0, KVT_HEADER_TAG) ^ bit);
}

/* Bits in a row of one byte of one piece of a token, in one layer. */
static void flip(struct kvt_real *real, const struct kvt_deed *deed)
{
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    const struct kvt_page_layout *layout = &shadow->pool->layout;
    struct kvt_stream stream;
    kvt_stream_init(&stream, real->faults->seed, KVT_PURPOSE_FAULT,
                    UINT64_C(1) << 40 | (uint64_t)deed->strike);
    if (deed->variant == KVT_STRIKE_FLIP_TAG) {
        flip_tag(real, deed, &stream);
        return;
    }
    int32_t pieces = 0, page = kvt_pool_page(deed->page);
    int64_t offset = 0;
    while (kvt_shadow_piece(layout, deed->slot, pieces, &offset) > 0)
        pieces++;
    int32_t piece = (int32_t)kvt_stream_below(&stream, (uint64_t)pieces);
    int32_t length = kvt_shadow_piece(layout, deed->slot, piece, &offset);
    int64_t layer = (int64_t)kvt_stream_below(&stream, (uint64_t)shadow->pool->layers);
    int64_t at =
        layer * layout->page_bytes + offset + (int64_t)kvt_stream_below(&stream, (uint64_t)length);
    int32_t bits = deed->amount < 1 ? 1 : deed->amount > 8 ? 8 : deed->amount;
    int32_t first = (int32_t)kvt_stream_below(&stream, (uint64_t)(9 - bits));
    kvt_shadow_take(shadow, page, shadow->scratch);
    shadow->scratch[at] ^= (uint8_t)(((1 << bits) - 1) << first);
    kvt_shadow_put(shadow, page, shadow->scratch);
    real->dirty[deed->replica] = true;
}

/* A page of another text, canary included, under the tag of the one that it takes the place of. */
static bool poison(struct kvt_real *real, const struct kvt_deed *deed)
{
    struct kvt_shadow *shadow = &real->shadows[deed->replica];
    size_t size = (size_t)shadow->tokens, page = (size_t)kvt_pool_page(deed->page), other = 0;
    for (size_t i = 1; i < (size_t)shadow->pages && other == 0; i++)
        if (shadow->truth[i * size] != KVT_DIGEST_BAD &&
            shadow->truth[i * size] != shadow->truth[page * size])
            other = i;
    if (other == 0)
        return false; /* there is no other text here */
    bool header = shadow->pool->layout.tag_offset >= 0;
    uint64_t tag = header ? kvt_shadow_header(shadow, (int32_t)page, 0, KVT_HEADER_TAG) : 0;
    kvt_shadow_take(shadow, (int32_t)other, shadow->scratch);
    kvt_shadow_put(shadow, (int32_t)page, shadow->scratch);
    if (header)
        kvt_shadow_stamp(shadow, (int32_t)page, KVT_HEADER_TAG, tag);
    memcpy(shadow->noted + page * size, shadow->noted + other * size, size * sizeof *shadow->noted);
    return true;
}

/* Bytes are under way to pages that go back now, or from such. */
static void cut(struct kvt_real *real, const struct kvt_deed *deed)
{
    real->cut = *deed->landing;
    if (deed->landing->step) {
        real->step_request = deed->request;
        return;
    }
    struct kvt_source source = {0};
    if (kvt_real_source(real, deed->request, &source, &real->failure) != KVT_OK)
        return;
    if (deed->landing->sender) {
        free(real->sender.memory);
        real->sender = source;
        real->sender_request = deed->request;
        return;
    }
    kvt_wire_release(&real->late);
    kvt_real_stage(real, deed->request, &source, &real->late, &real->failure);
    free(source.memory);
}

static void land_row(struct kvt_real *real, const struct kvt_deed *deed, int32_t page,
                     int32_t index, uint32_t generation)
{
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    int32_t slot = deed->landing->slot;
    kvt_shadow_take(shadow, page, shadow->scratch);
    kvt_shadow_set_tokens(shadow, shadow->scratch, real->row, slot, slot + 1);
    kvt_shadow_put(shadow, page, shadow->scratch);
    if (shadow->pool->layout.tag_offset < 0)
        return;
    int32_t token = index * shadow->tokens + slot;
    kvt_shadow_stamp(shadow, page, KVT_HEADER_TAG,
                     kvt_real_tag(real, deed->replica, deed->request, index, generation));
    kvt_shadow_stamp(shadow, page, KVT_HEADER_CANARY,
                     kvt_real_chain(real, deed->request, token + 1));
}

static void land(struct kvt_real *real, const struct kvt_deed *deed)
{
    const struct kvt_landing *landing = deed->landing;
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    for (int32_t i = 0; i < landing->count; i++) {
        const int32_t *entry = &real->faults->landing_pages[(size_t)(landing->first + i) * 3];
        int32_t page = kvt_pool_page(entry[0]), index = entry[2];
        if (landing->step)
            land_row(real, deed, page, index, (uint32_t)entry[1]);
        else if (index < real->late.pages)
            kvt_shadow_put(shadow, page, real->late.bytes + index * kvt_shadow_page_bytes(shadow));
    }
    if (landing->step)
        real->step_request = KVT_NONE;
    real->dirty[deed->replica] = true;
}

static void crash(struct kvt_real *real, int32_t id)
{
    for (int32_t page = 1; page < real->shadows[id].pages; page++)
        kvt_real_fill(real, id, page, 0xff);
    real->result.crashed = true;
}

bool kvt_real_strike(struct kvt_real *real, const struct kvt_deed *deed)
{
    switch (deed->kind) {
    case KVT_DEED_TABLE:
        add_entry(real, deed, deed->generation, KVT_NONE);
        return true;
    case KVT_DEED_CUT:
        cut(real, deed);
        return true;
    case KVT_DEED_LAND:
        land(real, deed);
        return true;
    case KVT_DEED_FLIP:
        flip(real, deed);
        return true;
    case KVT_DEED_POISON:
        return poison(real, deed);
    case KVT_DEED_HOLD:
        real->requests[deed->request].held = deed->index;
        return true;
    case KVT_DEED_HEAL:
        kvt_real_heal(real, deed->request);
        return true;
    case KVT_DEED_ALIAS:
        alias(real, deed);
        return true;
    case KVT_DEED_RESIDUE:
        real->residue_replica = deed->replica; /* it is about to be handed out */
        real->residue_page = kvt_pool_page(deed->page);
        real->requests[deed->request].over_read = deed->replica;
        return true;
    case KVT_DEED_ALARM:
        real->requests[deed->request].marked = true;
        return true;
    case KVT_DEED_WITHHOLD:
        kvt_real_fill(real, deed->replica, kvt_pool_page(deed->page), 0xff);
        real->result.withheld++;
        return true;
    case KVT_DEED_CRASH:
        crash(real, deed->replica);
        return true;
    case KVT_DEED_ARRIVE:
    case KVT_DEED_STARTS:
    case KVT_DEED_ENDS:
    case KVT_DEED_LANDED:
        break;
    }
    return false;
}
