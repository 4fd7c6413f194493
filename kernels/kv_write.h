/*
 * kv_write.h - where the parts of a new token go: the addressing of kv_append.h, written once
 *
 * Included by the files that implement append and convert. Each gives the three functions that
 * touch bytes, as constants, so that they are inlined:
 *
 *     copy    as it is
 *     codes   quantise by a given scale (MLA_PLAIN)
 *     group   quantise by a scale that is chosen by the largest magnitude, and stored
 *
 * All return whether the source holds NaN or infinity.
 */
#ifndef KVT_KERNELS_KV_WRITE_H
#define KVT_KERNELS_KV_WRITE_H

#include "kernels/kv_append.h"

struct kvt_write {
    bool (*copy)(const kvt_bf16 *source, int32_t count, uint8_t *target);
    bool (*codes)(const kvt_bf16 *source, int32_t count, float scale, uint8_t *codes);
    bool (*group)(const kvt_bf16 *source, int32_t count, uint8_t *codes, uint8_t *scale_at);
};

#define KVT_WRITE_INLINE static inline __attribute__((always_inline))

/* stride: elements from one head to the next in key and value. */
KVT_WRITE_INLINE bool write_gqa(const struct kvt_write *write, const struct kvt_page_layout *layout,
                                uint8_t *page, int32_t position, const kvt_bf16 *key,
                                const kvt_bf16 *value, int64_t stride)
{
    bool poisoned = false;
    for (int32_t head = 0; head < layout->kv_heads; head++) {
        int64_t row = (int64_t)head * layout->page_tokens + position;
        uint8_t *k = page + row * layout->token_bytes, *v = k + layout->value_offset;
        if (layout->format == KVT_PAGE_GQA_BF16) {
            poisoned |= write->copy(key + head * stride, layout->head_dim, k);
            poisoned |= write->copy(value + head * stride, layout->head_dim, v);
        } else {
            poisoned |= write->group(key + head * stride, layout->head_dim, k,
                                     page + layout->key_scale_offset + 4 * row);
            poisoned |= write->group(value + head * stride, layout->head_dim, v,
                                     page + layout->value_scale_offset + 4 * row);
        }
    }
    return poisoned;
}

KVT_WRITE_INLINE bool write_mla(const struct kvt_write *write, const struct kvt_page_layout *layout,
                                uint8_t *page, int32_t position, const kvt_bf16 *key,
                                float plain_scale)
{
    uint8_t *token = page + (int64_t)position * layout->token_bytes;
    if (layout->format == KVT_PAGE_MLA_BF16)
        return write->copy(key, KVT_MLA_DIM, token);
    if (layout->format == KVT_PAGE_MLA_PLAIN)
        return write->codes(key, KVT_MLA_DIM, plain_scale, token);
    bool poisoned = false;
    uint8_t *scales = token + KVT_MLA_LATENT;
    for (int32_t g = 0; g < KVT_MLA_GROUPS; g++)
        poisoned |= write->group(key + g * KVT_MLA_SCALE_GROUP, KVT_MLA_SCALE_GROUP,
                                 token + g * KVT_MLA_SCALE_GROUP, scales + 4 * g);
    poisoned |= write->copy(key + KVT_MLA_LATENT, KVT_MLA_ROPE, scales + 4 * KVT_MLA_GROUPS);
    return poisoned;
}

/* Tokens first .. last of a call, without stamps; how many are poisoned. */
KVT_WRITE_INLINE int32_t kvt_write_tokens(const struct kvt_write *write,
                                          const struct kvt_kv_append *append, int32_t first,
                                          int32_t last)
{
    const struct kvt_page_layout *layout = append->layout;
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    int64_t stride = layout->head_dim, width = stride * layout->kv_heads;
    int32_t poisoned = 0;
    for (int32_t i = first; i < last; i++) {
        if (append->slot[i] < 0)
            continue;
        int32_t position = (int32_t)(append->slot[i] & (layout->page_tokens - 1));
        uint8_t *page = append->pool + append->slot[i] / layout->page_tokens * layout->page_bytes;
        const kvt_bf16 *key = append->key + i * width;
        poisoned +=
            mla ? write_mla(write, layout, page, position, key, append->plain_scale)
                : write_gqa(write, layout, page, position, key, append->value + i * width, stride);
    }
    return poisoned;
}

/* Entry i of a conversion, without its stamp. */
KVT_WRITE_INLINE void kvt_write_page(const struct kvt_write *write,
                                     const struct kvt_kv_convert *convert, int32_t i)
{
    const struct kvt_page_layout *from = convert->from, *to = convert->to;
    const uint8_t *source = convert->source + convert->source_page[i] * from->page_bytes;
    uint8_t *target = convert->target + convert->target_page[i] * to->page_bytes;
    for (int32_t t = 0; t < convert->tokens[i]; t++) {
        const kvt_bf16 *key =
            (const kvt_bf16 *)(const void *)(source + (int64_t)t * from->token_bytes);
        if (kvt_page_format_is_mla((enum kvt_page_format)to->format))
            write_mla(write, to, target, t, key, convert->plain_scale);
        else
            write_gqa(write, to, target, t, key, key + from->value_offset / 2,
                      (int64_t)from->page_tokens * from->head_dim);
    }
}

#endif
