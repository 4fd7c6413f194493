#include "sim/plan/serving_world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/output/summary.h"
#include "sim/plan/bench_load.h"

/* The law of a constant that a whole step asks for. */
static int32_t constant_law(const struct kvt_fleet_role *role, enum kvt_family family)
{
    const struct kvt_calibration *c = &role->price.calibration;
    struct kvt_work work = {0};
    const struct kvt_law *law =
        kvt_step_constant_law(&role->plan.model, &role->price.shape, c, family, &work);
    return law->kind == KVT_LAW_CONSTANT ? (int32_t)(law - c->laws) : -1;
}

static enum kvt_status find_places(const struct kvt_fleet_role *role,
                                   struct kvt_serving_places *places, struct kvt_err *err)
{
    const struct kvt_calibration *c = &role->price.calibration;
    struct kvt_step_work work = {.decodes = 1.0, .context = 1.0, .windowed = 1.0};
    struct kvt_kernel_list *step = malloc(sizeof *step);
    double layers = 0.0, experts = 0.0;
    if (step == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a list of kernels");
    for (int p = 0; p < KVT_HOST_CONSTANT_COUNT; p++)
        places->law[p] = -1;
    kvt_step_list(step, &role->plan.model, &role->price.shape, c, &work, KVT_STEP_WHOLE);
    for (int32_t k = 0; k < step->count; k++) {
        const struct kvt_kernel *kernel = &step->kernels[k];
        int32_t law = (int32_t)(kernel->law - c->laws);
        if (kvt_family_is_gap(kernel->law->family) && kernel->law->kind == KVT_LAW_CONSTANT &&
            kernel->count > layers) {
            layers = kernel->count;
            places->law[KVT_HOST_CONSTANT_LAYER] = law;
        }
        if (kvt_family_is_experts(kernel->law->family) && kernel->count > experts) {
            experts = kernel->count;
            places->law[KVT_HOST_CONSTANT_SKEW] = law;
        }
    }
    free(step);
    places->law[KVT_HOST_CONSTANT_HOST] =
        constant_law(role, role->replica.overlap ? KVT_FAMILY_HOST_FLOOR : KVT_FAMILY_HOST_STEP);
    places->law[KVT_HOST_CONSTANT_REQUEST] = constant_law(role, KVT_FAMILY_REQUEST);
    return KVT_OK;
}

/* Loads that differ: in concurrency, or in rate. */
static int32_t distinct_loads(const struct kvt_serving_run runs[], int32_t count)
{
    int32_t distinct = 0;
    for (int32_t i = 0; i < count; i++) {
        bool seen = false;
        for (int32_t k = 0; k < i; k++)
            seen =
                seen || (kvt_bench_concurrency(runs[k].run) == kvt_bench_concurrency(runs[i].run) &&
                         (kvt_bench_concurrency(runs[i].run) > 0 ||
                          runs[k].run->rate == runs[i].run->rate));
        distinct += !seen;
    }
    return distinct;
}

static void describe(struct kvt_serving_world *world)
{
    const struct kvt_calibration *c = &world->bases[0].fleet->roles[world->role].price.calibration;
    const struct kvt_serving_places *at = &world->places[world->role];
    for (int p = 0; p < KVT_HOST_CONSTANT_COUNT; p++) {
        bool skew = p == KVT_HOST_CONSTANT_SKEW;
        if (at->law[p] < 0) {
            world->missing[p] =
                skew ? "the model has no experts" : "the calibration has no constant for it";
            world->family[p] = "";
            continue;
        }
        const struct kvt_law *law = &c->laws[at->law[p]];
        world->family[p] = kvt_family_names[law->family];
        world->shipped[p] = !skew ? law->t0 : law->skew > 0.0 ? law->skew : c->skew;
    }
    if (world->missing[KVT_HOST_CONSTANT_SKEW] == NULL &&
        distinct_loads(world->runs, world->count) < 3)
        world->missing[KVT_HOST_CONSTANT_SKEW] = "it takes runs of three loads";
    if (world->missing[KVT_HOST_CONSTANT_SKEW] == NULL &&
        c->laws[at->law[KVT_HOST_CONSTANT_SKEW]].kind != KVT_LAW_ROOFLINE)
        world->missing[KVT_HOST_CONSTANT_SKEW] = "the law of its experts has no skew";
}

/* ---- set-up ---- */

static enum kvt_status check_engine(const struct kvt_config *config,
                                    const struct kvt_serving_run *run, struct kvt_err *err)
{
    const char *engine = kvt_engine_names[config->engine];
    struct kvt_where where = {.file = run->path, .line = run->run->line};
    if (run->run->engine[0] == '\0' || strcmp(run->run->engine, engine) == 0)
        return KVT_OK;
    return kvt_err_at(err, KVT_ECONFIG, where,
                      "field \"backend\": is a run on %s, the config %s describes %s",
                      run->run->engine, config->path, engine);
}

static enum kvt_status add_base(struct kvt_serving_world *world, const struct kvt_config *config,
                                FILE *talk, struct kvt_err *err)
{
    const struct kvt_serving_run *run = &world->runs[world->count];
    struct kvt_config *own = &world->configs[world->count];
    struct kvt_where where = {.file = run->path, .line = run->run->line};
    struct kvt_trace trace = {0};
    struct kvt_err why = {0};
    *own = *config; /* borrows the store, which outlives it */
    KVT_TRY(check_engine(config, run, err));
    enum kvt_status status = kvt_bench_load(&trace, own, run->run, &why);
    if (status != KVT_OK)
        return kvt_err_at(err, status, where, "%s", why.text);
    struct kvt_simulate_options how = {.trace = &trace, .talk = talk};
    status = kvt_simulation_init(&world->bases[world->count], own, &how, err);
    kvt_trace_release(&trace); /* empty when it was taken */
    if (status != KVT_OK)
        return status;
    struct kvt_fleet *fleet = world->bases[world->count++].fleet;
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        fleet->roles[role].price.calibration.talk = NULL; /* once is enough */
    return KVT_OK;
}

/* One GPU and one calibration, so that a constant is one number. */
static enum kvt_status check_roles(const struct kvt_serving_world *world,
                                   const struct kvt_config *config, struct kvt_err *err)
{
    const struct kvt_fleet *fleet = world->bases[0].fleet;
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (fleet->present[role] &&
            strcmp(fleet->roles[role].plan.gpu.name, fleet->roles[world->role].plan.gpu.name) != 0)
            return kvt_err_at(err, KVT_ECONFIG, config->roles[role].gpu.where,
                              "want all roles on one GPU to fit its constants, got %s and %s",
                              fleet->roles[role].plan.gpu.name,
                              fleet->roles[world->role].plan.gpu.name);
    return KVT_OK;
}

enum kvt_status kvt_serving_world_init(struct kvt_serving_world *world,
                                       const struct kvt_config *config,
                                       const struct kvt_serving_run runs[], int32_t count,
                                       FILE *talk, const struct kvt_stop *stop, struct kvt_err *err)
{
    kvt_assert(count > 0);
    *world = (struct kvt_serving_world){.runs = runs, .stop = stop, .role = KVT_ROLE_SERVE};
    world->configs = calloc((size_t)count, sizeof *world->configs);
    world->bases = calloc((size_t)count, sizeof *world->bases);
    enum kvt_status status = KVT_OK;
    if (world->configs == NULL || world->bases == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for %d runs", count);
    for (int32_t i = 0; status == KVT_OK && i < count; i++)
        status = add_base(world, config, i == 0 ? talk : NULL, err);
    if (status == KVT_OK && !world->bases[0].fleet->present[KVT_ROLE_SERVE])
        world->role = KVT_ROLE_DECODE;
    if (status == KVT_OK)
        status = check_roles(world, config, err);
    for (int role = 0; status == KVT_OK && role < KVT_ROLE_COUNT; role++)
        if (world->bases[0].fleet->present[role])
            status = find_places(&world->bases[0].fleet->roles[role], &world->places[role], err);
    if (status == KVT_OK)
        describe(world);
    else
        kvt_serving_world_release(world);
    return status;
}

void kvt_serving_world_release(struct kvt_serving_world *world)
{
    for (int32_t i = 0; i < world->count; i++)
        kvt_simulation_release(&world->bases[i]);
    free(world->configs);
    free(world->bases);
    *world = (struct kvt_serving_world){0};
}

/* ---- runs ---- */

void kvt_serving_world_set(struct kvt_serving_world *world,
                           const double values[KVT_HOST_CONSTANT_COUNT])
{
    for (int32_t i = 0; i < world->count; i++)
        for (int role = 0; role < KVT_ROLE_COUNT; role++) {
            struct kvt_fleet *fleet = world->bases[i].fleet;
            if (!fleet->present[role])
                continue;
            struct kvt_law *laws = fleet->roles[role].price.calibration.laws;
            const int32_t *at = world->places[role].law;
            for (int p = 0; p < KVT_HOST_CONSTANT_COUNT; p++) {
                if (at[p] < 0 || world->missing[p] != NULL)
                    continue;
                struct kvt_law *law = &laws[at[p]];
                bool own = law->skew > 0.0 || values[p] != world->shipped[p];
                if (p == KVT_HOST_CONSTANT_SKEW && own)
                    law->skew = values[p];
                else if (p != KVT_HOST_CONSTANT_SKEW)
                    law->t0 = values[p];
            }
        }
}

static enum kvt_status measure(struct kvt_serving_world *world, int32_t run,
                               struct kvt_simulation *simulation,
                               double metrics[KVT_BENCH_METRIC_COUNT], struct kvt_err *err)
{
    struct kvt_result result;
    struct kvt_arena arena;
    struct kvt_where where = {.file = world->runs[run].path, .line = world->runs[run].run->line};
    struct kvt_summary *summary = malloc(sizeof *summary);
    enum kvt_status status = summary == NULL ? kvt_err_set(err, KVT_ENOMEM, "no memory to measure")
                                             : kvt_arena_init(&arena, KVT_SUMMARY_BYTES, err);
    if (status != KVT_OK) {
        free(summary);
        return status;
    }
    status = kvt_simulation_result(simulation, &result, err);
    if (status == KVT_OK)
        status = kvt_summary_init(summary, &result, &arena, err);
    for (int m = 0; status == KVT_OK && m < KVT_BENCH_METRIC_COUNT; m++) {
        metrics[m] = kvt_metric_number(kvt_summary_find(summary, kvt_bench_metric_names[m]));
    }
    int64_t served = status == KVT_OK ? summary->counted.fates[KVT_FATE_COMPLETED] : 0;
    if (status == KVT_OK && served < simulation->trace.count)
        status = kvt_err_at(err, KVT_ECONFIG, where,
                            "%lld of its %d request%s cannot be served by the config: longer than "
                            "max_model_len or the pool",
                            (long long)(simulation->trace.count - served), simulation->trace.count,
                            kvt_plural(simulation->trace.count));
    kvt_arena_release(&arena);
    free(summary);
    return status;
}

enum kvt_status kvt_serving_world_run(struct kvt_serving_world *world, int32_t run,
                                      double metrics[KVT_BENCH_METRIC_COUNT], struct kvt_err *err)
{
    struct kvt_simulation simulation;
    struct kvt_simulate_options how = {.stop = world->stop};
    KVT_TRY(kvt_simulation_init_with_errors(&simulation, &world->bases[run], NULL, &how, err));
    enum kvt_status status = kvt_simulation_run(&simulation, &how, err);
    if (status == KVT_OK)
        status = measure(world, run, &simulation, metrics, err);
    kvt_simulation_release(&simulation);
    world->simulations++;
    return status;
}
