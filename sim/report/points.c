#include "sim/report/points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/base/names.h"
#include "sim/output/interval.h"
#include "sim/output/pairs.h"
#include "sim/output/parts.h"
#include "sim/report/parts.h"

#define CURVES 8 /* values of a setting that have a curve each */

#define X(name, column, label, figure) column,
static const char *const columns[KVT_POINTS_METRIC_COUNT] = {KVT_POINTS_METRICS(X)};
#undef X
#define X(name, column, label, figure) label,
static const char *const labels[KVT_POINTS_METRIC_COUNT] = {KVT_POINTS_METRICS(X)};
#undef X
#define X(name, column, label, figure) figure,
const char *const kvt_points_figure_names[KVT_POINTS_METRIC_COUNT] = {KVT_POINTS_METRICS(X)};
#undef X

/* ---- the file ----------------------------------------------------------------------------- */

static enum kvt_status damaged(const struct kvt_points_page *page, struct kvt_err *err)
{
    return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = page->reader.path},
                      "the file is damaged: its columns differ in length");
}

static enum kvt_status read_texts(struct kvt_points_page *page, const char *group, const char *name,
                                  struct kvt_points_setting *to, struct kvt_err *err)
{
    char path[160];
    int64_t rows;
    snprintf(path, sizeof path, "%s/%.120s", group, name);
    to->name = strdup(name);
    if (to->name == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for /%s", path);
    KVT_TRY(kvt_points_reader_texts(&page->reader, path, &to->texts, &to->width, &rows, err));
    page->rows = page->rows < 0 ? rows : page->rows;
    return rows == page->rows ? KVT_OK : damaged(page, err);
}

static enum kvt_status read_numbers(struct kvt_points_page *page, const char *group,
                                    const char *name, double **to, struct kvt_err *err)
{
    char path[96];
    int64_t rows;
    snprintf(path, sizeof path, "%.30s/%.60s", group, name);
    if (!kvt_run_reader_has(&page->reader, path))
        return page->reader.unread == KVT_OK
                   ? KVT_OK
                   : kvt_err_at(err, page->reader.unread,
                                (struct kvt_where){page->reader.path, 0, 0}, "/%s cannot be read",
                                path);
    KVT_TRY(kvt_run_reader_column(&page->reader, path, to, &rows, err));
    return rows == page->rows ? KVT_OK : damaged(page, err);
}

static enum kvt_status read_settings(struct kvt_points_page *page, struct kvt_err *err)
{
    char **names;
    int32_t count;
    enum kvt_status status = kvt_run_reader_names(&page->reader, "settings", &names, &count, err);
    for (int32_t i = 0; i < count; i++) {
        if (status == KVT_OK && page->setting_count < KVT_POINTS_SETTINGS)
            status =
                read_texts(page, "settings", names[i], &page->settings[page->setting_count++], err);
        free(names[i]);
    }
    free(names);
    return status;
}

static const char *text_of(const struct kvt_points_setting *setting, int64_t row)
{
    return setting->texts != NULL ? setting->texts + (size_t)row * setting->width : "";
}

/* The value of a column for the best; NaN where there is none. */
static enum kvt_status read_best(struct kvt_points_page *page, const char *group, const char *name,
                                 double *value, struct kvt_err *err)
{
    double *column = NULL;
    enum kvt_status status = read_numbers(page, group, name, &column, err);
    *value = status == KVT_OK && column != NULL ? column[page->best] : (double)NAN;
    free(column);
    return status;
}

/* A line for a bound of the SLO: its column is called slo_ttft_p90_ms, its key slo.ttft.p90. */
static enum kvt_status print_bound(struct kvt_points_page *page, const char *column,
                                   const struct kvt_pairs *keys, FILE *out, struct kvt_err *err)
{
    char latency[8], percentile[16], key[32], end[80], number[96];
    double value, low, high;
    if (sscanf(column, "slo_%7[a-z0-9]_%15[^_]_%3s", latency, percentile, end) != 3 ||
        strcmp(end, "ms") != 0)
        return KVT_OK;
    KVT_TRY(read_best(page, "metrics", column, &value, err));
    snprintf(end, sizeof end, "%.40s_low", column);
    KVT_TRY(read_best(page, "metrics", end, &low, err));
    snprintf(end, sizeof end, "%.40s_high", column);
    KVT_TRY(read_best(page, "metrics", end, &high, err));
    if (isnan(value))
        return KVT_OK;
    snprintf(key, sizeof key, "slo.%s.%s", latency, percentile);
    for (int l = 0; l < KVT_LATENCY_COUNT; l++)
        if (strcmp(kvt_latency_keys[l], latency) == 0)
            fputs(kvt_latency_labels[l], out);
    fprintf(out, " %s %s ms", percentile,
            kvt_interval_print(value, isnan(low) ? value : low, isnan(high) ? value : high,
                               value < 100 ? 1 : 0, number, sizeof number));
    for (int32_t i = 0; i < keys->count; i++)
        if (strcmp(keys->pairs[i].name, key) == 0)
            fprintf(out, ", want %s", keys->pairs[i].text[0]);
    fputc('\n', out);
    return KVT_OK;
}

/* As `plan` prints it: the bounds of the SLO, which is the nearest, how busy its roles are. */
static enum kvt_status print_best(struct kvt_points_page *page, FILE *out, struct kvt_err *err)
{
    struct kvt_pairs keys = {0};
    char **names = NULL, name[64];
    int32_t count = 0;
    double worst, busy, peak;
    enum kvt_status status = kvt_pairs_add_yaml(&keys, 0, page->reader.path, page->config, err);
    if (status == KVT_OK)
        status = kvt_run_reader_names(&page->reader, "metrics", &names, &count, err);
    for (int32_t i = 0; i < count; i++) {
        if (status == KVT_OK)
            status = print_bound(page, names[i], &keys, out, err);
        free(names[i]);
    }
    free(names);
    kvt_pairs_release(&keys);
    KVT_TRY(status);
    KVT_TRY(read_best(page, "candidates", "worst", &worst, err));
    fprintf(out, "limited by %s, at %.2f of its bound", text_of(&page->message, page->best), worst);
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        snprintf(name, sizeof name, "%s_busy_fraction", kvt_role_names[role]);
        KVT_TRY(read_best(page, "metrics", name, &busy, err));
        snprintf(name, sizeof name, "%s_pages_peak_fraction", kvt_role_names[role]);
        KVT_TRY(read_best(page, "metrics", name, &peak, err));
        if (!isnan(busy))
            fprintf(out, "; %s busy %.0f %%, %.0f %% of its KV pages at the peak",
                    kvt_role_names[role], 100 * busy, 100 * peak);
    }
    return KVT_OK;
}

static enum kvt_status describe_best(struct kvt_points_page *page, struct kvt_err *err)
{
    size_t bytes;
    if (page->best < 0)
        return KVT_OK;
    FILE *out = kvt_memory_open(&page->best_text, &bytes);
    if (out == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the best");
    enum kvt_status status = print_best(page, out, err);
    bool whole = kvt_memory_close(out, &page->best_text);
    return whole || status != KVT_OK ? status
                                     : kvt_err_set(err, KVT_ENOMEM, "no memory for the best");
}

/* What only a search has. */
static enum kvt_status read_search(struct kvt_points_page *page, struct kvt_err *err)
{
    struct kvt_stored *meta = malloc(sizeof *meta);
    if (meta == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for /meta");
    enum kvt_status status = kvt_run_reader_values(&page->reader, "meta", meta, err);
    double best = status == KVT_OK ? kvt_stored_number(meta, "best") : -1;
    if (best >= 0 && best < (double)page->rows)
        page->best = (int64_t)best;
    free(meta);
    KVT_TRY(status);
    KVT_TRY(read_texts(page, "candidates", "state", &page->state, err));
    KVT_TRY(read_numbers(page, "candidates", "on_front", &page->on_front, err));
    KVT_TRY(read_numbers(page, "candidates", "objective", &page->objective, err));
    for (int m = KVT_POINTS_GPUS; m <= KVT_POINTS_USD; m++) {
        free(page->metrics[m]); /* known of candidates that were not run too */
        page->metrics[m] = NULL;
        KVT_TRY(read_numbers(page, "candidates", m == KVT_POINTS_GPUS ? "gpus" : "usd_per_h",
                             &page->metrics[m], err));
    }
    return describe_best(page, err);
}

enum kvt_status kvt_points_page_read(struct kvt_points_page *page, const char *path,
                                     struct kvt_err *err)
{
    char kind[16];
    *page = (struct kvt_points_page){.rows = -1, .best = -1};
    KVT_TRY(kvt_points_reader_open(&page->reader, path, kind, err));
    page->is_plan = strcmp(kind, "plan") == 0;
    if (!page->is_plan && strcmp(kind, "sweep") != 0)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path},
                          "want the file of a run, a sweep or a plan, got that of %s",
                          strcmp(kind, "faults") == 0 ? "a fault campaign (inject -o)"
                                                      : "another kind");
    KVT_TRY(kvt_run_reader_config(&page->reader, &page->config, err));
    KVT_TRY(read_settings(page, err));
    KVT_TRY(
        read_texts(page, page->is_plan ? "candidates" : "points", "message", &page->message, err));
    for (int m = 0; m < KVT_POINTS_METRIC_COUNT; m++)
        KVT_TRY(read_numbers(page, "metrics", columns[m], &page->metrics[m], err));
    return page->is_plan ? read_search(page, err) : KVT_OK;
}

void kvt_points_page_release(struct kvt_points_page *page)
{
    struct kvt_points_setting *others[] = {&page->state, &page->message};
    kvt_run_reader_close(&page->reader);
    for (int32_t i = 0; i < page->setting_count; i++) {
        free(page->settings[i].name);
        free(page->settings[i].texts);
    }
    for (int i = 0; i < 2; i++) {
        free(others[i]->name);
        free(others[i]->texts);
    }
    for (int m = 0; m < KVT_POINTS_METRIC_COUNT; m++)
        free(page->metrics[m]);
    free(page->on_front);
    free(page->objective);
    free(page->config);
    free(page->best_text);
    *page = (struct kvt_points_page){0};
}

/* ---- settings as axes --------------------------------------------------------------------- */

/* A setting as a number ("8", "0.5", "25 GB/s"); NaN when it begins with none. */
static double number_of(const struct kvt_points_setting *setting, int64_t row)
{
    char *end;
    const char *text = text_of(setting, row);
    double value = strtod(text, &end);
    return end != text ? value : (double)NAN;
}

/* The different texts of a setting, at most `most` + 1: how many. */
static int32_t values_of(const struct kvt_points_page *page, int32_t setting, const char *values[],
                         int32_t most)
{
    int32_t count = 0;
    for (int64_t r = 0; r < page->rows && count <= most; r++) {
        const char *text = text_of(&page->settings[setting], r);
        int32_t i = 0;
        while (i < count && strcmp(values[i], text) != 0)
            i++;
        if (i == count && count < most)
            values[i] = text;
        count += i == count;
    }
    return count;
}

/* The setting of the most different values that are all numbers, the first of equal ones; -1: there
 * is none. */
static int32_t axis_of(const struct kvt_points_page *page)
{
    enum { MOST = 64 };
    const char *values[MOST + 1];
    int32_t axis = -1, most = 1;
    for (int32_t s = 0; s < page->setting_count; s++) {
        bool numbers = true;
        for (int64_t r = 0; r < page->rows && numbers; r++)
            numbers = isfinite(number_of(&page->settings[s], r));
        int32_t count = numbers ? values_of(page, s, values, MOST) : 0;
        axis = count > most ? s : axis;
        most = count > most ? count : most;
    }
    return axis;
}

/* The first other setting with few values; -1: there is none. */
static int32_t group_of(const struct kvt_points_page *page, int32_t axis)
{
    const char *values[CURVES + 1];
    for (int32_t s = 0; s < page->setting_count; s++) {
        int32_t count = s != axis ? values_of(page, s, values, CURVES) : 0;
        if (count >= 2 && count <= CURVES)
            return s;
    }
    return -1;
}

/* ---- figures ------------------------------------------------------------------------------ */

struct pair {
    double x, y;
};

static int by_x(const void *a, const void *b)
{
    const struct pair *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->y > q->y) - (p->y < q->y);
}

/* Points of rows that `takes` as a curve, by x: a line where each x is there once. */
static void add_rows(struct kvt_drawing *drawing, const struct kvt_points_page *page,
                     const struct pair all[], const bool takes[], struct kvt_curve curve)
{
    struct pair *own = malloc(((size_t)page->rows + 1) * sizeof *own);
    double *x = kvt_drawing_room(drawing, (int32_t)page->rows);
    double *y = kvt_drawing_room(drawing, (int32_t)page->rows);
    int32_t count = 0;
    bool once = true;
    drawing->failed = drawing->failed || own == NULL;
    for (int64_t r = 0; own != NULL && r < page->rows; r++)
        if (takes[r] && isfinite(all[r].x) && isfinite(all[r].y))
            own[count++] = all[r];
    if (own != NULL)
        qsort(own, (size_t)count, sizeof *own, by_x);
    for (int32_t i = 0; i < count && !drawing->failed; i++) {
        x[i] = own[i].x;
        y[i] = own[i].y;
        once = once && (i == 0 || x[i] != x[i - 1]);
    }
    free(own);
    if (drawing->failed || count == 0)
        return;
    curve.x = x;
    curve.y = y;
    curve.count = count;
    if (curve.kind == KVT_CURVE_LINE && (!once || count == 1))
        curve.kind = KVT_CURVE_POINTS;
    kvt_drawing_add(drawing, curve);
}

static void draw_sweep(struct kvt_drawing *drawing, const struct kvt_points_page *page,
                       struct pair all[], bool takes[])
{
    const char *values[CURVES + 1] = {NULL};
    int32_t axis = axis_of(page), group = group_of(page, axis);
    int32_t curves = group >= 0 ? values_of(page, group, values, CURVES) : 1;
    drawing->chart.x_label = axis >= 0 ? page->settings[axis].name : "point";
    double least = (double)INFINITY, most = 0;
    for (int64_t r = 0; r < page->rows; r++) {
        all[r].x = axis >= 0 ? number_of(&page->settings[axis], r) : (double)r;
        least = fmin(least, all[r].x);
        most = fmax(most, all[r].x);
    }
    drawing->chart.x_log = axis >= 0 && least > 0 && most >= 20 * least;
    for (int32_t c = 0; c < curves; c++) {
        for (int64_t r = 0; r < page->rows; r++)
            takes[r] = group < 0 || strcmp(text_of(&page->settings[group], r), values[c]) == 0;
        char *label = drawing->texts[c];
        if (group >= 0)
            snprintf(label, sizeof drawing->texts[0], "%.40s", values[c]);
        add_rows(drawing, page, all, takes,
                 (struct kvt_curve){.label = group >= 0 ? label : NULL,
                                    .kind = axis >= 0 ? KVT_CURVE_LINE : KVT_CURVE_POINTS,
                                    .color = c});
    }
}

/* Candidates by what they cost: those that miss, those that meet the SLO, the front, the best. */
static void draw_search(struct kvt_drawing *drawing, const struct kvt_points_page *page,
                        struct pair all[], bool takes[])
{
    const double *cost = page->metrics[KVT_POINTS_USD];
    bool priced = false;
    for (int64_t r = 0; cost != NULL && r < page->rows; r++)
        priced = priced || cost[r] > 0;
    if (!priced)
        cost = page->metrics[KVT_POINTS_GPUS];
    drawing->chart.x_label = labels[priced ? KVT_POINTS_USD : KVT_POINTS_GPUS];
    for (int64_t r = 0; r < page->rows; r++)
        all[r].x = cost != NULL ? cost[r] : (double)r;
    static const char *const names[] = {"misses the SLO", "meets the SLO", "front", "best"};
    static const enum kvt_curve_kind kinds[] = {KVT_CURVE_POINTS, KVT_CURVE_POINTS, KVT_CURVE_LINE,
                                                KVT_CURVE_RINGS};
    static const int32_t colors[] = {1, 0, 2, 3};
    for (int turn = 0; turn < 4; turn++) {
        for (int64_t r = 0; r < page->rows; r++) {
            bool meets = strcmp(text_of(&page->state, r), "meets") == 0;
            bool front = page->on_front != NULL && page->on_front[r] > 0;
            takes[r] = turn == 0 ? !meets : turn == 1 ? meets : turn == 2 ? front : r == page->best;
        }
        add_rows(
            drawing, page, all, takes,
            (struct kvt_curve){.label = names[turn], .kind = kinds[turn], .color = colors[turn]});
    }
}

enum kvt_status kvt_points_page_figure(const struct kvt_points_page *page,
                                       enum kvt_points_metric metric, bool alone, FILE *out,
                                       bool *shown, struct kvt_err *err)
{
    struct kvt_drawing drawing = {.chart = {.title = labels[metric]}};
    bool is_plan = page->is_plan;
    *shown = false;
    if (page->metrics[metric] == NULL || page->rows == 0 || page->rows > INT32_MAX / 2 ||
        metric == KVT_POINTS_GPUS || metric == KVT_POINTS_USD)
        return KVT_OK;
    struct pair *all = calloc((size_t)page->rows, sizeof *all);
    bool *takes = calloc((size_t)page->rows, sizeof *takes);
    drawing.failed = all == NULL || takes == NULL;
    drawing.chart.y_log = metric == KVT_POINTS_TTFT || metric == KVT_POINTS_ITL;
    if (!drawing.failed) {
        for (int64_t r = 0; r < page->rows; r++)
            all[r].y = page->metrics[metric][r];
        (is_plan ? draw_search : draw_sweep)(&drawing, page, all, takes);
    }
    *shown = !drawing.failed && kvt_chart_has_points(&drawing.chart);
    if (*shown && !alone)
        fprintf(out, "<figure id=\"%s\">", kvt_points_figure_names[metric]);
    if (*shown)
        kvt_chart_print(&drawing.chart, alone, out);
    if (*shown && !alone)
        fputs("</figure>\n", out);
    bool failed = drawing.failed;
    kvt_drawing_release(&drawing);
    free(all);
    free(takes);
    return failed ? kvt_err_set(err, KVT_ENOMEM, "no memory for the figure %s",
                                kvt_points_figure_names[metric])
                  : KVT_OK;
}

/* ---- the page ----------------------------------------------------------------------------- */

static const struct kvt_points_page *sorted; /* of the sort under way; one thread sorts */

/* The best, the front, by objective; those without one last. */
static int by_rank(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const double *front = sorted->on_front, *objective = sorted->objective;
    if ((i == sorted->best) != (j == sorted->best))
        return i == sorted->best ? -1 : 1;
    if (front != NULL && (front[i] > 0) != (front[j] > 0))
        return front[i] > 0 ? -1 : 1;
    bool known = objective != NULL && isfinite(objective[i]);
    bool other = objective != NULL && isfinite(objective[j]);
    if (known != other)
        return known ? -1 : 1;
    if (known && objective[i] != objective[j])
        return objective[i] < objective[j] ? -1 : 1;
    return (i > j) - (i < j);
}

static void print_row(const struct kvt_points_page *page, int64_t r, FILE *out)
{
    char number[96];
    bool is_plan = page->is_plan;
    bool run = page->metrics[KVT_POINTS_OUT] != NULL && isfinite(page->metrics[KVT_POINTS_OUT][r]);
    fputs(r == page->best ? "<tr class=\"good\">" : "<tr>", out);
    for (int32_t s = 0; s < page->setting_count; s++) {
        fputs("<td>", out);
        kvt_svg_text(text_of(&page->settings[s], r), out);
    }
    if (is_plan) {
        fputs("<td>", out);
        kvt_svg_text(r == page->best ? "best" : text_of(&page->state, r), out);
    }
    for (int m = 0; m < KVT_POINTS_METRIC_COUNT; m++) {
        double value = page->metrics[m] != NULL ? page->metrics[m][r] : (double)NAN;
        int decimals = fabs(value) >= 1000 || value == floor(value) ? 0 : fabs(value) >= 1 ? 2 : 3;
        if (page->metrics[m] != NULL)
            fprintf(out, "<td>%s",
                    isfinite(value) ? kvt_number_print(value, decimals, number, sizeof number)
                                    : "\xe2\x80\x93");
    }
    fputs("<td class=\"why\">", out);
    if (is_plan || !run)
        kvt_svg_text(text_of(&page->message, r), out);
    fputs("</tr>\n", out);
}

static enum kvt_status print_table(const struct kvt_points_page *page, FILE *out,
                                   struct kvt_err *err)
{
    bool is_plan = page->is_plan;
    int64_t *order = malloc(((size_t)page->rows + 1) * sizeof *order);
    if (order == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a table");
    for (int64_t r = 0; r < page->rows; r++)
        order[r] = r;
    sorted = page;
    if (is_plan)
        qsort(order, (size_t)page->rows, sizeof *order, by_rank);
    fputs("<h2>Points</h2>\n<div class=\"table\"><table><tr>", out);
    for (int32_t s = 0; s < page->setting_count; s++) {
        fputs("<th>", out);
        kvt_svg_text(page->settings[s].name, out);
    }
    fputs(is_plan ? "<th>state" : "", out);
    for (int m = 0; m < KVT_POINTS_METRIC_COUNT; m++)
        if (page->metrics[m] != NULL)
            fprintf(out, "<th>%s", labels[m]);
    fputs("<th class=\"why\"></tr>\n", out);
    for (int64_t i = 0; i < page->rows && i < KVT_POINTS_SHOWN; i++)
        print_row(page, order[i], out);
    fputs("</table></div>\n", out);
    if (page->rows > KVT_POINTS_SHOWN)
        fprintf(out, "<p class=\"soft\">The first %d of %lld; all are in the file.</p>\n",
                KVT_POINTS_SHOWN, (long long)page->rows);
    free(order);
    return KVT_OK;
}

enum kvt_status kvt_points_page_html(const struct kvt_points_page *page, FILE *out,
                                     struct kvt_err *err)
{
    char title[64], number[32];
    bool is_plan = page->is_plan;
    snprintf(title, sizeof title, "%s of %s %s", is_plan ? "Search" : "Sweep",
             kvt_number_print((double)page->rows, 0, number, sizeof number),
             is_plan ? "candidates" : "points");
    kvt_page_begin(title, out);
    fputs("<header><h1>", out);
    kvt_svg_text(title, out);
    fputs("</h1>\n<p class=\"soft\">", out);
    kvt_svg_text(page->reader.path, out);
    fputs("</p></header>\n", out);
    if (is_plan && page->best < 0)
        fputs("<p class=\"bad\">Nothing meets the SLO.</p>\n", out);
    if (page->best_text != NULL) {
        fputs("<h2>Best</h2>\n<pre>", out);
        kvt_svg_text(page->best_text, out);
        fputs("</pre>\n", out);
    }
    fputs("<h2>Figures</h2>\n<section class=\"grid\">\n", out);
    for (int m = 0; m < KVT_POINTS_METRIC_COUNT; m++) {
        bool shown;
        KVT_TRY(kvt_points_page_figure(page, (enum kvt_points_metric)m, false, out, &shown, err));
    }
    fputs("</section>\n", out);
    KVT_TRY(print_table(page, out, err));
    fputs("<h2>Configuration</h2>\n<pre>", out);
    kvt_svg_text(page->config != NULL ? page->config : "", out);
    fputs("</pre>\n</main></body></html>\n", out);
    return KVT_OK;
}
