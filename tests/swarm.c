/*
 * swarm.c - random worlds, each run in every way that must not matter, with every invariant checked
 *
 *   swarm [OPTION...] SEED COUNT    worlds SEED, SEED + 1, ... (SEED may be hexadecimal: 0x...)
 *     --steps     only macro-steps against exact steps, with a log and without: no invariants, no
 *                 replay, no faults (what planted bugs in the jump logic are run on)
 *     --first     stop at the first world that differs
 *
 * A world is run by macro-steps on pools that count, step by step, with named pages and a log, and
 * both; then along the recorded order of calls by the other driver's replay (runtime/drive.h); then
 * with faults and guards, by macro-steps and step by step. Results must be equal, no request may be
 * lost, and in worlds of few pages every invariant is checked after every step. The command that
 * repeats a failure is printed, also when a check aborts or a world runs for a minute.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/drive.h"
#include "sim/base/assert.h"
#include "tests/world.h"

#define CHECKED_PAGES 400 /* an invariant walks over all pages: larger pools are left out */

static struct world world;
static const char *program;

static bool is_right(const char *how, const struct world_outcome *got,
                     const struct world_outcome *want)
{
    const char *what = world_difference(got, want);
    if (got->status != KVT_OK)
        what = got->err.text;
    else if (got->arrived != got->completed + got->rejected + got->aborted + got->left)
        what = "a request is lost";
    if (what == NULL)
        return true;
    printf("world %llu, %s: %s; again: %s %llu 1\n", (unsigned long long)world.seed, how, what,
           program, (unsigned long long)world.seed);
    return false;
}

static bool steps_are_equal(struct world_outcome *macro)
{
    struct world_outcome exact, logged, both;
    world_run(&world, false, false, macro);
    world_run(&world, true, false, &exact);
    world_run(&world, false, true, &logged);
    world_run(&world, true, true, &both);
    bool right = is_right("macro-steps", macro, macro);
    right = is_right("exact steps", &exact, macro) && right;
    right = is_right("with a log", &logged, macro) && right;
    return is_right("exact steps with a log", &both, macro) && right;
}

/* ---- the other driver --------------------------------------------------------------------- */

static struct kvt_order order;

static void *grown(void *items, int64_t count, int64_t *room, size_t each)
{
    if (count < *room)
        return items;
    *room = *room > 0 ? 2 * *room : 4096;
    items = realloc(items, (size_t)*room * each);
    kvt_assert(items != NULL);
    return items;
}

static void keep_call(void *context, enum kvt_call call, int32_t id, kvt_ticks now)
{
    (void)context;
    order.calls = grown(order.calls, order.call_count, &order.call_room, sizeof *order.calls);
    order.calls[order.call_count++] =
        (struct kvt_order_call){.time = now, .id = id, .kind = (int32_t)call};
}

static void keep_decision(void *context, const struct kvt_decision *decision)
{
    (void)context;
    order.decisions =
        grown(order.decisions, order.decision_count, &order.decision_room, sizeof *order.decisions);
    order.decisions[order.decision_count++] = *decision;
}

static bool drivers_are_equal(const struct world_outcome *macro)
{
    static kvt_ticks arrival[WORLD_REQUESTS_MAX];
    struct kvt_des_tap tap = {.tell = keep_call};
    struct kvt_replica_spec roles[KVT_ROLE_COUNT];
    struct kvt_des_spec spec;
    struct world_outcome told;
    struct kvt_replay replay;
    struct kvt_err err = {0};
    order.call_count = order.decision_count = 0;
    world_run_tapped(&world, &tap, keep_decision, &told);
    bool right = is_right("with a tap", &told, macro);
    world_spec(&world, true, roles, arrival, &spec);
    enum kvt_status status = kvt_replay_run(&replay, &order, &spec, NULL, NULL, 0, NULL, &err);
    if (status == KVT_OK && replay.divergence < 0 && replay.digest == macro->digest)
        return right;
    printf("world %llu, replay: %s, decision %lld of %lld; again: %s %llu 1\n",
           (unsigned long long)world.seed, err.text, (long long)replay.divergence,
           (long long)order.decision_count, program, (unsigned long long)world.seed);
    return false;
}

/* ---- faults ------------------------------------------------------------------------------- */

static bool faults_are_equal(void)
{
    struct world_outcome macro, exact, again;
    world_draw_faults(&world);
    world_run(&world, false, true, &macro);
    world_run(&world, true, true, &exact);
    world_run(&world, false, true, &again);
    bool right = is_right("faults by macro-steps", &macro, &macro);
    right = is_right("faults by exact steps", &exact, &macro) && right;
    return is_right("faults, a second time", &again, &macro) && right;
}

/* ---- the frame ---------------------------------------------------------------------------- */

static char last_words[2][256]; /* of the world that runs: if it aborts, if it never ends */

static void write_last_words(void)
{
    for (int i = 0; i < 2; i++)
        snprintf(last_words[i], sizeof last_words[i], "world %llu %s; again: %s %llu 1\n",
                 (unsigned long long)world.seed, i == 0 ? "aborts" : "never ends", program,
                 (unsigned long long)world.seed);
}

/* A broken invariant aborts, a world may never end: say which. */
static void on_signal(int signal_number)
{
    const char *words = last_words[signal_number == SIGVTALRM];
    size_t bytes = 0;
    while (words[bytes] != '\0')
        bytes++;
    if (write(STDOUT_FILENO, words, bytes) < 0 || signal_number == SIGVTALRM)
        _exit(1);
}

static bool is_world_right(uint64_t seed, bool steps_only)
{
    struct world_outcome macro;
    world_draw(&world, seed);
    write_last_words();
    kvt_paranoid = !steps_only && world_pages(&world) <= CHECKED_PAGES;
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value = {.tv_sec = 60}}, NULL);
    bool right = steps_are_equal(&macro);
    if (!steps_only && macro.status == KVT_OK) {
        right = drivers_are_equal(&macro) && right;
        right = faults_are_equal() && right;
    }
    return right;
}

int main(int argc, char **argv)
{
    bool steps_only = false, stop = false;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        steps_only = steps_only || strcmp(argv[at], "--steps") == 0;
        stop = stop || strcmp(argv[at], "--first") == 0;
    }
    if (argc != at + 2) {
        fprintf(stderr, "Usage: swarm [--steps] [--first] SEED COUNT\n");
        return 2;
    }
    program = argv[0];
    uint64_t first = strtoull(argv[at], NULL, 0), count = strtoull(argv[at + 1], NULL, 10);
    uint64_t wrong = 0;
    signal(SIGABRT, on_signal);
    signal(SIGVTALRM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (uint64_t i = 0; i < count && !(stop && wrong > 0); i++)
        wrong += !is_world_right(first + i, steps_only);
    kvt_order_release(&order);
    if (!steps_only)
        printf("swarm: %llu worlds from %llu on, %llu wrong\n", (unsigned long long)count,
               (unsigned long long)first, (unsigned long long)wrong);
    return wrong > 0;
}
