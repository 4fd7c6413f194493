#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "sim/base/arena.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/base/assert.h"

#define HUGE_BYTES (16u << 20)
#define PAGE_BYTES ((size_t)4096)
#ifdef KVT_SLOW_CHECKS
#define KEEPS false
#else
#define KEEPS true
#endif

static bool (*take_fails)(void);

void kvt_arena_set_fails(bool (*fails)(void))
{
    take_fails = fails;
}

/* ---- what a thread keeps ------------------------------------------------------------------ */

struct mapping {
    unsigned char *base; /* NULL: an empty slot */
    size_t bytes, dirty; /* from the start: not zero, perhaps */
};

static _Thread_local struct mapping kept[KVT_ARENA_KEPT];
static pthread_key_t kept_key; /* its destructor gives back what a thread keeps when it ends */
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;

static void unmap_kept(void *unused)
{
    (void)unused;
    for (int i = 0; i < KVT_ARENA_KEPT; i++)
        if (kept[i].base != NULL)
            munmap(kept[i].base, kept[i].bytes);
    memset(kept, 0, sizeof kept);
}

static void make_key(void)
{
    pthread_key_create(&kept_key, unmap_kept);
}

/* The smallest mapping of at least so many bytes, cleared; base NULL where there is none. */
static struct mapping take_kept(size_t bytes)
{
    struct mapping *best = NULL;
    for (int i = 0; i < KVT_ARENA_KEPT; i++)
        if (kept[i].base != NULL && kept[i].bytes >= bytes &&
            (best == NULL || kept[i].bytes < best->bytes))
            best = &kept[i];
    if (best == NULL)
        return (struct mapping){0};
    struct mapping found = *best;
    *best = (struct mapping){0};
    memset(found.base, 0, found.dirty);
    return found;
}

/* Put a mapping where none is, or the smallest one that is smaller; what is left over is unmapped.
 */
static void keep(struct mapping mapping)
{
    struct mapping *slot = &kept[0];
    for (int i = 1; i < KVT_ARENA_KEPT; i++)
        if (kept[i].bytes < slot->bytes)
            slot = &kept[i];
    pthread_once(&kept_once, make_key);
    if (pthread_setspecific(kept_key, kept) == 0 && slot->bytes < mapping.bytes) {
        struct mapping other = *slot;
        if (mapping.dirty > KVT_ARENA_KEPT_BYTES) {
            madvise(mapping.base + KVT_ARENA_KEPT_BYTES, mapping.bytes - KVT_ARENA_KEPT_BYTES,
                    MADV_DONTNEED);
            mapping.dirty = KVT_ARENA_KEPT_BYTES;
        }
        *slot = mapping;
        mapping = other;
    }
    if (mapping.base != NULL)
        munmap(mapping.base, mapping.bytes);
}

/* ---- an arena ----------------------------------------------------------------------------- */

static unsigned char *map(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

enum kvt_status kvt_arena_init(struct kvt_arena *arena, size_t limit, struct kvt_err *err)
{
    if (limit > SIZE_MAX - PAGE_BYTES)
        limit = SIZE_MAX - PAGE_BYTES; /* which nobody has either */
    size_t bytes = (limit + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (bytes == 0)
        bytes = PAGE_BYTES;
    *arena = (struct kvt_arena){0};
    struct mapping mapping = take_kept(bytes);
    if (mapping.base == NULL) {
        mapping = (struct mapping){.base = map(bytes), .bytes = bytes};
        if (mapping.base == NULL) { /* what is kept may be in the way */
            unmap_kept(NULL);
            mapping.base = map(bytes);
        }
        if (mapping.base == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "cannot reserve %zu bytes of memory", bytes);
#ifdef MADV_HUGEPAGE
        if (bytes >=
            HUGE_BYTES) /* one fault for 2 MiB instead of 512; advice, so failure is no error */
            madvise(mapping.base, bytes, MADV_HUGEPAGE);
#endif
    }
    *arena = (struct kvt_arena){.base = mapping.base, .limit = bytes, .mapped = mapping.bytes};
    return KVT_OK;
}

void kvt_arena_release(struct kvt_arena *arena)
{
    struct mapping mapping = {.base = arena->base, .bytes = arena->mapped, .dirty = arena->used};
    if (mapping.base != NULL && KEEPS)
        keep(mapping);
    else if (mapping.base != NULL)
        munmap(mapping.base, mapping.bytes);
    *arena = (struct kvt_arena){0};
}

void *kvt_arena_take(struct kvt_arena *arena, size_t count, size_t size_bytes)
{
    kvt_assert(arena->base != NULL);
    kvt_assert(size_bytes > 0);
    if (take_fails != NULL && take_fails())
        return NULL;
    if (count > (arena->limit - arena->used) / size_bytes)
        return NULL;
    size_t bytes = (count * size_bytes + 63) / 64 * 64;
    if (bytes > arena->limit - arena->used)
        return NULL;
    void *piece = arena->base + arena->used;
    arena->used += bytes;
    return piece;
}

enum kvt_status kvt_arena_get(struct kvt_arena *arena, size_t count, size_t size_bytes,
                              const char *what, void *out, struct kvt_err *err)
{
    void *piece = kvt_arena_take(arena, count, size_bytes);
    if (piece == NULL)
        return kvt_err_set(err, KVT_ENOMEM,
                           "no room for %zu x %zu bytes of %s: %zu of %zu bytes are in use", count,
                           size_bytes, what, arena->used, arena->limit);
    memcpy(out, &piece, sizeof piece);
    return KVT_OK;
}

char *kvt_arena_text(struct kvt_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = kvt_arena_take(arena, bytes, 1);
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}
