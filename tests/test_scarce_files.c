/* What reads and prints files without memory: each allocation fails once, and each piece of an
 * arena. It is told as a lack of memory, or does no harm. */
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "sim/base/decision.h"
#include "sim/base/file.h"
#include "sim/model/gpu.h"
#include "sim/model/model.h"
#include "sim/output/bench_result.h"
#include "sim/output/pairs.h"
#include "sim/trace/generate.h"
#include "sim/trace/stats.h"
#include "tests/check.h"
#include "tests/config_texts.h"
#include "tests/scarce.h"

struct work {
    const char *name;
    scarce_call *call;
    const char *text, *other; /* what the call reads */
    long stride;
};

static void each(const struct work rows[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        scarce_each(rows[i].call, &rows[i], rows[i].stride > 0 ? rows[i].stride : 1, rows[i].name);
}

static void add_bytes(uint64_t *digest, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        *digest = kvt_digest_add(*digest, ((const unsigned char *)bytes)[i]);
}

/* A malloc'ed text, or NULL: no memory. */
static enum kvt_status take_text(char *text, uint64_t *digest, struct kvt_err *err)
{
    if (text == NULL)
        return err->count > 0 ? err->status : kvt_err_set(err, KVT_ENOMEM, "no text");
    add_bytes(digest, text, strlen(text));
    free(text);
    return KVT_OK;
}

/* ---- models and GPUs ---- */

static enum kvt_status take_model(enum kvt_status status, const struct kvt_model *model,
                                  uint64_t *digest)
{
    if (status == KVT_OK)
        add_bytes(digest, model, sizeof *model);
    return status;
}

static enum kvt_status load_model(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_model model;
    return take_model(kvt_model_load(&model, work->text, err), &model, digest);
}

static enum kvt_status print_model(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_model model;
    KVT_TRY(kvt_model_load(&model, work->text, err));
    return take_text(kvt_model_print(&model), digest, err);
}

static enum kvt_status import_model(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_model model;
    return take_model(
        kvt_model_import_text(&model, "config.json", work->text, work->other, NULL, err), &model,
        digest);
}

static enum kvt_status import_files(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_model model;
    return take_model(kvt_model_import(&model, work->text, work->other, NULL, err), &model, digest);
}

static enum kvt_status load_gpu(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_gpu gpu;
    KVT_TRY(kvt_gpu_load(&gpu, work->text, -1, err));
    add_bytes(digest, &gpu, sizeof gpu);
    return KVT_OK;
}

#define SHAPE                                                                                      \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 256, "                 \
    "\"intermediate_size\": 512, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "         \
    "\"vocab_size\": 1000, \"max_position_embeddings\": 4096"

static const char compressed[] =
    SHAPE ", \"quantization_config\": {\"quant_method\": \"compressed-tensors\", "
          "\"config_groups\": {\"a\": {\"targets\": [\"re:.*self_attn.*\"], \"weights\": "
          "{\"num_bits\": 8, \"type\": \"float\"}}, \"b\": {\"targets\": [\"Linear\"], "
          "\"weights\": {\"num_bits\": 4, \"type\": \"int\", \"group_size\": 128}}}, \"ignore\": "
          "[\"lm_head\", \"model.layers.0.mlp.down_proj\"]}}";
static const char mixed[] =
    SHAPE ", \"quantization_config\": {\"quant_algo\": \"MIXED_PRECISION\", \"quantized_layers\": "
          "{\"model.layers.*.mlp.*\": {\"quant_algo\": \"NVFP4\"}}}}";

static void models_and_gpus_tell_what_they_lack(void)
{
    const char *path = check_temp("hf_quant_config.json");
    struct kvt_err err = {0};
    static const char quant[] = "{\"quantization\": {\"quant_algo\": \"NVFP4\", "
                                "\"exclude_modules\": [\"lm_head\", \"*self_attn*\"]}}";
    CHECK_OK(kvt_file_write(path, quant, strlen(quant), &err), err);
    const struct work rows[] = {
        {"a model by its file's name", load_model, "qwen3-8b", NULL, 0},
        {"a model by a name of others", load_model, "Qwen/Qwen3-30B-A3B-FP8", NULL, 17},
        {"a model as YAML", print_model, "glm-5.2", NULL, 0},
        {"a GPU by its file's name", load_gpu, "h200-sxm", NULL, 0},
        {"a GPU by a name of others", load_gpu, "NVIDIA H100 80GB HBM3", NULL, 11},
        {"a config.json", import_model, compressed, NULL, 0},
        {"a config.json whose layers differ", import_model, mixed, NULL, 0},
        {"a config.json and what lies beside it", import_model, SHAPE "}", quant, 0},
        {"a quantisation alone", import_files, path, "qwen3-8b", 0},
    };
    each(rows, sizeof rows / sizeof *rows);
    remove(path);
}

/* ---- configurations ---- */

static enum kvt_status load_config(const void *context, uint64_t *digest, struct kvt_err *err)
{
    static const char *const sets[] = {"run.seed=3", "fleet.decode.tp_size=4",
                                       "fleet.decode.guard=fifo+lease", "slo.e2el.p50=9 s"};
    const struct work *work = context;
    struct kvt_config config;
    KVT_TRY(
        kvt_config_parse(&config, "c.yaml", work->text, strlen(work->text), "dir", sets, 4, err));
    enum kvt_status status = take_text(kvt_config_print(&config), digest, err);
    kvt_config_release(&config);
    return status;
}

static enum kvt_status explain_key(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    return take_text(kvt_config_explain(work->text, err), digest, err);
}

static enum kvt_status print_keys(const void *context, uint64_t *digest, struct kvt_err *err)
{
    (void)context;
    return take_text(kvt_config_keys(), digest, err);
}

static enum kvt_status print_reference(const void *context, uint64_t *digest, struct kvt_err *err)
{
    (void)context;
    return take_text(kvt_config_reference(), digest, err);
}

static enum kvt_status pair_yaml(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_pairs pairs = {0};
    enum kvt_status status = kvt_pairs_add_yaml(&pairs, 0, "a", work->text, err);
    if (status == KVT_OK)
        status = kvt_pairs_add_yaml(&pairs, 1, "b", work->other, err);
    if (status == KVT_OK) {
        kvt_pairs_judge(&pairs);
        *digest = (uint64_t)pairs.count * 1000 + (uint64_t)pairs.different;
    }
    kvt_pairs_release(&pairs);
    return status;
}

static void configurations_tell_what_they_lack(void)
{
    const struct work rows[] = {
        {"a configuration", load_config, design_example, NULL, 3},
        {"a key explained", explain_key, "fleet.serve.parallel", NULL, 0},
        {"all keys", print_keys, NULL, NULL, 0},
        {"the reference page", print_reference, NULL, NULL, 0},
        {"two stored configurations", pair_yaml, design_example, "{model: m, run: [1, {a: 2}]}", 0},
    };
    each(rows, sizeof rows / sizeof *rows);
}

/* ---- traces and benchmarks ---- */

static enum kvt_status take_trace(struct kvt_trace *trace, uint64_t *digest, struct kvt_err *err)
{
    struct kvt_trace_stats stats;
    enum kvt_status status = kvt_trace_measure(trace, &stats, err);
    if (status == KVT_OK)
        add_bytes(digest, &stats, sizeof stats);
    kvt_trace_release(trace);
    return status;
}

static enum kvt_status read_trace(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_trace trace;
    KVT_TRY(kvt_trace_parse(&trace, "t", work->text, strlen(work->text), 1, err));
    return take_trace(&trace, digest, err);
}

static enum kvt_status generate_trace(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct kvt_lengths_spec fixed = {.mean = 40, .min = -1, .max = -1, .p99 = -1, .cv = -1};
    const struct kvt_trace_spec spec = {.seed = 7,
                                        .rate = 5,
                                        .requests = 20,
                                        .until = -1,
                                        .input = fixed,
                                        .output = fixed,
                                        .prefix_groups = 2,
                                        .prefix_tokens = 32,
                                        .prefix_share = 0.5,
                                        .block_tokens = 16};
    (void)context;
    struct kvt_trace trace;
    KVT_TRY(kvt_trace_generate(&trace, &spec, err));
    return take_trace(&trace, digest, err);
}

static enum kvt_status read_bench(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_bench_file file;
    char *text = strdup(work->text);
    if (text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a copy");
    enum kvt_status status = kvt_bench_file_parse(&file, "b.json", text, strlen(text), err);
    free(text);
    for (int32_t i = 0; status == KVT_OK && i < file.count; i++) {
        const struct kvt_bench_run *run = &file.runs[i];
        add_bytes(digest, run->input, (size_t)run->detailed * sizeof *run->input);
        add_bytes(digest, run->start, (size_t)run->detailed * sizeof *run->start);
        add_bytes(digest, run->tpot.seconds, (size_t)run->tpot.count * sizeof *run->tpot.seconds);
        add_bytes(digest, run->itl.seconds, (size_t)run->itl.count * sizeof *run->itl.seconds);
    }
    if (status == KVT_OK)
        kvt_bench_file_release(&file);
    return status;
}

static enum kvt_status read_table(const void *context, uint64_t *digest, struct kvt_err *err)
{
    const struct work *work = context;
    struct kvt_table table;
    KVT_TRY(kvt_table_read(&table, work->text, err));
    for (int32_t row = 0; row < table.row_count; row++)
        add_bytes(digest, kvt_table_field(&table, row, "b"), 1);
    kvt_table_free(&table);
    return KVT_OK;
}

static void tables_of_results_tell_what_they_lack(void)
{
    const char *path = check_temp("table.csv");
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs("a,b\n", file);
    for (int row = 0; row < 100; row++) /* the room for rows grows twice */
        fprintf(file, "%d,%d\n", row, row % 7);
    CHECK(fclose(file) == 0);
    const struct work work = {"a table of results", read_table, path, NULL, 0};
    each(&work, 1);
}

static void traces_and_benchmarks_tell_what_they_lack(void)
{
    const struct work rows[] = {
        {"every column", read_trace,
         "request_id,arrival_ns,input_tokens,output_tokens,tenant,hashes:2\n"
         "18446744073709551615,0,25,1,3,0|9|18446744073709551615|4|5|6|7|8|9|10|11|12|13\n"
         "7,0,1,1,0,0\n",
         NULL, 0},
        {"a row of Mooncake's", read_trace,
         "{\"timestamp\": 27, \"input_length\": 6000, \"output_length\": 7, \"hash_ids\": "
         "[1,2,3,4,5,6,7,8,9,10,11,12]}\n",
         NULL, 0},
        {"a trace by its description", generate_trace, NULL, NULL, 0},
        {"two results with details", read_bench,
         "{\"model_id\": \"m\", \"request_rate\": \"inf\", \"total_input_tokens\": 9, "
         "\"total_output_tokens\": 9, \"output_throughput\": 5, \"completed\": 2, \"input_lens\": "
         "[1, 2], \"output_lens\": [3, 1], \"start_times\": [5, 4], \"ttfts\": [1, 2], \"itls\": "
         "[[1, 1], []]}\n{\"request_rate\": 4.0, \"completed\": 1, \"total_input_tokens\": 1, "
         "\"total_output_tokens\": 1, \"input_throughput\": 3, \"output_throughput\": 1}\n",
         NULL, 0},
    };
    each(rows, sizeof rows / sizeof *rows);
}

const struct check_test check_scarce_files[] = {
    {"models and GPUs tell what they lack", models_and_gpus_tell_what_they_lack, false},
    {"configurations tell what they lack", configurations_tell_what_they_lack, false},
    {"tables of results tell what they lack", tables_of_results_tell_what_they_lack, false},
    {"traces and benchmarks tell what they lack", traces_and_benchmarks_tell_what_they_lack, false},
    {NULL, NULL, false},
};
