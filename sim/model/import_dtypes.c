/*
 * import_dtypes.c - the dtype of every matrix, and equal layers as groups
 */
#include "sim/model/import.h"

#include <stdio.h>
#include <string.h>

/* Names that a matrix of a layer may have in a checkpoint: prefixes times suffixes. */
static const char *const suffixes[KVT_MATRIX_COUNT][5] = {
    [KVT_MATRIX_Q] = {"self_attn.q_proj", "self_attn.qkv_proj"},
    [KVT_MATRIX_K] = {"self_attn.k_proj", "self_attn.qkv_proj"},
    [KVT_MATRIX_V] = {"self_attn.v_proj", "self_attn.qkv_proj"},
    [KVT_MATRIX_O] = {"self_attn.o_proj"},
    [KVT_MATRIX_Q_A] = {"self_attn.q_a_proj", "self_attn.fused_qkv_a_proj_with_mqa"},
    [KVT_MATRIX_Q_B] = {"self_attn.q_b_proj"},
    [KVT_MATRIX_KV_A] = {"self_attn.kv_a_proj_with_mqa", "self_attn.fused_qkv_a_proj_with_mqa"},
    [KVT_MATRIX_KV_B] = {"self_attn.kv_b_proj"},
    [KVT_MATRIX_INDEX_Q] = {"self_attn.indexer.wq_b"},
    [KVT_MATRIX_INDEX_K] = {"self_attn.indexer.wk"},
    [KVT_MATRIX_INDEX_W] = {"self_attn.indexer.weights_proj", "self_attn.indexers_proj"},
    [KVT_MATRIX_GATE_UP] = {"mlp.gate_proj", "mlp.up_proj", "mlp.gate_up_proj"},
    [KVT_MATRIX_DOWN] = {"mlp.down_proj"},
    [KVT_MATRIX_SHARED_GATE_UP] = {"mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj",
                                   "share_expert.gate_proj", "shared_mlp.gate_proj"},
    [KVT_MATRIX_SHARED_DOWN] = {"mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj",
                                "share_expert.down_proj", "shared_mlp.down_proj"},
    [KVT_MATRIX_EXPERT_GATE_UP] = {"mlp.experts.0.gate_proj", "block_sparse_moe.experts.0.w1",
                                   "mlp.experts.gate_up_proj", "experts.0.gate_proj",
                                   "ffn.experts"},
    [KVT_MATRIX_EXPERT_DOWN] = {"mlp.experts.0.down_proj", "block_sparse_moe.experts.0.w2",
                                "mlp.experts.down_proj", "experts.0.down_proj", "ffn.experts"},
    [KVT_MATRIX_ROUTER] = {"mlp.gate", "block_sparse_moe.gate", "mlp.router", "router.proj",
                           "moe.gate"},
};
static const char *const prefixes[] = {"model.layers", "language_model.model.layers",
                                       "model.language_model.layers"};

/* Experts beside a dense MLP must not be taken for it: Gemma's "layers.0.mlp*" is the dense one. */
static enum kvt_weight_dtype matrix_dtype(const struct kvt_quant *quant,
                                          const struct kvt_layer_group *group, int32_t layer,
                                          int matrix)
{
    char text[32][96];
    const char *names[32];
    size_t count = 0;
    bool expert = matrix == KVT_MATRIX_EXPERT_GATE_UP || matrix == KVT_MATRIX_EXPERT_DOWN;
    bool beside = expert && group->mlp.inter > 0;
    for (size_t s = 0; s < 5 && suffixes[matrix][s] != NULL; s++) {
        if (beside && strncmp(suffixes[matrix][s], "mlp.", 4) == 0)
            continue;
        for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++, count++) {
            snprintf(text[count], sizeof text[0], "%s.%d.%s", prefixes[p], layer,
                     suffixes[matrix][s]);
            names[count] = text[count];
        }
    }
    names[count] = NULL;
    return kvt_quant_of(quant, names, matrix == KVT_MATRIX_ROUTER || matrix == KVT_MATRIX_INDEX_W,
                        expert);
}

/* A matrix that a layer does not have is bf16, so as not to keep equal layers apart. */
static void set_dtypes(const struct kvt_quant *quant, struct kvt_layer_group *group, int32_t layer)
{
    const struct kvt_attention *a = &group->attention;
    const struct kvt_mlp *mlp = &group->mlp;
    bool mla = a->kind == KVT_ATTENTION_MLA, gqa = a->kind == KVT_ATTENTION_GQA;
    const bool present[KVT_MATRIX_COUNT] = {
        [KVT_MATRIX_Q] = gqa || (mla && a->q_lora == 0),
        [KVT_MATRIX_K] = gqa,
        [KVT_MATRIX_V] = gqa,
        [KVT_MATRIX_O] = gqa || mla,
        [KVT_MATRIX_Q_A] = mla && a->q_lora > 0,
        [KVT_MATRIX_Q_B] = mla && a->q_lora > 0,
        [KVT_MATRIX_KV_A] = mla,
        [KVT_MATRIX_KV_B] = mla,
        [KVT_MATRIX_INDEX_Q] = a->index_heads > 0,
        [KVT_MATRIX_INDEX_K] = a->index_heads > 0,
        [KVT_MATRIX_INDEX_W] = a->index_heads > 0,
        [KVT_MATRIX_GATE_UP] = mlp->inter > 0,
        [KVT_MATRIX_DOWN] = mlp->inter > 0,
        [KVT_MATRIX_SHARED_GATE_UP] = mlp->shared_inter > 0,
        [KVT_MATRIX_SHARED_DOWN] = mlp->shared_inter > 0,
        [KVT_MATRIX_EXPERT_GATE_UP] = mlp->experts > 0,
        [KVT_MATRIX_EXPERT_DOWN] = mlp->experts > 0,
        [KVT_MATRIX_ROUTER] = mlp->experts > 0,
    };
    for (int m = 0; m < KVT_MATRIX_COUNT; m++)
        group->dtype[m] =
            (uint8_t)(present[m] ? matrix_dtype(quant, group, layer, m) : KVT_WEIGHTS_BF16);
}

/* The dtype that most of the weights have, and which scope explains it. */
static void summarise(struct kvt_model *model)
{
    const struct kvt_layer_group *last = &model->groups[model->group_count - 1];
    for (int32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].mlp.experts > 0)
            last = &model->groups[g];
    bool sparse = last->mlp.experts > 0;
    model->weights =
        (enum kvt_weight_dtype)last->dtype[sparse ? KVT_MATRIX_EXPERT_DOWN : KVT_MATRIX_DOWN];
    enum kvt_weight_dtype o = (enum kvt_weight_dtype)last->dtype[KVT_MATRIX_O];
    enum kvt_weight_dtype shared = (enum kvt_weight_dtype)last->dtype[KVT_MATRIX_SHARED_DOWN];
    model->scope4 = sparse ? KVT_QUANT_EXPERTS : KVT_QUANT_LINEARS;
    model->scope8 = KVT_QUANT_LINEARS;
    if (model->weights == KVT_WEIGHTS_BF16)
        return;
    enum kvt_quant_scope scope = KVT_QUANT_LINEARS;
    if (o == KVT_WEIGHTS_BF16)
        scope = !sparse || (last->mlp.shared_inter > 0 && shared != KVT_WEIGHTS_BF16)
                    ? KVT_QUANT_MLP
                    : KVT_QUANT_EXPERTS;
    bool eight = model->weights == KVT_WEIGHTS_FP8 || model->weights == KVT_WEIGHTS_FP8_BLOCK;
    if (eight)
        model->scope8 = scope;
    else
        model->scope4 = scope;
}

/* Merge equal layers into groups. */
static enum kvt_status merge_layers(struct kvt_import *import, struct kvt_import_shape *shape,
                                    struct kvt_model *model)
{
    for (int32_t l = 0; l < shape->layers; l++) {
        struct kvt_layer_group *layer = &shape->layer[l];
        int32_t g = 0;
        layer->count = 0;
        for (; g < model->group_count; g++) {
            struct kvt_layer_group one = model->groups[g];
            one.count = 0;
            /* Zeroed before they were filled; so compared, no new member can be forgotten:
             * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
            if (memcmp(&one, layer, sizeof one) == 0)
                break;
        }
        if (g == KVT_MODEL_GROUPS_MAX)
            return kvt_err_at(import->err, KVT_ELIMIT, (struct kvt_where){.file = import->file},
                              "more than %d kinds of layers", KVT_MODEL_GROUPS_MAX);
        if (g == model->group_count)
            model->groups[model->group_count++] = *layer;
        model->groups[g].count++;
    }
    model->layers = shape->layers;
    return KVT_OK;
}

/* Only lists that name other modules mean it when they leave lm_head out. */
static enum kvt_weight_dtype head_dtype(const struct kvt_import *import,
                                        const struct kvt_quant *quant)
{
    static const char *const names[] = {"lm_head", NULL};
    const char *method = json_string_value(json_object_get(import->quant, "quant_method"));
    bool lists = json_object_get(import->quant, "quant_algo") != NULL ||
                 (method != NULL && strcmp(method, "compressed-tensors") == 0);
    return lists ? kvt_quant_of(quant, names, false, false) : KVT_WEIGHTS_BF16;
}

enum kvt_status kvt_import_dtypes(struct kvt_import *import, struct kvt_import_shape *shape,
                                  struct kvt_model *model)
{
    struct kvt_quant *quant;
    const char *dtype = kvt_import_word(import, "torch_dtype");
    if (dtype[0] == '\0')
        dtype = kvt_import_word(import, "dtype");
    enum kvt_status status = kvt_quant_read(import, &quant, &model->kv);
    if (status == KVT_OK) {
        if (strcmp(dtype, "float32") == 0)
            kvt_import_note(import, "dtype float32: engines load bf16, which is counted");
        for (int32_t l = 0; l < shape->layers; l++)
            set_dtypes(quant, &shape->layer[l], l);
        if (model->mtp_layers > 0)
            set_dtypes(quant, &model->mtp, shape->layers);
        model->head = head_dtype(import, quant);
        status = merge_layers(import, shape, model);
    }
    if (status == KVT_OK)
        summarise(model);
    kvt_quant_free(quant);
    return status;
}
