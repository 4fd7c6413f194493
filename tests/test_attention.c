#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/cpu/isa.h"
#include "kernels/split.h"
#include "sim/base/random.h"
#include "tests/check.h"
#include "tests/kv_pool.h"

/* ---- the split ---- */

static struct kvt_split split_new(int32_t rows, int32_t units, int32_t workers)
{
    struct kvt_split split;
    kvt_split_place(&split, malloc(kvt_split_bytes(rows, units, workers)), rows, units, workers);
    return split;
}

static void split_free(struct kvt_split *split)
{
    free(split->pieces);
}

static int32_t pages_of(int32_t context, int32_t page_tokens)
{
    return (context + page_tokens - 1) / page_tokens;
}

/* The property of split.h, piece by piece: units in order, pages of a unit without gap or overlap,
 * slots of a cut unit consecutive, no worker over its budget. */
static bool split_is_whole(const struct kvt_split *split, const int32_t *context,
                           int32_t page_tokens, int32_t overhead)
{
    int64_t total = 0;
    for (int32_t row = 0; row < split->rows; row++)
        total += pages_of(context[row], page_tokens) + overhead;
    total *= split->units;
    int64_t budget = (total + split->workers - 1) / split->workers + overhead;

    int32_t at = 0, slot = 0, merge = 0;
    for (int32_t row = 0; row < split->rows; row++)
        for (int32_t unit = 0; unit < split->units; unit++) {
            int32_t first = at, page = 0, pages = pages_of(context[row], page_tokens);
            do {
                const struct kvt_piece *piece = &split->pieces[at];
                if (at >= split->piece_count || piece->row != row || piece->unit != unit ||
                    piece->first_page != page || piece->last_page > pages ||
                    (pages > 0 && piece->last_page <= page))
                    return false;
                page = piece->last_page;
                at++;
            } while (page < pages);
            for (int32_t i = first; i < at; i++)
                if (split->pieces[i].slot != (at - first == 1 ? -1 : slot++))
                    return false;
            if (at - first == 1)
                continue;
            const struct kvt_merge *m = &split->merges[merge++];
            if (merge > split->merge_count || m->row != row || m->unit != unit ||
                m->count != at - first || m->first_slot != slot - m->count)
                return false;
        }
    if (at != split->piece_count || slot != split->slot_count || merge != split->merge_count ||
        merge >= split->workers || slot > 2 * split->workers ||
        at >= split->rows * split->units + split->workers)
        return false;

    if (split->worker_piece[0] != 0 || split->worker_piece[split->workers] != at)
        return false;
    for (int32_t w = 0; w < split->workers; w++) {
        int64_t cost = 0;
        if (split->worker_piece[w] > split->worker_piece[w + 1])
            return false;
        for (int32_t i = split->worker_piece[w]; i < split->worker_piece[w + 1]; i++)
            cost += split->pieces[i].last_page - split->pieces[i].first_page + overhead;
        if (cost > budget)
            return false;
    }
    return true;
}

static void split_covers(void)
{
    struct kvt_stream random;
    kvt_stream_init(&random, 1, KVT_PURPOSE_TEST, 2);
    for (int world = 0; world < 4000; world++) {
        int32_t rows = (int32_t)kvt_stream_below(&random, 20);
        int32_t units = 1 + (int32_t)kvt_stream_below(&random, 9);
        int32_t workers = 1 + (int32_t)kvt_stream_below(&random, world % 3 ? 5 : 150);
        int32_t page_tokens = 1 << kvt_stream_below(&random, 8);
        int32_t overhead = (int32_t)kvt_stream_below(&random, 7);
        uint64_t longest = UINT64_C(1) << kvt_stream_below(&random, 15);
        int32_t context[20] = {0};
        for (int32_t row = 0; row < rows; row++)
            context[row] = world % 7 ? (int32_t)kvt_stream_below(&random, longest) : 0;
        struct kvt_split split = split_new(20, units, workers);
        kvt_split_plan(&split, context, rows, page_tokens, overhead);
        if (!split_is_whole(&split, context, page_tokens, overhead)) {
            char note[128];
            snprintf(note, sizeof note, "world %d: rows %d units %d workers %d overhead %d", world,
                     rows, units, workers, overhead);
            CHECK_NOTE(false, note);
        }
        split_free(&split);
    }
}

static void split_by_hand(void)
{
    /* 10 + 1 pages and overhead 1 each: 13, so 3 workers take 5 and may have 6. */
    struct kvt_split split = split_new(2, 1, 3);
    const int32_t context[] = {640, 1};
    kvt_split_plan(&split, context, 2, 64, 1);
    CHECK_I64(split.piece_count, 3, "5 + 5 pages, then 1");
    CHECK_I64(split.pieces[1].first_page, 5, "cut where the first worker is full");
    CHECK_I64(split.pieces[1].slot, 1, "second part");
    CHECK_I64(split.pieces[2].slot, -1, "whole");
    CHECK_I64(split.worker_piece[2], 2, "second worker is full too");
    CHECK_I64(split.merge_count, 1, "row 0");
    split_free(&split);
}

/* ---- against double precision ---- */

static const char *describe(const struct kv_shape *shape)
{
    static char note[256];
    snprintf(note, sizeof note, "%s, %s, page %d, heads %d/%d x %d, rows %d, chunk %d, context %d",
             kvt_isa_name(kvt_isa()), kvt_page_format_name(shape->format), shape->page_tokens,
             shape->heads, shape->kv_heads, shape->head_dim, shape->rows, shape->chunk,
             shape->context[0]);
    return note;
}

struct errors {
    double cosine;  /* 1 - cosine, of all rows together */
    double largest; /* absolute */
    int64_t wrong, wrong_lse;
};

/* Tolerances of attention.h. NaN is wrong unless both are. */
static struct errors compare(const struct kv_pool *world, const kvt_bf16 *want,
                             const float *want_lse)
{
    struct errors errors = {0};
    int64_t cells = (int64_t)world->call.rows * world->call.heads;
    double xy = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < cells * world->layout.value_dim; i++) {
        double x = (double)kvt_bf16_to_float(world->out[i]), y = (double)kvt_bf16_to_float(want[i]);
        double off = fabs(x - y);
        errors.wrong += !(off <= 1e-3 || off <= 2.01 / 128 * fabs(y));
        errors.largest = fmax(errors.largest, off);
        xy += x * y, xx += x * x, yy += y * y;
    }
    errors.cosine = xx + yy > 0 ? 1 - 2 * xy / (xx + yy) : 0;
    for (int64_t i = 0; i < cells; i++) {
        double x = (double)world->lse[i], y = (double)want_lse[i];
        bool same = x == y || fabs(x - y) <= 1e-6 || fabs(x - y) <= 8.01 / 65536 * fabs(y);
        errors.wrong_lse += !same;
    }
    return errors;
}

struct reference {
    kvt_bf16 *out;
    float *lse;
};

static struct reference reference_new(const struct kv_pool *world)
{
    size_t cells = (size_t)world->call.rows * (size_t)world->call.heads;
    struct reference want = {malloc(cells * (size_t)world->layout.value_dim * sizeof(kvt_bf16)),
                             malloc(cells * sizeof(float))};
    struct kvt_attention_call call = world->call;
    call.out = want.out;
    call.lse = want.lse;
    kvt_ref_attention(&call);
    return want;
}

static void reference_free(struct reference *want)
{
    free(want->out);
    free(want->lse);
}

static void attend_and_compare(struct kv_pool *world, const struct kv_shape *shape,
                               const struct reference *want, int32_t workers)
{
    kv_pool_attend(world, workers, workers % 3);
    struct errors errors = compare(world, want->out, want->lse);
    if (errors.wrong == 0 && errors.wrong_lse == 0 && errors.cosine < 5e-6) {
        CHECK(true);
        return;
    }
    char note[400];
    snprintf(note, sizeof note, "%s, workers %d: %d elements and %d lse wrong, cosine off by %.2g",
             describe(shape), workers, (int)errors.wrong, (int)errors.wrong_lse, errors.cosine);
    CHECK_NOTE(false, note);
}

/* For each instruction set that the machine has. */
static void for_each_isa(void (*run)(void))
{
    enum kvt_isa before = kvt_isa();
    for (int isa = KVT_ISA_PORTABLE; isa < KVT_ISA_COUNT; isa++)
        if (kvt_isa_set((enum kvt_isa)isa))
            run();
    kvt_isa_set(before);
}

static void check_shape(const struct kv_shape *shape)
{
    struct kv_pool world;
    kv_pool_init(&world, shape);
    struct kvt_err err = {0};
    CHECK_OK(kvt_attention_check(&world.call, &err), err);
    struct reference want = reference_new(&world);
    enum kvt_isa before = kvt_isa();
    for (int isa = KVT_ISA_PORTABLE; isa < KVT_ISA_COUNT; isa++) {
        if (!kvt_isa_set((enum kvt_isa)isa))
            continue;
        attend_and_compare(&world, shape, &want, 1);
        attend_and_compare(&world, shape, &want, 5);
    }
    kvt_isa_set(before);
    reference_free(&want);
    kv_pool_release(&world);
}

#define CONTEXTS                                                                                   \
    {                                                                                              \
        65, 1, 200, 0, 63, 64, 7, 130                                                              \
    }

static void gqa_matches(void)
{
    static const int32_t groups[] = {1, 4, 5, 7, 8, 16}, dims[] = {64, 128, 256};
    static const int32_t pages[] = {64, 16, 1, 256};
    for (unsigned g = 0; g < sizeof groups / sizeof *groups; g++)
        for (unsigned d = 0; d < 3; d++)
            for (int fp8 = 0; fp8 < 2; fp8++) {
                int32_t kv_heads = 1 + (int32_t)((g + d) % 3);
                struct kv_shape shape = {
                    .format = fp8 ? KVT_PAGE_GQA_FP8 : KVT_PAGE_GQA_BF16,
                    .page_tokens = pages[(g + d * 2 + (unsigned)fp8) % 4],
                    .heads = groups[g] * kv_heads,
                    .kv_heads = kv_heads,
                    .head_dim = dims[d],
                    .rows = 8,
                    .chunk = 1,
                    .context = CONTEXTS,
                    .seed = g * 10 + d,
                };
                check_shape(&shape);
            }
}

static void mla_matches(void)
{
    static const int32_t heads[] = {1, 8, 16, 24, 128}, pages[] = {64, 16, 1};
    for (unsigned h = 0; h < sizeof heads / sizeof *heads; h++)
        for (int format = KVT_PAGE_MLA_BF16; format <= KVT_PAGE_MLA_SCALED; format++) {
            struct kv_shape shape = {
                .format = (enum kvt_page_format)format,
                .page_tokens = pages[(h + (unsigned)format) % 3],
                .heads = heads[h],
                .rows = heads[h] > 24 ? 2 : 8,
                .chunk = 1,
                .context = CONTEXTS,
                .seed = 100 + h,
            };
            check_shape(&shape);
        }
}

static void rows_match(void)
{
    for (int32_t rows = 1; rows <= 74; rows = rows * 2 + (rows == 16 ? 5 : 0)) {
        struct kv_shape shape = {
            .format = rows & 1 ? KVT_PAGE_GQA_FP8 : KVT_PAGE_GQA_BF16,
            .page_tokens = 16,
            .heads = 4,
            .kv_heads = 1,
            .head_dim = 64,
            .rows = rows,
            .chunk = 1,
            .context = {33, 0, 1, 64, 90, 16, 17, 5},
            .seed = (uint64_t)rows,
        };
        check_shape(&shape);
        shape.chunk = 9; /* prompt chunks, the last one short */
        check_shape(&shape);
    }
}

static void chunks_match(void)
{
    for (int format = 0; format < KVT_PAGE_FORMATS; format++) {
        struct kv_shape shape = {
            .format = (enum kvt_page_format)format,
            .page_tokens = 64,
            .heads = 8,
            .kv_heads = 2,
            .head_dim = 128,
            .rows = 40,
            .chunk = 40,
            .context = {150},
            .seed = 7,
        };
        check_shape(&shape);
        shape.context[0] = 40; /* a prompt from its start: contexts 1..40 */
        check_shape(&shape);
    }
}

static void sharp_scores_match(void)
{
    for (int format = 0; format < KVT_PAGE_FORMATS; format++) {
        struct kv_shape shape = {
            .format = (enum kvt_page_format)format,
            .page_tokens = 64,
            .heads = 8,
            .kv_heads = 1,
            .head_dim = 128,
            .rows = 3,
            .chunk = 1,
            .context = {1000, 300, 70},
            .sharp = 30,
            .seed = 11,
        };
        check_shape(&shape);
    }
}

/* ---- bits ---- */

static const struct kv_shape bits_shapes[] = {
    {KVT_PAGE_GQA_BF16, 64, 16, 2, 128, 5, 1, {500, 129, 64, 1, 300}, .seed = 21},
    {KVT_PAGE_GQA_FP8, 16, 16, 2, 128, 5, 1, {500, 129, 64, 1, 300}, .seed = 22},
    {KVT_PAGE_MLA_BF16, 16, 20, 0, 0, 3, 1, {200, 65, 130}, .seed = 23},
    {KVT_PAGE_MLA_PLAIN, 64, 20, 0, 0, 3, 1, {200, 65, 130}, .seed = 24},
    {KVT_PAGE_MLA_SCALED, 64, 20, 0, 0, 3, 1, {200, 65, 130}, .seed = 25},
};
#define BITS_SHAPES (sizeof bits_shapes / sizeof *bits_shapes)

static void bits_do_not_depend_on_pages(void)
{
    for (unsigned i = 0; i < BITS_SHAPES; i++) {
        struct kv_pool world;
        kv_pool_init(&world, &bits_shapes[i]);
        size_t bytes = (size_t)world.call.rows * (size_t)world.call.heads *
                       (size_t)world.layout.value_dim * sizeof(kvt_bf16);
        void *first = malloc(bytes);
        kv_pool_attend(&world, 3, 1);
        memcpy(first, world.out, bytes);
        for (uint64_t seed = 0; seed < 3; seed++) {
            kv_pool_permute(&world, seed);
            kv_pool_attend(&world, 3, 1);
            CHECK_NOTE(memcmp(first, world.out, bytes) == 0, describe(&bits_shapes[i]));
        }
        free(first);
        kv_pool_release(&world);
    }
}

static void pages_do_not_matter(void)
{
    for_each_isa(bits_do_not_depend_on_pages);
}

static void bits_do_not_depend_on_threads(void)
{
    for (unsigned i = 0; i < BITS_SHAPES; i++) {
        struct kv_pool world;
        kv_pool_init(&world, &bits_shapes[i]);
        size_t cells = (size_t)world.call.rows * (size_t)world.call.heads;
        size_t bytes = cells * (size_t)world.layout.value_dim * sizeof(kvt_bf16);
        void *first = malloc(bytes);
        float *lse = malloc(cells * sizeof *lse);
        int threads = omp_get_max_threads();
        for (int count = 1; count <= 4; count++) {
            omp_set_num_threads(count);
            kv_pool_attend(&world, 6, 1);
            if (count == 1) {
                memcpy(first, world.out, bytes);
                memcpy(lse, world.lse, cells * sizeof *lse);
            }
            CHECK_NOTE(memcmp(first, world.out, bytes) == 0, describe(&bits_shapes[i]));
            CHECK_NOTE(memcmp(lse, world.lse, cells * sizeof *lse) == 0, "lse");
        }
        omp_set_num_threads(threads);
        free(first);
        free(lse);
        kv_pool_release(&world);
    }
}

static void threads_do_not_matter(void)
{
    for_each_isa(bits_do_not_depend_on_threads);
}

static void splits_agree(void)
{
    for (unsigned i = 0; i < BITS_SHAPES; i++) {
        struct kv_shape shape = bits_shapes[i];
        shape.page_tokens = 16;
        struct kv_pool world;
        kv_pool_init(&world, &shape);
        struct reference want = reference_new(&world);
        for (int32_t workers = 1; workers <= 40; workers += workers < 8 ? 1 : 8)
            attend_and_compare(&world, &shape, &want, workers);
        reference_free(&want);
        kv_pool_release(&world);
    }
}

static void split_counts_do_not_matter(void)
{
    for_each_isa(splits_agree);
}

/* ---- poison ---- */

/* Make an element of a token NaN: of K, or of V where the format has V of its own. */
static void poison(struct kv_pool *world, int32_t row, int32_t token, bool value)
{
    const struct kvt_page_layout *layout = &world->layout;
    int32_t page = world->page_table[world->row_pages[row] + token / layout->page_tokens];
    int32_t bytes = kvt_page_element_bytes(layout), element = 5;
    uint8_t *at = world->pool + page * layout->page_bytes +
                  (int64_t)(token % layout->page_tokens) * layout->token_bytes + element * bytes;
    if (value)
        at += layout->value_offset;
    memset(at, 0x7f, (size_t)bytes);
    if (bytes == 2)
        at[0] = 0xc0;
}

/* The same elements of out are NaN as the definition says: those that the token takes part in. */
static void poison_reaches(const struct kv_shape *shape, int32_t token, bool value)
{
    struct kv_pool world;
    kv_pool_init(&world, shape);
    poison(&world, 0, token, value);
    struct reference want = reference_new(&world);
    int64_t count = (int64_t)shape->rows * shape->heads * world.layout.value_dim, poisoned = 0;
    int64_t differ = 0;
    kv_pool_attend(&world, 3, 1);
    for (int64_t i = 0; i < count; i++) {
        bool wanted = isnan(kvt_bf16_to_float(want.out[i]));
        poisoned += wanted;
        differ += wanted != isnan(kvt_bf16_to_float(world.out[i]));
    }
    CHECK_NOTE(differ == 0, describe(shape));
    bool used = token < shape->context[0];
    CHECK_NOTE(used ? poisoned > 0 && poisoned < count : poisoned == 0, describe(shape));
    reference_free(&want);
    kv_pool_release(&world);
}

static void poison_is_told(void)
{
    for (int format = 0; format < KVT_PAGE_FORMATS; format++) {
        bool mla = kvt_page_format_is_mla((enum kvt_page_format)format);
        struct kv_shape shape = {
            .format = (enum kvt_page_format)format,
            .page_tokens = 64,
            .heads = format % 2 == 0 ? 16 : 8,
            .kv_heads = 2,
            .head_dim = 128,
            .rows = 3,
            .chunk = 1,
            .context = {150, 70, 3},
            .seed = 61,
        };
        static const int32_t tokens[] = {0, 70, 127, 149, 150, 191}; /* the last two unused */
        for (unsigned t = 0; t < sizeof tokens / sizeof *tokens; t++)
            for (int value = 0; value < (mla ? 1 : 2); value++)
                poison_reaches(&shape, tokens[t], value != 0);
    }
}

static void poison_of_used_tokens_is_told(void)
{
    for_each_isa(poison_is_told);
}

/* ---- FP8 against BF16, what the format costs ---- */

static void quantisation_error_is_small(void)
{
    static const struct {
        enum kvt_page_format bf16, fp8;
    } rows[] = {{KVT_PAGE_GQA_BF16, KVT_PAGE_GQA_FP8},
                {KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_PLAIN},
                {KVT_PAGE_MLA_BF16, KVT_PAGE_MLA_SCALED}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kv_shape shape = {
            .format = rows[i].bf16,
            .page_tokens = 64,
            .heads = 8,
            .kv_heads = 1,
            .head_dim = 128,
            .rows = 4,
            .chunk = 1,
            .context = {1000, 500, 100, 30},
            .seed = 31,
            .even = true,
        };
        struct kv_pool exact, coarse;
        kv_pool_init(&exact, &shape);
        struct reference want = reference_new(&exact);
        shape.format = rows[i].fp8;
        kv_pool_init(&coarse, &shape);
        kv_pool_attend(&coarse, 2, 1);
        struct errors errors = compare(&coarse, want.out, want.lse);
        printf("%s: cosine off by %.1e, largest error %.3f; ", kvt_page_format_name(rows[i].fp8),
               errors.cosine, errors.largest);
        CHECK_NOTE(errors.cosine < 1e-3, kvt_page_format_name(rows[i].fp8));
        CHECK_NOTE(errors.cosine > 1e-5, "and it is another cache");
        reference_free(&want);
        kv_pool_release(&exact);
        kv_pool_release(&coarse);
    }
}

/* ---- refusals ---- */

static void attention_refuses(void)
{
    const struct kv_shape shape = {
        .format = KVT_PAGE_MLA_PLAIN,
        .page_tokens = 64,
        .heads = 8,
        .rows = 3,
        .chunk = 1,
        .context = {100, 200, 300},
        .seed = 41,
    };
    struct kv_pool world;
    kv_pool_init(&world, &shape);
    struct kvt_err err = {0};
    CHECK_OK(kvt_attention_check(&world.call, &err), err);
#define REFUSED(change, want)                                                                      \
    do {                                                                                           \
        struct kvt_attention_call call = world.call;                                               \
        err = (struct kvt_err){0};                                                                 \
        change;                                                                                    \
        CHECK_FAILS(kvt_attention_check(&call, &err), err, KVT_ELIMIT);                            \
        CHECK_HOLDS(err.text, want, "attention");                                                  \
    } while (0)
    REFUSED(call.heads = 129, "MLA has 1..128 heads, not 129");
    REFUSED(call.scale = 0, "scale is finite and above 0, not 0");
    REFUSED(call.scale = NAN, "scale is finite and above 0, not nan");
    REFUSED(call.plain_scale = -1, "plain_scale is finite and above 0, not -1");
    REFUSED(call.rows = -1, "-1 rows");
    REFUSED(call.page_table_size = 3, "row 1 has 4 pages from 3 on, the page table has 3");
    int32_t was = world.page_table[world.row_pages[1] + 2];
    REFUSED(world.page_table[world.row_pages[1] + 2] = 0, "row 1, slot 2: page 0 is not in 1..");
    REFUSED(world.page_table[world.row_pages[1] + 2] = 2147480000, "row 1, slot 2: page 21474");
    world.page_table[world.row_pages[1] + 2] = was;
    REFUSED(world.context[2] = -5, "row 2 has a context of -5 tokens");
    struct kvt_page_layout gqa;
    CHECK_OK(kvt_page_layout_init(&gqa, KVT_PAGE_GQA_FP8, 64, 3, 128, 0, &err), err);
    REFUSED(call.layout = &gqa, "heads are a multiple of the 3 kv heads, not 8");
    REFUSED((call.layout = &gqa, call.heads = 51), "serves 1..16 heads, not 17");
    kv_pool_release(&world);
}

const struct check_test check_attention[] = {
    {"a split covers every page of every unit once, within budgets", split_covers, false},
    {"ten pages and one, split by hand", split_by_hand, false},
    {"GQA is what double precision says, for all groups, head sizes and pages", gqa_matches, false},
    {"MLA is what double precision says, for 1 to 128 heads", mla_matches, false},
    {"so it is for 1 to 74 rows, requests and prompt chunks", rows_match, false},
    {"rows of a prompt chunk see the tokens before them", chunks_match, false},
    {"scores that grow along the context keep their precision", sharp_scores_match, false},
    {"bits do not depend on where pages lie, nor on the run", pages_do_not_matter, false},
    {"bits do not depend on the number of threads", threads_do_not_matter, false},
    {"any number of workers gives the same within rounding", split_counts_do_not_matter, false},
    {"NaN in a used token reaches out where it must, in an unused one never",
     poison_of_used_tokens_is_told, false},
    {"FP8 KV stays near BF16 KV", quantisation_error_is_small, false},
    {"attention refuses what it cannot do and names row and slot", attention_refuses, false},
    {0},
};
