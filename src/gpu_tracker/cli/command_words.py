"""Decides whether the string of ``-e`` is started directly or by the shell, and says why a program cannot be started.

Started directly, the program is the tracked main process itself; behind ``sh -c`` it may be a descendant of the shell.
So everything that means the same without a shell goes without one, and nothing else does.
"""

from __future__ import annotations

import os
import shlex
import sys

from gpu_tracker.cli import COMMANDS
from gpu_tracker.running.held_command import SHELL, find_program

_BLANKS = ' \t'
_PLAIN = frozenset('%+,-./:=@_') if sys.platform != 'win32' else frozenset('+-./:@_\\')
"""Characters besides letters and digits that are never special in a shell."""
_SPECIAL_IN_DOUBLE_QUOTES = frozenset('$`\\') if sys.platform != 'win32' else frozenset('%!^&|<>')
_COMMANDS_ELSEWHERE = {
    'help': '--help',
    'monitor': '--live COMMAND',
    'profile': '--record=run.db COMMAND',
    'record': '--record=run.db COMMAND',
    'run': 'COMMAND',
    'version': '--version',
}
"""Commands of other programs, and their names here."""
_SCRIPTS = {'.py': ('a Python program', ('python', 'python3')), '.sh': ('a shell script', ('sh',))}
"""By ending: the kind of a file, and the programs that run it. Debian has no ``python``."""


def words_to_start(command: str, search_path: list[str]) -> list[str]:
    """Return the arguments that start ``command``: its own words, or a shell with the command as it is.

    ``search_path`` holds the folders that a program's bare name is looked up in.
    """
    words = plain_words(command)
    if words and not _is_assignment(words[0]) and find_program(words[0], search_path) is not None:
        return words
    return [*shell(), command]


def shell() -> list[str]:
    """Return the arguments that start the shell, without the command."""
    if sys.platform == 'win32':
        return [os.environ.get('COMSPEC', 'cmd.exe'), '/c']
    # The dashes keep a command such as '-x' from being read as options of the shell.
    return [SHELL, '-c', '--']


def plain_words(command: str) -> list[str] | None:
    """Return the words of ``command`` if a shell would only split and unquote it, otherwise None."""
    quotes = '\'"' if sys.platform != 'win32' else '"'
    words: list[str] = []
    word: str | None = None  # None between words; an empty pair of quotes is a word
    position = 0
    while position < len(command):
        character = command[position]
        position += 1
        if character in _BLANKS:
            if word is not None:
                words.append(word)
            word = None
        elif character in quotes:
            end = command.find(character, position)
            quoted = command[position:end]
            if end < 0 or (character == '"' and not _SPECIAL_IN_DOUBLE_QUOTES.isdisjoint(quoted)):
                return None
            word = (word or '') + quoted
            position = end + 1
        elif character.isalnum() or character in _PLAIN:
            word = (word or '') + character
        else:
            return None
    if word is not None:
        words.append(word)
    return words


_START_OF_SCRIPTS = b'#!'


def start_advice(name: str, error: OSError) -> str | None:
    """Return a sentence on how to start the file ``name``; None if the file gives no hint.

    :param error: Why it cannot be started as it is.
    """
    if os.path.isdir(name):
        return 'it is a folder.'
    beginning = _beginning(name)
    if beginning is None:
        return None
    quoted = shlex.quote(name)
    is_executable = os.access(name, os.X_OK)
    has_interpreter = beginning.startswith(_START_OF_SCRIPTS)
    kind, interpreters = _SCRIPTS.get(os.path.splitext(name)[1], ('', ('',)))
    there = (found for found in interpreters if find_program(found, os.get_exec_path()) is not None)
    interpreter = next(there, interpreters[0])
    advice = None
    if kind and not (is_executable and has_interpreter):
        advice = f'it is {kind}: put {interpreter} in front of it, as in "gpu-tracker {interpreter} {quoted}".'
    elif has_interpreter and not is_executable:
        advice = f'it may not be executed: chmod +x {quoted}.'
    elif is_executable and os.path.basename(name) == name:
        advice = f'it is in this folder, in which no program is searched for: write ./{quoted}.'
    elif has_interpreter and isinstance(error, FileNotFoundError):
        first = beginning.splitlines()[0].decode(errors='replace')
        advice = f'its first line names a program that is not there, {first!r}.'
    return advice


def _beginning(path: str) -> bytes | None:
    """Return the first bytes of a regular file; None if it cannot be read or is not regular."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, 'rb') as file:
            return file.read(128)
    except OSError:
        return None


def meant(name: str, search_path: list[str]) -> str | None:
    """Return a likely correction of ``name``, which cannot be started; None if there is none."""
    from difflib import get_close_matches  # noqa: PLC0415 (only if something is mistyped)

    if name in COMMANDS or name in _COMMANDS_ELSEWHERE:
        return f'gpu-tracker {_COMMANDS_ELSEWHERE.get(name, name)}'
    if _is_assignment(name):
        return shlex.join(['env', name])
    if not any(blank in name for blank in _BLANKS):
        close = [] if '.' in name else get_close_matches(name, COMMANDS, n=1, cutoff=0.7)
        return f'gpu-tracker {close[0]}' if close else None
    words = plain_words(name)
    if words and find_program(words[0], search_path) is not None:
        return f'{name}, without quotes around it'
    return shlex.join([*(['sh', '-c'] if sys.platform != 'win32' else shell()), name])


def _is_assignment(word: str) -> bool:
    """Return whether a shell would read ``word`` before a command as an assignment."""
    name, equals, _ = word.partition('=')
    return bool(equals) and name.isidentifier()
