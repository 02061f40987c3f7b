"""Rows in the layout of gpu-tracker 5: its CSV files, and views of a recording that its own analyzer reads.

RAM is in the units that were asked for, utilization is of the time since the row before.
"""

from __future__ import annotations

from gpu_tracker.recording.schema import SMALL_UNITS, expression
from gpu_tracker.units import MEMORY_UNITS, from_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpu_tracker.totals import Totals

STATIC = (
    'ram_unit',
    'gpu_ram_unit',
    'time_unit',
    'ram_system_capacity',
    'gpu_ram_system_capacity',
    'system_core_count',
    'n_expected_cores',
    'system_gpu_count',
    'n_expected_gpus',
)
"""The columns of what does not change."""

_RAM = {
    'main_ram': 'main_total_rss',
    'descendants_ram': 'descendants_total_rss',
    'combined_ram': 'combined_total_rss',
    'system_ram': 'system_ram',
}
_GPU_RAM = {f'{group}_gpu_ram': f'{group}_gpu_ram' for group in ('main', 'descendants', 'combined', 'system')}
_THREADS = {f'{group}_n_threads': f'{group}_n_threads' for group in ('main', 'descendants', 'combined')}
_CPU = ('system', 'main', 'descendants', 'combined')

TIMEPOINT = (
    *_RAM,
    *_GPU_RAM,
    'gpu_sum_utilization_percent',
    'gpu_hardware_utilization_percent',
    *_THREADS,
    *(f'cpu_{group}_{kind}_utilization_percent' for group in _CPU for kind in ('sum', 'hardware')),
    'timestamp',
)
"""The columns of a row."""


def static_values(totals: Totals, units: Sequence[Any]) -> list[str | float | None]:
    """Return the values of :data:`STATIC`; what is not known, or not yet, is None.

    :param units: Of RAM, GPU RAM and time, and the cores expected, as the tracker was given them.
    """
    ram_unit, gpu_ram_unit, time_unit, expected = units
    capacity, gpu, cores = totals['ram'].get('capacity'), totals['gpu'], totals['cpu'].get('cores')
    return [
        ram_unit,
        gpu_ram_unit,
        time_unit,
        from_bytes(capacity, ram_unit),
        from_bytes(gpu.get('capacity'), gpu_ram_unit),
        cores,
        expected or cores,
        gpu.get('count'),
        gpu.get('expected'),
    ]


class TimepointRows:
    """Makes rows from what resources have measured, one after the other.

    :param units: See :func:`static_values`.
    """

    def __init__(self, units: Sequence[Any]) -> None:
        self._ram = MEMORY_UNITS[units[0]]
        self._gpu_ram = MEMORY_UNITS[units[1]]
        self._before: tuple[float, list[float | None]] | None = None

    def row(
        self, timestamp: float, row: Mapping[str, float | None], static: Sequence[str | float | None]
    ) -> list[float | None]:
        """Return the values of :data:`TIMEPOINT`.

        :param timestamp: Seconds since 1970.
        :param row: What was measured, in base units by the names of columns.
        :param static: The values of :data:`STATIC`.
        """
        cores, expected, expected_gpus = static[5], static[6], static[8]
        gpu = row.get('gpu_utilization')
        found = [
            *(_divided(row.get(name), self._ram) for name in _RAM.values()),
            *(_divided(row.get(name), self._gpu_ram) for name in _GPU_RAM.values()),
            gpu,
            _divided(gpu, float(expected_gpus or 1)),
            *(row.get(name) for name in _THREADS.values()),
        ]
        used = [row.get(f'{group}_cpu') for group in _CPU]
        then, before = self._before or (timestamp, used)
        self._before = (timestamp, used)
        for group, now, last in zip(_CPU, used, before, strict=True):
            percent: float | None = 0.0 if timestamp == then else None
            if now is not None and last is not None and timestamp > then:
                percent = max(0.0, (now - last) / (timestamp - then) * 100)
                percent = percent if cores is None else min(percent, 100.0 * float(cores))
            found += [percent, _divided(percent, float((cores if group == 'system' else expected) or 1))]
        return [*found, timestamp]


def _divided(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def views(names: Sequence[str], units: Sequence[Any]) -> list[str]:
    """Return the statements that create the views ``data`` and ``static_data``.

    :param names: The columns of ``samples``.
    :param units: See :func:`static_values`.
    """
    ram_unit, gpu_ram_unit, time_unit, expected = units
    cores = "(SELECT value FROM meta WHERE key = 'cores')"
    expected_cores = cores if expected is None else str(int(expected))
    kept = "(SELECT value FROM meta WHERE key = 'totals')"
    capacity = "(SELECT value FROM meta WHERE key = 'ram_capacity')"
    expected_gpus = f"json_extract({kept}, '$.gpu.expected')"

    def size(name: str, unit: str) -> str:
        return f'{expression(name, names)} * {SMALL_UNITS["bytes"] / MEMORY_UNITS[unit]!r}'

    utilization = f'{expression("gpu_utilization", names)} * {SMALL_UNITS["percent"]!r}'
    shown = {public: size(name, ram_unit) for public, name in _RAM.items()}
    shown |= {public: size(name, gpu_ram_unit) for public, name in _GPU_RAM.items()}
    shown['gpu_sum_utilization_percent'] = utilization
    shown['gpu_hardware_utilization_percent'] = f'{utilization} / max(coalesce({expected_gpus}, 1), 1)'
    shown |= {public: expression(name, names) for public, name in _THREADS.items()}
    for group in _CPU:
        used = expression(f'{group}_cpu', names)
        percent = (
            f'CASE WHEN lag(t) OVER w IS NULL THEN 0.0 ELSE '
            f'max(0.0, min(100.0 * ({used} - lag({used}) OVER w) / (t - lag(t) OVER w), '
            f'100.0 * coalesce({cores}, 1e6))) END'
        )
        shown[f'cpu_{group}_sum_utilization_percent'] = percent
        shown[f'cpu_{group}_hardware_utilization_percent'] = (
            f'({percent}) / {cores if group == "system" else expected_cores}'
        )
    shown['timestamp'] = (
        '(t + (SELECT unix - c.t FROM clock AS c WHERE c.t <= samples.t ORDER BY c.t DESC LIMIT 1)) * 1e-6'
    )
    data = ', '.join(f'{shown[name]} AS {name}' for name in TIMEPOINT)
    static = (
        f"'{ram_unit}'",
        f"'{gpu_ram_unit}'",
        f"'{time_unit}'",
        f'{capacity} / {float(MEMORY_UNITS[ram_unit])!r}',
        f"json_extract({kept}, '$.gpu.capacity') / {float(MEMORY_UNITS[gpu_ram_unit])!r}",
        cores,
        expected_cores,
        f"json_extract({kept}, '$.gpu.count')",
        expected_gpus,
    )
    return [
        f'CREATE VIEW data AS SELECT {data} FROM samples WINDOW w AS (ORDER BY t)',  # noqa: S608 - names of our own
        f'CREATE VIEW static_data AS SELECT {", ".join(map(" AS ".join, zip(static, STATIC, strict=True)))}',
    ]
