#!/bin/sh
# Every suite of tests/suites.h, or those named, in a process of its own, as many at once as there are cores:
# a line for each, all that one says which fails, and the sums.
#
#   suites.sh CHECK [SUITE]...
#
# It calls itself with --one for each of them.
set -eu
if [ "$1" = --one ]; then # CHECK FOLDER SUITE
    failed=0
    "$2" --slow "$4" >"$3/$4" 2>&1 || failed=1
    awk -v suite="$4" '
        $1 == "tests" { tests = $4 }
        $1 == "asserts" { asserts = $4 }
        /^skipped for want of data/ { skipped = $NF }
        END { printf "  %-16s %5d tests %9d asserts%s\n", suite, tests, asserts, (skipped > 0 ? ", " skipped " skipped" : "") }
    ' "$3/$4"
    [ $failed = 0 ] || cat "$3/$4"
    exit $failed
fi
check=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
if [ $# -gt 0 ]; then printf '%s\n' "$@"; else sed -n 's/^ *X(\([a-z_0-9]*\)).*/\1/p' tests/suites.h; fi |
    xargs -n 1 -P "$(nproc)" "$0" --one "$check" "$work" || failed=1
cat "$work"/* | awk '
    $1 == "suites" { suites += $3 }
    $1 == "tests" { tests += $3; passed += $4; failed += $5 }
    $1 == "asserts" { asserts += $3; held += $4; not += $5 }
    /^skipped for want of data/ { skipped += $NF }
    END {
        printf "%d suites, %d tests: %d passed, %d failed; ", suites, tests, passed, failed
        printf "%d asserts: %d passed, %d failed\nskipped for want of data: %d\n", asserts, held, not, skipped
    }'
exit $failed
