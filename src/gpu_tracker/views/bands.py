"""The regions that lie behind the lines of a picture."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.recording.reading.tree import union
from gpu_tracker.system.terminal_text import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.recording.reading.model import Region

_MOST_BANDS = 400
_LONGEST_NAME = 80


class Band(NamedTuple):
    """A span of time in which at least one call of a region was open, to lie behind the lines.

    :ivar name: The name of the region.
    :ivar start: In seconds.
    :ivar stop: In seconds: its end, or its last sign of life.
    """

    name: str
    start: float
    stop: float


def name_of(region: str) -> str:
    """Return the name of a region as pictures show it: without what cannot be printed, and not too long."""
    return shortened(printable(region), _LONGEST_NAME)


class Shading(NamedTuple):
    """What lies behind the lines.

    :ivar bands: In the order of their start.
    :ivar more: How many names of the same level have no band, because all their calls were shorter.
    """

    bands: list[Band]
    more: int


def shading_of(regions: Sequence[Region]) -> Shading:
    """Return the 400 longest spans of the outermost level at which there were several calls.

    A name whose spans lie around all spans of another one is left out, such as that of a process that waits for its
    workers. Sums of calls that were folded are no spans of time.
    """
    by_name: dict[str, list[tuple[float, float]]] = {}
    for region in _outermost(regions):
        by_name.setdefault(region.name, []).append((region.start, region.seen_until))
    bands = [Band(name, *span) for name, spans in by_name.items() for span in union(spans)]
    longest = heapq.nlargest(_MOST_BANDS, bands, key=lambda band: band.stop - band.start)
    spans_of: dict[str, list[tuple[float, float]]] = {}
    for band in sorted(longest, key=lambda band: band.start):
        spans_of.setdefault(band.name, []).append((band.start, band.stop))
    names = [name for name in spans_of if not _encloses(name, spans_of)]
    found = [Band(name, *span) for name in names for span in spans_of[name]]
    return Shading(sorted(found, key=lambda band: band.start), len(by_name) - len(spans_of))


def _outermost(regions: Sequence[Region]) -> list[Region]:
    """Return the calls of the outermost level that has several, or else of the outermost one."""
    levels: dict[int, list[Region]] = {}
    depth: dict[int, int] = {}
    for region in regions:
        level = 0 if region.parent_id is None else depth.get(region.parent_id, -1) + 1
        depth[region.id] = level
        if not region.is_folded:
            levels.setdefault(level, []).append(region)
    found = [levels[level] for level in sorted(levels)]
    return next((calls for calls in found if len(calls) > 1), found[0] if found else [])


def _encloses(name: str, spans_of: Mapping[str, Sequence[tuple[float, float]]]) -> bool:
    """Return whether the spans of one name lie around all spans of another one, and are not the same."""
    own = spans_of[name]
    return any(
        spans != own and all(any(start <= first and last <= stop for start, stop in own) for first, last in spans)
        for spans in spans_of.values()
    )
