#!/bin/sh
# Data races of the parallel paths: ThreadSanitizer, which Archer tells of OpenMP's synchronisation.
#
#   tsan.sh KVTWIN CHECK      both built with MODE=tsan
#
# MODE=tsan is clang with libomp, as gcc's OpenMP runtime has no tool interface, by which a barrier or a
# lock of it could be known. First a race that is planted must be seen, and a reduction must not be. Then
# every command with threads runs with four of them, is stopped half-way, and goes on; then the suites
# whose code has threads. Nothing is suppressed: a report anywhere fails.
set -u
kvtwin=$1 check=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=4 ARCHER_OPTIONS=verbose=1 # libomp loads Archer where it sees ThreadSanitizer
# libomp itself is not instrumented: what it does with its own memory is not looked at.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66"
ran=0 failed=0

fail() {
    echo "tests/tsan.sh: $*" >&2
    failed=$((failed + 1))
}

program() { # program NAME CLAUSE: a sum over threads, with the clause that makes it right, or without
    printf '%s\n' '#include <stdio.h>' 'int main(void)' '{' '    int sum = 0;' "#pragma omp parallel for $2" \
        '    for (int i = 0; i < 1000; i++)' '        sum += i;' '    printf("%d\n", sum);' '}' >"$work/$1.c"
    clang -fopenmp -fsanitize=thread -g -O1 -o "$work/$1" "$work/$1.c" && "$work/$1" >"$work/out" 2>&1
}

program race ''
[ $? -eq 66 ] && grep -q 'WARNING: ThreadSanitizer: data race' "$work/out" || {
    echo "tests/tsan.sh: a planted race is not seen" >&2
    exit 1
}
program fine 'reduction(+ : sum)' && grep -q 'Archer detected' "$work/out" || {
    echo "tests/tsan.sh: Archer is not there, or a reduction is reported:" >&2
    head -n 20 "$work/out" >&2
    exit 1
}

races() { # races WANTED_CODE WHAT COMMAND...
    want=$1 what=$2
    shift 2
    ran=$((ran + 1))
    "$@" >"$work/out" 2>&1 </dev/null
    code=$?
    if [ $code -ne "$want" ] || grep -q 'WARNING: ThreadSanitizer' "$work/out"; then
        fail "$what: exit code $code, want $want"
        grep -v '^Archer' "$work/out" | head -n 60 >&2
    fi
}

# stopped WHAT FILE COMMAND...: a signal comes once FILE's journal is there; the same command then goes on.
stopped() {
    what=$1 file=$2
    shift 2
    ran=$((ran + 1))
    "$@" >"$work/out" 2>&1 </dev/null &
    job=$!
    while [ ! -e "$file.journal" ] && [ ! -e "$file.journal.0" ] && kill -0 $job 2>/dev/null; do sleep 0.02; done
    kill -INT $job 2>/dev/null
    wait $job
    code=$?
    if [ $code -ne 130 ] || grep -q 'WARNING: ThreadSanitizer' "$work/out"; then
        fail "$what, stopped: exit code $code, want 130"
        grep -v '^Archer' "$work/out" | head -n 60 >&2
    fi
    races 0 "$what, going on" "$@"
}

stopped sweep "$work/sweep.h5" "$kvtwin" sweep configs/examples/sweep.yaml -q --threads 4 -o "$work/sweep.h5" \
    --resamples 2 --set fleet.serve.gpu=l40s --set fleet.serve.scheduler.batch_tokens=512 \
    --set workload.closed.requests=32
stopped inject "$work/faults.h5" "$kvtwin" inject configs/examples/faults.yaml -q --trials 8 -o "$work/faults.h5" \
    --set 'run.until=30 s' --set fleet.decode.guard=tag-side --set 'faults.from=5 s' --set 'faults.until=25 s'
races 0 plan "$kvtwin" plan configs/examples/plan-split.yaml -q -o "$work/plan.h5" --set plan.resamples=4 \
    --set workload.open.requests=40
races 0 resamples "$kvtwin" simulate configs/examples/quickstart.yaml -q --resamples 8
printf 'model: qwen3-30b-a3b\nengine: sglang\nfleet: {serve: {gpu: h200-sxm, memory: {fraction: 0.85}}}\n' \
    >"$work/server.yaml"
for load in 1 8; do
    printf '{"backend": "sglang", "request_rate": Infinity, "max_concurrency": %d, "total_throughput": 1, %s}\n' $load \
        '"completed": 64, "total_input_tokens": 32000, "total_output_tokens": 3840, "mean_ttft_ms": 60.5, "mean_tpot_ms": 8.25, "output_throughput": 115.5'
done >"$work/bench.jsonl"
# These results were made up: that no constant can be fitted to them is the answer of 568 simulations.
races 1 calibrate "$kvtwin" calibrate "$work/bench.jsonl" --serving "$work/server.yaml" -q -o "$work/fitted.yaml"
for isa in portable avx2; do
    races 0 "validate, $isa" env KVTWIN_ISA=$isa "$kvtwin" validate tests/runtime/validate-tiny.yaml --short -q
done
for suite in sweep search serving_fit resample faults rare fault_trial fit runtime attention gemm_kernels \
    int4_kernels elementwise kv_write tag_check; do
    races 0 "suite $suite" "$check" "$suite"
done
[ $failed -eq 0 ] || exit 1
echo "tsan: $ran runs without a race; a planted one was seen"
