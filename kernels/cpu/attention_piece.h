/*
 * attention_piece.h - what an instruction set has to do for attention on the CPU
 *
 * attention.c walks the pieces of a split and hands each to the instruction set in use, at most 16
 * heads of one row at a time: a task. A task leaves a partial result,
 *
 *     max [heads]              in units of log2: scores are scaled by log2(e) at once
 *     sum [heads]              of p = exp2(score - max)
 *     out [heads][value_dim]   sum of p v
 *
 * where max need not be the true maximum, only near enough that nothing overflows (lazy rescaling).
 * finish() divides by the sum, merge() adds parts of a unit up beforehand.
 *
 * This header also knows where the tokens of a task lie (kv_runs): tokens of one page that follow
 * each other are a run. Scratch is on the stack of the thread, up to 300 KB.
 */
#ifndef KVT_KERNELS_CPU_ATTENTION_PIECE_H
#define KVT_KERNELS_CPU_ATTENTION_PIECE_H

#include "kernels/attention.h"

#define KVT_TASK_HEADS 16
#define KVT_VALUE_MAX  512
#define KVT_KEY_MAX    KVT_MLA_DIM

struct kvt_attention_task {
    const struct kvt_attention_call *call;
    int32_t row, kv_head;
    int32_t head, heads;             /* of the row: first, count */
    int32_t first_token, last_token; /* last_token not included */
};

struct kvt_attention_partial {
    float *max, *sum, *out;
};

struct kvt_attention_isa {
    void (*piece)(const struct kvt_attention_task *task, const struct kvt_attention_partial *to);
    /* heads rows of value_dim; lse may be NULL. scale multiplies what is written to out. */
    void (*finish)(const struct kvt_attention_partial *from, int32_t heads, int32_t value_dim,
                   float scale, kvt_bf16 *out, float *lse);
    /* to := the sum of count partials, each slot_floats behind the other. */
    void (*merge)(const struct kvt_attention_partial *first, int64_t slot_floats, int32_t count,
                  int32_t heads, int32_t value_dim, const struct kvt_attention_partial *to);
};

extern const struct kvt_attention_isa kvt_attention_portable, kvt_attention_avx2,
    kvt_attention_avx512, kvt_attention_amx;

/* A run: tokens of one page, one after the other. */
struct kvt_kv_run {
    const uint8_t *page, *key, *value;    /* of its first token */
    const float *key_scale, *value_scale; /* GQA_FP8: the same; else NULL */
    int32_t tokens;
};

/* The run that starts at token, of at most limit tokens. */
static inline struct kvt_kv_run kvt_kv_run_at(const struct kvt_attention_task *task, int32_t token,
                                              int32_t limit)
{
    const struct kvt_attention_call *call = task->call;
    const struct kvt_page_layout *layout = call->layout;
    int32_t position = token & (layout->page_tokens - 1);
    int32_t slot = (token - position) / layout->page_tokens;
    int32_t id = call->page_table[call->row_pages[task->row] + slot];
    int64_t index = (int64_t)task->kv_head * layout->page_tokens + position;
    struct kvt_kv_run run = {.page = call->pool + id * layout->page_bytes};
    run.key = run.page + index * layout->token_bytes;
    run.value = run.key + layout->value_offset;
    if (layout->format == KVT_PAGE_GQA_FP8) {
        run.key_scale = (const float *)(const void *)(run.page + layout->key_scale_offset) + index;
        run.value_scale =
            (const float *)(const void *)(run.page + layout->value_scale_offset) + index;
    }
    run.tokens = layout->page_tokens - position;
    if (run.tokens > limit)
        run.tokens = limit;
    return run;
}

static inline const kvt_bf16 *kvt_task_q(const struct kvt_attention_task *task, int32_t head)
{
    const struct kvt_attention_call *call = task->call;
    int64_t index = (int64_t)task->row * call->heads + task->head + head;
    return call->q + index * call->layout->head_dim;
}

#endif
