#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "sim/base/assert.h"
#include "sim/base/json.h"
#include "sim/base/spelling.h"
#include "sim/base/units.h"

struct kvt_stop kvt_cli_interrupted;

#define X(name) extern const struct kvt_command kvt_command_##name;
KVT_COMMANDS(X)
#undef X

static const struct kvt_command *const commands[] = {
#define X(name) &kvt_command_##name,
    KVT_COMMANDS(X)
#undef X
        NULL,
};

const struct kvt_command *kvt_command_find(const char *name)
{
    const struct kvt_command *const *command = commands;
    while (*command != NULL && strcmp((*command)->name, name) != 0)
        command++;
    return *command;
}

const struct kvt_command *kvt_command_at(size_t index)
{
    return commands[index];
}

const char *kvt_cli_get(const struct kvt_cli *cli, const char *name)
{
    for (int32_t i = cli->value_count - 1; i >= 0; i--)
        if (strcmp(cli->values[i].option->name, name) == 0)
            return cli->values[i].text;
    return NULL;
}

const char *kvt_cli_next(const struct kvt_cli *cli, const char *name, int32_t *at)
{
    while (*at < cli->value_count) {
        const struct kvt_cli_value *value = &cli->values[(*at)++];
        if (strcmp(value->option->name, name) == 0)
            return value->text;
    }
    return NULL;
}

enum kvt_status kvt_cli_get_int(const struct kvt_cli *cli, const char *name, int64_t min,
                                int64_t max, int64_t fallback, int64_t *value, struct kvt_err *err)
{
    const char *text = kvt_cli_get(cli, name);
    *value = fallback;
    struct kvt_err why = {0};
    if (text == NULL || kvt_int_parse(text, min, max, value, &why) == KVT_OK)
        return KVT_OK;
    return kvt_err_set(err, KVT_EUSAGE, "--%s: %s", name, why.text);
}

enum kvt_status kvt_cli_get_threads(const struct kvt_cli *cli, int32_t *threads,
                                    struct kvt_err *err)
{
    int64_t given;
    KVT_TRY(kvt_cli_get_int(cli, "threads", 1, KVT_CLI_THREADS_MAX, 0, &given, err));
    *threads = (int32_t)given;
    return KVT_OK;
}

enum kvt_status kvt_cli_get_double(const struct kvt_cli *cli, const char *name, double fallback,
                                   double *value, struct kvt_err *err)
{
    const char *text = kvt_cli_get(cli, name);
    *value = fallback;
    struct kvt_err why = {0};
    if (text == NULL || kvt_double_parse(text, value, &why) == KVT_OK)
        return KVT_OK;
    return kvt_err_set(err, KVT_EUSAGE, "--%s: %s", name, why.text);
}

static bool is_given(const struct kvt_cli *cli, const char *name)
{
    if (strcmp(name, "output") == 0)
        return cli->output != NULL;
    if (strcmp(name, "set") == 0)
        return cli->set_count > (cli->seed_given ? 1 : 0);
    if (strcmp(name, "seed") == 0)
        return cli->seed_given;
    if (strcmp(name, "print-config") == 0)
        return cli->print_config;
    return kvt_cli_get(cli, name) != NULL;
}

enum kvt_status kvt_cli_refuse(const struct kvt_cli *cli, const char *const names[],
                               const char *why, struct kvt_err *err)
{
    for (int i = 0; names[i] != NULL; i++)
        if (is_given(cli, names[i]))
            return kvt_err_set(err, KVT_EUSAGE, "--%s %s", names[i], why);
    return KVT_OK;
}

bool kvt_cli_shows_progress(const struct kvt_cli *cli)
{
    if (cli->progress != KVT_PROGRESS_AUTO)
        return cli->progress == KVT_PROGRESS_ALWAYS;
    return cli->verbosity >= 0 && isatty(STDERR_FILENO) != 0;
}

void kvt_cli_say(const struct kvt_cli *cli, int32_t level, const char *format, ...)
{
    if (cli->verbosity < level)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* The one place that prints errors. */
static int report(const char *command, enum kvt_status status, const struct kvt_err *err)
{
    if (status == KVT_OK || (status == KVT_NEGATIVE && err->count == 0))
        return (int)status;
    const char *text = err->count > 0 ? err->text : kvt_status_text(status);
    while (*text != '\0') {
        size_t count = strcspn(text, "\n");
        fprintf(stderr, "kvtwin: %.*s\n", (int)count, text);
        text += count + (text[count] == '\n');
    }
    if (status == KVT_EUSAGE)
        fprintf(stderr, "Try 'kvtwin %s%s--help'.\n", command, command[0] != '\0' ? " " : "");
    return (int)status;
}

static enum kvt_status unknown_command(const char *name, struct kvt_err *err)
{
    const char *names[sizeof commands / sizeof commands[0]] = {NULL};
    char hint[KVT_HINT_BYTES];
    size_t count = 0;
    for (; commands[count] != NULL; count++)
        names[count] = commands[count]->name;
    return kvt_err_set(err, KVT_EUSAGE, "unknown command \"%s\"%s", name,
                       kvt_nearest_hint(name, names, count, hint));
}

static enum kvt_status start(const struct kvt_cli *cli, struct kvt_err *err)
{
    kvt_paranoid = kvt_paranoid || cli->paranoid;
    kvt_json_begin();
    enum kvt_status status = cli->command->run(cli, err);
    bool said = status == KVT_OK || status == KVT_NEGATIVE;
    return said && kvt_json_failed() ? kvt_json_check(err) : status;
}

static enum kvt_status run_command(const struct kvt_command *command, int argc, char *argv[],
                                   struct kvt_err *err)
{
    struct kvt_cli *cli = calloc(1, sizeof *cli);
    if (cli == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "cannot hold the command line");
    bool help = false;
    enum kvt_status status = kvt_cli_parse(cli, command, argc, argv, &help, err);
    if (status == KVT_OK && help)
        kvt_cli_print_command_help(stdout, command);
    else if (status == KVT_OK && cli->wants_version)
        kvt_cli_print_version(stdout);
    else if (status == KVT_OK)
        status = start(cli, err);
    free(cli);
    if (status == KVT_OK && !help && kvt_stop_asked(&kvt_cli_interrupted))
        status = KVT_EINTR;
    return status;
}

int kvt_cli_main(int argc, char *argv[])
{
    struct kvt_err err = {0};
    if (argc < 2)
        return report("", kvt_err_set(&err, KVT_EUSAGE, "a command is wanted"), &err);
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        kvt_cli_print_help(stdout);
        return KVT_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        kvt_cli_print_version(stdout);
        return KVT_OK;
    }
    if (name[0] == '-') {
        kvt_err_set(&err, KVT_EUSAGE, "\"%s\": options come after the command", name);
        return report("", KVT_EUSAGE, &err);
    }
    const struct kvt_command *command = kvt_command_find(name);
    if (command == NULL)
        return report("", unknown_command(name, &err), &err);
    enum kvt_status status = run_command(command, argc - 1, argv + 1, &err);
    return report(command->name, status, &err);
}
