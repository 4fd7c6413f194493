/*
 * attention.h - attention of query rows over paged KV, GQA and MLA
 *
 * A row is one query token of one request. It attends to the first context[row] tokens of the pages
 * page_table[row_pages[row] ...]: token t lies in page t / page_tokens of that list. A decode step
 * has one row a request; a prompt chunk has one row a token, rows share their page list and their
 * contexts grow by one, which is causal attention. A row of context 0 gives zeros and an lse of
 * -inf.
 *
 *     GQA   q [rows][heads][head_dim], out [rows][heads][head_dim]; head h reads kv head
 *           h / (heads / kv_heads)
 *     MLA   q [rows][heads][576] (absorbed: latent part, then RoPE), out [rows][heads][512]; the
 *           score uses all 576, the value is the latent (512)
 *
 *     score = scale * (q . k),  p = exp(score - max),  out = sum p v / sum p,
 *     lse = max + ln(sum p)                                   (natural logarithm)
 *
 * FP8 pages are dequantised exactly (scales are powers of two, plain_scale multiplies). Sums are in
 * FP32, out is BF16. Tolerance against double precision on the dequantised cache: 1e-3 absolute or
 * 2.01/128 relative per element, and a cosine difference below 5e-6; for values of a size of about
 * 1 on the CPU (p is FP32, or BF16 and what rounding left where few tokens count), of about 0.1 on
 * CUDA, where p is rounded. Where values are larger the absolute part grows with them. Tokens
 * behind the context and pages that no row names are never read into a result (NaN there does no
 * harm); NaN in a used token reaches out.
 *
 * Split-KV: a row is cut into pieces of whole pages so that all workers are busy (split.h); a piece
 * leaves (max, sum, unnormalised out) in the workspace and pieces are merged by log-sum-exp in the
 * order of their pages. Pieces depend on contexts and worker count only: out is bit-identical from
 * run to run and under any permutation of page ids. With one piece the workspace is not used.
 *
 * Cost: bytes = rows' tokens * token bytes (once per kv head), FLOPs = 2 * heads * tokens * (dim +
 * value dim).
 */
#ifndef KVT_KERNELS_ATTENTION_H
#define KVT_KERNELS_ATTENTION_H

#include "kernels/formats.h"
#include "kernels/kv_page.h"
#include "kernels/split.h"

struct kvt_attention_call {
    const struct kvt_page_layout *layout;
    const uint8_t *pool; /* of one layer */
    int32_t pool_pages;
    int32_t rows, heads;
    const int32_t *context;    /* [rows] tokens */
    const int32_t *row_pages;  /* [rows] where the row's list starts in page_table */
    const int32_t *page_table; /* [page_table_size] */
    int32_t page_table_size;
    float scale;
    float plain_scale;             /* MLA_PLAIN; > 0 */
    const kvt_bf16 *q;             /* see above */
    kvt_bf16 *out;                 /* see above */
    float *lse;                    /* [rows][heads], or NULL */
    const struct kvt_split *split; /* how rows are cut; on the device for CUDA */
    void *workspace;               /* kvt_attention_workspace_bytes() */
};

/* Heads of one MLA work unit unless a split says otherwise. */
#define KVT_ATTENTION_MLA_UNIT_HEADS 16

/* Work units of a row, for kvt_split_place: kv heads; MLA: blocks of 16 heads, rounded up. A split
 * with other MLA units is as good, as long as every unit has a head. */
int32_t kvt_attention_units(const struct kvt_page_layout *layout, int32_t heads);

/* Heads of a work unit: unit u has heads u * n .. min((u + 1) * n, heads), n = ceil(heads / units).
 */
static inline int32_t kvt_attention_unit_heads(int32_t heads, int32_t units)
{
    return (heads + units - 1) / units;
}

/* Bytes for the partial results of any plan of this split (placed; planned or not): 2 * workers
 * slots of (heads of a unit) * (value_dim + 2) floats, a slot padded to 128 bytes. A backend's own
 * order in a slot: max [heads], sum [heads], unnormalised out [heads][value_dim] on the CPU. */
size_t kvt_attention_workspace_bytes(const struct kvt_page_layout *layout, int32_t heads,
                                     const struct kvt_split *split);

/* Bytes from one slot to the next. */
size_t kvt_attention_slot_bytes(const struct kvt_page_layout *layout, int32_t heads, int32_t units);

/* Page ids in range (and not 0), lists inside page_table, heads a multiple of kv_heads with 1..16
 * heads a kv head (MLA: 1..128 heads), finite scales above 0, a split (unless NULL) of these rows
 * and units: KVT_ELIMIT names row and slot of the first that is not. Host memory only. O(pages). */
enum kvt_status kvt_attention_check(const struct kvt_attention_call *attention,
                                    struct kvt_err *err);

/* In double precision, one row after the other, without pieces; split and workspace may be NULL. */
void kvt_ref_attention(const struct kvt_attention_call *attention);

/* OpenMP threads take workers of the split one after the other; bits depend on the split, not on
 * the threads. The pool lies in host memory aligned to 64. */
void kvt_cpu_attention(const struct kvt_attention_call *attention);

#endif
