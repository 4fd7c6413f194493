#include "sim/base/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    enum kvt_dimension dimension;
    double factor;
    bool printed; /* used by kvt_quantity_print */
};

/* clang-format off */
static const struct unit units[] = { /* within a dimension, printed units from large to small */
    {"TiB", KVT_DIMENSION_BYTES, 0x1p40, true},   {"TB", KVT_DIMENSION_BYTES, 1e12, true},
    {"GiB", KVT_DIMENSION_BYTES, 0x1p30, true},   {"GB", KVT_DIMENSION_BYTES, 1e9, true},
    {"MiB", KVT_DIMENSION_BYTES, 0x1p20, true},   {"MB", KVT_DIMENSION_BYTES, 1e6, true},
    {"KiB", KVT_DIMENSION_BYTES, 0x1p10, true},   {"kB", KVT_DIMENSION_BYTES, 1e3, true},
    {"B", KVT_DIMENSION_BYTES, 1, true},
    {"TB/s", KVT_DIMENSION_BANDWIDTH, 1e12, true},    {"GB/s", KVT_DIMENSION_BANDWIDTH, 1e9, true},
    {"MB/s", KVT_DIMENSION_BANDWIDTH, 1e6, true},     {"kB/s", KVT_DIMENSION_BANDWIDTH, 1e3, true},
    {"B/s", KVT_DIMENSION_BANDWIDTH, 1, true},
    {"TiB/s", KVT_DIMENSION_BANDWIDTH, 0x1p40, false},
    {"GiB/s", KVT_DIMENSION_BANDWIDTH, 0x1p30, false},
    {"MiB/s", KVT_DIMENSION_BANDWIDTH, 0x1p20, false},
    {"Tbit/s", KVT_DIMENSION_BANDWIDTH, 1.25e11, false},
    {"Gbit/s", KVT_DIMENSION_BANDWIDTH, 1.25e8, false},
    {"Mbit/s", KVT_DIMENSION_BANDWIDTH, 1.25e5, false},
    {"d", KVT_DIMENSION_TIME, 86400, true}, {"h", KVT_DIMENSION_TIME, 3600, true},
    {"min", KVT_DIMENSION_TIME, 60, true},  {"s", KVT_DIMENSION_TIME, 1, true},
    {"ms", KVT_DIMENSION_TIME, 1e-3, true}, {"us", KVT_DIMENSION_TIME, 1e-6, true},
    {"ns", KVT_DIMENSION_TIME, 1e-9, true},
    {"req/s", KVT_DIMENSION_RATE, 1, true}, {"req/min", KVT_DIMENSION_RATE, 1.0 / 60, false},
    {"req/h", KVT_DIMENSION_RATE, 1.0 / 3600, false},
    {"USD/h", KVT_DIMENSION_PRICE, 1, true},
    {"USD/Mtok", KVT_DIMENSION_TOKEN_PRICE, 1, true},
    {"PFLOP/s", KVT_DIMENSION_FLOPS, 1e15, true}, {"TFLOP/s", KVT_DIMENSION_FLOPS, 1e12, true},
    {"GFLOP/s", KVT_DIMENSION_FLOPS, 1e9, true},
    {"1/s", KVT_DIMENSION_EVENT_RATE, 1, true},
    {"1/min", KVT_DIMENSION_EVENT_RATE, 1.0 / 60, false},
    {"1/h", KVT_DIMENSION_EVENT_RATE, 1.0 / 3600, false},
};
static const char *const examples[] = {
    [KVT_DIMENSION_NONE] = "a number",
    [KVT_DIMENSION_BYTES] = "a size such as \"141 GiB\"",
    [KVT_DIMENSION_BANDWIDTH] = "a bandwidth such as \"50 GB/s\"",
    [KVT_DIMENSION_TIME] = "a time such as \"10 us\"",
    [KVT_DIMENSION_RATE] = "a request rate such as \"4 req/s\"",
    [KVT_DIMENSION_PRICE] = "a price such as \"3.5 USD/h\"",
    [KVT_DIMENSION_TOKEN_PRICE] = "a price such as \"1.2 USD/Mtok\"",
    [KVT_DIMENSION_FLOPS] = "a compute rate such as \"989 TFLOP/s\"",
    [KVT_DIMENSION_EVENT_RATE] = "a rate such as \"2 1/h\"",
};
/* clang-format on */

#define UNIT_COUNT (sizeof units / sizeof units[0])

const char *kvt_dimension_example(enum kvt_dimension dimension)
{
    return examples[dimension];
}

/* The number that text starts with; *end is where it stops, or text itself when there is none. */
static double number_at(const char *text, const char **end)
{
    const char *p = text;
    if (*p == '+' || *p == '-')
        p++;
    *end = text;
    if (!isdigit((unsigned char)*p) && !(*p == '.' && isdigit((unsigned char)p[1])))
        return 0; /* neither nan, inf nor a bare sign */
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
        return 0;
    char *stop;
    double value = strtod(text, &stop);
    *end = stop;
    return value;
}

enum kvt_status kvt_double_parse(const char *text, double *value, struct kvt_err *err)
{
    const char *end;
    double parsed = number_at(text, &end);
    if (end == text || *end != '\0' || !isfinite(parsed))
        return kvt_err_set(err, KVT_ECONFIG, "want a number, got \"%.80s\"", text);
    *value = parsed;
    return KVT_OK;
}

enum kvt_status kvt_int_parse(const char *text, int64_t min, int64_t max, int64_t *value,
                              struct kvt_err *err)
{
    const char *digits = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    errno = 0;
    char *end = NULL;
    long long parsed = isdigit((unsigned char)digits[0]) ? strtoll(text, &end, 10) : 0;
    if (end == NULL || *end != '\0')
        return kvt_err_set(err, KVT_ECONFIG, "want a whole number, got \"%.80s\"", text);
    if (errno == ERANGE || parsed < min || parsed > max)
        return kvt_err_set(err, KVT_ECONFIG,
                           "want a whole number from %" PRId64 " to %" PRId64 ", got %.80s", min,
                           max, text);
    *value = parsed;
    return KVT_OK;
}

enum kvt_status kvt_seed_parse(const char *text, uint64_t *seed, struct kvt_err *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long parsed = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno == ERANGE)
        return kvt_err_set(err, KVT_ECONFIG, "want a whole number from 0 to 2^64-1, got \"%.80s\"",
                           text);
    *seed = parsed;
    return KVT_OK;
}

enum kvt_status kvt_quantity_parse(const char *text, enum kvt_dimension dimension, double *value,
                                   struct kvt_err *err)
{
    if (dimension == KVT_DIMENSION_NONE)
        return kvt_double_parse(text, value, err);
    const char *end;
    double number = number_at(text, &end);
    if (end == text || !isfinite(number))
        return kvt_err_set(err, KVT_ECONFIG, "want %s, got \"%.80s\"", examples[dimension], text);
    const char *name = end;
    while (*name == ' ')
        name++;
    if (*name == '\0')
        return kvt_err_set(err, KVT_ECONFIG, "want %s, got the bare number %.80s",
                           examples[dimension], text);
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (units[i].dimension != dimension || strcmp(units[i].name, name) != 0)
            continue;
        /* Division keeps decimal fractions exact where the factor is 1 over a whole number. */
        double inverse = nearbyint(1 / units[i].factor);
        number = units[i].factor < 1 && inverse > 1 ? number / inverse : number * units[i].factor;
        if (!isfinite(number))
            return kvt_err_set(err, KVT_ECONFIG, "want %s, got \"%.80s\", which is too large",
                               examples[dimension], text);
        *value = number;
        return KVT_OK;
    }
    for (size_t i = 0; i < UNIT_COUNT; i++)
        if (strcmp(units[i].name, name) == 0)
            return kvt_err_set(err, KVT_ECONFIG, "want %s, got \"%.80s\", which is of another kind",
                               examples[dimension], text);
    return kvt_err_set(err, KVT_ECONFIG, "want %s, got \"%.80s\": unknown unit \"%.40s\"",
                       examples[dimension], text, name);
}

const char *kvt_quantity_print(double value, enum kvt_dimension dimension, char *out,
                               size_t size_bytes)
{
    const struct unit *last = NULL;
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        const struct unit *unit = &units[i];
        if (unit->dimension != dimension || !unit->printed)
            continue;
        last = unit;
        if (fabs(value) < unit->factor)
            continue;
        /* Take the first unit in which a short decimal is the value itself. */
        double back;
        snprintf(out, size_bytes, "%.6g %s", value / unit->factor, unit->name);
        if (kvt_quantity_parse(out, dimension, &back, NULL) == KVT_OK && back == value)
            return out;
    }
    /* No short decimal is exact: the base unit is, with all digits. */
    for (size_t i = 0; i < UNIT_COUNT; i++)
        if (units[i].dimension == dimension && units[i].factor == 1)
            last = &units[i];
    if (last == NULL)
        snprintf(out, size_bytes, "%.17g", value);
    else
        snprintf(out, size_bytes, "%.17g %s", value / last->factor, last->name);
    return out;
}
