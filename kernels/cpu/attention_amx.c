/* Attention with AMX: scores and sums of p v are products of 16 x 32 by 32 x 16 tiles of BF16. */

#include "kernels/cpu/attention_lanes_avx512.h"

/*
 * Tiles of a score: tokens are rows of A (K as it lies in the pool), heads are columns of B (q,
 * packed once a piece). Tiles of an output: heads are rows of A (p, transposed), 16 columns of V
 * are columns of B, for which two tokens' rows are unpacked into each other. Unpacking mixes the
 * columns of 32 in a fixed way; the sums stay mixed until the end of the piece.
 */
#define CHUNKS (KVT_VALUE_MAX / 16)
#define HALVES (LANES_TOKENS / 32)

struct tiles {
    struct lanes lanes;
    _Alignas(64) uint32_t value[2][2][HALVES][16][16]; /* [turn][chunk][half][pair][column] */
    _Alignas(64) uint32_t p[KVT_MLA_GROUPS][HALVES][LANES_HEADS][16]; /* [head][pair] */
    _Alignas(64) float out[CHUNKS][LANES_HEADS][16];                  /* [chunk][head][column] */
};

/* gcc's tile loads do not say that they read memory. */
#define TILES_SEE_MEMORY() __asm__ volatile("" ::: "memory")

static void tiles_configure(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    TILES_SEE_MEMORY();
    _tile_loadconfig(&config);
}

/* Tiles of scores: 0 .. 3, 16 tokens of 16 heads each. */
static void tiles_dot_one(const struct lanes_rows *rows, struct lanes *scratch, int32_t first,
                          int32_t count, float (*to)[LANES_HEADS])
{
    const uint8_t *key = rows->key + 2 * first;
    int64_t stride = rows->key_stride;
    for (int32_t d = 0; d < count; d += 32, key += 64) {
        _tile_loadd(6, scratch->q[0][(first + d) / 2], 64);
        _tile_loadd(4, key, stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, key + 16 * stride, stride);
        _tile_dpbf16ps(1, 5, 6);
        lanes_ahead(&scratch->ahead, LANES_WORK_DOT);
        if (rows->padded == 32)
            continue;
        _tile_loadd(4, key + 32 * stride, stride);
        _tile_dpbf16ps(2, 4, 6);
        _tile_loadd(5, key + 48 * stride, stride);
        _tile_dpbf16ps(3, 5, 6);
    }
    _tile_stored(0, to[0], 64);
    _tile_stored(1, to[16], 64);
    _tile_stored(2, to[32], 64);
    _tile_stored(3, to[48], 64);
}

/* Two tokens a row: q[0] has its heads in the first 8 columns and meets the even tokens, q[1] in
 * the last 8 and meets the odd ones. */
static void tiles_dot_two(const struct lanes_rows *rows, struct lanes *scratch, int32_t first,
                          int32_t count, float (*to)[LANES_HEADS])
{
    const uint8_t *key = rows->key + 2 * first;
    int64_t stride = rows->key_stride;
    for (int32_t d = 0; d < count; d += 32, key += 64) {
        _tile_loadd(6, scratch->q[0][(first + d) / 2], 64);
        _tile_loadd(7, scratch->q[1][(first + d) / 2], 64);
        _tile_loadd(4, key, 2 * stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, key + stride, 2 * stride);
        _tile_dpbf16ps(0, 5, 7);
        lanes_ahead(&scratch->ahead, LANES_WORK_DOT);
        if (rows->padded == 32)
            continue;
        _tile_loadd(4, key + 32 * stride, 2 * stride);
        _tile_dpbf16ps(1, 4, 6);
        _tile_loadd(5, key + 33 * stride, 2 * stride);
        _tile_dpbf16ps(1, 5, 7);
    }
    _tile_stored(0, to[0], 64);
    _tile_stored(1, to[16], 64);
}

static void tiles_dot(const struct lanes_shape *shape, const struct lanes_rows *rows,
                      struct lanes *scratch, int32_t first, int32_t count, float (*to)[LANES_HEADS])
{
    TILES_SEE_MEMORY();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (shape->two)
        tiles_dot_two(rows, scratch, first, count, to);
    else
        tiles_dot_one(rows, scratch, first, count, to);
    TILES_SEE_MEMORY();
}

static void tiles_pack_q(const struct lanes_shape *shape, struct lanes *scratch)
{
    int32_t pairs = shape->layout->head_dim / 2;
    memset(scratch->q[0], 0, (size_t)pairs * sizeof scratch->q[0][0]);
    if (shape->two)
        memset(scratch->q[1], 0, (size_t)pairs * sizeof scratch->q[1][0]);
    for (int32_t h = 0; h < shape->task->heads; h++) {
        const kvt_bf16 *q = kvt_task_q(shape->task, h);
        for (int32_t i = 0; i < pairs; i++) {
            scratch->q[0][i][h] = lanes_q_pair(q, i);
            if (shape->two)
                scratch->q[1][i][LANES_HEADS / 2 + h] = scratch->q[0][i][h];
        }
    }
}

/* clang-format off */
#define ORDER(c) c, c + 32, c + 1, c + 33, c + 2, c + 34, c + 3, c + 35, \
                 c + 4, c + 36, c + 5, c + 37, c + 6, c + 38, c + 7, c + 39
/* clang-format on */
static const _Alignas(64) uint8_t tiles_order[64] = {ORDER(0), ORDER(8), ORDER(16), ORDER(24)};

/* Chunks c and c + 1 of V, two tokens' rows unpacked into each other. */
static inline void tiles_unpack(uint32_t to[2][HALVES][16][16], const struct lanes_rows *rows,
                                int32_t c, struct lanes_ahead *ahead)
{
    const uint8_t *first = rows->value + 32 * c;
    int64_t stride = rows->value_stride;
    for (int32_t half = 0; half < rows->padded / 32; half++)
        for (int32_t pair = 0; pair < 16; pair++, first += 2 * stride) {
            __m512i a = _mm512_loadu_si512(first);
            __m512i b = _mm512_loadu_si512(first + stride);
            _mm512_store_si512(to[0][half][pair], _mm512_unpacklo_epi16(a, b));
            _mm512_store_si512(to[1][half][pair], _mm512_unpackhi_epi16(a, b));
            if (pair % 8 == 7)
                lanes_ahead(ahead, 8 * LANES_WORK_VALUE);
        }
}

/* The same from E4M3: 32 codes of either token, interleaved byte by byte in the order that
 * unpacking words would give, then decoded. */
static inline void tiles_unpack_codes(uint32_t to[2][HALVES][16][16], const struct lanes_rows *rows,
                                      int32_t c, struct lanes_ahead *ahead)
{
    const __m512i order = _mm512_load_si512(tiles_order);
    const __m512i low[2] = {_mm512_load_si512(lanes_low), _mm512_load_si512(lanes_low + 64)};
    const __m512i high[2] = {_mm512_load_si512(lanes_high), _mm512_load_si512(lanes_high + 64)};
    const uint8_t *first = rows->value + 16 * c;
    int64_t stride = rows->value_stride;
    for (int32_t half = 0; half < rows->padded / 32; half++)
        for (int32_t pair = 0; pair < 16; pair++, first += 2 * stride) {
            __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)first);
            __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(first + stride));
            __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
            __m512i words[2];
            lanes_decode_bytes(_mm512_permutexvar_epi8(order, both), low, high, words);
            _mm512_store_si512(to[0][half][pair], words[0]);
            _mm512_store_si512(to[1][half][pair], words[1]);
            if (pair % 8 == 7)
                lanes_ahead(ahead, 8 * LANES_WORK_VALUE);
        }
}

/* to[j][i] = from[16 i + j], dwords. */
static void transpose_16(const uint32_t *from, uint32_t to[16][16])
{
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
        __m512i x = _mm512_load_si512(from + 16 * i), y = _mm512_load_si512(from + 16 * i + 16);
        a[i] = _mm512_unpacklo_epi32(x, y);
        a[i + 1] = _mm512_unpackhi_epi32(x, y);
    }
    for (int i = 0; i < 16; i += 4) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) { /* 4 x 4 blocks of 128 bits */
        a[i] = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88);
        a[4 + i] = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xdd);
        a[8 + i] = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x88);
        a[12 + i] = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        _mm512_store_si512(to[i], _mm512_shuffle_i32x4(a[i], a[8 + i], 0x88));
        _mm512_store_si512(to[4 + i], _mm512_shuffle_i32x4(a[4 + i], a[12 + i], 0x88));
        _mm512_store_si512(to[8 + i], _mm512_shuffle_i32x4(a[i], a[8 + i], 0xdd));
        _mm512_store_si512(to[12 + i], _mm512_shuffle_i32x4(a[4 + i], a[12 + i], 0xdd));
    }
}

/* to[j][i] = from[8 i + j]. */
static void transpose_8(const uint32_t *from, uint32_t to[16][16])
{
    const __m512i column =
        _mm512_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120);
    for (int j = 0; j < 8; j++)
        _mm512_store_si512(to[j], _mm512_i32gather_epi32(column, from + j, 4));
}

static void tiles_rescale(struct tiles *tiles, int32_t heads, int32_t chunks, __m512 keep)
{
    float by[LANES_HEADS];
    _mm512_storeu_ps(by, keep);
    for (int32_t c = 0; c < chunks; c++)
        for (int32_t h = 0; h < heads; h++)
            _mm512_store_ps(tiles->out[c][h],
                            _mm512_mul_ps(_mm512_load_ps(tiles->out[c][h]), _mm512_set1_ps(by[h])));
}

/* out of chunks c and c + 1 += p (tiles 6 and 7) times V. */
static inline void tiles_add(float out[2][LANES_HEADS][16], uint32_t value[2][HALVES][16][16],
                             bool whole)
{
    TILES_SEE_MEMORY();
    _tile_loadd(0, out[0], 64);
    _tile_loadd(1, out[1], 64);
    _tile_loadd(2, value[0][0], 64);
    _tile_dpbf16ps(0, 6, 2);
    _tile_loadd(3, value[1][0], 64);
    _tile_dpbf16ps(1, 6, 3);
    if (whole) {
        _tile_loadd(4, value[0][1], 64);
        _tile_dpbf16ps(0, 7, 4);
        _tile_loadd(5, value[1][1], 64);
        _tile_dpbf16ps(1, 7, 5);
    }
    _tile_stored(0, out[0], 64);
    _tile_stored(1, out[1], 64);
    TILES_SEE_MEMORY();
}

/* V of the next chunks is unpacked while the tiles of these are multiplied: what was just stored
 * cannot be forwarded to a tile. */
static void tiles_values(const struct lanes_shape *shape, const struct lanes_rows *rows,
                         struct tiles *tiles)
{
    int32_t chunks = shape->layout->value_dim / 16, of_group = chunks / shape->groups;
    bool whole = rows->padded == LANES_TOKENS;
    for (int32_t g = 0; g < shape->groups; g++)
        for (int32_t half = 0; half < rows->padded / 32; half++)
            if (shape->two)
                transpose_8(tiles->lanes.p[g] + 16 * 8 * half, tiles->p[g][half]);
            else
                transpose_16(tiles->lanes.p[g] + 16 * 16 * half, tiles->p[g][half]);
    void (*unpack)(uint32_t[2][HALVES][16][16], const struct lanes_rows *, int32_t,
                   struct lanes_ahead *) = shape->raw_value ? tiles_unpack_codes : tiles_unpack;
    unpack(tiles->value[0], rows, 0, &tiles->lanes.ahead);
    for (int32_t c = 0; c < chunks; c += 2) {
        if (c % of_group == 0) {
            _tile_loadd(6, tiles->p[c / of_group][0], 64);
            if (whole)
                _tile_loadd(7, tiles->p[c / of_group][1], 64);
        }
        if (c + 2 < chunks)
            unpack(tiles->value[c / 2 % 2 ^ 1], rows, c + 2, &tiles->lanes.ahead);
        tiles_add(&tiles->out[c], tiles->value[c / 2 % 2], whole);
    }
}

static void tiles_block(const struct lanes_shape *shape, int32_t token, struct tiles *tiles)
{
    struct lanes *scratch = &tiles->lanes;
    int32_t chunks = shape->layout->value_dim / 16;
    struct lanes_rows rows = lanes_load(shape, token, scratch);
    lanes_ahead_begin(shape, token + LANES_TOKENS, &scratch->ahead);
    lanes_scores(shape, &rows, scratch, tiles_dot);
    __m512 max, keep, block_max = lanes_scale(shape, &rows, scratch);
    if (lanes_follow(scratch, block_max, &max, &keep))
        tiles_rescale(tiles, shape->task->heads, chunks, keep);
    bool again = lanes_weights(shape, scratch, &rows, max);
    tiles_values(shape, &rows, tiles);
    if (again) {
        lanes_rests(shape, scratch, &rows, max);
        tiles_values(shape, &rows, tiles);
    }
}

static void amx_piece(const struct kvt_attention_task *task, const struct kvt_attention_partial *to)
{
    struct tiles tiles;
    struct lanes_shape shape = lanes_shape(task);
    shape.raw_value = shape.layout->format == KVT_PAGE_GQA_FP8;
    int32_t value_dim = shape.layout->value_dim;
    tiles_pack_q(&shape, &tiles.lanes);
    memset(tiles.p, 0, sizeof tiles.p);
    lanes_begin(&tiles.lanes);
    memset(tiles.out, 0, (size_t)(value_dim / 16) * sizeof tiles.out[0]);
    tiles_configure();
    for (int32_t token = task->first_token; token < task->last_token; token += LANES_TOKENS)
        tiles_block(&shape, token, &tiles);
    _tile_release();
    lanes_end(&shape, &tiles.lanes, to);
    for (int32_t h = 0; h < task->heads; h++) {
        for (int32_t c = 0; c < value_dim / 16; c += 2)
            lanes_unmix(_mm512_load_ps(tiles.out[c][h]), _mm512_load_ps(tiles.out[c + 1][h]),
                        to->out + (int64_t)h * value_dim + 16 * c);
    }
}

const struct kvt_attention_isa kvt_attention_amx = {amx_piece, partial_finish, partial_merge};
