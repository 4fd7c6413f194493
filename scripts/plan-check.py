#!/usr/bin/env python3
"""Whether `plan` finds the winner of running everything.

    scripts/plan-check.py KVTWIN [CONFIG...]

Each config (the shipped domains when none is named) is searched, then swept: every point with as
many resamples as the search gives its finalists. The winner by definition is the cheapest point
that keeps the SLO in its own run and in plan.confidence of its resamples, the one with most left
among equals. Exits with 1 where the two differ, with 2 where one could not be run. Some 15 minutes
on two cores for the shipped ones; a part of this runs in `make check` (tests/test_search.c).
"""
import csv
import io
import json
import os
import re
import subprocess
import sys
import time

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "configs", "examples")
SHIPPED = [os.path.normpath(os.path.join(EXAMPLES, name))
           for name in ("plan-split.yaml", "plan-moe.yaml", "plan.yaml")]


def stop(message):
    """Exit code 1 is an answer; this is none."""
    print(f"plan-check: {message}", file=sys.stderr)
    sys.exit(2)


def timed(command):
    start = time.monotonic()
    try:
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        stop(f"cannot run {command[0]}: {error.strerror}")
    if done.returncode not in (0, 1):
        stop(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout, time.monotonic() - start


def winner(rows, objective, confidence):
    """The point that is best by definition, or None, and how many meet the SLO."""
    def value(row, key):
        return float(row[key]) if row[key] != "" else float("nan")
    limits = {name: target for name in rows[0]
              for target in [name[:-len("ms")] + "target_ms"]
              if re.fullmatch(r"slo_.*(?<!target)_ms", name) and target in rows[0]}
    meets = {}
    for i, row in enumerate(rows):
        if row["slo_met"] in ("1", "true") and value(row, "rejected") == 0 and \
                value(row, "slo_confidence") >= confidence:
            worst = max(value(row, name) / value(row, limits[name]) for name in limits)
            meets[i] = (value(row, objective), worst, i)
    return min(meets, key=meets.get, default=None), len(meets)


def main():
    if len(sys.argv) < 2:
        stop(__doc__)
    kvtwin, failed = sys.argv[1], False
    for config in sys.argv[2:] or SHIPPED:
        text, search_s = timed([kvtwin, "plan", config, "--format", "json", "-q"])
        plan = json.loads(text)
        shown, _ = timed([kvtwin, "plan", config, "--print-config"])
        resamples, confidence = (float(re.search(rf"^  {key}: (\S+)", shown, re.M).group(1))
                                 for key in ("resamples", "confidence"))
        objective = "gpus" if plan["objective"] == "gpus" else "cost_usd_per_h"
        text, sweep_s = timed([kvtwin, "sweep", config, "--resamples", str(int(resamples)), "-q",
                               "--format", "csv"])
        all_best, meets = winner(list(csv.DictReader(io.StringIO(text))), objective, confidence)
        best = plan["best"]["number"] if plan["best"] else None
        failed = failed or best != all_best
        print(f"{config}: {plan['candidates']} candidates, {meets} are sure to meet the SLO; "
              f"plan takes {best} in {search_s:.1f} s, everything {all_best} in {sweep_s:.1f} s: "
              f"{'the same' if best == all_best else 'DIFFERENT'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
