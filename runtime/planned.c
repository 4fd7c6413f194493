#include "runtime/planned.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

enum kvt_status kvt_planned_init(struct kvt_planned *planned, int32_t entries_max,
                                 int32_t table_max, int32_t pages, struct kvt_err *err)
{
    size_t entries = (size_t)entries_max, table = (size_t)table_max, own = (size_t)pages;
    *planned = (struct kvt_planned){.entries_max = entries_max,
                                    .table_max = table_max,
                                    .ops_max = 2 * pages + entries_max,
                                    .op_pages_max = 2 * pages};
    planned->entries = calloc(entries, sizeof *planned->entries);
    planned->page = calloc(table, sizeof *planned->page);
    planned->want = calloc(table, sizeof *planned->want);
    planned->ops = calloc(2 * own + entries, sizeof *planned->ops);
    planned->op_pages = calloc(2 * own, sizeof *planned->op_pages);
    planned->op_tags = calloc(2 * own, sizeof *planned->op_tags);
    if (planned->entries != NULL && planned->page != NULL && planned->want != NULL &&
        planned->ops != NULL && planned->op_pages != NULL && planned->op_tags != NULL)
        return KVT_OK;
    kvt_planned_release(planned);
    return kvt_err_set(err, KVT_ENOMEM, "no memory for steps of %d requests", entries_max);
}

void kvt_planned_release(struct kvt_planned *planned)
{
    free(planned->entries);
    free(planned->page);
    free(planned->want);
    free(planned->ops);
    free(planned->op_pages);
    free(planned->op_tags);
    *planned = (struct kvt_planned){0};
}

int32_t kvt_planned_pages(const struct kvt_replica *replica, const struct kvt_holding *holding,
                          int32_t *pages, int32_t room)
{
    int32_t count = holding->shared;
    kvt_assert(count <= room);
    int32_t entry = holding->leaf;
    for (int32_t i = count - 1; i >= 0; i--) {
        pages[i] = entry;
        entry = replica->prefix.parent[entry];
    }
    for (int32_t page = holding->first; page != KVT_NONE; page = replica->pages.next[page]) {
        kvt_assert(count < room);
        pages[count++] = page;
    }
    return count;
}

static void add_entry(struct kvt_planned *planned, const struct kvt_core *core,
                      const struct kvt_replica *replica, int32_t r, int32_t position, int32_t rows,
                      bool wanted)
{
    kvt_assert(planned->entry_count < planned->entries_max);
    struct kvt_request *request = &core->requests[r];
    const struct kvt_holding *holding = kvt_replica_holding(replica, request);
    int32_t begin = planned->table_size, room = planned->table_max - begin;
    int32_t count = kvt_planned_pages(replica, holding, planned->page + begin, room);
    for (int32_t i = begin; i < begin + count; i++)
        planned->want[i] = kvt_pool_tag(&replica->pages, planned->page[i]);
    planned->table_size += count;
    kvt_assert((int64_t)count * replica->spec.page_tokens >= (int64_t)position + rows);
    planned->entries[planned->entry_count++] = (struct kvt_entry){.request = r,
                                                                  .position = position,
                                                                  .rows = rows,
                                                                  .begin = begin,
                                                                  .pages = count,
                                                                  .wanted = wanted};
}

void kvt_planned_write(struct kvt_planned *planned, const struct kvt_core *core,
                       const struct kvt_replica *replica)
{
    int32_t newest = (replica->oldest + replica->in_flight - 1) % KVT_STEPS_IN_FLIGHT;
    const struct kvt_step *step = &replica->steps[newest];
    planned->entry_count = planned->table_size = 0;
    planned->load = kvt_des_load(step);
    if (step->decodes > 0) {
        int32_t members = 0;
        for (int32_t r = replica->batch.members.head; r != KVT_NONE; r = core->requests[r].next) {
            /* The plan has counted the new token already. */
            int32_t position = kvt_batch_context(&replica->batch, r) - 1;
            add_entry(planned, core, replica, r, position, 1, true);
            members++;
        }
        kvt_assert(members == step->decodes);
    }
    for (int32_t i = 0; i < step->chunk_count; i++) {
        const struct kvt_chunk *chunk = &step->chunks[i];
        add_entry(planned, core, replica, chunk->request, chunk->end - chunk->tokens, chunk->tokens,
                  chunk->last);
    }
}

static void add_move(struct kvt_planned *planned, enum kvt_page_op kind,
                     const struct kvt_core *core, const struct kvt_replica *replica, int32_t r)
{
    struct kvt_request *request = &core->requests[r];
    const struct kvt_holding *holding = kvt_replica_holding(replica, request);
    int32_t at = planned->op_page_count, room = planned->op_pages_max - at;
    int32_t count = kvt_planned_pages(replica, holding, planned->op_pages + at, room);
    for (int32_t i = at; i < at + count; i++)
        planned->op_tags[i] = kvt_pool_tag(&replica->pages, planned->op_pages[i]);
    planned->op_page_count += count;
    kvt_assert(planned->op_count < planned->ops_max);
    planned->ops[planned->op_count++] = (struct kvt_planned_op){
        .kind = (int32_t)kind, .request = r, .pages = count, .at = at, .tokens = request->context};
}

void kvt_planned_note(struct kvt_planned *planned, const struct kvt_core *core,
                      const struct kvt_decision *decision)
{
    const struct kvt_replica *replica = &core->replicas[decision->replica];
    int32_t r = decision->request;
    if (decision->kind == KVT_DECIDE_ALLOC) {
        int32_t page = (int32_t)decision->count;
        kvt_assert(planned->op_count < planned->ops_max);
        planned->ops[planned->op_count++] = (struct kvt_planned_op){
            .kind = KVT_OP_OWN, .page = page, .tag = kvt_pool_tag(&replica->pages, page)};
    } else if (replica->spec.role == KVT_ROLE_DECODE) {
        add_move(planned, decision->kind == KVT_DECIDE_PREEMPT ? KVT_OP_SAVE : KVT_OP_RESTORE, core,
                 replica, r);
    }
}
