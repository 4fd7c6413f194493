#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/reproduce.h"
#include "sim/base/file.h"
#include "sim/serve/memory.h"
#include "tests/check.h"

#define GIB 1073741824.0

struct plan {
    struct kvt_model model;
    struct kvt_gpu gpu;
    struct kvt_memory_want want;
    struct kvt_memory memory;
};

static void prepare(struct plan *plan, const char *model, const char *gpu, int32_t tp)
{
    struct kvt_err err = {0};
    *plan = (struct plan){0};
    CHECK_OK(kvt_model_load(&plan->model, model, &err), err);
    CHECK_OK(kvt_gpu_load(&plan->gpu, gpu, -1, &err), err);
    plan->want = (struct kvt_memory_want){.model = &plan->model,
                                          .gpu = &plan->gpu,
                                          .role = KVT_ROLE_DECODE,
                                          .layout = {tp, 1, 1, 1, 1},
                                          .fraction = -1,
                                          .page_tokens = 64};
}

static void published_capacities_are_met(void)
{
    static const struct {
        const char *model;
        enum kvt_kv_dtype kv;
        int64_t draft;
        double tokens;
    } rows[] = {
        {"kimi-k2.6", KVT_KV_BF16, 0, 686e3},
        {"kimi-k2.6", KVT_KV_FP8, 0, 1.37e6},
        {"glm-5.2", KVT_KV_FP8, 1, 1.18e6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct plan plan;
        struct kvt_err err = {0};
        prepare(&plan, rows[i].model, "h200-sxm", 8);
        plan.want.weights_set = true;
        plan.want.weights = KVT_WEIGHTS_INT4_G32;
        plan.want.kv = rows[i].kv;
        plan.want.draft_tokens = rows[i].draft;
        plan.want.fraction = 0.84;
        CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
        CHECK_CLOSE((double)plan.memory.kv_tokens, rows[i].tokens, 0.01, rows[i].model);
    }
}

/* vLLM 0.9 logged 46.80 GiB and 715,072 tokens for Kimi K2 on TP8: floor to blocks of 64. With DCP
 * 8 a block spans eight GPUs and the figure is eight times that. */
static void tokens_are_floored_to_pages_as_logged(void)
{
    for (int32_t dcp = 1; dcp <= 8; dcp *= 8) {
        struct plan plan;
        struct kvt_err err = {0};
        prepare(&plan, "kimi-k2-thinking", "h200-sxm", 8);
        plan.want.engine = KVT_ENGINE_VLLM;
        plan.want.kv = KVT_KV_BF16;
        plan.want.fraction = 1;
        plan.want.layout.dcp = dcp;
        CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
        /* Take away what is above the logged pool (with its half digit); the rest is arithmetic. */
        plan.want.reserve_bytes = (double)plan.memory.budget_bytes - 46.80 * GIB;
        CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
        CHECK_I64(plan.memory.kv_tokens, INT64_C(715072) * dcp, "tokens");
        CHECK_I64(plan.memory.page_tokens, 64 * dcp, "a page spans the dcp GPUs");
    }
}

static void the_ledger_sums_to_the_device_memory(void)
{
    static const char *const models[] = {"kimi-k2.6",    "glm-5.2",      "deepseek-v3",
                                         "llama-3.1-8b", "gpt-oss-120b", "qwen3-0.6b"};
    static const char *const gpus[] = {"h100-sxm", "h200-sxm", "b200-sxm", "rtx-3090"};
    int32_t planned = 0, refused = 0;
    for (size_t m = 0; m < 6; m++) {
        for (size_t g = 0; g < 4; g++) {
            for (int k = 0; k < KVT_KV_DTYPE_COUNT * KVT_ENGINE_COUNT * 2; k++) {
                struct plan plan;
                struct kvt_err err = {0};
                prepare(&plan, models[m], gpus[g], 8);
                plan.want.kv = (enum kvt_kv_dtype)(k % KVT_KV_DTYPE_COUNT);
                plan.want.engine = (enum kvt_engine)(k / KVT_KV_DTYPE_COUNT % KVT_ENGINE_COUNT);
                plan.want.draft_tokens = k / (KVT_KV_DTYPE_COUNT * KVT_ENGINE_COUNT);
                plan.want.guard_page_bytes = 20;
                if (kvt_memory_plan(&plan.want, &plan.memory, &err) == KVT_OK) {
                    CHECK(kvt_memory_is_balanced(&plan.memory));
                    CHECK(plan.memory.kv_pages > 0);
                    planned++;
                } else {
                    CHECK_I64(err.status, KVT_ECONFIG, err.text);
                    refused++;
                }
            }
        }
    }
    CHECK(planned > 200);
    CHECK(refused > 50);
}

static void what_does_not_fit_says_by_how_much_and_what_would(void)
{
    struct plan plan;
    struct kvt_err err = {0};
    prepare(&plan, "kimi-k2.6", "h100-sxm", 8);
    plan.want.fraction = 0.84;
    plan.want.where = (struct kvt_where){.file = "c.yaml", .line = 7, .column = 3};
    CHECK_FAILS(kvt_memory_plan(&plan.want, &plan.memory, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "c.yaml:7:3: kimi-k2.6 does not fit on h100-sxm", "who and where");
    CHECK_HOLDS(err.text, "lacks ", "by how much");
    CHECK_HOLDS(err.text, "memory.fraction 0.93", "a fraction");
    CHECK_HOLDS(err.text, "parallel.tp 16", "a TP");
    CHECK_I64(plan.memory.kv_pages, 0, "the ledger is filled, without pages");
    CHECK(plan.memory.budget_bytes < 0);
    struct kvt_err other = {0};
    prepare(&plan, "deepseek-v3", "rtx-3090", 1);
    CHECK_FAILS(kvt_memory_plan(&plan.want, &plan.memory, &other), other, KVT_ECONFIG);
    CHECK_HOLDS(other.text, "lacks ", "by how much");
}

static void the_old_charge_overdraws_the_budget(void)
{
    struct plan plan;
    struct kvt_err err = {0};
    prepare(&plan, "deepseek-v3.2", "h200-sxm", 8);
    plan.want.kv = KVT_KV_FP8;
    plan.want.fraction = 0.85;
    CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
    CHECK_CLOSE((double)plan.memory.kv_pool_bytes / (double)plan.memory.budget_bytes, 788.0 / 708,
                0.001, "stored over charged");
    int64_t old = plan.memory.kv_tokens;
    plan.want.version = 1; /* fixed */
    CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
    CHECK(plan.memory.kv_pool_bytes <= plan.memory.budget_bytes);
    CHECK_CLOSE((double)old / (double)plan.memory.kv_tokens, 788.0 / 708, 0.001, "tokens");
}

static void the_default_fraction_is_that_of_the_server(void)
{
    struct plan plan;
    prepare(&plan, "glm-5.2", "h200-sxm", 8);
    CHECK_CLOSE(kvt_sglang_default_fraction(&plan.want), 0.929, 1e-9, "H200, decode, TP8");
    prepare(&plan, "kimi-k2.6", "h200-sxm", 8);
    CHECK_CLOSE(kvt_sglang_default_fraction(&plan.want), 0.929 * 0.95, 1e-9, "with vision");
}

static void pages_reserve_and_guards_change_the_pool_as_they_should(void)
{
    struct plan plan;
    struct kvt_err err = {0};
    prepare(&plan, "llama-3.1-8b", "h100-sxm", 1);
    plan.want.engine = KVT_ENGINE_VLLM;
    plan.want.kv = KVT_KV_BF16;
    CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
    int64_t pages = plan.memory.kv_pages;
    plan.want.guard_page_bytes = 20;
    CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
    CHECK_I64(plan.memory.ledger[KVT_LEDGER_TAGS], plan.memory.kv_pages * 20, "20 B a page");
    CHECK(plan.memory.kv_pages <= pages && plan.memory.kv_pages >= pages - 1);
    plan.want.reserve_bytes = 10 * GIB;
    CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
    CHECK_CLOSE((double)(pages - plan.memory.kv_pages), 10 * GIB / (64 * 131072), 0.01, "10 GiB");
    plan.want.pages = 17;
    CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
    CHECK_I64(plan.memory.kv_pages, 17, "as told");
    CHECK_I64(plan.memory.kv_tokens, 17 * 64, "tokens");
    CHECK_I64(kvt_memory_requests(&plan.memory, 65), 8, "two pages each");
    CHECK(kvt_memory_is_balanced(&plan.memory));
}

static void attention_ranks_have_pools_of_their_own(void)
{
    struct plan plan;
    struct kvt_err err = {0};
    prepare(&plan, "deepseek-v3", "h200-sxm", 8);
    plan.want.kv = KVT_KV_BF16;
    plan.want.layout.dp = 8;
    CHECK_OK(kvt_memory_plan(&plan.want, &plan.memory, &err), err);
    CHECK_I64(plan.memory.replica_kv_tokens, 8 * plan.memory.kv_tokens, "eight ranks");
    CHECK_I64(plan.memory.gpus_per_replica, 8, "on eight GPUs");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[], int32_t count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Of rows of one engine that state their fraction. */
static double pool_median(const struct kvt_reproduced_list *list, const char *group)
{
    double values[256];
    int32_t count = 0;
    for (int32_t i = 0; i < list->count && count < 256; i++)
        if (list->rows[i].supported && strcmp(list->rows[i].group, group) == 0 &&
            !isnan(list->rows[i].pool_error))
            values[count++] = fabs(list->rows[i].pool_error);
    CHECK(count >= 5);
    return count == 0 ? 1 : median(values, count);
}

static void real_servers_had_what_is_predicted(void)
{
    const char *path = check_shared("truth/capacity.csv");
    struct kvt_reproduced_list list = {0};
    struct kvt_err err = {0};
    struct kvt_table table;
    if (path == NULL)
        return;
    CHECK_OK(kvt_table_read(&table, path, &err), err);
    CHECK_OK(kvt_reproduce_capacity(path, &list, &err), err);
    int32_t supported = 0, compared = 0;
    for (int32_t i = 0; i < list.count; i++) {
        const struct kvt_reproduced *row = &list.rows[i];
        if (strcmp(row->metric, "bytes_per_token_per_gpu") != 0)
            continue;
        supported += row->supported;
        for (int32_t r = 0; r < table.row_count; r++) {
            double agreement = strtod(kvt_table_field(&table, r, "obs_over_exp"), NULL);
            if (strcmp(kvt_table_field(&table, r, "row_id"), row->row) != 0 || !row->supported ||
                fabs(agreement - 1) > 0.005)
                continue;
            CHECK_CLOSE(row->predicted, row->observed, 0.005, row->row);
            compared++;
        }
    }
    CHECK(supported >= 20);
    CHECK(compared >= 10);
    CHECK(pool_median(&list, "sglang") <= 0.01);
    CHECK(pool_median(&list, "vllm") <= 0.03);
    kvt_reproduced_free(&list);
    kvt_table_free(&table);
}

#define TABLE check_temp("table.csv")

static void write_table(const char *text)
{
    struct kvt_err err = {0};
    CHECK_OK(kvt_file_write(TABLE, text, strlen(text), &err), err);
}

/* A table without its outcome columns gets the same predictions. */
static void outcomes_are_not_inputs(void)
{
    static const char head[] = "row_id,engine,engine_version,model,gpu,gpu_mem_gb_nominal,n_gpus,"
                               "tp,weight_dtype,kv_dtype,mem_fraction";
    static const char row[] = "a,vLLM,0.11.0,gpt-oss-20b,H100,80,1,1,MXFP4,bf16,0.9";
    char text[512];
    struct kvt_reproduced_list a = {0}, b = {0};
    struct kvt_err err = {0};
    snprintf(text, sizeof text, "%s,kv_gib_per_gpu,weights_gib_per_gpu,notes\n%s,50.28,13.47,x\n",
             head, row);
    write_table(text);
    CHECK_OK(kvt_reproduce_capacity(TABLE, &a, &err), err);
    snprintf(text, sizeof text, "%s\n%s\n", head, row);
    write_table(text);
    CHECK_OK(kvt_reproduce_capacity(TABLE, &b, &err), err);
    remove(TABLE);
    CHECK_I64(a.count, 4, "bytes, weights, pool, tokens");
    CHECK_I64(b.count, 4, "the same rows");
    for (int32_t i = 0; i < a.count && i < b.count; i++)
        CHECK_CLOSE(b.rows[i].predicted, a.rows[i].predicted, 1e-15, a.rows[i].metric);
    CHECK_CLOSE(a.rows[2].observed, 50.28, 1e-12, "shown beside");
    CHECK(isnan(b.rows[2].observed));
    kvt_reproduced_free(&a);
    kvt_reproduced_free(&b);
}

static void a_wrong_table_is_named_with_its_place(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "an empty file"},
        {"row_id,engine,model\na,vLLM,x\n", ":1: want a column \"gpu\""},
        {"row_id,engine,model,gpu\na,vLLM,x\n", ":2: want 4 fields as in the header, got 3"},
        {"row_id,engine,model,gpu,gpu\n", ":1: the column \"gpu\" is there twice"},
        {"row_id,engine,model,gpu\na,vLLM,\"x,y\n", ":2: bad CSV: a quoted field does not end"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_reproduced_list list = {0};
        struct kvt_err err = {0};
        write_table(rows[i].text);
        CHECK_FAILS(kvt_reproduce_capacity(TABLE, &list, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].text);
        kvt_reproduced_free(&list);
    }
    remove(TABLE);
}

const struct check_test check_memory[] = {
    {"outcomes are not inputs", outcomes_are_not_inputs, false},
    {"a wrong table is named with its place", a_wrong_table_is_named_with_its_place, false},
    {"published capacities are met", published_capacities_are_met, false},
    {"tokens are floored to pages as logged", tokens_are_floored_to_pages_as_logged, false},
    {"the ledger sums to the device memory", the_ledger_sums_to_the_device_memory, false},
    {"what does not fit says by how much and what would",
     what_does_not_fit_says_by_how_much_and_what_would, false},
    {"the old charge overdraws the budget", the_old_charge_overdraws_the_budget, false},
    {"the default fraction is that of the server", the_default_fraction_is_that_of_the_server,
     false},
    {"pages, reserve and guards change the pool as they should",
     pages_reserve_and_guards_change_the_pool_as_they_should, false},
    {"attention ranks have pools of their own", attention_ranks_have_pools_of_their_own, false},
    {"real servers had what is predicted", real_servers_had_what_is_predicted, false},
    {0},
};
