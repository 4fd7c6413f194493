/* INT4, elementwise, ceilings: against the references. */
#include <cmath>

#include "tests/cuda/cuda_check.h"

static double value_of(kvt_bf16 code)
{
    return static_cast<double>(kvt_bf16_to_float(code));
}

static std::vector<kvt_bf16> values(size_t count, uint64_t seed, float deviation)
{
    noise noise(seed);
    std::vector<kvt_bf16> out(count);
    for (kvt_bf16 &value : out)
        value = noise.bf16(deviation);
    return out;
}

/* ---- INT4 ---- */

struct weights {
    std::vector<uint32_t> nibbles;
    std::vector<kvt_bf16> scales;
    struct kvt_int4_plain plain;
    std::vector<uint8_t> packed;
};

static void make_weights(int32_t n, int32_t k, int32_t group, uint64_t seed, struct weights *w)
{
    noise noise(seed);
    w->nibbles.resize(static_cast<size_t>(n) * static_cast<size_t>(k / 8));
    for (uint32_t &word : w->nibbles)
        word = static_cast<uint32_t>(noise.next()); /* all 16 codes */
    w->scales.resize(static_cast<size_t>(n) * static_cast<size_t>(k / group));
    for (kvt_bf16 &scale : w->scales)
        scale = kvt_bf16_from_float(std::exp2(noise.normal()) * 0.01f);
    w->plain = {n, k, group, w->nibbles.data(), w->scales.data()};
    w->packed.assign(kvt_cuda_int4_packed_bytes(n, k, group), 0xcd);
    kvt_cuda_int4_pack(&w->plain, w->packed.data());
}

static void packing_is_a_bijection()
{
    for (int32_t n : {1, 16, 17, 50})
        for (int32_t k : {32, 96, 128, 384})
            for (int32_t group : {32, 128}) {
                if (k % group != 0)
                    continue;
                struct weights w;
                make_weights(n, k, group, static_cast<uint64_t>(n * k), &w);
                std::vector<uint32_t> nibbles(w.nibbles.size(), 0x12345678);
                std::vector<kvt_bf16> scales(w.scales.size(), 0x1234);
                struct kvt_int4_plain plain = {n, k, group, nibbles.data(), scales.data()};
                kvt_cuda_int4_unpack(w.packed.data(), &plain);
                CHECK(nibbles == w.nibbles && scales == w.scales, "n %d, k %d, group %d", n, k,
                      group);
            }
}

/* The reference in double precision, before its rounding; int4.h's tolerance. */
static void compare_rows(const char *what, const struct weights &w, const std::vector<kvt_bf16> &a,
                         const kvt_bf16 *got, int32_t rows)
{
    double off = 0, size = 0, worst = 0;
    int32_t n = w.plain.n, k = w.plain.k;
    for (int32_t i = 0; i < rows; i++)
        for (int32_t j = 0; j < n; j++) {
            double sum = 0;
            for (int32_t c = 0; c < k; c++) {
                uint32_t word = w.nibbles[static_cast<size_t>(j * (k / 8) + c / 8)];
                double weight =
                    (static_cast<int>(word >> 4 * (c % 8) & 15) - 8) *
                    value_of(
                        w.scales[static_cast<size_t>(j * (k / w.plain.group) + c / w.plain.group)]);
                sum += weight * value_of(a[static_cast<size_t>(i * k + c)]);
            }
            double x = value_of(
                got[static_cast<size_t>(i) * static_cast<size_t>(n) + static_cast<size_t>(j)]);
            /* What the rounding of the exact result explains is taken off: half a unit. */
            double unit = std::exp2(std::ilogb(std::fmax(std::fabs(sum), 1e-30)) - 8);
            double rest = std::fmax(0.0, std::fabs(x - sum) - unit);
            off += rest;
            size += std::fabs(sum);
            worst = std::fmax(worst, rest / (unit + 1e-30));
            if (!(std::fabs(x - sum) <= unit * 2 + 1e-3 * std::fabs(sum) + 1e-3))
                off += 1e9;
        }
    CHECK(off < 1e-3 * size, "%s: mean error %g of %g, worst %g units", what, off, size, worst);
}

static void int4_of(int32_t m, int32_t n, int32_t k, int32_t group)
{
    struct weights w;
    make_weights(n, k, group, static_cast<uint64_t>(m + n + k), &w);
    std::vector<kvt_bf16> a = values(static_cast<size_t>(m) * static_cast<size_t>(k), 3, 1.7f);
    std::vector<kvt_bf16> out(static_cast<size_t>(m) * static_cast<size_t>(n), 0x7fc1);
    on_device<uint8_t> d_w(w.packed);
    on_device<kvt_bf16> d_a(a), d_out(out);
    struct kvt_int4_gemm gemm = {m, n, k, group, d_a.get(), d_w.get(), d_out.get()};
    RUN(kvt_int4_gemm_check(&gemm, &err));
    RUN(kvt_cuda_int4_gemm(&gemm, nullptr, &err));
    out = d_out.read();
    char what[64];
    snprintf(what, sizeof what, "m %d, n %d, k %d, group %d", m, n, k, group);
    compare_rows(what, w, a, out.data(), m);
}

static void int4_gemm()
{
    static const int32_t shapes[][4] = {
        {1, 33, 1152, 128}, {2, 16, 128, 128}, {3, 50, 96, 32},    {4, 17, 32, 32},
        {5, 64, 256, 128},  {8, 31, 160, 32},  {15, 40, 384, 128}, {16, 33, 192, 32},
        {17, 20, 128, 128}, {33, 36, 224, 32}, {64, 34, 256, 128}, {65, 16, 64, 32},
    };
    for (const auto &s : shapes)
        int4_of(s[0], s[1], s[2], s[3]);
}

/* Weights in BF16: each is the product rounded, and the GEMM of many rows is of those. */
static void int4_wide()
{
    for (int32_t group : {32, 128}) {
        const int32_t m = 70, n = 50, k = group == 32 ? 96 : 256;
        struct weights w;
        make_weights(n, k, group, 77, &w);
        std::vector<kvt_bf16> plain(static_cast<size_t>(n * k));
        for (size_t i = 0; i < plain.size(); i++) {
            size_t row = i / static_cast<size_t>(k), c = i % static_cast<size_t>(k);
            uint32_t word = w.nibbles[row * static_cast<size_t>(k / 8) + c / 8];
            float code = static_cast<float>(static_cast<int>(word >> 4 * (c % 8) & 15) - 8);
            size_t scale = row * static_cast<size_t>(k / group) + c / static_cast<size_t>(group);
            plain[i] = kvt_bf16_from_float(code * kvt_bf16_to_float(w.scales[scale]));
        }
        on_device<uint8_t> d_w(w.packed);
        on_device<kvt_bf16> d_plain(std::vector<kvt_bf16>(plain.size(), 0x7fc1));
        RUN(kvt_cuda_int4_dequantise(d_w.get(), n, k, group, d_plain.get(), nullptr, &err));
        CHECK(d_plain.read() == plain, "group %d: other weights", group);
        std::vector<kvt_bf16> a = values(static_cast<size_t>(m * k), 3, 1.7f),
                              out(static_cast<size_t>(m * n), 0x7fc1), want = out;
        on_device<kvt_bf16> d_a(a), d_out(out);
        struct kvt_int4_gemm gemm = {m, n, k, group, d_a.get(), d_w.get(), d_out.get()};
        on_device<uint8_t> d_workspace(std::vector<uint8_t>(kvt_cuda_int4_workspace_bytes(&gemm)));
        RUN(kvt_cuda_int4_gemm_wide(&gemm, d_workspace.get(), nullptr, &err));
        struct kvt_gemm dense = {KVT_GEMM_BF16, m,       n,          k, a.data(),
                                 plain.data(),  nullptr, want.data()};
        kvt_ref_gemm(&dense);
        std::vector<kvt_bf16> got = d_out.read();
        double off = 0, size = 0;
        for (size_t i = 0; i < want.size(); i++) {
            off += std::fabs(value_of(got[i]) - value_of(want[i]));
            size += std::fabs(value_of(want[i]));
        }
        CHECK(off < 4e-3 * size, "group %d: mean error %g", group, off / size);
    }
}

/* NaN and infinity of a row stay in it. */
static void int4_nan()
{
    struct weights w;
    make_weights(20, 128, 128, 9, &w);
    std::vector<kvt_bf16> a = values(3 * 128, 4, 1.0f);
    a[128 + 77] = 0x7fc0;
    std::vector<kvt_bf16> out(3 * 20);
    on_device<uint8_t> d_w(w.packed);
    on_device<kvt_bf16> d_a(a), d_out(out);
    struct kvt_int4_gemm gemm = {3, 20, 128, 128, d_a.get(), d_w.get(), d_out.get()};
    RUN(kvt_cuda_int4_gemm(&gemm, nullptr, &err));
    out = d_out.read();
    for (size_t i = 0; i < out.size(); i++)
        CHECK(std::isnan(value_of(out[i])) == (i / 20 == 1), "element %d", static_cast<int>(i));
}

static void int4_experts()
{
    const int32_t experts = 5, n = 35, k = 192, group = 32;
    static const std::vector<int32_t> begins[] = {
        {0, 0, 3, 3, 20, 21}, {0, 0, 0, 0, 0, 2}, {0, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0, 0}};
    for (const std::vector<int32_t> &begin : begins) {
        int32_t rows = begin.back();
        std::vector<struct weights> w(experts);
        std::vector<uint8_t> packed;
        for (int32_t e = 0; e < experts; e++) {
            struct weights *mine = &w[static_cast<size_t>(e)];
            make_weights(n, k, group, static_cast<uint64_t>(50 + e), mine);
            if (begin[static_cast<size_t>(e)] == begin[static_cast<size_t>(e) + 1])
                std::fill(mine->packed.begin(), mine->packed.end(), 0xff); /* is not read */
            packed.insert(packed.end(), mine->packed.begin(), mine->packed.end());
        }
        std::vector<kvt_bf16> a =
            values(static_cast<size_t>(rows) * static_cast<size_t>(k), 8, 1.0f);
        std::vector<kvt_bf16> out(static_cast<size_t>(rows) * static_cast<size_t>(n), 0x7fc1);
        on_device<uint8_t> d_w(packed);
        on_device<int32_t> d_begin(begin);
        on_device<kvt_bf16> d_a(a), d_out(out);
        struct kvt_int4_experts call = {experts,   n,         k,           group, d_begin.get(),
                                        d_a.get(), d_w.get(), d_out.get(), rows};
        RUN(kvt_cuda_int4_experts(&call, rows, nullptr, &err));
        out = d_out.read();
        for (size_t e = 0; e < static_cast<size_t>(experts); e++) {
            std::vector<kvt_bf16> mine(a.begin() + begin[e] * k, a.begin() + begin[e + 1] * k);
            if (!mine.empty())
                compare_rows("experts", w[e], mine, out.data() + begin[e] * n,
                             begin[e + 1] - begin[e]);
        }
    }
}

/* ---- elementwise ---- */

static void compare(const char *what, const std::vector<kvt_bf16> &got,
                    const std::vector<kvt_bf16> &want)
{
    for (size_t i = 0; i < want.size(); i++) {
        double x = value_of(got[i]), y = value_of(want[i]);
        CHECK((std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= std::fabs(y) / 256 + 1e-30,
              "%s [%d]: got %g, want %g", what, static_cast<int>(i), x, y);
    }
}

static void add_norm()
{
    for (int32_t dim : {1, 100, 515})
        for (bool with_y : {false, true}) {
            size_t count = static_cast<size_t>(3 * dim);
            std::vector<kvt_bf16> y = values(count, 1, 1.0f), out(count),
                                  weight = values(static_cast<size_t>(dim), 2, 1.0f);
            std::vector<float> x(count);
            noise noise(3);
            for (float &value : x)
                value = noise.normal() * 3.0f;
            on_device<float> d_x(x);
            on_device<kvt_bf16> d_y(y), d_weight(weight), d_out(out);
            kvt_ref_add_norm(x.data(), with_y ? y.data() : nullptr, weight.data(), 1e-5f, 3, dim,
                             out.data());
            RUN(kvt_cuda_add_norm(d_x.get(), with_y ? d_y.get() : nullptr, d_weight.get(), 1e-5f, 3,
                                  dim, d_out.get(), nullptr, &err));
            CHECK(d_x.read() == x, "dim %d: another residual", dim);
            compare("add_norm", d_out.read(), out);
        }
}

static void silu_mul()
{
    std::vector<kvt_bf16> in = values(2 * 5 * 77, 4, 3.0f), out(5 * 77);
    in[3] = 0x7fc0;
    on_device<kvt_bf16> d_in(in), d_out(out);
    kvt_ref_silu_mul(in.data(), 5, 77, out.data());
    RUN(kvt_cuda_silu_mul(d_in.get(), 5, 77, d_out.get(), nullptr, &err));
    compare("silu_mul", d_out.read(), out);
}

static void rope()
{
    std::vector<kvt_bf16> x = values(4 * 3 * 80, 5, 1.0f), before = x;
    std::vector<int32_t> position = {0, 1, 4097, 1048573};
    on_device<kvt_bf16> d_x(x);
    on_device<int32_t> d_position(position);
    struct kvt_rope call = {x.data() + 16, position.data(), 4, 3, 64, 240, 80, 1e6};
    kvt_ref_rope(&call);
    call.x = d_x.get() + 16;
    call.position = d_position.get();
    RUN(kvt_cuda_rope(&call, nullptr, &err));
    std::vector<kvt_bf16> got = d_x.read();
    for (size_t i = 0; i < x.size(); i++) {
        size_t within = i % 80;
        if (within < 16) {
            CHECK(got[i] == before[i], "[%d] was touched", static_cast<int>(i));
            continue;
        }
        size_t other = within < 48 ? i + 32 : i - 32;
        double length = std::hypot(value_of(x[i]), value_of(x[other]));
        CHECK(std::fabs(value_of(got[i]) - value_of(x[i])) <= length / 256, "[%d]: got %g, want %g",
              static_cast<int>(i), value_of(got[i]), value_of(x[i]));
    }
}

static void argmax()
{
    for (int32_t columns : {1, 2, 300, 1001}) {
        std::vector<kvt_bf16> logits = values(static_cast<size_t>(6 * columns), 6, 2.0f);
        for (size_t i = 0; i < logits.size(); i++)
            logits[i] &= 0xfff0; /* many equals */
        logits[static_cast<size_t>(3 * columns)] = 0x7fc0;
        for (int32_t j = 0; j < columns; j++)
            logits[static_cast<size_t>(4 * columns + j)] = 0xff80;
        std::vector<int32_t> token(6, -7);
        on_device<kvt_bf16> d_logits(logits);
        on_device<int32_t> d_token(token);
        kvt_ref_argmax(logits.data(), 6, columns, token.data());
        RUN(kvt_cuda_argmax(d_logits.get(), 6, columns, d_token.get(), nullptr, &err));
        CHECK(d_token.read() == token, "%d columns: other tokens", columns);
    }
}

static void gather()
{
    static const std::vector<int32_t> row = {3, 0, 3, 6, 1};
    for (int32_t dim : {8, 33, 64}) {
        std::vector<kvt_bf16> from = values(static_cast<size_t>(7 * dim), 21, 1.0f), want;
        for (int32_t r : row)
            want.insert(want.end(), from.begin() + r * dim, from.begin() + (r + 1) * dim);
        on_device<kvt_bf16> d_from(from), d_out(std::vector<kvt_bf16>(want.size(), 0x7fc1));
        on_device<int32_t> d_row(row);
        RUN(kvt_cuda_gather(d_out.get(), d_from.get(), d_row.get(), 5, static_cast<size_t>(dim) * 2,
                            nullptr, &err));
        CHECK(d_out.read() == want, "rows of %d: others", dim);
    }
}

static void combine()
{
    const int32_t dim = 70;
    static const std::vector<int32_t> place = {0, 4, 2, 5, 1, 3};
    static const std::vector<float> share = {0.25f, 0.75f, 1.0f, -0.5f, 0.3f, 0.7f};
    for (bool add : {false, true}) {
        std::vector<kvt_bf16> in = values(6 * dim, 22, 1.0f), y = values(3 * dim, 23, 1.0f);
        on_device<kvt_bf16> d_in(in), d_y(y);
        on_device<int32_t> d_place(place);
        on_device<float> d_share(share);
        struct kvt_combine call = {y.data(), in.data(), place.data(), share.data(), 3, 2, dim, add};
        kvt_ref_combine(&call);
        call.y = d_y.get();
        call.in = d_in.get();
        call.place = d_place.get();
        call.share = d_share.get();
        RUN(kvt_cuda_combine(&call, nullptr, &err));
        std::vector<kvt_bf16> got = d_y.read();
        for (size_t i = 0; i < y.size(); i++)
            CHECK(std::fabs(value_of(got[i]) - value_of(y[i])) <=
                      std::fabs(value_of(y[i])) / 128 + 1e-3,
                  "[%d]: got %g, want %g", static_cast<int>(i), value_of(got[i]), value_of(y[i]));
    }
}

static void quantise_rows()
{
    std::vector<kvt_bf16> a = values(4 * 300, 7, 5.0f);
    for (size_t i = 600; i < 900; i++)
        a[i] = 0;
    a[5] = 0x7f80;
    on_device<kvt_bf16> d_a(a);
    on_device<kvt_e4m3> d_out(std::vector<kvt_e4m3>(a.size()));
    on_device<float> d_scale(std::vector<float>(4));
    RUN(kvt_cuda_quantise_rows(d_a.get(), 4, 300, d_out.get(), d_scale.get(), nullptr, &err));
    std::vector<kvt_e4m3> out = d_out.read();
    std::vector<float> scale = d_scale.read();
    for (size_t i = 0; i < a.size(); i++) {
        float amax = 0;
        for (size_t j = i / 300 * 300; j < (i / 300 + 1) * 300; j++)
            if (std::isfinite(value_of(a[j])))
                amax = std::fmax(amax, std::fabs(kvt_bf16_to_float(a[j])));
        float want = amax > 0 ? amax / 448.0f : 1.0f;
        CHECK(scale[i / 300] == want, "row %d: another scale", static_cast<int>(i / 300));
        kvt_e4m3 code = i == 5 ? KVT_E4M3_NAN : kvt_e4m3_from_float(kvt_bf16_to_float(a[i]) / want);
        CHECK(out[i] == code, "[%d]: got %02x, want %02x", static_cast<int>(i), out[i], code);
    }
}

static void ceilings()
{
    std::vector<uint32_t> from(4 * 2777);
    uint32_t sum = 0;
    noise noise(8);
    for (uint32_t &word : from)
        sum += word = static_cast<uint32_t>(noise.next());
    on_device<uint32_t> d_from(from), d_to(std::vector<uint32_t>(from.size())),
        d_sum(std::vector<uint32_t>(1));
    RUN(kvt_cuda_ceiling_copy(d_to.get(), d_from.get(), from.size() * 4, nullptr, &err));
    RUN(kvt_cuda_ceiling_read(d_from.get(), from.size() * 4, d_sum.get(), nullptr, &err));
    RUN(kvt_cuda_ceiling_empty(nullptr, &err));
    CHECK(d_to.read() == from, "the copy differs");
    CHECK(d_sum.read()[0] == sum, "got %08x, want %08x", d_sum.read()[0], sum);
}

/* ---- BF16 and FP8: by cuBLASLt; emulated, what stands around it ---- */

/* gemm.h's call against its reference; tolerance is of the mean. */
static void baseline_of(enum kvt_gemm_weights weights, int32_t m, double tolerance)
{
    const int32_t n = 48, k = 256;
    std::vector<kvt_bf16> a = values(static_cast<size_t>(m * k), 11, 1.0f);
    std::vector<kvt_bf16> w = values(static_cast<size_t>(n * k), 12, 0.1f);
    std::vector<kvt_bf16> want(static_cast<size_t>(m * n));
    std::vector<kvt_e4m3> w8(w.size());
    std::vector<float> scale(static_cast<size_t>(n));
    for (size_t i = 0; i < w8.size(); i++)
        w8[i] = kvt_e4m3_from_float(kvt_bf16_to_float(w[i]) * 256);
    for (size_t i = 0; i < scale.size(); i++)
        scale[i] = 0.001f * static_cast<float>(i + 1);
    bool fp8 = weights == KVT_GEMM_FP8;
    const void *plain = fp8 ? static_cast<const void *>(w8.data()) : w.data();
    struct kvt_gemm gemm = {weights, m, n, k, a.data(), plain, scale.data(), want.data()};
    kvt_ref_gemm(&gemm);
    on_device<kvt_bf16> d_a(a), d_w(w), d_out(std::vector<kvt_bf16>(want.size(), 0x7fc1));
    on_device<kvt_e4m3> d_w8(w8);
    on_device<float> d_scale(scale);
    gemm.a = d_a.get();
    gemm.w = fp8 ? static_cast<const void *>(d_w8.get()) : d_w.get();
    gemm.scale = d_scale.get();
    gemm.out = d_out.get();
    on_device<uint8_t> workspace(std::vector<uint8_t>(kvt_cuda_gemm_workspace_bytes(&gemm)));
    RUN(kvt_cuda_gemm(&gemm, workspace.get(), nullptr, &err));
    std::vector<kvt_bf16> got = d_out.read();
    double off = 0, size = 0;
    for (size_t i = 0; i < want.size(); i++) {
        off += std::fabs(value_of(got[i]) - value_of(want[i]));
        size += std::fabs(value_of(want[i]));
    }
    CHECK(off < tolerance * size, "%s, m %d: mean error %g", fp8 ? "FP8" : "BF16", m, off / size);
}

static void gemm_baselines()
{
    for (int32_t m : {1, 16, 37}) {
        baseline_of(KVT_GEMM_BF16, m, 4e-3);
        baseline_of(KVT_GEMM_FP8, m, 4e-2); /* activations are E4M3 too: 3 mantissa bits */
    }
}

const struct cuda_test gemm_tests[] = {
    {"int4: packing is a bijection", packing_is_a_bijection},
    {"int4: GEMM within 1e-3 of the exact product, ragged m, n and k", int4_gemm},
    {"int4: many rows over weights in BF16", int4_wide},
    {"int4: a NaN stays in its row", int4_nan},
    {"int4: experts, empty ones are not read", int4_experts},
    {"elementwise: add_norm", add_norm},
    {"elementwise: silu_mul", silu_mul},
    {"elementwise: rope at positions up to a million, other elements untouched", rope},
    {"elementwise: argmax is exact, with ties and NaN", argmax},
    {"elementwise: rows to E4M3", quantise_rows},
    {"elementwise: gather", gather},
    {"elementwise: combine", combine},
    {"ceilings: copy and read", ceilings},
    {"gemm: BF16, and FP8 with quantised rows and padding", gemm_baselines},
    {nullptr, nullptr},
};
