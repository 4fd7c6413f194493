#include "sim/plan/evaluate.h"

static enum kvt_status evaluate(struct kvt_evaluation *e,
                                const struct kvt_simulate_options *options,
                                const struct kvt_resample_options *how, struct kvt_err *err)
{
    KVT_TRY(kvt_simulation_run(&e->simulation, options, err));
    KVT_TRY(kvt_simulation_result(&e->simulation, &e->result, err));
    KVT_TRY(kvt_arena_init(&e->arena, KVT_SUMMARY_BYTES, err));
    KVT_TRY(kvt_summary_init(&e->summary, &e->result, &e->arena, err));
    if (how == NULL || how->count == 0)
        return KVT_OK;
    KVT_TRY(kvt_resample(&e->resamples, &e->simulation, &e->summary, how, err));
    return kvt_resamples_annotate(&e->resamples, &e->summary, err);
}

enum kvt_status kvt_evaluation_init(struct kvt_evaluation *evaluation,
                                    const struct kvt_config *config,
                                    const struct kvt_simulate_options *options, struct kvt_err *err)
{
    evaluation->resamples = (struct kvt_resamples){0};
    evaluation->arena = (struct kvt_arena){0};
    return kvt_simulation_init(&evaluation->simulation, config, options, err);
}

enum kvt_status kvt_evaluation_run(struct kvt_evaluation *evaluation,
                                   const struct kvt_simulate_options *options,
                                   const struct kvt_resample_options *how, struct kvt_err *err)
{
    enum kvt_status status = evaluate(evaluation, options, how, err);
    if (status != KVT_OK)
        kvt_evaluation_release(evaluation);
    return status;
}

enum kvt_status kvt_evaluate(struct kvt_evaluation *evaluation, const struct kvt_config *config,
                             const struct kvt_simulate_options *options,
                             const struct kvt_resample_options *how, struct kvt_err *err)
{
    static const struct kvt_simulate_options plain = {0};
    options = options != NULL ? options : &plain;
    KVT_TRY(kvt_evaluation_init(evaluation, config, options, err));
    return kvt_evaluation_run(evaluation, options, how, err);
}

void kvt_evaluation_release(struct kvt_evaluation *evaluation)
{
    kvt_resamples_release(&evaluation->resamples);
    kvt_arena_release(&evaluation->arena);
    kvt_simulation_release(&evaluation->simulation);
}

double kvt_evaluation_metric(const struct kvt_evaluation *evaluation, const char *name)
{
    return kvt_metric_number(kvt_summary_find(&evaluation->summary, name));
}
