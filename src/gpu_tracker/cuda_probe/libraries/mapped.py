"""The files that a process has mapped as code, as far as they may hold functions that are probed."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from gpu_tracker.cuda_probe.calls import Library

_NAMES = (
    (re.compile(r'libcudart[-.\d_a-zA-Z]*\.so'), Library.RUNTIME),
    (re.compile(r'libcuda\.so'), Library.DRIVER),
    (re.compile(r'libc\.so|libc-\d|libc\.musl|ld-musl'), Library.LIBC),
    (re.compile(r'ld-linux|ld-musl|ld-\d|ld64\.so'), Library.LOADER),
)


class FileOnDisk(NamedTuple):
    """A file, whatever it is called."""

    device: int
    inode: int


class CodeFile(NamedTuple):
    """A file that may hold functions that are probed."""

    path: str
    """Where this process reaches it."""
    shown: str
    """Where the process that has mapped it sees it."""
    identity: FileOnDisk
    libraries: tuple[Library, ...]


def libraries_of(name: str) -> tuple[Library, ...]:
    """Return what a file of that name holds; none where the name tells nothing."""
    return tuple(library for pattern, library in _NAMES if pattern.match(name))


def code_file(path: str, shown: str, libraries: tuple[Library, ...]) -> CodeFile | None:
    """Return the file at ``path``, None where it is gone or cannot be reached."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # the process has ended, or the file was removed while it is in use
    return CodeFile(path, shown, FileOnDisk(status.st_dev, status.st_ino), libraries)


def mapped_files(pid: int, proc: str = '/proc') -> list[CodeFile]:
    """Return CUDA's libraries, the C library and the loader that a process has mapped, and its executable.

    The executable may have the runtime linked in. A process that is gone or not ours to look at has none.
    """
    try:
        with open(f'{proc}/{pid}/maps', encoding='utf-8', errors='surrogateescape') as file:
            paths = {line.split(maxsplit=5)[5].rstrip('\n') for line in file if _is_code(line)}
        executable = os.readlink(f'{proc}/{pid}/exe')
    except OSError:
        return []
    wanted = {path: libraries_of(os.path.basename(path)) for path in paths}
    wanted[executable] = (Library.RUNTIME,)
    root = f'{proc}/{pid}/root'
    found = (code_file(root + path, path, libraries) for path, libraries in wanted.items() if libraries)
    return [file for file in found if file is not None]


def _is_code(line: str) -> bool:
    """Tell whether a line of ``maps`` is of a file that is mapped as code, see proc_pid_maps(5)."""
    rights = line.partition(' ')[2][:4]
    return 'x' in rights and '/' in line
