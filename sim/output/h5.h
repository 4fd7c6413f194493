/*
 * h5.h - HDF5 calls as statuses: what the writer and the reader of run files share
 *
 * Every call's result goes through kvt_h5_id or kvt_h5_done; once one has failed, later ones are
 * not made (callers test h5->failed), so that the first failure is the one reported. The reason is
 * taken from HDF5's error stack: the operating system's words where there are any.
 */
#ifndef KVT_OUTPUT_H5_H
#define KVT_OUTPUT_H5_H

#include <hdf5.h>
#include <stdbool.h>

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

#endif
