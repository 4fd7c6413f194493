#!/bin/sh
# Twins: programs built in different ways, and runs made in different ways, must agree to the byte.
#
#   twins.sh KVTWIN...     each is run on every config below; the first one is the reference
#
# Configs are those in configs/examples/ that simulate takes as they are, and tests/twins/*.yaml
# (ties, memory pressure). Compared are the JSON result, with its digest, and the HDF5 file; for one
# config with its intervals too. A program with `digests` beside it runs 60 random worlds as well.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
reference=$1
failed=0
count=0

"$reference" --help | grep -q '^  simulate ' || { echo "tests/twins.sh: no simulate to compare"; exit 0; }

twin() { # twin NAME KVTWIN OPTION...: run and compare with $work/want.*
    name=$1
    shift
    count=$((count + 1))
    # shellcheck disable=SC2086  # a list of options
    "$@" simulate "$config" -q --format json -o "$work/got.h5" $options >"$work/got.json" 2>"$work/err"
    code=$?
    if [ $code -ne 0 ]; then
        echo "tests/twins.sh: $config: $name: exit code $code: $(head -n 1 "$work/err")" >&2
        failed=$((failed + 1))
    elif ! cmp -s "$work/got.json" "$work/want.json"; then
        echo "tests/twins.sh: $config: $name: another result:" >&2
        diff "$work/want.json" "$work/got.json" | head -n 6 >&2
        failed=$((failed + 1))
    elif ! cmp -s "$work/got.h5" "$work/want.h5"; then
        echo "tests/twins.sh: $config: $name: same metrics, another HDF5 file" >&2
        failed=$((failed + 1))
    fi
}

for config in configs/examples/quickstart.yaml configs/examples/azure-conv.yaml \
    configs/examples/mooncake-pd.yaml tests/twins/*.yaml; do
    [ -e "$config" ] || continue
    "$reference" simulate "$config" -q --format json -o "$work/want.h5" >"$work/want.json" || {
        echo "tests/twins.sh: $config: does not run" >&2
        failed=$((failed + 1))
        continue
    }
    grep -q '"digest"' "$work/want.json" || { echo "tests/twins.sh: $config: no digest" >&2; failed=$((failed + 1)); }
    options=
    for kvtwin in "$@"; do
        twin "$kvtwin" "$kvtwin"
    done
    options=--exact-steps
    twin "with --exact-steps" "$reference"
    options=--paranoid
    twin "with --paranoid" "$reference"
    options="--log $work/log"
    twin "with --log" "$reference"
    options="--exact-steps --log $work/exact.log"
    twin "with --exact-steps and --log" "$reference"
    if ! cmp -s "$work/log" "$work/exact.log"; then
        echo "tests/twins.sh: $config: another log with --exact-steps" >&2
        diff "$work/log" "$work/exact.log" | head -n 6 >&2
        failed=$((failed + 1))
    fi
done

# Resamples: threads of their own, and logarithms and exponentials that no run without them needs.
config=configs/examples/quickstart.yaml
options="--resamples 6"
# shellcheck disable=SC2086  # a list of options
"$reference" simulate $config -q --format json -o "$work/want.h5" $options >"$work/want.json" ||
    failed=$((failed + 1))
for kvtwin in "$@"; do
    twin "$kvtwin with resamples" "$kvtwin"
done
twin "resamples by one thread" env OMP_NUM_THREADS=1 "$reference"
twin "resamples by five threads" env OMP_NUM_THREADS=5 "$reference"

# Random worlds (tests/digests.c): a line of digests each, alike from every build, and from one build
# twice. (tests/swarm.c compares macro-steps, exact steps and logs of one build.)
worlds=0
for kvtwin in "$@" "$reference"; do
    digests=${kvtwin%/*}/digests
    [ -x "$digests" ] || continue
    "$digests" 700001 60 >"$work/got.worlds"
    if [ $worlds -eq 0 ]; then
        cp "$work/got.worlds" "$work/want.worlds"
    elif ! cmp -s "$work/got.worlds" "$work/want.worlds"; then
        echo "tests/twins.sh: $digests: worlds with other digests:" >&2
        diff "$work/want.worlds" "$work/got.worlds" | head -n 4 >&2
        failed=$((failed + 1))
    fi
    worlds=$((worlds + 1))
    count=$((count + 1))
done

if [ "$failed" -gt 0 ]; then
    echo "tests/twins.sh: $failed of $count runs differ" >&2
    exit 1
fi
echo "tests/twins.sh: $count runs by other programs and in other ways, all alike to the byte"
