/* Attention with AVX-512: scores and sums of p v are chains of vdpbf16ps. */

#include "kernels/cpu/attention_lanes_avx512.h"

/*
 * Scores: a register of q holds a pair of dims of 16 heads; the same pair of dims of K is broadcast
 * into vdpbf16ps, for 8 tokens at a time, each with two chains. With up to 8 heads it holds two
 * pairs of dims of 8 heads, side by side, and 64 bits of K are broadcast; the two halves of the sum
 * meet once a token.
 *
 * Values: 4 heads x 64 columns of sums stay in 16 registers while all tokens of the block pass by,
 * two tokens' rows unpacked into each other; p of a pair of tokens is broadcast. Unpacking mixes
 * the columns of 32 in a fixed way; the sums stay mixed until the end of the piece.
 */
#define SLAB 64 /* columns */

struct chains {
    struct lanes lanes;
    _Alignas(64) float out[LANES_HEADS][KVT_VALUE_MAX];
};

#define DOT(sum, q, k) _mm512_dpbf16_ps(sum, (__m512bh)(q), (__m512bh)(k))

static inline __m512i key_32(const uint8_t *at)
{
    uint32_t pair;
    memcpy(&pair, at, sizeof pair);
    return _mm512_set1_epi32((int)pair);
}

static inline __m512i key_64(const uint8_t *at)
{
    int64_t pairs;
    memcpy(&pairs, at, sizeof pairs);
    return _mm512_set1_epi64(pairs);
}

/* clang-format off */
#define EIGHT(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
/* clang-format on */

static void chains_dot_one(const struct lanes_rows *rows, struct lanes *scratch, int32_t first,
                           int32_t count, float (*to)[LANES_HEADS])
{
    int64_t stride = rows->key_stride;
    for (int32_t t = 0; t < rows->padded; t += 8) {
        const uint8_t *k0 = rows->key + t * stride + 2 * first;
#define START(i)                                                                                   \
    const uint8_t *at##i = k0 + i * stride;                                                        \
    __m512 even##i = _mm512_setzero_ps(), odd##i = _mm512_setzero_ps();
        EIGHT(START)
        const uint32_t(*q)[LANES_HEADS] = (const uint32_t(*)[LANES_HEADS])scratch->q[0] + first / 2;
        for (int64_t d = 0; d < 2 * count; d += 8, q += 2) {
            __m512i q0 = _mm512_load_si512(q[0]), q1 = _mm512_load_si512(q[1]);
#define STEP(i)                                                                                    \
    even##i = DOT(even##i, q0, key_32(at##i + d));                                                 \
    odd##i = DOT(odd##i, q1, key_32(at##i + d + 4));
            EIGHT(STEP)
        }
#define STOP(i) _mm512_store_ps(to[t + i], _mm512_add_ps(even##i, odd##i));
        EIGHT(STOP)
        lanes_ahead(&scratch->ahead, count / 32 * LANES_WORK_DOT / 8);
    }
}

/* Lane 2 h + c of a sum is head h, pair c of two; both pairs of two tokens are added up, and the
 * second token's heads come behind the first's. */
static inline __m512 two_tokens(__m512 first, __m512 second)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_add_ps(_mm512_permutex2var_ps(first, even, second),
                         _mm512_permutex2var_ps(first, odd, second));
}

static void chains_dot_two(const struct lanes_rows *rows, struct lanes *scratch, int32_t first,
                           int32_t count, float (*to)[LANES_HEADS])
{
    int64_t stride = rows->key_stride;
    for (int32_t t = 0; t < rows->padded; t += 8) {
        const uint8_t *k0 = rows->key + t * stride + 2 * first;
        EIGHT(START)
        const uint32_t(*q)[LANES_HEADS] = (const uint32_t(*)[LANES_HEADS])scratch->q[0] + first / 4;
        for (int64_t d = 0; d < 2 * count; d += 16, q += 2) {
            __m512i q0 = _mm512_load_si512(q[0]), q1 = _mm512_load_si512(q[1]);
#define STEP_TWO(i)                                                                                \
    even##i = DOT(even##i, q0, key_64(at##i + d));                                                 \
    odd##i = DOT(odd##i, q1, key_64(at##i + d + 8));
            EIGHT(STEP_TWO)
        }
#define BOTH(i) _mm512_add_ps(even##i, odd##i)
        _mm512_store_ps(to[t / 2], two_tokens(BOTH(0), BOTH(1)));
        _mm512_store_ps(to[t / 2 + 1], two_tokens(BOTH(2), BOTH(3)));
        _mm512_store_ps(to[t / 2 + 2], two_tokens(BOTH(4), BOTH(5)));
        _mm512_store_ps(to[t / 2 + 3], two_tokens(BOTH(6), BOTH(7)));
        lanes_ahead(&scratch->ahead, count / 32 * LANES_WORK_DOT / 8);
    }
}

static void chains_dot(const struct lanes_shape *shape, const struct lanes_rows *rows,
                       struct lanes *scratch, int32_t first, int32_t count,
                       float (*to)[LANES_HEADS])
{
    if (shape->two)
        chains_dot_two(rows, scratch, first, count, to);
    else
        chains_dot_one(rows, scratch, first, count, to);
}

static void chains_pack_q(const struct lanes_shape *shape, struct lanes *scratch)
{
    int32_t pairs = shape->layout->head_dim / 2;
    memset(scratch->q[0], 0, (size_t)pairs * sizeof scratch->q[0][0]);
    for (int32_t h = 0; h < shape->task->heads; h++) {
        const kvt_bf16 *q = kvt_task_q(shape->task, h);
        for (int32_t i = 0; i < pairs; i++) {
            if (shape->two)
                scratch->q[0][i / 2][2 * h + i % 2] = lanes_q_pair(q, i);
            else
                scratch->q[0][i][h] = lanes_q_pair(q, i);
        }
    }
}

/* clang-format off */
#define FOUR(F) F(0) F(1) F(2) F(3)
/* clang-format on */

/* 64 columns of 4 heads += p times V over all pairs of the block. p: of the first pair and head. */
static inline void chains_slab(const struct lanes_rows *rows, struct lanes *scratch,
                               const uint32_t *p, int32_t width, int32_t column,
                               float (*out)[KVT_VALUE_MAX])
{
    const uint8_t *v = rows->value + 2 * column;
    int64_t stride = rows->value_stride;
#define TAKE(h)                                                                                    \
    float *out##h = out[h] + column;                                                               \
    __m512 a##h = _mm512_load_ps(out##h), b##h = _mm512_load_ps(out##h + 16);                      \
    __m512 c##h = _mm512_load_ps(out##h + 32), d##h = _mm512_load_ps(out##h + 48);
    FOUR(TAKE)
    for (int32_t pair = 0; pair < rows->padded / 2; pair++, v += 2 * stride, p += width) {
        __m512i x = _mm512_loadu_si512(v), y = _mm512_loadu_si512(v + stride);
        __m512i z = _mm512_loadu_si512(v + 64), w = _mm512_loadu_si512(v + stride + 64);
        __m512i va = _mm512_unpacklo_epi16(x, y), vb = _mm512_unpackhi_epi16(x, y);
        __m512i vc = _mm512_unpacklo_epi16(z, w), vd = _mm512_unpackhi_epi16(z, w);
#define ADD(h)                                                                                     \
    __m512i p##h = _mm512_set1_epi32((int)p[h]);                                                   \
    a##h = DOT(a##h, va, p##h);                                                                    \
    b##h = DOT(b##h, vb, p##h);                                                                    \
    c##h = DOT(c##h, vc, p##h);                                                                    \
    d##h = DOT(d##h, vd, p##h);
        FOUR(ADD)
        if (pair % 4 == 3)
            lanes_ahead(&scratch->ahead, 4 * LANES_WORK_VALUE);
    }
#define GIVE(h)                                                                                    \
    _mm512_store_ps(out##h, a##h);                                                                 \
    _mm512_store_ps(out##h + 16, b##h);                                                            \
    _mm512_store_ps(out##h + 32, c##h);                                                            \
    _mm512_store_ps(out##h + 48, d##h);
    FOUR(GIVE)
}

static void chains_rescale(struct chains *chains, int32_t heads, int32_t value_dim, __m512 keep)
{
    float by[LANES_HEADS];
    _mm512_storeu_ps(by, keep);
    for (int32_t h = 0; h < heads; h++)
        for (int32_t d = 0; d < value_dim; d += 16)
            _mm512_store_ps(chains->out[h] + d, _mm512_mul_ps(_mm512_load_ps(chains->out[h] + d),
                                                              _mm512_set1_ps(by[h])));
}

static void chains_values(const struct lanes_shape *shape, const struct lanes_rows *rows,
                          struct chains *chains)
{
    struct lanes *scratch = &chains->lanes;
    int32_t value_dim = shape->layout->value_dim;
    int32_t width = shape->two ? LANES_HEADS / 2 : LANES_HEADS;
    for (int32_t column = 0; column < value_dim; column += SLAB) {
        const uint32_t *p = scratch->p[column * shape->groups / value_dim];
        for (int32_t h = 0; h < shape->task->heads; h += 4)
            chains_slab(rows, scratch, p + h, width, column, &chains->out[h]);
    }
}

static void chains_block(const struct lanes_shape *shape, int32_t token, struct chains *chains)
{
    struct lanes *scratch = &chains->lanes;
    int32_t value_dim = shape->layout->value_dim, heads = shape->task->heads;
    struct lanes_rows rows = lanes_load(shape, token, scratch);
    lanes_ahead_begin(shape, token + LANES_TOKENS, &scratch->ahead);
    lanes_scores(shape, &rows, scratch, chains_dot);
    __m512 max, keep, block_max = lanes_scale(shape, &rows, scratch);
    if (lanes_follow(scratch, block_max, &max, &keep))
        chains_rescale(chains, heads, value_dim, keep);
    bool again = lanes_weights(shape, scratch, &rows, max);
    chains_values(shape, &rows, chains);
    if (again) {
        lanes_rests(shape, scratch, &rows, max);
        chains_values(shape, &rows, chains);
    }
}

static void avx512_piece(const struct kvt_attention_task *task,
                         const struct kvt_attention_partial *to)
{
    struct chains chains;
    struct lanes_shape shape = lanes_shape(task);
    int32_t value_dim = shape.layout->value_dim;
    chains_pack_q(&shape, &chains.lanes);
    lanes_begin(&chains.lanes);
    for (int32_t h = 0; h < (task->heads + 3) / 4 * 4; h++)
        memset(chains.out[h], 0, (size_t)value_dim * sizeof(float));
    for (int32_t token = task->first_token; token < task->last_token; token += LANES_TOKENS)
        chains_block(&shape, token, &chains);
    lanes_end(&shape, &chains.lanes, to);
    for (int32_t h = 0; h < task->heads; h++)
        for (int32_t d = 0; d < value_dim; d += 32)
            lanes_unmix(_mm512_load_ps(chains.out[h] + d), _mm512_load_ps(chains.out[h] + d + 16),
                        to->out + (int64_t)h * value_dim + d);
}

const struct kvt_attention_isa kvt_attention_avx512 = {avx512_piece, partial_finish, partial_merge};
