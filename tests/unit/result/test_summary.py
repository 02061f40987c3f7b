from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_tracker.resources.building import build
from gpu_tracker.result import formats
from gpu_tracker.result.usage import OwnGroupUsage
from gpu_tracker.units import Units, text_of

RUNS = Path(__file__).parents[2] / 'data' / 'recorded_runs'


def summary_of(name: str) -> list[str]:
    recorded = json.loads((RUNS / f'{name}.totals.json').read_text())
    units = Units('gigabytes', 'gigabytes', 'hours', None)
    return formats.FORMATS['summary'](build(recorded['totals'], units)).splitlines()


def summary_lines(**fields: Any) -> list[str]:
    """Return the summary of a run without GPUs and descendants that differs in some fields."""
    recorded = json.loads((RUNS / 'plain.totals.json').read_text())
    usage = build(recorded['totals'], Units('gigabytes', 'gigabytes', 'hours', None))
    return formats.FORMATS['summary'](dataclasses.replace(usage, **fields)).splitlines()


def test_the_summary_of_a_run_on_gpus() -> None:
    assert summary_of('gpu') == [
        'Time        2.51 s',
        'Peak RAM    13.8 MB (private 7.53 MB, shared 6.25 MB)',
        'Machine     peak 884 MB of 25.3 GB RAM in use by everybody',
        'CPU         0.0172 % of a core on average, peak 0.048 %; 2 cores expected',
        'Threads     peak 1',
        'GPU memory  3.22 GB of 25.8 GB, 6.44 GB by everybody',
        'GPU         83.3 % of a GPU on average, peak 120 %; 2 GPUs expected',
    ]


def test_the_summary_of_a_run_with_descendants_has_no_line_of_gpus_that_are_not_there() -> None:
    assert summary_of('io') == [
        'Time        638 ms',
        'Peak RAM    ≥ 3.22 MB (private 1.48 MB, shared 1.78 MB)',
        '            main process 1.77 MB, descendants ≥ 2.94 MB',
        'Machine     peak 711 MB of 25.3 GB RAM in use by everybody',
        'CPU         ≥ 2.66 % of a core on average, peak ≥ 2.66 %; 2 cores expected',
        '            main process 0.413 %, descendants ≥ 2.25 % on average',
        'Threads     peak 2 (main process 1, descendants 1)',
        'Storage     90.1 kB read, 21 MB written; by calls 42 MB and 41.9 MB',
    ]


def test_what_is_unknown_is_not_0() -> None:
    assert summary_of('mig')[-3:] == [
        'GPU memory  2.15 GB of 8.59 GB, 5.37 GB by everybody',
        'GPU         N/A of a GPU on average, peak N/A; 1 GPU expected',
        'Energy      GPUs in use N/A, CPU packages N/A',
    ]
    assert summary_of('foreign_process')[-1] == 'Storage     N/A read, N/A written; by calls N/A and N/A'


@pytest.mark.parametrize('path', sorted(RUNS.glob('*.totals.json')), ids=lambda path: path.name)
def test_a_summary_fits_a_screen(path: Path) -> None:
    lines = summary_of(path.name.partition('.')[0])
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ('left', 'expected'),
    [(None, []), (0, []), (1, ['            1 left-over process ended with it']),
     (3, ['            3 left-over processes ended with it'])],
)  # fmt: skip
def test_processes_that_an_own_group_had_left(left: int | None, expected: list[str]) -> None:
    group = OwnGroupUsage('bytes', 'cgroup v2', 2000, 0.5, 0.4, 0.1, 0, 0, 1, 0, left, None)
    lines = summary_lines(own_group=group)
    assert [line for line in lines if 'left' in line] == expected


def test_memory_of_an_own_group_that_is_not_counted() -> None:
    group = OwnGroupUsage('bytes', 'cgroup v2', None, 0.5, 0.4, 0.1, 0, 0, 1, 0, 0, None)
    assert summary_lines(own_group=group)[-1] == 'Own group   N/A with page cache, 500 ms of CPU time, 1 task at most'


@pytest.mark.parametrize(('tasks', 'text'), [(None, 'N/A tasks'), (1, '1 task'), (2, '2 tasks')])
def test_the_tasks_of_an_own_group(tasks: int | None, text: str) -> None:
    group = OwnGroupUsage('bytes', 'cgroup v2', 2000, 0.5, 0.4, 0.1, 0, 0, tasks, 0, 0, None)
    lines = summary_lines(own_group=group)
    assert lines[-1] == f'Own group   2 kB with page cache, 500 ms of CPU time, {text} at most'


@pytest.mark.parametrize(
    ('fields', 'text'),
    [
        ({'termination_reason': 'memory_limit'}, 'ended by its memory limit'),
        ({'exceeded_limits': ('cpu_limit', 'memory_limit')}, 'exceeded its CPU limit and its memory limit'),
    ],
)
def test_a_limit_stands_beside_the_time(fields: dict[str, Any], text: str) -> None:
    assert summary_lines(**fields)[0].endswith(f', {text}')


@pytest.mark.parametrize(
    ('value', 'unit', 'text'),
    [
        (1_234_567_890, 'bytes', '1.23 GB'),
        (0, 'bytes', '0 B'),
        (0.34, 'seconds', '340 ms'),
        (7200, 'seconds', '120 min'),
        (1234.5, 'watts', '1234 W'),
        (2.5e6, 'bytes/s', '2.5 MB/s'),
        (12.345, 'count', '12.3'),
    ],
)
def test_a_value_has_the_unit_in_which_it_is_read_best(value: float, unit: str, text: str) -> None:
    assert text_of(value, unit, 3) == text
