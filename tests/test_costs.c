/* costs.h: integer step times, against sums and searches that go step by step. */
#include <stdio.h>

#include "sim/base/random.h"
#include "sim/cost/costs.h"
#include "sim/cost/freeze.h"
#include "tests/check.h"

enum { BATCH_MAX = 9 };

static struct kvt_stream draws;

static int64_t draw(int64_t below)
{
    return (int64_t)(((uint64_t)kvt_stream_u32(&draws) << 32 | kvt_stream_u32(&draws)) %
                     (uint64_t)below);
}

/* A random valid table: small numbers so that ties and segment borders are common. */
static void random_costs(struct kvt_costs *costs, struct kvt_cost_row rows[BATCH_MAX + 1])
{
    *costs = (struct kvt_costs){.batch_max = BATCH_MAX, .rows = rows};
    costs->window = 16;
    costs->window_slope = draw(3);
    for (int32_t b = 1; b <= BATCH_MAX; b++) {
        struct kvt_cost_row *row = &rows[b];
        *row = (struct kvt_cost_row){.base = draw(50), .segments = 1 + (int32_t)draw(4)};
        row->value[0] = draw(20);
        row->slope[0] = draw(3);
        for (int32_t s = 1; s < row->segments; s++) {
            row->start[s] = row->start[s - 1] + 1 + draw(40);
            row->value[s] =
                row->value[s - 1] + row->slope[s - 1] * (row->start[s] - row->start[s - 1]);
            row->slope[s] = draw(6);
        }
    }
}

static void a_run_of_steps_is_the_sum_of_its_steps(void)
{
    struct kvt_costs costs;
    struct kvt_cost_row rows[BATCH_MAX + 1];
    kvt_stream_init(&draws, 1, (enum kvt_purpose)0, 0);
    for (int table = 0; table < 300; table++) {
        random_costs(&costs, rows);
        int32_t b = 1 + (int32_t)draw(BATCH_MAX), growth = (int32_t)draw(b + 1);
        int64_t c = draw(60), w = draw(60), k = draw(60);
        kvt_ticks sum = 0;
        for (int64_t i = 0; i < k; i++)
            sum += kvt_costs_decode(&costs, b, c + i * b, w + i * growth);
        char note[64];
        snprintf(note, sizeof note, "table %d", table);
        CHECK_I64(kvt_costs_decode_run(&costs, b, c, w, growth, k), sum, note);
    }
}

static void steps_until_is_the_first_that_reaches_the_time(void)
{
    struct kvt_costs costs;
    struct kvt_cost_row rows[BATCH_MAX + 1];
    kvt_stream_init(&draws, 2, (enum kvt_purpose)0, 0);
    int at_limit = 0, ties = 0;
    for (int table = 0; table < 600; table++) {
        random_costs(&costs, rows);
        int32_t b = 1 + (int32_t)draw(BATCH_MAX), growth = (int32_t)draw(b + 1);
        int64_t c = draw(60), w = draw(60), limit = 1 + draw(50);
        kvt_ticks time = draw(4000) - 10;
        if (table % 3 == 0) /* exactly the end of a step */
            time = kvt_costs_decode_run(&costs, b, c, w, growth, 1 + draw(limit));
        int64_t want = 1;
        while (want < limit && kvt_costs_decode_run(&costs, b, c, w, growth, want) < time)
            want++;
        at_limit += want == limit;
        ties += kvt_costs_decode_run(&costs, b, c, w, growth, want) == time;
        char note[64];
        snprintf(note, sizeof note, "table %d, time %lld", table, (long long)time);
        CHECK_I64(kvt_costs_steps_until(&costs, b, c, w, growth, limit, time), want, note);
    }
    CHECK(at_limit > 20);
    CHECK(ties > 100);
}

static void ties_and_their_neighbours_are_exact_over_millions_of_steps(void)
{
    struct kvt_cost_row rows[2] = {{0},
                                   {.base = INT64_C(10240000007),
                                    .segments = 2,
                                    .start = {0, INT64_C(90000001)},
                                    .value = {0, INT64_C(90000001) * 18231},
                                    .slope = {18231, 18233}}};
    struct kvt_costs costs = {.batch_max = 1, .rows = rows};
    int64_t limit = INT64_C(200000000);
    for (int64_t k = 1; k < limit; k = k * 7 / 3 + 1) {
        kvt_ticks t = kvt_costs_decode_run(&costs, 1, 12345, 0, 0, k);
        if (t == KVT_NEVER)
            break;
        CHECK_I64(kvt_costs_steps_until(&costs, 1, 12345, 0, 0, limit, t - 1), k, "just before");
        CHECK_I64(kvt_costs_steps_until(&costs, 1, 12345, 0, 0, limit, t), k, "a tie");
        CHECK_I64(kvt_costs_steps_until(&costs, 1, 12345, 0, 0, limit, t + 1), k + 1, "after");
    }
}

static void a_run_too_long_for_the_clock_saturates(void)
{
    struct kvt_cost_row rows[2] = {{0}, {.base = 1000, .segments = 1, .slope = {INT64_C(1) << 30}}};
    struct kvt_costs costs = {.batch_max = 1, .rows = rows};
    CHECK_I64(kvt_costs_decode_run(&costs, 1, 0, 0, 0, KVT_COSTS_STEPS_MAX), KVT_NEVER, "2^109");
    int64_t k = kvt_costs_steps_until(&costs, 1, 0, 0, 0, KVT_COSTS_STEPS_MAX, KVT_NEVER);
    CHECK_I64(kvt_costs_decode_run(&costs, 1, 0, 0, 0, k), KVT_NEVER, "reached");
    CHECK(kvt_costs_decode_run(&costs, 1, 0, 0, 0, k - 1) < KVT_NEVER);
}

static void steps_that_take_no_time_run_to_the_limit(void)
{
    struct kvt_cost_row rows[2] = {{0}, {.segments = 1}};
    struct kvt_costs costs = {.batch_max = 1, .rows = rows};
    CHECK_I64(kvt_costs_steps_until(&costs, 1, 5, 0, 0, 77, 1), 77, "never reached");
    CHECK_I64(kvt_costs_steps_until(&costs, 1, 5, 0, 0, 77, 0), 1, "reached at once");
    CHECK_I64(kvt_costs_decode_run(&costs, 1, 5, 0, 0, 0), 0, "no steps");
}

static void a_linear_table_gives_its_closed_form(void)
{
    struct kvt_cost_row rows[6] = {[5] = {.base = 1000 + 5 * 10, .segments = 1, .slope = {3}}};
    int64_t at[] = {0, 1 << 20};
    kvt_ticks time[] = {1000, 1000 + (7 << 20)};
    struct kvt_costs costs = {.batch_max = 5,
                              .rows = rows,
                              .token_knots = 2,
                              .token_at = at,
                              .token_time = time,
                              .pair_slope = 1 << 20};
    CHECK_I64(kvt_costs_decode(&costs, 5, 100, 0), 1000 + 50 + 300, "decode");
    struct kvt_step_load load = {.prompt_tokens = 20, .pairs = 210, .prompt_ends = 1};
    CHECK_I64(kvt_costs_step(&costs, &load), 1000 + 140 + 210, "prompt");
    load.decodes = 5, load.context = 100;
    CHECK_I64(kvt_costs_step(&costs, &load), 1000 + 175 + 210 + 300, "mixed: no second base");
    load = (struct kvt_step_load){.decodes = 5, .context = 100};
    CHECK_I64(kvt_costs_step(&costs, &load), 1350, "decode alone");
    load = (struct kvt_step_load){.prompt_tokens = 1 << 22};
    CHECK_I64(kvt_costs_step(&costs, &load), 1000 + (7 << 22), "past the last knot");
}

static void a_prompt_step_adds_what_it_holds_and_keeps_its_floor(void)
{
    int64_t at[] = {0, 8, 16, 100};
    kvt_ticks time[] = {100, 180, 200, 1000};
    struct kvt_costs costs = {.token_knots = 4,
                              .token_at = at,
                              .token_time = time,
                              .pair_slope = 3,
                              .prefill_base = 50,
                              .prefill_floor = 500,
                              .row_cost = 11,
                              .copy_slope = 2};
    struct kvt_step_load load = {.prompt_tokens = 8};
    CHECK_I64(kvt_costs_step(&costs, &load), 500, "the floor");
    load.copied_tokens = 10;
    CHECK_I64(kvt_costs_step(&costs, &load), 520, "copies come on top");
    load = (struct kvt_step_load){.prompt_tokens = 100, .prompt_ends = 2, .pairs = 1};
    CHECK_I64(kvt_costs_step(&costs, &load), 1000 + 50 + 22 + 1, "a part of a tick rounds up");
    load = (struct kvt_step_load){.prompt_tokens = 58, .pairs = 1 << 21};
    CHECK_I64(kvt_costs_step(&costs, &load), 600 + 50 + 6, "between knots");
    costs.host_request = 300;
    load.prompt_ends = 2;
    CHECK_I64(kvt_costs_step(&costs, &load), 678, "two tokens are sent while the GPU works");
    load.prompt_ends = 3;
    CHECK_I64(kvt_costs_step(&costs, &load), 900, "three take longer than it");
    load = (struct kvt_step_load){0};
    CHECK_I64(kvt_costs_step(&costs, &load), 0, "an empty step");
}

/* clang-format off */
const struct check_test check_costs[] = {
    {"a run of steps is the sum of its steps", a_run_of_steps_is_the_sum_of_its_steps, false},
    {"steps_until is the first that reaches the time",
     steps_until_is_the_first_that_reaches_the_time, false},
    {"ties and their neighbours are exact over millions of steps",
     ties_and_their_neighbours_are_exact_over_millions_of_steps, false},
    {"a run too long for the clock saturates", a_run_too_long_for_the_clock_saturates, false},
    {"steps that take no time run to the limit", steps_that_take_no_time_run_to_the_limit, false},
    {"a linear table gives its closed form", a_linear_table_gives_its_closed_form, false},
    {"a prompt step adds what it holds and keeps its floor",
     a_prompt_step_adds_what_it_holds_and_keeps_its_floor, false},
    {NULL, NULL, false},
};
/* clang-format on */
