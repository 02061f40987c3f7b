"""Resident memory of a group of processes with shared pages counted once, from ``/proc/PID/smaps``. Pure.

The kernel tells for each mapping of a process how many of its resident bytes are private (mapped by no other process)
and shared, see proc_pid_smaps(5). Private bytes add up. Shared ones are the same physical pages where they belong to

- the same part of the same file, shared memory segment or memfd: (device, inode, offset), or
- the same addresses of anonymous memory in processes that were forked from one another; pages of a file mapped
  privately that were written to are anonymous memory as well, and are mostly the dirty ones.

Of each such part the largest shared size that any process of the group has is taken. Parts that overlap, because one
process has split or grown its mapping, are one part. Where the processes have different pages of a part, their
proportional sizes added up may be more (each page is divided among all that map it, so they are never too much).
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Key = tuple[object, ...]
    """What the shared bytes of a mapping belong to: a file, or a fork family's address space."""
    Extent = tuple[int, int, int, int]
    """From, to (in the file, or addresses), the shared bytes in between, and the process' own part of them."""

_KILOBYTE = 1024

_MAPPING = re.compile(
    rb'^([0-9a-f]+)-([0-9a-f]+) \S{3}(\S) ([0-9a-f]+) (\S+) (\d+)[^\n]*\n'
    rb'(?:(?!Pss:)\w+:[^\n]*\n)*?Pss: +(\d+) kB\n(?:(?!Shared_Clean)\w+:[^\n]*\n)*?'
    rb'Shared_Clean: +(\d+) kB\nShared_Dirty: +(\d+) kB\nPrivate_Clean: +(\d+) kB\nPrivate_Dirty: +(\d+) kB\n'
    rb'Referenced:[^\n]*\nAnonymous: +(\d+) kB\n',
    re.MULTILINE,
)


class Mappings:
    """The memory of one process: its private bytes, and its shared bytes by what they belong to.

    ``copied`` are the shared ones among them that belong to its fork family; ``doubled`` are those that it has mapped a
    second time.
    """

    __slots__ = ('copied', 'doubled', 'private', 'resident', 'shared')

    def __init__(self, private: int, shared: list[tuple[Key, Extent]], copied: int = 0) -> None:
        self.private = private
        self.shared = shared
        self.copied = copied
        self.doubled = _doubled(shared)
        self.resident = private + sum([size for _, (_, _, size, _) in shared])


def parse(smaps: bytes, family: Key) -> Mappings:
    """Return the mappings that the content of a smaps file describes.

    :param family: What tells the fork family of the process, see :func:`gpu_tracker.process_tree.stat.image`.
    """
    private = copied = 0
    shared: list[tuple[Key, Extent]] = []
    for start, end, kind, offset, device, inode, *sizes in _MAPPING.findall(smaps):
        pss, shared_clean, shared_dirty, private_clean, private_dirty, anonymous = map(int, sizes)
        private += private_clean + private_dirty
        if not shared_clean and not shared_dirty:
            continue
        low, high = int(start, 16), int(end, 16)
        size = shared_clean + shared_dirty
        of_family = size if inode == b'0' else min(shared_dirty, anonymous) if kind == b'p' else 0
        of_file = size - of_family
        # Of which of the two the share is cannot be told.
        share = 0 if of_file and of_family else (pss - private_clean - private_dirty) * _KILOBYTE
        if of_file:
            begin = int(offset, 16)
            shared.append(((device, inode), (begin, begin + high - low, of_file * _KILOBYTE, share)))
        if of_family:
            shared.append((family, (low, high, of_family * _KILOBYTE, share)))
            copied += of_family
    return Mappings(private * _KILOBYTE, shared, copied * _KILOBYTE)


def private_and_shared(processes: Iterable[Mappings]) -> tuple[int, int]:
    """Return the private and the shared bytes of a group, each shared page counted once."""
    private = 0
    extents: dict[Key, list[tuple[int, int, int, int, int]]] = {}
    for owner, process in enumerate(processes):
        private += process.private
        for key, (begin, end, size, share) in process.shared:
            extents.setdefault(key, []).append((begin, end, owner, size, share))
    return private, sum(map(_counted_once, extents.values()))


def _counted_once(extents: list[tuple[int, int, int, int, int]]) -> int:
    """Return, for each run of overlapping extents, what the process that shares most of it shares, or all shares.

    A process may map one part twice: of its own overlapping extents the largest counts, the others add up.
    """
    extents.sort()
    total = 0
    run_end = -1
    owners: dict[int, tuple[int, int, int]] = {}
    """By process: bytes of its finished extents, where its open one ends, bytes of the open one."""
    shares = 0
    for begin, end, owner, size, share in extents:
        if begin >= run_end:
            total += max(_largest(owners), shares)
            owners = {}
            shares = 0
        shares += share
        run_end = max(run_end, end)
        finished, open_end, open_size = owners.get(owner, (0, begin, 0))
        if begin < open_end:
            owners[owner] = (finished, max(open_end, end), max(open_size, size))
        else:
            owners[owner] = (finished + open_size, end, size)
    return total + max(_largest(owners), shares)


def _doubled(shared: list[tuple[Key, Extent]]) -> int:
    """Return the bytes in mappings that begin where another one of the same process begins."""
    sizes: dict[tuple[Key, int], int] = {}
    doubled = 0
    for key, (begin, _, size, _) in shared:
        known = sizes.get((key, begin), 0)
        doubled += min(known, size)
        sizes[key, begin] = max(known, size)
    return doubled


def _largest(owners: dict[int, tuple[int, int, int]]) -> int:
    return max((finished + open_size for finished, _, open_size in owners.values()), default=0)
