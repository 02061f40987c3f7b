"""Files of gpu-tracker 5 to analyze, and gpu-tracker 5.0.1 itself, in an environment of its own.

In the checkout that is made by ``python -m venv .venv-501`` and ``.venv-501/bin/pip install gpu-tracker==5.0.1``; the
variable GPU_TRACKER_501 names the interpreter of another one.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_VARIABLE = 'GPU_TRACKER_501'
_USUAL = Path(__file__).resolve().parents[2] / '.venv-501' / 'bin' / 'python'

STATIC = {
    'ram_unit': 'gigabytes',
    'gpu_ram_unit': 'megabytes',
    'time_unit': 'hours',
    'ram_system_capacity': 67.25,
    'gpu_ram_system_capacity': 16.0,
    'system_core_count': 12,
    'n_expected_cores': 4,
    'system_gpu_count': 1,
    'n_expected_gpus': 1,
}
MEASUREMENTS = (
    *(f'{group}_{kind}' for kind in ('ram', 'gpu_ram') for group in ('main', 'descendants', 'combined', 'system')),
    'gpu_sum_utilization_percent',
    'gpu_hardware_utilization_percent',
    *(f'{group}_n_threads' for group in ('main', 'descendants', 'combined')),
    *(
        f'cpu_{group}_{kind}_utilization_percent'
        for group in ('system', 'main', 'descendants', 'combined')
        for kind in ('sum', 'hardware')
    ),
)
COLUMNS = 'process_id,code_block_name,position,timestamp'

Point = tuple[float, float]
"""Unix time, and the RAM of the main process."""
OldRow = tuple[int, str, int, float]


def point(timestamp: float, ram: float) -> list[float | int]:
    """Return a row of what was measured, each column with a value of its own."""
    values: list[float | int] = [ram + place / 7 for place in range(len(MEASUREMENTS))]
    for place, name in enumerate(MEASUREMENTS):
        if name.endswith('_n_threads'):
            values[place] = 1 + place + int(ram)
    return [*values, timestamp]


def write_tracking(path: Path, points: Iterable[Point]) -> Path:
    """Write what was measured as gpu-tracker 5 does."""
    rows = [point(*each) for each in points]
    names = (*MEASUREMENTS, 'timestamp')
    if path.suffix == '.csv':
        lines = [','.join(STATIC), ','.join(map(str, STATIC.values())), ','.join(names)]
        lines += [','.join(map(repr, row)) for row in rows]
        path.write_bytes(''.join(f'{line}\r\n' for line in lines).encode())
        return path
    with sqlite3.connect(path) as database:
        _fill(database, 'static_data', STATIC, [list(STATIC.values())])
        _fill(database, 'data', names, rows)
    database.close()
    return path


def write_blocks(path: Path, rows: Iterable[OldRow]) -> Path:
    """Write code blocks as gpu-tracker 5 does."""
    if path.suffix == '.csv':
        lines = [COLUMNS, *(f'{process},{name},{position},{time!r}' for process, name, position, time in rows)]
        path.write_bytes(''.join(f'{line}\r\n' for line in lines).encode())
        return path
    with sqlite3.connect(path) as database:
        _fill(database, 'data', COLUMNS.split(','), rows)
    database.close()
    return path


def _fill(database: sqlite3.Connection, table: str, names: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
    names = list(names)
    database.execute(f'CREATE TABLE {table} ({", ".join(names)})')
    database.executemany(f'INSERT INTO {table} VALUES ({", ".join("?" * len(names))})', rows)


def python_501() -> str:
    """Return the interpreter that has gpu-tracker 5.0.1; skip the test if there is none."""
    path = os.environ.get(_VARIABLE) or str(_USUAL)
    if not os.path.exists(path):
        pytest.skip(f'needs gpu-tracker 5.0.1 in .venv-501, or {_VARIABLE}')
    return path


def environment_501() -> dict[str, str]:
    """Return an environment in which gpu-tracker is that of the interpreter."""
    return {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}


def run_501(program: str, *arguments: object) -> Any:
    """Run a program with gpu-tracker 5.0.1, and return the JSON that it prints."""
    words = [python_501(), '-W', 'ignore', '-c', program, *map(str, arguments)]
    done = subprocess.run(words, env=environment_501(), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_program(program: str, *arguments: object, **options: object) -> str:
    """Run a program with this gpu-tracker, which must succeed and say nothing on standard error; return its output."""
    words = [sys.executable, '-c', program, *map(str, arguments)]
    settings: dict[str, Any] = {'capture_output': True, 'text': True, 'timeout': TIMEOUT} | options
    done = subprocess.run(words, check=False, **settings)
    assert (done.returncode, done.stderr) == (0, '')
    return done.stdout


def nan_is_none(value: Any) -> Any:
    """Return a JSON value with None for each NaN."""
    if isinstance(value, dict):
        return {name: nan_is_none(each) for name, each in value.items()}
    if isinstance(value, list):
        return [nan_is_none(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def without_new(results: dict[str, Any]) -> dict[str, Any]:
    """Return results without what gpu-tracker 5 does not have."""
    blocks = [
        {name: value for name, value in block.items() if name != 'num_unfinished_calls'}
        for block in results['code_block_results']
    ]
    return results | {'code_block_results': blocks}


def assert_same(ours: Any, theirs: Any, place: str = '') -> None:
    """Check that two JSON values are the same, numbers to twelve digits."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        assert list(ours) == list(theirs), place
        for name in ours:
            assert_same(ours[name], theirs[name], f'{place}.{name}')
    elif isinstance(ours, list) and isinstance(theirs, list):
        assert len(ours) == len(theirs), place
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f'{place}[{index}]')
    elif isinstance(ours, float) or isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12), place
    else:
        assert ours == theirs, place
