#include "runtime/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/canary.h"
#include "runtime/laws_text.h"
#include "sim/base/assert.h"
#include "sim/base/list.h"
#include "sim/output/summary.h"

#define BRIEF_REQUESTS 12
#define TAG_EVERY      40 /* decode steps between two that are compared with and without check */
#define AGAIN_EVERY    8  /* steps of the free run between two that are run once more */
#define AGAIN_PREFILL  2  /* ... of a prefill engine, which has few */

const char *const kvt_verdict_names[3] = {"pass", "fail", "inconclusive"};

/* Everything one validation works with. */
struct work {
    struct kvt_validation *v;
    struct kvt_config *config;
    const struct kvt_validate_want *want;
    struct kvt_runtime runtime;
    struct kvt_predictor predictors[KVT_ROLE_COUNT];
    struct kvt_drive schedule;
    struct kvt_order order, run_order, simulated_order;
    struct kvt_step_log run, again;
    struct kvt_canary canary;
    struct kvt_drive simulated;
    double copy_s; /* of a byte that comes back from host memory */
    bool checked_steps;
    int64_t decode_steps, free_steps[KVT_ROLE_COUNT];
};

static void say(const struct work *w, const char *text)
{
    if (w->want->talk != NULL)
        fprintf(w->want->talk, "kvtwin: %s\n", text);
}

/* ---- capacity ------------------------------------------------------------------------------- */

static void read_capacity(struct work *w)
{
    struct kvt_validation *v = w->v;
    double bytes[KVT_ROLE_COUNT] = {0};
    for (int32_t i = 0; i < w->runtime.replica_count; i++) {
        const struct kvt_real_replica *replica = &w->runtime.replicas[i];
        if (i > 0 && w->runtime.replicas[i - 1].role == replica->role)
            continue;
        double token = (double)replica->layout.page_bytes * replica->weights.model->layers /
                       replica->layout.page_tokens;
        bytes[replica->role] = token;
        v->capacity[v->roles++] =
            (struct kvt_role_capacity){.name = kvt_role_names[replica->role],
                                       .predicted_pages = replica->predicted_pages,
                                       .measured_pages = replica->measured_pages,
                                       .predicted_weights = replica->predicted_weights,
                                       .measured_weights = replica->weights.bytes,
                                       .page_token_bytes = token};
    }
    snprintf(v->device, sizeof v->device, "%s", w->runtime.replicas[0].device.name);
    const struct kvt_role_memory *prefill = &w->runtime.plans[KVT_ROLE_PREFILL];
    const struct kvt_role_memory *decode = &w->runtime.plans[KVT_ROLE_DECODE];
    if (bytes[KVT_ROLE_PREFILL] <= 0 || bytes[KVT_ROLE_DECODE] <= 0)
        return;
    v->kv_ratio.predicted = prefill->memory.kv_bytes_per_token / decode->memory.kv_bytes_per_token;
    v->kv_ratio.measured = bytes[KVT_ROLE_PREFILL] / bytes[KVT_ROLE_DECODE];
    v->kv_ratio.error = v->kv_ratio.predicted / v->kv_ratio.measured - 1;
}

/* ---- predictions ---------------------------------------------------------------------------- */

static double predicted_time(void *context, int32_t replica, const struct kvt_step *step)
{
    struct work *w = context;
    const struct kvt_replica *state = &w->simulated.simulation.des.core.replicas[replica];
    if (w->simulated.simulation.config == NULL)
        state = &w->schedule.simulation.des.core.replicas[replica];
    struct kvt_predictor *predictor = &w->predictors[state->spec.role];
    struct kvt_step_load load = kvt_des_load(step);
    double time = kvt_predictor_step(predictor, &load);
    if (w->checked_steps) {
        int64_t before = step->pairs / (step->prompt_tokens + 1); /* a prompt token, on average */
        double pages = (double)(step->context + before) / state->spec.page_tokens;
        time += kvt_predictor_tag_check(predictor, pages);
        time += w->copy_s * (double)step->copied_tokens;
    }
    return time;
}

/* The simulator's own schedule, with laws measured on the engines that will run it. */
static enum kvt_status make_schedule(struct work *w, struct kvt_err *err)
{
    bool done[KVT_ROLE_COUNT] = {false};
    w->schedule.time = predicted_time;
    w->schedule.time_context = w;
    w->schedule.order = &w->order;
    w->schedule.stop = w->want->stop;
    KVT_TRY(kvt_drive_begin(&w->schedule, w->config, err));
    const struct kvt_core *core = &w->schedule.simulation.des.core;
    KVT_TRY(kvt_runtime_bind(&w->runtime, core, &w->schedule.simulation.trace, w->config->run.seed,
                             err));
    say(w, "measuring the kernels in place");
    for (int32_t i = 0; i < core->replica_count; i++) {
        enum kvt_role role = core->replicas[i].spec.role;
        if (done[role])
            continue;
        done[role] = true;
        KVT_TRY(kvt_predictor_init(&w->predictors[role], &w->runtime, i,
                                   w->want->brief ? 1 : KVT_LAW_ROUNDS, err));
    }
    return kvt_drive_run(&w->schedule, err);
}

/* ---- replay --------------------------------------------------------------------------------- */

/* Add to one of the lists of numbers; without memory that is noted. */
static void keep(struct kvt_step_log *log, double **list, int64_t *count, int64_t *room,
                 double value)
{
    double *grown = kvt_list_grow(*list, *count, room, sizeof *grown);
    log->full = log->full || grown == NULL;
    if (grown == NULL)
        return;
    *list = grown;
    grown[(*count)++] = value;
}

static void keep_step(struct kvt_step_log *log, const struct kvt_step_record *record)
{
    void *grown = kvt_list_grow(log->records, log->count, &log->room, sizeof *log->records);
    log->full = log->full || grown == NULL;
    if (grown == NULL)
        return;
    log->records = grown;
    log->records[log->count++] = *record;
}

static void log_release(struct kvt_step_log *log)
{
    free(log->records);
    free(log->tag_ratio);
    free(log->canary);
    *log = (struct kvt_step_log){0};
}

/* With, without, without, with, and the other way round: what drifts steadily, or is left warm by
 * the run before, is in both sums. */
static void compare_tags(struct work *w, int32_t replica)
{
    static const bool with[2 * KVT_TAG_PAIRS] = {true,  false, false, true,
                                                 false, true,  true,  false};
    double sum[2] = {0};
    for (int i = 0; i < 2 * KVT_TAG_PAIRS; i++)
        sum[with[i]] += kvt_runtime_again(&w->runtime, replica, with[i]);
    struct kvt_step_log *log = &w->run;
    keep(log, &log->tag_ratio, &log->tag_count, &log->tag_room, sum[1] / sum[0] - 1);
}

static void record_step(void *context, const struct kvt_step_record *record)
{
    struct work *w = context;
    struct kvt_step_log *log = &w->run;
    if (log->count % KVT_BLOCK_STEPS == 0)
        keep(log, &log->canary, &log->canary_count, &log->canary_room,
             kvt_canary_ratio(&w->canary));
    keep_step(log, record);
    if (record->load.decodes > 0 && ++w->decode_steps % TAG_EVERY == 0)
        compare_tags(w, record->replica);
}

/* In the free run: some steps once more, off every engine's clock. */
static void repeat_step(void *context, const struct kvt_step_record *record)
{
    struct work *w = context;
    bool rare = record->role == KVT_ROLE_PREFILL;
    if (++w->free_steps[record->role] % (rare ? AGAIN_PREFILL : AGAIN_EVERY) != 0)
        return;
    const struct kvt_real_replica *replica = &w->runtime.replicas[record->replica];
    struct kvt_step_record again = *record;
    again.time[0] = again.time[1] = kvt_runtime_again(&w->runtime, record->replica, false);
    memcpy(again.part, replica->forward.spent, sizeof again.part);
    keep_step(&w->again, &again);
}

static enum kvt_status replay(struct work *w, struct kvt_err *err)
{
    struct kvt_validation *v = w->v;
    struct kvt_simulation *simulation = &w->schedule.simulation;
    say(w, "replaying the schedule on real memory, each step twice");
    w->runtime.want.repeats = 2;
    w->runtime.want.tag_check = false;
    w->runtime.hooks = (struct kvt_runtime_hooks){.context = w, .record = record_step};
    enum kvt_status status =
        kvt_replay_run(&v->replay, &w->order, &simulation->des.spec, &simulation->trace,
                       &w->runtime, w->config->run.seed, w->want->stop, err);
    w->runtime.hooks = (struct kvt_runtime_hooks){0};
    v->tokens_again = w->runtime.counts.again;
    v->tokens_changed = w->runtime.counts.changed;
    v->calls = w->order.call_count;
    v->decisions = w->order.decision_count;
    v->decisions_equal = v->replay.divergence < 0;
    if (status == KVT_OK && w->run.full)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to keep the records of %lld steps",
                             (long long)w->run.count);
    double moved = 0;
    int64_t copied = 0;
    for (int64_t i = 0; i < w->run.count; i++) {
        moved += w->run.records[i].moved;
        copied += w->run.records[i].load.copied_tokens;
    }
    w->copy_s = copied > 0 ? moved / (double)copied : 0;
    v->steps_run = w->run.count;
    return status;
}

/* ---- free run ------------------------------------------------------------------------------- */

static void compare_free(struct work *w)
{
    struct kvt_validation *v = w->v;
    const struct kvt_order *a = &w->run_order, *b = &w->simulated_order;
    v->free_run.divergence = -1;
    v->free_run.decisions = a->decision_count;
    int64_t most = a->decision_count > b->decision_count ? a->decision_count : b->decision_count;
    for (int64_t i = 0; i < most && v->free_run.divergence < 0; i++) {
        struct kvt_decision none = {.kind = -1};
        struct kvt_decision x = i < a->decision_count ? a->decisions[i] : none;
        struct kvt_decision y = i < b->decision_count ? b->decisions[i] : none;
        if (x.kind == y.kind && x.request == y.request && x.replica == y.replica &&
            x.count == y.count)
            continue;
        v->free_run.divergence = i;
        v->free_run.got = x;
        v->free_run.wanted = y;
    }
}

/* Figures of a finished run; NaN where it has none. */
static enum kvt_status figures(struct kvt_drive *drive, double *throughput, double *tpot,
                               double *ttft, double *duration, struct kvt_err *err)
{
    static struct kvt_summary summary;
    struct kvt_result result;
    struct kvt_arena arena;
    const char *names[] = {"output_throughput", "mean_tpot_ms", "mean_ttft_ms", "duration"};
    double *values[] = {throughput, tpot, ttft, duration};
    KVT_TRY(kvt_simulation_result(&drive->simulation, &result, err));
    KVT_TRY(kvt_arena_init(&arena, KVT_SUMMARY_BYTES, err));
    enum kvt_status status = kvt_summary_init(&summary, &result, &arena, err);
    for (int i = 0; i < 4 && status == KVT_OK; i++) {
        const struct kvt_metric *metric = kvt_summary_find(&summary, names[i]);
        *values[i] = metric != NULL && metric->has_value ? metric->real : (double)NAN;
    }
    kvt_arena_release(&arena);
    return status;
}

static void set_error(struct kvt_pair *pair)
{
    pair->error = pair->predicted / pair->measured - 1;
}

static enum kvt_status run_freely(struct work *w, struct kvt_err *err)
{
    struct kvt_validation *v = w->v;
    say(w, "running freely");
    w->runtime.want.repeats = 1;
    w->runtime.want.tag_check = w->checked_steps = true;
    w->runtime.hooks = (struct kvt_runtime_hooks){.context = w, .record = repeat_step};
    v->drive->runtime = &w->runtime;
    v->drive->order = &w->run_order;
    v->drive->stop = w->want->stop;
    v->drive->sink = w->want->sink;
    v->drive->sink_context = w->want->context;
    KVT_TRY(kvt_drive_begin(v->drive, w->config, err));
    enum kvt_status ran = kvt_drive_run(v->drive, err);
    v->drive->runtime = NULL; /* it does not outlive this call */
    w->runtime.hooks = (struct kvt_runtime_hooks){0};
    v->tag_check.pages_checked = w->runtime.counts.checks;
    v->tag_check.failures = w->runtime.counts.failures;
    v->tokens_again += w->runtime.counts.again;
    v->tokens_changed += w->runtime.counts.changed;
    v->free_run.moved_bytes = w->runtime.counts.moved_bytes;
    v->free_run.saved_bytes = w->runtime.counts.saved_bytes;
    for (int32_t i = 0; i < w->runtime.replica_count; i++)
        v->poisoned += w->runtime.replicas[i].forward.poisoned;
    KVT_TRY(ran);
    if (w->again.full)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to keep the records of %lld steps",
                           (long long)w->again.count);
    KVT_TRY(kvt_validate_factors(&w->again, w->predictors, err));
    w->simulated.time = predicted_time;
    w->simulated.time_context = w;
    w->simulated.order = &w->simulated_order;
    KVT_TRY(kvt_drive_begin(&w->simulated, w->config, err));
    KVT_TRY(kvt_drive_run(&w->simulated, err));
    compare_free(w);
    v->free_run.preemptions = v->drive->simulation.des.core.preemptions;
    v->free_run.predicted_preemptions = w->simulated.simulation.des.core.preemptions;
    struct kvt_pair *a = &v->free_run.throughput, *b = &v->free_run.tpot, *c = &v->free_run.ttft,
                    *d = &v->free_run.duration;
    KVT_TRY(figures(v->drive, &a->measured, &b->measured, &c->measured, &d->measured, err));
    KVT_TRY(
        figures(&w->simulated, &a->predicted, &b->predicted, &c->predicted, &d->predicted, err));
    set_error(a);
    set_error(b);
    set_error(c);
    set_error(d);
    return KVT_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Engines here carry out the core's guards (fifo, deferred-free, lease, request-id) and one of
 * their own: side tags that are checked before a step and abort. Any other would be promised and
 * not there. */
static enum kvt_status check_guards(const struct kvt_config *config, struct kvt_err *err)
{
    const unsigned run = 1U << KVT_GUARD_NONE | 1U << KVT_GUARD_FIFO |
                         1U << KVT_GUARD_DEFERRED_FREE | 1U << KVT_GUARD_LEASE |
                         1U << KVT_GUARD_REQUEST_ID | 1U << KVT_GUARD_TAG_SIDE;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        const struct kvt_config_guard *guard = &config->roles[role].guard;
        struct kvt_where where = config->roles[role].where;
        if (!config->roles[role].present)
            continue;
        for (int kind = 0; kind < KVT_GUARD_COUNT; kind++)
            if (guard->on[kind] && (run >> kind & 1) == 0)
                return kvt_err_at(
                    err, KVT_ECONFIG, where,
                    "%s: validate runs no guard %s: want tag-side, or inject --backend",
                    kvt_role_names[role], kvt_guard_names[kind]);
        if (guard->on[KVT_GUARD_TAG_SIDE] &&
            (guard->check != KVT_CHECK_BEFORE_READ || guard->on_hit != KVT_ON_HIT_ABORT))
            return kvt_err_at(err, KVT_ECONFIG, where,
                              "%s: validate runs tag-side with check before-read and on_hit abort, "
                              "got %s and %s",
                              kvt_role_names[role], kvt_check_names[guard->check],
                              kvt_on_hit_names[guard->on_hit]);
    }
    return KVT_OK;
}

static enum kvt_status validate(struct work *w, struct kvt_err *err)
{
    struct kvt_validation *v = w->v;
    struct kvt_runtime_want want = {
        .backend = w->want->backend, .stop = w->want->stop, .repeats = 1};
    if (w->want->brief && w->config->workload.kind != KVT_WORKLOAD_TRACE &&
        (w->config->workload.requests == KVT_UNSET ||
         w->config->workload.requests > BRIEF_REQUESTS))
        w->config->workload.requests = BRIEF_REQUESTS;
    v->pinned = w->want->backend == KVT_BACKEND_CPU && kvt_pin_threads();
    KVT_TRY(check_guards(w->config, err));
    say(w, "loading weights");
    KVT_TRY(kvt_runtime_init(&w->runtime, w->config, &want, err));
    read_capacity(w);
    KVT_TRY(make_schedule(w, err));
    KVT_TRY(kvt_canary_init(&w->canary, err));
    KVT_TRY(replay(w, err));
    KVT_TRY(kvt_validate_steps(v, &w->run, w->predictors, err));
    KVT_TRY(kvt_validate_tags(v, &w->run, w->predictors, w->config->run.seed, err));
    KVT_TRY(run_freely(w, err));
    kvt_validate_judge(v, w->want->brief);
    return KVT_OK;
}

enum kvt_status kvt_validate(struct kvt_validation *validation, struct kvt_config *config,
                             const struct kvt_validate_want *want, struct kvt_err *err)
{
    *validation = (struct kvt_validation){.replay.divergence = -1};
    struct work *w = calloc(1, sizeof *w);
    validation->drive = calloc(1, sizeof *validation->drive);
    if (w == NULL || validation->drive == NULL) {
        free(w);
        return kvt_err_set(err, KVT_ENOMEM, "no memory to validate");
    }
    w->v = validation;
    w->config = config;
    w->want = want;
    enum kvt_status status = validate(w, err);
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (w->predictors[role].text != NULL && status == KVT_OK) {
            free(validation->laws);
            validation->laws = w->predictors[role].text;
            w->predictors[role].text = NULL;
        }
        kvt_predictor_release(&w->predictors[role]);
    }
    kvt_drive_release(&w->schedule);
    kvt_drive_release(&w->simulated);
    kvt_order_release(&w->order);
    kvt_order_release(&w->run_order);
    kvt_order_release(&w->simulated_order);
    if (validation->pinned)
        kvt_unpin_threads();
    log_release(&w->run);
    log_release(&w->again);
    kvt_canary_release(&w->canary);
    validation->drive->runtime = NULL;
    kvt_runtime_release(&w->runtime);
    free(w);
    return status;
}

void kvt_validation_release(struct kvt_validation *validation)
{
    if (validation->drive != NULL)
        kvt_drive_release(validation->drive);
    free(validation->drive);
    free(validation->laws);
    *validation = (struct kvt_validation){0};
}
