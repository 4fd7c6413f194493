#include "sim/cost/table.h"

#include <csv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/base/list.h"
#include "sim/cost/table_row.h"

#define TABLE_BYTES_MAX ((size_t)1 << 30)
#define FIELDS_MAX      64
#define FIELD_BYTES     128

#define X(name) #name,
const char *const kvt_column_names[KVT_COLUMN_COUNT] = {KVT_COLUMNS(X)};
#undef X

/* One file on its way in. */
struct reading {
    struct kvt_tables *tables;
    const char *path;
    const char *gpu, *named_stack; /* of the caller; may be NULL */
    bool bench;                    /* a table of kvtwin bench */
    char stack[32], version[32];   /* from the file's name */
    struct kvt_err *err;
    enum kvt_status status;
    int32_t line;
    int32_t fields, columns;    /* of this row; of the header */
    int32_t column[FIELDS_MAX]; /* kvt_column of each field, or -1 */
    char text[FIELDS_MAX][FIELD_BYTES];
    struct kvt_row row;
};

static struct kvt_where here(const struct reading *r)
{
    return (struct kvt_where){.file = r->path, .line = r->line};
}

static void on_field(void *bytes, size_t count, void *data)
{
    struct reading *r = data;
    if (r->fields < FIELDS_MAX && count < FIELD_BYTES) {
        memcpy(r->text[r->fields], bytes, count);
        r->text[r->fields][count] = '\0';
    } else if (r->status == KVT_OK) {
        r->status = kvt_err_at(r->err, KVT_ECONFIG, here(r),
                               "want at most %d fields of less than %d characters", FIELDS_MAX,
                               FIELD_BYTES);
    }
    r->fields++;
}

/* GPU, stack and version from GPU-STACK-VERSION-TABLE.csv.gz; what is not there stays empty. */
static void names_from_path(struct reading *r, char gpu[64])
{
    const char *name = kvt_path_name(r->path);
    int parts[3], used = 0;
    gpu[0] = r->stack[0] = r->version[0] = '\0';
    for (const char *at = name; used < 3; used++) {
        parts[used] = (int)strcspn(at, "-");
        if (at[parts[used]] != '-')
            return;
        at += parts[used] + 1;
    }
    snprintf(gpu, 64, "%.*s", parts[0] < 63 ? parts[0] : 63, name);
    name += parts[0] + 1;
    snprintf(r->stack, sizeof r->stack, "%.*s", parts[1] < 31 ? parts[1] : 31, name);
    name += parts[1] + 1;
    snprintf(r->version, sizeof r->version, "%.*s", parts[2] < 31 ? parts[2] : 31, name);
}

static enum kvt_status reading_names(struct reading *r)
{
    const char *gpu = r->gpu, *stack = r->named_stack;
    struct kvt_where where = {.file = r->path};
    char named[64];
    if (r->bench) {
        snprintf(r->stack, sizeof r->stack, "%.31s", stack != NULL ? stack : "own");
        r->tables->bench.given = true;
        return gpu != NULL ? KVT_OK
                           : kvt_err_at(r->err, KVT_ECONFIG, where,
                                        "want --gpu NAME or FILE.yaml: a table of kvtwin bench "
                                        "does not say which GPU file describes its device");
    }
    names_from_path(r, named);
    if (stack != NULL && r->stack[0] == '\0')
        snprintf(r->stack, sizeof r->stack, "%.31s", stack);
    if (gpu != NULL && named[0] == '\0')
        snprintf(named, sizeof named, "%.63s", gpu);
    if (named[0] == '\0')
        return kvt_err_at(r->err, KVT_ECONFIG, where,
                          "want a name like h200_sxm-sglang-0.5.14-gemm_perf.csv.gz, or --gpu and "
                          "--stack");
    if (r->stack[0] == '\0')
        return kvt_err_at(r->err, KVT_ECONFIG, where, "want --stack: the name does not say it");
    if (r->tables->gpu[0] != '\0' && strcmp(r->tables->gpu, named) != 0)
        return kvt_err_at(
            r->err, KVT_ECONFIG, where,
            "is a table of GPU \"%s\", the ones before are of \"%s\"; one calibration "
            "is for one GPU",
            named, r->tables->gpu);
    snprintf(r->tables->gpu, sizeof r->tables->gpu, "%s", named);
    return KVT_OK;
}

/* Which of the two kinds of tables this is, and whether it has what each row needs. */
static void check_header(struct reading *r, const bool seen[KVT_COLUMN_COUNT])
{
    static const enum kvt_column needed[] = {KVT_COLUMN_backend, KVT_COLUMN_device,
                                             KVT_COLUMN_family,  KVT_COLUMN_variant,
                                             KVT_COLUMN_shape,   KVT_COLUMN_time_ns};
    r->bench = !seen[KVT_COLUMN_op_name] && (seen[KVT_COLUMN_family] || seen[KVT_COLUMN_time_ns]);
    if (!r->bench && !seen[KVT_COLUMN_op_name])
        r->status = kvt_err_at(r->err, KVT_ECONFIG, here(r),
                               "column \"op_name\": wanted in a table of kernel times, not found");
    for (size_t i = 0; r->bench && i < sizeof needed / sizeof needed[0]; i++)
        if (!seen[needed[i]] && r->status == KVT_OK)
            r->status = kvt_err_at(r->err, KVT_ECONFIG, here(r),
                                   "column \"%s\": wanted in a table of kvtwin bench, not found",
                                   kvt_column_names[needed[i]]);
    if (r->status == KVT_OK)
        r->status = reading_names(r);
}

static void read_header(struct reading *r)
{
    bool seen[KVT_COLUMN_COUNT] = {false};
    r->columns = r->fields;
    for (int32_t f = 0; f < r->fields; f++) {
        r->column[f] = -1;
        for (int32_t c = 0; c < KVT_COLUMN_COUNT; c++)
            if (strcmp(r->text[f], kvt_column_names[c]) == 0)
                r->column[f] = c;
        if (r->column[f] < 0)
            continue;
        if (seen[r->column[f]])
            r->status = kvt_err_at(r->err, KVT_ECONFIG, here(r), "column \"%s\" is given twice",
                                   r->text[f]);
        seen[r->column[f]] = true;
        r->row.field[r->column[f]] = r->text[f]; /* each row is read to the same place */
    }
    if (r->status == KVT_OK)
        check_header(r, seen);
}

/* The series of the row, made when it is new; NULL without memory. */
static struct kvt_series *series_of(struct reading *r)
{
    struct kvt_tables *t = r->tables;
    const char *op = r->row.op;
    const char *version = r->row.field[KVT_COLUMN_version];
    if (version == NULL || version[0] == '\0' || strcmp(version, "kernel-level") == 0)
        version = r->version;
    if (r->bench)
        version = t->bench.backend;
    for (int32_t i = t->series_count - 1; i >= 0; i--) {
        struct kvt_series *s = &t->series[i];
        if (s->family == r->row.series.family && strcmp(s->dtype, r->row.dtype) == 0 &&
            strcmp(s->op, op) == 0 && strcmp(s->version, version) == 0 &&
            strcmp(s->stack, r->stack) == 0)
            return s;
    }
    struct kvt_series *grown =
        kvt_list_grow(t->series, t->series_count, &t->series_room, sizeof *grown);
    if (grown == NULL)
        return NULL;
    t->series = grown;
    struct kvt_series *s = &t->series[t->series_count++];
    *s = r->row.series;
    s->first_file = t->path_count - 1;
    snprintf(s->stack, sizeof s->stack, "%s", r->stack);
    snprintf(s->version, sizeof s->version, "%.31s", version);
    snprintf(s->op, sizeof s->op, "%.47s", op);
    snprintf(s->dtype, sizeof s->dtype, "%s", r->row.dtype);
    snprintf(s->name, sizeof s->name, "%.31s %.31s %.47s %.95s", s->stack, s->version, s->op,
             s->dtype);
    return s;
}

static void read_row(struct reading *r)
{
    if (r->fields != r->columns) {
        r->status = kvt_err_at(r->err, KVT_ECONFIG, here(r),
                               "want %d fields as in the header, got %d", r->columns, r->fields);
        return;
    }
    r->row.where = here(r);
    r->row.err = r->err;
    r->row.failed = false;
    if (!(r->bench ? kvt_bench_row_sample(&r->row, &r->tables->bench) : kvt_row_sample(&r->row))) {
        if (r->row.failed)
            r->status = KVT_ECONFIG;
        return;
    }
    struct kvt_series *s = series_of(r);
    struct kvt_sample *grown =
        s != NULL ? kvt_list_grow(s->samples, s->count, &s->room, sizeof *grown) : NULL;
    if (grown == NULL) {
        r->status = kvt_err_at(r->err, KVT_ENOMEM, here(r), "no memory for its rows");
        return;
    }
    s->samples = grown;
    r->row.sample.line = r->line;
    r->row.sample.file = r->tables->path_count - 1;
    r->row.sample.repeats = 1;
    s->samples[s->count++] = r->row.sample;
    s->rows++;
}

static void on_row(int terminator, void *data)
{
    struct reading *r = data;
    (void)terminator;
    if (r->status == KVT_OK && r->line == 1)
        read_header(r);
    else if (r->status == KVT_OK)
        read_row(r);
    r->line++;
    r->fields = 0;
}

static enum kvt_status keep_path(struct kvt_tables *tables, const char *path, struct kvt_err *err)
{
    size_t count = (size_t)tables->path_count + 1;
    char **grown = realloc(tables->paths, count * sizeof *grown);
    if (grown != NULL)
        tables->paths = grown;
    char *copy = grown != NULL ? strdup(path) : NULL;
    if (copy == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the table %s", path);
    tables->paths[tables->path_count++] = copy;
    return KVT_OK;
}

enum kvt_status kvt_tables_parse(struct kvt_tables *tables, const char *path, const char *text,
                                 size_t count, const char *gpu, const char *stack,
                                 struct kvt_err *err)
{
    struct csv_parser parser;
    KVT_TRY(keep_path(tables, path, err));
    struct reading *r = calloc(1, sizeof *r);
    if (r == NULL || csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        free(r);
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory to read it", path);
    }
    r->tables = tables;
    r->path = tables->paths[tables->path_count - 1];
    r->err = err;
    r->line = 1;
    r->gpu = gpu;
    r->named_stack = stack;
    while (r->status == KVT_OK && count > 0) { /* in pieces, so that an error stops it */
        size_t piece = count < 65536 ? count : 65536;
        if (csv_parse(&parser, text, piece, on_field, on_row, r) != piece && r->status == KVT_OK)
            r->status = kvt_err_at(err, KVT_ECONFIG, here(r), "not CSV: %s",
                                   csv_strerror(csv_error(&parser)));
        text += piece;
        count -= piece;
    }
    if (r->status == KVT_OK && csv_fini(&parser, on_field, on_row, r) != 0)
        r->status =
            kvt_err_at(err, KVT_ECONFIG, here(r), "not CSV: %s", csv_strerror(csv_error(&parser)));
    if (r->status == KVT_OK && r->line <= 2)
        r->status = kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path},
                               "want a header and rows, found %d line%s", r->line - 1,
                               kvt_plural(r->line - 1));
    csv_free(&parser);
    enum kvt_status status = r->status;
    free(r);
    return status;
}

enum kvt_status kvt_tables_read(struct kvt_tables *tables, const char *path, const char *gpu,
                                const char *stack, struct kvt_err *err)
{
    struct kvt_text text;
    KVT_TRY(kvt_text_read(path, TABLE_BYTES_MAX, &text, err));
    enum kvt_status status =
        kvt_tables_parse(tables, path, text.bytes, text.count, gpu, stack, err);
    kvt_text_free(&text);
    return status;
}

static int by_key(const void *x, const void *y)
{
    const struct kvt_sample *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

void kvt_series_average(struct kvt_series *series, double *floor)
{
    struct kvt_sample *s = series->samples;
    double spread = 0.0;
    int64_t kept = 0, repeated = 0;
    qsort(s, (size_t)series->count, sizeof *s, by_key);
    for (int64_t i = 0, end; i < series->count; i = end) {
        double sum = 0.0;
        for (end = i; end < series->count && s[end].key == s[i].key; end++)
            sum += s[end].time;
        double mean = sum / (double)(end - i);
        for (int64_t k = i; end - i > 1 && k < end; k++, repeated++)
            spread += fabs(s[k].time / mean - 1.0);
        s[kept] = s[i];
        s[kept].time = mean;
        s[kept++].repeats = (int32_t)(end - i);
    }
    series->count = kept;
    *floor = repeated > 0 ? spread / (double)repeated : 0.0;
}

void kvt_tables_release(struct kvt_tables *tables)
{
    for (int32_t i = 0; i < tables->series_count; i++)
        free(tables->series[i].samples);
    for (int32_t i = 0; i < tables->path_count; i++)
        free(tables->paths[i]);
    free(tables->series);
    free(tables->paths);
    *tables = (struct kvt_tables){0};
}
