/*
 * elementwise.h - the small kernels between the large ones
 *
 *     add_norm   x += y (y may be NULL); out = x / sqrt(mean(x^2) + eps) * weight     [rows][dim]
 *     silu_mul   out[i][j] = silu(in[i][j]) * in[i][dim + j],  in [rows][2 dim]
 *     rope       rotates the pair (x[j], x[j + dim / 2]) of each head by the angle
 *                position * base^(-2 j / dim), j of dim / 2
 *     argmax     the greedy token of each row of logits, the lowest index among equals; -1 for a
 *                row that holds a NaN, so that a poisoned request is seen
 *     combine    y[row] = (add ? y[row] : 0) + sum over j of share[row][j] * in[place[row][j]], in
 *                the order of j: what a row's routed experts gave
 *
 * x of add_norm is FP32 (the residual stream), everything else BF16; sums in FP32, the angle of
 * rope to 1e-5. A NaN comes out as NaN in every element that it takes part in. A model's step needs
 * these; the cost model counts them as what a layer takes beyond its listed kernels (layer-*).
 *
 * Tolerance against double precision: 2^-8 of the element (rope: of its pair's length), which is
 * the rounding of BF16; argmax is exact.
 *
 * Cost: their bytes, once. rope adds one sine and cosine per row and pair, shared by the heads.
 */
#ifndef KVT_KERNELS_ELEMENTWISE_H
#define KVT_KERNELS_ELEMENTWISE_H

#include <stdbool.h>

#include "kernels/formats.h"

#define KVT_ROPE_DIM_MAX 256

struct kvt_rope {
    kvt_bf16 *x;             /* head h of row r starts at x[r * row_stride + h * head_stride] */
    const int32_t *position; /* [rows], 0 or more */
    int32_t rows, heads;
    int32_t dim; /* even, at most KVT_ROPE_DIM_MAX */
    int64_t row_stride, head_stride;
    double base;
};

struct kvt_combine {
    kvt_bf16 *y;          /* [rows][dim] */
    const kvt_bf16 *in;   /* [..][dim] */
    const int32_t *place; /* [rows][topk] rows of in */
    const float *share;   /* [rows][topk] */
    int32_t rows, topk, dim;
    bool add;
};

void kvt_ref_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps, int32_t rows,
                      int32_t dim, kvt_bf16 *out);
void kvt_ref_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out);
void kvt_ref_rope(const struct kvt_rope *rope);
void kvt_ref_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns, int32_t *token);
void kvt_ref_combine(const struct kvt_combine *combine);

void kvt_cpu_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps, int32_t rows,
                      int32_t dim, kvt_bf16 *out);
void kvt_cpu_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out);
void kvt_cpu_rope(const struct kvt_rope *rope);
void kvt_cpu_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns, int32_t *token);
void kvt_cpu_combine(const struct kvt_combine *combine); /* the bits of ref */

#endif
