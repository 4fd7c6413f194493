#include "sim/trace/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/list.h"

static enum kvt_status columns_no_memory(const struct kvt_scan *scan, struct kvt_err *err)
{
    return kvt_err_at(err, KVT_ENOMEM, (struct kvt_where){.file = scan->file},
                      "no memory for its columns");
}

static int64_t lines_left(const struct kvt_scan *scan)
{
    int64_t lines = 1;
    const char *p = scan->row != NULL ? scan->row : scan->next;
    while ((p = memchr(p, '\n', (size_t)(scan->limit - p))) != NULL) {
        p++;
        lines++;
    }
    return lines;
}

enum kvt_status kvt_columns_begin(struct kvt_columns *columns, const struct kvt_scan *scan,
                                  struct kvt_err *err)
{
    struct kvt_trace *trace = &columns->trace;
    int64_t lines = lines_left(scan);
    if (lines > KVT_TRACE_ROWS_MAX + INT64_C(2))
        return kvt_err_at(err, KVT_ELIMIT, (struct kvt_where){.file = scan->file},
                          "want at most %d rows, got %lld", KVT_TRACE_ROWS_MAX, (long long)lines);
    size_t room = (size_t)lines;
    columns->room = lines;
    trace->arrival = malloc(room * sizeof *trace->arrival);
    trace->input = malloc(room * sizeof *trace->input);
    trace->output = malloc(room * sizeof *trace->output);
    bool fits = trace->arrival != NULL && trace->input != NULL && trace->output != NULL;
    if (columns->optional & KVT_TRACE_TENANT)
        fits = (trace->tenant = malloc(room * sizeof *trace->tenant)) != NULL && fits;
    if (columns->optional & KVT_TRACE_ID) {
        fits = (columns->ids = malloc(room * sizeof *columns->ids)) != NULL && fits;
        fits = (columns->id_lines = malloc(room * sizeof *columns->id_lines)) != NULL && fits;
    }
    if (columns->optional & KVT_TRACE_HASHES) {
        columns->hash_room = 4 * lines;
        trace->hash_begin = malloc((room + 1) * sizeof *trace->hash_begin);
        trace->hashes = malloc((size_t)columns->hash_room * sizeof *trace->hashes);
        fits = trace->hash_begin != NULL && trace->hashes != NULL && fits;
        if (fits)
            trace->hash_begin[0] = 0;
    }
    trace->tenants = 1;
    return fits ? KVT_OK : columns_no_memory(scan, err);
}

enum kvt_status kvt_columns_hash(struct kvt_columns *columns, const struct kvt_scan *scan,
                                 uint64_t hash, struct kvt_err *err)
{
    struct kvt_trace *trace = &columns->trace;
    uint64_t *grown =
        kvt_list_grow(trace->hashes, columns->hash_count, &columns->hash_room, sizeof *grown);
    if (grown == NULL)
        return columns_no_memory(scan, err);
    trace->hashes = grown;
    trace->hashes[columns->hash_count++] = hash;
    return KVT_OK;
}

static bool moment_is_before(struct kvt_moment a, struct kvt_moment b)
{
    return a.s < b.s || (a.s == b.s && a.ticks < b.ticks);
}

static enum kvt_status columns_time(struct kvt_columns *columns, const struct kvt_scan *scan,
                                    const struct kvt_trace_row *row, struct kvt_err *err)
{
    bool is_first = columns->last_line == 0;
    if (is_first)
        columns->first = row->time;
    else if (moment_is_before(row->time, columns->last))
        return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, row->time_at),
                          "want arrivals in order of time, got one %.9g s before that of line %d",
                          (double)(columns->last.s - row->time.s) +
                              (double)(columns->last.ticks - row->time.ticks) /
                                  (double)KVT_TICKS_PER_S,
                          columns->last_line);
    if (row->time.s - columns->first.s > KVT_TRACE_SPAN_S_MAX)
        return kvt_err_at(
            err, KVT_ECONFIG, kvt_scan_where(scan, row->time_at),
            "want a trace of at most 100 days, got an arrival %.9g days after the first",
            (double)(row->time.s - columns->first.s) / 86400);
    columns->last = row->time;
    columns->last_line = scan->line;
    return KVT_OK;
}

static enum kvt_status columns_hashes(struct kvt_columns *columns, const struct kvt_scan *scan,
                                      const struct kvt_trace_row *row, struct kvt_err *err)
{
    struct kvt_trace *trace = &columns->trace;
    int64_t got = columns->hash_count - trace->hash_begin[trace->count];
    int64_t want = ((int64_t)row->input + trace->block_tokens - 1) / trace->block_tokens;
    if (got != want)
        return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, row->hashes_at),
                          "want %lld hash%s for %llu input token%s (%d token%s each), got %lld",
                          (long long)want, want == 1 ? "" : "es", (unsigned long long)row->input,
                          kvt_plural((int64_t)row->input), trace->block_tokens,
                          kvt_plural(trace->block_tokens), (long long)got);
    return KVT_OK;
}

enum kvt_status kvt_columns_row(struct kvt_columns *columns, const struct kvt_scan *scan,
                                const struct kvt_trace_row *row, struct kvt_err *err)
{
    struct kvt_trace *trace = &columns->trace;
    KVT_TRY(columns_time(columns, scan, row, err));
    if (row->output == 0 && columns->zero_output_drops) {
        trace->dropped++;
        return KVT_OK;
    }
    if (row->input == 0)
        return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, row->input_at),
                          "want at least 1 input token, got 0");
    if (row->output == 0)
        return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, row->output_at),
                          "want at least 1 output token, got 0");
    if (trace->hash_begin != NULL)
        KVT_TRY(columns_hashes(columns, scan, row, err));
    if (trace->count == KVT_TRACE_ROWS_MAX)
        return kvt_err_at(err, KVT_ELIMIT, kvt_scan_where(scan, scan->row),
                          "want at most %d rows, got more", KVT_TRACE_ROWS_MAX);
    kvt_assert(trace->count < columns->room);
    int32_t i = trace->count++;
    if (i == 0)
        columns->first = row->time; /* rows dropped before it do not start the clock */
    trace->arrival[i] =
        (row->time.s - columns->first.s) * KVT_TICKS_PER_S + row->time.ticks - columns->first.ticks;
    trace->input[i] = (int32_t)row->input;
    trace->output[i] = (int32_t)row->output;
    if (trace->tenant != NULL) {
        trace->tenant[i] = (uint16_t)row->tenant;
        if ((int32_t)row->tenant >= trace->tenants)
            trace->tenants = (int32_t)row->tenant + 1;
    }
    if (columns->ids != NULL) {
        columns->ids[i] = row->id;
        columns->id_lines[i] = scan->line;
    }
    if (trace->hash_begin != NULL)
        trace->hash_begin[i + 1] = columns->hash_count;
    return KVT_OK;
}

struct id_at {
    uint64_t id;
    int32_t line;
};

static int id_compare(const void *a, const void *b)
{
    const struct id_at *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static enum kvt_status columns_check_ids(const struct kvt_columns *columns,
                                         const struct kvt_scan *scan, struct kvt_err *err)
{
    int32_t count = columns->trace.count;
    struct id_at *sorted = malloc((size_t)count * sizeof *sorted);
    if (sorted == NULL)
        return columns_no_memory(scan, err);
    for (int32_t i = 0; i < count; i++)
        sorted[i] = (struct id_at){.id = columns->ids[i], .line = columns->id_lines[i]};
    qsort(sorted, (size_t)count, sizeof *sorted, id_compare);
    const struct id_at *twice = NULL; /* the first line of the file that repeats an id */
    for (int32_t i = 1; i < count; i++)
        if (sorted[i].id == sorted[i - 1].id && (twice == NULL || sorted[i].line < twice->line))
            twice = &sorted[i];
    enum kvt_status status = KVT_OK;
    if (twice != NULL)
        status = kvt_err_at(err, KVT_ECONFIG,
                            (struct kvt_where){.file = scan->file, .line = twice->line},
                            "want each %s once, got %llu again, which line %d has",
                            columns->id_name, (unsigned long long)twice->id, twice[-1].line);
    free(sorted);
    return status;
}

/* Shrinking cannot lose data; if the allocator refuses, the larger block stays. */
static void *fit(void *column, size_t bytes)
{
    void *smaller = realloc(column, bytes);
    /* cppcheck-suppress memleak ; one of the two is returned, and is the block */
    return smaller != NULL ? smaller : column;
}

enum kvt_status kvt_columns_finish(struct kvt_columns *columns, const struct kvt_scan *scan,
                                   struct kvt_trace *trace, struct kvt_err *err)
{
    struct kvt_trace *from = &columns->trace;
    if (from->count == 0) {
        struct kvt_where where = {.file = scan->file};
        return from->dropped > 0
                   ? kvt_err_at(err, KVT_ECONFIG, where,
                                "want requests, got only %d row%s without output tokens",
                                from->dropped, kvt_plural(from->dropped))
                   : kvt_err_at(err, KVT_ECONFIG, where, "want requests, got a header only");
    }
    if (columns->ids != NULL)
        KVT_TRY(columns_check_ids(columns, scan, err));
    size_t count = (size_t)from->count;
    from->arrival = fit(from->arrival, count * sizeof *from->arrival);
    from->input = fit(from->input, count * sizeof *from->input);
    from->output = fit(from->output, count * sizeof *from->output);
    if (from->tenant != NULL)
        from->tenant = fit(from->tenant, count * sizeof *from->tenant);
    if (from->hash_begin != NULL) {
        from->hash_begin = fit(from->hash_begin, (count + 1) * sizeof *from->hash_begin);
        from->hashes = fit(from->hashes, (size_t)columns->hash_count * sizeof *from->hashes);
    }
    *trace = *from;
    *from = (struct kvt_trace){0};
    return KVT_OK;
}

void kvt_columns_release(struct kvt_columns *columns)
{
    kvt_trace_release(&columns->trace);
    free(columns->ids);
    free(columns->id_lines);
    columns->ids = NULL;
    columns->id_lines = NULL;
}
