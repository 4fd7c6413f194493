#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "sim/base/arena.h"

#include <string.h>
#include <sys/mman.h>

#include "sim/base/assert.h"

#define HUGE_BYTES (16u << 20)

static long arena_fail_countdown;

void kvt_arena_fail_at(long n)
{
    arena_fail_countdown = n;
}

enum kvt_status kvt_arena_init(struct kvt_arena *arena, size_t limit, struct kvt_err *err)
{
    size_t page = 4096;
    size_t bytes = (limit + page - 1) / page * page;
    if (bytes == 0)
        bytes = page;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return kvt_err_set(err, KVT_ENOMEM, "cannot reserve %zu bytes of memory", bytes);
#ifdef MADV_HUGEPAGE
    if (bytes >=
        HUGE_BYTES) /* one fault for 2 MiB instead of 512; advice, so failure is no error */
        madvise(base, bytes, MADV_HUGEPAGE);
#endif
    *arena = (struct kvt_arena){.base = base, .used = 0, .limit = bytes};
    return KVT_OK;
}

void kvt_arena_release(struct kvt_arena *arena)
{
    if (arena->base != NULL)
        munmap(arena->base, arena->limit);
    *arena = (struct kvt_arena){0};
}

void *kvt_arena_take(struct kvt_arena *arena, size_t count, size_t size_bytes)
{
    kvt_assert(arena->base != NULL);
    kvt_assert(size_bytes > 0);
    if (arena_fail_countdown > 0 && --arena_fail_countdown == 0)
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
