/* The attention blocks of step.h: MLA, sparse MLA and GQA, in decode and in prefill. */
#include <math.h>

#include "sim/cost/step_build.h"
#include "sim/model/weights.h"

/* Bytes of one value of KV cache, scales included; rope of the scaled MLA layout apart. */
static double kv_bytes(enum kvt_kv_dtype kv)
{
    return kv == KVT_KV_BF16 ? 2.0 : kv == KVT_KV_NVFP4 ? 0.5625 : 1.0;
}

static double mla_token_bytes(const struct kvt_attention *a, enum kvt_kv_dtype kv)
{
    bool scaled = kv == KVT_KV_FP8_SCALED || (kv == KVT_KV_FP8 && a->index_heads > 0);
    if (scaled)
        return a->kv_lora + 4.0 * ceil(a->kv_lora / 128.0) + 2.0 * a->rope;
    return (a->kv_lora + a->rope) * kv_bytes(kv);
}

/* Decode attention of all kinds: the work of one layer. A windowed layer reads min(context,
 * window), which the caller gives as its windowed sum. */
static struct kvt_work decode_work(const struct kvt_builder *b, const struct kvt_attention *a,
                                   double heads)
{
    struct kvt_work work = {.batch = b->batch, .context = b->context, .windowed = b->windowed};
    double per_request = b->decode_rows / b->batch;
    double dcp = b->shape->layout.dcp;
    work.dim[KVT_DIM_HEADS] = heads;
    work.dim[KVT_DIM_HIDDEN] = b->model->hidden;
    work.dim[KVT_DIM_M] = b->decode_rows;
    work.dim[KVT_DIM_WEIGHT_BITS] = kvt_weight_bits(kvt_builder_dtype(b, KVT_MATRIX_O));
    if (a->kind == KVT_ATTENTION_MLA) {
        work.token_bytes = mla_token_bytes(a, b->shape->kv);
        work.token_flops = 2.0 * heads * per_request * (2.0 * a->kv_lora + a->rope);
    } else {
        double kv_heads = fmax(1.0, (double)a->kv_heads / b->attention_ranks);
        work.dim[KVT_DIM_KV_HEADS] = kv_heads;
        work.dim[KVT_DIM_HEAD_DIM] = a->head_dim;
        work.token_bytes = kv_heads * (a->head_dim + a->v_dim) * kv_bytes(b->shape->kv);
        if (b->shape->kv == KVT_KV_FP8_SCALED)
            work.token_bytes += kv_heads * 8.0; /* a scale of k and one of v */
        work.token_flops = 2.0 * heads * per_request * (a->head_dim + a->v_dim);
    }
    if (a->window > 0)
        work.context = work.windowed;
    work.context /= dcp;
    work.windowed /= dcp;
    if (a->index_heads > 0 && !a->index_shared)
        work.index_bytes = a->index_dim + 4.0;
    return work;
}

/* Each of dcp ranks holds a part of the tokens and attends to it for the heads of all of them. */
static void add_dcp(struct kvt_builder *b, double heads, double width, double value_width)
{
    double dcp = b->shape->layout.dcp;
    kvt_builder_collective(b, "dcp gather q", KVT_FAMILY_ALL_GATHER, b->decode_rows, heads * width,
                           dcp);
    kvt_builder_collective(b, "dcp merge", KVT_FAMILY_REDUCE_SCATTER, b->decode_rows,
                           heads * value_width, dcp);
}

static void add_prefill(struct kvt_builder *b, const char *name, enum kvt_family family,
                        const struct kvt_attention *a, double bytes, double pair_flops,
                        double window)
{
    double pairs = b->pairs;
    struct kvt_work work = {.bytes = bytes, .flops = pair_flops * pairs};
    work.dim[KVT_DIM_HEADS] = (double)a->heads / b->attention_ranks;
    work.dim[KVT_DIM_HEAD_DIM] = a->head_dim;
    if (a->kind == KVT_ATTENTION_GQA)
        work.dim[KVT_DIM_KV_HEADS] = fmax(1.0, (double)a->kv_heads / b->attention_ranks);
    work.dim[KVT_DIM_M] = b->prompt_rows;
    work.batch = 1.0; /* the length that a surface asks for: twice the keys that a token sees */
    work.context = b->prompt_rows > 0.0 ? 2.0 * pairs / b->prompt_rows : 0.0;
    if (window > 0.0) /* beyond its window a token sees no more, and no more than there is */
        work.flops = pair_flops * fmin(pairs, b->prompt_rows * window);
    if (b->prompt_rows > 0.0)
        kvt_builder_add(b, name, family, &work, b->layers, window <= 0.0);
}

/* Absorbed q and v of m tokens. */
static void add_absorbed(struct kvt_builder *b, const struct kvt_attention *a, double m)
{
    double h = (double)a->heads / b->attention_ranks;
    struct kvt_work bmm = {.bytes = 2.0 * h * a->nope * a->kv_lora +
                                    2.0 * h * m * (a->nope + a->kv_lora),
                           .flops = 2.0 * h * m * a->nope * a->kv_lora};
    bmm.dim[KVT_DIM_HEADS] = h;
    bmm.dim[KVT_DIM_M] = m;
    kvt_builder_add(b, "absorbed q", KVT_FAMILY_MLA_BMM, &bmm, b->layers, false);
    bmm.bytes = 2.0 * h * a->v_dim * a->kv_lora + 2.0 * h * m * (a->v_dim + a->kv_lora);
    bmm.flops = 2.0 * h * m * a->v_dim * a->kv_lora;
    kvt_builder_add(b, "absorbed v", KVT_FAMILY_MLA_BMM, &bmm, b->layers, false);
}

static void list_mla_decode(struct kvt_builder *b, const struct kvt_attention *a)
{
    double h = (double)a->heads / b->attention_ranks, dcp = b->shape->layout.dcp;
    bool bf16 = b->shape->kv == KVT_KV_BF16;
    struct kvt_work work = decode_work(b, a, h * dcp);
    add_absorbed(b, a, b->decode_rows + (b->shape->own ? b->prompt_rows : 0.0));
    add_dcp(b, h * dcp, a->kv_lora + a->rope, a->kv_lora);
    kvt_builder_add(b, "mla decode", bf16 ? KVT_FAMILY_MLA_DECODE_BF16 : KVT_FAMILY_MLA_DECODE_FP8,
                    &work, b->layers, true);
}

/* Prompts over the latent itself: every token attends with all heads to the pages. */
static void list_mla_own_prefill(struct kvt_builder *b, const struct kvt_attention *a)
{
    double h = (double)a->heads / b->attention_ranks, latent = a->kv_lora + a->rope;
    if (b->batch <= 0.0 && b->prompt_rows > 0.0)
        add_absorbed(b, a, b->prompt_rows);
    add_prefill(b, "mla prefill, absorbed", KVT_FAMILY_MLA_PREFILL, a,
                2.0 * b->prompt_rows * h * (latent + a->kv_lora), 2.0 * h * (latent + a->kv_lora),
                0.0);
}

/* The module holds its projections: only what decode shares with nothing else is left out. */
static void list_sparse_decode(struct kvt_builder *b, const struct kvt_attention *a)
{
    static const enum kvt_family families[2][2] = {
        {KVT_FAMILY_SPARSE_DECODE_FP8, KVT_FAMILY_SPARSE_DECODE_BF16},
        {KVT_FAMILY_SPARSE_SHARED_FP8, KVT_FAMILY_SPARSE_SHARED_BF16}};
    double h = (double)a->heads / b->attention_ranks;
    struct kvt_work work = decode_work(b, a, h * b->shape->layout.dcp);
    kvt_builder_add(b, a->index_shared ? "sparse module, shared index" : "sparse module",
                    families[a->index_shared][b->shape->kv == KVT_KV_BF16], &work, b->layers, true);
}

static void list_mla(struct kvt_builder *b, const struct kvt_attention *a)
{
    double d = b->model->hidden, h = (double)a->heads / b->attention_ranks;
    bool sparse = a->index_heads > 0;
    double m = b->prompt_rows + (sparse ? 0.0 : b->decode_rows);
    double q_width = h * (a->nope + a->rope);
    double latent = a->kv_lora + a->rope;
    if (a->q_lora > 0) {
        kvt_builder_gemm(b, "q_a + kv_a", KVT_MATRIX_KV_A, m, a->q_lora + latent, d);
        kvt_builder_gemm(b, "q_b", KVT_MATRIX_Q_B, m, q_width, a->q_lora);
    } else {
        kvt_builder_gemm(b, "q + kv_a", KVT_MATRIX_KV_A, m, q_width + latent, d);
    }
    if (b->batch > 0.0 && sparse)
        list_sparse_decode(b, a);
    else if (b->batch > 0.0)
        list_mla_decode(b, a);
    if (sparse && !a->index_shared) {
        kvt_builder_gemm(b, "index q, k", KVT_MATRIX_INDEX_Q, b->prompt_rows,
                         (double)a->index_heads * a->index_dim, a->q_lora > 0 ? a->q_lora : d);
        add_prefill(b, "index scores", KVT_FAMILY_INDEX_PREFILL, a, 0.0,
                    2.0 * a->index_heads * a->index_dim, 0.0);
    }
    double width = 2.0 * (a->nope + a->rope) + 2.0 * a->v_dim; /* q, k, v and the result */
    if (sparse) {
        bool bf16 = b->shape->kv == KVT_KV_BF16; /* every token gathers its own selection */
        add_prefill(b, "sparse prefill",
                    bf16 ? KVT_FAMILY_SPARSE_PREFILL_BF16 : KVT_FAMILY_SPARSE_PREFILL_FP8, a,
                    b->prompt_rows * a->index_topk * mla_token_bytes(a, b->shape->kv),
                    2.0 * h * (latent + a->kv_lora), a->index_topk);
    } else if (b->shape->own) {
        list_mla_own_prefill(b, a);
    } else {
        kvt_builder_gemm(b, "kv_b", KVT_MATRIX_KV_B, b->prompt_rows, h * (a->nope + a->v_dim),
                         a->kv_lora);
        add_prefill(b, "mla prefill", KVT_FAMILY_MLA_PREFILL, a, 2.0 * b->prompt_rows * h * width,
                    2.0 * h * (a->nope + a->rope + a->v_dim), 0.0);
    }
    kvt_builder_gemm(b, "o_proj", KVT_MATRIX_O, m, d, h * a->v_dim);
}

static void list_gqa(struct kvt_builder *b, const struct kvt_attention *a)
{
    double d = b->model->hidden, h = (double)a->heads / b->attention_ranks;
    double kv = fmax(1.0, (double)a->kv_heads / b->attention_ranks);
    double m = b->prompt_rows + b->decode_rows;
    double q_width = h * a->head_dim * (a->output_gate ? 2.0 : 1.0);
    double kv_width = kv * (a->head_dim + (a->v_is_k ? 0.0 : a->v_dim));
    kvt_builder_gemm(b, "qkv", KVT_MATRIX_Q, m, q_width + kv_width, d);
    if (a->qk_norm_whole) /* two sums of squares a token, in float32 */
        kvt_builder_collective(b, "all-reduce of q, k norms", KVT_FAMILY_ALL_REDUCE, m, 4.0,
                               b->attention_ranks);
    if (b->batch > 0.0) {
        double dcp = b->shape->layout.dcp;
        struct kvt_work work = decode_work(b, a, h * dcp);
        bool bf16 = b->shape->kv == KVT_KV_BF16;
        add_dcp(b, h * dcp, a->head_dim, a->v_dim);
        kvt_builder_add(b, a->window > 0 ? "gqa decode, window" : "gqa decode",
                        bf16 ? KVT_FAMILY_GQA_DECODE_BF16 : KVT_FAMILY_GQA_DECODE_FP8, &work,
                        b->layers, true);
    }
    double width = (h + kv) * (a->head_dim + a->v_dim);
    add_prefill(b, a->window > 0 ? "gqa prefill, window" : "gqa prefill", KVT_FAMILY_GQA_PREFILL, a,
                2.0 * b->prompt_rows * width, 2.0 * h * (a->head_dim + a->v_dim), a->window);
    kvt_builder_gemm(b, "o_proj", KVT_MATRIX_O, m, d, h * a->v_dim);
}

/* New KV into its pages: a kernel of its own only where a calibration timed it apart; tables of
 * servers time it with the attention. */
static void add_append(struct kvt_builder *b, const struct kvt_attention *a)
{
    double rows = b->decode_rows + b->prompt_rows, kv_heads, values, stored;
    if (a->kind == KVT_ATTENTION_MLA) {
        values = a->kv_lora + a->rope;
        stored = mla_token_bytes(a, b->shape->kv);
    } else {
        kv_heads = fmax(1.0, (double)a->kv_heads / b->attention_ranks);
        values = kv_heads * (a->head_dim + a->v_dim);
        stored = values * kv_bytes(b->shape->kv);
    }
    struct kvt_work work = {.bytes = rows * (2.0 * values + stored)};
    work.dim[KVT_DIM_M] = rows;
    work.dim[KVT_DIM_WEIGHT_BITS] = 8.0 * kv_bytes(b->shape->kv);
    const struct kvt_law *law = kvt_calibration_law(b->calibration, KVT_FAMILY_APPEND, &work);
    if (!law->guess)
        kvt_builder_add(b, "append", KVT_FAMILY_APPEND, &work, b->layers, false);
}

void kvt_builder_attention(struct kvt_builder *b)
{
    if (b->layer->attention.kind != KVT_ATTENTION_NONE)
        add_append(b, &b->layer->attention);
    if (b->layer->attention.kind == KVT_ATTENTION_MLA)
        list_mla(b, &b->layer->attention);
    else if (b->layer->attention.kind == KVT_ATTENTION_GQA)
        list_gqa(b, &b->layer->attention);
}
