/*
 * int4.cu - GEMM with 4-bit weights, dense and for routed experts: weights straight from memory
 * into tensor-core fragments
 *
 * A block has 16 RB rows of w (outputs) and 8 NT tokens; its eight warps divide k, 128 at a time in
 * turn, and add up through shared memory in a fixed order: out does not depend on timing, and there
 * is no workspace. Weights are A of m16n8k16, so that up to 8 tokens waste nothing.
 *
 * Packed order (n and k padded to 16 and 64 with weights of zero): for each 16 rows and 64 of k,
 * each lane has 16 bytes, one load; a word of them is the lane's whole fragment for 16 of k,
 * nibbles in the order that makes (w >> 4 i) & 0x000f000f the i-th register. Within 32 of k lane q
 * of a quad takes k = 8 q .. 8 q + 7, so that of the activations it needs 16 bytes in a row. Behind
 * the nibbles the scales, for each 16 rows and group eight words of rows g and g + 8.
 *
 * Weights are whole numbers -8..7 in BF16; the scale multiplies a group's sum in FP32. Counted, a
 * word (8 weights) is 4 lop3, 3 shifts, 4 fma and an mma: 1.5 instructions a weight, against 3.5
 * and more with vector FMAs, so tensor cores serve one token too, and there is no GEMV of another
 * kind.
 *
 * Every weight is read once for 8 NT tokens, past L1 (kvt_load_once), the next 128 of k while these
 * are multiplied; activations come from L1 and L2.
 *
 *     budget int4_k 248
 *     budget dequantise_k 40
 */
#include "kernels/cuda/launch.cuh"

#define INT4_WARPS 8
#define INT4_STEP  128 /* of k, a warp's turn */

struct int4_args {
    int32_t m, n, k;
    int32_t k_blocks;         /* of 64 */
    int32_t groups;           /* that a row has in the packed order */
    int64_t packed_bytes;     /* of an expert */
    const int32_t *row_begin; /* or NULL: dense, rows 0..m */
    const kvt_bf16 *a;
    const uint8_t *w;
    kvt_bf16 *out;
};

/* ---- the packed order ---- */

static int32_t padded_groups(int32_t k, int32_t group)
{
    return group == 32 ? (k + 63) / 64 * 2 : k / 128;
}

size_t kvt_cuda_int4_packed_bytes(int32_t n, int32_t k, int32_t group)
{
    size_t row_blocks = ((size_t)n + 15) / 16, k_blocks = ((size_t)k + 63) / 64;
    return row_blocks * (k_blocks * 512 + (size_t)padded_groups(k, group) * 32);
}

/* Row and k of nibble i of word j of a lane, within 16 x 64. */
static void nibble_place(int lane, int j, int i, int *row, int *k)
{
    *row = lane / 4 + 8 * (i % 2);
    *k = j / 2 * 32 + lane % 4 * 8 + j % 2 * 4 + i % 4 / 2 * 2 + i / 4;
}

static uint32_t plain_nibble(const struct kvt_int4_plain *plain, int64_t row, int64_t k)
{
    if (row >= plain->n || k >= plain->k)
        return 8;
    return plain->nibbles[row * (plain->k / 8) + k / 8] >> 4 * (k % 8) & 15;
}

/* Runs over all words of the packed order; either way. */
static void each_word(const struct kvt_int4_plain *plain, uint32_t *words, bool unpack)
{
    int64_t row_blocks = (plain->n + 15) / 16, k_blocks = (plain->k + 63) / 64;
    for (int64_t at = 0; at < row_blocks * k_blocks * 128; at++) {
        int64_t row_block = at / 128 / k_blocks, k_block = at / 128 % k_blocks;
        int lane = (int)(at % 128 / 4), j = (int)(at % 4);
        uint32_t word = 0;
        for (int i = 0; i < 8; i++) {
            int row_in, k_in;
            nibble_place(lane, j, i, &row_in, &k_in);
            int64_t row = 16 * row_block + row_in, k = 64 * k_block + k_in;
            if (!unpack)
                word |= plain_nibble(plain, row, k) << 4 * i;
            else if (row < plain->n && k < plain->k)
                plain->nibbles[row * (plain->k / 8) + k / 8] |= (words[at] >> 4 * i & 15)
                                                                << 4 * (k % 8);
        }
        if (!unpack)
            words[at] = word;
    }
}

static uint32_t *packed_scales(const struct kvt_int4_plain *plain, uint32_t *packed)
{
    int64_t row_blocks = (plain->n + 15) / 16, k_blocks = (plain->k + 63) / 64;
    return packed + row_blocks * k_blocks * 128;
}

void kvt_cuda_int4_pack(const struct kvt_int4_plain *plain, void *packed)
{
    auto *words = static_cast<uint32_t *>(packed);
    each_word(plain, words, false);
    uint32_t *scales = packed_scales(plain, words);
    int32_t groups = padded_groups(plain->k, plain->group), real = plain->k / plain->group;
    for (int32_t row = 0; row < (plain->n + 15) / 16 * 16; row++)
        for (int32_t g = 0; g < groups; g++) {
            uint32_t *word = scales + ((int64_t)row / 16 * groups + g) * 8 + row % 8;
            uint32_t scale = 0;
            if (row < plain->n && g < real)
                scale = plain->scales[(int64_t)row * real + g];
            *word = row % 16 < 8 ? scale : *word | scale << 16;
        }
}

void kvt_cuda_int4_unpack(const void *packed, const struct kvt_int4_plain *plain)
{
    auto *words = static_cast<uint32_t *>(const_cast<void *>(packed)); /* only read here */
    memset(plain->nibbles, 0, (size_t)plain->n * (size_t)(plain->k / 8) * 4);
    each_word(plain, words, true);
    const uint32_t *scales = packed_scales(plain, words);
    int32_t groups = padded_groups(plain->k, plain->group), real = plain->k / plain->group;
    for (int32_t row = 0; row < plain->n; row++)
        for (int32_t g = 0; g < real; g++) {
            uint32_t word = scales[((int64_t)row / 16 * groups + g) * 8 + row % 8];
            plain->scales[(int64_t)row * real + g] =
                (kvt_bf16)(row % 16 < 8 ? word & 0xffff : word >> 16);
        }
}

/* ---- the kernel ---- */

/* 128 of k for 16 RB rows, as a lane has them. */
template <int GROUP, int RB> struct weights {
    uint4 nibbles[RB][2];
    uint32_t scales[RB][INT4_STEP / GROUP];
};

template <int GROUP, int RB>
KVT_DEVICE void load_weights(const struct int4_args &args, const uint8_t *w, int row_block,
                             int step, struct weights<GROUP, RB> &to)
{
    int row_blocks = (args.n + 15) / 16;
    const uint8_t *scales = w + (int64_t)row_blocks * args.k_blocks * 512;
    KVT_UNROLL
    for (int rb = 0; rb < RB; rb++) {
        bool row_here = row_block + rb < row_blocks;
        KVT_UNROLL
        for (int b = 0; b < 2; b++) {
            int k_block = 2 * step + b;
            bool here = row_here && k_block < args.k_blocks;
            const uint8_t *from =
                w + ((int64_t)(row_block + rb) * args.k_blocks + k_block) * 512 + 16 * kvt_lane();
            to.nibbles[rb][b] = here ? kvt_load_once(from)
                                     : uint4{0x88888888u, 0x88888888u, 0x88888888u, 0x88888888u};
        }
        KVT_UNROLL
        for (int i = 0; i < INT4_STEP / GROUP; i++) {
            int group = step * (INT4_STEP / GROUP) + i;
            to.scales[rb][i] =
                row_here && group < args.groups
                    ? kvt_load<uint32_t>(
                          scales +
                          (((int64_t)(row_block + rb) * args.groups + group) * 8 + kvt_lane() / 4) *
                              4)
                    : 0;
        }
    }
}

/* acc += part * scale, part = 0. */
KVT_DEVICE void fold(float acc[4], float part[4], uint32_t scales)
{
    acc[0] += part[0] * kvt_bf16_low(scales);
    acc[1] += part[1] * kvt_bf16_low(scales);
    acc[2] += part[2] * kvt_bf16_high(scales);
    acc[3] += part[3] * kvt_bf16_high(scales);
    part[0] = part[1] = part[2] = part[3] = 0.0f;
}

/* 32 of k: activations of the lane, then two mma steps for each 16 rows. */
template <int GROUP, int RB, int NT>
KVT_DEVICE void multiply32(const struct int4_args &args, const struct weights<GROUP, RB> &w,
                           int32_t first_row, int32_t end_row, int k, int b, int h,
                           float part[RB][NT][4])
{
    int g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    uint4 x[NT];
    KVT_UNROLL
    for (int nt = 0; nt < NT; nt++) {
        int32_t row = first_row + 8 * nt + g;
        bool here = row < end_row && k < args.k;
        x[nt] = here ? kvt_load<uint4>(args.a + (int64_t)row * args.k + k + 8 * lane_q)
                     : uint4{0, 0, 0, 0};
    }
    KVT_UNROLL
    for (int rb = 0; rb < RB; rb++)
        KVT_UNROLL
    for (int s = 0; s < 2; s++) {
        uint4 four = w.nibbles[rb][b];
        uint32_t word = h == 0 ? (s == 0 ? four.x : four.y) : (s == 0 ? four.z : four.w);
        uint32_t a[4];
        KVT_UNROLL
        for (int i = 0; i < 4; i++)
            a[i] = kvt_bf16x2_from_nibbles(word, i);
        KVT_UNROLL
        for (int nt = 0; nt < NT; nt++) {
            uint32_t activations[2] = {s == 0 ? x[nt].x : x[nt].z, s == 0 ? x[nt].y : x[nt].w};
            kvt_mma_bf16(part[rb][nt], a, activations);
        }
    }
}

template <int GROUP, int RB, int NT>
KVT_DEVICE void multiply(const struct int4_args &args, const struct weights<GROUP, RB> &w,
                         int32_t first_row, int32_t end_row, int step, float acc[RB][NT][4])
{
    float part[RB][NT][4] = {};
    KVT_UNROLL
    for (int i = 0; i < 4; i++) {
        multiply32<GROUP, RB, NT>(args, w, first_row, end_row, INT4_STEP * step + 32 * i, i / 2,
                                  i % 2, part);
        if (GROUP == INT4_STEP && i < 3)
            continue;
        KVT_UNROLL
        for (int rb = 0; rb < RB; rb++)
            KVT_UNROLL
        for (int nt = 0; nt < NT; nt++)
            fold(acc[rb][nt], part[rb][nt], w.scales[rb][GROUP == INT4_STEP ? 0 : i]);
    }
}

/* The warps' sums, in the order of the warps. */
template <int RB, int NT>
KVT_DEVICE void leave(const struct int4_args &args, int row_block, int32_t first_row,
                      int32_t end_row, const float acc[RB][NT][4])
{
    const int rows = 16 * RB, tokens = 8 * NT;
    float *sums = reinterpret_cast<float *>(kvt_shared()); /* [warp][token][row] */
    int warp = (int)threadIdx.x / 32, g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    KVT_UNROLL
    for (int rb = 0; rb < RB; rb++)
        KVT_UNROLL
    for (int nt = 0; nt < NT; nt++)
        KVT_UNROLL
    for (int i = 0; i < 4; i++)
        sums[(warp * tokens + 8 * nt + 2 * lane_q + i % 2) * rows + 16 * rb + g + 8 * (i / 2)] =
            acc[rb][nt][i];
    if (!KVT_FAULT(no_barrier))
        __syncthreads();
    for (int i = (int)threadIdx.x; i < rows * tokens; i += 32 * INT4_WARPS) {
        int32_t row = first_row + i / rows, column = 16 * row_block + i % rows;
        float sum = 0.0f;
        for (int w = 0; w < INT4_WARPS; w++)
            sum += sums[w * rows * tokens + i];
        if (row < end_row && column < args.n)
            args.out[(int64_t)row * args.n + column] = kvt_bf16_round(sum);
    }
    __syncthreads();
}

/* Block (x, y): rows 16 RB x .. of the weights of expert y. */
template <int GROUP, int RB, int NT>
__global__ void __launch_bounds__(32 * INT4_WARPS, NT == 1 ? 2 : 1) int4_k(struct int4_args args)
{
    int expert = (int)blockIdx.y, row_block = (int)blockIdx.x * RB, warp = (int)threadIdx.x / 32;
    int32_t begin = args.row_begin == nullptr ? 0 : args.row_begin[expert];
    int32_t end = args.row_begin == nullptr ? args.m : args.row_begin[expert + 1];
    const uint8_t *w = args.w + expert * args.packed_bytes;
    int steps = (args.k + INT4_STEP - 1) / INT4_STEP;
    for (int32_t first = begin; first < end; first += 8 * NT) {
        float acc[RB][NT][4] = {};
        struct weights<GROUP, RB> now, next;
        if (warp < steps)
            load_weights<GROUP, RB>(args, w, row_block, warp, next);
        for (int step = warp; step < steps; step += INT4_WARPS) {
            now = next;
            if (step + INT4_WARPS < steps)
                load_weights<GROUP, RB>(args, w, row_block, step + INT4_WARPS, next);
            multiply<GROUP, RB, NT>(args, now, first, end, step, acc);
        }
        leave<RB, NT>(args, row_block, first, end, acc);
    }
}

/* ---- back to BF16 ---- */

struct dequantise_args {
    int32_t n, k, group;
    int32_t k_blocks, groups;
    const uint8_t *w;
    kvt_bf16 *out;
};

/* A warp takes 16 rows and 64 of k: a lane its 16 bytes, four times 2 x 4 weights. */
__global__ void __launch_bounds__(32 * INT4_WARPS) dequantise_k(struct dequantise_args args)
{
    int row_blocks = (args.n + 15) / 16, g = kvt_lane() / 4, lane_q = kvt_lane() % 4;
    int64_t block = (int64_t)blockIdx.x * INT4_WARPS + threadIdx.x / 32;
    if (block >= (int64_t)row_blocks * args.k_blocks)
        return;
    int row_block = (int)(block / args.k_blocks), k_block = (int)(block % args.k_blocks);
    uint4 four = kvt_load_once(args.w + block * 512 + 16 * kvt_lane());
    const uint8_t *scales = args.w + (int64_t)row_blocks * args.k_blocks * 512;
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
    KVT_UNROLL
    for (int j = 0; j < 4; j++) {
        int k = 64 * k_block + j / 2 * 32 + lane_q * 8 + j % 2 * 4;
        if (k >= args.k)
            continue;
        int64_t group = k / args.group;
        uint32_t pair =
            kvt_load<uint32_t>(scales + (((int64_t)row_block * args.groups + group) * 8 + g) * 4);
        KVT_UNROLL
        for (int half = 0; half < 2; half++) { /* rows g and g + 8 */
            int row = 16 * row_block + g + 8 * half;
            if (row >= args.n)
                continue;
            float scale = half == 0 ? kvt_bf16_low(pair) : kvt_bf16_high(pair);
            uint2 out;
            uint32_t nibbles = words[j] >> 4 * half;
            float w[4];
            KVT_UNROLL
            for (int i = 0; i < 4; i++) {
                int at = i / 2 * 2 + i % 2 * 4; /* where nibble_place() has k + i */
                w[i] = (float)((int)(nibbles >> 4 * at & 15) - 8) * scale;
            }
            out.x = kvt_bf16x2(w[0], w[1]);
            out.y = kvt_bf16x2(w[2], w[3]);
            kvt_store<uint2>(args.out + (int64_t)row * args.k + k, out);
        }
    }
}

/* ---- launchers ---- */

template <int GROUP, int RB, int NT>
static enum kvt_status launch_tile(const struct int4_args &args, int32_t experts, void *stream,
                                   struct kvt_err *err)
{
    dim3 grid((unsigned)((args.n + 16 * RB - 1) / (16 * RB)), (unsigned)experts);
    size_t shared = (size_t)INT4_WARPS * 16 * RB * 8 * NT * sizeof(float);
    return kvt_launch("int4_k", int4_k<GROUP, RB, NT>, grid, 32 * INT4_WARPS, shared, stream, args,
                      err);
}

/* rows: of an expert, about. */
template <int GROUP>
static enum kvt_status launch(const struct int4_args &args, int32_t experts, int64_t rows,
                              void *stream, struct kvt_err *err)
{
    if (rows <= 8)
        return launch_tile<GROUP, 2, 1>(args, experts, stream, err);
    if (rows <= 16)
        return launch_tile<GROUP, 2, 2>(args, experts, stream, err);
    if (rows <= 32)
        return launch_tile<GROUP, 2, 4>(args, experts, stream, err);
    return launch_tile<GROUP, 1, 8>(args, experts, stream, err);
}

static enum kvt_status launch_group(struct int4_args args, int32_t group, int32_t experts,
                                    int64_t rows, void *stream, struct kvt_err *err)
{
    if (experts > 65535)
        return kvt_err_set(err, KVT_ELIMIT, "cuda: int4: %d experts; at most 65535", experts);
    args.k_blocks = (args.k + 63) / 64;
    args.groups = padded_groups(args.k, group);
    args.packed_bytes = (int64_t)kvt_cuda_int4_packed_bytes(args.n, args.k, group);
    return group == 32 ? launch<32>(args, experts, rows, stream, err)
                       : launch<128>(args, experts, rows, stream, err);
}

enum kvt_status kvt_cuda_int4_gemm(const struct kvt_int4_gemm *gemm, void *stream,
                                   struct kvt_err *err)
{
    if (gemm->m < 1)
        return KVT_OK;
    struct int4_args args = {};
    args.m = gemm->m;
    args.n = gemm->n;
    args.k = gemm->k;
    args.a = gemm->a;
    args.w = static_cast<const uint8_t *>(gemm->w);
    args.out = gemm->out;
    return launch_group(args, gemm->group, 1, gemm->m, stream, err);
}

enum kvt_status kvt_cuda_int4_dequantise(const void *w, int32_t n, int32_t k, int32_t group,
                                         kvt_bf16 *out, void *stream, struct kvt_err *err)
{
    struct dequantise_args args = {
        n, k, group, (k + 63) / 64, padded_groups(k, group), static_cast<const uint8_t *>(w), out};
    int64_t blocks = (int64_t)((n + 15) / 16) * args.k_blocks;
    return KVT_LAUNCH(dequantise_k, dim3((unsigned)((blocks + INT4_WARPS - 1) / INT4_WARPS)),
                      32 * INT4_WARPS, 0, stream, args, err);
}

enum kvt_status kvt_cuda_int4_experts(const struct kvt_int4_experts *experts, int32_t rows,
                                      void *stream, struct kvt_err *err)
{
    if (rows < 1)
        rows = experts->experts;
    struct int4_args args = {};
    args.m = rows;
    args.n = experts->n;
    args.k = experts->k;
    args.row_begin = experts->row_begin;
    args.a = experts->a;
    args.w = static_cast<const uint8_t *>(experts->w);
    args.out = experts->out;
    /* Twice the mean: most experts then take their rows in one pass over their weights. */
    int64_t each = ((int64_t)rows * 2 + experts->experts - 1) / experts->experts;
    return launch_group(args, experts->group, experts->experts, each, stream, err);
}
