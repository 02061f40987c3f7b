"""The figures of a result: one table, which the summary, tables, pages, comparisons and their conditions read.

A figure is named by its path in the result, such as ``max_ram.combined.total_rss``. Values are in base units: bytes,
seconds, percent, joules, count and bytes/s. Unknown is None.
"""

from __future__ import annotations

import math
import re
import sys
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.job import place_in_job
from gpu_tracker.limits import ended_beyond, ended_by
from gpu_tracker.units import MEMORY_UNITS, TIME_UNITS, text_of
from gpu_tracker.vendors import label, numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Condition = Callable[[Any], bool]

GROUPS = ('main', 'descendants', 'combined')
AT_LEAST = '≥ '
"""What stands before a figure that may be too low."""
IN_ASCII = '>= '
"""The same mark in ASCII."""
SUM, LARGEST = 'sum', 'largest'
"""How the figures of ranks make that of their job."""
_SIGNIFICANT = 3
_UNKNOWN = 'N/A'
TEXTS: dict[str, Callable[[Any], str]] = {
    'text': str,
    'ending': ended_by,
    'endings': ended_beyond,
    'place': place_in_job,
}
"""The units of what is no number, and how each is written."""


def has_gpus(usage: Any) -> bool:  # noqa: ANN401 - a result, whose class this module need not know
    """Return whether the machine of a run had GPUs, or may have had some."""
    return bool(usage.gpu_utilization.system_gpu_count != 0)


def _has_only_sums(usage: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether GPUs are known as sums alone, as in results of older versions."""
    return has_gpus(usage) and usage.gpus is None


def _knows_gpus(usage: Any) -> bool:  # noqa: ANN401 - as above
    return usage.gpus is not None


def _uses_gpus(usage: Any) -> bool:  # noqa: ANN401 - as above
    return bool(usage.gpus)


def _has_activity(usage: Any) -> bool:  # noqa: ANN401 - as above
    return bool(usage.gpu_activity)


def _always(_: object) -> bool:
    return True


class Figure(NamedTuple):
    """A row of the table.

    :ivar path: In the result. ``{group}`` stands for each of :data:`GROUPS`, ``{whose}`` also for ``system``. A path
        into the list of GPUs is the largest figure of all GPUs; ``gpus.3.capacity`` is the figure of GPU 3.
    :ivar unit: The base unit, or a key of ``TEXTS``.
    :ivar label: What people call it; empty: only reports, comparisons and conditions have it, and lines that name it.
    :ivar hint: What it is, in a few words.
    :ivar column: The column of a recording that has it over time.
    :ivar note: What a page says below it, as a template, see :func:`fill`; None: it is not among the figures of a page.
    :ivar when: Whether a result shows it, if it has its section.
    :ivar is_given: The machine has it, or somebody has asked for it: no run uses more or less of it.
    :ivar of_ranks: The figure of a job is the :data:`SUM` or the :data:`LARGEST` of those of its ranks; empty: neither
        is true, such as for a figure of the machine, or reports of jobs have something better.
    :ivar in_summary: The summary has a line of the label if it has no other line with the figure.
    :ivar short: The label in reports of jobs; empty: the same.
    """

    path: str
    unit: str
    label: str = ''
    hint: str = ''
    column: str = ''
    note: str | None = None
    when: Condition = _always
    is_given: bool = False
    of_ranks: str = ''
    in_summary: bool = True
    short: str = ''

    @property
    def section(self) -> str:
        """The field of the result that has it."""
        return self.path.partition('.')[0]


ROWS = (
    Figure('max_ram.system_capacity', 'bytes', is_given=True),
    Figure('max_ram.system', 'bytes'),
    Figure(
        'max_ram.{group}.total_rss', 'bytes', 'Peak RAM', 'the most resident memory at once', '{group}_total_rss',
        '[main process {max_ram.main.total_rss}, descendants {max_ram.descendants.total_rss}; ]'
        'of {max_ram.system_capacity}',
    ),
    Figure('max_ram.{group}.private_rss', 'bytes'),
    Figure('max_ram.{group}.shared_rss', 'bytes'),
    Figure('max_gpu_ram.system_capacity', 'bytes', is_given=True),
    Figure('max_gpu_ram.system', 'bytes'),
    Figure(
        'max_gpu_ram.{group}', 'bytes', 'Peak GPU memory', 'of all GPUs', '{group}_gpu_ram',
        'of {max_gpu_ram.system_capacity}', _has_only_sums, of_ranks=LARGEST, short='GPU RAM',
    ),
    Figure('cpu_utilization.system_core_count', 'count', is_given=True),
    Figure('cpu_utilization.n_expected_cores', 'count', is_given=True),
    Figure(
        'cpu_utilization.{whose}.max_sum_percent', 'percent', 'CPU, most', '100 % is one core', '',
        'in any half a second; {cpu_utilization.system_core_count} cores',
    ),
    Figure('cpu_utilization.{whose}.max_hardware_percent', 'percent'),
    Figure(
        'cpu_utilization.{whose}.mean_sum_percent', 'percent', 'CPU, mean', '100 % is one core', '{whose}_cpu',
        '100 % is one core',
    ),
    Figure('cpu_utilization.{whose}.mean_hardware_percent', 'percent'),
    Figure('cpu_utilization.{group}_n_threads', 'count', 'Threads, most', 'in any one sample', note=''),
    Figure('gpu_utilization.system_gpu_count', 'count', is_given=True),
    Figure('gpu_utilization.n_expected_gpus', 'count', is_given=True),
    Figure(
        'gpu_utilization.gpu_percentages.max_sum_percent', 'percent', 'GPU utilization, most',
        'of all GPUs, whoever used them; 100 % is one GPU', when=_has_only_sums,
    ),
    Figure('gpu_utilization.gpu_percentages.max_hardware_percent', 'percent'),
    Figure(
        'gpu_utilization.gpu_percentages.mean_sum_percent', 'percent', 'GPU utilization, mean',
        'of all GPUs, whoever used them; 100 % is one GPU', 'gpu_utilization',
        'peak {gpu_utilization.gpu_percentages.max_sum_percent}; 100 % is one GPU', _has_only_sums,
    ),
    Figure('gpu_utilization.gpu_percentages.mean_hardware_percent', 'percent'),
    Figure('gpus.capacity', 'bytes', is_given=True),
    Figure('gpus.max_ram.system', 'bytes'),
    Figure(
        'gpus.max_ram.{group}', 'bytes', 'Peak memory of one GPU', 'of the fullest GPU', '{group}_gpu_ram',
        '', _knows_gpus, of_ranks=LARGEST, short='GPU RAM',
    ),
    Figure('gpus.utilization.max_percent', 'percent'),
    Figure(
        'gpus.utilization.mean_percent', 'percent', 'GPU busy, mean', 'the busiest GPU, whoever used it',
        'gpu_utilization', 'the busiest GPU; peak {gpus.utilization.max_percent}', _uses_gpus,
    ),
    Figure('gpus.own_utilization.max_percent', 'percent'),
    Figure(
        'gpus.own_utilization.mean_percent', 'percent', 'GPU busy by this run, mean', 'the busiest GPU',
        note='peak {gpus.own_utilization.max_percent}', when=_knows_gpus,
    ),
    Figure('compute_time.time', 'seconds', 'Time', 'wall time', note=''),
    Figure('cuda.problem', 'text'),
    Figure('cuda.seconds', 'seconds'),
    Figure('cuda.{group}.processes', 'count'),
    Figure('cuda.{group}.launches', 'count', of_ranks=SUM),
    Figure('cuda.{group}.synchronisations', 'count', of_ranks=SUM),
    Figure('cuda.{group}.synchronising_seconds', 'seconds', of_ranks=SUM),
    Figure('cuda.{group}.launch_to_sync_seconds', 'seconds'),
    Figure('cuda.{group}.allocations', 'count', of_ranks=SUM),
    Figure('cuda.{group}.frees', 'count', of_ranks=SUM),
    Figure('cuda.{group}.allocated', 'bytes', of_ranks=SUM),
    Figure('cuda.{group}.freed', 'bytes', of_ranks=SUM),
    Figure('cuda.{group}.memory_current', 'bytes'),
    Figure('cuda.{group}.memory_max', 'bytes', of_ranks=LARGEST),
    Figure('cuda.{group}.memory_leaked', 'bytes', of_ranks=SUM),
    Figure('cuda.{group}.failed_calls', 'count', of_ranks=SUM),
    Figure('cuda.{group}.graph_launches', 'count', of_ranks=SUM),
    Figure(
        'io.{group}.read', 'bytes', 'Read from storage', 'not from the page cache', '{group}_io_read',
        'written {io.combined.written}', of_ranks=SUM, short='Read',
    ),
    Figure(
        'io.{group}.written', 'bytes', 'Written to storage', 'when it gets into the page cache', '{group}_io_written',
        of_ranks=SUM, short='Written',
    ),
    Figure('io.{group}.cancelled', 'bytes', of_ranks=SUM),
    Figure('io.{group}.read_by_calls', 'bytes', of_ranks=SUM),
    Figure('io.{group}.written_by_calls', 'bytes', of_ranks=SUM),
    Figure('io.{group}.max_read_per_second', 'bytes/s', of_ranks=LARGEST),
    Figure('io.{group}.max_written_per_second', 'bytes/s', of_ranks=LARGEST),
    Figure('io.{group}.max_read_by_calls_per_second', 'bytes/s', of_ranks=LARGEST),
    Figure('io.{group}.max_written_by_calls_per_second', 'bytes/s', of_ranks=LARGEST),
    Figure('io.{group}.minor_page_faults', 'count', of_ranks=SUM),
    Figure('io.{group}.major_page_faults', 'count', of_ranks=SUM),
    Figure('io.{group}.voluntary_context_switches', 'count', of_ranks=SUM),
    Figure('io.{group}.involuntary_context_switches', 'count', of_ranks=SUM),
    Figure(
        'energy.gpu', 'joules', 'Energy of GPUs', 'of the GPUs in use, whoever used them', 'gpu_energy', '', has_gpus
    ),
    Figure(
        'energy.cpu_packages', 'joules', 'Energy of CPUs', 'of all CPU packages, whoever used them',
        'cpu_package_energy',
    ),
    Figure(
        'gpu_activity.sm_mean_percent', 'percent', 'GPU SM activity, mean', 'the busiest GPU, by its own counters',
        'gpu_sm_activity', 'peak {gpu_activity.sm_max_percent}', _has_activity,
    ),
    Figure('gpu_activity.sm_max_percent', 'percent'),
    Figure('gpu_activity.occupancy_mean_percent', 'percent', column='gpu_sm_occupancy'),
    Figure('gpu_activity.occupancy_max_percent', 'percent'),
    Figure(
        'gpu_activity.tensor_mean_percent', 'percent', 'Tensor cores busy, mean', 'the busiest GPU',
        'gpu_tensor_activity', 'peak {gpu_activity.tensor_max_percent}', _has_activity,
    ),
    Figure('gpu_activity.tensor_max_percent', 'percent'),
    Figure(
        'gpu_activity.dram_mean_percent', 'percent', 'GPU memory bandwidth, mean', 'the busiest GPU',
        'gpu_dram_activity', 'peak {gpu_activity.dram_max_percent}', _has_activity,
    ),
    Figure('gpu_activity.dram_max_percent', 'percent'),
    Figure('gpu_activity.pcie_sent_mean_per_second', 'bytes/s'),
    Figure('gpu_activity.pcie_received_mean_per_second', 'bytes/s'),
    Figure('gpu_activity.nvlink_sent_mean_per_second', 'bytes/s'),
    Figure('gpu_activity.nvlink_received_mean_per_second', 'bytes/s'),
    Figure('gpu_activity.problem', 'text'),
    Figure('control_group.memory_limit', 'bytes', is_given=True),
    Figure('control_group.cpu_limit', 'count', is_given=True),
    Figure('control_group.allowed_cores', 'count', is_given=True),
    Figure(
        'control_group.oom_kills', 'count', 'Killed for lack of memory',
        'processes of the control group, tracked or not',
        when=lambda usage: bool(usage.control_group.oom_kills), in_summary=False,  # the line of the problem has it
    ),
    Figure('control_group.problem', 'text'),
    Figure('job', 'place'),
    *(
        Figure(f'job.{name}', 'count')
        for name in ('array_task', 'array_size', 'rank', 'size', 'local_rank', 'local_size', 'attempt')
    ),
    Figure(
        'own_group.memory_peak', 'bytes', 'Peak of own group', 'memory with page cache',
        when=lambda usage: usage.own_group.made_in is not None, of_ranks=LARGEST, short='Own group',
    ),
    Figure(
        'own_group.cpu_seconds', 'seconds', 'CPU of own group', 'CPU time, with daemons',
        when=lambda usage: usage.own_group.made_in is not None, of_ranks=SUM, short='Group CPU',
    ),
    Figure('own_group.user_cpu_seconds', 'seconds', of_ranks=SUM),
    Figure('own_group.system_cpu_seconds', 'seconds', of_ranks=SUM),
    Figure('own_group.read', 'bytes', of_ranks=SUM),
    Figure('own_group.written', 'bytes', of_ranks=SUM),
    Figure('own_group.max_tasks', 'count', of_ranks=LARGEST),
    Figure('own_group.oom_kills', 'count'),
    Figure('own_group.left_processes', 'count', of_ranks=SUM),
    Figure('termination_reason', 'ending'),
    Figure('exceeded_limits', 'endings'),
)  # fmt: skip
"""In the order of reports."""


EACH_GPU = 'GPU *'
_OF_A_GPU = (
    '{gpus.max_ram.combined} of {gpus.capacity} at most, {gpus.utilization.mean_percent} busy '
    '(own {gpus.own_utilization.mean_percent})'
)
MOST_GPUS = 4
"""Lines of GPUs in a summary and in a short report; the fullest come first."""


class Line(NamedTuple):
    """A line of the summary.

    :ivar title: Empty if it goes on with the line before; ``GPU *``: there is a line for each GPU.
    :ivar text: A template, see :func:`fill`. The line is there if the result has the section of its first figure.
    :ivar when: Whether it is there then.
    """

    title: str
    text: str
    when: Condition = _always


_ASKED_FOR = ('own_group', 'gpu_activity', 'io', 'energy', 'cuda')
"""Sections that a run has if they were asked for."""
LINES = (
    Line('Time', '{compute_time.time}[, {termination_reason}][, {exceeded_limits}][; {job}]'),
    Line(
        'Peak RAM',
        '{max_ram.combined.total_rss} (private {max_ram.combined.private_rss}, shared {max_ram.combined.shared_rss})',
    ),
    Line(
        '',
        'main process {max_ram.main.total_rss}, descendants {max_ram.descendants.total_rss}',
        lambda usage: usage.max_ram.descendants.total_rss != 0,
    ),
    Line('Machine', 'peak {max_ram.system} of {max_ram.system_capacity} RAM in use by everybody'),
    Line(
        'Allowed',
        '{control_group.memory_limit} RAM and {control_group.allowed_cores:core}, by control groups and affinity',
    ),
    Line('Killed', '{control_group.problem}', lambda usage: usage.control_group.problem is not None),
    Line(
        'CPU',
        '{cpu_utilization.combined.mean_sum_percent} of a core on average, '
        'peak {cpu_utilization.combined.max_sum_percent}; {cpu_utilization.n_expected_cores:core} expected',
    ),
    Line(
        '',
        'main process {cpu_utilization.main.mean_sum_percent}, '
        'descendants {cpu_utilization.descendants.mean_sum_percent} on average',
        lambda usage: (
            usage.cpu_utilization.descendants_n_threads != 0 or bool(usage.cpu_utilization.descendants.mean_sum_percent)
        ),
    ),
    Line(
        'Threads',
        'peak {cpu_utilization.combined_n_threads}[ (main process {cpu_utilization.main_n_threads}, '
        'descendants {cpu_utilization.descendants_n_threads})]',
    ),
    Line(
        'Own group',
        '{own_group.memory_peak} with page cache, {own_group.cpu_seconds} of CPU time, '
        '{own_group.max_tasks:task} at most',
        lambda usage: usage.own_group.made_in is not None,
    ),
    Line(
        'Own group',
        'none could be had',
        lambda usage: usage.own_group.made_in is None,
    ),
    Line(
        '',
        '{own_group.left_processes:left-over process} ended with it',
        lambda usage: bool(usage.own_group.left_processes),
    ),
    Line(
        'GPU memory',
        '{max_gpu_ram.combined} of {max_gpu_ram.system_capacity}, {max_gpu_ram.system} by everybody',
        _has_only_sums,
    ),
    Line(
        'GPU',
        '{gpu_utilization.gpu_percentages.mean_sum_percent} of a GPU on average, '
        'peak {gpu_utilization.gpu_percentages.max_sum_percent}; {gpu_utilization.n_expected_gpus:GPU} expected',
        _has_only_sums,
    ),
    Line(EACH_GPU, ''),
    Line(
        'GPU active',
        'SMs {gpu_activity.sm_mean_percent}, tensor cores {gpu_activity.tensor_mean_percent}, '
        'memory bandwidth {gpu_activity.dram_mean_percent} on average',
        _has_activity,
    ),
    Line('', '{gpu_activity.problem}', lambda usage: any(gpu.problem is not None for gpu in usage.gpu_activity)),
    Line(
        'Storage',
        '{io.combined.read} read, {io.combined.written} written; '
        'by calls {io.combined.read_by_calls} and {io.combined.written_by_calls}',
    ),
    Line('Energy', 'GPUs in use {energy.gpu}, CPU packages {energy.cpu_packages}', has_gpus),
    Line('Energy', 'CPU packages {energy.cpu_packages}', lambda usage: not has_gpus(usage)),
    Line('CUDA', '{cuda.problem}', lambda usage: bool(usage.cuda.problem)),
    Line(
        'CUDA',
        '{cuda.combined.launches:,} kernel launches, {cuda.combined.failed_calls:,} failed calls',
        lambda usage: not usage.cuda.problem,
    ),
)
"""In the order of the summary."""
SHORT = (
    '{compute_time.time}[, {termination_reason}][, {exceeded_limits}], RAM {max_ram.combined.total_rss}, '
    'CPU {cpu_utilization.combined.mean_sum_percent}'
)
"""A result in one line."""
_SHORT_OF_SUMS = ', GPU RAM {max_gpu_ram.combined}, GPU {gpu_utilization.gpu_percentages.mean_sum_percent}'
_SHORT_OF_GPUS = ', GPU RAM {gpus.max_ram.combined}, GPU {gpus.utilization.mean_percent}'

_FIGURE = re.compile(r'{([\w.]+(?::\d[\w.]*)?)(?::([^}]*))?}')
_OPTIONAL = re.compile(r'\[([^]]*)]')


@cache
def figures() -> Mapping[str, Figure]:
    """Return the rows by their paths, with each group in its place."""
    found: dict[str, Figure] = {}
    for (_, pattern), rows in groupby(ROWS, _groups_of):
        same = list(rows)
        for whose in {'{whose}': ('system', *GROUPS), '{group}': GROUPS}.get(pattern, ('',)):
            for row in same:
                path = row.path.replace(pattern, whose) if pattern else row.path
                found[path] = row._replace(
                    path=path, column=row.column.replace(pattern, whose) if pattern else row.column
                )
    return found


def _groups_of(row: Figure) -> tuple[str, str]:
    before, brace, after = row.path.partition('{')
    return before, brace + after.partition('}')[0] + '}' if brace else ''


def row_of(path: str) -> Figure:
    """Return the row of a figure."""
    found = figures().get(path)
    if found is not None:
        return found
    section, _, rest = path.partition('.')
    return figures()[f'{section}.{rest.partition(".")[2]}']


def value(usage: Any, path: str) -> Any:  # noqa: ANN401 - see above; a number, a text or None
    """Return what a result has at a path, in its base unit; None if that or its section is not known."""
    name, *parts = path.split('.')
    section = getattr(usage, name, None)
    unit = row_of(path).unit
    if not parts:
        return section
    if not isinstance(section, tuple):
        return _figure_in(section, parts, unit)
    if path in figures():
        chosen = section
    else:
        chosen = tuple(entry for entry in section if place_of(entry) == parts[0])
        parts = parts[1:]
    if name == 'gpus' and not chosen and parts[0] != 'utilization' and parts[-1] not in {'system', 'capacity'}:
        return 0  # the run did not use it, or used no GPU
    known = [found for entry in chosen if (found := _figure_in(entry, parts, unit)) is not None]
    return max(known, default=None)


def place_of(gpu: Any) -> str:  # noqa: ANN401 - an entry of the GPUs of a result
    """Return what names a GPU in paths: ``0``, ``amd:0``."""
    return numbered(gpu.vendor, str(gpu.index))


def _figure_in(section: Any, parts: list[str], unit: str) -> Any:  # noqa: ANN401 - as above
    found: Any = section
    for part in parts:
        found = getattr(found, part, None)
    if found is None or unit in TEXTS:
        return found
    if type(found) not in {int, float} or not abs(found) <= sys.float_info.max:
        return None  # of a stranger's recording
    return _in_base_unit(found, unit, section)


def _in_base_unit(number: float, unit: str, section: Any) -> float:  # noqa: ANN401 - any section
    if unit.startswith('bytes'):
        size = number * MEMORY_UNITS[section.unit]
        # It went into a unit and back: without rounding, the same size in two units would be two.
        return round(size) if unit == 'bytes' and math.isfinite(size) else size
    return number * TIME_UNITS[section.unit] if getattr(section, 'unit', None) in TIME_UNITS else number


@cache
def of_job() -> Mapping[str, Figure]:
    """Return the rows of which ranks make a figure of their job, by their paths, those of all processes of a rank."""
    return {
        path: row
        for path, row in figures().items()
        if row.of_ranks and not {'main', 'descendants', 'system'} & set(path.split('.'))
    }


def has(usage: Any, row: Figure) -> bool:  # noqa: ANN401 - as above
    """Return whether a result shows a row."""
    return getattr(usage, row.section) is not None and row.when(usage)


def so_far(usage: Any) -> tuple[str, ...]:  # noqa: ANN401 - as above
    """Return the lower bounds of a run that goes on: those of its result, and the known figures that can only grow."""
    of_gpus = [path.removeprefix('gpus.') for path in figures() if path.startswith('gpus.')]
    of_each = [f'gpus.{place_of(gpu)}.{path}' for gpu in usage.gpus or () for path in of_gpus]
    growing = [
        path
        for path, row in [*figures().items(), *((path, row_of(path)) for path in of_each)]
        if not (row.is_given or row.unit in TEXTS or row.section == 'job')
        and not ('mean_' in path or path.endswith('_current'))
        and value(usage, path) is not None
    ]
    return tuple(dict.fromkeys([*growing, *usage.lower_bounds]))


def figure(number: float | None, unit: str, *, at_least: bool = False) -> str:
    """Return a value with three digits and its unit, after :data:`AT_LEAST` if it may be too low, or ``N/A``."""
    if number is None:
        return _UNKNOWN
    return f'{AT_LEAST if at_least else ""}{text_of(number, unit, _SIGNIFICANT)}'


def text(usage: Any, path: str, form: str = '') -> str:  # noqa: ANN401 - as above
    """Return a figure of a result with its unit, after :data:`AT_LEAST` if it may be too low, or ``N/A``.

    :param form: A noun that is counted, or a comma for one between thousands; empty: neither.
    """
    found = value(usage, path)
    unit = row_of(path).unit
    if unit in TEXTS:
        return _UNKNOWN if found is None else TEXTS[unit](found)
    written = f'{found:,}' if form == ',' and found is not None else figure(found, unit)
    if form.strip(','):
        written = f'{written} {form}{"" if written == "1" else "es" if form.endswith("s") else "s"}'
    return f'{AT_LEAST}{written}' if path in usage.lower_bounds and found is not None else written


def fill(template: str, usage: Any) -> str:  # noqa: ANN401 - as above
    """Return a template with the figures of a result in it.

    ``{PATH}`` and ``{PATH:FORM}`` stand for :func:`text`. What is between brackets is left out if its last figure is 0,
    or a text that is None.
    """

    def optional(part: re.Match[str]) -> str:
        path = _FIGURE.findall(part[1])[-1][0]
        found = value(usage, path)
        is_left_out = found == 0 if row_of(path).unit not in TEXTS else found is None
        return '' if is_left_out else part[1]

    return _FIGURE.sub(lambda part: text(usage, part[1], part[2] or ''), _OPTIONAL.sub(optional, template))


def lines(usage: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - as above
    """Yield the lines of the summary: each title, which is empty if it goes on with the line before, and its text."""
    templates = (*(line.text for line in LINES), _OF_A_GPU)
    shown = {path for template in templates for path, _ in _FIGURE.findall(template)}
    for line in LINES:
        if line.title == EACH_GPU:
            yield from lines_of_gpus(usage)
        elif _has_line(usage, line):
            yield line.title, fill(line.text, usage)
    for row, paths in rows(usage):
        if row.in_summary and shown.isdisjoint(paths):
            yield row.label, text(usage, paths[-1])


def lines_of_sections(usage: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - as above
    """Yield the lines of the summary that are about sections which were asked for."""
    for line in LINES:
        if line.title != EACH_GPU and _section_of(line) in _ASKED_FOR and _has_line(usage, line):
            yield line.title, fill(line.text, usage)


def _has_line(usage: Any, line: Line) -> bool:  # noqa: ANN401 - as above
    return getattr(usage, _section_of(line)) is not None and line.when(usage)


def _section_of(line: Line) -> str:
    """Return the section of the first figure of a line; a line without figures is about the control group."""
    found = _FIGURE.search(line.text)
    return 'own_group' if found is None else found[1].partition('.')[0]


def short(usage: Any) -> str:  # noqa: ANN401 - as above
    """Return a result in one line."""
    of_gpus = _SHORT_OF_GPUS if usage.gpus else _SHORT_OF_SUMS if _has_only_sums(usage) else ''
    return fill(SHORT + of_gpus, usage)


def fullest_first(usage: Any) -> list[Any]:  # noqa: ANN401 - as above
    """Return the GPUs of a result, that of which the run had the most memory first."""
    return sorted(
        usage.gpus or (), key=lambda gpu: (-(gpu.max_ram.combined or 0), -(gpu.utilization.mean_percent or 0))
    )


def is_unused(gpu: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether a run that was restricted to a GPU has left it unused."""
    return gpu.max_ram.combined == 0 and not gpu.own_utilization.max_percent


def lines_of_gpus(usage: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - as above
    """Yield a line for each GPU of a result, fullest first: its name, and what the run used of it."""
    gpus = fullest_first(usage)
    if not gpus and usage.gpus is not None:
        yield 'GPU', 'none used'
    for gpu in gpus[:MOST_GPUS]:
        line = fill(_OF_A_GPU.replace('gpus.', f'gpus.{place_of(gpu)}.'), usage)
        yield label(gpu.vendor, gpu.index), f'not used; {line}' if is_unused(gpu) else line
    if len(gpus) > MOST_GPUS:
        yield '', f'and {len(gpus) - MOST_GPUS} more GPUs'


def rows(usage: Any) -> Iterator[tuple[Figure, list[str]]]:  # noqa: ANN401 - as above
    """Yield the labelled rows that a result shows, each with the paths of its figures: one, or one for each group.

    Time comes first, the others in the order of reports.
    """
    for row in sorted(ROWS, key=lambda row: row.section != 'compute_time'):
        if row.label and has(usage, row):
            pattern = _groups_of(row)[1]
            yield row, [row.path.replace(pattern, group) for group in GROUPS] if pattern else [row.path]
