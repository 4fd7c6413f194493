/*
 * kv_append_plain.h - append in plain C without branches, so that compilers vectorise it
 *
 * Included by kv_append_portable.c and kv_append_avx2.c only. An encoding works on integers: with
 * e the biased E4M3 exponent of x / scale, the significand (8 bits of a BF16) is shifted right by 4
 * and by 1 - e more for a subnormal, rounded to even, and added to (max(e, 1) - 1) << 3; a
 * significand that rounds up to the next power of two carries into the exponent by itself.
 */
#ifndef KVT_KERNELS_CPU_KV_APPEND_PLAIN_H
#define KVT_KERNELS_CPU_KV_APPEND_PLAIN_H

#include <string.h>

#include "kernels/cpu/kv_append_isa.h"
#include "kernels/kv_write.h"

#define BF16_INFINITY 0x7f80

static inline int32_t plain_shift(int32_t significand, int32_t exponent, int32_t shift,
                                  int32_t most)
{
    int32_t more = exponent < 1 ? 1 - exponent : 0;
    shift = shift + more < most ? shift + more : most;
    int32_t half = (1 << (shift - 1)) - 1 + (significand >> shift & 1);
    int32_t base = exponent > 1 ? exponent - 1 : 0;
    return (base << 3) + ((significand + half) >> shift);
}

static inline bool plain_copy(const kvt_bf16 *source, int32_t count, uint8_t *target)
{
    int32_t poisoned = 0;
#pragma omp simd reduction(| : poisoned)
    for (int32_t i = 0; i < count; i++)
        poisoned |= (source[i] & 0x7fff) >= BF16_INFINITY;
    memcpy(target, source, (size_t)count * sizeof *source);
    return poisoned != 0;
}

static inline bool plain_codes(const kvt_bf16 *source, int32_t count, float scale, uint8_t *codes)
{
    int32_t poisoned = 0;
#pragma omp simd reduction(| : poisoned)
    for (int32_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)(source[i] & 0x7fff) << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        value /= scale;
        memcpy(&bits, &value, sizeof bits);
        int32_t exponent = (int32_t)(bits >> 23) - 120;
        int32_t code = plain_shift((int32_t)(bits & 0x7fffff) | 0x800000, exponent, 20, 30);
        code = bits >= 0x43e00000 ? 0x7e : code;
        code |= source[i] >> 8 & 0x80;
        int32_t bad = (source[i] & 0x7fff) >= BF16_INFINITY;
        codes[i] = (uint8_t)(bad ? KVT_E4M3_NAN : code);
        poisoned |= bad;
    }
    return poisoned != 0;
}

static inline bool plain_group(const kvt_bf16 *source, int32_t count, uint8_t *codes,
                               uint8_t *scale_at)
{
    int32_t most = 0, poisoned = 0;
#pragma omp simd reduction(max : most) reduction(| : poisoned)
    for (int32_t i = 0; i < count; i++) {
        int32_t magnitude = source[i] & 0x7fff, bad = magnitude >= BF16_INFINITY;
        magnitude = bad ? 0 : magnitude;
        most = magnitude > most ? magnitude : most;
        poisoned |= bad;
    }
    float scale = kvt_fp8_scale(kvt_bf16_to_float((kvt_bf16)most));
    uint32_t scale_bits;
    memcpy(&scale_bits, &scale, sizeof scale_bits);
    memcpy(scale_at, &scale, sizeof scale);
    int32_t bias = (int32_t)(scale_bits >> 23) - 7;
#pragma omp simd
    for (int32_t i = 0; i < count; i++) {
        int32_t magnitude = source[i] & 0x7fff, exponent = (magnitude >> 7) - bias;
        int32_t code = plain_shift((magnitude & 0x7f) | 0x80, exponent, 4, 15);
        code |= source[i] >> 8 & 0x80;
        codes[i] = (uint8_t)(magnitude >= BF16_INFINITY ? KVT_E4M3_NAN : code);
    }
    return poisoned != 0;
}

static const struct kvt_write plain_write = {plain_copy, plain_codes, plain_group};

static inline int32_t plain_tokens(const struct kvt_kv_append *append, int32_t first, int32_t last)
{
    return kvt_write_tokens(&plain_write, append, first, last);
}

static inline void plain_page(const struct kvt_kv_convert *convert, int32_t i)
{
    kvt_write_page(&plain_write, convert, i);
}

#endif
