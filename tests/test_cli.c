/* The frame of the command line, from inside: tables, parsing, help. */
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "tests/check.h"

static enum kvt_status run_nothing(const struct kvt_cli *cli, struct kvt_err *err)
{
    (void)cli;
    (void)err;
    return KVT_OK;
}

static const struct kvt_cli_option own[] = {
    {"context", "TOKENS", "tokens of a request; default 4096"},
    {"pages", NULL, "list the pages"},
    {NULL, NULL, NULL},
};

static const struct kvt_command command = {
    .name = "probe",
    .operands = "CONFIG [MORE]",
    .help = "a command for this test",
    .example = "kvtwin probe a.yaml",
    .uses = KVT_USES_CONFIG | KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = 2,
    .options = own,
    .run = run_nothing,
};

static struct kvt_cli cli;
static struct kvt_err err;
static bool help;
static char line[512];
static char *words[32];

/* Parse the words of text (separated by single spaces) as the command's arguments. */
static enum kvt_status parse(const char *text)
{
    int count = 0;
    char *at = line + 8;
    snprintf(line, 8, "probe");
    snprintf(at, sizeof line - 8, "%s", text);
    words[count++] = line;
    for (char *word = strtok(at, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
    err = (struct kvt_err){0};
    return kvt_cli_parse(&cli, &command, count, words, &help, &err);
}

static void common_options_are_parsed_anywhere(void)
{
    CHECK_OK(parse("--set a.b=1 x.yaml --set=c=d=e --seed 17 -o run.h5 --format json -vv "
                   "--progress never --print-config y.yaml"),
             err);
    CHECK_I64(cli.operand_count, 2, "operands between options");
    CHECK_TEXT(cli.operands[0], "x.yaml", "first");
    CHECK_TEXT(cli.operands[1], "y.yaml", "second");
    CHECK(cli.operands[2] == NULL);
    CHECK_I64(cli.set_count, 3, "two sets and the seed");
    CHECK_TEXT(cli.sets[0], "a.b=1", "in order");
    CHECK_TEXT(cli.sets[1], "c=d=e", "the first = counts");
    CHECK_TEXT(cli.sets[2], "run.seed=17", "--seed is a key of the config");
    CHECK_I64((int64_t)cli.seed, 17, "seed");
    CHECK_TEXT(cli.output, "run.h5", "-o");
    CHECK_I64(cli.format, KVT_FORMAT_JSON, "format");
    CHECK_I64(cli.progress, KVT_PROGRESS_NEVER, "progress");
    CHECK_I64(cli.verbosity, 2, "-vv");
    CHECK(cli.print_config);
    CHECK(!help);
}

static void defaults_hold_where_nothing_is_said(void)
{
    CHECK_OK(parse("x.yaml"), err);
    CHECK_I64(cli.format, KVT_FORMAT_TEXT, "format");
    CHECK_I64(cli.progress, KVT_PROGRESS_AUTO, "progress");
    CHECK_I64(cli.verbosity, 0, "verbosity");
    CHECK_I64(cli.set_count, 0, "sets");
    CHECK(cli.output == NULL);
    CHECK(!cli.seed_given);
    CHECK(kvt_cli_get(&cli, "context") == NULL);
}

static void own_options_are_handed_over(void)
{
    CHECK_OK(parse("x.yaml --context 512 --pages --context=1024"), err);
    CHECK_TEXT(kvt_cli_get(&cli, "context"), "1024", "the last one counts");
    CHECK_TEXT(kvt_cli_get(&cli, "pages"), "", "a switch");
    int32_t at = 0;
    CHECK_TEXT(kvt_cli_next(&cli, "context", &at), "512", "each in order");
    CHECK_TEXT(kvt_cli_next(&cli, "context", &at), "1024", "each in order");
    CHECK(kvt_cli_next(&cli, "context", &at) == NULL);
    int64_t tokens = 0;
    CHECK_OK(kvt_cli_get_int(&cli, "context", 1, 4096, 7, &tokens, &err), err);
    CHECK_I64(tokens, 1024, "as a number");
    CHECK_FAILS(kvt_cli_get_int(&cli, "context", 1, 1000, 7, &tokens, &err), err, KVT_EUSAGE);
    CHECK_HOLDS(err.text, "--context: ", "the message names the option");
    CHECK_OK(parse("x.yaml"), err);
    CHECK_OK(kvt_cli_get_int(&cli, "context", 1, 4096, 7, &tokens, &err), err);
    CHECK_I64(tokens, 7, "fallback");
}

static void wrong_usage_says_what_was_wanted(void)
{
    static const struct {
        const char *words, *message;
    } rows[] = {
        {"", "probe: want CONFIG [MORE], got nothing"},
        {"a b c", "probe: one operand too many: \"c\""},
        {"a --contxt 3", "unknown option --contxt; did you mean --context?"},
        {"a --zzzzzz", "unknown option --zzzzzz"},
        {"a -x", "unknown option -x"},
        {"a -qx", "unknown option -x"},
        {"a --pages=3", "--pages takes no argument"},
        {"a --context", "--context wants an argument"},
        {"a -o", "-o wants an argument"},
        {"a --p", "--p is short for more than one option"},
        {"a --timing", "unknown option --timing"},
        {"a --format yaml", "--format: want text, json or csv, got \"yaml\""},
        {"a --progress 1", "--progress: want auto, always or never, got \"1\""},
        {"a --set x", "--set: want KEY=VALUE, got \"x\""},
        {"a --set =x", "--set: want KEY=VALUE, got \"=x\""},
        {"a --seed 1.5", "--seed: "},
        {"a --seed -1", "--seed: "},
        {"a --output=", "--output: want a file name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_FAILS(parse(rows[i].words), err, KVT_EUSAGE);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].words);
        CHECK_I64(err.count, 1, "one line");
    }
}

static void a_double_dash_ends_the_options(void)
{
    CHECK_OK(parse("-- --set -o"), err);
    CHECK_I64(cli.operand_count, 2, "operands");
    CHECK_TEXT(cli.operands[0], "--set", "kept as it is");
}

static void help_asks_for_no_operands(void)
{
    CHECK_OK(parse("--help"), err);
    CHECK(help);
    CHECK_OK(parse("--version"), err);
    CHECK(cli.wants_version);
}

static void too_many_sets_are_refused(void)
{
    static char *many[2 * KVT_CLI_VALUES_MAX + 4];
    static char option[] = "--set", value[] = "a=b";
    int count = 0;
    many[count++] = words[0];
    for (int i = 0; i <= KVT_CLI_VALUES_MAX; i++) {
        many[count++] = option;
        many[count++] = value;
    }
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_cli_parse(&cli, &command, count, many, &help, &err), err, KVT_EUSAGE);
    CHECK_HOLDS(err.text, "--set: want at most 256", "a limit, and it is named");
}

static void help_lists_every_option(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    CHECK(file != NULL);
    if (file == NULL)
        return;
    kvt_cli_print_command_help(file, &command);
    fclose(file);
    CHECK(strncmp(text, "Usage: kvtwin probe [OPTION]... CONFIG [MORE]\n", 46) == 0);
    CHECK_HOLDS(text, "\nExample:\n  kvtwin probe a.yaml\n", "one example");
    CHECK_HOLDS(text, "      --context=TOKENS      tokens of a request", "own rows");
    CHECK_HOLDS(text, "  -o, --output=FILE", "a letter has its long twin");
    for (int i = 0; i < KVT_COMMON_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "--%s", kvt_common_rows[i].name);
        bool taken = kvt_command_takes(&command, (enum kvt_common_option)i);
        CHECK_NOTE((strstr(text, name) != NULL) == taken, name);
    }
    free(text);
}

static void every_command_is_well_formed(void)
{
    const struct kvt_command *found;
    for (size_t i = 0; (found = kvt_command_at(i)) != NULL; i++) {
        CHECK_NOTE(found == kvt_command_find(found->name), found->name);
        CHECK_NOTE(found->run != NULL, found->name);
        CHECK_NOTE(strchr(found->help, '\n') == NULL, found->help);
        CHECK_NOTE(strncmp(found->example, "kvtwin ", 7) == 0, found->example);
        CHECK_NOTE(found->operands_max < 0 || found->operands_min <= found->operands_max,
                   found->name);
        const struct kvt_cli_option *row = found->options;
        for (; row != NULL && row->name != NULL; row++)
            for (int k = 0; k < KVT_COMMON_COUNT; k++)
                CHECK_NOTE(strcmp(row->name, kvt_common_rows[k].name) != 0, row->name);
    }
    CHECK(kvt_command_find("nothing") == NULL);
}

const struct check_test check_cli[] = {
    {"common options are parsed anywhere", common_options_are_parsed_anywhere, false},
    {"defaults hold where nothing is said", defaults_hold_where_nothing_is_said, false},
    {"own options are handed over", own_options_are_handed_over, false},
    {"wrong usage says what was wanted", wrong_usage_says_what_was_wanted, false},
    {"a double dash ends the options", a_double_dash_ends_the_options, false},
    {"help asks for no operands", help_asks_for_no_operands, false},
    {"too many sets are refused", too_many_sets_are_refused, false},
    {"help lists every option that the command takes", help_lists_every_option, false},
    {"every command is well formed", every_command_is_well_formed, false},
    {NULL, NULL, false},
};
