#include "runtime/strike.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

static struct kvt_real_replica *replica_of(const struct kvt_real *real, int32_t id)
{
    return &real->runtime->replicas[id];
}

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

/* ---- steps -------------------------------------------------------------------------------- */

/* The rows of a step as the strike left its table. */
static void adjust(void *context, int32_t id, const struct kvt_planned *plan, struct kvt_rows *rows)
{
    struct kvt_real *real = context;
    int32_t size = replica_of(real, id)->layout.page_tokens, n = 0;
    memcpy(rows->page_table, real->table[id], (size_t)plan->table_size * sizeof *rows->page_table);
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        const struct kvt_real_request *request = &real->requests[entry->request];
        for (int32_t i = 0; i < entry->rows; i++, n++) {
            int32_t position = entry->position + i, at = entry->begin + position / size;
            rows->slot[n] = (int64_t)rows->page_table[at] * size + position % size;
            rows->stamp[n] = real->want[id][at];
            if (entry->request == real->step_request)
                rows->slot[n] = position % size; /* aside, in the padding page: it lands later */
            if (request->stopped)
                rows->slot[n] = -1;
            if (request->over_read && i == entry->rows - 1)
                rows->context[n] = (position + size) / size * size;
        }
    }
}

/* What a request that is gone wrote is kept until it lands. */
static void keep_row(struct kvt_real *real, int32_t id)
{
    if (real->step_request != KVT_NONE && real->cut.replica == id)
        kvt_shadow_take(&real->shadows[id], 0, real->row);
}

static void run_step(struct kvt_real *real, int32_t id)
{
    kvt_runtime_run(real->runtime, id);
    keep_row(real, id);
    kvt_real_observe(real, id);
    real->result.steps++;
    real->dirty[id] = false;
}

/* The page that an entry goes on to write, in memory; -1: it begins a new one. */
static int32_t page_begun(const struct kvt_real *real, int32_t id, const struct kvt_entry *entry)
{
    int32_t size = replica_of(real, id)->layout.page_tokens;
    return entry->position % size == 0 ? -1
                                       : real->table[id][entry->begin + entry->position / size];
}

/* Memory changed under the step: it reads it again, at its end. It has stamped the pages that it
 * goes on to write: what their headers say since then stays. */
static void run_again(struct kvt_real *real, int32_t id)
{
    struct kvt_real_replica *replica = replica_of(real, id);
    const struct kvt_shadow *shadow = &real->shadows[id];
    const struct kvt_planned *plan = &replica->planned[replica->last];
    if (!real->dirty[id] || real->result.steps == 0)
        return;
    real->dirty[id] = false;
    for (int32_t e = 0; e < plan->entry_count; e++) {
        int32_t page = page_begun(real, id, &plan->entries[e]);
        for (int word = 0; word < 2 && page >= 0; word++)
            real->headers[2 * e + word] =
                kvt_shadow_header(shadow, page, 0, (enum kvt_header_word)word);
    }
    if (kvt_forward_step(&replica->forward, &replica->rows, &real->failure) != KVT_OK)
        return;
    kvt_real_observe(real, id);
    for (int32_t e = 0; e < plan->entry_count; e++) {
        int32_t page = page_begun(real, id, &plan->entries[e]);
        for (int word = 0; word < 2 && page >= 0; word++)
            kvt_shadow_stamp(shadow, page, (enum kvt_header_word)word, real->headers[2 * e + word]);
    }
    real->result.repeated++;
}

/* ---- deeds -------------------------------------------------------------------------------- */

static void add_entry(struct kvt_real *real, const struct kvt_deed *deed, uint32_t generation,
                      int32_t victim)
{
    kvt_assert(real->entry_count < KVT_REAL_ENTRIES);
    real->entries[real->entry_count++] = (struct kvt_real_entry){.replica = deed->replica,
                                                                 .request = deed->request,
                                                                 .index = deed->index,
                                                                 .page = deed->page,
                                                                 .generation = generation,
                                                                 .victim = victim};
}

static void fill(struct kvt_real *real, int32_t id, int32_t page, int value)
{
    const struct kvt_shadow *shadow = &real->shadows[id];
    memset(shadow->scratch, value, (size_t)kvt_shadow_page_bytes(shadow));
    kvt_shadow_put(shadow, page, shadow->scratch);
}

/* The page that was just given to a request is another's. */
static void alias(struct kvt_real *real, const struct kvt_deed *deed)
{
    const struct kvt_pages *pages = &real->runtime->core->replicas[deed->replica].pages;
    uint32_t generation = pages->generation[deed->page] + 1;
    add_entry(real, deed, generation, pages->owner[deed->page]);
    kvt_real_allocator(real, deed->replica);
    kvt_real_write_side(real, deed->replica, kvt_pool_page(deed->page),
                        kvt_real_tag(real, deed->replica, deed->request, deed->index, generation));
}

/* One of the two has left: the other goes on in the page that the core believes it has. */
static void unalias(struct kvt_real *real, const struct kvt_real_entry *entry)
{
    struct kvt_shadow *shadow = &real->shadows[entry->replica];
    const struct kvt_core *core = real->runtime->core;
    const struct kvt_replica *replica = &core->replicas[entry->replica];
    int32_t *list = real->sides[entry->replica].list;
    int32_t count =
        kvt_planned_pages(replica, kvt_replica_holding(replica, &core->requests[entry->request]),
                          list, replica->pages.total);
    if (entry->index >= count)
        return;
    int32_t own = kvt_pool_page(list[entry->index]), tokens = shadow->tokens;
    kvt_shadow_take(shadow, kvt_pool_page(entry->page), shadow->scratch);
    kvt_shadow_put(shadow, own, shadow->scratch);
    memcpy(shadow->noted + (size_t)own * (size_t)tokens,
           shadow->noted + (size_t)kvt_pool_page(entry->page) * (size_t)tokens,
           (size_t)tokens * sizeof *shadow->noted);
    if (shadow->pool->layout.tag_offset >= 0)
        kvt_shadow_stamp(shadow, own, KVT_HEADER_TAG,
                         kvt_real_tag(real, entry->replica, entry->request, entry->index,
                                      replica->pages.generation[list[entry->index]]));
}

static void flip_tag(struct kvt_real *real, const struct kvt_deed *deed, struct kvt_stream *stream)
{
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    int32_t page = kvt_pool_page(deed->page), bits = kvt_real_guards(real, deed->replica)->tag.bits;
    uint64_t bit = UINT64_C(1) << kvt_stream_below(stream, (uint64_t)bits);
    kvt_real_allocator(real, deed->replica);
    kvt_real_write_side(real, deed->replica, page,
                        real->sides[deed->replica].host[page].owner ^ bit);
    for (int32_t l = 0; shadow->pool->layout.tag_offset >= 0 && l == 0; l++)
        kvt_shadow_stamp(shadow, page, KVT_HEADER_TAG,
                         kvt_shadow_header(shadow, page, l, KVT_HEADER_TAG) ^ bit);
}

/* Bits in a row of one byte of one piece of a token, in one layer. */
static void flip(struct kvt_real *real, const struct kvt_deed *deed)
{
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    const struct kvt_page_layout *layout = &shadow->pool->layout;
    struct kvt_stream stream;
    kvt_stream_init(&stream, real->faults->seed, KVT_PURPOSE_FAULT,
                    UINT64_C(1) << 40 | (uint64_t)deed->strike);
    if (deed->variant == KVT_STRIKE_FLIP_TAG) {
        flip_tag(real, deed, &stream);
        return;
    }
    int32_t pieces = 0, page = kvt_pool_page(deed->page);
    int64_t offset = 0;
    while (kvt_shadow_piece(layout, deed->slot, pieces, &offset) > 0)
        pieces++;
    int32_t piece = (int32_t)kvt_stream_below(&stream, (uint64_t)pieces);
    int32_t length = kvt_shadow_piece(layout, deed->slot, piece, &offset);
    int64_t layer = (int64_t)kvt_stream_below(&stream, (uint64_t)shadow->pool->layers);
    int64_t at =
        layer * layout->page_bytes + offset + (int64_t)kvt_stream_below(&stream, (uint64_t)length);
    int32_t bits = deed->amount < 1 ? 1 : deed->amount > 8 ? 8 : deed->amount;
    int32_t first = (int32_t)kvt_stream_below(&stream, (uint64_t)(9 - bits));
    kvt_shadow_take(shadow, page, shadow->scratch);
    shadow->scratch[at] ^= (uint8_t)(((1 << bits) - 1) << first);
    kvt_shadow_put(shadow, page, shadow->scratch);
    real->dirty[deed->replica] = true;
}

/* A page of another text, canary included, under the tag of the one that it takes the place of. */
static bool poison(struct kvt_real *real, const struct kvt_deed *deed)
{
    struct kvt_shadow *shadow = &real->shadows[deed->replica];
    size_t size = (size_t)shadow->tokens, page = (size_t)kvt_pool_page(deed->page), other = 0;
    for (size_t i = 1; i < (size_t)shadow->pages && other == 0; i++)
        if (shadow->truth[i * size] != KVT_DIGEST_BAD &&
            shadow->truth[i * size] != shadow->truth[page * size])
            other = i;
    if (other == 0)
        return false; /* there is no other text here */
    bool header = shadow->pool->layout.tag_offset >= 0;
    uint64_t tag = header ? kvt_shadow_header(shadow, (int32_t)page, 0, KVT_HEADER_TAG) : 0;
    kvt_shadow_take(shadow, (int32_t)other, shadow->scratch);
    kvt_shadow_put(shadow, (int32_t)page, shadow->scratch);
    if (header)
        kvt_shadow_stamp(shadow, (int32_t)page, KVT_HEADER_TAG, tag);
    memcpy(shadow->noted + page * size, shadow->noted + other * size, size * sizeof *shadow->noted);
    return true;
}

/* Bytes are under way to pages that go back now, or from such. */
static void cut(struct kvt_real *real, const struct kvt_deed *deed)
{
    real->cut = *deed->landing;
    if (deed->landing->step) {
        real->step_request = deed->request;
        return;
    }
    struct kvt_source source = {0};
    if (kvt_real_source(real, deed->request, &source, &real->failure) != KVT_OK)
        return;
    if (deed->landing->sender) {
        free(real->sender.memory);
        real->sender = source;
        real->sender_request = deed->request;
        return;
    }
    kvt_wire_release(&real->late);
    kvt_real_stage(real, deed->request, &source, &real->late, &real->failure);
    free(source.memory);
}

static void land_row(struct kvt_real *real, const struct kvt_deed *deed, int32_t page,
                     int32_t index, uint32_t generation)
{
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    const struct kvt_page_layout *layout = &shadow->pool->layout;
    kvt_shadow_take(shadow, page, shadow->scratch);
    for (int32_t l = 0; l < shadow->pool->layers; l++) {
        int64_t offset, base = l * layout->page_bytes;
        int32_t length;
        for (int32_t i = 0;
             (length = kvt_shadow_piece(layout, deed->landing->slot, i, &offset)) > 0; i++)
            memcpy(shadow->scratch + base + offset, real->row + base + offset, (size_t)length);
    }
    kvt_shadow_put(shadow, page, shadow->scratch);
    if (layout->tag_offset < 0)
        return;
    int32_t token = index * shadow->tokens + deed->landing->slot;
    kvt_shadow_stamp(shadow, page, KVT_HEADER_TAG,
                     kvt_real_tag(real, deed->replica, deed->request, index, generation));
    kvt_shadow_stamp(shadow, page, KVT_HEADER_CANARY,
                     kvt_real_chain(real, deed->request, token + 1));
}

static void land(struct kvt_real *real, const struct kvt_deed *deed)
{
    const struct kvt_landing *landing = deed->landing;
    const struct kvt_shadow *shadow = &real->shadows[deed->replica];
    for (int32_t i = 0; i < landing->count; i++) {
        const int32_t *entry = &real->faults->landing_pages[(size_t)(landing->first + i) * 3];
        int32_t page = kvt_pool_page(entry[0]), index = entry[2];
        if (landing->step)
            land_row(real, deed, page, index, (uint32_t)entry[1]);
        else if (index < real->late.pages)
            kvt_shadow_put(shadow, page, real->late.bytes + index * kvt_shadow_page_bytes(shadow));
    }
    if (landing->step)
        real->step_request = KVT_NONE;
    real->dirty[deed->replica] = true;
}

static void crash(struct kvt_real *real, int32_t id)
{
    for (int32_t page = 1; page < real->shadows[id].pages; page++)
        fill(real, id, page, 0xff);
    real->result.crashed = true;
}

/* Whether it was done. */
static bool strike(struct kvt_real *real, const struct kvt_deed *deed)
{
    switch (deed->kind) {
    case KVT_DEED_TABLE:
        add_entry(real, deed, deed->generation, KVT_NONE);
        return true;
    case KVT_DEED_CUT:
        cut(real, deed);
        return true;
    case KVT_DEED_LAND:
        land(real, deed);
        return true;
    case KVT_DEED_FLIP:
        flip(real, deed);
        return true;
    case KVT_DEED_POISON:
        return poison(real, deed);
    case KVT_DEED_HOLD:
        real->requests[deed->request].held = deed->index;
        return true;
    case KVT_DEED_HEAL:
        kvt_real_heal(real, deed->request);
        return true;
    case KVT_DEED_ALIAS:
        alias(real, deed);
        return true;
    case KVT_DEED_RESIDUE:
        if (!kvt_real_guarded(real, deed->replica, KVT_GUARD_ZERO_ON_FREE))
            fill(real, deed->replica, kvt_pool_page(deed->page), 0xff);
        real->requests[deed->request].over_read = true;
        return true;
    case KVT_DEED_ALARM:
        real->requests[deed->request].marked = true;
        return true;
    case KVT_DEED_CRASH:
        crash(real, deed->replica);
        return true;
    case KVT_DEED_ARRIVE:
    case KVT_DEED_STARTS:
    case KVT_DEED_ENDS:
    case KVT_DEED_LANDED:
        break;
    }
    return false;
}

static void hands(void *context, const struct kvt_deed *deed)
{
    struct kvt_real *real = context;
    if (real->failure.status != KVT_OK)
        return;
    if (deed->kind == KVT_DEED_STARTS) {
        kvt_real_prepare(real, deed->replica);
        kvt_real_check(real, deed->replica, false);
    } else if (deed->kind == KVT_DEED_ENDS) {
        run_again(real, deed->replica);
        kvt_real_check(real, deed->replica, true);
    } else if (deed->kind == KVT_DEED_LANDED) {
        run_again(real, deed->replica);
    } else if (deed->kind == KVT_DEED_ARRIVE) {
        kvt_real_arrive(real, deed->request, deed->index);
    } else if ((int32_t)deed->kind != real->skip && strike(real, deed)) {
        real->result.activated = true;
    }
}

/* ---- what the driver and the core say ----------------------------------------------------- */

void kvt_real_tell(void *context, enum kvt_call call, int32_t id, kvt_ticks now)
{
    struct kvt_real *real = context;
    (void)now;
    if (real->failure.status != KVT_OK)
        return;
    if (call == KVT_CALL_START)
        run_step(real, id);
    else if (call == KVT_CALL_PLAN || call == KVT_CALL_IDLE)
        kvt_runtime_tell(real->runtime, call, id);
    if (real->runtime->failure.status != KVT_OK)
        real->failure = real->runtime->failure;
}

/* A request is gone, with so many tokens out. */
static void leaves(struct kvt_real *real, int32_t r, int64_t out)
{
    struct kvt_real_request *request = &real->requests[r];
    if (request->exposed && out > request->before)
        real->result.leaked += out - request->before;
    int32_t kept = 0;
    for (int32_t i = 0; i < real->entry_count; i++) {
        const struct kvt_real_entry entry = real->entries[i];
        if (entry.request == r)
            continue;
        if (entry.victim == r)
            unalias(real, &entry);
        else
            real->entries[kept++] = entry;
    }
    real->entry_count = kept;
}

static void note(void *context, const struct kvt_decision *decision)
{
    struct kvt_real *real = context;
    int32_t r = decision->request, id = decision->replica;
    kvt_runtime_note(real->runtime, decision);
    if (decision->kind == KVT_DECIDE_ALLOC && kvt_real_guarded(real, id, KVT_GUARD_ZERO_ON_FREE)) {
        struct kvt_shadow *shadow = &real->shadows[id];
        int32_t page = kvt_pool_page((int32_t)decision->count);
        fill(real, id, page, 0);
        for (int32_t slot = 0; slot < shadow->tokens; slot++)
            shadow->noted[(size_t)page * (size_t)shadow->tokens + (size_t)slot] = shadow->zero;
    }
    if (decision->kind == KVT_DECIDE_PREEMPT && real->failure.status == KVT_OK)
        kvt_err_set(&real->failure, KVT_ELIMIT,
                    "a request was retracted: its pages cannot be followed through host memory; "
                    "want more pages");
    if (decision->kind == KVT_DECIDE_FINISH)
        leaves(real, r, real->runtime->core->requests[r].output);
    if (decision->kind == KVT_DECIDE_ABORT)
        leaves(real, r, decision->count);
}

/* ---- begin and end ------------------------------------------------------------------------ */

static enum kvt_status begin_replica(struct kvt_real *real, int32_t id, struct kvt_err *err)
{
    struct kvt_real_replica *replica = replica_of(real, id);
    struct kvt_real_side *side = &real->sides[id];
    size_t pages = (size_t)replica->pool.pages + 1, table = (size_t)replica->rows.table_max;
    KVT_TRY(kvt_shadow_init(&real->shadows[id], &replica->pool, err));
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
        real->requests[r].held = -1;
    KVT_TRY(kvt_writers_init(&real->writers, err));
    for (int32_t id = 0; id < runtime->replica_count; id++) {
        KVT_TRY(begin_replica(real, id, err));
        int64_t page = kvt_shadow_page_bytes(&real->shadows[id]);
        bytes = page > bytes ? page : bytes;
    }
    real->row = calloc(1, (size_t)bytes);
    if (real->row == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a page");
    runtime->adjust = adjust;
    runtime->adjust_context = real;
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
        struct kvt_real_replica *replica = replica_of(real, id);
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
    for (int32_t r = 0; real->requests != NULL && r < real->runtime->trace->count; r++)
        kvt_wire_release(&real->requests[r].wire);
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
    real->runtime->adjust = NULL;
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
        result->outcome = lost_pages(core) > 0 ? KVT_OUTCOME_HARMLESS : KVT_OUTCOME_MASKED;
}
