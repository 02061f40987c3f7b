"""What groups of processes may have had beside what was read: the ceilings of RAM. Linux only.

A ceiling is the last exact reading and what the processes can have got since. That is growth of their sizes and
high-water marks, and copies of pages, which take page faults. When pages are read again, what there was between both
readings is also no more than this reading and what the processes can have given back since the last: the lower of both
bounds counts. A ceiling never enters a figure. It decides when pages are read, and whether a figure is marked as a
lower bound in the end.
"""

from __future__ import annotations

from gpu_tracker.processes.stat import PAGE_SIZE, most_bytes_of
from gpu_tracker.resources.ram.exact import Seen
from gpu_tracker.resources.ram.marks import LARGEST_PAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.ram.exact import ExactReading
    from gpu_tracker.resources.ram.marks import Marks

_MAIN, _DESCENDANTS, _COMBINED = range(3)
_MOST_AROUND = 16
"""Pages of a file that one page fault can bring, those around it included."""


class Ceilings:
    """The most bytes that main, descendants and all of them may have had.

    :param tree: Refreshed before each reading.
    :param huge_pages: Returns how many transparent huge pages the machine has given to programs so far.
    :param is_reaped: The kernel will report the root's peak, as it is a command that is waited for.
    """

    def __init__(self, tree: ProcessTree, marks: Marks, huge_pages: Callable[[], int], *, is_reaped: bool) -> None:
        self._tree = tree
        self._marks = marks
        self._is_reaped = is_reaped
        self._read_huge_pages = huge_pages
        self._huge_pages = self._huge_pages_before = self._huge_pages_at_last = huge_pages()
        self._huge_pages_at_start = self._huge_pages
        self._most = [0, 0, 0]
        """Those up to the last exact reading."""
        self._since = [0, 0, 0]
        """Those since then."""
        self._before: Mapping[Process, Seen] = {}
        """What each process had at the last exact reading, or at the first sample."""
        self._given_back = [0, 0, 0]
        """The most bytes of processes that have ended since then."""
        self.most_of_main = 0
        """The most bytes that main can have had, whatever kind of pages it has got."""
        self._image_of_root: int | None = None
        """How many programs the root has been when its memory was read last."""
        self.last: ExactReading | None = None
        self._grown: dict[Process, int] = {}
        """The most by which each process may have grown since then, if it has not ended before the previous sample."""
        self._inherited: dict[Process, int] = {}
        """The most of each copy of the root that has not been read: its pages are new to the descendants."""
        self._copied_since: set[Process] = set()
        """Processes that others have become copies of since then: what they write to may be copied."""
        self._reaped_faults: int | None = None
        self._ended: set[Process] | None = None
        """The members that had ended at the previous sample."""
        self.faults_of_orphans = 0
        """Page faults of ended members without a parent in the tree, and of their children, when last read."""
        self._noted: dict[Process, tuple[int, int, int]] = {}
        """Page faults, those at the last mark and resident bytes of running processes that are in the ceilings."""
        self._noted_faults: dict[Process, int] = {}
        """Page faults of processes that are in the ceilings. A process that exits when it is first seen is not."""

    @property
    def new_huge_pages(self) -> int:
        """The transparent huge pages that the machine has given to programs since the start."""
        return self._huge_pages - self._huge_pages_at_start

    @property
    def most(self) -> list[int]:
        """The most bytes that main, descendants and all of them may have had."""
        return list(map(max, self._most, self._since))

    def begin_anew(self, reading: ExactReading) -> None:
        """Count from an exact reading on."""
        if not reading.reasons:  # else there may be more than was read
            for process in [process for process in self._tree.members.values() if not process.ended]:
                self._note_given_back(process, self._lost(process))
            for group in (_DESCENDANTS, _COMBINED):
                most = (reading.groups[group][0] or 0) + self._given_back[group]
                self._since[group] = min(self._since[group], most)
        of_descendants = (reading.groups[_DESCENDANTS][0] or 0) + reading.beside
        self._since[_DESCENDANTS] = max(self._since[_DESCENDANTS], of_descendants)
        self._most, self._since, self._given_back = self.most, [0, 0, 0], [0, 0, 0]
        self._before = reading.seen
        self.last = reading
        self._grown, self._inherited = {}, {}
        self._copied_since = set()
        self._huge_pages_at_last = self._huge_pages

    def seen(self, process: Process) -> Seen | None:
        """Return what ``process`` had at the last exact reading; None if it was not there, or another program."""
        seen = None if self.last is None else self.last.seen.get(process)
        return None if seen is None or seen.programs != process.programs else seen

    def note_root(self, root: Process, *, counts: bool) -> None:
        """Take note of what the root can have had since its mark was read, if it has ended or called exec since.

        No mark has been read in this sample: it may have huge pages that come after those of the machine were counted.

        :param counts: It runs a program.
        """
        self._huge_pages_before, self._huge_pages = self._huge_pages, self._read_huge_pages()
        is_other = self._image_of_root not in (None, root.programs)
        if is_other or root.ended:
            unread = self._marks.unread_faults(root)
            self.most_of_main = max(self.most_of_main, root.mark_resident + unread * LARGEST_PAGE)
            if is_other:
                self._since[_MAIN] = max(self._since[_MAIN], self._most_since_mark(root))
        if counts:
            self._image_of_root = root.programs

    def note(self, counted: Sequence[Process]) -> None:
        """Raise the ceilings by what processes may have got since the previous sample; their marks have been read.

        :param counted: The processes that have memory.
        """
        unseen = self._brought_by(self._unseen_faults())
        self._note_copies(counted)
        marks, root = self._marks, self._tree.root
        for group in (_DESCENDANTS, _COMBINED):
            self._given_back[group] += unseen
        self._note_running(counted)
        of_main = self._most_of(root) if root in counted else 0
        ended = {process for process in self._tree.members.values() if process.ended or _is_exiting(process)}
        if self._ended is None:  # they have ended before the run
            self._ended = ended
            self._noted_faults = {process: process.faults for process in ended}
            self._before = {process: Seen(process, process.resident, process.files) for process in counted}
        for process in set(self._tree.gone) - self._ended:  # with its last page faults, which its parent has got
            self._note_given_back(process, max(self._most_of(process), process.resident_before))
        for process in ended - self._ended:
            more = self._brought_by(marks.unread_faults(process))  # all its page faults are known
            size = max(self._most_of(process), process.resident_before)
            if process is root:
                of_main = size = max(size, self._most_since_mark(root))
            self._note_grown(process, size, more)
            self._note_given_back(process, size + more)
            self._noted_faults[process] = process.faults
        self._ended = ended
        self.most_of_main = max(self.most_of_main, of_main)
        of_root, of_all = self._grown.get(root, 0), sum(self._grown.values()) + unseen
        self._since = list(map(max, self._since, self._beside_last(of_main, of_root, of_all)))
        for sizes in (self._grown, self._inherited, self._noted):
            for process in [process for process in sizes if process.ended]:
                del sizes[process]  # what starts later is not there beside it

    def _note_running(self, counted: Sequence[Process]) -> None:
        """Take note of what running processes may have got, if they have changed."""
        for process in counted:
            state = process.faults, process.mark_faults, process.resident
            if self._noted.get(process) == state:
                continue  # it is in the ceilings
            self._noted[process] = state
            seen, size = self.seen(process), self._most_of(process)
            if seen is not None and process.mark == seen.mark:  # its peak is from before
                brought = self._brought_by(process.faults - seen.faults, self._huge_pages_at_last)
                size = min(size, max(seen.resident, process.resident) + brought)
            self._note_grown(process, size, self._brought_by(self._marks.unread_faults(process)))
            self._noted_faults[process] = process.faults

    def expected(self, counted: Sequence[Process]) -> list[int]:
        """Return the most that main, descendants and all of them can have now."""
        root = self._tree.root
        growth = {process: self.growth(process, process.resident) for process in counted}
        of_main = root.resident if root in counted else 0
        found = self._beside_last(of_main, growth.get(root, 0), sum(growth.values()))
        return [of_main, *[found[group] - self.freed_by_gone(group) for group in (_DESCENDANTS, _COMBINED)]]

    def _beside_last(self, of_main: int, grown_root: int, grown: int) -> list[int]:
        """Return what main has, and what descendants and all of them have with their growth since the last reading."""
        of_descendants, of_all, of_root = grown - grown_root, grown, grown_root
        if self.last is not None:
            of_all += self.last.groups[_COMBINED][0] or 0
            of_descendants += self.last.groups[_DESCENDANTS][0] or 0
            of_root += self.last.groups[_MAIN][0] or 0
        return [of_main, of_descendants + min(of_root, sum(self._inherited.values())), of_all]

    def growth(self, process: Process, size: int, more: int = 0) -> int:
        """Return how many bytes of a process that has ``size``, and may have ``more``, the last exact reading has not.

        A page that it has copied changes no size, but takes a page fault, as a new one does. Only huge pages, and those
        of files, come several at a time.
        """
        seen = self.seen(process)
        if seen is not None:
            files = process.files - seen.files  # private memory may have replaced shared files of the same size
            grown = max(0, size - seen.resident, files, process.resident - seen.resident - files)
            brought = self._brought_by(process.faults - seen.faults, self._huge_pages_at_last)
            copied = seen.resident if process in self._copied_since else seen.copied
            return max(grown, min(brought, grown + copied + more))
        if not process.forked or process.relative is None:
            return size + more
        brought = self._brought_by(process.faults, self._huge_pages_at_last)
        return max(min(size + more, brought), size - process.relative.resident)

    def freed_by_gone(self, group: int) -> int:
        """Return the bytes that the last exact reading has of processes which have ended or called exec since."""
        if self.last is None:
            return 0
        root, found = self._tree.root, 0
        for process, seen in self.last.seen.items():
            if (process.ended or process.programs != seen.programs) and (group != _DESCENDANTS or process is not root):
                found += seen.private
        return found

    def _most_of(self, process: Process) -> int:
        """Return the most that a process may have had, from the previous sample to its last mark."""
        return self._marks.most(process, process.resident_before + self.brought_since_sample(process))

    def _most_since_mark(self, root: Process) -> int:
        """Return the most that the root can have had from when its mark was read to its end, or to its exec."""
        unread = self._marks.unread_faults(root)
        of_files = 0 if self._is_reaped else unread * (_MOST_AROUND - 1) * PAGE_SIZE
        return root.mark_resident + self._brought_by(unread) + of_files

    def _note_copies(self, counted: Sequence[Process]) -> None:
        """Take note of processes that are copies of others."""
        root = self._tree.root
        for process in counted:
            if not process.forked or process.relative is None or self.seen(process) is not None:
                continue
            self._copied_since.add(process.relative)
            if process.relative is root:
                self._inherited[process] = max(self._most_of(process), self._inherited.get(process, 0))

    def _note_grown(self, process: Process, size: int, more: int) -> None:
        """Take note of what ``process`` may have got since the last exact reading, see :meth:`growth`."""
        grown = self.growth(process, size, more)
        if grown > self._grown.get(process, -1):
            self._grown[process] = grown

    def _note_given_back(self, process: Process, size: int) -> None:
        self._given_back[_COMBINED] += size
        if process is not self._tree.root:
            self._given_back[_DESCENDANTS] += size

    def _lost(self, process: Process) -> int:
        """Return the most that ``process`` can have given back: what it had, and has got since, and has no more.

        A page of a file may come with up to 15 others at one page fault. Each other page takes a fault of its own.
        """
        before, relative = self._before.get(process), process.relative
        resident, files = (0, 0) if process.shares_memory else (process.resident, process.files)
        had = had_files = faults = kept_files = 0
        if before is not None:
            had, had_files, faults = before.resident - before.files, before.files, before.faults
            kept_files = files if before.programs == process.programs else 0
        elif process.forked and relative is not None and not process.shares_memory:
            had = max(relative.resident, relative.resident_before)
        brought = self._brought_by(process.faults - faults, self._huge_pages_at_last)
        brought -= max(0, files - kept_files, files - had_files) // _MOST_AROUND
        lost = max(0, had + brought - (resident - files)) + max(0, had_files - kept_files)
        if before is None or before.mark != process.mark:
            lost = max(lost, self._most_of(process) - resident)
        return lost

    def _unseen_faults(self) -> int:
        """Return the page faults of children that no sample has seen, as their parents have got them since."""
        tree, before = self._tree, self._reaped_faults
        self._reaped_faults = reaped = sum([process.reaped_faults for process in tree.members.values()])
        known, pids = 0, {process.pid for process in tree.gone}
        for process in tree.gone:
            faults = self._noted_faults.pop(process, 0)
            if process.parent in tree.members or process.parent in pids:
                known += faults
            elif process is not tree.root:
                self.faults_of_orphans += faults + process.reaped_faults
        return 0 if before is None else max(0, reaped - before - known)

    def brought_since_sample(self, process: Process) -> int:
        """Return the bytes that page faults since the previous sample can have brought ``process``."""
        return self._brought_by(process.faults - process.faults_before)

    def _brought_by(self, faults: int, huge_pages_before: int | None = None) -> int:
        """Return the bytes that page faults can have brought: a page each, or a huge page if there were new ones.

        :param huge_pages_before: The huge pages at the beginning; None: at the previous sample.
        """
        before = self._huge_pages_before if huge_pages_before is None else huge_pages_before
        return most_bytes_of(faults, max(0, self._huge_pages - before))


def _is_exiting(process: Process) -> bool:
    """Return whether ``process`` has given up its memory, and has not ended yet."""
    return process.resident_before > process.resident == 0 and not process.shares_memory
