/*
 * mla.cuh - decode attention over the latent cache of MLA: BF16, plain FP8, scaled FP8
 *
 * A block takes pieces (row, 16 heads, pages), 64 tokens at a time. The heads are the 16 rows of
 * m16n8k16, so a rank of TP 8 with 8 heads wastes half of the tensor cores, which the memory hides.
 *
 *     S = Q K^T    each warp 16 of the 64 tokens, 36 steps of 16 dims; Q lies in shared memory
 *     O = P V      each warp 128 of the 512 dims, P through shared memory
 *
 * Three barriers a tile: the tile is there (and the one before is used up), the maxima are there, P
 * is there. Copies run STAGES deep.
 *
 * FP8 becomes FP16 in registers as in gqa.cuh: of K a lane takes 16 bytes in a row, and Q is put
 * into shared memory in that order of dims; of V it takes 16 dims of four tokens. The scaled format
 * has one scale for 128 dims of a token: for S they multiply the sums of 128 dims, for O a warp's
 * 128 dims are one group, so its copy of P is multiplied by the token's scale of that group, as a
 * ratio to the largest so far. Its RoPE part is BF16 and stays so.
 *
 * With more than 16 heads the KV is read once for each 16: for 128 heads that is a lower bound of
 * what the hardware can do (a kernel with wgmma shares one read).
 */
#ifndef KVT_CUDA_MLA_CUH
#define KVT_CUDA_MLA_CUH

#include "kernels/cuda/attention.cuh"

#define MLA_HEADS 16

template <int FORMAT> struct mla_shape {
    static constexpr bool FP8 = FORMAT != KVT_PAGE_MLA_BF16;
    static constexpr bool SCALED = FORMAT == KVT_PAGE_MLA_SCALED;
    static constexpr int ROW = SCALED ? KVT_MLA_SCALED_BYTES : FP8 ? KVT_MLA_DIM : 2 * KVT_MLA_DIM;
    static constexpr int STRIDE = SCALED ? ROW : ROW + 16; /* banks: 16, 80 or 32 bytes a row on */
    static constexpr int STAGE = ATTENTION_TILE * STRIDE;
    static constexpr int STAGES = FP8 ? 4 : 2;
    static constexpr int SCALES_AT = KVT_MLA_LATENT; /* in a row of the scaled format */
    static constexpr int ROPE_AT = KVT_MLA_LATENT + 4 * (KVT_MLA_LATENT / KVT_MLA_SCALE_GROUP);
    static constexpr int Q_STRIDE = 2 * KVT_MLA_DIM + 16;
    static constexpr int Q_AT = STAGES * STAGE;
    static constexpr int P_STRIDE = 2 * ATTENTION_TILE + 16;
    static constexpr int P_AT = Q_AT + MLA_HEADS * Q_STRIDE;
    /* BF16: p as two BF16, its rounding and what that leaves. */
    static constexpr int P_REST_AT = P_AT + MLA_HEADS * P_STRIDE;
    static constexpr int MAX_AT =
        P_REST_AT + (FP8 ? 0 : MLA_HEADS * P_STRIDE); /* [warp][head], sums */
    static constexpr int FACTOR_AT = MAX_AT + 2 * 4 * ATTENTION_WARPS * MLA_HEADS;
    static constexpr int SHARED = FACTOR_AT + 4 * MLA_HEADS;
};

struct mla {
    float acc[16][4]; /* 8 dims a block; rows heads g and g + 8 */
    float max[2],
        sum[2]; /* of heads g and g + 8; sum of the warp's tokens and the lane's columns */
    float scale[2], v_scale;
};

/* ---- Q ---- */

/* Where dim d lies in a row of Q: as it is, or in the order in which lanes read FP8. */
KVT_DEVICE int mla_q_place(int dim, bool permuted)
{
    if (!permuted)
        return dim;
    int lane_q = dim % 64 / 16, step = dim % 16 / 4, j = dim % 4;
    return dim / 64 * 64 + 16 * step + 2 * lane_q + j % 2 + 8 * (j / 2);
}

/* Q of the unit into shared memory, heads that are not there as zeros; FP8: divided by a power of
 * two that is left at FACTOR_AT. A warp takes every fourth head. */
template <int FORMAT>
KVT_DEVICE void mla_load_q(const struct attention_args &args, const struct kvt_piece &piece)
{
    using shape = mla_shape<FORMAT>;
    int lane = kvt_lane();
    for (int h = (int)threadIdx.x / 32; h < MLA_HEADS; h += ATTENTION_WARPS) {
        bool here = h < heads_of(args, piece.unit);
        const kvt_bf16 *q =
            args.q +
            ((int64_t)piece.row * args.heads + piece.unit * args.unit_heads + h) * KVT_MLA_DIM;
        unsigned char *row = kvt_shared() + shape::Q_AT + h * shape::Q_STRIDE;
        uint32_t pair[KVT_MLA_DIM / 64];
        float amax = 0.0f;
        KVT_UNROLL
        for (int i = 0; i < KVT_MLA_DIM / 64; i++) {
            pair[i] = here ? kvt_load<uint32_t>(q + 64 * i + 2 * lane) : 0;
            amax = fmaxf(amax, fmaxf(fabsf(kvt_bf16_low(pair[i])), fabsf(kvt_bf16_high(pair[i]))));
        }
        float divisor = 1.0f;
        if (shape::FP8) {
            uint32_t exponent = __float_as_uint(kvt_warp_max(amax, 31)) & 0x7f800000u;
            divisor = __uint_as_float(min(max(exponent, 2u << 23), 252u << 23));
        }
        float factor = kvt_reciprocal_of_power(divisor);
        KVT_UNROLL
        for (int i = 0; i < KVT_MLA_DIM / 64; i++) {
            bool rope_bf16 = shape::SCALED && i == KVT_MLA_LATENT / 64;
            int at = mla_q_place(64 * i + 2 * lane, shape::FP8 && !rope_bf16);
            float low = kvt_bf16_low(pair[i]) * factor, high = kvt_bf16_high(pair[i]) * factor;
            kvt_store<uint32_t>(row + 2 * at, shape::FP8 && !rope_bf16 ? kvt_f16x2(low, high)
                                                                       : kvt_bf16x2(low, high));
        }
        if (lane == 0)
            kvt_store<float>(kvt_shared() + shape::FACTOR_AT + 4 * h, divisor);
    }
}

/* ---- copies ---- */

/* Half a row for each thread. */
template <int FORMAT>
KVT_DEVICE void mla_copy(const struct attention_args &args, const struct extent &extent,
                         int32_t first, unsigned char *stage)
{
    using shape = mla_shape<FORMAT>;
    const int chunks = shape::ROW / 16;
    int warp = (int)threadIdx.x / 32;
    /* A warp copies 16 tokens; lanes go along the row, so that they read neighbours. */
    for (int i = kvt_lane(); i < 16 * chunks; i += 32) {
        int token = 16 * warp + i / chunks, part = i % chunks;
        int32_t page = page_of(args, extent, first + token);
        const uint8_t *from = args.pool + page * args.page_bytes +
                              within_page(args, first + token) * args.token_bytes + 16 * part;
        kvt_copy_async16(stage + token * shape::STRIDE + 16 * part, from,
                         first + token < extent.end ? 16 : 0);
    }
}

/* ---- scores of the warp's 16 tokens: [8 tokens][heads g, g + 8 x tokens 2 q, 2 q + 1] ---- */

/* steps of 16 dims whose Q begins at step `first`, K as BF16 in rows at byte `at`. */
template <int FORMAT>
KVT_DEVICE void mla_scores_bf16(const unsigned char *stage, int first, int steps, int at,
                                float scores[2][4])
{
    using shape = mla_shape<FORMAT>;
    int lane = kvt_lane(), warp = (int)threadIdx.x / 32;
    const unsigned char *q = kvt_shared() + shape::Q_AT +
                             (lane % 8 + lane / 8 % 2 * 8) * shape::Q_STRIDE + lane / 16 * 16 +
                             32 * first;
    const unsigned char *k =
        stage + (16 * warp + lane % 8 + lane / 16 * 8) * shape::STRIDE + lane / 8 % 2 * 16 + at;
    KVT_UNROLL
    for (int step = 0; step < steps; step++) {
        uint32_t a[4], b[4];
        kvt_ldmatrix<false>(a, q + 32 * step);
        kvt_ldmatrix<false>(b, k + 32 * step);
        kvt_mma_bf16(scores[0], a, b);
        kvt_mma_bf16(scores[1], a, b + 2);
    }
}

/* Dims 64 block .. of the FP8 part. */
template <int FORMAT>
KVT_DEVICE void mla_scores_fp8(const unsigned char *stage, int block, float scores[2][4])
{
    using shape = mla_shape<FORMAT>;
    int lane = kvt_lane(), g = lane / 4, warp = (int)threadIdx.x / 32;
    const unsigned char *q = kvt_shared() + shape::Q_AT +
                             (lane % 8 + lane / 8 % 2 * 8) * shape::Q_STRIDE + lane / 16 * 16 +
                             128 * block;
    const unsigned char *k = stage + (16 * warp + g) * shape::STRIDE + 64 * block + 16 * (lane % 4);
    uint4 low = kvt_load<uint4>(k), high = kvt_load<uint4>(k + 8 * shape::STRIDE);
    const uint32_t low_word[4] = {low.x, low.y, low.z, low.w};
    const uint32_t high_word[4] = {high.x, high.y, high.z, high.w};
    KVT_UNROLL
    for (int step = 0; step < 4; step++) {
        uint32_t a[4];
        kvt_ldmatrix<false>(a, q + 32 * step);
        uint32_t b[4] = {
            kvt_f16x2_from_e4m3x2(low_word[step]), kvt_f16x2_from_e4m3x2(low_word[step] >> 16),
            kvt_f16x2_from_e4m3x2(high_word[step]), kvt_f16x2_from_e4m3x2(high_word[step] >> 16)};
        kvt_mma_f16(scores[0], a, b);
        kvt_mma_f16(scores[1], a, b + 2);
    }
}

template <int FORMAT> KVT_DEVICE void mla_scores(const unsigned char *stage, float scores[2][4])
{
    using shape = mla_shape<FORMAT>;
    if (!shape::FP8) {
        mla_scores_bf16<FORMAT>(stage, 0, KVT_MLA_DIM / 16, 0, scores);
    } else if (!shape::SCALED) {
        KVT_UNROLL
        for (int block = 0; block < KVT_MLA_DIM / 64; block++)
            mla_scores_fp8<FORMAT>(stage, block, scores);
    } else {
        int warp = (int)threadIdx.x / 32, lane_q = kvt_lane() % 4;
        KVT_UNROLL
        for (int group = 0; group < 4; group++) {
            float sums[2][4] = {};
            mla_scores_fp8<FORMAT>(stage, 2 * group, sums);
            mla_scores_fp8<FORMAT>(stage, 2 * group + 1, sums);
            KVT_UNROLL
            for (int nb = 0; nb < 2; nb++)
                KVT_UNROLL
            for (int i = 0; i < 2; i++) {
                int token = 16 * warp + 8 * nb + 2 * lane_q + i;
                float scale =
                    kvt_load<float>(stage + token * shape::STRIDE + shape::SCALES_AT + 4 * group);
                scores[nb][i] += sums[nb][i] * scale;
                scores[nb][2 + i] += sums[nb][2 + i] * scale;
            }
        }
        mla_scores_bf16<FORMAT>(stage, KVT_MLA_LATENT / 16, KVT_MLA_ROPE / 16, shape::ROPE_AT,
                                scores);
    }
}

/* ---- softmax ---- */

/* Scores to p in shared memory; the new maximum is that of all four warps. */
template <int FORMAT>
KVT_DEVICE void mla_softmax(int32_t left, struct mla &s, float scores[2][4], float alpha[2])
{
    using shape = mla_shape<FORMAT>;
    int g = kvt_lane() / 4, lane_q = kvt_lane() % 4, warp = (int)threadIdx.x / 32;
    float *maxima = reinterpret_cast<float *>(kvt_shared() + shape::MAX_AT);
    KVT_UNROLL
    for (int half = 0; half < 2; half++) {
        float largest = -INFINITY;
        KVT_UNROLL
        for (int i = 0; i < 4; i++) {
            int token = 16 * warp + i / 2 * 8 + 2 * lane_q + i % 2;
            float *score = &scores[i / 2][2 * half + i % 2];
            *score = token < left ? *score * s.scale[half] : -INFINITY;
            largest = fmaxf(largest, *score);
        }
        largest = kvt_warp_max(largest, 3);
        if (lane_q == 0)
            maxima[warp * MLA_HEADS + g + 8 * half] = largest;
    }
    if (!KVT_FAULT(no_barrier))
        __syncthreads();
    KVT_UNROLL
    for (int half = 0; half < 2; half++) {
        float largest = s.max[half];
        KVT_UNROLL
        for (int w = 0; w < ATTENTION_WARPS; w++)
            largest = fmaxf(largest, maxima[w * MLA_HEADS + g + 8 * half]);
        alpha[half] = weight_of(s.max[half], largest);
        s.max[half] = largest;
        s.sum[half] *= alpha[half];
        float shift = largest == -INFINITY ? 0.0f : largest - (shape::FP8 ? P_EXPONENT : 0.0f);
        unsigned char *p = kvt_shared() + shape::P_AT + (g + 8 * half) * shape::P_STRIDE;
        KVT_UNROLL
        for (int nb = 0; nb < 2; nb++) {
            float low = kvt_exp2(scores[nb][2 * half] - shift);
            float high = kvt_exp2(scores[nb][2 * half + 1] - shift);
            s.sum[half] += low + high;
            p += nb == 0 ? 2 * (16 * warp + 2 * lane_q) : 16;
            uint32_t pair = shape::FP8 ? kvt_f16x2(low, high) : kvt_bf16x2(low, high);
            kvt_store<uint32_t>(p, pair);
            if (!shape::FP8)
                kvt_store<uint32_t>(
                    p + shape::P_REST_AT - shape::P_AT,
                    kvt_bf16x2(low - kvt_bf16_low(pair), high - kvt_bf16_high(pair)));
        }
    }
}

/* ---- values: the warp's 128 dims ---- */

/* The scale of token t in the warp's group. */
template <int FORMAT> KVT_DEVICE float mla_value_scale(const unsigned char *stage, int token)
{
    using shape = mla_shape<FORMAT>;
    return kvt_load<float>(stage + token * shape::STRIDE + shape::SCALES_AT +
                           4 * ((int)threadIdx.x / 32));
}

/* Accumulators move to the new maximum, and to the largest scale so far; returns what scales are to
 * be multiplied by to become ratios. */
template <int FORMAT>
KVT_DEVICE float mla_rescale(const unsigned char *stage, struct mla &s, const float alpha[2])
{
    float factor = 1.0f, rescale = 1.0f;
    if (mla_shape<FORMAT>::SCALED) {
        float largest = fmaxf(mla_value_scale<FORMAT>(stage, kvt_lane()),
                              mla_value_scale<FORMAT>(stage, kvt_lane() + 32));
        largest = fmaxf(s.v_scale, kvt_warp_max(largest, 31));
        factor = largest > 0.0f ? kvt_reciprocal_of_power(largest) : 0.0f;
        rescale = s.v_scale * factor;
        s.v_scale = largest;
    }
    KVT_UNROLL
    for (int nb = 0; nb < 16; nb++)
        KVT_UNROLL
    for (int i = 0; i < 4; i++)
        s.acc[nb][i] *= alpha[i / 2] * rescale;
    return factor;
}

template <int FORMAT>
KVT_DEVICE void mla_values_bf16(const unsigned char *stage, int step, const uint32_t a[4],
                                const uint32_t rest[4], struct mla &s)
{
    using shape = mla_shape<FORMAT>;
    int lane = kvt_lane();
    const unsigned char *row = stage + (16 * step + lane % 16) * shape::STRIDE + lane / 16 * 16 +
                               256 * ((int)threadIdx.x / 32);
    KVT_UNROLL
    for (int nb = 0; nb < 16; nb += 2) {
        uint32_t b[4];
        kvt_ldmatrix<true>(b, row + 16 * nb);
        kvt_mma_bf16(s.acc[nb], a, b);
        kvt_mma_bf16(s.acc[nb + 1], a, b + 2);
        kvt_mma_bf16(s.acc[nb], rest, b);
        kvt_mma_bf16(s.acc[nb + 1], rest, b + 2);
    }
}

/* Column g of block nb is dim 16 g + nb of the warp's. */
template <int FORMAT>
KVT_DEVICE void mla_values_fp8(const unsigned char *stage, int step, const uint32_t a[4],
                               struct mla &s)
{
    using shape = mla_shape<FORMAT>;
    int g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    const unsigned char *row =
        stage + (16 * step + 2 * lane_q) * shape::STRIDE + 128 * ((int)threadIdx.x / 32) + 16 * g;
    KVT_UNROLL
    for (int w = 0; w < 4; w += 2) { /* eight bytes at a time */
        uint2 word[4];
        KVT_UNROLL
        for (int t = 0; t < 4; t++)
            word[t] = kvt_load<uint2>(row + (t % 2 + t / 2 * 8) * shape::STRIDE + 4 * w);
        KVT_UNROLL
        for (int i = 0; i < 4; i++) { /* two dims each */
            uint32_t selector = i % 2 ? 0x7362u : 0x5140u;
            uint32_t early =
                __byte_perm(i < 2 ? word[0].x : word[0].y, i < 2 ? word[1].x : word[1].y, selector);
            uint32_t late =
                __byte_perm(i < 2 ? word[2].x : word[2].y, i < 2 ? word[3].x : word[3].y, selector);
            uint32_t even[2] = {kvt_f16x2_from_e4m3x2(early), kvt_f16x2_from_e4m3x2(late)};
            uint32_t odd[2] = {kvt_f16x2_from_e4m3x2(early >> 16),
                               kvt_f16x2_from_e4m3x2(late >> 16)};
            kvt_mma_f16(s.acc[4 * w + 2 * i], a, even);
            kvt_mma_f16(s.acc[4 * w + 2 * i + 1], a, odd);
        }
    }
}

template <int FORMAT>
KVT_DEVICE void mla_values(const unsigned char *stage, struct mla &s, const float alpha[2])
{
    using shape = mla_shape<FORMAT>;
    int lane = kvt_lane(), lane_q = lane % 4;
    float factor = mla_rescale<FORMAT>(stage, s, alpha);
    const unsigned char *p = kvt_shared() + shape::P_AT +
                             (lane % 8 + lane / 8 % 2 * 8) * shape::P_STRIDE + lane / 16 * 16;
    KVT_UNROLL
    for (int step = 0; step < ATTENTION_TILE / 16; step++) {
        uint32_t a[4];
        kvt_ldmatrix<false>(a, p + 32 * step);
        if (shape::SCALED)
            KVT_UNROLL
        for (int half = 0; half < 2; half++) {
            int token = 16 * step + 8 * half + 2 * lane_q;
            uint32_t ratio = kvt_f16x2(mla_value_scale<FORMAT>(stage, token) * factor,
                                       mla_value_scale<FORMAT>(stage, token + 1) * factor);
            a[2 * half] = kvt_f16x2_mul(a[2 * half], ratio);
            a[2 * half + 1] = kvt_f16x2_mul(a[2 * half + 1], ratio);
        }
        if (shape::FP8) {
            mla_values_fp8<FORMAT>(stage, step, a, s);
        } else {
            uint32_t rest[4];
            kvt_ldmatrix<false>(rest, p + shape::P_REST_AT - shape::P_AT + 32 * step);
            mla_values_bf16<FORMAT>(stage, step, a, rest, s);
        }
    }
}

/* ---- the end of a piece ---- */

template <int FORMAT>
KVT_DEVICE void mla_leave(const struct attention_args &args, const struct kvt_piece &piece,
                          struct mla &s)
{
    using shape = mla_shape<FORMAT>;
    int g = kvt_lane() / 4, lane_q = kvt_lane() % 4, warp = (int)threadIdx.x / 32;
    float *sums =
        reinterpret_cast<float *>(kvt_shared() + shape::MAX_AT) + ATTENTION_WARPS * MLA_HEADS;
    KVT_UNROLL
    for (int half = 0; half < 2; half++) {
        float sum = kvt_warp_sum(s.sum[half], 3);
        if (lane_q == 0)
            sums[warp * MLA_HEADS + g + 8 * half] = sum;
    }
    __syncthreads();
    KVT_UNROLL
    for (int half = 0; half < 2; half++) {
        int h = g + 8 * half;
        if (h >= heads_of(args, piece.unit))
            continue;
        float sum = 0.0f;
        for (int w = 0; w < ATTENTION_WARPS; w++)
            sum += sums[w * MLA_HEADS + h];
        float one_over_sum = sum == 0.0f ? 0.0f : 1.0f / sum;
        float factor = s.v_scale * args.value_scale;
        struct target target = target_of(args, piece, h);
        KVT_UNROLL
        for (int nb = 0; nb < 16; nb++) {
            float low = s.acc[nb][2 * half] * factor, high = s.acc[nb][2 * half + 1] * factor;
            int dim = 128 * warp + 8 * nb + 2 * lane_q;
            if (!shape::FP8) {
                leave_pair(target, dim, low, high, one_over_sum);
                continue;
            }
            dim = 128 * warp + 32 * lane_q + nb; /* of columns 2 q and 2 q + 1 */
            if (target.partial != nullptr) {
                target.partial[dim] = low;
                target.partial[dim + 16] = high;
            } else {
                target.out[dim] = kvt_bf16_round(low * one_over_sum);
                target.out[dim + 16] = kvt_bf16_round(high * one_over_sum);
            }
        }
        if (warp == 0 && lane_q == 0)
            leave_sums(args, piece, h, s.max[half] - (shape::FP8 ? P_EXPONENT : 0.0f), sum);
    }
    __syncthreads(); /* before the next piece's Q and tiles */
}

/* ---- the kernel: budget mla_k 200 ---- */

template <int FORMAT>
KVT_DEVICE void mla_piece(const struct attention_args &args, const struct kvt_piece &piece)
{
    using shape = mla_shape<FORMAT>;
    struct mla s = {};
    struct extent extent = extent_of(args, piece);
    int32_t tiles = (extent.end - extent.first + ATTENTION_TILE - 1) / ATTENTION_TILE;
    int g = kvt_lane() / 4;
    for (int t = 0; t < shape::STAGES - 1; t++) {
        if (t < tiles)
            mla_copy<FORMAT>(args, extent, extent.first + ATTENTION_TILE * t,
                             kvt_shared() + t * shape::STAGE);
        kvt_copy_commit();
    }
    mla_load_q<FORMAT>(args, piece);
    __syncthreads();
    KVT_UNROLL
    for (int half = 0; half < 2; half++) {
        s.max[half] = -INFINITY;
        s.scale[half] = args.score_scale *
                        kvt_load<float>(kvt_shared() + shape::FACTOR_AT + 4 * (g + 8 * half));
    }
    s.v_scale = shape::SCALED ? 0.0f : 1.0f;
    for (int32_t t = 0; t < tiles; t++) {
        if (!KVT_FAULT(no_wait))
            kvt_copy_wait<shape::STAGES - 2>();
        __syncthreads();
        int32_t next = t + shape::STAGES - (KVT_FAULT(late_stage) ? 0 : 1);
        if (next < tiles)
            mla_copy<FORMAT>(args, extent, extent.first + ATTENTION_TILE * next,
                             kvt_shared() + next % shape::STAGES * shape::STAGE);
        kvt_copy_commit();
        const unsigned char *stage = kvt_shared() + t % shape::STAGES * shape::STAGE;
        float scores[2][4] = {}, alpha[2];
        mla_scores<FORMAT>(stage, scores);
        mla_softmax<FORMAT>(extent.end - extent.first - ATTENTION_TILE * t, s, scores, alpha);
        __syncthreads();
        mla_values<FORMAT>(stage, s, alpha);
    }
    kvt_copy_wait<0>();
    mla_leave<FORMAT>(args, piece, s);
}

template <int FORMAT>
__global__ void __launch_bounds__(ATTENTION_THREADS, 1) mla_k(struct attention_args args)
{
    for (int32_t i = args.worker_piece[blockIdx.x]; i < args.worker_piece[blockIdx.x + 1]; i++)
        mla_piece<FORMAT>(args, args.pieces[i]);
}

#endif
