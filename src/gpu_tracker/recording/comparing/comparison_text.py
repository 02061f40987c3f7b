"""A comparison as text: a table of the figures, one of the regions, and what else differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.figures import AT_LEAST
from gpu_tracker.limits import exit_code_in_words
from gpu_tracker.recording.comparing.conditions import parse
from gpu_tracker.recording.comparing.run_values import IO_FIGURES, REGIONS, written
from gpu_tracker.system.terminal_text import GAP, padded, printable, width_of
from gpu_tracker.units import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from gpu_tracker.recording.comparing.compared import ComparedFigure, Finding, GroupValues
    from gpu_tracker.recording.comparing.comparison import Comparison

_PER_UNIT = '_hardware_percent'
"""These percentages are the others divided by a number that is the same in all runs of a machine."""
_UNKNOWN = 'N/A'
_MOST_NAMED = 5
"""Regions that one note names."""
_REGION_PREFIX = f'{REGIONS}.'
_MAIN = ('compute_time.time', 'max_ram.combined.total_rss', 'cpu_utilization.combined.mean_sum_percent')
_OF_GPUS = ('gpus.max_ram.combined', 'gpus.utilization.mean_percent', 'gpus.own_utilization.mean_percent')
_OF_SUMS = ('max_gpu_ram.combined', 'gpu_utilization.gpu_percentages.mean_sum_percent')
"""The main figures. GPUs: the fullest and busiest, or the sums if a result has no others."""


class Pair(NamedTuple):
    """What there is to see of a group and the first one.

    :ivar heading: How many runs each has.
    :ivar titles: Those of the columns.
    :ivar figures: All figures but those that are 0 or unknown in all runs, and percentages by hardware.
    """

    heading: str
    titles: Sequence[str]
    figures: Sequence[ComparedFigure]

    def tables(self) -> Iterator[list[Sequence[str]]]:
        """Yield a table of the figures of the runs, and one of those of regions: the titles, and rows of cells."""
        for of_regions in (False, True):
            rows = [cells(one) for one in self.figures if one.name.startswith(_REGION_PREFIX) is of_regions]
            if rows:
                yield [self.titles, *rows]

    def main(self) -> Pair:
        """Return the main figures."""
        names = {*_MAIN, *(_OF_GPUS if any(figure.name.startswith('gpus.') for figure in self.figures) else _OF_SUMS)}
        return self.only(lambda figure: figure.name in names)

    def only(self, is_wanted: Callable[[ComparedFigure], bool]) -> Pair:
        """Return the same with fewer figures."""
        return self._replace(figures=[figure for figure in self.figures if is_wanted(figure)])

    def changed_and(self, deciding: Collection[str]) -> Pair:
        """Return the same with figures that have changed, and those with these names."""
        names = {figure.name for figure in self.without_repetitions().figures if figure.has_changed}
        return self.only(lambda figure: figure.name in names or figure.name in deciding)

    def without_repetitions(self) -> Pair:
        """Return the same without figures of main that are those of all processes."""
        values = {figure.name: (figure.first.values, figure.other.values) for figure in self.figures}
        return self.only(
            lambda figure: (
                '.main.' not in figure.name
                or values[figure.name] != values.get(figure.name.replace('.main.', '.combined.'))
            )
        )


def as_text(comparison: Comparison, findings: Sequence[Finding] = (), *, shows_all: bool = False) -> str:
    """Return what has changed, the figures of the conditions, and what was found of these.

    :param shows_all: Also show figures that have not changed.
    """
    deciding = figures_of(findings)
    blocks: list[list[str]] = []
    for pair in pairs_of(comparison):
        shown = pair if shows_all else pair.changed_and(deciding)
        blocks += [[pair.heading], *map(_table, shown.tables()), [*_left_out(pair, shown)]]
    for title, entries in (('Notes', notes(comparison)), ('Conditions', conditions(findings))):
        found = [f'   {entry}' for entry in entries]
        blocks.append([f'{title}:', *found] if found else [])
    return '\n\n'.join('\n'.join(map(printable, block)) for block in blocks if block)


def figures_of(findings: Iterable[Finding]) -> set[str]:
    """Return the names of the figures of conditions."""
    return {written(parse(finding.expression).name) for finding in findings}


def _left_out(pair: Pair, shown: Pair) -> Iterator[str]:
    """Yield how many figures without a clear change are not shown."""
    unchanged = sum(not figure.has_changed for figure in pair.figures)
    unchanged -= sum(not figure.has_changed for figure in shown.figures)
    if not pair.figures:
        yield 'No figure is known.'
    elif unchanged:
        yield f'No clear change: {_number(unchanged, "figure")} (see --all).'


def as_summary(comparison: Comparison, findings: Sequence[Finding] = ()) -> str:
    """Return the main figures of a comparison, and what was found of its conditions."""
    blocks: list[list[str]] = []
    for pair in pairs_of(comparison):
        shown = pair.main()
        blocks.append([pair.heading, *(line for table in shown.tables() for line in _table(table))])
        blocks.append([*_left_out(shown, shown)])
    blocks.append([*conditions(findings)])
    return '\n\n'.join('\n'.join(map(printable, block)) for block in blocks if block)


def pairs_of(comparison: Comparison) -> Iterator[Pair]:
    """Yield what there is to see of each group but the first."""
    first, *others = comparison.groups
    for other in others:
        runs = f'{_number(len(first.runs), "run")} of {first.name}, {_number(len(other.runs), "run")} of {other.name}'
        figures = [figure for figure in comparison.figures if figure.other.group == other.name]
        hidden = _called_once(figures)
        unpaired = set(_unpaired(figures))
        shown = [
            figure
            for figure in figures
            if _is_shown(figure) and figure.name not in hidden and _region_of(figure) not in unpaired
        ]
        yield Pair(runs, ('', first.name, other.name, 'ratio', '95 % interval', 'verdict'), shown)


def _is_shown(figure: ComparedFigure) -> bool:
    if figure.name.endswith(_PER_UNIT):
        return False
    return any(value for group in (figure.first, figure.other) for value in group.values)


_CALLS = '.calls'


def _called_once(figures: Iterable[ComparedFigure]) -> set[str]:
    """Return the names of the figures that say nothing of regions which each run has called once."""
    alone = {
        figure.name.removesuffix(_CALLS)
        for figure in figures
        if figure.name.startswith(_REGION_PREFIX)
        and figure.name.endswith(_CALLS)
        and {*figure.first.values, *figure.other.values} <= {1, None}
    }
    return {f'{region}{figure}' for region in alone for figure in (_CALLS, '.mean_wall_time', '.longest_call')}


def _unpaired(figures: Iterable[ComparedFigure]) -> Iterator[str]:
    """Yield the regions that only one of the groups has: the notes name these."""
    for figure in figures:
        if figure.name.startswith(_REGION_PREFIX) and figure.name.endswith(_CALLS):
            sides = (figure.first.values, figure.other.values)
            if any(all(value is None for value in values) for values in sides):
                yield _region_of(figure)


def _region_of(figure: ComparedFigure) -> str:
    """Return what the name of a figure begins with, such as ``regions.load``."""
    before, _, last = figure.name.rpartition('.')
    return before.removesuffix('.io') if last in IO_FIGURES else before


def cells(figure: ComparedFigure) -> tuple[str, ...]:
    """Return the row of a figure: name, both values, ratio, interval, verdict."""
    values = (_mean_text(figure.first, figure.unit), _mean_text(figure.other, figure.unit))
    if figure.ratio is None:
        return figure.name, *values, _UNKNOWN, '', figure.problem or ''
    interval = '' if figure.low is None or figure.high is None else f'{figure.low:.3f} to {figure.high:.3f}'
    return figure.name, *values, f'{figure.ratio:.3f}', interval, figure.verdict or ''


def _mean_text(group: GroupValues, unit: str) -> str:
    """Return the mean, or the only value: that may be 0."""
    value = group.values[0] if len(group.values) == 1 else group.mean
    return _UNKNOWN if value is None else f'{AT_LEAST if group.is_lower_bound else ""}{text_of(value, unit)}'


WORDS = {0, 5}
"""The columns that hold words: the figure and the verdict."""


def filled(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns of a table that have more than a title."""
    return [index for index in range(len(rows[0])) if any(row[index] for row in rows[1:])]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with their cells below each other; columns with nothing but a title are left out."""
    columns = filled(rows)
    widths = {index: max(width_of(printable(row[index])) for row in rows) for index in columns}
    padded_rows = [
        [padded(printable(row[index]), widths[index], to_the_right=index not in WORDS) for index in columns]
        for row in rows
    ]
    return [(' ' * GAP).join(cells).rstrip() for cells in padded_rows]


def notes(comparison: Comparison) -> Iterator[str]:
    """Yield what may be why figures differ."""
    for difference in comparison.differences:
        values = '; '.join(f'{group}: {", ".join(found)}' for group, found in difference.values)
        yield f'The runs differ in {difference.name}: {values}.'
    unpaired: dict[tuple[str, ...], list[str]] = {}
    for region in comparison.unpaired_regions:
        unpaired.setdefault(region.present, []).append(region.name)
    for present, names in unpaired.items():
        more = len(names) - _MOST_NAMED
        named = [*names[:_MOST_NAMED], f'{more:,} more'] if more > 0 else names
        regions = f'region {names[0]} is' if len(names) == 1 else f'regions {_list(named)} are'
        yield f'The {regions} in {_list(present)} only.'
    for group in comparison.groups:
        for run in group.runs:
            if not run.is_complete:
                yield f'{run.path} ({group.name}) is incomplete: its figures are those up to where it ends.'
            if run.exit_code:
                yield f'The command of {run.path} ({group.name}) ended {exit_code_in_words(run.exit_code)}.'
    if all(len(group.runs) == 1 for group in comparison.groups):
        yield 'One run a group has no interval and no verdict: two runs of the same program differ as well.'


def conditions(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what was found of each condition."""
    for finding in findings:
        yield f'{"passed" if finding.passed else "FAILED"}  {finding.expression}: {finding.text}'


def _number(number: int, what: str) -> str:
    return f'{number} {what}' if number == 1 else f'{number} {what}s'


def _list(names: Sequence[str]) -> str:
    return ' and '.join([', '.join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
