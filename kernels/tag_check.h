/*
 * tag_check.h - does every page that a batch is about to read belong to its request?
 *
 * Each page has two generations, 64 bit, side by side in one array:
 *     owner     set by the allocator when it hands the page out
 *     content   stamped by whoever wrote the page, after its last byte (kv_append.h, hand-off)
 * A request knows for each of its pages the generation it was given: want. An entry passes when
 *     (owner ^ want) & mask == 0  and  (content ^ want) & mask == 0
 * owner alone catches a stale reader; content catches a late or partial writer. mask keeps the low
 * `bits` of a narrower tag. With header, content is read from the page itself (kv_page.h:
 * tag_offset), which is what travels with the bytes and costs a cache line of every page.
 *
 * One call looks at all pages of a batch: request r has entries begin[r] .. begin[r + 1] of page[]
 * and want[]. It leaves, without any synchronisation of its own with the host,
 *
 *     failed[r]   1 when an entry of r fails, else 0
 *     *failures   number of entries that fail
 *     *first      the smallest (request << 32 | slot) that fails, slot counted from begin[request];
 *                 UINT64_MAX when none does
 *
 * A page id out of range fails like a wrong tag. Entries may repeat pages. Exact on every backend.
 *
 * Cost: 12 bytes of entries and one 16-byte pair gathered at random per page (header: one line
 * more).
 */
#ifndef KVT_KERNELS_TAG_CHECK_H
#define KVT_KERNELS_TAG_CHECK_H

#include "kernels/kv_page.h"

struct kvt_tag_check {
    const struct kvt_page_tag *tags; /* [pool_pages] */
    int32_t pool_pages;
    const struct kvt_page_layout *layout; /* header: where; NULL: side array only */
    const uint8_t *pool;                  /* header: the layer whose pages carry it */
    int32_t request_count;
    const int32_t *begin; /* [request_count + 1] */
    const int32_t *page;  /* [begin[request_count]] */
    const uint64_t *want; /* the same */
    uint64_t mask;
    uint8_t *failed; /* [request_count] */
    int32_t *failures;
    uint64_t *first;
};

/* The mask of tags of bits bits, 1..64. */
static inline uint64_t kvt_tag_mask(int32_t bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/* begin from 0 or more and not decreasing, pool_pages and request_count not negative, arrays where
 * there is something to read; with a layout: one that has a header, and a pool. KVT_ELIMIT names
 * what is not so. Host memory only. O(request_count). */
enum kvt_status kvt_tag_check_check(const struct kvt_tag_check *check, struct kvt_err *err);

void kvt_ref_tag_check(const struct kvt_tag_check *check);
void kvt_cpu_tag_check(const struct kvt_tag_check *check);

#endif
