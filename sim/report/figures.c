/*
 * figures.c - the figures of a report, each a chart that is filled from the run
 */
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/report/cdf.h"
#include "sim/report/parts.h"

#define BINS         160 /* of a figure over time */
#define LATENCY_BINS 80

#define X(name, text) text,
const char *const kvt_figure_names[KVT_FIGURE_COUNT] = {KVT_FIGURES(X)};
#undef X

/* ---- time ---- */

/* Seconds, minutes or hours, so that the axis has small numbers. */
struct clock {
    double unit_s;
    const char *label;
};

static struct clock clock_of(const struct kvt_report_run *run)
{
    if (run->end_s > 3 * 3600)
        return (struct clock){3600, "time (h)"};
    if (run->end_s > 600)
        return (struct clock){60, "time (min)"};
    return (struct clock){1, "time (s)"};
}

static double *scaled(struct kvt_drawing *drawing, const double values[], int32_t count, double by)
{
    double *out = kvt_drawing_room(drawing, count);
    for (int32_t i = 0; out != NULL && i < count; i++)
        out[i] = values[i] * by;
    return out;
}

/* Left edges of bins over the run. */
static double *edges(struct kvt_drawing *drawing, const struct kvt_report_run *run, int32_t count,
                     bool middles)
{
    double *out = kvt_drawing_room(drawing, count), unit = clock_of(run).unit_s;
    for (int32_t i = 0; out != NULL && i < count; i++)
        out[i] = (i + (middles ? 0.5 : 0)) * run->end_s / count / unit;
    return out;
}

static void over_time(struct kvt_drawing *drawing, const struct kvt_report_run *run)
{
    drawing->chart.x_label = clock_of(run).label;
    if (run->warmup_s > 0)
        drawing->chart.marks[drawing->chart.mark_count++] =
            (struct kvt_mark){run->warmup_s / clock_of(run).unit_s, "warm-up ends"};
}

/* ---- distributions ---- */

/* The bounds of the SLO on a latency, from the summary's slo_<latency>_<percentile>_target_ms. */
static void add_bounds(struct kvt_drawing *drawing, const struct kvt_report_run *run,
                       const char *latency)
{
    char start[32];
    int bytes = snprintf(start, sizeof start, "slo_%s_", latency);
    for (int32_t i = 0; i < run->summary->count; i++) {
        const char *name = run->summary->values[i].name;
        const char *end = strstr(name, "_target_ms");
        struct kvt_chart *chart = &drawing->chart;
        if (strncmp(name, start, (size_t)bytes) != 0 || end == NULL ||
            chart->mark_count == KVT_MARKS_MAX)
            continue;
        char *label = drawing->texts[chart->mark_count];
        snprintf(label, sizeof drawing->texts[0], "SLO %s %.*s", latency, (int)(end - name) - bytes,
                 name + bytes);
        chart->marks[chart->mark_count++] =
            (struct kvt_mark){run->summary->values[i].number / 1e3, label};
    }
}

static void add_cdf(struct kvt_drawing *drawing, const struct kvt_cdf *cdf, const char *label,
                    int32_t color, bool dashed)
{
    if (cdf->count > 0)
        kvt_drawing_add(drawing, (struct kvt_curve){.label = label,
                                                    .color = color,
                                                    .dashed = dashed,
                                                    .x = cdf->x,
                                                    .y = cdf->y,
                                                    .count = cdf->count});
}

static void draw_cdf(struct kvt_drawing *drawing, const struct kvt_report *report,
                     enum kvt_latency latency, const char *title, const char *key)
{
    drawing->chart = (struct kvt_chart){.title = title,
                                        .y_label = "share of requests",
                                        .x_unit = KVT_AXIS_SECONDS,
                                        .y_unit = KVT_AXIS_PERCENT,
                                        .x_log = true};
    add_cdf(drawing, &report->cdf[latency], "simulated", 0, false);
    for (int32_t i = 0; i < report->beside_count; i++)
        add_cdf(drawing, &report->beside[i].cdf[latency], report->beside[i].label, i + 1, true);
    add_bounds(drawing, &report->run, key);
}

static void draw_ttft(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    draw_cdf(drawing, report, KVT_LATENCY_TTFT, "Time to first token", "ttft");
}

static void draw_e2el(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    draw_cdf(drawing, report, KVT_LATENCY_E2EL, "End-to-end latency", "e2el");
}

static void draw_tokens(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    drawing->chart = (struct kvt_chart){.title = "Time per output token",
                                        .y_label = "share of requests, of gaps",
                                        .x_unit = KVT_AXIS_SECONDS,
                                        .y_unit = KVT_AXIS_PERCENT,
                                        .x_log = true};
    add_cdf(drawing, &report->cdf[KVT_LATENCY_TPOT], "TPOT", 0, false);
    add_cdf(drawing, &report->cdf[KVT_LATENCY_ITL], "ITL", 1, false);
    for (int32_t i = 0; i < report->beside_count; i++) {
        const struct kvt_beside *beside = &report->beside[i];
        bool any = beside->cdf[KVT_LATENCY_TPOT].count > 0;
        add_cdf(drawing, &beside->cdf[KVT_LATENCY_TPOT], beside->label, i + 2, true);
        add_cdf(drawing, &beside->cdf[KVT_LATENCY_ITL], any ? NULL : beside->label, i + 2, true);
    }
    add_bounds(drawing, &report->run, "itl");
}

/* ---- throughput ---- */

/* Requests in flight and output tokens per second, by bin. */
static bool fill_flow(const struct kvt_report_run *run, double in_flight[], double tokens[])
{
    const double *arrival = run->columns[KVT_REPORT_ARRIVAL];
    const double *first = run->columns[KVT_REPORT_FIRST], *end = run->columns[KVT_REPORT_FINISH];
    const double *fate = run->columns[KVT_REPORT_FATE], *output = run->columns[KVT_REPORT_OUTPUT];
    struct kvt_flow_bins flying, made;
    bool taken = kvt_flow_bins_init(&flying, run->end_s, BINS);
    taken = kvt_flow_bins_init(&made, run->end_s, BINS) && taken;
    for (int64_t r = 0; taken && r < run->rows; r++) {
        double from = arrival[r] * 1e-9, to = end[r] * 1e-9;
        if (fate[r] == KVT_FATE_RUNNING)
            kvt_flow_bins_add(&flying, from, run->end_s, run->end_s - from);
        if (fate[r] != KVT_FATE_COMPLETED)
            continue;
        kvt_flow_bins_add(&flying, from, to, to - from);
        kvt_flow_bins_add(&made, first[r] * 1e-9, to, output[r]);
    }
    if (taken) {
        kvt_flow_bins_take(&flying, in_flight);
        kvt_flow_bins_take(&made, tokens);
        return true;
    }
    free(flying.step);
    free(flying.offset);
    free(made.step);
    free(made.offset);
    return false;
}

static void add_ring(struct kvt_drawing *drawing, double x, double y, const char *label,
                     int32_t color)
{
    double *at = kvt_drawing_room(drawing, 2);
    if (at == NULL || !isfinite(x) || !isfinite(y))
        return;
    at[0] = x;
    at[1] = y;
    kvt_drawing_add(drawing, (struct kvt_curve){.label = label,
                                                .kind = KVT_CURVE_RINGS,
                                                .color = color,
                                                .x = at,
                                                .y = at + 1,
                                                .count = 1});
}

/* Rows of the configuration's `published` that have a concurrency and an output throughput. */
static void add_published(struct kvt_drawing *drawing, const struct kvt_report_run *run)
{
    double *x = kvt_drawing_room(drawing, 64), *y = kvt_drawing_room(drawing, 64);
    int32_t count = 0;
    for (int32_t i = 0; x != NULL && y != NULL && i < 64; i++) {
        char path[64];
        snprintf(path, sizeof path, "published[%d].metric", i);
        const char *metric = kvt_report_key(run, path);
        snprintf(path, sizeof path, "published[%d].concurrency", i);
        const char *concurrency = kvt_report_key(run, path);
        snprintf(path, sizeof path, "published[%d].value", i);
        const char *value = kvt_report_key(run, path);
        if (metric == NULL || value == NULL || concurrency == NULL ||
            strcmp(metric, "output_throughput") != 0)
            continue;
        x[count] = strtod(concurrency, NULL);
        y[count++] = strtod(value, NULL);
    }
    if (count > 0)
        kvt_drawing_add(drawing, (struct kvt_curve){.label = "published",
                                                    .kind = KVT_CURVE_RINGS,
                                                    .color = 1,
                                                    .x = x,
                                                    .y = y,
                                                    .count = count});
}

static void draw_concurrency(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    const struct kvt_report_run *run = &report->run;
    double *flying = kvt_drawing_room(drawing, BINS), *tokens = kvt_drawing_room(drawing, BINS);
    drawing->chart = (struct kvt_chart){.title = "Throughput against concurrency",
                                        .x_label = "requests in flight",
                                        .y_label = "output tok/s"};
    if (flying == NULL || tokens == NULL || run->end_s <= 0)
        return;
    if (!fill_flow(run, flying, tokens)) {
        drawing->failed = true;
        return;
    }
    kvt_drawing_add(drawing, (struct kvt_curve){.label = "parts of the run",
                                                .kind = KVT_CURVE_POINTS,
                                                .x = flying,
                                                .y = tokens,
                                                .count = BINS});
    add_ring(drawing, report->concurrency, kvt_report_metric(run, "output_throughput"), "the run",
             0);
    add_published(drawing, run);
    for (int32_t i = 0; i < report->beside_count; i++)
        add_ring(drawing, report->beside[i].concurrency,
                 report->beside[i].metric[KVT_BENCH_OUTPUT_THROUGHPUT], report->beside[i].label,
                 i + 2);
}

static void draw_rates(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    const struct kvt_report_run *run = &report->run;
    double *flying = kvt_drawing_room(drawing, BINS), *tokens = kvt_drawing_room(drawing, BINS);
    drawing->chart = (struct kvt_chart){.title = "Output throughput", .y_label = "tok/s"};
    if (flying == NULL || tokens == NULL || run->end_s <= 0)
        return;
    if (!fill_flow(run, flying, tokens)) {
        drawing->failed = true;
        return;
    }
    kvt_drawing_add(drawing, (struct kvt_curve){
                                 .x = edges(drawing, run, BINS, true), .y = tokens, .count = BINS});
    over_time(drawing, run);
}

/* ---- TTFT over time ---- */

/* values[begin[i] .. begin[i + 1]) are the TTFTs of the requests that arrive in bin i. */
static void sort_by_arrival(const struct kvt_report_run *run, double values[], int64_t begin[])
{
    const double *arrival = run->columns[KVT_REPORT_ARRIVAL];
    const double *first = run->columns[KVT_REPORT_FIRST];
    double per_ns = LATENCY_BINS / (run->end_s * 1e9);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t r = 0; r < run->rows; r++) {
            double bin = floor(arrival[r] * per_ns);
            if (first[r] < 0 || !(bin >= 0))
                continue;
            int32_t i = bin < LATENCY_BINS ? (int32_t)bin : LATENCY_BINS - 1;
            if (pass == 0)
                begin[i + 2]++;
            else
                values[begin[i + 1]++] = (first[r] - arrival[r]) * 1e-9;
        }
        for (int32_t i = 1; pass == 0 && i <= LATENCY_BINS + 1; i++)
            begin[i] += begin[i - 1];
    }
}

static void draw_latency(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    static const struct {
        const char *label;
        double share;
    } lines[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
    const struct kvt_report_run *run = &report->run;
    double *values = calloc((size_t)run->rows + 1, sizeof *values);
    int64_t begin[LATENCY_BINS + 2] = {0};
    drawing->chart = (struct kvt_chart){
        .title = "Time to first token, by arrival", .y_unit = KVT_AXIS_SECONDS, .y_log = true};
    drawing->failed = drawing->failed || values == NULL;
    if (values == NULL || run->end_s <= 0) {
        free(values);
        return;
    }
    sort_by_arrival(run, values, begin);
    const double *x = edges(drawing, run, LATENCY_BINS, true);
    double *y[3];
    for (int line = 0; line < 3; line++)
        y[line] = kvt_drawing_room(drawing, LATENCY_BINS);
    for (int32_t i = 0; !drawing->failed && i < LATENCY_BINS; i++) {
        int64_t count = begin[i + 1] - begin[i];
        gsl_sort(values + begin[i], 1, (size_t)count);
        for (int line = 0; line < 3; line++) {
            int64_t rank = (int64_t)(lines[line].share * (double)(count - 1) + 0.5);
            y[line][i] = count > 0 ? values[begin[i] + rank] : (double)NAN;
        }
    }
    for (int line = 2; !drawing->failed && line >= 0; line--)
        kvt_drawing_add(drawing, (struct kvt_curve){.label = lines[line].label,
                                                    .color = line,
                                                    .x = x,
                                                    .y = y[line],
                                                    .count = LATENCY_BINS});
    free(values);
    over_time(drawing, run);
}

/* ---- replicas over time ---- */

static void draw_gauge(struct kvt_drawing *drawing, const struct kvt_report *report, int32_t gauge,
                       const char *title, const char *y_label)
{
    const struct kvt_report_run *run = &report->run;
    struct clock clock = clock_of(run);
    drawing->chart = (struct kvt_chart){.title = title, .y_label = y_label};
    if (gauge == KVT_REPORT_GAUGES - 1)
        drawing->chart.y_unit = KVT_AXIS_PERCENT;
    for (int32_t i = 0; i < run->role_count; i++) {
        const struct kvt_report_role *role = &run->roles[i];
        const struct kvt_report_gauge *values = &role->gauges[gauge];
        const double *x = scaled(drawing, role->seconds, role->points, 1 / clock.unit_s);
        if (role->replicas > 1)
            kvt_drawing_add(drawing, (struct kvt_curve){.kind = KVT_CURVE_BAND,
                                                        .color = i,
                                                        .x = x,
                                                        .y = values->low,
                                                        .top = values->high,
                                                        .count = role->points});
        kvt_drawing_add(
            drawing,
            (struct kvt_curve){
                .label = role->name, .color = i, .x = x, .y = values->mean, .count = role->points});
    }
    over_time(drawing, run);
}

static void draw_queue(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    draw_gauge(drawing, report, 1, "Queue", "requests waiting per replica");
}

static void draw_batch(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    draw_gauge(drawing, report, 0, "Batch", "requests running per replica");
}

static void draw_kv(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    draw_gauge(drawing, report, 2, "KV pages in use", "fraction of the pool");
}

static void draw_link(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    const struct kvt_report_link *link = &report->run.link;
    drawing->chart = (struct kvt_chart){.title = "Hand-off link",
                                        .y_label = "fraction of its bandwidth",
                                        .y_unit = KVT_AXIS_PERCENT};
    if (link->points == 0)
        return;
    const double *x =
        scaled(drawing, link->seconds, link->points, 1 / clock_of(&report->run).unit_s);
    kvt_drawing_add(drawing,
                    (struct kvt_curve){.color = 4, .x = x, .y = link->use, .count = link->points});
    over_time(drawing, &report->run);
}

/* When they happened: those of a point of the series in the bin of its middle. */
static bool add_preempted(const struct kvt_report_run *run, double y[])
{
    bool known = false;
    for (int32_t r = 0; r < run->role_count; r++) {
        const struct kvt_report_role *role = &run->roles[r];
        known = known || role->preempted != NULL;
        for (int32_t i = 0; role->preempted != NULL && i < role->points; i++) {
            double bin = floor(role->seconds[i] / run->end_s * LATENCY_BINS);
            y[bin < LATENCY_BINS ? (int32_t)fmax(bin, 0) : LATENCY_BINS - 1] += role->preempted[i];
        }
    }
    return known;
}

static void draw_preemptions(struct kvt_drawing *drawing, const struct kvt_report *report)
{
    const struct kvt_report_run *run = &report->run;
    double *y = kvt_drawing_room(drawing, LATENCY_BINS), sum = 0;
    drawing->chart = (struct kvt_chart){.title = "Preemptions", .y_label = "preemptions"};
    bool known = y != NULL && run->end_s > 0 && add_preempted(run, y);
    if (!known)
        drawing->chart.title = "Preemptions, by arrival of the request";
    for (int64_t r = 0; y != NULL && !known && r < run->rows && run->end_s > 0; r++) {
        double bin = floor(run->columns[KVT_REPORT_ARRIVAL][r] / (run->end_s * 1e9) * LATENCY_BINS);
        double times = run->columns[KVT_REPORT_PREEMPTIONS][r];
        if (bin >= 0 && times > 0)
            y[bin < LATENCY_BINS ? (int32_t)bin : LATENCY_BINS - 1] += times;
    }
    for (int32_t i = 0; y != NULL && i < LATENCY_BINS; i++)
        sum += y[i];
    if (sum > 0)
        kvt_drawing_add(drawing, (struct kvt_curve){.kind = KVT_CURVE_BARS,
                                                    .color = 5,
                                                    .x = edges(drawing, run, LATENCY_BINS, false),
                                                    .y = y,
                                                    .count = LATENCY_BINS});
    over_time(drawing, run);
}

/* ---- all of them ---- */

static void (*const draw[KVT_FIGURE_COUNT])(struct kvt_drawing *, const struct kvt_report *) = {
    [KVT_FIGURE_TTFT] = draw_ttft,
    [KVT_FIGURE_TOKENS] = draw_tokens,
    [KVT_FIGURE_E2EL] = draw_e2el,
    [KVT_FIGURE_CONCURRENCY] = draw_concurrency,
    [KVT_FIGURE_RATES] = draw_rates,
    [KVT_FIGURE_LATENCY] = draw_latency,
    [KVT_FIGURE_QUEUE] = draw_queue,
    [KVT_FIGURE_BATCH] = draw_batch,
    [KVT_FIGURE_KV] = draw_kv,
    [KVT_FIGURE_LINK] = draw_link,
    [KVT_FIGURE_PREEMPTIONS] = draw_preemptions,
};

static void print(const struct kvt_report *report, enum kvt_figure figure,
                  const struct kvt_drawing *drawing, bool alone, FILE *out)
{
    if (!alone)
        fprintf(out, "<figure id=\"%s\">", kvt_figure_names[figure]);
    if (figure <= KVT_FIGURE_MEMORY_3)
        kvt_draw_memory(&report->run, (int32_t)figure - KVT_FIGURE_MEMORY, alone, out);
    else if (figure == KVT_FIGURE_FAULTS)
        kvt_draw_faults(&report->run, alone, out);
    else
        kvt_chart_print(&drawing->chart, alone, out);
    if (!alone)
        fputs("</figure>\n", out);
}

enum kvt_status kvt_report_figure(const struct kvt_report *report, enum kvt_figure figure,
                                  bool alone, FILE *out, bool *shown, struct kvt_err *err)
{
    struct kvt_drawing drawing = {0};
    if (draw[figure] != NULL)
        draw[figure](&drawing, report);
    *shown = kvt_chart_has_points(&drawing.chart);
    *shown = *shown || ((int)figure - KVT_FIGURE_MEMORY < report->run.memory_count);
    *shown = *shown || (figure == KVT_FIGURE_FAULTS && report->run.strike_count > 0);
    bool failed = drawing.failed;
    if (*shown && !failed)
        print(report, figure, &drawing, alone, out);
    kvt_drawing_release(&drawing);
    return failed ? kvt_err_set(err, KVT_ENOMEM, "no memory for the figure %s",
                                kvt_figure_names[figure])
                  : KVT_OK;
}

double *kvt_drawing_room(struct kvt_drawing *drawing, int32_t count)
{
    double *array = NULL;
    if (drawing->array_count < KVT_ARRAYS_MAX)
        array = calloc((size_t)count + 1, sizeof *array);
    if (array == NULL)
        drawing->failed = true;
    else
        drawing->arrays[drawing->array_count++] = array;
    return array;
}

void kvt_drawing_add(struct kvt_drawing *drawing, struct kvt_curve curve)
{
    if (curve.x != NULL && curve.y != NULL && drawing->chart.curve_count < KVT_CURVES_MAX)
        drawing->chart.curves[drawing->chart.curve_count++] = curve;
}

void kvt_drawing_release(struct kvt_drawing *drawing)
{
    for (int32_t i = 0; i < drawing->array_count; i++)
        free(drawing->arrays[i]);
    *drawing = (struct kvt_drawing){0};
}
