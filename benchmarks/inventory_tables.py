"""What the figures of the part ``inventory`` say: a table a question, and whether ours is the fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of, ratio_of
from benchmarks.inventory import PART
from benchmarks.listings import PICK, SHOW, commands
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from benchmarks.listings import Command
    from benchmarks.results import Results

_MILLI = 1000
_KINDS = {'seconds': 'time', 'cpu': 'CPU time'}
_MACHINE = (
    'On the simulated driver of the tests, with 8 GPUs, of which 2 are free, and 200 sleeping processes on the others; '
    'what the simulation itself does at each call is a part of it. From outside: the time until the command has ended, '
    'and the CPU time of the command and of what it has started. In brackets: how many times ours, as the median of '
    'the ratios of the same rounds.'
)
_ABOUT = {
    SHOW: 'gpustat sleeps for 0.1 s a GPU, to tell what CPU the processes use.',
    PICK: (
        'nvgpu available runs nvidia-smi twice. There is none here; a stand-in in C (``benchmarks/nvidia_smi.c``) asks '
        'the same driver for what nvgpu reads and for nothing else. Its time is in that of nvgpu, and in a row of its '
        'own. nvisel, which lists all GPUs unless it is told what is wanted, is asked for those with 64 GiB free.'
    ),
}
_TITLES = {SHOW: 'Milliseconds to tell what is on all GPUs', PICK: 'Milliseconds to tell which GPUs are free'}


def inventory_tables(results: Results) -> list[Table]:
    """Return a table of the commands for each question that there are figures or gaps of."""
    return [_table(results, row) for row in (SHOW, PICK)]


def fastest_rows(results: Results) -> list[list[str]]:
    """Return rows for the table of targets: ours has to be faster than whoever comes next."""
    rows = [_fastest_row(results, row, kind) for row in (SHOW, PICK) for kind in _KINDS]
    return [row for row in rows if row is not None]


def _table(results: Results, row: str) -> Table:
    ours = commands(row)[0]
    gaps = [gap for gap in results.gaps if gap.part == PART and gap.row in {row, 'all'}]
    missing = {gap.peer for gap in gaps}
    rows = []
    for command in commands(row):
        rounds = _rounds(results, command, 'seconds')
        if not rounds and missing.isdisjoint({command.name, command.tool.name}):
            continue  # it was not asked for
        cells = [_cell(results, command, ours, kind) for kind in _KINDS]
        calls = median_of(_rounds(results, command, 'driver calls'))
        rows.append([command.name, *cells, DASH if calls is None else f'{calls:.0f}', str(len(rounds) or DASH)])
    columns = ['command', 'time', 'CPU time', 'driver calls', 'rounds']
    notes = [f'{DASH} {gap.peer}: {gap.reason}' for gap in gaps]
    return Table(_TITLES[row], columns, rows, f'{_MACHINE} {_ABOUT[row]}', notes)


def _rounds(results: Results, command: Command, kind: str) -> dict[int, float]:
    """Return the figures by round; none of a command that has failed in any round."""
    if any((gap.part, gap.row, gap.peer) == (PART, command.row, command.name) for gap in results.gaps):
        return {}
    return results.rounds(PART, command.row, command.name, kind)


def _cell(results: Results, command: Command, ours: Command, kind: str) -> str:
    rounds = _rounds(results, command, kind)
    middle = median_of(rounds)
    if middle is None:
        return DASH
    ratio = None if command is ours else ratio_of(rounds, _rounds(results, ours, kind))
    return number(middle * _MILLI) + ('' if ratio is None else f' ({number(ratio)})')


def _fastest_row(results: Results, row: str, kind: str) -> list[str] | None:
    ours, *others = commands(row)
    own = _rounds(results, ours, kind)
    middle = median_of(own)
    ratios = {
        other: ratio
        for other in others
        if other.competes and (ratio := ratio_of(_rounds(results, other, kind), own)) is not None
    }
    if middle is None or not ratios:
        return None
    nearest = min(ratios, key=lambda other: ratios[other])
    theirs = median_of(_rounds(results, nearest, kind)) or 0
    return [
        f'{_KINDS[kind]} of {ours.name} (ms)',
        DASH,
        number(middle * _MILLI),
        DASH,
        f'< {number(theirs * _MILLI)} ({nearest.name})',
        'yes' if ratios[nearest] > 1 else '**no**',
    ]
