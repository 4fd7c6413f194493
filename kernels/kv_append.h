/*
 * kv_append.h - new tokens are quantised and written into their pages
 *
 * Token i of a step goes to slot[i] = page * page_tokens + position in the page. A slot of -1 is
 * padding and is skipped. Two tokens of a call never share a slot. Sources are BF16:
 *
 *     GQA   key, value [tokens][kv_heads][head_dim]
 *     MLA   key [tokens][576] (latent, then RoPE); value unused
 *
 *   format      rounding
 *   *_BF16      copied
 *   GQA_FP8     per token and head: scale = kvt_fp8_scale(amax); element = e4m3(x / scale)
 *   MLA_PLAIN   element = e4m3(x / plain_scale), the quotient rounded to float; saturating
 *   MLA_SCALED  per token and 128 of the latent: scale = kvt_fp8_scale(amax); RoPE copied
 *
 * After the last byte of a page that gets tokens its content generation is stamped: tags[page] of
 * the side array (when tags is not NULL), and the page's header (when the layout has one), with
 * stamp[i]. Stamps of the tokens of one page are equal. A late writer thus leaves its own stamp.
 *
 * NaN or infinity in a source: what is copied is copied, an E4M3 element becomes 0x7f (E4M3 has no
 * infinity), and the others of its group are quantised by the largest finite magnitude. *poisoned
 * counts tokens that hold one anywhere, copied parts included. The caller decides (the runtime
 * aborts the request).
 *
 * convert: the pages of a hand-off, from BF16 to an FP8 layout of the same page size, page by page:
 * what append would have written for the same tokens, bit for bit. tokens[i] of page i are valid,
 * the rest of the page is left alone.
 *
 * Cost: append reads 2 bytes an element and writes 1 or 2: at best the machine's copy rate.
 * Bit-exact on every backend.
 */
#ifndef KVT_KERNELS_KV_APPEND_H
#define KVT_KERNELS_KV_APPEND_H

#include "kernels/formats.h"
#include "kernels/kv_page.h"

struct kvt_kv_append {
    const struct kvt_page_layout *layout;
    uint8_t *pool; /* of one layer */
    int32_t pool_pages;
    int32_t tokens;
    const int64_t *slot;       /* [tokens] */
    const kvt_bf16 *key;       /* see above */
    const kvt_bf16 *value;     /* GQA */
    float plain_scale;         /* MLA_PLAIN; > 0 */
    const uint64_t *stamp;     /* [tokens], or NULL: no stamps */
    struct kvt_page_tag *tags; /* [pool_pages] whose content is stamped, or NULL */
    int32_t *poisoned;         /* added to; or NULL */
};

struct kvt_kv_convert {
    const struct kvt_page_layout *from, *to; /* BF16 and FP8, same page_tokens and heads */
    const uint8_t *source;                   /* pools of one layer */
    uint8_t *target;
    int32_t source_pages, target_pages;
    int32_t pages;
    const int32_t *source_page, *target_page; /* [pages] */
    const int32_t *tokens;                    /* [pages] valid tokens */
    float plain_scale;
    const uint64_t *stamp;     /* [pages], or NULL */
    struct kvt_page_tag *tags; /* [target_pages], or NULL */
};

/* Slots in range, not in page 0 and not given twice, stamps of a page's tokens equal, a scale above
 * 0, sizes that fit: KVT_ELIMIT names the first that is not. Host memory only. O(tokens), allocates
 * (KVT_ENOMEM). */
enum kvt_status kvt_kv_append_check(const struct kvt_kv_append *append, struct kvt_err *err);
enum kvt_status kvt_kv_convert_check(const struct kvt_kv_convert *convert, struct kvt_err *err);

/* The stamps of a call, after all of its bytes: the last step of append and convert on the CPU. */
void kvt_kv_append_stamp(const struct kvt_kv_append *append);
void kvt_kv_convert_stamp(const struct kvt_kv_convert *convert);

void kvt_ref_kv_append(const struct kvt_kv_append *append);
void kvt_ref_kv_convert(const struct kvt_kv_convert *convert);
void kvt_cpu_kv_append(const struct kvt_kv_append *append);
void kvt_cpu_kv_convert(const struct kvt_kv_convert *convert);

#endif
