/* What a driver's calls do to pages and tokens: engine.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/planned.h"
#include "sim/base/assert.h"

#define PLANS (KVT_STEPS_IN_FLIGHT + 1)

static void fail(struct kvt_runtime *engine, const struct kvt_err *err)
{
    if (engine->failure.status == KVT_OK)
        engine->failure = *err;
}

/* ---- pages -------------------------------------------------------------------------------- */

static struct kvt_planned *open_plan(struct kvt_real_replica *replica)
{
    return &replica->planned[(replica->first + replica->count) % PLANS];
}

static void set_tag(struct kvt_real_replica *replica, int32_t page, const uint64_t *owner,
                    const uint64_t *content)
{
    struct kvt_page_tag *tag = &replica->pool.tags[kvt_pool_page(page)];
    struct kvt_device *device = &replica->device;
    if (owner != NULL)
        device->ops->copy(device, &tag->owner, owner, sizeof *owner);
    if (content != NULL)
        device->ops->copy(device, &tag->content, content, sizeof *content);
}

static uint8_t *page_of(struct kvt_real_replica *replica, int32_t layer, int32_t page)
{
    return replica->pool.layer[layer] +
           (int64_t)kvt_pool_page(page) * replica->pool.layout.page_bytes;
}

static void save(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                 const struct kvt_planned *plan, const struct kvt_planned_op *op)
{
    struct kvt_saved *saved = &engine->saved[op->request];
    size_t page = (size_t)replica->pool.layout.page_bytes, layers = (size_t)replica->pool.layers;
    size_t bytes = (size_t)op->pages * layers * page;
    free(saved->bytes);
    saved->bytes = malloc(bytes > 0 ? bytes : 1); /* host memory: retraction is rare */
    saved->pages = op->pages;
    if (saved->bytes == NULL) {
        struct kvt_err err = {0};
        kvt_err_set(&err, KVT_ENOMEM, "no memory to keep %zu bytes of a retracted request", bytes);
        fail(engine, &err);
        return;
    }
    for (int32_t i = 0; i < op->pages; i++)
        for (int32_t l = 0; l < replica->pool.layers; l++)
            replica->device.ops->copy(&replica->device,
                                      saved->bytes + ((size_t)i * layers + (size_t)l) * page,
                                      page_of(replica, l, plan->op_pages[op->at + i]), page);
    engine->counts.saved_bytes += (int64_t)bytes;
}

static void restore(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                    const struct kvt_planned *plan, const struct kvt_planned_op *op)
{
    const struct kvt_saved *saved = &engine->saved[op->request];
    size_t page = (size_t)replica->pool.layout.page_bytes, layers = (size_t)replica->pool.layers;
    if (saved->bytes == NULL)
        return; /* it could not be saved, and that has been said */
    int32_t pages = op->pages < saved->pages ? op->pages : saved->pages;
    for (int32_t i = 0; i < pages; i++) {
        int32_t to = plan->op_pages[op->at + i];
        for (int32_t l = 0; l < replica->pool.layers; l++)
            replica->device.ops->copy(&replica->device, page_of(replica, l, to),
                                      saved->bytes + ((size_t)i * layers + (size_t)l) * page, page);
        set_tag(replica, to, NULL, &plan->op_tags[op->at + i]);
    }
    engine->counts.restored_bytes += (int64_t)((size_t)pages * layers * page);
}

/* Seconds. */
static double carry_out(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                        struct kvt_planned *plan)
{
    if (plan->op_count == 0)
        return 0;
    double start = kvt_device_now();
    for (int32_t i = 0; i < plan->op_count; i++) {
        const struct kvt_planned_op *op = &plan->ops[i];
        if (op->kind == KVT_OP_OWN)
            set_tag(replica, op->page, &op->tag, NULL);
        else if (op->kind == KVT_OP_SAVE)
            save(engine, replica, plan, op);
        else
            restore(engine, replica, plan, op);
    }
    plan->op_count = plan->op_page_count = 0;
    return kvt_device_now() - start;
}

static void deliver(struct kvt_runtime *engine, int32_t r)
{
    const struct kvt_core *core = engine->core;
    struct kvt_request *request = &core->requests[r];
    const struct kvt_replica *from = &core->replicas[request->replica];
    const struct kvt_replica *to = &core->replicas[request->decode_replica];
    struct kvt_real_replica *source = &engine->replicas[request->replica];
    struct kvt_real_replica *target = &engine->replicas[request->decode_replica];
    double start = kvt_device_now();
    int32_t *pages = source->check_page, *into = target->check_page; /* free between steps */
    int32_t have = kvt_planned_pages(from, &request->home, pages, source->rows.table_max);
    int32_t room = kvt_planned_pages(to, &request->away, into, target->rows.table_max);
    int32_t size = source->layout.page_tokens, sent = request->sent;
    int32_t count = (sent + size - 1) / size;
    count = count < have ? count : have;
    count = count < room ? count : room;
    bool alike = source->layout.format == target->layout.format;
    for (int32_t i = 0; i < count; i++) {
        uint64_t tag = kvt_pool_tag(&to->pages, into[i]);
        int32_t left = sent - i * size, tokens = left < size ? left : size;
        int32_t source_page = kvt_pool_page(pages[i]), target_page = kvt_pool_page(into[i]);
        for (int32_t l = 0; l < source->pool.layers; l++) {
            struct kvt_kv_convert convert = {.from = &source->layout,
                                             .to = &target->layout,
                                             .source = source->pool.layer[l],
                                             .target = target->pool.layer[l],
                                             .source_pages = source->pool.pages + 1,
                                             .target_pages = target->pool.pages + 1,
                                             .pages = 1,
                                             .source_page = &source_page,
                                             .target_page = &target_page,
                                             .tokens = &tokens,
                                             .plain_scale = target->forward.plain_scale,
                                             .stamp = &tag,
                                             .tags = target->pool.tags};
            if (alike)
                target->device.ops->copy(&target->device, page_of(target, l, into[i]),
                                         page_of(source, l, pages[i]),
                                         (size_t)source->layout.page_bytes);
            else
                target->device.ops->convert(&target->device, &convert);
        }
        if (alike)
            set_tag(target, into[i], NULL, &tag);
    }
    engine->counts.moved_bytes += count * target->layout.page_bytes * target->pool.layers;
    engine->counts.moved_s += kvt_device_now() - start;
}

/* ---- what a driver says ------------------------------------------------------------------- */

void kvt_runtime_note(struct kvt_runtime *engine, const struct kvt_decision *decision)
{
    int32_t kind = decision->kind;
    if (kind == KVT_DECIDE_ALLOC || kind == KVT_DECIDE_PREEMPT || kind == KVT_DECIDE_RESUME)
        kvt_planned_note(open_plan(&engine->replicas[decision->replica]), engine->core, decision);
}

void kvt_runtime_tell(struct kvt_runtime *engine, enum kvt_call call, int32_t id)
{
    if (call == KVT_CALL_DELIVER)
        deliver(engine, id);
    if (call != KVT_CALL_PLAN && call != KVT_CALL_IDLE)
        return;
    struct kvt_real_replica *replica = &engine->replicas[id];
    if (call == KVT_CALL_PLAN) {
        kvt_planned_write(open_plan(replica), engine->core, &engine->core->replicas[id]);
        replica->count++;
        kvt_assert(replica->count <= KVT_STEPS_IN_FLIGHT);
    } else if (replica->count == 0) {
        replica->moved += carry_out(engine, replica, open_plan(replica));
    }
}

/* ---- a step ------------------------------------------------------------------------------- */

static void write_rows(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                       const struct kvt_planned *plan)
{
    struct kvt_rows *rows = &replica->rows;
    int32_t size = replica->layout.page_tokens, n = 0;
    rows->outputs = rows->prompt_rows = 0;
    rows->table_size = plan->table_size;
    for (int32_t i = 0; i < plan->table_size; i++)
        rows->page_table[i] = kvt_pool_page(plan->page[i]);
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        const int32_t *text = engine->text + engine->text_begin[entry->request];
        const struct kvt_stale *stale = &engine->stale;
        if (stale->request == entry->request && entry->position >= stale->from &&
            stale->slot < entry->pages)
            rows->page_table[entry->begin + stale->slot] = kvt_pool_page(stale->page);
        rows->prompt_rows += (int32_t)(e >= plan->load.decodes) * entry->rows;
        for (int32_t i = 0; i < entry->rows; i++, n++) {
            int32_t position = entry->position + i, at = entry->begin + position / size;
            kvt_assert(n < rows->rows_max && text[position] >= 0);
            rows->token[n] = text[position];
            rows->position[n] = position;
            rows->context[n] = position + 1;
            rows->row_pages[n] = entry->begin;
            rows->slot[n] = (int64_t)rows->page_table[at] * size + position % size;
            rows->stamp[n] = plan->want[at];
        }
        if (entry->wanted)
            rows->output_row[rows->outputs++] = n - 1;
    }
    rows->rows = n;
}

/* Pages that hold tokens before this step, of every request; those that fail are counted. */
static void check_tags(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                       const struct kvt_planned *plan)
{
    const struct kvt_rows *rows = &replica->rows;
    int32_t size = replica->layout.page_tokens, n = 0, failures = 0;
    uint64_t first = UINT64_MAX;
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        int32_t pages = (entry->position + size - 1) / size;
        replica->check_begin[e] = n;
        memcpy(replica->check_page + n, rows->page_table + entry->begin, (size_t)pages * 4);
        memcpy(replica->check_want + n, plan->want + entry->begin, (size_t)pages * 8);
        n += pages;
    }
    replica->check_begin[plan->entry_count] = n;
    struct kvt_tag_check check = {.tags = replica->pool.tags,
                                  .pool_pages = replica->pool.pages + 1,
                                  .request_count = plan->entry_count,
                                  .begin = replica->check_begin,
                                  .page = replica->check_page,
                                  .want = replica->check_want,
                                  .mask = kvt_tag_mask(64),
                                  .failed = replica->check_failed,
                                  .failures = &failures,
                                  .first = &first};
    replica->device.ops->tag_check(&replica->device, &check);
    engine->counts.checks += n;
    engine->counts.failures += failures;
    for (int32_t e = 0; e < plan->entry_count && failures > 0; e++)
        if (replica->check_failed[e])
            engine->failed[plan->entries[e].request] = 1;
}

static void read_tokens(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                        const struct kvt_planned *plan)
{
    int32_t output = 0;
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        if (!entry->wanted)
            continue;
        int32_t token = replica->rows.next[output++], at = entry->position + entry->rows;
        /* NaN has no token; 0 keeps the run going, and the count of poisoned tokens tells. */
        engine->text[engine->text_begin[entry->request] + at] = token < 0 ? 0 : token;
    }
}

static double run_once(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                       const struct kvt_planned *plan, bool tag_check)
{
    struct kvt_err err = {0};
    double start = kvt_device_now();
    write_rows(engine, replica, plan);
    if (tag_check)
        check_tags(engine, replica, plan);
    if (kvt_forward_step(&replica->forward, &replica->rows, &err) != KVT_OK)
        fail(engine, &err);
    read_tokens(engine, replica, plan);
    return kvt_device_now() - start;
}

static int32_t switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int32_t)usage.ru_nivcsw;
}

double kvt_runtime_run(struct kvt_runtime *engine, int32_t id)
{
    struct kvt_real_replica *replica = &engine->replicas[id];
    kvt_assert(replica->count > 0);
    struct kvt_planned *plan = &replica->planned[replica->first];
    struct kvt_step_record record = {.replica = id,
                                     .role = (int32_t)replica->role,
                                     .load = plan->load,
                                     .requests = plan->entry_count,
                                     .pages = plan->table_size};
    record.moved = replica->moved + carry_out(engine, replica, plan);
    replica->moved = 0;
    if (engine->failure.status != KVT_OK)
        return 0;
    int32_t before = switches();
    double time = 0;
    for (int32_t i = 0; i < engine->want.repeats; i++) {
        record.time[i] = run_once(engine, replica, plan, engine->want.tag_check);
        time += record.time[i] / engine->want.repeats;
        for (int p = 0; p < KVT_PART_COUNT; p++)
            record.part[p] += replica->forward.spent[p] / engine->want.repeats;
    }
    record.switches = switches() - before;
    engine->counts.steps++;
    engine->counts.rows += replica->rows.rows;
    replica->last = replica->first;
    replica->first = (replica->first + 1) % PLANS;
    replica->count--;
    /* What later plans did to pages may happen now: every step before them has run. */
    for (int32_t i = 0; i <= replica->count; i++)
        replica->moved +=
            carry_out(engine, replica, &replica->planned[(replica->first + i) % PLANS]);
    if (engine->record != NULL)
        engine->record(engine->context, &record);
    return time + record.moved;
}

double kvt_runtime_again(struct kvt_runtime *engine, int32_t id, bool tag_check)
{
    struct kvt_real_replica *replica = &engine->replicas[id];
    return run_once(engine, replica, &replica->planned[replica->last], tag_check);
}
