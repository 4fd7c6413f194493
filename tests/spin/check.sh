#!/bin/sh
# The model of the hand-off: checked by spin, bugs planted in it found, walks replayed by the core.
#
#   check.sh CHECK [N]       CHECK is build/MODE/check; N requests in the model (3; 2 is quick)
#   WALKS=N SEED=N           how many random walks, from which seed on (60, 1000)
#
# Without spin it says so and does nothing: the committed walks are replayed by CHECK anyway.
set -eu
check=$(realpath "$1")
requests=${2:-3}
root=$PWD
model=$root/tests/spin/handoff.pml
if ! command -v spin >/dev/null; then
    echo "tests/spin/check.sh: 1 skipped: no spin here (Debian package spin)"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

verify() { # verify OUT FLAGS OPTIONS: pan's output in OUT
    out=$1
    # shellcheck disable=SC2086
    spin -a $2 "$model" >spin.out 2>&1 && ! grep -i error spin.out || { cat spin.out >&2; exit 1; }
    # shellcheck disable=SC2086
    gcc -O1 -w -DCOLLAPSE -DNOREDUCE $3 -o pan pan.c && ./pan -m100000 $4 >"$out" 2>&1
}
right() { # right NAME OUT: no error, searched to the end
    if ! grep -q 'errors: 0' "$2" || grep -q 'not completed\|max search depth too small' "$2"; then
        echo "tests/spin/check.sh: $1 does not hold:" >&2
        head -n 8 "$2" >&2
        exit 1
    fi
}

verify out "-DN=$requests" -DSAFETY ""
right "the model" out
states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)

# A smaller one, with cycles looked for: what happens comes to an end.
verify out -DN=2 -DNP -l
right "an end" out

# Bugs planted in two requests' worth of model.
bugs=0
for bug in FREE_BEFORE_ACK FREE_ON_ABORT NO_WAKE LEAK; do
    verify out "-DN=2 -DBUG_$bug" -DSAFETY ""
    if ! grep -q 'assertion violated' out; then
        echo "tests/spin/check.sh: planted bug $bug is not found" >&2
        exit 1
    fi
    bugs=$((bugs + 1))
done

"$root/tests/spin/walks.sh" "${SEED:-1000}" "${WALKS:-60}" >walks
(cd "$root" && KVT_WALKS=$work/walks "$check" handoff_model) >out 2>&1 || { cat out >&2; exit 1; }
echo "tests/spin/check.sh: $states states, every property holds; $bugs planted bugs found;" \
    "$(grep -c '^ *end' walks) walks of $(wc -l <walks) transitions agree with sim/serve/"
