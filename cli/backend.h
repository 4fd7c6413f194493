/* backend.h - --backend of the commands that run kernels */
#ifndef KVT_CLI_BACKEND_H
#define KVT_CLI_BACKEND_H

#include "cli/cli.h"
#include "runtime/device.h"

/* cpu when not given. KVT_EUSAGE names the choices. */
enum kvt_status kvt_cli_backend(const struct kvt_cli *cli, enum kvt_backend *backend,
                                struct kvt_err *err);

/* Say on stderr when the clock went back while kernels were measured. */
void kvt_cli_say_clock(const struct kvt_cli *cli);

#endif
