/*
 * elementwise.h - the small kernels between the large ones
 *
 *     add_norm   x += y (y may be NULL); out = x / sqrt(mean(x^2) + eps) * weight     [rows][dim]
 *     silu_mul   out[i][j] = silu(in[i][j]) * in[i][dim + j],  in [rows][2 dim]
 *     rope       rotates pairs (j, j + dim/2) of each head of q and k by position * base^(-2 j /
 * dim) argmax     the greedy token of each row of logits, the lowest index among equals
 *
 * x is FP32 (the residual stream), everything else BF16; sums in FP32. A model's step needs them;
 * the cost model counts them as what a layer takes beyond its listed kernels (layer-*).
 */
#ifndef KVT_KERNELS_ELEMENTWISE_H
#define KVT_KERNELS_ELEMENTWISE_H

#include "kernels/formats.h"

void kvt_ref_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps, int32_t rows,
                      int32_t dim, kvt_bf16 *out);
void kvt_ref_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out);
void kvt_ref_rope(kvt_bf16 *x, const int32_t *position, int32_t rows, int32_t heads, int32_t stride,
                  int32_t dim, double base);
void kvt_ref_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns, int32_t *token);

void kvt_cpu_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps, int32_t rows,
                      int32_t dim, kvt_bf16 *out);
void kvt_cpu_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out);
void kvt_cpu_rope(kvt_bf16 *x, const int32_t *position, int32_t rows, int32_t heads, int32_t stride,
                  int32_t dim, double base);
void kvt_cpu_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns, int32_t *token);

#endif
