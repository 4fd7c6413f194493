#include "sim/output/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/base/assert.h"

#define IDENTITY_KEY INT64_C(-1)

static const char magic[8] = {'K', 'V', 'T', 'J', 'R', 'N', 'L', '1'};

struct head {
    uint32_t bytes, crc; /* of the contents; of key and contents */
    int64_t key;
};

static uint32_t crc_of(int64_t key, const void *bytes, size_t count)
{
    uLong crc = crc32(0, (const Bytef *)&key, sizeof key);
    return (uint32_t)(count > 0 ? crc32(crc, bytes, (uInt)count) : crc);
}

static struct kvt_where at(const char *path)
{
    return (struct kvt_where){.file = path};
}

/* Read count bytes, or as many as there are; -1 on an error. */
static ssize_t read_all(int file, void *bytes, size_t count)
{
    size_t done = 0;
    while (done < count) {
        ssize_t got = read(file, (char *)bytes + done, count - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static enum kvt_status write_all(int file, const char *path, const void *bytes, size_t count,
                                 struct kvt_err *err)
{
    size_t done = 0;
    while (done < count) {
        ssize_t put = write(file, (const char *)bytes + done, count - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return kvt_err_at(err, KVT_EIO, at(path), "cannot write: %s", strerror(errno));
        done += (size_t)put;
    }
    return KVT_OK;
}

enum kvt_status kvt_journal_refuse(const char *path, const char *found, const char *wanted,
                                   struct kvt_err *err)
{
    size_t line = 0;
    for (size_t i = 0; found[i] == wanted[i] && found[i] != '\0'; i++)
        line = found[i] == '\n' ? i + 1 : line;
    int got = (int)strcspn(found + line, "\n"), want = (int)strcspn(wanted + line, "\n");
    return kvt_err_at(
        err, KVT_ECONFIG, at(path),
        "belongs to another job: want \"%.*s\", got \"%.*s\"; remove the file to begin "
        "anew, or name another output",
        want, wanted + line, got, found + line);
}

/* The next whole block into *contents, which grows; false at the end, where one is cut off, and
 * when *status says that there may be more. */
static bool next_block(int file, const char *path, struct head *head, char **contents, size_t *room,
                       enum kvt_status *status, struct kvt_err *err)
{
    ssize_t got = read_all(file, head, sizeof *head);
    if (got == (ssize_t)sizeof *head &&
        (head->bytes > KVT_JOURNAL_BYTES_MAX || head->key < IDENTITY_KEY))
        return false;
    if (got == (ssize_t)sizeof *head && head->bytes + (size_t)1 > *room) {
        char *grown = realloc(*contents, head->bytes + (size_t)1);
        if (grown == NULL) {
            *status = kvt_err_set(err, KVT_ENOMEM, "%s: no memory to read it", path);
            return false;
        }
        *contents = grown;
        *room = head->bytes + (size_t)1;
    }
    bool whole = got == (ssize_t)sizeof *head;
    if (whole) {
        (*contents)[head->bytes] = '\0';
        got = read_all(file, *contents, head->bytes);
        whole = got == (ssize_t)head->bytes;
    }
    if (got < 0)
        *status = kvt_err_at(err, KVT_EIO, at(path), "cannot read: %s", strerror(errno));
    return whole && crc_of(head->key, *contents, head->bytes) == head->crc;
}

/* Walk over the file; *end is where the whole records end. Empty files have no records. */
static enum kvt_status walk(int file, const char *path, const char *identity,
                            kvt_journal_reader *each, void *context, off_t *end,
                            struct kvt_err *err)
{
    char found[sizeof magic];
    *end = 0;
    ssize_t got = read_all(file, found, sizeof found);
    if (got < 0)
        return kvt_err_at(err, KVT_EIO, at(path), "cannot read: %s", strerror(errno));
    if (memcmp(found, magic, (size_t)got) != 0)
        return kvt_err_at(err, KVT_ECONFIG, at(path), "want a journal, got another kind of file");
    struct head head;
    char *contents = NULL;
    size_t room = 0;
    enum kvt_status status = KVT_OK;
    while (got == (ssize_t)sizeof magic && status == KVT_OK &&
           next_block(file, path, &head, &contents, &room, &status, err)) {
        if (head.key == IDENTITY_KEY && strcmp(contents, identity) != 0)
            status = kvt_journal_refuse(path, contents, identity, err);
        else if (head.key != IDENTITY_KEY && each != NULL)
            status = each(context, head.key, contents, head.bytes, err);
        *end = lseek(file, 0, SEEK_CUR);
    }
    free(contents);
    return status;
}

static enum kvt_status append(int file, const char *path, int64_t key, const void *bytes,
                              size_t count, struct kvt_err *err)
{
    char small[1024];
    size_t whole = sizeof(struct head) + count;
    char *block = whole <= sizeof small ? small : malloc(whole);
    if (block == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory for a record", path);
    struct head head = {.bytes = (uint32_t)count, .crc = crc_of(key, bytes, count), .key = key};
    memcpy(block, &head, sizeof head);
    if (count > 0)
        memcpy(block + sizeof head, bytes, count);
    enum kvt_status status = write_all(file, path, block, whole, err);
    if (block != small)
        free(block);
    return status;
}

/* Lock the file for this process, and for as long as it lives. */
static enum kvt_status lock(int file, const char *path, struct kvt_err *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_SETLK, &whole) == 0)
        return KVT_OK;
    return kvt_err_at(err, KVT_EIO, at(path), "another process writes this journal (%s)",
                      strerror(errno));
}

static enum kvt_status prepare(const struct kvt_journal *journal, const char *identity,
                               kvt_journal_reader *each, void *context, struct kvt_err *err)
{
    const char *path = journal->path;
    off_t end;
    KVT_TRY(lock(journal->file, path, err));
    KVT_TRY(walk(journal->file, path, identity, each, context, &end, err));
    if (ftruncate(journal->file, end) != 0 || lseek(journal->file, end, SEEK_SET) != end)
        return kvt_err_at(err, KVT_EIO, at(path), "cannot cut off a partial record: %s",
                          strerror(errno));
    if (end > 0)
        return KVT_OK;
    KVT_TRY(write_all(journal->file, path, magic, sizeof magic, err));
    return append(journal->file, path, IDENTITY_KEY, identity, strlen(identity), err);
}

enum kvt_status kvt_journal_open(struct kvt_journal *journal, const char *path,
                                 const char *identity, kvt_journal_reader *each, void *context,
                                 struct kvt_err *err)
{
    *journal = (struct kvt_journal){.path = strdup(path), .file = -1};
    if (journal->path == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory for a journal", path);
    journal->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    enum kvt_status status;
    if (journal->file < 0)
        status = kvt_err_at(err, KVT_EIO, at(path), "cannot open: %s", strerror(errno));
    else
        status = prepare(journal, identity, each, context, err);
    if (status != KVT_OK)
        kvt_journal_close(journal);
    return status;
}

enum kvt_status kvt_journal_read(const char *path, const char *identity, kvt_journal_reader *each,
                                 void *context, struct kvt_err *err)
{
    off_t end;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return kvt_err_at(err, KVT_EIO, at(path), "cannot open: %s", strerror(errno));
    enum kvt_status status = walk(file, path, identity, each, context, &end, err);
    close(file);
    return status;
}

enum kvt_status kvt_journal_append(struct kvt_journal *journal, int64_t key, const void *bytes,
                                   size_t count, struct kvt_err *err)
{
    kvt_assert(journal->file >= 0);
    kvt_assert(key >= 0);
    kvt_assert(count <= KVT_JOURNAL_BYTES_MAX);
    return append(journal->file, journal->path, key, bytes, count, err);
}

void kvt_journal_close(struct kvt_journal *journal)
{
    if (journal->file >= 0)
        close(journal->file);
    free(journal->path);
    *journal = (struct kvt_journal){.file = -1};
}
