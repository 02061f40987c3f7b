"""A resource: something of the machine that a run uses, sampled with the others and made a part of the result.

Each resource is one module, or a package, that holds all of it: what is read at a sample, how readings are folded into
totals, the columns that it contributes to a row of a time series, and the function ``usage`` that makes its sections of
the result from the totals. The table :data:`gpu_tracker.resources.RESOURCES` has one line for each.
"""

from __future__ import annotations

from gpu_tracker.errors import GpuTrackerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import ClassVar

    from gpu_tracker.processes.process import Process

    Total = float | str | None | Sequence['Total'] | Mapping[str, 'Total']
    """A plain value that the totals of a run may hold."""
    Message = tuple[str, str]
    """A message for the user: ``'info'`` or ``'warning'``, and a text."""

FIRST = 'first'
MIDDLE = 'middle'
LAST = 'last'
"""Where a sample stands in a run."""

GROUPS = ('main', 'descendants', 'combined')
"""The tracked process, all that it started, and both together."""

GAUGE = 'gauge'
"""The kind of a column that holds a value of the moment."""
COUNTER = 'counter'
"""The kind of a column that holds what has been used since the first sample, which never decreases."""


class Column:
    """One value of a row of a time series.

    :ivar name: Its name, unique among all resources.
    :ivar unit: Its base unit: ``bytes``, ``seconds``, ``percent``, ``joules`` or ``count``.
    :ivar kind: :data:`GAUGE` or :data:`COUNTER`.
    """

    __slots__ = ('kind', 'name', 'unit')

    def __init__(self, name: str, unit: str, kind: str) -> None:
        self.name = name
        self.unit = unit
        self.kind = kind


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

        :raises RefusedError: where it cannot be made as the parameters ask.
        """

    def begin(self, now: float) -> None:
        """Make those readings of the first sample that take their time: the run is timed from after them."""

    def follow(self, main: int | None, descendants: frozenset[int]) -> None:
        """Take note of which processes are tracked from now on.

        :param main: The pid of the root; None where it has ended.
        :param descendants: The pids of its descendants.
        """

    def sample(self, now: float, kind: str) -> None:
        """Read the resource and fold what was read; the process tree has just been refreshed.

        :param now: Seconds on the sampler's clock.
        :param kind: ``FIRST``, ``MIDDLE`` or ``LAST``.
        """
        raise NotImplementedError

    def sample_between(self) -> None:
        """Read what would be lost until the next sample, after young processes were sampled."""

    def watch(self, process: Process) -> None:
        """Read a command that has just been started: it may end at any moment."""

    def request_last(self) -> None:
        """Ask what reads in a thread of its own for its last reading; the last sample is being made meanwhile."""

    def wait_for_last(self) -> None:
        """Wait for that reading, for as long as an end may be delayed."""

    def row(self) -> Sequence[float | None]:
        """Return the values of :attr:`columns` at the last sample; None where unknown."""
        return ()

    def totals(self) -> dict[str, object]:
        """Return what the whole run has used so far, as plain values in base units."""
        raise NotImplementedError

    def record(self) -> dict[str, object]:
        """Return what the corrections at the end of a run have to know beside the totals."""
        return {}

    def take_messages(self) -> list[Message]:
        """Return the messages for the user that were not taken yet, each cause once."""
        return []


def larger(known: int | None, value: int | None) -> int | None:
    """Return the larger of two values of which either may be unknown."""
    if known is None or value is None:
        return value if known is None else known
    return max(known, value)
