#include "kernels/elementwise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "sim/base/random.h"
#include "tests/check.h"

#define UNIT 0x1.01p-7 /* of BF16: the two may round to different sides */

static struct kvt_stream stream;

static float number(float size)
{
    return (float)(2.0 * kvt_stream_unit(&stream) - 1.0) * size;
}

static void *room(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (memory == NULL)
        abort();
    memset(memory, 0xa5, (bytes + 127) / 64 * 64);
    return memory;
}

static kvt_bf16 *numbers(int64_t count, float size)
{
    kvt_bf16 *out = room((size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        out[i] = kvt_bf16_from_float(number(size));
    return out;
}

static void with_each_isa(void (*run)(const char *name))
{
    enum kvt_isa before = kvt_isa();
    for (enum kvt_isa isa = KVT_ISA_PORTABLE; isa < KVT_ISA_COUNT; isa++)
        if (kvt_isa_set(isa))
            run(kvt_isa_name(isa));
    kvt_isa_set(before);
}

static void check_all(const kvt_bf16 *got, const kvt_bf16 *want, int64_t count, const char *note)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        double g = (double)kvt_bf16_to_float(got[i]), w = (double)kvt_bf16_to_float(want[i]);
        wrong += isnan(w) ? !isnan(g) : !(fabs(g - w) <= UNIT * fabs(w) + 1e-30);
    }
    CHECK_I64(wrong, 0, note);
}

static const int32_t dims[] = {2, 14, 64, 100, 576, 4098};
#define DIMS (sizeof dims / sizeof dims[0])

static void norms(const char *isa)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 200);
    for (size_t i = 0; i < DIMS; i++) {
        for (int32_t with = 0; with < 2; with++) {
            int32_t rows = 7, dim = dims[i];
            size_t count = (size_t)rows * (size_t)dim;
            float *x = room(count * 4), *same = room(count * 4);
            kvt_bf16 *y = numbers(rows * dim, 3.0f), *weight = numbers(dim, 2.0f);
            kvt_bf16 *got = room(count * 2), *want = room(count * 2);
            for (size_t j = 0; j < count; j++)
                x[j] = same[j] = number(5.0f);
            x[3 * dim] = same[3 * dim] = NAN; /* the whole row is NaN then, and no other */
            kvt_ref_add_norm(same, with ? y : NULL, weight, 1e-6f, rows, dim, want);
            kvt_cpu_add_norm(x, with ? y : NULL, weight, 1e-6f, rows, dim, got);
            check_all(got, want, rows * dim, isa);
            CHECK_NOTE(isnan(kvt_bf16_to_float(got[4 * dim - 1])), isa);
            CHECK_NOTE(memcmp(x, same, 3 * (size_t)dim * 4) == 0, isa);
            CHECK_NOTE(((uint8_t *)(got + count))[0] == 0xa5, isa);
            free(x);
            free(same);
            free(y);
            free(weight);
            free(got);
            free(want);
        }
    }
}

static void add_norm_agrees_with_double(void)
{
    with_each_isa(norms);
}

static void silus(const char *isa)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 201);
    for (size_t i = 0; i < DIMS; i++) {
        int32_t rows = 5, dim = dims[i];
        kvt_bf16 *in = numbers(rows * 2 * dim, i % 2 == 0 ? 4.0f : 60.0f);
        kvt_bf16 *got = room((size_t)(rows * dim) * 2), *want = room((size_t)(rows * dim) * 2);
        in[0] = 0x7fc0;
        in[1] = kvt_bf16_from_float(1e4f);
        in[dim - 1] = kvt_bf16_from_float(-1e4f);
        kvt_ref_silu_mul(in, rows, dim, want);
        kvt_cpu_silu_mul(in, rows, dim, got);
        check_all(got, want, rows * dim, isa);
        free(in);
        free(got);
        free(want);
    }
}

static void silu_mul_agrees_with_double(void)
{
    with_each_isa(silus);
}

static void ropes(const char *isa)
{
    enum { ROWS = 9, HEADS = 5, GAP = 10, ROW_GAP = 6 };
    static const int32_t positions[ROWS] = {0, 1, 2, 63, 1000, 4097, 131071, 999999, 16777215};
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 202);
    for (int32_t dim = 2; dim <= KVT_ROPE_DIM_MAX; dim = dim == 2 ? 64 : 2 * dim) {
        int64_t head_stride = dim + GAP, row_stride = HEADS * head_stride + ROW_GAP;
        int64_t count = ROWS * row_stride;
        kvt_bf16 *got = numbers(count, 2.0f), *want = room((size_t)count * 2);
        kvt_bf16 *before = room((size_t)count * 2);
        memcpy(want, got, (size_t)count * 2);
        memcpy(before, got, (size_t)count * 2);
        struct kvt_rope rope = {.x = want,
                                .position = positions,
                                .rows = ROWS,
                                .heads = HEADS,
                                .dim = dim,
                                .row_stride = row_stride,
                                .head_stride = head_stride,
                                .base = dim == 64 ? 5e6 : 1e4};
        kvt_ref_rope(&rope);
        rope.x = got;
        kvt_cpu_rope(&rope);
        int64_t wrong = 0, moved = 0;
        for (int64_t i = 0; i < count; i++) {
            double g = (double)kvt_bf16_to_float(got[i]), w = (double)kvt_bf16_to_float(want[i]);
            bool is_head =
                i % row_stride / head_stride < HEADS && i % row_stride % head_stride < dim;
            wrong += is_head ? fabs(g - w) > UNIT * 2.9 : got[i] != before[i];
            moved += got[i] != before[i];
        }
        CHECK_I64(wrong, 0, isa);
        CHECK_NOTE(moved > ROWS * HEADS * dim / 2, isa);
        CHECK_NOTE(memcmp(got, before, (size_t)row_stride * 2) == 0, "position 0 turns nothing");
        free(got);
        free(want);
        free(before);
    }
}

static void rope_agrees_with_double_and_keeps_to_its_heads(void)
{
    with_each_isa(ropes);
}

static void argmaxes(const char *isa)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 203);
    for (size_t i = 0; i < DIMS; i++) {
        enum { ROWS = 8 };
        int32_t columns = dims[i], got[ROWS], want[ROWS];
        kvt_bf16 *logits = numbers(ROWS * columns, 2.0f); /* 8 bits of mantissa: many equals */
        for (int32_t j = 0; j < columns; j++) {
            logits[columns + j] = 0xff80;                            /* all -infinity: the first */
            logits[2 * columns + j] = j % 2 == 0 ? 0x8000 : 0;       /* -0 and 0 are equal */
            logits[3 * columns + j] = kvt_bf16_from_float((float)j); /* the last, or near it */
        }
        logits[4 * columns + columns - 1] = 0x7fc0; /* NaN, at the end */
        logits[5 * columns] = 0xffc1;               /* at the start */
        logits[6 * columns + columns - 1] = 0x7f80; /* infinity */
        kvt_ref_argmax(logits, ROWS, columns, want);
        kvt_cpu_argmax(logits, ROWS, columns, got);
        CHECK_NOTE(memcmp(got, want, sizeof got) == 0, isa);
        CHECK_I64(got[1], 0, isa);
        CHECK_I64(got[2], 0, isa);
        CHECK_I64(got[4], -1, isa);
        CHECK_I64(got[5], -1, isa);
        CHECK_I64(got[6], columns - 1, isa);
        free(logits);
    }
}

static void argmax_is_exact_and_tells_poisoned_rows(void)
{
    with_each_isa(argmaxes);
}

/* By hand: two rows of two experts' outputs, on top of what is there and not. */
static void combine_adds_by_shares(void)
{
    const kvt_bf16 one = 0x3f80, two = 0x4000, four = 0x4080, half = 0x3f00;
    const kvt_bf16 in[] = {one, two, two, four, four, one};
    const int32_t place[] = {0, 2, 1, 1};
    const float share[] = {0.5f, 1.0f, 2.0f, 0.25f};
    kvt_bf16 y[] = {half, half, half, half}, z[] = {half, half, half, half};
    struct kvt_combine combine = {
        .y = y, .in = in, .place = place, .share = share, .rows = 2, .topk = 2, .dim = 2};
    kvt_ref_combine(&combine);
    const float want[] = {4.5f, 2.0f, 4.5f, 9.0f};
    for (int i = 0; i < 4; i++)
        CHECK_CLOSE((double)kvt_bf16_to_float(y[i]), (double)want[i], 1e-9, "ref");
    combine.y = z;
    combine.add = true;
    kvt_cpu_combine(&combine);
    for (int i = 0; i < 4; i++)
        CHECK_CLOSE((double)kvt_bf16_to_float(z[i]), (double)want[i] + 0.5, 1e-9, "cpu, added");
}

const struct check_test check_elementwise[] = {
    {"add_norm agrees with double", add_norm_agrees_with_double, false},
    {"silu_mul agrees with double", silu_mul_agrees_with_double, false},
    {"rope agrees with double and keeps to its heads",
     rope_agrees_with_double_and_keeps_to_its_heads, false},
    {"combine adds by shares", combine_adds_by_shares, false},
    {"argmax is exact and tells poisoned rows", argmax_is_exact_and_tells_poisoned_rows, false},
    {0},
};
