#include <immintrin.h>

#include "kernels/cpu/kv_append_isa.h"
#include "kernels/kv_write.h"

/*
 * The encoding of kv_append_plain.h, 32 elements of 16 bits at a time. Counts are multiples of 64.
 *
 * Where x / scale is normal in E4M3, rounding is one addition to the bits of BF16: less the bias of
 * the exponent, plus 7 or 8 for ties to even, shifted by 4. What becomes zero comes out right too,
 * as the bias is taken off with saturation. Only what becomes subnormal needs shifts of its own:
 * magnitudes below 2^-15 of the largest, which are rare, so they are looked for 64 at a time.
 */

static inline __m512i load(const kvt_bf16 *source)
{
    return _mm512_loadu_si512(source);
}

static inline __m512i magnitude(__m512i x)
{
    return _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
}

static inline __mmask32 not_finite(__m512i magnitude)
{
    return _mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16(0x7f80));
}

static bool write_copy(const kvt_bf16 *source, int32_t count, uint8_t *target)
{
    __mmask32 poisoned = 0;
    for (int32_t i = 0; i < count; i += 32) {
        __m512i x = load(source + i);
        poisoned |= not_finite(magnitude(x));
        _mm512_storeu_si512(target + 2 * i, x);
    }
    return poisoned != 0;
}

/* Codes of 32 elements, in words. bias: what the exponent field has more than that of the code. */
static inline __m512i encode(__m512i x, __m512i bias)
{
    const __m512i one = _mm512_set1_epi16(1), zero = _mm512_setzero_si512();
    __m512i size = magnitude(x);
    __m512i significand = _mm512_ternarylogic_epi32(size, _mm512_set1_epi16(0x7f),
                                                    _mm512_set1_epi16(0x80), 0xea); /* a & b | c */
    __m512i base = _mm512_sub_epi16(_mm512_sub_epi16(_mm512_srli_epi16(size, 7), bias), one);
    __m512i shift = _mm512_sub_epi16(_mm512_set1_epi16(4), _mm512_min_epi16(base, zero));
    shift = _mm512_min_epi16(shift, _mm512_set1_epi16(15));
    __m512i half = _mm512_srlv_epi16(_mm512_sllv_epi16(one, shift), one);
    __m512i odd = _mm512_and_si512(_mm512_srlv_epi16(significand, shift), one);
    __m512i rounded =
        _mm512_add_epi16(_mm512_add_epi16(significand, _mm512_sub_epi16(half, one)), odd);
    __m512i code = _mm512_add_epi16(_mm512_slli_epi16(_mm512_max_epi16(base, zero), 3),
                                    _mm512_srlv_epi16(rounded, shift));
    code = _mm512_min_epu16(code, _mm512_set1_epi16(0x7e));
    code = _mm512_ternarylogic_epi32(_mm512_srli_epi16(x, 8), _mm512_set1_epi16(0x80), code, 0xea);
    return _mm512_mask_mov_epi16(code, not_finite(size), _mm512_set1_epi16(KVT_E4M3_NAN));
}

/* The same without subnormals, NaN and infinity; floor: bits of BF16 that are code 0. */
static inline __m512i encode_normal(__m512i x, __m512i floor)
{
    __m512i size = _mm512_subs_epu16(magnitude(x), floor);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi16(size, 4), _mm512_set1_epi16(1));
    __m512i rounded = _mm512_add_epi16(_mm512_add_epi16(size, odd), _mm512_set1_epi16(7));
    __m512i code = _mm512_min_epu16(_mm512_srli_epi16(rounded, 4), _mm512_set1_epi16(0x7e));
    return _mm512_ternarylogic_epi32(_mm512_srli_epi16(x, 8), _mm512_set1_epi16(0x80), code, 0xea);
}

static inline void store_codes(__m512i first, __m512i second, uint8_t *to)
{
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(first)),
                                      _mm512_cvtepi16_epi8(second), 1);
    _mm512_storeu_si512(to, both);
}

/* Codes of x / 2^(bias - 120), saturating; the bias is that of encode. */
KVT_WRITE_INLINE void write_biased(const kvt_bf16 *source, int32_t count, int32_t bias, bool finite,
                                   uint8_t *codes)
{
    const __m512i floor = _mm512_set1_epi16((short)(bias << 7)),
                  wide = _mm512_set1_epi16((short)bias);
    /* above half of the smallest subnormal, below the smallest normal */
    const __m512i low = _mm512_set1_epi16((short)((bias - 3) << 7));
    const __m512i band = _mm512_set1_epi16((4 << 7) - 1);
    for (int32_t i = 0; i < count; i += 64) {
        __m512i x = load(source + i), y = load(source + i + 32);
        __m512i a = _mm512_sub_epi16(_mm512_sub_epi16(magnitude(x), low), _mm512_set1_epi16(1));
        __m512i b = _mm512_sub_epi16(_mm512_sub_epi16(magnitude(y), low), _mm512_set1_epi16(1));
        __mmask32 subnormal = _mm512_cmplt_epu16_mask(a, band) | _mm512_cmplt_epu16_mask(b, band);
        if (subnormal == 0 && finite)
            store_codes(encode_normal(x, floor), encode_normal(y, floor), codes + i);
        else
            store_codes(encode(x, wide), encode(y, wide), codes + i);
    }
}

static inline int32_t largest(__m512i x)
{
    __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    return 0xffff -
           _mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1))), 0);
}

KVT_WRITE_INLINE bool write_group(const kvt_bf16 *source, int32_t count, uint8_t *codes,
                                  uint8_t *scale_at)
{
    __m512i most = _mm512_setzero_si512();
    for (int32_t i = 0; i < count; i += 32)
        most = _mm512_max_epu16(most, magnitude(load(source + i)));
    bool poisoned = not_finite(most) != 0;
    if (poisoned) {
        most = _mm512_setzero_si512();
        for (int32_t i = 0; i < count; i += 32) {
            __m512i size = magnitude(load(source + i));
            most = _mm512_mask_max_epu16(most, ~not_finite(size), most, size);
        }
    }
    /* kvt_fp8_scale on the bits of BF16: 1e-4 lies between 0x38d1 and the next. */
    int32_t amax = largest(most);
    amax = amax < 0x38d2 ? 0x38d1 : amax;
    int32_t exponent = (amax >> 7) - 8 + ((amax & 0x7f) > 0x60);
    uint32_t scale = (uint32_t)exponent << 23;
    __builtin_memcpy(scale_at, &scale, sizeof scale);
    write_biased(source, count, exponent - 7, !poisoned, codes);
    return poisoned;
}

/* 16 quotients in FP32: the same with a significand of 24 bits, and saturation. */
static inline __m128i encode_quotients(__m256i x, __m512 scale)
{
    const __m512i one = _mm512_set1_epi32(1), zero = _mm512_setzero_si512();
    __m512i wide = _mm512_cvtepu16_epi32(x);
    __m512i bits = _mm512_slli_epi32(_mm512_and_si512(wide, _mm512_set1_epi32(0x7fff)), 16);
    __mmask16 bad = _mm512_cmpge_epu32_mask(bits, _mm512_set1_epi32(0x7f800000));
    __m512i size = _mm512_castps_si512(_mm512_div_ps(_mm512_castsi512_ps(bits), scale));
    __m512i significand = _mm512_ternarylogic_epi32(size, _mm512_set1_epi32(0x7fffff),
                                                    _mm512_set1_epi32(0x800000), 0xea);
    __m512i base = _mm512_sub_epi32(_mm512_srli_epi32(size, 23), _mm512_set1_epi32(121));
    __m512i shift = _mm512_sub_epi32(_mm512_set1_epi32(20), _mm512_min_epi32(base, zero));
    shift = _mm512_min_epi32(shift, _mm512_set1_epi32(30));
    __m512i half = _mm512_srli_epi32(_mm512_sllv_epi32(one, shift), 1);
    __m512i odd = _mm512_and_si512(_mm512_srlv_epi32(significand, shift), one);
    __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(significand, _mm512_sub_epi32(half, one)), odd);
    __m512i code = _mm512_add_epi32(_mm512_slli_epi32(_mm512_max_epi32(base, zero), 3),
                                    _mm512_srlv_epi32(rounded, shift));
    __mmask16 large = _mm512_cmpge_epu32_mask(size, _mm512_set1_epi32(0x43e00000));
    code = _mm512_mask_mov_epi32(code, large, _mm512_set1_epi32(0x7e));
    code =
        _mm512_ternarylogic_epi32(_mm512_srli_epi32(wide, 8), _mm512_set1_epi32(0x80), code, 0xea);
    return _mm512_cvtepi32_epi8(_mm512_mask_mov_epi32(code, bad, _mm512_set1_epi32(KVT_E4M3_NAN)));
}

static bool has_infinity_or_nan(const kvt_bf16 *source, int32_t count)
{
    __m512i most = _mm512_setzero_si512();
    for (int32_t i = 0; i < count; i += 32)
        most = _mm512_max_epu16(most, magnitude(load(source + i)));
    return not_finite(most) != 0;
}

/* A quotient by a power of two is exact, and the bits of BF16 do. */
static bool write_codes(const kvt_bf16 *source, int32_t count, float scale, uint8_t *codes)
{
    uint32_t bits;
    __mmask32 poisoned = 0;
    __builtin_memcpy(&bits, &scale, sizeof bits);
    int32_t bias = (int32_t)(bits >> 23) - 7;
    if ((bits & 0x7fffff) == 0 && bias > 3 && bias < 240) {
        bool bad = has_infinity_or_nan(source, count);
        write_biased(source, count, bias, !bad, codes);
        return bad;
    }
    const __m512 scales = _mm512_set1_ps(scale);
    for (int32_t i = 0; i < count; i += 32) {
        __m512i x = load(source + i);
        poisoned |= not_finite(magnitude(x));
        _mm_storeu_si128((__m128i *)(void *)(codes + i),
                         encode_quotients(_mm512_castsi512_si256(x), scales));
        _mm_storeu_si128((__m128i *)(void *)(codes + i + 16),
                         encode_quotients(_mm512_extracti64x4_epi64(x, 1), scales));
    }
    return poisoned != 0;
}

static const struct kvt_write by_avx512 = {write_copy, write_codes, write_group};

static int32_t write_tokens(const struct kvt_kv_append *append, int32_t first, int32_t last)
{
    return kvt_write_tokens(&by_avx512, append, first, last);
}

static void write_page(const struct kvt_kv_convert *convert, int32_t i)
{
    kvt_write_page(&by_avx512, convert, i);
}

const struct kvt_kv_append_isa kvt_kv_append_avx512 = {write_tokens, write_page};
