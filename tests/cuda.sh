#!/bin/sh
# The CUDA kernels without a GPU: every test under the emulation, then faults that it must see.
#
#   cuda.sh BUILD COMPILE LINK OBJECTS    BUILD has the emulated `check` and `engine`; the rest makes
#                                         the latter again
#
# A fault is planted in the kernels by number (enum fault of emulate.h). It must fail the named tests,
# by a wrong result or stopped by AddressSanitizer; one that passes is a failure. Faults of the runtime
# are planted in its text: a wait or a copy that is missing, device memory that the host touches.
set -u
build=$1 compile=$2 link=$3 objects=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$build/check" >"$work/out" 2>&1 || {
    cat "$work/out"
    exit 1
}
tail -n 1 "$work/out" | sed 's/^/cuda emulated: /'
"$build/engine" >"$work/out" 2>&1 || {
    cat "$work/out"
    exit 1
}
sed -n 's/^    /engine emulated: /p' "$work/out"

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

# The other compiler reads the same sources.
if command -v clang++ >/dev/null 2>&1; then
    for source in kernels/cuda/*.cu; do
        clang++ -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I. -x c++ "$source" || exit 1
    done
fi

# The device check: without a GPU it does nothing, with stand-ins for one its report is whole.
mkdir "$work/bin" "$work/none"
ln -s "$(command -v sh)" "$(command -v date)" "$(command -v head)" "$work/none/"
PATH=$work/none OUT=$work/nothing scripts/device_check.sh 2>"$work/out"
code=$?
[ $code -eq 7 ] && [ "$(wc -l <"$work/out")" -eq 1 ] && grep -q 'no GPU here' "$work/out" && [ ! -e "$work/nothing" ] || {
    echo "tests/cuda.sh: device check without a GPU: exit $code" >&2
    cat "$work/out" >&2
    exit 1
}
cat >"$work/bin/nvidia-smi" <<'END'
#!/bin/sh
case $1 in -L) echo "GPU 0: NVIDIA H200 (a stand-in)" ;; *) echo "1980 MHz" ;; esac
END
cat >"$work/bin/kvtwin" <<'END'
#!/bin/sh
for last; do :; done
case $1 in
bench) printf 'rows\n\ntargets  asked  reached\nGQA decode  3.6  3.7\n'; echo csv >"$last" ;;
calibrate) echo calibration >"$last" ;;
validate) echo "verdict fail"; exit 1 ;;
esac
END
printf '#!/bin/sh\necho "1 tests, 0 failed checks"\n' >"$work/bin/cuda-check"
chmod +x "$work/bin/"*
PATH=$work/bin:$PATH OUT=$work/report scripts/device_check.sh "$work/bin" >"$work/out" 2>&1
code=$?
for line in 'GPU 0: NVIDIA H200' '| bench | [0-9]* | ok |' '| calibrate | [0-9]* | ok |' \
    '| validate | [0-9]* | failed with exit code 1' '^GQA decode  3.6  3.7' 'before: 1980 MHz'; do
    grep -q -- "$line" "$work/report/report.md" || code=$((code + 100))
done
[ $code -eq 1 ] && [ -s "$work/report/calibration.yaml" ] || {
    echo "tests/cuda.sh: device check with stand-ins: exit $code" >&2
    cat "$work/out" "$work/report/report.md" >&2
    exit 1
}

failed=0 killed=0
mutant() { # mutant FAULT_NUMBER NAME TESTS
    if "$build/check" --fault "$1" --seeds 2 "$3" >"$work/out" 2>&1; then
        echo "tests/cuda.sh: fault \"$2\" is not seen by \"$3\"" >&2
        failed=$((failed + 1))
        return
    fi
    killed=$((killed + 1))
    printf '%-34s %-20s %s\n' "$2" "$3" \
        "$(grep -m 1 -oE 'AddressSanitizer: [a-zA-Z-]*|deadlock|divergence[a-z ]*|: other [a-z ]*|[0-9]* of [0-9]* elements off|mean error [-+.0-9e]*' "$work/out")"
}
mutant 1 "page ids are not compared" "tag check"
mutant 2 "half a warp is left out" "append"
mutant 3 "a missing barrier" "GQA BF16"
mutant 3 "a missing barrier" "MLA scaled"
mutant 4 "copies are not waited for" "GQA FP8"
mutant 4 "copies are not waited for" "MLA BF16"
mutant 5 "page lists are read too far" "GQA BF16"
mutant 5 "page lists are read too far" "MLA plain"
mutant 3 "a missing barrier" "int4: GEMM"
mutant 6 "a stage is filled while it is read" "MLA BF16"

runtime_mutant() { # runtime_mutant NAME SOURCE SED TEST
    sed "$3" "$2" >"$work/mutant.c"
    if cmp -s "$2" "$work/mutant.c"; then
        echo "tests/cuda.sh: fault \"$1\" has no place in $2" >&2
        failed=$((failed + 1))
        return
    fi
    # shellcheck disable=SC2046  # a list of objects
    $compile -c -o "$work/mutant.o" "$work/mutant.c" &&
        $link -o "$work/engine" $(echo "$objects" | sed "s|$build/$2.o|$work/mutant.o|") || exit 1
    if timeout 120 "$work/engine" "$4" >"$work/out" 2>&1; then
        echo "tests/cuda.sh: fault \"$1\" is not seen by \"$4\"" >&2
        failed=$((failed + 1))
        return
    fi
    killed=$((killed + 1))
    printf '%-34s %-20s %s\n' "$1" "$4" \
        "$(grep -m 1 -oE 'AddressSanitizer: [a-zA-Z-]*|kvt_assert[^:]*|: (step|other|[0-9]* of) .*' "$work/out")"
}
runtime_mutant "results are not waited for" runtime/forward.c '/^static void read_marks/,/^}/s/kvt_forward_wait(f);//' "handed off"
runtime_mutant "tags are written by the host" runtime/engine_step.c 's/device->ops->copy(device, &tag->owner, owner, sizeof \*owner);/tag->owner = *owner; (void)device;/' "handed off"
runtime_mutant "rows are not sent" runtime/forward.c 's/kvt_mirror_send(mirror, sent\[i\].array, sent\[i\].bytes);//' "handed off"

[ "$failed" -eq 0 ] || exit 1
echo "tests/cuda.sh: all $killed faults seen"
