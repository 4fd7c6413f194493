#!/bin/sh
# Reports of shipped runs: whole, without a network, and shown by Chromium without a complaint where
# it is installed (Debian: chromium; not needed otherwise). Screenshots stay in build/report/.
#
#   report.sh KVTWIN       run from the repository's root
set -u
kvtwin=$1
kept=build/report
mkdir -p "$kept"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    failed=1
    echo "tests/report.sh: $*" >&2
}

"$kvtwin" simulate configs/examples/quickstart.yaml -q --resamples 19 -o "$work/run.h5" >/dev/null || fail "no run"
"$kvtwin" simulate configs/incidents/vllm-46283.yaml -q --set 'fleet.decode.guard=none' -o "$work/faults.h5" >/dev/null ||
    fail "no run with faults"
"$kvtwin" report "$work/run.h5" -o "$kept/run.html" --compare "$work/faults.h5" || fail "no report"
"$kvtwin" report "$work/faults.h5" -o "$kept/faults.html" --svg "$work/svg" || fail "no report of faults"
for figure in memory memory-2 ttft tpot-itl e2el concurrency throughput ttft-over-time queue batch kv-usage link; do
    grep -q "<figure id=\"$figure\"><svg" "$kept/run.html" || fail "run.html: no figure $figure"
    [ -s "$work/svg/$figure.svg" ] || fail "no file $figure.svg"
done
grep -q '<figure id="faults"' "$kept/faults.html" || fail "faults.html: no timeline of faults"
grep -qE 'https?://|<script|@import|src=' "$kept/run.html" && fail "run.html asks for something outside"
if command -v xmllint >/dev/null; then
    xmllint --noout "$work"/svg/*.svg || fail "a figure is not XML"
fi
if command -v rsvg-convert >/dev/null; then
    "$kvtwin" report "$work/run.h5" --png "$kept/png" || fail "no PNG files"
    [ "$(find "$kept/png" -name '*.png' | wc -l)" -ge 12 ] || fail "PNG files are missing"
fi

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ]; then
    echo "tests/report.sh: 1 skipped: Chromium is not installed"
else
    for shot in 'run 1200 3200' 'run 390 6000' 'faults 1200 3400'; do
        # shellcheck disable=SC2086
        set -- $shot
        "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/browser" \
            --enable-logging=stderr --v=0 --window-size="$2,$3" --screenshot="$kept/$1-$2.png" \
            "file://$PWD/$kept/$1.html" >"$work/log" 2>&1 || fail "Chromium failed: $(tail -n 1 "$work/log")"
        grep 'CONSOLE' "$work/log" && fail "Chromium complains about $1.html"
        [ -s "$kept/$1-$2.png" ] || fail "no screenshot of $1.html"
    done
    drawn=$("$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/browser" --dump-dom \
        "file://$PWD/$kept/run.html" 2>/dev/null | grep -c '<figure id=.*<svg')
    [ "$drawn" -ge 12 ] || fail "Chromium shows $drawn figures, want 12"
fi
[ "$failed" -eq 0 ] && echo "tests/report.sh: reports are whole; pages and screenshots in $kept"
exit "$failed"
