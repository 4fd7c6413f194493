/* From the tree to the struct: one walk over the file, guided by the schema. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/file.h"
#include "sim/config/schema.h"

#define CANDIDATES_MAX 64

struct reader {
    struct kvt_config *config; /* filled: the caller's, or a copy in which a choice is tried */
    struct kvt_config_store *store;
    struct kvt_err *err;
    bool in_domain;
};

static void read_value(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                       void *base, const char *path);

__attribute__((format(printf, 4, 5))) static void
complain(struct reader *r, struct kvt_where where, const char *path, const char *format, ...)
{
    char text[560];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    kvt_err_at(r->err, KVT_ECONFIG, where, "%s%s%s", path, path[0] != '\0' ? ": " : "", text);
}

static void path_below(char out[KVT_PATH_BYTES], const char *path, const char *key)
{
    char quote[KVT_QUOTE_BYTES];
    snprintf(out, KVT_PATH_BYTES, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "",
             kvt_yaml_quote(key, quote));
}

static void complain_want(struct reader *r, const struct kvt_rule *rule,
                          const struct kvt_yaml *node, const char *path)
{
    char want[400], got[KVT_QUOTE_BYTES];
    complain(r, node->where, path, "want %s, got %s", kvt_rule_want(rule, want, sizeof want),
             kvt_yaml_describe(node, got));
}

/* ---- sections ---- */

/* Every spelling that section knows, those of its aliases included. */
static size_t candidates_add(const struct kvt_rule *section, bool aliases_only,
                             struct kvt_config_store *store, const char *names[], size_t count)
{
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++) {
        if (!aliases_only && count < CANDIDATES_MAX)
            names[count++] = child->key;
        if (child->kind == KVT_RULE_SECTION && (section->flags & KVT_HAS_ALIASES) != 0)
            count = candidates_add(child, true, store, names, count);
        if (child->aliases == NULL || (!aliases_only && (section->flags & KVT_HAS_ALIASES) == 0))
            continue;
        char *words = kvt_store_text(store, child->aliases);
        while (words != NULL && count < CANDIDATES_MAX) {
            names[count++] = words;
            words = strchr(words, ' ');
            if (words != NULL)
                *words++ = '\0';
        }
    }
    return count;
}

static void complain_unknown(struct reader *r, const struct kvt_rule *section,
                             const struct kvt_yaml *child, const char *path)
{
    const char *names[CANDIDATES_MAX];
    char list[320] = "";
    size_t used = 0, count = candidates_add(section, false, r->store, names, 0);
    const char *near = kvt_nearest_name(child->key, names, count);
    if (near != NULL) {
        complain(r, child->key_where, path, "unknown key; did you mean \"%s\"?", near);
        return;
    }
    for (const struct kvt_rule *known = section->children; known->key != NULL; known++) {
        int wrote =
            snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", known->key);
        used += (size_t)wrote < sizeof list - used ? (size_t)wrote : 0;
    }
    complain(r, child->key_where, path, "unknown key; want %s%s", used > 0 ? "one of " : "no key",
             list);
}

/* Keys that must be there, and keys of which one excludes the others. */
static void check_presence(struct reader *r, const struct kvt_rule *section,
                           const struct kvt_yaml *node, const char *path)
{
    const struct kvt_yaml *chosen = NULL;
    char below[KVT_PATH_BYTES], options[320] = "";
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        const struct kvt_rule *rule = kvt_rule_child(section, child->key);
        if (rule == NULL || (rule->flags & KVT_ONE_OF) == 0)
            continue;
        path_below(below, path, child->key);
        if (chosen != NULL)
            complain(r, child->key_where, below, "excludes %s, which is given too at %d:%d",
                     chosen->key, chosen->key_where.line, chosen->key_where.column);
        else
            chosen = child;
    }
    for (const struct kvt_rule *rule = section->children; rule->key != NULL; rule++) {
        size_t used = strlen(options);
        if (rule->flags & KVT_ONE_OF)
            snprintf(options + used, sizeof options - used, "%s%s", used > 0 ? ", " : "",
                     rule->key);
        if ((rule->flags & KVT_REQUIRED) == 0 || kvt_yaml_find(node, rule->key) != NULL)
            continue;
        path_below(below, path, rule->key);
        complain(r, node->where, below, "is missing; want %s", rule->help);
    }
    if ((section->flags & KVT_NEED_ONE) != 0 && chosen == NULL)
        complain(r, node->where, path, "want one of %s, got none of them", options);
}

static void read_map(struct reader *r, const struct kvt_rule *section, const struct kvt_yaml *node,
                     void *base, const char *path)
{
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        char below[KVT_PATH_BYTES];
        path_below(below, path, child->key);
        const struct kvt_rule *rule = kvt_rule_child(section, child->key);
        if (rule != NULL)
            read_value(r, rule, child, base, below);
        else
            complain_unknown(r, section, child, below);
    }
    check_presence(r, section, node, path);
}

/* A scalar in the place of a map: names of children, joined by + where that is allowed. */
static void read_by_name(struct reader *r, const struct kvt_rule *section,
                         const struct kvt_yaml *node, void *base, const char *path)
{
    const char *names[CANDIDATES_MAX];
    size_t count = 0;
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++)
        names[count++] = child->key;
    for (const char *at = node->text; at != NULL;) {
        bool joins = (section->flags & KVT_NAMES_JOIN) != 0;
        size_t length = joins ? strcspn(at, "+") : strlen(at);
        char name[KVT_QUOTE_BYTES], quote[KVT_QUOTE_BYTES], below[KVT_PATH_BYTES];
        snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 90, at);
        at = joins && at[length] == '+' ? at + length + 1 : NULL;
        const struct kvt_rule *child = kvt_rule_child(section, name);
        if (child == NULL) {
            const char *near = name[0] != '\0' ? kvt_nearest_name(name, names, count) : NULL;
            complain(r, node->where, path, "unknown name \"%s\"; %s%s%s",
                     kvt_yaml_quote(name, quote), near != NULL ? "did you mean \"" : "see `kvtwin",
                     near != NULL ? near : " config reference`", near != NULL ? "\"?" : "");
            continue;
        }
        const struct kvt_yaml empty = {
            .kind = KVT_YAML_MAP, .text = "", .where = node->where, .key_where = node->where};
        path_below(below, path, name);
        read_value(r, child, &empty, base, below);
    }
}

static void read_section(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                         void *base, const char *path)
{
    bool scalar = node->kind == KVT_YAML_SCALAR && !kvt_yaml_is_null(node);
    bool is_mark = rule->given > 0 || rule->chosen > 0; /* the bare key says something */
    if (node->kind == KVT_YAML_MAP || (is_mark && kvt_yaml_is_null(node))) {
        read_map(r, rule, node, base, path);
    } else if (scalar && rule->shorthand != NULL) {
        read_value(r, kvt_rule_child(rule, rule->shorthand), node, base, path);
    } else if (scalar && (rule->flags & KVT_SCALAR_NAMES) != 0) {
        read_by_name(r, rule, node, base, path);
    } else {
        complain_want(r, rule, node, path);
    }
}

/* ---- maps with free keys, and rows ---- */

/* 0 for "mean", 0.99 for "p99"; -1 when key is neither. */
static double target_percentile(const char *key)
{
    double percent;
    if (strcmp(key, "mean") == 0)
        return 0;
    if (key[0] != 'p' || strlen(key) > 16 || kvt_double_parse(key + 1, &percent, NULL) != KVT_OK)
        return -1;
    return percent > 0 && percent < 100 && key[1] != '+' ? percent / 100 : -1;
}

static void read_target(struct reader *r, const struct kvt_yaml *node,
                        struct kvt_config_target *target, const char *path)
{
    const struct kvt_rule seconds = {
        .kind = KVT_RULE_REAL, .dimension = KVT_DIMENSION_TIME, .flags = KVT_ABOVE};
    *target = (struct kvt_config_target){0};
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        char below[KVT_PATH_BYTES];
        path_below(below, path, child->key);
        double percentile = target_percentile(child->key);
        if (percentile < 0) {
            complain(r, child->key_where, below,
                     "want mean or a percentile above 0 and below 100 such as p99.9");
            continue;
        }
        if (target->count == KVT_PERCENTILES_MAX) {
            complain(r, child->key_where, below, "want at most %d targets of one metric",
                     KVT_PERCENTILES_MAX);
            return;
        }
        struct kvt_complaint why;
        target->percentile[target->count] = percentile;
        if (kvt_value_parse(&seconds, child, &target->seconds[target->count], r->store, &why))
            target->count++;
        else
            complain(r, child->where, below, "%s", why.text);
    }
}

static void read_named(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                       struct kvt_config_named *named, const char *path)
{
    struct kvt_rule value = *rule;
    *named = (struct kvt_config_named){0};
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        struct kvt_complaint why;
        char below[KVT_PATH_BYTES];
        path_below(below, path, child->key);
        if (named->count == KVT_NAMED_MAX) {
            complain(r, child->key_where, below, "want at most %d entries", KVT_NAMED_MAX);
            return;
        }
        int32_t i = named->count;
        named->key[i] = child->key;
        named->where[i] = child->where;
        named->value[i] = -1;
        value.kind = KVT_RULE_REAL;
        void *field = &named->value[i];
        if (rule->kind == KVT_RULE_NAMED_TEXT) {
            bool is_path = child->kind == KVT_YAML_SCALAR && strchr(child->text, '/') != NULL;
            value.kind = is_path ? KVT_RULE_PATH : KVT_RULE_TEXT;
            field = &named->text[i];
        }
        if (kvt_value_parse(&value, child, field, r->store, &why))
            named->count++;
        else
            complain(r, child->where, below, "%s", why.text);
    }
}

static void read_rows(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                      struct kvt_config_published *rows, const char *path)
{
    struct kvt_rule row_rule = *rule;
    row_rule.kind = KVT_RULE_SECTION;
    *rows = (struct kvt_config_published){0};
    int32_t number = 0;
    for (const struct kvt_yaml *item = node->first; item != NULL; item = item->next, number++) {
        char below[KVT_PATH_BYTES];
        snprintf(below, sizeof below, "%.100s[%d]", path, number);
        if (rows->count == KVT_PUBLISHED_MAX) {
            complain(r, item->where, below, "want at most %d rows", KVT_PUBLISHED_MAX);
            return;
        }
        struct kvt_config_result *row = &rows->rows[rows->count++];
        kvt_value_default(&row_rule, row);
        row->where = item->where;
        read_section(r, &row_rule, item, row, below);
    }
}

/* ---- domains ---- */

static void domain_add(struct reader *r, const char *path, struct kvt_where where,
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
static void choice_print(const struct reader *r, const struct kvt_rule *rule,
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

static const char *choice_text(struct reader *r, const struct kvt_rule *rule,
                               const struct kvt_yaml *node)
{
    char *text = NULL;
    size_t count;
    FILE *out = open_memstream(&text, &count);
    if (out != NULL) {
        choice_print(r, rule, node, out);
        fclose(out);
    }
    const char *kept = text != NULL ? kvt_store_text(r->store, text) : NULL;
    r->store->is_full = r->store->is_full || kept == NULL;
    free(text);
    return kept;
}

/* Try a choice that is not the first in a copy of the configuration: the same rule judges it. */
static void choice_try(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *choice,
                       size_t base_offset, const struct kvt_config *before, const char *path)
{
    struct kvt_config *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        r->store->is_full = true;
        return;
    }
    *copy = *before;
    struct reader inner = {.config = copy, .store = r->store, .err = r->err, .in_domain = true};
    read_value(&inner, rule, choice, (char *)copy + base_offset, path);
    free(copy);
}

static void read_choices(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *list,
                         void *base, const char *path)
{
    if (list->kind != KVT_YAML_LIST || list->count == 0 || list->count > KVT_DOMAIN_CHOICES_MAX) {
        char got[KVT_QUOTE_BYTES];
        complain(r, list->where, path, "want a list of 1 to %d choices, got %s",
                 KVT_DOMAIN_CHOICES_MAX,
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
                read_value(r, rule, item, base, path);
            else
                choice_try(r, rule, item, base_offset, before, path);
        }
        r->in_domain = false;
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

static void range_enumerate(struct reader *r, const struct kvt_rule *rule,
                            const struct kvt_yaml *node, const struct range *range,
                            struct kvt_yaml *list, const char *path)
{
    double steps = floor((range->max - range->min) / range->step * (1 + 1e-12) + 1e-9);
    if (!(steps >= 0) || steps >= KVT_DOMAIN_CHOICES_MAX) {
        complain(r, node->where, path, "want min <= max and at most %d values in a range",
                 KVT_DOMAIN_CHOICES_MAX);
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

static void read_range(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                       void *base, const char *path)
{
    bool is_number =
        rule->kind == KVT_RULE_INT32 || rule->kind == KVT_RULE_INT64 || rule->kind == KVT_RULE_REAL;
    if (!is_number) {
        complain(r, node->where, path, "want choices; a range is for numbers");
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
        complain_want(r, &section, node, path);
        return;
    }
    int32_t errors = r->err->count;
    check_presence(r, &section, node, path);
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        char below[KVT_PATH_BYTES];
        struct kvt_complaint why;
        struct kvt_rule number = *rule;
        path_below(below, path, child->key);
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
            complain_unknown(r, &section, child, below);
        else if (!kvt_value_parse(&number, child, field, r->store, &why))
            complain(r, child->where, below, "%s", why.text);
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

static void read_domain(struct reader *r, const struct kvt_rule *rule,
                        const struct kvt_yaml *domain, void *base, const char *path)
{
    if (r->in_domain) {
        complain(r, domain->where, path, "want a value, got a domain within a domain");
        return;
    }
    if (domain->key != NULL && strcmp(domain->key, "range") == 0) /* not a plain list */
        read_range(r, rule, domain, base, path);
    else
        read_choices(r, rule, domain, base, path);
}

/* ---- any value ---- */

/* base is the struct of the section that holds the key. */
static void read_value(struct reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                       void *base, const char *path)
{
    const struct kvt_yaml *domain = kvt_yaml_domain(rule, node);
    if (domain != NULL) {
        read_domain(r, rule, domain, base, path);
        return;
    }
    char *bytes = base, *field = bytes + rule->offset;
    if (rule->given > 0)
        bytes[rule->given - 1] = true;
    if (rule->chosen > 0)
        memcpy(bytes + rule->chosen - 1, &rule->chosen_value, sizeof rule->chosen_value);
    if (rule->where > 0)
        memcpy(bytes + rule->where - 1, &node->where, sizeof node->where);
    bool is_map = node->kind == KVT_YAML_MAP;
    struct kvt_complaint why;
    if (rule->kind == KVT_RULE_SECTION)
        read_section(r, rule, node, field, path);
    else if (rule->kind == KVT_RULE_TARGET && is_map)
        read_target(r, node, (struct kvt_config_target *)(void *)field, path);
    else if ((rule->kind == KVT_RULE_NAMED || rule->kind == KVT_RULE_NAMED_TEXT) && is_map)
        read_named(r, rule, node, (struct kvt_config_named *)(void *)field, path);
    else if (rule->kind == KVT_RULE_ROWS && node->kind == KVT_YAML_LIST)
        read_rows(r, rule, node, (struct kvt_config_published *)(void *)field, path);
    else if (rule->kind >= KVT_RULE_TARGET)
        complain_want(r, rule, node, path);
    else if (!kvt_value_parse(rule, node, field, r->store, &why))
        complain(r, node->where, path, "%s", why.text);
}

void kvt_config_read(struct kvt_config *config, struct kvt_config_store *store, struct kvt_err *err)
{
    struct reader r = {.config = config, .store = store, .err = err};
    char got[KVT_QUOTE_BYTES];
    kvt_value_default(&kvt_schema, config);
    if (store->root->kind == KVT_YAML_MAP)
        read_map(&r, &kvt_schema, store->root, config, "");
    else
        complain(
            &r, store->root->where, "", "want a mapping with keys such as model and fleet, got %s",
            kvt_yaml_is_null(store->root) ? "an empty file" : kvt_yaml_describe(store->root, got));
}
