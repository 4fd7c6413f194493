#!/bin/sh
# Ten fixed runs whose results stay as they are: tests/fixed.txt has a line a run, the SHA-256 of
# what it prints as JSON (its first 32 digits) and its arguments.
#
#   fixed.sh KVTWIN          compare
#   fixed.sh KVTWIN renew    write the digests of today; say in the commit what changed the results
set -eu
kvtwin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

while read -r _ arguments; do
    # shellcheck disable=SC2086
    "$kvtwin" $arguments -q --format json </dev/null >"$work/out" || { echo "tests/fixed.sh: fails: kvtwin $arguments" >&2; exit 1; }
    echo "$(sha256sum <"$work/out" | cut -c 1-32) $arguments"
done <tests/fixed.txt >"$work/now"

[ "${2:-}" != renew ] || cp "$work/now" tests/fixed.txt
if ! diff tests/fixed.txt "$work/now"; then
    echo "tests/fixed.sh: other results; if they were meant to change: $0 KVTWIN renew, and say why in the commit" >&2
    exit 1
fi
echo "tests/fixed.sh: $(wc -l <"$work/now") fixed runs print what they printed"
