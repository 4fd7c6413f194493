/*
 * memory.h - the ledger: what every byte of a GPU is for
 *
 * The two engines size their KV pool in opposite ways:
 *
 *   sglang   pool = free_after_weights - free_before_weights * (1 - fraction)
 *            Nothing is measured: activations and graphs must fit into what the fraction leaves.
 *   vllm     pool = usable * fraction - weights - profiled activation peak - other
 *            The peak is that of a dummy step of the largest batch; graphs come on top, unseen.
 *   (trtllm) pool = free_after_weights * fraction, for tables of start-up logs only
 *
 * The entries add up to the visible memory of the GPU exactly (kvt_memory_is_balanced). An entry
 * may be negative only for KVT_LEDGER_FREE: then the replica would run out while it serves, which
 * sglang's old charge for sparse fp8 attention can cause.
 *
 * Guards take memory beside the pool (per page and per request slot); page 0 is the padding page.
 */
#ifndef KVT_SERVE_MEMORY_H
#define KVT_SERVE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/model/gpu.h"
#include "sim/model/kv.h"
#include "sim/model/weights.h"

struct kvt_memory_want {
    const struct kvt_model *model;
    const struct kvt_gpu *gpu;
    enum kvt_engine engine;
    enum kvt_role role;
    int32_t version; /* vllm: minor of 0.minor (0.12 -> 12); sglang: 1 once it charges what it
                        stores (mid-July 2026); 0: not said */
    struct kvt_layout layout;
    bool weights_set;
    enum kvt_weight_dtype weights;
    enum kvt_kv_dtype kv;
    double fraction;             /* < 0: the engine's default */
    double reserve_bytes;        /* kept away from the pool besides */
    int64_t page_tokens;         /* <= 0: the engine's default for this model */
    int64_t max_model_len;       /* <= 0: the model's */
    int64_t batch_tokens;        /* new tokens per step; <= 0: the engine's */
    int64_t max_running;         /* <= 0: the engine's */
    int64_t draft_tokens;        /* > 0: speculative decoding with one MTP/EAGLE layer */
    int64_t pages;               /* > 0: that many pages whatever the memory says */
    int64_t guard_page_bytes;    /* per physical page (20 for tags beside the cache) */
    int64_t guard_token_bytes;   /* per token slot (32 for a canary) */
    int64_t guard_entry_bytes;   /* per expected page of a request slot (24) */
    int64_t guard_request_bytes; /* per request slot (16) */
    bool of_free;                /* the fraction is of what is free after weights (TensorRT-LLM) */
    bool eager;                  /* no CUDA graphs */
    struct kvt_where where;      /* of the role, for messages */
};

/* clang-format off */
#define KVT_LEDGER(X)                                                                       \
    X(DRIVER,     "driver")          /* visible - usable */                                  \
    X(CONTEXT,    "context")         /* CUDA context, NCCL */                                \
    X(WEIGHTS,    "weights")         /* of one rank, MTP included when drafting */           \
    X(ACTIVATION, "activations")     /* peak of one step */                                  \
    X(GRAPHS,     "cuda graphs")                                                             \
    X(OTHER,      "other")           /* request table, rope table, allocator's rest */       \
    X(KV,         "kv pool")         /* pages as stored */                                   \
    X(PADDING,    "padding page")                                                            \
    X(TAGS,       "tags")            /* of guards */                                         \
    X(ROUNDING,   "page rounding")   /* less than a page */                                  \
    X(RESERVE,    "reserve")         /* what the config keeps away */                        \
    X(FREE,       "free")
/* clang-format on */
#define X(name, text) KVT_LEDGER_##name,
enum kvt_ledger_entry { KVT_LEDGER(X) KVT_LEDGER_COUNT };
#undef X
extern const char *const kvt_ledger_names[KVT_LEDGER_COUNT];

struct kvt_memory {
    double fraction;       /* used: given, or the engine's default */
    int64_t visible_bytes; /* of the GPU: the sum of the ledger */
    int64_t before_bytes;  /* what the fraction applies to */
    int64_t ledger[KVT_LEDGER_COUNT];
    struct kvt_weights weights; /* by group */
    int64_t weights_bytes;      /* per GPU, as in the ledger */
    int64_t checkpoint_bytes;
    struct kvt_kv_slot slot;   /* bytes per token slot: stored and charged */
    double kv_bytes_per_token; /* per GPU: stored / dcp */
    double charged_bytes_per_token;
    int64_t budget_bytes;      /* what the engine's rule leaves for pages; may be negative */
    int64_t kv_pool_bytes;     /* per GPU, as stored: kv_pages * page_tokens * stored / dcp */
    int64_t page_tokens;       /* tokens of a page (over its dcp GPUs together) */
    int64_t kv_pages;          /* per attention-DP rank, the padding page not counted */
    int64_t kv_tokens;         /* per attention-DP rank: kv_pages * page_tokens */
    int64_t replica_kv_tokens; /* kv_tokens * dp */
    int32_t gpus_per_replica;
    int64_t max_running; /* request slots per attention-DP rank */
    int64_t batch_tokens;
    int64_t max_model_len;
    enum kvt_kv_dtype kv; /* fp8 resolved to fp8-plain or fp8-scaled for MLA */
};

/* Fill *memory. When not even one page fits the status is KVT_ECONFIG, the message says by how much
 * and what would fit (a fraction, a TP, a dtype), and *memory holds the ledger with an empty pool
 * and the negative rest in FREE. */
enum kvt_status kvt_memory_plan(const struct kvt_memory_want *want, struct kvt_memory *memory,
                                struct kvt_err *err);

bool kvt_memory_is_balanced(const struct kvt_memory *memory);

/* SGLang's default memory fraction (server_args.py, mid-July 2026). */
double kvt_sglang_default_fraction(const struct kvt_memory_want *want);

/* Requests of `context` tokens that the pool of one attention-DP rank holds at once. */
int64_t kvt_memory_requests(const struct kvt_memory *memory, int64_t context);

#endif
