/*
 * cmd_reproduce.c - published results beside ours
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/reproduce.h"
#include "sim/plan/resample.h"

#define RESAMPLES 24

static const struct kvt_cli_option options[] = {
    {"capacity", "FILE", "a table of start-up logs (form of truth/capacity.csv)"},
    {"serving", "FILE", "a table of benchmarks (form of truth/serving.csv)"},
    {"resamples", "N",
     "runs with other errors of the step times behind each low and high; 24, with --serving 0"},
    {"guess", NULL, "with --serving: price GPUs without a calibration by their data sheet"},
    {"fit", NULL, "with --serving: two constants per engine and GPU, each row's from other models"},
    {"row", "ID", "with --serving: print the config that this row makes, and run nothing"},
    {NULL, NULL, NULL},
};

static enum kvt_status check(const struct kvt_cli *cli, struct kvt_err *err)
{
    bool capacity = kvt_cli_get(cli, "capacity") != NULL;
    bool serving = kvt_cli_get(cli, "serving") != NULL;
    if (capacity && serving)
        return kvt_err_set(err, KVT_EUSAGE, "--capacity and --serving are two tables: give one");
    if ((capacity || serving) && cli->operand_count > 0)
        return kvt_err_set(err, KVT_EUSAGE, "--%s takes no NAME beside it",
                           capacity ? "capacity" : "serving");
    static const char *const of_run[] = {"resamples", "fit", NULL};
    static const char *const of_serving[] = {"row", "fit", "guess", NULL};
    if (!serving)
        KVT_TRY(kvt_cli_refuse(cli, of_serving, "wants --serving FILE", err));
    if (capacity)
        KVT_TRY(kvt_cli_refuse(cli, of_run, "is for what runs: --capacity runs nothing", err));
    if (kvt_cli_get(cli, "row") != NULL)
        KVT_TRY(kvt_cli_refuse(cli, of_run, "is for what runs: --row prints a config", err));
    return KVT_OK;
}

static enum kvt_status print_row(const char *path, const char *row, bool guess, struct kvt_err *err)
{
    char *text = NULL;
    KVT_TRY(kvt_reproduce_server_config(path, row, guess, &text, err));
    fputs(text, stdout);
    free(text);
    return KVT_OK;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_reproduced_list list = {0};
    const char *capacity = kvt_cli_get(cli, "capacity"), *serving = kvt_cli_get(cli, "serving");
    bool guess = kvt_cli_get(cli, "guess") != NULL;
    bool fit = kvt_cli_get(cli, "fit") != NULL;
    enum kvt_status status;
    int64_t resamples;
    KVT_TRY(check(cli, err));
    KVT_TRY(kvt_cli_get_int(cli, "resamples", 0, KVT_RESAMPLES_MAX, serving != NULL ? 0 : RESAMPLES,
                            &resamples, err));
    if (kvt_cli_get(cli, "row") != NULL)
        return print_row(serving, kvt_cli_get(cli, "row"), guess, err);
    if (capacity != NULL)
        status = kvt_reproduce_capacity(capacity, &list, err);
    else if (serving != NULL)
        status = kvt_reproduce_servers(serving, guess, fit, (int32_t)resamples, &list, err);
    else
        status = kvt_reproduce_published(cli->operand_count > 0 ? cli->operands[0] : NULL,
                                         (int32_t)resamples, &list, err);
    if (status == KVT_OK)
        status = kvt_reproduced_print(&list, capacity == NULL && serving == NULL, cli->format, err);
    kvt_reproduced_free(&list);
    return status;
}

const struct kvt_command kvt_command_reproduce = {
    .name = "reproduce",
    .operands = "[NAME]",
    .help = "published results beside simulated ones",
    .description =
        "Without a file, the published results of configs/published (all, or one by NAME) are set "
        "beside ours. With --capacity, every row of a table of start-up logs is predicted from its "
        "inputs "
        "(model, GPU, layout, dtypes, fraction, page) and printed beside what the server logged. "
        "With --serving, every row of a table of benchmarks is simulated: its server, its load, "
        "the "
        "very number of requests; and output throughput, TPOT and TTFT are printed beside the "
        "observed ones. "
        "Rows that cannot be modelled are listed with the reason.",
    .example = "kvtwin reproduce\nkvtwin reproduce kimi-k2.6-fp8-kv\n"
               "kvtwin reproduce --capacity ../shared/truth/capacity.csv\n"
               "kvtwin reproduce --serving ../shared/truth/serving.csv",
    .uses = 0,
    .operands_min = 0,
    .operands_max = 1,
    .options = options,
    .run = run,
};
