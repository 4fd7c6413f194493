/*
 * h5.h - HDF5 calls as statuses, and the pieces that writers and readers of files share
 *
 * Every call's result goes through kvt_h5_id or kvt_h5_done; once one has failed, later ones are
 * not made (callers test h5->failed), so that the first failure is the one reported. The reason is
 * taken from HDF5's error stack: the operating system's words where there are any.
 */
#ifndef KVT_OUTPUT_H5_H
#define KVT_OUTPUT_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

struct kvt_h5 {
    const char *path;       /* for messages; borrowed */
    enum kvt_status status; /* of a failure: KVT_EIO writing, KVT_ECONFIG reading a bad file */
    const int *failure;     /* errno of a write that failed (h5_driver.h), or NULL */
    bool failed;
    struct kvt_err *err;
};

/* Note a failure of call when result is negative; return result. */
hid_t kvt_h5_id(struct kvt_h5 *h5, const char *call, hid_t result);
bool kvt_h5_done(struct kvt_h5 *h5, const char *call, herr_t result);

/* Property lists that keep no times: equal runs give equal bytes. */
hid_t kvt_h5_plain(struct kvt_h5 *h5, hid_t property_class);

/* The compound type of a decision as it lies in memory, which is how it is stored. */
hid_t kvt_h5_decision_type(struct kvt_h5 *h5);

/* Rows first to first + count of the table of decisions, one extent in memory and in the file. A
 * failure leaves what was opened; kvt_h5_rows_close takes any state. */
struct kvt_h5_rows {
    hid_t type, space, memory;
};
void kvt_h5_rows_open(struct kvt_h5 *h5, hid_t dataset, int64_t first, int64_t count,
                      struct kvt_h5_rows *rows);
void kvt_h5_rows_close(struct kvt_h5_rows *rows);

/* --- reading --------------------------------------------------------------------------------- */

#define KVT_H5_TEXT_MAX ((size_t)1 << 26) /* bytes of a text that is read */

/* The one string, of fixed length, that an attribute or a dataset holds; malloc'ed. NULL when it is
 * something else (*why is KVT_ECONFIG) or there is no memory (KVT_ENOMEM). */
char *kvt_h5_text(hid_t of, enum kvt_status *why);

/* A dataset that is open for reading. count: its items over all dimensions; -1 where what it claims
 * is more than it has bytes for, as a damaged file may. Closing takes any state. */
struct kvt_h5_array {
    hid_t dataset, type, space; /* -1: not open */
    int64_t count;
};
void kvt_h5_array_open(struct kvt_h5 *h5, hid_t file, const char *path, struct kvt_h5_array *array);
void kvt_h5_array_close(const struct kvt_h5_array *array);

/* --- writing: nothing is done once h5 has failed ------------------------------------------- */

/* A file of the oldest format that we meet (1.10), whose close leaves no handle behind. -1 on
 * failure. */
hid_t kvt_h5_create(struct kvt_h5 *h5, const char *path, int *failure);

/* A UTF-8 string of fixed length, its zero byte included. */
hid_t kvt_h5_text_type(struct kvt_h5 *h5, size_t bytes);

void kvt_h5_attribute(struct kvt_h5 *h5, hid_t at, const char *name, hid_t type, const void *value);
void kvt_h5_attribute_text(struct kvt_h5 *h5, hid_t at, const char *name, const char *text);

/* A contiguous dataset of the given extent, made by the property list; -1 on failure. */
hid_t kvt_h5_dataset(struct kvt_h5 *h5, hid_t at, const char *name, hid_t type, int rank,
                     const hsize_t extent[], hid_t list);
void kvt_h5_dataset_close(struct kvt_h5 *h5, hid_t dataset);

/* A dataset of one dimension, as it lies in memory. */
void kvt_h5_column(struct kvt_h5 *h5, hid_t at, const char *name, hid_t type, const void *values,
                   int64_t rows, hid_t list);

#endif
