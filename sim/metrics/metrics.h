/*
 * metrics.h - what is measured while a run goes on; fed by the engine, never read back by it
 *
 * Histograms have fixed bins over unrounded ticks: values below 512 have a bin each, larger ones
 * 256 bins a power of two, so that a bin's middle is within 0.2 % of all its values. Ranges fill
 * them: k gaps in arithmetic progression cost O(bins touched), and leave exactly what adding the
 * terms one by one leaves. Count, sum, smallest and largest are exact; hence so is the mean.
 *
 * A time series has a fixed number of points per replica; when time outgrows them, neighbours merge
 * and each point covers twice as much. It is fed at decisions only. Integrals are 128-bit integers:
 * neither merging nor telling a series the same values more often changes what it says, so a run
 * with macro-steps and one with exact steps write the same bytes.
 */
#ifndef KVT_METRICS_METRICS_H
#define KVT_METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/ticks.h"

#define KVT_BINS_PER_OCTAVE 256
#define KVT_BINS            ((63 - 8 + 1) * KVT_BINS_PER_OCTAVE + 256)

struct kvt_histogram {
    uint64_t *bins;     /* [KVT_BINS], in the arena */
    uint64_t count;     /* == the sum of all bins */
    kvt_i128 sum;       /* of the values, in ticks */
    kvt_ticks min, max; /* KVT_NEVER and -1 while empty */
};

enum kvt_status kvt_histogram_init(struct kvt_histogram *h, struct kvt_arena *arena,
                                   struct kvt_err *err);

/* The bin of a value >= 0: monotonic, and the identity below 512. */
static inline int32_t kvt_histogram_bin(kvt_ticks value)
{
    int32_t shift = 55 - __builtin_clzll((uint64_t)value | 256);
    return shift * KVT_BINS_PER_OCTAVE + (int32_t)(value >> shift);
}

/* The smallest value of a bin; the bin ends where the next one begins. 2^63 past the last bin that
 * a value can reach. */
static inline uint64_t kvt_histogram_bin_low(int32_t bin)
{
    int32_t shift = bin < 2 * KVT_BINS_PER_OCTAVE ? 0 : bin / KVT_BINS_PER_OCTAVE - 1;
    kvt_assert(shift < 64);
    return (uint64_t)(bin - shift * KVT_BINS_PER_OCTAVE) << shift;
}

/* Add a value >= 0 count times. A few ns. */
static inline void kvt_histogram_add(struct kvt_histogram *h, kvt_ticks value, uint64_t count)
{
    kvt_assert(value >= 0);
    if (count == 0)
        return;
    h->bins[kvt_histogram_bin(value)] += count;
    h->count += count;
    h->sum += (kvt_i128)value * (kvt_i128)count;
    h->min = value < h->min ? value : h->min;
    h->max = value > h->max ? value : h->max;
}

/* Add `count` times each of the `terms` values first, first + step, ...; step >= 0. */
void kvt_histogram_add_progression(struct kvt_histogram *h, kvt_ticks first, int64_t step,
                                   int64_t terms, uint64_t count);

/*
 * Value at quantile q in [0, 1], in ticks; 0 when empty. The definition is numpy's (and so vLLM's):
 * linear between the two values at ranks around q * (count - 1). A value is known by its bin: the n
 * values of a bin are taken to lie evenly in it. The smallest and the largest are exact.
 */
double kvt_histogram_quantile(const struct kvt_histogram *h, double q);

/* Mean in ticks; 0 when empty. */
double kvt_histogram_mean(const struct kvt_histogram *h);

enum kvt_gauge { KVT_GAUGE_RUNNING, KVT_GAUGE_WAITING, KVT_GAUGE_PAGES, KVT_GAUGE_COUNT };

/* One per replica. Point i covers the times [i * width, (i + 1) * width). */
struct kvt_series {
    int32_t points, used; /* points is even; used points have been reached, the last one partly */
    kvt_ticks width;      /* of one point: a power of two of ticks */
    kvt_ticks edge;       /* used * width, at most KVT_NEVER: where the last point ends */
    kvt_ticks since;      /* gauges are integrated up to here */
    int64_t value[KVT_GAUGE_COUNT];    /* from `since` on */
    kvt_i128 current[KVT_GAUGE_COUNT]; /* integral over the last point so far */
    kvt_i128 *integral; /* [points * KVT_GAUGE_COUNT], gauge times ticks; the last point's is
                           in current */
};

enum kvt_status kvt_series_init(struct kvt_series *series, struct kvt_arena *arena, int32_t points,
                                struct kvt_err *err);

/* Integrate the gauges up to time, which lies at or behind the last point's end. */
void kvt_series_cross(struct kvt_series *series, kvt_ticks time);

/* From time on the gauges have these values. time never decreases. Amortised O(1), a few ns. */
static inline void kvt_series_set(struct kvt_series *series, kvt_ticks time,
                                  const int64_t value[KVT_GAUGE_COUNT])
{
    kvt_assert(time >= series->since);
    if (time >= series->edge)
        kvt_series_cross(series, time);
    kvt_ticks passed = time - series->since;
    for (int i = 0; i < KVT_GAUGE_COUNT; i++) {
        series->current[i] += (kvt_i128)series->value[i] * passed;
        series->value[i] = value[i];
    }
    series->since = time;
}

/* Mean of a gauge in a used point; of the last one, over the part that has passed. Call
 * kvt_series_set at the end of the run first. */
double kvt_series_mean(const struct kvt_series *series, int32_t point, enum kvt_gauge gauge);

/* Mean of a gauge from time 0 to the last kvt_series_set; 0 when that was at 0. */
double kvt_series_mean_all(const struct kvt_series *series, enum kvt_gauge gauge);

/* How often something happened, over time: point i counts the times in [i * width, (i + 1) *
 * width). As a series it merges neighbours when time outgrows its points, and its widths are a
 * series'. */
struct kvt_count_series {
    int32_t points;
    kvt_ticks width;
    int64_t *count; /* [points] */
};

enum kvt_status kvt_count_series_init(struct kvt_count_series *counts, struct kvt_arena *arena,
                                      int32_t points, struct kvt_err *err);
void kvt_count_series_add(struct kvt_count_series *counts, kvt_ticks time);

/* Merge until a point is as wide as a series': width is a power of two times the counts' own. */
void kvt_count_series_widen(struct kvt_count_series *counts, kvt_ticks width);

#endif
