/* One key of a configuration, explained from the schema. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/config/read.h"

#define NEAR_MAX 64

/* The rule that a dotted path names, aliases resolved; NULL when there is none, with the section
 * that was reached, its path, and the part that it does not have. */
static const struct kvt_rule *find(const char *path, const struct kvt_rule **section,
                                   char reached[KVT_PATH_BYTES], char part[64])
{
    const struct kvt_rule *rule = &kvt_schema;
    char rest[KVT_PATH_BYTES], alias[KVT_PATH_BYTES], above[KVT_PATH_BYTES];
    reached[0] = '\0';
    snprintf(rest, sizeof rest, "%.*s", KVT_PATH_BYTES - 1, path);
    for (char *at = rest; *at != '\0';) {
        size_t bytes = strcspn(at, ".");
        bool last = at[bytes] == '\0';
        at[bytes] = '\0';
        snprintf(part, 64, "%.63s", at);
        part[strcspn(part, "[")] = '\0'; /* published[0] */
        *section = rule;
        if (rule->kind == KVT_RULE_NAMED || rule->kind == KVT_RULE_NAMED_TEXT ||
            rule->kind == KVT_RULE_TARGET)
            return rule; /* keys are free: what is said of the map is said of them */
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

static void print_rule(const struct kvt_rule *rule, const char *path, FILE *out)
{
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
    if (rule->kind != KVT_RULE_SECTION && rule->kind != KVT_RULE_ROWS)
        fprintf(out, "  set      --set %s=...\n", path);
}

char *kvt_config_explain(const char *path, struct kvt_err *err)
{
    const struct kvt_rule *section = &kvt_schema;
    char part[64] = "", reached[KVT_PATH_BYTES] = "", meant[KVT_PATH_BYTES], *text = NULL;
    size_t bytes = 0;
    const struct kvt_rule *rule = path[0] != '\0' ? find(path, &section, reached, part) : NULL;
    if (rule == NULL) {
        const char *names[NEAR_MAX];
        size_t count = 0;
        bool holds = section->kind == KVT_RULE_SECTION || section->kind == KVT_RULE_ROWS;
        for (const struct kvt_rule *child = holds ? section->children : NULL;
             child != NULL && child->key != NULL && count < NEAR_MAX; child++)
            names[count++] = child->key;
        const char *near = kvt_nearest_name(part, names, count);
        if (near != NULL)
            kvt_path_below(meant, reached, near);
        kvt_err_set(err, KVT_EUSAGE,
                    "there is no key \"%.100s\"%s%s%s; kvtwin config keys lists all", path,
                    near != NULL ? ": did you mean \"" : "", near != NULL ? meant : "",
                    near != NULL ? "\"" : "");
        return NULL;
    }
    FILE *out = kvt_memory_open(&text, &bytes);
    if (out != NULL) {
        print_rule(rule, path, out);
        kvt_memory_close(out, &text);
    }
    if (text == NULL)
        kvt_err_set(err, KVT_ENOMEM, "no memory to explain a key");
    return text;
}
