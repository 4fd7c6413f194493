#!/usr/bin/env python3
"""Run strikes on real pages (kvtwin inject --backend cpu) and write docs/fault-real.md.

usage: fault-real.py KVTWIN DOC
"""
import json
import subprocess
import sys
import time

CONFIGS = {
    "configs/examples/faults-real.yaml": "Prefill and decode with room for all",
    "configs/examples/faults-real-busy.yaml": "A slow link, small pools, clients that go away",
    "configs/examples/faults-real-prefix.yaml": "Shared prefixes in one replica",
}
OUTCOMES = ("masked", "never read", "undetected_harmless", "detected", "escaped", "hung", "crashed")


def run(kvtwin, config):
    command = [kvtwin, "inject", config, "--backend", "cpu", "--format", "json", "-q"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode not in (0, 1):
        sys.exit(ran.returncode)
    return json.loads(ran.stdout)


def name_of(row):
    checked = any(word in row["guard"] for word in ("tag", "digest", "canary"))
    policy = f", {row['on_hit']}" if row["on_hit"] != "abort" else ""
    return row["guard"] + (f", {row['check']}{policy}" if checked else "")


def outcomes(rows):
    """Trials of one class by outcome; never read: struck, and nobody read wrong bytes."""
    total = dict.fromkeys(OUTCOMES, 0)
    for row in rows:
        for outcome in OUTCOMES:
            total[outcome] += row.get(outcome, 0)
        idle = row["injected"] - row["activated"]
        unread = max(0, row["masked"] - idle)
        total["masked"] -= unread
        total["never read"] += unread
    return total


def table(out, head, rows):
    out.write("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1) + "\n")
    for row in rows:
        out.write("| " + " | ".join(str(cell) for cell in row) + " |\n")


def by_class(results):
    rows = {}
    for result in results:
        for row in result["matrix"]:
            rows.setdefault(row["fault"], []).append(row)
    return rows


def matrix(out, result):
    guards, faults, cells = [], [], {}
    for row in result["matrix"]:
        guard = name_of(row)
        guards += [guard] if guard not in guards else []
        faults += [row["fault"]] if row["fault"] not in faults else []
        cells[row["fault"], guard] = f"{row['exposed']} / {row['detected']} / {row['escaped']}"
    table(out, ["class"] + guards, [[f] + [cells[f, g] for g in guards] for f in faults])


def total(results, key):
    return sum(result[key] for result in results)


def write(out, results, seconds):
    out.write(f"""# Faults on real pages

Written by `make fault-real`: each trial is simulated, and run by the engines of `runtime/` with the strike
carried out on real pages, page tables and tags (`runtime/strike.h`). What was read is told by the digest of
the bytes in the pages that a step really used.

**{total(results, 'agree')} of {total(results, 'trials')} trials agree** in exposure and outcome. Bytes that
were not the reader's were read in {total(results, 'exposed')} trials; the tokens of
{total(results, 'output_changed')} showed it. Bytes of another tenant were read or not as simulated in
{total(results, 'same_tenants')}. {total(results, 'tokens_read'):,} tokens were read in
{total(results, 'steps'):,} steps; all took {seconds:.0f} s.

Trials by class and outcome, as seen in memory. "Not struck": nothing fitted, so nothing was done. "Never
read": it was done, and nobody read what it left.

""")
    heads = ["class", "trials", "not struck", "never read", "harmless", "detected", "escaped", "hung",
             "crashed", "wrong bytes read"]
    rows = []
    for fault, found in by_class(results).items():
        count = outcomes(found)
        rows.append([fault, sum(r["injected"] for r in found)] + [count[o] for o in OUTCOMES] +
                    [sum(r["exposed"] for r in found)])
    table(out, heads, rows)
    for config, result in zip(CONFIGS, results):
        out.write(f"\n## {CONFIGS[config]}\n\n`{config}`: {result['agree']} of {result['trials']} agree. "
                  "Trials in which wrong\nbytes were read / a guard fired / wrong tokens got out:\n\n")
        matrix(out, result)
    out.write("""
## Not carried out

""")
    told = {(r["fault"], r["variant"]): r["reason"] for r in results[0]["not_expressed"]}
    for (fault, variant), reason in told.items():
        out.write(f"- {fault}/{variant}: {reason}\n")
    out.write("""
Strikes that leave no wrong byte for anybody by their nature: leaks and withheld pages (pages are filled with
NaN when they leave the allocator's reach, so that a page that was handed out all the same would show), lost and
repeated messages, and what a crash takes with it.
""")
    for config, result in zip(CONFIGS, results):
        for row in result["disagreements"]:
            out.write(f"\n- disagrees, {config}: {row}\n")


def main(kvtwin, doc):
    start = time.monotonic()
    results = [run(kvtwin, config) for config in CONFIGS]
    with open(doc, "w", encoding="utf-8") as out:
        write(out, results, time.monotonic() - start)
    sys.exit(0 if total(results, "agree") == total(results, "trials") else 1)


main(*sys.argv[1:])
