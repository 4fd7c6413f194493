#!/usr/bin/env python3
"""Run strikes on real pages (kvtwin inject --backend cpu) and write docs/fault-real.md.

usage: fault-real.py KVTWIN DOC
"""
import json
import subprocess
import sys

CONFIG = "configs/examples/faults-real.yaml"


def cell(row):
    return f"{row['exposed']} / {row['detected']} / {row['escaped']}"


def main(kvtwin, doc):
    command = [kvtwin, "inject", CONFIG, "--backend", "cpu", "--format", "json", "-q"]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(run.returncode)
    result = json.loads(run.stdout)
    guards, faults, cells = [], [], {}
    for row in result["matrix"]:
        guard = row["guard"] + (f", {row['check']}" if "tag" in row["guard"] or
                                row["guard"] in ("digest", "canary") else "")
        guards += [guard] if guard not in guards else []
        faults += [row["fault"]] if row["fault"] not in faults else []
        cells[row["fault"], guard] = cell(row)
    with open(doc, "w", encoding="utf-8") as out:
        out.write(f"""# Faults on real pages

Written by `make fault-real` from `{CONFIG}`: each trial is simulated, and run by the engines of
`runtime/` with the strike carried out on real pages, page tables and tags (`runtime/strike.h`). What was
read is told by the digest of the bytes in the pages that a step really used.

**{result['agree']} of {result['trials']} trials agree** in exposure and outcome. Bytes that were not the
reader's were read in {result['exposed']} trials; the tokens of {result['output_changed']} showed it. Bytes
of another tenant were read or not as simulated in {result['same_tenants']}. {result['tokens_read']:,} tokens
were read in {result['steps']:,} steps.

Trials in which wrong bytes were read / a guard fired / wrong tokens got out, as seen in memory:

""")
        out.write("| class | " + " | ".join(guards) + " |\n|---|" + "---|" * len(guards) + "\n")
        for fault in faults:
            out.write(f"| {fault} | " + " | ".join(cells[fault, g] for g in guards) + " |\n")
        out.write("\nNot carried out:\n\n")
        for row in result["not_expressed"]:
            out.write(f"- {row['fault']}/{row['variant']}: {row['reason']}\n")
        for row in result["disagreements"]:
            out.write(f"- disagrees: {row}\n")
    sys.exit(run.returncode)


main(*sys.argv[1:])
