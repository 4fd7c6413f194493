/* One key of a configuration, explained from the schema. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/config/read.h"

#define NEAR_MAX 64

/* What a dotted path names, aliases resolved. */
struct found {
    const struct kvt_rule *rule;    /* NULL: none */
    const struct kvt_rule *section; /* that holds it, or that was reached */
    char reached[KVT_PATH_BYTES];   /* path of the rule, or of the section that was reached */
    char part[64];                  /* the last part, which a section may not have */
    bool is_free, in_row;           /* a key of one's own below the rule; one of a list's rows */
};

static const struct kvt_rule *find(const char *path, struct found *found)
{
    const struct kvt_rule *rule = &kvt_schema, **section = &found->section;
    char *reached = found->reached, *part = found->part;
    char rest[KVT_PATH_BYTES], alias[KVT_PATH_BYTES], above[KVT_PATH_BYTES];
    snprintf(rest, sizeof rest, "%.*s", KVT_PATH_BYTES - 1, path);
    for (char *at = rest; *at != '\0';) {
        size_t bytes = strcspn(at, ".");
        bool last = at[bytes] == '\0';
        at[bytes] = '\0';
        snprintf(part, sizeof found->part, "%.63s", at);
        part[strcspn(part, "[")] = '\0'; /* published[0] */
        *section = rule;
        if (rule->kind == KVT_RULE_NAMED || rule->kind == KVT_RULE_NAMED_TEXT ||
            rule->kind == KVT_RULE_TARGET) {
            found->is_free = true; /* what is said of the map is said of its keys */
            at[bytes] = last ? '\0' : '.';
            memcpy(above, reached, sizeof above);
            snprintf(reached, sizeof found->reached, "%.100s.%.50s", above, at);
            return rule;
        }
        found->in_row = found->in_row || rule->kind == KVT_RULE_ROWS;
        bool holds = rule->kind == KVT_RULE_SECTION || rule->kind == KVT_RULE_ROWS;
        const struct kvt_rule *child = holds ? kvt_rule_child(rule, part) : NULL;
        if (child == NULL && holds && kvt_rule_alias(rule, part, alias, sizeof alias)) {
            char whole[2 * KVT_PATH_BYTES];
            snprintf(whole, sizeof whole, "%s%s%s", alias, last ? "" : ".",
                     last ? "" : at + bytes + 1);
            snprintf(rest, sizeof rest, "%.*s", KVT_PATH_BYTES - 1, whole);
            at = rest;
            continue;
        }
        if (child == NULL)
            return NULL;
        memcpy(above, reached, sizeof above);
        kvt_path_below(reached, above, part);
        rule = child;
        at += bytes + !last;
    }
    return rule;
}

static void print_children(const struct kvt_rule *section, FILE *out)
{
    size_t widest = 0;
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++)
        widest = strlen(child->key) > widest ? strlen(child->key) : widest;
    fputs("  keys\n", out);
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++)
        fprintf(out, "    %-*s  %s\n", (int)widest, child->key, child->help);
}

/* A value of the rule as --set takes it: the default, or one that its limits allow. */
static void example_of(const struct kvt_rule *rule, bool is_free, char *out, size_t size_bytes)
{
    double value = rule->max > 0 && rule->max < 1000       ? rule->max
                   : rule->dimension == KVT_DIMENSION_NONE ? 1000
                                                           : 1;
    switch (rule->kind) {
    case KVT_RULE_INT32:
    case KVT_RULE_INT64:
    case KVT_RULE_SEED:
        snprintf(out, size_bytes, "%.0f", value);
        break;
    case KVT_RULE_REAL:
        kvt_quantity_print(value, rule->dimension, out, size_bytes);
        break;
    case KVT_RULE_FLAG:
        snprintf(out, size_bytes, "true");
        break;
    case KVT_RULE_PATH:
        snprintf(out, size_bytes, "FILE");
        break;
    case KVT_RULE_TARGET:
        snprintf(out, size_bytes, is_free ? "2 s" : "{p90: 2 s, mean: 1 s}");
        break;
    case KVT_RULE_NAMED:
        snprintf(out, size_bytes, is_free ? "3.5 USD/h" : "{h200-sxm: 3.5 USD/h}");
        break;
    case KVT_RULE_NAMED_TEXT:
        snprintf(out, size_bytes, is_free ? "h200-sglang" : "{h200-sxm: h200-sglang}");
        break;
    case KVT_RULE_NAME:
    case KVT_RULE_NAMES:
    case KVT_RULE_TEXT:
    case KVT_RULE_SECTION:
    case KVT_RULE_ROWS:
        snprintf(out, size_bytes, "%s", rule->names_count > 0 ? rule->names[0] : "NAME");
        break;
    }
    if (rule->standard != NULL)
        snprintf(out, size_bytes, "%s", rule->standard);
}

/* The option that sets the key, by its own name. An alias that names no role is of each. */
static void print_set(const struct found *found, const char *path, FILE *out)
{
    static const char first[] = "fleet.prefill.";
    char value[400];
    const char *below = found->reached;
    bool any = strncmp(below, first, strlen(first)) == 0 && strstr(path, "prefill") == NULL;
    below += any ? strlen(first) : 0;
    example_of(found->rule, found->is_free, value, sizeof value);
    const char *quote = strpbrk(value, " {[") != NULL ? "'" : "";
    fprintf(out, "  set      --set %s%s%s=%s%s", quote, any ? "fleet.serve." : "", below, value,
            quote);
    if (any)
        fprintf(out, ", or of fleet.prefill and fleet.decode");
    fputc('\n', out);
}

static void print_rule(const struct found *found, const char *path, FILE *out)
{
    const struct kvt_rule *rule = found->rule;
    char want[400];
    fprintf(out, "%s\n  %c%s.\n", path, toupper((unsigned char)rule->help[0]), rule->help + 1);
    if (rule->kind != KVT_RULE_SECTION)
        fprintf(out, "  value    %s\n", kvt_rule_want(rule, want, sizeof want));
    else if (rule->shorthand != NULL)
        fprintf(out, "  value    a section, or its short form: a value of %s\n", rule->shorthand);
    else if ((rule->flags & KVT_SCALAR_NAMES) != 0)
        fputs("  value    a section, or the name of a key in it\n", out);
    if ((rule->flags & KVT_REQUIRED) != 0)
        fputs("  default  none: it must be given where its section is\n", out);
    else if (rule->standard != NULL)
        fprintf(out, "  default  %s\n", rule->standard);
    if (rule->aliases != NULL)
        fprintf(out, "  also     %s\n", rule->aliases);
    if ((rule->kind == KVT_RULE_SECTION || rule->kind == KVT_RULE_ROWS) && rule->children != NULL)
        print_children(rule, out);
    if (rule->kind != KVT_RULE_SECTION && rule->kind != KVT_RULE_ROWS && !found->in_row)
        print_set(found, path, out);
}

char *kvt_config_explain(const char *path, struct kvt_err *err)
{
    struct found found = {.section = &kvt_schema};
    char meant[KVT_PATH_BYTES], *text = NULL;
    size_t bytes = 0;
    found.rule = path[0] != '\0' ? find(path, &found) : NULL;
    if (found.rule == NULL) {
        const struct kvt_rule *section = found.section;
        const char *names[NEAR_MAX];
        size_t count = 0;
        bool holds = section->kind == KVT_RULE_SECTION || section->kind == KVT_RULE_ROWS;
        for (const struct kvt_rule *child = holds ? section->children : NULL;
             child != NULL && child->key != NULL && count < NEAR_MAX; child++)
            names[count++] = child->key;
        const char *near = kvt_nearest_name(found.part, names, count);
        if (near != NULL)
            kvt_path_below(meant, found.reached, near);
        kvt_err_set(err, KVT_EUSAGE,
                    "there is no key \"%.100s\"%s%s%s; kvtwin config keys lists all", path,
                    near != NULL ? ": did you mean \"" : "", near != NULL ? meant : "",
                    near != NULL ? "\"" : "");
        return NULL;
    }
    FILE *out = kvt_memory_open(&text, &bytes);
    if (out != NULL) {
        print_rule(&found, path, out);
        kvt_memory_close(out, &text);
    }
    if (text == NULL)
        kvt_err_set(err, KVT_ENOMEM, "no memory to explain a key");
    return text;
}
