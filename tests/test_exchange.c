/* Results in other tools' formats: what we write we read; what llm-d's schema
 * knows and wants. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/output/bench_result.h"
#include "sim/output/exchange.h"
#include "sim/plan/simulate.h"
#include "tests/check.h"

static struct {
    struct kvt_config config;
    struct kvt_simulation simulation;
    struct kvt_arena arena;
    struct kvt_result result;
    struct kvt_summary summary;
} world;

static void world_begin(const char *path, const char *const sets[], int32_t set_count)
{
    struct kvt_err err = {0};
    struct kvt_simulate_options how = {.tokens = true, .planned = true};
    CHECK_OK(kvt_config_load(&world.config, path, sets, set_count, &err), err);
    CHECK_OK(kvt_simulation_init(&world.simulation, &world.config, &how, &err), err);
    CHECK_OK(kvt_simulation_run(&world.simulation, &how, &err), err);
    CHECK_OK(kvt_simulation_result(&world.simulation, &world.result, &err), err);
    CHECK_OK(kvt_arena_init(&world.arena, (size_t)8 << 20, &err), err);
    CHECK_OK(kvt_summary_init(&world.summary, &world.result, &world.arena, &err), err);
}

static void world_end(void)
{
    kvt_arena_release(&world.arena);
    kvt_simulation_release(&world.simulation);
    kvt_config_release(&world.config);
}

static char *written(enum kvt_exchange format)
{
    char *text = NULL;
    size_t bytes = 0;
    struct kvt_err err = {0};
    FILE *file = open_memstream(&text, &bytes);
    CHECK_OK(kvt_exchange_write(format, &world.summary, file, &err), err);
    fclose(file);
    return text;
}

static void check_read_back(enum kvt_exchange format, bool sglang)
{
    char *text = written(format);
    struct kvt_bench_file file;
    struct kvt_err err = {0};
    CHECK_OK(kvt_bench_file_parse(&file, "own.json", text, strlen(text), &err), err);
    free(text);
    if (file.count != 1)
        return;
    const struct kvt_bench_run *run = &file.runs[0];
    CHECK_NOTE(run->sglang == sglang, "whose format");
    CHECK_I64(run->completed, world.summary.counted.fates[KVT_FATE_COMPLETED], "");
    CHECK_I64(run->input_tokens, world.summary.input_tokens, "");
    CHECK_I64(run->output_tokens, world.summary.output_tokens, "");
    CHECK_I64(run->detailed, run->completed, "a row each");
    CHECK_I64(run->ttft.count, run->completed, "a TTFT each");
    CHECK_I64(run->e2el.count, run->completed, "a latency each");
    CHECK_I64(run->itl.count, run->output_tokens - run->completed, "a gap between any two tokens");
    double gaps = 0;
    for (int64_t i = 0; i < run->itl.count; i++)
        gaps += run->itl.seconds[i];
    CHECK_CLOSE(gaps,
                (double)world.summary.latencies[KVT_LATENCY_ITL].sum / (double)KVT_TICKS_PER_S,
                1e-7, "whose sum is that of all gaps");
    for (int m = 0; m < KVT_BENCH_METRIC_COUNT; m++) {
        const struct kvt_metric *metric =
            kvt_summary_find(&world.summary, kvt_bench_metric_names[m]);
        if (metric == NULL)
            CHECK_NOTE(false, kvt_bench_metric_names[m]);
        else
            CHECK_CLOSE(run->metric[m], metric->real, 1e-11, kvt_bench_metric_names[m]);
    }
    double sum = 0;
    for (int64_t i = 0; i < run->ttft.count; i++)
        sum += run->ttft.seconds[i];
    CHECK_CLOSE(sum / (double)run->ttft.count * 1e3, run->metric[KVT_BENCH_MEAN_TTFT], 1e-8,
                "the mean of the list is the mean");
    kvt_bench_file_release(&file);
}

static void what_we_write_we_read(void)
{
    world_begin("configs/examples/quickstart.yaml", NULL, 0);
    check_read_back(KVT_EXCHANGE_VLLM, false);
    check_read_back(KVT_EXCHANGE_SGLANG, true);
    char *text = written(KVT_EXCHANGE_VLLM);
    json_t *root = json_loads(text, 0, NULL);
    CHECK_NOTE(root != NULL, "strict JSON");
    CHECK_I64(json_integer_value(json_object_get(root, "failed")), 0, "");
    CHECK_I64((int64_t)json_array_size(json_object_get(root, "errors")), 600, "");
    json_decref(root);
    free(text);
    world_end();
}

static void a_closed_loop_is_an_infinite_rate(void)
{
    const char *const sets[] = {"workload.closed.requests=40", "workload.closed.concurrency=4"};
    world_begin("configs/published/kimi-k2.6-bf16-kv.yaml", sets, 2);
    char *vllm = written(KVT_EXCHANGE_VLLM), *sglang = written(KVT_EXCHANGE_SGLANG);
    CHECK_HOLDS(vllm, "\"request_rate\": \"inf\", \"max_concurrency\": 4,", "as vLLM writes it");
    CHECK_HOLDS(sglang, "\"request_rate\": Infinity, \"max_concurrency\": 4,", "as SGLang does");
    check_read_back(KVT_EXCHANGE_SGLANG, true);
    free(vllm);
    free(sglang);
    world_end();
}

/* ---- llm-d: the schema forbids keys that it does not know ---- */

/* Path and keys, those with a * are required. Arrays have [] at the end of their path. Read off the
 * tool's JSON schema of version 0.2.1 (llm-d-benchmark, ef9208a), less what a run never has. */
static const char *const schema[][2] = {
    {"", "version run* scenario results*"},
    {"run", "uid* eid cid pid time user description keywords"},
    {"scenario", "stack load"},
    {"scenario.stack[]", "metadata* standardized* native*"},
    {"scenario.stack[].metadata", "schema_version label* cfg_id* description"},
    {"scenario.stack[].standardized",
     "kind* tool* tool_version* role* replicas* model* accelerator*"},
    {"scenario.stack[].standardized.model", "name*"},
    {"scenario.stack[].standardized.accelerator", "model* count* parallelism*"},
    {"scenario.stack[].standardized.accelerator.parallelism", "tp dp dp_local workers ep pp"},
    {"scenario.stack[].native", "args envars config"},
    {"scenario.load", "metadata* standardized* native*"},
    {"scenario.load.metadata", "schema_version cfg_id description"},
    {"scenario.load.standardized", "tool* tool_version* parallelism source* stage input_seq_len* "
                                   "output_seq_len prefix multi_turn "
                                   "rate_qps concurrency"},
    {"scenario.load.standardized.input_seq_len", "distribution* value* std_dev min max"},
    {"scenario.load.standardized.output_seq_len", "distribution* value* std_dev min max"},
    {"scenario.load.native", "args envars config"},
    {"results", "request_performance session_performance observability "
                "profiling component_health"},
    {"results.request_performance", "aggregate time_series"},
    {"results.request_performance.aggregate", "requests latency throughput"},
    {"results.request_performance.aggregate.requests",
     "total* failures incomplete input_length output_length request_size "
     "multimodal"},
    {"results.request_performance.aggregate.latency",
     "time_to_first_token normalized_time_per_output_token "
     "time_per_output_token "
     "inter_token_latency request_latency"},
    {"results.request_performance.aggregate.throughput",
     "input_token_rate output_token_rate total_token_rate request_rate"},
    {"results.observability", "components drop_rate pod_startup_times replica_status"},
    {"results.observability.components[]",
     "component_label* replica_id aggregate time_series raw_data_path "
     "graph_path"},
    {"results.observability.components[].aggregate",
     "kv_cache_usage cache_hit_rate gpu_cache_usage gpu_memory_usage "
     "gpu_utilization "
     "running_requests waiting_requests swapped_requests preemptions"},
    {"results.component_health[]",
     "component_label* total_restarts failed_replicas replica_health"},
    {"results.component_health[].replica_health[]", "replica_id* restarts healthy logs"},
};

#define STATISTICS                                                                                 \
    "units* mean* mode stddev min p0p1 p1 p5 p10 p25 p50 p75 p90 p95 p99 p99p9 "                   \
    "max"

/* Units that the tool takes of a metric (its schema names them all, its code which go where). */
static void check_units(const char *path, const json_t *object)
{
    static const char *const rows[][2] = {
        {"time_to_first_token", "ms s"},
        {"request_latency", "ms s"},
        {"time_per_output_token", "ms/token"},
        {"inter_token_latency", "ms/token"},
        {"input_token_rate", "tokens/s"},
        {"output_token_rate", "tokens/s"},
        {"total_token_rate", "tokens/s"},
        {"request_rate", "queries/s"},
        {"input_length", "count"},
        {"output_length", "count"},
        {"kv_cache_usage", "fraction"},
        {"gpu_utilization", "fraction"},
        {"running_requests", "count"},
        {"waiting_requests", "count"},
        {"preemptions", "count"},
    };
    const char *name = strrchr(path, '.'),
               *units = json_string_value(json_object_get(object, "units"));
    for (size_t i = 0; name != NULL && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], name + 1) == 0)
            CHECK_NOTE(units != NULL && strstr(rows[i][1], units) != NULL, path);
    CHECK_NOTE(json_is_number(json_object_get(object, "mean")), path);
}

static const char *keys_of(const char *path, const json_t *object)
{
    for (size_t i = 0; i < sizeof schema / sizeof *schema; i++)
        if (strcmp(schema[i][0], path) == 0)
            return schema[i][1];
    return json_object_get(object, "units") != NULL ? STATISTICS : NULL;
}

/* Whether name stands in keys; with a * where required is set. */
static bool stands_in(const char *keys, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = strstr(keys, name); at != NULL; at = strstr(at + 1, name))
        if ((at == keys || at[-1] == ' ') && strchr(" *", at[bytes]) != NULL)
            return true; /* strchr finds the end of the text too */
    return false;
}

static void check_object(const char *path, json_t *value)
{
    char below[256];
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_array(value)) {
        snprintf(below, sizeof below, "%s[]", path);
        json_array_foreach(value, i, item)
        {
            check_object(below, item);
        }
    }
    if (!json_is_object(value))
        return;
    const char *keys = keys_of(path, value);
    if (json_object_get(value, "units") != NULL)
        check_units(path, value);
    CHECK_NOTE(keys != NULL, path);
    if (keys == NULL)
        return;
    json_object_foreach(value, key, item)
    {
        snprintf(below, sizeof below, "%.200s%s%.50s", path, path[0] != '\0' ? "." : "", key);
        CHECK_NOTE(stands_in(keys, key), below);
        check_object(below, item);
    }
    char name[64];
    for (const char *at = keys; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
        size_t bytes = strcspn(at, " *");
        snprintf(name, sizeof name, "%.*s", (int)bytes, at);
        if (at[bytes] == '*')
            CHECK_NOTE(json_object_get(value, name) != NULL, name);
    }
}

static void a_report_of_llm_d_keeps_to_its_schema(void)
{
    world_begin("configs/examples/mooncake-pd.yaml", NULL, 0);
    char *text = written(KVT_EXCHANGE_LLMD);
    json_t *root = json_loads(text, 0, NULL);
    CHECK_NOTE(root != NULL, "strict JSON");
    check_object("", root);
    const json_t *results = json_object_get(root, "results");
    CHECK_NOTE(json_object_get(results, "component_health") == NULL, "no faults, no health");
    CHECK_I64((int64_t)json_array_size(
                  json_object_get(json_object_get(results, "observability"), "components")),
              6, "a replica each");
    json_decref(root);
    free(text);
    world_end();
}

static void a_crash_shows_in_its_health(void)
{
    const char *const sets[] = {"fleet.decode.guard=none",
                                "faults.plan=[{fault: node-fault, variant: "
                                "crash, at: 20 s, replica: 1, delay: 10 s}]"};
    world_begin("configs/incidents/sglang-17259.yaml", sets, 2);
    char *text = written(KVT_EXCHANGE_LLMD);
    json_t *root = json_loads(text, 0, NULL);
    CHECK_NOTE(root != NULL, "strict JSON");
    check_object("", root);
    const json_t *health = json_object_get(json_object_get(root, "results"), "component_health");
    CHECK_I64((int64_t)json_array_size(health), 2, "prefill and decode");
    const json_t *decode = json_array_get(health, 1);
    CHECK_TEXT(json_string_value(json_object_get(decode, "component_label")), "decode", "");
    CHECK_I64(json_integer_value(json_object_get(decode, "total_restarts")), 1, "the crash");
    CHECK_I64(json_integer_value(json_object_get(decode, "failed_replicas")), 1, "");
    CHECK_I64(json_integer_value(json_object_get(json_array_get(health, 0), "total_restarts")), 0,
              "prefill went on");
    json_decref(root);
    free(text);
    world_end();
}

const struct check_test check_exchange[] = {
    {"what we write we read", what_we_write_we_read, false},
    {"a closed loop is an infinite rate", a_closed_loop_is_an_infinite_rate, false},
    {"a report of llm-d keeps to its schema", a_report_of_llm_d_keeps_to_its_schema, false},
    {"a crash shows in its health", a_crash_shows_in_its_health, false},
    {NULL, NULL, false},
};
