#include "runtime/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

#define EPSILON   1e-6f
#define ROPE_BASE 10000.0

#define X(name, text, factor) KVT_FACTOR_##factor,
const enum kvt_factor kvt_part_factors[KVT_PART_COUNT] = {KVT_PARTS(X)};
#undef X
#define X(name, text) text,
const char *const kvt_factor_names[KVT_FACTOR_COUNT] = {KVT_FACTORS(X)};
#undef X

/* ---- rows --------------------------------------------------------------------------------- */

enum kvt_status kvt_rows_init(struct kvt_rows *rows, struct kvt_device *device, int32_t rows_max,
                              int32_t table_max, struct kvt_err *err)
{
    int64_t n = ((int64_t)rows_max + 3) / 4 * 4; /* every array starts on 16 bytes */
    *rows = (struct kvt_rows){.rows_max = rows_max, .table_max = table_max};
    KVT_TRY(kvt_mirror_init(&rows->mirror, device, n * (2 * 8 + 6 * 4) + (int64_t)table_max * 4,
                            "the rows of a step", err));
    rows->slot = (int64_t *)(void *)rows->mirror.host;
    rows->stamp = (uint64_t *)(void *)(rows->slot + n);
    rows->token = (int32_t *)(void *)(rows->stamp + n);
    rows->position = rows->token + n;
    rows->context = rows->position + n;
    rows->row_pages = rows->context + n;
    rows->output_row = rows->row_pages + n;
    rows->next = rows->output_row + n;
    rows->page_table = rows->next + n;
    return KVT_OK;
}

void kvt_rows_release(struct kvt_rows *rows)
{
    kvt_mirror_release(&rows->mirror);
    *rows = (struct kvt_rows){0};
}

/* Send what kernels read of the rows; *there has their places on the device. */
static void send_rows(struct kvt_rows *rows, struct kvt_rows *there)
{
    struct kvt_mirror *mirror = &rows->mirror;
    size_t n = (size_t)rows->rows;
    *there = *rows;
    struct {
        void *array, *place;
        size_t bytes;
    } sent[] = {{rows->token, &there->token, n * 4},
                {rows->position, &there->position, n * 4},
                {rows->context, &there->context, n * 4},
                {rows->row_pages, &there->row_pages, n * 4},
                {rows->slot, &there->slot, n * 8},
                {rows->stamp, &there->stamp, n * 8},
                {rows->page_table, &there->page_table, (size_t)rows->table_size * 4},
                {rows->output_row, &there->output_row, (size_t)rows->outputs * 4}};
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        void *on_device = kvt_mirror_there(mirror, sent[i].array);
        kvt_mirror_send(mirror, sent[i].array, sent[i].bytes);
        memcpy(sent[i].place, &on_device, sizeof on_device);
    }
}

/* ---- memory ------------------------------------------------------------------------------- */

static enum kvt_status take(struct kvt_forward *f, void *piece, int64_t bytes, struct kvt_err *err)
{
    kvt_assert(f->piece_count < (int32_t)(sizeof f->sizes / sizeof f->sizes[0]));
    KVT_TRY(kvt_device_take(f->device, bytes, "activations", piece, err));
    f->sizes[f->piece_count] = bytes;
    f->pieces[f->piece_count++] = piece;
    return KVT_OK;
}

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct widths { /* elements of a row */
    int64_t wide, narrow, q, key, value, mixed, head, topk, expert, experts, low;
};

static struct widths widths_of(const struct kvt_model *model)
{
    struct widths w = {.narrow = model->hidden};
    for (int32_t g = 0; g < model->group_count; g++) {
        const struct kvt_attention *a = &model->groups[g].attention;
        const struct kvt_mlp *mlp = &model->groups[g].mlp;
        bool mla = a->kind == KVT_ATTENTION_MLA;
        int64_t q = (int64_t)a->heads * (mla ? a->nope + a->rope : a->head_dim);
        int64_t kv = mla ? KVT_MLA_DIM : (int64_t)a->kv_heads * a->head_dim;
        w.wide = largest(w.wide, largest(q, a->q_lora) + 2 * kv);
        w.wide = largest(w.wide, largest(2 * (int64_t)mlp->inter, 2 * (int64_t)mlp->shared_inter));
        w.wide = largest(w.wide, mlp->experts);
        w.narrow = largest(w.narrow, largest(mlp->inter, mlp->shared_inter));
        w.narrow = largest(w.narrow, largest(q, largest(a->q_lora, (int64_t)a->heads * a->v_dim)));
        w.q = mla ? (int64_t)a->heads * KVT_MLA_DIM : q;
        w.key = kv;
        w.value = mla ? 0 : kv;
        w.mixed = (int64_t)a->heads * (mla ? KVT_MLA_LATENT : a->head_dim);
        w.head = mla ? largest(KVT_MLA_LATENT, largest(a->nope, a->v_dim)) : 0;
        w.low = mla ? largest(KVT_MLA_LATENT, a->q_lora) : 0;
        w.topk = largest(w.topk, mlp->experts > 0 ? mlp->topk : 0);
        w.expert = largest(w.expert, mlp->expert_inter);
        w.experts = largest(w.experts, mlp->experts);
    }
    return w;
}

static enum kvt_status take_routing(struct kvt_forward *f, const struct widths *w,
                                    struct kvt_err *err)
{
    if (w->topk == 0)
        return KVT_OK;
    int64_t choices = f->topk_rows;
    size_t logits = f->device->ops->host_memory ? 0 : (size_t)f->rows_max * (size_t)w->experts;
    f->routing = calloc(1, sizeof *f->routing + (size_t)choices * 8 + logits * 2);
    if (f->routing == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to route %lld tokens", (long long)choices);
    struct kvt_routing *routing = f->routing;
    routing->choice = (int32_t *)(void *)(routing + 1);
    routing->weight = (float *)(void *)(routing->choice + choices);
    routing->logits = logits > 0 ? (kvt_bf16 *)(void *)(routing->weight + choices) : NULL;
    KVT_TRY(kvt_mirror_init(&routing->mirror, f->device, choices * 12 + (w->experts + 1) * 4,
                            "routing", err));
    routing->row = (int32_t *)(void *)routing->mirror.host;
    routing->place = routing->row + choices;
    routing->share = (float *)(void *)(routing->place + choices);
    routing->row_begin = (int32_t *)(void *)(routing->share + choices);
    int64_t rows = f->topk_rows, d = f->w->model->hidden;
    KVT_TRY(take(f, &f->routed, rows * largest(d, w->expert) * 2, err));
    KVT_TRY(take(f, &f->routed_wide, rows * 2 * w->expert * 2, err));
    return take(f, &f->routed_out, rows * d * 2, err);
}

static enum kvt_status take_attention(struct kvt_forward *f, int64_t rows, const struct widths *w,
                                      struct kvt_err *err)
{
    const struct kvt_page_layout *layout = &f->pool->layout;
    int32_t heads = f->w->model->groups[0].attention.heads;
    int32_t units = kvt_attention_units(layout, heads);
    KVT_TRY(take(f, &f->q, rows * w->q * 2, err));
    KVT_TRY(take(f, &f->key, rows * w->key * 2, err));
    KVT_TRY(take(f, &f->value, rows * w->value * 2, err));
    KVT_TRY(take(f, &f->mixed, rows * w->mixed * 2, err));
    KVT_TRY(take(f, &f->head_in, rows * w->head * 2, err));
    KVT_TRY(take(f, &f->head_out, rows * w->head * 2, err));
    KVT_TRY(take(f, &f->zero, rows * w->low * 4, err));
    int32_t workers = kvt_device_attention_workers(f->device, layout, heads);
    KVT_TRY(kvt_mirror_init(&f->split_memory, f->device,
                            (int64_t)kvt_split_bytes((int32_t)rows, units, workers),
                            "plans of attention", err));
    kvt_split_place(&f->split, f->split_memory.host, (int32_t)rows, units, workers);
    return take(f, &f->workspace, (int64_t)kvt_attention_workspace_bytes(layout, heads, &f->split),
                err);
}

static enum kvt_status take_all(struct kvt_forward *f, struct kvt_err *err)
{
    const struct kvt_model *model = f->w->model;
    struct widths w = widths_of(model);
    int64_t rows = f->rows_max, d = model->hidden;
    f->topk_rows = (int32_t)(rows * w.topk);
    KVT_TRY(take(f, &f->x, rows * d * 4, err));
    KVT_TRY(take(f, &f->y, rows * d * 2, err));
    KVT_TRY(take(f, &f->h, rows * d * 2, err));
    KVT_TRY(take(f, &f->wide, rows * w.wide * 2, err));
    KVT_TRY(take(f, &f->narrow, rows * w.narrow * 2, err));
    KVT_TRY(take(f, &f->logits, (int64_t)f->outputs_max * model->vocab * 2, err));
    KVT_TRY(take(f, &f->next, (int64_t)f->outputs_max * 4, err));
    KVT_TRY(take(f, &f->chosen, (int64_t)f->outputs_max * d * 4, err));
    KVT_TRY(take(f, &f->poisoned_there, 4, err));
    KVT_TRY(take_attention(f, rows, &w, err));
    return take_routing(f, &w, err);
}

enum kvt_status kvt_forward_init(struct kvt_forward *forward, struct kvt_kv_pool *pool,
                                 const struct kvt_model_weights *weights, int32_t rows_max,
                                 int32_t outputs_max, struct kvt_err *err)
{
    const struct kvt_attention *a = &weights->model->groups[0].attention;
    bool mla = a->kind == KVT_ATTENTION_MLA;
    *forward = (struct kvt_forward){
        .device = pool->device,
        .w = weights,
        .pool = pool,
        .rows_max = rows_max,
        .outputs_max = outputs_max,
        .plain_scale = 1.0f,
        .scale = 1.0f / sqrtf((float)(mla ? a->nope + a->rope : a->head_dim)),
    };
    enum kvt_status status = take_all(forward, err);
    if (status != KVT_OK)
        kvt_forward_release(forward);
    return status;
}

void kvt_forward_release(struct kvt_forward *forward)
{
    for (int32_t i = 0; i < forward->piece_count; i++)
        kvt_device_give(forward->device, *forward->pieces[i], forward->sizes[i]);
    kvt_mirror_release(&forward->split_memory);
    if (forward->routing != NULL)
        kvt_mirror_release(&forward->routing->mirror);
    free(forward->routing);
    *forward = (struct kvt_forward){0};
}

/* ---- a step ------------------------------------------------------------------------------- */

void kvt_forward_wait(struct kvt_forward *forward)
{
    struct kvt_err err = {0};
    if (forward->device->ops->wait(forward->device, &err) != KVT_OK &&
        forward->failure.status == KVT_OK)
        forward->failure = err;
}

/* Wait, and charge the time between marks to what ended at the later one. */
static void read_marks(struct kvt_forward *f)
{
    const struct kvt_device_ops *ops = f->device->ops;
    kvt_forward_wait(f);
    for (int32_t i = 1; i < f->marks && f->failure.status == KVT_OK; i++)
        f->spent[f->mark_part[i]] += ops->between(f->device, i - 1, i);
    f->marks = 0;
    ops->mark(f->device, f->marks++);
}

void kvt_forward_spend(struct kvt_forward *forward, enum kvt_kernel_part part)
{
    if (!forward->device->ops->host_memory) {
        if (forward->marks == KVT_DEVICE_MARKS)
            read_marks(forward);
        forward->mark_part[forward->marks] = (uint8_t)part;
        forward->device->ops->mark(forward->device, forward->marks++);
        return;
    }
    double now = kvt_device_now();
    forward->spent[part] += now - forward->begun;
    forward->begun = now;
}

/* A norm of what is not the residual: x / rms(x) * weight. */
static void norm(struct kvt_forward *f, const kvt_bf16 *in, const kvt_bf16 *weight, int32_t rows,
                 int32_t dim, kvt_bf16 *out)
{
    f->device->ops->zero(f->device, f->zero, (size_t)rows * (size_t)dim * sizeof *f->zero);
    f->device->ops->add_norm(f->device, f->zero, in, weight, EPSILON, rows, dim, out);
}

static void columns(struct kvt_device *device, kvt_bf16 *to, int64_t to_stride,
                    const kvt_bf16 *from, int64_t from_stride, int64_t width, int64_t rows)
{
    device->ops->copy_rows(device, to, (size_t)to_stride * 2, from, (size_t)from_stride * 2,
                           (size_t)width * 2, (size_t)rows);
}

static void rotate(struct kvt_forward *f, const struct kvt_rows *rows, kvt_bf16 *x, int32_t heads,
                   int32_t dim, int64_t head_stride)
{
    struct kvt_rope rope = {.x = x,
                            .position = rows->position,
                            .rows = rows->rows,
                            .heads = heads,
                            .dim = dim,
                            .row_stride = heads * head_stride,
                            .head_stride = head_stride,
                            .base = ROPE_BASE};
    f->device->ops->rope(f->device, &rope);
}

/* New K and V into their pages, then every row over its pages. */
static void attend(struct kvt_forward *f, const struct kvt_rows *rows, int32_t l)
{
    struct kvt_kv_pool *pool = f->pool;
    struct kvt_kv_append append = {.layout = &pool->layout,
                                   .pool = pool->layer[l],
                                   .pool_pages = pool->pages + 1,
                                   .tokens = rows->rows,
                                   .slot = rows->slot,
                                   .key = f->key,
                                   .value = f->value,
                                   .plain_scale = f->plain_scale,
                                   .stamp = rows->stamp,
                                   .tags = pool->tags,
                                   .poisoned = f->poisoned_there};
    f->device->ops->append(f->device, &append);
    kvt_forward_spend(f, KVT_PART_SMALL);
    struct kvt_attention_call call = {.layout = &pool->layout,
                                      .pool = pool->layer[l],
                                      .pool_pages = pool->pages + 1,
                                      .rows = rows->rows,
                                      .heads = f->w->model->groups[0].attention.heads,
                                      .context = rows->context,
                                      .row_pages = rows->row_pages,
                                      .page_table = rows->page_table,
                                      .page_table_size = rows->table_size,
                                      .scale = f->scale,
                                      .plain_scale = f->plain_scale,
                                      .q = f->q,
                                      .out = f->mixed,
                                      .split = &f->split_there,
                                      .workspace = f->workspace};
    f->device->ops->attention(f->device, &call);
    kvt_forward_spend(f, rows->prompt_rows > 0 ? KVT_PART_PREFILL : KVT_PART_DECODE);
}

static void apply(struct kvt_forward *f, enum kvt_kernel_part part, const struct kvt_linear *linear,
                  int32_t m, const kvt_bf16 *in, kvt_bf16 *out)
{
    kvt_forward_spend(f, KVT_PART_SMALL);
    kvt_linear_apply(f->device, linear, 0, m, in, out);
    kvt_forward_spend(f, part);
}

static void gqa(struct kvt_forward *f, const struct kvt_rows *rows, int32_t l)
{
    const struct kvt_layer_weights *layer = &f->w->layers[l];
    const struct kvt_attention *a = &layer->group->attention;
    struct kvt_device *device = f->device;
    int32_t m = rows->rows;
    int64_t q = (int64_t)a->heads * a->head_dim, kv = (int64_t)a->kv_heads * a->head_dim;
    int64_t all = q + 2 * kv;
    apply(f, KVT_PART_QKV, &layer->qkv, m, f->h, f->wide);
    columns(device, f->q, q, f->wide, all, q, m);
    columns(device, f->key, kv, f->wide + q, all, kv, m);
    columns(device, f->value, kv, f->wide + q + kv, all, kv, m);
    rotate(f, rows, f->q, a->heads, a->head_dim, a->head_dim);
    rotate(f, rows, f->key, a->kv_heads, a->head_dim, a->head_dim);
    attend(f, rows, l);
    apply(f, KVT_PART_O, &layer->o, m, f->mixed, f->y);
}

/* q of all heads into the latent space, then its RoPE part behind it. */
static void absorb_q(struct kvt_forward *f, const struct kvt_rows *rows,
                     const struct kvt_layer_weights *layer, kvt_bf16 *q, int64_t stride)
{
    const struct kvt_attention *a = &layer->group->attention;
    struct kvt_device *device = f->device;
    int32_t m = rows->rows;
    int64_t width = a->nope + a->rope, wide = (int64_t)a->heads * KVT_MLA_DIM;
    for (int32_t h = 0; h < a->heads; h++) {
        columns(device, f->head_in, a->nope, q + h * width, stride, a->nope, m);
        kvt_linear_apply(device, &layer->uk, h, m, f->head_in, f->head_out);
        columns(device, f->q + (int64_t)h * KVT_MLA_DIM, wide, f->head_out, KVT_MLA_LATENT,
                KVT_MLA_LATENT, m);
        columns(device, f->q + (int64_t)h * KVT_MLA_DIM + KVT_MLA_LATENT, wide,
                q + h * width + a->nope, stride, a->rope, m);
    }
    kvt_forward_spend(f, KVT_PART_BMM);
    rotate(f, rows, f->q + KVT_MLA_LATENT, a->heads, a->rope, KVT_MLA_DIM);
}

/* The latent of each token, normed, with its rotated RoPE part: what a page keeps. */
static void make_latent(struct kvt_forward *f, const struct kvt_rows *rows,
                        const struct kvt_layer_weights *layer, const kvt_bf16 *latent,
                        int64_t stride)
{
    struct kvt_device *device = f->device;
    int32_t m = rows->rows;
    columns(device, f->head_in, KVT_MLA_LATENT, latent, stride, KVT_MLA_LATENT, m);
    norm(f, f->head_in, layer->latent_norm, m, KVT_MLA_LATENT, f->head_out);
    columns(device, f->key, KVT_MLA_DIM, f->head_out, KVT_MLA_LATENT, KVT_MLA_LATENT, m);
    columns(device, f->key + KVT_MLA_LATENT, KVT_MLA_DIM, latent + KVT_MLA_LATENT, stride,
            KVT_MLA_ROPE, m);
    struct kvt_rope rope = {.x = f->key + KVT_MLA_LATENT,
                            .position = rows->position,
                            .rows = m,
                            .heads = 1,
                            .dim = KVT_MLA_ROPE,
                            .row_stride = KVT_MLA_DIM,
                            .head_stride = KVT_MLA_DIM,
                            .base = ROPE_BASE};
    device->ops->rope(device, &rope);
}

static void mla(struct kvt_forward *f, const struct kvt_rows *rows, int32_t l)
{
    const struct kvt_layer_weights *layer = &f->w->layers[l];
    const struct kvt_attention *a = &layer->group->attention;
    struct kvt_device *device = f->device;
    int32_t m = rows->rows;
    int64_t q = (int64_t)a->heads * (a->nope + a->rope);
    int64_t low = a->q_lora > 0 ? a->q_lora : q, all = low + KVT_MLA_DIM;
    apply(f, KVT_PART_QKV, &layer->qkv, m, f->h, f->wide);
    make_latent(f, rows, layer, f->wide + low, all);
    if (a->q_lora > 0) {
        columns(device, f->narrow, low, f->wide, all, low, m);
        norm(f, f->narrow, layer->q_norm, m, a->q_lora, f->narrow);
        apply(f, KVT_PART_Q_B, &layer->q_b, m, f->narrow, f->wide);
        all = q;
    }
    kvt_forward_spend(f, KVT_PART_SMALL);
    absorb_q(f, rows, layer, f->wide, all);
    attend(f, rows, l);
    int64_t v = (int64_t)a->heads * a->v_dim, mixed = (int64_t)a->heads * KVT_MLA_LATENT;
    for (int32_t h = 0; h < a->heads; h++) {
        columns(device, f->head_in, KVT_MLA_LATENT, f->mixed + (int64_t)h * KVT_MLA_LATENT, mixed,
                KVT_MLA_LATENT, m);
        kvt_linear_apply(device, &layer->uv, h, m, f->head_in, f->head_out);
        columns(device, f->narrow + (int64_t)h * a->v_dim, v, f->head_out, a->v_dim, a->v_dim, m);
    }
    kvt_forward_spend(f, KVT_PART_BMM);
    apply(f, KVT_PART_O, &layer->o, m, f->narrow, f->y);
}

static void dense(struct kvt_forward *f, const struct kvt_layer_weights *layer, int32_t m)
{
    apply(f, KVT_PART_GATE_UP, &layer->gate_up, m, f->h, f->wide);
    f->device->ops->silu_mul(f->device, f->wide, m, layer->group->mlp.inter, f->narrow);
    apply(f, KVT_PART_DOWN, &layer->down, m, f->narrow, f->y);
}

static void choose(struct kvt_forward *f, const struct kvt_rows *rows)
{
    const struct kvt_model *model = f->w->model;
    struct kvt_device *device = f->device;
    int32_t d = model->hidden, count = rows->outputs;
    if (count == 0)
        return;
    device->ops->gather(device, f->chosen, f->x, rows->output_row, count, (size_t)d * 4);
    device->ops->gather(device, f->narrow, f->y, rows->output_row, count, (size_t)d * 2);
    device->ops->add_norm(device, f->chosen, f->narrow, f->w->final_norm, EPSILON, count, d, f->h);
    apply(f, KVT_PART_HEAD, &f->w->head, count, f->h, f->logits);
    device->ops->argmax(device, f->logits, count, model->vocab, f->next);
    device->ops->copy(device, rows->next, f->next, (size_t)count * 4);
}

/* Plan attention, and give the device what the host knows of the step. */
static void begin(struct kvt_forward *f, struct kvt_rows *rows, struct kvt_rows *there)
{
    struct kvt_split *split = &f->split;
    struct kvt_mirror *memory = &f->split_memory;
    memset(f->spent, 0, sizeof f->spent);
    f->begun = kvt_device_now();
    f->marks = 0;
    f->failure = (struct kvt_err){0};
    if (!f->device->ops->host_memory)
        f->device->ops->mark(f->device, f->marks++);
    kvt_split_plan(split, rows->context, rows->rows, f->pool->layout.page_tokens,
                   KVT_SPLIT_OVERHEAD);
    kvt_mirror_send(memory, split->pieces, (size_t)split->piece_count * sizeof *split->pieces);
    kvt_mirror_send(memory, split->merges, (size_t)split->merge_count * sizeof *split->merges);
    kvt_mirror_send(memory, split->worker_piece,
                    ((size_t)split->workers + 1) * sizeof *split->worker_piece);
    kvt_split_view(&f->split_there, split, memory->there);
    send_rows(rows, there);
}

enum kvt_status kvt_forward_step(struct kvt_forward *forward, struct kvt_rows *rows,
                                 struct kvt_err *err)
{
    struct kvt_forward *f = forward;
    const struct kvt_model *model = f->w->model;
    struct kvt_device *device = f->device;
    struct kvt_rows there;
    int32_t m = rows->rows, d = model->hidden;
    kvt_assert(m > 0 && m <= f->rows_max && rows->outputs <= f->outputs_max);
    begin(f, rows, &there);
    device->ops->gather(device, f->y, f->w->embedding, there.token, m, (size_t)d * 2);
    device->ops->zero(device, f->x, (size_t)m * (size_t)d * 4);
    for (int32_t l = 0; l < model->layers; l++) {
        const struct kvt_layer_weights *layer = &f->w->layers[l];
        device->ops->add_norm(device, f->x, f->y, layer->attention_norm, EPSILON, m, d, f->h);
        if (layer->group->attention.kind == KVT_ATTENTION_MLA)
            mla(f, &there, l);
        else
            gqa(f, &there, l);
        device->ops->add_norm(device, f->x, f->y, layer->mlp_norm, EPSILON, m, d, f->h);
        if (layer->group->mlp.experts > 0)
            kvt_forward_moe(f, layer, m);
        else
            dense(f, layer, m);
    }
    choose(f, &there);
    device->ops->copy(device, &f->poisoned, f->poisoned_there, sizeof f->poisoned);
    kvt_forward_spend(f, KVT_PART_SMALL);
    if (device->ops->host_memory)
        return device->ops->wait(device, err);
    read_marks(f);
    return f->failure.status == KVT_OK ? KVT_OK
                                       : kvt_err_set(err, f->failure.status, "%s", f->failure.text);
}
