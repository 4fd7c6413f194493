#include "sim/cost/costs.h"

#include <math.h>

#include "sim/base/assert.h"

static kvt_ticks ticks_saturate(kvt_i128 t)
{
    return t >= (kvt_i128)KVT_NEVER ? KVT_NEVER : (kvt_ticks)t;
}

static const struct kvt_cost_row *row_of(const struct kvt_costs *costs, int32_t batch)
{
    kvt_assert(batch >= 1);
    kvt_assert(batch <= costs->batch_max);
    return &costs->rows[batch];
}

/* The segment that context lies in: the last whose start is not above it. */
static int32_t row_segment(const struct kvt_cost_row *row, int64_t context)
{
    int32_t s = 0;
    while (s + 1 < row->segments && row->start[s + 1] <= context)
        s++;
    return s;
}

static kvt_ticks segment_value(const struct kvt_cost_row *row, int32_t s, int64_t context)
{
    return row->value[s] + row->slope[s] * (context - row->start[s]);
}

kvt_ticks kvt_costs_line(const struct kvt_costs *costs, int32_t batch, int64_t context)
{
    const struct kvt_cost_row *row = row_of(costs, batch);
    kvt_assert(context >= 0);
    return segment_value(row, row_segment(row, context), context);
}

kvt_ticks kvt_costs_decode(const struct kvt_costs *costs, int32_t batch, int64_t context,
                           int64_t windowed)
{
    return row_of(costs, batch)->base + kvt_costs_line(costs, batch, context) +
           costs->window_slope * windowed;
}

/* tokens(m): linear between knots, rounded up; beyond the last knot its segment goes on. */
static kvt_ticks tokens_time(const struct kvt_costs *costs, int64_t tokens)
{
    kvt_assert(costs->token_knots >= 1);
    int32_t low = 0, high = costs->token_knots - 1;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (costs->token_at[middle] <= tokens)
            low = middle;
        else
            high = middle;
    }
    if (low == high)
        return costs->token_time[low];
    int64_t width = costs->token_at[high] - costs->token_at[low];
    kvt_ticks rise = costs->token_time[high] - costs->token_time[low];
    return costs->token_time[low] + kvt_muldiv_ceil(rise, tokens - costs->token_at[low], width);
}

kvt_ticks kvt_costs_step(const struct kvt_costs *costs, const struct kvt_step_load *load)
{
    kvt_ticks copy =
        costs->copy_slope * load->copied_tokens + costs->zero_slope * load->freed_tokens;
    if (load->prompt_tokens == 0) {
        if (load->decodes == 0)
            return copy;
        return copy + kvt_costs_decode(costs, load->decodes, load->context, load->windowed);
    }
    kvt_ticks t = tokens_time(costs, load->prompt_tokens + load->decodes) + costs->prefill_base +
                  costs->row_cost * load->prompt_ends +
                  kvt_muldiv_ceil(costs->pair_slope, load->pairs, INT64_C(1) << 20);
    if (load->decodes > 0)
        t += kvt_costs_line(costs, load->decodes, load->context) +
             costs->window_slope * load->windowed;
    kvt_ticks host = costs->host_request * ((kvt_ticks)load->decodes + load->prompt_ends);
    t = t < host ? host : t;
    return copy + (t < costs->prefill_floor ? costs->prefill_floor : t);
}

/* n steps whose times start at first and grow by growth: below 2^127 for n <= STEPS_MAX. */
static inline kvt_i128 series_sum(kvt_ticks first, int64_t growth, int64_t n)
{
    if (n < INT64_C(1) << 32) { /* the usual case: n(n-1)/2 fits, two multiplications */
        int64_t pairs = (int64_t)((uint64_t)n * (uint64_t)(n - 1) / 2);
        return (kvt_i128)first * n + (kvt_i128)pairs * growth;
    }
    return (kvt_i128)first * n + (kvt_i128)n * (n - 1) / 2 * growth;
}

/* The regular stretch that a decode run is in: n steps from first, growing by growth. */
struct stretch {
    kvt_ticks first;
    int64_t growth;
    int64_t steps; /* before the context leaves the segment; at most what was asked for */
};

static struct stretch stretch_at(const struct kvt_costs *costs, const struct kvt_cost_row *row,
                                 int32_t segment, int32_t batch, int64_t context, int64_t windowed,
                                 int32_t windowed_growth, int64_t steps)
{
    struct stretch s = {
        .first = row->base + segment_value(row, segment, context) + costs->window_slope * windowed,
        .growth = row->slope[segment] * batch + costs->window_slope * windowed_growth,
        .steps = steps,
    };
    if (segment + 1 < row->segments) {
        int64_t room = row->start[segment + 1] - context; /* > 0 */
        if (room <= (kvt_i128)(steps - 1) * batch)
            s.steps = (room + batch - 1) / batch;
    }
    return s;
}

kvt_ticks kvt_costs_decode_run(const struct kvt_costs *costs, int32_t batch, int64_t context,
                               int64_t windowed, int32_t windowed_growth, int64_t steps)
{
    const struct kvt_cost_row *row = row_of(costs, batch);
    kvt_assert(context >= 0);
    kvt_assert(steps >= 0);
    kvt_assert(steps <= KVT_COSTS_STEPS_MAX);
    if (row->segments == 1 && steps < 1 << 16) { /* nearly always: one line, 64 bits do */
        kvt_ticks first =
            row->base + segment_value(row, 0, context) + costs->window_slope * windowed;
        int64_t growth = row->slope[0] * batch + costs->window_slope * windowed_growth;
        if (first < KVT_NEVER >> 17 && growth < KVT_NEVER >> 33)
            return first * steps + growth * (steps * (steps - 1) / 2);
    }
    kvt_i128 total = 0;
    int32_t segment = row_segment(row, context);
    while (steps > 0) {
        struct stretch s =
            stretch_at(costs, row, segment, batch, context, windowed, windowed_growth, steps);
        total += series_sum(s.first, s.growth, s.steps);
        if (s.steps == steps || total >= (kvt_i128)KVT_NEVER)
            break;
        steps -= s.steps;
        context += s.steps * batch;
        windowed += s.steps * windowed_growth;
        while (segment + 1 < row->segments && row->start[segment + 1] <= context)
            segment += 1;
    }
    return ticks_saturate(total);
}

/* The smallest k in 1..n whose series reaches time; the caller knows that n does. The root of the
 * quadratic is off by a few ulp at most, so the correction is one or two looks; it doubles its
 * stride so that it ends soon even where the doubles were poor. */
static int64_t series_reach(kvt_ticks first, int64_t growth, int64_t n, kvt_ticks time)
{
    double a = (double)first - 0.5 * (double)growth, t = (double)time;
    double root = a + sqrt(a * a + 2.0 * (double)growth * t);
    double guess = root > 0.0 ? 2.0 * t / root + 1.0 : 1.0; /* cut off below: rounds up */
    int64_t k = guess >= (double)n ? n : guess < 1.0 ? 1 : (int64_t)guess;
    int64_t low = 0, high = n; /* low does not reach, high does */
    for (int64_t stride = 1; high - low > 1; stride *= 2) {
        if (series_sum(first, growth, k) >= time) {
            high = k;
            k = k - stride > low ? k - stride : low + (k - low) / 2;
        } else {
            low = k;
            k = k + stride < high ? k + stride : high - (high - k) / 2;
        }
        if (k <= low || k >= high)
            k = low + (high - low) / 2;
    }
    return high;
}

int64_t kvt_costs_steps_until(const struct kvt_costs *costs, int32_t batch, int64_t context,
                              int64_t windowed, int32_t windowed_growth, int64_t limit,
                              kvt_ticks time)
{
    const struct kvt_cost_row *row = row_of(costs, batch);
    kvt_assert(context >= 0);
    kvt_assert(limit >= 1);
    kvt_assert(limit <= KVT_COSTS_STEPS_MAX);
    kvt_ticks rest = time;
    int64_t done = 0;
    int32_t segment = row_segment(row, context);
    if (rest <= 0)
        return 1;
    for (;;) {
        struct stretch s = stretch_at(costs, row, segment, batch, context, windowed,
                                      windowed_growth, limit - done);
        kvt_i128 sum = series_sum(s.first, s.growth, s.steps);
        if (sum >= rest)
            return done + series_reach(s.first, s.growth, s.steps, rest);
        done += s.steps;
        if (done == limit)
            return limit;
        rest -= (kvt_ticks)sum; /* sum < rest */
        context += s.steps * batch;
        windowed += s.steps * windowed_growth;
        while (segment + 1 < row->segments && row->start[segment + 1] <= context)
            segment += 1;
    }
}
