#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/cost/step.h"
#include "sim/model/gpu.h"
#include "sim/model/kv.h"
#include "sim/model/weights.h"
#include "tests/check.h"

#define GIB 1073741824.0

static const struct kvt_layout one = {.tp = 1, .pp = 1, .dp = 1, .ep = 1, .dcp = 1};
static const struct kvt_layout tp8 = {.tp = 8, .pp = 1, .dp = 1, .ep = 1, .dcp = 1};

static struct kvt_model load(const char *name)
{
    struct kvt_model model;
    struct kvt_err err = {0};
    CHECK_OK(kvt_model_load(&model, name, &err), err);
    return model;
}

static double checkpoint_gb(struct kvt_model *model, enum kvt_weight_dtype dtype, bool mtp)
{
    struct kvt_weights weights;
    kvt_model_quantise(model, dtype, kvt_model_scope(model, dtype));
    kvt_weights_count(model, &one, &weights);
    int64_t bytes = weights.checkpoint_total;
    if (!mtp)
        bytes -= weights.checkpoint_bytes[KVT_WEIGHT_GROUP_MTP];
    return (double)bytes / 1e9;
}

/* Published parameter totals, and bytes by dtype (GB), without MTP; Kimi's without its vision. */
static void parameters_and_bytes_are_the_published_ones(void)
{
    static const struct {
        const char *name;
        double total, active, mtp, bf16, fp8, int4_g32, int4_g128;
    } rows[] = {
        {"kimi-k2", 1026.41, 31.69, 0, 2052.8, 1029.2, 594.2, 546.6},
        {"glm-5", 743.91, 40.83, 9.95, 1487.8, 746.1, 446.0, 412.0},
        {"glm-5.2", 743.38, 40.30, 9.95, 1486.8, 745.6, 444.9, 410.9},
        {"deepseek-v3", 671.03, 36.63, 11.6, 1342.1, 673.2, 402.1, 371.4},
        {"deepseek-v3.2", 671.88, 37.48, 11.6, 1343.8, 674.0, 403.8, 373.1},
        {"llama-3.1-8b", 8.03, 7.50, 0, 16.1, 9.1, 6.0, 5.7},
        {"llama-3.1-70b", 70.55, 69.50, 0, 141.1, 72.7, 42.7, 39.5},
        {"llama-3.1-405b", 405.85, 403.75, 0, 811.7, 410.1, 234.3, 215.5},
        {"qwen3-8b", 8.19, 7.57, 0, 16.4, 9.4, 6.4, 6.1},
        {"qwen3-32b", 32.76, 31.98, 0, 65.5, 34.3, 20.7, 19.2},
        {"qwen3-30b-a3b", 30.53, 3.04, 0, 61.1, 31.2, 19.4, 18.0},
        {"qwen3-235b-a22b", 235.09, 21.57, 0, 470.2, 236.4, 143.7, 133.1},
        {"gpt-oss-120b", 116.79, 5.13, 0, 233.6, 118.0, 68.8, 63.4},
        {"mixtral-8x7b", 46.70, 12.75, 0, 93.4, 47.0, 28.6, 26.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_model model = load(rows[i].name);
        struct kvt_weights weights;
        kvt_weights_count(&model, &one, &weights);
        CHECK_CLOSE((double)weights.params_total / 1e9, rows[i].total, 0.001, rows[i].name);
        CHECK_CLOSE((double)weights.params_active / 1e9, rows[i].active, 0.002, rows[i].name);
        if (rows[i].mtp > 0)
            CHECK_CLOSE((double)weights.params[KVT_WEIGHT_GROUP_MTP] / 1e9, rows[i].mtp, 0.003,
                        rows[i].name);
        CHECK_CLOSE(checkpoint_gb(&model, KVT_WEIGHTS_BF16, false), rows[i].bf16, 0.003,
                    rows[i].name);
        CHECK_CLOSE(checkpoint_gb(&model, KVT_WEIGHTS_FP8_BLOCK, false), rows[i].fp8, 0.006,
                    rows[i].name);
        CHECK_CLOSE(checkpoint_gb(&model, KVT_WEIGHTS_INT4_G32, false), rows[i].int4_g32, 0.006,
                    rows[i].name);
        CHECK_CLOSE(checkpoint_gb(&model, KVT_WEIGHTS_INT4_G128, false), rows[i].int4_g128, 0.006,
                    rows[i].name);
    }
}

static void one_rank_of_eight_loads_what_is_split_repeated_and_copied(void)
{
    struct kvt_model model = load("kimi-k2.6");
    struct kvt_weights w;
    kvt_weights_count(&model, &tp8, &w);
    const int64_t *rank = w.rank_bytes;
    CHECK_CLOSE((double)w.rank_total / 1e9, 77.24, 0.001, "Kimi K2.6, INT4, TP8");
    CHECK_CLOSE((double)rank[KVT_WEIGHT_GROUP_ROUTED] / 1e9, 71.35, 0.001, "routed");
    CHECK_CLOSE((double)rank[KVT_WEIGHT_GROUP_ROUTER] / 1e9, 0.33, 0.01, "gate");
    CHECK_CLOSE((double)rank[KVT_WEIGHT_GROUP_VISION] / 1e9, 0.93, 0.01, "vision");
    CHECK_CLOSE((double)rank[KVT_WEIGHT_GROUP_ABSORBED] / 1e9, 0.13, 0.02, "kv_b");
    model = load("glm-5.2");
    kvt_model_quantise(&model, KVT_WEIGHTS_INT4_G32, KVT_QUANT_EXPERTS);
    kvt_weights_count(&model, &tp8, &w);
    CHECK_CLOSE((double)w.rank_total / GIB, 54.62, 0.001, "GLM-5.2 INT4");
    CHECK_CLOSE((double)(w.rank_total + rank[KVT_WEIGHT_GROUP_MTP]) / GIB, 55.41, 0.002, "and MTP");
    kvt_model_quantise(&model, KVT_WEIGHTS_FP8_BLOCK, KVT_QUANT_LINEARS);
    kvt_weights_count(&model, &tp8, &w);
    CHECK_CLOSE((double)w.rank_total / GIB, 88.4, 0.001, "GLM-5.2 FP8");
}

static void published_checkpoints_are_met(void)
{
    struct kvt_model model = load("glm-5.2");
    CHECK_CLOSE(checkpoint_gb(&model, KVT_WEIGHTS_FP8_BLOCK, true) * 1e9 / GIB, 705, 0.01,
                "GLM-5.2 FP8, GiB");
    CHECK_CLOSE(checkpoint_gb(&model, KVT_WEIGHTS_INT4_G32, true) * 1e9 / GIB, 421, 0.01,
                "GLM-5.2 INT4, GiB");
}

static void a_matrix_takes_its_weights_and_scales(void)
{
    CHECK_I64(kvt_matrix_bytes(256, 256, KVT_WEIGHTS_BF16), 131072, "bf16");
    CHECK_I64(kvt_matrix_bytes(256, 256, KVT_WEIGHTS_FP8), 65536 + 4, "one scale");
    CHECK_I64(kvt_matrix_bytes(257, 256, KVT_WEIGHTS_FP8_BLOCK), 65792 + 4 * 6, "3 x 2 blocks");
    CHECK_I64(kvt_matrix_bytes(1, 64, KVT_WEIGHTS_INT4_G32), 32 + 4, "two groups");
    CHECK_I64(kvt_matrix_bytes(1, 64, KVT_WEIGHTS_INT4_G128), 32 + 2, "one group, not full");
    CHECK_I64(kvt_matrix_bytes(1, 64, KVT_WEIGHTS_NVFP4), 32 + 4 + 8, "e4m3 scales, two fp32");
    CHECK_I64(kvt_matrix_bytes(1, 64, KVT_WEIGHTS_MXFP4), 32 + 2, "e8m0 scales");
    CHECK_CLOSE(kvt_weight_bits(KVT_WEIGHTS_INT4_G32), 4.5, 1e-6, "bits");
    CHECK_CLOSE(kvt_weight_bits(KVT_WEIGHTS_INT4_G128), 4.125, 1e-6, "bits");
    CHECK_CLOSE(kvt_weight_bits(KVT_WEIGHTS_MXFP4), 4.25, 1e-6, "bits");
}

static struct kvt_kv_slot slot(const char *name, enum kvt_engine engine, enum kvt_kv_dtype dtype,
                               int32_t tp, int32_t draft)
{
    struct kvt_model model = load(name);
    struct kvt_kv_want want = {
        .engine = engine, .dtype = dtype, .layout = one, .draft_layers = draft};
    struct kvt_kv_slot out;
    struct kvt_err err = {0};
    want.layout.tp = tp;
    CHECK_OK(kvt_kv_slot(&model, &want, &out, &err), err);
    return out;
}

static void bytes_per_token_are_those_of_real_servers(void)
{
    static const struct {
        const char *name;
        enum kvt_engine engine;
        enum kvt_kv_dtype dtype;
        int32_t tp, draft;
        int64_t stored, charged;
    } rows[] = {
        {"kimi-k2.6", KVT_ENGINE_SGLANG, KVT_KV_BF16, 8, 0, 70272, 70272},
        {"kimi-k2.6", KVT_ENGINE_SGLANG, KVT_KV_FP8, 8, 0, 35136, 35136},
        {"kimi-k2.6", KVT_ENGINE_SGLANG, KVT_KV_FP8_PLAIN, 1, 0, 35136, 35136},
        {"kimi-k2.6", KVT_ENGINE_SGLANG, KVT_KV_FP8_SCALED, 8, 0, 40016, 40016},
        {"kimi-k2.6", KVT_ENGINE_SGLANG, KVT_KV_NVFP4, 8, 0, 19764, 19764},
        {"deepseek-v3.2", KVT_ENGINE_SGLANG, KVT_KV_BF16, 8, 0, 78324, 78324},
        {"deepseek-v3.2", KVT_ENGINE_SGLANG, KVT_KV_FP8, 8, 0, 48068, 43188},
        {"deepseek-v3.2", KVT_ENGINE_VLLM, KVT_KV_FP8, 8, 0, 48068, 48068},
        {"glm-5", KVT_ENGINE_SGLANG, KVT_KV_BF16, 8, 0, 100152, 100152},
        {"glm-5", KVT_ENGINE_SGLANG, KVT_KV_FP8, 8, 0, 61464, 55224},
        {"glm-5.2", KVT_ENGINE_SGLANG, KVT_KV_FP8, 8, 0, 61464, 55224},
        {"glm-5.2", KVT_ENGINE_SGLANG, KVT_KV_FP8, 8, 1, 62252, 55932},
        {"glm-5.2", KVT_ENGINE_SGLANG, KVT_KV_FP8_PLAIN, 8, 0, 55224, 55224},
        {"glm-5.2", KVT_ENGINE_VLLM, KVT_KV_BF16, 8, 0, 92628, 92628},
        {"glm-5.2", KVT_ENGINE_VLLM, KVT_KV_FP8, 8, 0, 53940, 53940},
        {"llama-3.1-8b", KVT_ENGINE_VLLM, KVT_KV_BF16, 1, 0, 131072, 131072},
        {"llama-3.1-70b", KVT_ENGINE_VLLM, KVT_KV_BF16, 4, 0, 81920, 81920},
        {"llama-3.1-405b", KVT_ENGINE_VLLM, KVT_KV_BF16, 1, 0, 516096, 516096},
        {"qwen3-8b", KVT_ENGINE_VLLM, KVT_KV_FP8, 1, 0, 73728, 73728},
        {"qwen3-8b", KVT_ENGINE_VLLM, KVT_KV_NVFP4, 1, 0, 41472, 41472},
        {"qwen3-32b", KVT_ENGINE_VLLM, KVT_KV_BF16, 1, 0, 262144, 262144},
        {"qwen3-30b-a3b", KVT_ENGINE_VLLM, KVT_KV_BF16, 1, 0, 98304, 98304},
        {"qwen3-235b-a22b", KVT_ENGINE_SGLANG, KVT_KV_BF16, 4, 0, 48128, 48128},
        {"qwen3-235b-a22b", KVT_ENGINE_SGLANG, KVT_KV_BF16, 8, 0, 48128, 48128}, /* repeated */
        {"gpt-oss-120b", KVT_ENGINE_VLLM, KVT_KV_BF16, 1, 0, 73728, 73728},
        {"mixtral-8x22b", KVT_ENGINE_VLLM, KVT_KV_BF16, 1, 0, 229376, 229376},
        {"mimo-v2-flash", KVT_ENGINE_SGLANG, KVT_KV_BF16, 4, 0, 55680, 55680},
        {"glm-4.6", KVT_ENGINE_VLLM, KVT_KV_FP8, 8, 0, 23552, 23552},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_kv_slot got =
            slot(rows[i].name, rows[i].engine, rows[i].dtype, rows[i].tp, rows[i].draft);
        CHECK_I64(got.stored_bytes, rows[i].stored, rows[i].name);
        CHECK_I64(got.charged_bytes, rows[i].charged, rows[i].name);
    }
}

static void every_second_layer_has_a_window(void)
{
    struct kvt_model model = load("gpt-oss-120b");
    CHECK_I64(slot("gpt-oss-120b", KVT_ENGINE_VLLM, KVT_KV_BF16, 1, 0).window_bytes, 73728 / 2, "");
    CHECK_I64((int64_t)kvt_step_window(&model), 128, "tokens");
}

static void scaled_fp8_of_gqa_has_a_scale_per_head(void)
{
    struct kvt_model model = load("llama-3.1-8b");
    struct kvt_kv_want want = {.dtype = KVT_KV_FP8_SCALED, .layout = one};
    struct kvt_kv_slot out;
    struct kvt_err err = {0};
    CHECK_OK(kvt_kv_slot(&model, &want, &out, &err), err);
    CHECK_I64(out.stored_bytes, 32 * 2 * 8 * (128 + 4), "bytes of a token");
}

static void a_name_means_one_shape_however_it_is_written(void)
{
    static const struct {
        const char *name, *model, *dtype;
    } rows[] = {
        {"Qwen3-235B-A22B-FP8", "qwen3-235b-a22b", "fp8-block"},
        {"Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b", "fp8-block"},
        {"Llama-3.1-8B-Instruct", "llama-3.1-8b", "bf16"},
        {"meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b", "bf16"},
        {"Llama-3.1-70B-AWQ-INT4", "llama-3.1-70b", "int4-g128"},
        {"Qwen3-30B-A3B (BF16, inferred from 16 shards, weights/GPU)", "qwen3-30b-a3b", "bf16"},
        {"DeepSeek-V3/R1", "deepseek-v3", "fp8-block"},
        {"DeepSeek-R1-0528", "deepseek-v3", "fp8-block"},
        {"DeepSeek-R1-Distill-Qwen-32B", "qwen2.5-32b", "bf16"},
        {"DeepSeek-V3.2 (FP8)", "deepseek-v3.2", "fp8-block"},
        {"GLM-5.2-NVFP4", "glm-5.2", "nvfp4"},
        {"GLM-4.6 (BF16 weights)", "glm-4.6", "bf16"},
        {"KIMI_K2.6", "kimi-k2.6", "int4-g32"},
        {"Kimi-K2-Thinking", "kimi-k2-thinking", "int4-g32"},
        {"Kimi-K2-Instruct-0905", "kimi-k2", "fp8-block"},
        {"openai/gpt-oss-20b", "gpt-oss-20b", "mxfp4"},
        {"Llama-2-7B class (SmoothQuant; MHA)", "llama-2-7b", "bf16"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_model model = load(rows[i].name);
        CHECK_TEXT(model.name, rows[i].model, rows[i].name);
        CHECK_TEXT(kvt_weight_dtype_names[model.weights], rows[i].dtype, rows[i].name);
    }
}

static void a_name_of_another_shape_is_not_taken_for_ours(void)
{
    static const char *const names[] = {
        "DeepSeek-V4-Pro",
        "DeepSeek-R1/V3.2",
        "Qwen3-Coder-Next",
        "Qwen3.5-35B-A3B",
        "DeepSeek-R1-Distill-X",
        "GLM-5.2-Air",
        "Llama-3.1-80B",
        "Kimi-K3",
        "MiniMax-M3",
        "Qwen3-235B-A22B-VL2",
        "DeepSeek-V4-Flash",
        "",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvt_model model;
        struct kvt_err err = {0};
        CHECK_FAILS(kvt_model_load(&model, names[i], &err), err, KVT_ECONFIG);
    }
    struct kvt_model model;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_model_load(&model, "kimi-k2.66", &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "did you mean \"kimi-k2.6\"?", "suggests");
}

/* Every shipped model reads, checks, and prints as a file that reads back as itself. */
static void a_printed_model_reads_back_as_itself(void)
{
    static const char *const names[] = {"kimi-k2.6",      "glm-5.2",         "deepseek-v3.2",
                                        "llama-3.1-8b",   "gpt-oss-20b",     "mimo-v2-flash",
                                        "step-3.7-flash", "gemma-4-26b-a4b", "nemotron-super-49b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvt_model model = load(names[i]), again;
        struct kvt_err err = {0};
        char *text = kvt_model_print(&model);
        CHECK(text != NULL);
        CHECK_OK(kvt_model_parse(&again, "again.yaml", text, strlen(text), &err), err);
        CHECK_NOTE(memcmp(&model, &again, sizeof model) == 0, names[i]);
        free(text);
    }
}

static void a_wrong_model_file_is_named_with_its_place(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"name: a\nhiden: 3\n", "m.yaml:2:1: unknown key \"hiden\"; did you mean \"hidden\"?"},
        {"name: a\nhidden: -3\n", "m.yaml:2:9: hidden: "},
        {"name: a\n", "m.yaml:1:1: a model file needs the key groups"},
        {"- 1\n", "m.yaml:1:1: a model file: want a mapping, got a list"},
        {"name: a\nhidden: 8\nvocab: 8\ncontext: 8\ngroups: []\n", "want 1 to 64 groups"},
        {"name: a\nhidden: 8\nvocab: 8\ncontext: 8\ngroups:\n  - count: 1\n    attention: {kind: "
         "gqa, heads: 8, kv-heads: 3, head-dim: 4}\n",
         "want kv-heads that divide heads"},
        {"name: a\nhidden: 8\nvocab: 8\ncontext: 8\ngroups:\n  - attention: {kind: lin}\n",
         "m.yaml:6:23: kind: want one of none, gqa, mla, got \"lin\""},
        {"name: a\nhidden: 8\nvocab: 8\ncontext: 8\ncheckpoint: {weights: fp7}\ngroups:\n"
         "  - {count: 1, attention: {kind: gqa, heads: 1, kv-heads: 1, head-dim: 4}}\n",
         "weights: want one of bf16, fp8, fp8-block"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_model model;
        struct kvt_err err = {0};
        CHECK_FAILS(kvt_model_parse(&model, "m.yaml", rows[i].text, strlen(rows[i].text), &err),
                    err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].text);
    }
}

static void a_layout_that_does_not_divide_is_refused(void)
{
    static const struct {
        struct kvt_layout layout;
        const char *model, *message;
    } rows[] = {
        {{3, 1, 1, 1, 1}, "llama-3.1-8b", "tp / dp = 3 does not divide attention heads 32"},
        {{8, 1, 3, 1, 1}, "kimi-k2.6", "dp 3 does not divide tp 8"},
        {{8, 1, 4, 1, 4}, "kimi-k2.6", "dcp 4 does not divide tp / dp = 2"},
        {{0, 1, 1, 1, 1}, "kimi-k2.6", "want tp from 1 to 4096, got 0"},
        {{1, 99, 1, 1, 1}, "llama-3.1-8b", "pp 99 is more than the 32 layers"},
        {{8, 1, 1, 16, 1}, "mixtral-8x7b", "ep 16 is more than the 8 experts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_model model = load(rows[i].model);
        struct kvt_err err = {0};
        struct kvt_where where = {.file = "c.yaml", .line = 4, .column = 2};
        CHECK_FAILS(kvt_layout_check(&rows[i].layout, &model, where, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].model);
        CHECK_HOLDS(err.text, "c.yaml:4:2: ", "has its place");
    }
}

static void attention_ranks_repeat_what_they_share(void)
{
    struct kvt_model model = load("qwen3-30b-a3b");
    struct kvt_layout dp4 = {.tp = 4, .pp = 1, .dp = 4, .ep = 1, .dcp = 1};
    struct kvt_weights split, repeated;
    struct kvt_layout tp4 = {.tp = 4, .pp = 1, .dp = 1, .ep = 1, .dcp = 1};
    kvt_weights_count(&model, &tp4, &split);
    kvt_weights_count(&model, &dp4, &repeated);
    CHECK_CLOSE((double)repeated.rank_total / GIB, 16.39, 0.005, "logged: DP attention 4 of TP4");
    CHECK_I64(repeated.rank_bytes[KVT_WEIGHT_GROUP_ROUTED],
              split.rank_bytes[KVT_WEIGHT_GROUP_ROUTED], "experts stay split");
    CHECK(repeated.rank_bytes[KVT_WEIGHT_GROUP_ATTENTION] >
          3 * split.rank_bytes[KVT_WEIGHT_GROUP_ATTENTION]);
}

static void padded_mxfp4_experts_load_as_logged(void)
{
    struct kvt_model model = load("gpt-oss-120b");
    struct kvt_weights weights;
    kvt_weights_count(&model, &one, &weights);
    CHECK_CLOSE((double)weights.rank_total / GIB, 65.97, 0.005, "gpt-oss-120b on one H100");
}

static void gpus_are_found_by_name_and_by_memory(void)
{
    struct kvt_gpu gpu;
    struct kvt_err err = {0};
    CHECK_OK(kvt_gpu_load(&gpu, "h200-sxm", -1, &err), err);
    CHECK_CLOSE(gpu.memory_visible, 143771.0 * 1048576, 1e-12, "nvidia-smi");
    CHECK_CLOSE(gpu.bandwidth, 4.8e12, 1e-12, "HBM");
    CHECK_OK(kvt_gpu_load(&gpu, "NVIDIA H100 80GB HBM3", -1, &err), err);
    CHECK_TEXT(gpu.name, "h100-sxm", "as the driver names it");
    CHECK_OK(kvt_gpu_load(&gpu, "h200-sxm", 96 * GIB, &err), err);
    CHECK_CLOSE(gpu.memory_visible, 96 * GIB, 1e-12, "another size");
    CHECK_OK(kvt_gpu_load(&gpu, "my-card", 48 * GIB, &err), err);
    CHECK_CLOSE(gpu.memory_visible, 48 * GIB, 1e-12, "only a size");
    CHECK(gpu.bandwidth <= 0);
    CHECK_FAILS(kvt_gpu_load(&gpu, "h200-smx", -1, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "did you mean \"h200-sxm\"?", "suggests");
    struct kvt_err other = {0};
    CHECK_OK(kvt_gpu_known(&gpu, "A100", 40e9, &other), other);
    CHECK_TEXT(gpu.name, "a100-40g", "the nearer of two");
    CHECK_OK(kvt_gpu_known(&gpu, "A100", 80e9, &other), other);
    CHECK_TEXT(gpu.name, "a100-80g", "the nearer of two");
    CHECK_OK(kvt_gpu_known(&gpu, "h20", -1, &other), other);
    CHECK_TEXT(gpu.name, "h20", "the very name, although H20 is also an alias of h20-3e");
}

static void every_shipped_gpu_is_whole(void)
{
    static const char *const names[] = {"h100-sxm", "h200-sxm", "b200-sxm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvt_gpu gpu;
        struct kvt_err err = {0};
        CHECK_OK(kvt_gpu_load(&gpu, names[i], -1, &err), err);
        CHECK_NOTE(gpu.memory_usable < gpu.memory_visible &&
                       gpu.memory_usable > 0.98 * gpu.memory_visible,
                   names[i]);
        CHECK_NOTE(gpu.bandwidth > 3e12 && gpu.flops_bf16 > 9e14 && gpu.flops_fp8 > gpu.flops_bf16,
                   names[i]);
        CHECK_NOTE(gpu.link_bandwidth > 4e11 && gpu.nic_bandwidth > 4e10 && gpu.sms > 100,
                   names[i]);
    }
}

const struct check_test check_model[] = {
    {"parameters and bytes are the published ones", parameters_and_bytes_are_the_published_ones,
     false},
    {"one rank of eight loads what is split, repeated and copied",
     one_rank_of_eight_loads_what_is_split_repeated_and_copied, false},
    {"published checkpoints are met", published_checkpoints_are_met, false},
    {"a matrix takes its weights and scales", a_matrix_takes_its_weights_and_scales, false},
    {"bytes per token are those of real servers", bytes_per_token_are_those_of_real_servers, false},
    {"every second layer has a window", every_second_layer_has_a_window, false},
    {"scaled fp8 of grouped-query attention has a scale per head",
     scaled_fp8_of_gqa_has_a_scale_per_head, false},
    {"a name means one shape however it is written", a_name_means_one_shape_however_it_is_written,
     false},
    {"a name of another shape is not taken for ours", a_name_of_another_shape_is_not_taken_for_ours,
     false},
    {"a printed model reads back as itself", a_printed_model_reads_back_as_itself, false},
    {"a wrong model file is named with its place", a_wrong_model_file_is_named_with_its_place,
     false},
    {"a layout that does not divide is refused", a_layout_that_does_not_divide_is_refused, false},
    {"attention ranks repeat what they share", attention_ranks_repeat_what_they_share, false},
    {"padded mxfp4 experts load as logged", padded_mxfp4_experts_load_as_logged, false},
    {"GPUs are found by name and by memory", gpus_are_found_by_name_and_by_memory, false},
    {"every shipped GPU is whole", every_shipped_gpu_is_whole, false},
    {0},
};
