/*
 * AMX: a tile of up to 16 rows of the panel (32 k) times a tile of weights (32 k of 16 outputs, the
 * order of a BF16 step as it lies) is added to a tile of sums. Up to four tiles of rows share the
 * weights; with fewer, up to four lanes, stretches of k with sums of their own, are in flight,
 * because one sum has to wait 52 cycles for the next.
 *
 * FP8 and INT4 are widened to steps of BF16 in the first-level cache, INT4 without its scales: the
 * sums of a group leave their tiles to be multiplied by them. Tiles cannot be loaded from stores
 * that are still under way, so one pass is widened while the one before it is multiplied, and
 * scales follow one pass later. Widening is most of the work, whatever the number of rows: this
 * pays from one row on.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/gemm_avx512.h"
#include "kernels/cpu/gemm_blocks.h"

#define STEP_BYTES  1024 /* of BF16 weights */
#define TILE_ROWS   16
#define LANES       4    /* tiles of sums */
#define GROUP_STEPS 4    /* of the largest group, 128 */
#define AHEAD       4096 /* bytes between what is read and what is fetched */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* The compiler does not know that tiles read and write memory. */
#define MEMORY_CHANGES(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

/* 0..3 sums, 4 and 5 weights, 6 full tiles of rows, 7 the last of them. A lane's tiles of sums are
 * neighbours, its last one as tall as tile 7. */
static void tiles_configure(int32_t rows, const int tiles)
{
    _Alignas(64) struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        bool is_last = i == 7 || (i < LANES && i % tiles == tiles - 1);
        config.row_bytes[i] = 64;
        config.rows[i] = (uint8_t)(is_last ? rows - TILE_ROWS * (tiles - 1) : TILE_ROWS);
    }
    MEMORY_CHANGES(&config);
    _tile_loadconfig(&config);
}

#define TILES_CLEAR()                                                                              \
    do {                                                                                           \
        _tile_zero(0);                                                                             \
        _tile_zero(1);                                                                             \
        _tile_zero(2);                                                                             \
        _tile_zero(3);                                                                             \
    } while (0)

/* Tile `sums` += rows (a tile of 16, or the last) * the weights in tile `with`. */
#define ADD_TILE(sums, rows, with)                                                                 \
    do {                                                                                           \
        _tile_loadd(6, (rows), 64);                                                                \
        _tile_dpbf16ps(sums, 6, with);                                                             \
    } while (0)
#define ADD_LAST(sums, rows, with)                                                                 \
    do {                                                                                           \
        _tile_loadd(7, (rows), 64);                                                                \
        _tile_dpbf16ps(sums, 7, with);                                                             \
    } while (0)

/* Where the rows and weights of a lane begin. */
struct lane {
    const uint8_t *panel, *weights;
};

/* steps of each of `lanes` lanes, tiles * lanes <= 4; a lane's next step is `jump` steps on, a
 * step of the panel has row_bytes. */
static KVT_INLINE void add_steps(const struct lane *lane, int32_t steps, const int64_t jump,
                                 int64_t row_bytes, const int tiles, int lanes)
{
    for (int32_t step = 0; step < steps; step++) {
        const int64_t at = step * jump * STEP_BYTES, rows_at = step * jump * row_bytes;
        const uint8_t *rows = lane[0].panel + rows_at;
        _tile_loadd(4, lane[0].weights + at, 64);
        if (tiles == 1) {
            ADD_LAST(0, rows, 4);
        } else if (tiles == 2) {
            ADD_TILE(0, rows, 4);
            ADD_LAST(1, rows + 1024, 4);
        } else if (tiles == 3) {
            ADD_TILE(0, rows, 4);
            ADD_TILE(1, rows + 1024, 4);
            ADD_LAST(2, rows + 2048, 4);
        } else {
            ADD_TILE(0, rows, 4);
            ADD_TILE(1, rows + 1024, 4);
            ADD_TILE(2, rows + 2048, 4);
            ADD_LAST(3, rows + 3072, 4);
        }
        if (tiles == 2 && lanes > 1) {
            _tile_loadd(5, lane[1].weights + at, 64);
            ADD_TILE(2, lane[1].panel + rows_at, 5);
            ADD_LAST(3, lane[1].panel + rows_at + 1024, 5);
        }
        if (tiles == 1 && lanes > 1) {
            _tile_loadd(5, lane[1].weights + at, 64);
            ADD_LAST(1, lane[1].panel + rows_at, 5);
        }
        if (tiles == 1 && lanes > 2) {
            _tile_loadd(4, lane[2].weights + at, 64);
            ADD_LAST(2, lane[2].panel + rows_at, 4);
        }
        if (tiles == 1 && lanes > 3) {
            _tile_loadd(5, lane[3].weights + at, 64);
            ADD_LAST(3, lane[3].panel + rows_at, 5);
        }
    }
}

/* All four tiles of sums to memory: [lane][16 tiles][16], with room for full tiles. */
static KVT_INLINE void tiles_store(float *out)
{
    _tile_stored(0, out, 64);
    _tile_stored(1, out + 256, 64);
    _tile_stored(2, out + 512, 64);
    _tile_stored(3, out + 768, 64);
    MEMORY_CHANGES(out);
}

/* Steps of BF16 weights, to the lanes in turn. */
static KVT_INLINE void add_bf16(const uint8_t *panel, const uint8_t *weights, int32_t steps,
                                int64_t row_bytes, const int tiles)
{
    const int lanes = LANES / tiles;
    struct lane lane[LANES] = {{NULL, NULL}};
    int32_t rounds = steps / lanes, done = rounds * lanes;
#pragma GCC unroll 4
    for (int i = 0; i < lanes; i++) {
        lane[i].panel = panel + i * row_bytes;
        lane[i].weights = weights + (int64_t)i * STEP_BYTES;
    }
    add_steps(lane, rounds, lanes, row_bytes, tiles, lanes);
    lane[0].panel = panel + done * row_bytes;
    lane[0].weights = weights + (int64_t)done * STEP_BYTES;
    add_steps(lane, steps - done, 1, row_bytes, tiles, 1);
}

/* The lanes' sums together. */
static KVT_INLINE void store_lanes(float *sums, int32_t rows, const int tiles)
{
    _Alignas(64) float parts[LANES * 256];
    tiles_store(parts);
    for (int32_t i = 0; i < rows; i++) {
        __m512 total = _mm512_load_ps(parts + i * 16);
#pragma GCC unroll 4
        for (int part = tiles; part + tiles <= LANES; part += tiles)
            total = _mm512_add_ps(total, _mm512_load_ps(parts + part * 256 + i * 16));
        _mm512_store_ps(sums + i * 16, total);
    }
}

static KVT_INLINE void bf16_tiles(const struct kvt_block *block, const uint8_t *panel,
                                  int32_t steps, int32_t rows, const int tiles, float *sums)
{
    TILES_CLEAR();
    add_bf16(panel, block->codes, steps, rows * INT64_C(64), tiles);
    store_lanes(sums, rows, tiles);
}

static KVT_INLINE void widen_fp8(const struct kvt_fp8_tables *tables, const uint8_t *codes,
                                 int32_t steps, uint8_t *wide)
{
    for (int32_t i = 0; i < steps * 8; i++) {
        __m512i first, second;
        _mm_prefetch((const char *)codes + AHEAD + i * 64, _MM_HINT_T0);
        fp8_pairs(tables, codes + i * 64, &first, &second);
        _mm512_store_si512(wide + i * 128, first);
        _mm512_store_si512(wide + i * 128 + 64, second);
    }
}

static KVT_INLINE void fp8_tiles(const struct kvt_block *block, const uint8_t *panel, int32_t steps,
                                 int32_t rows, const int tiles, float *sums)
{
    _Alignas(64) uint8_t wide[2][LANES * STEP_BYTES];
    struct kvt_fp8_tables tables = kvt_fp8_tables_avx512();
    const int64_t row_bytes = rows * INT64_C(64);
    int32_t count = steps < LANES ? steps : LANES;
    TILES_CLEAR();
    widen_fp8(&tables, block->codes, count, wide[0]);
    for (int32_t step = 0, pass = 0; step < steps; pass++) {
        int32_t next = step + count, left = steps - next, now = count;
        count = left < LANES ? left : LANES;
        widen_fp8(&tables, block->codes + next * INT64_C(512), count, wide[(pass + 1) % 2]);
        MEMORY_CHANGES(wide);
        add_bf16(panel + step * row_bytes, wide[pass % 2], now, row_bytes, tiles);
        step = next;
    }
    store_lanes(sums, rows, tiles);
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
                                  int32_t rows, const int tiles, int32_t groups)
{
    for (int32_t g = 0; g < groups; g++) {
        __m512 scale = int4_scales(scales + g * KVT_BLOCK_OUTPUTS);
        const float *part = parts + g * tiles * 256;
        for (int32_t i = 0; i < rows; i++)
            _mm512_store_ps(sums + i * 16, _mm512_fmadd_ps(_mm512_load_ps(part + i * 16), scale,
                                                           _mm512_load_ps(sums + i * 16)));
    }
}

/* A pass is a group for each lane. */
static KVT_INLINE void int4_tiles(const struct kvt_block *block, const uint8_t *panel,
                                  int32_t steps, int32_t rows, const int tiles, float *sums)
{
    _Alignas(64) uint8_t wide[2][LANES * GROUP_STEPS * STEP_BYTES];
    _Alignas(64) float parts[2][LANES * 256];
    const int32_t group_steps = block->group / KVT_STEP_K, groups = steps / group_steps;
    const int32_t lanes = LANES / tiles, passes = (groups + lanes - 1) / lanes;
    const int64_t row_bytes = rows * INT64_C(64);
    const __m512i table = int4_table();
    const kvt_bf16 *scales = block->scales;
    int32_t count = groups < lanes ? groups : lanes;
    for (int32_t i = 0; i < rows; i++)
        _mm512_store_ps(sums + i * 16, _mm512_setzero_ps());
    widen_int4(block->codes, count * group_steps, table, wide[0]);
    for (int32_t pass = 0; pass < passes; pass++) {
        int32_t g = pass * lanes, left = groups - g - count, now = count;
        struct lane lane[LANES] = {{NULL, NULL}};
        count = left < lanes ? left : lanes;
        widen_int4(block->codes + (int64_t)(g + now) * group_steps * 256, count * group_steps,
                   table, wide[(pass + 1) % 2]);
        MEMORY_CHANGES(wide);
        for (int32_t i = 0; i < now; i++) {
            lane[i].panel = panel + (int64_t)(g + i) * group_steps * row_bytes;
            lane[i].weights = wide[pass % 2] + i * group_steps * STEP_BYTES;
        }
        TILES_CLEAR();
        add_steps(lane, group_steps, 1, row_bytes, tiles, now);
        tiles_store(parts[pass % 2]);
        if (pass > 0) {
            add_groups(sums, parts[(pass + 1) % 2], scales, rows, tiles, lanes);
            scales += lanes * KVT_BLOCK_OUTPUTS;
        }
        if (pass == passes - 1)
            add_groups(sums, parts[pass % 2], scales, rows, tiles, now);
    }
}

#define RUN_TILES(name)                                                                            \
    static void run_##name(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,    \
                           int32_t rows, float *sums)                                              \
    {                                                                                              \
        const uint8_t *bytes = (const uint8_t *)panel;                                             \
        const int32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;                                  \
        tiles_configure(rows, tiles);                                                              \
        if (tiles == 1)                                                                            \
            name##_tiles(block, bytes, steps, rows, 1, sums);                                      \
        else if (tiles == 2)                                                                       \
            name##_tiles(block, bytes, steps, rows, 2, sums);                                      \
        else if (tiles == 3)                                                                       \
            name##_tiles(block, bytes, steps, rows, 3, sums);                                      \
        else                                                                                       \
            name##_tiles(block, bytes, steps, rows, 4, sums);                                      \
        _tile_release();                                                                           \
    }

RUN_TILES(bf16)
RUN_TILES(fp8)
RUN_TILES(int4)

kvt_block_run *const kvt_block_runs_amx[KVT_BLOCK_FORMATS] = {run_bf16, run_fp8, run_int4};
