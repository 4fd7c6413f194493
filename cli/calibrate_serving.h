/* calibrate_serving.h - kvtwin calibrate RESULT... --serving CONFIG; for cmd_calibrate.c */
#ifndef KVT_CLI_CALIBRATE_SERVING_H
#define KVT_CLI_CALIBRATE_SERVING_H

#include "cli/cli.h"

/* Fit the constants of the server that the config describes to the benchmark results among the
 * operands; print them, and write the calibration where -o says. */
enum kvt_status kvt_calibrate_serving(const struct kvt_cli *cli, const char *config_path,
                                      struct kvt_err *err);

#endif
