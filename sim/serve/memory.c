#include "sim/serve/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/ticks.h"
#include "sim/base/units.h"

#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)

#define X(name, text) text,
const char *const kvt_ledger_names[KVT_LEDGER_COUNT] = {KVT_LEDGER(X)};
#undef X

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_mla(const struct kvt_model *model)
{
    for (int32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].attention.kind == KVT_ATTENTION_MLA)
            return true;
    return false;
}

static bool is_sparse(const struct kvt_model *model)
{
    for (int32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].attention.index_heads > 0)
            return true;
    return false;
}

/* ---- what an engine does when nobody says otherwise ---- */

struct defaults {
    int64_t batch_tokens; /* new tokens per step */
    int64_t graph_batch;  /* largest batch with a CUDA graph */
    int64_t seqs;         /* vllm: requests per step */
};

/* server_args.py _handle_gpu_memory_settings: by device memory. */
static struct defaults sglang_defaults(const struct kvt_memory_want *want)
{
    static const struct {
        int32_t below_gib;
        int64_t chunk, batch_small_tp, batch_large_tp;
    } rows[] = {
        {20, 2048, 8, 8},     {35, 2048, 24, 80},    {60, 4096, 32, 160},
        {90, 8192, 256, 512}, {160, 8192, 256, 512}, {INT32_MAX, 16384, 512, 512},
    };
    size_t row = 0;
    while (want->gpu->memory_visible >= (double)rows[row].below_gib * (double)GIB)
        row++;
    bool large = want->layout.tp >= 4;
    return (struct defaults){.batch_tokens = rows[row].chunk,
                             .graph_batch =
                                 large ? rows[row].batch_large_tp : rows[row].batch_small_tp};
}

static bool is_a100(const char *name)
{
    return (name[0] == 'a' || name[0] == 'A') && strncmp(name + 1, "100", 3) == 0;
}

/* vllm/engine/arg_utils.py. Before 0.8 a prompt was one step, so that the step is as long as the
 * context; from 0.8 on prompts are chunked. */
static struct defaults vllm_defaults(const struct kvt_memory_want *want, int64_t max_model_len)
{
    bool big = want->gpu->memory_usable >= 70.0 * (double)GIB && !is_a100(want->gpu->name);
    if (want->version > 0 && want->version < 8)
        return (struct defaults){.batch_tokens =
                                     max_model_len > 32768 ? 2048 : max64(max_model_len, 2048),
                                 .graph_batch = 256,
                                 .seqs = 256};
    return (struct defaults){
        .batch_tokens = big ? 8192 : 2048, .graph_batch = 512, .seqs = big ? 1024 : 256};
}

static int64_t default_page(const struct kvt_memory_want *want)
{
    if (want->engine == KVT_ENGINE_VLLM)
        return is_mla(want->model) ? 64 : 16;
    return is_sparse(want->model) ? 64 : 1;
}

double kvt_sglang_default_fraction(const struct kvt_memory_want *want)
{
    struct defaults defaults = sglang_defaults(want);
    double memory = want->gpu->memory_visible / (double)MIB;
    double chunk = (double)(want->batch_tokens > 0 ? want->batch_tokens : defaults.batch_tokens);
    double batch = (double)defaults.graph_batch;
    double running = (double)(want->max_running > 0 ? want->max_running : defaults.graph_batch) *
                     (double)max64(want->draft_tokens, 1);
    double tokens = fmax(want->role == KVT_ROLE_DECODE ? running : chunk, 2048);
    double reserved = 512 + 1.5 * tokens + want->layout.tp * want->layout.pp / 8.0 * 1024;
    if (want->role != KVT_ROLE_PREFILL)
        reserved += 2 * batch;
    if (want->role != KVT_ROLE_DECODE && is_mla(want->model))
        reserved += 1536; /* graphs of prefill */
    if (want->layout.dp > 1)
        reserved += (batch > 300 ? 4.5 : 3) * batch * want->layout.dp;
    if (memory > 60 * 1024)
        reserved = fmax(reserved, 10 * 1024);
    double fraction = fmax((memory - reserved) / memory, 0.1);
    fraction = floor(fraction * 1000 + 0.5) / 1000;
    return want->model->vision_params > 0 ? fraction * 0.95 : fraction;
}

/* ---- the peak of one step ---- */

/* Values per token that live at once in the widest layer: the residual stream, a norm's output and
 * a layer's output, and the buffers inside its MLP or its attention. */
static int64_t layer_width(const struct kvt_model *model, const struct kvt_layer_group *group,
                           const struct kvt_layout *layout)
{
    const struct kvt_mlp *mlp = &group->mlp;
    const struct kvt_attention *a = &group->attention;
    int32_t ranks = kvt_layout_attention_tp(layout);
    int64_t dense = kvt_div_ceil(3 * (int64_t)mlp->inter, layout->tp);
    int64_t attention =
        kvt_div_ceil((int64_t)a->heads * (2 * (int64_t)a->head_dim + a->v_dim), ranks);
    int64_t experts = 0;
    if (mlp->experts > 0) {
        int32_t slices = layout->tp > layout->ep ? layout->tp / layout->ep : 1;
        int64_t inter = kvt_div_ceil(mlp->expert_inter, slices);
        int64_t pairs = layout->ep > 1 ? max64(mlp->topk / layout->ep, 1) : mlp->topk;
        experts = pairs * (max64(2 * inter, model->hidden) + inter);
    }
    return 3 * (int64_t)model->hidden + max64(max64(dense, attention), experts);
}

/* Bytes per logit of a sampling step. A sort of all logits keeps bf16 and fp32 logits, their sorted
 * copy, int64 indices, the sort's own double buffers, probabilities and their sums: 38.4 bytes, as
 * vLLM 0.11 shows on two models of different width (5.56 GiB for 1024 x 151,936; 7.38 GiB for
 * 1024 x 201,088). Without the sort (vLLM from 0.16 on, SGLang): bf16 and fp32. */
static double sampler_bytes(const struct kvt_memory_want *want)
{
    bool sorts = want->engine == KVT_ENGINE_VLLM && want->version < 16;
    return sorts ? 38.4 : 6.0;
}

static int64_t activation_peak(const struct kvt_memory_want *want, int64_t tokens, int64_t seqs)
{
    int64_t width = 0;
    const struct kvt_model *model = want->model;
    for (int32_t g = 0; g < model->group_count; g++)
        width = max64(width, layer_width(model, &model->groups[g], &want->layout));
    int64_t forward = 2 * tokens * width;
    int64_t sampler =
        (int64_t)((double)seqs * model->vocab * sampler_bytes(want)) + 2 * tokens * model->hidden;
    return max64(forward, sampler);
}

/* ---- the plan ---- */

static int64_t peers_bytes(const struct kvt_memory_want *want)
{
    return kvt_layout_gpus(&want->layout) > 1 ? (int64_t)want->gpu->memory_peers : 0;
}

/* torch's rest: cuBLAS workspaces, the allocator's slack (0.13 GiB in vLLM's own logs). */
#define TORCH_REST_BYTES (133 * MIB)

/* What vLLM counts as "non-torch": before 0.10 all that is not torch's, the context included; since
 * then what grew after the context was made. */
static int64_t non_torch_bytes(const struct kvt_memory_want *want)
{
    bool old = want->version > 0 && want->version < 10;
    return TORCH_REST_BYTES * !old + (int64_t)want->gpu->memory_context * old + peers_bytes(want);
}

struct plan {
    const struct kvt_memory_want *want;
    struct kvt_memory *memory;
    int64_t budget;      /* bytes for pages */
    int64_t page_bytes;  /* charged, per GPU */
    int64_t stored_page; /* stored, per GPU */
    int64_t usable;
};

/* Bytes for pages under each engine's rule, before rounding. */
static int64_t pool_budget(const struct plan *plan)
{
    const struct kvt_memory_want *want = plan->want;
    const struct kvt_memory *m = plan->memory;
    if (want->of_free)
        return (int64_t)((double)(m->before_bytes - m->weights_bytes - TORCH_REST_BYTES) *
                         m->fraction);
    if (want->engine == KVT_ENGINE_SGLANG)
        return (int64_t)((double)m->before_bytes * m->fraction) - m->weights_bytes;
    int64_t requested = (int64_t)ceil((double)plan->usable * m->fraction);
    return requested - m->weights_bytes - m->ledger[KVT_LEDGER_ACTIVATION] - non_torch_bytes(want);
}

static int64_t page_tags(const struct plan *plan)
{
    return plan->want->guard_page_bytes + plan->want->guard_token_bytes * plan->memory->page_tokens;
}

/* Tags beside the pool: per page, and per request slot with its expected map. */
static int64_t tag_bytes(const struct plan *plan, int64_t pages)
{
    const struct kvt_memory_want *want = plan->want;
    const struct kvt_memory *m = plan->memory;
    int64_t map = kvt_div_ceil(m->max_model_len, m->page_tokens) * want->guard_entry_bytes;
    return pages * page_tags(plan) + (m->max_running + 1) * (map + want->guard_request_bytes) *
                                         (want->guard_entry_bytes + want->guard_request_bytes > 0);
}

static int64_t default_running(const struct plan *plan, int64_t tokens, int64_t seqs)
{
    const struct kvt_memory_want *want = plan->want;
    if (want->max_running > 0)
        return want->max_running;
    if (want->engine == KVT_ENGINE_VLLM)
        return seqs;
    double slots = (double)tokens / (double)plan->memory->max_model_len * 512;
    int64_t running = slots < 2048 ? 2048 : slots > 4096 ? 4096 : (int64_t)slots;
    return max64(min64(running, tokens / 2), 1);
}

static void fill_ledger(const struct plan *plan)
{
    const struct kvt_memory_want *want = plan->want;
    struct kvt_memory *m = plan->memory;
    int64_t *ledger = m->ledger;
    ledger[KVT_LEDGER_DRIVER] = m->visible_bytes - plan->usable;
    ledger[KVT_LEDGER_CONTEXT] = (int64_t)want->gpu->memory_context + peers_bytes(want);
    ledger[KVT_LEDGER_WEIGHTS] = m->weights_bytes;
    /* SGLang's request table: one int32 per token of context and request slot. */
    ledger[KVT_LEDGER_OTHER] = TORCH_REST_BYTES;
    if (want->engine == KVT_ENGINE_SGLANG)
        ledger[KVT_LEDGER_OTHER] += 4 * (m->max_running + 1) * (m->max_model_len + 4);
    ledger[KVT_LEDGER_KV] = m->kv_pool_bytes;
    ledger[KVT_LEDGER_PADDING] = m->kv_pages > 0 ? plan->stored_page : 0;
    ledger[KVT_LEDGER_TAGS] = tag_bytes(plan, m->kv_pages);
    ledger[KVT_LEDGER_RESERVE] = (int64_t)want->reserve_bytes;
    int64_t used = 0;
    for (int i = 0; i < KVT_LEDGER_FREE; i++)
        used += ledger[i];
    ledger[KVT_LEDGER_FREE] = m->visible_bytes - used;
}

static void resolve_kv(const struct kvt_memory_want *want, struct kvt_memory *m)
{
    m->kv = want->kv;
    if (want->kv == KVT_KV_FP8 && is_mla(want->model))
        m->kv = is_sparse(want->model) ? KVT_KV_FP8_SCALED : KVT_KV_FP8_PLAIN;
}

/* Everything but the pool. */
static enum kvt_status plan_fixed(struct plan *plan, struct kvt_err *err)
{
    const struct kvt_memory_want *want = plan->want;
    struct kvt_memory *m = plan->memory;
    struct kvt_model model = *want->model;
    *m = (struct kvt_memory){.gpus_per_replica = kvt_layout_gpus(&want->layout)};
    KVT_TRY(kvt_layout_check(&want->layout, &model, want->where, err));
    if (want->weights_set)
        kvt_model_quantise(&model, want->weights, kvt_model_scope(&model, want->weights));
    kvt_weights_count(&model, &want->layout, &m->weights);
    m->checkpoint_bytes = m->weights.checkpoint_total;
    m->weights_bytes = m->weights.rank_total;
    if (want->draft_tokens > 0)
        m->weights_bytes += m->weights.rank_bytes[KVT_WEIGHT_GROUP_MTP];
    struct kvt_kv_want kv = {.engine = want->engine,
                             .dtype = want->kv,
                             .layout = want->layout,
                             .draft_layers = want->draft_tokens > 0,
                             .charge_scaled =
                                 want->engine == KVT_ENGINE_SGLANG && want->version > 0};
    struct kvt_err why = {0};
    if (kvt_kv_slot(&model, &kv, &m->slot, &why) != KVT_OK)
        return kvt_err_at(err, why.status, want->where, "%s", why.text);
    resolve_kv(want, m);

    m->visible_bytes = (int64_t)want->gpu->memory_visible;
    plan->usable = (int64_t)want->gpu->memory_usable;
    m->before_bytes = plan->usable - (int64_t)want->gpu->memory_context - peers_bytes(want);
    m->max_model_len = want->max_model_len > 0 ? want->max_model_len : model.context_max;
    struct defaults defaults = want->engine == KVT_ENGINE_VLLM
                                   ? vllm_defaults(want, m->max_model_len)
                                   : sglang_defaults(want);
    m->batch_tokens = want->batch_tokens > 0 ? want->batch_tokens : defaults.batch_tokens;
    int64_t seqs = want->max_running > 0 ? want->max_running
                   : defaults.seqs > 0   ? defaults.seqs
                                         : defaults.graph_batch;
    m->ledger[KVT_LEDGER_ACTIVATION] = activation_peak(
        want,
        want->role == KVT_ROLE_DECODE && want->engine == KVT_ENGINE_SGLANG ? seqs : m->batch_tokens,
        seqs);
    if (!want->eager && want->role != KVT_ROLE_PREFILL)
        m->ledger[KVT_LEDGER_GRAPHS] = 2 * defaults.graph_batch * MIB;
    m->fraction = want->fraction;
    if (m->fraction < 0)
        m->fraction = want->engine == KVT_ENGINE_VLLM ? 0.9 : kvt_sglang_default_fraction(want);
    int64_t page = want->page_tokens > 0 ? want->page_tokens : default_page(want);
    m->page_tokens = page * want->layout.dcp;
    plan->page_bytes = page * m->slot.charged_bytes;
    plan->stored_page = page * m->slot.stored_bytes;
    m->kv_bytes_per_token = (double)m->slot.stored_bytes / want->layout.dcp;
    m->charged_bytes_per_token = (double)m->slot.charged_bytes / want->layout.dcp;
    m->max_running = seqs;
    return KVT_OK;
}

/* The pool; false when not even one page fits. */
static bool plan_pool(struct plan *plan)
{
    const struct kvt_memory_want *want = plan->want;
    struct kvt_memory *m = plan->memory;
    plan->budget = pool_budget(plan) - (int64_t)want->reserve_bytes;
    m->budget_bytes = plan->budget;
    int64_t tokens = plan->budget > 0 ? plan->budget / m->slot.charged_bytes : 0;
    m->max_running = default_running(plan, tokens, m->max_running);
    int64_t room = plan->budget - tag_bytes(plan, 0);
    m->kv_pages = room > 0 ? room / (plan->page_bytes + page_tags(plan)) : 0;
    if (want->pages > 0)
        m->kv_pages = want->pages;
    else if (room > 0)
        m->ledger[KVT_LEDGER_ROUNDING] = room - m->kv_pages * (plan->page_bytes + page_tags(plan));
    m->kv_tokens = m->kv_pages * m->page_tokens;
    m->replica_kv_tokens = m->kv_tokens * want->layout.dp;
    m->kv_pool_bytes = m->kv_pages * plan->stored_page;
    if (m->kv_pages == 0)
        m->ledger[KVT_LEDGER_ROUNDING] = 0;
    fill_ledger(plan);
    return m->kv_pages > 0;
}

static bool fits(const struct kvt_memory_want *want)
{
    struct kvt_memory memory;
    struct plan plan = {.want = want, .memory = &memory};
    return plan_fixed(&plan, NULL) == KVT_OK && plan_pool(&plan);
}

/* Append what would fit to text. */
static void suggest(const struct plan *plan, char *text, size_t bytes)
{
    struct kvt_memory_want other = *plan->want;
    size_t used = 0;
    const char *sep = "";
    text[0] = '\0';
    for (int percent = 50; percent <= 97; percent++) {
        other.fraction = percent / 100.0;
        if (other.fraction <= plan->memory->fraction || !fits(&other))
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%smemory.fraction %.2f", sep,
                                 other.fraction);
        sep = ", or ";
        break;
    }
    other = *plan->want;
    for (int32_t tp = other.layout.tp * 2; tp <= 64 && used < bytes; tp *= 2) {
        other.layout.tp = tp;
        if (!fits(&other))
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%sparallel.tp %d", sep, tp);
        sep = ", or ";
        break;
    }
    other = *plan->want;
    other.weights_set = true;
    for (int i = 0; i < 2 && used < bytes; i++) {
        other.weights = i == 0 ? KVT_WEIGHTS_FP8_BLOCK : KVT_WEIGHTS_INT4_G32;
        enum kvt_weight_dtype now =
            plan->want->weights_set ? plan->want->weights : plan->want->model->weights;
        if (kvt_weight_bits(other.weights) >= kvt_weight_bits(now) || !fits(&other))
            continue;
        snprintf(text + used, bytes - used, "%sweights %s", sep,
                 kvt_weight_dtype_names[other.weights]);
        break;
    }
}

enum kvt_status kvt_memory_plan(const struct kvt_memory_want *want, struct kvt_memory *memory,
                                struct kvt_err *err)
{
    struct plan plan = {.want = want, .memory = memory};
    KVT_TRY(plan_fixed(&plan, err));
    if (memory->fraction <= 0 || memory->fraction > 1)
        return kvt_err_at(err, KVT_ECONFIG, want->where,
                          "memory.fraction: want more than 0 and at most 1, got %g",
                          memory->fraction);
    if (plan_pool(&plan)) {
        kvt_assert(kvt_memory_is_balanced(memory));
        return KVT_OK;
    }
    int64_t wanted = plan.page_bytes + tag_bytes(&plan, 1);
    char ideas[256];
    suggest(&plan, ideas, sizeof ideas);
    return kvt_err_at(err, KVT_ECONFIG, want->where,
                      "%s does not fit on %s: the weights of one GPU take %.2f GiB, and one page "
                      "of KV lacks %.2f GiB at memory.fraction %.3f; %s%s",
                      want->model->name, want->gpu->name,
                      (double)memory->weights_bytes / (double)GIB,
                      (double)(wanted - plan.budget) / (double)GIB, memory->fraction,
                      ideas[0] != '\0' ? "what would fit: " : "nothing near would fit", ideas);
}

bool kvt_memory_is_balanced(const struct kvt_memory *memory)
{
    int64_t sum = 0;
    for (int i = 0; i < KVT_LEDGER_COUNT; i++) {
        if (i != KVT_LEDGER_FREE && memory->ledger[i] < 0)
            return false;
        sum += memory->ledger[i];
    }
    return sum == memory->visible_bytes;
}

int64_t kvt_memory_requests(const struct kvt_memory *memory, int64_t context)
{
    int64_t pages = kvt_div_ceil(max64(context, 1), memory->page_tokens);
    return memory->kv_pages / pages;
}
