/* What writes pages: append of a step's tokens, and conversion at hand-off. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/bench_pool.h"

#define TOKENS_MOST 4096
#define PAGES_MOST  256

/* ---- append ---- */

struct appends {
    struct kvt_bench_pool pool;
    struct kvt_bench_array key, value; /* rotating sources */
    struct kvt_bench_array one, run;   /* slots: a token a page, and whole pages in a row */
    struct kvt_kv_append call;
    const int64_t *slots;
    int64_t turns;
};

/* A step's tokens come from other memory and go to other pages each turn. */
static void call_append(const struct kvt_bench_job *job, int64_t turn)
{
    const struct appends *x = job->data;
    struct kvt_kv_append call = x->call;
    int64_t width = (int64_t)call.layout->kv_heads * call.layout->head_dim;
    int64_t sources = x->key.bytes / 2 / width / call.tokens;
    call.slot = x->slots + turn % x->turns * call.tokens;
    call.key = (const kvt_bf16 *)x->key.device + turn % sources * call.tokens * width;
    call.value = (const kvt_bf16 *)x->value.device + turn % sources * call.tokens * width;
    job->bench->device.ops->append(&job->bench->device, &call);
}

/* Bit for bit what the plain definition writes into the first pages: scattered tokens, one of them
 * padding. */
static enum kvt_status append_is_right(struct appends *x, bool *right, struct kvt_err *err)
{
    struct kvt_device *device = &x->pool.memory.bench->device;
    const struct kvt_page_layout *layout = &x->pool.layout;
    size_t bytes = (size_t)(KVT_BENCH_FILLED + 1) * (size_t)layout->page_bytes;
    int64_t *slot = x->pool.slot.host;
    uint8_t *got = aligned_alloc(64, bytes), *want = aligned_alloc(64, bytes);
    enum kvt_status status = KVT_OK;
    if (got == NULL || want == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to check append");
    if (status == KVT_OK) {
        device->ops->copy(device, want, x->pool.pool.device, bytes);
        status = device->ops->wait(device, err);
    }
    if (status == KVT_OK) {
        for (int64_t i = 0; i < 200; i++)
            slot[i] = KVT_BENCH_PAGE_TOKENS + (i * 17 + 3) % (50 * KVT_BENCH_PAGE_TOKENS);
        slot[77] = -1;
        kvt_bench_up(&x->pool.memory, &x->pool.slot);
        struct kvt_kv_append call = kvt_bench_append(&x->pool, 200);
        device->ops->append(device, &call);
        device->ops->copy(device, got, x->pool.pool.device, bytes);
        status = device->ops->wait(device, err);
        call.pool = want;
        call.slot = slot;
        call.key = x->pool.key.host;
        call.value = x->pool.value.host;
        call.stamp = NULL;
        call.tags = NULL;
        kvt_device_reference_ops.append(device, &call);
        *right = memcmp(got + layout->page_bytes, want + layout->page_bytes,
                        bytes - (size_t)layout->page_bytes) == 0;
    }
    free(got);
    free(want);
    return status;
}

static enum kvt_status append_take(struct appends *x, struct kvt_err *err)
{
    struct kvt_bench_pool *pool = &x->pool;
    struct kvt_bench_memory *memory = &pool->memory;
    struct kvt_bench *bench = memory->bench;
    int64_t runs = (int64_t)pool->pages * KVT_BENCH_PAGE_TOKENS;
    const int32_t *table = pool->table.host;
    KVT_TRY(kvt_bench_take_device(memory, bench->cold / 2, &x->key, err));
    KVT_TRY(kvt_bench_take_device(memory, bench->cold / 2, &x->value, err));
    KVT_TRY(kvt_bench_take(memory, 8 * (int64_t)pool->pages, &x->one, err));
    KVT_TRY(kvt_bench_take(memory, 8 * runs, &x->run, err));
    struct kvt_device *device = &bench->device;
    device->ops->copy(device, x->key.device, pool->key.device, (size_t)pool->key.bytes);
    device->ops->copy(device, x->value.device, pool->value.device, (size_t)pool->value.bytes);
    kvt_bench_repeat(bench, x->key.device, pool->key.bytes, x->key.bytes);
    kvt_bench_repeat(bench, x->value.device, pool->value.bytes, x->value.bytes);
    for (int64_t i = 0; i < pool->pages; i++)
        ((int64_t *)x->one.host)[i] = (int64_t)table[i] * KVT_BENCH_PAGE_TOKENS + i * 7 % 64;
    for (int64_t i = 0; i < runs; i++)
        ((int64_t *)x->run.host)[i] =
            (int64_t)table[i / KVT_BENCH_PAGE_TOKENS] * KVT_BENCH_PAGE_TOKENS +
            i % KVT_BENCH_PAGE_TOKENS;
    kvt_bench_up(memory, &x->one);
    kvt_bench_up(memory, &x->run);
    return device->ops->wait(device, err);
}

static enum kvt_status append_measure(struct appends *x, bool right, struct kvt_err *err)
{
    static const int32_t tokens[] = {16, TOKENS_MOST, 1, 64, 256, 1024};
    const struct kvt_page_layout *layout = &x->pool.layout;
    struct kvt_bench *bench = x->pool.memory.bench;
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    double values = (double)layout->kv_heads * layout->head_dim * (mla ? 1 : 2);
    for (int i = 0; i < (bench->quick ? 2 : 6); i++) {
        bool decode = tokens[i] <= 256; /* a token of each request, else of one prompt */
        const struct kvt_bench_array *slots = decode ? &x->one : &x->run;
        x->call = kvt_bench_append(&x->pool, tokens[i]);
        x->slots = slots->device;
        x->turns = slots->bytes / 8 / tokens[i];
        struct kvt_bench_job job = {.bench = bench,
                                    .family = "append",
                                    .variant = x->pool.variant,
                                    .bytes =
                                        tokens[i] * (2 * values + kvt_bench_token_bytes(layout)),
                                    .copies = true,
                                    .right = right,
                                    .call = call_append,
                                    .data = x};
        if (mla)
            KVT_TRY(kvt_bench_measure(&job, err, "tokens=%d latent=%d rope=%d", tokens[i],
                                      KVT_MLA_LATENT, KVT_MLA_ROPE));
        else
            KVT_TRY(kvt_bench_measure(&job, err, "tokens=%d kv_heads=%d head_dim=%d", tokens[i],
                                      layout->kv_heads, layout->head_dim));
    }
    return KVT_OK;
}

static enum kvt_status append(struct kvt_bench *bench, enum kvt_page_format format,
                              struct kvt_err *err)
{
    struct appends x = {.turns = 1};
    bool right = false;
    enum kvt_status status = kvt_bench_pool_take(&x.pool, bench, format, 0, bench->cold, err);
    if (status == KVT_OK)
        status = append_is_right(&x, &right, err);
    if (status == KVT_OK)
        status = append_take(&x, err);
    if (status == KVT_OK)
        status = append_measure(&x, right, err);
    kvt_bench_release(&x.pool.memory);
    return status;
}

/* ---- convert ---- */

struct converts {
    struct kvt_bench_pool from, to;
    struct kvt_bench_array tokens;
    struct kvt_kv_convert call;
};

static void call_convert(const struct kvt_bench_job *job, int64_t turn)
{
    const struct converts *x = job->data;
    struct kvt_kv_convert call = x->call;
    int64_t sources = x->from.pages / call.pages, targets = x->to.pages / call.pages;
    call.source_page += turn % sources * call.pages;
    call.target_page += turn % targets * call.pages;
    job->bench->device.ops->convert(&job->bench->device, &call);
}

static enum kvt_status convert_is_right(struct converts *x, bool *right, struct kvt_err *err)
{
    struct kvt_bench_memory *memory = &x->to.memory;
    struct kvt_device *device = &memory->bench->device;
    size_t from_bytes = (size_t)(KVT_BENCH_FILLED + 1) * (size_t)x->from.layout.page_bytes;
    size_t bytes = (size_t)(KVT_BENCH_FILLED + 1) * (size_t)x->to.layout.page_bytes;
    uint8_t *source = aligned_alloc(64, from_bytes), *got = aligned_alloc(64, bytes);
    uint8_t *want = aligned_alloc(64, bytes);
    int32_t *tables[2] = {x->from.table.host, x->to.table.host}, kept[2][3];
    enum kvt_status status = KVT_OK;
    if (source == NULL || got == NULL || want == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to check convert");
    if (status == KVT_OK) {
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < 3; i++) {
                kept[side][i] = tables[side][i];
                tables[side][i] = 3 + 10 * i + side;
            }
        ((int32_t *)x->tokens.host)[1] = 17;
        kvt_bench_up(&x->from.memory, &x->from.table);
        kvt_bench_up(memory, &x->to.table);
        kvt_bench_up(memory, &x->tokens);
        device->ops->copy(device, source, x->from.pool.device, from_bytes);
        device->ops->copy(device, want, x->to.pool.device, bytes);
        struct kvt_kv_convert call = x->call;
        call.pages = 3;
        device->ops->convert(device, &call);
        device->ops->copy(device, got, x->to.pool.device, bytes);
        status = device->ops->wait(device, err);
        call.source = source;
        call.target = want;
        call.source_page = tables[0];
        call.target_page = tables[1];
        call.tokens = x->tokens.host;
        kvt_device_reference_ops.convert(device, &call);
        *right = memcmp(got, want, bytes) == 0;
        memcpy(tables[0], kept[0], sizeof kept[0]);
        memcpy(tables[1], kept[1], sizeof kept[1]);
        ((int32_t *)x->tokens.host)[1] = KVT_BENCH_PAGE_TOKENS;
        kvt_bench_up(&x->from.memory, &x->from.table);
        kvt_bench_up(memory, &x->to.table);
        kvt_bench_up(memory, &x->tokens);
    }
    free(source);
    free(got);
    free(want);
    return status;
}

static enum kvt_status convert_measure(struct converts *x, bool right, struct kvt_err *err)
{
    static const int32_t pages[] = {16, PAGES_MOST};
    const struct kvt_page_layout *layout = &x->to.layout;
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    double values = (double)layout->kv_heads * layout->head_dim * (mla ? 1 : 2);
    for (int i = 0; i < 2; i++) {
        x->call.pages = pages[i];
        double tokens = (double)pages[i] * KVT_BENCH_PAGE_TOKENS;
        struct kvt_bench_job job = {.bench = x->to.memory.bench,
                                    .family = "convert",
                                    .variant = x->to.variant,
                                    .bytes = tokens * (2 * values + kvt_bench_token_bytes(layout)),
                                    .copies = true,
                                    .right = right,
                                    .call = call_convert,
                                    .data = x};
        KVT_TRY(kvt_bench_measure(&job, err, "pages=%d %s=%d", pages[i],
                                  mla ? "latent" : "kv_heads",
                                  mla ? KVT_MLA_LATENT : layout->kv_heads));
    }
    return KVT_OK;
}

static enum kvt_status convert(struct kvt_bench *bench, enum kvt_page_format from,
                               enum kvt_page_format to, struct kvt_err *err)
{
    struct converts x = {.tokens = {.bytes = 0}};
    bool right = false;
    enum kvt_status status = kvt_bench_pool_take(&x.from, bench, from, 0, bench->cold, err);
    if (status == KVT_OK)
        status = kvt_bench_pool_take(&x.to, bench, to, 0, bench->cold, err);
    if (status == KVT_OK)
        status = kvt_bench_take(&x.to.memory, 4 * PAGES_MOST, &x.tokens, err);
    if (status == KVT_OK) {
        for (int i = 0; i < PAGES_MOST; i++)
            ((int32_t *)x.tokens.host)[i] = KVT_BENCH_PAGE_TOKENS;
        x.call = (struct kvt_kv_convert){.from = &x.from.layout,
                                         .to = &x.to.layout,
                                         .source = x.from.pool.device,
                                         .target = x.to.pool.device,
                                         .source_pages = x.from.pages + 1,
                                         .target_pages = x.to.pages + 1,
                                         .source_page = x.from.table.device,
                                         .target_page = x.to.table.device,
                                         .tokens = x.tokens.device,
                                         .plain_scale = 0.0078125f};
        status = convert_is_right(&x, &right, err);
    }
    if (status == KVT_OK)
        status = convert_measure(&x, right, err);
    kvt_bench_release(&x.from.memory);
    kvt_bench_release(&x.to.memory);
    return status;
}

enum kvt_status kvt_bench_writes(struct kvt_bench *bench, struct kvt_err *err)
{
    for (int format = 0; format < KVT_PAGE_FORMATS && kvt_bench_wants(bench, "append"); format++)
        KVT_TRY(append(bench, (enum kvt_page_format)format, err));
    if (!kvt_bench_wants(bench, "convert"))
        return KVT_OK;
    KVT_TRY(convert(bench, KVT_PAGE_GQA_BF16, KVT_PAGE_GQA_FP8, err));
    KVT_TRY(convert(bench, KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_PLAIN, err));
    return convert(bench, KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_SCALED, err);
}
