"""Counts what finds no room."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tracker.cuda_probe.model.window import Dropped


@dataclass(slots=True)
class Losses:
    """One for a probe; each part of the model adds to its own field, which is one of :class:`Dropped`."""

    stream_launches: int = 0
    kernel_launches: int = 0
    records: int = 0
    process_events: int = 0
    late_events: int = 0

    def take(self) -> Dropped:
        """Return what was counted since this was last asked."""
        dropped = Dropped(**{name: getattr(self, name) for name in Dropped._fields})
        for name in Dropped._fields:
            setattr(self, name, 0)
        return dropped
