"""What groups of processes have had resident since their last exact reading: lower bounds, from what is cheap to read.

Between two exact readings every sample tells how much of its memory each process has, and the kernel's high-water marks
tell how much it has had. What of that others have too is not told: it is assumed wherever it may be.
"""

from __future__ import annotations

from gpu_tracker.process_tree.stat import PAGE_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.process_tree import ProcessTree
    from gpu_tracker.process_tree.process import Process
    from gpu_tracker.sources.exact import ExactReadings
    from gpu_tracker.sources.reading import Resident

_PAGES_A_FAULT = 64
"""Pages of a file that one page fault maps: 16 (fault_around_bytes), and more where the file lies in large folios."""


class Rises:
    """Compares a tree with its last exact readings."""

    def __init__(self, tree: ProcessTree, exact: ExactReadings) -> None:
        self._tree = tree
        self._exact = exact

    def estimate(self, group: int, members: Sequence[Process]) -> int | None:
        """Return a lower bound of what several processes have resident, from the last exact reading.

        Only growth of anonymous memory is added, since new pages of files may be others' pages as well. What was
        dropped is taken off, and so is all memory of members that have ended; those that came later are left out.
        """
        if self._exact.last is None:
            return max([process.anonymous for process in members], default=None)  # files may be mapped twice
        then = self._exact.last.counted
        total = (self._exact.last.descendants if group == 1 else self._exact.last.combined).total or 0
        for process in members:
            if process in then:
                seen = then[process]
                total += process.anonymous - seen.anonymous
                total -= max(0, seen.of_files - (process.resident - process.anonymous))
        ended = then.keys() - set(members)
        if group == 1:
            ended.discard(self._tree.root)
        total -= sum([then[process].resident for process in ended])
        return max([total, *[process.resident - self.doubled([process]) for process in members]])

    def private_of_root(self) -> int | None:
        """Return a lower bound of what the root, being alone, has private, from the last exact reading.

        Anonymous memory that has come since is its own: nobody was forked who would have it too.
        """
        root, split = self._tree.root, self._exact.last
        if split is None or split.combined.private is None or split.counted.keys() != {root}:
            return None
        seen = split.counted[root]
        dropped = max(0, seen.of_files - (root.resident - root.anonymous))
        return max(0, min(root.resident, split.combined.private + root.anonymous - seen.anonymous - dropped))

    def raise_groups(
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

    def doubled(self, processes: Sequence[Process]) -> int:
        """Return how many bytes ``processes`` have mapped twice, as far as that was seen."""
        then = {} if self._exact.last is None else self._exact.last.counted
        return sum([then[process].doubled for process in processes if process in then])

    def _copied(self, process: Process) -> int:
        """Return the bytes that ``process`` has shared with its fork family, also if it has dropped them just now."""
        splits = [split.counted for split in (self._exact.before, self._exact.last) if split is not None]
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
        then = {} if self._exact.last is None else self._exact.last.counted
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


def _raise(group: Resident, process: Process, rise: int) -> None:
    """Take note that a group has had ``rise`` bytes more than now, which are of the last peak of ``process``."""
    reached = process.peak or 0 if group.total is None else group.total + rise
    group.peak = max(group.peak or 0, reached)


def reconcile(groups: list[Resident], marks: Sequence[int | None], doubled: Sequence[int]) -> None:
    """Keep the peaks of one sample within what they cannot be above or below.

    A group has had no more than its members' own peaks together, and main and descendants together no less than either,
    but for what is ``doubled`` in these.
    """
    main, descendants, combined = groups
    for group, bound in zip(groups, marks, strict=True):
        if group.peak is not None and bound is not None:
            group.peak = min(group.peak, bound)
    for group, twice in zip((main, descendants), doubled, strict=True):
        if group.peak is not None:
            combined.peak = max(combined.peak or 0, group.peak - twice)
