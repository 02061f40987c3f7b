"""The short report of a command: nine lines at most with what decides, for the terminal. Pure."""

from __future__ import annotations

import shlex
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.figures import (
    AT_LEAST,
    MOST_GPUS,
    figure,
    fullest_first,
    is_unused,
    lines_of_sections,
    place_of,
    text,
    value,
)
from gpu_tracker.limits import ended_beyond, ended_by, exit_code_in_words
from gpu_tracker.system.terminal_text import printable, shortened, width_of
from gpu_tracker.units import MEMORY_UNITS, TIME_UNITS, digits
from gpu_tracker.vendors import label
from gpu_tracker.views.live.quantities import ASCII, BLOCKS, UNKNOWN, Symbols, line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.result.usage import ResourceUsage

_MOST_LINES = 9
_MOST_PARTS = 4
_MOST_ADVICE = 2
_TOO_SHORT, _TOO_SMALL = 0.1, 1e6
"""Seconds, and bytes. A lower bound of a shorter run, or one that is smaller than any program, says nothing."""
_LEAST_CPU = 0.5
"""Percent of a core; less is not worth a word."""
_IDLE_BELOW = 20
"""Percent: how busy a GPU is in a part that names it."""
_GAP = 3
_NARROWEST_TITLE = 8
_NARROWEST_COMMAND = 12
_LONGEST_COMMAND = 200
"""Columns, if the report is not printed on a terminal."""
_RED, _PLAIN = '\x1b[31m', '\x1b[0m'
_IN_ASCII = str.maketrans({'…': '~', 'µ': 'u'})
_RAM = 'max_ram.combined.total_rss'
_CPU = 'cpu_utilization.combined.mean_sum_percent'
_SIGNIFICANT = 3


class Part(NamedTuple):
    """The time of a region of the program.

    :ivar gpu_percent: How busy the GPUs were in it; None: unknown.
    """

    name: str
    seconds: float
    gpu_percent: float | None = None


class Recorded(NamedTuple):
    """What the recording of a run adds to its result.

    :ivar parts: The regions of the program, longest first.
    :ivar busy: How busy each GPU was over time, in percent, by the name that it has in paths.
    """

    parts: Sequence[Part] = ()
    busy: Mapping[str, Sequence[float | None]] = {}


class Surface(NamedTuple):
    """What the report is printed on.

    :ivar width: Columns; None: as wide as the lines are.
    """

    width: int | None = None
    symbols: Symbols = BLOCKS
    color: bool = False


NOT_RECORDED = Recorded()
_PIPE = Surface()
_SUITABLE: Mapping[str, str] = {}


class _Row(NamedTuple):
    """A title with texts beside each other.

    :ivar rank: Rows with a larger number are left out first if there are too many lines.
    :ivar is_figures: Its texts are columns.
    """

    title: str
    cells: Sequence[str]
    rank: int
    is_figures: bool = False


def short_report(
    usage: ResourceUsage,
    words: Sequence[str],
    exit_code: int | None,
    *,
    units: Mapping[str, str] = _SUITABLE,
    recorded: Recorded = NOT_RECORDED,
    advice: Sequence[str] = (),
    kept: int | None = None,
    recording: str | None = None,
    surface: Surface = _PIPE,
) -> str:
    """Return the report: how the command has ended, its peaks, its parts, and what to do next.

    :param exit_code: -n if signal n has ended it.
    :param units: Of ``ram``, ``gpu_ram`` and ``time`` those with a unit of their own; the others suit each figure.
    :param advice: Sentences, the most important first.
    :param kept: The number of the kept run.
    :param recording: The path of its recording.
    """
    rows = [
        *_gpu_rows(usage, units, recorded, surface.symbols),
        _Row('RAM', _ram_cells(usage, units), 0, is_figures=True),
        *(_Row(title, [found], 1) for title, found in lines_of_sections(usage)),
        *_part_rows(recorded, units),
        *(_Row('' if place else 'Advice', [one], 2) for place, one in enumerate(advice[:_MOST_ADVICE])),
        *_more_rows(kept, recording),
    ]
    failures = ending(usage, words, exit_code, units=units, surface=surface).splitlines()
    room = _MOST_LINES - len(failures)
    margin = max(_NARROWEST_TITLE, 1 + max(width_of(row.title) for row in rows))
    blocks = list(zip(rows, _laid_out(rows, margin, surface.width), strict=True))
    while sum(len(lines) for _, lines in blocks) > room and blocks:
        worst = max(range(len(blocks)), key=lambda place: (blocks[place][0].rank, place))
        del blocks[worst]
    body = [
        f'{"" if number else row.title:<{margin}}{found}' for row, lines in blocks for number, found in enumerate(lines)
    ]
    return '\n'.join([*failures, *(_shown(found, surface) for found in body)])


def ending(
    usage: ResourceUsage,
    words: Sequence[str],
    exit_code: int | None,
    *,
    units: Mapping[str, str] = _SUITABLE,
    surface: Surface = _PIPE,
) -> str:
    """Return how the command has ended, in red if it has failed."""
    time = _amount(usage, 'compute_time.time', units.get('time'))
    reason = usage.termination_reason
    if reason is not None:
        how = f'{ended_by(reason)} after {time}'
    elif exit_code:
        how = f'{"failed" if exit_code > 0 else "ended"} {exit_code_in_words(exit_code)} after {time}'
    else:
        how = f'ended after {time}'
    if usage.exceeded_limits:
        how += f', {ended_beyond(usage.exceeded_limits)}'
    problem = usage.control_group.problem if usage.control_group is not None else None
    command = printable(' '.join(shlex.join(words).split()))
    color = surface.color and has_failed(usage, exit_code)
    lines = [*_heading(command, how, surface.width), *(() if problem is None else _wrapped(problem, surface.width))]
    return '\n'.join(f'{_RED}{_shown(one, surface)}{_PLAIN}' if color else _shown(one, surface) for one in lines)


def has_failed(usage: ResourceUsage, exit_code: int | None) -> bool:
    """Return whether a command has failed, was ended by a limit, or has run out of memory."""
    is_short_of_memory = usage.control_group is not None and usage.control_group.problem is not None
    return bool(exit_code or usage.termination_reason or usage.exceeded_limits or is_short_of_memory)


def _heading(command: str, how: str, width: int | None) -> list[str]:
    if width is None:
        return [f'{shortened(command, _LONGEST_COMMAND)}{"":{_GAP}}{how}']
    room = width - _GAP - len(how)
    if room < min(_NARROWEST_COMMAND, width_of(command)):
        return [shortened(command, width), *_wrapped(how, width)]
    return [f'{shortened(command, room)}{"":{_GAP}}{how}']


def _gpu_rows(usage: ResourceUsage, units: Mapping[str, str], recorded: Recorded, symbols: Symbols) -> list[_Row]:
    used = [gpu for gpu in fullest_first(usage) if not is_unused(gpu)]
    rows = []
    for gpu in used[:MOST_GPUS]:
        own = f'gpus.{place_of(gpu)}'
        cells = [_gpu_memory(usage, own, units.get('gpu_ram'))]
        if gpu.utilization.mean_percent is not None:
            of_us = ''
            if gpu.others_used_it is not False and gpu.own_utilization.mean_percent is not None:
                of_us = f' (own {text(usage, f"{own}.own_utilization.mean_percent")})'
            cells.append(f'{text(usage, f"{own}.utilization.mean_percent")} busy{of_us}')
            curve = recorded.busy.get(place_of(gpu), ())
            if any(curve):
                cells.append(line(curve, 100.0, symbols))
        rows.append(_Row(label(gpu.vendor, gpu.index), cells, 0, is_figures=True))
    if len(used) > MOST_GPUS:
        rows.append(_Row('', [f'and {len(used) - MOST_GPUS} more'], 0))
    return rows


def _gpu_memory(usage: ResourceUsage, own: str, unit: str | None) -> str:
    """Return the peak of the memory of the GPU with the path ``own``."""
    peak, capacity = _amount(usage, f'{own}.max_ram.combined', unit), _amount(usage, f'{own}.capacity', unit)
    return 'memory N/A' if peak == UNKNOWN else _peak(peak, '' if capacity == UNKNOWN else f' of {capacity}')


def _peak(amount: str, of: str = '') -> str:
    return f'{amount}{of}' if amount.startswith((AT_LEAST, UNKNOWN)) else f'{amount}{of} at most'


def bound_says_nothing(seconds: float | None, size: float | None) -> bool:
    """Return whether a lower bound of the RAM, in bytes, is not worth showing: the run was too short to measure."""
    return (seconds or 0) < _TOO_SHORT or (size or 0) < _TOO_SMALL


def _ram_cells(usage: ResourceUsage, units: Mapping[str, str]) -> list[str]:
    seconds, peak = value(usage, 'compute_time.time'), value(usage, _RAM)
    if _RAM in usage.lower_bounds and bound_says_nothing(seconds, peak):
        cells = ['too short to measure']
    else:
        cells = [_peak(_amount(usage, _RAM, units.get('ram')))]
    percent = value(usage, _CPU)
    if percent is not None and percent >= _LEAST_CPU:
        bound = AT_LEAST if _CPU in usage.lower_bounds else ''
        cores = text(usage, 'cpu_utilization.n_expected_cores', 'core')
        cells.append(f'CPU {bound}{digits(percent / 100, 2)} of {cores}')
    if usage.cpu_utilization.combined_n_threads:
        cells.append(text(usage, 'cpu_utilization.combined_n_threads', 'thread'))
    return cells


def _part_rows(recorded: Recorded, units: Mapping[str, str]) -> list[_Row]:
    texts = []
    for part in recorded.parts[:_MOST_PARTS]:
        percent = part.gpu_percent
        is_idle = percent is not None and percent < _IDLE_BELOW
        busy = f' (GPU ~{figure(percent, "percent")} busy)' if is_idle else ''
        texts.append(f'{printable(part.name)} {_in_unit(part.seconds, "seconds", units.get("time"))}{busy}')
    more = len(recorded.parts) - _MOST_PARTS
    texts += [f'{more} more'] if more > 0 else []
    return [_Row('Parts', [' · '.join(texts)], 4)] if texts else []


def _more_rows(kept: int | None, recording: str | None) -> list[_Row]:
    if recording is not None:
        return [_Row('More', [f'gpu-tracker report {printable(shlex.quote(recording))}'], 3)]
    return [] if kept is None else [_Row('More', ['gpu-tracker report', f'(kept as run {kept})'], 3)]


def _amount(usage: ResourceUsage, path: str, unit: str | None) -> str:
    """Return a size or a time of a result, in ``unit`` or in the one that suits it."""
    found = value(usage, path)
    if unit is None or found is None:
        return text(usage, path)
    base = 'seconds' if unit in TIME_UNITS else 'bytes'
    return f'{AT_LEAST if path in usage.lower_bounds else ""}{_in_unit(found, base, unit)}'


def _in_unit(number: float, base: str, unit: str | None) -> str:
    if unit is None:
        return figure(number, base)
    return f'{digits(number / (TIME_UNITS | MEMORY_UNITS)[unit], _SIGNIFICANT)} {unit}'


def _laid_out(rows: Sequence[_Row], margin: int, width: int | None) -> list[list[str]]:
    """Return the lines of each row, without its title."""
    figures = [row.cells for row in rows if row.is_figures]
    columns = [max(map(width_of, column)) for column in zip_longest(*figures, fillvalue='')]
    room = None if width is None else width - margin
    found = []
    for row in rows:
        gaps = columns if row.is_figures else [len(cell) for cell in row.cells]
        aligned = (
            (' ' * _GAP)
            .join(cell + ' ' * (space - width_of(cell)) for cell, space in zip(row.cells, gaps, strict=False))
            .rstrip()
        )
        found.append([aligned] if room is None or width_of(aligned) <= room else _stacked(row.cells, room))
    return found


def _stacked(cells: Sequence[str], room: int) -> list[str]:
    """Return lines with as many of the texts as fit beside each other."""
    lines: list[str] = []
    for cell in cells:
        if lines and width_of(lines[-1]) + _GAP + width_of(cell) <= room:
            lines[-1] += f'{"":{_GAP}}{cell}'
        else:
            lines += _wrapped(cell, room)
    return lines


def _wrapped(sentence: str, width: int | None) -> list[str]:
    """Return a text in lines of ``width``, broken at blanks."""
    if width is None:
        return [sentence]
    lines = ['']
    for word in sentence.split(' '):
        longer = f'{lines[-1]} {word}' if lines[-1] else word
        if width_of(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return [shortened(one, max(1, width)) for one in lines]


def _shown(one: str, surface: Surface) -> str:
    """Return a line as the surface can show it."""
    if surface.symbols is not ASCII:
        return one
    return one.replace(AT_LEAST, '>=').replace(' · ', '; ').translate(_IN_ASCII).encode('ascii', 'replace').decode()
