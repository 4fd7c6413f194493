/*
 * parse.c - the options of one command, through getopt_long
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "sim/base/assert.h"
#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/base/units.h"

#define OPTIONS_MAX 64
#define COMMON_BASE 256 /* getopt's value of the first common option; past every letter */
#define OWN_BASE    (COMMON_BASE + KVT_COMMON_COUNT)

/* What getopt_long is given. longs[] ends with a zero row; letters starts with ':' so that a
 * missing argument is told apart from an unknown option. */
struct option_set {
    struct option longs[OPTIONS_MAX + 1];
    int32_t count;
    char letters[64];
};

static void set_add(struct option_set *set, const char *name, bool has_argument, int value)
{
    kvt_assert(set->count < OPTIONS_MAX);
    set->longs[set->count++] =
        (struct option){.name = name, .has_arg = has_argument ? 1 : 0, .val = value};
}

static void set_build(struct option_set *set, const struct kvt_command *command)
{
    *set = (struct option_set){.letters = ":"};
    size_t used = 1;
    for (int i = 0; i < KVT_COMMON_COUNT; i++) {
        if (!kvt_command_takes(command, (enum kvt_common_option)i))
            continue;
        const struct kvt_common_row *row = &kvt_common_rows[i];
        set_add(set, row->name, row->argument != NULL, COMMON_BASE + i);
        if (row->letter == 0)
            continue;
        set->letters[used++] = row->letter;
        if (row->argument != NULL)
            set->letters[used++] = ':';
    }
    set->letters[used] = '\0';
    const struct kvt_cli_option *own = command->options;
    for (int i = 0; own != NULL && own[i].name != NULL; i++)
        set_add(set, own[i].name, own[i].argument != NULL, OWN_BASE + i);
}

static const char *set_name(const struct option_set *set, int value)
{
    for (int32_t i = 0; i < set->count; i++)
        if (set->longs[i].val == value)
            return set->longs[i].name;
    return NULL;
}

/* getopt_long returned '?' for word: unknown, ambiguous, or an argument where none is taken. */
static enum kvt_status refuse_option(const struct option_set *set, const char *word, int option,
                                     struct kvt_err *err)
{
    if (option >= COMMON_BASE)
        return kvt_err_set(err, KVT_EUSAGE, "--%s takes no argument", set_name(set, option));
    if (option != 0)
        return kvt_err_set(err, KVT_EUSAGE, "unknown option -%c", option);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *names[OPTIONS_MAX];
    int32_t matches = 0;
    for (int32_t i = 0; i < set->count; i++) {
        names[i] = set->longs[i].name;
        matches += strncmp(names[i], name, strlen(name)) == 0;
    }
    if (matches > 1)
        return kvt_err_set(err, KVT_EUSAGE, "--%s is short for more than one option", name);
    const char *near = kvt_nearest_name(name, names, (size_t)set->count);
    if (near == NULL)
        return kvt_err_set(err, KVT_EUSAGE, "unknown option --%s", name);
    return kvt_err_set(err, KVT_EUSAGE, "unknown option --%s; did you mean --%s?", name, near);
}

static enum kvt_status parse_choice(const char *option, const char *text, const char *const names[],
                                    int count, int *value, struct kvt_err *err)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value = i;
            return KVT_OK;
        }
    }
    return kvt_err_set(err, KVT_EUSAGE, "--%s: want %s, %s or %s, got \"%s\"", option, names[0],
                       names[1], names[2], text);
}

static enum kvt_status add_set(struct kvt_cli *cli, const char *text, struct kvt_err *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return kvt_err_set(err, KVT_EUSAGE, "--set: want KEY=VALUE, got \"%s\"", text);
    if (cli->set_count == KVT_CLI_VALUES_MAX)
        return kvt_err_set(err, KVT_EUSAGE, "--set: want at most %d", KVT_CLI_VALUES_MAX);
    cli->sets[cli->set_count++] = text;
    return KVT_OK;
}

static enum kvt_status parse_seed(struct kvt_cli *cli, const char *text, struct kvt_err *err)
{
    struct kvt_err why = {0};
    if (kvt_seed_parse(text, &cli->seed, &why) != KVT_OK)
        return kvt_err_set(err, KVT_EUSAGE, "--seed: %s", why.text);
    cli->seed_given = true;
    return KVT_OK;
}

static enum kvt_status take_common(struct kvt_cli *cli, enum kvt_common_option option,
                                   const char *text, bool *help, struct kvt_err *err)
{
    static const char *const formats[] = {"text", "json", "csv"};
    static const char *const progresses[] = {"auto", "always", "never"};
    int choice = 0;
    switch (option) {
    case KVT_COMMON_SET:
        return add_set(cli, text, err);
    case KVT_COMMON_SEED:
        return parse_seed(cli, text, err);
    case KVT_COMMON_FORMAT:
        KVT_TRY(parse_choice("format", text, formats, 3, &choice, err));
        cli->format = (enum kvt_cli_format)choice;
        return KVT_OK;
    case KVT_COMMON_PROGRESS:
        KVT_TRY(parse_choice("progress", text, progresses, 3, &choice, err));
        cli->progress = (enum kvt_cli_progress)choice;
        return KVT_OK;
    case KVT_COMMON_OUTPUT:
        cli->output = text;
        if (text[0] == '\0')
            return kvt_err_set(err, KVT_EUSAGE, "--output: want a file name, got an empty one");
        return KVT_OK;
    case KVT_COMMON_PRINT_CONFIG:
        cli->print_config = true;
        return KVT_OK;
    case KVT_COMMON_TIMING:
        cli->timing = true;
        return KVT_OK;
    case KVT_COMMON_EXACT_STEPS:
        cli->exact_steps = true;
        return KVT_OK;
    case KVT_COMMON_PARANOID:
        cli->paranoid = true;
        return KVT_OK;
    case KVT_COMMON_QUIET:
        cli->verbosity = -1;
        return KVT_OK;
    case KVT_COMMON_VERBOSE:
        cli->verbosity++;
        return KVT_OK;
    case KVT_COMMON_HELP:
        *help = true;
        return KVT_OK;
    case KVT_COMMON_VERSION:
        cli->wants_version = true;
        return KVT_OK;
    case KVT_COMMON_COUNT:
        break;
    }
    kvt_unreachable();
}

static enum kvt_status take_own(struct kvt_cli *cli, const struct kvt_cli_option *option,
                                const char *text, struct kvt_err *err)
{
    if (cli->value_count == KVT_CLI_VALUES_MAX)
        return kvt_err_set(err, KVT_EUSAGE, "more than %d options", KVT_CLI_VALUES_MAX);
    bool is_path = option->argument != NULL &&
                   (strcmp(option->argument, "FILE") == 0 || strcmp(option->argument, "DIR") == 0);
    if (is_path && text[0] == '\0')
        return kvt_err_set(err, KVT_EUSAGE, "--%s: want a file name, got an empty one",
                           option->name);
    cli->values[cli->value_count++] =
        (struct kvt_cli_value){.option = option, .text = text != NULL ? text : ""};
    return KVT_OK;
}

enum kvt_status kvt_cli_check_output(const struct kvt_cli *cli, const char *option,
                                     const char *path, struct kvt_err *err)
{
    for (int32_t i = 0; path != NULL && i < cli->operand_count; i++)
        if (kvt_file_is_same(path, cli->operands[i]))
            return kvt_err_set(err, KVT_EUSAGE, "--%s %s is the input %s: want another file",
                               option, path, cli->operands[i]);
    return KVT_OK;
}

enum kvt_status kvt_cli_check_input(const struct kvt_cli *cli, const char *option, const char *path,
                                    struct kvt_err *err)
{
    if (cli->output == NULL || !kvt_file_is_same(cli->output, path))
        return KVT_OK;
    return kvt_err_set(err, KVT_EUSAGE, "--output %s is the input of --%s: want another file",
                       cli->output, option);
}

static enum kvt_status check_operands(const struct kvt_cli *cli, struct kvt_err *err)
{
    const struct kvt_command *command = cli->command;
    if (cli->operand_count < command->operands_min)
        return kvt_err_set(err, KVT_EUSAGE, "%s: want %s, got %s", command->name, command->operands,
                           cli->operand_count == 0 ? "nothing" : cli->operands[0]);
    if (command->operands_max >= 0 && cli->operand_count > command->operands_max)
        return kvt_err_set(err, KVT_EUSAGE, "%s: one operand too many: \"%s\"", command->name,
                           cli->operands[command->operands_max]);
    return kvt_cli_check_output(cli, "output", cli->output, err);
}

enum kvt_status kvt_cli_parse(struct kvt_cli *cli, const struct kvt_command *command, int argc,
                              char *argv[], bool *help, struct kvt_err *err)
{
    struct option_set set;
    set_build(&set, command);
    *cli = (struct kvt_cli){.command = command};
    *help = false;
    opterr = 0;
    optind = 0; /* glibc: start afresh */
    for (;;) {
        int found = getopt_long(argc, argv, set.letters, set.longs, NULL);
        if (found == -1)
            break;
        if (found == '?')
            return refuse_option(&set, argv[optind - 1], optopt, err);
        if (found == ':')
            return kvt_err_set(err, KVT_EUSAGE, "%s wants an argument", argv[optind - 1]);
        if (found >= OWN_BASE) {
            KVT_TRY(take_own(cli, &command->options[found - OWN_BASE], optarg, err));
            continue;
        }
        int common = found - COMMON_BASE;
        for (int i = 0; found < COMMON_BASE && i < KVT_COMMON_COUNT; i++)
            if (kvt_common_rows[i].letter == found)
                common = i;
        KVT_TRY(take_common(cli, (enum kvt_common_option)common, optarg, help, err));
    }
    if (cli->seed_given && (command->uses & KVT_USES_CONFIG) != 0) {
        snprintf(cli->seed_set, sizeof cli->seed_set, "run.seed=%" PRIu64, cli->seed);
        cli->sets[cli->set_count++] = cli->seed_set;
    }
    cli->operands = (const char *const *)argv + optind;
    cli->operand_count = argc - optind;
    return *help || cli->wants_version ? KVT_OK : check_operands(cli, err);
}
