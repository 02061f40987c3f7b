"""What this project wants of itself: ratios to gpu-tracker 5.0.1 in the same run, limits, and to be the fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import cost, effect, fleet_page, fleet_rounds, floor, latency
from benchmarks.arithmetic import mean_interval, median_of, ratio_of
from benchmarks.children_tables import children_targets
from benchmarks.fleet import PART as FLEET
from benchmarks.inventory_tables import fastest_rows
from benchmarks.peers import OURS, THE_OLDER
from benchmarks.tables import DASH, Table, fraction, number

if TYPE_CHECKING:
    from benchmarks.results import Results
    from benchmarks.running import Workload

_MILLI = 1000
_MEGA = 1e-6
_MOST_ADDED = 0.5
"""Percent of the run time of a program."""
_MOST_FLOORS = 3
_EXACT = 0.01
"""The part by which a period may be off."""
_ANSWERS = {True: 'yes', False: '**no**', None: 'unclear'}


@dataclass(frozen=True)
class Target:
    """A figure that is to be small.

    :ivar what: As the table calls it, with its unit.
    :ivar scale: By which base units are multiplied for the table.
    :ivar ratio: How much of the older implementation's figure it may be, or None.
    :ivar limit: How large it may be, in the table's unit, or None.
    """

    what: str
    part: str
    row: str
    kind: str
    scale: float
    ratio: float | None = None
    limit: float | None = None

    def is_met(self, ours: float, ratio: float | None) -> bool | None:
        """Tell whether a figure, in the table's unit, and its ratio are small enough; None: nothing can be compared."""
        if self.limit is not None:
            return ours <= self.limit
        return None if ratio is None or self.ratio is None else ratio <= self.ratio


def _cpu(workload: Workload, ratio: float) -> Target:
    return Target(f'CPU a sample, {workload.name} (ms)', cost.PART, workload.name, 'cpu a sample', _MILLI, ratio)


def _stop(interval: float) -> Target:
    row = latency.START_AND_STOP.format(interval)
    return Target(f'stop() at {interval:g} s (ms)', latency.PART, row, 'stop', _MILLI, limit=10)


_FLEET_ROUND = fleet_rounds.WITH_A_PAGE.name
_FIRST = latency.START_AND_STOP.format(latency.INTERVALS[0])
TARGETS = (
    _cpu(cost.SMALL, 1 / 40),
    _cpu(cost.LARGE, 1 / 60),
    Target(f'CPU a sample, {cost.LARGE_RUN} (ms)', cost.PART, cost.LARGE_RUN, cost.OVER_A_RUN, _MILLI, 1 / 60),
    _cpu(cost.IDLE_50, 1 / 100),
    _cpu(cost.WORKING_50, 1 / 100),
    _cpu(cost.IDLE_300, 1 / 100),
    _cpu(cost.WORKING_300, 1 / 100),
    Target('RSS of the sampler, 1 process, 50 MB (MB)', cost.PART, cost.SMALL.name, 'rss', _MEGA, 1 / 4),
    Target(
        'sampling period, 300 descendants, idle (s)',
        cost.PART,
        cost.IDLE_300.name,
        'period',
        1,
        limit=cost.INTERVAL * (1 + _EXACT),
    ),
    Target('import (ms)', latency.PART, latency.IMPORT, 'seconds', _MILLI, 1 / 25),
    Target('start() until the first sample (ms)', latency.PART, _FIRST, 'first sample', _MILLI, 1 / 2),
    *(_stop(interval) for interval in latency.INTERVALS),
    Target('command around true (ms)', latency.PART, latency.AROUND_TRUE, 'seconds', _MILLI, 1 / 6),
    Target('longest round of 1,000 hosts, until a page is told (s)', FLEET, _FLEET_ROUND, 'longest told', 1, limit=2),
    Target(
        'first paint of the page with 1,000 hosts (s)', FLEET, fleet_page.OPENINGS[0].row, 'first paint', 1, limit=1
    ),
    Target(
        'longest frame while the page with 1,000 GPUs is scrolled (ms)',
        FLEET,
        fleet_page.SCROLLINGS[0].row,
        'longest',
        _MILLI,
        limit=_MILLI * fleet_page.LONG_FRAME,
    ),
)


def target_table(results: Results) -> Table | None:
    """Return the table of all targets of which there are figures of ours."""
    rows = [row for target in TARGETS if (row := _target_row(results, target))]
    rows += [row for name in results.rows(effect.PART) if (row := _effect_row(results, name))]
    rows += [*fastest_rows(results), *children_targets(results)]
    if not rows:
        return None
    columns = ['what', THE_OLDER.name, 'ours', 'ratio', 'target', 'met']
    return Table('Targets', columns, rows)


def floor_table(results: Results) -> Table | None:
    """Return what a sample costs as a multiple of what it costs the C program of ``floor.c``."""
    rows = []
    for row in results.rows(cost.PART):
        ours = results.rounds(cost.PART, row, OURS.name, 'cpu a sample')
        lowest = results.rounds(cost.PART, row, floor.NAME, 'cpu a sample')
        ratio, middle, least = ratio_of(ours, lowest), median_of(ours), median_of(lowest)
        if ratio is None or middle is None or least is None:
            continue
        met = _ANSWERS[ratio <= _MOST_FLOORS]
        cells = [number(least * _MILLI), number(middle * _MILLI), number(ratio), f'≤ {_MOST_FLOORS}', met]
        rows.append([row, *cells])
    if not rows:
        return None
    text = (
        'CPU milliseconds a sample of a C program that reads what a sample of ours reads and does nothing else, and of '
        'ours, at 0.1 s.'
    )
    return Table('Against the floor', ['workload', 'floor', 'ours', 'ratio', 'target', 'met'], rows, text)


def _target_row(results: Results, target: Target) -> list[str] | None:
    ours = results.rounds(target.part, target.row, OURS.name, target.kind)
    older = results.rounds(target.part, target.row, THE_OLDER.name, target.kind)
    middle, theirs, ratio = median_of(ours), median_of(older), ratio_of(ours, older)
    if middle is None:
        return None
    wanted = f'≤ {number(target.limit)}' if target.limit is not None else f'≤ {fraction(target.ratio or 0)}'
    return [
        target.what,
        DASH if theirs is None else number(theirs * target.scale),
        number(middle * target.scale),
        DASH if ratio is None else fraction(ratio),
        wanted,
        _ANSWERS[target.is_met(middle * target.scale, ratio)],
    ]


def _effect_row(results: Results, name: str) -> list[str] | None:
    ours = mean_interval(list(effect.added_percent(results, name, OURS.name).values()))
    theirs = mean_interval(list(effect.added_percent(results, name, THE_OLDER.name).values()))
    if ours is None:
        return None
    return [
        f'run time added to a program that {name} (%)',
        DASH if theirs is None else f'{theirs.mean:.2f}',
        f'{ours.mean:.2f} ({ours.low:.2f} to {ours.high:.2f})',
        DASH,
        f'0 or < {_MOST_ADDED:g}',
        _ANSWERS[ours.is_harmless(_MOST_ADDED)],
    ]
