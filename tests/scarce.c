#include "tests/scarce.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/base/arena.h"
#include "tests/check.h"
#include "tests/devices.h"

#define PLACES (1 << 16) /* of addresses; a power of two, never full */
#define SITES  (1 << 14) /* places in the program that call; likewise */
#define FRAMES 48        /* of a chain, from its end */
#define OWN    1         /* frames of a chain that are those of look_at_path */
#define SLACK  100       /* calls by which runs may differ, of what depends on measured times */

static atomic_bool watching;
static bool lists_paths;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static long count, failing;
static _Thread_local bool mapping_fails; /* the next mmap as well: the same, tried once more */
static atomic_bool lost;                 /* the device whose wait failed */
static struct scarce_left kept;
static const void *places[PLACES];
static const char given;         /* its address marks a place whose block was given back */
static const void *sites[SITES]; /* return addresses of those met */
static struct path {
    uint64_t hash;
    long number;                  /* of its first call */
} path_list[SITES], failing_path; /* in order; the one whose first call fails, hash 0: none */
static long path_count;

/* The real ones, as the linker names them. NOLINTBEGIN(*reserved-identifier,cert-dcl*) */
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
/* NOLINTEND(*reserved-identifier,cert-dcl*) */

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

/* Of the callers; never 0. */
static uint64_t hash_of(void *const frames[], int depth)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < depth; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * UINT64_C(0x100000001b3);
    return hash | 1;
}

/* Whether it has not been met; it has now. */
static bool is_new_site(const void *address)
{
    size_t at = place_of(address) % SITES;
    while (sites[at] != NULL && sites[at] != address)
        at = (at + 1) % SITES;
    bool is_new = sites[at] == NULL;
    sites[at] = address;
    return is_new;
}

/* List the path if it comes by a call that no listed one does. */
static void list_path(void *const frames[], int depth)
{
    bool is_new = false;
    for (int i = 0; i < depth; i++)
        is_new = is_new_site(frames[i]) || is_new;
    if (is_new)
        path_list[path_count++] = (struct path){hash_of(frames, depth), count};
}

/* Whether this is the path whose first call fails. Never inlined, its own frame left out: the
 * compiler may call backtrace from two places, and equal ways are equal frames. */
__attribute__((noinline)) static bool look_at_path(void)
{
    void *frames[FRAMES];
    bool near = failing_path.hash != 0 && count + SLACK >= failing_path.number;
    if (!lists_paths && !near)
        return false;
    int depth = backtrace(frames, FRAMES) - OWN;
    if (lists_paths)
        list_path(frames + OWN, depth);
    if (!near || hash_of(frames + OWN, depth) != failing_path.hash)
        return false;
    failing_path.hash = 0;
    return true;
}

bool scarce_fails(void)
{
    if (!watching)
        return false;
    enter();
    bool now = ++count == failing;
    now = look_at_path() || now;
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

/* A device that is lost stays so. */
static bool wait_fails(void)
{
    bool now = scarce_fails();
    lost = lost || now;
    return lost;
}

void scarce_begin(long number)
{
    count = 0;
    failing = number;
    kept = (struct scarce_left){0, 0};
    mapping_fails = false;
    lost = false;
    memset(places, 0, sizeof places);
    kvt_arena_set_fails(scarce_fails);
    devices_are(false, wait_fails);
    watching = true;
}

long scarce_end(struct scarce_left *left)
{
    watching = false;
    kvt_arena_set_fails(NULL);
    devices_are(false, NULL);
    *left = kept;
    return count;
}

void *__wrap_malloc(size_t bytes)
{
    return scarce_fails() ? NULL : note(__real_malloc(bytes));
}

void *__wrap_calloc(size_t number, size_t bytes)
{
    return scarce_fails() ? NULL : note(__real_calloc(number, bytes));
}

void *__wrap_realloc(void *block, size_t bytes)
{
    if (scarce_fails())
        return NULL;
    forget(block);
    return note(__real_realloc(block, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return scarce_fails() ? NULL : note(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text)
{
    return scarce_fails() ? NULL : note(__real_strdup(text));
}

FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
    return scarce_fails() ? NULL : __real_open_memstream(text, bytes);
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
    bool again = watching && mapping_fails;
    mapping_fails = !again && scarce_fails();
    void *memory =
        again || mapping_fails ? MAP_FAILED : __real_mmap(at, bytes, access, flags, file, offset);
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

/* ---- every way ----------------------------------------------------------------------------- */

struct trial {
    scarce_run *run;
    void *context;
    enum kvt_status status;
    struct kvt_err err;
};

static void *trial(void *argument)
{
    struct trial *it = argument;
    it->status = it->run(it->context, &it->err);
    return NULL;
}

/* The first call on that path fails, 0: none; whether there was one. */
static bool trial_without(struct trial *it, struct path path, struct scarce_left *left)
{
    pthread_t thread;
    it->err = (struct kvt_err){0};
    failing_path = path;
    scarce_begin(0);
    int started = pthread_create(&thread, NULL, trial, it);
    if (started == 0)
        pthread_join(thread, NULL);
    scarce_end(left);
    CHECK_I64(started, 0, "a thread");
    bool failed = path.hash != 0 && failing_path.hash == 0;
    failing_path.hash = 0;
    return failed;
}

long scarce_try(scarce_run *run, void *context, const char *name, long unhurt)
{
    struct trial it = {.run = run, .context = context};
    struct scarce_left left;
    long without = 0, tried = 0, fired = 0;
    char note[400];
    trial(&it); /* what is kept for good is taken here, and by backtrace */
    CHECK_OK(it.status, it.err);
    if (it.status != KVT_OK)
        return 0;
    memset(sites, 0, sizeof sites);
    path_count = 0;
    lists_paths = true;
    trial_without(&it, (struct path){0}, &left);
    lists_paths = false;
    CHECK_OK(it.status, it.err);
    CHECK_I64(left.blocks, 0, name);
    for (long i = 0; i < path_count; i++) {
        bool failed = trial_without(&it, path_list[i], &left);
        snprintf(note, sizeof note, "%s, path %ld: %.300s", name, i, it.err.text);
        CHECK_I64(left.blocks, 0, note);
        CHECK_I64(left.mapped_bytes, 0, note);
        tried++;
        fired += failed;
        without += failed && it.status == KVT_OK;
        if (it.status != KVT_OK)
            CHECK_NOTE(failed && (it.status == KVT_ENOMEM || it.status == KVT_EDEVICE), note);
    }
    snprintf(note, sizeof note, "%s: %ld of %ld runs did without", name, without, path_count);
    CHECK_NOTE(without <= unhurt, note);
    snprintf(note, sizeof note, "%s: in %ld of %ld runs a call failed", name, fired, tried);
    CHECK_NOTE(fired >= tried - tried / 8, note); /* some are timed, and differ */
    return path_count;
}

/* ---- arenas alone -------------------------------------------------------------------------- */

static long countdown;

static bool counts_down(void)
{
    return countdown > 0 && --countdown == 0;
}

long scarce_arena_at(long n)
{
    long left = countdown;
    countdown = n;
    kvt_arena_set_fails(n > 0 ? counts_down : NULL);
    return left;
}

/* ---- by number ------------------------------------------------------------------------------ */

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
        scarce_arena_at(n);
        try_call(&a, n);
        fired = scarce_arena_at(0) == 0;
    }
}
