/*
 * ticks.h - simulated time: exact integers, no rounding inside the engine
 *
 * One tick is 2^-10 ns. An int64_t of ticks spans 104 days. The engine adds, compares and sums
 * ticks and nothing else; nanoseconds and seconds exist in configs, traces and outputs only, and
 * only outputs round. Durations that come from a rate round up, so that no transfer is free.
 */
#ifndef KVT_BASE_TICKS_H
#define KVT_BASE_TICKS_H

#include <stdint.h>

#include "sim/base/assert.h"

typedef int64_t kvt_ticks;
__extension__ typedef __int128 kvt_i128;
__extension__ typedef unsigned __int128 kvt_u128;

#define KVT_TICKS_PER_NS INT64_C(1024)
#define KVT_TICKS_PER_US (1000 * KVT_TICKS_PER_NS)
#define KVT_TICKS_PER_MS (1000 * KVT_TICKS_PER_US)
#define KVT_TICKS_PER_S  (1000 * KVT_TICKS_PER_MS)
#define KVT_NEVER        INT64_MAX /* later than every time that can be reached */

/* Nearest nanosecond, halves up; only for outputs. t >= 0. */
static inline int64_t kvt_ns_from_ticks(kvt_ticks t)
{
    return (t >> 10) + ((t >> 9) & 1);
}

static inline kvt_ticks kvt_ticks_from_ns(int64_t ns)
{
    kvt_assert(ns <= INT64_MAX / KVT_TICKS_PER_NS);
    return ns * KVT_TICKS_PER_NS;
}

static inline double kvt_seconds_from_ticks(kvt_ticks t)
{
    return (double)t / (double)KVT_TICKS_PER_S;
}

/* Nearest tick; saturates at 104 days. For configs, traces and frozen tables only. seconds >= 0. */
kvt_ticks kvt_ticks_from_seconds(double seconds);

/* ceil(a / b). a >= 0, b > 0, and their sum is no more than INT64_MAX. */
static inline int64_t kvt_div_ceil(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ceil(a * b / c) without overflow in between; saturates at INT64_MAX. a, b >= 0, c > 0. */
static inline int64_t kvt_muldiv_ceil(int64_t a, int64_t b, int64_t c)
{
    kvt_assert(a >= 0);
    kvt_assert(b >= 0);
    kvt_assert(c > 0);
    int64_t product;
    if (!__builtin_mul_overflow(a, b, &product) && product <= INT64_MAX - c)
        return (product + c - 1) / c; /* nearly always: no 128-bit division */
    kvt_u128 q = ((kvt_u128)a * (kvt_u128)b + (kvt_u128)(c - 1)) / (kvt_u128)c;
    return q > (kvt_u128)INT64_MAX ? INT64_MAX : (int64_t)q;
}

#endif
