#include <gsl/gsl_randist.h>
#include <math.h>

#include "sim/trace/generate.h"

#define Z99 2.3263478740408408 /* the 99th percentile of the standard normal */

static enum kvt_status lognormal_solve(struct kvt_lengths *lengths,
                                       const struct kvt_lengths_spec *spec, struct kvt_where where,
                                       const char *what, struct kvt_err *err)
{
    double sigma;
    if (spec->p99 >= 0) {
        double log_ratio = log(spec->p99 / spec->mean);
        if (!(log_ratio >= 0 && log_ratio <= Z99 * Z99 / 2))
            return kvt_err_at(err, KVT_ECONFIG, where,
                              "%s: want the p99 of a lognormal between its mean of %g and %.6g "
                              "(14.97 times), got %g",
                              what, spec->mean, spec->mean * exp(Z99 * Z99 / 2), spec->p99);
        sigma = Z99 - sqrt(Z99 * Z99 - 2 * log_ratio);
    } else if (spec->cv >= 0) {
        sigma = sqrt(log1p(spec->cv * spec->cv));
    } else {
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: want the p99 or the cv of a lognormal, got none", what);
    }
    if (spec->min > spec->mean || (spec->max >= 0 && spec->max < spec->mean))
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: want the mean of a lognormal (%g) between its min and its max, got "
                          "the %s %g",
                          what, spec->mean, spec->min > spec->mean ? "min" : "max",
                          spec->min > spec->mean ? spec->min : spec->max);
    lengths->a = log(spec->mean) - sigma * sigma / 2;
    lengths->b = sigma;
    return KVT_OK;
}

static enum kvt_status bounds_solve(struct kvt_lengths *lengths,
                                    const struct kvt_lengths_spec *spec, struct kvt_where where,
                                    const char *what, struct kvt_err *err)
{
    double min = spec->min < 0 ? 1 : spec->min, max = spec->max;
    if (max < 0)
        max = KVT_TRACE_TOKENS_MAX;
    if (!(min >= 1 && min <= max && max <= KVT_TRACE_TOKENS_MAX))
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: want lengths with 1 <= min <= max <= %d, got %g and %g", what,
                          KVT_TRACE_TOKENS_MAX, min, max);
    lengths->min = (int32_t)ceil(min);
    lengths->max = (int32_t)floor(max);
    if (lengths->min > lengths->max)
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: want a whole number between %g and %g, got none", what, min, max);
    return KVT_OK;
}

enum kvt_status kvt_lengths_init(struct kvt_lengths *lengths, const struct kvt_lengths_spec *spec,
                                 enum kvt_purpose purpose, uint64_t seed, struct kvt_where where,
                                 const char *what, struct kvt_err *err)
{
    *lengths = (struct kvt_lengths){.kind = spec->kind, .purpose = purpose, .seed = seed};
    KVT_TRY(bounds_solve(lengths, spec, where, what, err));
    bool needs_mean = spec->kind == KVT_LENGTHS_FIXED || spec->kind == KVT_LENGTHS_LOGNORMAL;
    if (needs_mean && !(spec->mean >= 1 && spec->mean <= KVT_TRACE_TOKENS_MAX))
        return kvt_err_at(err, KVT_ECONFIG, where, "%s: want a mean of 1 to %d tokens, got %g",
                          what, KVT_TRACE_TOKENS_MAX, spec->mean);
    switch (spec->kind) {
    case KVT_LENGTHS_FIXED:
        lengths->a = spec->mean;
        return KVT_OK;
    case KVT_LENGTHS_UNIFORM:
        if (spec->min < 0 || spec->max < 0)
            return kvt_err_at(err, KVT_ECONFIG, where,
                              "%s: want the min and the max of a uniform length", what);
        return KVT_OK;
    case KVT_LENGTHS_LOGNORMAL:
        return lognormal_solve(lengths, spec, where, what, err);
    case KVT_LENGTHS_EMPIRICAL:
        if (spec->sample == NULL || spec->sample_count < 1)
            return kvt_err_at(err, KVT_ECONFIG, where, "%s: want lengths to draw from, got none",
                              what);
        lengths->sample = spec->sample;
        lengths->sample_count = spec->sample_count;
        return KVT_OK;
    }
    kvt_unreachable();
}

int32_t kvt_lengths_at(const struct kvt_lengths *lengths, uint64_t i, gsl_rng *rng)
{
    struct kvt_stream stream;
    double tokens = lengths->a;
    kvt_stream_init(&stream, lengths->seed, lengths->purpose, i);
    switch (lengths->kind) {
    case KVT_LENGTHS_FIXED:
        break;
    case KVT_LENGTHS_UNIFORM:
        return lengths->min +
               (int32_t)kvt_stream_below(&stream, (uint64_t)(lengths->max - lengths->min) + 1);
    case KVT_LENGTHS_LOGNORMAL:
        kvt_rng_attach(rng, &stream);
        tokens = gsl_ran_lognormal(rng, lengths->a, lengths->b);
        break;
    case KVT_LENGTHS_EMPIRICAL:
        tokens = lengths->sample[kvt_stream_below(&stream, (uint64_t)lengths->sample_count)];
        break;
    }
    tokens = floor(tokens + 0.5);
    if (tokens < lengths->min)
        return lengths->min;
    return tokens > lengths->max ? lengths->max : (int32_t)tokens;
}
