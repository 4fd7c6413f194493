#!/usr/bin/python3
"""Break every command on purpose: what it promises must hold whatever fails.

    run.py [--full] [--paths] [--moments N] [--only PART[,PART]] BUILD KVTWIN SHARED

BUILD has failing.so and KVTWIN-shared, the program linked with the shared HDF5. The parts:

    calls    the Nth open, read, write, fsync, close, rename, ftruncate, lock, map or HDF5 call
             fails, one by one until none does: exit 4 or 5 (0 where nothing was lost by it), a
             message, nothing but whole files under a final name
    resume   likewise where a job goes on from a journal, of which nothing may be lost
    memory   the Nth allocation fails, likewise
    disk     the disk is full after N bytes, or a file may not grow beyond N: exit 4, path and
             reason, no file; on a small file system too where this may mount one
    kill     SIGKILL at random moments: nothing partial under a final name, the same command then
             ends with the bytes of an undisturbed run and leaves nothing beside them
    signal   SIGINT or SIGTERM at random moments, once or twice: 130, files whole or none, and the
             same command goes on
    race     two runs with the same output at one time: one whole file, or one of them is refused
    clock    the clock jumps while kernels are measured: no crash, no time below zero

Without --full each part is short: large N in strides, few moments. With --paths the calls that
fail are the first of each path through the program, all of them, in every command. The moments are drawn from
--seed, which is printed.
"""

import argparse
import shutil
import sys
import time

sys.dont_write_bytecode = True
import calls
import moments
from cases import CASES, MORE, SLOW, prepare
from world import World

PARTS = {
    name[5:]: run
    for module in (calls, moments)
    for name, run in vars(module).items()
    if name.startswith("part_")
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("kvtwin")
    parser.add_argument("shared")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--paths", action="store_true")
    parser.add_argument("--moments", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--cases", default="")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    world = World(options)
    if options.full or options.paths:
        CASES.extend(MORE)
    if options.cases:
        CASES[:] = [case for case in CASES if case.name in options.cases.split(",")]
        SLOW[:] = [case for case in SLOW if case.name in options.cases.split(",")]
    print(f"anomalies: seed {options.seed}", flush=True)
    try:
        prepare(world)
        for part in options.only.split(","):
            begin = time.monotonic()
            PARTS[part](world)
            print(f"{part}: {time.monotonic() - begin:.1f} s", flush=True)
    finally:
        shutil.rmtree(world.work, ignore_errors=True)
    if world.failures:
        sys.exit(f"tests/anomalies/run.py: {len(world.failures)} failures in {world.runs} runs")
    print(f"tests/anomalies/run.py: {world.runs} runs end as they should")


main()
