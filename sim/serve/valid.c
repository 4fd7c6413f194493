/* The invariants of the serving core, checked from scratch: --paranoid and tests. */
#include "sim/serve/core.h"

/* Pages that requests hold on a replica add up to what its pool says is held. */
static bool holdings_are_valid(const struct kvt_core *core, const struct kvt_replica *replica)
{
    int64_t own = 0;
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        bool decode = replica->spec.role == KVT_ROLE_DECODE;
        if ((decode ? request->decode_replica : request->replica) != replica->id)
            continue;
        const struct kvt_holding *holding = decode ? &request->away : &request->home;
        if (holding->fences < 0 || holding->shared > holding->pages)
            return false;
        /* A running member's pages follow from its context; a named pool keeps count as well. */
        bool counted = !replica->pages.named && request->state == KVT_REQUEST_RUNNING;
        own += counted ? kvt_pages_for(replica, kvt_batch_context(&replica->batch, r))
                       : holding->pages - holding->shared;
    }
    int64_t shared = 0;
    if (replica->spec.prefix_cache)
        for (int32_t page = 0; page < replica->pages.total; page++)
            shared += replica->prefix.locks[page] > 0;
    return own + shared == replica->pages.held;
}

bool kvt_core_is_valid(const struct kvt_core *core)
{
    int64_t live = 0;
    for (int32_t tenant = 0; tenant < core->tenants; tenant++) {
        const struct kvt_counts *counts = &core->counts[tenant];
        live += counts->arrived - counts->completed - counts->rejected - counts->aborted;
    }
    if (live != core->live)
        return false;
    for (int32_t i = 0; i < core->replica_count; i++) {
        const struct kvt_replica *replica = &core->replicas[i];
        if (!kvt_pages_is_valid(&replica->pages) || !kvt_batch_is_valid(&replica->batch) ||
            !holdings_are_valid(core, replica))
            return false;
        if (replica->spec.prefix_cache && !kvt_prefix_is_valid(&replica->prefix))
            return false;
    }
    return true;
}
