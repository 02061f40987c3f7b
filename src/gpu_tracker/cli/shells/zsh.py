"""The completion for zsh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli.shells import FILES, FOLDERS, PROCESSES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.cli.shells import Choice, Line

_SCRIPT = r"""#compdef gpu-tracker
# Completion of gpu-tracker for zsh, made by gpu-tracker completion zsh

_gpu-tracker() {
    local ret=1
    local -a named=(
@COMMANDS@
    )
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe -t commands 'command of gpu-tracker' named && ret=0
    fi
    if (( CURRENT > 2 )); then
        case $words[2] in
@CASES@
        esac
    fi
    _arguments -S \
@TRACK@ && ret=0
    return ret
}

if [[ $funcstack[1] == _gpu-tracker ]]; then
    _gpu-tracker "$@"
elif (( $+functions[compdef] )); then
    compdef _gpu-tracker gpu-tracker
fi
"""
_ACTIONS = {FILES: '_files', FOLDERS: '_files -/', PROCESSES: '_pids'}


def script(lines: Sequence[Line]) -> str:
    """Return the script that completes ``lines``."""
    named = [line for line in lines if line.name]
    commands = '\n'.join(f"        '{line.name}:{_quoted(line.text)}'" for line in named)
    cases = '\n'.join(_case(line) for line in named)
    track = next(line for line in lines if not line.name)
    return _SCRIPT.replace('@COMMANDS@', commands).replace('@CASES@', cases).replace('@TRACK@', _specs(track, ' ' * 8))


def _case(line: Line) -> str:
    return (
        f'            ({line.name})\n'
        '                shift words\n'
        '                (( CURRENT-- ))\n'
        '                _arguments -S \\\n'
        f'{_specs(line, " " * 20)}\n'
        '                return ;;'
    )


def _specs(line: Line, indent: str) -> str:
    """Return the arguments of ``_arguments``, one a line."""
    specs = [spec for option in line.options for spec in _of_option(option)] + list(_of_words(line.words))
    return ' \\\n'.join(indent + spec for spec in specs)


def _of_option(option: Choice) -> Iterator[str]:
    others = f'({" ".join(option.names)})' if len(option.names) > 1 else ''
    for name in option.names:
        sign = '' if not option.takes_value else '=' if name.startswith('--') else '+'
        value = f':{option.names[-1].lstrip("-")}:{_action(option)}' if option.takes_value else ''
        yield f"'{others}{name}{sign}[{_quoted(option.text)}]{value}'"


def _action(option: Choice) -> str:
    if isinstance(option.values, str):
        return _ACTIONS[option.values]
    words = ' '.join(option.values)
    return f'_sequence compadd - {words}' if option.several else f'({words})' if words else ' '


def _of_words(words: tuple[str, ...] | str) -> Iterator[str]:
    if words == PROGRAM:
        yield "'(-)1:program: _command_names -e'"
        yield "'*::arguments: _normal'"
    elif words == FILES:
        yield "'*:file:_files'"
    elif words:
        yield f"'1:command:({' '.join(words)})'"
        yield "'*:file:_files'"


def _quoted(text: str) -> str:
    """Return a text for a place between apostrophes, in which brackets and colons mean something."""
    for sign in '\\:[]':
        text = text.replace(sign, f'\\{sign}')
    return text.replace("'", "'\\''")
