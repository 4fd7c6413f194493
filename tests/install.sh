#!/bin/sh
# An installed program works from anywhere, finds its configs beside itself, and can be removed.
#
#   install.sh MODE     run from the repository's root
set -eu
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
env -u MAKEFLAGS make --no-print-directory MODE="$1" DESTDIR="$stage" PREFIX=/opt/twin install >/dev/null

installed=$stage/opt/twin/bin/kvtwin
(
    cd /
    "$installed" --version >/dev/null
    if "$installed" --help | grep -q '^  capacity '; then
        "$installed" capacity "$stage/opt/twin/share/kvtwin/configs/examples/quickstart.yaml" >/dev/null
        "$installed" capacity - <"$stage/opt/twin/share/kvtwin/configs/examples/quickstart.yaml" >/dev/null
    fi
)
env -u MAKEFLAGS make --no-print-directory MODE="$1" DESTDIR="$stage" PREFIX=/opt/twin uninstall >/dev/null
left=$(find "$stage" -type f)
[ -z "$left" ] || { echo "tests/install.sh: left behind: $left" >&2; exit 1; }
echo "tests/install.sh: installed, ran from /, removed"
