/* What the engines on real memory do not run, and what they say of it. */
#include <string.h>

#include "runtime/engine.h"
#include "tests/check.h"
#include "tests/runtime/fleets.h"

static const char disaggregated[] = FLEETS_DISAGGREGATED("13", "8", "60", "40");

static void what_cannot_run_is_refused(void)
{
    static const struct {
        const char *set, *message;
        enum kvt_status status;
    } rows[] = {
        {"fleet.prefill.parallel.tp=2", "the runtime wants one GPU a replica", KVT_ECONFIG},
        {"fleet.decode.draft_tokens=1", "no speculative decoding", KVT_ECONFIG},
        {"fleet.decode.kv=nvfp4", "no kernel reads it", KVT_ECONFIG},
        {"fleet.decode.kv=fp8", "want fp8-scaled", KVT_ECONFIG},
        {"fleet.decode.page_tokens=32", "pages are handed over one by one", KVT_ECONFIG},
        {"fleet.prefill.weights=mxfp4", "no kernel for mxfp4 weights", KVT_ECONFIG},
        {"model=qwen3-0.6b", "norms of q and k", KVT_ECONFIG},
        {"fleet.decode.guard={tag-inband: {bits: 32, check: before-read}}",
         "tags beside the pages (guard tag-side)", KVT_ECONFIG},
        {"fleet.decode.replicas=40000", "want at most 32767 replicas to run, got 40001",
         KVT_ELIMIT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_config config;
        struct kvt_runtime runtime;
        struct kvt_err err = {0};
        struct kvt_runtime_want want = {.backend = KVT_BACKEND_REFERENCE, .repeats = 1};
        const char *sets[] = {"fleet.prefill.gpu=h100-sxm", "fleet.decode.gpu=h100-sxm",
                              rows[i].set};
        bool large = strncmp(rows[i].set, "model", 5) == 0;
        CHECK_OK(kvt_config_parse(&config, "c.yaml", disaggregated, sizeof disaggregated - 1, "",
                                  large ? sets : sets + 2, large ? 3 : 1, &err),
                 err);
        CHECK_FAILS(kvt_runtime_init(&runtime, &config, &want, &err), err, rows[i].status);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].set);
        kvt_config_release(&config);
    }
}

/* Each thing that a model may have and the engines do not run, alone. */
static void refuse(const struct kvt_model *model, enum kvt_status status, const char *message,
                   const char *change)
{
    struct kvt_device device;
    struct kvt_model_weights weights;
    struct kvt_err err = {0};
    CHECK_OK(kvt_device_open(&device, KVT_BACKEND_CPU, 64 << 20, &err), err);
    CHECK_FAILS(kvt_weights_load(&weights, &device, model, 1, &err), err, status);
    CHECK_HOLDS(err.text, message, change);
    kvt_device_close(&device);
}

#define REFUSED(base, change, message) REFUSED_AS(base, change, KVT_ECONFIG, message)
#define REFUSED_AS(base, change, status, message)                                                  \
    do {                                                                                           \
        static struct kvt_model model_;                                                            \
        model_ = (base);                                                                           \
        model_.change;                                                                             \
        refuse(&model_, status, message, #change);                                                 \
    } while (0)

static void models_that_cannot_run_are_refused_for_a_reason(void)
{
    static struct kvt_model gqa, mla;
    struct kvt_err err = {0};
    CHECK_OK(kvt_model_load(&gqa, "tests/runtime/tiny-gqa.yaml", &err), err);
    CHECK_OK(kvt_model_load(&mla, "tests/runtime/tiny-mla.yaml", &err), err);
    REFUSED(gqa, vision_params = 1, "vision towers");
    REFUSED(gqa, head = KVT_WEIGHTS_MXFP4, "no kernel for mxfp4 weights");
    REFUSED(gqa, groups[0].attention.kind = KVT_ATTENTION_NONE, "layers without attention");
    REFUSED(gqa, groups[0].attention.window = 128, "sliding windows");
    REFUSED(mla, groups[0].attention.index_heads = 4, "sparse attention");
    REFUSED(gqa, groups[0].attention.qkv_bias = true, "biases, norms of q and k");
    REFUSED(gqa, groups[0].attention.o_bias = true, "biases, norms of q and k");
    REFUSED(gqa, groups[0].attention.sinks = true, "biases, norms of q and k");
    REFUSED(gqa, groups[0].attention.v_is_k = true, "biases, norms of q and k");
    REFUSED(gqa, groups[0].attention.output_gate = true, "biases, norms of q and k");
    REFUSED(gqa, groups[0].attention.v_dim = 32, "a v of another width than k");
    REFUSED(mla, groups[0].attention.kv_lora = 256, "a latent other than 512 + 64");
    REFUSED(mla, groups[0].attention.rope = 32, "a latent other than 512 + 64");
    REFUSED(gqa, groups[0].dtype[KVT_MATRIX_K] = KVT_WEIGHTS_FP8, "q, k and v of one dtype");
    REFUSED(gqa, groups[0].dtype[KVT_MATRIX_V] = KVT_WEIGHTS_FP8, "q, k and v of one dtype");
    REFUSED(mla, groups[0].dtype[KVT_MATRIX_KV_A] = KVT_WEIGHTS_FP8, "q, k and v of one dtype");
    REFUSED(mla, groups[0].dtype[KVT_MATRIX_Q_B] = KVT_WEIGHTS_MXFP4, "no kernel for mxfp4");
    REFUSED(gqa, groups[0].dtype[KVT_MATRIX_O] = KVT_WEIGHTS_NVFP4, "no kernel for nvfp4 weights");
    REFUSED(gqa, groups[0].dtype[KVT_MATRIX_GATE_UP] = KVT_WEIGHTS_MXFP4, "no kernel for mxfp4");
    REFUSED(gqa, groups[0].dtype[KVT_MATRIX_DOWN] = KVT_WEIGHTS_MXFP4, "no kernel for mxfp4");
    REFUSED(mla, groups[1].dtype[KVT_MATRIX_ROUTER] = KVT_WEIGHTS_MXFP4, "no kernel for mxfp4");
    REFUSED(mla, groups[1].dtype[KVT_MATRIX_EXPERT_GATE_UP] = KVT_WEIGHTS_MXFP4, "no kernel");
    REFUSED(mla, groups[1].dtype[KVT_MATRIX_EXPERT_DOWN] = KVT_WEIGHTS_MXFP4, "no kernel");
    REFUSED(mla, groups[1].dtype[KVT_MATRIX_SHARED_GATE_UP] = KVT_WEIGHTS_MXFP4, "no kernel");
    REFUSED(mla, groups[1].dtype[KVT_MATRIX_SHARED_DOWN] = KVT_WEIGHTS_MXFP4, "no kernel");
    REFUSED(gqa, groups[0].mlp.gated = false, "gated MLPs without biases");
    REFUSED(gqa, groups[0].mlp.bias = true, "gated MLPs without biases");
    REFUSED(gqa, groups[0].mlp.inter = 0, "gated MLPs without biases");
    REFUSED(mla, groups[1].attention.heads = 8, "layers that attend differently");
    REFUSED(mla, groups[1].attention.v_dim = 64, "layers that attend differently");
    REFUSED(mla, groups[1].attention.q_lora = 1024, "layers that attend differently");
    REFUSED(gqa, groups[0].attention.heads = 17 * gqa.groups[0].attention.kv_heads,
            "more than 16 heads a kv head");
    mla.group_count = mla.layers = 1;
    REFUSED(mla, groups[0].attention.heads = 129, "or 128 of MLA");
    REFUSED_AS(mla, groups[0].attention.q_lora = 1 << 24, KVT_ELIMIT,
               "a matrix of the model: n: want 1 to 16777216, got 16777792");
    gqa.groups[0].dtype[KVT_MATRIX_DOWN] = KVT_WEIGHTS_INT4_G128;
    REFUSED(gqa, groups[0].mlp.inter = 160, "down has 160 columns, want a multiple of the group");
}

/* More rows than columns: scales of rows take more room than what they scale. */
static void a_tall_matrix_is_loaded(void)
{
    static struct kvt_model model;
    struct kvt_device device;
    struct kvt_model_weights weights;
    struct kvt_err err = {0};
    CHECK_OK(kvt_model_load(&model, "tests/runtime/tiny-gqa.yaml", &err), err);
    model.hidden = 2;
    model.vocab = 1 << 15;
    model.head = KVT_WEIGHTS_FP8;
    CHECK_OK(kvt_device_open(&device, KVT_BACKEND_REFERENCE, 64 << 20, &err), err);
    CHECK_OK(kvt_weights_load(&weights, &device, &model, 1, &err), err);
    for (int32_t row = 0; row < model.vocab && err.status == KVT_OK; row++)
        if (!(weights.head.scale[row] > 0 && weights.head.scale[row] < 1))
            CHECK_I64(row, -1, "the scale of a row");
    kvt_weights_release(&weights);
    CHECK_I64(device.used, 0, "all given back");
    kvt_device_close(&device);
}

const struct check_test check_runtime_refusals[] = {
    {"a tall matrix is loaded", a_tall_matrix_is_loaded, false},
    {"what cannot run is refused", what_cannot_run_is_refused, false},
    {"models that cannot run are refused for a reason",
     models_that_cannot_run_are_refused_for_a_reason, false},
    {NULL, NULL, false},
};
