#!/bin/sh
# Memcheck: reads of what was never written, accesses outside, memory that is lost.
#
#   valgrind.sh KVTWIN CHECK
#
# Each kind of error, planted, must be seen first. Then the suites that take less than half a second without
# valgrind, and runs of the program. Valgrind 3.19 knows AVX2 and says so by CPUID: kernels choose by that.
# Nothing is suppressed. Memory that a pointer still leads to at the end is not counted as lost.
set -u
kvtwin=$1 check=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Threads of libgomp wait for each other by spinning, which takes minutes where one runs at a time.
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
suites='base pages prefix policy handoff handoff_model link config config_errors model memory trace load costs
    calibration cost recipe host errors metrics output journal bench_result compare report perfetto exchange sweep
    left_out cli'
ran=0 failed=0

memcheck() {
    valgrind -q --error-exitcode=66 --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect "$@" >"$work/out" 2>&1 </dev/null
}

cat >"$work/planted.c" <<'END'
#include <stdlib.h>
int main(int argc, char *argv[])
{
    (void)argv;
    volatile char *bytes = malloc(8);
    if (argc == 1) /* unwritten */
        return bytes[3] == 1 ? 2 : 3;
    if (argc == 2) /* outside */
        bytes[8] = 1;
    if (argc != 3) /* 3: lost */
        free((void *)bytes);
    bytes = NULL;
    return 0;
}
END
gcc -g -O0 -o "$work/planted" "$work/planted.c" || exit 1
for words in '' '1' '1 2' '1 2 3'; do
    # shellcheck disable=SC2086
    memcheck "$work/planted" $words
    code=$?
    [ $code -eq "$([ "$words" = '1 2 3' ] && echo 0 || echo 66)" ] || {
        echo "tests/valgrind.sh: planted ($words): exit code $code" >&2
        exit 1
    }
done

clean() { # clean WANTED_CODE WHAT COMMAND...
    want=$1 what=$2
    shift 2
    ran=$((ran + 1))
    memcheck "$@"
    code=$?
    if [ $code -ne "$want" ]; then
        failed=$((failed + 1))
        echo "tests/valgrind.sh: $what: exit code $code, want $want" >&2
        grep -A 24 '^==' "$work/out" | head -n 100 >&2
        tail -n 8 "$work/out" >&2
    fi
}

for suite in $suites; do
    clean 0 "suite $suite" "$check" "$suite"
done
clean 0 simulate "$kvtwin" simulate configs/examples/quickstart.yaml -q --resamples 2 \
    --set 'workload={open: {rate: 5 req/s, requests: 20, input: 100, output: 10}}' -o "$work/run.h5" \
    --decisions --log "$work/log.txt" --perfetto "$work/trace.json" --export vllm:"$work/vllm.json"
clean 0 report "$kvtwin" report "$work/run.h5" -o "$work/page.html"
clean 0 diff "$kvtwin" diff "$work/run.h5" "$work/run.h5"
clean 0 plan "$kvtwin" plan configs/examples/plan-split.yaml -q -o "$work/plan.h5" --set plan.resamples=1 \
    --set workload.open.requests=8
clean 0 inject "$kvtwin" inject configs/examples/faults.yaml -q --trials 1 -o "$work/faults.h5" --set 'run.until=20 s' \
    --set 'faults.from=5 s' --set 'faults.until=15 s' --set fleet.decode.guard=fifo
clean 0 validate "$kvtwin" validate tests/runtime/validate-tiny.yaml --short -q
clean 3 "a config with a mistake" "$kvtwin" simulate tests/runtime/validate-tiny.yaml -q --set run.seed=x
[ $failed -eq 0 ] || exit 1
echo "valgrind: $ran runs without an error; those planted were seen"
