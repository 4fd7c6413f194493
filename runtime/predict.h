/*
 * predict.h - how long the runtime's steps should take, by the simulator's own means
 *
 * Three layers, each in the place where the simulator has it:
 *
 *   laws      kvt_laws_measure runs the kernels of a replica at a grid of sizes and writes their
 *             times as a calibration (sim/cost/calibration.h): buckets for each linear, a decode
 *             law for attention, rooflines for the rest. In place: the kernels run in the order of
 *             a step, with the caches as a step leaves them
 *   list      kvt_step_list says which kernels a step has and what each takes by those laws
 *   factors   one per role and family of kernels (KVT_FACTORS, six), from steps that were run
 *             (factors.h); 1 until then
 *
 * A prediction is the sum over the families of factor times the list's time.
 */
#ifndef KVT_RUNTIME_PREDICT_H
#define KVT_RUNTIME_PREDICT_H

#include "runtime/engine.h"
#include "sim/cost/step.h"

struct kvt_predictor {                  /* of one role */
    const struct kvt_role_memory *plan; /* borrowed */
    struct kvt_calibration calibration; /* measured */
    struct kvt_step_shape shape;
    struct kvt_kernel_list *list; /* owned scratch */
    double factor[KVT_FACTOR_COUNT];
    double tag_page_s, tag_call_s; /* s of a tag check: per page, per call */
    char *text;                    /* owned: the calibration as YAML */
};

/* Measure the kernels of a bound replica, each size in so many rounds (at most KVT_LAW_ROUNDS): its
 * pool's bytes are overwritten. Takes a second or two per 0.1 s of the largest step. */
enum kvt_status kvt_predictor_init(struct kvt_predictor *predictor, struct kvt_runtime *runtime,
                                   int32_t replica, int32_t rounds, struct kvt_err *err);
void kvt_predictor_release(struct kvt_predictor *predictor);

/* Seconds of each family by the laws alone (factors 1). */
void kvt_predictor_families(struct kvt_predictor *predictor, const struct kvt_step_load *load,
                            double seconds[KVT_FACTOR_COUNT]);

/* Seconds of a step, without its tag check. */
double kvt_predictor_step(struct kvt_predictor *predictor, const struct kvt_step_load *load);

/* Seconds of checking the tags of pages pages. */
double kvt_predictor_tag_check(const struct kvt_predictor *predictor, double pages);

#endif
