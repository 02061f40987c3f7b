"""What the figures of the part ``recording`` say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of, ratio_of
from benchmarks.peers import OURS, THE_OLDER
from benchmarks.recording import A_SAMPLE, INTERVALS, PART, RECORDED, REGIONS, WEEK, WORKLOADS
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from benchmarks.results import Results

_MICRO = 1e6
_PERCENT = 100
_MEGA = 1e-6
_WAYS = {
    'off': 'nothing tracks',
    'nothing': 'contextlib.nullcontext',
    'hot': 'recorded',
    'two lines': 'two lines and the clocks',
    'folded': 'recorded, added up',
    'cold': 'recorded, after a pause of 20 ms',
    'two lines, cold': 'two lines and the clocks, after a pause',
    'nothing, cold': 'contextlib.nullcontext, after a pause',
}
_OLDER_WAYS = {'csv': 'gpu-tracker 5.0.1, CSV', 'sqlite': 'gpu-tracker 5.0.1, SQLite'}


def recording_tables(results: Results) -> list[Table]:
    """Return the tables: samples, a week, regions."""
    return [_samples(results), _week(results), _regions(results)]


def _samples(results: Results) -> Table:
    rows = []
    for interval in INTERVALS:
        row = A_SAMPLE.format(interval)
        for name in results.peers(PART, 'cpu a sample'):
            figures = results.rounds(PART, row, name, 'cpu a sample')
            cost, share = median_of(figures), median_of(results.rounds(PART, row, name, 'share'))
            if cost is None or share is None:
                continue
            ratio = ratio_of(figures, results.rounds(PART, row, OURS.name, 'cpu a sample'))
            cells = [number(cost * _MICRO), number(share * _PERCENT), DASH if ratio is None else number(ratio)]
            rows.append([f'{interval:g} s', name, *cells, str(len(figures))])
    columns = ['interval', 'what', 'CPU a sample (µs)', 'of a core (%)', 'times without a recording', 'rounds']
    notes = [f'{DASH} {gap.peer}: {gap.reason}' for gap in results.gaps if gap.part == PART]
    return Table('What recording costs the sampler', columns, rows, 'One process of 50 MB.', notes)


def _week(results: Results) -> Table:
    rows = []
    for workload in WORKLOADS:
        size = median_of(results.rounds(PART, f'{WEEK}, {workload.name}', RECORDED, 'bytes'))
        if size is not None:
            rows.append([workload.name, number(size * _MEGA)])
    text = 'The rows of a real run, repeated each second of a week, with counters that go on.'
    return Table('Megabytes of a week at one sample a second', ['what', 'MB'], rows, text)


def _regions(results: Results) -> Table:
    rows = []
    for name, ways in ((OURS.name, _WAYS), (THE_OLDER.name, _OLDER_WAYS)):
        for kind, way in ways.items():
            cost = median_of(results.rounds(PART, REGIONS, name, kind))
            if cost is not None:
                rows.append([way, number(cost)])
    text = 'A block of one statement that does nothing.'
    return Table('Microseconds of a region', ['where', 'µs'], rows, text)
