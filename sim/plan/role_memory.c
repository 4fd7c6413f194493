#include "sim/plan/role_memory.h"

#include <string.h>

#include "sim/base/spelling.h"
#include "sim/base/yaml.h"
#include "sim/cost/calibration.h"

/* A failure of a part of the config, at the place that named it. */
static enum kvt_status at(struct kvt_err *err, struct kvt_where where, const struct kvt_err *why)
{
    return kvt_err_at(err, why->status, where, "%s", why->text);
}

enum kvt_status kvt_config_load_model(const struct kvt_config *config, struct kvt_model *model,
                                      FILE *talk, struct kvt_err *err)
{
    const struct kvt_config_source *source = &config->model;
    struct kvt_err why = {0};
    enum kvt_status status =
        source->hf_config != NULL
            ? kvt_model_import(model, source->hf_config, NULL, talk, &why)
            : kvt_model_load(model, source->file != NULL ? source->file : source->name, &why);
    return status == KVT_OK ? KVT_OK : at(err, source->where, &why);
}

static enum kvt_status load_gpu(const struct kvt_config_role *role, struct kvt_gpu *gpu,
                                struct kvt_err *err)
{
    const struct kvt_config_source *source = &role->gpu;
    struct kvt_err why = {0};
    const char *name = source->file != NULL ? source->file : source->name;
    if (kvt_gpu_load(gpu, name, role->memory.capacity, &why) == KVT_OK)
        return KVT_OK;
    return at(err, source->where, &why);
}

/* ---- GPUs by name ---- */

/* Whether a choice of a domain of the fleet is a GPU of that name; one that only a role can load (a
 * map, a path from the config's folder) may be. */
static bool domain_has(const struct kvt_config_domain *domain, const char *key)
{
    struct kvt_gpu gpu;
    bool is_fleet = strncmp(domain->path, "fleet", 5) == 0;
    const char *role = is_fleet ? strchr(domain->path, '.') : NULL;
    const char *below = role != NULL ? strchr(role + 1, '.') : NULL;
    if (!is_fleet || (below != NULL && strncmp(below, ".gpu", 4) != 0))
        return false;
    bool has = below == NULL; /* a whole role */
    for (int32_t i = 0; i < domain->count && !has; i++)
        has =
            kvt_gpu_load(&gpu, domain->texts[i], -1, NULL) != KVT_OK || kvt_gpu_is_named(&gpu, key);
    return has;
}

/* Whether a GPU of the fleet has, or may have, that name; hint is of the nearest. */
static bool fleet_has(const struct kvt_config *config, const char *key, char hint[KVT_HINT_BYTES])
{
    struct kvt_gpu gpu;
    bool has = false;
    for (int role = 0; role < KVT_ROLE_COUNT && !has; role++) {
        if (!config->roles[role].present)
            continue;
        const char *name = gpu.name;
        has = load_gpu(&config->roles[role], &gpu, NULL) != KVT_OK || kvt_gpu_is_named(&gpu, key);
        if (!has && hint[0] == '\0')
            kvt_nearest_hint(key, &name, 1, hint);
    }
    for (int32_t i = 0; i < config->domains && !has; i++)
        has = domain_has(kvt_config_domain(config, i), key);
    return has;
}

/* Whether a role's GPU is written so: no file need be read to know. */
static bool is_written(const struct kvt_config *config, const char *key)
{
    bool is = false;
    for (int role = 0; role < KVT_ROLE_COUNT && !is; role++)
        is = config->roles[role].present && config->roles[role].gpu.name != NULL &&
             strcmp(config->roles[role].gpu.name, key) == 0;
    return is;
}

static enum kvt_status check_names(const struct kvt_config *config,
                                   const struct kvt_config_named *named, const char *section,
                                   struct kvt_err *err)
{
    for (int32_t i = 0; i < named->count; i++) {
        char hint[KVT_HINT_BYTES], near[KVT_HINT_BYTES] = "", quote[KVT_QUOTE_BYTES];
        bool found = is_written(config, named->key[i]);
        if (!found)
            KVT_TRY(kvt_gpu_find(named->key[i], &found, hint, err));
        if (!found && !fleet_has(config, named->key[i], near))
            return kvt_err_at(err, KVT_ECONFIG, named->where[i],
                              "%s.%s: want the name of a GPU of the fleet, or of a shipped one%s",
                              section, kvt_yaml_quote(named->key[i], quote),
                              near[0] != '\0' ? near : hint);
        if (named->text[i] != NULL && !kvt_calibration_is_there(named->text[i]))
            return kvt_err_at(err, KVT_EIO, named->where[i], "%s.%s: there is no calibration %s",
                              section, kvt_yaml_quote(named->key[i], quote), named->text[i]);
    }
    return KVT_OK;
}

enum kvt_status kvt_config_check_gpu_names(const struct kvt_config *config, struct kvt_err *err)
{
    KVT_TRY(check_names(config, &config->cost, "cost", err));
    return check_names(config, &config->calibration, "calibration", err);
}

/* ---- a role ---- */

/* Bytes that guards keep beside the cache. A side tag has the tag, a generation of 8 bytes and a
 * transfer tag of 4 per page, and 24 bytes per expected page in two name spaces. */
static void add_guards(const struct kvt_config_guard *guard, struct kvt_memory_want *want)
{
    int64_t tag = (guard->tag_bits + 7) / 8;
    if (guard->on[KVT_GUARD_TAG_SIDE]) {
        want->guard_page_bytes += tag + 8 + 4;
        want->guard_entry_bytes += 2 * 24;
        want->guard_request_bytes += 16;
    }
    if (guard->on[KVT_GUARD_TAG_INBAND])
        want->guard_page_bytes += tag * want->model->layers; /* in each layer's slab of a page */
    if (guard->on[KVT_GUARD_DIGEST])
        want->guard_page_bytes += 8;
    if (guard->on[KVT_GUARD_LEASE])
        want->guard_page_bytes += 8;
    if (guard->on[KVT_GUARD_CANARY])
        want->guard_token_bytes += 32;
    if (guard->on[KVT_GUARD_REQUEST_ID])
        want->guard_request_bytes += 8;
}

static int64_t given(int64_t value)
{
    return value == KVT_UNSET ? 0 : value;
}

/* New tokens of one step: the chunk bounds SGLang's, the batch vLLM's. */
static int64_t step_tokens(const struct kvt_config *config, const struct kvt_config_role *role)
{
    int64_t chunk = given(role->scheduler.chunk_tokens);
    int64_t batch = given(role->scheduler.batch_tokens);
    if (config->engine == KVT_ENGINE_SGLANG)
        return chunk > 0 ? chunk : batch;
    return batch > 0 ? batch : chunk;
}

enum kvt_status kvt_role_memory_plan(const struct kvt_config *config, enum kvt_role role,
                                     struct kvt_role_memory *plan, FILE *talk, struct kvt_err *err)
{
    const struct kvt_config_role *r = &config->roles[role];
    *plan = (struct kvt_role_memory){0};
    KVT_TRY(kvt_config_load_model(config, &plan->model, talk, err));
    KVT_TRY(load_gpu(r, &plan->gpu, err));
    if (r->weights_set) /* every later reader of the model sees the dtypes that run */
        kvt_model_quantise(&plan->model, r->weights, kvt_model_scope(&plan->model, r->weights));
    plan->want = (struct kvt_memory_want){
        .model = &plan->model,
        .gpu = &plan->gpu,
        .engine = config->engine,
        .role = role,
        .layout = {.tp = r->parallel.tp,
                   .pp = r->parallel.pp,
                   .dp = r->parallel.dp,
                   .ep = r->parallel.ep,
                   .dcp = r->parallel.dcp},
        .weights_set = r->weights_set,
        .weights = r->weights,
        .kv = r->kv,
        .fraction = r->memory.fraction,
        .reserve_bytes = r->memory.reserve > 0 ? r->memory.reserve : 0,
        .page_tokens = given(r->page_tokens),
        .max_model_len = given(r->scheduler.max_model_len),
        .batch_tokens = step_tokens(config, r),
        .max_running = given(r->scheduler.max_running),
        .draft_tokens = given(r->draft_tokens),
        .pages = given(r->memory.pages),
        .where = r->where,
    };
    add_guards(&r->guard, &plan->want);
    return kvt_memory_plan(&plan->want, &plan->memory, err);
}
