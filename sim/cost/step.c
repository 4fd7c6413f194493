#include "sim/cost/step.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/cost/step_build.h"
#include "sim/model/kv.h"
#include "sim/model/weights.h"

/* Tokens choose experts by a power law of exponent 1.01, as tables of experts have it and as
 * serving does more nearly than evenly. */
#define ROUTING 2.01

#define DISPATCH_BYTES 3.0  /* of a value: fp8 out, bf16 back */
#define DISPATCH_SMS   20.0 /* DeepEP's default */

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

void kvt_builder_add(struct kvt_builder *b, const char *name, enum kvt_family family,
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

static void add_gemm(struct kvt_builder *b, const char *name, enum kvt_weight_dtype dtype, double m,
                     double n, double k, double count)
{
    struct kvt_work work = {.bytes = kvt_weight_bits(dtype) / 8.0 * n * k + 2.0 * m * (n + k),
                            .flops = 2.0 * m * n * k};
    work.dim[KVT_DIM_M] = m;
    work.dim[KVT_DIM_N] = n;
    work.dim[KVT_DIM_K] = k;
    work.dim[KVT_DIM_HIDDEN] = b->model->hidden; /* which kernel: by the model, not by the shape */
    work.dim[KVT_DIM_WEIGHT_BITS] = kvt_weight_bits(dtype);
    if (m > 0.0 && n > 0.0)
        kvt_builder_add(b, name, gemm_family(dtype, false), &work, count, false);
}

void kvt_builder_gemm(struct kvt_builder *b, const char *name, enum kvt_matrix matrix, double m,
                      double n, double k)
{
    add_gemm(b, name, kvt_builder_dtype(b, matrix), m, n, k, b->layers);
}

void kvt_builder_collective(struct kvt_builder *b, const char *name, enum kvt_family family,
                            double rows, double values, double ranks)
{
    struct kvt_work work = {.bytes = 2.0 * rows * values};
    work.dim[KVT_DIM_RANKS] = ranks;
    if (ranks > 1.0)
        kvt_builder_add(b, name, family, &work, b->layers, false);
}

static void add_constant(struct kvt_builder *b, const char *name, enum kvt_family family,
                         double count)
{
    struct kvt_work work = {0};
    work.dim[KVT_DIM_HIDDEN] = b->model->hidden;
    work.dim[KVT_DIM_RANKS] = b->shape->layout.tp;
    kvt_builder_add(b, name, family, &work, count, false);
}

double kvt_step_token_bytes(const struct kvt_model *model, const struct kvt_step_shape *shape)
{
    struct kvt_kv_want want = {
        .engine = shape->engine, .dtype = shape->kv, .layout = shape->layout};
    struct kvt_kv_slot slot;
    if (kvt_kv_slot(model, &want, &slot, NULL) != KVT_OK)
        return 0.0;
    return (double)slot.stored_bytes / shape->layout.dcp;
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

double kvt_experts_fullest(double experts, double hit, double ranks)
{
    if (ranks <= 1.0 || experts <= 1.0)
        return hit;
    double mean = hit / ranks;
    double variance = mean * (1.0 - 1.0 / ranks) * (experts - hit) / (experts - 1.0);
    double longest = gsl_cdf_ugaussian_Pinv((ranks - 0.375) / (ranks + 0.25));
    double fullest = mean + longest * sqrt(fmax(variance, 0.0));
    return fmin(fullest, fmin(hit, experts / ranks));
}

static bool dispatches(const struct kvt_builder *b, const struct kvt_layer_group *group)
{
    return b->shape->moe_a2a == KVT_MOE_A2A_DEEPEP && group->mlp.experts > 0;
}

/* Tokens that a rank has of its own, where those that attend together share theirs out. */
static double rank_rows(const struct kvt_builder *b)
{
    return (b->decode_rows + b->prompt_rows) / b->attention_ranks;
}

/* Bytes are those of the experts hit; activations stay in L2 until compute is what counts. The law
 * is looked up before they are known: it may say how skewed this model routes. */
static void list_moe(struct kvt_builder *b, const struct kvt_mlp *mlp)
{
    const struct kvt_layout *layout = &b->shape->layout;
    enum kvt_weight_dtype dtype = kvt_builder_dtype(b, KVT_MATRIX_EXPERT_GATE_UP);
    double d = b->model->hidden, m = b->all_rows;
    double inter = mlp->expert_inter / fmax(1.0, (double)layout->tp / layout->ep);
    struct kvt_work work = {.routed = b->shape->skew >= 0.0};
    work.dim[KVT_DIM_M] = m;
    work.dim[KVT_DIM_HIDDEN] = d;
    work.dim[KVT_DIM_INTER] = inter;
    work.dim[KVT_DIM_EXPERTS] = mlp->experts;
    work.dim[KVT_DIM_TOPK] = mlp->topk;
    work.dim[KVT_DIM_RANKS] = layout->ep;
    work.dim[KVT_DIM_ROUTING] = ROUTING;
    work.dim[KVT_DIM_WEIGHT_BITS] = kvt_weight_bits(dtype);
    double skew = kvt_calibration_law(b->calibration, gemm_family(dtype, true), &work)->skew;
    if (b->shape->skew >= 0.0)
        skew = b->shape->skew;
    else if (skew == 0.0)
        skew = b->calibration->skew;
    double hit = kvt_experts_hit(mlp->experts, mlp->topk, m, skew);
    hit = kvt_experts_fullest(mlp->experts, hit, layout->ep);
    double matrix = (mlp->gated ? 3.0 : 2.0) * d * inter; /* weights of one expert here */
    work.bytes = hit * matrix * kvt_weight_bits(dtype) / 8.0;
    work.flops = 2.0 * m * mlp->topk / layout->ep * matrix;
    work.tile_flops = 2.0 * hit * matrix;
    bool apart = dispatches(b, b->layer); /* router and shared experts see a rank's own tokens */
    m = apart ? rank_rows(b) : m;
    kvt_builder_gemm(b, "router", KVT_MATRIX_ROUTER, m, mlp->experts, d);
    if (mlp->shared_inter > 0) {
        double shared = (double)mlp->shared_inter / (apart ? 1 : layout->tp);
        kvt_builder_gemm(b, "shared gate_up", KVT_MATRIX_SHARED_GATE_UP, m, 2.0 * shared, d);
        kvt_builder_gemm(b, "shared down", KVT_MATRIX_SHARED_DOWN, m, d, shared);
    }
    kvt_builder_add(b, "routed experts", gemm_family(dtype, true), &work, b->layers, false);
}

static void list_dense(struct kvt_builder *b, const struct kvt_mlp *mlp)
{
    double d = b->model->hidden, inter = (double)mlp->inter / b->shape->layout.tp;
    kvt_builder_gemm(b, mlp->gated ? "gate_up" : "up", KVT_MATRIX_GATE_UP, b->all_rows,
                     (mlp->gated ? 2.0 : 1.0) * inter, d);
    kvt_builder_gemm(b, "down", KVT_MATRIX_DOWN, b->all_rows, d, inter);
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

/* Tokens to the ranks of their experts and back, over links that the low-latency form uses better
 * and that the other one keeps busy with some SMs. */
static void list_dispatch(struct kvt_builder *b, const struct kvt_layer_group *group)
{
    double d = b->model->hidden, own = b->decode_rows + b->prompt_rows;
    bool low_latency = b->prompt_rows == 0.0;
    struct kvt_work work = {.bytes = DISPATCH_BYTES * rank_rows(b) * group->mlp.topk * d};
    work.dim[KVT_DIM_M] = rank_rows(b);
    work.dim[KVT_DIM_HIDDEN] = d;
    work.dim[KVT_DIM_EXPERTS] = group->mlp.experts;
    work.dim[KVT_DIM_TOPK] = group->mlp.topk;
    work.dim[KVT_DIM_RANKS] = b->shape->layout.ep;
    work.dim[KVT_DIM_N] = low_latency ? 1.0 : DISPATCH_SMS;
    if (group->attention.kind != KVT_ATTENTION_NONE)
        kvt_builder_collective(b, "scatter after attention", KVT_FAMILY_REDUCE_SCATTER, own, d,
                               b->attention_ranks);
    kvt_builder_add(b, "dispatch and combine",
                    low_latency ? KVT_FAMILY_DISPATCH_LL : KVT_FAMILY_DISPATCH, &work, b->layers,
                    false);
    kvt_builder_collective(b, "gather after MLP", KVT_FAMILY_ALL_GATHER, own, d,
                           b->attention_ranks);
}

/* Between attention and MLP and after the MLP. Without DP attention both are sums over the ranks;
 * with it the MLP needs the tokens of all ranks, and each rank takes its own back. */
static void list_communication(struct kvt_builder *b, const struct kvt_layer_group *group)
{
    const struct kvt_layout *layout = &b->shape->layout;
    double d = b->model->hidden, own = b->decode_rows + b->prompt_rows;
    bool attends = group->attention.kind != KVT_ATTENTION_NONE;
    bool mlp = group->mlp.experts > 0 || group->mlp.inter > 0;
    if (dispatches(b, group)) {
        list_dispatch(b, group);
        return;
    }
    if (attends)
        kvt_builder_collective(b, "all-reduce after attention", KVT_FAMILY_ALL_REDUCE, own, d,
                               b->attention_ranks);
    if (!mlp)
        return;
    if (layout->dp == 1) {
        kvt_builder_collective(b, "all-reduce after MLP", KVT_FAMILY_ALL_REDUCE, own, d,
                               layout->tp);
    } else {
        kvt_builder_collective(b, "gather tokens", KVT_FAMILY_ALL_GATHER, b->all_rows, d,
                               layout->tp);
        kvt_builder_collective(b, "scatter tokens", KVT_FAMILY_REDUCE_SCATTER, b->all_rows, d,
                               layout->tp);
    }
}

/* Norms, activations and residuals of prompt tokens pass memory about 12 times per hidden value and
 * 3 times per MLP value; those of a decode step stay in L2 and are part of layer-*. */
static void list_elementwise(struct kvt_builder *b, const struct kvt_layer_group *group)
{
    double inter = group->mlp.experts > 0 ? (double)group->mlp.shared_inter / b->shape->layout.tp
                                          : (double)group->mlp.inter / b->shape->layout.tp;
    double rows = b->prompt_rows + (b->shape->own ? b->decode_rows : 0.0);
    struct kvt_work work = {.bytes = 2.0 * rows * (12.0 * b->model->hidden + 3.0 * inter)};
    if (rows > 0.0)
        kvt_builder_add(b, "elementwise", KVT_FAMILY_ELEMENTWISE, &work, b->layers, false);
}

static void list_layer(struct kvt_builder *b, const struct kvt_layer_group *group)
{
    b->layer = group;
    kvt_builder_attention(b);
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
           a->index_shared == c->index_shared && a->qk_norm_whole == c->qk_norm_whole &&
           a->v_is_k == c->v_is_k && a->output_gate == c->output_gate && m->inter == n->inter &&
           m->gated == n->gated && m->experts == n->experts && m->topk == n->topk &&
           m->expert_inter == n->expert_inter && m->shared_inter == n->shared_inter &&
           memcmp(x->dtype, y->dtype, sizeof x->dtype) == 0;
}

static void list_layers(struct kvt_builder *b)
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

static void list_head(struct kvt_builder *b, double rows, double count)
{
    add_gemm(b, "lm_head", b->model->head, rows, (double)b->model->vocab / b->shape->layout.tp,
             b->model->hidden, count);
}

/* The draft layer is one more layer, run once per drafted token. */
static void list_draft(struct kvt_builder *b)
{
    double drafts = b->shape->draft_tokens;
    if (drafts <= 0.0 || b->batch <= 0.0 || b->model->mtp_layers == 0)
        return;
    struct kvt_builder draft = *b;
    draft.layers = drafts;
    draft.group = -1;
    draft.decode_rows = b->batch;
    draft.all_rows = b->batch * b->shape->layout.dp;
    draft.prompt_rows = draft.pairs = 0.0;
    bool own = b->model->mtp.attention.kind != KVT_ATTENTION_NONE;
    list_layer(&draft, own ? &b->model->mtp : &b->model->groups[b->model->group_count - 1]);
    list_head(&draft, draft.all_rows, drafts);
}

#define CANARY_BYTES 32.0 /* token, position, hash of what is before, hash of its bytes */
#define SECTOR_BYTES 32.0 /* that reading a tag out of a page takes */

/* Calls of a check in a step, and what each reads of the whole context. */
static double looks_of(const struct kvt_builder *b, double looks, double *share)
{
    double once = b->shape->guards.once;
    *share = 1.0;
    if (once <= 0.0 || b->batch <= 0.0)
        return looks;
    double calls = fmin(1.0, b->batch / once);
    *share = 1.0 / (once * calls);
    return calls;
}

static void list_tags(struct kvt_builder *b)
{
    const struct kvt_step_guards *guards = &b->shape->guards;
    double share, looks = looks_of(b, guards->tag_looks > 0.0 ? guards->tag_looks : 1.0, &share);
    double pages = guards->tag_tail ? b->batch : b->context / b->shape->tag_page_tokens;
    double each = guards->tag_inband ? 24.0 + SECTOR_BYTES * b->model->layers : 48.0;
    struct kvt_work work = {.bytes = each * pages * share};
    if (b->batch > 0.0)
        kvt_builder_add(b, "tag check", KVT_FAMILY_TAG_CHECK, &work, looks, !guards->tag_tail);
}

/* Checksums of what a step writes and reads: of the KV's bytes, or of a record for each token. */
static void list_sums(struct kvt_builder *b, enum kvt_family family, double token, double looks,
                      const char *writes, const char *reads)
{
    double share;
    looks = looks_of(b, looks, &share);
    struct kvt_work write = {.bytes = token * (b->batch + b->prompt_rows)};
    struct kvt_work read = {.bytes = token * b->context * share};
    kvt_builder_add(b, writes, family, &write, 1.0, false);
    if (looks > 0.0 && b->batch > 0.0)
        kvt_builder_add(b, reads, family, &read, looks, true);
}

/* A guard that is off costs nothing, here either. */
static void list_guards(struct kvt_builder *b)
{
    const struct kvt_step_guards *guards = &b->shape->guards;
    bool zeroes = guards->zero && b->freed > 0.0;
    double token = guards->digest || zeroes ? kvt_step_token_bytes(b->model, b->shape) : 0.0;
    if (b->shape->tag_page_tokens > 0)
        list_tags(b);
    if (guards->digest)
        list_sums(b, KVT_FAMILY_DIGEST, token, guards->digest_looks, "digest of what is written",
                  "digest check");
    if (guards->canary)
        list_sums(b, KVT_FAMILY_TAG_CHECK, CANARY_BYTES, guards->canary_looks,
                  "canary of what is written", "canary check");
    if (zeroes) {
        struct kvt_work zero = {.bytes = token * b->freed};
        kvt_builder_add(b, "zero freed pages", KVT_FAMILY_ELEMENTWISE, &zero, 1.0, false);
    }
}

static void list_once(struct kvt_builder *b)
{
    const struct kvt_layout *layout = &b->shape->layout;
    b->group = -1;
    list_head(b, b->head_rows, 1.0);
    if (layout->pp > 1) {
        struct kvt_work work = {.bytes = 2.0 * b->all_rows * b->model->hidden};
        kvt_builder_add(b, "send to the next stage", KVT_FAMILY_SEND, &work, layout->pp, false);
    }
    list_guards(b);
}

const struct kvt_law *kvt_step_constant_law(const struct kvt_model *model,
                                            const struct kvt_step_shape *shape,
                                            const struct kvt_calibration *calibration,
                                            enum kvt_family family, struct kvt_work *work)
{
    *work = (struct kvt_work){0};
    work->dim[KVT_DIM_RANKS] = shape->layout.tp;
    work->dim[KVT_DIM_HIDDEN] = model->hidden;
    for (int32_t g = 0; g < model->group_count; g++)
        work->dim[KVT_DIM_EXPERTS] = fmax(work->dim[KVT_DIM_EXPERTS], model->groups[g].mlp.experts);
    return kvt_calibration_law(calibration, family, work);
}

double kvt_step_constant(const struct kvt_model *model, const struct kvt_step_shape *shape,
                         const struct kvt_calibration *calibration, enum kvt_family family)
{
    struct kvt_work work;
    const struct kvt_law *law = kvt_step_constant_law(model, shape, calibration, family, &work);
    return kvt_calibration_time(calibration, law, &work, NULL);
}

static double constant(const struct kvt_builder *b, enum kvt_family family)
{
    return kvt_step_constant(b->model, b->shape, b->calibration, family);
}

double kvt_step_prefill_floor(const struct kvt_model *model, const struct kvt_step_shape *shape,
                              const struct kvt_calibration *calibration)
{
    double floor = 0.0;
    for (int32_t g = 0; g < model->group_count; g++) {
        const struct kvt_layer_group *group = &model->groups[g];
        struct kvt_work work = {0};
        work.dim[KVT_DIM_RANKS] = shape->layout.tp;
        work.dim[KVT_DIM_HIDDEN] = model->hidden;
        work.dim[KVT_DIM_EXPERTS] = group->mlp.experts;
        work.dim[KVT_DIM_HEADS] = group->attention.heads;
        work.dim[KVT_DIM_KV_HEADS] = group->attention.kv_heads;
        const struct kvt_law *law =
            kvt_calibration_law(calibration, KVT_FAMILY_PREFILL_LAYER, &work);
        floor += group->count * kvt_calibration_time(calibration, law, &work, NULL);
    }
    return floor;
}

void kvt_step_list(struct kvt_kernel_list *step, const struct kvt_model *model,
                   const struct kvt_step_shape *shape, const struct kvt_calibration *calibration,
                   const struct kvt_step_work *work, enum kvt_step_part part)
{
    const struct kvt_layout *layout = &shape->layout;
    double stages = work->prompt_tokens > 0.0 ? 1.0 : layout->pp;
    double share = (double)layout->dp * stages;
    /* The fullest rank has whole requests of the average context; windows are taken as balanced, so
     * that their cost is one slope for all batches. */
    double batch = ceil(work->decodes / share);
    double fullest = work->decodes > 0.0 ? batch / work->decodes : 1.0 / share;
    struct kvt_builder b = {
        .step = step,
        .model = model,
        .shape = shape,
        .calibration = calibration,
        .part = (unsigned)part,
        .batch = batch,
        .context = work->context * fullest,
        .windowed = work->windowed / share,
        .decode_rows = batch * (1 + shape->draft_tokens),
        .prompt_rows = work->prompt_tokens / layout->dp,
        .pairs = work->pairs / layout->dp,
        .attention_ranks = layout->tp / layout->dp,
        .freed = work->freed / layout->dp,
    };
    b.all_rows = (b.decode_rows + b.prompt_rows) * layout->dp;
    b.head_rows = b.decode_rows * layout->dp + work->prompt_ends;
    step->count = 0;
    step->kernel_time = 0.0;
    list_layers(&b);
    list_draft(&b);
    list_once(&b);
    double tokens = work->decodes + work->prompt_ends;
    step->host_floor =
        fmax(work->prompt_tokens > 0.0 ? kvt_step_prefill_floor(model, shape, calibration)
             : shape->host_floor > 0.0 ? shape->host_floor
                                       : constant(&b, KVT_FAMILY_HOST_FLOOR),
             constant(&b, KVT_FAMILY_HOST_REQUEST) * tokens);
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
    struct kvt_kv_want want = {
        .engine = shape->engine, .dtype = shape->kv, .layout = shape->layout};
    struct kvt_kv_slot slot;
    KVT_TRY(kvt_layout_check(&shape->layout, model, (struct kvt_where){0}, err));
    KVT_TRY(kvt_kv_slot(model, &want, &slot, err));
    if (shape->draft_tokens > 0 && model->mtp_layers == 0)
        return kvt_err_set(err, KVT_ECONFIG, "draft_tokens: model \"%s\" has no draft (MTP) layers",
                           model->name);
    return KVT_OK;
}
