/*
 * shadow.h - what each page of a pool ought to hold, token by token, and what it does hold
 *
 * Ground truth for faults on real memory. A token's bytes (K and V of all layers) are read from the
 * device and folded into one 64-bit digest. Beside every slot of every page the shadow keeps
 *
 *     truth   the digest that the page's owner wrote there; a read that finds another is an
 *             exposure
 *     noted   the digest that a guard of the engine would keep (guard `digest`): the same, but for
 *             writes that the engine made in good faith of a wrong text
 *
 * KVT_DIGEST_BAD equals no digest of bytes: its slot has no right content. Nothing of the serving
 * core or of the kernels reads a shadow. Pages are numbered as in memory, the padding page is 0.
 *
 * whose finds out who wrote bytes from nothing but their digest: the last request that wrote the
 * same bytes in good faith.
 */
#ifndef KVT_RUNTIME_SHADOW_H
#define KVT_RUNTIME_SHADOW_H

#include "runtime/pool.h"

#define KVT_DIGEST_BAD 0

struct kvt_shadow {
    const struct kvt_kv_pool *pool; /* borrowed, as the next */
    struct kvt_err *failure;        /* the first of the device is kept there, if none is yet */
    int32_t tokens, pages;          /* of a page; in memory */
    uint64_t *truth, *noted;        /* owned, [pages][tokens] */
    uint64_t zero;                  /* digest of a token of zeros */
    uint8_t *scratch;               /* owned, [layers] pages */
};

/* Follow a pool whose pages are all zero. failure: see above. KVT_ENOMEM. */
enum kvt_status kvt_shadow_init(struct kvt_shadow *shadow, const struct kvt_kv_pool *pool,
                                struct kvt_err *failure, struct kvt_err *err);
void kvt_shadow_release(struct kvt_shadow *shadow);

/* Digests of the first `tokens` of a page as it is in memory now. */
void kvt_shadow_read(struct kvt_shadow *shadow, int32_t page, int32_t tokens, uint64_t digests[]);

/* The same of a page in host memory, all layers one after the other. */
void kvt_shadow_digest(const struct kvt_shadow *shadow, const uint8_t *bytes, int32_t tokens,
                       uint64_t digests[]);

static inline int64_t kvt_shadow_page_bytes(const struct kvt_shadow *shadow)
{
    return shadow->pool->layout.page_bytes * shadow->pool->layers;
}

/* A page, all layers one after the other, to host memory, and back. Waits. */
void kvt_shadow_take(const struct kvt_shadow *shadow, int32_t page, uint8_t *bytes);
void kvt_shadow_put(const struct kvt_shadow *shadow, int32_t page, const uint8_t *bytes);

/* Tokens first .. end of a page in host memory, all layers, are set to those of `from`; NULL: to
 * zeros. What else is in the page stays. */
void kvt_shadow_set_tokens(const struct kvt_shadow *shadow, uint8_t *bytes, const uint8_t *from,
                           int32_t first, int32_t end);

/* Bytes of one token in such a page: piece number `piece` of it, from 0 on; its length, or 0 when
 * there are no more. */
int32_t kvt_shadow_piece(const struct kvt_page_layout *layout, int32_t slot, int32_t piece,
                         int64_t *offset);

/* The words of a page's header: the tag, and what a canary writes. Layouts with a header only. */
enum kvt_header_word { KVT_HEADER_TAG, KVT_HEADER_CANARY };
void kvt_shadow_stamp(const struct kvt_shadow *shadow, int32_t page, enum kvt_header_word word,
                      uint64_t value);
/* Of one layer. */
uint64_t kvt_shadow_header(const struct kvt_shadow *shadow, int32_t page, int32_t layer,
                           enum kvt_header_word word);

/* ---- whose bytes ---- */

struct kvt_writers {
    uint64_t *digest; /* owned, [room], room a power of two; KVT_DIGEST_BAD: empty */
    int32_t *request;
    int32_t room, count;
};

enum kvt_status kvt_writers_init(struct kvt_writers *writers, struct kvt_err *err);
void kvt_writers_release(struct kvt_writers *writers);
void kvt_writers_add(struct kvt_writers *writers, uint64_t digest, int32_t request);

/* The request, or -1. */
int32_t kvt_writers_find(const struct kvt_writers *writers, uint64_t digest);

#endif
