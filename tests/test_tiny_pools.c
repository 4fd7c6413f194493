/*
 * Every sequence of seven operations on a pool of four pages, of nine where pages are shared,
 * beside a model that searches.
 *
 * The model knows each page by itself: what it is, how old, and the free pages as a row. After each
 * operation all of it must agree with the pool and its prefix index, page by page, and with a pool
 * that only counts where there is nothing to share. Sequences are walked as a tree: what a pool
 * holds is saved before each step and put back for the next operation.
 */
#include <stdio.h>
#include <string.h>

#include "sim/serve/prefix.h"
#include "tests/check.h"

#define PAGES       4
#define STEPS_MAX   9
#define HOLDERS     3
#define DEPTH       2 /* pages of a text */
#define PAGE_TOKENS 4
#define SAVED_BYTES 4096 /* of the arena */

/* Texts of the holders: the first and the last are the same, all begin alike. */
static const uint64_t hashes[HOLDERS][DEPTH] = {{1, 2}, {1, 3}, {1, 2}};

enum kind { FREE, OWN, ENTRY, AWAY };

struct model {
    enum kind kind[PAGES];
    uint32_t generation[PAGES];
    int32_t owner[PAGES];
    int32_t free[PAGES], free_count; /* first out first */
    uint64_t key[PAGES];             /* of an entry, as all below */
    int32_t parent[PAGES], locks[PAGES];
    int64_t let_go[PAGES], clock;
    int32_t own[HOLDERS][PAGES], own_count[HOLDERS];   /* in the order of the text */
    int32_t path[HOLDERS][PAGES], path_count[HOLDERS]; /* entries held, from the root */
    bool lifo;
};

/* All that an operation may change. */
static struct state {
    struct kvt_pages pages, counted;
    struct kvt_prefix prefix;
    struct kvt_holding holding[HOLDERS], count_of[HOLDERS];
    struct model model;
    unsigned char arena[SAVED_BYTES];
} now, saved[STEPS_MAX];

static struct kvt_arena arena;
static bool shares; /* operations of the prefix index, too */

/* ---- the model ---------------------------------------------------------------------------- */

/* Pages that become free at once keep their order among themselves. */
static void model_free(struct model *m, const int32_t pages[], int32_t count)
{
    int32_t room = m->lifo ? count : 0;
    memmove(m->free + room, m->free, (size_t)m->free_count * sizeof m->free[0]);
    memcpy(m->free + (m->lifo ? 0 : m->free_count), pages, (size_t)count * sizeof pages[0]);
    m->free_count += count;
    for (int32_t i = 0; i < count; i++)
        m->kind[pages[i]] = FREE;
}

static void model_take(struct model *m, int32_t h, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t page = m->free[0];
        memmove(m->free, m->free + 1, (size_t)--m->free_count * sizeof m->free[0]);
        m->kind[page] = OWN;
        m->owner[page] = h;
        m->generation[page]++;
        m->own[h][m->own_count[h]++] = page;
    }
}

static void model_give_back(struct model *m, int32_t h)
{
    model_free(m, m->own[h], m->own_count[h]);
    m->own_count[h] = 0;
}

static int32_t model_find(const struct model *m, int32_t parent, uint64_t key)
{
    for (int32_t page = 0; page < PAGES; page++)
        if (m->kind[page] == ENTRY && m->parent[page] == parent && m->key[page] == key)
            return page;
    return KVT_NONE;
}

/* Entries of h's text from the root on, into path; returns how many. */
static int32_t model_match(const struct model *m, int32_t h, int32_t path[DEPTH])
{
    int32_t count = 0, parent = KVT_NONE;
    while (count < DEPTH && (parent = model_find(m, parent, hashes[h][count])) != KVT_NONE)
        path[count++] = parent;
    return count;
}

static int32_t model_cached(const struct model *m)
{
    int32_t cached = 0;
    for (int32_t page = 0; page < PAGES; page++)
        cached += m->kind[page] == ENTRY && m->locks[page] == 0;
    return cached;
}

static void model_evict(struct model *m)
{
    int32_t oldest = KVT_NONE;
    for (int32_t page = 0; page < PAGES; page++)
        if (m->kind[page] == ENTRY && m->locks[page] == 0 &&
            (oldest == KVT_NONE || m->let_go[page] < m->let_go[oldest]))
            oldest = page;
    model_free(m, &oldest, 1);
}

static void model_let_go(struct model *m, int32_t h)
{
    while (m->path_count[h] > 0) {
        int32_t page = m->path[h][--m->path_count[h]];
        if (--m->locks[page] == 0)
            m->let_go[page] = m->clock++;
    }
    model_give_back(m, h);
}

/* What the holder computed becomes known; of two copies the first stays. */
static void model_enter(struct model *m, int32_t h)
{
    while (m->path_count[h] < DEPTH) {
        int32_t at = m->path_count[h], parent = at > 0 ? m->path[h][at - 1] : KVT_NONE;
        int32_t page = m->own[h][0], there = model_find(m, parent, hashes[h][at]);
        memmove(m->own[h], m->own[h] + 1, (size_t)--m->own_count[h] * sizeof m->own[h][0]);
        if (there == KVT_NONE) {
            m->kind[page] = ENTRY;
            m->key[page] = hashes[h][at];
            m->parent[page] = parent;
            m->locks[page] = 0;
            there = page;
        } else {
            model_free(m, &page, 1);
        }
        m->locks[there]++;
        m->path[h][m->path_count[h]++] = there;
    }
}

/* ---- operations: false when there is nothing to do it on ----------------------------------- */

static struct kvt_prefix_text text_of(int32_t h)
{
    return (struct kvt_prefix_text){hashes[h], DEPTH, PAGE_TOKENS};
}

static bool holds(int32_t h)
{
    return now.holding[h].pages > 0;
}

/* A request takes pages at its start, and one at a time while it grows. */
static bool take(int32_t h, int32_t count)
{
    if (now.pages.free < count)
        return false;
    kvt_pages_take(&now.pages, &now.holding[h], count, h);
    kvt_pages_take(&now.counted, &now.count_of[h], count, h);
    model_take(&now.model, h, count);
    return true;
}

static bool give_back(int32_t h)
{
    if (!holds(h))
        return false;
    kvt_pages_give_back(&now.pages, &now.holding[h]);
    kvt_pages_give_back(&now.counted, &now.count_of[h]);
    model_give_back(&now.model, h);
    return true;
}

/* A page that a guard found bad: out of service, or back. The one that counts takes no part. */
static bool withdraw(int32_t page)
{
    struct model *m = &now.model;
    if (m->kind[page] != FREE || now.pages.quarantined > 0)
        return false;
    kvt_pages_withdraw(&now.pages, page);
    int32_t at = 0;
    while (m->free[at] != page)
        at++;
    memmove(m->free + at, m->free + at + 1, (size_t)(--m->free_count - at) * sizeof m->free[0]);
    m->kind[page] = AWAY;
    return true;
}

static bool restore(int32_t page)
{
    if (now.model.kind[page] != AWAY)
        return false;
    kvt_pages_restore(&now.pages, page);
    model_free(&now.model, &page, 1);
    return true;
}

/* Hold what is known of the text, take pages for the rest, and evict what that needs. */
static bool admit(int32_t h)
{
    struct model *m = &now.model;
    struct kvt_prefix_text text = text_of(h);
    int32_t leaf, path[DEPTH] = {0}, known = kvt_prefix_match(&now.prefix, &text, DEPTH, &leaf);
    CHECK_I64(known, model_match(m, h, path), "a match");
    int32_t pinned = kvt_prefix_unlocked(&now.prefix, leaf), need = DEPTH - known;
    if (holds(h) || need > now.pages.free + now.pages.cached - pinned)
        return false;
    kvt_prefix_lock(&now.prefix, &now.holding[h], leaf, known);
    for (int32_t i = 0; i < known; i++)
        m->locks[m->path[h][m->path_count[h]++] = path[i]]++;
    int32_t lacking = need > now.pages.free ? need - now.pages.free : 0;
    kvt_prefix_evict(&now.prefix, lacking);
    for (int32_t i = 0; i < lacking; i++)
        model_evict(m);
    kvt_pages_take(&now.pages, &now.holding[h], need, h);
    model_take(m, h, need);
    return true;
}

static bool enter(int32_t h)
{
    struct kvt_prefix_text text = text_of(h);
    if (!holds(h) || now.holding[h].shared == DEPTH)
        return false;
    kvt_prefix_insert(&now.prefix, &now.holding[h], &text, DEPTH);
    model_enter(&now.model, h);
    return true;
}

static bool let_go(int32_t h)
{
    if (!holds(h))
        return false;
    if (now.holding[h].leaf != KVT_NONE)
        kvt_prefix_release(&now.prefix, &now.holding[h]);
    kvt_pages_give_back(&now.pages, &now.holding[h]);
    model_let_go(&now.model, h);
    return true;
}

/* A page for its output, past the text. */
static bool grow(int32_t h)
{
    if (!holds(h) || now.pages.free == 0)
        return false;
    kvt_pages_take(&now.pages, &now.holding[h], 1, h);
    model_take(&now.model, h, 1);
    return true;
}

static bool evict(void)
{
    if (now.pages.cached == 0)
        return false;
    kvt_prefix_evict(&now.prefix, 1);
    model_evict(&now.model);
    return true;
}

/* Without an index one page may go away at a time, whichever. */
#define PLAIN_OPERATIONS  (3 * HOLDERS + 2 * PAGES)
#define SHARED_OPERATIONS (4 * HOLDERS + 1)

static bool operate(int op)
{
    int32_t h = op % HOLDERS, page = (op - 3 * HOLDERS) % PAGES;
    if (!shares && op >= 3 * HOLDERS)
        return op < 3 * HOLDERS + PAGES ? withdraw(page) : restore(page);
    if (!shares)
        return op < 2 * HOLDERS ? take(h, 1 + op / HOLDERS) : give_back(h);
    switch (op / HOLDERS) {
    case 0:
        return admit(h);
    case 1:
        return enter(h);
    case 2:
        return let_go(h);
    case 3:
        return grow(h);
    default:
        return evict();
    }
}

/* ---- the comparison ----------------------------------------------------------------------- */

static bool holder_agrees(int32_t h)
{
    const struct model *m = &now.model;
    const struct kvt_holding *holding = &now.holding[h];
    int32_t page = holding->first, leaf = holding->leaf;
    for (int32_t i = 0; i < m->own_count[h]; i++, page = now.pages.next[page])
        if (page != m->own[h][i])
            return false;
    if (m->own_count[h] > 0 &&
        (page != KVT_NONE || holding->last != m->own[h][m->own_count[h] - 1]))
        return false;
    for (int32_t i = m->path_count[h] - 1; i >= 0; i--, leaf = now.prefix.parent[leaf])
        if (leaf != m->path[h][i])
            return false;
    return (m->path_count[h] == 0 || leaf == KVT_NONE) && holding->shared == m->path_count[h] &&
           holding->pages == m->path_count[h] + m->own_count[h];
}

static bool page_agrees(int32_t page)
{
    static const enum kvt_page_state plain[] = {KVT_PAGE_FREE, KVT_PAGE_HELD, KVT_PAGE_HELD,
                                                KVT_PAGE_QUARANTINED};
    const struct model *m = &now.model;
    enum kvt_page_state want = plain[m->kind[page]];
    if (m->kind[page] == ENTRY && m->locks[page] == 0)
        want = KVT_PAGE_CACHED;
    return now.pages.state[page] == want && now.pages.generation[page] == m->generation[page] &&
           (m->kind[page] != OWN || now.pages.owner[page] == m->owner[page]) &&
           (!shares || now.prefix.locks[page] == (m->kind[page] == ENTRY ? m->locks[page] : -1));
}

static bool all_agrees(void)
{
    const struct model *m = &now.model;
    const struct kvt_pages *pages = &now.pages;
    bool agrees = kvt_pages_is_valid(pages) && (!shares || kvt_prefix_is_valid(&now.prefix));
    for (int32_t h = 0; h < HOLDERS; h++)
        agrees = agrees && holder_agrees(h);
    for (int32_t page = 0; page < PAGES; page++)
        agrees = agrees && page_agrees(page);
    int32_t at = pages->free_first;
    for (int32_t i = 0; agrees && i < m->free_count; i++, at = pages->next[at])
        agrees = at == m->free[i];
    agrees = agrees && at == KVT_NONE && pages->free == m->free_count &&
             pages->cached == model_cached(m);
    if (!shares) /* the one that counts has no page away */
        agrees = agrees && kvt_pages_is_valid(&now.counted) && now.counted.held == pages->held &&
                 now.counted.held_peak == pages->held_peak;
    return agrees;
}

/* ---- the tree ----------------------------------------------------------------------------- */

static void begin(enum kvt_free_order order)
{
    struct kvt_err err = {0};
    kvt_arena_release(&arena);
    memset(&now, 0, sizeof now);
    CHECK_OK(kvt_arena_init(&arena, SAVED_BYTES, &err), err);
    CHECK_OK(kvt_pages_init(&now.pages, &arena, PAGES, true, order, &err), err);
    CHECK_OK(kvt_pages_init(&now.counted, &arena, PAGES, false, order, &err), err);
    CHECK_OK(kvt_prefix_init(&now.prefix, &arena, &now.pages, PAGE_TOKENS, &err), err);
    for (int32_t h = 0; h < HOLDERS; h++)
        now.holding[h] = now.count_of[h] =
            (struct kvt_holding){.leaf = KVT_NONE, .first = KVT_NONE, .last = KVT_NONE};
    now.model.lifo = order == KVT_FREE_LIFO;
    now.model.free_count = PAGES;
    for (int32_t page = 0; page < PAGES; page++)
        now.model.free[page] = page;
}

static void save(int depth)
{
    memcpy(now.arena, arena.base, arena.used);
    saved[depth] = now;
}

static void put_back(int depth)
{
    now = saved[depth];
    memcpy(arena.base, now.arena, arena.used);
}

static bool is_ordered(const uint32_t before[PAGES])
{
    for (int32_t page = 0; page < PAGES; page++)
        if (now.pages.generation[page] < before[page])
            return false;
    return true;
}

/* Sequences of up to `steps` operations; how many of them there were, and how many went wrong. */
static int64_t walk(int operations, int steps, int64_t *wrong)
{
    int op[STEPS_MAX], depth = 0;
    int64_t walked = 0;
    save(0);
    op[0] = 0;
    while (depth >= 0) {
        if (op[depth] == operations) {
            if (--depth >= 0)
                op[depth]++;
            continue;
        }
        put_back(depth);
        bool done = operate(op[depth]);
        if (done) {
            walked++;
            bool right = all_agrees() && is_ordered(saved[depth].model.generation);
            if (!right && (*wrong)++ == 0)
                for (int i = 0; i <= depth; i++)
                    printf("%s%d%s", i == 0 ? "    operations " : " ", op[i],
                           i == depth ? "\n" : "");
            if (right && depth + 1 < steps) {
                save(++depth);
                op[depth] = 0;
                continue;
            }
        }
        op[depth]++;
    }
    return walked;
}

static void walk_both_orders(int operations, int steps, int64_t at_least)
{
    for (int order = 0; order < 2; order++) {
        int64_t wrong = 0;
        begin(order == 0 ? KVT_FREE_LIFO : KVT_FREE_FIFO);
        int64_t walked = walk(operations, steps, &wrong);
        CHECK_I64(wrong, 0, "sequences after which pool and model differ");
        CHECK_NOTE(walked > at_least, "there were sequences to walk");
    }
    kvt_arena_release(&arena);
}

static void seven_operations_on_four_pages(void)
{
    shares = false;
    walk_both_orders(PLAIN_OPERATIONS, 7, 500000);
}

static void nine_operations_on_four_pages_that_are_shared(void)
{
    shares = true;
    walk_both_orders(SHARED_OPERATIONS, 9, 200000);
}

const struct check_test check_tiny_pools[] = {
    {"seven operations on four pages", seven_operations_on_four_pages, false},
    {"nine operations on four pages that are shared", nine_operations_on_four_pages_that_are_shared,
     false},
    {NULL, NULL, false},
};
