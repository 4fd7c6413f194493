#include "tests/scarce.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>

#include "sim/base/arena.h"
#include "tests/check.h"

#define PLACES (1 << 16) /* of addresses; a power of two, never full */

static atomic_bool watching;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static long count, failing;
static struct scarce_left kept;
static const void *places[PLACES];
static const char given; /* its address marks a place whose block was given back */

/* The real ones, as the linker names them. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t number, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
FILE *__real_open_memstream(char **text, size_t *bytes);
void *__real_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
int __real_munmap(void *memory, size_t bytes);
void __real_free(void *block);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t number, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
FILE *__wrap_open_memstream(char **text, size_t *bytes);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
int __wrap_munmap(void *memory, size_t bytes);
void __wrap_free(void *block);

static void enter(void)
{
    while (atomic_flag_test_and_set(&lock))
        continue;
}

static void leave(void)
{
    atomic_flag_clear(&lock);
}

static size_t place_of(const void *block)
{
    return (size_t)((uint64_t)(uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >> 48) % PLACES;
}

/* Whether the next allocation fails. */
static bool fails(void)
{
    if (!watching)
        return false;
    enter();
    bool now = ++count == failing;
    leave();
    if (now)
        errno = ENOMEM;
    return now;
}

static void *note(void *block)
{
    if (!watching || block == NULL)
        return block;
    enter();
    size_t at = place_of(block);
    while (places[at] != NULL && places[at] != &given)
        at = (at + 1) % PLACES;
    places[at] = block;
    kept.blocks++;
    leave();
    return block;
}

/* Blocks from before the watch, and those that a library took, are not known. */
static void forget(const void *block)
{
    if (!watching || block == NULL)
        return;
    enter();
    size_t at = place_of(block);
    for (int i = 0; i < PLACES && places[at] != NULL && places[at] != block; i++)
        at = (at + 1) % PLACES;
    if (places[at] == block) {
        places[at] = &given;
        kept.blocks--;
    }
    leave();
}

void scarce_begin(long number)
{
    count = 0;
    failing = number;
    kept = (struct scarce_left){0, 0};
    for (size_t i = 0; i < PLACES; i++)
        places[i] = NULL;
    watching = true;
}

long scarce_end(struct scarce_left *left)
{
    watching = false;
    *left = kept;
    return count;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : note(__real_malloc(bytes));
}

void *__wrap_calloc(size_t number, size_t bytes)
{
    return fails() ? NULL : note(__real_calloc(number, bytes));
}

void *__wrap_realloc(void *block, size_t bytes)
{
    if (fails())
        return NULL;
    forget(block);
    return note(__real_realloc(block, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : note(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : note(__real_strdup(text));
}

FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
    return fails() ? NULL : __real_open_memstream(text, bytes);
}

/* Mappings may be cut at their ends, so that their bytes are what is counted. */
static void add_mapped(size_t bytes, bool gone)
{
    if (!watching)
        return;
    enter();
    kept.mapped_bytes += gone ? -(int64_t)bytes : (int64_t)bytes;
    leave();
}

void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset)
{
    void *memory = fails() ? MAP_FAILED : __real_mmap(at, bytes, access, flags, file, offset);
    if (memory != MAP_FAILED)
        add_mapped(bytes, false);
    return memory;
}

int __wrap_munmap(void *memory, size_t bytes)
{
    add_mapped(bytes, true);
    return __real_munmap(memory, bytes);
}

void __wrap_free(void *block)
{
    forget(block);
    __real_free(block);
}

struct attempt {
    scarce_call *call;
    const void *context;
    const char *name;
    uint64_t digest; /* of the call when nothing fails */
};

static void try_call(const struct attempt *a, long number)
{
    char note[400];
    uint64_t digest = 0;
    struct kvt_err err = {0};
    enum kvt_status status = a->call(a->context, &digest, &err);
    snprintf(note, sizeof note, "%s, number %ld: %.200s", a->name, number, err.text);
    CHECK_NOTE(status == KVT_OK || status == KVT_ENOMEM, note);
    CHECK_NOTE(status == KVT_OK ? digest == a->digest : err.count > 0, note);
}

void scarce_each(scarce_call *call, const void *context, long stride, const char *name)
{
    struct attempt a = {.call = call, .context = context, .name = name};
    struct kvt_err err = {0};
    CHECK_OK(call(context, &a.digest, &err), err); /* what is kept for good is taken here */
    bool fired = true;
    for (long n = 1; fired; n += stride) {
        struct scarce_left left;
        bool warm = false;
        do { /* what an arena keeps for the next one is not lost, and not taken a second time */
            scarce_begin(n);
            try_call(&a, n);
            fired = scarce_end(&left) >= n;
            CHECK_I64(left.blocks, 0, name);
            warm = !warm && left.mapped_bytes > 0;
        } while (warm);
        CHECK_I64(left.mapped_bytes, 0, name);
    }
    fired = true;
    for (long n = 1; fired; n += stride) {
        kvt_arena_fail_at(n);
        try_call(&a, n);
        fired = kvt_arena_fail_at(0) == 0;
    }
}
