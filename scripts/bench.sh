#!/bin/sh
# Speed figures with what is needed to repeat them: machine, commit, compiler, command.
#
#   bench.sh KVTWIN BENCH...    BENCH are programs built from tests/bench_*.c; then every
#                               tests/bench_*.sh runs with KVTWIN as its argument
set -eu
kvtwin=$1
shift

field() { sed -n "s/^$1[[:space:]]*: //p" /proc/cpuinfo | head -n 1; }
echo "machine   $(field 'model name'), $(nproc) cores, $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
echo "clock     $(field 'cpu MHz') MHz now; governor $(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null || echo unknown)"
echo "system    $(uname -sr), load $(cut -d ' ' -f 1 /proc/loadavg)"
echo "program   $("$kvtwin" --version | head -n 1), commit $(git describe --always --dirty 2>/dev/null || echo unknown)"
echo "compiler  $(${CC:-gcc} --version | head -n 1)"

for bench in "$@"; do
    printf '\n$ %s\n' "$bench"
    "$bench"
done
for bench in tests/bench_*.sh; do
    [ -e "$bench" ] || continue
    printf '\n$ %s %s\n' "$bench" "$kvtwin"
    "$bench" "$kvtwin"
done
