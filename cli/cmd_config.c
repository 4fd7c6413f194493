/*
 * cmd_config.c - kvtwin config: the reference page, the list of keys, the check of a file
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fields.h"
#include "sim/config/config.h"

static enum kvt_status print_text(char *text, struct kvt_err *err)
{
    if (text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "cannot hold the page");
    fputs(text, stdout);
    free(text);
    return KVT_OK;
}

static enum kvt_status print_verdict(const struct kvt_cli *cli, const struct kvt_config *config,
                                     struct kvt_err *err)
{
    if (cli->format == KVT_FORMAT_CSV) {
        puts("config,domains");
        kvt_csv_field(stdout, config->path);
        printf(",%d\n", config->domains);
        return KVT_OK;
    }
    if (cli->format == KVT_FORMAT_TEXT) {
        printf("%s: ok", config->path);
        for (int32_t i = 0; i < config->domains; i++) {
            const struct kvt_config_domain *domain = kvt_config_domain(config, i);
            printf("%s%s (%d)", i == 0 ? ", searched: " : ", ", domain->path, domain->count);
        }
        putchar('\n');
        return KVT_OK;
    }
    json_t *domains = json_object();
    for (int32_t i = 0; i < config->domains; i++) {
        const struct kvt_config_domain *domain = kvt_config_domain(config, i);
        json_object_set_new(domains, domain->path, json_integer(domain->count));
    }
    json_t *verdict =
        json_pack("{s:o, s:o}", "config", kvt_json_text(config->path), "domains", domains);
    return kvt_json_print(verdict, 0, stdout, err);
}

static enum kvt_status check_file(const struct kvt_cli *cli, const char *path, struct kvt_err *err)
{
    struct kvt_config config;
    bool done;
    KVT_TRY(kvt_cli_config(cli, path, &config, &done, err));
    if (done)
        return KVT_OK;
    enum kvt_status status = print_verdict(cli, &config, err);
    kvt_config_release(&config);
    return status;
}

static enum kvt_status explain_key(const struct kvt_cli *cli, struct kvt_err *err)
{
    if (cli->operand_count != 2)
        return kvt_err_set(err, KVT_EUSAGE, "config explain: want one KEY, got none");
    char *text = kvt_config_explain(cli->operands[1], err);
    return text != NULL ? print_text(text, err) : err->status;
}

static enum kvt_status run_config(const struct kvt_cli *cli, struct kvt_err *err)
{
    static const char *const of_check[] = {"set", "seed", "print-config", NULL};
    const char *what = cli->operands[0];
    bool checks = strcmp(what, "check") == 0;
    if (checks && cli->operand_count != 2)
        return kvt_err_set(err, KVT_EUSAGE, "config check: want one CONFIG, got none");
    if (checks)
        return check_file(cli, cli->operands[1], err);
    KVT_TRY(kvt_cli_refuse(cli, of_check, "is for config check", err));
    if (cli->format != KVT_FORMAT_TEXT)
        return kvt_err_set(err, KVT_EUSAGE, "--format: want text, but for config check");
    if (strcmp(what, "explain") == 0)
        return explain_key(cli, err);
    if (cli->operand_count != 1)
        return kvt_err_set(err, KVT_EUSAGE, "config %.80s: want nothing after it, got \"%.80s\"",
                           what, cli->operands[1]);
    if (strcmp(what, "reference") == 0)
        return print_text(kvt_config_reference(), err);
    if (strcmp(what, "keys") == 0)
        return print_text(kvt_config_keys(), err);
    return kvt_err_set(err, KVT_EUSAGE,
                       "config: want reference, keys, explain or check, got \"%.80s\"", what);
}

const struct kvt_command kvt_command_config = {
    .name = "config",
    .operands = "reference | keys | explain KEY | check CONFIG",
    .help = "list the keys of a config, or check one",
    .description =
        "reference prints the page of every key in Markdown: type, unit, range, default\n"
        "and meaning. keys prints the paths that --set knows, one a line. explain says what\n"
        "one key means, wants and defaults to. check reads a\n"
        "config, says what is wrong with it (up to ten errors at once) and stops.",
    .example = "kvtwin config explain fleet.decode.kv\n"
               "kvtwin config check configs/examples/quickstart.yaml",
    .uses = KVT_USES_CONFIG,
    .operands_min = 1,
    .operands_max = 2,
    .run = run_config,
};
