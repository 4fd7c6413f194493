/*
 * layout.h - how a model is spread over the GPUs of one replica
 *
 * A replica has tp * pp GPUs. Attention runs on tp / dp of them together (dp ranks of data-parallel
 * attention, each with requests of its own); experts are spread over ep ranks and, inside one rank
 * of experts, over tp / ep GPUs. dcp GPUs of an attention rank share its tokens (decode context
 * parallelism), so that a token's KV lies on one of them instead of on all.
 */
#ifndef KVT_MODEL_LAYOUT_H
#define KVT_MODEL_LAYOUT_H

#include <stdint.h>

#include "sim/base/status.h"

struct kvt_model;

struct kvt_layout {
    int32_t tp, pp, dp, ep, dcp; /* all >= 1; ep 1: experts are split like everything else */
};

static inline int32_t kvt_layout_gpus(const struct kvt_layout *layout)
{
    return layout->tp * layout->pp;
}

static inline int32_t kvt_layout_attention_tp(const struct kvt_layout *layout)
{
    return layout->tp / layout->dp;
}

/* Sizes divide: dp into tp, ep into the replica, dcp into the attention ranks, heads by attention
 * ranks, layers by stages. Messages say which number is wanted. */
enum kvt_status kvt_layout_check(const struct kvt_layout *layout, const struct kvt_model *model,
                                 struct kvt_where where, struct kvt_err *err);

#endif
