#include <string.h>

#include "kernels/cpu/gemm_blocks.h"
#include "kernels/int4.h"

static struct kvt_block_shape shape_of(int32_t n, int32_t k, int32_t group)
{
    return (struct kvt_block_shape){.format = KVT_BLOCK_INT4, .n = n, .k = k, .group = group};
}

size_t kvt_cpu_int4_packed_bytes(int32_t n, int32_t k, int32_t group)
{
    struct kvt_block_shape shape = shape_of(n, k, group);
    return kvt_block_weights_bytes(&shape);
}

/* Elements 0 2 4 6 into the low half, 1 3 5 7 into the high half; and back. */
static uint32_t split_pairs(uint32_t word)
{
    uint32_t out = 0;
    for (uint32_t j = 0; j < 8; j++)
        out |= (word >> (4 * j) & 15) << (j % 2 * 16 + j / 2 * 4);
    return out;
}

static uint32_t join_pairs(uint32_t word)
{
    uint32_t out = 0;
    for (uint32_t j = 0; j < 8; j++)
        out |= (word >> (j % 2 * 16 + j / 2 * 4) & 15) << (4 * j);
    return out;
}

/* Nibbles of outputs that do not exist are zeros of the code (8), their scales 0. */
void kvt_cpu_int4_pack(const struct kvt_int4_plain *plain, void *packed)
{
    struct kvt_block_shape shape = shape_of(plain->n, plain->k, plain->group);
    size_t block_bytes = kvt_block_bytes(&shape);
    int64_t words = plain->k / 8, groups = plain->k / plain->group;
    int64_t blocks = (plain->n + KVT_BLOCK_OUTPUTS - 1) / KVT_BLOCK_OUTPUTS;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < blocks; b++) {
        uint8_t *at = (uint8_t *)packed + (size_t)b * block_bytes;
        uint32_t *codes = (uint32_t *)(void *)at;
        kvt_bf16 *scales = (kvt_bf16 *)(void *)(at + words * 64);
        memset(scales, 0, block_bytes - (size_t)words * 64);
        for (int64_t lane = 0; lane < KVT_BLOCK_OUTPUTS; lane++) {
            int64_t row = b * KVT_BLOCK_OUTPUTS + lane;
            bool exists = row < plain->n;
            for (int64_t word = 0; word < words; word++)
                codes[word * 16 + lane] =
                    exists ? split_pairs(plain->nibbles[row * words + word]) : 0x88888888;
            for (int64_t g = 0; exists && g < groups; g++)
                scales[g * 16 + lane] = plain->scales[row * groups + g];
        }
    }
}

void kvt_cpu_int4_unpack(const void *packed, const struct kvt_int4_plain *plain)
{
    struct kvt_block_shape shape = shape_of(plain->n, plain->k, plain->group);
    size_t block_bytes = kvt_block_bytes(&shape);
    int64_t words = plain->k / 8, groups = plain->k / plain->group;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < plain->n; row++) {
        const uint8_t *at =
            (const uint8_t *)packed + (size_t)(row / KVT_BLOCK_OUTPUTS) * block_bytes;
        const uint32_t *codes = (const uint32_t *)(const void *)at;
        const kvt_bf16 *scales = (const kvt_bf16 *)(const void *)(at + words * 64);
        int64_t lane = row % KVT_BLOCK_OUTPUTS;
        for (int64_t word = 0; word < words; word++)
            plain->nibbles[row * words + word] = join_pairs(codes[word * 16 + lane]);
        for (int64_t g = 0; g < groups; g++)
            plain->scales[row * groups + g] = scales[g * 16 + lane];
    }
}

void kvt_cpu_int4_gemm(const struct kvt_int4_gemm *gemm)
{
    struct kvt_block_shape shape = shape_of(gemm->n, gemm->k, gemm->group);
    struct kvt_block_batch batch;
    kvt_block_batch_begin(&batch, &shape);
    kvt_block_batch_add(&batch, gemm->w, gemm->a, gemm->out, gemm->m);
    kvt_block_batch_end(&batch);
}

void kvt_cpu_int4_experts(const struct kvt_int4_experts *experts)
{
    struct kvt_block_shape shape = shape_of(experts->n, experts->k, experts->group);
    size_t expert_bytes = kvt_block_weights_bytes(&shape);
    struct kvt_block_batch batch;
    kvt_block_batch_begin(&batch, &shape);
    for (int32_t e = 0; e < experts->experts; e++) {
        int64_t first = experts->row_begin[e];
        kvt_block_batch_add(&batch, (const uint8_t *)experts->w + (size_t)e * expert_bytes,
                            experts->a + first * experts->k, experts->out + first * experts->n,
                            experts->row_begin[e + 1] - experts->row_begin[e]);
    }
    kvt_block_batch_end(&batch);
}
