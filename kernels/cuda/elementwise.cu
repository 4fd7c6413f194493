/*
 * elementwise.cu - the small kernels between the large ones, and the ceilings of the device
 *
 * One block a row where a row is reduced; sums and maxima go through shuffles, then shared memory.
 * The angle of RoPE is computed in double precision: a position of a million times a frequency near
 * 1 has no digits left in FP32.
 *
 *     budget add_norm_k 40     budget silu_mul_k 32   budget rope_k 64     budget argmax_k 32
 *     budget quantise_rows_k 40   budget copy_k 48    budget read_k 48     budget empty_k 16
 *     budget gather_k 40          budget combine_k 40
 */
#include "kernels/cuda/launch.cuh"

#define ROW_THREADS 256
#define ROW_WARPS   (ROW_THREADS / 32)

KVT_DEVICE float bf16_value(kvt_bf16 value)
{
    return kvt_bf16_low(value);
}

/* Over the block: sum or maximum, the same in all threads; called by all. */
template <bool MAX> KVT_DEVICE float row_reduce(float value)
{
    float *parts = reinterpret_cast<float *>(kvt_shared());
    value = MAX ? kvt_warp_max(value, 31) : kvt_warp_sum(value, 31);
    if (kvt_lane() == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    float all = parts[0];
    for (int w = 1; w < ROW_WARPS; w++)
        all = MAX ? fmaxf(all, parts[w]) : all + parts[w];
    __syncthreads();
    return all;
}

/* ---- add_norm ---- */

struct add_norm_args {
    float *x;
    const kvt_bf16 *y, *weight;
    float eps;
    int32_t dim;
    kvt_bf16 *out;
};

__global__ void __launch_bounds__(ROW_THREADS) add_norm_k(struct add_norm_args args)
{
    int64_t row = (int64_t)blockIdx.x * args.dim;
    float sum = 0.0f;
    for (int i = (int)threadIdx.x; i < args.dim; i += ROW_THREADS) {
        float x = args.x[row + i];
        if (args.y != nullptr) {
            x += bf16_value(args.y[row + i]);
            args.x[row + i] = x;
        }
        sum += x * x;
    }
    float factor = 1.0f / sqrtf(row_reduce<false>(sum) / (float)args.dim + args.eps);
    for (int i = (int)threadIdx.x; i < args.dim; i += ROW_THREADS)
        args.out[row + i] = kvt_bf16_round(args.x[row + i] * factor * bf16_value(args.weight[i]));
}

/* ---- silu_mul ---- */

struct silu_mul_args {
    const kvt_bf16 *in;
    int64_t count;
    int32_t dim;
    kvt_bf16 *out;
};

__global__ void __launch_bounds__(ROW_THREADS) silu_mul_k(struct silu_mul_args args)
{
    int64_t step = (int64_t)gridDim.x * ROW_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < args.count; i += step) {
        int64_t row = i / args.dim;
        const kvt_bf16 *in = args.in + row * args.dim + i; /* row * 2 dim + column */
        float x = bf16_value(in[0]), up = bf16_value(in[args.dim]);
        args.out[i] = kvt_bf16_round(x / (1.0f + expf(-x)) * up);
    }
}

/* ---- rope ---- */

struct rope_args {
    struct kvt_rope rope;
};

/* A block for each row; thread j turns pair j of every head. */
__global__ void __launch_bounds__(KVT_ROPE_DIM_MAX / 2) rope_k(struct rope_args args)
{
    const struct kvt_rope &rope = args.rope;
    int j = (int)threadIdx.x, half = rope.dim / 2;
    double turns = rope.position[blockIdx.x] * pow(rope.base, -2.0 * j / rope.dim) *
                   0.15915494309189535; /* 1 / (2 pi) */
    float fraction = (float)(turns - floor(turns));
    float sine = kvt_sine_of_turns(fraction), cosine = kvt_cosine_of_turns(fraction);
    kvt_bf16 *x = rope.x + blockIdx.x * rope.row_stride + j;
    for (int h = 0; h < rope.heads; h++, x += rope.head_stride) {
        float low = bf16_value(x[0]), high = bf16_value(x[half]);
        x[0] = kvt_bf16_round(low * cosine - high * sine);
        x[half] = kvt_bf16_round(high * cosine + low * sine);
    }
}

/* ---- gather, combine ---- */

template <class T> struct gather_args {
    T *out;
    const T *from;
    const int32_t *row;
    int64_t count; /* of T in all */
    int64_t width; /* of T in a row */
};

template <class T>
__global__ void __launch_bounds__(ROW_THREADS) gather_k(struct gather_args<T> args)
{
    int64_t step = (int64_t)gridDim.x * ROW_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < args.count; i += step) {
        int64_t row = i / args.width;
        args.out[i] = args.from[args.row[row] * args.width + i - row * args.width];
    }
}

struct combine_args {
    struct kvt_combine combine;
};

__global__ void __launch_bounds__(ROW_THREADS) combine_k(struct combine_args args)
{
    const struct kvt_combine &combine = args.combine;
    int64_t step = (int64_t)gridDim.x * ROW_THREADS, count = (int64_t)combine.rows * combine.dim;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count; i += step) {
        int64_t row = i / combine.dim, column = i - row * combine.dim, at = row * combine.topk;
        float sum = combine.add ? bf16_value(combine.y[i]) : 0.0f;
        for (int j = 0; j < combine.topk; j++)
            sum += combine.share[at + j] *
                   bf16_value(combine.in[(int64_t)combine.place[at + j] * combine.dim + column]);
        combine.y[i] = kvt_bf16_round(sum);
    }
}

/* ---- argmax ---- */

struct argmax_args {
    const kvt_bf16 *logits;
    int32_t columns;
    int32_t *token;
};

/* Larger value, then lower column; a NaN (column -1) beats all. */
struct best {
    float value;
    int32_t column;
};

KVT_DEVICE struct best better(struct best a, struct best b)
{
    if (a.column < 0 || b.column < 0)
        return a.column < 0 ? a : b;
    bool first = a.value > b.value || (a.value == b.value && a.column < b.column);
    return first ? a : b;
}

__global__ void __launch_bounds__(ROW_THREADS) argmax_k(struct argmax_args args)
{
    const kvt_bf16 *row = args.logits + (int64_t)blockIdx.x * args.columns;
    struct best best = {-INFINITY, INT32_MAX};
    for (int32_t i = (int32_t)threadIdx.x; i < args.columns; i += ROW_THREADS) {
        float value = bf16_value(row[i]);
        best = better(best, {value, value != value ? -1 : i});
    }
    for (int bit = 16; bit > 0; bit >>= 1) {
        struct best other = {__shfl_xor_sync(KVT_WARP, best.value, bit),
                             __shfl_xor_sync(KVT_WARP, best.column, bit)};
        best = better(best, other);
    }
    auto *parts = reinterpret_cast<struct best *>(kvt_shared());
    if (kvt_lane() == 0)
        parts[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int w = 1; w < ROW_WARPS; w++)
        best = better(best, parts[w]);
    args.token[blockIdx.x] = args.columns > 0 ? best.column : -1;
}

/* ---- rows to E4M3 ---- */

struct quantise_args {
    const kvt_bf16 *a;
    int32_t dim;
    kvt_e4m3 *out;
    float *scale;
};

__global__ void __launch_bounds__(ROW_THREADS) quantise_rows_k(struct quantise_args args)
{
    int64_t row = (int64_t)blockIdx.x * args.dim;
    float amax = 0.0f;
    for (int i = (int)threadIdx.x; i < args.dim; i += ROW_THREADS) {
        float value = fabsf(bf16_value(args.a[row + i]));
        amax = fmaxf(amax, value < INFINITY ? value : 0.0f);
    }
    amax = row_reduce<true>(amax);
    float scale = amax > 0.0f ? amax / KVT_E4M3_MAX : 1.0f;
    for (int i = (int)threadIdx.x; i < args.dim; i += ROW_THREADS) {
        float value = bf16_value(args.a[row + i]);
        bool finite = fabsf(value) < INFINITY;
        args.out[row + i] =
            finite ? (kvt_e4m3)(kvt_e4m3x2(value / scale, 0.0f) & 0xff) : KVT_E4M3_NAN;
    }
    if (threadIdx.x == 0)
        args.scale[blockIdx.x] = scale;
}

/* ---- ceilings ---- */

struct ceiling_args {
    uint4 *to;
    const uint4 *from;
    int64_t count; /* of 16 bytes */
    uint32_t *sum;
};

/* Four loads under way in each thread. */
__global__ void __launch_bounds__(ROW_THREADS) copy_k(struct ceiling_args args)
{
    int64_t step = (int64_t)gridDim.x * ROW_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < args.count;
         i += 4 * step) {
        uint4 value[4];
        KVT_UNROLL
        for (int j = 0; j < 4; j++)
            if (i + j * step < args.count)
                value[j] = kvt_load_once(args.from + i + j * step);
        KVT_UNROLL
        for (int j = 0; j < 4; j++)
            if (i + j * step < args.count)
                kvt_store<uint4>(args.to + i + j * step, value[j]);
    }
}

__global__ void __launch_bounds__(ROW_THREADS) read_k(struct ceiling_args args)
{
    int64_t step = (int64_t)gridDim.x * ROW_THREADS;
    uint32_t sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < args.count; i += 4 * step)
        KVT_UNROLL
    for (int j = 0; j < 4; j++) {
        if (i + j * step >= args.count)
            break;
        uint4 value = kvt_load<uint4>(args.from + i + j * step);
        sum += value.x + value.y + value.z + value.w;
    }
    for (int bit = 16; bit > 0; bit >>= 1)
        sum += __shfl_xor_sync(KVT_WARP, sum, bit);
    if (kvt_lane() == 0)
        atomicAdd(args.sum, sum);
}

__global__ void empty_k(struct ceiling_args)
{
}

/* ---- launchers ---- */

enum kvt_status kvt_cuda_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps,
                                  int32_t rows, int32_t dim, kvt_bf16 *out, void *stream,
                                  struct kvt_err *err)
{
    if (rows < 1)
        return KVT_OK;
    struct add_norm_args args = {x, y, weight, eps, dim, out};
    return KVT_LAUNCH(add_norm_k, dim3((unsigned)rows), ROW_THREADS, 4 * ROW_WARPS, stream, args,
                      err);
}

/* Blocks for so many threads' work, at most what fills a large device a few times over. */
static dim3 strided_grid(int64_t count)
{
    int64_t blocks = (count + ROW_THREADS - 1) / ROW_THREADS;
    return dim3((unsigned)(blocks < 1 ? 1 : blocks < 2112 ? blocks : 2112));
}

enum kvt_status kvt_cuda_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out,
                                  void *stream, struct kvt_err *err)
{
    if (rows < 1)
        return KVT_OK;
    struct silu_mul_args args = {in, (int64_t)rows * dim, dim, out};
    return KVT_LAUNCH(silu_mul_k, strided_grid(args.count), ROW_THREADS, 0, stream, args, err);
}

enum kvt_status kvt_cuda_rope(const struct kvt_rope *rope, void *stream, struct kvt_err *err)
{
    if (rope->rows < 1)
        return KVT_OK;
    if (rope->dim < 2 || rope->dim % 2 != 0 || rope->dim > KVT_ROPE_DIM_MAX)
        return kvt_err_set(err, KVT_ELIMIT, "cuda: rope: want an even dim of 2 to %d, got %d",
                           KVT_ROPE_DIM_MAX, rope->dim);
    struct rope_args args = {*rope};
    return KVT_LAUNCH(rope_k, dim3((unsigned)rope->rows), (unsigned)rope->dim / 2, 0, stream, args,
                      err);
}

template <class T>
static enum kvt_status gather_of(void *out, const void *from, const int32_t *row, int32_t rows,
                                 size_t row_bytes, void *stream, struct kvt_err *err)
{
    int64_t width = (int64_t)(row_bytes / sizeof(T));
    struct gather_args<T> args = {
        static_cast<T *>(out), static_cast<const T *>(from), row, rows *width, width
    };
    return kvt_launch("gather_k", gather_k<T>, strided_grid(args.count), ROW_THREADS, 0, stream,
                      args, err);
}

enum kvt_status kvt_cuda_gather(void *out, const void *from, const int32_t *row, int32_t rows,
                                size_t row_bytes, void *stream, struct kvt_err *err)
{
    if (rows < 1 || row_bytes < 1)
        return KVT_OK;
    return row_bytes % sizeof(uint4) == 0
               ? gather_of<uint4>(out, from, row, rows, row_bytes, stream, err)
               : gather_of<uint16_t>(out, from, row, rows, row_bytes, stream, err);
}

enum kvt_status kvt_cuda_combine(const struct kvt_combine *combine, void *stream,
                                 struct kvt_err *err)
{
    if (combine->rows < 1)
        return KVT_OK;
    struct combine_args args = {*combine};
    return KVT_LAUNCH(combine_k, strided_grid((int64_t)combine->rows * combine->dim), ROW_THREADS,
                      0, stream, args, err);
}

enum kvt_status kvt_cuda_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns,
                                int32_t *token, void *stream, struct kvt_err *err)
{
    if (rows < 1)
        return KVT_OK;
    struct argmax_args args = {logits, columns, token};
    return KVT_LAUNCH(argmax_k, dim3((unsigned)rows), ROW_THREADS, sizeof(struct best) * ROW_WARPS,
                      stream, args, err);
}

enum kvt_status kvt_cuda_quantise_rows(const kvt_bf16 *a, int32_t rows, int32_t dim, kvt_e4m3 *out,
                                       float *scale, void *stream, struct kvt_err *err)
{
    if (rows < 1)
        return KVT_OK;
    struct quantise_args args = {a, dim, out, scale};
    return KVT_LAUNCH(quantise_rows_k, dim3((unsigned)rows), ROW_THREADS, 4 * ROW_WARPS, stream,
                      args, err);
}

enum kvt_status kvt_cuda_ceiling_copy(void *to, const void *from, size_t bytes, void *stream,
                                      struct kvt_err *err)
{
    struct ceiling_args args = {static_cast<uint4 *>(to), static_cast<const uint4 *>(from),
                                (int64_t)(bytes / 16), nullptr};
    return KVT_LAUNCH(copy_k, strided_grid(args.count), ROW_THREADS, 0, stream, args, err);
}

enum kvt_status kvt_cuda_ceiling_read(const void *from, size_t bytes, uint32_t *sum, void *stream,
                                      struct kvt_err *err)
{
    struct ceiling_args args = {nullptr, static_cast<const uint4 *>(from), (int64_t)(bytes / 16),
                                sum};
    KVT_TRY(kvt_cuda_fill(sum, 0, sizeof *sum, stream, err));
    return KVT_LAUNCH(read_k, strided_grid(args.count), ROW_THREADS, 0, stream, args, err);
}

enum kvt_status kvt_cuda_ceiling_empty(void *stream, struct kvt_err *err)
{
    struct ceiling_args args = {};
    return KVT_LAUNCH(empty_k, dim3(1), 32, 0, stream, args, err);
}
