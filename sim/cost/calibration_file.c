/* The YAML of calibration.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/spelling.h"
#include "sim/base/units.h"
#include "sim/base/yaml.h"
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
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct reader {
    struct kvt_err *err;
    enum kvt_status status; /* of the first failure */
};

/* Of what is wrong in a file all is told, up to the limit of kvt_err. */
static bool fails(struct reader *r, enum kvt_status status)
{
    r->status = r->status == KVT_OK ? status : r->status;
    return status != KVT_OK;
}

#define FAIL(r, node, ...)                                                                         \
    ((void)fails((r), kvt_err_at((r)->err, KVT_ECONFIG, (node)->where, __VA_ARGS__)))

static bool want_map(struct reader *r, const struct kvt_yaml *node, const char *what)
{
    return !fails(r, kvt_yaml_want(node, KVT_YAML_MAP, what, r->err));
}

static bool is_list(const struct kvt_yaml *node, int32_t least, int32_t most)
{
    return node != NULL && node->kind == KVT_YAML_LIST && node->count >= least &&
           node->count <= most;
}

/* The text of a scalar, or NULL after a message. what: "a time such as ..." */
static const char *scalar_text(struct reader *r, const struct kvt_yaml *node, const char *key,
                               const char *what)
{
    char got[KVT_QUOTE_BYTES];
    if (node->kind == KVT_YAML_SCALAR)
        return node->text;
    FAIL(r, node, "%s: want %s, got %s", key, what, kvt_yaml_describe(node, got));
    return NULL;
}

/* False after a message. */
static bool read_quantity(struct reader *r, const struct kvt_yaml *node, const char *key,
                          enum kvt_dimension dimension, bool positive, double *value)
{
    const char *text = scalar_text(r, node, key, kvt_dimension_example(dimension));
    struct kvt_err why = {0};
    if (text == NULL)
        return false;
    if (kvt_quantity_parse(text, dimension, value, &why) != KVT_OK) {
        FAIL(r, node, "%s: %s", key, why.text);
        return false;
    }
    if (*value >= 0.0 && !(positive && *value == 0.0))
        return true;
    FAIL(r, node, "%s: want %s, got \"%.60s\"", key, positive ? "more than 0" : "at least 0", text);
    return false;
}

/* The value under a key that must be there; NULL after a message. */
static const struct kvt_yaml *find_needed(struct reader *r, const struct kvt_yaml *map,
                                          const char *key)
{
    const struct kvt_yaml *node = kvt_yaml_find(map, key);
    if (node == NULL)
        FAIL(r, map, "%s: wanted here, not given", key);
    return node;
}

static void read_text(struct reader *r, const struct kvt_yaml *node, char *out, size_t bytes)
{
    if (node != NULL && !fails(r, kvt_yaml_take_text(node, node->key, out, bytes, r->err)) &&
        out[0] == '\0')
        FAIL(r, node, "%s: want a text, got nothing", node->key);
}

/* {dim: number} or {dim: [min, max]} */
static void read_ranges(struct reader *r, const struct kvt_yaml *map,
                        struct kvt_range ranges[KVT_DIM_COUNT])
{
    if (map == NULL || !want_map(r, map, map->key))
        return;
    fails(r, kvt_yaml_check_keys(map, kvt_dim_names, KVT_DIM_COUNT, r->err));
    for (int d = 0; d < KVT_DIM_COUNT; d++) {
        const struct kvt_yaml *value = kvt_yaml_find(map, kvt_dim_names[d]);
        if (value == NULL)
            continue;
        const struct kvt_yaml *low = value, *high = value;
        if (value->kind == KVT_YAML_LIST) {
            if (value->count != 2) {
                FAIL(r, value, "%s: want [min, max], got %d items", kvt_dim_names[d], value->count);
                continue;
            }
            low = value->first, high = value->last;
        }
        read_quantity(r, low, kvt_dim_names[d], KVT_DIMENSION_NONE, false, &ranges[d].min);
        read_quantity(r, high, kvt_dim_names[d], KVT_DIMENSION_NONE, true, &ranges[d].max);
        if (ranges[d].min > ranges[d].max)
            FAIL(r, value, "%s: want min <= max, got %g and %g", kvt_dim_names[d], ranges[d].min,
                 ranges[d].max);
    }
}

/* A mapping of numbers, the first needed of them wanted; the first is a count above 0. */
static void read_number_map(struct reader *r, const struct kvt_yaml *map, const char *const keys[],
                            double *const values[], size_t count, size_t needed)
{
    if (map == NULL || !want_map(r, map, map->key))
        return;
    fails(r, kvt_yaml_check_keys(map, keys, count, r->err));
    for (size_t i = 0; i < count; i++) {
        const struct kvt_yaml *value =
            i < needed ? find_needed(r, map, keys[i]) : kvt_yaml_find(map, keys[i]);
        if (value != NULL)
            read_quantity(r, value, keys[i], KVT_DIMENSION_NONE, i == 0, values[i]);
    }
}

static int64_t row_count(double rows)
{
    return (int64_t)(rows < 1e15 ? rows : 1e15);
}

static void read_errors(struct reader *r, const struct kvt_yaml *map, struct kvt_law *law)
{
    const struct kvt_yaml *held = kvt_yaml_find(map, "held_out");
    double rows = 0.0, unseen_rows = 0.0;
    struct kvt_unseen *u = &law->unseen;
    double *const errors[] = {&rows, &law->error_median, &law->error_mean, &law->error_p90,
                              &law->repeat_floor};
    double *const unseens[] = {&unseen_rows, &u->median, &u->mean,    &u->p90,
                               &u->low,      &u->high,   &u->coverage};
    read_number_map(r, held != NULL ? held : kvt_yaml_find(map, "in_sample"), error_keys, errors,
                    COUNT(error_keys), 3);
    read_number_map(r, kvt_yaml_find(map, "unseen"), unseen_keys, unseens, COUNT(unseen_keys), 6);
    law->error_rows = row_count(rows);
    law->held_out = held != NULL;
    u->rows = row_count(unseen_rows);
}

/* A factor less 1, or a time for what is a constant. */
static void read_scatter(struct reader *r, const struct kvt_yaml *node, struct kvt_law *law)
{
    const char *text =
        node != NULL ? scalar_text(r, node, "scatter", "a number such as 0.3") : NULL;
    if (text == NULL)
        return;
    bool is_time = law->kind == KVT_LAW_CONSTANT && text[strcspn(text, "ums")] != '\0';
    read_quantity(r, node, "scatter", is_time ? KVT_DIMENSION_TIME : KVT_DIMENSION_NONE, true,
                  is_time ? &law->scatter_time : &law->scatter);
}

/* One axis of a surface: its name in axes, its knots under that name. */
static bool read_axis(struct reader *r, const struct kvt_yaml *map, const struct kvt_yaml *item,
                      struct kvt_surface_axis *axis)
{
    const char *name = scalar_text(r, item, "axes", "a size");
    if (name == NULL)
        return false;
    while (axis->size < KVT_AXIS_COUNT && strcmp(kvt_axis_names[axis->size], name) != 0)
        axis->size++;
    if (axis->size == KVT_AXIS_COUNT) {
        FAIL(r, item, "axes: unknown \"%.60s\"", name);
        return false;
    }
    const struct kvt_yaml *list = kvt_yaml_find(map, name);
    if (!is_list(list, 1, KVT_SURFACE_KNOTS)) {
        FAIL(r, list != NULL ? list : map, "%s: want a list of 1 to %d knots", name,
             KVT_SURFACE_KNOTS);
        return false;
    }
    bool fine = true;
    for (const struct kvt_yaml *knot = list->first; knot != NULL; knot = knot->next) {
        double *at = &axis->at[axis->count++];
        fine = read_quantity(r, knot, name, KVT_DIMENSION_NONE, true, at) && fine;
        if (axis->count > 1 && *at <= at[-1]) {
            FAIL(r, list, "%s: want increasing numbers, got %g after %g", name, *at, at[-1]);
            fine = false;
        }
    }
    return fine;
}

/* Whole steps of half a percent, as many as the product of the axes. */
static void read_surface_values(struct reader *r, const struct kvt_yaml *node,
                                struct kvt_surface *surface)
{
    const char *text = scalar_text(r, node, node->key, "numbers with spaces between");
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
             node->key, surface->count, count, text + strspn(text, " \n"));
}

/* The same numbers in two digits of base 64 each, KVT_SURFACE_PACKED_ZERO for 0. */
static void read_packed_values(struct reader *r, const struct kvt_yaml *node,
                               struct kvt_surface *surface)
{
    const char *text = scalar_text(r, node, node->key, "pairs of digits");
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
        FAIL(r, node, "%s: want %d digits of base 64, got %d and then \"%.10s\"", node->key,
             2 * surface->count, digits, text);
}

/* The axes of a surface, and room for its values; false after a message. */
static bool read_axes(struct reader *r, const struct kvt_yaml *map, const struct kvt_yaml *axes,
                      struct kvt_surface *surface)
{
    int64_t count = 1;
    bool fine = true;
    for (const struct kvt_yaml *item = axes->first; item != NULL; item = item->next) {
        struct kvt_surface_axis *axis = &surface->axis[surface->axes++];
        fine = read_axis(r, map, item, axis) && fine;
        count *= axis->count;
    }
    if (!fine)
        return false;
    if (count > KVT_SURFACE_VALUES) {
        FAIL(r, map, "surface: want at most %d knots in all, got %lld", KVT_SURFACE_VALUES,
             (long long)count);
        return false;
    }
    kvt_surface_finish(surface);
    return surface->values != NULL || !fails(r, kvt_err_at(r->err, KVT_ENOMEM, map->where,
                                                           "surface: no memory for its knots"));
}

static void read_surface(struct reader *r, const struct kvt_yaml *map, struct kvt_law *law)
{
    if (map == NULL || !want_map(r, map, "surface"))
        return;
    const struct kvt_yaml *axes = kvt_yaml_find(map, "axes");
    const struct kvt_yaml *plain = kvt_yaml_find(map, "half_percent");
    const struct kvt_yaml *values = plain != NULL ? plain : kvt_yaml_find(map, "packed");
    if (!is_list(axes, 1, KVT_SURFACE_AXES) || values == NULL || map->count != axes->count + 2) {
        FAIL(r, map,
             "surface: want axes (a list of 1 to %d sizes), knots for each, and half_percent or "
             "packed",
             KVT_SURFACE_AXES);
        return;
    }
    struct kvt_surface *surface = calloc(1, sizeof *surface);
    if (surface == NULL) {
        fails(r, kvt_err_at(r->err, KVT_ENOMEM, map->where, "surface: no memory for its knots"));
    } else if (read_axes(r, map, axes, surface)) {
        law->surface = surface;
        if (plain != NULL)
            read_surface_values(r, values, surface);
        else
            read_packed_values(r, values, surface);
    } else {
        kvt_surface_free(surface);
    }
}

/* at, time, rate: lists of one length, at increasing. */
static void read_lists(struct reader *r, const struct kvt_yaml *map, struct kvt_law *law)
{
    for (size_t i = 0; i < LIST_KEYS; i++) {
        const struct number_key *key = &list_keys[i];
        const struct kvt_yaml *list = kvt_yaml_find(map, key->key);
        if (list == NULL || (key->needed >> law->kind & 1) == 0)
            continue;
        if (!is_list(list, 1, KVT_LAW_POINTS)) {
            FAIL(r, list, "%s: want a list of 1 to %d items", key->key, KVT_LAW_POINTS);
            continue;
        }
        int32_t count = list->count;
        if (law->points != 0 && law->points != count)
            FAIL(r, list, "%s: want %d items as in \"at\", got %d", key->key, law->points, count);
        law->points = law->points == 0 ? count : law->points < count ? law->points : count;
        double *out = (void *)((char *)law + key->offset);
        for (const struct kvt_yaml *item = list->first; item != NULL; item = item->next)
            read_quantity(r, item, key->key, key->dimension, key->positive, out++);
    }
    for (int32_t k = 1; k < law->points; k++)
        if (law->at[k] <= law->at[k - 1])
            FAIL(r, map, "at: want increasing numbers, got %g after %g", law->at[k],
                 law->at[k - 1]);
}

static int read_name(struct reader *r, const struct kvt_yaml *map, const char *key,
                     const char *const names[], size_t count)
{
    const struct kvt_yaml *node = find_needed(r, map, key);
    const char *text = node != NULL ? scalar_text(r, node, key, "a name") : NULL;
    char hint[KVT_HINT_BYTES];
    for (size_t i = 0; text != NULL && i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return (int)i;
    if (text != NULL)
        FAIL(r, node, "%s: unknown \"%.60s\"%s", key, text,
             kvt_nearest_hint(text, names, count, hint));
    return -1;
}

static void read_plus_minus(struct reader *r, const struct kvt_yaml *node, struct kvt_law *law)
{
    double *values[KVT_PARAMETER_TIME];
    for (int p = 0; p < KVT_PARAMETER_TIME; p++)
        values[p] = &law->plus_minus[p];
    read_number_map(r, node, kvt_parameter_names, values, KVT_PARAMETER_TIME, 0);
}

static void read_numbers(struct reader *r, const struct kvt_yaml *map, struct kvt_law *law)
{
    for (size_t i = 0; i < NUMBER_KEYS + LIST_KEYS; i++) {
        const struct number_key *key =
            i < NUMBER_KEYS ? &number_keys[i] : &list_keys[i - NUMBER_KEYS];
        const struct kvt_yaml *node = kvt_yaml_find(map, key->key);
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

static void read_law(struct reader *r, const struct kvt_yaml *map, struct kvt_law *law)
{
    *law = (struct kvt_law){.p = 3.0, .line = map->where.line};
    if (!want_map(r, map, "laws"))
        return;
    fails(r, kvt_yaml_check_keys(map, law_keys, COUNT(law_keys), r->err));
    int family = read_name(r, map, "family", kvt_family_names, KVT_FAMILY_COUNT);
    int kind = read_name(r, map, "law", kvt_law_names, KVT_LAW_KIND_COUNT);
    read_text(r, find_needed(r, map, "source"), law->source, sizeof law->source);
    if (family < 0 || kind < 0)
        return;
    law->family = (enum kvt_family)family;
    law->kind = (enum kvt_law_kind)kind;
    read_numbers(r, map, law);
    read_lists(r, map, law);
    read_errors(r, map, law);
    read_plus_minus(r, kvt_yaml_find(map, "plus_minus"), law);
    read_scatter(r, kvt_yaml_find(map, "scatter"), law);
    read_surface(r, kvt_yaml_find(map, "surface"), law);
    read_ranges(r, kvt_yaml_find(map, "when"), law->when);
    read_ranges(r, kvt_yaml_find(map, "grid"), law->grid);
}

static void read_laws(struct reader *r, const struct kvt_yaml *map,
                      struct kvt_calibration *calibration)
{
    const struct kvt_yaml *list = kvt_yaml_find(map, "laws");
    const int32_t room = KVT_CALIBRATION_LAWS - KVT_FAMILY_COUNT; /* beside the guesses */
    if (list == NULL || list->kind != KVT_YAML_LIST)
        FAIL(r, list != NULL ? list : map, "laws: want a list of laws");
    else if (list->count > room)
        FAIL(r, list, "laws: want at most %d, got %d", room, list->count);
    else
        for (const struct kvt_yaml *law = list->first; law != NULL; law = law->next)
            read_law(r, law, &calibration->laws[calibration->law_count++]);
}

static void check_gpu(struct reader *r, const struct kvt_yaml *node, const char *name,
                      const struct kvt_gpu *gpu)
{
    bool same = strcmp(name, gpu->name) == 0;
    for (int32_t i = 0; i < gpu->alias_count; i++)
        same = same || strcmp(name, gpu->aliases[i]) == 0;
    if (!same && node != NULL)
        FAIL(r, node, "gpu: this calibration is for \"%s\", wanted one for \"%s\"", name,
             gpu->name);
}

static void read_file(struct reader *r, const struct kvt_yaml *root,
                      struct kvt_calibration *calibration, const struct kvt_gpu *gpu)
{
    if (!want_map(r, root, "a calibration"))
        return;
    fails(r, kvt_yaml_check_keys(root, file_keys, COUNT(file_keys), r->err));
    const struct kvt_yaml *named = find_needed(r, root, "gpu");
    const struct kvt_yaml *skew = kvt_yaml_find(root, "skew");
    read_text(r, find_needed(r, root, "calibration"), calibration->name, sizeof calibration->name);
    read_text(r, named, calibration->gpu, sizeof calibration->gpu);
    read_text(r, find_needed(r, root, "stack"), calibration->stack, sizeof calibration->stack);
    read_text(r, kvt_yaml_find(root, "version"), calibration->version, sizeof calibration->version);
    read_text(r, find_needed(r, root, "source"), calibration->source, sizeof calibration->source);
    if (skew != NULL &&
        read_quantity(r, skew, "skew", KVT_DIMENSION_NONE, false, &calibration->skew) &&
        calibration->skew > 1.0)
        FAIL(r, skew, "skew: want 0 to 1, got %g", calibration->skew);
    check_gpu(r, named, calibration->gpu, gpu);
    read_laws(r, root, calibration);
}

enum kvt_status kvt_calibration_read(struct kvt_calibration *calibration, const char *name,
                                     const char *text, size_t count, const struct kvt_gpu *gpu,
                                     struct kvt_err *err)
{
    struct kvt_arena arena;
    struct kvt_yaml *root;
    struct reader reader = {.err = err};
    KVT_TRY(kvt_arena_init(&arena, kvt_yaml_room(count), err));
    if (!fails(&reader, kvt_yaml_parse(&arena, name, text, count, false, &root, err)))
        read_file(&reader, root, calibration, gpu);
    kvt_arena_release(&arena);
    return reader.status;
}
