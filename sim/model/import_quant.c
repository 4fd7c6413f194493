/*
 * import_quant.c - which module of a checkpoint has which dtype
 *
 * Every format comes down to rules of (pattern, dtype), the first match of a module's name winning,
 * and a dtype for the rest. Patterns are names, names with '*', or "re:" and a regular expression.
 * A name matches a pattern that names it, a module around it ("model.layers.0" holds
 * "model.layers.0.mlp.down_proj") or one whole component of it ("lm_head", "self_attn").
 */
#include <ctype.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/list.h"
#include "sim/model/import.h"

struct rule {
    char *pattern;
    regex_t regex;
    bool is_regex;
    enum kvt_weight_dtype dtype;
};

struct kvt_quant {
    struct rule *rules;
    int32_t rule_count;
    int64_t room;
    enum kvt_weight_dtype rest; /* dtype of linears that no rule names */
    bool experts_only;          /* rest holds for routed experts alone */
};

void kvt_quant_free(struct kvt_quant *quant)
{
    if (quant == NULL)
        return;
    for (int32_t i = 0; i < quant->rule_count; i++) {
        if (quant->rules[i].is_regex)
            regfree(&quant->rules[i].regex);
        free(quant->rules[i].pattern);
    }
    free(quant->rules);
    free(quant);
}

/* Python's regular expression as POSIX has it: \d and non-capturing groups. */
static bool translate(const char *python, char *out, size_t bytes)
{
    size_t used = 0;
    for (const char *c = python; *c != '\0' && used + 8 < bytes; c++) {
        if (strncmp(c, "(?:", 3) == 0) {
            out[used++] = '(';
            c += 2;
        } else if (strncmp(c, "(?", 2) == 0) {
            return false; /* look-ahead has no POSIX form */
        } else if (strncmp(c, "\\d", 2) == 0) {
            used += (size_t)snprintf(out + used, bytes - used, "[0-9]");
            c++;
        } else if (*c == '\\' && c[1] != '\0') {
            out[used++] = *c++;
            out[used++] = *c;
        } else {
            out[used++] = *c;
        }
    }
    out[used] = '\0';
    return true;
}

static enum kvt_status add_rule(struct kvt_import *import, struct kvt_quant *quant,
                                const char *pattern, enum kvt_weight_dtype dtype)
{
    struct rule *rules =
        kvt_list_grow(quant->rules, quant->rule_count, &quant->room, sizeof *rules);
    if (rules == NULL)
        return kvt_err_set(import->err, KVT_ENOMEM, "no memory for the list of modules");
    quant->rules = rules;
    struct rule *rule = &quant->rules[quant->rule_count];
    *rule = (struct rule){.dtype = dtype};
    if (strncmp(pattern, "re:", 3) == 0) {
        char posix[512], anchored[528];
        if (!translate(pattern + 3, posix, sizeof posix)) {
            kvt_import_note(import, "%s: the pattern \"%.120s\" cannot be used", import->quant_name,
                            pattern);
            return KVT_OK;
        }
        snprintf(anchored, sizeof anchored, "^(%s)", posix); /* re.match anchors the start */
        if (regcomp(&rule->regex, anchored, REG_EXTENDED | REG_NOSUB) != 0)
            return kvt_import_fail(import, "%s: \"%.120s\" is no regular expression",
                                   import->quant_name, pattern);
        rule->is_regex = true;
    }
    rule->pattern = strdup(pattern);
    if (rule->pattern == NULL) {
        if (rule->is_regex)
            regfree(&rule->regex);
        return kvt_err_set(import->err, KVT_ENOMEM, "no memory for the list of modules");
    }
    quant->rule_count++;
    return KVT_OK;
}

static bool has_component(const char *name, const char *part)
{
    size_t count = strlen(part);
    if (count == 0)
        return false;
    for (const char *at = strstr(name, part); at != NULL; at = strstr(at + 1, part)) {
        bool starts = at == name || at[-1] == '.', ends = at[count] == '\0' || at[count] == '.';
        if (starts && ends)
            return true;
    }
    return false;
}

static bool matches(const struct rule *rule, const char *name)
{
    if (rule->is_regex)
        return regexec(&rule->regex, name, 0, NULL, 0) == 0;
    if (strpbrk(rule->pattern, "*?[") == NULL)
        return has_component(name, rule->pattern); /* the name, a module around it, a component */
    char inside[512];
    snprintf(inside, sizeof inside, "%s.*", rule->pattern);
    return fnmatch(rule->pattern, name, 0) == 0 || fnmatch(inside, name, 0) == 0;
}

enum kvt_weight_dtype kvt_quant_of(const struct kvt_quant *quant, const char *const names[],
                                   bool router, bool expert)
{
    if (quant == NULL)
        return KVT_WEIGHTS_BF16;
    for (int32_t r = 0; r < quant->rule_count; r++)
        for (size_t n = 0; names[n] != NULL; n++)
            if (matches(&quant->rules[r], names[n]))
                return quant->rules[r].dtype;
    return !router && (expert || !quant->experts_only) ? quant->rest : KVT_WEIGHTS_BF16;
}

/* ---- formats ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static int64_t int_of(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : fallback;
}

static enum kvt_status bits_to_dtype(struct kvt_import *import, int64_t bits, bool is_float,
                                     int64_t group, bool block, enum kvt_weight_dtype *dtype)
{
    *dtype = KVT_WEIGHTS_BF16;
    if (bits == 8) {
        *dtype = block ? KVT_WEIGHTS_FP8_BLOCK : KVT_WEIGHTS_FP8;
        if (!is_float)
            kvt_import_note(import, "%s: int8 is counted as fp8: one byte a weight",
                            import->quant_name);
    } else if (bits == 4 && is_float) {
        *dtype = group == 32 ? KVT_WEIGHTS_MXFP4 : KVT_WEIGHTS_NVFP4;
    } else if (bits == 4) {
        *dtype = group > 0 && group <= 64 ? KVT_WEIGHTS_INT4_G32 : KVT_WEIGHTS_INT4_G128;
        if (group != 32 && group != 128)
            kvt_import_note(import, "%s: groups of %lld are counted as %s", import->quant_name,
                            (long long)group, kvt_weight_dtype_names[*dtype]);
    } else if (bits != 16) {
        return kvt_import_fail(import, "%s: weights of %lld bits cannot be modelled",
                               import->quant_name, (long long)bits);
    }
    return KVT_OK;
}

/* Each string of a list keeps its modules in bf16. */
static enum kvt_status ignore_list(struct kvt_import *import, struct kvt_quant *quant,
                                   const char *key)
{
    const json_t *list = json_object_get(import->quant, key);
    size_t i;
    const json_t *item;
    if (list == NULL || json_is_null(list))
        return KVT_OK;
    if (!json_is_array(list))
        return kvt_import_fail(import, "%s.%s: want a list of modules", import->quant_name, key);
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return kvt_import_fail(import, "%s.%s: want names of modules", import->quant_name, key);
        KVT_TRY(add_rule(import, quant, json_string_value(item), KVT_WEIGHTS_BF16));
    }
    return KVT_OK;
}

static enum kvt_status ignore_lists(struct kvt_import *import, struct kvt_quant *quant)
{
    static const char *const keys[] = {"ignore", "exclude_modules", "exclude", "ignored_layers",
                                       "modules_to_not_convert"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        KVT_TRY(ignore_list(import, quant, keys[i]));
    return KVT_OK;
}

/* The weights of a compressed-tensors group. */
static enum kvt_status scheme_dtype(struct kvt_import *import, const json_t *weights,
                                    enum kvt_weight_dtype *dtype)
{
    *dtype = KVT_WEIGHTS_BF16;
    if (!json_is_object(weights))
        return KVT_OK; /* only activations are quantised */
    const char *type = text_of(weights, "type"), *strategy = text_of(weights, "strategy");
    bool block = strcmp(strategy, "block") == 0 ||
                 json_is_array(json_object_get(weights, "block_structure"));
    return bits_to_dtype(import, int_of(weights, "num_bits", 0), strcmp(type, "float") == 0,
                         int_of(weights, "group_size", -1), block, dtype);
}

static enum kvt_status read_groups(struct kvt_import *import, struct kvt_quant *quant)
{
    const char *name;
    json_t *group;
    json_object_foreach(json_object_get(import->quant, "config_groups"), name, group)
    {
        enum kvt_weight_dtype dtype;
        KVT_TRY(scheme_dtype(import, json_object_get(group, "weights"), &dtype));
        const json_t *targets = json_object_get(group, "targets");
        size_t i;
        const json_t *target;
        json_array_foreach(targets, i, target)
        {
            const char *text = json_string_value(target);
            if (text == NULL)
                return kvt_import_fail(import, "%s.config_groups.%s.targets: want names",
                                       import->quant_name, name);
            if (strncmp(text, "re:", 3) == 0 || strchr(text, '.') != NULL)
                KVT_TRY(add_rule(import, quant, text, dtype));
            else /* a class of modules: Linear */
                quant->rest = dtype;
        }
        if (!json_is_array(targets))
            quant->rest = dtype;
    }
    return KVT_OK;
}

static enum kvt_status algo_dtype(struct kvt_import *import, const char *algo,
                                  enum kvt_weight_dtype *dtype)
{
    *dtype = KVT_WEIGHTS_BF16;
    static const struct {
        const char *algo;
        enum kvt_weight_dtype dtype;
    } known[] = {
        {"FP8", KVT_WEIGHTS_FP8},
        {"FP8_PER_CHANNEL_PER_TOKEN", KVT_WEIGHTS_FP8},
        {"FP8_PB_WO", KVT_WEIGHTS_FP8_BLOCK},
        {"FP8_BLOCK_SCALES", KVT_WEIGHTS_FP8_BLOCK},
        {"W4A16_NVFP4", KVT_WEIGHTS_NVFP4},
        {"W4A8_NVFP4_FP8", KVT_WEIGHTS_NVFP4},
        {"NVFP4", KVT_WEIGHTS_NVFP4},
        {"NVFP4_AWQ", KVT_WEIGHTS_NVFP4},
        {"W4A8_MXFP4_FP8", KVT_WEIGHTS_MXFP4},
        {"MXFP4", KVT_WEIGHTS_MXFP4},
        {"MXFP8", KVT_WEIGHTS_FP8},
        {"W8A8_SQ_PER_CHANNEL", KVT_WEIGHTS_FP8},
        {"W8A16", KVT_WEIGHTS_FP8},
        {"W4A16_AWQ", KVT_WEIGHTS_INT4_G128},
        {"W4A8_AWQ", KVT_WEIGHTS_INT4_G128},
        {"W4A16", KVT_WEIGHTS_INT4_G128},
        {"INT4_AWQ", KVT_WEIGHTS_INT4_G128},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(algo, known[i].algo) == 0) {
            *dtype = known[i].dtype;
            return KVT_OK;
        }
    }
    return kvt_import_fail(import, "%s: quant_algo \"%.60s\" cannot be modelled",
                           import->quant_name, algo);
}

/* "MIXED_PRECISION": each module is listed with its own algorithm; what is not listed is bf16. */
static enum kvt_status read_mixed(struct kvt_import *import, struct kvt_quant *quant)
{
    const char *name;
    json_t *layer;
    json_t *layers = json_object_get(import->quant, "quantized_layers");
    if (!json_is_object(layers) || json_object_size(layers) == 0)
        return kvt_import_fail(import, "%s: quant_algo \"MIXED_PRECISION\" needs quantized_layers",
                               import->quant_name);
    json_object_foreach(layers, name, layer)
    {
        enum kvt_weight_dtype dtype;
        KVT_TRY(algo_dtype(import, text_of(layer, "quant_algo"), &dtype));
        KVT_TRY(add_rule(import, quant, name, dtype));
    }
    return KVT_OK;
}

static enum kvt_status read_modelopt(struct kvt_import *import, struct kvt_quant *quant)
{
    const char *algo = text_of(import->quant, "quant_algo");
    enum kvt_weight_dtype dtype;
    if (strcmp(algo, "MIXED_PRECISION") == 0)
        return read_mixed(import, quant);
    if (algo[0] == '\0' && json_is_object(json_object_get(import->quant, "config_groups")))
        return read_groups(import, quant);
    if (algo[0] == '\0' && json_is_null(json_object_get(import->quant, "quant_algo")))
        return KVT_OK; /* only the KV cache is quantised */
    KVT_TRY(algo_dtype(import, algo, &dtype));
    quant->rest = dtype;
    return KVT_OK;
}

/* GPTQ, AWQ and their kin: bits, a group size; routers stay. */
static enum kvt_status read_weight_only(struct kvt_import *import, struct kvt_quant *quant)
{
    enum kvt_weight_dtype dtype;
    int64_t bits = int_of(import->quant, "bits", int_of(import->quant, "w_bit", 4));
    int64_t group = int_of(import->quant, "group_size", int_of(import->quant, "q_group_size", 128));
    KVT_TRY(bits_to_dtype(import, bits, false, group, false, &dtype));
    if (json_is_true(json_object_get(import->quant, "zero_point")) ||
        json_is_false(json_object_get(import->quant, "sym")))
        kvt_import_note(import, "%s: zero points (4 bits a group) are not counted",
                        import->quant_name);
    if (json_object_size(json_object_get(import->quant, "dynamic")) > 0)
        kvt_import_note(import, "%s.dynamic: exceptions per module are not used",
                        import->quant_name);
    quant->rest = dtype;
    return KVT_OK;
}

static enum kvt_status read_fp8(struct kvt_import *import, struct kvt_quant *quant)
{
    bool block = json_is_array(json_object_get(import->quant, "weight_block_size"));
    quant->rest = block ? KVT_WEIGHTS_FP8_BLOCK : KVT_WEIGHTS_FP8;
    return KVT_OK;
}

static enum kvt_status read_mxfp4(struct kvt_import *import, struct kvt_quant *quant)
{
    (void)import;
    quant->rest = KVT_WEIGHTS_MXFP4;
    quant->experts_only = true;
    return KVT_OK;
}

static enum kvt_status read_quark(struct kvt_import *import, struct kvt_quant *quant)
{
    const json_t *weight =
        json_object_get(json_object_get(import->quant, "global_quant_config"), "weight");
    if (json_is_array(weight))
        weight = json_array_get(weight, 0);
    const char *dtype = text_of(weight, "dtype");
    if (json_object_size(json_object_get(import->quant, "layer_quant_config")) > 0)
        kvt_import_note(import, "%s.layer_quant_config: exceptions per layer are not used",
                        import->quant_name);
    if (strcmp(dtype, "fp4") == 0 || strcmp(dtype, "mxfp4") == 0)
        quant->rest = KVT_WEIGHTS_MXFP4;
    else if (strncmp(dtype, "fp8", 3) == 0 || strncmp(dtype, "int8", 4) == 0)
        quant->rest = KVT_WEIGHTS_FP8;
    else if (strcmp(dtype, "int4") == 0 || strcmp(dtype, "uint4") == 0)
        quant->rest = KVT_WEIGHTS_INT4_G128;
    else
        return kvt_import_fail(import,
                               "%s: global_quant_config.weight.dtype \"%.60s\" cannot be modelled",
                               import->quant_name, dtype);
    return KVT_OK;
}

struct method {
    const char *name;
    enum kvt_status (*read)(struct kvt_import *import, struct kvt_quant *quant);
};

static const struct method methods[] = {
    {"fp8", read_fp8},
    {"fbgemm_fp8", read_fp8},
    {"w8a8_fp8", read_fp8},
    {"mxfp4", read_mxfp4},
    {"compressed-tensors", read_groups},
    {"modelopt", read_modelopt},
    {"modelopt_fp4", read_modelopt},
    {"modelopt_fp8", read_modelopt},
    {"modelopt_mixed", read_modelopt},
    {"gptq", read_weight_only},
    {"gptq_marlin", read_weight_only},
    {"awq", read_weight_only},
    {"awq_marlin", read_weight_only},
    {"auto-round", read_weight_only},
    {"quark", read_quark},
};

static enum kvt_status read_kv(struct kvt_import *import, enum kvt_kv_dtype *kv)
{
    const char *algo = text_of(import->quant, "kv_cache_quant_algo");
    const json_t *scheme = json_object_get(import->quant, "kv_cache_scheme");
    int64_t bits = json_is_object(scheme) ? int_of(scheme, "num_bits", 0) : 0;
    if (strcmp(algo, "FP8") == 0 || strcmp(algo, "INT8") == 0 || bits == 8 ||
        (json_is_string(scheme) && strstr(json_string_value(scheme), "FP8") != NULL))
        *kv = KVT_KV_FP8;
    else if (strcmp(algo, "NVFP4") == 0 || bits == 4)
        *kv = KVT_KV_NVFP4;
    else if (algo[0] != '\0' || bits != 0)
        return kvt_import_fail(import, "%s: a KV cache of \"%.40s\" cannot be modelled",
                               import->quant_name, algo[0] != '\0' ? algo : "that many bits");
    return KVT_OK;
}

enum kvt_status kvt_quant_read(struct kvt_import *import, struct kvt_quant **out,
                               enum kvt_kv_dtype *kv)
{
    *out = NULL;
    if (import->quant == NULL)
        return KVT_OK;
    const char *name = text_of(import->quant, "quant_method");
    const char *algo = text_of(import->quant, "quant_algo");
    if (json_object_get(import->quant, "quant_algo") != NULL && strcmp(name, "fp8") != 0)
        name = "modelopt"; /* hf_quant_config.json has no method */
    if (strcmp(name, "fp8") == 0 && strcmp(algo, "MIXED_PRECISION") == 0)
        name = "modelopt";
    const struct method *method = NULL;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0)
            method = &methods[i];
    if (method == NULL)
        return kvt_import_fail(import, "%s: quant_method \"%.60s\" cannot be modelled",
                               import->quant_name, name);
    struct kvt_quant *quant = *out = calloc(1, sizeof *quant);
    if (quant == NULL)
        return kvt_err_set(import->err, KVT_ENOMEM, "no memory for the quantisation");
    KVT_TRY(ignore_lists(import, quant)); /* before the groups: the first match wins */
    KVT_TRY(method->read(import, quant));
    return read_kv(import, kv);
}
