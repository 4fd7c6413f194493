#!/bin/sh
# Branches of sim/ and runtime/ that the tests took, after MODE=coverage: `make coverage`.
#
#   coverage.sh FOLDER [LEAST]    FOLDER holds the objects; exit 1 under LEAST percent (90)
#
# Prints the branches of each folder and of all, writes FOLDER/uncovered.txt (file by file, the lines
# with a branch that was never taken) and FOLDER/index.html (the sources, marked). Not counted:
#
#   kvt_assert, kvt_unreachable   the other branch is a bug of ours (sim/base/assert.h)
#   runtime/device_cuda.c         runs on a GPU and, emulated, in `make cuda-emulated`
set -eu
objects=$1
gcovr --root . --filter sim/ --filter runtime/ --exclude runtime/device_cuda.c \
    --exclude-branches-by-pattern '.*kvt_(assert|assert_slow|unreachable)\(.*' --exclude-lines-by-pattern '.*kvt_unreachable\(.*' \
    --branches --txt "$objects/uncovered.txt" --html-details "$objects/index.html" \
    --csv "$objects/branches.csv" "$objects/sim" "$objects/runtime" >"$objects/gcovr.log" 2>&1 || {
    cat "$objects/gcovr.log" >&2
    exit 1
}
awk -F, -v least="${2:-90}" '
    function row(name) { printf "%6.1f %%  %6d of %6d branches  %s\n", 100 * taken[name] / all[name], taken[name], all[name], name }
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    {
        folder = $1
        sub("/[^/]*$", "", folder)
        part = folder
        sub("/.*", "", part)
        names[1] = folder; names[2] = part != folder ? part : ""; names[3] = "all"
        for (i = 1; i <= 3; i++)
            if (names[i] != "") {
                if (!(names[i] in all)) order[++count] = names[i]
                all[names[i]] += $column["branch_total"]
                taken[names[i]] += $column["branch_covered"]
            }
    }
    END {
        for (i = 1; i <= count; i++)
            if (all[order[i]]) row(order[i])
        exit 100 * taken["all"] < least * all["all"]
    }' "$objects/branches.csv"
