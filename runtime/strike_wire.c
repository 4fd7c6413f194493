/* Bytes on their way from prefill to decode, as strikes want them: strike.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/strike.h"

void kvt_wire_release(struct kvt_wire *wire)
{
    free(wire->bytes);
    free(wire->truth);
    free(wire->noted);
    *wire = (struct kvt_wire){0};
}

static int32_t pages_for(int32_t tokens, int32_t size)
{
    return (tokens + size - 1) / size;
}

enum kvt_status kvt_real_source(struct kvt_real *real, int32_t r, struct kvt_source *source,
                                struct kvt_err *err)
{
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_request *request = &core->requests[r];
    const struct kvt_replica *replica = &core->replicas[request->replica];
    const struct kvt_shadow *shadow = &real->shadows[request->replica];
    size_t size = (size_t)shadow->tokens, most = (size_t)replica->pages.total;
    source->memory = calloc(most, 8 + 16 * size + 4);
    if (source->memory == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the pages of a request");
    source->tag = source->memory;
    source->truth = source->tag + most;
    source->noted = source->truth + most * size;
    source->page = (int32_t *)(void *)(source->noted + most * size);
    source->pages = kvt_planned_pages(replica, &request->home, source->page, (int32_t)most);
    int32_t sent = pages_for(request->sent, shadow->tokens);
    source->pages = source->pages < sent ? source->pages : sent;
    for (int32_t i = 0; i < source->pages; i++) {
        int32_t page = source->page[i], at = kvt_pool_page(page);
        source->tag[i] = kvt_real_tag(real, replica->id, replica->pages.owner[page], i,
                                      replica->pages.generation[page]);
        source->page[i] = at;
        memcpy(source->truth + (size_t)i * size, shadow->truth + (size_t)at * size, size * 8);
        memcpy(source->noted + (size_t)i * size, shadow->noted + (size_t)at * size, size * 8);
    }
    return KVT_OK;
}

/* Convert a page of prefill through the padding page of decode. */
static void convert(struct kvt_real_replica *from, struct kvt_real_replica *to,
                    const struct kvt_shadow *target, int32_t page, int32_t tokens, uint8_t *bytes)
{
    for (int32_t l = 0; l < to->pool.layers; l++)
        to->device.ops->zero(&to->device, to->pool.layer[l], (size_t)to->layout.page_bytes);
    to->moves.source[0] = page;
    to->moves.target[0] = 0;
    to->moves.tokens[0] = tokens;
    to->moves.stamp[0] = 0;
    kvt_planned_convert(from, to, 1);
    kvt_shadow_take(target, 0, bytes);
}

/* The header on the wire: the canary as it is, the tag as it is to be found in the target. */
static void write_headers(struct kvt_shadow *source, const struct kvt_shadow *target, int32_t page,
                          uint64_t was, uint64_t becomes, uint8_t *bytes)
{
    int64_t size = target->pool->layout.page_bytes, offset = target->pool->layout.tag_offset;
    for (int32_t l = 0; offset >= 0 && l < target->pool->layers; l++) {
        uint64_t tag = kvt_shadow_header(source, page, l, KVT_HEADER_TAG) ^ was ^ becomes;
        uint64_t canary = kvt_shadow_header(source, page, l, KVT_HEADER_CANARY);
        memcpy(bytes + l * size + offset, &tag, sizeof tag);
        memcpy(bytes + l * size + offset + 8, &canary, sizeof canary);
    }
}

enum kvt_status kvt_real_stage(struct kvt_real *real, int32_t r, const struct kvt_source *source,
                               struct kvt_wire *wire, struct kvt_err *err)
{
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_request *request = &core->requests[r];
    const struct kvt_replica *replica = &core->replicas[request->decode_replica];
    struct kvt_real_replica *from = &real->runtime->replicas[request->replica];
    struct kvt_real_replica *to = &real->runtime->replicas[request->decode_replica];
    struct kvt_shadow *before = &real->shadows[request->replica];
    struct kvt_shadow *after = &real->shadows[request->decode_replica];
    size_t size = (size_t)after->tokens, each = (size_t)kvt_shadow_page_bytes(after);
    int32_t *into = real->sides[request->decode_replica].list;
    int32_t room = kvt_planned_pages(replica, &request->away, into, replica->pages.total);
    int32_t pages = source->pages < room ? source->pages : room;
    wire->bytes = calloc((size_t)pages + 1, each);
    wire->truth = calloc((size_t)pages + 1, size * sizeof *wire->truth);
    wire->noted = calloc((size_t)pages + 1, size * sizeof *wire->noted);
    if (wire->bytes == NULL || wire->truth == NULL || wire->noted == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d pages on the link", pages);
    wire->pages = pages;
    wire->tokens = request->sent;
    for (int32_t i = 0; i < pages; i++) {
        uint8_t *bytes = wire->bytes + (size_t)i * each;
        int32_t left = wire->tokens - i * (int32_t)size;
        int32_t tokens = left < (int32_t)size ? left : (int32_t)size;
        if (from->layout.format == to->layout.format) {
            kvt_shadow_take(before, source->page[i], bytes);
            kvt_shadow_set_tokens(after, bytes, NULL, tokens, after->tokens); /* nothing behind */
        } else {
            convert(from, to, after, source->page[i], tokens, bytes);
        }
        const struct kvt_real_entry *changed = kvt_real_entry(real, replica->id, r, i);
        uint64_t tag = kvt_real_tag(real, replica->id, r, i,
                                    changed != NULL ? changed->generation
                                                    : replica->pages.generation[into[i]]);
        write_headers(before, after, source->page[i], source->tag[i], tag, bytes);
        uint64_t *truth = wire->truth + (size_t)i * size, *noted = wire->noted + (size_t)i * size;
        kvt_shadow_digest(after, bytes, (int32_t)size, noted);
        memcpy(truth, noted, (size_t)tokens * sizeof *truth);
        kvt_shadow_read(before, source->page[i], tokens, real->digest);
        for (int32_t slot = 0; slot < tokens; slot++) {
            uint64_t found = real->digest[slot];
            int32_t writer = kvt_writers_find(&real->writers, found);
            kvt_writers_add(&real->writers, truth[slot], writer >= 0 ? writer : r);
            if (found != source->truth[(size_t)i * size + (size_t)slot])
                truth[slot] = KVT_DIGEST_BAD;
            if (found != source->noted[(size_t)i * size + (size_t)slot])
                noted[slot] = KVT_DIGEST_BAD;
        }
    }
    return KVT_OK;
}

/* ---- arrival ------------------------------------------------------------------------------ */

/* Pages first .. end of a request's bytes go where its table says. */
static void land(struct kvt_real *real, int32_t r, int32_t first, int32_t end)
{
    const struct kvt_core *core = real->runtime->core;
    int32_t id = core->requests[r].decode_replica;
    const struct kvt_replica *replica = &core->replicas[id];
    const struct kvt_wire *wire = &real->requests[r].wire;
    int32_t *into = real->sides[id].list;
    int32_t room = kvt_planned_pages(replica, &core->requests[r].away, into, replica->pages.total);
    for (int32_t i = first; i < end && i < room && i < wire->pages; i++) {
        const struct kvt_real_entry *changed = kvt_real_entry(real, id, r, i);
        int32_t page = kvt_pool_page(changed != NULL ? changed->page : into[i]);
        const struct kvt_shadow *shadow = &real->shadows[id];
        const uint8_t *bytes = wire->bytes + i * kvt_shadow_page_bytes(shadow);
        int32_t tokens = wire->tokens - i * shadow->tokens;
        if (tokens < shadow->tokens && real->requests[r].wrote) {
            /* Only what was sent: the reader has written behind it, and stamped the page. */
            kvt_shadow_take(shadow, page, shadow->scratch);
            kvt_shadow_set_tokens(shadow, shadow->scratch, bytes, 0, tokens);
            bytes = shadow->scratch;
        }
        kvt_shadow_put(shadow, page, bytes);
    }
}

/* What tokens of r ought to be (truth), or what the message of some request says of them (noted);
 * digests NULL: nothing. */
static void know(struct kvt_real *real, int32_t r, const uint64_t *digests, int32_t first,
                 int32_t end, bool truth)
{
    const struct kvt_core *core = real->runtime->core;
    int32_t id = core->requests[r].decode_replica;
    const struct kvt_replica *replica = &core->replicas[id];
    struct kvt_shadow *shadow = &real->shadows[id];
    int32_t *into = real->sides[id].list, size = shadow->tokens;
    int32_t room = kvt_planned_pages(replica, &core->requests[r].away, into, replica->pages.total);
    uint64_t *all = truth ? shadow->truth : shadow->noted;
    for (int32_t token = first; token < end && token / size < room; token++) {
        int32_t i = token / size;
        const struct kvt_real_entry *changed = truth ? NULL : kvt_real_entry(real, id, r, i);
        int32_t page = kvt_pool_page(changed != NULL ? changed->page : into[i]);
        all[(size_t)page * (size_t)size + (size_t)(token % size)] =
            digests != NULL ? digests[token] : KVT_DIGEST_BAD;
    }
}

/* Read what is sent, once. */
static bool stage_once(struct kvt_real *real, int32_t r)
{
    struct kvt_wire *wire = &real->requests[r].wire;
    if (wire->bytes != NULL)
        return true;
    struct kvt_source source = {0};
    bool cut = real->sender_request == r;
    enum kvt_status status = cut ? KVT_OK : kvt_real_source(real, r, &source, &real->failure);
    if (status == KVT_OK)
        status = kvt_real_stage(real, r, cut ? &real->sender : &source, wire, &real->failure);
    free(source.memory);
    if (status == KVT_OK)
        know(real, r, wire->truth, 0, wire->tokens, true);
    return status == KVT_OK;
}

void kvt_real_arrive(struct kvt_real *real, int32_t r, int32_t told)
{
    const struct kvt_core *core = real->runtime->core;
    struct kvt_real_request *request = &real->requests[r];
    bool known = request->wire.bytes != NULL; /* read when it was told too early */
    if ((core->requests[r].state != KVT_REQUEST_SENDING && !known) || !stage_once(real, r))
        return;
    land(real, r, 0, request->held >= 0 ? request->held : request->wire.pages);
    int32_t size = real->shadows[core->requests[r].decode_replica].tokens;
    int32_t end = request->wrote ? request->wire.tokens : request->wire.pages * size;
    know(real, r, request->wire.noted, 0, end, false); /* what it wrote itself it has noted */
    request->arrived = true;
    if (told == KVT_NONE || told == r || real->requests[told].arrived || !stage_once(real, told))
        return;
    const struct kvt_wire *theirs = &real->requests[told].wire;
    int32_t both = request->wire.tokens < theirs->tokens ? request->wire.tokens : theirs->tokens;
    know(real, told, request->wire.noted, 0, both, false);
    know(real, told, NULL, both, theirs->tokens, false); /* of these the message says nothing */
}

void kvt_real_heal(struct kvt_real *real, int32_t r)
{
    struct kvt_real_request *request = &real->requests[r];
    if (request->held < 0 || real->runtime->core->requests[r].state >= KVT_REQUEST_COMPLETED)
        return;
    land(real, r, request->held, request->wire.pages);
    request->held = -1;
}
