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
#include "sim/plan/evaluate.h"

#define RESIDENTS "resident_requests"

static double residents_of(const struct kvt_simulation *simulation)
{
    const struct kvt_des *des = &simulation->des;
    double mean = 0;
    for (int32_t i = 0; i < des->core.replica_count; i++)
        if (des->core.replicas[i].spec.role != KVT_ROLE_PREFILL)
            mean += kvt_series_mean_all(&des->observer.series[i], KVT_GAUGE_RUNNING);
    return mean;
}

static enum kvt_status measure(const struct kvt_config *config, int32_t resamples,
                               struct kvt_evaluation *measured, struct kvt_err *err)
{
    struct kvt_resample_options how = {.count = resamples,
                                       .seed = config->run.seed,
                                       .extra_name = RESIDENTS,
                                       .extra = residents_of,
                                       .stop = &kvt_cli_interrupted};
    return kvt_evaluate(measured, config, NULL, &how, err);
}

static void without_guards(struct kvt_config *config)
{
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        config->roles[role].guard = (struct kvt_config_guard){.on = {[KVT_GUARD_NONE] = true}};
}

/* 1 - with / without; resample by resample, so that errors which both have cancel. */
static enum kvt_status fill_overhead(const struct kvt_evaluation *with,
                                     const struct kvt_evaluation *without,
                                     struct kvt_reproduced *row, struct kvt_err *err)
{
    static const char metric[] = "output_throughput";
    int32_t count = with->resamples.count;
    double *values = calloc((size_t)count + 1, sizeof *values);
    if (values == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for an interval");
    row->predicted =
        1 - kvt_evaluation_metric(with, metric) / kvt_evaluation_metric(without, metric);
    for (int32_t r = 0; r < count; r++)
        values[r] = 1 - kvt_resamples_values(&with->resamples, metric)[r] /
                            kvt_resamples_values(&without->resamples, metric)[r];
    struct kvt_interval interval = kvt_interval_of(values, count, row->predicted);
    row->low = interval.low;
    row->high = interval.high;
    free(values);
    return KVT_OK;
}

static enum kvt_status fill(struct kvt_config *run, const char *metric, int32_t resamples,
                            const struct kvt_evaluation *measured, struct kvt_reproduced *row,
                            struct kvt_err *err)
{
    static struct kvt_evaluation bare;
    struct kvt_interval interval;
    if (strcmp(metric, "tag_check_overhead") == 0) {
        without_guards(run);
        KVT_TRY(measure(run, resamples, &bare, err));
        enum kvt_status status = fill_overhead(measured, &bare, row, err);
        kvt_evaluation_release(&bare);
        return status;
    }
    row->predicted = strcmp(metric, RESIDENTS) == 0 ? residents_of(&measured->simulation)
                                                    : kvt_evaluation_metric(measured, metric);
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
    static struct kvt_evaluation measured;
    if (result->concurrency != KVT_UNSET && run.workload.kind != KVT_WORKLOAD_CLOSED)
        return kvt_err_at(err, KVT_ECONFIG, result->where,
                          "published: a concurrency wants a closed workload");
    if (result->concurrency != KVT_UNSET) {
        run.workload.concurrency = result->concurrency;
        run.domains = 0; /* a list of concurrencies is what the rows choose from */
    }
    KVT_TRY(measure(&run, resamples, &measured, err));
    enum kvt_status status = fill(&run, result->metric, resamples, &measured, row, err);
    kvt_evaluation_release(&measured);
    KVT_TRY(status);
    row->supported = !isnan(row->predicted);
    if (!row->supported)
        snprintf(row->reason, sizeof row->reason, "a run has no metric of this name");
    return KVT_OK;
}
