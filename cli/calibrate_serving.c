#include "cli/calibrate_serving.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/cost/calibration_print.h"
#include "sim/plan/role_memory.h"
#include "sim/plan/serving_fit.h"

#define RUN_CHARACTERS 36 /* of the path of a run, its end */

/* All results of the command line. */
struct results {
    struct kvt_bench_file *files;
    int32_t file_count;
    struct kvt_serving_run *runs;
    int32_t run_count;
};

static enum kvt_status read_results(const struct kvt_cli *cli, struct results *results,
                                    struct kvt_err *err)
{
    results->files = calloc((size_t)cli->operand_count, sizeof *results->files);
    if (results->files == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d files", cli->operand_count);
    size_t count = 0;
    for (int32_t i = 0; i < cli->operand_count; i++) {
        KVT_TRY(kvt_bench_file_read(&results->files[i], cli->operands[i], err));
        results->file_count++;
        count += (size_t)results->files[i].count;
    }
    results->runs = calloc(count, sizeof *results->runs);
    if (results->runs == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %zu runs", count);
    for (int32_t i = 0; i < results->file_count; i++)
        for (int32_t k = 0; k < results->files[i].count; k++)
            results->runs[results->run_count++] = (struct kvt_serving_run){
                .path = cli->operands[i], .run = &results->files[i].runs[k]};
    return KVT_OK;
}

static void results_release(struct results *results)
{
    for (int32_t i = 0; i < results->file_count; i++)
        kvt_bench_file_release(&results->files[i]);
    free(results->files);
    free(results->runs);
}

/* A benchmark of another model fits badly: say so where both names are of shipped models. */
static enum kvt_status say_models(const struct kvt_cli *cli, const struct kvt_config *config,
                                  const struct results *results, struct kvt_err *err)
{
    static struct kvt_model ours, known, theirs;
    const char *before = "";
    KVT_TRY(kvt_config_load_model(config, &ours, NULL, err));
    bool is_known = kvt_model_load(&known, ours.name, NULL) == KVT_OK;
    for (int32_t i = 0; is_known && i < results->run_count; i++) {
        const struct kvt_serving_run *run = &results->runs[i];
        if (run->run->model[0] == '\0' || strcmp(run->run->model, before) == 0)
            continue;
        before = run->run->model;
        if (kvt_model_load(&theirs, before, NULL) == KVT_OK && strcmp(theirs.name, known.name) != 0)
            kvt_cli_say(cli, 0,
                        "kvtwin: warning: %s:%d: is a run of \"%s\" (%s), the config %s describes "
                        "%s",
                        run->path, run->run->line, before, theirs.name, config->path, ours.name);
    }
    return KVT_OK;
}

/* ---- what is printed ---- */

static void print_constants(const struct kvt_serving_fit *fit, int32_t files)
{
    int fitted = 0;
    for (int c = 0; c < KVT_HOST_CONSTANT_COUNT; c++)
        fitted += fit->constants[c].fitted;
    printf("%d of %d constants fitted to %d run%s in %d file%s, with %lld simulations\n", fitted,
           KVT_HOST_CONSTANT_COUNT, fit->runs, kvt_plural(fit->runs), files, kvt_plural(files),
           (long long)fit->simulations);
    printf("%-8s %-18s %12s %12s %12s %12s\n", "constant", "law", "shipped", "fitted", "low",
           "high");
    for (int c = 0; c < KVT_HOST_CONSTANT_COUNT; c++) {
        const struct kvt_serving_constant *k = &fit->constants[c];
        bool share = c == KVT_HOST_CONSTANT_SKEW;
        double unit = share ? 1.0 : 1e6;
        const char *name = share ? "   " : " us";
        printf("%-8s %-18s", kvt_host_constant_names[c], k->family);
        int decimals = share ? 3 : 1;
        if (k->family[0] != '\0')
            printf(" %9.*f%s", decimals, unit * k->shipped, name);
        if (k->fitted)
            printf(" %9.*f%s %9.*f%s %9.*f%s\n", decimals, unit * k->value, name, decimals,
                   unit * k->low, name, decimals, unit * k->high, name);
        else
            printf("  kept: %s\n", k->why);
    }
}

/* Every metric with -v, else those that took part in the fit. */
static void print_text(const struct kvt_cli *cli, const struct kvt_serving_fit *fit,
                       const struct results *results)
{
    print_constants(fit, results->file_count);
    printf("\n%-42s %-24s %12s %9s %9s\n", "run", "metric", "measured", "shipped", "fitted");
    for (int32_t i = 0; i < fit->residual_count; i++) {
        const struct kvt_serving_residual *r = &fit->residuals[i];
        const struct kvt_serving_run *run = &results->runs[r->run];
        if (!r->fitted && cli->verbosity < 1)
            continue;
        char where[64];
        size_t length = strlen(run->path);
        snprintf(where, sizeof where, "%s%s:%d", length > RUN_CHARACTERS ? "..." : "",
                 run->path + (length > RUN_CHARACTERS ? length - RUN_CHARACTERS + 3 : 0),
                 run->run->line);
        printf("%-42s %-24s %12.4f %+8.2f%% %+8.2f%%%s\n", where, kvt_bench_metric_names[r->metric],
               r->observed, 100.0 * (r->before / r->observed - 1.0),
               100.0 * (r->after / r->observed - 1.0), r->fitted ? "" : "  not fitted");
    }
}

static void print_csv(const struct kvt_serving_fit *fit)
{
    printf("name,family,shipped,value,low,high,fitted,why\n");
    for (int c = 0; c < KVT_HOST_CONSTANT_COUNT; c++) {
        const struct kvt_serving_constant *k = &fit->constants[c];
        printf("%s,%s,%.9g,%.9g,%.9g,%.9g,%d,\"%s\"\n", kvt_host_constant_names[c], k->family,
               k->shipped, k->value, k->low, k->high, k->fitted, k->why);
    }
}

static enum kvt_status print_json(const struct kvt_serving_fit *fit, const struct results *results,
                                  struct kvt_err *err)
{
    json_t *constants = json_array(), *residuals = json_array();
    for (int c = 0; c < KVT_HOST_CONSTANT_COUNT; c++) {
        const struct kvt_serving_constant *k = &fit->constants[c];
        json_array_append_new(constants,
                              json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:b, s:s}", "name",
                                        kvt_host_constant_names[c], "family", k->family, "shipped",
                                        k->shipped, "value", k->value, "low", k->low, "high",
                                        k->high, "fitted", k->fitted, "why", k->why));
    }
    for (int32_t i = 0; i < fit->residual_count; i++) {
        const struct kvt_serving_residual *r = &fit->residuals[i];
        const struct kvt_serving_run *run = &results->runs[r->run];
        json_array_append_new(residuals,
                              json_pack("{s:o, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:b}", "file",
                                        kvt_json_text(run->path), "line", (int)run->run->line,
                                        "metric", kvt_bench_metric_names[r->metric], "observed",
                                        r->observed, "shipped", r->before, "predicted", r->after,
                                        "shipped_error", r->before / r->observed - 1.0, "error",
                                        r->after / r->observed - 1.0, "fitted", r->fitted));
    }
    json_t *root =
        json_pack("{s:s, s:i, s:i, s:I, s:o, s:o}", "calibration", fit->calibration.name, "files",
                  (int)results->file_count, "runs", (int)fit->runs, "simulations",
                  (json_int_t)fit->simulations, "constants", constants, "residuals", residuals);
    return kvt_json_print(root, 9, stdout, err);
}

static enum kvt_status write_calibration(const struct kvt_cli *cli,
                                         const struct kvt_serving_fit *fit, struct kvt_err *err)
{
    struct kvt_output output;
    FILE *file;
    KVT_TRY(kvt_output_open(&output, cli->output, &file, err));
    kvt_calibration_print(&fit->calibration,
                          "Written by kvtwin calibrate --serving. half_percent: 200 ln(factor).",
                          file);
    return kvt_output_commit(&output, err);
}

static enum kvt_status fit_and_print(const struct kvt_cli *cli, const struct kvt_config *config,
                                     const struct results *results, struct kvt_err *err)
{
    struct kvt_serving_fit fit;
    FILE *talk = cli->verbosity >= 0 ? stderr : NULL;
    KVT_TRY(kvt_serving_fit(&fit, config, results->runs, results->run_count, results->file_count,
                            talk, &kvt_cli_interrupted, err));
    enum kvt_status status = KVT_OK;
    bool any = false;
    for (int c = 0; c < KVT_HOST_CONSTANT_COUNT; c++)
        any = any || fit.constants[c].fitted;
    if (cli->output != NULL && any)
        status = write_calibration(cli, &fit, err);
    if (status == KVT_OK && cli->format == KVT_FORMAT_JSON)
        status = print_json(&fit, results, err);
    else if (status == KVT_OK && cli->format == KVT_FORMAT_CSV)
        print_csv(&fit);
    else if (status == KVT_OK)
        print_text(cli, &fit, results);
    kvt_serving_fit_release(&fit);
    if (status == KVT_OK && !any)
        return kvt_err_set(err, KVT_NEGATIVE,
                           "these results tell none of the constants; nothing is written");
    return status;
}

enum kvt_status kvt_calibrate_serving(const struct kvt_cli *cli, const char *config_path,
                                      struct kvt_err *err)
{
    static struct kvt_config config;
    struct results results = {0};
    bool done;
    KVT_TRY(kvt_cli_config(cli, config_path, &config, &done, err));
    if (done)
        return KVT_OK;
    enum kvt_status status = read_results(cli, &results, err);
    if (status == KVT_OK)
        status = say_models(cli, &config, &results, err);
    if (status == KVT_OK)
        status = fit_and_print(cli, &config, &results, err);
    results_release(&results);
    kvt_config_release(&config);
    return status;
}
