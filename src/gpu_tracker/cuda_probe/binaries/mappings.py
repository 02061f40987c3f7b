"""What a process has mapped, from ``/proc/PID/maps``, proc(5)."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_LINE = re.compile(rb'([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ (\d+) *(/.*)?')
_ESCAPED = re.compile(rb'\\012')
_DELETED = b' (deleted)'
_MOST_MAPPINGS = 1 << 16


class Mapping(NamedTuple):
    """A part of a file in memory: addresses from ``start`` to ``end``, beginning at ``offset`` of the file.

    ``path`` is the file's name as the process sees it, None of what is no file; ``deleted`` where that name is gone or
    belongs to another file by now.
    """

    start: int
    end: int
    offset: int
    path: str | None
    deleted: bool


def mappings_of(proc: str, pid: int) -> list[Mapping]:
    """Return the mappings of a process by address; raises OSError where there is no such process."""
    found = []
    with open(f'{proc}/{pid}/maps', 'rb') as maps:
        for line in maps:
            if mapping := _LINE.match(line.rstrip(b'\n')):
                start, end, offset = (int(mapping[i], 16) for i in (1, 2, 3))
                name = mapping[5] if mapping[4] != b'0' else None
                deleted = name is not None and name.endswith(_DELETED)
                if name is not None:
                    name = _ESCAPED.sub(b'\n', name.removesuffix(_DELETED))
                found.append(Mapping(start, end, offset, None if name is None else os.fsdecode(name), deleted))
                if len(found) == _MOST_MAPPINGS:
                    break
    return found
