#include "runtime/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/decision.h"

#define WRITERS_ROOM (1 << 16)

enum kvt_status kvt_shadow_init(struct kvt_shadow *shadow, const struct kvt_kv_pool *pool,
                                struct kvt_err *failure, struct kvt_err *err)
{
    *shadow = (struct kvt_shadow){.pool = pool,
                                  .failure = failure,
                                  .tokens = pool->layout.page_tokens,
                                  .pages = pool->pages + 1};
    size_t slots = (size_t)shadow->pages * (size_t)shadow->tokens;
    shadow->truth = calloc(slots, sizeof *shadow->truth);
    shadow->noted = calloc(slots, sizeof *shadow->noted);
    shadow->scratch = malloc((size_t)kvt_shadow_page_bytes(shadow));
    if (shadow->truth == NULL || shadow->noted == NULL || shadow->scratch == NULL) {
        kvt_shadow_release(shadow);
        return kvt_err_set(err, KVT_ENOMEM, "no memory to follow %d pages", pool->pages);
    }
    kvt_shadow_read(shadow, 0, shadow->tokens, shadow->noted); /* all pages are zero, as page 0 */
    shadow->zero = shadow->noted[0];
    for (int32_t page = 1; page < shadow->pages; page++)
        memcpy(shadow->noted + (size_t)page * (size_t)shadow->tokens, shadow->noted,
               (size_t)shadow->tokens * sizeof *shadow->noted);
    return KVT_OK;
}

void kvt_shadow_release(struct kvt_shadow *shadow)
{
    free(shadow->truth);
    free(shadow->noted);
    free(shadow->scratch);
    *shadow = (struct kvt_shadow){0};
}

/* ---- bytes -------------------------------------------------------------------------------- */

static uint8_t *page_of(const struct kvt_shadow *shadow, int32_t page, int32_t layer)
{
    kvt_assert(page >= 0 && page < shadow->pages);
    return kvt_pool_at(shadow->pool, layer, page);
}

static void wait(const struct kvt_shadow *shadow)
{
    struct kvt_err err = {0};
    if (shadow->pool->device->ops->wait(shadow->pool->device, &err) != KVT_OK &&
        shadow->failure->status == KVT_OK)
        *shadow->failure = err;
}

void kvt_shadow_take(const struct kvt_shadow *shadow, int32_t page, uint8_t *bytes)
{
    struct kvt_device *device = shadow->pool->device;
    size_t size = (size_t)shadow->pool->layout.page_bytes;
    for (int32_t l = 0; l < shadow->pool->layers; l++)
        device->ops->copy(device, bytes + (size_t)l * size, page_of(shadow, page, l), size);
    wait(shadow);
}

void kvt_shadow_put(const struct kvt_shadow *shadow, int32_t page, const uint8_t *bytes)
{
    struct kvt_device *device = shadow->pool->device;
    size_t size = (size_t)shadow->pool->layout.page_bytes;
    for (int32_t l = 0; l < shadow->pool->layers; l++)
        device->ops->copy(device, page_of(shadow, page, l), bytes + (size_t)l * size, size);
    wait(shadow);
}

int32_t kvt_shadow_piece(const struct kvt_page_layout *layout, int32_t slot, int32_t piece,
                         int64_t *offset)
{
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    int32_t heads = layout->kv_heads;
    if (mla) {
        *offset = (int64_t)slot * layout->token_bytes;
        return piece == 0 ? layout->token_bytes : 0;
    }
    int32_t kinds = layout->format == KVT_PAGE_GQA_FP8 ? 4 : 2, kind = piece / heads;
    int64_t row = (int64_t)(piece % heads) * layout->page_tokens + slot;
    if (kind >= kinds)
        return 0;
    if (kind < 2) {
        *offset = row * layout->token_bytes + (kind == 1 ? layout->value_offset : 0);
        return layout->token_bytes;
    }
    *offset = (kind == 2 ? layout->key_scale_offset : layout->value_scale_offset) + 4 * row;
    return 4;
}

void kvt_shadow_set_tokens(const struct kvt_shadow *shadow, uint8_t *bytes, const uint8_t *from,
                           int32_t first, int32_t end)
{
    const struct kvt_page_layout *layout = &shadow->pool->layout;
    for (int32_t l = 0; l < shadow->pool->layers; l++)
        for (int32_t slot = first; slot < end; slot++) {
            int64_t offset;
            int32_t length;
            for (int32_t i = 0; (length = kvt_shadow_piece(layout, slot, i, &offset)) > 0; i++) {
                int64_t at = l * layout->page_bytes + offset;
                if (from != NULL)
                    memcpy(bytes + at, from + at, (size_t)length);
                else
                    memset(bytes + at, 0, (size_t)length);
            }
        }
}

/* ---- digests ------------------------------------------------------------------------------ */

static uint64_t fold(uint64_t digest, const uint8_t *bytes, int32_t count)
{
    for (int32_t at = 0; at < count; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, (size_t)(count - at < 8 ? count - at : 8));
        digest = kvt_digest_add(digest, word);
    }
    return digest;
}

void kvt_shadow_digest(const struct kvt_shadow *shadow, const uint8_t *bytes, int32_t tokens,
                       uint64_t digests[])
{
    const struct kvt_page_layout *layout = &shadow->pool->layout;
    for (int32_t slot = 0; slot < tokens; slot++) {
        uint64_t digest = KVT_DIGEST_START;
        for (int32_t l = 0; l < shadow->pool->layers; l++) {
            const uint8_t *page = bytes + (int64_t)l * layout->page_bytes;
            int64_t offset;
            int32_t length;
            for (int32_t i = 0; (length = kvt_shadow_piece(layout, slot, i, &offset)) > 0; i++)
                digest = fold(digest, page + offset, length);
        }
        digests[slot] = digest != KVT_DIGEST_BAD ? digest : 1;
    }
}

void kvt_shadow_read(struct kvt_shadow *shadow, int32_t page, int32_t tokens, uint64_t digests[])
{
    kvt_shadow_take(shadow, page, shadow->scratch);
    kvt_shadow_digest(shadow, shadow->scratch, tokens, digests);
}

/* ---- headers ------------------------------------------------------------------------------ */

static uint8_t *header_of(const struct kvt_shadow *shadow, int32_t page, int32_t layer,
                          enum kvt_header_word word)
{
    kvt_assert(shadow->pool->layout.tag_offset >= 0);
    return page_of(shadow, page, layer) + shadow->pool->layout.tag_offset + 8 * (int)word;
}

void kvt_shadow_stamp(const struct kvt_shadow *shadow, int32_t page, enum kvt_header_word word,
                      uint64_t value)
{
    struct kvt_device *device = shadow->pool->device;
    for (int32_t l = 0; l < shadow->pool->layers; l++)
        device->ops->copy(device, header_of(shadow, page, l, word), &value, sizeof value);
}

uint64_t kvt_shadow_header(const struct kvt_shadow *shadow, int32_t page, int32_t layer,
                           enum kvt_header_word word)
{
    struct kvt_device *device = shadow->pool->device;
    uint64_t value;
    device->ops->copy(device, &value, header_of(shadow, page, layer, word), sizeof value);
    wait(shadow);
    return value;
}

/* ---- whose bytes -------------------------------------------------------------------------- */

enum kvt_status kvt_writers_init(struct kvt_writers *writers, struct kvt_err *err)
{
    *writers = (struct kvt_writers){.room = WRITERS_ROOM};
    writers->digest = calloc(WRITERS_ROOM, sizeof *writers->digest);
    writers->request = calloc(WRITERS_ROOM, sizeof *writers->request);
    if (writers->digest != NULL && writers->request != NULL)
        return KVT_OK;
    kvt_writers_release(writers);
    return kvt_err_set(err, KVT_ENOMEM, "no memory for the writers of %d tokens", WRITERS_ROOM);
}

void kvt_writers_release(struct kvt_writers *writers)
{
    free(writers->digest);
    free(writers->request);
    *writers = (struct kvt_writers){0};
}

/* Where the digest is, or would be. */
static int32_t place_of(const struct kvt_writers *writers, uint64_t digest)
{
    uint32_t mask = (uint32_t)writers->room - 1, at = (uint32_t)(digest >> 20) & mask;
    while (writers->digest[at] != KVT_DIGEST_BAD && writers->digest[at] != digest)
        at = (at + 1) & mask;
    return (int32_t)at;
}

void kvt_writers_add(struct kvt_writers *writers, uint64_t digest, int32_t request)
{
    if (digest == KVT_DIGEST_BAD || writers->count > writers->room / 2)
        return; /* full: later writers stay unknown */
    int32_t at = place_of(writers, digest);
    writers->count += writers->digest[at] == KVT_DIGEST_BAD;
    writers->digest[at] = digest;
    writers->request[at] = request;
}

int32_t kvt_writers_find(const struct kvt_writers *writers, uint64_t digest)
{
    if (digest == KVT_DIGEST_BAD)
        return -1;
    int32_t at = place_of(writers, digest);
    return writers->digest[at] == digest ? writers->request[at] : -1;
}
