/*
 * emit.c - a summary for programs: JSON and CSV
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/output/parts.h"

const char *kvt_percentile_print(double percentile, char *out, size_t size_bytes)
{
    if (percentile > 0)
        snprintf(out, size_bytes, "p%g", percentile * 100);
    else
        snprintf(out, size_bytes, "mean");
    return out;
}

const char *kvt_metric_print(const struct kvt_metric *metric, char *out, size_t size_bytes)
{
    if (!metric->has_value) {
        out[0] = '\0';
        return out;
    }
    switch (metric->kind) {
    case KVT_METRIC_COUNT:
        snprintf(out, size_bytes, "%" PRId64, metric->count);
        break;
    case KVT_METRIC_REAL:
        snprintf(out, size_bytes, "%.12g", metric->real);
        break;
    case KVT_METRIC_TEXT:
        snprintf(out, size_bytes, "%s", metric->text);
        break;
    case KVT_METRIC_TRUTH:
        snprintf(out, size_bytes, "%s", metric->count != 0 ? "true" : "false");
        break;
    }
    return out;
}

/* Rows that arrived, warm-up included. */
static int64_t rows_arrived(const struct kvt_result *result)
{
    int64_t arrived = 0;
    for (int64_t row = 0; row < result->rows; row++)
        arrived += result->fate[row] != KVT_FATE_PENDING;
    return arrived;
}

int32_t kvt_timing_list(const struct kvt_result *result, struct kvt_metric out[KVT_TIMINGS_MAX])
{
    const struct kvt_timing *timing = &result->timing;
    double engine_s = timing->engine_s > 0 ? timing->engine_s : 0;
    const struct {
        const char *name, *label, *unit;
        double real;
        bool has_value;
    } rows[] = {
        {"wall_s", "Wall time (s)", "s", timing->wall_s, timing->wall_s >= 0},
        {"read_s", "  reading config and trace (s)", "s", timing->read_s, timing->read_s >= 0},
        {"setup_s", "  setting up (s)", "s", timing->setup_s, timing->setup_s >= 0},
        {"engine_s", "  engine (s)", "s", timing->engine_s, timing->engine_s >= 0},
        {"write_s", "  writing results (s)", "s", timing->write_s, timing->write_s >= 0},
        {"events", "Events", "", (double)result->events, true},
        {"requests_per_s", "Requests per engine second", "1/s",
         engine_s > 0 ? (double)rows_arrived(result) / engine_s : 0, engine_s > 0},
        {"steps_per_s", "Steps per engine second", "1/s",
         engine_s > 0 ? (double)result->steps / engine_s : 0, engine_s > 0},
        {"ns_per_event", "Engine time per event (ns)", "ns",
         result->events > 0 ? engine_s * 1e9 / (double)result->events : 0,
         engine_s > 0 && result->events > 0},
    };
    int32_t count = 0;
    for (size_t i = 0; timing->show && i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].has_value)
            continue;
        bool is_count = strcmp(rows[i].name, "events") == 0;
        struct kvt_metric *metric = &out[count++];
        *metric = (struct kvt_metric){.label = rows[i].label,
                                      .unit = rows[i].unit,
                                      .kind = is_count ? KVT_METRIC_COUNT : KVT_METRIC_REAL,
                                      .has_value = true,
                                      .count = result->events,
                                      .real = rows[i].real};
        snprintf(metric->name, sizeof metric->name, "%s", rows[i].name);
        kvt_assert(count <= KVT_TIMINGS_MAX);
    }
    return count;
}

/* ---- JSON ---- */

json_t *kvt_json_text(const char *text)
{
    int before = errno;
    errno = 0;
    json_t *value = json_string(text);
    bool full = errno == ENOMEM;
    errno = full ? ENOMEM : before;
    if (value != NULL || full)
        return value;
    char ascii[256];
    snprintf(ascii, sizeof ascii, "%s", text);
    for (char *c = ascii; *c != '\0'; c++)
        *c = (unsigned char)*c < 128 ? *c : '?';
    return json_string(ascii);
}

json_t *kvt_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *metric_json(const struct kvt_metric *metric)
{
    if (!metric->has_value)
        return json_null();
    switch (metric->kind) {
    case KVT_METRIC_COUNT:
        return json_integer(metric->count);
    case KVT_METRIC_REAL:
        return json_real(metric->real);
    case KVT_METRIC_TEXT:
        return json_string(metric->text);
    case KVT_METRIC_TRUTH:
        return json_boolean(metric->count != 0);
    }
    kvt_unreachable();
}

/* Like json_object_set_new, but remembers a failure in *whole. */
static void put(json_t *object, const char *key, json_t *value, bool *whole)
{
    *whole = json_object_set_new(object, key, value) == 0 && *whole;
}

static void put_metric(json_t *object, const struct kvt_metric *metric, bool *whole)
{
    put(object, metric->name, metric_json(metric), whole);
    if (!metric->has_interval)
        return;
    char name[56];
    snprintf(name, sizeof name, "%s_low", metric->name);
    put(object, name, json_real(metric->low), whole);
    snprintf(name, sizeof name, "%s_high", metric->name);
    put(object, name, json_real(metric->high), whole);
}

static json_t *slo_json(const struct kvt_summary *s, bool *whole)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < s->result->slo_count; i++) {
        const struct kvt_slo_bound *bound = &s->result->slo[i];
        bool judged = s->latencies[bound->latency].count > 0;
        char percentile[16];
        json_t *row = json_object();
        put(row, "metric", json_string(kvt_latency_keys[bound->latency]), whole);
        kvt_percentile_print(bound->percentile, percentile, sizeof percentile);
        put(row, "percentile", json_string(percentile), whole);
        put(row, "target_ms", json_real((double)bound->limit / (double)KVT_TICKS_PER_MS), whole);
        put(row, "value_ms", judged ? json_real(s->slo_value_ms[i]) : json_null(), whole);
        char name[48];
        snprintf(name, sizeof name, "slo_%s_%s_ms", kvt_latency_keys[bound->latency], percentile);
        const struct kvt_metric *value = kvt_summary_find(s, name);
        if (value != NULL && value->has_interval) {
            put(row, "value_ms_low", json_real(value->low), whole);
            put(row, "value_ms_high", json_real(value->high), whole);
        }
        put(row, "met", json_boolean(s->slo_met[i]), whole);
        *whole = json_array_append_new(list, row) == 0 && *whole;
    }
    return list;
}

static json_t *tenants_json(const struct kvt_summary *s, bool *whole)
{
    json_t *list = json_array();
    for (int32_t t = 0; t < s->result->tenants; t++) {
        json_t *row = json_object();
        put(row, "arrived", json_integer(s->tenants[t].arrived), whole);
        for (int32_t f = KVT_FATE_RUNNING; f < KVT_FATE_COUNT; f++)
            put(row, kvt_fate_names[f], json_integer(s->tenants[t].fates[f]), whole);
        *whole = json_array_append_new(list, row) == 0 && *whole;
    }
    return list;
}

static json_t *replicas_json(const struct kvt_result *r, bool *whole)
{
    static const char *const gauges[KVT_GAUGE_COUNT] = {"mean_running", "mean_waiting",
                                                        "mean_pages"};
    json_t *list = json_array();
    for (int32_t i = 0; i < r->replica_count; i++) {
        const struct kvt_result_replica *replica = &r->replicas[i];
        json_t *row = json_object();
        put(row, "name", kvt_json_text(replica->name), whole);
        double busy = r->end > 0 ? (double)replica->busy / (double)r->end : 0;
        put(row, "busy_fraction", json_real(busy), whole);
        for (int32_t g = 0; replica->series != NULL && g < KVT_GAUGE_COUNT; g++)
            put(row, gauges[g], json_real(kvt_series_mean_all(replica->series, (enum kvt_gauge)g)),
                whole);
        put(row, "pages", json_integer(replica->pages), whole);
        put(row, "pages_peak", json_integer(replica->pages_peak), whole);
        put(row, "steps", json_integer(replica->steps), whole);
        put(row, "preemptions", json_integer(replica->preemptions), whole);
        put(row, "evictions", json_integer(replica->evictions), whole);
        *whole = json_array_append_new(list, row) == 0 && *whole;
    }
    return list;
}

enum kvt_status kvt_summary_json(const struct kvt_summary *summary, FILE *file, struct kvt_err *err)
{
    const struct kvt_result *r = summary->result;
    bool whole = true;
    json_t *object = json_object();
    for (int32_t i = 0; i < summary->metric_count; i++)
        if (!summary->metrics[i].columns_only)
            put_metric(object, &summary->metrics[i], &whole);
    if (r->title != NULL)
        put(object, "title", kvt_json_text(r->title), &whole);
    if (r->model != NULL)
        put(object, "model", kvt_json_text(r->model), &whole);
    if (r->fleet != NULL)
        put(object, "fleet", kvt_json_text(r->fleet), &whole);
    if (r->slo_count > 0)
        put(object, "slo", slo_json(summary, &whole), &whole);
    if (r->tenants > 1)
        put(object, "tenants", tenants_json(summary, &whole), &whole);
    if (r->replica_count > 0)
        put(object, "replicas", replicas_json(r, &whole), &whole);
    if (r->timing.show) {
        struct kvt_metric timings[KVT_TIMINGS_MAX];
        int32_t count = kvt_timing_list(r, timings);
        json_t *timing = json_object();
        for (int32_t i = 0; i < count; i++)
            put_metric(timing, &timings[i], &whole);
        put(object, "timing", timing, &whole);
    }
    /* A failing write leaves the stream's error flag set; whoever owns the stream looks. */
    if (whole)
        (void)json_dumpf(object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    fputc('\n', file);
    json_decref(object);
    return whole ? KVT_OK : kvt_err_set(err, KVT_ENOMEM, "no memory for the JSON output");
}

/* ---- CSV ---- */

static void csv_line(const struct kvt_metric metrics[], int32_t count, bool header, bool *begun,
                     FILE *file)
{
    char value[64];
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_metric *metric = &metrics[i];
        const char *comma = *begun ? "," : "";
        *begun = true;
        fprintf(file, "%s%s", comma,
                header ? metric->name : kvt_metric_print(metric, value, sizeof value));
        if (metric->has_interval && header)
            fprintf(file, ",%s_low,%s_high", metric->name, metric->name);
        else if (metric->has_interval)
            fprintf(file, ",%.12g,%.12g", metric->low, metric->high);
    }
}

enum kvt_status kvt_summary_csv(const struct kvt_summary *summary, FILE *file, struct kvt_err *err)
{
    (void)err; /* the same shape as the other formats */
    struct kvt_metric timings[KVT_TIMINGS_MAX];
    int32_t count = kvt_timing_list(summary->result, timings);
    for (int line = 0; line < 2; line++) {
        bool begun = false, header = line == 0;
        csv_line(summary->metrics, summary->metric_count, header, &begun, file);
        csv_line(timings, count, header, &begun, file);
        fputc('\n', file);
    }
    return KVT_OK;
}
