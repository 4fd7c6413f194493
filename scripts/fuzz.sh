#!/bin/sh
# Run each fuzzer for some seconds, on the committed corpus and what it left in build/ the last time.
# What it finds belongs into tests/fuzz/corpus/NAME/, which `make check` replays.
#
#   fuzz.sh SECONDS FUZZER...
set -eu
seconds=$1
shift
for fuzzer in "$@"; do
    name=${fuzzer##*/fuzz_}
    log=build/fuzz/$name.log
    words=tests/fuzz/$name.dict
    mkdir -p "build/fuzz/corpus/$name"
    leaks=1
    [ "$name" = run ] && leaks=0 # HDF5 itself leaks when a file is broken
    # shellcheck disable=SC2046  # without words no argument
    ASAN_OPTIONS=detect_leaks=$leaks "$fuzzer" -detect_leaks=$leaks -max_total_time="$seconds" -max_len=4000 -print_final_stats=1 -artifact_prefix=build/fuzz/ \
        $([ -e "$words" ] && echo "-dict=$words") "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" 2>"$log" ||
        { tail -n 40 "$log" >&2; exit 1; }
    echo "$fuzzer: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs without a fault"
done
