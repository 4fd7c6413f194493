/*
 * gemm_blocks.h - what the CPU's GEMMs share: blocks of 16 outputs, steps of 32 k, panels of rows
 *
 * All weights of the CPU lie in one order, whatever the instruction set: in blocks of 16 outputs
 * (rows of w), a block after the other, and in a block in steps of 32 k. The 16 outputs are the
 * lanes of a vector and every 32-bit lane holds neighbours in k, as vdpbf16ps and AMX want them. n
 * and k are padded with zeros to full blocks and steps.
 *
 *   format  bytes of a step  [k within the step][lane] order
 *   BF16    1024             16 vectors of 64 bytes, one per pair of k: lane = (k, k + 1)
 *   FP8      512             8 vectors, one per 4 k; in 16-byte quarter q (lanes 4 q .. 4 q + 3)
 *                            first the pairs (k, k + 1) of the four lanes, then (k + 2, k + 3)
 *   INT4     256             4 vectors, one per 8 k: nibble i of a lane's low half is k + 2 i, of
 *                            its high half k + 2 i + 1; behind the steps of a block its scales,
 *                            BF16 [k / group][16], padded to 64 bytes
 *
 * Rows of a are copied, 64 at most, into a panel [step][rows][32], zeros behind k: a job. A run
 * takes one block and one panel and writes sums [rows][16]. Jobs of one call are packed together,
 * then threads take chunks of blocks, each of which passes through all jobs: an expert is a job (or
 * more) with weights of its own, further rows of a dense GEMM find the weights in the cache.
 *
 * Panels live in static memory, claimed by a call; a ninth call at one time waits.
 */
#ifndef KVT_KERNELS_CPU_GEMM_BLOCKS_H
#define KVT_KERNELS_CPU_GEMM_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/isa.h"
#include "kernels/formats.h"

#define KVT_BLOCK_OUTPUTS  16
#define KVT_STEP_K         32
#define KVT_JOB_ROWS       64
#define KVT_K_MOST         (1 << 20)
#define KVT_PANEL_ELEMENTS (KVT_K_MOST + KVT_K_MOST / 8) /* of all jobs of a call: a row or more */

enum kvt_block_format { KVT_BLOCK_BF16, KVT_BLOCK_FP8, KVT_BLOCK_INT4, KVT_BLOCK_FORMATS };

struct kvt_block {
    const uint8_t *codes;   /* of its first step */
    const kvt_bf16 *scales; /* INT4 */
    int32_t group;          /* INT4 */
};

/* sums [rows][16] = panel * transpose(block), scales of INT4 included, those of FP8 not. rows 1 to
 * 64. sums is aligned to 64. */
typedef void kvt_block_run(const struct kvt_block *block, const kvt_bf16 *panel, int32_t steps,
                           int32_t rows, float *sums);

extern kvt_block_run *const kvt_block_runs_portable[KVT_BLOCK_FORMATS];
extern kvt_block_run *const kvt_block_runs_avx2[KVT_BLOCK_FORMATS];
extern kvt_block_run *const kvt_block_runs_avx512[KVT_BLOCK_FORMATS];
extern kvt_block_run *const kvt_block_runs_amx[KVT_BLOCK_FORMATS];

/* AVX-512 multiplies INT4 by integers (int4_avx512.c): its panels are of bytes, packed row by row,
 * and have KVT_TAIL_ELEMENTS more elements for each row and group. */
#define KVT_TAIL_ELEMENTS 4
typedef void kvt_block_pack(const kvt_bf16 *from, int32_t steps, int32_t group, int32_t row,
                            int32_t rows, kvt_bf16 *panel);

kvt_block_run kvt_block_int4_avx512;
kvt_block_pack kvt_block_pack_int8;

/* What all jobs of a call have in common. */
struct kvt_block_shape {
    enum kvt_block_format format;
    int32_t n, k, group;
    const float *scale; /* FP8 [n] */
};

/* Bytes of one block, and of all. */
size_t kvt_block_bytes(const struct kvt_block_shape *shape);
size_t kvt_block_weights_bytes(const struct kvt_block_shape *shape);

/* Jobs of one call: add them all, then flush. Whenever the panel is full, add flushes first. */
struct kvt_block_job {
    const uint8_t *w;
    const kvt_bf16 *a;
    kvt_bf16 *out;
    kvt_bf16 *panel; /* NULL: a is a panel as it lies */
    int32_t rows;
    kvt_block_run *run;
    kvt_block_pack *pack; /* NULL: BF16 as it is */
};

struct kvt_block_batch {
    struct kvt_block_shape shape;
    struct kvt_block_job jobs[KVT_JOB_ROWS];
    int32_t job_count;
    int32_t panel_slot; /* which static panel */
    int64_t panel_used; /* elements */
};

void kvt_block_batch_begin(struct kvt_block_batch *batch, const struct kvt_block_shape *shape);
void kvt_block_batch_add(struct kvt_block_batch *batch, const uint8_t *w, const kvt_bf16 *a,
                         kvt_bf16 *out, int32_t rows);
void kvt_block_batch_end(struct kvt_block_batch *batch);

#endif
