/*
 * gemm_avx512.h - vectors of weights against rows of a panel, in registers
 *
 * sum[row] of up to 16 rows holds 16 outputs. rows is a constant wherever these are used: they are
 * inlined, their loops unrolled, and the sums never leave registers. With few rows, pairs of k go
 * to sums of their own, because one chain of dependent sums is slower than memory.
 */
#ifndef KVT_KERNELS_CPU_GEMM_AVX512_H
#define KVT_KERNELS_CPU_GEMM_AVX512_H

#ifdef __AVX512BF16__ /* only files for this instruction set use it */

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/gemm_blocks.h"

#define KVT_INLINE   inline __attribute__((always_inline))
#define ROWS_AT_ONCE 16
#define CHAINS(rows) ((rows) == 1 ? 4 : (rows) <= 4 ? 2 : 1)

/* X(rows) for each number of rows below ROWS_AT_ONCE. */
#define ROW_COUNTS_TO_7(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define ROW_COUNTS(X)      ROW_COUNTS_TO_7(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

static KVT_INLINE void sums_clear(__m512 *sum, const int rows)
{
    const int count = rows * CHAINS(rows);
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        sum[i] = _mm512_setzero_ps();
}

/* Add the products of pair number `pair` of the panel's step; weights are 32 BF16. */
static KVT_INLINE void sums_add(__m512 *sum, __m512i weights, const kvt_bf16 *panel, const int pair,
                                const int rows)
{
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++) {
        const int i = row + rows * (pair % CHAINS(rows));
        int32_t numbers;
        memcpy(&numbers, panel + row * KVT_STEP_K + pair * 2, sizeof numbers);
        sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)weights, (__m512bh)_mm512_set1_epi32(numbers));
    }
}

/* The chains of row together. */
static KVT_INLINE __m512 sums_of_row(const __m512 *sum, const int row, const int rows)
{
    if (CHAINS(rows) == 1)
        return sum[row];
    if (CHAINS(rows) == 2)
        return _mm512_add_ps(sum[row], sum[row + rows]);
    return _mm512_add_ps(_mm512_add_ps(sum[row], sum[row + rows]),
                         _mm512_add_ps(sum[row + 2 * rows], sum[row + 3 * rows]));
}

static KVT_INLINE void sums_store(float *sums, const __m512 *sum, const int rows)
{
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++)
        _mm512_store_ps(sums + row * KVT_BLOCK_OUTPUTS, sums_of_row(sum, row, rows));
}

/* A BF16's two bytes by one table each, of the 128 FP8 codes without sign. */
struct kvt_fp8_tables {
    __m512i low[2], high[2];
};

struct kvt_fp8_tables kvt_fp8_tables_avx512(void);

/* 64 FP8 codes, four of k: two vectors of pairs. */
static KVT_INLINE void fp8_pairs(const struct kvt_fp8_tables *tables, const uint8_t *codes,
                                 __m512i *first, __m512i *second)
{
    __m512i code = _mm512_loadu_si512(codes);
    __m512i low = _mm512_permutex2var_epi8(tables->low[0], code, tables->low[1]);
    __m512i high = _mm512_permutex2var_epi8(tables->high[0], code, tables->high[1]);
    /* high | (code & 0x80) */
    high = _mm512_ternarylogic_epi32(high, code, _mm512_set1_epi8((char)0x80), 0xf8);
    *first = _mm512_unpacklo_epi8(low, high);
    *second = _mm512_unpackhi_epi8(low, high);
}

/* Of 64 bytes of INT4, eight k of 16 outputs: the BF16 of pair number `pair`. Shifted by 4 pair,
 * the low bits of the words are the nibbles of one pair; vpermw looks them up. It heeds five bits,
 * so the table of 16 stands there twice and no mask is needed. -8..7 are exact in BF16. */
static KVT_INLINE __m512i int4_table(void)
{
    static const _Alignas(64) kvt_bf16 values[32] = {
        0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000,
        0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040,
        0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0};
    return _mm512_load_si512(values);
}

static KVT_INLINE __m512i int4_pair(__m512i code, const int pair, __m512i table)
{
    if (pair > 0)
        code = _mm512_srlv_epi16(code, _mm512_set1_epi16((short)(4 * pair)));
    return _mm512_permutexvar_epi16(code, table);
}

static KVT_INLINE __m512 int4_scales(const kvt_bf16 *scales)
{
    __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)scales);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16));
}

#endif
#endif
