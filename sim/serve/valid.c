/* The invariants of the serving core, checked from scratch: --paranoid and tests. */
#include "sim/serve/core.h"

/* Pages that requests hold on each replica add up to what its pool says is held. */
static void validate_holdings(const struct kvt_core *core, struct kvt_replica *replicas)
{
    for (int32_t i = 0; i < core->replica_count; i++)
        replicas[i].audit = 0;
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        for (int side = 0; side < 2; side++) {
            int32_t id = side == 0 ? request->replica : request->decode_replica;
            if (id == KVT_NONE)
                continue;
            struct kvt_replica *replica = &replicas[id];
            const struct kvt_holding *holding = side == 0 ? &request->home : &request->away;
            kvt_assert(holding->fences >= 0);
            kvt_assert(holding->shared <= holding->pages);
            /* A running member's pages follow from its context; named pools keep count as well. */
            bool member = request->state == KVT_REQUEST_RUNNING &&
                          (side == 1 || request->decode_replica == KVT_NONE);
            int32_t pages = holding->pages;
            if (member && !replica->pages.named)
                pages = kvt_pages_for(replica, kvt_batch_context(&replica->batch, r));
            replica->audit += pages - holding->shared;
        }
    }
    for (int32_t i = 0; i < core->replica_count; i++) {
        const struct kvt_replica *replica = &replicas[i];
        int64_t shared = 0;
        if (replica->spec.prefix_cache)
            for (int32_t page = 0; page < replica->pages.total; page++)
                shared += replica->prefix.locks[page] > 0;
        kvt_assert(replica->audit + shared == replica->pages.held);
    }
}

void kvt_core_audit(const struct kvt_core *core)
{
    int64_t live = 0;
    for (int32_t tenant = 0; tenant < core->tenants; tenant++) {
        const struct kvt_counts *counts = &core->counts[tenant];
        live += counts->arrived - counts->completed - counts->rejected - counts->aborted;
    }
    kvt_assert(live == core->live);
    for (int32_t i = 0; i < core->replica_count; i++) {
        const struct kvt_pages *pages = &core->replicas[i].pages;
        kvt_assert(pages->free + pages->held + pages->cached + pages->quarantined == pages->total);
    }
}

void kvt_core_validate(struct kvt_core *core)
{
    kvt_core_audit(core);
    for (int32_t i = 0; i < core->replica_count; i++) {
        const struct kvt_replica *replica = &core->replicas[i];
        kvt_assert(kvt_pages_is_valid(&replica->pages));
        kvt_assert(kvt_batch_is_valid(&replica->batch));
        if (replica->spec.prefix_cache)
            kvt_assert(kvt_prefix_is_valid(&replica->prefix));
    }
    validate_holdings(core, core->replicas);
}
