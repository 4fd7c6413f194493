/*
 * reproduce_servers.c - a table of benchmarks of real servers, beside simulated ones
 *
 * Each row becomes a config (server_load.h), which runs like any other; out_tok_s, tpot_ms and
 * ttft_ms are then set beside the row's, in the statistic that it states. What a row observed is
 * read after its prediction, and only to be printed. Rows run side by side and are printed in
 * order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/reproduce.h"
#include "cli/server_load.h"
#include "sim/config/config.h"
#include "sim/plan/evaluate.h"

enum { OUT_TOK_S, TPOT_MS, TTFT_MS, METRICS };
static const char *const metric_names[METRICS] = {"out_tok_s", "tpot_ms", "ttft_ms"};

#define ERROR_SEED 1 /* of the laws' errors in all rows */

/* One table row on its way to three result rows. */
struct outcome {
    bool supported;
    double predicted[METRICS], low[METRICS], high[METRICS]; /* NaN: no interval */
    char reason[160];
    enum kvt_status status; /* what ends the command: memory, a broken calibration file */
    struct kvt_err err;
};

/* A run with its seed's share of what a row predicts; sums over the seeds. */
struct sums {
    double point[METRICS];
    int32_t count;              /* resamples */
    double *resampled[METRICS]; /* owned; [count] */
    char names[METRICS][64];    /* in a summary */
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
    for (int m = 0; m < METRICS && status == KVT_OK; m++) {
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
    snprintf(sums->names[OUT_TOK_S], sizeof sums->names[0], "output_throughput");
    snprintf(sums->names[TPOT_MS], sizeof sums->names[0], "%.32s_tpot_ms", statistic);
    snprintf(sums->names[TTFT_MS], sizeof sums->names[0], "%.32s_ttft_ms", statistic);
    for (int m = 0; m < METRICS; m++) {
        sums->resampled[m] = calloc((size_t)resamples + 1, sizeof(double));
        if (sums->resampled[m] == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for the resamples of a row");
    }
    return KVT_OK;
}

/* The mean of every metric over the seeds of the row, and the intervals of these means. */
static enum kvt_status run_seeds(struct kvt_config *config, const struct kvt_server_load *load,
                                 int32_t resamples, struct outcome *outcome, struct kvt_err *err)
{
    struct sums sums;
    int32_t seeds = kvt_server_load_seeds(load);
    enum kvt_status status = sums_init(&sums, load->statistic, resamples, err);
    for (int32_t seed = 1; seed <= seeds && status == KVT_OK; seed++) {
        config->run.seed = (uint64_t)seed;
        status = run_once(config, &sums, err);
    }
    for (int m = 0; m < METRICS; m++) {
        outcome->predicted[m] = sums.point[m] / seeds;
        for (int32_t r = 0; r < resamples && sums.resampled[m] != NULL; r++)
            sums.resampled[m][r] /= seeds;
        struct kvt_interval interval = {(double)NAN, (double)NAN};
        if (sums.resampled[m] != NULL && !isnan(outcome->predicted[m]))
            interval = kvt_interval_of(sums.resampled[m], resamples, outcome->predicted[m]);
        outcome->low[m] = interval.low;
        outcome->high[m] = interval.high;
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

static void predict(const struct kvt_table *table, int32_t index, bool guess, int32_t resamples,
                    struct outcome *outcome)
{
    struct kvt_server_row *row = calloc(1, sizeof *row);
    struct kvt_server_load load;
    struct kvt_config config;
    if (row == NULL) {
        outcome->status = kvt_err_set(&outcome->err, KVT_ENOMEM, "no memory for a row");
        return;
    }
    row->table = table;
    row->index = index;
    if (!kvt_server_read(row) || !kvt_server_load_read(row, &load, guess)) {
        snprintf(outcome->reason, sizeof outcome->reason, "%s", row->reason);
        free(row);
        return;
    }
    char *text = kvt_server_config(row, &load);
    enum kvt_status status = KVT_OK;
    if (text == NULL)
        status = kvt_err_set(&outcome->err, KVT_ENOMEM, "no memory for a config");
    else
        status = kvt_config_parse(&config, kvt_server_field(row, "row_id"), text, strlen(text), ".",
                                  NULL, 0, &outcome->err);
    if (status == KVT_OK) {
        status = run_seeds(&config, &load, resamples, outcome, &outcome->err);
        kvt_config_release(&config);
    }
    outcome->supported = status == KVT_OK;
    if (is_of_row(status))
        snprintf(outcome->reason, sizeof outcome->reason, "%.159s",
                 without_place(outcome->err.text, kvt_server_field(row, "row_id")));
    else
        outcome->status = status;
    free(text);
    free(row);
}

/* Three rows for one that is supported; of others the metrics that the table has. */
static enum kvt_status add(struct kvt_reproduced_list *list, const struct kvt_table *table,
                           int32_t index, const struct outcome *outcome, struct kvt_err *err)
{
    const struct kvt_server_row row = {.table = table, .index = index};
    bool any = false;
    for (int m = 0; m < METRICS; m++)
        any = any || !isnan(kvt_server_outcome(&row, metric_names[m]));
    for (int m = 0; m < METRICS; m++) {
        double observed = kvt_server_outcome(&row, metric_names[m]);
        if (!outcome->supported && isnan(observed) && (any || m > 0))
            continue;
        struct kvt_reproduced *out = kvt_reproduced_add(list);
        if (out == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
        snprintf(out->row, sizeof out->row, "%s", kvt_server_field(&row, "row_id"));
        snprintf(out->metric, sizeof out->metric, "%s", metric_names[m]);
        out->observed = observed;
        out->supported = outcome->supported;
        if (outcome->supported) {
            out->predicted = outcome->predicted[m];
            out->low = outcome->low[m];
            out->high = outcome->high[m];
        } else {
            snprintf(out->reason, sizeof out->reason, "%s", outcome->reason);
        }
    }
    return KVT_OK;
}

static enum kvt_status read_table(struct kvt_table *table, const char *path, struct kvt_err *err)
{
    static const char *const needed[] = {"row_id", "engine",     "model",
                                         "gpu",    "isl_tokens", "osl_tokens"};
    KVT_TRY(kvt_table_read(table, path, err));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (kvt_table_column(table, needed[i]) >= 0)
            continue;
        kvt_table_free(table);
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path, .line = 1},
                          "want a column \"%s\"", needed[i]);
    }
    return KVT_OK;
}

enum kvt_status kvt_reproduce_servers(const char *path, bool guess, int32_t resamples,
                                      struct kvt_reproduced_list *list, struct kvt_err *err)
{
    struct kvt_table table;
    KVT_TRY(read_table(&table, path, err));
    enum kvt_status status = KVT_OK;
    struct outcome *outcomes = calloc((size_t)table.row_count + 1, sizeof *outcomes);
    if (outcomes == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
    int32_t rows = status == KVT_OK ? table.row_count : 0;
#pragma omp parallel for schedule(dynamic, 4)
    for (int32_t i = 0; i < rows; i++)
        predict(&table, i, guess, resamples, &outcomes[i]);
    for (int32_t i = 0; i < rows && status == KVT_OK; i++) {
        status = outcomes[i].status;
        if (status != KVT_OK)
            *err = outcomes[i].err;
        else
            status = add(list, &table, i, &outcomes[i], err);
    }
    free(outcomes);
    kvt_table_free(&table);
    return status;
}

enum kvt_status kvt_reproduce_server_config(const char *path, const char *row_id, bool guess,
                                            char **text, struct kvt_err *err)
{
    struct kvt_table table;
    KVT_TRY(read_table(&table, path, err));
    enum kvt_status status =
        kvt_err_set(err, KVT_EUSAGE, "there is no row \"%.60s\" in %s", row_id, path);
    for (int32_t i = 0; i < table.row_count; i++) {
        if (strcmp(kvt_table_field(&table, i, "row_id"), row_id) != 0)
            continue;
        struct kvt_server_row row = {.table = &table, .index = i};
        struct kvt_server_load load;
        struct kvt_where where = kvt_table_where(&table, i);
        if (!kvt_server_read(&row) || !kvt_server_load_read(&row, &load, guess)) {
            status = kvt_err_at(err, KVT_ECONFIG, where, "unsupported: %s", row.reason);
            break;
        }
        *text = kvt_server_config(&row, &load);
        status = *text != NULL ? KVT_OK : kvt_err_set(err, KVT_ENOMEM, "no memory for a config");
        break;
    }
    kvt_table_free(&table);
    return status;
}
