"""Regions of a program across the ranks of a job: which rank was the slowest, and how long the others waited. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.jobs.job_report import JobRegion
from gpu_tracker.recording.reading.region_rows import RegionCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Path = tuple[str, ...]


def merged_regions(ranks: Iterable[tuple[str, Sequence[RegionCall]]]) -> tuple[JobRegion, ...]:
    """Return each region in the order in which it was first met.

    :param ranks: The labels of the ranks, and their calls in the order of their start.
    """
    found: dict[Path, dict[str, list[RegionCall]]] = {}
    for label, calls in ranks:
        for call in calls:
            found.setdefault(call.path, {}).setdefault(label, []).append(call)
    return tuple(_region(path, found[path]) for path in _in_order(found))


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """Return the paths with each region behind the one that it is in."""
    place: dict[Path, int] = {}
    for path in paths:
        for depth in range(1, len(path) + 1):
            place.setdefault(path[:depth], len(place))
    return sorted(paths, key=lambda path: [place[path[:depth]] for depth in range(1, len(path) + 1)])


def _region(path: Path, of_ranks: dict[str, list[RegionCall]]) -> JobRegion:
    totals = {label: sum(call.seconds for call in calls) for label, calls in of_ranks.items()}
    slowest = max(totals, key=lambda label: totals[label])
    counts = {len(calls) for calls in of_ranks.values()}
    is_by_call = len(counts) == 1 and all(call.calls == 1 for calls in of_ranks.values() for call in calls)
    rows = list(of_ranks.values()) if is_by_call else [[RegionCall(path, 0.0, total, 1)] for total in totals.values()]
    longest = sum(max(call.seconds for call in same) for same in zip(*rows, strict=True))
    mean = sum(totals.values()) / len(totals)
    return JobRegion(
        path=path,
        ranks=len(of_ranks),
        calls=sum(call.calls for calls in of_ranks.values() for call in calls),
        slowest_rank=slowest,
        max_seconds=totals[slowest],
        mean_seconds=mean,
        waiting_share=max(0.0, 1 - mean / longest) if longest > 0 and len(of_ranks) > 1 else None,
        is_by_call=is_by_call,
    )
