#include "cli/server_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/server_load.h"
#include "sim/plan/evaluate.h"

#define ERROR_SEED 1 /* of the laws' errors in all rows */

const char *const kvt_server_metric_names[KVT_SERVER_METRICS] = {"out_tok_s", "tpot_ms", "ttft_ms"};

/* A run with its seed's share of what a row predicts; sums over the seeds. */
struct sums {
    double point[KVT_SERVER_METRICS];
    int32_t count;                         /* resamples */
    double *resampled[KVT_SERVER_METRICS]; /* owned; [count] */
    char names[KVT_SERVER_METRICS][64];    /* in a summary */
};

/* Resample r errs alike with every seed: the load changes, the hardware does not. */
static enum kvt_status run_once(const struct kvt_config *config, struct sums *sums,
                                struct kvt_err *err)
{
    struct kvt_resample_options how = {
        .count = sums->count, .seed = ERROR_SEED, .stop = &kvt_cli_interrupted};
    struct kvt_evaluation *run = calloc(1, sizeof *run);
    if (run == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a run");
    enum kvt_status status = kvt_evaluate(run, config, NULL, &how, err);
    for (int m = 0; m < KVT_SERVER_METRICS && status == KVT_OK; m++) {
        const double *values = kvt_resamples_values(&run->resamples, sums->names[m]);
        sums->point[m] += kvt_evaluation_metric(run, sums->names[m]);
        for (int32_t r = 0; r < sums->count; r++)
            sums->resampled[m][r] += values != NULL ? values[r] : (double)NAN;
    }
    if (status == KVT_OK)
        kvt_evaluation_release(run);
    free(run);
    return status;
}

static enum kvt_status sums_init(struct sums *sums, const char *statistic, int32_t resamples,
                                 struct kvt_err *err)
{
    *sums = (struct sums){.count = resamples};
    snprintf(sums->names[KVT_SERVER_OUT_TOK_S], sizeof sums->names[0], "output_throughput");
    snprintf(sums->names[KVT_SERVER_TPOT_MS], sizeof sums->names[0], "%.32s_tpot_ms", statistic);
    snprintf(sums->names[KVT_SERVER_TTFT_MS], sizeof sums->names[0], "%.32s_ttft_ms", statistic);
    for (int m = 0; m < KVT_SERVER_METRICS; m++) {
        sums->resampled[m] = calloc((size_t)resamples + 1, sizeof(double));
        if (sums->resampled[m] == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for the resamples of a row");
    }
    return KVT_OK;
}

/* The mean of every metric over the seeds of the row, and the intervals of these means. */
static enum kvt_status run_seeds(struct kvt_config *config, const struct kvt_server_load *load,
                                 int32_t resamples, struct kvt_server_run *run, struct kvt_err *err)
{
    struct sums sums;
    int32_t seeds = kvt_server_load_seeds(load);
    enum kvt_status status = sums_init(&sums, load->statistic, resamples, err);
    for (int32_t seed = 1; seed <= seeds && status == KVT_OK; seed++) {
        config->run.seed = (uint64_t)seed;
        status = run_once(config, &sums, err);
    }
    for (int m = 0; m < KVT_SERVER_METRICS; m++) {
        run->predicted[m] = sums.point[m] / seeds;
        for (int32_t r = 0; r < resamples && sums.resampled[m] != NULL; r++)
            sums.resampled[m][r] /= seeds;
        struct kvt_interval interval = {(double)NAN, (double)NAN};
        if (sums.resampled[m] != NULL && !isnan(run->predicted[m]))
            interval = kvt_interval_of(sums.resampled[m], resamples, run->predicted[m]);
        run->low[m] = interval.low;
        run->high[m] = interval.high;
        free(sums.resampled[m]);
    }
    return status;
}

/* A config that does not fit or does not stand is a row that we do not model; the rest is ours. */
static bool is_of_row(enum kvt_status status)
{
    return status == KVT_ECONFIG || status == KVT_ELIMIT;
}

/* What a message says after the place in a config that nobody wrote. */
static const char *without_place(const char *text, const char *file)
{
    size_t count = strlen(file);
    const char *after = strstr(text, ": ");
    return strncmp(text, file, count) == 0 && text[count] == ':' && after != NULL ? after + 2
                                                                                  : text;
}

void kvt_server_run(const struct kvt_table *table, int32_t index, const struct kvt_server_how *how,
                    struct kvt_server_run *run)
{
    struct kvt_server_row *row = calloc(1, sizeof *row);
    struct kvt_server_load load;
    struct kvt_config config;
    if (row == NULL) {
        run->status = kvt_err_set(&run->err, KVT_ENOMEM, "no memory for a row");
        return;
    }
    row->table = table;
    row->index = index;
    if (!kvt_server_read(row) || !kvt_server_load_read(row, &load, how->guess)) {
        snprintf(run->reason, sizeof run->reason, "%s", row->reason);
        if (kvt_server_ends(row))
            run->status = kvt_err_set(&run->err, row->status, "%s", row->reason);
        free(row);
        return;
    }
    snprintf(run->engine, sizeof run->engine, "%s", kvt_engine_names[row->want.engine]);
    snprintf(run->gpu, sizeof run->gpu, "%s", row->gpu.name);
    snprintf(run->model, sizeof run->model, "%s", row->model.name);
    char *text = kvt_server_config(row, &load);
    enum kvt_status status = KVT_OK;
    if (text == NULL)
        status = kvt_err_set(&run->err, KVT_ENOMEM, "no memory for a config");
    else
        status = kvt_config_parse(&config, kvt_server_field(row, "row_id"), text, strlen(text), ".",
                                  NULL, 0, &run->err);
    if (status == KVT_OK) {
        config.residual = how->residual;
        status = run_seeds(&config, &load, how->resamples, run, &run->err);
        kvt_config_release(&config);
    }
    run->supported = status == KVT_OK;
    if (is_of_row(status))
        snprintf(run->reason, sizeof run->reason, "%.159s",
                 without_place(run->err.text, kvt_server_field(row, "row_id")));
    else
        run->status = status;
    free(text);
    free(row);
}
