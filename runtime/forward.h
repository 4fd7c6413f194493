/*
 * forward.h - one step of a model: its kernels, in order, over real pages
 *
 * A step is a list of rows; a row is one token of one request at a position of its text. A request
 * that decodes has one row, a prompt chunk one row a token. For every layer the rows' K and V are
 * written into their pages and each row attends to the tokens before it and itself:
 *
 *     x = embedding(token)
 *     per layer   h = norm(x); qkv; rope; append to the pages; attention; o; x += .
 *                 h = norm(x); gate_up, silu, down (or router, routed experts, shared); x += .
 *     rows whose next token is wanted: norm, lm_head, argmax
 *
 * MLA runs absorbed for prompts too: every row's query goes to the latent space and attends over
 * the pages. What runs is what kvt_step_list writes down for a shape with `absorbed` (sim/cost/
 * step.h), kernel by kernel.
 *
 * Memory is taken once, for the largest step; nothing allocates in a step. The time of each part of
 * a step is kept (spent): by the clock on a device with host memory, by marks in the stream
 * elsewhere, where the rows are sent to the device first.
 */
#ifndef KVT_RUNTIME_FORWARD_H
#define KVT_RUNTIME_FORWARD_H

#include "runtime/mirror.h"
#include "runtime/pool.h"
#include "runtime/weights.h"

/* Parts of a step whose time is kept, the kernels of kvt_step_list that they are, and which of the
 * factors of a prediction each has. */
/* clang-format off */
#define KVT_PARTS(X)                                                                     \
    X(QKV,         "qkv",         GEMM)      /* MLA: q_a + kv_a, or q + kv_a */            \
    X(Q_B,         "q_b",         GEMM)                                                   \
    X(O,           "o_proj",      GEMM)                                                   \
    X(GATE_UP,     "gate_up",     GEMM)                                                   \
    X(DOWN,        "down",        GEMM)                                                   \
    X(ROUTER,      "router",      GEMM)                                                   \
    X(SHARED_UP,   "shared gate_up", GEMM)                                                \
    X(SHARED_DOWN, "shared down", GEMM)                                                   \
    X(HEAD,        "lm_head",     GEMM)                                                   \
    X(EXPERTS,     "routed experts", EXPERTS)                                             \
    X(DECODE,      "decode attention", DECODE)   /* of a step whose rows all decode */     \
    X(PREFILL,     "prefill attention", PREFILL) /* of a step with prompt rows */          \
    X(BMM,         "absorbed q, v", BMM)                                                  \
    X(SMALL,       "small kernels", SMALL)   /* norms, rope, append, silu, copies, argmax */
#define KVT_FACTORS(X)                                                                   \
    X(GEMM, "gemm") X(EXPERTS, "experts") X(DECODE, "decode") X(PREFILL, "prefill")       \
    X(BMM, "mla-bmm") X(SMALL, "small")
/* clang-format on */
#define X(name, text, factor) KVT_PART_##name,
enum kvt_kernel_part { KVT_PARTS(X) KVT_PART_COUNT };
#undef X
#define X(name, text) KVT_FACTOR_##name,
enum kvt_factor { KVT_FACTORS(X) KVT_FACTOR_COUNT };
#undef X
extern const char *const kvt_factor_names[KVT_FACTOR_COUNT];
extern const enum kvt_factor kvt_part_factors[KVT_PART_COUNT];

/* The rows of a step, in host memory. Arrays have room for rows_max rows and table_max page ids. */
struct kvt_rows {
    int32_t rows_max, table_max;
    int32_t rows, prompt_rows, outputs, table_size;
    int32_t *token, *position;    /* [rows] */
    int32_t *context, *row_pages; /* [rows] position + 1; where its list starts in page_table */
    int64_t *slot;                /* [rows] where its KV goes (kv_append.h) */
    uint64_t *stamp;              /* [rows] the tag of that page */
    int32_t *page_table;          /* [table_size] pages in memory */
    int32_t *output_row;          /* [outputs] rows whose next token is wanted */
    int32_t *next;                /* [outputs] those tokens */
    struct kvt_mirror mirror;     /* has all of the above */
};

enum kvt_status kvt_rows_init(struct kvt_rows *rows, struct kvt_device *device, int32_t rows_max,
                              int32_t table_max, struct kvt_err *err);
void kvt_rows_release(struct kvt_rows *rows);

struct kvt_forward {
    struct kvt_device *device; /* borrowed, as the two below */
    const struct kvt_model_weights *w;
    struct kvt_kv_pool *pool;
    int32_t rows_max, topk_rows; /* rows_max * topk */
    float plain_scale, scale;
    float *x;                          /* device, as all below: [rows][hidden], the residual */
    kvt_bf16 *y, *h;                   /* [rows][hidden] */
    kvt_bf16 *wide, *narrow;           /* [rows][widest output], [rows][widest input] */
    kvt_bf16 *q, *key, *value, *mixed; /* attention: queries, new K and V, result */
    kvt_bf16 *head_in, *head_out;      /* MLA: one head of all rows */
    float *zero;                       /* [rows][q_lora or 512]: norms of what is no residual */
    kvt_bf16 *routed, *routed_wide, *routed_out; /* [rows topk][...] */
    float *chosen;           /* [outputs_max][hidden]: the residual of rows whose token is wanted */
    kvt_bf16 *logits;        /* [outputs_max][vocab] */
    int32_t *next;           /* [outputs_max] */
    int32_t *poisoned_there; /* the count below */
    int32_t outputs_max;
    struct kvt_split split, split_there; /* planned on the host; as kernels see it */
    struct kvt_mirror split_memory;
    void *workspace;             /* device */
    struct kvt_routing *routing; /* owned, host */
    int32_t poisoned;            /* tokens with NaN or infinity written so far */
    int64_t sizes[24];           /* of what was taken, for giving it back */
    void **pieces[24];
    int32_t piece_count;
    double spent[KVT_PART_COUNT]; /* s, of the last step */
    double begun;
    int32_t marks;                       /* set since they were last read; not on host devices */
    uint8_t mark_part[KVT_DEVICE_MARKS]; /* what ended at each */
    struct kvt_err failure;              /* of this step, heard of before its end */
};

/* Memory for steps of up to rows_max rows of which up to outputs_max want a next token. */
enum kvt_status kvt_forward_init(struct kvt_forward *forward, struct kvt_kv_pool *pool,
                                 const struct kvt_model_weights *weights, int32_t rows_max,
                                 int32_t outputs_max, struct kvt_err *err);
void kvt_forward_release(struct kvt_forward *forward);

/* Run one step; rows->next is filled when it returns. Each page's content is stamped with the rows'
 * stamps. KVT_EDEVICE. */
enum kvt_status kvt_forward_step(struct kvt_forward *forward, struct kvt_rows *rows,
                                 struct kvt_err *err);

/* ---- moe.c ---------------------------------------------------------------------------------- */

struct kvt_routing {
    struct kvt_mirror mirror; /* has row_begin, row, place and share */
    int32_t *row_begin;       /* [experts + 1] */
    int32_t *row;             /* [rows topk] in the order of experts: which row of the step */
    int32_t *place;           /* [rows][topk] where in that order, ascending */
    float *share;             /* [rows][topk], of place */
    int32_t *choice;          /* [rows][topk] */
    float *weight;            /* [rows][topk], of choice */
    kvt_bf16 *logits;         /* [rows][experts]; NULL on a host device */
};

/* The MLP block of a layer with routed experts: y = what is added to the residual. */
void kvt_forward_moe(struct kvt_forward *forward, const struct kvt_layer_weights *layer,
                     int32_t rows);

/* Wait in the midst of a step: what was copied to the host is there. */
void kvt_forward_wait(struct kvt_forward *forward);

/* Add the time since the last call to a part. */
void kvt_forward_spend(struct kvt_forward *forward, enum kvt_kernel_part part);

#endif
