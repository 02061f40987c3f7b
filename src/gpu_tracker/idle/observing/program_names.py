"""What a process is called, by what it was started with. Pure."""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_PYTHON = re.compile(r'(python|pypy)[0-9.]*t?')
_SHELL = re.compile(r'(ba|da|z|k|mk|a)?sh')
_OTHERS = re.compile(r'(perl|ruby|Rscript|node)[0-9.]*')


class _Options(NamedTuple):
    """How an interpreter's options are told from the script that follows them."""

    with_value: frozenset[str]
    """Options after which a word stands that belongs to them."""
    code: frozenset[str]
    """Letters of options after which the program itself stands."""
    module: frozenset[str]
    """Letters of options after which the name of a module stands."""


_OF_PYTHON = _Options(frozenset({'-W', '-X', '--check-hash-based-pycs'}), frozenset('c'), frozenset('m'))
_OF_SHELLS = _Options(frozenset({'-o', '+o', '-O', '+O', '--rcfile', '--init-file'}), frozenset('c'), frozenset())
_OF_OTHERS = _Options(frozenset({'-I', '-r', '--require'}), frozenset('eE'), frozenset())


class NamedProgram(NamedTuple):
    """What a process runs."""

    names: tuple[str, ...] = ()
    """What it may be called: its own name, that of its program, and that of the script or module, none twice."""
    arguments: tuple[str, ...] = ()
    """The words behind the program or the script."""
    words: tuple[str, ...] = ()
    """The whole command line."""

    @property
    def name(self) -> str:
        """The name that tells a person most: ``?`` where there is none."""
        return self.names[-1] if self.names else '?'


def program_of(comm: str, words: Sequence[str]) -> NamedProgram:
    """Return what a process runs.

    :param comm: Its name as the kernel has it, cut to 15 characters.
    :param words: Its command line.
    """
    names = [comm]
    arguments = tuple(words[1:])
    if words:
        # Some services write there what they do: "sshd: alice@pts/0", "postgres: writer"; a login shell is "-bash".
        called = os.path.basename(words[0].partition(': ')[0]).removeprefix('-')
        names.append(called)
        options = _options_of(called)
        if options is not None:
            script, arguments = _script(options, arguments)
            names.append(script)
    return NamedProgram(tuple(dict.fromkeys(filter(None, names))), arguments, tuple(words))


def _options_of(program: str) -> _Options | None:
    for pattern, options in ((_PYTHON, _OF_PYTHON), (_SHELL, _OF_SHELLS), (_OTHERS, _OF_OTHERS)):
        if pattern.fullmatch(program):
            return options
    return None


def _script(options: _Options, words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the name of an interpreter's script or module, nothing where there is none, and the script's arguments."""
    position = 0
    while position < len(words):
        word, rest = words[position], words[position + 1 :]
        position += 1
        if word in options.with_value:
            position += 1
        elif word == '--':
            return _file(rest)
        elif word.startswith('-') and not word.startswith('--'):
            letter, attached = _last_letter(options, word)
            if letter in options.module:
                name, *arguments = (attached, *rest) if attached else rest or ('',)
                return name, tuple(arguments)
            if word == '-' or letter in options.code:  # the program itself, or that it comes from standard input
                return '', ()
            if letter is not None and not attached:
                position += 1
        elif not word.startswith(('-', '+')):
            return _file((word, *rest))
    return '', ()


def _file(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    return (os.path.basename(words[0]), words[1:]) if words else ('', ())


def _last_letter(options: _Options, word: str) -> tuple[str | None, str]:
    """Return the letter in a word of one-letter options that takes all that follows, and what follows in the word."""
    for place, letter in enumerate(word[1:], 2):
        if letter in options.code or letter in options.module or f'-{letter}' in options.with_value:
            return letter, word[place:]
    return None, ''
