#!/bin/sh
# Random walks through the model of the hand-off, as it prints them.
#
#   walks.sh FIRST COUNT     one walk for each seed from FIRST on
set -eu
model=$(cd "${0%/*}" && pwd)/handoff.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
seed=$1
while [ "$seed" -lt $(($1 + $2)) ]; do
    spin -T -n"$seed" "$model" | grep ' = '
    seed=$((seed + 1))
done
