/*
 * evaluate.h - a config in, its metrics and their intervals out
 *
 * What every command that compares configs does to each of them: run it once, measure it, and run
 * its resamples. The simulation stays, for what is no metric.
 */
#ifndef KVT_PLAN_EVALUATE_H
#define KVT_PLAN_EVALUATE_H

#include "sim/plan/resample.h"

struct kvt_evaluation {
    struct kvt_simulation simulation;
    struct kvt_result result;       /* of simulation */
    struct kvt_summary summary;     /* of result; with low and high where there are resamples */
    struct kvt_resamples resamples; /* count 0: none were asked for */
    struct kvt_arena arena;         /* of summary */
};

/* Simulate config, which must stay, as options say (NULL: as it is, in silence); how says which
 * resamples (NULL or count 0: none). evaluation is large (32 KiB): keep it off small stacks, and do
 * not move it. Release it after a success; a failure leaves nothing. Independent evaluations may
 * run on any number of threads, each then runs its resamples by itself. */
enum kvt_status kvt_evaluate(struct kvt_evaluation *evaluation, const struct kvt_config *config,
                             const struct kvt_simulate_options *options,
                             const struct kvt_resample_options *how, struct kvt_err *err);

/* The same in two steps: what is known of the fleet before it runs can be looked at in between
 * (evaluation->simulation, initialised). After a failure of either nothing is left. */
enum kvt_status kvt_evaluation_init(struct kvt_evaluation *evaluation,
                                    const struct kvt_config *config,
                                    const struct kvt_simulate_options *options,
                                    struct kvt_err *err);
enum kvt_status kvt_evaluation_run(struct kvt_evaluation *evaluation,
                                   const struct kvt_simulate_options *options,
                                   const struct kvt_resample_options *how, struct kvt_err *err);
void kvt_evaluation_release(struct kvt_evaluation *evaluation);

/* The metric of that name as a number; NaN where the run has none. */
double kvt_evaluation_metric(const struct kvt_evaluation *evaluation, const char *name);

#endif
