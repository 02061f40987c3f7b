"""Processes of a tree that have ended, as the kernel has recorded them; also those that no sample has seen. Linux only.

What a process has used goes to the process that waits for it, which the sample reads there. So records are added up by
the process that was to wait, and count where its own counters show that it has not, or where it is outside the tree.
Page faults tell: those of a child are added to the ones of whoever has waited for it, and no process ends without any.
"""

from __future__ import annotations

from gpu_tracker.processes import SAMPLER_NAME
from gpu_tracker.processes.exit_records import FORKED, LAST_OF_PROCESS, seconds_of
from gpu_tracker.processes.stat import INEXACT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence
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

        def take(self) -> list[tuple[int, int]]:
            """Return the parent and the child of each fork."""

        def close(self) -> None:
            """Listen no more."""


AMOUNTS = 7
"""Bytes read and written, those cancelled, those that calls have read and written; minor and major page faults."""
_MOST_UNCONFIRMED = 3
"""How often may be looked for the record that shows that records arrive."""
_LONGEST = 1.0
"""Seconds between two times that records are taken, at most: they wait in a buffer that is not endless."""
_SAMPLER = SAMPLER_NAME.ljust(16, b'\0')


class Sums:
    """What processes have used that have ended, with what they had from others that have ended before."""

    __slots__ = ('amounts', 'faults', 'seconds')

    def __init__(self) -> None:
        self.seconds = 0.0
        """CPU seconds."""
        self.faults = 0
        """Page faults."""
        self.amounts: list[int] | None = None
        """See :data:`AMOUNTS`; None: nothing, or not of interest."""

    def add(self, seconds: float, faults: int, amounts: Sequence[int] | None) -> None:
        """Add one process, or one thread."""
        self.seconds += seconds
        self.faults += faults
        if amounts is not None:
            self.amounts = _added(self.amounts, amounts)


class _Parent:
    """A process of the tree with more than one thread, with children that have ended, or from before the start."""

    __slots__ = ('children', 'forked', 'is_older', 'peak', 'reaped_faults', 'reaped_seconds', 'threads')

    def __init__(self, process: Process | None = None) -> None:
        self.threads = Sums()
        """Its threads that have ended."""
        self.children = Sums()
        """Children that it was to wait for."""
        self.forked = False
        self.peak = 0
        self.is_older = process is not None
        """It was there at the start."""
        self.reaped_seconds = 0.0 if process is None else process.reaped_cpu
        """What it had from others at the start."""
        self.reaped_faults = 0 if process is None else process.reaped_faults


class _Ending:
    """A member of the tree that is there after its record has come, mostly because nobody has waited for it yet."""

    __slots__ = ('process', 'seconds', 'sums')

    def __init__(self, process: Process, sums: Sums, seconds: float) -> None:
        self.process = process
        self.sums = sums
        """Those to which it was added."""
        self.seconds = seconds


class EndedProcesses:
    """Adds up the records of those processes that belong to a tree.

    :param tree: It is refreshed after each :meth:`take`.
    :param is_launched: The root is still held back before its exec, so that it has nothing from before the start.
    :param counts_amounts: Bytes and page faults are of interest, too.
    """

    def __init__(
        self,
        tree: ProcessTree,
        records: Records,
        notices: Notices,
        *,
        is_launched: bool,
        counts_amounts: bool,
    ) -> None:
        self._tree = tree
        self._records: Records | None = records
        self._notices = notices
        self._is_launched = is_launched
        self._counts_amounts = counts_amounts
        self._family = set(tree.members)
        """The processes of the tree that have not ended, whether a sample has seen them or not."""
        self._parents: dict[int, _Parent] = {}
        self._root = _Parent()
        self._ending: dict[int, _Ending] = {}
        self._listings = -1
        self._unconfirmed = 0
        self._due = 0.0
        self.lost = Sums()
        """Processes that somebody outside the tree was to wait for."""
        self.count = 0
        """Descendants that have ended."""
        self.is_confirmed = False
        """The kernel's records arrive here."""
        self.is_incomplete = False
        """Some were not recorded, so that sums may be too small."""
        self.root_seconds: float | None = None
        """CPU seconds of the root, where it has ended."""
        self.root_peak: int | None = None
        """The high-water mark of the root, where it has ended."""
        self.peak = 0
        """The largest high-water mark of a descendant that has ended."""
        self.peak_of_copies = 0
        """The same of those that may have run in the memory of the root: children that have never called execve(2)."""

    def begin(self) -> None:
        """Take what the members have had from others for what was there at the start: what ends counts from now on."""
        self.count = self.peak = self.peak_of_copies = 0
        self._parents = {pid: _Parent(process) for pid, process in self._tree.members.items()}
        self._root = self._parents[self._tree.root.pid]
        self._root.is_older = not self._is_launched

    def due(self) -> float:
        """Return when records have to be taken; never where there are none."""
        return self._due if self._records is not None else float('inf')

    def take(self, now: float) -> None:
        """Take the records of those that have ended; the tree is refreshed afterwards.

        In this order no process is found in both: one that ends in between is missing until the next time.
        """
        records = self._records
        if records is None:
            return
        self._due = now + _LONGEST
        try:
            records.receive()
            forks = self._notices.take()  # later: the forks of all that have ended are among them
        except OSError:
            self.is_incomplete = True
            self.close()
            return
        family = self._family
        if self._tree.listings != self._listings:
            self._listings = self._tree.listings
            family.update(self._tree.members)
        for parent, child in forks:
            if parent in family:
                family.add(child)
            elif child in family:  # its number is another's now
                family.remove(child)
        for fields in records.of(family):
            self._end_thread(fields)
        self.is_incomplete |= records.has_lost or self._notices.has_lost
        self.is_confirmed = records.is_confirmed
        if not records.is_confirmed:
            self._unconfirmed += 1
            if self._unconfirmed > _MOST_UNCONFIRMED:
                self.close()

    def close(self) -> None:
        """Listen no more; what was added up stays."""
        if self._records is not None:
            self._records.close()
            self._notices.close()
            self._records = None

    def descendants_seconds(self) -> float:
        """Return the CPU seconds of the descendants, of the living as the tree has them; the tree was just refreshed.

        They count from the start of each process, so that only differences matter.
        """
        self._settle_ending()
        tree = self._tree
        root = tree.root
        ending, parents = self._ending, self._parents
        total = self.lost.seconds - tree.foreign_cpu + _from_children(root, self._root)
        for pid, process in tree.members.items():
            if process is root or pid in ending:
                continue
            parent = parents.get(pid)
            reaped = process.reaped_cpu if parent is None else _from_children(process, parent)
            total += process.own_cpu + reaped
        return total

    def ignored_seconds(self) -> float:
        """Return the CPU seconds of those for which members should have waited, and have not."""
        members = self._tree.members
        known = [(self._tree.root, self._root)]
        known += [(members[pid], parent) for pid, parent in self._parents.items() if pid in members]
        return sum([max(0.0, _from_children(process, parent) - process.reaped_cpu) for process, parent in known])

    def amounts(self, whole_of: Callable[[Process], Sequence[int] | None]) -> list[int]:
        """Return the amounts of the whole tree, see :data:`AMOUNTS`.

        :param whole_of: Returns those of one member, with those of all that it has waited for; None: it is gone.
        """
        total = _added(None, self.lost.amounts or ())
        for pid, process in self._tree.members.items():
            whole = whole_of(process) if pid not in self._ending else None
            parent = self._parents.get(pid)
            if process is self._tree.root:
                parent = self._root
            ended = None if parent is None else parent.children.amounts
            if whole is None and process is self._tree.root and parent is not None:
                whole = parent.threads.amounts
            total = _added(total, whole or ())
            if parent is not None and ended is not None and not _has_all(process, parent):
                if process.reaped_faults == parent.reaped_faults:
                    total = _added(total, ended)
                else:
                    total = _added(total, [max(0, one - other) for one, other in zip(ended, whole or ended, strict=True)])
        if self._tree.root_gone:
            total = _added(_added(total, self._root.threads.amounts or ()), self._root.children.amounts or ())
        return total

    def record(self) -> dict[str, object]:
        """Return what the totals of a run have of this."""
        return {
            'exit_records': self.count if self.is_confirmed else None,
            'exit_records_lost': self.is_incomplete,
            'ended_main_peak': self.root_peak,
            'ended_peak': self.peak,
            'ended_copies_peak': self.peak_of_copies,
        }

    def _end_thread(self, fields: Fields) -> None:
        """Add one thread to its process, and that to whoever waits for it where no thread is left."""
        (
            _, _, _, bits, waited, ran, name, thread, parent, lived, user, system, minor, major, peak,
            by_read, by_write, read, written, cancelled, sleeps, pid,
        ) = fields  # fmt: skip
        seconds = seconds_of(ran, lived, waited, user + system, sleeps)
        faults = minor + major
        amounts: Sequence[int] | None = None
        if self._counts_amounts:
            amounts = (read, written, cancelled, by_read, by_write, minor, major)
        peak *= 1024
        forked = bool(bits & FORKED)
        own_seconds = seconds
        known = self._parents.get(pid)
        if not bits & LAST_OF_PROCESS:
            if known is None:
                known = self._parents[pid] = _Parent()
            known.threads.add(seconds, faults, amounts)
            known.peak = max(known.peak, peak)
            known.forked |= forked and thread == pid
            return
        self._family.discard(pid)
        process = self._tree.members.get(pid)
        is_root = pid == self._tree.root.pid
        if known is not None:
            known.threads.add(seconds, faults, amounts)
            peak = max(peak, known.peak)
            forked |= known.forked
            seconds = known.threads.seconds
            if process is not None:
                seconds = max(seconds, process.own_cpu)
            if is_root:
                self._end_root(process, seconds, peak, forked=forked)
                return
            if known.is_older:
                peak = _new_peak(process, peak)
            del self._parents[pid]
            own_seconds = seconds
            seconds += known.reaped_seconds + known.children.seconds
            faults = known.threads.faults + known.reaped_faults + known.children.faults
            if self._counts_amounts:
                amounts = _added(known.threads.amounts, known.children.amounts or ())
        if name == _SAMPLER or pid in self._tree.samplers:
            return
        self.count += 1
        if parent in self._family:
            heir = self._parents.get(parent)
            if heir is None:
                heir = self._parents[parent] = _Parent()
            sums = heir.children
        else:
            sums = self.lost
        sums.add(seconds, faults, amounts)
        if process is not None:
            self._ending[pid] = _Ending(process, sums, own_seconds)
        if not forked or (parent in self._family and parent != self._tree.root.pid):
            self.peak = max(self.peak, peak)
        else:
            self.peak_of_copies = max(self.peak_of_copies, peak)

    def _end_root(self, process: Process | None, seconds: float, peak: int, *, forked: bool) -> None:
        self.root_seconds = seconds
        if self._root.is_older:
            peak = _new_peak(process, peak)
        elif forked:
            peak = 0  # it was never more than a copy of its launcher
        self.root_peak = peak or None

    def _settle_ending(self) -> None:
        """Take over the exact times of those that are still there; let go of the others."""
        members = self._tree.members
        for pid, ending in list(self._ending.items()):
            if members.get(pid) is not ending.process:
                del self._ending[pid]
            elif ending.process.own_cpu > ending.seconds:
                ending.sums.seconds += ending.process.own_cpu - ending.seconds
                ending.seconds = ending.process.own_cpu


def open_ended(tree: ProcessTree, *, is_launched: bool, counts_amounts: bool) -> EndedProcesses | None:
    """Return the processes of a tree that end from now on; None where the kernel does not report them here."""
    from gpu_tracker.processes.exit_records import ExitRecords  # noqa: PLC0415 - most users may not have them
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


def _has_all(process: Process, parent: _Parent) -> bool:
    """Return whether ``process`` has waited for all children that have ended."""
    return process.reaped_faults - parent.reaped_faults >= parent.children.faults


def _from_children(process: Process, parent: _Parent) -> float:
    """Return the CPU seconds of children of ``process`` that have ended, by its own counters where these have all."""
    reaped = process.reaped_cpu
    if _has_all(process, parent):
        return reaped
    if process.reaped_faults == parent.reaped_faults:  # it has waited for none of them
        return reaped + parent.children.seconds
    return max(reaped, parent.reaped_seconds + parent.children.seconds)


def _new_peak(process: Process | None, peak: int) -> int:
    """Return the peak of one that was there at the start, where it is not from before; else 0."""
    known = None if process is None else process.peak
    return peak if known is not None and peak > known + INEXACT else 0


def _added(amounts: Sequence[int] | None, others: Sequence[int]) -> list[int]:
    if not others:
        return list(amounts) if amounts else [0] * AMOUNTS
    if not amounts:
        return list(others)
    return list(map(int.__add__, amounts, others))
