"""Bytes of files and shared memory that processes have mapped, each page counted once, from ``/proc/PID/smaps``.

Only read if several processes are tracked: the module re alone costs 5 ms.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_KILOBYTE = 1024
_FILE_MAPPING = re.compile(
    rb'^([0-9a-f]+)-([0-9a-f]+) \S{4} ([0-9a-f]+) (\S+) ([1-9]\d*)[^\n]*\n'
    rb'(?:(?!Rss:)\w+:[^\n]*\n)*?Rss: +(\d+) kB\nPss: +(\d+) kB\n'
    rb'(?:(?!Private_Clean)\w+:[^\n]*\n)*?Private_Clean: +(\d+) kB\nPrivate_Dirty: +(\d+) kB\n'
    rb'Referenced:[^\n]*\nAnonymous: +(\d+) kB\n(?:(?!Shared_Hugetlb)\w+:[^\n]*\n)*?Shared_Hugetlb: +(\d+) kB\n',
    re.MULTILINE,
)
_NO_OUTSIDERS = 0.98
"""If proportional sizes add up to this part of the largest process' pages, no process outside the tree has them."""


class Extent:
    """The pages of a part of a file or shared memory segment that a process has mapped, in bytes.

    :ivar file: Device and inode.
    :ivar begin: Where the part begins in the file.
    :ivar end: Where it ends.
    :ivar size: Resident bytes, without anonymous copies of pages that were written to.
    :ivar share: The same, each page divided by the number of processes that have it.
    :ivar private: The bytes of ``size`` that no other process has mapped.
    """

    __slots__ = ('begin', 'end', 'file', 'private', 'share', 'size')

    def __init__(self, file: tuple[bytes, bytes], begin: int, end: int, *, size: int, share: int, private: int) -> None:
        self.file = file
        self.begin = begin
        self.end = end
        self.size = size
        self.share = share
        self.private = private


def extents_in(smaps: bytes) -> list[Extent]:
    """Return what the content of a smaps file has of files and shared memory."""
    found = []
    for start, end, offset, device, inode, *sizes in _FILE_MAPPING.findall(smaps):
        resident, share, private_clean, private_dirty, anonymous, huge = [_KILOBYTE * int(size) for size in sizes]
        size = resident - anonymous + huge
        if size > 0:
            begin = int(offset, 16)
            # Pages of a private mapping that were written to are anonymous, and dirty.
            private = private_clean + (0 if anonymous else private_dirty)
            length = int(end, 16) - int(start, 16)
            share = max(0, share - anonymous)
            extent = Extent((device, inode), begin, begin + length, size=size, share=share, private=min(private, size))
            found.append(extent)
    return found


def bytes_of_files(
    main: Sequence[Extent], descendants: Sequence[Sequence[Extent]], remapped: int = 0
) -> tuple[int, int, int]:
    """Return the bytes of files and shared memory that all processes have, and the descendants, each page once.

    Extents that overlap are one part of a file. Of each part the process with most of it counts, or the sum of the
    proportional sizes if that is more: processes may have different pages. The third number is what descendants may
    have beside. If main has mapped a part twice, its proportional sizes do not show whether they have it too.

    :param remapped: Bytes that proportional sizes may count twice, because they were mapped or unmapped meanwhile.
    """
    by_file: dict[tuple[bytes, bytes], list[tuple[Extent, int]]] = {}
    for owner, extents in enumerate((main, *descendants)):
        for extent in extents:
            by_file.setdefault(extent.file, []).append((extent, owner))
    sums = (0, 0, 0)
    for found in by_file.values():
        found.sort(key=lambda one: (one[0].begin, one[0].end))
        part: list[tuple[Extent, int]] = []
        end = 0
        for extent, owner in found:
            if part and extent.begin >= end:
                sums, part = _added(sums, _bytes_of_part(part, remapped)), []
            end = max(end, extent.end) if part else extent.end
            part.append((extent, owner))
        sums = _added(sums, _bytes_of_part(part, remapped))
    return sums


def _added(sums: tuple[int, int, int], sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    return sums[0] + sizes[0], sums[1] + sizes[1], sums[2] + sizes[2]


def _bytes_of_part(part: Sequence[tuple[Extent, int]], remapped: int) -> tuple[int, int, int]:
    """Return what :func:`bytes_of_files` does, of the extents of one part of a file, in their order."""
    sizes: dict[int, int] = {}
    ends: dict[int, tuple[int, int]] = {}
    shares = 0
    of_main = own_of_main = twice_of_main = 0
    for extent, owner in part:
        end, size = ends.get(owner, (0, 0))
        twice = max(0, min(size, extent.size, end - extent.begin))  # the process has mapped it twice
        sizes[owner] = sizes.get(owner, 0) + extent.size - twice
        ends[owner] = max(end, extent.end), max(size if extent.begin < end else 0, extent.size)
        shares += extent.share
        if owner == 0:
            of_main += extent.share
            own_of_main += extent.private
            twice_of_main += twice  # at most, what it shares with itself
    largest = max(sizes.values())
    of_all = max(largest, shares - remapped)
    sizes.pop(0, None)
    if not sizes:
        return of_all, 0, 0
    of_others = shares - of_main - remapped
    most = 0
    if shares >= _NO_OUTSIDERS * largest:  # what main shares it shares with descendants
        most = min(sum(sizes.values()), of_others + max(0, of_main - own_of_main))
        of_others += max(0, of_main - own_of_main - twice_of_main)
    of_others = min(sum(sizes.values()), max(*sizes.values(), of_others))
    return of_all, of_others, max(0, most - of_others)
