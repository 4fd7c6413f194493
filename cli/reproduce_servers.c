/*
 * reproduce_servers.c - a table of benchmarks of real servers, beside simulated ones
 *
 * Each row is simulated (server_run.h); out_tok_s, tpot_ms and ttft_ms are then set beside the
 * row's, in the statistic that it states. What a row observed is read after its prediction, and
 * only to be printed. Rows run side by side and are printed in order.
 *
 * With a fit, the reliable rows of each engine on each GPU say two constants, each from the models
 * that are not tried with it (reproduce_fit.h):
 *   layer     by TPOT and output throughput, from a second run of the reliable rows with a longer
 *             layer; 1/throughput answers as TPOT does
 *   request   by TTFT, after layer; a first token comes later by just that
 * and all rows run once more with the constants that their model took no part in.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/reproduce.h"
#include "cli/reproduce_fit.h"
#include "cli/server_load.h"
#include "cli/server_run.h"

#define PROBE_LAYER 10e-6 /* s: how much longer layers are in the second run */

/* Throughput and latency of the row agree, and its source was graded as read directly. Tables
 * without these columns hold reliable rows only. Of the fit, never of a prediction. */
static bool is_reliable(const struct kvt_server_row *row)
{
    bool graded = kvt_table_column(row->table, "reliability") >= 0;
    bool checked = kvt_table_column(row->table, "little_check") >= 0;
    double check = kvt_server_outcome(row, "little_check");
    return (!graded || strcmp(kvt_server_field(row, "reliability"), "A") == 0) &&
           (!checked || (check >= 0.8 && check <= 1.25));
}

/* Three rows for one that is supported; of others the metrics that the table has. */
static enum kvt_status add(struct kvt_reproduced_list *list, const struct kvt_table *table,
                           int32_t index, const struct kvt_server_run *run,
                           const struct kvt_server_run *unfitted, struct kvt_err *err)
{
    const struct kvt_server_row row = {.table = table, .index = index};
    bool any = false;
    for (int m = 0; m < KVT_SERVER_METRICS; m++)
        any = any || !isnan(kvt_server_outcome(&row, kvt_server_metric_names[m]));
    for (int m = 0; m < KVT_SERVER_METRICS; m++) {
        double observed = kvt_server_outcome(&row, kvt_server_metric_names[m]);
        if (!run->supported && isnan(observed) && (any || m > 0))
            continue;
        struct kvt_reproduced *out = kvt_reproduced_add(list);
        if (out == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
        snprintf(out->row, sizeof out->row, "%s", kvt_server_field(&row, "row_id"));
        snprintf(out->metric, sizeof out->metric, "%s", kvt_server_metric_names[m]);
        out->observed = observed;
        out->supported = run->supported;
        out->reliable = is_reliable(&row);
        if (run->supported) {
            out->predicted = run->predicted[m];
            out->unfitted = unfitted->predicted[m];
            out->low = run->low[m];
            out->high = run->high[m];
        } else {
            snprintf(out->reason, sizeof out->reason, "%s", run->reason);
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

/* ---- the fit ---- */

enum pass { BASE, LONGER, FITTED, PASSES };

struct study_row {
    struct kvt_server_run run[PASSES];
    bool wanted; /* in the present pass */
    struct kvt_config_residual residual;
    int32_t group, model; /* the first row of the same */
};

struct study {
    const struct kvt_table *table;
    bool guess;
    int32_t resamples;                      /* of the pass that is printed */
    struct study_row *rows;                 /* owned; [row_count] */
    struct kvt_fit_point *points, *scratch; /* owned; [2 * row_count] */
    int32_t point_count;
};

static enum kvt_status study_init(struct study *s, const struct kvt_table *table, bool guess,
                                  int32_t resamples, struct kvt_err *err)
{
    size_t rows = (size_t)table->row_count + 1;
    *s = (struct study){.table = table, .guess = guess, .resamples = resamples};
    s->rows = calloc(rows, sizeof *s->rows);
    s->points = calloc(2 * rows, sizeof *s->points);
    s->scratch = calloc(2 * rows, sizeof *s->scratch);
    if (s->rows != NULL && s->points != NULL && s->scratch != NULL)
        return KVT_OK;
    return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
}

static void study_free(struct study *s)
{
    free(s->rows);
    free(s->points);
    free(s->scratch);
}

/* Run the wanted rows; the first that ends the command gives the status. */
static enum kvt_status run_rows(const struct study *s, enum pass pass, int32_t resamples,
                                struct kvt_err *err)
{
    int32_t rows = s->table->row_count;
#pragma omp parallel for schedule(dynamic, 4)
    for (int32_t i = 0; i < rows; i++) {
        struct kvt_server_how how = {
            .guess = s->guess, .resamples = resamples, .residual = s->rows[i].residual};
        if (s->rows[i].wanted)
            kvt_server_run(s->table, i, &how, &s->rows[i].run[pass]);
    }
    for (int32_t i = 0; i < rows; i++) {
        const struct kvt_server_run *run = &s->rows[i].run[pass];
        if (!s->rows[i].wanted || run->status == KVT_OK)
            continue;
        *err = run->err;
        return run->status;
    }
    return KVT_OK;
}

/* Rows of one engine and GPU, and those of one model among all, by their first row. */
static void name_groups(struct study *s)
{
    for (int32_t i = 0; i < s->table->row_count; i++) {
        const struct kvt_server_run *run = &s->rows[i].run[BASE];
        s->rows[i].group = s->rows[i].model = i;
        for (int32_t k = 0; k < i && run->supported; k++) {
            const struct kvt_server_run *before = &s->rows[k].run[BASE];
            if (!before->supported)
                continue;
            if (s->rows[i].group == i && strcmp(run->engine, before->engine) == 0 &&
                strcmp(run->gpu, before->gpu) == 0)
                s->rows[i].group = k;
            if (s->rows[i].model == i && strcmp(run->model, before->model) == 0)
                s->rows[i].model = k;
        }
    }
}

static double observed_of(const struct study *s, int32_t row, enum kvt_server_metric metric)
{
    const struct kvt_server_row at = {.table = s->table, .index = row};
    return kvt_server_outcome(&at, kvt_server_metric_names[metric]);
}

static void add_point(struct study *s, int32_t row, double base, double longer, double observed)
{
    if (isnan(observed) || isnan(base) || isnan(longer))
        return;
    s->points[s->point_count++] = (struct kvt_fit_point){.group = s->rows[row].group,
                                                         .model = s->rows[row].model,
                                                         .base = base,
                                                         .slope = (longer - base) / PROBE_LAYER,
                                                         .observed = observed};
}

/* What the reliable rows say of layer. */
static void layer_points(struct study *s)
{
    s->point_count = 0;
    for (int32_t i = 0; i < s->table->row_count; i++) {
        if (!s->rows[i].wanted)
            continue;
        const double *base = s->rows[i].run[BASE].predicted,
                     *longer = s->rows[i].run[LONGER].predicted;
        add_point(s, i, base[KVT_SERVER_TPOT_MS], longer[KVT_SERVER_TPOT_MS],
                  observed_of(s, i, KVT_SERVER_TPOT_MS));
        add_point(s, i, 1 / base[KVT_SERVER_OUT_TOK_S], 1 / longer[KVT_SERVER_OUT_TOK_S],
                  1 / observed_of(s, i, KVT_SERVER_OUT_TOK_S));
    }
}

/* What they say of request, once layer is known. */
static void request_points(struct study *s, double layer)
{
    s->point_count = 0;
    for (int32_t i = 0; i < s->table->row_count; i++) {
        if (!s->rows[i].wanted)
            continue;
        double base = s->rows[i].run[BASE].predicted[KVT_SERVER_TTFT_MS];
        double longer = s->rows[i].run[LONGER].predicted[KVT_SERVER_TTFT_MS];
        base += (longer - base) / PROBE_LAYER * layer;
        add_point(s, i, base, base + 1e3 * PROBE_LAYER, observed_of(s, i, KVT_SERVER_TTFT_MS));
    }
}

/* The constants of a group without a model (or KVT_FIT_NONE), as a line of the result. */
static struct kvt_fitted_constants fit_one(struct study *s, int32_t group, int32_t model)
{
    struct kvt_fitted_constants fit = {.layer = (double)NAN, .request = (double)NAN};
    snprintf(fit.engine, sizeof fit.engine, "%s", s->rows[group].run[BASE].engine);
    snprintf(fit.gpu, sizeof fit.gpu, "%s", s->rows[group].run[BASE].gpu);
    if (model != KVT_FIT_NONE)
        snprintf(fit.left_out, sizeof fit.left_out, "%s", s->rows[model].run[BASE].model);
    layer_points(s);
    struct kvt_fit_value layer =
        kvt_fit_left_out(s->points, s->point_count, group, model, s->scratch);
    request_points(s, layer.points > 0 ? layer.value : 0);
    struct kvt_fit_value request =
        kvt_fit_left_out(s->points, s->point_count, group, model, s->scratch);
    fit.layer = layer.value;
    fit.request = request.value;
    fit.points = layer.points + request.points;
    fit.models = layer.models > request.models ? layer.models : request.models;
    return fit;
}

static bool is_first(const struct study *s, int32_t row)
{
    for (int32_t i = 0; i < row; i++)
        if (s->rows[i].run[BASE].supported && s->rows[i].group == s->rows[row].group &&
            s->rows[i].model == s->rows[row].model)
            return false;
    return s->rows[row].run[BASE].supported;
}

/* Two constants for each engine, GPU and model, from the other models; and from all of them. */
static enum kvt_status fit_all(struct study *s, struct kvt_reproduced_list *list,
                               struct kvt_err *err)
{
    int32_t rows = s->table->row_count;
    for (int32_t i = 0; i < rows; i++) {
        if (!is_first(s, i))
            continue;
        for (int all = s->rows[i].group == i; all >= 0; all--) {
            struct kvt_fitted_constants fit =
                fit_one(s, s->rows[i].group, all ? KVT_FIT_NONE : s->rows[i].model);
            struct kvt_fitted_constants *out = kvt_reproduced_add_constants(list);
            if (out == NULL)
                return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
            *out = fit;
            for (int32_t k = i; k < rows && !all; k++) {
                if (!s->rows[k].run[BASE].supported || s->rows[k].group != s->rows[i].group ||
                    s->rows[k].model != s->rows[i].model)
                    continue;
                s->rows[k].residual.layer = isnan(fit.layer) ? 0 : fit.layer;
                s->rows[k].residual.request = isnan(fit.request) ? 0 : fit.request;
            }
        }
    }
    return KVT_OK;
}

/* Three passes: as it is, the reliable rows with longer layers, all with their constants. */
static enum kvt_status fit_rows(struct study *s, struct kvt_reproduced_list *list,
                                struct kvt_err *err)
{
    int32_t rows = s->table->row_count;
    name_groups(s);
    for (int32_t i = 0; i < rows; i++) {
        const struct kvt_server_row row = {.table = s->table, .index = i};
        s->rows[i].wanted = s->rows[i].run[BASE].supported && is_reliable(&row);
        s->rows[i].residual.layer = PROBE_LAYER;
    }
    KVT_TRY(run_rows(s, LONGER, 0, err));
    for (int32_t i = 0; i < rows; i++)
        s->rows[i].residual = (struct kvt_config_residual){0};
    KVT_TRY(fit_all(s, list, err));
    for (int32_t i = 0; i < rows; i++) {
        const struct kvt_config_residual *r = &s->rows[i].residual;
        bool moves = fabs(r->layer) > 0 || fabs(r->request) > 0;
        s->rows[i].wanted = s->rows[i].run[BASE].supported && (moves || s->resamples > 0);
        s->rows[i].run[FITTED] = s->rows[i].run[BASE];
        if (s->rows[i].wanted)
            s->rows[i].run[FITTED] = (struct kvt_server_run){0};
    }
    return run_rows(s, FITTED, s->resamples, err);
}

enum kvt_status kvt_reproduce_servers(const char *path, bool guess, bool fit, int32_t resamples,
                                      struct kvt_reproduced_list *list, struct kvt_err *err)
{
    struct kvt_table table;
    struct study s;
    KVT_TRY(read_table(&table, path, err));
    enum kvt_status status = study_init(&s, &table, guess, resamples, err);
    for (int32_t i = 0; i < table.row_count && status == KVT_OK; i++)
        s.rows[i].wanted = true;
    if (status == KVT_OK)
        status = run_rows(&s, BASE, fit ? 0 : resamples, err);
    if (status == KVT_OK && fit)
        status = fit_rows(&s, list, err);
    list->fitted = fit;
    for (int32_t i = 0; i < table.row_count && status == KVT_OK; i++)
        status =
            add(list, &table, i, &s.rows[i].run[fit ? FITTED : BASE], &s.rows[i].run[BASE], err);
    study_free(&s);
    kvt_table_free(&table);
    return status;
}

enum kvt_status kvt_reproduce_server_config(const char *path, const char *row_id, bool guess,
                                            char **text, struct kvt_err *err)
{
    struct kvt_table table;
    KVT_TRY(read_table(&table, path, err));
    int32_t i = 0;
    while (i < table.row_count && strcmp(kvt_table_field(&table, i, "row_id"), row_id) != 0)
        i++;
    struct kvt_server_row row = {.table = &table, .index = i};
    struct kvt_server_load load;
    enum kvt_status status = KVT_OK;
    if (i == table.row_count)
        status = kvt_err_set(err, KVT_EUSAGE, "there is no row \"%.60s\" in %s", row_id, path);
    else if (!kvt_server_read(&row) || !kvt_server_load_read(&row, &load, guess))
        status = kvt_err_at(err, kvt_server_ends(&row) ? row.status : KVT_ECONFIG,
                            kvt_table_where(&table, i), "%s%s",
                            kvt_server_ends(&row) ? "" : "unsupported: ", row.reason);
    else if ((*text = kvt_server_config(&row, &load)) == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for a config");
    kvt_table_free(&table);
    return status;
}
