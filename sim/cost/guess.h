/*
 * guess.h - laws from a data sheet, for what nobody measured
 *
 * Efficiencies are those that fits on H100 and H200 reach in the middle: 0.80 of the memory
 * bandwidth, 0.70 of the dense matrix rate, 0.75 of a link, and 5 us (GEMM) to 30 us (routed
 * experts) per call. They are meant to give the right order, not the right number.
 */
#ifndef KVT_COST_GUESS_H
#define KVT_COST_GUESS_H

#include "sim/cost/laws.h"
#include "sim/model/gpu.h"

/* The guess for one family. A GPU without rates (known by its memory only) gives laws that take
 * their launch time alone; the caller has refused it before. */
struct kvt_law kvt_law_guess(enum kvt_family family, const struct kvt_gpu *gpu);

#endif
