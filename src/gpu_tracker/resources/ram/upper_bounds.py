"""What a group of processes can have had resident at most.

A process has had no more than its high-water mark when that was read, and what its page faults can have brought since.
A group has had no more than its members together; and no more than the last exact reading has found, and what its
members' page faults can have brought since. The smaller of both bounds counts. The page faults of processes that end,
or come and go, between two samples turn up with whoever has waited for them.

A page fault brings 64 KiB at most, or a transparent huge page of 2 MiB. How many of these the whole machine has mapped
the kernel counts; for all that is known they were those of any process that had page faults meanwhile.
"""

from __future__ import annotations

from gpu_tracker.processes.stat import PAGE_SIZE
from gpu_tracker.resources.ram.unseen_orphans import UnseenOrphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.ram.exact import ExactReadings
    from gpu_tracker.resources.ram.split import Seen, Split

    Bounds = tuple[int | None, int | None, int | None]
    """Bytes of root, descendants and both; None where unknown."""

_SMALL = 16 * PAGE_SIZE
"""Bytes that one page fault brings at most: it maps pages of a file by 16 (fault_around_bytes)."""
_LARGE = 512 * PAGE_SIZE
"""Bytes of a transparent huge page, which one page fault brings as well."""


class _Member:
    """What is known of one process, in bytes."""

    __slots__ = (
        'brought',
        'faults',
        'faults_at_mark',
        'huge_pages',
        'is_settled',
        'most',
        'programs',
        'since_mark',
    )

    def __init__(self, huge_pages: int) -> None:
        self.faults = 0
        self.programs = 0
        self.huge_pages = huge_pages
        """Those that the machine had mapped before the last reading."""
        self.faults_at_mark = -1
        """Page faults when its mark was read."""
        self.since_mark = 0
        """What page faults can have brought since then, or since its start."""
        self.is_settled = False
        """``most`` is the mark of the present program: without a page fault it stays so."""
        self.most = 0
        """What it can have had since the last reading."""
        self.brought = 0
        """What of that was not there at the last exact reading, or was its parent's before it was forked."""


class UpperBounds:
    """Adds up what the members of a tree can have had, at each sample.

    :param huge_pages: Tells how many transparent huge pages the machine has mapped so far; None where that is hidden.
    """

    def __init__(self, tree: ProcessTree, exact: ExactReadings, huge_pages: Callable[[], int | None]) -> None:
        self._tree = tree
        self._exact = exact
        self._read_huge_pages = huge_pages
        self._huge_pages = self._huge_pages_before = self._huge_pages_at_births = huge_pages() or 0
        """Those that the machine has mapped, as read last, as read before the marks and page faults of now, and as read
        before those processes have started that are new."""
        self._are_huge_pages_read = True
        self._huge_pages_are_hidden = False
        self._huge_pages_at_start = self._huge_pages
        self._members: dict[Process, _Member] = {}
        self._gone, self._gone_most, self._gone_brought = 0, 0, 0
        """Of the descendants that have ended since bounds were added up last, and were there at some moment since: how
        many they are, and the sums of what they had and brought."""
        self._gone_main: _Member | None = None
        """The root, where that has."""
        self._reaped: dict[Process, int] = {}
        """Page faults of the children that each process has waited for, less those that were known before."""
        self._unseen = 0
        """Bytes that children can have brought which were not seen then, since bounds were added up last."""
        self._unseen_copies = False
        """One that was never seen may have been a copy of its parent, with all that this had."""
        self._split: Split | None = None
        self._huge_pages_at_split = 0
        self._begins_anew = False
        """Pages have just been counted, so that what was brought counts from there."""
        self._waited_for: set[Process] = set()
        """Those who have waited for a member, perhaps, since everything was read."""
        self._most: list[int] = [0, 0, 0]
        self._main_is_known = self._others_are_known = True
        self._is_first = True
        self.orphans = UnseenOrphans(tree)
        self.most_at_once: int | None = 0
        """How many descendants there can have been at once; None where there were some that were never seen."""

    @property
    def all_are_waited_for(self) -> bool:
        """Whether every descendant has ended, and was waited for by a member of the tree, as far as was seen."""
        root = self._tree.root
        return self._others_are_known and all(process is root for process in self._tree.members.values())

    def marks(self, counted: Sequence[Process]) -> Bounds:
        """Return the marks of root, descendants and both, added up; None where there is none or one was not read yet.

        :param counted: The processes whose memory counts.
        """
        root = self._tree.root
        main = root.peak if root in counted else None
        marks = [process.peak for process in counted]
        known = [mark for mark in marks if mark is not None]
        if not counted or len(known) < len(marks):
            return main, None, None
        return main, sum(known) - (main or 0), sum(known)

    def is_stale(self, counted: Sequence[Process]) -> bool:
        """Return whether processes have come or gone since bounds were added up."""
        return len(counted) != len(self._members) or any(process not in self._members for process in counted)

    def read(self, counted: Sequence[Process], *, is_whole: bool) -> Bounds:
        """Return the bounds of root, descendants and both until now.

        :param counted: The processes whose memory counts, after their marks have been read as far as that is done.
        :param is_whole: Everything else of them has been read as well.
        """
        self._huge_pages_at_births, self._huge_pages_before = self._huge_pages_before, self._huge_pages
        self._are_huge_pages_read = False
        self._waited_for |= self._settle_gone()
        if is_whole:
            self._settle_reaped()
        split = self._exact.last
        if split is not self._split:
            if not self._is_first:  # what was there until the pages were counted is beside the count before
                self._begin_anew(self._update_and_add_up(counted))
            self._split = split
            self._huge_pages_at_split = self._huge_pages_before
            self._begins_anew = True
        most = self._update_and_add_up(counted)
        self._begins_anew = self._is_first = False
        main_is_there = self._tree.root in self._members
        of_main = self._most[0] if self._main_is_known and (main_is_there or self._most[0]) else None
        if not self._others_are_known:
            return of_main, None, None
        return of_main, most[1], None if of_main is None else most[2]

    def _update_and_add_up(self, counted: Sequence[Process]) -> list[int]:
        for process in counted:
            self._update(process)
        main = self._members.get(self._tree.root)
        if main is not None:
            self._most[0] = max(self._most[0], main.most)
        most = self._add_up(counted)
        if all(process.peak is not None for process in counted):
            self._begin_anew(most)
        return most

    def _add_up(self, counted: Sequence[Process]) -> list[int]:
        """Return the most that the groups can have had until now."""
        root = self._tree.root
        members = self._members
        others = [members[process] for process in counted if process is not root]
        main = members[root] if root in counted else self._gone_main
        of_main = main.most if main else 0
        bounds = [sum([m.most for m in others]) + self._gone_most]
        bounds.append(bounds[0] + of_main)
        if self._split is not None and self._split.combined.private is not None:
            then = self._split.counted
            brought = sum([m.brought for m in others]) + self._gone_brought
            inherited = [
                process.first_anonymous + max(0, process.resident - process.anonymous)
                for process in counted
                if process.forked and process not in then and process.parent == root.pid
            ]
            base = self._split.descendants if self._split.is_still else self._split.combined
            of_split = (base.total or 0) + brought + max(inherited, default=0)
            bounds[0] = min(bounds[0], of_split)
            of_split = (self._split.combined.total or 0) + brought + (main.brought if main else 0)
            bounds[1] = min(bounds[1], of_split)
        if self._unseen_copies:
            bounds[0] += of_main
            self.most_at_once = None
        if self.most_at_once is not None:
            self.most_at_once = max(self.most_at_once, len(others) + self._gone)
        of_groups = [max(most, bound + self._unseen) for most, bound in zip(self._most[1:], bounds, strict=True)]
        return [self._most[0], *of_groups]

    def _begin_anew(self, most: list[int]) -> None:
        """Keep what can have been there until now; where marks are still to be read, that waits: they may tell less.

        The last page faults of those who have ended are known at the next whole reading; until then they count on.
        """
        self._most = most
        if self._waited_for:
            return
        self._gone = self._gone_most = self._gone_brought = 0
        self._gone_main = None
        self._unseen = 0
        self._unseen_copies = False

    def _update(self, process: Process) -> None:
        """Find out what ``process`` can have had since the last reading."""
        member = self._members.get(process)
        is_new = member is None
        if member is None:
            member = self._members[process] = _Member(self._huge_pages_at_births)
            member.faults = process.faults
            member.programs = process.programs
            self._reaped.setdefault(process, process.reaped_faults if self._is_first else 0)
        elif (
            member.is_settled
            and not self._begins_anew
            and (member.faults, member.programs) == (process.faults, process.programs)
        ):
            member.huge_pages = self._huge_pages_before
            return
        brought = self._brings(process.faults - member.faults, member.huge_pages)
        if process.peak_reading.faults != member.faults_at_mark:
            member.faults_at_mark = process.peak_reading.faults
            member.since_mark = self._brings(process.faults - member.faults_at_mark, member.huge_pages)
        elif is_new:
            member.since_mark = self._brings(process.faults, member.huge_pages)
        else:
            member.since_mark += brought
        if process.peak is None:
            most = self._inherited(process) + member.since_mark
        elif process.programs == member.programs:
            most = _peak(process) + member.since_mark
        else:  # exec has begun the mark anew: what the program before has had after its last reading is not in it
            most = max(member.most + brought, _peak(process) + member.since_mark)
        member.most = most
        member.is_settled = member.since_mark == 0 and process.programs == member.programs
        seen = self._split.counted.get(process) if self._split is not None else None
        if process.ended or process.left:  # of what it had in the end nothing is known but the page faults
            member.brought = min(most, member.brought + brought)
        elif is_new and seen is None and not process.forked:
            member.brought = most
        else:
            member.brought = min(most, self._brought(process, seen))
        member.huge_pages = self._huge_pages_before
        member.faults = process.faults
        member.programs = process.programs

    def _brought(self, process: Process, seen: Seen | None) -> int:
        """Return the bytes of ``process`` that were nobody's at the last exact reading, at most.

        Each new page takes a page fault, but for pages of files and huge ones; how many of these came shows in the
        sizes, or is counted.
        """
        of_files = process.resident - process.anonymous
        if seen is None:
            faults, before = process.faults, process.first_anonymous
        else:
            faults, before = process.faults - seen.faults_before, seen.resident
        huge = self._huge_bytes(faults, self._huge_pages_at_split)
        brought = faults * PAGE_SIZE + min(of_files, faults * (_SMALL - PAGE_SIZE)) + huge
        return max(brought, (process.peak or 0) - before)

    def _brings(self, faults: int, huge_pages_before: int) -> int:
        """Return the bytes that so many page faults can have brought since the machine had so many huge pages."""
        return faults * _SMALL + self._huge_bytes(faults, huge_pages_before) if faults > 0 else 0

    def _huge_bytes(self, faults: int, huge_pages_before: int) -> int:
        """Return the bytes in huge pages of one who had so many page faults since then, at most."""
        if not self._are_huge_pages_read and faults:
            self._are_huge_pages_read = True
            self._huge_pages_are_hidden = (now := self._read_huge_pages()) is None
            self._huge_pages = now or 0
        if self._huge_pages_are_hidden:
            return faults * _LARGE
        return min(faults, self._huge_pages - huge_pages_before) * _LARGE

    def _inherited(self, process: Process) -> int:
        """Return what one whose mark was not read yet can have had from the start: it may have dropped that already."""
        if not process.forked or process.relative is None:
            return process.first_anonymous
        relative = self._members.get(process.relative)
        return max(process.first_anonymous, process.relative.resident if relative is None else relative.most)

    def _settle_gone(self) -> set[Process]:
        """Take leave of those that have ended; return those who may have waited for them."""
        waited_for: set[Process] = set()
        members = self._tree.members
        gone = {
            process.pid: process
            for process in self._members
            if members.get(process.pid) is not process or process.ended or process.left
        }
        for process in gone.values():
            self._update(process)  # of a zombie all page faults are known, of others those until it was read last
            member = self._members.pop(process)
            if process is self._tree.root:
                self._gone_main = member
                self._most[0] = max(self._most[0], member.most)
                if not process.is_zombie:
                    self._main_is_known = self._others_are_known = False
                continue
            self.orphans.note_end()
            self._gone += 1
            self._gone_most += member.most
            self._gone_brought += member.brought
            self._expect(process, gone, waited_for)
        return waited_for

    def _expect(self, process: Process, gone: Mapping[int, Process], waited_for: set[Process]) -> None:
        """Expect the page faults of ``process``, as last seen, in the sum of whoever has waited for it."""
        number = process.parent
        while number in gone and gone[number] is not process and not gone[number].is_zombie:
            number = gone[number].parent
        parent = self._tree.members.get(number)
        if parent is None or parent.left:
            self._others_are_known = self._others_are_known and process.is_zombie
            return
        self._reaped[parent] = self._reaped.get(parent, 0) + process.faults + process.reaped_faults
        waited_for.add(parent)

    def _settle_reaped(self) -> None:
        """Find out what was brought by others than those that were seen, from the sums of who waited for them."""
        for process in self._tree.members.values():
            known = self._reaped.get(process)
            if known is None:
                known = self._reaped[process] = process.reaped_faults if self._is_first else 0
            if process.reaped_faults < known and self._tree.ignores_children(process):
                self._others_are_known = False  # the kernel adds nothing to the sums of such a process
                self._reaped[process] = process.reaped_faults
            elif process.reaped_faults > known:
                self._unseen += self._brings(process.reaped_faults - known, self._huge_pages_at_start)
                self._unseen_copies |= process not in self._waited_for
                self._reaped[process] = process.reaped_faults
                self.orphans.note_waited_for()
        self.orphans.settle()
        self._waited_for = set()
        if len(self._reaped) > 2 * len(self._tree.members) + 8:
            alive = set(self._tree.members.values())
            self._reaped = {process: known for process, known in self._reaped.items() if process in alive}


def _peak(process: Process) -> int:
    """Return what ``process`` had at most when its mark was read; huge pages may have been there beside that."""
    return max(process.peak or 0, process.peak_reading.mark + process.huge)
