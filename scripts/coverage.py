#!/usr/bin/python3
"""What gcovr counted, by folder and by kind of branch.

    coverage.py JSON LIST [LEAST]    JSON of gcovr --json; exit 1 under LEAST percent

Prints the branches of each folder and of all, then the branches that were never taken by kind; writes
LIST: file, line, branches never taken of how many, kind, source. A kind is told from the source line,
by the first of these that fits; docs/coverage.md says why each is left.
"""

import collections
import json
import re
import sys

KINDS = [
    ("an error handed on", r"KVT_TRY\(|status [!=]= KVT_OK|[!=]= KVT_OK\b|return status"),
    ("no memory", r"NULL|failed|whole|taken\b|take\(|is_full|_init\(|ENOMEM|alloc\(|room"),
    ("a call of the system or HDF5", r"\bH5|kvt_h5|errno|fits\b|< 0\)|>= 0\)|ferror|fclose"),
    ("a part of a condition", r"&&|\|\|"),
    ("one side of a choice", r"\?|^\s*:|case |switch"),
    ("a loop", r"\b(for|while) ?\(|foreach"),
    ("one side of an if", r"\bif \("),
]


def kind_of(source):
    return next((kind for kind, pattern in KINDS if re.search(pattern, source)), "other")


def main():
    measured, listed = sys.argv[1:3]
    least = float(sys.argv[3]) if len(sys.argv) > 3 else 0
    folders, kinds, rows = {}, collections.Counter(), []
    for entry in json.load(open(measured))["files"]:
        path = entry["file"]
        source = open(path).read().split("\n")
        parts = path.split("/")
        names = dict.fromkeys(["/".join(parts[:-1]), parts[0], "all"])
        for line in entry["lines"]:
            branches = [b["count"] for b in line["branches"]] if not line.get("gcovr/excluded") else []
            missed = branches.count(0)
            for name in names:
                taken, count = folders.get(name, (0, 0))
                folders[name] = taken + len(branches) - missed, count + len(branches)
            if missed:
                text = source[line["line_number"] - 1].strip()
                kinds[kind_of(text)] += missed
                rows.append(f"{path}:{line['line_number']}: {missed} of {len(branches)}: {kind_of(text)}: {text}")
    for name, (taken, count) in folders.items():
        if count > 0:
            print(f"{100 * taken / count:6.1f} %  {taken:6d} of {count:6d} branches  {name}")
    print("\nnever taken:")
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    with open(listed, "w") as out:
        out.write("\n".join(rows) + "\n")
    taken, count = folders["all"]
    sys.exit(100 * taken < least * count)


main()
