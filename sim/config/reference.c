/* The reference page and the list of keys, written from the schema. */
#include <stdlib.h>
#include <string.h>

#include "sim/config/schema.h"

static const char introduction[] =
    "# Configuration reference\n"
    "\n"
    "Every key of a configuration, as `kvtwin config reference` prints it. A key is named by its\n"
    "path: `run.seed` is `seed` inside of `run`, and `--set run.seed=7` sets it from the command\n"
    "line, where the last `--set` wins and null takes a key out. `ROLE` is `prefill`, `decode` or\n"
    "`serve`.\n"
    "\n"
    "- Quantities carry units (`141 GiB`, `50 GB/s`, `10 us`, `4 req/s`, `3.5 USD/h`); GB is 1e9\n"
    "  bytes and GiB is 2^30 bytes.\n"
    "- A relative path in a file is meant from the file's folder, one in `--set` from the working\n"
    "  directory.\n"
    "- Any value may be a domain for `plan` and `sweep`: `{choices: [...]}` or\n"
    "  `{range: {min: 1, max: 8, step: 1}}`.\n"
    "- YAML anchors, aliases and merge keys (`<<: *name`) work.\n"
    "- *Also* lists the spellings of vLLM and SGLang that mean the same; they stand directly in a\n"
    "  role (`fleet.serve.tensor_parallel_size`), and giving both is an error.\n";

static void cell(const char *text, FILE *out)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '|')
            fputc('\\', out);
        fputc(*p, out);
    }
}

/* "a number from 1 to 9" without what is plain from the column's heading. */
static void print_row(const struct kvt_rule *rule, FILE *out)
{
    char want[400];
    fprintf(out, "| `%s` | ", rule->key);
    if (rule->kind == KVT_RULE_SECTION)
        cell(rule->shorthand != NULL                 ? "a section, or its short form"
             : (rule->flags & KVT_SCALAR_NAMES) != 0 ? "a section, or a name"
                                                     : "a section",
             out);
    else
        cell(kvt_rule_want(rule, want, sizeof want), out);
    fputs(" | ", out);
    if (rule->flags & KVT_REQUIRED)
        fputs("required", out);
    else if (rule->standard != NULL)
        fprintf(out, "`%s`", rule->standard);
    fputs(" | ", out);
    cell(rule->help, out);
    fputs(" | ", out);
    for (const char *p = rule->aliases; p != NULL && *p != '\0';) {
        size_t length = strcspn(p, " ");
        fprintf(out, "%s`%.*s`", p == rule->aliases ? "" : ", ", (int)length, p);
        p += length + (p[length] == ' ');
    }
    fputs(" |\n", out);
}

static bool is_role(const struct kvt_rule *rule)
{
    return (rule->flags & KVT_HAS_ALIASES) != 0;
}

static void print_table(const struct kvt_rule *section, const char *path, FILE *out)
{
    if (section->children[0].key == NULL)
        return;
    if (path[0] != '\0')
        fprintf(out, "\n## %s\n\n%s.\n", path, section->help);
    fputs("\n| key | value | default | meaning | also |\n|---|---|---|---|---|\n", out);
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++)
        print_row(child, out);
    bool role_done = false; /* the three roles are alike */
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++) {
        bool nests = child->kind == KVT_RULE_SECTION || child->kind == KVT_RULE_ROWS;
        if (!nests || (is_role(child) && role_done))
            continue;
        char below[KVT_PATH_BYTES];
        snprintf(below, sizeof below, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "",
                 is_role(child) ? "ROLE" : child->key);
        role_done = role_done || is_role(child);
        print_table(child, below, out);
    }
}

static void print_keys(const struct kvt_rule *section, const char *path, FILE *out)
{
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++) {
        char below[KVT_PATH_BYTES];
        snprintf(below, sizeof below, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "",
                 child->key);
        fprintf(out, "%s\n", below);
        if (child->kind == KVT_RULE_SECTION)
            print_keys(child, below, out);
    }
}

typedef void (*section_printer)(const struct kvt_rule *section, const char *path, FILE *out);

static char *print_schema(const char *head, section_printer print)
{
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    if (out == NULL)
        return NULL;
    fputs(head, out);
    print(&kvt_schema, "", out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *kvt_config_reference(void)
{
    return print_schema(introduction, print_table);
}

char *kvt_config_keys(void)
{
    return print_schema("", print_keys);
}
