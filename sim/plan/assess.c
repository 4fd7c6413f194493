/* One candidate of a search: its price, its runs, and how it stands against the SLO. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/output/parts.h"
#include "sim/plan/search_parts.h"

#define X(name, text) text,
const char *const kvt_candidate_state_names[KVT_CANDIDATE_STATE_COUNT] = {KVT_CANDIDATE_STATES(X)};
#undef X

static void say(struct kvt_candidate *candidate, enum kvt_candidate_state state, const char *text)
{
    candidate->state = state;
    snprintf(candidate->message, sizeof candidate->message, "%.*s", KVT_POINT_MESSAGE - 1, text);
}

/* ---- price -------------------------------------------------------------------------------- */

static bool has_price(const struct kvt_config *config, const struct kvt_gpu *gpu)
{
    bool has = gpu->usd_per_hour > 0;
    for (int32_t i = 0; i < config->cost.count; i++)
        has = has || kvt_gpu_is_named(gpu, config->cost.key[i]);
    return has;
}

/* Without a replica that may be lost, or a price that the objective needs, there is no answer. */
static enum kvt_status price_role(struct kvt_candidate *candidate, const struct kvt_config *config,
                                  enum kvt_role role, struct kvt_role_memory *plan, double *gpus,
                                  struct kvt_err *err)
{
    int32_t replicas = config->roles[role].replicas;
    KVT_TRY(kvt_role_memory_plan(config, role, plan, NULL, err));
    double more = (double)plan->memory.gpus_per_replica * replicas;
    *gpus += more;
    candidate->usd_per_h += more * kvt_fleet_usd_per_gpu(config, &plan->gpu, NULL);
    candidate->is_unanswerable = true;
    if (config->plan.lose >= replicas)
        return kvt_err_at(err, KVT_ECONFIG, kvt_config_where(config, "plan.lose"),
                          "plan.lose: want fewer than the %d %s replicas, got %" PRId64, replicas,
                          kvt_role_names[role], config->plan.lose);
    if (config->plan.objective != KVT_OBJECTIVE_GPUS && !has_price(config, &plan->gpu))
        return kvt_err_at(err, KVT_ECONFIG, kvt_config_where(config, "cost"),
                          "cost.%s: want the price of an hour of this GPU, got none",
                          plan->gpu.name);
    candidate->is_unanswerable = false;
    return KVT_OK;
}

static enum kvt_status price_roles(struct kvt_candidate *candidate, const struct kvt_config *config,
                                   struct kvt_err *err)
{
    struct kvt_role_memory *plan = malloc(sizeof *plan);
    enum kvt_status status = plan != NULL ? KVT_OK : kvt_err_set(err, KVT_ENOMEM, "no memory");
    double gpus = 0;
    candidate->usd_per_h = 0;
    for (int role = 0; role < KVT_ROLE_COUNT && status == KVT_OK; role++)
        if (config->roles[role].present)
            status = price_role(candidate, config, (enum kvt_role)role, plan, &gpus, err);
    free(plan);
    candidate->gpus = gpus < INT32_MAX ? (int32_t)gpus : INT32_MAX;
    if (status == KVT_OK)
        candidate->objective = config->plan.objective == KVT_OBJECTIVE_GPUS
                                   ? (double)candidate->gpus
                                   : candidate->usd_per_h;
    return status;
}

enum kvt_status kvt_candidate_price(struct kvt_candidate *candidate,
                                    const struct kvt_points *points, int64_t number,
                                    struct kvt_err *err)
{
    struct kvt_err own = {0};
    struct kvt_config *config = malloc(sizeof *config);
    if (config == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a candidate");
    candidate->usd_per_h = candidate->objective = candidate->confidence = (double)NAN;
    candidate->worst = (double)INFINITY;
    enum kvt_status status = kvt_points_choose(points, number, NULL, 0, config, &own);
    if (status != KVT_OK) {
        say(candidate, KVT_CANDIDATE_CONTRADICTS, own.text);
    } else {
        candidate->state = KVT_CANDIDATE_MISSES;
        status = price_roles(candidate, config, &own);
        if (status != KVT_OK)
            say(candidate,
                candidate->is_unanswerable ? KVT_CANDIDATE_CONTRADICTS : KVT_CANDIDATE_UNFIT,
                own.text);
        kvt_config_release(config);
    }
    free(config);
    return kvt_point_ends_the_job(status) ? kvt_err_set(err, status, "%s", own.text) : KVT_OK;
}

/* ---- runs --------------------------------------------------------------------------------- */

struct assessment {
    struct kvt_candidate *candidate;
    const struct kvt_search *search;
    int64_t number;
    const struct kvt_assess_how *how;
    double *rate;
    struct kvt_config config, reduced; /* of the whole fleet; of one that lost replicas */
    struct kvt_evaluation run;
};

/* The config of its point, with what is set beside that and, where not NULL, one set more. */
static enum kvt_status choose(const struct assessment *a, const char *set,
                              struct kvt_config *config, struct kvt_err *err)
{
    const char *more[2];
    int32_t count = 0;
    if (a->how->more != NULL)
        more[count++] = a->how->more;
    if (set != NULL)
        more[count++] = set;
    return kvt_points_choose(a->search->points, a->number, more, count, config, err);
}

/* Set worst and limit to the bound that this run is nearest to breaking, or breaks most, where that
 * is worse than what is there. */
static void judge(struct kvt_candidate *candidate, const struct kvt_evaluation *run,
                  const char *which)
{
    const struct kvt_summary *s = &run->summary;
    const struct kvt_result *r = &run->result;
    double arrived = (double)s->counted.arrived;
    double rejected = (double)s->counted.fates[KVT_FATE_REJECTED];
    for (int32_t i = 0; i < r->slo_count; i++) {
        char percentile[16];
        const struct kvt_slo_bound *bound = &r->slo[i];
        double limit_ms = 1e3 * kvt_seconds_from_ticks(bound->limit);
        bool any = s->counted.fates[KVT_FATE_COMPLETED] > 0;
        double ratio = any ? s->slo_value_ms[i] / limit_ms : (double)INFINITY;
        if (s->slo_met[i] && ratio > 1) /* a bound without values */
            ratio = 1;
        if (ratio <= candidate->worst)
            continue;
        candidate->worst = ratio;
        snprintf(candidate->limit, sizeof candidate->limit, "%s %s%s",
                 kvt_latency_labels[bound->latency],
                 kvt_percentile_print(bound->percentile, percentile, sizeof percentile), which);
        double value = s->slo_value_ms[i];
        snprintf(candidate->message, sizeof candidate->message, "%s %.*f ms, want %.6g ms",
                 candidate->limit, value < 100 ? 1 : 0, value, limit_ms);
    }
    if (rejected <= run->simulation.config->plan.rejected * arrived)
        return;
    candidate->worst = (double)INFINITY;
    snprintf(candidate->limit, sizeof candidate->limit, "rejected%s", which);
    snprintf(candidate->message, sizeof candidate->message, "rejects %.0f of %.0f requests%s",
             rejected, arrived, which);
}

static double rate_of(const struct kvt_simulation *simulation)
{
    const struct kvt_trace *trace = &simulation->trace;
    if (simulation->config->workload.kind == KVT_WORKLOAD_CLOSED || trace->count < 2)
        return (double)NAN;
    kvt_ticks span = trace->arrival[trace->count - 1] - trace->arrival[0];
    return span > 0 ? (double)(trace->count - 1) / kvt_seconds_from_ticks(span) : (double)NAN;
}

/* One fleet: the whole one (which "", fills values) or one that lost replicas. */
static enum kvt_status run_fleet(struct assessment *a, const struct kvt_config *config,
                                 const char *which, struct kvt_err *err)
{
    struct kvt_candidate *candidate = a->candidate;
    const struct kvt_assess_how *how = a->how;
    bool is_whole = which[0] == '\0';
    const struct kvt_simulate_options options = {.planned = true, .stop = how->stop};
    const struct kvt_resample_options resample = {
        .count = how->resamples, .seed = config->run.seed, .stop = how->stop};
    KVT_TRY(kvt_evaluation_init(&a->run, config, &options, err));
    if (how->prune && is_whole) {
        char detail[160];
        enum kvt_status status =
            kvt_bounds_judge(&a->run.simulation, config->plan.rejected, &candidate->bound,
                             &candidate->least, detail, sizeof detail, err);
        if (status != KVT_OK || candidate->bound != KVT_BOUND_NONE) {
            kvt_evaluation_release(&a->run);
            say(candidate, KVT_CANDIDATE_PRUNED, detail);
            return status;
        }
    }
    KVT_TRY(kvt_evaluation_run(&a->run, &options, &resample, err));
    if (is_whole) {
        kvt_point_values(&a->search->columns, &a->run, candidate->values);
        if (config->plan.objective == KVT_OBJECTIVE_USD_PER_MTOK)
            candidate->objective = kvt_evaluation_metric(&a->run, "cost_usd_per_mtok");
        if (a->rate != NULL)
            *a->rate = rate_of(&a->run.simulation);
    }
    judge(candidate, &a->run, which);
    if (how->resamples > 0)
        candidate->confidence =
            fmin(candidate->confidence, kvt_resamples_share(&a->run.resamples, "slo_met"));
    kvt_evaluation_release(&a->run);
    return KVT_OK;
}

/* The same with plan.lose replicas of one role fewer; a fleet that has no more loses the SLO. */
static enum kvt_status run_without(struct assessment *a, int role, struct kvt_err *err)
{
    struct kvt_candidate *candidate = a->candidate;
    char set[80], which[40];
    int64_t left = a->config.roles[role].replicas - a->config.plan.lose;
    snprintf(which, sizeof which, " without %" PRId64 " %s", a->config.plan.lose,
             kvt_role_names[role]);
    if (left < 1) {
        candidate->worst = (double)INFINITY;
        snprintf(candidate->limit, sizeof candidate->limit, "no fleet left");
        snprintf(candidate->message, sizeof candidate->message, "no %s replica is left%s",
                 kvt_role_names[role], which);
        return KVT_OK;
    }
    snprintf(set, sizeof set, "fleet.%s.replicas=%" PRId64, kvt_role_names[role], left);
    KVT_TRY(choose(a, set, &a->reduced, err));
    enum kvt_status status = run_fleet(a, &a->reduced, which, err);
    kvt_config_release(&a->reduced);
    return status;
}

static enum kvt_status run_all(struct assessment *a, struct kvt_err *err)
{
    struct kvt_candidate *candidate = a->candidate;
    bool resampled = a->how->resamples > 0;
    candidate->worst = 0;
    candidate->confidence = resampled ? 1 : (double)NAN;
    candidate->state = KVT_CANDIDATE_MISSES;
    KVT_TRY(run_fleet(a, &a->config, "", err));
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (a->config.plan.lose > 0 && a->config.roles[role].present &&
            candidate->state == KVT_CANDIDATE_MISSES && candidate->worst <= 1)
            KVT_TRY(run_without(a, role, err));
    if (candidate->state == KVT_CANDIDATE_PRUNED) {
        candidate->worst = (double)INFINITY;
        return KVT_OK;
    }
    bool sure = !resampled || candidate->confidence >= a->config.plan.confidence;
    if (candidate->worst <= 1)
        candidate->state = sure ? KVT_CANDIDATE_MEETS : KVT_CANDIDATE_UNSURE;
    return KVT_OK;
}

enum kvt_status kvt_candidate_assess(struct kvt_candidate *candidate,
                                     const struct kvt_search *search, int64_t number,
                                     const struct kvt_assess_how *how, double *rate,
                                     struct kvt_err *err)
{
    struct kvt_err own = {0};
    struct assessment *a = malloc(sizeof *a);
    if (a == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a run");
    a->candidate = candidate;
    a->search = search;
    a->number = number;
    a->how = how;
    a->rate = rate;
    enum kvt_status status = choose(a, NULL, &a->config, &own);
    if (status == KVT_OK) {
        status = run_all(a, &own);
        kvt_config_release(&a->config);
    }
    free(a);
    if (kvt_point_ends_the_job(status))
        return kvt_err_set(err, status, "%s", own.text);
    if (status != KVT_OK) {
        candidate->worst = (double)INFINITY;
        say(candidate, KVT_CANDIDATE_UNFIT, own.text);
    }
    return KVT_OK;
}
