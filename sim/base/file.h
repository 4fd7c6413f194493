/*
 * file.h - whole files in, and outputs that appear only when they are complete
 *
 * An output is written to a temporary file in the folder of its final name, PATH.tmp.kvtwin,
 * flushed to the disk, and renamed: a reader sees the old file or the new one, never a part.
 * Whatever fails on the way (a full disk, a read-only folder) is a KVT_EIO that names the path, and
 * the temporary is removed. It is locked (flock) for as long as it is written: a second run with
 * the same output is refused, and what a killed run left is overwritten by the next one. Where the
 * file system has no locks there is no such refusal.
 */
#ifndef KVT_BASE_FILE_H
#define KVT_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "sim/base/status.h"

/* The bytes of a file, plain or gzip, without the byte order mark that it may begin with, and one
 * zero byte after them. Free with kvt_text_free. Files over limit bytes (decompressed) are a
 * KVT_ELIMIT. */
struct kvt_text {
    char *bytes; /* owned */
    size_t count;
};

enum kvt_status kvt_text_read(const char *path, size_t limit, struct kvt_text *text,
                              struct kvt_err *err);
enum kvt_status kvt_stdin_read(size_t limit, struct kvt_text *text, struct kvt_err *err);
void kvt_text_free(struct kvt_text *text);

/* From now on what kvt_text_read has read is refused as an output of this process, and an output
 * that is on its way as something to read (KVT_EUSAGE): it would be lost. Off at first, as tests
 * write what they have read; each call forgets what was read before. Any thread may read. */
void kvt_inputs_guard(bool on);

/* An output on its way. Libraries that open files themselves (HDF5) write to temp_path. */
struct kvt_output {
    char *path, *temp_path; /* owned; both NULL when closed */
    FILE *stream;           /* owned; NULL: none was asked for */
    int lock;               /* descriptor of the temporary while temp_path is there */
};

/* A link at path stays and its target is replaced. KVT_EUSAGE for a guarded input, KVT_EIO for a
 * folder, a device, the file that is standard output or error, and for what is already an output of
 * this run or of another. */
enum kvt_status kvt_output_begin(struct kvt_output *output, const char *path, struct kvt_err *err);

/* A stream onto the temporary, which _commit and _abandon close; NULL, with err set, when there can
 * be none. Writes to it need no check: the commit tells those that failed. */
FILE *kvt_output_stream(struct kvt_output *output, struct kvt_err *err);

/* Begin, and a stream onto the temporary; nothing is left after a failure. */
enum kvt_status kvt_output_open(struct kvt_output *output, const char *path, FILE **stream,
                                struct kvt_err *err);

/* Why a write just failed: KVT_EIO with the path and the words of errno. */
enum kvt_status kvt_output_failed(const struct kvt_output *output, struct kvt_err *err);

/* Close the stream, fsync the temporary and give it the final name. On failure it is removed. */
enum kvt_status kvt_output_commit(struct kvt_output *output, struct kvt_err *err);

/* Remove the temporary, if any. Safe after a commit and on a zeroed struct. */
void kvt_output_abandon(struct kvt_output *output);

/* Remove every temporary still open; for the exit path of a signal. */
void kvt_output_abandon_all(void);

/* A stream into memory: *text is malloc'ed, ends with a zero byte beyond its *count bytes, and is
 * the caller's to free once the stream is closed. NULL, and *text of NULL, without memory. (What
 * open_memstream of glibc has no room for is lost without a sign.) */
FILE *kvt_memory_open(char **text, size_t *count);

/* Close it; whether the text is whole. Without memory for a write it is not: it is freed, and *text
 * NULL. */
bool kvt_memory_close(FILE *memory, char **text);

/* Write all of text to path as one output. */
enum kvt_status kvt_file_write(const char *path, const char *text, size_t count,
                               struct kvt_err *err);

/* Whether both paths lead to one file that is there. */
bool kvt_file_is_same(const char *a, const char *b);

/* folder + "/" + path, or path alone when it is absolute or folder is empty; malloc'ed. */
char *kvt_path_join(const char *folder, const char *path);

/* The folder of path ("" for a bare name); malloc'ed. And the name in it; borrowed from path. */
char *kvt_path_folder(const char *path);
const char *kvt_path_name(const char *path);

/* Where kvtwin's own configs/ lie: $KVTWIN_DATA, else beside the program, else the installed
 * place. Borrowed, constant. */
const char *kvt_data_folder(void);

/* Paths of the files in folder whose names end in suffix, no hidden ones, sorted, into
 * files[0..*count-1], at most `most`; malloc'ed each. KVT_EIO where it cannot be read, KVT_ENOMEM;
 * then *count is 0. */
enum kvt_status kvt_folder_files(const char *folder, const char *suffix, char *files[],
                                 int32_t most, int32_t *count, struct kvt_err *err);

/* The same of the .yaml files in configs/KIND of the data folder. */
enum kvt_status kvt_shipped_files(const char *kind, char *files[], int32_t most, int32_t *count,
                                  struct kvt_err *err);

#endif
