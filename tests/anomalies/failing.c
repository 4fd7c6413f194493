/*
 * failing.c - the Nth call of a kind fails: preloaded into a program by tests/anomalies/run.sh
 *
 *   KVT_FAIL=malloc:7        the seventh malloc, calloc or realloc gives NULL (with every one after
 *                            it where the number ends in +)
 *   KVT_FAIL=write:3 rename:1 read:2 fsync:1    likewise, with ENOSPC or EIO
 *   KVT_FAIL_REPORT=FILE     is made when the call was reached
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

static atomic_long calls;

/* Whether this call of the kind is the one. */
static int fails(const char *kind)
{
    const char *what = getenv("KVT_FAIL");
    size_t length = strlen(kind);
    if (what == NULL || strncmp(what, kind, length) != 0 || what[length] != ':')
        return 0;
    char *end;
    long wanted = strtol(what + length + 1, &end, 10), at = atomic_fetch_add(&calls, 1) + 1;
    if (at != wanted && !(*end == '+' && at > wanted))
        return 0;
    const char *report = getenv("KVT_FAIL_REPORT");
    int file = report != NULL ? open(report, O_CREAT | O_WRONLY, 0600) : -1;
    if (file >= 0)
        close(file);
    return 1;
}

void *malloc(size_t bytes)
{
    if (!fails("malloc"))
        return __libc_malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t count, size_t bytes)
{
    if (!fails("malloc"))
        return __libc_calloc(count, bytes);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *block, size_t bytes)
{
    if (!fails("malloc"))
        return __libc_realloc(block, bytes);
    errno = ENOMEM;
    return NULL;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t count)
{
    if (file <= 2 || !fails("write"))
        return NEXT(write)(file, bytes, count);
    errno = ENOSPC;
    return -1;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at)
{
    if (!fails("write"))
        return NEXT(pwrite)(file, bytes, count, at);
    errno = ENOSPC;
    return -1;
}

ssize_t read(int file, void *bytes, size_t count)
{
    if (!fails("read"))
        return NEXT(read)(file, bytes, count);
    errno = EIO;
    return -1;
}

int rename(const char *from, const char *to)
{
    if (!fails("rename"))
        return NEXT(rename)(from, to);
    errno = EIO;
    return -1;
}

int fsync(int file)
{
    if (!fails("fsync"))
        return NEXT(fsync)(file);
    errno = EIO;
    return -1;
}
