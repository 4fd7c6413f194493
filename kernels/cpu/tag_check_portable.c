#include <string.h>

#include "kernels/cpu/tag_check_block.h"

static void fetch(const struct kvt_tag_source *source, const int32_t *page, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        __builtin_prefetch(kvt_tag_place(source->tags, page[i], 16));
    if (source->header)
        for (int32_t i = 0; i < count; i++)
            __builtin_prefetch(kvt_tag_place(source->content, page[i], source->content_stride));
}

static bool are_inside(const int32_t *page, int32_t count, int32_t pool_pages)
{
    uint32_t outside = 0;
    for (int32_t i = 0; i < count; i++)
        outside |= (uint32_t)page[i] | ((uint32_t)pool_pages - 1 - (uint32_t)page[i]);
    return outside >> 31 == 0;
}

static uint64_t differs(const struct kvt_tag_source *source, const int32_t *page,
                        const uint64_t *want, int32_t count)
{
    uint64_t bits = 0;
    for (int32_t i = 0; i < count; i++) {
        uint64_t content;
        memcpy(&content, source->content + page[i] * source->content_stride, sizeof content);
        bits |= (source->tags[page[i]].owner ^ want[i]) | (content ^ want[i]);
    }
    return bits;
}

const struct kvt_tag_block_isa kvt_tag_block_portable = {fetch, are_inside, differs};
