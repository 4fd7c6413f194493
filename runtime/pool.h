/*
 * pool.h - real memory behind the page ids of a serving core's pool
 *
 * The core hands out pages 0 .. total - 1 (sim/serve/pages.h). Real memory has one more in front of
 * them, the padding page of the kernels (kernels/kv_page.h), so page p of the core is page p + 1
 * here, in each layer: one block of memory a layer, pages one after the other.
 *
 * Each page has two generations in an array beside the pool (kernels/tag_check.h): owner is set
 * when the core allocates the page, content is stamped by whoever writes it. The tag that a page
 * ought to carry follows from the core's own record of it: kvt_pool_tag.
 *
 * How many pages: the engine's rule (sim/serve/memory.h) gives a budget in bytes after the weights
 * are loaded; pages are taken from the device until the next would pass it. So the count rests on
 * what weights and pages really take, and is compared with the ledger's.
 */
#ifndef KVT_RUNTIME_POOL_H
#define KVT_RUNTIME_POOL_H

#include "runtime/device.h"
#include "sim/model/model.h"
#include "sim/serve/memory.h"
#include "sim/serve/pages.h"

struct kvt_kv_pool {
    struct kvt_device *device; /* borrowed */
    struct kvt_page_layout layout;
    int32_t layers;
    int32_t pages;             /* of the core; one more in memory */
    uint8_t **layer;           /* [layers] device memory, (pages + 1) * layout.page_bytes each */
    struct kvt_page_tag *tags; /* [pages + 1] device memory */
};

/* The layout of pages of a model that runs (weights.h) in this dtype, of one GPU; tag_bytes as in
 * kv_page.h. KVT_ECONFIG: no kernel reads the dtype; KVT_ELIMIT: sizes that kernels do not have. */
enum kvt_status kvt_pool_layout(struct kvt_page_layout *layout, const struct kvt_model *model,
                                enum kvt_kv_dtype kv, int64_t page_tokens, int32_t tag_bytes,
                                struct kvt_err *err);

/* Bytes for pages under the engine's rule, with the weights that the device now holds, and nothing
 * else. */
int64_t kvt_pool_budget(const struct kvt_device *device, const struct kvt_memory *plan,
                        const struct kvt_memory_want *want);

/* Pages of all layers that are granted within budget bytes until the first refusal, the padding
 * page aside. */
int64_t kvt_pool_pages_until_refusal(const struct kvt_device *device,
                                     const struct kvt_page_layout *layout, int32_t layers,
                                     int64_t budget);

/* Take the memory: pages and tags are zero. KVT_ENOMEM. */
enum kvt_status kvt_pool_init(struct kvt_kv_pool *pool, struct kvt_device *device,
                              const struct kvt_page_layout *layout, int32_t layers, int32_t pages,
                              struct kvt_err *err);
void kvt_pool_release(struct kvt_kv_pool *pool);

/* What a page's two generations ought to be, by the core's named pool: who has it, and which
 * allocation this is. Never 0. */
static inline uint64_t kvt_pool_tag(const struct kvt_pages *pages, int32_t page)
{
    return ((uint64_t)(uint32_t)(pages->owner[page] + 1) << 32) | pages->generation[page];
}

/* Where a page in memory has its bytes of one layer. */
static inline uint8_t *kvt_pool_at(const struct kvt_kv_pool *pool, int32_t layer, int32_t page)
{
    return pool->layer[layer] + page * pool->layout.page_bytes;
}

/* The core's page p, in memory. */
static inline int32_t kvt_pool_page(int32_t page)
{
    return page + 1;
}

#endif
