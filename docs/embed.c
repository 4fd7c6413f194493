/*
 * embed.c - the simulator inside another program
 *
 *     cc embed.c -o embed $(pkg-config --cflags --libs kvtwin)
 *     ./embed configs/examples/quickstart.yaml fleet.decode.kv=bf16
 *
 * Names of models, GPUs and calibrations are looked up in /usr/local/share/kvtwin; KVTWIN_DATA
 * names another folder (PREFIX/share/kvtwin).
 *
 * Loads a config, with what the command line sets, runs it, and prints two metrics. Errors are
 * those of the program: where, what was wanted, what was found.
 */
#include <stdio.h>

#include "sim/config/config.h"
#include "sim/output/summary.h"
#include "sim/plan/simulate.h"

static struct kvt_config config;         /* these are large: */
static struct kvt_simulation simulation; /* keep them off the stack */
static struct kvt_summary summary;

static enum kvt_status run(struct kvt_err *err)
{
    struct kvt_simulate_options how = {0};
    struct kvt_result result;
    struct kvt_arena arena;
    KVT_TRY(kvt_simulation_init(&simulation, &config, &how, err));
    enum kvt_status status = kvt_simulation_run(&simulation, &how, err);
    if (status == KVT_OK)
        status = kvt_simulation_result(&simulation, &result, err);
    if (status == KVT_OK)
        status = kvt_arena_init(&arena, 16 << 20, err);
    if (status == KVT_OK) {
        status = kvt_summary_init(&summary, &result, &arena, err);
        if (status == KVT_OK)
            printf("%.1f tok/s, median TTFT %.1f ms\n",
                   kvt_summary_find(&summary, "output_throughput")->real,
                   kvt_summary_find(&summary, "median_ttft_ms")->real);
        kvt_arena_release(&arena);
    }
    kvt_simulation_release(&simulation);
    return status;
}

int main(int argc, char *argv[])
{
    struct kvt_err err = {0};
    if (argc < 2) {
        fprintf(stderr, "Usage: %s CONFIG [KEY=VALUE]...\n", argv[0]);
        return KVT_EUSAGE;
    }
    const char *const *sets = (const char *const *)(argv + 2);
    enum kvt_status status = kvt_config_load(&config, argv[1], sets, argc - 2, &err);
    if (status == KVT_OK) {
        status = run(&err);
        kvt_config_release(&config);
    }
    if (status != KVT_OK)
        fprintf(stderr, "embed: %s\n", err.text);
    return (int)status;
}
