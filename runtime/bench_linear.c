/* Families of weights: BF16 and FP8 GEMM, INT4 from one row to many, INT4 of routed experts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/bench_job.h"

#define ROWS_MOST 256

struct linear {
    const char *variant;
    int32_t group; /* INT4; 0: dense */
    enum kvt_gemm_weights weights;
};

/* A matrix in rotating packed copies, and rows for it. */
struct matrix {
    const struct linear *linear;
    struct kvt_bench_memory memory;
    int32_t n, k;
    int64_t each, copies;
    struct kvt_bench_array a, out, w, scale;
    void *plain;      /* host; dense: [n][k] */
    kvt_bf16 *scales; /* host; INT4 */
    struct kvt_gemm gemm;
    struct kvt_int4_gemm int4;
};

static double weight_bits(const struct linear *linear)
{
    if (linear->group > 0)
        return 4 + 16.0 / linear->group;
    return linear->weights == KVT_GEMM_FP8 ? 8 : 16;
}

static void call_gemm(const struct kvt_bench_job *job, int64_t turn)
{
    const struct matrix *x = job->data;
    struct kvt_gemm gemm = x->gemm;
    gemm.w = (uint8_t *)x->w.device + turn % x->copies * x->each;
    job->bench->device.ops->gemm(&job->bench->device, &gemm);
}

static void call_int4(const struct kvt_bench_job *job, int64_t turn)
{
    const struct matrix *x = job->data;
    struct kvt_int4_gemm gemm = x->int4;
    gemm.w = (uint8_t *)x->w.device + turn % x->copies * x->each;
    job->bench->device.ops->int4_gemm(&job->bench->device, &gemm);
}

/* Random nibbles and codes are as good as quantised weights, and quicker made. Scales are near a
 * typical one. */
static enum kvt_status make_plain(struct matrix *x, struct kvt_err *err)
{
    const struct linear *linear = x->linear;
    size_t count = (size_t)x->n * (size_t)x->k;
    size_t groups = linear->group > 0 ? count / (size_t)linear->group : 0;
    x->plain = malloc(2 * count);
    x->scales = malloc(2 * groups + 2);
    if (x->plain == NULL || x->scales == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a matrix of %d x %d", x->n, x->k);
    if (linear->group == 0 && linear->weights == KVT_GEMM_BF16) {
        kvt_bench_noise(x->plain, (int64_t)count, 1.0f);
        return KVT_OK;
    }
    uint8_t *bytes = x->plain;
    uint32_t state = 7;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(state >> 24);
        if (linear->group == 0 && (bytes[i] & 0x7f) == 0x7f)
            bytes[i] = 0x38; /* no NaN */
    }
    for (size_t i = 0; i < groups; i++)
        x->scales[i] = kvt_bf16_from_float(0.01f + 0.0001f * (float)(i % 97));
    return KVT_OK;
}

static struct kvt_int4_plain int4_plain(const struct matrix *x)
{
    return (struct kvt_int4_plain){
        .n = x->n, .k = x->k, .group = x->linear->group, .nibbles = x->plain, .scales = x->scales};
}

static enum kvt_status matrix_take(struct matrix *x, int32_t rows, bool cold, struct kvt_err *err)
{
    struct kvt_device *device = &x->memory.bench->device;
    const struct linear *linear = x->linear;
    size_t packed = linear->group > 0 ? device->ops->int4_bytes(x->n, x->k, linear->group)
                                      : device->ops->gemm_bytes(linear->weights, x->n, x->k);
    x->each = kvt_device_rounded((int64_t)packed);
    x->copies = cold ? x->memory.bench->cold / x->each + 1 : 1;
    KVT_TRY(kvt_bench_take(&x->memory, 2 * (int64_t)rows * x->k, &x->a, err));
    KVT_TRY(kvt_bench_take(&x->memory, 2 * (int64_t)rows * x->n, &x->out, err));
    KVT_TRY(kvt_bench_take(&x->memory, 4 * (int64_t)x->n, &x->scale, err));
    KVT_TRY(kvt_bench_take_device(&x->memory, x->each * x->copies, &x->w, err));
    KVT_TRY(make_plain(x, err));
    kvt_bench_noise(x->a.host, (int64_t)rows * x->k, 1.0f);
    for (int32_t i = 0; i < x->n; i++)
        ((float *)x->scale.host)[i] = 0.25f;
    kvt_bench_up(&x->memory, &x->a);
    kvt_bench_up(&x->memory, &x->scale);
    struct kvt_int4_plain int4 = int4_plain(x);
    if (linear->group > 0)
        device->ops->int4_pack(device, &int4, x->w.device);
    else
        device->ops->gemm_pack(device, linear->weights, x->n, x->k, x->plain, x->w.device);
    kvt_bench_repeat(x->memory.bench, x->w.device, x->each, x->each * x->copies);
    return device->ops->wait(device, err);
}

static void matrix_give(struct matrix *x)
{
    free(x->plain);
    free(x->scales);
    kvt_bench_release(&x->memory);
}

static void set_rows(struct matrix *x, int32_t m)
{
    x->gemm = (struct kvt_gemm){.weights = (int32_t)x->linear->weights,
                                .m = m,
                                .n = x->n,
                                .k = x->k,
                                .a = x->a.device,
                                .w = x->w.device,
                                .scale = x->scale.device,
                                .out = x->out.device};
    x->int4 = (struct kvt_int4_gemm){.m = m,
                                     .n = x->n,
                                     .k = x->k,
                                     .group = x->linear->group,
                                     .a = x->a.device,
                                     .w = x->w.device,
                                     .out = x->out.device};
}

/* Mean error over mean magnitude against the plain definition, of m rows. FP8 on a GPU rounds its
 * rows to FP8 as well (launch.h). */
static enum kvt_status compare(struct matrix *x, int32_t m, bool *right, struct kvt_err *err)
{
    struct kvt_bench *bench = x->memory.bench;
    size_t count = (size_t)m * (size_t)x->n;
    kvt_bf16 *want = malloc(2 * count);
    if (want == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to check a GEMM");
    set_rows(x, m);
    struct kvt_bench_job job = {.bench = bench, .data = x};
    if (x->linear->group > 0)
        call_int4(&job, 0);
    else
        call_gemm(&job, 0);
    enum kvt_status status = kvt_bench_down(&x->memory, &x->out, err);
    struct kvt_gemm gemm = x->gemm;
    struct kvt_int4_gemm int4 = x->int4;
    struct kvt_int4_plain plain = int4_plain(x);
    gemm.out = int4.out = want;
    gemm.a = int4.a = x->a.host;
    gemm.w = x->plain;
    gemm.scale = x->scale.host;
    if (x->linear->group > 0)
        kvt_ref_int4_gemm(&int4, &plain);
    else
        kvt_ref_gemm(&gemm);
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double wanted = (double)kvt_bf16_to_float(want[i]);
        error += fabs((double)kvt_bf16_to_float(((kvt_bf16 *)x->out.host)[i]) - wanted);
        size += fabs(wanted);
    }
    bool coarse = x->linear->weights == KVT_GEMM_FP8 && !bench->device.ops->host_memory;
    *right = *right && error < (coarse ? 4e-2 : 4e-3) * size; /* false for NaN */
    free(want);
    return status;
}

static enum kvt_status is_right(struct kvt_bench *bench, const struct linear *linear, bool *right,
                                struct kvt_err *err)
{
    struct matrix x = {
        .linear = linear, .memory = {.bench = bench}, .n = 272, .k = 512, .copies = 1};
    *right = true;
    enum kvt_status status = matrix_take(&x, 37, false, err);
    for (int32_t m = 1; status == KVT_OK && m <= 37; m = m == 1 ? 5 : m == 5 ? 16 : m + 21)
        status = compare(&x, m, right, err);
    matrix_give(&x);
    return status;
}

static enum kvt_status one_shape(struct matrix *x, int32_t m, bool right, struct kvt_err *err)
{
    const struct linear *linear = x->linear;
    const char *family = linear->group == 0 ? "gemm" : m == 1 ? "int4-gemv" : "int4-gemm";
    if (!kvt_bench_wants(x->memory.bench, family))
        return KVT_OK;
    set_rows(x, m);
    struct kvt_bench_job job = {.bench = x->memory.bench,
                                .family = family,
                                .variant = linear->variant,
                                .bytes = weight_bits(linear) / 8 * x->n * x->k +
                                         2.0 * m * ((double)x->n + x->k),
                                .flops = 2.0 * m * x->n * x->k,
                                .right = right,
                                .call = linear->group > 0 ? call_int4 : call_gemm,
                                .data = x};
    if (linear->group > 0)
        return kvt_bench_measure(&job, err, "m=%d n=%d k=%d group=%d", m, x->n, x->k,
                                 linear->group);
    return kvt_bench_measure(&job, err, "m=%d n=%d k=%d", m, x->n, x->k);
}

struct shape {
    int32_t n, k;
    const int32_t *rows; /* ended by 0 */
};

static enum kvt_status one_matrix(struct kvt_bench *bench, const struct linear *linear,
                                  const struct shape *shape, bool right, struct kvt_err *err)
{
    struct matrix x = {
        .linear = linear, .memory = {.bench = bench}, .n = shape->n, .k = shape->k, .copies = 1};
    enum kvt_status status = matrix_take(&x, ROWS_MOST, true, err);
    for (int i = 0; status == KVT_OK && shape->rows[i] > 0; i++)
        status = one_shape(&x, shape->rows[i], right, err);
    matrix_give(&x);
    return status;
}

enum kvt_status kvt_bench_linears(struct kvt_bench *bench, struct kvt_err *err)
{
    static const struct linear kinds[] = {{"bf16", 0, KVT_GEMM_BF16},
                                          {"fp8", 0, KVT_GEMM_FP8},
                                          {"g32", 32, KVT_GEMM_BF16},
                                          {"g128", 128, KVT_GEMM_BF16}};
    static const int32_t all[] = {1, 2, 4, 8, 16, 32, 64, 128, 0}, few[] = {1, 4, 16, 64, 0};
    static const int32_t quick[] = {1, 16, 0}, large[] = {1, 4, 16, 64, 256, 0};
    static const struct shape on_host[] = {
        {4096, 14336, few}, {4096, 4096, all}, {1024, 4096, few}};
    static const struct shape on_gpu[] = {
        {16384, 12288, large}, {8192, 8192, all}, {4096, 7168, large}};
    bool dense = kvt_bench_wants(bench, "gemm");
    bool int4 = kvt_bench_wants(bench, "int4-gemv") || kvt_bench_wants(bench, "int4-gemm");
    const struct shape *shapes = bench->device.ops->host_memory ? on_host : on_gpu;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool right;
        if (!(kinds[i].group > 0 ? int4 : dense))
            continue;
        KVT_TRY(is_right(bench, &kinds[i], &right, err));
        for (int s = 0; s < (bench->quick ? 1 : 3); s++) {
            struct shape shape = shapes[s];
            shape.rows = bench->quick ? quick : shape.rows;
            KVT_TRY(one_matrix(bench, &kinds[i], &shape, right, err));
        }
    }
    return KVT_OK;
}
