/*
 * units.h - quantities with units, as configs write them
 *
 * A quantity is a number, an optional space, and a unit: "141 GiB", "50 GB/s", "10 us",
 * "4 req/s", "3.5 USD/h". GB is 1e9 bytes and GiB is 2^30 bytes, everywhere. Where a unit is
 * needed a bare number is an error, and so is a unit of another dimension.
 *
 * Values are held in the base unit of their dimension: bytes, bytes/s, seconds, 1/s, USD/h,
 * USD/Mtok, FLOP/s, tokens. Counts and plain ratios have no unit.
 */
#ifndef KVT_BASE_UNITS_H
#define KVT_BASE_UNITS_H

#include <stddef.h>

#include "sim/base/status.h"

enum kvt_dimension {
    KVT_DIMENSION_NONE,        /* a bare number */
    KVT_DIMENSION_BYTES,       /* B kB MB GB TB KiB MiB GiB TiB */
    KVT_DIMENSION_BANDWIDTH,   /* B/s kB/s MB/s GB/s TB/s GiB/s ..., Mbit/s Gbit/s Tbit/s */
    KVT_DIMENSION_TIME,        /* ns us ms s min h d */
    KVT_DIMENSION_RATE,        /* req/s req/min req/h */
    KVT_DIMENSION_PRICE,       /* USD/h */
    KVT_DIMENSION_TOKEN_PRICE, /* USD/Mtok */
    KVT_DIMENSION_FLOPS,       /* GFLOP/s TFLOP/s PFLOP/s */
    KVT_DIMENSION_EVENT_RATE,  /* 1/s 1/min 1/h 1/GB */
};

#define KVT_DEVICE_BYTES_MAX 0x1p50 /* memory of one device: 1024 TiB */
#define KVT_USD_PER_H_MAX    1e9    /* price of one device */

/* Parse the whole of text. On failure the message says what was wanted, with an example, and what
 * was found; it names no place, the caller adds that. NaN and infinities are refused. */
enum kvt_status kvt_quantity_parse(const char *text, enum kvt_dimension dimension, double *value,
                                   struct kvt_err *err);

/* Strict numbers: the whole of text, no leading or trailing space, no hexadecimal. A
 * seed is one of all 64-bit numbers without a sign. */
enum kvt_status kvt_int_parse(const char *text, int64_t min, int64_t max, int64_t *value,
                              struct kvt_err *err);
enum kvt_status kvt_seed_parse(const char *text, uint64_t *seed, struct kvt_err *err);
enum kvt_status kvt_double_parse(const char *text, double *value, struct kvt_err *err);

/* Write value with the largest unit that keeps it >= 1, so that parsing gives value back exactly
 * ("141 GiB", "50 GB/s", "10 us"). Returns out. */
const char *kvt_quantity_print(double value, enum kvt_dimension dimension, char *out,
                               size_t size_bytes);

/* "a size such as \"141 GiB\"": how messages describe a dimension. */
const char *kvt_dimension_example(enum kvt_dimension dimension);

#endif
