"""Exact readings of a tree: each page counts once, wherever fork and mremap have put it. Linux only.

Anonymous pages are shared by fork alone. If the root has called exec, no process outside the tree has them, so that
their proportional sizes (Pss_Anon) add up to the pages. Pages of files and shared memory are counted by the part of the
file that they belong to. Mappings are read again only if a member, or what it has of files, has changed.
"""

from __future__ import annotations

import time

from gpu_tracker.resources.budget import CostEstimate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.ram.files import Extent
    from gpu_tracker.resources.ram.pages import MemoryFiles, Pages
    from gpu_tracker.totals import Sizes

_MOST_FOR_ONE = 0.2
"""Seconds that reading a single process may take: its page faults wait meanwhile."""
_MOST_MAPPINGS = 0.25
"""CPU seconds above which mappings are not read, and the sums of files are lower bounds."""
_ATTEMPTS = 3
_MOST_MOVED = 0.01
"""The part of all memory that processes may hand over while they are read, one after the other."""
UNREADABLE = 'unreadable'
TOO_LARGE = 'too_large'
COPY = 'copy'
OLD_KERNEL = 'old_kernel'
BUDGET = 'budget'
"""Reasons why the pages of a group are only partly known, see :data:`.settle.REASONS`."""


NOTHING: Sizes = (0, 0, 0)
UNKNOWN: Sizes = (None, None, None)


class Seen:
    """What one process had when it was read.

    :ivar resident: Bytes.
    :ivar files: Those of files and shared memory.
    :ivar private: Bytes of pages that no other process had mapped.
    :ivar copied: Anonymous bytes that it shared with others: writing to them makes copies.
    :ivar faults: Its page faults before the reading.
    :ivar mark: Its high-water mark, as read before.
    :ivar programs: The number of its calls of execve(2).
    """

    __slots__ = ('copied', 'faults', 'files', 'mark', 'private', 'programs', 'resident')

    def __init__(self, process: Process, resident: int, files: int, private: int = 0, copied: int = 0) -> None:
        self.resident = resident
        self.files = files
        self.private = private
        self.copied = copied
        self.faults = process.faults
        self.mark = process.mark
        self.programs = process.programs


class ExactReading:
    """One exact reading.

    :ivar groups: Sizes of main, descendants and all of them.
    :ivar seen: What each process had.
    :ivar files: Bytes of files and shared memory in all of them.
    :ivar beside: Bytes that descendants may have beside.
    :ivar reasons: Why groups of several processes may have had more.
    """

    __slots__ = ('beside', 'files', 'groups', 'reasons', 'seen')

    def __init__(
        self,
        groups: tuple[Sizes, Sizes, Sizes],
        seen: Mapping[Process, Seen],
        files: int,
        reasons: frozenset[str],
        beside: int = 0,
    ) -> None:
        self.groups = groups
        self.seen = seen
        self.files = files
        self.beside = beside
        self.reasons = reasons


class ExactReader:
    """Reads the pages of a tree.

    :param cpu_time: The CPU seconds that this process has used.
    """

    def __init__(self, files: MemoryFiles, cpu_time: Callable[[], float] = time.process_time) -> None:
        self._files = files
        self._cpu_time = cpu_time
        self._sums_cost = CostEstimate(per_process=60e-6, per_byte=5.4e-12)
        self._mappings_cost = CostEstimate(per_process=240e-6, per_byte=11e-12)
        self._extents: dict[Process, list[Extent]] = {}
        self._read_for: list[tuple[Process, int, int]] = []
        """The members whose mappings were read last, with their programs and bytes of files."""

    def cost(self, processes: Sequence[Process]) -> float:
        """Return the CPU seconds that :meth:`read` will probably take."""
        size = sum([process.resident for process in processes])
        cost = self._sums_cost.of(len(processes), size)
        if len(processes) > 1 and _files_of(processes) != self._read_for:
            cost += min(self._mappings_cost.of(len(processes), size), _MOST_MAPPINGS)
        return cost

    def read(self, root: Process, processes: Sequence[Process], *, is_copy: bool) -> tuple[ExactReading, float]:
        """Read ``processes``, and return the CPU seconds that it took as well.

        A reading is not one moment: what one process has given back after it was read, another may have got before it
        was read. Such a reading is repeated, and what was handed over is taken off. A reading during which a process
        has ended is repeated without it.

        :param is_copy: The root is a copy of a process outside the tree.
        """
        begun = self._cpu_time()
        for _ in range(_ATTEMPTS):
            reading, moved = self._read_once(root, processes, is_copy=is_copy)
            if moved <= _MOST_MOVED * (reading.groups[2][0] or 0):
                break
        return reading, self._cpu_time() - begun

    def _read_once(self, root: Process, processes: Sequence[Process], *, is_copy: bool) -> tuple[ExactReading, int]:
        pages, large, hidden = self._read_pages(processes)
        gone = self._read_mappings(processes) if len(processes) > 1 else []
        lost = sum([pages.pop(process).resident for process in gone if process in pages])
        main = {root: pages[root]} if root in pages else {}
        others = {process: found for process, found in pages.items() if process is not root}
        unread = [*large, *hidden]
        reasons = {COPY} if is_copy and len(processes) > 1 else set()
        reasons |= ({TOO_LARGE} if large else set()) | ({UNREADABLE} if hidden else set())
        files = beside = moved = 0
        if all(found.has_shares for found in pages.values()):
            now = {process: self._files.resident(process.pid) for process in pages} if len(pages) > 1 else {}
            # Of what is mapped or unmapped meanwhile, the shares of processes are of different moments.
            remapped = sum([abs(size - process.files) for process, (_, size) in now.items()])
            files, of_descendants, of_all, beside = self._totals(main, others, reasons, remapped, is_copy=is_copy)
            moved = self._moved(pages, now)
            of_descendants, of_all = of_descendants - self._moved(others, now), of_all - moved
        else:
            reasons.add(OLD_KERNEL)
            of_descendants, of_all = _without_shares(others), _without_shares(pages)
        groups = (
            _sizes(main, 0, [process for process in unread if process is root], large),
            _sizes(others, of_descendants, [process for process in unread if process is not root], large),
            _sizes(pages, of_all, unread, large),
        )
        seen = {process: Seen(process, process.resident, process.files) for process in unread}
        for process, found in pages.items():
            of_files = found.resident - found.anonymous - found.private_huge
            seen[process] = Seen(process, found.resident, of_files, found.private, self._copied(process, found))
        return ExactReading(groups, seen, files, frozenset(reasons), beside), moved + lost

    def _totals(
        self,
        main: Mapping[Process, Pages],
        others: Mapping[Process, Pages],
        reasons: set[str],
        remapped: int,
        *,
        is_copy: bool,
    ) -> tuple[int, int, int, int]:
        """Return the bytes of files in all processes, of descendants, of all, and what descendants may have beside."""
        files, of_descendants, beside = self._bytes_of_files(main, others, reasons, remapped)
        huge = {process: self._private_huge(process, found) for process, found in (*main.items(), *others.items())}
        anonymous = sum([found.anonymous_share + huge[process] for process, found in others.items()])
        most = sum([found.anonymous + huge[process] for process, found in others.items()])
        of_all = anonymous + files
        for root, found in main.items():
            of_all += found.anonymous_share + huge[root]
            if not is_copy:  # what main shares it shares with descendants
                anonymous += max(0, found.anonymous_share - self._private_anonymous(root, found))
        return files, of_descendants + min(most, anonymous), of_all, beside

    def _read_pages(self, processes: Sequence[Process]) -> tuple[dict[Process, Pages], list[Process], list[Process]]:
        """Return the pages of each process that still runs, those that are too large, and those that are refused."""
        begun = self._cpu_time()
        pages: dict[Process, Pages] = {}
        large: list[Process] = []
        hidden: list[Process] = []
        for process in processes:
            try:
                if self._sums_cost.of(1, process.resident) > _MOST_FOR_ONE:
                    large.append(process)
                elif (found := self._files.pages(process.pid)) is not None and found.resident:
                    pages[process] = found
            except PermissionError:
                hidden.append(process)
        size = sum([found.resident for found in pages.values()])
        self._sums_cost.learn(len(pages), size, self._cpu_time() - begun)
        return pages, large, hidden

    def _read_mappings(self, processes: Sequence[Process]) -> list[Process]:
        """Read the mappings of all ``processes``, unless they are as they were, or that costs too much.

        Return those that have ended.
        """
        files = _files_of(processes)
        size = sum([process.resident for process in processes])
        gone: list[Process] = []
        if files == self._read_for or self._mappings_cost.of(len(processes), size) > _MOST_MAPPINGS:
            return gone
        begun = self._cpu_time()
        self._extents = {}
        for process in processes:
            try:
                extents = self._files.extents(process.pid)
            except PermissionError:
                continue
            if extents is None:
                gone.append(process)
            else:
                self._extents[process] = extents
        self._read_for = [] if gone else files  # it may be in the middle of execve(2)
        self._mappings_cost.learn(len(processes), size, self._cpu_time() - begun)
        return gone

    def _bytes_of_files(
        self, main: Mapping[Process, Pages], others: Mapping[Process, Pages], reasons: set[str], remapped: int
    ) -> tuple[int, int, int]:
        """Return the bytes of files and shared memory in all processes, in the descendants, and these may have beside.

        Without mappings the proportional sizes have to do, which leave out the parts of processes outside the tree.
        """
        alone = [*main.values(), *others.values()]
        if len(alone) <= 1:
            files = sum([found.resident - found.anonymous - found.private_huge for found in alone])
            return files, files if others else 0, 0
        known = self._extents
        if all(process in known for process in (*main, *others)):
            from gpu_tracker.resources.ram.files import bytes_of_files  # noqa: PLC0415 - one process needs none of it

            of_main = [extent for process in main for extent in known[process]]
            return bytes_of_files(of_main, [known[process] for process in others], remapped)
        reasons.add(TOO_LARGE)
        of_descendants = sum([found.file_share for found in others.values()])
        of_all = of_descendants + sum([found.file_share for found in main.values()])
        return max(0, of_all - remapped), max(0, of_descendants - remapped), 0

    def _private_huge(self, process: Process, pages: Pages) -> int:
        """Return the huge pages that ``process`` alone has: it may have shared some with others after these were read.

        Of huge pages the mappings report no shares.
        """
        shared = sum([extent.size for extent in self._extents.get(process, ()) if not extent.share])
        return min(pages.private_huge, max(0, process.huge - shared)) if shared else pages.private_huge

    def _private_anonymous(self, process: Process, pages: Pages) -> int:
        of_files = sum([extent.private for extent in self._extents.get(process, ())])
        return max(0, min(pages.private - pages.private_huge - of_files, pages.anonymous))

    def _copied(self, process: Process, pages: Pages) -> int:
        """Return the anonymous bytes that ``process`` shared with others."""
        return min(pages.shared, max(0, pages.anonymous - self._private_anonymous(process, pages)))

    def _moved(self, pages: Mapping[Process, Pages], now: Mapping[Process, tuple[int, int]]) -> int:
        """Return the anonymous bytes that may have been counted twice.

        That is what processes have got since the sample, if others have given it back since they were read; and what a
        process has given back of pages that it shared: another may have been read as their only owner.

        :param now: Resident bytes of each process after the reading, and how many of them belong to files.
        """
        got = given = shared = 0
        for process, found in pages.items() if len(pages) > 1 else ():
            resident, files = now[process]
            lost = max(0, found.anonymous - (resident - files))
            got += max(0, found.anonymous - (process.resident - process.huge - process.files))
            given += lost
            shared += min(lost, found.anonymous_share, self._copied(process, found))
        return max(min(got, given), shared)


def _without_shares(pages: Mapping[Process, Pages]) -> int:
    """Return what a group has at least if the kernel reports no shares of anonymous pages."""
    private = sum([found.private for found in pages.values()])
    return private + max([found.shared for found in pages.values()], default=0)


def _files_of(processes: Sequence[Process]) -> list[tuple[Process, int, int]]:
    return [(process, process.programs, process.files + process.huge) for process in processes]


def _sizes(pages: Mapping[Process, Pages], total: int, unread: Sequence[Process], large: Sequence[Process]) -> Sizes:
    """Return the sizes of a group.

    :param total: The bytes of its ``pages``, each counted once.
    :param unread: Members of which only the resident size is known.
    :param large: Those that were not read because of their size.
    """
    if not pages and not unread:
        return UNKNOWN
    total = max([total, *[found.resident for found in pages.values()]])
    if not unread:
        private = min(total, sum([found.private for found in pages.values()]))
        return total, private, total - private
    copied_from = {process.relative for process in (*pages, *unread)}
    # Nobody else has the anonymous pages of a program that is no copy and has none.
    alone = [p for p in unread if p in large and not p.forked and p not in copied_from]
    total += sum([process.resident - process.files for process in alone])
    return max([total, *[process.resident for process in unread]]), None, None
