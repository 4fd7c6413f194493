/*
 * batch.h - the requests of one replica that decode, advanced without touching them
 *
 * Every decode step adds one token to every member. So whatever a step needs to know follows from
 * sums and from two counts of the replica's decode steps:
 *
 *     planned    decode steps decided so far (pages taken, work described)
 *     committed  decode steps finished so far (tokens out); committed <= planned
 *
 * A member that joined with c tokens of KV when planned was j holds c + (planned - j) now. It needs
 * a page at a step whose context before it is a multiple of page_tokens: members are kept in
 * page_tokens classes (phases) by the step that comes to, so the pages that the next k steps need
 * are a sum of k counts. It finishes when committed reaches finish_step = j + tokens left; a heap
 * keeps the next. With a window (sliding or sparse attention) a second heap keeps the step at which
 * a member's context grows out of it, and windowed = sum of min(context, window).
 *
 * Ties finish in the order of joining. Cost: O(log members) to join or leave, O(1) per step or run
 * of steps, O(phases in use among the next k) for the pages of k steps.
 */
#ifndef KVT_SERVE_BATCH_H
#define KVT_SERVE_BATCH_H

#include "sim/base/arena.h"
#include "sim/serve/request.h"

struct kvt_step_heap { /* requests by (step, sequence), smallest first */
    struct kvt_step_entry {
        int64_t step;
        int32_t sequence, request;
    } * entries;
    int32_t count;
    int32_t *position; /* by request, of the whole fleet; shared by all replicas */
};

struct kvt_batch {
    struct kvt_request *requests; /* borrowed: the table of the fleet */
    int32_t capacity, page_tokens, window;
    int64_t planned, committed;
    int64_t context;  /* tokens that the next step reads: sum of contexts, its own token included */
    int64_t windowed; /* sum of min(that, window) */
    int64_t remaining;        /* output tokens not yet out, as of committed */
    int32_t growing;          /* members still inside the window */
    int32_t sequence;         /* joins so far */
    struct kvt_queue members; /* in the order of joining */
    struct kvt_step_heap finish, outgrow;
    int32_t *phase_count; /* [page_tokens] */
    uint64_t *phase_used; /* bit p of [page_tokens / 64, rounded up]: phase p has members */
    int32_t *phase_first, *phase_last; /* [page_tokens], in the order of joining */
};

enum kvt_status kvt_batch_init(struct kvt_batch *batch, struct kvt_arena *arena,
                               struct kvt_request *requests, int32_t capacity, int32_t page_tokens,
                               int32_t window, int32_t *finish_position, int32_t *outgrow_position,
                               struct kvt_err *err);

/* r decodes from the next planned step on; its context and generated are as of now. */
void kvt_batch_join(struct kvt_batch *batch, int32_t r);

/* r leaves; its context (as of planned) and generated (as of committed) become exact. */
void kvt_batch_leave(struct kvt_batch *batch, int32_t r);

/* Tokens of KV that member r holds as of planned; output tokens as of committed. */
int32_t kvt_batch_context(const struct kvt_batch *batch, int32_t r);
int32_t kvt_batch_generated(const struct kvt_batch *batch, int32_t r);

/* Plan k more steps: contexts grow. k <= kvt_batch_regular_steps. */
void kvt_batch_plan(struct kvt_batch *batch, int64_t k);

/* Pages that the next k planned steps need. */
int64_t kvt_batch_demand(const struct kvt_batch *batch, int64_t k);

/* First member that needs a page at the next planned step, or KVT_NONE; then follow phase_next. */
int32_t kvt_batch_first_needing(const struct kvt_batch *batch);

/* The largest k <= limit whose demand is at most pages. */
int64_t kvt_batch_steps_within(const struct kvt_batch *batch, int64_t pages, int64_t limit);

/* Commits until the first member finishes; INT64_MAX for an empty batch. */
int64_t kvt_batch_steps_to_finish(const struct kvt_batch *batch);

/* Plans through which windowed grows by `growing` each; INT64_MAX without a window. */
int64_t kvt_batch_regular_steps(const struct kvt_batch *batch);

/* Commit k steps: tokens go out. */
static inline void kvt_batch_commit(struct kvt_batch *batch, int64_t k)
{
    batch->committed += k;
    batch->remaining -= k * batch->members.count;
}

/* The first member in line whose last token is out, or KVT_NONE. */
static inline int32_t kvt_batch_finished(const struct kvt_batch *batch)
{
    const struct kvt_step_heap *heap = &batch->finish;
    return heap->count > 0 && heap->entries[0].step <= batch->committed ? heap->entries[0].request
                                                                        : KVT_NONE;
}

/* Recompute every sum from the members. O(members). */
bool kvt_batch_is_valid(const struct kvt_batch *batch);

#endif
