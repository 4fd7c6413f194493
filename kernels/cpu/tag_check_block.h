/*
 * tag_check_block.h - what an instruction set has to do for the tag check on the CPU
 *
 * Entries are looked at in blocks of at most 64: are all ids in the pool, and do all generations
 * agree? Before, what the next 64 entries point at is fetched, of whichever request they are. A
 * block that passes needs no more; another one is gone through entry by entry.
 */
#ifndef KVT_KERNELS_CPU_TAG_CHECK_BLOCK_H
#define KVT_KERNELS_CPU_TAG_CHECK_BLOCK_H

#include <stdbool.h>

#include "kernels/tag_check.h"

#define KVT_TAG_BLOCK 64

/* Where page p's generations lie: tags[p].owner, and content + p * content_stride. */
struct kvt_tag_source {
    const struct kvt_page_tag *tags;
    const uint8_t *content;
    int64_t content_stride;
    int32_t pool_pages;
    bool header; /* content is not in tags */
};

/* Where a page's would lie, to be fetched and not read: page may be anything. */
static inline const char *kvt_tag_place(const void *array, int32_t page, int64_t stride)
{
    /* Outside the array there is no pointer: NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return (const char *)((uintptr_t)array + (uintptr_t)page * (uintptr_t)stride);
}

struct kvt_tag_block_isa {
    /* Start to fetch the tags of count ids, which may be anything. */
    void (*fetch)(const struct kvt_tag_source *source, const int32_t *page, int32_t count);
    bool (*are_inside)(const int32_t *page, int32_t count, int32_t pool_pages);
    /* All bits in which a generation of count ids, all in range, differs from what is wanted. */
    uint64_t (*differs)(const struct kvt_tag_source *source, const int32_t *page,
                        const uint64_t *want, int32_t count);
};

extern const struct kvt_tag_block_isa kvt_tag_block_portable, kvt_tag_block_avx2;

#endif
