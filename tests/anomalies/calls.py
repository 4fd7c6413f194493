"""The Nth call fails, and disks that are full."""

import os
import re
import shutil
import subprocess

from cases import CASES

MEMORY = ["simulate", "sweep", "inject", "trace-generate", "trace-import", "model-import", "config"]
FILES = ["open", "read", "write", "fsync", "close", "rename", "ftruncate", "lock", "map"]


def fail_each(world, case, kind, program, codes, most=None):
    """The Nth call of a kind fails, for every N, or for as many as `most`; tells how many of how many."""
    paths = {"KVT_FAIL_PATHS": "1"} if world.paths else {}
    count = world.run(case, program=program, KVT_FAIL=f"{kind}:0", **paths)
    shutil.rmtree(count.folder)

    def job(n):
        def one():
            result = world.run(case, program=program, KVT_FAIL=f"{kind}:{n}", **paths)
            world.judge(case, f"{case.name}: {kind} {n} of {count.calls} fails", result, codes)

        return one

    chosen = range(1, count.calls + 1, max(1, count.calls // most) if most else 1)
    world.each([job(n) for n in chosen])
    return f"{kind} {len(chosen)}/{count.calls}" if count.calls else ""


def part_calls(world):
    for case in CASES:
        if case.name == "validate" and not world.full and not world.paths:
            continue
        told = []
        for kind in FILES + ["h5"]:
            codes = {0, 4, 5} | ({1} if case.name == "validate" else set())
            if kind in ("h5", "read", "open"):
                codes |= {3}  # what cannot be read is no config, or no run
            if kind in ("write", "fsync", "rename"):
                codes -= {0}  # what is lost then nobody knows
            program = world.shared if kind in ("h5", "close") else None
            most = None if world.full or world.paths else case.samples
            told.append(fail_each(world, case, kind, program, codes, most))
        print(f"calls: {case.name}: {', '.join(filter(None, told))}", flush=True)


def part_resume(world):
    """A job that goes on cannot read its journal: nothing of it is lost."""
    for case in CASES:
        if not case.journals:
            continue
        world.reference(case)
        stopped = world.run(case, KVT_FAIL="rename:1")
        journals = {name: open(f"{stopped.folder}/{name}", "rb").read() for name in stopped.left()}
        if stopped.code != 4 or not journals:
            world.fail(f"{case.name}: rename 1 fails", stopped, "want exit 4 and a journal")
            continue

        def again(kind, n):
            folder = world.folder()
            for name, text in journals.items():
                open(f"{folder}/{name}", "wb").write(text)
            paths = {"KVT_FAIL_PATHS": "1"} if kind == "malloc" else {}  # of thousands, each path once
            return world.run(case, program=world.shared if kind == "malloc" else None, folder=folder,
                             KVT_FAIL=f"{kind}:{n}", **paths)

        def job(kind, n):
            def one():
                result = again(kind, n)
                what = f"{case.name} that goes on: {kind} {n} fails"
                for name, text in journals.items() if result.code != 0 else ():
                    if open(f"{result.folder}/{name}", "rb").read() != text:
                        world.fail(what, result, f"{name} lost records")
                world.judge(case, what, result, {0, 4, 5})
            return one

        told = []
        for kind in ("open", "read", "malloc", "ftruncate", "lock"):
            count = again(kind, 0).calls
            stride = 1 if kind not in ("malloc", "read") else max(1, count // (1000 if world.full else 8))
            world.each([job(kind, n) for n in range(1, count + 1, stride)])
            told.append(f"{kind} {count}")
        print(f"resume: {case.name}: {', '.join(told)}", flush=True)


def part_memory(world):
    for case in CASES:
        if not case.memory or (not world.full and not world.paths and case.name not in MEMORY):
            continue
        # Of the hundreds of thousands that plans and fits make, some thousands.
        most = case.samples
        if world.full or world.paths:
            most = 5000 if case.samples < 6 else None
        codes = {0, 4, 5} | ({1} if case.name == "validate" else set())
        print(f"memory: {case.name}:", fail_each(world, case, "malloc", world.shared, codes, most), flush=True)


def part_disk(world):
    for case in CASES:
        if not case.files:
            continue
        sizes = {name: len(text) for name, text in world.reference(case).items()}
        largest, total = max(sizes.values()), sum(sizes.values())
        traced = world.run(case, KVT_SPACE="1000000000")
        shutil.rmtree(traced.folder)
        ends, sum_of = {0}, 0
        for _, length in traced.writes:
            sum_of += length
            ends |= {sum_of - 1, sum_of, sum_of - length // 2}
        ends = sorted(n for n in ends if n < sum_of)
        # Every byte of a small file, else a stride; the boundaries of all writes besides.
        step = 1 if largest <= 4096 and world.full else max(1, largest // (2000 if world.full else 5))
        limits = sorted(set(range(0, largest, step)) | {1, largest - 1})
        if not world.full:
            ends = ends[:: max(1, len(ends) // 5)]
        space = "[Nn]o space left on device"
        where = re.escape(world.work)

        def limited(n):
            def one():
                result = world.run(case, limit=n)
                world.judge(case, f"{case.name}: files end at {n} of {largest} bytes", result, {4},
                            [where, "[Ff]ile too large"])
            return one

        def full(n):
            def one():
                result = world.run(case, KVT_SPACE=str(n))
                world.judge(case, f"{case.name}: room for {n} of {sum_of} bytes", result, {4}, [where, space])
            return one

        world.each([limited(n) for n in limits] + [full(n) for n in ends])
        print(f"disk: {case.name}: {len(limits)} limits of {largest} bytes, {len(ends)} of {sum_of} bytes of room",
              flush=True)
    small_file_system(world)


def small_file_system(world):
    """A tmpfs of few pages, on which other files leave less and less room."""
    case = CASES[0]
    mount = f"{world.work}/small"
    os.mkdir(mount)
    size = 1 << 20
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", mount],
                                          capture_output=True).returncode != 0:
        print("disk: a small file system: skipped, this may not mount one", flush=True)
        return
    try:
        tried = 0
        whole = world.reference(case)
        for room in range(0, size, 4096 if world.full else 65536):
            out = f"{mount}/out"
            os.mkdir(out)
            with open(f"{mount}/filler", "wb") as filler:
                filler.write(bytes(size - room))
            result = world.run(case, folder=out)
            tried += 1
            fits = result.code == 0
            world.judge(case, f"simulate with {room} bytes on a small file system", result, {0, 4},
                        None if fits else ["No space left on device", re.escape(out)])
            os.unlink(f"{mount}/filler")
            if fits:
                break
        print(f"disk: a small file system: {tried} sizes, whole with {room} bytes", flush=True)
        if room < sum(map(len, whole.values())) // 2:
            world.failures.append("a small file system holds more than it has")
    finally:
        subprocess.run(["umount", mount], check=True)
