/* The bench on a device whose clock is made up: while it runs, no kernel does, so that every row of
 * the grid takes the time that the clock says and nothing of it depends on the machine. Kernels are
 * compared with their definitions as ever, which is outside of the clock. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/bench_job.h"
#include "tests/check.h"
#include "tests/scarce.h"

#define MIB   ((int64_t)1 << 20)
#define TICK  1e-3 /* s of every timed batch */
#define FLOPS 1e9  /* of a ceiling's multiplications */

#define MAPS 64

static struct {
    bool timing;
    const char *broken; /* a kernel that writes nothing; NULL: none */
    bool lost;          /* a wait failed, and all others will */
    struct {
        char *from;
        size_t bytes;
    } maps[MAPS]; /* of device memory */
} fake;
static struct kvt_device_ops ops;

/* Not touched: large copies from one place of the device to another are not made either. */
static void *map(struct kvt_device *device, size_t bytes)
{
    (void)device;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    for (int i = 0; i < MAPS; i++)
        if (fake.maps[i].from == NULL) {
            fake.maps[i].from = memory;
            fake.maps[i].bytes = bytes;
            return memory;
        }
    munmap(memory, bytes);
    return NULL;
}

static void unmap(struct kvt_device *device, void *memory, size_t bytes)
{
    (void)device;
    for (int i = 0; i < MAPS; i++)
        if (fake.maps[i].from == memory)
            fake.maps[i].from = NULL;
    munmap(memory, bytes);
}

static bool is_there(const void *memory)
{
    for (int i = 0; i < MAPS; i++)
        if (fake.maps[i].from != NULL && (const char *)memory >= fake.maps[i].from &&
            (const char *)memory < fake.maps[i].from + fake.maps[i].bytes)
            return true;
    return false;
}

static void copy(struct kvt_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes < 3 * MIB || !is_there(to) || !is_there(from))
        memcpy(to, from, bytes);
}

static enum kvt_status wait(struct kvt_device *device, struct kvt_err *err)
{
    (void)device;
    fake.lost = fake.lost || scarce_fails();
    return fake.lost ? kvt_err_set(err, KVT_EDEVICE, "the device is lost") : KVT_OK;
}

static void mark(struct kvt_device *device, int32_t slot)
{
    (void)device;
    fake.timing = slot == 0;
}

static double between(struct kvt_device *device, int32_t from, int32_t to)
{
    (void)device;
    (void)from;
    (void)to;
    return TICK;
}

static bool runs(const char *kernel)
{
    return !fake.timing && (fake.broken == NULL || strcmp(fake.broken, kernel) != 0);
}

#define KERNEL(name, type)                                                                         \
    static void name(struct kvt_device *device, const type *work)                                  \
    {                                                                                              \
        if (runs(#name))                                                                           \
            kvt_device_cpu_ops.name(device, work);                                                 \
    }
KERNEL(gemm, struct kvt_gemm)
KERNEL(int4_gemm, struct kvt_int4_gemm)
KERNEL(int4_experts, struct kvt_int4_experts)
KERNEL(attention, struct kvt_attention_call)
KERNEL(append, struct kvt_kv_append)
KERNEL(convert, struct kvt_kv_convert)
KERNEL(tag_check, struct kvt_tag_check)

static void rope(struct kvt_device *device, const struct kvt_rope *work)
{
    if (runs("elementwise"))
        kvt_device_cpu_ops.rope(device, work);
}

static void add_norm(struct kvt_device *device, float *x, const kvt_bf16 *y, const kvt_bf16 *weight,
                     float eps, int32_t rows, int32_t dim, kvt_bf16 *out)
{
    if (runs("elementwise"))
        kvt_device_cpu_ops.add_norm(device, x, y, weight, eps, rows, dim, out);
}

static void silu_mul(struct kvt_device *device, const kvt_bf16 *in, int32_t rows, int32_t dim,
                     kvt_bf16 *out)
{
    if (runs("elementwise"))
        kvt_device_cpu_ops.silu_mul(device, in, rows, dim, out);
}

static void argmax(struct kvt_device *device, const kvt_bf16 *logits, int32_t rows, int32_t columns,
                   int32_t *token)
{
    if (runs("elementwise"))
        kvt_device_cpu_ops.argmax(device, logits, rows, columns, token);
}

/* Matrices that are timed only are not packed. */
static void gemm_pack(struct kvt_device *device, enum kvt_gemm_weights weights, int32_t n,
                      int32_t k, const void *plain, void *packed)
{
    if ((int64_t)n * k < 1 << 20)
        kvt_device_cpu_ops.gemm_pack(device, weights, n, k, plain, packed);
}

static void int4_pack(struct kvt_device *device, const struct kvt_int4_plain *plain, void *packed)
{
    if ((int64_t)plain->n * plain->k < 1 << 22)
        kvt_device_cpu_ops.int4_pack(device, plain, packed);
}

static void ceiling_copy(struct kvt_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    (void)to;
    (void)from;
    (void)bytes;
}

static void ceiling_read(struct kvt_device *device, const void *from, size_t bytes, uint32_t *sum)
{
    (void)device;
    (void)from;
    (void)bytes;
    (void)sum;
}

static double tile_flops; /* 0: no matrix units */

static double ceiling_multiply(struct kvt_device *device, bool tiles, int32_t rounds)
{
    (void)device;
    (void)rounds;
    return tiles ? tile_flops : FLOPS;
}

/* A bench of one family on the device; large: static. */
static struct kvt_bench *open_bench(const char *only, bool quick, int64_t cold)
{
    static struct kvt_bench bench;
    struct kvt_err err = {0};
    memset(&fake, 0, sizeof fake);
    memset(&bench, 0, sizeof bench);
    tile_flops = 4 * FLOPS;
    ops = kvt_device_cpu_ops;
    ops.map = map, ops.unmap = unmap, ops.copy = copy, ops.wait = wait;
    ops.mark = mark, ops.between = between;
    ops.gemm = gemm, ops.int4_gemm = int4_gemm, ops.int4_experts = int4_experts;
    ops.gemm_pack = gemm_pack, ops.int4_pack = int4_pack;
    ops.attention = attention, ops.append = append, ops.convert = convert;
    ops.tag_check = tag_check, ops.rope = rope, ops.add_norm = add_norm;
    ops.silu_mul = silu_mul, ops.argmax = argmax;
    ops.ceiling_copy = ceiling_copy, ops.ceiling_read = ceiling_read;
    ops.ceiling_multiply = ceiling_multiply;
    CHECK_OK(kvt_device_open(&bench.device, KVT_BACKEND_CPU, INT64_MAX, &err), err);
    bench.device.ops = &ops;
    bench.only = only;
    bench.quick = quick;
    bench.cold = cold;
    return &bench;
}

static void close_bench(struct kvt_bench *bench)
{
    CHECK_I64(bench->device.used, 0, "device memory that is not returned");
    kvt_device_close(&bench->device);
}

static int32_t rows_of(const struct kvt_bench *bench, const char *family, const char *variant)
{
    int32_t count = 0;
    for (int32_t i = 0; i < bench->count; i++)
        count += strcmp(bench->rows[i].family, family) == 0 &&
                 (variant == NULL || strcmp(bench->rows[i].variant, variant) == 0);
    return count;
}

static void check_row(const struct kvt_bench_row *row)
{
    CHECK_NOTE(row->right, row->family);
    CHECK_CLOSE(row->time, TICK, 1e-12, row->family);
    CHECK_CLOSE(row->mad, 0, 0, row->family);
    CHECK_NOTE(row->fraction > 0, row->family);
    /* Ceilings take as long: fractions are those of the bytes, and of the FLOPs. */
    bool ceiling = strcmp(row->family, row->ceiling) == 0,
         tiles = strcmp(row->ceiling, "gemm-peak") == 0;
    if (!ceiling && tiles)
        CHECK_CLOSE(row->fraction, row->flops / (4 * FLOPS), 1e-9, row->family);
    else if (!ceiling)
        CHECK_CLOSE(row->fraction, row->bytes / (32 << 20), 1e-9, row->family);
}

/* Each family's grid: how many rows of which variant, and what of it are targets. */
static void the_whole_grid_is_measured(void)
{
    static const struct {
        const char *family, *variant;
        int32_t rows, targets;
        int64_t cold; /* MiB: conversion wants 256 pages, decode 1024 */
    } grids[] = {
        {"gemm", "bf16", 4 + 8 + 4, 1, 96}, {"int4-gemv", "g32", 3, 2, 96},
        {"int4-experts", "g32", 9, 0, 32},  {"gqa-decode", "bf16", 9, 3, 384},
        {"mla-decode", "bf16", 18, 3, 96},  {"gqa-prefill", "bf16", 9, 0, 96},
        {"mla-prefill", "bf16", 9, 0, 96},  {"append", "fp8-scaled", 12, 5, 96},
        {"convert", NULL, 6, 0, 96},        {"tag-check", NULL, 18, 1, 32},
        {"elementwise", "rope", 6, 0, 96},
    };
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        const char *family = grids[i].family;
        struct kvt_bench *bench = open_bench(family, false, grids[i].cold * MIB);
        struct kvt_err err = {0};
        CHECK_OK(kvt_bench_all(bench, &err), err);
        CHECK_I64(rows_of(bench, family, grids[i].variant), grids[i].rows, family);
        for (int32_t r = 0; r < bench->count; r++)
            check_row(&bench->rows[r]);
        CHECK_I64(rows_of(bench, "gemm-peak", NULL), 1, "a ceiling");
        CHECK_CLOSE(bench->peak, 4 * FLOPS / TICK, 1e-9, "matrix units");
        CHECK_CLOSE(bench->vectors, FLOPS / TICK, 1e-9, "vectors");
        CHECK_CLOSE(bench->read, (32 << 20) / TICK, 1e-9, "reading");
        kvt_bench_judge(bench);
        CHECK_I64(bench->target_count, grids[i].targets, family);
        close_bench(bench);
    }
}

static void kernels_that_are_wrong_are_not_timed(void)
{
    static const struct {
        const char *family, *kernel;
    } rows[] = {{"gemm", "gemm"},
                {"int4-gemm", "int4_gemm"},
                {"int4-experts", "int4_experts"},
                {"gqa-prefill", "attention"},
                {"convert", "convert"},
                {"tag-check", "tag_check"},
                {"elementwise", "elementwise"},
                {"append", "append"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_bench *bench = open_bench(rows[i].family, true, 96 * MIB);
        struct kvt_err err = {0};
        fake.broken = rows[i].kernel;
        CHECK_OK(kvt_bench_all(bench, &err), err);
        CHECK_NOTE(rows_of(bench, rows[i].family, NULL) > 0, rows[i].family);
        for (int32_t r = 0; r < bench->count; r++) {
            const struct kvt_bench_row *row = &bench->rows[r];
            if (strcmp(row->family, rows[i].family) != 0)
                continue;
            CHECK_NOTE(!row->right, row->shape);
            CHECK_CLOSE(row->time, 0, 0, row->shape);
        }
        kvt_bench_judge(bench);
        CHECK_I64(bench->target_count, 0, "of what is wrong nothing is told");
        close_bench(bench);
    }
}

/* Processors without matrix units, and a GPU, whose peak is that of a GEMM. */
static void the_peak_is_of_what_there_is(void)
{
    for (int gpu = 0; gpu < 2; gpu++) {
        struct kvt_bench *bench = open_bench("launch", true, 64 * MIB);
        struct kvt_err err = {0};
        tile_flops = 0;
        if (gpu) {
            ops.host_memory = false;
            ops.ceiling_multiply = NULL;
        }
        CHECK_OK(kvt_bench_all(bench, &err), err);
        if (gpu) {
            CHECK_CLOSE(bench->peak, 2 * 2.0 * 8192 * 8192 * 8192 / TICK, 1e-9, "of two a tick");
            CHECK_CLOSE(bench->vectors, 0, 0, "no vector units");
            CHECK_I64(bench->reads.count, 0, "a GPU does not drift");
        } else {
            CHECK_CLOSE(bench->peak, FLOPS / TICK, 1e-9, "of vectors");
        }
        close_bench(bench);
    }
}

static void add_row(struct kvt_bench *bench, const char *family, const char *variant,
                    const char *shape, double bytes, double time)
{
    struct kvt_bench_row *row = &bench->rows[bench->count++];
    *row = (struct kvt_bench_row){
        .family = family, .variant = variant, .bytes = bytes, .time = time, .right = true};
    snprintf(row->shape, sizeof row->shape, "%s", shape);
}

static void a_gpu_has_targets_of_its_own(void)
{
    struct kvt_bench *bench = open_bench(NULL, true, 32 * MIB);
    ops.host_memory = false;
    static const char gqa[] = "batch=32 context=8192 heads=32 kv_heads=8 head_dim=128";
    kvt_bench_judge(bench);
    CHECK_I64(bench->target_count, 0, "no rows, no targets");
    add_row(bench, "gqa-decode", "bf16", gqa, 4e9, 1e-3);
    kvt_bench_judge(bench);
    CHECK_I64(bench->target_count, 1, "BF16 alone");
    CHECK_CLOSE(bench->targets[0].reached, 4, 1e-12, "TB/s");
    CHECK_NOTE(bench->targets[0].met, "3.6 were asked");
    add_row(bench, "gqa-decode", "fp8-scaled", gqa, 2e9, 0.8e-3);
    add_row(bench, "int4-gemv", "g128", "m=1 n=16384 k=12288 group=128", 1e8, 5e-5);
    add_row(bench, "tag-check", "side", "pages=53248", 1, 5e-6);
    kvt_bench_judge(bench);
    CHECK_I64(bench->target_count, 4, "all");
    CHECK_CLOSE(bench->targets[1].reached, 0.8, 1e-12, "of the time");
    CHECK_NOTE(!bench->targets[1].met, "0.7 was asked at most");
    CHECK_NOTE(!bench->targets[2].met, "2 TB/s where 3 were asked");
    CHECK_CLOSE(bench->targets[3].reached, 5, 1e-12, "us");
    CHECK_NOTE(bench->targets[3].met, "6 were asked at most");
    ops.host_memory = true;
    close_bench(bench);
}

static void a_bench_is_interrupted_between_rows(void)
{
    const struct kvt_stop stop = {.asked = true};
    struct kvt_bench *bench = open_bench("append", true, 32 * MIB);
    struct kvt_err err = {0};
    bench->stop = &stop;
    CHECK_FAILS(kvt_bench_all(bench, &err), err, KVT_EINTR);
    CHECK_HOLDS(err.text, "interrupted at copy", "where");
    bench->stop = NULL;
    bench->count = KVT_BENCH_ROWS;
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_bench_all(bench, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "more than 320 rows", "why");
    close_bench(bench);
}

struct part {
    const char *family;
    enum kvt_status (*run)(struct kvt_bench *bench, struct kvt_err *err);
    int64_t cold; /* MiB */
    bool gpu;
};

/* A part of the bench on a device that may fail. */
static enum kvt_status bench_part(void *context, struct kvt_err *err)
{
    const struct part *part = context;
    struct kvt_bench *bench = open_bench(part->family, true, part->cold * MIB);
    if (part->gpu) {
        ops.host_memory = false;
        ops.ceiling_multiply = NULL;
    }
    enum kvt_status status = part->run(bench, err);
    close_bench(bench);
    return status;
}

static void every_failure_ends_the_bench(void)
{
    struct part parts[] = {
        {"gemm-peak", kvt_bench_all, 32, true},
        {"launch", kvt_bench_all, 32, false},
        {"gemm", kvt_bench_linears, 32, false},
        {"gqa-decode", kvt_bench_attention, 96, false},
        {"mla-prefill", kvt_bench_attention, 32, false},
        {"append", kvt_bench_writes, 32, false},
        {"convert", kvt_bench_writes, 96, false},
        {"tag-check", kvt_bench_tags, 32, false},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        long ways = scarce_try(bench_part, &parts[i], parts[i].family, 0);
        CHECK_NOTE(ways > 6, parts[i].family);
    }
}

const struct check_test check_bench_kernels[] = {
    {"the whole grid is measured", the_whole_grid_is_measured, false},
    {"kernels that are wrong are not timed", kernels_that_are_wrong_are_not_timed, false},
    {"the peak is of what there is", the_peak_is_of_what_there_is, false},
    {"a GPU has targets of its own", a_gpu_has_targets_of_its_own, false},
    {"a bench is interrupted between rows", a_bench_is_interrupted_between_rows, false},
    {"every failure ends the bench", every_failure_ends_the_bench, false},
    {NULL, NULL, false},
};
