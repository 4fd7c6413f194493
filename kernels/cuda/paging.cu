/*
 * paging.cu - append, convert and the tag check: the kernels that walk pages
 *
 * Append and convert share one device function: a warp quantises one group (GQA: K or V of a token
 * and head; MLA: 128 of the latent, or the RoPE part) with lanes side by side, the largest
 * magnitude by five shuffles. Stamps are a kernel of their own, behind the data in the stream: a
 * page's generation is written after its last byte, whichever blocks wrote it.
 *
 * Registers (scripts/cuda.sh holds ptxas to them):
 *     budget append_k 40      budget convert_k 40     budget stamp_k 32
 *     budget tag_check_k 40   budget tag_reset_k 16
 */
#include "kernels/cuda/launch.cuh"

#define WARPS 4

#ifdef __CUDACC__
#define TAG_BLOCKS 528 /* four on each multiprocessor of an H200 */
#else
#define TAG_BLOCKS 2
#endif

/* ---- quantise ---- */

/* The layout, as kernels need it. */
struct pages {
    int32_t format, page_tokens, kv_heads, head_dim, groups;
    int64_t page_bytes, token_bytes, value_offset, key_scale_offset, value_scale_offset, tag_offset;
    float plain_scale;
};

/* Where a group comes from and goes to. */
struct group {
    const kvt_bf16 *source;
    uint8_t *target;
    uint8_t *scale; /* where the scale of the group is kept, or NULL */
    int32_t count;  /* elements: 64, 128 or 256 */
    bool copied;    /* BF16 stays BF16 */
};

KVT_DEVICE bool is_finite(uint32_t bf16)
{
    return (bf16 & 0x7fff) < 0x7f80;
}

/* Group g of a token in a page. source: of the token, stride elements between heads. */
KVT_DEVICE struct group group_of(const struct pages &pages, const kvt_bf16 *key,
                                 const kvt_bf16 *value, int64_t stride, uint8_t *page, int position,
                                 int g)
{
    struct group group;
    group.scale = nullptr;
    if (pages.format == KVT_PAGE_GQA_BF16 || pages.format == KVT_PAGE_GQA_FP8) {
        bool is_value = g >= pages.kv_heads;
        int head = is_value ? g - pages.kv_heads : g;
        int64_t row = (int64_t)head * pages.page_tokens + position;
        group.source = (is_value ? value : key) + head * stride;
        group.count = pages.head_dim;
        group.target = page + (is_value ? pages.value_offset : 0) + row * pages.token_bytes;
        group.copied = pages.format == KVT_PAGE_GQA_BF16;
        if (!group.copied)
            group.scale =
                page + (is_value ? pages.value_scale_offset : pages.key_scale_offset) + 4 * row;
        return group;
    }
    uint8_t *token = page + position * pages.token_bytes;
    bool rope = g == KVT_MLA_LATENT / KVT_MLA_SCALE_GROUP;
    int first = g * KVT_MLA_SCALE_GROUP;
    group.source = key + first;
    group.count = rope ? KVT_MLA_ROPE : KVT_MLA_SCALE_GROUP;
    group.copied =
        pages.format == KVT_PAGE_MLA_BF16 || (rope && pages.format == KVT_PAGE_MLA_SCALED);
    group.target = token + first * (pages.format == KVT_PAGE_MLA_BF16 ? 2 : 1);
    if (pages.format == KVT_PAGE_MLA_SCALED) {
        if (rope)
            group.target = token + KVT_MLA_LATENT + 4 * (KVT_MLA_LATENT / KVT_MLA_SCALE_GROUP);
        else
            group.scale = token + KVT_MLA_LATENT + 4 * g;
    }
    return group;
}

/* Lane's elements of a chunk of 64, two at a time. Returns whether one of the group is not finite.
 */
KVT_DEVICE bool write_group(const struct group &group, float plain_scale)
{
    int lane = kvt_lane();
    float amax = 0.0f;
    bool bad = false;
    uint32_t pair[4]; /* 256 elements at most */
    KVT_UNROLL
    for (int i = 0; i < 4; i++) {
        if (64 * i >= group.count)
            break;
        pair[i] = kvt_load<uint32_t>(group.source + 64 * i + 2 * lane);
        bool low = is_finite(pair[i]), high = is_finite(pair[i] >> 16);
        bad = bad || !low || !high;
        amax = fmaxf(amax, low ? fabsf(kvt_bf16_low(pair[i])) : 0.0f);
        amax = fmaxf(amax, high ? fabsf(kvt_bf16_high(pair[i])) : 0.0f);
    }
    float scale = plain_scale;
    if (group.scale != nullptr) {
        scale = kvt_fp8_scale_of(kvt_warp_max(amax, KVT_FAULT(half_warp) ? 15 : 31));
        if (lane == 0)
            kvt_store<float>(group.scale, scale);
    }
    KVT_UNROLL
    for (int i = 0; i < 4; i++) {
        if (64 * i >= group.count)
            break;
        int at = 64 * i + 2 * lane;
        if (group.copied) {
            kvt_store<uint32_t>(group.target + 2 * at, pair[i]);
            continue;
        }
        uint32_t codes = kvt_e4m3x2(kvt_bf16_low(pair[i]) / scale, kvt_bf16_high(pair[i]) / scale);
        if (!is_finite(pair[i]))
            codes = (codes & 0xff00) | KVT_E4M3_NAN;
        if (!is_finite(pair[i] >> 16))
            codes = (codes & 0xff) | KVT_E4M3_NAN << 8;
        kvt_store<uint16_t>(group.target + at, (uint16_t)codes);
    }
    return __ballot_sync(KVT_WARP, bad) != 0;
}

/* ---- append ---- */

struct append_args {
    struct kvt_kv_append append;
    struct pages pages;
};

/* Whether the group has an element that is not finite; it is only read. */
KVT_DEVICE bool group_is_bad(const struct group &group)
{
    bool bad = false;
    for (int at = 2 * kvt_lane(); at < group.count; at += 64) {
        uint32_t pair = kvt_load<uint32_t>(group.source + at);
        bad = bad || !is_finite(pair) || !is_finite(pair >> 16);
    }
    return __ballot_sync(KVT_WARP, bad) != 0;
}

/* Warp w of the grid: token w / groups, group w % groups. */
__global__ void __launch_bounds__(32 * WARPS) append_k(struct append_args args)
{
    const struct pages &pages = args.pages;
    int64_t warp = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int64_t token = warp / pages.groups;
    int g = (int)(warp % pages.groups);
    if (token >= args.append.tokens)
        return;
    int64_t slot = args.append.slot[token];
    if (slot < 0)
        return;
    uint8_t *page = args.append.pool + slot / pages.page_tokens * pages.page_bytes;
    int position = (int)(slot % pages.page_tokens);
    int64_t elements = (int64_t)pages.kv_heads * pages.head_dim;
    const kvt_bf16 *key = args.append.key + token * elements;
    const kvt_bf16 *value =
        args.append.value == nullptr ? nullptr : args.append.value + token * elements;
    struct group group = group_of(pages, key, value, pages.head_dim, page, position, g);
    bool bad = write_group(group, pages.plain_scale);
    if (!bad || args.append.poisoned == nullptr)
        return;
    /* A token counts once: by its first bad group. */
    for (int before = 0; before < g; before++)
        if (group_is_bad(group_of(pages, key, value, pages.head_dim, page, position, before)))
            return;
    if (kvt_lane() == 0)
        atomicAdd(args.append.poisoned, 1);
}

struct stamp_args {
    struct pages pages;
    uint8_t *pool;
    struct kvt_page_tag *tags;
    const uint64_t *stamp;
    const int64_t *slot;   /* append */
    const int32_t *page;   /* convert */
    const int32_t *tokens; /* convert */
    int32_t count;
};

__global__ void __launch_bounds__(128) stamp_k(struct stamp_args args)
{
    int64_t i = (int64_t)blockIdx.x * 128 + threadIdx.x;
    if (i >= args.count)
        return;
    int64_t page = args.slot == nullptr ? args.page[i] : args.slot[i];
    if (args.slot == nullptr ? args.tokens[i] <= 0 : page < 0)
        return;
    if (args.slot != nullptr)
        page /= args.pages.page_tokens;
    if (args.pages.tag_offset >= 0)
        kvt_store_stamp(args.pool + page * args.pages.page_bytes + args.pages.tag_offset,
                        args.stamp[i]);
    if (args.tags != nullptr)
        kvt_store_stamp(&args.tags[page].content, args.stamp[i]);
}

/* ---- convert ---- */

struct convert_args {
    struct kvt_kv_convert convert;
    struct pages from, to;
};

/* Block (x, y): page y of the list, warps along tokens and groups. */
__global__ void __launch_bounds__(32 * WARPS) convert_k(struct convert_args args)
{
    const struct pages &from = args.from, &to = args.to;
    int warp = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32;
    int position = warp / to.groups, g = warp % to.groups;
    int64_t i = (int64_t)blockIdx.z * 65535 + blockIdx.y;
    if (i >= args.convert.pages || position >= args.convert.tokens[i])
        return;
    const uint8_t *source = args.convert.source + args.convert.source_page[i] * from.page_bytes;
    uint8_t *target = args.convert.target + args.convert.target_page[i] * to.page_bytes;
    const kvt_bf16 *key = static_cast<const kvt_bf16 *>(
        static_cast<const void *>(source + position * from.token_bytes));
    struct group group = group_of(to, key, key + from.value_offset / 2,
                                  (int64_t)from.page_tokens * from.head_dim, target, position, g);
    write_group(group, to.plain_scale);
}

/* ---- tag check ---- */

struct tag_args {
    struct kvt_tag_check check;
    int64_t page_bytes, tag_offset; /* tag_offset -1: side array only */
};

__global__ void __launch_bounds__(256) tag_reset_k(struct tag_args args)
{
    int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i == 0) {
        *args.check.failures = 0;
        *args.check.first = UINT64_MAX;
    }
    if (i < args.check.request_count)
        args.check.failed[i] = 0;
}

KVT_DEVICE bool entry_fails(const struct tag_args &args, int32_t page, uint64_t want)
{
    if ((page < 0 || page >= args.check.pool_pages) && !KVT_FAULT(page_range))
        return true;
    ulonglong2 tag = kvt_load<ulonglong2>(args.check.tags + page);
    uint64_t content = tag.y;
    if (args.tag_offset >= 0)
        content = kvt_load<uint64_t>(args.check.pool + page * args.page_bytes + args.tag_offset);
    return (((tag.x ^ want) | (content ^ want)) & args.check.mask) != 0;
}

/* The request that owns an entry: the last r with begin[r] <= entry. */
KVT_DEVICE int32_t request_of(const struct tag_args &args, int32_t entry)
{
    int32_t low = 0, high = args.check.request_count; /* begin[low] <= entry < begin[high] */
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (args.check.begin[middle] <= entry)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Lanes with an entry that fails; all lanes come here. Rare, so it may search. */
KVT_DEVICE void report(const struct tag_args &args, bool fails, int32_t entry)
{
    uint32_t who = __ballot_sync(KVT_WARP, fails);
    if (who == 0)
        return;
    if (fails) {
        int32_t request = request_of(args, entry);
        kvt_store_flag(args.check.failed + request, 1);
        unsigned long long first =
            (unsigned long long)request << 32 | (unsigned)(entry - args.check.begin[request]);
        atomicMin(reinterpret_cast<unsigned long long *>(args.check.first), first);
    }
    if (kvt_lane() == 0)
        atomicAdd(args.check.failures, __popc(who));
}

/* Each thread takes four entries at once, on a multiple of four; the grid strides over the rest. */
__global__ void __launch_bounds__(256) tag_check_k(struct tag_args args)
{
    int64_t begin = args.check.begin[0], end = args.check.begin[args.check.request_count];
    int64_t step = (int64_t)gridDim.x * 256 * 4;
    for (int64_t base = (begin & ~(int64_t)3) + (int64_t)blockIdx.x * 256 * 4; base < end;
         base += step) {
        int64_t i = base + 4 * (int64_t)threadIdx.x;
        int32_t page[4];
        uint64_t want[4];
        if (i >= begin && i + 4 <= end) {
            int4 pages = kvt_load<int4>(args.check.page + i);
            ulonglong2 low = kvt_load<ulonglong2>(args.check.want + i);
            ulonglong2 high = kvt_load<ulonglong2>(args.check.want + i + 2);
            page[0] = pages.x, page[1] = pages.y, page[2] = pages.z, page[3] = pages.w;
            want[0] = low.x, want[1] = low.y, want[2] = high.x, want[3] = high.y;
        } else {
            KVT_UNROLL
            for (int j = 0; j < 4; j++) {
                bool in = i + j >= begin && i + j < end;
                page[j] = in ? args.check.page[i + j] : 0;
                want[j] = in ? args.check.want[i + j] : 0;
            }
        }
        bool fails[4], any = false;
        KVT_UNROLL
        for (int j = 0; j < 4; j++) {
            fails[j] = i + j >= begin && i + j < end && entry_fails(args, page[j], want[j]);
            any = any || fails[j];
        }
        if (__ballot_sync(KVT_WARP, any) == 0)
            continue;
        for (int j = 0; j < 4; j++)
            report(args, fails[j], (int32_t)(i + j));
    }
}

/* ---- launchers ---- */

static unsigned blocks(int64_t count, int64_t each)
{
    return (unsigned)((count + each - 1) / each);
}

static struct pages pages_of(const struct kvt_page_layout *layout, float plain_scale)
{
    struct pages pages = {};
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    pages.format = layout->format;
    pages.page_tokens = layout->page_tokens;
    pages.kv_heads = layout->kv_heads;
    pages.head_dim = layout->head_dim;
    pages.groups = mla ? KVT_MLA_LATENT / KVT_MLA_SCALE_GROUP + 1 : 2 * layout->kv_heads;
    pages.page_bytes = layout->page_bytes;
    pages.token_bytes = layout->token_bytes;
    pages.value_offset = layout->value_offset;
    pages.key_scale_offset = layout->key_scale_offset;
    pages.value_scale_offset = layout->value_scale_offset;
    pages.tag_offset = layout->tag_offset;
    pages.plain_scale = plain_scale;
    return pages;
}

enum kvt_status kvt_cuda_kv_append(const struct kvt_kv_append *append, void *stream,
                                   struct kvt_err *err)
{
    if (append->tokens < 1)
        return KVT_OK;
    struct append_args args = {*append, pages_of(append->layout, append->plain_scale)};
    args.append.layout = nullptr;
    KVT_TRY(KVT_LAUNCH(append_k, dim3(blocks((int64_t)append->tokens * args.pages.groups, WARPS)),
                       32 * WARPS, 0, stream, args, err));
    if (append->stamp == nullptr)
        return KVT_OK;
    struct stamp_args stamp = {args.pages,   append->pool, append->tags, append->stamp,
                               append->slot, nullptr,      nullptr,      append->tokens};
    return KVT_LAUNCH(stamp_k, dim3(blocks(append->tokens, 128)), 128, 0, stream, stamp, err);
}

enum kvt_status kvt_cuda_kv_convert(const struct kvt_kv_convert *convert, void *stream,
                                    struct kvt_err *err)
{
    if (convert->pages < 1)
        return KVT_OK;
    struct convert_args args = {*convert, pages_of(convert->from, convert->plain_scale),
                                pages_of(convert->to, convert->plain_scale)};
    args.convert.from = args.convert.to = nullptr;
    dim3 grid(blocks((int64_t)args.to.page_tokens * args.to.groups, WARPS),
              convert->pages < 65535 ? (unsigned)convert->pages : 65535,
              blocks(convert->pages, 65535));
    KVT_TRY(KVT_LAUNCH(convert_k, grid, 32 * WARPS, 0, stream, args, err));
    if (convert->stamp == nullptr)
        return KVT_OK;
    struct stamp_args stamp = {args.to, convert->target,      convert->tags,   convert->stamp,
                               nullptr, convert->target_page, convert->tokens, convert->pages};
    return KVT_LAUNCH(stamp_k, dim3(blocks(convert->pages, 128)), 128, 0, stream, stamp, err);
}

enum kvt_status kvt_cuda_tag_check(const struct kvt_tag_check *check, void *stream,
                                   struct kvt_err *err)
{
    struct tag_args args = {*check, 0, -1};
    args.check.layout = nullptr;
    if (check->layout != nullptr) {
        args.page_bytes = check->layout->page_bytes;
        args.tag_offset = check->layout->tag_offset;
    }
    KVT_TRY(KVT_LAUNCH(tag_reset_k, dim3(blocks((int64_t)check->request_count + 1, 256)), 256, 0,
                       stream, args, err));
    if (check->request_count < 1)
        return KVT_OK;
    /* How many entries there are is known on the device only: a grid of the device's size. */
    return KVT_LAUNCH(tag_check_k, dim3(TAG_BLOCKS), 256, 0, stream, args, err);
}
