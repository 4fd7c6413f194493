/*
 * reproduce_serving.c - published serving results: one simulated run per row
 *
 *   any metric of summary.h   of the file's load at the row's concurrency
 *   resident_requests         mean number of requests in the decode batches; published as "below"
 *                             where a server ran out of memory: an engine queues instead
 *   tag_check_overhead        1 - output throughput / the same without guards
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/reproduce.h"
#include "sim/plan/resample.h"

#define RESIDENTS "resident_requests"

struct measured {
    double metric;                  /* NaN: the run has no such metric */
    double residents;               /* mean members of the decode batches of all replicas */
    struct kvt_resamples resamples; /* owned; none: count 0 */
};

static double residents_of(const struct kvt_simulation *simulation)
{
    const struct kvt_des *des = &simulation->des;
    double mean = 0;
    for (int32_t i = 0; i < des->core.replica_count; i++)
        if (des->core.replicas[i].spec.role != KVT_ROLE_PREFILL)
            mean += kvt_series_mean_all(&des->observer.series[i], KVT_GAUGE_RUNNING);
    return mean;
}

/* What the run says, and its resamples. */
static enum kvt_status take(const struct kvt_simulation *simulation,
                            const struct kvt_summary *summary, const char *metric,
                            int32_t resamples, struct measured *measured, struct kvt_err *err)
{
    const struct kvt_metric *found = kvt_summary_find(summary, metric);
    measured->metric = (double)NAN;
    if (found != NULL && found->has_value)
        measured->metric = found->kind == KVT_METRIC_COUNT ? (double)found->count : found->real;
    measured->residents = residents_of(simulation);
    if (resamples == 0)
        return KVT_OK;
    struct kvt_resample_options how = {.count = resamples,
                                       .seed = simulation->config->run.seed,
                                       .extra_name = RESIDENTS,
                                       .extra = residents_of,
                                       .stop = &kvt_cli_interrupted};
    return kvt_resample(&measured->resamples, simulation, summary, &how, err);
}

static enum kvt_status measure(const struct kvt_config *config, const char *metric,
                               int32_t resamples, struct measured *measured, struct kvt_err *err)
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
        if (status == KVT_OK)
            status = take(&simulation, &summary, metric, resamples, measured, err);
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

/* 1 - with / without; resample by resample, so that errors which both have cancel. */
static enum kvt_status overhead_of(struct kvt_config *run, int32_t resamples,
                                   const struct measured *with, struct kvt_reproduced *row,
                                   struct kvt_err *err)
{
    static const char metric[] = "output_throughput";
    struct measured bare = {0};
    struct kvt_interval interval = {(double)NAN, (double)NAN};
    without_guards(run);
    enum kvt_status status = measure(run, metric, resamples, &bare, err);
    double *values = calloc((size_t)resamples + 1, sizeof *values);
    if (status == KVT_OK && values == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for an interval");
    if (status == KVT_OK) {
        row->predicted = 1 - with->metric / bare.metric;
        for (int32_t r = 0; r < resamples; r++)
            values[r] = 1 - kvt_resamples_values(&with->resamples, metric)[r] /
                                kvt_resamples_values(&bare.resamples, metric)[r];
        interval = kvt_interval_of(values, resamples, row->predicted);
        row->low = interval.low;
        row->high = interval.high;
    }
    free(values);
    kvt_resamples_release(&bare.resamples);
    return status;
}

static enum kvt_status fill(struct kvt_config *run, const char *metric, int32_t resamples,
                            struct measured *measured, struct kvt_reproduced *row,
                            struct kvt_err *err)
{
    struct kvt_interval interval;
    bool overhead = strcmp(metric, "tag_check_overhead") == 0;
    KVT_TRY(measure(run, overhead ? "output_throughput" : metric, resamples, measured, err));
    if (overhead)
        return overhead_of(run, resamples, measured, row, err);
    row->predicted = strcmp(metric, RESIDENTS) == 0 ? measured->residents : measured->metric;
    if (resamples == 0)
        return KVT_OK;
    KVT_TRY(kvt_resamples_interval(&measured->resamples, metric, row->predicted, &interval, err));
    row->low = interval.low;
    row->high = interval.high;
    return KVT_OK;
}

enum kvt_status kvt_reproduce_serving(const struct kvt_config *config,
                                      const struct kvt_config_result *result, int32_t resamples,
                                      struct kvt_reproduced *row, struct kvt_err *err)
{
    struct kvt_config run = *config; /* the row's load; strings stay the config's */
    struct measured measured = {0};
    if (result->concurrency != KVT_UNSET && run.workload.kind != KVT_WORKLOAD_CLOSED)
        return kvt_err_at(err, KVT_ECONFIG, result->where,
                          "published: a concurrency wants a closed workload");
    if (result->concurrency != KVT_UNSET) {
        run.workload.concurrency = result->concurrency;
        run.domains = 0; /* a list of concurrencies is what the rows choose from */
    }
    enum kvt_status status = fill(&run, result->metric, resamples, &measured, row, err);
    kvt_resamples_release(&measured.resamples);
    KVT_TRY(status);
    row->supported = !isnan(row->predicted);
    if (!row->supported)
        snprintf(row->reason, sizeof row->reason, "a run has no metric of this name");
    return KVT_OK;
}
