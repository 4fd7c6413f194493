#include "runtime/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/laws_text.h"
#include "sim/base/assert.h"

void kvt_predictor_release(struct kvt_predictor *predictor)
{
    kvt_calibration_release(&predictor->calibration);
    free(predictor->list);
    free(predictor->text);
    *predictor = (struct kvt_predictor){0};
}

enum kvt_status kvt_predictor_init(struct kvt_predictor *predictor, struct kvt_runtime *runtime,
                                   int32_t replica, int32_t rounds, struct kvt_err *err)
{
    const struct kvt_real_replica *real = &runtime->replicas[replica];
    const struct kvt_role_memory *plan = &runtime->plans[real->role];
    *predictor = (struct kvt_predictor){
        .plan = plan,
        .shape = {.engine = plan->want.engine,
                  .kv = plan->memory.kv,
                  .layout = plan->want.layout,
                  .skew = 1,
                  .own = true},
    };
    for (int f = 0; f < KVT_FACTOR_COUNT; f++)
        predictor->factor[f] = 1;
    predictor->list = malloc(sizeof *predictor->list);
    if (predictor->list == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a list of kernels");
    KVT_TRY(kvt_laws_measure(runtime, replica, rounds, &predictor->text, &predictor->tag_call_s,
                             &predictor->tag_page_s, err));
    return kvt_calibration_parse(&predictor->calibration, "measured here", predictor->text,
                                 strlen(predictor->text), &plan->gpu, NULL, err);
}

/* Which factor a kernel of the list has. */
static enum kvt_factor factor_of(enum kvt_family family)
{
    if (family <= KVT_FAMILY_GEMM_FP4)
        return KVT_FACTOR_GEMM;
    if (family <= KVT_FAMILY_EXPERTS_FP4)
        return KVT_FACTOR_EXPERTS;
    if (family == KVT_FAMILY_MLA_BMM)
        return KVT_FACTOR_BMM;
    if (family == KVT_FAMILY_MLA_PREFILL || family == KVT_FAMILY_GQA_PREFILL)
        return KVT_FACTOR_PREFILL;
    if (family == KVT_FAMILY_MLA_DECODE_BF16 || family == KVT_FAMILY_MLA_DECODE_FP8 ||
        family == KVT_FAMILY_GQA_DECODE_BF16 || family == KVT_FAMILY_GQA_DECODE_FP8)
        return KVT_FACTOR_DECODE;
    return KVT_FACTOR_SMALL;
}

void kvt_predictor_families(struct kvt_predictor *predictor, const struct kvt_step_load *load,
                            double seconds[KVT_FACTOR_COUNT])
{
    struct kvt_step_work work = {.decodes = load->decodes,
                                 .context = (double)load->context,
                                 .windowed = (double)load->windowed,
                                 .prompt_tokens = (double)load->prompt_tokens,
                                 .pairs = (double)load->pairs,
                                 .prompt_ends = load->prompt_ends};
    kvt_step_list(predictor->list, &predictor->plan->model, &predictor->shape,
                  &predictor->calibration, &work, KVT_STEP_WHOLE);
    memset(seconds, 0, sizeof(double) * KVT_FACTOR_COUNT);
    bool prompts = load->prompt_tokens > 0;
    for (int32_t i = 0; i < predictor->list->count; i++) {
        const struct kvt_kernel *kernel = &predictor->list->kernels[i];
        enum kvt_factor factor = factor_of(kernel->law->family);
        if (factor == KVT_FACTOR_DECODE && prompts) /* one call attends for all rows */
            factor = KVT_FACTOR_PREFILL;
        seconds[factor] += kernel->count * kernel->time;
    }
}

double kvt_predictor_step(struct kvt_predictor *predictor, const struct kvt_step_load *load)
{
    double seconds[KVT_FACTOR_COUNT], sum = 0;
    kvt_predictor_families(predictor, load, seconds);
    for (int f = 0; f < KVT_FACTOR_COUNT; f++)
        sum += predictor->factor[f] * seconds[f];
    return sum;
}

double kvt_predictor_tag_check(const struct kvt_predictor *predictor, double pages)
{
    return predictor->tag_call_s + pages * predictor->tag_page_s;
}
