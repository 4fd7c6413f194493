#!/bin/sh
# The manual page lints, and names exactly the options and commands that --help names.
#
#   man.sh KVTWIN PAGE
set -u
kvtwin=$1
page=$2
failed=0

lint=$(groff -ww -man -Tutf8 "$page" 2>&1 >/dev/null)
if [ -n "$lint" ]; then
    echo "$lint" >&2
    failed=1
fi
for section in NAME SYNOPSIS DESCRIPTION OPTIONS CONFIGURATION OUTPUT "EXIT STATUS" EXAMPLES FILES \
    "SEE ALSO"; do
    grep -qx "\\.SH \"*$section\"*" "$page" || { echo "$page: no section $section" >&2; failed=1; }
done

# All options of all commands, and the commands themselves, from both sides.
commands=$("$kvtwin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p')
helped=$({
    "$kvtwin" --help
    for command in $commands; do "$kvtwin" "$command" --help; done
} | grep -oE '^ +(-[a-zA-Z], )?--[a-z][a-z-]*' | grep -oE -e '--[a-z-]+' | sort -u)
paged=$(sed 's/\\-/-/g' "$page" | grep -E '^\.(BR?|BI|B) ' | grep -oE -e '(^| |,)--[a-z][a-z-]*' |
    grep -oE -e '--[a-z-]+' | sort -u)
for option in $helped; do
    echo "$paged" | grep -qxF -e "$option" || { echo "$page: lacks $option, which --help has" >&2; failed=1; }
done
for option in $paged; do
    echo "$helped" | grep -qxF -e "$option" || { echo "$page: has $option, which --help lacks" >&2; failed=1; }
done
for command in $commands; do
    grep -q "^\\.BI* \"*kvtwin $command" "$page" || { echo "$page: lacks the command $command" >&2; failed=1; }
done
# shellcheck disable=SC2013  # each is a word
for command in $(sed -n 's/^\.BI* "*kvtwin \([a-z][a-z]*\).*/\1/p' "$page" | sort -u); do
    echo "$commands" | grep -qx "$command" || { echo "$page: has the command $command, which --help lacks" >&2; failed=1; }
done
[ "$failed" -eq 0 ] && echo "tests/man.sh: $page lints and agrees with --help"
exit "$failed"
