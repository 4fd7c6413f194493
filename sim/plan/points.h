/*
 * points.h - the points of a config: every combination of the choices of its domains
 *
 * Domain d (kvt_config_domain, in the order of the file) has count(d) choices; point i takes choice
 *
 *     digit(d) = i / (count(d+1) * count(d+2) * ...) mod count(d)
 *
 * of it: the last domain runs fastest. A config without domains has one point. Choosing a point is
 * loading the config with one --set per domain, so that a point is exactly what `simulate` makes of
 * these sets, and what must hold between keys is judged there. The file is read once.
 */
#ifndef KVT_PLAN_POINTS_H
#define KVT_PLAN_POINTS_H

#include "sim/base/file.h"
#include "sim/config/config.h"

#define KVT_POINTS_MAX 1000000 /* of one sweep or search */

struct kvt_points {
    const struct kvt_config *config; /* with its domains; borrowed */
    const char *path;                /* borrowed, as sets */
    const char *const *sets;
    int32_t set_count;
    struct kvt_text text; /* of the file; owned, as folder */
    char *folder;
    int64_t count;
};

/* config was loaded from path with these sets; all three must stay. path "-" cannot be read again:
 * a KVT_EUSAGE. KVT_ELIMIT tells the number of points when there are more than KVT_POINTS_MAX.
 * Release after a failure too. */
enum kvt_status kvt_points_init(struct kvt_points *points, const struct kvt_config *config,
                                const char *path, const char *const sets[], int32_t set_count,
                                struct kvt_err *err);
void kvt_points_release(struct kvt_points *points);

/* The choice that point takes of a domain, as a YAML value. */
const char *kvt_points_text(const struct kvt_points *points, int64_t point, int32_t domain);

/* The config of one point; more[0..more_count-1] are further sets over it. Release it; after a
 * failure it is empty. Any number of threads may choose at once. Some 0.2 ms. KVT_ECONFIG where the
 * choices contradict each other. */
enum kvt_status kvt_points_choose(const struct kvt_points *points, int64_t point,
                                  const char *const more[], int32_t more_count,
                                  struct kvt_config *chosen, struct kvt_err *err);

#endif
