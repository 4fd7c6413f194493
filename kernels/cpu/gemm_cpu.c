#include <string.h>

#include "kernels/cpu/gemm_blocks.h"
#include "kernels/gemm.h"

static struct kvt_block_shape shape_of(enum kvt_gemm_weights weights, int32_t n, int32_t k)
{
    return (struct kvt_block_shape){
        .format = weights == KVT_GEMM_BF16 ? KVT_BLOCK_BF16 : KVT_BLOCK_FP8, .n = n, .k = k};
}

/* Where element (row, col) of w lies: in elements from the start of the packed weights. */
static int64_t bf16_at(int64_t row, int64_t col, int64_t steps)
{
    return (row / 16 * steps + col / 32) * 512 + col % 32 / 2 * 32 + row % 16 * 2 + col % 2;
}

static int64_t fp8_at(int64_t row, int64_t col, int64_t steps)
{
    int64_t quarter = row % 16 / 4, lane = row % 4, pair = col % 4 / 2;
    return (row / 16 * steps + col / 32) * 512 + col % 32 / 4 * 64 + quarter * 16 + pair * 8 +
           lane * 2 + col % 2;
}

size_t kvt_cpu_gemm_packed_bytes(enum kvt_gemm_weights weights, int32_t n, int32_t k)
{
    struct kvt_block_shape shape = shape_of(weights, n, k);
    return kvt_block_weights_bytes(&shape);
}

void kvt_cpu_gemm_pack(enum kvt_gemm_weights weights, int32_t n, int32_t k, const void *plain,
                       void *packed)
{
    int64_t steps = (k + KVT_STEP_K - 1) / KVT_STEP_K;
    if (n % KVT_BLOCK_OUTPUTS != 0 || k % KVT_STEP_K != 0)
        memset(packed, 0, kvt_cpu_gemm_packed_bytes(weights, n, k));
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < n; row++) {
        for (int64_t col = 0; col < k; col++) {
            if (weights == KVT_GEMM_BF16)
                ((kvt_bf16 *)packed)[bf16_at(row, col, steps)] =
                    ((const kvt_bf16 *)plain)[row * k + col];
            else
                ((kvt_e4m3 *)packed)[fp8_at(row, col, steps)] =
                    ((const kvt_e4m3 *)plain)[row * k + col];
        }
    }
}

void kvt_cpu_gemm_unpack(enum kvt_gemm_weights weights, int32_t n, int32_t k, const void *packed,
                         void *plain)
{
    int64_t steps = (k + KVT_STEP_K - 1) / KVT_STEP_K;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < n; row++) {
        for (int64_t col = 0; col < k; col++) {
            if (weights == KVT_GEMM_BF16)
                ((kvt_bf16 *)plain)[row * k + col] =
                    ((const kvt_bf16 *)packed)[bf16_at(row, col, steps)];
            else
                ((kvt_e4m3 *)plain)[row * k + col] =
                    ((const kvt_e4m3 *)packed)[fp8_at(row, col, steps)];
        }
    }
}

void kvt_cpu_gemm(const struct kvt_gemm *gemm)
{
    enum kvt_gemm_weights weights = gemm->weights == KVT_GEMM_FP8 ? KVT_GEMM_FP8 : KVT_GEMM_BF16;
    struct kvt_block_shape shape = shape_of(weights, gemm->n, gemm->k);
    struct kvt_block_batch batch;
    if (weights == KVT_GEMM_FP8)
        shape.scale = gemm->scale;
    kvt_block_batch_begin(&batch, &shape);
    kvt_block_batch_add(&batch, gemm->w, gemm->a, gemm->out, gemm->m);
    kvt_block_batch_end(&batch);
}
