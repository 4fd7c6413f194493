/*
 * costs.h - a role's step times, frozen to integers before a run starts
 *
 * The engine never evaluates a law: it reads this table. Time is exact, so that k regular decode
 * steps sum in closed form and a macro-step equals its steps one by one:
 *
 *   decode step of b requests whose contexts sum to c, and min(context, window) to w:
 *       T = base(b) + line(b, c) + window_slope * w                             ticks
 *     where line(b, .) is continuous, non-decreasing and piecewise linear with whole-number slopes
 *     (ticks per token of context); segment s covers c >= start[s] up to the next start.
 *   a step with prompt tokens (alone or mixed with decode) of m new tokens in all:
 *       T = tokens(m) + pair_slope * pairs + prefill_base + rows * row_cost
 *           + (decode part as above, without base)
 *     where pairs = sum over the step's chunks of n*p + n*(n+1)/2 for n new tokens after p cached
 *     ones (query-key pairs), pair_slope is in ticks per 2^20 pairs, and tokens(m) is piecewise
 *     linear in m.
 * The floors of the host are inside base and line: T is what a step takes when the scheduler
 * overlaps. A step takes at least host_floor, in which the scheduler plans it, and host_request for
 * each token that it gives out, which one front end decodes and sends: no server is faster for long
 * than its front end. Both run beside the GPU. A step with prompt tokens also takes prefill_floor.
 * host_ticks is what the host adds to every step when it does not: 0 in the tables of a role that
 * overlaps, and never part of what the functions below return.
 */
#ifndef KVT_COST_COSTS_H
#define KVT_COST_COSTS_H

#include <stdint.h>

#include "sim/base/ticks.h"

#define KVT_COSTS_SEGMENTS  10
#define KVT_COSTS_STEPS_MAX (INT64_C(1) << 40) /* of one run; keeps sums below 2^127 */

struct kvt_cost_row { /* decode with exactly b requests */
    kvt_ticks base;
    int32_t segments;                    /* >= 1 */
    int64_t start[KVT_COSTS_SEGMENTS];   /* start[0] == 0 */
    kvt_ticks value[KVT_COSTS_SEGMENTS]; /* line at start[s] */
    int64_t slope[KVT_COSTS_SEGMENTS];   /* ticks per token, >= 0 */
};

struct kvt_costs {
    int32_t batch_max;
    struct kvt_cost_row *rows; /* [batch_max + 1], row 0 unused; from the run's arena */
    int64_t window_slope;      /* ticks per token inside the window, summed over windowed layers */
    int32_t window;            /* tokens; 0: no windowed or sparse layers */
    int32_t token_knots;       /* of tokens(m) */
    const int64_t *token_at;   /* [token_knots], increasing from 0 */
    const kvt_ticks *token_time; /* [token_knots] */
    int64_t pair_slope;          /* ticks per 2^20 query-key pairs */
    kvt_ticks prefill_base;      /* per step with prompt tokens: uncaptured launches */
    kvt_ticks prefill_floor;     /* a step with prompt tokens takes at least this (host bound) */
    kvt_ticks host_request;      /* and this for each request that gets a token */
    kvt_ticks row_cost;          /* per prompt that ends in the step (lm_head) */
    kvt_ticks host_ticks;
    int64_t zero_slope;        /* ticks per token of a page that was freed, when they are zeroed */
    int64_t copy_slope;        /* ticks per token copied back from host memory (resume) */
    kvt_ticks request_latency; /* a request's first token comes this much later than its last
                                * prompt step ends: front end and detokenizer, not the GPU */
};

/* line(b, c) and the whole decode step. */
kvt_ticks kvt_costs_line(const struct kvt_costs *costs, int32_t batch, int64_t context);
kvt_ticks kvt_costs_decode(const struct kvt_costs *costs, int32_t batch, int64_t context,
                           int64_t windowed);

struct kvt_step_load {
    int32_t decodes;       /* requests that decode one token */
    int64_t context;       /* sum of their contexts */
    int64_t windowed;      /* sum of min(context, window) */
    int64_t prompt_tokens; /* new prompt tokens */
    int64_t pairs;         /* query-key pairs of the prompt tokens */
    int32_t prompt_ends;   /* prompts whose last chunk this is */
    int64_t copied_tokens; /* brought back from host memory */
    int64_t freed_tokens;  /* room of the pages that went back since the step before */
};
kvt_ticks kvt_costs_step(const struct kvt_costs *costs, const struct kvt_step_load *load);

/* Time of steps decode steps in a row, the first with the given sums, each adding one token to
 * every context (windowed grows by windowed_growth a step, the requests still inside the window).
 * Exact: equals the sum of kvt_costs_decode over the steps. O(segments), without a division while
 * the run stays inside one segment. Saturates at KVT_NEVER. steps is 0..KVT_COSTS_STEPS_MAX. */
kvt_ticks kvt_costs_decode_run(const struct kvt_costs *costs, int32_t batch, int64_t context,
                               int64_t windowed, int32_t windowed_growth, int64_t steps);

/* The smallest k in 1..limit with kvt_costs_decode_run(.., k) >= time, or limit when there is none.
 * Solved in floating point, then corrected in integers. limit is 1..KVT_COSTS_STEPS_MAX. */
int64_t kvt_costs_steps_until(const struct kvt_costs *costs, int32_t batch, int64_t context,
                              int64_t windowed, int32_t windowed_growth, int64_t limit,
                              kvt_ticks time);

#endif
