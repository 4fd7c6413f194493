#include "runtime/fault_trial.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plan/fault_plan.h"
#include "sim/plan/simulate.h"

/* ---- what is tried ------------------------------------------------------------------------ */

static bool shares_prefixes(const struct kvt_config *config)
{
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (config->roles[role].present && config->roles[role].scheduler.prefix_cache)
            return true;
    return false;
}

const char *kvt_fault_trial_why_not(const struct kvt_config *config, enum kvt_fault_variant variant)
{
    if (variant == KVT_STRIKE_POISON_ENTRY && !shares_prefixes(config))
        return "no role of this config keeps a prefix cache";
    return kvt_fault_variants[variant].unreal;
}

static int32_t expressed(const struct kvt_config *config, enum kvt_fault_kind kind, int32_t variant)
{
    if (kvt_fault_trial_why_not(config, (enum kvt_fault_variant)variant) == NULL)
        return variant;
    for (int32_t i = 0; i < KVT_STRIKE_COUNT; i++)
        if (kvt_fault_variants[i].kind == kind &&
            kvt_fault_trial_why_not(config, (enum kvt_fault_variant)i) == NULL)
            return i;
    return -1;
}

/* ---- a world: one core, simulated and real ------------------------------------------------ */

struct world {
    struct kvt_simulation simulation;
    struct kvt_strike strike;
    struct kvt_des des;   /* as it was at the start, as the one below */
    unsigned char *bytes; /* owned; of the arena */
    struct kvt_runtime runtime;
    struct kvt_real real;
    struct kvt_des_tap tap;
    int32_t *clean; /* owned: texts of a run without a strike */
    struct kvt_err err;
};

static enum kvt_status open_world(struct world *world, struct kvt_config *config,
                                  enum kvt_backend backend)
{
    struct kvt_err *err = &world->err;
    struct kvt_runtime_want want = {.backend = backend, .repeats = 1, .page_header = true};
    KVT_TRY(kvt_runtime_init(&world->runtime, config, &want, err));
    world->strike = (struct kvt_strike){.time = KVT_NEVER};
    struct kvt_simulate_options how = {.strikes = &world->strike, .strike_count = 1};
    KVT_TRY(kvt_simulation_init(&world->simulation, config, &how, err));
    const struct kvt_arena *arena = &world->simulation.arena;
    world->bytes = malloc(arena->used);
    if (world->bytes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a copy of %zu bytes", arena->used);
    memcpy(world->bytes, arena->base, arena->used);
    world->des = world->simulation.des;
    world->tap = (struct kvt_des_tap){.context = &world->real, .tell = kvt_real_tell};
    return KVT_OK;
}

static void close_world(struct world *world)
{
    kvt_real_release(&world->real);
    kvt_runtime_release(&world->runtime);
    kvt_simulation_release(&world->simulation);
    free(world->bytes);
    free(world->clean);
}

static void go_back(struct world *world, const struct kvt_strike *strike, uint64_t seed)
{
    struct kvt_simulation *simulation = &world->simulation;
    memcpy(simulation->arena.base, world->bytes, simulation->arena.used);
    simulation->des = world->des;
    simulation->faults->seed = seed;
    world->strike = *strike;
    kvt_des_set_faults(&simulation->des, simulation->faults);
}

static void run_to_end(struct world *world)
{
    while (kvt_des_step(&world->simulation.des, 256))
        continue;
    kvt_faults_finish(world->simulation.faults);
}

static enum kvt_status run_real(struct world *world, const struct kvt_strike *strike, uint64_t seed,
                                int32_t skip)
{
    struct kvt_simulation *simulation = &world->simulation;
    kvt_real_release(&world->real);
    go_back(world, strike, seed);
    simulation->des.spec.tap = &world->tap;
    simulation->des.spec.exact = true;
    KVT_TRY(kvt_runtime_bind(&world->runtime, &simulation->des.core, &simulation->trace,
                             simulation->config->run.seed, &world->err));
    KVT_TRY(kvt_real_begin(&world->real, &world->runtime, simulation->faults, &world->err));
    world->real.skip = skip;
    run_to_end(world);
    kvt_real_finish(&world->real);
    world->err = world->real.failure;
    return world->err.status;
}

/* Texts of the run that has just ended. */
static enum kvt_status keep_texts(struct world *world)
{
    size_t tokens = (size_t)world->runtime.text_begin[world->simulation.trace.count];
    world->clean = malloc(tokens * sizeof *world->clean);
    if (world->clean == NULL)
        return kvt_err_set(&world->err, KVT_ENOMEM, "no memory for texts of %zu tokens", tokens);
    memcpy(world->clean, world->runtime.text, tokens * sizeof *world->clean);
    return KVT_OK;
}

static void compare_texts(struct world *world)
{
    const struct kvt_simulation *simulation = &world->simulation;
    for (int32_t r = 0; r < simulation->trace.count; r++) {
        int64_t from = world->runtime.text_begin[r] + simulation->trace.input[r];
        size_t tokens = (size_t)simulation->trace.output[r];
        if (simulation->des.core.requests[r].state != KVT_REQUEST_COMPLETED ||
            memcmp(world->clean + from, world->runtime.text + from, tokens * 4) == 0)
            continue;
        if (world->real.requests[r].read_wrong)
            world->real.result.output_changed = true;
        else
            world->real.result.others_changed = true;
    }
}

/* ---- trials ------------------------------------------------------------------------------- */

struct work {
    struct kvt_config *config;
    const struct kvt_fault_trials_want *want;
    struct kvt_fault_trials *trials;
    struct world *worlds;
    kvt_ticks from, until;
    int64_t done;
    struct kvt_err err; /* the first */
    atomic_bool failed; /* it says why; threads look at this without the lock */
};

static int64_t number_of(const struct work *work, const struct kvt_fault_trial *trial)
{
    return (trial - work->trials->trials) % work->config->faults.trials;
}

static struct kvt_strike draw(const struct work *work, const struct kvt_fault_trial *trial)
{
    const struct kvt_config *config = work->config;
    int64_t number = number_of(work, trial);
    struct kvt_strike strike =
        kvt_fault_draw(config->run.seed, trial->kind, number, work->from, work->until);
    int32_t variant = expressed(config, trial->kind, strike.variant);
    if (variant != strike.variant) {
        strike.variant = variant;
        strike.amount = kvt_fault_variants[variant].amount;
        strike.delay = kvt_ticks_from_seconds(kvt_fault_variants[variant].delay_s);
    }
    struct kvt_stream stream;
    kvt_stream_init(&stream, config->run.seed, KVT_PURPOSE_FAULT,
                    UINT64_C(1) << 62 | (uint64_t)trial->kind << 48 | (uint64_t)number);
    kvt_ticks span = (work->until - work->from) / 4;
    if (strike.delay > 0)
        strike.delay = 1 + (kvt_ticks)kvt_stream_below(&stream, (uint64_t)(span > 1 ? span : 1));
    if (trial->kind == KVT_FAULT_BIT_FLIP) {
        const struct kvt_pool *pools = work->worlds[0].des.core.pools;
        const struct kvt_pool *pool =
            &pools[pools[KVT_ROLE_DECODE].count > 0 ? KVT_ROLE_DECODE : KVT_ROLE_SERVE];
        strike.replica = pool->first + (int32_t)kvt_stream_below(&stream, (uint64_t)pool->count);
    }
    return strike;
}

static enum kvt_status run_trial(const struct work *work, struct world *world,
                                 struct kvt_fault_trial *trial)
{
    uint64_t seed =
        kvt_fault_trial_seed(work->config->run.seed, trial->kind, number_of(work, trial));
    trial->strike = draw(work, trial);
    go_back(world, &trial->strike, seed);
    run_to_end(world);
    trial->simulated = world->simulation.faults->results[0];
    KVT_TRY(run_real(world, &trial->strike, seed, work->want->skip));
    compare_texts(world);
    trial->real = world->real.result;
    trial->agrees = trial->simulated.exposed == trial->real.exposed &&
                    trial->simulated.outcome == trial->real.outcome;
    trial->same_tenants = trial->simulated.cross_tenant == trial->real.cross_tenant;
    return KVT_OK;
}

static void run_trials(struct work *work, int32_t threads)
{
    const struct kvt_fault_trials_want *want = work->want;
    int64_t count = work->trials->count;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < count; i++) {
        struct world *world = &work->worlds[omp_get_thread_num()];
        if (kvt_stop_asked(want->stop) || work->failed)
            continue;
        enum kvt_status status = run_trial(work, world, &work->trials->trials[i]);
#pragma omp critical(fault_trial)
        {
            work->done++;
            if (status != KVT_OK && !work->failed) {
                work->err = world->err;
                work->failed = true;
            }
            kvt_tell(&want->tell, (double)work->done / (double)count, work->done);
        }
    }
}

static enum kvt_status prepare(struct work *work, int32_t threads, struct kvt_err *err)
{
    const struct kvt_config_faults *faults = &work->config->faults;
    int32_t kinds = 0;
    work->worlds = calloc((size_t)threads, sizeof *work->worlds);
    work->trials->trials =
        calloc((size_t)(KVT_FAULT_COUNT * faults->trials) + 1, sizeof *work->trials->trials);
    if (work->worlds == NULL || work->trials->trials == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for trials");
    for (int32_t kind = KVT_FAULT_NONE + 1; kind < KVT_FAULT_COUNT; kind++) {
        struct kvt_strike any =
            kvt_fault_draw(work->config->run.seed, (enum kvt_fault_kind)kind, 0, 0, 1);
        if (!(faults->kinds >> kind & 1) ||
            expressed(work->config, (enum kvt_fault_kind)kind, any.variant) < 0)
            continue;
        for (int64_t i = 0; i < faults->trials; i++)
            work->trials->trials[kinds * faults->trials + i].kind = (enum kvt_fault_kind)kind;
        kinds++;
    }
    work->trials->count = kinds * faults->trials;
    for (int32_t i = 0; i < threads; i++) {
        struct world *world = &work->worlds[i];
        struct kvt_strike never = {.time = KVT_NEVER};
        enum kvt_status status = open_world(world, work->config, work->want->backend);
        if (status == KVT_OK)
            status = run_real(world, &never, 0, -1);
        if (status == KVT_OK)
            status = keep_texts(world);
        if (status == KVT_OK && (world->real.result.exposed || world->real.result.detected))
            status =
                kvt_err_set(&world->err, KVT_NEGATIVE, "a run without a strike was not clean: %s",
                            world->real.result.exposed ? "wrong bytes were read" : "a guard fired");
        if (status != KVT_OK) {
            *err = world->err;
            return status;
        }
    }
    const struct kvt_trace *trace = &work->worlds[0].simulation.trace;
    work->from = kvt_ticks_from_seconds(faults->from);
    work->until = faults->until < 0 ? trace->arrival[trace->count - 1]
                                    : kvt_ticks_from_seconds(faults->until);
    if (work->until > work->from)
        return KVT_OK;
    return kvt_err_at(err, KVT_ECONFIG, faults->where,
                      "faults: strikes from %g s, but the last request comes at %g s", faults->from,
                      kvt_seconds_from_ticks(work->until));
}

enum kvt_status kvt_fault_trials_run(struct kvt_config *config,
                                     const struct kvt_fault_trials_want *want,
                                     struct kvt_fault_trials *trials, struct kvt_err *err)
{
    int32_t most = omp_get_max_threads(), threads = want->threads > 0 ? want->threads : most;
    struct work work = {.config = config, .want = want, .trials = trials};
    threads = want->backend == KVT_BACKEND_CUDA ? 1 : threads;
    *trials = (struct kvt_fault_trials){0};
    omp_set_num_threads(1); /* of kernels: they are small, and trials run side by side */
    enum kvt_status status = prepare(&work, threads, err);
    if (status == KVT_OK) {
        run_trials(&work, threads);
        *err = work.err;
        status = work.err.status;
    }
    if (status == KVT_OK && work.done < trials->count)
        status = kvt_err_set(err, KVT_EINTR, "interrupted after %lld of %lld trials",
                             (long long)work.done, (long long)trials->count);
    omp_set_num_threads(most);
    for (int32_t i = 0; work.worlds != NULL && i < threads; i++)
        close_world(&work.worlds[i]);
    free(work.worlds);
    return status;
}

void kvt_fault_trials_release(struct kvt_fault_trials *trials)
{
    free(trials->trials);
    *trials = (struct kvt_fault_trials){0};
}
