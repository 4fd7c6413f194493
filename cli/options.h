/*
 * options.h - the table of common options, shared by the parser and the help
 */
#ifndef KVT_CLI_OPTIONS_H
#define KVT_CLI_OPTIONS_H

#include <stddef.h>

#include "cli/cli.h"

/* clang-format off */
/* X(constant, letter or 0, long name, argument or NULL, kvt_cli_uses bits or 0 for all, help) */
#define KVT_COMMON_OPTIONS(X)                                                                   \
    X(SET, 0, "set", "KEY=VALUE", KVT_USES_CONFIG,                                              \
      "override a key of the config, as in fleet.decode.replicas=4; repeats")                   \
    X(PRINT_CONFIG, 0, "print-config", NULL, KVT_USES_CONFIG,                                   \
      "print the effective configuration, every default filled in, and stop")                   \
    X(SEED, 0, "seed", "N", KVT_USES_CONFIG | KVT_USES_SEED,                                    \
      "seed of all random streams, 0 to 2^64-1")                                                \
    X(OUTPUT, 'o', "output", "FILE", KVT_USES_OUTPUT,                                           \
      "write the results to FILE; it appears only when it is complete")                         \
    X(FORMAT, 0, "format", "FORMAT", 0,                                                         \
      "what to print on stdout: text, json or csv; default text")                               \
    X(TIMING, 0, "timing", NULL, KVT_USES_ENGINE,                                               \
      "add wall time, events and rates to the result")                                          \
    X(EXACT_STEPS, 0, "exact-steps", NULL, KVT_USES_ENGINE,                                     \
      "run every step one by one; same results, slower")                                        \
    X(PARANOID, 0, "paranoid", NULL, KVT_USES_ENGINE,                                           \
      "check all invariants after every step; very slow")                                   \
    X(PROGRESS, 0, "progress", "WHEN", 0,                                                       \
      "progress bar on stderr: auto, always or never; default auto")                            \
    X(QUIET, 'q', "quiet", NULL, 0, "say nothing on stderr but errors")                         \
    X(VERBOSE, 'v', "verbose", NULL, 0, "say more on stderr; repeats")                          \
    X(HELP, 'h', "help", NULL, 0, "print this help and stop")                                   \
    X(VERSION, 'V', "version", NULL, 0, "print the version and stop")
/* clang-format on */

enum kvt_common_option {
#define X(constant, letter, name, argument, uses, help) KVT_COMMON_##constant,
    KVT_COMMON_OPTIONS(X)
#undef X
        KVT_COMMON_COUNT
};

struct kvt_common_row {
    char letter;
    const char *name, *argument;
    unsigned uses; /* 0: every command has it */
    const char *help;
};
extern const struct kvt_common_row kvt_common_rows[KVT_COMMON_COUNT];

/* Whether command takes this common option. */
bool kvt_command_takes(const struct kvt_command *command, enum kvt_common_option option);

/* The index-th subcommand; NULL after the last, where the walk ends. */
const struct kvt_command *kvt_command_at(size_t index);

void kvt_cli_print_version(FILE *file);

#endif
