#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/base/random.h"
#include "sim/metrics/metrics.h"
#include "tests/check.h"
#include "tests/scarce.h"

static struct kvt_arena arena;
static struct kvt_stream draws;

static void begin(void)
{
    struct kvt_err err = {0};
    CHECK_OK(kvt_arena_init(&arena, (size_t)64 << 20, &err), err);
    kvt_stream_init(&draws, 2385, (enum kvt_purpose)0, 17);
}

static struct kvt_histogram histogram(void)
{
    struct kvt_histogram h;
    struct kvt_err err = {0};
    CHECK_OK(kvt_histogram_init(&h, &arena, &err), err);
    return h;
}

/* A number below 2^bits for a random bits: every magnitude is as likely. */
static int64_t any_magnitude(uint32_t bits_max)
{
    uint32_t bits = kvt_stream_u32(&draws) % (bits_max + 1);
    uint64_t word = (uint64_t)kvt_stream_u32(&draws) << 32 | kvt_stream_u32(&draws);
    return bits == 0 ? 0 : (int64_t)(word >> (64 - bits));
}

static void small_values_have_a_bin_each(void)
{
    for (int64_t v = 0; v < 512; v++) {
        CHECK_I64(kvt_histogram_bin(v), v, "identity below 512");
        CHECK_I64((int64_t)kvt_histogram_bin_low((int32_t)v), v, "and back");
    }
}

static void every_bin_begins_where_the_last_one_ends(void)
{
    int32_t last = kvt_histogram_bin(INT64_MAX);
    CHECK(last < KVT_BINS);
    int bad = 0;
    for (int32_t bin = 1; bin <= last; bin++) {
        uint64_t low = kvt_histogram_bin_low(bin);
        bad += kvt_histogram_bin((int64_t)low) != bin;
        bad += kvt_histogram_bin((int64_t)(low - 1)) != bin - 1;
        if (bin >= 512) {
            double width = (double)(kvt_histogram_bin_low(bin + 1) - low);
            bad += width / (double)low > 1.0 / 256;
        }
    }
    CHECK_I64(bad, 0, "edges and widths");
    CHECK(kvt_histogram_bin_low(last + 1) == UINT64_C(1) << 63);
}

static void a_progression_adds_what_its_terms_add(void)
{
    begin();
    struct kvt_histogram fast = histogram(), slow = histogram();
    for (int round = 0; round < 3000; round++) {
        int64_t first = any_magnitude(50), step = any_magnitude((uint32_t)round % 40);
        int64_t terms = any_magnitude(8);
        uint64_t count = (uint64_t)any_magnitude(9);
        kvt_histogram_add_progression(&fast, first, step, terms, count);
        for (int64_t i = 0; i < terms; i++)
            kvt_histogram_add(&slow, first + i * step, count);
        if (memcmp(fast.bins, slow.bins, KVT_BINS * sizeof *fast.bins) != 0) {
            CHECK_NOTE(false, "bins differ");
            break;
        }
    }
    CHECK(fast.count == slow.count);
    CHECK(fast.sum == slow.sum);
    CHECK_I64(fast.min, slow.min, "smallest");
    CHECK_I64(fast.max, slow.max, "largest");
    CHECK(fast.count > 100000);
    kvt_arena_release(&arena);
}

static void a_progression_stops_at_the_last_tick(void)
{
    begin();
    struct kvt_histogram h = histogram();
    kvt_histogram_add_progression(&h, INT64_MAX - 6, 3, 3, 5);
    CHECK_I64((int64_t)h.count, 15, "three terms five times");
    CHECK_I64(h.max, INT64_MAX, "the largest time");
    CHECK_I64((int64_t)h.bins[kvt_histogram_bin(INT64_MAX)], 15, "one bin");
    kvt_histogram_add_progression(&h, 1, 1, 0, 9);
    kvt_histogram_add_progression(&h, 1, 1, 9, 0);
    CHECK_I64((int64_t)h.count, 15, "nothing times nothing");
    CHECK_I64(h.min, INT64_MAX - 6, "nor a smallest value");
    kvt_arena_release(&arena);
}

static void few_values_have_numpys_quantiles(void)
{
    begin();
    struct kvt_histogram h = histogram();
    CHECK_CLOSE(kvt_histogram_quantile(&h, 0.5), 0, 0, "empty");
    CHECK_CLOSE(kvt_histogram_mean(&h), 0, 0, "empty");
    kvt_histogram_add(&h, 1234567, 1);
    CHECK_CLOSE(kvt_histogram_quantile(&h, 0.99), 1234567, 0, "one value is every quantile");
    kvt_histogram_add(&h, 2345678, 1);
    CHECK_CLOSE(kvt_histogram_quantile(&h, 0.5), 1790122.5, 0, "half way between two");
    CHECK_CLOSE(kvt_histogram_quantile(&h, 0.9), 2234566.9, 1e-12, "linear between two");
    CHECK_CLOSE(kvt_histogram_mean(&h), 1790122.5, 0, "exact");
    struct kvt_histogram small = histogram();
    static const int64_t values[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        kvt_histogram_add(&small, values[i], 1);
    CHECK_CLOSE(kvt_histogram_quantile(&small, 0.5), 4, 0, "numpy.percentile(values, 50)");
    CHECK_CLOSE(kvt_histogram_quantile(&small, 0.25), 2.5, 1e-15, "numpy.percentile(values, 25)");
    CHECK_CLOSE(kvt_histogram_quantile(&small, 0.99), 8.7, 1e-14, "numpy.percentile(values, 99)");
    kvt_arena_release(&arena);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_within_a_fifth_of_a_percent(void)
{
    enum { COUNT = 20011 };
    static int64_t values[COUNT];
    begin();
    struct kvt_histogram h = histogram();
    double sum = 0;
    for (int i = 0; i < COUNT; i++) {
        values[i] = any_magnitude(44);
        sum += (double)values[i];
        kvt_histogram_add(&h, values[i], 1);
    }
    qsort(values, COUNT, sizeof *values, compare);
    static const double qs[] = {0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
        double position = qs[i] * (COUNT - 1);
        int k = (int)position;
        double next = (double)values[k + 1 < COUNT ? k + 1 : k];
        double want = (double)values[k] + (position - k) * (next - (double)values[k]);
        CHECK_CLOSE(kvt_histogram_quantile(&h, qs[i]), want, 0.002, "against sorting");
    }
    CHECK_CLOSE(kvt_histogram_mean(&h), sum / COUNT, 1e-12, "mean");
    kvt_arena_release(&arena);
}

static double series_total(const struct kvt_series *series, enum kvt_gauge gauge)
{
    double total = 0;
    for (int32_t i = 0; i < series->used; i++) {
        double width = i < series->used - 1
                           ? (double)series->width
                           : (double)(series->since - (series->edge - series->width));
        total += kvt_series_mean(series, i, gauge) * width;
    }
    return total;
}

static void a_series_keeps_the_integral_while_it_merges(void)
{
    begin();
    for (int round = 0; round < 40; round++) {
        struct kvt_series series;
        struct kvt_err err = {0};
        CHECK_OK(kvt_series_init(&series, &arena, 2 + 2 * (round % 9), &err), err);
        double want[KVT_GAUGE_COUNT] = {0};
        int64_t now[KVT_GAUGE_COUNT] = {0};
        kvt_ticks time = 0;
        for (int i = 0; i < 300; i++) {
            kvt_ticks passed = any_magnitude(10 + (uint32_t)round);
            for (int g = 0; g < KVT_GAUGE_COUNT; g++) {
                want[g] += (double)now[g] * (double)passed;
                now[g] = any_magnitude(20);
            }
            time += passed;
            kvt_series_set(&series, time, now);
        }
        for (int g = 0; g < KVT_GAUGE_COUNT; g++)
            CHECK_CLOSE(series_total(&series, (enum kvt_gauge)g), want[g], 1e-9, "integral");
        CHECK(series.used <= series.points);
        CHECK(time < series.edge && time >= series.edge - series.width);
    }
    kvt_arena_release(&arena);
}

/* Counts keep their number and their place while they merge, and end as wide as a series. */
static void counts_over_time_keep_their_number(void)
{
    struct kvt_count_series counts;
    struct kvt_series series;
    struct kvt_err err = {0};
    static const int64_t none[KVT_GAUGE_COUNT] = {0};
    kvt_ticks times[200], time = 0;
    begin();
    CHECK_OK(kvt_count_series_init(&counts, &arena, 6, &err), err);
    CHECK_OK(kvt_series_init(&series, &arena, 6, &err), err);
    for (int i = 0; i < 200; i++) {
        time += ((kvt_ticks)1 << 20) * (1 + i * i % 977);
        times[i] = time;
        kvt_count_series_add(&counts, time);
    }
    kvt_series_set(&series, 3 * time, none);
    kvt_count_series_widen(&counts, series.width);
    CHECK_I64(counts.width, series.width, "the widths are the series'");
    for (int32_t p = 0; p < counts.points; p++) {
        int64_t want = 0;
        for (int i = 0; i < 200; i++)
            want += times[i] / series.width == p;
        CHECK_I64(counts.count[p], want, "of a point");
    }
    kvt_arena_release(&arena);
}

static void saying_the_same_twice_changes_no_series(void)
{
    begin();
    struct kvt_series often, seldom;
    struct kvt_err err = {0};
    CHECK_OK(kvt_series_init(&often, &arena, 6, &err), err);
    CHECK_OK(kvt_series_init(&seldom, &arena, 6, &err), err);
    kvt_ticks time = 0;
    for (int i = 0; i < 500; i++) {
        int64_t now[KVT_GAUGE_COUNT] = {any_magnitude(9), any_magnitude(5), any_magnitude(30)};
        kvt_series_set(&often, time, now);
        kvt_series_set(&seldom, time, now);
        for (int k = 0; k < 3; k++) {
            time += any_magnitude(30);
            kvt_series_set(&often, time, now);
        }
    }
    kvt_series_set(&seldom, time, seldom.value);
    CHECK_I64(often.used, seldom.used, "points");
    CHECK_I64(often.width, seldom.width, "width");
    CHECK(memcmp(often.integral, seldom.integral, 6 * sizeof(kvt_i128) * KVT_GAUGE_COUNT) == 0);
    CHECK(memcmp(often.current, seldom.current, sizeof often.current) == 0);
    kvt_arena_release(&arena);
}

static void a_point_is_the_mean_over_its_time(void)
{
    begin();
    struct kvt_series series;
    struct kvt_err err = {0};
    CHECK_OK(kvt_series_init(&series, &arena, 4, &err), err);
    kvt_ticks width = series.width;
    kvt_series_set(&series, 0, (const int64_t[]){7, 0, 1000});
    kvt_series_set(&series, width / 2, (const int64_t[]){9, 3, 1000});
    kvt_series_set(&series, width + width / 4, (const int64_t[]){5, 0, 0});
    CHECK_I64(series.used, 2, "the second point has begun");
    CHECK_CLOSE(kvt_series_mean(&series, 0, KVT_GAUGE_RUNNING), 8, 0, "half 7, half 9");
    CHECK_CLOSE(kvt_series_mean(&series, 0, KVT_GAUGE_WAITING), 1.5, 0, "half 0, half 3");
    CHECK_CLOSE(kvt_series_mean(&series, 1, KVT_GAUGE_RUNNING), 9, 0, "what has passed of it");
    kvt_series_set(&series, 4 * width, (const int64_t[]){5, 0, 0});
    CHECK_I64(series.width, 2 * width, "merged once");
    CHECK_CLOSE(kvt_series_mean(&series, 1, KVT_GAUGE_RUNNING), 5, 0, "nothing changed");
    CHECK_I64(series.used, 3, "two whole points and one that has begun");
    CHECK_CLOSE(kvt_series_mean(&series, 0, KVT_GAUGE_RUNNING), (8 + 6) / 2.0, 0, "merged mean");
    CHECK_CLOSE(kvt_series_mean(&series, 2, KVT_GAUGE_RUNNING), 5, 0, "a point of no length");
    kvt_arena_release(&arena);
}

static void no_memory_is_a_status(void)
{
    begin();
    struct kvt_histogram h;
    struct kvt_series series;
    struct kvt_err err = {0};
    scarce_arena_at(1);
    CHECK_FAILS(kvt_histogram_init(&h, &arena, &err), err, KVT_ENOMEM);
    scarce_arena_at(1);
    CHECK_FAILS(kvt_series_init(&series, &arena, 8, &err), err, KVT_ENOMEM);
    CHECK_HOLDS(err.text, "histogram bins", "says what it was for");
    CHECK_HOLDS(err.text, "time series points", "says what it was for");
    scarce_arena_at(0);
    kvt_arena_release(&arena);
}

const struct check_test check_metrics[] = {
    {.name = "small values have a bin each", .run = small_values_have_a_bin_each},
    {.name = "every bin begins where the last one ends",
     .run = every_bin_begins_where_the_last_one_ends},
    {.name = "a progression adds what its terms add", .run = a_progression_adds_what_its_terms_add},
    {.name = "a progression stops at the last tick", .run = a_progression_stops_at_the_last_tick},
    {.name = "few values have numpy's quantiles", .run = few_values_have_numpys_quantiles},
    {.name = "quantiles are within a fifth of a percent",
     .run = quantiles_are_within_a_fifth_of_a_percent},
    {.name = "a series keeps the integral while it merges",
     .run = a_series_keeps_the_integral_while_it_merges},
    {.name = "counts over time keep their number", .run = counts_over_time_keep_their_number},
    {.name = "saying the same twice changes no series",
     .run = saying_the_same_twice_changes_no_series},
    {.name = "a point is the mean over its time", .run = a_point_is_the_mean_over_its_time},
    {.name = "no memory is a status", .run = no_memory_is_a_status},
    {0},
};
