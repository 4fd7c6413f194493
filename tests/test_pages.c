#include "sim/serve/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

#define HOLDINGS 3

static struct kvt_arena arena;

static struct kvt_pages pool(int32_t total, bool named, enum kvt_free_order order)
{
    struct kvt_pages pages;
    struct kvt_err err = {0};
    kvt_arena_release(&arena);
    CHECK_OK(kvt_arena_init(&arena, 1 << 20, &err), err);
    CHECK_OK(kvt_pages_init(&pages, &arena, total, named, order, &err), err);
    return pages;
}

static void holdings_clear(struct kvt_holding holdings[HOLDINGS])
{
    for (int i = 0; i < HOLDINGS; i++)
        holdings[i] = (struct kvt_holding){.leaf = KVT_NONE, .first = KVT_NONE, .last = KVT_NONE};
}

static void print_list(const struct kvt_pages *pages, int32_t first, char *out)
{
    for (int32_t page = first; page != KVT_NONE; page = pages->next[page])
        sprintf(out + strlen(out), " %d", page);
}

static int32_t number(const char *word)
{
    return (int32_t)strtol(word, NULL, 10);
}

/*
 * A program is a list of commands; the output is a list of what `show` and its like found:
 *
 *   take H N     holding H (a, b, c) takes N pages      show H   its pages, in their order
 *   give H       all of H's pages go back               free     the free list, first out first
 *   pop H        H's first own page becomes cached      ages     generations of all pages
 *   drop N       page N becomes free                    sums     free held cached peak
 */
static void interpret(struct kvt_pages *pages, const char *program, char *out)
{
    struct kvt_holding holdings[HOLDINGS];
    holdings_clear(holdings);
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", program);
    out[0] = '\0';
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        bool alone =
            strcmp(word, "free") == 0 || strcmp(word, "ages") == 0 || strcmp(word, "sums") == 0;
        const char *name = alone ? "a" : strtok_r(NULL, " ", &rest);
        struct kvt_holding *h = &holdings[(name[0] - 'a') & 3];
        if (strcmp(word, "take") == 0) {
            kvt_pages_take(pages, h, number(strtok_r(NULL, " ", &rest)), name[0] - 'a');
        } else if (strcmp(word, "give") == 0) {
            kvt_pages_give_back(pages, h);
        } else if (strcmp(word, "pop") == 0) {
            h->pages--;
            kvt_pages_set_cached(pages, kvt_pages_pop_own(pages, h), true);
        } else if (strcmp(word, "drop") == 0) {
            kvt_pages_free_one(pages, number(name));
        } else if (strcmp(word, "show") == 0) {
            print_list(pages, h->first, out);
        } else if (strcmp(word, "free") == 0) {
            print_list(pages, pages->free_first, out);
        } else if (strcmp(word, "ages") == 0) {
            for (int32_t page = 0; page < pages->total; page++)
                sprintf(out + strlen(out), " %u", pages->generation[page]);
        } else {
            sprintf(out + strlen(out), " %d %d %d %d", pages->free, pages->held, pages->cached,
                    pages->held_peak);
        }
        if (alone || strcmp(word, "show") == 0)
            sprintf(out + strlen(out), " .");
        CHECK_NOTE(kvt_pages_is_valid(pages), program);
    }
}

static void programs_leave_the_pages_that_they_should(void)
{
    static const struct {
        const char *note;
        enum kvt_free_order order;
        const char *program, *want;
    } rows[] = {
        {"a fresh pool hands pages out in order", KVT_FREE_LIFO,
         "take a 3 take b 2 show a show b free", " 0 1 2 . 3 4 . 5 6 7 ."},
        {"lifo: what came back last goes out first, a holding's pages in their order",
         KVT_FREE_LIFO, "take a 3 take b 2 give a give b take c 4 show c free",
         " 3 4 0 1 . 2 5 6 7 ."},
        {"fifo: what came back goes to the end", KVT_FREE_FIFO,
         "take a 3 take b 2 give a give b take c 4 show c free", " 5 6 7 0 . 1 2 3 4 ."},
        {"lifo: the whole pool out and back", KVT_FREE_LIFO,
         "take a 8 free give a free take b 1 show b", " . 0 1 2 3 4 5 6 7 . 0 ."},
        {"fifo: the whole pool out and back", KVT_FREE_FIFO,
         "take a 8 free give a free take b 1 show b", " . 0 1 2 3 4 5 6 7 . 0 ."},
        {"pages of one holding need not be neighbours", KVT_FREE_LIFO,
         "take a 1 take b 1 take a 2 give b take a 1 show a", " 0 2 3 1 ."},
        {"a generation is the number of times a page was handed out", KVT_FREE_LIFO,
         "take a 2 give a take a 1 give a take b 3 ages", " 3 2 1 0 0 0 0 0 ."},
        {"fifo wears all pages alike", KVT_FREE_FIFO, "take a 5 give a take a 5 give a ages",
         " 2 2 1 1 1 1 1 1 ."},
        {"a cached page is neither free nor held", KVT_FREE_LIFO,
         "take a 3 pop a show a sums give a sums", " 1 2 . 5 2 1 3 . 7 0 1 3 ."},
        {"a dropped page is the next out of a lifo pool", KVT_FREE_LIFO,
         "take a 3 pop a drop 0 free sums", " 0 3 4 5 6 7 . 6 2 0 3 ."},
        {"and the last out of a fifo pool", KVT_FREE_FIFO, "take a 3 pop a drop 0 free",
         " 3 4 5 6 7 0 ."},
        {"dropping the page that was handed out last refills an empty list", KVT_FREE_FIFO,
         "take a 8 pop a drop 0 free take b 1 free show b", " 0 . . 0 ."},
        {"taking no pages changes nothing", KVT_FREE_FIFO, "take a 0 show a give a sums free",
         " . 8 0 0 0 . 0 1 2 3 4 5 6 7 ."},
    };
    char out[512];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_pages pages = pool(8, true, rows[i].order);
        interpret(&pages, rows[i].program, out);
        CHECK_TEXT(out, rows[i].want, rows[i].note);
    }
}

static void a_page_knows_whom_it_was_given_to(void)
{
    struct kvt_pages pages = pool(4, true, KVT_FREE_LIFO);
    struct kvt_holding h = {.leaf = KVT_NONE, .first = KVT_NONE, .last = KVT_NONE};
    kvt_pages_take(&pages, &h, 2, 713);
    CHECK_I64(pages.owner[0], 713, "first page");
    CHECK_I64(pages.owner[1], 713, "second page");
    CHECK_I64(pages.owner[2], KVT_NONE, "a page that nobody had");
    kvt_pages_give_back(&pages, &h);
    CHECK_I64(pages.owner[0], 713, "the last owner stays written down");
}

/*
 * Every sequence of 6 operations on pools of 4 pages: one named pool of either order and one that
 * only counts must agree on every sum, stay valid, and never hand a page to two holdings.
 * Operations 0..5: a or b takes 1, a or b takes 2, a or b gives all back.
 */
static bool apply(struct kvt_pages *pages, struct kvt_holding holdings[HOLDINGS], int operation)
{
    struct kvt_holding *h = &holdings[operation & 1];
    int32_t count = operation < 2 ? 1 : 2;
    if (operation >= 4)
        kvt_pages_give_back(pages, h);
    else if (count <= pages->free)
        kvt_pages_take(pages, h, count, operation & 1);
    return kvt_pages_is_valid(pages);
}

static bool holds_each_page_once(const struct kvt_pages *pages, const struct kvt_holding *holdings)
{
    int seen[4] = {0};
    for (int i = 0; i < HOLDINGS; i++) {
        int32_t counted = 0;
        for (int32_t page = holdings[i].first; page != KVT_NONE; page = pages->next[page]) {
            counted++;
            if (seen[page]++ > 0 || pages->state[page] != KVT_PAGE_HELD || pages->owner[page] != i)
                return false;
        }
        if (counted != holdings[i].pages)
            return false;
    }
    return true;
}

static void every_short_sequence_keeps_the_pool_whole(void)
{
    int bad = 0, sequences = 6 * 6 * 6 * 6 * 6 * 6;
    for (int sequence = 0; sequence < sequences; sequence++) {
        struct kvt_pages lifo = pool(4, true, KVT_FREE_LIFO);
        struct kvt_pages fifo, counted;
        struct kvt_err err = {0};
        bad += kvt_pages_init(&fifo, &arena, 4, true, KVT_FREE_FIFO, &err) != KVT_OK;
        bad += kvt_pages_init(&counted, &arena, 4, false, KVT_FREE_FIFO, &err) != KVT_OK;
        struct kvt_holding l[HOLDINGS], f[HOLDINGS], c[HOLDINGS];
        holdings_clear(l), holdings_clear(f), holdings_clear(c);
        for (int i = 0, rest = sequence; i < 6; i++, rest /= 6) {
            bad += !apply(&lifo, l, rest % 6);
            bad += !apply(&fifo, f, rest % 6);
            bad += !apply(&counted, c, rest % 6);
            bad += !holds_each_page_once(&lifo, l) || !holds_each_page_once(&fifo, f);
            bad += lifo.free != counted.free || lifo.held != counted.held ||
                   fifo.free != counted.free || fifo.held_peak != counted.held_peak;
            for (int h = 0; h < HOLDINGS; h++)
                bad += l[h].pages != c[h].pages || f[h].pages != c[h].pages;
        }
    }
    CHECK_I64(bad, 0, "sequences of 6 operations");
}

static void a_broken_pool_is_found(void)
{
    struct kvt_pages pages = pool(4, true, KVT_FREE_LIFO);
    struct kvt_holding h = {.leaf = KVT_NONE, .first = KVT_NONE, .last = KVT_NONE};
    kvt_pages_take(&pages, &h, 2, 0);
    CHECK(kvt_pages_is_valid(&pages));
    pages.held++;
    CHECK_NOTE(!kvt_pages_is_valid(&pages), "a page that is counted twice");
    pages.held--;
    pages.state[0] = KVT_PAGE_FREE;
    CHECK_NOTE(!kvt_pages_is_valid(&pages), "a free page that is not in the list");
    pages.state[0] = KVT_PAGE_HELD;
    pages.next[3] = 2;
    CHECK_NOTE(!kvt_pages_is_valid(&pages), "a free list that bites its tail");
    pages.next[3] = KVT_NONE;
    pages.free_first = 1;
    CHECK_NOTE(!kvt_pages_is_valid(&pages), "a held page in the free list");
    kvt_arena_release(&arena);
}

const struct check_test check_pages[] = {
    {"programs leave the pages that they should", programs_leave_the_pages_that_they_should, false},
    {"a page knows whom it was given to", a_page_knows_whom_it_was_given_to, false},
    {"every short sequence keeps the pool whole", every_short_sequence_keeps_the_pool_whole, false},
    {"a broken pool is found", a_broken_pool_is_found, false},
    {NULL, NULL, false},
};
