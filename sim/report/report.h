/*
 * report.h - a run as a page: one HTML file without scripts, links or anything from a network
 *
 *     kvt_report_read      the run, and what stands beside it (--compare)
 *     kvt_report_html      the page: numbers, tables, figures, the effective configuration
 *     kvt_report_figure    one figure as a file of its own
 *     kvt_report_release
 *
 * Beside the run may stand results of benchmark clients (bench_result.h; each run of a file) and
 * further run files. They appear in the table of metrics, in the CDFs where they have the requests'
 * latencies, and in throughput against concurrency. So do the rows of `published` in the run's
 * configuration.
 *
 * The page works on a phone (one column), on a desk (two), on paper, in light and dark. Equal files
 * give equal pages. A run of 1,000,000 requests takes about a second; the page has some 150 KB,
 * however long the run.
 */
#ifndef KVT_REPORT_REPORT_H
#define KVT_REPORT_REPORT_H

#include <stdio.h>

#include "sim/output/bench_result.h"
#include "sim/report/run.h"

#define KVT_BESIDE_MAX 8

struct kvt_cdf {
    double *x, *y; /* owned, [count]; seconds and fraction of the values up to it */
    int32_t count;
};

struct kvt_beside { /* something that the run is compared with */
    char label[64];
    double metric[KVT_BENCH_METRIC_COUNT];   /* NaN: not known */
    double completed, duration, concurrency; /* concurrency: mean in flight; NaN: not known */
    struct kvt_cdf cdf[KVT_LATENCY_COUNT];
};

struct kvt_report {
    struct kvt_report_run run;
    struct kvt_cdf cdf[KVT_LATENCY_COUNT];
    double concurrency; /* mean requests in flight, as in kvt_beside */
    int32_t beside_count;
    struct kvt_beside beside[KVT_BESIDE_MAX];
};

/* path and compare are borrowed. A file to compare with that holds more runs than there is room for
 * is a KVT_ELIMIT. Release in any case. */
enum kvt_status kvt_report_read(struct kvt_report *report, const char *path,
                                const char *const compare[], int32_t compare_count,
                                struct kvt_err *err);
void kvt_report_release(struct kvt_report *report);

/* Figures in the order of the page; those that the run has nothing for are left out. */
/* clang-format off */
#define KVT_FIGURES(X)                                                      \
    X(MEMORY,      "memory")      /* map of one GPU of the first role ... */ \
    X(MEMORY_2,    "memory-2")                                              \
    X(MEMORY_3,    "memory-3")                                              \
    X(TTFT,        "ttft")        /* CDFs */                                \
    X(TOKENS,      "tpot-itl")                                              \
    X(E2EL,        "e2el")                                                  \
    X(CONCURRENCY, "concurrency") /* throughput against requests in flight */ \
    X(RATES,       "throughput")  /* over time, as all that follow */       \
    X(LATENCY,     "ttft-over-time")                                        \
    X(QUEUE,       "queue")                                                 \
    X(BATCH,       "batch")                                                 \
    X(KV,          "kv-usage")                                              \
    X(LINK,        "link")                                                  \
    X(PREEMPTIONS, "preemptions")                                           \
    X(FAULTS,      "faults")
/* clang-format on */
#define X(name, text) KVT_FIGURE_##name,
enum kvt_figure { KVT_FIGURES(X) KVT_FIGURE_COUNT };
#undef X
extern const char *const kvt_figure_names[KVT_FIGURE_COUNT];

/* Write a figure as a <figure> of the page; alone: as an SVG file. *shown: whether there was
 * anything to show; nothing was written otherwise. KVT_ENOMEM only. */
enum kvt_status kvt_report_figure(const struct kvt_report *report, enum kvt_figure figure,
                                  bool alone, FILE *out, bool *shown, struct kvt_err *err);

/* Write the page. KVT_ENOMEM only; the caller looks at the stream. */
enum kvt_status kvt_report_html(const struct kvt_report *report, FILE *out, struct kvt_err *err);

#endif
