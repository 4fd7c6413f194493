/* The YAML of calibration.h, read through libyaml's document tree. */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "sim/base/assert.h"
#include "sim/base/units.h"
#include "sim/cost/calibration_file.h"

/* A number of a law, or of the file: its key, unit, place in the struct and the laws that need or
 * take it (bits of kvt_law_kind). */
struct number_key {
    const char *key;
    enum kvt_dimension dimension;
    size_t offset;
    unsigned needed, taken;
    bool positive;
};

#define BIT(kind)   (1u << KVT_LAW_##kind)
#define LAW(member) offsetof(struct kvt_law, member)
#define ATTENTION   (BIT(DECODE) | BIT(SPARSE))
#define ROOFED      (BIT(ROOFLINE) | ATTENTION)
#define LISTED      (BIT(SPARSE) | BIT(BUCKETS) | BIT(KNOTS))
#define T0          (BIT(CONSTANT) | BIT(ROOFLINE) | BIT(DECODE))
/* clang-format off */
static const struct number_key number_keys[] = {
    {"t0",           KVT_DIMENSION_TIME,      LAW(t0),           T0,        0,             false},
    {"serial",       KVT_DIMENSION_TIME,      LAW(serial),       0,         BIT(ROOFLINE), false},
    {"bandwidth",    KVT_DIMENSION_BANDWIDTH, LAW(bandwidth),    ATTENTION, BIT(ROOFLINE), true},
    {"flops",        KVT_DIMENSION_FLOPS,     LAW(flops),        0, ROOFED,                true},
    {"p",            KVT_DIMENSION_NONE,      LAW(p),            0, ROOFED,                true},
    {"pad",          KVT_DIMENSION_NONE,      LAW(pad),          0,         BIT(ROOFLINE), false},
    {"skew",         KVT_DIMENSION_NONE,      LAW(skew),         0,         BIT(ROOFLINE), true},
    {"tokens",       KVT_DIMENSION_NONE,      LAW(tokens),       0,         ATTENTION,     false},
    {"split",        KVT_DIMENSION_TIME,      LAW(split),        0,         ATTENTION,     false},
    {"split_tokens", KVT_DIMENSION_NONE,      LAW(split_tokens), 0,         ATTENTION,     true},
    {"index_bandwidth", KVT_DIMENSION_BANDWIDTH, LAW(index_bandwidth), 0,   BIT(SPARSE),   true},
};
static const struct number_key list_keys[] = {
    {"at",   KVT_DIMENSION_NONE,      LAW(at),   LISTED,       0, true},
    {"time", KVT_DIMENSION_TIME,      LAW(time), LISTED,       0, true},
    {"rate", KVT_DIMENSION_BANDWIDTH, LAW(rate), BIT(BUCKETS), 0, true},
};
/* clang-format on */
enum { NUMBER_KEYS = sizeof number_keys / sizeof number_keys[0] };
enum { LIST_KEYS = sizeof list_keys / sizeof list_keys[0] };

static const char *const law_keys[] = {
    "family", "law",   "t0",           "serial",          "bandwidth", "flops", "p",
    "tokens", "split", "split_tokens", "index_bandwidth", "at",        "time",  "rate",
    "when",   "grid",  "held_out",     "in_sample",       "source",    "pad",   "skew"};
static const char *const file_keys[] = {"calibration", "gpu",    "stack", "version",
                                        "skew",        "source", "laws"};
static const char *const error_keys[] = {"rows", "median", "mean"};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct reader {
    yaml_document_t *document;
    const char *name;
    struct kvt_err *err;
    bool failed;
};

static struct kvt_where where_of(const struct reader *r, const yaml_node_t *node)
{
    return (struct kvt_where){.file = r->name,
                              .line = (int32_t)node->start_mark.line + 1,
                              .column = (int32_t)node->start_mark.column + 1};
}

#define FAIL(r, node, ...)                                                                         \
    do {                                                                                           \
        kvt_err_at((r)->err, KVT_ECONFIG, where_of((r), (node)), __VA_ARGS__);                     \
        (r)->failed = true;                                                                        \
    } while (0)

static yaml_node_t *node_of(const struct reader *r, int index)
{
    return yaml_document_get_node(r->document, index);
}

/* The text of a scalar, or NULL after a message. what: "a time such as ..." */
static const char *scalar_text(struct reader *r, const yaml_node_t *node, const char *key,
                               const char *what)
{
    if (node->type == YAML_SCALAR_NODE)
        return (const char *)node->data.scalar.value;
    FAIL(r, node, "%s: want %s, got a %s", key, what,
         node->type == YAML_SEQUENCE_NODE ? "list" : "mapping");
    return NULL;
}

static size_t item_count(const yaml_node_t *list)
{
    return (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

static yaml_node_t *item(const struct reader *r, const yaml_node_t *list, size_t i)
{
    return node_of(r, list->data.sequence.items.start[i]);
}

/* The value under key in a mapping, or NULL. */
static yaml_node_t *find(const struct reader *r, const yaml_node_t *map, const char *key)
{
    for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
         pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = node_of(r, pair->key);
        if (name->type == YAML_SCALAR_NODE &&
            strcmp((const char *)name->data.scalar.value, key) == 0)
            return node_of(r, pair->value);
    }
    return NULL;
}

/* Every key of map is one of keys, once. */
static void check_keys(struct reader *r, const yaml_node_t *map, const char *const keys[],
                       size_t count)
{
    for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
         pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *node = node_of(r, pair->key);
        const char *key = scalar_text(r, node, "key", "a name");
        if (key == NULL)
            continue;
        size_t i = 0;
        while (i < count && strcmp(keys[i], key) != 0)
            i++;
        if (i == count) {
            const char *near = kvt_nearest_name(key, keys, count);
            FAIL(r, node, "unknown key \"%.60s\"%s%s%s", key, near ? "; did you mean \"" : "",
                 near ? near : "", near ? "\"?" : "");
        } else if (find(r, map, key) != node_of(r, pair->value)) {
            FAIL(r, node, "key \"%s\" is given twice", key);
        }
    }
}

static bool want_map(struct reader *r, const yaml_node_t *node, const char *what)
{
    if (node->type == YAML_MAPPING_NODE)
        return true;
    FAIL(r, node, "%s: want a mapping", what);
    return false;
}

static void read_quantity(struct reader *r, const yaml_node_t *node, const char *key,
                          enum kvt_dimension dimension, bool positive, double *value)
{
    const char *text = scalar_text(r, node, key, kvt_dimension_example(dimension));
    struct kvt_err inner = {0};
    if (text == NULL)
        return;
    if (kvt_quantity_parse(text, dimension, value, &inner) != KVT_OK) {
        FAIL(r, node, "%s: %s", key, inner.text);
    } else if (*value < 0.0 || (positive && *value == 0.0)) {
        FAIL(r, node, "%s: want %s, got \"%.60s\"", key, positive ? "more than 0" : "at least 0",
             text);
    }
}

static void read_text(struct reader *r, const yaml_node_t *map, const char *key, bool needed,
                      char *out, size_t bytes)
{
    const yaml_node_t *node = find(r, map, key);
    if (node == NULL) {
        if (needed)
            FAIL(r, map, "%s: wanted here, not given", key);
        return;
    }
    const char *text = scalar_text(r, node, key, "a text");
    if (text == NULL)
        return;
    if (strlen(text) >= bytes || text[0] == '\0')
        FAIL(r, node, "%s: want 1 to %zu characters, got %zu", key, bytes - 1, strlen(text));
    else
        strcpy(out, text);
}

/* {dim: number} or {dim: [min, max]} */
static void read_ranges(struct reader *r, const yaml_node_t *node, const char *key,
                        struct kvt_range ranges[KVT_DIM_COUNT])
{
    if (!want_map(r, node, key))
        return;
    check_keys(r, node, kvt_dim_names, KVT_DIM_COUNT);
    for (int d = 0; d < KVT_DIM_COUNT; d++) {
        const yaml_node_t *value = find(r, node, kvt_dim_names[d]);
        if (value == NULL)
            continue;
        const yaml_node_t *low = value, *high = value;
        if (value->type == YAML_SEQUENCE_NODE) {
            if (item_count(value) != 2) {
                FAIL(r, value, "%s: want [min, max], got %zu items", kvt_dim_names[d],
                     item_count(value));
                continue;
            }
            low = item(r, value, 0), high = item(r, value, 1);
        }
        read_quantity(r, low, kvt_dim_names[d], KVT_DIMENSION_NONE, false, &ranges[d].min);
        read_quantity(r, high, kvt_dim_names[d], KVT_DIMENSION_NONE, true, &ranges[d].max);
        if (ranges[d].min > ranges[d].max)
            FAIL(r, value, "%s: want min <= max, got %g and %g", kvt_dim_names[d], ranges[d].min,
                 ranges[d].max);
    }
}

static void read_errors(struct reader *r, const yaml_node_t *map, struct kvt_law *law)
{
    const yaml_node_t *held = find(r, map, "held_out"), *in = find(r, map, "in_sample");
    const yaml_node_t *node = held != NULL ? held : in;
    double rows = 0.0;
    if (node == NULL || !want_map(r, node, held != NULL ? "held_out" : "in_sample"))
        return;
    check_keys(r, node, error_keys, COUNT(error_keys));
    double *const values[] = {&rows, &law->error_median, &law->error_mean};
    for (size_t i = 0; i < COUNT(error_keys); i++) {
        const yaml_node_t *value = find(r, node, error_keys[i]);
        if (value == NULL)
            FAIL(r, node, "%s: wanted here, not given", error_keys[i]);
        else
            read_quantity(r, value, error_keys[i], KVT_DIMENSION_NONE, i == 0, values[i]);
    }
    law->error_rows = (int64_t)(rows < 1e15 ? rows : 1e15);
    law->held_out = held != NULL;
}

/* at, time, rate: lists of one length, at increasing. */
static void read_lists(struct reader *r, const yaml_node_t *map, struct kvt_law *law)
{
    for (size_t i = 0; i < LIST_KEYS; i++) {
        const struct number_key *key = &list_keys[i];
        const yaml_node_t *list = find(r, map, key->key);
        if (list == NULL || (key->needed >> law->kind & 1) == 0)
            continue;
        if (list->type != YAML_SEQUENCE_NODE || item_count(list) == 0 ||
            item_count(list) > KVT_LAW_POINTS) {
            FAIL(r, list, "%s: want a list of 1 to %d items", key->key, KVT_LAW_POINTS);
            continue;
        }
        int32_t count = (int32_t)item_count(list);
        if (law->points != 0 && law->points != count)
            FAIL(r, list, "%s: want %d items as in \"at\", got %d", key->key, law->points, count);
        law->points = law->points == 0 ? count : law->points < count ? law->points : count;
        double *out = (double *)((char *)law + key->offset);
        for (int32_t k = 0; k < count; k++)
            read_quantity(r, item(r, list, (size_t)k), key->key, key->dimension, key->positive,
                          &out[k]);
    }
    for (int32_t k = 1; k < law->points; k++)
        if (law->at[k] <= law->at[k - 1])
            FAIL(r, map, "at: want increasing numbers, got %g after %g", law->at[k],
                 law->at[k - 1]);
}

static int read_name(struct reader *r, const yaml_node_t *map, const char *key,
                     const char *const names[], size_t count)
{
    const yaml_node_t *node = find(r, map, key);
    if (node == NULL) {
        FAIL(r, map, "%s: wanted here, not given", key);
        return -1;
    }
    const char *text = scalar_text(r, node, key, "a name");
    for (size_t i = 0; text != NULL && i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return (int)i;
    if (text != NULL) {
        const char *near = kvt_nearest_name(text, names, count);
        FAIL(r, node, "%s: unknown \"%.60s\"%s%s%s", key, text, near ? "; did you mean \"" : "",
             near ? near : "", near ? "\"?" : "");
    }
    return -1;
}

static void read_numbers(struct reader *r, const yaml_node_t *map, struct kvt_law *law)
{
    for (size_t i = 0; i < NUMBER_KEYS + LIST_KEYS; i++) {
        const struct number_key *key =
            i < NUMBER_KEYS ? &number_keys[i] : &list_keys[i - NUMBER_KEYS];
        const yaml_node_t *node = find(r, map, key->key);
        bool needed = key->needed >> law->kind & 1, taken = key->taken >> law->kind & 1;
        if (node == NULL && needed)
            FAIL(r, map, "%s: wanted by law \"%s\", not given", key->key, kvt_law_names[law->kind]);
        if (node != NULL && !needed && !taken)
            FAIL(r, node, "%s: law \"%s\" does not take it", key->key, kvt_law_names[law->kind]);
        if (node != NULL && (needed || taken) && i < NUMBER_KEYS)
            read_quantity(r, node, key->key, key->dimension, key->positive,
                          (double *)((char *)law + key->offset));
    }
    if (law->skew > 1.0)
        FAIL(r, map, "skew: want 0 to 1, got %g", law->skew);
    if (law->split > 0.0 && law->split_tokens == 0.0)
        FAIL(r, map, "split_tokens: wanted with split, not given");
}

static void read_law(struct reader *r, const yaml_node_t *map, struct kvt_law *law)
{
    *law = (struct kvt_law){.p = 3.0, .line = where_of(r, map).line};
    if (!want_map(r, map, "laws"))
        return;
    check_keys(r, map, law_keys, COUNT(law_keys));
    int family = read_name(r, map, "family", kvt_family_names, KVT_FAMILY_COUNT);
    int kind = read_name(r, map, "law", kvt_law_names, KVT_LAW_KIND_COUNT);
    read_text(r, map, "source", true, law->source, sizeof law->source);
    if (family < 0 || kind < 0)
        return;
    law->family = (enum kvt_family)family;
    law->kind = (enum kvt_law_kind)kind;
    read_numbers(r, map, law);
    read_lists(r, map, law);
    read_errors(r, map, law);
    if (find(r, map, "when") != NULL)
        read_ranges(r, find(r, map, "when"), "when", law->when);
    if (find(r, map, "grid") != NULL)
        read_ranges(r, find(r, map, "grid"), "grid", law->grid);
}

static void read_laws(struct reader *r, const yaml_node_t *map, struct kvt_calibration *calibration)
{
    const yaml_node_t *list = find(r, map, "laws");
    if (list == NULL || list->type != YAML_SEQUENCE_NODE) {
        FAIL(r, list != NULL ? list : map, "laws: want a list of laws");
        return;
    }
    size_t room = KVT_CALIBRATION_LAWS - KVT_FAMILY_COUNT; /* for the guesses */
    if (item_count(list) > room) {
        FAIL(r, list, "laws: want at most %zu, got %zu", room, item_count(list));
        return;
    }
    for (size_t i = 0; i < item_count(list); i++)
        read_law(r, item(r, list, i), &calibration->laws[calibration->law_count++]);
}

static void read_file(struct reader *r, struct kvt_calibration *calibration,
                      const struct kvt_gpu *gpu)
{
    const yaml_node_t *root = yaml_document_get_root_node(r->document);
    if (root == NULL || root->type != YAML_MAPPING_NODE) {
        kvt_err_set(r->err, KVT_ECONFIG, "%s: want a calibration (a mapping), found %s", r->name,
                    root == NULL ? "nothing" : "something else");
        r->failed = true;
        return;
    }
    check_keys(r, root, file_keys, COUNT(file_keys));
    read_text(r, root, "calibration", true, calibration->name, sizeof calibration->name);
    read_text(r, root, "gpu", true, calibration->gpu, sizeof calibration->gpu);
    read_text(r, root, "stack", true, calibration->stack, sizeof calibration->stack);
    read_text(r, root, "version", false, calibration->version, sizeof calibration->version);
    read_text(r, root, "source", true, calibration->source, sizeof calibration->source);
    calibration->skew = 1.0;
    const yaml_node_t *skew = find(r, root, "skew");
    if (skew != NULL) {
        read_quantity(r, skew, "skew", KVT_DIMENSION_NONE, false, &calibration->skew);
        if (calibration->skew > 1.0)
            FAIL(r, skew, "skew: want 0 to 1, got %g", calibration->skew);
    }
    bool same = strcmp(calibration->gpu, gpu->name) == 0;
    for (int32_t i = 0; i < gpu->alias_count; i++)
        same = same || strcmp(calibration->gpu, gpu->aliases[i]) == 0;
    if (!same && find(r, root, "gpu") != NULL)
        FAIL(r, find(r, root, "gpu"), "gpu: this calibration is for \"%s\", wanted one for \"%s\"",
             calibration->gpu, gpu->name);
    read_laws(r, root, calibration);
}

enum kvt_status kvt_calibration_read(struct kvt_calibration *calibration, const char *name,
                                     const char *text, size_t count, const struct kvt_gpu *gpu,
                                     struct kvt_err *err)
{
    yaml_parser_t parser;
    yaml_document_t document;
    if (yaml_parser_initialize(&parser) == 0)
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory to read it", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, count);
    if (yaml_parser_load(&parser, &document) == 0) {
        struct kvt_where where = {name, (int32_t)parser.problem_mark.line + 1,
                                  (int32_t)parser.problem_mark.column + 1};
        enum kvt_status status =
            parser.error == YAML_MEMORY_ERROR
                ? kvt_err_set(err, KVT_ENOMEM, "%s: no memory to read it", name)
                : kvt_err_at(err, KVT_ECONFIG, where, "not YAML: %s",
                             parser.problem != NULL ? parser.problem : "unreadable");
        yaml_parser_delete(&parser);
        return status;
    }
    struct reader reader = {.document = &document, .name = name, .err = err};
    read_file(&reader, calibration, gpu);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return reader.failed ? KVT_ECONFIG : KVT_OK;
}
