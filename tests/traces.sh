#!/bin/sh
# The shipped traces are what the commands in traces/README.md make, and `kvtwin trace` keeps its
# promises from outside: exit codes, whole files, stdout and stderr.
#
#   traces.sh KVTWIN        run from the repository's root
set -u
kvtwin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
count=0

fail() {
    failed=$((failed + 1))
    echo "tests/traces.sh: $*" >&2
}

# ---- the shipped traces ----
sed -n 's/^    kvtwin trace generate -o traces\/\([a-z.-]*\) \(.*\)/\1 \2/p' traces/README.md >"$work/list"
while read -r name rest; do
    count=$((count + 1))
    # shellcheck disable=SC2086 # the words of a command
    "$kvtwin" trace generate -q -o "$work/$name" $rest || fail "cannot make $name again"
    cmp -s "$work/$name" "traces/$name" || fail "traces/$name is not what its command makes"
done <"$work/list"
[ "$count" -eq "$(find traces -name '*.csv' | wc -l)" ] || fail "traces/README.md makes $count of the traces"

# ---- exit codes ----
# expect CODE TEXT ARGUMENT...: `kvtwin trace` exits with CODE and says TEXT on stderr.
expect() {
    want=$1
    text=$2
    shift 2
    count=$((count + 1))
    "$kvtwin" trace "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" -eq "$want" ] || fail "trace $*: exit code $got, want $want"
    [ -z "$text" ] || grep -qF -e "$text" "$work/err" || fail "trace $*: stderr lacks '$text'"
    [ ! -s "$work/out" ] || fail "trace $*: stdout should be empty"
}
lengths="--input-tokens 100 --output-tokens 5"
printf 'arrival_s,input_tokens,output_tokens\n5,1,1\n4,1,1\n' >"$work/back.csv"
printf 'a,b\n' >"$work/unknown.csv"
: >"$work/empty.csv"
expect 2 'want import, generate or stats' sort
expect 2 'want one trace file, got 0' stats
expect 2 'want -o FILE' import traces/quickstart.csv
expect 2 'trace stats takes no --rate' stats --rate 1 traces/quickstart.csv
expect 2 'want --rate' generate -o "$work/x.csv"
expect 2 'want --requests or --until' generate -o "$work/x.csv" --rate 1
expect 2 'want --output-tokens' generate -o "$work/x.csv" --rate 1 --requests 1 --input-tokens 1
expect 2 '--arrivals: want poisson' generate -o "$work/x.csv" --rate 1 --requests 1 --arrivals gamma
expect 2 '--prefixes: want GROUPS:SHARE:TOKENS' generate -o "$work/x.csv" --rate 1 --requests 1 --prefixes 3
expect 3 'back.csv:3:1: want arrivals in order of time' stats "$work/back.csv"
expect 3 'unknown.csv:1:1: want the header of a known trace format' stats "$work/unknown.csv"
expect 3 'empty.csv: want a trace, got an empty file' import "$work/empty.csv" -o "$work/x.csv"
expect 4 'cannot open' stats "$work/none.csv"
expect 2 '--speed: want more than 0' stats --speed 0 traces/quickstart.csv
# shellcheck disable=SC2086
{
    expect 2 '--rate: want a rate of' generate -o "$work/x.csv" --rate -5 --requests 1 $lengths
    expect 2 '--arrivals: want gamma gaps' generate -o "$work/x.csv" --rate 1 --requests 1 --arrivals gamma:0 $lengths
    expect 4 'cannot write' generate -o "$work/no/x.csv" --rate 1 --requests 1 $lengths
    expect 0 'wrote 20 requests' generate -o "$work/x.csv" --rate 10 --until 2 --arrivals constant $lengths
    expect 0 '' generate -q -o "$work/y.csv" --rate 10 --until 2 --arrivals constant $lengths
}
cmp -s "$work/x.csv" "$work/y.csv" || fail "the same command made two traces"

# ---- from a config ----
load='workload={open: {rate: 10 req/s, arrivals: constant, input: 100, output: 5}}'
config=configs/examples/quickstart.yaml
expect 0 'wrote 20 requests' generate "$config" --set "$load" --set 'run.until=2 s' -o "$work/z.csv"
cmp -s "$work/x.csv" "$work/z.csv" || fail "a config and the same options made two traces"
expect 3 'want a workload to generate (open or closed), got a trace' generate "$config" -o "$work/z.csv"
expect 2 'want --rate or a config, got both' generate "$config" --rate 1 -o "$work/z.csv"
expect 2 '--set wants a config' generate --rate 1 --set run.seed=3 -o "$work/z.csv"
expect 2 '--seed is for trace generate' stats --seed 3 traces/quickstart.csv
expect 2 '--output is for a trace' stats traces/quickstart.csv -o "$work/z.csv"
cp traces/quickstart.csv "$work/from.csv"
expect 2 'from.csv is the input of --input-tokens' generate --rate 1 --requests 9 --input-tokens "from:$work/from.csv" \
    --output-tokens 1 -o "$work/from.csv"

# ---- import and stats agree ----
gzip -c traces/mooncake-sample.csv >"$work/m.gz"
"$kvtwin" trace import -q "$work/m.gz" -o "$work/m.csv" || fail "cannot import a gzipped trace"
cmp -s "$work/m.csv" traces/mooncake-sample.csv || fail "an imported own trace changed"
for format in text json csv; do
    "$kvtwin" trace stats --format $format traces/mooncake-sample.csv >"$work/stats.$format" 2>"$work/err" ||
        fail "stats --format $format failed"
    [ ! -s "$work/err" ] || fail "stats --format $format says something on stderr"
done
grep -q '"block_reuse": 0.3678' "$work/stats.json" || fail "stats.json lacks the reuse"
[ "$(wc -l <"$work/stats.csv")" -eq 2 ] || fail "stats.csv has not two lines"

# ---- nothing half-written ----
(ulimit -f 8 && "$kvtwin" trace import -q traces/mooncake-sample.csv -o "$work/cut.csv") 2>"$work/err"
[ $? -eq 4 ] || fail "a write that fails is not exit code 4"
[ -z "$(find "$work" -name 'cut*')" ] || fail "a part of an output was left behind"

[ "$failed" -eq 0 ] && echo "tests/traces.sh: $count checks passed"
[ "$failed" -eq 0 ]
