/*
 * sweep_files.h - the journals of a sweep, by the name of its output (sweep.c, sweep_files.c)
 */
#ifndef KVT_PLAN_SWEEP_FILES_H
#define KVT_PLAN_SWEEP_FILES_H

#include "sim/output/journal.h"

/* OUT.journal.R into path. */
enum kvt_status kvt_sweep_journal_path(const char *output, int32_t rank, char *path, size_t bytes,
                                       struct kvt_err *err);

/* Call each for every journal of output that there is, of any rank. */
enum kvt_status kvt_sweep_journals(const char *output,
                                   enum kvt_status (*each)(void *context, const char *path,
                                                           struct kvt_err *err),
                                   void *context, struct kvt_err *err);

/* For kvt_sweep_journals: read the journal at path. */
struct kvt_sweep_reading {
    const char *identity;
    kvt_journal_reader *record;
    void *context;
};
enum kvt_status kvt_sweep_read_journal(void *context, const char *path, struct kvt_err *err);

#endif
