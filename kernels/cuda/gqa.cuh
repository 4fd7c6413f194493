/*
 * gqa.cuh - decode attention of grouped queries over paged KV, BF16 and FP8
 *
 * A block takes pieces (row, kv head, pages), 64 tokens at a time, 16 for each of its four warps. A
 * warp is on its own until the piece ends: it copies its 16 tokens of K and V (cp.async, STAGES
 * deep), keeps max and sum of them, and accumulates its own output; only then the four are merged
 * through shared memory. So the loop has no barrier of the block.
 *
 *     S^T = K Q^T     16 tokens x 8 heads:  A = K as it lies, B = Q, in registers for the piece
 *     O^T = V^T P^T   16 dims x 8 heads:    A = V transposed, B = P
 *
 * so that a group of 8 heads fills N of m16n8k16. Heads lie in columns of both, a lane's max and
 * sums belong to the columns of its accumulators, and P^T gets from D's layout to B's by movmatrix.
 * NB blocks of 8 heads share the K and V that were loaded. BF16 holds 8 bits of p, which is too few
 * where few tokens matter: p goes in as two BF16, its rounding and what that leaves.
 *
 * FP8: bytes become FP16 (exact, one cvt for two) in registers. A lane takes 16 bytes of K in a
 * row: the order of the dims in a product does not matter as long as Q has the same, so lane q of a
 * quad has dims 16 q .. 16 q + 15 of each 64. Of V it takes HD / 8 bytes of four tokens, and pairs
 * tokens by byte permutes; the dims that a lane accumulates are then neighbours. Scales do not
 * touch elements: that of K multiplies the score, that of V multiplies p, as a ratio to the largest
 * so far (a power of two). Q is divided by a power of two, so that FP16 holds it.
 *
 * Behind the end of the piece nothing is read: those tokens are zeros in shared memory, their
 * scores -inf.
 */
#ifndef KVT_CUDA_GQA_CUH
#define KVT_CUDA_GQA_CUH

#include "kernels/cuda/attention.cuh"

/* Shared memory of a warp and stage: K, V, and for FP8 the scales of 16 tokens, K then V. Rows are
 * padded by 16 bytes so that eight of them, or every second of eight, lie in different banks. K of
 * FP8 has its 64-byte halves swapped in odd rows instead. */
template <bool FP8, int HD> struct gqa_shape {
    static constexpr int ROW = FP8 ? HD : 2 * HD; /* bytes of a token */
    static constexpr int K_STRIDE = FP8 ? ROW : ROW + 16;
    static constexpr int V_STRIDE = ROW + 16;
    static constexpr int V_AT = 16 * K_STRIDE;
    static constexpr int SCALES_AT = V_AT + 16 * V_STRIDE;
    static constexpr int STAGE = SCALES_AT + (FP8 ? 128 : 0);
    static constexpr int STAGES = FP8 ? 4 : 3;
    static constexpr int SHARED = STAGES * STAGE * ATTENTION_WARPS;
};

template <bool FP8, int HD, int NB> struct gqa {
    uint32_t q[NB][HD / 16][2];
    float acc[NB][HD / 16][4];
    float max[NB][2],
        sum[NB][2];     /* of heads 2 q, 2 q + 1 of each block; sum of the lane's tokens */
    float scale[NB][2]; /* of scores: score_scale and what Q was divided by */
    float v_scale;      /* by which acc is to be multiplied */
};

/* ---- Q ---- */

/* Dims of k step s: bf16 2 q, 2 q + 1 and 8 more; FP8 four in a row. */
template <bool FP8> KVT_DEVICE int q_dim(int step, int lane_q, int half)
{
    return FP8 ? step / 4 * 64 + 16 * lane_q + step % 4 * 4 + 2 * half
               : 16 * step + 2 * lane_q + 8 * half;
}

template <bool FP8, int HD, int NB>
KVT_DEVICE void gqa_load_q(const struct attention_args &args, const struct kvt_piece &piece,
                           int first_head, struct gqa<FP8, HD, NB> &s)
{
    int g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    KVT_UNROLL
    for (int nb = 0; nb < NB; nb++) {
        int h = first_head + 8 * nb + g;
        bool here = h < args.unit_heads;
        const kvt_bf16 *q =
            args.q + ((int64_t)piece.row * args.heads + piece.unit * args.unit_heads + h) * HD;
        float amax = 0.0f;
        KVT_UNROLL
        for (int step = 0; step < HD / 16; step++)
            KVT_UNROLL
        for (int half = 0; half < 2; half++) {
            uint32_t pair = here ? kvt_load<uint32_t>(q + q_dim<FP8>(step, lane_q, half)) : 0;
            s.q[nb][step][half] = pair;
            amax = fmaxf(amax, fmaxf(fabsf(kvt_bf16_low(pair)), fabsf(kvt_bf16_high(pair))));
        }
        float divisor = 1.0f;
        if (FP8) {
            /* The power of two at or below the largest, so that it becomes 1 to 2. */
            amax = kvt_warp_max(amax, 3);
            uint32_t exponent = __float_as_uint(amax) & 0x7f800000u;
            exponent = max(exponent, 2u << 23);
            divisor = __uint_as_float(min(exponent, 252u << 23));
            float factor = kvt_reciprocal_of_power(divisor);
            KVT_UNROLL
            for (int step = 0; step < HD / 16; step++)
                KVT_UNROLL
            for (int half = 0; half < 2; half++) {
                uint32_t pair = s.q[nb][step][half];
                s.q[nb][step][half] =
                    kvt_f16x2(kvt_bf16_low(pair) * factor, kvt_bf16_high(pair) * factor);
            }
        }
        KVT_UNROLL
        for (int i = 0; i < 2; i++)
            s.scale[nb][i] =
                args.score_scale * __shfl_sync(KVT_WARP, divisor, 4 * (2 * lane_q + i));
    }
}

/* ---- copies ---- */

template <bool FP8, int HD>
KVT_DEVICE void gqa_copy(const struct attention_args &args, const struct extent &extent, int unit,
                         int32_t first, unsigned char *stage)
{
    using shape = gqa_shape<FP8, HD>;
    const int chunks = shape::ROW / 16; /* of a token */
    int lane = kvt_lane();
    int32_t my_page = page_of(args, extent, first + lane % 16);
    KVT_UNROLL
    for (int i = 0; i < chunks / 2; i++) {
        int token = (32 * i + lane) / chunks, part = (32 * i + lane) % chunks;
        int32_t page = __shfl_sync(KVT_WARP, my_page, token);
        uint32_t valid = first + token < extent.end ? 16 : 0;
        int64_t row = ((int64_t)unit << args.page_shift) + within_page(args, first + token);
        const uint8_t *from =
            args.pool + page * args.page_bytes + row * args.token_bytes + 16 * part;
        int k_part = FP8 && HD >= 128 ? part ^ (token & 1) << 2 : part;
        kvt_copy_async16(stage + token * shape::K_STRIDE + 16 * k_part, from, valid);
        kvt_copy_async16(stage + shape::V_AT + token * shape::V_STRIDE + 16 * part,
                         from + args.value_offset, valid);
    }
    if (FP8) {
        int32_t token = first + lane % 16;
        int64_t row = ((int64_t)unit << args.page_shift) + within_page(args, token);
        int64_t at = lane < 16 ? args.key_scale_offset : args.value_scale_offset;
        kvt_copy_async4(stage + shape::SCALES_AT + 4 * lane,
                        args.pool + my_page * args.page_bytes + at + 4 * row,
                        token < extent.end ? 4 : 0);
    }
}

/* ---- scores ---- */

template <int HD, int NB>
KVT_DEVICE void gqa_scores(const unsigned char *stage, const struct gqa<false, HD, NB> &s,
                           float scores[NB][4])
{
    using shape = gqa_shape<false, HD>;
    int lane = kvt_lane(), token = lane % 8 + lane / 8 % 2 * 8;
    const unsigned char *row = stage + token * shape::K_STRIDE + lane / 16 * 16;
    KVT_UNROLL
    for (int step = 0; step < HD / 16; step++) {
        uint32_t a[4];
        kvt_ldmatrix<false>(a, row + 32 * step);
        KVT_UNROLL
        for (int nb = 0; nb < NB; nb++)
            kvt_mma_bf16(scores[nb], a, s.q[nb][step]);
    }
}

template <int HD, int NB>
KVT_DEVICE void gqa_scores(const unsigned char *stage, const struct gqa<true, HD, NB> &s,
                           float scores[NB][4])
{
    using shape = gqa_shape<true, HD>;
    int g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    KVT_UNROLL
    for (int block = 0; block < HD / 64; block++) {
        int part = 4 * block + lane_q;
        if (HD >= 128)
            part ^= (g & 1) << 2; /* token g + 8 is as odd as g */
        uint4 low = kvt_load<uint4>(stage + g * shape::K_STRIDE + 16 * part);
        uint4 high = kvt_load<uint4>(stage + (g + 8) * shape::K_STRIDE + 16 * part);
        const uint32_t low_word[4] = {low.x, low.y, low.z, low.w};
        const uint32_t high_word[4] = {high.x, high.y, high.z, high.w};
        KVT_UNROLL
        for (int i = 0; i < 4; i++) {
            uint32_t a[4] = {kvt_f16x2_from_e4m3x2(low_word[i]),
                             kvt_f16x2_from_e4m3x2(high_word[i]),
                             kvt_f16x2_from_e4m3x2(low_word[i] >> 16),
                             kvt_f16x2_from_e4m3x2(high_word[i] >> 16)};
            KVT_UNROLL
            for (int nb = 0; nb < NB; nb++)
                kvt_mma_f16(scores[nb], a, s.q[nb][4 * block + i]);
        }
    }
}

/* ---- softmax ---- */

/* The ratio of V's scales to the largest so far, which becomes s.v_scale; returns what acc is to be
 * multiplied by for that. */
template <bool FP8, int HD, int NB>
KVT_DEVICE float gqa_value_scales(const unsigned char *stage, struct gqa<FP8, HD, NB> &s,
                                  float ratio[2])
{
    const unsigned char *scales = stage + gqa_shape<FP8, HD>::SCALES_AT;
    int g = kvt_lane() / 4;
    float low = kvt_load<float>(scales + 4 * (16 + g));
    float high = kvt_load<float>(scales + 4 * (24 + g));
    float largest = fmaxf(s.v_scale, kvt_warp_max(fmaxf(low, high), 28));
    float factor = largest > 0.0f ? kvt_reciprocal_of_power(largest) : 0.0f;
    float rescale = s.v_scale * factor;
    s.v_scale = largest;
    ratio[0] = low * factor;
    ratio[1] = high * factor;
    return rescale;
}

/* Scores become p, packed as B of P^T; sums and accumulators move to the new maximum. */
template <bool FP8, int HD, int NB>
KVT_DEVICE void gqa_softmax(const unsigned char *stage, int32_t left, struct gqa<FP8, HD, NB> &s,
                            float scores[NB][4], uint32_t p[NB][2], uint32_t p_rest[NB][2])
{
    int g = kvt_lane() / 4;
    float k_scale[2] = {1.0f, 1.0f}, ratio[2] = {1.0f, 1.0f}, rescale = 1.0f;
    if (FP8) {
        const unsigned char *scales = stage + gqa_shape<FP8, HD>::SCALES_AT;
        k_scale[0] = kvt_load<float>(scales + 4 * g);
        k_scale[1] = kvt_load<float>(scales + 4 * (g + 8));
        rescale = gqa_value_scales(stage, s, ratio);
    }
    KVT_UNROLL
    for (int nb = 0; nb < NB; nb++) {
        float alpha[2], value[4];
        KVT_UNROLL
        for (int i = 0; i < 2; i++) {
            float low = g < left ? scores[nb][i] * k_scale[0] * s.scale[nb][i] : -INFINITY;
            float high = g + 8 < left ? scores[nb][2 + i] * k_scale[1] * s.scale[nb][i] : -INFINITY;
            float largest = fmaxf(s.max[nb][i], kvt_warp_max(fmaxf(low, high), 28));
            alpha[i] = weight_of(s.max[nb][i], largest);
            s.max[nb][i] = largest;
            float shift = largest == -INFINITY ? 0.0f : largest - (FP8 ? P_EXPONENT : 0.0f);
            value[i] = kvt_exp2(low - shift);
            value[2 + i] = kvt_exp2(high - shift);
            s.sum[nb][i] = s.sum[nb][i] * alpha[i] + value[i] + value[2 + i];
            alpha[i] *= rescale;
        }
        KVT_UNROLL
        for (int mb = 0; mb < HD / 16; mb++)
            KVT_UNROLL
        for (int i = 0; i < 4; i++)
            s.acc[nb][mb][i] *= alpha[i % 2];
        KVT_UNROLL
        for (int i = 0; i < 2; i++) {
            float low = value[2 * i], high = value[2 * i + 1];
            if (FP8) {
                p[nb][i] = kvt_movmatrix(kvt_f16x2(low * ratio[i], high * ratio[i]));
                continue;
            }
            uint32_t pair = kvt_bf16x2(low, high);
            p[nb][i] = kvt_movmatrix(pair);
            p_rest[nb][i] =
                kvt_movmatrix(kvt_bf16x2(low - kvt_bf16_low(pair), high - kvt_bf16_high(pair)));
        }
    }
}

/* ---- values ---- */

template <int HD, int NB>
KVT_DEVICE void gqa_values(const unsigned char *stage, struct gqa<false, HD, NB> &s,
                           const uint32_t p[NB][2], const uint32_t p_rest[NB][2])
{
    using shape = gqa_shape<false, HD>;
    int lane = kvt_lane(), token = lane % 8 + lane / 16 * 8;
    const unsigned char *row = stage + shape::V_AT + token * shape::V_STRIDE + lane / 8 % 2 * 16;
    KVT_UNROLL
    for (int mb = 0; mb < HD / 16; mb++) {
        uint32_t a[4];
        kvt_ldmatrix<true>(a, row + 32 * mb);
        KVT_UNROLL
        for (int nb = 0; nb < NB; nb++)
            kvt_mma_bf16(s.acc[nb][mb], a, p[nb]);
        KVT_UNROLL
        for (int nb = 0; nb < NB; nb++)
            kvt_mma_bf16(s.acc[nb][mb], a, p_rest[nb]);
    }
}

/* Word w of four tokens is four dims, two rows of A each: dims 4 w and 4 w + 1, then the others. */
template <int HD, int NB>
KVT_DEVICE void gqa_values(const unsigned char *stage, struct gqa<true, HD, NB> &s,
                           const uint32_t p[NB][2], const uint32_t[NB][2])
{
    using shape = gqa_shape<true, HD>;
    int g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    const unsigned char *row = stage + shape::V_AT + 2 * lane_q * shape::V_STRIDE + HD / 8 * g;
    KVT_UNROLL
    for (int w = 0; w < HD / 32; w += 2) { /* eight bytes at a time */
        uint2 word[4];
        KVT_UNROLL
        for (int t = 0; t < 4; t++)
            word[t] = kvt_load<uint2>(row + (t % 2 + t / 2 * 8) * shape::V_STRIDE + 4 * w);
        KVT_UNROLL
        for (int i = 0; i < 4; i++) {
            uint32_t selector = i % 2 ? 0x7362u : 0x5140u;
            uint32_t early =
                __byte_perm(i < 2 ? word[0].x : word[0].y, i < 2 ? word[1].x : word[1].y, selector);
            uint32_t late =
                __byte_perm(i < 2 ? word[2].x : word[2].y, i < 2 ? word[3].x : word[3].y, selector);
            uint32_t a[4] = {kvt_f16x2_from_e4m3x2(early), kvt_f16x2_from_e4m3x2(early >> 16),
                             kvt_f16x2_from_e4m3x2(late), kvt_f16x2_from_e4m3x2(late >> 16)};
            KVT_UNROLL
            for (int nb = 0; nb < NB; nb++)
                kvt_mma_f16(s.acc[nb][2 * w + i], a, p[nb]);
        }
    }
}

/* Dim of row g (i 0) and g + 8 (i 1) of accumulator block mb. */
template <bool FP8, int HD> KVT_DEVICE int gqa_dim(int mb, int g, int i)
{
    return FP8 ? HD / 8 * g + 2 * mb + i : 16 * mb + g + 8 * i;
}

/* ---- the end of a piece ---- */

/* The four warps' results through shared memory: [warp][head][HD] floats, then max and sum. */
template <bool FP8, int HD, int NB>
KVT_DEVICE void gqa_leave(const struct attention_args &args, const struct kvt_piece &piece,
                          int first_head, struct gqa<FP8, HD, NB> &s)
{
    float *values = reinterpret_cast<float *>(kvt_shared());
    float *maxima = values + ATTENTION_WARPS * 8 * NB * HD;
    float *sums = maxima + ATTENTION_WARPS * 8 * NB;
    int warp = (int)threadIdx.x / 32, g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    __syncthreads(); /* all warps are through with their stages */
    KVT_UNROLL
    for (int nb = 0; nb < NB; nb++)
        KVT_UNROLL
    for (int i = 0; i < 2; i++) {
        int head = warp * 8 * NB + 8 * nb + 2 * lane_q + i;
        KVT_UNROLL
        for (int mb = 0; mb < HD / 16; mb++)
            KVT_UNROLL
        for (int j = 0; j < 2; j++)
            values[head * HD + gqa_dim<FP8, HD>(mb, g, j)] = s.acc[nb][mb][2 * j + i] * s.v_scale;
        float sum = kvt_warp_sum(s.sum[nb][i], 28);
        if (g == 0) {
            maxima[head] = s.max[nb][i];
            sums[head] = sum;
        }
    }
    if (!KVT_FAULT(no_barrier))
        __syncthreads();
    int heads = min(heads_of(args, piece.unit) - first_head, 8 * NB);
    for (int i = (int)threadIdx.x; i < heads * (HD / 2); i += ATTENTION_THREADS) {
        int head = i / (HD / 2), dim = i % (HD / 2) * 2;
        float max = -INFINITY, sum = 0.0f, low = 0.0f, high = 0.0f;
        for (int w = 0; w < ATTENTION_WARPS; w++)
            max = fmaxf(max, maxima[w * 8 * NB + head]);
        for (int w = 0; w < ATTENTION_WARPS; w++) {
            int at = w * 8 * NB + head;
            float weight = weight_of(maxima[at], max);
            sum += sums[at] * weight;
            low += values[at * HD + dim] * weight;
            high += values[at * HD + dim + 1] * weight;
        }
        struct target target = target_of(args, piece, first_head + head);
        leave_pair(target, dim, low, high, sum == 0.0f ? 0.0f : 1.0f / sum);
        if (dim == 0)
            leave_sums(args, piece, first_head + head, max - (FP8 ? P_EXPONENT : 0.0f), sum);
    }
    __syncthreads(); /* before the next piece is copied over it */
}

/* ---- the kernel: budget gqa_k 176 ---- */

template <bool FP8, int HD, int NB>
KVT_DEVICE void gqa_piece(const struct attention_args &args, const struct kvt_piece &piece,
                          int first_head)
{
    using shape = gqa_shape<FP8, HD>;
    struct gqa<FP8, HD, NB> s = {
    };
    struct extent extent = extent_of(args, piece);
    int warp = (int)threadIdx.x / 32;
    unsigned char *stages = kvt_shared() + warp * shape::STAGES * shape::STAGE;
    int32_t first = extent.first + 16 * warp;
    int32_t tiles = (extent.end - extent.first + ATTENTION_TILE - 1) / ATTENTION_TILE;
    KVT_UNROLL
    for (int nb = 0; nb < NB; nb++)
        s.max[nb][0] = s.max[nb][1] = -INFINITY;
    s.v_scale = FP8 ? 0.0f : 1.0f;
    for (int t = 0; t < shape::STAGES - 1; t++) {
        if (t < tiles)
            gqa_copy<FP8, HD>(args, extent, piece.unit, first + ATTENTION_TILE * t,
                              stages + t * shape::STAGE);
        kvt_copy_commit();
    }
    gqa_load_q(args, piece, first_head, s);
    for (int32_t t = 0; t < tiles; t++) {
        if (!KVT_FAULT(no_wait))
            kvt_copy_wait<shape::STAGES - 2>();
        __syncwarp(); /* also: all lanes are through with the stage that is filled next */
        int32_t next = t + shape::STAGES - (KVT_FAULT(late_stage) ? 0 : 1);
        if (next < tiles)
            gqa_copy<FP8, HD>(args, extent, piece.unit, first + ATTENTION_TILE * next,
                              stages + next % shape::STAGES * shape::STAGE);
        kvt_copy_commit();
        int32_t left = extent.end - first - ATTENTION_TILE * t;
        if (left <= 0)
            continue;
        unsigned char *stage = stages + t % shape::STAGES * shape::STAGE;
        float scores[NB][4] = {};
        uint32_t p[NB][2], p_rest[NB][2];
        gqa_scores(stage, s, scores);
        gqa_softmax(stage, left, s, scores, p, p_rest);
        gqa_values(stage, s, p, p_rest);
    }
    kvt_copy_wait<0>();
    gqa_leave(args, piece, first_head, s);
}

template <bool FP8, int HD, int NB>
__global__ void __launch_bounds__(ATTENTION_THREADS) gqa_k(struct attention_args args)
{
    for (int32_t i = args.worker_piece[blockIdx.x]; i < args.worker_piece[blockIdx.x + 1]; i++) {
        struct kvt_piece piece = args.pieces[i];
        for (int head = 0; head < args.unit_heads; head += 8 * NB)
            gqa_piece<FP8, HD, NB>(args, piece, head);
    }
}

#endif
