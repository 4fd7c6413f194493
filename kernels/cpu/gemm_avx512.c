/*
 * A step's vector holds 16 outputs in its lanes and two neighbours of k in each; two numbers of a
 * row, broadcast, meet it in vdpbf16ps. So no sum ever crosses lanes. Up to 16 rows share a vector
 * of weights; more pass again over the block, which is in the cache by then.
 */
#include "kernels/cpu/gemm_avx512.h"

#include "kernels/cpu/gemm_blocks.h"

#define AHEAD 4096 /* bytes between what is read and what is fetched */

static KVT_INLINE void bf16_rows(const uint8_t *codes, const kvt_bf16 *panel, int64_t stride,
                                 int32_t steps, const int rows, float *sums)
{
    __m512 sum[ROWS_AT_ONCE];
    sums_clear(sum, rows);
    for (int32_t step = 0; step < steps; step++) {
#pragma GCC unroll 16
        for (int pair = 0; pair < 16; pair++) {
            _mm_prefetch((const char *)codes + AHEAD + pair * 64, _MM_HINT_T0);
            sums_add(sum, _mm512_loadu_si512(codes + pair * 64), panel, pair, rows);
        }
        codes += 1024;
        panel += stride;
    }
    sums_store(sums, sum, rows);
}

/* A half float has E4M3's mantissa two zeros further up, subnormals too, and 2^8 times less. */
struct kvt_fp8_tables kvt_fp8_tables_avx512(void)
{
    _Alignas(32) uint8_t low[128], high[128];
    for (int first = 0; first < 128; first += 16) {
        __m256i code = _mm256_add_epi16(
            _mm256_set1_epi16((short)first),
            _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        __m512 value = _mm512_cvtph_ps(_mm256_slli_epi16(code, 7));
        value = _mm512_mul_ps(value, _mm512_set1_ps(256.0f));
        __m512i bits = _mm512_srli_epi32(_mm512_castps_si512(value), 16);
        _mm_store_si128((__m128i *)(void *)(low + first), _mm512_cvtepi32_epi8(bits));
        _mm_store_si128((__m128i *)(void *)(high + first),
                        _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 8)));
    }
    high[KVT_E4M3_NAN] = 0x7f;
    low[KVT_E4M3_NAN] = 0xc0;
    return (struct kvt_fp8_tables){
        .low = {_mm512_loadu_si512(low), _mm512_loadu_si512(low + 64)},
        .high = {_mm512_loadu_si512(high), _mm512_loadu_si512(high + 64)},
    };
}

static KVT_INLINE void fp8_rows(const struct kvt_fp8_tables *tables, const uint8_t *codes,
                                const kvt_bf16 *panel, int64_t stride, int32_t steps,
                                const int rows, float *sums)
{
    __m512 sum[ROWS_AT_ONCE];
    sums_clear(sum, rows);
    for (int32_t step = 0; step < steps; step++) {
#pragma GCC unroll 8
        for (int four = 0; four < 8; four++) {
            __m512i first, second;
            _mm_prefetch((const char *)codes + AHEAD / 2 + four * 64, _MM_HINT_T0);
            fp8_pairs(tables, codes + four * 64, &first, &second);
            sums_add(sum, first, panel, 2 * four, rows);
            sums_add(sum, second, panel, 2 * four + 1, rows);
        }
        codes += 512;
        panel += stride;
    }
    sums_store(sums, sum, rows);
}

static void run_bf16(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                     int32_t rows, float *sums)
{
    int64_t stride = (int64_t)rows * KVT_STEP_K;
    for (int32_t row = 0; row < rows; row += ROWS_AT_ONCE) {
        const kvt_bf16 *from = panel + row * KVT_STEP_K;
        float *to = sums + row * KVT_BLOCK_OUTPUTS;
        switch (rows - row) {
#define X(count)                                                                                   \
    case count:                                                                                    \
        bf16_rows(block->codes, from, stride, steps, count, to);                                   \
        break;
            ROW_COUNTS(X)
#undef X
        default:
            bf16_rows(block->codes, from, stride, steps, ROWS_AT_ONCE, to);
        }
    }
}

static void run_fp8(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                    int32_t rows, float *sums)
{
    int64_t stride = (int64_t)rows * KVT_STEP_K;
    struct kvt_fp8_tables tables = kvt_fp8_tables_avx512();
    for (int32_t row = 0; row < rows; row += ROWS_AT_ONCE) {
        const kvt_bf16 *from = panel + row * KVT_STEP_K;
        float *to = sums + row * KVT_BLOCK_OUTPUTS;
        switch (rows - row) {
#define X(count)                                                                                   \
    case count:                                                                                    \
        fp8_rows(&tables, block->codes, from, stride, steps, count, to);                           \
        break;
            ROW_COUNTS(X)
#undef X
        default:
            fp8_rows(&tables, block->codes, from, stride, steps, ROWS_AT_ONCE, to);
        }
    }
}

kvt_block_run *const kvt_block_runs_avx512[KVT_BLOCK_FORMATS] = {run_bf16, run_fp8,
                                                                 kvt_block_int4_avx512};
