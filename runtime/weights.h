/*
 * weights.h - a model's weights on a device, synthetic and reproducible
 *
 * The shapes are those of a model file; the values are drawn from Philox streams, one per matrix,
 * and scaled so that every linear keeps the variance of what goes in: activations of any depth stay
 * finite and near 1. Query weights are larger, so that attention picks tokens out instead of
 * averaging over the context: what a request reads from its pages decides its next token.
 *
 * Same model, dtypes and seed: same weights before packing, on every backend and in every role.
 *
 *   GQA   qkv [(heads + 2 kv_heads) head_dim][hidden], o [hidden][heads head_dim]
 *   MLA   down [q_lora (or all of q) + 576][hidden], q_b [heads (nope + rope)][q_lora],
 *         kv_b as the checkpoint has it, and absorbed: uk[h] [512][nope], uv[h] [v_dim][512];
 *         o [hidden][heads v_dim]
 *   MLP   gate_up [2 inter][hidden], down [hidden][inter]; of routed experts one after the other
 *
 * What it takes of the device is what the memory ledger calls weights (sim/model/weights.h), but
 * for padding: FP8 has one scale a row here where the ledger counts one a matrix, and a backend's
 * tiles may round rows up.
 */
#ifndef KVT_RUNTIME_WEIGHTS_H
#define KVT_RUNTIME_WEIGHTS_H

#include "runtime/device.h"
#include "sim/model/model.h"

/* One matrix, or `copies` of equal shape one after the other (experts, heads). */
struct kvt_linear {
    int32_t n, k, copies;
    enum kvt_weight_dtype dtype;
    int32_t group;   /* INT4 */
    size_t each;     /* packed bytes of one copy */
    uint8_t *packed; /* device; NULL: this model has no such matrix */
    float *scale;    /* device, [copies][n]; FP8 */
};

struct kvt_layer_weights {
    const struct kvt_layer_group *group; /* of the model, borrowed */
    kvt_bf16 *attention_norm, *mlp_norm; /* device, [hidden] */
    kvt_bf16 *q_norm, *latent_norm;      /* MLA: [q_lora], [512] */
    struct kvt_linear qkv, o;            /* GQA; MLA: qkv is `down` above */
    struct kvt_linear q_b, kv_b, uk, uv; /* MLA */
    struct kvt_linear gate_up, down, router, shared_gate_up, shared_down;
    struct kvt_linear expert_gate_up, expert_down;
};

struct kvt_model_weights {
    struct kvt_device *device;     /* borrowed */
    const struct kvt_model *model; /* borrowed */
    kvt_bf16 *embedding;           /* device, [vocab][hidden], plain */
    struct kvt_linear head;
    kvt_bf16 *final_norm;
    struct kvt_layer_weights *layers; /* [model->layers] */
    int64_t bytes;                    /* taken of the device */
};

/* KVT_ECONFIG says what of the model cannot be run on one GPU. Draws nothing. */
enum kvt_status kvt_weights_check(const struct kvt_model *model, struct kvt_err *err);

/* Check, draw, pack and load. KVT_ELIMIT for a matrix that the kernels do not multiply, KVT_ENOMEM
 * when the device or the host has no room, KVT_EDEVICE; weights may be released then. About 1 s per
 * GB. */
enum kvt_status kvt_weights_load(struct kvt_model_weights *weights, struct kvt_device *device,
                                 const struct kvt_model *model, uint64_t seed, struct kvt_err *err);
void kvt_weights_release(struct kvt_model_weights *weights);

/* out = a * transpose(w) for copy `copy` of a matrix; a and out are device memory. */
void kvt_linear_apply(struct kvt_device *device, const struct kvt_linear *linear, int32_t copy,
                      int32_t m, const kvt_bf16 *a, kvt_bf16 *out);

#endif
