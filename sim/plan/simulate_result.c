/*
 * simulate_result.c - what a run says, lent to the outputs
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/plan/simulate.h"

static uint8_t fate_of(const struct kvt_request *request)
{
    switch ((enum kvt_request_state)request->state) {
    case KVT_REQUEST_FUTURE:
        return KVT_FATE_PENDING;
    case KVT_REQUEST_COMPLETED:
        return KVT_FATE_COMPLETED;
    case KVT_REQUEST_REJECTED:
        return KVT_FATE_REJECTED;
    case KVT_REQUEST_ABORTED:
        return KVT_FATE_ABORTED;
    case KVT_REQUEST_RESERVING:
    case KVT_REQUEST_WAITING:
    case KVT_REQUEST_PREFILL:
    case KVT_REQUEST_SENDING:
    case KVT_REQUEST_READY:
    case KVT_REQUEST_RUNNING:
    case KVT_REQUEST_RETRACTED:
        return KVT_FATE_RUNNING;
    }
    return KVT_FATE_RUNNING;
}

static void fill_columns(struct kvt_simulation *simulation)
{
    const struct kvt_core *core = &simulation->des.core;
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        simulation->fate[r] = fate_of(request);
        simulation->prefill_replica[r] = request->replica;
        simulation->decode_replica[r] =
            core->disaggregated ? request->decode_replica : request->replica;
        simulation->preemptions[r] = request->preemptions;
        simulation->cached[r] = request->cached;
        if (simulation->tenant != NULL)
            simulation->tenant[r] = (int16_t)simulation->trace.tenant[r];
    }
}

static void fill_replicas(struct kvt_simulation *simulation)
{
    const struct kvt_des *des = &simulation->des;
    for (int32_t i = 0; i < des->core.replica_count; i++) {
        const struct kvt_replica *replica = &des->core.replicas[i];
        simulation->replicas[i] = (struct kvt_result_replica){
            .name = simulation->replica_names[i],
            .series = &des->observer.series[i],
            .preempted = &des->observer.preempted[i],
            .pages = replica->pages.total,
            .pages_peak = replica->pages.held_peak,
            .steps = des->lanes[i].steps,
            .preemptions = replica->preemptions,
            .evictions = replica->spec.prefix_cache ? replica->prefix.evicted : 0,
            .busy = des->lanes[i].busy,
            .restarts = simulation->faults != NULL ? simulation->faults->incarnation[i] : 0,
            .is_down = des->lanes[i].down_until > des->now,
        };
    }
}

static void fill_roles(struct kvt_simulation *simulation)
{
    const struct kvt_fleet *fleet = simulation->fleet;
    simulation->role_count = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (!fleet->present[role])
            continue;
        const struct kvt_role_memory *plan = &fleet->roles[role].plan;
        simulation->roles[simulation->role_count++] = (struct kvt_result_role){
            .name = kvt_role_names[role],
            .gpu = plan->gpu.name,
            .replicas = simulation->config->roles[role].replicas,
            .gpus_per_replica = plan->memory.gpus_per_replica,
            .tp = plan->want.layout.tp,
            .dp = plan->want.layout.dp,
            .ep = plan->want.layout.ep,
            .pp = plan->want.layout.pp,
            .memory_bytes = plan->memory.visible_bytes,
            .entry_count = KVT_LEDGER_COUNT,
            .entries = kvt_ledger_names,
            .bytes = plan->memory.ledger,
        };
    }
}

/* What all replicas together can send, or take, whichever is less. */
static double link_bytes_per_s(const struct kvt_des *des)
{
    const struct kvt_link *link = &des->link;
    double per_rate = (double)KVT_TICKS_PER_S / (double)KVT_RATE_TICKS;
    double out = 0, in = 0, shared = (double)link->capacity[link->port_count - 1];
    for (int32_t port = 0; port + 1 < link->port_count; port++) {
        bool sends = port < des->core.pools[KVT_ROLE_PREFILL].count;
        *(sends ? &out : &in) += (double)link->capacity[port];
    }
    if (des->spec.link.per == KVT_LINK_PER_FLEET)
        return shared * per_rate;
    return (out < in ? out : in) * per_rate;
}

static struct kvt_result_link link_of(const struct kvt_des *des)
{
    if (des->link.series == NULL)
        return (struct kvt_result_link){0};
    return (struct kvt_result_link){.series = des->link.series,
                                    .bytes_per_s = link_bytes_per_s(des),
                                    .bytes = des->link.bytes,
                                    .busy = des->link.busy};
}

static void fill_strikes(struct kvt_simulation *simulation)
{
    const struct kvt_faults *faults = simulation->faults;
    for (int32_t i = 0; faults != NULL && i < faults->count; i++) {
        const struct kvt_strike *strike = &faults->strikes[i];
        const struct kvt_fault_result *result = &faults->results[i];
        const struct kvt_fault_variant_info *info = &kvt_fault_variants[strike->variant];
        simulation->strikes[i] = (struct kvt_result_strike){
            .fault = kvt_fault_names[info->kind],
            .variant = info->name,
            .outcome = kvt_outcome_names[result->outcome],
            .time = strike->time,
            .exposed_at = result->exposed ? result->exposed_at : KVT_NEVER,
            .detected_at = result->detected ? result->detected_at : KVT_NEVER,
            .replica = strike->replica,
            .activated = result->activated,
            .hit = result->hit,
            .lost = result->lost,
            .leaked = result->leaked,
        };
    }
}

static void describe(struct kvt_simulation *simulation)
{
    const struct kvt_config *config = simulation->config;
    const struct kvt_fleet *fleet = simulation->fleet;
    size_t used = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (!fleet->present[role] || used >= sizeof simulation->fleet_text)
            continue;
        const struct kvt_role_memory *plan = &fleet->roles[role].plan;
        snprintf(simulation->model_text, sizeof simulation->model_text, "%s (%s)", plan->model.name,
                 kvt_engine_names[config->engine]);
        used += (size_t)snprintf(
            simulation->fleet_text + used, sizeof simulation->fleet_text - used,
            "%s%s: %d x %d %s, %s weights, %s KV, %lld page%s of %lld token%s, %s",
            used > 0 ? "\n" : "", kvt_role_names[role], config->roles[role].replicas,
            plan->memory.gpus_per_replica, plan->gpu.name,
            kvt_weight_dtype_names[plan->model.weights], kvt_kv_dtype_names[plan->memory.kv],
            (long long)fleet->roles[role].replica.pages,
            kvt_plural(fleet->roles[role].replica.pages), (long long)plan->memory.page_tokens,
            kvt_plural(plan->memory.page_tokens), fleet->roles[role].price.calibration.name);
    }
}

static void fill_slo(const struct kvt_config_target *target, enum kvt_latency latency,
                     struct kvt_result *result)
{
    for (int32_t i = 0; i < target->count && result->slo_count < KVT_SLO_BOUNDS_MAX; i++)
        result->slo[result->slo_count++] =
            (struct kvt_slo_bound){.latency = latency,
                                   .percentile = target->percentile[i],
                                   .limit = kvt_ticks_from_seconds(target->seconds[i])};
}

void kvt_result_set_slo(struct kvt_result *result, const struct kvt_config_slo *slo)
{
    result->slo_count = 0;
    fill_slo(&slo->ttft, KVT_LATENCY_TTFT, result);
    fill_slo(&slo->itl, KVT_LATENCY_ITL, result);
    fill_slo(&slo->e2el, KVT_LATENCY_E2EL, result);
}

enum kvt_status kvt_simulation_result(struct kvt_simulation *simulation, struct kvt_result *result,
                                      struct kvt_err *err)
{
    const struct kvt_config *config = simulation->config;
    const struct kvt_des *des = &simulation->des;
    fill_columns(simulation);
    fill_replicas(simulation);
    fill_roles(simulation);
    fill_strikes(simulation);
    describe(simulation);
    free(simulation->config_text);
    simulation->config_text = kvt_config_print(config);
    if (simulation->config_text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to print the configuration");
    *result = (struct kvt_result){
        .seed = config->run.seed,
        .digest = des->core.log.digest,
        .title = config->title,
        .model = simulation->model_text,
        .fleet = simulation->fleet_text,
        .config = simulation->config_text,
        .interrupted = simulation->interrupted,
        .rows = des->core.request_count,
        .arrival = simulation->trace.arrival,
        .first_token = des->observer.first_token,
        .finish = des->observer.finish,
        .input = simulation->trace.input,
        .output = simulation->trace.output,
        .fate = simulation->fate,
        .prefill_replica = simulation->prefill_replica,
        .decode_replica = simulation->decode_replica,
        .preemptions = simulation->preemptions,
        .cached = simulation->cached,
        .tenant = simulation->tenant,
        .end = des->now,
        .warmup = des->spec.warmup,
        .itl = &des->observer.itl,
        .tokens = des->observer.tokens,
        .events = des->events,
        .steps = des->observer.steps,
        .preempted = des->core.preemptions,
        .concurrency = des->spec.concurrency,
        .tenants = des->core.tenants,
        .replica_count = des->core.replica_count,
        .replicas = simulation->replicas,
        .role_count = simulation->role_count,
        .roles = simulation->roles,
        .link = link_of(des),
        .strike_count = simulation->faults != NULL ? simulation->faults->count : 0,
        .strikes = simulation->strikes,
        .gpus = simulation->fleet->gpus,
        .cost_usd_per_h = simulation->fleet->usd_per_h,
        .timing = {.read_s = simulation->read_s,
                   .setup_s = simulation->setup_s,
                   .engine_s = simulation->engine_s,
                   .write_s = -1},
    };
    for (int32_t i = 0; i < result->replica_count; i++)
        result->evicted_pages += simulation->replicas[i].evictions;
    kvt_result_set_slo(result, &config->slo);
    return KVT_OK;
}
