/*
 * tag_batch.h - the pages of a step, checked on the device against the tags they ought to carry
 *
 * The caller fills begin, page and want (kernels/tag_check.h) in host memory; the check is put into
 * the stream, and its results come back with whatever the step brings back: they may be read after
 * the device's next wait. Nothing here waits.
 */
#ifndef KVT_RUNTIME_TAG_BATCH_H
#define KVT_RUNTIME_TAG_BATCH_H

#include "runtime/mirror.h"
#include "runtime/pool.h"

struct kvt_tag_batch {
    struct kvt_mirror mirror; /* has all arrays below */
    int32_t requests_max, pages_max;
    int32_t *begin;    /* [requests_max + 1] */
    int32_t *page;     /* [pages_max], in memory */
    uint64_t *want;    /* [pages_max] */
    uint64_t *first;   /* result, as the two below */
    int32_t *failures; /* entries that fail */
    uint8_t *failed;   /* [requests_max] */
};

enum kvt_status kvt_tag_batch_init(struct kvt_tag_batch *batch, struct kvt_device *device,
                                   int32_t requests_max, int32_t pages_max, struct kvt_err *err);
void kvt_tag_batch_release(struct kvt_tag_batch *batch);

/* Check entries begin[0] .. begin[requests] against the pool's tags. */
void kvt_tag_batch_check(struct kvt_tag_batch *batch, const struct kvt_kv_pool *pool,
                         int32_t requests);

#endif
