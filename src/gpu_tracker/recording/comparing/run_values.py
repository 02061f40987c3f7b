"""The figures of one run under dotted names and in base units, as a comparison wants them.

The names are those of the result's fields, such as ``max_ram.combined.total_rss``. A region's figures are
``regions.NAME.wall_time`` and so on: sums over its calls, and maxima of RAM.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker import figures
from gpu_tracker.result import usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.recording.reading.model import Bounded, Region

Name = tuple[str, ...]
"""The parts of a figure's name, between the dots."""

REGIONS = 'regions'
"""The first part of the names of regions' figures."""
_IO = 'io'
_OF_GPUS = ('gpus', 'gpu_activity')
"""Sections with an entry for each GPU."""
_PLACE = re.compile('(?:[a-z_]+:)?[0-9]+')

_SHORT: dict[Name, Name] = {
    ('compute_time',): ('compute_time', 'time'),
    **{('max_ram', group): ('max_ram', group, 'total_rss') for group in ('main', 'descendants', 'combined')},
}
"""Names that may be written instead of longer ones."""


class RunValue(NamedTuple):
    """A value in its base unit: bytes, seconds, percent, joules, count or bytes/s. Unknown is None.

    :ivar is_lower_bound: It may be too low.
    """

    unit: str
    value: float | None
    is_lower_bound: bool = False


def values_of(result: usage.ResourceUsage) -> dict[Name, RunValue]:
    """Return the figures of a result in the order of its report, but those of sections that it does not have."""
    return {
        name: RunValue(unit, figures.value(result, path), path in result.lower_bounds)
        for name, unit in result_units().items()
        if getattr(result, name[0]) is not None
        for path in ('.'.join(name),)
    }


def values_by_gpu(result: usage.ResourceUsage, places: Iterable[str]) -> dict[Name, RunValue]:
    """Return the figures of each GPU by itself; 0 is what a run has used of a GPU that it has not used.

    :param places: What names the GPUs of all runs that are compared.
    """
    return {
        (name[0], place, *name[1:]): RunValue(unit, figures.value(result, path), path in result.lower_bounds)
        for name, unit in result_units().items()
        if name[0] in _OF_GPUS and getattr(result, name[0]) is not None
        for place in places
        for path in ('.'.join((name[0], place, *name[1:])),)
    }


def place_in(name: Name) -> str | None:
    """Return what names the GPU of a figure such as ``gpus.3.max_ram.combined``; None: it is of no single GPU."""
    is_of_one = len(name) > 2 and name[0] in _OF_GPUS and _PLACE.fullmatch(name[1])  # noqa: PLR2004 - and the figure
    return name[1] if is_of_one and (name[0], *name[2:]) in result_units() else None


def unit_of(name: Name) -> str:
    """Return the base unit of a figure that some run can have."""
    if name[0] != REGIONS:
        return result_units()[name if place_in(name) is None else (name[0], *name[2:])]
    found = REGION_FIGURES.get(name[-1])
    return io_unit(name[-1]) if found is None else found[0]


@cache
def result_units() -> Mapping[Name, str]:
    """Return all figures that a result can have, with their base units."""
    return {
        tuple(path.split('.')): row.unit
        for path, row in figures.figures().items()
        if not row.is_given and row.unit not in figures.TEXTS
    }


def region_values(regions: Iterable[Region]) -> dict[Name, RunValue]:
    """Return the figures of all regions by their names, in the order in which these were first entered."""
    by_name: dict[str, list[Region]] = defaultdict(list)
    for region in regions:
        by_name[region.name].append(region)
    found: dict[Name, RunValue] = {}
    for name, calls in by_name.items():
        for figure, (unit, read) in REGION_FIGURES.items():
            found[REGIONS, name, figure] = RunValue(unit, read(calls))
        for part in sorted({part for call in calls for part in call.io or ()}):
            values = [None if call.io is None else _middle(call.io.get(part)) for call in calls]
            found[REGIONS, name, _IO, part] = RunValue(io_unit(part), _sum(values))
    return found


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; None where a part of it is unknown."""
    known: list[float] = []
    for value in values:
        if value is None:
            return None
        known.append(value)
    return math.fsum(known)


def _largest(values: Iterable[float | None]) -> float | None:
    """Return the largest known value: a lower bound where others are unknown."""
    return max((value for value in values if value is not None), default=None)


def _middle(bounded: Bounded | None) -> float | None:
    return None if bounded is None else bounded.value


def _mean_wall_time(calls: list[Region]) -> float | None:
    total = _sum(call.wall_time for call in calls)
    number = sum(call.calls for call in calls)
    return None if total is None or number <= 0 else total / number


def _longest(calls: list[Region]) -> float | None:
    """Return the longest call; None where one has not ended, which may become longer than all others."""
    longest = [call.longest if call.longest is not None else call.wall_time for call in calls]
    return None if None in longest else _largest(longest)


def _ram(calls: list[Region]) -> float | None:
    """Return the most RAM of a call; None where another call, whose own is unknown, may have had more."""
    most = _largest(_middle(call.ram) for call in calls)
    for call in calls:
        upper = None if call.ram is None else call.ram.upper
        if _middle(call.ram) is None and (most is None or upper is None or upper > most):
            return None
    return most


def _gpu_utilization(calls: list[Region]) -> float | None:
    """Return the mean over the time of which it is known."""
    known = [
        (call.gpu_utilization, (call.seen_until - call.start) * call.gpu_coverage)
        for call in calls
        if call.gpu_utilization is not None
    ]
    time = math.fsum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / time if time > 0 else None


REGION_FIGURES: dict[str, tuple[str, Callable[[list[Region]], float | None]]] = {
    'wall_time': ('seconds', lambda calls: _sum(call.wall_time for call in calls)),
    'mean_wall_time': ('seconds', _mean_wall_time),
    'longest_call': ('seconds', _longest),
    'calls': ('count', lambda calls: sum(call.calls for call in calls)),
    'errors': ('count', lambda calls: sum(call.errors for call in calls)),
    'thread_cpu': ('seconds', lambda calls: _sum(call.thread_cpu for call in calls)),
    'cpu': ('seconds', lambda calls: _sum(_middle(call.cpu) for call in calls)),
    'ram': ('bytes', _ram),
    'combined_ram': ('bytes', lambda calls: _largest(call.combined_ram for call in calls)),
    'gpu_ram': ('bytes', lambda calls: _largest(call.gpu_ram for call in calls)),
    'gpu_utilization': ('percent', _gpu_utilization),
    'energy': ('joules', lambda calls: _sum(call.energy for call in calls)),
}
"""The figures of a region but those of ``io``: the unit of each, and how it follows from the region's calls."""

IO_FIGURES = tuple(
    field.name for field in fields(usage.IOValues) if not field.name.endswith(('_per_second', '_switches'))
)
"""The figures of a region's ``io``."""


def io_unit(figure: str) -> str:
    """Return the base unit of one of :data:`IO_FIGURES`."""
    return 'count' if figure.endswith('_faults') else 'bytes'


_PLAIN = re.compile(r'[^\W\d][\w-]*')


def written(name: Name) -> str:
    """Return a name as it is written: ``regions."my step".wall_time``, with quotes where a region's name needs them."""
    if name[0] != REGIONS or len(name) < 3 or _PLAIN.fullmatch(name[1]):  # noqa: PLR2004 - with its figure
        return '.'.join(name)
    region = name[1].replace('\\', '\\\\').replace('"', '\\"')
    return '.'.join([name[0], f'"{region}"', *name[2:]])


def canonical(name: Name) -> Name:
    """Return the name that the short one stands for; that of a region with the dots in it as one part."""
    if name[0] != REGIONS:
        return _SHORT.get(name, name)
    has_io = len(name) > 3 and name[-2] == _IO  # noqa: PLR2004 - ('regions', NAME, 'io', FIGURE)
    figure = name[-2:] if has_io else name[-1:]
    return (REGIONS, '.'.join(name[1 : -len(figure)]), *figure)


def is_possible(name: Name) -> bool:
    """Return whether some run can have the figure ``name``."""
    if name[0] != REGIONS:
        return name in result_units() or place_in(name) is not None
    if len(name) < 3 or not name[1]:  # noqa: PLR2004 - ('regions', NAME, FIGURE)
        return False
    return name[-1] in (IO_FIGURES if len(name) > 3 else REGION_FIGURES)  # noqa: PLR2004 - with io


def short_names() -> list[str]:
    """Return the names that may be written instead of longer ones."""
    return ['.'.join(name) for name in _SHORT]
