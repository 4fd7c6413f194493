/*
 * step.h - a step is the list of its kernels
 *
 * kvt_step_list writes down what one GPU runs in one step: every kernel with its shape, how often
 * it runs, its time by the calibration, its bytes and FLOPs, and the law it rests on. The time of
 * a step is the sum, or the host floor when that is longer. The fullest rank sets it: it holds its
 * share of the batch, rounded up, with contexts of average length.
 *
 *   layer = attention block + MLP block + what is not listed (layer-*)
 *   MLA      q_a+kv_a, q_b, absorbed q and v, attention, o_proj; in prefill kv_b and attention over
 *            the expanded latent instead of the absorbed pair
 *   sparse   decode: one module (projections, indexer, attention); prefill: its parts
 *   GQA      qkv, attention, o_proj; an all-reduce of the norms of q and k where they span all
 *            heads
 *   dense    gate_up, down
 *   MoE      router, shared experts, routed experts
 *
 *   layout         tokens a rank attends for   tokens in the MoE   communication per layer
 *   TP, TP + EP    all                         all                 2 all-reduce
 *   DP attention   all / dp                    all                 all-gather, reduce-scatter
 *   PP             as above for 1/pp of the decode batch (pp microbatches keep the stages busy),
 *                  summed over all stages; prompts whole, summed over all stages
 *   DCP            context / dcp, heads x dcp, and an exchange of q and of the result
 *
 * With DeepEP every rank keeps its own tokens: router and whole shared experts run on those of the
 * rank, dispatch and combine take the place of what the MoE layers exchange above, in the
 * low-latency form for decode steps and in the other one for steps with prompt tokens. Where ranks
 * attend together (tp > dp), they share the tokens out by a reduce-scatter and gather them again.
 *
 * Experts hit by m tokens: E(m) = experts*(1-(1-topk/experts)^m) when routing is uniform, and
 * E' = topk + skew*(E - topk) when it is not; skew goes to 1 between 64 and 512 tokens, where every
 * expert is hit whatever the skew. Under expert parallelism the rank that holds most of them sets
 * the time (kvt_experts_fullest). Speculative decoding verifies draft_tokens + 1 tokens a request
 * and runs the draft layer and lm_head once per drafted token.
 *
 * Not modelled: padding of the batch to a captured graph size, prompts' ends within a chunk (the
 * chunk attends as one), reading of cached prefixes through kv_b.
 */
#ifndef KVT_COST_STEP_H
#define KVT_COST_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/names.h"
#include "sim/base/status.h"
#include "sim/cost/calibration.h"
#include "sim/model/layout.h"
#include "sim/model/model.h"

/* Work of guards, on every GPU that holds the page. Tags are compared page by page; a tag in band
 * lies in each layer's slab of the page. A digest or canary record is kept for each token, written
 * when the token is and read by every look at it. A check that is made once for a request is one
 * call for all requests that take their first step together: of a batch, its size over the tokens
 * of a mean output, so many calls a step, over pages of their share of the context. */
struct kvt_step_guards {
    double tag_looks; /* of a step; 0: one, when there are tags */
    double once;      /* checks are made once for a request of so many steps; 0: as looks say */
    bool tag_inband;
    bool tag_tail;       /* only pages that the step appends to */
    bool digest;         /* digests are kept */
    double digest_looks; /* of a step */
    bool canary;
    double canary_looks;
    bool zero; /* pages are zeroed when they are freed */
};

/* How a role runs its model: what a config's role says, without its scheduler. The dtype of each
 * matrix is the model's (kvt_model_quantise before for another one). */
struct kvt_step_shape {
    enum kvt_engine engine; /* whose KV layout "fp8" means */
    enum kvt_kv_dtype kv;
    struct kvt_layout layout;
    enum kvt_moe_a2a moe_a2a; /* deepep: layout.ep is layout.tp */
    int32_t draft_tokens;     /* speculative decoding: tokens drafted a step; 0 */
    int32_t tag_page_tokens;  /* page tags are checked each step, a page has this many tokens; 0 */
    struct kvt_step_guards guards; /* what else guards do in each step */
    double host_floor;             /* s, of a decode step; <= 0: what the calibration says */
    double skew; /* 1 routes as kernel tables do; < 0: what the calibration says */
    bool own; /* as kvtwin's own runtime runs it: MLA absorbed for prompts too, over the pages, and
               * elementwise kernels of decode steps listed as well */
};

/* What a step holds, over the whole replica. */
struct kvt_step_work {
    double decodes;       /* requests that decode */
    double context;       /* sum of their contexts */
    double windowed;      /* sum of min(context, window) */
    double prompt_tokens; /* new prompt tokens */
    double pairs;         /* query-key pairs of the prompt tokens (costs.h) */
    double prompt_ends;   /* prompts that end: rows of lm_head */
    double freed;         /* tokens whose pages went back since the last step: zeroed, if a guard
                           * does so */
};

#define KVT_STEP_KERNELS_MAX 1280

struct kvt_kernel {
    const char *name;
    int32_t group;       /* the first layer group it stands for; -1: once a step */
    bool by_context;     /* its time depends on the contexts */
    double count;        /* calls in the step */
    double time;         /* s, of one call */
    double bytes, flops; /* of one call */
    enum kvt_limit limit;
    const struct kvt_law *law;
    struct kvt_work work;
};

struct kvt_kernel_list {
    int32_t count;
    double kernel_time; /* s: sum of count * time */
    double host_floor;  /* s: host-floor, or host-request for each token that is given out; with
                         * prompt tokens launches of all layers, or the latter */
    double time;        /* s: what the step takes */
    struct kvt_kernel kernels[KVT_STEP_KERNELS_MAX];
};

enum kvt_step_part { KVT_STEP_FIXED = 1, KVT_STEP_BY_CONTEXT = 2, KVT_STEP_WHOLE = 3 };

/* The list of one step; part selects the kernels that do or do not depend on the contexts. Pure but
 * for warnings. About 0.1 us a kernel. */
void kvt_step_list(struct kvt_kernel_list *step, const struct kvt_model *model,
                   const struct kvt_step_shape *shape, const struct kvt_calibration *calibration,
                   const struct kvt_step_work *work, enum kvt_step_part part);

/* Seconds of a family of the host (host-*, request, prefill-step), whose laws may depend on ranks,
 * hidden and experts (the most that a layer has; 0: dense) of the model; and the law, with the work
 * that chose it. */
const struct kvt_law *kvt_step_constant_law(const struct kvt_model *model,
                                            const struct kvt_step_shape *shape,
                                            const struct kvt_calibration *calibration,
                                            enum kvt_family family, struct kvt_work *work);
double kvt_step_constant(const struct kvt_model *model, const struct kvt_step_shape *shape,
                         const struct kvt_calibration *calibration, enum kvt_family family);

/* Seconds that a host needs to launch all layers of a step with prompt tokens: the prefill-layer
 * law of each layer, which may depend on ranks, hidden, experts (0: dense), heads and kv_heads (1:
 * MLA) of the model. */
double kvt_step_prefill_floor(const struct kvt_model *model, const struct kvt_step_shape *shape,
                              const struct kvt_calibration *calibration);

/* Sizes divide (kvt_layout_check), this KV dtype exists for this model, and so does its draft. */
enum kvt_status kvt_step_check(const struct kvt_model *model, const struct kvt_step_shape *shape,
                               struct kvt_err *err);

/* Bytes of KV that one GPU holds of a token that its rank serves, over its layers. */
double kvt_step_token_bytes(const struct kvt_model *model, const struct kvt_step_shape *shape);

/* Distinct experts that tokens tokens hit. */
double kvt_experts_hit(double experts, double topk, double tokens, double skew);

/* Of `hit` distinct experts, how many the fullest of `ranks` ranks holds on average, when each
 * holds experts/ranks of them: hypergeometric on one rank, and the largest of `ranks` such draws
 * taken as normal (Blom's approximation). hit / ranks once all are hit. */
double kvt_experts_fullest(double experts, double hit, double ranks);

/* The window of the model's windowed or sparse layers (the widest), 0 when there are none. */
int32_t kvt_step_window(const struct kvt_model *model);

/* The list as a table, and as one JSON object (KVT_ENOMEM). */
void kvt_step_print(const struct kvt_kernel_list *step, const struct kvt_calibration *calibration,
                    FILE *out);
enum kvt_status kvt_step_json(const struct kvt_kernel_list *step,
                              const struct kvt_calibration *calibration, FILE *out,
                              struct kvt_err *err);

#endif
