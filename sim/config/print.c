/* --print-config: the struct as YAML that reads back as the same struct. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/config/schema.h"

struct printer {
    const struct kvt_config *config;
    bool failed; /* no memory: the text lacks something */
};

static const struct kvt_config_domain *domain_at(const struct kvt_config *config, const char *path)
{
    for (int32_t i = 0; config->store != NULL && i < config->domains; i++)
        if (strcmp(config->store->domains[i].path, path) == 0)
            return &config->store->domains[i];
    return NULL;
}

static void print_domain(const struct kvt_config_domain *domain, FILE *out)
{
    fputs("{choices: [", out);
    for (int32_t i = 0; i < domain->count; i++)
        fprintf(out, "%s%s", i > 0 ? ", " : "", domain->texts[i]);
    fputs("]}\n", out);
}

/* Whether the key was given, as far as its own mark tells. base is the section's struct. */
static bool is_given(const struct kvt_rule *rule, const char *base)
{
    int chosen;
    if (rule->given > 0 && !base[rule->given - 1])
        return false;
    if (rule->chosen == 0)
        return true;
    memcpy(&chosen, base + rule->chosen - 1, sizeof chosen);
    return chosen == rule->chosen_value;
}

static bool print_rule(struct printer *printer, const struct kvt_rule *rule, const char *base,
                       int indent, const char *path, FILE *out);

/* The children of a section, each on its own line. false: there was none. */
static bool print_children(struct printer *printer, const struct kvt_rule *section,
                           const char *base, int indent, const char *path, FILE *out)
{
    bool any = false;
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++)
        any = print_rule(printer, child, base, indent, path, out) || any;
    return any;
}

static bool print_rows(struct printer *printer, const struct kvt_rule *rule, const char *list,
                       int indent, const char *path, FILE *out)
{
    int32_t count;
    memcpy(&count, list, sizeof count);
    if (count > 0)
        fprintf(out, "%*s%s:\n", indent, "", rule->key);
    for (int32_t i = 0; i < count; i++) {
        fprintf(out, "%*s-\n", indent + 2, "");
        print_children(printer, rule, list + rule->rows.at + (size_t)i * rule->rows.bytes,
                       indent + 4, path, out);
    }
    return count > 0;
}

/* The names of the children given, joined by +, when none of them has contents. */
static bool print_by_name(const struct kvt_rule *section, const char *field, int indent, FILE *out)
{
    const char *before = "";
    bool is_plain = (section->flags & KVT_SCALAR_NAMES) != 0, any = false;
    for (const struct kvt_rule *child = section->children; is_plain && child->key != NULL; child++)
        if (is_given(child, field)) {
            any = true;
            is_plain = child->children[0].key == NULL;
        }
    if (!is_plain || !any)
        return false;
    fprintf(out, "%*s%s: ", indent, "", section->key);
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++) {
        if (!is_given(child, field))
            continue;
        fprintf(out, "%s%s", before, child->key);
        before = "+";
    }
    fputc('\n', out);
    return true;
}

/* The value alone, when text is one line that gives the section's shorthand; else NULL. */
static const char *short_form(const struct kvt_rule *section, const char *text, int indent)
{
    char start[64];
    const char *newline = strchr(text, '\n');
    if (section->shorthand == NULL || newline == NULL || newline[1] != '\0')
        return NULL;
    int length = snprintf(start, sizeof start, "%*s%s: ", indent, "", section->shorthand);
    bool fits = strncmp(text, start, (size_t)length) == 0 && text[length] != '{';
    return fits ? text + length : NULL;
}

static bool print_section(struct printer *printer, const struct kvt_rule *rule, const char *field,
                          int indent, const char *path, FILE *out)
{
    char *text = NULL;
    size_t count = 0;
    if (print_by_name(rule, field, indent, out))
        return true;
    FILE *inner = kvt_memory_open(&text, &count);
    if (inner == NULL) {
        printer->failed = true;
        return false;
    }
    bool any = print_children(printer, rule, field, indent + 2, path, inner);
    printer->failed = !kvt_memory_close(inner, &text) || printer->failed;
    bool is_mark = rule->given > 0 || rule->chosen > 0;
    const char *alone = text != NULL ? short_form(rule, text, indent + 2) : NULL;
    if (alone != NULL)
        fprintf(out, "%*s%s: %s", indent, "", rule->key, alone);
    else if (text != NULL && any)
        fprintf(out, "%*s%s:\n%s", indent, "", rule->key, text);
    else if (is_mark)
        fprintf(out, "%*s%s: {}\n", indent, "", rule->key);
    free(text);
    return any || is_mark;
}

/* A key that is not set, as a comment that says what holds then. */
static void print_unset(const struct kvt_rule *rule, int indent, FILE *out)
{
    const char *what = strstr(rule->help, "unset: ");
    if (what != NULL)
        fprintf(out, "%*s# %s: %s\n", indent, "", rule->key, what + strlen("unset: "));
}

static bool print_value(struct printer *printer, const struct kvt_rule *rule, const char *field,
                        int indent, FILE *out)
{
    char *text = NULL;
    size_t count = 0;
    FILE *inner = kvt_memory_open(&text, &count);
    if (inner == NULL) {
        printer->failed = true;
        return false;
    }
    bool is_set = kvt_value_print(rule, field, inner);
    printer->failed = !kvt_memory_close(inner, &text) || printer->failed;
    if (text != NULL && is_set)
        fprintf(out, "%*s%s: %s\n", indent, "", rule->key, text);
    else
        print_unset(rule, indent, out);
    free(text);
    return is_set;
}

static bool print_rule(struct printer *printer, const struct kvt_rule *rule, const char *base,
                       int indent, const char *path, FILE *out)
{
    char below[KVT_PATH_BYTES];
    snprintf(below, sizeof below, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "", rule->key);
    const struct kvt_config_domain *domain = domain_at(printer->config, below);
    const char *field = base + rule->offset;
    if (domain != NULL) {
        fprintf(out, "%*s%s: ", indent, "", rule->key);
        print_domain(domain, out);
        return true;
    }
    if (!is_given(rule, base)) {
        if (rule->kind != KVT_RULE_SECTION && rule->chosen == 0)
            print_unset(rule, indent, out);
        return false;
    }
    if (rule->kind == KVT_RULE_SECTION)
        return print_section(printer, rule, field, indent, below, out);
    if (rule->kind != KVT_RULE_ROWS)
        return print_value(printer, rule, field, indent, out);
    return print_rows(printer, rule, field, indent, below, out);
}

char *kvt_config_print(const struct kvt_config *config)
{
    char *text = NULL;
    size_t count = 0;
    FILE *out = kvt_memory_open(&text, &count);
    if (out == NULL)
        return NULL;
    fputs("# every key; those in comments are left to what they say\n", out);
    struct printer printer = {.config = config};
    print_children(&printer, &kvt_schema, (const char *)config, 0, "", out);
    if (kvt_memory_close(out, &text) && !printer.failed)
        return text;
    free(text);
    return NULL;
}
