"""What a run is measured by: what a resource is, and the table :data:`RESOURCES` of all of them.

A resource is something of the machine that a run uses, sampled with the others and made a part of the result. Each is
one module, or a package, that holds all of it: what is read at a sample, how readings are folded into totals, the
columns that it contributes to a row of a time series, and the function ``usage_of`` that makes its sections of the
result from the totals.
"""

from __future__ import annotations

import sys

from gpu_tracker.errors import GpuTrackerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import Any, ClassVar

    from gpu_tracker.processes.process import Process
    from gpu_tracker.totals import Group

    Message = tuple[str, str]
    """A message for the user: ``'info'`` or ``'warning'``, and a text."""

FIRST = 'first'
MIDDLE = 'middle'
LAST = 'last'
"""Where a sample stands in a run."""

GROUPS: tuple[Group, ...] = ('main', 'descendants', 'combined')
"""The tracked process, all that it started, and both together."""

WHOSE = {
    'main': 'the tracked process',
    'descendants': 'all that it started',
    'combined': 'the tracked process and all that it started',
    'system': 'the whole machine',
}
"""The groups in the words of columns."""

GAUGE = 'gauge'
"""The kind of a column that holds a value of the moment."""
COUNTER = 'counter'
"""The kind of a column that holds what has been used since the first sample, which never decreases."""


class Column:
    """One value of a row of a time series.

    :ivar name: Its name, unique among all resources.
    :ivar unit: Its base unit: ``bytes``, ``seconds``, ``percent``, ``joules`` or ``count``.
    :ivar kind: :data:`GAUGE` or :data:`COUNTER`.
    :ivar meaning: What it is, in a few words for people.
    """

    __slots__ = ('kind', 'meaning', 'name', 'unit')

    def __init__(self, name: str, unit: str, kind: str, meaning: str) -> None:
        self.name = name
        self.unit = unit
        self.kind = kind
        self.meaning = meaning


class DeviceReading:
    """What one device had when it was read.

    :ivar at: Seconds on the sampler's clock.
    :ivar uuid: The device.
    :ivar name: Its name; None where unknown.
    :ivar total_ram: Bytes of memory that it has; None where unknown, as all below.
    :ivar ram: Bytes of it in use.
    :ivar combined_ram: Bytes of it that the tracked processes have.
    :ivar utilization: Percent of the time for which it worked, lately.
    """

    __slots__ = ('at', 'combined_ram', 'name', 'ram', 'total_ram', 'utilization', 'uuid')

    def __init__(
        self,
        at: float,
        uuid: str,
        *,
        name: str | None,
        total_ram: int | None,
        ram: int | None,
        combined_ram: int | None,
        utilization: float | None,
    ) -> None:
        self.at = at
        self.uuid = uuid
        self.name = name
        self.total_ram = total_ram
        self.ram = ram
        self.combined_ram = combined_ram
        self.utilization = utilization


class RefusedError(GpuTrackerError):
    """A resource cannot be sampled as the parameters ask.

    :ivar reason: The short name of the reason, by which the tracker finds the parameter at fault.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Resource:
    """The part of a resource that runs in the sampler. Methods that a resource does not need do nothing here."""

    columns: ClassVar[Sequence[Column]] = ()
    """What :meth:`row` returns."""

    def wait_until_ready(self) -> None:
        """Wait until the first sample can be made.

        :raises RefusedError: if it cannot be made as the parameters ask.
        """

    def begin(self, now: float) -> None:
        """Make those readings of the first sample that take their time: the run is timed from after them."""

    def follow(self, main: int | None, descendants: frozenset[int]) -> None:
        """Store the processes that are tracked from now on.

        :param main: The pid of the root; None if it has ended.
        :param descendants: The pids of its descendants.
        """

    def sample(self, now: float, kind: str) -> None:
        """Read the resource and fold what was read; the process tree has just been refreshed.

        A process may have ended since, and at the last sample a command mostly has: then its files are empty or
        forbidden. Members that are gone are in ``tree.gone`` until ``tree.changes`` grows again.

        :param now: Seconds on the sampler's clock.
        :param kind: ``FIRST``, ``MIDDLE`` or ``LAST``.
        """
        raise NotImplementedError

    def watch(self, process: Process) -> None:
        """Read a command that has just been started: it may end at any moment.

        Called again and again, some 50 µs apart, in its first 20 ms; only the root was refreshed.
        """

    def request_last(self) -> None:
        """Ask what reads in a thread of its own for its last reading; the last sample is being made meanwhile."""

    def wait_for_last(self) -> None:
        """Wait for that reading, for as long as an end may be delayed."""

    def row(self) -> Sequence[float | None]:
        """Return the values of :attr:`columns` at the last sample; None where unknown."""
        return ()

    def take_devices(self) -> list[DeviceReading]:
        """Return what single devices had at readings that were not taken yet, for recordings."""
        return []

    def gpu_ram_by_process(self) -> Mapping[int, int | None] | None:
        """Return the bytes of GPU memory of each tracked process by its pid, for recordings; None: unknown."""
        return None

    def used_so_far(self) -> float | None:
        """Return the figure that a limit of the run is compared with, see :mod:`gpu_tracker.sampler.limit_watch`.

        Called after each sample, so it reads nothing. None is what is not known, or has no limit.
        """
        return None

    def totals(self) -> dict[str, object]:
        """Return what the whole run has used so far, as plain values in base units."""
        raise NotImplementedError

    def take_messages(self) -> list[Message]:
        """Return the messages for the user that were not taken yet, each cause once."""
        return []


def larger(known: int | None, value: int | None) -> int | None:
    """Return the larger of two values; either may be unknown."""
    if known is None or value is None:
        return value if known is None else known
    return max(known, value)


class Entry:
    """A line of the table.

    :ivar name: The name of the resource, which is that of its module and the key of its totals.
    :ivar is_optional: It is sampled only where it is asked for by that name, in ``Tracker(sections=…)``.
    :ivar opener: What a wing adds to a tracked run, as ``module:function``: it is imported only where it is asked for.
    :ivar metrics: The same, of what the wing adds to the metrics of the agent.
    """

    __slots__ = ('is_optional', 'metrics', 'name', 'opener')

    def __init__(
        self,
        name: str,
        *,
        is_optional: bool = False,
        opener: str = '',
        metrics: str = '',
    ) -> None:
        self.name = name
        self.is_optional = is_optional
        self.opener = opener
        self.metrics = metrics

    def load(self) -> ModuleType:
        """Return the module: ``open_resource`` is for the sampler, ``usage_of`` makes the sections of the result."""
        return _module(f'{__name__}.{self.name}')


RESOURCES = (
    Entry('gpu'),  # first: its driver is opened in a thread while the others are
    Entry('cpu'),  # before RAM, whose exact readings take a while, in which CPU time goes by
    Entry('ram'),
    Entry(
        'cuda',
        is_optional=True,
        opener='gpu_tracker.cuda_probe.section:open_section',
        metrics='gpu_tracker.cuda_probe.agent_metrics:open_metrics',
    ),
    Entry('io', is_optional=True),
    Entry('energy', is_optional=True),
    Entry('gpu_activity', is_optional=True),
    Entry('control_group'),
)
"""All resources, in the order in which they are opened and sampled."""

SECTIONS = tuple(entry.name for entry in RESOURCES if entry.is_optional)
"""The names of those that have to be asked for."""


def chosen(sections: Iterable[str]) -> list[Entry]:
    """Return the lines of the resources that are always sampled, and of those that are asked for by name."""
    return [entry for entry in RESOURCES if not entry.is_optional or entry.name in sections]


def first_of(stored: Sequence[Any] | None, count: int) -> list[Any]:
    """Return the first ``count`` values of a list in stored totals; a missing one is None."""
    return [*(stored or ()), *(None,) * count][:count]


def entry_of(name: str) -> Entry:
    """Return the line of the resource with that name."""
    return next(entry for entry in RESOURCES if entry.name == name)


def function_at(place: str) -> Any:  # noqa: ANN401 - what calls it knows its type
    """Return the function that is named as ``module:function``."""
    module, _, function = place.partition(':')
    return getattr(_module(module), function)


def _module(name: str) -> ModuleType:
    """Import a module by its name. Not with importlib, which costs the measured process as much as all else here."""
    __import__(name)
    return sys.modules[name]
