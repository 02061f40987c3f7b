"""GPUs as the rows of a table, and its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.gpus import constraints as status
from gpu_tracker.gpus.health import findings
from gpu_tracker.system.terminal_text import Column, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_tracker.gpus.model import GpuActivity, GpuProcess, GpuReading

INDEX = 'index'
MARK = 'mark'

ACTIVITY = ('sm', 'occupancy', 'tensor', 'dram')

COLUMNS = (
    Column(INDEX, 'GPU'),
    Column(MARK, ''),
    Column('type', 'type', least=14),
    Column('utilization', 'util', is_number=True),
    Column('sm', 'SM', is_number=True),
    Column('occupancy', 'occ', is_number=True),
    Column('tensor', 'tensor', is_number=True),
    Column('dram', 'DRAM', is_number=True),
    Column('memory', 'memory GB', is_number=True),
    Column('temperature', 'temp', is_number=True),
    Column('clock', 'MHz', is_number=True),
    Column('power', 'power', is_number=True),
    Column('health', 'health', least=8),
    Column('users', 'users', least=8),
    Column('since', 'since', least=11),
    Column('pids', 'pids', least=7),
    Column('command', 'command', least=10),
)

ONLY_WHERE_USED = (*ACTIVITY, 'health')
"""Columns that are there only where a row has something in them."""
LEFT_OUT_FIRST = (
    'clock',
    'power',
    'since',
    'temperature',
    'pids',
    'type',
    'command',
    'occupancy',
    'dram',
    'tensor',
    'utilization',
    'sm',
    'users',
    'health',
)
"""Which columns go where there is no room, the first of these first; the others stay."""


_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_MOMENT = 10
"""Seconds; whatever is not older has happened just now."""

_UNITS = ((_DAY, 'a day', 'days'), (_HOUR, 'an hour', 'hours'), (_MINUTE, 'a minute', 'minutes'))


def ago(seconds: float) -> str:
    """Return an age in whole units: ``14 hours ago``; a clock that was set back makes it ``just now``."""
    for length, one, many in _UNITS:
        count = int(seconds // length)
        if count == 1:
            return f'{one} ago'
        if count > 1:
            return f'{count} {many} ago'
    return f'{int(seconds)} seconds ago' if seconds >= _MOMENT else 'just now'


MARKS = {
    status.FREE: '[ ]',
    status.IN_USE: '[~]',
    status.IN_USE_UNSEEN: '[!]',
    status.CLAIMED: '[c]',
    status.UNKNOWN: '[?]',
    status.SPLIT: '[-]',
    status.UNREADABLE: '[x]',
}

_IDLE_PROGRAM = '[i]'
"""The mark of a free GPU that an idle program uses."""
_UNKNOWN = 'N/A'
_UNSEEN = '?'
_GIGA = 1e9
_MEGA = 1e6


class Row(NamedTuple):
    """A row of the table, fit for a terminal."""

    status: str
    cells: Mapping[str, str]
    """By the names of their columns; those that are missing are empty."""
    note: str | None = None
    """What stands in place of all columns after the mark."""


def rows(gpus: Iterable[GpuReading], now: float) -> list[Row]:
    """Return a row for each GPU, and below it one for each of its MIG devices.

    :param now: Seconds since 1970.
    """
    return [_row(part, now) for gpu in gpus for part in gpu.devices()]


def _row(gpu: GpuReading, now: float) -> Row:
    gpu_status = status.status_of(gpu)
    cells = {
        INDEX: gpu.place,
        MARK: _IDLE_PROGRAM if gpu_status == status.FREE and gpu.idle_programs else MARKS[gpu_status],
    }
    if gpu.problem is not None:
        return Row(gpu_status, cells, printable(gpu.problem))
    cells |= {
        'type': _type(gpu),
        'utilization': _figure(gpu.utilization, '%'),
        'memory': _memory(gpu),
        **_activity(gpu.activity),
        **_health(gpu),
        **_sensors(gpu, unknown=_UNKNOWN if gpu.parent is None else ''),
        **_process_cells(_own_processes(gpu), now),
    }
    if gpu_status == status.IN_USE_UNSEEN and gpu.processes == ():
        cells['users'] = _UNSEEN  # they are not even listed
    return Row(gpu_status, cells)


def _type(gpu: GpuReading) -> str:
    """Return the product's name without its vendor; of a MIG device that part of it which its GPU's has not."""
    if gpu.name is None:
        return _UNKNOWN
    name = gpu.name
    if gpu.parent is not None and gpu.parent.name is not None:
        name = name.removeprefix(gpu.parent.name + ' ')
    first, _, rest = name.partition(' ')
    return printable(rest if first.lower() == gpu.gpu.vendor else name)


def _activity(activity: GpuActivity | None) -> dict[str, str]:
    return {} if activity is None else {name: _figure(getattr(activity, name), '%') for name in ACTIVITY}


def _health(gpu: GpuReading) -> dict[str, str]:
    found = [] if gpu.health is None else findings(gpu.health)
    return {'health': ', '.join(found)} if found else {}


def _memory(gpu: GpuReading) -> str:
    if gpu.memory_used is None and gpu.memory_total is None:
        return _UNKNOWN
    return f'{_gigabytes(gpu.memory_used)}/{_gigabytes(gpu.memory_total)}'


def _gigabytes(size: int | None) -> str:
    return _UNKNOWN if size is None else f'{size / _GIGA:.1f}'


def _sensors(gpu: GpuReading, unknown: str) -> dict[str, str]:
    """Return what a MIG device does not have: it is its GPU's, and stands in that one's row."""
    return {
        'temperature': _figure(gpu.temperature, '°C', unknown),
        'clock': _figure(None if gpu.sm_clock is None else gpu.sm_clock / _MEGA, '', unknown),
        'power': _figure(gpu.power, 'W', unknown),
    }


def _figure(value: float | None, unit: str, unknown: str = _UNKNOWN) -> str:
    return unknown if value is None else f'{value:.0f}{unit}'


def _own_processes(gpu: GpuReading) -> Sequence[GpuProcess] | None:
    """Return the processes that stand in the GPU's row: all but those in the rows of its MIG devices."""
    if gpu.processes is None or not gpu.mig_devices:
        return gpu.processes
    elsewhere = {process.pid for part in gpu.mig_devices for process in part.processes or ()}
    return [process for process in gpu.processes if process.pid not in elsewhere]


def _process_cells(processes: Sequence[GpuProcess] | None, now: float) -> dict[str, str]:
    if processes is None:
        return dict.fromkeys(('users', 'since', 'pids', 'command'), _UNKNOWN)
    if not processes:
        return {}
    starts = [process.started for process in processes if process.started is not None]
    return {
        'users': _each_once((process.user or _UNSEEN for process in processes), ','),
        'since': ago(now - min(starts)) if starts else _UNKNOWN,
        'pids': _each_once((_pid(process, alone=len(processes) == 1) for process in processes), ','),
        'command': _each_once((process.program for process in processes if process.program), ', ') or _UNKNOWN,
    }


def _pid(process: GpuProcess, *, alone: bool) -> str:
    """Return the process ID, with its share of the utilization if there are others."""
    return f'{process.pid}' if alone or process.utilization is None else f'{process.pid} {process.utilization}%'


def _each_once(words: Iterable[str], separator: str) -> str:
    return separator.join(dict.fromkeys(map(printable, words)))
