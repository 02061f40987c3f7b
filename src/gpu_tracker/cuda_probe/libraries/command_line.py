"""The executables that a command line names: which of them will call CUDA cannot be told before they run."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_WORDS = 256
"""Of a command: its programs stand before its thousands of files."""
_MOST_PLACES = 8
_LONGEST_INTERPRETER = 256  # as the kernel reads it, see execve(2)


def executables(command: Sequence[str], path: str | None, folder: str = '') -> Iterator[str]:
    """Yield the absolute paths of executables, the interpreters of scripts too, and where links lead.

    :param command: The words of a command; a shell's command line is looked at word by word.
    :param path: The variable PATH.
    :param folder: Where the command is started; empty: here.
    """
    for program in _named(command, path, folder):
        for each in (program, *_interpreter(program, path)):
            yield os.path.abspath(each)
            yield os.path.realpath(each)  # the python of a virtual environment is a link


def _named(command: Sequence[str], path: str | None, folder: str) -> Iterator[str]:
    places = [folder]  # where relative paths may begin: a shell may go into folders first
    words = (word for argument in command for word in _words(argument))
    for word in dict.fromkeys(itertools.islice(words, _MOST_WORDS)):
        named = [os.path.join(place, os.path.expanduser(word)) for place in places]
        places += [place for place in named if os.path.isdir(place)][: _MOST_PLACES - len(places)]
        for name in named if '/' in word else (word,):
            program = shutil.which(name, path=path)
            if program is not None:
                yield program


def _words(argument: str) -> Iterator[str]:
    """Yield an argument, and the words that a shell would find in it."""
    yield argument
    pieces = shlex.shlex(argument, posix=True, punctuation_chars=True)
    pieces.whitespace_split = True
    pieces.commenters = ''
    try:
        yield from pieces
    except ValueError:
        return  # quotes that do not close: a shell will say so


def _interpreter(program: str, path: str | None) -> list[str]:
    """Return the executables in the first line of a script, ``env`` and what that starts; none for other programs."""
    try:
        with open(program, 'rb') as file:
            begin = file.read(_LONGEST_INTERPRETER)
    except OSError:
        return []  # it may be executed, but not read
    if not begin.startswith(b'#!'):
        return []
    words = os.fsdecode(begin[2:].partition(b'\n')[0]).split()
    return [found for word in words if (found := shutil.which(word, path=path)) is not None]
