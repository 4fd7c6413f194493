/*
 * help.c - --help and --version, printed from the tables that the parser uses
 */
#include <ctype.h>
#include <gsl/gsl_version.h>
#include <hdf5.h>
#include <string.h>

#include "cli/options.h"

const struct kvt_common_row kvt_common_rows[KVT_COMMON_COUNT] = {
#define X(constant, letter, name, argument, uses, help) {letter, name, argument, uses, help},
    KVT_COMMON_OPTIONS(X)
#undef X
};

bool kvt_command_takes(const struct kvt_command *command, enum kvt_common_option option)
{
    unsigned uses = kvt_common_rows[option].uses;
    return uses == 0 || (uses & command->uses) != 0;
}

#define HELP_COLUMN 28
#define HELP_WIDTH  80

/* The paragraphs of text in columns indent to HELP_WIDTH, broken between words; the cursor is at
 * column used. A single newline in text is a space, two end a paragraph. */
static void print_wrapped(FILE *file, int indent, int used, const char *text)
{
    if (used >= indent && used > 0) {
        fputc('\n', file);
        used = 0;
    }
    int column = used;
    for (const char *word = text; *word != '\0';) {
        int count = (int)strcspn(word, " \n");
        if (column > indent && column + 1 + count > HELP_WIDTH) {
            fputc('\n', file);
            column = 0;
        }
        if (column < indent)
            column += fprintf(file, "%*s", indent - column, "");
        else if (column > indent)
            column += fprintf(file, " ");
        column += fprintf(file, "%.*s", count, word);
        word += count;
        bool paragraph = strncmp(word, "\n\n", 2) == 0;
        word += strspn(word, " \n");
        if (paragraph) {
            fputs("\n\n", file);
            column = 0;
        }
    }
    fputc('\n', file);
}

static void print_row(FILE *file, char letter, const char *name, const char *argument,
                      const char *help)
{
    char letters[8] = "    ";
    if (letter != 0)
        snprintf(letters, sizeof letters, "-%c, ", letter);
    int used = fprintf(file, "  %s--%s%s%s", letters, name, argument != NULL ? "=" : "",
                       argument != NULL ? argument : "");
    print_wrapped(file, HELP_COLUMN, used, help);
}

/* Each line of text with an indent. */
static void print_lines(FILE *file, const char *text)
{
    while (*text != '\0') {
        size_t count = strcspn(text, "\n");
        fprintf(file, "  %.*s\n", (int)count, text);
        text += count + (text[count] == '\n');
    }
}

void kvt_cli_print_help(FILE *file)
{
    fprintf(file, "Usage: kvtwin COMMAND [OPTION]... [OPERAND]...\n"
                  "A discrete-event twin of a disaggregated LLM serving fleet.\n\n"
                  "Commands:\n");
    const struct kvt_command *command;
    for (size_t i = 0; (command = kvt_command_at(i)) != NULL; i++) {
        int used = fprintf(file, "  %s %s", command->name, command->operands);
        print_wrapped(file, HELP_COLUMN, used, command->help);
    }
    fprintf(file, "\nOptions (each command lists those it takes):\n");
    for (int i = 0; i < KVT_COMMON_COUNT; i++) {
        const struct kvt_common_row *row = &kvt_common_rows[i];
        print_row(file, row->letter, row->name, row->argument, row->help);
    }
    fprintf(file, "\nExample:\n");
    command = kvt_command_at(0);
    print_lines(file, command != NULL ? command->example : "kvtwin --version");
    fprintf(file, "\nExit status:\n");
#define X(name, code, text) fprintf(file, "  %-4d %s\n", (code), (text));
    KVT_STATUSES(X)
#undef X
    fprintf(file, "\n'kvtwin COMMAND --help' explains one command; the manual is kvtwin(1).\n");
}

void kvt_cli_print_command_help(FILE *file, const struct kvt_command *command)
{
    fprintf(file, "Usage: kvtwin %s [OPTION]...%s%s\n%c%s.\n", command->name,
            command->operands[0] != '\0' ? " " : "", command->operands, toupper(command->help[0]),
            command->help + 1);
    if (command->description != NULL) {
        fputc('\n', file);
        print_wrapped(file, 0, 0, command->description);
    }
    fprintf(file, "\nOptions:\n");
    const struct kvt_cli_option *own = command->options;
    for (int i = 0; own != NULL && own[i].name != NULL; i++)
        print_row(file, 0, own[i].name, own[i].argument, own[i].help);
    for (int i = 0; i < KVT_COMMON_COUNT; i++) {
        const struct kvt_common_row *row = &kvt_common_rows[i];
        if (kvt_command_takes(command, (enum kvt_common_option)i))
            print_row(file, row->letter, row->name, row->argument, row->help);
    }
    fprintf(file, "\nExample:\n");
    print_lines(file, command->example);
}

void kvt_cli_print_version(FILE *file)
{
    fprintf(file,
            "kvtwin %s\n"
            "with GSL %s and HDF5 %d.%d.%d\n"
            "Sources: Apache-2.0. This program is linked with GSL, so as a whole it is GPL-3.\n",
            KVT_VERSION, GSL_VERSION, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
}
