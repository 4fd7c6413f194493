/*
 * exchange_llmd.c - llm-d-benchmark's report, version 0.2
 *
 * One component of the stack a role, one set of observations a replica.
 * Latencies in ms, fractions as fractions. The schema forbids keys that it does
 * not know.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/json.h"
#include "sim/output/exchange.h"
#include "sim/output/parts.h"

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* {units, mean}, of a value that is one number. */
static json_t *number(const char *units, double value)
{
    json_t *object = json_object();
    set(object, "units", json_string(units));
    set(object, "mean", kvt_json_real(value));
    return object;
}

static void set_metric(json_t *object, const char *key, const char *units,
                       const struct kvt_summary *summary, const char *name)
{
    const struct kvt_metric *metric = kvt_summary_find(summary, name);
    kvt_assert(metric != NULL);
    if (metric->has_value)
        set(object, key, number(units, metric->real));
}

static void set_latency(json_t *object, const char *key, const char *units,
                        const struct kvt_histogram *h)
{
    static const struct {
        const char *key;
        double share;
    } rows[] = {{"p0p1", 0.001}, {"p1", 0.01},  {"p5", 0.05},    {"p10", 0.1},
                {"p25", 0.25},   {"p50", 0.5},  {"p75", 0.75},   {"p90", 0.9},
                {"p95", 0.95},   {"p99", 0.99}, {"p99p9", 0.999}};
    double ms = (double)KVT_TICKS_PER_MS;
    if (h->count == 0)
        return;
    json_t *object_of = number(units, kvt_histogram_mean(h) / ms);
    set(object_of, "stddev", kvt_json_real(kvt_exchange_deviation(h) / ms));
    set(object_of, "min", kvt_json_real((double)h->min / ms));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        set(object_of, rows[i].key, kvt_json_real(kvt_histogram_quantile(h, rows[i].share) / ms));
    set(object_of, "max", kvt_json_real((double)h->max / ms));
    set(object, key, object_of);
}

/* Mean, least and most of a column of tokens over counted completed requests.
 */
struct tokens {
    double mean;
    int64_t count, least, most;
};

static struct tokens tokens_of(const struct kvt_result *r, const int32_t column[])
{
    struct tokens tokens = {.least = INT32_MAX};
    double sum = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        if (r->fate[row] != KVT_FATE_COMPLETED || r->arrival[row] < r->warmup)
            continue;
        tokens.count++;
        sum += column[row];
        tokens.least = column[row] < tokens.least ? column[row] : tokens.least;
        tokens.most = column[row] > tokens.most ? column[row] : tokens.most;
    }
    tokens.mean = tokens.count > 0 ? sum / (double)tokens.count : 0;
    return tokens;
}

static void set_tokens(json_t *object, const char *key, const struct kvt_result *r,
                       const int32_t column[])
{
    struct tokens tokens = tokens_of(r, column);
    if (tokens.count == 0)
        return;
    json_t *value = number("count", tokens.mean);
    set(value, "min", json_integer(tokens.least));
    set(value, "max", json_integer(tokens.most));
    set(object, key, value);
}

/* ---- results ---- */

static json_t *performance(const struct kvt_summary *summary)
{
    const struct kvt_result *r = summary->result;
    const int64_t *fates = summary->counted.fates;
    json_t *requests = json_object(), *latency = json_object(), *throughput = json_object();
    json_t *aggregate = json_object(), *root = json_object();
    set(requests, "total", json_integer(summary->counted.arrived));
    set(requests, "failures", json_integer(fates[KVT_FATE_REJECTED] + fates[KVT_FATE_ABORTED]));
    set(requests, "incomplete", json_integer(fates[KVT_FATE_RUNNING]));
    set_tokens(requests, "input_length", r, r->input);
    set_tokens(requests, "output_length", r, r->output);
    const struct kvt_histogram *h = summary->latencies;
    set_latency(latency, "time_to_first_token", "ms", &h[KVT_LATENCY_TTFT]);
    set_latency(latency, "time_per_output_token", "ms/token", &h[KVT_LATENCY_TPOT]);
    set_latency(latency, "inter_token_latency", "ms/token", &h[KVT_LATENCY_ITL]);
    set_latency(latency, "request_latency", "ms", &h[KVT_LATENCY_E2EL]);
    double duration = (double)summary->duration / (double)KVT_TICKS_PER_S;
    if (duration > 0)
        set(throughput, "input_token_rate",
            number("tokens/s", (double)summary->input_tokens / duration));
    set_metric(throughput, "output_token_rate", "tokens/s", summary, "output_throughput");
    set_metric(throughput, "total_token_rate", "tokens/s", summary, "total_token_throughput");
    set_metric(throughput, "request_rate", "queries/s", summary, "request_throughput");
    set(aggregate, "requests", requests);
    set(aggregate, "latency", latency);
    set(aggregate, "throughput", throughput);
    set(root, "aggregate", aggregate);
    return root;
}

/* Whether a replica belongs to a role: its name is the role's and a number. No role's name begins
 * another's. */
static bool is_of(const struct kvt_result_replica *replica, const struct kvt_result_role *role)
{
    return strncmp(replica->name, role->name, strlen(role->name)) == 0;
}

static json_t *observability(const struct kvt_result *r, const struct kvt_result_role *role)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < r->replica_count; i++) {
        const struct kvt_result_replica *replica = &r->replicas[i];
        if (!is_of(replica, role) || replica->series == NULL)
            continue;
        json_t *one = json_object(), *aggregate = json_object();
        double pages = (double)replica->pages;
        const struct kvt_series *series = replica->series;
        json_t *usage = number("fraction", kvt_series_mean_all(series, KVT_GAUGE_PAGES) / pages);
        set(usage, "max", kvt_json_real((double)replica->pages_peak / pages));
        set(aggregate, "kv_cache_usage", usage);
        set(aggregate, "running_requests",
            number("count", kvt_series_mean_all(series, KVT_GAUGE_RUNNING)));
        set(aggregate, "waiting_requests",
            number("count", kvt_series_mean_all(series, KVT_GAUGE_WAITING)));
        set(aggregate, "preemptions", number("count", (double)replica->preemptions));
        if (r->end > 0)
            set(aggregate, "gpu_utilization",
                number("fraction", (double)replica->busy / (double)r->end));
        set(one, "component_label", json_string(role->name));
        set(one, "replica_id", json_string(replica->name));
        set(one, "aggregate", aggregate);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *health(const struct kvt_result *r, const struct kvt_result_role *role)
{
    json_t *one = json_object(), *list = json_array();
    int64_t restarts = 0, failed = 0;
    for (int32_t i = 0; i < r->replica_count; i++) {
        const struct kvt_result_replica *replica = &r->replicas[i];
        if (!is_of(replica, role))
            continue;
        json_t *item = json_object();
        set(item, "replica_id", json_string(replica->name));
        set(item, "restarts", json_integer(replica->restarts));
        set(item, "healthy", json_boolean(!replica->is_down));
        json_array_append_new(list, item);
        restarts += replica->restarts;
        failed += replica->restarts > 0;
    }
    set(one, "component_label", json_string(role->name));
    set(one, "total_restarts", json_integer(restarts));
    set(one, "failed_replicas", json_integer(failed));
    set(one, "replica_health", list);
    return one;
}

/* ---- what was run ---- */

static json_t *component(const struct kvt_result *r, const struct kvt_result_role *role)
{
    char id[24];
    json_t *root = json_object(), *metadata = json_object(), *standard = json_object();
    json_t *model = json_object(), *gpu = json_object(), *layout = json_object();
    snprintf(id, sizeof id, "%016" PRIx64, r->digest);
    set(metadata, "label", json_string(role->name));
    set(metadata, "cfg_id", json_string(id));
    set(model, "name", kvt_json_text(r->model != NULL ? r->model : "unknown"));
    set(layout, "tp", json_integer(role->tp));
    set(layout, "dp", json_integer(role->dp));
    set(layout, "ep", json_integer(role->ep));
    set(layout, "pp", json_integer(role->pp));
    set(gpu, "model", json_string(role->gpu));
    set(gpu, "count", json_integer((json_int_t)role->gpus_per_replica));
    set(gpu, "parallelism", layout);
    set(standard, "kind", json_string("inference_engine"));
    set(standard, "tool", json_string("kvtwin"));
    set(standard, "tool_version", json_string(KVT_VERSION));
    set(standard, "role", json_string(strcmp(role->name, "serve") == 0 ? "replica" : role->name));
    set(standard, "replicas", json_integer(role->replicas));
    set(standard, "model", model);
    set(standard, "accelerator", gpu);
    set(root, "metadata", metadata);
    set(root, "standardized", standard);
    set(root, "native", json_object());
    return root;
}

static json_t *length(const struct kvt_result *r, const int32_t column[])
{
    struct tokens tokens = tokens_of(r, column);
    json_t *value = json_object();
    bool fixed = tokens.count > 0 && tokens.least == tokens.most;
    set(value, "distribution", json_string(fixed ? "fixed" : "other"));
    set(value, "value", kvt_json_real(tokens.mean));
    return value;
}

static json_t *load(const struct kvt_result *r)
{
    json_t *root = json_object(), *standard = json_object(), *native = json_object();
    double rate = kvt_exchange_rate(r);
    set(standard, "tool", json_string("kvtwin"));
    set(standard, "tool_version", json_string(KVT_VERSION));
    set(standard, "source", json_string("unknown"));
    set(standard, "input_seq_len", length(r, r->input));
    set(standard, "output_seq_len", length(r, r->output));
    if (rate > 0)
        set(standard, "rate_qps", kvt_json_real(rate));
    if (r->concurrency > 0)
        set(standard, "concurrency", json_integer(r->concurrency));
    set(native, "config", kvt_json_text(r->config != NULL ? r->config : ""));
    set(root, "metadata", json_object());
    set(root, "standardized", standard);
    set(root, "native", native);
    return root;
}

static json_t *results(const struct kvt_summary *summary)
{
    const struct kvt_result *r = summary->result;
    json_t *root = json_object(), *observed = json_object(), *components = json_array();
    json_t *healths = json_array();
    for (int32_t i = 0; i < r->role_count; i++) {
        json_t *one = observability(r, &r->roles[i]);
        json_array_extend(components, one);
        json_decref(one);
        json_array_append_new(healths, health(r, &r->roles[i]));
    }
    set(observed, "components", components);
    set(root, "request_performance", performance(summary));
    set(root, "observability", observed);
    if (r->strike_count > 0)
        set(root, "component_health", healths);
    else
        json_decref(healths);
    return root;
}

enum kvt_status kvt_exchange_llmd(const struct kvt_summary *summary, FILE *file,
                                  struct kvt_err *err)
{
    const struct kvt_result *r = summary->result;
    char id[24];
    json_t *root = json_object(), *run = json_object(), *scenario = json_object();
    json_t *stack = json_array();
    snprintf(id, sizeof id, "%016" PRIx64, r->digest);
    set(run, "uid", json_string(id));
    if (r->title != NULL)
        set(run, "description", kvt_json_text(r->title));
    for (int32_t i = 0; i < r->role_count; i++)
        json_array_append_new(stack, component(r, &r->roles[i]));
    set(scenario, "stack", stack);
    set(scenario, "load", load(r));
    set(root, "version", json_string("0.2.1"));
    set(root, "run", run);
    set(root, "scenario", scenario);
    set(root, "results", results(summary));
    return kvt_json_print(root, 12, file, err);
}
