/*
 * kv_page.h - where the bytes of a token lie in a KV page
 *
 * A page holds page_tokens tokens of one layer. A pool is one block of memory per layer, pages one
 * after the other: page p of the pool starts at pool + p * page_bytes. Page 0 is the padding page:
 * nobody owns it, its bytes are never read into a result.
 *
 *   format       a token holds                                       bytes of a token
 *   GQA_BF16     K and V, BF16                                       4 * kv_heads * head_dim
 *   GQA_FP8      K and V, E4M3, one float scale each per head        2 * kv_heads * (head_dim + 4)
 *   MLA_BF16     latent (512) and RoPE part (64), BF16               1152
 *   MLA_PLAIN    the same in E4M3, one scale for the whole tensor    576
 *   MLA_SCALED   512 E4M3, 4 float scales (one per 128), 64 BF16     656
 *
 *   GQA page     K [kv_head][token][head_dim], V the same, then for FP8
 *                K scales float [kv_head][token], V scales the same
 *   MLA page     [token][bytes of a token]
 *   header       with tag_bytes 16, behind all that: uint64 content generation, uint64 that kernels
 *                leave alone (room for a canary); it travels with a page that is sent
 *
 * page_bytes is rounded up to 64; bytes of rounding are never read. latent and rope are 512 and 64
 * everywhere; scales of MLA_SCALED stand for 128 elements each. Source of the 656 bytes: FlashMLA;
 * of 576: SGLang's default.
 */
#ifndef KVT_KERNELS_KV_PAGE_H
#define KVT_KERNELS_KV_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

#define KVT_MLA_LATENT       512
#define KVT_MLA_ROPE         64
#define KVT_MLA_DIM          (KVT_MLA_LATENT + KVT_MLA_ROPE)
#define KVT_MLA_SCALE_GROUP  128
#define KVT_MLA_GROUPS       (KVT_MLA_LATENT / KVT_MLA_SCALE_GROUP)
#define KVT_MLA_SCALED_BYTES 656

enum kvt_page_format {
    KVT_PAGE_GQA_BF16,
    KVT_PAGE_GQA_FP8,
    KVT_PAGE_MLA_BF16,
    KVT_PAGE_MLA_PLAIN,
    KVT_PAGE_MLA_SCALED,
    KVT_PAGE_FORMATS
};

struct kvt_page_layout {
    int32_t format; /* enum kvt_page_format */
    int32_t page_tokens;
    int32_t kv_heads, head_dim; /* GQA; MLA: 1 and KVT_MLA_DIM */
    int32_t value_dim;          /* GQA: head_dim; MLA: KVT_MLA_LATENT */
    int32_t token_bytes;        /* MLA: stride between tokens; GQA: of one head's K */
    int64_t value_offset;       /* GQA: V */
    int64_t key_scale_offset, value_scale_offset; /* GQA_FP8 */
    int64_t tag_offset;                           /* of the header; -1: none */
    int64_t page_bytes;
};

/* The two generations of a page (tag_check.h says what they are for). */
struct kvt_page_tag {
    uint64_t owner, content;
};

/* "gqa-bf16", ... */
const char *kvt_page_format_name(enum kvt_page_format format);
bool kvt_page_format_is_mla(enum kvt_page_format format);
bool kvt_page_format_is_fp8(enum kvt_page_format format);

/* Bytes of an element of K as stored: 1 or 2. The RoPE part of MLA_SCALED has 2 all the same. */
static inline int32_t kvt_page_element_bytes(const struct kvt_page_layout *layout)
{
    return layout->format == KVT_PAGE_GQA_BF16 || layout->format == KVT_PAGE_MLA_BF16 ? 2 : 1;
}

/* kv_heads and head_dim are those of one GPU and are ignored for MLA. KVT_ELIMIT says what is
 * wanted: page_tokens a power of two in 1..256; head_dim 64, 128 or 256; kv_heads 1..128; tag_bytes
 * 0 or 16. */
enum kvt_status kvt_page_layout_init(struct kvt_page_layout *layout, enum kvt_page_format format,
                                     int32_t page_tokens, int32_t kv_heads, int32_t head_dim,
                                     int32_t tag_bytes, struct kvt_err *err);

/* Stamp a page that has just been written: its header, when the layout has one, and tags[page]
 * unless tags is NULL. */
void kvt_page_stamp(const struct kvt_page_layout *layout, uint8_t *pool, struct kvt_page_tag *tags,
                    int64_t page, uint64_t stamp);

/* What a page means, in double precision (exact): K of one token and kv head, [head_dim], and V,
 * [value_dim]. Either may be NULL. For tests and for kvt_ref_attention; slow. */
void kvt_page_dequantise(const struct kvt_page_layout *layout, const uint8_t *page, int32_t token,
                         int32_t kv_head, float plain_scale, double *key, double *value);

#endif
