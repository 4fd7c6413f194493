#!/bin/sh
# Run every command of a tutorial, in order, in an empty folder: the blocks between ```sh and ```.
#
#   tutorial.sh KVTWIN PAGE       run from the repository's root
set -u
page=$PWD/$2
PATH=$PWD/$(dirname "$1"):$PATH
export PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A block of its own for each: the first command that fails stops, and its block is named.
awk '/^```sh$/ { inside = 1; print "block=" FNR + 1; next }
     /^```$/ { if (inside) print ""; inside = 0 }
     inside' "$page" >"$work/commands"
[ "$(grep -c '^block=' "$work/commands")" -gt 0 ] || { echo "$2: no commands" >&2; exit 1; }
mkdir "$work/place"
(
    cd "$work/place" || exit 1
    set -e
    # shellcheck disable=SC2154  # set by the commands
    trap '[ $? -eq 0 ] || echo "tests/tutorial.sh: failed in the block at line $block" >&2' EXIT
    # shellcheck source=/dev/null
    . "$work/commands"
) >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
for file in report.html compared.html crash.html trace.json bench.json; do
    [ -s "$work/place/$file" ] || { echo "tests/tutorial.sh: no $file" >&2; exit 1; }
done
echo "tests/tutorial.sh: $(grep -c '^block=' "$work/commands") blocks of $2 run"
