"""Groups of recordings for tests of comparing: runs that used so much RAM, and whose regions took so long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.recordings import IO_COLUMNS, region, totals_of, write_recording

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MB = 10**6


def run(
    path: Path,
    *,
    ram: float | None = 100 * MB,
    seconds: float = 10.0,
    regions: Mapping[str, float | None] | None = None,
    totals: str = 'plain',
    **meta: object,
) -> str:
    """Write a recording of a run.

    :param ram: The most RAM of the whole tree, in bytes.
    :param seconds: How long it took.
    :param regions: By name, the wall time of a call, None for one that has not ended.
    :param totals: Which recorded run all other figures are from.
    :param meta: What is different from a run that went well.
    """
    figures: dict[str, Any] = totals_of(totals)
    figures['ram']['combined'][0] = ram
    figures['seconds'] = seconds
    figures['record']['tracked_seconds'] = None
    rows = [
        region(number, name, number, None if time is None else number + time)
        for number, (name, time) in enumerate((regions or {}).items(), 1)
    ]
    return write_recording(path, regions=rows, meta={'totals': json.dumps(figures), **meta}, columns=IO_COLUMNS)


def runs(folder: Path, name: str, values: list[float | None]) -> list[str]:
    """Write a recording for each of these RAM maxima in megabytes."""
    return [
        run(folder / f'{name}{number}.db', ram=None if value is None else value * MB)
        for number, value in enumerate(values)
    ]
