/*
 * kv.h - bytes of KV cache per token, as stored and as an engine charges them
 *
 * A slot is what one GPU keeps of one token over its layers:
 *
 *   GQA         2 caches x max(1, kv_heads / attention ranks) x dim x bytes per value
 *   GQA fp8     scaled: an fp32 scale per head of k and of v besides; plain: none (SGLang, vLLM)
 *   MLA         one latent of kv_lora + rope values, the same on every rank: 576 values
 *   MLA fp8     plain: 1 byte a value; scaled: kv_lora bytes + one fp32 scale per 128 + bf16 rope
 *   indexer     index_dim fp8 + one fp32 scale per 128: 132 bytes a layer, never quantised further
 *   nvfp4       half a byte a value + one scale byte per 16
 *
 * Engines differ in three ways. "fp8" means the scaled layout for sparse attention and the plain
 * one otherwise. SGLang keeps an index buffer for layers that share another layer's indices, vLLM
 * does not. SGLang until mid-July 2026 charged sparse fp8 slots as plain ones while it stored
 * scaled ones, so that its pool exceeds its budget by 788/708.
 *
 * With dcp > 1 a token lies on one of dcp GPUs: its cost per GPU is slot / dcp.
 */
#ifndef KVT_MODEL_KV_H
#define KVT_MODEL_KV_H

#include <stdbool.h>

#include "sim/model/layout.h"
#include "sim/model/model.h"

struct kvt_kv_want {
    enum kvt_engine engine;
    enum kvt_kv_dtype dtype;
    struct kvt_layout layout;
    int32_t draft_layers; /* layers of the draft model that keep KV: 1 with MTP/EAGLE, else 0 */
    bool charge_scaled;   /* sglang: charge what is stored (fixed in mid-July 2026) */
};

struct kvt_kv_slot {
    int64_t stored_bytes;  /* per token slot and GPU */
    int64_t charged_bytes; /* what the engine divides its budget by */
    int64_t window_bytes;  /* of stored_bytes: layers with a sliding window */
    int64_t index_bytes;   /* of stored_bytes: indexer */
};

/* KVT_ECONFIG when the dtype has no layout for this attention. */
enum kvt_status kvt_kv_slot(const struct kvt_model *model, const struct kvt_kv_want *want,
                            struct kvt_kv_slot *slot, struct kvt_err *err);

#endif
