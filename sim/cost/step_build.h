/* step_build.h - how the parts of step.c write a list; not for others */
#ifndef KVT_COST_STEP_BUILD_H
#define KVT_COST_STEP_BUILD_H

#include "sim/cost/step.h"

/* What one rank does in this step, and where its kernels go. */
struct kvt_builder {
    struct kvt_kernel_list *step;
    const struct kvt_model *model;
    const struct kvt_step_shape *shape;
    const struct kvt_calibration *calibration;
    unsigned part;
    double batch, context, windowed; /* of the rank: requests that decode and their contexts */
    double decode_rows;              /* tokens of the rank's decoding requests, drafts included */
    double prompt_rows, pairs;       /* of the rank */
    double all_rows;                 /* tokens of the whole replica: what the MLPs see */
    double head_rows;                /* rows of lm_head */
    int32_t attention_ranks;         /* GPUs that attend together */
    double freed;                    /* tokens of pages that went back */
    const struct kvt_layer_group *layer; /* now being listed */
    int32_t group;                       /* its index */
    double layers;                       /* that it stands for */
};

static inline enum kvt_weight_dtype kvt_builder_dtype(const struct kvt_builder *b,
                                                      enum kvt_matrix matrix)
{
    return (enum kvt_weight_dtype)b->layer->dtype[matrix];
}

/* Append count calls of one kernel, unless its part of the step is not wanted. */
void kvt_builder_add(struct kvt_builder *b, const char *name, enum kvt_family family,
                     const struct kvt_work *work, double count, bool by_context);

/* A GEMM of m x n x k in every layer of the group, in the dtype of one of its matrices. */
void kvt_builder_gemm(struct kvt_builder *b, const char *name, enum kvt_matrix matrix, double m,
                      double n, double k);

/* A collective over ranks of a vector of rows tokens, in every layer of the group. */
void kvt_builder_collective(struct kvt_builder *b, const char *name, enum kvt_family family,
                            double rows, double values, double ranks);

/* The attention block of the group (step_attention.c). */
void kvt_builder_attention(struct kvt_builder *b);

#endif
