/* Single values: text to field, default to field, field to text. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/config/schema.h"

#define LIST_BYTES     400
#define TEXT_BYTES_MAX 4000

/* ---- what a rule wants ---- */

static void names_join(const struct kvt_rule *rule, char *out, size_t size_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < rule->names_count && used < size_bytes; i++) {
        const char *before = i == 0 ? "" : i + 1 == rule->names_count ? " or " : ", ";
        int wrote = snprintf(out + used, size_bytes - used, "%s%s", before, rule->names[i]);
        used += (size_t)wrote;
    }
}

static const char *want_real(const struct kvt_rule *rule, char *out, size_t size_bytes)
{
    char min[48], max[48];
    enum kvt_dimension dimension = rule->dimension;
    const char *what = kvt_dimension_example(dimension);
    if (dimension == KVT_DIMENSION_NONE && (rule->flags & KVT_WHOLE) != 0)
        what = "a whole number";
    if (rule->flags & KVT_ANY_UNIT)
        what = "a number or a quantity such as \"141 GiB\"";
    kvt_quantity_print(rule->min, dimension, min, sizeof min);
    kvt_quantity_print(rule->max, dimension, max, sizeof max);
    if (dimension == KVT_DIMENSION_NONE) {
        snprintf(min, sizeof min, "%.12g", rule->min);
        snprintf(max, sizeof max, "%.12g", rule->max);
    }
    bool above = (rule->flags & KVT_ABOVE) != 0;
    if (rule->min <= -DBL_MAX)
        snprintf(out, size_bytes, "%s", what);
    else if (rule->max > 0 && !above)
        snprintf(out, size_bytes, "%s from %s to %s", what, min, max);
    else if (rule->max > 0)
        snprintf(out, size_bytes, "%s above %s, at most %s", what, min, max);
    else
        snprintf(out, size_bytes, "%s%s %s", what, above ? " above" : ", at least", min);
    return out;
}

static int64_t int_max(const struct kvt_rule *rule)
{
    int64_t widest = rule->kind == KVT_RULE_INT32 ? INT32_MAX : INT64_MAX;
    return rule->max > 0 && rule->max < (double)widest ? (int64_t)rule->max : widest;
}

const char *kvt_rule_want(const struct kvt_rule *rule, char *out, size_t size_bytes)
{
    char names[LIST_BYTES];
    names_join(rule, names, sizeof names);
    switch (rule->kind) {
    case KVT_RULE_INT32:
    case KVT_RULE_INT64:
        snprintf(out, size_bytes, "a whole number from %" PRId64 " to %" PRId64, (int64_t)rule->min,
                 int_max(rule));
        return out;
    case KVT_RULE_SEED:
        snprintf(out, size_bytes, "a whole number from 0 to 2^64-1");
        return out;
    case KVT_RULE_REAL:
        return want_real(rule, out, size_bytes);
    case KVT_RULE_FLAG:
        snprintf(out, size_bytes, "true or false");
        return out;
    case KVT_RULE_NAME:
        snprintf(out, size_bytes, "one of %s", names);
        return out;
    case KVT_RULE_NAMES:
        snprintf(out, size_bytes, "a list of %s", names);
        return out;
    case KVT_RULE_TEXT:
        snprintf(out, size_bytes, "%s%s", rule->names_count > 0 ? "one of " : "text", names);
        return out;
    case KVT_RULE_PATH:
        snprintf(out, size_bytes, "a path");
        return out;
    case KVT_RULE_TARGET:
        snprintf(out, size_bytes, "a mapping such as {p90: 2 s, mean: 1 s}");
        return out;
    case KVT_RULE_NAMED:
        snprintf(out, size_bytes, "a mapping such as {h200-sxm: 3.5 USD/h}");
        return out;
    case KVT_RULE_NAMED_TEXT:
        snprintf(out, size_bytes, "a mapping such as {h200-sxm: h200-sglang}");
        return out;
    case KVT_RULE_ROWS:
        snprintf(out, size_bytes, "a list of mappings");
        return out;
    case KVT_RULE_SECTION:
        snprintf(out, size_bytes, "a %smapping",
                 (rule->flags & KVT_SCALAR_NAMES) != 0 ? "name or a " : "");
        return out;
    }
    kvt_unreachable();
}

/* ---- text to field ---- */

/* "want ..., got ...": the one form of a complaint about a value. */
static bool refuse(const struct kvt_rule *rule, const struct kvt_yaml *node,
                   struct kvt_complaint *complaint)
{
    char want[LIST_BYTES + 32], got[KVT_QUOTE_BYTES];
    bool is_empty = rule->kind == KVT_RULE_NAMES && node->kind == KVT_YAML_LIST && node->count == 0;
    snprintf(complaint->text, sizeof complaint->text, "want %.350s, got %s",
             kvt_rule_want(rule, want, sizeof want),
             is_empty ? "an empty list" : kvt_yaml_describe(node, got));
    return false;
}

static bool parse_int(const struct kvt_rule *rule, const struct kvt_yaml *node, const char *text,
                      void *field, struct kvt_complaint *complaint)
{
    int64_t value;
    if (kvt_int_parse(text, (int64_t)rule->min, int_max(rule), &value, NULL) != KVT_OK)
        return refuse(rule, node, complaint);
    if (rule->kind == KVT_RULE_INT32)
        *(int32_t *)field = (int32_t)value;
    else
        *(int64_t *)field = value;
    return true;
}

static bool parse_seed(const struct kvt_rule *rule, const struct kvt_yaml *node, const char *text,
                       void *field, struct kvt_complaint *complaint)
{
    if (kvt_seed_parse(text, field, NULL) != KVT_OK)
        return refuse(rule, node, complaint);
    return true;
}

/* A quantity in whatever dimension its unit belongs to. */
static bool parse_any_unit(const char *text, double *value)
{
    for (int d = KVT_DIMENSION_NONE; d <= KVT_DIMENSION_EVENT_RATE; d++)
        if (kvt_quantity_parse(text, (enum kvt_dimension)d, value, NULL) == KVT_OK)
            return true;
    return false;
}

static bool parse_real(const struct kvt_rule *rule, const struct kvt_yaml *node, const char *text,
                       void *field, struct kvt_complaint *complaint)
{
    double value;
    if (rule->flags & KVT_ANY_UNIT) {
        if (!parse_any_unit(text, &value))
            return refuse(rule, node, complaint);
    } else {
        struct kvt_err why = {0}; /* says what is wrong with the unit */
        if (kvt_quantity_parse(text, rule->dimension, &value, &why) != KVT_OK) {
            snprintf(complaint->text, sizeof complaint->text, "%.500s", why.text);
            return false;
        }
    }
    bool low = rule->flags & KVT_ABOVE ? value <= rule->min : value < rule->min;
    bool high = rule->max > 0 && value > rule->max;
    bool broken = (rule->flags & KVT_WHOLE) != 0 && value != floor(value);
    if (low || high || broken || !isfinite(value))
        return refuse(rule, node, complaint);
    *(double *)field = value;
    return true;
}

/* The index of text among the names, synonyms included, or -1. */
static int name_index(const struct kvt_rule *rule, const char *text)
{
    for (const struct kvt_synonym *s = rule->synonyms; s != NULL && s->text != NULL; s++)
        if (strcmp(s->text, text) == 0)
            text = s->means;
    for (size_t i = 0; i < rule->names_count; i++)
        if (strcmp(rule->names[i], text) == 0)
            return (int)i;
    return -1;
}

static bool refuse_name(const struct kvt_rule *rule, const struct kvt_yaml *node,
                        struct kvt_complaint *complaint)
{
    refuse(rule, node, complaint);
    const char *near = node->kind == KVT_YAML_SCALAR && node->text[0] != '\0'
                           ? kvt_nearest_name(node->text, rule->names, rule->names_count)
                           : NULL;
    size_t used = strlen(complaint->text);
    if (near != NULL)
        snprintf(complaint->text + used, sizeof complaint->text - used, "; did you mean \"%s\"?",
                 near);
    return false;
}

static bool parse_name(const struct kvt_rule *rule, const struct kvt_yaml *node, void *field,
                       struct kvt_complaint *complaint)
{
    int index = name_index(rule, node->text);
    if (index < 0)
        return refuse_name(rule, node, complaint);
    memcpy(field, &index, sizeof index);
    return true;
}

static bool parse_names(const struct kvt_rule *rule, const struct kvt_yaml *node, void *field,
                        struct kvt_complaint *complaint)
{
    uint32_t bits = 0;
    if (node->kind != KVT_YAML_LIST || node->count == 0)
        return refuse(rule, node, complaint);
    for (const struct kvt_yaml *item = node->first; item != NULL; item = item->next) {
        int index = item->kind == KVT_YAML_SCALAR ? name_index(rule, item->text) : -1;
        if (index < 0)
            return refuse_name(rule, item, complaint);
        bits |= UINT32_C(1) << index;
    }
    *(uint32_t *)field = bits;
    return true;
}

static bool parse_text(const struct kvt_rule *rule, const struct kvt_yaml *node, void *field,
                       struct kvt_config_store *store, struct kvt_complaint *complaint)
{
    kvt_assert(store != NULL); /* no text of the table has a default, which would need a store */
    if (strlen(node->text) > TEXT_BYTES_MAX) {
        snprintf(complaint->text, sizeof complaint->text, "want at most %d bytes of text, got %zu",
                 TEXT_BYTES_MAX, strlen(node->text));
        return false;
    }
    if (node->text[0] == '\0')
        return refuse(rule, node, complaint);
    if (rule->names_count > 0 && name_index(rule, node->text) < 0)
        return refuse_name(rule, node, complaint);
    /* A path in the file is meant from the file's folder, one on the command line from here. */
    bool in_file = node->where.line > 0;
    const char *folder = rule->kind == KVT_RULE_PATH && in_file ? store->folder : "";
    char *joined = kvt_path_join(folder, node->text);
    *(const char **)field = joined != NULL ? kvt_store_text(store, joined) : NULL;
    store->is_full = store->is_full || joined == NULL; /* told by whoever filled the store */
    free(joined);
    return true;
}

bool kvt_value_parse(const struct kvt_rule *rule, const struct kvt_yaml *node, void *field,
                     struct kvt_config_store *store, struct kvt_complaint *complaint)
{
    if (rule->kind == KVT_RULE_NAMES)
        return parse_names(rule, node, field, complaint);
    if (node->kind != KVT_YAML_SCALAR || kvt_yaml_is_null(node))
        return refuse(rule, node, complaint);
    char text[KVT_QUOTE_BYTES]; /* no number is longer than what a message may quote */
    kvt_yaml_quote(node->text, text);
    switch (rule->kind) {
    case KVT_RULE_INT32:
    case KVT_RULE_INT64:
        return parse_int(rule, node, text, field, complaint);
    case KVT_RULE_SEED:
        return parse_seed(rule, node, text, field, complaint);
    case KVT_RULE_REAL:
        return parse_real(rule, node, text, field, complaint);
    case KVT_RULE_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return refuse(rule, node, complaint);
        *(bool *)field = text[0] == 't';
        return true;
    case KVT_RULE_NAME:
        return parse_name(rule, node, field, complaint);
    case KVT_RULE_TEXT:
    case KVT_RULE_PATH:
        return parse_text(rule, node, field, store, complaint);
    case KVT_RULE_NAMES:
    case KVT_RULE_SECTION:
    case KVT_RULE_TARGET:
    case KVT_RULE_NAMED:
    case KVT_RULE_NAMED_TEXT:
    case KVT_RULE_ROWS:
        break;
    }
    kvt_unreachable();
}

/* ---- defaults ---- */

static void default_names(const struct kvt_rule *rule, void *field)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < rule->names_count; i++)
        if (strstr(rule->standard, rule->names[i]) != NULL)
            bits |= UINT32_C(1) << i;
    *(uint32_t *)field = bits;
}

void kvt_value_default(const struct kvt_rule *rule, void *field)
{
    struct kvt_complaint complaint;
    struct kvt_yaml node = {.kind = KVT_YAML_SCALAR, .text = rule->standard};
    if (rule->kind == KVT_RULE_SECTION) {
        for (const struct kvt_rule *child = rule->children; child->key != NULL; child++)
            kvt_value_default(child, (char *)field + child->offset);
    } else if (rule->kind == KVT_RULE_NAMES) {
        default_names(rule, field);
    } else if (rule->standard != NULL) {
        bool fits = kvt_value_parse(rule, &node, field, NULL, &complaint);
        kvt_assert(fits); /* the table's own defaults obey the table */
    } else if (rule->kind == KVT_RULE_INT32) {
        *(int32_t *)field = KVT_UNSET;
    } else if (rule->kind == KVT_RULE_INT64) {
        *(int64_t *)field = KVT_UNSET;
    } else if (rule->kind == KVT_RULE_REAL) {
        *(double *)field = -1;
    }
}

/* ---- field to text ---- */

/* Whether plain YAML gives text back as the same scalar, inside and outside of flow. */
static bool text_is_plain(const char *text)
{
    size_t plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./+- ");
    const struct kvt_yaml node = {.kind = KVT_YAML_SCALAR, .text = text};
    return text[0] != '\0' && text[plain] == '\0' && text[0] != '-' && text[0] != '.' &&
           text[0] != ' ' && text[plain - 1] != ' ' && !kvt_yaml_is_null(&node);
}

void kvt_text_print(const char *text, FILE *out)
{
    if (text_is_plain(text)) {
        fputs(text, out);
        return;
    }
    kvt_yaml_print_quoted(text, out);
}

void kvt_yaml_print(const struct kvt_yaml *node, FILE *out)
{
    switch (node->kind) {
    case KVT_YAML_SCALAR:
        if (kvt_yaml_is_null(node))
            fputs("null", out);
        else
            kvt_text_print(node->text, out);
        return;
    case KVT_YAML_LIST:
    case KVT_YAML_MAP:
        break;
    }
    fputc(node->kind == KVT_YAML_LIST ? '[' : '{', out);
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        if (child->key != NULL) {
            kvt_text_print(child->key, out);
            fputs(": ", out);
        }
        kvt_yaml_print(child, out);
        fputs(child->next != NULL ? ", " : "", out);
    }
    fputc(node->kind == KVT_YAML_LIST ? ']' : '}', out);
}

static void print_target(const struct kvt_config_target *target, FILE *out)
{
    char text[48];
    fputc('{', out);
    for (int32_t i = 0; i < target->count; i++) {
        fputs(i > 0 ? ", " : "", out);
        if (target->percentile[i] > 0)
            fprintf(out, "p%.10g", target->percentile[i] * 100);
        else
            fputs("mean", out);
        fprintf(out, ": %s",
                kvt_quantity_print(target->seconds[i], KVT_DIMENSION_TIME, text, sizeof text));
    }
    fputc('}', out);
}

static void print_named(const struct kvt_rule *rule, const struct kvt_config_named *named,
                        FILE *out)
{
    char text[48];
    fputc('{', out);
    for (int32_t i = 0; i < named->count; i++) {
        fputs(i > 0 ? ", " : "", out);
        kvt_text_print(named->key[i], out);
        fputs(": ", out);
        if (rule->kind == KVT_RULE_NAMED)
            fputs(kvt_quantity_print(named->value[i], rule->dimension, text, sizeof text), out);
        else
            kvt_text_print(named->text[i], out);
    }
    fputc('}', out);
}

static bool print_int(int64_t value, FILE *out)
{
    if (value == KVT_UNSET)
        return false;
    fprintf(out, "%" PRId64, value);
    return true;
}

static bool print_real(const struct kvt_rule *rule, double value, FILE *out)
{
    char text[48], back[48];
    if (value < 0 && rule->min >= 0)
        return false;
    if (rule->dimension == KVT_DIMENSION_NONE && value == floor(value) && fabs(value) < 1e15) {
        fprintf(out, "%.0f", value);
        return true;
    }
    if (rule->dimension == KVT_DIMENSION_NONE) {
        for (int digits = 6; digits <= 17; digits++) { /* the shortest that reads back equal */
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value)
                break;
        }
        fputs(text, out);
        return true;
    }
    fputs(kvt_quantity_print(value, rule->dimension, back, sizeof back), out);
    return true;
}

static void print_names(const struct kvt_rule *rule, uint32_t bits, FILE *out)
{
    const char *before = "[";
    for (size_t i = 0; i < rule->names_count; i++) {
        if ((bits >> i & 1) == 0)
            continue;
        fprintf(out, "%s%s", before, rule->names[i]);
        before = ", ";
    }
    fputc(']', out);
}

bool kvt_value_print(const struct kvt_rule *rule, const void *field, FILE *out)
{
    int index;
    switch (rule->kind) {
    case KVT_RULE_INT32:
        return print_int(*(const int32_t *)field, out);
    case KVT_RULE_INT64:
        return print_int(*(const int64_t *)field, out);
    case KVT_RULE_SEED:
        fprintf(out, "%" PRIu64, *(const uint64_t *)field);
        return true;
    case KVT_RULE_REAL:
        return print_real(rule, *(const double *)field, out);
    case KVT_RULE_FLAG:
        fputs(*(const bool *)field ? "true" : "false", out);
        return true;
    case KVT_RULE_NAME:
        memcpy(&index, field, sizeof index);
        fputs(rule->names[index], out);
        return true;
    case KVT_RULE_NAMES:
        print_names(rule, *(const uint32_t *)field, out);
        return true;
    case KVT_RULE_TEXT:
    case KVT_RULE_PATH:
        if (*(const char *const *)field == NULL)
            return false;
        kvt_text_print(*(const char *const *)field, out);
        return true;
    case KVT_RULE_TARGET:
        if (((const struct kvt_config_target *)field)->count == 0)
            return false;
        print_target(field, out);
        return true;
    case KVT_RULE_NAMED:
    case KVT_RULE_NAMED_TEXT:
        if (((const struct kvt_config_named *)field)->count == 0)
            return false;
        print_named(rule, field, out);
        return true;
    case KVT_RULE_SECTION:
    case KVT_RULE_ROWS:
        break;
    }
    kvt_unreachable();
}
