#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/formats.h"
#include "kernels/kv_append.h"
#include "sim/base/random.h"
#include "tests/check.h"
#include "tests/kv_pool.h"

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

/* ---- append and convert ---- */

#define GUARD 4096 /* bytes before and behind a pool */

/* A step that appends tokens to random slots; two equal pools, one for the reference. */
struct step {
    struct kvt_page_layout layout;
    struct kvt_kv_append append;
    int64_t *slot;
    uint64_t *stamp;
    kvt_bf16 *key, *value;
    uint8_t *memory[2];
    struct kvt_page_tag *tags[2];
    size_t pool_bytes;
};

static void step_init(struct step *step, enum kvt_page_format format, int32_t page_tokens,
                      int32_t kv_heads, int32_t head_dim, int32_t tokens, uint64_t seed)
{
    struct kvt_err err = {0};
    CHECK_OK(kvt_page_layout_init(&step->layout, format, page_tokens, kv_heads, head_dim, 16, &err),
             err);
    int32_t pages = tokens / page_tokens + 4;
    int64_t width = (int64_t)step->layout.kv_heads * step->layout.head_dim;
    step->slot = malloc((size_t)(pages * page_tokens) * sizeof *step->slot);
    step->stamp = malloc((size_t)tokens * sizeof *step->stamp);
    step->key = malloc((size_t)(tokens * width) * sizeof *step->key);
    step->value = malloc((size_t)(tokens * width) * sizeof *step->value);
    kv_random(seed, 3, tokens * width, step->key);
    kv_random(seed + 1, 0.01f, tokens * width, step->value);

    struct kvt_stream random;
    kvt_stream_init(&random, seed, KVT_PURPOSE_TEST, 6);
    int64_t slots = (int64_t)pages * page_tokens;
    for (int64_t i = 0; i < slots; i++)
        step->slot[i] = i;
    for (int64_t i = page_tokens; i < slots; i++) { /* page 0 stays out of it */
        int64_t j =
            page_tokens + (int64_t)kvt_stream_below(&random, (uint64_t)(slots - page_tokens));
        int64_t other = step->slot[i];
        step->slot[i] = step->slot[j];
        step->slot[j] = other;
    }
    memmove(step->slot, step->slot + page_tokens, (size_t)tokens * sizeof *step->slot);
    for (int32_t i = 0; i < tokens; i++) {
        step->stamp[i] = 1000 + (uint64_t)(step->slot[i] / page_tokens);
        if (i % 11 == 3)
            step->slot[i] = -1;
    }
    step->pool_bytes = (size_t)(pages * step->layout.page_bytes) + 2 * GUARD;
    for (int i = 0; i < 2; i++) {
        step->memory[i] = aligned_alloc(64, step->pool_bytes);
        memset(step->memory[i], 0x5a, step->pool_bytes);
        step->tags[i] = calloc((size_t)pages, sizeof *step->tags[i]);
    }
    step->append = (struct kvt_kv_append){
        .layout = &step->layout,
        .pool_pages = pages,
        .tokens = tokens,
        .slot = step->slot,
        .key = step->key,
        .value = step->value,
        .plain_scale = 0.0413f,
        .stamp = step->stamp,
    };
}

static void step_release(struct step *step)
{
    free(step->slot);
    free(step->stamp);
    free(step->key);
    free(step->value);
    for (int i = 0; i < 2; i++) {
        free(step->memory[i]);
        free(step->tags[i]);
    }
}

/* Into memory[i]; how many tokens are poisoned. */
static int32_t step_run(struct step *step, int i, void (*run)(const struct kvt_kv_append *append))
{
    int32_t poisoned = 0;
    struct kvt_kv_append append = step->append;
    append.pool = step->memory[i] + GUARD;
    append.tags = step->tags[i];
    append.poisoned = &poisoned;
    memset(step->memory[i], 0x5a, step->pool_bytes);
    memset(step->tags[i], 0, (size_t)append.pool_pages * sizeof *append.tags);
    run(&append);
    return poisoned;
}

static const struct {
    enum kvt_page_format format;
    int32_t page_tokens, kv_heads, head_dim, tokens;
} steps[] = {
    {KVT_PAGE_GQA_BF16, 64, 2, 128, 150}, {KVT_PAGE_GQA_BF16, 1, 3, 64, 9},
    {KVT_PAGE_GQA_FP8, 64, 2, 128, 150},  {KVT_PAGE_GQA_FP8, 16, 1, 256, 33},
    {KVT_PAGE_GQA_FP8, 1, 8, 64, 5},      {KVT_PAGE_MLA_BF16, 64, 1, 0, 70},
    {KVT_PAGE_MLA_PLAIN, 16, 1, 0, 70},   {KVT_PAGE_MLA_SCALED, 64, 1, 0, 70},
    {KVT_PAGE_MLA_SCALED, 1, 1, 0, 1},
};
#define STEPS (sizeof steps / sizeof *steps)

static void step_of(struct step *step, unsigned i)
{
    step_init(step, steps[i].format, steps[i].page_tokens, steps[i].kv_heads, steps[i].head_dim,
              steps[i].tokens, 50 + i);
}

/* Everywhere in the pools: bytes of tokens, of guards, of tokens that nobody wrote. */
static void check_pools_equal(const struct step *step, const char *note)
{
    CHECK_NOTE(memcmp(step->memory[0], step->memory[1], step->pool_bytes) == 0, note);
    CHECK_NOTE(memcmp(step->tags[0], step->tags[1],
                      (size_t)step->append.pool_pages * sizeof *step->tags[0]) == 0,
               note);
}

static void appends_equal_the_reference(void)
{
    enum kvt_isa before = kvt_isa();
    for (unsigned i = 0; i < STEPS; i++) {
        struct step step;
        step_of(&step, i);
        struct kvt_err err = {0};
        CHECK_OK(kvt_kv_append_check(&step.append, &err), err);
        CHECK_I64(step_run(&step, 0, kvt_ref_kv_append), 0, "no token is poisoned");
        for (int isa = 0; isa < KVT_ISA_COUNT; isa++) {
            if (!kvt_isa_set((enum kvt_isa)isa))
                continue;
            CHECK_I64(step_run(&step, 1, kvt_cpu_kv_append), 0, "no token is poisoned");
            check_pools_equal(&step, kvt_isa_name((enum kvt_isa)isa));
        }
        step_release(&step);
    }
    kvt_isa_set(before);
}

/* Every BF16 value, subnormals, NaN and infinities, among neighbours of many sizes. */
static void appends_equal_for_all_values(void)
{
    enum kvt_isa before = kvt_isa();
    for (int format = KVT_PAGE_GQA_BF16; format < KVT_PAGE_FORMATS; format++) {
        struct step step;
        step_init(&step, (enum kvt_page_format)format, 64, 1, 128, 1200, 3);
        int64_t count = (int64_t)step.append.tokens * step.layout.head_dim;
        for (int64_t i = 0; i < 65536; i++) {
            int64_t at = i * 3 % (count / 7) * 7 + i % 7;
            step.key[at] = (kvt_bf16)i;
            step.value[at] = (kvt_bf16)(i * 40503);
        }
        int32_t want = step_run(&step, 0, kvt_ref_kv_append);
        CHECK_NOTE(want > 0, "some tokens are poisoned");
        for (int isa = 0; isa < KVT_ISA_COUNT; isa++) {
            if (!kvt_isa_set((enum kvt_isa)isa))
                continue;
            CHECK_I64(step_run(&step, 1, kvt_cpu_kv_append), want, "poisoned tokens");
            check_pools_equal(&step, kvt_isa_name((enum kvt_isa)isa));
        }
        step_release(&step);
    }
    kvt_isa_set(before);
}

/* What lies in the pool, read back and compared with an encoding that shares no code with ours. */
static int64_t elements_off(const struct step *step, int32_t token, int32_t head)
{
    const struct kvt_page_layout *layout = &step->layout;
    double got[2][KVT_MLA_DIM];
    int32_t position = (int32_t)(step->slot[token] % layout->page_tokens);
    const uint8_t *page =
        step->memory[0] + GUARD + step->slot[token] / layout->page_tokens * layout->page_bytes;
    kvt_page_dequantise(layout, page, position, head, step->append.plain_scale, got[0], got[1]);
    int64_t off = 0, width = (int64_t)layout->kv_heads * layout->head_dim;
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    for (int side = 0; side < (mla ? 1 : 2); side++) {
        const kvt_bf16 *source =
            (side ? step->value : step->key) + token * width + (int64_t)head * layout->head_dim;
        for (int32_t d = 0; d < layout->head_dim; d++) {
            int32_t group = mla ? d / 128 * 128 : 0, end = mla ? group + 128 : layout->head_dim;
            double x = (double)kvt_bf16_to_float(source[d]), amax = 1e-4, scale;
            for (int32_t i = group; i < end && i < layout->head_dim; i++)
                amax = fmax(amax, fabs((double)kvt_bf16_to_float(source[i])));
            bool copied = !kvt_page_format_is_fp8((enum kvt_page_format)layout->format) ||
                          (layout->format == KVT_PAGE_MLA_SCALED && d >= KVT_MLA_LATENT);
            scale = layout->format == KVT_PAGE_MLA_PLAIN ? (double)step->append.plain_scale
                                                         : exp2(ceil(log2(amax / 448)));
            double want = copied ? x : e4m3_by_definition(e4m3_nearest(x / scale)) * scale;
            off += fabs(got[side][d] - want) > 1e-12 * fabs(want);
        }
    }
    return off;
}

static void appended_values_are_the_nearest(void)
{
    for (unsigned i = 0; i < STEPS; i++) {
        struct step step;
        step_of(&step, i);
        step_run(&step, 0, kvt_ref_kv_append);
        int64_t off = 0;
        for (int32_t t = 0; t < step.append.tokens; t++)
            for (int32_t head = 0; step.slot[t] >= 0 && head < step.layout.kv_heads; head++)
                off += elements_off(&step, t, head);
        CHECK_I64(off, 0, kvt_page_format_name(steps[i].format));
        step_release(&step);
    }
}

static void stamps_are_where_they_belong(void)
{
    struct step step;
    step_init(&step, KVT_PAGE_MLA_SCALED, 16, 1, 0, 40, 8);
    step_run(&step, 0, kvt_ref_kv_append);
    for (int32_t page = 0; page < step.append.pool_pages; page++) {
        bool written = false;
        for (int32_t t = 0; t < step.append.tokens; t++)
            written |= step.slot[t] >= 0 && step.slot[t] / 16 == page;
        uint64_t header;
        memcpy(&header,
               step.memory[0] + GUARD + page * step.layout.page_bytes + step.layout.tag_offset, 8);
        uint64_t want = 1000 + (uint64_t)page;
        CHECK(header == (written ? want : UINT64_C(0x5a5a5a5a5a5a5a5a)));
        CHECK(step.tags[0][page].content == (written ? want : 0));
        CHECK(step.tags[0][page].owner == 0);
    }
    step_release(&step);
}

/* Pages of BF16 become what appending their tokens to FP8 pages would have written. */
static void convert_equals_append(enum kvt_page_format from, enum kvt_page_format to,
                                  int32_t page_tokens)
{
    struct step coarse, exact;
    step_init(&exact, from, page_tokens, 2, 128, 4 * page_tokens, 60);
    step_init(&coarse, to, page_tokens, 2, 128, 4 * page_tokens, 60);
    int32_t source[4] = {2, 5, 1, 4}, target[4] = {3, 1, 6, 2};
    int32_t tokens[4] = {page_tokens, page_tokens, 0, (page_tokens + 1) / 2};
    uint64_t stamp[4] = {7, 8, 9, 10};
    int64_t *slots[2] = {exact.slot, coarse.slot};
    for (int side = 0; side < 2; side++)
        for (int32_t t = 0; t < 4 * page_tokens; t++) {
            int32_t page = (side ? target : source)[t / page_tokens];
            bool valid = t % page_tokens < tokens[t / page_tokens];
            slots[side][t] = valid ? (int64_t)page * page_tokens + t % page_tokens : -1;
        }
    for (int32_t t = 0; t < 4 * page_tokens; t++)
        coarse.stamp[t] = stamp[t / page_tokens];
    step_run(&exact, 0, kvt_ref_kv_append);
    step_run(&coarse, 0, kvt_ref_kv_append);
    struct kvt_kv_convert convert = {
        .from = &exact.layout,
        .to = &coarse.layout,
        .source = exact.memory[0] + GUARD,
        .target = coarse.memory[1] + GUARD,
        .source_pages = exact.append.pool_pages,
        .target_pages = coarse.append.pool_pages,
        .pages = 4,
        .source_page = source,
        .target_page = target,
        .tokens = tokens,
        .plain_scale = coarse.append.plain_scale,
        .stamp = stamp,
        .tags = coarse.tags[1],
    };
    struct kvt_err err = {0};
    CHECK_OK(kvt_kv_convert_check(&convert, &err), err);
    kvt_ref_kv_convert(&convert);
    check_pools_equal(&coarse, "reference");
    enum kvt_isa before = kvt_isa();
    for (int isa = 0; isa < KVT_ISA_COUNT; isa++) {
        if (!kvt_isa_set((enum kvt_isa)isa))
            continue;
        memset(coarse.memory[1], 0x5a, coarse.pool_bytes);
        kvt_cpu_kv_convert(&convert);
        check_pools_equal(&coarse, kvt_isa_name((enum kvt_isa)isa));
    }
    kvt_isa_set(before);
    step_release(&exact);
    step_release(&coarse);
}

static void conversions_equal_appends(void)
{
    convert_equals_append(KVT_PAGE_GQA_BF16, KVT_PAGE_GQA_FP8, 64);
    convert_equals_append(KVT_PAGE_GQA_BF16, KVT_PAGE_GQA_FP8, 1);
    convert_equals_append(KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_PLAIN, 16);
    convert_equals_append(KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_SCALED, 64);
}

static void appends_refuse(void)
{
    struct step step;
    step_init(&step, KVT_PAGE_MLA_PLAIN, 16, 1, 0, 20, 9);
    struct kvt_err err = {0};
    CHECK_OK(kvt_kv_append_check(&step.append, &err), err);
#define REFUSED(change, undo, want)                                                                \
    do {                                                                                           \
        struct kvt_kv_append append = step.append;                                                 \
        err = (struct kvt_err){0};                                                                 \
        change;                                                                                    \
        CHECK_FAILS(kvt_kv_append_check(&append, &err), err, KVT_ELIMIT);                          \
        CHECK_HOLDS(err.text, want, "append");                                                     \
        undo;                                                                                      \
    } while (0)
    int64_t was = step.slot[4];
    REFUSED(append.tokens = -1, , "-1 tokens");
    REFUSED(append.plain_scale = 0, , "plain_scale is finite and above 0, not 0");
    REFUSED(append.plain_scale = NAN, , "plain_scale is finite and above 0, not nan");
    REFUSED(append.pool_pages = 1, , "token 0 goes to slot");
    REFUSED(step.slot[4] = -2, , "token 4 goes to slot -2");
    REFUSED(step.slot[4] = 3, , "token 4 goes to slot 3, not in 16..");
    REFUSED(step.slot[4] = 16 * 5, , "token 4 goes to slot 80, not in 16..79");
    REFUSED(step.slot[4] = step.slot[1], , "tokens 1 and 4 both go to slot");
    step.slot[4] = was;
    int32_t other = 0;
    while (step.slot[other] / 16 != was / 16 || step.slot[other] < 0)
        other++;
    REFUSED(step.stamp[4] += 1, step.stamp[4] -= 1, "stamp page");
    step_release(&step);
}

static void conversions_refuse(void)
{
    struct kvt_page_layout bf16, fp8, mla, small;
    struct kvt_err err = {0};
    CHECK_OK(kvt_page_layout_init(&bf16, KVT_PAGE_GQA_BF16, 64, 2, 128, 0, &err), err);
    CHECK_OK(kvt_page_layout_init(&fp8, KVT_PAGE_GQA_FP8, 64, 2, 128, 0, &err), err);
    CHECK_OK(kvt_page_layout_init(&small, KVT_PAGE_GQA_FP8, 32, 2, 128, 0, &err), err);
    CHECK_OK(kvt_page_layout_init(&mla, KVT_PAGE_MLA_PLAIN, 64, 0, 0, 0, &err), err);
    const int32_t good[2] = {1, 2}, far[2] = {1, 9}, twice[2] = {2, 2}, tokens[2] = {64, 3},
                  many[2] = {64, 65};
    static const uint8_t nothing[1];
    struct kvt_kv_convert convert = {.from = &bf16,
                                     .to = &fp8,
                                     .source = nothing,
                                     .source_pages = 9,
                                     .target_pages = 9,
                                     .pages = 2,
                                     .source_page = good,
                                     .target_page = good,
                                     .tokens = tokens};
    CHECK_OK(kvt_kv_convert_check(&convert, &err), err);
#define CONVERT_REFUSED(change, want)                                                              \
    do {                                                                                           \
        struct kvt_kv_convert bad = convert;                                                       \
        err = (struct kvt_err){0};                                                                 \
        change;                                                                                    \
        CHECK_FAILS(kvt_kv_convert_check(&bad, &err), err, KVT_ELIMIT);                            \
        CHECK_HOLDS(err.text, want, "convert");                                                    \
    } while (0)
    CONVERT_REFUSED(bad.to = &mla, "not from gqa-bf16 to mla-plain");
    CONVERT_REFUSED(bad.from = &fp8, "not from gqa-fp8 to gqa-fp8");
    CONVERT_REFUSED(bad.to = &small, "pages of 64 tokens, 2 heads of 128 do not become");
    CONVERT_REFUSED(bad.source_page = far, "entry 1: source page 9 is not in 1..8");
    CONVERT_REFUSED(bad.target_page = far, "entry 1: target page 9 is not in 1..8");
    CONVERT_REFUSED(bad.target_page = twice, "entries 0 and 1 both write page 2");
    CONVERT_REFUSED(bad.tokens = many, "entry 1: 65 tokens in a page of 64");
}

const struct check_test check_kv_write[] = {
    {"all 256 codes of E4M3 decode to what the format says", e4m3_decodes, false},
    {"all 65,536 BF16 values encode to the nearest E4M3", e4m3_encodes_bf16, false},
    {"floats on, below and above ties encode to the nearest E4M3", e4m3_encodes_floats, false},
    {"BF16 rounds to the nearest, ties to even, NaN stays NaN", bf16_rounds, false},
    {"a scale is the smallest power of two that holds the largest element", scales_fit, false},
    {"page layouts have the published bytes a token", layouts_have_the_published_bytes, false},
    {"a layout that cannot be is refused with what is wanted", layouts_refuse, false},
    {"append writes what the reference writes, and nothing else", appends_equal_the_reference,
     false},
    {"so it does for every BF16 value there is", appends_equal_for_all_values, false},
    {"what is read back is the nearest that the format has", appended_values_are_the_nearest,
     false},
    {"pages that got tokens carry their stamp, others do not", stamps_are_where_they_belong, false},
    {"converted pages are what appending to them would have written", conversions_equal_appends,
     false},
    {"append refuses bad slots, scales and stamps by name", appends_refuse, false},
    {"convert refuses bad pages and layouts by name", conversions_refuse, false},
    {0},
};
