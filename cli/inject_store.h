/*
 * inject_store.h - a campaign on disk: a journal while it runs, one HDF5 file at its end
 *
 * FAULTS.h5.journal takes each finished part (sixteen trials of one class under one config) as it
 * ends, so that a campaign that was interrupted or killed goes on where it stopped when the same
 * command is given again, and ends with the same bytes. Another seed, config or estimator is
 * refused by the journal's identity, which the file keeps: a file of another campaign, or of
 * another kind, is never written over. The journal goes when the file is written.
 *
 * Layout of the file: /cells, a row per config, guard and class; /trials, a row per trial, whose
 * `cell` is a row of /cells; /strikes, a row per strike of a plan; /meta with version, seed and
 * identity.
 */
#ifndef KVT_CLI_INJECT_STORE_H
#define KVT_CLI_INJECT_STORE_H

#include "cli/inject.h"
#include "sim/config/config.h"
#include "sim/output/journal.h"

struct kvt_inject_store {
    const char *output; /* path of the file, borrowed; NULL: nothing is kept */
    char *identity;     /* owned */
    struct kvt_journal journal;
    struct kvt_inject_record {
        int64_t key; /* config << 40 | part */
        struct kvt_part part;
    } * records; /* owned; [0, known) by key */
    int64_t count, room, known;
    int64_t trials, resumed; /* in all, after finish; of them, those found in the journal */
    int64_t config;          /* number of the config that is run */
    struct kvt_part_store face;
};

/* Open or make the journal. identity: lines that say whose parts these are. */
enum kvt_status kvt_inject_store_open(struct kvt_inject_store *store, const char *output,
                                      const char *identity, struct kvt_err *err);

/* Write the file and remove the journal. seed of the first config. */
enum kvt_status kvt_inject_store_finish(struct kvt_inject_store *store,
                                        const struct kvt_inject_report *report, uint64_t seed,
                                        struct kvt_err *err);
void kvt_inject_store_close(struct kvt_inject_store *store);

#endif
