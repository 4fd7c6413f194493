/* What the kernels were asked to reach, and what the rows say. */
#include <math.h>
#include <stdio.h>

#include "runtime/bench_job.h"

static const struct kvt_bench_row *find(const struct kvt_bench *bench, const char *family,
                                        const char *variant, const char *shape)
{
    for (int32_t i = 0; i < bench->count; i++) {
        const struct kvt_bench_row *row = &bench->rows[i];
        if (strcmp(row->family, family) == 0 && strcmp(row->variant, variant) == 0 &&
            strcmp(row->shape, shape) == 0 && row->right)
            return row;
    }
    return NULL;
}

static void add(struct kvt_bench *bench, const char *what, const struct kvt_bench_row *row,
                const char *unit, double asked, double reached, bool at_most)
{
    if (row == NULL || bench->target_count == KVT_BENCH_TARGETS)
        return;
    struct kvt_bench_target *target = &bench->targets[bench->target_count++];
    *target = (struct kvt_bench_target){.what = what,
                                        .unit = unit,
                                        .asked = asked,
                                        .reached = reached,
                                        .at_most = at_most,
                                        .met = at_most ? reached <= asked : reached >= asked};
    snprintf(target->where, sizeof target->where, "%.6s %.80s", row->variant, row->shape);
}

static double of_memory(const struct kvt_bench_row *row)
{
    return row != NULL ? row->of_memory : 0;
}

static double of_vectors(const struct kvt_bench_row *row)
{
    return row != NULL ? row->of_vectors : 0;
}

#define GQA(batch, context) "batch=" #batch " context=" #context " heads=32 kv_heads=8 head_dim=128"
#define STEP                GQA(16, 4096)

static void on_host(struct kvt_bench *bench)
{
    static const char *const formats[] = {"bf16", "fp8-plain", "fp8-scaled"};
    const struct kvt_bench_row *bf16 = find(bench, "gqa-decode", "bf16", STEP);
    const struct kvt_bench_row *fp8 = find(bench, "gqa-decode", "fp8-scaled", STEP), *row;
    add(bench, "GQA decode, BF16", bf16, "of read", 0.50, of_memory(bf16), false);
    add(bench, "GQA decode, FP8", fp8, "of read", 0.30, of_memory(fp8), false);
    if (bench->fp8_speedup > 0)
        add(bench, "GQA decode, FP8 : BF16 by turns", fp8, "x tokens/s", 1.2, bench->fp8_speedup,
            false);
    for (int i = 0; i < 3; i++) {
        row = find(bench, "mla-decode", formats[i], "batch=16 context=4096 heads=16");
        add(bench, "MLA decode, 16 heads", row, "of vector-peak", 0.45, of_vectors(row), false);
    }
    row = find(bench, "int4-gemv", "g32", "m=1 n=4096 k=14336 group=32");
    add(bench, "INT4 GEMV", row, "of read", 0.80, of_memory(row), false);
    row = find(bench, "int4-gemv", "g128", "m=1 n=4096 k=14336 group=128");
    add(bench, "INT4 GEMV", row, "of read", 0.80, of_memory(row), false);
    row = find(bench, "int4-gemm", "g32", "m=16 n=4096 k=14336 group=32");
    add(bench, "INT4 GEMM, 16 rows", row, "of vector-peak", 550.0 / 950, of_vectors(row), false);
    row = find(bench, "int4-gemm", "g128", "m=16 n=4096 k=14336 group=128");
    add(bench, "INT4 GEMM, 16 rows", row, "of vector-peak", 550.0 / 950, of_vectors(row), false);
    row = find(bench, "gemm", "bf16", "m=1 n=4096 k=14336");
    add(bench, "BF16 GEMV", row, "of read", 0.90, of_memory(row), false);
    for (int i = 0; i < 3; i++) {
        row = find(bench, "append", formats[i], "tokens=4096 latent=512 rope=64");
        add(bench, "append", row, "of copy", 0.5, of_memory(row), false);
        row = find(bench, "append", formats[i], "tokens=4096 kv_heads=8 head_dim=128");
        add(bench, "append", row, "of copy", 0.5, of_memory(row), false);
    }
    row = find(bench, "tag-check", "side", "pages=1024"); /* those of STEP */
    if (bf16 != NULL && row != NULL)
        add(bench, "tag check : one layer's attention", row, "%", 0.5, 100 * row->time / bf16->time,
            true);
    row = find(bench, "tag-check", "side+warm", "pages=1024");
    add(bench, "tag check, warm", row, "ns a page", 0.5, row ? 1e9 * row->time / 1024 : 0, true);
}

static void on_gpu(struct kvt_bench *bench)
{
    const struct kvt_bench_row *bf16 = find(bench, "gqa-decode", "bf16", GQA(32, 8192));
    const struct kvt_bench_row *fp8 = find(bench, "gqa-decode", "fp8-scaled", GQA(32, 8192));
    const struct kvt_bench_row *row =
        find(bench, "int4-gemv", "g128", "m=1 n=16384 k=12288 group=128");
    add(bench, "GQA decode, BF16", bf16, "TB/s", 3.6, bf16 ? 1e-12 * bf16->bytes / bf16->time : 0,
        false);
    if (bf16 != NULL)
        add(bench, "GQA decode, FP8 : BF16", fp8, "of the time", 0.70,
            fp8 != NULL ? fp8->time / bf16->time : 0, true);
    add(bench, "INT4 GEMV, 200 M weights", row, "TB/s", 3.0,
        row ? 1e-12 * row->bytes / row->time : 0, false);
    row = find(bench, "tag-check", "side", "pages=53248");
    add(bench, "tag check", row, "us", 6, row ? 1e6 * row->time : 0, true);
}

void kvt_bench_judge(struct kvt_bench *bench)
{
    bench->target_count = 0;
    if (bench->device.ops->host_memory)
        on_host(bench);
    else
        on_gpu(bench);
}
