#include "sim/output/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/list.h"
#include "sim/base/spelling.h"
#include "sim/base/yaml.h"

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
    struct kvt_pair *grown = kvt_list_grow(pairs->pairs, pairs->count, &pairs->room, sizeof *grown);
    if (grown == NULL)
        return NULL;
    pairs->pairs = grown;
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

/* An end of an interval that only one of the runs was asked for. */
static bool is_extra(const struct kvt_pair *pair)
{
    bool both = pair->text[0] != NULL && pair->text[1] != NULL;
    return !both && (kvt_text_ends(pair->name, "_low") || kvt_text_ends(pair->name, "_high"));
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

#define PATH_BYTES 512

/* Every scalar at and below node, whose path is the first `bytes` of path. Depth is bounded by
 * KVT_YAML_DEPTH. */
static enum kvt_status add_node(struct kvt_pairs *pairs, int side, const struct kvt_yaml *node,
                                char path[PATH_BYTES], size_t bytes, struct kvt_err *err)
{
    path[bytes] = '\0';
    if (node->kind == KVT_YAML_SCALAR)
        return kvt_pairs_add(pairs, side, path, node->text, NULL, err);
    int32_t index = 0;
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next) {
        size_t room = PATH_BYTES - bytes;
        if (node->kind == KVT_YAML_LIST)
            snprintf(path + bytes, room, "[%d]", index++);
        else
            snprintf(path + bytes, room, "%s%.200s", bytes > 0 ? "." : "", child->key);
        KVT_TRY(add_node(pairs, side, child, path, strlen(path), err));
    }
    return KVT_OK;
}

enum kvt_status kvt_pairs_add_yaml(struct kvt_pairs *pairs, int side, const char *file,
                                   const char *yaml, struct kvt_err *err)
{
    struct kvt_arena arena;
    struct kvt_yaml *root;
    struct kvt_err why = {0};
    char path[PATH_BYTES];
    size_t count = strlen(yaml);
    KVT_TRY(kvt_arena_init(&arena, kvt_yaml_room(count), err));
    enum kvt_status status =
        kvt_yaml_parse(&arena, "its configuration", yaml, count, true, &root, &why);
    if (status == KVT_OK)
        status = add_node(pairs, side, root, path, 0, err);
    else
        kvt_err_at(err, status, (struct kvt_where){.file = file},
                   "the stored configuration cannot be read: %s", why.text);
    kvt_arena_release(&arena);
    return status;
}
