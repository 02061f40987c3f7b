"""The exact split of resident memory into private and shared pages, and what reading it costs."""

from __future__ import annotations

import time

from gpu_tracker.allowance import CostEstimate
from gpu_tracker.process_tree import stat
from gpu_tracker.sources.memory_files import rollup
from gpu_tracker.sources.reading import Resident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.process_tree.process import Process
    from gpu_tracker.sources.memory_files import MemoryFiles

    Found = dict[Process, tuple[int, int, int]]
    """Resident, copied and doubled bytes of each process, see :class:`Seen`."""

_MOST_FOR_ONE = 0.2
"""Seconds that reading a single process may take: its page faults wait meanwhile."""


_HIDDEN = (b'0', b'0', b'0')
"""The addresses of an image that may not be seen."""


class Seen:
    """What a process had when it was read: resident bytes, the anonymous ones among them, and page faults so far.

    ``copied`` are the bytes that it shared with processes of its fork family; at most, where only sums were read.
    ``doubled`` are those that it has mapped twice, where mappings were read.
    """

    __slots__ = ('anonymous', 'copied', 'doubled', 'faults', 'of_files', 'resident')

    def __init__(self, resident: int, anonymous: int, copied: int, doubled: int, faults: int) -> None:
        self.resident = resident
        self.anonymous = anonymous
        self.of_files = resident - anonymous
        self.copied = copied
        self.doubled = doubled
        self.faults = faults


class Split:
    """One exact reading of a tree, and what each process that was ``counted`` had then.

    ``copied`` are the bytes that processes shared with others of their fork families, added up.
    """

    __slots__ = ('combined', 'copied', 'counted', 'descendants', 'main')

    def __init__(self, main: Resident, descendants: Resident, combined: Resident) -> None:
        self.main = main
        self.descendants = descendants
        self.combined = combined
        self.counted: dict[Process, Seen] = {}
        self.copied = 0


class SplitReader:
    """Reads private and shared memory of a tree: mapping by mapping where that is affordable, else in sums."""

    def __init__(self, files: MemoryFiles, cpu_time: Callable[[], float] = time.process_time) -> None:
        self._files = files
        self._cpu_time = cpu_time
        self._sums_cost = CostEstimate(per_process=60e-6, per_byte=5.4e-12)
        self._mappings_cost = CostEstimate(per_process=300e-6, per_byte=16e-12)
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
        split, found = self._detailed(root, processes) if detailed else self._sums(root, processes)
        come = 0
        for process in processes:
            of_files_before = process.resident - process.anonymous
            process.resident, process.anonymous = self._files.resident(process.pid)
            come += max(0, process.resident - process.anonymous - of_files_before)
            copied = doubled = 0
            if process in found:
                # Taken from the same reading as the sums, so that later changes and peaks are compared with these. What
                # has come or gone since is anonymous memory, most likely.
                resident, copied, doubled = found[process]
                process.anonymous = max(0, process.anonymous + resident - process.resident)
                process.resident = resident
            split.counted[process] = Seen(process.resident, process.anonymous, copied, doubled, process.faults)
            split.copied += copied
        _allow_for_what_has_come(split, root, processes, come)
        took = self._cpu_time() - before
        estimate = self._mappings_cost if detailed else self._sums_cost
        estimate.learn(len(processes), sum(process.resident for process in processes), took)
        return split, took

    def _detailed(self, root: Process, processes: Sequence[Process]) -> tuple[Split, Found]:
        from gpu_tracker.sources import smaps  # noqa: PLC0415 - costs 5 ms for re, and a single process needs none of it

        def group(members: Sequence[Process]) -> Resident:
            read = [mappings[process] for process in members if process in mappings]
            private, shared = smaps.private_and_shared(read)
            return _resident(private, shared, len(read), [process for process in members if process in unread])

        contents, unread = self._contents(processes, self._files.smaps)
        mappings = {process: smaps.parse(content, stat.image(process.raw)) for process, content in contents.items()}
        return _split(root, processes, group), {
            process: (memory.resident, memory.copied, memory.doubled) for process, memory in mappings.items()
        }

    def _sums(self, root: Process, processes: Sequence[Process]) -> tuple[Split, Found]:
        def group(members: Sequence[Process]) -> Resident:
            read = [sums[process] for process in members if process in sums]
            private = sum([values[0] for values in read])
            if len(read) == 1:
                shared = read[0][1]
            else:
                largest = max([values[0] + values[1] for values in read], default=0)
                shared = max(0, largest - private, sum([values[2] for values in read]) - private)
            return _resident(private, shared, len(read), [process for process in members if process in unread])

        contents, unread = self._contents(processes, self._files.smaps_rollup)
        sums = {process: values for process, content in contents.items() if (values := rollup(content)) is not None}
        return _split(root, processes, group), {
            process: (values[0] + values[1], min(values[1], process.anonymous), 0) for process, values in sums.items()
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
            except PermissionError:
                self.unreadable = True
                unread.add(process)
        return contents, unread


def _split(root: Process, processes: Sequence[Process], group: Callable[[Sequence[Process]], Resident]) -> Split:
    return Split(
        group([process for process in processes if process is root]),
        group([process for process in processes if process is not root]),
        group(processes),
    )


def _allow_for_what_has_come(split: Split, root: Process, processes: Sequence[Process], come: int) -> None:
    """Take off the totals of groups what may be in them twice.

    Processes are read one after the other. A page of a file that was one process' alone when that was read, and that
    another has mapped since, counts for both; it is among the ``come`` bytes that have been mapped since the start.
    """
    descendants = [process for process in processes if process is not root]
    for group, members in ((split.descendants, descendants), (split.combined, processes)):
        if come and group.total is not None and len(members) > 1:
            group.total = max(group.total - come, *[process.resident for process in members])


def _resident(private: int, shared: int, n_read: int, unread: list[Process]) -> Resident:
    """Return the figures of a group, where of some processes only the resident size is known.

    Of the latter, those of one fork family share an unknown part of it, so the largest counts for all of them. Where
    all have ended meanwhile nothing is known.
    """
    if not unread:
        return Resident(private + shared, private, shared) if n_read else Resident(None)
    largest: dict[object, int] = {}
    for process in unread:
        image = stat.image(process.raw)
        family: object = process if image == _HIDDEN else image
        largest[family] = max(largest.get(family, 0), process.resident)
    return Resident(private + shared + sum(largest.values()))
