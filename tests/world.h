/*
 * world.h - small random fleets and loads for tests of the serving core and the engine
 *
 * A world is drawn from a seed: roles, engines, pools of few pages, windows, prefixes, links, ties.
 * Running it gives everything that must not depend on how it was run.
 */
#ifndef KVT_TESTS_WORLD_H
#define KVT_TESTS_WORLD_H

#include "sim/base/random.h"
#include "sim/des/engine.h"

#define WORLD_REQUESTS_MAX 400
#define WORLD_TENANTS_MAX  3

struct world {
    uint64_t seed;
    struct kvt_replica_spec roles[KVT_ROLE_COUNT];
    struct kvt_des_spec spec;
    struct kvt_costs costs[KVT_ROLE_COUNT];
    struct kvt_cost_row rows[KVT_ROLE_COUNT][64];
    int64_t token_at[2];
    kvt_ticks token_time[2];
    int32_t input[WORLD_REQUESTS_MAX], output[WORLD_REQUESTS_MAX];
    kvt_ticks arrival[WORLD_REQUESTS_MAX], patience[WORLD_REQUESTS_MAX];
    int64_t hash_begin[WORLD_REQUESTS_MAX + 1];
    uint64_t hashes[WORLD_REQUESTS_MAX * 16];
    uint16_t tenant[WORLD_REQUESTS_MAX];
    bool is_long;      /* prompts of up to 300,000 tokens, past every 16-bit count */
    bool is_clockwork; /* every step takes as long: all ends and arrivals tie */
    int32_t cancels;   /* requests cancelled at fixed event-independent times */
};

struct world_outcome {
    enum kvt_status status; /* of init and finish; err says more */
    struct kvt_err err;
    uint64_t digest; /* of the decisions */
    uint64_t times;  /* of all token times */
    uint64_t gaps;   /* of the ITL histogram */
    uint64_t gauges; /* of the series */
    int64_t events, steps, arrived, completed, rejected, aborted, preemptions, cached;
    kvt_ticks end;
    /* Gaps between tokens of measured requests that completed: each one's add up to the time from
     * its first token to its last. Both 0 unless requests were cancelled. */
    int64_t gaps_missing, gap_ticks_missing;
};

/* What of a == b must hold however a world is run; NULL, or the name of the first that does not. */
const char *world_difference(const struct world_outcome *a, const struct world_outcome *b);

/* Pages of the largest pool: what a check of every invariant walks over. */
int32_t world_pages(const struct world *world);

void world_draw(struct world *world, uint64_t seed);

/* logged: name pages and give the log a sink. Prints nothing; outcome->status says how it went. */
void world_run(struct world *world, bool exact, bool logged, struct world_outcome *outcome);

#endif
