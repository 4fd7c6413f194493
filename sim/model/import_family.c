/*
 * import_family.c - families of transformers: what each leaves unsaid, and what is refused
 */
#include "sim/model/import.h"

#include <stdlib.h>
#include <string.h>

static const struct kvt_model_family families[] = {
    {"llama", 0},
    {"mistral", 0},
    {"mistral3", 0},
    {"ministral3", 0},
    {"ministral", 0},
    {"pixtral", 0},
    {"mixtral", EXPERTS_SAME},
    {"qwen2", QKV_BIAS},
    {"qwen2_vl", QKV_BIAS},
    {"qwen2_vl_text", QKV_BIAS},
    {"qwen2_5_vl", QKV_BIAS},
    {"qwen2_5_vl_text", QKV_BIAS},
    {"qwen2_moe", QKV_BIAS},
    {"qwen3", QK_NORM},
    {"qwen3_moe", QK_NORM},
    {"qwen3_vl", QK_NORM},
    {"qwen3_vl_text", QK_NORM},
    {"qwen3_vl_moe", QK_NORM},
    {"qwen3_vl_moe_text", QK_NORM},
    {"qwen3_omni_moe_text", QK_NORM},
    {"deepseek_v2", MLA},
    {"deepseek_v3", MLA | ROUTER_BIAS},
    {"deepseek_v32", MLA | DSA | ROUTER_BIAS},
    {"kimi_k2", MLA | ROUTER_BIAS},
    {"kimi_k25", MLA | ROUTER_BIAS},
    {"glm_moe_dsa", MLA | DSA | ROUTER_BIAS},
    {"glm4_moe_lite", MLA | ROUTER_BIAS},
    {"glm4_moe", ROUTER_BIAS},
    {"glm4v_moe_text", ROUTER_BIAS},
    {"glm4v_moe", ROUTER_BIAS},
    {"glm4", 0},
    {"glm", 0},
    {"chatglm", 0},
    {"minimax_m2", QK_NORM | ROUTER_BIAS | EXPERTS_SAME | MTP_ABSENT},
    {"gpt_oss", QKV_BIAS | O_BIAS | SINKS | ROUTER_BIAS | EXPERT_BIAS | EXPERTS_SAME},
    {"gemma", TIED},
    {"gemma2", TIED | FIRST_WINDOWED},
    {"gemma3", TIED | QK_NORM},
    {"gemma3_text", TIED | QK_NORM},
    {"gemma4", TIED | QK_NORM | DENSE_TOO},
    {"gemma4_text", TIED | QK_NORM | DENSE_TOO},
    {"nemotron-nas", 0},
    {"deci", 0},
    {"nemotron", NOT_GATED},
    {"arcee", NOT_GATED},
    {"apertus", QK_NORM | NOT_GATED},
    {"starcoder2", NOT_GATED | QKV_BIAS | O_BIAS | TIED},
    {"phi3", 0},
    {"phimoe", QKV_BIAS | O_BIAS | EXPERTS_SAME},
    {"olmo", 0},
    {"olmo2", QK_NORM},
    {"olmo3", QK_NORM},
    {"olmoe", QK_NORM | EXPERTS_SAME},
    {"granite", 0},
    {"granitemoe", EXPERTS_SAME},
    {"cohere", TIED},
    {"cohere2", TIED},
    {"exaone", 0},
    {"exaone4", QK_NORM},
    {"internlm2", 0},
    {"internlm3", 0},
    {"smollm3", 0},
    {"seed_oss", QKV_BIAS},
    {"ernie4_5", TIED},
    {"ernie4_5_moe", TIED | ROUTER_BIAS},
    {"hunyuan_v1_dense", QK_NORM},
    {"hunyuan_v1_moe", QK_NORM | EXPERTS_SAME},
    {"dots1", QK_NORM | ROUTER_BIAS},
    {"bailing_moe", ROUTER_BIAS},
    {"bailing_moe_v2", QK_NORM | ROUTER_BIAS},
    {"mimo", QKV_BIAS},
    {"mimo_v2_flash", ROUTER_BIAS | MTP_DENSE},
    {"step3p5", QK_NORM | ROUTER_BIAS | MTP_DENSE},
    {"step3p7", QK_NORM | ROUTER_BIAS | MTP_DENSE},
    {"solar_open", ROUTER_BIAS},
    {"llama4_text", EXPERTS_SAME},
    {"llama4", EXPERTS_SAME},
};

/* What a family's own code assumes for keys that its files leave out. */
static const struct {
    const char *family, *key;
    int64_t value;
} defaults[] = {
    {"gemma3_text", "num_attention_heads", 8},
    {"gemma3_text", "num_key_value_heads", 4},
    {"gemma3_text", "head_dim", 256},
    {"gemma3_text", "vocab_size", 262208},
    {"gemma3_text", "max_position_embeddings", 131072},
    {"gemma3_text", "sliding_window", 4096},
    {"gemma3_text", "sliding_window_pattern", 6},
    {"gemma", "head_dim", 256},
    {"cohere2", "sliding_window_pattern", 4},
};

bool kvt_model_family_default(const char *family, const char *key, int64_t *value)
{
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        if (strcmp(defaults[i].family, family) == 0 && strcmp(defaults[i].key, key) == 0) {
            *value = defaults[i].value;
            return true;
        }
    }
    return false;
}

/* What says, whatever the family, that a layer is not attention with a KV cache. */
static const char *const state_keys[] = {
    "linear_attn_config",
    "linear_num_value_heads",
    "linear_conv_kernel_dim",
    "mamba_num_heads",
    "mamba_d_state",
    "mamba_d_ssm",
    "ssm_state_size",
    "ssm_cfg",
    "state_size",
    "mamba_expand",
    "lru_width",
    "compress_ratios",
    "compress_ratio",
    "conv_L_cache",
    "time_step_rank",
    "rwkv",
};

static const struct kvt_model_family *family_of(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    return NULL;
}

static const char *architecture(const struct kvt_import *import)
{
    const json_t *list = json_object_get(import->root, "architectures");
    const char *text = json_string_value(json_array_get(list, 0));
    return text == NULL ? "not given" : text;
}

/* A state instead of a KV cache, by whatever key says it. */
enum kvt_status kvt_import_refuse_states(struct kvt_import *import)
{
    for (size_t i = 0; i < sizeof state_keys / sizeof *state_keys; i++) {
        const json_t *value = kvt_import_find(import, state_keys[i]);
        if (value == NULL || (json_is_integer(value) && json_integer_value(value) == 0))
            continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        enum kvt_status status = kvt_import_fail(
            import, "%s: %.60s: layers with a state or a compressed cache cannot be modelled",
            state_keys[i], text == NULL ? "?" : text);
        free(text);
        return status;
    }
    const char *pattern = kvt_import_word(import, "hybrid_override_pattern");
    if (strchr(pattern, 'M') != NULL)
        return kvt_import_fail(import,
                               "hybrid_override_pattern: \"%.60s\": M (Mamba) layers cannot "
                               "be modelled",
                               pattern);
    const json_t *types = kvt_import_find(import, "attn_type_list");
    if (kvt_import_lists(types, 0))
        return kvt_import_fail(import, "attn_type_list: 0: linear attention cannot be modelled");
    const json_t *layers = kvt_import_find(import, "layer_types");
    size_t i;
    const json_t *item;
    json_array_foreach(layers, i, item)
    {
        const char *text = json_string_value(item);
        if (text != NULL && (strstr(text, "linear") != NULL || strstr(text, "mamba") != NULL ||
                             strstr(text, "conv") != NULL || strstr(text, "recurrent") != NULL))
            return kvt_import_fail(import, "layer_types: \"%.60s\": such layers cannot be modelled",
                                   text);
    }
    return KVT_OK;
}

enum kvt_status kvt_import_refuse_rest(struct kvt_import *import)
{
    int32_t shared, per_layer;
    KVT_TRY(kvt_import_count(import, KEYS("num_kv_shared_layers"), 0, 65536, &shared));
    if (shared > 0)
        return kvt_import_fail(import,
                               "num_kv_shared_layers: %d: layers that share a KV cache "
                               "cannot be modelled",
                               shared);
    KVT_TRY(kvt_import_count(import, KEYS("hidden_size_per_layer_input"), 0, 1 << 24, &per_layer));
    if (per_layer > 0)
        return kvt_import_fail(import,
                               "hidden_size_per_layer_input: %d: embeddings per layer "
                               "cannot be modelled",
                               per_layer);
    if (kvt_import_bool(import, KEYS("is_encoder_decoder"), false))
        return kvt_import_fail(import, "is_encoder_decoder: true: cannot be modelled");
    return KVT_OK;
}

enum kvt_status kvt_import_family(struct kvt_import *import, struct kvt_import_shape *shape)
{
    const char *type = json_string_value(json_object_get(import->text, "model_type"));
    if (type == NULL)
        type = json_string_value(json_object_get(import->root, "model_type"));
    if (type == NULL)
        return kvt_import_fail(import, "the key \"model_type\" is missing (architectures: %.80s)",
                               architecture(import));
    shape->family = family_of(type);
    import->family = type;
    if (shape->family == NULL)
        return kvt_import_fail(import,
                               "model_type \"%.60s\" (architectures: %.80s) is not one that "
                               "can be modelled",
                               type, architecture(import));
    const char *outer = json_string_value(json_object_get(import->root, "model_type"));
    if (import->text != import->root && outer != NULL && family_of(outer) == NULL)
        kvt_import_note(import,
                        "model_type \"%.60s\": only its text model (\"%s\") and its vision "
                        "tower are counted",
                        outer, type);
    return KVT_OK;
}
