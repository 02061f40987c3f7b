"""Command lines: what they are about, and what of them others may read."""

from __future__ import annotations

import functools
import os
import re
import shlex
from itertools import pairwise
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NONE, PROGRAM, FULL = 'none', 'program', 'full'
"""How much of a command line is reported: nothing, the names of program and script, or all of it."""

_IPYTHON_KERNELS = ('ipykernel_launcher', 'ipykernel')
_NOTEBOOK = 'jupyter'


class _Interpreter(NamedTuple):
    """The options of a program that runs scripts, as far as they tell which word is the script."""

    code: str
    """Letters of options after which code stands instead of the name of a file, or which have it read from a pipe."""
    module: str = ''
    """The letter after which the name of a module stands."""
    valued: str = ''
    """Letters of options that have a value, at the end of a word: the next word is the value."""
    valued_words: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    has_other_valued: bool = False
    """Whether further options may have one."""


_PYTHON = _Interpreter('c', module='m', valued='WX', valued_words=frozenset({'--check-hash-based-pycs', '--jit'}))
_SHELL = _Interpreter('cs', valued='oO', valued_words=frozenset({'--init-file', '--rcfile'}))
_JAVA = _Interpreter(
    '',
    valued_words=frozenset(
        {'-cp', '-classpath', '--class-path', '-p', '--module-path', '--add-exports', '--add-modules', '--add-opens'}
    ),
)
_OTHER = _Interpreter('eEpr', has_other_valued=True)
_INTERPRETERS = {
    **dict.fromkeys(('python', 'pypy'), _PYTHON),
    **dict.fromkeys(('bash', 'dash', 'ksh', 'sh', 'zsh'), _SHELL),
    'java': _JAVA,
    'julia': _OTHER._replace(valued_words=frozenset({'-t', '--threads', '-J', '--sysimage', '-L', '--load', '-C'})),
    'node': _OTHER._replace(valued_words=frozenset({'--require', '--import', '--loader', '--env-file', '-C'})),
    'php': _OTHER._replace(valued_words=frozenset({'-d', '-c', '-S', '-t', '-z'})),
    **dict.fromkeys(('lua', 'perl', 'R', 'Rscript', 'ruby'), _OTHER),
}
_LAUNCHERS = frozenset({'accelerate', 'deepspeed', 'horovodrun', 'mpiexec', 'mpirun', 'srun', 'torchrun'})
_OF_PYTHON = frozenset({'accelerate', 'deepspeed', 'torchrun'})
"""The launchers that run scripts of Python only."""
_STOPS = frozenset({'-', '--', '--args'})
"""What follows are arguments, or the program comes from a pipe."""
_SUFFIX = r'\.(py|pyc|pyz|sh|pl|rb|js|mjs|R|r|jl|lua|php|jar)'
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
    """Return the name of the file, or of the module, that an interpreter or a launcher runs.

    :param words: Those behind the program.
    """
    interpreter = _INTERPRETERS.get(program.rstrip('0123456789.'))
    if interpreter is not None:
        return _interpreted(interpreter, words)
    return _launched(program, words) if program in _LAUNCHERS else None


class _Option(NamedTuple):
    """What an option of an interpreter says of the words behind it."""

    values: int = 0
    """How many of them are values of the option."""
    is_certain: bool = True
    """Whether it has no other values."""
    ends: bool = False
    """Whether no script is among them."""
    module: str | None = None
    """The module that is run; empty: its name is the next word."""


def _interpreted(interpreter: _Interpreter, words: Sequence[str]) -> str | None:
    option = _Option()
    values = 0
    for number, word in enumerate(words):
        if values:
            values -= 1
        elif word in _STOPS or _CODE.match(word):
            return None
        elif _OPTION.match(word):
            option = _option(interpreter, word)
            values = option.values
            if option.ends:
                code = _MULTIPROCESSING.match(next(iter(words[number + 1 :]), ''))
                return code and code[1]
            if option.module is not None:
                module = option.module or next(iter(words[number + 1 :]), '')
                return module if _MODULE.fullmatch(module) else None
        else:  # the first word that is none is the script, and all behind it are its arguments
            return _file_name(word) if (_PATH if option.is_certain else _SCRIPT).fullmatch(word) else None
    return None


def _file_name(path: str) -> str:
    """Return the name of a file; of a package that is run as a folder, that of the folder."""
    return os.path.basename(path.removesuffix('/__main__.py'))


def _option(interpreter: _Interpreter, word: str) -> _Option:
    if word in interpreter.valued_words:
        return _Option(values=1)
    if interpreter is _JAVA or word.startswith('--'):
        return _Option(is_certain=interpreter is _JAVA or '=' in word)
    values = 0
    for place, letter in enumerate(word[1:], 2):
        if letter in interpreter.code:
            return _Option(ends=True)
        if letter in interpreter.module:
            return _Option(module=word[place:])
        if letter in interpreter.valued:
            if interpreter is not _SHELL:
                return _Option(values=int(place == len(word)))  # the rest of the word is the value
            values += 1
    return _Option(values, is_certain=not interpreter.has_other_valued)


def _launched(program: str, words: Sequence[str]) -> str | None:
    """Return what a launcher runs; which of its options have values is not known.

    Behind what may be a value, or a program with arguments of its own, only an interpreter's script is certain.
    """
    may_be_value = program == 'accelerate'  # or its command, launch
    is_certain = True
    for number, word in enumerate(words):
        following = next(iter(words[number + 1 :]), '')
        if word in _STOPS or _CODE.match(word) or word.startswith('-m'):
            return None
        if word.startswith('-c') and not (word == '-c' and following.isdecimal()):  # CPUs of a task, for srun
            return None
        if _OPTION.match(word):
            may_be_value = '=' not in word
        elif is_certain and _SCRIPT.fullmatch(word):
            return os.path.basename(word)
        elif os.path.basename(word).rstrip('0123456789.') in _INTERPRETERS:
            return _script(os.path.basename(word), words[number + 1 :])
        elif not may_be_value:
            return None  # a program that runs no scripts
        else:
            may_be_value = False
            is_certain = is_certain and (program in _OF_PYTHON or word.isdecimal())
    return None


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
