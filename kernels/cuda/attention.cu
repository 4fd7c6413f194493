/* Attention: which kernel for which format and shape, and the merge of pieces. */
#include "kernels/cuda/gqa.cuh"
#include "kernels/cuda/mla.cuh"

/* ---- merge: budget merge_k 48 ---- */

/* One block for each row and unit with several pieces; a thread takes four elements at a time.
 * Slots are summed in the order of their pages. */
__global__ void __launch_bounds__(256) merge_k(struct attention_args args)
{
    struct kvt_merge merge = args.merges[blockIdx.x];
    int64_t sums = (int64_t)args.unit_heads * args.value_dim;
    const float *first = args.workspace + merge.first_slot * args.slot_floats;
    int quarters = args.value_dim / 4;
    for (int i = (int)threadIdx.x; i < heads_of(args, merge.unit) * quarters; i += 256) {
        int h = i / quarters, dim = i % quarters * 4;
        float max = -INFINITY, sum = 0.0f, out[4] = {};
        for (int p = 0; p < merge.count; p++)
            max = fmaxf(max, first[p * args.slot_floats + sums + h]);
        for (int p = 0; p < merge.count; p++) {
            const float *slot = first + p * args.slot_floats;
            float weight = weight_of(slot[sums + h], max);
            sum += slot[sums + args.unit_heads + h] * weight;
            uint4 four = kvt_load<uint4>(slot + h * args.value_dim + dim);
            out[0] += __uint_as_float(four.x) * weight;
            out[1] += __uint_as_float(four.y) * weight;
            out[2] += __uint_as_float(four.z) * weight;
            out[3] += __uint_as_float(four.w) * weight;
        }
        float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
        int64_t head = (int64_t)merge.row * args.heads + merge.unit * args.unit_heads + h;
        kvt_store<uint2>(args.out + head * args.value_dim + dim,
                         uint2{kvt_bf16x2(out[0] * factor, out[1] * factor),
                               kvt_bf16x2(out[2] * factor, out[3] * factor)});
        if (dim == 0 && args.lse != nullptr)
            args.lse[head] = lse_of(max, sum);
    }
}

/* ---- which kernel ---- */

struct choice {
    void (*kernel)(struct attention_args);
    const char *name;
    int shared;
};

template <bool FP8, int HD> static struct choice gqa_choice(int group)
{
    const char *name = FP8 ? "gqa_k FP8" : "gqa_k BF16";
    if (group > 8 && HD < 256) /* 256: registers for 8 heads only; 16 are done 8 by 8 */
        return {gqa_k < FP8, HD, HD < 256 ? 2 : 1 >, name, gqa_shape<FP8, HD>::SHARED};
    return {gqa_k<FP8, HD, 1>, name, gqa_shape<FP8, HD>::SHARED};
}

template <bool FP8> static struct choice gqa_choice(int head_dim, int group)
{
    if (head_dim == 64)
        return gqa_choice<FP8, 64>(group);
    return head_dim == 128 ? gqa_choice<FP8, 128>(group) : gqa_choice<FP8, 256>(group);
}

template <int FORMAT> static struct choice mla_choice(const char *name)
{
    return {mla_k<FORMAT>, name, mla_shape<FORMAT>::SHARED};
}

static struct choice choose(const struct kvt_page_layout *layout, int unit_heads)
{
    switch (layout->format) {
    case KVT_PAGE_GQA_BF16:
        return gqa_choice<false>(layout->head_dim, unit_heads);
    case KVT_PAGE_GQA_FP8:
        return gqa_choice<true>(layout->head_dim, unit_heads);
    case KVT_PAGE_MLA_BF16:
        return mla_choice<KVT_PAGE_MLA_BF16>("mla_k BF16");
    case KVT_PAGE_MLA_PLAIN:
        return mla_choice<KVT_PAGE_MLA_PLAIN>("mla_k plain FP8");
    default:
        return mla_choice<KVT_PAGE_MLA_SCALED>("mla_k scaled FP8");
    }
}

/* ---- launchers ---- */

int32_t kvt_cuda_attention_workers(const struct kvt_page_layout *layout, int32_t heads,
                                   int32_t multiprocessors)
{
    int32_t units = kvt_attention_units(layout, heads);
    int shared = choose(layout, kvt_attention_unit_heads(heads, units)).shared;
    /* 228 KB for all blocks of a multiprocessor, of which each takes 1 KB more than it asks for. */
    int32_t blocks = (228 << 10) / (shared + 1024);
    return multiprocessors * (blocks < 4 ? blocks : 4);
}

static struct attention_args args_of(const struct kvt_attention_call *attention)
{
    const struct kvt_page_layout *layout = attention->layout;
    const struct kvt_split *split = attention->split;
    bool plain = layout->format == KVT_PAGE_MLA_PLAIN;
    struct attention_args args = {};
    args.pool = attention->pool;
    args.context = attention->context;
    args.row_pages = attention->row_pages;
    args.page_table = attention->page_table;
    args.score_scale = attention->scale * LOG2E * (plain ? attention->plain_scale : 1.0f);
    args.value_scale = plain ? attention->plain_scale : 1.0f;
    args.q = attention->q;
    args.out = attention->out;
    args.lse = attention->lse;
    args.workspace = static_cast<float *>(attention->workspace);
    args.slot_floats =
        (int64_t)(kvt_attention_slot_bytes(layout, attention->heads, split->units) / sizeof(float));
    args.heads = attention->heads;
    args.units = split->units;
    args.unit_heads = kvt_attention_unit_heads(attention->heads, split->units);
    args.page_shift = __builtin_ctz((unsigned)layout->page_tokens);
    args.head_dim = layout->head_dim;
    args.value_dim = layout->value_dim;
    args.page_bytes = layout->page_bytes;
    args.token_bytes = layout->token_bytes;
    args.value_offset = layout->value_offset;
    args.key_scale_offset = layout->key_scale_offset;
    args.value_scale_offset = layout->value_scale_offset;
    args.worker_piece = split->worker_piece;
    args.pieces = split->pieces;
    args.merges = split->merges;
    return args;
}

enum kvt_status kvt_cuda_attention(const struct kvt_attention_call *attention, void *stream,
                                   struct kvt_err *err)
{
    if (attention->rows < 1)
        return KVT_OK;
    struct attention_args args = args_of(attention);
    if (args.unit_heads > MLA_HEADS)
        return kvt_err_set(err, KVT_ELIMIT, "cuda: attention: %d heads in a work unit; at most %d",
                           args.unit_heads, MLA_HEADS);
    struct choice choice = choose(attention->layout, args.unit_heads);
    KVT_TRY(kvt_launch(choice.name, choice.kernel, dim3((unsigned)attention->split->workers),
                       ATTENTION_THREADS, (size_t)choice.shared, stream, args, err));
    if (attention->split->merge_count < 1)
        return KVT_OK;
    return KVT_LAUNCH(merge_k, dim3((unsigned)attention->split->merge_count), 256, 0, stream, args,
                      err);
}
