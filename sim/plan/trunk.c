#include "sim/plan/trunk.h"

#include <stdlib.h>
#include <string.h>

enum kvt_status kvt_state_keep(struct kvt_state *state, const struct kvt_simulation *simulation,
                               struct kvt_err *err)
{
    const struct kvt_arena *arena = &simulation->arena;
    if (state->bytes == NULL)
        state->bytes = malloc(arena->used);
    if (state->bytes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a state of %zu bytes", arena->used);
    memcpy(state->bytes, arena->base, arena->used);
    state->des = simulation->des;
    state->time = simulation->des.now;
    return KVT_OK;
}

void kvt_state_put_back(const struct kvt_state *state, struct kvt_simulation *simulation)
{
    memcpy(simulation->arena.base, state->bytes, simulation->arena.used);
    simulation->des = state->des;
}

void kvt_state_release(struct kvt_state *state)
{
    free(state->bytes);
    *state = (struct kvt_state){.bytes = NULL};
}

static kvt_ticks next_time(const struct kvt_des *des)
{
    return kvt_timeline_time(&des->timeline, kvt_timeline_next(&des->timeline));
}

static enum kvt_status grow(struct kvt_trunk *trunk, kvt_ticks from, bool keeps,
                            struct kvt_err *err)
{
    struct kvt_des *des = &trunk->simulation.des;
    KVT_TRY(kvt_state_keep(&trunk->states[trunk->count++], &trunk->simulation, err));
    for (int32_t i = 1; i < KVT_TRUNK_STATES && keeps; i++) {
        kvt_ticks goal = from + (trunk->until - from) / KVT_TRUNK_STATES * i;
        while (next_time(des) < goal && kvt_des_step(des, 1))
            continue;
        if (next_time(des) == KVT_NEVER)
            break;
        KVT_TRY(kvt_state_keep(&trunk->states[trunk->count++], &trunk->simulation, err));
    }
    return KVT_OK;
}

enum kvt_status kvt_trunk_init(struct kvt_trunk *trunk, const struct kvt_config *config,
                               const struct kvt_simulate_options *options, int32_t room,
                               kvt_ticks from, kvt_ticks until, bool keeps, struct kvt_err *err)
{
    struct kvt_simulate_options how = *options;
    *trunk = (struct kvt_trunk){.room = room, .until = until};
    trunk->strikes = calloc((size_t)room, sizeof *trunk->strikes);
    if (trunk->strikes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d strikes", room);
    for (int32_t i = 0; i < room; i++)
        trunk->strikes[i].time = KVT_NEVER;
    how.strikes = trunk->strikes;
    how.strike_count = room;
    KVT_TRY(kvt_simulation_init(&trunk->simulation, config, &how, err));
    const struct kvt_trace *trace = &trunk->simulation.trace;
    if (until < 0)
        trunk->until = trace->arrival[trace->count - 1];
    return grow(trunk, from, keeps, err);
}

void kvt_trunk_branch(struct kvt_trunk *trunk, const struct kvt_strike strikes[], int32_t count,
                      uint64_t seed)
{
    struct kvt_faults *faults = trunk->simulation.faults;
    kvt_assert(count >= 1 && count <= trunk->room);
    int32_t at = trunk->count - 1;
    while (at > 0 && trunk->states[at].time >= strikes[0].time)
        at--;
    kvt_state_put_back(&trunk->states[at], &trunk->simulation);
    memcpy(trunk->strikes, strikes, (size_t)count * sizeof *strikes);
    faults->count = count;
    faults->seed = seed;
    faults->force_aliases = false;
    kvt_des_set_faults(&trunk->simulation.des, faults);
}

void kvt_trunk_release(struct kvt_trunk *trunk)
{
    for (int32_t i = 0; i < trunk->count; i++)
        kvt_state_release(&trunk->states[i]);
    kvt_simulation_release(&trunk->simulation);
    free(trunk->strikes);
    *trunk = (struct kvt_trunk){.count = 0};
}
