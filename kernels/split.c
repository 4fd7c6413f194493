#include "kernels/split.h"

#include "sim/base/assert.h"

static size_t pieces_max(int32_t rows, int32_t units, int32_t workers)
{
    return (size_t)rows * (size_t)units + (size_t)workers;
}

static size_t align8(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

size_t kvt_split_bytes(int32_t rows, int32_t units, int32_t workers)
{
    return align8(pieces_max(rows, units, workers) * sizeof(struct kvt_piece)) +
           align8((size_t)workers * sizeof(struct kvt_merge)) +
           align8(((size_t)workers + 1) * sizeof(int32_t));
}

void kvt_split_place(struct kvt_split *split, void *memory, int32_t rows, int32_t units,
                     int32_t workers)
{
    kvt_assert(rows >= 0 && units >= 1 && workers >= 1);
    kvt_assert(((uintptr_t)memory & 7) == 0);
    char *next = memory;
    *split = (struct kvt_split){.workers = workers, .units = units, .rows_max = rows};
    split->pieces = (struct kvt_piece *)(void *)next;
    next += align8(pieces_max(rows, units, workers) * sizeof(struct kvt_piece));
    split->merges = (struct kvt_merge *)(void *)next;
    next += align8((size_t)workers * sizeof(struct kvt_merge));
    split->worker_piece = (int32_t *)(void *)next;
    for (int32_t w = 0; w <= workers; w++)
        split->worker_piece[w] = 0;
}

/* Where the plan is: the worker that is being filled and what it still may take. */
struct filling {
    int32_t worker;
    int64_t budget, left;
};

static void next_worker(struct kvt_split *split, struct filling *at)
{
    at->worker++;
    kvt_assert(at->worker < split->workers);
    split->worker_piece[at->worker] = split->piece_count;
    at->left = at->budget;
}

/* Cut one unit of one row into pieces. A cut pays the overhead again, a worker that takes no more
 * leaves at most the overhead unused; together they never use up more than the one overhead by
 * which the budget exceeds the payload, so the last worker's budget is enough. */
static void plan_unit(struct kvt_split *split, struct filling *at, int32_t row, int32_t unit,
                      int32_t pages, int64_t overhead)
{
    int32_t first_piece = split->piece_count, done = 0;
    for (;;) {
        int64_t room = at->left - overhead, rest = pages - done;
        if (room >= 0 && (room > 0 || rest == 0)) {
            int32_t take = (int32_t)(rest < room ? rest : room);
            split->pieces[split->piece_count++] = (struct kvt_piece){
                .row = row, .unit = unit, .first_page = done, .last_page = done + take, .slot = -1};
            done += take;
            at->left -= take + overhead;
            if (done == pages)
                break;
        }
        next_worker(split, at);
    }
    int32_t count = split->piece_count - first_piece;
    if (count < 2)
        return;
    split->merges[split->merge_count++] = (struct kvt_merge){
        .row = row, .unit = unit, .first_slot = split->slot_count, .count = count};
    for (int32_t i = 0; i < count; i++)
        split->pieces[first_piece + i].slot = split->slot_count++;
}

void kvt_split_plan(struct kvt_split *split, const int32_t context[], int32_t rows,
                    int32_t page_tokens, int32_t overhead)
{
    kvt_assert(rows >= 0 && rows <= split->rows_max && page_tokens >= 1 && overhead >= 0);
    split->rows = rows;
    split->piece_count = split->merge_count = split->slot_count = 0;
    int64_t cost = 0;
    for (int32_t row = 0; row < rows; row++)
        cost += ((int64_t)context[row] + page_tokens - 1) / page_tokens + overhead;
    cost *= split->units;
    struct filling at = {.budget = (cost + split->workers - 1) / split->workers + overhead};
    at.left = at.budget;
    split->worker_piece[0] = 0;
    for (int32_t row = 0; row < rows; row++) {
        int32_t pages = (int32_t)(((int64_t)context[row] + page_tokens - 1) / page_tokens);
        for (int32_t unit = 0; unit < split->units; unit++)
            plan_unit(split, &at, row, unit, pages, overhead);
    }
    for (int32_t w = at.worker + 1; w <= split->workers; w++)
        split->worker_piece[w] = split->piece_count;
}

void kvt_split_view(struct kvt_split *view, const struct kvt_split *planned, void *there)
{
    const char *base = (const char *)planned->pieces;
    char *memory = there;
    *view = *planned;
    view->pieces = there;
    view->merges = (struct kvt_merge *)(void *)(memory + ((const char *)planned->merges - base));
    view->worker_piece = (int32_t *)(void *)(memory + ((const char *)planned->worker_piece - base));
}
