"""The regions that lie behind the lines of a picture."""

from __future__ import annotations

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


def bands_of(regions: Sequence[Region]) -> list[Band]:
    """Return what to shade: the regions of the outermost level at which there were several calls, 400 spans at most.

    One around all spans of another, such as that of a process which waits for its workers, would only hide that.

    Sums of calls that were folded are no spans of time, and are left out.
    """
    levels: dict[int, list[Region]] = {}
    depth: dict[int, int] = {}
    for region in regions:
        level = 0 if region.parent_id is None else depth.get(region.parent_id, -1) + 1
        depth[region.id] = level
        if not region.is_folded:
            levels.setdefault(level, []).append(region)
    if not levels:
        return []
    chosen = next((found for _, found in sorted(levels.items()) if len(found) > 1), levels[min(levels)])
    by_name: dict[str, list[tuple[float, float]]] = {}
    for region in chosen:
        by_name.setdefault(region.name, []).append((region.start, region.seen_until))
    spans_of = {name: union(spans) for name, spans in by_name.items()}
    bands = [Band(name, *span) for name, spans in spans_of.items() if not _encloses(name, spans_of) for span in spans]
    longest = sorted(bands, key=lambda band: band.start - band.stop)[:_MOST_BANDS]
    return sorted(longest, key=lambda band: band.start)


def _encloses(name: str, spans_of: Mapping[str, Sequence[tuple[float, float]]]) -> bool:
    """Return whether the spans of one name lie around all spans of another one, and are not the same."""
    own = spans_of[name]
    return any(
        other != name
        and list(spans) != list(own)
        and all(any(start <= first and last <= stop for start, stop in own) for first, last in spans)
        for other, spans in spans_of.items()
    )
