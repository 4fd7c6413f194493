/*
 * emulate_names.h - CUDA's own names over the emulation: built-in variables, barriers, shuffles,
 * atomics, bits
 *
 * What kernels may use besides device.cuh. Collectives take the place of their call as default
 * arguments, so that an error can name it.
 */
#ifndef KVT_CUDA_EMULATE_NAMES_H
#define KVT_CUDA_EMULATE_NAMES_H

#include "kernels/cuda/emulate.h"

#define threadIdx (kvt_emulate::me->thread)
#define blockIdx  (kvt_emulate::now.index)
#define blockDim  (kvt_emulate::now.size)
#define gridDim   (kvt_emulate::now.grid)

/* ---- CUDA's own names ---- */

#define KVT_EMULATE_AT const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()

inline void __syncthreads(KVT_EMULATE_AT)
{
    kvt_emulate::barrier({file_, line_});
}

inline void __syncwarp(uint32_t mask = 0xffffffff, KVT_EMULATE_AT)
{
    kvt_emulate::collective("__syncwarp", mask, nullptr, {file_, line_},
                            [](struct kvt_emulate::fiber *) {});
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate, KVT_EMULATE_AT)
{
    struct operand {
        bool in;
        uint32_t out;
    } mine = {predicate != 0, 0};
    kvt_emulate::collective(
        "__ballot_sync", mask, &mine, {file_, line_}, [mask](struct kvt_emulate::fiber *warp) {
            uint32_t bits = 0;
            for (int i = 0; i < 32; i++)
                if (mask >> i & 1 && static_cast<struct operand *>(warp[i].operand)->in)
                    bits |= UINT32_C(1) << i;
            for (int i = 0; i < 32; i++)
                if (mask >> i & 1)
                    static_cast<struct operand *>(warp[i].operand)->out = bits;
        });
    return mine.out;
}

namespace kvt_emulate
{

template <class T> struct exchange {
    T in, out;
    int from; /* lane */
};

template <class T>
__attribute__((noinline)) T shuffle_from(const char *what, uint32_t mask, T value, int from,
                                         struct place at)
{
    struct exchange<T> mine = {
        value, value, from
    };
    collective(what, mask, &mine, at, [mask](struct fiber *warp) {
        for (int i = 0; i < 32; i++) {
            if (!(mask >> i & 1))
                continue;
            auto *lane = static_cast<struct exchange<T> *>(warp[i].operand);
            if (mask >> lane->from & 1) /* else undefined; here: the lane's own */
                lane->out = static_cast<struct exchange<T> *>(warp[lane->from].operand)->in;
        }
    });
    return mine.out;
}

inline int lane()
{
    return static_cast<int>((me - now.fibers.data()) % 32);
}

} // namespace kvt_emulate

template <class T> inline T __shfl_xor_sync(uint32_t mask, T value, int bits, KVT_EMULATE_AT)
{
    return kvt_emulate::shuffle_from("__shfl_xor_sync", mask, value, kvt_emulate::lane() ^ bits,
                                     {file_, line_});
}

template <class T> inline T __shfl_sync(uint32_t mask, T value, int from, KVT_EMULATE_AT)
{
    return kvt_emulate::shuffle_from("__shfl_sync", mask, value, from & 31, {file_, line_});
}

/* One host thread runs at a time, so these need nothing. */
template <class T> inline T atomicAdd(T *at, T value)
{
    T old = *at;
    *at = static_cast<T>(old + value);
    return old;
}

template <class T> inline T atomicOr(T *at, T value)
{
    T old = *at;
    *at = old | value;
    return old;
}

template <class T> inline T atomicMin(T *at, T value)
{
    T old = *at;
    *at = std::min(old, value);
    return old;
}

inline int __popc(uint32_t bits)
{
    return __builtin_popcount(bits);
}

inline uint32_t __float_as_uint(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Byte i of the result is byte (selector >> 4 i) & 7 of x (0..3) and y (4..7). */
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector)
{
    uint64_t both = static_cast<uint64_t>(y) << 32 | x;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++)
        out |= static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}

using std::max;
using std::min;

#endif
