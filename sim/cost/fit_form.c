/* Which form and which axes belong to a family. */
#include <stddef.h>
#include <string.h>

#include "sim/cost/fit_parts.h"
#include "sim/cost/guess.h"

#define P(name) (1u << KVT_PARAMETER_##name)

#define A(what, n)                                                                                 \
    {                                                                                              \
        KVT_DIM_##what, n, 0.0, NULL                                                               \
    }
#define B(what, n)                                                                                 \
    {                                                                                              \
        KVT_AXIS_##what, n, 0.0, NULL                                                              \
    }
#define ROOF   (P(T0) | P(BANDWIDTH) | P(FLOPS))
#define DECODE (P(T0) | P(BANDWIDTH) | P(FLOPS) | P(TOKENS) | P(SPLIT) | P(SPLIT_TOKENS))
#define SPARSE (P(TIME) | P(BANDWIDTH) | P(SPLIT) | P(SPLIT_TOKENS))
#define LINK   (P(T0) | P(BANDWIDTH))

/* Contexts: the window of sparse attention, where its time bends, is one of them. */
static const double sparse_lengths[] = {1, 256, 1024, 2048, 4096, 16384, 65536, 262144};
#define SPARSE_LENGTHS                                                                             \
    {                                                                                              \
        KVT_AXIS_LENGTH, sizeof sparse_lengths / sizeof *sparse_lengths, 0.0, sparse_lengths       \
    }

/* Tokens that choose experts: every doubling while their weights are what takes the time. */
static const double expert_rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 320, 1024, 4096, 16384};
#define EXPERT_ROWS                                                                                \
    {                                                                                              \
        KVT_DIM_M, sizeof expert_rows / sizeof *expert_rows, 0.0, expert_rows                      \
    }

/* clang-format off */
static const struct kvt_form gemm = {
    .parameters = ROOF | P(SERIAL), .p = 3.0, .bending = 0.1, .surprise = 0.05,
    .axes = {A(M, 14), A(N, 9), A(K, 9)}};
static const struct kvt_form experts = {
    .parameters = ROOF | P(PAD), .p = 3.0, .bending = 0.02, .surprise = 0.2,
    .axes = {EXPERT_ROWS, A(INTER, 4), A(EXPERTS, 4), A(RANKS, 3), A(ROUTING, 2)},
    .by_model = true, .model_axes = {EXPERT_ROWS, A(INTER, 5), A(RANKS, 5), A(ROUTING, 2)}};
static const struct kvt_form mla_decode = {
    .parameters = DECODE, .p = 3.0, .bending = 0.1, .surprise = 0.1,
    .axes = {B(BATCH, 12), B(LENGTH, 9), A(HEADS, 8)}};
static const struct kvt_form gqa_decode = {
    .parameters = DECODE, .p = 3.0, .bending = 0.1, .surprise = 0.1,
    .axes = {B(BATCH, 8), B(LENGTH, 8), A(HEADS, 4), A(KV_HEADS, 4), A(HEAD_DIM, 5)}};
static const struct kvt_form sparse = {
    .parameters = SPARSE | P(INDEX_BANDWIDTH), .p = 3.0, .bending = 0.05, .surprise = 0.1,
    .axes = {B(BATCH, 12), SPARSE_LENGTHS, A(HEADS, 4), A(HIDDEN, 2)}};
static const struct kvt_form sparse_shared = {
    .parameters = SPARSE, .p = 3.0, .bending = 0.05, .surprise = 0.1,
    .axes = {B(BATCH, 12), SPARSE_LENGTHS, A(HEADS, 4), A(HIDDEN, 2)}};
static const struct kvt_form gqa_prefill = {
    .parameters = ROOF, .p = 1.0, .bending = 0.1, .surprise = 0.1,
    .axes = {B(LENGTH, 9), A(M, 6), A(HEADS, 4), A(KV_HEADS, 2), A(HEAD_DIM, 4)}};
static const struct kvt_form mla_prefill = {
    .parameters = ROOF, .p = 1.0, .bending = 0.1, .surprise = 0.1,
    .axes = {B(LENGTH, 10), A(M, 8), A(HEADS, 8)}};
static const struct kvt_form mla_bmm = {
    .parameters = ROOF, .p = 3.0, .bending = 0.1, .surprise = 0.1,
    .axes = {A(M, 10), A(HEADS, 8)}};
static const struct kvt_form collective = {
    .parameters = LINK, .p = 3.0, .bending = 0.1, .surprise = 0.1,
    .axes = {B(BYTES, 24), A(RANKS, 4)}};
static const struct kvt_form dispatch = {
    .parameters = LINK, .p = 3.0, .bending = 0.1, .surprise = 0.1,
    .axes = {A(M, 10), A(HIDDEN, 4), A(EXPERTS, 4), A(TOPK, 3), A(N, 6)}};
static const struct kvt_form prompt_module = {
    .parameters = ROOF, .p = 1.0, .bending = 0.05, .surprise = 0.1,
    .axes = {A(M, 12), B(LENGTH, 10), B(BATCH, 11), A(HEADS, 4), A(HIDDEN, 2)}};

static const struct kvt_form *const forms[KVT_FAMILY_COUNT] = {
    [KVT_FAMILY_GEMM_BF16] = &gemm,          [KVT_FAMILY_GEMM_FP8] = &gemm,
    [KVT_FAMILY_GEMM_FP8_BLOCK] = &gemm,     [KVT_FAMILY_GEMM_INT4] = &gemm,
    [KVT_FAMILY_GEMM_FP4] = &gemm,           [KVT_FAMILY_EXPERTS_BF16] = &experts,
    [KVT_FAMILY_EXPERTS_FP8] = &experts,     [KVT_FAMILY_EXPERTS_FP8_BLOCK] = &experts,
    [KVT_FAMILY_EXPERTS_INT4] = &experts,    [KVT_FAMILY_EXPERTS_FP4] = &experts,
    [KVT_FAMILY_MLA_DECODE_BF16] = &mla_decode, [KVT_FAMILY_MLA_DECODE_FP8] = &mla_decode,
    [KVT_FAMILY_GQA_DECODE_BF16] = &gqa_decode, [KVT_FAMILY_GQA_DECODE_FP8] = &gqa_decode,
    [KVT_FAMILY_SPARSE_DECODE_BF16] = &sparse,  [KVT_FAMILY_SPARSE_DECODE_FP8] = &sparse,
    [KVT_FAMILY_SPARSE_SHARED_BF16] = &sparse_shared,
    [KVT_FAMILY_SPARSE_SHARED_FP8] = &sparse_shared,
    [KVT_FAMILY_GQA_PREFILL] = &gqa_prefill, [KVT_FAMILY_MLA_PREFILL] = &mla_prefill,
    [KVT_FAMILY_MLA_BMM] = &mla_bmm,         [KVT_FAMILY_ALL_REDUCE] = &collective,
    [KVT_FAMILY_ALL_GATHER] = &collective,   [KVT_FAMILY_REDUCE_SCATTER] = &collective,
    [KVT_FAMILY_DISPATCH_LL] = &dispatch,    [KVT_FAMILY_DISPATCH] = &dispatch,
};
/* clang-format on */

const struct kvt_form *kvt_form_of(const struct kvt_series *series)
{
    if (series->family < KVT_FAMILY_COUNT && forms[series->family] != NULL)
        return forms[series->family];
    if (series->kind == KVT_LAW_DECODE)
        return &mla_decode;
    if (!series->link)
        return &prompt_module;
    return strcmp(series->op, "alltoall") == 0 ? &collective : &dispatch;
}

struct kvt_law kvt_form_start(const struct kvt_series *series, const struct kvt_form *form,
                              const struct kvt_gpu *gpu)
{
    struct kvt_law guess = {.family = KVT_FAMILY_GEMM_BF16};
    if (series->family < KVT_FAMILY_COUNT)
        guess = kvt_law_guess((enum kvt_family)series->family, gpu);
    struct kvt_law start = {.family = guess.family, .kind = series->kind, .p = form->p};
    double bandwidth =
        series->link && gpu->link_bandwidth > 0.0 ? gpu->link_bandwidth : gpu->bandwidth;
    start.t0 = guess.t0 > 0.0 ? guess.t0 : 10e-6;
    start.bandwidth = 0.7 * bandwidth;
    start.flops = guess.flops > 0.0 ? guess.flops : 0.5 * gpu->flops_bf16;
    start.serial = 0.3e-9;
    start.pad = 24.0;
    start.tokens = 150.0;
    start.split = 5e-6;
    start.split_tokens = 500.0;
    start.index_bandwidth = 0.4 * gpu->bandwidth;
    start.time[0] = 60e-6;
    for (int p = 0; p < KVT_PARAMETER_COUNT; p++)
        if ((form->parameters >> p & 1) == 0)
            *kvt_parameter_of(&start, p) = 0.0;
    if (start.kind == KVT_LAW_SPARSE) {
        start.points = 1;
        start.at[0] = 1.0;
    }
    return start;
}
