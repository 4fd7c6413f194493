/*
 * Without a dot product of BF16: a lane's pair becomes two floats by a shift and a mask, and so do
 * the numbers of the rows. Up to four rows share a vector of weights.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/gemm_blocks.h"

#define KVT_INLINE   inline __attribute__((always_inline))
#define ROWS_AT_ONCE 4

/* 16 outputs: the even k of a pair, and the odd one. */
struct pair {
    __m256 even[2], odd[2];
};

static KVT_INLINE __m256 even_of(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

static KVT_INLINE __m256 odd_of(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

static KVT_INLINE __m256i load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

static KVT_INLINE void sums_add(__m256 (*sum)[2], const struct pair *weights, const kvt_bf16 *panel,
                                const int rows)
{
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++) {
        int32_t numbers;
        memcpy(&numbers, panel + row * KVT_STEP_K, sizeof numbers);
        __m256i both = _mm256_set1_epi32(numbers);
        __m256 even = even_of(both), odd = odd_of(both);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            sum[row][half] = _mm256_fmadd_ps(weights->even[half], even, sum[row][half]);
            sum[row][half] = _mm256_fmadd_ps(weights->odd[half], odd, sum[row][half]);
        }
    }
}

static KVT_INLINE void sums_clear(__m256 (*sum)[2], const int rows)
{
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++)
        sum[row][0] = sum[row][1] = _mm256_setzero_ps();
}

static KVT_INLINE void sums_store(float *sums, __m256 (*sum)[2], const int rows)
{
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++) {
        _mm256_store_ps(sums + row * 16, sum[row][0]);
        _mm256_store_ps(sums + row * 16 + 8, sum[row][1]);
    }
}

static KVT_INLINE void bf16_rows(const struct kvt_block *block, const kvt_bf16 *panel,
                                 int64_t stride, int32_t steps, const int rows, float *sums)
{
    const uint8_t *codes = block->codes;
    __m256 sum[ROWS_AT_ONCE][2];
    sums_clear(sum, rows);
    for (int32_t step = 0; step < steps; step++, codes += 1024, panel += stride) {
        for (int pair = 0; pair < 16; pair++) {
            __m256i low = load(codes + pair * 64), high = load(codes + pair * 64 + 32);
            struct pair weights = {{even_of(low), even_of(high)}, {odd_of(low), odd_of(high)}};
            _mm_prefetch((const char *)codes + 4096 + pair * 64, _MM_HINT_T0);
            sums_add(sum, &weights, panel + pair * 2, rows);
        }
    }
    sums_store(sums, sum, rows);
}

/* Two of four k (`second`: the later two) of 16 outputs, looked up code by code. */
static KVT_INLINE struct pair fp8_pair(const float *table, const uint8_t *codes, int second)
{
    struct pair pair;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        uint64_t bytes[2];
        memcpy(&bytes[0], codes + 32 * half + 8 * second, 8);
        memcpy(&bytes[1], codes + 32 * half + 16 + 8 * second, 8);
        __m256i words = _mm256_cvtepu16_epi32(_mm_set_epi64x((int64_t)bytes[1], (int64_t)bytes[0]));
        __m256i even = _mm256_and_si256(words, _mm256_set1_epi32(255));
        pair.even[half] = _mm256_i32gather_ps(table, even, 4);
        pair.odd[half] = _mm256_i32gather_ps(table, _mm256_srli_epi32(words, 8), 4);
    }
    return pair;
}

static KVT_INLINE void fp8_rows(const struct kvt_block *block, const kvt_bf16 *panel,
                                int64_t stride, int32_t steps, const int rows, float *sums)
{
    const uint8_t *codes = block->codes;
    __m256 sum[ROWS_AT_ONCE][2];
    float table[256];
    for (int code = 0; code < 256; code++)
        table[code] = kvt_e4m3_to_float((kvt_e4m3)code);
    sums_clear(sum, rows);
    for (int32_t step = 0; step < steps; step++, codes += 512, panel += stride) {
        for (int pair = 0; pair < 16; pair++) {
            struct pair weights = fp8_pair(table, codes + pair / 2 * 64, pair % 2);
            sums_add(sum, &weights, panel + pair * 2, rows);
        }
    }
    sums_store(sums, sum, rows);
}

static KVT_INLINE __m256 nibbles(__m256i codes, int shift)
{
    __m256i nibble = _mm256_and_si256(_mm256_srli_epi32(codes, shift), _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(nibble, _mm256_set1_epi32(8)));
}

/* The 32 k of a step. */
static KVT_INLINE void int4_step(const uint8_t *codes, const kvt_bf16 *panel, const int rows,
                                 __m256 (*sum)[2])
{
    for (int vector = 0; vector < 4; vector++) {
        __m256i low = load(codes + vector * 64), high = load(codes + vector * 64 + 32);
        _mm_prefetch((const char *)codes + 4096 + vector * 64, _MM_HINT_T0);
#pragma GCC unroll 4
        for (int pair = 0; pair < 4; pair++) {
            struct pair weights = {{nibbles(low, 4 * pair), nibbles(high, 4 * pair)},
                                   {nibbles(low, 4 * pair + 16), nibbles(high, 4 * pair + 16)}};
            sums_add(sum, &weights, panel + vector * 8 + pair * 2, rows);
        }
    }
}

static KVT_INLINE void int4_rows(const struct kvt_block *block, const kvt_bf16 *panel,
                                 int64_t stride, int32_t steps, const int rows, float *sums)
{
    const uint8_t *codes = block->codes;
    const kvt_bf16 *scales = block->scales;
    int32_t group_steps = block->group / KVT_STEP_K;
    __m256 sum[ROWS_AT_ONCE][2], total[ROWS_AT_ONCE][2];
    sums_clear(total, rows);
    for (int32_t step = 0; step < steps; step += group_steps, scales += KVT_BLOCK_OUTPUTS) {
        sums_clear(sum, rows);
        for (int32_t i = 0; i < group_steps; i++, codes += 256, panel += stride)
            int4_step(codes, panel, rows, sum);
        for (int half = 0; half < 2; half++) {
            __m128i words = _mm_loadu_si128((const __m128i *)(const void *)(scales + half * 8));
            __m256 scale = even_of(_mm256_cvtepu16_epi32(words));
#pragma GCC unroll 4
            for (int row = 0; row < rows; row++)
                total[row][half] = _mm256_fmadd_ps(sum[row][half], scale, total[row][half]);
        }
    }
    sums_store(sums, total, rows);
}

#define RUN_ROWS(name)                                                                             \
    static void run_##name(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,    \
                           int32_t rows, float *sums)                                              \
    {                                                                                              \
        int64_t stride = (int64_t)rows * KVT_STEP_K;                                               \
        for (int32_t row = 0; row < rows; row += ROWS_AT_ONCE) {                                   \
            const kvt_bf16 *from = panel + row * KVT_STEP_K;                                       \
            float *to = sums + row * KVT_BLOCK_OUTPUTS;                                            \
            if (rows - row == 1)                                                                   \
                name##_rows(block, from, stride, steps, 1, to);                                    \
            else if (rows - row == 2)                                                              \
                name##_rows(block, from, stride, steps, 2, to);                                    \
            else if (rows - row == 3)                                                              \
                name##_rows(block, from, stride, steps, 3, to);                                    \
            else                                                                                   \
                name##_rows(block, from, stride, steps, 4, to);                                    \
        }                                                                                          \
    }

RUN_ROWS(bf16)
RUN_ROWS(fp8)
RUN_ROWS(int4)

kvt_block_run *const kvt_block_runs_avx2[KVT_BLOCK_FORMATS] = {run_bf16, run_fp8, run_int4};
