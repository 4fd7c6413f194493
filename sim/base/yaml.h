/*
 * yaml.h - a YAML document as a tree whose every node knows its line and column
 *
 * libyaml does the parsing; this keeps what readers of configs, models, GPUs and calibrations need.
 * A document is one node: a scalar (its
 * text), a list, or a map (whose children carry their keys). An alias (*name) is a copy of what its
 * anchor (&name) holds, so that the result is a tree and one place can be changed without another;
 * `<<: *name` adds the keys that the map itself lacks. Refused, with the place: an alias inside its
 * own anchor (a cycle), a key given twice, a second document, tags of one's own, text that is not
 * UTF-8, more than KVT_YAML_DEPTH levels, more than KVT_YAML_NODES nodes (which also stops aliases
 * of aliases from growing without end) and files over KVT_YAML_BYTES.
 *
 * Everything lives in the caller's arena. Lines and columns count from 1, columns in characters.
 */
#ifndef KVT_BASE_YAML_H
#define KVT_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"

#define KVT_YAML_DEPTH  64
#define KVT_YAML_NODES  200000
#define KVT_YAML_KEYS   4096 /* of one map */
#define KVT_YAML_BYTES  ((size_t)16 << 20)
#define KVT_QUOTE_BYTES 128 /* enough for kvt_yaml_quote */

enum kvt_yaml_kind { KVT_YAML_SCALAR, KVT_YAML_LIST, KVT_YAML_MAP };

struct kvt_yaml {
    enum kvt_yaml_kind kind;
    bool quoted;                          /* scalar in quotes or a block: never null */
    int32_t count;                        /* children */
    const char *text;                     /* scalar; UTF-8, ends with a zero byte */
    const char *key;                      /* child of a map; else NULL */
    struct kvt_yaml *first, *last, *next; /* children in the order of the file; the next sibling */
    struct kvt_where where, key_where;
};

/* Room that an arena needs for a document of count bytes. */
size_t kvt_yaml_room(size_t count);

/* Parse text[0..count-1]. file is borrowed for messages and places. inside: the text is not a file
 * but a value on the command line, so that places have no line. An empty text is a null scalar.
 * KVT_ECONFIG for bad YAML, KVT_ELIMIT past a limit, KVT_ENOMEM. Time O(n log n). */
enum kvt_status kvt_yaml_parse(struct kvt_arena *arena, const char *file, const char *text,
                               size_t count, bool inside, struct kvt_yaml **root,
                               struct kvt_err *err);

/* The child of a map with this key, or NULL. O(children). */
struct kvt_yaml *kvt_yaml_find(const struct kvt_yaml *map, const char *key);

/* Add child (with its key set) at the end of a map or list; take a child out of it. */
void kvt_yaml_append(struct kvt_yaml *parent, struct kvt_yaml *child);
void kvt_yaml_remove(struct kvt_yaml *parent, struct kvt_yaml *child);

/* A new empty node, or NULL when the arena is full. */
struct kvt_yaml *kvt_yaml_new(struct kvt_arena *arena, enum kvt_yaml_kind kind,
                              struct kvt_where where);

/* Nothing was written: an empty plain scalar, ~ or null. */
bool kvt_yaml_is_null(const struct kvt_yaml *node);

/* ---- what readers of files say alike: KVT_ECONFIG at the node's place ---- */

/* "WHAT: want a list, got ..." unless node is of this kind. */
enum kvt_status kvt_yaml_want(const struct kvt_yaml *node, enum kvt_yaml_kind kind,
                              const char *what, struct kvt_err *err);

/* Every key of map is one of names; each that is not is named, with the nearest that is. */
enum kvt_status kvt_yaml_check_keys(const struct kvt_yaml *map, const char *const names[],
                                    size_t count, struct kvt_err *err);

/* The text of a scalar into out; refused when it has more than size_bytes - 1 bytes. */
enum kvt_status kvt_yaml_take_text(const struct kvt_yaml *node, const char *what, char *out,
                                   size_t size_bytes, struct kvt_err *err);

/* ---- printing ---- */

/* text for a message: at most 80 characters and "...", control characters replaced. Returns out. */
const char *kvt_yaml_quote(const char *text, char out[KVT_QUOTE_BYTES]);

/* Text in double quotes, which read back as the same text whatever is in it. */
void kvt_yaml_print_quoted(const char *text, FILE *out);

/* What a node is, for "got ...": "\"fp9\"", a list, a mapping, nothing; in out, where it
 * is not a constant. */
const char *kvt_yaml_describe(const struct kvt_yaml *node, char out[KVT_QUOTE_BYTES]);

#endif
