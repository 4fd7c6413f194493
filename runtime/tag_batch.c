#include "runtime/tag_batch.h"

#include "sim/base/assert.h"

enum kvt_status kvt_tag_batch_init(struct kvt_tag_batch *batch, struct kvt_device *device,
                                   int32_t requests_max, int32_t pages_max, struct kvt_err *err)
{
    int64_t requests = requests_max, pages = ((int64_t)pages_max + 3) / 4 * 4; /* on 16 bytes */
    *batch = (struct kvt_tag_batch){.requests_max = requests_max, .pages_max = pages_max};
    KVT_TRY(kvt_mirror_init(&batch->mirror, device, pages * 12 + 8 + (requests + 2) * 4 + requests,
                            "tag checks", err));
    batch->want = (uint64_t *)(void *)batch->mirror.host;
    batch->page = (int32_t *)(void *)(batch->want + pages);
    batch->first = (uint64_t *)(void *)(batch->page + pages);
    batch->begin = (int32_t *)(void *)(batch->first + 1);
    batch->failures = batch->begin + requests + 1;
    batch->failed = (uint8_t *)(batch->failures + 1);
    return KVT_OK;
}

void kvt_tag_batch_release(struct kvt_tag_batch *batch)
{
    kvt_mirror_release(&batch->mirror);
    *batch = (struct kvt_tag_batch){0};
}

void kvt_tag_batch_check(struct kvt_tag_batch *batch, const struct kvt_kv_pool *pool,
                         int32_t requests)
{
    struct kvt_mirror *mirror = &batch->mirror;
    struct kvt_device *device = mirror->device;
    kvt_assert(requests <= batch->requests_max && batch->begin[requests] <= batch->pages_max);
    size_t pages = (size_t)batch->begin[requests];
    kvt_mirror_send(mirror, batch->begin, ((size_t)requests + 1) * sizeof *batch->begin);
    kvt_mirror_send(mirror, batch->page, pages * sizeof *batch->page);
    kvt_mirror_send(mirror, batch->want, pages * sizeof *batch->want);
    struct kvt_tag_check check = {.tags = pool->tags,
                                  .pool_pages = pool->pages + 1,
                                  .request_count = requests,
                                  .begin = kvt_mirror_there(mirror, batch->begin),
                                  .page = kvt_mirror_there(mirror, batch->page),
                                  .want = kvt_mirror_there(mirror, batch->want),
                                  .mask = kvt_tag_mask(64),
                                  .failed = kvt_mirror_there(mirror, batch->failed),
                                  .failures = kvt_mirror_there(mirror, batch->failures),
                                  .first = kvt_mirror_there(mirror, batch->first)};
    device->ops->tag_check(device, &check);
    kvt_mirror_fetch(mirror, batch->first, sizeof *batch->first);
    kvt_mirror_fetch(mirror, batch->failures, sizeof *batch->failures);
    kvt_mirror_fetch(mirror, batch->failed, (size_t)requests);
}
