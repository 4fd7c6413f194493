#include "runtime/bench_job.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 7
#define COLD    KVT_BENCH_COLD

const char *const kvt_bench_families[] = {"read",      "copy",      "gemm-peak", "launch",
                                          "gemm",      "int4-gemv", "int4-gemm", "gqa-decode",
                                          "tag-check", NULL};

enum kvt_status kvt_bench_measure(struct kvt_bench *bench, struct kvt_bench_job *job,
                                  const char *family, const char *variant, double bytes,
                                  double flops, bool right, struct kvt_bench_row **out,
                                  struct kvt_err *err)
{
    double time[REPEATS], away[REPEATS];
    size_t repeats = bench->quick ? 3 : REPEATS;
    if (bench->stop != NULL && *bench->stop != 0)
        return kvt_err_set(err, KVT_EINTR, "interrupted at %s", family);
    if (bench->count == KVT_BENCH_ROWS)
        return kvt_err_set(err, KVT_ELIMIT, "more than %d rows", KVT_BENCH_ROWS);
    job->call(job, 0);
    for (size_t i = 0; i < repeats; i++) {
        double start = kvt_device_now();
        job->call(job, (int64_t)i + 1);
        KVT_TRY(bench->device.ops->wait(&bench->device, err));
        time[i] = fmax(kvt_device_now() - start, 1e-9);
    }
    gsl_sort(time, 1, repeats);
    double median = gsl_stats_median_from_sorted_data(time, 1, repeats);
    for (size_t i = 0; i < repeats; i++)
        away[i] = fabs(time[i] - median);
    gsl_sort(away, 1, repeats);
    struct kvt_bench_row *row = &bench->rows[bench->count++];
    *row = (struct kvt_bench_row){.family = family,
                                  .variant = variant,
                                  .time = median,
                                  .mad = gsl_stats_median_from_sorted_data(away, 1, repeats),
                                  .bytes = bytes,
                                  .flops = flops,
                                  .repeats = (int32_t)repeats,
                                  .right = right};
    double rate = strcmp(family, "append") == 0 ? bench->copy : bench->read;
    double memory = rate > 0 ? bytes / median / rate : 0;
    double compute = bench->peak > 0 ? flops / median / bench->peak : 0;
    row->ceiling = compute > memory ? "gemm-peak" : rate == bench->copy ? "copy" : "read";
    row->fraction = fmax(memory, compute);
    *out = row;
    return KVT_OK;
}

static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Values in [-1, 1): data that is not zero, which some machines multiply faster. */
static void fill_bf16(kvt_bf16 *out, int64_t count)
{
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++)
        out[i] = kvt_bf16_from_float((float)noise(&state) / 8388608.0f - 1.0f);
}

/* ---- ceilings ------------------------------------------------------------------------------- */

static void call_read(struct kvt_bench_job *job, int64_t turn)
{
    const uint64_t *words = (const uint64_t *)(const void *)job->memory;
    int64_t count = job->each / 8;
    uint64_t sum = (uint64_t)turn;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int64_t i = 0; i < count; i += 8)
        sum += words[i] + words[i + 1] + words[i + 2] + words[i + 3] + words[i + 4] + words[i + 5] +
               words[i + 6] + words[i + 7];
    job->sum += (double)sum;
}

static void call_copy(struct kvt_bench_job *job, int64_t turn)
{
    int64_t half = job->each / 2, part = (int64_t)1 << 20;
    (void)turn;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < half; at += part)
        memcpy(job->memory + at, job->memory + half + at, (size_t)part);
}

static void call_nothing(struct kvt_bench_job *job, int64_t turn)
{
    (void)turn;
#pragma omp parallel
    {
#pragma omp master
        job->sum += 1;
    }
}

static void call_gemm(struct kvt_bench_job *job, int64_t turn)
{
    struct kvt_gemm gemm = job->gemm;
    gemm.w = job->memory + turn % job->copies * job->each;
    job->bench->device.ops->gemm(&job->bench->device, &gemm);
}

static enum kvt_status ceilings(struct kvt_bench *bench, struct kvt_err *err)
{
    struct kvt_bench_row *row;
    struct kvt_bench_job job = {.bench = bench, .each = COLD, .call = call_read};
    KVT_TRY(kvt_device_take(&bench->device, COLD, "buffers", &job.memory, err));
    enum kvt_status status =
        kvt_bench_measure(bench, &job, "read", "", (double)COLD, 0, true, &row, err);
    if (status == KVT_OK) {
        bench->read = row->bytes / row->time;
        job.call = call_copy;
        status = kvt_bench_measure(bench, &job, "copy", "", (double)COLD, 0, true, &row, err);
    }
    if (status == KVT_OK) {
        bench->copy = row->bytes / row->time;
        job.call = call_nothing;
        status = kvt_bench_measure(bench, &job, "launch", "", 0, 0, true, &row, err);
    }
    if (status == KVT_OK)
        bench->launch = row->time;
    kvt_device_give(&bench->device, job.memory, COLD);
    for (int32_t i = 0; i < bench->count; i++) {
        bench->rows[i].ceiling = bench->rows[i].family;
        bench->rows[i].fraction = 1;
    }
    return status;
}

/* ---- linears -------------------------------------------------------------------------------- */

struct linear {
    const char *variant;
    int32_t group; /* INT4; 0: dense */
    enum kvt_gemm_weights weights;
};

static double weight_bits(const struct linear *linear)
{
    if (linear->group > 0)
        return 4 + 16.0 / linear->group;
    return linear->weights == KVT_GEMM_FP8 ? 8 : 16;
}

static void call_int4(struct kvt_bench_job *job, int64_t turn)
{
    struct kvt_int4_gemm gemm = job->int4;
    gemm.w = job->memory + turn % job->copies * job->each;
    job->bench->device.ops->int4_gemm(&job->bench->device, &gemm);
}

/* Fill every copy with packed noise; plain keeps the last, for a check. */
static void pack_all(struct kvt_bench_job *job, const struct linear *linear, int32_t n, int32_t k,
                     kvt_bf16 *plain, float *values, uint32_t *nibbles, kvt_bf16 *scales)
{
    const struct kvt_device_ops *ops = job->bench->device.ops;
    fill_bf16(plain, (int64_t)n * k);
    for (int64_t i = 0; i < (int64_t)n * k; i++)
        values[i] = kvt_bf16_to_float(plain[i]);
    struct kvt_int4_plain int4 = {
        .n = n, .k = k, .group = linear->group, .nibbles = nibbles, .scales = scales};
    if (linear->group > 0)
        kvt_int4_quantise(values, &int4);
    for (int64_t c = 0; c < job->copies; c++) {
        if (linear->group > 0)
            ops->int4_pack(&job->bench->device, &int4, job->memory + c * job->each);
        else
            ops->gemm_pack(&job->bench->device, linear->weights, n, k, plain,
                           job->memory + c * job->each);
    }
}

struct buffers { /* host and device memory of one matrix */
    kvt_bf16 *a, *out, *want, *plain, *scales;
    float *values;
    uint32_t *nibbles;
};

static void buffers_free(struct buffers *b)
{
    free(b->a);
    free(b->out);
    free(b->want);
    free(b->plain);
    free(b->scales);
    free(b->values);
    free(b->nibbles);
}

static bool buffers_take(struct buffers *b, int64_t m, int64_t n, int64_t k)
{
    size_t weights = (size_t)n * (size_t)k, rows = (size_t)m;
    *b = (struct buffers){.a = malloc(2 * rows * (size_t)k),
                          .out = malloc(2 * rows * (size_t)n),
                          .want = malloc(2 * rows * (size_t)n),
                          .plain = malloc(2 * weights),
                          .scales = malloc(weights / 16 + 64),
                          .values = malloc(4 * weights),
                          .nibbles = malloc(weights / 2 + 64)};
    return b->a != NULL && b->out != NULL && b->want != NULL && b->plain != NULL &&
           b->scales != NULL && b->values != NULL && b->nibbles != NULL;
}

/* Mean error over mean magnitude against the plain definition. */
static bool linear_is_right(const struct kvt_bench_job *job, const struct linear *linear,
                            const struct buffers *b)
{
    int64_t count = (int64_t)job->gemm.m * job->gemm.n;
    double error = 0, size = 0;
    struct kvt_gemm gemm = job->gemm;
    struct kvt_int4_gemm int4 = job->int4;
    struct kvt_int4_plain plain = {.n = gemm.n,
                                   .k = gemm.k,
                                   .group = linear->group,
                                   .nibbles = b->nibbles,
                                   .scales = b->scales};
    gemm.out = int4.out = b->want;
    gemm.w = b->plain;
    if (linear->group > 0)
        kvt_ref_int4_gemm(&int4, &plain);
    else
        kvt_ref_gemm(&gemm);
    for (int64_t i = 0; i < count; i++) {
        double want = (double)kvt_bf16_to_float(b->want[i]);
        error += fabs((double)kvt_bf16_to_float(b->out[i]) - want);
        size += fabs(want);
    }
    return error < 1e-2 * size;
}

static enum kvt_status bench_matrix(struct kvt_bench *bench, const struct linear *linear, int32_t n,
                                    int32_t k, const int32_t sizes[], bool *right, double *peak,
                                    struct kvt_err *err)
{
    struct kvt_bench_job job = {.bench = bench, .call = linear->group > 0 ? call_int4 : call_gemm};
    const struct kvt_device_ops *ops = bench->device.ops;
    struct buffers b;
    struct kvt_bench_row *row;
    size_t packed = linear->group > 0 ? ops->int4_bytes(n, k, linear->group)
                                      : ops->gemm_bytes(linear->weights, n, k);
    job.each = kvt_device_rounded((int64_t)packed);
    job.copies = right != NULL && sizes[0] == 5 ? 1 : COLD / job.each + 1;
    int32_t most = sizes[0];
    for (int i = 0; sizes[i] > 0; i++)
        most = sizes[i] > most ? sizes[i] : most;
    bool took = buffers_take(&b, most, n, k);
    enum kvt_status status =
        took ? kvt_device_take(&bench->device, job.each * job.copies, "weights", &job.memory, err)
             : kvt_err_set(err, KVT_ENOMEM, "no memory for a matrix of %d x %d", n, k);
    if (status == KVT_OK) {
        pack_all(&job, linear, n, k, b.plain, b.values, b.nibbles, b.scales);
        fill_bf16(b.a, (int64_t)most * k);
    }
    for (int i = 0; status == KVT_OK && sizes[i] > 0; i++) {
        double m = sizes[i], bytes = weight_bits(linear) / 8 * n * k + 2 * m * ((double)n + k);
        bool vector = linear->group > 0 && sizes[i] == 1;
        const char *family = linear->group == 0 ? "gemm" : vector ? "int4-gemv" : "int4-gemm";
        job.gemm = (struct kvt_gemm){.weights = (int32_t)linear->weights,
                                     .m = sizes[i],
                                     .n = n,
                                     .k = k,
                                     .a = b.a,
                                     .out = b.out};
        job.int4 = (struct kvt_int4_gemm){
            .m = sizes[i], .n = n, .k = k, .group = linear->group, .a = b.a, .out = b.out};
        if (sizes[i] == 5 && n == 256) { /* the small shape of the check */
            job.call(&job, 0);
            *right = linear_is_right(&job, linear, &b);
            continue;
        }
        if (peak == NULL && !kvt_bench_wants(bench, family))
            continue;
        status =
            kvt_bench_measure(bench, &job, peak != NULL ? "gemm-peak" : family, linear->variant,
                              bytes, 2 * m * n * k, right == NULL || *right, &row, err);
        if (status != KVT_OK)
            break;
        snprintf(row->shape, sizeof row->shape, "m=%d n=%d k=%d", sizes[i], n, k);
        if (linear->group > 0)
            snprintf(row->shape + strlen(row->shape), 24, " group=%d", linear->group);
        if (peak != NULL && row->flops / row->time > *peak)
            *peak = row->flops / row->time;
    }
    kvt_device_give(&bench->device, job.memory, job.each * job.copies);
    buffers_free(&b);
    return status;
}

static enum kvt_status linears(struct kvt_bench *bench, struct kvt_err *err)
{
    static const struct linear kinds[] = {
        {"bf16", 0, KVT_GEMM_BF16}, {"g32", 32, KVT_GEMM_BF16}, {"g128", 128, KVT_GEMM_BF16}};
    static const int32_t small[] = {5, 0}, peak[] = {512, 0};
    static const int32_t all[] = {1, 2, 4, 8, 16, 32, 64, 128, 0}, few[] = {1, 16, 0};
    KVT_TRY(bench_matrix(bench, &kinds[0], 2048, 2048, peak, NULL, &bench->peak, err));
    bench->rows[bench->count - 1].ceiling = "gemm-peak";
    bench->rows[bench->count - 1].fraction = 1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool right = false;
        KVT_TRY(bench_matrix(bench, &kinds[i], 256, 512, small, &right, NULL, err));
        KVT_TRY(bench_matrix(bench, &kinds[i], 4096, 4096, bench->quick ? few : all, &right, NULL,
                             err));
        if (!bench->quick)
            KVT_TRY(bench_matrix(bench, &kinds[i], 4096, 14336, few, &right, NULL, err));
    }
    return KVT_OK;
}

enum kvt_status kvt_bench_run(struct kvt_bench *bench, enum kvt_backend backend,
                              struct kvt_err *err)
{
    bench->count = 0;
    KVT_TRY(kvt_device_open(&bench->device, backend, (int64_t)4 << 30, err));
    enum kvt_status status = KVT_OK;
    if (!bench->device.ops->host_memory)
        status = kvt_err_set(err, KVT_EDEVICE, "bench measures host devices only, so far");
    if (status == KVT_OK)
        status = ceilings(bench, err);
    if (status == KVT_OK)
        status = linears(bench, err);
    if (status == KVT_OK)
        status = kvt_bench_pages(bench, err);
    const struct kvt_device_ops *ops = bench->device.ops;
    char name[sizeof bench->device.name];
    memcpy(name, bench->device.name, sizeof name);
    kvt_device_close(&bench->device);
    bench->device.ops = ops; /* for the table */
    memcpy(bench->device.name, name, sizeof name);
    return status;
}
