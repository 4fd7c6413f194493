#include "sim/model/weights.h"

#include "sim/base/assert.h"
#include "sim/base/ticks.h"

#define X(name, text) text,
const char *const kvt_weight_group_names[KVT_WEIGHT_GROUP_COUNT] = {KVT_WEIGHT_GROUPS(X)};
#undef X

int64_t kvt_matrix_bytes(int64_t rows, int64_t columns, enum kvt_weight_dtype dtype)
{
    int64_t count = rows * columns;
    switch (dtype) {
    case KVT_WEIGHTS_BF16:
        return 2 * count;
    case KVT_WEIGHTS_FP8:
        return count + 4;
    case KVT_WEIGHTS_FP8_BLOCK:
        return count + 4 * kvt_div_ceil(rows, 128) * kvt_div_ceil(columns, 128);
    case KVT_WEIGHTS_INT4_G32:
        return kvt_div_ceil(count, 2) + 2 * rows * kvt_div_ceil(columns, 32);
    case KVT_WEIGHTS_INT4_G128:
        return kvt_div_ceil(count, 2) + 2 * rows * kvt_div_ceil(columns, 128);
    case KVT_WEIGHTS_NVFP4:
        return kvt_div_ceil(count, 2) + rows * kvt_div_ceil(columns, 16) + 8;
    case KVT_WEIGHTS_MXFP4:
        return kvt_div_ceil(count, 2) + rows * kvt_div_ceil(columns, 32);
    case KVT_WEIGHT_DTYPE_COUNT:
        break;
    }
    kvt_unreachable();
}

double kvt_weight_bits(enum kvt_weight_dtype dtype)
{
    return 8.0 * (double)kvt_matrix_bytes(16384, 16384, dtype) / (16384.0 * 16384.0);
}

/* How a matrix is spread: its rows or columns over `ways` GPUs, `copies` of it in the layer. */
struct part {
    int64_t rows, columns, copies;
    int32_t ways;
    int32_t active; /* of copies, those that one token uses */
};

struct counter {
    struct kvt_weights *weights;
    const struct kvt_layout *layout;
    int64_t stage, all; /* layers of the fullest pipeline stage, of the model */
    int64_t params, checkpoint_bytes, rank_bytes, active; /* since the last flush */
};

static void add_matrix(struct counter *counter, const struct part *part, int dtype)
{
    int64_t bytes = kvt_matrix_bytes(part->rows, part->columns, (enum kvt_weight_dtype)dtype);
    counter->params += part->rows * part->columns * part->copies;
    counter->active += part->rows * part->columns * part->active;
    counter->checkpoint_bytes += bytes * part->copies;
    counter->rank_bytes += kvt_div_ceil(bytes * part->copies, part->ways);
}

/* Vectors: norms and biases. They are bf16 and every GPU has them. */
static void add_vector(struct counter *counter, int64_t count)
{
    counter->params += count;
    counter->active += count;
    counter->checkpoint_bytes += 2 * count;
    counter->rank_bytes += 2 * count;
}

/* Give what was added to a group, `layers` times over the model and, of that, stage of all on the
 * fullest GPU. */
static void give(struct counter *counter, enum kvt_weight_group group, int64_t layers,
                 int64_t stage, int64_t all)
{
    struct kvt_weights *weights = counter->weights;
    weights->params[group] += counter->params * layers;
    weights->checkpoint_bytes[group] += counter->checkpoint_bytes * layers;
    weights->rank_bytes[group] += kvt_muldiv_ceil(counter->rank_bytes * layers, stage, all);
    if (group != KVT_WEIGHT_GROUP_MTP && group != KVT_WEIGHT_GROUP_ABSORBED)
        weights->params_active += counter->active * layers;
    counter->params = counter->checkpoint_bytes = counter->rank_bytes = counter->active = 0;
}

/* Layers are spread evenly over the stages of a pipeline, each group like the whole. */
static void flush(struct counter *counter, enum kvt_weight_group group, int64_t layers)
{
    give(counter, group, layers, counter->stage, counter->all);
}

static void add_mla(struct counter *counter, const struct kvt_layer_group *group, int64_t hidden)
{
    const struct kvt_attention *a = &group->attention;
    const uint8_t *dtype = group->dtype;
    int32_t ranks = kvt_layout_attention_tp(counter->layout);
    int64_t q_width = (int64_t)a->heads * (a->nope + a->rope);
    if (a->q_lora > 0) {
        add_matrix(counter, &(struct part){a->q_lora, hidden, 1, 1, 1}, dtype[KVT_MATRIX_Q_A]);
        add_matrix(counter, &(struct part){q_width, a->q_lora, 1, ranks, 1}, dtype[KVT_MATRIX_Q_B]);
        add_vector(counter, a->q_lora);
    } else {
        add_matrix(counter, &(struct part){q_width, hidden, 1, ranks, 1}, dtype[KVT_MATRIX_Q]);
    }
    add_matrix(counter, &(struct part){a->kv_lora + a->rope, hidden, 1, 1, 1},
               dtype[KVT_MATRIX_KV_A]);
    add_vector(counter, a->kv_lora);
    add_matrix(counter,
               &(struct part){(int64_t)a->heads * (a->nope + a->v_dim), a->kv_lora, 1, ranks, 1},
               dtype[KVT_MATRIX_KV_B]);
    add_matrix(counter, &(struct part){hidden, (int64_t)a->heads * a->v_dim, 1, ranks, 1},
               dtype[KVT_MATRIX_O]);
}

static void add_gqa(struct counter *counter, const struct kvt_layer_group *group, int64_t hidden)
{
    const struct kvt_attention *a = &group->attention;
    const uint8_t *dtype = group->dtype;
    int32_t ranks = kvt_layout_attention_tp(counter->layout);
    int32_t kv_ranks = ranks < a->kv_heads ? ranks : a->kv_heads;
    int64_t q_width = (int64_t)a->heads * a->head_dim, k_width = (int64_t)a->kv_heads * a->head_dim;
    int64_t v_width = (int64_t)a->kv_heads * a->v_dim, o_width = (int64_t)a->heads * a->v_dim;
    int64_t q_rows = a->output_gate ? 2 * q_width : q_width;
    add_matrix(counter, &(struct part){q_rows, hidden, 1, ranks, 1}, dtype[KVT_MATRIX_Q]);
    add_matrix(counter, &(struct part){k_width, hidden, 1, kv_ranks, 1}, dtype[KVT_MATRIX_K]);
    if (!a->v_is_k)
        add_matrix(counter, &(struct part){v_width, hidden, 1, kv_ranks, 1}, dtype[KVT_MATRIX_V]);
    add_matrix(counter, &(struct part){hidden, o_width, 1, ranks, 1}, dtype[KVT_MATRIX_O]);
    if (a->qkv_bias)
        add_vector(counter, q_width + k_width + v_width);
    if (a->o_bias)
        add_vector(counter, hidden);
    if (a->qk_norm)
        add_vector(counter, 2 * (int64_t)a->head_dim);
    if (a->sinks)
        add_vector(counter, a->heads);
}

static void add_indexer(struct counter *counter, const struct kvt_layer_group *group,
                        int64_t hidden)
{
    const struct kvt_attention *a = &group->attention;
    if (a->index_heads == 0 || a->index_shared)
        return;
    int64_t from = a->q_lora > 0 ? a->q_lora : hidden;
    add_matrix(counter, &(struct part){(int64_t)a->index_heads * a->index_dim, from, 1, 1, 1},
               group->dtype[KVT_MATRIX_INDEX_Q]);
    add_matrix(counter, &(struct part){a->index_dim, hidden, 1, 1, 1},
               group->dtype[KVT_MATRIX_INDEX_K]);
    add_matrix(counter, &(struct part){a->index_heads, hidden, 1, 1, 1},
               group->dtype[KVT_MATRIX_INDEX_W]);
    add_vector(counter, 2 * (int64_t)a->index_dim);
}

static void add_router(struct counter *counter, const struct kvt_layer_group *group, int64_t hidden)
{
    const struct kvt_mlp *mlp = &group->mlp;
    if (mlp->experts == 0)
        return;
    add_matrix(counter, &(struct part){mlp->experts, hidden, 1, 1, 1},
               group->dtype[KVT_MATRIX_ROUTER]);
    if (mlp->router_bias)
        add_vector(counter, 2 * (int64_t)mlp->experts); /* fp32 */
}

/* Kernels for mxfp4 experts want whole tiles: a rank holds its slice of inter padded to 128 and
 * hidden padded to 256 (vLLM and SGLang on NVIDIA; 2880 x 2880 of gpt-oss becomes 2944 x 3072). */
static int64_t padded_experts(const struct kvt_mlp *mlp, const struct kvt_layout *layout,
                              int64_t hidden, int64_t up)
{
    int32_t ep = layout->ep;
    int32_t slices = layout->tp > ep ? layout->tp / ep : 1;
    int64_t inter = kvt_div_ceil(kvt_div_ceil(mlp->expert_inter, slices), 128) * 128;
    int64_t wide = kvt_div_ceil(hidden, 256) * 256;
    int64_t one = up * kvt_matrix_bytes(inter, wide, KVT_WEIGHTS_MXFP4) +
                  kvt_matrix_bytes(wide, inter, KVT_WEIGHTS_MXFP4);
    return one * kvt_div_ceil(mlp->experts, ep);
}

static void add_routed(struct counter *counter, const struct kvt_layer_group *group, int64_t hidden)
{
    const struct kvt_mlp *mlp = &group->mlp;
    if (mlp->experts == 0)
        return;
    const struct kvt_layout *layout = counter->layout;
    int32_t ways = layout->ep > layout->tp ? layout->ep : layout->tp;
    int64_t up = mlp->gated ? 2 : 1, before = counter->rank_bytes;
    /* gate and up are matrices of their own: scales round per matrix. */
    add_matrix(
        counter,
        &(struct part){mlp->expert_inter, hidden, up * mlp->experts, ways, (int32_t)up * mlp->topk},
        group->dtype[KVT_MATRIX_EXPERT_GATE_UP]);
    add_matrix(counter, &(struct part){hidden, mlp->expert_inter, mlp->experts, ways, mlp->topk},
               group->dtype[KVT_MATRIX_EXPERT_DOWN]);
    if (group->dtype[KVT_MATRIX_EXPERT_DOWN] == KVT_WEIGHTS_MXFP4)
        counter->rank_bytes +=
            padded_experts(mlp, layout, hidden, up) - (counter->rank_bytes - before);
    if (mlp->bias) {
        int64_t biases = mlp->experts * (up * mlp->expert_inter + hidden);
        counter->params += biases;
        counter->active += mlp->topk * (up * mlp->expert_inter + hidden);
        counter->checkpoint_bytes += 2 * biases;
        counter->rank_bytes += kvt_div_ceil(2 * biases, ways);
    }
}

static void add_gated(struct counter *counter, int64_t hidden, int64_t inter, bool gated,
                      int gate_up, int down)
{
    int32_t ways = counter->layout->tp;
    int32_t up = gated ? 2 : 1;
    if (inter == 0)
        return;
    add_matrix(counter, &(struct part){inter, hidden, up, ways, up}, gate_up);
    add_matrix(counter, &(struct part){hidden, inter, 1, ways, 1}, down);
}

/* What MLA holds besides: kv_b absorbed into bf16 matrices for decode. */
static void add_absorbed(struct counter *counter, const struct kvt_layer_group *group)
{
    const struct kvt_attention *a = &group->attention;
    if (a->kind != KVT_ATTENTION_MLA)
        return;
    int64_t rows = (int64_t)a->heads * (a->nope + a->v_dim);
    counter->rank_bytes +=
        kvt_div_ceil(2 * rows * a->kv_lora, kvt_layout_attention_tp(counter->layout));
}

static void add_attention(struct counter *counter, const struct kvt_layer_group *group,
                          int64_t hidden)
{
    if (group->attention.kind == KVT_ATTENTION_MLA)
        add_mla(counter, group, hidden);
    else if (group->attention.kind == KVT_ATTENTION_GQA)
        add_gqa(counter, group, hidden);
}

static void count_group(struct counter *counter, const struct kvt_model *model,
                        const struct kvt_layer_group *group)
{
    int64_t layers = group->count;
    const struct kvt_mlp *mlp = &group->mlp;
    add_attention(counter, group, model->hidden);
    flush(counter, KVT_WEIGHT_GROUP_ATTENTION, layers);
    add_indexer(counter, group, model->hidden);
    flush(counter, KVT_WEIGHT_GROUP_INDEXER, layers);
    add_router(counter, group, model->hidden);
    flush(counter, KVT_WEIGHT_GROUP_ROUTER, layers);
    add_routed(counter, group, model->hidden);
    flush(counter, KVT_WEIGHT_GROUP_ROUTED, layers);
    add_gated(counter, model->hidden, mlp->shared_inter, mlp->gated,
              group->dtype[KVT_MATRIX_SHARED_GATE_UP], group->dtype[KVT_MATRIX_SHARED_DOWN]);
    flush(counter, KVT_WEIGHT_GROUP_SHARED, layers);
    add_gated(counter, model->hidden, mlp->inter, mlp->gated, group->dtype[KVT_MATRIX_GATE_UP],
              group->dtype[KVT_MATRIX_DOWN]);
    flush(counter, KVT_WEIGHT_GROUP_DENSE, layers);
    add_vector(counter, (group->attention.kind != KVT_ATTENTION_NONE ? model->hidden : 0) +
                            (mlp->inter + mlp->experts > 0 ? model->hidden : 0));
    flush(counter, KVT_WEIGHT_GROUP_NORM, layers);
    add_absorbed(counter, group);
    flush(counter, KVT_WEIGHT_GROUP_ABSORBED, layers);
}

/* A draft layer: two norms and a projection of (hidden, embedding), then a layer like the last. It
 * shares the embedding and the head. */
static void count_mtp(struct counter *counter, const struct kvt_model *model)
{
    const struct kvt_layer_group *group = &model->mtp;
    if (model->mtp_layers == 0)
        return;
    int64_t hidden = model->hidden;
    add_matrix(counter, &(struct part){hidden, 2 * hidden, 1, 1, 1}, KVT_WEIGHTS_BF16);
    add_vector(counter, 5 * hidden);
    add_attention(counter, group, hidden);
    add_indexer(counter, group, hidden);
    add_router(counter, group, hidden);
    add_routed(counter, group, hidden);
    add_gated(counter, hidden, group->mlp.shared_inter, group->mlp.gated,
              group->dtype[KVT_MATRIX_SHARED_GATE_UP], group->dtype[KVT_MATRIX_SHARED_DOWN]);
    add_gated(counter, hidden, group->mlp.inter, group->mlp.gated, group->dtype[KVT_MATRIX_GATE_UP],
              group->dtype[KVT_MATRIX_DOWN]);
    add_absorbed(counter, group);
    give(counter, KVT_WEIGHT_GROUP_MTP, model->mtp_layers, 1, 1); /* all on the last stage */
}

void kvt_weights_count(const struct kvt_model *model, const struct kvt_layout *layout,
                       struct kvt_weights *weights)
{
    *weights = (struct kvt_weights){0};
    struct counter counter = {.weights = weights,
                              .layout = layout,
                              .stage = kvt_div_ceil(model->layers, layout->pp),
                              .all = model->layers};
    int32_t ranks = kvt_layout_attention_tp(layout);
    int64_t head = model->tied_embeddings ? 0 : model->vocab;

    add_matrix(&counter, &(struct part){model->vocab, model->hidden, 1, ranks, 0},
               KVT_WEIGHTS_BF16);
    give(&counter, KVT_WEIGHT_GROUP_EMBEDDING, 1, 1, 1);
    if (model->tied_embeddings) /* the head is the embedding: used by every token, stored once */
        weights->params_active += (int64_t)model->vocab * model->hidden;
    add_matrix(&counter, &(struct part){head, model->hidden, 1, ranks, 1}, (int)model->head);
    if (head == 0)
        counter.checkpoint_bytes = counter.rank_bytes = 0;
    give(&counter, KVT_WEIGHT_GROUP_HEAD, 1, 1, 1);
    for (int32_t g = 0; g < model->group_count; g++)
        count_group(&counter, model, &model->groups[g]);
    add_vector(&counter, model->hidden);
    give(&counter, KVT_WEIGHT_GROUP_NORM, 1, 1, 1);
    weights->params[KVT_WEIGHT_GROUP_VISION] = model->vision_params;
    weights->checkpoint_bytes[KVT_WEIGHT_GROUP_VISION] = 2 * model->vision_params;
    weights->rank_bytes[KVT_WEIGHT_GROUP_VISION] = 2 * model->vision_params;
    count_mtp(&counter, model);

    for (int g = 0; g < KVT_WEIGHT_GROUP_COUNT; g++) {
        weights->checkpoint_total += weights->checkpoint_bytes[g];
        if (g == KVT_WEIGHT_GROUP_MTP)
            continue;
        weights->params_total += weights->params[g];
        weights->rank_total += weights->rank_bytes[g];
    }
}
