#!/bin/sh
# Lines of sim/ and cli/ that the tests ran, file by file, fewest first. After MODE=coverage.
set -eu
find "$1/sim" "$1/cli" -name '*.gcno' | while read -r notes; do
    gcov -n -s "$PWD" -r "$notes" 2>/dev/null
done | awk -F"'|:|%| of " '
    /^File/ { file = $2; next }
    /^Lines executed/ && file ~ /\.c$/ && !(file in seen) {
        seen[file] = 1
        printf "%6.1f %%  %5d  %s\n", $2, $4, file
        ran += $2 * $4 / 100; lines += $4
    }
    END { if (lines) printf "%6.1f %%  %5d  all\n", 100 * ran / lines, lines }
' | sort -n
