/*
 * trunk.h - the run of a config without a strike, and branches that leave it where one falls
 *
 * A state is the arena of a run and the engine around it: a copy that is put back in its place. The
 * trunk keeps some on its way; a branch starts from the last one before its first strike, lets the
 * strikes fall, and goes on as any run. So a trial costs what happens from its strike on, not the
 * ten minutes before it.
 */
#ifndef KVT_PLAN_TRUNK_H
#define KVT_PLAN_TRUNK_H

#include "sim/plan/simulate.h"

#define KVT_TRUNK_STATES 32

struct kvt_state {
    kvt_ticks time;
    struct kvt_des des;
    unsigned char *bytes; /* of the arena; owned; NULL: nothing was kept yet */
};

/* Keep what the simulation is now, in the memory of state where it has some; the same simulation
 * each time. KVT_ENOMEM. */
enum kvt_status kvt_state_keep(struct kvt_state *state, const struct kvt_simulation *simulation,
                               struct kvt_err *err);
void kvt_state_put_back(const struct kvt_state *state, struct kvt_simulation *simulation);
void kvt_state_release(struct kvt_state *state);

struct kvt_trunk {
    struct kvt_simulation simulation;
    struct kvt_strike *strikes; /* [room], owned: those of the branch */
    int32_t room;
    kvt_ticks until; /* no strike falls after this */
    struct kvt_state states[KVT_TRUNK_STATES];
    int32_t count;
};

/* room: strikes of a branch at most. States are kept from `from` to `until`; until < 0: the last
 * arrival. keeps false: only the first, so that every branch starts there. On failure release. */
enum kvt_status kvt_trunk_init(struct kvt_trunk *trunk, const struct kvt_config *config,
                               const struct kvt_simulate_options *options, int32_t room,
                               kvt_ticks from, kvt_ticks until, bool keeps, struct kvt_err *err);

/* Stand before the first of these strikes (1 to room, by time), with what they draw from seed. */
void kvt_trunk_branch(struct kvt_trunk *trunk, const struct kvt_strike strikes[], int32_t count,
                      uint64_t seed);

void kvt_trunk_release(struct kvt_trunk *trunk);

#endif
