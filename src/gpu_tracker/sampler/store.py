"""Where the sampler puts its totals whole, and from where the tracker reads them, also after the sampler was killed.

A memfd on Linux, a temporary file elsewhere and where a container forbids that. Two places are written in turn, each
with a number and its length, so that whoever reads while the other writes, or was killed writing, finds the one before.
"""

from __future__ import annotations

import errno
import marshal
import sys

from gpu_tracker.real import os
from gpu_tracker.sampler.descriptors import above_standard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PLACE = 1 << 16
"""Bytes for one place: totals are a few hundred. Small, as a hard limit on the size of files counts for a memfd too."""
LARGE_PLACE = 1 << 21
"""The same where sections were asked for, which list processes one by one; what is not written takes no memory."""
_NOT_OFFERED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""What a kernel without a system call answers, and containers that forbid it."""
_HEADER = 16
_CHECK = b'gput'


class Store:
    """Two places for marshalled totals in an open file.

    :param handle: A descriptor open for reading and writing.
    :param place: Bytes for one place.
    :param start: Where the first one begins.
    """

    def __init__(self, handle: int, place: int = PLACE, start: int = 0) -> None:
        self.handle = handle
        self.place = place
        self._start = start
        self._number = 0

    def write(self, content: Mapping[str, Any]) -> None:
        """Put evidence or totals in place of those before the last ones."""
        plain: Any = content
        self.put(marshal.dumps(plain))

    def put(self, data: bytes) -> None:
        """Put bytes in place of those before the last ones."""
        if _HEADER + len(data) > self.place:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        self._number += 1
        place = self._start + self._number % 2 * self.place
        _write_at(self.handle, bytes(_HEADER), place)
        _write_at(self.handle, data, place + _HEADER)
        header = self._number.to_bytes(8, 'big') + len(data).to_bytes(4, 'big') + _CHECK
        _write_at(self.handle, header, place)

    def replace(self, totals: Mapping[str, Any]) -> None:
        """Put ``totals`` in after those that another process, which has ended its writing, has put in last."""
        newest = self._newest()
        if newest is not None:
            self._number = newest[0]
        self.write(totals)

    def read(self) -> Any:  # noqa: ANN401 - who has written it knows
        """Return what was written last, completely; None if there is nothing."""
        data = self.get()
        return None if data is None else marshal.loads(data)  # noqa: S302 - our own file

    def get(self) -> bytes | None:
        """Return the bytes that were put last; None if there are none."""
        while (newest := self._newest()) is not None:
            _, place, length = newest
            data = _read_at(self.handle, min(length, self.place), place + _HEADER)
            if self._newest() == newest:  # else this place may have been written meanwhile
                return data
        return None

    def _newest(self) -> tuple[int, int, int] | None:
        """Return number, place and length of the last totals."""
        newest: tuple[int, int, int] | None = None
        for place in (self._start, self._start + self.place):
            header = _read_at(self.handle, _HEADER, place)
            if len(header) == _HEADER and header.endswith(_CHECK):
                found = (int.from_bytes(header[:8], 'big'), place, int.from_bytes(header[8:12], 'big'))
                newest = found if newest is None else max(newest, found)
        return newest

    def close(self) -> None:
        """Close the file."""
        os.close(self.handle)


def create_store(place: int = PLACE) -> tuple[Store, str | None]:
    """Return a new store, and the path by which another process opens it where it cannot inherit the descriptor.

    :param place: See :class:`Store`.
    """
    if hasattr(os, 'memfd_create'):
        try:
            handle = os.memfd_create('gpu-tracker')
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
        else:
            return Store(above_standard(handle), place), None
    import tempfile  # noqa: PLC0415 - costs 10 ms, rarely needed

    handle, path = tempfile.mkstemp(prefix='gpu-tracker-')
    if sys.platform == 'linux':  # the sampler inherits it, and whatever ends leaves no file behind
        os.unlink(path)
        return Store(above_standard(handle), place), None
    return Store(above_standard(handle), place), path


def _read_at(handle: int, length: int, offset: int) -> bytes:
    if sys.platform != 'win32':
        return os.pread(handle, length, offset)
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, length)


def _write_at(handle: int, content: bytes, offset: int) -> None:
    if sys.platform != 'win32':
        written = os.pwrite(handle, content, offset)
    else:
        os.lseek(handle, offset, os.SEEK_SET)
        written = os.write(handle, content)
    if written < len(content):  # up to a limit on the size of files; only the next attempt shows it
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
