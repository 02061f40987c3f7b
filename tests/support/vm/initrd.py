"""The root file system of the virtual machine: an archive as the kernel unpacks it (cpio, format "newc").

It holds the interpreter and the shared libraries that are needed at the paths that they have here, the standard
library, a shell, and the packages in a folder of their own. It is not compressed: to undo that takes an emulated
processor longer than to copy it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

PYTHON = str(Path(sys._base_executable).resolve())
"""The interpreter in the machine: that of these tests, without their environment."""
PACKAGES = '/packages'
"""The folder of the packages in the machine."""

_PACKAGES = ('docopt', 'gpu_tracker', 'psutil', 'pynvml')
_FOLDERS = ('/dev', '/etc', '/proc', '/sys', '/tmp')
_NOT_NEEDED = re.compile(r'config-3.*|dist-packages|ensurepip|idlelib|lib2to3|site-packages|tests?|tkinter|unittest')
_LIBRARY = re.compile(r'(?:^\s+|=> )(/\S+) \(0x', re.MULTILINE)
"""A line of ldd(1)."""
_FOLDER, _PROGRAM = 0o040755, 0o100755


def write(path: Path, programs: Iterable[str] = ()) -> None:
    """Write the archive.

    :param programs: The paths of more programs that it is to hold, with their shared libraries.
    """
    first_process = Path(__file__).with_name('guest.py').read_bytes()
    with path.open('wb') as file:
        archive = _Archive(file)
        for folder in _FOLDERS:
            archive.add_folder(folder)
        archive.add('/init', f'#!{PYTHON} -S\n'.encode() + first_process)
        for target, source in _files(programs):
            archive.add(target, source.read_bytes(), int(source.stat().st_mtime))
        archive.end()


def _files(programs: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield the path of each file in the machine, and the file here that it is a copy of."""
    binaries = [Path(PYTHON), Path('/bin/sh'), Path('/bin/sleep'), *map(Path, programs)]
    for file in _tree(Path(sysconfig.get_path('stdlib'))):
        if file.suffix == '.so':
            binaries.append(file)
        else:
            yield str(file), file
    for name in _PACKAGES:
        origin = Path(importlib.util.find_spec(name).origin)
        for file in _tree(origin.parent) if origin.name == '__init__.py' else [origin]:
            yield f'{PACKAGES}/{file.relative_to(origin.parents[origin.name == "__init__.py"])}', file
    said = subprocess.run(['ldd', *binaries], stdout=subprocess.PIPE, text=True, check=False).stdout
    for path in {*map(str, binaries), *_LIBRARY.findall(said)}:
        yield path, Path(path)


def _tree(folder: Path) -> Iterator[Path]:
    """Yield the files of a library."""
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _NOT_NEEDED.fullmatch(name)]
        yield from (Path(above, name) for name in names if not name.endswith(('.a', '.opt-1.pyc', '.opt-2.pyc')))


class _Archive:
    """An archive: kernel documentation, driver-api/early-userspace/buffer-format."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._folders = {'/'}
        self._count = 0

    def add_folder(self, path: str) -> None:
        """Add a folder, and those around it."""
        if path not in self._folders:
            self.add_folder(os.path.dirname(path))
            self._folders.add(path)
            self._write(path, _FOLDER, b'', 0)

    def add(self, path: str, data: bytes, modified: int = 0) -> None:
        """Add a file, which may be executed.

        :param modified: When it was modified, by which Python knows whether what it has compiled is still right.
        """
        self.add_folder(os.path.dirname(path))
        self._write(path, _PROGRAM, data, modified)

    def end(self) -> None:
        """Write what ends an archive."""
        self._write('/TRAILER!!!', 0, b'', 0)

    def _write(self, path: str, mode: int, data: bytes, modified: int) -> None:
        name = os.fsencode(path[1:]) + b'\0'
        self._count += 1
        fields = (self._count, mode, 0, 0, 1, modified, len(data), 0, 0, 0, 0, len(name), 0)
        header = b'070701' + b''.join(b'%08X' % field for field in fields)
        for part in (header + name, data):
            self._file.write(part + bytes(-len(part) % 4))
