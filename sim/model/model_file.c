/*
 * model_file.c - model files: one table of keys that reads, prints and names them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/base/yaml.h"
#include "sim/model/model.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

#define X(name, text) text,
const char *const kvt_matrix_names[KVT_MATRIX_COUNT] = {KVT_MATRICES(X)};
static const char *const scope_names[KVT_QUANT_SCOPE_COUNT] = {KVT_QUANT_SCOPES(X)};
#undef X
static const char *const attention_names[] = {"none", "gqa", "mla"};

enum field_kind { FIELD_INT, FIELD_LONG, FIELD_BOOL };
struct field {
    const char *key;
    enum field_kind kind;
    size_t offset;
    int64_t max;
};

#define FIELD(key, kind, type, member, max)                                                        \
    {                                                                                              \
        key, FIELD_##kind, offsetof(struct type, member), max                                      \
    }

/* clang-format off */
static const struct field attention_fields[] = {
    FIELD("heads",        INT,  kvt_attention, heads, 65536),
    FIELD("kv-heads",     INT,  kvt_attention, kv_heads, 65536),
    FIELD("head-dim",     INT,  kvt_attention, head_dim, 65536),
    FIELD("v-dim",        INT,  kvt_attention, v_dim, 65536),
    FIELD("q-lora",       INT,  kvt_attention, q_lora, 1 << 20),
    FIELD("kv-lora",      INT,  kvt_attention, kv_lora, 1 << 20),
    FIELD("nope",         INT,  kvt_attention, nope, 65536),
    FIELD("rope",         INT,  kvt_attention, rope, 65536),
    FIELD("window",       INT,  kvt_attention, window, 1 << 30),
    FIELD("qkv-bias",     BOOL, kvt_attention, qkv_bias, 1),
    FIELD("o-bias",       BOOL, kvt_attention, o_bias, 1),
    FIELD("qk-norm",      BOOL, kvt_attention, qk_norm, 1),
    FIELD("qk-norm-whole", BOOL, kvt_attention, qk_norm_whole, 1),
    FIELD("sinks",        BOOL, kvt_attention, sinks, 1),
    FIELD("v-is-k",       BOOL, kvt_attention, v_is_k, 1),
    FIELD("output-gate",  BOOL, kvt_attention, output_gate, 1),
    FIELD("index-heads",  INT,  kvt_attention, index_heads, 65536),
    FIELD("index-dim",    INT,  kvt_attention, index_dim, 65536),
    FIELD("index-topk",   INT,  kvt_attention, index_topk, 1 << 30),
    FIELD("index-shared", BOOL, kvt_attention, index_shared, 1),
};
static const struct field mlp_fields[] = {
    FIELD("inter",          INT,  kvt_mlp, inter, 1 << 24),
    FIELD("gated",          BOOL, kvt_mlp, gated, 1),
    FIELD("bias",           BOOL, kvt_mlp, bias, 1),
    FIELD("experts",        INT,  kvt_mlp, experts, 65536),
    FIELD("topk",           INT,  kvt_mlp, topk, 65536),
    FIELD("expert-inter",   INT,  kvt_mlp, expert_inter, 1 << 24),
    FIELD("shared-experts", INT,  kvt_mlp, shared_experts, 65536),
    FIELD("shared-inter",   INT,  kvt_mlp, shared_inter, 1 << 24),
    FIELD("router-bias",    BOOL, kvt_mlp, router_bias, 1),
};
static const struct field model_fields[] = {
    FIELD("hidden",          INT,  kvt_model, hidden, 1 << 24),
    FIELD("vocab",           INT,  kvt_model, vocab, 1 << 28),
    FIELD("context",         INT,  kvt_model, context_max, INT32_MAX),
    FIELD("tied-embeddings", BOOL, kvt_model, tied_embeddings, 1),
    FIELD("mtp-layers",      INT,  kvt_model, mtp_layers, 64),
    FIELD("vision-params",   LONG, kvt_model, vision_params, INT64_C(1) << 50),
};
/* clang-format on */

static enum kvt_status read_choice(const struct kvt_yaml *node, const char *const names[],
                                   size_t count, int *value, struct kvt_err *err)
{
    KVT_TRY(kvt_yaml_want(node, KVT_YAML_SCALAR, node->key, err));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(node->text, names[i]) == 0) {
            *value = (int)i;
            return KVT_OK;
        }
    }
    char list[256] = "", got[KVT_QUOTE_BYTES];
    for (size_t i = 0, used = 0; i < count && used < sizeof list; i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: want one of %s, got \"%s\"", node->key,
                      list, kvt_yaml_quote(node->text, got));
}

/* The choice under key, where it is given; *value stays as it is otherwise. */
static enum kvt_status choice_or(const struct kvt_yaml *map, const char *key,
                                 const char *const names[], size_t count, int *value,
                                 struct kvt_err *err)
{
    const struct kvt_yaml *node = kvt_yaml_find(map, key);
    return node == NULL ? KVT_OK : read_choice(node, names, count, value, err);
}

static enum kvt_status read_field(const struct kvt_yaml *node, const struct field *field,
                                  void *base, struct kvt_err *err)
{
    KVT_TRY(kvt_yaml_want(node, KVT_YAML_SCALAR, field->key, err));
    unsigned char *at = (unsigned char *)base + field->offset;
    if (field->kind == FIELD_BOOL) {
        bool yes = strcmp(node->text, "true") == 0;
        char got[KVT_QUOTE_BYTES];
        if (!yes && strcmp(node->text, "false") != 0)
            return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: want true or false, got \"%s\"",
                              field->key, kvt_yaml_quote(node->text, got));
        memcpy(at, &yes, sizeof yes);
        return KVT_OK;
    }
    int64_t value;
    struct kvt_err why = {0};
    if (kvt_int_parse(node->text, 0, field->max, &value, &why) != KVT_OK)
        return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: %s", field->key, why.text);
    int32_t narrow = (int32_t)value;
    if (field->kind == FIELD_INT)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
    return KVT_OK;
}

/* others: keys that the caller reads itself. */
static enum kvt_status read_fields(const struct kvt_yaml *map, const struct field fields[],
                                   size_t count, const char *const others[], size_t other_count,
                                   void *base, struct kvt_err *err)
{
    const char *names[48];
    size_t known = 0;
    for (size_t i = 0; i < other_count; i++)
        names[known++] = others[i];
    for (size_t i = 0; i < count; i++)
        names[known++] = fields[i].key;
    enum kvt_status status = kvt_yaml_check_keys(map, names, known, err);
    for (size_t i = 0; i < count; i++) {
        const struct kvt_yaml *node = kvt_yaml_find(map, fields[i].key);
        enum kvt_status one = node != NULL ? read_field(node, &fields[i], base, err) : KVT_OK;
        status = status == KVT_OK ? one : status;
    }
    return status;
}

static enum kvt_status read_dtypes(const struct kvt_yaml *map, uint8_t dtype[], struct kvt_err *err)
{
    KVT_TRY(kvt_yaml_want(map, KVT_YAML_MAP, "dtypes", err));
    KVT_TRY(kvt_yaml_check_keys(map, kvt_matrix_names, KVT_MATRIX_COUNT, err));
    for (int m = 0; m < KVT_MATRIX_COUNT; m++) {
        int value = dtype[m];
        KVT_TRY(choice_or(map, kvt_matrix_names[m], kvt_weight_dtype_names, KVT_WEIGHT_DTYPE_COUNT,
                          &value, err));
        dtype[m] = (uint8_t)value;
    }
    return KVT_OK;
}

static enum kvt_status read_attention(const struct kvt_yaml *map, struct kvt_attention *attention,
                                      struct kvt_err *err)
{
    static const char *const others[] = {"kind"};
    KVT_TRY(kvt_yaml_want(map, KVT_YAML_MAP, "attention", err));
    const struct kvt_yaml *kind = kvt_yaml_find(map, "kind");
    int value = KVT_ATTENTION_NONE;
    if (kind == NULL)
        return kvt_err_at(err, KVT_ECONFIG, map->where, "attention: want a kind: gqa, mla or none");
    KVT_TRY(read_choice(kind, attention_names, COUNT_OF(attention_names), &value, err));
    attention->kind = (enum kvt_attention_kind)value;
    KVT_TRY(read_fields(map, attention_fields, COUNT_OF(attention_fields), others, COUNT_OF(others),
                        attention, err));
    if (attention->kind == KVT_ATTENTION_MLA) {
        attention->kv_heads = 1;
        attention->head_dim = attention->nope + attention->rope;
    } else if (attention->v_dim == 0) {
        attention->v_dim = attention->head_dim;
    }
    return KVT_OK;
}

static enum kvt_status read_group(const struct kvt_yaml *map, struct kvt_layer_group *group,
                                  struct kvt_err *err)
{
    static const char *const others[] = {"attention", "mlp", "dtypes"};
    static const struct field fields[] = {FIELD("count", INT, kvt_layer_group, count, 65536)};
    KVT_TRY(kvt_yaml_want(map, KVT_YAML_MAP, "groups", err));
    KVT_TRY(read_fields(map, fields, 1, others, COUNT_OF(others), group, err));
    const struct kvt_yaml *attention = kvt_yaml_find(map, "attention");
    const struct kvt_yaml *mlp = kvt_yaml_find(map, "mlp");
    if (attention != NULL)
        KVT_TRY(read_attention(attention, &group->attention, err));
    group->mlp.gated = true;
    if (mlp != NULL) {
        KVT_TRY(kvt_yaml_want(mlp, KVT_YAML_MAP, "mlp", err));
        KVT_TRY(read_fields(mlp, mlp_fields, COUNT_OF(mlp_fields), NULL, 0, &group->mlp, err));
    }
    return KVT_OK;
}

static enum kvt_status read_groups(const struct kvt_yaml *list, struct kvt_model *model,
                                   struct kvt_err *err)
{
    KVT_TRY(kvt_yaml_want(list, KVT_YAML_LIST, "groups", err));
    if (list->count > KVT_MODEL_GROUPS_MAX)
        return kvt_err_at(err, KVT_ECONFIG, list->where, "groups: want at most %d, got %d",
                          KVT_MODEL_GROUPS_MAX, list->count);
    for (const struct kvt_yaml *node = list->first; node != NULL; node = node->next) {
        struct kvt_layer_group *group = &model->groups[model->group_count++];
        KVT_TRY(read_group(node, group, err));
        model->layers += group->count;
    }
    return KVT_OK;
}

static enum kvt_status read_aliases(const struct kvt_yaml *list, struct kvt_model *model,
                                    struct kvt_err *err)
{
    KVT_TRY(kvt_yaml_want(list, KVT_YAML_LIST, "aliases", err));
    if (list->count > KVT_MODEL_ALIASES_MAX)
        return kvt_err_at(err, KVT_ECONFIG, list->where, "aliases: want at most %d, got %d",
                          KVT_MODEL_ALIASES_MAX, list->count);
    for (const struct kvt_yaml *node = list->first; node != NULL; node = node->next)
        KVT_TRY(kvt_yaml_take_text(node, "aliases", model->aliases[model->alias_count++],
                                   sizeof model->aliases[0], err));
    return KVT_OK;
}

/* What the published checkpoint holds, and how other dtypes would be spread. */
static enum kvt_status read_checkpoint(const struct kvt_yaml *map, struct kvt_model *model,
                                       struct kvt_err *err)
{
    static const char *const keys[] = {"weights", "head", "scope-4bit", "scope-8bit", "kv"};
    int weights = KVT_WEIGHTS_BF16, head = KVT_WEIGHTS_BF16, kv = KVT_KV_BF16;
    int scope4 = (int)model->scope4, scope8 = (int)model->scope8;
    KVT_TRY(kvt_yaml_want(map, KVT_YAML_MAP, "checkpoint", err));
    KVT_TRY(kvt_yaml_check_keys(map, keys, COUNT_OF(keys), err));
    KVT_TRY(choice_or(map, keys[0], kvt_weight_dtype_names, KVT_WEIGHT_DTYPE_COUNT, &weights, err));
    KVT_TRY(choice_or(map, keys[1], kvt_weight_dtype_names, KVT_WEIGHT_DTYPE_COUNT, &head, err));
    KVT_TRY(choice_or(map, keys[2], scope_names, KVT_QUANT_SCOPE_COUNT, &scope4, err));
    KVT_TRY(choice_or(map, keys[3], scope_names, KVT_QUANT_SCOPE_COUNT, &scope8, err));
    KVT_TRY(choice_or(map, keys[4], kvt_kv_dtype_names, KVT_KV_DTYPE_COUNT, &kv, err));
    model->weights = (enum kvt_weight_dtype)weights;
    model->head = (enum kvt_weight_dtype)head;
    model->scope4 = (enum kvt_quant_scope)scope4;
    model->scope8 = (enum kvt_quant_scope)scope8;
    model->kv = (enum kvt_kv_dtype)kv;
    return KVT_OK;
}

/* dtypes of groups are exceptions from what the checkpoint's dtype and scope say. */
static enum kvt_status read_exceptions(const struct kvt_yaml *root, struct kvt_model *model,
                                       struct kvt_err *err)
{
    const struct kvt_yaml *groups = kvt_yaml_find(root, "groups"),
                          *mtp = kvt_yaml_find(root, "mtp");
    int32_t g = 0;
    for (const struct kvt_yaml *node = groups->first; node != NULL; node = node->next, g++) {
        const struct kvt_yaml *dtypes = kvt_yaml_find(node, "dtypes");
        if (dtypes != NULL)
            KVT_TRY(read_dtypes(dtypes, model->groups[g].dtype, err));
    }
    const struct kvt_yaml *dtypes = mtp == NULL ? NULL : kvt_yaml_find(mtp, "dtypes");
    return dtypes == NULL ? KVT_OK : read_dtypes(dtypes, model->mtp.dtype, err);
}

static enum kvt_status read_model(const struct kvt_yaml *root, struct kvt_model *model,
                                  struct kvt_err *err)
{
    static const char *const others[] = {"name",       "aliases", "source",
                                         "checkpoint", "groups",  "mtp"};
    KVT_TRY(kvt_yaml_want(root, KVT_YAML_MAP, "a model file", err));
    KVT_TRY(read_fields(root, model_fields, COUNT_OF(model_fields), others, COUNT_OF(others), model,
                        err));
    const struct kvt_yaml *node = kvt_yaml_find(root, "groups");
    if (node == NULL)
        return kvt_err_at(err, KVT_ECONFIG, root->where, "a model file needs the key groups");
    KVT_TRY(read_groups(node, model, err));
    if ((node = kvt_yaml_find(root, "name")) == NULL)
        return kvt_err_at(err, KVT_ECONFIG, root->where, "a model file needs the key name");
    KVT_TRY(kvt_yaml_take_text(node, "name", model->name, sizeof model->name, err));
    if ((node = kvt_yaml_find(root, "source")) != NULL)
        KVT_TRY(kvt_yaml_take_text(node, "source", model->source, sizeof model->source, err));
    if ((node = kvt_yaml_find(root, "aliases")) != NULL)
        KVT_TRY(read_aliases(node, model, err));
    bool sparse = false;
    for (int32_t g = 0; g < model->group_count; g++)
        sparse = sparse || model->groups[g].mlp.experts > 0;
    model->scope4 = sparse ? KVT_QUANT_EXPERTS : KVT_QUANT_LINEARS;
    model->scope8 = KVT_QUANT_LINEARS;
    if ((node = kvt_yaml_find(root, "checkpoint")) != NULL)
        KVT_TRY(read_checkpoint(node, model, err));
    if ((node = kvt_yaml_find(root, "mtp")) != NULL)
        KVT_TRY(read_group(node, &model->mtp, err));
    else if (model->mtp_layers > 0 && model->group_count > 0)
        model->mtp = model->groups[model->group_count - 1];
    model->mtp.count = model->mtp_layers;
    model->mtp.attention.index_shared = false; /* a draft layer has nobody to share with */
    kvt_model_quantise(model, model->weights, kvt_model_scope(model, model->weights));
    return read_exceptions(root, model, err);
}

enum kvt_status kvt_model_parse(struct kvt_model *model, const char *name, const char *text,
                                size_t count, struct kvt_err *err)
{
    struct kvt_arena arena;
    struct kvt_yaml *root;
    *model = (struct kvt_model){0};
    KVT_TRY(kvt_arena_init(&arena, kvt_yaml_room(count), err));
    enum kvt_status status = kvt_yaml_parse(&arena, name, text, count, false, &root, err);
    if (status == KVT_OK)
        status = read_model(root, model, err);
    if (status == KVT_OK) {
        struct kvt_err why = {0};
        status = kvt_model_check(model, &why);
        if (status != KVT_OK)
            kvt_err_at(err, status, root->where, "%s", why.text);
    }
    kvt_arena_release(&arena);
    return status;
}

/* ---- printing ---- */

static void print_fields(FILE *file, const struct field fields[], size_t count, const void *base,
                         const char *indent)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned char *at = (const unsigned char *)base + fields[i].offset;
        if (fields[i].kind == FIELD_BOOL) {
            bool yes;
            memcpy(&yes, at, sizeof yes);
            bool is_default = strcmp(fields[i].key, "gated") == 0 ? yes : !yes;
            if (!is_default)
                fprintf(file, "%s%s: %s\n", indent, fields[i].key, yes ? "true" : "false");
            continue;
        }
        int32_t narrow;
        int64_t value;
        memcpy(&narrow, at, sizeof narrow);
        if (fields[i].kind == FIELD_LONG)
            memcpy(&value, at, sizeof value);
        else
            value = narrow;
        if (value != 0)
            fprintf(file, "%s%s: %lld\n", indent, fields[i].key, (long long)value);
    }
}

static void print_group(FILE *file, const struct kvt_layer_group *group,
                        const struct kvt_layer_group *usual, const char *indent)
{
    char deeper[16];
    struct kvt_attention attention = group->attention;
    if (attention.kind == KVT_ATTENTION_MLA) /* follow from the other keys */
        attention.kv_heads = attention.head_dim = 0;
    else if (attention.v_dim == attention.head_dim)
        attention.v_dim = 0;
    snprintf(deeper, sizeof deeper, "%s  ", indent);
    fprintf(file, "%sattention:\n%skind: %s\n", indent, deeper, attention_names[attention.kind]);
    print_fields(file, attention_fields, COUNT_OF(attention_fields), &attention, deeper);
    fprintf(file, "%smlp:%s\n", indent, group->mlp.inter + group->mlp.experts == 0 ? " {}" : "");
    if (group->mlp.inter + group->mlp.experts > 0)
        print_fields(file, mlp_fields, COUNT_OF(mlp_fields), &group->mlp, deeper);
    bool any = false;
    for (int m = 0; m < KVT_MATRIX_COUNT; m++) {
        if (group->dtype[m] == usual->dtype[m])
            continue;
        if (!any)
            fprintf(file, "%sdtypes:\n", indent);
        any = true;
        fprintf(file, "%s%s: %s\n", deeper, kvt_matrix_names[m],
                kvt_weight_dtype_names[group->dtype[m]]);
    }
}

static void print_head(FILE *file, const struct kvt_model *model)
{
    fputs("name: ", file);
    kvt_yaml_print_quoted(model->name, file);
    if (model->alias_count > 0)
        fputs("\naliases:", file);
    for (int32_t i = 0; i < model->alias_count; i++) {
        fputs("\n  - ", file);
        kvt_yaml_print_quoted(model->aliases[i], file);
    }
    fputs("\nsource: ", file);
    kvt_yaml_print_quoted(model->source, file);
    fputc('\n', file);
    print_fields(file, model_fields, COUNT_OF(model_fields), model, "");
    fprintf(file, "checkpoint:\n  weights: %s\n  head: %s\n",
            kvt_weight_dtype_names[model->weights], kvt_weight_dtype_names[model->head]);
    fprintf(file, "  scope-4bit: %s\n  scope-8bit: %s\n  kv: %s\n", scope_names[model->scope4],
            scope_names[model->scope8], kvt_kv_dtype_names[model->kv]);
}

char *kvt_model_print(const struct kvt_model *model)
{
    char *text = NULL;
    size_t count = 0;
    FILE *file = kvt_memory_open(&text, &count);
    if (file == NULL)
        return NULL;
    struct kvt_model usual = *model;
    kvt_model_quantise(&usual, model->weights, kvt_model_scope(model, model->weights));
    print_head(file, model);
    fputs("groups:\n", file);
    for (int32_t g = 0; g < model->group_count; g++) {
        fprintf(file, "  - count: %d\n", model->groups[g].count);
        print_group(file, &model->groups[g], &usual.groups[g], "    ");
    }
    if (model->mtp_layers > 0) {
        fputs("mtp:\n", file);
        print_group(file, &model->mtp, &usual.mtp, "  ");
    }
    kvt_memory_close(file, &text);
    return text;
}
