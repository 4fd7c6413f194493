/*
 * elementwise_rows.h - one row of each elementwise kernel, written once, compiled for each
 * instruction set
 *
 * elementwise_<isa>.c defines KVT_ROWS, the name of its table, and includes this file; the loops
 * are plain C that the compiler turns into the vectors of that set. exp, sine and cosine are short
 * polynomials here because a call would keep a loop from becoming vectors.
 */
#ifndef KVT_KERNELS_CPU_ELEMENTWISE_ROWS_H
#define KVT_KERNELS_CPU_ELEMENTWISE_ROWS_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/elementwise.h"

struct kvt_elementwise_rows {
    void (*add_norm)(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps, int32_t dim,
                     kvt_bf16 *out);
    void (*silu_mul)(const kvt_bf16 *gate, const kvt_bf16 *up, int32_t dim, kvt_bf16 *out);
    /* cosines and sines [half] of position * frequency[half] */
    void (*angles)(int32_t position, const double *frequency, int32_t half, float *cosine,
                   float *sine);
    void (*rotate)(kvt_bf16 *x, const float *cosine, const float *sine, int32_t half);
    int32_t (*argmax)(const kvt_bf16 *logits, int32_t columns);
};

extern const struct kvt_elementwise_rows kvt_elementwise_portable, kvt_elementwise_avx2,
    kvt_elementwise_avx512;

#ifdef KVT_ROWS

static inline float float_of(kvt_bf16 value)
{
    uint32_t bits = (uint32_t)value << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static inline kvt_bf16 bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (kvt_bf16)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static void row_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps,
                         int32_t dim, kvt_bf16 *out)
{
    float squares = 0.0f;
    if (y != NULL) {
#pragma omp simd
        for (int32_t j = 0; j < dim; j++)
            x[j] += float_of(y[j]);
    }
#pragma omp simd reduction(+ : squares)
    for (int32_t j = 0; j < dim; j++)
        squares += x[j] * x[j];
    float factor = 1.0f / sqrtf(squares / (float)dim + eps);
#pragma omp simd
    for (int32_t j = 0; j < dim; j++)
        out[j] = bf16_of(x[j] * factor * float_of(weight[j]));
}

/* 2^x to 2e-7, from 0 to infinity; NaN stays NaN. Below, the sum with 1.5 * 2^23 has the nearest
 * integer in its low bits. */
static inline float exp2_of(float x)
{
    x = x > 127.0f ? 127.0f : x;
    x = x < -126.0f ? -126.0f : x;
    float shifted = x + 12582912.0f, rest = x - (shifted - 12582912.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    float sum = 1.54035304e-4f;
    sum = sum * rest + 1.33335581e-3f;
    sum = sum * rest + 9.61812911e-3f;
    sum = sum * rest + 5.55041087e-2f;
    sum = sum * rest + 2.40226507e-1f;
    sum = sum * rest + 6.93147181e-1f;
    sum = sum * rest + 1.0f;
    return sum * power;
}

static void row_silu_mul(const kvt_bf16 *gate, const kvt_bf16 *up, int32_t dim, kvt_bf16 *out)
{
#pragma omp simd
    for (int32_t j = 0; j < dim; j++) {
        float x = float_of(gate[j]);
        out[j] = bf16_of(x / (1.0f + exp2_of(x * -1.44269504f)) * float_of(up[j]));
    }
}

/* The angle is brought to [-pi/4, pi/4] in double (the 1.5 * 2^52 trick), the rest is float. */
static void row_angles(int32_t position, const double *frequency, int32_t half, float *cosine,
                       float *sine)
{
#pragma omp simd
    for (int32_t j = 0; j < half; j++) {
        double angle = position * frequency[j];
        double shifted = angle * 0.63661977236758134 + 6755399441055744.0;
        double turns = shifted - 6755399441055744.0;
        double rest = angle - turns * 1.5707963267948966;
        uint64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        float r = (float)rest, square = r * r;
        float s =
            r + r * square *
                    (-1.6666667e-1f +
                     square * (8.3333310e-3f + square * (-1.9840874e-4f + square * 2.7525562e-6f)));
        float c =
            1.0f + square * (-0.5f + square * (4.1666642e-2f +
                                               square * (-1.3888397e-3f + square * 2.4760495e-5f)));
        float s_or_c = (bits & 1) != 0 ? c : s, c_or_s = (bits & 1) != 0 ? s : c;
        sine[j] = (bits & 2) != 0 ? -s_or_c : s_or_c;
        cosine[j] = ((bits + 1) & 2) != 0 ? -c_or_s : c_or_s;
    }
}

static void row_rotate(kvt_bf16 *x, const float *cosine, const float *sine, int32_t half)
{
    kvt_bf16 *y = x + half;
#pragma omp simd
    for (int32_t j = 0; j < half; j++) {
        float a = float_of(x[j]), b = float_of(y[j]);
        x[j] = bf16_of(a * cosine[j] - b * sine[j]);
        y[j] = bf16_of(a * sine[j] + b * cosine[j]);
    }
}

/* A number that orders BF16 values as floats are: -0 and 0 are the same. */
static inline int32_t order_of(kvt_bf16 value)
{
    int32_t magnitude = value & 0x7fff;
    return value >> 15 != 0 ? -magnitude : magnitude;
}

static int32_t row_argmax(const kvt_bf16 *logits, int32_t columns)
{
    int32_t best = INT32_MIN, largest = 0;
#pragma omp simd reduction(max : best, largest)
    for (int32_t j = 0; j < columns; j++) {
        int32_t magnitude = logits[j] & 0x7fff, order = order_of(logits[j]);
        best = order > best ? order : best;
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest > 0x7f80) /* of infinity: a NaN */
        return -1;
    for (int32_t j = 0; j < columns; j++)
        if (order_of(logits[j]) == best)
            return j;
    return -1;
}

const struct kvt_elementwise_rows KVT_ROWS = {row_add_norm, row_silu_mul, row_angles, row_rotate,
                                              row_argmax};

#endif
#endif
