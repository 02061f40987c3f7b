"""The bounds of the model."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gpu_tracker.errors import ParameterError


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """How long a launch counts that nothing waits for, and how much is held at most.

    Each is more than 0, else :class:`gpu_tracker.errors.ParameterError` is raised.

    :ivar open_seconds: So long after its newest launch a run of launches that nothing has synchronised is taken as
        done: shorter, and the rest of a longer kernel is not counted; longer, and a program that waits in a way that is
        not seen counts as active for that much longer.
    :ivar launches_a_span: A run of launches that has grown past this is closed at its newest launch, and goes on as a
        new one.
    :ivar spans_held: Closed spans of a process on one GPU that are held one by one: more are added up at once, which
        loses nothing.
    :ivar streams: Streams of a process on one GPU that have had work since the window before: the launches to more are
        counted, without times.
    :ivar records: Places on a stream at which events were recorded and that nothing has reached yet: past it the oldest
        is forgotten, so that its launches wait for the next.
    :ivar events: Recorded events of a process that are remembered: past it the oldest is forgotten, and its
        synchronisation closes nothing.
    :ivar kernels: Kernels of a process that are told apart: the times of more are told together, as address 0.
    :ivar processes: Processes in a window: the events of more are left out.
    :ivar ended: Processes that have ended and whose late events are still recognised.
    """

    open_seconds: float = 30.0
    launches_a_span: int = 100_000
    spans_held: int = 16_384
    streams: int = 8_192
    records: int = 64
    events: int = 8_192
    kernels: int = 16_384
    processes: int = 1_024
    ended: int = 4_096

    def __post_init__(self) -> None:
        """Refuse what is not more than 0."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ParameterError(field.name, value, 'more than 0')

    @property
    def open_nanoseconds(self) -> int:
        """:attr:`open_seconds` in nanoseconds."""
        return round(self.open_seconds * 1_000_000_000)
