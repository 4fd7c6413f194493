#include "cli/reproduce.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fields.h"
#include "sim/base/json.h"
#include "sim/base/list.h"
#include "sim/output/interval.h"

struct kvt_reproduced *kvt_reproduced_add(struct kvt_reproduced_list *list)
{
    void *grown = kvt_list_grow(list->rows, list->count, &list->room, sizeof *list->rows);
    if (grown == NULL)
        return NULL;
    list->rows = grown;
    struct kvt_reproduced *row = &list->rows[list->count++];
    *row = (struct kvt_reproduced){.kind = "predicted"};
    row->observed = row->predicted = row->unfitted = (double)NAN;
    row->low = row->high = row->pool_error = (double)NAN;
    return row;
}

struct kvt_fitted_constants *kvt_reproduced_add_constants(struct kvt_reproduced_list *list)
{
    void *grown = kvt_list_grow(list->constants, list->constant_count, &list->constant_room,
                                sizeof *list->constants);
    if (grown == NULL)
        return NULL;
    list->constants = grown;
    return &list->constants[list->constant_count++];
}

void kvt_reproduced_free(struct kvt_reproduced_list *list)
{
    free(list->rows);
    free(list->constants);
    *list = (struct kvt_reproduced_list){0};
}

static double error_of(const struct kvt_reproduced *row, double predicted)
{
    if (!row->supported || !(row->observed > 0) || isnan(predicted))
        return (double)NAN;
    return predicted / row->observed - 1;
}

static double row_error(const struct kvt_reproduced *row)
{
    return error_of(row, row->predicted);
}

/* A summary is of all rows or of the reliable ones, with the constants of a fit or without. */
struct view {
    const char *name; /* of the object in JSON */
    const char *title;
    bool reliable, unfitted;
};
static const struct view views[] = {
    {"by_metric", "all rows", false, false},
    {"by_metric_reliable", "reliable rows", true, false},
    {"by_metric_unfitted", "all rows, nothing fitted", false, true},
    {"by_metric_reliable_unfitted", "reliable rows, nothing fitted", true, true},
};
enum { VIEWS = sizeof views / sizeof *views };

/* One line of the summary: a metric, or the pool's error as a fraction of memory of one engine. */
struct metric {
    char name[64];
    int32_t supported, compared;
    double median, p90;
    int32_t with, inside; /* rows with an interval; of these, with the observed value inside */
};

static bool of_metric(const struct kvt_reproduced *row, const struct view *view, const char *name,
                      double *value)
{
    static const char prefix[] = "pool_error_of_memory_";
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
        *value = row->pool_error;
        return row->supported && strcmp(row->metric, "kv_gib_per_gpu") == 0 &&
               row->group[0] != '\0' && strcmp(row->group, name + sizeof prefix - 1) == 0;
    }
    *value = error_of(row, view->unfitted ? row->unfitted : row->predicted);
    return row->supported && (row->reliable || !view->reliable) && strcmp(row->metric, name) == 0;
}

static void count_inside(const struct kvt_reproduced *row, struct metric *metric)
{
    if (isnan(row->low) || !(row->observed > 0))
        return;
    metric->with++;
    metric->inside += row->low <= row->observed && (row->observed <= row->high || row->below);
}

static void summarise(const struct kvt_reproduced_list *list, const struct view *view,
                      double scratch[], struct metric *metric)
{
    for (int32_t i = 0; i < list->count; i++) {
        double value;
        if (!of_metric(&list->rows[i], view, metric->name, &value))
            continue;
        metric->supported++;
        if (!view->unfitted)
            count_inside(&list->rows[i], metric);
        if (!isnan(value))
            scratch[metric->compared++] = fabs(value);
    }
    size_t count = (size_t)metric->compared;
    gsl_sort(scratch, 1, count);
    metric->median = count > 0 ? gsl_stats_median_from_sorted_data(scratch, 1, count) : (double)NAN;
    metric->p90 =
        count > 0 ? gsl_stats_quantile_from_sorted_data(scratch, 1, count, 0.9) : (double)NAN;
}

#define METRICS_MAX 32

static void add_metric(struct metric metrics[], int32_t *count, const char *prefix,
                       const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    for (int32_t m = 0; m < *count; m++)
        if (strcmp(metrics[m].name, whole) == 0)
            return;
    if (*count < METRICS_MAX)
        snprintf(metrics[(*count)++].name, sizeof metrics->name, "%s", whole);
}

/* The metrics of the list, in order of first appearance. */
static int32_t list_metrics(const struct kvt_reproduced_list *list, struct metric metrics[])
{
    int32_t count = 0;
    for (int32_t i = 0; i < list->count; i++)
        add_metric(metrics, &count, "", list->rows[i].metric);
    for (int32_t i = 0; i < list->count; i++)
        if (list->rows[i].group[0] != '\0')
            add_metric(metrics, &count, "pool_error_of_memory_", list->rows[i].group);
    return count;
}

static double share_inside(const struct metric *metric)
{
    return metric->with > 0 ? (double)metric->inside / metric->with : (double)NAN;
}

struct summary {
    int32_t views[VIEWS], view_count; /* which there are */
    int32_t metric_count;
    struct metric metrics[VIEWS][METRICS_MAX];
};

static enum kvt_status summary_init(const struct kvt_reproduced_list *list, struct summary *s,
                                    struct kvt_err *err)
{
    double *scratch = malloc(((size_t)list->count + 1) * sizeof *scratch);
    bool reliable = false;
    *s = (struct summary){0};
    if (scratch == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the summary");
    for (int32_t i = 0; i < list->count; i++)
        reliable = reliable || list->rows[i].reliable;
    for (int32_t v = 0; v < VIEWS; v++) {
        if ((views[v].unfitted && !list->fitted) || (views[v].reliable && !reliable))
            continue;
        s->metric_count = list_metrics(list, s->metrics[s->view_count]);
        for (int32_t m = 0; m < s->metric_count; m++)
            summarise(list, &views[v], scratch, &s->metrics[s->view_count][m]);
        s->views[s->view_count++] = v;
    }
    free(scratch);
    return KVT_OK;
}

static json_t *row_json(const struct kvt_reproduced *row, bool published, bool fitted)
{
    json_t *object = json_object();
    json_object_set_new(object, published ? "name" : "row_id", kvt_json_text(row->row));
    json_object_set_new(object, "metric", kvt_json_text(row->metric));
    json_object_set_new(object, published ? "published" : "observed", kvt_json_real(row->observed));
    json_object_set_new(object, published ? "simulated" : "predicted",
                        kvt_json_real(row->predicted));
    if (published || !isnan(row->low)) {
        json_object_set_new(object, "low", kvt_json_real(row->low));
        json_object_set_new(object, "high", kvt_json_real(row->high));
    }
    json_object_set_new(object, "error", kvt_json_real(row_error(row)));
    if (fitted) {
        json_object_set_new(object, "unfitted", kvt_json_real(row->unfitted));
        json_object_set_new(object, "unfitted_error", kvt_json_real(error_of(row, row->unfitted)));
        json_object_set_new(object, "reliable", json_boolean(row->reliable));
    }
    if (!isnan(row->pool_error))
        json_object_set_new(object, "pool_error_of_memory", kvt_json_real(row->pool_error));
    json_object_set_new(object, "kind", json_string(row->kind));
    if (!published || !row->supported)
        json_object_set_new(object, "status", json_string(row->supported ? "ok" : "unsupported"));
    if (!row->supported)
        json_object_set_new(object, "reason", kvt_json_text(row->reason));
    return object;
}

static json_t *constants_json(const struct kvt_reproduced_list *list)
{
    json_t *all = json_array();
    for (int32_t i = 0; i < list->constant_count; i++) {
        const struct kvt_fitted_constants *c = &list->constants[i];
        json_t *one = json_object();
        json_object_set_new(one, "engine", json_string(c->engine));
        json_object_set_new(one, "gpu", json_string(c->gpu));
        json_object_set_new(one, "left_out",
                            c->left_out[0] != '\0' ? json_string(c->left_out) : json_null());
        json_object_set_new(one, "layer_us", kvt_json_real(c->layer * 1e6));
        json_object_set_new(one, "request_ms", kvt_json_real(c->request * 1e3));
        json_object_set_new(one, "points", json_integer(c->points));
        json_object_set_new(one, "models", json_integer(c->models));
        json_array_append_new(all, one);
    }
    return all;
}

static json_t *metrics_json(const struct metric metrics[], int32_t count)
{
    json_t *by_metric = json_object();
    for (int32_t m = 0; m < count; m++) {
        json_t *one = json_object();
        json_object_set_new(one, "supported_rows", json_integer(metrics[m].supported));
        json_object_set_new(one, "compared_rows", json_integer(metrics[m].compared));
        json_object_set_new(one, "median_abs_error", kvt_json_real(metrics[m].median));
        json_object_set_new(one, "p90_abs_error", kvt_json_real(metrics[m].p90));
        if (metrics[m].with > 0)
            json_object_set_new(one, "inside_interval", kvt_json_real(share_inside(&metrics[m])));
        json_object_set_new(by_metric, metrics[m].name, one);
    }
    return by_metric;
}

static enum kvt_status print_json(const struct kvt_reproduced_list *list, bool published,
                                  const struct summary *summary, struct kvt_err *err)
{
    json_t *root = json_object(), *rows = json_array();
    for (int32_t i = 0; i < list->count; i++)
        json_array_append_new(rows, row_json(&list->rows[i], published, list->fitted));
    json_object_set_new(root, "rows", rows);
    if (list->fitted)
        json_object_set_new(root, "constants", constants_json(list));
    for (int32_t v = 0; v < summary->view_count; v++)
        json_object_set_new(root, views[summary->views[v]].name,
                            metrics_json(summary->metrics[v], summary->metric_count));
    return kvt_json_print(root, 10, stdout, err);
}

static void print_number(double value)
{
    putchar(',');
    kvt_csv_number(stdout, value);
}

static void print_csv(const struct kvt_reproduced_list *list, bool published)
{
    printf("%s,metric,%s,%s,low,high,error,pool_error_of_memory,kind,status,reason%s\n",
           published ? "name" : "row_id", published ? "published" : "observed",
           published ? "simulated" : "predicted", list->fitted ? ",unfitted,unfitted_error" : "");
    for (int32_t i = 0; i < list->count; i++) {
        const struct kvt_reproduced *row = &list->rows[i];
        const double numbers[] = {row->observed, row->predicted, row->low,
                                  row->high,     row_error(row), row->pool_error};
        kvt_csv_field(stdout, row->row);
        putchar(',');
        kvt_csv_field(stdout, row->metric);
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            print_number(numbers[n]);
        printf(",%s,%s,", row->kind, row->supported ? "ok" : "unsupported");
        kvt_csv_field(stdout, row->supported ? "" : row->reason);
        if (list->fitted) {
            print_number(row->unfitted);
            print_number(error_of(row, row->unfitted));
        }
        putchar('\n');
    }
}

static void print_cell_right(double value, double low, double high, int decimals)
{
    char text[160] = "-";
    if (isfinite(value))
        kvt_interval_print(value, low, high, decimals, text, sizeof text);
    putchar(' ');
    kvt_print_right(stdout, text, 16);
}

static void print_percent(double value, int width)
{
    if (isfinite(value))
        printf(" %+*.2f%%", width - 1, 100 * value);
    else
        printf(" %*s", width, "-");
}

static void print_constant(double value, int width)
{
    if (isfinite(value))
        printf(" %*.1f", width, value);
    else
        printf(" %*s", width, "-");
}

static void print_constants(const struct kvt_reproduced_list *list)
{
    printf("\n%-8s %-16s %-24s %7s %7s %10s %11s\n", "engine", "gpu", "without the model", "models",
           "points", "layer (us)", "request (ms)");
    for (int32_t i = 0; i < list->constant_count; i++) {
        const struct kvt_fitted_constants *c = &list->constants[i];
        printf("%-8s %-16s %-24s %7d %7d", c->engine, c->gpu,
               c->left_out[0] != '\0' ? c->left_out : "-", c->models, c->points);
        print_constant(c->layer * 1e6, 10);
        print_constant(c->request * 1e3, 11);
        putchar('\n');
    }
}

static void print_summary(const struct summary *summary)
{
    for (int32_t v = 0; v < summary->view_count; v++) {
        const char *title = summary->view_count > 1 ? views[summary->views[v]].title : "metric";
        bool inside = false;
        for (int32_t i = 0; i < summary->metric_count; i++)
            inside = inside || summary->metrics[v][i].with > 0;
        printf("\n%-42s %9s %9s %9s %9s%s\n", title, "supported", "compared", "median", "p90",
               inside ? "    inside" : "");
        for (int32_t i = 0; i < summary->metric_count; i++) {
            const struct metric *m = &summary->metrics[v][i];
            printf("%-42s %9d %9d", m->name, m->supported, m->compared);
            print_percent(m->median, 9);
            print_percent(m->p90, 9);
            if (m->with > 0)
                printf(" %5d/%d", m->inside, m->with);
            putchar('\n');
        }
    }
}

static void print_text(const struct kvt_reproduced_list *list, bool published,
                       const struct summary *summary)
{
    printf("%-24s %-24s %16s %16s %9s %9s\n", published ? "name" : "row", "metric",
           published ? "published" : "observed", published ? "simulated" : "predicted", "error",
           "of mem");
    for (int32_t i = 0; i < list->count; i++) {
        const struct kvt_reproduced *row = &list->rows[i];
        double size = fmin(fabs(row->predicted), fabs(row->observed)); /* the one that is there */
        int decimals = size < 1 ? 4 : size < 1000 ? 2 : 0;
        printf("%-24s %-24s", row->row, row->metric);
        if (!row->supported) {
            printf(" unsupported: %s\n", row->reason);
            continue;
        }
        print_cell_right(row->observed, row->observed, row->observed, decimals);
        print_cell_right(row->predicted, row->low, row->high, decimals);
        print_percent(row_error(row), 9);
        print_percent(row->pool_error, 9);
        puts(strcmp(row->kind, "fitted") == 0 ? " fitted" : "");
    }
    if (list->fitted)
        print_constants(list);
    print_summary(summary);
}

enum kvt_status kvt_reproduced_print(const struct kvt_reproduced_list *list, bool published,
                                     enum kvt_cli_format format, struct kvt_err *err)
{
    struct summary summary;
    KVT_TRY(summary_init(list, &summary, err));
    if (format == KVT_FORMAT_JSON)
        return print_json(list, published, &summary, err);
    if (format == KVT_FORMAT_CSV)
        print_csv(list, published);
    else
        print_text(list, published, &summary);
    return KVT_OK;
}
