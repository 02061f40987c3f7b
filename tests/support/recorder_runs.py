"""Resources that have used what a test says, a clock that stands until a test moves it, and looks into recordings."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from gpu_tracker.resources import COUNTER, GAUGE, Column, DeviceReading, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GROUPS = ('main', 'descendants', 'combined')
COLUMNS = (
    *(Column(f'{group}_gpu_ram', 'bytes', GAUGE, '') for group in (*GROUPS, 'system')),
    Column('gpu_utilization', 'percent', GAUGE, ''),
    *(Column(f'{group}_cpu', 'seconds', COUNTER, f'CPU time of {group}') for group in (*GROUPS, 'system')),
    *(Column(f'{group}_n_threads', 'count', GAUGE, '') for group in GROUPS),
    *(Column(f'{group}_{size}_rss', 'bytes', GAUGE, '') for group in GROUPS for size in ('total', 'private', 'shared')),
    Column('system_ram', 'bytes', GAUGE, ''),
)
NAMES = [column.name for column in COLUMNS]
UNITS = ('megabytes', 'kilobytes', 'seconds', None)
MEGABYTE = 1 << 20
ROW: dict[str, float | None] = {
    'main_gpu_ram': 0, 'descendants_gpu_ram': 0, 'combined_gpu_ram': 0, 'system_gpu_ram': 0, 'gpu_utilization': 0.0,
    'main_cpu': 0.0, 'descendants_cpu': 0.0, 'combined_cpu': 0.0, 'system_cpu': 0.0,
    'main_n_threads': 1, 'descendants_n_threads': 2, 'combined_n_threads': 3,
    'main_total_rss': 3 * MEGABYTE, 'main_private_rss': 2 * MEGABYTE, 'main_shared_rss': MEGABYTE,
    'descendants_total_rss': 5 * MEGABYTE, 'descendants_private_rss': 4 * MEGABYTE,
    'descendants_shared_rss': MEGABYTE,
    'combined_total_rss': 7 * MEGABYTE, 'combined_private_rss': 6 * MEGABYTE, 'combined_shared_rss': MEGABYTE,
    'system_ram': 100 * MEGABYTE,
}  # fmt: skip
TOTALS: dict[str, Any] = {
    'ram': {'capacity': 200_000_000},
    'gpu': {'count': 4, 'expected': 2, 'capacity': 1_000_000},
    'cpu': {'cores': 2},
    'messages': [],
}


class Used(Resource):
    """Has used what a test says."""

    columns = COLUMNS

    def __init__(self) -> None:
        self.values: dict[str, float | None] = {}
        self.devices: list[DeviceReading] = []
        self.by_process: dict[int, int | None] | None = None

    def row(self) -> Sequence[float | None]:
        return [{**ROW, **self.values}[name] for name in NAMES]

    def gpu_ram_by_process(self) -> dict[int, int | None] | None:
        return self.by_process

    def take_devices(self) -> list[DeviceReading]:
        devices, self.devices = self.devices, []
        return devices


class Clock:
    """A monotonic clock, and a wall clock that it drives."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.unix = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.unix + self.now - 1000.0


def rows_of(path: Path | str, sql: str) -> list[tuple[Any, ...]]:
    """Return what a query finds in a recording."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def meta_of(path: Path | str) -> dict[str, Any]:
    """Return what a recording says of its run."""
    return dict(rows_of(path, 'SELECT key, value FROM meta'))
