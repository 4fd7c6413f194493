/*
 * cli.h - the frame around every subcommand: options in, status out
 *
 * A subcommand is one file cli/cmd_<name>.c that defines `const struct kvt_command
 * kvt_command_<name>`, and one line in commands.h. The frame parses the command line with
 * getopt_long against the common options that the command says it uses plus its own rows, prints
 * help from the same tables, and calls run. So help, man page test and parser never disagree.
 *
 * stdout is the result and stderr is talk. A command returns a status and fills err; only main
 * prints errors (adding a "Try --help" line to a KVT_EUSAGE) and turns the status into the exit
 * code. Output files go through -o and sim/base/file.h, so that they appear whole or not at all.
 */
#ifndef KVT_CLI_CLI_H
#define KVT_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/status.h"
#include "sim/base/stop.h"

enum kvt_cli_format { KVT_FORMAT_TEXT, KVT_FORMAT_JSON, KVT_FORMAT_CSV };
enum kvt_cli_progress { KVT_PROGRESS_AUTO, KVT_PROGRESS_ALWAYS, KVT_PROGRESS_NEVER };

/* Groups of common options. Every command has --format, -q, -v, --progress, --help, --version. */
enum kvt_cli_uses {
    KVT_USES_CONFIG = 1, /* --set, --print-config, --seed */
    KVT_USES_OUTPUT = 2, /* -o, --output */
    KVT_USES_ENGINE = 4, /* --timing, --paranoid, --exact-steps */
    KVT_USES_SEED = 8,   /* --seed alone, where there is no config */
};

/* One option of a command's own. A row with a NULL name ends a table. */
struct kvt_cli_option {
    const char *name;     /* "context", given as --context */
    const char *argument; /* "TOKENS"; NULL for a switch */
    const char *help;     /* one line: meaning, unit, default */
};

#define KVT_CLI_VALUES_MAX  256
#define KVT_CLI_THREADS_MAX 1024

struct kvt_command;

/* One parsed command line. Strings are borrowed from argv. */
struct kvt_cli {
    const struct kvt_command *command;
    const char *const *operands; /* operands[0..operand_count-1], NULL after the last */
    int32_t operand_count;
    /* of --set, in order; --seed N adds "run.seed=N", and a command may add one of its own */
    const char *sets[KVT_CLI_VALUES_MAX + 2];
    int32_t set_count;
    const char *output; /* -o, or NULL */
    enum kvt_cli_format format;
    enum kvt_cli_progress progress;
    int32_t verbosity; /* -1 with -q, +1 for each -v */
    bool print_config, timing, paranoid, exact_steps;
    bool wants_version; /* --version was given; the frame prints it */
    bool seed_given;
    uint64_t seed;
    struct kvt_cli_value { /* of the command's own options, in order; see kvt_cli_get */
        const struct kvt_cli_option *option;
        const char *text; /* "" for a switch */
    } values[KVT_CLI_VALUES_MAX];
    int32_t value_count;
    char seed_set[40]; /* holds "run.seed=N" */
};

struct kvt_command {
    const char *name;
    const char *operands;               /* as in the usage line: "CONFIG", "A.h5 B.h5", "[NAME]" */
    const char *help;                   /* one line for the list of commands, lower case, no stop */
    const char *description;            /* a paragraph or more; may be NULL */
    const char *example;                /* one or more whole command lines, newline between them */
    unsigned uses;                      /* kvt_cli_uses bits */
    int32_t operands_min, operands_max; /* operands_max < 0: any number */
    const struct kvt_cli_option *options; /* own rows, or NULL */
    enum kvt_status (*run)(const struct kvt_cli *cli, struct kvt_err *err);
};

/* Asked by SIGINT and SIGTERM. A command that loops looks at it, finishes its event, writes its
 * outputs and returns KVT_EINTR. A second signal removes temporaries and exits at once. */
extern struct kvt_stop kvt_cli_interrupted;

/* ---- what commands ask of the frame ---- */

/* The value of the command's own option, the last one if it repeats; "" for a switch that was
 * given; NULL when it was not given, or the command has no option of this name. */
const char *kvt_cli_get(const struct kvt_cli *cli, const char *name);

/* The values of a repeated option, one a call; *at starts at 0. NULL after the last. */
const char *kvt_cli_next(const struct kvt_cli *cli, const char *name, int32_t *at);

/* The same as a number in min..max; fallback when not given. KVT_EUSAGE names the option. */
enum kvt_status kvt_cli_get_int(const struct kvt_cli *cli, const char *name, int64_t min,
                                int64_t max, int64_t fallback, int64_t *value, struct kvt_err *err);
/* --threads of every command: 1 to KVT_CLI_THREADS_MAX; 0 when not given: as OpenMP has. */
enum kvt_status kvt_cli_get_threads(const struct kvt_cli *cli, int32_t *threads,
                                    struct kvt_err *err);
enum kvt_status kvt_cli_get_double(const struct kvt_cli *cli, const char *name, double fallback,
                                   double *value, struct kvt_err *err);

/* KVT_EUSAGE "--NAME WHY" for the first of names (a NULL ends them) that was given: an option that
 * means nothing here is a mistake, not something to pass over. Common options that change a result
 * or name a file are known too. */
enum kvt_status kvt_cli_refuse(const struct kvt_cli *cli, const char *const names[],
                               const char *why, struct kvt_err *err);

/* KVT_EUSAGE when path, which this option names for writing, is a file that the command reads:
 * it would be lost. NULL is fine. --output is checked by the parser. */
enum kvt_status kvt_cli_check_output(const struct kvt_cli *cli, const char *option,
                                     const char *path, struct kvt_err *err);

/* The same for a file that an option names for reading: it is not that of --output. */
enum kvt_status kvt_cli_check_input(const struct kvt_cli *cli, const char *option, const char *path,
                                    struct kvt_err *err);

/* Load the config at path with --set and --seed applied. With --print-config the effective
 * configuration is printed on stdout, *done is true, and the command returns KVT_OK at once (the
 * config is released already). */
struct kvt_config;
enum kvt_status kvt_cli_config(const struct kvt_cli *cli, const char *path,
                               struct kvt_config *config, bool *done, struct kvt_err *err);

/* A note that faults.rates of this config, if it has any, strike in kvtwin inject alone. */
void kvt_cli_say_rates(const struct kvt_cli *cli, const struct kvt_config *config);

/* Whether a progress bar may be drawn on stderr: --progress, else a terminal and no -q. */
bool kvt_cli_shows_progress(const struct kvt_cli *cli);

/* A line of talk on stderr when the verbosity is at least level: 0 is said unless -q, 1 with -v. */
void kvt_cli_say(const struct kvt_cli *cli, int32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- what main and the tests ask of the frame ---- */

/* Everything but signals and library set-up: parse, run, report. Returns the exit code. Output of
 * --help and --version goes to stdout, errors to stderr. */
int kvt_cli_main(int argc, char *argv[]);

/* Parse argv (argv[0] is the command's name) into cli. argv may be reordered. *help is set when
 * --help was among the options; then operands are not checked. */
enum kvt_status kvt_cli_parse(struct kvt_cli *cli, const struct kvt_command *command, int argc,
                              char *argv[], bool *help, struct kvt_err *err);

/* The command of that name, or NULL. */
const struct kvt_command *kvt_command_find(const char *name);

void kvt_cli_print_help(FILE *file);
void kvt_cli_print_command_help(FILE *file, const struct kvt_command *command);

#endif
