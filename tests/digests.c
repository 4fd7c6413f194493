/*
 * digests.c - random worlds from the command line: what twins must agree on, and long hunts
 *
 *   digests FIRST COUNT             one line a world: everything that must not depend on the build
 *   digests --compare FIRST COUNT   run each by macro-steps, by exact steps and with a log; print
 *                                   the worlds that differ; exit 1 if there are any
 *   digests --first ...             stop at the first one that differs
 *   digests --paranoid ...          check every invariant after every step as well
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "tests/world.h"

static struct world world;

static void print_world(void)
{
    struct world_outcome out;
    world_run(&world, false, false, &out);
    printf("%llu %d %016llx %016llx %016llx %016llx %lld %lld %lld %lld %lld\n",
           (unsigned long long)world.seed, (int)out.status, (unsigned long long)out.digest,
           (unsigned long long)out.times, (unsigned long long)out.gaps,
           (unsigned long long)out.gauges, (long long)out.steps, (long long)out.completed,
           (long long)out.aborted, (long long)out.preemptions, (long long)out.end);
}

static bool is_right(const char *how, const struct world_outcome *got,
                     const struct world_outcome *want)
{
    const char *what = world_difference(got, want);
    if (got->status != KVT_OK)
        what = got->err.text;
    else if (got->arrived != got->completed + got->rejected + got->aborted)
        what = "a request is lost";
    if (what == NULL)
        return true;
    printf("world %llu, %s: %s\n", (unsigned long long)world.seed, how, what);
    return false;
}

static bool compare_world(void)
{
    struct world_outcome macro, exact, logged, both;
    world_run(&world, false, false, &macro);
    world_run(&world, true, false, &exact);
    world_run(&world, false, true, &logged);
    world_run(&world, true, true, &both);
    bool right = is_right("macro-steps", &macro, &macro);
    right = is_right("exact steps", &exact, &macro) && right;
    right = is_right("with a log", &logged, &macro) && right;
    return is_right("exact steps with a log", &both, &macro) && right;
}

/* A broken invariant aborts: say in which world. */
static void on_abort(int signal)
{
    (void)signal;
    fflush(stdout);
    fprintf(stderr, "in world %llu\n", (unsigned long long)world.seed);
}

int main(int argc, char **argv)
{
    bool compare = false, stop = false;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        compare = compare || strcmp(argv[at], "--compare") == 0;
        stop = stop || strcmp(argv[at], "--first") == 0;
        kvt_paranoid = kvt_paranoid || strcmp(argv[at], "--paranoid") == 0;
    }
    if (argc != at + 2) {
        fprintf(stderr, "Usage: digests [--compare] [--first] [--paranoid] FIRST COUNT\n");
        return 2;
    }
    uint64_t first = strtoull(argv[at], NULL, 10), count = strtoull(argv[at + 1], NULL, 10);
    int wrong = 0;
    signal(SIGABRT, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (uint64_t i = 0; i < count && !(stop && wrong > 0); i++) {
        world_draw(&world, first + i);
        if (compare)
            wrong += !compare_world();
        else
            print_world();
    }
    return wrong > 0;
}
