/* Step lists, calibrations and frozen tables: against published results, closed forms and each
 * other. What is fitted and what predicted is said at each test. */
#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/cost/freeze.h"
#include "tests/cost_parts.h"
#include "tests/scarce.h"

static struct kvt_model model_of(const char *name, enum kvt_weight_dtype weights)
{
    struct kvt_model model;
    struct kvt_err err = {0};
    CHECK_OK(kvt_model_load(&model, name, &err), err);
    kvt_model_quantise(&model, weights, kvt_model_scope(&model, weights));
    return model;
}

static struct kvt_model kimi(void)
{
    return model_of("kimi-k2.6", KVT_WEIGHTS_INT4_G32);
}

static struct kvt_model deepseek_r1(void)
{
    return model_of("deepseek-v3", KVT_WEIGHTS_FP8_BLOCK);
}

static struct kvt_model glm52(void)
{
    return model_of("glm-5.2", KVT_WEIGHTS_FP8_BLOCK);
}

static struct kvt_model llama70b(void)
{
    return model_of("llama-3.1-70b", KVT_WEIGHTS_FP8);
}

static struct kvt_model gpt_oss(void)
{
    return model_of("gpt-oss-120b", KVT_WEIGHTS_MXFP4);
}

static struct kvt_kernel_list step; /* large */

static double decode_ms(const struct kvt_model *model, const struct kvt_step_shape *shape,
                        const struct kvt_calibration *calibration, int32_t batch, double context)
{
    double window = kvt_step_window(model);
    struct kvt_step_work work = {
        .decodes = batch, .context = batch * context, .windowed = batch * fmin(context, window)};
    kvt_step_list(&step, model, shape, calibration, &work, KVT_STEP_WHOLE);
    return step.time * 1e3;
}

static const struct kvt_kernel *kernel_named(const char *name)
{
    for (int32_t i = 0; i < step.count; i++)
        if (strcmp(step.kernels[i].name, name) == 0)
            return &step.kernels[i];
    return NULL;
}

/* The published sweep, at the context that its pool allows (10,000 in, 1,000 out, half done). */
static void the_published_kimi_sweep_comes_out(void)
{
    static const struct {
        int32_t batch;
        enum kvt_kv_dtype kv;
        double tokens_per_s, error;
    } rows[] = {{1, KVT_KV_BF16, 137, 0.03},
                {8, KVT_KV_BF16, 731, 0.03},
                {16, KVT_KV_BF16, 1106, 0.03},
                {32, KVT_KV_BF16, 1558, 0.06},
                {64, KVT_KV_FP8, 2192, 0.04}};
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model model = kimi();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_step_shape shape = cost_tensor_parallel(8, rows[i].kv);
        double ms = decode_ms(&model, &shape, &c, rows[i].batch, 10500);
        CHECK_CLOSE(rows[i].batch / ms * 1e3, rows[i].tokens_per_s, rows[i].error, "published");
    }
    kvt_calibration_release(&c);
}

/* Published GLM-5.2 with FP8 weights, 7,000 in and 1,000 out: nothing is fitted to it. The point at
 * concurrency 1 (16.7 ms) is not explained by its kernels, here or in the recipe. */
static void the_published_glm_sweep_comes_out_from_8_requests(void)
{
    static const struct {
        int32_t batch;
        double tokens_per_s;
    } rows[] = {{8, 425}, {16, 683}, {32, 994}, {64, 1672}};
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model model = glm52();
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_FP8);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double ms = decode_ms(&model, &shape, &c, rows[i].batch, 7500);
        CHECK_CLOSE(rows[i].batch / ms * 1e3, rows[i].tokens_per_s, 0.12, "published");
    }
    CHECK_NOTE(decode_ms(&model, &shape, &c, 1, 7500) < 0.75 * 16.7, "unexplained");
    kvt_calibration_release(&c);
}

static void experts_hit_follow_the_closed_form(void)
{
    CHECK_CLOSE(kvt_experts_hit(384, 8, 1, 1.0), 8.0, 1e-9, "one token hits top-k");
    CHECK_CLOSE(kvt_experts_hit(384, 8, 8, 1.0), 59.5, 1e-3, "uniform");
    CHECK_CLOSE(kvt_experts_hit(384, 8, 64, 1.0), 284.2, 1e-3, "uniform");
    CHECK_CLOSE(kvt_experts_hit(384, 8, 64, 0.7), 8 + 0.7 * (284.2 - 8), 1e-3, "skewed");
    CHECK_CLOSE(kvt_experts_hit(384, 8, 4096, 0.7), 384.0, 1e-6, "every expert, whatever the skew");
    double last = 0.0;
    for (int m = 1; m < 2000; m++) {
        double hit = kvt_experts_hit(256, 8, m, 0.5);
        CHECK_NOTE(hit >= last && hit <= 256.0, "more tokens never hit fewer");
        last = hit;
    }
}

/* Shuffle the experts, hit the first ones, and look which rank holds most of them. */
static double drawn_fullest(gsl_rng *rng, int experts, int hit, int ranks)
{
    int order[512], sum = 0, draws = 4000;
    for (int draw = 0; draw < draws; draw++) {
        int held[64] = {0}, most = 0;
        for (int e = 0; e < experts; e++)
            order[e] = e;
        gsl_ran_shuffle(rng, order, (size_t)experts, sizeof *order);
        for (int i = 0; i < hit; i++)
            held[order[i] / (experts / ranks)]++;
        for (int r = 0; r < ranks; r++)
            most = held[r] > most ? held[r] : most;
        sum += most;
    }
    return (double)sum / draws;
}

static void the_fullest_rank_of_experts_is_as_drawn(void)
{
    static const int rows[][3] = {{256, 8, 8},    {256, 102, 8}, {256, 240, 8}, {288, 8, 4},
                                  {384, 200, 16}, {128, 60, 2},  {256, 256, 8}, {256, 50, 1}};
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double want = drawn_fullest(rng, rows[i][0], rows[i][1], rows[i][2]);
        CHECK_CLOSE(kvt_experts_fullest(rows[i][0], rows[i][1], rows[i][2]), want,
                    rows[i][1] < 20 ? 0.12 : 0.02, "experts, hit, ranks");
    }
    gsl_rng_free(rng);
}

static void int4_experts_win_in_decode_and_lose_in_prefill(void)
{
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model four = model_of("glm-5.2", KVT_WEIGHTS_INT4_G32), eight = four;
    kvt_model_quantise(&eight, KVT_WEIGHTS_FP8_BLOCK, KVT_QUANT_EXPERTS);
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_FP8);
    for (int32_t b = 1; b <= 64; b *= 4)
        CHECK_NOTE(decode_ms(&four, &shape, &c, b, 8192) < decode_ms(&eight, &shape, &c, b, 8192),
                   "decode");
    struct kvt_step_work work = {.prompt_tokens = 8192, .pairs = 8192.0 * 8193 / 2};
    kvt_step_list(&step, &four, &shape, &c, &work, KVT_STEP_WHOLE);
    double int4 = step.time, experts = kernel_named("routed experts")->time;
    kvt_step_list(&step, &eight, &shape, &c, &work, KVT_STEP_WHOLE);
    CHECK_NOTE(int4 > step.time, "prefill");
    CHECK_NOTE(experts > 1.5 * kernel_named("routed experts")->time, "its experts");
    kvt_calibration_release(&c);
}

static void the_list_of_kimi_has_the_shapes_of_the_recipe(void)
{
    static const struct {
        const char *name;
        double n, k, count;
    } rows[] = {{"q_a + kv_a", 2112, 7168, 60},    {"q_b", 1536, 1536, 60},
                {"o_proj", 7168, 1024, 60},        {"router", 384, 7168, 60},
                {"shared gate_up", 512, 7168, 60}, {"shared down", 7168, 256, 60},
                {"gate_up", 4608, 7168, 1},        {"down", 7168, 2304, 1},
                {"lm_head", 20480, 7168, 1}};
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model model = kimi();
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    decode_ms(&model, &shape, &c, 4, 1000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct kvt_kernel *k = NULL;
        for (int32_t j = 0; j < step.count; j++) /* of the group that runs most often */
            if (strcmp(step.kernels[j].name, rows[i].name) == 0)
                k = &step.kernels[j];
        CHECK_NOTE(k != NULL, rows[i].name);
        if (k == NULL)
            continue;
        CHECK_CLOSE(k->work.dim[KVT_DIM_N], rows[i].n, 1e-12, rows[i].name);
        CHECK_CLOSE(k->work.dim[KVT_DIM_K], rows[i].k, 1e-12, rows[i].name);
        CHECK_CLOSE(k->count, rows[i].count, 1e-12, rows[i].name);
    }
    double sum = 0.0;
    for (int32_t i = 0; i < step.count; i++)
        sum += step.kernels[i].count * step.kernels[i].time;
    CHECK_CLOSE(step.kernel_time, sum, 1e-12, "the sum of the list");
    kvt_calibration_release(&c);
}

static void layouts_split_and_exchange_what_they_should(void)
{
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model model = deepseek_r1();
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    shape.layout.ep = 8;
    double ep = decode_ms(&model, &shape, &c, 64, 4096);
    CHECK_CLOSE(kernel_named("routed experts")->work.dim[KVT_DIM_INTER], 2048, 1e-12,
                "EP: whole experts");
    CHECK(kernel_named("all-reduce after MLP") != NULL);
    shape.layout.dp = 8;
    decode_ms(&model, &shape, &c, 64, 4096);
    CHECK_CLOSE(kernel_named("mla decode")->work.batch, 8, 1e-12, "DP: an eighth of the batch");
    CHECK_CLOSE(kernel_named("mla decode")->work.dim[KVT_DIM_HEADS], 128, 1e-12, "all heads");
    CHECK(kernel_named("all-reduce after attention") == NULL);
    CHECK(kernel_named("gather tokens") != NULL);
    CHECK(kernel_named("scatter tokens") != NULL);
    shape.moe_a2a = KVT_MOE_A2A_DEEPEP;
    decode_ms(&model, &shape, &c, 64, 4096);
    CHECK_CLOSE(kernel_named("dispatch and combine")->work.dim[KVT_DIM_M], 8, 1e-12,
                "DeepEP: a rank sends its own tokens");
    CHECK_CLOSE(kernel_named("dispatch and combine")->count, 58, 1e-12, "in layers of experts");
    CHECK_CLOSE(kernel_named("gather tokens")->count, 3, 1e-12, "dense layers as before");
    CHECK_CLOSE(kernel_named("router")->work.dim[KVT_DIM_M], 8, 1e-12, "router: own tokens");
    CHECK_CLOSE(kernel_named("shared down")->work.dim[KVT_DIM_K], 2048, 1e-12, "whole experts");
    CHECK(kernel_named("dispatch and combine")->law->family == KVT_FAMILY_DISPATCH_LL);
    CHECK(kernel_named("scatter after attention") == NULL);
    shape.layout.dp = 2; /* four ranks attend together and share 32 tokens out */
    decode_ms(&model, &shape, &c, 64, 4096);
    CHECK_CLOSE(kernel_named("dispatch and combine")->work.dim[KVT_DIM_M], 8, 1e-12, "32 / 4");
    CHECK(kernel_named("scatter after attention") != NULL);
    CHECK(kernel_named("gather after MLP") != NULL);
    struct kvt_step_work prompt = {.prompt_tokens = 4096, .pairs = 4096.0 * 4097 / 2};
    kvt_step_list(&step, &model, &shape, &c, &prompt, KVT_STEP_WHOLE);
    CHECK(kernel_named("dispatch and combine")->law->family == KVT_FAMILY_DISPATCH);
    shape.moe_a2a = KVT_MOE_A2A_NONE;
    shape.layout = (struct kvt_layout){8, 2, 1, 8, 1};
    double pp = decode_ms(&model, &shape, &c, 64, 4096);
    CHECK_CLOSE(kernel_named("mla decode")->work.batch, 32, 1e-12, "PP: half the batch a stage");
    CHECK(kernel_named("send to the next stage") != NULL);
    CHECK_NOTE(pp < ep, "a microbatch is lighter than the batch");
    shape.layout = (struct kvt_layout){8, 1, 1, 1, 8};
    decode_ms(&model, &shape, &c, 64, 4096);
    CHECK_CLOSE(kernel_named("mla decode")->work.context, 64 * 4096 / 8.0, 1e-12, "DCP");
    CHECK_CLOSE(kernel_named("mla decode")->work.dim[KVT_DIM_HEADS], 128, 1e-12, "DCP");
    CHECK(kernel_named("dcp gather q") != NULL);
    kvt_calibration_release(&c);
}

static void speculation_costs_a_verify_and_its_drafts(void)
{
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model model = glm52();
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_FP8);
    double plain = decode_ms(&model, &shape, &c, 8, 8192);
    shape.draft_tokens = 3;
    double draft = decode_ms(&model, &shape, &c, 8, 8192);
    CHECK_NOTE(draft > plain && draft < 4 * plain, "dearer, but less than four steps");
    CHECK_CLOSE(kernel_named("router")->work.dim[KVT_DIM_M], 32, 1e-12, "8 x (3 + 1)");
    struct kvt_err err = {0};
    struct kvt_model none = kimi();
    CHECK_FAILS(kvt_step_check(&none, &shape, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "no draft (MTP) layers", "");
    kvt_calibration_release(&c);
}

static void a_frozen_table_follows_the_list(void)
{
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model models[] = {kimi(), glm52(), llama70b(), gpt_oss(), deepseek_r1()};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct frozen f;
        struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_FP8);
        cost_freeze(&f, &models[i], &shape, &c, 300);
        for (int32_t b = 1; b <= 300; b = b * 3 / 2 + 1)
            for (int64_t s = 1; s < 200000; s = s * 3 + 7) {
                double want = decode_ms(&models[i], &shape, &c, b, (double)s);
                double w = fmin((double)s, f.costs.window) * b;
                kvt_ticks got = kvt_costs_decode(&f.costs, b, s * b, (int64_t)w);
                CHECK_CLOSE(kvt_seconds_from_ticks(got) * 1e3, want, 0.01, models[i].name);
            }
        kvt_arena_release(&f.arena);
    }
    kvt_calibration_release(&c);
}

static void prompts_lie_on_knots_within_half_a_percent(void)
{
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model models[] = {kimi(), glm52(), llama70b(), gpt_oss()};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct frozen f;
        struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
        cost_freeze(&f, &models[i], &shape, &c, 1);
        f.costs.prefill_floor = f.costs.prefill_base = 0;
        for (int64_t m = 1; m < 900000; m = m * 5 / 4 + 1) {
            struct kvt_step_work work = {.prompt_tokens = (double)m,
                                         .prompt_ends = 1,
                                         .pairs = (double)m * (double)(m + 1) / 2};
            struct kvt_step_load load = {
                .prompt_tokens = m, .prompt_ends = 1, .pairs = m * (m + 1) / 2};
            kvt_step_list(&step, &models[i], &shape, &c, &work, KVT_STEP_WHOLE);
            double got = kvt_seconds_from_ticks(kvt_costs_step(&f.costs, &load));
            CHECK_CLOSE(got, step.kernel_time, 0.005, models[i].name);
        }
        CHECK_NOTE(f.costs.token_knots < 128, "few knots");
        kvt_arena_release(&f.arena);
    }
    kvt_calibration_release(&c);
}

static void more_requests_or_context_are_never_faster(void)
{
    static const char *const names[] = {"h200-sglang",        "h200-vllm",   "h100-sglang",
                                        "h100-vllm",          "b200-sglang", "b200-vllm",
                                        "h200-published-best"};
    struct kvt_model models[] = {kimi(), glm52(), llama70b(), gpt_oss()};
    models[2] = model_of("llama-3.1-70b", KVT_WEIGHTS_INT4_G128); /* the least regular law */
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct kvt_calibration c = cost_shipped(names[n]);
        for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
            struct frozen f;
            struct kvt_step_shape shape =
                cost_tensor_parallel(8, i == 1 ? KVT_KV_FP8 : KVT_KV_BF16);
            cost_freeze(&f, &models[i], &shape, &c, 256);
            for (int64_t s = 1; s <= 1 << 17; s *= 4) {
                kvt_ticks last = 0;
                int64_t w = s < f.costs.window ? s : f.costs.window;
                for (int32_t b = 1; b <= 256; b++) {
                    kvt_ticks t = kvt_costs_decode(&f.costs, b, b * s, b * w);
                    CHECK_NOTE(t >= last, names[n]);
                    CHECK_NOTE(kvt_costs_decode(&f.costs, b, b * s + 1, b * w) >= t, names[n]);
                    last = t;
                }
            }
            kvt_arena_release(&f.arena);
        }
        kvt_calibration_release(&c);
    }
}

static void rows_are_continuous_and_as_short_as_the_laws_allow(void)
{
    struct kvt_calibration c = cost_shipped("h200-published-best");
    struct kvt_model model = llama70b();
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    struct frozen f;
    cost_freeze(&f, &model, &shape, &c, 32);
    CHECK_I64(f.costs.rows[32].segments, 1, "an exactly linear law");
    kvt_arena_release(&f.arena);
    kvt_calibration_release(&c);
    c = cost_shipped("h200-sglang");
    struct kvt_model small = llama70b();
    small.groups[0].count = small.layers = 6;
    cost_freeze(&f, &small, &shape, &c, 4);
    const struct kvt_cost_row *row = &f.costs.rows[1];
    kvt_ticks floor = 2 * KVT_TICKS_PER_MS;
    CHECK_I64(kvt_costs_decode(&f.costs, 1, 1, 0), floor, "the host's floor");
    CHECK_NOTE(kvt_costs_decode(&f.costs, 1, 1 << 24, 0) > floor, "which long contexts leave");
    CHECK_I64(row->start[0], 0, "from 0");
    for (int32_t s = 1; s < row->segments; s++) {
        CHECK(row->start[s] > row->start[s - 1]);
        CHECK_I64(row->value[s],
                  row->value[s - 1] + row->slope[s - 1] * (row->start[s] - row->start[s - 1]),
                  "continuous");
    }
    kvt_arena_release(&f.arena);
    kvt_calibration_release(&c);
}

static void freezing_reports_what_it_lacks(void)
{
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model model = kimi();
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    struct kvt_gpu gpu = cost_gpu_of("h200");
    struct kvt_arena arena;
    struct kvt_costs costs;
    struct kvt_err err = {0};
    CHECK_OK(kvt_arena_init(&arena, 1 << 20, &err), err);
    for (long n = 1; n <= 3; n++) {
        scarce_arena_at(n);
        err = (struct kvt_err){0};
        CHECK_FAILS(kvt_costs_freeze(&costs, &arena, &model, &gpu, &c, &shape, 8, true, &err), err,
                    KVT_ENOMEM);
        CHECK_HOLDS(err.text, "step times", "");
    }
    scarce_arena_at(0);
    shape.layout.dp = 3;
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_costs_freeze(&costs, &arena, &model, &gpu, &c, &shape, 8, true, &err), err,
                KVT_ECONFIG);
    CHECK_HOLDS(err.text, "dp 3 does not divide tp 8", "");
    shape.layout.dp = 1;
    CHECK_OK(kvt_costs_freeze(&costs, &arena, &model, &gpu, &c, &shape, 8, false, &err), err);
    CHECK_I64(costs.host_ticks, KVT_TICKS_PER_MS, "without overlap the host adds to every step");
    kvt_arena_release(&arena);
    kvt_calibration_release(&c);
}

static void the_explained_step_names_its_laws(void)
{
    struct kvt_calibration c = cost_shipped("h200-sglang");
    struct kvt_model model = kimi();
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    decode_ms(&model, &shape, &c, 16, 8192);
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    kvt_step_print(&step, &c, out);
    fclose(out);
    CHECK_HOLDS(text, "routed experts", "");
    CHECK_HOLDS(text, "calibration h200-sglang (h200-sxm, sglang 0.5.14)", "");
    CHECK_HOLDS(text, "1.03 us per expert hit", "the source of a law that was used");
    CHECK(strstr(text, "nan") == NULL);
    free(text);
    struct kvt_err err = {0};
    out = open_memstream(&text, &count);
    CHECK_OK(kvt_step_json(&step, &c, out, &err), err);
    fclose(out);
    CHECK_HOLDS(text, "\"name\": \"mla decode\"", "");
    CHECK_HOLDS(text, "\"limit\": \"memory\"", "");
    free(text);
    kvt_calibration_release(&c);
}

/* MiniMax norms q and k over the heads of all ranks, Qwen3 each head by itself. */
static void norms_over_all_heads_are_reduced(void)
{
    static const char name[] = "all-reduce of q, k norms";
    struct kvt_calibration calibration = cost_shipped("h100-sglang");
    const struct kvt_model whole = model_of("minimax-m2.5", KVT_WEIGHTS_FP8_BLOCK);
    const struct kvt_model by_head = model_of("qwen3-235b-a22b", KVT_WEIGHTS_BF16);
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    decode_ms(&whole, &shape, &calibration, 16, 1000);
    const struct kvt_kernel *found = kernel_named(name);
    CHECK(found != NULL);
    if (found != NULL) {
        CHECK_CLOSE(found->bytes, 16 * 2 * 4, 1e-12, "two float32 a token");
        CHECK_CLOSE(found->count, 62, 1e-12, "every layer");
    }
    decode_ms(&by_head, &shape, &calibration, 16, 1000);
    CHECK(kernel_named(name) == NULL);
    shape.layout.tp = 1;
    decode_ms(&whole, &shape, &calibration, 16, 1000);
    CHECK(kernel_named(name) == NULL);
    kvt_calibration_release(&calibration);
}

/* clang-format off */
const struct check_test check_cost[] = {
    {"the published Kimi sweep comes out", the_published_kimi_sweep_comes_out, false},
    {"the published GLM sweep comes out from 8 requests",
     the_published_glm_sweep_comes_out_from_8_requests, false},
    {"experts hit follow the closed form", experts_hit_follow_the_closed_form, false},
    {"norms over all heads are reduced", norms_over_all_heads_are_reduced, false},
    {"the fullest rank of experts is as drawn", the_fullest_rank_of_experts_is_as_drawn, false},
    {"int4 experts win in decode and lose in prefill",
     int4_experts_win_in_decode_and_lose_in_prefill, false},
    {"the list of Kimi has the shapes of the recipe",
     the_list_of_kimi_has_the_shapes_of_the_recipe, false},
    {"layouts split and exchange what they should",
     layouts_split_and_exchange_what_they_should, false},
    {"speculation costs a verify and its drafts", speculation_costs_a_verify_and_its_drafts, false},
    {"a frozen table follows the list", a_frozen_table_follows_the_list, false},
    {"prompts lie on knots within half a percent",
     prompts_lie_on_knots_within_half_a_percent, false},
    {"more requests or context are never faster", more_requests_or_context_are_never_faster, false},
    {"rows are continuous and as short as the laws allow",
     rows_are_continuous_and_as_short_as_the_laws_allow, false},
    {"freezing reports what it lacks", freezing_reports_what_it_lacks, false},
    {"the explained step names its laws", the_explained_step_names_its_laws, false},
    {NULL, NULL, false},
};
/* clang-format on */
