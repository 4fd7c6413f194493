#include "sim/serve/pages.h"

enum kvt_status kvt_pages_init(struct kvt_pages *pages, struct kvt_arena *arena, int32_t total,
                               bool named, enum kvt_free_order order, struct kvt_err *err)
{
    kvt_assert(total > 0);
    *pages = (struct kvt_pages){.total = total,
                                .free = total,
                                .named = named,
                                .order = order,
                                .free_first = KVT_NONE,
                                .free_last = KVT_NONE};
    if (!named)
        return KVT_OK;
    size_t count = (size_t)total;
    KVT_TRY(kvt_arena_get(arena, count, sizeof *pages->next, "page links", &pages->next, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *pages->owner, "page owners", &pages->owner, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *pages->generation, "page generations",
                          &pages->generation, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *pages->state, "page states", &pages->state, err));
    for (int32_t page = 0; page < total; page++) {
        pages->next[page] = page + 1 < total ? page + 1 : KVT_NONE;
        pages->owner[page] = KVT_NONE;
    }
    pages->free_first = 0;
    pages->free_last = total - 1;
    return KVT_OK;
}

static void free_list_add(struct kvt_pages *pages, int32_t first, int32_t last)
{
    if (pages->free_first == KVT_NONE) {
        pages->free_first = first;
        pages->free_last = last;
        pages->next[last] = KVT_NONE;
    } else if (pages->order == KVT_FREE_LIFO) {
        pages->next[last] = pages->free_first;
        pages->free_first = first;
    } else {
        pages->next[pages->free_last] = first;
        pages->next[last] = KVT_NONE;
        pages->free_last = last;
    }
}

static void take_named(struct kvt_pages *pages, struct kvt_holding *holding, int32_t count,
                       int32_t owner)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t page = pages->free_first;
        kvt_assert(page != KVT_NONE);
        kvt_assert(pages->state[page] == KVT_PAGE_FREE);
        pages->free_first = pages->next[page];
        pages->next[page] = KVT_NONE;
        pages->state[page] = KVT_PAGE_HELD;
        pages->owner[page] = owner;
        pages->generation[page]++;
        if (holding->last != KVT_NONE)
            pages->next[holding->last] = page;
        else
            holding->first = page;
        holding->last = page;
    }
    if (pages->free_first == KVT_NONE)
        pages->free_last = KVT_NONE;
}

void kvt_pages_take(struct kvt_pages *pages, struct kvt_holding *holding, int32_t count,
                    int32_t owner)
{
    kvt_assert(count >= 0);
    kvt_pages_count_growth(pages, count);
    holding->pages += count;
    if (pages->named)
        take_named(pages, holding, count, owner);
}

void kvt_pages_give_back(struct kvt_pages *pages, struct kvt_holding *holding)
{
    kvt_assert(holding->fences == 0);
    int32_t own = holding->pages - holding->shared;
    kvt_assert(own >= 0);
    pages->held -= own;
    pages->free += own;
    kvt_assert(pages->held >= 0);
    if (pages->named && own > 0) {
        int32_t counted = 0;
        for (int32_t page = holding->first; page != KVT_NONE; page = pages->next[page]) {
            kvt_assert(pages->state[page] == KVT_PAGE_HELD);
            pages->state[page] = KVT_PAGE_FREE;
            counted++;
        }
        kvt_assert(counted == own);
        free_list_add(pages, holding->first, holding->last);
    }
    holding->pages = holding->shared;
    holding->first = holding->last = KVT_NONE;
}

int32_t kvt_pages_pop_own(struct kvt_pages *pages, struct kvt_holding *holding)
{
    kvt_assert(pages->named);
    int32_t page = holding->first;
    kvt_assert(page != KVT_NONE);
    holding->first = pages->next[page];
    if (holding->first == KVT_NONE)
        holding->last = KVT_NONE;
    pages->next[page] = KVT_NONE;
    return page;
}

void kvt_pages_free_one(struct kvt_pages *pages, int32_t page)
{
    kvt_assert(pages->named);
    if (pages->state[page] == KVT_PAGE_CACHED) {
        pages->cached--;
    } else {
        kvt_assert(pages->state[page] == KVT_PAGE_HELD);
        pages->held--;
    }
    pages->state[page] = KVT_PAGE_FREE;
    pages->free++;
    free_list_add(pages, page, page);
}

int32_t kvt_pages_withdraw(struct kvt_pages *pages, int32_t page)
{
    kvt_assert(pages->named && pages->state[page] == KVT_PAGE_FREE);
    int32_t before = KVT_NONE;
    for (int32_t at = pages->free_first; at != page; at = pages->next[at])
        before = at;
    if (before == KVT_NONE)
        pages->free_first = pages->next[page];
    else
        pages->next[before] = pages->next[page];
    if (pages->free_last == page)
        pages->free_last = before;
    pages->next[page] = KVT_NONE;
    pages->state[page] = KVT_PAGE_QUARANTINED;
    pages->free--;
    pages->quarantined++;
    return page;
}

void kvt_pages_restore(struct kvt_pages *pages, int32_t page)
{
    kvt_assert(pages->state[page] == KVT_PAGE_QUARANTINED);
    pages->state[page] = KVT_PAGE_FREE;
    pages->quarantined--;
    pages->free++;
    free_list_add(pages, page, page);
}

void kvt_pages_set_cached(struct kvt_pages *pages, int32_t page, bool cached)
{
    kvt_assert(pages->named);
    kvt_assert(pages->state[page] == (cached ? KVT_PAGE_HELD : KVT_PAGE_CACHED));
    pages->state[page] = cached ? KVT_PAGE_CACHED : KVT_PAGE_HELD;
    pages->held += cached ? -1 : 1;
    pages->cached += cached ? 1 : -1;
    if (pages->held > pages->held_peak)
        pages->held_peak = pages->held;
}

bool kvt_pages_is_valid(const struct kvt_pages *pages)
{
    if (pages->free < 0 || pages->held < 0 || pages->cached < 0 || pages->quarantined < 0 ||
        pages->free + pages->held + pages->cached + pages->quarantined != pages->total)
        return false;
    if (!pages->named)
        return true;
    int32_t count[4] = {0};
    for (int32_t page = 0; page < pages->total; page++)
        count[pages->state[page]]++;
    int32_t listed = 0;
    for (int32_t page = pages->free_first; page != KVT_NONE && listed <= pages->total;
         page = pages->next[page]) {
        if (pages->state[page] != KVT_PAGE_FREE)
            return false;
        listed++;
    }
    return listed == pages->free && count[KVT_PAGE_FREE] == pages->free &&
           count[KVT_PAGE_HELD] == pages->held && count[KVT_PAGE_CACHED] == pages->cached &&
           count[KVT_PAGE_QUARANTINED] == pages->quarantined;
}
