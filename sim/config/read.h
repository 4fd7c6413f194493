/*
 * read.h - what reading a value and reading a domain of values ask of each other
 *
 * The reader walks the tree and the schema together. A mistake is a message in err and the walk
 * goes on, so that all mistakes are reported; only memory that runs out (the store is full) makes
 * what follows meaningless, and the loader sees to that.
 */
#ifndef KVT_CONFIG_READ_H
#define KVT_CONFIG_READ_H

#include "sim/config/schema.h"

struct kvt_reader {
    struct kvt_config *config; /* filled: the caller's, or a copy in which a choice is tried */
    struct kvt_config_store *store;
    struct kvt_err *err;
    bool in_domain, in_row; /* of a list of mappings */
};

/* Read node by rule. base is the struct of the section that holds the key; path names the key. */
void kvt_read_value(struct kvt_reader *r, const struct kvt_rule *rule, const struct kvt_yaml *node,
                    void *base, const char *path);

/* The same for a domain (see kvt_yaml_domain): every choice is judged by the rule, the first is
 * kept in the struct, all of them in the store. */
void kvt_read_domain(struct kvt_reader *r, const struct kvt_rule *rule,
                     const struct kvt_yaml *domain, void *base, const char *path);

/* Complain about keys of a map that must be there, or of which one excludes the others. */
void kvt_read_presence(struct kvt_reader *r, const struct kvt_rule *section,
                       const struct kvt_yaml *node, const char *path);

/* Add "where: path: text" to err. */
void kvt_complain(struct kvt_reader *r, struct kvt_where where, const char *path,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "want ..., got ..." and "unknown key; did you mean ...". */
void kvt_complain_want(struct kvt_reader *r, const struct kvt_rule *rule,
                       const struct kvt_yaml *node, const char *path);
void kvt_complain_unknown(struct kvt_reader *r, const struct kvt_rule *section,
                          const struct kvt_yaml *child, const char *path);

/* path.key, or key alone at the root. */
void kvt_path_below(char out[KVT_PATH_BYTES], const char *path, const char *key);

#endif
