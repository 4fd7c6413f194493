/* From the tree to the struct: one walk over the file, guided by the schema. */
#include <stdarg.h>
#include <string.h>

#include "sim/base/spelling.h"
#include "sim/config/read.h"

#define CANDIDATES_MAX 64

void kvt_complain(struct kvt_reader *r, struct kvt_where where, const char *path,
                  const char *format, ...)
{
    char text[560];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    kvt_err_at(r->err, KVT_ECONFIG, where, "%s%s%s", path, path[0] != '\0' ? ": " : "", text);
}

void kvt_path_below(char out[KVT_PATH_BYTES], const char *path, const char *key)
{
    char quote[KVT_QUOTE_BYTES];
    snprintf(out, KVT_PATH_BYTES, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "",
             kvt_yaml_quote(key, quote));
}

void kvt_complain_want(struct kvt_reader *r, const struct kvt_rule *rule,
                       const struct kvt_yaml *node, const char *path)
{
    char want[400], got[KVT_QUOTE_BYTES];
    kvt_complain(r, node->where, path, "want %s, got %s", kvt_rule_want(rule, want, sizeof want),
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

void kvt_complain_unknown(struct kvt_reader *r, const struct kvt_rule *section,
                          const struct kvt_yaml *child, const char *path)
{
    const char *names[CANDIDATES_MAX];
    char list[320] = "";
    size_t used = 0, count = candidates_add(section, false, r->store, names, 0);
    const char *near = kvt_nearest_name(child->key, names, count);
    if (near != NULL) {
        kvt_complain(r, child->key_where, path, "unknown key; did you mean \"%s\"?", near);
        return;
    }
    for (const struct kvt_rule *known = section->children; known->key != NULL; known++) {
        int wrote =
            snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", known->key);
        used += (size_t)wrote < sizeof list - used ? (size_t)wrote : 0;
    }
    kvt_complain(r, child->key_where, path, "unknown key; want %s%s",
                 used > 0 ? "one of " : "no key", list);
}

void kvt_read_presence(struct kvt_reader *r, const struct kvt_rule *section,
                       const struct kvt_yaml *node, const char *path)
{
    const struct kvt_yaml *chosen = NULL;
    char below[KVT_PATH_BYTES], options[320] = "";
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        const struct kvt_rule *rule = kvt_rule_child(section, child->key);
        if (rule == NULL || (rule->flags & KVT_ONE_OF) == 0)
            continue;
        kvt_path_below(below, path, child->key);
        char place[48] = "";
        if (chosen != NULL && chosen->key_where.line > 0)
            snprintf(place, sizeof place, " at %d:%d", chosen->key_where.line,
                     chosen->key_where.column);
        if (chosen != NULL)
            kvt_complain(r, child->key_where, below, "excludes %s, which is given too%s",
                         chosen->key, place);
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
        kvt_path_below(below, path, rule->key);
        kvt_complain(r, node->where, below, "is missing; want %s", rule->help);
    }
    if ((section->flags & KVT_NEED_ONE) != 0 && chosen == NULL)
        kvt_complain(r, node->where, path, "want one of %s, got none of them", options);
}

static void read_map(struct kvt_reader *r, const struct kvt_rule *section,
                     const struct kvt_yaml *node, void *base, const char *path)
{
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        char below[KVT_PATH_BYTES];
        kvt_path_below(below, path, child->key);
        const struct kvt_rule *rule = kvt_rule_child(section, child->key);
        if (rule != NULL)
            kvt_read_value(r, rule, child, base, below);
        else
            kvt_complain_unknown(r, section, child, below);
    }
    kvt_read_presence(r, section, node, path);
}

/* A scalar in the place of a map: names of children, joined by + where that is allowed. */
static void read_by_name(struct kvt_reader *r, const struct kvt_rule *section,
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
            kvt_complain(r, node->where, path, "unknown name \"%s\"; %s%s%s",
                         kvt_yaml_quote(name, quote),
                         near != NULL ? "did you mean \"" : "see `kvtwin",
                         near != NULL ? near : " config reference`", near != NULL ? "\"?" : "");
            continue;
        }
        const struct kvt_yaml empty = {
            .kind = KVT_YAML_MAP, .text = "", .where = node->where, .key_where = node->where};
        kvt_path_below(below, path, name);
        kvt_read_value(r, child, &empty, base, below);
    }
}

static void read_section(struct kvt_reader *r, const struct kvt_rule *rule,
                         const struct kvt_yaml *node, void *base, const char *path)
{
    bool scalar = node->kind == KVT_YAML_SCALAR && !kvt_yaml_is_null(node);
    bool is_mark = rule->given > 0 || rule->chosen > 0; /* the bare key says something */
    if (node->kind == KVT_YAML_MAP || (is_mark && kvt_yaml_is_null(node))) {
        read_map(r, rule, node, base, path);
    } else if (scalar && rule->shorthand != NULL) {
        kvt_read_value(r, kvt_rule_child(rule, rule->shorthand), node, base, path);
    } else if (scalar && (rule->flags & KVT_SCALAR_NAMES) != 0) {
        read_by_name(r, rule, node, base, path);
    } else {
        kvt_complain_want(r, rule, node, path);
    }
}

/* ---- maps with free keys, and rows ---- */

/* 0 for "mean", 0.99 for "p99"; -1 when key is neither. */
static double target_percentile(const char *key)
{
    double percent = 0;
    if (strcmp(key, "mean") == 0)
        return 0;
    if (key[0] != 'p' || strlen(key) > 16 || kvt_double_parse(key + 1, &percent, NULL) != KVT_OK)
        return -1;
    return percent > 0 && percent < 100 && key[1] != '+' ? percent / 100 : -1;
}

/* A domain takes the place of a key that the schema knows, so of the whole map. false: told. */
static bool is_no_domain(struct kvt_reader *r, const struct kvt_yaml *child, const char *below,
                         const char *whole)
{
    const struct kvt_rule any = {0};
    if (kvt_yaml_domain(&any, child) == NULL)
        return true;
    kvt_complain(r, child->where, below,
                 "want a value, got a domain; a domain is of the whole %s: {choices: [{%s: ...}, "
                 "{%s: ...}]}",
                 whole, child->key, child->key);
    return false;
}

static void read_target(struct kvt_reader *r, const struct kvt_yaml *node,
                        struct kvt_config_target *target, const char *path)
{
    const struct kvt_rule seconds = {
        .kind = KVT_RULE_REAL, .dimension = KVT_DIMENSION_TIME, .flags = KVT_ABOVE};
    *target = (struct kvt_config_target){0};
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        char below[KVT_PATH_BYTES];
        kvt_path_below(below, path, child->key);
        double percentile = target_percentile(child->key);
        if (percentile < 0) {
            kvt_complain(r, child->key_where, below,
                         "want mean or a percentile above 0 and below 100 such as p99.9");
            continue;
        }
        if (target->count == KVT_PERCENTILES_MAX) {
            kvt_complain(r, child->key_where, below, "want at most %d targets of one metric",
                         KVT_PERCENTILES_MAX);
            return;
        }
        if (!is_no_domain(r, child, below, path))
            continue;
        struct kvt_complaint why;
        target->percentile[target->count] = percentile;
        if (kvt_value_parse(&seconds, child, &target->seconds[target->count], r->store, &why))
            target->count++;
        else
            kvt_complain(r, child->where, below, "%s", why.text);
    }
}

static void read_named(struct kvt_reader *r, const struct kvt_rule *rule,
                       const struct kvt_yaml *node, struct kvt_config_named *named,
                       const char *path)
{
    struct kvt_rule value = *rule;
    *named = (struct kvt_config_named){0};
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        struct kvt_complaint why;
        char below[KVT_PATH_BYTES];
        kvt_path_below(below, path, child->key);
        if (named->count == KVT_NAMED_MAX) {
            kvt_complain(r, child->key_where, below, "want at most %d entries", KVT_NAMED_MAX);
            return;
        }
        if (!is_no_domain(r, child, below, path))
            continue;
        int32_t i = named->count;
        named->key[i] = child->key;
        named->where[i] = child->where;
        named->value[i] = -1;
        value.kind = KVT_RULE_REAL;
        void *field = &named->value[i];
        if (rule->kind == KVT_RULE_NAMED_TEXT) {
            bool is_path = child->kind == KVT_YAML_SCALAR && (strchr(child->text, '/') != NULL ||
                                                              kvt_text_ends(child->text, ".yaml"));
            value.kind = is_path ? KVT_RULE_PATH : KVT_RULE_TEXT;
            field = &named->text[i];
        }
        if (kvt_value_parse(&value, child, field, r->store, &why))
            named->count++;
        else
            kvt_complain(r, child->where, below, "%s", why.text);
    }
}

static void read_rows(struct kvt_reader *r, const struct kvt_rule *rule,
                      const struct kvt_yaml *node, void *list, const char *path)
{
    struct kvt_rule row_rule = *rule;
    row_rule.kind = KVT_RULE_SECTION;
    int32_t *count = list, number = 0;
    *count = 0;
    for (const struct kvt_yaml *item = node->first; item != NULL; item = item->next, number++) {
        char below[KVT_PATH_BYTES];
        snprintf(below, sizeof below, "%.100s[%d]", path, number);
        if (*count == rule->rows.most) {
            kvt_complain(r, item->where, below, "want at most %d rows", rule->rows.most);
            return;
        }
        char *row = (char *)list + rule->rows.at + (size_t)(*count)++ * rule->rows.bytes;
        memset(row, 0, rule->rows.bytes);
        kvt_value_default(&row_rule, row);
        memcpy(row + rule->rows.where, &item->where, sizeof item->where);
        r->in_row = true;
        read_section(r, &row_rule, item, row, below);
        r->in_row = false;
    }
}

/* ---- any value ---- */

void kvt_read_value(struct kvt_reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                    void *base, const char *path)
{
    const struct kvt_yaml *domain = kvt_yaml_domain(rule, node);
    if (domain != NULL) {
        kvt_read_domain(r, rule, domain, base, path);
        return;
    }
    if (node->kind == KVT_YAML_MAP && node->count > 1 &&
        (kvt_yaml_find(node, "choices") != NULL || kvt_yaml_find(node, "range") != NULL)) {
        kvt_complain(r, node->where, path,
                     "want a domain of one key, choices or range, got \"%s\" and \"%s\"",
                     node->first->key, node->first->next->key);
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
        read_rows(r, rule, node, field, path);
    else if (rule->kind >= KVT_RULE_TARGET)
        kvt_complain_want(r, rule, node, path);
    else if (!kvt_value_parse(rule, node, field, r->store, &why))
        kvt_complain(r, node->where, path, "%s", why.text);
}

void kvt_config_read(struct kvt_config *config, struct kvt_config_store *store, struct kvt_err *err)
{
    struct kvt_reader r = {.config = config, .store = store, .err = err};
    char got[KVT_QUOTE_BYTES];
    kvt_value_default(&kvt_schema, config);
    if (store->root->kind == KVT_YAML_MAP)
        read_map(&r, &kvt_schema, store->root, config, "");
    else
        kvt_complain(
            &r, store->root->where, "", "want a mapping with keys such as model and fleet, got %s",
            kvt_yaml_is_null(store->root) ? "an empty file" : kvt_yaml_describe(store->root, got));
}
