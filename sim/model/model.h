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
#include <stdio.h>

#include "sim/base/names.h"
#include "sim/base/status.h"

#define KVT_MODEL_GROUPS_MAX  64
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
    bool qk_norm_whole; /* with qk_norm: over the heads of all ranks together, not head by head */
    bool v_is_k;        /* v shares k's projection (Gemma 4 full layers) */
    bool output_gate;   /* the q projection also makes a gate of the same width */
    /* Sparse attention with an indexer (DSA): index_heads > 0. */
    int32_t index_heads, index_dim, index_topk;
    bool index_shared; /* uses the indices of an earlier layer; has no indexer of its own */
};

struct kvt_mlp {
    int32_t inter; /* dense layer, gated (gate, up, down); 0: none */
    bool gated, bias;
    int32_t experts, topk;                /* experts 0: a dense layer */
    int32_t expert_inter;                 /* of one routed expert */
    int32_t shared_experts, shared_inter; /* shared_inter: of all shared experts together */
    bool router_bias;
};

/* The matrices of a layer, with the name that model files use. One dtype each. */
/* clang-format off */
#define KVT_MATRICES(X)                                                    \
    X(Q, "q") X(K, "k") X(V, "v") X(O, "o")                                 \
    X(Q_A, "q-a") X(Q_B, "q-b") X(KV_A, "kv-a") X(KV_B, "kv-b") /* MLA */   \
    X(INDEX_Q, "index-q") X(INDEX_K, "index-k") X(INDEX_W, "index-w")       \
    X(GATE_UP, "gate-up") X(DOWN, "down")                       /* dense */ \
    X(SHARED_GATE_UP, "shared-gate-up") X(SHARED_DOWN, "shared-down")       \
    X(EXPERT_GATE_UP, "expert-gate-up") X(EXPERT_DOWN, "expert-down")       \
    X(ROUTER, "router")
/* clang-format on */
#define X(name, text) KVT_MATRIX_##name,
enum kvt_matrix { KVT_MATRICES(X) KVT_MATRIX_COUNT };
#undef X
extern const char *const kvt_matrix_names[KVT_MATRIX_COUNT];

struct kvt_layer_group {
    int32_t count;
    struct kvt_attention attention;
    struct kvt_mlp mlp;
    uint8_t dtype[KVT_MATRIX_COUNT]; /* enum kvt_weight_dtype, in the published checkpoint */
};

/* Which weights a quantised checkpoint of this model quantises. */
/* clang-format off */
#define KVT_QUANT_SCOPES(X)                                                            \
    X(EXPERTS, "experts")  /* routed experts only (Kimi's recipe; gpt-oss) */           \
    X(LINEARS, "linears")  /* every linear but lm_head, routers and the vision tower */ \
    X(MLP,     "mlp")      /* routed and shared experts, dense MLPs; attention is bf16 */
/* clang-format on */
#define X(name, text) KVT_QUANT_##name,
enum kvt_quant_scope { KVT_QUANT_SCOPES(X) KVT_QUANT_SCOPE_COUNT };
#undef X

struct kvt_model {
    char name[64];
    char aliases[KVT_MODEL_ALIASES_MAX][64]; /* other names that tables and users use */
    int32_t alias_count;
    char source[160]; /* where the numbers come from */
    int32_t layers;   /* == sum of group counts */
    int32_t hidden, vocab, context_max;
    bool tied_embeddings;
    int32_t group_count;
    struct kvt_layer_group groups[KVT_MODEL_GROUPS_MAX];
    int32_t mtp_layers;         /* multi-token-prediction layers in the checkpoint, shaped as mtp */
    struct kvt_layer_group mtp; /* as the last layer where the file says nothing else */
    int64_t vision_params;      /* replicated on every GPU */
    enum kvt_weight_dtype weights; /* of the published checkpoint (its most common one) */
    enum kvt_weight_dtype head;    /* of lm_head */
    enum kvt_quant_scope scope4;   /* for 4-bit dtypes */
    enum kvt_quant_scope scope8;   /* for 8-bit dtypes */
    enum kvt_kv_dtype kv;          /* the engine's "auto" */
};

/* One of ours by name or alias, or a YAML file (a path with a slash and .yaml, or one that exists).
 * Case, an "organisation/" before the name, text in parentheses, and suffixes that do not change
 * the shape ("-Instruct", "-FP8", "-2507": see alias.c) do not matter; a dtype named by a suffix
 * becomes the model's own. Unknown names are a KVT_ECONFIG with a suggestion. */
enum kvt_status kvt_model_load(struct kvt_model *model, const char *name_or_path,
                               struct kvt_err *err);

/* The name without what does not matter, in lower case; the dtype that a suffix names, or -1. */
void kvt_model_canonical_name(const char *name, char *out, size_t out_bytes, int32_t *dtype);

/* Set every matrix's dtype from a dtype and the scope that the model has for it. */
void kvt_model_quantise(struct kvt_model *model, enum kvt_weight_dtype dtype,
                        enum kvt_quant_scope scope);

/* The scope of the model for a dtype: linears for 8 bits, the model's own for 4. */
enum kvt_quant_scope kvt_model_scope(const struct kvt_model *model, enum kvt_weight_dtype dtype);

/* Parse a model file held in memory; name is for messages. For tests and fuzzing. */
enum kvt_status kvt_model_parse(struct kvt_model *model, const char *name, const char *text,
                                size_t count, struct kvt_err *err);

/* Read a Hugging Face config.json, with hf_quant_config.json beside it where there is one, or an
 * hf_quant_config.json itself: then the shape is that of the config.json beside it, else of the
 * shipped model `base`, else of the one that the file's name names (a note says so). talk, or NULL,
 * gets a note for what could not be used. KVT_ECONFIG on what cannot be modelled. */
enum kvt_status kvt_model_import(struct kvt_model *model, const char *path, const char *base,
                                 FILE *talk, struct kvt_err *err);

/* Give a model the dtypes that the text of an hf_quant_config.json says. */
enum kvt_status kvt_model_requantise(struct kvt_model *model, const char *path, const char *quant,
                                     FILE *talk, struct kvt_err *err);

/* The same from memory; quant is the text of an hf_quant_config.json, or NULL. */
enum kvt_status kvt_model_import_text(struct kvt_model *model, const char *name, const char *text,
                                      const char *quant, FILE *talk, struct kvt_err *err);

/* The model as a YAML file of ours; malloc'ed. */
char *kvt_model_print(const struct kvt_model *model);

/* Sums agree, ranges hold, heads divide. */
enum kvt_status kvt_model_check(const struct kvt_model *model, struct kvt_err *err);

#endif
