/*
 * pages.h - the pool of KV pages of one replica, and who holds each
 *
 * A page is the unit of KV memory that the engine hands out: page_tokens tokens over all layers
 * and ranks of the replica (vLLM says block). The pool has a fixed number; each page is in exactly
 * one state, so at every moment
 *
 *     free + held + cached + quarantined == total
 *
 * held: a request reads or writes it (or may still: fences). cached: no request holds it, the
 * prefix index keeps it for the next. kvt_pages_is_valid() checks the equation, page by page if
 * named.
 *
 * A pool is *named* or *counted*. In a named pool every page has an id, an owner, a generation that
 * grows with each allocation, and a place in the free list (last in first out, or first in first
 * out). That is what tags, faults, prefix sharing, the decision log and the runtime need. When
 * nothing can tell one page from another the pool only counts, which is what lets a macro-step take
 * thousands of pages at once. Both give the same decisions; a test proves it.
 *
 * Pool page 0 of the real memory is the padding page; it is outside this pool (memory.h).
 */
#ifndef KVT_SERVE_PAGES_H
#define KVT_SERVE_PAGES_H

#include "sim/base/arena.h"
#include "sim/base/names.h"
#include "sim/serve/request.h"

enum kvt_page_state { KVT_PAGE_FREE, KVT_PAGE_HELD, KVT_PAGE_CACHED, KVT_PAGE_QUARANTINED };

struct kvt_pages {
    int32_t total, free, held, cached, quarantined;
    int32_t held_peak;
    bool named;
    enum kvt_free_order order;
    int32_t free_first, free_last; /* named only, as all below */
    int32_t *next;                 /* [total] in the free list, or in a holding's own pages */
    int32_t *owner;                /* [total] last request it was given to */
    uint32_t *generation;          /* [total] allocations so far */
    uint8_t *state;                /* [total] enum kvt_page_state */
};

enum kvt_status kvt_pages_init(struct kvt_pages *pages, struct kvt_arena *arena, int32_t total,
                               bool named, enum kvt_free_order order, struct kvt_err *err);

/* Give count free pages to a holding, after its last; the caller has checked that free >= count.
 * O(1) counted, O(count) named. */
void kvt_pages_take(struct kvt_pages *pages, struct kvt_holding *holding, int32_t count,
                    int32_t owner);

/* Give all own (not shared) pages of a holding back. fences must be 0. O(1) counted. */
void kvt_pages_give_back(struct kvt_pages *pages, struct kvt_holding *holding);

/* Unlink the first own page of a holding; the page stays held. Named only. */
int32_t kvt_pages_pop_own(struct kvt_pages *pages, struct kvt_holding *holding);

/* One page, by id, becomes free (from held or cached). Named only. */
void kvt_pages_free_one(struct kvt_pages *pages, int32_t page);

/* A free page leaves service (quarantined, lost, withheld), or comes back. Named only. O(free
 * pages) unless it is the first. Returns page. */
int32_t kvt_pages_withdraw(struct kvt_pages *pages, int32_t page);
void kvt_pages_restore(struct kvt_pages *pages, int32_t page);

/* A shared page is held by its first request, or no longer by any. Named only. */
void kvt_pages_set_cached(struct kvt_pages *pages, int32_t page, bool cached);

/* Counted pools: count more pages are held by requests whose batch knows how many. */
static inline void kvt_pages_count_growth(struct kvt_pages *pages, int64_t count)
{
    kvt_assert(count <= pages->free);
    pages->free -= (int32_t)count;
    pages->held += (int32_t)count;
    if (pages->held > pages->held_peak)
        pages->held_peak = pages->held;
}

bool kvt_pages_is_valid(const struct kvt_pages *pages);

#endif
