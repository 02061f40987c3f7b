"""The exact split of resident memory into private and shared pages, and what reading it costs."""

from __future__ import annotations

import time

from gpu_tracker.processes import stat
from gpu_tracker.resources.budget import CostEstimate
from gpu_tracker.resources.ram.memory_files import rollup
from gpu_tracker.resources.ram.reading import Resident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.ram.memory_files import MemoryFiles, Sums
    from gpu_tracker.resources.ram.smaps import Mappings

    Found = dict[Process, tuple[int, int, int, int, int]]
    """Resident, anonymous, copied, doubled and huge bytes of each process, see :class:`Seen`."""

_MOST_FOR_ONE = 0.2
"""Seconds that reading a single process may take: its page faults wait meanwhile."""
_MOST_ARGUMENTS = 1 << 17
"""Bytes that the arguments and the environment of hardly any program exceed."""
_MOST_COME = 0.01
"""The part of all memory that may be mapped anew while it is read, one process after the other."""


class Seen:
    """What a process had when it was read: resident bytes, the anonymous and the huge ones among them, and page faults.

    Those in ``faults`` are as of after the reading, those in ``faults_before`` as of before: some may come in between.
    ``copied`` are the bytes that it shared with processes of its fork family, at most, where only sums were read;
    ``alone`` are the other anonymous ones. ``doubled`` are those that it has mapped twice, where mappings were read.
    ``leaving`` are anonymous ones that no mapping had any more though they were resident a little later: munmap(2)
    first takes the mapping away, and then page by page. Others may have the same.
    """

    __slots__ = (
        'alone',
        'anonymous',
        'copied',
        'doubled',
        'faults',
        'faults_before',
        'leaving',
        'of_files',
        'resident',
    )

    def __init__(
        self,
        resident: int,
        anonymous: int,
        huge: int,
        copied: int,
        doubled: int,
        faults: int,
        leaving: int = 0,
        faults_before: int | None = None,
    ) -> None:
        self.resident = resident
        self.anonymous = anonymous
        self.of_files = resident - anonymous - huge
        self.alone = max(0, anonymous - copied)
        self.copied = copied
        self.doubled = doubled
        self.leaving = leaving
        self.faults = faults
        self.faults_before = faults if faults_before is None else faults_before


class Split:
    """One exact reading of a tree, and what each process that was ``counted`` had then.

    ``copied`` are the bytes that processes shared with others of their fork families, added up; ``is_firm`` tells that
    hardly anything was mapped while it was made, and ``is_still`` that there was hardly any page fault: a page of which
    a copy is made meanwhile may look as if others had it who are not counted. ``handed_over`` are the bytes of
    descendants, and of all, that may count with two processes, because one has given them back after it was read and
    another got them before it was.
    """

    __slots__ = ('combined', 'copied', 'counted', 'descendants', 'handed_over', 'is_firm', 'is_still', 'main')

    def __init__(self, main: Resident, descendants: Resident, combined: Resident) -> None:
        self.main = main
        self.descendants = descendants
        self.combined = combined
        self.counted: dict[Process, Seen] = {}
        self.copied = 0
        self.is_firm = self.is_still = True
        self.handed_over = (0, 0)


class SplitReader:
    """Reads private and shared memory of a tree: mapping by mapping where that is affordable, else in sums."""

    def __init__(self, files: MemoryFiles, cpu_time: Callable[[], float] = time.process_time) -> None:
        self._files = files
        self._cpu_time = cpu_time
        self._sums_cost = CostEstimate(per_process=60e-6, per_byte=5.4e-12)
        self._mappings_cost = CostEstimate(per_process=300e-6, per_byte=16e-12)
        self._faults: dict[Process, int] = {}
        """Page faults of processes right after they were read."""
        self.unreadable = False
        """A process was met that may not be read, because it is another user's."""

    def cost(self, processes: Sequence[Process], *, detailed: bool) -> float:
        """Return the CPU seconds that :meth:`read` will probably take."""
        estimate = self._mappings_cost if detailed else self._sums_cost
        return estimate.of(len(processes), sum(process.resident for process in processes))

    def read(self, root: Process, processes: Sequence[Process], *, detailed: bool) -> tuple[Split, float]:
        """Read ``processes`` and return the split with the CPU seconds that it took.

        :param processes: Those that count, the root among them where it still runs.
        :param detailed: Read every mapping, so that each shared page counts once. Otherwise sums are read, and shared
            memory is what the kernel's proportional sizes say, which leaves out the parts of other processes.
        """
        before = self._cpu_time()
        self._faults.clear()
        split, found = self._detailed(root, processes) if detailed else self._sums(root, processes)
        come = lost = 0
        got: dict[Process, tuple[int, int]] = {}
        for process in processes:
            of_files_before = process.resident - process.anonymous
            anonymous_before = process.anonymous - process.huge
            process.resident, anonymous = self._files.resident(process.pid)
            anonymous_after = anonymous
            of_files = process.resident - anonymous
            process.resident += process.huge
            copied = doubled = 0
            if process in found:
                # Taken from the same reading as the sums, so that later changes and peaks are compared with these.
                process.resident, anonymous, copied, doubled, process.huge = found[process]
            process.anonymous = anonymous + process.huge
            got[process] = max(0, anonymous - anonymous_before), max(0, anonymous - anonymous_after)
            come += max(0, max(of_files, process.resident - process.anonymous) - of_files_before)
            leaving = (
                max(0, min(anonymous_before, anonymous_after) - anonymous)
                if process.forked or process.has_copies
                else 0
            )
            faults = max(process.faults, self._faults.get(process, 0))
            split.counted[process] = Seen(
                process.resident, anonymous, process.huge, copied, doubled, faults, leaving, process.faults
            )
            split.copied += copied
            lost += min(copied, got[process][1])
        _allow_for_what_has_changed(split, root, processes, come + lost)
        of_all = list(got.values())
        split.handed_over = (
            _handed_over([got[process] for process in processes if process is not root]),
            _handed_over(of_all),
        )
        most_come = _MOST_COME * (split.combined.total or 0)
        faults = sum([seen.faults - seen.faults_before for seen in split.counted.values()])
        split.is_firm = come + lost <= most_come
        split.is_still = faults * stat.PAGE_SIZE <= most_come
        took = self._cpu_time() - before
        estimate = self._mappings_cost if detailed else self._sums_cost
        estimate.learn(len(processes), sum(process.resident for process in processes), took)
        return split, took

    def _detailed(self, root: Process, processes: Sequence[Process]) -> tuple[Split, Found]:
        from gpu_tracker.resources.ram import smaps  # noqa: PLC0415 - costs 5 ms for re, and a single process needs none of it

        contents, unread = self._contents(processes, self._files.smaps)
        mappings = {
            process: memory
            for process, content in contents.items()
            if has_begun(memory := smaps.parse(content, stat.image(process.raw), huge=process.huge > 0))
        }
        of_root = mappings.get(root)
        of_descendants = [memory for process, memory in mappings.items() if process is not root]
        shared = smaps.shared_bytes(of_root, of_descendants)
        main = _resident(of_root.private, smaps.shared_bytes(of_root, [])[0]) if of_root else Resident(None)
        descendants = _resident(sum([memory.private for memory in of_descendants]), shared[1])
        combined = _resident((main.private or 0) + (descendants.private or 0), shared[0])
        split = _split(root, processes, mappings, unread, (main, descendants, combined))
        return split, {
            process: (memory.resident, memory.anonymous, memory.copied, memory.doubled, memory.huge)
            for process, memory in mappings.items()
        }

    def _sums(self, root: Process, processes: Sequence[Process]) -> tuple[Split, Found]:
        def group(members: Sequence[Sums], least: int = 0) -> Resident:
            private = sum([memory.private for memory in members])
            if len(members) == 1:
                return _resident(private, members[0].shared)
            largest = max([memory.resident for memory in members], default=0)
            return _resident(private, max(largest, least, sum([m.proportional for m in members])) - private)

        contents, unread = self._contents(processes, self._files.smaps_rollup)
        sums = {
            process: values
            for process, content in contents.items()
            if (values := rollup(content)) is not None and has_begun(values)
        }
        of_root = [values for process, values in sums.items() if process is root]
        others = [values for process, values in sums.items() if process is not root]
        main, combined = group(of_root), group(list(sums.values()))
        # Anonymous pages are those of the tree's own fork families. Of these the descendants have all that is not
        # private to the root.
        anonymous = sum([m.proportional_anonymous for m in sums.values()]) - (main.private or 0) if of_root else 0
        of_files = sum([m.proportional - m.proportional_anonymous for m in others])
        most = sum([m.resident for m in others])
        descendants = group(others, min(most, anonymous + of_files) if len(others) > 1 else 0)
        return _split(root, processes, sums, unread, (main, descendants, combined)), {
            process: (m.resident, m.anonymous, min(m.shared, m.anonymous), 0, m.huge) for process, m in sums.items()
        }

    def _contents(
        self, processes: Sequence[Process], read: Callable[[int], bytes | None]
    ) -> tuple[dict[Process, bytes], set[Process]]:
        """Return what ``read`` says of each process that still runs, and those that may not or must not be read."""
        contents: dict[Process, bytes] = {}
        unread: set[Process] = set()
        for process in processes:
            try:
                if self._sums_cost.of(1, process.resident) > _MOST_FOR_ONE:
                    unread.add(process)
                elif content := read(process.pid):
                    contents[process] = content
                    process.unreadable = False
                    # Those that brought what has just been read, so that none is compared with it later.
                    self._faults[process] = self._files.faults(process.pid) or 0
            except PermissionError:
                self.unreadable = process.unreadable = True
                unread.add(process)
        return contents, unread


def has_begun(memory: Mappings | Sums | Process) -> bool:
    """Return whether a process runs its program: in the middle of exec(2) no page of a file is there, only arguments.

    What it has then says nothing of the program: no page would be shared. One that has ended has nothing.
    """
    return memory.resident != memory.anonymous or not 0 < memory.resident <= _MOST_ARGUMENTS


def _split(
    root: Process,
    processes: Sequence[Process],
    read: Container[Process],
    unread: set[Process],
    groups: Sequence[Resident],
) -> Split:
    """Return the split of the ``groups``, to which those are added that were not read."""
    members = (
        [process for process in processes if process is root],
        [process for process in processes if process is not root],
        processes,
    )
    found = []
    for group, of_group in zip(groups, members, strict=True):
        none_is_read = not any(process in read for process in of_group)
        found.append(_with_unread(group, none_is_read, [process for process in of_group if process in unread]))
    return Split(*found)


def _allow_for_what_has_changed(split: Split, root: Process, processes: Sequence[Process], changed: int) -> None:
    """Take off the totals of groups what may be in them twice.

    Processes are read one after the other. A page of a file that was one process' alone when that was read, and that
    another has mapped since, counts for both. So does a page that a copy had when it was read, and has dropped since,
    once it is another's alone. Both are among the ``changed`` bytes.
    """
    descendants = [process for process in processes if process is not root]
    for group, members in ((split.descendants, descendants), (split.combined, processes)):
        if changed and group.total is not None and len(members) > 1:
            sizes = [process.resident - split.counted[process].doubled for process in members]
            group.total = max(group.total - changed, *sizes)
            if group.private is not None:
                group.private = min(group.private, group.total)


def _handed_over(changes: Sequence[tuple[int, int]]) -> int:
    """Return what may count twice, of what each process got before it was read and what it gave back afterwards."""
    return min(sum([got for got, _ in changes]), sum([given for _, given in changes]))


def _resident(private: int, shared: int) -> Resident:
    return Resident(private + shared, private, shared)


def _with_unread(group: Resident, none_is_read: bool, unread: list[Process]) -> Resident:  # noqa: FBT001 - private
    """Return the figures of a group, where of some processes only the resident size is known.

    Of the latter, those of one fork family share an unknown part of it, so the largest counts for all of them. Where
    all have ended meanwhile nothing is known.
    """
    if not unread:
        return Resident(None) if none_is_read else group
    largest: dict[object, int] = {}
    for process in unread:
        image = stat.image(process.raw)
        family: object = process if image == stat.NO_IMAGE else image
        largest[family] = max(largest.get(family, 0), process.resident)
    return Resident((0 if none_is_read else group.total or 0) + sum(largest.values()))
