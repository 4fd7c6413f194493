/*
 * trace.h - the requests of a run, in order of arrival
 *
 * Columns, not rows: request i arrived at arrival[i] with input[i] prompt tokens and asks for
 * output[i] tokens. Arrivals never decrease; ties keep the order of the file. The first arrival
 * of an imported trace is at time 0.
 *
 * Prompts that may share prefixes carry hashes: request i has hash_count(i) of them, each stands
 * for block_tokens tokens (the last may cover fewer), and equal hashes at the same place after
 * equal prefixes mean equal text. Ids are chained already or not; the prefix index chains anyway.
 */
#ifndef KVT_TRACE_TRACE_H
#define KVT_TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/status.h"
#include "sim/base/ticks.h"

#define KVT_TRACE_ROWS_MAX   200000000 /* KVT_ELIMIT above */
#define KVT_TRACE_TOKENS_MAX (1 << 26) /* of one prompt or output */
#define KVT_TRACE_SPAN_S_MAX 8640000   /* 100 days: the clock ends at 104 */

struct kvt_trace {
    int32_t count;
    kvt_ticks *arrival;   /* [count] owned, as all columns */
    int32_t *input;       /* [count] >= 1 */
    int32_t *output;      /* [count] >= 1 */
    uint16_t *tenant;     /* [count], or NULL: all 0 */
    int64_t *hash_begin;  /* [count + 1], or NULL: no hashes */
    uint64_t *hashes;     /* [hash_begin[count]] */
    int32_t block_tokens; /* tokens of one hash; 0 without hashes */
    int32_t tenants;      /* tenant[i] < tenants, >= 1 */
    int32_t dropped;      /* rows of the file that are no requests (0 tokens), for messages */
};

static inline int32_t kvt_trace_hash_count(const struct kvt_trace *trace, int32_t i)
{
    return trace->hash_begin == NULL ? 0
                                     : (int32_t)(trace->hash_begin[i + 1] - trace->hash_begin[i]);
}

/* Read a trace of any known format, told by its header or first row (formats.h lists them), plain
 * or gzip. Errors name file, line and column. speed divides inter-arrival times. */
enum kvt_status kvt_trace_read(struct kvt_trace *trace, const char *path, double speed,
                               struct kvt_err *err);

/* The same from memory. text[count] must be 0. name is for messages. */
enum kvt_status kvt_trace_parse(struct kvt_trace *trace, const char *name, const char *text,
                                size_t count, double speed, struct kvt_err *err);

/* Write as our own CSV (formats.h), whole or not at all. Times are rounded to ns: generated traces
 * and those imported with up to 9 digits are whole ns, so that reading gives the same trace. */
enum kvt_status kvt_trace_write(const struct kvt_trace *trace, const char *path,
                                struct kvt_err *err);

void kvt_trace_release(struct kvt_trace *trace);

#endif
