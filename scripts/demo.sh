#!/bin/sh
# The main job on shipped inputs: how much fits, then how it serves. Results go to stdout, the
# story to stderr.
set -eu
kvtwin=$1
config=configs/examples/quickstart.yaml

step() { printf '\n== %s\n' "$1" >&2; }
show() {
    printf '$ %s\n\n' "$*" >&2
    "$@"
}

step "The fleet is described in $config:"
sed 's/^/    /' "$config" >&2

step "1. What fits: every byte of GPU memory, the KV pool, and the requests it holds"
show "$kvtwin" capacity "$config"

step "2. How it serves: one request trace through the simulated fleet"
show "$kvtwin" simulate "$config" -o build/demo.h5

step "3. What if the KV cache of the decode role were BF16? One key changes, nothing else"
show "$kvtwin" capacity "$config" --set fleet.decode.kv=bf16

step "All results of step 2 (requests, time series, effective config, digest) are in build/demo.h5."
printf 'Next: edit a copy of the config, or read "%s --help".\n' "$kvtwin" >&2
