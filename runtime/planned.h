/*
 * planned.h - a step as it was planned, until it runs; for the files of the engine and of strikes
 *
 * With overlap the core plans step n + 1 before step n has run, and frees and hands out pages while
 * it does. So what a step computes and what its plan did to pages is written down when it is
 * planned and carried out when it runs: entries (rows of one request that follow each other, with
 * their part of one page table) and operations on pages, in the order of the core's decisions.
 *
 * All arrays are owned and taken once, for the largest step of the replica: writing a step down
 * allocates nothing. Pages are the core's (pool.h). Cost: O(pages of the step's requests).
 */
#ifndef KVT_RUNTIME_PLANNED_H
#define KVT_RUNTIME_PLANNED_H

#include "runtime/engine.h"

/* What a plan did to pages, carried out before its step. */
enum kvt_page_op { KVT_OP_OWN, KVT_OP_SAVE, KVT_OP_RESTORE };

struct kvt_planned_op {
    int32_t kind; /* enum kvt_page_op */
    int32_t request;
    int32_t page;      /* OWN */
    int32_t pages, at; /* SAVE, RESTORE: the pages lie in op_pages from `at` on */
    int32_t tokens;    /* of KV in them */
    uint64_t tag;      /* OWN */
};

struct kvt_saved { /* KV of a retracted request, page by page: all layers of one, then the next */
    uint8_t *bytes;
    int32_t pages;
};

struct kvt_entry { /* consecutive rows of one request */
    int32_t request, position, rows;
    int32_t begin, pages; /* in the step's page table */
    bool wanted;          /* the last row's next token */
    bool stopped;         /* since it was planned: it writes nothing */
};

struct kvt_planned {
    struct kvt_step_load load;
    struct kvt_entry *entries;
    int32_t entry_count, entries_max;
    int32_t *page;  /* [table_max] of the core */
    uint64_t *want; /* [table_max] the tag that each ought to carry */
    int32_t table_size, table_max;
    struct kvt_planned_op *ops;
    int32_t op_count, ops_max;
    int32_t *op_pages;
    uint64_t *op_tags; /* beside op_pages */
    int32_t op_page_count, op_pages_max;
};

enum kvt_status kvt_planned_init(struct kvt_planned *planned, int32_t entries_max,
                                 int32_t table_max, int32_t pages, struct kvt_err *err);
void kvt_planned_release(struct kvt_planned *planned);

/* Write down the newest step of a replica: called when the core has planned it. */
void kvt_planned_write(struct kvt_planned *planned, const struct kvt_core *core,
                       const struct kvt_replica *replica);

/* Write down what a decision does to pages. */
void kvt_planned_note(struct kvt_planned *planned, const struct kvt_core *core,
                      const struct kvt_decision *decision);

/* All pages that a request holds on a replica, shared ones first, in the order of the text; at most
 * room. Returns how many. */
int32_t kvt_planned_pages(const struct kvt_replica *replica, const struct kvt_holding *holding,
                          int32_t *pages, int32_t room);

/* The first count pages of target->moves, converted as they go from one replica's pool into the
 * other's. Waits for nothing. */
void kvt_planned_convert(struct kvt_real_replica *source, struct kvt_real_replica *target,
                         int32_t count);

#endif
