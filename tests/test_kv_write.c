#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/formats.h"
#include "kernels/kv_append.h"
#include "sim/base/random.h"
#include "tests/check.h"

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- the formats, against definitions that share nothing with them ---- */

static double e4m3_by_definition(int code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double magnitude = exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

/* The nearest of the 127 finite magnitudes, the even code of two that are as near. */
static int e4m3_nearest(double value)
{
    if (isnan(value))
        return 0x7f;
    double magnitude = fabs(value);
    int best = 0;
    for (int code = 1; code < 0x7f; code++) {
        double was = fabs(magnitude - e4m3_by_definition(best));
        double is = fabs(magnitude - e4m3_by_definition(code));
        if (is < was || (is == was && (code & 1) == 0))
            best = code;
    }
    if (magnitude > 448)
        best = 0x7e;
    return best | (signbit(value) ? 0x80 : 0);
}

static void e4m3_decodes(void)
{
    for (int code = 0; code < 256; code++) {
        float got = kvt_e4m3_to_float((kvt_e4m3)code);
        char note[32];
        snprintf(note, sizeof note, "code 0x%02x", code);
        if ((code & 0x7f) == 0x7f) {
            CHECK_NOTE(isnan(got), note);
        } else {
            CHECK_NOTE((double)got == e4m3_by_definition(code), note);
            CHECK_NOTE(!signbit(got) == !(code & 0x80), note);
        }
    }
}

static void e4m3_encodes_bf16(void)
{
    int wrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = float_of_bits(bits << 16);
        wrong += kvt_e4m3_from_float(value) != e4m3_nearest((double)value);
    }
    CHECK_I64(wrong, 0, "of 65536");
}

static void e4m3_encodes_floats(void)
{
    struct kvt_stream random;
    kvt_stream_init(&random, 1, KVT_PURPOSE_TEST, 1);
    int wrong = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = kvt_stream_u32(&random);
        /* Three of four have an exponent near those of E4M3, half of these lie on or next to a tie
         * of two codes. */
        if (i & 3)
            bits = (bits & 0x807fffff) | (115 + bits % 22) << 23;
        if ((i & 3) > 1)
            bits = ((bits & 0xfff80000) | 0x80000) + (uint32_t)(i % 3) - 1;
        float value = float_of_bits(bits);
        wrong += kvt_e4m3_from_float(value) != e4m3_nearest((double)value);
    }
    CHECK_I64(wrong, 0, "of 20000");
    CHECK_I64(kvt_e4m3_from_float(464), 0x7e, "halfway to a code that is NaN");
    CHECK_I64(kvt_e4m3_from_float(-INFINITY), 0xfe, "saturates");
    CHECK_I64(kvt_e4m3_from_float(-NAN), 0x7f, "no sign");
    CHECK_I64(kvt_e4m3_from_float(1.0625f), 0x38, "a tie goes to the even 1.0");
    CHECK_I64(kvt_e4m3_from_float(0x1p-10f), 0, "half of the smallest");
    CHECK_I64(kvt_e4m3_from_float(-0x1.8p-10f), 0x81, "above half of the smallest");
}

static void bf16_rounds(void)
{
    int wrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        kvt_bf16 back = kvt_bf16_from_float(kvt_bf16_to_float((kvt_bf16)bits));
        bool nan = (bits & 0x7fff) > 0x7f80;
        wrong += nan ? back != (bits | 0x40) : back != bits;
    }
    CHECK_I64(wrong, 0, "there and back");
    static const struct {
        const char *note;
        uint32_t in, want;
    } rows[] = {
        {"below a tie", 0x3f807fff, 0x3f80},       {"a tie, even below", 0x3f808000, 0x3f80},
        {"a tie, even above", 0x3f818000, 0x3f82}, {"above a tie", 0x3f808001, 0x3f81},
        {"carries", 0x3fffffff, 0x4000},           {"to infinity", 0x7f7fffff, 0x7f80},
        {"infinity", 0xff800000, 0xff80},          {"a NaN of low bits", 0x7f800001, 0x7fc0},
        {"a subnormal", 0x00018000, 0x0002},       {"minus zero", 0x80000000, 0x8000},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_I64(kvt_bf16_from_float(float_of_bits(rows[i].in)), rows[i].want, rows[i].note);
}

static void scales_fit(void)
{
    CHECK(isnan(kvt_fp8_scale(NAN)));
    CHECK(isnan(kvt_fp8_scale(INFINITY)));
    for (uint32_t bits = 0; bits < 0x7f80; bits++) {
        double amax = (double)kvt_bf16_to_float((kvt_bf16)bits);
        double scale = (double)kvt_fp8_scale((float)amax);
        int exponent;
        bool power = frexp(scale, &exponent) == 0.5;
        double floor = fmax(amax, (double)1e-4f);
        bool smallest = floor <= 448 * scale && floor > 448 * scale / 2;
        if (!power || !smallest) {
            CHECK_NOTE(power, "a power of two");
            CHECK_NOTE(smallest, "the smallest that holds amax");
        }
    }
    CHECK((double)kvt_fp8_scale(448) == 1);
    CHECK((double)kvt_fp8_scale(nextafterf(448, 1e9f)) == 2);
}

/* ---- layouts ---- */

static void layouts_have_the_published_bytes(void)
{
    static const struct {
        const char *note;
        enum kvt_page_format format;
        int32_t page_tokens, kv_heads, head_dim, tag;
        int64_t page_bytes, tag_offset;
    } rows[] = {
        {"gqa bf16", KVT_PAGE_GQA_BF16, 64, 8, 128, 0, 64 * 4096, -1},
        {"gqa fp8", KVT_PAGE_GQA_FP8, 64, 8, 128, 0, 64 * 8 * 264, -1},
        {"gqa fp8, one token, tag", KVT_PAGE_GQA_FP8, 1, 1, 128, 16, 320, 264},
        {"mla bf16", KVT_PAGE_MLA_BF16, 64, 0, 0, 0, 64 * 1152, -1},
        {"mla plain", KVT_PAGE_MLA_PLAIN, 64, 0, 0, 16, 64 * 576 + 64, 64 * 576},
        {"mla scaled", KVT_PAGE_MLA_SCALED, 64, 0, 0, 0, 64 * 656, -1},
        {"mla scaled, one token", KVT_PAGE_MLA_SCALED, 1, 0, 0, 16, 704, 656},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_page_layout layout;
        struct kvt_err err = {0};
        CHECK_OK(kvt_page_layout_init(&layout, rows[i].format, rows[i].page_tokens,
                                      rows[i].kv_heads, rows[i].head_dim, rows[i].tag, &err),
                 err);
        CHECK_I64(layout.page_bytes, rows[i].page_bytes, rows[i].note);
        CHECK_I64(layout.tag_offset, rows[i].tag_offset, rows[i].note);
    }
}

static void layouts_refuse(void)
{
    static const struct {
        int32_t format, page_tokens, kv_heads, head_dim, tag;
        const char *want;
    } rows[] = {
        {KVT_PAGE_FORMATS, 64, 8, 128, 0, "no format has number 5"},
        {KVT_PAGE_GQA_FP8, 48, 8, 128, 0, "power of two in 1..256, not 48"},
        {KVT_PAGE_MLA_BF16, 512, 8, 128, 0, "power of two in 1..256, not 512"},
        {KVT_PAGE_GQA_FP8, 64, 0, 128, 0, "kv_heads is in 1..128, not 0"},
        {KVT_PAGE_GQA_BF16, 64, 8, 96, 0, "head_dim is 64, 128 or 256, not 96"},
        {KVT_PAGE_MLA_PLAIN, 64, 8, 128, 8, "tag_bytes is 0 or 16, not 8"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_page_layout layout;
        struct kvt_err err = {0};
        CHECK_FAILS(kvt_page_layout_init(&layout, (enum kvt_page_format)rows[i].format,
                                         rows[i].page_tokens, rows[i].kv_heads, rows[i].head_dim,
                                         rows[i].tag, &err),
                    err, KVT_ELIMIT);
        CHECK_HOLDS(err.text, rows[i].want, "layout");
    }
}

const struct check_test check_kv_write[] = {
    {"all 256 codes of E4M3 decode to what the format says", e4m3_decodes, false},
    {"all 65,536 BF16 values encode to the nearest E4M3", e4m3_encodes_bf16, false},
    {"floats on, below and above ties encode to the nearest E4M3", e4m3_encodes_floats, false},
    {"BF16 rounds to the nearest, ties to even, NaN stays NaN", bf16_rounds, false},
    {"a scale is the smallest power of two that holds the largest element", scales_fit, false},
    {"page layouts have the published bytes a token", layouts_have_the_published_bytes, false},
    {"a layout that cannot be is refused with what is wanted", layouts_refuse, false},
    {0},
};
