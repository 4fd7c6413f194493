/* As gemm_avx512.c, with pairs of BF16 looked up; the sums of a group are multiplied by its scales
 * once, 16 at a time. */
#include "kernels/cpu/gemm_avx512.h"

#define AHEAD 4096 /* bytes between what is read and what is fetched */

static KVT_INLINE void int4_rows(const struct kvt_block *block, __m512i table,
                                 const kvt_bf16 *panel, int64_t stride, int32_t steps,
                                 const int32_t steps_of_group, const int rows, float *sums)
{
    const uint8_t *codes = block->codes;
    const kvt_bf16 *scales = block->scales;
    __m512 total[ROWS_AT_ONCE];
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++)
        total[row] = _mm512_setzero_ps();
    for (int32_t step = 0; step < steps; step += steps_of_group) {
        __m512 sum[ROWS_AT_ONCE];
        sums_clear(sum, rows);
        for (int32_t i = 0; i < steps_of_group; i++) {
#pragma GCC unroll 4
            for (int vector = 0; vector < 4; vector++) {
                __m512i code = _mm512_loadu_si512(codes + vector * 64);
                _mm_prefetch((const char *)codes + AHEAD + vector * 64, _MM_HINT_T0);
#pragma GCC unroll 4
                for (int pair = 0; pair < 4; pair++)
                    sums_add(sum, int4_pair(code, pair, table), panel, vector * 4 + pair, rows);
            }
            codes += 256;
            panel += stride;
        }
        __m512 scale = int4_scales(scales);
        scales += KVT_BLOCK_OUTPUTS;
#pragma GCC unroll 16
        for (int row = 0; row < rows; row++)
            total[row] = _mm512_fmadd_ps(sums_of_row(sum, row, rows), scale, total[row]);
    }
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++)
        _mm512_store_ps(sums + row * KVT_BLOCK_OUTPUTS, total[row]);
}

void kvt_block_int4_avx512(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                           int32_t rows, float *sums)
{
    int64_t stride = (int64_t)rows * KVT_STEP_K;
    int32_t steps_of_group = block->group / KVT_STEP_K;
    __m512i table = int4_table();
    for (int32_t row = 0; row < rows; row += ROWS_AT_ONCE) {
        const kvt_bf16 *from = panel + row * KVT_STEP_K;
        float *to = sums + row * KVT_BLOCK_OUTPUTS;
        switch (rows - row) {
#define X(count)                                                                                   \
    case count:                                                                                    \
        int4_rows(block, table, from, stride, steps, steps_of_group, count, to);                   \
        break;
            ROW_COUNTS(X)
#undef X
        default:
            int4_rows(block, table, from, stride, steps, steps_of_group, ROWS_AT_ONCE, to);
        }
    }
}
