"""What a process has mapped, from ``/proc/PID/maps``, proc(5)."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import NamedTuple

_ANY = re.compile(rb'([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) *(/.*)?')
_CODE = re.compile(rb'([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)')
_ESCAPED = b'\\012'
_DELETED = b' (deleted)'
_MOST_MAPPINGS = 1 << 16


class Mapping(NamedTuple):
    """A part of a file in memory: addresses from ``start`` to ``end``, beginning at ``offset`` of the file.

    ``device`` and ``inode`` tell the file; on Btrfs and overlay file systems ``stat`` has another device for it.
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


def mappings_of(proc: str, pid: int) -> list[Mapping]:
    """Return the mappings of a process by address; raises OSError where there is no such process."""
    return _parsed(_ANY, proc, pid)


def code_of(proc: str, pid: int) -> list[Mapping]:
    """Return the mappings of files as code, by address; raises OSError as ``mappings_of`` does."""
    return _parsed(_CODE, proc, pid)


def _parsed(line: re.Pattern[bytes], proc: str, pid: int) -> list[Mapping]:
    with open(f'{proc}/{pid}/maps', 'rb', buffering=0) as file:
        maps = file.read()
    found = filter(None, map(line.match, maps.split(b'\n')))
    return [_mapping(*fields.groups()) for fields in islice(found, _MOST_MAPPINGS)]


def _mapping(
    start: bytes, end: bytes, offset: bytes, major: bytes, minor: bytes, inode: bytes, path: bytes | None
) -> Mapping:
    number = int(inode)
    deleted = False
    if not number:
        path = None
    elif path is not None:
        deleted = path.endswith(_DELETED)
        path = path.removesuffix(_DELETED).replace(_ESCAPED, b'\n')
    return Mapping(
        int(start, 16),
        int(end, 16),
        int(offset, 16),
        os.makedev(int(major, 16), int(minor, 16)),
        number,
        None if path is None else os.fsdecode(path),
        deleted,
    )
