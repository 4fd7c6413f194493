/* What the columns of each op mean. Bytes and FLOPs are counted as step.c counts them. */
#include "sim/cost/table_row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/random.h"
#include "sim/base/spelling.h"
#include "sim/base/units.h"
#include "sim/cost/fit.h"
#include "sim/model/weights.h"

#define KV_LORA 512.0
#define ROPE    64.0
#define NOPE    128.0
#define V_DIM   128.0

#define GPUS_OF_NODE 8.0 /* dispatch tables count nodes */

static const char *text_of(struct kvt_row *row, enum kvt_column column)
{
    if (row->field[column] != NULL)
        return row->field[column];
    KVT_ROW_FAIL(row, "column \"%s\": wanted by op \"%s\", not in the header",
                 kvt_column_names[column], row->field[KVT_COLUMN_op_name]);
    return "";
}

/* A number of at least min; min itself after a message. */
static double number(struct kvt_row *row, enum kvt_column column, double min)
{
    if (row->failed)
        return min > 0.0 ? min : 1.0;
    const char *text = text_of(row, column);
    double value = min;
    struct kvt_err why = {0};
    if (row->failed)
        return value;
    if (kvt_double_parse(text, &value, &why) != KVT_OK)
        KVT_ROW_FAIL(row, "%s: %s", kvt_column_names[column], why.text);
    else if (!(value >= min))
        KVT_ROW_FAIL(row, "%s: want at least %g, got %g", kvt_column_names[column], min, value);
    return value;
}

static double size(struct kvt_row *row, enum kvt_column column)
{
    return number(row, column, 1.0);
}

/* Seconds of a column in units of unit seconds. */
static double seconds(struct kvt_row *row, enum kvt_column column, double unit)
{
    double value = number(row, column, 0.0);
    if (!row->failed && !(value > 0.0 && value * unit < KVT_FIT_SECONDS_MAX))
        KVT_ROW_FAIL(row, "%s: want a time above 0 and below %g s, got %g %s",
                     kvt_column_names[column], KVT_FIT_SECONDS_MAX, value,
                     unit == 1e-3 ? "ms" : "us");
    return value * unit;
}

static bool is(struct kvt_row *row, enum kvt_column column, const char *text)
{
    return strcmp(text_of(row, column), text) == 0;
}

static void dtype(struct kvt_row *row, const char *a, const char *b)
{
    snprintf(row->dtype, sizeof row->dtype, "%.30s%s%.60s", a, b[0] != '\0' ? " " : "", b);
}

void kvt_row_finish(struct kvt_row *row, const enum kvt_dim dims[], int count, double more_shape,
                    double apart)
{
    struct kvt_sample *s = &row->sample;
    const struct kvt_work *w = &s->work;
    uint64_t shape = kvt_hash_real(1, more_shape);
    for (int i = 0; i < count; i++)
        shape = kvt_hash_real(shape, w->dim[dims[i]]);
    s->shape = shape;
    uint64_t key = kvt_hash_real(shape, apart);
    for (int d = 0; d < KVT_DIM_COUNT; d++)
        key = kvt_hash_real(key, w->dim[d]);
    key = kvt_hash_real(kvt_hash_real(kvt_hash_real(key, w->bytes), w->flops), w->batch);
    s->key = kvt_hash_real(kvt_hash_real(key, w->context), w->windowed);
}
struct weights_name {
    const char *name;
    enum kvt_weight_dtype weights;
    enum kvt_family gemm, experts;
};
static const struct weights_name weights_names[] = {
    {"bfloat16", KVT_WEIGHTS_BF16, KVT_FAMILY_GEMM_BF16, KVT_FAMILY_EXPERTS_BF16},
    {"fp8", KVT_WEIGHTS_FP8, KVT_FAMILY_GEMM_FP8, KVT_FAMILY_EXPERTS_FP8},
    {"fp8_block", KVT_WEIGHTS_FP8_BLOCK, KVT_FAMILY_GEMM_FP8_BLOCK, KVT_FAMILY_EXPERTS_FP8_BLOCK},
    {"int4_wo", KVT_WEIGHTS_INT4_G128, KVT_FAMILY_GEMM_INT4, KVT_FAMILY_EXPERTS_INT4},
    {"nvfp4", KVT_WEIGHTS_NVFP4, KVT_FAMILY_GEMM_FP4, KVT_FAMILY_EXPERTS_FP4},
    {"w4a16_mxfp4", KVT_WEIGHTS_MXFP4, KVT_FAMILY_GEMM_FP4, KVT_FAMILY_EXPERTS_FP4},
    {"w4a8_mxfp4_mxfp8", KVT_WEIGHTS_MXFP4, KVT_FAMILY_GEMM_FP4, KVT_FAMILY_EXPERTS_FP4},
};

static const struct weights_name *weights_of(struct kvt_row *row, enum kvt_column column)
{
    const char *name = text_of(row, column);
    for (size_t i = 0; i < sizeof weights_names / sizeof weights_names[0]; i++)
        if (strcmp(name, weights_names[i].name) == 0)
            return &weights_names[i];
    return NULL;
}

static bool row_gemm(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    const struct weights_name *weights = weights_of(row, KVT_COLUMN_gemm_dtype);
    if (weights == NULL)
        return false;
    double m = size(row, KVT_COLUMN_m), n = size(row, KVT_COLUMN_n), k = size(row, KVT_COLUMN_k);
    row->sample.time = seconds(row, KVT_COLUMN_latency, 1e-3);
    row->series.family = (int32_t)weights->gemm;
    dtype(row, weights->name, "");
    w->dim[KVT_DIM_M] = m;
    w->dim[KVT_DIM_N] = n;
    w->dim[KVT_DIM_K] = k;
    w->bytes = kvt_weight_bits(weights->weights) / 8.0 * n * k + 2.0 * m * (n + k);
    w->flops = 2.0 * m * n * k;
    KVT_ROW_FINISH(row, 0.0, 0.0, KVT_DIM_N, KVT_DIM_K);
    return true;
}

/* balanced: 1; power_law_1.01: 2.01; evenly at random (power_law_0): just above 1 */
static double routing(struct kvt_row *row)
{
    const char *text = text_of(row, KVT_COLUMN_distribution);
    static const char law[] = "power_law_";
    double alpha = 0.0;
    if (strncmp(text, law, sizeof law - 1) == 0 &&
        kvt_double_parse(text + sizeof law - 1, &alpha, NULL) == KVT_OK && alpha >= 0.0)
        return 1.0 + fmax(alpha, 0.01);
    if (strcmp(text, "balanced") != 0)
        KVT_ROW_FAIL(row, "distribution: want balanced or power_law_NUMBER, got \"%.40s\"", text);
    return 1.0;
}

static bool row_moe(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    const struct weights_name *weights = weights_of(row, KVT_COLUMN_moe_dtype);
    if (weights == NULL)
        return false;
    double m = size(row, KVT_COLUMN_num_tokens), hidden = size(row, KVT_COLUMN_hidden_size);
    double inter = size(row, KVT_COLUMN_inter_size) / size(row, KVT_COLUMN_moe_tp_size);
    double topk = size(row, KVT_COLUMN_topk), experts = size(row, KVT_COLUMN_num_experts);
    double ranks = size(row, KVT_COLUMN_moe_ep_size), how = routing(row);
    row->sample.time = seconds(row, KVT_COLUMN_latency, 1e-3);
    row->series.family = (int32_t)weights->experts;
    dtype(row, weights->name, text_of(row, KVT_COLUMN_kernel_source));
    w->dim[KVT_DIM_M] = m;
    w->dim[KVT_DIM_HIDDEN] = hidden;
    w->dim[KVT_DIM_INTER] = inter;
    w->dim[KVT_DIM_EXPERTS] = experts;
    w->dim[KVT_DIM_TOPK] = topk;
    w->dim[KVT_DIM_RANKS] = ranks;
    w->dim[KVT_DIM_ROUTING] = how;
    double even = topk * m < experts ? topk * m : experts;
    double hit = how == 1.0 ? even : experts * -expm1(m * log1p(-topk / experts));
    double matrix = 3.0 * hidden * inter;
    hit = (hit > topk ? hit : topk) / ranks;
    w->bytes = hit * matrix * kvt_weight_bits(weights->weights) / 8.0;
    w->flops = 2.0 * m * topk / ranks * matrix;
    w->tile_flops = 2.0 * hit * matrix;
    KVT_ROW_FINISH(row, 0.0, 0.0, KVT_DIM_HIDDEN, KVT_DIM_INTER, KVT_DIM_EXPERTS, KVT_DIM_TOPK,
                   KVT_DIM_RANKS);
    return !row->failed;
}

static bool is_fp8(struct kvt_row *row)
{
    return strncmp(text_of(row, KVT_COLUMN_kv_cache_dtype), "fp8", 3) == 0;
}

/* Tokens that attention sees; 0: all. */
static double window_of(struct kvt_row *row)
{
    return row->field[KVT_COLUMN_window_size] != NULL ? number(row, KVT_COLUMN_window_size, 0.0)
                                                      : 0.0;
}

/* batch requests of length tokens each, the new one included. */
static void requests(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    w->batch = size(row, KVT_COLUMN_batch_size);
    double length = number(row, KVT_COLUMN_step, 0.0) + size(row, KVT_COLUMN_isl);
    double window = window_of(row);
    w->context = w->windowed = w->batch * (window > 0.0 && window < length ? window : length);
    w->dim[KVT_DIM_M] = w->batch;
    w->dim[KVT_DIM_HEADS] = size(row, KVT_COLUMN_num_heads);
    row->series.kind = KVT_LAW_DECODE;
    row->sample.time = seconds(row, KVT_COLUMN_latency, 1e-3);
}

static bool row_gqa_decode(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    bool fp8 = is_fp8(row);
    requests(row);
    double kv = size(row, KVT_COLUMN_num_key_value_heads), d = size(row, KVT_COLUMN_head_dim);
    row->series.family = fp8 ? KVT_FAMILY_GQA_DECODE_FP8 : KVT_FAMILY_GQA_DECODE_BF16;
    dtype(row, text_of(row, KVT_COLUMN_kv_cache_dtype), "");
    w->dim[KVT_DIM_KV_HEADS] = kv;
    w->dim[KVT_DIM_HEAD_DIM] = d;
    w->token_bytes = kv * 2.0 * d * (fp8 ? 1.0 : 2.0);
    w->token_flops = 4.0 * w->dim[KVT_DIM_HEADS] * d;
    double window = window_of(row);
    KVT_ROW_FINISH(row, 0.0, window, KVT_DIM_HEADS, KVT_DIM_KV_HEADS, KVT_DIM_HEAD_DIM);
    return !row->failed;
}

static void mla_token(struct kvt_row *row, bool fp8)
{
    struct kvt_work *w = &row->sample.work;
    w->token_bytes = (KV_LORA + ROPE) * (fp8 ? 1.0 : 2.0);
    w->token_flops = 2.0 * w->dim[KVT_DIM_HEADS] * (2.0 * KV_LORA + ROPE);
}

static bool row_mla_decode(struct kvt_row *row)
{
    bool fp8 = is_fp8(row);
    requests(row);
    mla_token(row, fp8);
    row->series.family = fp8 ? KVT_FAMILY_MLA_DECODE_FP8 : KVT_FAMILY_MLA_DECODE_BF16;
    dtype(row, text_of(row, KVT_COLUMN_kv_cache_dtype), "");
    KVT_ROW_FINISH(row, 0.0, 0.0, KVT_DIM_HEADS);
    return !row->failed;
}

static double weight_bits(struct kvt_row *row)
{
    const struct weights_name *weights = weights_of(row, KVT_COLUMN_gemm_type);
    return weights != NULL ? kvt_weight_bits(weights->weights) : 16.0;
}

static bool row_mla_module(struct kvt_row *row)
{
    bool fp8 = is_fp8(row);
    requests(row);
    mla_token(row, fp8);
    row->sample.work.dim[KVT_DIM_WEIGHT_BITS] = weight_bits(row);
    dtype(row, text_of(row, KVT_COLUMN_kv_cache_dtype), text_of(row, KVT_COLUMN_gemm_type));
    KVT_ROW_FINISH(row, row->sample.work.batch, 0.0, KVT_DIM_HEADS, KVT_DIM_WEIGHT_BITS);
    return !row->failed;
}

static bool row_sparse_decode(struct kvt_row *row)
{
    static const int32_t families[2][2] = {
        {KVT_FAMILY_SPARSE_DECODE_BF16, KVT_FAMILY_SPARSE_DECODE_FP8},
        {KVT_FAMILY_SPARSE_SHARED_BF16, KVT_FAMILY_SPARSE_SHARED_FP8}};
    struct kvt_work *w = &row->sample.work;
    bool fp8 = is_fp8(row);
    bool shared = strstr(text_of(row, KVT_COLUMN_op_name), "skip_indexer") != NULL;
    requests(row);
    mla_token(row, fp8);
    if (fp8) /* a scale per 128 values, rope in 16 bits */
        w->token_bytes = KV_LORA + 16.0 + 2.0 * ROPE;
    double length = w->context / w->batch;
    w->windowed = w->batch * (length < 2048.0 ? length : 2048.0);
    w->index_bytes = shared ? 0.0 : 132.0;
    w->dim[KVT_DIM_HIDDEN] = strstr(text_of(row, KVT_COLUMN_model), "GLM") != NULL ? 6144 : 7168;
    w->dim[KVT_DIM_WEIGHT_BITS] = weight_bits(row);
    row->series.family = families[shared][fp8];
    row->series.kind = KVT_LAW_SPARSE;
    dtype(row, text_of(row, KVT_COLUMN_kv_cache_dtype), text_of(row, KVT_COLUMN_gemm_type));
    KVT_ROW_FINISH(row, w->batch, 0.0, KVT_DIM_HEADS, KVT_DIM_HIDDEN, KVT_DIM_WEIGHT_BITS);
    return !row->failed;
}

/* Query-key pairs of n new tokens after some cached ones; with a window, from the first on. */
static double pairs_of(double n, double before, double window)
{
    if (window <= 0.0 || window >= n + before)
        return n * before + 0.5 * n * (n + 1.0);
    double full = fmin(n, fmax(0.0, n + before - window)); /* tokens that see a whole window */
    return full * window + (n - full) * before + 0.5 * (n - full) * (n - full + 1.0);
}

/* Prompts: new tokens n of each request, after step cached ones. */
static double prompts(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    double n = size(row, KVT_COLUMN_isl), before = number(row, KVT_COLUMN_step, 0.0);
    double batch = size(row, KVT_COLUMN_batch_size);
    w->dim[KVT_DIM_M] = batch * n;
    w->dim[KVT_DIM_HEADS] = size(row, KVT_COLUMN_num_heads);
    w->batch = 1.0; /* the axis "length": keys that a token sees, twice the mean */
    double window = window_of(row);
    double pairs = batch * pairs_of(n, before, window);
    w->context = w->windowed = 2.0 * pairs / (batch * n);
    row->sample.time = seconds(row, KVT_COLUMN_latency, 1e-3);
    return pairs;
}

static bool row_gqa_prefill(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    double pairs = prompts(row);
    double kv = size(row, KVT_COLUMN_num_key_value_heads), d = size(row, KVT_COLUMN_head_dim);
    double heads = w->dim[KVT_DIM_HEADS];
    w->dim[KVT_DIM_KV_HEADS] = kv;
    w->dim[KVT_DIM_HEAD_DIM] = d;
    w->bytes = 2.0 * w->dim[KVT_DIM_M] * (heads + kv) * 2.0 * d;
    w->flops = 4.0 * heads * d * pairs;
    row->series.family = KVT_FAMILY_GQA_PREFILL;
    double window = window_of(row);
    row->series.rank =
        (window > 0.0) * 4 + !is(row, KVT_COLUMN_attn_dtype, "bfloat16") * 2 + is_fp8(row);
    char cache[64];
    snprintf(cache, sizeof cache, "%.40s%s", text_of(row, KVT_COLUMN_kv_cache_dtype),
             window > 0.0 ? " window" : "");
    dtype(row, text_of(row, KVT_COLUMN_attn_dtype), cache);
    KVT_ROW_FINISH(row, 0.0, window, KVT_DIM_HEADS, KVT_DIM_KV_HEADS, KVT_DIM_HEAD_DIM);
    return !row->failed;
}

static bool row_mla_prefill(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    double pairs = prompts(row), heads = w->dim[KVT_DIM_HEADS];
    w->bytes = 2.0 * w->dim[KVT_DIM_M] * heads * 2.0 * (NOPE + ROPE + V_DIM);
    w->flops = 2.0 * heads * (NOPE + ROPE + V_DIM) * pairs;
    row->series.family = KVT_FAMILY_MLA_PREFILL;
    row->series.rank = is_fp8(row);
    dtype(row, text_of(row, KVT_COLUMN_kv_cache_dtype), "");
    KVT_ROW_FINISH(row, 0.0, 0.0, KVT_DIM_HEADS);
    return !row->failed;
}

/* Sparse prefill, whole modules and single kernels: no step asks for these, the parts of a module
 * are taken apart by hand. Its work is that of the projections and of attention. */
static bool row_sparse_prefill(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    double pairs = prompts(row), heads = w->dim[KVT_DIM_HEADS];
    double length = w->context, batch = size(row, KVT_COLUMN_batch_size);
    double before = batch * number(row, KVT_COLUMN_step, 0.0);
    w->batch = batch;
    w->context = w->windowed = before + w->dim[KVT_DIM_M];
    bool glm = strstr(text_of(row, KVT_COLUMN_model), "GLM") != NULL;
    w->dim[KVT_DIM_HIDDEN] = glm ? 6144 : 7168;
    w->dim[KVT_DIM_WEIGHT_BITS] = weight_bits(row);
    w->bytes = 2.0 * w->dim[KVT_DIM_M] * (2.0 * w->dim[KVT_DIM_HIDDEN] + heads * 1024.0) +
               before * heads * 2.0 * (NOPE + V_DIM); /* cached tokens, expanded */
    bool index = strstr(text_of(row, KVT_COLUMN_kernel_source), "skip_indexer") == NULL;
    double seen = fmin(0.5 * length, 2048.0); /* keys that a token attends to */
    w->flops = 2.0 * w->dim[KVT_DIM_M] *
                   (w->dim[KVT_DIM_HIDDEN] * 2112.0 + heads * 1.2e6 + heads * seen * 1088.0) +
               (index ? 2.0 * 64.0 * 128.0 * pairs : 0.0);
    char what[64];
    const char *source = text_of(row, KVT_COLUMN_kernel_source), *last = strrchr(source, '_');
    snprintf(what, sizeof what, "%.12s%.18s", text_of(row, KVT_COLUMN_gemm_type),
             strstr(source, "dense") != NULL ? "_dense"
             : last != NULL                  ? last
                                             : "");
    dtype(row, text_of(row, KVT_COLUMN_kv_cache_dtype), what);
    KVT_ROW_FINISH(row, length, size(row, KVT_COLUMN_isl), KVT_DIM_HEADS, KVT_DIM_HIDDEN);
    return !row->failed;
}

static bool row_mla_bmm(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    double m = size(row, KVT_COLUMN_num_tokens), heads = size(row, KVT_COLUMN_num_heads);
    bool fp8 = is(row, KVT_COLUMN_bmm_dtype, "fp8");
    row->sample.time = seconds(row, KVT_COLUMN_latency, 1e-3);
    w->dim[KVT_DIM_M] = m;
    w->dim[KVT_DIM_HEADS] = heads;
    w->bytes = (fp8 ? 1.0 : 2.0) * heads * NOPE * KV_LORA + 2.0 * heads * m * (NOPE + KV_LORA);
    w->flops = 2.0 * heads * m * NOPE * KV_LORA;
    row->series.family = KVT_FAMILY_MLA_BMM;
    row->series.rank = fp8;
    row->op = "mla_bmm";
    dtype(row, text_of(row, KVT_COLUMN_bmm_dtype), "");
    double post = is(row, KVT_COLUMN_op_name, "mla_gen_post");
    KVT_ROW_FINISH(row, 0.0, post, KVT_DIM_HEADS);
    return !row->failed;
}

static bool row_collective(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    const char *op = text_of(row, KVT_COLUMN_op_name);
    bool nccl = row->field[KVT_COLUMN_nccl_dtype] != NULL;
    bool half = !nccl || is(row, KVT_COLUMN_nccl_dtype, "half");
    row->sample.time = seconds(row, KVT_COLUMN_latency, 1e-3);
    w->dim[KVT_DIM_RANKS] = number(row, KVT_COLUMN_num_gpus, 2.0);
    w->bytes = (half ? 2.0 : 1.0) * size(row, KVT_COLUMN_message_size);
    row->series.link = true;
    row->series.family = strcmp(op, "all_reduce") == 0       ? (int32_t)KVT_FAMILY_ALL_REDUCE
                         : strcmp(op, "all_gather") == 0     ? (int32_t)KVT_FAMILY_ALL_GATHER
                         : strcmp(op, "reduce_scatter") == 0 ? (int32_t)KVT_FAMILY_REDUCE_SCATTER
                                                             : (int32_t)KVT_SERIES_NONE;
    bool eager = !nccl && strstr(text_of(row, KVT_COLUMN_kernel_source), "eager") != NULL;
    row->series.rank = nccl * 2 + eager;
    if (nccl) /* bytes are bytes */
        dtype(row, "half", "int8");
    else
        dtype(row, text_of(row, KVT_COLUMN_allreduce_dtype), eager ? "eager" : "graph");
    KVT_ROW_FINISH(row, w->bytes, 0.0, KVT_DIM_RANKS);
    return !row->failed;
}

/* Dispatch and combine of one layer, both ways together. */
static bool row_dispatch(struct kvt_row *row)
{
    struct kvt_work *w = &row->sample.work;
    bool low_latency = is(row, KVT_COLUMN_op_name, "ll");
    double m = size(row, KVT_COLUMN_num_token), topk = size(row, KVT_COLUMN_num_topk);
    w->dim[KVT_DIM_M] = m;
    w->dim[KVT_DIM_HIDDEN] = size(row, KVT_COLUMN_hidden_size);
    w->dim[KVT_DIM_EXPERTS] = size(row, KVT_COLUMN_num_experts);
    w->dim[KVT_DIM_TOPK] = topk;
    w->dim[KVT_DIM_N] = low_latency ? 1.0 : size(row, KVT_COLUMN_dispatch_sms);
    w->bytes = 3.0 * m * topk * w->dim[KVT_DIM_HIDDEN]; /* fp8 out, bf16 back */
    row->sample.time =
        seconds(row, low_latency ? KVT_COLUMN_dispatch_avg_t_us : KVT_COLUMN_dispatch_transmit_us,
                1e-6) +
        seconds(row, low_latency ? KVT_COLUMN_combine_avg_t_us : KVT_COLUMN_combine_transmit_us,
                1e-6);
    row->series.link = true;
    row->series.family = low_latency ? KVT_FAMILY_DISPATCH_LL : KVT_FAMILY_DISPATCH;
    w->dim[KVT_DIM_RANKS] = GPUS_OF_NODE * size(row, KVT_COLUMN_node_num);
    row->op = low_latency ? "deepep_ll" : "deepep_normal";
    dtype(row, "fp8", "bf16");
    double combine = low_latency ? 0.0 : number(row, KVT_COLUMN_combine_sms, 0.0);
    KVT_ROW_FINISH(row, 0.0, combine, KVT_DIM_HIDDEN, KVT_DIM_EXPERTS, KVT_DIM_TOPK, KVT_DIM_N);
    return !row->failed;
}

bool kvt_row_sample(struct kvt_row *row)
{
    static const struct {
        const char *op;
        bool (*read)(struct kvt_row *);
    } ops[] = {
        {"gemm", row_gemm},
        {"moe", row_moe},
        {"mla_generation", row_mla_decode},
        {"mla_context", row_mla_prefill},
        {"mla_gen_pre", row_mla_bmm},
        {"mla_gen_post", row_mla_bmm},
        {"generation_attention", row_gqa_decode},
        {"context_attention", row_gqa_prefill},
        {"mla_generation_module", row_mla_module},
        {"dsa_generation_module", row_sparse_decode},
        {"dsa_generation_module_skip_indexer", row_sparse_decode},
        {"dsa_context_module", row_sparse_prefill},
        {"dsa_context_module_skip_indexer", row_sparse_prefill},
        {"glm5_dsa_attn_module", row_sparse_prefill},
        {"glm5_mqa_logits_module", row_sparse_prefill},
        {"all_reduce", row_collective},
        {"all_gather", row_collective},
        {"reduce_scatter", row_collective},
        {"alltoall", row_collective},
        {"ll", row_dispatch},
        {"normal", row_dispatch},
    };
    const char *names[sizeof ops / sizeof ops[0]];
    const char *op = row->field[KVT_COLUMN_op_name];
    row->sample = (struct kvt_sample){0};
    row->series = (struct kvt_series){.family = KVT_SERIES_NONE, .kind = KVT_LAW_ROOFLINE};
    row->op = op;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        names[i] = ops[i].op;
        if (strcmp(op, ops[i].op) == 0)
            return ops[i].read(row) && !row->failed;
    }
    char hint[KVT_HINT_BYTES];
    KVT_ROW_FAIL(row, "op_name: unknown \"%.60s\"%s", op,
                 kvt_nearest_hint(op, names, sizeof names / sizeof names[0], hint));
    return false;
}
