/*
 * core.h - the serving core: what a fleet decides, without a clock, threads or I/O
 *
 * A driver tells the core what happened and asks what to do next:
 *
 *     kvt_core_arrive(r)           a request reached the fleet
 *     kvt_core_plan(replica)       the next step of a replica, or nothing to do
 *     kvt_core_commit(replica, k)  the oldest planned step ran, k times in a row
 *     kvt_core_transfer_done(r)    all KV of r is on its decode replica
 *     kvt_core_acknowledge(r)      prefill has heard so
 *     kvt_core_cancel(r)           the client went away
 *
 * Every call may leave effects (struct kvt_effect) that the driver carries out before its next
 * call: start a transfer, note a token, look at a replica again. The driver of sim/des moves a
 * virtual clock; the one of runtime/ runs kernels. Both see the same decisions.
 *
 * Steps. A replica without overlap has at most one step planned; with overlap two: step n + 1 is
 * planned when n starts, so it does not know what n will find, and a request that finishes in n is
 * in n + 1 once more (its token is thrown away and its pages are held until n + 1 commits).
 *
 * Macro-steps. After planning, kvt_core_run_limit says how many times in a row the running step may
 * be repeated because every plan in between would be the same decode step. The driver may stop
 * earlier at any step end; it then calls kvt_core_extend(replica, k - 1) and
 * kvt_core_commit(replica, k). Running every step by itself gives the same decisions.
 *
 * Order. Requests are served first come, first served. Nothing depends on addresses or on hashing.
 */
#ifndef KVT_SERVE_CORE_H
#define KVT_SERVE_CORE_H

#include "sim/base/decision.h"
#include "sim/base/names.h"
#include "sim/serve/replica.h"

enum kvt_effect_kind {
    KVT_EFFECT_WAKE,    /* replica: plan again as soon as its current step ends */
    KVT_EFFECT_FIRST,   /* request: its first token is out */
    KVT_EFFECT_TOKEN,   /* request: the token of a repeated prefill is out */
    KVT_EFFECT_FINISH,  /* request: its last token is out; value 1: it decoded on replica */
    KVT_EFFECT_PREEMPT, /* request left the batch of replica; value 1: it decoded there */
    KVT_EFFECT_SEND,    /* request: send value more tokens; last: it was the last piece */
    KVT_EFFECT_ACK,     /* request: tell prefill that the transfer is complete */
    KVT_EFFECT_REJECT,  /* request */
    KVT_EFFECT_ABORT,   /* request; value 1: it left the batch of replica after decoding there */
};

struct kvt_effect {
    int16_t kind; /* enum kvt_effect_kind */
    int16_t replica;
    int32_t request;
    int32_t value;
    bool last;
};

struct kvt_log { /* where decisions go; the driver sets now before each call */
    kvt_ticks now;
    uint64_t digest;
    void (*sink)(void *context, const struct kvt_decision *decision); /* NULL: digest only */
    void *context;
};

struct kvt_pool { /* the replicas of one role */
    int32_t first, count;
    enum kvt_router router;
    int32_t turn; /* round robin */
};

struct kvt_counts { /* arrived == completed + rejected + aborted + live */
    int64_t arrived, completed, rejected, aborted;
};

struct kvt_core_spec {
    const struct kvt_replica_spec *roles[KVT_ROLE_COUNT]; /* NULL: no such role */
    int32_t replicas[KVT_ROLE_COUNT];
    enum kvt_router routers[KVT_ROLE_COUNT];
    int32_t request_count;
    const int32_t *input, *output; /* [request_count] */
    const uint16_t *tenant;        /* or NULL */
    int32_t tenants;
    const int64_t *hash_begin; /* or NULL; see trace.h */
    const uint64_t *hashes;
    int32_t block_tokens;
    bool decode_only;  /* requests start on the decode role with their KV there */
    bool prefill_only; /* requests end with their first token */
};

struct kvt_core {
    struct kvt_request *requests;
    int32_t request_count;
    struct kvt_replica *replicas;
    int32_t replica_count;
    struct kvt_pool pools[KVT_ROLE_COUNT];
    struct kvt_log log;
    struct kvt_effect *effects;
    int32_t effect_count, effect_capacity;
    struct kvt_counts *counts; /* [tenants] */
    const uint16_t *tenant;
    int32_t tenants;
    const int64_t *hash_begin; /* borrowed from the trace */
    const uint64_t *hashes;
    int32_t block_tokens;
    bool disaggregated, decode_only, prefill_only;
    int32_t output_max; /* of all requests */
    int64_t live;       /* arrived and not yet gone */
    int64_t preemptions;
};

/* Everything is taken from the arena; nothing afterwards allocates. */
enum kvt_status kvt_core_init(struct kvt_core *core, struct kvt_arena *arena,
                              const struct kvt_core_spec *spec, struct kvt_err *err);

void kvt_core_arrive(struct kvt_core *core, int32_t r);

/* Plan one step of a replica that has fewer in flight than it may. NULL: nothing to do. */
const struct kvt_step *kvt_core_plan(struct kvt_core *core, int32_t replica);

int64_t kvt_core_run_limit(const struct kvt_core *core, int32_t replica);
void kvt_core_extend(struct kvt_core *core, int32_t replica, int64_t steps);
void kvt_core_commit(struct kvt_core *core, int32_t replica, int64_t steps);

/* Of a run under way, the first `steps` (fewer than its limit) have ended and one more is running:
 * bring the replica's state up to that, so that something other than a step end may touch it. */
void kvt_core_settle(struct kvt_core *core, int32_t replica, int64_t steps);

/* Bytes of r may be on the link from here on (also before its first chunk is committed: by layer).
 */
void kvt_core_transfer_begin(struct kvt_core *core, int32_t r);
void kvt_core_transfer_done(struct kvt_core *core, int32_t r);
void kvt_core_acknowledge(struct kvt_core *core, int32_t r);
void kvt_core_cancel(struct kvt_core *core, int32_t r);

/* The KV of r, which decodes, is not to be trusted. It is computed again from the prompt and the
 * tokens that are out (recompute: to the front of the queue of its first role), or transferred
 * again (refetch: its sender must hold it still). Tokens of the steps in flight are thrown away.
 * The tokens that this takes; 0 when it cannot be, and nothing was done (recompute.c). */
int32_t kvt_core_recompute(struct kvt_core *core, int32_t r);
int32_t kvt_core_refetch(struct kvt_core *core, int32_t r);

/* Whether request r could ever be served; otherwise what it would need and what there is. */
bool kvt_core_can_serve(const struct kvt_core *core, int32_t r, int64_t *need, int64_t *have);

/* Assert that no request and no page is lost. O(replicas): at the end of every run. */
void kvt_core_audit(const struct kvt_core *core);

/* Assert every invariant of every part. O(everything): for --paranoid and tests. */
void kvt_core_validate(struct kvt_core *core);

/* --- for the files of this folder ----------------------------------------------------------- */

/* r is gone (completed or aborted): nothing happens to it any more but giving its pages back. */
void kvt_core_leave(struct kvt_core *core, int32_t r, enum kvt_request_state state);

/* Give back the pages of a member that left its batch: now, or when the planned steps that know it
 * have run. */
void kvt_core_release_member(struct kvt_core *core, struct kvt_replica *replica, int32_t r);

static inline void kvt_core_note(struct kvt_core *core, enum kvt_decision_kind kind, int32_t r,
                                 int32_t replica, int64_t count)
{
    struct kvt_decision decision = {core->log.now, count, r, (int16_t)replica, (int16_t)kind};
    if (kvt_decision_is_digested(kind))
        core->log.digest = kvt_digest_decision(core->log.digest, &decision);
    if (core->log.sink != NULL)
        core->log.sink(core->log.context, &decision);
}

static inline void kvt_core_effect(struct kvt_core *core, enum kvt_effect_kind kind,
                                   int32_t replica, int32_t request, int32_t value)
{
    kvt_assert(core->effect_count < core->effect_capacity);
    core->effects[core->effect_count++] =
        (struct kvt_effect){(int16_t)kind, (int16_t)replica, request, value, false};
}

#endif
