/*
 * journal.h - what a long job has finished so far, in a file that survives a kill
 *
 * A journal belongs to one job, which its identity names (program version, seed, a hash of the
 * config ...: lines of text, equal only for jobs whose records may be mixed). A record is a key and
 * some bytes; each goes to the file in one write as soon as its work is done. Opening the journal
 * again gives back every whole record in the order of writing; a record that was cut off by a kill
 * is dropped and overwritten. A journal of another identity is refused with the first line that
 * differs. One process writes a journal at a time (a lock that the system drops with the process).
 *
 * File: "KVTJRNL1", then blocks of { uint32 bytes, uint32 crc32 of what follows, int64 key, bytes
 * }. The first block has key -1 and is the identity. All numbers as in memory, so a journal stays
 * on machines of one kind. Nothing is flushed to the disk: a journal outlives its process, but not
 * a power cut.
 */
#ifndef KVT_OUTPUT_JOURNAL_H
#define KVT_OUTPUT_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

#define KVT_JOURNAL_BYTES_MAX ((uint32_t)1 << 24) /* of one record */

struct kvt_journal {
    char *path; /* owned */
    int file;   /* descriptor; -1 when closed */
};

/* Told of each whole record; bytes are only valid during the call. Not KVT_OK: reading ends. */
typedef enum kvt_status kvt_journal_reader(void *context, int64_t key, const void *bytes,
                                           size_t count, struct kvt_err *err);

/* KVT_ECONFIG that says in which line the identity found at path differs from the one wanted. */
enum kvt_status kvt_journal_refuse(const char *path, const char *found, const char *wanted,
                                   struct kvt_err *err);

/* Open the journal at path for appending, making it when it is not there; each, which may be NULL,
 * is told of what it holds. KVT_ECONFIG for another job's or what is no journal, KVT_EIO when it
 * cannot be written or another process writes it. */
enum kvt_status kvt_journal_open(struct kvt_journal *journal, const char *path,
                                 const char *identity, kvt_journal_reader *each, void *context,
                                 struct kvt_err *err);

/* The same for reading alone: path must be there. */
enum kvt_status kvt_journal_read(const char *path, const char *identity, kvt_journal_reader *each,
                                 void *context, struct kvt_err *err);

/* Add one record, key >= 0. One thread at a time. KVT_EIO on a full disk: what was cut off will be
 * dropped by the next opening. */
enum kvt_status kvt_journal_append(struct kvt_journal *journal, int64_t key, const void *bytes,
                                   size_t count, struct kvt_err *err);

/* Safe on a closed one, of which file is -1. */
void kvt_journal_close(struct kvt_journal *journal);

#endif
