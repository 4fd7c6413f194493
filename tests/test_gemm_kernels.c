#include "kernels/gemm.h"

#include <stdio.h>

#include "tests/gemm_numbers.h"

static void *random_weights(enum kvt_gemm_weights weights, int64_t count)
{
    if (weights == KVT_GEMM_BF16)
        return numbers(count);
    kvt_e4m3 *out = room((size_t)count);
    for (int64_t i = 0; i < count; i++)
        do
            out[i] = (kvt_e4m3)kvt_stream_u32(&stream);
        while ((out[i] & 0x7f) == KVT_E4M3_NAN);
    return out;
}

static void check_gemm(enum kvt_gemm_weights weights, int32_t m, int32_t n, int32_t k,
                       const char *isa)
{
    char note[128];
    snprintf(note, sizeof note, "%s, weights %d, m %d, n %d, k %d", isa, weights, m, n, k);
    kvt_bf16 *a = numbers((int64_t)m * k), *want = room((size_t)m * (size_t)n * 2);
    kvt_bf16 *got = room((size_t)m * (size_t)n * 2);
    void *plain = random_weights(weights, (int64_t)n * k);
    void *packed = room(kvt_cpu_gemm_packed_bytes(weights, n, k));
    float *scale = room((size_t)n * sizeof *scale);
    struct kvt_err err = {0};
    for (int32_t i = 0; i < n; i++)
        scale[i] = 1.5f + number();
    struct kvt_gemm gemm = {.weights = (int32_t)weights,
                            .m = m,
                            .n = n,
                            .k = k,
                            .a = a,
                            .w = plain,
                            .scale = scale,
                            .out = want};
    CHECK_OK(kvt_gemm_check(&gemm, &err), err);
    kvt_ref_gemm(&gemm);
    kvt_cpu_gemm_pack(weights, n, k, plain, packed);
    gemm.w = packed;
    gemm.out = got;
    kvt_cpu_gemm(&gemm);
    check_close_all(got, want, (int64_t)m * n, note);
    CHECK_NOTE(((uint8_t *)(got + (int64_t)m * n))[0] == 0xa5, note);
    free(a);
    free(want);
    free(got);
    free(plain);
    free(packed);
    free(scale);
}

static void gemm_shapes(const char *isa)
{
    restart(1);
    for (size_t i = 0; i < ROW_COUNTS; i++) {
        check_gemm(KVT_GEMM_BF16, row_counts[i], 40, 96, isa);
        check_gemm(KVT_GEMM_FP8, row_counts[i], 40, 96, isa);
    }
    static const int32_t odd[][3] = {{1, 1, 1},  {5, 17, 31},   {16, 15, 33},  {3, 33, 2},
                                     {7, 1, 65}, {20, 100, 97}, {64, 16, 127}, {1, 50, 1000}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        check_gemm(KVT_GEMM_BF16, odd[i][0], odd[i][1], odd[i][2], isa);
        check_gemm(KVT_GEMM_FP8, odd[i][0], odd[i][1], odd[i][2], isa);
    }
}

static void gemm_agrees_with_double_precision(void)
{
    with_each_isa(gemm_shapes);
}

/* 64 rows of k 32,768 do not fit a panel: they are passed in several jobs, and in several flushes.
 */
static void long_rows(const char *isa)
{
    restart(2);
    check_gemm(KVT_GEMM_BF16, 70, 20, 32768 + 5, isa);
}

static void rows_that_fill_more_than_a_panel_agree_too(void)
{
    with_each_isa(long_rows);
}

static void packing_is_a_bijection(void)
{
    restart(3);
    static const int32_t shapes[][2] = {{1, 1}, {16, 32}, {17, 33}, {40, 96}, {5, 100}, {100, 7}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int32_t n = shapes[i][0], k = shapes[i][1];
        for (enum kvt_gemm_weights weights = KVT_GEMM_BF16; weights <= KVT_GEMM_FP8; weights++) {
            size_t bytes = (size_t)n * (size_t)k * (weights == KVT_GEMM_BF16 ? 2 : 1);
            size_t packed_bytes = kvt_cpu_gemm_packed_bytes(weights, n, k);
            uint8_t *plain = room(bytes), *packed = room(packed_bytes), *back = room(bytes);
            for (size_t b = 0; b < bytes; b++)
                plain[b] = (uint8_t)kvt_stream_u32(&stream);
            kvt_cpu_gemm_pack(weights, n, k, plain, packed);
            kvt_cpu_gemm_unpack(weights, n, k, packed, back);
            CHECK(memcmp(plain, back, bytes) == 0);
            CHECK_I64(packed[packed_bytes], 0xa5, "nothing behind the packed weights");
            free(plain);
            free(packed);
            free(back);
        }
    }
}

/* A row of a that is 1 at one place picks a weight out: all codes of FP8 come out exactly. */
static void fp8_codes(const char *isa)
{
    kvt_e4m3 plain[256];
    kvt_bf16 a[256] = {0}, out[1];
    float scale = 1.0f;
    void *packed = room(kvt_cpu_gemm_packed_bytes(KVT_GEMM_FP8, 1, 256));
    for (int32_t code = 0; code < 256; code++)
        plain[code] = (code & 0x7f) == KVT_E4M3_NAN ? 0 : (kvt_e4m3)code;
    kvt_cpu_gemm_pack(KVT_GEMM_FP8, 1, 256, plain, packed);
    struct kvt_gemm gemm = {.weights = KVT_GEMM_FP8,
                            .m = 1,
                            .n = 1,
                            .k = 256,
                            .a = a,
                            .w = packed,
                            .scale = &scale,
                            .out = out};
    for (int32_t code = 0; code < 256; code++) {
        a[code] = kvt_bf16_from_float(1.0f);
        kvt_cpu_gemm(&gemm);
        CHECK_NOTE(kvt_bf16_to_float(out[0]) == kvt_e4m3_to_float(plain[code]), isa);
        a[code] = 0;
    }
    plain[77] = 0xff;
    kvt_cpu_gemm_pack(KVT_GEMM_FP8, 1, 256, plain, packed);
    kvt_cpu_gemm(&gemm);
    CHECK_NOTE(isnan(kvt_bf16_to_float(out[0])), isa);
    free(packed);
}

static void every_fp8_code_comes_out_exactly(void)
{
    with_each_isa(fp8_codes);
}

/* NaN in row 2 of a, infinity in row 4; the others must not see them, however ragged k is. */
static void check_poison(const kvt_bf16 *out, int32_t m, int32_t n, const char *isa)
{
    for (int32_t row = 0; row < m; row++) {
        for (int32_t col = 0; col < n; col++) {
            float value = kvt_bf16_to_float(out[row * n + col]);
            bool as_it_should = row == 2   ? isnan(value)
                                : row == 4 ? isinf(value) || isnan(value)
                                           : isfinite(value);
            CHECK_NOTE(as_it_should, isa);
        }
    }
}

static void poisoned_rows(const char *isa)
{
    restart(4);
    for (int32_t k = 32; k <= 37; k += 5) {
        for (int32_t m = 5; m <= 21; m += 8) {
            int32_t n = 19;
            kvt_bf16 *a = numbers((int64_t)m * k), *w = numbers((int64_t)n * k);
            kvt_bf16 *out = room((size_t)(m * n) * 2);
            void *packed = room(kvt_cpu_gemm_packed_bytes(KVT_GEMM_BF16, n, k));
            a[2 * k] = 0x7fc0;
            a[4 * k + k - 1] = 0x7f80;
            kvt_cpu_gemm_pack(KVT_GEMM_BF16, n, k, w, packed);
            struct kvt_gemm gemm = {.m = m, .n = n, .k = k, .a = a, .w = packed, .out = out};
            kvt_cpu_gemm(&gemm);
            check_poison(out, m, n, isa);
            free(a);
            free(w);
            free(out);
            free(packed);
        }
    }
}

static void nan_and_infinity_stay_in_their_rows(void)
{
    with_each_isa(poisoned_rows);
}

/* An earlier call fills the panels with NaN; a later one with a ragged k must not see them. */
static void leftovers(const char *isa)
{
    enum { M = 20, N = 19, K = 96, RAGGED = 37 };
    restart(12);
    kvt_bf16 *a = numbers(M * K), *w = numbers(N * K), *out = room(M * N * 2);
    void *packed = room(kvt_cpu_gemm_packed_bytes(KVT_GEMM_BF16, N, K));
    memset(a, 0xff, M * K * sizeof *a);
    kvt_cpu_gemm_pack(KVT_GEMM_BF16, N, K, w, packed);
    struct kvt_gemm gemm = {.m = M, .n = N, .k = K, .a = a, .w = packed, .out = out};
    kvt_cpu_gemm(&gemm);
    kvt_cpu_gemm_pack(KVT_GEMM_BF16, N, RAGGED, w, packed);
    memset(a, 0, M * K * sizeof *a);
    gemm.k = RAGGED;
    kvt_cpu_gemm(&gemm);
    for (int32_t i = 0; i < M * N; i++)
        CHECK_NOTE(out[i] == 0, isa);
    free(a);
    free(w);
    free(out);
    free(packed);
}

static void what_an_earlier_call_left_does_no_harm(void)
{
    with_each_isa(leftovers);
}

static void check_refused(const struct kvt_gemm *gemm, const char *what)
{
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_gemm_check(gemm, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, what, "the message");
}

static void bad_shapes_are_refused_with_what_was_wanted(void)
{
    kvt_bf16 some[64] = {0};
    float scales[4] = {1.0f, 1.0f, -1.0f, 1.0f};
    const struct kvt_gemm good = {.m = 1, .n = 4, .k = 8, .a = some, .w = some, .out = some};
    struct kvt_gemm bad = good;
    struct kvt_err err = {0};
    CHECK_OK(kvt_gemm_check(&good, &err), err);
    bad.weights = 2;
    check_refused(&bad, "gemm: weights: want BF16 (0) or FP8 (1), got 2");
    bad = good, bad.m = -1;
    check_refused(&bad, "gemm: m: want 0 to 16777216, got -1");
    bad = good, bad.n = 0;
    check_refused(&bad, "gemm: n: want 1 to 16777216, got 0");
    bad = good, bad.k = (1 << 20) + 1;
    check_refused(&bad, "gemm: k: want 1 to 1048576, got 1048577");
    bad = good, bad.n = 1 << 24, bad.k = 1 << 16;
    check_refused(&bad, "gemm: n * k: want 1 to 1099511627775, got 1099511627776");
    bad = good, bad.a = NULL;
    check_refused(&bad, "gemm: a: want 1 rows, got none");
    bad = good, bad.weights = KVT_GEMM_FP8;
    check_refused(&bad, "gemm: scale: want one float a row of w, got none");
    bad.scale = scales;
    check_refused(&bad, "gemm: scale[2]: want a finite number above 0, got -1");
    scales[2] = NAN;
    check_refused(&bad, "gemm: scale[2]: want a finite number above 0, got");
    bad = good, bad.m = 0, bad.a = NULL, bad.out = NULL;
    CHECK_OK(kvt_gemm_check(&bad, &err), err);
    kvt_cpu_gemm(&bad);
}

const struct check_test check_gemm_kernels[] = {
    {"packing weights of BF16 and FP8 is a bijection", packing_is_a_bijection, false},
    {"GEMM agrees with double precision, whatever the shape", gemm_agrees_with_double_precision,
     false},
    {"rows that fill more than a panel agree too", rows_that_fill_more_than_a_panel_agree_too,
     true},
    {"every FP8 code comes out exactly", every_fp8_code_comes_out_exactly, false},
    {"NaN and infinity stay in their rows", nan_and_infinity_stay_in_their_rows, false},
    {"what an earlier call left does no harm", what_an_earlier_call_left_does_no_harm, false},
    {"bad shapes are refused with what was wanted", bad_shapes_are_refused_with_what_was_wanted,
     false},
    {0},
};
