#include "runtime/strike.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

uint64_t kvt_real_tag(const struct kvt_real *real, int32_t id, int32_t owner, int32_t index,
                      uint32_t generation)
{
    struct kvt_tag_fields fields = {owner, index, generation, real->faults->incarnation[id]};
    return kvt_tag_value(&kvt_real_guards(real, id)->tag, &fields);
}

const struct kvt_real_entry *kvt_real_entry(const struct kvt_real *real, int32_t id, int32_t r,
                                            int32_t index)
{
    for (int32_t i = 0; i < real->entry_count; i++) {
        const struct kvt_real_entry *entry = &real->entries[i];
        if (entry->replica == id && entry->request == r && entry->index == index)
            return entry;
    }
    return NULL;
}

uint64_t kvt_real_chain(struct kvt_real *real, int32_t r, int32_t tokens)
{
    struct kvt_real_request *request = &real->requests[r];
    const int32_t *text = kvt_runtime_text(real->runtime, r);
    uint64_t *chain = real->chain + real->runtime->text_begin[r];
    for (; request->chained < tokens; request->chained++) {
        uint64_t before = request->chained > 0 ? chain[request->chained - 1] : KVT_DIGEST_START;
        chain[request->chained] = kvt_digest_add(before, (uint32_t)text[request->chained]);
    }
    return chain[tokens - 1];
}

/* ---- what the faults, the driver and the core say ------------------------------------------- */

static void hands(void *context, const struct kvt_deed *deed)
{
    struct kvt_real *real = context;
    if (real->failure.status != KVT_OK)
        return;
    if (deed->kind == KVT_DEED_STARTS) {
        kvt_runtime_settle(real->runtime, deed->replica);
        kvt_real_prepare(real, deed->replica);
        kvt_real_check(real, deed->replica, false);
    } else if (deed->kind == KVT_DEED_ENDS) {
        kvt_real_run_again(real, deed->replica);
        kvt_real_check(real, deed->replica, true);
    } else if (deed->kind == KVT_DEED_LANDED) {
        kvt_real_run_again(real, deed->replica);
    } else if (deed->kind == KVT_DEED_ARRIVE) {
        kvt_real_arrive(real, deed->request, deed->index);
    } else if ((int32_t)deed->kind != real->skip && kvt_real_strike(real, deed)) {
        real->result.activated = true;
    }
}

void kvt_real_tell(void *context, enum kvt_call call, int32_t id, kvt_ticks now)
{
    struct kvt_real *real = context;
    (void)now;
    if (real->failure.status != KVT_OK)
        return;
    if (call == KVT_CALL_START) {
        kvt_real_prepare(real, id); /* what a guard stopped has left since */
        kvt_runtime_run(real->runtime, id);
    } else if (call == KVT_CALL_PLAN || call == KVT_CALL_IDLE) {
        kvt_runtime_tell(real->runtime, call, id);
    }
    if (real->runtime->failure.status != KVT_OK)
        real->failure = real->runtime->failure;
}

/* A request has put so many tokens out, and reads its bytes no more. */
static void ends_reading(struct kvt_real *real, int32_t r, int64_t out)
{
    struct kvt_real_request *request = &real->requests[r];
    if (request->exposed && out > request->before)
        real->result.leaked += out - request->before;
    request->exposed = false;
    kvt_real_drop_entries(real, r);
}

/* It will be computed or sent again: nothing of what it held stays. */
static void begins_anew(struct kvt_real *real, int32_t r)
{
    struct kvt_real_request *request = &real->requests[r];
    ends_reading(real, r, real->runtime->core->requests[r].generated);
    kvt_wire_release(&request->wire);
    request->marked = request->arrived = request->wrote = request->recovers = false;
    request->over_read = KVT_NONE;
    request->held = -1;
}

static void note(void *context, const struct kvt_decision *decision)
{
    struct kvt_real *real = context;
    int32_t r = decision->request, id = decision->replica;
    bool retracts = decision->kind == KVT_DECIDE_PREEMPT && !real->requests[r].recovers &&
                    real->runtime->replicas[id].role == KVT_ROLE_DECODE;
    if (decision->kind != KVT_DECIDE_PREEMPT || retracts)
        kvt_runtime_note(real->runtime, decision);
    if (retracts)
        kvt_real_drop_aliases(real, r);
    else if (decision->kind == KVT_DECIDE_PREEMPT)
        begins_anew(real, r);
    if (decision->kind == KVT_DECIDE_FINISH)
        ends_reading(real, r, real->runtime->core->requests[r].output);
    if (decision->kind == KVT_DECIDE_ABORT)
        ends_reading(real, r, decision->count);
}

/* ---- begin and end ------------------------------------------------------------------------ */

static enum kvt_status begin_replica(struct kvt_real *real, int32_t id, struct kvt_err *err)
{
    struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
    struct kvt_real_side *side = &real->sides[id];
    size_t pages = (size_t)replica->pool.pages + 1, table = (size_t)replica->rows.table_max;
    KVT_TRY(kvt_shadow_init(&real->shadows[id], &replica->pool, &real->failure, err));
    KVT_TRY(kvt_device_take(&replica->device, (int64_t)(pages * sizeof *side->device),
                            "tags beside the pages", &side->device, err));
    side->host = calloc(pages, sizeof *side->host);
    side->seen = calloc(pages, sizeof *side->seen);
    side->list = calloc(pages, sizeof *side->list);
    real->table[id] = calloc(table, sizeof *real->table[id]);
    real->want[id] = calloc(table, sizeof *real->want[id]);
    if (side->host == NULL || side->seen == NULL || side->list == NULL || real->table[id] == NULL ||
        real->want[id] == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to follow %zu pages", pages);
    return KVT_OK;
}

enum kvt_status kvt_real_begin(struct kvt_real *real, struct kvt_runtime *runtime,
                               struct kvt_faults *faults, struct kvt_err *err)
{
    size_t replicas = (size_t)runtime->replica_count, count = (size_t)runtime->trace->count;
    int64_t bytes = 0;
    *real = (struct kvt_real){.runtime = runtime,
                              .faults = faults,
                              .sender_request = KVT_NONE,
                              .step_request = KVT_NONE,
                              .residue_replica = KVT_NONE,
                              .skip = -1};
    real->shadows = calloc(replicas, sizeof *real->shadows);
    real->sides = calloc(replicas, sizeof *real->sides);
    real->dirty = calloc(replicas, sizeof *real->dirty);
    real->table = calloc(replicas, sizeof *real->table);
    real->want = calloc(replicas, sizeof *real->want);
    real->digest = calloc((size_t)runtime->replicas[0].layout.page_tokens, sizeof *real->digest);
    real->requests = calloc(count, sizeof *real->requests);
    size_t entries = 2;
    for (size_t id = 0; id < replicas; id++)
        if ((size_t)runtime->replicas[id].planned[0].entries_max > entries)
            entries = (size_t)runtime->replicas[id].planned[0].entries_max;
    real->headers = calloc(2 * entries, sizeof *real->headers);
    real->chain = calloc((size_t)runtime->text_begin[count], sizeof *real->chain);
    if (real->shadows == NULL || real->sides == NULL || real->dirty == NULL ||
        real->table == NULL || real->want == NULL || real->digest == NULL ||
        real->requests == NULL || real->headers == NULL || real->chain == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to follow %zu requests", count);
    for (size_t r = 0; r < count; r++)
        real->requests[r].held = real->requests[r].over_read = KVT_NONE;
    KVT_TRY(kvt_writers_init(&real->writers, err));
    for (int32_t id = 0; id < runtime->replica_count; id++) {
        KVT_TRY(begin_replica(real, id, err));
        int64_t page = kvt_shadow_page_bytes(&real->shadows[id]);
        bytes = page > bytes ? page : bytes;
    }
    real->row = calloc(1, (size_t)bytes);
    if (real->row == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a page");
    runtime->hooks = (struct kvt_runtime_hooks){
        .context = real, .adjust = kvt_real_adjust, .ran = kvt_real_ran, .moves = kvt_real_moves};
    faults->hands = hands;
    faults->hands_context = real;
    faults->sink = note;
    faults->sink_context = real;
    return KVT_OK;
}

void kvt_real_release(struct kvt_real *real)
{
    if (real->runtime == NULL)
        return;
    for (int32_t id = 0; id < real->runtime->replica_count; id++) {
        struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
        struct kvt_real_side *side = real->sides != NULL ? &real->sides[id] : NULL;
        if (side != NULL) {
            int64_t pages = (int64_t)replica->pool.pages + 1;
            kvt_device_give(&replica->device, side->device, pages * (int64_t)sizeof *side->device);
            free(side->host);
            free(side->seen);
            free(side->list);
        }
        if (real->shadows != NULL)
            kvt_shadow_release(&real->shadows[id]);
        free(real->table != NULL ? real->table[id] : NULL);
        free(real->want != NULL ? real->want[id] : NULL);
    }
    for (int32_t r = 0; real->requests != NULL && r < real->runtime->trace->count; r++) {
        kvt_wire_release(&real->requests[r].wire);
        free(real->requests[r].kept);
    }
    kvt_wire_release(&real->late);
    kvt_writers_release(&real->writers);
    free(real->sender.memory);
    free(real->shadows);
    free(real->sides);
    free(real->dirty);
    free(real->table);
    free(real->want);
    free(real->digest);
    free(real->requests);
    free(real->headers);
    free(real->chain);
    free(real->row);
    real->runtime->hooks = (struct kvt_runtime_hooks){0};
    *real = (struct kvt_real){0};
}

/* Pages that are out of reach when the run has ended. */
static int32_t lost_pages(const struct kvt_core *core)
{
    int32_t lost = 0;
    for (int32_t i = 0; i < core->replica_count; i++)
        lost += core->replicas[i].pages.held + core->replicas[i].pages.quarantined;
    return lost;
}

void kvt_real_finish(struct kvt_real *real)
{
    const struct kvt_core *core = real->runtime->core;
    struct kvt_real_result *result = &real->result;
    const struct kvt_fault_result *driver = &real->faults->results[0];
    bool costly = real->faults->strikes[0].variant == KVT_STRIKE_LIVENESS_WITHHELD;
    result->saved = driver->saved; /* what the driver could do, and could not */
    result->lost += driver->lost;
    result->activated |= core->live > 0 || lost_pages(core) > 0;
    if (result->crashed)
        result->outcome = KVT_OUTCOME_CRASHED;
    else if (result->detected)
        result->outcome = KVT_OUTCOME_DETECTED;
    else if (result->leaked > 0)
        result->outcome = KVT_OUTCOME_ESCAPED;
    else if (core->live > 0)
        result->outcome = KVT_OUTCOME_HUNG;
    else
        result->outcome = lost_pages(core) > 0 || (costly && result->withheld > 0)
                              ? KVT_OUTCOME_HARMLESS
                              : KVT_OUTCOME_MASKED;
}
