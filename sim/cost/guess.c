#include "sim/cost/guess.h"

#include <stdio.h>

#define MEMORY_SHARE 0.80
#define MATRIX_SHARE 0.70
#define LINK_SHARE   0.75

/* Which matrix units a family runs on: those of its dtype, or bf16 where there are none. */
static double matrix_rate(enum kvt_family family, const struct kvt_gpu *gpu)
{
    double rate = gpu->flops_bf16;
    if (family == KVT_FAMILY_GEMM_FP8 || family == KVT_FAMILY_GEMM_FP8_BLOCK ||
        family == KVT_FAMILY_EXPERTS_FP8 || family == KVT_FAMILY_EXPERTS_FP8_BLOCK)
        rate = gpu->flops_fp8 > 0.0 ? gpu->flops_fp8 : rate;
    if (family == KVT_FAMILY_GEMM_FP4 || family == KVT_FAMILY_EXPERTS_FP4)
        rate = gpu->flops_fp4 > 0.0 ? gpu->flops_fp4 : rate;
    return MATRIX_SHARE * rate;
}

static void set(struct kvt_law *law, enum kvt_law_kind kind, double t0)
{
    law->kind = kind;
    law->t0 = t0;
}

static void set_link(struct kvt_law *law, double t0, double bandwidth)
{
    law->kind = KVT_LAW_ROOFLINE;
    law->t0 = t0;
    law->bandwidth = LINK_SHARE * bandwidth;
}

/* What a kernel that nobody has tuned reached, whatever the GPU: better than the data sheet. */
static void set_digest(struct kvt_law *law)
{
    set(law, KVT_LAW_ROOFLINE, 56e-6);
    law->bandwidth = 680e9;
    law->flops = 0.0;
    law->published = true;
    snprintf(law->source, sizeof law->source,
             "guess: sglang#39229 saw 650 to 710 GB/s and 56 us to launch, on its author's GPU");
}

struct kvt_law kvt_law_guess(enum kvt_family family, const struct kvt_gpu *gpu)
{
    struct kvt_law law = {.family = family, .p = 3.0, .guess = true};
    law.bandwidth = MEMORY_SHARE * gpu->bandwidth;
    law.flops = matrix_rate(family, gpu);
    snprintf(law.source, sizeof law.source,
             "guess: %.0f %% of the data sheet's bandwidth and %.0f %% of its matrix rate",
             MEMORY_SHARE * 100, MATRIX_SHARE * 100);
    /* clang-format off */
    switch (family) {
    case KVT_FAMILY_GEMM_BF16: case KVT_FAMILY_GEMM_FP8: case KVT_FAMILY_GEMM_FP8_BLOCK:
    case KVT_FAMILY_GEMM_INT4: case KVT_FAMILY_GEMM_FP4: case KVT_FAMILY_MLA_BMM:
        set(&law, KVT_LAW_ROOFLINE, 5e-6);
        break;
    case KVT_FAMILY_EXPERTS_BF16: case KVT_FAMILY_EXPERTS_FP8: case KVT_FAMILY_EXPERTS_FP8_BLOCK:
    case KVT_FAMILY_EXPERTS_INT4: case KVT_FAMILY_EXPERTS_FP4:
        set(&law, KVT_LAW_ROOFLINE, 30e-6);
        law.flops *= 0.5; /* experts are narrow and see few rows */
        break;
    case KVT_FAMILY_MLA_PREFILL: case KVT_FAMILY_GQA_PREFILL: case KVT_FAMILY_INDEX_PREFILL:
    case KVT_FAMILY_SPARSE_PREFILL_BF16: case KVT_FAMILY_SPARSE_PREFILL_FP8:
        set(&law, KVT_LAW_ROOFLINE, 10e-6);
        law.p = 1.0;
        break;
    case KVT_FAMILY_MLA_DECODE_BF16: case KVT_FAMILY_MLA_DECODE_FP8:
    case KVT_FAMILY_GQA_DECODE_BF16: case KVT_FAMILY_GQA_DECODE_FP8:
        set(&law, KVT_LAW_DECODE, 12e-6);
        law.tokens = 150.0;
        break;
    case KVT_FAMILY_SPARSE_DECODE_BF16: case KVT_FAMILY_SPARSE_DECODE_FP8:
        set(&law, KVT_LAW_SPARSE, 80e-6);
        law.index_bandwidth = 0.15 * gpu->bandwidth;
        break;
    case KVT_FAMILY_SPARSE_SHARED_BF16: case KVT_FAMILY_SPARSE_SHARED_FP8:
        set(&law, KVT_LAW_SPARSE, 50e-6);
        break;
    case KVT_FAMILY_ALL_REDUCE: case KVT_FAMILY_ALL_GATHER: case KVT_FAMILY_REDUCE_SCATTER:
        set_link(&law, 8e-6, gpu->link_bandwidth);
        break;
    case KVT_FAMILY_DISPATCH_LL:
        set_link(&law, 25e-6, gpu->link_bandwidth);
        break;
    case KVT_FAMILY_DISPATCH:
        set_link(&law, 60e-6, gpu->link_bandwidth);
        break;
    case KVT_FAMILY_SEND:
        set_link(&law, 10e-6, gpu->nic_bandwidth);
        break;
    case KVT_FAMILY_TAG_CHECK: set(&law, KVT_LAW_ROOFLINE, 3e-6); break;
    case KVT_FAMILY_DIGEST: set_digest(&law); break;
    case KVT_FAMILY_ELEMENTWISE: set(&law, KVT_LAW_ROOFLINE, 0.0); break;
    case KVT_FAMILY_APPEND: set(&law, KVT_LAW_CONSTANT, 0.0); break; /* part of the attention */
    case KVT_FAMILY_LAYER_MLA_MOE: case KVT_FAMILY_LAYER_MLA_DENSE: case KVT_FAMILY_LAYER_SPARSE:
        set(&law, KVT_LAW_CONSTANT, 12e-6);
        break;
    case KVT_FAMILY_LAYER_GQA_MOE: case KVT_FAMILY_LAYER_GQA_DENSE:
        set(&law, KVT_LAW_CONSTANT, 28e-6); /* 4 us x 7 small kernels */
        break;
    case KVT_FAMILY_HOST_FLOOR: set(&law, KVT_LAW_CONSTANT, 2e-3); break;
    case KVT_FAMILY_HOST_REQUEST: set(&law, KVT_LAW_CONSTANT, 0.0); break;
    case KVT_FAMILY_HOST_STEP: set(&law, KVT_LAW_CONSTANT, 1e-3); break;
    case KVT_FAMILY_PREFILL_LAYER: set(&law, KVT_LAW_CONSTANT, 0.2e-3); break;
    case KVT_FAMILY_PREFILL_STEP: set(&law, KVT_LAW_CONSTANT, 0.0); break;
    case KVT_FAMILY_REQUEST: set(&law, KVT_LAW_CONSTANT, 20e-3); break;
    case KVT_FAMILY_COUNT: break;
    }
    /* clang-format on */
    return law;
}
