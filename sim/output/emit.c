/*
 * emit.c - a summary for programs: JSON and CSV
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/json.h"
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

static json_t *metric_json(const struct kvt_metric *metric)
{
    if (!metric->has_value)
        return json_null();
    switch (metric->kind) {
    case KVT_METRIC_COUNT:
        return json_integer(metric->count);
    case KVT_METRIC_REAL:
        return kvt_json_real(metric->real);
    case KVT_METRIC_TEXT:
        return kvt_json_text(metric->text);
    case KVT_METRIC_TRUTH:
        return json_boolean(metric->count != 0);
    }
    kvt_unreachable();
}

static void put_metric(json_t *object, const struct kvt_metric *metric)
{
    json_object_set_new(object, metric->name, metric_json(metric));
    if (!metric->has_interval)
        return;
    char name[56];
    snprintf(name, sizeof name, "%s_low", metric->name);
    json_object_set_new(object, name, kvt_json_real(metric->low));
    snprintf(name, sizeof name, "%s_high", metric->name);
    json_object_set_new(object, name, kvt_json_real(metric->high));
}

static json_t *slo_json(const struct kvt_summary *s)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < s->result->slo_count; i++) {
        const struct kvt_slo_bound *bound = &s->result->slo[i];
        bool judged = s->latencies[bound->latency].count > 0;
        char percentile[16];
        json_t *row = json_object();
        json_object_set_new(row, "metric", json_string(kvt_latency_keys[bound->latency]));
        kvt_percentile_print(bound->percentile, percentile, sizeof percentile);
        json_object_set_new(row, "percentile", json_string(percentile));
        json_object_set_new(row, "target_ms",
                            kvt_json_real((double)bound->limit / (double)KVT_TICKS_PER_MS));
        json_object_set_new(row, "value_ms",
                            judged ? kvt_json_real(s->slo_value_ms[i]) : json_null());
        char name[48];
        snprintf(name, sizeof name, "slo_%s_%s_ms", kvt_latency_keys[bound->latency], percentile);
        const struct kvt_metric *value = kvt_summary_find(s, name);
        kvt_assert(value != NULL);
        if (value->has_interval) {
            json_object_set_new(row, "value_ms_low", kvt_json_real(value->low));
            json_object_set_new(row, "value_ms_high", kvt_json_real(value->high));
        }
        json_object_set_new(row, "met", json_boolean(s->slo_met[i]));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *tenants_json(const struct kvt_summary *s)
{
    json_t *list = json_array();
    for (int32_t t = 0; t < s->result->tenants; t++) {
        json_t *row = json_object();
        json_object_set_new(row, "arrived", json_integer(s->tenants[t].arrived));
        for (int32_t f = KVT_FATE_RUNNING; f < KVT_FATE_COUNT; f++)
            json_object_set_new(row, kvt_fate_names[f], json_integer(s->tenants[t].fates[f]));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *replicas_json(const struct kvt_result *r)
{
    static const char *const gauges[KVT_GAUGE_COUNT] = {"mean_running", "mean_waiting",
                                                        "mean_pages"};
    json_t *list = json_array();
    for (int32_t i = 0; i < r->replica_count; i++) {
        const struct kvt_result_replica *replica = &r->replicas[i];
        json_t *row = json_object();
        json_object_set_new(row, "name", kvt_json_text(replica->name));
        double busy = r->end > 0 ? (double)replica->busy / (double)r->end : 0;
        json_object_set_new(row, "busy_fraction", kvt_json_real(busy));
        for (int32_t g = 0; replica->series != NULL && g < KVT_GAUGE_COUNT; g++)
            json_object_set_new(
                row, gauges[g],
                kvt_json_real(kvt_series_mean_all(replica->series, (enum kvt_gauge)g)));
        json_object_set_new(row, "pages", json_integer(replica->pages));
        json_object_set_new(row, "pages_peak", json_integer(replica->pages_peak));
        json_object_set_new(row, "steps", json_integer(replica->steps));
        json_object_set_new(row, "preemptions", json_integer(replica->preemptions));
        json_object_set_new(row, "evictions", json_integer(replica->evictions));
        json_array_append_new(list, row);
    }
    return list;
}

enum kvt_status kvt_summary_json(const struct kvt_summary *summary, FILE *file, struct kvt_err *err)
{
    const struct kvt_result *r = summary->result;
    kvt_json_begin();
    json_t *object = json_object();
    for (int32_t i = 0; i < summary->metric_count; i++)
        if (!summary->metrics[i].columns_only)
            put_metric(object, &summary->metrics[i]);
    if (r->title != NULL)
        json_object_set_new(object, "title", kvt_json_text(r->title));
    if (r->model != NULL)
        json_object_set_new(object, "model", kvt_json_text(r->model));
    if (r->fleet != NULL)
        json_object_set_new(object, "fleet", kvt_json_text(r->fleet));
    if (r->slo_count > 0)
        json_object_set_new(object, "slo", slo_json(summary));
    if (r->tenants > 1)
        json_object_set_new(object, "tenants", tenants_json(summary));
    json_object_set_new(object, "replicas", replicas_json(r));
    if (r->timing.show) {
        struct kvt_metric timings[KVT_TIMINGS_MAX];
        int32_t count = kvt_timing_list(r, timings);
        json_t *timing = json_object();
        for (int32_t i = 0; i < count; i++)
            put_metric(timing, &timings[i]);
        json_object_set_new(object, "timing", timing);
    }
    return kvt_json_print(object, 12, file, err);
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
