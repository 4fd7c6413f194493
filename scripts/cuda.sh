#!/bin/sh
# What nvcc made of the CUDA kernels, looked at without a GPU.
#
#   cuda.sh NVCC ARCH_FLAGS OBJECT.cu.o ...    beside each object lies OBJECT.cu.log, of ptxas -v
#
# Fails when a kernel spills, has a stack frame, needs more registers than its source says ("budget
# NAME REGISTERS" in a comment), or says nothing; and when the PTX lacks an instruction that a kernel
# is written for. Without nvcc: counted as skipped.
set -u
nvcc=$1
if [ -z "$nvcc" ]; then
    echo "cuda: 1 skipped: no nvcc here, so the CUDA kernels are compiled for the emulation only"
    exit 0
fi
shift
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

complain() {
    echo "cuda: $*" >&2
    failed=$((failed + 1))
}

kernels=0
for object; do
    log=${object%.o}.log
    source=${object#build/release/}
    source=${source%.o}
    # One line a kernel: mangled name, stack, spill stores, spill loads, registers.
    awk '
        /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
        /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used") print name, stack, stores, loads, $(i + 1) }
    ' "$log" >"$work/kernels"
    while read -r mangled stack stores loads registers; do
        kernels=$((kernels + 1))
        name=$(echo "$mangled" | sed -E 's/^_Z(L|N[^0-9]*|)[0-9]*(_INTERNAL_[0-9a-z_]*[0-9])?//' | grep -oE '[a-z0-9_]+_k' | head -n 1 | sed -E 's/^[0-9]+//')
        budget=$(sed -nE "s/.*budget $name ([0-9]+).*/\1/p" kernels/cuda/*.cu kernels/cuda/*.cuh | head -n 1)
        [ "$stack" -eq 0 ] || complain "$source: $mangled: a stack frame of $stack bytes"
        [ "$stores" -eq 0 ] && [ "$loads" -eq 0 ] || complain "$source: $mangled: spills $stores bytes, loads $loads"
        if [ -z "$budget" ]; then
            complain "$source: $mangled: no budget of registers for $name"
        elif [ "$registers" -gt "$budget" ]; then
            complain "$source: $mangled: $registers registers; its budget is $budget"
        fi
        [ "${V:-}" = 1 ] && echo "  $registers of $budget registers  $mangled"
    done <"$work/kernels"
    [ -s "$work/kernels" ] || complain "$log: tells of no kernel"
done

wanted() { # wanted SOURCE INSTRUCTION ...
    source=$1
    shift
    "$nvcc" -std=c++17 -O3 -I. -arch=compute_90a -ptx -o "$work/ptx" "$source" || {
        complain "$source: no PTX"
        return
    }
    for instruction; do
        grep -qE "$instruction" "$work/ptx" || complain "$source: no $instruction in its PTX"
    done
}
wanted kernels/cuda/paging.cu 'cvt\.rn\.satfinite\.e4m3x2\.f32' 'shfl\.sync' 'vote\.sync\.ballot' 'atom\.global\.min\.u64|atom\.min\.u64|red\.global\.min\.u64' 'st\.relaxed\.gpu'
wanted kernels/cuda/attention.cu 'cvt\.rn\.f16x2\.e4m3x2' 'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16' \
    'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16' 'cp\.async\.cg\.shared\.global' 'cp\.async\.wait_group' \
    'ldmatrix\.sync\.aligned\.m8n8\.x4\.trans' 'movmatrix' 'ex2\.approx' 'prmt'
wanted kernels/cuda/int4.cu 'lop3\.b32 .*0xea' 'fma\.rn\.bf16x2' 'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16' \
    'ld\.global\.nc\.L1::no_allocate\.L2::cache_hint\.v4'

if [ "$failed" -gt 0 ]; then
    exit 1
fi
echo "cuda: $kernels kernels within their registers, no spills, the instructions that were meant"
