/* What a driver's calls do to pages and tokens: engine.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/planned.h"
#include "sim/base/assert.h"

static void fail(struct kvt_runtime *engine, const struct kvt_err *err)
{
    if (engine->failure.status == KVT_OK)
        engine->failure = *err;
}

static void wait(struct kvt_runtime *engine, struct kvt_real_replica *replica)
{
    struct kvt_err err = {0};
    if (replica->device.ops->wait(&replica->device, &err) != KVT_OK)
        fail(engine, &err);
}

/* ---- pages -------------------------------------------------------------------------------- */

static struct kvt_planned *open_plan(struct kvt_real_replica *replica)
{
    return &replica->planned[(replica->first + replica->count) % KVT_PLANS];
}

/* page: in memory. */
static void set_tag(struct kvt_real_replica *replica, int32_t page, const uint64_t *owner,
                    const uint64_t *content)
{
    struct kvt_page_tag *tag = &replica->pool.tags[page];
    struct kvt_device *device = &replica->device;
    if (owner != NULL)
        device->ops->copy(device, &tag->owner, owner, sizeof *owner);
    if (content != NULL)
        device->ops->copy(device, &tag->content, content, sizeof *content);
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
            replica->device.ops->copy(
                &replica->device, saved->bytes + ((size_t)i * layers + (size_t)l) * page,
                kvt_pool_at(&replica->pool, l, kvt_pool_page(plan->op_pages[op->at + i])), page);
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
        int32_t to = kvt_pool_page(plan->op_pages[op->at + i]);
        for (int32_t l = 0; l < replica->pool.layers; l++)
            replica->device.ops->copy(&replica->device, kvt_pool_at(&replica->pool, l, to),
                                      saved->bytes + ((size_t)i * layers + (size_t)l) * page, page);
        set_tag(replica, to, NULL, &plan->op_tags[op->at + i]);
    }
    engine->counts.restored_bytes += (int64_t)((size_t)pages * layers * page);
}

static void tell_moves(struct kvt_runtime *engine, const struct kvt_real_replica *replica,
                       struct kvt_planned *plan, const struct kvt_planned_op *op)
{
    const struct kvt_runtime_hooks *hooks = &engine->hooks;
    if (hooks->moves != NULL)
        hooks->moves(hooks->context, (int32_t)(replica - engine->replicas), op,
                     plan->op_pages + op->at);
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
        if (op->kind == KVT_OP_SAVE)
            tell_moves(engine, replica, plan, op);
        if (op->kind == KVT_OP_OWN)
            set_tag(replica, kvt_pool_page(op->page), &op->tag, NULL);
        else if (op->kind == KVT_OP_SAVE)
            save(engine, replica, plan, op);
        else
            restore(engine, replica, plan, op);
        if (op->kind != KVT_OP_SAVE)
            tell_moves(engine, replica, plan, op);
    }
    plan->op_count = plan->op_page_count = 0;
    wait(engine, replica);
    return kvt_device_now() - start;
}

/* Pages of the same format, byte by byte, and the tags of those that they land in. */
static void copy_pages(struct kvt_real_replica *source, struct kvt_real_replica *target,
                       int32_t count)
{
    const struct kvt_page_moves *moves = &target->moves;
    size_t bytes = (size_t)source->layout.page_bytes;
    for (int32_t i = 0; i < count; i++) {
        for (int32_t l = 0; l < source->pool.layers; l++)
            target->device.ops->copy(&target->device,
                                     kvt_pool_at(&target->pool, l, moves->target[i]),
                                     kvt_pool_at(&source->pool, l, moves->source[i]), bytes);
        set_tag(target, moves->target[i], NULL, &moves->stamp[i]);
    }
}

void kvt_planned_convert(struct kvt_real_replica *source, struct kvt_real_replica *target,
                         int32_t count)
{
    struct kvt_page_moves *moves = &target->moves;
    struct kvt_mirror *mirror = &moves->mirror;
    size_t n = (size_t)count;
    kvt_mirror_send(mirror, moves->source, n * sizeof *moves->source);
    kvt_mirror_send(mirror, moves->target, n * sizeof *moves->target);
    kvt_mirror_send(mirror, moves->tokens, n * sizeof *moves->tokens);
    kvt_mirror_send(mirror, moves->stamp, n * sizeof *moves->stamp);
    for (int32_t l = 0; l < source->pool.layers; l++) {
        struct kvt_kv_convert convert = {.from = &source->layout,
                                         .to = &target->layout,
                                         .source = source->pool.layer[l],
                                         .target = target->pool.layer[l],
                                         .source_pages = source->pool.pages + 1,
                                         .target_pages = target->pool.pages + 1,
                                         .pages = count,
                                         .source_page = kvt_mirror_there(mirror, moves->source),
                                         .target_page = kvt_mirror_there(mirror, moves->target),
                                         .tokens = kvt_mirror_there(mirror, moves->tokens),
                                         .plain_scale = target->forward.plain_scale,
                                         .stamp = kvt_mirror_there(mirror, moves->stamp),
                                         .tags = target->pool.tags};
        target->device.ops->convert(&target->device, &convert);
    }
}

/* Both devices are waited for: what the pages of prefill still get is in before they are read, and
 * they are free when this returns. */
static void deliver(struct kvt_runtime *engine, int32_t r)
{
    const struct kvt_core *core = engine->core;
    struct kvt_request *request = &core->requests[r];
    const struct kvt_replica *from = &core->replicas[request->replica];
    const struct kvt_replica *to = &core->replicas[request->decode_replica];
    struct kvt_real_replica *source = &engine->replicas[request->replica];
    struct kvt_real_replica *target = &engine->replicas[request->decode_replica];
    struct kvt_page_moves *moves = &target->moves;
    double start = kvt_device_now();
    wait(engine, source);
    /* The source's list is of its own table's length: its moves are free. */
    int32_t *have_pages = source->moves.source;
    int32_t have = kvt_planned_pages(from, &request->home, have_pages, source->rows.table_max);
    int32_t room = kvt_planned_pages(to, &request->away, moves->target, target->rows.table_max);
    int32_t size = source->layout.page_tokens, sent = request->sent;
    int32_t count = (sent + size - 1) / size;
    count = count < have ? count : have;
    count = count < room ? count : room;
    for (int32_t i = 0; i < count; i++) {
        int32_t left = sent - i * size;
        moves->stamp[i] = kvt_pool_tag(&to->pages, moves->target[i]);
        moves->source[i] = kvt_pool_page(have_pages[i]);
        moves->target[i] = kvt_pool_page(moves->target[i]);
        moves->tokens[i] = left < size ? left : size;
    }
    if (source->layout.format == target->layout.format)
        copy_pages(source, target, count);
    else
        kvt_planned_convert(source, target, count);
    wait(engine, target);
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
    const struct kvt_runtime_hooks *hooks = &engine->hooks;
    if (hooks->adjust != NULL)
        hooks->adjust(hooks->context, (int32_t)(replica - engine->replicas), plan, rows);
}

/* Pages that hold tokens before this step, of every request. */
static void check_tags(struct kvt_real_replica *replica, const struct kvt_planned *plan)
{
    const struct kvt_rows *rows = &replica->rows;
    struct kvt_tag_batch *check = &replica->check;
    int32_t size = replica->layout.page_tokens, n = 0;
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        int32_t pages = (entry->position + size - 1) / size;
        check->begin[e] = n;
        memcpy(check->page + n, rows->page_table + entry->begin, (size_t)pages * 4);
        memcpy(check->want + n, plan->want + entry->begin, (size_t)pages * 8);
        n += pages;
    }
    check->begin[plan->entry_count] = n;
    kvt_tag_batch_check(check, &replica->pool, plan->entry_count);
}

/* What the check found, once the step has been waited for. A step that is run again finds nothing
 * new. */
static void count_failures(struct kvt_runtime *engine, const struct kvt_real_replica *replica,
                           const struct kvt_planned *plan)
{
    const struct kvt_tag_batch *check = &replica->check;
    engine->counts.checks += check->begin[plan->entry_count];
    engine->counts.failures += *check->failures;
    if (*check->failures == 0)
        return;
    for (int32_t e = 0; e < plan->entry_count; e++) {
        int32_t r = plan->entries[e].request, page = KVT_NONE;
        if (!check->failed[e] || engine->failed[r] == KVT_FAILED_FOUND)
            continue;
        engine->failed[r] = replica->guarded ? KVT_FAILED_FOUND : KVT_FAILED;
        if (*check->first >> 32 == (uint64_t)e)
            page = check->page[check->begin[e] + (int32_t)*check->first] - kvt_pool_page(0);
        if (replica->guarded)
            engine->found[engine->found_count++] = (struct kvt_found_page){
                .request = r, .replica = (int32_t)(replica - engine->replicas), .page = page};
    }
}

/* again: this step has run before. */
static void read_tokens(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                        const struct kvt_planned *plan, bool again)
{
    int32_t output = 0;
    for (int32_t e = 0; e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        if (!entry->wanted)
            continue;
        int32_t token = replica->rows.next[output++], at = entry->position + entry->rows;
        int32_t *kept = &engine->text[engine->text_begin[entry->request] + at];
        /* NaN has no token; 0 keeps the run going, and the count of poisoned tokens tells. */
        token = token < 0 ? 0 : token;
        engine->counts.again += again;
        engine->counts.changed += again && *kept != token;
        *kept = token;
    }
}

static double run_once(struct kvt_runtime *engine, struct kvt_real_replica *replica,
                       const struct kvt_planned *plan, bool tag_check, bool again)
{
    struct kvt_err err = {0};
    double start = kvt_device_now();
    write_rows(engine, replica, plan);
    if (tag_check)
        check_tags(replica, plan);
    if (kvt_forward_step(&replica->forward, &replica->rows, &err) != KVT_OK)
        fail(engine, &err);
    else if (tag_check)
        count_failures(engine, replica, plan);
    read_tokens(engine, replica, plan, again);
    return kvt_device_now() - start;
}

void kvt_runtime_settle(struct kvt_runtime *engine, int32_t id)
{
    struct kvt_real_replica *replica = &engine->replicas[id];
    kvt_assert(replica->count > 0);
    replica->moved += carry_out(engine, replica, &replica->planned[replica->first]);
}

static void take_off(struct kvt_real_replica *replica)
{
    replica->last = replica->first;
    replica->first = (replica->first + 1) % KVT_PLANS;
    replica->count--;
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
    if (engine->failure.status != KVT_OK) {
        take_off(replica); /* the core goes on planning */
        return 0;
    }
    bool check = engine->want.tag_check || replica->guarded;
    int64_t before = kvt_device_switches();
    double time = 0;
    for (int32_t i = 0; i < engine->want.repeats; i++) {
        record.time[i] = run_once(engine, replica, plan, check, i > 0);
        time += record.time[i] / engine->want.repeats;
        for (int p = 0; p < KVT_PART_COUNT; p++)
            record.part[p] += replica->forward.spent[p] / engine->want.repeats;
    }
    record.switches = (int32_t)(kvt_device_switches() - before);
    engine->counts.steps++;
    engine->counts.rows += replica->rows.rows;
    take_off(replica);
    if (engine->hooks.ran != NULL)
        engine->hooks.ran(engine->hooks.context, id);
    /* What later plans did to pages may happen now: every step before them has run. */
    for (int32_t i = 0; i <= replica->count; i++)
        replica->moved +=
            carry_out(engine, replica, &replica->planned[(replica->first + i) % KVT_PLANS]);
    if (engine->hooks.record != NULL)
        engine->hooks.record(engine->hooks.context, &record);
    return time + record.moved;
}

double kvt_runtime_again(struct kvt_runtime *engine, int32_t id, bool tag_check)
{
    struct kvt_real_replica *replica = &engine->replicas[id];
    return run_once(engine, replica, &replica->planned[replica->last], tag_check, true);
}
