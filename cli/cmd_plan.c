/*
 * cmd_plan.c - the cheapest fleet of a config's domains that meets its SLO
 */
#include "cli/cli.h"
#include "cli/plan_print.h"
#include "sim/config/config.h"
#include "sim/output/progress.h"

static const struct kvt_cli_option options[] = {
    {"threads", "N", "threads; as many as there are cores"},
    {NULL, NULL, NULL},
};

static enum kvt_status report(const struct kvt_cli *cli, const struct kvt_search *search,
                              struct kvt_err *err)
{
    if (cli->output != NULL)
        KVT_TRY(kvt_search_write(search, cli->output, err));
    if (cli->format == KVT_FORMAT_JSON)
        KVT_TRY(kvt_plan_print_json(search, stdout, err));
    else if (cli->format == KVT_FORMAT_CSV)
        kvt_plan_print_csv(search, stdout);
    else
        kvt_plan_print_text(search, stdout);
    return search->best >= 0 ? KVT_OK : KVT_NEGATIVE;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static struct kvt_config config;
    static struct kvt_search search;
    struct kvt_points points;
    struct kvt_progress progress = {0};
    int32_t threads;
    bool done;
    KVT_TRY(kvt_cli_get_threads(cli, &threads, err));
    KVT_TRY(kvt_cli_config(cli, cli->operands[0], &config, &done, err));
    if (done)
        return KVT_OK;
    kvt_cli_say_rates(cli, &config);
    const struct kvt_search_options how = {
        .threads = threads, .stop = &kvt_cli_interrupted, .tell = {kvt_progress_tell, &progress}};
    enum kvt_status status =
        kvt_points_init(&points, &config, cli->operands[0], cli->sets, cli->set_count, err);
    if (status == KVT_OK) {
        kvt_progress_begin(&progress, "searching", "candidates", kvt_cli_shows_progress(cli));
        status = kvt_search_run(&search, &points, &how, err);
        kvt_progress_end(&progress);
        if (status == KVT_OK)
            status = report(cli, &search, err);
        kvt_search_release(&search);
    }
    kvt_points_release(&points);
    kvt_config_release(&config);
    return status;
}

const struct kvt_command kvt_command_plan = {
    .name = "plan",
    .operands = "CONFIG",
    .help = "search the domains of a config for the cheapest fleet that meets its SLO",
    .description =
        "Any value of the config may be a domain, {choices: [...]} or {range: {min, max, step}}; "
        "each combination is a candidate. The best is the cheapest (plan.objective) that keeps the "
        "SLO in its own run and in plan.confidence of its resamples; with plan.lose also when that "
        "many replicas of a role are down, with faults.plan under those faults. Of a config "
        "without "
        "domains it says how much traffic the fleet carries. Exits 1 when nothing meets the SLO, "
        "and tells the closest.",
    .example = "kvtwin plan configs/examples/plan.yaml\n"
               "kvtwin plan configs/examples/plan.yaml --set plan.lose=1 --format json -o plan.h5",
    .uses = KVT_USES_CONFIG | KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .run = run,
};
