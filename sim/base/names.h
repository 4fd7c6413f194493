/*
 * names.h - the closed sets of names that configs use and several parts of the program share
 *
 * Each set is one X-macro of (constant, name in configs): the enum, the parser's table and the
 * messages come from it.
 */
#ifndef KVT_BASE_NAMES_H
#define KVT_BASE_NAMES_H

#include <stdint.h>

/* clang-format off */
/* Weights. int4 and the 4-bit floats quantise the groups of a model that its checkpoint quantises
 * (routed experts of Kimi's recipe); the rest stays bf16. */
#define KVT_WEIGHT_DTYPES(X)          \
    X(BF16,      "bf16")              \
    X(FP8,       "fp8")               /* e4m3, one scale a tensor */ \
    X(FP8_BLOCK, "fp8-block")         /* e4m3, one fp32 scale a 128x128 block */ \
    X(INT4_G32,  "int4-g32")          /* 4 bit + one bf16 scale per 32: 4.5 bit */ \
    X(INT4_G128, "int4-g128")         /* 4.125 bit */ \
    X(NVFP4,     "nvfp4")             /* e2m1 + one fp8 scale per 16: 4.5 bit */ \
    X(MXFP4,     "mxfp4")             /* e2m1 + one 8-bit scale per 32: 4.25 bit */

/* KV cache. fp8 is the engine's default layout. */
#define KVT_KV_DTYPES(X)              \
    X(BF16,       "bf16")             \
    X(FP8,        "fp8")              \
    X(FP8_PLAIN,  "fp8-plain")        /* 1 byte a value, scales outside the pages */ \
    X(FP8_SCALED, "fp8-scaled")       /* MLA: 656 bytes a token and layer; GQA: + scales */ \
    X(NVFP4,      "nvfp4")            /* 1/2 byte a value + one scale byte per 16 */

/* What the cheapest fleet is cheapest in. */
#define KVT_OBJECTIVES(X)             \
    X(USD_PER_H,    "usd-per-h")      \
    X(GPUS,         "gpus")           \
    X(USD_PER_MTOK, "usd-per-mtok")

#define KVT_ENGINES(X) X(SGLANG, "sglang") X(VLLM, "vllm")

#define KVT_ROLES(X) X(PREFILL, "prefill") X(DECODE, "decode") X(SERVE, "serve")

/* How tokens reach the ranks that hold their experts. */
#define KVT_MOE_A2AS(X)               \
    X(NONE,   "none")                 /* all ranks see all tokens */ \
    X(DEEPEP, "deepep")               /* dispatch to the experts chosen, and combine */

#define KVT_FREE_ORDERS(X) X(LIFO, "lifo") X(FIFO, "fifo")

#define KVT_ROUTERS(X)                \
    X(ROUND_ROBIN,  "round-robin")    \
    X(LEAST_TOKENS, "least-tokens")   \
    X(PREFIX_AWARE, "prefix-aware")

#define KVT_STREAMS(X)                \
    X(WHOLE,    "whole")              /* after the last chunk */ \
    X(BY_CHUNK, "by-chunk")           \
    X(BY_LAYER, "by-layer")

#define KVT_LINK_SCOPES(X) X(GPU, "gpu") X(REPLICA, "replica") X(FLEET, "fleet")

/* How lengths of prompts and outputs are drawn, and gaps between arrivals (trace/generate.h). */
#define KVT_LENGTHS(X) X(FIXED) X(UNIFORM) X(LOGNORMAL) X(EMPIRICAL)
#define KVT_GAPS(X)    X(POISSON) X(GAMMA) X(WEIBULL) X(ON_OFF) X(CONSTANT)

/* Protection of KV pages; they combine. X(name, text, keys, looks, help): keys of its section in a
 * config (schema.c: keys_rules); whether it compares what a step is about to read. */
#define KVT_GUARDS(X) \
    X(NONE,          "none", no, 0, "no guard at all; stands alone") \
    X(FIFO,          "fifo", no, 0, "free pages are reused oldest first") \
    X(ZERO_ON_FREE,  "zero-on-free", no, 0, "freed pages are zeroed") \
    X(DEFERRED_FREE, "deferred-free", no, 0, "pages are freed once no step or transfer uses them") \
    X(LEASE,         "lease", lease, 0, "remote readers hold pages for a bounded time") \
    X(REQUEST_ID,    "request-id", no, 0, "messages name the request they are meant for") \
    X(TAG_SIDE,      "tag-side", tag, 1, "a tag per page in an array beside the pages") \
    X(TAG_INBAND,    "tag-inband", tag, 1, "a tag inside each page, moved with its bytes") \
    X(DIGEST,        "digest", check, 1, "a checksum of each page's bytes") \
    X(CANARY,        "canary", check, 1, "a record per token that chains token and position") \
    X(QUARANTINE,    "quarantine", no, 0, "a page that failed a check is never used again")

/* When tags and digests are compared. */
#define KVT_CHECKS(X)                  \
    X(ONCE,         "once")            /* at a request's first step */ \
    X(BEFORE_READ,  "before-read")     /* of every step */ \
    X(BEFORE_WRITE, "before-write")    /* of the page that a step appends to */ \
    X(AFTER_STEP,   "after-step")      /* before its tokens are released */ \
    X(SAMPLED,      "sampled")         /* before some steps */

/* What is done with a request whose page failed a check. */
#define KVT_ON_HITS(X)                \
    X(ABORT,     "abort")              \
    X(RECOMPUTE, "recompute")          /* its KV, from the prompt and what is out so far */ \
    X(REFETCH,   "refetch")            /* transfer it again where the sender still holds it */

/* What a tag is made of. */
#define KVT_BINDS(X) \
    X(OWNER, "owner")                  \
    X(POSITION, "position")            \
    X(GENERATION, "generation")        \
    X(INCARNATION, "incarnation")

/* What a rate of faults counts. The first three are per time, the others shares. */
#define KVT_RATE_BASES(X)              \
    X(HOUR,     "hour")                /* of one replica */ \
    X(GPU_HOUR, "gpu-hour")            \
    X(GB_HOUR,  "gb-hour")             /* of KV memory; GB = 1e9 bytes */ \
    X(TRANSFER, "transfer")            /* from prefill to decode */ \
    X(ABORT,    "abort")               /* of a client that may go away */

/* How the values of a generation tag follow each other. */
#define KVT_TAG_ORDERS(X) X(COUNTER, "counter") X(RANDOM, "random")

/* What can go wrong with KV pages (sim/fault/kinds.h): class, its name, and whether a strike waits
 * for an event that fits. */
#define KVT_FAULTS(X)                          \
    X(NONE,             "none",              false) \
    X(STALE_READER,     "stale-reader",      false) \
    X(PREMATURE_FREE,   "premature-free",    true) \
    X(LATE_WRITE,       "late-write",        true) \
    X(WRONG_MAP,        "wrong-map",         false) \
    X(PREFIX_POISON,    "prefix-poison",     false) \
    X(DOUBLE_FREE,      "double-free",       true) \
    X(LEAK,             "leak",              false) \
    X(PARTIAL_TRANSFER, "partial-transfer",  true) \
    X(MESSAGE_FAULT,    "message-fault",     true) \
    X(RESIDUE,          "residue",           true) \
    X(BIT_FLIP,         "bit-flip",          false) \
    X(NODE_FAULT,       "node-fault",        false) \
    X(LIVENESS,         "liveness",          false) \
    X(FALSE_ALARM,      "false-alarm",       false)

/* How a strike ends. Every injected one ends in exactly one way. */
#define KVT_FAULT_OUTCOMES(X)                                                                  \
    X(MASKED,   "masked")              /* no target, prevented, or overwritten before a read */ \
    X(DETECTED, "detected")            /* a guard fired on it, before or after tokens leaked */ \
    X(ESCAPED,  "escaped")             /* tokens from wrong bytes went out, nothing fired */    \
    X(HARMLESS, "undetected_harmless") /* still there at the end, nobody was hurt */            \
    X(HUNG,     "hung")                /* a request waits for ever */                           \
    X(CRASHED,  "crashed")             /* requests were lost with their node */
/* clang-format on */

#define X(name, text) KVT_WEIGHTS_##name,
enum kvt_weight_dtype { KVT_WEIGHT_DTYPES(X) KVT_WEIGHT_DTYPE_COUNT };
#undef X
#define X(name, text) KVT_KV_##name,
enum kvt_kv_dtype { KVT_KV_DTYPES(X) KVT_KV_DTYPE_COUNT };
#undef X
#define X(name, text) KVT_ENGINE_##name,
enum kvt_engine { KVT_ENGINES(X) KVT_ENGINE_COUNT };
#undef X
#define X(name, text) KVT_ROLE_##name,
enum kvt_role { KVT_ROLES(X) KVT_ROLE_COUNT };
#undef X
#define X(name, text) KVT_MOE_A2A_##name,
enum kvt_moe_a2a { KVT_MOE_A2AS(X) KVT_MOE_A2A_COUNT };
#undef X
#define X(name, text) KVT_FREE_##name,
enum kvt_free_order { KVT_FREE_ORDERS(X) KVT_FREE_ORDER_COUNT };
#undef X
#define X(name, text) KVT_ROUTER_##name,
enum kvt_router { KVT_ROUTERS(X) KVT_ROUTER_COUNT };
#undef X
#define X(name, text) KVT_OBJECTIVE_##name,
enum kvt_objective { KVT_OBJECTIVES(X) KVT_OBJECTIVE_COUNT };
#undef X
#define X(name, text) KVT_STREAM_##name,
enum kvt_stream_mode { KVT_STREAMS(X) KVT_STREAM_COUNT };
#undef X
#define X(name, text) KVT_LINK_PER_##name,
enum kvt_link_scope { KVT_LINK_SCOPES(X) KVT_LINK_SCOPE_COUNT };
#undef X

#define X(name) KVT_LENGTHS_##name,
enum kvt_lengths_kind { KVT_LENGTHS(X) };
#undef X
#define X(name) KVT_GAPS_##name,
enum kvt_gaps_kind { KVT_GAPS(X) };
#undef X
#define X(name, text, keys, looks, help) KVT_GUARD_##name,
enum kvt_guard_kind { KVT_GUARDS(X) KVT_GUARD_COUNT };
#undef X
#define X(name, text, keys, looks, help) | ((looks) ? 1 << KVT_GUARD_##name : 0)
enum { KVT_GUARDS_LOOK = 0 KVT_GUARDS(X) }; /* bits of those that look */
#undef X
#define X(name, text) KVT_CHECK_##name,
enum kvt_guard_check { KVT_CHECKS(X) KVT_CHECK_COUNT };
#undef X
#define X(name, text) KVT_ON_HIT_##name,
enum kvt_on_hit { KVT_ON_HITS(X) KVT_ON_HIT_COUNT };
#undef X
/* Each is one bit. */
enum kvt_guard_bind {
    KVT_BIND_OWNER = 1,
    KVT_BIND_POSITION = 2,
    KVT_BIND_GENERATION = 4,
    KVT_BIND_INCARNATION = 8
};
#define KVT_BIND_COUNT 4
#define X(name, text)  KVT_RATE_##name,
enum kvt_rate_basis { KVT_RATE_BASES(X) KVT_RATE_COUNT };
#undef X
#define X(name, text) KVT_TAG_##name,
enum kvt_tag_order { KVT_TAG_ORDERS(X) KVT_TAG_ORDER_COUNT };
#undef X
#define X(name, text, armed) KVT_FAULT_##name,
enum kvt_fault_kind { KVT_FAULTS(X) KVT_FAULT_COUNT };
#undef X
#define X(name, text) KVT_OUTCOME_##name,
enum kvt_fault_outcome { KVT_FAULT_OUTCOMES(X) KVT_OUTCOME_COUNT };
#undef X

extern const char *const kvt_weight_dtype_names[KVT_WEIGHT_DTYPE_COUNT];
extern const char *const kvt_kv_dtype_names[KVT_KV_DTYPE_COUNT];
extern const char *const kvt_objective_names[KVT_OBJECTIVE_COUNT];
extern const char *const kvt_engine_names[KVT_ENGINE_COUNT];
extern const char *const kvt_role_names[KVT_ROLE_COUNT];
extern const char *const kvt_moe_a2a_names[KVT_MOE_A2A_COUNT];
extern const char *const kvt_free_order_names[KVT_FREE_ORDER_COUNT];
extern const char *const kvt_router_names[KVT_ROUTER_COUNT];
extern const char *const kvt_stream_names[KVT_STREAM_COUNT];
extern const char *const kvt_link_scope_names[KVT_LINK_SCOPE_COUNT];
extern const char *const kvt_guard_names[KVT_GUARD_COUNT];
extern const char *const kvt_check_names[KVT_CHECK_COUNT];
extern const char *const kvt_on_hit_names[KVT_ON_HIT_COUNT];
extern const char *const kvt_rate_names[KVT_RATE_COUNT];
extern const char *const kvt_bind_names[KVT_BIND_COUNT];
extern const char *const kvt_tag_order_names[KVT_TAG_ORDER_COUNT];
extern const char *const kvt_fault_names[KVT_FAULT_COUNT];
extern const char *const kvt_outcome_names[KVT_OUTCOME_COUNT];

#endif
