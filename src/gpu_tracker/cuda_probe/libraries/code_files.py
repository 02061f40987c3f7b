"""The files that a process has mapped as code, and where the probed functions begin in them.

What the kernel attaches to is an offset in a file, whatever the versions of its symbols.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.elf64 import SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, Elf
from gpu_tracker.cuda_probe.binaries.process_memory import code_of
from gpu_tracker.cuda_probe.binaries.region import NotReadableError, OpenFile
from gpu_tracker.cuda_probe.calls import Library

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpu_tracker.cuda_probe.binaries.process_memory import MappedPart

_NAMES = (
    (re.compile(r'libcudart[-.\d_a-zA-Z]*\.so'), Library.RUNTIME),
    (re.compile(r'libcuda\.so'), Library.DRIVER),
    (re.compile(r'libc\.so|libc-\d|libc\.musl|ld-musl'), Library.LIBC),
    (re.compile(r'ld-linux|ld-musl|ld-\d|ld64\.so'), Library.LOADER),
)
_BEGINNINGS = ('libc', 'ld')
"""Of all these names: a process has mapped hundreds of files, and they are compared each time that it loads one."""
_DELETED = ' (deleted)'
_MOST_OFFSETS = 64
"""A function has one for each of its versions; static ones of the same name stand beside."""
_MOST_CODE = 16
"""Segments of a file; it has one or two."""


class FileOnDisk(NamedTuple):
    """A file, whatever it is called and whatever is written to it: what is attached to it stays."""

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
    """Return what a file of that name holds; none where the name matches nothing."""
    if not name.startswith(_BEGINNINGS):
        return ()
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

    The executable may have the runtime linked in; so may every other library, in a process that has the driver's: it
    is what loads that. A process that is gone has none.

    :raises PermissionError: The process is somebody else's.
    """
    folder = f'{proc}/{pid}'
    try:
        code = code_of(proc, pid)
        executable = os.readlink(f'{folder}/exe').removesuffix(_DELETED)
    except PermissionError:
        raise
    except OSError:
        return []
    name = os.path.basename(executable)
    files = [code_file(f'{folder}/exe', executable, (Library.RUNTIME, *libraries_of(name)))]
    files += (_mapped_library(folder, mapping) for mapping in code)
    if any(file is not None and Library.DRIVER in file.libraries for file in files):
        files += (_mapped_library(folder, mapping, (Library.RUNTIME,)) for mapping in code)
    found: dict[FileOnDisk, CodeFile] = {}
    for file in files:
        if file is not None:
            found.setdefault(file.identity, file)
    return list(found.values())


def _mapped_library(folder: str, mapping: MappedPart, otherwise: tuple[Library, ...] = ()) -> CodeFile | None:
    """Return the file of a mapping, None where its name excludes probed functions.

    :param otherwise: What it may hold where its name matches nothing.
    """
    shown = mapping.path or ''
    libraries = libraries_of(os.path.basename(shown)) or otherwise
    return code_file(mapping.reached_through(folder), shown, libraries) if libraries else None


def find_functions(path: str, names: Collection[str]) -> Mapping[str, frozenset[int]]:
    """Return the offsets in the file at which functions of these names begin; names without one are left out.

    Anything but a whole 64-bit ELF file has none.

    :raises OSError: The file cannot be opened.
    """
    found: dict[str, set[int]] = {}
    try:
        elf = Elf(OpenFile(path))
        code = [segment for segment in elf.segments() if segment.is_code][:_MOST_CODE]
        for table in (*elf.of_kind(SHT_SYMTAB)[:1], *elf.of_kind(SHT_DYNSYM)[:1]):
            for name, symbol in elf.symbols_named(table, names):
                # Others of code are resolvers, which are called once, when a library is loaded.
                offsets = found.setdefault(name, set())
                if symbol.kind == STT_FUNC and symbol.section and len(offsets) < _MOST_OFFSETS:
                    in_file = (segment.offset_of(symbol.value) for segment in code)
                    offsets.update(offset for offset in in_file if offset is not None)
    except NotReadableError:
        return {}  # another kind of file, or a damaged one
    except OSError as error:
        if error.errno == errno.EINVAL:
            return {}  # no regular file
        raise
    return {name: frozenset(offsets) for name, offsets in found.items() if offsets}
