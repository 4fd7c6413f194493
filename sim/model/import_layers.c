/*
 * import_layers.c - attention and MLP of each layer, in the many ways that families say them
 */
#include "sim/model/import.h"

#include <stdlib.h>
#include <string.h>

static enum kvt_status read_mla(struct kvt_import *import, struct kvt_import_shape *shape)
{
    struct kvt_attention *a = &shape->full;
    a->kind = KVT_ATTENTION_MLA;
    KVT_TRY(kvt_import_count(import, KEYS("num_attention_heads"), -1, 65536, &a->heads));
    KVT_TRY(kvt_import_count(import, KEYS("kv_lora_rank"), -1, 1 << 20, &a->kv_lora));
    KVT_TRY(kvt_import_count(import, KEYS("q_lora_rank"), 0, 1 << 20, &a->q_lora));
    KVT_TRY(kvt_import_count(import, KEYS("qk_nope_head_dim"), -1, 65536, &a->nope));
    KVT_TRY(kvt_import_count(import, KEYS("qk_rope_head_dim"), -1, 65536, &a->rope));
    KVT_TRY(kvt_import_count(import, KEYS("v_head_dim"), -1, 65536, &a->v_dim));
    a->kv_heads = 1;
    a->head_dim = a->nope + a->rope;
    if (kvt_import_has(shape, DSA)) {
        KVT_TRY(kvt_import_count(import, KEYS("index_n_heads"), -1, 65536, &a->index_heads));
        KVT_TRY(kvt_import_count(import, KEYS("index_head_dim"), -1, 65536, &a->index_dim));
        KVT_TRY(kvt_import_count(import, KEYS("index_topk"), 0, 1 << 30, &a->index_topk));
    } else if (kvt_import_find(import, "index_n_heads") != NULL) {
        return kvt_import_fail(import,
                               "index_n_heads: an indexer in model_type \"%s\" cannot be "
                               "modelled",
                               shape->family->name);
    }
    return KVT_OK;
}

/* Full and windowed layers may differ in heads and widths (MiMo, Gemma 4). */
static enum kvt_status read_gqa(struct kvt_import *import, struct kvt_import_shape *shape)
{
    struct kvt_attention *a = &shape->full;
    a->kind = KVT_ATTENTION_GQA;
    KVT_TRY(kvt_import_count(import, KEYS("num_attention_heads"), -1, 65536, &a->heads));
    if (a->heads < 1)
        return kvt_import_fail(import, "num_attention_heads: want at least 1, got 0");
    KVT_TRY(kvt_import_count(
        import, KEYS("num_key_value_heads", "num_attention_groups", "multi_query_group_num"),
        a->heads, 65536, &a->kv_heads));
    KVT_TRY(kvt_import_count(import, KEYS("head_dim", "kv_channels"), shape->hidden / a->heads,
                             65536, &a->head_dim));
    KVT_TRY(kvt_import_count(import, KEYS("v_head_dim"), a->head_dim, 65536, &a->v_dim));
    a->qkv_bias =
        kvt_import_bool(import, KEYS("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias"),
                        kvt_import_has(shape, QKV_BIAS));
    a->o_bias = kvt_import_has(shape, O_BIAS);
    a->qk_norm = kvt_import_bool(import, KEYS("use_qk_norm"), kvt_import_has(shape, QK_NORM));
    a->qk_norm_whole =
        a->qk_norm && strcmp(kvt_import_word(import, "qk_norm_type"), "per_layer") == 0;
    a->sinks = kvt_import_has(shape, SINKS);
    shape->windowed = *a;
    struct kvt_attention *w = &shape->windowed;
    KVT_TRY(kvt_import_count(import, KEYS("swa_num_attention_heads"), a->heads, 65536, &w->heads));
    KVT_TRY(kvt_import_count(import, KEYS("swa_num_key_value_heads"), a->kv_heads, 65536,
                             &w->kv_heads));
    KVT_TRY(kvt_import_count(import, KEYS("swa_head_dim"), a->head_dim, 65536, &w->head_dim));
    KVT_TRY(kvt_import_count(import, KEYS("swa_v_head_dim"), a->v_dim, 65536, &w->v_dim));
    w->sinks = kvt_import_bool(import, KEYS("add_swa_attention_sink_bias"), a->sinks);
    KVT_TRY(kvt_import_count(import, KEYS("num_global_key_value_heads"), a->kv_heads, 65536,
                             &a->kv_heads));
    int32_t global;
    KVT_TRY(kvt_import_count(import, KEYS("global_head_dim"), a->head_dim, 65536, &global));
    if (global != a->head_dim)
        a->head_dim = a->v_dim = global;
    a->v_is_k = kvt_import_bool(import, KEYS("attention_k_eq_v"), false);
    return KVT_OK;
}

static enum kvt_status layer_window(struct kvt_import *import, const struct kvt_import_shape *shape,
                                    int32_t layer, int32_t window, bool *windowed)
{
    const json_t *types = kvt_import_find(import, "layer_types"),
                 *pattern = kvt_import_find(import, "hybrid_layer_pattern");
    const json_t *no_rope = kvt_import_find(import, "no_rope_layers");
    int32_t every;
    *windowed = false;
    if (json_is_array(types)) {
        const char *type = json_string_value(json_array_get(types, (size_t)layer));
        if (type == NULL)
            return kvt_import_fail(import, "layer_types: want %d texts", shape->layers);
        *windowed =
            strcmp(type, "sliding_attention") == 0 || strcmp(type, "chunked_attention") == 0;
        if (!*windowed && strcmp(type, "full_attention") != 0 && strcmp(type, "attention") != 0)
            return kvt_import_fail(import,
                                   "layer_types: layers of type \"%.40s\" cannot be "
                                   "modelled",
                                   type);
        if (*windowed && window == 0)
            return kvt_import_fail(import, "layer_types: \"%s\" without a sliding_window", type);
        return KVT_OK;
    }
    if (window == 0 || !kvt_import_bool(import, KEYS("use_sliding_window"), true))
        return KVT_OK;
    if (json_is_array(pattern)) { /* 1: windowed */
        *windowed = json_integer_value(json_array_get(pattern, (size_t)layer)) == 1;
        return KVT_OK;
    }
    if (json_is_array(no_rope) &&
        kvt_import_find(import, "attention_chunk_size") != NULL) { /* 1: chunked; [] is 3 of 4 */
        *windowed = json_array_size(no_rope) == 0
                        ? (layer + 1) % 4 != 0
                        : json_integer_value(json_array_get(no_rope, (size_t)layer)) == 1;
        return KVT_OK;
    }
    KVT_TRY(kvt_import_count(import, KEYS("sliding_window_pattern"), 0, 65536, &every));
    if (every > 0)
        *windowed = (layer + 1) % every != 0;
    else if (kvt_import_has(shape, FIRST_WINDOWED))
        *windowed = layer % 2 == 0;
    else if (kvt_import_find(import, "use_sliding_window") != NULL) { /* Qwen2: from a layer on */
        int32_t first;
        KVT_TRY(kvt_import_count(import, KEYS("max_window_layers"), 0, 65536, &first));
        *windowed = layer >= first;
    } else {
        *windowed = window < shape->context;
    }
    return KVT_OK;
}

/* Attention of each layer: full, or with the window. */
static enum kvt_status read_attention(struct kvt_import *import, struct kvt_import_shape *shape)
{
    int32_t window, chunk;
    KVT_TRY(kvt_import_count(import, KEYS("sliding_window", "sliding_window_size"), 0, 1 << 30,
                             &window));
    KVT_TRY(kvt_import_count(import, KEYS("attention_chunk_size"), 0, 1 << 30, &chunk));
    if (chunk > 0 && window == 0) {
        kvt_import_note(import, "attention_chunk_size: chunked layers are counted as a window of "
                                "that size");
        window = chunk;
    }
    shape->windowed.window = window;
    for (int32_t l = 0; l < shape->layers; l++) {
        bool windowed = false;
        if (shape->full.kind == KVT_ATTENTION_GQA)
            KVT_TRY(layer_window(import, shape, l, window, &windowed));
        shape->layer[l].attention = windowed ? shape->windowed : shape->full;
    }
    return KVT_OK;
}

/* GLM-5.2: some layers take the indices of an earlier one. */
static enum kvt_status read_indexers(struct kvt_import *import, struct kvt_import_shape *shape)
{
    const json_t *types = kvt_import_find(import, "indexer_types");
    if (!kvt_import_has(shape, DSA) || types == NULL)
        return KVT_OK;
    for (int32_t l = 0; l < shape->layers; l++) {
        const char *type = json_string_value(json_array_get(types, (size_t)l));
        if (type == NULL || (strcmp(type, "full") != 0 && strcmp(type, "shared") != 0))
            return kvt_import_fail(import,
                                   "indexer_types: want %d of \"full\" or \"shared\", got "
                                   "\"%.40s\"",
                                   shape->layers, type == NULL ? "nothing" : type);
        shape->layer[l].attention.index_shared = strcmp(type, "shared") == 0;
    }
    return KVT_OK;
}

/* "3,4,5" of Step. */
static bool text_has(const char *list, int32_t number)
{
    for (const char *at = list; *at != '\0';) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at)
            return false;
        if (value == number)
            return true;
        at = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end != '\0')
            return false;
    }
    return false;
}

/* Whether a layer has experts. Families say it in many ways; each is a restriction. */
static enum kvt_status layer_sparse(struct kvt_import *import, const struct kvt_import_shape *shape,
                                    int32_t layer, bool *sparse)
{
    int32_t step, skipped, start, interval, end, interleave;
    const json_t *types = kvt_import_find(import, "mlp_layer_types"),
                 *freq = kvt_import_find(import, "moe_layer_freq");
    const json_t *listed = kvt_import_find(import, "moe_layers");
    const char *text = kvt_import_word(import, "moe_layers_enum");
    *sparse = shape->experts > 0;
    KVT_TRY(kvt_import_count(import, KEYS("decoder_sparse_step"), 1, 65536, &step));
    KVT_TRY(kvt_import_count(import, KEYS("moe_layer_num_skipped"), 0, 65536, &skipped));
    KVT_TRY(kvt_import_count(import, KEYS("moe_layer_start_index"), 0, 65536, &start));
    KVT_TRY(kvt_import_count(import, KEYS("moe_layer_interval"), 1, 65536, &interval));
    KVT_TRY(kvt_import_count(import, KEYS("interleave_moe_layer_step"), 1, 65536, &interleave));
    const json_t *last = kvt_import_find(import, "moe_layer_end_index");
    end = json_is_integer(last) && json_integer_value(last) >= 0 &&
                  json_integer_value(last) < shape->layers
              ? (int32_t)json_integer_value(last)
              : shape->layers - 1;
    if (json_is_array(types)) {
        const char *type = json_string_value(json_array_get(types, (size_t)layer));
        *sparse = *sparse && type != NULL && strcmp(type, "sparse") == 0;
        return KVT_OK;
    }
    if (json_is_array(listed)) {
        *sparse = *sparse && kvt_import_lists(listed, layer);
        return KVT_OK;
    }
    if (text[0] != '\0') {
        *sparse = *sparse && text_has(text, layer);
        return KVT_OK;
    }
    if (json_is_array(freq))
        *sparse = *sparse && json_integer_value(json_array_get(freq, (size_t)layer)) == 1;
    else if (json_is_integer(freq) && json_integer_value(freq) > 1)
        *sparse = *sparse && layer % json_integer_value(freq) == 0;
    *sparse = *sparse && layer >= shape->dense_first && layer >= skipped && layer >= start &&
              layer <= end && step > 0 && (layer + 1) % step == 0 && interval > 0 &&
              (layer + 1) % interval == 0 && interleave > 0 && (layer + 1) % interleave == 0 &&
              !kvt_import_lists(kvt_import_find(import, "mlp_only_layers"), layer);
    return KVT_OK;
}

/* A width, or a list of one width per expert (ERNIE's vision experts): then refuse. */
static enum kvt_status read_mlp(struct kvt_import *import, struct kvt_import_shape *shape)
{
    KVT_TRY(kvt_import_count(
        import, KEYS("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"), 0,
        65536, &shape->experts));
    if (kvt_import_bool(import, KEYS("enable_moe_block"), true) == false)
        shape->experts = 0;
    KVT_TRY(kvt_import_count(import, KEYS("intermediate_size", "ffn_hidden_size"),
                             shape->experts > 0 ? 0 : -1, 1 << 24, &shape->inter));
    if (shape->experts == 0)
        return KVT_OK;
    KVT_TRY(kvt_import_count(import,
                             KEYS("num_experts_per_tok", "experts_per_token", "top_k_experts",
                                  "moe_k", "moe_topk", "moe_top_k"),
                             -1, 65536, &shape->topk));
    KVT_TRY(kvt_import_count(import, KEYS("moe_intermediate_size", "expert_intermediate_size"),
                             kvt_import_has(shape, EXPERTS_SAME) ? shape->inter : -1, 1 << 24,
                             &shape->expert_inter));
    KVT_TRY(kvt_import_count(import, KEYS("intermediate_size_mlp"), shape->inter, 1 << 24,
                             &shape->inter));
    KVT_TRY(kvt_import_count(import,
                             KEYS("n_shared_experts", "num_shared_experts",
                                  "moe_num_shared_experts", "num_shared_expert"),
                             0, 1024, &shape->shared));
    KVT_TRY(kvt_import_count(
        import,
        KEYS("shared_expert_intermediate_size", "share_expert_dim", "shared_expert_dim",
             "moe_shared_expert_intermediate_size", "shared_intermediate_size"),
        (int64_t)shape->shared * shape->expert_inter, 1 << 24, &shape->shared_inter));
    if (shape->shared_inter > 0 && shape->shared == 0)
        shape->shared = 1;
    if (strncmp(shape->family->name, "llama4", 6) == 0) { /* one, as wide as a routed expert */
        shape->shared = 1;
        shape->shared_inter = shape->expert_inter;
    }
    return kvt_import_count(import, KEYS("first_k_dense_replace"), 0, 65536, &shape->dense_first);
}

static enum kvt_status read_layers(struct kvt_import *import, struct kvt_import_shape *shape)
{
    KVT_TRY(read_mlp(import, shape));
    for (int32_t l = 0; l < shape->layers; l++) {
        struct kvt_mlp *mlp = &shape->layer[l].mlp;
        bool sparse;
        KVT_TRY(layer_sparse(import, shape, l, &sparse));
        mlp->gated = !kvt_import_has(shape, NOT_GATED);
        if (!sparse || kvt_import_has(shape, DENSE_TOO))
            mlp->inter = shape->inter;
        if (!sparse)
            continue;
        mlp->experts = shape->experts;
        mlp->topk = shape->topk;
        mlp->expert_inter = shape->expert_inter;
        mlp->shared_experts = shape->shared;
        mlp->shared_inter = shape->shared_inter;
        mlp->bias = kvt_import_has(shape, EXPERT_BIAS);
        mlp->router_bias = kvt_import_has(shape, ROUTER_BIAS);
    }
    return KVT_OK;
}

/* Nemotron-NAS: every layer is listed with its own widths, or without a part. */
static enum kvt_status read_blocks(struct kvt_import *import, struct kvt_import_shape *shape,
                                   const json_t *blocks)
{
    if (json_array_size(blocks) != (size_t)shape->layers)
        return kvt_import_fail(import, "block_configs: want %d blocks, got %zu", shape->layers,
                               json_array_size(blocks));
    for (int32_t l = 0; l < shape->layers; l++) {
        const json_t *block = json_array_get(blocks, (size_t)l);
        const json_t *attention = json_object_get(block, "attention");
        const json_t *ffn = json_object_get(block, "ffn");
        struct kvt_layer_group *layer = &shape->layer[l];
        layer->mlp.gated = true;
        if (json_is_true(json_object_get(attention, "replace_with_linear")) ||
            json_is_true(json_object_get(ffn, "replace_with_linear")))
            return kvt_import_fail(import,
                                   "block_configs: replace_with_linear true (layer %d) "
                                   "cannot be modelled",
                                   l);
        if (!json_is_true(json_object_get(attention, "no_op"))) {
            json_int_t per_group =
                json_integer_value(json_object_get(attention, "n_heads_in_group"));
            if (per_group < 1 || shape->full.heads % per_group != 0)
                return kvt_import_fail(import,
                                       "block_configs: n_heads_in_group of layer %d does "
                                       "not divide %d heads",
                                       l, shape->full.heads);
            layer->attention = shape->full;
            layer->attention.kv_heads = shape->full.heads / (int32_t)per_group;
            json_int_t window = json_integer_value(json_object_get(attention, "window_length"));
            layer->attention.window = window > 0 && window < INT32_MAX ? (int32_t)window : 0;
        }
        double mult = json_number_value(json_object_get(ffn, "ffn_mult"));
        if (json_is_true(json_object_get(ffn, "no_op")))
            continue;
        if (!(mult > 0) || mult > 1000)
            return kvt_import_fail(import,
                                   "block_configs: ffn_mult of layer %d: want a number "
                                   "above 0",
                                   l);
        /* Two thirds of the width, up to a multiple of 256. */
        int64_t inter = (int64_t)(2 * mult * shape->hidden / 3);
        layer->mlp.inter = (int32_t)((inter + 255) / 256 * 256);
    }
    return KVT_OK;
}

enum kvt_status kvt_import_layers(struct kvt_import *import, struct kvt_import_shape *shape)
{
    const json_t *blocks = kvt_import_find(import, "block_configs");
    KVT_TRY(kvt_import_has(shape, MLA) ? read_mla(import, shape) : read_gqa(import, shape));
    if (blocks != NULL)
        return read_blocks(import, shape, blocks);
    KVT_TRY(read_attention(import, shape));
    KVT_TRY(read_indexers(import, shape));
    return read_layers(import, shape);
}
