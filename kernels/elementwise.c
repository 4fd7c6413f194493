#include "kernels/elementwise.h"

#include <math.h>
#include <stddef.h>

void kvt_ref_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps, int32_t rows,
                      int32_t dim, kvt_bf16 *out)
{
    for (int64_t row = 0; row < rows; row++) {
        float *at = x + row * dim;
        double squares = 0.0;
        for (int32_t j = 0; j < dim; j++) {
            if (y != NULL)
                at[j] += kvt_bf16_to_float(y[row * dim + j]);
            squares += (double)at[j] * (double)at[j];
        }
        double factor = 1.0 / sqrt(squares / dim + (double)eps);
        for (int32_t j = 0; j < dim; j++)
            out[row * dim + j] = kvt_bf16_from_float(
                (float)((double)at[j] * factor * (double)kvt_bf16_to_float(weight[j])));
    }
}

void kvt_ref_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out)
{
    for (int64_t row = 0; row < rows; row++) {
        for (int32_t j = 0; j < dim; j++) {
            double gate = (double)kvt_bf16_to_float(in[row * 2 * dim + j]);
            double up = (double)kvt_bf16_to_float(in[row * 2 * dim + dim + j]);
            out[row * dim + j] = kvt_bf16_from_float((float)(gate / (1.0 + exp(-gate)) * up));
        }
    }
}

static void rotate(kvt_bf16 *first, kvt_bf16 *second, double angle)
{
    double a = (double)kvt_bf16_to_float(*first), b = (double)kvt_bf16_to_float(*second);
    *first = kvt_bf16_from_float((float)(a * cos(angle) - b * sin(angle)));
    *second = kvt_bf16_from_float((float)(a * sin(angle) + b * cos(angle)));
}

void kvt_ref_rope(const struct kvt_rope *rope)
{
    int32_t half = rope->dim / 2;
    for (int64_t row = 0; row < rope->rows; row++) {
        for (int32_t j = 0; j < half; j++) {
            double angle = rope->position[row] * pow(rope->base, -2.0 * j / rope->dim);
            for (int64_t head = 0; head < rope->heads; head++) {
                kvt_bf16 *x = rope->x + row * rope->row_stride + head * rope->head_stride;
                rotate(x + j, x + half + j, angle);
            }
        }
    }
}

void kvt_ref_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns, int32_t *token)
{
    for (int64_t row = 0; row < rows; row++) {
        float best = -INFINITY;
        token[row] = columns > 0 ? 0 : -1;
        for (int32_t j = 0; j < columns; j++) {
            float value = kvt_bf16_to_float(logits[row * columns + j]);
            if (isnan(value)) {
                token[row] = -1;
                break;
            }
            if (value > best) {
                best = value;
                token[row] = j;
            }
        }
    }
}

void kvt_ref_combine(const struct kvt_combine *combine)
{
    int64_t dim = combine->dim;
    for (int64_t row = 0; row < combine->rows; row++) {
        const int32_t *place = combine->place + row * combine->topk;
        const float *share = combine->share + row * combine->topk;
        kvt_bf16 *y = combine->y + row * dim;
        for (int64_t i = 0; i < dim; i++) {
            float sum = combine->add ? kvt_bf16_to_float(y[i]) : 0.0f;
            for (int32_t j = 0; j < combine->topk; j++)
                sum += share[j] * kvt_bf16_to_float(combine->in[place[j] * dim + i]);
            y[i] = kvt_bf16_from_float(sum);
        }
    }
}
