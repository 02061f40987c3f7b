"""The regions as the sub-tracking file of gpu-tracker 5: a line at the start and at the stop of each call.

Its columns are ``process_id``, ``code_block_name``, ``position`` (0: start, 1: stop) and ``timestamp``, in seconds
since 1970. Calls that were folded are spread evenly over the time in which they were made: their number and their
total time are right, their moments are not known. Regions that have not ended are left out, since the analyzer of
gpu-tracker 5 fails on a start without a stop.
"""

from __future__ import annotations

import csv
import heapq
import io
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpu_tracker.recording.reading.model import Region
    from gpu_tracker.recording.reading.recording import Recording

    Line = tuple[float, int, str, int]
    """Seconds since the first sample, pid, name, position."""

HEADER = ('process_id', 'code_block_name', 'position', 'timestamp')
_MICRO = 1e6
_LINES_AT_ONCE = 1000
_START, _STOP = 0, 1


def pieces(recording: Recording) -> Iterator[bytes]:
    """Yield the lines in the order of time, some at once."""
    began = recording.meta.start_unix_us or 0
    yield _csv([HEADER])
    lines = _lines(recording.regions)
    while some := list(islice(lines, _LINES_AT_ONCE)):
        yield _csv((pid, name, position, (began + round(t * _MICRO)) / _MICRO) for t, pid, name, position in some)


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors='replace')


def _lines(regions: Iterable[Region]) -> Iterator[Line]:
    single: list[Line] = []
    folded: list[Iterator[Line]] = []
    for region in regions:
        if region.stop is None:
            continue
        if region.is_folded:
            folded += [_edges_of_folded(region, _START), _edges_of_folded(region, _STOP)]
        else:
            single.append((region.start, region.process_id, region.name, _START))
            single.append((region.stop, region.process_id, region.name, _STOP))
    single.sort(key=lambda line: line[0])  # stable: a region of no length starts before it stops
    yield from heapq.merge(single, *folded, key=lambda line: line[0])


def _edges_of_folded(region: Region, position: int) -> Iterator[Line]:
    mean = (region.wall_time or 0.0) / region.calls
    last_start = max(region.start, (region.stop or region.start) - mean)
    step = (last_start - region.start) / max(1, region.calls - 1)
    for call in range(region.calls):
        start = region.start + call * step
        yield start if position == _START else start + mean, region.process_id, region.name, position
