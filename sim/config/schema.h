/*
 * schema.h - the one description of a configuration, from which everything else follows
 *
 * A rule says what one key means: where its value lies in struct kvt_config, its kind (a whole
 * number, a quantity, a name of a set, a section of further rules ...), its limits, its default,
 * its help, and how vLLM and SGLang spell it. kvt_schema is the table of all rules. Reading
 * (load.c), --print-config (print.c), the reference page (reference.c) and "did you mean" walk it;
 * none of them knows a key by name. What holds between keys is in check.c.
 *
 * Adding a key is adding a field to config.h and a row to schema.c.
 *
 * Forms that a section may also take, all of them data in the rule:
 *   shorthand      a scalar stands for the map {shorthand: scalar}   (gpu: h200-sxm)
 *   by name        a scalar is the name of a child without contents  (arrivals: poisson);
 *                  several are joined by + where the section allows it (guard: fifo+lease)
 *   domain         {choices: [...]} or {range: {min, max, step}} in the place of any value
 */
#ifndef KVT_CONFIG_SCHEMA_H
#define KVT_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/units.h"
#include "sim/base/yaml.h"
#include "sim/config/config.h"

enum kvt_rule_kind {
    KVT_RULE_SECTION, /* a map of children */
    KVT_RULE_INT32,   /* whole numbers; without a default: KVT_UNSET */
    KVT_RULE_INT64,
    KVT_RULE_SEED,       /* uint64_t */
    KVT_RULE_REAL,       /* a number or a quantity; without a default: -1 */
    KVT_RULE_FLAG,       /* true or false */
    KVT_RULE_NAME,       /* one of names[]; an enum */
    KVT_RULE_NAMES,      /* a list of names[]; bit i for names[i] */
    KVT_RULE_TEXT,       /* const char *; NULL when not given */
    KVT_RULE_PATH,       /* the same, resolved from the file's folder */
    KVT_RULE_TARGET,     /* struct kvt_config_target: {p90: 2 s, mean: 1 s} */
    KVT_RULE_NAMED,      /* struct kvt_config_named: free keys; a quantity each */
    KVT_RULE_NAMED_TEXT, /* free keys; a name or a path each */
    KVT_RULE_ROWS,       /* an int32_t count, then `rows` structs: a list of maps of children */
};

enum kvt_rule_flags {
    KVT_REQUIRED = 1,        /* must be given where its section is */
    KVT_ONE_OF = 2,          /* at most one of the siblings with this flag is given ... */
    KVT_NEED_ONE = 4,        /* section: ... and at least one of its children with it */
    KVT_SCALAR_NAMES = 8,    /* section: a scalar is the name of a child */
    KVT_NAMES_JOIN = 16,     /* ... or several, joined by + */
    KVT_LIST_IS_DOMAIN = 32, /* a plain list is a domain */
    KVT_HAS_ALIASES = 64,    /* section: aliases of the rules below it may stand in it */
    KVT_ABOVE = 128,         /* real: min itself is not allowed */
    KVT_WHOLE = 256,         /* real: a whole number */
    KVT_ANY_UNIT = 512,      /* real: a number, or a quantity of any dimension */
};

/* Places of fields that a rule need not have are offset + 1; 0: no such field. */
#define KVT_AT(type, field) (offsetof(type, field) + 1)

struct kvt_synonym {
    const char *text, *means;
};

struct kvt_rule {
    const char *key;
    enum kvt_rule_kind kind;
    size_t offset; /* of the value in its section's struct */
    unsigned flags;
    double min, max; /* inclusive; of numbers. max 0: no upper limit */
    enum kvt_dimension dimension;
    const char *standard; /* the default as text; NULL: unset, see help */
    const char *const *names;
    size_t names_count;
    const struct kvt_synonym *synonyms; /* ends with a NULL text */
    const struct kvt_rule *children;    /* ends with a NULL key */
    struct kvt_rule_rows {
        size_t at, bytes, where; /* of the first row in its field, of one row, of its place */
        int32_t most;
    } rows;
    const char *shorthand;
    size_t given;  /* KVT_AT of a bool: the key is given. False: it is not printed */
    size_t chosen; /* KVT_AT of an enum that becomes chosen_value when it is given */
    int chosen_value;
    size_t where;        /* KVT_AT of a struct kvt_where */
    const char *aliases; /* other spellings, blanks between */
    const char *help;    /* one sentence, no stop; says what holds when there is no default */
};

extern const struct kvt_rule kvt_schema; /* the root section; offsets from struct kvt_config */

/* One value that could not be read: the text after "key.path: ". */
struct kvt_complaint {
    char text[512];
};

/* Parse a scalar's text into field by rule (any kind but the maps and lists). text is already
 * short and printable. folder is for paths. false: complaint is set. */
struct kvt_config_store;
bool kvt_value_parse(const struct kvt_rule *rule, const struct kvt_yaml *node, void *field,
                     struct kvt_config_store *store, struct kvt_complaint *complaint);

/* Set field to the rule's default, children included. */
void kvt_value_default(const struct kvt_rule *rule, void *field);

/* Print the value of any kind but a section as YAML flow ("3.5 USD/h", "[owner, position]").
 * false: the field is unset and there is nothing to print. */
bool kvt_value_print(const struct kvt_rule *rule, const void *field, FILE *out);

/* Text as a YAML scalar: plain where that is safe, else in quotes. */
void kvt_text_print(const char *text, FILE *out);

/* What a rule wants, for "want ..." and for the reference page. Returns out. */
const char *kvt_rule_want(const struct kvt_rule *rule, char *out, size_t size_bytes);

/* The child of a section with this key, or NULL. */
const struct kvt_rule *kvt_rule_child(const struct kvt_rule *section, const char *key);

/* The path below section that alias stands for, as dotted text in out; false when it is none. */
bool kvt_rule_alias(const struct kvt_rule *section, const char *alias, char *out,
                    size_t size_bytes);

/* ---- what the files of this folder share about one loaded configuration ---- */

#define KVT_PATH_BYTES 160 /* of a dotted key path */

struct kvt_config_store {
    struct kvt_arena arena;
    bool is_full; /* a piece was refused: the load ends with KVT_ENOMEM */
    struct kvt_yaml *root;
    const char *name, *folder;
    struct kvt_config_domain *domains;
    int32_t domain_count, domain_room;
};

/* A zeroed piece or a copy of text in the store; NULL and is_full when there is no room. */
void *kvt_store_take(struct kvt_config_store *store, size_t count, size_t size_bytes);
char *kvt_store_text(struct kvt_config_store *store, const char *text);

/* The name of a domain's map: {choices: ...} or {range: ...}; NULL when node is an ordinary value
 * of this rule. For a list that is a domain by KVT_LIST_IS_DOMAIN it is the list itself. */
const struct kvt_yaml *kvt_yaml_domain(const struct kvt_rule *rule, const struct kvt_yaml *node);

/* overlay.c: rewrite the aliases in the tree to the schema's own keys; then lay sets over it. */
enum kvt_status kvt_tree_rename(struct kvt_config_store *store, const struct kvt_rule *rule,
                                struct kvt_yaml *node, const char *path, struct kvt_err *err);
enum kvt_status kvt_tree_set(struct kvt_config_store *store, const char *set, struct kvt_err *err);

/* read.c: fill config from the tree by the schema, after its defaults. Adds messages to err. */
void kvt_config_read(struct kvt_config *config, struct kvt_config_store *store,
                     struct kvt_err *err);

/* check.c: what holds between keys. Adds messages to err. */
void kvt_config_check(const struct kvt_config *config, struct kvt_err *err);

/* A node as YAML flow on one line. */
void kvt_yaml_print(const struct kvt_yaml *node, FILE *out);

#endif
