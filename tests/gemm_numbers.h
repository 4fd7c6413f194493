/*
 * gemm_numbers.h - what the tests of the GEMMs share: random numbers, guarded memory, every
 * instruction set in turn, and how near a result has to be
 */
#ifndef KVT_TESTS_GEMM_NUMBERS_H
#define KVT_TESTS_GEMM_NUMBERS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/formats.h"
#include "sim/base/random.h"
#include "tests/check.h"

static struct kvt_stream stream;

static inline void restart(uint64_t entity)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, entity);
}

static inline float number(void)
{
    return (float)(2.0 * kvt_stream_unit(&stream) - 1.0);
}

static inline void *room(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (memory == NULL)
        abort();
    memset(memory, 0xa5, (bytes + 127) / 64 * 64);
    return memory;
}

static inline kvt_bf16 *numbers(int64_t count)
{
    kvt_bf16 *out = room((size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        out[i] = kvt_bf16_from_float(number());
    return out;
}

/* run once with each instruction set of this machine. */
static inline void with_each_isa(void (*run)(const char *name))
{
    enum kvt_isa before = kvt_isa();
    for (enum kvt_isa isa = KVT_ISA_PORTABLE; isa < KVT_ISA_COUNT; isa++)
        if (kvt_isa_set(isa))
            run(kvt_isa_name(isa));
    kvt_isa_set(before);
}

/* got against want, which was rounded to BF16 as well: the mean error and the angle. */
static inline void check_within(const kvt_bf16 *got, const kvt_bf16 *want, int64_t count,
                                double bound, const char *note)
{
    double error = 0.0, size = 0.0, gg = 0.0, ww = 0.0, gw = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double g = (double)kvt_bf16_to_float(got[i]), w = (double)kvt_bf16_to_float(want[i]);
        error += fabs(g - w);
        size += fabs(w);
        gg += g * g;
        ww += w * w;
        gw += g * w;
    }
    CHECK_NOTE(error < bound * size, note);
    CHECK_NOTE(1.0 - 2.0 * gw / (gg + ww) < bound / 100.0, note);
}

/* Ten times tighter than the contract, because FP32 sums are. */
static inline void check_close_all(const kvt_bf16 *got, const kvt_bf16 *want, int64_t count,
                                   const char *note)
{
    check_within(got, want, count, 1e-4, note);
}

static const int32_t row_counts[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 33, 64, 65, 130};
#define ROW_COUNTS (sizeof row_counts / sizeof row_counts[0])

#endif
