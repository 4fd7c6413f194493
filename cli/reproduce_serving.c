/*
 * reproduce_serving.c - published serving results: one simulated run per row
 *
 *   any metric of summary.h   of the file's load at the row's concurrency
 *   resident_requests         mean number of requests in the decode batches; published as "below"
 *                             where a server ran out of memory: an engine queues instead
 *   tag_check_overhead        1 - output throughput / the same without guards
 */
#include <math.h>
#include <string.h>

#include "cli/reproduce.h"
#include "sim/output/summary.h"
#include "sim/plan/simulate.h"

struct measured {
    double metric;    /* NaN: the run has no such metric */
    double residents; /* mean members of the decode batches, over all replicas together */
};

static double residents_of(const struct kvt_des *des)
{
    double mean = 0;
    for (int32_t i = 0; i < des->core.replica_count; i++)
        if (des->core.replicas[i].spec.role != KVT_ROLE_PREFILL)
            mean += kvt_series_mean_all(&des->observer.series[i], KVT_GAUGE_RUNNING);
    return mean;
}

static enum kvt_status measure(const struct kvt_config *config, const char *metric,
                               struct measured *measured, struct kvt_err *err)
{
    static struct kvt_simulation simulation;
    static struct kvt_summary summary;
    struct kvt_simulate_options options = {0};
    struct kvt_result result;
    struct kvt_arena arena;
    KVT_TRY(kvt_arena_init(&arena, 16 << 20, err));
    enum kvt_status status = kvt_simulation_init(&simulation, config, &options, err);
    if (status == KVT_OK) {
        status = kvt_simulation_run(&simulation, &options, err);
        if (status == KVT_OK)
            status = kvt_simulation_result(&simulation, &result, err);
        if (status == KVT_OK)
            status = kvt_summary_init(&summary, &result, &arena, err);
        if (status == KVT_OK) {
            const struct kvt_metric *found = kvt_summary_find(&summary, metric);
            measured->metric = (double)NAN;
            if (found != NULL && found->has_value)
                measured->metric =
                    found->kind == KVT_METRIC_COUNT ? (double)found->count : found->real;
            measured->residents = residents_of(&simulation.des);
        }
        kvt_simulation_release(&simulation);
    }
    kvt_arena_release(&arena);
    return status;
}

static void without_guards(struct kvt_config *config)
{
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        config->roles[role].guard = (struct kvt_config_guard){.on = {[KVT_GUARD_NONE] = true}};
}

enum kvt_status kvt_reproduce_serving(const struct kvt_config *config,
                                      const struct kvt_config_result *result,
                                      struct kvt_reproduced *row, struct kvt_err *err)
{
    struct kvt_config run = *config; /* the row's load; strings stay the config's */
    if (result->concurrency != KVT_UNSET && run.workload.kind != KVT_WORKLOAD_CLOSED)
        return kvt_err_at(err, KVT_ECONFIG, result->where,
                          "published: a concurrency wants a closed workload");
    if (result->concurrency != KVT_UNSET) {
        run.workload.concurrency = result->concurrency;
        run.domains = 0; /* a list of concurrencies is what the rows choose from */
    }
    struct measured measured, bare;
    bool overhead = strcmp(result->metric, "tag_check_overhead") == 0;
    KVT_TRY(measure(&run, overhead ? "output_throughput" : result->metric, &measured, err));
    if (overhead) {
        without_guards(&run);
        KVT_TRY(measure(&run, "output_throughput", &bare, err));
        row->predicted = 1 - measured.metric / bare.metric;
    } else if (strcmp(result->metric, "resident_requests") == 0) {
        row->predicted = measured.residents;
    } else {
        row->predicted = measured.metric;
    }
    row->supported = !isnan(row->predicted);
    if (!row->supported)
        snprintf(row->reason, sizeof row->reason, "a run has no metric of this name");
    return KVT_OK;
}
