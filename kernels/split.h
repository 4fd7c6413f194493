/*
 * split.h - how the rows of an attention call are cut into pieces for a number of workers
 *
 * A work unit is one row and one kv head (MLA: one row and a block of heads). Each has ceil(context
 * / page_tokens) pages, and costs pages + overhead. Workers take units in order, row by row; a
 * worker takes up to payload + overhead of cost, payload = ceil(sum of costs / workers), and a unit
 * is cut where a worker is full; each part of a cut unit costs the overhead again. So there are
 * fewer than rows * units + workers pieces, fewer merges than workers, and fewer slots than 2 *
 * workers. (FlashMLA's scheduler, with the overhead measured.)
 *
 * The plan depends on contexts, page size, units and workers only: never on page ids or on time. It
 * is plain C shared by the CPU version, the CUDA launcher, and whoever wants to know what will run.
 */
#ifndef KVT_KERNELS_SPLIT_H
#define KVT_KERNELS_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#define KVT_SPLIT_OVERHEAD 1 /* pages: what starting a piece costs on every backend */

struct kvt_piece {
    int32_t row, unit;             /* unit: kv head, or block of heads */
    int32_t first_page, last_page; /* of the row's list; last_page not included */
    int32_t slot;                  /* in the workspace; -1: the only piece of its row and unit */
};

struct kvt_merge { /* a row and unit with more than one piece */
    int32_t row, unit;
    int32_t first_slot, count; /* slots are consecutive and in the order of the pages */
};

struct kvt_split {
    int32_t workers, units; /* units of a row */
    int32_t rows, rows_max; /* planned; placed for */
    int32_t piece_count, merge_count, slot_count;
    int32_t *worker_piece;    /* [workers + 1] pieces of worker w: worker_piece[w] .. [w + 1] */
    struct kvt_piece *pieces; /* [rows * units + workers] */
    struct kvt_merge *merges; /* [workers] */
};

/* Bytes that a split of this size needs at most, for kvt_split_place. */
size_t kvt_split_bytes(int32_t rows, int32_t units, int32_t workers);

/* Point the arrays of split into memory (aligned to 8, kvt_split_bytes long, borrowed). */
void kvt_split_place(struct kvt_split *split, void *memory, int32_t rows, int32_t units,
                     int32_t workers);

/* Fill a placed split for these contexts. rows may be less than it was placed for. overhead is in
 * pages. Rows of context 0 get one empty piece. O(rows * units + workers), allocates nothing. */
void kvt_split_plan(struct kvt_split *split, const int32_t context[], int32_t rows,
                    int32_t page_tokens, int32_t overhead);

/* *view = a planned split whose memory was copied elsewhere: counts as planned, arrays at the same
 * places behind `there` as planned's are behind what it was placed in. */
void kvt_split_view(struct kvt_split *view, const struct kvt_split *planned, void *there);

#endif
