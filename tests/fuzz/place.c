#include "tests/fuzz/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

char *place_text(const char *head, const void *bytes, size_t count)
{
    size_t ahead = strlen(head);
    char *text = malloc(ahead + count + 1);
    kvt_assert(text != NULL);
    memcpy(text, head, ahead);
    if (count > 0)
        memcpy(text + ahead, bytes, count);
    text[ahead + count] = '\0';
    return text;
}

int32_t place_lines(char *text, const char *lines[], int32_t most)
{
    int32_t count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && count < most;
         line = strtok_r(NULL, "\n", &rest))
        lines[count++] = line;
    return count;
}

void place_catalogue(void)
{
    static bool is_set;
    if (!is_set)
        kvt_assert(setenv("KVTWIN_DATA", "tests/fuzz/data", 1) == 0);
    is_set = true;
}
