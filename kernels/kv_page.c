#include "kernels/kv_page.h"

#include <string.h>

#include "kernels/formats.h"
#include "sim/base/assert.h"

#define PAGE_ALIGN 64

const char *kvt_page_format_name(enum kvt_page_format format)
{
    static const char *const names[KVT_PAGE_FORMATS] = {"gqa-bf16", "gqa-fp8", "mla-bf16",
                                                        "mla-plain", "mla-scaled"};
    kvt_assert((unsigned)format < KVT_PAGE_FORMATS);
    return names[format];
}

bool kvt_page_format_is_mla(enum kvt_page_format format)
{
    return format >= KVT_PAGE_MLA_BF16;
}

bool kvt_page_format_is_fp8(enum kvt_page_format format)
{
    return format != KVT_PAGE_GQA_BF16 && format != KVT_PAGE_MLA_BF16;
}

static enum kvt_status sizes_check(enum kvt_page_format format, int32_t page_tokens,
                                   int32_t kv_heads, int32_t head_dim, int32_t tag_bytes,
                                   struct kvt_err *err)
{
    if ((unsigned)format >= KVT_PAGE_FORMATS)
        return kvt_err_set(err, KVT_ELIMIT, "page layout: no format has number %d", (int)format);
    const char *name = kvt_page_format_name(format);
    if (page_tokens < 1 || page_tokens > 256 || (page_tokens & (page_tokens - 1)) != 0)
        return kvt_err_set(err, KVT_ELIMIT,
                           "page layout %s: page_tokens is a power of two in 1..256, not %d", name,
                           page_tokens);
    if (tag_bytes != 0 && tag_bytes != 16)
        return kvt_err_set(err, KVT_ELIMIT, "page layout %s: tag_bytes is 0 or 16, not %d", name,
                           tag_bytes);
    if (kvt_page_format_is_mla(format))
        return KVT_OK;
    if (head_dim != 64 && head_dim != 128 && head_dim != 256)
        return kvt_err_set(err, KVT_ELIMIT, "page layout %s: head_dim is 64, 128 or 256, not %d",
                           name, head_dim);
    if (kv_heads < 1 || kv_heads > 128)
        return kvt_err_set(err, KVT_ELIMIT, "page layout %s: kv_heads is in 1..128, not %d", name,
                           kv_heads);
    return KVT_OK;
}

enum kvt_status kvt_page_layout_init(struct kvt_page_layout *layout, enum kvt_page_format format,
                                     int32_t page_tokens, int32_t kv_heads, int32_t head_dim,
                                     int32_t tag_bytes, struct kvt_err *err)
{
    KVT_TRY(sizes_check(format, page_tokens, kv_heads, head_dim, tag_bytes, err));
    bool mla = kvt_page_format_is_mla(format);
    *layout = (struct kvt_page_layout){
        .format = (int32_t)format,
        .page_tokens = page_tokens,
        .kv_heads = mla ? 1 : kv_heads,
        .head_dim = mla ? KVT_MLA_DIM : head_dim,
        .value_dim = mla ? KVT_MLA_LATENT : head_dim,
    };
    int32_t element = kvt_page_element_bytes(layout);
    layout->token_bytes =
        format == KVT_PAGE_MLA_SCALED ? KVT_MLA_SCALED_BYTES : layout->head_dim * element;
    int64_t half = (int64_t)layout->kv_heads * page_tokens * layout->token_bytes;
    int64_t bytes = half;
    if (!mla) {
        layout->value_offset = half;
        bytes += half;
    }
    if (format == KVT_PAGE_GQA_FP8) {
        int64_t scales = (int64_t)kv_heads * page_tokens * (int64_t)sizeof(float);
        layout->key_scale_offset = bytes;
        layout->value_scale_offset = bytes + scales;
        bytes += 2 * scales;
    }
    layout->tag_offset = tag_bytes > 0 ? bytes : -1;
    bytes += tag_bytes;
    layout->page_bytes = (bytes + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
    return KVT_OK;
}

void kvt_page_stamp(const struct kvt_page_layout *layout, uint8_t *pool, struct kvt_page_tag *tags,
                    int64_t page, uint64_t stamp)
{
    if (layout->tag_offset >= 0)
        memcpy(pool + page * layout->page_bytes + layout->tag_offset, &stamp, sizeof stamp);
    if (tags != NULL)
        tags[page].content = stamp;
}

static double bf16_at(const uint8_t *bytes, int32_t i)
{
    kvt_bf16 value;
    memcpy(&value, bytes + 2 * i, sizeof value);
    return (double)kvt_bf16_to_float(value);
}

static float float_at(const uint8_t *bytes, int64_t i)
{
    float value;
    memcpy(&value, bytes + 4 * i, sizeof value);
    return value;
}

static void decode_bf16(const uint8_t *bytes, int32_t count, double *out)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = bf16_at(bytes, i);
}

static void decode_e4m3(const uint8_t *bytes, int32_t count, double scale, double *out)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (double)kvt_e4m3_to_float(bytes[i]) * scale;
}

static void mla_token(const struct kvt_page_layout *layout, const uint8_t *token, float plain_scale,
                      double out[KVT_MLA_DIM])
{
    if (layout->format == KVT_PAGE_MLA_BF16) {
        decode_bf16(token, KVT_MLA_DIM, out);
    } else if (layout->format == KVT_PAGE_MLA_PLAIN) {
        decode_e4m3(token, KVT_MLA_DIM, (double)plain_scale, out);
    } else {
        const uint8_t *scales = token + KVT_MLA_LATENT;
        for (int32_t g = 0; g < KVT_MLA_GROUPS; g++)
            decode_e4m3(token + g * KVT_MLA_SCALE_GROUP, KVT_MLA_SCALE_GROUP,
                        (double)float_at(scales, g), out + g * KVT_MLA_SCALE_GROUP);
        decode_bf16(scales + 4 * KVT_MLA_GROUPS, KVT_MLA_ROPE, out + KVT_MLA_LATENT);
    }
}

void kvt_page_dequantise(const struct kvt_page_layout *layout, const uint8_t *page, int32_t token,
                         int32_t kv_head, float plain_scale, double *key, double *value)
{
    kvt_assert(token >= 0 && token < layout->page_tokens);
    kvt_assert(kv_head >= 0 && kv_head < layout->kv_heads);
    int64_t row = (int64_t)kv_head * layout->page_tokens + token;
    if (kvt_page_format_is_mla((enum kvt_page_format)layout->format)) {
        double whole[KVT_MLA_DIM];
        mla_token(layout, page + row * layout->token_bytes, plain_scale, whole);
        if (key != NULL)
            memcpy(key, whole, sizeof whole);
        if (value != NULL)
            memcpy(value, whole, KVT_MLA_LATENT * sizeof *value);
        return;
    }
    const uint8_t *sides[2] = {page, page + layout->value_offset};
    const int64_t scales[2] = {layout->key_scale_offset, layout->value_scale_offset};
    double *outs[2] = {key, value};
    for (int side = 0; side < 2; side++) {
        const uint8_t *bytes = sides[side] + row * layout->token_bytes;
        if (outs[side] == NULL)
            continue;
        if (layout->format == KVT_PAGE_GQA_BF16)
            decode_bf16(bytes, layout->head_dim, outs[side]);
        else
            decode_e4m3(bytes, layout->head_dim, (double)float_at(page + scales[side], row),
                        outs[side]);
    }
}
