"""Resident memory of a group of processes with shared pages counted once, from ``/proc/PID/smaps``.

The kernel reports for each mapping of a process how many of its resident bytes are private (mapped by no other process)
and shared, see proc_pid_smaps(5). Private bytes add up. Shared ones are the same physical pages where they belong to

- the same part of the same file, shared memory segment or memfd: (device, inode, offset), or
- the same addresses of anonymous memory in processes that were forked from one another; pages of a file mapped
  privately that were written to are anonymous memory as well, and are mostly the dirty ones.

Of each such part the largest shared size that any process of the group has is taken. Parts that overlap, because one
process has split or grown its mapping, are one part. Where the processes have different pages of a part, their
proportional sizes added up may be more (each page is divided among all that map it, so they are never too much). Where
these account for all of a part, no process outside the tree has it, and what the root shares there is its descendants'
as well, whatever of it each of them has.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
_HUGE_MAPPING = re.compile(
    rb'^([0-9a-f]+)-([0-9a-f]+) \S{4} ([0-9a-f]+) (\S+) (\d+)[^\n]*\n'
    rb'(?:(?!Shared_Hugetlb)\w+:[^\n]*\n)*?Shared_Hugetlb: +(\d+) kB\nPrivate_Hugetlb: +(\d+) kB\n',
    re.MULTILINE,
)
_NO_OUTSIDERS = 0.98
"""From this part of the pages on that proportional sizes account for, nobody else has mapped them."""
_ROOT = -1
"""Stands for the root among the numbers of processes."""


class Mappings:
    """The memory of one process: its private bytes, its anonymous ones, and its shared ones by what they belong to.

    ``copied`` are the shared ones among them that belong to its fork family; ``doubled`` are those that it has mapped a
    second time; ``huge`` are those of huge pages (MAP_HUGETLB).
    """

    __slots__ = ('anonymous', 'copied', 'doubled', 'huge', 'private', 'resident', 'shared')

    def __init__(
        self, private: int, shared: list[tuple[Key, Extent]], copied: int = 0, anonymous: int = 0, huge: int = 0
    ) -> None:
        self.private = private
        self.anonymous = anonymous
        self.shared = shared
        self.copied = copied
        self.huge = huge
        self.doubled = _doubled(shared)
        self.resident = private + sum([size for _, (_, _, size, _) in shared])


def parse(smaps: bytes, family: Key, *, huge: bool = False) -> Mappings:
    """Return the mappings that the content of a smaps file describes.

    :param family: What tells the fork family of the process, see :func:`gpu_tracker.processes.stat.image`.
    :param huge: Some are of huge pages (MAP_HUGETLB), which the file has in lines of their own.
    """
    private = copied = all_anonymous = all_huge = 0
    shared: list[tuple[Key, Extent]] = []
    for start, end, kind, offset, device, inode, *sizes in _MAPPING.findall(smaps):
        pss, shared_clean, shared_dirty, private_clean, private_dirty, anonymous = map(int, sizes)
        private += private_clean + private_dirty
        all_anonymous += anonymous
        if not shared_clean and not shared_dirty:
            continue
        low, high = int(start, 16), int(end, 16)
        size = shared_clean + shared_dirty
        of_family = size if inode == b'0' else min(shared_dirty, anonymous) if kind == b'p' else 0
        of_file = size - of_family
        share = pss - private_clean - private_dirty
        if of_file:  # of pages that are shared each process has half at most: of either kind that much is certain
            begin = int(offset, 16)
            certain = max(0, share - of_family // 2)
            shared.append(((device, inode), (begin, begin + high - low, of_file * _KILOBYTE, certain * _KILOBYTE)))
        if of_family:
            certain = max(0, share - of_file // 2)
            shared.append((family, (low, high, of_family * _KILOBYTE, certain * _KILOBYTE)))
            copied += of_family
    if huge:
        for start, end, offset, device, inode, shared_huge, private_huge in _HUGE_MAPPING.findall(smaps):
            private += int(private_huge)
            all_huge += int(private_huge) + int(shared_huge)
            if size := int(shared_huge):
                low, high, begin = int(start, 16), int(end, 16), int(offset, 16)
                shared.append(((device, inode), (begin, begin + high - low, size * _KILOBYTE, 0)))
    return Mappings(private * _KILOBYTE, shared, copied * _KILOBYTE, all_anonymous * _KILOBYTE, all_huge * _KILOBYTE)


def shared_bytes(root: Mappings | None, descendants: Sequence[Mappings]) -> tuple[int, int]:
    """Return the shared bytes of all processes, and those of the ``descendants`` alone, each page counted once."""
    extents: dict[Key, list[tuple[int, int, int, int, int]]] = {}
    for owner, process in enumerate(descendants) if root is None else enumerate((root, *descendants), _ROOT):
        for key, (begin, end, size, share) in process.shared:
            extents.setdefault(key, []).append((begin, end, owner, size, share))
    counted = [_counted_once(of_key) for of_key in extents.values()]
    return sum([of_all for of_all, _ in counted]), sum([of_descendants for _, of_descendants in counted])


class _Run:
    """Overlapping extents: by process, bytes of its finished extents, where its open one ends, bytes of the open one.

    A process may map one part twice: of its own overlapping extents the largest counts, the others add up.
    """

    __slots__ = ('_another_has_it_twice', '_of_root', '_owners', '_root_has_it_twice', '_shares', 'end')

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, int, int]] = {}
        self._shares: dict[int, int] = {}
        self._of_root: list[int] = []
        self._root_has_it_twice = self._another_has_it_twice = False
        self.end = -1

    def add(self, begin: int, end: int, owner: int, size: int, share: int) -> None:
        """Take in an extent of the process ``owner``; extents come in the order of their beginnings."""
        self.end = max(self.end, end)
        self._shares[owner] = self._shares.get(owner, 0) + share
        if owner == _ROOT:
            self._of_root.append(size)
        finished, open_end, open_size = self._owners.get(owner, (0, begin, 0))
        if begin < open_end:
            self._owners[owner] = (finished, max(open_end, end), max(open_size, size))
            self._root_has_it_twice |= owner == _ROOT
            self._another_has_it_twice |= owner != _ROOT
        else:
            self._owners[owner] = (finished + open_size, end, size)

    def counted_once(self) -> tuple[int, int]:
        """Return the bytes of all processes, and of the descendants.

        At least what the process that has most of it has, and at least all proportional sizes. Where these account for
        all pages, nobody outside has mapped any of them: what the root shares, it then shares with its descendants,
        and these have all of the run; unless it has mapped pages several times, and shares them with itself.
        """
        sizes = {owner: finished + open_size for owner, (finished, _, open_size) in self._owners.items()}
        largest = max(sizes.values(), default=0)
        shares = sum(self._shares.values())
        of_all = max(largest, shares)
        if _ROOT not in sizes:
            return of_all, of_all
        del sizes[_ROOT]
        if not sizes:
            return of_all, 0
        of_descendants = max(shares - self._shares[_ROOT], *sizes.values())
        if shares >= _NO_OUTSIDERS * largest:
            if not self._root_has_it_twice:
                return of_all, min(of_all, sum(sizes.values()))
            if min(self._of_root) >= _NO_OUTSIDERS * of_all and not self._another_has_it_twice:
                found = _of_others(len(self._of_root), sum(sizes.values()), shares - self._shares[_ROOT])
                return of_all, min(of_all, max(of_descendants, found))
        return of_all, of_descendants


def _of_others(times: int, sizes: int, shares: int) -> int:
    """Return how many bytes of a run others have at least, of which the root has mapped each ``times`` times.

    A page that ``n`` of them have is ``n`` times in their ``sizes``, and ``n / (times + n)`` times in their ``shares``.
    Of all pages with these sums there are fewest where all are those of equally many processes.
    """
    of_nobody_else = sizes - times * shares
    return sizes * shares // of_nobody_else if of_nobody_else > 0 else shares


def _counted_once(extents: list[tuple[int, int, int, int, int]]) -> tuple[int, int]:
    """Return what :meth:`_Run.counted_once` returns, added up over all runs."""
    extents.sort()
    runs: list[_Run] = []
    for begin, end, owner, size, share in extents:
        if not runs or begin >= runs[-1].end:
            runs.append(_Run())
        runs[-1].add(begin, end, owner, size, share)
    counted = [run.counted_once() for run in runs]
    return sum([of_all for of_all, _ in counted]), sum([of_descendants for _, of_descendants in counted])


def _doubled(shared: list[tuple[Key, Extent]]) -> int:
    """Return the bytes in mappings that begin where another one of the same process begins."""
    sizes: dict[tuple[Key, int], int] = {}
    doubled = 0
    for key, (begin, _, size, _) in shared:
        known = sizes.get((key, begin), 0)
        doubled += min(known, size)
        sizes[key, begin] = max(known, size)
    return doubled
