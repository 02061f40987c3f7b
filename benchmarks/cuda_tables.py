"""What the figures of the part ``cuda`` say: what looking costs, what is lost, and how soon somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import cuda_cost, cuda_rates, cuda_start
from benchmarks.arithmetic import median_of, ratio_of
from benchmarks.cuda import PART
from benchmarks.cuda_looking import NOBODY
from benchmarks.cuda_tracers import EMPTY, PIECES, UPROBE_MULTI
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from benchmarks.cuda_tracers import Tracer
    from benchmarks.results import Results

_NANO = 1e9
_MILLI = 1000
_PERCENT = 100
_MEGA = 1e-6
_OURS = UPROBE_MULTI.name
_ALL = 'all'
"""The row of the gap of a tool that could not be had."""
_STARTERS = [tracer.name for tracer in cuda_start.TRACERS]
_WAITS = (
    (cuda_start.STARTING, 'seconds', [NOBODY, *_STARTERS]),
    (cuda_start.ATTACHING, 'seconds', [tracer.name for tracer in cuda_start.ATTACHERS]),
    (cuda_start.STARTING, 'end', _STARTERS),
)
_WHAT = {
    (cuda_start.STARTING, 'seconds'): cuda_start.STARTING,
    (cuda_start.ATTACHING, 'seconds'): cuda_start.ATTACHING,
    (cuda_start.STARTING, 'end'): 'the tracer has ended',
}
_IN_BRACKETS = 'In brackets: how many times ours, as the median of the ratios of the same rounds.'


def cuda_tables(results: Results) -> list[Table]:
    """Return the tables; one of which there are neither figures nor gaps has no rows."""
    return [
        _cost_table(results),
        _pieces_table(results),
        _loss_table(results),
        _use_table(results),
        _start_table(results),
    ]


def _cost_table(results: Results) -> Table:
    rows = []
    for case in cuda_cost.CASES:
        alone = {call: results.rounds(PART, case.name, NOBODY, call) for call in cuda_cost.CALLS}
        if not _is_known(results, case.name):
            continue
        plain = [_in(_NANO, median_of(alone[call])) for call in cuda_cost.CALLS]
        rows.append([case.prologue.name, f'{NOBODY}: a call takes', *plain, str(len(alone['launch']) or DASH)])
        for tracer in case.tracers:
            cells = []
            for call, base in alone.items():
                added, ours = (_added(results, case.name, who, call, base) for who in (tracer.name, _OURS))
                cells.append(_compared(added, ours, _NANO, is_ours=tracer.name == _OURS))
            count = len(results.rounds(PART, case.name, tracer.name, 'launch'))
            rows.append([case.prologue.name, tracer.name, *cells, str(count or DASH)])
    return Table(
        'cuda: nanoseconds of CPU added to a call',
        ['first instruction', 'who looks', *cuda_cost.CALLS, 'rounds'],
        rows,
        "In the program's thread, by its own CPU clock, of a library whose calls do next to nothing. The kernel "
        'emulates a first instruction push, and steps through endbr64. gpu-tracker keeps totals and tells events, and '
        'attaches by uprobe.multi or by perf events; bpftrace keeps totals of these four functions, by entry and '
        'return, or only counts entries, or does nothing, or prints a line of JSON at each return; BCC tells an event '
        f'at each return. {_IN_BRACKETS}',
        _notes(results, [case.name for case in cuda_cost.CASES], cuda_cost.TRACERS),
    )


def _pieces_table(results: Results) -> Table:
    row = cuda_cost.IN_PIECES.name
    alone = results.rounds(PART, row, NOBODY, 'launch')
    empty, ours = (_added(results, row, who, 'launch', alone) for who in (EMPTY.name, _OURS))
    once = results.rounds(PART, row, _OURS, 'launch')
    costs = {'an empty probe, by bpftrace': empty}
    costs |= {what: _added(results, row, tracer.name, 'launch', once) for what, tracer in PIECES.items()}
    rows = [[what, _in(_NANO, median_of(cost)), str(len(cost) or DASH)] for what, cost in costs.items()]
    rows.append([f'{_OURS}, all of it', _in(_NANO, median_of(ours)), str(len(ours) or DASH)])
    return Table(
        'cuda: what gpu-tracker needs for a launch (ns)',
        ['what', 'CPU', 'rounds'],
        rows if _is_known(results, row) else [],
        'Of functions that begin with push. A piece costs what a launch takes longer if the probe does it twice, in '
        'the same round: for that clang compiles the probe anew.',
        _notes(results, [row], list(PIECES.values())),
    )


def _loss_table(results: Results) -> Table:
    rows = []
    for case in cuda_rates.CASES:
        if not _is_known(results, case.name):
            continue
        reached = results.rounds(PART, case.name, _OURS, 'rate')
        cells = [_in(_PERCENT, median_of(results.rounds(PART, case.name, _OURS, kind))) for kind in ('missed', 'lost')]
        for tracer in cuda_rates.TRACERS[1:]:
            missed = median_of(results.rounds(PART, case.name, tracer.name, 'missed'))
            rate = median_of(results.rounds(PART, case.name, tracer.name, 'rate'))
            cells.append(DASH if missed is None or rate is None else f'{number(missed * _PERCENT)} at {rate:,.0f}')
        rate = median_of(reached)
        rows.append([f'{case.rate:,}', DASH if rate is None else f'{rate:,.0f}', *cells, str(len(reached) or DASH)])
    others = [tracer.name for tracer in cuda_rates.TRACERS[1:]]
    return Table(
        'cuda: launches that are not told (%)',
        ['wanted a second', 'reached', f'{_OURS}, counts', f'{_OURS}, events', *others, 'rounds'],
        rows,
        'A program launches so many kernels a second, or as many as it can where looking slows it down: that is what '
        'it reached with gpu-tracker, and for the others stands after "at". A million come from two threads. '
        'gpu-tracker has a buffer of 8 MiB, BCC one of 16, bpftrace one of 16 for each processor.',
        _notes(results, [case.name for case in cuda_rates.CASES], cuda_rates.TRACERS),
    )


def _use_table(results: Results) -> Table:
    case = cuda_rates.LONG
    rows = []
    for tracer in cuda_rates.TRACERS if _is_known(results, case.name) else ():
        cells = []
        for kind, factor in (('cpu', 1.0), ('rss at rest', _MEGA), ('rss', _MEGA), ('maps', _MEGA)):
            theirs, ours = (results.rounds(PART, case.name, who, kind) for who in (tracer.name, _OURS))
            cells.append(_compared(theirs, ours, factor, is_ours=tracer.name == _OURS))
        count = len(results.rounds(PART, case.name, tracer.name, 'cpu'))
        rows.append([tracer.name, *cells, str(count or DASH)])
    return Table(
        'cuda: what the tracer itself uses',
        ['who looks', 'CPU (s)', 'RSS before (MB)', 'RSS after (MB)', 'maps in the kernel (MB)', 'rounds'],
        rows,
        f'Over {case.seconds} s with {case.name}; memory at its highest before the first of them, and after the last. '
        'Without the buffers of perf events. A ring is mapped twice, so it is in the RSS of gpu-tracker and BCC with '
        'up to double its size, and in the maps once. bpftrace gives each of its maps as much room as gpu-tracker has '
        f'for allocations, and prints into a file. {_IN_BRACKETS}',
    )


def _start_table(results: Results) -> Table:
    rows = []
    for row, kind, who in _WAITS if any(_is_known(results, row) for row, _, _ in _WAITS) else ():
        for name in who:
            theirs, ours = (results.rounds(PART, row, one, kind) for one in (name, _OURS))
            smallest, largest = (min(theirs.values()), max(theirs.values())) if theirs else (None, None)
            middle = _compared(theirs, ours, _MILLI, is_ours=name in {_OURS, NOBODY})
            ends = [_in(_MILLI, value) for value in (smallest, largest)]
            rows.append([_WHAT[row, kind], name, middle, *ends, str(len(theirs) or DASH)])
    return Table(
        'cuda: milliseconds of start and end',
        ['until', 'who looks', 'median', 'smallest', 'largest', 'rounds'],
        rows,
        'From before the tracer is started, or from the end of the command. A running process launches a kernel each '
        '0.1 ms; what is missing of its launches came before the first that is counted. The kernel takes its time to '
        f'let go of a perf event, of which there is one for each function. {_IN_BRACKETS}',
        _notes(results, [cuda_start.STARTING, cuda_start.ATTACHING], cuda_start.TRACERS),
    )


def _is_known(results: Results, row: str) -> bool:
    """Tell whether a row was measured, or could not be."""
    return row in results.rows(PART) or any(gap.part == PART and gap.row == row for gap in results.gaps)


def _added(results: Results, row: str, who: str, call: str, alone: Mapping[int, float]) -> dict[int, float]:
    """Return what a call takes longer than in the same round without anybody, by round."""
    rounds = results.rounds(PART, row, who, call)
    return {place: value - alone[place] for place, value in rounds.items() if place in alone}


def _compared(theirs: Mapping[int, float], ours: Mapping[int, float], factor: float, *, is_ours: bool) -> str:
    ratio = None if is_ours else ratio_of(theirs, ours)
    return _in(factor, median_of(theirs)) + ('' if ratio is None else f' ({number(ratio)})')


def _in(factor: float, value: float | None) -> str:
    return DASH if value is None else number(value * factor)


def _notes(results: Results, rows: Collection[str], tracers: Sequence[Tracer]) -> list[str]:
    """Say why there are dashes: of a tool that could not be had for all that is made with it."""
    notes = []
    for gap in results.gaps:
        if gap.part != PART or gap.row not in {*rows, _ALL}:
            continue
        if gap.row != _ALL:
            notes.append(f'{DASH} {gap.peer}, {gap.row}: {gap.reason}')
            continue
        made = [tracer.name for tracer in tracers if tracer.tool == gap.peer]
        notes += [f'{DASH} {"; ".join(made)}: not run: {gap.reason}'] if made else []
    return notes
