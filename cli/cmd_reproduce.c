/*
 * cmd_reproduce.c - published results beside ours
 */
#include <string.h>

#include "cli/reproduce.h"

static const struct kvt_cli_option options[] = {
    {"capacity", "FILE", "a table of start-up logs (form of truth/capacity.csv)"},
    {NULL, NULL, NULL},
};

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_reproduced_list list = {0};
    const char *capacity = kvt_cli_get(cli, "capacity");
    if (capacity != NULL && cli->operand_count > 0)
        return kvt_err_set(err, KVT_EUSAGE, "--capacity takes no NAME beside it");
    enum kvt_status status =
        capacity != NULL
            ? kvt_reproduce_capacity(capacity, &list, err)
            : kvt_reproduce_published(cli->operand_count > 0 ? cli->operands[0] : NULL, &list, err);
    if (status == KVT_OK)
        status = kvt_reproduced_print(&list, capacity == NULL, cli->format, err);
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
        "Rows that cannot be modelled are listed with the reason.",
    .example = "kvtwin reproduce\nkvtwin reproduce kimi-k2.6-fp8-kv\n"
               "kvtwin reproduce --capacity ../shared/truth/capacity.csv",
    .uses = 0,
    .operands_min = 0,
    .operands_max = 1,
    .options = options,
    .run = run,
};
