/* Rows of each kind of public table: the work that a step would ask of the same kernel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/fit.h"
#include "sim/cost/table.h"
#include "tests/cost_parts.h"

static enum kvt_status parse(struct kvt_tables *tables, const char *text, struct kvt_err *err)
{
    *tables = (struct kvt_tables){0};
    *err = (struct kvt_err){0};
    return kvt_tables_parse(tables, "h200_sxm-sglang-1.2-some_perf.csv", text, strlen(text), NULL,
                            NULL, err);
}

static const char decode[] =
    "op_name,batch_size,isl,num_heads,num_key_value_heads,head_dim,kv_cache_dtype,step,latency\n";
static const char window[] = "op_name,batch_size,isl,num_heads,num_key_value_heads,head_dim,"
                             "kv_cache_dtype,step,window_size,latency\n";
static const char prompt[] = "op_name,batch_size,isl,num_heads,num_key_value_heads,head_dim,"
                             "attn_dtype,kv_cache_dtype,step,window_size,latency\n";
static const char module[] = "op_name,kernel_source,model,kv_cache_dtype,gemm_type,num_heads,"
                             "batch_size,isl,step,latency\n";
static const char bmm[] = "op_name,bmm_dtype,num_tokens,num_heads,latency\n";
static const char reduce[] =
    "op_name,kernel_source,allreduce_dtype,num_gpus,message_size,latency\n";
static const char nccl[] = "op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n";
static const char moe[] = "op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,"
                          "num_experts,moe_tp_size,moe_ep_size,distribution,latency\n";
static const char quick[] = "op_name,node_num,hidden_size,num_token,num_topk,num_experts,"
                            "combine_avg_t_us,dispatch_avg_t_us\n";
static const char wide[] = "op_name,node_num,hidden_size,num_token,num_topk,num_experts,"
                           "dispatch_sms,dispatch_transmit_us,combine_sms,combine_transmit_us\n";

#define NONE KVT_SERIES_NONE

/* clang-format off */
/* One row each; what is 0 here does not apply. Times are 50 us. */
static const struct {
    const char *header, *row, *name;
    int32_t family, rank;
    double bytes, flops, batch, context, token_bytes, token_flops, index_bytes;
    double dim[KVT_DIM_COUNT];
} rows[] = {
    /* 64 requests of 100 tokens; 2 x 8 heads x 128 values of 2 bytes, or of one */
    {decode, "generation_attention,64,1,32,8,128,bfloat16,99,0.05",
     "generation_attention bfloat16", KVT_FAMILY_GQA_DECODE_BF16, 0, 0, 0, 64, 6400, 4096, 16384,
     0, {[KVT_DIM_M] = 64, [KVT_DIM_HEADS] = 32, [KVT_DIM_KV_HEADS] = 8,
     [KVT_DIM_HEAD_DIM] = 128}},
    {window, "generation_attention,64,1,32,8,128,fp8,99,50,0.05", "generation_attention fp8",
     KVT_FAMILY_GQA_DECODE_FP8, 0, 0, 0, 64, 3200, 2048, 16384, 0, {[KVT_DIM_M] = 64,
     [KVT_DIM_HEADS] = 32, [KVT_DIM_KV_HEADS] = 8, [KVT_DIM_HEAD_DIM] = 128}},
    {window, "generation_attention,64,1,32,8,128,fp8,99,0,0.05", "generation_attention fp8",
     KVT_FAMILY_GQA_DECODE_FP8, 0, 0, 0, 64, 6400, 2048, 16384, 0, {[KVT_DIM_M] = 64,
     [KVT_DIM_HEADS] = 32, [KVT_DIM_KV_HEADS] = 8, [KVT_DIM_HEAD_DIM] = 128}},
    {window, "generation_attention,64,1,32,8,128,fp8,99,500,0.05", "generation_attention fp8",
     KVT_FAMILY_GQA_DECODE_FP8, 0, 0, 0, 64, 6400, 2048, 16384, 0, {[KVT_DIM_M] = 64,
     [KVT_DIM_HEADS] = 32, [KVT_DIM_KV_HEADS] = 8, [KVT_DIM_HEAD_DIM] = 128}},
    /* a latent of 512 + 64; scores over all of it, values over 512 */
    {decode, "mla_generation,4,1,16,1,1,bfloat16,9,0.05", "mla_generation bfloat16",
     KVT_FAMILY_MLA_DECODE_BF16, 0, 0, 0, 4, 40, 1152, 2 * 16 * 1088, 0, {[KVT_DIM_M] = 4,
     [KVT_DIM_HEADS] = 16}},
    {decode, "mla_generation,4,1,16,1,1,fp8_e4m3,9,0.05", "mla_generation fp8_e4m3",
     KVT_FAMILY_MLA_DECODE_FP8, 0, 0, 0, 4, 40, 576, 2 * 16 * 1088, 0, {[KVT_DIM_M] = 4,
     [KVT_DIM_HEADS] = 16}},
    {module, "mla_generation_module,x,DeepSeek-V3,fp8,bfloat16,16,4,1,9,0.05",
     "mla_generation_module fp8 bfloat16", NONE, 0, 0, 0, 4, 40, 576, 2 * 16 * 1088, 0,
     {[KVT_DIM_M] = 4, [KVT_DIM_HEADS] = 16, [KVT_DIM_WEIGHT_BITS] = 16}},
    /* 512 values of 8 bits, 4 scales, 64 of rope in 16 bits; index keys of 128 + 4 bytes */
    {module, "dsa_generation_module,x,zai-org/GLM-5,fp8,bfloat16,64,2,1,2999,0.05",
     "dsa_generation_module fp8 bfloat16", KVT_FAMILY_SPARSE_DECODE_FP8, 0, 0, 0, 2, 6000, 656,
     2 * 64 * 1088, 132, {[KVT_DIM_M] = 2, [KVT_DIM_HEADS] = 64, [KVT_DIM_HIDDEN] = 6144,
     [KVT_DIM_WEIGHT_BITS] = 16}},
    {module,
     "dsa_generation_module_skip_indexer,x,DeepSeek-V3.2,bfloat16,bfloat16,64,2,1,2999,0.05",
     "dsa_generation_module_skip_indexer bfloat16 bfloat16", KVT_FAMILY_SPARSE_SHARED_BF16, 0, 0,
     0, 2, 6000, 1152, 2 * 64 * 1088, 0, {[KVT_DIM_M] = 2, [KVT_DIM_HEADS] = 64,
     [KVT_DIM_HIDDEN] = 7168, [KVT_DIM_WEIGHT_BITS] = 16}},
    /* two prompts of 3 tokens behind 4 cached: 5 + 6 + 7 keys each, or 5 + 5 + 5 in a window */
    {prompt, "context_attention,2,3,32,8,128,bfloat16,bfloat16,4,0,0.05",
     "context_attention bfloat16 bfloat16", KVT_FAMILY_GQA_PREFILL, 0, 2 * 6 * 40 * 256.0,
     4 * 32 * 128 * 36.0, 1, 12, 0, 0, 0, {[KVT_DIM_M] = 6, [KVT_DIM_HEADS] = 32,
     [KVT_DIM_KV_HEADS] = 8, [KVT_DIM_HEAD_DIM] = 128}},
    {prompt, "context_attention,2,3,32,8,128,fp8,fp8,4,5,0.05", "context_attention fp8 fp8 window",
     KVT_FAMILY_GQA_PREFILL, 7, 2 * 6 * 40 * 256.0, 4 * 32 * 128 * 30.0, 1, 10, 0, 0, 0,
     {[KVT_DIM_M] = 6, [KVT_DIM_HEADS] = 32, [KVT_DIM_KV_HEADS] = 8, [KVT_DIM_HEAD_DIM] = 128}},
    {prompt, "mla_context,2,3,16,1,1,bfloat16,fp8,4,0,0.05", "mla_context fp8",
     KVT_FAMILY_MLA_PREFILL, 1, 2 * 6 * 16 * 640.0, 2 * 16 * 320 * 36.0, 1, 12, 0, 0, 0,
     {[KVT_DIM_M] = 6, [KVT_DIM_HEADS] = 16}},
    /* a module has prompts of its own: 6 new tokens, 8 cached */
    {module, "dsa_context_module,sglang_dsa_dense_mha_fa3,GLM-5,fp8,bfloat16,16,2,3,4,0.05",
     "dsa_context_module fp8 bfloat16_dense", NONE, 0,
     2 * 6 * (2 * 6144 + 16 * 1024.0) + 8 * 16 * 2 * 256.0,
     12 * (6144 * 2112.0 + 16 * 1.2e6 + 16 * 6 * 1088.0) + 2 * 64 * 128 * 36.0, 2, 14, 0, 0, 0,
     {[KVT_DIM_M] = 6, [KVT_DIM_HEADS] = 16, [KVT_DIM_HIDDEN] = 6144, [KVT_DIM_WEIGHT_BITS] = 16}},
    {module,
     "dsa_context_module_skip_indexer,sglang_skip_indexer_fa3,V3.2,fp8,bfloat16,16,2,3,4,0.05",
     "dsa_context_module_skip_indexer fp8 bfloat16_fa3", NONE, 0,
     2 * 6 * (2 * 7168 + 16 * 1024.0) + 8 * 16 * 2 * 256.0,
     12 * (7168 * 2112.0 + 16 * 1.2e6 + 16 * 6 * 1088.0), 2, 14, 0, 0, 0, {[KVT_DIM_M] = 6,
     [KVT_DIM_HEADS] = 16, [KVT_DIM_HIDDEN] = 7168, [KVT_DIM_WEIGHT_BITS] = 16}},
    /* 128 x 512 of each head */
    {bmm, "mla_gen_pre,bfloat16,4,16,0.05", "mla_bmm bfloat16", KVT_FAMILY_MLA_BMM, 0,
     2 * 16 * 65536 + 2 * 16 * 4 * 640.0, 2 * 16 * 4 * 65536.0, 0, 0, 0, 0, 0, {[KVT_DIM_M] = 4,
     [KVT_DIM_HEADS] = 16}},
    {bmm, "mla_gen_post,fp8,4,16,0.05", "mla_bmm fp8", KVT_FAMILY_MLA_BMM, 1,
     16 * 65536 + 2 * 16 * 4 * 640.0, 2 * 16 * 4 * 65536.0, 0, 0, 0, 0, 0, {[KVT_DIM_M] = 4,
     [KVT_DIM_HEADS] = 16}},
    {reduce, "all_reduce,SGLang_CustomAllReduce_graph,bfloat16,4,1000,0.05",
     "all_reduce bfloat16 graph", KVT_FAMILY_ALL_REDUCE, 0, 2000, 0, 0, 0, 0, 0, 0,
     {[KVT_DIM_RANKS] = 4}},
    {reduce, "all_reduce,SGLang_CustomAllReduce_eager,bfloat16,4,1000,0.05",
     "all_reduce bfloat16 eager", KVT_FAMILY_ALL_REDUCE, 1, 2000, 0, 0, 0, 0, 0, 0,
     {[KVT_DIM_RANKS] = 4}},
    {nccl, "all_gather,NCCL,half,8,1000,0.05", "all_gather half int8", KVT_FAMILY_ALL_GATHER, 2,
     2000, 0, 0, 0, 0, 0, 0, {[KVT_DIM_RANKS] = 8}},
    {nccl, "reduce_scatter,NCCL,int8,8,1000,0.05", "reduce_scatter half int8",
     KVT_FAMILY_REDUCE_SCATTER, 2, 1000, 0, 0, 0, 0, 0, 0, {[KVT_DIM_RANKS] = 8}},
    {nccl, "alltoall,NCCL,int8,8,1000,0.05", "alltoall half int8", NONE, 2, 1000, 0, 0, 0, 0, 0, 0,
     {[KVT_DIM_RANKS] = 8}},
    /* 3 tokens choose 4 of 64 each: 12 experts, half of them here; 3 x 512 x 128 weights of each */
    {moe, "moe,triton,bfloat16,3,512,256,4,64,2,2,balanced,0.05", "moe bfloat16 triton",
     KVT_FAMILY_EXPERTS_BF16, 0, 6 * 196608 * 2.0, 2 * 3 * 2 * 196608.0, 0, 0, 0, 0, 0,
     {[KVT_DIM_M] = 3, [KVT_DIM_HIDDEN] = 512, [KVT_DIM_INTER] = 128, [KVT_DIM_EXPERTS] = 64,
     [KVT_DIM_TOPK] = 4, [KVT_DIM_RANKS] = 2, [KVT_DIM_ROUTING] = 1}},
    {moe, "moe,triton,bfloat16,100,512,128,4,64,1,1,balanced,0.05", "moe bfloat16 triton",
     KVT_FAMILY_EXPERTS_BF16, 0, 64 * 196608 * 2.0, 2 * 400 * 196608.0, 0, 0, 0, 0, 0,
     {[KVT_DIM_M] = 100, [KVT_DIM_HIDDEN] = 512, [KVT_DIM_INTER] = 128, [KVT_DIM_EXPERTS] = 64,
     [KVT_DIM_TOPK] = 4, [KVT_DIM_RANKS] = 1, [KVT_DIM_ROUTING] = 1}},
    /* at random: one token hits its 4, two hit 64 (1 - (60/64)^2) = 7.75 */
    {moe, "moe,triton,fp8,2,512,128,4,64,1,1,power_law_1.2,0.05", "moe fp8 triton",
     KVT_FAMILY_EXPERTS_FP8, 0, 7.75 * 196608, 2 * 8 * 196608.0, 0, 0, 0, 0, 0, {[KVT_DIM_M] = 2,
     [KVT_DIM_HIDDEN] = 512, [KVT_DIM_INTER] = 128, [KVT_DIM_EXPERTS] = 64, [KVT_DIM_TOPK] = 4,
     [KVT_DIM_RANKS] = 1, [KVT_DIM_ROUTING] = 2.2}},
    {moe, "moe,triton,fp8,1,512,128,4,64,1,1,power_law_0,0.05", "moe fp8 triton",
     KVT_FAMILY_EXPERTS_FP8, 0, 4 * 196608, 2 * 4 * 196608.0, 0, 0, 0, 0, 0, {[KVT_DIM_M] = 1,
     [KVT_DIM_HIDDEN] = 512, [KVT_DIM_INTER] = 128, [KVT_DIM_EXPERTS] = 64, [KVT_DIM_TOPK] = 4,
     [KVT_DIM_RANKS] = 1, [KVT_DIM_ROUTING] = 1.01}},
    /* out in 8 bits, back in 16: 3 bytes of each value; two nodes of 8 */
    {quick, "ll,2,1024,10,4,64,30,20", "deepep_ll fp8 bf16", KVT_FAMILY_DISPATCH_LL, 0,
     3 * 10 * 4 * 1024.0, 0, 0, 0, 0, 0, 0, {[KVT_DIM_M] = 10, [KVT_DIM_HIDDEN] = 1024,
     [KVT_DIM_EXPERTS] = 64, [KVT_DIM_TOPK] = 4, [KVT_DIM_RANKS] = 16, [KVT_DIM_N] = 1}},
    {wide, "normal,1,1024,10,4,64,12,20,24,30", "deepep_normal fp8 bf16", KVT_FAMILY_DISPATCH, 0,
     3 * 10 * 4 * 1024.0, 0, 0, 0, 0, 0, 0, {[KVT_DIM_M] = 10, [KVT_DIM_HIDDEN] = 1024,
     [KVT_DIM_EXPERTS] = 64, [KVT_DIM_TOPK] = 4, [KVT_DIM_RANKS] = 8, [KVT_DIM_N] = 12}},
};
/* clang-format on */

static void a_row_is_the_work_that_a_step_asks_for(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_tables tables;
        struct kvt_err err;
        char text[512], name[128];
        const char *row = rows[i].row;
        snprintf(text, sizeof text, "%s%s\n", rows[i].header, row);
        CHECK_OK(parse(&tables, text, &err), err);
        CHECK_I64(tables.series_count, 1, row);
        if (tables.series_count == 1) {
            const struct kvt_series *series = &tables.series[0];
            const struct kvt_work *w = &series->samples[0].work;
            snprintf(name, sizeof name, "sglang 1.2 %s", rows[i].name);
            CHECK_TEXT(series->name, name, row);
            CHECK_I64(series->family, rows[i].family, row);
            CHECK_I64(series->rank, rows[i].rank, row);
            CHECK_CLOSE(series->samples[0].time, 50e-6, 1e-12, row);
            CHECK_CLOSE(w->bytes, rows[i].bytes, 1e-7, row); /* FP8: one scale */
            CHECK_CLOSE(w->flops, rows[i].flops, 1e-12, row);
            CHECK_CLOSE(w->batch, rows[i].batch, 1e-12, row);
            CHECK_CLOSE(w->context, rows[i].context, 1e-12, row);
            CHECK_CLOSE(w->token_bytes, rows[i].token_bytes, 1e-12, row);
            CHECK_CLOSE(w->token_flops, rows[i].token_flops, 1e-12, row);
            CHECK_CLOSE(w->index_bytes, rows[i].index_bytes, 1e-12, row);
            for (int d = 0; d < KVT_DIM_COUNT; d++)
                CHECK_CLOSE(w->dim[d], rows[i].dim[d], 1e-12, kvt_dim_names[d]);
        }
        kvt_tables_release(&tables);
    }
}

static void a_sparse_module_reads_what_its_index_chose(void)
{
    static const struct {
        int step;
        double windowed;
    } lengths[] = {{999, 2000}, {2047, 4096}, {99999, 4096}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct kvt_tables tables;
        struct kvt_err err;
        char text[512];
        snprintf(text, sizeof text,
                 "%sdsa_generation_module,x,GLM-5,bfloat16,fp8_block,64,2,1,%d,0.05\n", module,
                 lengths[i].step);
        CHECK_OK(parse(&tables, text, &err), err);
        CHECK_CLOSE(tables.series[0].samples[0].work.windowed, lengths[i].windowed, 1e-12,
                    "2048 of each request at most");
        kvt_tables_release(&tables);
    }
}

static void rows_of_weights_that_nobody_serves_are_left_out(void)
{
    struct kvt_tables tables;
    struct kvt_err err;
    char text[1024];
    snprintf(text, sizeof text,
             "%smoe,triton,w2a2,3,512,256,4,64,2,2,balanced,0.05\n"
             "moe,triton,nvfp4,3,512,256,4,64,2,2,balanced,0.05\n",
             moe);
    CHECK_OK(parse(&tables, text, &err), err);
    CHECK_I64(tables.series_count, 1, "w2a2 is no dtype of ours");
    CHECK_TEXT(tables.series[0].name, "sglang 1.2 moe nvfp4 triton", "");
    kvt_tables_release(&tables);
}

static void a_wrong_row_is_refused_with_its_place(void)
{
    static const struct {
        const char *header, *row, *message;
    } wrong[] = {
        {moe, "moe,x,fp8,1,1,1,1,1,1,1,power_law_x,1",
         "csv:2: distribution: want balanced or power_law_NUMBER, got \"power_law_x\""},
        {moe, "moe,x,fp8,1,1,1,1,1,1,1,power_law_-1,1", "got \"power_law_-1\""},
        {moe, "moe,x,fp8,1,1,1,1,1,1,1,power_law_,1", "got \"power_law_\""},
        {decode, "generation_atention,1,1,1,1,1,fp8,1,1",
         "csv:2: op_name: unknown \"generation_atention\"; did you mean \"generation_attention\"?"},
        {decode, "zzz,1,1,1,1,1,fp8,1,1", "csv:2: op_name: unknown \"zzz\""},
        {bmm, "generation_attention,fp8,1,1,1", "csv:2: column \"kv_cache_dtype\": wanted by op"},
        {decode, "mla_generation,0,1,16,1,1,fp8,9,0.05", "csv:2: batch_size: want at least 1"},
        {decode, "mla_generation,1,1,16,1,1,fp8,-1,0.05", "csv:2: step: want at least 0, got -1"},
        {window, "generation_attention,1,1,1,1,1,fp8,1,-2,1",
         "csv:2: window_size: want at least 0"},
        {quick, "ll,1,1024,10,4,64,0,20",
         "csv:2: combine_avg_t_us: want a time above 0 and below "
         "1000 s, got 0 us"},
        {nccl, "all_gather,NCCL,half,1,1000,0.05", "csv:2: num_gpus: want at least 2, got 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct kvt_tables tables;
        struct kvt_err err;
        char text[512];
        snprintf(text, sizeof text, "%s%s\n", wrong[i].header, wrong[i].row);
        CHECK_FAILS(parse(&tables, text, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, wrong[i].message, wrong[i].row);
        kvt_tables_release(&tables);
    }
}

/* ---- fits of each kind ---- */

static double spread(int32_t *counter) /* +-3 %, by a counter */
{
    uint64_t x = (uint64_t)++ * counter * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return 1.0 + 0.03 * ((double)(x >> 11) / (double)(UINT64_C(1) << 53) * 2.0 - 1.0);
}

static double roof(double bytes, double flops)
{
    return 5e-6 + fmax(bytes / 3e12, flops / 5e14);
}

static void moe_rows(FILE *out, int32_t *counter)
{
    for (int model = 0; model < 2; model++)
        for (int inter = 512; inter <= 2048; inter *= 2)
            for (int ranks = 1; ranks <= 4; ranks *= 2)
                for (int m = 1; m <= 4096; m *= 2) {
                    double experts = 64 << model, hidden = 2048 << model,
                           matrix = 3 * hidden * inter;
                    double hit = fmax(4, fmin(4 * m, experts)) / ranks;
                    double ms =
                        1e3 * spread(counter) * roof(hit * matrix, 2.0 * m * 4 / ranks * matrix);
                    fprintf(out, "moe,triton,fp8,%d,%g,%d,4,%g,1,%d,balanced,%.9g\n", m, hidden,
                            inter, experts, ranks, ms);
                }
}

static void sparse_rows(FILE *out, int32_t *counter)
{
    for (int heads = 16; heads <= 128; heads *= 2)
        for (int batch = 1; batch <= 128; batch *= 2)
            for (int length = 256; length <= 65536; length *= 4) {
                double seen = batch * fmin(length, 2048);
                double ms = 1e3 * spread(counter) *
                            (40e-6 + batch * 0.4e-6 + seen * 1152 / 2e12 +
                             (double)batch * length * 132 / 1e12);
                fprintf(out, "dsa_generation_module,x,GLM-5,bfloat16,bfloat16,%d,%d,1,%d,%.9g\n",
                        heads, batch, length - 1, ms);
            }
}

static void reduce_rows(FILE *out, int32_t *counter)
{
    for (int ranks = 2; ranks <= 8; ranks *= 2)
        for (int size = 128; size <= 1 << 26; size *= 2)
            fprintf(out, "all_reduce,x_graph,bfloat16,%d,%d,%.9g\n", ranks, size,
                    1e3 * spread(counter) * (6e-6 + 2.0 * size / 2e11));
}

static void dispatch_rows(FILE *out, int32_t *counter)
{
    for (int hidden = 2048; hidden <= 8192; hidden *= 2)
        for (int experts = 64; experts <= 256; experts *= 2)
            for (int m = 1; m <= 512; m *= 2) {
                double us = 1e6 * spread(counter) * (12e-6 + 3.0 * m * 8 * hidden / 1e11);
                fprintf(out, "ll,1,%d,%d,8,%d,%.9g,%.9g\n", hidden, m, experts, us / 2, us / 2);
            }
}

static void prompt_rows(FILE *out, int32_t *counter)
{
    for (int heads = 8; heads <= 64; heads *= 2)
        for (int n = 64; n <= 16384; n *= 2)
            for (int batch = 1; batch <= 8; batch *= 2) {
                double m = (double)batch * n, pairs = m * (n + 1.0) / 2;
                double ms = 1e3 * spread(counter) *
                            (8e-6 + 2 * m * heads * 640 / 3e12 + 2.0 * heads * 320 * pairs / 4e14);
                fprintf(out, "mla_context,%d,%d,%d,1,1,bfloat16,bfloat16,0,0,%.9g\n", batch, n,
                        heads, ms);
            }
}

static void bmm_rows(FILE *out, int32_t *counter)
{
    for (int heads = 8; heads <= 128; heads += 8)
        for (int m = 1; m <= 16384; m *= 2)
            fprintf(out, "mla_gen_pre,bfloat16,%d,%d,%.9g\n", m, heads,
                    1e3 * spread(counter) *
                        roof(2.0 * heads * 65536 + 2.0 * heads * m * 640, 2.0 * heads * m * 65536));
}

static void module_rows(FILE *out, int32_t *counter)
{
    for (int heads = 16; heads <= 64; heads *= 2)
        for (int n = 64; n <= 8192; n *= 2)
            for (int batch = 1; batch <= 16; batch *= 2)
                fprintf(out, "dsa_context_module,x_fa3,GLM-5,fp8,bfloat16,%d,%d,%d,0,%.9g\n", heads,
                        batch, n,
                        1e3 * spread(counter) *
                            (60e-6 + 2.0 * batch * n * (6144 * 2112.0 + heads * 1.2e6) / 4e14));
}

static void each_kind_of_table_is_fitted(void)
{
    static const struct {
        const char *header;
        void (*rows)(FILE *, int32_t *);
        const char *what;
        int32_t laws; /* one a model, and the general one */
    } kinds[] = {
        {moe, moe_rows, "experts, two models", 3},     {module, sparse_rows, "sparse decode", 1},
        {reduce, reduce_rows, "all-reduce", 1},        {quick, dispatch_rows, "dispatch", 1},
        {prompt, prompt_rows, "MLA prefill", 1},       {bmm, bmm_rows, "MLA BMM", 1},
        {module, module_rows, "a prompt's module", 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char *text = NULL;
        size_t bytes;
        int32_t counter = 0;
        FILE *out = open_memstream(&text, &bytes);
        struct kvt_tables tables;
        struct kvt_fit fit;
        struct kvt_err err;
        fputs(kinds[i].header, out);
        kinds[i].rows(out, &counter);
        fclose(out);
        CHECK_OK(parse(&tables, text, &err), err);
        CHECK_OK(kvt_fit_series(&fit, &tables.series[0], &tables, &cost_gpu, &err), err);
        CHECK_I64(fit.law_count, kinds[i].laws, kinds[i].what);
        CHECK_I64(fit.rows, counter, kinds[i].what);
        CHECK_NOTE(!fit.bad && fit.trouble[0] == '\0', kinds[i].what);
        CHECK_NOTE(fit.held.rows >= 10, kinds[i].what);
        CHECK_CLOSE(1.0 + fit.held.median, 1.0, 0.05, kinds[i].what);
        kvt_fit_release(&fit);
        kvt_tables_release(&tables);
        free(text);
    }
}

const struct check_test check_table[] = {
    {"a row is the work that a step asks for", a_row_is_the_work_that_a_step_asks_for, false},
    {"a sparse module reads what its index chose", a_sparse_module_reads_what_its_index_chose,
     false},
    {"rows of weights that nobody serves are left out",
     rows_of_weights_that_nobody_serves_are_left_out, false},
    {"a wrong row is refused with its place", a_wrong_row_is_refused_with_its_place, false},
    {"each kind of table is fitted", each_kind_of_table_is_fitted, false},
    {NULL, NULL, false},
};
