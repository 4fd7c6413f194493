/*
 * import.c - a Hugging Face config.json as a model
 */
#include "sim/model/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/file.h"

/* Parameters of a vision tower, from its config: transformer blocks, patches, merger. */
static int64_t vision_params(struct kvt_import *import)
{
    static const char *const hidden_keys[] = {"hidden_size", "vt_hidden_size", "embed_dim",
                                              "width"};
    static const char *const layer_keys[] = {"num_hidden_layers", "vt_num_hidden_layers", "depth",
                                             "layers"};
    static const char *const inter_keys[] = {"intermediate_size", "vt_intermediate_size"};
    const json_t *config = json_object_get(import->root, "vision_config");
    json_int_t hidden = 0, layers = 0, inter = 0;
    for (size_t i = 0; i < 4; i++) {
        if (hidden == 0)
            hidden = json_integer_value(json_object_get(config, hidden_keys[i]));
        if (layers == 0)
            layers = json_integer_value(json_object_get(config, layer_keys[i]));
        if (inter == 0 && i < 2)
            inter = json_integer_value(json_object_get(config, inter_keys[i]));
    }
    json_int_t patch = json_integer_value(json_object_get(config, "patch_size"));
    json_int_t out = json_integer_value(json_object_get(config, "out_hidden_size"));
    if (out == 0)
        out = json_integer_value(json_object_get(config, "text_hidden_size"));
    if (!json_is_object(config) || hidden < 1 || hidden > 65536 || layers < 1 || layers > 1000)
        return 0;
    if (inter < 1 || inter > 1 << 20)
        inter = 4 * hidden;
    int64_t count = layers * (4 * hidden * hidden + 2 * hidden * inter);
    if (patch > 0 && patch < 1024)
        count += 3 * patch * patch * hidden;
    if (out > 0 && out < 1 << 20) /* four patches become one token */
        count += 16 * hidden * hidden + 4 * hidden * out;
    return count;
}

static enum kvt_status read_mtp(struct kvt_import *import, const struct kvt_import_shape *shape,
                                struct kvt_model *model)
{
    int32_t modules;
    KVT_TRY(kvt_import_count(import, KEYS("num_nextn_predict_layers", "mtp_num_hidden_layers"), 0,
                             64, &model->mtp_layers));
    KVT_TRY(kvt_import_count(import, KEYS("num_mtp_modules"), 0, 64, &modules));
    if (kvt_import_has(shape, MTP_ABSENT)) {
        if (modules + model->mtp_layers > 0)
            kvt_import_note(import,
                            "num_mtp_modules: %d announced; checkpoints of this family hold "
                            "none, so none are counted",
                            modules + model->mtp_layers);
        model->mtp_layers = 0;
        return KVT_OK;
    }
    if (model->mtp_layers == 0)
        return KVT_OK;
    model->mtp = shape->layer[shape->layers - 1];
    model->mtp.count = model->mtp_layers;
    model->mtp.attention.index_shared = false;
    if (kvt_import_has(shape, MTP_DENSE)) {
        model->mtp.attention = shape->windowed;
        model->mtp.mlp = (struct kvt_mlp){.inter = shape->inter, .gated = true};
        kvt_import_note(import, "draft layers are counted as dense and windowed");
    }
    return KVT_OK;
}

/* Keys that say nothing about bytes or work. */
static const char *const silent_keys[] = {
    "_name_or_path",
    "architectures",
    "auto_map",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "attention_dropout",
    "hidden_act",
    "hidden_activation",
    "initializer_range",
    "rms_norm_eps",
    "layer_norm_eps",
    "norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "use_cache",
    "pretraining_tp",
    "mlp_bias",
    "head_dim",
    "model_type",
    "norm_topk_prob",
    "router_aux_loss_coef",
    "output_router_logits",
    "scoring_func",
    "topk_method",
    "routed_scaling_factor",
    "n_group",
    "topk_group",
    "aux_loss_alpha",
    "seq_aux",
    "vision_config",
    "text_config",
    "quantization_config",
    "tie_word_embeddings",
    "qk_head_dim",
    "ep_size",
    "num_logits_to_keep",
    "router_jitter_noise",
    "rope_interleave",
    "max_window_layers",
    "moe_router_dtype",
    "partial_rotary_factor",
    "rotary_dim",
    "qk_norm_type",
    "use_mtp",
    "mtp_transformer_layers",
    "attn_type_list",
    "initial_context_length",
    "swiglu_limit",
    "indexer_rope_interleave",
    "index_topk_freq",
    "index_topk_pattern",
    "index_skip_topk_offset",
    "index_share_for_mtp_iteration",
    "use_routing_bias",
    "use_moe_router_bias",
    "moe_router_scaling_factor",
    "return_dict",
    "problem_type",
    "id2label",
    "label2id",
    "_attn_implementation",
    "chunk_size_feed_forward",
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "max_position_embeddings",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "use_bidirectional_attention",
    "final_logit_softcapping",
    "attn_logit_softcapping",
    "query_pre_attn_scalar",
    "image_token_id",
    "video_token_id",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "index_n_heads",
    "index_head_dim",
    "index_topk",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "experts_per_token",
    "moe_intermediate_size",
    "first_k_dense_replace",
    "moe_layer_freq",
    "num_nextn_predict_layers",
    "layer_types",
    "mlp_layer_types",
    "indexer_types",
    "sliding_window",
    "attention_bias",
    "num_local_experts",
    "num_experts",
    "decoder_sparse_step",
    "mlp_only_layers",
    "use_sliding_window",
    "num_mtp_modules",
    "use_qk_norm",
    "block_configs",
    "share_expert_dim",
    "global_head_dim",
    "top_k_experts",
    "num_global_key_value_heads",
    "attention_k_eq_v",
    "enable_moe_block",
    "num_kv_shared_layers",
    "hidden_size_per_layer_input",
    "vocab_size_per_layer_input",
    "use_double_wide_mlp",
    "is_encoder_decoder",
    "shared_intermediate_size",
    "shared_expert_intermediate_size",
    "llm_config",
    "language_config",
    "audio_config",
    "swa_num_key_value_heads",
    "swa_head_dim",
    "swa_v_head_dim",
    "swa_num_attention_heads",
    "hybrid_layer_pattern",
    "sliding_window_pattern",
};

/* Say which keys were left aside; tokens, templates and dropouts aside, they may matter. */
static void note_unused(struct kvt_import *import, json_t *object, bool is_root)
{
    const char *key;
    json_t *value;
    char list[200] = "";
    size_t used = 0;
    json_object_foreach(object, key, value)
    {
        bool silent = json_is_null(value) || strstr(key, "token") != NULL ||
                      strstr(key, "beam") != NULL || strstr(key, "penalty") != NULL ||
                      (is_root && import->text != import->root);
        for (size_t i = 0; !silent && i < sizeof silent_keys / sizeof *silent_keys; i++)
            silent = strcmp(key, silent_keys[i]) == 0;
        if (silent || (json_is_boolean(value) && json_is_false(value)))
            continue;
        if (used + strlen(key) + 3 >= sizeof list) {
            kvt_import_note(import, "keys not used: %s", list);
            used = 0;
        }
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", key);
    }
    if (used > 0)
        kvt_import_note(import, "keys not used: %s", list);
}

static enum kvt_status read_shape(struct kvt_import *import, struct kvt_import_shape *shape,
                                  struct kvt_model *model)
{
    KVT_TRY(kvt_import_refuse_states(import));
    KVT_TRY(kvt_import_family(import, shape));
    KVT_TRY(kvt_import_refuse_rest(import));
    KVT_TRY(kvt_import_count(import, KEYS("num_hidden_layers", "num_layers"), -1, IMPORT_LAYERS_MAX,
                             &shape->layers));
    KVT_TRY(kvt_import_count(import, KEYS("hidden_size"), -1, 1 << 24, &shape->hidden));
    KVT_TRY(kvt_import_count(import, KEYS("vocab_size", "padded_vocab_size"), -1, 1 << 28,
                             &shape->vocab));
    KVT_TRY(kvt_import_count(import,
                             KEYS("max_position_embeddings", "seq_length", "model_max_length"), -1,
                             INT32_MAX, &shape->context));
    if (shape->layers < 1)
        return kvt_import_fail(import, "num_hidden_layers: want at least 1");
    KVT_TRY(kvt_import_layers(import, shape));
    model->hidden = shape->hidden;
    model->vocab = shape->vocab;
    model->context_max = shape->context;
    model->tied_embeddings =
        kvt_import_bool(import, KEYS("tie_word_embeddings"), kvt_import_has(shape, TIED));
    model->vision_params = vision_params(import);
    if (model->vision_params > 0)
        kvt_import_note(import, "vision_config: counted as about %.2f B parameters on every GPU",
                        (double)model->vision_params / 1e9);
    if (kvt_import_find(import, "audio_config") != NULL)
        kvt_import_note(import, "audio_config: not counted");
    return read_mtp(import, shape, model);
}

static enum kvt_status import_model(struct kvt_import *import, struct kvt_model *model)
{
    struct kvt_import_shape *shape = calloc(1, sizeof *shape);
    if (shape == NULL)
        return kvt_err_set(import->err, KVT_ENOMEM, "no memory for the layers");
    model->kv = KVT_KV_BF16;
    enum kvt_status status = read_shape(import, shape, model);
    if (status == KVT_OK)
        status = kvt_import_dtypes(import, shape, model);
    free(shape);
    KVT_TRY(status);
    note_unused(import, import->text, import->text == import->root);
    struct kvt_err why = {0};
    return kvt_model_check(model, &why) == KVT_OK ? KVT_OK
                                                  : kvt_import_fail(import, "%.400s", why.text);
}

static enum kvt_status parse(struct kvt_import *import, const char *file, const char *text,
                             json_t **root)
{
    json_error_t error;
    size_t count = strlen(text);
    char *copy = malloc(count + 1);
    *root = NULL;
    if (copy == NULL)
        return kvt_err_set(import->err, KVT_ENOMEM, "no memory for %s", file);
    memcpy(copy, text, count + 1);
    kvt_import_clean(copy);
    kvt_json_begin(); /* without memory jansson finds a mistake, or loses a letter of a key */
    json_t *tree = json_loads(copy, JSON_REJECT_DUPLICATES, &error);
    free(copy);
    if (!kvt_json_failed() && json_is_object(tree)) {
        *root = tree;
        return KVT_OK;
    }
    struct kvt_where where = {.file = file};
    bool is_json = tree != NULL;
    json_decref(tree);
    if (kvt_json_failed())
        return kvt_err_at(import->err, KVT_ENOMEM, where, "no memory to read it");
    if (is_json)
        return kvt_err_at(import->err, KVT_ECONFIG, where, "want a JSON object");
    where.line = error.line > 0 ? error.line : 0;
    where.column = error.column > 0 ? error.column : 0;
    return kvt_err_at(import->err, KVT_ECONFIG, where, "bad JSON: %s", error.text);
}

/* The object of the text model. */
static json_t *text_part(json_t *root)
{
    static const char *const keys[] = {"text_config", "llm_config", "language_config",
                                       "thinker_config"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *part = json_object_get(root, keys[i]);
        if (json_is_object(part))
            return text_part(part);
    }
    return root;
}

enum kvt_status kvt_model_import_text(struct kvt_model *model, const char *name, const char *text,
                                      const char *quant, FILE *talk, struct kvt_err *err)
{
    struct kvt_import import = {.file = name, .talk = talk, .err = err};
    *model = (struct kvt_model){0};
    snprintf(model->name, sizeof model->name, "imported");
    snprintf(model->source, sizeof model->source, "%.150s", kvt_path_name(name));
    KVT_TRY(parse(&import, name, text, &import.root));
    json_t *beside = NULL;
    enum kvt_status status = KVT_OK;
    import.text = text_part(import.root);
    import.quant = kvt_import_find(&import, "quantization_config");
    if (import.quant == NULL)
        import.quant = kvt_import_find(&import, "compression_config");
    import.quant_name = "quantization_config";
    if (import.quant == NULL && quant != NULL) {
        status = parse(&import, "hf_quant_config.json", quant, &beside);
        import.quant = json_object_get(beside, "quantization");
        import.quant_name = "hf_quant_config.json";
    }
    if (!json_is_object(import.quant))
        import.quant = NULL;
    if (status == KVT_OK)
        status = import_model(&import, model);
    json_decref(beside);
    json_decref(import.root);
    return status;
}

/* Layers of a model file are in no order: dense ones come first, as in every family we ship. */
static void unfold(const struct kvt_model *model, struct kvt_import_shape *shape)
{
    int32_t layer = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t g = 0; g < model->group_count; g++) {
            bool sparse = model->groups[g].mlp.experts > 0;
            for (int32_t i = 0; i < model->groups[g].count && sparse == (pass == 1); i++) {
                kvt_assert(layer < IMPORT_LAYERS_MAX); /* it was imported */
                shape->layer[layer++] = model->groups[g];
            }
        }
    }
    shape->layers = layer;
}

static enum kvt_status requantise(struct kvt_import *import, struct kvt_model *model)
{
    struct kvt_import_shape *shape = calloc(1, sizeof *shape);
    if (shape == NULL)
        return kvt_err_set(import->err, KVT_ENOMEM, "no memory for the layers");
    unfold(model, shape);
    model->group_count = 0;
    enum kvt_status status = kvt_import_dtypes(import, shape, model);
    free(shape);
    return status;
}

enum kvt_status kvt_model_requantise(struct kvt_model *model, const char *path, const char *quant,
                                     FILE *talk, struct kvt_err *err)
{
    struct kvt_import import = {.file = path, .talk = talk, .err = err};
    json_t *root;
    KVT_TRY(parse(&import, path, quant, &root));
    import.root = import.text = root;
    import.quant = json_object_get(root, "quantization");
    import.quant_name = "quantization";
    enum kvt_status status = json_is_object(import.quant)
                                 ? KVT_OK
                                 : kvt_import_fail(&import, "the key \"quantization\" is missing");
    if (status == KVT_OK)
        kvt_import_note(&import, "the shape is that of the shipped model %s", model->name);
    if (status == KVT_OK)
        status = requantise(&import, model);
    json_decref(root);
    return status;
}
