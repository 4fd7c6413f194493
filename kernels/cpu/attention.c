#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/attention_piece.h"
#include "kernels/cpu/isa.h"
#include "sim/base/assert.h"

static const struct kvt_attention_isa *isa_in_use(void)
{
    static const struct kvt_attention_isa *const all[KVT_ISA_COUNT] = KVT_ISA_VERSIONS(
        &kvt_attention_portable, &kvt_attention_avx2, &kvt_attention_avx512, &kvt_attention_amx);
    return all[kvt_isa()];
}

/* What all threads of a call share. */
struct job {
    const struct kvt_attention_call *call;
    const struct kvt_attention_isa *isa;
    int32_t unit_heads, kv_groups; /* heads of a unit; of a kv head */
    int64_t slot_floats;
    float out_scale;
};

/* Partial results of one task where it is the only one of its heads. */
struct scratch {
    _Alignas(64) float out[KVT_TASK_HEADS * KVT_VALUE_MAX];
    float max[KVT_TASK_HEADS], sum[KVT_TASK_HEADS];
};

static struct kvt_attention_partial scratch_partial(struct scratch *scratch)
{
    return (struct kvt_attention_partial){scratch->max, scratch->sum, scratch->out};
}

/* The partial of a unit in its slot, from head on (counted in the unit). */
static struct kvt_attention_partial slot_partial(const struct job *job, int32_t slot, int32_t head)
{
    float *floats = (float *)job->call->workspace + slot * job->slot_floats;
    return (struct kvt_attention_partial){floats + head, floats + job->unit_heads + head,
                                          floats + 2 * job->unit_heads +
                                              (int64_t)head * job->call->layout->value_dim};
}

static void finish(const struct job *job, const struct kvt_attention_partial *from, int32_t row,
                   int32_t head, int32_t heads)
{
    const struct kvt_attention_call *call = job->call;
    int32_t value_dim = call->layout->value_dim;
    int64_t index = (int64_t)row * call->heads + head;
    kvt_bf16 *out = call->out + index * value_dim;
    float *lse = call->lse != NULL ? call->lse + index : NULL;
    if (call->context[row] > 0) {
        job->isa->finish(from, heads, value_dim, job->out_scale, out, lse);
        return;
    }
    memset(out, 0, (size_t)heads * (size_t)value_dim * sizeof *out);
    for (int32_t h = 0; h < heads && lse != NULL; h++)
        lse[h] = -INFINITY;
}

static int32_t unit_end(const struct job *job, int32_t unit)
{
    int32_t end = (unit + 1) * job->unit_heads;
    return end < job->call->heads ? end : job->call->heads;
}

static int32_t block_heads(int32_t head, int32_t end)
{
    return end - head < KVT_TASK_HEADS ? end - head : KVT_TASK_HEADS;
}

static void run_piece(const struct job *job, const struct kvt_piece *piece)
{
    const struct kvt_attention_call *call = job->call;
    int32_t page_tokens = call->layout->page_tokens, context = call->context[piece->row];
    int64_t last_token = (int64_t)piece->last_page * page_tokens;
    int32_t begin = piece->unit * job->unit_heads, end = unit_end(job, piece->unit);
    struct scratch scratch;
    for (int32_t head = begin; head < end; head += KVT_TASK_HEADS) {
        struct kvt_attention_task task = {
            .call = call,
            .row = piece->row,
            .kv_head = head / job->kv_groups,
            .head = head,
            .heads = block_heads(head, end),
            .first_token = piece->first_page * page_tokens,
            .last_token = last_token < context ? (int32_t)last_token : context,
        };
        struct kvt_attention_partial partial = piece->slot < 0
                                                   ? scratch_partial(&scratch)
                                                   : slot_partial(job, piece->slot, head - begin);
        if (task.last_token > task.first_token)
            job->isa->piece(&task, &partial);
        if (piece->slot < 0)
            finish(job, &partial, piece->row, head, task.heads);
    }
}

static void run_merge(const struct job *job, const struct kvt_merge *merge)
{
    int32_t begin = merge->unit * job->unit_heads, end = unit_end(job, merge->unit);
    struct scratch scratch;
    struct kvt_attention_partial whole = scratch_partial(&scratch);
    for (int32_t head = begin; head < end; head += KVT_TASK_HEADS) {
        int32_t heads = block_heads(head, end);
        struct kvt_attention_partial first = slot_partial(job, merge->first_slot, head - begin);
        job->isa->merge(&first, job->slot_floats, merge->count, heads, job->call->layout->value_dim,
                        &whole);
        finish(job, &whole, merge->row, head, heads);
    }
}

void kvt_cpu_attention(const struct kvt_attention_call *attention)
{
    const struct kvt_split *split = attention->split;
    const struct kvt_page_layout *layout = attention->layout;
    kvt_assert(split != NULL && split->rows == attention->rows);
    kvt_assert(attention->workspace != NULL || split->slot_count == 0);
    const struct job job = {
        .call = attention,
        .isa = isa_in_use(),
        .unit_heads = kvt_attention_unit_heads(attention->heads, split->units),
        .kv_groups = attention->heads / layout->kv_heads,
        .slot_floats = (int64_t)(kvt_attention_slot_bytes(layout, attention->heads, split->units) /
                                 sizeof(float)),
        .out_scale = layout->format == KVT_PAGE_MLA_PLAIN ? attention->plain_scale : 1,
    };
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1)
        for (int32_t w = 0; w < split->workers; w++)
            for (int32_t i = split->worker_piece[w]; i < split->worker_piece[w + 1]; i++)
                run_piece(&job, &split->pieces[i]);
#pragma omp for schedule(dynamic, 1)
        for (int32_t m = 0; m < split->merge_count; m++)
            run_merge(&job, &split->merges[m]);
    }
}
