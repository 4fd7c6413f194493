/*
 * config.h - a validated configuration: what the YAML said, with every default filled in
 *
 * The structs mirror the file (design: one key, one field); schema.c is the one table that fills,
 * checks, prints and documents them. Quantities are in base units (bytes, seconds, bytes/s, 1/s).
 * A field that the file may leave out and whose default depends on other fields holds KVT_UNSET
 * (integers) or a negative number (doubles); its help text says what is used then.
 *
 * Where a value is judged later than it is parsed (a model that does not fit its GPU), where_*
 * keeps its place so that the message can still point at it.
 */
#ifndef KVT_CONFIG_CONFIG_H
#define KVT_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/names.h"
#include "sim/base/status.h"

#define KVT_UNSET           (-1)
#define KVT_PERCENTILES_MAX 8

/* A model or a GPU: a shipped name, or a file. Exactly one is non-NULL. Paths are resolved. */
struct kvt_config_source {
    const char *name;      /* kimi-k2.6, h200-sxm */
    const char *file;      /* a YAML file of ours */
    const char *hf_config; /* a Hugging Face config.json; models only */
    struct kvt_where where;
};

struct kvt_config_parallel {
    int32_t tp, pp;
    int32_t dp; /* ranks of DP attention inside the replica (tp/dp GPUs each) */
    int32_t ep, dcp;
    enum kvt_moe_a2a moe_a2a; /* deepep: ep is tp */
};

struct kvt_config_memory {
    double fraction; /* of device memory, engine semantics; < 0: the engine's default */
    double capacity; /* bytes of device memory instead of the GPU file's; < 0: the file's */
    double reserve;  /* bytes kept away from the pool besides what the engine keeps */
    int64_t pages;   /* KVT_UNSET, or the number of KV pages whatever the memory says */
};

struct kvt_config_scheduler {
    int64_t chunk_tokens;  /* new prompt tokens per step (chunked prefill); UNSET: engine's */
    int64_t batch_tokens;  /* new tokens per step over all requests; UNSET: engine's */
    int64_t max_running;   /* requests in the batch; UNSET: engine's */
    int64_t max_model_len; /* tokens; longer requests are rejected; UNSET: the model's */
    bool overlap;          /* plan one step ahead */
    bool overlap_set;      /* false: the engine's default */
    bool prefix_cache;
    bool prefix_cache_set;
    enum kvt_free_order free_order; /* of the page free list */
    double conservativeness;        /* sglang: scales the estimate of growth at admission; 1 */
    int64_t reserved_decode_tokens; /* sglang decode role: 512 */
    double host_floor;              /* s, of a decode step; < 0: the calibration's */
};

struct kvt_config_guard {
    bool on[KVT_GUARD_COUNT]; /* guards combine */
    int32_t tag_bits;         /* 4..64; of tag-side and tag-inband */
    uint32_t tag_bind;        /* kvt_guard_bind bits */
    enum kvt_tag_order tag_order;
    enum kvt_guard_check check;
    enum kvt_on_hit on_hit; /* on a hit */
    double sample;          /* of the checks, for `sampled` */
    bool sample_set;
    double lease; /* s: its term */
};

/* One pool of equal replicas. */
struct kvt_config_role {
    bool present;
    int32_t replicas;
    struct kvt_config_source gpu;
    struct kvt_config_parallel parallel;
    enum kvt_weight_dtype weights;
    bool weights_set; /* false: the checkpoint's own dtype */
    enum kvt_kv_dtype kv;
    int64_t page_tokens;  /* UNSET: the engine's default for this model */
    int64_t draft_tokens; /* speculative decoding with MTP layers: tokens drafted; 0 */
    struct kvt_config_memory memory;
    struct kvt_config_scheduler scheduler;
    struct kvt_config_guard guard;
    enum kvt_router router; /* how requests are spread over this role's replicas */
    struct kvt_where where;
};

struct kvt_config_link {
    double bandwidth; /* bytes/s, of one `per` */
    enum kvt_link_scope per;
    double latency; /* s, added to each piece */
    enum kvt_stream_mode stream;
};

struct kvt_config_lengths { /* of prompts or outputs, in tokens */
    enum kvt_lengths_kind kind;
    double mean, min, max, p99, cv; /* < 0 where not given; min and max also clip */
    const char *file;               /* empirical */
};
struct kvt_config_arrivals {
    enum kvt_gaps_kind kind;
    double cv;      /* gamma: coefficient of variation */
    double shape;   /* weibull */
    double on, off; /* on/off: mean lengths in s */
};
struct kvt_config_prefixes { /* shared prompt prefixes of a generated load */
    int64_t groups;          /* distinct prefixes; 0: none */
    double share;            /* fraction of requests that start with one */
    int64_t tokens;          /* length of a prefix */
};

enum kvt_workload_kind {
    KVT_WORKLOAD_NONE,
    KVT_WORKLOAD_TRACE,
    KVT_WORKLOAD_OPEN,
    KVT_WORKLOAD_CLOSED
};
struct kvt_config_workload {
    enum kvt_workload_kind kind;
    struct kvt_where where;
    const char *trace;  /* path, resolved */
    double trace_speed; /* divides inter-arrival times; 1 */
    double rate;        /* open: req/s */
    int64_t requests;   /* open, closed: how many; UNSET: run.until decides */
    struct kvt_config_arrivals arrivals;
    struct kvt_config_lengths input, output;
    struct kvt_config_prefixes prefixes;
    struct kvt_config_aborts { /* clients that go away */
        bool given;
        double share, after, timeout; /* of the requests; mean s after arrival; s, <= 0: none */
    } aborts;
    int64_t concurrency;            /* closed */
    double think;                   /* closed: s between a finish and the next arrival */
    bool decode_only, prefill_only; /* closed */
};

struct kvt_config_target { /* of one metric: the value, and percentiles judged apart */
    int32_t count;
    double percentile[KVT_PERCENTILES_MAX]; /* 0.9 for p90; 0 for "mean" */
    double seconds[KVT_PERCENTILES_MAX];
};
struct kvt_config_slo {
    struct kvt_config_target ttft, itl, e2el;
};

#define KVT_NAMED_MAX 16
struct kvt_config_named { /* cost: GPU -> USD/h; calibration: GPU -> name or path */
    int32_t count;
    const char *key[KVT_NAMED_MAX];
    const char *text[KVT_NAMED_MAX];
    double value[KVT_NAMED_MAX];
    struct kvt_where where[KVT_NAMED_MAX];
};

/* Published results to set beside simulated ones: data for `reproduce`, never read by a model. */
#define KVT_PUBLISHED_MAX 64
enum kvt_result_kind {
    KVT_RESULT_VALUE, /* the result is `value` */
    KVT_RESULT_BELOW  /* it lies below `value` (resident_requests < concurrency) */
};
struct kvt_config_published {
    int32_t count;
    struct kvt_config_result {
        const char *metric;  /* kv_tokens, checkpoint_bytes, output_throughput ... */
        const char *role;    /* whose metric: prefill, decode, serve; NULL: the fleet's */
        int64_t concurrency; /* of the closed loop; KVT_UNSET: it does not matter */
        double value;        /* base unit; NaN never */
        enum kvt_result_kind kind;
        bool is_fitted;   /* a constant of ours was fitted to this row */
        const char *note; /* may be NULL */
        struct kvt_where where;
    } rows[KVT_PUBLISHED_MAX];
};

/* Faults of KV pages. A plan names strikes; without one `inject` draws trials of one strike each.
 */
#define KVT_STRIKES_MAX 1024 /* of one run, written or drawn */
#define KVT_RATES_MAX   32
struct kvt_config_faults {
    bool present;
    uint32_t kinds;     /* bit of each enum kvt_fault_kind to draw from */
    int64_t trials;     /* per class and guard */
    double from, until; /* s: when a strike may fall; until < 0: the last arrival */
    bool everywhere;    /* guards of the decode (or serve) role hold for all roles */
    struct kvt_config_strikes {
        int32_t count;
        struct kvt_config_strike {
            enum kvt_fault_kind fault;
            const char *variant;                       /* NULL: the first of its class */
            double at;                                 /* s */
            int64_t replica, request, page;            /* KVT_UNSET: drawn */
            double amount, delay;                      /* < 0: the variant's own; delay in s */
            bool expected;                             /* of an incident: how it ends ... */
            enum kvt_fault_outcome unguarded, guarded; /* ... without and with the guard */
            struct kvt_where where;
        } rows[KVT_STRIKES_MAX];
    } plan;
    struct kvt_config_rates {
        int32_t count;
        struct kvt_config_rate { /* from which strikes of a run are drawn */
            enum kvt_fault_kind fault;
            const char *variant; /* NULL: the first of its class */
            double rate;         /* per hour, or a share */
            enum kvt_rate_basis per;
            double lemons;        /* share of the GPUs that are bad; 0: all are alike */
            double carry;         /* share of the strikes that those carry */
            double amount, delay; /* < 0: the variant's own; delay in s */
            bool exponential;     /* delay is a mean */
            struct kvt_where where;
        } rows[KVT_RATES_MAX];
    } rates;
    struct kvt_where where;
};

/* What measurements of one's own servers found beside the laws of the calibration; added to them.
 */
struct kvt_config_residual {
    double layer;         /* s of each layer of a step; below zero: kernels overlap */
    double prefill_layer; /* s of the host's launches of each layer of a step with prompt tokens */
    double request;       /* s of a request's first token beside the steps */
};

/* How `plan` searches the domains. */
struct kvt_config_plan {
    enum kvt_objective objective;
    double confidence; /* share of the resamples that must meet the SLO */
    int64_t resamples; /* of a finalist; 0: the point alone is judged */
    double rejected;   /* share of the requests that may be rejected */
    int64_t lose;      /* replicas of a role that may be down */
    bool front;        /* candidates that cost more than the best are run too */
};

struct kvt_config_run {
    uint64_t seed;
    double warmup;         /* s */
    double until;          /* s; < 0: the end of the trace */
    int64_t series_points; /* points of each time series; 512 */
};

struct kvt_config {
    const char *path;  /* of the file, for messages */
    const char *title; /* optional text of the file */
    struct kvt_config_source model;
    enum kvt_engine engine;
    struct kvt_config_role roles[KVT_ROLE_COUNT];
    struct kvt_config_link link;
    bool link_present;
    struct kvt_config_workload workload;
    struct kvt_config_slo slo;
    struct kvt_config_named cost, calibration;
    struct kvt_config_residual residual;
    struct kvt_config_run run;
    struct kvt_config_plan plan;
    struct kvt_config_faults faults;
    struct kvt_config_published published;
    int32_t domains;                /* values given as a domain ({choices} or {range}) */
    struct kvt_where where_domain;  /* of the first */
    struct kvt_config_store *store; /* owns every string; opaque */
};

/* Read and validate. sets[0..set_count-1] are "a.b=v" from the command line, applied in order over
 * the file; paths in them resolve from the working directory, paths in the file from its folder.
 * A set replaces the value it names, and with it the other kinds of the same thing (a trace, an
 * open and a closed load exclude each other); v is YAML, and null takes the key out.
 * path "-" reads stdin. On failure err holds up to ten messages and *config is empty. */
enum kvt_status kvt_config_load(struct kvt_config *config, const char *path,
                                const char *const sets[], int32_t set_count, struct kvt_err *err);

/* The same from memory, for tests and fuzzing; relative paths resolve from folder. */
enum kvt_status kvt_config_parse(struct kvt_config *config, const char *name, const char *text,
                                 size_t count, const char *folder, const char *const sets[],
                                 int32_t set_count, struct kvt_err *err);

void kvt_config_release(struct kvt_config *config);

/* Replicas of all roles. */
static inline int32_t kvt_config_replicas(const struct kvt_config *config)
{
    int32_t replicas = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        replicas += config->roles[role].present ? config->roles[role].replicas : 0;
    return replicas;
}

/* A value that was given as a domain. Each text is that value as YAML: "path=text" is a --set that
 * chooses it. texts[0] is what the struct holds. Borrowed from the config. */
#define KVT_DOMAIN_CHOICES_MAX 10000
struct kvt_config_domain {
    const char *path; /* fleet.serve.replicas */
    int32_t count;    /* at least 1 */
    const char *const *texts;
    struct kvt_where where;
};

/* Domain index (0..config->domains-1), in the order of the file. What must hold between keys (a dp
 * that divides tp) is checked only where there is no domain: load each combination to know. */
const struct kvt_config_domain *kvt_config_domain(const struct kvt_config *config, int32_t index);

/* Where the value at path ("fleet.decode.memory.fraction") was written; the place of what holds it
 * when it was left to its default. For messages about values that are judged after parsing. */
struct kvt_where kvt_config_where(const struct kvt_config *config, const char *path);

/* The effective configuration as YAML that parses back to the same struct (relative paths then
 * resolve from the working directory); malloc'ed, NULL without memory. */
char *kvt_config_print(const struct kvt_config *config);

/* The reference page (Markdown) of every key: type, unit, range, default, help; malloc'ed. */
char *kvt_config_reference(void);

/* Every path that --set knows, one a line, in the order of the schema; malloc'ed. */
char *kvt_config_keys(void);

/* What one key means ("fleet.decode.kv", or an alias of it): meaning, wanted value, default, other
 * spellings, the keys below it; malloc'ed. NULL: KVT_EUSAGE with a suggestion, or KVT_ENOMEM. */
char *kvt_config_explain(const char *path, struct kvt_err *err);

#endif
