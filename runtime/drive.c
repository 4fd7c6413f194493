#include "runtime/drive.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/list.h"

/* ---- records ------------------------------------------------------------------------------ */

static void keep_call(struct kvt_order *order, enum kvt_call call, int32_t id, kvt_ticks time)
{
    void *calls =
        kvt_list_grow(order->calls, order->call_count, &order->call_room, sizeof *order->calls);
    if (calls == NULL) {
        order->full = true;
        return;
    }
    order->calls = calls;
    order->calls[order->call_count++] =
        (struct kvt_order_call){.time = time, .id = id, .kind = (int32_t)call};
}

static void keep_decision(struct kvt_order *order, const struct kvt_decision *decision)
{
    void *decisions = kvt_list_grow(order->decisions, order->decision_count, &order->decision_room,
                                    sizeof *order->decisions);
    if (decisions == NULL) {
        order->full = true;
        return;
    }
    order->decisions = decisions;
    order->decisions[order->decision_count++] = *decision;
}

void kvt_order_release(struct kvt_order *order)
{
    free(order->calls);
    free(order->decisions);
    *order = (struct kvt_order){0};
}

/* ---- freely ------------------------------------------------------------------------------- */

static void tell(void *context, enum kvt_call call, int32_t id, kvt_ticks now)
{
    struct kvt_drive *drive = context;
    if (drive->order != NULL)
        keep_call(drive->order, call, id, now);
    if (drive->runtime != NULL)
        kvt_runtime_tell(drive->runtime, call, id);
}

static enum kvt_status failure_of(const struct kvt_runtime *runtime, struct kvt_err *err)
{
    if (runtime == NULL || runtime->failure.status == KVT_OK)
        return KVT_OK;
    return kvt_err_set(err, runtime->failure.status, "%s", runtime->failure.text);
}

static kvt_ticks run(void *context, int32_t replica, const struct kvt_step *step)
{
    struct kvt_drive *drive = context;
    double seconds = 0;
    if (drive->runtime != NULL)
        seconds = kvt_runtime_run(drive->runtime, replica);
    if (kvt_stop_asked(drive->stop) || failure_of(drive->runtime, NULL) != KVT_OK)
        kvt_stop_ask(&drive->halt);
    if (drive->time != NULL)
        seconds = drive->time(drive->time_context, replica, step);
    kvt_ticks ticks = kvt_ticks_from_seconds(seconds > 0 ? seconds : 0);
    return ticks > 0 ? ticks : 1;
}

static void note(void *context, const struct kvt_decision *decision)
{
    struct kvt_drive *drive = context;
    if (drive->runtime != NULL)
        kvt_runtime_note(drive->runtime, decision);
    if (drive->order != NULL)
        keep_decision(drive->order, decision);
    if (drive->sink != NULL)
        drive->sink(drive->sink_context, decision);
}

static int32_t next_abort(void *context)
{
    struct kvt_drive *drive = context;
    struct kvt_runtime *runtime = drive->runtime;
    if (runtime == NULL || runtime->found_count == 0)
        return KVT_NONE;
    const struct kvt_found_page found = runtime->found[--runtime->found_count];
    kvt_core_note(&drive->simulation.des.core, KVT_DECIDE_CHECK_MISS, found.request, found.replica,
                  found.page);
    return found.request;
}

static struct kvt_simulate_options options_of(struct kvt_drive *drive)
{
    return (struct kvt_simulate_options){.exact = true,
                                         .named = true,
                                         .tap = &drive->tap,
                                         .sink = note,
                                         .context = drive,
                                         .stop = &drive->halt};
}

enum kvt_status kvt_drive_begin(struct kvt_drive *drive, const struct kvt_config *config,
                                struct kvt_err *err)
{
    struct kvt_simulation *simulation = &drive->simulation;
    drive->tap =
        (struct kvt_des_tap){.context = drive, .tell = tell, .run = run, .next_abort = next_abort};
    struct kvt_simulate_options options = options_of(drive);
    KVT_TRY(kvt_simulation_init(simulation, config, &options, err));
    if (drive->runtime == NULL)
        return KVT_OK;
    return kvt_runtime_bind(drive->runtime, &simulation->des.core, &simulation->trace,
                            config->run.seed, err);
}

enum kvt_status kvt_drive_run(struct kvt_drive *drive, struct kvt_err *err)
{
    struct kvt_simulate_options options = options_of(drive);
    struct kvt_err own = {0};
    enum kvt_status ran = kvt_simulation_run(&drive->simulation, &options, &own);
    KVT_TRY(failure_of(drive->runtime, err));
    if (ran != KVT_OK)
        return kvt_err_set(err, ran, "%s", own.text);
    if (drive->order != NULL && drive->order->full)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to record the order of a run");
    return KVT_OK;
}

void kvt_drive_release(struct kvt_drive *drive)
{
    kvt_simulation_release(&drive->simulation);
}

/* ---- along a recorded order --------------------------------------------------------------- */

struct replaying {
    struct kvt_replay *replay;
    const struct kvt_order *order;
    struct kvt_runtime *runtime;
};

static void compare(void *context, const struct kvt_decision *decision)
{
    struct replaying *replaying = context;
    struct kvt_replay *replay = replaying->replay;
    const struct kvt_order *order = replaying->order;
    if (replaying->runtime != NULL)
        kvt_runtime_note(replaying->runtime, decision);
    int64_t at = replay->decisions++;
    if (replay->divergence >= 0)
        return;
    const struct kvt_decision none = {.kind = -1};
    const struct kvt_decision *wanted = at < order->decision_count ? &order->decisions[at] : &none;
    if (wanted->time == decision->time && wanted->count == decision->count &&
        wanted->request == decision->request && wanted->replica == decision->replica &&
        wanted->kind == decision->kind)
        return;
    replay->divergence = at;
    replay->got = *decision;
    replay->wanted = *wanted;
}

/* One call to the core; false when a plan found work where the record has none, or none where it
 * has. */
static bool call_core(struct kvt_core *core, const struct kvt_order_call *call)
{
    bool planned;
    switch ((enum kvt_call)call->kind) {
    case KVT_CALL_ARRIVE:
        kvt_core_arrive(core, call->id);
        break;
    case KVT_CALL_PLAN:
    case KVT_CALL_IDLE:
        planned = kvt_core_plan(core, call->id) != NULL;
        core->effect_count = 0;
        return planned == (call->kind == KVT_CALL_PLAN);
    case KVT_CALL_COMMIT:
        kvt_core_commit(core, call->id, 1);
        break;
    case KVT_CALL_TRANSFER:
        kvt_core_transfer_begin(core, call->id);
        break;
    case KVT_CALL_DELIVER:
        kvt_core_transfer_done(core, call->id);
        break;
    case KVT_CALL_ACK:
        kvt_core_acknowledge(core, call->id);
        break;
    case KVT_CALL_CANCEL:
        kvt_core_cancel(core, call->id);
        break;
    case KVT_CALL_START:
    case KVT_CALL_COUNT:
        break;
    }
    core->effect_count = 0; /* what to do next is in the record */
    return true;
}

/* What guards found in a recorded run is in its decisions; the core itself hears of the abort. */
static void note_misses(const struct replaying *replaying, struct kvt_core *core, int32_t r)
{
    const struct kvt_order *order = replaying->order;
    int64_t at = replaying->replay->decisions;
    const struct kvt_decision *next = at < order->decision_count ? &order->decisions[at] : NULL;
    if (next != NULL && next->kind == KVT_DECIDE_CHECK_MISS && next->request == r)
        kvt_core_note(core, KVT_DECIDE_CHECK_MISS, r, next->replica, next->count);
}

static void feed(struct replaying *replaying, struct kvt_core *core,
                 const struct kvt_order_call *call)
{
    struct kvt_runtime *runtime = replaying->runtime;
    bool is_plan = call->kind == KVT_CALL_PLAN || call->kind == KVT_CALL_IDLE;
    core->log.now = call->time;
    if (runtime != NULL && !is_plan)
        kvt_runtime_tell(runtime, (enum kvt_call)call->kind, call->id);
    if (call->kind == KVT_CALL_CANCEL)
        note_misses(replaying, core, call->id);
    bool as_recorded = call_core(core, call);
    if (!as_recorded && replaying->replay->divergence < 0) {
        replaying->replay->divergence = replaying->replay->decisions;
        replaying->replay->got.kind = replaying->replay->wanted.kind = -1;
    }
    if (runtime == NULL || !as_recorded)
        return;
    if (is_plan)
        kvt_runtime_tell(runtime, (enum kvt_call)call->kind, call->id);
    if (call->kind == KVT_CALL_START)
        kvt_runtime_run(runtime, call->id);
}

enum kvt_status kvt_replay_run(struct kvt_replay *replay, const struct kvt_order *order,
                               const struct kvt_des_spec *spec, const struct kvt_trace *trace,
                               struct kvt_runtime *runtime, uint64_t seed,
                               const struct kvt_stop *stop, struct kvt_err *err)
{
    *replay = (struct kvt_replay){.divergence = -1};
    struct replaying replaying = {.replay = replay, .order = order, .runtime = runtime};
    struct kvt_arena arena;
    struct kvt_core core;
    KVT_TRY(kvt_arena_init(&arena, kvt_des_bytes(spec), err));
    enum kvt_status status = kvt_core_init(&core, &arena, &spec->core, err);
    core.log.sink = compare;
    core.log.context = &replaying;
    if (status == KVT_OK && runtime != NULL)
        status = kvt_runtime_bind(runtime, &core, trace, seed, err);
    for (int64_t i = 0; status == KVT_OK && i < order->call_count && replay->divergence < 0; i++) {
        feed(&replaying, &core, &order->calls[i]);
        status = failure_of(runtime, err);
        if (kvt_stop_asked(stop))
            status = kvt_err_set(err, KVT_EINTR, "interrupted at call %lld of %lld", (long long)i,
                                 (long long)order->call_count);
    }
    if (status == KVT_OK && replay->divergence < 0 && replay->decisions < order->decision_count) {
        replay->divergence = replay->decisions;
        replay->got.kind = -1;
        replay->wanted = order->decisions[replay->decisions];
    }
    replay->digest = core.log.digest;
    kvt_arena_release(&arena);
    return status;
}
