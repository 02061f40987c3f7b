"""What a live view shows, as plain values. Unknown is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.views.live.series import Point


class LiveFigure(NamedTuple):
    """One figure.

    :ivar unit: One of those in :mod:`~gpu_tracker.views.live.quantities`.
    :ivar now: Its value at the last sample; None where unknown.
    :ivar last_known: The last value that was known.
    :ivar peak: The largest so far.
    :ivar whole: What there is of it at most; None where there is no such thing.
    :ivar points: Its last minutes.
    """

    name: str
    unit: str
    now: float | None
    last_known: float | None
    peak: float | None
    whole: float | None
    points: Sequence[Point]


class ProcessState(NamedTuple):
    """One process at the last sample.

    :ivar cpu: Percent of a core.
    :ivar rss: Bytes.
    :ivar gpu_ram: Bytes on all GPUs together.
    :ivar command: Its command line.
    """

    pid: int
    name: str
    cpu: float | None
    rss: int | None
    gpu_ram: int | None
    command: str | None


class RegionState(NamedTuple):
    """One open region; ``level`` is how many open regions are around it, ``seconds`` how long it has been open."""

    name: str
    level: int
    seconds: float


class State(NamedTuple):
    """A run at its last sample.

    :ivar title: What is tracked.
    :ivar place: Which process on which machine that is.
    :ivar seconds: From the first sample to the last; None where there is none yet.
    :ivar figures: Those of the run.
    :ivar gpus: Those of each GPU that it has used, the fullest first.
    :ivar other_gpus: Those of each GPU that it has not used.
    :ivar processes: The largest processes; None where processes are not recorded.
    :ivar process_count: How many processes there are.
    :ivar ending: How the run has ended, as a sentence; None while it goes on.
    """

    title: str
    place: str
    seconds: float | None
    figures: Sequence[LiveFigure]
    gpus: Sequence[Sequence[LiveFigure]]
    other_gpus: Sequence[Sequence[LiveFigure]]
    processes: Sequence[ProcessState] | None
    process_count: int
    regions: Sequence[RegionState]
    ending: str | None
