#include "sim/serve/prefix.h"

#include <string.h>

#include "sim/base/random.h"
#include "tests/check.h"

static struct kvt_arena arena;
static struct kvt_pages pages;
static struct kvt_prefix prefix;

static struct kvt_prefix *index_of(int32_t total, int32_t page_tokens)
{
    struct kvt_err err = {0};
    kvt_arena_release(&arena);
    CHECK_OK(kvt_arena_init(&arena, 1 << 20, &err), err);
    CHECK_OK(kvt_pages_init(&pages, &arena, total, true, KVT_FREE_LIFO, &err), err);
    CHECK_OK(kvt_prefix_init(&prefix, &arena, &pages, page_tokens, &err), err);
    return &prefix;
}

static struct kvt_holding nothing(void)
{
    return (struct kvt_holding){.leaf = KVT_NONE, .first = KVT_NONE, .last = KVT_NONE};
}

/* A text of full pages, one hash a page of 4 tokens. */
static struct kvt_prefix_text text_of(const uint64_t *hashes, int32_t count)
{
    return (struct kvt_prefix_text){hashes, count, 4};
}

/* A request computes all pages of a text: share what is there, take the rest, enter them. */
static struct kvt_holding compute(const struct kvt_prefix_text *text)
{
    struct kvt_holding h = nothing();
    int32_t leaf, shared = kvt_prefix_match(&prefix, text, text->hash_count, &leaf);
    if (shared > 0)
        kvt_prefix_lock(&prefix, &h, leaf, shared);
    int32_t need = text->hash_count - shared;
    if (need > pages.free)
        kvt_prefix_evict(&prefix, need - pages.free);
    kvt_pages_take(&pages, &h, need, 0);
    kvt_prefix_insert(&prefix, &h, text, text->hash_count);
    return h;
}

static int32_t matched(const struct kvt_prefix_text *text)
{
    int32_t leaf;
    return kvt_prefix_match(&prefix, text, text->hash_count, &leaf);
}

static void a_prefix_is_found_as_far_as_it_goes(void)
{
    static const uint64_t a[] = {11, 12, 13, 14}, b[] = {11, 12, 99, 14}, c[] = {12, 13};
    struct kvt_prefix_text ta = text_of(a, 4), tb = text_of(b, 4), tc = text_of(c, 2);
    index_of(16, 4);
    CHECK_I64(matched(&ta), 0, "an empty index");
    struct kvt_holding ha = compute(&ta);
    CHECK_I64(matched(&ta), 4, "all of it");
    CHECK_I64(matched(&tb), 2, "up to the first page that differs");
    CHECK_I64(matched(&tc), 0, "a page counts only after the text that led to it");
    struct kvt_holding hb = compute(&tb);
    CHECK_I64(hb.shared, 4, "its own pages are entries now, too");
    CHECK_I64(pages.held, 6, "two pages are held by both");
    int32_t leaf;
    CHECK_I64(kvt_prefix_match(&prefix, &ta, 3, &leaf), 3, "at most the limit");
    CHECK_I64(kvt_prefix_match(&prefix, &ta, 0, &leaf), 0, "no pages wanted");
    CHECK_I64(leaf, KVT_NONE, "and none given");
    kvt_prefix_release(&prefix, &ha);
    CHECK_I64(pages.cached, 2, "what only the first one held");
    CHECK_I64(matched(&ta), 4, "cached pages are found");
    kvt_prefix_release(&prefix, &hb);
    CHECK_I64(pages.held, 0, "nobody holds anything");
    CHECK_I64(pages.cached, 6, "all stay for the next");
    CHECK(kvt_prefix_is_valid(&prefix));
}

static void after_a_restart_nothing_is_found_and_what_is_held_is_freed_at_last(void)
{
    static const uint64_t a[] = {11, 12, 13, 14}, b[] = {11, 12, 99, 14};
    struct kvt_prefix_text ta = text_of(a, 4), half = text_of(a, 2), tb = text_of(b, 4);
    index_of(16, 4);
    struct kvt_holding ha = compute(&ta), hb = compute(&tb);
    kvt_prefix_release(&prefix, &ha);
    kvt_prefix_forget(&prefix);
    CHECK_I64(pages.cached, 0, "what nobody held is gone");
    CHECK_I64(pages.held, 4, "the other's path is held");
    CHECK_I64(matched(&half), 0, "and is found no more");
    CHECK(kvt_prefix_is_valid(&prefix));
    struct kvt_holding again = compute(&ta);
    CHECK_I64(again.shared, 4, "the same text is computed anew, beside it");
    CHECK_I64(pages.held, 8, "on pages of its own");
    /* Who goes on from lost pages adds lost ones. */
    static const uint64_t longer[] = {11, 12, 99, 14, 15};
    struct kvt_prefix_text tl = text_of(longer, 5);
    kvt_pages_take(&pages, &hb, 1, 0);
    kvt_prefix_insert(&prefix, &hb, &tl, 5);
    CHECK_I64(matched(&tl), 2, "not found either, past what was computed anew");
    CHECK(kvt_prefix_is_valid(&prefix));
    CHECK_I64(kvt_prefix_release(&prefix, &hb), 5, "the last release frees them");
    CHECK_I64(kvt_prefix_release(&prefix, &again), 0, "and caches what is whole");
    CHECK_I64(pages.cached, 4, "the new path");
    CHECK_I64(pages.free, 12, "all others");
    CHECK(kvt_prefix_is_valid(&prefix) && kvt_pages_is_valid(&pages));
}

static void two_who_compute_the_same_keep_one_copy(void)
{
    static const uint64_t a[] = {21, 22, 23};
    struct kvt_prefix_text text = text_of(a, 3);
    index_of(8, 4);
    struct kvt_holding first = nothing(), second = nothing();
    kvt_pages_take(&pages, &first, 3, 0);
    kvt_pages_take(&pages, &second, 4, 1);
    kvt_prefix_insert(&prefix, &first, &text, 2); /* its first chunk */
    kvt_prefix_insert(&prefix, &second, &text, 3);
    CHECK_I64(pages.held, 5, "two duplicates went back: 7 - 2");
    CHECK_I64(second.shared, 3, "the second one shares two and entered the third");
    kvt_prefix_insert(&prefix, &first, &text, 3);
    CHECK_I64(pages.held, 4, "the first one now shares the third; the second has one of its own");
    CHECK_I64(first.pages, 3, "a holding counts shared pages");
    CHECK(kvt_prefix_is_valid(&prefix) && kvt_pages_is_valid(&pages));
    kvt_pages_give_back(&pages, &second);
    kvt_prefix_release(&prefix, &second);
    kvt_pages_give_back(&pages, &first);
    kvt_prefix_release(&prefix, &first);
    CHECK_I64(pages.cached, 3, "one copy");
    CHECK_I64(pages.free, 5, "the rest is free");
}

/* Released in the order a, b, c; then a is used again. Oldest first out, leaves before roots. */
static void the_least_recently_used_goes_first(void)
{
    static const uint64_t a[] = {31, 32}, b[] = {33, 34}, c[] = {35};
    struct kvt_prefix_text ta = text_of(a, 2), tb = text_of(b, 2), tc = text_of(c, 1);
    index_of(5, 4);
    struct kvt_holding ha = compute(&ta), hb = compute(&tb), hc = compute(&tc);
    kvt_prefix_release(&prefix, &ha);
    kvt_prefix_release(&prefix, &hb);
    kvt_prefix_release(&prefix, &hc);
    ha = compute(&ta);
    kvt_prefix_release(&prefix, &ha);
    kvt_prefix_evict(&prefix, 1);
    CHECK_I64(matched(&tb), 1, "b's leaf is the oldest");
    kvt_prefix_evict(&prefix, 1);
    CHECK_I64(matched(&tb), 0, "then b's root");
    CHECK_I64(matched(&tc), 1, "c is younger");
    kvt_prefix_evict(&prefix, 2);
    CHECK_I64(matched(&tc), 0, "then c");
    CHECK_I64(matched(&ta), 1, "then the leaf of a, which was used last");
    CHECK_I64(prefix.evicted, 4, "all are counted");
    CHECK(kvt_prefix_is_valid(&prefix) && kvt_pages_is_valid(&pages));
}

static void unlocked_pages_of_a_match_are_counted(void)
{
    static const uint64_t a[] = {41, 42, 43, 44};
    struct kvt_prefix_text whole = text_of(a, 4), half = text_of(a, 2);
    int32_t leaf;
    index_of(8, 4);
    struct kvt_holding h = compute(&whole);
    kvt_prefix_match(&prefix, &whole, 4, &leaf);
    CHECK_I64(kvt_prefix_unlocked(&prefix, leaf), 0, "all are held");
    kvt_prefix_release(&prefix, &h);
    CHECK_I64(kvt_prefix_unlocked(&prefix, leaf), 4, "none is");
    h = compute(&half);
    CHECK_I64(kvt_prefix_unlocked(&prefix, leaf), 2, "the first two are");
    kvt_prefix_release(&prefix, &h);
}

/*
 * Pages and hashed blocks of other sizes: a page's key tells all blocks that it touches and where
 * in the first one it begins. So two prompts share page j exactly if they agree on all those blocks
 * and on every page before.
 */
static void pages_need_not_fit_the_blocks_of_the_hashes(void)
{
    static const uint64_t a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3, 7, 8, 9};
    static const struct {
        int32_t page_tokens, block_tokens, input, nameable, same;
    } rows[] = {
        /* 6 blocks; the first 3 agree */
        {4, 4, 24, 6, 3},         {4, 4, 23, 5, 3},        {4, 4, 3, 0, 0},
        {3, 4, 24, 8, 4},         {5, 4, 24, 4, 2},        {7, 4, 24, 3, 1},
        {16, 4, 24, 1, 0},        {25, 4, 24, 0, 0},       {1, 4, 24, 24, 12},
        {4, 16, 96, 24, 12},      {64, 512, 3072, 48, 24}, {48, 512, 3072, 64, 32},
        {100, 512, 3072, 30, 15}, {4, 4, 9999, 6, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_prefix_text ta = {a, 6, rows[i].block_tokens}, tb = {b, 6, rows[i].block_tokens};
        index_of(256, rows[i].page_tokens);
        int32_t n = kvt_prefix_nameable(&prefix, &ta, rows[i].input);
        CHECK_I64(n, rows[i].nameable, "full pages that the hashes cover");
        struct kvt_holding h = nothing();
        kvt_pages_take(&pages, &h, n, 0);
        kvt_prefix_insert(&prefix, &h, &ta, n);
        int32_t leaf;
        CHECK_I64(kvt_prefix_match(&prefix, &ta, n, &leaf), n, "a text finds itself");
        CHECK_I64(kvt_prefix_match(&prefix, &tb, n, &leaf), rows[i].same, "the common part");
        CHECK(kvt_prefix_is_valid(&prefix));
    }
}

/* ---- against a model --------------------------------------------------------------------- */

#define TEXTS 12
#define DEPTH 5
#define POOL  14

/* The model knows texts, not pages: a cached prefix is a row of hashes with the time it was let go
 * last and how many hold it. Few rows, searched from end to end. */
static struct model {
    uint64_t path[POOL][DEPTH];
    int32_t depth[POOL], locks[POOL];
    int64_t released[POOL];
    int32_t count;
    int64_t clock;
} model;

static int32_t model_find(const uint64_t *hashes, int32_t depth)
{
    for (int32_t i = 0; i < model.count; i++)
        if (model.depth[i] == depth &&
            memcmp(model.path[i], hashes, (size_t)depth * sizeof *hashes) == 0)
            return i;
    return KVT_NONE;
}

static int32_t model_match(const uint64_t *hashes, int32_t depth)
{
    int32_t found = 0;
    while (found < depth && model_find(hashes, found + 1) != KVT_NONE)
        found++;
    return found;
}

static void model_hold(const uint64_t *hashes, int32_t depth)
{
    for (int32_t d = 1; d <= depth; d++) {
        int32_t i = model_find(hashes, d);
        if (i == KVT_NONE) {
            i = model.count++;
            memcpy(model.path[i], hashes, (size_t)d * sizeof *hashes);
            model.depth[i] = d;
            model.locks[i] = 0;
        }
        model.locks[i]++;
    }
}

static void model_let_go(const uint64_t *hashes, int32_t depth)
{
    for (int32_t d = depth; d >= 1; d--) {
        int32_t i = model_find(hashes, d);
        if (--model.locks[i] == 0)
            model.released[i] = model.clock++;
    }
}

static void model_evict(int32_t count)
{
    for (; count > 0; count--) {
        int32_t oldest = KVT_NONE;
        for (int32_t i = 0; i < model.count; i++)
            if (model.locks[i] == 0 &&
                (oldest == KVT_NONE || model.released[i] < model.released[oldest]))
                oldest = i;
        CHECK_NOTE(oldest != KVT_NONE, "there is one to evict");
        if (oldest == KVT_NONE)
            return;
        int32_t last = --model.count;
        memcpy(model.path[oldest], model.path[last], sizeof model.path[0]);
        model.depth[oldest] = model.depth[last];
        model.locks[oldest] = model.locks[last];
        model.released[oldest] = model.released[last];
    }
}

static int32_t model_cached(void)
{
    int32_t cached = 0;
    for (int32_t i = 0; i < model.count; i++)
        cached += model.locks[i] == 0;
    return cached;
}

/* Requests over few words hold and let go of texts at random; sums and every match must agree. */
static void random_use_agrees_with_a_model_that_searches(void)
{
    struct kvt_stream dice;
    kvt_stream_init(&dice, 20261, KVT_PURPOSE_TEST, 3);
    uint64_t hashes[TEXTS][DEPTH];
    struct kvt_holding holding[TEXTS];
    bool held[TEXTS] = {false};
    index_of(POOL, 4);
    model = (struct model){.count = 0};
    for (int t = 0; t < TEXTS; t++)
        for (int d = 0; d < DEPTH; d++)
            hashes[t][d] = 1 + kvt_stream_below(&dice, 2);
    int wrong = 0, evictions = 0, shared = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        int32_t t = (int32_t)kvt_stream_below(&dice, TEXTS);
        struct kvt_prefix_text text = text_of(hashes[t], DEPTH);
        int32_t known = matched(&text), leaf, pinned;
        wrong += known != model_match(hashes[t], DEPTH);
        kvt_prefix_match(&prefix, &text, DEPTH, &leaf);
        pinned = kvt_prefix_unlocked(&prefix, leaf);
        if (held[t]) {
            kvt_prefix_release(&prefix, &holding[t]);
            model_let_go(hashes[t], DEPTH);
            held[t] = false;
        } else if (DEPTH - known <= pages.free + pages.cached - pinned) {
            int32_t free_before = pages.free, need = DEPTH - known;
            if (need > free_before)
                evictions += need - free_before;
            /* The model holds what is known first, as compute() does, then makes room. */
            model_hold(hashes[t], known);
            if (need > free_before)
                model_evict(need - free_before);
            holding[t] = compute(&text);
            for (int32_t d = known; d > 0; d--)
                model.locks[model_find(hashes[t], d)]--;
            model_hold(hashes[t], DEPTH);
            held[t] = true;
            shared += known > 0;
        } else {
            refused++;
        }
        wrong += !kvt_prefix_is_valid(&prefix) || !kvt_pages_is_valid(&pages);
        wrong += pages.cached != model_cached() || pages.cached + pages.held != model.count;
    }
    CHECK_I64(wrong, 0, "rounds that differ");
    CHECK_NOTE(evictions > 1000 && shared > 1000 && refused > 1000, "it was worth it");
    kvt_arena_release(&arena);
}

const struct check_test check_prefix[] = {
    {"a prefix is found as far as it goes", a_prefix_is_found_as_far_as_it_goes, false},
    {"after a restart nothing is found, and what is held is freed at last",
     after_a_restart_nothing_is_found_and_what_is_held_is_freed_at_last, false},
    {"two who compute the same keep one copy", two_who_compute_the_same_keep_one_copy, false},
    {"the least recently used goes first", the_least_recently_used_goes_first, false},
    {"unlocked pages of a match are counted", unlocked_pages_of_a_match_are_counted, false},
    {"pages need not fit the blocks of the hashes", pages_need_not_fit_the_blocks_of_the_hashes,
     false},
    {"random use agrees with a model that searches", random_use_agrees_with_a_model_that_searches,
     false},
    {NULL, NULL, false},
};
