/* The blocks of gemm_blocks.h in plain C: also the word on what each step holds. */
#include <string.h>

#include "kernels/cpu/gemm_blocks.h"

#define LANES KVT_BLOCK_OUTPUTS

static void add_outer(float *sums, const float *weight, float a)
{
    for (int32_t lane = 0; lane < LANES; lane++)
        sums[lane] += a * weight[lane];
}

static void run_bf16(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                     int32_t rows, float *sums)
{
    const kvt_bf16 *codes = (const kvt_bf16 *)(const void *)block->codes;
    memset(sums, 0, sizeof *sums * LANES * (size_t)rows);
    for (int32_t step = 0; step < steps; step++) {
        for (int32_t col = 0; col < KVT_STEP_K; col++) {
            float weight[LANES];
            for (int32_t lane = 0; lane < LANES; lane++)
                weight[lane] = kvt_bf16_to_float(
                    codes[(int64_t)step * 512 + col / 2 * 32 + lane * 2 + col % 2]);
            for (int32_t row = 0; row < rows; row++)
                add_outer(
                    sums + row * LANES, weight,
                    kvt_bf16_to_float(panel[((int64_t)step * rows + row) * KVT_STEP_K + col]));
        }
    }
}

static void run_fp8(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                    int32_t rows, float *sums)
{
    memset(sums, 0, sizeof *sums * LANES * (size_t)rows);
    for (int32_t step = 0; step < steps; step++) {
        for (int32_t col = 0; col < KVT_STEP_K; col++) {
            const uint8_t *codes = block->codes + (int64_t)step * 512 + col / 4 * 64;
            float weight[LANES];
            for (int32_t lane = 0; lane < LANES; lane++)
                weight[lane] = kvt_e4m3_to_float(
                    codes[lane / 4 * 16 + col % 4 / 2 * 8 + lane % 4 * 2 + col % 2]);
            for (int32_t row = 0; row < rows; row++)
                add_outer(
                    sums + row * LANES, weight,
                    kvt_bf16_to_float(panel[((int64_t)step * rows + row) * KVT_STEP_K + col]));
        }
    }
}

/* The sums of one group of one row, before its scales. */
static void sum_group(const uint32_t *codes, const kvt_bf16 *a, int64_t stride, int32_t group,
                      float *sums)
{
    memset(sums, 0, sizeof *sums * LANES);
    for (int32_t col = 0; col < group; col++) {
        float weight[LANES];
        uint32_t shift = (uint32_t)(col % 2 * 16 + col % 8 / 2 * 4);
        for (int32_t lane = 0; lane < LANES; lane++)
            weight[lane] = (float)(codes[col / 8 * LANES + lane] >> shift & 15) - 8.0f;
        add_outer(sums, weight, kvt_bf16_to_float(a[col / KVT_STEP_K * stride + col % KVT_STEP_K]));
    }
}

static void run_int4(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                     int32_t rows, float *sums)
{
    const uint32_t *codes = (const uint32_t *)(const void *)block->codes;
    int32_t group = block->group;
    int64_t stride = (int64_t)rows * KVT_STEP_K;
    memset(sums, 0, sizeof *sums * LANES * (size_t)rows);
    for (int32_t g = 0; g < steps * KVT_STEP_K / group; g++) {
        for (int32_t row = 0; row < rows; row++) {
            float part[LANES];
            sum_group(codes + (int64_t)g * (group / 8) * LANES,
                      panel + g * (group / KVT_STEP_K) * stride + row * KVT_STEP_K, stride, group,
                      part);
            for (int32_t lane = 0; lane < LANES; lane++)
                sums[row * LANES + lane] +=
                    part[lane] * kvt_bf16_to_float(block->scales[g * LANES + lane]);
        }
    }
}

kvt_block_run *const kvt_block_runs_portable[KVT_BLOCK_FORMATS] = {run_bf16, run_fp8, run_int4};
