/* Steps as strikes leave them, and pages that are handed out, saved and restored: strike.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/strike.h"

/* The rows of a step as the strike left its table. */
void kvt_real_adjust(void *context, int32_t id, const struct kvt_planned *plan,
                     struct kvt_rows *rows)
{
    struct kvt_real *real = context;
    int32_t size = kvt_real_replica_of(real, id)->layout.page_tokens, n = 0;
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
            if (entry->stopped)
                rows->slot[n] = -1;
            if (request->over_read == id && i == entry->rows - 1)
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

void kvt_real_ran(void *context, int32_t id)
{
    struct kvt_real *real = context;
    keep_row(real, id);
    kvt_real_observe(real, id);
    real->result.steps++;
    real->dirty[id] = false;
}

/* The page that an entry goes on to write, in memory; -1: it begins a new one. */
static int32_t page_begun(const struct kvt_real *real, int32_t id, const struct kvt_entry *entry)
{
    int32_t size = kvt_real_replica_of(real, id)->layout.page_tokens;
    return entry->position % size == 0 ? -1
                                       : real->table[id][entry->begin + entry->position / size];
}

/* What was stopped or has left since it ran writes nothing the second time. */
static void drop_stopped(struct kvt_real_replica *replica, const struct kvt_planned *plan)
{
    int32_t row = 0;
    for (int32_t e = 0; e < plan->entry_count; row += plan->entries[e++].rows)
        for (int32_t i = 0; plan->entries[e].stopped && i < plan->entries[e].rows; i++)
            replica->rows.slot[row + i] = -1;
}

/* Memory changed under the step: it reads it again, at its end. It has stamped the pages that it
 * goes on to write: what their headers say since then stays. */
void kvt_real_run_again(struct kvt_real *real, int32_t id)
{
    struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
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
    drop_stopped(replica, plan);
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

/* ---- pages that move ---------------------------------------------------------------------- */

void kvt_real_stop_entries(struct kvt_real *real, int32_t id, int32_t r)
{
    struct kvt_real_replica *replica = kvt_real_replica_of(real, id);
    for (int i = 0; i < KVT_PLANS; i++)
        for (int32_t e = 0; e < replica->planned[i].entry_count; e++)
            if (replica->planned[i].entries[e].request == r)
                replica->planned[i].entries[e].stopped = true;
}

/* Of each entry: keep it, or not; sorted out is a page that two have where one of them leaves. */
static void sort_out(struct kvt_real *real, int32_t r, bool all)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < real->entry_count; i++) {
        const struct kvt_real_entry entry = real->entries[i];
        bool shared = entry.victim != KVT_NONE, own = entry.request == r;
        if (entry.victim == r || (own && shared && !all))
            kvt_real_unalias(real, &entry);
        else if (!own || (!shared && !all))
            real->entries[kept++] = entry;
    }
    real->entry_count = kept;
}

void kvt_real_drop_entries(struct kvt_real *real, int32_t r)
{
    sort_out(real, r, true);
}

void kvt_real_drop_aliases(struct kvt_real *real, int32_t r)
{
    sort_out(real, r, false);
}

/* A page was handed out. */
static void taken(struct kvt_real *real, int32_t id, int32_t page)
{
    struct kvt_shadow *shadow = &real->shadows[id];
    bool zeroed = kvt_real_guarded(real, id, KVT_GUARD_ZERO_ON_FREE);
    if (real->residue_replica == id && real->residue_page == page) {
        kvt_real_fill(real, id, page, 0xff);
        real->residue_replica = KVT_NONE;
    }
    if (zeroed)
        kvt_real_fill(real, id, page, 0);
    for (int32_t slot = 0; slot < shadow->tokens && zeroed; slot++)
        shadow->noted[(size_t)page * (size_t)shadow->tokens + (size_t)slot] = shadow->zero;
}

/* A retracted request's bytes go to host memory by its table, and what they ought to be with them.
 */
static void saved(struct kvt_real *real, int32_t id, const struct kvt_planned_op *op,
                  int32_t *pages)
{
    struct kvt_real_request *request = &real->requests[op->request];
    const struct kvt_shadow *shadow = &real->shadows[id];
    size_t size = (size_t)shadow->tokens;
    free(request->kept);
    request->kept = calloc((size_t)op->pages * size + 1, sizeof *request->kept);
    request->kept_pages = request->kept != NULL ? op->pages : 0;
    if (request->kept == NULL)
        kvt_err_set(&real->failure, KVT_ENOMEM, "no memory to follow %d pages", op->pages);
    for (int32_t i = 0; i < request->kept_pages; i++) {
        const struct kvt_real_entry *changed = kvt_real_entry(real, id, op->request, i);
        memcpy(request->kept + (size_t)i * size,
               shadow->truth + (size_t)kvt_pool_page(pages[i]) * size,
               size * sizeof *shadow->truth);
        if (changed != NULL)
            pages[i] = changed->page;
    }
    request->held = -1; /* what lands later lands nowhere */
    request->marked = false;
    kvt_real_stop_entries(real, id, op->request);
    kvt_real_drop_entries(real, op->request);
}

/* They come back into other pages, stamped anew whatever they are. */
static void restored(struct kvt_real *real, int32_t id, const struct kvt_planned_op *op,
                     const int32_t *pages)
{
    struct kvt_real_request *request = &real->requests[op->request];
    const struct kvt_pages *pool = &real->runtime->core->replicas[id].pages;
    struct kvt_shadow *shadow = &real->shadows[id];
    int32_t count = op->pages < request->kept_pages ? op->pages : request->kept_pages;
    int32_t size = shadow->tokens;
    real->result.retracted++;
    for (int32_t i = 0; i < count; i++) {
        int32_t page = kvt_pool_page(pages[i]), left = op->tokens - i * size;
        size_t at = (size_t)page * (size_t)size;
        memcpy(shadow->truth + at, request->kept + (size_t)i * (size_t)size,
               (size_t)size * sizeof *shadow->truth);
        kvt_shadow_read(shadow, page, size, shadow->noted + at);
        if (shadow->pool->layout.tag_offset < 0 || left <= 0)
            continue;
        kvt_shadow_stamp(shadow, page, KVT_HEADER_TAG,
                         kvt_real_tag(real, id, op->request, i, pool->generation[pages[i]]));
        kvt_shadow_stamp(shadow, page, KVT_HEADER_CANARY,
                         kvt_real_chain(real, op->request, i * size + (left < size ? left : size)));
    }
}

void kvt_real_moves(void *context, int32_t id, const struct kvt_planned_op *op, int32_t *pages)
{
    struct kvt_real *real = context;
    if (op->kind == KVT_OP_OWN)
        taken(real, id, kvt_pool_page(op->page));
    else if (op->kind == KVT_OP_SAVE)
        saved(real, id, op, pages);
    else
        restored(real, id, op, pages);
}
