/*
 * bench_job.h - one point of the grid, and memory for it; for bench*.c alone
 *
 * Everything a kernel works on is taken from the device; what the host makes or looks at has a copy
 * in host memory, which goes up and comes down by the device's copies. So nothing here depends on
 * whether the host can read the device's memory.
 */
#ifndef KVT_RUNTIME_BENCH_JOB_H
#define KVT_RUNTIME_BENCH_JOB_H

#include <string.h>

#include "runtime/bench.h"

/* A point: what is called, and what one call does. */
struct kvt_bench_job {
    struct kvt_bench *bench;
    const char *family, *variant;
    double bytes, flops; /* of a call */
    bool copies;         /* against copy, not read */
    bool warm;           /* the caches keep what it needs: nothing else runs between the repeats */
    bool right;
    void (*call)(const struct kvt_bench_job *job, int64_t turn);
    void *data; /* of the family */
};

static inline bool kvt_bench_wants(const struct kvt_bench *bench, const char *family)
{
    return bench->only == NULL || strcmp(bench->only, family) == 0;
}

/* Time a point; the row's shape is written as by printf. */
__attribute__((format(printf, 3, 4))) enum kvt_status
kvt_bench_measure(const struct kvt_bench_job *job, struct kvt_err *err, const char *shape, ...);

/* Seconds of one of `batch` calls in a row. */
enum kvt_status kvt_bench_time(const struct kvt_bench_job *job, int32_t batch, double *time,
                               struct kvt_err *err);

/* ---- memory ---- */

struct kvt_bench_array {
    void *device, *host;
    int64_t bytes;
};

struct kvt_bench_memory {
    struct kvt_bench *bench;
    int32_t count;
    struct kvt_bench_array arrays[32];
};

/* Zeroed memory on the device, and as much on the host. */
enum kvt_status kvt_bench_take(struct kvt_bench_memory *memory, int64_t bytes,
                               struct kvt_bench_array *array, struct kvt_err *err);
/* On the device alone. */
enum kvt_status kvt_bench_take_device(struct kvt_bench_memory *memory, int64_t bytes,
                                      struct kvt_bench_array *array, struct kvt_err *err);
void kvt_bench_up(struct kvt_bench_memory *memory, const struct kvt_bench_array *array);
enum kvt_status kvt_bench_down(struct kvt_bench_memory *memory, const struct kvt_bench_array *array,
                               struct kvt_err *err);
void kvt_bench_release(struct kvt_bench_memory *memory);

/* Fill [from, bytes) of the device's memory with copies of what lies in [0, from). */
void kvt_bench_repeat(struct kvt_bench *bench, void *memory, int64_t from, int64_t bytes);

/* count values in [-size, size): random data, as zeros are multiplied faster on some machines. */
void kvt_bench_noise(kvt_bf16 *out, int64_t count, float size);

/* ---- families ---- */

enum kvt_status kvt_bench_linears(struct kvt_bench *bench, struct kvt_err *err);
enum kvt_status kvt_bench_experts(struct kvt_bench *bench, struct kvt_err *err);
enum kvt_status kvt_bench_attention(struct kvt_bench *bench, struct kvt_err *err);
enum kvt_status kvt_bench_writes(struct kvt_bench *bench, struct kvt_err *err);
enum kvt_status kvt_bench_tags(struct kvt_bench *bench, struct kvt_err *err);
enum kvt_status kvt_bench_elementwise(struct kvt_bench *bench, struct kvt_err *err);

/* Ceilings and families on bench->device, which is open, with operands of bench->cold bytes. */
enum kvt_status kvt_bench_all(struct kvt_bench *bench, struct kvt_err *err);

/* Fill bench->targets from its rows. */
void kvt_bench_judge(struct kvt_bench *bench);

#endif
