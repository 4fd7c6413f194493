#include "kernels/kv_append.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kv_write.h"

/* ---- reference ---- */

#define BF16_INFINITY 0x7f80

static bool is_finite(kvt_bf16 x)
{
    return (x & 0x7fff) < BF16_INFINITY;
}

/* All three return whether the source holds NaN or infinity. */
static bool write_copy(const kvt_bf16 *source, int32_t count, uint8_t *target)
{
    bool poisoned = false;
    for (int32_t i = 0; i < count; i++)
        poisoned |= !is_finite(source[i]);
    memcpy(target, source, (size_t)count * sizeof *source);
    return poisoned;
}

static bool write_codes(const kvt_bf16 *source, int32_t count, float scale, uint8_t *codes)
{
    bool poisoned = false;
    for (int32_t i = 0; i < count; i++) {
        bool finite = is_finite(source[i]);
        codes[i] =
            finite ? kvt_e4m3_from_float(kvt_bf16_to_float(source[i]) / scale) : KVT_E4M3_NAN;
        poisoned |= !finite;
    }
    return poisoned;
}

static bool write_group(const kvt_bf16 *source, int32_t count, uint8_t *codes, uint8_t *scale_at)
{
    float amax = 0;
    for (int32_t i = 0; i < count; i++)
        if (is_finite(source[i]) && fabsf(kvt_bf16_to_float(source[i])) > amax)
            amax = fabsf(kvt_bf16_to_float(source[i]));
    float scale = kvt_fp8_scale(amax);
    memcpy(scale_at, &scale, sizeof scale);
    return write_codes(source, count, scale, codes);
}

static const struct kvt_write plain = {write_copy, write_codes, write_group};

void kvt_ref_kv_append(const struct kvt_kv_append *append)
{
    int32_t poisoned = kvt_write_tokens(&plain, append, 0, append->tokens);
    if (append->poisoned != NULL)
        *append->poisoned += poisoned;
    kvt_kv_append_stamp(append);
}

void kvt_ref_kv_convert(const struct kvt_kv_convert *convert)
{
    for (int32_t i = 0; i < convert->pages; i++)
        kvt_write_page(&plain, convert, i);
    kvt_kv_convert_stamp(convert);
}

/* ---- stamps ---- */

void kvt_kv_append_stamp(const struct kvt_kv_append *append)
{
    for (int32_t i = 0; i < append->tokens && append->stamp != NULL; i++)
        if (append->slot[i] >= 0)
            kvt_page_stamp(append->layout, append->pool, append->tags,
                           append->slot[i] / append->layout->page_tokens, append->stamp[i]);
}

void kvt_kv_convert_stamp(const struct kvt_kv_convert *convert)
{
    for (int32_t i = 0; i < convert->pages && convert->stamp != NULL; i++)
        if (convert->tokens[i] > 0)
            kvt_page_stamp(convert->to, convert->target, convert->tags, convert->target_page[i],
                           convert->stamp[i]);
}

/* ---- check ---- */

/* A set of slots or pages, open addressing; value is the index of the token that put it there. */
struct seen {
    int64_t *key; /* -1: empty */
    int32_t *value;
    uint64_t mask;
};

static enum kvt_status seen_init(struct seen *seen, int32_t count, struct kvt_err *err)
{
    uint64_t size = 16;
    while (size < 2 * (uint64_t)count)
        size *= 2;
    seen->mask = size - 1;
    seen->key = malloc(size * sizeof *seen->key);
    seen->value = malloc(size * sizeof *seen->value);
    if (seen->key == NULL || seen->value == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "append: no memory to look at %d tokens", count);
    memset(seen->key, 0xff, size * sizeof *seen->key);
    return KVT_OK;
}

static void seen_release(struct seen *seen)
{
    free(seen->key);
    free(seen->value);
}

/* The index that put key there before, or -1 and it is put. */
static int32_t seen_put(struct seen *seen, int64_t key, int32_t index)
{
    uint64_t at = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 20 & seen->mask;
    while (seen->key[at] >= 0 && seen->key[at] != key)
        at = (at + 1) & seen->mask;
    if (seen->key[at] == key)
        return seen->value[at];
    seen->key[at] = key;
    seen->value[at] = index;
    return -1;
}

static enum kvt_status plain_scale_check(const char *what, const struct kvt_page_layout *layout,
                                         float scale, struct kvt_err *err)
{
    if (layout->format == KVT_PAGE_MLA_PLAIN && (!(scale > 0) || !isfinite(scale)))
        return kvt_err_set(err, KVT_ELIMIT, "%s: plain_scale is finite and above 0, not %g", what,
                           (double)scale);
    return KVT_OK;
}

static enum kvt_status slot_check(const struct kvt_kv_append *append, int32_t i, struct seen *slots,
                                  struct seen *pages, struct kvt_err *err)
{
    int64_t slot = append->slot[i], tokens = append->layout->page_tokens;
    if (slot == -1)
        return KVT_OK;
    if (slot < tokens || slot >= append->pool_pages * tokens)
        return kvt_err_set(err, KVT_ELIMIT,
                           "append: token %d goes to slot %" PRId64 ", not in %" PRId64 "..%" PRId64
                           " (or -1)",
                           i, slot, tokens, append->pool_pages * tokens - 1);
    int32_t other = seen_put(slots, slot, i);
    if (other >= 0)
        return kvt_err_set(err, KVT_ELIMIT, "append: tokens %d and %d both go to slot %" PRId64,
                           other, i, slot);
    other = append->stamp != NULL ? seen_put(pages, slot / tokens, i) : -1;
    if (other >= 0 && append->stamp[other] != append->stamp[i])
        return kvt_err_set(err, KVT_ELIMIT,
                           "append: tokens %d and %d stamp page %" PRId64 " with %" PRIu64
                           " and %" PRIu64,
                           other, i, slot / tokens, append->stamp[other], append->stamp[i]);
    return KVT_OK;
}

enum kvt_status kvt_kv_append_check(const struct kvt_kv_append *append, struct kvt_err *err)
{
    if (append->tokens < 0 || append->pool_pages < 1)
        return kvt_err_set(err, KVT_ELIMIT, "append: %d tokens into %d pages: both are counts",
                           append->tokens, append->pool_pages);
    KVT_TRY(plain_scale_check("append", append->layout, append->plain_scale, err));
    struct seen slots = {0}, pages = {0};
    enum kvt_status status = seen_init(&slots, append->tokens, err);
    if (status == KVT_OK)
        status = seen_init(&pages, append->tokens, err);
    for (int32_t i = 0; status == KVT_OK && i < append->tokens; i++)
        status = slot_check(append, i, &slots, &pages, err);
    seen_release(&slots);
    seen_release(&pages);
    return status;
}

static enum kvt_status layouts_check(const struct kvt_page_layout *from,
                                     const struct kvt_page_layout *to, struct kvt_err *err)
{
    enum kvt_page_format source = (enum kvt_page_format)from->format;
    enum kvt_page_format target = (enum kvt_page_format)to->format;
    if (kvt_page_format_is_fp8(source) || !kvt_page_format_is_fp8(target) ||
        kvt_page_format_is_mla(source) != kvt_page_format_is_mla(target))
        return kvt_err_set(err, KVT_ELIMIT,
                           "convert: from BF16 to FP8 of the same attention, not from %s to %s",
                           kvt_page_format_name(source), kvt_page_format_name(target));
    if (from->page_tokens != to->page_tokens || from->kv_heads != to->kv_heads ||
        from->head_dim != to->head_dim)
        return kvt_err_set(err, KVT_ELIMIT,
                           "convert: pages of %d tokens, %d heads of %d do not become pages of %d "
                           "tokens, %d heads of %d",
                           from->page_tokens, from->kv_heads, from->head_dim, to->page_tokens,
                           to->kv_heads, to->head_dim);
    return KVT_OK;
}

static enum kvt_status page_check(const struct kvt_kv_convert *convert, int32_t i,
                                  struct seen *targets, struct kvt_err *err)
{
    int32_t source = convert->source_page[i], target = convert->target_page[i];
    if (source < 1 || source >= convert->source_pages)
        return kvt_err_set(err, KVT_ELIMIT, "convert: entry %d: source page %d is not in 1..%d", i,
                           source, convert->source_pages - 1);
    if (target < 1 || target >= convert->target_pages)
        return kvt_err_set(err, KVT_ELIMIT, "convert: entry %d: target page %d is not in 1..%d", i,
                           target, convert->target_pages - 1);
    if (convert->tokens[i] < 0 || convert->tokens[i] > convert->to->page_tokens)
        return kvt_err_set(err, KVT_ELIMIT, "convert: entry %d: %d tokens in a page of %d", i,
                           convert->tokens[i], convert->to->page_tokens);
    int32_t other = seen_put(targets, target, i);
    if (other >= 0)
        return kvt_err_set(err, KVT_ELIMIT, "convert: entries %d and %d both write page %d", other,
                           i, target);
    return KVT_OK;
}

enum kvt_status kvt_kv_convert_check(const struct kvt_kv_convert *convert, struct kvt_err *err)
{
    if (convert->pages < 0 || convert->source_pages < 1 || convert->target_pages < 1)
        return kvt_err_set(err, KVT_ELIMIT, "convert: %d pages from %d to %d pages: all are counts",
                           convert->pages, convert->source_pages, convert->target_pages);
    KVT_TRY(layouts_check(convert->from, convert->to, err));
    KVT_TRY(plain_scale_check("convert", convert->to, convert->plain_scale, err));
    struct seen targets = {0};
    enum kvt_status status = seen_init(&targets, convert->pages, err);
    for (int32_t i = 0; status == KVT_OK && i < convert->pages; i++)
        status = page_check(convert, i, &targets, err);
    seen_release(&targets);
    return status;
}
