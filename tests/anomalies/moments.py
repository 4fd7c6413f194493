"""Signals at random moments, two runs at once, clocks that jump."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

from cases import SLOW, Case
from world import Run

TEMPORARY = ".tmp.kvtwin"


def start(world, case, folder, more=()):
    return subprocess.Popen(world.command(case, folder, more=more), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="replace")


def wait(process, folder):
    out, err = process.communicate(timeout=120)
    return Run(process.returncode, out, err, folder)


def duration(world, case):
    begin = time.monotonic()
    world.references.pop(case.name, None)
    world.reference(case)
    return time.monotonic() - begin


def check_whole(world, case, what, result, beside):
    """Files under final names are whole; what else is left matches `beside`."""
    whole = world.reference(case)
    for name in result.left():
        if name in whole:
            if open(f"{result.folder}/{name}", "rb").read() != whole[name]:
                world.fail(what, result, f"{name} is not whole")
        elif not any(part in name for part in beside):
            world.fail(what, result, f"{name} is left")


def go_on(world, case, what, folder):
    """The same command, undisturbed, ends as if nothing had been."""
    result = wait(start(world, case, folder), folder)
    world.runs += 1
    if result.code != 0:
        world.fail(what, result, "the same command should go on")
    check_whole(world, case, what, result, [])
    for name in world.reference(case):
        if name not in result.left():
            world.fail(what, result, f"{name} is missing in the end")


def part_kill(world):
    for case in SLOW:
        length = duration(world, case)
        stages = {"before": 0, "journal": 0, "temporary": 0, "some files": 0, "done": 0}
        for moment in range(world.moments):
            folder = world.folder()
            process = start(world, case, folder)
            at = world.random.uniform(0, 1.1 * length)
            time.sleep(at)
            process.kill()
            result = wait(process, folder)
            world.runs += 1
            what = f"{case.name} killed after {at:.4f} of {length:.4f} s"
            left = result.left()
            check_whole(world, case, what, result, [TEMPORARY, ".journal"])
            stages["done" if result.code == 0 else "temporary" if any(TEMPORARY in n for n in left) else
                   "some files" if any(n in case.files for n in left) else
                   "journal" if left else "before"] += 1
            go_on(world, case, what, folder)
            shutil.rmtree(folder)
        print(f"kill: {case.name}: {world.moments} moments of {length:.2f} s: "
              + ", ".join(f"{n} {stage}" for stage, n in stages.items() if n), flush=True)


def part_signal(world):
    for case in SLOW:
        length = duration(world, case)
        codes = {}
        for moment in range(world.moments):
            folder = world.folder()
            process = start(world, case, folder)
            number = world.random.choice([signal.SIGINT, signal.SIGTERM])
            twice = world.random.random() < 0.3
            at = world.random.uniform(0, 1.1 * length)
            time.sleep(at)
            process.send_signal(number)
            if twice:
                time.sleep(world.random.uniform(0, 0.01))
                process.send_signal(number)
            result = wait(process, folder)
            world.runs += 1
            what = f"{case.name} gets {number.name}{' twice' if twice else ''} after {at:.4f} of {length:.4f} s"
            codes[result.code] = codes.get(result.code, 0) + 1
            if result.code == -number and not result.left():
                pass  # before the program could catch it
            elif result.code == 0:
                check_whole(world, case, what, result, [])
            elif result.code != 130:
                world.fail(what, result, "want exit 130 or 0")
            elif case.journals:
                check_whole(world, case, what, result, [".journal"])
            else:
                for name in result.left():
                    if name not in case.files:
                        world.fail(what, result, f"{name} is left")
                if "run.h5" in result.left():
                    looked = subprocess.run([world.kvtwin, "diff", f"{folder}/run.h5", f"{folder}/run.h5"],
                                            capture_output=True, text=True)
                    if looked.returncode != 0:
                        world.fail(what, result, f"run.h5 cannot be read: {looked.stderr.strip()}")
                if "trace.json" in result.left():
                    json.load(open(f"{folder}/trace.json"))
            go_on(world, case, what, folder)
            shutil.rmtree(folder)
        print(f"signal: {case.name}: {world.moments} moments: "
              + ", ".join(f"exit {code} {n}" for code, n in sorted(codes.items())), flush=True)


def part_race(world):
    for case in SLOW:
        seeds, whole = ("1", "2"), {}
        for seed in seeds:
            folder = world.folder()
            wait(start(world, case, folder, ("--seed", seed)), folder)
            whole[seed] = {name: open(f"{folder}/{name}", "rb").read() for name in os.listdir(folder)}
            shutil.rmtree(folder)
        codes = {}
        for turn in range(max(2, world.moments // 5)):
            folder = world.folder()
            runs = [start(world, case, folder, ("--seed", seed)) for seed in seeds]
            results = [wait(run, folder) for run in runs]
            world.runs += 2
            what = f"two runs of {case.name} at once"
            pair = tuple(sorted(result.code for result in results))
            codes[pair] = codes.get(pair, 0) + 1
            for result in results:
                # 3: the journal belongs to the other seed's run, and says so
                if result.code not in ({0, 3, 4} if case.journals else {0, 4}):
                    world.fail(what, result, "want exit 0 or 4")
                elif result.code != 0 and not re.search("another (run|process|job|output)", result.stderr):
                    world.fail(what, result, "want to hear of another run")
            if pair[0] != 0:
                world.fail(what, results[0], f"none of the two succeeds: {[r.stderr for r in results]}")
            for name in os.listdir(folder):
                if name not in case.files:
                    world.fail(what, results[0], f"{name} is left")
                elif open(f"{folder}/{name}", "rb").read() not in [whole[s][name] for s in seeds]:
                    world.fail(what, results[0], f"{name} is a mixture")
            shutil.rmtree(folder)
        print(f"race: {case.name}: " + ", ".join(f"{n} times exit {a} and {b}" for (a, b), n in codes.items()),
              flush=True)


def part_clock(world):
    """Where the clock is read: validation and measuring."""
    cases = [Case("validate", "validate tests/runtime/validate-tiny.yaml --short -q --format json", [])]
    if world.full:
        cases.append(Case("bench", "bench --quick --family tag-check --format json -o $/own.csv", None))
    for case in cases:
        codes = {}
        for seed in range(1, 1 + (12 if world.full else 1)):
            result = world.run(case, KVT_CLOCK=str(seed))
            what = f"{case.name} under a jumping clock, seed {seed}"
            codes[result.code] = codes.get(result.code, 0) + 1
            if result.code not in (0, 1):
                world.fail(what, result, "want an answer")
            else:
                try:
                    parsed = json.loads(result.stdout)
                    times = [v for k, v in flatten(parsed) if re.search(r"(_s|_ms|_us|_ns|seconds)$", k)]
                    if any(t < 0 for t in times):
                        world.fail(what, result, f"a time below zero: {[kv for kv in flatten(parsed) if kv[1] < 0]}")
                except ValueError as error:
                    world.fail(what, result, f"no JSON: {error}")
            shutil.rmtree(result.folder)
        print(f"clock: {case.name}: " + ", ".join(f"exit {code} {n} times" for code, n in codes.items()), flush=True)


def flatten(value, name=""):
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flatten(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from flatten(each, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value
