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

    __slots__ = ('_amounts', '_single', 'faults', 'seconds')

    def __init__(self) -> None:
        self.seconds = 0.0
        """CPU seconds."""
        self.faults = 0
        """Page faults."""
        self._single: list[Sequence[int]] = []
        self._amounts: tuple[int, ...] = NOTHING

    def add(self, seconds: float, faults: int, amounts: Sequence[int] | None) -> None:
        """Add one of them; ``amounts`` None: they are not of interest."""
        self.seconds += seconds
        self.faults += faults
        if amounts is not None:
            self._single.append(amounts)

    @property
    def amounts(self) -> tuple[int, ...]:
        """See :data:`AMOUNTS`."""
        if self._single:
            self._amounts = tuple(map(sum, zip(self._amounts, *self._single, strict=True)))
            self._single = []
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

    def missing_amounts(self, process: Process, whole: Sequence[int]) -> Sequence[int]:
        """Return what of the amounts of these children is not in the ``whole`` of the process since the start."""
        if self.has_got_all(process):
            return NOTHING
        if self.has_got_none(process):
            return self.children.amounts
        return [max(0, of_all - known) for of_all, known in zip(self.children.amounts, whole, strict=True)]


class _Ending:
    """A member that is still there after its record has come, mostly because nobody has waited for it yet."""

    __slots__ = ('process', 'seconds', 'sums')

    def __init__(self, process: Process, sums: Sums, seconds: float) -> None:
        self.process = process
        self.sums = sums
        """Those that it was added to."""
        self.seconds = seconds


class ExitSums:
    """Adds up what has ended, and tells what the whole tree has used.

    :param tree: Always refreshed after what has ended was added, so that nothing is found in both.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._parents: dict[int, _Parent] = {}
        self._root = _Parent()
        self._lost = Sums()
        """Processes that somebody outside the tree was to wait for."""
        self._ending: dict[int, _Ending] = {}
        self._unseen: dict[int, tuple[Sums, float]] = {}
        """Those that no sample had seen when their record came: they may be seen as zombies afterwards."""
        self._wholes: dict[int, Sequence[int]] | None = None
        """The amounts of the members when they were first asked for."""
        self.of_root = Sums()
        """The threads of the root that have ended, once none is left."""

    def begin(self) -> None:
        """Take the counters of the members as those of the start."""
        self._parents = {pid: _Parent(process) for pid, process in self._tree.members.items()}
        self._root = self._parents[self._tree.root.pid]

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
        if heir is None:
            sums = self._lost
        else:
            parent = self._parents.get(heir)
            if parent is None:
                parent = self._parents[heir] = _Parent()
            sums = parent.children
        sums.add(seconds, faults, amounts)
        own = self._parents.pop(pid, None)
        if own is not None:
            children = own.children
            sums.add(own.reaped_seconds + children.seconds, own.reaped_faults + children.faults, children.amounts)
        if process is None:
            self._unseen[pid] = sums, seconds
        else:
            self._ending[pid] = _Ending(process, sums, seconds)

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
        others = [(p, self._parents.get(pid)) for pid, p in tree.members.items() if pid not in self._ending]
        missing = more = 0.0
        for process, parent in [(root, self._root), *(other for other in others if other[0] is not root)]:
            if parent is None:
                more += process.reaped_cpu
            else:
                missing += max(0.0, parent.seconds(process) - process.reaped_cpu)
                more += parent.more_than_recorded(process)
        return max(0.0, missing - more)

    def amounts(self, whole_of: Callable[[Process], Sequence[int] | None]) -> tuple[int, ...]:
        """Return the amounts of the whole tree, see :data:`AMOUNTS`.

        :param whole_of: Returns those of a member, with those of all that it has waited for; None: they are not known.
        """
        self._settle_ending()
        tree, found = self._tree, [self._lost.amounts]
        if self._wholes is None:
            self._wholes = {pid: whole_of(process) or NOTHING for pid, process in tree.members.items()}
        for pid, process in tree.members.items():
            if pid not in self._ending:
                whole = tuple(whole_of(process) or NOTHING)
                found.append(whole)
                parent = self._parents.get(pid)
                if parent is not None:
                    since = [now - before for now, before in zip(whole, self._wholes.get(pid, NOTHING), strict=True)]
                    found.append(tuple(parent.missing_amounts(process, since)))
        if tree.root_gone:
            found += [self.of_root.amounts, self._root.children.amounts]
        return tuple(map(sum, zip(*found, strict=True)))

    def _settle_ending(self) -> None:
        """Take over the exact times of those that are still there; let go of the others."""
        members = self._tree.members
        if self._unseen:
            for pid in self._unseen.keys() & members.keys():
                self._ending[pid] = _Ending(members[pid], *self._unseen[pid])
            self._unseen = {}
        for pid, ending in list(self._ending.items()):
            more = ending.process.own_cpu - ending.seconds
            if members.get(pid) is not ending.process:
                del self._ending[pid]
            elif more > 0:
                ending.sums.seconds += more
                ending.seconds += more
