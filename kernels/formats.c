#include "kernels/formats.h"

#include <string.h>

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define INFINITY_BITS 0x7f800000u

float kvt_bf16_to_float(kvt_bf16 value)
{
    return bits_float((uint32_t)value << 16);
}

kvt_bf16 kvt_bf16_from_float(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffff) > INFINITY_BITS)
        return (kvt_bf16)(bits >> 16 | 0x40);
    return (kvt_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float kvt_e4m3_to_float(kvt_e4m3 code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24, magnitude = code & 0x7f;
    if (magnitude == KVT_E4M3_NAN)
        return bits_float(sign | 0x7fc00000);
    if (magnitude < 8) /* subnormal: eighths of 2^-6 */
        return bits_float(sign | float_bits((float)magnitude * 0x1p-9f));
    return bits_float(sign | ((magnitude << 20) + ((127u - 7) << 23)));
}

kvt_e4m3 kvt_e4m3_from_float(float value)
{
    uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffff;
    kvt_e4m3 sign = (kvt_e4m3)(bits >> 24 & 0x80);
    if (magnitude > INFINITY_BITS)
        return KVT_E4M3_NAN;
    if (magnitude >= 0x43e00000) /* 448 */
        return sign | 0x7e;
    if (magnitude >= 0x3c800000) /* 2^-6 */
        return sign |
               (kvt_e4m3)((magnitude + 0x7ffff + (magnitude >> 20 & 1) - ((127u - 7) << 23)) >> 20);
    /* Below, a code counts multiples of 2^-9: the mantissa is shifted until its unit is that. The
     * code of 2^-6 follows that of the largest subnormal, so rounding up needs no care. */
    uint32_t shift = 127 - 9 + 23 - (magnitude >> 23);
    if (shift > 24)
        return sign;
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    uint32_t quotient = mantissa >> shift, rest = mantissa & ((1u << shift) - 1);
    uint32_t half = 1u << (shift - 1);
    if (rest > half || (rest == half && (quotient & 1)))
        quotient++;
    return sign | (kvt_e4m3)quotient;
}

float kvt_fp8_scale(float amax)
{
    uint32_t bits = float_bits(amax) & 0x7fffffff;
    if (bits >= INFINITY_BITS)
        return bits_float(0x7fc00000);
    if (bits < float_bits(1e-4f))
        bits = float_bits(1e-4f);
    /* 448 is 1.75 * 2^8: one more power of two where the mantissa of amax is above 1.75. */
    uint32_t exponent = (bits >> 23) - 8 + ((bits & 0x7fffff) > 0x600000);
    return bits_float(exponent << 23);
}
