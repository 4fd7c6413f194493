#include "sim/base/assert.h"
#include "sim/metrics/metrics.h"

/* The first points are 2^27 ticks (131 us) wide: a step takes longer, and a run of an hour merges
 * 512 points some sixteen times. */
#define FIRST_WIDTH ((kvt_ticks)1 << 27)

enum kvt_status kvt_series_init(struct kvt_series *series, struct kvt_arena *arena, int32_t points,
                                struct kvt_err *err)
{
    kvt_assert(points >= 2 && points % 2 == 0);
    *series =
        (struct kvt_series){.points = points, .used = 1, .width = FIRST_WIDTH, .edge = FIRST_WIDTH};
    return kvt_arena_get(arena, (size_t)points * KVT_GAUGE_COUNT, sizeof *series->integral,
                         "time series points", &series->integral, err);
}

/* Where the last point ends, as far as time goes. */
static kvt_ticks edge_of(const struct kvt_series *series)
{
    return series->used > KVT_NEVER / series->width ? KVT_NEVER : series->used * series->width;
}

/* Twice the width, half the points. The last point need not be complete: where it is the second of
 * its pair, the first one joins it in current. */
static void series_merge(struct kvt_series *series)
{
    kvt_i128 *integral = series->integral;
    int32_t pairs = (series->used - 1) / 2;
    bool is_second = (series->used - 1) % 2 == 1;
    for (int32_t g = 0; g < KVT_GAUGE_COUNT; g++) {
        for (int32_t i = 0; i < pairs; i++)
            integral[i * KVT_GAUGE_COUNT + g] =
                integral[2 * i * KVT_GAUGE_COUNT + g] + integral[(2 * i + 1) * KVT_GAUGE_COUNT + g];
        if (is_second)
            series->current[g] += integral[2 * pairs * KVT_GAUGE_COUNT + g];
    }
    kvt_assert(series->width < KVT_NEVER / 2);
    series->width *= 2;
    series->used = pairs + 1;
    series->edge = edge_of(series);
}

/* Integrate to the end of the last point, store it, and begin the next. */
static void series_advance(struct kvt_series *series)
{
    kvt_assert(series->used < series->points);
    kvt_i128 *last = &series->integral[(series->used - 1) * KVT_GAUGE_COUNT];
    kvt_ticks passed = series->edge - series->since;
    for (int32_t g = 0; g < KVT_GAUGE_COUNT; g++) {
        last[g] = series->current[g] + (kvt_i128)series->value[g] * passed;
        series->current[g] = 0;
    }
    series->since = series->edge;
    series->used++;
    series->edge = edge_of(series);
}

void kvt_series_cross(struct kvt_series *series, kvt_ticks time)
{
    /* First merge until the time fits, then advance: a long idle time costs `points` at most. */
    while (time / series->points >= series->width)
        series_merge(series);
    while (time >= series->edge)
        series_advance(series);
}

double kvt_series_mean(const struct kvt_series *series, int32_t point, enum kvt_gauge gauge)
{
    kvt_assert(point >= 0 && point < series->used);
    if (point < series->used - 1)
        return (double)series->integral[point * KVT_GAUGE_COUNT + (int32_t)gauge] /
               (double)series->width;
    kvt_ticks passed = series->since - (series->used - 1) * series->width;
    return passed == 0 ? (double)series->value[gauge]
                       : (double)series->current[gauge] / (double)passed;
}

double kvt_series_mean_all(const struct kvt_series *series, enum kvt_gauge gauge)
{
    kvt_i128 total = series->current[gauge];
    for (int32_t i = 0; i < series->used - 1; i++)
        total += series->integral[i * KVT_GAUGE_COUNT + (int32_t)gauge];
    return series->since == 0 ? 0 : (double)total / (double)series->since;
}

/* ---- counts ------------------------------------------------------------------------------- */

enum kvt_status kvt_count_series_init(struct kvt_count_series *counts, struct kvt_arena *arena,
                                      int32_t points, struct kvt_err *err)
{
    kvt_assert(points >= 2 && points % 2 == 0);
    *counts = (struct kvt_count_series){.points = points, .width = FIRST_WIDTH};
    return kvt_arena_get(arena, (size_t)points, sizeof *counts->count, "counts over time",
                         &counts->count, err);
}

static void count_series_merge(struct kvt_count_series *counts)
{
    kvt_assert(counts->width < KVT_NEVER / 2);
    for (int32_t i = 0; i < counts->points / 2; i++)
        counts->count[i] = counts->count[2 * i] + counts->count[2 * i + 1];
    for (int32_t i = counts->points / 2; i < counts->points; i++)
        counts->count[i] = 0;
    counts->width *= 2;
}

void kvt_count_series_add(struct kvt_count_series *counts, kvt_ticks time)
{
    while (time / counts->points >= counts->width)
        count_series_merge(counts);
    counts->count[time / counts->width]++;
}

void kvt_count_series_widen(struct kvt_count_series *counts, kvt_ticks width)
{
    while (counts->width < width)
        count_series_merge(counts);
}
