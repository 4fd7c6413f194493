/*
 * gemm.h - out = a * transpose(w), with BF16 or FP8 weights: the baselines of INT4
 *
 *     a [m][k] BF16, w [n][k], out [m][n] BF16, sums in FP32
 *
 *   weights   w is                      element means
 *   BF16      BF16 [n][k]               itself
 *   FP8       E4M3 [n][k]               code * scale[row of w], one float scale a row (n)
 *
 * A backend may keep weights in an order of its own: kvt_*_gemm_pack rearranges the plain order
 * above once, at load. Packing is a bijection: unpack(pack(w)) == w.
 *
 * Ragged m, n and k work; m 0 does nothing. Tolerance: mean |error| / mean |out| < 4e-3 (BF16
 * output), against double precision on the same (dequantised) weights. A NaN or infinity of a row
 * of a, or of a row of w, comes out in the elements that it takes part in, and nowhere else.
 * Subnormal BF16 numbers may count as zero.
 *
 * Cost: bytes = n * k * (2 or 1) + 2 * m * (n + k), FLOPs = 2 * m * n * k.
 */
#ifndef KVT_KERNELS_GEMM_H
#define KVT_KERNELS_GEMM_H

#include <stddef.h>

#include "kernels/formats.h"
#include "sim/base/status.h"

enum kvt_gemm_weights { KVT_GEMM_BF16, KVT_GEMM_FP8 };

struct kvt_gemm {
    int32_t weights; /* enum kvt_gemm_weights */
    int32_t m, n, k;
    const kvt_bf16 *a;
    const void *w;      /* packed by the backend that runs it; plain for ref */
    const float *scale; /* [n], FP8 */
    kvt_bf16 *out;
};

/* Sizes of at least 1 (m: 0) and at most 2^24 (k: 2^20), m * n and n * k below 2^40, scales finite
 * and above 0. KVT_ELIMIT. */
enum kvt_status kvt_gemm_check(const struct kvt_gemm *gemm, struct kvt_err *err);

/* The rule for m, n and k alone, of any product; kernel names it in the message. */
enum kvt_status kvt_gemm_sizes_check(const char *kernel, int64_t m, int64_t n, int64_t k,
                                     struct kvt_err *err);

/* Bytes of packed weights (with padding to the backend's tile). Align them to 64. */
size_t kvt_cpu_gemm_packed_bytes(enum kvt_gemm_weights weights, int32_t n, int32_t k);
void kvt_cpu_gemm_pack(enum kvt_gemm_weights weights, int32_t n, int32_t k, const void *plain,
                       void *packed);
void kvt_cpu_gemm_unpack(enum kvt_gemm_weights weights, int32_t n, int32_t k, const void *packed,
                         void *plain);

void kvt_ref_gemm(const struct kvt_gemm *gemm);
void kvt_cpu_gemm(const struct kvt_gemm *gemm); /* all threads of OpenMP; allocates nothing */

#endif
