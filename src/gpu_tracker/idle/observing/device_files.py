"""Device files of GPUs, and open files identified by what they are, whichever path they were opened through."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE = re.compile(r'nvidia(0|[1-9][0-9]*)')


def device_number(name: str) -> int | None:
    """Return the N of a node that is called ``nvidiaN``, None for every other name."""
    match = _NODE.fullmatch(name)
    return int(match[1]) if match else None


def find_devices(folder: str = '/dev') -> dict[int, Identity]:
    """Return by N the identity of each device ``nvidiaN`` in ``folder``; nothing without a folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}  # no such folder, or none of ours to read: no GPU that could be watched through it
    found: dict[int, Identity] = {}
    for name in names:
        number = device_number(name)
        if number is not None:
            try:
                found[number] = identity_of(f'{folder}/{name}')
            except OSError:
                pass  # removed meanwhile, or a link that leads nowhere
    return dict(sorted(found.items()))


_NULL = (1, 3)
"""The device number of /dev/null."""

# From statx(2) and linux/stat.h.
_DONT_SYNC = 0x4000
_TYPE_AND_INODE = 0x1 | 0x100
_SIZE = 256
_MODE = 28 // 2
_INODE = 32 // 8
_DEVICE_NUMBER = 128 // 8
_FILE_SYSTEM = 136 // 8


class Identity(NamedTuple):
    """The identity of an open file; two that are equal are the same device or the same file."""

    is_device: bool
    """Identified by a device number, through whichever node it is opened; otherwise by file system and inode."""
    first: int
    """The major device number; of a file the number of its file system."""
    second: int
    """The minor device number; of a file its inode."""

    def __str__(self) -> str:
        """Return it as one word."""
        return f'{"device" if self.is_device else "file"}-{self.first}-{self.second}'


def identity_of(path: str) -> Identity:
    """Return the identity of the file at ``path``, symbolic links followed.

    :raises OSError: if there is none, or it is not to be reached.
    """
    file = os.stat(path)
    number = (os.major(file.st_rdev), os.minor(file.st_rdev))
    # Every daemon holds /dev/null open: a node with its number stands in for a GPU in trials, as a file does.
    if stat.S_ISCHR(file.st_mode) and number != _NULL:
        return Identity(True, *number)  # noqa: FBT003 - the first of three fields
    return Identity(False, file.st_dev, file.st_ino)  # noqa: FBT003 - as above


def finder_for(identities: Mapping[int, Identity]) -> StatFinder | StatxFinder:
    """Return what finds the files with ``identities`` and calls them by their numbers."""
    statx = _statx()
    return StatFinder(identities) if statx is None else StatxFinder(identities, statx)


class _Wanted:
    """The files to be found, by what statx(2) says of them."""

    def __init__(self, identities: Mapping[int, Identity]) -> None:
        self.devices: dict[int, set[int]] = {}
        self.files: dict[tuple[int, int], set[int]] = {}
        for number, identity in identities.items():
            if identity.is_device:
                self.devices.setdefault(_pair(identity.first, identity.second), set()).add(number)
            else:
                place = (_pair(os.major(identity.first), os.minor(identity.first)), identity.second)
                self.files.setdefault(place, set()).add(number)


class StatxFinder:
    """Finds files with statx(2), which asks no file server: os.stat would hang for ever where one is gone.

    Called without declared types of arguments, as here, it costs 1.2 µs a file, os.stat 1.3 µs. To ask readlink(2)
    first, and leave out sockets and pipes, would cost 0.9 µs for each file and never pay. What is passed as an int
    fits a C int.
    """

    def __init__(self, identities: Mapping[int, Identity], statx: Any) -> None:  # noqa: ANN401 - ctypes has no type for it
        self._wanted = _Wanted(identities)
        self._statx = statx
        self._answer = ctypes.create_string_buffer(_SIZE)
        self._flags = ctypes.c_int(_DONT_SYNC)
        self._mask = ctypes.c_uint(_TYPE_AND_INODE)
        as_bytes = memoryview(self._answer).cast('B')
        self._halves = as_bytes.cast('H')
        self._words = as_bytes.cast('Q')

    def find(self, folder: int) -> frozenset[int] | None:
        """Return the numbers of the files that are open in a folder, None where nothing at all is.

        :param folder: A descriptor of ``/proc/PID/fd``.
        :raises OSError: if the folder is not to be read, or where its links lead is not to be seen.
        """
        names = os.listdir(folder)
        if not names:
            return None
        statx, answer, flags, mask, words = self._statx, self._answer, self._flags, self._mask, self._words
        devices, files = self._wanted.devices, self._wanted.files
        found: set[int] = set()
        for name in names:
            if statx(folder, name.encode(), flags, mask, answer):
                if ctypes.get_errno() == errno.EACCES:
                    _check_right(folder, name)
                continue
            if words[_DEVICE_NUMBER] in devices and stat.S_ISCHR(self._halves[_MODE]):
                found |= devices[words[_DEVICE_NUMBER]]
            if files:
                found |= files.get((words[_FILE_SYSTEM], words[_INODE]), frozenset())
        return frozenset(found)


class StatFinder:
    """Finds files with os.stat, where the C library or the kernel has no statx(2)."""

    def __init__(self, identities: Mapping[int, Identity]) -> None:
        self._wanted = _Wanted(identities)

    def find(self, folder: int) -> frozenset[int] | None:
        """See :meth:`StatxFinder.find`."""
        names = os.listdir(folder)
        found: set[int] = set()
        for name in names:
            try:
                file = os.stat(name, dir_fd=folder)
            except PermissionError:
                _check_right(folder, name)
                continue
            except OSError:
                continue  # closed meanwhile, or of a file server that is gone
            number = _pair(os.major(file.st_rdev), os.minor(file.st_rdev))
            if stat.S_ISCHR(file.st_mode):
                found |= self._wanted.devices.get(number, frozenset())
            place = (_pair(os.major(file.st_dev), os.minor(file.st_dev)), file.st_ino)
            found |= self._wanted.files.get(place, frozenset())
        return frozenset(found) if names else None


def _check_right(folder: int, name: str) -> None:
    """Raise PermissionError where it is the process that is not to be seen, not a FUSE mount of another user's."""
    try:
        os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass  # closed meanwhile


def _pair(major: int, minor: int) -> int:
    """Return a device number as two neighbouring fields of statx(2), read as one."""
    return int.from_bytes(struct.pack('=II', major, minor), sys.byteorder)


def _statx() -> Any:  # noqa: ANN401 - ctypes has no type for it
    """Return the C library's statx(2), None where there is none that works: old container software forbids it."""
    try:
        statx = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None
    answer = ctypes.create_string_buffer(_SIZE)
    at_current_folder = -100
    return statx if statx(at_current_folder, b'/', _DONT_SYNC, _TYPE_AND_INODE, answer) == 0 else None
