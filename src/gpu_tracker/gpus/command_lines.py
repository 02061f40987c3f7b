"""Command lines: what they are about, and what of them others may read."""

from __future__ import annotations

import functools
import os
import re
import shlex
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NONE, PROGRAM, FULL = 'none', 'program', 'full'
"""How much of a command line is reported: nothing, the names of program and script, or all of it."""

_IPYTHON_KERNELS = ('ipykernel_launcher', 'ipykernel')
_NOTEBOOK = 'jupyter'


_PYTHON = 'c'
_SHELL = 'cs'
_OTHER = 'eEpr'
_INTERPRETERS = {
    **dict.fromkeys(('python', 'pypy'), _PYTHON),
    **dict.fromkeys(('bash', 'dash', 'ksh', 'sh', 'zsh'), _SHELL),
    **dict.fromkeys(('R', 'Rscript', 'julia', 'node', 'perl', 'php', 'ruby'), _OTHER),
    'java': '',
}
"""Programs that run scripts -> the letters of options after which code stands, or which have it read from a pipe."""
_STOPS = frozenset({'-', '--', '--args'})
"""What follows are arguments, or the program comes from a pipe."""
_SUFFIX = r'\.(py|pyc|pyz|sh|pl|rb|js|mjs|R|r|jl|php|jar)'
_PATH = re.compile(rf'(?!.*://)([^-\s=?][^\s=?]*|[^-\s=?][^=?]*{_SUFFIX})')
_SCRIPT = re.compile(rf'(?!.*://)[^-\s=?][^\s=?]*{_SUFFIX}')
_CODE = re.compile(r'--(command|eval|execute|print|run)\b')
_MULTIPROCESSING = re.compile(r'from (multiprocessing\.\w+) import \w+')
"""The code that Python's own multiprocessing has its processes run."""
_MODULE = re.compile(r'[\w.]+')
_OPTION = re.compile(r'[-+].', re.DOTALL)
_LONGEST_NAME = 15
"""Bytes that the kernel keeps of a name."""
_MOST_KEPT = 1024


def program_of(words: Sequence[str]) -> str:
    """Return ``jupyter`` for an IPython kernel, else the first word that ends in ``.py``, else the whole command."""
    if _is_notebook(words):
        return _NOTEBOOK
    return next((word for word in words if word.endswith('.py')), ' '.join(words))


def process_name(name: bytes, command_line: bytes) -> str:
    """Return the script or module that a process runs, else its own name.

    A name that the program has given itself, such as ``pt_data_worker``, is kept.

    :param name: The name that the kernel has, cut to 15 bytes.
    :param command_line: Its words, a NUL behind each; without the last one if that is cut off.
    """
    known = name.decode(errors='replace').removesuffix('.exe')
    *words, _ = command_line.decode(errors='replace').split('\0')
    program = _program(words[0]) if words else ''
    script = _NOTEBOOK if _is_notebook(words) else _script(program, words[1:])
    is_of_program = (
        any(text.startswith(known) for text in (program, script or ''))
        or known.rstrip('0123456789.') in _INTERPRETERS
        or known.endswith('MainThread')  # every program of Node.js
    )
    if not is_of_program:
        return known
    return script or (known if 0 < len(name) < _LONGEST_NAME else program)


@functools.lru_cache(_MOST_KEPT)  # the same ones come at each reading
def without_arguments(command: str) -> tuple[str, str]:
    """Return the names of program and script of a command line, and the more telling one of the two.

    ``python3 train.py`` and ``train.py`` of ``/usr/bin/python3 -u /home/ann/train.py --token=secret``: whatever else
    stands there may be a secret. Where it is not certain which word is the script, none is shown.

    :param command: Its words are quoted as for a shell; its end may be cut off.
    """
    words = _words(command)
    program = _program(words[0]) if words else ''
    script = _script(program, words[1:])
    if script is None:
        return program, program
    return f'{program} {script}', _NOTEBOOK if _is_notebook(words) else script


def _program(word: str) -> str:
    """Return the name of a program; nothing where a process has given itself a title that may have a secret in it."""
    first = (word.split() or [''])[0]
    name = os.path.basename(first).lstrip('-').removesuffix('.exe')
    return '' if '://' in first or set('=?') & set(name) or '@' in name[1:] else name


def _script(program: str, words: Sequence[str]) -> str | None:
    """Return the name of the file, or of the module, that an interpreter runs; None if it is not certain.

    The first word that is no option is the script. Behind an option it may be the option's value, unless it has the
    suffix of a script. Of Python it is known which options have values.

    :param words: Those behind the program.
    """
    code = _INTERPRETERS.get(program.rstrip('0123456789.'))
    if code is None:
        return None
    names = _PATH
    numbered = iter(enumerate(words))
    for number, word in numbered:
        following = next(iter(words[number + 1 :]), '')
        if word in _STOPS or _CODE.match(word):
            return None
        if not _OPTION.match(word):
            return _file_name(word) if names.fullmatch(word) else None
        names = _PATH if code == _PYTHON and not word.startswith('--') else _SCRIPT
        for place, letter in enumerate('' if word.startswith('--') else word[1:], 2):
            if letter in code:
                found = _MULTIPROCESSING.match(following)
                return found and found[1]
            if code == _PYTHON and letter == 'm':
                module = word[place:] or following
                return module if _MODULE.fullmatch(module) else None
            if code == _PYTHON and letter in 'WX':
                if place == len(word):
                    next(numbered, None)  # the next word is its value, else the rest of this one
                break
    return None


def _file_name(path: str) -> str:
    """Return the name of a file; of a package that is run as a folder, that of the folder."""
    return os.path.basename(path.removesuffix('/__main__.py'))


def _is_notebook(words: Sequence[str]) -> bool:
    return any(before == '-m' and word in _IPYTHON_KERNELS for before, word in pairwise(words))


def _words(command: str) -> list[str]:
    reader = shlex.shlex(command, posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters = True, ''
    words: list[str] = []
    try:
        words.extend(iter(reader.get_token, None))
    except ValueError:
        pass  # the end of a quotation is cut off, and the word with it
    return words
