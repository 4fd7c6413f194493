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
#include "sim/output/summary.h"
#include "sim/plan/simulate.h"

enum { OUT_TOK_S, TPOT_MS, TTFT_MS, METRICS };
static const char *const metric_names[METRICS] = {"out_tok_s", "tpot_ms", "ttft_ms"};

#define SUMMARY_BYTES ((size_t)1 << 20)

/* One table row on its way to three result rows. */
struct outcome {
    bool supported;
    double predicted[METRICS];
    char reason[160];
    enum kvt_status status; /* what ends the command: memory, a broken calibration file */
    struct kvt_err err;
};

static double metric_of(const struct kvt_summary *summary, const char *statistic, const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s%s", statistic, statistic[0] != '\0' ? "_" : "", name);
    const struct kvt_metric *found = kvt_summary_find(summary, whole);
    if (found == NULL || !found->has_value)
        return (double)NAN;
    return found->kind == KVT_METRIC_COUNT ? (double)found->count : found->real;
}

static enum kvt_status run_once(const struct kvt_config *config, const char *statistic,
                                double metrics[METRICS], struct kvt_err *err)
{
    struct kvt_simulation *simulation = calloc(1, sizeof *simulation);
    struct kvt_summary *summary = calloc(1, sizeof *summary);
    struct kvt_simulate_options options = {0};
    struct kvt_result result;
    struct kvt_arena arena = {0};
    enum kvt_status status = KVT_OK;
    if (simulation == NULL || summary == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for a run");
    if (status == KVT_OK)
        status = kvt_arena_init(&arena, SUMMARY_BYTES, err);
    if (status == KVT_OK)
        status = kvt_simulation_init(simulation, config, &options, err);
    if (status == KVT_OK) {
        status = kvt_simulation_run(simulation, &options, err);
        if (status == KVT_OK)
            status = kvt_simulation_result(simulation, &result, err);
        if (status == KVT_OK)
            status = kvt_summary_init(summary, &result, &arena, err);
        if (status == KVT_OK) {
            metrics[OUT_TOK_S] = metric_of(summary, "", "output_throughput");
            metrics[TPOT_MS] = metric_of(summary, statistic, "tpot_ms");
            metrics[TTFT_MS] = metric_of(summary, statistic, "ttft_ms");
        }
        kvt_simulation_release(simulation);
    }
    kvt_arena_release(&arena);
    free(summary);
    free(simulation);
    return status;
}

/* The mean of every metric over the seeds of the row. */
static enum kvt_status run_seeds(struct kvt_config *config, const struct kvt_server_load *load,
                                 double predicted[METRICS], struct kvt_err *err)
{
    int32_t seeds = kvt_server_load_seeds(load);
    for (int m = 0; m < METRICS; m++)
        predicted[m] = 0;
    for (int32_t seed = 1; seed <= seeds; seed++) {
        double one[METRICS];
        config->run.seed = (uint64_t)seed;
        KVT_TRY(run_once(config, load->statistic, one, err));
        for (int m = 0; m < METRICS; m++)
            predicted[m] += one[m] / seeds;
    }
    return KVT_OK;
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

static void predict(const struct kvt_table *table, int32_t index, bool guess,
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
        status = run_seeds(&config, &load, outcome->predicted, &outcome->err);
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
        if (outcome->supported)
            out->predicted = outcome->predicted[m];
        else
            snprintf(out->reason, sizeof out->reason, "%s", outcome->reason);
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

enum kvt_status kvt_reproduce_servers(const char *path, bool guess,
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
        predict(&table, i, guess, &outcomes[i]);
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
