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
    "$installed" examples | grep -q "$stage/opt/twin/.*/quickstart.yaml" || { echo "tests/install.sh: no examples" >&2; exit 1; }
    if "$installed" --help | grep -q '^  capacity '; then
        "$installed" capacity "$stage/opt/twin/share/kvtwin/configs/examples/quickstart.yaml" >/dev/null
        "$installed" capacity - <"$stage/opt/twin/share/kvtwin/configs/examples/quickstart.yaml" >/dev/null
    fi
)
# The library: the example of docs/ is built against what was installed, with pkg-config.
export PKG_CONFIG_PATH="$stage/opt/twin/lib/pkgconfig"
flags=$(pkg-config --define-variable=prefix="$stage/opt/twin" --cflags --libs kvtwin)
case $1 in sanitize) flags="$flags -fsanitize=address,undefined" ;; coverage) flags="$flags --coverage" ;; esac
cc=gcc
[ "$1" = clang ] && cc=clang
# shellcheck disable=SC2086
$cc -std=c11 -Wall -Wextra -Werror "$stage/opt/twin/share/doc/kvtwin/embed.c" -o "$stage/embed" $flags
said=$(KVTWIN_DATA="$stage/opt/twin/share/kvtwin" "$stage/embed" \
    "$stage/opt/twin/share/kvtwin/configs/examples/quickstart.yaml" fleet.decode.kv=bf16)
echo "$said" | grep -qE '^[0-9.]+ tok/s, median TTFT [0-9.]+ ms$' ||
    { echo "tests/install.sh: the embedded simulator said: $said" >&2; exit 1; }
rm "$stage/embed"
env -u MAKEFLAGS make --no-print-directory MODE="$1" DESTDIR="$stage" PREFIX=/opt/twin uninstall >/dev/null
left=$(find "$stage" -type f)
[ -z "$left" ] || { echo "tests/install.sh: left behind: $left" >&2; exit 1; }
echo "tests/install.sh: installed, ran from /, embedded, removed"
