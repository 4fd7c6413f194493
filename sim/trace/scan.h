/*
 * scan.h - a cursor over the rows of a trace: whole numbers, decimals and time stamps, with places
 *
 * Why by hand: a trace of a million rows is three million short numbers. libcsv calls back per
 * field after copying it byte by byte, jansson builds a tree and turns a time stamp into a double;
 * both cost more than the simulation of the requests, and the double is not exact. Rows here are
 * numbers between commas (or a flat JSON object), so one strict pass over the text is enough and
 * every stamp becomes an exact integer.
 *
 * The text is followed by one zero byte and holds none itself, so that every loop over digits stops
 * at the end of a row (CR, LF or the zero) without asking for it. `at` never passes row_end.
 */
#ifndef KVT_TRACE_SCAN_H
#define KVT_TRACE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/base/ticks.h"

#define KVT_SCAN_ROW_BYTES_MAX ((size_t)64 << 20)

struct kvt_scan {
    const char *file;
    const char *row, *row_end; /* of the current row, without CR and LF; row is NULL at the end */
    const char *at;            /* the next character to read */
    const char *next, *limit;  /* start of the next row; end of the text */
    int32_t line;              /* of the current row, from 1 */
};

/* A point in time on the trace's own axis, exact to a tick: s + ticks, 0 <= ticks < 1 s. */
struct kvt_moment {
    int64_t s, ticks;
};

/* Start on text[0..count-1]; text[count] is 0. Zero bytes are refused with their place. Borrows
 * both. */
enum kvt_status kvt_scan_begin(struct kvt_scan *scan, const char *file, const char *text,
                               size_t count, struct kvt_err *err);

/* Move to the next row; row is NULL after the last. Empty lines are allowed only at the end. */
enum kvt_status kvt_scan_row(struct kvt_scan *scan, struct kvt_err *err);

/* The place of `at` in the file, for messages. */
struct kvt_where kvt_scan_where(const struct kvt_scan *scan, const char *at);

/* Refuse what stands at `at`: "WANT, got "..."", with the text up to a comma or the row's end. */
enum kvt_status kvt_scan_refuse(const struct kvt_scan *scan, const char *at, const char *want,
                                struct kvt_err *err) __attribute__((cold));

/* A whole number up to max. what says what it counts, for messages ("input tokens"). A number that
 * goes on with a point, a letter or another digit group is refused as a whole. */
enum kvt_status kvt_scan_whole(struct kvt_scan *scan, const char *what, uint64_t max,
                               uint64_t *value, struct kvt_err *err);

/* A decimal number of units of unit_ns nanoseconds each (1, 1000, 1000000, 1000000000), >= 0. Exact
 * up to 18 fractional digits, then rounded to the nearest tick; an exponent goes through strtod. */
enum kvt_status kvt_scan_decimal(struct kvt_scan *scan, int64_t unit_ns, struct kvt_moment *moment,
                                 struct kvt_err *err);

/* "2023-11-16 18:17:03.9799600" with 0 to 9 fractional digits, 'T' or a space between, and an
 * optional Z, +hh:mm or -hh:mm. Years 1970 to 2199. */
enum kvt_status kvt_scan_stamp(struct kvt_scan *scan, struct kvt_moment *moment,
                               struct kvt_err *err);

#endif
