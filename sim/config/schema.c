/* The table of every key. Read it from the end: kvt_schema is the root. */
#include "sim/config/schema.h"

#include <float.h>
#include <string.h>

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define SET_OF(array) .names = (array), .names_count = COUNT(array)

/* The last fixed part is the help; what follows it are designated initialisers. */
#define SECTION(name, at, table, ...)                                                              \
    {                                                                                              \
        .key = (name), .kind = KVT_RULE_SECTION, .offset = (at), .children = (table),              \
        .help = __VA_ARGS__                                                                        \
    }
#define ROW(what, name, type, field, ...)                                                          \
    {                                                                                              \
        .key = (name), .kind = KVT_RULE_##what, .offset = offsetof(type, field),                   \
        .help = __VA_ARGS__                                                                        \
    }
#define END                                                                                        \
    {                                                                                              \
        .key = NULL                                                                                \
    }

/* clang-format off */
static const struct kvt_synonym weight_synonyms[] = {
    {"bfloat16", "bf16"}, {"fp8_block", "fp8-block"}, {NULL, NULL}};
static const struct kvt_synonym kv_synonyms[] = {
    {"auto", "bf16"}, {"bfloat16", "bf16"}, {"fp8_e4m3", "fp8"}, {"fp8_ds_mla", "fp8-scaled"},
    {NULL, NULL}};

/* ---- the model and a role ---- */

#define S struct kvt_config_source
static const struct kvt_rule model_rules[] = {
    ROW(TEXT, "name", S, name, "a model that is shipped in configs/models/, or an alias of one",
        .flags = KVT_ONE_OF),
    ROW(PATH, "file", S, file, "a model file of kvtwin's own form", .flags = KVT_ONE_OF),
    ROW(PATH, "hf_config", S, hf_config, "a Hugging Face config.json", .flags = KVT_ONE_OF),
    END
};
#undef S

#define R struct kvt_config_role
static const struct kvt_rule gpu_rules[] = {
    ROW(TEXT, "name", R, gpu.name, "a GPU that is shipped in configs/gpus/", .flags = KVT_ONE_OF),
    ROW(PATH, "file", R, gpu.file, "a GPU file", .flags = KVT_ONE_OF),
    ROW(REAL, "memory", R, memory.capacity,
        "device memory in the place of what the GPU's file says",
        .dimension = KVT_DIMENSION_BYTES, .flags = KVT_ABOVE, .max = KVT_DEVICE_BYTES_MAX),
    END
};

#define P struct kvt_config_parallel
static const struct kvt_rule parallel_rules[] = {
    ROW(INT32, "tp", P, tp, "tensor parallelism: GPUs that share every layer",
        .min = 1, .max = 1024, .standard = "1", .aliases = "tensor_parallel_size tp_size"),
    ROW(INT32, "pp", P, pp, "pipeline parallelism: stages of layers",
        .min = 1, .max = 256, .standard = "1", .aliases = "pipeline_parallel_size pp_size"),
    ROW(INT32, "dp", P, dp, "ranks of data-parallel attention inside the replica; divides tp",
        .min = 1, .max = 1024, .standard = "1", .aliases = "dp_size"),
    ROW(INT32, "ep", P, ep, "expert parallelism; divides tp",
        .min = 1, .max = 1024, .standard = "1", .aliases = "ep_size expert_parallel_size"),
    ROW(INT32, "dcp", P, dcp, "decode context parallelism: ranks that share a request's KV; "
        "divides tp/dp", .min = 1, .max = 1024, .standard = "1",
        .aliases = "decode_context_parallel_size dcp_size"),
    ROW(NAME, "moe_a2a", P, moe_a2a, "how tokens reach the ranks of their experts: all to all "
        "ranks, or by DeepEP's dispatch and combine (wants ep = tp)", .standard = "none",
        SET_OF(kvt_moe_a2a_names), .aliases = "moe_a2a_backend"),
    END
};
#undef P

#define M struct kvt_config_memory
static const struct kvt_rule memory_rules[] = {
    ROW(REAL, "fraction", M, fraction, "share of device memory for weights and KV, in the engine's "
        "own sense (mem-fraction-static, gpu-memory-utilization); unset: the engine's default",
        .max = 1, .flags = KVT_ABOVE, .aliases = "gpu_memory_utilization mem_fraction_static"),
    ROW(REAL, "reserve", M, reserve, "bytes per GPU kept away from the pool besides what the "
        "engine keeps", .dimension = KVT_DIMENSION_BYTES, .standard = "0 B",
        .max = KVT_DEVICE_BYTES_MAX),
    ROW(INT64, "pages", M, pages, "the number of KV pages, whatever the memory says; unset: as "
        "many as fit", .min = 1, .max = 1073741823, .aliases = "num_gpu_blocks_override"),
    END
};
#undef M

#define C struct kvt_config_scheduler
static const struct kvt_rule scheduler_rules[] = {
    ROW(INT64, "chunk_tokens", C, chunk_tokens, "prompt tokens of one prefill chunk; unset: the "
        "engine's default", .min = 1, .max = 1e9, .aliases = "chunked_prefill_size"),
    ROW(INT64, "batch_tokens", C, batch_tokens, "new tokens of one step over all requests; unset: "
        "the engine's default", .min = 1, .max = 1e9, .aliases = "max_num_batched_tokens"),
    ROW(INT64, "max_running", C, max_running, "requests that run together in one replica; unset: "
        "the engine's default", .min = 1, .max = 1e9,
        .aliases = "max_num_seqs max_running_requests"),
    ROW(INT64, "max_model_len", C, max_model_len, "tokens of prompt and output together; longer "
        "requests are rejected; unset: the model's", .min = 1, .max = 1e9,
        .aliases = "max_model_len context_length"),
    ROW(FLAG, "overlap", C, overlap, "plan one step ahead of the GPU; unset: the engine's default",
        .given = KVT_AT(C, overlap_set), .aliases = "async_scheduling"),
    ROW(FLAG, "prefix_cache", C, prefix_cache, "share the pages of equal prompt prefixes; unset: "
        "the engine's default", .given = KVT_AT(C, prefix_cache_set),
        .aliases = "enable_prefix_caching"),
    ROW(NAME, "free_order", C, free_order, "which free page is handed out next",
        .standard = "lifo", SET_OF(kvt_free_order_names)),
    ROW(REAL, "conservativeness", C, conservativeness, "sglang: scales the growth that admission "
        "expects of running requests", .max = 100, .flags = KVT_ABOVE, .standard = "1",
        .aliases = "schedule_conservativeness"),
    ROW(INT64, "reserved_decode_tokens", C, reserved_decode_tokens, "sglang: tokens that a decode "
        "role keeps free for each request", .max = 1e9, .standard = "512",
        .aliases = "num_reserved_decode_tokens"),
    ROW(REAL, "host_floor", C, host_floor, "a decode step takes at least this, as without CUDA "
        "graphs; unset: the calibration's", .dimension = KVT_DIMENSION_TIME, .flags = KVT_ABOVE,
        .max = 1),
    END
};
#undef C

#define G struct kvt_config_guard
#define CHECK_RULE ROW(NAME, "check", G, check, "when tags and digests are compared", \
                       .standard = "once", SET_OF(kvt_check_names)), \
                   ROW(NAME, "on_hit", G, on_hit, "what is done with a request whose page fails " \
                       "a check; what cannot be refetched is computed again, and what cannot be " \
                       "computed again is aborted", .standard = "abort", \
                       SET_OF(kvt_on_hit_names)), \
                   ROW(REAL, "sample", G, sample, "share of the steps that are checked, for " \
                       "check: sampled; unset: 0.1", .max = 1, .flags = KVT_ABOVE, \
                       .standard = "0.1", .given = KVT_AT(G, sample_set))
static const struct kvt_rule check_rules[] = {CHECK_RULE, END};
static const struct kvt_rule tag_rules[] = {
    ROW(INT32, "bits", G, tag_bits, "width of a tag", .min = 4, .max = 64, .standard = "64"),
    ROW(NAMES, "bind", G, tag_bind, "what a tag is made of",
        .standard = "[owner, position, generation]", SET_OF(kvt_bind_names)),
    ROW(NAME, "values", G, tag_order, "how the values of a generation follow each other",
        .standard = "counter", SET_OF(kvt_tag_order_names)),
    CHECK_RULE,
    END
};
static const struct kvt_rule lease_rules[] = {
    ROW(REAL, "term", G, lease, "how long a reader elsewhere may hold a page",
        .dimension = KVT_DIMENSION_TIME, .flags = KVT_ABOVE, .max = 1e5, .standard = "30 s"),
    END
};
static const struct kvt_rule no_rules[] = {END};
#define X(what, name, keys, looks, help) \
    SECTION(name, 0, keys##_rules, help, .given = KVT_AT(G, on[KVT_GUARD_##what])),
static const struct kvt_rule guard_rules[] = {KVT_GUARDS(X) END};
#undef X
#undef G

static const struct kvt_rule role_rules[] = {
    ROW(INT32, "replicas", R, replicas, "equal replicas of this role",
        .min = 1, .max = 100000, .standard = "1"),
    SECTION("gpu", 0, gpu_rules, "the GPU of this role: a name, or a map",
            .flags = KVT_REQUIRED | KVT_NEED_ONE, .shorthand = "name",
            .where = KVT_AT(R, gpu.where)),
    SECTION("parallel", offsetof(R, parallel), parallel_rules, "how one replica is spread over "
            "tp x pp GPUs"),
    ROW(NAME, "weights", R, weights, "dtype of the weights; unset: the checkpoint's own",
        .given = KVT_AT(R, weights_set), SET_OF(kvt_weight_dtype_names),
        .synonyms = weight_synonyms),
    ROW(NAME, "kv", R, kv, "dtype and layout of the KV cache; fp8 is the engine's own layout",
        .standard = "bf16", SET_OF(kvt_kv_dtype_names), .synonyms = kv_synonyms,
        .aliases = "kv_cache_dtype"),
    ROW(INT64, "page_tokens", R, page_tokens, "tokens of one KV page; unset: the engine's default "
        "for the model", .min = 1, .max = 65536, .aliases = "block_size page_size"),
    ROW(INT64, "draft_tokens", R, draft_tokens, "tokens that speculative decoding drafts with the "
        "model's MTP layers", .max = 64, .standard = "0", .aliases = "num_speculative_tokens"),
    SECTION("memory", offsetof(R, memory), memory_rules, "how device memory is divided"),
    SECTION("scheduler", offsetof(R, scheduler), scheduler_rules, "which requests run in a step"),
    SECTION("guard", offsetof(R, guard), guard_rules, "protection of KV pages: names joined by +, "
            "or a map of names", .flags = KVT_SCALAR_NAMES | KVT_NAMES_JOIN),
    ROW(NAME, "router", R, router, "how requests are spread over the replicas",
        .standard = "round-robin", SET_OF(kvt_router_names)),
    END
};
#undef R

/* ---- the fleet ---- */

#define L struct kvt_config_link
static const struct kvt_rule link_rules[] = {
    ROW(REAL, "bandwidth", L, bandwidth, "of one `per`", .flags = KVT_ABOVE,
        .dimension = KVT_DIMENSION_BANDWIDTH, .standard = "50 GB/s"),
    ROW(NAME, "per", L, per, "what has a link of this bandwidth", .standard = "gpu",
        SET_OF(kvt_link_scope_names)),
    ROW(REAL, "latency", L, latency, "added to each piece sent",
        .dimension = KVT_DIMENSION_TIME, .standard = "10 us"),
    ROW(NAME, "stream", L, stream, "when KV leaves prefill: after the prompt, after each chunk, or "
        "layer by layer", .standard = "by-chunk", SET_OF(kvt_stream_names)),
    END
};
#undef L

#define K struct kvt_config
#define ROLE(what, name, text)                                                       \
    SECTION(name, offsetof(K, roles[KVT_ROLE_##what]), role_rules, text,             \
            .flags = KVT_HAS_ALIASES, .given = KVT_AT(K, roles[KVT_ROLE_##what].present), \
            .where = KVT_AT(K, roles[KVT_ROLE_##what].where))
static const struct kvt_rule fleet_rules[] = {
    ROLE(PREFILL, "prefill", "replicas that compute prompts and hand their KV over"),
    ROLE(DECODE, "decode", "replicas that continue from KV they were handed"),
    ROLE(SERVE, "serve", "replicas that do both; excludes prefill and decode"),
    SECTION("link", offsetof(K, link), link_rules, "between prefill and decode",
            .given = KVT_AT(K, link_present)),
    END
};

/* ---- the workload ---- */

#define N struct kvt_config_lengths
#define CLIP                                                                             \
    ROW(REAL, "min", N, min, "shorter draws become this long", .min = 1, .max = 1e9,     \
        .flags = KVT_WHOLE),                                                             \
    ROW(REAL, "max", N, max, "longer draws become this long", .min = 1, .max = 1e9,      \
        .flags = KVT_WHOLE)
static const struct kvt_rule uniform_rules[] = {
    ROW(REAL, "min", N, min, "the shortest", .min = 1, .max = 1e9,
        .flags = KVT_WHOLE | KVT_REQUIRED),
    ROW(REAL, "max", N, max, "the longest", .min = 1, .max = 1e9,
        .flags = KVT_WHOLE | KVT_REQUIRED),
    END
};
static const struct kvt_rule lognormal_rules[] = {
    ROW(REAL, "mean", N, mean, "mean length", .min = 1, .max = 1e9, .flags = KVT_REQUIRED),
    ROW(REAL, "p99", N, p99, "99th percentile", .min = 1, .max = 1e9, .flags = KVT_ONE_OF),
    ROW(REAL, "cv", N, cv, "standard deviation over mean, in the place of p99", .max = 100,
        .flags = KVT_ABOVE | KVT_ONE_OF),
    CLIP,
    END
};
static const struct kvt_rule empirical_rules[] = {
    ROW(PATH, "file", N, file, "a trace whose lengths are drawn", .flags = KVT_REQUIRED),
    CLIP,
    END
};
#define DISTRIBUTION(what) \
    .flags = KVT_ONE_OF, .chosen = KVT_AT(N, kind), .chosen_value = KVT_LENGTHS_##what
static const struct kvt_rule lengths_rules[] = {
    ROW(REAL, "fixed", N, mean, "every request is this long", .min = 1, .max = 1e9,
        .flags = KVT_ONE_OF | KVT_WHOLE, .chosen = KVT_AT(N, kind),
        .chosen_value = KVT_LENGTHS_FIXED),
    SECTION("uniform", 0, uniform_rules, "any whole length between two", DISTRIBUTION(UNIFORM)),
    SECTION("lognormal", 0, lognormal_rules, "lognormal, given by its mean and p99 or cv",
            DISTRIBUTION(LOGNORMAL)),
    SECTION("empirical", 0, empirical_rules, "drawn from a trace", DISTRIBUTION(EMPIRICAL)),
    END
};
#undef N

#define A struct kvt_config_arrivals
static const struct kvt_rule gamma_rules[] = {
    ROW(REAL, "cv", A, cv, "coefficient of variation of the gaps; 1 is Poisson", .max = 100,
        .flags = KVT_ABOVE | KVT_REQUIRED),
    END
};
static const struct kvt_rule weibull_rules[] = {
    ROW(REAL, "shape", A, shape, "1 is Poisson, less is burstier", .min = 0.05, .max = 100,
        .flags = KVT_REQUIRED),
    END
};
static const struct kvt_rule on_off_rules[] = {
    ROW(REAL, "on", A, on, "mean length of a burst", .dimension = KVT_DIMENSION_TIME,
        .flags = KVT_ABOVE | KVT_REQUIRED),
    ROW(REAL, "off", A, off, "mean length of a pause", .dimension = KVT_DIMENSION_TIME,
        .flags = KVT_ABOVE | KVT_REQUIRED),
    END
};
#define PROCESS(what) \
    .flags = KVT_ONE_OF, .chosen = KVT_AT(A, kind), .chosen_value = KVT_GAPS_##what
static const struct kvt_rule arrivals_rules[] = {
    SECTION("poisson", 0, no_rules, "independent of each other", PROCESS(POISSON)),
    SECTION("gamma", 0, gamma_rules, "gaps follow a gamma distribution", PROCESS(GAMMA)),
    SECTION("weibull", 0, weibull_rules, "gaps follow a Weibull distribution", PROCESS(WEIBULL)),
    SECTION("on_off", 0, on_off_rules, "Poisson bursts and pauses; the rate is that over both",
            PROCESS(ON_OFF)),
    SECTION("constant", 0, no_rules, "equal gaps", PROCESS(CONSTANT)),
    END
};
#undef A

#define X struct kvt_config_prefixes
static const struct kvt_rule prefixes_rules[] = {
    ROW(INT64, "groups", X, groups, "distinct shared prefixes; 0: none", .max = 1e9,
        .standard = "0"),
    ROW(REAL, "share", X, share, "fraction of the requests that start with one", .max = 1,
        .standard = "0"),
    ROW(INT64, "tokens", X, tokens, "length of a prefix", .max = 1e9, .standard = "0"),
    END
};
#undef X

#define W struct kvt_config_workload
#define LENGTHS(name, field, must, text)                                              \
    SECTION(name, offsetof(W, field), lengths_rules, text, .shorthand = "fixed",      \
            .flags = (must) | KVT_NEED_ONE)
static const struct kvt_rule trace_rules[] = {
    ROW(PATH, "file", W, trace, "a trace in any form that `kvtwin trace` reads",
        .flags = KVT_REQUIRED),
    ROW(REAL, "speed", W, trace_speed, "divides the gaps between arrivals", .max = 1e9,
        .flags = KVT_ABOVE, .standard = "1"),
    END
};
static const struct kvt_rule open_rules[] = {
    ROW(REAL, "rate", W, rate, "mean rate of arrivals", .dimension = KVT_DIMENSION_RATE,
        .flags = KVT_ABOVE | KVT_REQUIRED),
    SECTION("arrivals", offsetof(W, arrivals), arrivals_rules, "how arrivals follow each other",
            .flags = KVT_SCALAR_NAMES | KVT_NEED_ONE),
    LENGTHS("input", input, KVT_REQUIRED, "tokens of a prompt: a number, or a distribution"),
    LENGTHS("output", output, KVT_REQUIRED, "tokens of an output: a number, or a distribution"),
    SECTION("prefixes", offsetof(W, prefixes), prefixes_rules, "prompt prefixes that requests "
            "share"),
    ROW(INT64, "requests", W, requests, "how many arrive; unset: run.until decides", .min = 1,
        .max = 1e12),
    END
};
static const struct kvt_rule closed_rules[] = {
    ROW(INT64, "concurrency", W, concurrency, "requests that are always in the fleet", .min = 1,
        .max = 1e9, .flags = KVT_REQUIRED | KVT_LIST_IS_DOMAIN),
    LENGTHS("input", input, KVT_REQUIRED, "tokens of a prompt: a number, or a distribution"),
    LENGTHS("output", output, 0, "tokens of an output: a number, or a distribution; 1 with "
            "prefill_only"),
    ROW(INT64, "requests", W, requests, "how many arrive; unset: run.until decides", .min = 1,
        .max = 1e12),
    ROW(REAL, "think", W, think, "from a finish to the arrival that replaces it",
        .dimension = KVT_DIMENSION_TIME, .standard = "0 s"),
    ROW(FLAG, "decode_only", W, decode_only, "requests start on the decode role with their context "
        "already there; concurrency counts decode residents", .standard = "false"),
    ROW(FLAG, "prefill_only", W, prefill_only, "requests end with their first token",
        .standard = "false"),
    END
};
#undef W
#define V struct kvt_config_aborts
static const struct kvt_rule aborts_rules[] = {
    ROW(REAL, "share", V, share, "of the requests whose client goes away early", .max = 1,
        .standard = "0"),
    ROW(REAL, "after", V, after, "mean time from arrival until it does, exponential",
        .dimension = KVT_DIMENSION_TIME, .flags = KVT_ABOVE, .standard = "5 s"),
    ROW(REAL, "timeout", V, timeout, "every client goes away when its request takes longer; unset: "
        "none does", .dimension = KVT_DIMENSION_TIME, .flags = KVT_ABOVE),
    END
};
#undef V
#define W struct kvt_config_workload
#define LOAD(what) \
    .flags = KVT_ONE_OF, .chosen = KVT_AT(W, kind), .chosen_value = KVT_WORKLOAD_##what
static const struct kvt_rule workload_rules[] = {
    SECTION("trace", 0, trace_rules, "requests of a file: a path, or a map", LOAD(TRACE),
            .shorthand = "file"),
    SECTION("open", 0, open_rules, "generated arrivals at a rate", LOAD(OPEN)),
    SECTION("closed", 0, closed_rules, "a fixed number of requests in the fleet", LOAD(CLOSED)),
    SECTION("aborts", offsetof(W, aborts), aborts_rules, "clients that go away before the end",
            .given = KVT_AT(W, aborts.given)),
    END
};
#undef W

/* ---- goals, prices, the run, published results ---- */

#define O struct kvt_config_slo
static const struct kvt_rule slo_rules[] = {
    ROW(TARGET, "ttft", O, ttft, "time to the first token"),
    ROW(TARGET, "itl", O, itl, "time between two tokens"),
    ROW(TARGET, "e2el", O, e2el, "time from arrival to the last token"),
    END
};
#undef O

#define U struct kvt_config_run
static const struct kvt_rule run_rules[] = {
    ROW(SEED, "seed", U, seed, "of every random stream", .standard = "1"),
    ROW(REAL, "warmup", U, warmup, "requests that arrive before this are not counted",
        .dimension = KVT_DIMENSION_TIME, .standard = "0 s"),
    ROW(REAL, "until", U, until, "arrivals end here, then the fleet drains; unset: the end of the "
        "trace or the number of requests", .dimension = KVT_DIMENSION_TIME, .flags = KVT_ABOVE),
    ROW(INT64, "series_points", U, series_points, "points of each time series; even", .min = 2,
        .max = 1e6, .standard = "512"),
    END
};
#undef U

#define H struct kvt_config_plan
static const struct kvt_rule plan_rules[] = {
    ROW(NAME, "objective", H, objective, "what the cheapest fleet is cheapest in",
        .standard = "usd-per-h", SET_OF(kvt_objective_names)),
    ROW(REAL, "confidence", H, confidence, "share of the resamples that must meet the SLO",
        .max = 1, .standard = "0.9"),
    ROW(INT64, "resamples", H, resamples, "runs of a finalist with other errors of the step "
        "times; 0: the point alone is judged", .max = 10000, .standard = "20"),
    ROW(REAL, "rejected", H, rejected, "share of the requests that may be rejected", .max = 1,
        .standard = "0"),
    ROW(INT64, "lose", H, lose, "replicas of each role in turn that may be down while the rest "
        "keeps the SLO", .max = 100000, .standard = "0"),
    ROW(FLAG, "front", H, front, "run the candidates that cost more than the best too, for the "
        "Pareto front", .standard = "true"),
    END
};
#undef H

#define F struct kvt_config_faults
#define T struct kvt_config_strike
static const struct kvt_rule strike_rules[] = {
    ROW(NAME, "fault", T, fault, "its class", .flags = KVT_REQUIRED, SET_OF(kvt_fault_names)),
    ROW(TEXT, "variant", T, variant, "which form of it; unset: the first"),
    ROW(REAL, "at", T, at, "when it strikes, or from when on it waits for an event that fits",
        .dimension = KVT_DIMENSION_TIME, .flags = KVT_REQUIRED),
    ROW(INT64, "replica", T, replica, "which replica, counted over the fleet; unset: drawn",
        .max = 100000),
    ROW(INT64, "request", T, request, "which request, by its row; unset: drawn", .max = 2e9),
    ROW(INT64, "page", T, page, "which page of the pool; unset: drawn", .max = 2e9),
    ROW(REAL, "amount", T, amount, "how much, in the variant's own measure; unset: its default",
        .max = 1e9),
    ROW(REAL, "delay", T, delay, "how long; unset: the variant's default",
        .dimension = KVT_DIMENSION_TIME),
    ROW(NAME, "unguarded", T, unguarded, "of an incident: how it ended; `inject` exits 1 when it "
        "ends otherwise without a guard", .standard = "escaped", SET_OF(kvt_outcome_names),
        .given = KVT_AT(T, expected)),
    ROW(NAME, "guarded", T, guarded, "how it should end with the guard of the config",
        .standard = "masked", SET_OF(kvt_outcome_names)),
    END
};
#undef T
#define T struct kvt_config_rate
static const struct kvt_rule rate_rules[] = {
    ROW(NAME, "fault", T, fault, "its class", .flags = KVT_REQUIRED, SET_OF(kvt_fault_names)),
    ROW(TEXT, "variant", T, variant, "which form of it; unset: the first"),
    ROW(REAL, "rate", T, rate, "strikes per hour, or the share of transfers or aborts",
        .max = 1e12, .flags = KVT_REQUIRED),
    ROW(NAME, "per", T, per, "hour is of one replica, gb-hour of KV memory",
        .flags = KVT_REQUIRED, SET_OF(kvt_rate_names)),
    ROW(REAL, "lemons", T, lemons, "share of the GPUs that are bad; 0: all are alike", .max = 1,
        .standard = "0"),
    ROW(REAL, "carry", T, carry, "share of the strikes that the bad GPUs carry", .max = 1,
        .standard = "0.98"),
    ROW(REAL, "amount", T, amount, "how much, in the variant's own measure; unset: its default",
        .max = 1e9),
    ROW(REAL, "delay", T, delay, "how long; unset: the variant's default",
        .dimension = KVT_DIMENSION_TIME),
    ROW(FLAG, "exponential", T, exponential, "the delay is drawn for each strike: exponential, "
        "with that mean", .standard = "false"),
    END
};
#undef T
static const struct kvt_rule faults_rules[] = {
    ROW(NAMES, "kinds", F, kinds, "classes that `inject` tries, each by itself; none is a run "
        "without a fault",
        .standard = "[none, stale-reader, premature-free, late-write, wrong-map, prefix-poison, "
                    "double-free, leak, partial-transfer, message-fault, residue, bit-flip, "
                    "node-fault, liveness, false-alarm]", SET_OF(kvt_fault_names)),
    ROW(INT64, "trials", F, trials, "runs of one strike each, per class and guard", .min = 1,
        .max = 1e9, .standard = "100"),
    ROW(REAL, "from", F, from, "no strike falls before this", .dimension = KVT_DIMENSION_TIME,
        .standard = "0 s"),
    ROW(REAL, "until", F, until, "nor after this; unset: the last arrival",
        .dimension = KVT_DIMENSION_TIME),
    ROW(FLAG, "everywhere", F, everywhere, "the guards of the decode or serve role hold for every "
        "role", .standard = "false"),
    {.key = "plan", .kind = KVT_RULE_ROWS, .offset = offsetof(F, plan), .children = strike_rules,
     .rows = {offsetof(struct kvt_config_strikes, rows), sizeof(struct kvt_config_strike),
              offsetof(struct kvt_config_strike, where), KVT_STRIKES_MAX},
     .help = "strikes of one run, in the place of trials"},
    {.key = "rates", .kind = KVT_RULE_ROWS, .offset = offsetof(F, rates), .children = rate_rules,
     .rows = {offsetof(struct kvt_config_rates, rows), sizeof(struct kvt_config_rate),
              offsetof(struct kvt_config_rate, where), KVT_RATES_MAX},
     .help = "strikes of one run that `inject` draws before it, with those of the plan"},
    END
};
#undef F

#define B struct kvt_config_result
#define RESULT(what) \
    .flags = KVT_ONE_OF | KVT_ANY_UNIT, .min = -DBL_MAX, .chosen = KVT_AT(B, kind), \
    .chosen_value = KVT_RESULT_##what
static const struct kvt_rule result_rules[] = {
    ROW(TEXT, "metric", B, metric, "name of the metric, as `simulate` and `capacity` print it",
        .flags = KVT_REQUIRED),
    ROW(TEXT, "role", B, role, "whose metric; unset: the fleet's", SET_OF(kvt_role_names)),
    ROW(INT64, "concurrency", B, concurrency, "of the closed loop; unset: it does not matter",
        .min = 1, .max = 1e9),
    ROW(REAL, "value", B, value, "what was published", RESULT(VALUE)),
    ROW(REAL, "below", B, value, "the metric lies below this; in the place of value",
        RESULT(BELOW)),
    ROW(FLAG, "fitted", B, is_fitted, "a constant of ours was fitted to this row",
        .standard = "false"),
    ROW(TEXT, "note", B, note, "free text"),
    END
};
#undef B

#define D struct kvt_config_residual
#define RESIDUAL(key, field, text)                                                                 \
    ROW(REAL, key, D, field, text, .dimension = KVT_DIMENSION_TIME, .min = -10, .max = 10,         \
        .standard = "0 s")
static const struct kvt_rule residual_rules[] = {
    RESIDUAL("layer", layer, "of each layer of each step; below zero where kernels overlap"),
    RESIDUAL("prefill_layer", prefill_layer,
             "of the launches of each layer of a step with prompt tokens"),
    RESIDUAL("request", request, "of the first token of a request, beside the steps"),
    END
};
#undef RESIDUAL
#undef D

static const struct kvt_rule root_rules[] = {
    ROW(TEXT, "title", K, title, "free text, repeated in reports"),
    SECTION("model", offsetof(K, model), model_rules, "the model that is served: a name, or a map",
            .flags = KVT_REQUIRED | KVT_NEED_ONE, .shorthand = "name",
            .where = KVT_AT(K, model.where)),
    ROW(NAME, "engine", K, engine, "whose accounting and scheduling is followed",
        .standard = "sglang", SET_OF(kvt_engine_names)),
    SECTION("fleet", 0, fleet_rules, "the replicas: serve, or prefill and decode",
            .flags = KVT_REQUIRED),
    SECTION("workload", offsetof(K, workload), workload_rules, "the requests; `capacity` needs "
            "none", .flags = KVT_NEED_ONE, .where = KVT_AT(K, workload.where)),
    SECTION("slo", offsetof(K, slo), slo_rules, "what latency must meet: percentiles and means, "
            "judged apart"),
    ROW(NAMED, "cost", K, cost, "price of a GPU by its name", .dimension = KVT_DIMENSION_PRICE,
        .max = KVT_USD_PER_H_MAX),
    ROW(NAMED_TEXT, "calibration", K, calibration, "calibration of a GPU by its name: a shipped "
        "name or a path; unset: the one that fits GPU and engine"),
    SECTION("residual", offsetof(K, residual), residual_rules, "time that the calibration lacks, "
            "fitted to measured servers (reproduce --serving --fit); added to its laws"),
    SECTION("run", offsetof(K, run), run_rules, "what is run"),
    SECTION("plan", offsetof(K, plan), plan_rules, "how `plan` searches the domains"),
    SECTION("faults", offsetof(K, faults), faults_rules, "what strikes KV pages, for `inject`; "
            "`simulate`, `sweep` and `plan` take its plan alone",
            .given = KVT_AT(K, faults.present), .where = KVT_AT(K, faults.where)),
    {.key = "published", .kind = KVT_RULE_ROWS, .offset = offsetof(K, published),
     .children = result_rules, .flags = KVT_NEED_ONE,
     .rows = {offsetof(struct kvt_config_published, rows), sizeof(struct kvt_config_result),
              offsetof(struct kvt_config_result, where), KVT_PUBLISHED_MAX},
     .help = "published results that `reproduce` sets beside simulated ones"},
    END
};

const struct kvt_rule kvt_schema = {.key = "", .kind = KVT_RULE_SECTION, .children = root_rules,
                                    .help = "one configuration"};
/* clang-format on */

const struct kvt_rule *kvt_rule_child(const struct kvt_rule *section, const char *key)
{
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

/* Whether word is among words, where - and _ are the same: flags of a command line and keys of a
 * Python call are both in use. */
static bool has_word(const char *words, const char *word)
{
    while (words != NULL && *words != '\0') {
        size_t length = strcspn(words, " "), same = 0;
        while (same < length &&
               (words[same] == word[same] || (words[same] == '_' && word[same] == '-')))
            same++;
        if (same == length && word[same] == '\0')
            return true;
        words += length + (words[length] == ' ');
    }
    return false;
}

bool kvt_rule_alias(const struct kvt_rule *section, const char *alias, char *out, size_t size_bytes)
{
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++) {
        char below[KVT_PATH_BYTES];
        if (has_word(child->aliases, alias)) {
            snprintf(out, size_bytes, "%s", child->key);
            return true;
        }
        if (child->kind != KVT_RULE_SECTION || !kvt_rule_alias(child, alias, below, sizeof below))
            continue;
        snprintf(out, size_bytes, "%.40s.%.100s", child->key, below);
        return true;
    }
    return false;
}
