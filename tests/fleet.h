/*
 * fleet.h - a small fleet without a clock: the serving core, driven by hand
 *
 * A test fills in roles (fleet_role gives a plain one to change), lists requests, builds, and then
 * tells the core what happens. Steps and effects come back as text that can be worked out by hand:
 *
 *     0+8! 1+4 d2@20    a step: 8 new prompt tokens of request 0, which end its prompt; 4 of
 *                       request 1; a decode of 2 members that read 20 tokens of context
 *     first0 token1 done2 out3 send4:8 send4:3! ack4 no5 gone6
 *                       effects: tokens, finish, preemption, pieces of KV (! the last), ...
 */
#ifndef KVT_TESTS_FLEET_H
#define KVT_TESTS_FLEET_H

#include "sim/base/arena.h"
#include "sim/serve/core.h"

#define FLEET_REQUESTS 16

struct fleet {
    struct kvt_arena arena;
    struct kvt_core core;
    struct kvt_core_spec spec;
    struct kvt_replica_spec roles[KVT_ROLE_COUNT];
    int32_t input[FLEET_REQUESTS], output[FLEET_REQUESTS];
    char text[2048]; /* what happened since fleet_told */
};

/* Empty. Called again it gives back what an earlier test left. */
void fleet_begin(struct fleet *fleet);

/* One replica of a role: 100 pages of 4 tokens, 8 running, chunks of 8, no overlap, no cache. */
struct kvt_replica_spec *fleet_role(struct fleet *fleet, enum kvt_role role,
                                    enum kvt_engine engine);

void fleet_request(struct fleet *fleet, int32_t input, int32_t output);

void fleet_build(struct fleet *fleet);

void fleet_arrive(struct fleet *fleet, int32_t r);

/* Plan one step and write it down; false, and nothing written, when there is nothing to do. */
bool fleet_plan(struct fleet *fleet, int32_t replica);

/* Commit the oldest step; its effects are written down. */
void fleet_commit(struct fleet *fleet, int32_t replica);

/* Plan and commit steps until nothing is to do; at most `limit`. */
void fleet_run(struct fleet *fleet, int32_t replica, int limit);

/* Write down the effects that are left by a direct call of the core. */
void fleet_effects(struct fleet *fleet);

/* The text so far; it starts anew. */
const char *fleet_told(struct fleet *fleet);

#endif
