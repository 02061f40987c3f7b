"""The completion for fish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli.shells import FILES, FOLDERS, PROCESSES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.cli.shells import Choice, Line

_SCRIPT = r"""# Completion of gpu-tracker for fish, made by gpu-tracker completion fish

set -g __gpu_tracker_commands @NAMES@

function __gpu_tracker_command --description 'The command of gpu-tracker on the line; nothing: the one without a name'
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $__gpu_tracker_commands; and echo $words[2]
end

function __gpu_tracker_is --description 'Whether the line is one of this command, and no program has begun on it'
    test "$argv[1]" = (__gpu_tracker_command; or echo -)
    and test (__gpu_tracker_program) -eq 0
end

function __gpu_tracker_program --description 'The place of the program on the line; 0: none has begun'
    set -l words (commandline -opc)
    set -l first 2
    set -l with_value @TRACK_WITH_VALUE@
    switch (__gpu_tracker_command; or echo)
@WITH_PROGRAM@
        case ''
        case '*'
            echo 0
            return
    end
    set -l skips 0
    for place in (seq $first (count $words))
        if test $skips -eq 1
            set skips 0
        else if test "$words[$place]" = --
            echo (math $place + 1)
            return
        else if string match -q -- '-*' $words[$place]
            contains -- $words[$place] $with_value; and set skips 1
        else
            echo $place
            return
        end
    end
    echo 0
end

function __gpu_tracker_complete_program
    set -l place (__gpu_tracker_program)
    set -l words (commandline -opc)
    set -l before
    test $place -le (count $words); and set before (string escape -- $words[$place..-1])
    complete -C "$(string join ' ' -- $before (commandline -ct))"
end

complete -c gpu-tracker -f
complete -c gpu-tracker -n 'test (__gpu_tracker_program) -gt 0' -x -a '(__gpu_tracker_complete_program)'
"""


def script(lines: Sequence[Line]) -> str:
    """Return the script that completes ``lines``."""
    named = [line for line in lines if line.name]
    with_program = '\n'.join(
        f'        case {line.name}\n            set first 3\n            set with_value {_with_value(line)}'
        for line in named
        if line.words == PROGRAM
    )
    track = next(line for line in lines if not line.name)
    text = (
        _SCRIPT.replace('@NAMES@', ' '.join(line.name for line in named))
        .replace('@TRACK_WITH_VALUE@', _with_value(track))
        .replace('@WITH_PROGRAM@', with_program)
    )
    commands = [
        f"complete -c gpu-tracker -n 'test (count (commandline -opc)) -eq 1' -a {line.name} -d {_quoted(line.text)}"
        for line in named
    ]
    return '\n'.join([text.rstrip('\n'), *commands, *(rule for line in lines for rule in _rules(line))]) + '\n'


def _rules(line: Line) -> Iterator[str]:
    condition = f"complete -c gpu-tracker -n '__gpu_tracker_is {line.name or '-'}'"
    for option in line.options:
        names = [f'-l {name[2:]}' if name.startswith('--') else f'-s {name[1:]}' for name in option.names]
        yield ' '.join([condition, *names, *_value(option), '-d', _quoted(option.text)])
    if line.words == FILES:
        yield f'{condition} -F'
    elif line.words == PROGRAM:
        yield f"{condition} -x -a '(__fish_complete_command)'"
    elif line.words:
        yield f"{condition} -F -a '{' '.join(line.words)}'"


def _value(option: Choice) -> list[str]:
    if not option.takes_value:
        return []
    if option.values == FILES:
        return ['-r', '-F']
    if option.values == FOLDERS:
        return ['-x', "-a '(__fish_complete_directories)'"]
    if option.values == PROCESSES:
        return ['-x', "-a '(__fish_complete_pids)'"]
    words = ' '.join(option.values)
    if option.several:
        return ['-x', f"-a '(__fish_append , {words})'"]
    return ['-x', f"-a '{words}'"] if words else ['-x']


def _with_value(line: Line) -> str:
    return ' '.join(name for option in line.options if option.takes_value for name in option.names)


def _quoted(text: str) -> str:
    escaped = text.replace('\\', '\\\\').replace("'", "\\'")
    return f"'{escaped}'"
