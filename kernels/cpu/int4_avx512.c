/*
 * INT4 times 16-bit integers. A group of a row becomes block floating point (pack_int8 below):
 *
 *     a = (256 high + low) * factor,  factor a power of two, high and low bytes with sign
 *
 * which is exact for numbers down to 1/64 of the group's largest and rounds the others to 2^-14 of
 * it. 64 bytes of weights are eight k of 16 outputs; their low and their high nibbles are two
 * vectors of bytes 0..15, four k in each lane, and vpdpbusd multiplies 64 of them at once. Sums are
 * exact integers until the group ends: there 8 times the sum of a comes off (a nibble q stands for
 * q - 8), and the rest is multiplied by factor and scales. vdpbf16ps would need twice the
 * instructions, each of four times the cost on some processors, and a table look-up per pair.
 */
#include <math.h>

#include "kernels/cpu/gemm_avx512.h"

#define ROWS_AT_ONCE_INT4 8
#define AHEAD             4096 /* bytes between what is read and what is fetched */

struct group_tail {
    float factor;
    int32_t eight_sums; /* 8 times the sum of the group's integers */
};

/* The order in which vpdpbusd meets 32 k: the nibbles of vector v are k 8 v + 0 4 1 5 in the low
 * halves of its bytes, 2 6 3 7 in the high ones. */
static const _Alignas(64) int16_t byte_order[32] = {0,  4,  1,  5,  2,  6,  3,  7,  8,  12, 9,
                                                    13, 10, 14, 11, 15, 16, 20, 17, 21, 18, 22,
                                                    19, 23, 24, 28, 25, 29, 26, 30, 27, 31};

/* 2^exponent for exponents of BF16 numbers and a few below. */
static float power_of_two(int32_t exponent)
{
    return ldexpf(1.0f, exponent);
}

/* 32 numbers of a step, times 2^-shift, as integers: high bytes to to[0..31], low to to[32..63].
 * Returns their sum. */
static int32_t pack_step(__m512i numbers, float multiplier, uint8_t *to)
{
    __m512 by = _mm512_set1_ps(multiplier);
    __m512 low_half = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(numbers)), 16));
    __m512 high_half = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(numbers, 1)), 16));
    __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(low_half, by));
    __m512i second = _mm512_cvtps_epi32(_mm512_mul_ps(high_half, by));
    __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)),
                                       _mm512_cvtepi32_epi16(second), 1);
    words = _mm512_permutexvar_epi16(_mm512_load_si512(byte_order), words);
    __m512i high = _mm512_srai_epi16(_mm512_add_epi16(words, _mm512_set1_epi16(128)), 8);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi16_epi8(high));
    _mm256_storeu_si256((__m256i *)(void *)(to + 32), _mm512_cvtepi16_epi8(words));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(first, second));
}

/* The exponent field of the largest magnitude of a group; 255 with NaN or infinity. */
static int32_t exponent_of(const kvt_bf16 *from, int32_t steps)
{
    __m512i most = _mm512_setzero_si512();
    for (int32_t i = 0; i < steps; i++) {
        __m512i magnitude =
            _mm512_and_si512(_mm512_loadu_si512(from + i * KVT_STEP_K), _mm512_set1_epi16(0x7f80));
        most = _mm512_max_epu16(most, magnitude);
    }
    most = _mm512_max_epu32(_mm512_srli_epi32(most, 16),
                            _mm512_and_si512(most, _mm512_set1_epi32(0xffff)));
    return (int32_t)_mm512_reduce_max_epu32(most) >> 7;
}

void kvt_block_pack_int8(const kvt_bf16 *from, int32_t steps, int32_t group, int32_t row,
                         int32_t rows, kvt_bf16 *panel)
{
    uint8_t *to = (uint8_t *)panel + (int64_t)row * 64;
    struct group_tail *tail =
        (struct group_tail *)(void *)(panel + (int64_t)steps * rows * KVT_STEP_K) + row;
    int32_t group_steps = group / KVT_STEP_K;
    for (int32_t step = 0; step < steps; step += group_steps, tail += rows) {
        int32_t exponent = exponent_of(from, group_steps) - 127, sum = 0;
        bool is_finite = exponent < 128, is_zero = exponent == -127;
        /* magnitudes below 2^14, so that high bytes stay below 64 */
        float multiplier = is_finite && !is_zero ? power_of_two(13 - exponent) : 0.0f;
        for (int32_t i = 0; i < group_steps; i++) {
            __m512i numbers = _mm512_loadu_si512(from);
            sum += pack_step(is_finite ? numbers : _mm512_setzero_si512(), multiplier, to);
            from += KVT_STEP_K;
            to += (int64_t)rows * 64;
        }
        tail->factor = is_finite ? power_of_two(exponent - 13) : NAN;
        tail->eight_sums = 8 * sum;
    }
}

static KVT_INLINE __m512i four_bytes(const uint8_t *at)
{
    int32_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* The 32 k of a step. */
static KVT_INLINE void int4_step(const uint8_t *codes, const uint8_t *panel, const int rows,
                                 __m512i *high, __m512i *low)
{
    const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int vector = 0; vector < 4; vector++) {
        __m512i code = _mm512_loadu_si512(codes + vector * 64);
        __m512i first = _mm512_and_si512(code, nibble);
        __m512i second = _mm512_and_si512(_mm512_srli_epi16(code, 4), nibble);
        _mm_prefetch((const char *)codes + AHEAD + vector * 64, _MM_HINT_T0);
#pragma GCC unroll 8
        for (int row = 0; row < rows; row++) {
            const uint8_t *bytes = panel + row * 64 + vector * 8;
            high[row] = _mm512_dpbusd_epi32(high[row], first, four_bytes(bytes));
            low[row] = _mm512_dpbusd_epi32(low[row], first, four_bytes(bytes + 32));
            high[row] = _mm512_dpbusd_epi32(high[row], second, four_bytes(bytes + 4));
            low[row] = _mm512_dpbusd_epi32(low[row], second, four_bytes(bytes + 36));
        }
    }
}

static KVT_INLINE void int4_rows(const struct kvt_block *block, const uint8_t *panel,
                                 const struct group_tail *tail, int32_t steps, int64_t all_rows,
                                 const int rows, float *sums)
{
    const uint8_t *codes = block->codes;
    const kvt_bf16 *scales = block->scales;
    const int32_t group_steps = block->group / KVT_STEP_K;
    __m512 total[ROWS_AT_ONCE_INT4];
#pragma GCC unroll 8
    for (int row = 0; row < rows; row++)
        total[row] = _mm512_setzero_ps();
    for (int32_t step = 0; step < steps; step += group_steps) {
        __m512i high[ROWS_AT_ONCE_INT4], low[ROWS_AT_ONCE_INT4];
#pragma GCC unroll 8
        for (int row = 0; row < rows; row++)
            high[row] = low[row] = _mm512_setzero_si512();
        for (int32_t i = 0; i < group_steps; i++) {
            int4_step(codes, panel, rows, high, low);
            codes += 256;
            panel += all_rows * 64;
        }
        __m512 scale = int4_scales(scales);
        scales += KVT_BLOCK_OUTPUTS;
#pragma GCC unroll 8
        for (int row = 0; row < rows; row++) {
            __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[row], 8), low[row]);
            sum = _mm512_sub_epi32(sum, _mm512_set1_epi32(tail[row].eight_sums));
            __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(tail[row].factor));
            total[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), by, total[row]);
        }
        tail += all_rows;
    }
#pragma GCC unroll 8
    for (int row = 0; row < rows; row++)
        _mm512_store_ps(sums + row * KVT_BLOCK_OUTPUTS, total[row]);
}

void kvt_block_int4_avx512(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                           int32_t rows, float *sums)
{
    const struct group_tail *tail =
        (const struct group_tail *)(const void *)(panel + (int64_t)steps * rows * KVT_STEP_K);
    for (int32_t row = 0; row < rows; row += ROWS_AT_ONCE_INT4) {
        const uint8_t *from = (const uint8_t *)panel + (int64_t)row * 64;
        float *to = sums + row * KVT_BLOCK_OUTPUTS;
        switch (rows - row) {
#define X(count)                                                                                   \
    case count:                                                                                    \
        int4_rows(block, from, tail + row, steps, rows, count, to);                                \
        break;
            ROW_COUNTS_TO_7(X)
#undef X
        default:
            int4_rows(block, from, tail + row, steps, rows, ROWS_AT_ONCE_INT4, to);
        }
    }
}
