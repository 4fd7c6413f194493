#include "sim/serve/router.h"

#define BALANCE_REQUESTS 32

static int32_t least_tokens(const struct kvt_core *core, const struct kvt_pool *pool)
{
    int32_t best = pool->first;
    for (int32_t i = pool->first + 1; i < pool->first + pool->count; i++)
        if (core->replicas[i].load_tokens < core->replicas[best].load_tokens)
            best = i;
    return best;
}

static bool is_balanced(const struct kvt_core *core, const struct kvt_pool *pool)
{
    int64_t most = 0, least = INT64_MAX;
    for (int32_t i = pool->first; i < pool->first + pool->count; i++) {
        int64_t load = core->replicas[i].load_requests;
        most = load > most ? load : most;
        least = load < least ? load : least;
    }
    return most - least <= BALANCE_REQUESTS || 2 * most <= 3 * least;
}

static int32_t longest_prefix(const struct kvt_core *core, const struct kvt_pool *pool, int32_t r)
{
    int32_t best = KVT_NONE, best_pages = 0;
    for (int32_t i = pool->first; i < pool->first + pool->count; i++) {
        int32_t leaf;
        int32_t pages = kvt_replica_match(core, &core->replicas[i], r, &leaf);
        if (pages > best_pages) {
            best = i;
            best_pages = pages;
        }
    }
    if (best == KVT_NONE)
        return KVT_NONE;
    int64_t tokens = (int64_t)best_pages * core->replicas[best].spec.page_tokens;
    return 2 * tokens >= core->requests[r].input ? best : KVT_NONE;
}

int32_t kvt_router_choose(struct kvt_core *core, enum kvt_role role, int32_t r)
{
    struct kvt_pool *pool = &core->pools[role];
    kvt_assert(pool->count > 0);
    int32_t chosen;
    switch (pool->router) {
    case KVT_ROUTER_ROUND_ROBIN:
        chosen = pool->first + pool->turn;
        pool->turn = pool->turn + 1 < pool->count ? pool->turn + 1 : 0;
        break;
    case KVT_ROUTER_PREFIX_AWARE:
        chosen = is_balanced(core, pool) ? longest_prefix(core, pool, r) : KVT_NONE;
        if (chosen == KVT_NONE)
            chosen = least_tokens(core, pool);
        break;
    case KVT_ROUTER_LEAST_TOKENS:
        chosen = least_tokens(core, pool);
        break;
    case KVT_ROUTER_COUNT:
    default:
        kvt_unreachable();
    }
    core->replicas[chosen].load_tokens += core->requests[r].input;
    core->replicas[chosen].load_requests++;
    kvt_core_note(core, KVT_DECIDE_ROUTE, r, chosen, core->requests[r].input);
    return chosen;
}

void kvt_router_done(struct kvt_core *core, int32_t replica, int32_t r)
{
    core->replicas[replica].load_tokens -= core->requests[r].input;
    core->replicas[replica].load_requests--;
    kvt_assert(core->replicas[replica].load_requests >= 0);
}
