#!/bin/sh
# The CUDA kernels without a GPU: every test under the emulation, then mutants that it must catch.
#
#   cuda.sh BUILD COMPILE    BUILD has the objects and `check`; COMPILE compiles one C++ source
#
# A mutant is a kernel compiled with -DKVT_MUTANT_<NAME>. It must fail the named tests (by a wrong
# result, or stopped by AddressSanitizer); one that passes, or does not compile, is a failure.
set -u
build=$1 compile=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$build/check" >"$work/out" 2>&1 || {
    cat "$work/out"
    exit 1
}
tail -n 1 "$work/out" | sed 's/^/cuda emulated: /'

# Where there is a GPU, and nvcc to compile for it, the same tests run on it.
device=build/cuda-check
if [ -x "$device" ]; then
    "$device" >"$work/device" 2>&1
    case $? in
    0) tail -n 1 "$work/device" | sed 's/^/cuda device: /' ;;
    7) grep '^cuda tests skipped' "$work/device" ;;
    *)
        cat "$work/device"
        exit 1
        ;;
    esac
else
    echo "cuda tests skipped: no nvcc here, so there is nothing to run on a GPU"
fi

failed=0 killed=0
mutant() { # mutant SOURCE NAME TESTS
    # shellcheck disable=SC2086
    if ! $compile "-DKVT_MUTANT_$2" -x c++ -c -o "$work/mutant.o" "$1"; then
        echo "tests/cuda.sh: mutant $2 of $1 does not compile" >&2
        failed=$((failed + 1))
        return
    fi
    # shellcheck disable=SC2086,SC2046
    $compile -o "$work/check" "$work/mutant.o" $(ls "$build"/*.o | grep -v "/$(basename "$1").o$") \
        "$build/reference.a" -lm || exit 1
    if "$work/check" "$3" >"$work/out" 2>&1; then
        echo "tests/cuda.sh: mutant $2 of $1 passes \"$3\"" >&2
        failed=$((failed + 1))
        return
    fi
    killed=$((killed + 1))
    printf '%-12s %-24s %s\n' "$(basename "$1")" "$2" \
        "$(grep -m 1 -oE 'AddressSanitizer: [a-zA-Z-]*|deadlock|divergence[a-z ]*|[a-z0-9_ ,-]*: other [a-z ]*|got .*' "$work/out" | cut -c 1-60)"
}
mutant kernels/cuda/paging.cu PAGE_OUT_OF_RANGE "tag check"
mutant kernels/cuda/paging.cu HALF_THE_WARP "append"

[ "$failed" -eq 0 ] || exit 1
echo "tests/cuda.sh: all $killed mutants killed"
