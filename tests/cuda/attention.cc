/* Attention against the reference in double precision, under the tolerances of attention.h. */
#include <cmath>

#include "tests/cuda/cuda_check.h"

struct shape {
    enum kvt_page_format format;
    int32_t page_tokens, kv_heads, head_dim, heads; /* MLA: heads only */
    std::vector<int32_t> context;
    int32_t workers;
    bool even; /* tokens of one size, small q: what quantisation is judged by */
};

/* A call in host memory: a pool written by the reference's append, tokens behind the contexts and
 * pages that nobody has are NaN. */
struct world {
    struct kvt_page_layout layout;
    int32_t pool_pages;
    std::vector<uint8_t> pool;
    std::vector<int32_t> context, row_pages, page_table;
    std::vector<kvt_bf16> q;
    struct kvt_attention_call call;
};

static const float plain_scale = 0.00731f;

static void write_tokens(struct world *world, bool even, noise *noise)
{
    const struct kvt_page_layout &layout = world->layout;
    std::vector<int64_t> slot;
    for (size_t r = 0; r < world->context.size(); r++)
        for (int32_t t = 0; t < world->context[r]; t++) {
            int32_t page =
                world
                    ->page_table[static_cast<size_t>(world->row_pages[r] + t / layout.page_tokens)];
            slot.push_back(static_cast<int64_t>(page) * layout.page_tokens +
                           t % layout.page_tokens);
        }
    size_t elements = static_cast<size_t>(layout.kv_heads * layout.head_dim);
    std::vector<kvt_bf16> key(slot.size() * elements), value(key.size());
    for (size_t i = 0; i < key.size();
         i++) { /* tokens of very different size, so that scales are */
        float size = !even && i / elements % 5 == 0 ? 0.11f : 1.0f;
        key[i] = noise->bf16(size);
        value[i] = noise->bf16(1.3f * size);
    }
    struct kvt_kv_append append = {};
    append.layout = &layout;
    append.pool = world->pool.data();
    append.pool_pages = world->pool_pages;
    append.tokens = static_cast<int32_t>(slot.size());
    append.slot = slot.data();
    append.key = key.data();
    append.value = value.data();
    append.plain_scale = plain_scale;
    kvt_ref_kv_append(&append);
}

/* Pages of rows are dealt from a shuffled deck; order 1 is another deck of the same tokens. */
static bool make_world(const struct shape &shape, uint64_t order, struct world *world)
{
    struct kvt_err err = {};
    if (kvt_page_layout_init(&world->layout, shape.format, shape.page_tokens, shape.kv_heads,
                             shape.head_dim, 0, &err) != KVT_OK)
        return CHECK(false, "%s", err.text);
    world->context = shape.context;
    int32_t pages = 0;
    for (int32_t context : shape.context) {
        world->row_pages.push_back(pages);
        pages += (context + shape.page_tokens - 1) / shape.page_tokens;
    }
    world->pool_pages = pages + 3;
    world->pool.assign(static_cast<size_t>(world->pool_pages * world->layout.page_bytes), 0xff);
    for (int32_t page = 1; page <= pages; page++)
        world->page_table.push_back(page);
    noise deck(order + 1), noise(static_cast<uint64_t>(shape.heads));
    for (size_t i = world->page_table.size(); i > 1; i--)
        std::swap(world->page_table[i - 1],
                  world->page_table[static_cast<size_t>(deck.below(static_cast<int32_t>(i)))]);
    write_tokens(world, shape.even, &noise);
    for (size_t i = 0; i < shape.context.size() * static_cast<size_t>(shape.heads); i++)
        for (int32_t d = 0; d < world->layout.head_dim; d++)
            world->q.push_back(noise.bf16(i % 3 == 0 && !shape.even ? 2.5f : 0.7f));
    struct kvt_attention_call &call = world->call;
    call = {};
    call.layout = &world->layout;
    call.pool = world->pool.data();
    call.pool_pages = world->pool_pages;
    call.rows = static_cast<int32_t>(shape.context.size());
    call.heads = shape.heads;
    call.context = world->context.data();
    call.row_pages = world->row_pages.data();
    call.page_table = world->page_table.data();
    call.page_table_size = pages;
    call.scale = 1.0f / std::sqrt(static_cast<float>(world->layout.head_dim));
    call.plain_scale = plain_scale;
    call.q = world->q.data();
    return true;
}

struct result {
    std::vector<kvt_bf16> out;
    std::vector<float> lse;
};

static struct result space(const struct world &world)
{
    size_t cells = static_cast<size_t>(world.call.rows) * static_cast<size_t>(world.call.heads);
    return {std::vector<kvt_bf16>(cells * static_cast<size_t>(world.layout.value_dim), 0x7fc1),
            std::vector<float>(cells, 77.0f)};
}

static struct result reference(const struct world &world)
{
    struct result result = space(world);
    struct kvt_attention_call call = world.call;
    call.out = result.out.data();
    call.lse = result.lse.data();
    kvt_ref_attention(&call);
    return result;
}

static void run(const struct world &world, int32_t workers, int32_t overhead, struct result *result)
{
    *result = space(world);
    struct kvt_attention_call call = world.call;
    int32_t units = kvt_attention_units(&world.layout, call.heads);
    std::vector<uint64_t> memory(kvt_split_bytes(call.rows, units, workers) / 8);
    struct kvt_split split, view;
    kvt_split_place(&split, memory.data(), call.rows, units, workers);
    kvt_split_plan(&split, call.context, call.rows, world.layout.page_tokens, overhead);
    call.split = &split;
    RUN(kvt_attention_check(&call, &err));
    on_device<uint64_t> d_split(memory);
    kvt_split_view(&view, &split, d_split.get());
    on_device<uint8_t> d_pool(world.pool);
    on_device<int32_t> d_context(world.context), d_row_pages(world.row_pages),
        d_table(world.page_table);
    on_device<kvt_bf16> d_q(world.q), d_out(result->out);
    on_device<float> d_lse(result->lse);
    on_device<uint8_t> d_workspace(std::vector<uint8_t>(
        kvt_attention_workspace_bytes(&world.layout, call.heads, &split), 0xff));
    call.split = &view;
    call.pool = d_pool.get();
    call.context = d_context.get();
    call.row_pages = d_row_pages.get();
    call.page_table = d_table.get();
    call.q = d_q.get();
    call.out = d_out.get();
    call.lse = d_lse.get();
    call.workspace = d_workspace.get();
    RUN(kvt_cuda_attention(&call, nullptr, &err));
    result->out = d_out.read();
    result->lse = d_lse.read();
}

static void compare(const char *what, const struct result &got, const struct result &want)
{
    double xy = 0, xx = 0, yy = 0, largest = 0;
    int wrong = 0, wrong_lse = 0;
    for (size_t i = 0; i < want.out.size(); i++) {
        double x = static_cast<double>(kvt_bf16_to_float(got.out[i]));
        double y = static_cast<double>(kvt_bf16_to_float(want.out[i]));
        double off = std::fabs(x - y);
        wrong += !(off <= 1e-3 || off <= 2.01 / 128 * std::fabs(y));
        largest = std::fmax(largest, off);
        xy += x * y, xx += x * x, yy += y * y;
    }
    for (size_t i = 0; i < want.lse.size(); i++) {
        double x = static_cast<double>(got.lse[i]), y = static_cast<double>(want.lse[i]);
        wrong_lse += !(x == y || std::fabs(x - y) <= 1e-6 ||
                       std::fabs(x - y) <= 8.01 / 65536 * std::fabs(y));
    }
    double cosine = xx + yy > 0 ? 1 - 2 * xy / (xx + yy) : 0;
    CHECK(wrong == 0, "%s: %d of %d elements off, largest %g", what, wrong,
          static_cast<int>(want.out.size()), largest);
    CHECK(cosine < 5e-6, "%s: cosine difference %g", what, cosine);
    CHECK(wrong_lse == 0, "%s: %d lse off", what, wrong_lse);
}

static void attention_of(const struct shape &shape)
{
    struct world world;
    if (!make_world(shape, 0, &world))
        return;
    struct result want = reference(world), got;
    char what[96];
    for (int32_t workers : {shape.workers, 1}) {
        if (workers == 1 && shape.context.size() > 2)
            continue; /* the other shapes try one worker */
        snprintf(what, sizeof what, "%s page %d, %d x %d, %d heads, %d workers",
                 kvt_page_format_name(shape.format), shape.page_tokens, world.layout.kv_heads,
                 world.layout.head_dim, shape.heads, workers);
        run(world, workers, 1, &got);
        compare(what, got, want);
    }
}

static const std::vector<int32_t> lengths = {0, 1, 63, 64, 65, 140};

static void gqa_bf16()
{
    attention_of({KVT_PAGE_GQA_BF16, 64, 2, 128, 16, lengths, 5, false});
    attention_of({KVT_PAGE_GQA_BF16, 16, 1, 128, 16, {130, 7}, 3, false}); /* group 16 */
    attention_of({KVT_PAGE_GQA_BF16, 1, 2, 64, 6, {35, 0, 66}, 3, false}); /* group 3, page 1 */
    attention_of({KVT_PAGE_GQA_BF16, 128, 1, 64, 12, {129}, 2, false});
    attention_of({KVT_PAGE_GQA_BF16, 64, 1, 256, 11, {65, 3}, 3, false});
}

static void gqa_fp8()
{
    attention_of({KVT_PAGE_GQA_FP8, 64, 2, 128, 16, lengths, 5, false});
    attention_of({KVT_PAGE_GQA_FP8, 16, 1, 128, 16, {130, 7}, 3, false});
    attention_of({KVT_PAGE_GQA_FP8, 2, 2, 64, 6, {35, 0, 66}, 3, false});
    attention_of({KVT_PAGE_GQA_FP8, 256, 1, 64, 12, {129}, 2, false});
    attention_of({KVT_PAGE_GQA_FP8, 64, 1, 256, 11, {65, 3}, 3, false});
}

static void mla_of(enum kvt_page_format format)
{
    attention_of({format, 64, 1, 64, 16, lengths, 4, false});
    attention_of({format, 1, 1, 64, 5, {66, 17}, 3, false});
    attention_of({format, 32, 1, 64, 40, {70}, 4, false}); /* three units, the last of 8 heads */
}

static void mla_bf16()
{
    mla_of(KVT_PAGE_MLA_BF16);
}

static void mla_plain()
{
    mla_of(KVT_PAGE_MLA_PLAIN);
}

static void mla_scaled()
{
    mla_of(KVT_PAGE_MLA_SCALED);
}

static bool same_bits(const struct result &a, const struct result &b)
{
    return a.out == b.out &&
           memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof a.lse[0]) == 0;
}

/* Other page ids, and another run: the same bits. */
static void bits_stay()
{
    for (int32_t format = 0; format < KVT_PAGE_FORMATS; format++) {
        struct shape shape = {
            static_cast<enum kvt_page_format>(format), 16, 1, 128, 8, {70, 3}, 3, false};
        struct world first, second;
        if (!make_world(shape, 0, &first) || !make_world(shape, 1, &second))
            return;
        CHECK(first.page_table != second.page_table, "the decks are the same");
        struct result a, b, c;
        run(first, 3, 2, &a);
        run(second, 3, 2, &b);
        run(first, 3, 2, &c);
        CHECK(same_bits(a, b), "format %d: other page ids, other bits", format);
        CHECK(same_bits(a, c), "format %d: another run, other bits", format);
    }
}

/* A NaN in a token that counts reaches its own request and kv head, and no other. */
static void nan_stays_at_home()
{
    for (int32_t format = 0; format < KVT_PAGE_FORMATS; format++) {
        struct shape shape = {
            static_cast<enum kvt_page_format>(format), 16, 1, 128, 8, {40, 33}, 3, false};
        struct world world;
        if (!make_world(shape, 0, &world))
            return;
        struct result clean, got;
        run(world, 3, 1, &clean);
        int64_t page = world.page_table[static_cast<size_t>(world.row_pages[1] + 1)];
        uint8_t *at = world.pool.data() + page * world.layout.page_bytes; /* token 16 of row 1 */
        memset(at, 0xff, 2);
        run(world, 3, 1, &got);
        size_t half = got.out.size() / 2;
        bool first_same =
            std::equal(got.out.begin(), got.out.begin() + static_cast<std::ptrdiff_t>(half),
                       clean.out.begin());
        CHECK(first_same, "format %d: row 0 changed", format);
        CHECK(std::isnan(kvt_bf16_to_float(got.out[half])), "format %d: row 1 has no NaN", format);
    }
}

/* Against attention on the BF16 originals: what quantisation costs. */
static void quantisation_error()
{
    static const enum kvt_page_format pairs[][2] = {{KVT_PAGE_GQA_BF16, KVT_PAGE_GQA_FP8},
                                                    {KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_SCALED}};
    for (const auto &pair : pairs) {
        struct shape shape = {pair[0], 64, 1, 128, 8, {150}, 2, true};
        struct world exact, quantised;
        if (!make_world(shape, 0, &exact))
            return;
        shape.format = pair[1];
        if (!make_world(shape, 0, &quantised))
            return;
        struct result want = reference(exact), got;
        run(quantised, 2, 1, &got);
        double xy = 0, xx = 0, yy = 0;
        for (size_t i = 0; i < want.out.size(); i++) {
            double x = static_cast<double>(kvt_bf16_to_float(got.out[i]));
            double y = static_cast<double>(kvt_bf16_to_float(want.out[i]));
            xy += x * y, xx += x * x, yy += y * y;
        }
        double cosine = 1 - 2 * xy / (xx + yy);
        CHECK(cosine < 1e-3 && cosine > 1e-6, "%s: cosine difference %g",
              kvt_page_format_name(pair[1]), cosine);
    }
}

const struct cuda_test attention_tests[] = {
    {"attention: GQA BF16, ragged lengths, groups and pages", gqa_bf16},
    {"attention: GQA FP8, ragged lengths, groups and pages", gqa_fp8},
    {"attention: MLA BF16", mla_bf16},
    {"attention: MLA plain FP8", mla_plain},
    {"attention: MLA scaled FP8", mla_scaled},
    {"attention: bits depend neither on page ids nor on the run", bits_stay},
    {"attention: a NaN reaches its own request only", nan_stays_at_home},
    {"attention: quantised KV is within 1e-3 of BF16 KV", quantisation_error},
    {nullptr, nullptr},
};
