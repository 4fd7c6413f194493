#include "sim/trace/generate.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_sf_gamma.h>
#include <math.h>
#include <stdlib.h>

#include "sim/base/list.h"

#define SPAN_NS_MAX (INT64_C(1000000000) * KVT_TRACE_SPAN_S_MAX)

/* The place of a part of the description, or of the whole where that is not known. */
static struct kvt_where place(const struct kvt_trace_spec *spec, struct kvt_where part)
{
    return part.file != NULL ? part : spec->where;
}

static enum kvt_status spec_refuse(const struct kvt_trace_spec *spec, struct kvt_where part,
                                   const char *want, double got, struct kvt_err *err)
{
    return kvt_err_at(err, KVT_ECONFIG, place(spec, part), "want %s, got %g", want, got);
}

static enum kvt_status gaps_check(const struct kvt_trace_spec *spec, struct kvt_err *err)
{
    switch (spec->gaps) {
    case KVT_GAPS_GAMMA:
        if (!(spec->cv >= 1e-6 && spec->cv <= 100))
            return spec_refuse(spec, spec->where_gaps, "gamma gaps with a cv of 1e-6 to 100",
                               spec->cv, err);
        return KVT_OK;
    case KVT_GAPS_WEIBULL:
        if (!(spec->shape >= 0.05 && spec->shape <= 100))
            return spec_refuse(spec, spec->where_gaps, "weibull gaps with a shape of 0.05 to 100",
                               spec->shape, err);
        return KVT_OK;
    case KVT_GAPS_ON_OFF:
        if (!(spec->on > 0 && spec->on <= 1e6))
            return spec_refuse(spec, spec->where_gaps,
                               "on times of a mean over 0 s and up to 1e6 s", spec->on, err);
        if (!(spec->off >= 0 && spec->off <= 1e6))
            return spec_refuse(spec, spec->where_gaps, "off times of a mean of 0 s to 1e6 s",
                               spec->off, err);
        return KVT_OK;
    case KVT_GAPS_POISSON:
    case KVT_GAPS_CONSTANT:
        return KVT_OK;
    }
    kvt_unreachable();
}

static enum kvt_status spec_check(const struct kvt_trace_spec *spec, struct kvt_err *err)
{
    if (spec->rate != 0 && !(spec->rate >= 1e-6 && spec->rate <= 1e9))
        return spec_refuse(spec, spec->where_rate, "a rate of 1e-6 to 1e9 requests/s", spec->rate,
                           err);
    if (spec->requests == 0 || (spec->requests < 0 && (spec->until < 0 || spec->rate == 0)))
        return spec_refuse(spec, spec->where, "at least 1 request", 0, err);
    if (spec->until >= 0 && !(spec->until <= KVT_TRACE_SPAN_S_MAX))
        return spec_refuse(spec, spec->where_until, "arrivals for at most 100 days (8640000 s)",
                           spec->until, err);
    if (!(spec->stamp >= 0 && spec->stamp <= 86400))
        return spec_refuse(spec, spec->where_stamp, "stamps of 0 s to 86400 s", spec->stamp, err);
    if (spec->prefix_groups < 0 || spec->prefix_groups > 1000000000)
        return spec_refuse(spec, spec->where_prefixes, "0 to 1e9 prefix groups",
                           (double)spec->prefix_groups, err);
    if (spec->prefix_groups > 0) {
        if (!(spec->prefix_share >= 0 && spec->prefix_share <= 1))
            return spec_refuse(spec, spec->where_prefixes, "a prefix share of 0 to 1",
                               spec->prefix_share, err);
        if (spec->prefix_tokens < 1 || spec->prefix_tokens > KVT_TRACE_TOKENS_MAX)
            return spec_refuse(spec, spec->where_prefixes, "a prefix of 1 to 2^26 tokens",
                               (double)spec->prefix_tokens, err);
        if (spec->block_tokens < 1)
            return spec_refuse(spec, spec->where_prefixes, "hashes of at least 1 token",
                               spec->block_tokens, err);
    }
    return gaps_check(spec, err);
}

/* Where the arrivals are: all in ns, so that a written trace reads back the same. */
struct clock {
    const struct kvt_trace_spec *spec;
    gsl_rng *rng;            /* gaps */
    struct kvt_stream phase; /* lengths of on and off times */
    double scale;            /* of one gap, ns */
    double on_left;          /* ns until the on time ends */
};

static double phase_draw(struct clock *clock, double mean_s)
{
    return -log1p(-kvt_stream_unit(&clock->phase)) * mean_s * 1e9;
}

static void clock_init(struct clock *clock, const struct kvt_trace_spec *spec, gsl_rng *rng)
{
    struct kvt_stream stream;
    *clock = (struct clock){.spec = spec, .rng = rng, .scale = 1e9 / spec->rate};
    kvt_stream_init(&stream, spec->seed, KVT_PURPOSE_ARRIVAL, 0);
    kvt_rng_attach(rng, &stream);
    kvt_stream_init(&clock->phase, spec->seed, KVT_PURPOSE_ARRIVAL, 1);
    if (spec->gaps == KVT_GAPS_WEIBULL)
        clock->scale /= gsl_sf_gamma(1 + 1 / spec->shape);
    if (spec->gaps == KVT_GAPS_GAMMA)
        clock->scale *= spec->cv * spec->cv;
    if (spec->gaps == KVT_GAPS_ON_OFF) {
        clock->scale *= spec->on / (spec->on + spec->off);
        clock->on_left = phase_draw(clock, spec->on);
    }
}

/* A gap of Poisson arrivals that runs only while on: cut by off times, each added whole. */
static double on_off_gap(struct clock *clock)
{
    double gap = gsl_ran_exponential(clock->rng, clock->scale), silent = 0;
    double left = gap;
    while (left >= clock->on_left) {
        left -= clock->on_left;
        silent += phase_draw(clock, clock->spec->off);
        clock->on_left = phase_draw(clock, clock->spec->on);
        if (silent > (double)SPAN_NS_MAX)
            break;
    }
    clock->on_left -= left;
    return gap + silent;
}

/* The next gap in ns, at most 100 days. */
static int64_t clock_gap(struct clock *clock)
{
    const struct kvt_trace_spec *spec = clock->spec;
    kvt_assert(spec != NULL);
    double gap = clock->scale;
    switch (spec->gaps) {
    case KVT_GAPS_POISSON:
        gap = gsl_ran_exponential(clock->rng, clock->scale);
        break;
    case KVT_GAPS_GAMMA:
        gap = gsl_ran_gamma(clock->rng, 1 / (spec->cv * spec->cv), clock->scale);
        break;
    case KVT_GAPS_WEIBULL:
        gap = gsl_ran_weibull(clock->rng, clock->scale, spec->shape);
        break;
    case KVT_GAPS_ON_OFF:
        gap = on_off_gap(clock);
        break;
    case KVT_GAPS_CONSTANT:
        break;
    }
    return gap < (double)SPAN_NS_MAX ? (int64_t)nearbyint(gap) : SPAN_NS_MAX;
}

static enum kvt_status arrivals_generate(struct kvt_trace *trace, const struct kvt_trace_spec *spec,
                                         gsl_rng *rng, struct kvt_err *err)
{
    struct clock clock = {0};
    int64_t limit = spec->requests < 0 ? KVT_TRACE_ROWS_MAX + INT64_C(1) : spec->requests;
    int64_t until = spec->until < 0 ? SPAN_NS_MAX : (int64_t)nearbyint(spec->until * 1e9);
    int64_t stamp = (int64_t)nearbyint(spec->stamp * 1e9);
    int64_t room = 0, now = 0, count = 0;
    if (spec->rate > 0)
        clock_init(&clock, spec, rng);
    for (; count < limit && count <= KVT_TRACE_ROWS_MAX; count++) {
        if (count > 0 && spec->rate > 0)
            now += clock_gap(&clock);
        if (now >= until && (count > 0 || spec->until == 0))
            break;
        kvt_ticks *grown = kvt_list_grow(trace->arrival, count, &room, sizeof *grown);
        if (grown == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for %lld requests", (long long)count);
        trace->arrival = grown;
        trace->arrival[count] = kvt_ticks_from_ns(stamp > 0 ? now - now % stamp : now);
    }
    if (count > KVT_TRACE_ROWS_MAX)
        return kvt_err_at(err, KVT_ELIMIT, spec->where, "want at most %d requests, got more",
                          KVT_TRACE_ROWS_MAX);
    if (count == 0)
        return spec_refuse(spec, spec->where, "at least 1 request", 0, err);
    if (count < spec->requests && spec->until < 0)
        return spec_refuse(spec, spec->where_rate,
                           "requests that arrive within 100 days; the rate is too low", spec->rate,
                           err);
    trace->count = (int32_t)count;
    return KVT_OK;
}

static enum kvt_status lengths_generate(struct kvt_trace *trace, const struct kvt_trace_spec *spec,
                                        gsl_rng *rng, struct kvt_err *err)
{
    struct kvt_lengths input, output;
    KVT_TRY(kvt_lengths_init(&input, &spec->input, KVT_PURPOSE_INPUT, spec->seed,
                             place(spec, spec->input.where), "input", err));
    KVT_TRY(kvt_lengths_init(&output, &spec->output, KVT_PURPOSE_OUTPUT, spec->seed,
                             place(spec, spec->output.where), "output", err));
    size_t count = (size_t)trace->count;
    kvt_ticks *fitted = realloc(trace->arrival, count * sizeof *fitted);
    if (fitted != NULL)
        trace->arrival = fitted;
    trace->input = malloc(count * sizeof *trace->input);
    trace->output = malloc(count * sizeof *trace->output);
    if (trace->input == NULL || trace->output == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d requests", trace->count);
    for (int32_t i = 0; i < trace->count; i++) {
        trace->input[i] = kvt_lengths_at(&input, (uint64_t)i, rng);
        trace->output[i] = kvt_lengths_at(&output, (uint64_t)i, rng);
    }
    return KVT_OK;
}

/* Hashes count from 0: those of prefix g are g * blocks + b, private ones follow all prefixes. */
static enum kvt_status hashes_generate(struct kvt_trace *trace, const struct kvt_trace_spec *spec,
                                       struct kvt_err *err)
{
    int64_t total = 0, block = spec->block_tokens;
    for (int32_t i = 0; i < trace->count; i++)
        total += (trace->input[i] + block - 1) / block;
    trace->block_tokens = spec->block_tokens;
    trace->hash_begin = malloc(((size_t)trace->count + 1) * sizeof *trace->hash_begin);
    trace->hashes = malloc((size_t)total * sizeof *trace->hashes);
    if (trace->hash_begin == NULL || trace->hashes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %lld hashes", (long long)total);
    uint64_t prefix_blocks = (uint64_t)(spec->prefix_tokens / block), at = 0;
    uint64_t own = prefix_blocks * (uint64_t)spec->prefix_groups;
    for (int32_t i = 0; i < trace->count; i++) {
        struct kvt_stream stream;
        kvt_stream_init(&stream, spec->seed, KVT_PURPOSE_PREFIX, (uint64_t)i);
        trace->hash_begin[i] = (int64_t)at;
        uint64_t shared = 0, group = 0;
        if (kvt_stream_unit(&stream) < spec->prefix_share) {
            group = kvt_stream_below(&stream, (uint64_t)spec->prefix_groups);
            shared = (uint64_t)(trace->input[i] / block);
            shared = shared < prefix_blocks ? shared : prefix_blocks;
        }
        uint64_t blocks = (uint64_t)((trace->input[i] + block - 1) / block);
        for (uint64_t b = 0; b < blocks; b++)
            trace->hashes[at++] = b < shared ? group * prefix_blocks + b : own++;
    }
    trace->hash_begin[trace->count] = (int64_t)at;
    return KVT_OK;
}

enum kvt_status kvt_trace_generate(struct kvt_trace *trace, const struct kvt_trace_spec *spec,
                                   struct kvt_err *err)
{
    *trace = (struct kvt_trace){.tenants = 1};
    KVT_TRY(spec_check(spec, err));
    gsl_rng *rng = gsl_rng_alloc(kvt_rng_type);
    if (rng == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a random stream");
    enum kvt_status status = arrivals_generate(trace, spec, rng, err);
    if (status == KVT_OK)
        status = lengths_generate(trace, spec, rng, err);
    if (status == KVT_OK && spec->prefix_groups > 0)
        status = hashes_generate(trace, spec, err);
    gsl_rng_free(rng);
    if (status != KVT_OK)
        kvt_trace_release(trace);
    return status;
}
