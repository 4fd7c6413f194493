/*
 * prefix.h - which pages hold the KV of a known text: the prefix cache of one replica
 *
 * The index is a tree. An entry is one full page; its path from the root is the text before it. So
 * an entry is found by (parent entry, key of the page's text), and an entry's number is its page's.
 * Keys come from the hashes of a trace, whatever their block size.
 *
 * A request locks the path of the prefix it shares: entries with locks are held, those without are
 * cached and stand in one list, oldest release first. A path is released from its end to its start
 * and locked as a whole, so an entry is never older than what follows it: the head of the list is
 * always a leaf, and eviction takes it without looking further.
 *
 * Evicted means free: the page's bytes are gone. Cost: O(pages of the path) per lock and release,
 * O(1) per evicted page.
 */
#ifndef KVT_SERVE_PREFIX_H
#define KVT_SERVE_PREFIX_H

#include "sim/serve/pages.h"

struct kvt_prefix_text { /* the hashed prompt of one request; borrowed from the trace */
    const uint64_t *hashes;
    int32_t hash_count;
    int32_t block_tokens;
};

struct kvt_prefix {
    struct kvt_pages *pages; /* borrowed; named */
    int32_t page_tokens;
    uint32_t mask;          /* of the hash table */
    int32_t *table;         /* [mask + 1] entry or KVT_NONE; linear probing */
    uint64_t *key;          /* [total], as all below */
    int32_t *parent;        /* KVT_NONE: the root */
    int32_t *locks;         /* -1: the page is no entry */
    int32_t *older, *newer; /* in the list of cached entries */
    bool *lost;             /* a held entry whose bytes a restart took: nobody finds it any more */
    int32_t oldest, newest;
    int64_t hits, lookups, evicted; /* pages */
};

enum kvt_status kvt_prefix_init(struct kvt_prefix *prefix, struct kvt_arena *arena,
                                struct kvt_pages *pages, int32_t page_tokens, struct kvt_err *err);

/* Full pages that the hashes of a prompt of input tokens can name. */
int32_t kvt_prefix_nameable(const struct kvt_prefix *prefix, const struct kvt_prefix_text *text,
                            int32_t input);

/* Longest cached prefix of at most limit pages. Returns its pages, *leaf its last entry. */
int32_t kvt_prefix_match(const struct kvt_prefix *prefix, const struct kvt_prefix_text *text,
                         int32_t limit, int32_t *leaf);

/* Of a match: how many pages are cached (not held), that is, how many locking would hold. */
int32_t kvt_prefix_unlocked(const struct kvt_prefix *prefix, int32_t leaf);

/* Hold the path that ends in leaf for a holding that shares nothing yet. */
void kvt_prefix_lock(struct kvt_prefix *prefix, struct kvt_holding *holding, int32_t leaf,
                     int32_t count);

/* Let go of a holding's shared path. Returns how many pages became free: lost ones. */
int32_t kvt_prefix_release(struct kvt_prefix *prefix, struct kvt_holding *holding);

/* The own pages of a holding up to page `until` of the text are computed: make them entries. A page
 * that another request entered in the meantime is given back, and the other one is shared. */
void kvt_prefix_insert(struct kvt_prefix *prefix, struct kvt_holding *holding,
                       const struct kvt_prefix_text *text, int32_t until);

/* Free the count oldest cached pages; the caller has checked that cached >= count. */
void kvt_prefix_evict(struct kvt_prefix *prefix, int32_t count);

/* The replica restarted, and the bytes are gone: cached entries are evicted, those that are still
 * held are found no more, and become free pages, not cached ones, with their last release. */
void kvt_prefix_forget(struct kvt_prefix *prefix);

bool kvt_prefix_is_valid(const struct kvt_prefix *prefix);

#endif
