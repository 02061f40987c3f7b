"""The regions of a recording as a tree: calls with the same names from the outermost region inwards are one node.

Pure, and without recursion: programs recurse deeper than Python's own stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_tracker.recording.reading.model import Bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_tracker.recording.reading.model import Region
    from gpu_tracker.recording.reading.span_figures import SpanFigures

_LEAST_SAMPLES = 2
MOST_LEVELS = 32
"""Regions that lie deeper in each other are left out, and counted."""


@dataclass(slots=True)
class Node:
    """All calls of one path.

    :ivar path: The names from the outermost region to this one.
    :ivar regions: The calls, or sums of calls, in the order of their start.
    :ivar children: The nodes below, in the order of their first start.
    """

    path: tuple[str, ...]
    regions: list[Region] = field(default_factory=list)
    children: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PathFigures:
    """What all calls of one path used together.

    :ivar path: The names from the outermost region to this one.
    :ivar calls: How many there were.
    :ivar errors: How many of them an exception has ended.
    :ivar not_ended: How many of them have not ended.
    :ivar wall_time: The time of all calls together in seconds; of those that have not ended up to their last sign of
        life, and then it is a lower bound.
    :ivar share: The share, from 0 to 1, of the run in which at least one call was open.
    :ivar thread_cpu: CPU time of the calls' own threads; None where that of one is unknown.
    :ivar cpu: CPU time of all tracked processes while at least one call was open.
    :ivar ram: The most RAM of the process of a call in it.
    :ivar gpu_utilization: How busy the GPUs were, in percent, weighted by time.
    :ivar gpu_coverage: The share, from 0 to 1, of the time of which that is known.
    :ivar gpu_ram: The most GPU RAM of all tracked processes at any sample in a call: a lower bound.
    """

    path: tuple[str, ...]
    calls: int
    errors: int
    not_ended: int
    wall_time: float
    share: float | None
    thread_cpu: float | None
    cpu: Bounded | None
    ram: Bounded | None
    gpu_utilization: float | None
    gpu_coverage: float
    gpu_ram: float | None


def merged(regions: Sequence[Region]) -> tuple[list[Node], int]:
    """Return the nodes in the order in which a tree is printed, and how many regions lie too deep to be in it."""
    known = {region.id: region for region in regions}
    top = Node(())
    nodes: dict[int, Node | None] = {}
    left_out = 0
    for region in regions:
        for one in reversed(_unplaced(region, known, nodes)):
            above = top if one.parent_id is None else nodes.get(one.parent_id, top)
            if above is None or len(above.path) >= MOST_LEVELS:
                nodes[one.id] = None
                left_out += one.calls
                continue
            node = above.children.get(one.name)
            if node is None:
                node = above.children[one.name] = Node((*above.path, one.name))
            node.regions.append(one)
            nodes[one.id] = node
    return list(_in_order(top)), left_out


def has_short_calls(found: PathFigures, interval: float | None) -> bool:
    """Return whether calls last less than two sampling intervals on average: the GPU in them is a guess."""
    return found.wall_time < _LEAST_SAMPLES * found.calls * (interval or 0.0)


def figures_of(node: Node, used: SpanFigures, duration: float | None) -> PathFigures:
    """Return what the calls of a node used.

    :param duration: That of the run in seconds.
    """
    regions = node.regions
    spans = union((region.start, region.seen_until) for region in regions if not region.is_folded)
    folded = [region for region in regions if region.is_folded]
    open_for = sum(stop - start for start, stop in spans) + sum(
        min(region.wall_time or 0.0, region.seen_until - region.start) for region in folded
    )
    covered = [(region.gpu_coverage * _length(region), region.gpu_utilization) for region in regions]
    weight = sum(seconds for seconds, mean in covered if mean is not None)
    length = sum(map(_length, regions))
    threads = [region.thread_cpu for region in regions]
    gpu_ram = [region.gpu_ram for region in regions if region.gpu_ram is not None]
    not_ended = sum(not region.has_ended for region in regions)
    return PathFigures(
        path=node.path,
        calls=sum(region.calls for region in regions),
        errors=sum(region.errors for region in regions),
        not_ended=not_ended,
        wall_time=sum(_length(region) if region.wall_time is None else region.wall_time for region in regions),
        share=min(1.0, open_for / duration) if duration else None,
        thread_cpu=None if None in threads else sum(cpu for cpu in threads if cpu is not None),
        cpu=_cpu(spans, folded, used, has_unfinished=not_ended > 0),
        ram=_largest([region.ram for region in regions]),
        gpu_utilization=sum(seconds * mean for seconds, mean in covered if mean is not None) / weight
        if weight > 0
        else None,
        gpu_coverage=min(1.0, weight / length) if length > 0 else 0.0,
        gpu_ram=max(gpu_ram, default=None),
    )


def union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the spans of time that lie in at least one of ``spans``, in order, none touching another."""
    found: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return found


def _cpu(
    spans: Sequence[tuple[float, float]], folded: Sequence[Region], used: SpanFigures, *, has_unfinished: bool
) -> Bounded | None:
    """Return the sum over spans that lie apart, not above what was used from the first to the last."""
    parts = [used.cpu(start, stop) for start, stop in spans]
    parts += [region.cpu for region in folded]
    known = [part for part in parts if part is not None]
    if not known:
        return None
    begin = min([*(span[0] for span in spans), *(region.start for region in folded)])
    end = max([*(span[1] for span in spans), *(region.seen_until for region in folded)])
    whole = used.cpu(begin, end)
    lower = sum(part.lower or 0.0 for part in known)
    if has_unfinished:
        return Bounded(None, lower, None)
    uppers = [part.upper for part in known]
    upper = None if None in uppers else sum(part.upper or 0.0 for part in known)
    if whole is not None and whole.upper is not None:
        upper = whole.upper if upper is None else min(upper, whole.upper)
    values = [part.value for part in known]
    if None in values:
        return Bounded(None, lower, upper)
    value = max(lower, sum(part.value or 0.0 for part in known))
    return Bounded(value if upper is None else min(value, upper), lower, upper)


def _largest(peaks: Sequence[Bounded | None]) -> Bounded | None:
    known = [peak for peak in peaks if peak is not None]
    if not known:
        return None
    lower = max((peak.lower for peak in known if peak.lower is not None), default=None)
    uppers = [peak.upper for peak in known if peak.upper is not None]
    upper = max(uppers) if len(uppers) == len(peaks) else None
    return Bounded(upper if lower == upper else None, lower, upper)


def _length(region: Region) -> float:
    return region.seen_until - region.start


def _unplaced(region: Region, known: dict[int, Region], nodes: dict[int, Node | None]) -> list[Region]:
    """Return the region and those around it that have no node yet, from the inside out."""
    found: list[Region] = []
    current: Region | None = region
    while current is not None and current.id not in nodes:
        found.append(current)
        current = None if current.parent_id is None else known.get(current.parent_id)
    return found


def _in_order(top: Node) -> Iterator[Node]:
    waiting = list(reversed(top.children.values()))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children.values()))
