#include "kernels/tag_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "sim/base/random.h"
#include "tests/check.h"

static struct kvt_stream stream;

static int32_t below(int32_t limit)
{
    return (int32_t)kvt_stream_below(&stream, (uint64_t)limit);
}

static void *room(size_t bytes)
{
    void *memory = calloc(1, bytes + 64);
    if (memory == NULL)
        abort();
    return memory;
}

/*
 * A batch with its history: what generation each page really has, who wrote it last, and what each
 * entry was promised. The kernel sees tags cut to `bits`; the truth is worked out from the history
 * by arithmetic modulo 2^bits, without xor or masks.
 */
struct batch {
    int32_t pages, requests, entries, bits;
    uint64_t *generation, *writer; /* [pages] of the allocator; of the last writer */
    int32_t *begin, *page;
    uint64_t *want;
    struct kvt_page_tag *tags;
    struct kvt_page_layout layout;
    uint8_t *pool; /* with headers, or NULL */
    uint8_t *failed, *wanted_failed;
    int32_t failures, wanted_failures;
    uint64_t first, wanted_first;
    int32_t unseen; /* entries whose generations differ and that a narrow tag cannot tell */
};

static void batch_free(struct batch *batch)
{
    free(batch->generation);
    free(batch->writer);
    free(batch->begin);
    free(batch->page);
    free(batch->want);
    free(batch->tags);
    free(batch->pool);
    free(batch->failed);
    free(batch->wanted_failed);
}

static void make_pages(struct batch *batch, bool header)
{
    struct kvt_err err = {0};
    batch->generation = room((size_t)batch->pages * sizeof(uint64_t));
    batch->writer = room((size_t)batch->pages * sizeof(uint64_t));
    batch->tags = room((size_t)batch->pages * sizeof *batch->tags);
    CHECK_OK(kvt_page_layout_init(&batch->layout, KVT_PAGE_MLA_PLAIN, 1, 1, KVT_MLA_DIM, 16, &err),
             err);
    if (header)
        batch->pool = room((size_t)batch->pages * (size_t)batch->layout.page_bytes);
    for (int32_t p = 0; p < batch->pages; p++) {
        batch->generation[p] = (uint64_t)kvt_stream_u32(&stream) << below(33);
        batch->writer[p] = batch->generation[p];
        if (below(40) == 0) /* a late writer, a few generations behind, or one that never came */
            batch->writer[p] = below(3) > 0 ? batch->generation[p] - (uint64_t)(1 + below(9)) : 0;
        uint64_t content = header ? ~batch->writer[p] : batch->writer[p];
        batch->tags[p] = (struct kvt_page_tag){batch->generation[p], content};
        if (header)
            memcpy(batch->pool + p * batch->layout.page_bytes + batch->layout.tag_offset,
                   &batch->writer[p], sizeof(uint64_t));
    }
}

static void make_entries(struct batch *batch)
{
    batch->begin = room((size_t)(batch->requests + 1) * sizeof(int32_t));
    batch->begin[0] = below(3);
    for (int32_t r = 0; r < batch->requests; r++)
        batch->begin[r + 1] = batch->begin[r] + (below(5) == 0 ? 0 : below(2 * batch->entries + 1));
    batch->entries = batch->begin[batch->requests];
    batch->page = room((size_t)batch->entries * sizeof(int32_t));
    batch->want = room((size_t)batch->entries * sizeof(uint64_t));
    batch->failed = room((size_t)batch->requests);
    batch->wanted_failed = room((size_t)batch->requests);
    memset(batch->failed, 0xa5, (size_t)batch->requests);
    static const int32_t outside[] = {-1, INT32_MIN, INT32_MAX, -70000};
    for (int32_t e = 0; e < batch->entries; e++) {
        int32_t p = batch->pages > 0 ? below(batch->pages) : below(9);
        batch->page[e] = p;
        batch->want[e] = batch->pages > 0 ? batch->generation[p] : 0;
        if (below(50) == 0) /* a stale reader */
            batch->want[e] -= (uint64_t)(1 + below(9));
        if (below(400) == 0)
            batch->page[e] = below(5) == 0 ? batch->pages : outside[below(4)];
    }
}

static bool differ(uint64_t a, uint64_t b, int32_t bits)
{
    return bits == 64 ? a != b : (a - b) % ((uint64_t)1 << bits) != 0;
}

static void work_out(struct batch *batch)
{
    batch->wanted_first = UINT64_MAX;
    for (int32_t r = batch->requests - 1; r >= 0; r--) {
        for (int32_t e = batch->begin[r + 1] - 1; e >= batch->begin[r]; e--) {
            int32_t p = batch->page[e];
            bool is_inside = p >= 0 && p < batch->pages;
            bool fails = !is_inside || differ(batch->want[e], batch->generation[p], batch->bits) ||
                         differ(batch->want[e], batch->writer[p], batch->bits);
            if (!fails &&
                (batch->want[e] != batch->generation[p] || batch->want[e] != batch->writer[p]))
                batch->unseen++;
            if (!fails)
                continue;
            batch->wanted_failed[r] = 1;
            batch->wanted_failures++;
            batch->wanted_first =
                (uint64_t)r * (UINT64_C(1) << 32) + (uint64_t)(e - batch->begin[r]);
        }
    }
}

static void compare(struct batch *batch, void (*run)(const struct kvt_tag_check *),
                    const char *note)
{
    struct kvt_err err = {0};
    struct kvt_tag_check check = {
        .tags = batch->tags,
        .pool_pages = batch->pages,
        .layout = batch->pool != NULL ? &batch->layout : NULL,
        .pool = batch->pool,
        .request_count = batch->requests,
        .begin = batch->begin,
        .page = batch->page,
        .want = batch->want,
        .mask = kvt_tag_mask(batch->bits),
        .failed = batch->failed,
        .failures = &batch->failures,
        .first = &batch->first,
    };
    CHECK_OK(kvt_tag_check_check(&check, &err), err);
    batch->failures = -1;
    batch->first = 1;
    run(&check);
    CHECK_I64(batch->failures, batch->wanted_failures, note);
    CHECK_I64((int64_t)batch->first, (int64_t)batch->wanted_first, note);
    CHECK_NOTE(memcmp(batch->failed, batch->wanted_failed, (size_t)batch->requests) == 0, note);
}

/* Returns how many wrong entries the tag was too narrow to tell. */
static int32_t check_batch(int32_t pages, int32_t requests, int32_t mean, int32_t bits, bool header)
{
    char note[128];
    struct batch batch = {.pages = pages, .requests = requests, .entries = mean, .bits = bits};
    make_pages(&batch, header && pages > 0);
    make_entries(&batch);
    work_out(&batch);
    snprintf(note, sizeof note, "%d pages, %d requests, %d entries, %d bits, header %d", pages,
             requests, batch.entries, bits, header);
    compare(&batch, kvt_ref_tag_check, note);
    enum kvt_isa before = kvt_isa();
    for (enum kvt_isa isa = KVT_ISA_PORTABLE; isa < KVT_ISA_COUNT; isa++)
        if (kvt_isa_set(isa))
            compare(&batch, kvt_cpu_tag_check, kvt_isa_name(isa));
    kvt_isa_set(before);
    batch_free(&batch);
    return batch.unseen;
}

static void every_fault_is_found_and_nothing_else(void)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 100);
    for (int32_t trial = 0; trial < 120; trial++) {
        int32_t pages = 1 + below(trial % 3 == 0 ? 7 : 2000);
        check_batch(pages, below(40), below(trial % 2 == 0 ? 4 : 150), 64, trial % 4 == 0);
    }
}

static void a_narrow_tag_misses_what_comes_around_and_no_more(void)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 101);
    int32_t unseen[65] = {0};
    for (int32_t bits = 1; bits <= 64; bits++)
        for (int32_t trial = 0; trial < 3; trial++)
            unseen[bits] += check_batch(300, 20, 60, bits, trial == 0);
    CHECK(unseen[1] > unseen[2]);
    CHECK(unseen[2] > unseen[3]);
    CHECK(unseen[3] > 0);
    CHECK_I64(unseen[64], 0, "64 bits tell all");
}

static void large_batches_are_shared_by_threads_and_exact(void)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 102);
    check_batch(50000, 200, 400, 32, false);
    check_batch(3000, 100, 400, 64, true);
}

static void nothing_to_check_passes(void)
{
    kvt_stream_init(&stream, 4, KVT_PURPOSE_TEST, 103);
    check_batch(10, 0, 5, 64, false);
    check_batch(10, 5, 0, 64, false);
    check_batch(0, 0, 0, 64, false);
    check_batch(0, 4, 3, 64, false); /* every page is out of range */
    check_batch(0, 4, 90, 64, true);
}

static void check_refused(const struct kvt_tag_check *check, const char *what)
{
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_tag_check_check(check, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, what, "the message");
}

static void bad_calls_are_refused_with_what_was_wanted(void)
{
    struct kvt_page_tag tags[2] = {{1, 1}, {2, 2}};
    int32_t begin[] = {0, 2, 2}, page[] = {0, 1}, failures;
    uint64_t want[] = {1, 2}, first;
    uint8_t failed[2];
    struct kvt_page_layout layout;
    struct kvt_err err = {0};
    const struct kvt_tag_check good = {.tags = tags,
                                       .pool_pages = 2,
                                       .request_count = 2,
                                       .begin = begin,
                                       .page = page,
                                       .want = want,
                                       .mask = UINT64_MAX,
                                       .failed = failed,
                                       .failures = &failures,
                                       .first = &first};
    struct kvt_tag_check bad = good;
    CHECK_OK(kvt_tag_check_check(&good, &err), err);
    bad.pool_pages = -1;
    check_refused(&bad, "tag check: pool_pages: want 0 or more, got -1");
    bad = good, bad.tags = NULL;
    check_refused(&bad, "tag check: tags: want 2, got none");
    bad = good, bad.want = NULL;
    check_refused(&bad, "tag check: want: want 2 entries, got none");
    bad = good, bad.first = NULL;
    check_refused(&bad, "tag check: first: want a place for the result, got none");
    begin[1] = 3;
    check_refused(&good, "tag check: begin[2]: want 3 or more, got 2");
    begin[1] = 2;
    CHECK_OK(kvt_page_layout_init(&layout, KVT_PAGE_MLA_PLAIN, 64, 1, KVT_MLA_DIM, 0, &err), err);
    bad = good, bad.layout = &layout;
    check_refused(&bad, "tag check: layout: want pages with a header of 16 bytes, got none");
    CHECK_OK(kvt_page_layout_init(&layout, KVT_PAGE_MLA_PLAIN, 64, 1, KVT_MLA_DIM, 16, &err), err);
    check_refused(&bad, "tag check: pool: want the pages of a layer, got none");
}

const struct check_test check_tag_check[] = {
    {"every fault is found, and nothing else", every_fault_is_found_and_nothing_else, false},
    {"a narrow tag misses what comes around, and no more",
     a_narrow_tag_misses_what_comes_around_and_no_more, false},
    {"large batches are shared by threads, and exact",
     large_batches_are_shared_by_threads_and_exact, false},
    {"nothing to check passes", nothing_to_check_passes, false},
    {"bad calls are refused with what was wanted", bad_calls_are_refused_with_what_was_wanted,
     false},
    {0},
};
