/* Attention over pages: decode of GQA and MLA, and prompts. */
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/bench_pool.h"

#define ROWS_MOST 256
#define GQA_HEADS 32

struct attention {
    struct kvt_bench_pool pool;
    int32_t heads;
    struct kvt_bench_array q, out, workspace, context, row_pages, plan;
    struct kvt_split split, there; /* planned on the host; the same on the device */
    struct kvt_attention_call call;
};

static void call_attention(const struct kvt_bench_job *job, int64_t turn)
{
    const struct attention *x = job->data;
    struct kvt_attention_call call = x->call;
    int32_t room = x->pool.pages / call.page_table_size;
    call.page_table += turn % room * call.page_table_size; /* other pages each turn */
    job->bench->device.ops->attention(&job->bench->device, &call);
}

static enum kvt_status take(struct attention *x, struct kvt_err *err)
{
    struct kvt_bench_memory *memory = &x->pool.memory;
    const struct kvt_page_layout *layout = &x->pool.layout;
    struct kvt_device *device = &memory->bench->device;
    int32_t units = kvt_attention_units(layout, x->heads);
    int32_t workers = kvt_device_attention_workers(device, layout, x->heads);
    int64_t cells = (int64_t)ROWS_MOST * x->heads;
    KVT_TRY(kvt_bench_take(memory, 2 * cells * layout->head_dim, &x->q, err));
    KVT_TRY(kvt_bench_take(memory, 2 * cells * layout->value_dim, &x->out, err));
    KVT_TRY(kvt_bench_take(memory, 4 * ROWS_MOST, &x->context, err));
    KVT_TRY(kvt_bench_take(memory, 4 * ROWS_MOST, &x->row_pages, err));
    KVT_TRY(
        kvt_bench_take(memory, (int64_t)kvt_split_bytes(ROWS_MOST, units, workers), &x->plan, err));
    kvt_split_place(&x->split, x->plan.host, ROWS_MOST, units, workers);
    KVT_TRY(kvt_bench_take_device(
        memory, (int64_t)kvt_attention_workspace_bytes(layout, x->heads, &x->split) + 64,
        &x->workspace, err));
    kvt_bench_noise(x->q.host, cells * layout->head_dim, 1.0f);
    kvt_bench_up(memory, &x->q);
    x->call = (struct kvt_attention_call){.layout = layout,
                                          .pool = x->pool.pool.device,
                                          .pool_pages = x->pool.pages + 1,
                                          .heads = x->heads,
                                          .scale = 1.0f / sqrtf((float)layout->head_dim),
                                          .plain_scale = 0.0078125f,
                                          .q = x->q.device,
                                          .out = x->out.device,
                                          .split = &x->there,
                                          .workspace = x->workspace.device};
    return KVT_OK;
}

/* rows of `list` pages each; of one prompt they share one list. */
static void plan(struct attention *x, int32_t rows, int32_t list, bool shared)
{
    struct kvt_bench_memory *memory = &x->pool.memory;
    int32_t *row_pages = x->row_pages.host;
    for (int32_t r = 0; r < rows; r++)
        row_pages[r] = shared ? 0 : r * list;
    kvt_split_plan(&x->split, x->context.host, rows, KVT_BENCH_PAGE_TOKENS, KVT_SPLIT_OVERHEAD);
    kvt_bench_up(memory, &x->context);
    kvt_bench_up(memory, &x->row_pages);
    kvt_bench_up(memory, &x->plan);
    kvt_split_view(&x->there, &x->split, x->plan.device);
    x->call.rows = rows;
    x->call.context = x->context.device;
    x->call.row_pages = x->row_pages.device;
    x->call.page_table = x->pool.table.device;
    x->call.page_table_size = shared ? list : rows * list;
}

/* Elements of kernels/attention.h's tolerance, and the cosine. */
static bool is_close(const kvt_bf16 *got, const kvt_bf16 *want, int64_t count)
{
    double xy = 0, xx = 0, yy = 0;
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        double a = (double)kvt_bf16_to_float(got[i]), b = (double)kvt_bf16_to_float(want[i]);
        wrong += !(fabs(a - b) <= fmax(1e-3, 2.01 / 128 * fabs(b)));
        xy += a * b, xx += a * a, yy += b * b;
    }
    return wrong == 0 && 1 - 2 * xy / (xx + yy) < 5e-6;
}

/* Short rows in the filled pages, whose bytes come down for the plain definition. */
static enum kvt_status is_right(struct attention *x, bool *right, struct kvt_err *err)
{
    static const int32_t contexts[] = {70, 1, 300, 64};
    struct kvt_device *device = &x->pool.memory.bench->device;
    const struct kvt_page_layout *layout = &x->pool.layout;
    int32_t *context = x->context.host, *table = x->pool.table.host, ids[4 * 5];
    size_t bytes = (size_t)(KVT_BENCH_FILLED + 1) * (size_t)layout->page_bytes;
    int64_t count = (int64_t)4 * x->heads * layout->value_dim;
    uint8_t *pages = aligned_alloc(64, bytes);
    kvt_bf16 *want = malloc((size_t)count * 2);
    enum kvt_status status = KVT_OK;
    if (pages == NULL || want == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to check attention");
    if (status == KVT_OK) {
        memcpy(ids, table, sizeof ids);
        for (int32_t i = 0; i < 20; i++)
            table[i] = 1 + i * 7 % KVT_BENCH_FILLED;
        memcpy(context, contexts, sizeof contexts);
        kvt_bench_up(&x->pool.memory, &x->pool.table);
        plan(x, 4, 5, false);
        device->ops->attention(device, &x->call);
        device->ops->copy(device, pages, x->pool.pool.device, bytes);
        status = kvt_bench_down(&x->pool.memory, &x->out, err);
    }
    if (status == KVT_OK) {
        struct kvt_attention_call call = x->call;
        call.pool = pages;
        call.context = context;
        call.row_pages = x->row_pages.host;
        call.page_table = table;
        call.q = x->q.host;
        call.out = want;
        kvt_device_reference_ops.attention(device, &call);
        *right = is_close(x->out.host, want, count);
        memcpy(table, ids, sizeof ids);
        kvt_bench_up(&x->pool.memory, &x->pool.table);
    }
    free(pages);
    free(want);
    return status;
}

struct grid {
    int32_t batch[4], context[4]; /* ended by 0 */
};

static enum kvt_status decode(struct attention *x, const struct grid *grid, const char *family,
                              bool right, struct kvt_err *err)
{
    const struct kvt_page_layout *layout = &x->pool.layout;
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    bool quick = x->pool.memory.bench->quick;
    int32_t *context = x->context.host;
    for (int i = 0; i < 16; i++) {
        int32_t rows = grid->batch[i / 4], tokens = grid->context[i % 4];
        int32_t list = (tokens + KVT_BENCH_PAGE_TOKENS - 1) / KVT_BENCH_PAGE_TOKENS;
        bool last = i / 4 == 3 || grid->batch[i / 4 + 1] == 0;
        if (rows == 0 || tokens == 0 || (int64_t)rows * list > x->pool.pages || (quick && !last))
            continue;
        for (int32_t r = 0; r < rows; r++)
            context[r] = tokens;
        plan(x, rows, list, false);
        double all = (double)rows * tokens;
        struct kvt_bench_job job = {.bench = x->pool.memory.bench,
                                    .family = family,
                                    .variant = x->pool.variant,
                                    .bytes = all * kvt_bench_token_bytes(layout),
                                    .flops = 2 * all * x->heads *
                                             ((double)layout->head_dim + layout->value_dim),
                                    .right = right,
                                    .call = call_attention,
                                    .data = x};
        if (mla)
            KVT_TRY(kvt_bench_measure(&job, err, "batch=%d context=%d heads=%d", rows, tokens,
                                      x->heads));
        else
            KVT_TRY(kvt_bench_measure(&job, err,
                                      "batch=%d context=%d heads=%d kv_heads=%d head_dim=%d", rows,
                                      tokens, x->heads, layout->kv_heads, layout->head_dim));
    }
    return KVT_OK;
}

/* A chunk of a prompt: row i sees `before` tokens and i + 1 more. */
static enum kvt_status prefill(struct attention *x, const char *family, bool right,
                               struct kvt_err *err)
{
    static const int32_t chunks[] = {64, 128, 256}, befores[] = {0, 512, 1024};
    const struct kvt_page_layout *layout = &x->pool.layout;
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    int32_t *context = x->context.host;
    for (int i = 0; i < (x->pool.memory.bench->quick ? 1 : 9); i++) {
        int32_t rows = chunks[i % 3], before = befores[i / 3];
        for (int32_t r = 0; r < rows; r++)
            context[r] = before + r + 1;
        int32_t list = (before + rows + KVT_BENCH_PAGE_TOKENS - 1) / KVT_BENCH_PAGE_TOKENS;
        plan(x, rows, list, true);
        double pairs = (double)rows * before + 0.5 * rows * (rows + 1.0);
        struct kvt_bench_job job = {
            .bench = x->pool.memory.bench,
            .family = family,
            .variant = x->pool.variant,
            .bytes = (double)(before + rows) * kvt_bench_token_bytes(layout),
            .flops = 2 * pairs * x->heads * ((double)layout->head_dim + layout->value_dim),
            .right = right,
            .call = call_attention,
            .data = x};
        if (mla)
            KVT_TRY(kvt_bench_measure(&job, err, "tokens=%d context=%d heads=%d", rows, before,
                                      x->heads));
        else
            KVT_TRY(kvt_bench_measure(&job, err,
                                      "tokens=%d context=%d heads=%d kv_heads=%d head_dim=%d", rows,
                                      before, x->heads, layout->kv_heads, layout->head_dim));
    }
    return KVT_OK;
}

/* One format and number of heads; BF16 does prompts too (of MLA with 16 heads). */
static enum kvt_status one_format(struct kvt_bench *bench, enum kvt_page_format format,
                                  int32_t heads, struct kvt_err *err)
{
    static const struct grid on_host = {{1, 4, 16, 0}, {128, 1024, 4096, 0}};
    static const struct grid on_gpu = {{1, 8, 32, 128}, {128, 1024, 8192, 0}};
    struct attention x = {.heads = heads};
    bool mla = kvt_page_format_is_mla(format), host = bench->device.ops->host_memory;
    const char *family = mla ? "mla-decode" : "gqa-decode";
    const char *prompts = mla ? "mla-prefill" : "gqa-prefill";
    bool prompt = (format == KVT_PAGE_GQA_BF16 || (format == KVT_PAGE_MLA_BF16 && heads == 16)) &&
                  kvt_bench_wants(bench, prompts);
    bool right = false;
    if (!kvt_bench_wants(bench, family) && !prompt)
        return KVT_OK;
    int64_t bytes = host ? bench->cold : (int64_t)5 << 30;
    enum kvt_status status = kvt_bench_pool_take(&x.pool, bench, format, 0, bytes, err);
    if (status == KVT_OK)
        status = take(&x, err);
    if (status == KVT_OK)
        status = is_right(&x, &right, err);
    if (status == KVT_OK && kvt_bench_wants(bench, family))
        status = decode(&x, host ? &on_host : &on_gpu, family, right, err);
    if (status == KVT_OK && prompt)
        status = prefill(&x, prompts, right, err);
    kvt_bench_release(&x.pool.memory);
    return status;
}

/* ---- FP8 against BF16 ---- */

#define TURNS         11
#define SPEEDUP_BATCH 16

static enum kvt_status speedup_take(struct attention *x, struct kvt_bench *bench,
                                    enum kvt_page_format format, int32_t tokens,
                                    struct kvt_err *err)
{
    x->heads = GQA_HEADS;
    int64_t bytes = bench->device.ops->host_memory ? bench->cold : (int64_t)2 << 30;
    KVT_TRY(kvt_bench_pool_take(&x->pool, bench, format, 0, bytes, err));
    KVT_TRY(take(x, err));
    for (int32_t r = 0; r < SPEEDUP_BATCH; r++)
        ((int32_t *)x->context.host)[r] = tokens;
    plan(x, SPEEDUP_BATCH, tokens / KVT_BENCH_PAGE_TOKENS, false);
    return KVT_OK;
}

/* By turns, so that both see the same machine: what drifts takes from both. */
static enum kvt_status speedup(struct kvt_bench *bench, struct kvt_err *err)
{
    struct attention x[2] = {{.heads = 0}, {.heads = 0}};
    struct kvt_bench_job job[2];
    double ratio[TURNS], time[2];
    int32_t tokens = bench->quick ? 1024 : 4096;
    enum kvt_status status = KVT_OK;
    for (int i = 0; i < 2; i++) {
        enum kvt_page_format format = i == 0 ? KVT_PAGE_GQA_BF16 : KVT_PAGE_GQA_FP8;
        if (status == KVT_OK)
            status = speedup_take(&x[i], bench, format, tokens, err);
        job[i] = (struct kvt_bench_job){.bench = bench, .call = call_attention, .data = &x[i]};
    }
    for (int turn = -1; turn < TURNS && status == KVT_OK; turn++) {
        status = kvt_bench_time(&job[0], 1, &time[0], err);
        if (status == KVT_OK)
            status = kvt_bench_time(&job[1], 1, &time[1], err);
        if (turn >= 0)
            ratio[turn] = time[0] / time[1];
    }
    if (status == KVT_OK)
        bench->fp8_speedup = gsl_stats_median(ratio, 1, TURNS);
    kvt_bench_release(&x[0].pool.memory);
    kvt_bench_release(&x[1].pool.memory);
    return status;
}

enum kvt_status kvt_bench_attention(struct kvt_bench *bench, struct kvt_err *err)
{
    KVT_TRY(one_format(bench, KVT_PAGE_GQA_BF16, GQA_HEADS, err));
    KVT_TRY(one_format(bench, KVT_PAGE_GQA_FP8, GQA_HEADS, err));
    if (kvt_bench_wants(bench, "gqa-decode"))
        KVT_TRY(speedup(bench, err));
    for (int32_t heads = 16; heads >= 8; heads -= 8) {
        KVT_TRY(one_format(bench, KVT_PAGE_MLA_BF16, heads, err));
        KVT_TRY(one_format(bench, KVT_PAGE_MLA_PLAIN, heads, err));
        KVT_TRY(one_format(bench, KVT_PAGE_MLA_SCALED, heads, err));
    }
    return KVT_OK;
}
