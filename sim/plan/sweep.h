/*
 * sweep.h - every point of a config's domains, on all threads of one machine or of many
 *
 * Points are handed out in their order (points.h), to other ranks up to 16 at a time, one by one
 * towards the end; each is written to a journal as soon as it is done, so that a sweep which was
 * killed goes on where it stopped. What comes out depends neither on who computed a point nor on
 * when: rank 0 keeps one row per point and writes one file.
 *
 *     OUT.journal.R   what rank R finished (journal.h); removed once OUT is complete
 *
 * A point that cannot be run has its message in its row and stops no other; a failure of memory or
 * of a file ends the sweep, and the same command goes on from its journals.
 */
#ifndef KVT_PLAN_SWEEP_H
#define KVT_PLAN_SWEEP_H

#include "sim/base/tell.h"
#include "sim/plan/point.h"
#include "sim/plan/ranks.h"

#define KVT_SWEEP_LAYOUT 1

struct kvt_sweep_options {
    const char *output; /* the file that will be written; NULL: no journal, nothing to resume */
    int32_t threads;    /* of this rank; 0: as OpenMP has */
    int32_t resamples;
    const struct kvt_stop *stop; /* NULL: never */
    struct kvt_tell tell;
};

/* Rows by point; rank 0 alone has them. */
struct kvt_sweep {
    const struct kvt_points *points; /* borrowed */
    struct kvt_point_columns columns;
    int32_t resamples;
    int64_t count, done_count, resumed, failed; /* points; resumed of them came from journals */
    bool *done;                                 /* [count] owned, as all below */
    int64_t *status;
    uint64_t *digest;
    char **message; /* NULL where status is KVT_OK */
    double *values; /* [columns][count] */
    char *identity; /* what makes records of two runs interchangeable, a line each */
};

/* Run every point. Each rank of ranks calls this. KVT_EINTR when stopped: journals are kept.
 * KVT_ECONFIG when a journal, or a finished file, belongs to another job. Release in any case. */
enum kvt_status kvt_sweep_run(struct kvt_sweep *sweep, const struct kvt_points *points,
                              struct kvt_ranks *ranks, const struct kvt_sweep_options *options,
                              struct kvt_err *err);
void kvt_sweep_release(struct kvt_sweep *sweep);

/* Rank 0: write the sweep to path, HDF5 layout 1 (items of h5_items.h), and remove its journals.
 *   /            layout, program, kind = "sweep"; config: one string
 *   /settings/   a string per point under the path of each domain: the choice
 *   /points/     status (0, or the exit code that `simulate` would have), message, digest (hex)
 *   /metrics/    a float64 per point under the name of each column; NaN where there is none
 *   /meta        seed, version, points, failed, identity */
enum kvt_status kvt_sweep_write(const struct kvt_sweep *sweep, const char *path,
                                struct kvt_err *err);

static inline double kvt_sweep_value(const struct kvt_sweep *sweep, int32_t column, int64_t point)
{
    return sweep->values[(int64_t)column * sweep->count + point];
}

#endif
