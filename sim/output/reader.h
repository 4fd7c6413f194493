/*
 * reader.h - run files read back: what comparing two runs and a report need
 *
 * A file that is missing or unreadable is a KVT_EIO; one that is no HDF5 file, is cut short, was
 * not written by kvtwin or has another layout is a KVT_ECONFIG that says which. Only what is asked
 * for is read: a log of any length is compared block by block.
 */
#ifndef KVT_OUTPUT_READER_H
#define KVT_OUTPUT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/decision.h"
#include "sim/base/status.h"

struct kvt_run_reader {
    const char *path;  /* borrowed */
    int64_t file;      /* hid_t, or 0 */
    int64_t decisions; /* hid_t of /decisions, or 0 when the run was not logged */
    int64_t decision_count;
    char *names_text;   /* owned; names point into it */
    const char **names; /* of the replicas; owned */
    int32_t name_count;
    enum kvt_status unread; /* not KVT_OK: _has or _text could not look, what they say is not there
                               may be there (KVT_ECONFIG), or had no memory (KVT_ENOMEM) */
};

/* One attribute: a number or a text. */
struct kvt_stored_value {
    char name[64];
    bool is_text;
    double number;
    char text[128]; /* of a text; cut when longer */
};

#define KVT_STORED_MAX 640 /* each metric and both ends of its interval */

/* The attributes of a group, as they were written. Large (130 KiB): keep it off stacks. */
struct kvt_stored {
    int32_t count;
    struct kvt_stored_value values[KVT_STORED_MAX];
};

/* The number or text of that name; NaN, "" where there is none. */
double kvt_stored_number(const struct kvt_stored *stored, const char *name);
const char *kvt_stored_text(const struct kvt_stored *stored, const char *name);

enum kvt_status kvt_run_reader_open(struct kvt_run_reader *reader, const char *path,
                                    struct kvt_err *err);
void kvt_run_reader_close(struct kvt_run_reader *reader);

/* Records first..first+count-1 of the log. */
enum kvt_status kvt_run_reader_decisions(struct kvt_run_reader *reader, int64_t first,
                                         int64_t count, struct kvt_decision out[],
                                         struct kvt_err *err);

/* The attributes of a group ("summary", "meta"); KVT_ECONFIG for more than KVT_STORED_MAX. */
enum kvt_status kvt_run_reader_values(struct kvt_run_reader *reader, const char *group,
                                      struct kvt_stored *out, struct kvt_err *err);

/* Whether there is a group or dataset at this path ("link", "memory/decode"). */
bool kvt_run_reader_has(struct kvt_run_reader *reader, const char *path);

/* All numbers of a dataset ("requests/arrival") as doubles, row by row; malloc'ed, NULL after a
 * failure. Integers beyond 2^53 are rounded. */
enum kvt_status kvt_run_reader_column(struct kvt_run_reader *reader, const char *path, double **out,
                                      int64_t *count, struct kvt_err *err);

/* The effective configuration of the run; malloc'ed. */
enum kvt_status kvt_run_reader_config(struct kvt_run_reader *reader, char **text,
                                      struct kvt_err *err);

/* A text attribute of any length of the object at path; malloc'ed, NULL when there is none. */
char *kvt_run_reader_text(struct kvt_run_reader *reader, const char *path, const char *name);

#define KVT_NAMES_MAX 512 /* columns of a group */

/* The columns of a group by name: a list of malloc'ed names, in a malloc'ed array; none where there
 * is no such group. *out is to be freed after a failure too. */
enum kvt_status kvt_run_reader_names(struct kvt_run_reader *reader, const char *group, char ***out,
                                     int32_t *count, struct kvt_err *err);

/* ---- files of sweeps, searches and campaigns ---- */

/* Open any file of kvtwin's; kind is "sweep", "plan", "faults", or "" for that of a run, of which
 * only the functions below may then be asked. Close it as a run's. */
enum kvt_status kvt_points_reader_open(struct kvt_run_reader *reader, const char *path,
                                       char kind[16], struct kvt_err *err);

/* All texts of a dataset, *width bytes each with their zero byte; malloc'ed, NULL after a
 * failure. */
enum kvt_status kvt_points_reader_texts(struct kvt_run_reader *reader, const char *path, char **out,
                                        size_t *width, int64_t *count, struct kvt_err *err);

/* Which job the file belongs to (journal.h); malloc'ed. KVT_ECONFIG where it does not say. */
enum kvt_status kvt_points_reader_identity(struct kvt_run_reader *reader, char **text,
                                           struct kvt_err *err);

#endif
