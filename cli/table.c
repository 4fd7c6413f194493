#include "cli/table.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"

#define TABLE_BYTES_MAX ((size_t)256 << 20)

struct reader {
    struct kvt_table *table;
    int32_t row_line, column, room;
    bool has_header, failed;
    enum kvt_status status;
    struct kvt_err *err;
};

static struct kvt_where here(const struct reader *reader)
{
    return (struct kvt_where){.file = reader->table->path, .line = reader->row_line};
}

static void fail(struct reader *reader, enum kvt_status status)
{
    if (!reader->failed)
        reader->status = status;
    reader->failed = true;
}

static char *copy(const char *bytes, size_t count)
{
    while (count > 0 && (bytes[0] == ' ' || bytes[0] == '\t')) {
        bytes++;
        count--;
    }
    while (count > 0 && (bytes[count - 1] == ' ' || bytes[count - 1] == '\t'))
        count--;
    char *text = malloc(count + 1);
    if (text != NULL) {
        memcpy(text, bytes, count);
        text[count] = '\0';
    }
    return text;
}

static void add_column(struct reader *reader, char *text)
{
    struct kvt_table *table = reader->table;
    for (int32_t c = 0; c < table->column_count; c++)
        if (strcmp(table->columns[c], text) == 0 && text[0] != '\0')
            fail(reader, kvt_err_at(reader->err, KVT_ECONFIG, here(reader),
                                    "the column \"%.64s\" is there twice", text));
    if (table->column_count < KVT_TABLE_COLUMNS_MAX) {
        table->columns[table->column_count++] = text;
        return;
    }
    free(text);
    fail(reader, kvt_err_at(reader->err, KVT_ELIMIT, here(reader), "more than %d columns",
                            KVT_TABLE_COLUMNS_MAX));
}

static void on_field(void *bytes, size_t count, void *data)
{
    struct reader *reader = data;
    struct kvt_table *table = reader->table;
    if (reader->failed)
        return;
    char *text = copy(bytes, count);
    if (text == NULL) {
        fail(reader, kvt_err_at(reader->err, KVT_ENOMEM, here(reader), "no memory for the table"));
        return;
    }
    if (!reader->has_header) {
        add_column(reader, text);
        return;
    }
    if (reader->column >= table->column_count) {
        free(text);
        reader->column++;
        return;
    }
    table->fields[(size_t)table->row_count * (size_t)table->column_count +
                  (size_t)reader->column++] = text;
}

/* Room for one more row, with NULL fields. */
static bool grow(struct reader *reader)
{
    struct kvt_table *table = reader->table;
    size_t width = (size_t)table->column_count;
    if (table->row_count + 1 < reader->room)
        return true;
    int32_t room = reader->room == 0 ? 64 : reader->room * 2;
    char **fields = realloc(table->fields, (size_t)room * width * sizeof *fields);
    if (fields == NULL)
        return false;
    for (size_t i = (size_t)reader->room * width; i < (size_t)room * width; i++)
        fields[i] = NULL;
    table->fields = fields;
    int32_t *lines = realloc(table->lines, (size_t)room * sizeof *lines);
    if (lines == NULL)
        return false;
    table->lines = lines;
    reader->room = room;
    return true;
}

static void on_row(int end, void *data)
{
    (void)end;
    struct reader *reader = data;
    struct kvt_table *table = reader->table;
    if (reader->failed)
        return;
    if (!reader->has_header) {
        reader->has_header = true;
    } else if (reader->column != table->column_count) {
        fail(reader, kvt_err_at(reader->err, KVT_ECONFIG, here(reader),
                                "want %d fields as in the header, got %d", table->column_count,
                                reader->column));
    } else {
        table->lines[table->row_count++] = reader->row_line;
    }
    reader->column = 0;
    if (!reader->failed && !grow(reader))
        fail(reader, kvt_err_at(reader->err, KVT_ENOMEM, here(reader), "no memory for the table"));
}

/* libcsv tells no lines: feed it line by line, and remember where the current row began. */
static void feed(struct reader *reader, struct csv_parser *parser, const struct kvt_text *text)
{
    const char *at = text->bytes, *end = text->bytes + text->count;
    bool in_quotes = false;
    for (int32_t line = 1; at < end && !reader->failed; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop == NULL ? end : stop + 1;
        if (!in_quotes)
            reader->row_line = line;
        for (const char *c = at; c < stop; c++)
            in_quotes = in_quotes != (*c == '"');
        size_t count = (size_t)(stop - at);
        if (csv_parse(parser, at, count, on_field, on_row, reader) != count) {
            fail(reader, kvt_err_at(reader->err, KVT_ECONFIG, here(reader), "bad CSV: %s",
                                    csv_strerror(csv_error(parser))));
        }
        at = stop;
    }
    if (!reader->failed && in_quotes)
        fail(reader, kvt_err_at(reader->err, KVT_ECONFIG, here(reader),
                                "bad CSV: a quoted field does not end"));
    if (!reader->failed)
        csv_fini(parser, on_field, on_row, reader);
}

enum kvt_status kvt_table_read(struct kvt_table *table, const char *path, struct kvt_err *err)
{
    struct kvt_text text;
    struct csv_parser parser;
    *table = (struct kvt_table){.path = path};
    KVT_TRY(kvt_text_read(path, TABLE_BYTES_MAX, &text, err));
    struct reader reader = {.table = table, .err = err, .row_line = 1};
    if (csv_init(&parser, 0) != 0) {
        kvt_text_free(&text);
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the CSV parser");
    }
    feed(&reader, &parser, &text);
    csv_free(&parser);
    kvt_text_free(&text);
    if (!reader.failed && !reader.has_header)
        fail(&reader, kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path},
                                 "want a CSV table with a header, got an empty file"));
    if (reader.failed)
        kvt_table_free(table);
    return reader.status;
}

void kvt_table_free(struct kvt_table *table)
{
    for (int32_t c = 0; c < table->column_count; c++)
        free(table->columns[c]);
    /* One row more: it may have been left half read. */
    size_t width = (size_t)table->column_count;
    if (table->fields != NULL)
        for (size_t i = 0; i < ((size_t)table->row_count + 1) * width; i++)
            free(table->fields[i]);
    free(table->fields);
    free(table->lines);
    *table = (struct kvt_table){0};
}

int32_t kvt_table_column(const struct kvt_table *table, const char *name)
{
    for (int32_t c = 0; c < table->column_count; c++)
        if (strcmp(table->columns[c], name) == 0)
            return c;
    return -1;
}

const char *kvt_table_field(const struct kvt_table *table, int32_t row, const char *column)
{
    int32_t c = kvt_table_column(table, column);
    if (c < 0)
        return "";
    return table->fields[(size_t)row * (size_t)table->column_count + (size_t)c];
}

struct kvt_where kvt_table_where(const struct kvt_table *table, int32_t row)
{
    return (struct kvt_where){.file = table->path, .line = table->lines[row]};
}
