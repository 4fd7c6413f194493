/*
 * formats.h - the three number formats of the kernels: BF16, E4M3 and INT4
 *
 * BF16   sign, 8 exponent bits, 7 mantissa bits: the upper half of a float
 * E4M3   sign, 4 exponent bits (bias 7), 3 mantissa bits; no infinity; 0x7f and 0xff are NaN;
 *        largest 448, smallest normal 2^-6, smallest subnormal 2^-9 (OCP FP8)
 * INT4   0..15 stands for -8..7; a group of 32 or 128 along k shares one BF16 scale
 *
 * From float all round to the nearest, ties to even. BF16 keeps infinities and makes NaN quiet;
 * E4M3 saturates to 448 (infinity too), and a NaN of either sign becomes 0x7f, as cvt.satfinite
 * does on a GPU. These are the definitions that every backend is tested against, for all 65,536 and
 * all 256 codes.
 *
 * FP8 KV scales are powers of two, 2^ceil(log2(max(amax, 1e-4) / 448)): dividing by one and
 * multiplying by it is exact, so an element is rounded once.
 */
#ifndef KVT_KERNELS_FORMATS_H
#define KVT_KERNELS_FORMATS_H

#include <stdint.h>

typedef uint16_t kvt_bf16;
typedef uint8_t kvt_e4m3;

#define KVT_E4M3_MAX 448.0f
#define KVT_E4M3_NAN 0x7f

float kvt_bf16_to_float(kvt_bf16 value);
kvt_bf16 kvt_bf16_from_float(float value);

float kvt_e4m3_to_float(kvt_e4m3 code);
kvt_e4m3 kvt_e4m3_from_float(float value);

/* The power of two by which a group of values whose largest magnitude is amax is divided. NaN and
 * infinity give NaN: such a group is refused before it is written (kv_append.h). */
float kvt_fp8_scale(float amax);

#endif
