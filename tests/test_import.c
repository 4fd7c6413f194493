#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/cost/step.h"
#include "sim/model/import.h"
#include "sim/model/kv.h"
#include "sim/model/weights.h"
#include "tests/check.h"

static const struct kvt_layout one = {.tp = 1, .pp = 1, .dp = 1, .ep = 1, .dcp = 1};

static struct kvt_weights count(const struct kvt_model *model)
{
    struct kvt_weights weights;
    kvt_weights_count(model, &one, &weights);
    return weights;
}

static int64_t bf16_bytes(const struct kvt_model *model)
{
    struct kvt_kv_want want = {.engine = KVT_ENGINE_SGLANG, .dtype = KVT_KV_BF16, .layout = one};
    struct kvt_kv_slot slot;
    return kvt_kv_slot(model, &want, &slot, NULL) == KVT_OK ? slot.stored_bytes : -1;
}

/* Files at hand: parameters (billions) of the public model, the dtype of most of its weights, and
 * KV bytes per token in BF16; or what the refusal names. */
static const struct {
    const char *file;
    double params;
    const char *dtype;
    int64_t bytes;
    const char *refusal;
} public_files[] = {
    {"Qwen--Qwen3-0.6B_config.json", 0.6, "bf16", 114688, NULL},
    {"Qwen--Qwen3-1.7B_config.json", 1.72, "bf16", 114688, NULL},
    {"Qwen--Qwen3-235B-A22B-FP8_config.json", 235.1, "fp8-block", 192512, NULL},
    {"Qwen--Qwen3-30B-A3B_config.json", 30.5, "bf16", 98304, NULL},
    {"Qwen--Qwen3-32B_config.json", 32.8, "bf16", 262144, NULL},
    {"Qwen--Qwen3-Coder-480B-A35B-Instruct_config.json", 480, "bf16", 253952, NULL},
    {"Qwen--Qwen3-VL-8B-Instruct_config.json", 8.7, "bf16", 147456, NULL},
    {"Qwen--Qwen3.5-122B-A10B_config.json", 0, NULL, 0, "linear_num_value_heads"},
    {"deepseek-ai--DeepSeek-V3.2_config.json", 671.9, "fp8-block", 78324, NULL},
    {"deepseek-ai--DeepSeek-V4-Pro_config.json", 0, NULL, 0, "compress_ratios"},
    {"google--gemma-4-26B-A4B_config.json", 25.8, "bf16", 225280, NULL},
    {"meta-llama--Meta-Llama-3.1-405B_config.json", 405.9, "bf16", 516096, NULL},
    {"mistralai--Mixtral-8x7B-v0.1_config.json", 46.7, "bf16", 131072, NULL},
    {"moonshotai--Kimi-K2-Instruct_config.json", 1026.4, "fp8-block", 70272, NULL},
    {"moonshotai--Kimi-K2.5_config.json", 1026.9, "int4-g32", 70272, NULL},
    {"nvidia--DeepSeek-V3.1-NVFP4_hf_quant_config.json", 671, "nvfp4", 70272, NULL},
    {"nvidia--GLM-5.1-NVFP4_config.json", 743.9, "nvfp4", 100152, NULL},
    {"nvidia--GLM-5.2-NVFP4_hf_quant_config.json", 743.4, "nvfp4", 100152, NULL},
    {"nvidia--Gemma-4-26B-A4B-NVFP4_config.json", 25.8, "nvfp4", 225280, NULL},
    {"nvidia--Kimi-K2.6-NVFP4_config.json", 1026.9, "nvfp4", 70272, NULL},
    {"nvidia--Llama-3.1-70B-Instruct-FP8_hf_quant_config.json", 70.6, "fp8", 327680, NULL},
    {"nvidia--Llama-3_3-Nemotron-Super-49B-v1_config.json", 49.9, "bf16", 200704, NULL},
    {"nvidia--MiniMax-M2.5-NVFP4_config.json", 228.7, "nvfp4", 253952, NULL},
    {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4_config.json", 0, NULL, 0, "mamba_num_heads"},
    {"nvidia--Qwen3.6-27B-NVFP4_hf_quant_config.json", 0, NULL, 0, "holds quantisation only"},
    {"openai--gpt-oss-120b_config.json", 116.8, "mxfp4", 73728, NULL},
    {"stepfun-ai--Step-3.7-Flash-FP8_config.json", 196, "fp8-block", 184320, NULL},
    {"zai-org--GLM-5.2-FP8_config.json", 743.4, "fp8-block", 100152, NULL},
    {"zai-org--GLM-5_config.json", 743.9, "bf16", 100152, NULL},
};

static void public_files_import_right_or_are_refused_for_a_reason(void)
{
    for (size_t i = 0; i < sizeof public_files / sizeof *public_files; i++) {
        char name[256];
        struct kvt_model model;
        struct kvt_err err = {0};
        snprintf(name, sizeof name, "hf-configs/%s", public_files[i].file);
        const char *path = check_shared(name);
        if (path == NULL)
            return;
        if (public_files[i].refusal != NULL) {
            CHECK_FAILS(kvt_model_import(&model, path, NULL, NULL, &err), err, KVT_ECONFIG);
            CHECK_HOLDS(err.text, public_files[i].refusal, public_files[i].file);
            continue;
        }
        CHECK_OK(kvt_model_import(&model, path, NULL, NULL, &err), err);
        struct kvt_weights weights = count(&model);
        CHECK_CLOSE((double)weights.params_total / 1e9, public_files[i].params, 0.01,
                    public_files[i].file);
        CHECK_TEXT(kvt_weight_dtype_names[model.weights], public_files[i].dtype,
                   public_files[i].file);
        CHECK_I64(bf16_bytes(&model), public_files[i].bytes, public_files[i].file);
        CHECK_I64(model.groups[0].attention.qk_norm_whole,
                  strstr(public_files[i].file, "MiniMax") != NULL, public_files[i].file);
    }
}

/* Ours and theirs: the shipped file of a model says what its config.json says. */
static void shipped_models_are_what_their_configs_say(void)
{
    static const struct {
        const char *file, *model;
    } rows[] = {
        {"moonshotai--Kimi-K2-Instruct_config.json", "kimi-k2"},
        {"zai-org--GLM-5.2_config.json", "glm-5.2"},
        {"zai-org--GLM-5_config.json", "glm-5"},
        {"deepseek-ai--DeepSeek-V3_config.json", "deepseek-v3"},
        {"deepseek-ai--DeepSeek-V3.2_config.json", "deepseek-v3.2"},
        {"meta-llama--Meta-Llama-3.1-8B_config.json", "llama-3.1-8b"},
        {"meta-llama--Meta-Llama-3.1-70B_config.json", "llama-3.1-70b"},
        {"Qwen--Qwen3-8B_config.json", "qwen3-8b"},
        {"Qwen--Qwen3-235B-A22B_config.json", "qwen3-235b-a22b"},
        {"Qwen--Qwen3-Coder-480B-A35B-Instruct_config.json", "qwen3-coder-480b-a35b"},
        {"openai--gpt-oss-20b_config.json", "gpt-oss-20b"},
        {"openai--gpt-oss-120b_config.json", "gpt-oss-120b"},
        {"mistralai--Mixtral-8x7B-v0.1_config.json", "mixtral-8x7b"},
        {"stepfun-ai--Step-3.7-Flash-FP8_config.json", "step-3.7-flash"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[256];
        struct kvt_model theirs, ours;
        struct kvt_err err = {0};
        snprintf(name, sizeof name, "hf-configs/%s", rows[i].file);
        const char *path = check_shared(name);
        if (path == NULL)
            return;
        CHECK_OK(kvt_model_import(&theirs, path, NULL, NULL, &err), err);
        CHECK_OK(kvt_model_load(&ours, rows[i].model, &err), err);
        struct kvt_weights a = count(&theirs), b = count(&ours);
        CHECK_I64(b.params_total, a.params_total, rows[i].model);
        CHECK_I64(b.params_active, a.params_active, rows[i].model);
        CHECK_I64(b.checkpoint_total, a.checkpoint_total, rows[i].model);
        CHECK_I64(bf16_bytes(&ours), bf16_bytes(&theirs), rows[i].model);
        CHECK(kvt_step_window(&ours) == kvt_step_window(&theirs));
    }
}

/* What checkpoints quantise, module by module. */
static void lists_of_modules_are_followed(void)
{
    const char *path = check_shared("hf-configs/nvidia--DeepSeek-V3.1-NVFP4_hf_quant_config.json");
    char *notes;
    size_t bytes;
    struct kvt_model model;
    struct kvt_err err = {0};
    if (path == NULL)
        return;
    FILE *talk = kvt_memory_open(&notes, &bytes);
    CHECK_OK(kvt_model_import(&model, path, NULL, talk, &err), err);
    CHECK(kvt_memory_close(talk, &notes));
    const struct kvt_layer_group *last = &model.groups[model.group_count - 1];
    CHECK_I64(last->dtype[KVT_MATRIX_EXPERT_DOWN], KVT_WEIGHTS_NVFP4, "experts");
    CHECK_I64(last->dtype[KVT_MATRIX_O], KVT_WEIGHTS_NVFP4, "o_proj is not excluded");
    CHECK_I64(last->dtype[KVT_MATRIX_KV_B], KVT_WEIGHTS_BF16, "kv_b is");
    CHECK_I64(model.mtp.dtype[KVT_MATRIX_EXPERT_DOWN], KVT_WEIGHTS_BF16, "layer 61 is");
    CHECK_I64(model.kv, KVT_KV_FP8, "KV dtype");
    CHECK_HOLDS(notes, "note: the shape is that of the shipped model deepseek-v3", "said");
    free(notes);
}

#define LLAMA                                                                                      \
    "\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 256, "                  \
    "\"intermediate_size\": 512, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "         \
    "\"vocab_size\": 1000, \"max_position_embeddings\": 4096"

static enum kvt_status import(struct kvt_model *model, const char *text, const char *quant,
                              FILE *talk, struct kvt_err *err)
{
    return kvt_model_import_text(model, "config.json", text, quant, talk, err);
}

static void formats_of_quantisation_are_read(void)
{
    static const struct {
        const char *quant;
        enum kvt_weight_dtype dtype, o;
        enum kvt_kv_dtype kv;
    } rows[] = {
        {"{\"quant_method\": \"fp8\"}", KVT_WEIGHTS_FP8, KVT_WEIGHTS_FP8, KVT_KV_BF16},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128], "
         "\"modules_to_not_convert\": [\"self_attn\"]}",
         KVT_WEIGHTS_FP8_BLOCK, KVT_WEIGHTS_BF16, KVT_KV_BF16},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128}", KVT_WEIGHTS_INT4_G128,
         KVT_WEIGHTS_INT4_G128, KVT_KV_BF16},
        {"{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32}", KVT_WEIGHTS_INT4_G32,
         KVT_WEIGHTS_INT4_G32, KVT_KV_BF16},
        {"{\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": 128}", KVT_WEIGHTS_FP8,
         KVT_WEIGHTS_FP8, KVT_KV_BF16},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"group_0\": "
         "{\"targets\": "
         "[\"Linear\"], \"weights\": {\"num_bits\": 8, \"type\": \"float\", \"strategy\": "
         "\"channel\"}}}, \"ignore\": [\"lm_head\"], \"kv_cache_scheme\": {\"num_bits\": 8}}",
         KVT_WEIGHTS_FP8, KVT_WEIGHTS_FP8, KVT_KV_FP8},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"re:.*self_attn.*\"], \"weights\": {\"num_bits\": 8, \"type\": \"float\"}}, \"b\": "
         "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"float\", "
         "\"group_size\": 16}}}, \"ignore\": [\"lm_head\"]}",
         KVT_WEIGHTS_NVFP4, KVT_WEIGHTS_FP8, KVT_KV_BF16},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"int\", \"group_size\": 128}}}, "
         "\"ignore\": [\"lm_head\", "
         "\"re:model\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.(?:q|k|v|o)_proj$\"]}",
         KVT_WEIGHTS_INT4_G128, KVT_WEIGHTS_BF16, KVT_KV_BF16},
        {"{\"quant_algo\": \"NVFP4\", \"kv_cache_quant_algo\": \"FP8\", \"exclude_modules\": "
         "[\"lm_head\", \"model.layers.*.self_attn*\"]}",
         KVT_WEIGHTS_NVFP4, KVT_WEIGHTS_BF16, KVT_KV_FP8},
        {"{\"quant_algo\": \"MIXED_PRECISION\", \"quantized_layers\": "
         "{\"model.layers.0.mlp.gate_proj\": {\"quant_algo\": \"NVFP4\"}, "
         "\"model.layers.0.mlp.down_proj\": {\"quant_algo\": \"NVFP4\"}, "
         "\"model.layers.1.mlp.gate_proj\": {\"quant_algo\": \"NVFP4\"}, "
         "\"model.layers.1.mlp.down_proj\": {\"quant_algo\": \"NVFP4\"}, "
         "\"model.layers.0.self_attn.o_proj\": {\"quant_algo\": \"FP8\"}, "
         "\"model.layers.1.self_attn.o_proj\": {\"quant_algo\": \"FP8\"}}}",
         KVT_WEIGHTS_NVFP4, KVT_WEIGHTS_FP8, KVT_KV_BF16},
        {"{\"quant_method\": \"quark\", \"global_quant_config\": {\"weight\": {\"dtype\": "
         "\"fp4\"}}, "
         "\"exclude\": [\"lm_head\"]}",
         KVT_WEIGHTS_MXFP4, KVT_WEIGHTS_MXFP4, KVT_KV_BF16},
        {"{\"quant_method\": \"quark\", \"global_quant_config\": {\"weight\": [{\"dtype\": "
         "\"fp8_e4m3\"}]}, \"exclude\": [\"lm_head\"], \"kv_cache_scheme\": \"FP8\"}",
         KVT_WEIGHTS_FP8, KVT_WEIGHTS_FP8, KVT_KV_FP8},
        {"{\"quant_method\": \"quark\", \"global_quant_config\": {\"weight\": {\"dtype\": "
         "\"int8\"}}, \"exclude\": [\"lm_head\"]}",
         KVT_WEIGHTS_FP8, KVT_WEIGHTS_FP8, KVT_KV_BF16},
        {"{\"quant_method\": \"quark\", \"global_quant_config\": {\"weight\": {\"dtype\": "
         "\"uint4\"}}, \"exclude\": [\"lm_head\"], \"kv_cache_scheme\": {\"num_bits\": 4}}",
         KVT_WEIGHTS_INT4_G128, KVT_WEIGHTS_INT4_G128, KVT_KV_NVFP4},
        {"{\"quant_method\": \"quark\", \"global_quant_config\": {\"weight\": {\"dtype\": "
         "\"mxfp4\"}}, \"exclude\": [\"lm_head\", \"self_attn\"]}",
         KVT_WEIGHTS_MXFP4, KVT_WEIGHTS_BF16, KVT_KV_BF16},
        {"{\"quant_method\": \"fp8\", \"modules_to_not_convert\": null, \"ignored_layers\": "
         "[\"o_proj\"]}",
         KVT_WEIGHTS_FP8, KVT_WEIGHTS_BF16, KVT_KV_BF16},
        {"{\"quant_method\": \"auto-round\", \"w_bit\": 4, \"q_group_size\": 64}",
         KVT_WEIGHTS_INT4_G32, KVT_WEIGHTS_INT4_G32, KVT_KV_BF16},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"weights\": "
         "{\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"block\"}}}, \"ignore\": "
         "[\"lm_head\", \"re:.*layers\\\\.\\\\d\\\\.self_attn.*\"]}",
         KVT_WEIGHTS_FP8_BLOCK, KVT_WEIGHTS_BF16, KVT_KV_BF16},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"model.layers.0.self_attn.o_proj\", \"model.layers.1.self_attn.o_proj\"], "
         "\"weights\": null}, \"b\": {\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, "
         "\"type\": \"float\", \"group_size\": 32}}}, \"ignore\": [\"lm_head\"]}",
         KVT_WEIGHTS_MXFP4, KVT_WEIGHTS_BF16, KVT_KV_BF16},
        {"{\"quant_algo\": null, \"kv_cache_quant_algo\": \"NVFP4\"}", KVT_WEIGHTS_BF16,
         KVT_WEIGHTS_BF16, KVT_KV_NVFP4},
        {"{\"quant_method\": \"modelopt\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"Linear\"], \"weights\": {\"num_bits\": 16}}}, \"kv_cache_quant_algo\": \"INT8\"}",
         KVT_WEIGHTS_BF16, KVT_WEIGHTS_BF16, KVT_KV_FP8},
        {"{\"quant_method\": \"fp8\", \"quant_algo\": \"MIXED_PRECISION\", "
         "\"quantized_layers\": {\"model.layers.*.mlp.*\": {\"quant_algo\": \"MXFP4\"}}}",
         KVT_WEIGHTS_MXFP4, KVT_WEIGHTS_BF16, KVT_KV_BF16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[4096];
        struct kvt_model model;
        struct kvt_err err = {0};
        snprintf(text, sizeof text, "{" LLAMA ", \"quantization_config\": %s}", rows[i].quant);
        CHECK_OK(import(&model, text, NULL, NULL, &err), err);
        CHECK_I64(model.groups[0].dtype[KVT_MATRIX_DOWN], rows[i].dtype, rows[i].quant);
        CHECK_I64(model.groups[0].dtype[KVT_MATRIX_O], rows[i].o, rows[i].quant);
        CHECK_I64(model.weights, rows[i].dtype, rows[i].quant);
        CHECK_I64(model.head, KVT_WEIGHTS_BF16, rows[i].quant);
        CHECK_I64(model.kv, rows[i].kv, rows[i].quant);
    }
}

static void a_quantisation_beside_the_config_is_used(void)
{
    struct kvt_model model;
    struct kvt_err err = {0};
    CHECK_OK(import(&model, "{" LLAMA "}",
                    "{\"producer\": {}, \"quantization\": {\"quant_algo\": \"FP8\", "
                    "\"exclude_modules\": [\"lm_head\"]}}",
                    NULL, &err),
             err);
    CHECK_I64(model.weights, KVT_WEIGHTS_FP8, "from hf_quant_config.json");
}

#define BASE                                                                                       \
    "\"num_hidden_layers\": 4, \"hidden_size\": 256, \"intermediate_size\": 512, "                 \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 1000, "               \
    "\"max_position_embeddings\": 8192"

/* Layers with a window, and layers with experts, in the ways that families say them. */
static void kinds_of_layers_are_told_apart(void)
{
    static const struct {
        const char *text;
        int32_t windowed, sparse;
    } rows[] = {
        {"\"model_type\": \"mistral\", \"sliding_window\": 4096", 4, 0},
        {"\"model_type\": \"mistral\", \"sliding_window\": null", 0, 0},
        {"\"model_type\": \"qwen2\", \"sliding_window\": 4096, \"use_sliding_window\": false", 0,
         0},
        {"\"model_type\": \"qwen2\", \"sliding_window\": 4096, \"use_sliding_window\": true, "
         "\"max_window_layers\": 3",
         1, 0},
        {"\"model_type\": \"gemma2\", \"sliding_window\": 4096", 2, 0},
        {"\"model_type\": \"gemma3_text\", \"sliding_window\": 512, \"sliding_window_pattern\": 4",
         3, 0},
        {"\"model_type\": \"exaone4\", \"sliding_window\": 512, \"sliding_window_pattern\": "
         "\"LLLG\", "
         "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\", "
         "\"sliding_attention\"]",
         2, 0},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"decoder_sparse_step\": 2, \"mlp_only_layers\": [3]",
         0, 1},
        {"\"model_type\": \"glm4_moe\", \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"first_k_dense_replace\": 1, \"n_shared_experts\": 1",
         0, 3},
        {"\"model_type\": \"llama4_text\", \"num_local_experts\": 8, \"num_experts_per_tok\": 1, "
         "\"intermediate_size_mlp\": 1024, \"interleave_moe_layer_step\": 2, "
         "\"attention_chunk_size\": 1024, \"no_rope_layers\": []",
         3, 2},
        {"\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 8, \"moe_topk\": [2, 2, 2, 2], "
         "\"moe_intermediate_size\": [64, 64, 64, 64], \"num_shared_expert\": [1, 1, 1, 1]",
         0, 4},
        {"\"model_type\": \"mistral\", \"sliding_window\": 4096, \"hybrid_layer_pattern\": "
         "[1, 0, 1, 1]",
         3, 0},
        {"\"model_type\": \"llama4_text\", \"num_local_experts\": 8, \"num_experts_per_tok\": 1, "
         "\"intermediate_size_mlp\": 1024, \"moe_layers\": [1, 2], "
         "\"attention_chunk_size\": 1024, \"no_rope_layers\": [1, 1, 0, 0]",
         2, 2},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"mlp_layer_types\": [\"dense\", \"sparse\", \"sparse\", "
         "7]",
         0, 2},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"moe_layers_enum\": \"0,2,3\"",
         0, 3},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"moe_layers_enum\": \"1;2\"",
         0, 1},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"moe_layer_freq\": [0, 1, 1, 0]",
         0, 2},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"moe_layer_freq\": 2",
         0, 2},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"moe_layer_start_index\": 1, \"moe_layer_end_index\": 2",
         0, 2},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"moe_layer_end_index\": 4294967296",
         0, 4},
        {"\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 64, \"moe_layer_num_skipped\": 1, \"moe_layer_interval\": 3",
         0, 1},
        {"\"model_type\": \"gemma4_text\", \"num_experts\": 8, \"enable_moe_block\": false", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[4096];
        struct kvt_model model;
        struct kvt_err err = {0};
        int32_t windowed = 0, sparse = 0;
        snprintf(text, sizeof text, "{" BASE ", %s}", rows[i].text);
        CHECK_OK(import(&model, text, NULL, NULL, &err), err);
        for (int32_t g = 0; g < model.group_count; g++) {
            windowed += model.groups[g].attention.window > 0 ? model.groups[g].count : 0;
            sparse += model.groups[g].mlp.experts > 0 ? model.groups[g].count : 0;
        }
        CHECK_I64(windowed, rows[i].windowed, rows[i].text);
        CHECK_I64(sparse, rows[i].sparse, rows[i].text);
    }
}

static void what_cannot_be_modelled_is_refused_with_its_key(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{\"model_type\": \"gpt_brand_new\", \"architectures\": [\"NewForCausalLM\"]}",
         "model_type \"gpt_brand_new\" (architectures: NewForCausalLM)"},
        {"{\"architectures\": [\"X\"]}", "the key \"model_type\" is missing"},
        {"{" LLAMA ", \"layer_types\": [\"full_attention\", \"linear_attention\"]}",
         "layer_types: \"linear_attention\""},
        {"{" LLAMA ", \"ssm_state_size\": 128}", "ssm_state_size: 128"},
        {"{" LLAMA ", \"compress_ratios\": [4, 128]}", "compress_ratios: [4,128]"},
        {"{" LLAMA ", \"hybrid_override_pattern\": \"M*E\"}", "hybrid_override_pattern"},
        {"{" LLAMA ", \"attn_type_list\": [0, 1]}", "attn_type_list: 0"},
        {"{" LLAMA ", \"num_kv_shared_layers\": 10}", "num_kv_shared_layers: 10"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"aqlm\"}}",
         "quant_method \"aqlm\""},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 3}}",
         "weights of 3 bits"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_algo\": \"W1A1\"}}", "\"W1A1\""},
        {"{" LLAMA ", \"head_dim\": \"wide\"}", "head_dim: want a whole number"},
        {"{" LLAMA ", \"head_dim\": -4}", "head_dim: want 0 to 65536, got -4"},
        {"{" LLAMA
         ", \"quantization_config\": {\"quant_method\": \"fp8\", \"ignore\": \"lm_head\"}}",
         "ignore: want a list of modules"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"fp8\", \"ignore\": [1]}}",
         "ignore: want names of modules"},
        {"{" LLAMA
         ", \"quantization_config\": {\"quant_method\": \"fp8\", \"ignore\": [\"re:(a\"]}}",
         "is no regular expression"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"compressed-tensors\", "
         "\"config_groups\": {\"a\": {\"targets\": [3]}}}}",
         "config_groups.a.targets: want names"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"compressed-tensors\", "
         "\"config_groups\": {\"a\": {\"weights\": {\"num_bits\": 2}}}}}",
         "weights of 2 bits"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_algo\": \"MIXED_PRECISION\"}}",
         "needs quantized_layers"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_algo\": \"MIXED_PRECISION\", "
         "\"quantized_layers\": {}}}",
         "needs quantized_layers"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_algo\": \"MIXED_PRECISION\", "
         "\"quantized_layers\": {\"a\": {\"quant_algo\": \"W1\"}}}}",
         "W1"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_algo\": \"\"}}", "cannot be modelled"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"quark\"}}",
         "global_quant_config.weight.dtype"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"fp8\", "
         "\"kv_cache_quant_algo\": \"INT2\"}}",
         "a KV cache of \"INT2\""},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"fp8\", \"kv_cache_scheme\": "
         "{\"num_bits\": 6}}}",
         "a KV cache of \"that many bits\""},
        {"{" LLAMA ", \"layer_types\": [\"full_attention\", 2]}", "layer_types: want 2 texts"},
        {"{" LLAMA ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
         "without a sliding_window"},
        {"{" LLAMA ", \"layer_types\": [\"full_attention\", \"sparse_attention\"]}",
         "layers of type \"sparse_attention\""},
        {"{" LLAMA ", \"block_configs\": [{}]}", "block_configs: want 2 blocks, got 1"},
        {"{" LLAMA ", \"block_configs\": [{\"attention\": {\"replace_with_linear\": true}}, {}]}",
         "replace_with_linear true (layer 0)"},
        {"{" LLAMA ", \"block_configs\": [{\"attention\": {\"no_op\": true}, \"ffn\": "
         "{\"replace_with_linear\": true}}, {}]}",
         "replace_with_linear true (layer 0)"},
        {"{" LLAMA ", \"block_configs\": [{\"attention\": {\"n_heads_in_group\": 3}}, {}]}",
         "does not divide 4 heads"},
        {"{" LLAMA ", \"block_configs\": [{\"attention\": {\"n_heads_in_group\": 0}}, {}]}",
         "does not divide 4 heads"},
        {"{" LLAMA ", \"block_configs\": [{\"attention\": {\"no_op\": true}, \"ffn\": "
         "{\"ffn_mult\": 0}}, {}]}",
         "ffn_mult of layer 0"},
        {"{" LLAMA ", \"block_configs\": [{\"attention\": {\"no_op\": true}, \"ffn\": "
         "{\"ffn_mult\": 2000}}, {}]}",
         "ffn_mult of layer 0"},
        {"{" LLAMA ", \"head_dim\": 1.5}", "head_dim: want a whole number"},
        {"{" LLAMA ", \"head_dim\": [64, 32]}", "head_dim: want a whole number"},
        {"{" LLAMA ", \"head_dim\": [64, \"64\"]}", "head_dim: want a whole number"},
        {"{" LLAMA ", \"head_dim\": []}", "head_dim: want a whole number"},
        {"{" LLAMA ", \"head_dim\": 1e300}", "head_dim: want a whole number"},
        {"{\"model_type\": \"llama\"}", "the key \"num_hidden_layers\" is missing"},
        {"[1, 2]", "want a JSON object"},
        {"{\"model_type\": \"llama\",", "config.json:1:"},
        {"", "bad JSON"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_model model;
        struct kvt_err err = {0};
        CHECK_FAILS(import(&model, rows[i].text, NULL, NULL, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].text);
    }
}

static void what_is_not_used_is_said(void)
{
    char *notes;
    size_t bytes;
    struct kvt_model model;
    struct kvt_err err = {0};
    FILE *talk = kvt_memory_open(&notes, &bytes);
    CHECK_OK(import(&model,
                    "{" LLAMA
                    ", \"new_trick\": 7, \"time_limit\": [0.0, Infinity], \"bos_token_id\": 1, "
                    "\"audio_config\": {}, \"torch_dtype\": \"float32\"}",
                    NULL, talk, &err),
             err);
    CHECK(kvt_memory_close(talk, &notes));
    CHECK_HOLDS(notes, "keys not used: new_trick, time_limit", "named");
    CHECK_HOLDS(notes, "audio_config: not counted", "named");
    CHECK_HOLDS(notes, "float32", "named");
    CHECK(strstr(notes, "bos_token_id") == NULL);
    free(notes);
}

const struct check_test check_import[] = {
    {"public files import right or are refused for a reason",
     public_files_import_right_or_are_refused_for_a_reason, false},
    {"shipped models are what their configs say", shipped_models_are_what_their_configs_say, false},
    {"lists of modules are followed", lists_of_modules_are_followed, false},
    {"formats of quantisation are read", formats_of_quantisation_are_read, false},
    {"a quantisation beside the config is used", a_quantisation_beside_the_config_is_used, false},
    {"kinds of layers are told apart", kinds_of_layers_are_told_apart, false},
    {"what cannot be modelled is refused with its key",
     what_cannot_be_modelled_is_refused_with_its_key, false},
    {"what is not used is said", what_is_not_used_is_said, false},
    {0},
};
