#include "tests/kv_pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/random.h"

#define UNUSED_PAGE 2147480000

static void *need(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (memory == NULL)
        abort();
    return memory;
}

void kv_random(uint64_t seed, float scale, int64_t count, kvt_bf16 *values)
{
    struct kvt_stream random;
    kvt_stream_init(&random, seed, KVT_PURPOSE_TEST, 3);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = kvt_stream_u32(&random);
        int32_t sum =
            (int32_t)((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24)) - 510;
        values[i] = kvt_bf16_from_float((float)sum / 147.8f * scale);
    }
}

static int32_t pages_of(const struct kvt_page_layout *layout, int32_t context)
{
    return (context + layout->page_tokens - 1) / layout->page_tokens;
}

static void shuffle(struct kvt_stream *random, int32_t *ids, int32_t count)
{
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t j = (int32_t)kvt_stream_below(random, (uint64_t)i + 1), id = ids[i];
        ids[i] = ids[j];
        ids[j] = id;
    }
}

/* Write tokens of one request into the pages of its list. Groups of tokens differ in size, so that
 * their scales do; with sharp, keys grow along the context. */
static void fill_request(struct kv_pool *world, const struct kv_shape *shape, int32_t request,
                         const int32_t *pages, int32_t tokens)
{
    const struct kvt_page_layout *layout = &world->layout;
    int64_t width = (int64_t)layout->kv_heads * layout->head_dim;
    kvt_bf16 *key = need((size_t)(tokens * width) * sizeof *key);
    kvt_bf16 *value = need((size_t)(tokens * width) * sizeof *value);
    int64_t *slot = need((size_t)tokens * sizeof *slot);
    for (int32_t t = 0; t < tokens; t++) {
        float size = shape->even ? 1 : ldexpf(1, -(t % 5) / 2);
        if (shape->sharp > 1)
            size = 0.2f + (float)t / (float)tokens;
        uint64_t seed = shape->seed * 1000003 + (uint64_t)request * 65537 + (uint64_t)t * 2;
        kv_random(seed, size, width, key + t * width);
        kv_random(seed + 1, shape->even ? 1 : ldexpf(1, -(t % 3)), width, value + t * width);
        slot[t] =
            (int64_t)pages[t / layout->page_tokens] * layout->page_tokens + t % layout->page_tokens;
    }
    kvt_ref_kv_append(&(struct kvt_kv_append){.layout = layout,
                                              .pool = world->pool,
                                              .pool_pages = world->call.pool_pages,
                                              .tokens = tokens,
                                              .slot = slot,
                                              .key = key,
                                              .value = value,
                                              .plain_scale = world->call.plain_scale});
    free(key);
    free(value);
    free(slot);
}

/* Contexts of the rows, and the page list of each request, followed by an entry that nobody may
 * read. */
static void lay_out(struct kv_pool *world, const struct kv_shape *shape, struct kvt_stream *random)
{
    struct kvt_attention_call *call = &world->call;
    int32_t *ids = need((size_t)call->pool_pages * sizeof *ids), next = 0, entry = 0;
    for (int32_t i = 0; i < call->pool_pages - 1; i++)
        ids[i] = i + 1;
    shuffle(random, ids, call->pool_pages - 1);
    int32_t requests = (shape->rows + shape->chunk - 1) / shape->chunk;
    for (int32_t r = 0; r < requests; r++) {
        int32_t tokens = shape->context[r % 8], pages = pages_of(&world->layout, tokens);
        for (int32_t i = 0; i < shape->chunk && r * shape->chunk + i < shape->rows; i++) {
            int32_t row = r * shape->chunk + i, context = tokens - shape->chunk + 1 + i;
            world->context[row] = context > 0 ? context : 0;
            world->row_pages[row] = entry;
        }
        for (int32_t i = 0; i < pages; i++)
            world->page_table[entry + i] = ids[next++];
        if (tokens > 0)
            fill_request(world, shape, r, world->page_table + entry, tokens);
        entry += pages;
        world->page_table[entry++] = UNUSED_PAGE;
    }
    call->page_table_size = entry;
    free(ids);
}

void kv_pool_init(struct kv_pool *world, const struct kv_shape *shape)
{
    *world = (struct kv_pool){0};
    if (kvt_page_layout_init(&world->layout, shape->format, shape->page_tokens, shape->kv_heads,
                             shape->head_dim, 0, NULL) != KVT_OK)
        abort();
    const struct kvt_page_layout *layout = &world->layout;
    int32_t requests = (shape->rows + shape->chunk - 1) / shape->chunk, pages = 0;
    for (int32_t r = 0; r < requests; r++)
        pages += pages_of(layout, shape->context[r % 8]);
    size_t rows = (size_t)shape->rows, cells = rows * (size_t)shape->heads;
    world->context = need(rows * sizeof(int32_t));
    world->row_pages = need(rows * sizeof(int32_t));
    world->page_table = need((size_t)(pages + requests) * sizeof(int32_t));
    world->q = need(cells * (size_t)layout->head_dim * sizeof(kvt_bf16));
    world->out = need(cells * (size_t)layout->value_dim * sizeof(kvt_bf16));
    world->lse = need(cells * sizeof(float));
    int32_t pool_pages = pages + 5;
    world->pool = need((size_t)(pool_pages * layout->page_bytes));
    memset(world->pool, 0xff, (size_t)(pool_pages * layout->page_bytes));
    kv_random(shape->seed, 1, (int64_t)cells * layout->head_dim, world->q);
    world->call = (struct kvt_attention_call){
        .layout = layout,
        .pool = world->pool,
        .pool_pages = pool_pages,
        .rows = shape->rows,
        .heads = shape->heads,
        .context = world->context,
        .row_pages = world->row_pages,
        .page_table = world->page_table,
        .scale = (shape->sharp > 0 ? shape->sharp : 1) / sqrtf((float)layout->head_dim),
        .plain_scale = 0.0371f,
        .q = world->q,
        .out = world->out,
        .lse = world->lse,
    };
    struct kvt_stream random;
    kvt_stream_init(&random, shape->seed, KVT_PURPOSE_TEST, 4);
    lay_out(world, shape, &random);
}

void kv_pool_release(struct kv_pool *world)
{
    free(world->pool);
    free(world->context);
    free(world->row_pages);
    free(world->page_table);
    free(world->q);
    free(world->out);
    free(world->lse);
}

void kv_pool_permute(struct kv_pool *world, uint64_t seed)
{
    int32_t count = world->call.pool_pages;
    size_t bytes = (size_t)world->layout.page_bytes;
    int32_t *to = need((size_t)count * sizeof *to);
    uint8_t *moved = need((size_t)count * bytes);
    struct kvt_stream random;
    kvt_stream_init(&random, seed, KVT_PURPOSE_TEST, 5);
    for (int32_t i = 0; i < count; i++)
        to[i] = i;
    shuffle(&random, to + 1, count - 1);
    for (int32_t i = 0; i < count; i++)
        memcpy(moved + (size_t)to[i] * bytes, world->pool + (size_t)i * bytes, bytes);
    memcpy(world->pool, moved, (size_t)count * bytes);
    for (int32_t i = 0; i < world->call.page_table_size; i++)
        if (world->page_table[i] != UNUSED_PAGE)
            world->page_table[i] = to[world->page_table[i]];
    free(to);
    free(moved);
}

void kv_pool_attend(struct kv_pool *world, int32_t workers, int32_t overhead)
{
    struct kvt_attention_call *call = &world->call;
    int32_t units = kvt_attention_units(&world->layout, call->heads);
    struct kvt_split split;
    kvt_split_place(&split, need(kvt_split_bytes(call->rows, units, workers)), call->rows, units,
                    workers);
    kvt_split_plan(&split, call->context, call->rows, world->layout.page_tokens, overhead);
    size_t bytes = kvt_attention_workspace_bytes(&world->layout, call->heads, &split);
    call->split = &split;
    call->workspace = need(bytes);
    memset(call->workspace, 0xff, bytes);
    size_t cells = (size_t)call->rows * (size_t)call->heads;
    memset(call->out, 0xff, cells * (size_t)world->layout.value_dim * sizeof *call->out);
    memset(call->lse, 0xff, cells * sizeof *call->lse);
    kvt_cpu_attention(call);
    free(split.pieces);
    free(call->workspace);
    call->split = NULL;
    call->workspace = NULL;
}
