/*
 * point.h - what one point of a sweep or a search says: a row of numbers under fixed names
 *
 * The columns of a job are listed before anything runs, from its config alone, so that all points
 * have the same ones in the same order, whoever computes them: the metrics of summary.h, then for
 * each role <role>_busy_fraction (of the time to the last event, mean over its replicas) and
 * <role>_pages_peak_fraction (of its fullest replica). With resamples a metric that has an interval
 * is followed by _low and _high, and slo_confidence is the share of the resamples that meet the
 * SLO.
 *
 * A point that cannot be run has a status, a message and NaN in every column. What is no answer
 * about the point (memory, a file or a device that fails, an interrupt) ends the job instead.
 */
#ifndef KVT_PLAN_POINT_H
#define KVT_PLAN_POINT_H

#include <stdbool.h>

#include "sim/base/stop.h"
#include "sim/plan/evaluate.h"
#include "sim/plan/points.h"

#define KVT_POINT_COLUMNS_MAX 256
#define KVT_POINT_MESSAGE     400 /* bytes of a message, with its zero byte; the rest is cut */

struct kvt_point_columns {
    int32_t count;
    char names[KVT_POINT_COLUMNS_MAX][56];
};

struct kvt_point {
    enum kvt_status status; /* KVT_OK, or why it could not be run */
    uint64_t digest;        /* of the run */
    double *values;         /* [columns]; NaN where it has none. Owned by whoever made the point */
    char message[KVT_POINT_MESSAGE]; /* "" when status is KVT_OK */
};

/* Whether a failure is no answer about a point: memory, a file, a device, an interrupt. */
bool kvt_point_ends_the_job(enum kvt_status status);

/* The columns of points, for so many resamples. Percentiles of the SLO are those of the config and
 * of every choice of a domain below slo. */
enum kvt_status kvt_point_columns_init(struct kvt_point_columns *columns,
                                       const struct kvt_points *points, int32_t resamples,
                                       struct kvt_err *err);

/* The column of that name, or -1. */
int32_t kvt_point_column(const struct kvt_point_columns *columns, const char *name);

/* Fill the row of a run. values[columns->count]; e keeps what it has. */
void kvt_point_values(const struct kvt_point_columns *columns, const struct kvt_evaluation *e,
                      double values[]);

/* Run one point as `simulate` would, and its resamples; point->values has room for the columns.
 * What is wrong with the point itself (its config, its layout, its limits) goes into point; other
 * failures end the job. stop may be NULL. */
enum kvt_status kvt_point_run(struct kvt_point *point, const struct kvt_points *points,
                              int64_t number, const struct kvt_point_columns *columns,
                              int32_t resamples, const struct kvt_stop *stop, struct kvt_err *err);

/* A point as bytes and back, for journals and other ranks. pack fills out[kvt_point_bytes_max] and
 * returns how many bytes it used; unpack is false for what no pack made with these columns. */
size_t kvt_point_bytes_max(const struct kvt_point_columns *columns);
size_t kvt_point_pack(const struct kvt_point *point, const struct kvt_point_columns *columns,
                      unsigned char *out);
bool kvt_point_unpack(struct kvt_point *point, const struct kvt_point_columns *columns,
                      const unsigned char *bytes, size_t count);

#endif
