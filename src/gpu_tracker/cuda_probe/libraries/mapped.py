"""The files that a process has mapped as code, as far as they may hold functions that are probed."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from gpu_tracker.cuda_probe.calls import Library

_NAMES = (
    (re.compile(r'libcudart[-.\d_a-zA-Z]*\.so'), Library.RUNTIME),
    (re.compile(r'libcuda\.so'), Library.DRIVER),
    (re.compile(r'libc\.so|libc-\d|libc\.musl|ld-musl'), Library.LIBC),
    (re.compile(r'ld-linux|ld-musl|ld-\d|ld64\.so'), Library.LOADER),
)
_CODE = re.compile(r'(?P<begin>[0-9a-f]+)-(?P<end>[0-9a-f]+) ..x. \S+ \S+ \d+ +(?P<path>/.*)')
"""A line of ``maps`` of a file that is mapped as code, see proc_pid_maps(5)."""
_DELETED = ' (deleted)'


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
    modified: int
    """When its contents were changed last, in nanoseconds."""
    libraries: tuple[Library, ...]


def libraries_of(name: str) -> tuple[Library, ...]:
    """Return what a file of that name holds; none where the name tells nothing."""
    return tuple(library for pattern, library in _NAMES if pattern.match(name))


def code_file(path: str, shown: str, libraries: tuple[Library, ...]) -> CodeFile | None:
    """Return the file at ``path``, None where it is gone, cannot be reached or is no regular file."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # the process has ended, or the file was removed while it is in use
    if not stat.S_ISREG(status.st_mode):
        return None
    return CodeFile(path, shown, FileOnDisk(status.st_dev, status.st_ino), status.st_mtime_ns, libraries)


def mapped_files(pid: int, proc: str = '/proc') -> list[CodeFile]:
    """Return CUDA's libraries, the C library and the loader that a process has mapped, and its executable.

    The executable may have the runtime linked in. A process that is gone has none.

    :raises PermissionError: The process is somebody else's.
    """
    folder = f'{proc}/{pid}'
    try:
        with open(f'{folder}/maps', encoding='utf-8', errors='surrogateescape', newline='\n') as maps:
            code = [part for line in maps if (part := _CODE.match(line))]
        executable = os.readlink(f'{folder}/exe').removesuffix(_DELETED)
    except PermissionError:
        raise
    except OSError:
        return []
    name = os.path.basename(executable)
    files = [code_file(f'{folder}/exe', executable, (Library.RUNTIME, *libraries_of(name)))]
    files += (_mapped_library(folder, part) for part in code)
    found: dict[FileOnDisk, CodeFile] = {}
    for file in files:
        if file is not None:
            found.setdefault(file.identity, file)
    return list(found.values())


def _mapped_library(folder: str, part: re.Match[str]) -> CodeFile | None:
    """Return the file of a line of ``maps``; one that was removed or replaced meanwhile through the mapping itself."""
    path = part['path'].replace('\\012', '\n')
    shown = path.removesuffix(_DELETED)
    libraries = libraries_of(os.path.basename(shown))
    if not libraries:
        return None
    if path == shown:
        return code_file(f'{folder}/root{path}', path, libraries)
    return code_file(f'{folder}/map_files/{int(part["begin"], 16):x}-{int(part["end"], 16):x}', shown, libraries)
