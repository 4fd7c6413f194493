/*
 * calibration_kept.h - calibration files that this process has read before
 *
 * Jobs of many runs read the same few files over and over, and reading one takes longer than a
 * short run. What a file said is kept with its text; where a file has the same text again, for the
 * same GPU, a copy takes the place of reading it. So a file that changes is read anew, and a run
 * cannot tell. The first KVT_CALIBRATIONS_KEPT files stay until the process ends, some 0.5 MB each;
 * others are read each time. Any number of threads may be in here.
 */
#ifndef KVT_COST_CALIBRATION_KEPT_H
#define KVT_COST_CALIBRATION_KEPT_H

#include "sim/cost/calibration.h"

#define KVT_CALIBRATIONS_KEPT 16

/* A copy of what was kept for this text and GPU, as if it had just been read; false where nothing
 * is kept, or without memory. 30 us for a large file. */
bool kvt_calibration_from_kept(struct kvt_calibration *calibration, const char *text, size_t count,
                               const struct kvt_gpu *gpu, FILE *talk);

/* Keep what text was read as. Does nothing where that is kept already, or without room. */
void kvt_calibration_keep(const struct kvt_calibration *calibration, const char *text, size_t count,
                          const struct kvt_gpu *gpu);

#endif
