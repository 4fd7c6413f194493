#include "sim/base/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "sim/base/assert.h"
#include "sim/base/spelling.h"

#define QUOTE_CHARACTERS 80

struct anchor {
    const char *name;
    struct kvt_yaml *node;
    struct anchor *before;
};

struct frame {
    struct kvt_yaml *node; /* an open list or map */
    const char *key;       /* map: read, its value not yet */
    struct kvt_where key_where;
    bool merges;             /* map: the pending key is << */
    struct kvt_yaml *merged; /* map: what << named, a chain through next */
};

struct builder {
    yaml_parser_t parser;
    struct kvt_arena *arena;
    const char *file, *text;
    size_t count;
    bool inside;
    struct kvt_err *err;
    struct frame frames[KVT_YAML_DEPTH];
    int32_t depth, nodes;
    struct anchor *anchors;
    struct kvt_yaml *root;
};

size_t kvt_yaml_room(size_t count)
{
    return ((size_t)64 << 20) + 4 * count;
}

static struct kvt_where builder_where(const struct builder *b, yaml_mark_t mark)
{
    if (b->inside)
        return (struct kvt_where){.file = b->file};
    return (struct kvt_where){
        .file = b->file, .line = (int32_t)(mark.line + 1), .column = (int32_t)(mark.column + 1)};
}

static enum kvt_status builder_full(const struct builder *b)
{
    return kvt_err_set(b->err, KVT_ENOMEM, "%s: no memory for its YAML tree", b->file);
}

struct kvt_yaml *kvt_yaml_new(struct kvt_arena *arena, enum kvt_yaml_kind kind,
                              struct kvt_where where)
{
    struct kvt_yaml *node = kvt_arena_take(arena, 1, sizeof *node);
    if (node != NULL)
        *node = (struct kvt_yaml){.kind = kind, .text = "", .where = where};
    return node;
}

struct kvt_yaml *kvt_yaml_find(const struct kvt_yaml *map, const char *key)
{
    for (struct kvt_yaml *child = map->first; child != NULL; child = child->next)
        if (child->key != NULL && strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

void kvt_yaml_append(struct kvt_yaml *parent, struct kvt_yaml *child)
{
    child->next = NULL;
    if (parent->last != NULL)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

void kvt_yaml_remove(struct kvt_yaml *parent, struct kvt_yaml *child)
{
    struct kvt_yaml *before = NULL;
    for (struct kvt_yaml *at = parent->first; at != child; at = at->next) {
        kvt_assert(at != NULL);
        before = at;
    }
    if (before != NULL)
        before->next = child->next;
    else
        parent->first = child->next;
    if (parent->last == child)
        parent->last = before;
    child->next = NULL;
    parent->count--;
}

bool kvt_yaml_is_null(const struct kvt_yaml *node)
{
    return node->kind == KVT_YAML_SCALAR && !node->quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

const char *kvt_yaml_quote(const char *text, char out[KVT_QUOTE_BYTES])
{
    size_t used = 0;
    while (used < QUOTE_CHARACTERS && text[used] != '\0') {
        unsigned char byte = (unsigned char)text[used];
        out[used] = byte < 0x20 || byte == 0x7f ? '?' : text[used];
        used++;
    }
    bool cut = text[used] != '\0';
    while (cut && used > 0 && ((unsigned char)text[used] & 0xc0) == 0x80)
        used--; /* never half a character */
    snprintf(out + used, KVT_QUOTE_BYTES - used, "%s", cut ? "..." : "");
    return out;
}

/* The code point that *text begins with, and past it. A byte that begins none stands for itself. */
static uint32_t next_point(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    int more = at[0] >= 0xf0 ? 3 : at[0] >= 0xe0 ? 2 : at[0] >= 0xc0 ? 1 : 0;
    uint32_t point = more == 0 ? at[0] : at[0] & (0x3fU >> more);
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            (*text)++;
            return at[0];
        }
        point = point << 6 | (at[i] & 0x3fU);
    }
    *text += 1 + more;
    return point;
}

/* Not allowed in YAML as it stands, or folded into a space: controls, line ends, byte order marks.
 */
static bool must_escape(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
           point == 0xfeff || point == 0xfffe || point == 0xffff;
}

void kvt_yaml_print_quoted(const char *text, FILE *out)
{
    fputc('"', out);
    while (*text != '\0') {
        const char *from = text;
        uint32_t point = next_point(&text);
        if (point == '"' || point == '\\')
            fprintf(out, "\\%c", (char)point);
        else if (must_escape(point))
            fprintf(out, point < 0x100 ? "\\x%02x" : "\\u%04x", point);
        else
            fwrite(from, 1, (size_t)(text - from), out);
    }
    fputc('"', out);
}

const char *kvt_yaml_describe(const struct kvt_yaml *node, char out[KVT_QUOTE_BYTES])
{
    char quote[KVT_QUOTE_BYTES];
    switch (node->kind) {
    case KVT_YAML_LIST:
        return "a list";
    case KVT_YAML_MAP:
        return "a mapping";
    case KVT_YAML_SCALAR:
        break;
    }
    if (kvt_yaml_is_null(node))
        return "nothing";
    snprintf(out, KVT_QUOTE_BYTES, "\"%.100s\"", kvt_yaml_quote(node->text, quote));
    return out;
}

enum kvt_status kvt_yaml_want(const struct kvt_yaml *node, enum kvt_yaml_kind kind,
                              const char *what, struct kvt_err *err)
{
    static const char *const kinds[] = {"a value", "a list", "a mapping"};
    char got[KVT_QUOTE_BYTES];
    if (node->kind == kind)
        return KVT_OK;
    return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: want %s, got %s", what, kinds[kind],
                      kvt_yaml_describe(node, got));
}

enum kvt_status kvt_yaml_check_keys(const struct kvt_yaml *map, const char *const names[],
                                    size_t count, struct kvt_err *err)
{
    enum kvt_status status = KVT_OK;
    for (const struct kvt_yaml *child = map->first; child != NULL; child = child->next) {
        char got[KVT_QUOTE_BYTES], hint[KVT_HINT_BYTES];
        size_t i = 0;
        while (i < count && strcmp(names[i], child->key) != 0)
            i++;
        if (i == count)
            status = kvt_err_at(err, KVT_ECONFIG, child->key_where, "unknown key \"%s\"%s",
                                kvt_yaml_quote(child->key, got),
                                kvt_nearest_hint(child->key, names, count, hint));
    }
    return status;
}

enum kvt_status kvt_yaml_take_text(const struct kvt_yaml *node, const char *what, char *out,
                                   size_t size_bytes, struct kvt_err *err)
{
    KVT_TRY(kvt_yaml_want(node, KVT_YAML_SCALAR, what, err));
    size_t count = strlen(node->text);
    if (count >= size_bytes)
        return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: want at most %zu bytes, got %zu",
                          what, size_bytes - 1, count);
    memcpy(out, node->text, count + 1);
    return KVT_OK;
}

/* A node of the document, counted against the limit. */
static enum kvt_status builder_node(struct builder *b, enum kvt_yaml_kind kind,
                                    struct kvt_where where, struct kvt_yaml **node)
{
    if (++b->nodes > KVT_YAML_NODES)
        return kvt_err_at(b->err, KVT_ELIMIT, where,
                          "more than %d values (aliases count as often as they are used)",
                          KVT_YAML_NODES);
    *node = kvt_yaml_new(b->arena, kind, where);
    return *node == NULL ? builder_full(b) : KVT_OK;
}

/* Depth is bounded by the anchors' own depth, at most KVT_YAML_DEPTH. */
static enum kvt_status builder_copy(struct builder *b, const struct kvt_yaml *from, int32_t depth,
                                    struct kvt_where where, struct kvt_yaml **copy)
{
    if (depth >= KVT_YAML_DEPTH)
        return kvt_err_at(b->err, KVT_ELIMIT, where, "more than %d levels", KVT_YAML_DEPTH);
    KVT_TRY(builder_node(b, from->kind, from->where, copy));
    **copy = *from;
    (*copy)->first = (*copy)->last = (*copy)->next = NULL;
    (*copy)->count = 0;
    for (const struct kvt_yaml *child = from->first; child != NULL; child = child->next) {
        struct kvt_yaml *twin;
        KVT_TRY(builder_copy(b, child, depth + 1, where, &twin));
        kvt_yaml_append(*copy, twin);
    }
    return KVT_OK;
}

/* What `<<` names: a map, or a list of maps. They wait until the map that holds it is whole. */
static enum kvt_status builder_merge(struct builder *b, struct frame *frame, struct kvt_yaml *node)
{
    char got[KVT_QUOTE_BYTES];
    struct kvt_yaml *map = node->kind == KVT_YAML_LIST ? node->first : node;
    while (map != NULL) {
        struct kvt_yaml *following = node->kind == KVT_YAML_LIST ? map->next : NULL;
        if (map->kind != KVT_YAML_MAP)
            return kvt_err_at(b->err, KVT_ECONFIG, map->where, "<<: want a mapping, got %s",
                              kvt_yaml_describe(map, got));
        struct kvt_yaml **tail = &frame->merged;
        while (*tail != NULL)
            tail = &(*tail)->next;
        map->next = NULL;
        *tail = map;
        map = following;
    }
    return KVT_OK;
}

static enum kvt_status builder_key(struct builder *b, struct frame *frame,
                                   const struct kvt_yaml *node)
{
    char got[KVT_QUOTE_BYTES];
    if (node->kind != KVT_YAML_SCALAR)
        return kvt_err_at(b->err, KVT_ECONFIG, node->where, "want a key, got %s",
                          kvt_yaml_describe(node, got));
    frame->key = node->text;
    frame->key_where = node->where;
    frame->merges = !node->quoted && strcmp(node->text, "<<") == 0;
    return KVT_OK;
}

static enum kvt_status too_many_keys(const struct builder *b, const struct kvt_yaml *child)
{
    return kvt_err_at(b->err, KVT_ELIMIT, child->key_where, "more than %d keys in one mapping",
                      KVT_YAML_KEYS);
}

/* Hand a complete node (or an open collection) to what holds it. */
static enum kvt_status builder_attach(struct builder *b, struct kvt_yaml *node)
{
    if (b->depth == 0) {
        b->root = node;
        return KVT_OK;
    }
    struct frame *frame = &b->frames[b->depth - 1];
    if (frame->node->kind == KVT_YAML_LIST) {
        kvt_yaml_append(frame->node, node);
        return KVT_OK;
    }
    if (frame->key == NULL)
        return builder_key(b, frame, node);
    const char *key = frame->key;
    frame->key = NULL;
    node->key = key;
    node->key_where = frame->key_where;
    if (frame->merges)
        return KVT_OK;
    if (frame->node->count >= KVT_YAML_KEYS)
        return too_many_keys(b, node);
    kvt_yaml_append(frame->node, node);
    return KVT_OK;
}

/* The same for a whole node, whose keys are at hand where it is what << names. */
static enum kvt_status builder_give(struct builder *b, struct kvt_yaml *node)
{
    struct frame *frame = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
    bool merges = frame != NULL && frame->key != NULL && frame->merges;
    KVT_TRY(builder_attach(b, node));
    return merges ? builder_merge(b, frame, node) : KVT_OK;
}

static int child_order(const void *left, const void *right)
{
    const struct kvt_yaml *a = *(struct kvt_yaml *const *)left;
    const struct kvt_yaml *b = *(struct kvt_yaml *const *)right;
    int order = strcmp(a->key, b->key);
    if (order != 0)
        return order;
    if (a->key_where.line != b->key_where.line)
        return a->key_where.line < b->key_where.line ? -1 : 1;
    return (a->key_where.column > b->key_where.column) -
           (a->key_where.column < b->key_where.column);
}

static enum kvt_status builder_distinct(struct builder *b, const struct kvt_yaml *map)
{
    if (map->count < 2)
        return KVT_OK;
    struct kvt_yaml **order = malloc((size_t)map->count * sizeof(struct kvt_yaml *));
    if (order == NULL)
        return builder_full(b);
    size_t count = 0;
    for (struct kvt_yaml *child = map->first; child != NULL; child = child->next)
        order[count++] = child;
    qsort(order, count, sizeof order[0], child_order);
    enum kvt_status status = KVT_OK;
    for (size_t i = 1; i < count && status == KVT_OK; i++) {
        if (strcmp(order[i]->key, order[i - 1]->key) != 0)
            continue;
        char quote[KVT_QUOTE_BYTES], first[48] = "";
        if (!b->inside)
            snprintf(first, sizeof first, "; first at %d:%d", order[i - 1]->key_where.line,
                     order[i - 1]->key_where.column);
        status = kvt_err_at(b->err, KVT_ECONFIG, order[i]->key_where, "\"%s\" is given twice%s",
                            kvt_yaml_quote(order[i]->key, quote), first);
    }
    free(order);
    return status;
}

/* Add what << brought and the map itself lacks; of several the earlier wins. */
static enum kvt_status builder_take_merged(const struct builder *b, struct kvt_yaml *map,
                                           struct kvt_yaml *merged)
{
    for (; merged != NULL; merged = merged->next) {
        struct kvt_yaml *child = merged->first;
        while (child != NULL) {
            struct kvt_yaml *following = child->next;
            if (kvt_yaml_find(map, child->key) == NULL) {
                if (map->count >= KVT_YAML_KEYS)
                    return too_many_keys(b, child);
                kvt_yaml_append(map, child);
            }
            child = following;
        }
    }
    return KVT_OK;
}

static enum kvt_status builder_tag(struct builder *b, const yaml_char_t *tag, yaml_mark_t mark)
{
    static const char core[] = "tag:yaml.org,2002:";
    if (tag == NULL || strcmp((const char *)tag, "!") == 0 ||
        strncmp((const char *)tag, core, sizeof core - 1) == 0)
        return KVT_OK;
    char quote[KVT_QUOTE_BYTES];
    return kvt_err_at(b->err, KVT_ECONFIG, builder_where(b, mark),
                      "want a plain value, got the tag \"%s\"",
                      kvt_yaml_quote((const char *)tag, quote));
}

static enum kvt_status builder_anchor(struct builder *b, const yaml_char_t *name,
                                      struct kvt_yaml *node)
{
    if (name == NULL)
        return KVT_OK;
    struct anchor *anchor = kvt_arena_take(b->arena, 1, sizeof *anchor);
    if (anchor == NULL)
        return builder_full(b);
    *anchor = (struct anchor){
        .name = kvt_arena_text(b->arena, (const char *)name), .node = node, .before = b->anchors};
    if (anchor->name == NULL)
        return builder_full(b);
    b->anchors = anchor;
    return KVT_OK;
}

static enum kvt_status builder_scalar(struct builder *b, const yaml_event_t *event)
{
    struct kvt_where where = builder_where(b, event->start_mark);
    KVT_TRY(builder_tag(b, event->data.scalar.tag, event->start_mark));
    const char *text = (const char *)event->data.scalar.value;
    if (memchr(text, '\0', event->data.scalar.length) != NULL)
        return kvt_err_at(b->err, KVT_ECONFIG, where, "want text, got a zero byte");
    struct kvt_yaml *node;
    KVT_TRY(builder_node(b, KVT_YAML_SCALAR, where, &node));
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (text[0] != '\0')
        node->text = kvt_arena_text(b->arena, text);
    if (node->text == NULL)
        return builder_full(b);
    KVT_TRY(builder_anchor(b, event->data.scalar.anchor, node));
    return builder_give(b, node);
}

static enum kvt_status builder_alias(struct builder *b, const yaml_event_t *event)
{
    struct kvt_where where = builder_where(b, event->start_mark);
    const char *name = (const char *)event->data.alias.anchor;
    char quote[KVT_QUOTE_BYTES];
    const struct anchor *anchor = b->anchors;
    while (anchor != NULL && strcmp(anchor->name, name) != 0)
        anchor = anchor->before;
    if (anchor == NULL)
        return kvt_err_at(b->err, KVT_ECONFIG, where, "*%s: no such anchor before it",
                          kvt_yaml_quote(name, quote));
    for (int32_t i = 0; i < b->depth; i++)
        if (b->frames[i].node == anchor->node)
            return kvt_err_at(b->err, KVT_ECONFIG, where,
                              "*%s lies inside its own anchor (line %d): a cycle",
                              kvt_yaml_quote(name, quote), anchor->node->where.line);
    struct kvt_yaml *copy;
    KVT_TRY(builder_copy(b, anchor->node, b->depth, where, &copy));
    copy->key = NULL;
    return builder_give(b, copy);
}

static enum kvt_status builder_open(struct builder *b, enum kvt_yaml_kind kind,
                                    const yaml_char_t *tag, const yaml_char_t *anchor,
                                    yaml_mark_t mark)
{
    struct kvt_where where = builder_where(b, mark);
    KVT_TRY(builder_tag(b, tag, mark));
    if (b->depth >= KVT_YAML_DEPTH)
        return kvt_err_at(b->err, KVT_ELIMIT, where, "more than %d levels", KVT_YAML_DEPTH);
    struct kvt_yaml *node;
    KVT_TRY(builder_node(b, kind, where, &node));
    KVT_TRY(builder_anchor(b, anchor, node));
    KVT_TRY(builder_attach(b, node));
    b->frames[b->depth++] = (struct frame){.node = node};
    return KVT_OK;
}

static enum kvt_status builder_close(struct builder *b)
{
    kvt_assert(b->depth > 0);
    struct frame *frame = &b->frames[--b->depth];
    if (frame->node->kind == KVT_YAML_MAP) {
        KVT_TRY(builder_distinct(b, frame->node));
        KVT_TRY(builder_take_merged(b, frame->node, frame->merged));
    }
    struct frame *outer = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
    bool merges = outer != NULL && outer->node->kind == KVT_YAML_MAP && outer->merges &&
                  outer->key == NULL && frame->node->key != NULL &&
                  strcmp(frame->node->key, "<<") == 0;
    return merges ? builder_merge(b, outer, frame->node) : KVT_OK;
}

/* A byte offset as a place: libyaml gives no mark for text that is not UTF-8. */
static struct kvt_where builder_offset(const struct builder *b, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < b->count; i++) {
        unsigned char byte = (unsigned char)b->text[i];
        if (byte == '\n') {
            mark.line++;
            mark.column = 0;
        } else if ((byte & 0xc0) != 0x80 && byte != '\r') {
            mark.column++;
        }
    }
    return builder_where(b, mark);
}

static enum kvt_status builder_problem(const struct builder *b)
{
    const yaml_parser_t *parser = &b->parser;
    const char *problem = parser->problem != NULL ? parser->problem : "unknown problem";
    /* libyaml gives some failed allocations without an error. */
    if (parser->error == YAML_MEMORY_ERROR || parser->error == YAML_NO_ERROR)
        return builder_full(b);
    if (parser->error == YAML_READER_ERROR) {
        size_t at = parser->problem_offset;
        bool trails = strstr(problem, "trailing") != NULL; /* its lead byte is what is wrong */
        while (trails && at > 0 && ((unsigned char)b->text[--at] & 0xc0) == 0x80)
            continue;
        unsigned byte = at < b->count ? (unsigned char)b->text[at] : 0;
        return kvt_err_at(b->err, KVT_ECONFIG, builder_offset(b, at),
                          "want UTF-8 text, got byte 0x%02x: %s", byte, problem);
    }
    struct kvt_where where = builder_where(b, parser->problem_mark);
    size_t index = parser->problem_mark.index;
    bool tab = index < b->count && b->text[index] == '\t';
    if (tab)
        return kvt_err_at(b->err, KVT_ECONFIG, where, "a tab cannot indent YAML; use spaces");
    if (parser->context == NULL || b->inside)
        return kvt_err_at(b->err, KVT_ECONFIG, where, "bad YAML: %s", problem);
    return kvt_err_at(b->err, KVT_ECONFIG, where, "bad YAML: %s %s that starts at %zu:%zu", problem,
                      parser->context, parser->context_mark.line + 1,
                      parser->context_mark.column + 1);
}

static enum kvt_status builder_event(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->root != NULL)
            return kvt_err_at(b->err, KVT_ECONFIG, builder_where(b, event->start_mark),
                              "want one document, got a second one");
        return KVT_OK;
    case YAML_SCALAR_EVENT:
        return builder_scalar(b, event);
    case YAML_ALIAS_EVENT:
        return builder_alias(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return builder_open(b, KVT_YAML_LIST, event->data.sequence_start.tag,
                            event->data.sequence_start.anchor, event->start_mark);
    case YAML_MAPPING_START_EVENT:
        return builder_open(b, KVT_YAML_MAP, event->data.mapping_start.tag,
                            event->data.mapping_start.anchor, event->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return builder_close(b);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return KVT_OK;
}

static enum kvt_status builder_run(struct builder *b)
{
    enum kvt_status status = KVT_OK;
    bool ended = false;
    while (status == KVT_OK && !ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&b->parser, &event))
            return builder_problem(b);
        status = builder_event(b, &event);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    return status;
}

enum kvt_status kvt_yaml_parse(struct kvt_arena *arena, const char *file, const char *text,
                               size_t count, bool inside, struct kvt_yaml **root,
                               struct kvt_err *err)
{
    if (count > KVT_YAML_BYTES)
        return kvt_err_set(err, KVT_ELIMIT, "%s: is larger than the limit of %zu bytes", file,
                           KVT_YAML_BYTES);
    struct builder b = {
        .arena = arena, .file = file, .text = text, .count = count, .inside = inside, .err = err};
    if (!yaml_parser_initialize(&b.parser))
        return builder_full(&b);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, count);
    enum kvt_status status = builder_run(&b);
    yaml_parser_delete(&b.parser);
    if (status == KVT_OK && b.root == NULL)
        status = builder_node(&b, KVT_YAML_SCALAR, builder_where(&b, (yaml_mark_t){0}), &b.root);
    if (status == KVT_OK)
        *root = b.root;
    return status;
}
