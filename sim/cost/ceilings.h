/*
 * ceilings.h - what a machine was measured to reach, in place of its data sheet
 *
 * kvtwin bench measures how fast memory is read and copied, the peak of the matrix units, and how
 * long a call takes that does nothing. These stand for the data sheet when its tables are fitted:
 * units are judged against them, no fitted bandwidth exceeds them, and families that the bench did
 * not measure get their guess (guess.h) from them, with the measured time of a launch.
 */
#ifndef KVT_COST_CEILINGS_H
#define KVT_COST_CEILINGS_H

#include "sim/cost/calibration.h"
#include "sim/cost/table.h"

/* Put the measured rates into gpu. A GPU's data sheet is near what it reaches: KVT_ECONFIG when the
 * rates are less than a quarter of its bandwidth, or more than it by a quarter. A file for a CPU
 * stands for many machines: there what was measured holds, and *surprising says that it is outside
 * these bounds, until a factor of 30 either way, which no CPU explains. */
enum kvt_status kvt_ceilings_apply(const struct kvt_bench_facts *facts, struct kvt_gpu *gpu,
                                   bool *surprising, struct kvt_err *err);

/* Add to a calibration that is to be printed a law for each family that it lacks and that runs on
 * one device: a roofline at the shares of guess.h of the ceilings in gpu (attention of prompts: at
 * the matrix rate of the fitted decode attention). Constants of layers count
 * their small kernels at the time of a launch; host constants, too, are launches, because the
 * runtime that was measured has no server around it. Each says so in its source. Without a launch
 * in facts nothing is added. Returns how many. */
int32_t kvt_ceilings_fill(const struct kvt_bench_facts *facts, const struct kvt_gpu *gpu,
                          struct kvt_calibration *calibration);

#endif
