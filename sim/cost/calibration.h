/*
 * calibration.h - the laws of one GPU under one stack, each with its source
 *
 * A calibration file is YAML:
 *
 *     calibration: h200-sglang
 *     gpu: h200-sxm
 *     stack: sglang              # several stacks may exist for one GPU; a claim names its own
 *     version: 0.5.14
 *     skew: 0.70                 # optional: share of the experts beyond top-k that are really hit
 *     source: where this comes from as a whole
 *     laws:
 *     - family: gemm-bf16        # laws.h lists families, laws and what their parameters mean
 *       law: roofline
 *       when: {heads: [1, 16]}   # optional: only these sizes; the first law that admits is used
 *       t0: 3.6 us
 *       bandwidth: 4.24 TB/s
 *       ...
 *       plus_minus: {t0: 0.02}   # optional: half of a 95 % interval of a parameter's logarithm
 *       grid: {n: [256, 65536]}  # optional: where it was fitted; a model outside gets a warning
 *       surface:                 # optional: a factor on a grid of sizes (surface.h)
 *         axes: [m, n]           # up to 5; the last runs fastest
 *         m: [1, 16, 256]        # knots of each
 *         n: [256, 65536]
 *         half_percent: >-          # 200 ln(factor) at each knot
 *           12 -3 40 -8 0 5        # longer ones: packed, two digits of base 64 each (surface.h)
 *       held_out: {rows: 512, median: 0.05, mean: 0.08}   # or in_sample:; also p90, floor
 *       unseen: {rows: 900, median: 0.06, mean: 0.1, p90: 0.2, low: 0.8, high: 1.2, coverage: 0.9}
 *       scatter: 0.3             # optional, for what no table says: 90 % of the true times lie
 *                                # within a factor of 1.3; of a constant also a time (scatter:
 *                                # 5 us: within t0 +- 5 us). error_factors.h says what it is for
 *       source: where the numbers come from
 *
 * Whatever a file leaves out is filled with a roofline from the GPU's data sheet at stated
 * efficiencies (guess: true), and the first use of such a law is said on talk. A GPU without any
 * calibration is all guess.
 */
#ifndef KVT_COST_CALIBRATION_H
#define KVT_COST_CALIBRATION_H

#include <stdio.h>

#include "sim/base/status.h"
#include "sim/cost/error_factors.h"
#include "sim/cost/laws.h"
#include "sim/model/gpu.h"

#define KVT_CALIBRATION_LAWS 256

struct kvt_calibration {
    char name[64], gpu[64], stack[32], version[64];
    char source[400];
    double skew;
    int32_t law_count; /* sorted by family, otherwise in the order of the file, guesses last */
    int32_t first[KVT_FAMILY_COUNT + 1];
    struct kvt_law *laws;             /* owned */
    bool *said;                       /* owned; [law_count]: a warning about this law was printed */
    FILE *talk;                       /* where warnings go; NULL: nowhere */
    struct kvt_error_factors *errors; /* borrowed; NULL: times are those of the laws */
};

/* name_or_path is a shipped name ("h200-sglang"), a path (it holds a '/' or ends in .yaml), or NULL
 * for the shipped calibration of this GPU and stack, e.g. h200-sxm and "vllm": h200-vllm. A file
 * for another GPU is a KVT_ECONFIG. For NULL where none is shipped the laws are guesses and talk
 * says so. Release with kvt_calibration_release. */
enum kvt_status kvt_calibration_load(struct kvt_calibration *calibration, const char *name_or_path,
                                     const struct kvt_gpu *gpu, const char *stack, FILE *talk,
                                     struct kvt_err *err);

/* The same from memory; name is for messages. */
enum kvt_status kvt_calibration_parse(struct kvt_calibration *calibration, const char *name,
                                      const char *text, size_t count, const struct kvt_gpu *gpu,
                                      FILE *talk, struct kvt_err *err);

/* Whether one is shipped for this GPU and stack, so that NULL would not guess. */
bool kvt_calibration_is_shipped(const struct kvt_gpu *gpu, const char *stack);

/* Whether the file of a name or path as kvt_calibration_load takes it is there. */
bool kvt_calibration_is_there(const char *name_or_path);

void kvt_calibration_release(struct kvt_calibration *calibration);

/* A view of the same laws whose times are wrong by errors, and which warns of nothing. It owns
 * nothing and must not outlive either; any number of threads may use views of one calibration. */
struct kvt_calibration kvt_calibration_with_errors(const struct kvt_calibration *calibration,
                                                   struct kvt_error_factors *errors);

/* Add seconds to every law of a family. A law does not fall below zero, but for layer-*: what is
 * not listed there may be overlap. */
void kvt_calibration_add(struct kvt_calibration *calibration, enum kvt_family family,
                         double seconds);

/* The law for a piece of work: the first of its family that admits it. Never NULL. O(laws of the
 * family). */
const struct kvt_law *kvt_calibration_law(const struct kvt_calibration *calibration,
                                          enum kvt_family family, const struct kvt_work *work);

/* Seconds of one call, its error included where the calibration has errors; warns once per law
 * about guesses and sizes outside the grid. */
double kvt_calibration_time(const struct kvt_calibration *calibration, const struct kvt_law *law,
                            const struct kvt_work *work, enum kvt_limit *limit);

#endif
