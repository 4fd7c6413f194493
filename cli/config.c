/*
 * config.c - loading a config the way every command does
 */
#include "sim/config/config.h"

#include <stdlib.h>

#include "cli/cli.h"
#include "sim/plan/role_memory.h"

void kvt_cli_say_rates(const struct kvt_cli *cli, const struct kvt_config *config)
{
    if (config->faults.rates.count > 0)
        kvt_cli_say(cli, 0,
                    "kvtwin: note: faults.rates are for kvtwin inject: none of them strikes "
                    "here");
}

enum kvt_status kvt_cli_config(const struct kvt_cli *cli, const char *path,
                               struct kvt_config *config, bool *done, struct kvt_err *err)
{
    *done = false;
    KVT_TRY(kvt_config_load(config, path, cli->sets, cli->set_count, err));
    enum kvt_status status = kvt_config_check_gpu_names(config, err);
    if (status != KVT_OK) {
        kvt_config_release(config);
        return status;
    }
    if (!cli->print_config)
        return KVT_OK;
    char *text = kvt_config_print(config);
    kvt_config_release(config);
    if (text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "cannot hold the effective configuration");
    fputs(text, stdout);
    free(text);
    *done = true;
    return KVT_OK;
}
