#include "sim/model/kv.h"

#include "sim/base/assert.h"
#include "sim/base/ticks.h"

#define SCALE_GROUP 128 /* values per fp32 scale, in scaled fp8 slots and index slots */
#define NVFP4_GROUP 16  /* values per scale byte */
#define BF16_BYTES  2
#define FP32_BYTES  4

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
        return kvt_div_ceil(values, 2) + kvt_div_ceil(values, NVFP4_GROUP);
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
    return a->kv_lora + FP32_BYTES * kvt_div_ceil(a->kv_lora, SCALE_GROUP) +
           (int64_t)a->rope * BF16_BYTES;
}

static int64_t index_bytes(const struct kvt_attention *a, enum kvt_engine engine)
{
    if (a->index_heads == 0 || (a->index_shared && engine == KVT_ENGINE_VLLM))
        return 0;
    return a->index_dim + FP32_BYTES * kvt_div_ceil(a->index_dim, SCALE_GROUP);
}

static int64_t cache_bytes(const struct kvt_attention *a, const struct kvt_layout *layout,
                           enum kvt_kv_dtype dtype)
{
    int32_t ranks = kvt_layout_attention_tp(layout);
    int64_t heads = ranks >= a->kv_heads ? 1 : kvt_div_ceil(a->kv_heads, ranks);
    int64_t scales = dtype == KVT_KV_FP8_SCALED ? 2 * FP32_BYTES : 0; /* of a head's k and v */
    return heads * (values_bytes(a->head_dim, dtype) + values_bytes(a->v_dim, dtype) + scales);
}

/* Bytes of one layer's slot, per token and GPU. */
static int64_t layer_bytes(const struct kvt_attention *a, const struct kvt_kv_want *want)
{
    if (a->kind == KVT_ATTENTION_NONE)
        return 0;
    if (a->kind == KVT_ATTENTION_GQA)
        return cache_bytes(a, &want->layout, want->dtype);
    return latent_bytes(a, resolve(a, want->dtype)) + index_bytes(a, want->engine);
}

static int64_t layer_charge(const struct kvt_attention *a, const struct kvt_kv_want *want)
{
    int64_t stored = layer_bytes(a, want);
    bool scaled = a->kind == KVT_ATTENTION_MLA && a->index_heads > 0 &&
                  resolve(a, want->dtype) == KVT_KV_FP8_SCALED;
    if (!scaled || want->engine != KVT_ENGINE_SGLANG || want->charge_scaled)
        return stored;
    return stored - latent_bytes(a, KVT_KV_FP8_SCALED) + latent_bytes(a, KVT_KV_FP8_PLAIN);
}

/* Of a model's bytes, those of the fullest pipeline stage. */
static int64_t stage_bytes(const struct kvt_model *model, const struct kvt_kv_want *want,
                           int64_t bytes)
{
    return kvt_muldiv_ceil(bytes, kvt_div_ceil(model->layers, want->layout.pp), model->layers);
}

/* A draft layer attends like the MTP layer, or like the last layer where the model has none. */
static const struct kvt_attention *draft_attention(const struct kvt_model *model)
{
    if (model->mtp_layers > 0)
        return &model->mtp.attention;
    return &model->groups[model->group_count - 1].attention;
}

static void slot_add(struct kvt_kv_slot *slot, const struct kvt_attention *a,
                     const struct kvt_kv_want *want, int64_t layers)
{
    int64_t stored = layer_bytes(a, want) * layers;
    slot->stored_bytes += stored;
    slot->charged_bytes += layer_charge(a, want) * layers;
    if (a->window > 0)
        slot->window_bytes += stored;
    if (a->kind == KVT_ATTENTION_MLA)
        slot->index_bytes += index_bytes(a, want->engine) * layers;
}

enum kvt_status kvt_kv_slot(const struct kvt_model *model, const struct kvt_kv_want *want,
                            struct kvt_kv_slot *slot, struct kvt_err *err)
{
    *slot = (struct kvt_kv_slot){0};
    for (int32_t g = 0; g < model->group_count; g++) {
        const struct kvt_attention *a = &model->groups[g].attention;
        slot_add(slot, a, want, model->groups[g].count);
    }
    slot->stored_bytes = stage_bytes(model, want, slot->stored_bytes);
    slot->charged_bytes = stage_bytes(model, want, slot->charged_bytes);
    slot->window_bytes = stage_bytes(model, want, slot->window_bytes);
    slot->index_bytes = stage_bytes(model, want, slot->index_bytes);
    slot_add(slot, draft_attention(model), want, want->draft_layers);
    if (slot->stored_bytes == 0)
        return kvt_err_set(err, KVT_ECONFIG, "model %s: no layer keeps KV", model->name);
    return KVT_OK;
}
