/*
 * kv_pool.h - worlds for the tests of attention: requests with random KV in random pages
 *
 * Every byte of the pool is 0xff first, which is NaN in all formats; then the tokens of each
 * request are appended (kvt_ref_kv_append) to pages drawn at random. So a kernel that reads a token
 * or a page that it should not shows NaN. Page ids that no row may read are 2147480000.
 *
 * rows of one request: with chunk 1 each row is a request of its own. With chunk n, n rows share
 * the pages of one request and their contexts grow by one (a prompt chunk).
 */
#ifndef KVT_TESTS_KV_POOL_H
#define KVT_TESTS_KV_POOL_H

#include "kernels/attention.h"
#include "kernels/kv_append.h"

struct kv_shape {
    enum kvt_page_format format;
    int32_t page_tokens, heads, kv_heads, head_dim;
    int32_t rows, chunk;
    int32_t context[8]; /* of the requests, in turn; the last row of a chunk */
    float sharp;        /* factor of scale; later tokens score higher when above 1 */
    uint64_t seed;
    bool even; /* keys and values of all tokens have the same size */
};

struct kv_pool {
    struct kvt_page_layout layout;
    struct kvt_attention_call call; /* split, workspace not set */
    uint8_t *pool;
    int32_t *context, *row_pages, *page_table;
    kvt_bf16 *q, *out;
    float *lse;
};

/* Aborts the test program without memory. */
void kv_pool_init(struct kv_pool *world, const struct kv_shape *shape);
void kv_pool_release(struct kv_pool *world);

/* The same KV in other pages: call->page_table and the pool are rearranged. */
void kv_pool_permute(struct kv_pool *world, uint64_t seed);

/* Plan for so many workers, run kvt_cpu_attention into out and lse (call's own, cleared before). */
void kv_pool_attend(struct kv_pool *world, int32_t workers, int32_t overhead);

/* count values that are nearly normal, times scale. */
void kv_random(uint64_t seed, float scale, int64_t count, kvt_bf16 *values);

#endif
