"""What the figures of the part ``atopgpud`` say: how fast the daemon answers, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of, ratio_of
from benchmarks.atopgpud import FLOOR, GREEDY, PACED, PART
from benchmarks.peers import OURS
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.atopgpud import Load
    from benchmarks.results import Results

    Column = tuple[str, str, str, float]
    """The head, whose figure it is, which one, and by what it is multiplied."""

_MILLI = 1000
_MICRO = 1e6
_MEGA = 1e-6
_IN_BRACKETS = 'In brackets: how many times ours, as the median of the ratios of the same rounds.'
_COMPARED = {'cpu': 'own cpu'}
"""What of ours a figure of the floor is compared with, where that is not the same: the floor has no driver."""


def atopgpud_tables(results: Results) -> list[Table]:
    """Return the tables; one of which there are neither figures nor gaps has no rows."""
    with_clients = [load for load in PACED if load.clients]
    tables = [
        _table(
            results,
            'atopgpud: answers a second',
            GREEDY,
            [
                ('answers', OURS.name, 'answers', 1),
                ('CPU (µs)', OURS.name, 'cpu an answer', _MICRO),
                (f'{FLOOR}: answers', FLOOR, 'answers', 1),
                (f'{FLOOR}: CPU (µs)', FLOOR, 'cpu an answer', _MICRO),
            ],
            'The daemon reads 8 GPUs with 500 processes each second, on the simulated driver of the tests. Its answers '
            'are as long as atop accepts, 8 KiB. On each connection it is asked again as soon as the answer is there, '
            f'by one C program for all, on the same machine. {FLOOR} is a server of that library that always gives the '
            f'same answer, as long as that, and does nothing else. CPU: that of the server, an answer. {_IN_BRACKETS}',
        ),
        _table(
            results,
            'atopgpud: milliseconds to an answer',
            with_clients,
            [
                ('p50', OURS.name, 'p50', _MILLI),
                ('p99', OURS.name, 'p99', _MILLI),
                (f'{FLOOR}: p50', FLOOR, 'p50', _MILLI),
                (f'{FLOOR}: p99', FLOOR, 'p99', _MILLI),
            ],
            'From before the request until the answer is complete. Each client asks once a second, as atop does at its '
            'shortest interval; evenly spread over the second where nothing else is said, and in each second at '
            'another moment, since the daemon reads the GPUs once a second too. p99: of less than 100 answers the '
            f'slowest. {_IN_BRACKETS}',
        ),
        _table(
            results,
            'atopgpud: CPU milliseconds a second',
            PACED,
            [
                ('all', OURS.name, 'cpu', _MILLI),
                ('simulated driver', OURS.name, 'driver cpu', _MILLI),
                ('without it', OURS.name, 'own cpu', _MILLI),
                ('driver calls', OURS.name, 'driver calls', 1),
                (FLOOR, FLOOR, 'cpu', _MILLI),
            ],
            'With the same clients. The driver tells what its calls use; a real one uses something else. In brackets: '
            'how many times ours without the driver, as the median of the ratios of the same rounds.',
        ),
        _table(
            results,
            'atopgpud: memory (MB)',
            PACED,
            [
                ('RSS', OURS.name, 'rss', _MEGA),
                ('PSS', OURS.name, 'pss', _MEGA),
                (f'{FLOOR}: RSS', FLOOR, 'rss', _MEGA),
                (f'{FLOOR}: PSS', FLOOR, 'pss', _MEGA),
            ],
            'After that time, with the connections. What is shared with others that run in the same Python counts in '
            f'part in PSS. {_IN_BRACKETS}',
        ),
    ]
    for later in tables[2:]:
        later.notes = []  # those of the table before
    return tables


def _table(results: Results, title: str, loads: Sequence[Load], columns: Sequence[Column], text: str) -> Table:
    names = [load.name for load in loads]
    gaps = [gap for gap in results.gaps if gap.part == PART and gap.row in names]
    missing = {gap.row for gap in gaps}
    rows = []
    for name in names:
        cells = [_cell(results, name, column) for column in columns]
        taken = max(len(results.rounds(PART, name, peer, 'cpu')) for peer in (OURS.name, FLOOR))
        if taken or name in missing:
            rows.append([name, *cells, str(taken or DASH)])
    notes = [f'{DASH} {gap.peer}, {gap.row}: {gap.reason}' for gap in gaps]
    return Table(title, ['clients', *(head for head, *_ in columns), 'rounds'], rows, text, notes)


def _cell(results: Results, row: str, column: Column) -> str:
    """Return the median and, of the floor, the ratio to ours."""
    _, peer, kind, factor = column
    rounds = results.rounds(PART, row, peer, kind)
    middle = median_of(rounds)
    if middle is None:
        return DASH
    ours = results.rounds(PART, row, OURS.name, _COMPARED.get(kind, kind))
    ratio = ratio_of(rounds, ours) if peer == FLOOR else None
    return number(middle * factor) + ('' if ratio is None else f' ({number(ratio)})')
