/*
 * cmd_sweep.c - every combination of the domains of a config, on all cores and machines
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fields.h"
#include "cli/settings.h"
#include "sim/output/interval.h"
#include "sim/output/progress.h"
#include "sim/plan/sweep.h"

#define ROWS_SHOWN    40 /* of the table for people */
#define SETTING_WIDTH 40

static const struct kvt_cli_option options[] = {
    {"threads", "N", "threads of this process, or of each rank; as many as there are cores"},
    {"resamples", "N", "run each point N times more with other errors of the step times; 0"},
    {NULL, NULL, NULL},
};

/* ---- printing ----------------------------------------------------------------------------- */

static void print_json(const struct kvt_sweep *sweep)
{
    printf("{\"points\": %" PRId64 ", \"failed\": %" PRId64 ", \"rows\": [", sweep->count,
           sweep->failed);
    for (int64_t i = 0; i < sweep->count; i++) {
        json_t *row = json_object();
        json_object_set_new(row, "point", json_integer(i));
        json_object_set_new(row, "settings", kvt_settings_json(sweep->points, i));
        json_object_set_new(row, "status", json_integer((json_int_t)sweep->status[i]));
        if (sweep->message[i] != NULL)
            json_object_set_new(row, "message", kvt_json_text(sweep->message[i]));
        for (int32_t c = 0; sweep->message[i] == NULL && c < sweep->columns.count; c++)
            if (!isnan(kvt_sweep_value(sweep, c, i)))
                json_object_set_new(row, sweep->columns.names[c],
                                    kvt_json_real(kvt_sweep_value(sweep, c, i)));
        fputs(i > 0 ? ",\n  " : "\n  ", stdout);
        json_dumpf(row, stdout, JSON_REAL_PRECISION(12));
        json_decref(row);
    }
    puts("]}");
}

static void print_csv(const struct kvt_sweep *sweep)
{
    int32_t domains = sweep->points->config->domains;
    fputs("point", stdout);
    for (int32_t d = 0; d < domains; d++) {
        fputc(',', stdout);
        kvt_csv_field(stdout, kvt_config_domain(sweep->points->config, d)->path);
    }
    fputs(",status,message", stdout);
    for (int32_t c = 0; c < sweep->columns.count; c++)
        printf(",%s", sweep->columns.names[c]);
    fputc('\n', stdout);
    for (int64_t i = 0; i < sweep->count; i++) {
        printf("%" PRId64, i);
        for (int32_t d = 0; d < domains; d++) {
            fputc(',', stdout);
            kvt_csv_field(stdout, kvt_points_text(sweep->points, i, d));
        }
        printf(",%" PRId64 ",", sweep->status[i]);
        kvt_csv_field(stdout, sweep->message[i] != NULL ? sweep->message[i] : "");
        for (int32_t c = 0; c < sweep->columns.count; c++) {
            fputc(',', stdout);
            kvt_csv_number(stdout, kvt_sweep_value(sweep, c, i));
        }
        fputc('\n', stdout);
    }
}

/* The columns of the table for people. */
static const struct {
    const char *name, *label;
    int width, decimals;
} shown[] = {
    {"output_throughput", "out tok/s", 11, 0},
    {"median_ttft_ms", "TTFT p50", 11, 0},
    {"p90_ttft_ms", "p90 (ms)", 11, 0},
    {"p99_itl_ms", "ITL p99", 10, 1},
    {"request_goodput", "goodput", 9, 2},
    {"cost_usd_per_mtok", "USD/Mtok", 10, 3},
    {"slo_met", "SLO", 6, 0},
};

/* The width of a domain's column: its label and its choices. */
static int domain_width(const struct kvt_config_domain *domain)
{
    char label[80];
    size_t width = strlen(kvt_setting_label(domain->path, label, sizeof label));
    for (int32_t i = 0; i < domain->count; i++) {
        size_t length = strlen(domain->texts[i]);
        width = length > width ? length : width;
    }
    return (int)(width < SETTING_WIDTH ? width : SETTING_WIDTH);
}

/* The choices of a point in columns; point -1: the labels. */
static void print_settings(const struct kvt_sweep *sweep, int64_t point)
{
    char label[80];
    for (int32_t d = 0; d < sweep->points->config->domains; d++) {
        const struct kvt_config_domain *domain = kvt_config_domain(sweep->points->config, d);
        int width = domain_width(domain);
        printf("%-*.*s  ", width, width,
               point < 0 ? kvt_setting_label(domain->path, label, sizeof label)
                         : kvt_points_text(sweep->points, point, d));
    }
}

static void print_value(const struct kvt_sweep *sweep, size_t s, int64_t point)
{
    char number[48];
    int32_t column = kvt_point_column(&sweep->columns, shown[s].name);
    double value = column >= 0 ? kvt_sweep_value(sweep, column, point) : (double)NAN;
    if (isnan(value))
        snprintf(number, sizeof number, "-");
    else if (strcmp(shown[s].name, "slo_met") == 0)
        snprintf(number, sizeof number, "%s", value > 0 ? "met" : "no");
    else
        kvt_number_print(value, shown[s].decimals, number, sizeof number);
    kvt_print_right(stdout, number, shown[s].width);
}

static void print_text(const struct kvt_sweep *sweep)
{
    int64_t rows = sweep->count < ROWS_SHOWN ? sweep->count : ROWS_SHOWN;
    print_settings(sweep, -1);
    for (size_t s = 0; s < sizeof shown / sizeof *shown; s++)
        kvt_print_right(stdout, shown[s].label, shown[s].width);
    fputc('\n', stdout);
    for (int64_t i = 0; i < rows; i++) {
        print_settings(sweep, i);
        if (sweep->message[i] != NULL)
            printf("%.*s", (int)strcspn(sweep->message[i], "\n"), sweep->message[i]);
        for (size_t s = 0; sweep->message[i] == NULL && s < sizeof shown / sizeof *shown; s++)
            print_value(sweep, s, i);
        fputc('\n', stdout);
    }
    if (rows < sweep->count)
        printf("... and %" PRId64 " more: --format csv or json prints all, -o keeps them\n",
               sweep->count - rows);
    printf("%" PRId64 " point%s, %" PRId64 " could not be run\n", sweep->count,
           kvt_plural(sweep->count), sweep->failed);
}

/* ---- the command -------------------------------------------------------------------------- */

static enum kvt_status sweep_config(const struct kvt_cli *cli, const struct kvt_config *config,
                                    struct kvt_ranks *ranks, struct kvt_err *err)
{
    static struct kvt_sweep sweep;
    struct kvt_points points;
    struct kvt_progress progress = {0};
    int32_t threads;
    int64_t resamples;
    KVT_TRY(kvt_cli_get_threads(cli, &threads, err));
    KVT_TRY(kvt_cli_get_int(cli, "resamples", 0, KVT_RESAMPLES_MAX, 0, &resamples, err));
    const struct kvt_sweep_options how = {.output = cli->output,
                                          .threads = threads,
                                          .resamples = (int32_t)resamples,
                                          .stop = &kvt_cli_interrupted,
                                          .tell = {kvt_progress_tell, &progress}};
    enum kvt_status status =
        kvt_points_init(&points, config, cli->operands[0], cli->sets, cli->set_count, err);
    if (status == KVT_OK) {
        kvt_progress_begin(&progress, "sweeping", "points",
                           ranks->rank == 0 && kvt_cli_shows_progress(cli));
        status = kvt_sweep_run(&sweep, &points, ranks, &how, err);
        kvt_progress_end(&progress);
        if (ranks->rank == 0 && sweep.resumed > 0)
            kvt_cli_say(cli, 0,
                        "kvtwin: note: %" PRId64 " of %" PRId64 " point%s came from the journal",
                        sweep.resumed, sweep.count, kvt_plural(sweep.count));
        if (status == KVT_OK && ranks->rank == 0 && cli->output != NULL)
            status = kvt_sweep_write(&sweep, cli->output, err);
        if (status == KVT_OK && ranks->rank == 0) {
            if (cli->format == KVT_FORMAT_JSON)
                print_json(&sweep);
            else if (cli->format == KVT_FORMAT_CSV)
                print_csv(&sweep);
            else
                print_text(&sweep);
            if (sweep.failed == sweep.count)
                status = kvt_err_set(err, KVT_NEGATIVE,
                                     "none of the %" PRId64 " point%s could be run; the first: %s",
                                     sweep.count, kvt_plural(sweep.count), sweep.message[0]);
        }
        kvt_sweep_release(&sweep);
    }
    kvt_points_release(&points);
    return status;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static struct kvt_config config;
    struct kvt_ranks ranks;
    bool done = false;
    KVT_TRY(kvt_ranks_begin(&ranks, err));
    bool leads = ranks.rank == 0;
    enum kvt_status status = KVT_OK;
    if (leads || !cli->print_config)
        status = kvt_cli_config(cli, cli->operands[0], &config, &done, err);
    if (status == KVT_OK && !done && (leads || !cli->print_config)) {
        if (leads)
            kvt_cli_say_rates(cli, &config);
        status = sweep_config(cli, &config, &ranks, err);
        kvt_config_release(&config);
    }
    kvt_ranks_end(&ranks);
    if (leads)
        return status;
    *err = (struct kvt_err){0}; /* rank 0 tells it */
    return KVT_OK;
}

const struct kvt_command kvt_command_sweep = {
    .name = "sweep",
    .operands = "CONFIG",
    .help = "every combination of the domains of a config; resumes where it stopped",
    .description =
        "Any value of the config may be a domain, {choices: [...]} or {range: {min, max, step}}; "
        "each "
        "combination is a point, the last domain runs fastest. A point that cannot be run is "
        "listed "
        "with its message. With -o finished points are kept in OUT.journal.N beside the output "
        "until "
        "it is complete: the same command goes on where an earlier one was stopped. Started by "
        "mpirun or srun the ranks share the work; the file is the same for any number of them.",
    .example = "kvtwin sweep configs/examples/sweep.yaml -o sweep.h5\n"
               "mpirun -n 2 kvtwin sweep configs/examples/sweep.yaml -o sweep.h5 --threads 1",
    .uses = KVT_USES_CONFIG | KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .run = run,
};
