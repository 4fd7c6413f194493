/* What guards and the ground truth see in memory: strike.h. */
#include <string.h>

#include "runtime/strike.h"

static bool decodes(const struct kvt_planned *plan, int32_t e)
{
    return e < plan->load.decodes;
}

/* Whether what the step computes for an entry will be let out. */
static bool is_live(const struct kvt_real *real, int32_t id, const struct kvt_planned *plan,
                    int32_t e)
{
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_request *request = &core->requests[plan->entries[e].request];
    if (plan->entries[e].stopped)
        return false;
    if (!decodes(plan, e)) /* a member's: its last chunk, under overlap */
        return request->state == KVT_REQUEST_PREFILL || request->state == KVT_REQUEST_RUNNING;
    return request->state == KVT_REQUEST_RUNNING &&
           request->joined <= core->replicas[id].batch.committed;
}

/* Output tokens of an entry's request before the step. */
static int32_t generated(const struct kvt_real *real, int32_t id, const struct kvt_planned *plan,
                         int32_t e)
{
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_request *request = &core->requests[plan->entries[e].request];
    if (!decodes(plan, e))
        return request->generated - plan->entries[e].wanted;
    return request->generated + (int32_t)(core->replicas[id].batch.committed - request->joined);
}

/* ---- the side array ----------------------------------------------------------------------- */

void kvt_real_write_side(struct kvt_real *real, int32_t id, int32_t page, uint64_t tag)
{
    struct kvt_device *device = &kvt_real_replica_of(real, id)->device;
    struct kvt_real_side *side = &real->sides[id];
    side->host[page] = (struct kvt_page_tag){tag, tag};
    device->ops->copy(device, &side->device[page], &side->host[page], sizeof *side->host);
}

/* What the allocator did since it was asked last, put into the side array. */
void kvt_real_allocator(struct kvt_real *real, int32_t id)
{
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_replica *replica = &core->replicas[id];
    const struct kvt_pages *pages = &replica->pages;
    struct kvt_real_side *side = &real->sides[id];
    for (int32_t page = 0; page < pages->total; page++) {
        struct kvt_real_seen *seen = &side->seen[page];
        bool used = pages->state[page] == KVT_PAGE_HELD || pages->state[page] == KVT_PAGE_CACHED;
        int32_t owner = pages->owner[page], index = 0;
        if (seen->used == used && seen->owner == owner &&
            seen->generation == pages->generation[page])
            continue;
        *seen = (struct kvt_real_seen){owner, pages->generation[page], used};
        if (used && replica->spec.prefix_cache && replica->prefix.locks[page] >= 0) {
            for (int32_t at = replica->prefix.parent[page]; at != KVT_NONE; index++)
                at = replica->prefix.parent[at];
        } else if (used) {
            const struct kvt_holding *holding =
                kvt_replica_holding(replica, &core->requests[owner]);
            int32_t count = kvt_planned_pages(replica, holding, side->list, pages->total);
            while (index < count && side->list[index] != page)
                index++;
        }
        uint64_t tag = used ? kvt_real_tag(real, id, owner, index, seen->generation) : KVT_TAG_FREE;
        kvt_real_write_side(real, id, kvt_pool_page(page), tag);
    }
}

/* ---- before a step ------------------------------------------------------------------------ */

/* The table that the step will use, and what its requests expect to find there. */
void kvt_real_prepare(struct kvt_real *real, int32_t id)
{
    struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
    const struct kvt_planned *plan = &replica->planned[replica->first];
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        for (int32_t i = 0; i < entry->pages; i++) {
            int32_t at = entry->begin + i, page = plan->page[at];
            int32_t owner = (int32_t)(plan->want[at] >> 32) - 1;
            uint32_t generation = (uint32_t)plan->want[at];
            const struct kvt_real_entry *changed = kvt_real_entry(real, id, entry->request, i);
            if (changed != NULL) {
                page = changed->page;
                generation = changed->generation;
            }
            real->table[id][at] = kvt_pool_page(page);
            real->want[id][at] = kvt_real_tag(real, id, owner, i, generation);
        }
    }
}

static bool looks_at(const struct kvt_real *real, int32_t id, const struct kvt_planned *plan,
                     int32_t e, bool ran)
{
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_entry *entry = &plan->entries[e];
    const struct kvt_request *request = &core->requests[entry->request];
    enum kvt_guard_check check = kvt_real_guards(real, id)->check;
    if (!is_live(real, id, plan, e) || ran != (check == KVT_CHECK_AFTER_STEP))
        return false;
    int32_t first = decodes(plan, e) ? request->context : request->cached;
    return check != KVT_CHECK_ONCE || entry->position == first;
}

/* Of the pages of such an entry, whether this one. */
static bool looks_at_page(const struct kvt_real *real, int32_t id, const struct kvt_entry *entry,
                          int32_t index)
{
    const struct kvt_guards *guards = kvt_real_guards(real, id);
    int32_t size = kvt_real_replica_of(real, id)->layout.page_tokens;
    int64_t step = real->runtime->core->replicas[id].batch.committed;
    if (guards->check == KVT_CHECK_BEFORE_WRITE)
        return index == (entry->position + entry->rows - 1) / size;
    return guards->check != KVT_CHECK_SAMPLED ||
           kvt_faults_sample(real->faults, entry->request, index, step, guards->sample);
}

/* Tokens of an entry that are checked. */
static int32_t checked(const struct kvt_entry *entry, bool ran)
{
    return entry->position + (ran ? entry->rows : 0);
}

static int32_t covered(int32_t tokens, int32_t index, int32_t size)
{
    int32_t left = tokens - index * size;
    return left < size ? left : size;
}

/* Guards that look at the page itself. */
static bool page_is_bad(struct kvt_real *real, int32_t id, const struct kvt_entry *entry,
                        int32_t index, int32_t tokens)
{
    struct kvt_shadow *shadow = &real->shadows[id];
    int32_t page = real->table[id][entry->begin + index];
    uint64_t want = real->want[id][entry->begin + index];
    bool bad = false;
    if (kvt_real_guarded(real, id, KVT_GUARD_TAG_INBAND))
        for (int32_t l = 0; l < shadow->pool->layers; l++)
            bad |= kvt_shadow_header(shadow, page, l, KVT_HEADER_TAG) != want;
    if (kvt_real_guarded(real, id, KVT_GUARD_CANARY)) {
        uint64_t chain = kvt_real_chain(real, entry->request, index * shadow->tokens + tokens);
        for (int32_t l = 0; l < shadow->pool->layers; l++)
            bad |= kvt_shadow_header(shadow, page, l, KVT_HEADER_CANARY) != chain;
    }
    if (!kvt_real_guarded(real, id, KVT_GUARD_DIGEST))
        return bad;
    kvt_shadow_read(shadow, page, tokens, real->digest);
    const uint64_t *noted = shadow->noted + (size_t)page * (size_t)shadow->tokens;
    return bad || memcmp(noted, real->digest, (size_t)tokens * sizeof *noted) != 0;
}

/* A guard fired at this page of an entry. A second time nothing but an abort helps. */
static void stop(struct kvt_real *real, int32_t id, const struct kvt_entry *entry, int32_t index)
{
    struct kvt_real_request *request = &real->requests[entry->request];
    int32_t page = real->table[id][entry->begin + index] - kvt_pool_page(0);
    enum kvt_fault_action_kind kind =
        kvt_faults_found(real->faults, id, page, entry->request, request->found);
    real->result.detected = request->found = true;
    real->result.lost += kind == KVT_FAULT_CANCEL;
    request->recovers = kind != KVT_FAULT_CANCEL;
    kvt_real_stop_entries(real, id, entry->request);
}

/* The side array by the kernel: entries whose pages fail have replica->check.failed set. Only pages
 * that are looked at are in its list. */
static void check_side(struct kvt_real *real, int32_t id, const struct kvt_planned *plan, bool ran)
{
    struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
    struct kvt_tag_batch *check = &replica->check;
    struct kvt_kv_pool beside = replica->pool; /* the same pages, with tags of the allocator only */
    beside.tags = real->sides[id].device;
    int32_t size = replica->layout.page_tokens, n = 0;
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        check->begin[e] = n;
        for (int32_t i = 0; i * size < checked(entry, ran); i++) {
            if (!looks_at_page(real, id, entry, i))
                continue;
            check->page[n] = real->table[id][entry->begin + i];
            check->want[n++] = real->want[id][entry->begin + i];
        }
    }
    check->begin[plan->entry_count] = n;
    kvt_tag_batch_check(check, &beside, plan->entry_count);
    if (replica->device.ops->wait(&replica->device, &real->failure) != KVT_OK)
        memset(check->failed, 0, (size_t)plan->entry_count);
}

/* The first page of an entry that a guard fires at; -1: none. */
static int32_t first_bad(struct kvt_real *real, int32_t id, const struct kvt_planned *plan,
                         int32_t e, bool ran, bool side)
{
    const struct kvt_entry *entry = &plan->entries[e];
    int32_t size = kvt_real_replica_of(real, id)->layout.page_tokens, tokens = checked(entry, ran);
    for (int32_t i = 0; i * size < tokens; i++) {
        int32_t at = entry->begin + i;
        if (!looks_at_page(real, id, entry, i))
            continue;
        bool beside = side && real->sides[id].host[real->table[id][at]].owner != real->want[id][at];
        if ((i == 0 && real->requests[entry->request].marked) || beside ||
            page_is_bad(real, id, entry, i, covered(tokens, i, size)))
            return i;
    }
    return -1;
}

void kvt_real_check(struct kvt_real *real, int32_t id, bool ran)
{
    struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
    const struct kvt_planned *plan = &replica->planned[ran ? replica->last : replica->first];
    const struct kvt_guards *guards = kvt_real_guards(real, id);
    kvt_real_allocator(real, id);
    if ((guards->on & KVT_GUARDS_LOOK) == 0 || ran != (guards->check == KVT_CHECK_AFTER_STEP))
        return;
    if (kvt_guards_have(guards, KVT_GUARD_TAG_SIDE))
        check_side(real, id, plan, ran);
    for (int32_t e = 0; e < plan->entry_count; e++) {
        bool side = kvt_guards_have(guards, KVT_GUARD_TAG_SIDE) && replica->check.failed[e];
        int32_t bad =
            looks_at(real, id, plan, e, ran) ? first_bad(real, id, plan, e, ran, side) : -1;
        if (bad >= 0)
            stop(real, id, &plan->entries[e], bad);
    }
}

/* ---- after it ran ------------------------------------------------------------------------- */

static void expose(struct kvt_real *real, int32_t id, const struct kvt_planned *plan, int32_t e,
                   uint64_t found)
{
    const struct kvt_core *core = real->runtime->core;
    int32_t r = plan->entries[e].request, writer = kvt_writers_find(&real->writers, found);
    struct kvt_real_request *request = &real->requests[r];
    if (writer >= 0 && core->tenant != NULL && core->tenant[writer] != core->tenant[r])
        real->result.cross_tenant = true;
    if (request->exposed)
        return;
    request->exposed = request->read_wrong = real->result.exposed = true;
    request->before = generated(real, id, plan, e);
    real->result.hit++;
}

/* The tokens of one page that an entry wrote or read. */
static void observe_page(struct kvt_real *real, int32_t id, const struct kvt_planned *plan,
                         int32_t e, int32_t index, int32_t tokens)
{
    struct kvt_shadow *shadow = &real->shadows[id];
    const struct kvt_entry *entry = &plan->entries[e];
    int32_t at = entry->begin + index, size = shadow->tokens, r = entry->request;
    int32_t page = real->table[id][at], own = kvt_pool_page(plan->page[at]);
    uint64_t *truth = shadow->truth + (size_t)own * (size_t)size;
    uint64_t *noted = shadow->noted + (size_t)page * (size_t)size;
    bool live = is_live(real, id, plan, e);
    /* A page that has another owner by now has another's truth, but for what is saved next. */
    const struct kvt_core *core = real->runtime->core;
    bool ours = kvt_pool_tag(&core->replicas[id].pages, plan->page[at]) == plan->want[at] ||
                core->requests[r].state == KVT_REQUEST_RETRACTED;
    kvt_shadow_read(shadow, page, size, real->digest);
    for (int32_t slot = 0; slot < tokens; slot++) {
        uint64_t found = real->digest[slot];
        if (index * size + slot >= entry->position) { /* just written */
            if (entry->stopped || r == real->step_request || !ours)
                continue;
            truth[slot] = noted[slot] = found;
            real->requests[r].wrote |= decodes(plan, e);
            kvt_writers_add(&real->writers, found, r);
        } else if (live && found != truth[slot]) {
            expose(real, id, plan, e, found);
        }
        real->result.tokens_read += live;
    }
    bool zeroed = kvt_real_guarded(real, id, KVT_GUARD_ZERO_ON_FREE);
    for (int32_t slot = tokens; slot < size && live && real->requests[r].over_read == id; slot++)
        if (!zeroed || real->digest[slot] != shadow->zero)
            expose(real, id, plan, e, real->digest[slot]);
}

/* Canaries of what a step wrote: the last thing that its writers do. */
static void stamp_canaries(struct kvt_real *real, int32_t id, const struct kvt_planned *plan)
{
    const struct kvt_shadow *shadow = &real->shadows[id];
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        if (entry->stopped || entry->request == real->step_request)
            continue;
        int32_t end = entry->position + entry->rows, size = shadow->tokens;
        for (int32_t i = entry->position / size; i * size < end; i++)
            kvt_shadow_stamp(
                shadow, real->table[id][entry->begin + i], KVT_HEADER_CANARY,
                kvt_real_chain(real, entry->request, i * size + covered(end, i, size)));
    }
}

/* A role that checks canaries gets them from the one that wrote the page. */
static bool is_canary_read(const struct kvt_real *real)
{
    bool read = false;
    for (int32_t id = 0; id < real->runtime->replica_count; id++)
        read = read || kvt_real_guarded(real, id, KVT_GUARD_CANARY);
    return read;
}

void kvt_real_observe(struct kvt_real *real, int32_t id)
{
    struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
    const struct kvt_planned *plan = &replica->planned[replica->last];
    int32_t size = replica->layout.page_tokens;
    if (is_canary_read(real))
        stamp_canaries(real, id, plan);
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        int32_t end = entry->position + entry->rows;
        for (int32_t i = 0; i * size < end; i++)
            observe_page(real, id, plan, e, i, covered(end, i, size));
    }
}
