/*
 * columns.h - a trace while it is being read: columns that grow, then fit exactly
 *
 * Rows come in the order of the file. The builder checks what holds for every format: time never
 * goes back, the span fits the clock, prompts and outputs have tokens, hashes cover the prompt, ids
 * are used once. The number of rows is bounded beforehand by the lines of the text, so only the
 * hashes grow on the way; finish gives back what was not used.
 */
#ifndef KVT_TRACE_COLUMNS_H
#define KVT_TRACE_COLUMNS_H

#include "sim/trace/scan.h"
#include "sim/trace/trace.h"

enum { /* which optional columns a format has, as bits */
       KVT_TRACE_TENANT = 1,
       KVT_TRACE_ID = 2,
       KVT_TRACE_HASHES = 4,
};

struct kvt_trace_row {
    struct kvt_moment time;
    uint64_t input, output, tenant, id;
    const char *time_at, *input_at, *output_at, *hashes_at; /* places, for messages */
};

struct kvt_columns {
    struct kvt_trace trace;
    unsigned optional;       /* KVT_TRACE_TENANT ... */
    bool zero_output_drops;  /* a row without output tokens is a failed request, not an error */
    const char *id_name;     /* of the id column, for messages */
    int64_t room, hash_room; /* rows and hashes that fit */
    int64_t hash_count;
    uint64_t *ids;     /* [count] owned, NULL without ids */
    int32_t *id_lines; /* [count] */
    struct kvt_moment first, last;
    int32_t last_line;
};

/* Room for at most rows rows. Set the public fields above first; the rest is zeroed here. */
enum kvt_status kvt_columns_begin(struct kvt_columns *columns, const struct kvt_scan *scan,
                                  struct kvt_err *err);

/* Append one hash to the row being read. */
enum kvt_status kvt_columns_hash(struct kvt_columns *columns, const struct kvt_scan *scan,
                                 uint64_t hash, struct kvt_err *err);

/* Take the row that was read, with the hashes appended since the last one. */
enum kvt_status kvt_columns_row(struct kvt_columns *columns, const struct kvt_scan *scan,
                                const struct kvt_trace_row *row, struct kvt_err *err);

/* Check what needs all rows, shrink the columns and move them to *trace. */
enum kvt_status kvt_columns_finish(struct kvt_columns *columns, const struct kvt_scan *scan,
                                   struct kvt_trace *trace, struct kvt_err *err);

/* Free everything; safe at any time. */
void kvt_columns_release(struct kvt_columns *columns);

#endif
