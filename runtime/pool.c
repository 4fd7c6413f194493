#include "runtime/pool.h"

#include <math.h>
#include <stdlib.h>

static enum kvt_status format_of(const struct kvt_attention *a, enum kvt_kv_dtype kv,
                                 enum kvt_page_format *format, struct kvt_err *err)
{
    bool mla = a->kind == KVT_ATTENTION_MLA;
    switch (kv) {
    case KVT_KV_BF16:
        *format = mla ? KVT_PAGE_MLA_BF16 : KVT_PAGE_GQA_BF16;
        return KVT_OK;
    case KVT_KV_FP8:
    case KVT_KV_FP8_PLAIN:
        if (mla) {
            *format = KVT_PAGE_MLA_PLAIN;
            return KVT_OK;
        }
        return kvt_err_set(err, KVT_ECONFIG,
                           "kv %s: pages of grouped-query attention carry a scale per token and "
                           "head; want fp8-scaled",
                           kvt_kv_dtype_names[kv]);
    case KVT_KV_FP8_SCALED:
        *format = mla ? KVT_PAGE_MLA_SCALED : KVT_PAGE_GQA_FP8;
        return KVT_OK;
    case KVT_KV_NVFP4:
    case KVT_KV_DTYPE_COUNT:
        break;
    }
    return kvt_err_set(err, KVT_ECONFIG, "kv %s: no kernel reads it; want bf16 or fp8",
                       kvt_kv_dtype_names[kv]);
}

enum kvt_status kvt_pool_layout(struct kvt_page_layout *layout, const struct kvt_model *model,
                                enum kvt_kv_dtype kv, int64_t page_tokens, int32_t tag_bytes,
                                struct kvt_err *err)
{
    const struct kvt_attention *a = &model->groups[0].attention;
    enum kvt_page_format format = KVT_PAGE_GQA_BF16;
    KVT_TRY(format_of(a, kv, &format, err));
    if (page_tokens > INT32_MAX)
        page_tokens = INT32_MAX;
    return kvt_page_layout_init(layout, format, (int32_t)page_tokens, a->kv_heads, a->head_dim,
                                tag_bytes, err);
}

int64_t kvt_pool_budget(const struct kvt_device *device, const struct kvt_memory *plan,
                        const struct kvt_memory_want *want)
{
    int64_t weights = device->used, tags = plan->ledger[KVT_LEDGER_TAGS];
    if (want->engine == KVT_ENGINE_SGLANG)
        return (int64_t)((double)device->limit * plan->fraction) - weights -
               (int64_t)want->reserve_bytes - tags;
    /* vLLM counts from the whole memory and keeps its profiled peak and what torch has besides,
     * which nothing here can measure: they are the ledger's. */
    int64_t kept = (int64_t)ceil(want->gpu->memory_usable * plan->fraction) - plan->weights_bytes -
                   plan->budget_bytes;
    return (int64_t)ceil(want->gpu->memory_usable * plan->fraction) - weights - kept - tags;
}

int64_t kvt_pool_pages_until_refusal(const struct kvt_device *device,
                                     const struct kvt_page_layout *layout, int32_t layers,
                                     int64_t budget)
{
    int64_t room = device->limit - device->used;
    room = budget < room ? budget : room;
    return room > 0 ? room / kvt_device_rounded(layout->page_bytes * layers) : 0;
}

enum kvt_status kvt_pool_init(struct kvt_kv_pool *pool, struct kvt_device *device,
                              const struct kvt_page_layout *layout, int32_t layers, int32_t pages,
                              struct kvt_err *err)
{
    *pool =
        (struct kvt_kv_pool){.device = device, .layout = *layout, .layers = layers, .pages = pages};
    pool->layer = calloc((size_t)layers, sizeof *pool->layer);
    if (pool->layer == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the layers of a KV pool");
    int64_t bytes = ((int64_t)pages + 1) * layout->page_bytes;
    enum kvt_status status = KVT_OK;
    for (int32_t l = 0; l < layers && status == KVT_OK; l++)
        status = kvt_device_take(device, bytes, "kv pool", &pool->layer[l], err);
    if (status == KVT_OK)
        status = kvt_device_take(device, ((int64_t)pages + 1) * (int64_t)sizeof *pool->tags,
                                 "page tags", &pool->tags, err);
    if (status != KVT_OK)
        kvt_pool_release(pool);
    return status;
}

void kvt_pool_release(struct kvt_kv_pool *pool)
{
    if (pool->layer == NULL)
        return;
    int64_t bytes = ((int64_t)pool->pages + 1) * pool->layout.page_bytes;
    for (int32_t l = 0; l < pool->layers; l++)
        kvt_device_give(pool->device, pool->layer[l], bytes);
    kvt_device_give(pool->device, pool->tags,
                    ((int64_t)pool->pages + 1) * (int64_t)sizeof *pool->tags);
    free(pool->layer);
    *pool = (struct kvt_kv_pool){0};
}
