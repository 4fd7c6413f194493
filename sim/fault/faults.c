#include "sim/fault/faults.h"

#include "sim/fault/parts.h"

/* Room for deviations of that many strikes. */
static int32_t deviations(int32_t count)
{
    return KVT_DEVIATIONS_MAX + (count > 1 ? (count - 1) * KVT_DEVIATIONS_EACH : 0);
}

#define LANDING_PAGES (1 << 13)

/* One event may cancel every request, and have each deviation fire or wake its replica. */
static int32_t actions_of(int32_t count, int32_t requests)
{
    return KVT_FAULT_ACTIONS + requests + 2 * deviations(count);
}

size_t kvt_faults_bytes(int32_t count, int32_t requests, int32_t replicas)
{
    size_t each = sizeof(int32_t) + sizeof(struct kvt_fault_result);
    return (size_t)count * each + (size_t)replicas * (sizeof(int32_t) + sizeof(uint32_t)) +
           (size_t)deviations(count) * sizeof(struct kvt_deviation) +
           (size_t)actions_of(count, requests) * sizeof(struct kvt_fault_action) +
           LANDING_PAGES * 3 * sizeof(int32_t) + 1024; /* and what alignment takes */
}

enum kvt_status kvt_faults_init(struct kvt_faults *faults, struct kvt_arena *arena,
                                struct kvt_core *core, const struct kvt_faults_spec *spec,
                                struct kvt_err *err)
{
    size_t count = (size_t)spec->count, replicas = (size_t)core->replica_count;
    *faults = (struct kvt_faults){.core = core,
                                  .strikes = spec->strikes,
                                  .count = spec->count,
                                  .seed = spec->seed,
                                  .landing_page_capacity = LANDING_PAGES,
                                  .action_capacity = actions_of(spec->count, core->request_count),
                                  .deviation_capacity = deviations(spec->count),
                                  .sink = core->log.sink,
                                  .sink_context = core->log.context,
                                  .swapped = {KVT_NONE, KVT_NONE}};
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        faults->guards[role] = spec->guards[role];
    for (int32_t i = 0; i < core->replica_count; i++)
        kvt_assert(core->replicas[i].pages.named);
    KVT_TRY(kvt_arena_get(arena, count, sizeof *faults->armed, "faults", &faults->armed, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *faults->results, "faults", &faults->results, err));
    KVT_TRY(kvt_arena_get(arena, (size_t)faults->deviation_capacity, sizeof *faults->deviations,
                          "faults", &faults->deviations, err));
    KVT_TRY(kvt_arena_get(arena, replicas, sizeof *faults->open, "faults", &faults->open, err));
    KVT_TRY(kvt_arena_get(arena, replicas, sizeof *faults->incarnation, "faults",
                          &faults->incarnation, err));
    KVT_TRY(kvt_arena_get(arena, (size_t)faults->landing_page_capacity, 3 * sizeof(int32_t),
                          "faults", &faults->landing_pages, err));
    KVT_TRY(kvt_arena_get(arena, (size_t)faults->action_capacity, sizeof *faults->actions, "faults",
                          &faults->actions, err));
    core->log.sink = kvt_fault_see;
    core->log.context = faults;
    return KVT_OK;
}

/* ---- what is due -------------------------------------------------------------------------- */

static kvt_ticks earlier(kvt_ticks a, kvt_ticks b)
{
    return a < b ? a : b;
}

kvt_ticks kvt_faults_next(const struct kvt_faults *faults)
{
    kvt_ticks next = faults->next < faults->count ? faults->strikes[faults->next].time : KVT_NEVER;
    for (int32_t i = 0; i < faults->landing_count; i++)
        next = earlier(next, faults->landings[i].time);
    for (int32_t i = 0; i < faults->withheld_count; i++)
        next = earlier(next, faults->withheld[i].until);
    for (int32_t i = 0; i < faults->late_ack_count; i++)
        next = earlier(next, faults->late_acks[i].time);
    for (int32_t i = 0; i < faults->deviation_count; i++)
        if (faults->deviations[i].open)
            next = earlier(next, faults->deviations[i].heals);
    return next;
}

static void strike(struct kvt_faults *faults, int32_t at)
{
    const struct kvt_strike *s = &faults->strikes[at];
    enum kvt_fault_kind kind = kvt_fault_variants[s->variant].kind;
    kvt_core_note(faults->core, KVT_DECIDE_INJECT, s->request, s->replica, s->variant);
    int32_t sending =
        s->variant == KVT_STRIKE_WRITE_TRANSFER ? kvt_fault_in_transfer(faults, at) : KVT_NONE;
    if (sending != KVT_NONE)
        kvt_fault_abort_transfer(faults, at, sending);
    else if (kvt_fault_is_armed[kind])
        faults->armed[faults->armed_count++] = at;
    else if (kind == KVT_FAULT_LEAK || kind == KVT_FAULT_LIVENESS)
        kvt_fault_withhold(faults, at);
    else if (kind == KVT_FAULT_NODE_FAULT)
        kvt_fault_strike_node(faults, at);
    else
        kvt_fault_strike_table(faults, at);
}

void kvt_faults_strike(struct kvt_faults *faults)
{
    kvt_ticks now = faults->core->log.now;
    while (faults->next < faults->count && faults->strikes[faults->next].time <= now)
        strike(faults, faults->next++);
    kvt_fault_land_due(faults);
    int32_t kept = 0;
    for (int32_t i = 0; i < faults->late_ack_count; i++) {
        const struct kvt_late_ack ack = faults->late_acks[i];
        if (ack.time > now)
            faults->late_acks[kept++] = ack;
        else
            kvt_fault_act(faults,
                          (struct kvt_fault_action){.kind = KVT_FAULT_ACK, .request = ack.request});
    }
    faults->late_ack_count = kept;
    for (int32_t i = 0; i < faults->withheld_count;)
        if (faults->withheld[i].until <= now)
            kvt_fault_give_back(faults, i);
        else
            i++;
    for (int32_t i = 0; i < faults->deviation_count; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        if (!d->open || d->heals > now)
            continue;
        d->heals = KVT_NEVER;
        kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_HEAL, .request = d->reader});
        if (d->exposed) { /* too late: its reader goes on from what it read, and nothing tells */
            d->kind = KVT_BYTES_COPIED;
            d->written = d->owned = d->expected;
            continue;
        }
        d->open = false;
        faults->open[d->replica]--;
    }
    kvt_faults_sweep(faults);
}

/* ---- the end ------------------------------------------------------------------------------ */

/* Whether somebody hangs for a message shows at the end of a run. */
static bool may_hang(const struct kvt_strike *s)
{
    return s->variant == KVT_STRIKE_MESSAGE_DONE || s->variant == KVT_STRIKE_MESSAGE_ACK;
}

static enum kvt_fault_outcome outcome_of(const struct kvt_faults *faults, int32_t at)
{
    const struct kvt_fault_result *result = &faults->results[at];
    const struct kvt_strike *s = &faults->strikes[at];
    if (!result->activated)
        return KVT_OUTCOME_MASKED;
    if (s->variant == KVT_STRIKE_NODE_CRASH || (result->lost > 0 && !result->detected))
        return KVT_OUTCOME_CRASHED;
    if (result->detected)
        return KVT_OUTCOME_DETECTED;
    if (result->leaked > 0)
        return KVT_OUTCOME_ESCAPED;
    if (may_hang(s) && faults->core->live > 0)
        return KVT_OUTCOME_HUNG;
    for (int32_t i = 0; i < faults->deviation_count; i++)
        if (faults->deviations[i].strike == at && faults->deviations[i].open)
            return KVT_OUTCOME_HARMLESS;
    for (int32_t i = 0; i < faults->withheld_count; i++)
        if (faults->withheld[i].strike == at)
            return KVT_OUTCOME_HARMLESS;
    bool leased = kvt_guards_have(faults->guards[KVT_ROLE_PREFILL], KVT_GUARD_LEASE);
    bool lasts = (s->variant == KVT_STRIKE_MESSAGE_ACK && !leased) ||
                 s->variant == KVT_STRIKE_NODE_SLOW ||
                 s->variant == KVT_STRIKE_LIVENESS_WITHHELD; /* it cost capacity or time */
    return lasts ? KVT_OUTCOME_HARMLESS : KVT_OUTCOME_MASKED;
}

bool kvt_faults_are_settled(const struct kvt_faults *faults)
{
    if (faults->next < faults->count || faults->armed_count > 0 || faults->landing_count > 0 ||
        faults->poisoned_count > 0 || faults->late_ack_count > 0)
        return false;
    for (int32_t i = 0; i < faults->core->replica_count; i++)
        if (faults->open[i] > 0)
            return false;
    for (int32_t i = 0; i < faults->withheld_count; i++)
        if (faults->withheld[i].until != KVT_NEVER)
            return false;
    for (int32_t i = 0; i < faults->count; i++)
        if (may_hang(&faults->strikes[i]))
            return false;
    return true;
}

/* Prefill is asked for r once more: it hears of that transfer's end, and its lease begins anew. */
static void renew_lease(struct kvt_faults *faults, int32_t r)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < faults->late_ack_count; i++)
        if (faults->late_acks[i].request != r)
            faults->late_acks[kept++] = faults->late_acks[i];
    faults->late_ack_count = kept;
}

void kvt_faults_recovered(struct kvt_faults *faults, const struct kvt_fault_action *action,
                          int64_t tokens)
{
    if (faults->core->requests[action->request].state == KVT_REQUEST_SENDING)
        renew_lease(faults, action->request);
    struct kvt_fault_result *result = &faults->results[action->strike];
    result->spoiled += tokens == 0 && !action->leaked;
    result->saved += tokens > 0;
    result->lost += tokens == 0;
    result->again += tokens;
}

void kvt_faults_finish(struct kvt_faults *faults)
{
    for (int32_t i = 0; i < faults->count; i++)
        faults->results[i].outcome = outcome_of(faults, i);
}
