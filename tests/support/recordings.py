"""Recordings made up by tests: files with the statements of the schema, and whatever a test wants to be in them."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_tracker.recording import schema
from gpu_tracker.resources import COUNTER, Column
from gpu_tracker.resources.cpu import Cpu
from gpu_tracker.resources.gpu import Gpu
from gpu_tracker.resources.ram import Ram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = 4242
"""The pid of the tracked process."""
STARTED_US = 1_790_000_000_000_000
"""When the first sample was made: 2026-09-21T14:13:20 UTC."""

DEFAULT_COLUMNS = (*Gpu.columns, *Cpu.columns, *Ram.columns)
"""Those of a run without optional sections."""
IO_COLUMNS = (
    Column('combined_io_read', 'bytes', COUNTER, ''),
    Column('combined_io_written', 'bytes', COUNTER, ''),
    Column('combined_minor_page_faults', 'count', COUNTER, ''),
)
ENERGY_COLUMNS = (Column('gpu_energy', 'joules', COUNTER, ''), Column('cpu_package_energy', 'joules', COUNTER, ''))

_MICRO = 1e6
_KIB = 1024


def totals_of(name: str = 'plain') -> dict[str, Any]:
    """Return the totals of one of the recorded runs in ``tests/data``."""
    file = Path(__file__).parents[1] / 'data' / 'recorded_runs' / f'{name}.totals.json'
    totals: dict[str, Any] = json.loads(file.read_text())['totals']
    return totals


def default_meta() -> dict[str, object]:
    """Return the meta of a run that has ended as it should."""
    return {
        'program': 'gpu-tracker 6.0.0',
        'command': json.dumps(['python', 'train.py']),
        'folder': '/home/user/project',
        'host': 'node1',
        'system': '6.1.0',
        'machine': 'x86_64',
        'python': '3.11.7',
        'cores': 8,
        'ram_capacity': 16 * 2**30,
        'started': '2026-09-21T14:13:20+00:00',
        'start_unix_us': STARTED_US,
        'start_monotonic_us': 5_000_000,
        'interval': 1.0,
        'units': json.dumps(['megabytes', 'megabytes', 'seconds', None]),
        'sections': json.dumps([]),
        'root_pid': ROOT,
        'totals': json.dumps(totals_of()),
        'ended': schema.STOPPED,
        'exit_code': 0,
        'region_lines_lost': 0,
    }


def region(
    number: int,
    name: str,
    start: float,
    stop: float | None,
    *,
    parent: int | None = None,
    pid: int = ROOT,
    thread: int | None = ROOT,
    peaks: tuple[int | None, int | None] = (None, None),
    **others: object,
) -> dict[str, object]:
    """Return a row of ``regions``: times in seconds, high-water marks in bytes.

    :param others: ``thread_cpu``, ``total``, ``shortest``, ``longest`` in seconds, and all else as it is stored;
        ``attributes`` may be a dictionary.
    """
    row: dict[str, object] = {
        'id': number, 'parent': parent, 'pid': pid, 'thread': thread, 'name': name, 'start': _micro(start),
        'stop': _micro(stop), 'peak_before': _kib(peaks[0]), 'peak_after': _kib(peaks[1]),
    }  # fmt: skip
    for key, value in others.items():
        if key in {'thread_cpu', 'total', 'shortest', 'longest'}:
            row[key] = _micro(value)
        else:
            row[key] = json.dumps(value) if isinstance(value, dict) else value
    return row


def write_recording(
    path: str | Path,
    *,
    columns: Sequence[Column] = DEFAULT_COLUMNS,
    rows: Iterable[tuple[float, Mapping[str, float | None]]] = (),
    regions: Iterable[Mapping[str, object]] = (),
    meta: Mapping[str, object] | None = None,
    gpus: Iterable[Sequence[object]] = (),
    gpu_samples: Iterable[Sequence[object]] = (),
    processes: Iterable[Sequence[object]] = (),
    process_samples: Iterable[Sequence[object]] = (),
    clock: Iterable[Sequence[object]] = (),
    messages: Iterable[Sequence[object]] = (),
) -> str:
    """Write a recording to ``path``, and return it as a text.

    :param rows: Of samples: seconds, and values in base units by the name of their column; the others are unknown.
    :param regions: See :func:`region`.
    :param meta: What is different from :func:`default_meta`; None leaves a key out.
    :param gpus: Whole rows, as they are stored; so are all that follow.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f'PRAGMA application_id = {schema.APPLICATION_ID}')
        connection.execute(f'PRAGMA user_version = {schema.VERSION}')
        connection.executescript(schema.TABLES)
        connection.execute(schema.samples_table(columns))
        connection.execute(schema.readings_view(columns))
        _insert(connection, 'meta', ((k, v) for k, v in {**default_meta(), **(meta or {})}.items() if v is not None))
        names = [column.name for column in columns]
        _insert(
            connection,
            'columns',
            [
                (
                    position,
                    column.name,
                    column.unit,
                    column.kind,
                    schema.small_unit(column),
                    ' '.join(schema.stored_sum(column.name, names)),
                    f'What {column.name} means.',
                )
                for position, column in enumerate(columns)
            ],
        )
        _insert(connection, 'samples', (_stored(columns, t, values) for t, values in rows))
        for row in regions:
            marks = ', '.join('?' * len(row))
            connection.execute(f'INSERT INTO regions ({", ".join(row)}) VALUES ({marks})', tuple(row.values()))
        _insert(connection, 'gpus', gpus)
        _insert(connection, 'gpu_samples', gpu_samples)
        _insert(connection, 'processes', processes)
        _insert(connection, 'process_samples', process_samples)
        _insert(connection, 'clock', clock)
        _insert(connection, 'messages', messages)
        connection.commit()
    return str(path)


@contextmanager
def being_written(path: str | Path) -> Iterator[None]:
    """Have a recording locked, as its sampler has it while the run goes on."""
    handle = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def busy_rows(count: int = 11, interval: float = 1.0) -> list[tuple[float, dict[str, float | None]]]:
    """Return samples of a process that keeps one core busy, grows by a MiB each and has one GPU half busy."""
    return [
        (
            index * interval,
            {
                'main_cpu': index * interval, 'descendants_cpu': 0.0, 'combined_cpu': index * interval,
                'system_cpu': index * interval * 2, 'main_n_threads': 1, 'descendants_n_threads': 0,
                'combined_n_threads': 1, 'main_total_rss': (10 + index) * 2**20,
                'main_private_rss': (8 + index) * 2**20, 'main_shared_rss': 2 * 2**20, 'descendants_total_rss': 0,
                'descendants_private_rss': 0, 'descendants_shared_rss': 0, 'combined_total_rss': (10 + index) * 2**20,
                'combined_private_rss': (8 + index) * 2**20, 'combined_shared_rss': 2 * 2**20,
                'system_ram': 2**30, 'main_gpu_ram': 2**20 * 100, 'descendants_gpu_ram': 0,
                'combined_gpu_ram': 2**20 * 100, 'system_gpu_ram': 2**20 * 150, 'gpu_utilization': 50.0,
                'gpu_busy': 50.0,
            },
        )
        for index in range(count)
    ]  # fmt: skip


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]]) -> None:
    """Write rows; the last columns of shorter ones are unknown."""
    width = len(connection.execute(f'SELECT * FROM {table} LIMIT 0').description)
    for row in rows:
        unknown = (None,) * (width - len(row))
        connection.execute(f'INSERT INTO {table} VALUES ({", ".join("?" * width)})', (*row, *unknown))


def _stored(columns: Sequence[Column], t: float, values: Mapping[str, float | None]) -> list[int | None]:
    """Return a row of ``samples``: small units, and of some columns what they have beyond the sum of two others."""
    names = [column.name for column in columns]
    small: dict[str, int | None] = {}
    for column in columns:
        value = values.get(column.name)
        small[column.name] = None if value is None else round(value / schema.small_unit(column))
    row: list[int | None] = [_micro(t)]
    for name in names:
        value = small[name]
        others = schema.stored_sum(name, names)
        row.append(None if value is None else value - sum(small[other] or 0 for other in others))
    return row


def _micro(seconds: Any) -> int | None:
    return None if seconds is None else round(seconds * _MICRO)


def _kib(size: int | None) -> int | None:
    return None if size is None else size // _KIB
