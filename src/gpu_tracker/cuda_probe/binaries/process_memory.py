"""The memory of another process: its mappings, ``/proc/PID/maps``, and words of it, ``/proc/PID/mem``; proc(5)."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    ``path`` is the file's name as the process sees it, None of what is no file; ``deleted`` where that name is gone or
    belongs to another file by now.
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
        if self.deleted:
            return f'{folder}/map_files/{self.start:x}-{self.end:x}'
        return f'{folder}/root{self.path}'


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
