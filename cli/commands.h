/* The subcommands, in the order of --help. One line each, X(name) for kvt_command_<name>, which
 * cli/cmd_<name>.c defines. */
/* clang-format off */
#define KVT_COMMANDS(X) \
    X(capacity)         \
    X(simulate)         \
    X(plan)             \
    X(sweep)            \
    X(bench)            \
    X(calibrate)        \
    X(validate)         \
    X(reproduce)        \
    X(inject)           \
    X(diff)             \
    X(report)           \
    X(trace)            \
    X(model)            \
    X(config)           \
    X(examples)         \
    /* end of the list */
/* clang-format on */
