"""The CUDA libraries that a command may load later: attached to before, not even the first call is lost."""

from __future__ import annotations

import glob
import itertools
import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.calls import Library
from gpu_tracker.cuda_probe.libraries.code_files import CodeFile, code_file, libraries_of, mapped_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_PATTERNS = ('libcudart*.so*', 'libcuda.so*')
_SYSTEM_FOLDERS = (
    '/usr/lib/*-linux-gnu',
    '/usr/lib64',
    '/usr/lib',
    '/usr/local/lib',
    '/usr/local/cuda*/lib64',
    '/usr/local/cuda*/targets/*/lib',
    '/opt/cuda/lib64',
)
_FOLDERS_OF_A_PREFIX = (
    'lib',
    'lib64',
    'targets/*/lib',
    'lib*/python3*/*-packages/nvidia/*/lib',
    'lib*/python3*/*-packages/torch/lib',
    'local/lib/python3*/dist-packages/nvidia/*/lib',
    'local/lib/python3*/dist-packages/torch/lib',
)
"""Where Python, conda, Debian's Python and toolkits keep them, from the folder that has ``bin``."""
_MOST_FILES = 64
_MOST_WORDS = 256
"""Of a command: its programs stand before its thousands of files."""
_MOST_FOLDERS = 8
_LONGEST_INTERPRETER = 256  # as the kernel reads it, see execve(2)


def candidates(
    environment: Mapping[str, str],
    command: Sequence[str] = (),
    folders: Iterable[str] = _SYSTEM_FOLDERS,
    *,
    begin: str = '',
) -> list[CodeFile]:
    """Return the libraries that a program started here may load, and the executables, which may have one linked in.

    They are searched for in the system's folders, in those of the environment, and beside the programs of the command.

    :param command: The program and its arguments; a shell's command line is read word by word.
    :param folders: The system's.
    :param begin: The folder in which the command is started; empty: this one.
    """
    programs = list(dict.fromkeys(executables(command, environment.get('PATH'), begin)))
    found: dict[tuple[int, int], CodeFile] = {}
    for path in (*_libraries(environment, programs, folders), *programs):
        libraries = libraries_of(os.path.basename(path)) or (Library.RUNTIME,)
        file = code_file(path, path, libraries)
        if file is not None and len(found) < _MOST_FILES:
            found.setdefault(file.identity, file)
    for file in mapped_files(os.getpid()):  # this process' own C library and loader are most likely theirs
        if Library.LIBC in file.libraries or Library.LOADER in file.libraries:
            found.setdefault(file.identity, file)
    return list(found.values())


def _libraries(environment: Mapping[str, str], programs: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    named = re.split('[:;]', environment.get('LD_LIBRARY_PATH', ''))  # ld.so(8)
    searched = [glob.escape(folder) for folder in named if folder]
    for name in ('VIRTUAL_ENV', 'CONDA_PREFIX', 'CUDA_HOME', 'CUDA_PATH'):
        if environment.get(name):
            searched += _within(environment[name])
    for program in programs:
        beside = os.path.dirname(program)
        searched += [glob.escape(beside), *_within(os.path.dirname(beside))]
    for folder in (*searched, *folders):
        for pattern in _PATTERNS:
            yield from sorted(glob.glob(os.path.join(folder, pattern)))
    yield from (path for path in re.split('[: ]', environment.get('LD_PRELOAD', '')) if '/' in path)


def _within(prefix: str) -> list[str]:
    return [os.path.join(glob.escape(prefix), folder) for folder in _FOLDERS_OF_A_PREFIX]


def executables(command: Sequence[str], path: str | None, folder: str = '') -> Iterator[str]:
    """Yield the absolute paths of executables, the interpreters of scripts too, and where links lead.

    :param command: The words of a command; a shell's command line is read word by word.
    :param path: The variable PATH.
    :param folder: Where the command is started; empty: here.
    """
    for program in _named(command, path, folder):
        for each in (program, *_interpreter(program, path)):
            yield os.path.abspath(each)
            yield os.path.realpath(each)  # the python of a virtual environment is a link


def _named(command: Sequence[str], path: str | None, folder: str) -> Iterator[str]:
    folders = [folder]  # where relative paths may begin: a shell may go into folders first
    words = (word for argument in command for word in _words(argument))
    for word in dict.fromkeys(itertools.islice(words, _MOST_WORDS)):
        named = [os.path.join(each, os.path.expanduser(word)) for each in folders]
        folders += [each for each in named if os.path.isdir(each)][: _MOST_FOLDERS - len(folders)]
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
