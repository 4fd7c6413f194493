/*
 * attention_lanes_avx512.h - attention with heads in the lanes of AVX-512 registers: what its two
 * versions (vdpbf16ps, AMX tiles) have in common
 *
 * A task is walked in blocks of 64 tokens. Everything a block needs is BF16 rows: the pool's own
 * where that holds 64 tokens of BF16 in a row, else copies in scratch, dequantised without their
 * scales, rows behind the last token zero (so nothing unread gets in, and 0 * v is 0). Scales join
 * later: K's multiply scores, V's multiply p. Scores lie as
 *
 *     score [token][16 heads]                  one register a token, no sums across lanes anywhere
 *     p [group][token pair][16 heads]          two BF16 in a dword, as vdpbf16ps and tiles want it
 *
 * group is one of the four 128s of MLA_SCALED, whose scales differ; other formats have one group.
 *
 * Maxima are lazy: a head's maximum follows only when a block exceeds it by more than 2^8, so the
 * sums are rescaled rarely. A NaN in a used token goes through all of it to the result.
 *
 * Rounding p to BF16 errs by 2^-10 of p on average, in either direction: by 2^-10 of V times the
 * root of sum p^2 / (sum p)^2 all together, which disappears where many tokens count. Where a block
 * alone has more than 1/64 of that (so up to 64 tokens count, or one does), what rounding left goes
 * through the products with V a second time. That is the first block or two of a piece, and those
 * that outdo all before them.
 *
 * E4M3 becomes BF16 by two look-ups of a byte (vpermi2b over 128 codes) and the sign. Shifting
 * would lose subnormals: vdpbf16ps takes those of BF16 for zero; the tables rebias them.
 */
#ifndef KVT_KERNELS_CPU_ATTENTION_LANES_AVX512_H
#define KVT_KERNELS_CPU_ATTENTION_LANES_AVX512_H

#include <float.h>
#include <immintrin.h>

#include "kernels/cpu/attention_finish.h"
#include "sim/base/assert.h"

#define LANES_TOKENS 64
#define LANES_PAIRS  (LANES_TOKENS / 2)
#define LANES_HEADS  KVT_TASK_HEADS
#define LANES_LAZY   8.0f
#define LANES_FEW    (1.0f / 64)

#define LANES_INLINE static inline __attribute__((always_inline))

/* Lines of the next block that are still to be prefetched. */
struct lanes_ahead {
    const uint8_t *at, *end; /* of the run that is under way */
    int32_t run, runs;
    int32_t rate, owed; /* lines per unit of work, and what is due, in 1/65536 */
    struct {
        const uint8_t *at;
        int32_t bytes;
    } todo[4 * LANES_TOKENS];
};

struct lanes {
    _Alignas(64) uint32_t q[2][KVT_KEY_MAX / 2][LANES_HEADS]; /* pairs of dims; as dot wants it */
    float score[LANES_TOKENS][LANES_HEADS];                   /* `two`: half of it */
    float key_scale[KVT_MLA_GROUPS][LANES_TOKENS], value_scale[KVT_MLA_GROUPS][LANES_TOKENS];
    uint32_t p[KVT_MLA_GROUPS][LANES_PAIRS * LANES_HEADS];
    float max[LANES_HEADS], sum[LANES_HEADS];
    struct lanes_ahead ahead;
    _Alignas(64) kvt_bf16 key[LANES_TOKENS * KVT_KEY_MAX]; /* [token][head_dim] */
    _Alignas(64) kvt_bf16 value[LANES_TOKENS * 256];
};

/* The rows of one block. */
struct lanes_rows {
    const uint8_t *key, *value;
    int64_t key_stride, value_stride; /* bytes */
    int32_t tokens, padded;           /* valid; readable: a multiple of 32 */
};

/* What a piece needs to know at every block. */
struct lanes_shape {
    const struct kvt_attention_task *task;
    const struct kvt_page_layout *layout;
    int32_t groups;    /* of scales: 4 for MLA_SCALED, else 1 */
    bool token_scales; /* GQA_FP8, MLA_SCALED */
    bool two;          /* tokens in a register */
    bool raw_value;    /* GQA_FP8: V's rows stay E4M3 (the tiles decode them) */
    float scale;       /* of scores, log2(e) included */
};

static inline struct lanes_shape lanes_shape(const struct kvt_attention_task *task)
{
    const struct kvt_page_layout *layout = task->call->layout;
    bool scaled = layout->format == KVT_PAGE_MLA_SCALED,
         plain = layout->format == KVT_PAGE_MLA_PLAIN;
    return (struct lanes_shape){
        .task = task,
        .layout = layout,
        .groups = scaled ? KVT_MLA_GROUPS : 1,
        .two = task->heads <= LANES_HEADS / 2,
        .token_scales = scaled || layout->format == KVT_PAGE_GQA_FP8,
        .scale = task->call->scale * 1.44269504089f * (plain ? task->call->plain_scale : 1),
    };
}

/* ---- E4M3 to BF16 ---- */

/* clang-format off */
#define LANES_SMALL(c) ((c) == 0 ? 0 : (c) == 1 ? 0x3b00 : (c) == 2 ? 0x3b80 : (c) == 3 ? 0x3bc0 : \
                        0x3c00 + ((c) - 4) * 32)
#define LANES_BITS(c)  ((c) < 8 ? LANES_SMALL(c) : (c) == 127 ? 0x7fc0 : ((c) << 4) + 0x3c00)
#define LANES_LOW(c)   (LANES_BITS(c) & 0xff)
#define LANES_HIGH(c)  (LANES_BITS(c) >> 8)
#define LANES_8(F, c)  F(c), F((c) + 1), F((c) + 2), F((c) + 3), F((c) + 4), F((c) + 5), \
                       F((c) + 6), F((c) + 7)
#define LANES_64(F, c) LANES_8(F, c), LANES_8(F, (c) + 8), LANES_8(F, (c) + 16), \
                       LANES_8(F, (c) + 24), LANES_8(F, (c) + 32), LANES_8(F, (c) + 40), \
                       LANES_8(F, (c) + 48), LANES_8(F, (c) + 56)
/* clang-format on */

static const _Alignas(64) uint8_t lanes_low[128] = {LANES_64(LANES_LOW, 0),
                                                    LANES_64(LANES_LOW, 64)};
static const _Alignas(64) uint8_t lanes_high[128] = {LANES_64(LANES_HIGH, 0),
                                                     LANES_64(LANES_HIGH, 64)};

/* 64 codes to 64 BF16; of each 16 the first 8 go to to[0], the others to to[1]. */
static inline void lanes_decode_bytes(__m512i codes, const __m512i low[2], const __m512i high[2],
                                      __m512i to[2])
{
    __m512i l = _mm512_permutex2var_epi8(low[0], codes, low[1]);
    __m512i h = _mm512_permutex2var_epi8(high[0], codes, high[1]);
    h = _mm512_ternarylogic_epi32(codes, _mm512_set1_epi8((char)0x80), h, 0xea); /* a & b | c */
    to[0] = _mm512_unpacklo_epi8(l, h);
    to[1] = _mm512_unpackhi_epi8(l, h);
}

/* count is a multiple of 64. */
static inline void lanes_decode_row(const uint8_t *codes, int32_t count, kvt_bf16 *to)
{
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i low[2] = {_mm512_load_si512(lanes_low), _mm512_load_si512(lanes_low + 64)};
    const __m512i high[2] = {_mm512_load_si512(lanes_high), _mm512_load_si512(lanes_high + 64)};
    for (int32_t i = 0; i < count; i += 64) {
        __m512i words[2];
        lanes_decode_bytes(_mm512_permutexvar_epi64(order, _mm512_loadu_si512(codes + i)), low,
                           high, words);
        _mm512_storeu_si512(to + i, words[0]);
        _mm512_storeu_si512(to + i + 32, words[1]);
    }
}

static inline void lanes_copy_row(const uint8_t *from, int32_t count, kvt_bf16 *to)
{
    for (int32_t i = 0; i < count; i += 32)
        _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + 2 * i));
}

/* ---- prefetch ---- */

/* Work of a block, in units of about 12 cycles on a processor with tiles: what the prefetches are
 * spread over. */
#define LANES_WORK_DOT    8 /* 32 dims of 64 tokens */
#define LANES_WORK_SCORE  1 /* a token's scores scaled */
#define LANES_WORK_WEIGHT 4 /* two tokens' p */
#define LANES_WORK_VALUE  2 /* 32 columns of two tokens' V */

static inline int32_t lanes_work(const struct lanes_shape *shape)
{
    return shape->layout->head_dim / 32 * LANES_WORK_DOT + LANES_TOKENS * LANES_WORK_SCORE +
           LANES_PAIRS * LANES_WORK_WEIGHT +
           shape->layout->value_dim / 32 * LANES_PAIRS * LANES_WORK_VALUE;
}

static inline int32_t lanes_ahead_add(struct lanes_ahead *ahead, const void *at, int64_t bytes)
{
    ahead->todo[ahead->runs].at = at;
    ahead->todo[ahead->runs++].bytes = (int32_t)bytes;
    return (int32_t)(bytes + 63) / 64;
}

/* Pages lie anywhere, so no hardware prefetcher sees the next one coming: note what the block from
 * token on needs. It is asked for while the block before is worked on, a few lines at a time: a
 * burst would fill the buffers that the work's own loads need. */
static inline void lanes_ahead_begin(const struct lanes_shape *shape, int32_t token,
                                     struct lanes_ahead *ahead)
{
    int32_t end = token + LANES_TOKENS, lines = 0;
    end = end < shape->task->last_token ? end : shape->task->last_token;
    ahead->run = ahead->runs = ahead->owed = 0;
    ahead->at = ahead->end = NULL;
    while (token < end) {
        struct kvt_kv_run run = kvt_kv_run_at(shape->task, token, end - token);
        int64_t bytes = (int64_t)run.tokens * shape->layout->token_bytes;
        lines += lanes_ahead_add(ahead, run.key, bytes);
        if (run.value != run.key)
            lines += lanes_ahead_add(ahead, run.value, bytes);
        if (run.key_scale != NULL) {
            lines += lanes_ahead_add(ahead, run.key_scale, 4 * run.tokens);
            lines += lanes_ahead_add(ahead, run.value_scale, 4 * run.tokens);
        }
        token += run.tokens;
    }
    ahead->rate = lines * 65536 / lanes_work(shape) + 1;
}

/* So much work is being done: ask for the lines that are due. */
static inline void lanes_ahead(struct lanes_ahead *ahead, int32_t work)
{
    ahead->owed += work * ahead->rate;
    for (; ahead->owed >= 65536; ahead->owed -= 65536, ahead->at += 64) {
        if (ahead->at >= ahead->end) {
            if (ahead->run == ahead->runs) {
                ahead->rate = ahead->owed = 0;
                return;
            }
            ahead->at = ahead->todo[ahead->run].at;
            ahead->end = ahead->at + ahead->todo[ahead->run++].bytes;
        }
        _mm_prefetch((const char *)ahead->at, _MM_HINT_T1);
    }
}

/* ---- rows ---- */

/* The tokens of a run into rows of the scratch, from row `to` on. */
static inline void lanes_run(const struct lanes_shape *shape, const struct kvt_kv_run *run,
                             struct lanes *scratch, int32_t to)
{
    const struct kvt_page_layout *layout = shape->layout;
    const uint8_t *key = run->key, *value = run->value;
    int32_t stride = layout->token_bytes, dim = layout->head_dim, last = to + run->tokens;
    kvt_bf16 *keys = scratch->key + to * dim, *values = scratch->value + to * dim;
    switch ((enum kvt_page_format)layout->format) {
    case KVT_PAGE_GQA_BF16:
        lanes_copy_row(key, run->tokens * dim, keys);
        lanes_copy_row(value, run->tokens * dim, values);
        return;
    case KVT_PAGE_GQA_FP8:
        lanes_decode_row(key, run->tokens * dim, keys);
        if (!shape->raw_value)
            lanes_decode_row(value, run->tokens * dim, values);
        else if (run->tokens < LANES_TOKENS)
            memcpy((uint8_t *)scratch->value + to * dim, value, (size_t)(run->tokens * dim));
        kvt_assert(run->key_scale != NULL && run->value_scale != NULL);
        memcpy(scratch->key_scale[0] + to, run->key_scale, 4 * (size_t)run->tokens);
        memcpy(scratch->value_scale[0] + to, run->value_scale, 4 * (size_t)run->tokens);
        return;
    case KVT_PAGE_MLA_BF16:
        lanes_copy_row(key, run->tokens * KVT_MLA_DIM, keys);
        return;
    case KVT_PAGE_MLA_PLAIN:
        lanes_decode_row(key, run->tokens * KVT_MLA_DIM, keys);
        return;
    case KVT_PAGE_MLA_SCALED:
        for (int32_t t = to; t < last; t++, key += stride, keys += KVT_MLA_DIM) {
            lanes_decode_row(key, KVT_MLA_LATENT, keys);
            lanes_copy_row(key + KVT_MLA_LATENT + 4 * KVT_MLA_GROUPS, KVT_MLA_ROPE,
                           keys + KVT_MLA_LATENT);
            for (int32_t g = 0; g < KVT_MLA_GROUPS; g++)
                memcpy(&scratch->key_scale[g][t], key + KVT_MLA_LATENT + 4 * g, sizeof(float));
        }
        return;
    case KVT_PAGE_FORMATS:
        return;
    }
}

static inline void lanes_zero_rows(const struct lanes_shape *shape, struct lanes *scratch,
                                   int32_t from, int32_t to)
{
    int32_t dim = shape->layout->head_dim;
    size_t bytes = (size_t)((to - from) * dim) * sizeof(kvt_bf16);
    memset(scratch->key + from * dim, 0, bytes);
    if (shape->raw_value)
        memset((uint8_t *)scratch->value + from * dim, 0, bytes / 2);
    else if (shape->layout->value_offset != 0)
        memset(scratch->value + from * dim, 0, bytes);
    for (int32_t t = from; t < to; t++)
        for (int32_t g = 0; g < shape->groups; g++)
            scratch->key_scale[g][t] = scratch->value_scale[g][t] = 1;
}

static inline struct lanes_rows lanes_load(const struct lanes_shape *shape, int32_t token,
                                           struct lanes *scratch)
{
    const struct kvt_page_layout *layout = shape->layout;
    int32_t left = shape->task->last_token - token;
    int32_t tokens = left < LANES_TOKENS ? left : LANES_TOKENS;
    int64_t row = 2 * (int64_t)layout->head_dim;
    struct kvt_kv_run run = kvt_kv_run_at(shape->task, token, tokens);
    struct lanes_rows rows = {run.key, run.value, row, row, tokens, LANES_TOKENS};
    bool whole = run.tokens == LANES_TOKENS;
    if (whole && kvt_page_element_bytes(layout) == 2)
        return rows;

    int32_t done = 0;
    for (;;) {
        lanes_run(shape, &run, scratch, done);
        done += run.tokens;
        if (done == tokens)
            break;
        run = kvt_kv_run_at(shape->task, token + done, tokens - done);
    }
    rows.padded = (tokens + 31) / 32 * 32;
    lanes_zero_rows(shape, scratch, tokens, rows.padded);
    if (layout->format == KVT_PAGE_MLA_SCALED)
        memcpy(scratch->value_scale, scratch->key_scale, sizeof scratch->key_scale);
    rows.key = (const uint8_t *)scratch->key;
    if (layout->value_offset == 0)
        rows.value = rows.key;
    else if (!shape->raw_value || !whole) /* else they stay in the pool */
        rows.value = (const uint8_t *)scratch->value;
    if (shape->raw_value)
        rows.value_stride = layout->head_dim;
    return rows;
}

/* ---- scores to p ---- */

/* dot: to := products of q and K over dims first .. first + count, for padded rows, as score lies.
 */
typedef void lanes_dot(const struct lanes_shape *shape, const struct lanes_rows *rows,
                       struct lanes *scratch, int32_t first, int32_t count,
                       float (*to)[LANES_HEADS]);

/* The scales of the tokens of register i of the scores. */
static inline __m512 lanes_spread(const float *scale, int32_t i, bool two)
{
    const __m512i halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    if (!two)
        return _mm512_set1_ps(scale[i]);
    __m128i pair = _mm_loadl_epi64((const __m128i *)(const void *)(scale + 2 * i));
    return _mm512_permutexvar_ps(halves, _mm512_castps128_ps512(_mm_castsi128_ps(pair)));
}

/* Tokens behind the last one score -inf. */
static inline void lanes_mask(const struct lanes_shape *shape, const struct lanes_rows *rows,
                              struct lanes *scratch)
{
    const __m512 never = _mm512_set1_ps(-INFINITY);
    int32_t per = shape->two ? 2 : 1;
    int32_t i = rows->tokens / per;
    if (rows->tokens % per != 0)
        _mm512_mask_store_ps(scratch->score[i++], 0xff00, never);
    for (; i < rows->padded / per; i++)
        _mm512_store_ps(scratch->score[i], never);
}

/* Scores without shape->scale. With groups, each group's sums are multiplied by its scale first. */
static inline __attribute__((always_inline)) void lanes_scores(const struct lanes_shape *shape,
                                                               const struct lanes_rows *rows,
                                                               struct lanes *scratch,
                                                               lanes_dot *dot)
{
    if (shape->groups == 1) {
        dot(shape, rows, scratch, 0, shape->layout->head_dim, scratch->score);
    } else {
        _Alignas(64) float part[LANES_TOKENS][LANES_HEADS];
        dot(shape, rows, scratch, KVT_MLA_LATENT, KVT_MLA_ROPE, scratch->score);
        for (int32_t g = 0; g < KVT_MLA_GROUPS; g++) {
            dot(shape, rows, scratch, g * KVT_MLA_SCALE_GROUP, KVT_MLA_SCALE_GROUP, part);
            for (int32_t i = 0; i < rows->padded / (shape->two ? 2 : 1); i++)
                _mm512_store_ps(scratch->score[i],
                                _mm512_fmadd_ps(_mm512_load_ps(part[i]),
                                                lanes_spread(scratch->key_scale[g], i, shape->two),
                                                _mm512_load_ps(scratch->score[i])));
        }
    }
    lanes_mask(shape, rows, scratch);
}

/* 2^x for 16 lanes, relative error 1e-7; NaN stays NaN. */
static inline __m512 lanes_exp2(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-200), x); /* the second operand where one is NaN */
    __m512 n = _mm512_roundscale_ps(x, 0), f = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(1.535336188e-4f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.339887440e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.618437357e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.550332548e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.402264791e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.931472028e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

static inline __m512i lanes_pair(__m512 first, __m512 second)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

/* The other token's heads, where two share a register. */
static inline __m512 lanes_other(__m512 x)
{
    return _mm512_shuffle_f32x4(x, x, 0x4e);
}

/* Scale the scores of a block (those of K's groups are in them) and find their maximum. */
static inline __m512 lanes_scale(const struct lanes_shape *shape, const struct lanes_rows *rows,
                                 struct lanes *scratch)
{
    bool per_token = shape->layout->format == KVT_PAGE_GQA_FP8;
    const __m512 scale = _mm512_set1_ps(shape->scale);
    __m512 max = _mm512_set1_ps(-FLT_MAX);
    for (int32_t i = 0; i < rows->padded / (shape->two ? 2 : 1); i++) {
        __m512 score = _mm512_mul_ps(_mm512_load_ps(scratch->score[i]), scale);
        if (per_token)
            score = _mm512_mul_ps(score, lanes_spread(scratch->key_scale[0], i, shape->two));
        _mm512_store_ps(scratch->score[i], score);
        max = _mm512_max_ps(score, max);
        if (i % 8 == 7)
            lanes_ahead(&scratch->ahead, 8 * LANES_WORK_SCORE);
    }
    return shape->two ? _mm512_max_ps(max, lanes_other(max)) : max;
}

/* What rounding to BF16 leaves. */
static inline __m512 lanes_rest(__m512 x)
{
    __m256i words = (__m256i)_mm512_cvtneps_pbh(x);
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16);
    return _mm512_sub_ps(x, _mm512_castsi512_ps(bits));
}

/* p of a block, or (rest) what rounding them to BF16 left, from its scaled scores. The sum takes p
 * before it is rounded; *squares becomes the sum of their squares. */
LANES_INLINE void lanes_p_one(const struct lanes_shape *shape, struct lanes *scratch,
                              const struct lanes_rows *rows, __m512 max, const bool rest,
                              __m512 *sum, __m512 *squares)
{
    for (int32_t t = 0; t < rows->padded; t += 2) {
        __m512 p = lanes_exp2(_mm512_sub_ps(_mm512_load_ps(scratch->score[t]), max));
        __m512 q = lanes_exp2(_mm512_sub_ps(_mm512_load_ps(scratch->score[t + 1]), max));
        *sum = _mm512_add_ps(*sum, _mm512_add_ps(p, q));
        *squares = _mm512_fmadd_ps(p, p, _mm512_fmadd_ps(q, q, *squares));
        for (int32_t g = 0; g < shape->groups; g++) {
            __m512 first = p, second = q;
            if (shape->token_scales) {
                first = _mm512_mul_ps(p, _mm512_set1_ps(scratch->value_scale[g][t]));
                second = _mm512_mul_ps(q, _mm512_set1_ps(scratch->value_scale[g][t + 1]));
            }
            if (rest)
                first = lanes_rest(first), second = lanes_rest(second);
            _mm512_store_si512(scratch->p[g] + t / 2 * LANES_HEADS, lanes_pair(first, second));
        }
        if (t % 8 == 6)
            lanes_ahead(&scratch->ahead, 4 * LANES_WORK_WEIGHT);
    }
}

LANES_INLINE void lanes_p_two(const struct lanes_shape *shape, struct lanes *scratch,
                              const struct lanes_rows *rows, __m512 max, const bool rest,
                              __m512 *sum, __m512 *squares)
{
    const __m256i order = _mm256_setr_epi16(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    for (int32_t i = 0; i < rows->padded / 2; i++) {
        __m512 p = lanes_exp2(_mm512_sub_ps(_mm512_load_ps(scratch->score[i]), max));
        *sum = _mm512_add_ps(*sum, p);
        *squares = _mm512_fmadd_ps(p, p, *squares);
        for (int32_t g = 0; g < shape->groups; g++) {
            __m512 scaled = p;
            if (shape->token_scales)
                scaled = _mm512_mul_ps(p, lanes_spread(scratch->value_scale[g], i, true));
            if (rest)
                scaled = lanes_rest(scaled);
            __m256i words = (__m256i)_mm512_cvtneps_pbh(scaled);
            _mm256_store_si256((__m256i *)(void *)(scratch->p[g] + i * LANES_HEADS / 2),
                               _mm256_permutexvar_epi16(order, words));
        }
        if (i % 4 == 3)
            lanes_ahead(&scratch->ahead, 4 * LANES_WORK_WEIGHT);
    }
}

/* p of a block, rounded. True: some head rests on so few tokens by now that the rounding would show
 * in out, and what it left (lanes_rests) is to be multiplied by V too. */
static inline bool lanes_weights(const struct lanes_shape *shape, struct lanes *scratch,
                                 const struct lanes_rows *rows, __m512 max)
{
    __m512 sum = _mm512_load_ps(scratch->sum), squares = _mm512_setzero_ps();
    if (shape->two)
        lanes_p_two(shape, scratch, rows, max, false, &sum, &squares);
    else
        lanes_p_one(shape, scratch, rows, max, false, &sum, &squares);
    _mm512_store_ps(scratch->sum, sum);
    if (shape->two) {
        sum = _mm512_add_ps(sum, lanes_other(sum));
        squares = _mm512_add_ps(squares, lanes_other(squares));
    }
    __m512 most = _mm512_mul_ps(_mm512_mul_ps(sum, sum), _mm512_set1_ps(LANES_FEW));
    return _mm512_cmp_ps_mask(squares, most, _CMP_GT_OQ) != 0;
}

static __attribute__((noinline)) void lanes_rests(const struct lanes_shape *shape,
                                                  struct lanes *scratch,
                                                  const struct lanes_rows *rows, __m512 max)
{
    __m512 sum = _mm512_setzero_ps(), squares = sum;
    if (shape->two)
        lanes_p_two(shape, scratch, rows, max, true, &sum, &squares);
    else
        lanes_p_one(shape, scratch, rows, max, true, &sum, &squares);
}

/* The maximum that the block's p refer to. Where it moves, *keep is what the sums so far are
 * multiplied by, and true is returned. */
static inline bool lanes_follow(struct lanes *scratch, __m512 block_max, __m512 *max, __m512 *keep)
{
    __m512 was = _mm512_load_ps(scratch->max);
    __mmask16 above =
        _mm512_cmp_ps_mask(block_max, _mm512_add_ps(was, _mm512_set1_ps(LANES_LAZY)), _CMP_GT_OQ);
    *max = _mm512_mask_mov_ps(was, above, block_max);
    if (above == 0)
        return false;
    *keep = lanes_exp2(_mm512_sub_ps(was, *max));
    _mm512_store_ps(scratch->max, *max);
    _mm512_store_ps(scratch->sum, _mm512_mul_ps(_mm512_load_ps(scratch->sum), *keep));
    return true;
}

static inline void lanes_begin(struct lanes *scratch)
{
    _mm512_store_ps(scratch->max, _mm512_set1_ps(-FLT_MAX));
    _mm512_store_ps(scratch->sum, _mm512_setzero_ps());
}

/* The end of a piece: the sums of both tokens of a register are added. */
static inline void lanes_end(const struct lanes_shape *shape, struct lanes *scratch,
                             const struct kvt_attention_partial *to)
{
    __m512 sum = _mm512_load_ps(scratch->sum);
    if (shape->two)
        _mm512_store_ps(scratch->sum, _mm512_add_ps(sum, lanes_other(sum)));
    memcpy(to->max, scratch->max, (size_t)shape->task->heads * sizeof *to->max);
    memcpy(to->sum, scratch->sum, (size_t)shape->task->heads * sizeof *to->sum);
}

/* Dims 2 i and 2 i + 1 of a head's q. */
static inline uint32_t lanes_q_pair(const kvt_bf16 *q, int32_t i)
{
    return (uint32_t)q[2 * i] | (uint32_t)q[2 * i + 1] << 16;
}

/* Two registers of sums whose columns unpacking has mixed, back in order. */
static inline void lanes_unmix(__m512 low, __m512 high, float *to)
{
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second =
        _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(low, first, high));
    _mm512_storeu_ps(to + 16, _mm512_permutex2var_ps(low, second, high));
}

#endif
