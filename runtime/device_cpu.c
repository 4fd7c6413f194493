/* The CPU backends: fast kernels, and their plain definitions. Both run in the calling thread (with
 * OpenMP inside) and are done when they return, so the stream is always empty. */
#define _DEFAULT_SOURCE
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "kernels/cpu/ceilings.h"
#include "runtime/device.h"
#include "sim/base/assert.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define OS_PAGE   4096

static atomic_int clock_jumps;

double kvt_device_now(void)
{
    static _Thread_local double last, lost; /* seconds; by how much the clock went back */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + lost;
    if (seconds < last) {
        lost += last - seconds;
        seconds = last;
        atomic_fetch_add(&clock_jumps, 1);
    }
    last = seconds;
    return seconds;
}

int32_t kvt_device_clock_jumps(void)
{
    return atomic_load(&clock_jumps);
}

int64_t kvt_device_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

/* Of the processor; "cpu" where the system does not say. */
static void processor_name(char *name, size_t bytes)
{
    snprintf(name, bytes, "cpu");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(name, bytes, "%s", colon + (colon[1] == ' ' ? 2 : 1));
        break;
    }
    if (file != NULL)
        fclose(file);
}

static enum kvt_status cpu_open(struct kvt_device *device, struct kvt_err *err)
{
    (void)err;
    processor_name(device->name, sizeof device->name);
    device->workers = omp_get_max_threads();
    return KVT_OK;
}

static void cpu_close(struct kvt_device *device)
{
    (void)device;
}

static size_t mapped(size_t bytes)
{
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : OS_PAGE;
    return (bytes + unit - 1) / unit * unit;
}

/* Pages are touched here, not in the first step: a first touch costs more than a kernel's whole
 * pass. A mapping of huge pages starts where one may lie. */
static void *cpu_map(struct kvt_device *device, size_t bytes)
{
    (void)device;
    size_t size = mapped(bytes), slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *base =
        mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    size_t skip = slack == 0 ? 0 : (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
    if (skip > 0)
        munmap(base, skip);
    if (slack > skip)
        munmap(base + skip + size, slack - skip);
    char *memory = base + skip;
    if (slack > 0)
        madvise(memory, size, MADV_HUGEPAGE);
    for (size_t at = 0; at < size; at += OS_PAGE)
        ((volatile char *)memory)[at] = 0;
    return memory;
}

static void cpu_unmap(struct kvt_device *device, void *memory, size_t bytes)
{
    (void)device;
    munmap(memory, mapped(bytes));
}

static void cpu_copy(struct kvt_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
}

static void cpu_copy_rows(struct kvt_device *device, void *to, size_t to_stride, const void *from,
                          size_t from_stride, size_t row_bytes, size_t rows)
{
    (void)device;
    for (size_t row = 0; row < rows; row++)
        memcpy((char *)to + row * to_stride, (const char *)from + row * from_stride, row_bytes);
}

static void cpu_gather(struct kvt_device *device, void *out, const void *from, const int32_t *row,
                       int32_t rows, size_t row_bytes)
{
    (void)device;
    for (int32_t i = 0; i < rows; i++)
        memcpy((char *)out + (size_t)i * row_bytes, (const char *)from + (size_t)row[i] * row_bytes,
               row_bytes);
}

static void cpu_zero(struct kvt_device *device, void *memory, size_t bytes)
{
    (void)device;
    memset(memory, 0, bytes);
}

static enum kvt_status cpu_wait(struct kvt_device *device, struct kvt_err *err)
{
    (void)device;
    (void)err;
    return KVT_OK;
}

static void cpu_mark(struct kvt_device *device, int32_t slot)
{
    kvt_assert(slot >= 0 && slot < KVT_DEVICE_MARKS);
    device->mark[slot] = kvt_device_now();
}

static double cpu_between(struct kvt_device *device, int32_t from, int32_t to)
{
    return device->mark[to] - device->mark[from];
}

/* ---- ceilings ---- */

static void cpu_ceiling_copy(struct kvt_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    kvt_cpu_ceiling_copy(to, from, bytes);
}

static void cpu_ceiling_read(struct kvt_device *device, const void *from, size_t bytes,
                             uint32_t *sum)
{
    (void)device;
    *sum = kvt_cpu_ceiling_read(from, bytes);
}

static void cpu_ceiling_empty(struct kvt_device *device)
{
    (void)device;
#pragma omp parallel
    __asm__ volatile("");
}

static double cpu_ceiling_multiply(struct kvt_device *device, bool tiles, int32_t rounds)
{
    (void)device;
    return kvt_cpu_ceiling_multiply(tiles, rounds);
}

/* ---- fast kernels ---- */

static void cpu_gemm_pack(struct kvt_device *device, enum kvt_gemm_weights weights, int32_t n,
                          int32_t k, const void *plain, void *packed)
{
    (void)device;
    kvt_cpu_gemm_pack(weights, n, k, plain, packed);
}

static void cpu_int4_pack(struct kvt_device *device, const struct kvt_int4_plain *plain,
                          void *packed)
{
    (void)device;
    kvt_cpu_int4_pack(plain, packed);
}

/* A kernel of the CPU as an operation of the device; check is that of its contract, which a fault
 * may break where pages are read and written. */
#define PASS(name, type, kernel, check)                                                            \
    static void name(struct kvt_device *device, const type *work)                                  \
    {                                                                                              \
        struct kvt_err err;                                                                        \
        (void)device;                                                                              \
        kvt_assert_slow(check(work, &err) != KVT_ELIMIT);                                          \
        kernel(work);                                                                              \
    }
#define NO_CHECK(work, err) ((void)(err), KVT_OK)
#define PASS_FAMILY(family)                                                                        \
    PASS(family##_gemm, struct kvt_gemm, kvt_##family##_gemm, kvt_gemm_check)                      \
    PASS(family##_attention, struct kvt_attention_call, kvt_##family##_attention, NO_CHECK)        \
    PASS(family##_append, struct kvt_kv_append, kvt_##family##_kv_append, NO_CHECK)                \
    PASS(family##_convert, struct kvt_kv_convert, kvt_##family##_kv_convert, NO_CHECK)             \
    PASS(family##_tag_check, struct kvt_tag_check, kvt_##family##_tag_check, kvt_tag_check_check)  \
    PASS(family##_rope, struct kvt_rope, kvt_##family##_rope, NO_CHECK)                            \
    PASS(family##_combine, struct kvt_combine, kvt_##family##_combine, NO_CHECK)                   \
    static void family##_add_norm(struct kvt_device *device, float *x, const kvt_bf16 *y,          \
                                  const kvt_bf16 *weight, float eps, int32_t rows, int32_t dim,    \
                                  kvt_bf16 *out)                                                   \
    {                                                                                              \
        (void)device;                                                                              \
        kvt_##family##_add_norm(x, y, weight, eps, rows, dim, out);                                \
    }                                                                                              \
    static void family##_silu_mul(struct kvt_device *device, const kvt_bf16 *in, int32_t rows,     \
                                  int32_t dim, kvt_bf16 *out)                                      \
    {                                                                                              \
        (void)device;                                                                              \
        kvt_##family##_silu_mul(in, rows, dim, out);                                               \
    }                                                                                              \
    static void family##_argmax(struct kvt_device *device, const kvt_bf16 *logits, int32_t rows,   \
                                int32_t columns, int32_t *token)                                   \
    {                                                                                              \
        (void)device;                                                                              \
        kvt_##family##_argmax(logits, rows, columns, token);                                       \
    }
PASS_FAMILY(cpu)
PASS_FAMILY(ref)
PASS(cpu_int4_gemm, struct kvt_int4_gemm, kvt_cpu_int4_gemm, kvt_int4_gemm_check)
PASS(cpu_int4_experts, struct kvt_int4_experts, kvt_cpu_int4_experts, kvt_int4_experts_check)

/* ---- plain definitions ---- */

static size_t ref_gemm_bytes(enum kvt_gemm_weights weights, int32_t n, int32_t k)
{
    return (size_t)n * (size_t)k * (weights == KVT_GEMM_FP8 ? 1 : 2);
}

static void ref_gemm_pack(struct kvt_device *device, enum kvt_gemm_weights weights, int32_t n,
                          int32_t k, const void *plain, void *packed)
{
    (void)device;
    memcpy(packed, plain, ref_gemm_bytes(weights, n, k));
}

/* Nibbles, then scales. */
static size_t int4_nibble_bytes(int32_t n, int32_t k)
{
    return (size_t)n * (size_t)(k / 8) * 4;
}

static size_t ref_int4_bytes(int32_t n, int32_t k, int32_t group)
{
    return int4_nibble_bytes(n, k) + (size_t)n * (size_t)(k / group) * 2;
}

static void ref_int4_pack(struct kvt_device *device, const struct kvt_int4_plain *plain,
                          void *packed)
{
    (void)device;
    size_t nibbles = int4_nibble_bytes(plain->n, plain->k);
    memcpy(packed, plain->nibbles, nibbles);
    memcpy((char *)packed + nibbles, plain->scales,
           (size_t)plain->n * (size_t)(plain->k / plain->group) * 2);
}

static void ref_int4_gemm(struct kvt_device *device, const struct kvt_int4_gemm *gemm)
{
    (void)device;
    union { /* the definition's struct is one for reading and writing */
        const void *given;
        uint32_t *words;
        char *bytes;
    } w = {.given = gemm->w};
    struct kvt_int4_plain plain = {
        .n = gemm->n,
        .k = gemm->k,
        .group = gemm->group,
        .nibbles = w.words,
        .scales = (kvt_bf16 *)(void *)(w.bytes + int4_nibble_bytes(gemm->n, gemm->k))};
    kvt_ref_int4_gemm(gemm, &plain);
}

static void ref_int4_experts(struct kvt_device *device, const struct kvt_int4_experts *experts)
{
    size_t each = ref_int4_bytes(experts->n, experts->k, experts->group);
    for (int32_t e = 0; e < experts->experts; e++) {
        int64_t first = experts->row_begin[e];
        struct kvt_int4_gemm gemm = {.m = experts->row_begin[e + 1] - (int32_t)first,
                                     .n = experts->n,
                                     .k = experts->k,
                                     .group = experts->group,
                                     .a = experts->a + first * experts->k,
                                     .w = (const char *)experts->w + (size_t)e * each,
                                     .out = experts->out + first * experts->n};
        if (gemm.m > 0)
            ref_int4_gemm(device, &gemm);
    }
}

/* What both backends share, and the kernels that are named alike. */
#define HOST_OPS(family)                                                                           \
    .host_memory = true, .open = cpu_open, .close = cpu_close, .map = cpu_map, .unmap = cpu_unmap, \
    .copy = cpu_copy, .copy_rows = cpu_copy_rows, .zero = cpu_zero, .wait = cpu_wait,              \
    .mark = cpu_mark, .between = cpu_between, .gather = cpu_gather, .gemm = family##_gemm,         \
    .attention = family##_attention, .append = family##_append, .convert = family##_convert,       \
    .tag_check = family##_tag_check, .add_norm = family##_add_norm, .silu_mul = family##_silu_mul, \
    .rope = family##_rope, .argmax = family##_argmax, .combine = family##_combine

const struct kvt_device_ops kvt_device_cpu_ops = {
    HOST_OPS(cpu),
    .backend = KVT_BACKEND_CPU,
    .gemm_bytes = kvt_cpu_gemm_packed_bytes,
    .gemm_pack = cpu_gemm_pack,
    .int4_bytes = kvt_cpu_int4_packed_bytes,
    .int4_pack = cpu_int4_pack,
    .int4_gemm = cpu_int4_gemm,
    .int4_experts = cpu_int4_experts,
    .ceiling_copy = cpu_ceiling_copy,
    .ceiling_read = cpu_ceiling_read,
    .ceiling_empty = cpu_ceiling_empty,
    .ceiling_multiply = cpu_ceiling_multiply,
};

const struct kvt_device_ops kvt_device_reference_ops = {
    HOST_OPS(ref),
    .backend = KVT_BACKEND_REFERENCE,
    .gemm_bytes = ref_gemm_bytes,
    .gemm_pack = ref_gemm_pack,
    .int4_bytes = ref_int4_bytes,
    .int4_pack = ref_int4_pack,
    .int4_gemm = ref_int4_gemm,
    .int4_experts = ref_int4_experts,
};
