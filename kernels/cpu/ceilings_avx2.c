#include <immintrin.h>

#include "kernels/cpu/ceilings.h"

#define ACCUMULATORS 12

static uint32_t read_all(const uint8_t *from, size_t bytes)
{
    __m256i sum[8];
    size_t quarter = bytes / 4;
    for (int i = 0; i < 8; i++)
        sum[i] = _mm256_setzero_si256();
    for (size_t at = 0; at < quarter; at += 64) {
#pragma GCC unroll 4
        for (size_t s = 0; s < 4; s++) {
            const __m256i *line = (const __m256i *)(const void *)(from + s * quarter + at);
            sum[2 * s] = _mm256_add_epi32(sum[2 * s], _mm256_loadu_si256(line));
            sum[2 * s + 1] = _mm256_add_epi32(sum[2 * s + 1], _mm256_loadu_si256(line + 1));
        }
    }
    for (int i = 1; i < 8; i++)
        sum[0] = _mm256_add_epi32(sum[0], sum[i]);
    uint32_t part[8];
    _mm256_storeu_si256((__m256i *)(void *)part, sum[0]);
    return part[0] + part[1] + part[2] + part[3] + part[4] + part[5] + part[6] + part[7];
}

static void copy_all(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 32)
        _mm256_stream_si256((__m256i *)(void *)(to + at),
                            _mm256_loadu_si256((const __m256i *)(const void *)(from + at)));
    _mm_sfence();
}

/* The sums differ from the start and are hidden from the compiler, which would otherwise compute
 * one of them only. */
static double vectors(int32_t rounds)
{
    __m256 sum[ACCUMULATORS], x = _mm256_set1_ps(1.0f), y = _mm256_set1_ps(0x1p-20f);
    for (int i = 0; i < ACCUMULATORS; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int32_t round = 0; round < 4 * rounds; round++) {
        __asm__ volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
        for (int i = 0; i < ACCUMULATORS; i++)
            sum[i] = _mm256_fmadd_ps(x, y, sum[i]);
    }
    for (int i = 0; i < ACCUMULATORS; i++)
        __asm__ volatile("" : : "x"(sum[i]));
    return 4.0 * rounds * ACCUMULATORS * 8 * 2;
}

const struct kvt_ceilings_isa kvt_ceilings_avx2 = {
    .read = read_all, .copy = copy_all, .vectors = vectors};
