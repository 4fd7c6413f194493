/*
 * serving_world.h - the runs of a benchmark in the twin, with constants that can be turned
 * (serving_world.c, serving_fit.c); not for others
 *
 * Each run has a simulation of its own that lends trace, pools and calibration to all that are run
 * with other constants.
 */
#ifndef KVT_PLAN_SERVING_WORLD_H
#define KVT_PLAN_SERVING_WORLD_H

#include "sim/plan/serving_fit.h"
#include "sim/plan/simulate.h"

/* Where a constant lies in a calibration: index of its law; -1 for none. */
struct kvt_serving_places {
    int32_t law[KVT_HOST_CONSTANT_COUNT];
};

struct kvt_serving_world {
    const struct kvt_serving_run *runs; /* borrowed */
    int32_t count;
    struct kvt_config *configs; /* owned array; they share the store of the one given */
    struct kvt_simulation *bases;
    struct kvt_serving_places places[KVT_ROLE_COUNT]; /* the same for all bases */
    enum kvt_role role;                               /* that decodes: its laws are shipped */
    double shipped[KVT_HOST_CONSTANT_COUNT];
    const char *family[KVT_HOST_CONSTANT_COUNT];
    const char *missing[KVT_HOST_CONSTANT_COUNT]; /* why a constant cannot be fitted; or NULL */
    const struct kvt_stop *stop;
    int64_t simulations;
};

enum kvt_status kvt_serving_world_init(struct kvt_serving_world *world,
                                       const struct kvt_config *config,
                                       const struct kvt_serving_run runs[], int32_t count,
                                       FILE *talk, const struct kvt_stop *stop,
                                       struct kvt_err *err);
void kvt_serving_world_release(struct kvt_serving_world *world);

/* Turn the constants of all runs; a value equal to the shipped one leaves its law as it was. */
void kvt_serving_world_set(struct kvt_serving_world *world,
                           const double values[KVT_HOST_CONSTANT_COUNT]);

/* Simulate one run; metrics that it has no value of are NaN. */
enum kvt_status kvt_serving_world_run(struct kvt_serving_world *world, int32_t run,
                                      double metrics[KVT_BENCH_METRIC_COUNT], struct kvt_err *err);

#endif
