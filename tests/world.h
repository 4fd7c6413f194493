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
#define WORLD_STRIKES_MAX  8

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
    struct kvt_strike strikes[WORLD_STRIKES_MAX];
    int32_t strike_count; /* 0 unless world_draw_faults */
    struct kvt_guards guards[KVT_ROLE_COUNT];
};

struct world_outcome {
    enum kvt_status status; /* of init and finish; err says more */
    struct kvt_err err;
    uint64_t digest; /* of the decisions */
    uint64_t times;  /* of all token times */
    uint64_t gaps;   /* of the ITL histogram */
    uint64_t gauges; /* of the series */
    uint64_t faults; /* of what came of each strike */
    int64_t events, steps, arrived, completed, rejected, aborted, preemptions, cached;
    int64_t left; /* live at the end: only faults may leave some */
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

/* Add one to eight strikes, and guards. Pools are then named, however the world is run. */
void world_draw_faults(struct world *world);

/* What a driver gets for the world; roles and arrivals are copied to where the caller keeps them.
 * named: even if nothing needs it. */
void world_spec(const struct world *world, bool named, struct kvt_replica_spec roles[],
                kvt_ticks arrival[], struct kvt_des_spec *spec);

/* logged: name pages and give the log a sink. Prints nothing; outcome->status says how it went. */
void world_run(struct world *world, bool exact, bool logged, struct world_outcome *outcome);

/* Step by step with named pages; tap and sink hear of every call and decision. */
void world_run_tapped(struct world *world, const struct kvt_des_tap *tap,
                      void (*sink)(void *context, const struct kvt_decision *decision),
                      struct world_outcome *outcome);

#endif
