/* table_row.h - from the columns of one row to a sample; for table.c, table_row.c (public tables)
 * and table_bench.c (our own); not for others */
#ifndef KVT_COST_TABLE_ROW_H
#define KVT_COST_TABLE_ROW_H

#include "sim/cost/table.h"

/* clang-format off */
#define KVT_COLUMNS(X)                                                                             \
    X(version) X(op_name) X(kernel_source) X(latency) X(gemm_dtype) X(m) X(n) X(k) X(moe_dtype)    \
    X(num_tokens) X(hidden_size) X(inter_size) X(topk) X(num_experts) X(moe_tp_size)               \
    X(moe_ep_size) X(distribution) X(batch_size) X(isl) X(num_heads) X(num_key_value_heads)        \
    X(head_dim) X(attn_dtype) X(mla_dtype) X(kv_cache_dtype) X(step) X(window_size) X(model)       \
    X(gemm_type) X(bmm_dtype) X(num_gpus) X(message_size) X(nccl_dtype) X(allreduce_dtype)         \
    X(backend) X(node_num) X(num_token) X(num_topk) X(dispatch_avg_t_us) X(combine_avg_t_us)       \
    X(dispatch_transmit_us) X(dispatch_sms) X(combine_transmit_us) X(combine_sms)                  \
    X(device) X(family) X(variant) X(shape) X(time_ns) X(bytes) X(flops) X(gb_per_s) X(status)
/* clang-format on */
#define X(name) KVT_COLUMN_##name,
enum kvt_column { KVT_COLUMNS(X) KVT_COLUMN_COUNT };
#undef X
extern const char *const kvt_column_names[KVT_COLUMN_COUNT];

/* One row: fields of the columns it has, NULL for those it has not. */
struct kvt_row {
    struct kvt_where where;
    const char *field[KVT_COLUMN_COUNT];
    struct kvt_err *err;
    bool failed;
    const char *op;           /* op_name, or a name for several of them */
    char dtype[96];           /* what sets the series of an op apart */
    struct kvt_series series; /* family, kind, rank, link: filled by the reader of the op */
    struct kvt_sample sample;
};

#define KVT_ROW_FAIL(row, ...)                                                                     \
    do {                                                                                           \
        kvt_err_at((row)->err, KVT_ECONFIG, (row)->where, __VA_ARGS__);                            \
        (row)->failed = true;                                                                      \
    } while (0)

/* Fill dtype, series and sample from the fields. False: the row says nothing that is fitted, or
 * (failed) is wrong. */
bool kvt_row_sample(struct kvt_row *row);

/* Set the sample's shape (a hash of these dims and more_shape) and key (of all that is in its work,
 * and of what else sets rows apart). */
void kvt_row_finish(struct kvt_row *row, const enum kvt_dim dims[], int count, double more_shape,
                    double apart);
#define KVT_ROW_FINISH(row, more, apart, ...)                                                      \
    kvt_row_finish(row, (const enum kvt_dim[]){__VA_ARGS__},                                       \
                   sizeof((const enum kvt_dim[]){__VA_ARGS__}) / sizeof(enum kvt_dim), more,       \
                   apart)

/* The same for a row of kvtwin bench. Ceilings go to their place, and rows that are not ok or that
 * no step asks for are counted; both give false. */
bool kvt_bench_row_sample(struct kvt_row *row, struct kvt_bench_facts *facts);

#endif
