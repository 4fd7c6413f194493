#!/bin/sh
# House rules that a compiler does not check. Prints file:line: message, exits 1 if any is broken.
#
# Which folder may include which (its own always). Of sim/ plan may include all; kernels/ only
# sim/base, runtime/ everything but cli/; cli/ and tests/ all.
set -u
export LC_ALL=C.UTF-8

may_include='
base
config   base
model    base
cost     base model
serve    base model
fault    base serve
des      base model cost serve fault metrics
trace    base
metrics  base
output   base metrics
report   base metrics output
plan     base config model cost serve fault des trace metrics output
'
sources=$(git ls-files --cached --others --exclude-standard -- 'sim/*.[ch]' 'kernels/*.[ch]' 'runtime/*.[ch]' 'cli/*.[ch]' 'tests/*.[ch]' 'kernels/cuda/*.cu*' 'tests/cuda/*.c[cu]')
failures=$(mktemp)
trap 'rm -f "$failures"' EXIT

# 1. The include table.
echo "$may_include" | while read -r folder others; do
    [ -n "$folder" ] || continue
    ls sim/"$folder"/*.[ch] >/dev/null 2>&1 || continue
    grep -n '^ *# *include' sim/"$folder"/*.[ch] | while IFS=: read -r file line text; do
        case $text in
        *'"sim/'*)
            other=${text#*\"sim/}
            other=${other%%/*}
            case " $folder $others " in
            *" $other "*) ;;
            *) echo "$file:$line: sim/$folder may include only: $folder $others; this is sim/$other" ;;
            esac
            ;;
        *cuda* | *'"'kernels/* | *'"'runtime/*) echo "$file:$line: sim/ never includes CUDA, kernels or runtime" ;;
        *'"'*) echo "$file:$line: quoted includes start at the root: \"sim/...\"" ;;
        esac
    done
done >>"$failures"
for file in $(git ls-files --cached --others --exclude-standard -- 'kernels/*.[ch]' 'kernels/cuda/*.cu*' 'runtime/*.[ch]'); do
    case $file in
    kernels/*) may='"kernels/|"sim/base/' ;;
    *) may='"(runtime|kernels|sim)/' ;;
    esac
    grep -nE '^ *# *include "' "$file" | grep -vE "$may" |
        sed "s|^\([0-9]*\):.*|$file:\1: kernels/ may include kernels/ and sim/base/; runtime/ also sim/|"
done >>"$failures"
for folder in sim/*/; do
    folder=${folder#sim/}
    echo "$may_include" | grep -q "^${folder%/}\\( \\|\$\\)" || echo "sim/$folder: not in the table of $0"
done >>"$failures"

# 2. Sizes: files, functions (from the brace in the first column to its end; a table of rows inside
#    counts as nothing), lines.
# shellcheck disable=SC2086
awk '
    FNR == 1 { start = 0 }
    /^\{/ { start = FNR; rows = 0; table = 0 }
    /^    (static const|\}) .*= \{$/ { table = FNR }
    /^    \};/ { if (table) rows += FNR - table; table = 0 }
    /^\}/ { if (start && FNR - start - 1 - rows > 70)
                printf "%s:%d: a function of %d lines; at most 70\n", FILENAME, start, FNR - start - 1 - rows
            start = 0 }
    FNR == 601 { printf "%s:601: a file of more than 600 lines; split it by concept\n", FILENAME }
' $sources >>"$failures"
# shellcheck disable=SC2086
grep -nE '^.{101,}' $sources | sed 's/^\([^:]*:[0-9]*\):.*/\1: a line of more than 100 columns/' >>"$failures"

# 3. Names and left-overs.
for file in $sources; do
    case ${file##*/} in
    util*.[ch] | common.[ch] | misc.[ch] | helpers.[ch]) echo "$file: a name that says what it holds, please" ;;
    esac
done >>"$failures"
# shellcheck disable=SC2086
grep -nE '\b(TODO|FIXME|XXX)\b' $sources | sed 's/$/   <- do it now, or file it/' >>"$failures"
# shellcheck disable=SC2086
grep -nE "$(printf '\t')|[[:space:]]\$" $sources | sed 's/^\([^:]*:[0-9]*\):.*/\1: a tab or trailing space/' >>"$failures"

# 4. Nothing that reaches a result reads a clock or unnamed randomness (sim/output draws the progress
#    bar, sim/plan talks to other machines).
for folder in base config model cost serve fault des trace metrics; do
    grep -HnE '\b(clock_gettime|gettimeofday|time|clock|rand|random|drand48)\(' sim/$folder/*.[ch] 2>/dev/null
done | grep -vE ':[[:space:]]*(/?\*|//)' | sed 's/$/   <- no wall clock and no rand() here/' >>"$failures"

# 5. Format, where the version that the style was written for is installed.
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
    # shellcheck disable=SC2086
    clang-format --dry-run $sources 2>&1 | sed -n 's/^\([^:]*:[0-9]*\):.*clang-formatted.*/\1: run clang-format -i on it/p' |
        sort -t: -u -k1,1 >>"$failures"
else
    echo "lint: clang-format 14 is not here; format not checked" >&2
fi

if [ -s "$failures" ]; then
    cat "$failures" >&2
    echo "lint: $(wc -l <"$failures") broken rules" >&2
    exit 1
fi
echo "lint: $(echo "$sources" | wc -l) files in order"
