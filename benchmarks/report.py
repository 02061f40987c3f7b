"""All tables of a run, from its raw figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import cost, effect, floor, gpu, hard, latency, scale, truth
from benchmarks.arithmetic import mean_interval, median_of, ratio_of
from benchmarks.atopgpud_tables import atopgpud_tables
from benchmarks.before import before_table
from benchmarks.children_tables import children_tables
from benchmarks.cuda_tables import cuda_tables
from benchmarks.drm import drm_table
from benchmarks.fleet_tables import fleet_tables
from benchmarks.idle_tables import idle_tables
from benchmarks.inventory_tables import inventory_tables
from benchmarks.jobs_tables import jobs_tables
from benchmarks.peers import OURS, THE_OLDER
from benchmarks.recording_tables import recording_tables
from benchmarks.tables import DASH, Table, number
from benchmarks.targets import floor_table, target_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.results import Results

_MILLI = 1000
_PERCENT = 100
_ALL = 'all'
"""The row of a peer that could not be installed."""
_MEGA = 1e-6
_IN_BRACKETS = 'In brackets: how many times ours, as the median of the ratios of the same rounds.'


def text_of(results: Results) -> str:
    """Return the whole report as reStructuredText."""
    machine = [f'* {name}: {value}' for name, value in results.machine.items()]
    versions = ', '.join(
        name if name.endswith(version) else f'{name} {version}' for name, version in results.versions.items()
    )
    measured = [f'* Measured, {part}: {conditions}' for part, conditions in results.conditions.items()]
    head = '\n'.join([*machine, f'* Versions: {versions}', *measured])
    return '\n\n'.join([head, *(table.render() for table in tables_of(results))])


def tables_of(results: Results) -> list[Table]:
    """Return the tables of which there are figures."""
    tables = [target_table(results), floor_table(results)]
    tables += [*_cost_tables(results), *_latency_tables(results), _effect_table(results)]
    tables += [*_scale_tables(results), _gpu_table(results), drm_table(results), *inventory_tables(results)]
    tables += [*atopgpud_tables(results), *idle_tables(results), *fleet_tables(results), *cuda_tables(results)]
    tables += [*recording_tables(results), *jobs_tables(results)]
    tables += [truth.table(results.truth), hard.table(results), *children_tables(results), before_table(results)]
    return [table for table in tables if table is not None and table.rows]


def _cost_tables(results: Results) -> list[Table]:
    def table(title: str, kind: str, factor: float, text: str) -> Table:
        return _matrix(results, cost.PART, kind, title, factor, text)

    sampler = 'The sampler is the process of the peer that uses most CPU time.'
    tables = [
        table('CPU milliseconds a sample, at 0.1 s', 'cpu a sample', _MILLI, f'All of its processes. {_IN_BRACKETS}'),
        table('CPU time as a share of a core (%), at 0.1 s', 'share', _PERCENT, _IN_BRACKETS),
        table('Seconds between two samples, where 0.1 s is asked for', 'period', 1, _IN_BRACKETS),
        table('Resident memory of the sampler (MB)', 'rss', _MEGA, f'{sampler} {_IN_BRACKETS}'),
        table('Memory of the sampler that is its own alone, USS (MB)', 'uss', _MEGA, _IN_BRACKETS),
        table('USS of all processes of a peer (MB)', 'all uss', _MEGA, _IN_BRACKETS),
    ]
    for later in tables[1:]:
        later.notes = []  # those of the first table
    return tables


def _latency_tables(results: Results) -> list[Table]:
    rows = [latency.IMPORT, latency.AROUND_TRUE, latency.AROUND_TRUE_KEPT, latency.AROUND_SLEEP]
    waiting = _matrix(results, latency.PART, 'seconds', 'Milliseconds to wait', _MILLI, _IN_BRACKETS, rows)
    text = (
        'From before the tracker is made; stop() is called at a random phase of the interval. The older start() '
        'returns before there is a sample.'
    )
    kinds = {'start': 'start() returns', 'first sample': 'first sample complete', 'stop': 'stop()'}
    columns = ['what', OURS.name, THE_OLDER.name]
    cells = []
    for interval in latency.INTERVALS:
        row = latency.START_AND_STOP.format(interval)
        for kind, name in kinds.items():
            values = [_cell(results, latency.PART, row, peer, kind, _MILLI) for peer in columns[1:]]
            if set(values) != {DASH}:
                cells.append([f'{name}, at {interval:g} s', *values])
    return [waiting, Table('Milliseconds of start and stop', columns, cells, f'{text} {_IN_BRACKETS}')]


def _effect_table(results: Results) -> Table:
    rows = []
    names = [OURS.name, effect.BY_PID, THE_OLDER.name]
    for row in results.rows(effect.PART):
        plain = median_of(results.rounds(effect.PART, row, effect.PLAIN, 'seconds'))
        cells = [DASH if plain is None else number(plain)]
        for kind in ('seconds', 'cpu'):
            for name in names:
                added = mean_interval(list(effect.added_percent(results, row, name, kind).values()))
                cells.append(DASH if added is None else f'{added.mean:+.2f} ({added.low:+.2f} to {added.high:+.2f})')
        rows.append([row, *cells])
    columns = [
        'a program that',
        'plain (s)',
        *(f'{name}: time (%)' for name in names),
        *(f'{name}: CPU (%)' for name in names),
    ]
    text = (
        'By how many percent of its plain run time and of its plain CPU time a program takes more by its own clocks, '
        'at 0.1 s: the mean of the paired differences and its 95 % interval.'
    )
    return Table('What being measured does to a program', columns, rows, text)


def _scale_tables(results: Results) -> list[Table]:
    growth = [row for row in results.rows(scale.PART) if row != scale.RUN_LENGTH]
    cpu = _matrix(
        results, scale.PART, 'cpu a sample', 'Growth of CPU milliseconds a sample', _MILLI, _IN_BRACKETS, growth
    )
    marks = [f for f in results.figures if f.row == scale.RUN_LENGTH and f.kind.startswith('uss')]
    rows = [[f'{int(f.kind.split()[-1]):,}', number(f.value * _MEGA)] for f in marks]
    taken = results.rounds(scale.PART, scale.RUN_LENGTH, OURS.name, 'samples').get(0)
    text = 'USS of our sampler, which samples each 2 ms.' + (
        '' if taken is None else f' By its own record it took {taken:,.0f} samples in all.'
    )
    reasons = _notes(results, scale.PART, [scale.RUN_LENGTH])
    return [cpu, Table('How its memory grows with the run', ['after samples', 'MB'], rows, text, reasons)]


def _gpu_table(results: Results) -> Table:
    text = (
        'On the simulated driver of the tests, at 0.1 s; what the simulation itself does at each call is a part of it. '
        f'{_IN_BRACKETS}'
    )
    table = _matrix(results, gpu.PART, 'cpu a sample', 'CPU milliseconds a sample with GPUs', _MILLI, text)
    table.notes = [note for note in table.notes if 'does not read GPUs' not in note]
    return table


def _matrix(
    results: Results,
    part: str,
    kind: str,
    title: str,
    factor: float,
    text: str,
    rows: list[str] | None = None,
) -> Table:
    """Return a table of workloads and peers."""
    if rows is None:
        rows = results.rows(part)
    peers = [name for name in results.peers(part, kind) if name != floor.NAME]
    cells = [[row, *(_cell(results, part, row, peer, kind, factor) for peer in peers)] for row in rows]
    cells = [row for row in cells if set(row[1:]) - {DASH}]
    return Table(title, ['workload', *peers], cells, text, _notes(results, part, rows))


def _cell(results: Results, part: str, row: str, peer: str, kind: str, factor: float) -> str:
    """Return the median and, of another peer than ours, the ratio to ours."""
    rounds = results.rounds(part, row, peer, kind)
    middle = median_of(rounds)
    if middle is None:
        return DASH
    ratio = None if peer == OURS.name else ratio_of(rounds, results.rounds(part, row, OURS.name, kind))
    return number(middle * factor) + ('' if ratio is None else f' ({number(ratio)})')


def _notes(results: Results, part: str, rows: Iterable[str]) -> list[str]:
    """Say why there are dashes; what holds for several workloads once."""
    concerned: dict[tuple[str, str], list[str]] = {}
    for gap in results.gaps:
        if gap.part == part and gap.row in {*rows, _ALL}:
            concerned.setdefault((gap.peer, gap.reason), []).append(gap.row)
    everywhere = set(rows)
    notes = []
    for (peer, reason), where in concerned.items():
        place = '' if _ALL in where or set(where) == everywhere else f', {"; ".join(dict.fromkeys(where))}'
        notes.append(f'{DASH} {peer}{place}: {reason}')
    return notes
