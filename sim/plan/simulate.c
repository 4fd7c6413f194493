#include "sim/plan/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/assert.h"
#include "sim/plan/fault_plan.h"
#include "sim/plan/load.h"

#define CLOSED_WAVES    8 /* requests of a closed loop that names none: so many per client */
#define CLOSED_MAX      (1 << 20)
#define EVENTS_PER_LOOK 4096 /* between looks at stop and progress; of real steps, one */
#define COSTS_BYTES     (64 << 20)

double kvt_wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the load ----------------------------------------------------------------------------- */

/* How many requests a closed loop that ends by time can need: no output token takes less than half
 * a millisecond. Beyond CLOSED_MAX they may run out (check_load). */
static int64_t closed_requests(const struct kvt_config *config)
{
    const struct kvt_config_workload *workload = &config->workload;
    if (workload->requests != KVT_UNSET)
        return workload->requests;
    if (config->run.until < 0)
        return CLOSED_WAVES * workload->concurrency;
    double output = workload->output.mean > 1 ? workload->output.mean : 1;
    double rounds = ceil(config->run.until / (output * 0.0005 + workload->think)) + 1;
    double most = (double)workload->concurrency * rounds;
    return most < CLOSED_MAX ? (int64_t)most : CLOSED_MAX;
}

static enum kvt_status read_load(struct kvt_simulation *simulation, struct kvt_err *err)
{
    const struct kvt_config *config = simulation->config;
    if (config->workload.kind == KVT_WORKLOAD_NONE)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = config->path},
                          "want a workload (trace, open or closed), got none");
    if (config->workload.kind != KVT_WORKLOAD_CLOSED)
        return kvt_load_trace(&simulation->trace, config, err);
    struct kvt_load load;
    KVT_TRY(kvt_load_init(&load, config, err));
    load.spec.requests = closed_requests(config);
    load.spec.until = -1; /* its arrivals are placed by the engine */
    enum kvt_status status = kvt_trace_generate(&simulation->trace, &load.spec, err);
    kvt_load_release(&load);
    return status;
}

/* When each client goes away, in time from its arrival. One stream a request: the same ones leave,
 * and as early, whatever else is drawn. */
static enum kvt_status draw_patience(struct kvt_simulation *simulation, struct kvt_err *err)
{
    const struct kvt_config_aborts *aborts = &simulation->config->workload.aborts;
    if (aborts->share <= 0 && aborts->timeout <= 0)
        return KVT_OK;
    KVT_TRY(kvt_arena_get(&simulation->costs_arena, (size_t)simulation->trace.count,
                          sizeof *simulation->patience, "deadlines", &simulation->patience, err));
    kvt_ticks timeout = aborts->timeout > 0 ? kvt_ticks_from_seconds(aborts->timeout) : KVT_NEVER;
    for (int32_t r = 0; r < simulation->trace.count; r++) {
        struct kvt_stream stream;
        kvt_stream_init(&stream, simulation->config->run.seed, KVT_PURPOSE_PATIENCE, (uint64_t)r);
        bool leaves = kvt_stream_unit(&stream) < aborts->share;
        double after = -log1p(-kvt_stream_unit(&stream)) * aborts->after;
        kvt_ticks time = leaves ? kvt_ticks_from_seconds(after) : KVT_NEVER;
        simulation->patience[r] = time < timeout ? time : timeout;
    }
    return KVT_OK;
}

/* ---- set-up ------------------------------------------------------------------------------- */

static struct kvt_des_spec spec_of(const struct kvt_simulation *simulation,
                                   const struct kvt_simulate_options *options)
{
    const struct kvt_config *config = simulation->config;
    const struct kvt_trace *trace = &simulation->trace;
    const struct kvt_fleet *fleet = simulation->fleet;
    struct kvt_des_spec spec = {
        .core = {.request_count = trace->count,
                 .input = trace->input,
                 .output = trace->output,
                 .tenant = trace->tenant,
                 .tenants = trace->tenants,
                 .hash_begin = trace->hash_begin,
                 .hashes = trace->hashes,
                 .block_tokens = trace->block_tokens,
                 .decode_only = config->workload.decode_only,
                 .prefill_only = config->workload.prefill_only},
        .link = fleet->link,
        .arrival = trace->arrival,
        .patience = simulation->patience,
        .until = config->run.until < 0 ? KVT_NEVER : kvt_ticks_from_seconds(config->run.until),
        .warmup = kvt_ticks_from_seconds(config->run.warmup),
        .series_points = (int32_t)config->run.series_points,
        .exact = options->exact || options->tokens,
        .tap = options->tap,
        .late_ack = config->roles[KVT_ROLE_DECODE].present &&
                    config->roles[KVT_ROLE_DECODE].guard.on_hit == KVT_ON_HIT_REFETCH,
    };
    if (config->workload.kind == KVT_WORKLOAD_CLOSED) {
        spec.concurrency = config->workload.concurrency;
        spec.think = kvt_ticks_from_seconds(config->workload.think);
    }
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (!fleet->present[role])
            continue;
        spec.core.roles[role] = &fleet->roles[role].replica;
        spec.core.replicas[role] = config->roles[role].replicas;
        spec.core.routers[role] = config->roles[role].router;
        spec.costs[role] = &fleet->roles[role].costs;
        if (role != KVT_ROLE_DECODE && !config->workload.decode_only)
            spec.latency = fleet->roles[role].costs.request_latency;
    }
    return spec;
}

static enum kvt_status take_columns(struct kvt_simulation *simulation, struct kvt_arena *arena,
                                    struct kvt_err *err)
{
    size_t rows = (size_t)simulation->trace.count;
    size_t replicas = (size_t)simulation->des.core.replica_count;
    const char *what = "result columns";
    KVT_TRY(kvt_arena_get(arena, rows, 1, what, &simulation->fate, err));
    KVT_TRY(kvt_arena_get(arena, rows, 2, what, &simulation->prefill_replica, err));
    KVT_TRY(kvt_arena_get(arena, rows, 2, what, &simulation->decode_replica, err));
    KVT_TRY(kvt_arena_get(arena, rows, 4, what, &simulation->preemptions, err));
    KVT_TRY(kvt_arena_get(arena, rows, 4, what, &simulation->cached, err));
    if (simulation->trace.tenant != NULL)
        KVT_TRY(kvt_arena_get(arena, rows, 2, what, &simulation->tenant, err));
    KVT_TRY(kvt_arena_get(arena, replicas, sizeof *simulation->replicas, what,
                          &simulation->replicas, err));
    KVT_TRY(kvt_arena_get(arena, replicas, sizeof(char *), what, &simulation->names, err));
    return kvt_arena_get(arena, replicas, sizeof *simulation->replica_names, what,
                         &simulation->replica_names, err);
}

/* "decode-0": by role, and from the first of it. The log wants them before the run. */
static void name_replicas(struct kvt_simulation *simulation)
{
    const struct kvt_core *core = &simulation->des.core;
    for (int32_t i = 0; i < core->replica_count; i++) {
        enum kvt_role role = core->replicas[i].spec.role;
        snprintf(simulation->replica_names[i], sizeof simulation->replica_names[i], "%s-%d",
                 kvt_role_names[role], i - core->pools[role].first);
        simulation->names[i] = simulation->replica_names[i];
    }
}

static enum kvt_status make_fleet(struct kvt_simulation *simulation,
                                  const struct kvt_simulate_options *options, struct kvt_err *err)
{
    const struct kvt_trace *trace = &simulation->trace;
    kvt_assert(trace->count > 0);
    double tokens = 0;
    for (int32_t r = 0; r < trace->count; r++)
        tokens += trace->output[r];
    struct kvt_fleet_load load = {.requests = trace->count,
                                  .mean_output = tokens / trace->count,
                                  .hashed = trace->hash_begin != NULL,
                                  .named = options->named || options->strikes != NULL};
    return kvt_fleet_init(simulation->fleet, &simulation->costs_arena, simulation->config, &load,
                          options->talk, err);
}

/* A closed loop fills in its arrivals as it goes: each run needs its own. */
static enum kvt_status lend_trace(struct kvt_simulation *simulation,
                                  const struct kvt_simulation *base, struct kvt_err *err)
{
    simulation->trace = base->trace;
    if (base->config->workload.kind != KVT_WORKLOAD_CLOSED)
        return KVT_OK;
    return kvt_arena_get(&simulation->costs_arena, (size_t)base->trace.count,
                         sizeof *base->trace.arrival, "arrivals", &simulation->trace.arrival, err);
}

static enum kvt_status take_faults(struct kvt_simulation *simulation,
                                   const struct kvt_simulate_options *options, struct kvt_err *err)
{
    struct kvt_faults_spec spec = {.strikes = options->strikes,
                                   .count = options->strike_count,
                                   .seed = simulation->config->run.seed};
    const struct kvt_config *config = simulation->config;
    int main_role = config->roles[KVT_ROLE_SERVE].present ? KVT_ROLE_SERVE : KVT_ROLE_DECODE;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        int whose = config->faults.everywhere ? main_role : role;
        simulation->guards[role] = kvt_guards_of(&config->roles[whose].guard);
        spec.guards[role] = &simulation->guards[role];
    }
    KVT_TRY(kvt_arena_get(&simulation->arena, 1, sizeof *simulation->faults, "faults",
                          &simulation->faults, err));
    KVT_TRY(kvt_arena_get(&simulation->arena, (size_t)spec.count, sizeof *simulation->strikes,
                          "faults", &simulation->strikes, err));
    KVT_TRY(
        kvt_faults_init(simulation->faults, &simulation->arena, &simulation->des.core, &spec, err));
    if (simulation->plan != NULL)
        KVT_TRY(kvt_fault_check_targets(config, &simulation->des.core, simulation->names,
                                        spec.strikes, spec.count, err));
    kvt_des_set_faults(&simulation->des, simulation->faults);
    return KVT_OK;
}

/* base: NULL, or the run that lends what errors leave as it is. */
static enum kvt_status setup(struct kvt_simulation *simulation, const struct kvt_simulation *base,
                             struct kvt_error_factors *errors,
                             const struct kvt_simulate_options *options, struct kvt_err *err)
{
    simulation->fleet = calloc(1, sizeof *simulation->fleet);
    if (simulation->fleet == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a fleet");
    /* The tables come first: what they say sizes the rest. */
    size_t rows = (size_t)(base != NULL ? base : simulation)->trace.count;
    size_t columns = 2 * rows * sizeof(kvt_ticks); /* arrivals of a closed loop, and deadlines */
    KVT_TRY(kvt_arena_init(&simulation->costs_arena, COSTS_BYTES + columns, err));
    if (base == NULL) {
        KVT_TRY(make_fleet(simulation, options, err));
    } else {
        KVT_TRY(kvt_fleet_with_errors(simulation->fleet, base->fleet, &simulation->costs_arena,
                                      errors, err));
        KVT_TRY(lend_trace(simulation, base, err));
    }
    KVT_TRY(draw_patience(simulation, err));
    struct kvt_des_spec spec = spec_of(simulation, options);
    size_t bytes = kvt_des_bytes(&spec) + (size_t)simulation->trace.count * 24 + (1 << 20);
    if (options->strikes != NULL)
        bytes += kvt_faults_bytes(options->strike_count, simulation->trace.count,
                                  kvt_config_replicas(simulation->config)) +
                 sizeof *simulation->faults +
                 (size_t)options->strike_count * sizeof *simulation->strikes + 1024;
    KVT_TRY(kvt_arena_init(&simulation->arena, bytes, err));
    KVT_TRY(kvt_des_init(&simulation->des, &simulation->arena, &spec, err));
    if (options->tokens) {
        KVT_TRY(kvt_token_log_init(&simulation->tokens, simulation->trace.count,
                                   simulation->des.core.replica_count, err));
        simulation->des.observer.tokens = &simulation->tokens;
    }
    simulation->des.core.log.sink = options->sink;
    simulation->des.core.log.context = options->context;
    KVT_TRY(take_columns(simulation, &simulation->arena, err));
    name_replicas(simulation);
    return options->strikes != NULL ? take_faults(simulation, options, err) : KVT_OK;
}

static enum kvt_status take_plan(struct kvt_simulation *simulation,
                                 struct kvt_simulate_options *how, struct kvt_err *err)
{
    const struct kvt_config *config = simulation->config;
    if (config->faults.plan.count == 0)
        return KVT_OK;
    simulation->plan = malloc(KVT_STRIKES_MAX * sizeof *simulation->plan);
    if (simulation->plan == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a fault plan");
    how->strikes = simulation->plan;
    return kvt_fault_plan(config, simulation->plan, &how->strike_count, err);
}

enum kvt_status kvt_simulation_init(struct kvt_simulation *simulation,
                                    const struct kvt_config *config,
                                    const struct kvt_simulate_options *options, struct kvt_err *err)
{
    *simulation = (struct kvt_simulation){.config = config};
    if (config->domains > 0)
        return kvt_err_at(err, KVT_ECONFIG, config->where_domain,
                          "want one value to simulate, got a domain of choices: choose one with "
                          "--set %s=...",
                          kvt_config_domain(config, 0)->path);
    double start = kvt_wall_seconds();
    struct kvt_simulate_options how = *options;
    enum kvt_status status = options->planned ? take_plan(simulation, &how, err) : KVT_OK;
    if (options->trace != NULL) {
        simulation->trace = *options->trace;
        *options->trace = (struct kvt_trace){0};
    } else if (status == KVT_OK) {
        status = read_load(simulation, err);
    }
    double read = kvt_wall_seconds();
    if (status == KVT_OK)
        status = setup(simulation, NULL, NULL, &how, err);
    simulation->read_s = read - start;
    simulation->setup_s = kvt_wall_seconds() - read;
    if (status != KVT_OK)
        kvt_simulation_release(simulation);
    return status;
}

enum kvt_status kvt_simulation_init_with_errors(struct kvt_simulation *simulation,
                                                const struct kvt_simulation *base,
                                                struct kvt_error_factors *errors,
                                                const struct kvt_simulate_options *options,
                                                struct kvt_err *err)
{
    *simulation = (struct kvt_simulation){.config = base->config, .lent = true};
    enum kvt_status status = setup(simulation, base, errors, options, err);
    if (status != KVT_OK)
        kvt_simulation_release(simulation);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------ */

static double fraction_done(const struct kvt_des *des)
{
    int64_t rows = des->core.request_count;
    return (double)(des->next_arrival - des->core.live) / (double)rows;
}

/* A closed loop without a number of requests goes on until its time has come. */
static enum kvt_status check_load(const struct kvt_simulation *simulation, struct kvt_err *err)
{
    const struct kvt_config *config = simulation->config;
    const struct kvt_des *des = &simulation->des;
    if (config->workload.kind != KVT_WORKLOAD_CLOSED || config->workload.requests != KVT_UNSET ||
        config->run.until < 0 || des->next_arrival < CLOSED_MAX)
        return KVT_OK;
    return kvt_err_at(err, KVT_ELIMIT, kvt_config_where(config, "run.until"),
                      "want at most %d requests, got more: the last arrived at %.3f s of %.3f s; "
                      "end earlier, or give workload.closed.requests",
                      CLOSED_MAX, kvt_seconds_from_ticks(des->spec.arrival[CLOSED_MAX - 1]),
                      config->run.until);
}

enum kvt_status kvt_simulation_run(struct kvt_simulation *simulation,
                                   const struct kvt_simulate_options *options, struct kvt_err *err)
{
    struct kvt_des *des = &simulation->des;
    double start = kvt_wall_seconds();
    int64_t events = kvt_paranoid || options->tap != NULL ? 1 : EVENTS_PER_LOOK;
    bool more = true;
    char where[200];
    while (more && !simulation->interrupted) {
        snprintf(where, sizeof where, "near t=%.6f s, event %lld, seed %llu",
                 kvt_seconds_from_ticks(des->now), (long long)des->events,
                 (unsigned long long)simulation->config->run.seed);
        kvt_assert_context(where);
        more = kvt_des_step(des, events);
        simulation->interrupted = kvt_stop_asked(options->stop);
        kvt_tell(&options->tell, fraction_done(des), des->next_arrival);
    }
    enum kvt_status status = kvt_des_finish(des, simulation->interrupted, err);
    kvt_assert_context("");
    simulation->engine_s = kvt_wall_seconds() - start;
    if (status == KVT_OK && simulation->interrupted)
        return kvt_err_set(err, KVT_EINTR, "interrupted at %.3f s of simulated time",
                           kvt_seconds_from_ticks(des->now));
    return status == KVT_OK ? check_load(simulation, err) : status;
}

void kvt_simulation_release(struct kvt_simulation *simulation)
{
    kvt_token_log_release(&simulation->tokens);
    kvt_arena_release(&simulation->arena);
    kvt_arena_release(&simulation->costs_arena);
    if (!simulation->lent) {
        kvt_trace_release(&simulation->trace);
        if (simulation->fleet != NULL)
            kvt_fleet_release(simulation->fleet);
    }
    free(simulation->fleet);
    free(simulation->plan);
    free(simulation->config_text);
    *simulation = (struct kvt_simulation){0};
}
