#include <stdio.h>
#include <stdlib.h>

#include "sim/base/assert.h"
#include "tests/check.h"
#include "tests/world.h"

#define WORLDS 1000 /* in the quick suite; the slow one draws ten times as many */

static struct world world;

static void compare(const struct world_outcome *a, const struct world_outcome *b, const char *what)
{
    char note[512];
    const char *difference = world_difference(a, b);
    snprintf(note, sizeof note, "world %llu, %s: %s", (unsigned long long)world.seed, what,
             difference != NULL ? difference : "");
    CHECK_NOTE(difference == NULL, note);
    snprintf(note, sizeof note, "world %llu: %.400s", (unsigned long long)world.seed, a->err.text);
    CHECK_NOTE(a->status == KVT_OK, note);
    CHECK_I64(a->completed + a->rejected + a->aborted, a->arrived, "no request is lost");
}

/* First world to draw and how many: KVT_WORLD=N runs that one alone. */
static void each_world(uint64_t first, int count, void (*check)(void))
{
    const char *only = getenv("KVT_WORLD");
    if (only != NULL) {
        first = strtoull(only, NULL, 10);
        count = 1;
    }
    for (int i = 0; i < count; i++) {
        world_draw(&world, first + (uint64_t)i);
        check();
    }
}

static void macro_equals_exact(void)
{
    struct world_outcome macro, exact;
    world_run(&world, false, false, &macro);
    world_run(&world, true, false, &exact);
    compare(&macro, &exact, "macro against exact steps");
    CHECK_NOTE(macro.events <= exact.events, "a macro-step saves events");
}

static void a_macro_step_equals_its_steps(void)
{
    each_world(1, WORLDS, macro_equals_exact);
}

static void a_log_changes_nothing_in(void)
{
    struct world_outcome plain, logged;
    world_run(&world, false, false, &plain);
    world_run(&world, false, true, &logged);
    compare(&plain, &logged, "with and without a log");
}

static void a_log_changes_nothing(void)
{
    each_world(10000, WORLDS, a_log_changes_nothing_in);
}

static void many_worlds(void)
{
    each_world(100000, 10 * WORLDS, macro_equals_exact);
    each_world(200000, 10 * WORLDS, a_log_changes_nothing_in);
}

static void paranoid_world(void)
{
    struct world_outcome first, second;
    bool before = kvt_paranoid;
    kvt_paranoid = true; /* every invariant after every step */
    world_run(&world, false, true, &first);
    world_run(&world, true, false, &second);
    kvt_paranoid = before;
    compare(&first, &second, "named macro against counted exact");
}

/* A check of every invariant walks over every page: leave the largest pools out. */
static void every_invariant_holds_after_every_step(void)
{
    int checked = 0;
    for (uint64_t seed = 5000; checked < 40; seed++) {
        world_draw(&world, seed);
        if (world_pages(&world) > 400)
            continue;
        paranoid_world();
        checked++;
    }
}

/* Steps of a day, from day 100 on: the clock ends on day 104, and a run must say so, after the same
 * steps whether they are jumped over or not. */
static void time_that_is_out_of_reach_is_a_limit(void)
{
    const kvt_ticks day = 24 * 3600 * KVT_TICKS_PER_S;
    uint64_t seed = 1;
    for (world_draw(&world, seed); world.spec.core.roles[KVT_ROLE_SERVE] == NULL; seed++)
        world_draw(&world, seed);
    world.spec.core.request_count = 1;
    world.spec.until = KVT_NEVER;
    world.spec.concurrency = 0;
    world.spec.core.prefill_only = false;
    world.roles[KVT_ROLE_SERVE].pages = 1000000;
    world.cancels = 0;
    world.arrival[0] = 100 * day;
    world.input[0] = 1;
    world.output[0] = 50;
    for (int32_t b = 1; b <= world.costs[KVT_ROLE_SERVE].batch_max; b++)
        world.rows[KVT_ROLE_SERVE][b] = (struct kvt_cost_row){.base = day, .segments = 1};
    struct world_outcome macro, exact;
    world_run(&world, false, false, &macro);
    world_run(&world, true, false, &exact);
    CHECK_I64(macro.status, KVT_ELIMIT, "a limit");
    CHECK_HOLDS(macro.err.text, "ran out after 104 days with 1 requests left", "says which");
    const char *difference = world_difference(&macro, &exact);
    CHECK_NOTE(difference == NULL, difference);
    CHECK_I64(macro.end / day, 104, "the last step that ends");
}

/* The worlds must reach what they are there for: pressure, prefixes, ties, aborts. */
static void the_worlds_are_wild(void)
{
    int64_t preempted = 0, cached = 0, aborted = 0, rejected = 0, saved = 0, completed = 0;
    for (int i = 0; i < 300; i++) {
        struct world_outcome outcome;
        world_draw(&world, (uint64_t)i + 1);
        world_run(&world, false, false, &outcome);
        preempted += outcome.preemptions > 0;
        cached += outcome.cached > 0;
        aborted += outcome.aborted > 0;
        rejected += outcome.rejected > 0;
        completed += outcome.completed;
        saved += outcome.steps > 2 * outcome.events;
    }
    CHECK_NOTE(preempted > 20, "worlds with preemption");
    CHECK_NOTE(cached > 15, "worlds with prefix hits");
    CHECK_NOTE(aborted > 10, "worlds with aborts");
    CHECK_NOTE(rejected > 3, "worlds with rejections");
    CHECK_NOTE(saved > 15, "worlds where most steps are inside macro-steps");
    CHECK_NOTE(completed > 5000, "requests served");
}

const struct check_test check_des[] = {
    {"a macro-step equals its steps, to the last bit", a_macro_step_equals_its_steps, false},
    {"a log changes nothing", a_log_changes_nothing, false},
    {"every invariant holds after every step", every_invariant_holds_after_every_step, false},
    {"time that is out of reach is a limit", time_that_is_out_of_reach_is_a_limit, false},
    {"ten times as many worlds agree", many_worlds, true},
    {"the worlds are wild", the_worlds_are_wild, false},
    {NULL, NULL, false},
};
