#include "sim/cost/step.h"

#include <math.h>
#include <string.h>

#include "sim/base/assert.h"

/* What one rank does in this step, and where its kernels go. */
struct builder {
    struct kvt_step *step;
    const struct kvt_model *model;
    const struct kvt_step_shape *shape;
    const struct kvt_calibration *calibration;
    unsigned part;
    double batch, context, windowed; /* of the rank: requests that decode and their contexts */
    double decode_rows;              /* tokens of the rank's decoding requests, drafts included */
    double prompt_rows, pairs;       /* of the rank */
    double all_rows;                 /* tokens of the whole replica: what the MLPs see */
    double head_rows;                /* rows of lm_head */
    int32_t attention_ranks;         /* GPUs that attend together */
    const struct kvt_layer_group *layer; /* now being listed */
    int32_t group;                       /* its index */
    double layers;                       /* that it stands for */
};

static double weight_bytes(enum kvt_weight_dtype dtype)
{
    static const double bytes[KVT_WEIGHT_DTYPE_COUNT] = {
        [KVT_WEIGHTS_BF16] = 2.0,           [KVT_WEIGHTS_FP8] = 1.0,
        [KVT_WEIGHTS_FP8_BLOCK] = 1.0,      [KVT_WEIGHTS_INT4_G32] = 0.5625,
        [KVT_WEIGHTS_INT4_G128] = 0.515625, [KVT_WEIGHTS_NVFP4] = 0.5625,
        [KVT_WEIGHTS_MXFP4] = 0.53125};
    return bytes[dtype];
}

static enum kvt_family gemm_family(enum kvt_weight_dtype dtype, bool experts)
{
    static const enum kvt_family dense[KVT_WEIGHT_DTYPE_COUNT] = {
        [KVT_WEIGHTS_BF16] = KVT_FAMILY_GEMM_BF16,
        [KVT_WEIGHTS_FP8] = KVT_FAMILY_GEMM_FP8,
        [KVT_WEIGHTS_FP8_BLOCK] = KVT_FAMILY_GEMM_FP8_BLOCK,
        [KVT_WEIGHTS_INT4_G32] = KVT_FAMILY_GEMM_INT4,
        [KVT_WEIGHTS_INT4_G128] = KVT_FAMILY_GEMM_INT4,
        [KVT_WEIGHTS_NVFP4] = KVT_FAMILY_GEMM_FP4,
        [KVT_WEIGHTS_MXFP4] = KVT_FAMILY_GEMM_FP4};
    _Static_assert(KVT_FAMILY_EXPERTS_FP4 - KVT_FAMILY_EXPERTS_BF16 ==
                       KVT_FAMILY_GEMM_FP4 - KVT_FAMILY_GEMM_BF16,
                   "experts come in the order of the GEMMs");
    return (enum kvt_family)(dense[dtype] +
                             (experts ? KVT_FAMILY_EXPERTS_BF16 - KVT_FAMILY_GEMM_BF16 : 0));
}

/* The dtype of one matrix of the group being listed. */
static enum kvt_weight_dtype matrix_dtype(const struct builder *b, enum kvt_matrix matrix)
{
    return (enum kvt_weight_dtype)b->layer->dtype[matrix];
}

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

static void add(struct builder *b, const char *name, enum kvt_family family,
                const struct kvt_work *work, double count, bool by_context)
{
    if (count <= 0.0 || !(b->part & (by_context ? KVT_STEP_BY_CONTEXT : KVT_STEP_FIXED)))
        return;
    kvt_assert(b->step->count < KVT_STEP_KERNELS_MAX);
    struct kvt_kernel *kernel = &b->step->kernels[b->step->count++];
    kernel->name = name;
    kernel->group = b->group;
    kernel->by_context = by_context;
    kernel->count = count;
    kernel->work = *work;
    kernel->law = kvt_calibration_law(b->calibration, family, work);
    kernel->time = kvt_calibration_time(b->calibration, kernel->law, work, &kernel->limit);
    kernel->bytes = work->bytes;
    kernel->flops = work->flops;
    if (by_context && work->token_bytes > 0.0) {
        bool sparse = kernel->law->kind == KVT_LAW_SPARSE;
        double rows = sparse ? work->windowed : work->context;
        kernel->bytes = rows * work->token_bytes + (sparse ? work->context * work->index_bytes : 0);
        kernel->flops = rows * work->token_flops;
    }
    b->step->kernel_time += count * kernel->time;
}

static void add_gemm(struct builder *b, const char *name, enum kvt_weight_dtype dtype, double m,
                     double n, double k, double count)
{
    struct kvt_work work = {.bytes = weight_bytes(dtype) * n * k + 2.0 * m * (n + k),
                            .flops = 2.0 * m * n * k};
    work.dim[KVT_DIM_M] = m;
    work.dim[KVT_DIM_N] = n;
    work.dim[KVT_DIM_K] = k;
    if (m > 0.0 && n > 0.0)
        add(b, name, gemm_family(dtype, false), &work, count, false);
}

/* A collective over ranks of a vector of rows tokens. */
static void add_collective(struct builder *b, const char *name, enum kvt_family family, double rows,
                           double values, double ranks, double count)
{
    struct kvt_work work = {.bytes = 2.0 * rows * values};
    work.dim[KVT_DIM_RANKS] = ranks;
    if (ranks > 1.0)
        add(b, name, family, &work, count, false);
}

static void add_constant(struct builder *b, const char *name, enum kvt_family family, double count)
{
    struct kvt_work work = {0};
    work.dim[KVT_DIM_HIDDEN] = b->model->hidden;
    work.dim[KVT_DIM_RANKS] = b->shape->layout.tp;
    add(b, name, family, &work, count, false);
}

/* Decode attention of all kinds: the work of one layer. A windowed layer reads min(context,
 * window), which the caller gives as its windowed sum. */
static struct kvt_work decode_work(const struct builder *b, const struct kvt_attention *a,
                                   double heads)
{
    struct kvt_work work = {.batch = b->batch, .context = b->context, .windowed = b->windowed};
    double per_request = b->decode_rows / b->batch;
    double dcp = b->shape->layout.dcp;
    work.dim[KVT_DIM_HEADS] = heads;
    work.dim[KVT_DIM_HIDDEN] = b->model->hidden;
    work.dim[KVT_DIM_M] = b->decode_rows;
    work.dim[KVT_DIM_WEIGHT_BITS] = 8.0 * weight_bytes(matrix_dtype(b, KVT_MATRIX_O));
    if (a->kind == KVT_ATTENTION_MLA) {
        work.token_bytes = mla_token_bytes(a, b->shape->kv);
        work.token_flops = 2.0 * heads * per_request * (2.0 * a->kv_lora + a->rope);
    } else {
        double kv_heads = fmax(1.0, (double)a->kv_heads / b->attention_ranks);
        work.dim[KVT_DIM_KV_HEADS] = kv_heads;
        work.dim[KVT_DIM_HEAD_DIM] = a->head_dim;
        work.token_bytes = kv_heads * (a->head_dim + a->v_dim) * kv_bytes(b->shape->kv);
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

double kvt_step_token_bytes(const struct kvt_model *model, const struct kvt_step_shape *shape)
{
    const struct kvt_layout *layout = &shape->layout;
    struct builder b = {.model = model,
                        .shape = shape,
                        .batch = 1.0,
                        .decode_rows = 1.0,
                        .attention_ranks = layout->tp / layout->dp};
    double bytes = 0.0;
    for (int32_t g = 0; g < model->group_count; g++) {
        const struct kvt_layer_group *group = &model->groups[g];
        b.layer = group;
        struct kvt_work work = decode_work(&b, &group->attention, 1.0);
        if (group->attention.kind != KVT_ATTENTION_NONE)
            bytes += group->count * (work.token_bytes + work.index_bytes);
    }
    return bytes / layout->dcp / layout->pp;
}

/* Each of dcp ranks holds a part of the tokens and attends to it for the heads of all of them. */
static void add_dcp(struct builder *b, double heads, double width, double value_width)
{
    double dcp = b->shape->layout.dcp;
    add_collective(b, "dcp gather q", KVT_FAMILY_ALL_GATHER, b->decode_rows, heads * width, dcp,
                   b->layers);
    add_collective(b, "dcp merge", KVT_FAMILY_REDUCE_SCATTER, b->decode_rows, heads * value_width,
                   dcp, b->layers);
}

static void add_prefill(struct builder *b, const char *name, enum kvt_family family,
                        const struct kvt_attention *a, double bytes, double pair_flops,
                        double window)
{
    double pairs = b->pairs;
    struct kvt_work work = {.bytes = bytes, .flops = pair_flops * pairs};
    work.dim[KVT_DIM_HEADS] = (double)a->heads / b->attention_ranks;
    work.dim[KVT_DIM_HEAD_DIM] = a->head_dim;
    if (window > 0.0) /* beyond its window a token sees no more */
        work.flops = pair_flops * b->prompt_rows * window;
    if (b->prompt_rows > 0.0)
        add(b, name, family, &work, b->layers, window <= 0.0);
}

static void list_mla_decode(struct builder *b, const struct kvt_attention *a)
{
    double h = (double)a->heads / b->attention_ranks, dcp = b->shape->layout.dcp;
    bool bf16 = b->shape->kv == KVT_KV_BF16;
    struct kvt_work work = decode_work(b, a, h * dcp);
    double m = b->decode_rows;
    struct kvt_work bmm = {.bytes = 2.0 * h * a->nope * a->kv_lora +
                                    2.0 * h * m * (a->nope + a->kv_lora),
                           .flops = 2.0 * h * m * a->nope * a->kv_lora};
    bmm.dim[KVT_DIM_HEADS] = h;
    bmm.dim[KVT_DIM_M] = m;
    add(b, "absorbed q", KVT_FAMILY_MLA_BMM, &bmm, b->layers, false);
    bmm.bytes = 2.0 * h * a->v_dim * a->kv_lora + 2.0 * h * m * (a->v_dim + a->kv_lora);
    bmm.flops = 2.0 * h * m * a->v_dim * a->kv_lora;
    add(b, "absorbed v", KVT_FAMILY_MLA_BMM, &bmm, b->layers, false);
    add_dcp(b, h * dcp, a->kv_lora + a->rope, a->kv_lora);
    add(b, "mla decode", bf16 ? KVT_FAMILY_MLA_DECODE_BF16 : KVT_FAMILY_MLA_DECODE_FP8, &work,
        b->layers, true);
}

/* The module holds its projections: only what decode shares with nothing else is left out. */
static void list_sparse_decode(struct builder *b, const struct kvt_attention *a)
{
    static const enum kvt_family families[2][2] = {
        {KVT_FAMILY_SPARSE_DECODE_FP8, KVT_FAMILY_SPARSE_DECODE_BF16},
        {KVT_FAMILY_SPARSE_SHARED_FP8, KVT_FAMILY_SPARSE_SHARED_BF16}};
    double h = (double)a->heads / b->attention_ranks;
    struct kvt_work work = decode_work(b, a, h * b->shape->layout.dcp);
    add(b, a->index_shared ? "sparse module, shared index" : "sparse module",
        families[a->index_shared][b->shape->kv == KVT_KV_BF16], &work, b->layers, true);
}

static void list_mla(struct builder *b, const struct kvt_attention *a)
{
    double d = b->model->hidden, h = (double)a->heads / b->attention_ranks;
    bool sparse = a->index_heads > 0;
    double m = b->prompt_rows + (sparse ? 0.0 : b->decode_rows);
    double q_width = h * (a->nope + a->rope);
    double latent = a->kv_lora + a->rope;
    if (a->q_lora > 0) {
        add_gemm(b, "q_a + kv_a", matrix_dtype(b, KVT_MATRIX_KV_A), m, a->q_lora + latent, d,
                 b->layers);
        add_gemm(b, "q_b", matrix_dtype(b, KVT_MATRIX_Q_B), m, q_width, a->q_lora, b->layers);
    } else {
        add_gemm(b, "q + kv_a", matrix_dtype(b, KVT_MATRIX_KV_A), m, q_width + latent, d,
                 b->layers);
    }
    if (b->batch > 0.0 && sparse)
        list_sparse_decode(b, a);
    else if (b->batch > 0.0)
        list_mla_decode(b, a);
    if (sparse && !a->index_shared) {
        add_gemm(b, "index q, k", matrix_dtype(b, KVT_MATRIX_INDEX_Q), b->prompt_rows,
                 (double)a->index_heads * a->index_dim, a->q_lora > 0 ? a->q_lora : d, b->layers);
        add_prefill(b, "index scores", KVT_FAMILY_INDEX_PREFILL, a, 0.0,
                    2.0 * a->index_heads * a->index_dim, 0.0);
    }
    double width = 2.0 * (a->nope + a->rope) + 2.0 * a->v_dim; /* q, k, v and the result */
    if (sparse) {
        add_prefill(b, "sparse prefill", KVT_FAMILY_SPARSE_PREFILL, a,
                    2.0 * b->prompt_rows * h * 2.0 * latent, 2.0 * h * (latent + a->kv_lora),
                    a->index_topk);
    } else {
        add_gemm(b, "kv_b", matrix_dtype(b, KVT_MATRIX_KV_B), b->prompt_rows,
                 h * (a->nope + a->v_dim), a->kv_lora, b->layers);
        add_prefill(b, "mla prefill", KVT_FAMILY_MLA_PREFILL, a, 2.0 * b->prompt_rows * h * width,
                    2.0 * h * (a->nope + a->rope + a->v_dim), 0.0);
    }
    add_gemm(b, "o_proj", matrix_dtype(b, KVT_MATRIX_O), m, d, h * a->v_dim, b->layers);
}

static void list_gqa(struct builder *b, const struct kvt_attention *a)
{
    double d = b->model->hidden, h = (double)a->heads / b->attention_ranks;
    double kv = fmax(1.0, (double)a->kv_heads / b->attention_ranks);
    double m = b->prompt_rows + b->decode_rows;
    double q_width = h * a->head_dim * (a->output_gate ? 2.0 : 1.0);
    double kv_width = kv * (a->head_dim + (a->v_is_k ? 0.0 : a->v_dim));
    add_gemm(b, "qkv", matrix_dtype(b, KVT_MATRIX_Q), m, q_width + kv_width, d, b->layers);
    if (b->batch > 0.0) {
        double dcp = b->shape->layout.dcp;
        struct kvt_work work = decode_work(b, a, h * dcp);
        bool bf16 = b->shape->kv == KVT_KV_BF16;
        add_dcp(b, h * dcp, a->head_dim, a->v_dim);
        add(b, a->window > 0 ? "gqa decode, window" : "gqa decode",
            bf16 ? KVT_FAMILY_GQA_DECODE_BF16 : KVT_FAMILY_GQA_DECODE_FP8, &work, b->layers, true);
    }
    double width = (h + kv) * (a->head_dim + a->v_dim);
    add_prefill(b, a->window > 0 ? "gqa prefill, window" : "gqa prefill", KVT_FAMILY_GQA_PREFILL, a,
                2.0 * b->prompt_rows * width, 2.0 * h * (a->head_dim + a->v_dim), a->window);
    add_gemm(b, "o_proj", matrix_dtype(b, KVT_MATRIX_O), m, d, h * a->v_dim, b->layers);
}

double kvt_experts_hit(double experts, double topk, double tokens, double skew)
{
    double uniform = experts * -expm1(tokens * log1p(-topk / experts));
    double even = log(tokens / 64.0) / log(512.0 / 64.0);
    even = even < 0.0 ? 0.0 : even > 1.0 ? 1.0 : even;
    double share = skew + (1.0 - skew) * even;
    double hit = topk + share * (uniform - topk);
    return hit < topk ? topk : hit;
}

/* Bytes are those of the experts hit; activations stay in L2 until compute is what counts. */
static void list_moe(struct builder *b, const struct kvt_mlp *mlp)
{
    const struct kvt_layout *layout = &b->shape->layout;
    enum kvt_weight_dtype dtype = matrix_dtype(b, KVT_MATRIX_EXPERT_GATE_UP);
    double d = b->model->hidden, m = b->all_rows;
    double inter = mlp->expert_inter / ((double)layout->tp / layout->ep);
    double skew = b->shape->skew < 0.0 ? b->calibration->skew : b->shape->skew;
    double hit = kvt_experts_hit(mlp->experts, mlp->topk, m, skew) / layout->ep;
    double rows = m * mlp->topk / layout->ep;
    double matrices = mlp->gated ? 3.0 : 2.0;
    struct kvt_work work = {.bytes = hit * matrices * d * inter * weight_bytes(dtype),
                            .flops = 2.0 * rows * matrices * d * inter,
                            .tile_flops = 2.0 * hit * matrices * d * inter};
    work.dim[KVT_DIM_M] = m;
    work.dim[KVT_DIM_HIDDEN] = d;
    work.dim[KVT_DIM_INTER] = inter;
    work.dim[KVT_DIM_EXPERTS] = mlp->experts;
    work.dim[KVT_DIM_TOPK] = mlp->topk;
    work.dim[KVT_DIM_RANKS] = layout->ep;
    add_gemm(b, "router", matrix_dtype(b, KVT_MATRIX_ROUTER), m, mlp->experts, d, b->layers);
    if (mlp->shared_inter > 0) {
        double shared = (double)mlp->shared_inter / layout->tp;
        add_gemm(b, "shared gate_up", matrix_dtype(b, KVT_MATRIX_SHARED_GATE_UP), m, 2.0 * shared,
                 d, b->layers);
        add_gemm(b, "shared down", matrix_dtype(b, KVT_MATRIX_SHARED_DOWN), m, d, shared,
                 b->layers);
    }
    add(b, "routed experts", gemm_family(dtype, true), &work, b->layers, false);
}

static void list_dense(struct builder *b, const struct kvt_mlp *mlp)
{
    double d = b->model->hidden, inter = (double)mlp->inter / b->shape->layout.tp;
    add_gemm(b, mlp->gated ? "gate_up" : "up", matrix_dtype(b, KVT_MATRIX_GATE_UP), b->all_rows,
             (mlp->gated ? 2.0 : 1.0) * inter, d, b->layers);
    add_gemm(b, "down", matrix_dtype(b, KVT_MATRIX_DOWN), b->all_rows, d, inter, b->layers);
}

static enum kvt_family layer_family(const struct kvt_layer_group *group)
{
    bool moe = group->mlp.experts > 0;
    if (group->attention.index_heads > 0)
        return KVT_FAMILY_LAYER_SPARSE;
    if (group->attention.kind == KVT_ATTENTION_MLA)
        return moe ? KVT_FAMILY_LAYER_MLA_MOE : KVT_FAMILY_LAYER_MLA_DENSE;
    return moe ? KVT_FAMILY_LAYER_GQA_MOE : KVT_FAMILY_LAYER_GQA_DENSE;
}

/* Between attention and MLP and after the MLP. Without DP attention both are sums over the ranks;
 * with it the MLP needs the tokens of all ranks, and each rank takes its own back. */
static void list_communication(struct builder *b, const struct kvt_layer_group *group)
{
    const struct kvt_layout *layout = &b->shape->layout;
    double d = b->model->hidden, own = b->decode_rows + b->prompt_rows;
    bool attends = group->attention.kind != KVT_ATTENTION_NONE;
    bool mlp = group->mlp.experts > 0 || group->mlp.inter > 0;
    if (attends)
        add_collective(b, "all-reduce after attention", KVT_FAMILY_ALL_REDUCE, own, d,
                       b->attention_ranks, b->layers);
    if (!mlp)
        return;
    if (layout->dp == 1) {
        add_collective(b, "all-reduce after MLP", KVT_FAMILY_ALL_REDUCE, own, d, layout->tp,
                       b->layers);
    } else {
        add_collective(b, "gather tokens", KVT_FAMILY_ALL_GATHER, b->all_rows, d, layout->tp,
                       b->layers);
        add_collective(b, "scatter tokens", KVT_FAMILY_REDUCE_SCATTER, b->all_rows, d, layout->tp,
                       b->layers);
    }
}

/* Norms, activations and residuals of prompt tokens pass memory about 12 times per hidden value and
 * 3 times per MLP value; those of a decode step stay in L2 and are part of layer-*. */
static void list_elementwise(struct builder *b, const struct kvt_layer_group *group)
{
    double inter = group->mlp.experts > 0 ? (double)group->mlp.shared_inter / b->shape->layout.tp
                                          : (double)group->mlp.inter / b->shape->layout.tp;
    struct kvt_work work = {.bytes =
                                2.0 * b->prompt_rows * (12.0 * b->model->hidden + 3.0 * inter)};
    if (b->prompt_rows > 0.0)
        add(b, "elementwise", KVT_FAMILY_ELEMENTWISE, &work, b->layers, false);
}

static void list_layer(struct builder *b, const struct kvt_layer_group *group)
{
    b->layer = group;
    if (group->attention.kind == KVT_ATTENTION_MLA)
        list_mla(b, &group->attention);
    else if (group->attention.kind == KVT_ATTENTION_GQA)
        list_gqa(b, &group->attention);
    if (group->mlp.experts > 0)
        list_moe(b, &group->mlp);
    else if (group->mlp.inter > 0)
        list_dense(b, &group->mlp);
    list_communication(b, group);
    list_elementwise(b, group);
    add_constant(b, "small kernels and gaps", layer_family(group), b->layers);
}

/* Groups that are alike are listed once: what makes kernels differ is compared. */
static bool group_is_like(const struct kvt_layer_group *x, const struct kvt_layer_group *y)
{
    const struct kvt_attention *a = &x->attention, *c = &y->attention;
    const struct kvt_mlp *m = &x->mlp, *n = &y->mlp;
    return a->kind == c->kind && a->heads == c->heads && a->kv_heads == c->kv_heads &&
           a->head_dim == c->head_dim && a->v_dim == c->v_dim && a->q_lora == c->q_lora &&
           a->kv_lora == c->kv_lora && a->nope == c->nope && a->rope == c->rope &&
           a->window == c->window && a->index_heads == c->index_heads &&
           a->index_dim == c->index_dim && a->index_topk == c->index_topk &&
           a->index_shared == c->index_shared && a->v_is_k == c->v_is_k &&
           a->output_gate == c->output_gate && m->inter == n->inter && m->gated == n->gated &&
           m->experts == n->experts && m->topk == n->topk && m->expert_inter == n->expert_inter &&
           m->shared_inter == n->shared_inter && memcmp(x->dtype, y->dtype, sizeof x->dtype) == 0;
}

static void list_layers(struct builder *b)
{
    const struct kvt_model *model = b->model;
    bool done[KVT_MODEL_GROUPS_MAX] = {false};
    for (int32_t g = 0; g < model->group_count; g++) {
        if (done[g])
            continue;
        b->group = g;
        b->layers = 0.0;
        for (int32_t o = g; o < model->group_count; o++) {
            if (!done[o] && group_is_like(&model->groups[g], &model->groups[o])) {
                done[o] = true;
                b->layers += model->groups[o].count;
            }
        }
        list_layer(b, &model->groups[g]);
    }
}

static void list_head(struct builder *b, double rows, double count)
{
    add_gemm(b, "lm_head", b->model->head, rows, (double)b->model->vocab / b->shape->layout.tp,
             b->model->hidden, count);
}

/* The draft layer is one more layer, run once per drafted token. */
static void list_draft(struct builder *b)
{
    double drafts = b->shape->draft_tokens;
    if (drafts <= 0.0 || b->batch <= 0.0 || b->model->mtp_layers == 0)
        return;
    struct builder draft = *b;
    draft.layers = drafts;
    draft.group = -1;
    draft.decode_rows = b->batch;
    draft.all_rows = b->batch * b->shape->layout.dp;
    draft.prompt_rows = draft.pairs = 0.0;
    list_layer(&draft, &b->model->mtp);
    list_head(&draft, draft.all_rows, drafts);
}

static void list_once(struct builder *b)
{
    const struct kvt_layout *layout = &b->shape->layout;
    b->group = -1;
    list_head(b, b->head_rows, 1.0);
    if (layout->pp > 1) {
        struct kvt_work work = {.bytes = 2.0 * b->all_rows * b->model->hidden};
        add(b, "send to the next stage", KVT_FAMILY_SEND, &work, layout->pp, false);
    }
    if (b->shape->tag_page_tokens > 0 && b->batch > 0.0) {
        struct kvt_work work = {.bytes = 48.0 * b->context / b->shape->tag_page_tokens};
        add(b, "tag check", KVT_FAMILY_TAG_CHECK, &work, 1.0, true);
    }
}

static double constant(const struct builder *b, enum kvt_family family)
{
    struct kvt_work work = {0};
    work.dim[KVT_DIM_RANKS] = b->shape->layout.tp;
    work.dim[KVT_DIM_HIDDEN] = b->model->hidden;
    const struct kvt_law *law = kvt_calibration_law(b->calibration, family, &work);
    return kvt_calibration_time(b->calibration, law, &work, NULL);
}

void kvt_step_list(struct kvt_step *step, const struct kvt_model *model,
                   const struct kvt_step_shape *shape, const struct kvt_calibration *calibration,
                   const struct kvt_step_work *work, enum kvt_step_part part)
{
    const struct kvt_layout *layout = &shape->layout;
    double stages = work->prompt_tokens > 0.0 ? 1.0 : layout->pp;
    double share = (double)layout->dp * stages;
    /* A rank has whole requests, so its share of the batch rounds up; contexts are balanced. */
    double batch = ceil(work->decodes / share);
    struct builder b = {
        .step = step,
        .model = model,
        .shape = shape,
        .calibration = calibration,
        .part = (unsigned)part,
        .batch = batch,
        .context = work->context / share,
        .windowed = work->windowed / share,
        .decode_rows = batch * (1 + shape->draft_tokens),
        .prompt_rows = work->prompt_tokens / layout->dp,
        .pairs = work->pairs / layout->dp,
        .attention_ranks = layout->tp / layout->dp,
    };
    b.all_rows = (b.decode_rows + b.prompt_rows) * layout->dp;
    b.head_rows = b.decode_rows * layout->dp + work->prompt_ends;
    step->count = 0;
    step->kernel_time = 0.0;
    list_layers(&b);
    list_draft(&b);
    list_once(&b);
    step->host_floor = work->prompt_tokens > 0.0
                           ? constant(&b, KVT_FAMILY_PREFILL_LAYER) * model->layers
                           : constant(&b, KVT_FAMILY_HOST_FLOOR);
    double time = step->kernel_time;
    if (work->prompt_tokens > 0.0)
        time += constant(&b, KVT_FAMILY_PREFILL_STEP);
    step->time = time > step->host_floor ? time : step->host_floor;
}

int32_t kvt_step_window(const struct kvt_model *model)
{
    int32_t window = 0;
    for (int32_t g = 0; g < model->group_count; g++) {
        const struct kvt_attention *a = &model->groups[g].attention;
        int32_t own = a->window > 0 ? a->window : a->index_heads > 0 ? a->index_topk : 0;
        window = own > window ? own : window;
    }
    return window;
}

enum kvt_status kvt_step_check(const struct kvt_model *model, const struct kvt_step_shape *shape,
                               struct kvt_err *err)
{
    const struct kvt_layout *l = &shape->layout;
    if (l->tp < 1 || l->pp < 1 || l->dp < 1 || l->ep < 1 || l->dcp < 1)
        return kvt_err_set(err, KVT_ECONFIG, "tp, pp, dp, ep and dcp: want 1 or more each");
    if (l->tp % l->dp != 0)
        return kvt_err_set(err, KVT_ECONFIG, "dp: want a divisor of tp (%d), got %d", l->tp, l->dp);
    if (l->tp % l->ep != 0)
        return kvt_err_set(err, KVT_ECONFIG, "ep: want a divisor of tp (%d), got %d", l->tp, l->ep);
    if (shape->draft_tokens > 0 && model->mtp_layers == 0)
        return kvt_err_set(err, KVT_ECONFIG, "draft_tokens: model \"%s\" has no draft (MTP) layers",
                           model->name);
    return KVT_OK;
}
