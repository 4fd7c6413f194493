/*
 * bounds.h - what no schedule of a fleet can beat, for candidates that need not be simulated
 *
 * From the frozen step times of a fleet that was set up (kvt_simulation_init) follow lower bounds
 * of every latency; a candidate whose bound breaks its SLO misses it in any run. Sound means: the
 * run would miss it too (a test runs what was pruned).
 *
 *   rejects   requests that can never fit (kvt_core_can_serve) are more than allowed
 *   itl       each gap takes a step at least: the cheapest step of one request
 *   ttft      a prompt of m tokens takes m * min tokens(x)/x over x <= m, its pairs, its launches
 *   e2el      that, and a cheapest step for each further token
 *   load      by the last arrival + limit the share p of the requests that must meet a TTFT has
 *             had its prompts computed, and all of it is done but what can be in flight: the work
 *             of the cheapest prompts and, that many fewer, of the cheapest outputs fits into
 *             replicas * (last - first arrival + limit) of their role. A limit of the E2EL says
 *             so of whole requests. Work of a token: the least share of any step of any batch
 *
 * A percentile q over n values is numpy's: at least n - floor(q (n - 1)) values above the limit put
 * it above. 0.4 % are left for the bins of the histograms. Nothing is said of loads with clients
 * that go away; of closed loops only rejects and itl.
 */
#ifndef KVT_PLAN_BOUNDS_H
#define KVT_PLAN_BOUNDS_H

#include "sim/plan/simulate.h"

/* clang-format off */
#define KVT_BOUNDS(X)                                                        \
    X(NONE,    "none")                                                       \
    X(REJECTS, "requests do not fit")                                        \
    X(ITL,     "a single step is slower than the ITL bound")                 \
    X(TTFT,    "prompts alone take longer than the TTFT bound")              \
    X(E2EL,    "requests alone take longer than the E2EL bound")             \
    X(LOAD,    "the load is more work than its GPUs can do in time")
/* clang-format on */
#define X(name, text) KVT_BOUND_##name,
enum kvt_bound { KVT_BOUNDS(X) KVT_BOUND_COUNT };
#undef X
extern const char *const kvt_bound_texts[KVT_BOUND_COUNT];

/* The first bound that rules out the simulation, which was initialised and has not run; NONE: it
 * has to be run. rejected: the share of the requests that may be rejected. least: what is at least
 * the run's largest value/limit; infinite for REJECTS, 0 for NONE. detail gets the figures. Passes
 * over the requests and sorts, some 500 ns a request. KVT_ENOMEM only. */
enum kvt_status kvt_bounds_judge(const struct kvt_simulation *simulation, double rejected,
                                 enum kvt_bound *bound, double *least, char *detail,
                                 size_t size_bytes, struct kvt_err *err);

#endif
