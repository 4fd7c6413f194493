#include "cli/backend.h"

#include <string.h>

enum kvt_status kvt_cli_backend(const struct kvt_cli *cli, enum kvt_backend *backend,
                                struct kvt_err *err)
{
    const char *name = kvt_cli_get(cli, "backend");
    *backend = KVT_BACKEND_CPU;
    if (name == NULL)
        return KVT_OK;
    for (int i = 0; i < KVT_BACKEND_COUNT; i++) {
        if (strcmp(name, kvt_backend_names[i]) != 0)
            continue;
        *backend = (enum kvt_backend)i;
        return KVT_OK;
    }
    return kvt_err_set(err, KVT_EUSAGE, "--backend: want cpu, cuda or reference, got \"%.40s\"",
                       name);
}

void kvt_cli_say_clock(const struct kvt_cli *cli)
{
    if (kvt_device_clock_jumps() > 0)
        kvt_cli_say(cli, 0,
                    "kvtwin: note: the system's clock went back %d time%s: times measured then are "
                    "too short",
                    kvt_device_clock_jumps(), kvt_plural(kvt_device_clock_jumps()));
}
