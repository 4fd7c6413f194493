/*
 * handoff.h - the KV of a request goes from its prefill replica to its decode replica
 *
 *   decode                 link                  prefill
 *   RESERVE pages  ------------------------------> request may start
 *                  <-- pieces of KV, by chunk ---  SEND
 *   RECV (all of it)
 *                  --- acknowledgement --------->  ACK, pages free
 *
 * Decode holds its pages from the reservation on, prefill until the acknowledgement. Both holdings
 * carry one fence for the transfer from its first piece to its end, so that a request that is
 * aborted on the way gives its pages back only when nothing can still read or write them.
 */
#ifndef KVT_SERVE_HANDOFF_H
#define KVT_SERVE_HANDOFF_H

#include "sim/serve/core.h"

/* r's prompt is computed up to `end` tokens: hand the new ones to the link. */
void kvt_handoff_send(struct kvt_core *core, int32_t r, int32_t end, bool last);

#endif
