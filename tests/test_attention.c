#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/split.h"
#include "sim/base/random.h"
#include "tests/check.h"

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
        int32_t context[20];
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

const struct check_test check_attention[] = {
    {"a split covers every page of every unit once, within budgets", split_covers, false},
    {"ten pages and one, split by hand", split_by_hand, false},
    {0},
};
