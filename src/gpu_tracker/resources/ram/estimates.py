"""What groups of processes have resident since their last exact reading, from what is cheap to read.

Between two exact readings every sample tells how much of its memory each process has, and the kernel's high-water marks
tell how much it has had. How much of that others have too is not known. So what a process has alone is followed by the
growth of its anonymous memory, and of all else no more counts than the last exact reading, or any one process, has
shown.
"""

from __future__ import annotations

from gpu_tracker.processes.stat import PAGE_SIZE
from gpu_tracker.resources.ram.reading import Resident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.ram.exact import ExactReadings
    from gpu_tracker.resources.ram.split import Seen

DESCENDANTS = 1
"""The number of the group that the root does not belong to."""
_PAGES_A_FAULT = 64
"""Pages of a file that one page fault maps: 16 (fault_around_bytes), and more where the file lies in large folios."""
_OF_LIBRARIES = 32 << 20
"""Bytes of files that many a program maps once, and hardly one maps twice."""
_WORTH_COUNTING = 0.05
"""Copies count from this part of a process' size on: some page faults have other reasons."""


class Estimates:
    """Compares a tree with its last exact readings."""

    def __init__(self, tree: ProcessTree, exact: ExactReadings) -> None:
        self._tree = tree
        self._exact = exact

    def of_group(self, group: int, members: Sequence[Process]) -> Resident:
        """Return what ``members``, all of a group whose memory counts, have resident now.

        Of its anonymous memory each has alone what it had alone at the exact reading and what has come since, copies of
        inherited pages included. A process that has come since has all of it alone, or, where it was forked, what it
        has beyond what it has inherited. Of all else, which others may have as well, there is what the exact reading
        has found, less what has been dropped, at least what any one process has, and at most what all have.
        """
        if not members:
            return Resident(0, 0, 0)
        then = {} if self._exact.last is None else self._exact.last.counted
        alone = unproven = largest = together = all_resident = copied = dropped = unseen_files = 0
        for process in members:
            seen = then.get(process)
            resident = process.resident - (seen.doubled if seen else 0)
            all_resident += resident
            own, copies, inherited = _alone(process, seen, resident)
            unproven += inherited
            copied += copies
            alone += own + copies
            dropped += max(0, seen.of_files - process.resident + process.anonymous) if seen else 0
            rest = resident - own - copies
            together += rest
            unseen_files = max(unseen_files, _unseen_files(process, seen))
            if seen is not None or not process.forked or not self._has_relative_in(process, group):
                largest = max(largest, rest)
        split, alone_then = self._of_split(group, members)
        if split is None:
            common, of_files = largest, 0
        else:
            of_files = max(0, (split.private or 0) - alone_then)
            found = (split.total or 0) - alone_then - dropped - self._left_to_root(group, copied)
            common = max(largest, min(found, together))
        total = min(alone + common, all_resident)
        if any(process.unreadable for process in members):  # of these only the sizes are known
            estimate = Resident(max(total, min((split.total if split else 0) or 0, all_resident)))
        else:
            private = min(total, max(0, alone - _lent(members, then)) + min(of_files, common))
            estimate = Resident(total, private, total - private)
        estimate.lower = max(0, total - unproven - copied - unseen_files - handed_over(members))
        return estimate

    def _of_split(self, group: int, members: Sequence[Process]) -> tuple[Resident | None, int]:
        """Return what the last exact reading has found of a group, and what of that each process had alone, added up.

        None where it has read none of the members.
        """
        split = self._exact.last
        if split is None or not any(process in split.counted for process in members):
            return None, 0
        of_root = sum([seen.alone for process, seen in split.counted.items() if process is self._tree.root])
        of_all = sum([seen.alone for seen in split.counted.values()])
        alone = (of_root, of_all - of_root, of_all)
        return (split.main, split.descendants, split.combined)[group], alone[group]

    def _left_to_root(self, group: int, copied: int) -> int:
        """Return the bytes that were shared and are the root's alone, since descendants have made copies of them."""
        split = self._exact.last
        if group != DESCENDANTS or split is None or self._tree.root not in split.counted:
            return 0
        return min(copied, split.counted[self._tree.root].copied)

    def _has_relative_in(self, process: Process, group: int) -> bool:
        """Return whether one that has what ``process`` has inherited is in the group as well."""
        relative = process.relative
        while relative is not None and (relative.ended or relative.left):
            relative = relative.relative
        return relative is not None and not (group == DESCENDANTS and relative is self._tree.root)

    def raise_groups(
        self, groups: list[Resident], risen: Sequence[Process], counted: Sequence[Process], copies: set[Process]
    ) -> None:
        """Take note of processes that have peaked since the last sample.

        What the others had at that moment is not known; they count with what they have now, less what has come since
        they had least, from the sample on the grid before on. So this is an estimate; what is certain is that the group
        had the peak of the process itself.

        :param copies: Those that were forked since the sample before.
        """
        if not risen:
            return
        root = self._tree.root
        then = {} if self._exact.last is None else self._exact.last.counted
        new = {process for process in counted if process in copies or (process.forked and process not in then)}
        of_main = _Members([root], new)
        of_descendants = _Members([process for process in counted if process is not root], new)
        of_all = _Members(counted, new)
        for process in risen:
            if process is root:
                self._raise(groups[0], process, of_main, copies)
            else:
                self._raise(groups[1], process, of_descendants, copies)
            self._raise(groups[2], process, of_all, copies)

    def alone(self, process: Process) -> int:
        """Return the anonymous bytes that ``process`` has alone, without copies since the last exact reading."""
        seen = None if self._exact.last is None else self._exact.last.counted.get(process)
        return _alone(process, seen, process.resident)[0]

    def doubled(self, processes: Sequence[Process]) -> int:
        """Return how many bytes ``processes`` have mapped twice, as far as that was seen."""
        then = {} if self._exact.last is None else self._exact.last.counted
        return sum([then[process].doubled for process in processes if process in then])

    def _raise(self, group: Resident, process: Process, members: _Members, copies: set[Process]) -> None:
        mark = (process.peak or 0) - self.doubled([process])
        reached = mark
        if group.total is not None:
            rise = self._rise(process, members, copies)
            reached = max(mark, group.total + rise - (members.come - _come(process)))
        group.peak = max(group.peak or 0, reached)
        split = self._exact.last
        seen = None if split is None else split.counted.get(process)
        group.lower = max(group.lower or 0, mark - _unseen_files(process, seen))

    def _copied(self, process: Process) -> int:
        """Return the bytes that ``process`` has shared with its fork family, also if it has dropped them just now."""
        splits = [split.counted for split in (self._exact.before, self._exact.last) if split is not None]
        return max([counted[process].copied for counted in splits if process in counted], default=0)

    def _rise(self, process: Process, members: _Members, copies: set[Process]) -> int:
        """Return how many bytes of the last peak of ``process`` the ``members`` of a group do not have now, at least.

        That is what it has dropped since, and the anonymous memory that has come since its size was read; of other new
        pages it is not known whether others have them too. It may have dropped pages that others still hold and that
        count already: pages that came to it or to them by a fork, and pages of files and shared memory.
        """
        peak = process.peak or 0
        if members.count == 1:
            return max(0, peak - process.resident)
        if not process.peak_reading.is_new_peak:  # what it has had before may have been there with less of the others
            return min(process.peak_reading.higher, max(0, peak - process.resident))
        copied = self._copied(process)
        if process in copies:
            parent = self._tree.members.get(process.parent)
            copied = min(peak, parent.peak or parent.resident) if parent else peak
        copied = max(copied, _inherited_at_peak(process), members.copies_of.get(process.pid, 0))
        dropped = max(0, peak - max(process.resident, process.peak_reading.resident, copied))
        of_files = members.of_files - (process.resident - process.anonymous)
        dropped -= min(of_files, dropped, _dropped_of_files(process, dropped))
        seen = None if self._exact.last is None else self._exact.last.counted.get(process)
        grown = max(0, process.peak_reading.grown - (seen.leaving if seen else 0))
        return min(dropped + grown, max(0, peak - process.resident))


class _Members:
    """The members of a group, added up once for all that have peaked."""

    def __init__(self, members: Sequence[Process], new: set[Process]) -> None:
        self.count = len(members)
        self.come = sum([_come(process) for process in members])
        self.of_files = sum([process.resident - process.anonymous for process in members])
        self.copies_of: dict[int, int] = {}
        """The size of the largest copy of each process that is newer than the last exact reading."""
        for process in members:
            if process in new:
                size = process.peak or process.resident
                self.copies_of[process.parent] = max(size, self.copies_of.get(process.parent, 0))


def _inherited_at_peak(process: Process) -> int:
    """Return the bytes of the last peak of ``process`` that it has inherited, since no page fault brought them.

    It may have dropped them already when it was first seen.
    """
    relative = process.relative
    if relative is None:
        return 0
    brought_by_none = max(0, (process.peak or 0) - process.faults * PAGE_SIZE)
    return min(brought_by_none, process.peak_reading.inherited, relative.peak or relative.resident)


def _come(process: Process) -> int:
    """Return the anonymous bytes that have come to ``process`` since it had least, from the sample on the grid on."""
    return max(0, process.anonymous - process.anonymous_least)


def _alone(process: Process, seen: Seen | None, resident: int) -> tuple[int, int, int]:
    """Return the anonymous bytes that ``process`` has alone, its copies of pages that it shared, and what is doubtful.

    The last are bytes among the first that it may have inherited, since it had them when it was first seen.
    """
    anonymous = process.anonymous - process.huge  # whether others have the huge ones too, only an exact reading knows
    if seen is not None:
        own = min(resident, max(0, seen.alone + anonymous - seen.anonymous - _leaving(process, seen)))
        return own, min(resident - own, _copies(process, seen)), 0
    if process.forked:
        own = max(0, anonymous - process.inherited)
        come = own + process.resident - process.anonymous
        copies = min(process.inherited, max(0, process.faults * PAGE_SIZE - come))
        copies = 0 if process.has_given_back else copies
        return own, copies, max(0, min(anonymous, process.first_anonymous) - process.inherited)
    return 0 if process.has_copies else anonymous, 0, 0


def _leaving(process: Process, seen: Seen) -> int:
    """Return the bytes of ``process`` that were leaving at an exact reading and seem to have come since."""
    come = process.anonymous - process.huge - seen.anonymous - max(0, process.faults - seen.faults) * PAGE_SIZE
    return min(seen.leaving, max(0, come))


def _lent(members: Sequence[Process], then: Mapping[Process, Seen]) -> int:
    """Return the bytes that members had alone at the last exact reading and that copies of them have as well now."""
    lent: dict[Process, int] = {}
    for process in members:
        relative = process.relative
        if process not in then and relative in then and relative is not None:
            lent[relative] = max(lent.get(relative, 0), min(process.inherited, then[relative].alone))
    return sum(lent.values())


def handed_over(members: Sequence[Process]) -> int:
    """Return the bytes that may count with two members, since one has given them back and another has got them.

    Processes are read one after the other, and on a busy machine some time may pass in between.
    """
    come = sum([max(0, process.anonymous - process.anonymous_before) for process in members])
    gone = sum([max(0, process.anonymous_before - process.anonymous) for process in members])
    return min(come, gone)


def _copies(process: Process, seen: Seen) -> int:
    """Return the bytes of inherited pages of which ``process`` has made copies of its own since an exact reading.

    Each copy takes a page fault, and so does each page that has come; where there were more faults than these, the rest
    were copies, unless the process allocates and frees all the time.
    """
    if not seen.copied or process.has_given_back:
        return 0
    come = max(0, process.anonymous - process.huge - seen.anonymous)
    come += max(0, process.resident - process.anonymous - seen.of_files)
    copies = min(seen.copied, max(0, (process.faults - seen.faults) * PAGE_SIZE - come))
    return copies if copies > _WORTH_COUNTING * process.resident else 0


def _unseen_files(process: Process, seen: Seen | None) -> int:
    """Return the bytes of files that ``process`` may have mapped twice, or others too; 0 where these are libraries."""
    of_files = max(process.resident - process.anonymous, process.peak_reading.of_files)
    if seen is not None:
        mapped_since = min(of_files, (process.faults - seen.faults) * PAGE_SIZE * _PAGES_A_FAULT)
        of_files = max(of_files - seen.of_files, mapped_since)
    return of_files if of_files > _OF_LIBRARIES else 0


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
