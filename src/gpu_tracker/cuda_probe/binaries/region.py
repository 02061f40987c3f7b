"""Bytes that are read piece by piece, from a file or from the memory of another process; proc(5)."""

from __future__ import annotations

import errno
import os
import re
import stat
import weakref
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.processes import stat as process_stat

if TYPE_CHECKING:
    from collections.abc import Sequence


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


WORD = 8
_GAP = 1 << 12
_PIECE = 1 << 22
_ANY = re.compile(rb'([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) *(/.*)?')
_CODE = re.compile(rb'([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)')
_ESCAPED = b'\\012'
_DELETED = b' (deleted)'
_MOST_MAPPINGS = 1 << 16


class MappedPart(NamedTuple):
    """A part of a file in memory: addresses from ``start`` to ``end``, beginning at ``offset`` of the file.

    ``device`` and ``inode`` identify the file; on Btrfs and overlay file systems ``stat`` has another device for it.
    ``path`` is the file's name, None of what is no file; ``deleted`` where that name is gone or belongs to another file
    by now. The kernel writes it as who asks sees it, or, where that is in another mount namespace, as the process does:
    that of a process in a chroot has the path of its root in front.
    """

    start: int
    end: int
    offset: int
    device: int
    inode: int
    path: str | None
    deleted: bool

    def reached_through(self, folder: str) -> str:
        """Return where the file is reached while the process lives.

        :param folder: That of the process: ``/proc/PID``.
        """
        through_mapping = f'{folder}/map_files/{self.start:x}-{self.end:x}'
        if self.deleted or self.path is None:
            return through_mapping
        through_root = f'{folder}/root{self.path}'
        found = _inode_of(through_root)
        if found == self.inode:
            return through_root
        if _inode_of(self.path) == self.inode:
            return self.path
        # overlay file systems may have another inode in maps
        return through_mapping if found is None and os.path.lexists(through_mapping) else through_root


def _inode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def mappings_of(proc: str, pid: int) -> list[MappedPart]:
    """Return the mappings of a process by address; raises OSError where there is no such process."""
    return _parsed(_ANY, proc, pid)


def code_of(proc: str, pid: int) -> list[MappedPart]:
    """Return the mappings of files as code, by address; raises OSError as ``mappings_of`` does."""
    return _parsed(_CODE, proc, pid)


def _parsed(line: re.Pattern[bytes], proc: str, pid: int) -> list[MappedPart]:
    with open(f'{proc}/{pid}/maps', 'rb', buffering=0) as file:
        maps = file.read()
    found = filter(None, map(line.match, maps.split(b'\n')))
    return [_mapping(*fields.groups()) for fields in islice(found, _MOST_MAPPINGS)]


def _mapping(
    start: bytes, end: bytes, offset: bytes, major: bytes, minor: bytes, inode: bytes, path: bytes | None
) -> MappedPart:
    number = int(inode)
    deleted = False
    if not number:
        path = None
    elif path is not None:
        deleted = path.endswith(_DELETED)
        path = path.removesuffix(_DELETED).replace(_ESCAPED, b'\n')
    return MappedPart(
        int(start, 16),
        int(end, 16),
        int(offset, 16),
        os.makedev(int(major, 16), int(minor, 16)),
        number,
        None if path is None else os.fsdecode(path),
        deleted,
    )


class LivingProcess:
    """A process that lives when this is made; a later one with the same pid is another.

    :param proc: Where processes are described.
    """

    def __init__(self, pid: int, proc: str = '/proc') -> None:
        self._pid = pid
        self._proc = proc
        self._start = self._read_start()

    def is_there(self) -> bool:
        """Return whether the pid is still this process, which may be ending."""
        return self._start is not None and self._read_start() == self._start

    def has_ended(self) -> bool:
        """Return whether it has ended, or is about to."""
        try:
            line = read_stat(self._pid, self._proc)
        except OSError:
            return True
        return process_stat.is_ending(line) or process_stat.start(line) != self._start

    def _read_start(self) -> float | None:
        try:
            return process_stat.start(read_stat(self._pid, self._proc))
        except OSError:
            return None


def read_stat(pid: int, proc: str = '/proc') -> bytes:
    """Return the content of the stat file of a process; raises OSError where there is no such process."""
    with open(f'{proc}/{pid}/stat', 'rb') as file:
        return file.read()


def words_at(proc: str, pid: int, addresses: Sequence[int]) -> dict[int, int]:
    """Return the 64-bit words at the sorted ``addresses`` by address, those that can be read.

    Raises OSError where the process has ended or may not be read.
    """
    found: dict[int, int] = {}
    descriptor = os.open(f'{proc}/{pid}/mem', os.O_RDONLY | os.O_CLOEXEC)
    try:
        first = 0
        for number, address in enumerate(addresses):
            following = addresses[number + 1] if number + 1 < len(addresses) else None
            near = following is not None and following - address < _GAP and following - addresses[first] < _PIECE
            if near:
                continue
            found.update(_words_in(descriptor, addresses[first : number + 1]))
            first = number + 1
    finally:
        os.close(descriptor)
    return found


def _words_in(descriptor: int, addresses: Sequence[int]) -> dict[int, int]:
    begin = addresses[0]
    try:
        memory = os.pread(descriptor, addresses[-1] + WORD - begin, begin)
    except (OSError, OverflowError):
        return {}  # unmapped by now, or an address that no process has
    return {
        address: int.from_bytes(memory[address - begin : address - begin + WORD], 'little')
        for address in addresses
        if address + WORD - begin <= len(memory)
    }
