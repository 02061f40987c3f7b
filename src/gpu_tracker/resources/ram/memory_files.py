"""The files of ``/proc/PID`` about a process' memory, read whole. Linux only."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpu_tracker.processes import stat

_PEAK = b'\nVmHWM:'
_FIELDS = (_PEAK, b'\nVmRSS:', b'\nRssAnon:', b'\nHugetlbPages:')
_HUGE_PAGES = (b'\nthp_fault_alloc ', b'\nthp_collapse_alloc ', b'\nthp_file_mapped ')
"""Transparent huge pages, in vmstat: of anonymous memory, put together from small ones, and of files."""
_CHUNK = 1 << 18
_ALL_COUNTERS = 1 << 14
_SHORT = 1 << 12
"""Bytes of a file that is read at once: more take memory that the interpreter has to ask for anew each time."""


class MemoryFiles:
    """Reads what one process says about its memory; None where it has ended.

    :raises PermissionError: where the process is another user's (:meth:`smaps` and :meth:`smaps_rollup` only).
    """

    def __init__(self, proc: str = '/proc') -> None:
        self._proc = proc
        self._machine: int | None = None
        """The open file with the counters of the whole machine."""

    def smaps(self, pid: int) -> bytes | None:
        """Return each mapping with its private and shared sizes. The kernel walks every page: 16 µs a megabyte."""
        return self._read(pid, 'smaps')

    def smaps_rollup(self, pid: int) -> bytes | None:
        """Return the sums over all mappings: 5.4 µs a megabyte."""
        return self._read(pid, 'smaps_rollup')

    def peak(self, pid: int) -> int | None:
        """Return the most bytes that were ever resident in this program image (VmHWM); exec starts it anew."""
        found = self.marks(pid)
        return None if found is None else found[0]

    def marks(self, pid: int) -> tuple[int, int, int, int] | None:
        """Return the same, all bytes that are resident at that moment, the anonymous ones among them, and huge pages.

        The latter are those of hugetlbfs and MAP_HUGETLB, which the kernel counts in none of the others.
        """
        try:
            status = self._read(pid, 'status', _PEAK, _SHORT)
        except PermissionError:
            return None  # it has become another user's, under a /proc that hides these: hidepid=1
        if not status or _PEAK not in status:  # a zombie has no memory
            return None
        peak, resident, anonymous, huge = [_kilobytes(status, field) for field in _FIELDS]
        return peak, resident, anonymous, huge

    def image(self, pid: int) -> tuple[bytes, ...] | None:
        """Return what tells its program image, see :func:`.stat.image`; None where it is gone."""
        line = self._read_file(f'{pid}/stat', _SHORT)
        return stat.image(line) if line else None

    def faults(self, pid: int) -> int | None:
        """Return its page faults so far; None where it is gone."""
        line = self._read_file(f'{pid}/stat', _SHORT)
        return stat.faults(line) if line else None

    def resident(self, pid: int) -> tuple[int, int]:
        """Return the resident bytes, and those among them that belong to no file and no shared memory segment."""
        statm = self._read(pid, 'statm')
        return stat.resident(statm) if statm else (0, 0)

    def huge_pages(self) -> int | None:
        """Return how many transparent huge pages the machine has mapped for any process; None where it hides that."""
        try:
            if self._machine is None:
                self._machine = os.open(f'{self._proc}/vmstat', os.O_RDONLY | os.O_CLOEXEC)
            counters = os.pread(self._machine, _ALL_COUNTERS, 0)
        except OSError:
            return None
        return sum([_number(counters, name) for name in _HUGE_PAGES])

    def _read(self, pid: int, name: str, mark: bytes = b'', size: int = _CHUNK) -> bytes | None:
        """Return what the file says; that of another thread where the first one has ended and knows no memory."""
        content = self._read_file(f'{pid}/{name}', size)
        if content is None or (content and mark in content and not content.startswith(b'0 ')):
            return content
        try:
            threads = os.listdir(f'{self._proc}/{pid}/task')
        except OSError:
            return content
        others = (self._read_file(f'{thread}/{name}', size) for thread in threads if int(thread) != pid)
        return next(filter(None, others), content)

    def _read_file(self, name: str, size: int) -> bytes | None:
        try:
            handle = os.open(f'{self._proc}/{name}', os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return None
        try:
            chunks = [os.read(handle, size)]
            while size == _CHUNK and chunks[-1]:
                chunks.append(os.read(handle, size))
        except ProcessLookupError:
            return None
        finally:
            os.close(handle)
        return b''.join(chunks)


class Sums(NamedTuple):
    """What a process has mapped, in bytes."""

    private: int
    shared: int
    proportional: int
    """Each page divided by the number of processes that have it."""
    proportional_anonymous: int
    """That of the pages which belong to no file and no shared memory; 0 before Linux 5.4."""
    anonymous: int
    """Those pages, without huge ones (MAP_HUGETLB)."""
    huge: int
    """Those of huge pages."""

    @property
    def resident(self) -> int:
        """All of them."""
        return self.private + self.shared


def rollup(smaps_rollup: bytes) -> Sums | None:
    """Return the sums in a smaps_rollup file; None where it has none (it has ended)."""
    if b'Pss:' not in smaps_rollup:
        return None

    def added_up(*fields: bytes) -> int:
        return sum([_kilobytes(smaps_rollup, field) for field in fields])

    huge, shared_huge = added_up(b'Private_Hugetlb:'), added_up(b'Shared_Hugetlb:')
    return Sums(
        added_up(b'Private_Clean:', b'Private_Dirty:') + huge,
        added_up(b'Shared_Clean:', b'Shared_Dirty:') + shared_huge,
        _kilobytes(smaps_rollup, b'Pss:') + huge,
        _kilobytes(smaps_rollup, b'Pss_Anon:') + huge,
        _kilobytes(smaps_rollup, b'Anonymous:'),
        huge + shared_huge,
    )


def _kilobytes(status: bytes, field: bytes) -> int:
    """Return the value of a field in bytes; 0 where the kernel is too old to have it."""
    at = status.find(field)
    return 0 if at < 0 else int(status[at + len(field) : status.index(b'kB', at)]) * 1024


def _number(counters: bytes, name: bytes) -> int:
    """Return a counter; 0 where the kernel has none, because it knows no such pages."""
    at = counters.find(name)
    return 0 if at < 0 else int(counters[at + len(name) : counters.index(b'\n', at + 1)])
