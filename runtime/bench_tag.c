/* The check of tags: a side array, in the caches and not, and headers inside the pages. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/bench_pool.h"
#include "sim/base/assert.h"

#define REQUESTS   16
#define SIDE_PAGES (1 << 22) /* 64 MB of tags */
#define ENTRIES    (1 << 18)
#define STAMP      5

struct tags {
    struct kvt_bench_pool pool; /* header */
    struct kvt_bench_memory memory;
    int32_t pages, entries;
    struct kvt_bench_array tags, page, want, begin, failed, result;
    struct kvt_tag_check call;
    bool warm;
};

static void call_check(const struct kvt_bench_job *job, int64_t turn)
{
    const struct tags *x = job->data;
    struct kvt_tag_check check = x->call;
    int64_t each = ((const int32_t *)x->begin.host)[REQUESTS];
    int64_t at = x->warm ? 0 : turn % (x->entries / each) * each;
    check.page += at;
    check.want += at;
    job->bench->device.ops->tag_check(&job->bench->device, &check);
}

static enum kvt_status take(struct tags *x, struct kvt_err *err)
{
    struct kvt_bench *bench = x->memory.bench;
    struct kvt_bench_memory *memory = &x->memory;
    KVT_TRY(kvt_bench_take(memory, 16 * ((int64_t)x->pages + 1), &x->tags, err));
    KVT_TRY(kvt_bench_take(memory, 4 * (int64_t)x->entries, &x->page, err));
    KVT_TRY(kvt_bench_take(memory, 8 * (int64_t)x->entries, &x->want, err));
    KVT_TRY(kvt_bench_take(memory, 4 * (REQUESTS + 1), &x->begin, err));
    KVT_TRY(kvt_bench_take(memory, REQUESTS, &x->failed, err));
    KVT_TRY(kvt_bench_take(memory, 64, &x->result, err));
    kvt_assert(x->pages > 0);
    uint64_t state = 1;
    for (int32_t i = 0; i <= x->pages; i++)
        ((struct kvt_page_tag *)x->tags.host)[i] = (struct kvt_page_tag){STAMP, STAMP};
    for (int32_t i = 0; i < x->entries; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((int32_t *)x->page.host)[i] = 1 + (int32_t)((state >> 33) % (uint64_t)x->pages);
        ((uint64_t *)x->want.host)[i] = STAMP;
    }
    kvt_bench_up(memory, &x->tags);
    kvt_bench_up(memory, &x->page);
    kvt_bench_up(memory, &x->want);
    x->call = (struct kvt_tag_check){.tags = x->tags.device,
                                     .pool_pages = x->pages + 1,
                                     .request_count = REQUESTS,
                                     .begin = x->begin.device,
                                     .page = x->page.device,
                                     .want = x->want.device,
                                     .mask = kvt_tag_mask(64),
                                     .failed = x->failed.device,
                                     .failures = x->result.device,
                                     .first = (uint64_t *)(void *)((char *)x->result.device + 8)};
    if (x->pool.pages > 0) {
        x->call.layout = &x->pool.layout;
        x->call.pool = x->pool.pool.device;
    }
    return bench->device.ops->wait(&bench->device, err);
}

static void entries_of(struct tags *x, int32_t entries)
{
    for (int64_t r = 0; r <= REQUESTS; r++)
        ((int32_t *)x->begin.host)[r] = (int32_t)(r * entries / REQUESTS);
    kvt_bench_up(&x->memory, &x->begin);
}

/* One entry of 64 is wrong, then none: failures and the first of them. */
static enum kvt_status is_right(struct tags *x, bool *right, struct kvt_err *err)
{
    struct kvt_bench_job job = {.bench = x->memory.bench, .data = x};
    const uint8_t *failed = x->failed.host;
    const int32_t *failures = x->result.host;
    const uint64_t *first = (const uint64_t *)(const void *)((char *)x->result.host + 8);
    uint64_t *want = x->want.host;
    entries_of(x, 64);
    x->warm = true;
    *right = true;
    for (int round = 0; round < 2; round++) {
        want[22] = round == 0 ? STAMP + 1 : STAMP; /* of request 5, slot 2 */
        kvt_bench_up(&x->memory, &x->want);
        call_check(&job, 0);
        KVT_TRY(kvt_bench_down(&x->memory, &x->failed, err));
        KVT_TRY(kvt_bench_down(&x->memory, &x->result, err));
        *right = *right && *failures == 1 - round && failed[5] == 1 - round && failed[4] == 0 &&
                 *first == (round == 0 ? ((uint64_t)5 << 32 | 2) : UINT64_MAX);
    }
    return KVT_OK;
}

static enum kvt_status measure(struct tags *x, const char *variant, bool warm, int32_t most,
                               bool right, struct kvt_err *err)
{
    x->warm = warm;
    static const int32_t pages_of[] = {1024, 64, 256, 4096, 16384, 53248};
    for (int i = 0; i < (x->memory.bench->quick ? 1 : 6); i++) {
        int32_t pages = pages_of[i];
        if (pages > most)
            continue;
        entries_of(x, pages);
        struct kvt_bench_job job = {.bench = x->memory.bench,
                                    .family = "tag-check",
                                    .variant = variant,
                                    .bytes = 28.0 * pages,
                                    .warm = warm,
                                    .right = right,
                                    .call = call_check,
                                    .data = x};
        KVT_TRY(kvt_bench_measure(&job, err, "pages=%d", pages));
    }
    return KVT_OK;
}

static enum kvt_status side(struct kvt_bench *bench, struct kvt_err *err)
{
    struct tags x = {.memory = {.bench = bench}, .pages = SIDE_PAGES, .entries = ENTRIES};
    bool right = false;
    enum kvt_status status = take(&x, err);
    if (status == KVT_OK)
        status = is_right(&x, &right, err);
    if (status == KVT_OK)
        status = measure(&x, "side", false, ENTRIES / 4, right, err);
    if (status == KVT_OK)
        status = measure(&x, "side+warm", true, ENTRIES / 4, right, err);
    kvt_bench_release(&x.memory);
    return status;
}

static enum kvt_status header(struct kvt_bench *bench, struct kvt_err *err)
{
    struct tags x = {.memory = {.bench = bench}, .entries = ENTRIES / 4};
    bool right = false;
    enum kvt_status status =
        kvt_bench_pool_take(&x.pool, bench, KVT_PAGE_MLA_PLAIN, 16, bench->cold, err);
    x.pages = x.pool.pages;
    if (status == KVT_OK)
        status = take(&x, err);
    if (status == KVT_OK)
        status = is_right(&x, &right, err);
    if (status == KVT_OK)
        status = measure(&x, "header", false, ENTRIES / 4, right, err);
    kvt_bench_release(&x.memory);
    kvt_bench_release(&x.pool.memory);
    return status;
}

enum kvt_status kvt_bench_tags(struct kvt_bench *bench, struct kvt_err *err)
{
    if (!kvt_bench_wants(bench, "tag-check"))
        return KVT_OK;
    KVT_TRY(side(bench, err));
    return header(bench, err);
}
