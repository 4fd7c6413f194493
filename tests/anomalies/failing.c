/*
 * failing.c - the Nth call of a kind fails: preloaded into a program by tests/anomalies/run.py
 *
 *   KVT_FAIL=KIND:N        the Nth call of the kind fails, the others do as they should; N 0: none
 *       malloc             malloc, calloc, realloc, aligned_alloc, posix_memalign; those that
 *                          libraries make which do not survive it (below) are neither counted nor
 *                          failed
 *       map                mmap of memory
 *       open read write fsync close rename ftruncate lock   files other than the standard streams,
 *                          through descriptors and through fopen
 *       h5                 a call of HDF5 by the program (failing_hdf5.c)
 *   KVT_FAIL_PATHS=1       only the first call of each path through the program is counted: calls
 *                          whose 12 callers are the same are one path
 *   KVT_SPACE=N            the first N bytes that are written find room; then the disk is full
 *   KVT_CLOCK=SEED         the monotonic clock jumps, by up to ten seconds, forwards and backwards
 *   KVT_FAIL_REPORT=FILE   at the end: the number of calls that were counted, and a line with
 *                          offset and length for each write
 *
 * A write that finds no room for all of its bytes writes as many as there is room for, as the
 * system does; the next one gets ENOSPC. A call of close closes, whatever it says, and fails for
 * others than those libraries. After main and what it left for exit no call fails: then the counts
 * of a coverage build are written.
 */
#define _GNU_SOURCE
#include "tests/anomalies/failing.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WRITES_MAX 65536

static atomic_long calls, space_used, write_count;
static struct {
    long offset, bytes;
} writes[WRITES_MAX];

#define PATHS_MAX 65536 /* a power of two */

/* Whether no call before had these callers. Where two paths have one hash, the second is missed. */
static bool is_new_path(void)
{
    static _Atomic uint64_t seen[PATHS_MAX];
    void *callers[12];
    int count = backtrace(callers, 12);
    uint64_t hash = 1;
    for (int i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)callers[i]) * UINT64_C(0x9e3779b97f4a7c15);
    hash |= 1;
    for (size_t i = hash >> 48, tries = 0; tries < PATHS_MAX; i++, tries++) {
        uint64_t there = 0;
        _Atomic uint64_t *place = &seen[i % PATHS_MAX];
        if (atomic_compare_exchange_strong(place, &there, hash))
            return true;
        if (there == hash)
            return false;
    }
    return false;
}

/* Before main the loader and the libraries set themselves up, some of which crash without memory.
 */
static bool started, ended;

bool fails(const char *kind)
{
    const char *what = ended ? NULL : getenv("KVT_FAIL");
    size_t length = strlen(kind);
    if (what == NULL || strncmp(what, kind, length) != 0 || what[length] != ':')
        return false;
    if (getenv("KVT_FAIL_PATHS") != NULL && !is_new_path())
        return false;
    return atomic_fetch_add(&calls, 1) + 1 == strtol(what + length + 1, NULL, 10);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("KVT_FAIL_REPORT");
    int file = path != NULL ? NEXT(open)(path, O_CREAT | O_WRONLY | O_TRUNC, 0600) : -1;
    if (file < 0)
        return;
    long count = write_count < WRITES_MAX ? write_count : WRITES_MAX;
    dprintf(file, "%ld\n", (long)calls);
    for (long i = 0; i < count; i++)
        dprintf(file, "%ld %ld\n", writes[i].offset, writes[i].bytes);
    NEXT(close)(file);
}

/* ---- memory ---- */

/* glibc's own names: NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
int __libc_start_main(int (*main)(int, char **, char **), int count, char **words,
                      void (*first)(void), void (*last)(void), void (*at_exit)(void), void *stack);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static int (*program)(int, char **, char **);

static void end(void)
{
    ended = true;
}

/* What is registered first is called last. backtrace allocates when it is called first. */
static int start(int count, char **words, char **environment)
{
    void *caller;
    atexit(end);
    backtrace(&caller, 1);
    started = true;
    return program(count, words, environment);
}

/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): likewise */
int __libc_start_main(int (*main)(int, char **, char **), int count, char **words,
                      void (*first)(void), void (*last)(void), void (*at_exit)(void), void *stack)
{
    program = main;
    return NEXT(__libc_start_main)(start, count, words, first, last, at_exit, stack);
}

/* HDF5 1.10.8 crashes without memory, in its set-up and when it closes a file, and when the close
 * of a file that it read fails; the OpenMP runtime says "Out of memory" and ends the program with
 * 1; the loader has its own words. */
static bool is_fragile(const void *caller)
{
    static const char *const libraries[] = {"/libhdf5", "/libgomp", "/ld-linux", "/libsz",
                                            "/libomp"};
    Dl_info info;
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL)
        return false;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strstr(info.dli_fname, libraries[i]) != NULL)
            return true;
    return false;
}

/* dladdr may allocate: what it asks for is given. */
static bool memory_fails(const void *caller)
{
    static _Thread_local bool inside;
    const char *what = inside || !started || ended ? NULL : getenv("KVT_FAIL");
    if (what == NULL || strncmp(what, "malloc:", 7) != 0)
        return false;
    inside = true;
    bool result = !is_fragile(caller) && fails("malloc");
    inside = false;
    if (result)
        errno = ENOMEM;
    return result;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t bytes)
{
    return memory_fails(CALLER) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return memory_fails(CALLER) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return memory_fails(CALLER) ? NULL : __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memory_fails(CALLER) ? NULL : __libc_memalign(alignment, bytes);
}

/* The C library calls its own malloc, so that the caller would not be known. */
char *strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = memory_fails(CALLER) ? NULL : __libc_malloc(bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    void *got = memory_fails(CALLER) ? NULL : __libc_memalign(alignment, bytes);
    if (got == NULL)
        return ENOMEM;
    *block = got;
    return 0;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if ((flags & MAP_ANONYMOUS) == 0 || !fails("map"))
        return NEXT(mmap)(at, bytes, protection, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* ---- files ---- */

static bool file_fails(const char *kind, int file, int code)
{
    if ((file >= 0 && file <= 2) || !fails(kind))
        return false;
    errno = code;
    return true;
}

/* How many of the bytes there is room for; 0 where KVT_SPACE is none: all. */
static size_t room_for(int file, long offset, size_t bytes)
{
    const char *space = getenv("KVT_SPACE");
    if (file <= 2 || ended)
        return bytes;
    long at = atomic_fetch_add(&write_count, 1);
    if (at < WRITES_MAX)
        writes[at].offset = offset, writes[at].bytes = (long)bytes;
    if (space == NULL)
        return bytes;
    long left = strtol(space, NULL, 10) - atomic_fetch_add(&space_used, (long)bytes);
    return left <= 0 ? 0 : (size_t)left < bytes ? (size_t)left : bytes;
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return file_fails("open", -1, EIO) ? -1 : NEXT(open)(path, flags, mode);
}

ssize_t read(int file, void *bytes, size_t count)
{
    return file_fails("read", file, EIO) ? -1 : NEXT(read)(file, bytes, count);
}

ssize_t write(int file, const void *bytes, size_t count)
{
    size_t room = room_for(file, (long)lseek(file, 0, SEEK_CUR), count);
    if (file_fails("write", file, ENOSPC))
        return -1;
    if (room > 0 || count == 0)
        return NEXT(write)(file, bytes, room);
    errno = ENOSPC;
    return -1;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at)
{
    size_t room = room_for(file, (long)at, count);
    if (file_fails("write", file, ENOSPC))
        return -1;
    if (room > 0 || count == 0)
        return NEXT(pwrite)(file, bytes, room, at);
    errno = ENOSPC;
    return -1;
}

int close(int file)
{
    int result = NEXT(close)(file);
    return !is_fragile(CALLER) && file_fails("close", file, EIO) ? -1 : result;
}

int rename(const char *from, const char *to)
{
    return file_fails("rename", -1, EIO) ? -1 : NEXT(rename)(from, to);
}

int fsync(int file)
{
    return file_fails("fsync", file, EIO) ? -1 : NEXT(fsync)(file);
}

int ftruncate(int file, off_t bytes)
{
    return file_fails("ftruncate", file, EIO) ? -1 : NEXT(ftruncate)(file, bytes);
}

int flock(int file, int operation)
{
    return file_fails("lock", file, ENOLCK) ? -1 : NEXT(flock)(file, operation);
}

int fcntl(int file, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    bool locks = command == F_SETLK || command == F_SETLKW;
    return locks && file_fails("lock", file, ENOLCK) ? -1 : NEXT(fcntl)(file, command, argument);
}

/* Streams of the C library call the system themselves, so those here are made of the calls above.
 */
static ssize_t stream_read(void *cookie, char *bytes, size_t count)
{
    return read((int)(intptr_t)cookie, bytes, count);
}

static ssize_t stream_write(void *cookie, const char *bytes, size_t count)
{
    size_t done = 0;
    while (done < count) {
        ssize_t wrote = write((int)(intptr_t)cookie, bytes + done, count - done);
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    return (ssize_t)done;
}

static int stream_close(void *cookie)
{
    return close((int)(intptr_t)cookie);
}

static FILE *stream_of(int file, const char *mode)
{
    const cookie_io_functions_t functions = {
        .read = stream_read, .write = stream_write, .close = stream_close};
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a cookie is any word; nobody follows it */
    return file < 0 ? NULL : fopencookie((void *)(intptr_t)file, mode, functions);
}

FILE *fopen(const char *path, const char *mode)
{
    int flags = mode[0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    return stream_of(open(path, flags, 0666), mode);
}

FILE *fdopen(int file, const char *mode)
{
    if (ended)
        return NEXT(fdopen)(file, mode);
    return file_fails("open", file, ENOMEM) ? NULL : stream_of(file, mode);
}

/* ---- time ---- */

/* One call in eight jumps; what it jumped by stays. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t state;
    static int64_t shift;
    int result = NEXT(clock_gettime)(clock, now);
    const char *seed = getenv("KVT_CLOCK");
    if (result != 0 || seed == NULL)
        return result;
    pthread_mutex_lock(&lock);
    if (state == 0)
        state = strtoull(seed, NULL, 10) * 2 + 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    if (state >> 61 == 0)
        shift = (int64_t)(state >> 20) % INT64_C(20000000000) - INT64_C(10000000000);
    int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + shift;
    pthread_mutex_unlock(&lock);
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}
