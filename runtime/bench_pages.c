/* Families over KV pages: decode attention of GQA and the check of tags. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/bench_job.h"

#define PAGE_TOKENS 64
#define HEADS       32
#define KV_HEADS    8
#define HEAD_DIM    128

struct pages { /* one pool, read in scattered order */
    struct kvt_page_layout layout;
    int32_t count;
    int32_t *table, *begin, *context;
    kvt_bf16 *q, *out, *want;
    struct kvt_split split;
    void *split_memory, *workspace;
    struct kvt_page_tag *tags;
    uint64_t *wants;
    uint8_t *failed;
};

static void call_attention(struct kvt_bench_job *job, int64_t turn)
{
    struct kvt_attention_call call = job->attention;
    int32_t rows = call.rows, pages = call.row_pages[1] - call.row_pages[0];
    int32_t room = call.page_table_size / (rows * pages);
    call.page_table += turn % room * rows * pages; /* other pages each turn */
    call.page_table_size = rows * pages;
    job->bench->device.ops->attention(&job->bench->device, &call);
}

static void call_check(struct kvt_bench_job *job, int64_t turn)
{
    struct kvt_tag_check check = job->check;
    (void)turn;
    job->bench->device.ops->tag_check(&job->bench->device, &check);
}

/* Out on the fast kernel against the plain definition, on two short rows. */
static bool attention_is_right(struct kvt_bench_job *job, const struct pages *p)
{
    int32_t context[2] = {70, 1}, begin[2] = {0, 2};
    struct kvt_attention_call call = job->attention;
    double error = 0, size = 0;
    call.rows = 2;
    call.context = context;
    call.row_pages = begin;
    struct kvt_split split = p->split;
    kvt_split_plan(&split, context, 2, PAGE_TOKENS, 1);
    call.split = &split;
    job->bench->device.ops->attention(&job->bench->device, &call);
    call.out = p->want;
    kvt_device_reference_ops.attention(&job->bench->device, &call);
    for (int32_t i = 0; i < 2 * HEADS * HEAD_DIM; i++) {
        double want = (double)kvt_bf16_to_float(p->want[i]);
        error += fabs((double)kvt_bf16_to_float(p->out[i]) - want);
        size += fabs(want);
    }
    return error < 1e-2 * size;
}

static enum kvt_status attention(struct kvt_bench *bench, struct pages *p, uint8_t *pool,
                                 const char *variant, struct kvt_err *err)
{
    static const int32_t batches[] = {1, 4, 16};
    static const int32_t contexts[] = {1024, 4096};
    struct kvt_bench_row *row;
    struct kvt_bench_job job = {.bench = bench, .call = call_attention};
    job.attention = (struct kvt_attention_call){.layout = &p->layout,
                                                .pool = pool,
                                                .pool_pages = p->count + 1,
                                                .heads = HEADS,
                                                .context = p->context,
                                                .row_pages = p->begin,
                                                .page_table = p->table,
                                                .page_table_size = p->count,
                                                .scale = 0.088f,
                                                .plain_scale = 1.0f,
                                                .q = p->q,
                                                .out = p->out,
                                                .split = &p->split,
                                                .workspace = p->workspace};
    bool right = attention_is_right(&job, p);
    for (size_t b = 0; b < 3; b++) {
        for (size_t c = 0; c < 2; c++) {
            int32_t rows = batches[b], pages = contexts[c] / PAGE_TOKENS;
            if (rows * pages > p->count || (bench->quick && c > 0))
                continue;
            for (int32_t r = 0; r <= rows; r++)
                p->begin[r] = r * pages;
            for (int32_t r = 0; r < rows; r++)
                p->context[r] = contexts[c];
            job.attention.rows = rows;
            kvt_split_plan(&p->split, p->context, rows, PAGE_TOKENS, 1);
            double bytes = (double)rows * pages * (double)p->layout.page_bytes;
            double flops = 4.0 * HEADS * HEAD_DIM * rows * contexts[c];
            KVT_TRY(kvt_bench_measure(bench, &job, "gqa-decode", variant, bytes, flops, right, &row,
                                      err));
            snprintf(row->shape, sizeof row->shape,
                     "batch=%d context=%d heads=%d kv_heads=%d head_dim=%d", rows, contexts[c],
                     HEADS, KV_HEADS, HEAD_DIM);
        }
    }
    return KVT_OK;
}

static enum kvt_status tag_check(struct kvt_bench *bench, struct pages *p, struct kvt_err *err)
{
    int32_t begin[2] = {0, 0}, failures = 0;
    uint64_t first = UINT64_MAX;
    struct kvt_bench_row *row;
    struct kvt_bench_job job = {.bench = bench, .call = call_check};
    job.check = (struct kvt_tag_check){.tags = p->tags,
                                       .pool_pages = p->count + 1,
                                       .request_count = 1,
                                       .begin = begin,
                                       .page = p->table,
                                       .want = p->wants,
                                       .mask = kvt_tag_mask(64),
                                       .failed = p->failed,
                                       .failures = &failures,
                                       .first = &first};
    for (int32_t pages = 64; pages <= p->count; pages *= 8) {
        begin[1] = pages;
        failures = 0;
        job.call(&job, 0);
        bool right = failures == 0;
        KVT_TRY(
            kvt_bench_measure(bench, &job, "tag-check", "side", 28.0 * pages, 0, right, &row, err));
        snprintf(row->shape, sizeof row->shape, "pages=%d", pages);
    }
    return KVT_OK;
}

static bool take(struct pages *p, int32_t workers)
{
    size_t n = (size_t)p->count, wide = (size_t)16 * HEADS * HEAD_DIM;
    p->split_memory = calloc(1, kvt_split_bytes(16, KV_HEADS, workers));
    p->table = calloc(n, 4);
    p->begin = calloc(32, 4);
    p->context = calloc(32, 4);
    p->q = calloc(wide, 2);
    p->out = calloc(wide, 2);
    p->want = calloc(wide, 2);
    p->tags = calloc(n + 1, sizeof *p->tags);
    p->wants = calloc(n, 8);
    p->failed = calloc(16, 1);
    if (p->split_memory == NULL || p->table == NULL || p->begin == NULL || p->context == NULL ||
        p->q == NULL || p->out == NULL || p->want == NULL || p->tags == NULL || p->wants == NULL ||
        p->failed == NULL)
        return false;
    kvt_split_place(&p->split, p->split_memory, 16, KV_HEADS, workers);
    p->workspace = calloc(1, kvt_attention_workspace_bytes(&p->layout, HEADS, &p->split) + 64);
    for (int32_t i = 0; i < p->count; i++) { /* 7919 is a prime that divides no count here */
        p->table[i] = (int32_t)((int64_t)i * 7919 % p->count) + 1;
        p->wants[i] = 5;
        p->tags[i + 1] = (struct kvt_page_tag){5, 5};
    }
    for (size_t i = 0; i < wide; i++)
        p->q[i] = kvt_bf16_from_float((float)(i * 37 % 101) / 101.0f - 0.5f);
    return p->workspace != NULL;
}

static void give(struct pages *p)
{
    free(p->split_memory);
    free(p->workspace);
    free(p->table);
    free(p->begin);
    free(p->context);
    free(p->q);
    free(p->out);
    free(p->want);
    free(p->tags);
    free(p->wants);
    free(p->failed);
}

static enum kvt_status bench_format(struct kvt_bench *bench, enum kvt_page_format format,
                                    struct kvt_err *err)
{
    struct pages p = {.count = 0};
    uint8_t *pool;
    bool fp8 = kvt_page_format_is_fp8(format);
    KVT_TRY(kvt_page_layout_init(&p.layout, format, PAGE_TOKENS, KV_HEADS, HEAD_DIM, 0, err));
    p.count = (int32_t)(KVT_BENCH_COLD / p.layout.page_bytes);
    int64_t bytes = (int64_t)(p.count + 1) * p.layout.page_bytes;
    KVT_TRY(kvt_device_take(&bench->device, bytes, "kv pool", &pool, err));
    for (int64_t i = 0; i < bytes; i++) /* small numbers in either format, scales of about 1 */
        pool[i] = (uint8_t)(i % 2 == 1 ? 0x3c + i % 3 : (i * 2654435761u) >> 13 & 0x3f);
    enum kvt_status status = take(&p, bench->device.workers)
                                 ? KVT_OK
                                 : kvt_err_set(err, KVT_ENOMEM, "no memory for a pool's tables");
    if (status == KVT_OK && kvt_bench_wants(bench, "gqa-decode"))
        status = attention(bench, &p, pool, fp8 ? "fp8" : "bf16", err);
    if (status == KVT_OK && !fp8 && kvt_bench_wants(bench, "tag-check"))
        status = tag_check(bench, &p, err);
    give(&p);
    kvt_device_give(&bench->device, pool, bytes);
    return status;
}

enum kvt_status kvt_bench_pages(struct kvt_bench *bench, struct kvt_err *err)
{
    if (!kvt_bench_wants(bench, "gqa-decode") && !kvt_bench_wants(bench, "tag-check"))
        return KVT_OK;
    KVT_TRY(bench_format(bench, KVT_PAGE_GQA_BF16, err));
    return bench_format(bench, KVT_PAGE_GQA_FP8, err);
}
