#include "sim/plan/fleet.h"

#include <inttypes.h>
#include <stdio.h>

#define SGLANG_PREFILL_TOKENS  16384 /* max_prefill_tokens: prompts admitted in one step */
#define GPUS_MAX               INT32_MAX
#define RESERVED_DECODE_TOKENS 512 /* SGLang's num_reserved_decode_tokens */

static int32_t clip(int64_t value, int64_t limit)
{
    return (int32_t)(value < limit ? value : limit);
}

static struct kvt_replica_spec replica_of(const struct kvt_config *config, enum kvt_role role,
                                          const struct kvt_role_memory *plan,
                                          const struct kvt_fleet_load *load)
{
    const struct kvt_config_role *r = &config->roles[role];
    const struct kvt_config_scheduler *scheduler = &r->scheduler;
    const struct kvt_memory *memory = &plan->memory;
    bool sglang = config->engine == KVT_ENGINE_SGLANG;
    int32_t dp = plan->want.layout.dp;
    int64_t pages = memory->kv_pages * dp;
    int64_t running = memory->max_running * dp;
    /* No batch is larger than the load, nor than one page each allows. */
    running = running < load->requests ? running : load->requests;
    running = running < pages ? running : pages;
    int64_t step_tokens = memory->batch_tokens;
    int64_t batch = step_tokens;
    if (sglang)
        batch =
            scheduler->batch_tokens != KVT_UNSET ? scheduler->batch_tokens : SGLANG_PREFILL_TOKENS;
    bool cache = scheduler->prefix_cache_set ? scheduler->prefix_cache : true;
    bool overlap = scheduler->overlap_set ? scheduler->overlap : sglang;
    int64_t reserved = scheduler->reserved_decode_tokens;
    return (struct kvt_replica_spec){
        .role = role,
        .engine = config->engine,
        .pages = clip(pages, INT32_MAX / 2),
        .page_tokens = clip(memory->page_tokens, INT32_MAX),
        .overlap = overlap,
        .prefix_cache = cache && load->hashed && role != KVT_ROLE_DECODE,
        .named = load->named,
        .zeroes = r->guard.on[KVT_GUARD_ZERO_ON_FREE],
        .free_order = r->guard.on[KVT_GUARD_FIFO] ? KVT_FREE_FIFO : scheduler->free_order,
        .chunk_tokens = clip(step_tokens, 1 << 30),
        .batch_tokens = clip(batch, 1 << 30),
        .max_running = clip(running, 1 << 20),
        .max_model_len = clip(memory->max_model_len, 1 << 30),
        .conservativeness = scheduler->conservativeness,
        .reserved_decode_tokens =
            clip(reserved == KVT_UNSET ? RESERVED_DECODE_TOKENS : reserved, 1 << 30),
    };
}

double kvt_fleet_usd_per_gpu(const struct kvt_config *config, const struct kvt_gpu *gpu, FILE *talk)
{
    double usd_per_h = gpu->usd_per_hour > 0 ? gpu->usd_per_hour : 0;
    bool found = config->cost.count == 0 || usd_per_h > 0;
    for (int32_t i = 0; i < config->cost.count; i++) {
        if (!kvt_gpu_is_named(gpu, config->cost.key[i]))
            continue;
        usd_per_h = config->cost.value[i];
        found = true;
    }
    if (!found && talk != NULL)
        fprintf(talk, "kvtwin: warning: cost has no price for %s\n", gpu->name);
    return usd_per_h;
}

/* SGLang ends the chunks of a prompt at page bounds, so that a chunk is a page at least. */
static enum kvt_status check_chunk(const struct kvt_config *config, enum kvt_role role,
                                   const struct kvt_replica_spec *spec, struct kvt_err *err)
{
    if (spec->engine != KVT_ENGINE_SGLANG || role == KVT_ROLE_DECODE ||
        spec->chunk_tokens >= spec->page_tokens)
        return KVT_OK;
    char path[64];
    snprintf(path, sizeof path, "fleet.%s.scheduler.chunk_tokens", kvt_role_names[role]);
    return kvt_err_at(err, KVT_ECONFIG, kvt_config_where(config, path),
                      "want chunk_tokens of a page at least (%d tokens), got %d", spec->page_tokens,
                      spec->chunk_tokens);
}

static enum kvt_status role_init(struct kvt_fleet *fleet, struct kvt_arena *arena,
                                 const struct kvt_config *config, enum kvt_role role,
                                 const struct kvt_fleet_load *load, FILE *talk, struct kvt_err *err)
{
    struct kvt_fleet_role *r = &fleet->roles[role];
    KVT_TRY(kvt_role_memory_plan(config, role, &r->plan, fleet->gpus == 0 ? talk : NULL, err));
    r->replica = replica_of(config, role, &r->plan, load);
    KVT_TRY(check_chunk(config, role, &r->replica, err));
    if (r->plan.gpu.bandwidth <= 0)
        return kvt_err_at(err, KVT_ECONFIG, config->roles[role].gpu.where,
                          "want a GPU with known rates, got \"%s\", of which only the memory is "
                          "known: it has a capacity but no speed",
                          r->plan.gpu.name);
    KVT_TRY(kvt_price_init(&r->price, config, role, &r->plan, load->mean_output, talk, err));
    KVT_TRY(kvt_price_freeze(&r->price, &r->plan, arena, r->replica.max_running, r->replica.overlap,
                             NULL, &r->costs, err));
    r->replica.window = r->costs.window;
    fleet->present[role] = true;
    int64_t gpus = (int64_t)r->plan.memory.gpus_per_replica * config->roles[role].replicas;
    if (gpus > GPUS_MAX - fleet->gpus)
        return kvt_err_at(err, KVT_ELIMIT, config->roles[role].gpu.where,
                          "want at most %d GPUs in all, got %" PRId64, GPUS_MAX,
                          fleet->gpus + gpus);
    fleet->gpus += (int32_t)gpus;
    fleet->usd_per_h += (double)gpus * kvt_fleet_usd_per_gpu(config, &r->plan.gpu, talk);
    return KVT_OK;
}

static struct kvt_link_spec link_of(const struct kvt_config *config, const struct kvt_fleet *fleet)
{
    const struct kvt_fleet_role *prefill = &fleet->roles[KVT_ROLE_PREFILL];
    const struct kvt_fleet_role *decode = &fleet->roles[KVT_ROLE_DECODE];
    int32_t gpus = decode->plan.memory.gpus_per_replica;
    /* Every rank of the decode replica gets what it keeps: its own copy of MLA's latent, its heads
     * otherwise. A rank of another DP group, or of dcp, keeps nothing of this request. */
    double copies = (double)gpus / decode->plan.want.layout.dp;
    double bytes = decode->plan.memory.kv_bytes_per_token * copies;
    const struct kvt_config_guard *guard = &config->roles[KVT_ROLE_DECODE].guard;
    const int64_t tag_bytes = (guard->tag_bits + 7) / 8;
    if (guard->on[KVT_GUARD_TAG_INBAND]) /* it comes with each layer's slab of a page */
        bytes += copies * decode->plan.model.layers * (double)tag_bytes /
                 (double)decode->plan.memory.page_tokens;
    return (struct kvt_link_spec){
        .bytes_per_s = config->link.bandwidth,
        .per = config->link.per,
        .prefill_gpus = prefill->plan.memory.gpus_per_replica,
        .decode_gpus = gpus,
        .latency = kvt_ticks_from_seconds(config->link.latency),
        .stream = config->link.stream,
        .layers = prefill->plan.model.layers,
        .bytes_per_token = (int64_t)(bytes + 0.5),
    };
}

enum kvt_status kvt_fleet_init(struct kvt_fleet *fleet, struct kvt_arena *arena,
                               const struct kvt_config *config, const struct kvt_fleet_load *load,
                               FILE *talk, struct kvt_err *err)
{
    *fleet = (struct kvt_fleet){0};
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (config->roles[role].present)
            KVT_TRY(role_init(fleet, arena, config, (enum kvt_role)role, load, talk, err));
    if (fleet->present[KVT_ROLE_PREFILL]) /* and decode: neither is there alone */
        fleet->link = link_of(config, fleet);
    return KVT_OK;
}

void kvt_fleet_release(struct kvt_fleet *fleet)
{
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        kvt_price_release(&fleet->roles[role].price);
}

enum kvt_status kvt_fleet_with_errors(struct kvt_fleet *fleet, const struct kvt_fleet *base,
                                      struct kvt_arena *arena, struct kvt_error_factors *errors,
                                      struct kvt_err *err)
{
    *fleet = *base;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        struct kvt_fleet_role *r = &fleet->roles[role];
        if (fleet->present[role])
            KVT_TRY(kvt_price_freeze(&r->price, &r->plan, arena, r->replica.max_running,
                                     r->replica.overlap, errors, &r->costs, err));
    }
    return KVT_OK;
}
