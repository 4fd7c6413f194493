#include <stddef.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/tag_check_block.h"

#define ALONE 16384 /* entries below which waking the other threads costs more than they save */

struct finding {
    int32_t failures;
    int32_t first; /* slot; meant only with failures */
};

static struct kvt_tag_source source_of(const struct kvt_tag_check *check)
{
    struct kvt_tag_source source = {.tags = check->tags, .pool_pages = check->pool_pages};
    source.header = check->layout != NULL;
    if (check->pool_pages == 0) {
        return source;
    } else if (source.header) {
        source.content = check->pool + check->layout->tag_offset;
        source.content_stride = check->layout->page_bytes;
    } else {
        source.content = (const uint8_t *)check->tags + offsetof(struct kvt_page_tag, content);
        source.content_stride = (int64_t)sizeof(struct kvt_page_tag);
    }
    return source;
}

static bool entry_passes(const struct kvt_tag_source *source, int32_t page, uint64_t want,
                         uint64_t mask)
{
    uint64_t content;
    if (page < 0 || page >= source->pool_pages)
        return false;
    memcpy(&content, source->content + page * source->content_stride, sizeof content);
    return (((source->tags[page].owner ^ want) | (content ^ want)) & mask) == 0;
}

static int32_t at_most_a_block(int32_t entries)
{
    return entries < KVT_TAG_BLOCK ? entries : KVT_TAG_BLOCK;
}

/* The entries begin .. limit of one request, of `total` in all. */
static struct finding look(const struct kvt_tag_check *check, const struct kvt_tag_source *source,
                           const struct kvt_tag_block_isa *isa, int32_t begin, int32_t limit,
                           int32_t total)
{
    struct finding finding = {0, 0};
    for (int32_t at = begin, count = 0; at < limit; at += count) {
        const int32_t *page = check->page + at;
        const uint64_t *want = check->want + at;
        count = at_most_a_block(limit - at);
        if (total - at > KVT_TAG_BLOCK) {
            int32_t left = total - at - KVT_TAG_BLOCK;
            isa->fetch(source, page + KVT_TAG_BLOCK, count < left ? count : left);
        }
        if (isa->are_inside(page, count, source->pool_pages) &&
            (isa->differs(source, page, want, count) & check->mask) == 0)
            continue;
        for (int32_t i = 0; i < count; i++)
            if (!entry_passes(source, page[i], want[i], check->mask) && finding.failures++ == 0)
                finding.first = at + i - begin;
    }
    return finding;
}

void kvt_cpu_tag_check(const struct kvt_tag_check *check)
{
    static const struct kvt_tag_block_isa *const all[KVT_ISA_COUNT] = KVT_ISA_VERSIONS(
        &kvt_tag_block_portable, &kvt_tag_block_avx2, &kvt_tag_block_avx2, &kvt_tag_block_avx2);
    const struct kvt_tag_block_isa *isa = all[kvt_isa()];
    struct kvt_tag_source source = source_of(check);
    int32_t requests = check->request_count, failures = 0;
    uint64_t first = UINT64_MAX;
    if (requests > 0 && check->begin[requests] > check->begin[0])
        isa->fetch(&source, check->page + check->begin[0],
                   at_most_a_block(check->begin[requests] - check->begin[0]));
    bool is_large = requests > 1 && check->begin[requests] - check->begin[0] > ALONE;
#pragma omp parallel for schedule(dynamic, 4) reduction(+ : failures) reduction(min : first)       \
    if (is_large)
    for (int32_t r = 0; r < requests; r++) {
        struct finding finding =
            look(check, &source, isa, check->begin[r], check->begin[r + 1], check->begin[requests]);
        uint64_t place = (uint64_t)r << 32 | (uint64_t)finding.first;
        check->failed[r] = finding.failures > 0;
        failures += finding.failures;
        if (finding.failures > 0 && place < first)
            first = place;
    }
    *check->failures = failures;
    *check->first = first;
}
