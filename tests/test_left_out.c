/* Constants of an engine on a GPU: fitted to all models but one, and tried on that one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/reproduce.h"
#include "cli/reproduce_fit.h"
#include "cli/server_run.h"
#include "sim/base/file.h"
#include "tests/check.h"

#define TABLE "/tmp/kvtwin-test-left-out.csv"

static struct kvt_err err;

/* ---- the arithmetic ---- */

/* Rows of models 0..models-1 that answer to c with slopes of their own and show what c = truth
 * gives. */
static int32_t exact_points(struct kvt_fit_point points[], int32_t models, int32_t rows,
                            double truth)
{
    int32_t n = 0;
    for (int32_t m = 0; m < models; m++)
        for (int32_t r = 0; r < rows; r++, n++) {
            points[n] = (struct kvt_fit_point){
                .group = 7, .model = m, .base = 5 + 3 * m + r, .slope = 0.1 * (1 + m + 2 * r)};
            points[n].observed = points[n].base + truth * points[n].slope;
        }
    return n;
}

static void a_known_constant_comes_back(void)
{
    struct kvt_fit_point points[64], scratch[65];
    for (int32_t models = 3; models <= 8; models++) {
        int32_t n = exact_points(points, models, 4, 12.5);
        struct kvt_fit_value fit = kvt_fit_left_out(points, n, 7, KVT_FIT_NONE, scratch);
        CHECK_CLOSE(fit.value, 12.5, 1e-12, "from all");
        CHECK_I64(fit.models, models, "models");
        CHECK_I64(fit.points, 4 * models, "points");
        fit = kvt_fit_left_out(points, n, 7, 1, scratch);
        CHECK_CLOSE(fit.value, 12.5, 1e-12, "from the others");
        CHECK_I64(fit.models, models - 1, "one model less");
    }
}

static void the_model_that_is_left_out_has_no_say(void)
{
    struct kvt_fit_point points[32], scratch[33];
    int32_t n = exact_points(points, 4, 6, -3);
    double before = kvt_fit_left_out(points, n, 7, 2, scratch).value;
    for (int32_t i = 0; i < n; i++)
        if (points[i].model == 2)
            points[i].observed *= 1 + 10.0 * i, points[i].base = 0.5;
    double after = kvt_fit_left_out(points, n, 7, 2, scratch).value;
    CHECK(before == after);
    for (int32_t i = 0; i < n; i++)
        points[i].group = points[i].model == 3 ? 8 : 7;
    CHECK_I64(kvt_fit_left_out(points, n, 7, 2, scratch).models, 2, "those of other GPUs neither");
}

/* The calibration is one model that says 0; a model has one voice however many rows it has. */
static void models_have_one_voice_each(void)
{
    struct kvt_fit_point points[64], scratch[65];
    int32_t n = exact_points(points, 1, 1, 8);
    CHECK_CLOSE(kvt_fit_left_out(points, n, 7, 5, scratch).value, 4, 1e-12,
                "one model and the calibration meet half way");
    CHECK(isnan(kvt_fit_left_out(points, n, 7, 0, scratch).value));
    CHECK_I64(kvt_fit_left_out(points, n, 7, 0, scratch).points, 0, "nothing is left");
    n = 0;
    for (int32_t i = 0; i < 40; i++)
        points[n++] =
            (struct kvt_fit_point){.group = 7, .model = 0, .base = 1, .slope = 1, .observed = 101};
    for (int32_t m = 1; m <= 3; m++)
        points[n++] =
            (struct kvt_fit_point){.group = 7, .model = m, .base = 91, .slope = 1, .observed = 101};
    CHECK_CLOSE(kvt_fit_left_out(points, n, 7, KVT_FIT_NONE, scratch).value, 10, 1e-12,
                "three models against one of forty rows");
    points[0].slope = 0, points[1].observed = (double)NAN, points[2].base = (double)NAN;
    CHECK_I64(kvt_fit_left_out(points, n, 7, KVT_FIT_NONE, scratch).points, n - 3,
              "points that say nothing");
}

static double sum_at(const struct kvt_fit_point points[], int32_t n, int32_t rows, double c)
{
    double sum = 0, steep = 0;
    int32_t models = n / rows;
    for (int32_t i = 0; i < n; i++) {
        const struct kvt_fit_point *p = &points[i];
        sum += fabs(p->base + p->slope * c - p->observed) / p->observed / rows;
        steep += p->slope / p->observed / rows;
    }
    return sum + steep / models * fabs(c); /* the calibration */
}

static void no_other_constant_is_better(void)
{
    struct kvt_fit_point points[60], scratch[61];
    uint64_t state = 1;
    for (int32_t trial = 0; trial < 200; trial++) {
        int32_t rows = 1 + trial % 5, models = 1 + trial % 12, n = rows * models;
        for (int32_t i = 0; i < n; i++) {
            double draw[3];
            for (int k = 0; k < 3; k++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                draw[k] = (double)(state >> 40) / (double)(1 << 24);
            }
            points[i] = (struct kvt_fit_point){.group = 7,
                                               .model = i / rows,
                                               .base = 1 + draw[0],
                                               .slope = 0.1 + draw[1],
                                               .observed = 1 + 2 * draw[2]};
        }
        double c = kvt_fit_left_out(points, n, 7, KVT_FIT_NONE, scratch).value;
        double least = sum_at(points, n, rows, c);
        for (int32_t i = 0; i < n; i++) { /* the sum bends only at these */
            double bend = (points[i].observed - points[i].base) / points[i].slope;
            CHECK_NOTE(sum_at(points, n, rows, bend) >= least - 1e-12, "a bend");
        }
        CHECK_NOTE(sum_at(points, n, rows, 0) >= least - 1e-12, "the calibration's");
    }
}

/* ---- whole tables ---- */

static const char *const models[] = {"Qwen3-4B", "Qwen3-8B", "Qwen3-14B", "Llama-3.1-8B"};
#define MODELS 4
#define ROWS   (2 * MODELS + 1) /* two of each, and one on a GPU of its own */

static void row_of(char *out, size_t bytes, int r)
{
    bool alone = r == ROWS - 1;
    snprintf(out, bytes, "r%d,SGLang,0.5.9,%s%s,%s,1,1,random,fixed,%d,%d,%d,40", r,
             models[alone ? 0 : r / 2], !alone && r / 2 == 1 && r % 2 ? "-FP8" : "",
             alone ? "H200" : "H100", 300 + 50 * r, 60 + 10 * r, 1 + 3 * (r % 2));
}

static void write_table(double observed[ROWS][KVT_SERVER_METRICS], const char *reliability)
{
    char text[4096], row[256];
    size_t used =
        (size_t)sprintf(text, "row_id,engine,engine_version,model,gpu,n_gpus,tp,dataset,"
                              "length_dist,isl_tokens,osl_tokens,concurrency,num_requests,"
                              "out_tok_s,tpot_ms,ttft_ms,little_check,reliability\n");
    for (int r = 0; r < ROWS; r++) {
        row_of(row, sizeof row, r);
        used += (size_t)sprintf(text + used, "%s,%.9g,%.9g,%.9g,1,%s\n", row, observed[r][0],
                                observed[r][1], observed[r][2], r == 0 ? reliability : "A");
    }
    CHECK_OK(kvt_file_write(TABLE, text, used, &err), err);
}

/* What servers would show whose layers take 20 us longer and whose front ends 30 ms. */
static void show(double observed[ROWS][KVT_SERVER_METRICS])
{
    struct kvt_table table;
    struct kvt_server_how how = {.residual = {.layer = 20e-6, .request = 30e-3}};
    CHECK_OK(kvt_table_read(&table, TABLE, &err), err);
    for (int32_t r = 0; r < ROWS; r++) {
        struct kvt_server_run run = {0};
        kvt_server_run(&table, r, &how, &run);
        CHECK_NOTE(run.supported, run.reason);
        memcpy(observed[r], run.predicted, sizeof run.predicted);
    }
    kvt_table_free(&table);
}

static struct kvt_reproduced_list fitted(void)
{
    struct kvt_reproduced_list list = {0};
    err = (struct kvt_err){0};
    CHECK_OK(kvt_reproduce_servers(TABLE, false, true, 0, &list, &err), err);
    CHECK_I64(list.count, ROWS * KVT_SERVER_METRICS, "three metrics of each row");
    CHECK_I64(list.constant_count, MODELS + 1 + 2, "H100: all and each left out; H200: one model");
    return list;
}

static const struct kvt_fitted_constants *without(const struct kvt_reproduced_list *list,
                                                  const char *gpu, const char *model)
{
    for (int32_t i = 0; i < list->constant_count; i++)
        if (strcmp(list->constants[i].gpu, gpu) == 0 &&
            strcmp(list->constants[i].left_out, model) == 0)
            return &list->constants[i];
    CHECK(false);
    return &list->constants[0];
}

static void servers_with_a_constant_of_their_own_show_it(void)
{
    double observed[ROWS][KVT_SERVER_METRICS] = {{0}};
    write_table(observed, "A");
    show(observed);
    write_table(observed, "A");
    struct kvt_reproduced_list list = fitted();
    const struct kvt_fitted_constants *c = without(&list, "h100-sxm", "qwen3-8b");
    CHECK_I64(c->models, MODELS - 1, "fp8 and bf16 of one model are one model");
    CHECK_CLOSE(c->layer * 1e6, 20, 0.02, "us a layer");
    CHECK_CLOSE(c->request * 1e3, 30, 0.03, "ms a request");
    for (int32_t i = 0; i < list.count; i++) {
        const struct kvt_reproduced *row = &list.rows[i];
        bool alone = i >= list.count - KVT_SERVER_METRICS;
        CHECK_TEXT(row->kind, "predicted", "its own model had no say");
        CHECK(row->reliable);
        CHECK(fabs(row->unfitted / row->observed - 1) > 0.01);
        if (alone)
            CHECK(row->predicted == row->unfitted); /* no other model on this GPU */
        else
            CHECK_CLOSE(row->predicted, row->observed, 0.01, row->metric);
    }
    CHECK(isnan(without(&list, "h200-sxm", "qwen3-4b")->layer));
    kvt_reproduced_free(&list);
    remove(TABLE);
}

static void rows_of_a_model_do_not_move_its_own_prediction(void)
{
    double observed[ROWS][KVT_SERVER_METRICS] = {{0}};
    write_table(observed, "A");
    show(observed);
    write_table(observed, "A");
    struct kvt_reproduced_list before = fitted();
    for (int m = 0; m < KVT_SERVER_METRICS; m++)
        observed[0][m] *= 4, observed[1][m] *= 0.2; /* of Qwen3-4B */
    write_table(observed, "A");
    struct kvt_reproduced_list after = fitted();
    for (int i = 0; i < 2 * KVT_SERVER_METRICS; i++)
        CHECK(before.rows[i].predicted == after.rows[i].predicted);
    CHECK(without(&before, "h100-sxm", "qwen3-4b")->layer ==
          without(&after, "h100-sxm", "qwen3-4b")->layer);
    CHECK(without(&before, "h100-sxm", "")->points == without(&after, "h100-sxm", "")->points);
    kvt_reproduced_free(&after);
    write_table(observed, "B"); /* the first row is not reliable: none learns from it */
    after = fitted();
    CHECK_I64(without(&after, "h100-sxm", "")->points, without(&before, "h100-sxm", "")->points - 3,
              "three points less");
    CHECK(!after.rows[0].reliable && after.rows[3].reliable);
    CHECK(after.rows[0].predicted == before.rows[0].predicted);
    kvt_reproduced_free(&before);
    kvt_reproduced_free(&after);
    remove(TABLE);
}

const struct check_test check_left_out[] = {
    {"a known constant comes back", a_known_constant_comes_back, false},
    {"the model that is left out has no say", the_model_that_is_left_out_has_no_say, false},
    {"models have one voice each", models_have_one_voice_each, false},
    {"no other constant is better", no_other_constant_is_better, false},
    {"servers with a constant of their own show it", servers_with_a_constant_of_their_own_show_it,
     false},
    {"rows of a model do not move its own prediction",
     rows_of_a_model_do_not_move_its_own_prediction, false},
    {NULL, NULL, false},
};
