/* calibration_file.h - the reader behind calibration.h; not for others */
#ifndef KVT_COST_CALIBRATION_FILE_H
#define KVT_COST_CALIBRATION_FILE_H

#include "sim/cost/calibration.h"

/* Fill name .. skew and append the file's laws, unsorted. calibration->laws has room. */
enum kvt_status kvt_calibration_read(struct kvt_calibration *calibration, const char *name,
                                     const char *text, size_t count, const struct kvt_gpu *gpu,
                                     struct kvt_err *err);

#endif
