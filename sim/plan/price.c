#include "sim/plan/price.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cost/freeze.h"

/* The calibration that the config names for this GPU, else the shipped one of the engine. */
static enum kvt_status load_calibration(const struct kvt_config *config, enum kvt_role role,
                                        const struct kvt_role_memory *plan, FILE *talk,
                                        struct kvt_calibration *calibration, struct kvt_err *err)
{
    const struct kvt_config_named *named = &config->calibration;
    struct kvt_where where = config->roles[role].gpu.where;
    const char *name = NULL;
    for (int32_t i = 0; i < named->count; i++) {
        if (!kvt_gpu_is_named(&plan->gpu, named->key[i]))
            continue;
        name = named->text[i];
        where = named->where[i];
    }
    struct kvt_err why = {0};
    enum kvt_status status = kvt_calibration_load(calibration, name, &plan->gpu,
                                                  kvt_engine_names[config->engine], talk, &why);
    if (status != KVT_OK)
        return kvt_err_at(err, status, where, "%s", why.text);
    for (int family = KVT_FAMILY_LAYER_MLA_MOE; family <= KVT_FAMILY_LAYER_SPARSE; family++)
        kvt_calibration_add(calibration, (enum kvt_family)family, config->residual.layer);
    kvt_calibration_add(calibration, KVT_FAMILY_PREFILL_LAYER, config->residual.prefill_layer);
    kvt_calibration_add(calibration, KVT_FAMILY_REQUEST, config->residual.request);
    return KVT_OK;
}

/* How often a step looks at what a guard keeps. */
static double looks_of(const struct kvt_config_guard *guard)
{
    switch (guard->check) {
    case KVT_CHECK_BEFORE_READ:
    case KVT_CHECK_BEFORE_WRITE:
        return 1;
    case KVT_CHECK_AFTER_STEP:
        return 2; /* before it reads, and again before its tokens are released */
    case KVT_CHECK_SAMPLED:
        return guard->sample;
    case KVT_CHECK_ONCE:
    case KVT_CHECK_COUNT:
        break;
    }
    return 0;
}

static struct kvt_step_guards guards_of(const struct kvt_config_guard *guard, double mean_output)
{
    return (struct kvt_step_guards){
        .tag_looks = looks_of(guard),
        .once = guard->check == KVT_CHECK_ONCE ? mean_output : 0,
        .tag_inband = guard->on[KVT_GUARD_TAG_INBAND],
        .tag_tail = guard->check == KVT_CHECK_BEFORE_WRITE,
        .digest = guard->on[KVT_GUARD_DIGEST],
        .digest_looks = looks_of(guard),
        .canary = guard->on[KVT_GUARD_CANARY],
        .canary_looks = looks_of(guard),
        .zero = guard->on[KVT_GUARD_ZERO_ON_FREE],
    };
}

static struct kvt_step_shape shape_of(const struct kvt_config *config, enum kvt_role role,
                                      const struct kvt_role_memory *plan, double mean_output)
{
    const struct kvt_config_guard *guard = &config->roles[role].guard;
    bool tagged = guard->on[KVT_GUARD_TAG_SIDE] || guard->on[KVT_GUARD_TAG_INBAND];
    bool looks = tagged && (guard->check != KVT_CHECK_ONCE || mean_output > 0);
    return (struct kvt_step_shape){
        .engine = config->engine,
        .kv = plan->memory.kv,
        .layout = plan->want.layout,
        .tag_page_tokens = looks ? (int32_t)plan->memory.page_tokens : 0,
        .guards = guards_of(guard, mean_output),
        .skew = -1,
        .host_floor = config->roles[role].scheduler.host_floor,
        .moe_a2a = config->roles[role].parallel.moe_a2a,
    };
}

/* A scheduler that does not plan ahead adds the host's time to every step. */
static void add_host_time(struct kvt_costs *costs)
{
    for (int32_t b = 1; b <= costs->batch_max; b++)
        costs->rows[b].base += costs->host_ticks;
    costs->prefill_base += costs->host_ticks;
    costs->host_ticks = 0;
}

enum kvt_status kvt_price_init(struct kvt_price *price, const struct kvt_config *config,
                               enum kvt_role role, const struct kvt_role_memory *plan,
                               double mean_output, FILE *talk, struct kvt_err *err)
{
    price->shape = shape_of(config, role, plan, mean_output);
    KVT_TRY(load_calibration(config, role, plan, talk, &price->calibration, err));
    if (talk != NULL && plan->want.draft_tokens > 0)
        fprintf(talk,
                "kvtwin: warning: %s: draft_tokens takes memory, but steps are run and "
                "priced without speculative decoding\n",
                kvt_role_names[role]);
    return KVT_OK;
}

void kvt_price_release(struct kvt_price *price)
{
    kvt_calibration_release(&price->calibration);
}

enum kvt_status kvt_price_freeze(const struct kvt_price *price, const struct kvt_role_memory *plan,
                                 struct kvt_arena *arena, int32_t batch_max, bool overlap,
                                 struct kvt_error_factors *errors, struct kvt_costs *costs,
                                 struct kvt_err *err)
{
    struct kvt_calibration wrong;
    const struct kvt_calibration *calibration = &price->calibration;
    if (errors != NULL) {
        wrong = kvt_calibration_with_errors(calibration, errors);
        calibration = &wrong;
    }
    KVT_TRY(kvt_costs_freeze(costs, arena, &plan->model, &plan->gpu, calibration, &price->shape,
                             batch_max, overlap, err));
    add_host_time(costs);
    return KVT_OK;
}

enum kvt_status kvt_price_explain(const struct kvt_config *config, enum kvt_role role,
                                  const struct kvt_role_memory *plan,
                                  const struct kvt_explained *what, FILE *out, struct kvt_err *err)
{
    struct kvt_calibration calibration;
    KVT_TRY(load_calibration(config, role, plan, what->talk, &calibration, err));
    struct kvt_kernel_list *step = malloc(sizeof *step);
    if (step == NULL) {
        kvt_calibration_release(&calibration);
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a list of kernels");
    }
    /* As if one of the requests took its first step. */
    struct kvt_step_shape shape = shape_of(config, role, plan, (double)what->decodes);
    double window = kvt_step_window(&plan->model), context = (double)what->context;
    double prompt = (double)what->prompt;
    struct kvt_step_work work = {
        .decodes = (double)what->decodes,
        .context = (double)what->decodes * context,
        .windowed = (double)what->decodes * (context < window ? context : window),
        .prompt_tokens = prompt,
        .pairs = prompt * (what->decodes > 0 ? 0 : context) + prompt * (prompt + 1) / 2,
        .prompt_ends = prompt > 0,
        .freed = context + prompt, /* as if one more request had ended */
    };
    kvt_step_list(step, &plan->model, &shape, &calibration, &work, KVT_STEP_WHOLE);
    enum kvt_status status = KVT_OK;
    if (what->json)
        status = kvt_step_json(step, &calibration, out, err);
    else
        kvt_step_print(step, &calibration, out);
    free(step);
    kvt_calibration_release(&calibration);
    return status;
}
