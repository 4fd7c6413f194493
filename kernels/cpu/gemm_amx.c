/*
 * AMX: a tile of 16 rows of the panel (32 k) times a tile of weights (32 k of 16 outputs, the order
 * of a BF16 step as it lies) is added to a tile of sums. Up to four tiles of rows share the
 * weights; with fewer, up to four lanes, stretches of k with sums of their own, are in flight,
 * because one sum has to wait 52 cycles for the next. FP8 and INT4 are widened to steps of BF16
 * first, INT4 without its scales: the sums of a group leave their tiles to be multiplied by them.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/gemm_avx512.h"
#include "kernels/cpu/gemm_blocks.h"

#define STEP_BYTES  1024 /* of BF16 weights, and of 16 rows of a panel */
#define LANES       4    /* tiles of sums */
#define GROUP_STEPS 4    /* of the largest group, 128 */
#define AHEAD       2048 /* bytes between what is widened and what is fetched */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static const struct tile_config eight_full_tiles = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* The compiler does not know that tiles read memory. */
#define MEMORY_IS_WRITTEN() __asm__ volatile("" ::: "memory")

#define TILES_CLEAR()                                                                              \
    do {                                                                                           \
        _tile_zero(0);                                                                             \
        _tile_zero(1);                                                                             \
        _tile_zero(2);                                                                             \
        _tile_zero(3);                                                                             \
    } while (0)

/* Tile number `sums` += rows * weights, which is in tile `with`. */
#define TILE_ADD(sums, rows, with)                                                                 \
    do {                                                                                           \
        _tile_loadd(6, (rows), 64);                                                                \
        _tile_dpbf16ps(sums, 6, with);                                                             \
    } while (0)

/* Where the rows and weights of a lane begin. */
struct lane {
    const uint8_t *panel, *weights;
};

/* steps of each of `lanes` lanes, tiles * lanes <= 4; a lane's next step is `jump` steps on. */
static KVT_INLINE void add_steps(const struct lane *lane, int32_t steps, const int64_t jump,
                                 const int tiles, int lanes)
{
    for (int32_t step = 0; step < steps; step++) {
        const int64_t at = step * jump * STEP_BYTES, rows_at = at * tiles;
        _tile_loadd(4, lane[0].weights + at, 64);
        TILE_ADD(0, lane[0].panel + rows_at, 4);
        if (tiles >= 2)
            TILE_ADD(1, lane[0].panel + rows_at + STEP_BYTES, 4);
        if (tiles == 4) {
            TILE_ADD(2, lane[0].panel + rows_at + 2 * STEP_BYTES, 4);
            TILE_ADD(3, lane[0].panel + rows_at + 3 * STEP_BYTES, 4);
        }
        if (tiles == 2 && lanes > 1) {
            _tile_loadd(5, lane[1].weights + at, 64);
            TILE_ADD(2, lane[1].panel + rows_at, 5);
            TILE_ADD(3, lane[1].panel + rows_at + STEP_BYTES, 5);
        }
        if (tiles == 1 && lanes > 1) {
            _tile_loadd(5, lane[1].weights + at, 64);
            TILE_ADD(1, lane[1].panel + rows_at, 5);
        }
        if (tiles == 1 && lanes > 2) {
            _tile_loadd(4, lane[2].weights + at, 64);
            TILE_ADD(2, lane[2].panel + rows_at, 4);
        }
        if (tiles == 1 && lanes > 3) {
            _tile_loadd(5, lane[3].weights + at, 64);
            TILE_ADD(3, lane[3].panel + rows_at, 5);
        }
    }
}

/* All four tiles of sums to memory: [tile][16][16]. */
static KVT_INLINE void tiles_store(float *out)
{
    _tile_stored(0, out, 64);
    _tile_stored(1, out + 256, 64);
    _tile_stored(2, out + 512, 64);
    _tile_stored(3, out + 768, 64);
    MEMORY_IS_WRITTEN();
}

/* Steps of BF16 weights, to the lanes in turn. */
static KVT_INLINE void add_bf16(const uint8_t *panel, const uint8_t *weights, int32_t steps,
                                const int tiles)
{
    const int lanes = LANES / tiles;
    struct lane lane[LANES] = {{NULL, NULL}};
    int32_t rounds = steps / lanes, done = rounds * lanes;
#pragma GCC unroll 4
    for (int i = 0; i < lanes; i++) {
        lane[i].panel = panel + (int64_t)i * tiles * STEP_BYTES;
        lane[i].weights = weights + (int64_t)i * STEP_BYTES;
    }
    add_steps(lane, rounds, lanes, tiles, lanes);
    lane[0].panel = panel + (int64_t)done * tiles * STEP_BYTES;
    lane[0].weights = weights + (int64_t)done * STEP_BYTES;
    add_steps(lane, steps - done, 1, tiles, 1);
}

/* The lanes' sums together. */
static KVT_INLINE void store_lanes(float *sums, const int tiles)
{
    _Alignas(64) float parts[LANES * 256];
    tiles_store(parts);
    for (int i = 0; i < tiles * 16; i++) {
        __m512 total = _mm512_load_ps(parts + i * 16);
#pragma GCC unroll 4
        for (int part = tiles; part < LANES; part += tiles)
            total = _mm512_add_ps(total, _mm512_load_ps(parts + part * 256 + i * 16));
        _mm512_store_ps(sums + i * 16, total);
    }
}

static KVT_INLINE void bf16_tiles(const struct kvt_block *block, const kvt_bf16 *panel,
                                  int32_t steps, const int tiles, float *sums)
{
    TILES_CLEAR();
    add_bf16((const uint8_t *)panel, block->codes, steps, tiles);
    store_lanes(sums, tiles);
}

static KVT_INLINE void fp8_tiles(const struct kvt_block *block, const kvt_bf16 *panel,
                                 int32_t steps, const int tiles, float *sums)
{
    _Alignas(64) uint8_t wide[LANES * STEP_BYTES];
    struct kvt_fp8_tables tables = kvt_fp8_tables_avx512();
    TILES_CLEAR();
    for (int32_t step = 0; step < steps; step += LANES) {
        int32_t count = steps - step < LANES ? steps - step : LANES;
        for (int32_t i = 0; i < count * 8; i++) {
            __m512i first, second;
            fp8_pairs(&tables, block->codes + step * INT64_C(512) + i * 64, &first, &second);
            _mm512_store_si512(wide + i * 128, first);
            _mm512_store_si512(wide + i * 128 + 64, second);
        }
        MEMORY_IS_WRITTEN();
        add_bf16((const uint8_t *)panel + (int64_t)step * tiles * STEP_BYTES, wide, count, tiles);
    }
    store_lanes(sums, tiles);
}

static KVT_INLINE void widen_int4(const uint8_t *codes, int32_t steps, __m512i table, uint8_t *wide)
{
    for (int32_t vector = 0; vector < steps * 4; vector++) {
        __m512i code = _mm512_loadu_si512(codes + vector * 64);
        _mm_prefetch((const char *)codes + AHEAD + vector * 64, _MM_HINT_T0);
#pragma GCC unroll 4
        for (int pair = 0; pair < 4; pair++)
            _mm512_store_si512(wide + vector * 256 + pair * 64, int4_pair(code, pair, table));
    }
}

/* sums += the groups' sums, each by its scales. */
static KVT_INLINE void add_groups(float *sums, const float *parts, const kvt_bf16 *scales,
                                  const int tiles, int32_t groups)
{
    for (int32_t g = 0; g < groups; g++) {
        __m512 scale = int4_scales(scales + g * KVT_BLOCK_OUTPUTS);
        const float *part = parts + g * tiles * 256;
        for (int i = 0; i < tiles * 16; i++)
            _mm512_store_ps(sums + i * 16, _mm512_fmadd_ps(_mm512_load_ps(part + i * 16), scale,
                                                           _mm512_load_ps(sums + i * 16)));
    }
}

static KVT_INLINE void int4_tiles(const struct kvt_block *block, const kvt_bf16 *panel,
                                  int32_t steps, const int tiles, float *sums)
{
    _Alignas(64) uint8_t wide[LANES * GROUP_STEPS * STEP_BYTES];
    _Alignas(64) float parts[LANES * 256];
    const int32_t group_steps = block->group / KVT_STEP_K, groups = steps / group_steps;
    const int32_t lanes = LANES / tiles;
    __m512i table = int4_table();
    for (int i = 0; i < tiles * 16; i++)
        _mm512_store_ps(sums + i * 16, _mm512_setzero_ps());
    for (int32_t g = 0; g < groups; g += lanes) {
        int32_t count = groups - g < lanes ? groups - g : lanes;
        struct lane lane[LANES] = {{NULL, NULL}};
        widen_int4(block->codes + (int64_t)g * group_steps * 256, count * group_steps, table, wide);
        MEMORY_IS_WRITTEN();
        for (int32_t i = 0; i < count; i++) {
            lane[i].panel =
                (const uint8_t *)panel + (int64_t)(g + i) * group_steps * tiles * STEP_BYTES;
            lane[i].weights = wide + i * group_steps * STEP_BYTES;
        }
        TILES_CLEAR();
        add_steps(lane, group_steps, 1, tiles, count);
        tiles_store(parts);
        add_groups(sums, parts, block->scales + (int64_t)g * KVT_BLOCK_OUTPUTS, tiles, count);
    }
}

#define RUN_TILES(name)                                                                            \
    static void run_##name(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,    \
                           int32_t rows, float *sums)                                              \
    {                                                                                              \
        _tile_loadconfig(&eight_full_tiles);                                                       \
        if (rows <= 16)                                                                            \
            name##_tiles(block, panel, steps, 1, sums);                                            \
        else if (rows <= 32)                                                                       \
            name##_tiles(block, panel, steps, 2, sums);                                            \
        else                                                                                       \
            name##_tiles(block, panel, steps, 4, sums);                                            \
        _tile_release();                                                                           \
    }

RUN_TILES(bf16)
RUN_TILES(fp8)
RUN_TILES(int4)

kvt_block_run *const kvt_block_runs_amx[KVT_BLOCK_FORMATS] = {run_bf16, run_fp8, run_int4};
