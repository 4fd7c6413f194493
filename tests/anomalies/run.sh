#!/bin/sh
# The Nth call fails, for every N until none does: simulate must end with 4 or 5 and leave no file.
#
#   run.sh KVTWIN
#
# write, rename, fsync and read fail one by one in a run that writes an HDF5 file; allocations, of
# which there are tens of thousands, every 997th in a run without one. (HDF5 itself does not survive
# a failed allocation: it crashes in the first hundred, which are its own set-up, and when it closes
# a file.)
set -u
kvtwin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 runs=0
${CC:-gcc} -O1 -shared -fPIC -o "$work/failing.so" tests/anomalies/failing.c -ldl || exit 1
printf 'arrival_ms,input_tokens,output_tokens\n0,100,3\n5,70,2\n' >"$work/two.csv"

simulate() { # simulate KIND N OPTION...: false when the Nth call was never made
    what=$1:$2
    shift 2
    rm -rf "$work/out" "$work/hit"
    mkdir "$work/out"
    LD_PRELOAD=$work/failing.so KVT_FAIL=$what KVT_FAIL_REPORT=$work/hit OMP_NUM_THREADS=1 timeout 60 \
        "$kvtwin" simulate configs/examples/quickstart.yaml -q --set workload.trace="$work/two.csv" "$@" \
        >"$work/stdout" 2>"$work/stderr"
    code=$?
    [ -e "$work/hit" ] || return 1
    runs=$((runs + 1))
    case $code in
    0) return 0 ;; # what failed was not needed: a smaller block, a file that is looked for
    4 | 5) [ -n "$(ls -A "$work/out")" ] || return 0 ;;
    esac
    echo "tests/anomalies/run.sh: $what fails: exit code $code, left: $(ls -A "$work/out"), said:" \
        "$(head -n 1 "$work/stderr")" >&2
    failed=$((failed + 1))
}
each() { # each KIND STEP OPTION...
    kind=$1 step=$2 n=$2
    shift 2
    while simulate "$kind" "$n" "$@" && [ "$failed" -lt 5 ]; do n=$((n + step)); done
}

for kind in write rename fsync read; do
    each $kind 1 -o "$work/out/run.h5"
done
each malloc 997
[ $failed -eq 0 ] || exit 1
[ $runs -gt 100 ] || { echo "tests/anomalies/run.sh: only $runs calls failed" >&2; exit 1; }
echo "tests/anomalies/run.sh: $runs calls fail, one at a time; every run ends as it should"
