/* Both generations of a page are one load of 16 bytes, and what is wanted stands there twice. */
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/tag_check_block.h"

static bool are_inside(const int32_t *page, int32_t count, int32_t pool_pages)
{
    __m256i outside = _mm256_setzero_si256(), last = _mm256_set1_epi32(pool_pages - 1);
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i ids = _mm256_loadu_si256((const __m256i *)(const void *)(page + i));
        outside = _mm256_or_si256(outside, _mm256_or_si256(ids, _mm256_sub_epi32(last, ids)));
    }
    bool inside = _mm256_movemask_ps(_mm256_castsi256_ps(outside)) == 0;
    for (; i < count; i++)
        inside = inside && page[i] >= 0 && page[i] < pool_pages;
    return inside;
}

static void fetch(const struct kvt_tag_source *source, const int32_t *page, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        _mm_prefetch(kvt_tag_place(source->tags, page[i], 16), _MM_HINT_T0);
    if (source->header)
        for (int32_t i = 0; i < count; i++)
            _mm_prefetch(kvt_tag_place(source->content, page[i], source->content_stride),
                         _MM_HINT_T0);
}

static inline __m128i difference(const struct kvt_tag_source *source, int32_t page, uint64_t want)
{
    __m128i tags = _mm_loadu_si128((const __m128i *)(const void *)&source->tags[page]);
    if (source->header) {
        uint64_t content;
        memcpy(&content, source->content + page * source->content_stride, sizeof content);
        tags = _mm_unpacklo_epi64(tags, _mm_cvtsi64_si128((int64_t)content));
    }
    return _mm_xor_si128(tags, _mm_set1_epi64x((int64_t)want));
}

static uint64_t differs(const struct kvt_tag_source *source, const int32_t *page,
                        const uint64_t *want, int32_t count)
{
    __m128i even = _mm_setzero_si128(), odd = even;
    int32_t i = 0;
    for (; i + 2 <= count; i += 2) {
        even = _mm_or_si128(even, difference(source, page[i], want[i]));
        odd = _mm_or_si128(odd, difference(source, page[i + 1], want[i + 1]));
    }
    if (i < count)
        even = _mm_or_si128(even, difference(source, page[i], want[i]));
    even = _mm_or_si128(even, odd);
    return (uint64_t)_mm_extract_epi64(even, 0) | (uint64_t)_mm_extract_epi64(even, 1);
}

const struct kvt_tag_block_isa kvt_tag_block_avx2 = {fetch, are_inside, differs};
