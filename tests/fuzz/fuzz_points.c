/*
 * fuzz_points.c - domains, the points that they make, and the faults of each
 *
 * Input: the text of a config; after a first zero byte, one --set a line. Of at most five points:
 * each is refused with a message, or is a config without domains whose plan of strikes is in order.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/plan/fault_plan.h"
#include "sim/plan/point.h"
#include "tests/fuzz/place.h"

#define SETS_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void look_at(const struct kvt_config *config)
{
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    struct kvt_err err = {0};
    int32_t count;
    enum kvt_status status = kvt_fault_plan(config, strikes, &count, &err);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    for (int32_t i = 1; status == KVT_OK && i < count; i++)
        kvt_assert(strikes[i].time >= strikes[i - 1].time);
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (config->roles[role].present)
            kvt_guards_of(&config->roles[role].guard);
}

static void choose(const struct kvt_points *points, int64_t number)
{
    static struct kvt_err err;
    struct kvt_config chosen;
    memset(&err, 0, sizeof err);
    for (int32_t d = 0; d < points->config->domains; d++)
        kvt_assert(kvt_points_text(points, number, d) != NULL);
    enum kvt_status status = kvt_points_choose(points, number, NULL, 0, &chosen, &err);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    if (status != KVT_OK)
        return;
    kvt_assert(chosen.domains == 0);
    look_at(&chosen);
    kvt_config_release(&chosen);
}

static void walk(const struct kvt_config *config, const char *path, const char *const sets[],
                 int32_t set_count)
{
    static struct kvt_point_columns columns;
    static struct kvt_err err;
    struct kvt_points points;
    memset(&err, 0, sizeof err);
    if (kvt_points_init(&points, config, path, sets, set_count, &err) == KVT_OK) {
        kvt_assert(points.count >= 1 && points.count <= KVT_POINTS_MAX);
        for (int64_t i = 0; i < 5 && i < points.count; i++)
            choose(&points, i < 3 ? i : points.count - 1 - (i - 3));
        if (kvt_point_columns_init(&columns, &points, 3, &err) == KVT_OK)
            for (int32_t c = 0; c < columns.count; c++)
                kvt_assert(kvt_point_column(&columns, columns.names[c]) == c);
    } else {
        kvt_assert(err.status == KVT_ELIMIT);
    }
    kvt_points_release(&points);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kvt_config config;
    static struct kvt_err err;
    const char *sets[SETS_MAX];
    memset(&err, 0, sizeof err);
    char *text = place_text("", bytes, count);
    size_t length = strlen(text);
    const char *path = place_bytes(text, length);
    int32_t set_count = length < count ? place_lines(text + length + 1, sets, SETS_MAX) : 0;
    if (kvt_config_parse(&config, path, text, length, "", sets, set_count, &err) == KVT_OK)
        walk(&config, path, sets, set_count);
    kvt_config_release(&config);
    free(text);
    return 0;
}
