#!/usr/bin/env python3
"""Write docs/fault-study.md and its figures: campaigns of `kvtwin inject`, as tables.

    fault-study.py KVTWIN docs/fault-study.md

The standard library, and h5py for what a strike hit. The same program and configs give the same bytes.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import h5py

CONFIG = "configs/examples/faults.yaml"
RARE = "configs/examples/rare.yaml"
WIDTHS = (4, 8, 16, 32)
FAULTS = ("stale-reader", "premature-free", "late-write", "wrong-map", "double-free",
          "partial-transfer")


def inject(kvtwin, *sets, more=()):
    command = [kvtwin, "inject", CONFIG, "--format", "json", "-q", *more]
    for text in sets:
        command += ["--set", text]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def guard_of(row):
    bits = f" {row['tag_bits']}" if row["tag_bits"] else ""
    looks = any(name in row["guard"] for name in ("tag", "digest", "canary"))
    return f"{row['guard']}{bits}" + (f", {row['check']}" if looks else "")


def cell(row):
    """detected / escaped, in percent of the strikes that found a target"""
    if row["activated"] == 0:
        return "-"
    detected = 100 * row["detected"] / row["activated"]
    escaped = 100 * row["escaped"] / row["activated"]
    return f"{detected:.0f} / {escaped:.0f}"


def number(x):
    return "0" if x == 0 else f"{x:.2e}" if x < 0.1 or x >= 1e5 else f"{x:.3g}"


def matrix(rows):
    guards, faults = [], []
    for row in rows:
        if guard_of(row) not in guards:
            guards.append(guard_of(row))
        if row["fault"] not in faults and row["fault"] != "none":
            faults.append(row["fault"])
    by = {(row["fault"], guard_of(row)): row for row in rows}
    yield "| class | " + " | ".join(guards) + " |"
    yield "|---" * (len(guards) + 1) + "|"
    for fault in faults:
        yield f"| {fault} | " + " | ".join(cell(by[fault, guard]) for guard in guards) + " |"


def flip_table(kvtwin):
    """What the strikes of bit-flip hit, and what came of each; from the file of the trials"""
    guards = ("none", "tag-side 16, before-read", "digest, before-read")
    sets = ("fleet.decode.guard={choices: [none, {tag-side: {bits: 16, check: before-read}}, "
            "{digest: {check: before-read}}]}", "faults.kinds=[bit-flip]", "faults.trials=300")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flips.h5")
        inject(kvtwin, *sets, more=("-o", path))
        with h5py.File(path) as file:
            trials = [file[f"trials/{name}"][:].tolist() for name in ("cell", "variant", "outcome")]
    yield "| bits of | strikes | " + " | ".join(guards) + " |"
    yield "|---" * (2 + len(guards)) + "|"
    outcomes = list(zip(*trials))
    first = min(trials[1])
    for i, what in enumerate(("a page (kv)", "an entry of a page table (table)", "a tag (tag)")):
        cells = []
        for guard in range(len(guards)):
            of = [outcome for cell_, variant, outcome in outcomes if (cell_, variant) == (guard, first + i)]
            cells.append(f"{of.count(1)} / {of.count(2)}")
        yield f"| {what} | {len(of)} | " + " | ".join(cells) + " |"


def width_table(kvtwin):
    kinds = "faults.kinds=[" + ", ".join(FAULTS) + "]"
    result = {}
    for place in ("tag-side", "tag-inband"):
        for order in ("lifo", "fifo"):
            for deferred in (False, True):
                for bits in WIDTHS:
                    guard = (f"fleet.decode.guard={{{place}: {{bits: {bits}, values: random, "
                             f"check: before-read}}" + (", fifo: {}" if order == "fifo" else "") +
                             (", deferred-free: {}" if deferred else "") + "}")
                    for row in inject(kvtwin, kinds, guard, "faults.trials=200")["matrix"]:
                        result[row["fault"], place, order, deferred, bits] = row
    for fault in FAULTS:
        yield f"\n**{fault}**\n"
        yield "| tag | free list | free | " + " | ".join(f"{b} bits" for b in WIDTHS) + " |"
        yield "|---" * (3 + len(WIDTHS)) + "|"
        for place in ("tag-side", "tag-inband"):
            for order in ("lifo", "fifo"):
                for deferred in (False, True):
                    cells = []
                    for bits in WIDTHS:
                        row = result[fault, place, order, deferred, bits]
                        cells.append(f"{number(row['escapes_per_1e9'])} "
                                     f"({number(row['ci_low'])} to {number(row['ci_high'])})")
                    yield (f"| {place} | {order} | {'deferred' if deferred else 'at once'} | " +
                           " | ".join(cells) + " |")


def alone_table(kvtwin):
    kinds = "faults.kinds=[" + ", ".join(FAULTS) + "]"
    guards = ("none", "fifo", "deferred-free", "fifo+deferred-free")
    rows = {}
    for guard in guards:
        for row in inject(kvtwin, kinds, f"fleet.decode.guard={guard}", "faults.trials=200")["matrix"]:
            rows[row["fault"], guard] = row
    yield "| class | " + " | ".join(guards) + " |"
    yield "|---" * (len(guards) + 1) + "|"
    for fault in FAULTS:
        yield f"| {fault} | " + " | ".join(
            f"{100 * rows[fault, guard]['escaped'] / rows[fault, guard]['injected']:.1f} %"
            for guard in guards) + " |"


def cost_table(rows):
    """One line per guard: sums over the classes of the matrix."""
    yield ("| guard | TPOT without a strike (ms) | MB a GPU beside the pages | page-seconds behind fences "
           "without a strike | wrong tokens out | spoiled per strike | mean detection (ms) | page-seconds held | false aborts of 40 false alarms |")
    yield "|---" * 9 + "|"
    guards = {}
    for row in rows:
        guards.setdefault(guard_of(row), []).append(row)
    for guard, cells in guards.items():
        strikes = sum(row["activated"] for row in cells)
        detected = sum(row["detected"] for row in cells)
        latency = sum(row["mean_detection_ms"] * row["detected"] for row in cells)
        alarms = sum(row["false_aborts"] for row in cells if row["fault"] == "false-alarm")
        mean = f"{latency / detected:.1f}" if detected else "-"
        yield (f"| {guard} | {cells[0]['clean_mean_tpot_ms']:.2f} | "
               f"{cells[0]['guard_bytes_per_gpu'] / 1e6:.1f} | {cells[0]['clean_fenced_page_s']:.1f} | {sum(row['leaked_tokens'] for row in cells)} | "
               f"{sum(row['requests_spoiled'] for row in cells) / strikes:.3f} | {mean} | "
               f"{sum(row['held_page_s'] for row in cells):.0f} | {alarms} |")


def policy_table(kvtwin):
    yield "| on a hit | requests lost | saved | tokens made or sent again | wrong tokens out | good req/s |"
    yield "|---" * 6 + "|"
    kinds = "faults.kinds=[" + ", ".join(FAULTS) + "]"
    for policy in ("abort", "recompute", "refetch"):
        rows = inject(kvtwin, kinds, "faults.trials=200",
                      "fleet.decode.guard={tag-inband: {bits: 16, check: before-read, "
                      f"on_hit: {policy}}}}}")["matrix"]
        good = sum(row["goodput"] for row in rows) / len(rows)
        yield (f"| {policy} | {sum(row['requests_lost'] for row in rows)} | "
               f"{sum(row['requests_saved'] for row in rows)} | {sum(row['recovery_tokens'] for row in rows)} | "
               f"{sum(row['leaked_tokens'] for row in rows)} | {good:.5f} |")


def soak_line(kvtwin):
    command = [kvtwin, "inject", "configs/examples/soak.yaml", "--format", "json", "-q"]
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["matrix"][0]
    return (f"{row['clean_requests']:,} requests: {row['clean_false_aborts']} false aborts, "
            f"{row['clean_pages_left']} pages and {row['clean_unfinished']} requests left over.")


def rate_table(kvtwin):
    """Per request at small rates, and counted at large ones."""
    yield "| rate per hour and replica | estimator | runs | escapes per 1e9 requests (95 % interval) | effective samples |"
    yield "|---" * 5 + "|"
    for rate, estimator, runs in ((60, "counted", 2000), (60, "importance", 2000), (1e-3, "importance", 2000),
                                  (1e-3, "splitting", 400), (1e-6, "importance", 2000), (1e-6, "splitting", 400)):
        command = [kvtwin, "inject", CONFIG, "--format", "json", "-q", "--estimator", estimator,
                   "--set", f"faults.rates=[{{fault: stale-reader, rate: {rate:.6f}, per: hour}}]",
                   "--set", f"faults.trials={runs}",
                   "--set", "fleet.decode.guard={tag-side: {bits: 8, values: random, check: before-read}}"]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rates"][0]
        yield (f"| {rate:g} | {estimator} | {row['runs']} | {number(row['escapes_per_1e9_requests'])} "
               f"({number(row['ci_low'])} to {number(row['ci_high'])}) | {row['effective_samples']:.0f} |")


def rare_table(kvtwin):
    """Late writes whose bytes land at a random time: the same rate, by three estimators."""
    yield "| times the rate of the config | estimator | runs | escapes per 1e9 requests (95 % interval) | effective samples |"
    yield "|---" * 5 + "|"
    with open(RARE, encoding="utf-8") as file:
        row = next(line for line in file if "fault: late-write" in line).strip()
    text = row.split("rate: ")[1].split(",")[0]
    for times, estimator, runs in ((1e5, "counted", 4000), (1e4, "splitting", 1000), (1, "importance", 6000),
                                   (1, "splitting", 6000)):
        command = [kvtwin, "inject", RARE, "--format", "json", "-q", "--estimator", estimator,
                   "--set", f"faults.trials={runs}", "--set",
                   f"faults.rates=[{row.lstrip('- ').replace(f'rate: {text},', f'rate: {float(text) * times:g},')}]"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rates"][0]
        yield (f"| {times:g} | {estimator} | {found['runs']} | {number(found['escapes_per_1e9_requests'])} "
               f"({number(found['ci_low'])} to {number(found['ci_high'])}) | {found['effective_samples']:.0f} |")


def figure(rows, path):
    """Escapes of each class without a guard and with each, as a heat map."""
    guards, faults = [], []
    for row in rows:
        if row["fault"] == "none":
            continue
        guards += [] if guard_of(row) in guards else [guard_of(row)]
        faults += [] if row["fault"] in faults else [row["fault"]]
    by = {(row["fault"], guard_of(row)): row for row in rows}
    left, top, size = 130, 190, 46
    # A slanted label is 6.5 a letter long: each must end within the figure, on both of its axes.
    long = max(len(guard) for guard in guards)
    top = max(top, 20 + int(6.5 * 0.77 * long))
    right = max(size * (i + 0.5) + 6.5 * 0.65 * len(guard) for i, guard in enumerate(guards))
    width, height = left + int(max(size * len(guards), right)) + 20, top + 24 * len(faults) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, guard in enumerate(guards):
        x = left + size * i + size / 2
        out.append(f'<text transform="translate({x + 4},{top - 8}) rotate(-50)">{guard}</text>')
    for j, fault in enumerate(faults):
        y = top + 24 * j
        out.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end">{fault}</text>')
        for i, guard in enumerate(guards):
            row = by[fault, guard]
            share = row["escaped"] / row["injected"]
            shade = 255 - int(round(200 * math.sqrt(share)))
            out.append(f'<rect x="{left + size * i}" y="{y}" width="{size - 2}" height="22" '
                       f'fill="rgb(255,{shade},{shade})" stroke="#ccc"/>')
            out.append(f'<text x="{left + size * i + size / 2 - 1}" y="{y + 15}" '
                       f'text-anchor="middle">{100 * share:.0f}</text>')
    out.append(f'<text x="{left}" y="{height - 12}">percent of the strikes that escaped: wrong '
               'tokens went out, nothing fired</text></svg>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


TEXT = """# Faults of KV pages: what each guard sees, and what gets past it

Written by `make fault-study` from `{config}`: Llama-3.1-70B on one prefill and two decode nodes, ten
minutes of generated load. A trial is one run with one fault of one class (`sim/fault/kinds.h`); cells
of one row see the same strikes. What a guard can see is in `sim/fault/faults.h`; the costs of guards in
memory and step time are also in `kvtwin capacity` and `simulate --explain-step`.

These are conditional figures: *given* a strike. No one has published how often software faults of these
classes happen; multiply by your own rate.

## Detection

Percent of the strikes that found a target: detected / escaped. The rest was prevented, overwritten
before it was read, or cost only capacity or time. Checks are made as the column says.
After-step checks miss what hits a prompt's last page before its first token, as premature frees do here:
the reader's own append stamps that page anew before they look.

{matrix}

![percent of the strikes that escaped](fault-study.svg)

The row of bit-flip is a sum over what the bits are of, and most pages of this pool are free: of 300
strikes, detected / escaped in numbers,

{flips}

So the forty strikes above say little of flips in KV that somebody reads: tags miss them all, a digest sees
them all. Entries of a page table are the other way round.

## What guards cost

Sums over all classes, forty strikes each. A digest that is checked before every step reads all KV at what
sglang#39229 measured of an untuned kernel; a check made once costs a request's share of its first step.
Whatever is freed waits for the steps and transfers that may still touch it, with every guard and without:
what such fences alone hold is the third column, so that deferral is known by what it adds.

{costs}

A request whose page fails a check is aborted, computed again, or transferred again where the sender still
holds it (a 16-bit tag in band, six classes, 200 strikes each; who fails twice is aborted):

{policies}

## Clean soak

Every guard on, checked after each step, nothing wrong. {soak}

## Width of a tag, its place, order of the free list, deferral

Escapes per 1e9 strikes (95 % interval), with random tags of this width. Tags that differ are taken as
equal and each trial is weighed by that chance (forcing), so that small figures need no more trials than
large ones. A side array holds what the allocator says of a page; a tag in band is written with the
bytes, and travels with them.
{widths}

## What the order of the free list and deferral do alone

Percent of the strikes that escaped, without any tag:

{alone}

Credit a tag only with what is left of the first column after these.

## Per request, at a rate

Whole runs with plans drawn from a rate of stale readers, under random tags of 8 bits. Importance sampling
inflates the rate to one strike per run, forces the tag to be equal and weighs each run; it must agree with
counting where counting is possible, and needs no more runs where it is not.

{rates}

Of a late write it is not the tag that makes an escape rare, but the moment: in band, under checks before
each step, bytes that land under the last step of a request are read and never told. `{rare}` asks how
often that is, at a rate of software faults such that it is about once per 1e9 requests. Importance
sampling has nothing to inflate there; splitting draws the landing time again wherever a run comes nearer. Where few samples carry
the weight (last column), an interval is a loose guide: counting at 100,000 times the rate gives 0.19.

{late}

## What page tags cannot see

Whatever their width: bytes that change in a page that is rightly owned (bit flips), residue, a poisoned
prefix, and for a tag in a side array also late writes and transfers that are not complete. A digest
sees changed bytes and no wrong tables; a canary that chains tokens sees wrong tables and poisoned
prefixes and no flips. Leaks, lost messages and crashes need accounting, leases and health checks.
"""


def main():
    kvtwin, path = sys.argv[1:]
    rows = inject(kvtwin)["matrix"]
    figure(rows, path.replace(".md", ".svg"))
    text = TEXT.format(config=CONFIG, matrix="\n".join(matrix(rows)), flips="\n".join(flip_table(kvtwin)),
                       widths="\n".join(width_table(kvtwin)),
                       alone="\n".join(alone_table(kvtwin)), costs="\n".join(cost_table(rows)),
                       policies="\n".join(policy_table(kvtwin)), soak=soak_line(kvtwin),
                       rates="\n".join(rate_table(kvtwin)), rare=RARE, late="\n".join(rare_table(kvtwin)))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


main()
