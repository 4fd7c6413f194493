/*
 * server_run.h - one row of a benchmark table, simulated
 *
 * The row becomes a config (server_load.h), which runs like any other, once or as the mean of
 * several seeds. What the row observed is never looked at.
 */
#ifndef KVT_CLI_SERVER_RUN_H
#define KVT_CLI_SERVER_RUN_H

#include "cli/table.h"
#include "sim/config/config.h"

enum kvt_server_metric {
    KVT_SERVER_OUT_TOK_S,
    KVT_SERVER_TPOT_MS,
    KVT_SERVER_TTFT_MS,
    KVT_SERVER_METRICS
};
extern const char *const kvt_server_metric_names[KVT_SERVER_METRICS]; /* columns of the table */

struct kvt_server_how {
    bool guess;        /* GPUs without a shipped calibration are priced by their data sheet */
    int32_t resamples; /* behind each interval; 0: none */
    struct kvt_config_residual residual; /* added to the laws of the calibration */
};

struct kvt_server_run {
    bool supported;
    double predicted[KVT_SERVER_METRICS]; /* NaN: the run has none (TPOT of one output token) */
    double low[KVT_SERVER_METRICS], high[KVT_SERVER_METRICS]; /* NaN: no interval */
    char engine[16], gpu[64], model[64]; /* of supported rows; dtypes of one model are one model */
    char reason[160];                    /* why it is not supported */
    enum kvt_status status;              /* what ends the command: memory, a broken calibration */
    struct kvt_err err;
};

/* run is zeroed. Threads may run rows of one table side by side. */
void kvt_server_run(const struct kvt_table *table, int32_t index, const struct kvt_server_how *how,
                    struct kvt_server_run *run);

#endif
