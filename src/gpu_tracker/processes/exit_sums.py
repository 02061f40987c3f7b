"""What the processes of a tree have used that have ended, by who was to wait for them. Linux only.

What a process has used goes to whoever waits for it, and the sample reads it there. So what was recorded of processes
at their end counts only where the counters of the one that was to wait show that it has not, or where that is outside
the tree. Page faults tell: those of a child are added to the ones of its parent, and no process ends without any.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process

AMOUNTS = 7
"""Bytes read and written, those cancelled, those that calls have read and written; minor and major page faults."""
NOTHING = (0,) * AMOUNTS


class Sums:
    """What several processes or threads have used together."""

    __slots__ = ('_amounts', 'faults', 'heir', 'seconds', 'single', 'unseen_peaks')

    def __init__(self) -> None:
        self.seconds = 0.0
        """CPU seconds."""
        self.faults = 0
        """Page faults."""
        self.unseen_peaks = 0
        """High-water marks of those that no sample had seen, in KiB."""
        self.heir: Sums | None = None
        """Those that have all of this, since their process has ended."""
        self.single: list[Sequence[int]] = []
        """Amounts that were not added up yet."""
        self._amounts: tuple[int, ...] = NOTHING

    def add(self, seconds: float, faults: int, amounts: Sequence[int] | None) -> None:
        """Add one of them; ``amounts`` None: they are not of interest."""
        self.seconds += seconds
        self.faults += faults
        if amounts is not None:
            self.single.append(amounts)

    def last_heir(self) -> Sums:
        """Return those to which what belongs to these is added now."""
        sums = self
        while sums.heir is not None:
            sums = sums.heir
        return sums

    @property
    def amounts(self) -> tuple[int, ...]:
        """See :data:`AMOUNTS`."""
        if self.single:
            self._amounts = tuple(map(sum, zip(self._amounts, *self.single, strict=True)))
            self.single = []
        return self._amounts


class _Parent:
    """A process with children that have ended, or one that was there at the start."""

    __slots__ = ('children', 'reaped_faults', 'reaped_seconds')

    def __init__(self, process: Process | None = None) -> None:
        self.children = Sums()
        """Those that have ended since, with what they had from their own children."""
        self.reaped_seconds = 0.0 if process is None else process.reaped_cpu
        """What it had from children that had ended before."""
        self.reaped_faults = 0 if process is None else process.reaped_faults

    def has_got_all(self, process: Process) -> bool:
        """Return whether ``process``, which this is about, has waited for all of these children."""
        return process.reaped_faults - self.reaped_faults >= self.children.faults

    def has_got_none(self, process: Process) -> bool:
        """Return whether it has waited for no child since the start."""
        return process.reaped_faults == self.reaped_faults

    def seconds(self, process: Process) -> float:
        """Return the CPU seconds of all its children that have ended, as its counters say where these have all."""
        if self.has_got_all(process):
            return process.reaped_cpu
        if self.has_got_none(process):
            return process.reaped_cpu + self.children.seconds
        return max(process.reaped_cpu, self.reaped_seconds + self.children.seconds)

    def more_than_recorded(self, process: Process) -> float:
        """Return the CPU seconds that ``process`` has got beyond those of these children."""
        if process.reaped_faults - self.reaped_faults <= self.children.faults:
            return 0.0
        return max(0.0, process.reaped_cpu - self.reaped_seconds - self.children.seconds)

    def missing_amounts(
        self, process: Process, whole: Sequence[int], has_waited: Callable[[Process, int], bool]
    ) -> Sequence[int]:
        """Return what of the amounts of these children is not in the ``whole`` of the process since the start.

        :param has_waited: See :meth:`ExitSums.amounts`.
        """
        if self.has_got_all(process):
            return NOTHING
        if self.has_got_none(process) and not has_waited(process, self.reaped_faults):
            return self.children.amounts
        return [max(0, of_all - known) for of_all, known in zip(self.children.amounts, whole, strict=True)]


class _Ending:
    """A process that was added, of which more may be known afterwards."""

    __slots__ = ('process', 'recorded', 'seconds', 'sums')

    def __init__(self, sums: Sums, seconds: float, process: Process | None = None) -> None:
        self.process = process
        """It, where it is still there after its record has come, mostly because nobody has waited for it yet."""
        self.sums = sums
        """Those that it was added to."""
        self.seconds = seconds
        self.recorded = seconds
        """What was added, and what its records have together."""

    def raise_to(self, seconds: float) -> None:
        """Take over that it has used ``seconds``, where that is more than was known."""
        more = seconds - self.seconds
        if more > 0:
            self.sums.last_heir().seconds += more
            self.seconds = seconds


class ExitSums:
    """Adds up what has ended, and tells what the whole tree has used.

    :param tree: Always refreshed after what has ended was added, so that nothing is found in both.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self.parents: dict[int, _Parent] = {}
        """Those that had children, or were there at the start."""
        self._root = _Parent()
        self._lost = Sums()
        """Processes that somebody outside the tree was to wait for."""
        self._ending: dict[int, _Ending] = {}
        self.unseen: dict[int, tuple[Sums, float]] = {}
        """Those that no sample had seen when their record came: they may be seen as zombies afterwards."""
        self._growing: dict[int, _Ending] = {}
        """Those of which there may be more records."""
        self._wholes: dict[int, Sequence[int]] | None = None
        """The amounts of the members when they were first asked for."""
        self.of_root = Sums()
        """The threads of the root that have ended, once none is left."""

    def begin(self) -> None:
        """Take the counters of the members as those of the start."""
        self.parents = {pid: _Parent(process) for pid, process in self._tree.members.items()}
        self._root = self.parents[self._tree.root.pid]
        self._lost, self.of_root = Sums(), Sums()  # what has ended before stands in no counter, or in one of these
        self._ending, self.unseen, self._growing = {}, {}, {}

    def end(
        self,
        pid: int,
        heir: int | None,
        process: Process | None,
        seconds: float,
        faults: int,
        amounts: Sequence[int] | None,
    ) -> None:
        """Add a descendant that has ended.

        :param heir: The member that was to wait for it; None: somebody outside the tree.
        :param process: It as it was last seen; None: it was not.
        """
        sums = self.of_heir(heir)
        sums.add(seconds, faults, amounts)
        own = self.parents.pop(pid, None)
        if own is not None:
            children = own.children
            sums.add(own.reaped_seconds + children.seconds, own.reaped_faults + children.faults, children.amounts)
            sums.unseen_peaks += children.unseen_peaks
            children.heir = sums
        if process is None:
            self.unseen[pid] = sums, seconds
        else:
            self._ending[pid] = _Ending(sums, seconds, process)

    def of_heir(self, heir: int | None) -> Sums:
        """Return those to which a descendant is added that ``heir`` was to wait for, see :meth:`end`."""
        if heir is None:
            return self._lost
        parent = self.parents.get(heir)
        if parent is None:
            parent = self.parents[heir] = _Parent()
        return parent.children

    def has_ended(self, pid: int) -> bool:
        """Return whether a process that seems to be there was added already."""
        return pid in self._ending or pid in self.unseen

    def expect_more(self, pid: int) -> None:
        """Take note that a process which was just added had threads whose records may still come."""
        self._growing[pid] = self._ending.get(pid) or _Ending(*self.unseen[pid])

    def grow(self, pid: int, seconds: float, faults: int, amounts: Sequence[int] | None) -> None:
        """Add such a thread."""
        ending = self._growing[pid]
        ending.recorded += seconds
        ending.raise_to(ending.recorded)  # the counters of a zombie have had it before
        ending.sums.last_heir().add(0.0, faults, amounts)

    def expect_no_more(self, pid: int) -> None:
        """Take note that all records of a process have come."""
        self._growing.pop(pid, None)

    def descendants_seconds(self) -> float:
        """Return the CPU seconds of the descendants, as the tree has those that live; it has just been refreshed.

        Each counts from its start, so that only differences matter.
        """
        self._settle_ending()
        tree, ending = self._tree, self._ending
        root = tree.root
        total = self._lost.seconds - tree.foreign_cpu + root.reaped_cpu + self.ignored_seconds()
        for pid, process in tree.members.items():
            if process is not root and pid not in ending:
                total += process.own_cpu + process.reaped_cpu
        return total

    def ignored_seconds(self) -> float:
        """Return the CPU seconds of those for which members were to wait, and no member has waited.

        A subreaper waits for those whose parent has ended and had not. By then these were counted for whoever has
        waited for that parent, so what the one has got beyond its own children is not missing at the other.
        """
        tree, root = self._tree, self._tree.root
        others = [(p, self.parents.get(pid)) for pid, p in tree.members.items() if pid not in self._ending]
        missing = more = 0.0
        for process, parent in [(root, self._root), *(other for other in others if other[0] is not root)]:
            if parent is None:
                more += process.reaped_cpu
            else:
                missing += max(0.0, parent.seconds(process) - process.reaped_cpu)
                more += parent.more_than_recorded(process)
        return max(0.0, missing - more)

    def unseen_peaks(self) -> int:
        """Return the bytes that those have had at most that no sample has seen, and for which no member has waited."""
        found = self._lost.unseen_peaks
        for pid, parent in self.parents.items():
            process = self._tree.members.get(pid)
            if process is None or not parent.has_got_all(process):
                found += parent.children.unseen_peaks
        return 1024 * found

    def amounts(
        self,
        whole_of: Callable[[Process], Sequence[int] | None],
        has_waited: Callable[[Process, int], bool],
    ) -> tuple[int, ...]:
        """Return the amounts of the whole tree, see :data:`AMOUNTS`.

        :param whole_of: Returns those of a member, with those of all that it has waited for; None: it has ended since
            the tree was refreshed, so that another member may have them all by now, and nothing of it is added here.
        :param has_waited: Returns whether a member, whose amounts were just read, has waited for a child since the page
            faults of those were so many: they may have what it has got from children since the tree was refreshed.
        """
        self._settle_ending()
        tree, found = self._tree, [self._lost.amounts]
        if self._wholes is None:
            self._wholes = {pid: whole_of(process) or NOTHING for pid, process in tree.members.items()}
        for pid, process in tree.members.items():
            whole = None if pid in self._ending else whole_of(process)
            if whole is not None:
                found.append(tuple(whole))
                parent = self.parents.get(pid)
                if parent is not None:
                    since = [now - before for now, before in zip(whole, self._wholes.get(pid, NOTHING), strict=True)]
                    found.append(tuple(parent.missing_amounts(process, since, has_waited)))
        if tree.root_gone:
            found += [self.of_root.amounts, self._root.children.amounts]
        return tuple(map(sum, zip(*found, strict=True)))

    def _settle_ending(self) -> None:
        """Take over the exact times of those that are still there; let go of the others."""
        members = self._tree.members
        if self.unseen:
            for pid in self.unseen.keys() & members.keys():
                ending = self._ending[pid] = self._growing.get(pid) or _Ending(*self.unseen[pid])
                ending.process = members[pid]
            self.unseen = {}
        for pid, ending in list(self._ending.items()):
            if ending.process is None or members.get(pid) is not ending.process:
                del self._ending[pid]
            else:
                ending.raise_to(ending.process.own_cpu)
