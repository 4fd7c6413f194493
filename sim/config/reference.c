/* The reference page and the list of keys, written from the schema. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/file.h"
#include "sim/config/schema.h"

#define TABLES_MAX 64

struct page {
    FILE *out;
    struct {
        const struct kvt_rule *children;
        char path[KVT_PATH_BYTES];
    } tables[TABLES_MAX]; /* printed so far */
    int count;
};

static const char introduction[] =
    "# Configuration reference\n"
    "\n"
    "Every key of a configuration, as `kvtwin config reference` prints it. A key is named by its\n"
    "path: `run.seed` is `seed` inside of `run`, and `--set run.seed=7` sets it from the command\n"
    "line, where the last `--set` wins and null takes a key out.\n"
    "\n"
    "- Quantities carry units (`141 GiB`, `50 GB/s`, `10 us`, `4 req/s`, `3.5 USD/h`); GB is 1e9\n"
    "  bytes and GiB is 2^30 bytes.\n"
    "- A relative path in a file is meant from the file's folder, one in `--set` from the working\n"
    "  directory.\n"
    "- Any value may be a domain for `plan` and `sweep`: `{choices: [...]}` or\n"
    "  `{range: {min: 1, max: 8, step: 1}}`, not both. A choice given twice is an error.\n"
    "- Short forms: `gpu: h200-sxm` is `gpu: {name: h200-sxm}`, `trace: a.csv` is\n"
    "  `trace: {file: a.csv}`, `input: 1000` is `input: {fixed: 1000}`, `arrivals: poisson` is\n"
    "  `arrivals: {poisson: {}}`, `guard: fifo+lease` is `guard: {fifo: {}, lease: {}}`, and\n"
    "  `concurrency: [1, 8]` is `concurrency: {choices: [1, 8]}`.\n"
    "- YAML anchors, aliases and merge keys (`<<: *name`) work.\n"
    "- *Also* lists the spellings of vLLM and SGLang that mean the same; they stand directly in a\n"
    "  role (`fleet.serve.tensor_parallel_size`, or with dashes), and giving both is an error.\n";

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

/* A table of rules is printed once; where it is used again the page points back at it. */
static bool points_back(const struct kvt_rule *section, const char *path, struct page *page)
{
    for (int i = 0; i < page->count; i++) {
        if (page->tables[i].children != section->children)
            continue;
        fprintf(page->out, " Keys as in `%s`.\n", page->tables[i].path);
        return true;
    }
    kvt_assert(page->count < TABLES_MAX);
    page->tables[page->count].children = section->children;
    snprintf(page->tables[page->count++].path, KVT_PATH_BYTES, "%s", path);
    fputc('\n', page->out);
    return false;
}

static void print_table(const struct kvt_rule *section, const char *path, struct page *page)
{
    FILE *out = page->out;
    if (section->children[0].key == NULL)
        return;
    if (path[0] != '\0') {
        fprintf(out, "\n## %s\n\n%c%s.", path, toupper((unsigned char)section->help[0]),
                section->help + 1);
        if (points_back(section, path, page))
            return;
    }
    fputs("\n| key | value | default | meaning | also |\n|---|---|---|---|---|\n", out);
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++)
        print_row(child, out);
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++) {
        char below[KVT_PATH_BYTES];
        if (child->kind != KVT_RULE_SECTION && child->kind != KVT_RULE_ROWS)
            continue;
        snprintf(below, sizeof below, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "",
                 child->key);
        print_table(child, below, page);
    }
}

static void print_keys(const struct kvt_rule *section, const char *path, struct page *page)
{
    for (const struct kvt_rule *child = section->children; child->key != NULL; child++) {
        char below[KVT_PATH_BYTES];
        snprintf(below, sizeof below, "%.100s%s%.50s", path, path[0] != '\0' ? "." : "",
                 child->key);
        fprintf(page->out, "%s\n", below);
        if (child->kind == KVT_RULE_SECTION)
            print_keys(child, below, page);
    }
}

typedef void (*section_printer)(const struct kvt_rule *section, const char *path,
                                struct page *page);

static char *print_schema(const char *head, section_printer print)
{
    char *text = NULL;
    size_t count = 0;
    struct page page = {.out = kvt_memory_open(&text, &count)};
    if (page.out == NULL)
        return NULL;
    fputs(head, page.out);
    print(&kvt_schema, "", &page);
    kvt_memory_close(page.out, &text);
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
