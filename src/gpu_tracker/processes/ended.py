"""Which of the processes that end belong to a tree, whether a sample has seen them or not. Linux only.

The kernel reports the forks and the ends of all processes of the machine. Those of a tree are its members, and whatever
was forked by one of them.
"""

from __future__ import annotations

from gpu_tracker.processes import SAMPLER_MARK, SAMPLER_NAME
from gpu_tracker.processes.exit_records import FORKED, LAST_OF_PROCESS, seconds_of
from gpu_tracker.processes.exit_sums import ExitSums, Sums
from gpu_tracker.processes.stat import INEXACT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from typing import Protocol

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.exit_records import Fields
    from gpu_tracker.processes.process import Process

    class Records(Protocol):
        """See :class:`.ExitRecords`."""

        @property
        def has_lost(self) -> bool:
            """More processes have ended than there was room for."""

        @property
        def is_confirmed(self) -> bool:
            """Records arrive."""

        def receive(self) -> None:
            """Receive what there is."""

        def of(self, processes: Container[int]) -> Iterator[Fields]:
            """Yield the records of threads of these processes."""

        def close(self) -> None:
            """Listen no more."""

    class Notices(Protocol):
        """See :class:`.ForkNotices`."""

        @property
        def has_lost(self) -> bool:
            """More processes were forked than there was room for."""

        def take(self) -> Iterator[tuple[int, int]]:
            """Return the parent and the child of each fork."""

        def close(self) -> None:
            """Listen no more."""


_MOST_UNCONFIRMED = 3
"""How often is waited for the record that shows that records arrive here."""
_LONGEST = 1.0
"""Seconds between two times that records are taken, at most: they wait in a buffer that has an end."""
_SAMPLER = SAMPLER_NAME.ljust(16, b'\0')
_LONGEST_START = 0.1
"""Seconds after which a sampler that was started can be told from other processes."""
_NEVER = float('inf')


class _Threads(Sums):
    """The threads of one process that have ended, of which another one may still run."""

    __slots__ = ('forked', 'peak')

    def __init__(self) -> None:
        super().__init__()
        self.forked = False
        self.peak = 0


class EndedProcesses:
    """Takes the records of those processes that belong to a tree.

    :param tree: It is refreshed after each :meth:`take`.
    :param is_launched: The root is still held back before its exec, so that nothing of it is from before the start.
    :param counts_amounts: I/O and page faults are of interest, too.
    """

    def __init__(
        self, tree: ProcessTree, records: Records, notices: Notices, *, is_launched: bool, counts_amounts: bool
    ) -> None:
        self._tree = tree
        self._records: Records | None = records
        self._notices = notices
        self._is_launched = is_launched
        self._counts_amounts = counts_amounts
        self._family = dict.fromkeys(tree.members, 0)
        """The processes of the tree that have not ended, as far as they are known, with who has forked them."""
        self._peaks: list[tuple[int, int]] = []
        self._new_peaks: list[tuple[int, int]] = []
        """Descendants that have just ended, and their high-water marks; those after the last settling."""
        self._starters: set[int] = set()
        """Those that have started a sampler: they live for a millisecond, and do not count."""
        self._settled = 0.0
        self._threads: dict[int, _Threads] = {}
        self._older: set[int] = set()
        """Those of them that were there at the start: their marks may be from before."""
        self._listings = -1
        self._attempts = 0
        self._due = 0.0
        self.sums = ExitSums(tree)
        self.is_confirmed = False
        """The kernel's records arrive here."""
        self.is_incomplete = False
        """Some processes were not reported."""
        self.count = 0
        """Descendants that have ended."""
        self.root_seconds: float | None = None
        """CPU seconds of the root, and its high-water mark, once it has ended."""
        self.root_peak: int | None = None
        self.peak = 0
        """The largest high-water mark of a descendant that has ended."""
        self.peak_of_copies = 0
        """The same of those that may have run in the memory of the root: children that have never called execve(2)."""

    def begin(self) -> None:
        """Count from now on, after the first refresh."""
        self.count = self.peak = self.peak_of_copies = 0
        self._peaks, self._new_peaks = [], []
        self._older = set(self._tree.members)
        if self._is_launched:
            self._older.discard(self._tree.root.pid)
        self.sums.begin()

    def due(self) -> float:
        """Return when records have to be taken; never where none come."""
        return self._due if self._records is not None else _NEVER

    def take(self, now: float) -> None:
        """Take the records of those that have ended; the tree is refreshed afterwards.

        In this order no process is found in both; one that ends in between is missing until the next time.
        """
        records = self._records
        if records is None:
            return
        self._due = now + _LONGEST
        try:
            records.receive()
            self._follow(self._notices.take())  # later: the forks of all that have ended are among them
        except OSError:
            self.is_incomplete = True
            self.close()
            return
        if now - self._settled > _LONGEST_START:
            self._settled = now
            self.peak = self._largest(self._peaks)
            self._peaks, self._new_peaks = self._new_peaks, []
        for fields in records.of(self._family):
            self._end_thread(fields)
        self.is_incomplete |= records.has_lost or self._notices.has_lost
        self.is_confirmed = records.is_confirmed
        self._attempts += not self.is_confirmed
        if self._attempts > _MOST_UNCONFIRMED:
            self.close()

    def close(self) -> None:
        """Listen no more; what was added up stays."""
        if self._records is not None:
            self._records.close()
            self._notices.close()
            self._records = None

    def record(self) -> dict[str, object]:
        """Return what the totals of a run have of this."""
        return {
            'exit_records': self.count if self.is_confirmed else None,
            'exit_records_lost': self.is_incomplete,
            'ended_main_peak': self.root_peak,
            'ended_peak': self._largest([*self._peaks, *self._new_peaks]),
            'ended_copies_peak': self.peak_of_copies,
        }

    def _follow(self, forks: Iterator[tuple[int, int]]) -> None:
        """Take in what was forked by the tree."""
        family, tree = self._family, self._tree
        if tree.listings != self._listings:
            self._listings = tree.listings
            for pid in tree.members.keys() - family.keys():
                family[pid] = 0
        for parent, child in forks:
            if parent in family:
                family[child] = parent
            elif child in family:
                del family[child]  # its number is another's now

    def _end_thread(self, fields: Fields) -> None:
        """Add one thread to its process, and that to the sums where no thread is left."""
        (
            _, thread, _, bits, waited, ran, name, _, parent, lived, minor, major, peak,
            by_read, by_write, read, written, cancelled, sleeps, pid,
        ) = fields  # fmt: skip
        seconds = seconds_of(ran, lived, waited, sleeps)
        amounts: tuple[int, ...] | None = None
        if self._counts_amounts:
            amounts = (read, written, cancelled, by_read, by_write, minor, major)
        is_last = bits & LAST_OF_PROCESS
        if is_last and pid not in self._threads:
            self._end(pid, name, parent, seconds, minor + major, amounts, peak, bits & FORKED)
            return
        threads = self._threads.setdefault(pid, _Threads())
        threads.add(seconds, minor + major, amounts)
        threads.peak = max(threads.peak, peak)
        threads.forked |= thread == pid and bool(bits & FORKED)
        if is_last:
            del self._threads[pid]
            amounts = threads.amounts if self._counts_amounts else None
            self._end(pid, name, parent, threads.seconds, threads.faults, amounts, threads.peak, threads.forked)

    def _end(
        self,
        pid: int,
        name: bytes,
        parent: int,
        seconds: float,
        faults: int,
        amounts: Sequence[int] | None,
        peak: int,
        forked: int,
    ) -> None:
        """Add a process that has ended; ``peak`` is in KiB."""
        family, tree = self._family, self._tree
        starter = family.pop(pid)
        process = tree.members.get(pid)
        peak *= 1024
        if pid in self._older:
            self._older.remove(pid)
            peak = _new_peak(process, peak)
            seconds = seconds if process is None else max(seconds, process.own_cpu)  # threads that had ended before
        if pid == tree.root.pid:
            self.root_seconds = seconds
            self.root_peak = None if not peak or (forked and self._is_launched) else peak
            self.sums.of_root.add(seconds, faults, amounts)
            return
        if name == _SAMPLER or pid in tree.samplers:
            self._starters.add(starter)
            return
        self.count += 1
        heir = parent if parent in family else None
        self.sums.end(pid, heir, process, seconds, faults, amounts)
        if forked and heir in (None, tree.root.pid):
            self.peak_of_copies = max(self.peak_of_copies, peak)
        elif peak > self.peak:
            self._new_peaks.append((pid, peak))

    def _largest(self, peaks: Sequence[tuple[int, int]]) -> int:
        """Return the largest peak so far, those of processes that have started a sampler left out."""
        largest = self.peak
        for pid, peak in peaks:
            if peak > largest and not self._has_started_sampler(pid):
                largest = peak
        return largest

    def _has_started_sampler(self, pid: int) -> bool:
        children = [child for child, parent in self._family.items() if parent == pid]
        return pid in self._starters or any(_is_sampler(child) for child in children)


def open_ended(tree: ProcessTree, *, is_launched: bool, counts_amounts: bool) -> EndedProcesses | None:
    """Return the processes of a tree that end from now on; None where the kernel does not report them here."""
    from gpu_tracker.processes.exit_records import ExitRecords  # noqa: PLC0415 - for tests with others
    from gpu_tracker.processes.fork_notices import ForkNotices  # noqa: PLC0415 - as above

    try:
        records = ExitRecords()
    except (OSError, RuntimeError):  # no right, another namespace, a kernel without; no thread may be started
        return None
    try:
        notices = ForkNotices()
    except OSError:
        records.close()
        return None
    return EndedProcesses(tree, records, notices, is_launched=is_launched, counts_amounts=counts_amounts)


def _is_sampler(pid: int) -> bool:
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return SAMPLER_MARK.encode() in file.read()
    except OSError:
        return False  # it has ended: its record tells


def _new_peak(process: Process | None, peak: int) -> int:
    """Return the peak of a process that was there at the start, where it is not from before; else 0."""
    known = None if process is None else process.peak
    return peak if known is not None and peak > known + INEXACT else 0
