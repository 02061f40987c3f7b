"""Bytes that are read piece by piece, from a file or from memory.

A file is read with ``pread`` and never mapped: a mapped file that somebody shortens kills its reader with SIGBUS.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from typing import Protocol


class NotReadableError(Exception):
    """A file, or a part of it, is not what it should be; the text says what is wrong with it."""


class Region(Protocol):
    """Some bytes with a beginning and an end."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on, fewer or none where the region ends before."""


class FileRegion:
    """A part of a file that the caller keeps open."""

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self._descriptor = descriptor
        self._start = start
        self.size = size

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on; raises NotReadableError where the file cannot be read."""
        wanted = max(0, min(size, self.size - offset))
        pieces = []
        while wanted:
            try:
                piece = os.pread(self._descriptor, wanted, self._start + offset)
            except OSError as error:
                raise NotReadableError(error.strerror or str(error)) from None
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            wanted -= len(piece)
        return b''.join(pieces)


class OpenFile(FileRegion):
    """A regular file, open for reading until this and all that reads through it are dropped.

    Raises OSError where ``path`` cannot be opened, also where it is a device, a FIFO or a folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, descriptor)
        self.status = os.fstat(descriptor)
        if not stat.S_ISREG(self.status.st_mode):
            number = errno.EISDIR if stat.S_ISDIR(self.status.st_mode) else errno.EINVAL
            raise OSError(number, 'not a regular file', os.fspath(path))
        super().__init__(descriptor, 0, self.status.st_size)


class MemoryRegion:
    """Bytes in memory."""

    def __init__(self, contents: bytes) -> None:
        self._contents = contents
        self.size = len(contents)

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on."""
        return self._contents[offset : offset + max(0, size)]


class PartOfRegion:
    """A part of another region."""

    def __init__(self, whole: Region, start: int, size: int) -> None:
        self._whole = whole
        self._start = start
        self.size = max(0, min(size, whole.size - start))

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on."""
        return self._whole.read(self._start + offset, max(0, min(size, self.size - offset)))
