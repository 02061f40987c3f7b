"""Resident memory of the root, of its descendants and of both together: cheap at every sample, exact where it matters.

Every sample knows the resident size of each member. For one process that is the truth. For a group it counts shared
pages more than once, so the exact split is read where the group may have reached a new maximum: its cheap sum has
grown; its members have had page faults (which also tells when copy-on-write has turned shared pages into private ones,
while no resident size changes); new members have come; or one has ended with which others shared pages. What happens
between two samples is read from the kernel's high-water marks.
"""

from __future__ import annotations

from gpu_tracker.process_tree.stat import PAGE_SIZE
from gpu_tracker.sources.peaks import PeakReader
from gpu_tracker.sources.reading import LAST, MIDDLE, RamReading, Resident
from gpu_tracker.sources.split import SplitReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.allowance import Allowance, OverheadLimit
    from gpu_tracker.process_tree import ProcessTree
    from gpu_tracker.process_tree.process import Process
    from gpu_tracker.sources.memory_files import MemoryFiles
    from gpu_tracker.sources.split import Seen, Split

_MOST_AT_EDGE = 0.005
"""CPU seconds that an optional reading may take at the first and the last sample, whatever is left of the allowance."""
_MOST_AT_END = 0.2
"""The same for the exact split at the last sample, where there has been none at all."""
_MOST_DETAILED = 0.25
"""CPU seconds above which sums are read in place of mappings."""
_SEVERAL = 2
"""From this many processes on, resident sizes added up may count pages more than once."""
_PAGES_A_FAULT = 64
"""Pages of a file that one page fault maps: 16 (fault_around_bytes), and more where the file lies in large folios."""
_GROWTH = 1.01
_LEAST_GROWTH = 1 << 16
"""What has not grown by this factor and by these bytes is not worth another exact reading."""
_GROWTH_OF_ONE = 2.0
"""The same for a single process while it grows: its total is known, and a reading makes its page faults wait."""
_CHANGED_SHARE = 0.02
"""Changed memory since the last exact reading that is worth another one, as a share of the group's size."""


class RamSource:
    """Reads the memory of a tree on Linux.

    :param tree: Refreshed before each reading.
    :param cpu_time: The CPU seconds that this process has used, by which optional readings are paid.
    """

    def __init__(
        self,
        tree: ProcessTree,
        files: MemoryFiles,
        allowance: Allowance | OverheadLimit,
        cpu_time: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._files = files
        self._allowance = allowance
        self._splits = SplitReader(files, cpu_time)
        self._peaks = PeakReader(files, allowance, cpu_time)
        self._split: Split | None = None
        self._split_before: Split | None = None
        self._launch_peak = 0
        self._most_read = [0, 0, 0]
        """The largest resident sizes of root, descendants and both at which there was an exact reading."""
        self._most_exact = [0, 0, 0]
        self._most_private = [0, 0, 0]
        """The largest totals and private sizes that were read exactly, for the three as well."""
        self._faults = 0
        """Page faults of the tree when an exact reading was last considered."""
        self._last_size = 0
        """Resident bytes of the tree at the sample before."""
        self._last: RamReading | None = None
        """What was read last, if nothing is left to be read of the tree as it was then."""
        self._changes = 0
        """The changes of the tree at that time."""

    @property
    def unreadable(self) -> bool:
        """Some process may not be read, because it is another user's."""
        return self._splits.unreadable

    def read(self, now: float, kind: str) -> RamReading:
        """Return what is resident now, and the peaks since the sample before.

        :param now: Seconds on the clock of the allowance.
        :param kind: Where the sample stands in the run: ``FIRST``, ``MIDDLE`` or ``LAST``.
        """
        if self._last is None or self._changes != self._tree.changes or kind == LAST:
            self._changes = self._tree.changes
            reading, complete = self._read(now, kind)
            self._last = reading if complete else None
            return reading
        return self._last

    def _read(self, now: float, kind: str) -> tuple[RamReading, bool]:
        """Return the reading, and whether it has all that there is to be read."""
        root = self._tree.root
        counted = [
            process for process in self._tree.members.values() if not process.ended and not process.shares_memory
        ]
        descendants = [process for process in counted if process is not root]
        of_root = 0 if len(descendants) == len(counted) else root.resident
        of_descendants = sum([process.resident for process in descendants])
        sizes = [of_root, of_descendants, of_root + of_descendants]

        due = self._is_due(counted, sizes)
        waits = due and len(counted) < _SEVERAL and kind == MIDDLE and self._still_grows(sizes)
        self._last_size = sizes[2]
        exact = due and not waits and self._read_split(now, kind, counted, sizes)
        if exact:
            groups = self._split_groups()
            if not descendants:
                groups[1] = Resident(0, 0, 0)
        else:
            groups = [
                Resident(of_root),
                Resident(of_descendants if len(descendants) < _SEVERAL else None) if descendants else Resident(0, 0, 0),
                Resident(sizes[2] if len(counted) < _SEVERAL else None),
            ]
            if counted == [root]:
                groups[0].private = groups[2].private = self._private_of_root()
        if not of_root:  # it has ended, or it is not the program that is tracked yet: nothing is known about it now
            groups[0] = Resident(None)
            if not descendants:
                groups[2] = Resident(None)
        copies = {process for process in counted if process.forked and process.peak is None}
        risen = self._peaks.read(now, kind, root, counted, saving=due and not exact)
        for group, members in ((1, descendants), (2, counted)):
            if groups[group].total is None and (due or risen):
                groups[group].total = self._estimate(group, members)
        upper = self._peaks.sums(root, counted)
        self._raise_groups(groups, risen, counted, copies)
        _reconcile(groups, upper, [self._doubled([root]), self._doubled(descendants)])
        complete = (exact or not due) and not self._peaks.pending
        return RamReading(groups[0], groups[1], groups[2], upper), complete

    def watch(self, process: Process) -> None:
        """Read the high-water mark of a command that has just been started: it may end at any moment."""
        self._launch_peak = max(self._launch_peak, self._files.peak(process.pid) or 0)
        self._last = None

    def _is_due(self, counted: Sequence[Process], sizes: Sequence[int]) -> bool:
        """Tell whether an exact reading could find more than the last ones."""
        split = self._split
        if split is None:
            return bool(counted)
        if _exceeds(sizes, self._most_read):
            return True
        worth_it = max(_LEAST_GROWTH, _CHANGED_SHARE * (split.combined.total or 0))
        if split.copied > worth_it and _exceeds(sizes, self._most_private) and _left_behind(split) > worth_it:
            return True
        if len(counted) < _SEVERAL or not _exceeds(sizes, self._most_exact):
            return False
        return self._most_changed(counted, split.counted) > worth_it

    def _still_grows(self, sizes: Sequence[int]) -> bool:
        """Tell whether an exact reading of a single process would soon be followed by another one."""
        grows = _exceeds(sizes[2:], [self._last_size])
        return grows and self._split is not None and not _exceeds(sizes, self._most_read, _GROWTH_OF_ONE)

    def _most_changed(self, counted: Sequence[Process], then: dict[Process, Seen]) -> int:
        """Return how many bytes at most were not there at the last exact reading or were shared then.

        A process that was forked brings no page but by a fault; of any other new one all may be new.
        """
        changed = 0
        for process in counted:
            seen = then.get(process)
            if seen is not None:
                changed += (process.faults - seen.faults) * PAGE_SIZE
            elif process.forked:
                changed += min(process.resident, process.faults * PAGE_SIZE)
            else:
                changed += process.resident
        return changed

    def _read_split(self, now: float, kind: str, counted: Sequence[Process], sizes: list[int]) -> bool:
        """Read the exact split where that is affordable, and tell whether it was."""
        detailed = len(counted) > 1 and self._splits.cost(counted, detailed=True) <= _MOST_DETAILED
        cost = self._splits.cost(counted, detailed=detailed)
        if kind == LAST and self._split is None:
            if detailed and cost > _MOST_AT_END:
                detailed = False
                cost = self._splits.cost(counted, detailed=False)
            affordable = self._allowance.affords_at_edge(now, cost, _MOST_AT_END)
        elif kind == MIDDLE:
            # While much changes, one reading is held back: the memory will be of more interest when it has settled.
            affordable = self._allowance.affords(now, 2 * cost if self._changes_fast(counted) else cost)
        else:
            affordable = self._allowance.affords_at_edge(now, cost, _MOST_AT_EDGE)
        if not affordable:
            return False
        split, took = self._splits.read(self._tree.root, counted, detailed=detailed)
        self._split_before, self._split = self._split, split
        groups = (split.main, split.descendants, split.combined)
        self._most_read = list(map(max, sizes, self._most_read))
        self._most_exact = [max(most, group.total or 0) for most, group in zip(self._most_exact, groups, strict=True)]
        self._most_private = [
            max(most, group.private or 0) for most, group in zip(self._most_private, groups, strict=True)
        ]
        if kind == MIDDLE:
            self._allowance.spend(took)
        return True

    def _changes_fast(self, counted: Sequence[Process]) -> bool:
        """Tell whether, since this was asked last, so much has changed that it would be worth an exact reading."""
        before, self._faults = self._faults, sum([process.faults for process in counted])
        known = 0 if self._split is None else self._split.combined.total or 0
        return (self._faults - before) * PAGE_SIZE > max(_LEAST_GROWTH, _CHANGED_SHARE * known)

    def _split_groups(self) -> list[Resident]:
        """Return the figures of the exact reading that has just been made, to be changed freely."""
        split = self._split
        if split is None:
            return [Resident(None), Resident(None), Resident(None)]
        return [Resident(r.total, r.private, r.shared) for r in (split.main, split.descendants, split.combined)]

    def _estimate(self, group: int, members: Sequence[Process]) -> int | None:
        """Return a lower bound of what several processes have resident, from the last exact reading.

        Only growth of anonymous memory is added, since new pages of files may be others' pages as well. What was
        dropped is taken off, and so is all memory of members that have ended; those that came later are left out.
        """
        if self._split is None:
            return None
        then = self._split.counted
        total = (self._split.descendants if group == 1 else self._split.combined).total or 0
        for process in members:
            if process in then:
                seen = then[process]
                total += process.anonymous - seen.anonymous
                total -= max(0, seen.of_files - (process.resident - process.anonymous))
        ended = then.keys() - set(members)
        if group == 1:
            ended.discard(self._tree.root)
        total -= sum([then[process].resident for process in ended])
        return max([total, *[process.resident - self._doubled([process]) for process in members]])

    def _private_of_root(self) -> int | None:
        """Return a lower bound of what the root, being alone, has private, from the last exact reading.

        Anonymous memory that has come since is its own: nobody was forked who would have it too.
        """
        root, split = self._tree.root, self._split
        if split is None or split.combined.private is None or split.counted.keys() != {root}:
            return None
        seen = split.counted[root]
        dropped = max(0, seen.of_files - (root.resident - root.anonymous))
        return max(0, min(root.resident, split.combined.private + root.anonymous - seen.anonymous - dropped))

    def _raise_groups(
        self, groups: list[Resident], risen: Sequence[Process], counted: Sequence[Process], copies: set[Process]
    ) -> None:
        """Take note of processes that have peaked since the last sample, while the others were as they are now."""
        root = self._tree.root
        descendants = [process for process in counted if process is not root] if risen else []
        for process in risen:
            if process is root:
                _raise(groups[0], process, self._rise(process, [root], copies))
            else:
                _raise(groups[1], process, self._rise(process, descendants, copies))
            _raise(groups[2], process, self._rise(process, counted, copies))
        if self._launch_peak:
            for watched in (groups[0], groups[2]):
                watched.peak = max(watched.peak or 0, self._launch_peak)
            self._launch_peak = 0

    def _doubled(self, processes: Sequence[Process]) -> int:
        """Return how many bytes ``processes`` have mapped twice, as far as that was seen."""
        then = {} if self._split is None else self._split.counted
        return sum([then[process].doubled for process in processes if process in then])

    def _copied(self, process: Process) -> int:
        """Return the bytes that ``process`` has shared with its fork family, also if it has dropped them just now."""
        splits = [split.counted for split in (self._split_before, self._split) if split is not None]
        return max([counted[process].copied for counted in splits if process in counted], default=0)

    def _rise(self, process: Process, members: Sequence[Process], copies: set[Process]) -> int:
        """Return how many bytes of the last peak of ``process`` the ``members`` of a group do not have now, at least.

        That is what it has dropped since, and the anonymous memory that has come since its size was read; of other new
        pages it is not known whether others have them too. It may have dropped pages that others still hold and that
        count already: pages that came to it or to them by a fork, and pages of files and shared memory.

        :param copies: Those that were forked since the sample before.
        """
        peak = process.peak or 0
        others = [other for other in members if other is not process]
        if not others:
            return max(0, peak - process.resident)
        then = {} if self._split is None else self._split.counted
        copied = self._copied(process)
        if process in copies:
            parent = self._tree.members.get(process.parent)
            copied = min(peak, parent.peak or parent.resident) if parent else peak
        for other in others:
            if other.parent == process.pid and (other in copies or (other.forked and other not in then)):
                copied = max(copied, other.peak or other.resident)
        dropped = max(0, peak - max(process.resident, process.peak_reading.resident, copied))
        of_files = sum([other.resident - other.anonymous for other in others])
        dropped -= min(of_files, dropped, _dropped_of_files(process, dropped))
        return min(dropped + process.peak_reading.grown, max(0, peak - process.resident))


def _dropped_of_files(process: Process, dropped: int) -> int:
    """Return how many of the bytes that ``process`` has dropped since its peak probably belong to files.

    Those that it was seen with do. Of what has come and gone between two readings the page faults tell: a new anonymous
    page takes one (a huge one takes one for all of its 512), while those of a file that is in memory already, because
    others have it, come by 16 or more with one fault.
    """
    seen = min(dropped, process.peak_reading.dropped_files)
    unseen = min(dropped - seen, max(0, (process.peak or 0) - process.peak_reading.resident_before))
    if unseen <= process.peak_reading.new_faults * PAGE_SIZE:
        return seen
    return seen + min(unseen, process.peak_reading.new_faults * PAGE_SIZE * _PAGES_A_FAULT)


def _left_behind(split: Split) -> int:
    """Return how many bytes at most belong to one process alone since others have ended that shared them with it."""
    return sum([seen.copied for process, seen in split.counted.items() if process.ended])


def _exceeds(sizes: Sequence[int], known: Sequence[int], factor: float = _GROWTH) -> bool:
    return any(size > most * factor + _LEAST_GROWTH for size, most in zip(sizes, known, strict=True))


def _raise(group: Resident, process: Process, rise: int) -> None:
    """Take note that a group has had ``rise`` bytes more than now, which are of the last peak of ``process``."""
    reached = process.peak or 0 if group.total is None else group.total + rise
    group.peak = max(group.peak or 0, reached)


def _reconcile(groups: list[Resident], upper: tuple[int, int, int] | None, doubled: Sequence[int]) -> None:
    """Keep the peaks of one sample within what they cannot be above or below.

    A group has had no more than its members' own peaks together, and main and descendants together no less than either,
    but for what is ``doubled`` in these.
    """
    main, descendants, combined = groups
    if upper is not None:
        for group, bound in zip(groups, upper, strict=True):
            group.peak = None if group.peak is None else min(group.peak, bound)
    for group, twice in zip((main, descendants), doubled, strict=True):
        if group.peak is not None:
            combined.peak = max(combined.peak or 0, group.peak - twice)
