/* Domains: a list of choices, or a range, in the place of any value. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/config/read.h"

static void domain_add(struct kvt_reader *r, const char *path, struct kvt_where where,
                       const char **texts, int32_t count)
{
    struct kvt_config_store *store = r->store;
    if (store->domain_count == store->domain_room) {
        int32_t room = store->domain_room * 2 + 8;
        struct kvt_config_domain *grown = kvt_store_take(store, (size_t)room, sizeof *grown);
        if (grown == NULL)
            return;
        if (store->domain_count > 0)
            memcpy(grown, store->domains, (size_t)store->domain_count * sizeof *grown);
        store->domains = grown;
        store->domain_room = room;
    }
    store->domains[store->domain_count++] = (struct kvt_config_domain){
        .path = kvt_store_text(store, path), .count = count, .texts = texts, .where = where};
    if (r->config->domains++ == 0)
        r->config->where_domain = where;
}

/* A choice as YAML that means the same on the command line: its paths are resolved. */
static void choice_print(const struct kvt_reader *r, const struct kvt_rule *rule,
                         const struct kvt_yaml *node, FILE *out)
{
    bool is_scalar = node->kind == KVT_YAML_SCALAR;
    if (rule != NULL && rule->kind == KVT_RULE_SECTION && is_scalar && rule->shorthand != NULL)
        rule = kvt_rule_child(rule, rule->shorthand);
    bool is_path = rule != NULL && is_scalar && node->where.line > 0 &&
                   (rule->kind == KVT_RULE_PATH ||
                    (rule->kind == KVT_RULE_NAMED_TEXT && strchr(node->text, '/') != NULL));
    if (is_path) {
        char *joined = kvt_path_join(r->store->folder, node->text);
        kvt_text_print(joined != NULL ? joined : "", out);
        r->store->is_full = r->store->is_full || joined == NULL;
        free(joined);
        return;
    }
    if (rule == NULL || node->kind != KVT_YAML_MAP) {
        kvt_yaml_print(node, out);
        return;
    }
    fputc('{', out);
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        const struct kvt_rule *below =
            rule->kind == KVT_RULE_SECTION ? kvt_rule_child(rule, child->key) : rule;
        kvt_text_print(child->key, out);
        fputs(": ", out);
        choice_print(r, below, child, out);
        fputs(child->next != NULL ? ", " : "", out);
    }
    fputc('}', out);
}

static const char *choice_text(struct kvt_reader *r, const struct kvt_rule *rule,
                               const struct kvt_yaml *node)
{
    char *text = NULL;
    size_t count;
    FILE *out = kvt_memory_open(&text, &count);
    if (out != NULL) {
        choice_print(r, rule, node, out);
        kvt_memory_close(out, &text);
    }
    const char *kept = text != NULL ? kvt_store_text(r->store, text) : NULL;
    r->store->is_full = r->store->is_full || kept == NULL;
    free(text);
    return kept;
}

/* Try a choice that is not the first in a copy of the configuration: the same rule judges it. */
static void choice_try(struct kvt_reader *r, const struct kvt_rule *rule,
                       const struct kvt_yaml *choice, size_t base_offset,
                       const struct kvt_config *before, const char *path)
{
    struct kvt_config *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        r->store->is_full = true;
        return;
    }
    *copy = *before;
    struct kvt_reader inner = {.config = copy, .store = r->store, .err = r->err, .in_domain = true};
    kvt_read_value(&inner, rule, choice, (char *)copy + base_offset, path);
    free(copy);
}

/* A choice and its place in the list. */
struct choice {
    const char *text;
    const struct kvt_yaml *item;
    int32_t at;
};

static int by_text(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

/* Each point would run twice. */
static void refuse_duplicates(struct kvt_reader *r, const struct kvt_yaml *list,
                              const char *const texts[], const char *path)
{
    char got[KVT_QUOTE_BYTES];
    int32_t count = 0;
    struct choice *choices = malloc((size_t)list->count * sizeof *choices);
    r->store->is_full = r->store->is_full || choices == NULL;
    if (r->store->is_full) {
        free(choices);
        return;
    }
    for (const struct kvt_yaml *item = list->first; item != NULL; item = item->next, count++)
        choices[count] = (struct choice){texts[count], item, count};
    qsort(choices, (size_t)count, sizeof *choices, by_text);
    for (int32_t i = 1; i < count; i++)
        if (strcmp(choices[i - 1].text, choices[i].text) == 0)
            kvt_complain(r, choices[i].item->where, path,
                         "want choices that differ, got %s a second time",
                         kvt_yaml_quote(choices[i].text, got));
    free(choices);
}

static void read_choices(struct kvt_reader *r, const struct kvt_rule *rule,
                         const struct kvt_yaml *list, void *base, const char *path)
{
    if (list->kind != KVT_YAML_LIST || list->count == 0 || list->count > KVT_DOMAIN_CHOICES_MAX) {
        char got[KVT_QUOTE_BYTES];
        kvt_complain(
            r, list->where, path, "want a list of 1 to %d choices, got %s", KVT_DOMAIN_CHOICES_MAX,
            list->kind == KVT_YAML_LIST && list->count == 0 ? "an empty one"
                                                            : kvt_yaml_describe(list, got));
        return;
    }
    size_t base_offset = (size_t)((char *)base - (char *)r->config);
    struct kvt_config *before = malloc(sizeof *before);
    const char **texts = kvt_store_take(r->store, (size_t)list->count, sizeof *texts);
    if (before != NULL && texts != NULL) {
        *before = *r->config;
        int32_t count = 0;
        r->in_domain = true;
        for (const struct kvt_yaml *item = list->first; item != NULL; item = item->next) {
            texts[count] = choice_text(r, rule, item);
            if (count++ == 0)
                kvt_read_value(r, rule, item, base, path);
            else
                choice_try(r, rule, item, base_offset, before, path);
        }
        r->in_domain = false;
        refuse_duplicates(r, list, texts, path);
        domain_add(r, path, list->key != NULL ? list->key_where : list->where, texts, count);
    }
    r->store->is_full = r->store->is_full || before == NULL;
    free(before);
}

/* Value number i of a range; decimal steps stay decimal (0.1, 0.2, 0.3). */
static double range_value(double min, double step, int64_t i)
{
    char text[48];
    snprintf(text, sizeof text, "%.12g", min + step * (double)i);
    return strtod(text, NULL);
}

struct range {
    double min, max, step;
};

static void range_enumerate(struct kvt_reader *r, const struct kvt_rule *rule,
                            const struct kvt_yaml *node, const struct range *range,
                            struct kvt_yaml *list, const char *path)
{
    double steps = floor((range->max - range->min) / range->step * (1 + 1e-12) + 1e-9);
    if (!(steps >= 0)) {
        kvt_complain(r, node->where, path, "want min <= max, got %.12g and %.12g", range->min,
                     range->max);
        return;
    }
    if (steps >= KVT_DOMAIN_CHOICES_MAX) {
        kvt_err_at(r->err, KVT_ELIMIT, node->where,
                   "%s: want at most %d values in a range, got %.12g", path, KVT_DOMAIN_CHOICES_MAX,
                   steps + 1);
        return;
    }
    for (int64_t i = 0; i <= (int64_t)steps; i++) {
        char text[64];
        double value = range_value(range->min, range->step, i);
        enum kvt_dimension dimension = rule->dimension;
        if (dimension == KVT_DIMENSION_NONE)
            snprintf(text, sizeof text, "%.12g", value);
        else
            kvt_quantity_print(value, dimension, text, sizeof text);
        if (rule->kind != KVT_RULE_REAL)
            snprintf(text, sizeof text, "%.0f", value);
        struct kvt_yaml *item = kvt_yaml_new(&r->store->arena, KVT_YAML_SCALAR, node->where);
        char *copy = kvt_store_text(r->store, text);
        if (item == NULL || copy == NULL) {
            r->store->is_full = true;
            return;
        }
        item->text = copy;
        kvt_yaml_append(list, item);
    }
}

static void read_range(struct kvt_reader *r, const struct kvt_rule *rule,
                       const struct kvt_yaml *node, void *base, const char *path)
{
    bool is_number = rule->kind == KVT_RULE_INT32 || rule->kind == KVT_RULE_INT64 ||
                     rule->kind == KVT_RULE_SEED || rule->kind == KVT_RULE_REAL;
    if (!is_number) {
        kvt_complain(r, node->where, path, "want choices; a range is for numbers");
        return;
    }
    static const struct kvt_rule shape[] = {
        {.key = "min", .flags = KVT_REQUIRED, .help = "the first value"},
        {.key = "max", .flags = KVT_REQUIRED, .help = "the value that is not passed"},
        {.key = "step", .flags = KVT_REQUIRED, .help = "the distance of two values"},
        {.key = NULL}};
    const struct kvt_rule section = {.kind = KVT_RULE_SECTION, .children = shape};
    struct range range = {0};
    if (node->kind != KVT_YAML_MAP) {
        kvt_complain_want(r, &section, node, path);
        return;
    }
    int32_t errors = r->err->count;
    kvt_read_presence(r, &section, node, path);
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        char below[KVT_PATH_BYTES];
        struct kvt_complaint why;
        struct kvt_rule number = *rule;
        kvt_path_below(below, path, child->key);
        number.kind = KVT_RULE_REAL;
        number.flags |= rule->kind == KVT_RULE_REAL ? 0 : KVT_WHOLE;
        double *field = strcmp(child->key, "min") == 0 ? &range.min : &range.max;
        if (strcmp(child->key, "step") == 0) {
            field = &range.step;
            number.min = 0;
            number.max = 0;
            number.flags |= KVT_ABOVE;
        }
        if (kvt_rule_child(&section, child->key) == NULL)
            kvt_complain_unknown(r, &section, child, below);
        else if (!kvt_value_parse(&number, child, field, r->store, &why))
            kvt_complain(r, child->where, below, "%s", why.text);
    }
    if (r->err->count > errors)
        return;
    struct kvt_yaml list = {.kind = KVT_YAML_LIST, .where = node->where};
    list.key = node->key;
    list.key_where = node->key_where;
    range_enumerate(r, rule, node, &range, &list, path);
    if (list.count > 0)
        read_choices(r, rule, &list, base, path);
}

void kvt_read_domain(struct kvt_reader *r, const struct kvt_rule *rule,
                     const struct kvt_yaml *domain, void *base, const char *path)
{
    if (r->in_domain) {
        kvt_complain(r, domain->where, path, "want a value, got a domain within a domain");
        return;
    }
    if (r->in_row) { /* no --set names a key of a row */
        kvt_complain(r, domain->where, path,
                     "want a value, got a domain in a row of a list; give choices of whole lists");
        return;
    }
    if (domain->key != NULL && strcmp(domain->key, "range") == 0) /* not a plain list */
        read_range(r, rule, domain, base, path);
    else
        read_choices(r, rule, domain, base, path);
}
