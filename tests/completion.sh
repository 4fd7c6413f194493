#!/bin/sh
# Completions know the commands, options and keys that the program has.
#
#   completion.sh KVTWIN       run from the repository's root
set -u
kvtwin=$PWD/$1
failed=0
fail() {
    failed=1
    echo "tests/completion.sh: $*" >&2
}
# want SHELL WHAT LIST WORD...: LIST has each word on a line of its own.
want() {
    shell=$1
    what=$2
    list=$3
    shift 3
    for word in "$@"; do
        printf '%s\n' "$list" | grep -qxF -e "$word" || fail "$shell: $what: lacks $word"
    done
}
commands=$("$kvtwin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p')
options=$("$kvtwin" simulate --help | grep -oE -e '--[a-z][a-z-]*' | sort -u)

in_bash() { # WORD...: what bash offers for the last of the words
    bash --norc -c '
        . cli/kvtwin.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        compopt() { :; }
        _kvtwin "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$kvtwin" "$@"
}
# shellcheck disable=SC2086
want bash commands "$(in_bash '')" $commands
# shellcheck disable=SC2086
want bash options "$(in_bash simulate --)" $options
want bash keys "$(in_bash simulate --set fleet.decode.k)" fleet.decode.kv=
want bash "keys to explain" "$(in_bash config explain run.s)" run.seed

in_zsh() {
    zsh -f -c '
        compadd() { while [[ $1 == -* && $1 != -- ]]; do [[ $1 == -S ]] && shift; shift; done; shift; print -l -- $@ }
        _files() { }
        words=("$@")
        CURRENT=$#words
        source cli/_kvtwin' zsh "$kvtwin" "$@"
}
if command -v zsh >/dev/null; then
    # shellcheck disable=SC2086
    want zsh commands "$(in_zsh '')" $commands
    # shellcheck disable=SC2086
    want zsh options "$(in_zsh simulate --)" $options
    want zsh keys "$(in_zsh simulate --set fleet.decode.k)" fleet.decode.kv
    want zsh "keys to explain" "$(in_zsh config explain run.s)" run.seed
else
    echo "tests/completion.sh: 1 skipped: zsh is not installed"
fi
[ "$failed" -eq 0 ] && echo "tests/completion.sh: completions know what --help knows"
exit "$failed"
