/*
 * device.cuh - the instructions that the kernels are made of
 *
 * Each wrapper has the PTX for nvcc and, for every other C++ compiler, a twin in plain C++ with the
 * same result: bit for bit for conversions and moves, to the rounding of sums for mma. The tests
 * try the conversions' twins over all their inputs, and on a GPU the PTX against the same
 * expectations.
 *
 * Registers hold pairs: "bf16x2" and "f16x2" are uint32_t with the first element in the low half.
 * Collectives of a warp (mma, ldmatrix, movmatrix, shuffles) are called by all 32 lanes.
 *
 * A kernel has one parameter, a struct, so that one function launches them all (launch.cuh).
 */
#ifndef KVT_CUDA_DEVICE_CUH
#define KVT_CUDA_DEVICE_CUH

#include <stdint.h>

#ifdef __CUDACC__
#define KVT_DEVICE      static __device__ __forceinline__
#define KVT_FAULT(name) false
#define KVT_UNROLL      _Pragma("unroll")
#define KVT_AT
#define KVT_AT_ARGS
#else
#include "kernels/cuda/emulate_names.h"
#define KVT_DEVICE      static inline
#define KVT_FAULT(name) (kvt_emulate::now.fault == kvt_emulate::fault_##name)
#define KVT_UNROLL
#define KVT_AT      , KVT_EMULATE_AT
#define KVT_AT_ARGS , file_, line_
#endif

extern "C" {
#include "kernels/formats.h"
}

#define KVT_WARP 0xffffffffu

/* ---- shared and global memory ---- */

/* The block's dynamic shared memory, on 1024 bytes. There is no other kind. */
KVT_DEVICE unsigned char *kvt_shared(void)
{
#ifdef __CUDACC__
    extern __shared__ __align__(1024) unsigned char kvt_shared_memory[];
    return kvt_shared_memory;
#else
    return kvt_emulate::now.shared;
#endif
}

/* One access of the size of T, to an address that is a multiple of it. */
template <class T> KVT_DEVICE T kvt_load(const void *from)
{
#ifdef __CUDACC__
    return *static_cast<const T *>(from);
#else
    if (reinterpret_cast<uintptr_t>(from) % sizeof(T) != 0) {
        fprintf(stderr, "load of %zu bytes from %p, line %d\n", sizeof(T), from, __LINE__);
        abort();
    }
    T value;
    memcpy(&value, from, sizeof value);
    return value;
#endif
}

template <class T> KVT_DEVICE void kvt_store(void *to, T value)
{
#ifdef __CUDACC__
    *static_cast<T *>(to) = value;
#else
    if (reinterpret_cast<uintptr_t>(to) % sizeof(T) != 0) {
        fprintf(stderr, "store of %zu bytes to %p, line %d\n", sizeof(T), to, __LINE__);
        abort();
    }
    memcpy(to, &value, sizeof value);
#endif
}

/* 16 bytes that are read once and by nobody else: they stay out of L1 and leave L2 first. */
KVT_DEVICE uint4 kvt_load_once(const void *from)
{
#ifdef __CUDACC__
    uint64_t first_to_go;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first_to_go));
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from), "l"(first_to_go));
    return v;
#else
    return kvt_load<uint4>(from);
#endif
}

/* A store that other threads may make too, of the same value: no race in the memory model. */
KVT_DEVICE void kvt_store_flag(uint8_t *to, uint8_t value)
{
#ifdef __CUDACC__
    asm volatile("st.relaxed.gpu.global.u8 [%0], %1;" ::"l"(to), "h"((uint16_t)value) : "memory");
#else
    *to = value;
#endif
}

KVT_DEVICE void kvt_store_stamp(void *to, uint64_t value)
{
#ifdef __CUDACC__
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
    kvt_store<uint64_t>(to, value);
#endif
}

/* Copy 16 bytes (of which the first `valid`, 0 or 16, are read and the rest are zeros) or 4 to
 * shared memory, asynchronously: they are there after commit, and wait<groups that may still be
 * under way> by the same thread; for other threads a barrier more. */
KVT_DEVICE void kvt_copy_async16(void *to, const void *from, uint32_t valid)
{
#ifdef __CUDACC__
    uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(valid)
                 : "memory");
#else
    kvt_emulate::copy_async(to, from, 16, valid);
#endif
}

KVT_DEVICE void kvt_copy_async4(void *to, const void *from, uint32_t valid)
{
#ifdef __CUDACC__
    uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                 "r"(valid)
                 : "memory");
#else
    kvt_emulate::copy_async(to, from, 4, valid);
#endif
}

KVT_DEVICE void kvt_copy_commit(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    kvt_emulate::copy_commit();
#endif
}

template <int PENDING> KVT_DEVICE void kvt_copy_wait(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#else
    kvt_emulate::copy_wait(PENDING);
#endif
}

/* ---- number formats ---- */

KVT_DEVICE float kvt_bf16_low(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

KVT_DEVICE float kvt_bf16_high(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

#ifndef __CUDACC__
namespace kvt_twin
{

inline float half_to_float(uint32_t bits)
{
    uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    if (exponent == 31)
        return __uint_as_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0)
        return __uint_as_float(sign | __float_as_uint(static_cast<float>(mantissa) * 0x1p-24f));
    return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* To the nearest, ties to even; NaN is 0x7fff. */
inline uint32_t half_from_float(float value)
{
    uint32_t bits = __float_as_uint(value), sign = bits >> 16 & 0x8000;
    if (value != value)
        return 0x7fff;
    double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude >= 65520.0)
        return sign | 0x7c00;
    int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -14, -14);
    auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    /* A carry of the mantissa goes into the exponent. */
    return sign | ((static_cast<uint32_t>(exponent + 14) << 10) + units);
}

inline uint32_t bf16_from_float(float value)
{
    return value != value ? 0x7fff : kvt_bf16_from_float(value);
}

} // namespace kvt_twin
#endif

/* NaN becomes 0x7fff. */
KVT_DEVICE uint32_t kvt_bf16x2(float low, float high)
{
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return kvt_twin::bf16_from_float(low) | kvt_twin::bf16_from_float(high) << 16;
#endif
}

KVT_DEVICE kvt_bf16 kvt_bf16_round(float value)
{
    return (kvt_bf16)(kvt_bf16x2(value, 0.0f) & 0xffff);
}

KVT_DEVICE uint32_t kvt_f16x2(float low, float high)
{
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return kvt_twin::half_from_float(low) | kvt_twin::half_from_float(high) << 16;
#endif
}

/* Two E4M3 codes (low byte first): exact; NaN is 0x7fff. */
KVT_DEVICE uint32_t kvt_f16x2_from_e4m3x2(uint32_t codes)
{
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)codes));
    return pair;
#else
    return kvt_twin::half_from_float(kvt_e4m3_to_float(static_cast<kvt_e4m3>(codes & 0xff))) |
           kvt_twin::half_from_float(kvt_e4m3_to_float(static_cast<kvt_e4m3>(codes >> 8 & 0xff)))
               << 16;
#endif
}

/* To the nearest, ties to even, saturating; NaN is 0x7f. */
KVT_DEVICE uint32_t kvt_e4m3x2(float low, float high)
{
#ifdef __CUDACC__
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return static_cast<uint32_t>(kvt_e4m3_from_float(low)) |
           static_cast<uint32_t>(kvt_e4m3_from_float(high)) << 8;
#endif
}

/* (x & mask) | bits in one instruction. */
KVT_DEVICE uint32_t kvt_and_or(uint32_t x, uint32_t mask, uint32_t bits)
{
#ifdef __CUDACC__
    uint32_t out;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(x), "r"(mask), "r"(bits));
    return out;
#else
    return (x & mask) | bits;
#endif
}

/* Elementwise a * b + c, rounded once. */
KVT_DEVICE uint32_t kvt_bf16x2_fma(uint32_t a, uint32_t b, uint32_t c)
{
#ifdef __CUDACC__
    uint32_t out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
#else
    return kvt_bf16x2(std::fma(kvt_bf16_low(a), kvt_bf16_low(b), kvt_bf16_low(c)),
                      std::fma(kvt_bf16_high(a), kvt_bf16_high(b), kvt_bf16_high(c)));
#endif
}

KVT_DEVICE uint32_t kvt_f16x2_mul(uint32_t a, uint32_t b)
{
#ifdef __CUDACC__
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
#else
    return kvt_f16x2(kvt_twin::half_to_float(a & 0xffff) * kvt_twin::half_to_float(b & 0xffff),
                     kvt_twin::half_to_float(a >> 16) * kvt_twin::half_to_float(b >> 16));
#endif
}

/* Nibbles i and i + 4 of word as a pair of BF16, less 8: 0x4300 is 128, so (0x4300 | q) - 136 is
 * q - 8, exactly. */
KVT_DEVICE uint32_t kvt_bf16x2_from_nibbles(uint32_t word, int i)
{
    uint32_t pair = kvt_and_or(word >> (4 * i), 0x000f000fu, 0x43004300u);
    return kvt_bf16x2_fma(pair, 0x3f803f80u, 0xc308c308u);
}

/* 2^x to two ulp; x of -inf is 0. */
KVT_DEVICE float kvt_exp2(float x)
{
#ifdef __CUDACC__
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
#else
    return std::exp2(x);
#endif
}

/* Of 2 pi x, x in 0 to 1. (sinf of any angle would need a stack for the reduction of large ones.)
 */
KVT_DEVICE float kvt_sine_of_turns(float x)
{
#ifdef __CUDACC__
    return sinpif(2.0f * x);
#else
    return static_cast<float>(std::sin(6.283185307179586 * static_cast<double>(x)));
#endif
}

KVT_DEVICE float kvt_cosine_of_turns(float x)
{
#ifdef __CUDACC__
    return cospif(2.0f * x);
#else
    return static_cast<float>(std::cos(6.283185307179586 * static_cast<double>(x)));
#endif
}

/* kvt_fp8_scale() of a finite amax that is not negative. */
KVT_DEVICE float kvt_fp8_scale_of(float amax)
{
    uint32_t bits = __float_as_uint(fmaxf(amax, 1e-4f));
    return __uint_as_float(((bits >> 23) - 8 + ((bits & 0x7fffff) > 0x600000)) << 23);
}

/* 1 / x of a power of two between 2^-126 and 2^126: exact. */
KVT_DEVICE float kvt_reciprocal_of_power(float x)
{
    return __uint_as_float((254u << 23) - __float_as_uint(x));
}

/* ---- warp ---- */

KVT_DEVICE int kvt_lane(void)
{
#ifdef __CUDACC__
    return (int)(threadIdx.x & 31);
#else
    return kvt_emulate::lane();
#endif
}

/* Largest value of the lanes that differ in the bits of `lanes` (31: all, 28: every fourth). */
KVT_DEVICE float kvt_warp_max(float value, int lanes KVT_AT)
{
    for (int bit = 16; bit > 0; bit >>= 1)
        if (lanes & bit)
            value = fmaxf(value, __shfl_xor_sync(KVT_WARP, value, bit KVT_AT_ARGS));
    return value;
}

KVT_DEVICE float kvt_warp_sum(float value, int lanes KVT_AT)
{
    for (int bit = 16; bit > 0; bit >>= 1)
        if (lanes & bit)
            value += __shfl_xor_sync(KVT_WARP, value, bit KVT_AT_ARGS);
    return value;
}

/* ---- matrices ---- */

#ifndef __CUDACC__
namespace kvt_twin
{

struct mma_operand {
    float *d;
    const uint32_t *a, *b;
};

/* Lane l holds, with g = l / 4 and q = l % 4: of A (16 rows, 16 k) rows g and g + 8 by turns, k =
 * 2q and 2q + 1, then the same with k + 8; of B (16 k, 8 columns) column g, k = 2q.. and 2q + 8..;
 * of D rows g (d[0], d[1]) and g + 8 (d[2], d[3]), columns 2q and 2q + 1. */
inline void mma_gather(struct kvt_emulate::fiber *warp, bool half, float a[16][16], float b[16][8])
{
    auto decode = [half](uint32_t pair, int high) {
        uint32_t bits = pair >> 16 * high & 0xffff;
        return half ? half_to_float(bits) : __uint_as_float(bits << 16);
    };
    for (int l = 0; l < 32; l++) {
        auto *lane = static_cast<struct mma_operand *>(warp[l].operand);
        int g = l / 4, q = l % 4;
        for (int i = 0; i < 8; i++)
            a[g + i / 2 % 2 * 8][2 * q + i % 2 + i / 4 * 8] = decode(lane->a[i / 2], i % 2);
        for (int i = 0; i < 4; i++)
            b[2 * q + i % 2 + i / 2 * 8][g] = decode(lane->b[i / 2], i % 2);
    }
}

/* Most of the time of a test goes here: arrays of this function only, so no sanitizers. */
__attribute__((noinline, no_sanitize("address"), no_sanitize("undefined"))) inline void
mma_multiply(const float a[16][16], const float b[16][8], double d[16][8])
{
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                d[row][column] +=
                    static_cast<double>(a[row][k]) * static_cast<double>(b[k][column]);
}

inline void mma(struct kvt_emulate::fiber *warp, bool half)
{
    float a[16][16], b[16][8];
    double d[16][8];
    mma_gather(warp, half, a, b);
    auto cell = [warp, &d](int l, int i) {
        float *mine = static_cast<struct mma_operand *>(warp[l].operand)->d + i;
        return std::make_pair(mine, &d[l / 4 + i / 2 * 8][2 * (l % 4) + i % 2]);
    };
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            *cell(l, i).second = static_cast<double>(*cell(l, i).first);
    mma_multiply(a, b, d);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            *cell(l, i).first = static_cast<float>(*cell(l, i).second);
}

} // namespace kvt_twin
#endif

/* d += a * b: 16 rows, 8 columns, 16 products each, sums in FP32. */
KVT_DEVICE void kvt_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2] KVT_AT)
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    struct kvt_twin::mma_operand mine = {d, a, b};
    kvt_emulate::collective("mma bf16", KVT_WARP, &mine, {file_, line_},
                            [](struct kvt_emulate::fiber *warp) { kvt_twin::mma(warp, false); });
#endif
}

KVT_DEVICE void kvt_mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2] KVT_AT)
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    struct kvt_twin::mma_operand mine = {d, a, b};
    kvt_emulate::collective("mma f16", KVT_WARP, &mine, {file_, line_},
                            [](struct kvt_emulate::fiber *warp) { kvt_twin::mma(warp, true); });
#endif
}

#ifndef __CUDACC__
namespace kvt_twin
{

struct matrix_operand {
    const void *row;
    uint32_t *out;
};

inline void ldmatrix(struct kvt_emulate::fiber *warp, bool transposed)
{
    uint16_t m[32][8];
    for (int l = 0; l < 32; l++)
        memcpy(m[l], static_cast<struct matrix_operand *>(warp[l].operand)->row, 16);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            int g = l / 4, q = l % 4;
            uint32_t low = transposed ? m[8 * i + 2 * q][g] : m[8 * i + g][2 * q];
            uint32_t high = transposed ? m[8 * i + 2 * q + 1][g] : m[8 * i + g][2 * q + 1];
            static_cast<struct matrix_operand *>(warp[l].operand)->out[i] = low | high << 16;
        }
}

} // namespace kvt_twin
#endif

/* Four 8 x 8 matrices of 16 bits from shared memory; lane l names row l % 8 of matrix l / 8. Lane l
 * gets columns 2q, 2q + 1 of row g of each (transposed: rows 2q, 2q + 1 of column g). */
template <bool transposed> KVT_DEVICE void kvt_ldmatrix(uint32_t out[4], const void *row KVT_AT)
{
#ifdef __CUDACC__
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
#define KVT_LDMATRIX(how)                                                                          \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];"         \
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])                          \
                 : "r"(address)                                                                    \
                 : "memory")
    if (transposed)
        KVT_LDMATRIX(".trans");
    else
        KVT_LDMATRIX("");
#undef KVT_LDMATRIX
#else
    struct kvt_twin::matrix_operand mine = {row, out};
    kvt_emulate::collective(
        transposed ? "ldmatrix transposed" : "ldmatrix", KVT_WARP, &mine, {file_, line_},
        [](struct kvt_emulate::fiber *warp) { kvt_twin::ldmatrix(warp, transposed); });
#endif
}

/* An 8 x 8 matrix of 16 bits spread over the warp, transposed. */
KVT_DEVICE uint32_t kvt_movmatrix(uint32_t pair KVT_AT)
{
#ifdef __CUDACC__
    uint32_t out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
    return out;
#else
    uint32_t mine = pair;
    kvt_emulate::collective("movmatrix", KVT_WARP, &mine, {file_, line_},
                            [](struct kvt_emulate::fiber *warp) {
                                uint32_t m[8][8];
                                for (int l = 0; l < 32; l++) {
                                    uint32_t in = *static_cast<uint32_t *>(warp[l].operand);
                                    m[l / 4][2 * (l % 4)] = in & 0xffff;
                                    m[l / 4][2 * (l % 4) + 1] = in >> 16;
                                }
                                for (int l = 0; l < 32; l++)
                                    *static_cast<uint32_t *>(warp[l].operand) =
                                        m[2 * (l % 4)][l / 4] | m[2 * (l % 4) + 1][l / 4] << 16;
                            });
    return mine;
#endif
}

#endif
