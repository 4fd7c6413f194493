/*
 * scheduler.h - what tells the scheduler of one engine from that of another
 *
 * An engine of KVT_ENGINES (sim/base/names.h) has one scheduler, in its own file: sglang.c, vllm.c.
 * Decode roles have one for all engines (decode.c). A scheduler is a constant: what it carries from
 * step to step is in struct kvt_replica. It plans with the parts of replica.h, which keep the
 * invariants of pages and queues; it reads no clock.
 *
 * To add one: a row in KVT_ENGINES, and a file that defines kvt_scheduler_ROW. Its memory is then
 * counted as sglang's, unless memory.c says otherwise.
 */
#ifndef KVT_SERVE_SCHEDULER_H
#define KVT_SERVE_SCHEDULER_H

#include "sim/serve/core.h"

struct kvt_scheduler {
    /* Fill the step; false when there is nothing to do. */
    bool (*plan)(struct kvt_core *core, struct kvt_replica *replica, struct kvt_step *step);

    /* The last plan stands for `steps` more decode steps: what plan() would have changed beside the
     * batch and the pages. NULL: nothing. */
    void (*repeat)(struct kvt_replica *replica, int64_t steps);

    /* Tokens that must stay free beside a request for it to be admitted, of pages this large. NULL:
     * none. */
    int64_t (*spare)(int64_t page_tokens);
};

#define X(name, text) extern const struct kvt_scheduler kvt_scheduler_##name;
KVT_ENGINES(X)
#undef X
extern const struct kvt_scheduler kvt_scheduler_decode;

/* Retract members until the next decode fits or only `keep` are left, by sglang's rule, which every
 * decode role follows; sets the new-token ratio. */
void kvt_scheduler_retract(struct kvt_core *core, struct kvt_replica *replica, int32_t keep);

#endif
