#!/usr/bin/env python3
"""Put the figures of a benchmark table into docs/accuracy.md.

    scripts/accuracy.py KVTWIN SERVING.csv [docs/accuracy.md]

Runs `kvtwin reproduce --serving --fit` and writes, between the marks of the page, the errors by
engine, GPU, model and load, with nothing fitted and with the constants of other models, the largest
misses, and what is not supported. Outcomes are only compared here.
"""
import collections
import csv
import json
import subprocess
import sys

METRICS = ("out_tok_s", "tpot_ms", "ttft_ms")
STRICT_GPUS = ("H100", "H200", "B200")
LOADS = ["1 client", "2 to 16", "17 to 100", "over 100", "at a rate", "all at once"]


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def is_strict(row):
    check = number(row["little_check"])
    return (row["reliability"] == "A" and check is not None and 0.8 <= check <= 1.25
            and row["gpu"] in STRICT_GPUS and not row["spec_decode"])


def load_of(row):
    clients = number(row["concurrency"])
    if clients is not None:
        for least, most, name in ((1, 1, "1 client"), (2, 16, "2 to 16"), (17, 100, "17 to 100"),
                                  (101, 1e9, "over 100")):
            if least <= clients <= most:
                return name
    return "all at once" if row["request_rate_rps"] == "inf" else "at a rate"


def model_of(row):
    name = row["model"]
    for end in ("-FP8", "-NVFP4", "-BF16", "-AWQ"):
        name = name.removesuffix(end)
    return name.replace("-Instruct-2507", "").replace("-0528", "")


def cell(errors):
    if not errors:
        return "-"
    middle = quantile(errors, 0.5)
    return f"{100 * quantile([abs(e) for e in errors], 0.5):.0f} ({100 * middle:+.0f})"


def errors_of(rows, results, metric, key):
    found = (results[row["row_id"]][metric][key] for row in rows if metric in results[row["row_id"]])
    return [e for e in found if e is not None]


def table(rows, results, title, key, out, order=str):
    groups = collections.OrderedDict()
    for row in sorted(rows, key=lambda row: order(key(row))):
        groups.setdefault(key(row), []).append(row)
    out.append(f"| {title} | rows | throughput | TPOT | TTFT | fitted: throughput | TPOT | TTFT |\n"
               "|---|---|---|---|---|---|---|---|")
    for name, members in groups.items():
        cells = [cell(errors_of(members, results, metric, key))
                 for key in ("unfitted_error", "error") for metric in METRICS]
        out.append(f"| {name} | {len(members)} | " + " | ".join(cells) + " |")
    out.append("")


def summary(name, rows, supported, results, out):
    share = f"{len(supported)} ({100 * len(supported) / len(rows):.0f} %)"
    for key, what in (("unfitted_error", "nothing"), ("error", "two constants, by other models")):
        line = [f"| {name} | {len(rows)} | {share} | {what}"]
        for metric in METRICS:
            errors = [abs(e) for e in errors_of(supported, results, metric, key)]
            line.append(f"{100 * quantile(errors, .5):.1f} / {100 * quantile(errors, .9):.0f}")
        out.append(" | ".join(line) + " |")


def constants(found, out):
    """The constants of each engine and GPU: from all of its models, and how far they go without one."""
    out.append("| engine, GPU | models | layer (us) | request (ms) | layer without one of them | "
               "request without one of them |\n|---|---|---|---|---|---|")
    for whole in found:
        if whole["left_out"] is not None or whole["models"] == 0:
            continue
        same = [c for c in found if c["left_out"] is not None and c["layer_us"] is not None
                and c["engine"] == whole["engine"] and c["gpu"] == whole["gpu"]
                and c["models"] < whole["models"]]
        cells = []
        for key in ("layer_us", "request_ms"):
            values = [c[key] for c in same]
            cells.append(f"{min(values):.0f} to {max(values):.0f}" if values else "-")
        out.append(f"| {whole['engine']}, {whole['gpu']} | {whole['models']} | "
                   f"{whole['layer_us']:.0f} | {whole['request_ms']:.0f} | " + " | ".join(cells) + " |")
    out.append("")


def misses(rows, results, out):
    def size(row):
        found = results[row["row_id"]]
        return -abs(found["tpot_ms"]["unfitted_error"] or found["out_tok_s"]["unfitted_error"] or 0)
    out.append("| row | what | load | throughput | TPOT | TTFT |\n|---|---|---|---|---|---|")
    for row in sorted(rows, key=size)[:16]:
        cells = []
        for metric in METRICS:
            error = results[row["row_id"]][metric]["unfitted_error"]
            cells.append("-" if error is None else f"{100 * error:+.0f} %")
        clients = row["concurrency"] or load_of(row)
        out.append(f"| {row['row_id']} | {row['engine']} {row['engine_version']}, {row['model']}, "
                   f"{row['n_gpus']} {row['gpu']} | {row['isl_tokens']} in, {row['osl_tokens']} out, "
                   f"{clients} | " + " | ".join(cells) + " |")
    out.append("")


def main():
    kvtwin, path = sys.argv[1:3]
    page = sys.argv[3] if len(sys.argv) > 3 else "docs/accuracy.md"
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    run = subprocess.run([kvtwin, "reproduce", "--serving", path, "--fit", "--format", "json"],
                         check=True, capture_output=True, text=True)
    found = json.loads(run.stdout)
    results = collections.defaultdict(dict)
    for line in found["rows"]:
        results[line["row_id"]][line["metric"]] = line

    def ok(row):
        return any(r["status"] == "ok" for r in results[row["row_id"]].values())
    strict = [r for r in rows if is_strict(r)]
    good = [r for r in strict if ok(r)]
    out = ["| rows | of the table | supported | fitted | throughput | TPOT | TTFT |\n"
           "|---|---|---|---|---|---|---|"]
    summary("reliable, see below", strict, good, results, out)
    summary("all", rows, [r for r in rows if ok(r)], results, out)
    out.append("")
    out.append("The constants, and how far they go when one of the models is left out:\n")
    constants(found["constants"], out)
    out.append("The reliable rows by engine and GPU, model, and load. Nothing is fitted in the first "
               "three columns of errors; in the last three each model is tried with the constants of "
               "the others:\n")
    table(good, results, "engine, GPU", lambda r: f"{r['engine']}, {r['gpu']}", out)
    table(good, results, "model", model_of, out)
    table(good, results, "clients", load_of, out, LOADS.index)
    out.append("All supported rows by load:\n")
    table([r for r in rows if ok(r)], results, "clients", load_of, out, LOADS.index)
    out.append("The largest misses of TPOT among the reliable rows, nothing fitted:\n")
    misses(good, results, out)
    reasons = collections.Counter(
        next(iter(results[r["row_id"]].values()))["reason"].split(": the weights")[0]
        for r in rows if not ok(r))
    out.append("Not supported, with the number of rows:\n")
    out.append("| reason | rows |\n|---|---|")
    out += [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    begin, end = "<!-- figures -->\n", "<!-- end of figures -->"
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    with open(page, "w", encoding="utf-8") as file:
        file.write(head + begin + "\n" + "\n".join(out) + "\n\n" + end + tail)


if __name__ == "__main__":
    main()
