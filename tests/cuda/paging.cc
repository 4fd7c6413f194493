/* Append, convert and the tag check against their references, bit for bit. */
#include <cmath>

#include "tests/cuda/cuda_check.h"

/* A pool of random bytes, so that a byte too many shows. */
static std::vector<uint8_t> random_bytes(int64_t count, uint64_t seed)
{
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    noise noise(seed);
    for (uint8_t &byte : bytes)
        byte = static_cast<uint8_t>(noise.next());
    return bytes;
}

/* Values with what is hard for the formats: zeros, ties, subnormals, far apart, NaN, infinity. */
static std::vector<kvt_bf16> hard_values(int64_t count, uint64_t seed, bool bad)
{
    static const kvt_bf16 hard[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x43e0, 0xc3e8, 0x7f7f,
                                    0xff7f, 0x3b00, 0x3c80, 0x3f88, 0x3f98, 0x38d1, 0x007f};
    static const kvt_bf16 worse[] = {0x7f80, 0xff80, 0x7fc0, 0xff81};
    std::vector<kvt_bf16> values(static_cast<size_t>(count));
    noise noise(seed);
    float deviation = 1;
    for (size_t i = 0; i < values.size(); i++) {
        if (i % 64 == 0)
            deviation = std::exp2(static_cast<float>(noise.below(30) - 20));
        values[i] = noise.bf16(deviation);
        if (noise.below(97) == 0)
            values[i] = hard[noise.below(14)];
        if (bad && noise.below(400) == 0)
            values[i] = worse[noise.below(4)];
        if (deviation < 0x1p-18f)
            values[i] = static_cast<kvt_bf16>(i % 2 << 15);
    }
    return values;
}

struct shape {
    int32_t page_tokens, kv_heads, head_dim, tag_bytes, tokens;
};

static const struct shape shapes[] = {
    {64, 1, 128, 16, 37}, {1, 8, 64, 0, 5}, {16, 3, 256, 16, 11}, {128, 2, 128, 0, 3}};

/* Distinct slots of pages 1.., a stamp each page, some padding. */
static void draw_slots(const struct shape &shape, int32_t pages, std::vector<int64_t> *slot,
                       std::vector<uint64_t> *stamp)
{
    noise noise(static_cast<uint64_t>(shape.tokens));
    std::vector<int64_t> free;
    for (int64_t s = shape.page_tokens; s < static_cast<int64_t>(pages) * shape.page_tokens; s++)
        free.push_back(s);
    for (int32_t i = 0; i < shape.tokens; i++) {
        size_t pick = static_cast<size_t>(noise.below(static_cast<int32_t>(free.size())));
        int64_t taken = i % 7 == 3 ? -1 : free[pick];
        if (taken >= 0)
            free.erase(free.begin() + static_cast<std::ptrdiff_t>(pick));
        slot->push_back(taken);
        stamp->push_back(taken < 0 ? 99
                                   : UINT64_C(0xabcdef0100000000) +
                                         static_cast<uint64_t>(taken / shape.page_tokens));
    }
}

static void append_of(enum kvt_page_format format, const struct shape &shape, bool stamped)
{
    struct kvt_page_layout layout;
    RUN(kvt_page_layout_init(&layout, format, shape.page_tokens, shape.kv_heads, shape.head_dim,
                             shape.tag_bytes, &err));
    int32_t pages = 1 + (shape.tokens + 5) / shape.page_tokens + 3;
    std::vector<int64_t> slot;
    std::vector<uint64_t> stamp;
    draw_slots(shape, pages, &slot, &stamp);
    int64_t elements = static_cast<int64_t>(layout.kv_heads) * layout.head_dim * shape.tokens;
    std::vector<kvt_bf16> key = hard_values(elements, 1, true),
                          value = hard_values(elements, 2, true);
    std::vector<uint8_t> pool = random_bytes(pages * layout.page_bytes, 3);
    std::vector<struct kvt_page_tag> tags(static_cast<size_t>(pages), {7, 8});
    std::vector<int32_t> poisoned = {1000};
    on_device<int64_t> d_slot(slot);
    on_device<uint64_t> d_stamp(stamp);
    on_device<kvt_bf16> d_key(key), d_value(value);
    on_device<uint8_t> d_pool(pool);
    on_device<struct kvt_page_tag> d_tags(tags);
    on_device<int32_t> d_poisoned(poisoned);
    bool mla = kvt_page_format_is_mla(format);
    struct kvt_kv_append append = {&layout,
                                   pool.data(),
                                   pages,
                                   shape.tokens,
                                   slot.data(),
                                   key.data(),
                                   mla ? nullptr : value.data(),
                                   0.0123f,
                                   stamped ? stamp.data() : nullptr,
                                   stamped ? tags.data() : nullptr,
                                   poisoned.data()};
    RUN(kvt_kv_append_check(&append, &err));
    kvt_ref_kv_append(&append);
    append.pool = d_pool.get();
    append.slot = d_slot.get();
    append.key = d_key.get();
    append.value = mla ? nullptr : d_value.get();
    append.stamp = stamped ? d_stamp.get() : nullptr;
    append.tags = stamped ? d_tags.get() : nullptr;
    append.poisoned = d_poisoned.get();
    RUN(kvt_cuda_kv_append(&append, nullptr, &err));
    const char *name = kvt_page_format_name(format);
    CHECK(d_pool.read() == pool, "%s, %d tokens: other bytes in the pool", name, shape.tokens);
    CHECK(d_poisoned.read() == poisoned, "%s: got %d poisoned tokens, want %d", name,
          d_poisoned.read()[0] - 1000, poisoned[0] - 1000);
    CHECK(poisoned[0] > 1000 || shape.tokens < 5, "%s: nothing was poisoned", name);
    std::vector<struct kvt_page_tag> got = d_tags.read();
    CHECK(memcmp(got.data(), tags.data(), tags.size() * sizeof tags[0]) == 0, "%s: other tags",
          name);
}

static void append_is_exact()
{
    for (int32_t format = 0; format < KVT_PAGE_FORMATS; format++)
        for (const struct shape &shape : shapes)
            append_of(static_cast<enum kvt_page_format>(format), shape, &shape != &shapes[1]);
}

static void convert_of(enum kvt_page_format source_format, enum kvt_page_format target_format,
                       const struct shape &shape)
{
    struct kvt_page_layout from, to;
    RUN(kvt_page_layout_init(&from, source_format, shape.page_tokens, shape.kv_heads,
                             shape.head_dim, 0, &err));
    RUN(kvt_page_layout_init(&to, target_format, shape.page_tokens, shape.kv_heads, shape.head_dim,
                             shape.tag_bytes, &err));
    const int32_t pages = 4;
    std::vector<kvt_bf16> values = hard_values(6 * from.page_bytes / 2, 21, true);
    std::vector<uint8_t> source(static_cast<size_t>(6 * from.page_bytes));
    memcpy(source.data(), values.data(), source.size());
    std::vector<uint8_t> target = random_bytes(7 * to.page_bytes, 22);
    std::vector<int32_t> source_page = {5, 1, 3, 2}, target_page = {2, 6, 1, 4};
    std::vector<int32_t> tokens = {shape.page_tokens, 0, 1, (shape.page_tokens + 1) / 2};
    std::vector<uint64_t> stamp = {11, 12, 13, 14};
    std::vector<struct kvt_page_tag> tags(7, {1, 2});
    on_device<uint8_t> d_source(source), d_target(target);
    on_device<int32_t> d_source_page(source_page), d_target_page(target_page), d_tokens(tokens);
    on_device<uint64_t> d_stamp(stamp);
    on_device<struct kvt_page_tag> d_tags(tags);
    struct kvt_kv_convert convert = {
        &from,   &to,          source.data(),      target.data(),      6,
        7,       pages,        source_page.data(), target_page.data(), tokens.data(),
        0.0071f, stamp.data(), tags.data()};
    RUN(kvt_kv_convert_check(&convert, &err));
    kvt_ref_kv_convert(&convert);
    convert.source = d_source.get();
    convert.target = d_target.get();
    convert.source_page = d_source_page.get();
    convert.target_page = d_target_page.get();
    convert.tokens = d_tokens.get();
    convert.stamp = d_stamp.get();
    convert.tags = d_tags.get();
    RUN(kvt_cuda_kv_convert(&convert, nullptr, &err));
    CHECK(d_target.read() == target, "%s, pages of %d: other bytes",
          kvt_page_format_name(target_format), shape.page_tokens);
    std::vector<struct kvt_page_tag> got = d_tags.read();
    CHECK(memcmp(got.data(), tags.data(), tags.size() * sizeof tags[0]) == 0, "other tags");
}

static void convert_is_exact()
{
    for (const struct shape &shape : shapes) {
        convert_of(KVT_PAGE_GQA_BF16, KVT_PAGE_GQA_FP8, shape);
        convert_of(KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_PLAIN, shape);
        convert_of(KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_SCALED, shape);
    }
}

struct batch {
    int32_t requests, first, most; /* pages of a request: 0..most */
    int32_t bits;
    bool header;
    int32_t faults_per_1000;
};

/* A batch over a pool, all in host memory. */
struct tagged {
    static const int32_t pool_pages = 400;
    struct kvt_page_layout layout;
    std::vector<uint8_t> pool;
    std::vector<struct kvt_page_tag> tags;
    std::vector<int32_t> begin, page;
    std::vector<uint64_t> want;
};

static void put_content(struct tagged *tagged, int32_t page, uint64_t content)
{
    memcpy(tagged->pool.data() + page * tagged->layout.page_bytes + tagged->layout.tag_offset,
           &content, sizeof content);
}

/* One entry goes wrong, in one of five ways. */
static void spoil(struct tagged *tagged, noise *noise)
{
    int32_t page = tagged->page.back();
    struct kvt_page_tag *tag = &tagged->tags[static_cast<size_t>(page)];
    switch (noise->below(5)) {
    case 0: /* a stale reader */
        tagged->want.back() -= 1;
        break;
    case 1: /* a late writer */
        tag->content ^= 1 + noise->next() % 255;
        put_content(tagged, page, tag->content);
        break;
    case 2: /* differs above a narrow tag only */
        tagged->want.back() ^= UINT64_C(1) << 40;
        break;
    case 3:
        tagged->page.back() = tagged::pool_pages + noise->below(1000);
        break;
    case 4:
        tagged->page.back() = -1 - noise->below(1000);
        break;
    }
}

static void draw_batch(const struct batch &batch, uint64_t seed, struct tagged *tagged)
{
    noise noise(seed);
    tagged->pool = random_bytes(tagged::pool_pages * tagged->layout.page_bytes, seed);
    for (int32_t page = 0; page < tagged::pool_pages; page++) {
        uint64_t generation = noise.next();
        tagged->tags.push_back({generation, generation});
        put_content(tagged, page, generation);
        if (batch.header)
            tagged->tags.back().content = 0; /* must not be looked at */
    }
    tagged->begin = {batch.first};
    tagged->page.assign(static_cast<size_t>(batch.first), -5);
    tagged->want.assign(static_cast<size_t>(batch.first), 0);
    for (int32_t r = 0; r < batch.requests; r++) {
        for (int32_t i = noise.below(batch.most + 1); i > 0; i--) {
            int32_t page = noise.below(tagged::pool_pages);
            tagged->page.push_back(page);
            tagged->want.push_back(tagged->tags[static_cast<size_t>(page)].owner);
            if (noise.below(1000) < batch.faults_per_1000)
                spoil(tagged, &noise);
        }
        tagged->begin.push_back(static_cast<int32_t>(tagged->page.size()));
    }
}

static void tag_check_of(const struct batch &batch, uint64_t seed)
{
    struct tagged tagged;
    RUN(kvt_page_layout_init(&tagged.layout, KVT_PAGE_MLA_SCALED, 1, 1, 64, 16, &err));
    draw_batch(batch, seed, &tagged);
    std::vector<uint8_t> failed(static_cast<size_t>(batch.requests), 3);
    std::vector<int32_t> failures = {-1};
    std::vector<uint64_t> first = {5};
    struct kvt_tag_check check = {
        tagged.tags.data(), tagged::pool_pages, batch.header ? &tagged.layout : nullptr,
        tagged.pool.data(), batch.requests,     tagged.begin.data(),
        tagged.page.data(), tagged.want.data(), kvt_tag_mask(batch.bits),
        failed.data(),      failures.data(),    first.data()};
    on_device<struct kvt_page_tag> d_tags(tagged.tags);
    on_device<uint8_t> d_pool(tagged.pool), d_failed(failed);
    on_device<int32_t> d_begin(tagged.begin), d_page(tagged.page), d_failures(failures);
    on_device<uint64_t> d_want(tagged.want), d_first(first);
    RUN(kvt_tag_check_check(&check, &err));
    kvt_ref_tag_check(&check);
    check.tags = d_tags.get();
    check.pool = d_pool.get();
    check.begin = d_begin.get();
    check.page = d_page.get();
    check.want = d_want.get();
    check.failed = d_failed.get();
    check.failures = d_failures.get();
    check.first = d_first.get();
    RUN(kvt_cuda_tag_check(&check, nullptr, &err));
    CHECK(d_failed.read() == failed, "seed %d: other requests", static_cast<int>(seed));
    CHECK(d_failures.read() == failures, "seed %d: got %d, want %d", static_cast<int>(seed),
          d_failures.read()[0], failures[0]);
    CHECK(d_first.read() == first, "seed %d: got %llx, want %llx", static_cast<int>(seed),
          static_cast<unsigned long long>(d_first.read()[0]),
          static_cast<unsigned long long>(first[0]));
}

static void tag_check_is_exact()
{
    static const struct batch batches[] = {
        {0, 0, 0, 64, false, 0},   {1, 0, 0, 64, false, 0},     {1, 3, 1, 64, true, 1000},
        {7, 0, 5, 64, true, 300},  {64, 0, 40, 64, false, 0},   {64, 1, 40, 64, true, 3},
        {33, 2, 9, 8, false, 500}, {300, 0, 30, 8, true, 20},   {300, 5, 30, 64, false, 1},
        {3, 0, 4000, 64, true, 1}, {500, 7, 1, 16, false, 100},
    };
    uint64_t seed = 100;
    for (const struct batch &batch : batches)
        for (int i = 0; i < 3; i++)
            tag_check_of(batch, seed++);
}

const struct cuda_test paging_tests[] = {
    {"append: all formats, bit for bit, guarded, poisoned tokens counted once", append_is_exact},
    {"convert: pages of a hand-off, bit for bit", convert_is_exact},
    {"tag check: random faults are found exactly, with the first one's place", tag_check_is_exact},
    {nullptr, nullptr},
};
