/*
 * ceilings.h - how fast this processor does one thing alone: what kernels are measured against
 *
 *   read       every byte once, from four places at a time, and nothing else
 *   copy       every byte read and written once, past the caches where the processor can do that
 *   multiply   products of registers (or tiles), without any memory
 *
 * All threads of OpenMP take part. A rate is bytes (copy: read and written) or FLOPs over the time
 * of the call. What multiplies depends on the level (isa.h):
 *
 *   portable   none: 0 FLOPs
 *   avx2       FP32, fused multiply-add
 *   avx512     vdpbf16ps
 *   amx        vectors as avx512; tiles of BF16
 */
#ifndef KVT_KERNELS_CPU_CEILINGS_H
#define KVT_KERNELS_CPU_CEILINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Aligned to 64; bytes a multiple of 256. The sum of the 32-bit words: all of them count. */
uint32_t kvt_cpu_ceiling_read(const void *from, size_t bytes);

/* The same of both; they do not overlap. */
void kvt_cpu_ceiling_copy(void *to, const void *from, size_t bytes);

/* FLOPs of all threads; 0 where the level has no such unit. A round is some 100 ns. */
double kvt_cpu_ceiling_multiply(bool tiles, int32_t rounds);

/* What a level has to do, in one thread. */
struct kvt_ceilings_isa {
    uint32_t (*read)(const uint8_t *from, size_t bytes);
    void (*copy)(uint8_t *to, const uint8_t *from, size_t bytes);
    double (*vectors)(int32_t rounds);
    double (*tiles)(int32_t rounds);
};

extern const struct kvt_ceilings_isa kvt_ceilings_portable, kvt_ceilings_avx2, kvt_ceilings_avx512,
    kvt_ceilings_amx;

#endif
