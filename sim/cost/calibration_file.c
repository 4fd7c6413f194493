/* The YAML of calibration.h, read through libyaml's document tree. */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "sim/base/assert.h"
#include "sim/base/units.h"
#include "sim/cost/calibration_file.h"
#include "sim/cost/surface.h"

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
    "family", "law",     "t0",           "serial",          "bandwidth", "flops", "p",
    "tokens", "split",   "split_tokens", "index_bandwidth", "at",        "time",  "rate",
    "when",   "grid",    "held_out",     "in_sample",       "source",    "pad",   "skew",
    "unseen", "surface", "scatter",      "plus_minus"};
static const char *const file_keys[] = {"calibration", "gpu",    "stack", "version",
                                        "skew",        "source", "laws"};
/* Errors: all but the last two are wanted by in_sample and held_out, low to coverage by unseen. */
static const char *const error_keys[] = {"rows", "median", "mean", "p90", "floor"};
static const char *const unseen_keys[] = {"rows", "median", "mean",    "p90",
                                          "low",  "high",   "coverage"};
static const char surface_axes_key[] = "axes", surface_values_key[] = "half_percent";
static const char surface_packed_key[] = "packed";
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
        snprintf(out, bytes, "%s", text);
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

/* A mapping of numbers, the first needed of them wanted; the first is a count above 0. */
static void read_number_map(struct reader *r, const yaml_node_t *node, const char *what,
                            const char *const keys[], double *const values[], size_t count,
                            size_t needed)
{
    if (!want_map(r, node, what))
        return;
    check_keys(r, node, keys, count);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *value = find(r, node, keys[i]);
        if (value == NULL && i < needed)
            FAIL(r, node, "%s: wanted here, not given", keys[i]);
        else if (value != NULL)
            read_quantity(r, value, keys[i], KVT_DIMENSION_NONE, i == 0, values[i]);
    }
}

static int64_t row_count(double rows)
{
    return (int64_t)(rows < 1e15 ? rows : 1e15);
}

static void read_errors(struct reader *r, const yaml_node_t *map, struct kvt_law *law)
{
    const yaml_node_t *held = find(r, map, "held_out"), *in = find(r, map, "in_sample");
    const yaml_node_t *node = held != NULL ? held : in, *unseen = find(r, map, "unseen");
    double rows = 0.0, unseen_rows = 0.0;
    struct kvt_unseen *u = &law->unseen;
    double *const errors[] = {&rows, &law->error_median, &law->error_mean, &law->error_p90,
                              &law->repeat_floor};
    double *const unseens[] = {&unseen_rows, &u->median, &u->mean,    &u->p90,
                               &u->low,      &u->high,   &u->coverage};
    if (node != NULL)
        read_number_map(r, node, held != NULL ? "held_out" : "in_sample", error_keys, errors,
                        COUNT(error_keys), 3);
    if (unseen != NULL)
        read_number_map(r, unseen, "unseen", unseen_keys, unseens, COUNT(unseen_keys), 6);
    law->error_rows = row_count(rows);
    law->held_out = held != NULL;
    u->rows = row_count(unseen_rows);
}

/* A factor less 1, or a time for what is a constant. */
static void read_scatter(struct reader *r, const yaml_node_t *node, struct kvt_law *law)
{
    const char *text = scalar_text(r, node, "scatter", "a number such as 0.3");
    if (text == NULL)
        return;
    bool is_time = law->kind == KVT_LAW_CONSTANT && text[strcspn(text, "ums")] != '\0';
    read_quantity(r, node, "scatter", is_time ? KVT_DIMENSION_TIME : KVT_DIMENSION_NONE, true,
                  is_time ? &law->scatter_time : &law->scatter);
}

/* One axis of a surface: its name in axes, its knots under that name. */
static void read_axis(struct reader *r, const yaml_node_t *map, const yaml_node_t *name_node,
                      struct kvt_surface *surface)
{
    const char *name = scalar_text(r, name_node, surface_axes_key, "a size");
    struct kvt_surface_axis *axis = &surface->axis[surface->axes];
    while (name != NULL && axis->size < KVT_AXIS_COUNT &&
           strcmp(kvt_axis_names[axis->size], name) != 0)
        axis->size++;
    if (name == NULL || axis->size == KVT_AXIS_COUNT) {
        FAIL(r, name_node, "axes: unknown \"%.60s\"", name != NULL ? name : "");
        return;
    }
    const yaml_node_t *list = find(r, map, name);
    if (list == NULL || list->type != YAML_SEQUENCE_NODE || item_count(list) == 0 ||
        item_count(list) > KVT_SURFACE_KNOTS) {
        FAIL(r, list != NULL ? list : map, "%s: want a list of 1 to %d knots", name,
             KVT_SURFACE_KNOTS);
        return;
    }
    for (size_t i = 0; i < item_count(list); i++) {
        double *at = &axis->at[axis->count++];
        read_quantity(r, item(r, list, i), name, KVT_DIMENSION_NONE, true, at);
        if (i > 0 && *at <= at[-1])
            FAIL(r, list, "%s: want increasing numbers, got %g after %g", name, *at, at[-1]);
    }
    surface->axes++;
}

/* Whole steps of half a percent, as many as the product of the axes. */
static void read_surface_values(struct reader *r, const yaml_node_t *node,
                                struct kvt_surface *surface)
{
    const char *text = scalar_text(r, node, surface_values_key, "numbers with spaces between");
    int32_t count = 0;
    while (text != NULL) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || value < -20000 || value > 20000)
            break;
        if (count < surface->count)
            surface->values[count] = (double)value / KVT_SURFACE_STEPS;
        count++;
        text = end;
    }
    if (text != NULL && (text[strspn(text, " \n")] != '\0' || count != surface->count))
        FAIL(r, node, "%s: want %d whole numbers from -20000 to 20000, got %d and then \"%.10s\"",
             surface_values_key, surface->count, count, text + strspn(text, " \n"));
}

/* The same numbers in two digits of base 64 each, KVT_SURFACE_PACKED_ZERO for 0. */
static void read_packed_values(struct reader *r, const yaml_node_t *node,
                               struct kvt_surface *surface)
{
    const char *text = scalar_text(r, node, surface_packed_key, "pairs of digits");
    int32_t digits = 0, value = 0;
    for (; text != NULL && *text != '\0'; text++) {
        const char *digit = strchr(kvt_surface_digits, *text);
        if (*text == ' ' || *text == '\n')
            continue;
        if (digit == NULL)
            break;
        value = value * 64 % 4096 + (int32_t)(digit - kvt_surface_digits);
        digits++;
        if (digits % 2 == 0 && digits / 2 <= surface->count)
            surface->values[digits / 2 - 1] = (value - KVT_SURFACE_PACKED_ZERO) / KVT_SURFACE_STEPS;
    }
    if (text != NULL && (*text != '\0' || digits != 2 * surface->count))
        FAIL(r, node, "%s: want %d digits of base 64, got %d and then \"%.10s\"",
             surface_packed_key, 2 * surface->count, digits, text);
}

static void read_surface(struct reader *r, const yaml_node_t *map, struct kvt_law *law)
{
    if (!want_map(r, map, "surface"))
        return;
    const yaml_node_t *axes = find(r, map, surface_axes_key);
    const yaml_node_t *plain = find(r, map, surface_values_key);
    const yaml_node_t *values = plain != NULL ? plain : find(r, map, surface_packed_key);
    size_t keys = (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
    if (axes == NULL || axes->type != YAML_SEQUENCE_NODE || item_count(axes) < 1 ||
        item_count(axes) > KVT_SURFACE_AXES || values == NULL || keys != item_count(axes) + 2) {
        FAIL(r, map,
             "surface: want axes (a list of 1 to %d sizes), knots for each, and %s "
             "or %s",
             KVT_SURFACE_AXES, surface_values_key, surface_packed_key);
        return;
    }
    struct kvt_surface *surface = calloc(1, sizeof *surface);
    bool failed = r->failed;
    r->failed = false;
    for (size_t i = 0; surface != NULL && i < item_count(axes); i++)
        read_axis(r, map, item(r, axes, i), surface);
    int64_t count = 1;
    for (int32_t a = 0; surface != NULL && a < surface->axes; a++)
        count *= surface->axis[a].count;
    if (!r->failed && count > KVT_SURFACE_VALUES)
        FAIL(r, map, "surface: want at most %d knots in all, got %lld", KVT_SURFACE_VALUES,
             (long long)count);
    if (surface != NULL && !r->failed)
        kvt_surface_finish(surface);
    if (surface != NULL && surface->values != NULL) {
        if (plain != NULL)
            read_surface_values(r, values, surface);
        else
            read_packed_values(r, values, surface);
        law->surface = surface;
    } else {
        if (!r->failed)
            kvt_err_at(r->err, KVT_ENOMEM, where_of(r, map), "surface: no memory for its knots");
        r->failed = true;
        kvt_surface_free(surface);
    }
    r->failed = r->failed || failed;
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
        double *out = (void *)((char *)law + key->offset);
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

/* Half intervals of the parameters, in logarithms. */
static void read_plus_minus(struct reader *r, const yaml_node_t *node, struct kvt_law *law)
{
    struct kvt_plus_minus *p = &law->plus_minus;
    static const char *const keys[] = {"t0",     "serial", "bandwidth",    "flops",          "pad",
                                       "tokens", "split",  "split_tokens", "index_bandwidth"};
    double *const values[] = {&p->t0,     &p->serial, &p->bandwidth,    &p->flops,          &p->pad,
                              &p->tokens, &p->split,  &p->split_tokens, &p->index_bandwidth};
    read_number_map(r, node, "plus_minus", keys, values, COUNT(keys), 0);
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
                          (void *)((char *)law + key->offset));
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
    if (find(r, map, "plus_minus") != NULL)
        read_plus_minus(r, find(r, map, "plus_minus"), law);
    if (find(r, map, "scatter") != NULL)
        read_scatter(r, find(r, map, "scatter"), law);
    if (find(r, map, "surface") != NULL)
        read_surface(r, find(r, map, "surface"), law);
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
        /* libyaml gives some failed allocations without an error. */
        enum kvt_status status =
            parser.error == YAML_MEMORY_ERROR || parser.error == YAML_NO_ERROR
                ? kvt_err_set(err, KVT_ENOMEM, "%s: no memory to read it", name)
                : kvt_err_at(err, KVT_ECONFIG, where, "not YAML: %s",
                             parser.problem != NULL ? parser.problem : "unknown problem");
        yaml_parser_delete(&parser);
        return status;
    }
    struct reader reader = {.document = &document, .name = name, .err = err};
    read_file(&reader, calibration, gpu);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return reader.failed ? err->status : KVT_OK;
}
