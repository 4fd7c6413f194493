#include <math.h>

#include "kernels/cpu/elementwise_rows.h"
#include "kernels/cpu/isa.h"

#define ALONE 16384 /* elements below which waking the other threads costs more than they save */

static const struct kvt_elementwise_rows *rows_in_use(void)
{
    static const struct kvt_elementwise_rows *const all[KVT_ISA_COUNT] =
        KVT_ISA_VERSIONS(&kvt_elementwise_portable, &kvt_elementwise_avx2, &kvt_elementwise_avx512,
                         &kvt_elementwise_avx512);
    return all[kvt_isa()];
}

void kvt_cpu_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps, int32_t rows,
                      int32_t dim, kvt_bf16 *out)
{
    const struct kvt_elementwise_rows *isa = rows_in_use();
#pragma omp parallel for schedule(static) if ((int64_t)rows * dim > ALONE)
    for (int64_t row = 0; row < rows; row++)
        isa->add_norm(x + row * dim, y != NULL ? y + row * dim : NULL, weight, eps, dim,
                      out + row * dim);
}

void kvt_cpu_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out)
{
    const struct kvt_elementwise_rows *isa = rows_in_use();
#pragma omp parallel for schedule(static) if ((int64_t)rows * dim > ALONE)
    for (int64_t row = 0; row < rows; row++)
        isa->silu_mul(in + row * 2 * dim, in + row * 2 * dim + dim, dim, out + row * dim);
}

void kvt_cpu_rope(const struct kvt_rope *rope)
{
    const struct kvt_elementwise_rows *isa = rows_in_use();
    double frequency[KVT_ROPE_DIM_MAX / 2];
    int32_t half = rope->dim / 2;
    for (int32_t j = 0; j < half; j++)
        frequency[j] = pow(rope->base, -2.0 * j / rope->dim);
#pragma omp parallel for schedule(static) if ((int64_t)rope->rows * rope->heads * half > ALONE)
    for (int64_t row = 0; row < rope->rows; row++) {
        _Alignas(64) float cosine[KVT_ROPE_DIM_MAX / 2], sine[KVT_ROPE_DIM_MAX / 2];
        kvt_bf16 *x = rope->x + row * rope->row_stride;
        isa->angles(rope->position[row], frequency, half, cosine, sine);
        for (int64_t head = 0; head < rope->heads; head++)
            isa->rotate(x + head * rope->head_stride, cosine, sine, half);
    }
}

void kvt_cpu_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns, int32_t *token)
{
    const struct kvt_elementwise_rows *isa = rows_in_use();
#pragma omp parallel for schedule(static) if ((int64_t)rows * columns > ALONE)
    for (int64_t row = 0; row < rows; row++)
        token[row] = isa->argmax(logits + row * columns, columns);
}

void kvt_cpu_combine(const struct kvt_combine *combine)
{
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < combine->rows; row++) {
        struct kvt_combine one = *combine;
        one.rows = 1;
        one.y += row * one.dim;
        one.place += row * one.topk;
        one.share += row * one.topk;
        kvt_ref_combine(&one);
    }
}
