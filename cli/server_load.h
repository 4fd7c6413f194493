/*
 * server_load.h - what one row of a benchmark table says about the load, and the config it makes
 *
 * Inputs beside those of the server (server_row.h): mode, dataset, length_dist, isl_tokens,
 * osl_tokens, concurrency, request_rate_rps, num_requests, latency_stat, and the limits that the
 * notes quote (--max-num-batched-tokens, --chunked-prefill-size, --max-num-seqs,
 * --max-running-requests, --max-model-len, --context-length, --async-scheduling ...).
 *
 *   length_dist     lengths of requests, with n the column
 *   fixed           n
 *   uniform         1 .. 2n - 1: the columns are means
 *   0.8-1.0x        0.8 n .. n
 *   +-15%           0.85 n .. 1.15 n
 *   sharegpt        lognormal of mean n, cut at 1,024 tokens as the benchmarks' sampler cuts
 *   nominal         1 .. n, as "random" benchmarks draw; none is that too where the dataset is
 *                   random, and fixed elsewhere
 *
 * A concurrency makes a closed loop, whatever rate stands beside it; a rate of inf without one
 * sends all requests at once; a finite rate makes Poisson arrivals. A row without a number of
 * requests gets ten for each client, or 1,000 at a rate.
 */
#ifndef KVT_CLI_SERVER_LOAD_H
#define KVT_CLI_SERVER_LOAD_H

#include "cli/server_row.h"

enum kvt_server_lengths_kind { KVT_SERVER_FIXED, KVT_SERVER_UNIFORM, KVT_SERVER_LOGNORMAL };

struct kvt_server_lengths {
    enum kvt_server_lengths_kind kind;
    double min, max; /* uniform; lognormal: max clips */
    double mean, cv; /* fixed: the length; lognormal: before clipping */
};

struct kvt_server_load {
    struct kvt_server_lengths input, output;
    int64_t concurrency; /* 0: open at rate */
    int64_t requests;
    double rate; /* requests/s */
    bool prefill_only;
    const char *statistic;                                          /* mean, median, p90, p99 */
    int64_t batch_tokens, chunk_tokens, max_running, max_model_len; /* 0: the engine's */
    int overlap;                                                    /* -1: the engine's */
};

/* Read the load of a row whose server was read, and decide from both whether we model it. guess:
 * GPUs without a shipped calibration are priced by their data sheet instead of refused. */
bool kvt_server_load_read(struct kvt_server_row *row, struct kvt_server_load *load, bool guess);

/* How many seeds make a mean: short runs of random lengths are averaged over several. */
int32_t kvt_server_load_seeds(const struct kvt_server_load *load);

/* The config of the row as YAML; malloc'ed, NULL without memory. */
char *kvt_server_config(const struct kvt_server_row *row, const struct kvt_server_load *load);

#endif
