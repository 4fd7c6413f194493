/* bench_job.h - one point of the grid (bench.c, bench_pages.c); not for others */
#ifndef KVT_RUNTIME_BENCH_JOB_H
#define KVT_RUNTIME_BENCH_JOB_H

#include <string.h>

#include "runtime/bench.h"

#define KVT_BENCH_COLD ((int64_t)384 << 20) /* bytes that operands rotate over */

struct kvt_bench_job { /* one point of the grid: everything on the device */
    struct kvt_bench *bench;
    struct kvt_gemm gemm;
    struct kvt_int4_gemm int4;
    struct kvt_attention_call attention;
    struct kvt_kv_append append;
    struct kvt_tag_check check;
    uint8_t *memory; /* that rotates: copies of `each` bytes */
    int64_t each, copies;
    double sum;
    void (*call)(struct kvt_bench_job *job, int64_t turn);
};

static inline bool kvt_bench_wants(const struct kvt_bench *bench, const char *family)
{
    return bench->only == NULL || strcmp(bench->only, family) == 0;
}

/* Call the job once, then time its repeats; *out is the new row, whose shape the caller writes. */
enum kvt_status kvt_bench_measure(struct kvt_bench *bench, struct kvt_bench_job *job,
                                  const char *family, const char *variant, double bytes,
                                  double flops, bool right, struct kvt_bench_row **out,
                                  struct kvt_err *err);

/* Families over KV pages. */
enum kvt_status kvt_bench_pages(struct kvt_bench *bench, struct kvt_err *err);

#endif
