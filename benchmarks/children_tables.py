"""What the figures of the parts ``children`` and ``children-cost`` say."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import children, children_cost
from benchmarks.arithmetic import median_of, percentile
from benchmarks.children import OURS_BY_COMMAND, OURS_BY_LIBRARY, WAYS
from benchmarks.peers import THE_OLDER
from benchmarks.short_children import CASES, ONE, Case
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from benchmarks.results import Results

_PERCENT = 100
_MILLI = 1000
_LOW = 10
"""The percentile that is shown beside the smallest ratio."""
_NOT_KNOWN = 'N/A'
_WORDS = {'descendants': 'the descendants', 'combined': 'main and its descendants together'}
_GROUPS = tuple(_WORDS)
_OURS = (OURS_BY_LIBRARY.name, OURS_BY_COMMAND.name)
_OLDER = tuple(way.name for way in WAYS if way.peer is THE_OLDER)
_ALL = 'all'
"""The row of the gap of a tool that could not be had."""
_STRETCHED = 1.1


def children_tables(results: Results) -> list[Table]:
    """Return the tables; one of which there are no figures has no rows."""
    return [*(_ratio_table(results, group) for group in _GROUPS), _cost_table(results)]


def _ratio_table(results: Results, group: str) -> Table:
    ways = [way for way in WAYS if any(_ratios(results, case, way.name, group) for case in CASES)]
    rows = []
    for case in CASES:
        cells = [_cell(results, case, way.name, group) for way in ways]
        if set(cells) - {DASH}:
            rows.append([case.children, f'{case.interval:g}', *cells])
    text = (
        f'A child, or eight, that grow steadily to their end: how much memory {_WORDS[group]} had at most as measured, '
        'divided by how much they truly had. Smallest ratio, 10th percentile, median and largest of '
        f'{_runs_in_words(results)}, each with one child or one batch, at a random moment of a tree that was quiet '
        'before. Truth: high-water marks that the processes themselves read at their end, less the pages that they '
        'have in common, which are counted once, by page frames.'
    )
    return Table(
        f'Peak memory of short-lived children, {group}: measured / true',
        ['children that live', '--st', *(way.name for way in ways)],
        rows,
        text,
        _notes(results, children.PART) if group == _GROUPS[0] else [],
    )


def _runs_in_words(results: Results) -> str:
    def most(names: Collection[str]) -> int:
        return max((f.round + 1 for f in results.figures if f.part == children.PART and f.peer in names), default=0)

    others = most({way.name for way in WAYS} - set(_OURS))
    return f'{most(_OURS)} runs' + (f' of ours and {others} of others' if others else '')


def _ratios(results: Results, case: Case, way: str, group: str) -> Sequence[float]:
    true = results.rounds(children.PART, case.row, way, f'true {group}')
    return children.ratios(results.rounds(children.PART, case.row, way, f'measured {group}'), true)


def _unknown(results: Results, case: Case, way: str, group: str) -> int:
    """Return in how many runs a tool has said that it does not know."""
    runs = results.rounds(children.PART, case.row, way, f'true {group}')
    return len(runs) - len(_ratios(results, case, way, group))


def _cell(results: Results, case: Case, way: str, group: str) -> str:
    ratios, unknown = _ratios(results, case, way, group), _unknown(results, case, way, group)
    if not ratios:
        return _NOT_KNOWN if unknown else DASH
    shown = (ratios[0], percentile(ratios, _LOW), median(ratios), ratios[-1])
    return ' '.join(f'{ratio:.2f}' for ratio in shown) + (f' ({unknown} {_NOT_KNOWN})' if unknown else '')


def _cost_table(results: Results) -> Table:
    rows = []
    for case in children_cost.ROWS:
        for way in _OURS:
            shares = results.rounds(children_cost.PART, case.row, way, 'share')
            if not shares:
                continue
            ends = (min(shares.values()), max(shares.values()))
            own = median_of(results.rounds(children_cost.PART, case.row, way, 'own share'))
            start = median_of(results.rounds(children_cost.PART, case.row, way, 'start'))
            cells = [_in(_PERCENT, value) for value in (median_of(shares), *ends, own)]
            rows.append([case.children, f'{case.interval:g}', way, *cells, _in(_MILLI, start), str(len(shares))])
    return Table(
        'CPU time of the sampler while short-lived children come and go (% of a core)',
        ['children that live', '--st', 'way', 'median', 'smallest', 'largest', 'own record', 'start (ms)', 'rounds'],
        rows,
        'One child after the other, or eight at once again and again, for a minute (10 s with --quick): the CPU clock '
        'of the sampler, from one second after its start on. Own record: by what the sampler itself says, until its '
        'end, which is included. Start: milliseconds of CPU until the first second is over.',
        _notes(results, children_cost.PART),
    )


@dataclass(frozen=True)
class _Limit:
    """What the project wants of several rows.

    :ivar concerned: Tells whether a case belongs to them.
    """

    what: str
    concerned: Callable[[Case], bool]
    limit: float


def _is_long_and_alone(case: Case) -> bool:
    return case.life >= 0.3 and case.count == ONE  # noqa: PLR2004 - seconds


def _is_long_and_eight(case: Case) -> bool:
    return case.life >= 0.3 and case.count > ONE  # noqa: PLR2004 - seconds


_LEAST = (
    _Limit('smallest measured / true, children of 0.3 s and more, one after the other', _is_long_and_alone, 0.9),
    _Limit('smallest measured / true, the same eight at once', _is_long_and_eight, 0.9),
)
_LARGEST = _Limit('largest measured / true of short-lived children', lambda _: True, 1.01)
_COSTS = (
    _Limit('sampler, an idle tree at --st=1 (% of a core)', lambda case: case == children_cost.IDLE, 0.25),
    _Limit('sampler, children of 0.3 s and more, one after the other (%)', _is_long_and_alone, 1),
    _Limit(
        'sampler, other short-lived children (%)',
        lambda case: case != children_cost.IDLE and not _is_long_and_alone(case),
        2.5,
    ),
)


def children_targets(results: Results) -> list[list[str]]:
    """Return the rows of the table of targets: what, the older implementation's, ours, ratio, target, met."""
    rows = []
    for wanted in _LEAST:
        ours, theirs = ([min(r) for r in _all_ratios(results, ways, wanted)] for ways in (_OURS, _OLDER))
        if ours:
            worst = min(ours)
            cells = [f'{min(theirs):.3f}' if theirs else DASH, f'{worst:.3f}', DASH, f'≥ {wanted.limit:g}']
            rows.append([wanted.what, *cells, _answer(met=worst >= wanted.limit)])
    ours, theirs = ([max(r) for r in _all_ratios(results, ways, _LARGEST)] for ways in (_OURS, _OLDER))
    if ours:
        cells = [f'{max(theirs):.3f}' if theirs else DASH, f'{max(ours):.3f}', DASH, f'≤ {_LARGEST.limit:g}']
        rows.append([_LARGEST.what, *cells, _answer(met=max(ours) <= _LARGEST.limit)])
    for cost in _COSTS:
        concerned = [case.row for case in children_cost.ROWS if cost.concerned(case)]
        shares = [
            share * _PERCENT
            for row in concerned
            for way in _OURS
            if (share := median_of(results.rounds(children_cost.PART, row, way, 'share'))) is not None
        ]
        if shares:
            met = _answer(met=max(shares) <= cost.limit)
            rows.append([cost.what, DASH, number(max(shares)), DASH, f'≤ {cost.limit:g}', met])
    return rows


def _all_ratios(results: Results, ways: Collection[str], wanted: _Limit) -> Iterator[Sequence[float]]:
    """Yield the ratios of each way in each case that is concerned; a figure that is not known counts as 0."""
    for case in CASES:
        for way in ways:
            for group in _GROUPS:
                ratios = [*([0.0] * _unknown(results, case, way, group)), *_ratios(results, case, way, group)]
                if ratios and wanted.concerned(case):
                    yield ratios


def _answer(*, met: bool) -> str:
    return 'yes' if met else '**no**'


def _in(factor: float, value: float | None) -> str:
    return DASH if value is None else number(value * factor)


def _notes(results: Results, part: str) -> list[str]:
    """Say why there are dashes, and which children lived longer than they were meant to."""
    concerned: dict[tuple[str, str], list[str]] = {}
    for gap in results.gaps:
        if gap.part == part:
            concerned.setdefault((gap.peer, gap.reason), []).append(gap.row)
    notes = []
    for (peer, reason), where in concerned.items():
        place = '' if _ALL in where else f', {"; ".join(dict.fromkeys(where))}'
        notes.append(f'{DASH} {peer}{place}: {reason}')
    for case in CASES:
        lives = [f.value for f in results.figures if (f.part, f.row, f.kind) == (part, case.row, 'life')]
        if lives and median(lives) > _STRETCHED * case.life:
            notes.append(f'{case.row}: they lived {median(lives):.3g} s, since the machine was busy')
    return notes
