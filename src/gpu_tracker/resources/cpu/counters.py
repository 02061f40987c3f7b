"""CPU time of the root and of its descendants, from cumulative counters.

The CPU time of a tree is what its living members have used plus what they have got from their reaped children. When
a member ends and a member reaps it, its time moves from the one to the other, so that the sum does not jump and
children that lived between two samples count. Two cases need care: a member that was reaped by somebody
outside the tree, and one whose parent ignores SIGCHLD, to which the kernel then adds nothing. Its last seen time is
kept here, and what it used since comes from :class:`.MissedTime`, where that can be known.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.cpu.missed_time import MissedTime

_NOTHING = (0.0, 0)
_ROUNDING = 0.02
"""Reaped time comes in ticks of 10 ms, user and system time each rounded down."""


class CpuReading:
    """CPU seconds since the start, which never decrease, and threads at this moment.

    ``begun`` is when the reading of them began, where that is known: on a busy machine it may take its time.
    """

    __slots__ = ('begun', 'descendants', 'descendants_threads', 'main', 'main_threads')

    def __init__(
        self,
        main: float,
        descendants: float,
        main_threads: int,
        descendants_threads: int,
        begun: float | None = None,
    ) -> None:
        self.main = main
        self.descendants = descendants
        self.main_threads = main_threads
        self.descendants_threads = descendants_threads
        self.begun = begun


class CpuCounters:
    """Folds the times of a tree's members into the CPU seconds of the root and of its descendants since the start.

    :param missed: Adds what the members' counters miss; None: nothing does.
    """

    def __init__(self, tree: ProcessTree, missed: MissedTime | None = None) -> None:
        self._tree = tree
        self._missed = missed
        self._has_ignored = self._has_adopted = False
        """The time of a member that is gone went to nobody in the tree, as found at this sample."""
        self._kept = 0.0
        self._owing: dict[Process, tuple[float, int]] = {}
        """CPU seconds of children that are gone and have not turned up in ``reaped_cpu`` of a member yet, and how many
        page faults of such children it had by then."""
        self._reaped: dict[Process, tuple[float, int]] = {}
        """``reaped_cpu`` and ``reaped_faults`` of the members when times were last added up."""
        self.adopted = 0.0
        """CPU seconds of members that somebody outside the tree has reaped, as they were last seen."""
        self._main_start = tree.root.own_cpu
        self._descendants_start, self._threads = self._sum_of_descendants()
        self._descendants = 0.0
        self._changes = tree.changes
        self._total = self._descendants_start
        self._reaped_start = tree.root.reaped_cpu

    def read(self) -> CpuReading:
        """Return the CPU seconds since the start and the threads of now; the tree has just been refreshed."""
        tree = self._tree
        self._has_ignored = self._has_adopted = False
        if tree.changes != self._changes or self._owing:
            self._changes = tree.changes
            self._add_up()
        main, descendants = max(0.0, tree.root.own_cpu - self._main_start), self._descendants
        if self._missed is not None:
            main, descendants = self._missed.add(
                main, descendants, ignored=self._has_ignored, adopted=self._has_adopted
            )
        return CpuReading(main, descendants, tree.root.threads, self._threads, tree.begun)

    @property
    def unreaped(self) -> float:
        """CPU seconds of descendants that the root has not got."""
        root = self._tree.root
        of_reaped = root.reaped_cpu - self._reaped_start + self._owing.get(root, _NOTHING)[0]
        return max(0.0, self._total - self._descendants_start - of_reaped)

    def _add_up(self) -> None:
        if self._tree.gone or self._owing:
            self._settle(self._hand_over())
        self._total, self._threads = self._sum_of_descendants()
        # Time that is handed over in ticks may be a little less than what was seen: the sum waits until it has caught
        # up.
        self._descendants = max(self._descendants, self._total - self._descendants_start)

    def _sum_of_descendants(self) -> tuple[float, int]:
        root = self._tree.root
        total = self._kept - self._tree.foreign_cpu
        threads = 0
        if not self._tree.root_gone:
            total -= root.own_cpu
            threads -= root.threads
        owing = self._owing
        members = self._tree.members.values()
        self._reaped = {process: (process.reaped_cpu, process.reaped_faults) for process in members}
        for process in members:
            used = process.own_cpu + process.reaped_cpu
            if owing and process in owing:
                used += owing[process][0]
            total += used
            threads += process.threads
        return total, threads

    def _hand_over(self) -> dict[Process, float]:
        """Return the time of members that are gone by the member that must have got it; keep the others'.

        Where a parent is gone as well, its own parent got both.
        """
        members = self._tree.members
        gone = {process.pid: process for process in self._tree.gone}
        owed: dict[Process, float] = {}
        for process in self._tree.gone:
            is_root = process is self._tree.root
            owing, _ = self._owing.pop(process, _NOTHING)
            time = process.reaped_cpu + owing + (0.0 if is_root else process.own_cpu)
            last: Process | None = process
            while last is not None and last is not self._tree.root and last.parent not in members:
                last = gone.get(last.parent)
            if last is None or last is self._tree.root:
                self._kept += time
                self.adopted += time
                self._has_adopted |= not is_root
            else:
                parent = members[last.parent]
                owed[parent] = owed.get(parent, 0.0) + time
        return owed

    def _settle(self, owed: dict[Process, float]) -> None:
        """Take from what is owed what has turned up since the last sample; decide about what is owed since then.

        A parent may have been read just before it reaped its child, so what is ``owed`` newly is decided upon at the
        next sample.
        """
        owing, self._owing = self._owing, {}
        for parent in owing.keys() | owed.keys():
            reaped_before, faults_before = self._reaped.get(parent, _NOTHING)
            owed_before, faults_told = owing.get(parent, _NOTHING)
            turned_up = max(0.0, parent.reaped_cpu - reaped_before)
            missing = max(0.0, owed_before - turned_up)
            turned_up -= owed_before - missing
            ignored = missing > 0 and self._ignores_children(parent, faults_told)
            if missing > _ROUNDING or ignored:
                self._kept += missing
                self.adopted += 0.0 if ignored else missing
                self._has_ignored |= ignored
                self._has_adopted |= not ignored
            still_owed = max(0.0, owed.get(parent, 0.0) - turned_up)
            if still_owed > 0:
                self._owing[parent] = still_owed, faults_before

    def _ignores_children(self, parent: Process, faults_told: int) -> bool:
        """Return whether a member has reaped no child since it had so many page faults of reaped ones.

        Without any page fault no process has ever ended. Where it has reaped other children than the one in question,
        its file may say that it ignores SIGCHLD; of the flag SA_NOCLDWAIT, see sigaction(2), that says nothing. Nobody
        tells a member that has ended itself: its children have another parent.
        """
        if parent.ended:
            return False
        heard_of_none = self._tree.counts_reaped_faults and parent.reaped_faults == faults_told
        return heard_of_none or self._tree.ignores_children(parent)
