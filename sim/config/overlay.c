/* The tree before it is read: other spellings become the schema's own, and --set is laid over it.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/config/schema.h"

#define COMPONENTS_MAX 16

const struct kvt_yaml *kvt_yaml_domain(const struct kvt_rule *rule, const struct kvt_yaml *node)
{
    if (node->kind == KVT_YAML_LIST && (rule->flags & KVT_LIST_IS_DOMAIN) != 0)
        return node;
    if (node->kind != KVT_YAML_MAP || node->count != 1)
        return NULL;
    const char *key = node->first->key;
    return strcmp(key, "choices") == 0 || strcmp(key, "range") == 0 ? node->first : NULL;
}

/* ---- aliases ---- */

/* The map below parent that has this key, made when it is not there; NULL when it is something
 * else (a domain, a scalar) or the store is full. */
static struct kvt_yaml *map_below(struct kvt_config_store *store, struct kvt_yaml *parent,
                                  const char *key, struct kvt_where where)
{
    struct kvt_yaml *child = kvt_yaml_find(parent, key);
    if (child != NULL) {
        const struct kvt_rule plain = {0};
        bool ordinary = child->kind == KVT_YAML_MAP && kvt_yaml_domain(&plain, child) == NULL;
        return ordinary ? child : NULL;
    }
    child = kvt_yaml_new(&store->arena, KVT_YAML_MAP, where);
    char *copy = kvt_store_text(store, key);
    if (child == NULL || copy == NULL) {
        store->is_full = true;
        return NULL;
    }
    child->key = copy;
    child->key_where = where;
    kvt_yaml_append(parent, child);
    return child;
}

/* Move child of section to the place below it that target names. */
static enum kvt_status alias_move(struct kvt_config_store *store, struct kvt_yaml *section,
                                  struct kvt_yaml *child, const char *target, const char *path,
                                  struct kvt_err *err)
{
    char parts[KVT_PATH_BYTES], quote[KVT_QUOTE_BYTES];
    snprintf(parts, sizeof parts, "%s", target);
    struct kvt_yaml *map = section;
    char *part = parts;
    for (char *dot = strchr(part, '.'); dot != NULL && map != NULL; dot = strchr(part, '.')) {
        *dot = '\0';
        map = map_below(store, map, part, child->key_where);
        part = dot + 1;
    }
    const struct kvt_yaml *other = map != NULL ? kvt_yaml_find(map, part) : section;
    if (other != NULL && !store->is_full) {
        char place[48] = "";
        if (map != NULL && other->key_where.line > 0)
            snprintf(place, sizeof place, " at %d:%d", other->key_where.line,
                     other->key_where.column);
        kvt_yaml_remove(section, child); /* said once; the reader need not meet it again */
        return kvt_err_at(err, KVT_ECONFIG, child->key_where,
                          "%s.%s: means %s, which is given too%s", path,
                          kvt_yaml_quote(child->key, quote), target, place);
    }
    char *key = kvt_store_text(store, part);
    if (map == NULL || key == NULL)
        return KVT_ENOMEM;
    kvt_yaml_remove(section, child);
    child->key = key;
    kvt_yaml_append(map, child);
    return KVT_OK;
}

static enum kvt_status section_rename(struct kvt_config_store *store, const struct kvt_rule *rule,
                                      struct kvt_yaml *node, const char *path, struct kvt_err *err)
{
    enum kvt_status status = KVT_OK;
    for (struct kvt_yaml *child = node->first, *following; child != NULL; child = following) {
        char target[KVT_PATH_BYTES], below[KVT_PATH_BYTES];
        following = child->next;
        const struct kvt_rule *known = kvt_rule_child(rule, child->key);
        if (known != NULL) {
            snprintf(below, sizeof below, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "",
                     child->key);
            enum kvt_status one = kvt_tree_rename(store, known, child, below, err);
            status = status == KVT_OK ? one : status;
        } else if ((rule->flags & KVT_HAS_ALIASES) != 0 &&
                   kvt_rule_alias(rule, child->key, target, sizeof target)) {
            enum kvt_status one = alias_move(store, node, child, target, path, err);
            status = status == KVT_OK ? one : status;
        }
    }
    return status;
}

enum kvt_status kvt_tree_rename(struct kvt_config_store *store, const struct kvt_rule *rule,
                                struct kvt_yaml *node, const char *path, struct kvt_err *err)
{
    if (rule->kind != KVT_RULE_SECTION)
        return KVT_OK;
    const struct kvt_yaml *domain = kvt_yaml_domain(rule, node);
    if (domain == NULL)
        return node->kind == KVT_YAML_MAP ? section_rename(store, rule, node, path, err) : KVT_OK;
    enum kvt_status status = KVT_OK;
    for (struct kvt_yaml *choice = domain->first; choice != NULL; choice = choice->next) {
        if (choice->kind != KVT_YAML_MAP || kvt_yaml_domain(rule, choice) != NULL)
            continue;
        enum kvt_status one = section_rename(store, rule, choice, path, err);
        status = status == KVT_OK ? one : status;
    }
    return status;
}

/* ---- sets ---- */

struct set_path {
    const char *parts[COMPONENTS_MAX];
    int count;
};

/* Split text at its dots, following the schema: free keys (p99.9, a GPU's name) may hold dots, and
 * an alias becomes the parts it stands for. text is changed. false: it is no path. */
static bool path_split(struct kvt_config_store *store, char *text, struct set_path *path)
{
    const struct kvt_rule *rule = &kvt_schema;
    path->count = 0;
    while (text != NULL) {
        bool is_free = rule != NULL && rule->kind != KVT_RULE_SECTION;
        char *dot = is_free ? NULL : strchr(text, '.');
        if (dot != NULL)
            *dot = '\0';
        if (text[0] == '\0' || path->count == COMPONENTS_MAX)
            return false;
        const struct kvt_rule *child =
            rule != NULL && rule->kind == KVT_RULE_SECTION ? kvt_rule_child(rule, text) : NULL;
        char target[KVT_PATH_BYTES];
        if (child == NULL && rule != NULL && (rule->flags & KVT_HAS_ALIASES) != 0 &&
            kvt_rule_alias(rule, text, target, sizeof target)) {
            char *rest = dot != NULL ? dot + 1 : NULL, *copy = kvt_store_text(store, target);
            if (rest != NULL || copy == NULL)
                return false; /* aliases stand for scalars: nothing lies below them */
            for (char *at = copy; at != NULL && path->count < COMPONENTS_MAX;) {
                path->parts[path->count++] = at;
                at = strchr(at, '.');
                if (at != NULL)
                    *at++ = '\0';
            }
            return true;
        }
        path->parts[path->count++] = text;
        text = dot != NULL ? dot + 1 : NULL;
        rule = child;
    }
    return true;
}

/* Turn what stands for a map into one: a shorthand, names joined by +, nothing. */
static bool node_become_map(struct kvt_config_store *store, const struct kvt_rule *rule,
                            struct kvt_yaml *node)
{
    if (node->kind == KVT_YAML_MAP)
        return kvt_yaml_domain(&(const struct kvt_rule){0}, node) == NULL;
    if (node->kind == KVT_YAML_LIST || rule == NULL)
        return false;
    struct kvt_yaml was = *node;
    node->kind = KVT_YAML_MAP;
    node->text = "";
    if (kvt_yaml_is_null(&was))
        return true;
    char *names = kvt_store_text(store, rule->shorthand != NULL ? rule->shorthand : was.text);
    bool by_name = (rule->flags & KVT_SCALAR_NAMES) != 0;
    if (names == NULL || (!by_name && rule->shorthand == NULL))
        return false;
    while (names != NULL) {
        char *plus = by_name ? strchr(names, '+') : NULL;
        if (plus != NULL)
            *plus++ = '\0';
        struct kvt_yaml *child = kvt_yaml_new(&store->arena, KVT_YAML_MAP, was.where);
        if (child == NULL)
            return false;
        if (!by_name) {
            child->kind = KVT_YAML_SCALAR;
            child->text = was.text;
            child->quoted = was.quoted;
        }
        child->key = names;
        child->key_where = was.where;
        kvt_yaml_append(node, child);
        names = plus;
    }
    return true;
}

/* Take out of map what excludes the key that is about to be set. */
static void drop_rivals(const struct kvt_rule *rule, struct kvt_yaml *map,
                        const struct kvt_rule *chosen)
{
    if (chosen == NULL || (chosen->flags & KVT_ONE_OF) == 0)
        return;
    for (struct kvt_yaml *child = map->first, *following; child != NULL; child = following) {
        following = child->next;
        const struct kvt_rule *other = kvt_rule_child(rule, child->key);
        if (other != NULL && other != chosen && (other->flags & KVT_ONE_OF) != 0)
            kvt_yaml_remove(map, child);
    }
}

static void child_put(struct kvt_yaml *map, struct kvt_yaml *old, struct kvt_yaml *value)
{
    if (kvt_yaml_is_null(value) && value->text[0] != '\0') { /* null and ~, not an empty text */
        if (old != NULL)
            kvt_yaml_remove(map, old);
        return;
    }
    if (old == NULL) {
        kvt_yaml_append(map, value);
        return;
    }
    struct kvt_yaml *next = old->next; /* keeps its place among its siblings */
    *old = *value;
    old->next = next;
}

static enum kvt_status tree_put(struct kvt_config_store *store, const struct set_path *path,
                                struct kvt_yaml *value, struct kvt_err *err)
{
    const struct kvt_rule *rule = &kvt_schema;
    struct kvt_yaml *node = store->root;
    for (int i = 0; i < path->count; i++) {
        char got[KVT_QUOTE_BYTES];
        const char *was = kvt_yaml_describe(node, got);
        if (!node_become_map(store, rule, node))
            return kvt_err_at(err, KVT_ECONFIG, value->where,
                              "cannot set a key of %s, which is %s; set the whole",
                              i > 0 ? path->parts[i - 1] : "the file",
                              strcmp(was, "a mapping") == 0 ? "a domain" : was);
        bool is_section = rule != NULL && rule->kind == KVT_RULE_SECTION;
        const struct kvt_rule *below = is_section ? kvt_rule_child(rule, path->parts[i]) : NULL;
        if (is_section)
            drop_rivals(rule, node, below);
        struct kvt_yaml *child = kvt_yaml_find(node, path->parts[i]);
        value->key = path->parts[i];
        value->key_where = value->where;
        if (i + 1 == path->count) {
            child_put(node, child, value);
            return KVT_OK;
        }
        if (child == NULL) {
            child = kvt_yaml_new(&store->arena, KVT_YAML_MAP, value->where);
            if (child == NULL) {
                store->is_full = true;
                return KVT_ENOMEM;
            }
            child->key = path->parts[i];
            child->key_where = value->where;
            kvt_yaml_append(node, child);
        }
        node = child;
        rule = below;
    }
    kvt_unreachable();
}

enum kvt_status kvt_tree_set(struct kvt_config_store *store, const char *set, struct kvt_err *err)
{
    char quote[KVT_QUOTE_BYTES], label[KVT_QUOTE_BYTES + 8];
    const char *equals = strchr(set, '=');
    if (equals == NULL)
        return kvt_err_set(err, KVT_EUSAGE, "--set %s: want KEY=VALUE, got no \"=\"",
                           kvt_yaml_quote(set, quote));
    snprintf(label, sizeof label, "--set %s", kvt_yaml_quote(set, quote));
    char *name = kvt_store_text(store, label), *key = kvt_store_text(store, set);
    if (name == NULL || key == NULL)
        return KVT_ENOMEM;
    key[equals - set] = '\0';
    struct set_path path;
    bool is_path = path_split(store, key, &path);
    if (store->is_full)
        return KVT_ENOMEM;
    if (!is_path)
        return kvt_err_set(err, KVT_EUSAGE, "%s: want a key such as run.seed before the \"=\"",
                           name);
    struct kvt_yaml *value;
    KVT_TRY(kvt_yaml_parse(&store->arena, name, equals + 1, strlen(equals + 1), true, &value, err));
    return tree_put(store, &path, value, err);
}
