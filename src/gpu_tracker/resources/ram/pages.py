"""The pages of one process: smaps_rollup, smaps, statm and status in ``/proc/PID``, see proc(5). Linux only."""

from __future__ import annotations

from gpu_tracker.processes import stat
from gpu_tracker.real import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.resources.ram.files import Extent

_KILOBYTE = 1024
_MARK = b'\nVmHWM:'
_HUGE_PAGES = (b'\nthp_fault_alloc ', b'\nthp_collapse_alloc ', b'\nthp_file_mapped ')
_ALL_COUNTERS = 1 << 14
_SHORT, _CHUNK = 1 << 12, 1 << 18
"""Bytes that are read at once. The interpreter has to ask for large blocks anew each time."""


class Pages:
    """Resident bytes of a process, huge pages included.

    :ivar private: Pages that no other process has mapped.
    :ivar shared: The others.
    :ivar anonymous: Pages that belong to no file and no shared memory.
    :ivar anonymous_share: Each of these divided by the number of processes that have it (Pss_Anon).
    :ivar file_share: Pages of files and shared memory, divided likewise.
    :ivar private_huge: Private pages of MAP_HUGETLB or hugetlbfs.
    :ivar has_shares: The kernel reports ``anonymous_share``, as it does since Linux 5.4.
    """

    __slots__ = ('anonymous', 'anonymous_share', 'file_share', 'has_shares', 'private', 'private_huge', 'shared')

    def __init__(
        self,
        *,
        private: int,
        shared: int,
        anonymous: int,
        anonymous_share: int,
        file_share: int,
        private_huge: int = 0,
        has_shares: bool = True,
    ) -> None:
        self.private = private
        self.shared = shared
        self.anonymous = anonymous
        self.anonymous_share = anonymous_share
        self.file_share = file_share
        self.private_huge = private_huge
        self.has_shares = has_shares

    @property
    def resident(self) -> int:
        """All of them."""
        return self.private + self.shared


class MemoryFiles:
    """Reads what the kernel reports of the memory of a process. The results are None if the process has ended.

    :param proc: The folder.
    """

    def __init__(self, proc: str = '/proc') -> None:
        self._proc = proc
        self._machine: int | None = None
        """The open file with the counters of the machine."""

    def pages(self, pid: int) -> Pages | None:
        """Return the sums over all mappings: 5.4 µs a megabyte.

        :raises PermissionError: if the process may not be read.
        """
        content = self._read(pid, 'smaps_rollup')
        return None if content is None else parse_pages(content)

    def extents(self, pid: int) -> list[Extent] | None:
        """Return the mapped parts of files and shared memory: 16 µs a megabyte of the process.

        :raises PermissionError: if the process may not be read.
        """
        from gpu_tracker.resources.ram.files import extents_in  # noqa: PLC0415 - one process needs none of it

        content = self._read(pid, 'smaps', size=_CHUNK)
        return extents_in(content) if content else None

    def resident(self, pid: int) -> tuple[int, int]:
        """Return what :func:`.stat.resident` does; zeros if the process has ended or may not be read."""
        try:
            statm = self._read(pid, 'statm')
        except PermissionError:
            return 0, 0  # as for mark()
        return stat.resident(statm) if statm else (0, 0)

    def mark(self, pid: int) -> tuple[int, int, int] | None:
        """Return the high-water mark of resident bytes (VmHWM), those of now, and those of huge pages.

        exec begins the mark anew. The kernel counts huge pages of MAP_HUGETLB and hugetlbfs in neither of the others.
        """
        try:
            status = self._read(pid, 'status', _MARK)
        except PermissionError:
            return None  # it has become another user's, under a /proc that hides these: hidepid=1
        if not status or _MARK not in status:  # a zombie has no memory
            return None
        return _bytes(status, _MARK), _bytes(status, b'\nVmRSS:'), _bytes(status, b'\nHugetlbPages:')

    def huge_pages(self) -> int:
        """Return how many transparent huge pages the machine has given to programs; 0 if it does not tell."""
        try:
            if self._machine is None:
                self._machine = os.open(f'{self._proc}/vmstat', os.O_RDONLY | os.O_CLOEXEC)
            counters = os.pread(self._machine, _ALL_COUNTERS, 0)
        except OSError:
            return 0
        found = 0
        for name in _HUGE_PAGES:
            at = counters.find(name)
            found += 0 if at < 0 else int(counters[at + len(name) : counters.index(b'\n', at + 1)])
        return found

    def _read(self, pid: int, name: str, expected: bytes = b'', size: int = _SHORT) -> bytes | None:
        """Return a file; that of another thread if the first thread has ended, which then knows no memory."""
        content = self._read_file(f'{pid}/{name}', size)
        if content and expected in content and not content.startswith(b'0 '):
            return content
        try:
            threads = os.listdir(f'{self._proc}/{pid}/task')
        except OSError:
            return content
        others = (self._read_file(f'{pid}/task/{thread}/{name}', size) for thread in threads if int(thread) != pid)
        return next(filter(None, others), content)

    def _read_file(self, name: str, size: int) -> bytes | None:
        try:
            handle = os.open(f'{self._proc}/{name}', os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return None
        try:
            chunks = [os.read(handle, size)]
            while chunks[-1] and size in (_CHUNK, len(chunks[-1])):  # smaps comes in shorter pieces than is asked for
                chunks.append(os.read(handle, size))
        except ProcessLookupError:
            return None
        finally:
            os.close(handle)
        return b''.join(chunks)


def parse_pages(smaps_rollup: bytes) -> Pages | None:
    """Return the sums in a smaps_rollup file; None if it has none, because the process has ended."""
    if b'Pss:' not in smaps_rollup:
        return None

    def of(*fields: bytes) -> int:
        return sum([_bytes(smaps_rollup, field) for field in fields])

    huge = of(b'Private_Hugetlb:')
    return Pages(
        private=of(b'Private_Clean:', b'Private_Dirty:') + huge,
        shared=of(b'Shared_Clean:', b'Shared_Dirty:', b'Shared_Hugetlb:'),
        anonymous=of(b'Anonymous:'),
        anonymous_share=of(b'Pss_Anon:'),
        file_share=of(b'Pss:') - of(b'Pss_Anon:'),
        private_huge=huge,
        has_shares=b'Pss_Anon:' in smaps_rollup,
    )


def _bytes(content: bytes, field: bytes) -> int:
    """Return the value of a field in bytes; 0 if the kernel is too old to have it."""
    at = content.find(field)
    return 0 if at < 0 else _KILOBYTE * int(content[at + len(field) : content.index(b'kB', at)])
