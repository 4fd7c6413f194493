/*
 * h5_items.h - a list of columns and attributes as one HDF5 file
 *
 * For results that are tables: sweeps, searches, campaigns. An item is named by group and name; the
 * groups are made as they come, "" is the root. Columns are contiguous, strings have the length of
 * the longest with its zero byte, and no object keeps a time: equal items give equal bytes. The
 * file appears under its name when it is complete; a failure is a KVT_EIO that says why (h5.h).
 */
#ifndef KVT_OUTPUT_H5_ITEMS_H
#define KVT_OUTPUT_H5_ITEMS_H

#include <stdint.h>

#include "sim/base/status.h"

enum kvt_h5_kind {
    KVT_H5_I64,  /* values: const int64_t [rows] */
    KVT_H5_F64,  /* values: const double [rows] */
    KVT_H5_TEXT, /* values: const char *const [rows]; UTF-8; NULL is "" */
    KVT_H5_ATTRIBUTE_I64,
    KVT_H5_ATTRIBUTE_TEXT, /* values: const char *, or const int64_t * */
};

struct kvt_h5_item {
    const char *group, *name; /* "metrics", "p90_ttft_ms"; the name may hold dots but no slash */
    enum kvt_h5_kind kind;
    int64_t rows;       /* of a column */
    const void *values; /* borrowed */
};

/* Write items[0..count-1] to path, in this order. */
enum kvt_status kvt_h5_items_write(const char *path, const struct kvt_h5_item items[],
                                   int32_t count, struct kvt_err *err);

/* Whether path may be written by the job of this identity (journal.h), which such files keep as the
 * text meta/identity: it is that job's own, or there is none yet, or an empty one. KVT_ECONFIG for
 * the file of another job, and for any other, with what it is. A job that begins, as its journal is
 * not there yet, is told a place that cannot be written before it works for hours: KVT_EIO. */
enum kvt_status kvt_h5_items_check(const char *path, const char *journal, const char *identity,
                                   struct kvt_err *err);

#endif
