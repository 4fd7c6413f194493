/*
 * metrics.h - what is measured while a run goes on; fed by the engine, never read back by it
 *
 * Histograms have fixed bins (256 a power of two, so a quantile is within 0.2 % of the exact one)
 * over unrounded ticks, and are filled by ranges: k gaps in arithmetic progression cost O(bins
 * touched). A run with macro-steps and one with exact steps fill them identically.
 *
 * A time series has a fixed number of points per replica; when time outgrows them, neighbours merge
 * and each point covers twice as much. It is fed at decisions only.
 */
#ifndef KVT_METRICS_METRICS_H
#define KVT_METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/ticks.h"

#define KVT_BINS_PER_OCTAVE 256
#define KVT_BINS ((63 - 8 + 1) * KVT_BINS_PER_OCTAVE + 256)

struct kvt_histogram {
    uint64_t *bins; /* [KVT_BINS] */
    uint64_t count;
    kvt_i128 sum;
    kvt_ticks min, max;
};

enum kvt_status kvt_histogram_init(struct kvt_histogram *h, struct kvt_arena *arena,
                                   struct kvt_err *err);
int32_t kvt_histogram_bin(kvt_ticks value);
void kvt_histogram_add(struct kvt_histogram *h, kvt_ticks value, uint64_t count);

/* Add `count` times each of the `terms` values first, first + step, ...; step >= 0. */
void kvt_histogram_add_progression(struct kvt_histogram *h, kvt_ticks first, int64_t step,
                                   int64_t terms, uint64_t count);

/* Value at quantile q in [0, 1], linear within its bin; mean; both in ticks. 0 when empty. */
double kvt_histogram_quantile(const struct kvt_histogram *h, double q);
double kvt_histogram_mean(const struct kvt_histogram *h);

enum kvt_gauge { KVT_GAUGE_RUNNING, KVT_GAUGE_WAITING, KVT_GAUGE_PAGES, KVT_GAUGE_COUNT };

struct kvt_series {          /* one per replica */
    int32_t points, used;    /* points is even */
    kvt_ticks width;         /* of one point */
    double *integral;        /* [points * KVT_GAUGE_COUNT], gauge-seconds in ticks */
    int64_t value[KVT_GAUGE_COUNT]; /* since `since` */
    kvt_ticks since;
};
enum kvt_status kvt_series_init(struct kvt_series *series, struct kvt_arena *arena, int32_t points,
                                struct kvt_err *err);
/* From time on the gauges have these values. time never decreases. Amortised O(1). */
void kvt_series_set(struct kvt_series *series, kvt_ticks time, const int64_t value[KVT_GAUGE_COUNT]);
/* Mean of gauge in point i. Call kvt_series_set at the end of the run first. */
double kvt_series_mean(const struct kvt_series *series, int32_t point, enum kvt_gauge gauge);

#endif
