#include "sim/model/model.h"

#include <string.h>

static bool in_scope(enum kvt_matrix matrix, enum kvt_quant_scope scope)
{
    switch (matrix) {
    case KVT_MATRIX_EXPERT_GATE_UP:
    case KVT_MATRIX_EXPERT_DOWN:
        return true;
    case KVT_MATRIX_GATE_UP:
    case KVT_MATRIX_DOWN:
    case KVT_MATRIX_SHARED_GATE_UP:
    case KVT_MATRIX_SHARED_DOWN:
        return scope != KVT_QUANT_EXPERTS;
    case KVT_MATRIX_Q:
    case KVT_MATRIX_K:
    case KVT_MATRIX_V:
    case KVT_MATRIX_O:
    case KVT_MATRIX_Q_A:
    case KVT_MATRIX_Q_B:
    case KVT_MATRIX_KV_A:
    case KVT_MATRIX_KV_B:
    case KVT_MATRIX_INDEX_Q:
    case KVT_MATRIX_INDEX_K:
        return scope == KVT_QUANT_LINEARS;
    case KVT_MATRIX_INDEX_W: /* a few rows, kept exact by every recipe */
    case KVT_MATRIX_ROUTER:
    case KVT_MATRIX_COUNT:
        break;
    }
    return false;
}

static void quantise_group(struct kvt_layer_group *group, enum kvt_weight_dtype dtype,
                           enum kvt_quant_scope scope)
{
    for (int m = 0; m < KVT_MATRIX_COUNT; m++)
        group->dtype[m] = (uint8_t)(in_scope((enum kvt_matrix)m, scope) ? dtype : KVT_WEIGHTS_BF16);
}

void kvt_model_quantise(struct kvt_model *model, enum kvt_weight_dtype dtype,
                        enum kvt_quant_scope scope)
{
    for (int32_t g = 0; g < model->group_count; g++)
        quantise_group(&model->groups[g], dtype, scope);
    quantise_group(&model->mtp, dtype, scope);
    model->weights = dtype;
}

enum kvt_quant_scope kvt_model_scope(const struct kvt_model *model, enum kvt_weight_dtype dtype)
{
    bool eight = dtype == KVT_WEIGHTS_FP8 || dtype == KVT_WEIGHTS_FP8_BLOCK;
    return eight ? model->scope8 : model->scope4;
}

/* ---- checks ---- */

struct rule {
    const char *text;
    bool holds;
};

static enum kvt_status check_rules(const char *name, int32_t group, const struct rule rules[],
                                   size_t count, struct kvt_err *err)
{
    for (size_t i = 0; i < count; i++)
        if (!rules[i].holds)
            return kvt_err_set(err, KVT_ECONFIG, "model %s: group %d: want %s", name, group + 1,
                               rules[i].text);
    return KVT_OK;
}

static enum kvt_status check_group(const struct kvt_model *model,
                                   const struct kvt_layer_group *group, int32_t index,
                                   struct kvt_err *err)
{
    const struct kvt_attention *a = &group->attention;
    const struct kvt_mlp *mlp = &group->mlp;
    bool gqa = a->kind == KVT_ATTENTION_GQA, mla = a->kind == KVT_ATTENTION_MLA;
    const struct rule rules[] = {
        {"count of at least 1", group->count >= 1},
        {"heads of at least 1", a->kind == KVT_ATTENTION_NONE || a->heads >= 1},
        {"kv-heads that divide heads", !gqa || (a->kv_heads >= 1 && a->heads % a->kv_heads == 0)},
        {"head-dim of at least 1", !gqa || a->head_dim >= 1},
        {"kv-lora, nope, rope and v-dim of at least 1",
         !mla || (a->kv_lora >= 1 && a->nope >= 1 && a->rope >= 1 && a->v_dim >= 1)},
        {"an indexer only with mla", a->index_heads == 0 || mla},
        {"index-dim with index-heads", a->index_heads == 0 || a->index_dim >= 1},
        {"index-shared only with index-heads", !a->index_shared || a->index_heads > 0},
        {"expert-inter with experts", mlp->experts == 0 || mlp->expert_inter >= 1},
        {"topk from 1 to experts",
         mlp->experts == 0 || (mlp->topk >= 1 && mlp->topk <= mlp->experts)},
        {"shared-experts only with experts", mlp->shared_experts == 0 || mlp->experts > 0},
        {"shared-inter with shared-experts", mlp->shared_experts == 0 || mlp->shared_inter >= 1},
    };
    return check_rules(model->name, index, rules, sizeof rules / sizeof *rules, err);
}

/* Parameters of a group to within a factor of two; in floating point, so that it cannot overflow.
 */
static double rough_params(const struct kvt_model *model, const struct kvt_layer_group *group)
{
    const struct kvt_attention *a = &group->attention;
    const struct kvt_mlp *mlp = &group->mlp;
    double hidden = model->hidden;
    double heads = (double)a->heads + (double)a->kv_heads;
    double low = (double)a->q_lora + (double)a->kv_lora + (double)a->rope;
    double width = heads * ((double)a->head_dim + (double)a->v_dim + (double)a->nope);
    double index = (double)a->index_heads * (double)a->index_dim;
    double inter = 3.0 * ((double)mlp->inter + (double)mlp->shared_inter +
                          (double)mlp->experts * (double)mlp->expert_inter);
    return (double)group->count * (hidden * (width + low + inter + index) + low * (width + index));
}

/* 100 T: beyond any model, and small enough that sums of bytes stay exact. */
#define PARAMS_MAX 1e14

enum kvt_status kvt_model_check(const struct kvt_model *model, struct kvt_err *err)
{
    int64_t layers = 0;
    double params = 2.0 * model->hidden * model->vocab;
    if (model->name[0] == '\0')
        return kvt_err_set(err, KVT_ECONFIG, "model: want a name");
    if (model->hidden < 1 || model->vocab < 1 || model->context_max < 1)
        return kvt_err_set(err, KVT_ECONFIG,
                           "model %s: want hidden, vocab and context of at least 1", model->name);
    if (model->group_count < 1 || model->group_count > KVT_MODEL_GROUPS_MAX)
        return kvt_err_set(err, KVT_ECONFIG, "model %s: want 1 to %d groups, got %d", model->name,
                           KVT_MODEL_GROUPS_MAX, model->group_count);
    for (int32_t g = 0; g < model->group_count; g++) {
        KVT_TRY(check_group(model, &model->groups[g], g, err));
        layers += model->groups[g].count;
        params += rough_params(model, &model->groups[g]);
    }
    if (model->mtp_layers > 0)
        KVT_TRY(check_group(model, &model->mtp, model->group_count, err));
    if (layers != model->layers)
        return kvt_err_set(err, KVT_ECONFIG, "model %s: groups hold %lld layers, want %d",
                           model->name, (long long)layers, model->layers);
    params += rough_params(model, &model->mtp);
    if (!(params < PARAMS_MAX) || model->vision_params > (int64_t)PARAMS_MAX)
        return kvt_err_set(err, KVT_ECONFIG, "model %s: want less than 1e14 parameters, got %.3g",
                           model->name, params);
    if (layers > 100000)
        return kvt_err_set(err, KVT_ECONFIG, "model %s: want at most 100000 layers", model->name);
    return KVT_OK;
}
