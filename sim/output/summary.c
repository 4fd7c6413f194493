#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/output/parts.h"

#define TICKS_PER_MS ((double)KVT_TICKS_PER_MS)

const char *const kvt_fate_names[KVT_FATE_COUNT] = {
#define X(name, text) text,
    KVT_FATES(X)
#undef X
};

const char *const kvt_latency_keys[KVT_LATENCY_COUNT] = {
#define X(name, key, label) key,
    KVT_LATENCIES(X)
#undef X
};

const char *const kvt_latency_labels[KVT_LATENCY_COUNT] = {
#define X(name, key, label) label,
    KVT_LATENCIES(X)
#undef X
};

const char *const kvt_statistic_keys[KVT_STATISTICS] = {"mean", "median", "p90", "p99"};

/* ---- measuring ---- */

/* The loosest bound on a latency; KVT_NEVER without one. */
static kvt_ticks loosest_bound(const struct kvt_result *result, enum kvt_latency latency)
{
    kvt_ticks limit = -1;
    for (int32_t i = 0; i < result->slo_count; i++)
        if (result->slo[i].latency == latency && result->slo[i].limit > limit)
            limit = result->slo[i].limit;
    return limit < 0 ? KVT_NEVER : limit;
}

/* A counted request that delivered its last token. */
static void measure_completed(struct kvt_summary *s, int64_t row, kvt_ticks ttft_limit,
                              kvt_ticks itl_limit)
{
    const struct kvt_result *r = s->result;
    kvt_ticks arrival = r->arrival[row], first = r->first_token[row], finish = r->finish[row];
    int64_t gaps = (int64_t)r->output[row] - 1;
    kvt_assert(arrival <= first && first <= finish && finish != KVT_NEVER);
    kvt_histogram_add(&s->latencies[KVT_LATENCY_TTFT], first - arrival, 1);
    kvt_histogram_add(&s->latencies[KVT_LATENCY_E2EL], finish - arrival, 1);
    if (gaps > 0)
        kvt_histogram_add(&s->latencies[KVT_LATENCY_TPOT], (finish - first) / gaps, 1);
    s->input_tokens += r->input[row];
    s->output_tokens += r->output[row];
    if (r->cached != NULL)
        s->cached_tokens += r->cached[row];
    /* The gaps of a request add up to finish - first: their mean needs no list of them. */
    s->good += first - arrival <= ttft_limit &&
               (kvt_i128)(finish - first) <= (kvt_i128)itl_limit * (gaps > 0 ? gaps : 1);
}

static void measure(struct kvt_summary *s)
{
    const struct kvt_result *r = s->result;
    kvt_ticks ttft_limit = loosest_bound(r, KVT_LATENCY_TTFT);
    kvt_ticks itl_limit = loosest_bound(r, KVT_LATENCY_ITL);
    kvt_ticks begin = KVT_NEVER, end = -1;
    for (int64_t row = 0; row < r->rows; row++) {
        enum kvt_fate fate = (enum kvt_fate)r->fate[row];
        kvt_assert(fate < KVT_FATE_COUNT);
        kvt_ticks arrival = r->arrival[row];
        if (fate == KVT_FATE_PENDING || arrival < r->warmup)
            continue;
        begin = arrival < begin ? arrival : begin;
        struct kvt_fate_counts *tenant = &s->tenants[r->tenant == NULL ? 0 : r->tenant[row]];
        tenant->arrived++;
        tenant->fates[fate]++;
        if (r->preemptions != NULL)
            s->preemptions += r->preemptions[row];
        if (fate != KVT_FATE_COMPLETED)
            continue;
        measure_completed(s, row, ttft_limit, itl_limit);
        end = r->finish[row] > end ? r->finish[row] : end;
    }
    if (r->preemptions == NULL)
        s->preemptions = r->preempted;
    s->duration = end < begin ? 0 : end - begin;
    for (int32_t t = 0; t < KVT_TENANTS_MAX; t++) {
        s->counted.arrived += s->tenants[t].arrived;
        for (int32_t f = 0; f < KVT_FATE_COUNT; f++)
            s->counted.fates[f] += s->tenants[t].fates[f];
    }
}

/* ---- the list of metrics ---- */

static struct kvt_metric *metric_add(struct kvt_summary *s, enum kvt_metric_kind kind,
                                     const char *label, const char *unit, const char *name)
{
    kvt_assert(s->metric_count < KVT_METRICS_MAX);
    struct kvt_metric *metric = &s->metrics[s->metric_count++];
    *metric = (struct kvt_metric){.label = label, .unit = unit, .kind = kind, .has_value = true};
    snprintf(metric->name, sizeof metric->name, "%s", name);
    return metric;
}

static void add_count(struct kvt_summary *s, const char *name, const char *label, int64_t count)
{
    metric_add(s, KVT_METRIC_COUNT, label, "", name)->count = count;
}

/* The last metric: what the config says. */
static void mark_given(struct kvt_summary *s)
{
    s->metrics[s->metric_count - 1].is_given = true;
}

static void add_text(struct kvt_summary *s, const char *name, const char *text)
{
    struct kvt_metric *metric = metric_add(s, KVT_METRIC_TEXT, NULL, "", name);
    snprintf(metric->text, sizeof metric->text, "%s", text);
}

static void add_truth(struct kvt_summary *s, const char *name, bool holds)
{
    metric_add(s, KVT_METRIC_TRUTH, NULL, "", name)->count = holds;
}

/* part / whole; no value where there is no whole. */
static void add_ratio(struct kvt_summary *s, const char *name, const char *label, const char *unit,
                      double part, double whole)
{
    struct kvt_metric *metric = metric_add(s, KVT_METRIC_REAL, label, unit, name);
    metric->has_value = whole > 0;
    metric->real = whole > 0 ? part / whole : 0;
}

/* The same for a rate: of nothing, nothing a second. */
static void add_rate(struct kvt_summary *s, const char *name, const char *label, const char *unit,
                     double part, double seconds)
{
    add_ratio(s, name, label, unit, part, part == 0 && seconds == 0 ? 1 : seconds);
}

static void add_latency(struct kvt_summary *s, enum kvt_latency latency, const char *what, double q)
{
    const struct kvt_histogram *h = &s->latencies[latency];
    char name[48];
    snprintf(name, sizeof name, "%s_%s_ms", what, kvt_latency_keys[latency]);
    struct kvt_metric *metric = metric_add(s, KVT_METRIC_REAL, NULL, "ms", name);
    metric->has_value = h->count > 0;
    metric->real = (q < 0 ? kvt_histogram_mean(h) : kvt_histogram_quantile(h, q)) / TICKS_PER_MS;
}

static void add_slo(struct kvt_summary *s)
{
    const struct kvt_result *r = s->result;
    s->slo_all_met = true;
    for (int32_t i = 0; i < r->slo_count; i++) {
        const struct kvt_slo_bound *bound = &r->slo[i];
        const struct kvt_histogram *h = &s->latencies[bound->latency];
        double value = bound->percentile > 0 ? kvt_histogram_quantile(h, bound->percentile)
                                             : kvt_histogram_mean(h);
        s->slo_value_ms[i] = value / TICKS_PER_MS;
        /* Requests without a gap keep every promise about gaps; no requests keep none. */
        s->slo_met[i] =
            h->count > 0 ? value <= (double)bound->limit : s->counted.fates[KVT_FATE_COMPLETED] > 0;
        s->slo_all_met = s->slo_all_met && s->slo_met[i];
        char name[48], percentile[16];
        kvt_percentile_print(bound->percentile, percentile, sizeof percentile);
        const char *key = kvt_latency_keys[bound->latency];
        snprintf(name, sizeof name, "slo_%s_%s_target_ms", key, percentile);
        int32_t first = s->metric_count;
        add_ratio(s, name, NULL, "ms", (double)bound->limit, TICKS_PER_MS);
        mark_given(s);
        snprintf(name, sizeof name, "slo_%s_%s_ms", key, percentile);
        add_ratio(s, name, NULL, "ms", s->slo_value_ms[i], h->count > 0 ? 1 : 0);
        snprintf(name, sizeof name, "slo_%s_%s_met", key, percentile);
        add_truth(s, name, s->slo_met[i]);
        for (int32_t m = first; m < s->metric_count; m++)
            s->metrics[m].columns_only = true;
    }
    if (r->slo_count > 0)
        add_truth(s, "slo_met", s->slo_all_met);
}

static void add_cost(struct kvt_summary *s, double duration_s)
{
    const struct kvt_result *r = s->result;
    if (r->gpus > 0) {
        double tokens = (double)(s->input_tokens + s->output_tokens);
        add_count(s, "gpus", NULL, r->gpus);
        mark_given(s);
        add_rate(s, "output_throughput_per_gpu", "Output throughput per GPU (tok/s)", "tok/s",
                 (double)s->output_tokens, duration_s * r->gpus);
        add_rate(s, "total_token_throughput_per_gpu", NULL, "tok/s", tokens, duration_s * r->gpus);
    }
    if (r->cost_usd_per_h > 0) {
        double usd = r->cost_usd_per_h * duration_s / 3600;
        double tokens = (double)(s->input_tokens + s->output_tokens);
        add_ratio(s, "cost_usd_per_h", "Cost (USD/h)", "USD/h", r->cost_usd_per_h, 1);
        mark_given(s);
        add_ratio(s, "cost_usd_per_mtok", "Cost (USD/Mtok, in and out)", "USD/Mtok", usd,
                  tokens / 1e6);
        add_ratio(s, "cost_usd_per_mtok_output", "Cost (USD/Mtok, output)", "USD/Mtok", usd,
                  (double)s->output_tokens / 1e6);
    }
}

static double pages_peak_fraction(const struct kvt_result *r)
{
    double peak = 0;
    for (int32_t i = 0; i < r->replica_count; i++) {
        const struct kvt_result_replica *replica = &r->replicas[i];
        double fraction = (double)replica->pages_peak / (double)replica->pages;
        peak = fraction > peak ? fraction : peak;
    }
    return peak;
}

/* The order is the contract's, then what kvtwin adds. */
static void list_metrics(struct kvt_summary *s)
{
    const struct kvt_result *r = s->result;
    const int64_t *fates = s->counted.fates;
    double duration_s = (double)s->duration / (double)KVT_TICKS_PER_S;
    double completed = (double)fates[KVT_FATE_COMPLETED];
    add_rate(s, "request_throughput", "Request throughput (req/s)", "req/s", completed, duration_s);
    add_rate(s, "output_throughput", "Output token throughput (tok/s)", "tok/s",
             (double)s->output_tokens, duration_s);
    add_rate(s, "total_token_throughput", "Total token throughput (tok/s)", "tok/s",
             (double)(s->input_tokens + s->output_tokens), duration_s);
    static const double quantiles[KVT_STATISTICS] = {-1, 0.5, 0.9, 0.99};
    for (int32_t l = 0; l < KVT_LATENCY_COUNT; l++)
        for (int32_t q = 0; q < KVT_STATISTICS; q++)
            add_latency(s, (enum kvt_latency)l, kvt_statistic_keys[q], quantiles[q]);
    add_count(s, "completed", NULL, fates[KVT_FATE_COMPLETED]);
    add_ratio(s, "duration", NULL, "s", duration_s, 1);
    add_count(s, "rejected", NULL, fates[KVT_FATE_REJECTED]);
    add_count(s, "aborted", NULL, fates[KVT_FATE_ABORTED]);
    add_count(s, "running", NULL, fates[KVT_FATE_RUNNING]);
    add_rate(s, "request_goodput", r->slo_count > 0 ? "Request goodput (req/s)" : NULL, "req/s",
             (double)s->good, duration_s);
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, r->digest);
    add_text(s, "digest", digest);
    add_count(s, "arrived", NULL, s->counted.arrived);
    add_count(s, "total_input_tokens", NULL, s->input_tokens);
    add_count(s, "total_output_tokens", NULL, s->output_tokens);
    add_count(s, "preemptions", "Preemptions", s->preemptions);
    if (r->cached != NULL)
        add_ratio(s, "prefix_hit_fraction", "Prefix cache hits (fraction of input)", "",
                  (double)s->cached_tokens, (double)s->input_tokens);
    add_count(s, "evicted_pages", NULL, r->evicted_pages);
    add_ratio(s, "pages_peak_fraction", "Peak KV pages in use (fraction)", "",
              pages_peak_fraction(r), 1);
    add_count(s, "steps", NULL, r->steps);
    add_slo(s);
    add_cost(s, duration_s);
    add_truth(s, "interrupted", r->interrupted);
    add_count(s, "seed", NULL, (int64_t)r->seed);
    mark_given(s);
    add_text(s, "version", KVT_VERSION);
    s->metrics[s->metric_count - 1].describes = true;
    s->metrics[s->metric_count - 2].describes = true;
}

enum kvt_status kvt_summary_init(struct kvt_summary *summary, const struct kvt_result *result,
                                 struct kvt_arena *arena, struct kvt_err *err)
{
    kvt_assert(result->rows >= 0);
    kvt_assert(result->tenants <= KVT_TENANTS_MAX);
    kvt_assert(result->slo_count <= KVT_SLO_BOUNDS_MAX);
    memset(summary, 0, sizeof *summary);
    summary->result = result;
    for (int32_t l = 0; l < KVT_LATENCY_COUNT; l++) {
        if (l == KVT_LATENCY_ITL && result->itl != NULL)
            summary->latencies[l] = *result->itl;
        else
            KVT_TRY(kvt_histogram_init(&summary->latencies[l], arena, err));
    }
    measure(summary);
    list_metrics(summary);
    return KVT_OK;
}

void kvt_summary_set_resamples(struct kvt_summary *summary, int32_t count)
{
    add_count(summary, "resamples", NULL, count);
    mark_given(summary);
    summary->metrics[summary->metric_count - 1].describes = true;
}

double kvt_metric_number(const struct kvt_metric *metric)
{
    if (metric == NULL || !metric->has_value || metric->kind == KVT_METRIC_TEXT)
        return (double)NAN;
    return metric->kind == KVT_METRIC_REAL ? metric->real : (double)metric->count;
}

const struct kvt_metric *kvt_summary_find(const struct kvt_summary *summary, const char *name)
{
    for (int32_t i = 0; i < summary->metric_count; i++)
        if (strcmp(summary->metrics[i].name, name) == 0)
            return &summary->metrics[i];
    return NULL;
}
