#include "sim/base/assert.h"
#include "sim/metrics/metrics.h"

enum kvt_status kvt_histogram_init(struct kvt_histogram *h, struct kvt_arena *arena,
                                   struct kvt_err *err)
{
    *h = (struct kvt_histogram){.min = KVT_NEVER, .max = -1};
    return kvt_arena_get(arena, KVT_BINS, sizeof *h->bins, "histogram bins", &h->bins, err);
}

/* How many of the terms value, value + step, ... (at most `left`) lie below limit; value does. */
static int64_t terms_below(uint64_t limit, kvt_ticks value, int64_t step, int64_t left)
{
    uint64_t room = limit - 1 - (uint64_t)value;
    if (room < (uint64_t)step)
        return 1;
    /* Divide only where it is needed: most progressions end within their first bin. */
    if ((kvt_u128)(left - 1) * (kvt_u128)step <= room)
        return left;
    return (int64_t)(room / (uint64_t)step) + 1;
}

void kvt_histogram_add_progression(struct kvt_histogram *h, kvt_ticks first, int64_t step,
                                   int64_t terms, uint64_t count)
{
    kvt_assert(first >= 0);
    kvt_assert(step >= 0);
    if (terms <= 0 || count == 0)
        return;
    kvt_i128 last = (kvt_i128)first + (kvt_i128)step * (terms - 1);
    kvt_assert(last <= KVT_NEVER);
    kvt_ticks value = first;
    for (int64_t left = terms; left > 0;) {
        int32_t bin = kvt_histogram_bin(value);
        int64_t here = terms_below(kvt_histogram_bin_low(bin + 1), value, step, left);
        h->bins[bin] += (uint64_t)here * count;
        left -= here;
        if (left > 0)
            value += here * step;
    }
    /* (2 * first + step * (terms - 1)) * terms is even: the half is exact. */
    h->sum += ((kvt_i128)first + last) * terms / 2 * (kvt_i128)count;
    h->count += (uint64_t)terms * count;
    h->min = first < h->min ? first : h->min;
    h->max = (kvt_ticks)last > h->max ? (kvt_ticks)last : h->max;
}

/* The value of rank j (from 0) among the n values of a bin, spread evenly over the part of the bin
 * between the smallest and the largest value of all. */
static double bin_value(const struct kvt_histogram *h, int32_t bin, double j)
{
    double low = (double)kvt_histogram_bin_low(bin);
    double high = (double)kvt_histogram_bin_low(bin + 1);
    if (high - low == 1)
        return low;
    low = low < (double)h->min ? (double)h->min : low;
    high = high > (double)h->max ? (double)h->max : high;
    return low + (high - low) * (j + 0.5) / (double)h->bins[bin];
}

double kvt_histogram_quantile(const struct kvt_histogram *h, double q)
{
    kvt_assert(q >= 0 && q <= 1);
    if (h->count == 0)
        return 0;
    double position = q * (double)(h->count - 1);
    uint64_t rank = (uint64_t)position;
    double part = position - (double)rank;
    int32_t bin = kvt_histogram_bin(h->min);
    uint64_t before = 0;
    while (before + h->bins[bin] <= rank)
        before += h->bins[bin++];
    double value = bin_value(h, bin, (double)(rank - before));
    if (rank == 0)
        value = (double)h->min;
    if (rank + 1 >= h->count)
        return (double)h->max;
    if (part == 0)
        return value;
    rank++;
    while (before + h->bins[bin] <= rank)
        before += h->bins[bin++];
    double next = bin_value(h, bin, (double)(rank - before));
    if (rank + 1 == h->count)
        next = (double)h->max;
    return value + part * (next - value);
}

double kvt_histogram_mean(const struct kvt_histogram *h)
{
    return h->count == 0 ? 0 : (double)h->sum / (double)h->count;
}
