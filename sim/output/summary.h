/*
 * summary.h - the serving metrics of a run, by the names that `vllm bench serve` prints
 *
 * The rules (design: contracts); counted requests are those that arrive at or after warmup:
 *   completed, rejected, aborted, running, arrived   counted requests, by fate
 *   duration            first counted arrival to last counted completion, s
 *   request_throughput  completed / duration; token throughputs count the tokens of completed
 *   total_*_tokens      input and output tokens of completed
 *   ttft, tpot, e2el    over completed; itl over every gap of the counted, by the engine
 *   tpot                (e2el - ttft) / (output - 1); one output token has none
 *   request_goodput     completed / duration of those whose TTFT and mean ITL meet the SLO's values
 *                       (the loosest bound of each; without one, all meet it)
 *   slo_*               each bound judged by itself, on its own percentile; slo_met: all of them
 *   prefix_hit_fraction cached input tokens / input tokens, over completed
 *   pages_peak_fraction most pages in use / pages, of the fullest replica
 *   cost_usd_per_mtok   fleet price * duration / million tokens, in and out; _output: out alone
 * All ratios are fractions. A metric without a value (the mean of nothing) is null in JSON, an
 * empty field in CSV and "-" in text.
 *
 * One list of metrics feeds text, JSON, CSV and HDF5, so that they cannot disagree. Numbers are
 * printed with twelve digits: equal runs give equal bytes. Events are not in the list: they differ
 * between macro-steps and exact steps, and go with the timing.
 */
#ifndef KVT_OUTPUT_SUMMARY_H
#define KVT_OUTPUT_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"
#include "sim/metrics/metrics.h"
#include "sim/output/result.h"

enum kvt_metric_kind { KVT_METRIC_COUNT, KVT_METRIC_REAL, KVT_METRIC_TEXT, KVT_METRIC_TRUTH };

struct kvt_metric {
    char name[48];     /* the key in JSON and CSV */
    const char *label; /* of its line in the text table; NULL: it has none */
    const char *unit;  /* "s", "req/s", "ms", "" ... */
    enum kvt_metric_kind kind;
    bool has_value;
    bool columns_only; /* left out of JSON, which has it in a nested object */
    bool describes;    /* says what was run, not what came of it: /meta has it in HDF5 */
    bool is_given;     /* follows from the config alone: it has no interval */
    bool has_interval; /* name_low and name_high follow name */
    int64_t count;     /* COUNT; TRUTH: 0 or 1 */
    double real, low, high;
    char text[24];
};

#define KVT_METRICS_MAX 192

struct kvt_fate_counts {
    int64_t arrived, fates[KVT_FATE_COUNT];
};

struct kvt_summary {
    const struct kvt_result *result;                    /* borrowed */
    struct kvt_fate_counts counted;                     /* arrived at or after warmup */
    struct kvt_fate_counts tenants[KVT_TENANTS_MAX];    /* the same, by tenant */
    int64_t input_tokens, output_tokens, cached_tokens; /* of counted completed requests */
    int64_t preemptions;                                /* of counted requests */
    int64_t good;                                       /* completed and within the SLO's values */
    kvt_ticks duration;
    struct kvt_histogram latencies[KVT_LATENCY_COUNT];
    int32_t metric_count;
    struct kvt_metric metrics[KVT_METRICS_MAX]; /* in the order of printing */
    bool slo_met[KVT_SLO_BOUNDS_MAX]; /* false when none completed; true for gaps that nobody has */
    double slo_value_ms[KVT_SLO_BOUNDS_MAX];
    bool slo_all_met; /* true without an SLO */
};

#define KVT_SUMMARY_BYTES ((size_t)1 << 20) /* an arena that holds the histograms of one */

/* Measure result. One pass over the columns, some 20 ns a request; the histograms are taken from
 * arena. summary is large (30 KiB): keep it off small stacks. */
enum kvt_status kvt_summary_init(struct kvt_summary *summary, const struct kvt_result *result,
                                 struct kvt_arena *arena, struct kvt_err *err);

/* Say how many resamples the intervals of the metrics rest on. */
void kvt_summary_set_resamples(struct kvt_summary *summary, int32_t count);

/* The metric of that name, or NULL. */
const struct kvt_metric *kvt_summary_find(const struct kvt_summary *summary, const char *name);

/* Its number; NaN for a text, for none, and for NULL. */
double kvt_metric_number(const struct kvt_metric *metric);

/* The value as JSON and CSV print it: twelve digits, "" for none. Returns out. */
const char *kvt_metric_print(const struct kvt_metric *metric, char *out, size_t size_bytes);

/* "p90", "p99.9", "mean" for 0. Returns out. */
const char *kvt_percentile_print(double percentile, char *out, size_t size_bytes);

/* A table for people; one JSON object; a CSV header and one row. The caller checks the stream
 * (main does for stdout). KVT_ENOMEM only. */
enum kvt_status kvt_summary_text(const struct kvt_summary *summary, FILE *file,
                                 struct kvt_err *err);
enum kvt_status kvt_summary_json(const struct kvt_summary *summary, FILE *file,
                                 struct kvt_err *err);
enum kvt_status kvt_summary_csv(const struct kvt_summary *summary, FILE *file, struct kvt_err *err);

#endif
