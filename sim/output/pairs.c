/*
 * pairs.c - named values of two runs, matched by name
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "sim/base/assert.h"
#include "sim/output/pairs.h"

static void pair_release(struct kvt_pair *pair)
{
    free(pair->name);
    free(pair->text[0]);
    free(pair->text[1]);
}

void kvt_pairs_release(struct kvt_pairs *pairs)
{
    for (int32_t i = 0; i < pairs->count; i++)
        pair_release(&pairs->pairs[i]);
    free(pairs->pairs);
    *pairs = (struct kvt_pairs){0};
}

/* A pair of this name that lacks side 1. Both runs list their names in nearly the same order: look
 * on from behind the last one. */
static struct kvt_pair *pairs_find(struct kvt_pairs *pairs, const char *name)
{
    for (int32_t i = 0; i < pairs->count; i++) {
        int32_t at = (pairs->next + i) % pairs->count;
        if (pairs->pairs[at].text[1] == NULL && strcmp(pairs->pairs[at].name, name) == 0) {
            pairs->next = at + 1;
            return &pairs->pairs[at];
        }
    }
    return NULL;
}

static struct kvt_pair *pairs_new(struct kvt_pairs *pairs, const char *name)
{
    if (pairs->count == pairs->room) {
        int32_t room = pairs->room == 0 ? 64 : 2 * pairs->room;
        struct kvt_pair *grown = realloc(pairs->pairs, (size_t)room * sizeof *grown);
        if (grown == NULL)
            return NULL;
        pairs->pairs = grown;
        pairs->room = room;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return NULL;
    struct kvt_pair *pair = &pairs->pairs[pairs->count++];
    *pair = (struct kvt_pair){.name = copy};
    return pair;
}

enum kvt_status kvt_pairs_add(struct kvt_pairs *pairs, int side, const char *name, const char *text,
                              const double *number, struct kvt_err *err)
{
    kvt_assert(side == 0 || side == 1);
    struct kvt_pair *pair = side == 0 ? NULL : pairs_find(pairs, name);
    if (pair == NULL)
        pair = pairs_new(pairs, name);
    char *copy = pair == NULL ? NULL : strdup(text);
    if (copy == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to compare \"%s\"", name);
    pair->text[side] = copy;
    pair->is_number = number != NULL;
    if (number != NULL)
        pair->number[side] = *number;
    return KVT_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t count = strlen(text), end_count = strlen(end);
    return count > end_count && strcmp(text + count - end_count, end) == 0;
}

/* An end of an interval that only one of the runs was asked for. */
static bool is_extra(const struct kvt_pair *pair)
{
    bool both = pair->text[0] != NULL && pair->text[1] != NULL;
    return !both && (ends_with(pair->name, "_low") || ends_with(pair->name, "_high"));
}

void kvt_pairs_judge(struct kvt_pairs *pairs)
{
    int32_t kept = 0;
    pairs->different = 0;
    for (int32_t i = 0; i < pairs->count; i++) {
        struct kvt_pair pair = pairs->pairs[i];
        const char *a = pair.text[0], *b = pair.text[1];
        if (is_extra(&pair)) {
            pair_release(&pair);
            continue;
        }
        pair.equal = a != NULL && b != NULL && strcmp(a, b) == 0;
        pairs->different += !pair.equal;
        pairs->pairs[kept++] = pair;
    }
    pairs->count = kept;
}

/* ---- YAML ---- */

#define DEPTH_MAX  32
#define PATH_BYTES 512

struct level {
    bool is_list, has_key; /* has_key: a mapping whose key has been read, its value not yet */
    int32_t index;         /* of the next item of a list */
    size_t path_bytes;     /* of the path before this level's key */
};

struct walk {
    struct kvt_pairs *pairs;
    int side;
    struct level levels[DEPTH_MAX];
    int32_t depth;
    char path[PATH_BYTES];
};

/* Before a value: the path gets its index when it stands in a list. */
static void enter_value(struct walk *walk)
{
    if (walk->depth == 0)
        return;
    struct level *level = &walk->levels[walk->depth - 1];
    if (level->is_list)
        snprintf(walk->path + level->path_bytes, PATH_BYTES - level->path_bytes, "[%d]",
                 level->index++);
}

/* After a value: the next one of this level begins afresh. */
static void leave_value(struct walk *walk)
{
    if (walk->depth == 0)
        return;
    struct level *level = &walk->levels[walk->depth - 1];
    level->has_key = false;
    walk->path[level->path_bytes] = '\0';
}

static enum kvt_status take_scalar(struct walk *walk, const char *text, struct kvt_err *err)
{
    struct level *level = walk->depth > 0 ? &walk->levels[walk->depth - 1] : NULL;
    if (level != NULL && !level->is_list && !level->has_key) {
        snprintf(walk->path + level->path_bytes, PATH_BYTES - level->path_bytes, "%s%.200s",
                 level->path_bytes > 0 ? "." : "", text);
        level->has_key = true;
        return KVT_OK;
    }
    enter_value(walk);
    enum kvt_status status = kvt_pairs_add(walk->pairs, walk->side, walk->path, text, NULL, err);
    leave_value(walk);
    return status;
}

static enum kvt_status take_event(struct walk *walk, const yaml_event_t *event, struct kvt_err *err)
{
    bool begins =
        event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
    bool ends = event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
    if (event->type == YAML_SCALAR_EVENT)
        return take_scalar(walk, (const char *)event->data.scalar.value, err);
    if (begins && walk->depth == DEPTH_MAX)
        return kvt_err_set(err, KVT_ECONFIG, "the stored configuration is nested too deep");
    if (begins) {
        enter_value(walk);
        walk->levels[walk->depth++] = (struct level){
            .is_list = event->type == YAML_SEQUENCE_START_EVENT, .path_bytes = strlen(walk->path)};
    }
    if (ends) {
        walk->depth--;
        leave_value(walk);
    }
    return KVT_OK;
}

enum kvt_status kvt_pairs_add_yaml(struct kvt_pairs *pairs, int side, const char *name,
                                   const char *yaml, struct kvt_err *err)
{
    yaml_parser_t parser;
    if (yaml_parser_initialize(&parser) == 0)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the YAML parser");
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml, strlen(yaml));
    struct walk walk = {.pairs = pairs, .side = side};
    enum kvt_status status = KVT_OK;
    for (bool more = true; more && status == KVT_OK;) {
        yaml_event_t event;
        if (yaml_parser_parse(&parser, &event) == 0) {
            enum kvt_status why = parser.error == YAML_MEMORY_ERROR || parser.error == YAML_NO_ERROR
                                      ? KVT_ENOMEM
                                      : KVT_ECONFIG;
            status = kvt_err_at(err, why, (struct kvt_where){.file = name},
                                "the stored configuration is not YAML: %s",
                                parser.problem != NULL ? parser.problem : "no memory");
            break;
        }
        more = event.type != YAML_STREAM_END_EVENT;
        status = take_event(&walk, &event, err);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}
