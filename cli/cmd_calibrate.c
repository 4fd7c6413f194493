/*
 * cmd_calibrate.c - kvtwin calibrate TABLE... -o CAL.yaml: laws from measured kernel times
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/calibrate_serving.h"
#include "cli/cli.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/cost/calibration_print.h"
#include "sim/cost/ceilings.h"
#include "sim/cost/fit_calibration.h"
#include "sim/cost/table.h"

#define CALIBRATION_BYTES_MAX (200 * 1024)
#define RULES_MAX             16

/* What one command works with; everything owned. */
struct calibrate {
    struct kvt_tables tables, tests;
    struct kvt_gpu gpu;
    struct kvt_fit *fits; /* [tables.series_count] */
    struct shown {        /* one line of the result */
        const struct kvt_fit *fit;
        const char *name;
        struct kvt_fit_errors errors;
        double inside;
    } * shown;
    int32_t shown_count;
};

/* Rows of kvtwin bench that are left out are said, and its ceilings stand for the data sheet. */
static enum kvt_status bench_facts(const struct kvt_cli *cli, struct calibrate *c,
                                   struct kvt_err *err)
{
    const struct kvt_bench_facts *tables[] = {&c->tables.bench, &c->tests.bench};
    for (int i = 0; i < 2; i++)
        if (tables[i]->left_out > 0)
            kvt_cli_say(cli, 0, "kvtwin: warning: %lld row%s left out; the first is %s",
                        (long long)tables[i]->left_out, kvt_plural(tables[i]->left_out),
                        tables[i]->left_out_why);
    double sheet = c->gpu.bandwidth;
    bool surprising = false;
    if (c->tables.bench.given)
        KVT_TRY(kvt_ceilings_apply(&c->tables.bench, &c->gpu, &surprising, err));
    if (surprising)
        kvt_cli_say(cli, 0,
                    "kvtwin: warning: %s reaches %.4g GB/s, GPU \"%s\" says %.4g GB/s: what was "
                    "measured holds",
                    c->tables.bench.device, 1e-9 * fmax(c->tables.bench.read, c->tables.bench.copy),
                    c->gpu.name, 1e-9 * sheet);
    return KVT_OK;
}

static enum kvt_status read_tables(const struct kvt_cli *cli, struct calibrate *c,
                                   struct kvt_err *err)
{
    const char *gpu = kvt_cli_get(cli, "gpu"), *stack = kvt_cli_get(cli, "stack"), *test;
    int32_t at = 0;
    for (int32_t i = 0; i < cli->operand_count; i++)
        KVT_TRY(kvt_tables_read(&c->tables, cli->operands[i], gpu, stack, err));
    while ((test = kvt_cli_next(cli, "test", &at)) != NULL)
        KVT_TRY(kvt_tables_read(&c->tests, test, gpu, stack, err));
    if (c->tables.series_count == 0)
        return kvt_err_set(err, KVT_ECONFIG, "%s: no row of a dtype that is known",
                           cli->operands[0]);
    char name[64];
    snprintf(name, sizeof name, "%s", c->tables.gpu);
    for (char *at_char = name; *at_char != '\0'; at_char++)
        *at_char = *at_char == '_' ? '-' : *at_char;
    KVT_TRY(kvt_gpu_load(&c->gpu, name[0] != '\0' ? name : gpu, -1.0, err));
    if (gpu != NULL && name[0] != '\0') {
        struct kvt_gpu wanted;
        KVT_TRY(kvt_gpu_load(&wanted, gpu, -1.0, err));
        if (strcmp(wanted.name, c->gpu.name) != 0)
            return kvt_err_set(err, KVT_ECONFIG, "%s: is a table of GPU \"%s\", --gpu wants \"%s\"",
                               cli->operands[0], c->gpu.name, wanted.name);
    }
    if (c->tests.gpu[0] != '\0' && c->tables.gpu[0] != '\0' &&
        strcmp(c->tests.gpu, c->tables.gpu) != 0)
        return kvt_err_set(err, KVT_ECONFIG, "%s: is a table of GPU \"%s\", the fit is for \"%s\"",
                           c->tests.paths[0], c->tests.gpu, c->tables.gpu);
    if (c->gpu.bandwidth <= 0.0)
        return kvt_err_set(err, KVT_ECONFIG,
                           "GPU \"%s\" is known by its memory only: no table can "
                           "be judged without its rates",
                           c->gpu.name);
    return bench_facts(cli, c, err);
}

/* All series, the longest first so that threads end together. */
static enum kvt_status fit_all(struct calibrate *c, struct kvt_err *err)
{
    int32_t count = c->tables.series_count;
    int32_t *order = malloc((size_t)count * sizeof *order);
    struct kvt_err *errors = calloc((size_t)count, sizeof *errors);
    c->fits = calloc((size_t)count, sizeof *c->fits);
    enum kvt_status status = KVT_OK;
    if (order == NULL || errors == NULL || c->fits == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for %d fits", count);
    for (int32_t i = 0; status == KVT_OK && i < count; i++) {
        int32_t at = i;
        for (; at > 0 && c->tables.series[order[at - 1]].rows < c->tables.series[i].rows; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    if (status == KVT_OK) {
#pragma omp parallel for schedule(dynamic, 1)
        for (int32_t i = 0; i < count; i++) {
            int32_t s = order[i];
            kvt_fit_series(&c->fits[s], &c->tables.series[s], &c->tables, &c->gpu, &errors[s]);
        }
    }
    for (int32_t i = 0; status == KVT_OK && i < count; i++)
        if (errors[i].status != KVT_OK)
            status = kvt_err_set(err, errors[i].status, "%s", errors[i].text);
    if (status == KVT_OK)
        kvt_fits_judge(c->fits, count);
    free(order);
    free(errors);
    return status;
}

static enum kvt_status show_tests(const struct kvt_cli *cli, struct calibrate *c,
                                  struct kvt_err *err)
{
    for (int32_t i = 0; i < c->tests.series_count; i++) {
        struct kvt_series *series = &c->tests.series[i];
        double floor;
        kvt_series_average(series, &floor);
        const struct kvt_fit *fit = kvt_fits_for(c->fits, c->tables.series_count, series);
        if (fit == NULL) {
            kvt_cli_say(cli, 0, "kvtwin: warning: %s: nothing was fitted to test it against",
                        series->name);
            continue;
        }
        struct shown *shown = &c->shown[c->shown_count++];
        *shown = (struct shown){.fit = fit, .name = series->name};
        KVT_TRY(
            kvt_fit_test(fit, series->samples, series->count, &shown->errors, &shown->inside, err));
    }
    return KVT_OK;
}

static enum kvt_status show(const struct kvt_cli *cli, struct calibrate *c, struct kvt_err *err)
{
    int32_t count = c->tests.path_count > 0 ? c->tests.series_count : c->tables.series_count;
    c->shown = calloc((size_t)count + 1, sizeof *c->shown);
    if (c->shown == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d results", count);
    for (int32_t i = 0; i < c->tables.series_count; i++) {
        const struct kvt_fit *fit = &c->fits[i];
        if (fit->trouble[0] != '\0')
            kvt_cli_say(cli, 0, "kvtwin: warning: %s: %s%s", fit->series->name,
                        fit->bad ? "not used: " : "", fit->trouble);
        if (c->tests.path_count == 0)
            c->shown[c->shown_count++] = (struct shown){.fit = fit,
                                                        .name = fit->series->name,
                                                        .errors = fit->held,
                                                        .inside = fit->coverage};
    }
    return c->tests.path_count > 0 ? show_tests(cli, c, err) : KVT_OK;
}

static void print_text(const struct calibrate *c)
{
    printf("%-78s %7s %8s %7s %6s %6s %6s %6s %6s %6s %6s\n", "series", "rows", "excluded",
           "tested", "median", "mean", "p90", "floor", "unseen", "mean", "inside");
    for (int32_t i = 0; i < c->shown_count; i++) {
        const struct shown *s = &c->shown[i];
        const struct kvt_fit *f = s->fit;
        printf(
            "%-78s %7lld %8lld %7lld %5.1f%% %5.1f%% %5.1f%% %5.1f%% %5.1f%% %5.1f%% %5.1f%%%s\n",
            s->name, (long long)f->rows, (long long)f->excluded, (long long)s->errors.rows,
            100 * s->errors.median, 100 * s->errors.mean, 100 * s->errors.p90, 100 * f->floor,
            100 * f->unseen.median, 100 * f->unseen.mean, 100 * s->inside,
            f->bad ? "  not used" : "");
    }
    for (int32_t i = 0; i < c->shown_count; i++) {
        const struct kvt_fit *f = c->shown[i].fit;
        for (int32_t k = 0; k < f->parameter_count; k++) {
            const struct kvt_fit_parameter *p = &f->parameters[k];
            printf("%s%s %s %.4g (%.4g to %.4g)%s", k == 0 ? f->series->name : "",
                   k == 0 ? ":" : ",", p->name, p->value, p->low, p->high,
                   p->known ? "" : " not told");
        }
        if (f->parameter_count > 0)
            printf("\n");
    }
}

static void print_csv(const struct calibrate *c)
{
    printf("name,rows,excluded,test_rows,mape,median,p90,repeat_floor,interval_coverage,"
           "unseen_rows,unseen_mape,unseen_median,used\n");
    for (int32_t i = 0; i < c->shown_count; i++) {
        const struct shown *s = &c->shown[i];
        const struct kvt_fit *f = s->fit;
        printf("\"%s\",%lld,%lld,%lld,%.6g,%.6g,%.6g,%.6g,%.6g,%lld,%.6g,%.6g,%d\n", s->name,
               (long long)f->rows, (long long)f->excluded, (long long)s->errors.rows,
               s->errors.mean, s->errors.median, s->errors.p90, f->floor, s->inside,
               (long long)f->unseen.rows, f->unseen.mean, f->unseen.median, !f->bad);
    }
}

/* Of the law without its surface, in s, bytes/s, FLOP/s and tokens. */
static json_t *parameters_json(const struct kvt_fit *f)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < f->parameter_count; k++) {
        const struct kvt_fit_parameter *p = &f->parameters[k];
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:b}", "name", p->name, "value",
                                              p->value, "low", p->low, "high", p->high, "known",
                                              p->known));
    }
    return list;
}

static enum kvt_status print_json(const struct calibrate *c, struct kvt_err *err)
{
    json_t *families = json_array();
    for (int32_t i = 0; i < c->shown_count; i++) {
        const struct shown *s = &c->shown[i];
        const struct kvt_fit *f = s->fit;
        json_t *row =
            json_pack("{s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:b, s:o}",
                      "name", kvt_json_text(s->name), "rows", (json_int_t)f->rows, "excluded",
                      (json_int_t)f->excluded, "test_rows", (json_int_t)s->errors.rows, "mape",
                      s->errors.mean, "median", s->errors.median, "p90", s->errors.p90,
                      "repeat_floor", f->floor, "interval_coverage", s->inside, "unseen_rows",
                      (json_int_t)f->unseen.rows, "unseen_mape", f->unseen.mean, "unseen_median",
                      f->unseen.median, "used", !f->bad, "trouble", kvt_json_text(f->trouble));
        json_object_set_new(row, "parameters", parameters_json(f));
        json_array_append_new(families, row);
    }
    json_t *root = json_pack("{s:s, s:o}", "gpu", c->gpu.name, "families", families);
    return kvt_json_print(root, 6, stdout, err);
}

/* What a calibration of kvtwin bench has besides its fits. */
static void add_own(const struct kvt_cli *cli, const struct calibrate *c,
                    struct kvt_calibration *built)
{
    const struct kvt_bench_facts *bench = &c->tables.bench;
    int32_t added = kvt_ceilings_fill(bench, &c->gpu, built);
    size_t used = strlen(built->source);
    snprintf(built->source + used, sizeof built->source - used,
             ". Measured by kvtwin bench (%s) on %s", bench->backend, bench->device);
    if (added > 0)
        kvt_cli_say(cli, 0, "kvtwin: %d famil%s the ceilings", added,
                    added == 1 ? "y was not measured; it follows"
                               : "ies were not measured; they follow");
    else if (bench->launch <= 0.0)
        kvt_cli_say(cli, 0,
                    "kvtwin: warning: no launch ceiling in the tables: families that were not "
                    "measured are left to the data sheet");
}

static enum kvt_status write_calibration(const struct kvt_cli *cli, struct calibrate *c,
                                         struct kvt_err *err)
{
    struct kvt_calibration built, kept = {0};
    struct kvt_kernel_rule rules[RULES_MAX];
    struct kvt_build_wishes wishes = {
        .gpu = c->gpu.name, .stack = kvt_cli_get(cli, "stack"), .rules = rules};
    const char *keep = kvt_cli_get(cli, "keep"), *rule;
    int32_t at = 0;
    char *text = NULL;
    size_t count = 0;
    while ((rule = kvt_cli_next(cli, "kernel", &at)) != NULL) {
        if (wishes.rule_count == RULES_MAX)
            return kvt_err_set(err, KVT_ELIMIT, "kernel: at most %d rules", RULES_MAX);
        KVT_TRY(kvt_kernel_rule_parse(&rules[wishes.rule_count++], rule, err));
    }
    if (keep != NULL) {
        KVT_TRY(kvt_calibration_load(&kept, keep, &c->gpu, "", NULL, err));
        wishes.keep = &kept;
    }
    enum kvt_status status =
        kvt_calibration_build(&built, c->fits, c->tables.series_count, &wishes, err);
    kvt_calibration_release(&kept);
    if (status != KVT_OK)
        return status;
    if (c->tables.bench.given)
        add_own(cli, c, &built);
    FILE *out = kvt_memory_open(&text, &count);
    if (out != NULL) {
        kvt_calibration_print(
            &built,
            "Written by kvtwin calibrate. Surfaces: 200 ln(factor), see sim/cost/surface.h.", out);
        kvt_memory_close(out, &text);
    }
    kvt_calibration_release(&built);
    if (text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the calibration");
    if (count > CALIBRATION_BYTES_MAX)
        status = kvt_err_set(err, KVT_ELIMIT, "%s: the calibration takes %zu bytes, at most %d",
                             cli->output, count, CALIBRATION_BYTES_MAX);
    else
        status = kvt_file_write(cli->output, text, count, err);
    free(text);
    return status;
}

/* Options of one kind of measurement mean nothing beside the other. */
static enum kvt_status check_options(const struct kvt_cli *cli, const char *serving,
                                     struct kvt_err *err)
{
    static const char *const of_tables[] = {"test", "gpu", "stack", "kernel", "keep", NULL};
    static const char *const of_config[] = {"set", "seed", "print-config", NULL};
    static const char *const of_file[] = {"keep", "kernel", NULL};
    int32_t at = 0;
    if (serving != NULL)
        KVT_TRY(
            kvt_cli_refuse(cli, of_tables, "is for tables of kernel times, not --serving", err));
    else
        KVT_TRY(kvt_cli_refuse(cli, of_config, "is for --serving CONFIG", err));
    if (cli->output == NULL)
        KVT_TRY(kvt_cli_refuse(cli, of_file,
                               "says what the calibration holds: want -o FILE, got none", err));
    if (serving != NULL)
        KVT_TRY(kvt_cli_check_input(cli, "serving", serving, err));
    for (const char *test; (test = kvt_cli_next(cli, "test", &at)) != NULL;)
        KVT_TRY(kvt_cli_check_input(cli, "test", test, err));
    for (int32_t i = 0; i < cli->operand_count; i++)
        for (int32_t j = 0; j < i; j++)
            if (kvt_file_is_same(cli->operands[j], cli->operands[i]))
                return kvt_err_set(err, KVT_EUSAGE, "%s: want each file once, got it as %s too",
                                   cli->operands[i], cli->operands[j]);
    return KVT_OK;
}

static enum kvt_status run_calibrate(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct calibrate c = {0};
    const char *serving = kvt_cli_get(cli, "serving");
    KVT_TRY(check_options(cli, serving, err));
    if (serving != NULL)
        return kvt_calibrate_serving(cli, serving, err);
    enum kvt_status status = read_tables(cli, &c, err);
    if (status == KVT_OK)
        status = fit_all(&c, err);
    if (status == KVT_OK)
        status = show(cli, &c, err);
    if (status == KVT_OK && cli->output != NULL)
        status = write_calibration(cli, &c, err);
    if (status == KVT_OK && cli->format == KVT_FORMAT_JSON)
        status = print_json(&c, err);
    else if (status == KVT_OK && cli->format == KVT_FORMAT_CSV)
        print_csv(&c);
    else if (status == KVT_OK)
        print_text(&c);
    for (int32_t i = 0; c.fits != NULL && i < c.tables.series_count; i++)
        kvt_fit_release(&c.fits[i]);
    free(c.fits);
    free(c.shown);
    kvt_tables_release(&c.tables);
    kvt_tables_release(&c.tests);
    return status;
}

static const struct kvt_cli_option options[] = {
    {"test", "TABLE", "a table that takes no part in the fit: report its errors instead; repeats"},
    {"gpu", "NAME", "the GPU of the tables (a name or a file); default: as their file names say"},
    {"stack", "NAME", "the stack that the calibration is for; default: that of most rows"},
    {"kernel", "FAMILY[:HIDDEN]=TEXT",
     "where tables hold several kernels of a family: the one whose kernel_source holds TEXT, for "
     "all models or those of one hidden size; repeats, the first that matches counts"},
    {"keep", "CAL", "take families that no table covers from this calibration (a name or a file)"},
    {"serving", "CONFIG",
     "fit host constants of this server to results of vllm bench serve or SGLang's bench_serving"},
    {NULL, NULL, NULL},
};

const struct kvt_command kvt_command_calibrate = {
    .name = "calibrate",
    .operands = "TABLE...",
    .help = "fit the cost model to tables of measured kernel times",
    .description =
        "Reads tables of kernel times (CSV, plain or gzip, named GPU-STACK-VERSION-TABLE.csv.gz),\n"
        "fits a law and a surface to every series of them, and prints the errors on rows and "
        "whole\n"
        "shapes that were held out. Tables that cannot be kernel times (faster than the memory,\n"
        "flat in size, slower over a smaller cache, mostly launches) are reported and left out. "
        "-o\n"
        "writes the calibration. Two threads fit about 10,000 rows a second.\n"
        "Tables of kvtwin bench need --gpu; their small grids get a law with few parameters, each\n"
        "with the interval that 95 % of such tables would hold it in, and what they did not "
        "measure\n"
        "follows their ceilings.\n"
        "With --serving the operands are results that a benchmark client wrote (JSON of vllm "
        "bench\n"
        "serve --save-result, JSON lines of SGLang's bench_serving): each is simulated on CONFIG,\n"
        "and time per layer, host time per step, time before the first token and the skew of\n"
        "routing are fitted as far as the results tell them. -o writes CONFIG's calibration with\n"
        "these constants replaced.",
    .example = "kvtwin calibrate h200_sxm-sglang-*.csv.gz -o h200.yaml\n"
               "kvtwin calibrate h200_sxm-sglang-0.5.14-gemm_perf.csv.gz --test held.csv.gz\n"
               "kvtwin calibrate own.csv --gpu my-cpu.yaml -o own.yaml\n"
               "kvtwin calibrate runs/*.json --serving my.yaml -o fitted.yaml",
    .uses = KVT_USES_CONFIG | KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = -1,
    .options = options,
    .run = run_calibrate,
};
