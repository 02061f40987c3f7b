"""What the figures of the part ``fleet`` say: how fast a dashboard asks all hosts, what it holds, and its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of, ratio_of
from benchmarks.fleet import PART
from benchmarks.fleet_masters import CASES as MASTERS
from benchmarks.fleet_masters import JSON, PAGE
from benchmarks.fleet_memory import HOUR, PEAK, PROPORTIONAL, RESIDENT, marks_of
from benchmarks.fleet_page import BLANK, OPENINGS, SCROLLINGS
from benchmarks.fleet_rounds import CASES
from benchmarks.peers import NVGPU, OURS
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from benchmarks.results import Results

    Column = tuple[str, str, float]
    """The head, the figure, and by what it is multiplied."""

_MILLI = 1000
_MEGA = 1e-6
_ALL = 'all'
"""The row of the gap of a tool that could not be had."""


def fleet_tables(results: Results) -> list[Table]:
    """Return the tables; one of which there are neither figures nor gaps has no rows."""
    return [
        _rounds_table(results),
        _memory_table(results),
        _opening_table(results),
        _scrolling_table(results),
        _masters_table(results),
    ]


def _rounds_table(results: Results) -> Table:
    columns = [
        ('first (s)', 'first', 1),
        ('until told', 'first told', 1),
        ('median (s)', 'median', 1),
        ('until told', 'median told', 1),
        ('longest (s)', 'longest', 1),
        ('until told', 'longest told', 1),
        ('CPU (ms)', 'cpu', _MILLI),
        ('RSS (MB)', 'rss', _MEGA),
        ('PSS (MB)', 'pss', _MEGA),
    ]
    names = [case.name for case in CASES]
    return Table(
        'fleet: a round of 1,000 hosts',
        ['hosts', *(head for head, *_ in columns), 'rounds'],
        _rows(results, names, columns),
        'gpu-tracker dashboard asks 1,000 simulated agents with 8 GPUs each, whose figures always change, every 5 s. '
        'By the clocks of the agents: from the first request until the last answer is written, or the dashboard has '
        'given up a host that never answers, for which it takes 1.5 s. Until told: the same, and an open page has got '
        'all that is new. 15 fail: 5 are dead, 5 never answer, 5 send garbage; these are asked less and less often. '
        'First: the dashboard has just been started, and connects. CPU and memory are those of the dashboard; CPU is '
        'that of a round after the first.',
        _notes(results, names),
    )


def _memory_table(results: Results) -> Table:
    def kinds(kind: str) -> dict[int, float]:
        return results.rounds(PART, HOUR.name, OURS.name, kind)

    marks = marks_of([figure.kind for figure in results.figures if (figure.part, figure.row) == (PART, HOUR.name)])
    rows = [
        [f'{mark:,}', *(_in(_MEGA, median_of(kinds(f'{kind}{mark}'))) for kind in (RESIDENT, PROPORTIONAL))]
        for mark in marks
    ]
    seconds, peak = median_of(kinds('seconds')), median_of(kinds(PEAK))
    text = 'The same hosts, of which 15 fail, with a page open; time is compressed: a round begins each 0.5 s.'
    if seconds is not None and peak is not None:
        text += f' It took {number(seconds)} s; the most that was ever in memory were {number(peak * _MEGA)} MB.'
    return Table(
        "fleet: memory over an hour's rounds of 1,000 hosts (MB)",
        ['after rounds', 'RSS', 'PSS'],
        rows,
        text,
        _notes(results, [HOUR.name], is_named=False),
    )


def _opening_table(results: Results) -> Table:
    names = [opening.row for opening in OPENINGS]
    columns = [('first paint', 'first paint', _MILLI), ('first GPUs', 'rows', _MILLI), ('CPU', 'cpu', _MILLI)]
    return Table(
        'fleet: milliseconds until the page shows something',
        ['what', *(head for head, *_ in columns), 'rounds'],
        _rows(results, names, columns),
        'In Chromium without a screen, which sees the page for the first time. From the navigation until its first '
        'contentful paint, and until the GPUs of the first hosts have been painted. CPU: that of its main thread until '
        'then. Of the 1,000 hosts 15 fail.',
        _notes(results, names),
    )


def _scrolling_table(results: Results) -> Table:
    names = [scrolling.row for scrolling in SCROLLINGS]
    columns = [
        ('longest task (CPU)', 'longest task', _MILLI),
        ('median frame', 'median', _MILLI),
        ('99 %', 'p99', _MILLI),
        ('longest', 'longest', _MILLI),
        ('above 50 ms', 'long', 1),
        ('frames', 'frames', 1),
    ]
    rows = []
    for who, what in ((OURS.name, ''), (BLANK, f', {BLANK}')):
        rows += [[f'{row[0]}{what}', *row[1:]] for row in _rows(results, names, columns, who)]
    return Table(
        'fleet: milliseconds of frames while the page is scrolled',
        ['what', *(head for head, *_ in columns), 'rounds'],
        rows,
        'Up and down by 120 pixels a frame, while the figures change. Task: what the page has Chromium do at a stretch '
        'on the main thread, in CPU time; while that goes on there is no frame. Frames are real time, in which all '
        'else on the machine has a part, the dashboard, the agents and the drawing without a graphics card included: '
        'the empty page tells how much.',
        _notes(results, names),
    )


def _masters_table(results: Results) -> Table:
    names = [case.name for case in MASTERS]
    missing = {gap.row for gap in results.gaps if gap.part == PART}
    rows = []
    for name in names:
        cells = []
        for kind in (PAGE, JSON):
            ours = results.rounds(PART, name, OURS.name, kind)
            theirs = results.rounds(PART, name, NVGPU.name, kind)
            ratio = ratio_of(theirs, ours)
            cells += [
                _in(_MILLI, median_of(ours)),
                _in(_MILLI, median_of(theirs)) + ('' if ratio is None else f' ({number(ratio)})'),
            ]
        taken = len(results.rounds(PART, name, OURS.name, PAGE))
        if taken or name in missing:
            rows.append([name, *cells, str(taken or DASH)])
    return Table(
        'fleet: milliseconds to an answer about 20 hosts',
        ['hosts', 'page', f'page, {NVGPU.name}', 'JSON', f'JSON, {NVGPU.name}', 'rounds'],
        rows,
        "The same agents in nvgpu's form for both. Page: what a browser gets before it can show the hosts, which are / "
        "and /api/v1/fleet of gpu-tracker and / of nvgpu. JSON: /cluster_status of both. nvgpu's master asks its "
        'agents while one waits; a dashboard has asked them before, every 5 s. In brackets: how many times ours, as '
        'the median of the ratios of the same rounds.',
        _notes(results, names, with_tools=True),
    )


def _rows(results: Results, names: Sequence[str], columns: Sequence[Column], who: str = OURS.name) -> list[list[str]]:
    """Return a row for each case that was measured, or was to be."""
    missing = {gap.row for gap in results.gaps if gap.part == PART and gap.peer == who}
    rows = []
    for name in names:
        rounds = [results.rounds(PART, name, who, kind) for _, kind, _ in columns]
        taken = max(map(len, rounds))
        if taken or name in missing:
            cells = [_in(column[2], median_of(values)) for column, values in zip(columns, rounds, strict=True)]
            rows.append([_short(name), *cells, str(taken or DASH)])
    return rows


def _short(name: str) -> str:
    """Return a case without the word that tells it from one of another question."""
    return name.partition(': ')[2] or name


def _in(factor: float, value: float | None) -> str:
    return DASH if value is None else number(value * factor)


def _notes(results: Results, rows: Collection[str], *, is_named: bool = True, with_tools: bool = False) -> list[str]:
    """Say why there are dashes.

    :param is_named: Whether to say where.
    :param with_tools: Whether tools that could not be had belong there.
    """
    notes = []
    for gap in results.gaps:
        if gap.part == PART and (gap.row in rows or (with_tools and gap.row == _ALL)):
            where = f', {_short(gap.row)}' if is_named and gap.row != _ALL else ''
            notes.append(f'{DASH} {gap.peer}{where}: {gap.reason}')
    return list(dict.fromkeys(notes))
