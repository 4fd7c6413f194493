/*
 * weights.h - parameters and bytes of a model: of its checkpoint, and of one GPU
 *
 * Three numbers per group of weights: parameters, bytes in the checkpoint, and bytes that the
 * fullest GPU of a replica holds. They differ because tensor parallelism splits some matrices,
 * repeats others (low-rank projections, routers, indexers, norms), and MLA keeps a second copy of
 * kv_b in bf16 for the absorbed decode path.
 *
 * A matrix of r x c weights takes, by dtype: bf16 2rc; fp8 rc + 4; fp8-block rc and 4 bytes per
 * 128x128 block; int4 rc/2 and 2 bytes per group; nvfp4 rc/2 + rc/16; mxfp4 rc/2 + rc/32.
 */
#ifndef KVT_MODEL_WEIGHTS_H
#define KVT_MODEL_WEIGHTS_H

#include "sim/model/layout.h"
#include "sim/model/model.h"

/* clang-format off */
#define KVT_WEIGHT_GROUPS(X)                                                              \
    X(EMBEDDING, "embedding")     /* split over attention ranks */                         \
    X(ATTENTION, "attention")     /* heads split; low-rank projections repeated */         \
    X(INDEXER,   "indexer")       /* of sparse attention; repeated */                      \
    X(ROUTER,    "router")        /* repeated */                                           \
    X(ROUTED,    "routed experts") /* split over the whole replica, by ep or tp */         \
    X(SHARED,    "shared experts") /* split */                                             \
    X(DENSE,     "dense mlp")     /* split */                                              \
    X(NORM,      "norms")         /* repeated */                                           \
    X(HEAD,      "lm head")       /* split over attention ranks; nothing when tied */      \
    X(VISION,    "vision")        /* repeated */                                           \
    X(ABSORBED,  "absorbed kv_b") /* bf16 copy of MLA's kv_b; not in the checkpoint */     \
    X(MTP,       "mtp")           /* draft layers; loaded only with speculative decoding */
/* clang-format on */
#define X(name, text) KVT_WEIGHT_GROUP_##name,
enum kvt_weight_group { KVT_WEIGHT_GROUPS(X) KVT_WEIGHT_GROUP_COUNT };
#undef X
extern const char *const kvt_weight_group_names[KVT_WEIGHT_GROUP_COUNT];

struct kvt_weights {
    int64_t params[KVT_WEIGHT_GROUP_COUNT];
    int64_t checkpoint_bytes[KVT_WEIGHT_GROUP_COUNT];
    int64_t rank_bytes[KVT_WEIGHT_GROUP_COUNT]; /* of the fullest GPU; MTP in any case */
    int64_t params_total;                       /* without MTP */
    int64_t params_active;    /* that one token uses, without MTP and the input embedding */
    int64_t checkpoint_total; /* with MTP */
    int64_t rank_total;       /* without MTP */
};

/* The model as its file says (use kvt_model_quantise before for another dtype). Pure; O(groups). */
void kvt_weights_count(const struct kvt_model *model, const struct kvt_layout *layout,
                       struct kvt_weights *weights);

/* Bytes of one matrix, scales included. */
int64_t kvt_matrix_bytes(int64_t rows, int64_t columns, enum kvt_weight_dtype dtype);

/* Bits per weight, scales included: 4.5 for int4-g32. */
double kvt_weight_bits(enum kvt_weight_dtype dtype);

#endif
