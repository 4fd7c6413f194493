#include "tests/fuzz/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/assert.h"

static char path[64];

static void place_remove(void)
{
    unlink(path);
}

static int place_open(void)
{
    static int file = -1;
    if (file >= 0)
        return file;
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, sizeof path, "%s/kvtwin-fuzz-%ld.yaml", folder, (long)getpid());
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    kvt_assert(file >= 0);
    atexit(place_remove);
    return file;
}

const char *place_bytes(const void *bytes, size_t count)
{
    int file = place_open();
    kvt_assert(ftruncate(file, (off_t)count) == 0);
    kvt_assert(pwrite(file, bytes, count, 0) == (ssize_t)count);
    return path;
}

void place_catalogue(void)
{
    kvt_assert(setenv("KVTWIN_DATA", "tests/fuzz/data", 1) == 0);
}
