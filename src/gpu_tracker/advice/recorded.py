"""What a recording adds to the facts of a run: its regions, and RAM over time."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from gpu_tracker.advice.facts import RecordedFacts, RegionFacts
from gpu_tracker.recording.reading import tree
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.recording.reading.tree import PathFigures

_RAM = 'combined_total_rss'
_MINUTE = 60
_MOST_SAMPLES = 200_000
"""Longer recordings add nothing: 100,000 samples take 0.7 s."""
_KNOWN = 0.9
"""The share of a region's time for which the utilization of the GPU has to be known."""


def recorded_in(recording: Recording) -> RecordedFacts:
    """Return what a recording adds to the facts of its run."""
    if len(recording.samples) > _MOST_SAMPLES:
        return RecordedFacts()
    times, sizes = _ram_over_time(recording)
    duration = recording.duration
    ends: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for call in recording.region_calls():
        if call.calls == 1:
            ends[call.path].append(call.start + call.seconds)
    nodes, _ = tree.merged(recording.regions)
    found = [tree.figures_of(node, recording.span_figures, duration) for node in nodes]
    return RecordedFacts(
        # Inner regions first: they say more.
        regions=tuple(
            _region_facts(one, duration, _ram_at(sorted(ends[one.path]), times, sizes))
            for one in sorted(found, key=lambda figures: -len(figures.path))
        ),
        ram_per_minute_bytes=_ram_at(
            [float(minute) for minute in range(_MINUTE, int(duration or 0) + 1, _MINUTE)], times, sizes
        ),
    )


def _ram_over_time(recording: Recording) -> tuple[list[float], list[float]]:
    """Return the times of samples in which the RAM is known, and the RAM."""
    times: list[float] = []
    sizes: list[float] = []
    if all(column.name != _RAM for column in recording.columns):
        return times, sizes
    for columns in recording.samples.batches([_RAM]):
        for time, size in zip(*columns, strict=True):
            if time is not None and size:  # 0 when the command has ended
                times.append(time)
                sizes.append(size)
    return times, sizes


def _ram_at(wanted: Sequence[float], times: Sequence[float], sizes: Sequence[float]) -> tuple[float, ...]:
    """Return the RAM at each time, in order; none if a sample would be taken for two of them."""
    places = [bisect_left(times, time) for time in wanted]
    if any(before == after for before, after in pairwise(places)):
        return ()
    return tuple(sizes[place] for place in places if place < len(sizes))


def _region_facts(figures: PathFigures, duration: float | None, ram_after_calls: tuple[float, ...]) -> RegionFacts:
    open_for = (figures.share or 0) * (duration or 0)
    cpu = None if figures.cpu is None else figures.cpu.value
    return RegionFacts(
        name=printable(figures.path[-1]),
        calls=figures.calls,
        seconds=figures.wall_time,
        ram_after_calls=ram_after_calls,
        gpu_busy_percent=figures.gpu_utilization if figures.gpu_coverage >= _KNOWN else None,
        cores_mean=cpu / open_for if cpu is not None and open_for else None,
    )
