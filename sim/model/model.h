/*
 * model.h - the shape of a transformer: what its memory and its work follow from
 *
 * A model is a few groups of equal layers; a group says how many there are, how they attend and
 * what their MLP is. Everything else (bytes of weights, of KV, FLOPs) is a pure function of this
 * struct, a dtype and a parallel layout: weights.h, kv.h. Numbers are counts of elements, never
 * bytes. What kvtwin cannot model (linear attention, state-space layers) is refused on import.
 */
#ifndef KVT_MODEL_MODEL_H
#define KVT_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/names.h"
#include "sim/base/status.h"

#define KVT_MODEL_GROUPS_MAX 64
#define KVT_MODEL_ALIASES_MAX 24

enum kvt_attention_kind {
    KVT_ATTENTION_NONE, /* a layer without attention (pruned models) */
    KVT_ATTENTION_GQA,  /* also MHA (kv_heads == heads) and MQA (1) */
    KVT_ATTENTION_MLA,  /* one latent of kv_lora + rope values per token, shared by all heads */
};

struct kvt_attention {
    enum kvt_attention_kind kind;
    int32_t heads, kv_heads; /* MLA: kv_heads is 1 */
    int32_t head_dim;        /* of q and k; MLA: nope + rope */
    int32_t v_dim;           /* of v */
    int32_t q_lora, kv_lora; /* MLA; q_lora 0: no low-rank q */
    int32_t nope, rope;      /* MLA */
    int32_t window;          /* tokens seen by a sliding-window layer; 0: all */
    bool qkv_bias, o_bias, qk_norm, sinks;
    bool v_is_k;             /* v shares k's projection (Gemma 4 full layers) */
    bool output_gate;        /* the q projection also makes a gate of the same width */
    /* Sparse attention with an indexer (DSA): index_heads > 0. */
    int32_t index_heads, index_dim, index_topk;
    bool index_shared;       /* uses the indices of an earlier layer; has no indexer of its own */
};

struct kvt_mlp {
    int32_t inter;           /* dense layer, gated (gate, up, down); 0: none */
    bool gated, bias;
    int32_t experts, topk;   /* experts 0: a dense layer */
    int32_t expert_inter;    /* of one routed expert */
    int32_t shared_experts, shared_inter; /* shared_inter: of all shared experts together */
    bool router_bias;
};

struct kvt_layer_group {
    int32_t count;
    struct kvt_attention attention;
    struct kvt_mlp mlp;
};

/* Which weights a quantised checkpoint of this model quantises. */
enum kvt_quant_scope {
    KVT_QUANT_EXPERTS, /* routed experts only (Kimi's recipe; gpt-oss) */
    KVT_QUANT_LINEARS, /* every linear but lm_head, routers and the vision tower */
    KVT_QUANT_MLP,     /* routed and shared experts and dense MLPs; attention stays bf16 */
};

struct kvt_model {
    char name[64];
    char aliases[KVT_MODEL_ALIASES_MAX][64]; /* other names that tables and users use */
    int32_t alias_count;
    char source[160];        /* where the numbers come from */
    int32_t layers;          /* == sum of group counts */
    int32_t hidden, vocab, context_max;
    bool tied_embeddings;
    int32_t group_count;
    struct kvt_layer_group groups[KVT_MODEL_GROUPS_MAX];
    int32_t mtp_layers;      /* multi-token-prediction layers in the checkpoint (shaped as the last) */
    int64_t vision_params;   /* replicated on every GPU */
    enum kvt_weight_dtype weights; /* of the published checkpoint */
    enum kvt_quant_scope scope4;   /* for 4-bit dtypes */
    enum kvt_quant_scope scope8;   /* for 8-bit dtypes */
    enum kvt_kv_dtype kv;    /* the engine's "auto" */
};

/* One of ours by name or alias (case does not matter, "-fp8" style suffixes are aliases only where
 * listed), or a YAML file. Unknown names get a suggestion. */
enum kvt_status kvt_model_load(struct kvt_model *model, const char *name_or_path,
                               struct kvt_err *err);

/* Read a Hugging Face config.json (with hf_quant_config.json beside it where there is one).
 * notes gets one line per key that could not be used. KVT_ECONFIG on what cannot be modelled. */
enum kvt_status kvt_model_import(struct kvt_model *model, const char *path, char *notes,
                                 size_t notes_bytes, struct kvt_err *err);

/* The model as a YAML file of ours; malloc'ed. */
char *kvt_model_print(const struct kvt_model *model);

/* Sums agree, ranges hold, heads divide. */
enum kvt_status kvt_model_check(const struct kvt_model *model, struct kvt_err *err);

#endif
