"""RAM: the most that was resident at once, of the tracked process, its descendants, both together and the machine.

On Linux exact if that can matter (:mod:`.linux`), elsewhere the sum of what psutil reports.
"""

from __future__ import annotations

from gpu_tracker.processes import stat
from gpu_tracker.resources import FIRST, GAUGE, GROUPS, WHOSE, Column, Resource, first_of, larger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources import Message
    from gpu_tracker.resources.context import Context, System
    from gpu_tracker.resources.ram.ceilings import Ceilings
    from gpu_tracker.result import usage
    from gpu_tracker.totals import Group, Sizes, Totals
    from gpu_tracker.units import Units

    class RamReader(Protocol):
        """Reads the memory of a tree, and keeps the largest sizes of main, descendants and all of them."""

        maxima: tuple[Sizes, Sizes, Sizes]
        used: int | None
        """The most bytes that all of them had together for certain: read at one moment, or of a single process."""
        most_private: int
        """The most private bytes that main can have had while it was alone."""
        reasons: set[str]
        """Why groups of several processes may have had more than that."""

        def read(self, now: float, kind: str) -> None:
            """Read what is resident now, and fold it into the maxima; the tree has just been refreshed."""

        def current(self) -> tuple[Sizes, Sizes, Sizes]:
            """Return about what main, descendants and all of them have now."""

        def watch(self, process: Process) -> None:
            """Read the mark of a command that has just been started."""


_UNREADABLE = (
    'The memory of some processes may not be read: they belong to another user, or are protected. '
    'RAM of groups with such a process is a lower bound.'
)
VANISHED = 'vanished'
"""The tracked process has ended, and was reaped, between two samples."""


class Ram(Resource):
    """Resident memory.

    :param machine: Returns the memory in use on the whole machine.
    :param ceilings: What groups may have had beside what was read; None: that is unknown.
    """

    columns = (
        *(
            Column(f'{group}_{size}_rss', 'bytes', GAUGE, f'{size} resident memory of {WHOSE[group]}')
            for group in GROUPS
            for size in ('total', 'private', 'shared')
        ),
        Column('system_ram', 'bytes', GAUGE, 'memory in use on the whole machine'),
    )

    def __init__(self, reader: RamReader, machine: System, tree: ProcessTree, ceilings: Ceilings | None = None) -> None:
        self._reader = reader
        self._ceilings = ceilings
        self._machine = machine
        self._tree = tree
        self._system: int | None = None
        self._most_of_system: int | None = None
        self._is_warned = False

    def begin(self, now: float) -> None:
        """Make the first reading, which may take a while."""
        self._reader.read(now, FIRST)

    def sample(self, now: float, kind: str) -> None:
        """Read what is resident, and what is in use on the machine."""
        self._system = self._machine.ram()  # before the reading, which may take a while
        self._most_of_system = larger(self._most_of_system, self._system)
        if kind != FIRST:
            self._reader.read(now, kind)

    def watch(self, process: Process) -> None:
        """Read the mark of a command that has just been started."""
        self._reader.watch(process)

    def row(self) -> Sequence[float | None]:
        """Return total, private and shared memory of the three groups, and what is in use on the machine.

        Between two exact readings, sizes of groups are about right: they follow the sizes of their processes.
        """
        return [size for group in self._reader.current() for size in group] + [self._system]

    def used_so_far(self) -> int | None:
        """Return the most bytes that all of them had together for certain: a limit may end the run for it."""
        return self._reader.used

    def totals(self) -> dict[str, object]:
        """Return the evidence: see :class:`gpu_tracker.totals.RamEvidence`."""
        reader, root = self._reader, self._tree.root
        reasons, ceilings = set(reader.reasons), self._ceilings
        if self._tree.root_gone and root.raw and stat.state(root.raw) != b'Z':
            reasons.add(VANISHED)
        return {
            **dict(zip(GROUPS, reader.maxima, strict=True)),
            'ceilings': (0, 0, 0) if ceilings is None else tuple(ceilings.most),
            'most_of_main': None if ceilings is None or VANISHED in reasons else ceilings.most_of_main or None,
            'faults_of_orphans': 0 if ceilings is None else ceilings.faults_of_orphans,
            'huge_pages': 0 if ceilings is None else ceilings.new_huge_pages,
            'most_private': reader.most_private,
            'reasons': tuple(sorted(reasons)),
            'system': self._most_of_system,
            'capacity': self._machine.ram_capacity,
        }

    def take_messages(self) -> list[Message]:
        """Return the warning that some process may not be read, once."""
        if self._is_warned or 'unreadable' not in self._reader.reasons:
            return []
        self._is_warned = True
        return [('warning', _UNREADABLE)]


def open_resource(context: Context) -> Ram:
    """Return the RAM of the tree."""
    tree, config = context.tree, context.config
    if config['reader'] != 'proc':
        from gpu_tracker.resources.ram.portable import PortableRamReader  # noqa: PLC0415 - not on Linux

        return Ram(PortableRamReader(tree), context.machine, tree)
    from gpu_tracker.resources.ram.linux import LinuxRamReader  # noqa: PLC0415 - Linux only
    from gpu_tracker.resources.ram.pages import MemoryFiles  # noqa: PLC0415 - as above

    limit = (config.get('limits') or {}).get('memory_limit')
    is_reaped = config['launcher'] is not None
    reader = LinuxRamReader(tree, MemoryFiles(), context.budget, context.cpu_time, limit, is_reaped=is_reaped)
    return Ram(reader, context.machine, tree, reader.ceilings)


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.MaxRAM]:
    """Return the section ``max_ram`` of the result."""
    from gpu_tracker import units  # noqa: PLC0415 - the sampler needs none of it
    from gpu_tracker.result import usage  # noqa: PLC0415 - the sampler needs none of it

    ram, unit = totals['ram'], wanted.ram

    def values(group: Group) -> usage.RSSValues:
        return usage.RSSValues(*(units.from_bytes(size, unit) for size in first_of(ram.get(group), 3)))

    section = usage.MaxRAM(
        unit=unit,
        system_capacity=units.from_bytes(ram.get('capacity'), unit),
        system=units.from_bytes(ram.get('system'), unit),
        main=values('main'),
        descendants=values('descendants'),
        combined=values('combined'),
    )
    return {'max_ram': section}
