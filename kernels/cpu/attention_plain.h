/*
 * attention_plain.h - attention in plain C and FP32, 16 tokens at a time
 *
 * Included by attention_portable.c and attention_avx2.c only: the same text, compiled for two
 * instruction sets. All tokens are dequantised to FP32 first; MLA_PLAIN's scale goes to the score
 * and (attention.c) to the result. Nothing here knows about pages but plain_load().
 */
#ifndef KVT_KERNELS_CPU_ATTENTION_PLAIN_H
#define KVT_KERNELS_CPU_ATTENTION_PLAIN_H

#include <float.h>

#include "kernels/cpu/attention_finish.h"
#include "sim/base/assert.h"

#define PLAIN_TOKENS 16

struct plain_block {
    _Alignas(64) float key[PLAIN_TOKENS][KVT_KEY_MAX];
    _Alignas(64) float value[PLAIN_TOKENS][KVT_VALUE_MAX];
    _Alignas(64) float p[KVT_TASK_HEADS][PLAIN_TOKENS];
    _Alignas(64) float q[KVT_TASK_HEADS][KVT_KEY_MAX];
};

static inline float plain_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void plain_bf16(const uint8_t *from, int32_t count, float *to)
{
    const kvt_bf16 *in = (const kvt_bf16 *)(const void *)from;
#pragma omp simd
    for (int32_t i = 0; i < count; i++)
        to[i] = plain_float((uint32_t)in[i] << 16);
}

static inline void plain_e4m3(const uint8_t *in, int32_t count, float scale, float *to)
{
#pragma omp simd
    for (int32_t i = 0; i < count; i++) {
        int32_t code = in[i] & 0x7f;
        float small = (float)code * 0x1p-9f;
        float normal = plain_float(((uint32_t)code << 20) + (120u << 23));
        float magnitude = code < 8 ? small : normal;
        magnitude = code == KVT_E4M3_NAN ? NAN : magnitude;
        to[i] = (in[i] & 0x80 ? -magnitude : magnitude) * scale;
    }
}

static inline void plain_mla_scaled(const uint8_t *token, float *to)
{
    const uint8_t *scales = token + KVT_MLA_LATENT;
    for (int32_t g = 0; g < KVT_MLA_GROUPS; g++) {
        float scale;
        memcpy(&scale, scales + 4 * g, sizeof scale);
        plain_e4m3(token + g * KVT_MLA_SCALE_GROUP, KVT_MLA_SCALE_GROUP, scale,
                   to + g * KVT_MLA_SCALE_GROUP);
    }
    plain_bf16(scales + 4 * KVT_MLA_GROUPS, KVT_MLA_ROPE, to + KVT_MLA_LATENT);
}

/* Token t of a run into row `to` of the block. */
static inline void plain_token(const struct kvt_page_layout *layout, const struct kvt_kv_run *run,
                               int32_t t, struct plain_block *block, int32_t to)
{
    const uint8_t *key = run->key + (int64_t)t * layout->token_bytes;
    const uint8_t *value = run->value + (int64_t)t * layout->token_bytes;
    switch ((enum kvt_page_format)layout->format) {
    case KVT_PAGE_GQA_BF16:
        plain_bf16(key, layout->head_dim, block->key[to]);
        plain_bf16(value, layout->head_dim, block->value[to]);
        return;
    case KVT_PAGE_GQA_FP8:
        kvt_assert(run->key_scale != NULL && run->value_scale != NULL);
        plain_e4m3(key, layout->head_dim, run->key_scale[t], block->key[to]);
        plain_e4m3(value, layout->head_dim, run->value_scale[t], block->value[to]);
        return;
    case KVT_PAGE_MLA_BF16:
        plain_bf16(key, KVT_MLA_DIM, block->key[to]);
        break;
    case KVT_PAGE_MLA_PLAIN:
        plain_e4m3(key, KVT_MLA_DIM, 1, block->key[to]);
        break;
    case KVT_PAGE_MLA_SCALED:
        plain_mla_scaled(key, block->key[to]);
        break;
    case KVT_PAGE_FORMATS:
        return;
    }
    memcpy(block->value[to], block->key[to], sizeof block->value[to]);
}

static inline int32_t plain_load(const struct kvt_attention_task *task, int32_t token,
                                 struct plain_block *block)
{
    int32_t count = 0;
    while (count < PLAIN_TOKENS && token + count < task->last_token) {
        int32_t limit = task->last_token - token - count;
        struct kvt_kv_run run = kvt_kv_run_at(
            task, token + count, limit < PLAIN_TOKENS - count ? limit : PLAIN_TOKENS - count);
        for (int32_t t = 0; t < run.tokens; t++)
            plain_token(task->call->layout, &run, t, block, count + t);
        count += run.tokens;
    }
    return count;
}

/* 2^x for x up to 127; below -126 it stays at 2^-126, which no sum notices. NaN stays NaN. */
static inline float plain_exp2(float x)
{
    x = x < -126 ? -126 : x;
    float shifted = x + 0x1.8p23f, f = x - (shifted - 0x1.8p23f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    float p = 1.535336188e-4f;
    p = p * f + 1.339887440e-3f;
    p = p * f + 9.618437357e-3f;
    p = p * f + 5.550332548e-2f;
    p = p * f + 2.402264791e-1f;
    p = p * f + 6.931472028e-1f;
    p = p * f + 1.0f;
    return p * plain_float((bits + 127) << 23);
}

/* One head: scores of the block, and its p; sum and out follow the maximum when it grows. */
static inline void plain_head(struct plain_block *block, int32_t head, int32_t tokens,
                              int32_t key_dim, int32_t value_dim,
                              const struct kvt_attention_partial *to)
{
    float *p = block->p[head], *out = to->out + (int64_t)head * value_dim;
    const float *q = block->q[head];
    float max = to->max[head];
    for (int32_t t = 0; t < tokens; t++) {
        const float *key = block->key[t];
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int32_t d = 0; d < key_dim; d++)
            dot += q[d] * key[d];
        p[t] = dot;
        max = dot > max ? dot : max;
    }
    if (max > to->max[head]) {
        float keep = plain_exp2(to->max[head] - max);
        to->max[head] = max;
        to->sum[head] *= keep;
#pragma omp simd
        for (int32_t d = 0; d < value_dim; d++)
            out[d] *= keep;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int32_t t = 0; t < tokens; t++) {
        p[t] = plain_exp2(p[t] - max);
        sum += p[t];
    }
    to->sum[head] += sum;
    for (int32_t t = 0; t < tokens; t++) {
        const float *value = block->value[t];
        float weight = p[t];
#pragma omp simd
        for (int32_t d = 0; d < value_dim; d++)
            out[d] += weight * value[d];
    }
}

static inline void plain_piece(const struct kvt_attention_task *task,
                               const struct kvt_attention_partial *to)
{
    const struct kvt_attention_call *call = task->call;
    const struct kvt_page_layout *layout = call->layout;
    struct plain_block block;
    float scale = call->scale * 1.44269504089f;
    if (layout->format == KVT_PAGE_MLA_PLAIN)
        scale *= call->plain_scale;
    for (int32_t h = 0; h < task->heads; h++) {
        plain_bf16((const uint8_t *)kvt_task_q(task, h), layout->head_dim, block.q[h]);
        for (int32_t d = 0; d < layout->head_dim; d++)
            block.q[h][d] *= scale;
        to->max[h] = -FLT_MAX;
        to->sum[h] = 0;
        memset(to->out + (int64_t)h * layout->value_dim, 0,
               (size_t)layout->value_dim * sizeof *to->out);
    }
    for (int32_t token = task->first_token; token < task->last_token; token += PLAIN_TOKENS) {
        int32_t tokens = plain_load(task, token, &block);
        for (int32_t h = 0; h < task->heads; h++)
            plain_head(&block, h, tokens, layout->head_dim, layout->value_dim, to);
    }
}

#endif
