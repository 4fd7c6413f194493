/*
 * bench_pool.h - a pool of KV pages whose tokens lie in scattered order; for bench*.c alone
 *
 * The first KVT_BENCH_FILLED pages (after page 0) are written by the backend's own append, all
 * others are copies of them: what matters for time is where they lie.
 */
#ifndef KVT_RUNTIME_BENCH_POOL_H
#define KVT_RUNTIME_BENCH_POOL_H

#include "runtime/bench_job.h"

#define KVT_BENCH_PAGE_TOKENS 64
#define KVT_BENCH_FILLED      64
#define KVT_BENCH_KV_HEADS    8
#define KVT_BENCH_HEAD_DIM    128

struct kvt_bench_pool {
    struct kvt_bench_memory memory;
    struct kvt_page_layout layout;
    const char *variant;               /* "bf16", "fp8-scaled", "fp8-plain" */
    int32_t pages;                     /* without page 0 */
    struct kvt_bench_array pool;       /* device */
    struct kvt_bench_array table;      /* [pages] ids 1..pages, shuffled */
    struct kvt_bench_array key, value; /* of the filled tokens */
    struct kvt_bench_array slot, stamp, tags;
};

/* bytes of pages at most; tag_bytes 16: with headers, whose stamp is 5. Release its memory. */
enum kvt_status kvt_bench_pool_take(struct kvt_bench_pool *pool, struct kvt_bench *bench,
                                    enum kvt_page_format format, int32_t tag_bytes, int64_t bytes,
                                    struct kvt_err *err);

/* The pages as bytes of K and V of one token, scales included. */
double kvt_bench_token_bytes(const struct kvt_page_layout *layout);

/* Append of the first tokens of the filled ones, wherever slot says. */
struct kvt_kv_append kvt_bench_append(const struct kvt_bench_pool *pool, int32_t tokens);

#endif
