#include "kernels/int4.h"

#include <stdio.h>

#include "tests/gemm_numbers.h"

static struct kvt_int4_plain plain_new(int32_t n, int32_t k, int32_t group)
{
    struct kvt_int4_plain plain = {.n = n, .k = k, .group = group};
    plain.nibbles = room((size_t)n * (size_t)k / 2);
    plain.scales = room((size_t)n * (size_t)(k / group) * sizeof(kvt_bf16));
    return plain;
}

static void plain_free(struct kvt_int4_plain *plain)
{
    free(plain->nibbles);
    free(plain->scales);
}

static struct kvt_int4_plain quantised(int32_t n, int32_t k, int32_t group)
{
    struct kvt_int4_plain plain = plain_new(n, k, group);
    float *w = room((size_t)n * (size_t)k * sizeof *w);
    for (int64_t i = 0; i < (int64_t)n * k; i++)
        w[i] = number() * (float)(1 + i / group % 5);
    kvt_int4_quantise(w, &plain);
    free(w);
    return plain;
}

/* Operands of one product of up to m rows, and room for two results. */
struct product {
    struct kvt_int4_plain plain;
    kvt_bf16 *a, *want, *got;
    void *packed;
    struct kvt_int4_gemm gemm; /* into want */
};

static void product_begin(struct product *p, int32_t m, int32_t n, int32_t k, int32_t group)
{
    size_t bytes = (size_t)m * (size_t)n * 2;
    p->plain = quantised(n, k, group);
    p->a = numbers((int64_t)m * k);
    p->want = room(bytes);
    p->got = room(bytes);
    p->packed = room(kvt_cpu_int4_packed_bytes(n, k, group));
    kvt_cpu_int4_pack(&p->plain, p->packed);
    p->gemm = (struct kvt_int4_gemm){
        .m = m, .n = n, .k = k, .group = group, .a = p->a, .w = p->packed, .out = p->want};
}

/* The first m rows, by definition into want, by the kernel into got. */
static void product_both(struct product *p, int32_t m)
{
    p->gemm.m = m;
    p->gemm.out = p->want;
    kvt_ref_int4_gemm(&p->gemm, &p->plain);
    p->gemm.out = p->got;
    kvt_cpu_int4_gemm(&p->gemm);
}

static void product_end(struct product *p)
{
    plain_free(&p->plain);
    free(p->a);
    free(p->want);
    free(p->got);
    free(p->packed);
}

static void check_int4(int32_t m, int32_t n, int32_t k, int32_t group, const char *isa)
{
    char note[128];
    snprintf(note, sizeof note, "%s, m %d, n %d, k %d, group %d", isa, m, n, k, group);
    struct product p;
    struct kvt_err err = {0};
    product_begin(&p, m, n, k, group);
    CHECK_OK(kvt_int4_gemm_check(&p.gemm, &err), err);
    product_both(&p, m);
    check_close_all(p.got, p.want, (int64_t)m * n, note);
    CHECK_NOTE(((uint8_t *)(p.got + (int64_t)m * n))[0] == 0xa5, note);
    product_end(&p);
}

static void int4_shapes(const char *isa)
{
    restart(5);
    for (size_t i = 0; i < ROW_COUNTS; i++) {
        check_int4(row_counts[i], 40, 128, 32, isa);
        check_int4(row_counts[i], 24, 384, 128, isa);
    }
    static const int32_t odd[][4] = {{1, 1, 32, 32},    {4, 17, 160, 32},    {5, 15, 128, 128},
                                     {33, 100, 96, 32}, {16, 16, 1152, 128}, {2, 31, 224, 32}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        check_int4(odd[i][0], odd[i][1], odd[i][2], odd[i][3], isa);
}

static void int4_agrees_with_double_precision(void)
{
    with_each_isa(int4_shapes);
}

static void int4_packing_is_a_bijection(void)
{
    restart(6);
    static const int32_t shapes[][3] = {{1, 32, 32}, {16, 128, 128}, {37, 96, 32}, {20, 640, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int32_t n = shapes[i][0], k = shapes[i][1], group = shapes[i][2];
        struct kvt_int4_plain plain = plain_new(n, k, group), back = plain_new(n, k, group);
        size_t packed_bytes = kvt_cpu_int4_packed_bytes(n, k, group);
        uint8_t *packed = room(packed_bytes);
        for (int64_t word = 0; word < (int64_t)n * k / 8; word++)
            plain.nibbles[word] = kvt_stream_u32(&stream);
        for (int64_t g = 0; g < (int64_t)n * (k / group); g++)
            plain.scales[g] = (kvt_bf16)kvt_stream_u32(&stream);
        kvt_cpu_int4_pack(&plain, packed);
        kvt_cpu_int4_unpack(packed, &back);
        CHECK(memcmp(plain.nibbles, back.nibbles, (size_t)n * (size_t)k / 2) == 0);
        CHECK(memcmp(plain.scales, back.scales, (size_t)n * (size_t)(k / group) * 2) == 0);
        CHECK_I64(packed[packed_bytes], 0xa5, "nothing behind the packed weights");
        plain_free(&plain);
        plain_free(&back);
        free(packed);
    }
}

/* Rows 0, 4, 4, 4, 21, 21, 90: experts without rows first, in between and last; then one expert
 * with all rows. Weights of experts without rows are NaN: nobody may look. */
static void check_experts(const int32_t *row_begin, const char *isa)
{
    enum { EXPERTS = 6, N = 35, K = 128, GROUP = 32 };
    int32_t m = row_begin[EXPERTS];
    struct kvt_int4_plain plain[EXPERTS];
    size_t bytes = kvt_cpu_int4_packed_bytes(N, K, GROUP);
    uint8_t *packed = room(EXPERTS * bytes);
    kvt_bf16 *a = numbers((int64_t)m * K), *want = room((size_t)(m * N) * 2);
    kvt_bf16 *got = room((size_t)(m * N) * 2);
    struct kvt_err err = {0};
    for (int32_t e = 0; e < EXPERTS; e++) {
        plain[e] = quantised(N, K, GROUP);
        if (row_begin[e] == row_begin[e + 1])
            memset(plain[e].scales, 0xff, N * (K / GROUP) * sizeof(kvt_bf16));
        kvt_cpu_int4_pack(&plain[e], packed + (size_t)e * bytes);
    }
    struct kvt_int4_experts experts = {.experts = EXPERTS,
                                       .n = N,
                                       .k = K,
                                       .group = GROUP,
                                       .row_begin = row_begin,
                                       .a = a,
                                       .w = packed,
                                       .out = want};
    CHECK_OK(kvt_int4_experts_check(&experts, &err), err);
    kvt_ref_int4_experts(&experts, plain);
    experts.out = got;
    kvt_cpu_int4_experts(&experts);
    check_close_all(got, want, (int64_t)m * N, isa);
    for (int32_t e = 0; e < EXPERTS; e++)
        plain_free(&plain[e]);
    free(packed);
    free(a);
    free(want);
    free(got);
}

static void experts_of_all_sizes(const char *isa)
{
    restart(7);
    check_experts((const int32_t[]){0, 4, 4, 4, 21, 21, 90}, isa);
    check_experts((const int32_t[]){0, 0, 1, 2, 4, 7, 7}, isa);
    check_experts((const int32_t[]){0, 0, 0, 150, 150, 150, 150}, isa);
}

static void experts_agree_and_empty_ones_are_not_read(void)
{
    with_each_isa(experts_of_all_sizes);
}

/* More experts with rows than one batch of jobs takes. */
static void many_experts(const char *isa)
{
    enum { EXPERTS = 150, N = 16, K = 32, GROUP = 32 };
    restart(8);
    struct kvt_int4_plain plain[EXPERTS];
    size_t bytes = kvt_cpu_int4_packed_bytes(N, K, GROUP);
    uint8_t *packed = room(EXPERTS * bytes);
    int32_t row_begin[EXPERTS + 1] = {0};
    for (int32_t e = 0; e < EXPERTS; e++) {
        row_begin[e + 1] = row_begin[e] + e % 3;
        plain[e] = quantised(N, K, GROUP);
        kvt_cpu_int4_pack(&plain[e], packed + (size_t)e * bytes);
    }
    int32_t m = row_begin[EXPERTS];
    kvt_bf16 *a = numbers((int64_t)m * K), *want = room((size_t)(m * N) * 2);
    kvt_bf16 *got = room((size_t)(m * N) * 2);
    struct kvt_int4_experts experts = {.experts = EXPERTS,
                                       .n = N,
                                       .k = K,
                                       .group = GROUP,
                                       .row_begin = row_begin,
                                       .a = a,
                                       .w = packed,
                                       .out = want};
    kvt_ref_int4_experts(&experts, plain);
    experts.out = got;
    kvt_cpu_int4_experts(&experts);
    check_close_all(got, want, (int64_t)m * N, isa);
    for (int32_t e = 0; e < EXPERTS; e++)
        plain_free(&plain[e]);
    free(packed);
    free(a);
    free(want);
    free(got);
}

static void a_hundred_and_fifty_experts_agree(void)
{
    with_each_isa(many_experts);
}

/* A second run gives the same bits: sums do not depend on which thread came first. */
static void two_runs(const char *isa)
{
    enum { M = 9, N = 600, K = 512 };
    restart(9);
    struct product p;
    product_begin(&p, M, N, K, 128);
    kvt_cpu_int4_gemm(&p.gemm);
    p.gemm.out = p.got;
    kvt_cpu_int4_gemm(&p.gemm);
    CHECK_NOTE(memcmp(p.want, p.got, M * N * 2) == 0, isa);
    product_end(&p);
}

static void runs_repeat_bit_by_bit(void)
{
    with_each_isa(two_runs);
}

/* One number of a group 500 times the others, as activations have them. */
static void outliers(const char *isa)
{
    enum { M = 20, N = 64, K = 256, GROUP = 32 };
    restart(10);
    struct product p;
    product_begin(&p, M, N, K, GROUP);
    for (int32_t i = 0; i < M * K; i += GROUP + 1)
        p.a[i] = kvt_bf16_from_float(500.0f * number());
    for (int32_t m = 1; m <= M; m += 19) {
        product_both(&p, m);
        check_within(p.got, p.want, (int64_t)m * N, 3e-4, isa);
    }
    product_end(&p);
}

static void outliers_do_no_harm(void)
{
    with_each_isa(outliers);
}

/* NaN in row 2 of a, infinity in row 4, a group of zeros and one of subnormals in row 0. */
static void poisoned_rows(const char *isa)
{
    enum { M = 21, N = 19, K = 128, GROUP = 32 };
    restart(11);
    struct product p;
    product_begin(&p, M, N, K, GROUP);
    p.a[2 * K + 5] = 0xffc0;
    p.a[4 * K + K - 1] = 0x7f80;
    for (int32_t i = 0; i < 2 * GROUP; i++)
        p.a[i] = (kvt_bf16)(i < GROUP ? 0 : i % 128);
    for (int32_t m = 5; m <= M; m += 8) {
        p.gemm.m = m;
        kvt_cpu_int4_gemm(&p.gemm);
        for (int32_t i = 0; i < m * N; i++) {
            float value = kvt_bf16_to_float(p.want[i]);
            CHECK_NOTE(isfinite(value) == (i / N != 2 && i / N != 4), isa);
            CHECK_NOTE(i / N != 2 || isnan(value), isa);
        }
    }
    product_end(&p);
}

static void nan_and_infinity_stay_in_their_rows(void)
{
    with_each_isa(poisoned_rows);
}

static void quantise_rounds_as_the_header_says(void)
{
    float w[64] = {0};
    uint32_t nibbles[8];
    kvt_bf16 scales[2];
    struct kvt_int4_plain plain = {
        .n = 1, .k = 64, .group = 32, .nibbles = nibbles, .scales = scales};
    w[0] = 7.0f;   /* the largest: scale 1, nibble 15 */
    w[1] = -7.0f;  /* 1 */
    w[2] = 2.5f;   /* ties to even: 2, so 10 */
    w[3] = -3.5f;  /* -4, so 4 */
    w[4] = 0.49f;  /* 8 */
    w[8] = -0.51f; /* 7 */
    kvt_int4_quantise(w, &plain);
    CHECK_CLOSE((double)kvt_bf16_to_float(scales[0]), 1.0, 0.0, "7 / 7");
    CHECK_I64(nibbles[0], 0x88884a1f, "first word: f 1 a 4 8 8 8 8");
    CHECK_I64(nibbles[1], 0x88888887, "second word");
    CHECK_CLOSE((double)kvt_bf16_to_float(scales[1]), 1.0, 0.0, "a group of zeros");
    CHECK_I64(nibbles[7], 0x88888888, "a group of zeros");
    w[0] = 100.0f; /* BF16 of 100 / 7 is 14.3125: 100 / 14.3125 = 6.99 */
    kvt_int4_quantise(w, &plain);
    CHECK_CLOSE((double)kvt_bf16_to_float(scales[0]), 14.3125, 0.0, "100 / 7 in BF16");
    CHECK_I64(nibbles[0] & 15, 15, "the largest");
}

static void check_int4_refused(const struct kvt_int4_gemm *gemm, const char *what)
{
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_int4_gemm_check(gemm, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, what, "the message");
}

static void bad_int4_is_refused_with_what_was_wanted(void)
{
    kvt_bf16 some[64] = {0};
    const struct kvt_int4_gemm good = {
        .m = 1, .n = 4, .k = 64, .group = 32, .a = some, .w = some, .out = some};
    struct kvt_int4_gemm bad = good;
    struct kvt_err err = {0};
    CHECK_OK(kvt_int4_gemm_check(&good, &err), err);
    bad.group = 64;
    check_int4_refused(&bad, "int4: group: want 32 or 128, got 64");
    bad.group = 128;
    check_int4_refused(&bad, "int4: k: want a multiple of the group 128, got 64");
    bad = good, bad.w = NULL;
    check_int4_refused(&bad, "int4: w: want packed weights, got none");
    bad = good, bad.n = -3;
    check_int4_refused(&bad, "int4: n: want 1 to 16777216, got -3");
    int32_t rows[] = {0, 3, 2};
    struct kvt_int4_experts experts = {.experts = 2,
                                       .n = 4,
                                       .k = 64,
                                       .group = 32,
                                       .row_begin = rows,
                                       .a = some,
                                       .w = some,
                                       .out = some};
    CHECK_FAILS(kvt_int4_experts_check(&experts, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "int4: row_begin[2]: want 3 or more, got 2", "the message");
    rows[0] = 1;
    struct kvt_err other = {0};
    CHECK_FAILS(kvt_int4_experts_check(&experts, &other), other, KVT_ELIMIT);
    CHECK_HOLDS(other.text, "int4: row_begin[0]: want 0, got 1", "the message");
}

const struct check_test check_int4_kernels[] = {
    {"packing INT4 is a bijection", int4_packing_is_a_bijection, false},
    {"INT4 GEMM agrees with double precision, whatever the shape",
     int4_agrees_with_double_precision, false},
    {"experts agree, and empty ones are not read", experts_agree_and_empty_ones_are_not_read,
     false},
    {"a hundred and fifty experts agree", a_hundred_and_fifty_experts_agree, false},
    {"outliers do no harm", outliers_do_no_harm, false},
    {"NaN and infinity stay in their rows", nan_and_infinity_stay_in_their_rows, false},
    {"runs repeat bit by bit", runs_repeat_bit_by_bit, false},
    {"quantising rounds as the header says", quantise_rounds_as_the_header_says, false},
    {"bad INT4 is refused with what was wanted", bad_int4_is_refused_with_what_was_wanted, false},
    {0},
};
