#include "sim/serve/prefix.h"

#include "sim/base/decision.h" /* kvt_digest_add: a mix of two words */

enum kvt_status kvt_prefix_init(struct kvt_prefix *prefix, struct kvt_arena *arena,
                                struct kvt_pages *pages, int32_t page_tokens, struct kvt_err *err)
{
    kvt_assert(pages->named);
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)pages->total)
        slots *= 2;
    *prefix = (struct kvt_prefix){.pages = pages,
                                  .page_tokens = page_tokens,
                                  .mask = slots - 1,
                                  .oldest = KVT_NONE,
                                  .newest = KVT_NONE};
    size_t total = (size_t)pages->total;
    const char *what = "the prefix index";
    KVT_TRY(kvt_arena_get(arena, slots, sizeof *prefix->table, what, &prefix->table, err));
    KVT_TRY(kvt_arena_get(arena, total, sizeof *prefix->key, what, &prefix->key, err));
    KVT_TRY(kvt_arena_get(arena, total, sizeof *prefix->parent, what, &prefix->parent, err));
    KVT_TRY(kvt_arena_get(arena, total, sizeof *prefix->locks, what, &prefix->locks, err));
    KVT_TRY(kvt_arena_get(arena, total, sizeof *prefix->older, what, &prefix->older, err));
    KVT_TRY(kvt_arena_get(arena, total, sizeof *prefix->newer, what, &prefix->newer, err));
    KVT_TRY(kvt_arena_get(arena, total, sizeof *prefix->lost, what, &prefix->lost, err));
    for (uint32_t slot = 0; slot < slots; slot++)
        prefix->table[slot] = KVT_NONE;
    for (size_t page = 0; page < total; page++)
        prefix->locks[page] = -1;
    return KVT_OK;
}

/* Key of the text of page number j of a prompt. */
static uint64_t key_of(const struct kvt_prefix *prefix, const struct kvt_prefix_text *text,
                       int32_t j)
{
    int64_t begin = (int64_t)j * prefix->page_tokens, limit = begin + prefix->page_tokens;
    int64_t first = begin / text->block_tokens, last = (limit - 1) / text->block_tokens;
    uint64_t key = kvt_digest_add(KVT_DIGEST_START, (uint64_t)(begin % text->block_tokens));
    for (int64_t block = first; block <= last; block++)
        key = kvt_digest_add(key, text->hashes[block]);
    return key;
}

int32_t kvt_prefix_nameable(const struct kvt_prefix *prefix, const struct kvt_prefix_text *text,
                            int32_t input)
{
    int64_t hashed = (int64_t)text->hash_count * text->block_tokens;
    int64_t tokens = hashed < input ? hashed : input;
    return (int32_t)(tokens / prefix->page_tokens);
}

static uint32_t slot_of(const struct kvt_prefix *prefix, int32_t parent, uint64_t key)
{
    uint64_t mixed = kvt_digest_add(key, (uint64_t)(uint32_t)parent);
    return (uint32_t)(mixed >> 32) & prefix->mask;
}

static int32_t find(const struct kvt_prefix *prefix, int32_t parent, uint64_t key)
{
    for (uint32_t slot = slot_of(prefix, parent, key);; slot = (slot + 1) & prefix->mask) {
        int32_t entry = prefix->table[slot];
        if (entry == KVT_NONE || (prefix->parent[entry] == parent && prefix->key[entry] == key))
            return entry;
    }
}

static void table_add(struct kvt_prefix *prefix, int32_t entry)
{
    uint32_t slot = slot_of(prefix, prefix->parent[entry], prefix->key[entry]);
    while (prefix->table[slot] != KVT_NONE)
        slot = (slot + 1) & prefix->mask;
    prefix->table[slot] = entry;
}

/* Linear probing without tombstones: what stands after the hole moves up where it may. */
static void table_remove(struct kvt_prefix *prefix, int32_t entry)
{
    uint32_t hole = slot_of(prefix, prefix->parent[entry], prefix->key[entry]);
    while (prefix->table[hole] != entry) {
        kvt_assert(prefix->table[hole] != KVT_NONE);
        hole = (hole + 1) & prefix->mask;
    }
    for (uint32_t slot = (hole + 1) & prefix->mask;; slot = (slot + 1) & prefix->mask) {
        int32_t moved = prefix->table[slot];
        if (moved == KVT_NONE)
            break;
        uint32_t home = slot_of(prefix, prefix->parent[moved], prefix->key[moved]);
        if (((slot - home) & prefix->mask) >= ((slot - hole) & prefix->mask)) {
            prefix->table[hole] = moved;
            hole = slot;
        }
    }
    prefix->table[hole] = KVT_NONE;
}

int32_t kvt_prefix_match(const struct kvt_prefix *prefix, const struct kvt_prefix_text *text,
                         int32_t limit, int32_t *leaf)
{
    *leaf = KVT_NONE;
    for (int32_t j = 0; j < limit; j++) {
        int32_t entry = find(prefix, *leaf, key_of(prefix, text, j));
        if (entry == KVT_NONE)
            return j;
        *leaf = entry;
    }
    return limit;
}

int32_t kvt_prefix_unlocked(const struct kvt_prefix *prefix, int32_t leaf)
{
    int32_t count = 0; /* locks never grow towards the leaf, so the unlocked ones come first */
    for (int32_t e = leaf; e != KVT_NONE && prefix->locks[e] == 0; e = prefix->parent[e])
        count++;
    return count;
}

static void list_remove(struct kvt_prefix *prefix, int32_t entry)
{
    int32_t older = prefix->older[entry], newer = prefix->newer[entry];
    if (older != KVT_NONE)
        prefix->newer[older] = newer;
    else
        prefix->oldest = newer;
    if (newer != KVT_NONE)
        prefix->older[newer] = older;
    else
        prefix->newest = older;
}

static void list_add(struct kvt_prefix *prefix, int32_t entry)
{
    prefix->older[entry] = prefix->newest;
    prefix->newer[entry] = KVT_NONE;
    if (prefix->newest != KVT_NONE)
        prefix->newer[prefix->newest] = entry;
    else
        prefix->oldest = entry;
    prefix->newest = entry;
}

static void entry_lock(struct kvt_prefix *prefix, int32_t entry)
{
    if (prefix->locks[entry]++ > 0)
        return;
    list_remove(prefix, entry);
    kvt_pages_set_cached(prefix->pages, entry, false);
}

void kvt_prefix_lock(struct kvt_prefix *prefix, struct kvt_holding *holding, int32_t leaf,
                     int32_t count)
{
    kvt_assert(holding->leaf == KVT_NONE && holding->pages == 0);
    for (int32_t entry = leaf; entry != KVT_NONE; entry = prefix->parent[entry])
        entry_lock(prefix, entry);
    holding->leaf = leaf;
    holding->shared = holding->pages = count;
}

int32_t kvt_prefix_release(struct kvt_prefix *prefix, struct kvt_holding *holding)
{
    int32_t count = 0, freed = 0;
    for (int32_t e = holding->leaf; e != KVT_NONE; e = prefix->parent[e]) {
        kvt_assert(prefix->locks[e] > 0);
        count++;
        if (--prefix->locks[e] > 0)
            continue;
        if (prefix->lost[e]) {
            prefix->locks[e] = -1;
            kvt_pages_free_one(prefix->pages, e);
            freed++;
            continue;
        }
        list_add(prefix, e);
        kvt_pages_set_cached(prefix->pages, e, true);
    }
    kvt_assert(count == holding->shared);
    holding->pages -= holding->shared;
    holding->shared = 0;
    holding->leaf = KVT_NONE;
    return freed;
}

void kvt_prefix_insert(struct kvt_prefix *prefix, struct kvt_holding *holding,
                       const struct kvt_prefix_text *text, int32_t until)
{
    while (holding->shared < until) {
        uint64_t key = key_of(prefix, text, holding->shared);
        int32_t page = kvt_pages_pop_own(prefix->pages, holding);
        bool lost = holding->leaf != KVT_NONE && prefix->lost[holding->leaf]; /* nobody finds it */
        int32_t entry = lost ? KVT_NONE : find(prefix, holding->leaf, key);
        if (entry != KVT_NONE) {
            entry_lock(prefix, entry);
            kvt_pages_free_one(prefix->pages, page);
        } else {
            entry = page;
            prefix->key[entry] = key;
            prefix->parent[entry] = holding->leaf;
            prefix->locks[entry] = 1;
            prefix->lost[entry] = lost;
            if (!lost)
                table_add(prefix, entry);
        }
        holding->leaf = entry;
        holding->shared++;
    }
}

void kvt_prefix_evict(struct kvt_prefix *prefix, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t entry = prefix->oldest;
        kvt_assert(entry != KVT_NONE);
        list_remove(prefix, entry);
        table_remove(prefix, entry);
        prefix->locks[entry] = -1;
        kvt_pages_free_one(prefix->pages, entry);
    }
    prefix->evicted += count;
}

void kvt_prefix_forget(struct kvt_prefix *prefix)
{
    kvt_prefix_evict(prefix, prefix->pages->cached);
    for (uint32_t slot = 0; slot <= prefix->mask; slot++) {
        int32_t entry = prefix->table[slot];
        if (entry != KVT_NONE)
            prefix->lost[entry] = true;
        prefix->table[slot] = KVT_NONE;
    }
}

bool kvt_prefix_is_valid(const struct kvt_prefix *prefix)
{
    int32_t cached = 0, entries = 0, listed = 0, tabled = 0;
    for (int32_t page = 0; page < prefix->pages->total; page++) {
        if (prefix->locks[page] < 0)
            continue;
        cached += prefix->locks[page] == 0;
        int32_t parent = prefix->parent[page];
        if (parent != KVT_NONE && (prefix->locks[parent] < prefix->locks[page] ||
                                   prefix->lost[parent] != prefix->lost[page]))
            return false; /* a parent is locked by everyone who locks its child, and lost with it */
        if (prefix->lost[page])
            continue;
        entries++;
        if (find(prefix, parent, prefix->key[page]) != page)
            return false;
    }
    for (int32_t e = prefix->oldest; e != KVT_NONE; e = prefix->newer[e])
        listed++;
    for (uint32_t slot = 0; slot <= prefix->mask; slot++)
        tabled += prefix->table[slot] != KVT_NONE;
    return cached == prefix->pages->cached && listed == cached && tabled == entries;
}
