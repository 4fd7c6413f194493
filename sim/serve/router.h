/*
 * router.h - which replica of a pool gets a request
 *
 * The router knows what it has sent to each replica and not seen end: requests, and their prompt
 * tokens. It does not look into a scheduler, so nothing that a macro-step has decided ahead can
 * leak into a choice. Ties go to the lowest number.
 *
 *   round-robin   in turn
 *   least-tokens  the fewest prompt tokens under way
 *   prefix-aware  the longest cached prefix if it covers half of the prompt and the fleet is not
 *                 out of balance (32 requests and 1.5 times between the most and the least loaded);
 *                 least tokens otherwise. After SGLang's cache-aware router.
 *
 * Cost: O(1) round robin, O(replicas) least tokens, O(replicas x pages of the prompt) prefix aware.
 */
#ifndef KVT_SERVE_ROUTER_H
#define KVT_SERVE_ROUTER_H

#include "sim/serve/core.h"

/* The id of the replica of this role that serves r. Its load grows by r. */
int32_t kvt_router_choose(struct kvt_core *core, enum kvt_role role, int32_t r);

/* r is done on this replica. */
void kvt_router_done(struct kvt_core *core, int32_t replica, int32_t r);

#endif
