#include "sim/serve/batch.h"

enum kvt_status kvt_batch_init(struct kvt_batch *batch, struct kvt_arena *arena,
                               struct kvt_request *requests, int32_t capacity, int32_t page_tokens,
                               int32_t window, int32_t *finish_position, int32_t *outgrow_position,
                               struct kvt_err *err)
{
    kvt_assert(capacity > 0);
    kvt_assert(page_tokens > 0);
    *batch = (struct kvt_batch){.requests = requests,
                                .capacity = capacity,
                                .page_tokens = page_tokens,
                                .window = window,
                                .finish = {.position = finish_position},
                                .outgrow = {.position = outgrow_position}};
    kvt_queue_init(&batch->members);
    size_t slots = (size_t)capacity, phases = (size_t)page_tokens;
    const char *what = "the decode batch";
    KVT_TRY(kvt_arena_get(arena, slots, sizeof(struct kvt_step_entry), what, &batch->finish.entries,
                          err));
    if (window > 0)
        KVT_TRY(kvt_arena_get(arena, slots, sizeof(struct kvt_step_entry), what,
                              &batch->outgrow.entries, err));
    KVT_TRY(kvt_arena_get(arena, phases, sizeof(int32_t), what, &batch->phase_count, err));
    KVT_TRY(kvt_arena_get(arena, (phases + 63) / 64, 8, what, &batch->phase_used, err));
    KVT_TRY(kvt_arena_get(arena, phases, sizeof(int32_t), what, &batch->phase_first, err));
    KVT_TRY(kvt_arena_get(arena, phases, sizeof(int32_t), what, &batch->phase_last, err));
    for (size_t phase = 0; phase < phases; phase++)
        batch->phase_first[phase] = batch->phase_last[phase] = KVT_NONE;
    return KVT_OK;
}

static bool entry_before(struct kvt_step_entry a, struct kvt_step_entry b)
{
    return a.step != b.step ? a.step < b.step : a.sequence < b.sequence;
}

static void heap_place(struct kvt_step_heap *heap, int32_t i, struct kvt_step_entry entry)
{
    heap->entries[i] = entry;
    heap->position[entry.request] = i;
}

static void heap_rise(struct kvt_step_heap *heap, int32_t i, struct kvt_step_entry entry)
{
    while (i > 0 && entry_before(entry, heap->entries[(i - 1) / 2])) {
        heap_place(heap, i, heap->entries[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_place(heap, i, entry);
}

static void heap_sink(struct kvt_step_heap *heap, int32_t i, struct kvt_step_entry entry)
{
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && entry_before(heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!entry_before(heap->entries[child], entry))
            break;
        heap_place(heap, i, heap->entries[child]);
        i = child;
    }
    heap_place(heap, i, entry);
}

static void heap_add(struct kvt_step_heap *heap, int64_t step, int32_t sequence, int32_t request)
{
    heap_rise(heap, heap->count++, (struct kvt_step_entry){step, sequence, request});
}

static void heap_remove(struct kvt_step_heap *heap, int32_t request)
{
    int32_t i = heap->position[request];
    kvt_assert(i >= 0 && i < heap->count && heap->entries[i].request == request);
    struct kvt_step_entry last = heap->entries[--heap->count];
    if (i == heap->count)
        return;
    if (i > 0 && entry_before(last, heap->entries[(i - 1) / 2]))
        heap_rise(heap, i, last);
    else
        heap_sink(heap, i, last);
}

int32_t kvt_batch_context(const struct kvt_batch *batch, int32_t r)
{
    const struct kvt_request *request = &batch->requests[r];
    return request->context + (int32_t)(batch->planned - request->joined);
}

int32_t kvt_batch_generated(const struct kvt_batch *batch, int32_t r)
{
    const struct kvt_request *request = &batch->requests[r];
    int64_t out = batch->committed - request->joined;
    return request->generated + (out > 0 ? (int32_t)out : 0);
}

/* The phase of a member with `context` tokens now: equal phases need a page at the same steps. */
static int32_t phase_of(const struct kvt_batch *batch, int64_t context)
{
    int64_t phase = (context - batch->planned) % batch->page_tokens;
    return (int32_t)(phase < 0 ? phase + batch->page_tokens : phase);
}

/* The phase that needs a page at the next planned step but `ahead`. */
static int32_t phase_needing(const struct kvt_batch *batch, int64_t ahead)
{
    int64_t behind = (batch->planned + ahead) % batch->page_tokens;
    return behind == 0 ? 0 : batch->page_tokens - (int32_t)behind;
}

static void phase_add(struct kvt_batch *batch, int32_t phase, int32_t r)
{
    struct kvt_request *requests = batch->requests;
    int32_t last = batch->phase_last[phase];
    requests[r].phase_prev = last;
    requests[r].phase_next = KVT_NONE;
    if (last != KVT_NONE)
        requests[last].phase_next = r;
    else
        batch->phase_first[phase] = r;
    batch->phase_last[phase] = r;
    batch->phase_count[phase]++;
    batch->phase_used[phase / 64] |= UINT64_C(1) << (phase % 64);
}

static void phase_remove(struct kvt_batch *batch, int32_t phase, int32_t r)
{
    struct kvt_request *requests = batch->requests;
    int32_t prev = requests[r].phase_prev, next = requests[r].phase_next;
    if (prev != KVT_NONE)
        requests[prev].phase_next = next;
    else
        batch->phase_first[phase] = next;
    if (next != KVT_NONE)
        requests[next].phase_prev = prev;
    else
        batch->phase_last[phase] = prev;
    if (--batch->phase_count[phase] == 0)
        batch->phase_used[phase / 64] &= ~(UINT64_C(1) << (phase % 64));
}

void kvt_batch_join(struct kvt_batch *batch, int32_t r)
{
    struct kvt_request *request = &batch->requests[r];
    kvt_assert(batch->members.count < batch->capacity);
    kvt_assert(request->generated < request->output);
    int32_t left = request->output - request->generated;
    request->joined = batch->planned;
    request->sequence = batch->sequence++;
    kvt_queue_push(&batch->members, batch->requests, r);
    heap_add(&batch->finish, batch->planned + left, request->sequence, r);
    phase_add(batch, phase_of(batch, request->context), r);
    int64_t read = request->context + 1;
    batch->context += read;
    /* Steps planned before it joined commit without it: they take nothing from `remaining`. */
    batch->remaining += left + (batch->planned - batch->committed);
    if (batch->window > 0 && read < batch->window) {
        heap_add(&batch->outgrow, batch->planned + batch->window - read, request->sequence, r);
        batch->growing++;
    }
    if (batch->window > 0)
        batch->windowed += read < batch->window ? read : batch->window;
}

void kvt_batch_leave(struct kvt_batch *batch, int32_t r)
{
    struct kvt_request *request = &batch->requests[r];
    int32_t context = kvt_batch_context(batch, r);
    int64_t read = (int64_t)context + 1;
    kvt_queue_remove(&batch->members, batch->requests, r);
    heap_remove(&batch->finish, r);
    phase_remove(batch, phase_of(batch, context), r);
    batch->context -= read;
    batch->remaining -= request->joined + request->output - request->generated - batch->committed;
    if (batch->window > 0 && read < batch->window) {
        heap_remove(&batch->outgrow, r);
        batch->growing--;
    }
    if (batch->window > 0)
        batch->windowed -= read < batch->window ? read : batch->window;
    request->generated = kvt_batch_generated(batch, r);
    request->context = context;
}

void kvt_batch_plan(struct kvt_batch *batch, int64_t k)
{
    kvt_assert(k <= kvt_batch_regular_steps(batch));
    batch->planned += k;
    batch->context += k * batch->members.count;
    batch->windowed += k * batch->growing;
    struct kvt_step_heap *outgrow = &batch->outgrow;
    while (outgrow->count > 0 && outgrow->entries[0].step <= batch->planned) {
        heap_remove(outgrow, outgrow->entries[0].request);
        batch->growing--;
    }
}

/* Members in the phases low..high. */
static int64_t phases_sum(const struct kvt_batch *batch, int32_t low, int32_t high)
{
    int64_t members = 0;
    for (int32_t word = low / 64; word <= high / 64; word++) {
        uint64_t used = batch->phase_used[word];
        if (word == low / 64)
            used &= UINT64_MAX << (low % 64);
        if (word == high / 64)
            used &= UINT64_MAX >> (63 - high % 64);
        for (; used != 0; used &= used - 1)
            members += batch->phase_count[64 * word + __builtin_ctzll(used)];
    }
    return members;
}

int64_t kvt_batch_demand(const struct kvt_batch *batch, int64_t k)
{
    if (k == 1)
        return batch->phase_count[phase_needing(batch, 0)];
    int64_t rounds = k / batch->page_tokens;
    int64_t pages = rounds * batch->members.count;
    int32_t rest = (int32_t)(k - rounds * batch->page_tokens);
    if (rest == 0 || batch->members.count == 0)
        return pages;
    /* The phases in need go down by one a step, from this one, and start over at the top. */
    int32_t high = phase_needing(batch, 0), low = high - rest + 1;
    if (low >= 0)
        return pages + phases_sum(batch, low, high);
    return pages + phases_sum(batch, 0, high) +
           phases_sum(batch, low + batch->page_tokens, batch->page_tokens - 1);
}

int32_t kvt_batch_first_needing(const struct kvt_batch *batch)
{
    return batch->phase_first[phase_needing(batch, 0)];
}

int64_t kvt_batch_steps_within(const struct kvt_batch *batch, int64_t pages, int64_t limit)
{
    /* Far from the end of the pool, which is nearly always: no member takes more than this. */
    int64_t most = limit / batch->page_tokens + 1;
    if (most * batch->members.count <= pages)
        return limit;
    int64_t rounds = batch->members.count > 0 ? pages / batch->members.count : limit;
    int64_t k = rounds * batch->page_tokens;
    if (k >= limit)
        return limit;
    pages -= rounds * batch->members.count;
    int32_t phase = phase_needing(batch, 0); /* a round of page_tokens steps ends where it began */
    while (k < limit && batch->phase_count[phase] <= pages) {
        pages -= batch->phase_count[phase];
        phase = phase == 0 ? batch->page_tokens - 1 : phase - 1;
        k++;
    }
    return k;
}

int64_t kvt_batch_steps_to_finish(const struct kvt_batch *batch)
{
    if (batch->finish.count == 0)
        return INT64_MAX;
    return batch->finish.entries[0].step - batch->committed;
}

int64_t kvt_batch_regular_steps(const struct kvt_batch *batch)
{
    if (batch->outgrow.count == 0)
        return INT64_MAX;
    return batch->outgrow.entries[0].step - batch->planned;
}

bool kvt_batch_is_valid(const struct kvt_batch *batch)
{
    int64_t context = 0, windowed = 0, remaining = 0;
    int32_t count = 0, growing = 0, phased = 0;
    for (int32_t r = batch->members.head; r != KVT_NONE; r = batch->requests[r].next) {
        const struct kvt_request *request = &batch->requests[r];
        int64_t read = kvt_batch_context(batch, r) + 1;
        context += read;
        windowed += batch->window == 0 ? 0 : read < batch->window ? read : batch->window;
        growing += read < batch->window;
        remaining += request->joined + request->output - request->generated - batch->committed;
        if (batch->finish.entries[batch->finish.position[r]].request != r)
            return false;
        count++;
    }
    for (int32_t phase = 0; phase < batch->page_tokens; phase++)
        phased += batch->phase_count[phase];
    return count == batch->members.count && count == batch->finish.count && phased == count &&
           context == batch->context && windowed == batch->windowed &&
           remaining == batch->remaining && growing == batch->growing &&
           (batch->window == 0 || batch->outgrow.count == growing);
}
