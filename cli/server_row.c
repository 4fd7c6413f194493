/* The inputs that tables of start-up logs and of benchmarks have in common. */
#include "cli/server_row.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/base/units.h"

const char *kvt_server_field(const struct kvt_server_row *row, const char *column)
{
    return kvt_table_field(row->table, row->index, column);
}

bool kvt_server_refuse(struct kvt_server_row *row, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(row->reason, sizeof row->reason, format, list);
    va_end(list);
    return false;
}

void kvt_server_lower(const char *text, char *out, size_t bytes)
{
    size_t i = 0;
    for (; text[i] != '\0' && i + 1 < bytes; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    out[i] = '\0';
}

/* A count in a column; fallback where the field is empty. */
bool kvt_server_count(struct kvt_server_row *row, const char *column, int64_t fallback,
                      int64_t *value)
{
    const char *text = kvt_server_field(row, column);
    double number;
    *value = fallback;
    if (text[0] == '\0')
        return true;
    if (kvt_double_parse(text, &number, NULL) != KVT_OK || number < 1 || number > 1e9 ||
        floor(number) != number)
        return kvt_server_refuse(row, "%s is \"%.40s\", want a count", column, text);
    *value = (int64_t)number;
    return true;
}

/* ---- engines ---- */

/* The x of the first "0.x" in a version; 0 when there is none. */
static int32_t minor_version(const char *text)
{
    for (const char *at = strstr(text, "0."); at != NULL; at = strstr(at + 1, "0.")) {
        bool inside = at > text && (isdigit((unsigned char)at[-1]) || at[-1] == '.');
        if (!inside && isdigit((unsigned char)at[2]))
            return (int32_t)strtol(at + 2, NULL, 10);
    }
    return 0;
}

/* Months since January 2024 of the first "20yy-mm" (or "20yy") in a text; -1 without one. */
static int32_t month_of(const char *text)
{
    for (const char *at = strstr(text, "20"); at != NULL; at = strstr(at + 1, "20")) {
        if (!isdigit((unsigned char)at[2]) || !isdigit((unsigned char)at[3]) ||
            isdigit((unsigned char)at[4]))
            continue;
        int year = (at[2] - '0') * 10 + at[3] - '0', month = 1;
        if (at[4] == '-' && isdigit((unsigned char)at[5]) && isdigit((unsigned char)at[6]))
            month = (at[5] - '0') * 10 + at[6] - '0';
        return (year - 24) * 12 + month - 1;
    }
    return -1;
}

/* vLLM's minor version of a month, where only a date is known. */
static int32_t vllm_minor_of(int32_t month)
{
    static const struct {
        int32_t month, minor;
    } releases[] = {{0, 3},   {6, 5},   {8, 6},   {12, 7},  {14, 8},  {16, 9},
                    {18, 10}, {21, 11}, {23, 12}, {24, 14}, {25, 16}, {28, 20}};
    int32_t minor = 0;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        if (month >= releases[i].month)
            minor = releases[i].minor;
    return minor;
}

#define SGLANG_CHARGE_FIXED 31 /* August 2026, in months since January 2024 */

static bool read_engine(struct kvt_server_row *row)
{
    char engine[64];
    const char *version = kvt_server_field(row, "engine_version");
    kvt_server_lower(kvt_server_field(row, "engine"), engine, sizeof engine);
    engine[strcspn(engine, " (")] = '\0'; /* "vLLM (V1)" */
    struct kvt_memory_want *want = &row->want;
    want->fraction = -1;
    if (strcmp(engine, "vllm") == 0) {
        want->engine = KVT_ENGINE_VLLM;
        row->minor = minor_version(version);
        if (row->minor == 0)
            row->minor = vllm_minor_of(month_of(version));
        want->version = row->minor;
        return true;
    }
    want->engine = KVT_ENGINE_SGLANG;
    want->version = month_of(version) >= SGLANG_CHARGE_FIXED;
    if (strcmp(engine, "sglang") == 0)
        return true;
    if (strcmp(engine, "mini-sglang") == 0) { /* SGLang's rule, 0.9 when not told otherwise */
        want->fraction = 0.9;
        return true;
    }
    if (strcmp(engine, "tensorrt-llm") == 0 || strcmp(engine, "trtllm") == 0 ||
        strcmp(engine, "trt-llm") == 0) { /* 0.9 of what is free after the engine is loaded */
        want->fraction = 0.9;
        want->of_free = true;
        return true;
    }
    return kvt_server_refuse(row, "no memory formula for the engine \"%.60s\"",
                             kvt_server_field(row, "engine"));
}

/* ---- dtypes ---- */

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Set the dtype of the weights; a recipe that quantises every linear is told by its name. */
static void set_weights(struct kvt_server_row *row, enum kvt_weight_dtype dtype, bool all_linears)
{
    struct kvt_model *model = &row->model;
    bool fp8 = dtype == KVT_WEIGHTS_FP8_BLOCK;
    if (fp8 && (model->weights == KVT_WEIGHTS_FP8 || model->weights == KVT_WEIGHTS_FP8_BLOCK))
        return; /* the checkpoint's own */
    if (dtype == KVT_WEIGHTS_INT4_G128 && model->weights == KVT_WEIGHTS_INT4_G32)
        return;
    if (dtype == model->weights && !all_linears)
        return;
    kvt_model_quantise(model, dtype,
                       all_linears ? KVT_QUANT_LINEARS : kvt_model_scope(model, dtype));
}

static bool read_weights(struct kvt_server_row *row)
{
    char text[64];
    kvt_server_lower(kvt_server_field(row, "weight_dtype"), text, sizeof text);
    char name[128];
    kvt_server_lower(kvt_server_field(row, "model"), name, sizeof name);
    bool linears = has(text, "awq") || has(text, "gptq") || has(name, "awq") || has(name, "gptq");
    row->all_linears = linears;
    if (text[0] == '\0')
        return true; /* what the model's name says */
    if (has(text, "mxfp4"))
        set_weights(row, KVT_WEIGHTS_MXFP4, false);
    else if (has(text, "fp4"))
        set_weights(row, KVT_WEIGHTS_NVFP4, false);
    else if (has(text, "int4") || has(text, "w4a") || linears)
        set_weights(row, KVT_WEIGHTS_INT4_G128, linears);
    else if (has(text, "fp8") || has(text, "f8_e4m3") || has(text, "int8") || has(text, "w8a"))
        set_weights(row, KVT_WEIGHTS_FP8_BLOCK, false);
    else if (has(text, "bf16") || has(text, "fp16") || has(text, "bfloat16") ||
             has(text, "float16"))
        set_weights(row, KVT_WEIGHTS_BF16, false);
    else
        return kvt_server_refuse(row, "weight_dtype \"%.60s\" is not one that is known",
                                 kvt_server_field(row, "weight_dtype"));
    return true;
}

/* SGLang keeps the cache of sparse attention in fp8 on Blackwell, where nothing else is said. */
static bool is_fp8_by_default(const struct kvt_server_row *row, const char *text)
{
    const struct kvt_model *model = &row->model;
    bool blackwell = has(row->gpu.name, "b200") || has(row->gpu.name, "b300");
    return row->want.engine == KVT_ENGINE_SGLANG && blackwell &&
           (text[0] == '\0' || strcmp(text, "auto") == 0) && model->group_count > 0 &&
           model->groups[model->group_count - 1].attention.index_heads > 0;
}

static bool read_kv(struct kvt_server_row *row)
{
    static const struct {
        const char *text;
        enum kvt_kv_dtype dtype;
    } names[] = {
        {"", KVT_KV_BF16},          {"auto", KVT_KV_BF16},    {"not stated", KVT_KV_BF16},
        {"bf16", KVT_KV_BF16},      {"fp16", KVT_KV_BF16},    {"bfloat16", KVT_KV_BF16},
        {"float16", KVT_KV_BF16},   {"fp8", KVT_KV_FP8},      {"fp8_e4m3", KVT_KV_FP8},
        {"fp8_e5m2", KVT_KV_FP8},   {"fp8-e4m3", KVT_KV_FP8}, {"fp8_ds_mla", KVT_KV_FP8_SCALED},
        {"int8", KVT_KV_FP8_PLAIN}, {"nvfp4", KVT_KV_NVFP4},  {"fp4", KVT_KV_NVFP4},
        {"fp4_e2m1", KVT_KV_NVFP4},
    };
    char text[64];
    kvt_server_lower(kvt_server_field(row, "kv_dtype"), text, sizeof text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i].text) == 0) {
            row->want.kv = is_fp8_by_default(row, text) ? KVT_KV_FP8 : names[i].dtype;
            return true;
        }
    }
    return kvt_server_refuse(row, "kv_dtype \"%.60s\" is not one that is known",
                             kvt_server_field(row, "kv_dtype"));
}

/* ---- layout and the rest ---- */

/* --moe-a2a-backend=deepep, or the word alone. */
static bool is_dispatched(const struct kvt_server_row *row)
{
    const char *notes = kvt_server_field(row, "notes");
    for (; *notes != '\0'; notes++)
        if (strncasecmp(notes, "deepep", 6) == 0)
            return true;
    return false;
}

/* dp is ranks of attention inside the tp GPUs (SGLang), or whole replicas (n_gpus == tp * dp). */
static bool read_layout(struct kvt_server_row *row)
{
    int64_t gpus, tp, dp, ep, pp, dcp;
    if (!kvt_server_count(row, "n_gpus", 0, &gpus) || !kvt_server_count(row, "pp", 1, &pp) ||
        !kvt_server_count(row, "dp", 1, &dp) || !kvt_server_count(row, "ep", 1, &ep) ||
        !kvt_server_count(row, "dcp", 1, &dcp) || !kvt_server_count(row, "tp", 0, &tp))
        return false;
    if (tp == 0)
        tp = gpus > 0 ? gpus / pp : 1;
    bool replicas = gpus > 0 && dp > 1 && gpus == tp * dp * pp;
    bool inside = !replicas && tp % dp == 0;
    row->replicas = replicas ? (int32_t)dp : 1;
    if (dp > 1 && !replicas && !inside)
        return kvt_server_refuse(row, "dp %s fits neither tp nor n_gpus",
                                 kvt_server_field(row, "dp"));
    if (tp > 4096 || pp > 4096 || ep > 4096 || dcp > 4096)
        return kvt_server_refuse(row, "a layout of more than 4096 GPUs");
    /* vLLM's replicas of a data-parallel group share their experts. */
    if (replicas && row->want.engine == KVT_ENGINE_VLLM && ep == 1)
        ep = tp * dp;
    for (int32_t g = 0; g < row->model.group_count; g++) /* padded with copies, if more */
        if (row->model.groups[g].mlp.experts > 0 && ep > row->model.groups[g].mlp.experts)
            ep = row->model.groups[g].mlp.experts;
    row->moe_a2a = is_dispatched(row) && tp > 1 ? KVT_MOE_A2A_DEEPEP : KVT_MOE_A2A_NONE;
    if (row->moe_a2a == KVT_MOE_A2A_DEEPEP) /* which implies experts over all ranks */
        ep = tp;
    row->want.layout = (struct kvt_layout){.tp = (int32_t)tp,
                                           .pp = (int32_t)pp,
                                           .dp = inside ? (int32_t)dp : 1,
                                           .ep = (int32_t)ep,
                                           .dcp = (int32_t)dcp};
    struct kvt_err why = {0};
    struct kvt_where nowhere = {0};
    if (kvt_layout_check(&row->want.layout, &row->model, nowhere, &why) == KVT_OK)
        return true;
    return kvt_server_refuse(row, "%.150s", why.text);
}

static bool read_fraction(struct kvt_server_row *row)
{
    const char *text = kvt_server_field(row, "mem_fraction");
    if (text[0] == '\0')
        return true;
    if (kvt_double_parse(text, &row->want.fraction, NULL) == KVT_OK && row->want.fraction > 0 &&
        row->want.fraction <= 1)
        return true;
    return kvt_server_refuse(row, "mem_fraction is \"%.40s\", want more than 0 and at most 1",
                             text);
}

static bool read_shape(struct kvt_server_row *row)
{
    struct kvt_err why = {0};
    const char *model = kvt_server_field(row, "model");
    if (model[0] == '\0')
        return kvt_server_refuse(row, "no model is named");
    row->status = kvt_model_load(&row->model, model, &why);
    if (kvt_server_ends(row))
        return kvt_server_refuse(row, "%.150s", why.text);
    if (row->status != KVT_OK)
        return kvt_server_refuse(row, "the model \"%.80s\" is not one of configs/models", model);
    double memory = 0;
    const char *text = kvt_server_field(row, "gpu_mem_gb_nominal");
    if (text[0] == '\0')
        text = kvt_server_field(row, "gpu_mem_gb");
    if (text[0] != '\0' &&
        (kvt_double_parse(text, &memory, NULL) != KVT_OK || memory <= 0 || memory > 1e5))
        return kvt_server_refuse(row, "gpu_mem_gb_nominal is \"%.40s\", want gigabytes", text);
    row->status = kvt_gpu_known(&row->gpu, kvt_server_field(row, "gpu"), memory * 1e9, &why);
    if (row->status != KVT_OK)
        return kvt_server_refuse(row, "%.150s", why.text);
    if (row->gpu.memory_visible <= 0)
        return kvt_server_refuse(row, "the GPU \"%.80s\" is not known and no memory size is given",
                                 kvt_server_field(row, "gpu"));
    row->want.model = &row->model;
    row->want.gpu = &row->gpu;
    return true;
}

/* "", no, none, off, false or 0, in any case. */
static bool is_off(const char *text)
{
    char word[16];
    kvt_server_lower(text, word, sizeof word);
    return word[0] == '\0' || strcmp(word, "no") == 0 || strcmp(word, "none") == 0 ||
           strcmp(word, "off") == 0 || strcmp(word, "false") == 0 || strcmp(word, "0") == 0;
}

bool kvt_server_read(struct kvt_server_row *row)
{
    row->want.role = KVT_ROLE_SERVE;
    row->want.draft_tokens = is_off(kvt_server_field(row, "spec_decode")) ? 0 : 1;
    return read_engine(row) && read_shape(row) && read_weights(row) && read_kv(row) &&
           read_layout(row) && read_fraction(row) &&
           kvt_server_count(row, "page_or_block_tokens", 0, &row->want.page_tokens) &&
           kvt_server_count(row, "max_model_len", 0, &row->want.max_model_len);
}

bool kvt_server_ends(const struct kvt_server_row *row)
{
    return row->status != KVT_OK && row->status != KVT_ECONFIG;
}

double kvt_server_outcome(const struct kvt_server_row *row, const char *column)
{
    double value;
    const char *text = kvt_server_field(row, column);
    return text[0] != '\0' && kvt_double_parse(text, &value, NULL) == KVT_OK ? value : (double)NAN;
}
