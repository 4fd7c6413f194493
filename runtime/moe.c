/* Routed experts: each token goes to its top-k experts; rows are sorted by expert, so that an
 * expert's weights are read once for all its rows and an idle expert's not at all. */
#include <math.h>
#include <string.h>

#include "runtime/forward.h"
#include "sim/base/assert.h"

/* The topk largest of the experts' logits, largest first, the lower number among equals; weights
 * are their softmax. */
static void choose(const kvt_bf16 *logits, int32_t experts, int32_t topk, int32_t *choice,
                   float *weight)
{
    for (int32_t i = 0; i < topk; i++) {
        int32_t best = -1;
        float most = 0.0f;
        for (int32_t e = 0; e < experts; e++) {
            float value = kvt_bf16_to_float(logits[e]);
            bool taken = false;
            for (int32_t j = 0; j < i; j++)
                taken = taken || choice[j] == e;
            if (!taken && (best < 0 || value > most)) {
                best = e;
                most = value;
            }
        }
        choice[i] = best;
        weight[i] = most;
    }
    float first = weight[0], sum = 0.0f;
    for (int32_t i = 0; i < topk; i++) {
        weight[i] = expf(weight[i] - first);
        sum += weight[i];
    }
    for (int32_t i = 0; i < topk; i++)
        weight[i] /= sum;
}

/* Sort (row, choice) by expert, stable; a row's places in that order, ascending. */
static void sort_rows(struct kvt_routing *routing, int32_t rows, int32_t topk, int32_t experts)
{
    memset(routing->row_begin, 0, sizeof(int32_t) * ((size_t)experts + 1));
    for (int32_t i = 0; i < rows * topk; i++)
        routing->row_begin[routing->choice[i] + 1]++;
    for (int32_t e = 0; e < experts; e++)
        routing->row_begin[e + 1] += routing->row_begin[e];
    for (int32_t i = 0; i < rows * topk; i++) {
        int32_t at = routing->row_begin[routing->choice[i]]++, row = i / topk, j = i % topk;
        routing->row[at] = row;
        int32_t *place = routing->place + (int64_t)row * topk;
        float *share = routing->share + (int64_t)row * topk;
        for (; j > 0 && place[j - 1] > at; j--) { /* topk is small */
            place[j] = place[j - 1];
            share[j] = share[j - 1];
        }
        place[j] = at;
        share[j] = routing->weight[i];
    }
    for (int32_t e = experts; e > 0; e--)
        routing->row_begin[e] = routing->row_begin[e - 1];
    routing->row_begin[0] = 0;
}

/* One matrix of all experts over the sorted rows. */
static void apply(struct kvt_forward *f, const struct kvt_linear *linear, const kvt_bf16 *in,
                  kvt_bf16 *out)
{
    const struct kvt_routing *routing = f->routing;
    if (linear->group > 1) {
        struct kvt_int4_experts experts = {
            .experts = linear->copies,
            .n = linear->n,
            .k = linear->k,
            .group = linear->group,
            .row_begin = kvt_mirror_there(&routing->mirror, routing->row_begin),
            .a = in,
            .w = linear->packed,
            .out = out,
            .rows = routing->row_begin[linear->copies]};
        f->device->ops->int4_experts(f->device, &experts);
        return;
    }
    for (int32_t e = 0; e < linear->copies; e++) {
        int64_t first = routing->row_begin[e];
        int32_t count = routing->row_begin[e + 1] - (int32_t)first;
        if (count > 0)
            kvt_linear_apply(f->device, linear, e, count, in + first * linear->k,
                             out + first * linear->n);
    }
}

/* The router's logits come to the host, which chooses: a wait in every such layer. What goes wrong
 * is told by the wait that ends the step. */
static void route(struct kvt_forward *f, const struct kvt_mlp *mlp, int32_t rows)
{
    struct kvt_routing *routing = f->routing;
    struct kvt_mirror *mirror = &routing->mirror;
    size_t choices = (size_t)rows * (size_t)mlp->topk;
    const kvt_bf16 *logits = f->wide;
    if (!f->device->ops->host_memory) {
        f->device->ops->copy(f->device, routing->logits, f->wide,
                             (size_t)rows * (size_t)mlp->experts * sizeof *logits);
        kvt_forward_wait(f);
        logits = routing->logits;
    }
    for (int64_t r = 0; r < rows; r++)
        choose(logits + r * mlp->experts, mlp->experts, mlp->topk, routing->choice + r * mlp->topk,
               routing->weight + r * mlp->topk);
    sort_rows(routing, rows, mlp->topk, mlp->experts);
    kvt_mirror_send(mirror, routing->row_begin, ((size_t)mlp->experts + 1) * sizeof(int32_t));
    kvt_mirror_send(mirror, routing->row, choices * sizeof(int32_t));
    kvt_mirror_send(mirror, routing->place, choices * sizeof(int32_t));
    kvt_mirror_send(mirror, routing->share, choices * sizeof(float));
}

void kvt_forward_moe(struct kvt_forward *forward, const struct kvt_layer_weights *layer,
                     int32_t rows)
{
    struct kvt_forward *f = forward;
    struct kvt_device *device = f->device;
    const struct kvt_routing *routing = f->routing;
    const struct kvt_mlp *mlp = &layer->group->mlp;
    int32_t d = f->w->model->hidden, choices = rows * mlp->topk;
    kvt_forward_spend(f, KVT_PART_SMALL);
    kvt_linear_apply(device, &layer->router, 0, rows, f->h, f->wide);
    kvt_forward_spend(f, KVT_PART_ROUTER);
    route(f, mlp, rows);
    kvt_forward_spend(f, KVT_PART_SMALL);
    if (mlp->shared_inter > 0) {
        kvt_linear_apply(device, &layer->shared_gate_up, 0, rows, f->h, f->wide);
        kvt_forward_spend(f, KVT_PART_SHARED_UP);
        device->ops->silu_mul(device, f->wide, rows, mlp->shared_inter, f->narrow);
        kvt_forward_spend(f, KVT_PART_SMALL);
        kvt_linear_apply(device, &layer->shared_down, 0, rows, f->narrow, f->y);
        kvt_forward_spend(f, KVT_PART_SHARED_DOWN);
    }
    device->ops->gather(device, f->routed, f->h, kvt_mirror_there(&routing->mirror, routing->row),
                        choices, (size_t)d * 2);
    kvt_forward_spend(f, KVT_PART_SMALL);
    apply(f, &layer->expert_gate_up, f->routed, f->routed_wide);
    device->ops->silu_mul(device, f->routed_wide, choices, mlp->expert_inter, f->routed);
    apply(f, &layer->expert_down, f->routed, f->routed_out);
    kvt_forward_spend(f, KVT_PART_EXPERTS);
    struct kvt_combine combine = {.y = f->y,
                                  .in = f->routed_out,
                                  .place = kvt_mirror_there(&routing->mirror, routing->place),
                                  .share = kvt_mirror_there(&routing->mirror, routing->share),
                                  .rows = rows,
                                  .topk = mlp->topk,
                                  .dim = d,
                                  .add = mlp->shared_inter > 0};
    device->ops->combine(device, &combine);
}
