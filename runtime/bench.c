#define _GNU_SOURCE /* the size of caches */
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bench_job.h"
#include "sim/base/assert.h"

#define REPEATS    9
#define SLICE      ((int64_t)32 << 20) /* bytes of a ceiling between two repeats */
#define ROUNDS     2000                /* of multiplications, the same */
#define BATCH_TIME 2e-3                /* s that a repeat of short calls takes, on a GPU */
#define HOST_BATCH 3e-4
#define BATCH_MOST 256
#define WARM_UP    0.1
#define ROW_TIME   2.0    /* s, after which a row has fewer repeats */
#define NOISE      999983 /* values that are random; then the same again */
#define COLD_LEAST ((int64_t)384 << 20)
#define COLD_MOST  ((int64_t)1 << 30)

const char *const kvt_bench_families[] = {
    "read",        "copy",      "gemm-peak",    "vector-peak", "launch",      "gemm",
    "int4-gemv",   "int4-gemm", "int4-experts", "gqa-decode",  "mla-decode",  "gqa-prefill",
    "mla-prefill", "append",    "convert",      "tag-check",   "elementwise", NULL};

/* ---- memory ---- */

enum kvt_status kvt_bench_take_device(struct kvt_bench_memory *memory, int64_t bytes,
                                      struct kvt_bench_array *array, struct kvt_err *err)
{
    kvt_assert(memory->count < (int32_t)(sizeof memory->arrays / sizeof memory->arrays[0]));
    *array = (struct kvt_bench_array){.bytes = bytes};
    KVT_TRY(
        kvt_device_take(&memory->bench->device, bytes, "operands of bench", &array->device, err));
    memory->arrays[memory->count++] = *array;
    return KVT_OK;
}

enum kvt_status kvt_bench_take(struct kvt_bench_memory *memory, int64_t bytes,
                               struct kvt_bench_array *array, struct kvt_err *err)
{
    KVT_TRY(kvt_bench_take_device(memory, bytes, array, err));
    array->host = calloc(1, (size_t)bytes);
    memory->arrays[memory->count - 1].host = array->host;
    return array->host != NULL ? KVT_OK
                               : kvt_err_set(err, KVT_ENOMEM, "no memory for operands of bench");
}

void kvt_bench_up(struct kvt_bench_memory *memory, const struct kvt_bench_array *array)
{
    struct kvt_device *device = &memory->bench->device;
    device->ops->copy(device, array->device, array->host, (size_t)array->bytes);
}

enum kvt_status kvt_bench_down(struct kvt_bench_memory *memory, const struct kvt_bench_array *array,
                               struct kvt_err *err)
{
    struct kvt_device *device = &memory->bench->device;
    device->ops->copy(device, array->host, array->device, (size_t)array->bytes);
    return device->ops->wait(device, err);
}

void kvt_bench_release(struct kvt_bench_memory *memory)
{
    for (int32_t i = 0; i < memory->count; i++) {
        kvt_device_give(&memory->bench->device, memory->arrays[i].device, memory->arrays[i].bytes);
        free(memory->arrays[i].host);
    }
    memory->count = 0;
}

void kvt_bench_repeat(struct kvt_bench *bench, void *memory, int64_t from, int64_t bytes)
{
    for (int64_t at = from; at < bytes; at += from)
        bench->device.ops->copy(&bench->device, (char *)memory + at, memory,
                                (size_t)(bytes - at < from ? bytes - at : from));
}

void kvt_bench_noise(kvt_bf16 *out, int64_t count, float size)
{
    uint32_t state = 1;
    for (int64_t i = 0; i < count && i < NOISE; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = kvt_bf16_from_float(((float)(state >> 8) / 8388608.0f - 1.0f) * size);
    }
    for (int64_t i = NOISE; i < count; i += NOISE)
        memcpy(out + i, out, (size_t)(count - i < NOISE ? count - i : NOISE) * sizeof *out);
}

/* ---- time ---- */

struct spread {
    double median, mad;
};

static struct spread spread_of(double *values, size_t count)
{
    double scratch[REPEATS];
    struct spread spread = {0, 0};
    if (count == 0)
        return spread;
    spread.median = gsl_stats_median(values, 1, count);
    spread.mad = gsl_stats_mad0(values, 1, count, scratch);
    return spread;
}

static double elapsed(struct kvt_bench *bench)
{
    return fmax(bench->device.ops->between(&bench->device, 0, 1), 1e-9);
}

enum kvt_status kvt_bench_time(const struct kvt_bench_job *job, int32_t batch, double *time,
                               struct kvt_err *err)
{
    struct kvt_device *device = &job->bench->device;
    device->ops->mark(device, 0);
    for (int32_t i = 0; i < batch; i++)
        job->call(job, job->bench->turn++);
    device->ops->mark(device, 1);
    KVT_TRY(device->ops->wait(device, err));
    *time = elapsed(job->bench) / batch;
    return KVT_OK;
}

/* ---- ceilings ---- */

static void call_read(const struct kvt_bench_job *job, int64_t turn)
{
    struct kvt_device *device = &job->bench->device;
    int64_t at = turn % (job->bench->cold / SLICE) * SLICE;
    device->ops->ceiling_read(device, job->bench->memory + at, SLICE, job->bench->sum);
}

static void call_copy(const struct kvt_bench_job *job, int64_t turn)
{
    struct kvt_device *device = &job->bench->device;
    int64_t half = job->bench->cold / 2, at = turn % (half / (SLICE / 2)) * (SLICE / 2);
    device->ops->ceiling_copy(device, job->bench->memory + at, job->bench->memory + half + at,
                              SLICE / 2);
}

static void call_empty(const struct kvt_bench_job *job, int64_t turn)
{
    (void)turn;
    job->bench->device.ops->ceiling_empty(&job->bench->device);
}

static void call_tiles(const struct kvt_bench_job *job, int64_t turn)
{
    (void)turn;
    job->bench->device.ops->ceiling_multiply(&job->bench->device, true, ROUNDS);
}

static void call_vectors(const struct kvt_bench_job *job, int64_t turn)
{
    (void)turn;
    job->bench->device.ops->ceiling_multiply(&job->bench->device, false, ROUNDS);
}

static double multiply_flops(struct kvt_bench *bench, bool tiles)
{
    const struct kvt_device_ops *ops = bench->device.ops;
    return ops->ceiling_multiply != NULL ? ops->ceiling_multiply(&bench->device, tiles, ROUNDS) : 0;
}

/* Processors take a while to reach their clock. */
static void warm_up(struct kvt_bench *bench)
{
    double end = kvt_device_now() + WARM_UP;
    while (bench->device.ops->ceiling_multiply != NULL && kvt_device_now() < end)
        (void)multiply_flops(bench, false);
}

static struct kvt_bench_row *last_row(struct kvt_bench *bench)
{
    return &bench->rows[bench->count - 1];
}

static void is_ceiling(struct kvt_bench *bench)
{
    last_row(bench)->ceiling = last_row(bench)->family;
    last_row(bench)->fraction = 1;
}

static enum kvt_status one_ceiling(struct kvt_bench *bench, const char *family, double bytes,
                                   double flops,
                                   void (*call)(const struct kvt_bench_job *, int64_t),
                                   double *rate, struct kvt_err *err)
{
    struct kvt_bench_job job = {.bench = bench,
                                .family = family,
                                .variant = "",
                                .bytes = bytes,
                                .flops = flops,
                                .warm = true,
                                .right = true,
                                .call = call};
    KVT_TRY(kvt_bench_measure(&job, err, "%s", ""));
    is_ceiling(bench);
    *rate = (bytes > 0 ? bytes : flops) / last_row(bench)->time;
    return KVT_OK;
}

/* A GPU's peak is that of a large GEMM. */
static enum kvt_status gemm_peak(struct kvt_bench *bench, struct kvt_err *err);

static enum kvt_status ceilings(struct kvt_bench *bench, struct kvt_err *err)
{
    warm_up(bench);
    double slice = (double)SLICE, tiles = multiply_flops(bench, true);
    double vectors = multiply_flops(bench, false);
    KVT_TRY(one_ceiling(bench, "copy", slice, 0, call_copy, &bench->copy, err));
    KVT_TRY(one_ceiling(bench, "read", slice, 0, call_read, &bench->read, err));
    KVT_TRY(one_ceiling(bench, "launch", 0, 0, call_empty, &bench->launch, err));
    bench->launch = last_row(bench)->time;
    if (vectors > 0)
        KVT_TRY(one_ceiling(bench, "vector-peak", 0, vectors, call_vectors, &bench->vectors, err));
    if (tiles > 0)
        return one_ceiling(bench, "gemm-peak", 0, tiles, call_tiles, &bench->peak, err);
    if (vectors > 0)
        return one_ceiling(bench, "gemm-peak", 0, vectors, call_vectors, &bench->peak, err);
    return gemm_peak(bench, err);
}

/* The ceilings beside one row. */
struct beside {
    size_t count;
    double memory[REPEATS], peak[REPEATS], vectors[REPEATS];
};

static enum kvt_status one_slice(const struct kvt_bench_job *job, double work,
                                 void (*call)(const struct kvt_bench_job *, int64_t), double *rate,
                                 struct kvt_err *err)
{
    struct kvt_bench_job slice = {.bench = job->bench, .call = call};
    double time;
    KVT_TRY(kvt_bench_time(&slice, 1, &time, err));
    *rate = work / time;
    return KVT_OK;
}

/* Beside repeat i. Host devices only: others do not drift, and their caches are small. */
static enum kvt_status measure_beside(const struct kvt_bench_job *job, size_t i,
                                      struct beside *beside, struct kvt_err *err)
{
    struct kvt_bench *bench = job->bench;
    if (job->warm || !bench->device.ops->host_memory)
        return KVT_OK;
    double tiles = multiply_flops(bench, true), vectors = multiply_flops(bench, false);
    KVT_TRY(one_slice(job, (double)SLICE, job->copies ? call_copy : call_read, &beside->memory[i],
                      err));
    KVT_TRY(one_slice(job, vectors, call_vectors, &beside->vectors[i], err));
    beside->peak[i] = beside->vectors[i];
    if (tiles > 0)
        KVT_TRY(one_slice(job, tiles, call_tiles, &beside->peak[i], err));
    beside->count = i + 1;
    return KVT_OK;
}

static void remember(struct kvt_bench_beside *beside, double rate)
{
    if (beside->count < KVT_BENCH_ROWS)
        beside->rate[beside->count++] = rate;
}

/* A ceiling is told as the median of what was measured of it during the run. */
static void tell_ceiling(struct kvt_bench *bench, const char *family,
                         struct kvt_bench_beside *beside, double *rate)
{
    if (beside->count == 0)
        return;
    gsl_sort(beside->rate, 1, (size_t)beside->count);
    *rate = gsl_stats_median_from_sorted_data(beside->rate, 1, (size_t)beside->count);
    for (int32_t i = 0; i < bench->count; i++) {
        struct kvt_bench_row *row = &bench->rows[i];
        if (strcmp(row->family, family) == 0)
            row->time = (row->bytes > 0 ? row->bytes : row->flops) / *rate;
    }
}

static void tell_ceilings(struct kvt_bench *bench)
{
    bench->read_low = bench->read_high = bench->read;
    tell_ceiling(bench, "read", &bench->reads, &bench->read);
    tell_ceiling(bench, "copy", &bench->copies, &bench->copy);
    tell_ceiling(bench, "gemm-peak", &bench->peaks, &bench->peak);
    tell_ceiling(bench, "vector-peak", &bench->vector_peaks, &bench->vectors);
    if (bench->reads.count > 0) {
        const struct kvt_bench_beside *reads = &bench->reads;
        bench->read_low = reads->rate[reads->count / 20];
        bench->read_high = reads->rate[reads->count - 1 - reads->count / 20];
    }
}

static double or_else(double rate, double otherwise)
{
    return rate > 0 ? rate : otherwise;
}

static void judge_row(struct kvt_bench_row *row, struct kvt_bench *bench,
                      const struct kvt_bench_job *job, struct beside *beside)
{
    double rate = or_else(spread_of(beside->memory, beside->count).median,
                          job->copies ? bench->copy : bench->read);
    double peak = or_else(spread_of(beside->peak, beside->count).median, bench->peak);
    double vectors = or_else(spread_of(beside->vectors, beside->count).median, bench->vectors);
    row->of_memory = rate > 0 ? row->bytes / row->time / rate : 0;
    row->of_vectors = vectors > 0 ? row->flops / row->time / vectors : 0;
    double compute = peak > 0 ? row->flops / row->time / peak : 0;
    row->ceiling = compute > row->of_memory ? "gemm-peak" : job->copies ? "copy" : "read";
    row->fraction = fmax(row->of_memory, compute);
    if (beside->count == 0)
        return;
    remember(job->copies ? &bench->copies : &bench->reads, rate);
    remember(&bench->peaks, peak);
    remember(&bench->vector_peaks, vectors);
}

/* Repeats during which another process ran are measured again, up to twice as many in all; where
 * that is not enough they count. */
static enum kvt_status repeat(const struct kvt_bench_job *job, int32_t batch, size_t repeats,
                              double *times, struct beside *beside, struct kvt_err *err)
{
    bool host = job->bench->device.ops->host_memory;
    size_t kept = 0, spoilt = 0;
    while (kept < repeats) {
        int64_t before = kvt_device_switches();
        KVT_TRY(measure_beside(job, kept, beside, err));
        KVT_TRY(kvt_bench_time(job, batch, &times[kept], err));
        if (host && kvt_device_switches() != before && spoilt < repeats)
            spoilt++;
        else
            kept++;
    }
    return KVT_OK;
}

static enum kvt_status time_row(const struct kvt_bench_job *job, struct kvt_bench_row *row,
                                struct kvt_err *err)
{
    struct kvt_bench *bench = job->bench;
    double times[REPEATS], once;
    struct beside beside = {0};
    KVT_TRY(kvt_bench_time(job, 1, &once, err)); /* code, threads, first touch */
    KVT_TRY(kvt_bench_time(job, 1, &once, err));
    double whole = bench->device.ops->host_memory ? HOST_BATCH : BATCH_TIME;
    int32_t batch = (int32_t)fmin(fmax(ceil(whole / once), 1), BATCH_MOST);
    size_t repeats = bench->quick ? 3 : once * REPEATS > ROW_TIME ? 5 : REPEATS;
    KVT_TRY(repeat(job, batch, repeats, times, &beside, err));
    struct spread spread = spread_of(times, repeats);
    row->time = spread.median;
    row->mad = spread.mad;
    row->repeats = (int32_t)repeats;
    judge_row(row, bench, job, &beside);
    return KVT_OK;
}

enum kvt_status kvt_bench_measure(const struct kvt_bench_job *job, struct kvt_err *err,
                                  const char *shape, ...)
{
    struct kvt_bench *bench = job->bench;
    va_list arguments;
    if (kvt_stop_asked(bench->stop))
        return kvt_err_set(err, KVT_EINTR, "interrupted at %s", job->family);
    if (bench->count == KVT_BENCH_ROWS)
        return kvt_err_set(err, KVT_ELIMIT, "bench has more than %d rows", KVT_BENCH_ROWS);
    struct kvt_bench_row *row = &bench->rows[bench->count];
    *row = (struct kvt_bench_row){.family = job->family,
                                  .variant = job->variant,
                                  .ceiling = job->copies ? "copy" : "read",
                                  .bytes = job->bytes,
                                  .flops = job->flops,
                                  .right = job->right};
    va_start(arguments, shape);
    vsnprintf(row->shape, sizeof row->shape, shape, arguments);
    va_end(arguments);
    if (job->right)
        KVT_TRY(time_row(job, row, err));
    bench->count++;
    return KVT_OK;
}

/* ---- all ---- */

static void call_peak(const struct kvt_bench_job *job, int64_t turn)
{
    (void)turn;
    job->bench->device.ops->gemm(&job->bench->device, job->data);
}

static enum kvt_status gemm_peak(struct kvt_bench *bench, struct kvt_err *err)
{
    struct kvt_bench_memory memory = {.bench = bench};
    struct kvt_bench_array a, out, w = {0};
    struct kvt_device *device = &bench->device;
    int32_t size = device->ops->host_memory ? 512 : 8192;
    double flops = 2.0 * size * size * size;
    int64_t bytes = (int64_t)2 * size * size;
    enum kvt_status status = kvt_bench_take(&memory, bytes, &a, err);
    if (status == KVT_OK)
        status = kvt_bench_take_device(&memory, bytes, &out, err);
    if (status == KVT_OK)
        status = kvt_bench_take_device(
            &memory, (int64_t)device->ops->gemm_bytes(KVT_GEMM_BF16, size, size), &w, err);
    if (status == KVT_OK) {
        struct kvt_gemm gemm = {.weights = KVT_GEMM_BF16,
                                .m = size,
                                .n = size,
                                .k = size,
                                .a = a.device,
                                .w = w.device,
                                .out = out.device};
        struct kvt_bench_job job = {.bench = bench,
                                    .family = "gemm-peak",
                                    .variant = "bf16",
                                    .flops = flops,
                                    .right = true,
                                    .call = call_peak,
                                    .data = &gemm};
        kvt_bench_noise(a.host, bytes / 2, 1.0f);
        kvt_bench_up(&memory, &a);
        device->ops->gemm_pack(device, KVT_GEMM_BF16, size, size, a.host, w.device);
        status = kvt_bench_measure(&job, err, "m=%d n=%d k=%d", size, size, size);
    }
    if (status == KVT_OK) {
        is_ceiling(bench);
        bench->peak = flops / last_row(bench)->time;
    }
    kvt_bench_release(&memory);
    /* memory has the arrays too and gave them back: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return status;
}

enum kvt_status kvt_bench_all(struct kvt_bench *bench, struct kvt_err *err)
{
    KVT_TRY(kvt_device_take(&bench->device, bench->cold + KVT_DEVICE_ALIGN, "ceilings",
                            &bench->memory, err));
    bench->sum = (uint32_t *)(void *)(bench->memory + bench->cold);
    /* cppcheck-suppress uninitvar ; it takes an array of functions for a value without one */
    enum kvt_status (*const parts[])(struct kvt_bench *, struct kvt_err *) = {
        ceilings,         kvt_bench_linears,     kvt_bench_experts, kvt_bench_attention,
        kvt_bench_writes, kvt_bench_elementwise, kvt_bench_tags};
    enum kvt_status status = KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < sizeof parts / sizeof parts[0]; i++)
        status = parts[i](bench, err);
    kvt_device_give(&bench->device, bench->memory, bench->cold + KVT_DEVICE_ALIGN);
    bench->memory = NULL;
    return status;
}

/* Four times the last cache, which on a shared machine may be hundreds of MB; as much as it takes
 * on a GPU, whose cache is small, and where time is short. */
static int64_t cold_bytes(enum kvt_backend backend, bool quick)
{
    int64_t cold = COLD_LEAST;
#ifdef _SC_LEVEL3_CACHE_SIZE
    if (backend == KVT_BACKEND_CPU && !quick)
        cold = 4 * (int64_t)sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    cold = cold < COLD_LEAST ? COLD_LEAST : cold > COLD_MOST ? COLD_MOST : cold;
    return cold / SLICE * SLICE;
}

enum kvt_status kvt_bench_run(struct kvt_bench *bench, enum kvt_backend backend,
                              struct kvt_err *err)
{
    bench->count = bench->target_count = 0;
    bench->fp8_speedup = 0;
    bench->turn = 0;
    bench->reads.count = bench->copies.count = bench->peaks.count = bench->vector_peaks.count = 0;
    bench->cold = cold_bytes(backend, bench->quick);
    int64_t limit = backend == KVT_BACKEND_CUDA ? (int64_t)16 << 30 : 5 * bench->cold;
    KVT_TRY(kvt_device_open(&bench->device, backend, limit, err));
    enum kvt_status status = kvt_bench_all(bench, err);
    const struct kvt_device_ops *ops = bench->device.ops;
    char name[sizeof bench->device.name];
    int32_t workers = bench->device.workers;
    memcpy(name, bench->device.name, sizeof name);
    kvt_device_close(&bench->device);
    bench->device.ops = ops; /* for the table */
    bench->device.workers = workers;
    memcpy(bench->device.name, name, sizeof name);
    if (status != KVT_OK)
        return status;
    tell_ceilings(bench);
    kvt_bench_judge(bench);
    return KVT_OK;
}
