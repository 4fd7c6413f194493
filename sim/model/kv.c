#include "sim/model/kv.h"

#include "sim/base/assert.h"

#define SCALE_GROUP 128 /* values per fp32 scale, in scaled fp8 slots and index slots */
#define NVFP4_GROUP 16  /* values per scale byte */
#define BF16_BYTES  2
#define FP32_BYTES  4

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Bytes of `values` cached values in a dtype that treats all alike. */
static int64_t values_bytes(int64_t values, enum kvt_kv_dtype dtype)
{
    switch (dtype) {
    case KVT_KV_BF16:
        return values * BF16_BYTES;
    case KVT_KV_FP8:
    case KVT_KV_FP8_PLAIN:
    case KVT_KV_FP8_SCALED:
        return values;
    case KVT_KV_NVFP4:
        return ceil_div(values, 2) + ceil_div(values, NVFP4_GROUP);
    case KVT_KV_DTYPE_COUNT:
        break;
    }
    kvt_unreachable();
}

static enum kvt_kv_dtype resolve(const struct kvt_attention *attention, enum kvt_kv_dtype dtype)
{
    if (attention->kind != KVT_ATTENTION_MLA || dtype != KVT_KV_FP8)
        return dtype;
    return attention->index_heads > 0 ? KVT_KV_FP8_SCALED : KVT_KV_FP8_PLAIN;
}

static int64_t latent_bytes(const struct kvt_attention *a, enum kvt_kv_dtype dtype)
{
    if (dtype != KVT_KV_FP8_SCALED)
        return values_bytes(a->kv_lora + a->rope, dtype);
    return a->kv_lora + FP32_BYTES * ceil_div(a->kv_lora, SCALE_GROUP) +
           (int64_t)a->rope * BF16_BYTES;
}

static int64_t index_bytes(const struct kvt_attention *a, enum kvt_engine engine)
{
    if (a->index_heads == 0 || (a->index_shared && engine == KVT_ENGINE_VLLM))
        return 0;
    return a->index_dim + FP32_BYTES * ceil_div(a->index_dim, SCALE_GROUP);
}

static int64_t cache_bytes(const struct kvt_attention *a, const struct kvt_layout *layout,
                           enum kvt_kv_dtype dtype)
{
    int32_t ranks = kvt_layout_attention_tp(layout);
    int64_t heads = ranks >= a->kv_heads ? 1 : ceil_div(a->kv_heads, ranks);
    return heads * (values_bytes(a->head_dim, dtype) + values_bytes(a->v_dim, dtype));
}

int64_t kvt_kv_layer_bytes(const struct kvt_attention *a, const struct kvt_kv_want *want)
{
    if (a->kind == KVT_ATTENTION_NONE)
        return 0;
    if (a->kind == KVT_ATTENTION_GQA)
        return cache_bytes(a, &want->layout, want->dtype);
    return latent_bytes(a, resolve(a, want->dtype)) + index_bytes(a, want->engine);
}

static int64_t layer_charge(const struct kvt_attention *a, const struct kvt_kv_want *want)
{
    int64_t stored = kvt_kv_layer_bytes(a, want);
    bool scaled = a->kind == KVT_ATTENTION_MLA && a->index_heads > 0 &&
                  resolve(a, want->dtype) == KVT_KV_FP8_SCALED;
    if (!scaled || want->engine != KVT_ENGINE_SGLANG || want->charge_scaled)
        return stored;
    return stored - latent_bytes(a, KVT_KV_FP8_SCALED) + latent_bytes(a, KVT_KV_FP8_PLAIN);
}

enum kvt_status kvt_kv_slot(const struct kvt_model *model, const struct kvt_kv_want *want,
                            struct kvt_kv_slot *slot, struct kvt_err *err)
{
    *slot = (struct kvt_kv_slot){0};
    for (int32_t g = 0; g <= model->group_count; g++) {
        bool draft = g == model->group_count;
        const struct kvt_layer_group *group = draft ? &model->mtp : &model->groups[g];
        const struct kvt_attention *a = &group->attention;
        int64_t layers = draft ? want->draft_layers : ceil_div(group->count, want->layout.pp);
        if (layers == 0)
            continue;
        if (draft && a->kind == KVT_ATTENTION_NONE) /* a draft model of its own: like the last */
            a = &model->groups[model->group_count - 1].attention;
        if (want->dtype == KVT_KV_FP8_SCALED && a->kind == KVT_ATTENTION_GQA)
            return kvt_err_set(err, KVT_ECONFIG,
                               "model %s: fp8-scaled is a layout of MLA; want bf16, fp8 or nvfp4 "
                               "for grouped-query attention",
                               model->name);
        int64_t stored = kvt_kv_layer_bytes(a, want) * layers;
        slot->stored_bytes += stored;
        slot->charged_bytes += layer_charge(a, want) * layers;
        if (a->window > 0)
            slot->window_bytes += stored;
        if (a->kind == KVT_ATTENTION_MLA)
            slot->index_bytes += index_bytes(a, want->engine) * layers;
    }
    if (slot->stored_bytes == 0)
        return kvt_err_set(err, KVT_ECONFIG, "model %s: no layer keeps KV", model->name);
    return KVT_OK;
}

int64_t kvt_kv_request_bytes(const struct kvt_model *model, const struct kvt_kv_want *want,
                             int64_t context)
{
    int64_t bytes = 0;
    for (int32_t g = 0; g <= model->group_count; g++) {
        bool draft = g == model->group_count;
        const struct kvt_layer_group *group = draft ? &model->mtp : &model->groups[g];
        const struct kvt_attention *a = &group->attention;
        int64_t layers = draft ? want->draft_layers : ceil_div(group->count, want->layout.pp);
        int64_t tokens = a->window > 0 && a->window < context ? a->window : context;
        bytes += kvt_kv_layer_bytes(a, want) * layers * tokens;
    }
    return ceil_div(bytes, want->layout.dcp);
}

int32_t kvt_model_window(const struct kvt_model *model)
{
    int32_t window = 0;
    for (int32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].attention.window > window)
            window = model->groups[g].attention.window;
    return window;
}
