#!/bin/sh
# Instructions of six fixed runs against those in tests/perf/counts.txt: more than 3 % above fails.
#
#   gate.sh KVTWIN           compare
#   gate.sh KVTWIN renew     write the counts of today; say in the commit what made them grow
#
# Instructions are counted by callgrind, on one thread: the same on a busy machine as on a quiet one.
# They depend on the compiler and the libraries, so their versions stand in the file; with others a
# difference says little, and the gate says so.
set -eu
kvtwin=$1
counts=tests/perf/counts.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! command -v valgrind >/dev/null; then
    echo "tests/perf/gate.sh: no valgrind here (Debian package valgrind)" >&2
    exit 1
fi
with="gcc $(gcc -dumpfullversion), libc $(ldd --version | sed -n '1s/.* //p'), gsl $(gsl-config --version)"

count() { # count NAME ARGUMENT...: a line of counts
    name=$1
    shift
    OMP_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$kvtwin" "$@" \
        >"$work/out" 2>"$work/err" || { tail -n 5 "$work/err" >&2; echo "tests/perf/gate.sh: $name fails" >&2; exit 1; }
    printf '%s %s\n' "$name" "$(sed -n 's/^==[0-9]*== Collected : *//p' "$work/err")" >>"$work/now"
}
count quickstart simulate configs/examples/quickstart.yaml -q
count azure-conv simulate configs/examples/azure-conv.yaml -q
count mooncake-pd simulate configs/examples/mooncake-pd.yaml -q -o "$work/run.h5"
count exact-steps simulate tests/twins/pressure.yaml -q --exact-steps --log "$work/log"
count reproduce reproduce kimi-k2.6-fp8-kv
count capacity capacity configs/examples/quickstart.yaml

if [ "${2:-}" = renew ]; then
    { echo "# $with; tests/perf/gate.sh KVTWIN renew"; cat "$work/now"; } >"$counts"
    cat "$counts"
    exit 0
fi
[ "# $with; tests/perf/gate.sh KVTWIN renew" = "$(head -n 1 "$counts")" ] ||
    echo "tests/perf/gate.sh: counted with $with, the file says: $(head -n 1 "$counts")"
grep -v '^#' "$counts" | sort >"$work/then"
sort "$work/now" | join "$work/then" - | awk '
    { change = 100 * ($3 / $2 - 1); grown += change > 3
      printf "%-12s %14d then %14d now %+7.2f %%%s\n", $1, $2, $3, change, (change > 3 ? "   MORE" : "") }
    END { if (NR != 6) { print "tests/perf/gate.sh: want six counts, got " NR; exit 1 }
          if (grown) print grown " of six grew by more than 3 %; if that is what was wanted: " \
                           "make perf-gate RENEW=renew, and say why in the commit"
          exit grown > 0 }'
