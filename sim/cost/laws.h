/*
 * laws.h - how long one kernel takes: a few physical forms, and what they need to know
 *
 * A family is a kind of kernel in one dtype (a dense GEMM in bf16, MLA decode over fp8 KV ...). A
 * law is a form with parameters that gives the time of one call of one family; a calibration
 * (calibration.h) is a list of laws. With pnorm(a, b) = (a^p + b^p)^(1/p) the forms are
 *
 *   constant  t0
 *   roofline  t0 + serial*k + pnorm(bytes/bandwidth, flops/flops_rate)
 *             serial: each k-step of a GEMM waits for the one before, however few the tiles.
 *             pad: rows of a tile that an expert wastes; adds min(flops, pad * tile_flops).
 *             skew: of routed experts, instead of the calibration's.
 *   decode    t0 + (context + batch*tokens) * pnorm(bytes/bandwidth, flops/flops_rate of a token)
 *                + split * s/(s + split_tokens),  s = context/batch
 *             tokens: fixed cost of a request, counted in tokens of context; split: the second
 *             kernel that merges the pieces of a sequence cut over many SMs. Exactly linear in the
 *             context but for the split term.
 *   sparse    as decode, with t0 given at batch knots (it holds the module's projections), bytes of
 *             a token read inside the window only, and index_bandwidth for the indexer's scan
 *   buckets   at m knots: time + bytes/rate; linear in log m between them, flat outside. For
 *             kernels whose tiles change with m (int4)
 *   knots     log-log between points of size (bytes of a message); proportional beyond the last
 *
 * Any of them may carry a surface: a factor fitted on a grid of sizes.
 *
 * All times in seconds, rates per second, sizes in bytes and FLOPs of one GPU.
 */
#ifndef KVT_COST_LAWS_H
#define KVT_COST_LAWS_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define KVT_FAMILIES(X)                                                                           \
    X(GEMM_BF16,         "gemm-bf16",         "dense GEMM, bf16 weights")                         \
    X(GEMM_FP8,          "gemm-fp8",          "dense GEMM, fp8 per tensor, with its quantiser")   \
    X(GEMM_FP8_BLOCK,    "gemm-fp8-block",    "dense GEMM, fp8 in 128x128 blocks")                \
    X(GEMM_INT4,         "gemm-int4",         "dense GEMM, int4 weights only")                    \
    X(GEMM_FP4,          "gemm-fp4",          "dense GEMM, nvfp4 or mxfp4")                       \
    X(EXPERTS_BF16,      "experts-bf16",      "routed experts of a layer, bf16")                  \
    X(EXPERTS_FP8,       "experts-fp8",       "routed experts, fp8 per tensor")                   \
    X(EXPERTS_FP8_BLOCK, "experts-fp8-block", "routed experts, fp8 in 128x128 blocks")            \
    X(EXPERTS_INT4,      "experts-int4",      "routed experts, int4 weights only")                \
    X(EXPERTS_FP4,       "experts-fp4",       "routed experts, nvfp4 or mxfp4")                   \
    X(MLA_DECODE_BF16,   "mla-decode-bf16",   "MLA decode attention, bf16 KV")                    \
    X(MLA_DECODE_FP8,    "mla-decode-fp8",    "MLA decode attention, 8-bit KV or less")           \
    X(MLA_BMM,           "mla-bmm",           "absorbed q or v of MLA decode")                    \
    X(MLA_PREFILL,       "mla-prefill",       "MLA prefill attention, latent expanded")           \
    X(GQA_DECODE_BF16,   "gqa-decode-bf16",   "GQA decode attention, bf16 KV")                    \
    X(GQA_DECODE_FP8,    "gqa-decode-fp8",    "GQA decode attention, 8-bit KV or less")           \
    X(GQA_PREFILL,       "gqa-prefill",       "GQA prefill attention")                            \
    X(SPARSE_DECODE_BF16, "sparse-decode-bf16", "sparse attention module with its indexer")       \
    X(SPARSE_DECODE_FP8, "sparse-decode-fp8", "the same over 8-bit KV")                           \
    X(SPARSE_SHARED_BF16, "sparse-shared-bf16", "sparse module that reuses indices")              \
    X(SPARSE_SHARED_FP8, "sparse-shared-fp8", "the same over 8-bit KV")                           \
    X(SPARSE_PREFILL_BF16, "sparse-prefill-bf16", "sparse prefill over the selected tokens")      \
    X(SPARSE_PREFILL_FP8, "sparse-prefill-fp8", "the same over 8-bit KV")                         \
    X(INDEX_PREFILL,     "index-prefill",     "the indexer's scores in prefill")                  \
    X(ALL_REDUCE,        "all-reduce",        "sum over ranks; bytes of the vector")              \
    X(ALL_GATHER,        "all-gather",        "bytes of the gathered vector")                     \
    X(REDUCE_SCATTER,    "reduce-scatter",    "bytes of the vector before the scatter")           \
    X(DISPATCH_LL,       "dispatch-low-latency", "to the experts chosen and back")                \
    X(DISPATCH,          "dispatch",          "the same for many tokens; n: SMs it may use")      \
    X(SEND,              "send",              "activations to the next pipeline stage")           \
    X(TAG_CHECK,         "tag-check",         "page tags against the expected ones, once a step") \
    X(DIGEST,            "digest",            "checksums of KV bytes, by a guard")                \
    X(ELEMENTWISE,       "elementwise",       "norms, activations, residuals of prompt tokens")   \
    X(APPEND,            "append",            "new KV into its pages, where timed by itself")     \
    X(LAYER_MLA_MOE,     "layer-mla-moe",     "small kernels and gaps of a layer not listed")     \
    X(LAYER_MLA_DENSE,   "layer-mla-dense",   "the same")                                         \
    X(LAYER_GQA_MOE,     "layer-gqa-moe",     "the same")                                         \
    X(LAYER_GQA_DENSE,   "layer-gqa-dense",   "the same")                                         \
    X(LAYER_SPARSE,      "layer-sparse",      "the same, where the attention module has norms")   \
    X(HOST_FLOOR,        "host-floor",        "a step takes at least this")                       \
    X(HOST_REQUEST,      "host-request",      "a step takes at least this for each request")      \
    X(HOST_STEP,         "host-step",         "added to a step that is not planned ahead")        \
    X(PREFILL_LAYER,     "prefill-layer",     "launches of a layer in a step with prompt tokens") \
    X(PREFILL_STEP,      "prefill-step",      "added to a step with prompt tokens")               \
    X(REQUEST,           "request",           "before the first token, beside the GPU's work")

#define KVT_LAWS(X) X(CONSTANT, "constant") X(ROOFLINE, "roofline") X(DECODE, "decode") \
                    X(SPARSE, "sparse") X(BUCKETS, "buckets") X(KNOTS, "knots")

/* What a law may depend on or be limited to. Per GPU, except hidden, experts and topk. routing: how
 * tokens choose experts, 1 evenly, 2 by a power law. */
#define KVT_DIMS(X) X(M, "m") X(N, "n") X(K, "k") X(HEADS, "heads") X(KV_HEADS, "kv_heads")       \
                    X(HEAD_DIM, "head_dim") X(HIDDEN, "hidden") X(INTER, "inter")                 \
                    X(EXPERTS, "experts") X(TOPK, "topk") X(RANKS, "ranks")                       \
                    X(WEIGHT_BITS, "weight_bits") X(ROUTING, "routing")
/* clang-format on */

#define X(name, text, help) KVT_FAMILY_##name,
enum kvt_family { KVT_FAMILIES(X) KVT_FAMILY_COUNT };
#undef X
#define X(name, text) KVT_LAW_##name,
enum kvt_law_kind { KVT_LAWS(X) KVT_LAW_KIND_COUNT };
#undef X
#define X(name, text) KVT_DIM_##name,
enum kvt_dim { KVT_DIMS(X) KVT_DIM_COUNT };
#undef X

extern const char *const kvt_family_names[KVT_FAMILY_COUNT];
extern const char *const kvt_law_names[KVT_LAW_KIND_COUNT];
extern const char *const kvt_dim_names[KVT_DIM_COUNT];

#define KVT_LAW_POINTS 24

struct kvt_range {
    double min, max; /* both included; max 0: not limited */
};

struct kvt_surface; /* surface.h */

/* Parameters of a law that rows may tell, by their names in a calibration file. The last of a fit
 * is the first of the times at points. */
/* clang-format off */
#define KVT_PARAMETERS(X)                                                                          \
    X(T0, t0) X(SERIAL, serial) X(BANDWIDTH, bandwidth) X(FLOPS, flops) X(PAD, pad)                \
    X(TOKENS, tokens) X(SPLIT, split) X(SPLIT_TOKENS, split_tokens)                                \
    X(INDEX_BANDWIDTH, index_bandwidth)
/* clang-format on */
#define X(name, member) KVT_PARAMETER_##name,
enum kvt_parameter { KVT_PARAMETERS(X) KVT_PARAMETER_TIME, KVT_PARAMETER_COUNT };
#undef X
extern const char *const kvt_parameter_names[KVT_PARAMETER_COUNT];

struct kvt_law {
    enum kvt_family family;
    enum kvt_law_kind kind;
    double t0, serial;          /* s; s per k */
    double bandwidth, flops, p; /* bytes/s, FLOP/s; 0: that side is free */
    double pad;                 /* roofline: rows of a tile that an expert wastes */
    double skew;                /* roofline: 0: the calibration's */
    double tokens;              /* decode: fixed cost of a request */
    double split, split_tokens; /* s, tokens */
    double index_bandwidth;     /* sparse: bytes/s of the indexer's scan */
    int32_t points;
    double at[KVT_LAW_POINTS];            /* increasing: batch, m or bytes */
    double time[KVT_LAW_POINTS];          /* s */
    double rate[KVT_LAW_POINTS];          /* buckets: bytes/s */
    struct kvt_range when[KVT_DIM_COUNT]; /* the law holds for these only */
    struct kvt_range grid[KVT_DIM_COUNT]; /* where it was fitted */
    struct kvt_surface *surface;          /* multiplies the time; NULL: 1. Owned */
    int64_t error_rows;                   /* rows behind the two below; 0: not stated */
    double error_median, error_mean;      /* of |predicted/measured - 1| */
    double error_p90, repeat_floor;       /* the same; of repeats of one row. 0: not stated */
    struct kvt_unseen {                   /* the same on shapes that took no part in the fit */
        int64_t rows;
        double median, mean, p90;
        double low, high; /* 90 % of measured/predicted lie between */
        double coverage;  /* share of other unseen shapes inside */
    } unseen;
    double scatter; /* 90 % of the true times lie within a factor of 1 + scatter; 0: not stated */
    double scatter_time; /* s; of a constant, instead: within t0 +- scatter_time */
    double plus_minus[KVT_PARAMETER_TIME]; /* half of a 95 % interval, in logarithms (0.02: within
                                            * 2 %); 0: not stated */
    bool held_out;                         /* those rows took no part in the fit */
    bool guess;                            /* not measured here: from the data sheet, or */
    bool published; /* from somebody's figure, of which nobody need be warned */
    int32_t line;   /* in the calibration file */
    char source[400];
};

/* One call of a kernel. */
struct kvt_work {
    double dim[KVT_DIM_COUNT];       /* 0: does not apply */
    double bytes, flops;             /* roofline; bytes are also the size of a message */
    double tile_flops;               /* roofline: of one row on each expert that is hit */
    double batch;                    /* decode, sparse: requests ... */
    double context;                  /* ... the sum of their contexts ... */
    double windowed;                 /* ... and of min(context, window) */
    double token_bytes, token_flops; /* of one token of context */
    double index_bytes;              /* the same for the indexer */
    bool routed; /* experts: the caller says how skewed they are hit, no law's own skew applies */
};

enum kvt_limit {
    KVT_LIMIT_LAUNCH,
    KVT_LIMIT_MEMORY,
    KVT_LIMIT_COMPUTE,
    KVT_LIMIT_LINK,
    KVT_LIMIT_HOST,
    KVT_LIMIT_COUNT
};
extern const char *const kvt_limit_names[KVT_LIMIT_COUNT];

/* layer-*: what is not listed of a layer. It may be below zero: kernels overlap. */
static inline bool kvt_family_is_gap(enum kvt_family family)
{
    return family >= KVT_FAMILY_LAYER_MLA_MOE && family <= KVT_FAMILY_LAYER_SPARSE;
}

static inline bool kvt_family_is_experts(enum kvt_family family)
{
    return family >= KVT_FAMILY_EXPERTS_BF16 && family <= KVT_FAMILY_EXPERTS_FP4;
}

/* Seconds of one call; *limit (may be NULL) is the largest term. Pure; 10 to 60 ns. */
double kvt_law_time(const struct kvt_law *law, const struct kvt_work *work, enum kvt_limit *limit);

/* Whether the law's `when` admits the work, and its skew, where it has one of its own. */
bool kvt_law_admits(const struct kvt_law *law, const struct kvt_work *work);

#endif
