/*
 * replica.h - one replica: its pages, its queues, its batch, and the steps it has planned
 *
 * A replica is one copy of the model on its GPUs, served by one scheduler. What it does next is
 * the scheduler's business (scheduler.h); this file has what they share: admitting a
 * request, taking and giving back pages, preempting, finishing.
 *
 * A step is a list of prompt chunks, a decode of the whole batch, or both (mixed). It is described
 * by sums, which is all that its time depends on, and by its chunks and joiners.
 */
#ifndef KVT_SERVE_REPLICA_H
#define KVT_SERVE_REPLICA_H

#include "sim/base/names.h"
#include "sim/base/ticks.h"
#include "sim/serve/batch.h"
#include "sim/serve/pages.h"
#include "sim/serve/prefix.h"

struct kvt_core;

struct kvt_replica_spec {
    enum kvt_role role;
    enum kvt_engine engine;
    int32_t pages, page_tokens;
    int32_t window; /* of windowed or sparse layers, for the step's sums; 0: none */
    bool overlap;
    bool prefix_cache;
    bool zeroes; /* freed pages are zeroed by the next step */
    bool named;  /* name pages even if nothing here needs it (log, guards, faults) */
    enum kvt_free_order free_order;
    int32_t chunk_tokens; /* new prompt tokens of a step */
    int32_t batch_tokens; /* sglang: prompt tokens admitted a step; vllm: all tokens of a step */
    int32_t max_running;
    int32_t max_model_len;
    double conservativeness;        /* sglang */
    int32_t reserved_decode_tokens; /* decode role */
};

struct kvt_chunk {
    int32_t request;
    int32_t tokens; /* new ones */
    int32_t end;    /* tokens of the prompt computed when the step commits */
    bool last;      /* ends the prompt: the step gives its next token */
};

struct kvt_step {
    int32_t decodes;       /* members that decode one token each */
    int32_t growing;       /* of them, inside the window */
    int64_t context;       /* tokens they read: sum of contexts */
    int64_t windowed;      /* sum of min(context, window) */
    int64_t prompt_tokens; /* new prompt tokens */
    int64_t pairs;         /* query-key pairs of those */
    int64_t copied_tokens; /* KV brought back from host memory */
    int64_t freed_tokens;  /* room of freed pages that this step zeroes */
    int32_t prompt_ends;   /* prompts that end here */
    int32_t chunk_count, joiner_count;
    struct kvt_chunk *chunks; /* [max_running + 1] */
    int32_t *joiners;         /* [max_running + 1] members whose first decode this is */
};

#define KVT_STEPS_IN_FLIGHT 2

struct kvt_replica {
    int32_t id;
    struct kvt_replica_spec spec;
    struct kvt_pages pages;
    struct kvt_prefix prefix; /* valid with spec.prefix_cache */
    struct kvt_batch batch;
    struct kvt_queue waiting, reserving, ready, retracted, draining;
    int32_t chunked; /* the request whose prompt is under way, or KVT_NONE */
    bool blocked;    /* the head of a queue does not fit until something is given back */
    int64_t ratio, ratio_first, ratio_min, ratio_decay; /* sglang: new-token ratio, 2^-32 */
    int32_t expected;                                   /* decode role: reserved, not yet ready */
    int32_t *fresh; /* [max_running + 1] members that have not decoded yet */
    int32_t fresh_count;
    struct kvt_step steps[KVT_STEPS_IN_FLIGHT];
    int32_t oldest, in_flight;
    const struct kvt_step *unjoined;    /* its ended prompts join the batch at the next plan */
    int64_t load_tokens, load_requests; /* what the router has sent here and not seen end */
    int64_t preemptions;
    int64_t freed_pages;                  /* not zeroed yet */
    int64_t fenced_pages;                 /* of requests that are gone: held by fences alone */
    kvt_ticks fenced_at;                  /* the last change of that ... */
    double fenced_page_s;                 /* ... and its integral up to then */
    int64_t audit;                        /* scratch of kvt_core_validate */
    int64_t cached_tokens, prompt_tokens; /* found in the prefix cache; asked for */
};

enum kvt_status kvt_replica_init(struct kvt_replica *replica, struct kvt_arena *arena,
                                 struct kvt_core *core, int32_t id,
                                 const struct kvt_replica_spec *spec, int32_t *finish_position,
                                 int32_t *outgrow_position, struct kvt_err *err);

/* The scheduler would plan differently now: have the driver ask again after the current step. */
void kvt_replica_wake(struct kvt_core *core, struct kvt_replica *replica, int32_t r);

/* Pages for the first tokens tokens. */
static inline int32_t kvt_pages_for(const struct kvt_replica *replica, int64_t tokens)
{
    return (int32_t)((tokens + replica->spec.page_tokens - 1) / replica->spec.page_tokens);
}

/* Pages that could be taken now, evicting what is cached. */
static inline int32_t kvt_replica_available(const struct kvt_replica *replica)
{
    return replica->pages.free + replica->pages.cached;
}

/* The holding of r on this replica. */
static inline struct kvt_holding *kvt_replica_holding(const struct kvt_replica *replica,
                                                      struct kvt_request *request)
{
    return replica->spec.role == KVT_ROLE_DECODE ? &request->away : &request->home;
}

/* Take count pages for r, evicting if need be; available >= count. */
void kvt_replica_take(struct kvt_core *core, struct kvt_replica *replica, int32_t r, int32_t count);

/* Give r's pages back, or mark them so that the last fence does. Notes FREE. */
void kvt_replica_release(struct kvt_core *core, struct kvt_replica *replica, int32_t r);

/* It restarted: what it had cached is gone. */
void kvt_replica_forget(struct kvt_core *core, struct kvt_replica *replica);

/* One step or transfer that touches r's pages ended. */
void kvt_replica_unfence(struct kvt_core *core, struct kvt_replica *replica, int32_t r);

/* Start the prefill pass of r (from a queue): share the prefix of `cached` tokens that ends in
 * leaf. Does not take pages for new tokens. */
void kvt_replica_begin_prefill(struct kvt_core *core, struct kvt_replica *replica, int32_t r,
                               int32_t leaf, int32_t shared_pages);

/* Pages of r's prompt that are cached, at most all but the last token. */
int32_t kvt_replica_match(const struct kvt_core *core, const struct kvt_replica *replica, int32_t r,
                          int32_t *leaf);

/* Add a chunk of `tokens` new tokens of r to the step, with its pages. Notes ADMIT. */
void kvt_replica_add_chunk(struct kvt_core *core, struct kvt_replica *replica,
                           struct kvt_step *step, int32_t r, int32_t tokens);

/* r decodes from the next decode step on; or all requests whose prompt ended in the last planned
 * step do. */
void kvt_replica_join(struct kvt_replica *replica, int32_t r);
void kvt_replica_join_ended(struct kvt_core *core, struct kvt_replica *replica);

/* Member r leaves the batch; its holding says exactly what it has. */
void kvt_replica_leave(struct kvt_core *core, struct kvt_replica *replica, int32_t r);

/* Take a member out of the batch for want of pages; it will be computed again (to the given end of
 * waiting), or its KV goes to host memory (decode role). Frees its pages at once: later steps of
 * the same replica run after the ones in flight. */
void kvt_replica_preempt(struct kvt_core *core, struct kvt_replica *replica, int32_t r,
                         bool to_front);

/* Plan one decode of the whole batch into the step; the pages it needs are available. */
void kvt_replica_add_decode(struct kvt_core *core, struct kvt_replica *replica,
                            struct kvt_step *step);

#endif
