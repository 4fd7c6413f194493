/*
 * digests.c - random worlds, a line of digests each: what twins must agree on
 *
 *   digests FIRST COUNT             one line a world: everything that must not depend on the build
 */
#include <stdio.h>
#include <stdlib.h>

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

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "Usage: digests FIRST COUNT\n");
        return 2;
    }
    uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    for (uint64_t i = 0; i < count; i++) {
        world_draw(&world, first + i);
        print_world();
    }
    return 0;
}
