/* The invariants of the serving core, checked from scratch: --paranoid and tests. */
#include "sim/serve/core.h"

/* Pages that requests hold on a replica add up to what its pool says is held. */
static void validate_holdings(const struct kvt_core *core, const struct kvt_replica *replica)
{
    int64_t own = 0, shared = 0;
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        bool decode = replica->spec.role == KVT_ROLE_DECODE;
        if ((decode ? request->decode_replica : request->replica) != replica->id)
            continue;
        const struct kvt_holding *holding = decode ? &request->away : &request->home;
        kvt_assert(holding->fences >= 0);
        kvt_assert(holding->shared <= holding->pages);
        /* A running member's pages follow from its context; a named pool keeps count as well. */
        int32_t pages = holding->pages;
        bool member = request->state == KVT_REQUEST_RUNNING &&
                      (decode || request->decode_replica == KVT_NONE);
        if (member && !replica->pages.named)
            pages = kvt_pages_for(replica, kvt_batch_context(&replica->batch, r));
        own += pages - holding->shared;
    }
    if (replica->spec.prefix_cache)
        for (int32_t page = 0; page < replica->pages.total; page++)
            shared += replica->prefix.locks[page] > 0;
    kvt_assert(own + shared == replica->pages.held);
}

void kvt_core_validate(const struct kvt_core *core)
{
    int64_t live = 0;
    for (int32_t tenant = 0; tenant < core->tenants; tenant++) {
        const struct kvt_counts *counts = &core->counts[tenant];
        live += counts->arrived - counts->completed - counts->rejected - counts->aborted;
    }
    kvt_assert(live == core->live);
    for (int32_t i = 0; i < core->replica_count; i++) {
        const struct kvt_replica *replica = &core->replicas[i];
        kvt_assert(kvt_pages_is_valid(&replica->pages));
        kvt_assert(kvt_batch_is_valid(&replica->batch));
        if (replica->spec.prefix_cache)
            kvt_assert(kvt_prefix_is_valid(&replica->prefix));
        validate_holdings(core, replica);
    }
}
