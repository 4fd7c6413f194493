#include "runtime/bench_pool.h"

#include <stdlib.h>

#define TOKENS (KVT_BENCH_FILLED * KVT_BENCH_PAGE_TOKENS)
#define STAMP  5

static const char *const variants[KVT_PAGE_FORMATS] = {[KVT_PAGE_GQA_BF16] = "bf16",
                                                       [KVT_PAGE_GQA_FP8] = "fp8-scaled",
                                                       [KVT_PAGE_MLA_BF16] = "bf16",
                                                       [KVT_PAGE_MLA_PLAIN] = "fp8-plain",
                                                       [KVT_PAGE_MLA_SCALED] = "fp8-scaled"};

double kvt_bench_token_bytes(const struct kvt_page_layout *layout)
{
    if (kvt_page_format_is_mla((enum kvt_page_format)layout->format))
        return layout->token_bytes;
    int32_t scale = layout->format == KVT_PAGE_GQA_FP8 ? 4 : 0;
    return 2.0 * layout->kv_heads * (layout->token_bytes + scale);
}

struct kvt_kv_append kvt_bench_append(const struct kvt_bench_pool *pool, int32_t tokens)
{
    return (struct kvt_kv_append){.layout = &pool->layout,
                                  .pool = pool->pool.device,
                                  .pool_pages = pool->pages + 1,
                                  .tokens = tokens,
                                  .slot = pool->slot.device,
                                  .key = pool->key.device,
                                  .value = pool->value.device,
                                  .plain_scale = 0.0078125f,
                                  .stamp = pool->stamp.device,
                                  .tags = pool->tags.device};
}

static void shuffle(int32_t *ids, int32_t count)
{
    uint64_t state = 1;
    for (int32_t i = 0; i < count; i++)
        ids[i] = i + 1;
    for (int32_t i = count - 1; i > 0; i--) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        int32_t j = (int32_t)((state >> 33) % ((uint64_t)i + 1)), id = ids[i];
        ids[i] = ids[j];
        ids[j] = id;
    }
}

static void fill(struct kvt_bench_pool *pool)
{
    struct kvt_bench_memory *memory = &pool->memory;
    struct kvt_device *device = &memory->bench->device;
    int64_t width = (int64_t)pool->layout.kv_heads * pool->layout.head_dim;
    struct kvt_page_tag *tags = pool->tags.host;
    kvt_bench_noise(pool->key.host, TOKENS * width, 1.0f);
    kvt_bench_noise(pool->value.host, TOKENS * width, 1.0f);
    for (int64_t i = 0; i < TOKENS; i++) {
        ((int64_t *)pool->slot.host)[i] = KVT_BENCH_PAGE_TOKENS + i;
        ((uint64_t *)pool->stamp.host)[i] = STAMP;
    }
    for (int32_t i = 0; i <= pool->pages; i++)
        tags[i] = (struct kvt_page_tag){STAMP, STAMP};
    shuffle(pool->table.host, pool->pages);
    kvt_bench_up(memory, &pool->key);
    kvt_bench_up(memory, &pool->value);
    kvt_bench_up(memory, &pool->slot);
    kvt_bench_up(memory, &pool->stamp);
    kvt_bench_up(memory, &pool->tags);
    kvt_bench_up(memory, &pool->table);
    struct kvt_kv_append append = kvt_bench_append(pool, TOKENS);
    device->ops->append(device, &append);
    kvt_bench_repeat(memory->bench, (uint8_t *)pool->pool.device + pool->layout.page_bytes,
                     KVT_BENCH_FILLED * pool->layout.page_bytes,
                     pool->pages * pool->layout.page_bytes);
}

enum kvt_status kvt_bench_pool_take(struct kvt_bench_pool *pool, struct kvt_bench *bench,
                                    enum kvt_page_format format, int32_t tag_bytes, int64_t bytes,
                                    struct kvt_err *err)
{
    struct kvt_bench_memory *memory = &pool->memory;
    *pool = (struct kvt_bench_pool){.memory = {.bench = bench}, .variant = variants[format]};
    KVT_TRY(kvt_page_layout_init(&pool->layout, format, KVT_BENCH_PAGE_TOKENS, KVT_BENCH_KV_HEADS,
                                 KVT_BENCH_HEAD_DIM, tag_bytes, err));
    pool->pages = (int32_t)(bytes / pool->layout.page_bytes) - 1;
    int64_t width = 2 * (int64_t)pool->layout.kv_heads * pool->layout.head_dim;
    KVT_TRY(kvt_bench_take_device(memory, (int64_t)(pool->pages + 1) * pool->layout.page_bytes,
                                  &pool->pool, err));
    KVT_TRY(kvt_bench_take(memory, 4 * (int64_t)pool->pages, &pool->table, err));
    KVT_TRY(kvt_bench_take(memory, 16 * ((int64_t)pool->pages + 1), &pool->tags, err));
    KVT_TRY(kvt_bench_take(memory, TOKENS * width, &pool->key, err));
    KVT_TRY(kvt_bench_take(memory, TOKENS * width, &pool->value, err));
    KVT_TRY(kvt_bench_take(memory, 8 * TOKENS, &pool->slot, err));
    KVT_TRY(kvt_bench_take(memory, 8 * TOKENS, &pool->stamp, err));
    fill(pool);
    return bench->device.ops->wait(&bench->device, err);
}
