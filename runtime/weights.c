#include "runtime/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/random.h"

#define SHARP 3.0f /* standard deviation of attention scores */

/* ---- what can run ------------------------------------------------------------------------- */

static enum kvt_status supports_dtype(const struct kvt_model *model, enum kvt_weight_dtype dtype,
                                      struct kvt_err *err)
{
    if (dtype == KVT_WEIGHTS_BF16 || dtype == KVT_WEIGHTS_FP8 || dtype == KVT_WEIGHTS_INT4_G32 ||
        dtype == KVT_WEIGHTS_INT4_G128)
        return KVT_OK;
    return kvt_err_set(err, KVT_ECONFIG,
                       "model %s: the runtime has no kernel for %s weights; want bf16, fp8, "
                       "int4-g32 or int4-g128",
                       model->name, kvt_weight_dtype_names[dtype]);
}

static int32_t group_of(enum kvt_weight_dtype dtype)
{
    return dtype == KVT_WEIGHTS_INT4_G32 ? 32 : dtype == KVT_WEIGHTS_INT4_G128 ? 128 : 1;
}

/* A matrix of k columns that a dtype must divide. */
static enum kvt_status supports_matrix(const struct kvt_model *model,
                                       const struct kvt_layer_group *group, enum kvt_matrix matrix,
                                       int64_t k, struct kvt_err *err)
{
    enum kvt_weight_dtype dtype = (enum kvt_weight_dtype)group->dtype[matrix];
    KVT_TRY(supports_dtype(model, dtype, err));
    if (k % group_of(dtype) == 0)
        return KVT_OK;
    return kvt_err_set(err, KVT_ECONFIG,
                       "model %s: matrix %s has %lld columns, want a multiple of the group of %s",
                       model->name, kvt_matrix_names[matrix], (long long)k,
                       kvt_weight_dtype_names[dtype]);
}

static enum kvt_status supports_attention(const struct kvt_model *model,
                                          const struct kvt_attention *a, struct kvt_err *err)
{
    const struct kvt_attention *first = &model->groups[0].attention;
    const char *what = NULL;
    if (a->kind == KVT_ATTENTION_NONE)
        what = "layers without attention";
    else if (a->window > 0)
        what = "sliding windows";
    else if (a->index_heads > 0)
        what = "sparse attention";
    else if (a->qkv_bias || a->o_bias || a->qk_norm || a->sinks || a->v_is_k || a->output_gate)
        what = "biases, norms of q and k, sinks, gates, or a v that is k";
    else if (a->kind != first->kind || a->heads != first->heads || a->kv_heads != first->kv_heads ||
             a->head_dim != first->head_dim || a->v_dim != first->v_dim ||
             a->q_lora != first->q_lora)
        what = "layers that attend differently";
    else if (a->heads / a->kv_heads > (a->kind == KVT_ATTENTION_MLA ? 128 : 16))
        what = "more than 16 heads a kv head, or 128 of MLA";
    else if (a->kind == KVT_ATTENTION_GQA && a->v_dim != a->head_dim)
        what = "a v of another width than k";
    else if (a->kind == KVT_ATTENTION_MLA &&
             (a->kv_lora != KVT_MLA_LATENT || a->rope != KVT_MLA_ROPE))
        what = "a latent other than 512 + 64";
    if (what == NULL)
        return KVT_OK;
    return kvt_err_set(err, KVT_ECONFIG, "model %s: the runtime does not run %s", model->name,
                       what);
}

static enum kvt_status supports_mlp(const struct kvt_model *model,
                                    const struct kvt_layer_group *group, struct kvt_err *err)
{
    const struct kvt_mlp *mlp = &group->mlp;
    if (!mlp->gated || mlp->bias || (mlp->inter == 0 && mlp->experts == 0))
        return kvt_err_set(err, KVT_ECONFIG,
                           "model %s: the runtime runs gated MLPs without biases only",
                           model->name);
    if (mlp->experts == 0) {
        KVT_TRY(supports_matrix(model, group, KVT_MATRIX_GATE_UP, model->hidden, err));
        return supports_matrix(model, group, KVT_MATRIX_DOWN, mlp->inter, err);
    }
    KVT_TRY(supports_matrix(model, group, KVT_MATRIX_ROUTER, model->hidden, err));
    KVT_TRY(supports_matrix(model, group, KVT_MATRIX_EXPERT_GATE_UP, model->hidden, err));
    KVT_TRY(supports_matrix(model, group, KVT_MATRIX_EXPERT_DOWN, mlp->expert_inter, err));
    if (mlp->shared_inter == 0)
        return KVT_OK;
    KVT_TRY(supports_matrix(model, group, KVT_MATRIX_SHARED_GATE_UP, model->hidden, err));
    return supports_matrix(model, group, KVT_MATRIX_SHARED_DOWN, mlp->shared_inter, err);
}

/* One matrix stands for those that run as one: q, k and v; q and kv_a. */
static bool fused_alike(const struct kvt_layer_group *group)
{
    const uint8_t *dtype = group->dtype;
    const struct kvt_attention *a = &group->attention;
    if (a->kind == KVT_ATTENTION_GQA)
        return dtype[KVT_MATRIX_Q] == dtype[KVT_MATRIX_K] &&
               dtype[KVT_MATRIX_K] == dtype[KVT_MATRIX_V];
    return dtype[a->q_lora > 0 ? KVT_MATRIX_Q_A : KVT_MATRIX_Q] == dtype[KVT_MATRIX_KV_A];
}

enum kvt_status kvt_weights_check(const struct kvt_model *model, struct kvt_err *err)
{
    if (model->vision_params > 0)
        return kvt_err_set(err, KVT_ECONFIG, "model %s: the runtime does not run vision towers",
                           model->name);
    KVT_TRY(supports_dtype(model, model->head, err));
    for (int32_t g = 0; g < model->group_count; g++) {
        const struct kvt_layer_group *group = &model->groups[g];
        const struct kvt_attention *a = &group->attention;
        KVT_TRY(supports_attention(model, a, err));
        if (!fused_alike(group))
            return kvt_err_set(err, KVT_ECONFIG,
                               "model %s: q, k and v of one dtype are wanted, they run as one "
                               "matrix",
                               model->name);
        KVT_TRY(supports_matrix(model, group, KVT_MATRIX_O, (int64_t)a->heads * a->v_dim, err));
        KVT_TRY(supports_matrix(model, group,
                                a->kind == KVT_ATTENTION_MLA ? KVT_MATRIX_KV_A : KVT_MATRIX_Q,
                                model->hidden, err));
        if (a->kind == KVT_ATTENTION_MLA && a->q_lora > 0)
            KVT_TRY(supports_matrix(model, group, KVT_MATRIX_Q_B, a->q_lora, err));
        KVT_TRY(supports_mlp(model, group, err));
    }
    return KVT_OK;
}

/* ---- drawing ------------------------------------------------------------------------------ */

struct loader {
    struct kvt_model_weights *weights;
    struct kvt_err *err;
    uint64_t seed, next;      /* next: number of the next matrix */
    float *values;            /* host, [room]; one copy of a matrix */
    void *plain, *scales;     /* host, [room]; its plain form, and scales of it */
    int64_t room, scale_room; /* elements */
};

/* Host memory for one copy of so many elements and scales, of any kind. */
static enum kvt_status reserve(struct loader *loader, int64_t count, int64_t scales)
{
    if (count > loader->room) {
        free(loader->values);
        free(loader->plain);
        loader->values = malloc(sizeof(float) * (size_t)count);
        loader->plain = malloc(sizeof(kvt_bf16) * (size_t)count);
        loader->room = count;
    }
    if (scales > loader->scale_room) {
        free(loader->scales);
        loader->scales = malloc(sizeof(float) * (size_t)scales);
        loader->scale_room = scales;
    }
    if (loader->values != NULL && loader->plain != NULL && (scales == 0 || loader->scales != NULL))
        return KVT_OK;
    return kvt_err_set(loader->err, KVT_ENOMEM, "no memory to draw %lld weights", (long long)count);
}

/* Uniform in [-width, width): count values of the stream of this matrix and copy. */
static void draw(const struct loader *loader, uint64_t matrix, int32_t copy, int64_t count,
                 float width, float *values)
{
    enum { BLOCK = 4096 };
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < count; first += BLOCK) {
        struct kvt_stream stream;
        kvt_stream_init(&stream, loader->seed, KVT_PURPOSE_WEIGHT,
                        matrix << 40 | (uint64_t)(uint32_t)copy << 24 | (uint64_t)(first / BLOCK));
        int64_t last = first + BLOCK < count ? first + BLOCK : count;
        for (int64_t i = first; i < last; i += 2) { /* 16 bits are enough for a weight */
            uint32_t bits = kvt_stream_u32(&stream);
            values[i] = width * ((float)(bits & 0xffff) / 32768.0f - 1.0f);
            if (i + 1 < last)
                values[i + 1] = width * ((float)(bits >> 16) / 32768.0f - 1.0f);
        }
    }
}

static void to_bf16(const float *values, int64_t count, kvt_bf16 *out)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        out[i] = kvt_bf16_from_float(values[i]);
}

static void to_fp8(const float *values, int32_t n, int32_t k, kvt_e4m3 *out, float *scale)
{
#pragma omp parallel for schedule(static)
    for (int32_t row = 0; row < n; row++) {
        const float *in = values + (int64_t)row * k;
        float largest = 0.0f;
        for (int32_t j = 0; j < k; j++)
            largest = fmaxf(largest, fabsf(in[j]));
        scale[row] = kvt_fp8_scale(largest);
        for (int32_t j = 0; j < k; j++)
            out[(int64_t)row * k + j] = kvt_e4m3_from_float(in[j] / scale[row]);
    }
}

static size_t packed_bytes(const struct kvt_device *device, const struct kvt_linear *linear)
{
    if (linear->group > 1)
        return device->ops->int4_bytes(linear->n, linear->k, linear->group);
    enum kvt_gemm_weights kind = linear->dtype == KVT_WEIGHTS_FP8 ? KVT_GEMM_FP8 : KVT_GEMM_BF16;
    return device->ops->gemm_bytes(kind, linear->n, linear->k);
}

static void pack_copy(struct loader *loader, struct kvt_linear *linear, int32_t copy)
{
    struct kvt_device *device = loader->weights->device;
    const struct kvt_device_ops *ops = device->ops;
    int64_t count = (int64_t)linear->n * linear->k;
    uint8_t *packed = linear->packed + (size_t)copy * linear->each;
    if (linear->group > 1) {
        struct kvt_int4_plain plain = {.n = linear->n,
                                       .k = linear->k,
                                       .group = linear->group,
                                       .nibbles = loader->plain,
                                       .scales = loader->scales};
        kvt_int4_quantise(loader->values, &plain);
        ops->int4_pack(device, &plain, packed);
    } else if (linear->dtype == KVT_WEIGHTS_FP8) {
        kvt_assert(loader->scales != NULL);
        to_fp8(loader->values, linear->n, linear->k, loader->plain, loader->scales);
        ops->gemm_pack(device, KVT_GEMM_FP8, linear->n, linear->k, loader->plain, packed);
        ops->copy(device, linear->scale + (int64_t)copy * linear->n, loader->scales,
                  sizeof(float) * (size_t)linear->n);
    } else {
        to_bf16(loader->values, count, loader->plain);
        ops->gemm_pack(device, KVT_GEMM_BF16, linear->n, linear->k, loader->plain, packed);
    }
}

/* gain multiplies the width that keeps the variance; the first sharp_rows rows get more. */
static enum kvt_status load(struct loader *loader, struct kvt_linear *linear, int64_t n, int64_t k,
                            int32_t copies, int dtype, float gain, int64_t sharp_rows)
{
    struct kvt_device *device = loader->weights->device;
    KVT_TRY(kvt_gemm_sizes_check("a matrix of the model", 0, n, k, loader->err));
    *linear = (struct kvt_linear){.n = (int32_t)n,
                                  .k = (int32_t)k,
                                  .copies = copies,
                                  .dtype = (enum kvt_weight_dtype)dtype,
                                  .group = group_of((enum kvt_weight_dtype)dtype)};
    linear->each = packed_bytes(device, linear);
    KVT_TRY(kvt_device_take(device, (int64_t)linear->each * copies, "weights", &linear->packed,
                            loader->err));
    if (linear->dtype == KVT_WEIGHTS_FP8)
        KVT_TRY(kvt_device_take(device, n * copies * (int64_t)sizeof(float), "scales of weights",
                                &linear->scale, loader->err));
    KVT_TRY(reserve(loader, n * k, linear->group > 1 ? n * k / linear->group : n));
    uint64_t matrix = loader->next++;
    for (int32_t copy = 0; copy < copies; copy++) {
        draw(loader, matrix, copy, n * k, gain * sqrtf(3.0f / (float)k), loader->values);
        for (int64_t i = 0; i < sharp_rows * k; i++)
            loader->values[i] *= SHARP;
        pack_copy(loader, linear, copy);
    }
    return KVT_OK;
}

static enum kvt_status load_norm(struct loader *loader, int64_t dim, kvt_bf16 **norm)
{
    struct kvt_device *device = loader->weights->device;
    KVT_TRY(kvt_device_take(device, dim * 2, "norms", norm, loader->err));
    KVT_TRY(reserve(loader, dim, 0));
    kvt_bf16 *plain = loader->plain;
    for (int64_t i = 0; i < dim; i++)
        plain[i] = kvt_bf16_from_float(1.0f);
    device->ops->copy(device, *norm, plain, (size_t)dim * 2);
    return KVT_OK;
}

/* ---- a model ------------------------------------------------------------------------------ */

static enum kvt_status load_gqa(struct loader *loader, struct kvt_layer_weights *layer)
{
    const struct kvt_attention *a = &layer->group->attention;
    const uint8_t *dtype = layer->group->dtype;
    int64_t d = loader->weights->model->hidden, q = (int64_t)a->heads * a->head_dim;
    KVT_TRY(load(loader, &layer->qkv, q + 2 * (int64_t)a->kv_heads * a->head_dim, d, 1,
                 dtype[KVT_MATRIX_Q], 1.0f, q));
    return load(loader, &layer->o, d, q, 1, dtype[KVT_MATRIX_O], 1.0f, 0);
}

static enum kvt_status load_mla(struct loader *loader, struct kvt_layer_weights *layer)
{
    const struct kvt_attention *a = &layer->group->attention;
    const uint8_t *dtype = layer->group->dtype;
    int64_t d = loader->weights->model->hidden, q = (int64_t)a->heads * (a->nope + a->rope);
    bool low = a->q_lora > 0;
    KVT_TRY(load(loader, &layer->qkv, (low ? a->q_lora : q) + KVT_MLA_DIM, d, 1,
                 dtype[KVT_MATRIX_KV_A], 1.0f, low ? 0 : q));
    if (low) {
        KVT_TRY(load_norm(loader, a->q_lora, &layer->q_norm));
        KVT_TRY(load(loader, &layer->q_b, q, a->q_lora, 1, dtype[KVT_MATRIX_Q_B], 1.0f, q));
    }
    KVT_TRY(load_norm(loader, KVT_MLA_LATENT, &layer->latent_norm));
    KVT_TRY(load(loader, &layer->kv_b, (int64_t)a->heads * (a->nope + a->v_dim), KVT_MLA_LATENT, 1,
                 dtype[KVT_MATRIX_KV_B], 1.0f, 0));
    /* sum over nope of q * uk, so that scores over the latent have the variance of q . k */
    KVT_TRY(load(loader, &layer->uk, KVT_MLA_LATENT, a->nope, a->heads, KVT_WEIGHTS_BF16,
                 sqrtf((float)a->nope / (float)KVT_MLA_LATENT), 0));
    KVT_TRY(
        load(loader, &layer->uv, a->v_dim, KVT_MLA_LATENT, a->heads, KVT_WEIGHTS_BF16, 1.0f, 0));
    return load(loader, &layer->o, d, (int64_t)a->heads * a->v_dim, 1, dtype[KVT_MATRIX_O], 1.0f,
                0);
}

static enum kvt_status load_mlp(struct loader *loader, struct kvt_layer_weights *layer)
{
    const struct kvt_mlp *mlp = &layer->group->mlp;
    const uint8_t *dtype = layer->group->dtype;
    int64_t d = loader->weights->model->hidden;
    if (mlp->experts == 0) {
        KVT_TRY(load(loader, &layer->gate_up, 2 * (int64_t)mlp->inter, d, 1,
                     dtype[KVT_MATRIX_GATE_UP], 1.0f, 0));
        return load(loader, &layer->down, d, mlp->inter, 1, dtype[KVT_MATRIX_DOWN], 1.0f, 0);
    }
    KVT_TRY(load(loader, &layer->router, mlp->experts, d, 1, dtype[KVT_MATRIX_ROUTER], 1.0f, 0));
    KVT_TRY(load(loader, &layer->expert_gate_up, 2 * (int64_t)mlp->expert_inter, d, mlp->experts,
                 dtype[KVT_MATRIX_EXPERT_GATE_UP], 1.0f, 0));
    KVT_TRY(load(loader, &layer->expert_down, d, mlp->expert_inter, mlp->experts,
                 dtype[KVT_MATRIX_EXPERT_DOWN], 1.0f, 0));
    if (mlp->shared_inter == 0)
        return KVT_OK;
    KVT_TRY(load(loader, &layer->shared_gate_up, 2 * (int64_t)mlp->shared_inter, d, 1,
                 dtype[KVT_MATRIX_SHARED_GATE_UP], 1.0f, 0));
    return load(loader, &layer->shared_down, d, mlp->shared_inter, 1, dtype[KVT_MATRIX_SHARED_DOWN],
                1.0f, 0);
}

static enum kvt_status load_embedding(struct loader *loader)
{
    struct kvt_model_weights *w = loader->weights;
    int64_t count = (int64_t)w->model->vocab * w->model->hidden;
    KVT_TRY(kvt_device_take(w->device, count * 2, "embedding", &w->embedding, loader->err));
    KVT_TRY(reserve(loader, count, 0));
    draw(loader, loader->next++, 0, count, 1.0f, loader->values);
    to_bf16(loader->values, count, loader->plain);
    w->device->ops->copy(w->device, w->embedding, loader->plain, (size_t)count * 2);
    return KVT_OK;
}

static enum kvt_status load_layers(struct loader *loader)
{
    struct kvt_model_weights *w = loader->weights;
    const struct kvt_model *model = w->model;
    int32_t l = 0;
    for (int32_t g = 0; g < model->group_count; g++) {
        for (int32_t i = 0; i < model->groups[g].count; i++, l++) {
            struct kvt_layer_weights *layer = &w->layers[l];
            layer->group = &model->groups[g];
            KVT_TRY(load_norm(loader, model->hidden, &layer->attention_norm));
            KVT_TRY(layer->group->attention.kind == KVT_ATTENTION_MLA ? load_mla(loader, layer)
                                                                      : load_gqa(loader, layer));
            KVT_TRY(load_norm(loader, model->hidden, &layer->mlp_norm));
            KVT_TRY(load_mlp(loader, layer));
        }
    }
    KVT_TRY(load_norm(loader, model->hidden, &w->final_norm));
    return load(loader, &w->head, model->vocab, model->hidden, 1, (int)model->head, 1.0f, 0);
}

enum kvt_status kvt_weights_load(struct kvt_model_weights *weights, struct kvt_device *device,
                                 const struct kvt_model *model, uint64_t seed, struct kvt_err *err)
{
    *weights = (struct kvt_model_weights){.device = device, .model = model};
    KVT_TRY(kvt_weights_check(model, err));
    int64_t before = device->used;
    struct loader loader = {.weights = weights, .err = err, .seed = seed, .next = 1};
    enum kvt_status status = KVT_OK;
    weights->layers = calloc((size_t)model->layers, sizeof *weights->layers);
    if (weights->layers == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for %d layers", model->layers);
    if (status == KVT_OK)
        status = load_embedding(&loader);
    if (status == KVT_OK)
        status = load_layers(&loader);
    if (status == KVT_OK)
        status = device->ops->wait(device, err);
    free(loader.values);
    free(loader.plain);
    free(loader.scales);
    weights->bytes = device->used - before;
    if (status != KVT_OK)
        kvt_weights_release(weights);
    return status;
}

static void give_linear(struct kvt_device *device, struct kvt_linear *linear)
{
    kvt_device_give(device, linear->packed, (int64_t)linear->each * linear->copies);
    kvt_device_give(device, linear->scale,
                    (int64_t)linear->n * linear->copies * (int64_t)sizeof(float));
}

static void give_layer(struct kvt_device *device, struct kvt_layer_weights *layer, int64_t hidden)
{
    struct kvt_linear *all[] = {&layer->qkv,         &layer->o,
                                &layer->q_b,         &layer->kv_b,
                                &layer->uk,          &layer->uv,
                                &layer->gate_up,     &layer->down,
                                &layer->router,      &layer->shared_gate_up,
                                &layer->shared_down, &layer->expert_gate_up,
                                &layer->expert_down};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        give_linear(device, all[i]);
    kvt_device_give(device, layer->attention_norm, hidden * 2);
    kvt_device_give(device, layer->mlp_norm, hidden * 2);
    kvt_device_give(device, layer->latent_norm, KVT_MLA_LATENT * 2);
    if (layer->group != NULL)
        kvt_device_give(device, layer->q_norm, (int64_t)layer->group->attention.q_lora * 2);
}

void kvt_weights_release(struct kvt_model_weights *weights)
{
    const struct kvt_model *model = weights->model;
    struct kvt_device *device = weights->device;
    if (weights->layers != NULL)
        for (int32_t l = 0; l < model->layers; l++)
            give_layer(device, &weights->layers[l], model->hidden);
    if (device != NULL) {
        give_linear(device, &weights->head);
        kvt_device_give(device, weights->embedding, (int64_t)model->vocab * model->hidden * 2);
        kvt_device_give(device, weights->final_norm, (int64_t)model->hidden * 2);
    }
    free(weights->layers);
    *weights = (struct kvt_model_weights){0};
}

void kvt_linear_apply(struct kvt_device *device, const struct kvt_linear *linear, int32_t copy,
                      int32_t m, const kvt_bf16 *a, kvt_bf16 *out)
{
    const uint8_t *packed = linear->packed + (size_t)copy * linear->each;
    if (linear->group > 1) {
        struct kvt_int4_gemm gemm = {.m = m,
                                     .n = linear->n,
                                     .k = linear->k,
                                     .group = linear->group,
                                     .a = a,
                                     .w = packed,
                                     .out = out};
        device->ops->int4_gemm(device, &gemm);
        return;
    }
    bool fp8 = linear->dtype == KVT_WEIGHTS_FP8;
    struct kvt_gemm gemm = {.weights = fp8 ? KVT_GEMM_FP8 : KVT_GEMM_BF16,
                            .m = m,
                            .n = linear->n,
                            .k = linear->k,
                            .a = a,
                            .w = packed,
                            .scale = fp8 ? linear->scale + (int64_t)copy * linear->n : NULL,
                            .out = out};
    device->ops->gemm(device, &gemm);
}
