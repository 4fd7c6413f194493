#include "cli/reproduce.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/output/interval.h"

struct kvt_reproduced *kvt_reproduced_add(struct kvt_reproduced_list *list)
{
    if (list->count == list->room) {
        int32_t room = list->room == 0 ? 64 : list->room * 2;
        struct kvt_reproduced *rows = realloc(list->rows, (size_t)room * sizeof *rows);
        if (rows == NULL)
            return NULL;
        list->rows = rows;
        list->room = room;
    }
    struct kvt_reproduced *row = &list->rows[list->count++];
    *row = (struct kvt_reproduced){.kind = "predicted"};
    row->observed = row->predicted = row->low = row->high = row->pool_error = (double)NAN;
    return row;
}

void kvt_reproduced_free(struct kvt_reproduced_list *list)
{
    free(list->rows);
    *list = (struct kvt_reproduced_list){0};
}

static double row_error(const struct kvt_reproduced *row)
{
    if (!row->supported || !(row->observed > 0) || isnan(row->predicted))
        return (double)NAN;
    return row->predicted / row->observed - 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Quantile of sorted values, linear between neighbours. */
static double quantile(const double values[], int32_t count, double q)
{
    if (count == 0)
        return (double)NAN;
    double at = q * (count - 1);
    int32_t low = (int32_t)at, high = low + 1 < count ? low + 1 : low;
    return values[low] + (at - low) * (values[high] - values[low]);
}

/* One line of the summary: a metric, or the pool's error as a fraction of memory of one engine. */
struct metric {
    char name[64];
    int32_t supported, compared;
    double median, p90;
    int32_t with, inside; /* rows with an interval; of these, with the observed value inside */
};

static bool of_metric(const struct kvt_reproduced *row, const char *name, double *value)
{
    static const char prefix[] = "pool_error_of_memory_";
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
        *value = row->pool_error;
        return row->supported && strcmp(row->metric, "kv_gib_per_gpu") == 0 &&
               row->group[0] != '\0' && strcmp(row->group, name + sizeof prefix - 1) == 0;
    }
    *value = row_error(row);
    return row->supported && strcmp(row->metric, name) == 0;
}

static void count_inside(const struct kvt_reproduced *row, struct metric *metric)
{
    if (isnan(row->low) || !(row->observed > 0))
        return;
    metric->with++;
    metric->inside += row->low <= row->observed && (row->observed <= row->high || row->below);
}

static void summarise(const struct kvt_reproduced_list *list, double scratch[],
                      struct metric *metric)
{
    for (int32_t i = 0; i < list->count; i++) {
        double value;
        if (!of_metric(&list->rows[i], metric->name, &value))
            continue;
        metric->supported++;
        count_inside(&list->rows[i], metric);
        if (!isnan(value))
            scratch[metric->compared++] = fabs(value);
    }
    qsort(scratch, (size_t)metric->compared, sizeof *scratch, by_value);
    metric->median = quantile(scratch, metric->compared, 0.5);
    metric->p90 = quantile(scratch, metric->compared, 0.9);
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

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *row_json(const struct kvt_reproduced *row, bool published)
{
    json_t *object = json_object();
    json_object_set_new(object, published ? "name" : "row_id", json_string(row->row));
    json_object_set_new(object, "metric", json_string(row->metric));
    json_object_set_new(object, published ? "published" : "observed", number(row->observed));
    json_object_set_new(object, published ? "simulated" : "predicted", number(row->predicted));
    if (published || !isnan(row->low)) {
        json_object_set_new(object, "low", number(row->low));
        json_object_set_new(object, "high", number(row->high));
    }
    json_object_set_new(object, "error", number(row_error(row)));
    if (!isnan(row->pool_error))
        json_object_set_new(object, "pool_error_of_memory", number(row->pool_error));
    json_object_set_new(object, "kind", json_string(row->kind));
    if (!published || !row->supported)
        json_object_set_new(object, "status", json_string(row->supported ? "ok" : "unsupported"));
    if (!row->supported)
        json_object_set_new(object, "reason", json_string(row->reason));
    return object;
}

static enum kvt_status print_json(const struct kvt_reproduced_list *list, bool published,
                                  const struct metric metrics[], int32_t metric_count,
                                  struct kvt_err *err)
{
    json_t *root = json_object(), *rows = json_array(), *by_metric = json_object();
    for (int32_t i = 0; i < list->count; i++)
        json_array_append_new(rows, row_json(&list->rows[i], published));
    for (int32_t m = 0; m < metric_count; m++) {
        json_t *one = json_object();
        json_object_set_new(one, "supported_rows", json_integer(metrics[m].supported));
        json_object_set_new(one, "compared_rows", json_integer(metrics[m].compared));
        json_object_set_new(one, "median_abs_error", number(metrics[m].median));
        json_object_set_new(one, "p90_abs_error", number(metrics[m].p90));
        if (metrics[m].with > 0)
            json_object_set_new(one, "inside_interval", number(share_inside(&metrics[m])));
        json_object_set_new(by_metric, metrics[m].name, one);
    }
    json_object_set_new(root, "rows", rows);
    json_object_set_new(root, "by_metric", by_metric);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    json_decref(root);
    if (text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
    puts(text);
    free(text);
    return KVT_OK;
}

static void print_cell(double value, const char *after)
{
    if (isfinite(value))
        printf("%.10g%s", value, after);
    else
        fputs(after, stdout);
}

static void print_quoted(const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static void print_csv(const struct kvt_reproduced_list *list, bool published)
{
    printf("%s,metric,%s,%s,low,high,error,pool_error_of_memory,kind,status,reason\n",
           published ? "name" : "row_id", published ? "published" : "observed",
           published ? "simulated" : "predicted");
    for (int32_t i = 0; i < list->count; i++) {
        const struct kvt_reproduced *row = &list->rows[i];
        print_quoted(row->row);
        printf(",%s,", row->metric);
        print_cell(row->observed, ",");
        print_cell(row->predicted, ",");
        print_cell(row->low, ",");
        print_cell(row->high, ",");
        print_cell(row_error(row), ",");
        print_cell(row->pool_error, ",");
        printf("%s,%s,", row->kind, row->supported ? "ok" : "unsupported");
        print_quoted(row->supported ? "" : row->reason);
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

static void print_text(const struct kvt_reproduced_list *list, bool published,
                       const struct metric metrics[], int32_t metric_count)
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
    bool inside = false;
    for (int32_t m = 0; m < metric_count; m++)
        inside = inside || metrics[m].with > 0;
    printf("\n%-42s %9s %9s %9s %9s%s\n", "metric", "supported", "compared", "median", "p90",
           inside ? "    inside" : "");
    for (int32_t m = 0; m < metric_count; m++) {
        printf("%-42s %9d %9d", metrics[m].name, metrics[m].supported, metrics[m].compared);
        print_percent(metrics[m].median, 9);
        print_percent(metrics[m].p90, 9);
        if (metrics[m].with > 0)
            printf(" %5d/%d", metrics[m].inside, metrics[m].with);
        putchar('\n');
    }
}

enum kvt_status kvt_reproduced_print(const struct kvt_reproduced_list *list, bool published,
                                     enum kvt_cli_format format, struct kvt_err *err)
{
    struct metric metrics[METRICS_MAX] = {0};
    double *scratch = malloc(((size_t)list->count + 1) * sizeof *scratch);
    if (scratch == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the summary");
    int32_t metric_count = list_metrics(list, metrics);
    for (int32_t m = 0; m < metric_count; m++)
        summarise(list, scratch, &metrics[m]);
    free(scratch);
    if (format == KVT_FORMAT_JSON)
        return print_json(list, published, metrics, metric_count, err);
    if (format == KVT_FORMAT_CSV)
        print_csv(list, published);
    else
        print_text(list, published, metrics, metric_count);
    return KVT_OK;
}
