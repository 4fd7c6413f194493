#!/bin/sh
# On a machine with a GPU: build, test the kernels, measure, calibrate and validate, in four minutes.
#
#   device_check.sh [BIN]    BIN has kvtwin and cuda-check; without it they are built (CUDA=yes)
#
# Leaves table, calibration, outputs and report.md in $OUT, else in build/device-check. Each part has
# its share of the time; one that runs out of it, or lacks what it needs, is skipped and told.
# Exit 0: all parts held; 1: one did not, or was skipped; 7: there is no GPU, and nothing was done.
set -u
bin=${1:-}
out=${OUT:-build/device-check}
total=${DEVICE_CHECK_SECONDS:-240}
start=$(date +%s)

gpu=$(nvidia-smi -L 2>/dev/null | head -n 1)
if [ -z "$gpu" ]; then
    echo "device-check: no GPU here (nvidia-smi finds none); not run: build, kernel tests, bench, calibrate, validate" >&2
    exit 7
fi
mkdir -p "$out" || exit 4
failed=0
: >"$out/parts"

left() { # seconds that a part of at most $1 may still take
    rest=$((total - $(date +%s) + start))
    [ "$rest" -lt "$1" ] && echo "$rest" || echo "$1"
}

told() { # told PART SECONDS RESULT
    printf '| %s | %s | %s |\n' "$1" "$2" "$3" >>"$out/parts"
    echo "device-check: $1: $3 ($2 s)"
}

skip() { # skip PART WHY
    failed=1
    told "$1" 0 "skipped: $2"
}

part() { # part NAME SECONDS FILE COMMAND...: false when it failed
    name=$1 file=$out/$3
    limit=$(left "$2")
    shift 3
    if [ "$limit" -lt 5 ]; then
        skip "$name" "no time was left"
        return 1
    fi
    from=$(date +%s)
    timeout -k 5 "$limit" "$@" >"$file" 2>&1
    code=$?
    took=$(($(date +%s) - from))
    case $code in
    0) told "$name" $took ok ;;
    124 | 137)
        failed=1
        told "$name" $took "stopped after its $limit s; see $(basename "$file")"
        ;;
    *)
        failed=1
        told "$name" $took "failed with exit code $code; see $(basename "$file")"
        ;;
    esac
    return $code
}

clocks() {
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader 2>/dev/null ||
        echo "not told"
}

block() { # block TITLE FILE
    [ -s "$out/$2" ] || return
    printf '\n## %s\n\n```\n' "$1"
    cat "$out/$2"
    printf '```\n'
}

before=$(clocks)
if [ -z "$bin" ]; then
    bin=build
    part build 100 build.txt make CUDA=yes all build/cuda-check || {
        cat "$out/build.txt" >&2
        exit 1
    }
else
    told build 0 "not needed: $bin"
fi

part "kernel tests" 40 tests.txt "$bin/cuda-check"
measured=
if part bench 80 bench.txt "$bin/kvtwin" bench --backend cuda -o "$out/bench.csv"; then
    measured=$out/bench.csv
elif part "bench, a few sizes" 30 bench.txt "$bin/kvtwin" bench --backend cuda --quick -o "$out/bench.csv"; then
    measured=$out/bench.csv
fi
case $gpu in
*H200*) name=h200-sxm ;;
*H100*PCIe*) name=h100-pcie ;;
*H100*) name=h100-sxm ;;
*B200*) name=b200-sxm ;;
*) name= ;;
esac
if [ -z "$measured" ]; then
    skip calibrate "there is no table of measured kernels"
elif [ -z "$name" ]; then
    skip calibrate "configs/gpus/ is not known to have this GPU"
else
    part calibrate 20 calibrate.txt "$bin/kvtwin" calibrate "$measured" --gpu="$name" -o "$out/calibration.yaml"
fi
config=configs/examples/validate-gpu.yaml
if ! part validate 70 validate.txt "$bin/kvtwin" validate "$config" --backend cuda; then
    part "validate, short" 30 validate-short.txt "$bin/kvtwin" validate "$config" --backend cuda --short
fi
after=$(clocks)

{
    printf '# Device check\n\n%s\n\n' "$gpu"
    printf 'name, driver, SM clock, memory clock, temperature, power\n\n- before: %s\n- after: %s\n\n' "$before" "$after"
    printf '| part | s | result |\n|---|---|---|\n'
    cat "$out/parts"
    printf '\nTook %s s of %s.\n' $(($(date +%s) - start)) "$total"
    if [ -n "$measured" ]; then
        sed -n '/^targets/,$p' "$out/bench.txt" >"$out/targets.txt"
        block "Asked and reached" targets.txt
        block "Kernels" bench.txt
    else
        printf '\n## Asked and reached\n\nNothing was measured. Asked: BF16 GQA decode at least 3.6 TB/s; FP8 at most 0.70 of its time\nat 256k tokens; INT4 GEMV of 200 M weights at least 3.0 TB/s; tag check of 53k pages at most 6 us.\n'
    fi
    block "Kernel tests" tests.txt
    block "Validation" validate.txt
    block "Validation, short" validate-short.txt
} >"$out/report.md.part" && mv "$out/report.md.part" "$out/report.md"
echo "device-check: $out/report.md"
exit $failed
