#include "sim/trace/formats.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/trace/columns.h"

#define CSV_COLUMNS_MAX 16

enum csv_role {
    CSV_END, /* of a format's list */
    CSV_SECONDS,
    CSV_MILLIS,
    CSV_MICROS,
    CSV_NANOS,
    CSV_STAMP,
    CSV_INPUT,
    CSV_OUTPUT,
    CSV_TENANT,
    CSV_ID,
    CSV_HASHES,
    CSV_IGNORED,
};

struct csv_column {
    const char *name;
    enum csv_role role;
    bool required;
};

struct csv_format {
    const char *name;
    bool zero_output_drops;
    struct csv_column columns[CSV_COLUMNS_MAX];
};

/* clang-format off */
static const struct csv_format formats[] = {
    {"own", false, {
        {"arrival_ns", CSV_NANOS, false}, {"arrival_us", CSV_MICROS, false},
        {"arrival_ms", CSV_MILLIS, false}, {"arrival_s", CSV_SECONDS, false},
        {"input_tokens", CSV_INPUT, true}, {"output_tokens", CSV_OUTPUT, true},
        {"tenant", CSV_TENANT, false}, {"request_id", CSV_ID, false},
        {"hashes:", CSV_HASHES, false}}},
    {"azure", false, {
        {"TIMESTAMP", CSV_STAMP, true}, {"ContextTokens", CSV_INPUT, true},
        {"GeneratedTokens", CSV_OUTPUT, true}, {"NumImages", CSV_IGNORED, false}}},
    {"vidur", false, {
        {"arrived_at", CSV_SECONDS, false}, {"num_prefill_tokens", CSV_INPUT, true},
        {"num_decode_tokens", CSV_OUTPUT, true}, {"num_total_tokens", CSV_IGNORED, false},
        {"pd_ratio", CSV_IGNORED, false}}},
    {"splitwise", false, {
        {"request_id", CSV_ID, true}, {"request_type", CSV_IGNORED, false},
        {"application_id", CSV_IGNORED, false}, {"arrival_timestamp", CSV_SECONDS, true},
        {"batch_size", CSV_IGNORED, false}, {"prompt_size", CSV_INPUT, true},
        {"token_size", CSV_OUTPUT, true}}},
    {"burstgpt", true, {
        {"Timestamp", CSV_SECONDS, true}, {"Session ID", CSV_IGNORED, false},
        {"Elapsed time", CSV_IGNORED, false}, {"Model", CSV_IGNORED, false},
        {"Request tokens", CSV_INPUT, true}, {"Response tokens", CSV_OUTPUT, true},
        {"Total tokens", CSV_IGNORED, false}, {"Log Type", CSV_IGNORED, false}}},
    {"fleet-sim", false, {
        {"timestamp", CSV_SECONDS, true}, {"prompt_tokens", CSV_INPUT, true},
        {"generated_tokens", CSV_OUTPUT, true}, {"selected_model", CSV_IGNORED, false}}},
};
/* clang-format on */
#define FORMAT_COUNT (sizeof formats / sizeof formats[0])

struct csv_header {
    const struct csv_format *format;
    int32_t count;
    enum csv_role roles[CSV_COLUMNS_MAX];
    int32_t block_tokens;
    bool has_time;
};

static bool name_is(const char *at, const char *end, const char *name)
{
    size_t count = strlen(name);
    return (size_t)(end - at) == count && memcmp(at, name, count) == 0;
}

/* "hashes:" matches "hashes:512". */
static const struct csv_column *format_column(const struct csv_format *format, const char *at,
                                              const char *end)
{
    for (int32_t c = 0; c < CSV_COLUMNS_MAX && format->columns[c].role != CSV_END; c++) {
        const struct csv_column *column = &format->columns[c];
        if (name_is(at, end, column->name))
            return column;
        size_t count = strlen(column->name);
        if (column->role == CSV_HASHES && (size_t)(end - at) > count &&
            memcmp(at, column->name, count) == 0)
            return column;
    }
    return NULL;
}

static const char *field_end(const struct kvt_scan *scan, const char *at)
{
    const char *comma = memchr(at, ',', (size_t)(scan->row_end - at));
    return comma != NULL ? comma : scan->row_end;
}

static int32_t header_columns_known(const struct kvt_scan *scan, const struct csv_format *format)
{
    int32_t known = 0;
    for (const char *at = scan->row; at <= scan->row_end;) {
        const char *end = field_end(scan, at);
        known += format_column(format, at, end) != NULL;
        at = end + 1;
    }
    return known;
}

static enum kvt_status header_unknown(const struct kvt_scan *scan, struct kvt_err *err)
{
    int count = (int)(scan->row_end - scan->row > 80 ? 80 : scan->row_end - scan->row);
    char known[256] = "";
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s (%s,...), ", formats[f].name,
                 formats[f].columns[0].name);
    }
    return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, scan->row),
                      "want the header of a known trace format, got \"%.*s\"; known are "
                      "%smooncake and bailian (JSON lines)",
                      count, scan->row, known);
}

static enum kvt_status header_column(struct csv_header *header, const struct kvt_scan *scan,
                                     const char *at, const char *end, uint32_t *seen,
                                     struct kvt_err *err)
{
    const struct csv_format *format = header->format;
    const struct csv_column *column = format_column(format, at, end);
    struct kvt_where where = kvt_scan_where(scan, at);
    int shown = (int)(end - at > 80 ? 80 : end - at);
    if (column == NULL)
        return kvt_err_at(err, KVT_ECONFIG, where, "want columns of the %s format, got \"%.*s\"",
                          format->name, shown, at);
    uint32_t bit = UINT32_C(1) << (column - format->columns);
    bool is_time = column->role >= CSV_SECONDS && column->role <= CSV_STAMP;
    if ((*seen & bit) != 0 || (is_time && header->has_time))
        return kvt_err_at(err, KVT_ECONFIG, where, "want each column once, got \"%.*s\" again",
                          shown, at);
    *seen |= bit;
    header->has_time = header->has_time || is_time;
    header->roles[header->count++] = column->role;
    if (column->role != CSV_HASHES)
        return KVT_OK;
    struct kvt_scan number = *scan;
    number.at = at + strlen(column->name);
    uint64_t tokens;
    KVT_TRY(kvt_scan_whole(&number, "tokens per hash", KVT_TRACE_TOKENS_MAX, &tokens, err));
    if (tokens == 0 || number.at != end)
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "want a column such as \"hashes:512\", got \"%.*s\"", shown, at);
    header->block_tokens = (int32_t)tokens;
    return KVT_OK;
}

/* The format that knows most of the columns is the one that was meant. */
static enum kvt_status header_read(struct csv_header *header, struct kvt_scan *scan,
                                   struct kvt_err *err)
{
    *header = (struct csv_header){0};
    int32_t best = 0;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        int32_t known = header_columns_known(scan, &formats[f]);
        if (known > best) {
            best = known;
            header->format = &formats[f];
        }
    }
    if (best < 2)
        return header_unknown(scan, err);
    uint32_t seen = 0;
    for (const char *at = scan->row; at <= scan->row_end;) {
        const char *end = field_end(scan, at);
        KVT_TRY(header_column(header, scan, at, end, &seen, err));
        at = end + 1;
    }
    for (int32_t c = 0; c < CSV_COLUMNS_MAX; c++) {
        const struct csv_column *column = &header->format->columns[c];
        if (column->required && (seen >> c & 1) == 0)
            return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, scan->row),
                              "want a column \"%s\" in a trace of the %s format, got none",
                              column->name, header->format->name);
    }
    return KVT_OK;
}

/* A column that is not used: up to the comma, or a quoted text with "" for a quote inside. */
static enum kvt_status field_skip(struct kvt_scan *scan, struct kvt_err *err)
{
    if (*scan->at != '"') {
        scan->at = field_end(scan, scan->at);
        return KVT_OK;
    }
    const char *p = scan->at + 1;
    while (p < scan->row_end && (*p != '"' || p[1] == '"'))
        p += *p == '"' ? 2 : 1;
    if (p >= scan->row_end)
        return kvt_scan_refuse(scan, scan->at, "a closing quote in this row", err);
    scan->at = p + 1;
    return KVT_OK;
}

static enum kvt_status field_hashes(struct kvt_columns *columns, struct kvt_scan *scan,
                                    struct kvt_err *err)
{
    for (;;) {
        uint64_t hash;
        KVT_TRY(kvt_scan_whole(scan, "hash", UINT64_MAX, &hash, err));
        KVT_TRY(kvt_columns_hash(columns, scan, hash, err));
        if (*scan->at != '|')
            return KVT_OK;
        scan->at++;
    }
}

static enum kvt_status field_read(enum csv_role role, struct kvt_columns *columns,
                                  struct kvt_scan *scan, struct kvt_trace_row *row,
                                  struct kvt_err *err)
{
    switch (role) {
    case CSV_SECONDS:
        row->time_at = scan->at;
        return kvt_scan_decimal(scan, 1000000000, &row->time, err);
    case CSV_MILLIS:
        row->time_at = scan->at;
        return kvt_scan_decimal(scan, 1000000, &row->time, err);
    case CSV_MICROS:
        row->time_at = scan->at;
        return kvt_scan_decimal(scan, 1000, &row->time, err);
    case CSV_NANOS:
        row->time_at = scan->at;
        return kvt_scan_decimal(scan, 1, &row->time, err);
    case CSV_STAMP:
        row->time_at = scan->at;
        return kvt_scan_stamp(scan, &row->time, err);
    case CSV_INPUT:
        row->input_at = scan->at;
        return kvt_scan_whole(scan, "input tokens", KVT_TRACE_TOKENS_MAX, &row->input, err);
    case CSV_OUTPUT:
        row->output_at = scan->at;
        return kvt_scan_whole(scan, "output tokens", KVT_TRACE_TOKENS_MAX, &row->output, err);
    case CSV_TENANT:
        return kvt_scan_whole(scan, "tenant", UINT16_MAX, &row->tenant, err);
    case CSV_ID:
        return kvt_scan_whole(scan, "request_id", UINT64_MAX, &row->id, err);
    case CSV_HASHES:
        row->hashes_at = scan->at;
        return field_hashes(columns, scan, err);
    case CSV_IGNORED:
        return field_skip(scan, err);
    case CSV_END:
        break;
    }
    kvt_unreachable();
}

static enum kvt_status row_read(const struct csv_header *header, struct kvt_columns *columns,
                                struct kvt_scan *scan, struct kvt_trace_row *row,
                                struct kvt_err *err)
{
    for (int32_t c = 0; c < header->count; c++) {
        if (c > 0) {
            if (scan->at == scan->row_end)
                return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, scan->at),
                                  "want %d columns, got a row that ends after %d", header->count,
                                  c);
            if (*scan->at != ',')
                return kvt_scan_refuse(scan, scan->at, "a comma after the number", err);
            scan->at++;
        }
        KVT_TRY(field_read(header->roles[c], columns, scan, row, err));
    }
    if (scan->at == scan->row_end)
        return KVT_OK;
    if (*scan->at == ',')
        return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, scan->at),
                          "want %d columns, got more", header->count);
    return kvt_scan_refuse(scan, scan->at, "the end of the row", err);
}

static enum kvt_status rows_read(const struct csv_header *header, struct kvt_columns *columns,
                                 struct kvt_scan *scan, struct kvt_err *err)
{
    struct kvt_trace_row row = {.time_at = scan->row};
    KVT_TRY(kvt_columns_begin(columns, scan, err));
    for (;;) {
        KVT_TRY(kvt_scan_row(scan, err));
        if (scan->row == NULL)
            return KVT_OK;
        if (!header->has_time)
            row.time_at = scan->row;
        KVT_TRY(row_read(header, columns, scan, &row, err));
        KVT_TRY(kvt_columns_row(columns, scan, &row, err));
    }
}

enum kvt_status kvt_trace_csv_read(struct kvt_trace *trace, struct kvt_scan *scan,
                                   struct kvt_err *err)
{
    struct csv_header header;
    KVT_TRY(header_read(&header, scan, err));
    struct kvt_columns columns = {.zero_output_drops = header.format->zero_output_drops,
                                  .id_name = "request_id"};
    for (int32_t c = 0; c < header.count; c++) {
        if (header.roles[c] == CSV_TENANT)
            columns.optional |= KVT_TRACE_TENANT;
        if (header.roles[c] == CSV_ID)
            columns.optional |= KVT_TRACE_ID;
        if (header.roles[c] == CSV_HASHES)
            columns.optional |= KVT_TRACE_HASHES;
    }
    columns.trace.block_tokens = header.block_tokens;
    enum kvt_status status = rows_read(&header, &columns, scan, err);
    if (status == KVT_OK)
        status = kvt_columns_finish(&columns, scan, trace, err);
    kvt_columns_release(&columns);
    return status;
}
