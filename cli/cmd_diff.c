/*
 * cmd_diff.c - kvtwin diff A.h5 B.h5: where two runs part
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "sim/output/compare.h"

static enum kvt_status print(const struct kvt_cli *cli, const struct kvt_comparison *comparison,
                             struct kvt_err *err)
{
    switch (cli->format) {
    case KVT_FORMAT_TEXT:
        return kvt_comparison_text(comparison, stdout, err);
    case KVT_FORMAT_JSON:
        return kvt_comparison_json(comparison, stdout, err);
    case KVT_FORMAT_CSV:
        return kvt_comparison_csv(comparison, stdout, err);
    }
    return KVT_OK;
}

static enum kvt_status run_diff(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_comparison comparison;
    enum kvt_status status =
        kvt_comparison_init(&comparison, cli->operands[0], cli->operands[1], err);
    if (status == KVT_OK)
        status = print(cli, &comparison, err);
    bool equal = comparison.equal;
    kvt_comparison_release(&comparison);
    return status != KVT_OK ? status : equal ? KVT_OK : KVT_NEGATIVE;
}

const struct kvt_command kvt_command_diff = {
    .name = "diff",
    .operands = "A.h5 B.h5",
    .help = "first divergence of two runs, their metrics side by side",
    .description =
        "Compares two files that simulate wrote: the decision logs record by record, where both\n"
        "runs were logged, then every metric, and the configurations. Exits 0 when decisions and\n"
        "metrics are equal and 1 when they differ; differences of configuration and versions are\n"
        "listed but are not counted.",
    .example = "kvtwin diff monday.h5 tuesday.h5",
    .operands_min = 2,
    .operands_max = 2,
    .run = run_diff,
};
