/*
 * points.h - the file of a sweep or of a search as a page
 *
 *     kvt_points_page_read     a sweep or a search; anything else is KVT_ECONFIG
 *     kvt_points_page_html     figures, the table of points, the configuration
 *     kvt_points_page_figure   one figure as a file of its own
 *     kvt_points_page_release
 *
 * A sweep: metrics against the setting of the most different numbers, a curve for each value of the
 * first other one with few, points where further settings differ too. A search: what its candidates
 * cost against their TTFT and ITL, the Pareto front, the best with its SLO and what limits it. The
 * table has the first KVT_POINTS_SHOWN points; of a search the best, then the front, then the
 * others by objective. Equal files give equal pages.
 */
#ifndef KVT_REPORT_POINTS_H
#define KVT_REPORT_POINTS_H

#include <stdio.h>

#include "sim/output/reader.h"

#define KVT_POINTS_SHOWN    300
#define KVT_POINTS_SETTINGS 16 /* columns of the table; further domains are left out */

/* clang-format off */
#define KVT_POINTS_METRICS(X)                                              \
    X(GPUS,     "gpus",              "GPUs",                    "gpus")     \
    X(USD,      "cost_usd_per_h",    "USD/h",                   "usd")      \
    X(OUT,      "output_throughput", "output (tok/s)",          "output")   \
    X(TTFT,     "p90_ttft_ms",       "TTFT p90 (ms)",           "ttft")     \
    X(ITL,      "p99_itl_ms",        "ITL p99 (ms)",            "itl")      \
    X(GOODPUT,  "request_goodput",   "goodput (req/s)",         "goodput")  \
    X(MTOK,     "cost_usd_per_mtok", "USD/Mtok",                "mtok")
/* clang-format on */
#define X(name, column, label, figure) KVT_POINTS_##name,
enum kvt_points_metric { KVT_POINTS_METRICS(X) KVT_POINTS_METRIC_COUNT };
#undef X

struct kvt_points_setting {
    char *name, *texts; /* owned; texts: [rows] of width bytes */
    size_t width;
};

struct kvt_points_page {
    struct kvt_run_reader reader; /* open */
    bool is_plan;                 /* a search; else a sweep */
    int64_t rows;
    int32_t setting_count;
    struct kvt_points_setting settings[KVT_POINTS_SETTINGS];
    double *metrics[KVT_POINTS_METRIC_COUNT]; /* owned, [rows]; NULL: not in the file */
    struct kvt_points_setting state, message; /* of a search; message of a sweep too */
    double *on_front, *objective;             /* of a search; owned */
    int64_t best;                             /* or -1 */
    char *best_text;                          /* how it keeps the SLO, in lines; owned; or NULL */
    char *config;                             /* owned */
};

/* path is borrowed. Release in any case. */
enum kvt_status kvt_points_page_read(struct kvt_points_page *page, const char *path,
                                     struct kvt_err *err);
void kvt_points_page_release(struct kvt_points_page *page);

/* Figures are the metrics by their names; those that there is nothing for are not shown. */
extern const char *const kvt_points_figure_names[KVT_POINTS_METRIC_COUNT];
enum kvt_status kvt_points_page_figure(const struct kvt_points_page *page,
                                       enum kvt_points_metric metric, bool alone, FILE *out,
                                       bool *shown, struct kvt_err *err);

/* KVT_ENOMEM only; the caller looks at the stream. */
enum kvt_status kvt_points_page_html(const struct kvt_points_page *page, FILE *out,
                                     struct kvt_err *err);

#endif
