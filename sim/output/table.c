/*
 * table.c - a summary for people, in the shape that `vllm bench serve` made familiar
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/output/interval.h"
#include "sim/output/parts.h"

#define WIDTH          66 /* columns of the table */
#define REPLICAS_SHOWN 16

static void rule(FILE *file, char line, const char *title)
{
    int room = WIDTH - (int)strlen(title) - (title[0] != '\0' ? 2 : 0);
    for (int i = 0; i < room / 2; i++)
        fputc(line, file);
    fprintf(file, title[0] != '\0' ? " %s " : "%s", title);
    for (int i = 0; i < room - room / 2; i++)
        fputc(line, file);
    fputc('\n', file);
}

/* A number for the eye: two decimals, or three digits where those would show nothing. */
static const char *number(double value, char *out, size_t size_bytes)
{
    bool small = value != 0 && fabs(value) < 0.095;
    snprintf(out, size_bytes, small ? "%.3g" : "%.2f", value);
    return out;
}

static void line(FILE *file, const char *label, const char *value)
{
    fprintf(file, "%s:", label);
    kvt_print_right(file, value, WIDTH - 1 - (int)strlen(label));
    fputc('\n', file);
}

/* The value of a metric, with its interval where it has one. */
static const char *metric_text(const struct kvt_metric *metric, char *out, size_t size_bytes)
{
    double value = metric->kind == KVT_METRIC_COUNT ? (double)metric->count : metric->real;
    if (!metric->has_value)
        snprintf(out, size_bytes, "-");
    else if (metric->has_interval && metric->high > metric->low)
        kvt_interval_print(value, metric->low, metric->high, 0, out, size_bytes);
    else if (metric->kind == KVT_METRIC_REAL)
        number(metric->real, out, size_bytes);
    else
        kvt_metric_print(metric, out, size_bytes);
    return out;
}

static void line_metric(FILE *file, const struct kvt_metric *metric)
{
    char value[160];
    line(file, metric->label, metric_text(metric, value, sizeof value));
}

/* The metric of that name; "-" where there is none. */
static const char *named_text(const struct kvt_summary *s, const char *name, char *out,
                              size_t size_bytes)
{
    const struct kvt_metric *metric = kvt_summary_find(s, name);
    if (metric != NULL)
        return metric_text(metric, out, size_bytes);
    snprintf(out, size_bytes, "-");
    return out;
}

static void line_count(FILE *file, const char *label, int64_t count)
{
    char value[32];
    snprintf(value, sizeof value, "%" PRId64, count);
    line(file, label, value);
}

static void head(const struct kvt_summary *s, FILE *file)
{
    const struct kvt_result *r = s->result;
    for (const char *c = r->title; c != NULL && *c != '\0'; c++) /* nothing that moves a cursor */
        fputc((unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c, file);
    if (r->title != NULL)
        fputc('\n', file);
    if (r->model != NULL)
        fprintf(file, "%s\n", r->model);
    if (r->fleet != NULL)
        fprintf(file, "%s\n", r->fleet);
    rule(file, '=', "Serving result");
    if (r->interrupted)
        fprintf(file, "Interrupted: what follows covers the part that ran\n");
}

static void requests(const struct kvt_summary *s, FILE *file)
{
    const int64_t *fates = s->counted.fates;
    char value[160];
    line_count(file, "Completed requests", fates[KVT_FATE_COMPLETED]);
    line_count(file, "Rejected requests", fates[KVT_FATE_REJECTED]);
    line_count(file, "Aborted requests", fates[KVT_FATE_ABORTED]);
    line_count(file, "Still running", fates[KVT_FATE_RUNNING]);
    line(file, "Duration (s)", named_text(s, "duration", value, sizeof value));
    line_count(file, "Total input tokens", s->input_tokens);
    line_count(file, "Total output tokens", s->output_tokens);
    for (int32_t i = 0; i < s->metric_count; i++)
        if (s->metrics[i].label != NULL)
            line_metric(file, &s->metrics[i]);
}

static void latencies(const struct kvt_summary *s, FILE *file)
{
    const char *const *columns = kvt_statistic_keys;
    rule(file, '-', "Latency (ms)");
    fprintf(file, "%-10s%14s%14s%14s%14s\n", "", columns[0], columns[1], columns[2], columns[3]);
    for (int32_t l = 0; l < KVT_LATENCY_COUNT; l++) {
        fprintf(file, "%-10s", kvt_latency_labels[l]);
        for (int32_t c = 0; c < KVT_STATISTICS; c++) {
            char name[32], value[160];
            snprintf(name, sizeof name, "%s_%s_ms", columns[c], kvt_latency_keys[l]);
            kvt_print_right(file, named_text(s, name, value, sizeof value), 14);
        }
        fputc('\n', file);
    }
}

static void slo(const struct kvt_summary *s, FILE *file)
{
    if (s->result->slo_count == 0)
        return;
    rule(file, '-', "SLO");
    for (int32_t i = 0; i < s->result->slo_count; i++) {
        const struct kvt_slo_bound *bound = &s->result->slo[i];
        char percentile[16], limit[32], want[64], name[48], value[160];
        number((double)bound->limit / (double)KVT_TICKS_PER_MS, limit, sizeof limit);
        kvt_percentile_print(bound->percentile, percentile, sizeof percentile);
        snprintf(want, sizeof want, "%s %s <= %s ms", kvt_latency_labels[bound->latency],
                 percentile, limit);
        snprintf(name, sizeof name, "slo_%s_%s_ms", kvt_latency_keys[bound->latency], percentile);
        fprintf(file, "%-36s", want);
        kvt_print_right(file, named_text(s, name, value, sizeof value), 18);
        fprintf(file, " ms%9s\n", s->slo_met[i] ? "met" : "missed");
    }
}

/* Pages in use as a fraction of the pool, running and waiting requests: means over the run. */
static void replicas(const struct kvt_summary *s, FILE *file)
{
    const struct kvt_result *r = s->result;
    rule(file, '-', "Replicas (means over the run)");
    fprintf(file, "%-16s%8s%10s%10s%11s%11s\n", "", "busy", "running", "waiting", "KV in use",
            "KV peak");
    for (int32_t i = 0; i < r->replica_count && i < REPLICAS_SHOWN; i++) {
        const struct kvt_result_replica *replica = &r->replicas[i];
        double pages = (double)replica->pages;
        double mean[KVT_GAUGE_COUNT] = {0};
        for (int32_t g = 0; replica->series != NULL && g < KVT_GAUGE_COUNT; g++)
            mean[g] = kvt_series_mean_all(replica->series, (enum kvt_gauge)g);
        fprintf(file, "%-16s%8.2f%10.2f%10.2f%11.4f%11.4f\n", replica->name,
                r->end > 0 ? (double)replica->busy / (double)r->end : 0, mean[KVT_GAUGE_RUNNING],
                mean[KVT_GAUGE_WAITING], mean[KVT_GAUGE_PAGES] / pages,
                (double)replica->pages_peak / pages);
    }
    if (r->replica_count > REPLICAS_SHOWN)
        fprintf(file, "and %d more: --format json lists all\n", r->replica_count - REPLICAS_SHOWN);
}

enum kvt_status kvt_summary_text(const struct kvt_summary *summary, FILE *file, struct kvt_err *err)
{
    (void)err; /* the same shape as the other formats */
    const struct kvt_result *r = summary->result;
    head(summary, file);
    requests(summary, file);
    latencies(summary, file);
    slo(summary, file);
    replicas(summary, file);
    struct kvt_metric timings[KVT_TIMINGS_MAX];
    int32_t count = kvt_timing_list(r, timings);
    if (count > 0)
        rule(file, '-', "Timing");
    for (int32_t i = 0; i < count; i++)
        line_metric(file, &timings[i]);
    rule(file, '=', "");
    fprintf(file, "seed %" PRIu64 ", digest %016" PRIx64 "\n", r->seed, r->digest);
    const struct kvt_metric *resamples = kvt_summary_find(summary, "resamples");
    if (resamples != NULL)
        fprintf(file, "\xc2\xb1 is half of what 90 %% of %" PRId64 " resample%s\n",
                resamples->count, resamples->count == 1 ? " spans" : "s span");
    return KVT_OK;
}
