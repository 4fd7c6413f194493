/*
 * table.h - a small CSV table with a header row, read whole
 *
 * For tables of results (not traces): fields by column name, each row with its line. libcsv parses;
 * quoted fields may hold commas and newlines. Rows of another width than the header, a column given
 * twice, and an empty file are a KVT_ECONFIG with the place.
 */
#ifndef KVT_CLI_TABLE_H
#define KVT_CLI_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

#define KVT_TABLE_COLUMNS_MAX 128

struct kvt_table {
    const char *path; /* borrowed */
    int32_t column_count, row_count;
    char *columns[KVT_TABLE_COLUMNS_MAX]; /* owned */
    char **fields;                        /* row_count * column_count; owned */
    int32_t *lines;                       /* of each row; owned */
};

enum kvt_status kvt_table_read(struct kvt_table *table, const char *path, struct kvt_err *err);
void kvt_table_free(struct kvt_table *table);

/* Index of a column, or -1. */
int32_t kvt_table_column(const struct kvt_table *table, const char *name);

/* The field, trimmed of spaces; "" where the table has no such column. */
const char *kvt_table_field(const struct kvt_table *table, int32_t row, const char *column);

/* Where row stands, for messages. */
struct kvt_where kvt_table_where(const struct kvt_table *table, int32_t row);

#endif
