/*
 * ceilings_avx512.h - the ceilings of ceilings.h in AVX-512, for the two levels that have it
 */
#ifndef KVT_KERNELS_CPU_CEILINGS_AVX512_H
#define KVT_KERNELS_CPU_CEILINGS_AVX512_H

#include <immintrin.h>

#include "kernels/cpu/ceilings.h"

#define CEILING_SUMS 16

static inline uint32_t ceiling_read_avx512(const uint8_t *from, size_t bytes)
{
    __m512i sum[4];
    size_t quarter = bytes / 4;
    for (int i = 0; i < 4; i++)
        sum[i] = _mm512_setzero_si512();
    for (size_t at = 0; at < quarter; at += 64) {
#pragma GCC unroll 4
        for (size_t s = 0; s < 4; s++)
            sum[s] = _mm512_add_epi32(sum[s], _mm512_loadu_si512(from + s * quarter + at));
    }
    sum[0] = _mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3]));
    return (uint32_t)_mm512_reduce_add_epi32(sum[0]);
}

static inline void ceiling_copy_avx512(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64)
        _mm512_stream_si512((__m512i *)(void *)(to + at), _mm512_loadu_si512(from + at));
    _mm_sfence();
}

/* The sums differ from the start and the factors are hidden from the compiler, which would
 * otherwise compute one sum only. */
static inline double ceiling_vectors_avx512(int32_t rounds)
{
    __m512 sum[CEILING_SUMS];
    __m512i x = _mm512_set1_epi16(0x3f80), y = _mm512_set1_epi16(0x3580);
    for (int i = 0; i < CEILING_SUMS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int32_t round = 0; round < 4 * rounds; round++) {
        __asm__ volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 16
        for (int i = 0; i < CEILING_SUMS; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)x, (__m512bh)y);
    }
    for (int i = 0; i < CEILING_SUMS; i++)
        __asm__ volatile("" : : "v"(sum[i]));
    return 4.0 * rounds * CEILING_SUMS * 16 * 4;
}

#endif
