#include <string.h>

#include "sim/base/assert.h"
#include "sim/metrics/metrics.h"

/* The first points are 2^20 ticks (about 1 us) wide: narrow enough for any run, and a run of an
 * hour merges some twenty times. */
#define FIRST_WIDTH ((kvt_ticks)1 << 20)

enum kvt_status kvt_series_init(struct kvt_series *series, struct kvt_arena *arena, int32_t points,
                                struct kvt_err *err)
{
    kvt_assert(points >= 2 && points % 2 == 0);
    *series =
        (struct kvt_series){.points = points, .used = 1, .width = FIRST_WIDTH, .edge = FIRST_WIDTH};
    return kvt_arena_get(arena, (size_t)points * KVT_GAUGE_COUNT, sizeof *series->integral,
                         "time series points", &series->integral, err);
}

/* Twice the width, half the points. All points are complete. */
static void series_merge(struct kvt_series *series)
{
    kvt_i128 *integral = series->integral;
    for (int32_t i = 0; i < series->points / 2; i++)
        for (int32_t g = 0; g < KVT_GAUGE_COUNT; g++)
            integral[i * KVT_GAUGE_COUNT + g] =
                integral[2 * i * KVT_GAUGE_COUNT + g] + integral[(2 * i + 1) * KVT_GAUGE_COUNT + g];
    series->used = series->points / 2;
    kvt_assert(series->width <= KVT_NEVER / 2);
    series->width *= 2;
}

/* Store the last point, which is complete, and begin the next. */
static void series_advance(struct kvt_series *series)
{
    kvt_assert(series->since == series->edge);
    memcpy(&series->integral[(series->used - 1) * KVT_GAUGE_COUNT], series->current,
           sizeof series->current);
    memset(series->current, 0, sizeof series->current);
    if (series->used == series->points)
        series_merge(series);
    series->used++;
    kvt_assert(series->edge <= KVT_NEVER - series->width);
    series->edge += series->width;
}

void kvt_series_cross(struct kvt_series *series, kvt_ticks time)
{
    while (time >= series->edge) {
        kvt_ticks passed = series->edge - series->since;
        for (int32_t g = 0; g < KVT_GAUGE_COUNT; g++)
            series->current[g] += (kvt_i128)series->value[g] * passed;
        series->since = series->edge;
        series_advance(series);
    }
}

double kvt_series_mean(const struct kvt_series *series, int32_t point, enum kvt_gauge gauge)
{
    kvt_assert(point >= 0 && point < series->used);
    if (point < series->used - 1)
        return (double)series->integral[point * KVT_GAUGE_COUNT + (int32_t)gauge] /
               (double)series->width;
    kvt_ticks passed = series->since - (series->edge - series->width);
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
