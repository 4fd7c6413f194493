#!/bin/sh
# The command line from outside: exit codes, and what goes to stdout and what to stderr.
#
#   cli.sh KVTWIN        run from the repository's root
# shellcheck disable=SC2016,SC2086  # messages hold backquotes; $few and $long are lists of options
set -u
kvtwin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
failed=0
skipped=0

# A pipe that stays empty: a signal ends the command though nobody looks for one (asked at the end).
mkfifo "$work/silent"
{
    timeout --preserve-status -s TERM 1 "$kvtwin" simulate "$work/silent" 2>"$work/silent.err"
    echo $? >"$work/silent.code"
} &
silent=$!

fail() {
    failed=$((failed + 1))
    echo "tests/cli.sh: $name: $*" >&2
}

# run NAME WANTED_CODE ARGUMENT...: leaves stdout in $work/out and stderr in $work/err.
run() {
    name=$1
    want=$2
    shift 2
    count=$((count + 1))
    "$kvtwin" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$got" -eq "$want" ] || fail "exit code $got, want $want: $(head -n 3 "$work/err")"
}
out_is_empty() { [ ! -s "$work/out" ] || fail "stdout should be empty: $(head -n 1 "$work/out")"; }
err_is_empty() { [ ! -s "$work/err" ] || fail "stderr should be empty: $(head -n 1 "$work/err")"; }
out_has() { grep -qF -e "$1" "$work/out" || fail "stdout lacks '$1'"; }
err_has() { grep -qF -e "$1" "$work/err" || fail "stderr lacks '$1': $(head -n 2 "$work/err")"; }
err_lines() { [ "$(wc -l <"$work/err")" -eq "$1" ] || fail "stderr has $(wc -l <"$work/err") lines, want $1"; }
out_starts() { head -n 1 "$work/out" | grep -q "^$1" || fail "stdout does not start with '$1'"; }
full_disk() { # full_disk NAME ARGUMENT...
    name=$1
    shift
    count=$((count + 1))
    "$kvtwin" "$@" >/dev/full 2>"$work/err"
    got=$?
    [ "$got" -eq 4 ] || fail "exit code $got on a full disk, want 4"
    err_has "standard output"
}

# ---- the frame ----
run "help" 0 --help
out_starts "Usage: kvtwin"
err_is_empty
run "version" 0 --version
out_starts "kvtwin [0-9.]*\$"
err_is_empty
run "no command" 2
out_is_empty
err_lines 2
run "an option before the command" 2 --format json
out_is_empty
err_has "options come after the command"
full_disk "help on a full disk" --help
full_disk "version on a full disk" --version


name="a reader that goes away"
count=$((count + 1))
mkfifo "$work/pipe"
true <"$work/pipe" &
exec 3>"$work/pipe"
wait $!
"$kvtwin" config reference >&3 2>"$work/err"
got=$?
exec 3>&-
[ $got -eq 4 ] || fail "exit code $got, want 4"
err_is_empty
full_disk "a long page on a full disk" config reference

# ---- every command ----
"$kvtwin" --help >"$work/help"
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' "$work/help")
for command in $commands; do
    run "an unknown command gets a suggestion" 2 "${command}x"
    out_is_empty
    err_has "did you mean \"$command\"?"
    err_lines 2
    run "$command --help" 0 "$command" --help
    out_starts "Usage: kvtwin $command"
    out_has "Example:"
    out_has "kvtwin $command"
    err_is_empty
    run "$command --version" 0 "$command" --version
    out_starts "kvtwin [0-9.]*\$"
    run "$command with an unknown option" 2 "$command" --frmat=json
    out_is_empty
    err_lines 2
    err_has "did you mean --format?"
    err_has "Try 'kvtwin $command --help'."
    run "$command with a wrong format" 2 "$command" --format=xml
    err_has "want text, json or csv, got \"xml\""
    run "$command with an option that lacks its argument" 2 "$command" --format
    err_has "wants an argument"
    run "$command with an argument for a switch" 2 "$command" --quiet=yes
    err_has "--quiet takes no argument"
    run "$command with an ambiguous option" 2 "$command" --ver
    err_has "short for more than one option"
    full_disk "$command --help on a full disk" "$command" --help
done

run "the reference page" 0 config reference
cmp -s "$work/out" docs/config-reference.md || fail "docs/config-reference.md is old; run make docs"

for config in configs/examples/*.yaml configs/published/*.yaml; do
    run "the check of $config" 0 config check "$config"
    out_has "$config: ok"
    err_is_empty
done
run "the check of a config with a domain" 0 config check "$config" --format json \
    --set 'fleet.decode.replicas={choices: [1, 2]}'
out_has '"fleet.decode.replicas": 2'
odd=$work/$(printf 'q\377').yaml
cp "$config" "$odd"
run "the check of a path that is not UTF-8" 0 config check "$odd" --format json
out_has 'q?.yaml"'
run "options of a check beside a list" 2 config keys --seed 3
err_has "--seed is for config check"
run "a list as JSON" 2 config keys --format json
err_has "--format: want text"
run "options of an import beside a model" 2 model show qwen3-8b --base qwen3-4b
err_has "--base is for model import"
run "the check of a config that is wrong" 3 config check "$config" --set fleet.decode.kv=fp9
out_is_empty
err_has "kvtwin: --set fleet.decode.kv=fp9: fleet.decode.kv: want one of bf16,"
run "the check of an empty stdin" 3 config check -
err_has "kvtwin: stdin:1:1: want a mapping with keys such as model and fleet, got an empty file"
name="the check of a config on stdin"
"$kvtwin" config check - <"$config" >"$work/out" 2>"$work/err" || fail "$(head -n 3 "$work/err")"
out_has "stdin: ok"
name="the check of a long config on stdin"
{ cat "$config"; yes '# no more to say' | head -n 20000; } | "$kvtwin" config check - >"$work/out" \
    2>"$work/err" || fail "$(head -n 3 "$work/err")"
out_has "stdin: ok"
name="the check of a config on stdin, with a byte order mark, as gzip"
{ printf '\357\273\277'; cat "$config"; } | gzip -c | "$kvtwin" config check - >"$work/out" \
    2>"$work/err" || fail "$(head -n 3 "$work/err")"
out_has "stdin: ok"
name="the check of a folder as stdin"
"$kvtwin" config check - <"$work" >"$work/out" 2>"$work/err"
test $? = 4 || fail "want exit 4"
err_has "kvtwin: stdin: cannot read: "
run "the check of nothing" 2 config check
run "an unknown page" 2 config referenc
run "a page with too many operands" 2 config keys more

# ---- commands that read a config ----
for command in capacity simulate; do
    run "$command without a config" 2 "$command"
    out_is_empty
    err_has "want CONFIG"
    run "$command with two configs" 2 "$command" a.yaml b.yaml
    err_has "one operand too many"
    run "$command of a file that is not there" 4 "$command" "$work/none.yaml"
    out_is_empty
    err_has "kvtwin: $work/none.yaml"
    printf 'model: kimi-k2.6\nmodle: x\n' >"$work/bad.yaml"
    run "$command of a config with an unknown key" 3 "$command" "$work/bad.yaml"
    out_is_empty
    err_has "kvtwin: $work/bad.yaml:2:1: "
    err_has "did you mean"
    run "$command with a bad --set" 2 "$command" configs/examples/quickstart.yaml --set nothing
    err_has "want KEY=VALUE"
    run "$command with a bad seed" 2 "$command" configs/examples/quickstart.yaml --seed=-1
    err_has "--seed: want a whole number from 0 to 2^64-1"
    run "$command --print-config" 0 "$command" configs/examples/quickstart.yaml --print-config --seed 17
    out_has "seed: 17"
    cp "$work/out" "$work/printed.yaml"
    name="$command --print-config of its own output" # on stdin: paths in it are meant from here
    "$kvtwin" "$command" - --print-config <"$work/printed.yaml" >"$work/out" 2>"$work/err" ||
        fail "$(head -n 3 "$work/err")"
    cmp -s "$work/out" "$work/printed.yaml" || fail "printing the printed config changes it"
    run "$command prints JSON" 0 "$command" configs/examples/quickstart.yaml --format json -q
    out_starts "{"
    err_is_empty
    full_disk "$command on a full disk" "$command" configs/examples/quickstart.yaml
done

config=configs/examples/quickstart.yaml
cp "$config" "$work/in.yaml"
run "a sweep of which no point can run" 1 sweep configs/examples/sweep.yaml --set 'fleet.serve.gpu={choices: [nogpu]}'
err_has "could be run; the first: "
run "an output that is the input" 2 simulate "$work/in.yaml" -o "$work/in.yaml"
for option in log perfetto export; do
    file=$work/in.yaml
    [ $option = export ] && file=vllm:$file
    run "another output that is the input" 2 simulate "$work/in.yaml" "--$option" "$file"
    err_has "--$option $work/in.yaml is the input $work/in.yaml: want another file"
done
err_has "want another file"
cmp -s "$config" "$work/in.yaml" || fail "the input was replaced"
# Nor what the config names, which a typing error is as near to.
mkdir "$work/named"
cp configs/examples/quickstart.yaml "$work/named/q.yaml"
cp configs/models/llama-3.1-8b.yaml configs/gpus/h100-sxm.yaml configs/calibrations/h100-sglang.yaml "$work/named"
printf 'arrival_s,input_tokens,output_tokens\n0,100,7\n' >"$work/named/t.csv"
printf '%s\n' 'model: {file: llama-3.1-8b.yaml}' 'fleet: {serve: {gpu: {file: h100-sxm.yaml}}}' \
    'calibration: {h100-sxm: h100-sglang.yaml}' 'workload: {trace: t.csv}' >"$work/named/q.yaml"
(cd "$work/named" && cksum ./*) >"$work/named.sums"
for file in llama-3.1-8b.yaml h100-sxm.yaml h100-sglang.yaml t.csv; do
    for option in output log perfetto export; do
        to=$work/named/$file
        [ $option = export ] && to=vllm:$to
        run "an output that the config reads" 2 simulate "$work/named/q.yaml" "--$option" "$to"
        err_has "$file: is an "
        err_has "put of this run"
    done
done
run "the files that a config names" 0 simulate "$work/named/q.yaml" -q
(cd "$work/named" && cksum ./*) | cmp -s - "$work/named.sums" || fail "files of the config have changed"
printf '%s\n' 'model: llama-3.1-8b' 'fleet: {serve: {replicas: 16, gpu: h100-sxm}}' \
    'workload: {closed: {concurrency: 4096, input: 200, output: 50}}' 'run: {until: 1 h}' >"$work/endless.yaml"
run "a closed load that runs out of requests" 6 simulate "$work/endless.yaml" -o "$work/endless.h5"
err_has "endless.yaml:4:14: want at most 1048576 requests, got more: the last arrived at "
[ ! -e "$work/endless.h5" ] || fail "a file of what was not asked for"
run "an output into a folder that is not there" 4 simulate $config -o "$work/none/run.h5"
err_has "$work/none/run.h5"
run "an output onto a folder" 4 simulate $config -o "$work"
run "an output on a full disk" 4 simulate $config -o /dev/full
run "a chunk smaller than a page" 3 simulate tests/twins/pressure.yaml --set engine=sglang \
    --set fleet.serve.page_tokens=1024
err_has "tests/twins/pressure.yaml:6:"
err_has "want chunk_tokens of a page at least (1024 tokens), got 512"
mkdir "$work/made"
run "an output" 0 simulate $config -o "$work/made/run.h5"
[ "$(ls "$work/made")" = run.h5 ] || fail "left behind: $(ls "$work/made")"
run "a second run" 0 simulate $config -o "$work/made/again.h5"
cmp -s "$work/made/run.h5" "$work/made/again.h5" || fail "the same run gives other bytes"
run "a run does not differ from itself" 0 diff "$work/made/run.h5" "$work/made/again.h5"
run "another run differs" 0 simulate $config -o "$work/made/other.h5" --set workload.trace.speed=2
run "and diff says so" 1 diff "$work/made/run.h5" "$work/made/other.h5"
run "a log names the replicas from its first line on" 0 simulate $config --log "$work/made/run.log"
grep -q "replica-" "$work/made/run.log" && fail "a replica without its name"
grep -q "prefill-0 *ADMIT" "$work/made/run.log" || fail "no prefill-0"
ln -s again.h5 "$work/made/link.h5"
run "an output onto a link" 0 simulate $config -o "$work/made/link.h5"
[ -h "$work/made/link.h5" ] || fail "the link is gone"
cmp -s "$work/made/run.h5" "$work/made/again.h5" || fail "what the link leads to was not written"
ln -s nowhere.h5 "$work/made/loose.h5"
run "an output onto a link to nothing" 4 simulate $config -o "$work/made/loose.h5"
err_has "loose.h5: cannot write: it is a link to nothing"
ln -s "$work/out" "$work/made/stdout" # as /dev/stdout is one
run "an output onto standard output" 4 simulate $config -o "$work/made/stdout"
err_has "stdout: cannot write: it is standard output"
run "two outputs onto one file" 4 simulate $config -o "$work/made/two" --log "$work/made/./two"
err_has "two: cannot write: it is another output of this run"
run "a log without a name" 2 simulate $config --log ""
run "a trace without a name" 2 simulate $config --perfetto ""
err_has "--perfetto: want a file name, got an empty one"
rm -f "$work/made/"*link* "$work/made/"*loose* "$work/made/stdout"
run "a price under another spelling" 0 simulate $config --set 'cost={H200: 1 USD/h}'
out_has "Cost (USD/h):                                                16.00"
run "no price for this GPU" 0 simulate $config --set 'cost={h100: 1 USD/h}'
err_has "warning: cost has no price for h200-sxm"
run "a price of what is no GPU" 3 simulate $config --set 'cost.h2000-sxm=3 USD/h'
err_has 'kvtwin: --set cost.h2000-sxm=3 USD/h: cost.h2000-sxm: want the name of a GPU of the fleet, or of a shipped one; did you mean "h200-sxm"?'
run "a calibration of what is no GPU" 3 config check $config --set calibration.nosuch=/x
err_has "calibration.nosuch: want the name of a GPU of the fleet, or of a shipped one"
run "a calibration that is not there, of a GPU beside the fleet" 4 config check $config --set calibration.l4=/x
err_has "calibration.l4: there is no calibration /x"
printf 'name: mine\nmemory-visible: 80 GiB\n' >"$work/mine.yaml"
for gpu in "$work/mine.yaml" '{name: mine, memory: 80 GiB}' "{choices: [t4, $work/mine.yaml]}"; do
    run "a price of an own GPU, $gpu" 0 config check $config --set "fleet.decode.gpu=$gpu" --set 'cost.mine=1 USD/h' \
        --set 'cost.t4=1 USD/h'
    run "another price, $gpu" 3 config check $config --set "fleet.decode.gpu=$gpu" --set 'cost.nosuch=1 USD/h'
done
run "more GPUs than there are numbers" 6 simulate $config --set fleet.decode.replicas=100000 \
    --set 'fleet.decode.parallel={tp: 1024, dp: 1024, ep: 128, pp: 61}'
err_has "GPUs in all"
for key in gpu.memory memory.reserve; do
    run "more $key than a device has" 3 capacity $config --set "fleet.decode.$key=1e30 GiB"
    err_has "1024 TiB, got \"1e30 GiB\""
done
printf 'name: big\nmemory-visible: 80 GiB\nmemory-context: 1e30 GiB\nprice: 1e308 USD/h\n' >"$work/big.yaml"
run "a GPU file without limits" 3 capacity $config --set fleet.decode.gpu="$work/big.yaml"
err_has "big.yaml:3:17: memory-context: want at most 1024 TiB, got \"1e30 GiB\""
err_has "big.yaml:4:8: price: want at most 1e+09 USD/h, got \"1e308 USD/h\""
run "one token a page" 0 simulate $config --set fleet.decode.page_tokens=1 -q
out_has " of 1 token, "
run "resamples" 0 simulate $config --resamples 20 --format json -o "$work/made/wide.h5"
err_is_empty
out_has '"mean_ttft_ms_low": '
out_has '"resamples": 20'
cp "$work/out" "$work/two_threads"
name="resamples by one thread"
OMP_NUM_THREADS=1 "$kvtwin" simulate $config --resamples 20 --format json >"$work/out" 2>&1
cmp -s "$work/out" "$work/two_threads" || fail "the number of threads shows"
run "intervals make no other run" 0 diff "$work/made/run.h5" "$work/made/wide.h5"
grep -q "_low" "$work/out" && fail "one run's intervals are listed"
echo '{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
 "max_position_embeddings": 4096, "torch_dtype": "bfloat16"}' >"$work/config.json"
(program=$(realpath "$kvtwin") && cd "$work" && "$program" model import config.json -o own.yaml -q) || fail "no import"
run "an imported model is called as its file" 0 model show "$work/own.yaml" --format json
out_has '"name": "own"'
run "few resamples" 0 simulate $config --resamples 3
out_has " ± "
err_has "of fewer than 19 resamples low and high are the smallest and the largest"
for bad in -1 10001 99999999999999999999 many 2.5 ""; do
    run "--resamples $bad" 2 simulate $config --resamples "$bad"
    out_is_empty
    err_has "--resamples"
    run "reproduce --resamples $bad" 2 reproduce --resamples "$bad"
    out_is_empty
done
run "resamples of a table" 2 reproduce --capacity none.csv --resamples 3
err_has "--resamples is for what runs"
run "a fit of nothing" 2 reproduce --fit
err_has "--fit"
run "a fit of a row" 2 reproduce --serving none.csv --fit --row P1
err_has "--fit is for what runs: --row prints a config"
{
    echo "row_id,engine,engine_version,model,gpu,n_gpus,isl_tokens,osl_tokens,concurrency,num_requests,tpot_ms"
    echo "a,SGLang,0.5.9,Qwen3-4B,H100,1,100,20,1,3,9"
    echo "b,SGLang,0.5.9,Qwen3-8B,H100,1,100,20,1,3,9"
} >"$work/serving.csv"
run "a fit" 0 reproduce --serving "$work/serving.csv" --fit --format json
out_has '"left_out": "qwen3-8b"'
out_has '"layer_us": '
out_has '"by_metric_reliable_unfitted": '
run "a row that is not there" 2 reproduce --serving "$work/serving.csv" --row c
err_has 'there is no row "c" in'
sed 's/Qwen3-8B/Qwen9/' "$work/serving.csv" >"$work/unknown.csv"
run "a row of an unknown model" 3 reproduce --serving "$work/unknown.csv" --row b
err_has 'unknown.csv:3: unsupported: the model "Qwen9" is not one of configs/models'
err_lines 1
run "a fit as text" 0 reproduce --serving "$work/serving.csv" --fit
out_has "without the model"
out_has "reliable rows, nothing fitted"
run "a config without published results" 3 reproduce configs/examples/quickstart.yaml
err_has "quickstart.yaml: want a section \`published\`, got none"
out_is_empty
run "published results without intervals" 0 reproduce kimi-k2.6-fp8-kv --resamples 0 --format json
out_has '"low": null'
run "published results with intervals" 0 reproduce kimi-k2.6-fp8-kv
out_has " ± "
# ---- faults ----
run "every incident ends as reported, and as it should with its guard" 0 inject configs/incidents/*.yaml
out_has "sglang-35049.yaml"
err_is_empty
run "an incident that ends otherwise is a negative answer" 1 inject configs/incidents/sglang-35049.yaml \
    --set 'fleet.decode.guard=tag-side'
err_has "1 of 1 strike ended otherwise than expected"
run "a campaign in JSON" 0 inject configs/examples/faults.yaml --trials 2 --format json \
    --set fleet.decode.guard=fifo --set 'faults.kinds=[leak, none]'
out_has '"fault": "leak", "guard": "fifo"'
run "a campaign in CSV" 0 inject configs/examples/faults.yaml --trials 2 --format csv \
    --set fleet.decode.guard=fifo --set 'faults.kinds=[leak]'
out_has "faults.yaml,leak,fifo,once,0,2,"
cp configs/incidents/sglang-35049.yaml "$work/a \"quoted\", name.yaml"
run "a config's name in JSON" 0 inject "$work/a \"quoted\", name.yaml" --format json
out_has '"config": "a \"quoted\", name.yaml", "fault"'
run "a config's name in CSV" 0 inject "$work/a \"quoted\", name.yaml" --format csv
out_has '"a ""quoted"", name.yaml",'
run "a plan that rates draw" 0 inject configs/examples/faults.yaml --print-plan --seed 7 \
    --set 'faults.rates=[{fault: bit-flip, rate: 20, per: hour}]'
out_has "  plan:"
out_has "  - {fault: bit-flip, variant: kv, at: "
for round in killed whole; do
    run "a campaign on disk, $round" 0 inject configs/examples/faults.yaml --trials 20 -o "$work/$round.h5" \
        --set fleet.decode.guard=tag-side --set 'faults.kinds=[stale-reader, late-write]'
    cp "$work/out" "$work/$round.txt"
    [ ! -e "$work/$round.h5.journal" ] || fail "a journal is left"
    [ "$round" = killed ] || break
    rm "$work/killed.h5"
    "$kvtwin" inject configs/examples/faults.yaml --trials 20 -o "$work/killed.h5" -q \
        --set fleet.decode.guard=tag-side --set 'faults.kinds=[stale-reader, late-write]' >"$work/out" &
    job=$!
    while [ ! -e "$work/killed.h5.journal" ] && [ ! -e "$work/killed.h5" ]; do sleep 0.01; done
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    if [ -e "$work/killed.h5.journal" ]; then
        run "another seed does not go on" 3 inject configs/examples/faults.yaml --trials 20 -o "$work/killed.h5" \
            --seed 77 --set fleet.decode.guard=tag-side --set 'faults.kinds=[stale-reader, late-write]'
        err_has "belongs to another job"
    fi
    began=$(stat -c %s "$work/killed.h5.journal" 2>/dev/null || echo 0)
    run "it goes on" 0 inject configs/examples/faults.yaml --trials 20 -o "$work/killed.h5" \
        --set fleet.decode.guard=tag-side --set 'faults.kinds=[stale-reader, late-write]'
    [ "$began" -lt 9000 ] || err_has " of 40 trials came from the journal"
    cmp -s "$work/out" "$work/killed.txt" || fail "a campaign that went on says something else"
done
cmp -s "$work/killed.h5" "$work/whole.h5" || fail "a campaign that went on has other bytes"
for way in "--seed 77" "--trials 21" "--estimator counted"; do
    # shellcheck disable=SC2086
    run "a finished campaign is not written over, $way" 3 inject configs/examples/faults.yaml --trials 20 \
        -o "$work/killed.h5" --set fleet.decode.guard=tag-side --set 'faults.kinds=[stale-reader, late-write]' $way
    err_has "killed.h5: belongs to another job: want"
    cmp -s "$work/killed.h5" "$work/whole.h5" || fail "it was written over"
done
cp README.md "$work/other.h5"
run "a campaign is no run" 3 diff "$work/whole.h5" "$work/whole.h5"
err_has "want the file of a run (simulate -o), got that of a fault campaign (inject -o)"
run "a campaign has no page" 3 report "$work/whole.h5" -o "$work/no.html"
err_has "want the file of a run, a sweep or a plan, got that of a fault campaign (inject -o)"
run "nor is a file of another kind" 3 inject configs/examples/faults.yaml --trials 2 -o "$work/other.h5" \
    --set fleet.decode.guard=none --set 'faults.kinds=[leak]'
err_has "other.h5: want an HDF5 file of kvtwin's, got something else; remove it, or name another output"
cmp -s README.md "$work/other.h5" || fail "it was written over"
for command in "inject configs/examples/faults.yaml" "sweep configs/examples/sweep.yaml"; do
    run "${command% *} into a folder" 4 $command -o "$work"
    err_has "kvtwin: $work: "
    run "${command% *} where nothing can be" 4 $command -o /proc/x.h5
    err_has "kvtwin: /proc/x.h5: cannot write"
    [ -z "$(ls "$work".* 2>/dev/null)" ] || fail "left a journal"
done
sed 's/^    guard: .*//; s/^  serve:$/&\n    guard: {choices: [none, request-id]}/' "configs/examples/azure-conv.yaml" >"$work/choices.yaml"
echo 'faults: {trials: 1}' >>"$work/choices.yaml"
run "a guard of a domain that its role cannot have" 3 inject "$work/choices.yaml" --set model=qwen3-8b \
    --set 'workload={open: {rate: 1 req/s, requests: 9, input: 9, output: 9}}'
grep -qE '^kvtwin: .*choices.yaml:[0-9]+:[0-9]+: of the choice request-id: fleet.serve.guard: request-id is for messages' \
    "$work/err" || fail "$(cat "$work/err")"
run "quarantine without a guard that looks" 3 capacity configs/examples/faults.yaml \
    --set 'fleet.decode.guard={fifo: , quarantine: }'
err_has "fleet.decode.guard: quarantine is for pages that failed a check"
run "a guard without a check" 0 inject configs/examples/faults.yaml --trials 2 \
    --set fleet.decode.guard=deferred-free --set 'faults.kinds=[leak]'
out_has "guard deferred-free, percent"
run "no plan to print" 3 inject configs/examples/faults.yaml --print-plan
err_has "--print-plan wants faults.plan or faults.rates"
run "a plan is printed, not written" 2 inject configs/examples/faults.yaml --print-plan -o "$work/plan.h5"
err_has "--print-plan writes to standard output"
run "more trials than a campaign takes" 6 inject configs/examples/faults.yaml --trials 1000000000
err_has "faults.trials: want at most 100000000 of all 14 classes together, got 1000000000 each"
run "no class at all" 3 inject configs/examples/faults.yaml --set 'faults.kinds=[]'
err_has "or false-alarm, got an empty list"
run "a share that nothing reads" 3 inject configs/examples/faults.yaml \
    --set 'fleet.decode.guard={tag-side: {sample: 0.5}}'
err_has "fleet.decode.guard: sample is for check: sampled, got check: once"
run "a check that no message knows" 3 inject configs/examples/faults.yaml \
    --set 'fleet.decode.guard={request-id: {check: before-read}}'
err_has "fleet.decode.guard.request-id.check: unknown key; want no key"
run "quarantine for what looks at no page" 3 inject configs/examples/faults.yaml \
    --set fleet.decode.guard=request-id+quarantine
err_has "want a tag, digest or canary beside it"
run "a lease for ever" 3 inject configs/examples/faults.yaml --set 'fleet.decode.guard={lease: {term: 1e30 s}}'
err_has "above 0 s, at most 100000 s"
run "guards in a list" 3 inject configs/examples/faults.yaml --set 'fleet.decode.guard=[lease]'
err_has "fleet.decode.guard: want a name or a mapping, got a list"
run "rates at which nothing strikes are split too" 0 inject configs/examples/faults.yaml --trials 4 \
    --estimator splitting --set fleet.decode.guard=none \
    --set 'faults.rates=[{fault: stale-reader, rate: 0, per: hour}]'
run "a plan without a strike" 0 inject configs/examples/faults.yaml --print-plan \
    --set 'faults.rates=[{fault: bit-flip, rate: 1e-9, per: hour}]'
out_has "plan: []"
err_has "draw no strike with this seed"
run "a run that is split" 0 inject configs/examples/faults.yaml --trials 8 --estimator splitting --format json \
    --set fleet.decode.guard=tag-side --set 'faults.rates=[{fault: stale-reader, rate: 1e-3, per: hour}]'
out_has '"estimator": "splitting"'
out_has '"levels": [{"level": 0, "entered": 8'
run "escapes per request" 0 inject configs/examples/faults.yaml --trials 8 --estimator importance --format json \
    --set fleet.decode.guard=tag-side --set 'faults.rates=[{fault: stale-reader, rate: 1e-3, per: hour}]'
out_has '"estimator": "importance"'
run "an unknown estimator" 2 inject configs/examples/faults.yaml --estimator guessed
err_has "want counted, forced, importance or splitting"
run "a share above 1" 3 inject configs/examples/faults.yaml --set fleet.decode.guard=none \
    --set 'faults.rates=[{fault: partial-transfer, rate: 1.5, per: transfer}]'
err_has "a rate per transfer is a share: want 0 to 1, got 1.5"
run "inject wants faults" 3 inject configs/examples/quickstart.yaml
err_has 'want a section `faults`, got none'
run "an unknown class" 3 inject configs/examples/faults.yaml --set 'faults.kinds=[stale-write]'
err_has "stale-write"
run "no trials" 2 inject configs/examples/faults.yaml --trials 0
err_has "--trials"
run "strikes after the end of the load" 3 inject configs/examples/faults.yaml --set 'run.until=120 s'
err_has "faults.yaml:46:41: faults.until: want it at run.until (120 s) or before, got 540 s"
run "strikes from after the end of the load" 3 inject configs/examples/faults.yaml --set 'run.until=50 s' \
    --set faults.until=null
err_has "faults.yaml:46:28: faults.from: want it before run.until (50 s), got 60 s"
run "a window that ends before it begins" 3 inject configs/examples/faults.yaml --set 'faults.until=30 s'
err_has "faults.until: want it after faults.from (60 s), got 30 s"
run "rates after the end of the load" 3 inject configs/examples/faults.yaml --print-plan --set 'run.until=120 s' \
    --set 'faults.rates=[{fault: bit-flip, rate: 20, per: hour}]'
err_has "faults.until: want it at run.until (120 s) or before, got 540 s"
run "strikes after the last request" 3 inject configs/examples/faults.yaml --set 'faults.from=900 s' \
    --set faults.until=null --set run.until=null --set workload.open.requests=100
err_has "the last request comes at"

run "diff of what is no run" 3 diff "$work/made/run.h5" README.md
err_has "README.md"

# ---- limits and signals: nothing half-written, nothing left behind ----
# The load is long enough to be met by a signal at any speed: the run is found by its temporary file.
long="--set workload.trace=$work/long.csv"
"$kvtwin" trace generate -q -o "$work/long.csv" --rate 4 --requests 100000 \
    --input-tokens 64 --output-tokens 4000 || fail "cannot make a long trace"

name="a limit on the size of files"
count=$((count + 1))
mkdir "$work/small"
(
    ulimit -f 2
    exec "$kvtwin" simulate $config -q -o "$work/small/run.h5" >"$work/out" 2>"$work/err"
)
got=$?
[ $got -eq 4 ] || fail "exit code $got, want 4"
err_has "$work/small/run.h5"
[ -z "$(ls "$work/small")" ] || fail "left behind: $(ls "$work/small")"

# Tables of kernel times: a good one made here, and what is wrong with others.
table=$work/h200_sxm-own-1.0-gemm.csv
awk 'BEGIN {
    print "op_name,gemm_dtype,m,n,k,latency"
    for (n = 512; n <= 32768; n *= 2) for (k = 512; k <= 32768; k *= 2) for (m = 1; m < 5000; m *= 8) {
        memory = (2 * n * k + 2 * m * (n + k)) / 4e12; compute = 2 * m * n * k / 7e14
        printf "gemm,bfloat16,%d,%d,%d,%.9g\n", m, n, k, 1e3 * (4e-6 + memory + compute)
    }
}' >"$table"
run "a table is fitted" 0 calibrate "$table" -o "$work/cal.yaml"
err_is_empty
out_has "own 1.0 gemm bfloat16"
run "a step that one role has no room for" 3 simulate configs/examples/quickstart.yaml --explain-step --format json \
    --set fleet.decode.memory.fraction=0.01
out_is_empty
run "a file of a step" 2 simulate configs/examples/quickstart.yaml --explain-step -o "$work/no.h5"
err_has "--output is for a run"
run "a table of a step" 2 simulate configs/examples/quickstart.yaml --explain-step --format csv
err_has "want text or json"
run "a batch of a run" 2 simulate configs/examples/quickstart.yaml --batch 3
err_has "--batch is for --explain-step"
run "its calibration is read" 0 simulate $config --set calibration.h200-sxm="$work/cal.yaml" --explain-step
run "a fit as JSON" 0 calibrate "$table" --test "$table" --format json
out_starts "{"
out_has '"interval_coverage"'
run "a table for another GPU" 3 calibrate "$table" --gpu b200-sxm
out_is_empty
err_has "is a table of GPU \"h200-sxm\", --gpu wants \"b200-sxm\""
sed '7s/,[^,]*$/,nan/' "$table" >"$work/h200_sxm-own-1.0-nan.csv"
run "a time that is no number" 3 calibrate "$work/h200_sxm-own-1.0-nan.csv" -o "$work/no.yaml"
err_has "h200_sxm-own-1.0-nan.csv:7: latency: "
[ ! -e "$work/no.yaml" ] || fail "wrote a calibration of a bad table"
head -n 2 "$table" >"$work/h200_sxm-own-1.0-one.csv"
run "a table of one row" 3 calibrate "$work/h200_sxm-own-1.0-one.csv"
err_has "h200_sxm-own-1.0-one.csv:2: own 1.0 gemm bfloat16: want at least 24 different rows"
run "a table that is not there" 4 calibrate "$work/none.csv"

# Tables of kvtwin bench: 36 points of one GEMM on a CPU that a file describes.
own=$work/own.csv
printf 'name: my-cpu\nmemory-visible: 16 GiB\nbandwidth: 60 GB/s\nbf16: 1 TFLOP/s\n' >"$work/my-cpu.yaml"
awk 'BEGIN {
    print "backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,ceiling,fraction_of_ceiling,status"
    print "cpu,\"My CPU, 2 threads\",read,,mib=512,10000000,1,7,570000000,0,57,57,1,ok"
    print "cpu,\"My CPU, 2 threads\",launch,,threads=2,4000,1,7,0,0,0,0,0,ok"
    for (n = 512; n <= 4096; n *= 2) for (k = 512; k <= 2048; k *= 2) for (m = 1; m < 200; m *= 8) {
        bytes = 2 * n * k + 2 * m * (n + k); ns = 8000 + bytes / 50 + 2 * m * n * k / 600
        printf "cpu,\"My CPU, 2 threads\",gemm,bf16,m=%d n=%d k=%d,%.0f,1,7,%.0f,%.0f,%.4f,57,0.5,ok\n", m, n, k, ns, bytes, 2 * m * n * k, bytes / ns
    }
    print "cpu,\"My CPU, 2 threads\",gemm,bf16,m=1 n=9 k=9,5,1,7,0,0,0,57,0.5,preempted"
}' >"$own"
run "a table of kvtwin bench is fitted" 0 calibrate "$own" --gpu "$work/my-cpu.yaml" --stack own -o "$work/own.yaml"
out_has "own cpu gemm bf16: t0 "
err_has "1 row left out; the first is"
err_has "families were not measured; they follow the ceilings"
run "its calibration is run with" 0 simulate configs/examples/azure-conv.yaml --set model=qwen3-0.6b --set fleet.serve.gpu="$work/my-cpu.yaml" \
    --set calibration.my-cpu="$work/own.yaml" --set fleet.serve.parallel.tp=1 --set fleet.serve.weights=bf16 --explain-step
out_has "fitted to 36 rows of own cpu gemm bf16"
err_has "is extrapolated"
run "its fit as JSON" 0 calibrate "$own" --gpu "$work/my-cpu.yaml" --format json
out_has '"known": true'
run "a table of kvtwin bench without its GPU" 3 calibrate "$own"
err_has "want --gpu NAME or FILE.yaml"
run "a table of another machine" 3 calibrate "$own" --gpu h200-sxm -o "$work/no.yaml"
err_has 'My CPU, 2 threads reach 57 GB/s, GPU "h200-sxm" has 4800 GB/s'
[ ! -e "$work/no.yaml" ] || fail "wrote a calibration of another machine"
run "a calibration of another GPU" 3 simulate $config --set calibration.h200-sxm="$work/own.yaml"
err_has 'this calibration is for "my-cpu", wanted one for'
sed '1s/,shape,/,form,/' "$own" >"$work/columns.csv"
run "a table without a column" 3 calibrate "$work/columns.csv" --gpu "$work/my-cpu.yaml"
err_has 'columns.csv:1: column "shape": wanted in a table of kvtwin bench, not found'
awk 'NR == 1 || /gemm/ { gsub(/"My CPU, 2 threads"/, "My CPU"); split($0, f, ","); print f[1] "," f[2] "," f[3] "," f[4] "," f[5] "," f[6] }' \
    "$own" >"$work/columns.csv"
run "the columns that a table of one's own must have" 0 calibrate "$work/columns.csv" --gpu "$work/my-cpu.yaml" -o "$work/columns.yaml"
out_has "own cpu gemm bf16: t0 "
err_has "no launch ceiling in the tables"
echo 'cpu,My CPU,read,,mib=512,10000000' >>"$work/columns.csv"
run "a ceiling without bytes" 3 calibrate "$work/columns.csv" --gpu "$work/my-cpu.yaml"
err_has 'bytes: wanted for read and more than 0, got ""'
sed '5s/gemm,bf16,\(.*\),[0-9]*,1,7,/gemm,bf16,\1,8,1,7,/' "$own" >"$work/unit.csv"
run "a time in another unit" 3 calibrate "$work/unit.csv" --gpu "$work/my-cpu.yaml"
err_has "unit.csv:5: time_ns: want nanoseconds"
run "no table" 2 calibrate
run "a table twice" 2 calibrate "$table" "$table"
err_has "want each file once"
run "rules for a file that nobody asked for" 2 calibrate "$table" --kernel foo
err_has "want -o FILE"
run "families kept from nowhere" 4 calibrate "$table" --keep nosuch -o "$work/no.yaml"
run "a rule without a text" 2 calibrate "$table" --kernel foo -o "$work/no.yaml"

# Benchmarks of a server: the twin writes what a client would have.
server="model: qwen3-30b-a3b
engine: sglang
fleet: {serve: {gpu: h200-sxm, memory: {fraction: 0.85}}}"
printf '%s\n' "$server" >"$work/server.yaml"
for load in 1 8 32; do
    "$kvtwin" simulate "$work/server.yaml" -q --format json \
        --set "workload={closed: {concurrency: $load, input: 500, output: 60, requests: 64}}" >"$work/run.json" ||
        fail "no run to fit to"
    sed -n 's/^ *"\(mean_ttft_ms\|mean_tpot_ms\|output_throughput\)": \([0-9.e+-]*\),*$/\1 \2/p' "$work/run.json" |
        awk -v load=$load 'BEGIN { printf "{\"backend\": \"sglang\", \"request_rate\": Infinity, \"max_concurrency\": %d, \"total_throughput\": 1, \"completed\": 64, \"total_input_tokens\": 32000, \"total_output_tokens\": 3840", load }
            { printf ", \"%s\": %.9g", $1, $2 * ($1 == "output_throughput" ? 0.95 : 1.05) } END { print "}" }' >>"$work/bench.jsonl"
done
run "constants are fitted to benchmarks" 0 calibrate "$work/bench.jsonl" --serving "$work/server.yaml" -q -o "$work/fitted.yaml"
err_is_empty
out_has "fitted to 3 runs in 1 file,"
out_has "bench.jsonl:2"
run "the fitted calibration is run with" 0 simulate "$work/server.yaml" --set calibration.h200-sxm="$work/fitted.yaml" \
    --set "workload={closed: {concurrency: 8, input: 500, output: 60, requests: 64}}"
run "constants as JSON" 0 calibrate "$work/bench.jsonl" --serving "$work/server.yaml" --format json
out_starts "{"
out_has '"shipped_error"'
odd=$work/$(printf '\377').jsonl
cp "$work/bench.jsonl" "$odd"
run "residuals of a path that is not UTF-8" 0 calibrate "$odd" --serving "$work/server.yaml" --format json -q
out_has '?.jsonl"'
run "a result of another engine" 3 calibrate "$work/bench.jsonl" --serving "$work/server.yaml" --set engine=vllm
err_has 'bench.jsonl:1: field "backend": is a run on sglang'
head -c 60 "$work/bench.jsonl" >"$work/cut.json"
run "a result that is cut off" 3 calibrate "$work/cut.json" --serving "$work/server.yaml" -o "$work/no.yaml"
err_has "cut.json:1:"
err_has "not JSON"
[ ! -e "$work/no.yaml" ] || fail "wrote a calibration of a bad result"
sed 's/"completed": 64/"completed": 0/' "$work/bench.jsonl" >"$work/zero.json"
run "a result without a completed request" 3 calibrate "$work/zero.json" --serving "$work/server.yaml"
err_has 'zero.json:1: field "completed": want at least one completed request'
sed '2s/"total_input_tokens"/"tokens"/' "$work/bench.jsonl" >"$work/field.json"
run "a result without a field" 3 calibrate "$work/field.json" --serving "$work/server.yaml"
err_has 'field.json:2: field "total_input_tokens": wanted in a benchmark result, not found'
run "a table as a result" 3 calibrate "$own" --serving "$work/server.yaml"
run "options of tables beside --serving" 2 calibrate "$work/bench.jsonl" --serving "$work/server.yaml" --gpu h200-sxm
run "a kernel rule beside --serving" 2 calibrate "$work/bench.jsonl" --serving "$work/server.yaml" --kernel gemm=x -o "$work/no.yaml"
err_has "--kernel is for tables of kernel times"
run "a calibration over its config" 2 calibrate "$work/bench.jsonl" --serving "$work/server.yaml" -o "$work/server.yaml"
err_has "server.yaml is the input of --serving"
run "a calibration over its test" 2 calibrate "$table" --test "$own" -o "$own"
err_has "is the input of --test"
sed 's/"total_throughput"/"model_id": "Qwen\/Qwen3-8B", "total_token_throughput"/; s/Infinity/"inf"/' "$work/bench.jsonl" >"$work/model.json"
run "a result of another model" 0 calibrate "$work/model.json" --serving "$work/server.yaml"
err_has 'model.json:1: is a run of "Qwen/Qwen3-8B" (qwen3-8b), the config '
sed -i 's/Qwen3-8B/Qwen3-30B-A3B-Instruct-2507-FP8/' "$work/model.json"
run "a result of its model" 0 calibrate "$work/model.json" --serving "$work/server.yaml"
grep -q "is a run of" "$work/err" && fail "$(cat "$work/err")"
run "--set beside tables" 2 calibrate "$own" --set engine=vllm
err_has "--set is for --serving CONFIG"

interrupt() { # interrupt SIGNAL OPTION...: into $work/out, $work/err and $got
    signal=$1
    shift
    count=$((count + 1))
    rm -rf "$work/cut"
    mkdir "$work/cut"
    "$kvtwin" simulate $config $long --exact-steps -o "$work/cut/run.h5" "$@" >"$work/out" 2>"$work/err" &
    pid=$!
    until ls "$work"/cut/run.h5.tmp.kvtwin >/dev/null 2>&1; do
        kill -0 $pid 2>/dev/null || break
    done
    kill -"$signal" $pid 2>/dev/null
    wait $pid
    got=$?
}
for signal in INT TERM; do
    name="SIG$signal while simulating"
    interrupt $signal --format json
    [ $got -eq 130 ] || fail "exit code $got, want 130"
    [ "$(ls "$work/cut")" = run.h5 ] || fail "want run.h5 alone, found: $(ls "$work/cut")"
    out_starts "{"
    out_has "\"running\""
    err_has "interrupted"
done

# ---- validate ----
own=configs/examples/validate-cpu.yaml
run "an unknown backend" 2 validate $own --backend gpu
err_has 'want cpu, cuda or reference, got "gpu"'
run "a validation is no table" 2 validate $own --format csv
run "no CUDA, or no GPU" 7 validate $own --backend cuda
out_is_empty
run "a role on two GPUs" 3 validate $own --set fleet.decode.parallel.tp=3
err_has "one GPU a replica"
run "a KV dtype without a kernel" 3 validate $own --set fleet.decode.kv=nvfp4
run "too little memory" 3 validate $own --set fleet.decode.gpu.memory=200MiB
err_has "does not fit"
run "a result that cannot be written" 4 validate $own -o "$work/none/run.h5"
run "pages of another size" 3 validate $own --set fleet.decode.page_tokens=32
err_has "pages are handed over one by one"
run "drafts" 3 validate $own --set fleet.decode.draft_tokens=2
err_has "no speculative decoding"
run "a guard that is not run" 3 validate $own --set 'fleet.decode.guard=digest'
err_has "validate runs no guard digest"
run "a check that is not run" 3 validate $own --set 'fleet.decode.guard={tag-side: {bits: 32, check: after-step}}'
err_has "got after-step and abort"
run "an empty log name" 2 validate $own --log ""
for small in tests/runtime/validate-tiny.yaml tests/runtime/validate-tiny-mla.yaml; do
    run "a small fleet, simulated and run" 0 validate $small --short -q --format json -o "$work/v.h5" --decisions --log "$work/v.log"
    out_starts "{"
    for key in decisions_equal predicted_pages measured_pages count median_abs_error p90_abs_error \
        inside_interval predicted_overhead measured_overhead interval free_run first_divergence; do
        out_has "\"$key\": "
    done
    for want in '"decisions_equal": true' '"verdict": "pass"' '"changed": 0' '"failures": 0'; do
        out_has "$want"
    done
    [ -s "$work/v.log" ] || fail "no decisions in the log"
    rm -f "$work/v.log"
    run "its free run can be compared" 0 diff "$work/v.h5" "$work/v.h5"
    rm -f "$work/v.h5"
done

# ---- report ----
run "a run to report" 0 simulate configs/examples/quickstart.yaml -q -o "$work/report.h5"
run "a report" 0 report "$work/report.h5" -o "$work/report.html"
out_is_empty
err_is_empty
run "a report of nowhere" 2 report "$work/report.h5"
err_has "want -o FILE.html"
run "a report of a file that is not there" 4 report "$work/none.h5" -o "$work/none.html"
[ ! -e "$work/none.html" ] || fail "left a page"
run "a report of a foreign file" 3 report README.md -o "$work/none.html"
err_has "want an HDF5 file of kvtwin's"
head -c 20000 "$work/report.h5" >"$work/part.h5"
run "a report of half a file" 3 report "$work/part.h5" -o "$work/none.html"
[ ! -e "$work/none.html" ] || fail "left a page"
run "a page that cannot be written" 4 report "$work/report.h5" -o "$work/none/report.html"
run "a folder that cannot be made" 4 report "$work/report.h5" -o "$work/none.html" --svg "$work/report.html"
err_has "cannot make the folder"
[ ! -e "$work/none.html" ] || fail "left a page"
run "a measured run that is none" 3 report "$work/report.h5" -o "$work/none.html" --compare README.md
[ ! -e "$work/none.html" ] || fail "left a page"
run "a fault plan falls in each resample" 0 simulate configs/incidents/sglang-17259.yaml --resamples 5 -q \
    --set fleet.decode.guard=none --format json
grep -o '"request_throughput.*' "$work/out" | head -3 | tr -d ',' | sort >"$work/intervals"
run "as in a sweep of one point" 0 sweep configs/incidents/sglang-17259.yaml --resamples 5 -q \
    --set fleet.decode.guard=none --format json
tr ',' '\n' <"$work/out" | grep -o '"request_throughput.*' | head -3 | sort | cmp -s - "$work/intervals" ||
    fail "sweep has other intervals"
out_has '"request_throughput_low"'
strike() {
    run "$1" 3 simulate configs/incidents/sglang-17259.yaml --set fleet.decode.guard=none \
        --set "faults.plan=[{fault: $2}]"
    err_has "$3"
}
strike "a page beyond the pool" "bit-flip, at: 1 s, page: 1073741822" "faults.plan: page 1073741822 of a pool of "
strike "a request beyond the load" "late-write, at: 1 s, request: 2000000000" "faults.plan: request 2000000000 of a load of "
strike "no bit of a page number" "bit-flip, variant: table, at: 1 s, amount: 31" \
    "is which bit: want a whole number from 0 to 30, got 31"
strike "a domain in a row" "{choices: [leak, bit-flip]}, at: 1 s" \
    "faults.plan[0].fault: want a value, got a domain in a row of a list"
run "rates are told where none strikes" 0 simulate configs/incidents/sglang-17259.yaml --set fleet.decode.guard=none \
    --set 'faults.rates=[{fault: leak, rate: 1, per: hour}]'
err_has "note: faults.rates are for kvtwin inject"
run "a run with a fault plan" 0 simulate configs/incidents/sglang-17259.yaml -q \
    --set fleet.decode.guard=none -o "$work/faults.h5"

# ---- other tools' formats ----
run "all outputs at once" 0 simulate configs/examples/quickstart.yaml -q --perfetto "$work/trace.json" \
    --export "vllm:$work/vllm.json" --export "sglang:$work/sglang.jsonl" --export "llm-d:$work/llmd.json"
run "what we write we read" 0 report "$work/report.h5" -o "$work/both.html" --compare "$work/vllm.json" \
    --compare "$work/sglang.jsonl"
grep -q '<td>output_throughput<td>308.9<td>308.9<td>+0.0 %<td>308.9<td>+0.0 %' "$work/both.html" ||
    fail "the table does not show equal runs"
run "the same trace again" 0 simulate configs/examples/quickstart.yaml -q --perfetto "$work/again.json" \
    --log "$work/run.log" --exact-steps
cmp -s "$work/trace.json" "$work/again.json" || fail "traces of one run differ"
run "an unknown format" 2 simulate configs/examples/quickstart.yaml --export "csv:$work/x"
err_has "want vllm:FILE"
run "an export that cannot be written" 4 simulate configs/examples/quickstart.yaml --export "vllm:$work/no/x"
out_is_empty
run "a trace that cannot be written" 4 simulate configs/examples/quickstart.yaml --perfetto "$work/no/x"
out_is_empty
run "a trace on a full disk" 4 simulate configs/examples/quickstart.yaml -q --perfetto /dev/full

# ---- tables without a request ----
run "a warm-up longer than the run" 0 simulate tests/twins/pressure.yaml --set 'run.warmup=1000 s'
err_has "kvtwin: warning: nothing is counted: no request arrived after run.warmup (1000 s)"
run "requests that are all too long" 0 simulate tests/twins/pressure.yaml --set fleet.serve.scheduler.max_model_len=2
grep -qE '^kvtwin: warning: rejected ([0-9]+) of \1 requests: they are longer than max_model_len, or than the KV' \
    "$work/err" || fail "$(cat "$work/err")"
run "the same in silence" 0 simulate tests/twins/pressure.yaml --set fleet.serve.scheduler.max_model_len=2 -q
err_is_empty
run "requests of a length in CSV" 0 capacity configs/examples/quickstart.yaml --context 11000 --context 2000 --format csv
[ "$(head -n 1 "$work/out" | tr ',' '\n' | grep -c '^requests_at_')" -eq 2 ] || fail "not a column each"
out_has ",requests_at_11000"
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "requests_at_11000") at = i }
    NR == 2 { exit !(at > 0 && $at == 61) }' "$work/out" || fail "want 61 requests of 11000 tokens"

# ---- descriptions of a load ----
made="trace generate --until 9 --output-tokens 5 -o $work/load.csv"
for bad in "--rate 1e308 --input-tokens 5|--rate: want a rate of 1e-6 to 1e9 requests/s, got 1e+308" \
    "--rate 1 --input-tokens 0|--input-tokens: input: want a mean of 1 to" \
    "--rate 1 --input-tokens 1.5|--input-tokens: want a whole number of tokens, got 1.5" \
    "--rate 1 --input-tokens uniform:1.5:9|--input-tokens: want a whole number of tokens, got 1.5" \
    "--rate 1 --input-tokens lognormal:100:400:10|between its min and its max, got the max 10" \
    "--rate 1 --input-tokens 5 --arrivals gamma:1e9|--arrivals: want gamma gaps with a cv of" \
    "--rate 1 --input-tokens 5 --stamp 1e9|--stamp: want stamps of" \
    "--rate 1 --input-tokens 5 --prefixes 3:2:9|--prefixes: want a prefix share of 0 to 1, got 2"; do
    run "trace generate ${bad%|*}" 2 $made ${bad%|*}
    err_has "kvtwin: "
    err_has "${bad#*|}"
done
run "a rate that --set gives" 3 simulate configs/examples/faults.yaml --set fleet.decode.guard=none \
    --set 'workload.open.rate=1e-300 req/s'
err_has "kvtwin: --set workload.open.rate=1e-300 req/s: want a rate of 1e-6 to 1e9 requests/s"
run "a maximum below the mean" 3 simulate configs/examples/faults.yaml --set fleet.decode.guard=none \
    --set 'workload.open.input={lognormal: {mean: 100, p99: 400, max: 10}}'
err_has "{mean: 100, p99: 400, max: 10}}: input: want the mean of a lognormal (100) between its min and its max"

# ---- help with configs ----
run "a key explained" 0 config explain fleet.decode.kv
out_has "default"
out_has "--set fleet.decode.kv=bf16"
run "a section explained" 0 config explain fleet.decode
out_has "page_tokens"
run "an alias explained" 0 config explain fleet.serve.tensor_parallel_size
run "every key can be explained" 0 config keys
cp "$work/out" "$work/keys"
while read -r key; do
    "$kvtwin" config explain "$key" >"$work/page" || fail "$key"
    echo "$key"
    sed -n 's/^  also  *//p' "$work/page" | tr ' ' '\n'
done <"$work/keys" | sort -u >"$work/words"
cat >"$work/serve.yaml" <<END
model: qwen3-8b
fleet: {serve: {gpu: h200-sxm}}
workload: {open: {rate: 1 req/s, requests: 9, input: 9, output: 9}}
END
cat >"$work/split.yaml" <<END
model: qwen3-8b
fleet: {prefill: {gpu: h200-sxm}, decode: {gpu: h200-sxm}}
workload: {closed: {concurrency: 1, requests: 9, input: 9, output: 9}}
END
count=$((count + 1))
name="what config explain says how to set can be set, of a key or another word for it"
while read -r key; do # but for keys that want another beside them
    set=$("$kvtwin" config explain "$key" | sed -n 's/, or of fleet.prefill and fleet.decode$//; s/^  set *--set //p')
    case $set in
        *fleet.prefill* | *fleet.decode* | *fleet.link* | *workload.closed*) file="split" ;;
        *) file=serve ;;
    esac
    [ -z "$set" ] || eval "\"\$kvtwin\" config check \"\$work/$file.yaml\" --set $set" >/dev/null 2>"$work/err" ||
        grep -qE 'is missing; want|sample is for check|want p99 or cv beside|lease is for messages' "$work/err" ||
        fail "$key: $(cat "$work/err")"
done <"$work/words"
run "another engine's word, of no role" 0 config explain kv_cache_dtype
out_has "  set      --set fleet.serve.kv=bf16, or of fleet.prefill and fleet.decode"
run "another engine's word, of a role" 0 config explain fleet.decode.max-num-seqs
out_has "  set      --set fleet.decode.scheduler.max_running="
run "an unknown key" 2 config explain fleet.decode.kw
err_has 'did you mean "fleet.decode.kv"'
run "explain nothing" 2 config explain
run "examples" 0 examples
out_has "configs/examples/quickstart.yaml"
out_has "Kimi K2.6 on two nodes of eight H200"
run "published, for programs" 0 examples published --format json
out_has '"title": '
run "examples of nothing" 2 examples lessons
full_disk "examples on a full disk" examples

# ---- bench ----
run "an unknown family" 2 bench --family gemv
err_has '--family: want one of read, copy, '
err_has 'elementwise, got "gemv"'
run "no CUDA, or no GPU, to measure" 7 bench --backend cuda
out_is_empty
run "a table that cannot be written" 4 bench -o "$work/none/own.csv"
run "a few tag checks" 0 bench --quick --family tag-check -o "$work/tags.csv"
out_has "matrix units"
out_has "tag check, warm"
grep -q '^cpu,".*",tag-check,side+warm,pages=1024,.*,ok$' "$work/tags.csv" || fail "no row of the warm tag check"
run "the same as JSON" 0 bench --quick --family elementwise --format json
out_has '"ceilings"'
out_has '"targets"'
out_has '"fraction_of_ceiling"'
export KVTWIN_ISA=pentium
run "an instruction set that nobody knows" 2 capacity $config
err_has 'KVTWIN_ISA: want portable, avx2, avx512 or amx, got "pentium"'
unset KVTWIN_ISA

# ---- sweep ----
sweep=configs/examples/sweep.yaml
few="--set workload.closed.concurrency=[1,4] --set fleet.serve.gpu=h100-sxm"
run "a sweep on one thread" 0 sweep $sweep $few --threads 1 -o "$work/one.h5" --format json
out_starts '{"points": 20, "failed": 0, "rows": \['
out_has '"fleet.serve.scheduler.batch_tokens": 8192'
err_is_empty
run "a sweep on two" 0 sweep $sweep $few --threads 2 -o "$work/two.h5" --format csv
out_starts "point,fleet.serve.kv,"
[ "$(wc -l <"$work/out")" -eq 21 ] || fail "want a header and 20 rows"
cmp -s "$work/one.h5" "$work/two.h5" || fail "the files differ"
run "a sweep of too many points" 6 sweep $sweep --set 'run.seed={choices: [1]}' \
    --set 'fleet.serve.replicas={range: {min: 1, max: 9999, step: 1}}'
err_has "want at most 1000000 points, got 1.9998e+06"
run "a range of too many values" 6 sweep $sweep \
    --set 'workload.closed.requests={range: {min: 1, max: 1e12, step: 1}}'
err_has "got 1e+12"
run "a sweep with a choice given twice" 3 sweep $sweep --set 'run.seed={choices: [7, 8, 7]}'
err_has "want choices that differ, got 7 a second time"
run "a sweep over choices and a range" 3 sweep $sweep --set 'run.seed={choices: [7], range: {min: 1, max: 2, step: 1}}'
err_has 'want a domain of one key, choices or range, got "choices" and "range"'
for command in sweep plan inject; do
    run "$command on too many threads" 2 $command $sweep --threads 1025
    err_has "threads: want a whole number from 1 to 1024"
done
run "a sweep that cannot be written" 4 sweep $sweep $few -o "$work/none/s.h5"
out_is_empty
many="--set fleet.serve.gpu=h100-sxm --set workload.closed.concurrency=[$(seq -s, 40)]" # 400 points, half a second
run "many points" 0 sweep $sweep $many -o "$work/many.h5" -q
name="a sweep that is killed and goes on"
count=$((count + 1))
for turn in 1 3 5 2 4; do
    "$kvtwin" sweep $sweep $many --threads 2 -o "$work/cut.h5" -q >/dev/null 2>&1 &
    pid=$!
    until [ -s "$work/cut.h5.journal.0" ] || ! kill -0 $pid 2>/dev/null; do :; done
    sleep 0.0$turn
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
done
[ -e "$work/cut.h5" ] && refused=0 || refused=3
run "another seed" $refused sweep $sweep $many --seed 2 -o "$work/cut.h5"
run "the rest of a sweep" 0 sweep $sweep $many -o "$work/cut.h5"
[ ! -e "$work/cut.h5.journal.0" ] || fail "the journal is left"
cmp -s "$work/many.h5" "$work/cut.h5" || fail "the file differs from that of an uninterrupted sweep"

# ---- ranks ----
ranks() { # ranks COUNT ARGUMENT...: its process ids in $work/rank.0, $work/rank.1
    of=$1
    shift
    rm -f "$work"/rank.?
    # shellcheck disable=SC2016
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 exec timeout 60 mpirun --oversubscribe -n "$of" \
        --mca odls_base_sigkill_timeout 20 \
        sh -c 'echo $$ >"$0.$OMPI_COMM_WORLD_RANK"; exec "$@"' "$work/rank" "$kvtwin" "$@"
}
# killed RANK: SIGKILL for that rank in the middle of a sweep of two; leaves mpirun's code in $got.
killed() {
    touch "$work/lost.h5.journal.1"
    before=$(wc -c <"$work/lost.h5.journal.1")
    ranks 2 sweep $sweep $many --threads 1 -o "$work/lost.h5" -q >/dev/null 2>"$work/err" &
    pid=$!
    until [ "$(wc -c <"$work/lost.h5.journal.1")" -gt $((before + 1000)) ] || ! kill -0 $pid 2>/dev/null; do :; done
    kill -KILL "$(cat "$work/rank.$1")" 2>/dev/null
    wait $pid
    got=$?
}
if [ -e "$(dirname "$kvtwin")/kvtwin-mpi.so" ] && command -v mpirun >/dev/null 2>&1; then
    for of in 2 3; do
        name="a sweep of $of ranks"
        count=$((count + 1))
        (ranks $of sweep $sweep $many --threads 1 -o "$work/ranks.h5") >/dev/null 2>"$work/err" ||
            fail "$(head -n 3 "$work/err")"
        cmp -s "$work/many.h5" "$work/ranks.h5" || fail "the file differs from that of one process"
    done
    name="a rank that is killed"
    count=$((count + 1))
    killed 1
    [ $got -eq 137 ] || fail "exit code $got, want 137"
    err_has "of 400 points, 1 of 2 ranks are gone; the same command goes on from there"
    [ ! -e "$work/lost.h5" ] || fail "there is a file"
    name="rank 0 is killed"
    count=$((count + 1))
    killed 0
    [ $got -eq 137 ] || fail "exit code $got, want 137"
    err_has "signal 9 (Killed)"
    [ ! -e "$work/lost.h5" ] || fail "there is a file"
    run "the rest, alone" 0 sweep $sweep $many -o "$work/lost.h5"
    err_has " of 400 points came from the journal"
    cmp -s "$work/many.h5" "$work/lost.h5" || fail "the file differs from that of one process"
else
    skipped=$((skipped + 4))
    echo "tests/cli.sh: skipped, for want of MPI: sweeps of several ranks, and of one that dies"
fi

cp "$work/one.h5" "$work/kept.h5"
run "a finished sweep is not written over by another" 3 sweep configs/examples/quickstart.yaml -o "$work/kept.h5"
err_has "kept.h5: belongs to another job: want \"points 1\""
cmp -s "$work/one.h5" "$work/kept.h5" || fail "it was written over"
cp "$work/made/run.h5" "$work/kept.h5"
run "nor is a run by a sweep" 3 sweep configs/examples/quickstart.yaml -o "$work/kept.h5"
err_has "kept.h5: is the file of a run (simulate -o); remove it, or name another output"
run "a page of a sweep" 0 report "$work/one.h5" -o "$work/sweep.html" --svg "$work/sweep-svg"
grep -q '<figure id="ttft"><svg' "$work/sweep.html" || fail "no figure in the page"
[ -s "$work/sweep-svg/ttft.svg" ] || fail "no file ttft.svg"
run "diff is for runs" 3 diff "$work/one.h5" "$work/one.h5"
err_has "want the file of a run (simulate -o), got that of a sweep"
run "nothing stands beside a sweep" 2 report "$work/one.h5" -o "$work/sweep.html" --compare README.md

# ---- plan ----
split=configs/examples/plan-split.yaml
run "a plan" 0 plan $split --set plan.resamples=4 --format json -o "$work/plan.h5"
out_has '"candidates": 9'
out_has '"pareto": ['
err_is_empty
[ -s "$work/plan.h5" ] || fail "plan.h5 is missing"
run "a page of a plan" 0 report "$work/plan.h5" -o "$work/plan.html"
grep -q '<td>best' "$work/plan.html" || fail "the best is not in the page"
grep -q '^limited by TTFT p90 .* at 0[.][0-9]* of its bound; prefill busy' "$work/plan.html" || fail "nor what limits it"
grep -q 'ITL p99 .* ms, want 40 ms$' "$work/plan.html" || fail "nor its SLO"
run "a plan as a table" 0 plan $split --set plan.resamples=0 --format csv
[ "$(wc -l <"$work/out")" -eq 10 ] || fail "want a header and 9 rows"
run "a plan that nothing meets" 1 plan $split --set slo.itl.p99='4 ms'
out_starts "nothing meets the SLO"
run "a plan of too many candidates" 6 plan $split --set 'run.seed={choices: [1]}' \
    --set 'workload.open.requests={range: {min: 1, max: 1e12, step: 1}}'
run "a plan whose SLO is below a millisecond" 1 plan $split --set 'slo.itl.p99=1 us' --set plan.resamples=0
[ "$(grep -c 'ms, want 0.001 ms$' "$work/out")" -eq 2 ] || fail "not twice: want 0.001 ms"
run "a plan without prices" 3 plan $split --set 'cost={}'
err_has "cost.h100-sxm: want the price of an hour of this GPU, got none"
run "a plan that loses all" 3 plan $split --set plan.lose=9
err_has "plan.lose: want fewer than the 4 serve replicas, got 9"
run "a domain of a free key" 3 plan $split --set 'cost.h100-sxm={choices: [1 USD/h, 2 USD/h]}'
err_has "a domain is of the whole cost"
run "a plan of domains that fit nowhere" 1 plan $split --set 'fleet={choices: [{serve: {gpu: t4}}]}' --set 'cost={t4: 1 USD/h}'
out_has "no candidate can be run, 1 of 1 because:"
out_has "does not fit on t4"
run "a plan without an SLO" 3 plan $split --set slo=null
err_has "want an slo"

name="SIGINT while resampling"
count=$((count + 1))
"$kvtwin" simulate $config --resamples 10000 --format json >"$work/out" 2>"$work/err" &
pid=$!
sleep 0.7
kill -INT $pid 2>/dev/null
wait $pid
got=$?
[ $got -eq 130 ] || fail "exit code $got, want 130"
out_has '"mean_ttft_ms": '
grep -q '_low"' "$work/out" && fail "there are intervals of resamples that did not run"
err_has "interrupted"

name="a signal while an empty pipe is read"
count=$((count + 1))
wait $silent
[ "$(cat "$work/silent.code")" = 130 ] || fail "exit code $(cat "$work/silent.code"), want 130"
grep -q "^kvtwin: interrupted$" "$work/silent.err" || fail "stderr: $(cat "$work/silent.err")"

if [ "$failed" -gt 0 ]; then
    echo "tests/cli.sh: $failed failures in $count runs" >&2
    exit 1
fi
echo "tests/cli.sh: $count runs of the command line as they should be, $skipped skipped"
