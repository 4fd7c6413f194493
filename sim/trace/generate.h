/*
 * generate.h - request traces from a description: when requests come, how long they are, what they
 * share
 *
 * Every purpose has its own random stream and every request its own place in it: the lengths of
 * request i depend on the seed and i alone, not on how many draws others took, so a change of the
 * arrivals leaves all lengths as they were, and a closed loop gives request i the lengths that an
 * open one would. Draws become integers at once: gaps whole nanoseconds, lengths whole tokens.
 *
 * The first arrival is at time 0, as in an imported trace, and gaps follow it. Gaps have mean
 * 1 / rate:
 *
 *     poisson    exponential (cv 1)            gamma     shape 1 / cv^2
 *     weibull    of the given shape (k < 1 is bursty)    constant  1 / rate each
 *     on-off     Poisson while on, silence while off; lengths of both exponential with means on and
 *                off; the rate while on is rate (on + off) / on
 *
 * Lengths: lognormal from its mean m and p99 has sigma = z - sqrt(z^2 - 2 ln(p99 / m)), with
 * z = 2.3263 the normal quantile, and mu = ln m - sigma^2 / 2; a p99 over exp(z^2 / 2) = 14.97 m
 * does not exist. From its mean and cv: sigma^2 = ln(1 + cv^2). Lengths are rounded, then clipped
 * to [min, max]; the mean given is that before clipping.
 *
 * Shared prefixes: a fraction share of the requests starts with one of groups prefixes of tokens
 * tokens, drawn evenly; a shorter prompt shares what it has. Lengths are not changed. Only whole
 * blocks are shared; the others get hashes of their own.
 */
#ifndef KVT_TRACE_GENERATE_H
#define KVT_TRACE_GENERATE_H

#include <gsl/gsl_rng.h>
#include <stdint.h>

#include "sim/base/names.h"
#include "sim/base/random.h"
#include "sim/trace/trace.h"

struct kvt_lengths_spec {
    enum kvt_lengths_kind kind;
    double mean, min, max, p99, cv; /* tokens; < 0 where not given */
    const int32_t *sample;          /* empirical: drawn evenly; borrowed */
    int32_t sample_count;
    struct kvt_where where; /* may be unknown: then that of the whole */
};

struct kvt_trace_spec {
    struct kvt_where where; /* of the description, for messages; may be unknown */
    struct kvt_where where_rate, where_until, where_stamp, where_gaps, where_prefixes; /* as well */
    uint64_t seed;
    double rate;      /* requests/s; 0: all arrive at 0, for closed loops that place them */
    int64_t requests; /* how many; < 0: until decides */
    double until;     /* s; arrivals at or after it are left out; < 0: requests decides */
    double stamp;     /* s; arrivals are rounded down to multiples of it (a coarse clock); 0: not */
    enum kvt_gaps_kind gaps;
    double cv, shape, on, off; /* of gaps */
    struct kvt_lengths_spec input, output;
    int64_t prefix_groups, prefix_tokens; /* groups 0: no hashes */
    double prefix_share;
    int32_t block_tokens; /* of one hash; only with groups */
};

/* The lengths of requests, ready to draw. Holds no memory. */
struct kvt_lengths {
    enum kvt_lengths_kind kind;
    enum kvt_purpose purpose;
    uint64_t seed;
    double a, b; /* fixed: value; uniform: first, count; lognormal: mu, sigma */
    int32_t min, max;
    const int32_t *sample; /* borrowed */
    int32_t sample_count;
};

/* Check and solve one description; where and what ("input", "output") are for messages. */
enum kvt_status kvt_lengths_init(struct kvt_lengths *lengths, const struct kvt_lengths_spec *spec,
                                 enum kvt_purpose purpose, uint64_t seed, struct kvt_where where,
                                 const char *what, struct kvt_err *err);

/* The length of request i, >= 1 token. rng is a scratch of kvt_rng_type; its state does not matter.
 * About 0.1 us. */
int32_t kvt_lengths_at(const struct kvt_lengths *lengths, uint64_t i, gsl_rng *rng);

/* The whole trace. KVT_ECONFIG for a description that cannot be met, KVT_ELIMIT for one with more
 * than KVT_TRACE_ROWS_MAX requests. About 0.3 us a request. */
enum kvt_status kvt_trace_generate(struct kvt_trace *trace, const struct kvt_trace_spec *spec,
                                   struct kvt_err *err);

#endif
