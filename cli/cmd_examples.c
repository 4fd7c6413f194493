/*
 * cmd_examples.c - kvtwin examples: the configs that come with the program, one line each
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/config/config.h"

#define FILES_MAX 256

static const char *const kinds[] = {"examples", "published", "incidents"};

/* One file; an example that does not load is an error that says where. */
static enum kvt_status print_one(const struct kvt_cli *cli, const char *path, json_t *list,
                                 struct kvt_err *err)
{
    static struct kvt_config config;
    KVT_TRY(kvt_config_load(&config, path, NULL, 0, err));
    const char *title = config.title != NULL ? config.title : "";
    if (cli->format == KVT_FORMAT_TEXT)
        printf("%s\n    %s\n", path, title);
    else
        json_array_append_new(
            list, json_pack("{s:o, s:s}", "config", kvt_json_text(path), "title", title));
    kvt_config_release(&config);
    return KVT_OK;
}

static enum kvt_status print_list(const struct kvt_cli *cli, json_t *list, struct kvt_err *err)
{
    if (cli->format == KVT_FORMAT_TEXT)
        return KVT_OK;
    if (cli->format == KVT_FORMAT_JSON)
        return kvt_json_print(json_pack("{s:O}", "examples", list), 0, stdout, err);
    size_t i;
    json_t *item;
    puts("config,title");
    json_array_foreach(list, i, item)
    {
        printf("%s,\"", json_string_value(json_object_get(item, "config")));
        for (const char *c = json_string_value(json_object_get(item, "title")); *c != '\0'; c++)
            printf(*c == '"' ? "\"\"" : "%c", *c);
        puts("\"");
    }
    return KVT_OK;
}

static enum kvt_status list_kind(const struct kvt_cli *cli, const char *kind, struct kvt_err *err)
{
    char *files[FILES_MAX];
    int32_t count;
    KVT_TRY(kvt_shipped_files(kind, files, FILES_MAX, &count, err));
    enum kvt_status status = KVT_OK;
    json_t *list = json_array();
    for (int32_t i = 0; i < count; i++) {
        if (status == KVT_OK)
            status = print_one(cli, files[i], list, err);
        free(files[i]);
    }
    if (status == KVT_OK)
        status = print_list(cli, list, err);
    json_decref(list);
    return status;
}

static enum kvt_status run_examples(const struct kvt_cli *cli, struct kvt_err *err)
{
    const char *kind = cli->operand_count > 0 ? cli->operands[0] : kinds[0];
    bool known = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        known = known || strcmp(kinds[i], kind) == 0;
    if (!known)
        return kvt_err_set(err, KVT_EUSAGE,
                           "examples: want examples, published or incidents, got \"%.80s\"", kind);
    return list_kind(cli, kind, err);
}

const struct kvt_command kvt_command_examples = {
    .name = "examples",
    .operands = "[examples | published | incidents]",
    .help = "list the configs that come with the program",
    .description =
        "Each shipped config with its title: examples to start from, published results that "
        "reproduce compares with, incidents that inject replays. The paths work as they are "
        "printed, from the sources and from an installed program.",
    .example = "kvtwin examples\nkvtwin examples published --format json",
    .operands_min = 0,
    .operands_max = 1,
    .run = run_examples,
};
