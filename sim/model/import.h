/*
 * import.h - the parts of `model import`: a config.json's shape and its quantisation
 *
 * Internal to import*.c. A reader looks keys up in the text model's object first, then in the
 * file's root, and remembers which it used, so that what was not used can be said.
 */
#ifndef KVT_MODEL_IMPORT_H
#define KVT_MODEL_IMPORT_H

#include <stdio.h>

#include "sim/base/json.h"
#include "sim/model/model.h"

#define IMPORT_LAYERS_MAX 1024

struct kvt_quant; /* which module has which dtype */

struct kvt_import {
    const char *file;       /* for messages */
    json_t *root, *text;    /* text == root when nothing is nested */
    json_t *quant;          /* quantization_config or hf_quant_config's quantization, or NULL */
    const char *quant_name; /* how messages call it */
    FILE *talk;             /* hears notes; NULL: nobody does */
    const char *family;     /* once known: for defaults */
    struct kvt_err *err;
};

/* Say what of the file cannot be used as it stands. */
void kvt_import_note(struct kvt_import *import, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* KVT_ECONFIG: the file's name, then the text. */
enum kvt_status kvt_import_fail(struct kvt_import *import, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

enum kvt_model_family_flag {
    QK_NORM = 1,
    QKV_BIAS = 2,
    O_BIAS = 4,
    ROUTER_BIAS = 8,
    EXPERT_BIAS = 16,
    SINKS = 32,
    TIED = 64,       /* embeddings, when the file does not say */
    NOT_GATED = 128, /* up and down only */
    MLA = 256,
    DSA = 512,
    EXPERTS_SAME = 1024,    /* intermediate_size is that of one expert */
    DENSE_TOO = 2048,       /* an MoE layer also has the dense MLP */
    MTP_DENSE = 4096,       /* draft layers are dense and windowed */
    MTP_ABSENT = 8192,      /* announced, but not in the checkpoint */
    FIRST_WINDOWED = 16384, /* layers 0, 2, 4, ... are windowed when no list says which */
};

struct kvt_model_family {
    const char *name; /* model_type of the text model */
    unsigned flags;
};

struct kvt_import_shape {
    const struct kvt_model_family *family;
    int32_t layers, hidden, vocab, context;
    int32_t inter, experts, topk, expert_inter, shared, shared_inter, dense_first;
    struct kvt_attention full, windowed;
    struct kvt_layer_group layer[IMPORT_LAYERS_MAX];
};

/* ---- values (import_value.c) ---- */

json_t *kvt_import_find(const struct kvt_import *import, const char *key);

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A count of 0..max, of the first key that is there (a list of equal counts stands for one);
 * fallback when none is there; fallback < 0: one is needed. */
enum kvt_status kvt_import_count(struct kvt_import *import, const char *const keys[],
                                 int64_t fallback, int64_t max, int32_t *out);
bool kvt_import_bool(const struct kvt_import *import, const char *const keys[], bool fallback);
const char *kvt_import_word(const struct kvt_import *import, const char *key);
bool kvt_import_has(const struct kvt_import_shape *shape, enum kvt_model_family_flag flag);

/* Whether a list holds a whole number. */
bool kvt_import_lists(const json_t *list, int64_t number);

/* ---- families (import_family.c) ---- */

/* Refuse layers with a state instead of a KV cache, by whatever key says so. */
enum kvt_status kvt_import_refuse_states(struct kvt_import *import);
enum kvt_status kvt_import_refuse_rest(struct kvt_import *import);
enum kvt_status kvt_import_family(struct kvt_import *import, struct kvt_import_shape *shape);

/* What the family's own code assumes for a key that the file leaves out; false: nothing. */
bool kvt_model_family_default(const char *family, const char *key, int64_t *value);

/* ---- layers (import_layers.c) ---- */

enum kvt_status kvt_import_layers(struct kvt_import *import, struct kvt_import_shape *shape);

/* ---- dtypes (import_dtypes.c) ---- */

/* Read the quantisation, give every matrix of every layer its dtype, merge equal layers into the
 * model's groups, and say which dtype and scope sum it up. */
enum kvt_status kvt_import_dtypes(struct kvt_import *import, struct kvt_import_shape *shape,
                                  struct kvt_model *model);

/* ---- quantisation formats (import_quant.c) ---- */

/* *quant, to be freed after a failure too, is NULL where nothing is quantised; *kv is changed where
 * the file says how KV is kept. */
enum kvt_status kvt_quant_read(struct kvt_import *import, struct kvt_quant **quant,
                               enum kvt_kv_dtype *kv);
void kvt_quant_free(struct kvt_quant *quant);

/* The dtype of the module that has any of these names, which end with NULL. */
enum kvt_weight_dtype kvt_quant_of(const struct kvt_quant *quant, const char *const names[],
                                   bool router, bool expert);

/* JSON text of limits that Python writes and JSON forbids (NaN, Infinity) becomes null, in place.
 */
void kvt_import_clean(char *text);

#endif
