/*
 * attention_finish.h - the end of attention on the CPU: merge parts, divide by the sum, round
 *
 * Plain C that each instruction set compiles for itself (the loops vectorise), so it belongs to
 * attention_<isa>.c and is included nowhere else. attention_piece.h says what it does.
 */
#ifndef KVT_KERNELS_CPU_ATTENTION_FINISH_H
#define KVT_KERNELS_CPU_ATTENTION_FINISH_H

#include <math.h>
#include <string.h>

#include "kernels/cpu/attention_piece.h"

/* To BF16 where NaN comes from arithmetic only, and so is quiet and has no low bits to lose. */
static inline kvt_bf16 finish_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t nan = (bits & 0x7fffffff) > 0x7f800000;
    return (kvt_bf16)((bits + (nan ? 0 : 0x7fff + (bits >> 16 & 1))) >> 16);
}

static inline void partial_finish(const struct kvt_attention_partial *from, int32_t heads,
                                  int32_t value_dim, float scale, kvt_bf16 *out, float *lse)
{
    for (int32_t h = 0; h < heads; h++) {
        const float *in = from->out + (int64_t)h * value_dim;
        kvt_bf16 *to = out + (int64_t)h * value_dim;
        float factor = scale / from->sum[h];
#pragma omp simd
        for (int32_t d = 0; d < value_dim; d++)
            to[d] = finish_round(in[d] * factor);
        if (lse != NULL)
            lse[h] = (float)(((double)from->max[h] + log2((double)from->sum[h])) *
                             0.69314718055994530942);
    }
}

static inline void partial_merge(const struct kvt_attention_partial *first, int64_t slot_floats,
                                 int32_t count, int32_t heads, int32_t value_dim,
                                 const struct kvt_attention_partial *to)
{
    for (int32_t h = 0; h < heads; h++) {
        float *out = to->out + (int64_t)h * value_dim;
        float max = first->max[h], sum = 0;
        for (int32_t i = 1; i < count; i++)
            if (first->max[i * slot_floats + h] > max)
                max = first->max[i * slot_floats + h];
        memset(out, 0, (size_t)value_dim * sizeof *out);
        for (int32_t i = 0; i < count; i++) {
            const float *in = first->out + i * slot_floats + (int64_t)h * value_dim;
            float weight = exp2f(first->max[i * slot_floats + h] - max);
            sum += weight * first->sum[i * slot_floats + h];
#pragma omp simd
            for (int32_t d = 0; d < value_dim; d++)
                out[d] += weight * in[d];
        }
        to->max[h] = max;
        to->sum[h] = sum;
    }
}

#endif
