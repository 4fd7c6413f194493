/*
 * Every value of every kind of file, one at a time, made nonsense: what cannot be read is refused
 * with the file's name, and nothing else happens. (What a message says is the business of other
 * suites.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/config/config.h"
#include "sim/cost/calibration.h"
#include "sim/model/gpu.h"
#include "sim/model/model.h"
#include "sim/output/bench_result.h"
#include "tests/check.h"

#define NAME "made-up.file"

typedef enum kvt_status reader(char *text, struct kvt_err *err);

static enum kvt_status read_model(char *text, struct kvt_err *err)
{
    struct kvt_model model;
    return kvt_model_parse(&model, NAME, text, strlen(text), err);
}

static enum kvt_status read_import(char *text, struct kvt_err *err)
{
    struct kvt_model model;
    return kvt_model_import_text(&model, NAME, text, NULL, NULL, err);
}

static enum kvt_status read_gpu(char *text, struct kvt_err *err)
{
    struct kvt_gpu gpu;
    const char *path = check_temp(NAME);
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        return kvt_err_set(err, KVT_EIO, "%s: cannot write", path);
    enum kvt_status status = kvt_gpu_load(&gpu, path, 0, err);
    remove(path);
    return status;
}

static enum kvt_status read_calibration(char *text, struct kvt_err *err)
{
    struct kvt_gpu gpu;
    struct kvt_calibration calibration;
    CHECK_OK(kvt_gpu_load(&gpu, "h200-sxm", 0, err), *err);
    enum kvt_status status =
        kvt_calibration_parse(&calibration, NAME, text, strlen(text), &gpu, NULL, err);
    if (status == KVT_OK)
        kvt_calibration_release(&calibration);
    return status;
}

static enum kvt_status read_config(char *text, struct kvt_err *err)
{
    static struct kvt_config config;
    enum kvt_status status = kvt_config_parse(&config, NAME, text, strlen(text), ".", NULL, 0, err);
    if (status == KVT_OK)
        kvt_config_release(&config);
    return status;
}

static enum kvt_status read_bench(char *text, struct kvt_err *err)
{
    struct kvt_bench_file file;
    enum kvt_status status = kvt_bench_file_parse(&file, NAME, text, strlen(text), err);
    if (status == KVT_OK)
        kvt_bench_file_release(&file);
    return status;
}

/* ---- one value after the other ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* The first byte behind a value: a word, a quoted text, or a list or map with what it holds. */
static const char *value_end(const char *at)
{
    int depth = 0;
    bool quoted = false;
    for (; *at != '\0'; at++) {
        quoted = quoted != (*at == '"' && at[-1] != '\\');
        if (quoted)
            continue;
        bool closes = *at == '}' || *at == ']';
        if (depth == 0 && (closes || *at == ',' || *at == '\n'))
            return at;
        depth += (*at == '{' || *at == '[') - closes;
    }
    return at;
}

struct trial {
    reader *read;
    const char *what;
    int32_t tried, refused;
};

/* text with the bytes from begin to end replaced. */
static void try_one(struct trial *trial, const char *text, const char *begin, const char *end,
                    const char *nonsense)
{
    size_t bytes = strlen(text) + strlen(nonsense) + 1;
    char *bad = malloc(bytes);
    struct kvt_err err = {0};
    if (bad == NULL)
        return;
    snprintf(bad, bytes, "%.*s%s%s", (int)(begin - text), text, nonsense, end);
    enum kvt_status status = trial->read(bad, &err);
    trial->tried++;
    trial->refused += status != KVT_OK;
    if (status == KVT_OK)
        CHECK_I64(err.count, 0, trial->what);
    else {
        CHECK_NOTE(status == KVT_ECONFIG || status == KVT_ELIMIT, trial->what);
        CHECK_HOLDS(err.text, NAME, trial->what);
    }
    free(bad);
}

/* Each key's first value, and the key itself. */
static void try_all(struct trial *trial, const char *text, bool json)
{
    static const char *const yaml_words[] = {"{nonsense: 1}", "[nonsense]", "-7", "1e300",
                                             "no-such-word",  "\"\\x01\"",  "",   "17 furlongs"};
    static const char *const json_words[] = {"{}", "[\"nonsense\"]", "-7", "1e300",
                                             "\"no-such-word\""};
    const char *const *words = json ? json_words : yaml_words;
    size_t count =
        json ? sizeof json_words / sizeof *json_words : sizeof yaml_words / sizeof *yaml_words;
    char seen[4096] = " ";
    for (const char *colon = strstr(text, ": "); colon != NULL; colon = strstr(colon + 1, ": ")) {
        const char *key_end = json ? colon - 1 : colon, *key = key_end;
        while (key > text && is_word(key[-1]))
            key--;
        char name[80];
        snprintf(name, sizeof name, " %.*s ", (int)(key_end - key), key);
        if (key == key_end || strstr(seen, name) != NULL)
            continue;
        size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%s", name + 1);
        for (size_t i = 0; i < count; i++)
            try_one(trial, text, colon + 2, value_end(colon + 2), words[i]);
        try_one(trial, text, key, key + 1, "Zz");
    }
}

static void try_file(struct trial *trial, const char *path, bool json)
{
    struct kvt_text text;
    struct kvt_err err = {0};
    trial->what = path;
    CHECK_OK(kvt_text_read(path, 1 << 20, &text, &err), err);
    int32_t before = trial->tried;
    try_all(trial, text.bytes, json);
    CHECK_NOTE(trial->tried > before + 20, path);
    free(text.bytes);
}

/* Most nonsense in most files is refused; the rest is a value, or a text that may be anything. */
static void check_most(const struct trial *trial, int32_t percent)
{
    CHECK_NOTE(100 * (int64_t)trial->refused >= (int64_t)percent * trial->tried, trial->what);
}

static void try_folder(reader *read, const char *folder, const char *suffix, int32_t percent)
{
    char *files[100];
    int32_t count;
    struct kvt_err err = {0};
    struct trial trial = {.read = read};
    CHECK_OK(kvt_folder_files(folder, suffix, files, 100, &count, &err), err);
    CHECK(count > 0);
    for (int32_t i = 0; i < count; i++) {
        try_file(&trial, files[i], false);
        free(files[i]);
    }
    trial.what = folder;
    check_most(&trial, percent);
}

static void in_a_model(void)
{
    try_folder(read_model, "configs/models", ".yaml", 85);
}

static void in_a_gpu(void)
{
    try_folder(read_gpu, "configs/gpus", "200-sxm.yaml", 85);
}

static void in_a_calibration(void)
{
    try_folder(read_calibration, "configs/calibrations", "published-best.yaml", 60);
}

static void in_a_configuration(void)
{
    try_folder(read_config, "configs/examples", ".yaml", 85);
    try_folder(read_config, "configs/incidents", ".yaml", 85);
}

static void in_a_hugging_face_config(void)
{
    static const char *const files[] = {"deepseek-ai--DeepSeek-V3.2", "google--gemma-4-26B-A4B",
                                        "Qwen--Qwen3-30B-A3B", "openai--gpt-oss-120b",
                                        "nvidia--Llama-3_3-Nemotron-Super-49B-v1"};
    struct trial trial = {.read = read_import};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[128];
        snprintf(name, sizeof name, "hf-configs/%s_config.json", files[i]);
        const char *path = check_shared(name);
        if (path == NULL)
            return;
        try_file(&trial, path, true);
    }
    check_most(&trial, 10);
}

static void in_a_benchmark(void)
{
    static const char *const texts[] = {
        "{\"date\": \"20260701-120000\", \"backend\": \"vllm\", \"model_id\": \"org/model\", "
        "\"num_prompts\": 3, \"request_rate\": 2.5, \"burstiness\": 0.5, \"max_concurrency\": 4, "
        "\"duration\": 10.5, \"completed\": 2, \"failed\": 1, \"total_input_tokens\": 300, "
        "\"total_output_tokens\": 30, \"request_throughput\": 0.19, \"output_throughput\": 2.857, "
        "\"mean_ttft_ms\": 12.5, \"p99_tpot_ms\": 3.5, \"input_lens\": [200, 50, 100], "
        "\"output_lens\": [10, 0, 20], \"start_times\": [101.5, 100.0, 100.25], "
        "\"ttfts\": [0.1, 0, 0.2], \"itls\": [[0.1, 0.2], [], [0.3]], "
        "\"errors\": [\"\", \"x\", \"\"]}\n",
        "{\"backend\": \"sglang\", \"tag\": \"a\", \"dataset_name\": \"random\", "
        "\"request_rate\": 4, \"max_concurrency\": 16, \"completed\": 2, \"duration\": 1.5, "
        "\"total_input_tokens\": 64000, \"total_output_tokens\": 6400, \"random_input_len\": 1024, "
        "\"random_output_len\": 128, \"random_range_ratio\": 0.5, \"mean_e2e_latency_ms\": 12, "
        "\"median_ttft_ms\": 3, \"mean_itl_ms\": 2, \"concurrency\": 9.5, "
        "\"input_lens\": [5, 6], \"output_lens\": [7, 8], \"ttfts\": [0.1, 0.2], "
        "\"itls\": [[0.1], [0.2]], \"errors\": [\"\", \"\"], "
        "\"server_info\": {\"version\": \"0.5.5\", \"tp_size\": 8}}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct trial trial = {.read = read_bench, .what = texts[i]};
        try_all(&trial, texts[i], true);
        CHECK(trial.refused > 0);
    }
}

const struct check_test check_nonsense[] = {
    {"in a model", in_a_model, false},
    {"in a GPU", in_a_gpu, false},
    {"in a calibration", in_a_calibration, false},
    {"in a configuration", in_a_configuration, false},
    {"in a Hugging Face config", in_a_hugging_face_config, false},
    {"in a benchmark", in_a_benchmark, false},
    {0},
};
