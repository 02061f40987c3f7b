"""RAM: the most that was resident at once, of the tracked process, its descendants, both together and the machine.

On Linux exact where it matters (:mod:`.linux`), elsewhere the sum of what psutil says.
"""

from __future__ import annotations

import time

from gpu_tracker.resources import FIRST, GAUGE, GROUPS, WHOSE, Column, Resource, larger
from gpu_tracker.resources.ram.reading import RamMaxima, RamReading, Resident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from gpu_tracker import usage
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.linux import LinuxProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources import Message
    from gpu_tracker.resources.budget import Budget, OverheadLimit
    from gpu_tracker.resources.context import Context, System
    from gpu_tracker.resources.ram.early import EarlySamples
    from gpu_tracker.resources.ram.linux import LinuxRamReader
    from gpu_tracker.totals import Group, Totals
    from gpu_tracker.units import Units

    class RamReader(Protocol):
        """Reads the memory of a tree."""

        def read(self, now: float, kind: str) -> RamReading:
            """Return what is resident now; the tree has just been refreshed."""

        def estimate(self) -> Sequence[Resident]:
            """Return what root, descendants and both have now, estimated, without reading anything."""

        def watch(self, process: Process) -> None:
            """Read the peak of a command that has just been started."""


_EARLY_SHARE = 0.008
"""The part of a core that samples of a young process may use between the points of the grid."""
_EARLY_SHARE_OF_SEVERAL = 0.02
"""The same while several processes are young."""
_EARLY_SAVED = 0.04
"""CPU seconds that may be saved up for these: some processes' whole youth."""
_UNREADABLE = (
    'Some of the tracked processes belong to another user: private and shared memory of groups are unknown with such a '
    'process while it runs.'
)


class Ram(Resource):
    """Resident memory, folded into maxima.

    :param machine: Returns the memory that is in use on the whole machine.
    """

    columns = (
        *(
            Column(f'{group}_{size}_rss', 'bytes', GAUGE, f'{size} resident memory of {WHOSE[group]}')
            for group in GROUPS
            for size in ('total', 'private', 'shared')
        ),
        Column('system_ram', 'bytes', GAUGE, 'memory in use on the whole machine'),
    )

    def __init__(self, reader: RamReader, machine: System) -> None:
        self._reader = reader
        self._machine = machine
        self._maxima = RamMaxima()
        self._first: RamReading | None = None
        self._system: int | None = None
        self._most_of_system: int | None = None
        self._is_unreadable = False
        self.take_in = self._maxima.add
        """Folds a reading that was made between two samples."""

    def begin(self, now: float) -> None:
        """Make the first reading, which may be an exact one."""
        self._first = self._reader.read(now, FIRST)

    def sample(self, now: float, kind: str) -> None:
        """Read what is resident, and what is in use on the machine."""
        self._system = self._machine.ram()  # before the reading, which may take a while
        self._most_of_system = larger(self._most_of_system, self._system)
        reading, self._first = self._first, None
        self._maxima.add(self._reader.read(now, kind) if reading is None else reading)

    def watch(self, process: Process) -> None:
        """Read the peak of a command that has just been started."""
        self._reader.watch(process)

    def row(self) -> Sequence[float | None]:
        """Return total, private and shared memory of the three groups, and what is in use on the machine.

        Where nothing could raise a maximum, a sample leaves the memory of a group open; then the row has the estimate
        that the totals would use. None is what is not known: the root once it has ended, private and shared memory with
        another user's processes.
        """
        reading = self._maxima.last
        if reading is None:
            return [None] * len(self.columns)
        groups: list[Resident] = [reading.main, reading.descendants, reading.combined]
        if any(group.total is None for group in groups):
            estimates = self._reader.estimate()
            groups = [
                estimate if group.total is None else group for group, estimate in zip(groups, estimates, strict=True)
            ]
        return [size for group in groups for size in (group.total, group.private, group.shared)] + [self._system]

    def used_so_far(self) -> int | None:
        """Return the most bytes that all had together for certain: no run is ended for what was only estimated."""
        return self._maxima.most_for_certain

    def totals(self) -> dict[str, object]:
        """Return what :class:`.RamMaxima` has, with ``system`` and ``capacity`` of the machine, in bytes."""
        return {**self._maxima.totals(), 'system': self._most_of_system, 'capacity': self._machine.ram_capacity}

    def record(self) -> dict[str, object]:
        """Return what :mod:`gpu_tracker.resources.rusage` has to know of the readings."""
        reader = self._reader
        return {
            'unreadable': getattr(reader, 'unreadable', False),
            'doubled': getattr(reader, 'doubled', 0),
            'may_miss_orphans': getattr(reader, 'may_miss_orphans', False),
            'most_waited_for': getattr(reader, 'most_waited_for', None),
        }

    def take_messages(self) -> list[Message]:
        """Return the warning that some process may not be read, once."""
        if self._is_unreadable or not getattr(self._reader, 'unreadable', False):
            return []
        self._is_unreadable = True
        return [('warning', _UNREADABLE)]


def open_resource(context: Context) -> Ram:
    """Return the RAM of the tree, with early samples of young processes where reading them costs little: on Linux."""
    tree = context.tree
    if context.config['reader'] != 'proc':
        from gpu_tracker.resources.ram import PortableRamReader  # noqa: PLC0415 - elsewhere

        return Ram(PortableRamReader(tree), context.machine)
    from gpu_tracker.processes.linux import LinuxProcessTree  # noqa: PLC0415 - Linux only
    from gpu_tracker.resources.ram.linux import LinuxRamReader  # noqa: PLC0415 - as above
    from gpu_tracker.resources.ram.memory_files import MemoryFiles  # noqa: PLC0415 - as above

    reader = LinuxRamReader(tree, MemoryFiles(), context.budget, context.cpu_time)
    ram = Ram(reader, context.machine)
    if isinstance(tree, LinuxProcessTree):
        context.early = _open_early(context, tree, reader, ram.take_in)
    return ram


def _open_early(
    context: Context, tree: LinuxProcessTree, reader: LinuxRamReader, take_in: Callable[[RamReading], None]
) -> EarlySamples:
    from gpu_tracker.resources.budget import Budget  # noqa: PLC0415 - for this one use
    from gpu_tracker.resources.ram.early import EarlySamples  # noqa: PLC0415 - Linux only

    budget = context.budget
    for_one: Budget | OverheadLimit = budget
    for_several: Budget | OverheadLimit = budget
    if isinstance(budget, Budget):
        for_one = Budget(time.monotonic(), _EARLY_SHARE, _EARLY_SAVED)
        for_several = Budget(time.monotonic(), _EARLY_SHARE_OF_SEVERAL, 2 * _EARLY_SAVED)
    interval = context.config['interval']
    return EarlySamples(tree, reader, take_in, interval, for_one, for_several, budget, context.cpu_time)


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.MaxRAM]:
    """Return the section ``max_ram`` of the result."""
    from gpu_tracker import units, usage  # noqa: PLC0415 - the sampler needs none of it

    ram, unit = totals['ram'], wanted.ram

    def values(group: Group) -> usage.RSSValues:
        return usage.RSSValues(*(units.from_bytes(size, unit) for size in ram[group]))

    section = usage.MaxRAM(
        unit=unit,
        system_capacity=units.from_bytes(ram['capacity'], unit),
        system=units.from_bytes(ram['system'], unit),
        main=values('main'),
        descendants=values('descendants'),
        combined=values('combined'),
    )
    return {'max_ram': section}


_UNKNOWN = (None, None, None)


class PortableRamReader:
    """Adds up resident sizes; pages that several processes share count once for each of them.

    What is private and what is shared is not known.
    """

    unreadable = False

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree

    def watch(self, process: Process) -> None:
        """Do nothing: there are no marks here."""

    def read(self, now: float, kind: str) -> RamReading:
        """Return what is resident now; the tree has just been refreshed."""
        del now, kind
        main, descendants, combined = self.estimate()
        return RamReading(main, descendants, combined, _UNKNOWN)

    def estimate(self) -> Sequence[Resident]:
        """Return what root, descendants and both have now."""
        root = self._tree.root
        members = self._tree.members.values()
        descendants = sum(process.resident for process in members if process is not root)
        if root.ended or root.shares_memory:
            return Resident(None), Resident(descendants), Resident(None)
        return Resident(root.resident), Resident(descendants), Resident(root.resident + descendants)
