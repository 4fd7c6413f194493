#include "sim/serve/batch.h"

#include <string.h>

#include "sim/base/random.h"
#include "tests/check.h"

#define CAPACITY 12
#define REQUESTS 64

static struct kvt_arena arena;
static struct kvt_request requests[REQUESTS];
static struct kvt_batch batch;
static struct kvt_stream dice;

static void batch_of(int32_t capacity, int32_t page_tokens, int32_t window)
{
    struct kvt_err err = {0};
    int32_t *finish, *outgrow;
    kvt_arena_release(&arena);
    memset(requests, 0, sizeof requests);
    CHECK_OK(kvt_arena_init(&arena, 1 << 20, &err), err);
    CHECK_OK(kvt_arena_get(&arena, REQUESTS, sizeof *finish, "test", &finish, &err), err);
    CHECK_OK(kvt_arena_get(&arena, REQUESTS, sizeof *outgrow, "test", &outgrow, &err), err);
    CHECK_OK(kvt_batch_init(&batch, &arena, requests, capacity, page_tokens, window, finish,
                            outgrow, &err),
             err);
}

static void join(int32_t r, int32_t context, int32_t generated, int32_t output)
{
    requests[r].context = context;
    requests[r].generated = generated;
    requests[r].output = output;
    kvt_batch_join(&batch, r);
}

/*
 * Pages of 4 tokens. Contexts 7, 8 and 12 before the first step; a page is taken when the context
 * is a multiple of 4. Before step 1 contexts are 7 8 12: two pages; step 2: 8 9 13: one; steps 3
 * and 4 (9 10 14, 10 11 15): none; step 5: 11 12 16: two again.
 */
static void pages_are_needed_when_a_context_fills_its_last_one(void)
{
    static const int64_t demand[] = {0, 2, 3, 3, 3, 5, 6, 6, 6, 8};
    batch_of(3, 4, 0);
    join(5, 7, 1, 100);
    join(2, 8, 1, 100);
    join(9, 12, 1, 100);
    for (int64_t k = 0; k < 10; k++)
        CHECK_I64(kvt_batch_demand(&batch, k), demand[k], "pages of the next k steps");
    CHECK_I64(kvt_batch_first_needing(&batch), 2, "the first of two in the order of joining");
    CHECK_I64(requests[2].phase_next, 9, "then the other");
    CHECK_I64(requests[9].phase_next, KVT_NONE, "and no more");
    static const struct {
        int64_t pages, limit, want;
    } rows[] = {{0, 9, 0},   {1, 9, 0},          {2, 9, 1},          {3, 9, 4}, {4, 9, 4},
                {5, 9, 5},   {6, 9, 8},          {6, 7, 7},          {8, 9, 9}, {1 << 30, 9, 9},
                {300, 0, 0}, {3000, 3995, 3995}, {3000, 99999, 4000}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_I64(kvt_batch_steps_within(&batch, rows[i].pages, rows[i].limit), rows[i].want,
                  "the most steps that so many pages allow");
    kvt_batch_plan(&batch, 2);
    CHECK_I64(kvt_batch_steps_within(&batch, 0, 50), 2, "steps 3 and 4 need none");
}

/* Three members with 3, 5 and 3 tokens left: the ties go out in the order of joining. */
static void ties_finish_in_the_order_of_joining(void)
{
    batch_of(3, 16, 0);
    CHECK_I64(kvt_batch_steps_to_finish(&batch), INT64_MAX, "an empty batch never finishes");
    join(7, 10, 2, 5);
    join(4, 10, 1, 6);
    join(1, 10, 0, 3);
    CHECK_I64(kvt_batch_steps_to_finish(&batch), 3, "until the first");
    CHECK_I64(batch.remaining, 3 + 5 + 3, "tokens left");
    kvt_batch_plan(&batch, 3);
    kvt_batch_commit(&batch, 2);
    CHECK_I64(kvt_batch_finished(&batch), KVT_NONE, "one step short");
    kvt_batch_commit(&batch, 1);
    CHECK_I64(kvt_batch_finished(&batch), 7, "the first that joined");
    kvt_batch_leave(&batch, 7);
    CHECK_I64(requests[7].generated, 5, "all its tokens are out");
    CHECK_I64(requests[7].context, 13, "10 and 3 more");
    CHECK_I64(kvt_batch_finished(&batch), 1, "the other one of the tie");
    kvt_batch_leave(&batch, 1);
    CHECK_I64(kvt_batch_finished(&batch), KVT_NONE, "no more");
    CHECK_I64(batch.remaining, 2, "of the one that is left");
}

/* Window 12, contexts 8 and 20: a step reads min(context + 1, 12) of each. 9 + 12, 10 + 12,
 * 11 + 12, 12 + 12, and then it stays. */
static void windows_fill_and_stay_full(void)
{
    static const int64_t windowed[] = {21, 22, 23, 24, 24, 24};
    batch_of(3, 16, 12);
    join(0, 8, 1, 50);
    join(1, 20, 1, 50);
    CHECK_I64(batch.growing, 1, "one is inside");
    CHECK_I64(kvt_batch_regular_steps(&batch), 3, "plans that grow alike");
    for (size_t i = 0; i < sizeof windowed / sizeof windowed[0]; i++) {
        CHECK_I64(batch.windowed, windowed[i], "what the next step reads");
        CHECK_I64(batch.context, 9 + 21 + 2 * (int64_t)i, "without a window");
        kvt_batch_plan(&batch, 1);
    }
    CHECK_I64(kvt_batch_regular_steps(&batch), INT64_MAX, "nobody grows");
    kvt_batch_leave(&batch, 1);
    CHECK_I64(batch.windowed, 12, "the other one");
    join(2, 11, 1, 50);
    CHECK_I64(batch.growing, 0, "12 tokens to read: it does not grow any more");
    join(3, 10, 1, 50);
    CHECK_I64(kvt_batch_regular_steps(&batch), 1, "11, then 12");
}

/* One that joins while a step is under way is not in that step. */
static void who_joins_late_waits_for_the_next_step(void)
{
    batch_of(2, 4, 0);
    join(0, 4, 1, 10);
    kvt_batch_plan(&batch, 1);
    join(1, 4, 1, 3);
    CHECK_I64(kvt_batch_steps_to_finish(&batch), 3, "one commit without it, two with it");
    kvt_batch_commit(&batch, 1);
    CHECK_I64(kvt_batch_generated(&batch, 0), 2, "in the step");
    CHECK_I64(kvt_batch_generated(&batch, 1), 1, "not in the step");
    CHECK_I64(kvt_batch_context(&batch, 1), 4, "nor its KV");
    CHECK_I64(batch.remaining, 8 + 2, "tokens left of both");
}

/* ---- against brute force ------------------------------------------------------------------- */

struct member {
    int32_t request, context, generated, output;
    int64_t wait; /* commits until it takes part */
};

static struct member members[CAPACITY];
static int32_t count, page, window, behind; /* behind: planned - committed */

static int64_t below(int64_t limit)
{
    return (int64_t)kvt_stream_below(&dice, (uint64_t)limit);
}

static int64_t model_demand(int64_t k)
{
    int64_t pages = 0;
    for (int32_t i = 0; i < count; i++)
        for (int64_t step = 0; step < k; step++)
            pages += (members[i].context + step) % page == 0;
    return pages;
}

static int64_t read_of(int32_t i, int64_t step)
{
    return members[i].context + 1 + step;
}

static int64_t model_windowed(int64_t step)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += read_of(i, step) < window ? read_of(i, step) : window;
    return sum;
}

static int64_t model_regular(void)
{
    int64_t growth = model_windowed(1) - model_windowed(0), k = 0;
    if (window == 0 || growth == 0)
        return INT64_MAX;
    while (model_windowed(k + 1) - model_windowed(k) == growth)
        k++;
    return k;
}

static int64_t model_within(int64_t pages, int64_t limit)
{
    int64_t k = 0;
    while (k < limit && model_demand(k + 1) <= pages)
        k++;
    return k;
}

static int wrong_answers(void)
{
    int64_t context = 0, remaining = 0, finish = INT64_MAX;
    int wrong = 0;
    int32_t needing = kvt_batch_first_needing(&batch);
    for (int32_t i = 0; i < count; i++) {
        const struct member *m = &members[i];
        int64_t left = m->wait + m->output - m->generated;
        context += read_of(i, 0);
        remaining += left;
        finish = left < finish ? left : finish;
        wrong += kvt_batch_context(&batch, m->request) != m->context;
        wrong += kvt_batch_generated(&batch, m->request) != m->generated;
        if (m->context % page == 0) {
            wrong += needing != m->request;
            needing = needing == KVT_NONE ? KVT_NONE : requests[needing].phase_next;
        }
    }
    wrong += needing != KVT_NONE;
    wrong += batch.context != context || batch.remaining != remaining;
    wrong += window > 0 && batch.windowed != model_windowed(0);
    wrong += kvt_batch_steps_to_finish(&batch) != finish;
    wrong += kvt_batch_regular_steps(&batch) != model_regular();
    int64_t k = below(3 * page + 2), pages = below(5 * CAPACITY), limit = below(4 * page + 9);
    wrong += kvt_batch_demand(&batch, k) != model_demand(k);
    wrong += kvt_batch_steps_within(&batch, pages, limit) != model_within(pages, limit);
    wrong += kvt_batch_steps_within(&batch, 0, limit) != model_within(0, limit);
    return wrong + !kvt_batch_is_valid(&batch);
}

static void model_leave(int32_t i)
{
    kvt_batch_leave(&batch, members[i].request);
    count--;
    memmove(&members[i], &members[i + 1], (size_t)(count - i) * sizeof members[0]);
}

static void random_join(int32_t *next)
{
    int32_t output = 1 + (int32_t)below(60);
    struct member m = {.request = (*next)++ % REQUESTS,
                       .context = (int32_t)below(60),
                       .generated = (int32_t)below(output),
                       .output = output,
                       .wait = behind};
    join(m.request, m.context, m.generated, m.output);
    members[count++] = m;
}

static void random_plan(void)
{
    int64_t most = kvt_batch_regular_steps(&batch);
    int64_t finish = kvt_batch_steps_to_finish(&batch);
    if (finish < most)
        most = finish;
    int64_t k = most > 1 ? 1 + below(most < 30 ? most : 30) : 1;
    kvt_batch_plan(&batch, k);
    behind += (int32_t)k;
    for (int32_t i = 0; i < count; i++)
        members[i].context += (int32_t)k;
}

/* Commit up to the next finish; those that finish leave, in the order of the heap. */
static int random_commit(void)
{
    int64_t most = kvt_batch_steps_to_finish(&batch);
    int64_t k = 1 + below(behind);
    k = k < most ? k : most;
    kvt_batch_commit(&batch, k);
    behind -= (int32_t)k;
    for (int32_t i = 0; i < count; i++) {
        int64_t waited = members[i].wait < k ? members[i].wait : k;
        members[i].wait -= waited;
        members[i].generated += (int32_t)(k - waited);
    }
    int wrong = 0;
    for (int32_t i = 0; i < count; i++) {
        if (members[i].generated < members[i].output)
            continue;
        wrong += kvt_batch_finished(&batch) != members[i].request;
        model_leave(i--);
    }
    return wrong + (kvt_batch_finished(&batch) != KVT_NONE);
}

static void random_programs_agree_with_brute_force(void)
{
    kvt_stream_init(&dice, 30117, KVT_PURPOSE_TEST, 4);
    int wrong = 0;
    for (int program = 0; program < 60; program++) {
        int32_t next = 0;
        count = behind = 0;
        page = (int32_t[]){1, 2, 3, 7, 16, 64}[below(6)];
        window = below(2) == 0 ? 0 : 1 + (int32_t)below(90);
        batch_of(CAPACITY, page, window);
        for (int operation = 0; operation < 300; operation++) {
            int64_t what = below(10);
            if (what < 4 && count < CAPACITY)
                random_join(&next);
            else if (what == 4 && count > 0)
                model_leave((int32_t)below(count));
            else if (what < 8 && behind < 40)
                random_plan();
            else if (behind > 0)
                wrong += random_commit();
            wrong += wrong_answers();
        }
    }
    CHECK_I64(wrong, 0, "answers that differ");
    kvt_arena_release(&arena);
}

/* Sums of a full batch at the longest contexts stay far from the end of 64 bits. */
static void a_large_batch_of_long_contexts_sums_right(void)
{
    enum { MEMBERS = 60, LONG = 1 << 20 };
    batch_of(MEMBERS, 64, 0);
    for (int32_t r = 0; r < MEMBERS; r++)
        join(r, LONG - r, 1, LONG);
    CHECK_I64(batch.context, (int64_t)MEMBERS * (LONG + 1) - 59 * 60 / 2, "contexts");
    CHECK_I64(batch.remaining, (int64_t)MEMBERS * (LONG - 1), "tokens left");
    int64_t k = LONG - 1;
    CHECK_I64(kvt_batch_demand(&batch, LONG), (int64_t)MEMBERS * LONG / 64, "pages");
    CHECK_I64(kvt_batch_steps_within(&batch, INT64_C(1) << 40, k), k, "no shortage");
    kvt_batch_plan(&batch, k);
    CHECK_I64(kvt_batch_context(&batch, 0), 2 * LONG - 1, "after a million steps");
    CHECK(kvt_batch_is_valid(&batch));
}

static void a_broken_batch_is_found(void)
{
    batch_of(2, 4, 12);
    join(0, 8, 1, 10);
    join(1, 30, 1, 10);
    CHECK(kvt_batch_is_valid(&batch));
    int64_t *const sums[] = {&batch.context, &batch.windowed, &batch.remaining};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        *sums[i] += 1;
        CHECK_NOTE(!kvt_batch_is_valid(&batch), "a sum that is off");
        *sums[i] -= 1;
    }
    int32_t *const counts[] = {&batch.growing, &batch.members.count, &batch.finish.count,
                               &batch.phase_count[0], &batch.outgrow.count};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        *counts[i] += 1;
        CHECK_NOTE(!kvt_batch_is_valid(&batch), "a count that is off");
        *counts[i] -= 1;
    }
    CHECK(kvt_batch_is_valid(&batch));
    kvt_arena_release(&arena);
}

const struct check_test check_batch[] = {
    {"pages are needed when a context fills its last one",
     pages_are_needed_when_a_context_fills_its_last_one, false},
    {"ties finish in the order of joining", ties_finish_in_the_order_of_joining, false},
    {"windows fill and stay full", windows_fill_and_stay_full, false},
    {"who joins late waits for the next step", who_joins_late_waits_for_the_next_step, false},
    {"random programs agree with brute force", random_programs_agree_with_brute_force, false},
    {"a broken batch is found", a_broken_batch_is_found, false},
    {"a large batch of long contexts sums right", a_large_batch_of_long_contexts_sums_right, false},
    {NULL, NULL, false},
};
