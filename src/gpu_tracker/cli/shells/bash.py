"""The completion for bash. Where bash-completion is loaded, that completes the arguments of programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli.shells import FILES, FOLDERS, PROCESSES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.cli.shells import Choice, Line

_SCRIPT = r"""# Completion of gpu-tracker for bash, made by gpu-tracker completion bash

_gpu_tracker_options() {
    case $1 in
@OPTIONS@
    esac
}

_gpu_tracker_takes_value() {
    case "$1 $2" in
@WITH_VALUE@
        *) return 1 ;;
    esac
}

# What a value can be: files, folders, processes, words, or words with commas between them.
_gpu_tracker_values() {
    case "$1 $2" in
@VALUES@
    esac
}

_gpu_tracker_words() {
    case $1 in
@WORDS@
    esac
}

_gpu_tracker_complete() {
    local kind=$1 begun=$2 front= IFS=$'\n'
    case $kind in
        files) compopt -o filenames; COMPREPLY=($(compgen -f -- "$begun")) ;;
        folders) compopt -o filenames; COMPREPLY=($(compgen -d -- "$begun")) ;;
        processes) COMPREPLY=($(compgen -W "$(cd /proc 2>/dev/null && printf '%s\n' [0-9]*)" -- "$begun")) ;;
        several\ *)
            [[ $begun == *,* ]] && front=${begun%,*},
            COMPREPLY=($(compgen -P "$front" -W "${kind#several }" -- "${begun##*,}")) ;;
        *) COMPREPLY=($(compgen -W "$kind" -- "$begun")) ;;
    esac
}

_gpu_tracker() {
    local words=() raw=() index word command= position=1 option begun
    COMPREPLY=()
    # bash parts words at =, if COMP_WORDBREAKS has it: here --option=value is one word.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if ((index > 1)) && [[ $word == =* || ( ${COMP_WORDS[index - 1]} == = && ${words[-1]} == --*= ) ]]; then
            words[-1]+=$word
        else
            words+=("$word") raw+=("$index")
        fi
    done
    begun=${words[-1]}
    if ((${#words[@]} > 2)); then
        case ${words[1]} in
            @NAMES@) command=${words[1]} position=2 ;;
        esac
    fi
    for ((index = position; index < ${#words[@]} - 1; index++)); do
        word=${words[index]}
        if [[ $word == -- ]]; then
            [[ $(_gpu_tracker_words "$command") == program ]] && _gpu_tracker_program $((raw[index] + 1))
            return
        elif [[ $word == -* ]]; then
            if [[ $word != --*=* ]] && _gpu_tracker_takes_value "$command" "$word"; then
                if ((index == ${#words[@]} - 2)); then
                    _gpu_tracker_complete "$(_gpu_tracker_values "$command" "$word")" "$begun"
                    return
                fi
                ((index++))
            fi
        elif [[ $(_gpu_tracker_words "$command") == program ]]; then
            _gpu_tracker_program "${raw[index]}"
            return
        fi
    done
    if [[ $begun == --*=* ]]; then
        option=${begun%%=*}
        _gpu_tracker_complete "$(_gpu_tracker_values "$command" "$option")" "${begun#*=}"
        [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$option=}")
    elif [[ $begun == -* ]]; then
        COMPREPLY=($(compgen -W "$(_gpu_tracker_options "$command")" -- "$begun"))
        [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    else
        word=$(_gpu_tracker_words "$command")
        if [[ $word == program ]]; then
            _gpu_tracker_program "${raw[-1]}"
            [[ -z $command && $position == 1 && ${#words[@]} == 2 ]] &&
                COMPREPLY+=($(compgen -W "@COMMANDS@" -- "$begun"))
        elif [[ -n $word ]]; then
            _gpu_tracker_complete "$word" "$begun"
        fi
    fi
}

# Completes the words of a program and its arguments, which begins at this place of the line.
_gpu_tracker_program() {
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif (($1 == COMP_CWORD)); then
        COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        compopt -o default
    fi
}

complete -F _gpu_tracker gpu-tracker
"""


def script(lines: Sequence[Line]) -> str:
    """Return the script that completes ``lines``."""
    names = [line.name for line in lines if line.name]
    parts = {
        'OPTIONS': [_case([line.name], f'echo "{" ".join(_written(line.options))}"') for line in lines],
        'WITH_VALUE': [_case(sorted(_with_value(line)), '') for line in lines if any(_with_value(line))],
        'VALUES': [_case(keys, f'echo "{kind}"') for keys, kind in _values(lines)],
        'WORDS': [_case([line.name], f'echo "{_kind(line.words, several=False)}"') for line in lines if line.words],
    }
    text = _SCRIPT
    for name, cases in parts.items():
        text = text.replace(f'@{name}@', '\n'.join(cases))
    return text.replace('@NAMES@', ' | '.join(names)).replace('@COMMANDS@', ' '.join(names))


def _case(patterns: Sequence[str], action: str) -> str:
    quoted = ' | '.join(f"'{pattern}'" for pattern in patterns)
    return f'        {quoted}) {action} ;;'.replace('  ;;', ' ;;')


def _written(options: Sequence[Choice]) -> Iterator[str]:
    for option in options:
        for name in option.names:
            yield f'{name}=' if option.takes_value and name.startswith('--') else name


def _with_value(line: Line) -> Iterator[str]:
    for option in line.options:
        if option.takes_value:
            yield from (f'{line.name} {name}' for name in option.names)


def _values(lines: Sequence[Line]) -> Iterator[tuple[list[str], str]]:
    for line in lines:
        for option in line.options:
            if option.values:
                yield [f'{line.name} {name}' for name in option.names], _kind(option.values, several=option.several)


def _kind(values: tuple[str, ...] | str, *, several: bool) -> str:
    if values in {FILES, FOLDERS, PROCESSES, PROGRAM}:
        return str(values)
    # Each on a line of its own, at which compgen parts them.
    return ('several ' if several else '') + '\n'.join(values)
