/*
 * int4.h - GEMM with 4-bit weights and 16-bit activations (W4A16), dense and for routed experts
 *
 *     out[m][n] = a[m][k] * transpose(w),  w[n][k] = (nibble - 8) * scale[n][k / group]
 *
 * Weights are symmetric, group is 32 or 128 along k, scales are BF16. Plain order, as checkpoints
 * have it: nibbles uint32 [n][k / 8], element j of a word in bits 4 j; scales [n][k / group]. k is
 * a multiple of group. Packed orders are the backend's own and bijections of the plain one.
 *
 * The experts form runs, for each expert e that has rows, a GEMM of rows row_begin[e] ..
 * row_begin[e + 1] of a and out with the weights of e: the rows are sorted by expert beforehand, an
 * expert without rows costs nothing (its weights are not read).
 *
 * NaN and infinity of a row of a come out in that row of out (as either) and nowhere else.
 * Subnormal BF16 numbers may count as zero, and numbers below 1/64 of the largest of their group of
 * a may be rounded to 2^-14 of it.
 *
 * Sums in FP32; out is BF16. Tolerance against double precision on the dequantised weights: mean
 * |error| / mean |out| < 1e-3 before rounding to BF16, and the rounding of BF16 on top (the tests
 * take the rounding of the exact result off). Ragged m and n work.
 *
 * Cost: bytes = n * k * (0.5 + 2 / group) + 2 * m * (n + k); FLOPs = 2 * m * n * k. At small m the
 * weights' bytes set the time.
 */
#ifndef KVT_KERNELS_INT4_H
#define KVT_KERNELS_INT4_H

#include <stddef.h>

#include "kernels/formats.h"
#include "sim/base/status.h"

struct kvt_int4_plain {
    int32_t n, k, group;
    uint32_t *nibbles; /* [n][k / 8] */
    kvt_bf16 *scales;  /* [n][k / group] */
};

struct kvt_int4_gemm {
    int32_t m, n, k, group;
    const kvt_bf16 *a;
    const void *w; /* packed */
    kvt_bf16 *out;
};

struct kvt_int4_experts {
    int32_t experts, n, k, group;
    const int32_t *row_begin; /* [experts + 1] */
    const kvt_bf16 *a;        /* [row_begin[experts]][k] */
    const void *w;            /* packed, expert after expert, each kvt_*_int4_packed_bytes */
    kvt_bf16 *out;            /* [row_begin[experts]][n] */
    int32_t rows;             /* row_begin[experts], for who cannot read that; 0: not told */
};

/* group 32 or 128 that divides k, sizes of at least 1 (m: 0) and at most 2^24 (k: 2^20),
 * m * n and n * k below 2^40, row_begin from 0 and not decreasing. KVT_ELIMIT. */
enum kvt_status kvt_int4_gemm_check(const struct kvt_int4_gemm *gemm, struct kvt_err *err);
enum kvt_status kvt_int4_experts_check(const struct kvt_int4_experts *experts, struct kvt_err *err);

/* Quantise finite w [n][k]: scale = BF16 of amax / 7 (1 where that is 0), nibble = round(w / scale)
 * + 8, ties to even, clamped to 1..15. */
void kvt_int4_quantise(const float *w, const struct kvt_int4_plain *plain);

/* A multiple of 64; align packed weights to 64. */
size_t kvt_cpu_int4_packed_bytes(int32_t n, int32_t k, int32_t group);
void kvt_cpu_int4_pack(const struct kvt_int4_plain *plain, void *packed);
void kvt_cpu_int4_unpack(const void *packed, const struct kvt_int4_plain *plain);

/* ref takes weights in plain order (w unused), of experts one struct each. */
void kvt_ref_int4_gemm(const struct kvt_int4_gemm *gemm, const struct kvt_int4_plain *plain);
void kvt_ref_int4_experts(const struct kvt_int4_experts *experts,
                          const struct kvt_int4_plain plain[]);

/* All threads of OpenMP; nothing is allocated. */
void kvt_cpu_int4_gemm(const struct kvt_int4_gemm *gemm);
void kvt_cpu_int4_experts(const struct kvt_int4_experts *experts);

#endif
