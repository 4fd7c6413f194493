#include <stdio.h>
#include <stdlib.h>

#include "sim/base/assert.h"
#include "tests/check.h"
#include "tests/scarce.h"
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
    bool before = kvt_paranoid; /* on in debug and sanitize builds: too slow for so many */
    kvt_paranoid = false;
    for (int i = 0; i < count; i++) {
        world_draw(&world, first + (uint64_t)i);
        check();
    }
    kvt_paranoid = before;
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

/* Every gap between two tokens is in the histogram once, whatever interrupts a request. */
static void gaps_add_up_in(void)
{
    struct world_outcome out;
    char note[64];
    world.cancels = 0;
    world.spec.patience = NULL;
    world_run(&world, false, false, &out);
    snprintf(note, sizeof note, "world %llu", (unsigned long long)world.seed);
    CHECK_I64(out.gaps_missing, 0, note);
    CHECK_I64(out.gap_ticks_missing, 0, note);
}

static void gaps_add_up(void)
{
    each_world(20000, WORLDS / 2, gaps_add_up_in);
}

/* Changes that must not matter, and what of the outcome they must not touch. */
static void the_same_in_other_words_in(void)
{
    struct world_outcome plain, other;
    world_run(&world, false, true, &plain);
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        world.roles[role].free_order =
            world.roles[role].free_order == KVT_FREE_LIFO ? KVT_FREE_FIFO : KVT_FREE_LIFO;
    world_run(&world, false, true, &other);
    compare(&plain, &other, "the other order of the free list");
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (world.roles[role].window > 0 || world.spec.core.roles[role] == NULL)
            continue;
        world.roles[role].window = world.costs[role].window = 1 << 21;
        world.costs[role].window_slope = 0;
    }
    world_run(&world, true, false, &other);
    compare(&plain, &other, "a window wider than every context, at no cost");
    world.spec.series_points = 64;
    world.spec.warmup = 0;
    world_run(&world, false, false, &other);
    CHECK_I64((int64_t)other.digest, (int64_t)plain.digest, "what is measured decides nothing");
    if (world.spec.concurrency == 0 && world.spec.core.request_count < WORLD_REQUESTS_MAX) {
        int32_t r = world.spec.core.request_count++; /* it never comes, and asks for much */
        world.output[r] = 5000;
        world.hash_begin[r + 1] = world.hash_begin[r];
        if (world.spec.until > world.arrival[r - 1])
            world.spec.until = world.arrival[r - 1];
        world.arrival[r] = world.arrival[r - 1] + 1;
        world_run(&world, false, false, &other);
        CHECK_I64((int64_t)other.digest, (int64_t)plain.digest, "one more who never comes");
        world.spec.core.request_count--;
    }
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        world.spec.core.replicas[role] = 1;
    world_run(&world, false, false, &plain);
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        world.spec.core.routers[role] =
            (enum kvt_router)((world.spec.core.routers[role] + 1) % KVT_ROUTER_COUNT);
    world_run(&world, false, false, &other);
    compare(&plain, &other, "one replica, another router");
}

static void the_same_in_other_words_is_the_same(void)
{
    each_world(30000, WORLDS / 4, the_same_in_other_words_in);
}

/* The n-th request to the arena fails, n = 1, 2, ... until all are granted. */
static void a_full_arena_is_a_status(void)
{
    for (uint64_t seed = 1; seed < 9; seed++) {
        world_draw(&world, seed);
        struct kvt_arena arena;
        struct kvt_err err = {0};
        static struct kvt_des des;
        enum kvt_status status = KVT_ENOMEM;
        for (long n = 1; status != KVT_OK && n < 1000; n++) {
            err = (struct kvt_err){0};
            CHECK_OK(kvt_arena_init(&arena, kvt_des_bytes(&world.spec), &err), err);
            scarce_arena_at(n);
            status = kvt_des_init(&des, &arena, &world.spec, &err);
            scarce_arena_at(0);
            CHECK_NOTE(status == KVT_OK || (status == KVT_ENOMEM && err.count == 1), err.text);
            kvt_arena_release(&arena);
        }
        CHECK_I64(status, KVT_OK, "granted at last");
    }
}

/* What is asked for ahead suffices at sizes far from those of the worlds. */
static void the_arena_is_as_large_as_it_is_said_to_be(void)
{
    static const struct {
        int32_t pages, page_tokens, running, replicas, requests, window, series, tenants;
        bool named;
    } rows[] = {
        {1, 1, 1, 1, 1, 0, 2, 1, false},
        {1, 65536, 1, 1, 1, 0, 2, 1, true},
        {7, 65536, 7, 90, 3, 5, 512, 9, true},
        {300000, 1, 4096, 2, 70000, 1, 512, 400, true},
        {9, 16, 9, 3000, 20, 1, 2, 1, true},
        {100, 16, 4096, 64, 33000, 0, 512, 60000, false},
        {65537, 3, 1000, 3, 65537, 7, 64, 1, true},
        {1, 1, 1, 1, 300000, 0, 2, 1, false},
    };
    int32_t *lengths = calloc(300000, sizeof *lengths);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int way = 0; way < 3; way++) {
            uint64_t seed = 1;
            bool disaggregated = way > 0;
            do
                world_draw(&world, seed++);
            while ((world.spec.core.roles[KVT_ROLE_SERVE] == NULL) != disaggregated);
            for (int role = 0; role < KVT_ROLE_COUNT; role++) {
                struct kvt_replica_spec *spec = &world.roles[role];
                spec->pages = rows[i].pages;
                spec->page_tokens = rows[i].page_tokens;
                spec->max_running = rows[i].running;
                spec->window = rows[i].window;
                spec->named = rows[i].named;
                spec->prefix_cache = rows[i].named && role != KVT_ROLE_DECODE;
                world.spec.core.replicas[role] = rows[i].replicas;
            }
            world.spec.core.request_count = rows[i].requests;
            world.spec.core.input = world.spec.core.output = lengths;
            world.spec.core.tenants = rows[i].tenants;
            world.spec.series_points = rows[i].series;
            world.spec.concurrency = way == 2 ? 100000 : 0;
            struct kvt_arena arena;
            struct kvt_err err = {0};
            static struct kvt_des des;
            CHECK_OK(kvt_arena_init(&arena, kvt_des_bytes(&world.spec), &err), err);
            CHECK_OK(kvt_des_init(&des, &arena, &world.spec, &err), err);
            kvt_arena_release(&arena);
        }
    }
    free(lengths);
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
    world.spec.patience = NULL;
    world.arrival[0] = 100 * day;
    world.input[0] = 1;
    world.output[0] = 50;
    for (int32_t b = 1; b <= world.costs[KVT_ROLE_SERVE].batch_max; b++)
        world.rows[KVT_ROLE_SERVE][b] = (struct kvt_cost_row){.base = day, .segments = 1};
    struct world_outcome macro, exact;
    world_run(&world, false, false, &macro);
    world_run(&world, true, false, &exact);
    CHECK_I64(macro.status, KVT_ELIMIT, "a limit");
    CHECK_HOLDS(macro.err.text, "ran out after 104 days with 1 request left", "says which");
    const char *difference = world_difference(&macro, &exact);
    CHECK_NOTE(difference == NULL, difference);
    CHECK_I64(macro.end / day, 104, "the last step that ends");
}

/* The worlds must reach what they are there for: pressure, prefixes, ties, aborts. */
static void the_worlds_are_wild(void)
{
    int64_t preempted = 0, cached = 0, aborted = 0, rejected = 0, saved = 0, completed = 0;
    bool before = kvt_paranoid;
    kvt_paranoid = false;
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
    kvt_paranoid = before;
    CHECK_NOTE(preempted > 20, "worlds with preemption");
    CHECK_NOTE(cached > 15, "worlds with prefix hits");
    CHECK_NOTE(aborted > 10, "worlds with aborts");
    CHECK_NOTE(rejected > 3, "worlds with rejections");
    CHECK_NOTE(saved > 15, "worlds where most steps are inside macro-steps");
    CHECK_NOTE(completed > 5000, "requests served");
}

/* Worlds that the swarm found (make swarm), with their faults: a completion that had gone to
 * another request came again after a cancel (128, 490); a request was cancelled while its
 * acknowledgement was lost, and its transfer ended twice (556). */
static void what_strikes_leaves_a_message_at_most_once(void)
{
    static const uint64_t seeds[] = {128, 490, 556, 100069};
    struct world_outcome macro, exact;
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        world_draw(&world, seeds[i]);
        world_draw_faults(&world);
        world_run(&world, false, true, &macro);
        world_run(&world, true, true, &exact);
        const char *what = world_difference(&macro, &exact);
        CHECK_NOTE(what == NULL, what != NULL ? what : "");
        CHECK_I64(macro.completed + macro.rejected + macro.aborted + macro.left, macro.arrived,
                  "no request is lost");
    }
}

const struct check_test check_des[] = {
    {"a macro-step equals its steps, to the last bit", a_macro_step_equals_its_steps, false},
    {"a log changes nothing", a_log_changes_nothing, false},
    {"every invariant holds after every step", every_invariant_holds_after_every_step, false},
    {"gaps between tokens add up", gaps_add_up, false},
    {"the same in other words is the same", the_same_in_other_words_is_the_same, false},
    {"a full arena is a status", a_full_arena_is_a_status, false},
    {"the arena is as large as it is said to be", the_arena_is_as_large_as_it_is_said_to_be, false},
    {"time that is out of reach is a limit", time_that_is_out_of_reach_is_a_limit, false},
    {"ten times as many worlds agree", many_worlds, true},
    {"the worlds are wild", the_worlds_are_wild, false},
    {"what strikes leaves a message at most once", what_strikes_leaves_a_message_at_most_once,
     false},
    {NULL, NULL, false},
};
