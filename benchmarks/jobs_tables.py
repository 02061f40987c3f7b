"""What the figures of the part ``jobs`` say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of, ratio_of
from benchmarks.jobs import NUMBERS, PART, RANK, RECORDED, RECORDINGS, REPORTS, WITH_JOB, WITH_JSON, WITH_REPORT
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from benchmarks.results import Results

_MILLI = 1000
_MEGA = 1e-6


def jobs_tables(results: Results) -> list[Table]:
    """Return the tables: reading the folder of a job, and the cost of a rank."""
    return [_reading(results), _rank(results)]


def _reading(results: Results) -> Table:
    rows = []
    for row in [*(REPORTS.format(count) for count in NUMBERS), RECORDINGS.format(RECORDED)]:
        loop = results.rounds(PART, row, WITH_JSON, 'seconds')
        for name in results.peers(PART, 'peak'):
            taken = results.rounds(PART, row, name, 'seconds')
            seconds, cpu, peak = (
                median_of(results.rounds(PART, row, name, kind)) for kind in ('seconds', 'cpu', 'peak')
            )
            if seconds is None or cpu is None or peak is None:
                continue
            ratio = None if name == WITH_JSON else ratio_of(taken, loop)
            times = DASH if ratio is None else number(ratio)
            rows.append([row, name, number(seconds), number(cpu), number(peak * _MEGA), times, str(len(taken))])
    text = (
        'gpu-tracker: the merged report as JSON. The loops only read, and add nothing up: the reports with the json '
        'module, and time and RAM of all samples with sqlite3. All are whole programs, with the start of Python.'
    )
    columns = ['job', 'read by', 'seconds', 'CPU seconds', 'peak RSS (MB)', 'times json', 'rounds']
    return Table('jobs: what it costs to read what ranks have written', columns, rows, text)


def _rank(results: Results) -> Table:
    rows = []
    for name in (WITH_REPORT, WITH_JOB):
        taken, used = (results.rounds(PART, RANK, name, kind) for kind in ('seconds', 'cpu'))
        seconds, cpu = median_of(taken), median_of(used)
        if seconds is None or cpu is None:
            continue
        compared = [DASH, DASH]
        if name == WITH_JOB:
            pairs = [(taken, 'seconds'), (used, 'cpu')]
            ratios = [ratio_of(rounds, results.rounds(PART, RANK, WITH_REPORT, kind)) for rounds, kind in pairs]
            compared = [DASH if ratio is None else number(ratio) for ratio in ratios]
        rows.append([name, number(seconds * _MILLI), compared[0], number(cpu * _MILLI), compared[1], str(len(taken))])
    text = 'Around a command that ends at once. --job also writes a record before it starts, and a recording.'
    columns = ['command', 'ms', 'times the first', 'CPU ms', 'times the first', 'rounds']
    return Table('jobs: what --job costs a rank', columns, rows, text)
