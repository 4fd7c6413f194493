#include "kernels/int4.h"

#include <inttypes.h>
#include <math.h>

#include "kernels/gemm.h"

#define EXPERTS_MOST (1 << 24)

static enum kvt_status check_shape(int32_t m, int32_t n, int32_t k, int32_t group,
                                   struct kvt_err *err)
{
    KVT_TRY(kvt_gemm_sizes_check("int4", m, n, k, err));
    if (group != 32 && group != 128)
        return kvt_err_set(err, KVT_ELIMIT, "int4: group: want 32 or 128, got %" PRId32, group);
    if (k % group != 0)
        return kvt_err_set(err, KVT_ELIMIT,
                           "int4: k: want a multiple of the group %" PRId32 ", got %" PRId32, group,
                           k);
    return KVT_OK;
}

static enum kvt_status check_pointers(int32_t m, const kvt_bf16 *a, const void *w,
                                      const kvt_bf16 *out, struct kvt_err *err)
{
    if (w == NULL)
        return kvt_err_set(err, KVT_ELIMIT, "int4: w: want packed weights, got none");
    if (m > 0 && (a == NULL || out == NULL))
        return kvt_err_set(err, KVT_ELIMIT, "int4: %s: want %" PRId32 " rows, got none",
                           a == NULL ? "a" : "out", m);
    return KVT_OK;
}

enum kvt_status kvt_int4_gemm_check(const struct kvt_int4_gemm *gemm, struct kvt_err *err)
{
    KVT_TRY(check_shape(gemm->m, gemm->n, gemm->k, gemm->group, err));
    return check_pointers(gemm->m, gemm->a, gemm->w, gemm->out, err);
}

enum kvt_status kvt_int4_experts_check(const struct kvt_int4_experts *experts, struct kvt_err *err)
{
    if (experts->experts < 1 || experts->experts > EXPERTS_MOST)
        return kvt_err_set(err, KVT_ELIMIT, "int4: experts: want 1 to %d, got %" PRId32,
                           EXPERTS_MOST, experts->experts);
    if (experts->row_begin == NULL)
        return kvt_err_set(err, KVT_ELIMIT, "int4: row_begin: want %" PRId32 " numbers, got none",
                           experts->experts + 1);
    if (experts->row_begin[0] != 0)
        return kvt_err_set(err, KVT_ELIMIT, "int4: row_begin[0]: want 0, got %" PRId32,
                           experts->row_begin[0]);
    for (int32_t e = 0; e < experts->experts; e++)
        if (experts->row_begin[e + 1] < experts->row_begin[e])
            return kvt_err_set(err, KVT_ELIMIT,
                               "int4: row_begin[%" PRId32 "]: want %" PRId32
                               " or more, got %" PRId32,
                               e + 1, experts->row_begin[e], experts->row_begin[e + 1]);
    int32_t m = experts->row_begin[experts->experts];
    KVT_TRY(check_shape(m, experts->n, experts->k, experts->group, err));
    return check_pointers(m, experts->a, experts->w, experts->out, err);
}

/* One group: its scale, and its nibbles in words of eight. */
static kvt_bf16 quantise_group(const float *w, int32_t group, uint32_t *words)
{
    float amax = 0.0f;
    for (int32_t j = 0; j < group; j++)
        amax = fmaxf(amax, fabsf(w[j]));
    kvt_bf16 code = kvt_bf16_from_float(amax / 7.0f);
    if (code == 0)
        code = kvt_bf16_from_float(1.0f);
    float scale = kvt_bf16_to_float(code);
    for (int32_t word = 0; word < group / 8; word++) {
        uint32_t bits = 0;
        for (int32_t j = 0; j < 8; j++) {
            float q = rintf(w[8 * word + j] / scale) + 8.0f;
            q = fminf(fmaxf(q, 1.0f), 15.0f);
            bits |= (uint32_t)q << (4 * j);
        }
        words[word] = bits;
    }
    return code;
}

void kvt_int4_quantise(const float *w, const struct kvt_int4_plain *plain)
{
    int64_t groups = (int64_t)plain->n * (plain->k / plain->group);
#pragma omp parallel for schedule(static)
    for (int64_t g = 0; g < groups; g++)
        plain->scales[g] = quantise_group(w + g * plain->group, plain->group,
                                          plain->nibbles + g * plain->group / 8);
}

static double dot(const kvt_bf16 *a, const struct kvt_int4_plain *plain, int32_t row)
{
    const uint32_t *words = plain->nibbles + (int64_t)row * (plain->k / 8);
    const kvt_bf16 *scales = plain->scales + (int64_t)row * (plain->k / plain->group);
    double sum = 0.0;
    for (int32_t col = 0; col < plain->k; col++) {
        int32_t nibble = (int32_t)(words[col / 8] >> (4 * (col % 8)) & 15);
        double weight =
            (double)(nibble - 8) * (double)kvt_bf16_to_float(scales[col / plain->group]);
        sum += (double)kvt_bf16_to_float(a[col]) * weight;
    }
    return sum;
}

void kvt_ref_int4_gemm(const struct kvt_int4_gemm *gemm, const struct kvt_int4_plain *plain)
{
#pragma omp parallel for schedule(static)
    for (int32_t row = 0; row < gemm->n; row++)
        for (int32_t i = 0; i < gemm->m; i++)
            gemm->out[(int64_t)i * gemm->n + row] =
                kvt_bf16_from_float((float)dot(gemm->a + (int64_t)i * gemm->k, plain, row));
}

void kvt_ref_int4_experts(const struct kvt_int4_experts *experts,
                          const struct kvt_int4_plain plain[])
{
    for (int32_t e = 0; e < experts->experts; e++) {
        int32_t first = experts->row_begin[e];
        struct kvt_int4_gemm gemm = {
            .m = experts->row_begin[e + 1] - first,
            .n = experts->n,
            .k = experts->k,
            .group = experts->group,
            .a = experts->a + (int64_t)first * experts->k,
            .out = experts->out + (int64_t)first * experts->n,
        };
        kvt_ref_int4_gemm(&gemm, &plain[e]);
    }
}
