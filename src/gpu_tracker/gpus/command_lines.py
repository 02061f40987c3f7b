"""Command lines: what they are about, and what of them others may read."""

from __future__ import annotations

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
_CODE_LETTERS = {
    **dict.fromkeys(('python', 'pypy', 'bash', 'dash', 'ksh', 'sh', 'zsh'), 'c'),
    **dict.fromkeys(('julia', 'lua', 'node', 'perl', 'php', 'R', 'Rscript', 'ruby'), 'eEpr'),
    'java': '',
}
"""The interpreters, and their options of one letter after which a program stands instead of the name of its file."""
_LAUNCHERS = frozenset({'accelerate', 'deepspeed', 'horovodrun', 'mpiexec', 'mpirun', 'srun', 'torchrun'})
_SCRIPT = re.compile(r'[^\s=-][^\s=]*\.(py|pyc|pyz|sh|pl|rb|js|mjs|R|r|jl|lua|php|jar)')
_CODE = re.compile(r'--(command|eval|execute|print|run)\b')
_SHORT = re.compile(r'-[^-]')
_FILE = re.compile(r'[^-].*', re.DOTALL)
_MODULE = re.compile(r'[\w.]+')


def program_of(words: Sequence[str]) -> str:
    """Return ``jupyter`` for an IPython kernel, else the first word that ends in ``.py``, else the whole command."""
    if _is_notebook(words):
        return _NOTEBOOK
    return next((word for word in words if word.endswith('.py')), ' '.join(words))


def without_arguments(command: str) -> tuple[str, str]:
    """Return the names of program and script of a command line, and the more telling one of the two.

    ``python3 train.py`` and ``train.py`` of ``/usr/bin/python3 -u /home/ann/train.py --token=secret``: whatever else
    stands there may be a secret.

    :param command: Its words are quoted as for a shell; its end may be cut off.
    """
    words = _words(command)
    first = words[0].split() if words else []
    program = os.path.basename(first[0]).lstrip('-') if first else ''  # a title that the process has given itself
    script = _script(program, words)
    if script is None:
        return program, program
    return f'{program} {script}', _NOTEBOOK if _is_notebook(words) else script


def _script(program: str, words: Sequence[str]) -> str | None:
    """Return the name of the file, or of the module, that an interpreter or a launcher runs."""
    language = program.rstrip('0123456789.')
    code_letters = _CODE_LETTERS.get(language)
    if code_letters is None and program not in _LAUNCHERS:
        return None
    for number, (before, word) in enumerate(pairwise(words)):
        if before == '-m' and language in {'python', 'pypy'}:
            return word if _MODULE.fullmatch(word) else None
        if _CODE.match(word) or (_SHORT.match(word) and set(word) & set(code_letters or '')):
            return None
        if (_FILE if number == 0 and code_letters is not None else _SCRIPT).fullmatch(word):
            return os.path.basename(word)
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
