/*
 * table.h - tables of measured kernel times, as rows of work and seconds
 *
 * A table is CSV, plain or gzip, with a header line; a row is one measurement (or the mean of one
 * tool's replays) of one kernel call. Which kernel it is follows from the column op_name, what the
 * call did from the size columns of that kernel; other columns are ignored. The tables are those of
 * the public performance database that shared figures rest on: times in the column latency in
 * milliseconds, in the dispatch tables in microseconds; message_size counts 2-byte elements.
 *
 * Rows become samples: the same struct kvt_work that a step asks laws for, with the measured time.
 * Samples of one stack, version, op, dtype and kernel form a series, which is what one fit is for.
 * GPU, stack and version come from the file's name, GPU-STACK-VERSION-TABLE.csv[.gz], version first
 * from its column.
 *
 * Every value is checked where it stands: missing columns, words where numbers belong, NaN, times
 * of zero or less and sizes below one are a KVT_ECONFIG with file:line.
 */
#ifndef KVT_COST_TABLE_H
#define KVT_COST_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/cost/laws.h"

struct kvt_sample {
    struct kvt_work work;
    double time;        /* s; after averaging, the mean of the repeats */
    uint64_t key;       /* of everything that the time may depend on: equal for repeats */
    uint64_t shape;     /* of the sizes that a model fixes: what is held out as a whole */
    int32_t line, file; /* of the (first) row; index into tables.paths */
    int32_t repeats;    /* rows averaged here */
};

#define KVT_SERIES_NONE KVT_FAMILY_COUNT /* measured, but no step asks for it: a whole module */

struct kvt_series {
    char name[256]; /* "sglang 0.5.14 gemm bfloat16" */
    char stack[32], version[32], op[48], dtype[96];
    int32_t family;             /* kvt_family, or KVT_SERIES_NONE */
    enum kvt_law_kind kind;     /* the form that fits it */
    int32_t rank;               /* among series of a family: lower is nearer to what a step runs */
    bool link;                  /* bytes cross a link, not the memory */
    struct kvt_sample *samples; /* owned */
    int64_t count, room;
    int64_t rows; /* read, repeats included */
    int32_t first_file;
};

struct kvt_tables {
    struct kvt_series *series; /* owned; in the order of their first row */
    int32_t series_count, series_room;
    char **paths; /* owned */
    int32_t path_count;
    char gpu[64]; /* as in the names of the files ("h200_sxm"); "" until known */
};

/* Add the rows of one file. gpu and stack (may be NULL) are for files whose name does not say them.
 * All tables of one struct are of one GPU (KVT_ECONFIG). On failure the struct stays valid and must
 * be released. Cost about 1 us a row. */
enum kvt_status kvt_tables_read(struct kvt_tables *tables, const char *path, const char *gpu,
                                const char *stack, struct kvt_err *err);

/* The same from memory. */
enum kvt_status kvt_tables_parse(struct kvt_tables *tables, const char *path, const char *text,
                                 size_t count, const char *gpu, const char *stack,
                                 struct kvt_err *err);

/* Average rows with equal keys; afterwards samples are sorted by key. *floor is the mean of
 * |time/mean - 1| over rows that are repeated (0 when none is). */
void kvt_series_average(struct kvt_series *series, double *floor);

void kvt_tables_release(struct kvt_tables *tables);

#endif
