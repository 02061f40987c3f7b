"""What the figures of the part ``idle`` say: how fast the monitor yields, what it costs, and how it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of, ratio_of
from benchmarks.idle import PART
from benchmarks.idle_cost import FUSER_EACH, SCAN_EACH, SCENES
from benchmarks.idle_noticing import RIGHTS, ROW, WAYS, refusal_in_words
from benchmarks.idle_yield import CASES, LOOKING, PEER, TOLD
from benchmarks.peers import FUSER, OURS
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from benchmarks.results import Results

_MILLI = 1000
_MICRO = 1e6
_MEGA = 1e-6
_ALL = 'all'
"""The row of the gap of a tool that could not be had."""
_PROCESSES = {'monitor': 'monitor', 'guardians': 'guardian of a program', 'samplers': 'its sampler'}
"""What holds memory, by its role, as the table calls it."""


def idle_tables(results: Results) -> list[Table]:
    """Return the tables; one of which there are neither figures nor gaps has no rows."""
    return [_yield_table(results), _cpu_table(results), _memory_table(results), _noticing_table(results)]


def _yield_table(results: Results) -> Table:
    rows = []
    for case in CASES:
        told = results.rounds(PART, case.name, TOLD, 'seconds')
        missing = {gap.peer for gap in results.gaps if gap.part == PART and gap.row == case.name}
        for who in (TOLD, LOOKING, PEER):
            rounds = results.rounds(PART, case.name, who, 'seconds')
            if rounds or who in missing:
                ratio = None if who == TOLD else ratio_of(rounds, told)
                figures = [_in(_MILLI, value) for value in (median_of(rounds), *_ends(rounds))]
                rows.append([case.name, who, *figures, _or_dash(ratio), str(len(rounds) or DASH)])
    return Table(
        'idle: milliseconds from a foreign open until the program is gone',
        ['program', 'monitor', 'median', 'smallest', 'largest', 'times the first', 'rounds'],
        rows,
        'From before another process opens a stand-in device until no process of the program on it is left. The '
        'moments are spread evenly over the interval. By looks only: another node of the same device is opened, as a '
        'container has one, of which inotify does not tell. fuser each interval, SIGKILL: a program of our own, of 30 '
        'lines, that asks fuser each interval and sends SIGKILL to the process that it has started. Times the first: '
        'the median of the ratios of the same rounds.',
        _notes(results, [case.name for case in CASES], {FUSER.name: PEER}),
    )


def _cpu_table(results: Results) -> Table:
    names = [scene.name for scene in SCENES]
    missing = {gap.row for gap in results.gaps if gap.part == PART}
    rows = []
    for name in names:
        ours = results.rounds(PART, name, OURS.name, 'cpu')
        if not ours and name not in missing:
            continue
        cells = [
            _median(results, name, OURS.name, kind, _MILLI) for kind in ('monitor', 'guardians', 'samplers', 'driver')
        ]
        for peer in (FUSER_EACH, SCAN_EACH):
            rounds = results.rounds(PART, name, peer, 'cpu')
            ratio = ratio_of(rounds, ours)
            cells.append(_in(_MILLI, median_of(rounds)) + ('' if ratio is None else f' ({number(ratio)})'))
        count = median_of(results.rounds(PART, name, OURS.name, 'processes'))
        rows.append([name, DASH if count is None else f'{count:,.0f}', *cells, str(len(ours) or DASH)])
    return Table(
        'idle: CPU milliseconds a second',
        ['what runs', 'processes', 'monitor', 'guardians', 'samplers', 'driver', FUSER_EACH, SCAN_EACH, 'rounds'],
        rows,
        '8 GPUs, looked at each second. Guardians and samplers: one of each for every program, together; a sampler '
        'measures what its program uses. Driver: what calls of the simulated driver use, which is a part of the '
        'columns before. fuser: once a second for all 8 devices, the process that starts it included. All '
        'descriptors: one Python program that looks at each descriptor of each process once a second. In brackets: '
        'how many times ours, as the median of the ratios of the same rounds.',
        _notes(results, names, {}),
    )


def _memory_table(results: Results) -> Table:
    rows = []
    for scene in SCENES:
        if not scene.programs or scene.working:
            continue
        for role, what in _PROCESSES.items():
            cells = [_median(results, scene.name, OURS.name, f'{role}: {kind}', _MEGA) for kind in ('peak', 'pss')]
            if set(cells) != {DASH}:
                rows.append([what, scene.name, *cells])
    return Table(
        'idle: memory (MB)',
        ['process', 'while', 'peak RSS', 'PSS'],
        rows,
        'Of guardians and samplers the largest. PSS counts what processes share in parts.',
    )


def _noticing_table(results: Results) -> Table:
    rows = []
    for way in WAYS:
        refused = median_of(results.rounds(PART, RIGHTS, way.name, 'refused'))
        rounds = results.rounds(PART, ROW, way.name, 'median')
        if refused is None and not rounds:
            continue
        smallest = _ends(results.rounds(PART, ROW, way.name, 'smallest'))[0]
        largest = _ends(results.rounds(PART, ROW, way.name, 'largest'))[1]
        rows.append(
            [
                way.name,
                *(_in(_MICRO, value) for value in (median_of(rounds), smallest, largest)),
                _median(results, ROW, way.name, 'cpu', _MICRO),
                _median(results, ROW, way.name, 'quiet', _MILLI),
                DASH if refused is None else refusal_in_words(refused),
                str(len(rounds) or DASH),
            ]
        )
    return Table(
        'idle: microseconds from the open of a device until one is told',
        ['way', 'median', 'smallest', 'largest', 'CPU an open', 'CPU at rest (ms/s)', 'without root', 'rounds'],
        rows,
        'A Python program that only waits. CPU an open: what it uses when it is told, in microseconds. At rest: what '
        'it uses while nobody opens anything. With file handles (FAN_REPORT_FID) fanotify does not tell which process '
        'it was, unless root asks.',
        _notes(results, [ROW, RIGHTS], {}),
    )


def _ends(rounds: Mapping[int, float]) -> tuple[float | None, float | None]:
    return (min(rounds.values()), max(rounds.values())) if rounds else (None, None)


def _median(results: Results, row: str, peer: str, kind: str, factor: float) -> str:
    return _in(factor, median_of(results.rounds(PART, row, peer, kind)))


def _in(factor: float, value: float | None) -> str:
    return DASH if value is None else number(value * factor)


def _or_dash(ratio: float | None) -> str:
    return DASH if ratio is None else number(ratio)


def _notes(results: Results, rows: Collection[str], names: Mapping[str, str]) -> list[str]:
    """Say why there are dashes.

    :param names: What tools that could not be had are called in the table.
    """
    notes = []
    for gap in results.gaps:
        if gap.part == PART and (gap.row in rows or gap.row == _ALL):
            where = '' if gap.row in {_ALL, ROW, RIGHTS} else f', {gap.row}'
            notes.append(f'{DASH} {names.get(gap.peer, gap.peer)}{where}: {gap.reason}')
    return notes
