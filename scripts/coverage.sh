#!/bin/sh
# Branches of sim/ and runtime/ that the tests took, after MODE=coverage: `make coverage`.
#
#   coverage.sh FOLDER [LEAST]    FOLDER holds the objects; exit 1 under LEAST percent (90)
#
# Prints the branches of each folder and of all, and those never taken by kind (scripts/coverage.py,
# docs/coverage.md); writes FOLDER/uncovered.txt, line by line, and FOLDER/index.html, the sources,
# marked. Not counted:
#
#   kvt_assert, kvt_unreachable   the other branch is a bug of ours (sim/base/assert.h)
#   a branch below zero           gcov sums counts of runs that end at one time, and can be wrong
#   runtime/device_cuda.c         runs on a GPU and, emulated, in `make cuda-emulated`
set -eu
objects=$1
gcovr --root . --filter sim/ --filter runtime/ --exclude runtime/device_cuda.c \
    --exclude-branches-by-pattern '.*kvt_(assert|assert_slow|unreachable)\(.*' --exclude-lines-by-pattern '.*kvt_unreachable\(.*' \
    --gcov-ignore-parse-errors --branches --html-details "$objects/index.html" --json "$objects/branches.json" \
    "$objects/sim" "$objects/runtime" >"$objects/gcovr.log" 2>&1 || {
    cat "$objects/gcovr.log" >&2
    exit 1
}
scripts/coverage.py "$objects/branches.json" "$objects/uncovered.txt" "${2:-90}"
