#include "kernels/cpu/gemm_blocks.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define PANELS      8
#define CHUNK_BYTES (256 * 1024) /* weights that a thread takes at once: a share of its L2 */
#define ALONE_BYTES (64 * 1024)  /* below, waking the other threads costs more than they save */

static _Alignas(4096) kvt_bf16 panels[PANELS][KVT_PANEL_ELEMENTS];
static atomic_bool panel_is_taken[PANELS];

static int32_t panel_take(void)
{
    for (int32_t slot = 0;; slot = (slot + 1) % PANELS) {
        if (!atomic_exchange_explicit(&panel_is_taken[slot], true, memory_order_acquire))
            return slot;
        if (slot == PANELS - 1)
            sched_yield();
    }
}

static void panel_give_back(int32_t slot)
{
    atomic_store_explicit(&panel_is_taken[slot], false, memory_order_release);
}

static int32_t steps_of(int32_t k)
{
    return (k + KVT_STEP_K - 1) / KVT_STEP_K;
}

static int32_t blocks_of(int32_t n)
{
    return (n + KVT_BLOCK_OUTPUTS - 1) / KVT_BLOCK_OUTPUTS;
}

static size_t codes_bytes(const struct kvt_block_shape *shape)
{
    static const size_t step_bytes[KVT_BLOCK_FORMATS] = {1024, 512, 256};
    return (size_t)steps_of(shape->k) * step_bytes[shape->format];
}

size_t kvt_block_bytes(const struct kvt_block_shape *shape)
{
    size_t scales = 0;
    if (shape->format == KVT_BLOCK_INT4)
        scales = (size_t)(shape->k / shape->group) * KVT_BLOCK_OUTPUTS * sizeof(kvt_bf16);
    return codes_bytes(shape) + (scales + 63) / 64 * 64;
}

size_t kvt_block_weights_bytes(const struct kvt_block_shape *shape)
{
    return (size_t)blocks_of(shape->n) * kvt_block_bytes(shape);
}

/* AMX computes 16 rows in the time of one; from how many rows on it was the fastest on a Xeon of
 * the fifth generation. */
static void choose_run(const struct kvt_block_shape *shape, int32_t rows, struct kvt_block_job *job)
{
    static const int32_t amx_rows_least[KVT_BLOCK_FORMATS] = {5, 1, 12};
    static kvt_block_run *const *const all[KVT_ISA_COUNT] = KVT_ISA_VERSIONS(
        kvt_block_runs_portable, kvt_block_runs_avx2, kvt_block_runs_avx512, kvt_block_runs_amx);
    enum kvt_isa isa = kvt_isa();
    if (isa == KVT_ISA_AMX && rows < amx_rows_least[shape->format])
        isa = KVT_ISA_AVX512;
    job->run = all[isa][shape->format];
#ifdef KVT_X86
    if (job->run == kvt_block_int4_avx512)
        job->pack = kvt_block_pack_int8;
#endif
}

void kvt_block_batch_begin(struct kvt_block_batch *batch, const struct kvt_block_shape *shape)
{
    batch->shape = *shape;
    batch->job_count = 0;
    batch->panel_used = 0;
    batch->panel_slot = panel_take();
}

/* Row number `row` of a job into its panel: step by step, zeros behind k. */
static void pack_row(const struct kvt_block_job *job, int32_t row, int32_t k, int32_t group)
{
    const kvt_bf16 *from = job->a + (int64_t)row * k;
    if (job->pack != NULL) {
        job->pack(from, steps_of(k), group, row, job->rows, job->panel);
        return;
    }
    for (int32_t step = 0; step < steps_of(k); step++) {
        kvt_bf16 *to = job->panel + ((int64_t)step * job->rows + row) * KVT_STEP_K;
        int32_t valid = k - step * KVT_STEP_K;
        if (valid >= KVT_STEP_K) {
            memcpy(to, from + step * KVT_STEP_K, KVT_STEP_K * sizeof *to);
        } else {
            memset(to, 0, KVT_STEP_K * sizeof *to);
            memcpy(to, from + step * KVT_STEP_K, (size_t)valid * sizeof *to);
        }
    }
}

static void store_sums(const struct kvt_block_batch *batch, const struct kvt_block_job *job,
                       int32_t first, const float *sums)
{
    int32_t n = batch->shape.n, lanes = n - first;
    if (lanes > KVT_BLOCK_OUTPUTS)
        lanes = KVT_BLOCK_OUTPUTS;
    for (int32_t row = 0; row < job->rows; row++) {
        kvt_bf16 *out = job->out + (int64_t)row * n + first;
        for (int32_t lane = 0; lane < lanes; lane++) {
            float sum = sums[row * KVT_BLOCK_OUTPUTS + lane];
            if (batch->shape.scale != NULL)
                sum *= batch->shape.scale[first + lane];
            out[lane] = kvt_bf16_from_float(sum);
        }
    }
}

static void run_blocks(const struct kvt_block_batch *batch, int32_t begin, int32_t limit)
{
    _Alignas(64) float sums[KVT_JOB_ROWS * KVT_BLOCK_OUTPUTS];
    size_t block_bytes = kvt_block_bytes(&batch->shape), codes = codes_bytes(&batch->shape);
    for (int32_t j = 0; j < batch->job_count; j++) {
        const struct kvt_block_job *job = &batch->jobs[j];
        for (int32_t b = begin; b < limit; b++) {
            const uint8_t *at = job->w + (size_t)b * block_bytes;
            struct kvt_block block = {.codes = at, .group = batch->shape.group};
            if (batch->shape.format == KVT_BLOCK_INT4)
                block.scales = (const kvt_bf16 *)(const void *)(at + codes);
            job->run(&block, job->panel != NULL ? job->panel : job->a, steps_of(batch->shape.k),
                     job->rows, sums);
            store_sums(batch, job, b * KVT_BLOCK_OUTPUTS, sums);
        }
    }
}

static void flush(struct kvt_block_batch *batch)
{
    int32_t blocks = blocks_of(batch->shape.n), k = batch->shape.k;
    size_t bytes = kvt_block_weights_bytes(&batch->shape) * (size_t)batch->job_count;
    int32_t chunk = (int32_t)(CHUNK_BYTES / kvt_block_bytes(&batch->shape)), share = blocks / 16;
    if (chunk > share)
        chunk = share;
    if (chunk < 1)
        chunk = 1;
#pragma omp parallel if (bytes > ALONE_BYTES)
    {
#pragma omp for collapse(2) schedule(static)
        for (int32_t j = 0; j < batch->job_count; j++)
            for (int32_t row = 0; row < KVT_JOB_ROWS; row++)
                if (batch->jobs[j].panel != NULL && row < batch->jobs[j].rows)
                    pack_row(&batch->jobs[j], row, k, batch->shape.group);
#pragma omp for schedule(dynamic, 1)
        for (int32_t begin = 0; begin < blocks; begin += chunk)
            run_blocks(batch, begin, begin + chunk < blocks ? begin + chunk : blocks);
    }
    batch->job_count = 0;
    batch->panel_used = 0;
}

/* Elements of a row in its panel: 0 for one that can stay where it is. */
static int64_t row_elements(const struct kvt_block_shape *shape, const struct kvt_block_job *job,
                            int32_t rows)
{
    int64_t steps = steps_of(shape->k);
    if (job->pack != NULL)
        return steps * KVT_STEP_K + shape->k / shape->group * KVT_TAIL_ELEMENTS;
    return rows == 1 && shape->k % KVT_STEP_K == 0 ? 0 : steps * KVT_STEP_K;
}

void kvt_block_batch_add(struct kvt_block_batch *batch, const uint8_t *w, const kvt_bf16 *a,
                         kvt_bf16 *out, int32_t rows)
{
    int32_t k = batch->shape.k, n = batch->shape.n;
    while (rows > 0) {
        struct kvt_block_job job = {.w = w, .a = a, .out = out};
        choose_run(&batch->shape, rows, &job);
        int64_t of_row = row_elements(&batch->shape, &job, rows);
        int64_t most = of_row == 0 ? 1 : KVT_PANEL_ELEMENTS / of_row;
        most = most > KVT_JOB_ROWS ? KVT_JOB_ROWS : most;
        job.rows = rows < most ? rows : (int32_t)most;
        int64_t elements = of_row * job.rows;
        if (batch->job_count == KVT_JOB_ROWS || batch->panel_used + elements > KVT_PANEL_ELEMENTS)
            flush(batch);
        if (elements > 0)
            job.panel = panels[batch->panel_slot] + batch->panel_used;
        batch->panel_used += (elements + 31) / 32 * 32;
        batch->jobs[batch->job_count++] = job;
        a += (int64_t)job.rows * k;
        out += (int64_t)job.rows * n;
        rows -= job.rows;
    }
}

void kvt_block_batch_end(struct kvt_block_batch *batch)
{
    if (batch->job_count > 0)
        flush(batch);
    panel_give_back(batch->panel_slot);
}
