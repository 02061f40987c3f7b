"""Which of the processes that end belong to a tree, whether a sample has seen them or not. Linux only.

The kernel reports the forks and the ends of all processes of the machine. Those of a tree are its members, and whatever
was forked by one of them.

Forks and ends come on a socket each, in their order. Two facts put them together. The fork of a process comes before
its end, so what has been received of the ends is looked at after all forks. And a number is free for another process
only after the last record of the one that had it. So before a fork takes a number that is in use, the ends are looked
at as far as that record. Where the number was that of a stranger, the record says how long this has lived: if that is
longer than since the fork, it is not about the process that was forked. (Else the same number would have been given
away three times within two seconds, and that many ends there is no room for.)
"""

from __future__ import annotations

import os
import time
from operator import length_hint

from gpu_tracker.processes import SAMPLER_NAME
from gpu_tracker.processes.ended_peaks import EndedPeaks, new_peak
from gpu_tracker.processes.exit_records import FORKED, LAST_OF_PROCESS, nanoseconds_of
from gpu_tracker.processes.exit_sums import ExitSums, Sums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.exit_records import Fields, Layout
    from gpu_tracker.processes.fork_notices import Fork
    from gpu_tracker.processes.process import Process

    Used = tuple[float, int, Sequence[int] | None]
    """CPU seconds, page faults and amounts of one that has ended, see ``exit_sums.AMOUNTS``; None: not wanted."""

    class Records(Protocol):
        """See :class:`.ExitRecords`."""

        @property
        def has_lost(self) -> bool:
            """More processes have ended than there was room for."""

        @property
        def layout(self) -> Layout | None:
            """How they are read; None: none has arrived yet."""

        def take(self) -> list[bytes] | None:
            """Return what has come; None: it is not known yet whether they arrive."""

        def close(self) -> None:
            """Listen no more."""

    class Notices(Protocol):
        """See :class:`.ForkNotices`."""

        @property
        def has_lost(self) -> bool:
            """More processes were forked than there was room for."""

        def take(self) -> list[Fork]:
            """Return each fork, in their order."""

        def close(self) -> None:
            """Listen no more."""


_LONGEST_UNCONFIRMED = 5.0
"""Seconds that it may take until the record comes which shows that records arrive here."""
_LONGEST = 1.0
"""Seconds between two times that records are taken, at most: they wait in a buffer that has an end."""
_SAMPLER = SAMPLER_NAME.ljust(16, b'\0')
_NEVER = float('inf')
_MICROSECOND, _NANOSECOND = 1000, 1e-9
"""The one in nanoseconds, the other in seconds."""
_KIB = 1024
_SLACK = 100_000_000
"""Nanoseconds by which a process may be older than the notice of its fork, and the listing that has found it."""


class _Threads(Sums):
    """The threads of one process that have ended, of which another one may still run."""

    __slots__ = ('bits', 'peak')

    def __init__(self) -> None:
        super().__init__()
        self.bits = 0
        self.peak = 0


class EndedProcesses:
    """Takes the records of those processes that belong to a tree.

    :param tree: It is refreshed after each :meth:`take`.
    :param is_launched: The root is still held back before its exec, so that nothing of it is from before the start.
    :param counts_amounts: I/O and page faults are of interest, too.
    :param monotonic: The clock, CLOCK_MONOTONIC.
    :param exists: Returns whether a number is that of a process, which may have ended if nobody has waited for it.
    """

    def __init__(
        self,
        tree: ProcessTree,
        records: Records,
        notices: Notices,
        *,
        is_launched: bool,
        counts_amounts: bool,
        monotonic: Callable[[], float] = time.monotonic,
        exists: Callable[[int], bool] | None = None,
    ) -> None:
        self._tree = tree
        self._records: Records | None = records
        self._notices = notices
        self._is_launched = is_launched
        self._counts_amounts = counts_amounts
        self._monotonic = monotonic
        self._exists = exists or _exists
        self._family: dict[int, Fork] = {}
        """The processes of the tree that have not ended, as far as they are known, each with its fork. Where that was
        not noticed it has the time of a listing, and 0 as the parent."""
        self._held: list[Fork] = []
        """Forks that wait for the end of who has had the number of the first one before."""
        self._late: dict[int, Fork] = {}
        """Those of which the last record has come, and others may still come: those of their other threads."""
        self._records_now: list[bytes] = []
        self._ends: Iterator[bytes] = iter(self._records_now)
        """Records that were received, and those of them that were not looked at yet."""
        self._peaks = EndedPeaks()
        self._threads: dict[int, _Threads] = {}
        self._older: set[int] = set()
        """Those of them that were there at the start: their marks may be from before."""
        self._listings = -1
        self._first: float | None = None
        self._due = 0.0
        self._begun, self._taken, self._latest = 0, 0, 0
        """Nanoseconds at the start, when records were taken before, and after which none can have ended by now."""
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

    def begin(self) -> None:
        """Count from now on, after the first refresh: what has ended before that does not count."""
        members = self._tree.members
        self.count = 0
        self._peaks.begin()
        self._begun = _nanoseconds(self._tree.begun)
        self._family = {pid: fork for pid, fork in self._family.items() if pid in members}
        self._threads = {pid: threads for pid, threads in self._threads.items() if pid in members}
        self._late = {}
        self._older = set(members)
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
        gone = [pid for pid in self._late if not self._exists(pid)]  # whose records have all come
        forks = self._receive(records, now)
        layout = records.layout
        if forks is None or layout is None:
            return
        self._peaks.settle(now, self._family)
        self._latest = _nanoseconds(self._monotonic()) + _SLACK
        self._add_listed()
        self._follow([*self._held, *forks] if self._held else forks, layout)
        self._end_threads(layout)
        for pid in gone:
            self._expect_no_more(pid)
        self._taken = _nanoseconds(now)
        self.is_incomplete |= records.has_lost or self._notices.has_lost

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
            'ended_peak': self._peaks.largest_so_far(self._family),
            'ended_copies_peak': self._peaks.of_copies,
            'ended_unseen_peaks': self.sums.unseen_peaks(),
        }

    def _receive(self, records: Records, now: float) -> list[Fork] | None:
        """Receive what there is, and return the forks: those of all that have ended are among them.

        None: it is not known yet whether records arrive here, so that all waits, or listening has failed.
        """
        self._first = now if self._first is None else self._first
        try:
            ends = records.take()
            if ends is not None:
                self.is_confirmed = True
                self._records_now, self._ends = ends, iter(ends)
                return self._notices.take()
        except OSError:
            self.is_incomplete = True
            self.close()
            return None
        if now - self._first > _LONGEST_UNCONFIRMED:
            self.close()
        return None

    def _add_listed(self) -> None:
        """Take in members whose fork was not noticed: those that were there before."""
        tree, family = self._tree, self._family
        if tree.listings == self._listings:
            return
        self._listings = tree.listings
        when = _nanoseconds(tree.listed)
        for pid in tree.members.keys() - family.keys():
            if not tree.members[pid].ended and not self._has_ended(pid):
                family[pid] = (when, 0, pid)

    def _has_ended(self, pid: int) -> bool:
        is_root = pid == self._tree.root.pid
        return pid in self._late or self.sums.has_ended(pid) or (is_root and self.root_seconds is not None)

    def _follow(self, forks: list[Fork], layout: Layout) -> None:
        """Take in what was forked by the tree."""
        family, late = self._family, self._late
        awaited = self._held[0] if self._held else None
        self._held = []
        left = iter(forks)
        for fork in left:
            _, parent, child = fork
            if child in family or child in late:
                self._end_before(fork, layout)
                if child in family and self._is_other(fork):
                    if fork is not awaited:
                        self._held = [fork, *left]  # its record was sent before the fork: it comes next
                        return
                    self.is_incomplete |= family[child][1] != 0
                    self._forget(child)
            if parent in family:
                family[child] = fork

    def _is_other(self, fork: Fork) -> bool:
        """Return whether a fork has made another process than the one with this number that is known."""
        when, _, child = fork
        since, parent, _ = self._family[child]
        return parent != 0 or when > since + _SLACK

    def _end_before(self, fork: Fork, layout: Layout) -> None:
        """Take the records up to those of who has had the number of a new process before."""
        when, _, child = fork
        if child in self._family and not self._is_other(fork):
            return
        before = self._late.get(child) or self._family[child]
        youngest = (self._taken - _SLACK - before[0]) // _MICROSECOND
        oldest = (when + _SLACK - before[0]) // _MICROSECOND if before[1] else when
        left = self._records_now[len(self._records_now) - length_hint(self._ends) :]
        ages = [layout.fields(message)[-1] for message in left if layout.process(message)[0] == child]
        for age in ages:
            if youngest <= age <= oldest and (child in self._family or child in self._late):
                self._end_threads(layout, child)
        self._expect_no_more(child)

    def _forget(self, pid: int) -> None:
        del self._family[pid]
        self._threads.pop(pid, None)

    def _expect_no_more(self, pid: int) -> None:
        if self._late.pop(pid, None) is not None:
            self.sums.expect_no_more(pid)

    def _end_threads(self, layout: Layout, last: int = 0) -> None:
        """Add the threads that have ended to their processes, and these to the sums where no thread is left.

        Most processes have one thread and were never seen. These are added here, since each call costs.

        :param last: The process up to whose next record that is done.
        """
        family, late, older, tree, sums = self._family, self._late, self._older, self._tree, self.sums
        members, parents, unseen = tree.members, sums.parents, sums.unseen
        begun, latest, least = self._begun, self._latest, self._peaks.largest // _KIB
        has_amounts = self._counts_amounts
        process_of, fields_of, single = layout.process, layout.fields, layout.single_length
        heir, of_heir = 0, sums.of_heir(None)
        for message in self._ends:
            pid = process_of(message)[0]
            fork = family.get(pid)
            if fork is None and pid not in late:
                continue
            length, bits, waited, ran, name, parent, lived, minor, major, peak, sleeps, pid, age = fields_of(message)
            seconds = nanoseconds_of(ran, lived, waited, sleeps) * _NANOSECOND
            if (
                fork is None or not begun <= fork[0] + age * _MICROSECOND <= latest
                or length != single or not bits & LAST_OF_PROCESS
                or pid in members or pid in older or pid in parents or name == _SAMPLER
            ):  # fmt: skip
                amounts = _amounts(layout, message, minor, major) if has_amounts else None
                self._end_thread(fork, layout.fields(message), seconds, amounts, is_single=length == single)
                heir = 0
            else:
                del family[pid]
                if parent != heir:
                    heir, of_heir = parent, sums.of_heir(parent if parent in family else None)
                self.count += 1
                of_heir.seconds += seconds
                of_heir.faults += minor + major
                of_heir.unseen_peaks += peak
                if has_amounts:
                    of_heir.single.append(_amounts(layout, message, minor, major))
                unseen[pid] = of_heir, seconds
                if peak > least:
                    self._add_peak(pid, peak * _KIB, bits, parent)
            if pid == last:
                return

    def _add_peak(self, pid: int, peak: int, bits: int, parent: int) -> None:
        """Take note of the high-water mark of a descendant that has just ended, in bytes."""
        may_be_copy = parent == self._tree.root.pid or parent not in self._family
        self._peaks.add(pid, peak, is_copy=bool(bits & FORKED) and may_be_copy)

    def _is_stranger(self, fork: Fork, bits: int, age: int) -> bool:
        """Return whether a record is of who had the number before, or of one that has ended before the run."""
        since, parent, pid = fork
        end = since + age * _MICROSECOND
        if not parent or self._begun <= end <= self._latest:
            return False
        if end > self._latest:
            return True
        if pid in self._older:
            return False
        if bits & LAST_OF_PROCESS:
            self._forget(pid)
        return True

    def _end_thread(
        self, fork: Fork | None, fields: Fields, seconds: float, amounts: Sequence[int] | None, *, is_single: bool
    ) -> None:
        """Add one thread to its process, and that to the sums where no thread is left."""
        _, bits, _, _, name, parent, _, minor, major, peak, _, pid, age = fields
        used: Used = seconds, minor + major, amounts
        if fork is None:
            self._end_late(pid, used)
            return
        if self._is_stranger(fork, bits, age):
            return
        peak *= _KIB
        is_last = bits & LAST_OF_PROCESS
        threads = self._threads.pop(pid, None)
        if threads is not None or not is_last:
            threads = threads or _Threads()
            threads.add(*used)
            threads.peak = peak = max(threads.peak, peak)
            threads.bits = bits = threads.bits | bits
            used = threads.seconds, threads.faults, None if amounts is None else threads.amounts
        if threads is not None and not is_last:
            self._threads[pid] = threads
        elif self._end(fork, name, parent, used, peak, bits) and not is_single:
            self._late[pid] = fork
            if pid != self._tree.root.pid:
                self.sums.expect_more(pid)

    def _end_late(self, pid: int, used: Used) -> None:
        """Add a thread whose record was overtaken by the last one of its process."""
        if pid == self._tree.root.pid:
            self.root_seconds = (self.root_seconds or 0.0) + used[0]
            self.sums.of_root.add(*used)
        else:
            self.sums.grow(pid, *used)

    def _end(self, fork: Fork, name: bytes, parent: int, used: Used, peak: int, bits: int) -> bool:
        """Add a process that has ended, and return whether it counts; ``peak`` is in bytes."""
        family, tree = self._family, self._tree
        pid = fork[2]
        del family[pid]
        process = tree.members.get(pid)
        if process is not None or pid in self._older:
            used, peak = self._end_seen(pid, process, used, peak)
        if pid == tree.root.pid:
            self.root_seconds = used[0]
            self.root_peak = None if not peak or (bits & FORKED and self._is_launched) else peak
            self.sums.of_root.add(*used)
            return True
        if name == _SAMPLER or pid in tree.samplers:
            self._peaks.add_starter(fork[1])
            return False
        self.count += 1
        heir = parent if parent in family else None
        self.sums.end(pid, heir, process, *used)
        known = (
            0 if process is None else process.peak or 0
        )  # what it has had since it was read last, no sample has seen
        self.sums.of_heir(heir).unseen_peaks += max(0, peak - known) // _KIB
        if peak > self._peaks.largest:
            self._add_peak(pid, peak, bits, parent)
        return True

    def _end_seen(self, pid: int, process: Process | None, used: Used, peak: int) -> tuple[Used, int]:
        """Return what one that was there at the start counts: its mark may be from before, and threads had ended."""
        if pid not in self._older:
            return used, peak
        self._older.remove(pid)
        seconds, faults, amounts = used
        if process is not None:
            seconds = max(seconds, process.own_cpu)
        return (seconds, faults, amounts), new_peak(process, peak)


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


def _amounts(layout: Layout, message: bytes, minor: int, major: int) -> tuple[int, ...]:
    """Return the amounts of a record, see ``exit_sums.AMOUNTS``."""
    by_read, by_write, read, written, cancelled = layout.amounts(message)
    return read, written, cancelled, by_read, by_write, minor, major


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True
