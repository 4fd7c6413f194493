/*
 * h5_driver.h - a file driver for HDF5 under which writes do not fail
 *
 * HDF5 (1.10.8) may crash when a write fails half-way, on a full disk for instance: its caches go
 * on as if they held what they do not. So it writes through this driver, which keeps the first
 * error and lets HDF5 believe that all went well. The writer looks at the error after each call,
 * stops, and throws the file away.
 */
#ifndef KVT_OUTPUT_H5_DRIVER_H
#define KVT_OUTPUT_H5_DRIVER_H

#include <hdf5.h>

/* Use the driver for files created with this access list. The first errno of a failed write goes
 * to *failure, which outlives the file and begins as 0. Negative when HDF5 refuses. */
herr_t kvt_h5_driver_set(hid_t access_list, int *failure);

#endif
