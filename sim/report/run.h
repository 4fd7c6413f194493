/*
 * run.h - a run file in memory, as far as a report needs it
 *
 * Columns are doubles (times in ns, -1 for none), series lie on one grid of points per role. What a
 * file of an earlier version lacks (memory, link, faults) is empty. Lengths that do not agree, and
 * a replica or role that the file names but does not hold, are a KVT_ECONFIG; nothing that a file
 * says is used as an index unchecked. 1,000,000 requests take 64 MB.
 */
#ifndef KVT_REPORT_RUN_H
#define KVT_REPORT_RUN_H

#include "sim/output/pairs.h"
#include "sim/output/reader.h"
#include "sim/output/result.h"

enum kvt_report_column {
    KVT_REPORT_ARRIVAL,
    KVT_REPORT_FIRST,
    KVT_REPORT_FINISH,
    KVT_REPORT_INPUT,
    KVT_REPORT_OUTPUT,
    KVT_REPORT_FATE,
    KVT_REPORT_PREEMPTIONS,
    KVT_REPORT_COLUMNS
};

#define KVT_REPORT_ROLES  3
#define KVT_REPORT_GAUGES 3 /* running, waiting, pages: the last as a fraction of the pool */

/* Mean, least and most over the replicas of a role, by point. */
struct kvt_report_gauge {
    double *mean, *low, *high; /* owned, [points] */
};

struct kvt_report_role {
    char name[32];
    int32_t replicas, points;
    double *seconds;   /* owned, [points]: middle of each */
    double *preempted; /* owned, [points]; NULL: an older file, which does not say when */
    struct kvt_report_gauge gauges[KVT_REPORT_GAUGES];
};

struct kvt_report_replica {
    const char *name;
    double pages, pages_peak, steps, preemptions, busy_s;
    double mean[KVT_REPORT_GAUGES]; /* over the run */
};

#define KVT_REPORT_ENTRIES 24

struct kvt_report_memory { /* of one GPU of a role */
    char role[32], gpu[64];
    int32_t replicas, gpus_per_replica, entry_count;
    double memory_bytes;
    struct kvt_report_entry {
        char name[40];
        double bytes;
    } entries[KVT_REPORT_ENTRIES];
};

struct kvt_report_link {
    int32_t points;        /* 0: there is no link */
    double *seconds, *use; /* owned, [points]; use: fraction of what it can carry */
    double bytes, busy_s, bytes_per_s;
};

#define KVT_REPORT_STRIKES 64

struct kvt_report_strike {
    char fault[32], variant[32], outcome[32];
    double time_s, exposed_s, detected_s; /* NaN: not */
    double hit, lost, leaked;
    bool activated;
};

struct kvt_report_run {
    struct kvt_run_reader reader;         /* open */
    struct kvt_stored *summary, *meta;    /* owned */
    struct kvt_stored *part;              /* owned: of the group under way */
    char *title, *model, *fleet, *config; /* owned; config and fleet never NULL */
    int64_t rows;
    double *columns[KVT_REPORT_COLUMNS];  /* owned, [rows] */
    double *histogram[KVT_LATENCY_COUNT]; /* owned; lower edge in ticks and count by turns */
    int64_t bins[KVT_LATENCY_COUNT];
    double end_s, warmup_s;
    int32_t role_count, replica_count, memory_count, strike_count;
    struct kvt_report_role roles[KVT_REPORT_ROLES];
    struct kvt_report_replica *replicas; /* owned */
    struct kvt_report_memory memory[KVT_REPORT_ROLES];
    struct kvt_report_link link;
    struct kvt_report_strike strikes[KVT_REPORT_STRIKES];
    struct kvt_pairs keys; /* of the configuration, side 0 */
};

/* Read the file at path (borrowed). Release in any case. */
enum kvt_status kvt_report_run_read(struct kvt_report_run *run, const char *path,
                                    struct kvt_err *err);
void kvt_report_run_release(struct kvt_report_run *run);

/* A number of the summary ("mean_ttft_ms"); NaN when it has none. */
double kvt_report_metric(const struct kvt_report_run *run, const char *name);

/* A key of the configuration as text, or NULL. */
const char *kvt_report_key(const struct kvt_report_run *run, const char *path);

#endif
