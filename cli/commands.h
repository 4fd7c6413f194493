/* The subcommands, in the order of --help. One line each, X(name) for kvt_command_<name>, which
 * cli/cmd_<name>.c defines. (The comment ends the list, so that each line is alike.) */
#define KVT_COMMANDS(X) /* end */
