#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/planned.h"
#include "sim/base/assert.h"
#include "sim/base/random.h"

/* ---- opening ------------------------------------------------------------------------------ */

static enum kvt_status check_role(const struct kvt_config *config, enum kvt_role role,
                                  const struct kvt_runtime_want *want, struct kvt_err *err)
{
    const struct kvt_config_role *r = &config->roles[role];
    const char *what = NULL;
    if (r->parallel.tp * r->parallel.pp * r->parallel.dp * r->parallel.ep * r->parallel.dcp > 1)
        what = "one GPU a replica (tp, pp, dp, ep and dcp 1)";
    else if (r->draft_tokens > 0)
        what = "no speculative decoding (draft_tokens 0)";
    else if (r->guard.on[KVT_GUARD_TAG_INBAND] && !want->page_header)
        what = "tags beside the pages (guard tag-side)";
    if (what == NULL)
        return KVT_OK;
    return kvt_err_at(err, KVT_ECONFIG, r->where, "%s: to run it the runtime wants %s",
                      kvt_role_names[role], what);
}

static enum kvt_status check_config(const struct kvt_config *config,
                                    const struct kvt_runtime_want *want, struct kvt_err *err)
{
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (config->roles[role].present)
            KVT_TRY(check_role(config, (enum kvt_role)role, want, err));
    if (kvt_config_replicas(config) > INT16_MAX) /* what the core has numbers for */
        return kvt_err_set(err, KVT_ELIMIT, "want at most %d replicas to run, got %d", INT16_MAX,
                           kvt_config_replicas(config));
    if (config->workload.decode_only)
        return kvt_err_at(err, KVT_ECONFIG, config->workload.where,
                          "decode_only: to run it the runtime wants prompts that are computed");
    return KVT_OK;
}

/* Pages of both roles hold the same tokens, so that a hand-off goes page by page; BF16 becomes FP8,
 * and what is alike is copied. */
static enum kvt_status check_handoff(const struct kvt_config *config,
                                     const struct kvt_real_replica *prefill,
                                     const struct kvt_real_replica *decode, struct kvt_err *err)
{
    const struct kvt_page_layout *from = &prefill->layout, *to = &decode->layout;
    struct kvt_where where = config->roles[KVT_ROLE_DECODE].where;
    if (from->page_tokens != to->page_tokens)
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "page_tokens: pages are handed over one by one, want %d as prefill has, "
                          "got %d",
                          from->page_tokens, to->page_tokens);
    if (from->format != to->format && kvt_page_format_is_fp8((enum kvt_page_format)from->format))
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "kv: pages of prefill are %s, want the same or bf16 there: fp8 is not "
                          "converted back",
                          kvt_page_format_name((enum kvt_page_format)from->format));
    return KVT_OK;
}

static enum kvt_status open_replica(struct kvt_runtime *engine, struct kvt_config *config,
                                    enum kvt_role role, struct kvt_real_replica *replica,
                                    struct kvt_err *err)
{
    struct kvt_role_memory *plan = &engine->plans[role];
    const struct kvt_memory *memory = &plan->memory;
    struct kvt_err why = {0};
    const struct kvt_config_guard *guard = &config->roles[role].guard;
    replica->role = role;
    replica->guarded = guard->on[KVT_GUARD_TAG_SIDE] && guard->check == KVT_CHECK_BEFORE_READ;
    KVT_TRY(kvt_device_open(&replica->device, engine->want.backend, memory->before_bytes, err));
    enum kvt_status status = kvt_weights_check(&plan->model, &why);
    if (status == KVT_OK)
        status = kvt_pool_layout(&replica->layout, &plan->model, memory->kv, memory->page_tokens,
                                 engine->want.page_header ? 16 : 0, &why);
    if (status == KVT_OK) /* last: it takes long */
        status = kvt_weights_load(&replica->weights, &replica->device, &plan->model,
                                  config->run.seed, &why);
    if (status != KVT_OK)
        return kvt_err_at(err, status, config->roles[role].where, "%s: %s", kvt_role_names[role],
                          why.text);
    int64_t budget = kvt_pool_budget(&replica->device, memory, &plan->want);
    if (plan->want.pages > 0) /* the config says how many: then the device is the only limit */
        budget = INT64_MAX;
    replica->predicted_pages = memory->kv_pages;
    replica->predicted_weights = memory->weights_bytes;
    replica->measured_pages = kvt_pool_pages_until_refusal(&replica->device, &replica->layout,
                                                           plan->model.layers, budget);
    if (plan->want.pages > 0 && replica->measured_pages > plan->want.pages)
        replica->measured_pages = plan->want.pages;
    if (replica->measured_pages < 1)
        return kvt_err_at(err, KVT_ENOMEM, config->roles[role].where,
                          "%s: no page of KV fits beside the weights", kvt_role_names[role]);
    if (replica->measured_pages < replica->predicted_pages)
        config->roles[role].memory.pages = replica->measured_pages;
    return KVT_OK;
}

static enum kvt_status open_roles(struct kvt_runtime *engine, struct kvt_config *config,
                                  struct kvt_err *err)
{
    int32_t id = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (!config->roles[role].present)
            continue;
        KVT_TRY(kvt_role_memory_plan(config, (enum kvt_role)role, &engine->plans[role], NULL, err));
        for (int32_t i = 0; i < config->roles[role].replicas; i++, id++)
            KVT_TRY(open_replica(engine, config, (enum kvt_role)role, &engine->replicas[id], err));
    }
    const struct kvt_real_replica *prefill = NULL, *decode = NULL;
    for (int32_t i = 0; i < engine->replica_count; i++) {
        prefill = engine->replicas[i].role == KVT_ROLE_PREFILL ? &engine->replicas[i] : prefill;
        decode = engine->replicas[i].role == KVT_ROLE_DECODE ? &engine->replicas[i] : decode;
    }
    return prefill != NULL && decode != NULL ? check_handoff(config, prefill, decode, err) : KVT_OK;
}

enum kvt_status kvt_runtime_init(struct kvt_runtime *engine, struct kvt_config *config,
                                 const struct kvt_runtime_want *want, struct kvt_err *err)
{
    *engine = (struct kvt_runtime){.want = *want};
    kvt_assert(want->repeats >= 1 && want->repeats <= KVT_REPEATS);
    KVT_TRY(check_config(config, want, err));
    engine->replica_count = kvt_config_replicas(config);
    engine->plans = calloc(KVT_ROLE_COUNT, sizeof *engine->plans);
    engine->replicas = calloc((size_t)engine->replica_count, sizeof *engine->replicas);
    enum kvt_status status = KVT_OK;
    if (engine->plans == NULL || engine->replicas == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for %d engines", engine->replica_count);
    if (status == KVT_OK)
        status = open_roles(engine, config, err);
    if (status != KVT_OK)
        kvt_runtime_release(engine);
    return status;
}

/* ---- binding ------------------------------------------------------------------------------ */

static int32_t clip(int64_t value, int64_t limit)
{
    return (int32_t)(value < limit ? value : limit);
}

/* Rows of the largest step: a batch and the prompt tokens that may ride along. */
static int32_t rows_of(const struct kvt_replica_spec *spec, const struct kvt_trace *trace)
{
    int64_t prompt =
        spec->chunk_tokens > spec->batch_tokens ? spec->chunk_tokens : spec->batch_tokens;
    int64_t tokens = 0;
    for (int32_t r = 0; r < trace->count && tokens < prompt; r++)
        tokens += (int64_t)trace->input[r] + trace->output[r];
    if (spec->engine == KVT_ENGINE_SGLANG && prompt > spec->chunk_tokens)
        prompt = spec->chunk_tokens;
    prompt = prompt < tokens ? prompt : tokens;
    return clip(spec->max_running + (spec->role == KVT_ROLE_DECODE ? 0 : prompt), INT32_MAX / 4);
}

static int32_t longest_pages(const struct kvt_trace *trace, int32_t page_tokens)
{
    int64_t most = 0;
    for (int32_t r = 0; r < trace->count; r++) {
        int64_t tokens = (int64_t)trace->input[r] + trace->output[r] + 2;
        most = tokens > most ? tokens : most;
    }
    return clip((most + page_tokens - 1) / page_tokens, INT32_MAX / 4);
}

static enum kvt_status init_moves(struct kvt_page_moves *moves, struct kvt_device *device,
                                  int32_t pages, struct kvt_err *err)
{
    int64_t room = ((int64_t)pages + 3) / 4 * 4; /* every array starts on 16 bytes */
    KVT_TRY(kvt_mirror_init(&moves->mirror, device, room * 20, "moving pages", err));
    moves->stamp = (uint64_t *)(void *)moves->mirror.host;
    moves->source = (int32_t *)(void *)(moves->stamp + room);
    moves->target = moves->source + room;
    moves->tokens = moves->target + room;
    return KVT_OK;
}

static enum kvt_status bind_replica(struct kvt_real_replica *replica,
                                    const struct kvt_replica_spec *spec,
                                    const struct kvt_trace *trace, struct kvt_err *err)
{
    int32_t entries = 2 * spec->max_running + 2, rows = rows_of(spec, trace);
    int64_t table = (int64_t)entries * longest_pages(trace, spec->page_tokens);
    if (!spec->prefix_cache && table > spec->pages)
        table = spec->pages; /* nobody shares a page */
    int32_t table_max = clip(table, INT32_MAX / 4);
    KVT_TRY(kvt_pool_init(&replica->pool, &replica->device, &replica->layout,
                          replica->weights.model->layers, spec->pages, err));
    KVT_TRY(kvt_forward_init(&replica->forward, &replica->pool, &replica->weights, rows,
                             spec->max_running + entries, err));
    KVT_TRY(kvt_rows_init(&replica->rows, &replica->device, rows, table_max, err));
    KVT_TRY(kvt_tag_batch_init(&replica->check, &replica->device, entries, table_max, err));
    KVT_TRY(init_moves(&replica->moves, &replica->device, table_max, err));
    replica->planned = calloc(KVT_PLANS, sizeof *replica->planned);
    if (replica->planned == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for steps of %d requests", entries);
    for (int i = 0; i < KVT_PLANS; i++)
        KVT_TRY(kvt_planned_init(&replica->planned[i], entries, table_max, spec->pages, err));
    return KVT_OK;
}

static void unbind(struct kvt_runtime *engine)
{
    for (int32_t i = 0; i < engine->replica_count && engine->replicas != NULL; i++) {
        struct kvt_real_replica *replica = &engine->replicas[i];
        kvt_forward_release(&replica->forward);
        kvt_rows_release(&replica->rows);
        kvt_pool_release(&replica->pool);
        for (int j = 0; j < KVT_PLANS && replica->planned != NULL; j++)
            kvt_planned_release(&replica->planned[j]);
        free(replica->planned);
        kvt_tag_batch_release(&replica->check);
        kvt_mirror_release(&replica->moves.mirror);
        replica->planned = NULL;
        replica->first = replica->count = 0;
    }
    for (int32_t r = 0; engine->saved != NULL && r < engine->text_count; r++)
        free(engine->saved[r].bytes);
    free(engine->saved);
    free(engine->text);
    free(engine->text_begin);
    free(engine->failed);
    free(engine->found);
    engine->saved = NULL;
    engine->text = NULL;
    engine->text_begin = NULL;
    engine->failed = NULL;
    engine->found = NULL;
    engine->found_count = 0;
}

/* Equal blocks of equal hashes get equal tokens; without hashes every request has its own text. */
static void draw_prompt(const struct kvt_runtime *engine, int32_t r, uint64_t seed, uint32_t vocab)
{
    const struct kvt_trace *trace = engine->trace;
    int32_t *text = engine->text + engine->text_begin[r];
    int32_t hashes = kvt_trace_hash_count(trace, r);
    struct kvt_stream stream;
    for (int32_t i = 0; i < trace->input[r]; i++) {
        int32_t block = trace->block_tokens > 0 ? i / trace->block_tokens : INT32_MAX;
        bool hashed = block < hashes;
        if (i == 0 || (trace->block_tokens > 0 && i % trace->block_tokens == 0)) {
            uint64_t entity = hashed ? trace->hashes[trace->hash_begin[r] + block]
                                     : (uint64_t)r << 32 | (uint32_t)i;
            kvt_stream_init(&stream, seed ^ (hashed ? UINT64_C(1) << 63 : 0), KVT_PURPOSE_TEXT,
                            entity);
        }
        text[i] = (int32_t)kvt_stream_below(&stream, vocab);
    }
}

static enum kvt_status bind_text(struct kvt_runtime *engine, uint64_t seed, uint32_t vocab,
                                 struct kvt_err *err)
{
    const struct kvt_trace *trace = engine->trace;
    size_t count = (size_t)trace->count;
    engine->text_count = trace->count; /* the trace may be gone when this is released */
    engine->text_begin = calloc(count + 1, sizeof *engine->text_begin);
    engine->saved = calloc(count, sizeof *engine->saved);
    engine->failed = calloc(count, 1);
    engine->found = calloc(count, sizeof *engine->found);
    if (engine->text_begin == NULL || engine->saved == NULL || engine->failed == NULL ||
        engine->found == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %zu texts", count);
    for (size_t r = 0; r < count; r++)
        engine->text_begin[r + 1] =
            engine->text_begin[r] + trace->input[r] + (int64_t)trace->output[r] + 3;
    size_t tokens = (size_t)engine->text_begin[count];
    engine->text = malloc(tokens * sizeof *engine->text);
    if (engine->text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for texts of %zu tokens", tokens);
    memset(engine->text, 0xff, tokens * sizeof *engine->text);
    for (int32_t r = 0; r < trace->count; r++)
        draw_prompt(engine, r, seed, vocab);
    return KVT_OK;
}

enum kvt_status kvt_runtime_bind(struct kvt_runtime *engine, const struct kvt_core *core,
                                 const struct kvt_trace *trace, uint64_t seed, struct kvt_err *err)
{
    unbind(engine);
    engine->core = core;
    engine->trace = trace;
    engine->counts = (struct kvt_runtime_counts){0};
    engine->failure = (struct kvt_err){0};
    kvt_assert(core->replica_count == engine->replica_count);
    for (int32_t i = 0; i < engine->replica_count; i++) {
        struct kvt_real_replica *replica = &engine->replicas[i];
        const struct kvt_replica_spec *spec = &core->replicas[i].spec;
        kvt_assert(spec->role == replica->role && core->replicas[i].pages.named);
        struct kvt_err why = {0};
        enum kvt_status status = bind_replica(replica, spec, trace, &why);
        if (status != KVT_OK)
            return kvt_err_set(err, status, "%s: %s", kvt_role_names[replica->role], why.text);
    }
    uint32_t vocab = (uint32_t)engine->replicas[0].weights.model->vocab;
    return bind_text(engine, seed, vocab, err);
}

void kvt_runtime_release(struct kvt_runtime *engine)
{
    unbind(engine);
    for (int32_t i = 0; i < engine->replica_count && engine->replicas != NULL; i++) {
        if (engine->replicas[i].device.ops == NULL)
            continue;
        kvt_weights_release(&engine->replicas[i].weights);
        kvt_device_close(&engine->replicas[i].device);
    }
    free(engine->replicas);
    free(engine->plans);
    *engine = (struct kvt_runtime){0};
}
