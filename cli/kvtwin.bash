# bash completion for kvtwin: commands and options from --help, keys of --set from the schema.
_kvtwin()
{
    local program=$1 word=$2 previous=$3 words
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$("$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
    elif [ "$previous" = --set ] || [ "${COMP_WORDS[COMP_CWORD - 2]}" = --set ]; then
        # The readline of bash breaks words at '='; values are files or free text.
        [ "$previous" = --set ] || return 0
        compopt -o nospace
        words=$("$program" config keys | sed 's/$/=/')
    elif [ "$previous" = explain ] && [ "${COMP_WORDS[1]}" = config ]; then
        words=$("$program" config keys)
    elif [ "$previous" = --format ]; then
        words="text json csv"
    elif [ "$previous" = --progress ]; then
        words="auto always never"
    elif [[ $word == -* ]]; then
        words=$("$program" "${COMP_WORDS[1]}" --help | grep -oE -e '--[a-z][a-z-]*' | sort -u)
    else
        return 0
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o bashdefault -o default -F _kvtwin kvtwin
