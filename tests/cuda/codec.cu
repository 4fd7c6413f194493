/* The conversions of device.cuh over all their inputs: the twins when emulated, the PTX on a GPU.
 */
#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "tests/cuda/cuda_check.h"

enum what {
    E4M3_TO_F16,
    BF16_TO_E4M3,
    F32_TO_BF16,
    F32_TO_F16,
    NIBBLES,
    F16_PRODUCT,
    SCALES,
    EXP2
};

struct codec_args {
    int32_t what, count;
    const uint32_t *in;
    uint32_t *out;
};

/* budget codec_k 32 */
__global__ void codec_k(struct codec_args args)
{
    int32_t i = (int32_t)(blockIdx.x * 256 + threadIdx.x);
    if (i >= args.count)
        return;
    uint32_t x = args.in[i], out = 0;
    float value = __uint_as_float(x);
    switch (args.what) {
    case E4M3_TO_F16:
        out = kvt_f16x2_from_e4m3x2(x);
        break;
    case BF16_TO_E4M3:
        out = kvt_e4m3x2(kvt_bf16_low(x), kvt_bf16_high(x));
        break;
    case F32_TO_BF16:
        out = kvt_bf16x2(value, -value);
        break;
    case F32_TO_F16:
        out = kvt_f16x2(value, -value);
        break;
    case NIBBLES:
        out = kvt_bf16x2_from_nibbles(x, i % 4);
        break;
    case F16_PRODUCT:
        out = kvt_f16x2_mul(x, 0x3c001400u); /* 2^-10 and 1 */
        break;
    case SCALES:
        out = __float_as_uint(kvt_fp8_scale_of(value));
        break;
    case EXP2:
        out = __float_as_uint(kvt_exp2(value));
        break;
    }
    args.out[i] = out;
}

static std::vector<uint32_t> through(enum what what, const std::vector<uint32_t> &in)
{
    on_device<uint32_t> from(in), to(std::vector<uint32_t>(in.size()));
    struct codec_args args = {what, static_cast<int32_t>(in.size()), from.get(), to.get()};
    struct kvt_err err = {};
    if (KVT_LAUNCH(codec_k, dim3(static_cast<unsigned>((in.size() + 255) / 256)), 256, 0, nullptr,
                   args, &err) != KVT_OK)
        check_failed(__FILE__, __LINE__, "%s", err.text);
    return to.read();
}

static float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t as_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A definition of its own: the value of a half. */
static double half_value(uint32_t h)
{
    int exponent = h >> 10 & 31;
    double mantissa = h & 0x3ff, sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return mantissa > 0 ? NAN : sign * INFINITY;
    return sign *
           (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

static void e4m3_to_f16()
{
    std::vector<uint32_t> in;
    for (uint32_t i = 0; i < 65536; i++)
        in.push_back(i);
    std::vector<uint32_t> out = through(E4M3_TO_F16, in);
    for (uint32_t i = 0; i < 65536; i++)
        for (int half = 0; half < 2; half++) {
            float want = kvt_e4m3_to_float(static_cast<kvt_e4m3>(i >> 8 * half & 0xff));
            double got = half_value(out[i] >> 16 * half & 0xffff);
            bool same = std::isnan(want) ? std::isnan(got)
                                         : got == static_cast<double>(want) &&
                                               std::signbit(got) == std::signbit(want);
            CHECK(same, "code %02x: got %g, want %g", i >> 8 * half & 0xff, got,
                  static_cast<double>(want));
        }
}

static void bf16_to_e4m3()
{
    std::vector<uint32_t> in;
    for (uint32_t i = 0; i < 65536; i++)
        in.push_back(i | (i ^ 0x8000) << 16);
    std::vector<uint32_t> out = through(BF16_TO_E4M3, in);
    for (uint32_t i = 0; i < 65536; i++) {
        kvt_e4m3 low = kvt_e4m3_from_float(as_float(i << 16));
        kvt_e4m3 high = kvt_e4m3_from_float(as_float((i ^ 0x8000) << 16));
        CHECK(out[i] == (static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 8),
              "%04x: got %04x, want %02x%02x", i, out[i], high, low);
    }
}

/* Every exponent and sign, mantissas around each tie of either format, and noise. */
static std::vector<uint32_t> floats()
{
    std::vector<uint32_t> in;
    for (uint32_t exponent = 0; exponent < 256; exponent++)
        for (uint32_t mantissa : {0u, 1u, 0x7fffffu, 0x7f8000u, 0x7f7fffu, 0x8000u, 0x7fffu,
                                  0x8001u, 0x18000u, 0x1000u, 0xfffu, 0x1001u, 0x3000u, 0x7ff000u,
                                  0x7fefffu, 0x400000u, 0x600000u, 0x600001u, 0x5fffffu})
            in.push_back(exponent << 23 | mantissa);
    noise noise(7);
    for (int i = 0; i < 20000; i++)
        in.push_back(static_cast<uint32_t>(noise.next()));
    return in;
}

static void f32_to_bf16()
{
    std::vector<uint32_t> in = floats(), out = through(F32_TO_BF16, in);
    for (size_t i = 0; i < in.size(); i++) {
        float value = as_float(in[i]);
        uint32_t want = static_cast<uint32_t>(kvt_bf16_from_float(value)) |
                        static_cast<uint32_t>(kvt_bf16_from_float(-value)) << 16;
        if (std::isnan(value))
            want = 0x7fff7fff;
        CHECK(out[i] == want, "%08x: got %08x, want %08x", in[i], out[i], want);
    }
}

/* The nearest half: no other is nearer, and of two as near it is the even one. */
static void f32_to_f16()
{
    std::vector<uint32_t> in = floats(), out = through(F32_TO_F16, in);
    for (size_t i = 0; i < in.size(); i++) {
        double value = static_cast<double>(as_float(in[i]));
        uint32_t code = out[i] & 0xffff;
        if (std::isnan(value)) {
            CHECK(out[i] == 0x7fff7fff, "%08x: got %08x", in[i], out[i]);
            continue;
        }
        CHECK(out[i] >> 16 == (code ^ 0x8000), "%08x: got %08x", in[i], out[i]);
        double magnitude = std::fabs(value);
        uint32_t up = code & 0x7fff;
        auto distance = [magnitude](uint32_t c) {
            return std::fabs(magnitude - (c == 0x7c00 ? 65536.0 : half_value(c)));
        };
        bool best = (code >> 15) == (in[i] >> 31) &&
                    (magnitude >= 65520 ? up == 0x7c00
                                        : (up == 0 || distance(up - 1) > distance(up) ||
                                           (distance(up - 1) == distance(up) && up % 2 == 0)) &&
                                              (distance(up + 1) > distance(up) ||
                                               (distance(up + 1) == distance(up) && up % 2 == 0)));
        CHECK(best, "%08x: got %04x", in[i], code);
    }
}

static void nibbles()
{
    std::vector<uint32_t> in;
    noise noise(11);
    for (int i = 0; i < 4096; i++)
        in.push_back(static_cast<uint32_t>(noise.next()));
    std::vector<uint32_t> out = through(NIBBLES, in);
    for (uint32_t i = 0; i < in.size(); i++)
        for (uint32_t half = 0; half < 2; half++) {
            float want = static_cast<float>(in[i] >> 4 * (i % 4 + 4 * half) & 15) - 8.0f;
            float got = as_float((out[i] >> 16 * half & 0xffff) << 16);
            CHECK(got == want, "word %08x nibble %u: got %g, want %g", in[i], i % 4 + 4 * half,
                  static_cast<double>(got), static_cast<double>(want));
        }
}

static void f16_product()
{
    std::vector<uint32_t> in;
    for (uint32_t i = 0; i < 0x7c00; i++)
        in.push_back(i | i << 16);
    std::vector<uint32_t> out = through(F16_PRODUCT, in);
    for (uint32_t i = 0; i < in.size(); i++) {
        double want = std::ldexp(half_value(i), -10), unit = 0x1p-24;
        if (want < 0x1p-14) /* into the subnormals: to the nearest unit, ties to even */
            want = std::nearbyint(want / unit) * unit;
        CHECK(half_value(out[i] & 0xffff) == want && out[i] >> 16 == i, "%04x: got %08x", i,
              out[i]);
    }
}

static void scales()
{
    std::vector<uint32_t> in;
    for (uint32_t i = 0; i < 0x7f80; i++)
        in.push_back(i << 16);
    for (uint32_t i = 0; i < 64; i++)
        in.push_back(as_bits(std::ldexp(1.75f, static_cast<int>(i) - 20)) + i % 3 - 1);
    std::vector<uint32_t> out = through(SCALES, in);
    for (size_t i = 0; i < in.size(); i++)
        CHECK(out[i] == as_bits(kvt_fp8_scale(as_float(in[i]))), "amax %08x: got %08x", in[i],
              out[i]);
}

static void exp2_of()
{
    std::vector<uint32_t> in = {as_bits(-INFINITY), as_bits(0.0f)};
    for (int i = 1; i < 4000; i++)
        in.push_back(as_bits(static_cast<float>(i) * -0.03f));
    std::vector<uint32_t> out = through(EXP2, in);
    CHECK(out[0] == 0 && out[1] == as_bits(1.0f), "got %08x and %08x", out[0], out[1]);
    for (size_t i = 2; i < in.size(); i++) {
        double want = std::exp2(static_cast<double>(as_float(in[i])));
        double got = static_cast<double>(as_float(out[i]));
        CHECK(std::fabs(got - want) <= 3e-7 * want, "2^%g: got %g, want %g",
              static_cast<double>(as_float(in[i])), got, want);
    }
}

const struct cuda_test codec_tests[] = {
    {"codec: E4M3 to FP16 is exact for all pairs of codes", e4m3_to_f16},
    {"codec: BF16 to E4M3 is the reference's for all codes", bf16_to_e4m3},
    {"codec: float to BF16 is the reference's", f32_to_bf16},
    {"codec: float to FP16 is the nearest", f32_to_f16},
    {"codec: nibbles less 8 are exact", nibbles},
    {"codec: FP16 products round once", f16_product},
    {"codec: the FP8 scale is the reference's for all BF16", scales},
    {"codec: 2^x to 3e-7", exp2_of},
    {nullptr, nullptr},
};
