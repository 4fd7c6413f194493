/*
 * bench.h - our kernels on this machine: ceilings first, then a grid of sizes per family
 *
 *   ceiling       what does nothing else
 *   read, copy    memory; bytes/s, copy counts what is read and what is written
 *   gemm-peak     the matrix units: tiles where the processor has them, else vectors; on a GPU a
 *                 large GEMM
 *   vector-peak   the vector units alone (vdpbf16ps; FP32 below AVX-512); not on a GPU
 *   launch        a call that does nothing
 *
 * Every kernel is compared with its plain definition on a small shape before it is timed; one that
 * is wrong is not timed, and its rows say "wrong". Operands rotate over copies that together exceed
 * the caches, pages lie in scattered order; rows with "warm" alone see the same operands again. A
 * row is the median of its repeats and their median absolute deviation; short calls are timed in
 * batches; a repeat during which another process took a processor is measured again.
 *
 * Memory of a shared machine drifts by a tenth within minutes. So on a host device the ceilings are
 * measured again between the repeats of every row, a fraction is of the median of those, and the
 * ceilings that are told at the end are medians over the whole run. fraction_of_ceiling is of the
 * ceiling that the kernel comes nearest to: read (append, convert, norm, rope: copy) for its bytes,
 * or gemm-peak for its FLOPs.
 *
 * Whether FP8 decodes faster than BF16 is measured by turns, one call of each at a time.
 *
 * CSV: backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,ceiling,
 * fraction_of_ceiling,status; shape is key=value with spaces between. kvtwin calibrate reads it
 * (sim/cost/table.h has the families).
 */
#ifndef KVT_RUNTIME_BENCH_H
#define KVT_RUNTIME_BENCH_H

#include "runtime/device.h"
#include "sim/base/stop.h"

#define KVT_BENCH_ROWS    320
#define KVT_BENCH_TARGETS 24

struct kvt_bench_row {
    const char *family, *variant, *ceiling;
    char shape[96];
    double time, mad;    /* s; 0 where the kernel is wrong */
    double bytes, flops; /* of one call */
    double fraction;     /* of the ceiling */
    double of_memory;    /* of read or copy */
    double of_vectors;   /* of vector-peak; 0 where that is not known */
    int32_t repeats;
    bool right;
};

/* What was asked of a kernel, and what it reached. */
struct kvt_bench_target {
    const char *what, *unit;
    char where[96]; /* the rows that it is taken from */
    double asked, reached;
    bool at_most; /* else at least */
    bool met;
};

/* What was measured of a ceiling beside the kernels. */
struct kvt_bench_beside {
    int32_t count;
    double rate[KVT_BENCH_ROWS];
};

struct kvt_bench {
    struct kvt_device device;
    bool quick;
    const char *only; /* a family, or NULL: all */
    const struct kvt_stop *stop;
    double read, copy, peak, vectors, launch; /* bytes/s, bytes/s, FLOP/s, FLOP/s, s */
    double read_low, read_high;               /* nine tenths of what was read beside the kernels */
    double fp8_speedup; /* of GQA decode over BF16, tokens/s; 0: not measured */
    int64_t cold;       /* bytes that operands rotate over */
    int64_t turn;
    int32_t count, target_count;
    struct kvt_bench_beside reads, copies, peaks, vector_peaks;
    uint8_t *memory; /* of the ceilings, while it runs; on the device */
    uint32_t *sum;   /* behind it */
    struct kvt_bench_row rows[KVT_BENCH_ROWS];
    struct kvt_bench_target targets[KVT_BENCH_TARGETS];
};

extern const char *const kvt_bench_families[]; /* ended by NULL */

/* Measure. bench->quick, only and stop are set by the caller; large: keep it off small stacks.
 * KVT_EINTR where *stop is set meanwhile. At most 2 minutes on two cores. */
enum kvt_status kvt_bench_run(struct kvt_bench *bench, enum kvt_backend backend,
                              struct kvt_err *err);

#endif
