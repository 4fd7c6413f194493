/*
 * bench.h - our kernels on this machine: ceilings first, then a grid of sizes per family
 *
 * Every family is compared with its plain definition on a small shape before it is timed; a family
 * that is wrong there has the status "wrong" in all its rows. Operands rotate over copies that are
 * together well over the cache, pages are read in scattered order. A row is the median of its
 * repeats and their median absolute deviation. fraction_of_ceiling is of the ceiling that the
 * kernel comes nearest to: the read or copy rate for its bytes, or the GEMM peak for its FLOPs.
 *
 * CSV: backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,ceiling,
 * fraction_of_ceiling,status; shape is key=value with spaces between. kvtwin calibrate reads it.
 */
#ifndef KVT_RUNTIME_BENCH_H
#define KVT_RUNTIME_BENCH_H

#include <signal.h>

#include "runtime/device.h"

struct kvt_bench_row {
    const char *family, *variant, *ceiling;
    char shape[96];
    double time, mad;    /* s */
    double bytes, flops; /* of one call */
    double fraction;     /* of the ceiling */
    int32_t repeats;
    bool right;
};

#define KVT_BENCH_ROWS 256

struct kvt_bench {
    struct kvt_device device;
    bool quick;
    const char *only; /* a family, or NULL: all */
    const volatile sig_atomic_t *stop;
    double read, copy, peak, launch; /* bytes/s, bytes/s, FLOP/s, s */
    int32_t count;
    struct kvt_bench_row rows[KVT_BENCH_ROWS];
};

extern const char *const kvt_bench_families[]; /* ended by NULL */

/* Measure. bench->quick, only and stop are set by the caller; large: keep it off small stacks. */
enum kvt_status kvt_bench_run(struct kvt_bench *bench, enum kvt_backend backend,
                              struct kvt_err *err);

#endif
