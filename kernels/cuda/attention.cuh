/*
 * attention.cuh - what the attention kernels share: their parameter, the place of a token, and how
 * a block leaves a piece
 *
 * Scores are kept in units of ln 2 (scale * log2 e is multiplied in), so that p = 2^(s - max). FP8
 * kernels multiply p by 2^12 before it is rounded to FP16, so that small p stay out of FP16's
 * subnormals; both sums have the factor, and the max that is stored is less by 12.
 */
#ifndef KVT_CUDA_ATTENTION_CUH
#define KVT_CUDA_ATTENTION_CUH

#include "kernels/cuda/launch.cuh"

#define ATTENTION_TILE    64 /* tokens that a block takes at once */
#define ATTENTION_WARPS   4
#define ATTENTION_THREADS (32 * ATTENTION_WARPS)
#define P_EXPONENT        12.0f
#define LN2               0.69314718055994531f
#define LOG2E             1.44269504088896341f

struct attention_args {
    const uint8_t *pool;
    const int32_t *context, *row_pages, *page_table;
    float score_scale; /* scale * log2 e, of MLA_PLAIN also times plain_scale */
    float value_scale; /* plain_scale, else 1 */
    const kvt_bf16 *q;
    kvt_bf16 *out;
    float *lse;
    float *workspace; /* a slot: out [unit_heads][value_dim], max [unit_heads], sum [unit_heads] */
    int64_t slot_floats;
    int32_t heads, units, unit_heads, page_shift, head_dim, value_dim;
    int64_t page_bytes, token_bytes, value_offset, key_scale_offset, value_scale_offset;
    const int32_t *worker_piece;
    const struct kvt_piece *pieces;
    const struct kvt_merge *merges;
};

/* A piece in tokens. */
struct extent {
    int32_t first, end; /* of the row */
    const int32_t *pages;
};

KVT_DEVICE struct extent extent_of(const struct attention_args &args, const struct kvt_piece &piece)
{
    struct extent extent;
    extent.first = piece.first_page << args.page_shift;
    extent.end = min(piece.last_page << args.page_shift, args.context[piece.row]);
    extent.pages = args.page_table + args.row_pages[piece.row];
    return extent;
}

/* The page that holds a token of the piece; 0 behind its end, where nothing is read. */
KVT_DEVICE int32_t page_of(const struct attention_args &args, const struct extent &extent,
                           int32_t token)
{
    bool here = token < extent.end || KVT_FAULT(behind_end);
    return here ? extent.pages[token >> args.page_shift] : 0;
}

KVT_DEVICE int32_t within_page(const struct attention_args &args, int32_t token)
{
    return token & ((1 << args.page_shift) - 1);
}

/* exp2 of a difference of maxima that may both be -inf. */
KVT_DEVICE float weight_of(float max, float max_of_all)
{
    return max == -INFINITY ? 0.0f : kvt_exp2(max - max_of_all);
}

/* max and sum of a head as natural log of the sum of exponentials. */
KVT_DEVICE float lse_of(float max, float sum)
{
    return sum > 0.0f || sum != sum ? (max + log2f(sum)) * LN2 : -INFINITY;
}

/* Where head h of a unit leaves its results: in out, or in a slot of the workspace. */
struct target {
    kvt_bf16 *out;
    float *partial;
};

KVT_DEVICE struct target target_of(const struct attention_args &args, const struct kvt_piece &piece,
                                   int h)
{
    int64_t head = (int64_t)piece.row * args.heads + piece.unit * args.unit_heads + h;
    struct target target = {args.out + head * args.value_dim, nullptr};
    if (piece.slot >= 0)
        target.partial = args.workspace + piece.slot * args.slot_floats + h * args.value_dim;
    return target;
}

/* One thread for each head of the unit. */
KVT_DEVICE void leave_sums(const struct attention_args &args, const struct kvt_piece &piece, int h,
                           float max, float sum)
{
    if (piece.slot >= 0) {
        float *slot = args.workspace + piece.slot * args.slot_floats +
                      (int64_t)args.unit_heads * args.value_dim;
        slot[h] = max;
        slot[args.unit_heads + h] = sum;
    } else if (args.lse != nullptr) {
        args.lse[(int64_t)piece.row * args.heads + piece.unit * args.unit_heads + h] =
            lse_of(max, sum);
    }
}

/* Heads that the unit really has. */
KVT_DEVICE int heads_of(const struct attention_args &args, int32_t unit)
{
    return min(args.unit_heads, args.heads - unit * args.unit_heads);
}

/* Two elements next to each other. */
KVT_DEVICE void leave_pair(const struct target &target, int dim, float low, float high,
                           float one_over_sum)
{
    if (target.partial != nullptr)
        kvt_store<uint2>(target.partial + dim, uint2{__float_as_uint(low), __float_as_uint(high)});
    else
        kvt_store<uint32_t>(target.out + dim, kvt_bf16x2(low * one_over_sum, high * one_over_sum));
}

#endif
