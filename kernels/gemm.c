#include "kernels/gemm.h"

#include <inttypes.h>
#include <math.h>

#define ROWS_MOST (1 << 24)
#define K_MOST    (1 << 20)
#define AREA_MOST ((INT64_C(1) << 40) - 1)

enum kvt_status kvt_gemm_sizes_check(const char *kernel, int64_t m, int64_t n, int64_t k,
                                     struct kvt_err *err)
{
    const struct {
        const char *what;
        int64_t value, least, most;
    } sizes[] = {{"m", m, 0, ROWS_MOST},
                 {"n", n, 1, ROWS_MOST},
                 {"k", k, 1, K_MOST},
                 {"m * n", m * n, 0, AREA_MOST},
                 {"n * k", n * k, 1, AREA_MOST}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
            return kvt_err_set(err, KVT_ELIMIT,
                               "%s: %s: want %" PRId64 " to %" PRId64 ", got %" PRId64, kernel,
                               sizes[i].what, sizes[i].least, sizes[i].most, sizes[i].value);
    return KVT_OK;
}

static enum kvt_status check_scales(const struct kvt_gemm *gemm, struct kvt_err *err)
{
    if (gemm->scale == NULL)
        return kvt_err_set(err, KVT_ELIMIT, "gemm: scale: want one float a row of w, got none");
    for (int32_t row = 0; row < gemm->n; row++)
        if (!(gemm->scale[row] > 0.0f) || isinf(gemm->scale[row]))
            return kvt_err_set(err, KVT_ELIMIT,
                               "gemm: scale[%" PRId32 "]: want a finite number above 0, got %g",
                               row, (double)gemm->scale[row]);
    return KVT_OK;
}

enum kvt_status kvt_gemm_check(const struct kvt_gemm *gemm, struct kvt_err *err)
{
    if (gemm->weights != KVT_GEMM_BF16 && gemm->weights != KVT_GEMM_FP8)
        return kvt_err_set(err, KVT_ELIMIT, "gemm: weights: want BF16 (0) or FP8 (1), got %" PRId32,
                           gemm->weights);
    KVT_TRY(kvt_gemm_sizes_check("gemm", gemm->m, gemm->n, gemm->k, err));
    if (gemm->w == NULL)
        return kvt_err_set(err, KVT_ELIMIT, "gemm: w: want weights, got none");
    if (gemm->m > 0 && (gemm->a == NULL || gemm->out == NULL))
        return kvt_err_set(err, KVT_ELIMIT, "gemm: %s: want %" PRId32 " rows, got none",
                           gemm->a == NULL ? "a" : "out", gemm->m);
    return gemm->weights == KVT_GEMM_FP8 ? check_scales(gemm, err) : KVT_OK;
}

static double weight_at(const struct kvt_gemm *gemm, int32_t row, int32_t col)
{
    int64_t at = (int64_t)row * gemm->k + col;
    if (gemm->weights == KVT_GEMM_BF16)
        return (double)kvt_bf16_to_float(((const kvt_bf16 *)gemm->w)[at]);
    return (double)kvt_e4m3_to_float(((const kvt_e4m3 *)gemm->w)[at]) * (double)gemm->scale[row];
}

void kvt_ref_gemm(const struct kvt_gemm *gemm)
{
#pragma omp parallel for schedule(static)
    for (int32_t row = 0; row < gemm->n; row++) {
        for (int32_t i = 0; i < gemm->m; i++) {
            double sum = 0.0;
            for (int32_t col = 0; col < gemm->k; col++)
                sum += (double)kvt_bf16_to_float(gemm->a[(int64_t)i * gemm->k + col]) *
                       weight_at(gemm, row, col);
            gemm->out[(int64_t)i * gemm->n + row] = kvt_bf16_from_float((float)sum);
        }
    }
}
