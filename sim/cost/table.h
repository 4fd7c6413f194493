/*
 * table.h - tables of measured kernel times, as rows of work and seconds
 *
 * A table is CSV, plain or gzip, with a header line; a row is one measurement (or the mean of one
 * tool's replays) of one kernel call. Which kernel it is follows from the column op_name, what the
 * call did from the size columns of that kernel; other columns are ignored. The tables are those of
 * the public performance database that shared figures rest on: times in the column latency in
 * milliseconds, in the dispatch tables in microseconds; message_size counts 2-byte elements.
 *
 * Tables of kvtwin bench are told by their columns family and time_ns (and no op_name): one row per
 * measured point of our own kernels, on a CPU or through CUDA,
 *
 *   backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,...,status
 *
 *   family                   variant         shape: key=value with spaces between, whole numbers
 *   read, copy               any             any; bytes of the row count (a ceiling)
 *   gemm-peak, vector-peak   any             any; flops (ceilings; no law speaks of the second)
 *   launch                   any             any; time
 *   gemm                     bf16 fp8        m n k
 *   int4-gemv, int4-gemm     g32 g128        m (1 where it is left out) n k
 *   int4-experts             g32 g128        tokens hidden inter experts topk; hit: how many
 *   experts                  bf16 fp8        the same
 *   gqa-decode               bf16 fp8, or    batch context heads kv_heads head_dim
 *                            fp8-scaled
 *   mla-decode               of the KV       batch context heads; latent rope
 *   gqa-prefill, mla-prefill bf16            tokens heads (kv_heads head_dim); context: before
 *   mla-bmm                  bf16            m heads; nope latent
 *   append                   of the KV       tokens, kv_heads head_dim or latent rope
 *   tag-check                side header     pages; "side+warm": in the caches
 *   elementwise              norm silu rope  any; bytes of the row count
 *                            argmax
 *
 * context is that of one request. latent, rope and nope are 512, 64 and 128 where they are left
 * out; of the KV: bf16 fp8 fp8-plain fp8-scaled (with scales); other keys and a second variant
 * ("fp8+header") only set rows apart. Of the columns backend, device, family, variant, shape and
 * time_ns must be there; bytes and flops where a family above counts by them. Rows whose status is
 * given and not ok, and those of other families, are counted and left out. Bytes and FLOPs of all
 * other kernels are counted from the shape, as a step counts them; gb_per_s, where it is given,
 * must agree with bytes / time_ns, which tells a wrong unit. The GPU is --gpu's (a CPU is a GPU
 * file like others), all rows are of one device, the version is the backend.
 *
 * Rows become samples: the same struct kvt_work that a step asks laws for, with the measured time.
 * Samples of one stack, version, op, dtype and kernel form a series, which is what one fit is for.
 * GPU, stack and version come from the file's name, GPU-STACK-VERSION-TABLE.csv[.gz], version first
 * from its column.
 *
 * Every value is checked where it stands: missing columns, words where numbers belong, NaN, times
 * of zero or less and sizes below one are a KVT_ECONFIG with file:line.
 */
#ifndef KVT_COST_TABLE_H
#define KVT_COST_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/cost/laws.h"

struct kvt_sample {
    struct kvt_work work;
    double time;        /* s; after averaging, the mean of the repeats */
    uint64_t key;       /* of everything that the time may depend on: equal for repeats */
    uint64_t shape;     /* of the sizes that a model fixes: what is held out as a whole */
    int32_t line, file; /* of the (first) row; index into tables.paths */
    int32_t repeats;    /* rows averaged here */
};

#define KVT_SERIES_NONE KVT_FAMILY_COUNT /* measured, but no step asks for it: a whole module */

struct kvt_series {
    char name[256]; /* "sglang 0.5.14 gemm bfloat16" */
    char stack[32], version[32], op[48], dtype[96];
    int32_t family;             /* kvt_family, or KVT_SERIES_NONE */
    enum kvt_law_kind kind;     /* the form that fits it */
    int32_t rank;               /* among series of a family: lower is nearer to what a step runs */
    bool link;                  /* bytes cross a link, not the memory */
    struct kvt_sample *samples; /* owned */
    int64_t count, room;
    int64_t rows; /* read, repeats included */
    int32_t first_file;
    bool own;           /* measured by kvtwin bench */
    double weight_bits; /* its laws hold for weights (append: KV) of so many bits; 0: for all */
};

/* What tables of kvtwin bench say besides kernels. */
struct kvt_bench_facts {
    bool given;             /* there is such a table */
    char backend[16];       /* "cpu", "cuda" */
    char device[96];        /* "Intel Xeon ..., 2 threads" */
    double read, copy;      /* bytes/s, the best rows; 0: not measured */
    double flops;           /* FLOP/s, the best row */
    double launch;          /* s, the shortest */
    int64_t left_out;       /* rows not ok, or of families that no step asks for */
    char left_out_why[160]; /* of the first of them, with its place */
};

struct kvt_tables {
    struct kvt_series *series; /* owned; in the order of their first row */
    int32_t series_count;
    int64_t series_room;
    char **paths; /* owned */
    int32_t path_count;
    char gpu[64]; /* as in the names of the files ("h200_sxm"); "" until known */
    struct kvt_bench_facts bench;
};

/* Add the rows of one file. gpu and stack (may be NULL) are for files whose name does not say them,
 * and gpu for all of kvtwin bench, whose stack is "own" unless stack says otherwise.
 * All tables of one struct are of one GPU (KVT_ECONFIG). On failure the struct stays valid and must
 * be released. Cost about 1 us a row. */
enum kvt_status kvt_tables_read(struct kvt_tables *tables, const char *path, const char *gpu,
                                const char *stack, struct kvt_err *err);

/* The same from memory. */
enum kvt_status kvt_tables_parse(struct kvt_tables *tables, const char *path, const char *text,
                                 size_t count, const char *gpu, const char *stack,
                                 struct kvt_err *err);

/* Average rows with equal keys; afterwards samples are sorted by key. *floor is the mean of
 * |time/mean - 1| over rows that are repeated (0 when none is). */
void kvt_series_average(struct kvt_series *series, double *floor);

void kvt_tables_release(struct kvt_tables *tables);

#endif
