/*
 * result.h - everything a finished run says, as columns and scalars that outputs read
 *
 * Whoever ran the simulation fills one struct kvt_result; the outputs (summary.h, hdf5.h) only read
 * it. Nothing here is owned: columns are the engine's own arrays, lent until the outputs are done,
 * so that filling it costs nothing per request. A column that was not kept is NULL and is left out.
 * Zeroing the struct and setting `rows` and the columns up to `fate` is enough for every output.
 *
 * Times are ticks from the start of the run. Row r of a column is request r of the trace.
 */
#ifndef KVT_OUTPUT_RESULT_H
#define KVT_OUTPUT_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/ticks.h"
#include "sim/metrics/metrics.h"
#include "sim/metrics/tokens.h"

/* What became of a request. Over all rows that arrived,
 *     arrived == completed + rejected + aborted + running. */
/* clang-format off */
#define KVT_FATES(X)                                                                     \
    X(PENDING,   "pending")   /* had not arrived when the run ended; counted nowhere */  \
    X(RUNNING,   "running")   /* arrived, and neither ended nor refused */               \
    X(COMPLETED, "completed") /* its last token was delivered */                         \
    X(REJECTED,  "rejected")  /* could never fit */                                      \
    X(ABORTED,   "aborted")   /* cancelled, or ended by a guard or a fault */
/* clang-format on */

enum kvt_fate {
#define X(name, text) KVT_FATE_##name,
    KVT_FATES(X)
#undef X
        KVT_FATE_COUNT
};

extern const char *const kvt_fate_names[KVT_FATE_COUNT];

/* The metrics that have a distribution and that an SLO may bound. */
/* clang-format off */
#define KVT_LATENCIES(X)                                                                 \
    X(TTFT, "ttft", "TTFT")  /* arrival to first token */                                \
    X(TPOT, "tpot", "TPOT")  /* (finish - first) / (output - 1), none for one token */   \
    X(ITL,  "itl",  "ITL")   /* each gap between two tokens of a request */              \
    X(E2EL, "e2el", "E2EL")  /* arrival to last token */
/* clang-format on */

enum kvt_latency {
#define X(name, key, label) KVT_LATENCY_##name,
    KVT_LATENCIES(X)
#undef X
        KVT_LATENCY_COUNT
};

/* One bound of an SLO: this percentile (or the mean) of this latency must not exceed limit. */
struct kvt_slo_bound {
    enum kvt_latency latency;
    double percentile; /* 0.9 for p90; 0 for the mean, as in kvt_config_target */
    kvt_ticks limit;
};

#define KVT_SLO_BOUNDS_MAX 32

struct kvt_result_replica {
    const char *name;                         /* "decode-0": lower case letters, digits, '-' */
    const struct kvt_series *series;          /* set to the end of the run; NULL: not kept */
    const struct kvt_count_series *preempted; /* as wide as series; NULL: not kept */
    int64_t pages;                            /* in its pool, at least 1 */
    int64_t pages_peak;                       /* most in use (held or cached) at once */
    int64_t steps, preemptions, evictions;
    kvt_ticks busy;   /* time spent in steps */
    int64_t restarts; /* after faults of its node */
    bool is_down;     /* at the end of the run */
};

/* One GPU's memory in one role: what its bytes are for. The entries add up to memory_bytes. */
struct kvt_result_role {
    const char *name, *gpu;
    int32_t replicas, gpus_per_replica, tp, dp, ep, pp;
    int64_t memory_bytes;
    int32_t entry_count;
    const char *const *entries; /* "weights", "kv pool" ... */
    const int64_t *bytes;       /* of each */
};

/* The link between prefill and decode. Gauges of its series, in the places of a replica's: flows,
 * those of them that wait for bytes, and bytes per 2^40 ticks on their way. */
struct kvt_result_link {
    const struct kvt_series *series; /* NULL: there is no link */
    double bytes_per_s;              /* that it can carry at most, over all replicas */
    int64_t bytes;
    kvt_ticks busy; /* time with at least one flow moving */
};

/* What became of one fault of the config's plan. */
struct kvt_result_strike {
    const char *fault, *variant, *outcome;
    kvt_ticks time, exposed_at, detected_at; /* KVT_NEVER: it was not */
    int32_t replica;                         /* that the plan names; -1: any */
    bool activated;
    int64_t hit, lost, leaked; /* requests that read wrong bytes, aborted ones, wrong tokens out */
};

/* Wall times in seconds; negative ones are not printed. Not part of the result: --timing only. */
struct kvt_timing {
    bool show;
    double wall_s;   /* the whole process so far */
    double read_s;   /* config and trace */
    double setup_s;  /* freezing tables, taking memory */
    double engine_s; /* first event to last */
    double write_s;  /* HDF5 */
};

struct kvt_result {
    /* what was run */
    uint64_t seed;
    uint64_t digest;
    const char *title;  /* of the config, or NULL */
    const char *model;  /* one line: "Kimi K2.6, int4-g32" */
    const char *fleet;  /* one line a role, newline between: "decode: 1 x 8 h200-sxm (tp 8), fp8" */
    const char *config; /* the effective configuration as YAML (kvt_config_print) */
    bool interrupted;   /* SIGINT: what follows covers the part that ran */

    /* per request, [rows] */
    int64_t rows;
    const kvt_ticks *arrival;
    const kvt_ticks *first_token;                    /* KVT_NEVER where none */
    const kvt_ticks *finish;                         /* of the last token; KVT_NEVER where none */
    const int32_t *input, *output;                   /* tokens asked for */
    const uint8_t *fate;                             /* enum kvt_fate */
    const int16_t *prefill_replica, *decode_replica; /* index in replicas[]; -1 for none */
    const int32_t *preemptions;                      /* how often it lost its pages */
    const int32_t *cached;                           /* input tokens found in the prefix cache */
    const int16_t *tenant;                           /* NULL: one tenant */

    /* over the whole run */
    kvt_ticks end;    /* time of the last event */
    kvt_ticks warmup; /* requests that arrive at or after it are counted in metrics */
    const struct kvt_histogram *itl;    /* gaps of counted requests only; NULL: not measured */
    const struct kvt_token_log *tokens; /* NULL: not kept */
    int64_t events, steps;
    int64_t preempted, evicted_pages; /* over all requests and replicas */
    int64_t concurrency;              /* of a closed loop; 0: it is open */
    int32_t tenants;                  /* at most KVT_TENANTS_MAX; 0 or 1: one */

    int32_t replica_count;
    const struct kvt_result_replica *replicas;
    int32_t role_count;
    const struct kvt_result_role *roles;
    struct kvt_result_link link;
    int32_t strike_count;
    const struct kvt_result_strike *strikes; /* in the order of their times */

    /* what it is judged by */
    int32_t slo_count;
    struct kvt_slo_bound slo[KVT_SLO_BOUNDS_MAX];
    int32_t gpus;          /* of the fleet */
    double cost_usd_per_h; /* of the fleet; 0 or less: no cost was given */

    struct kvt_timing timing;
};

#define KVT_TENANTS_MAX 64

#endif
