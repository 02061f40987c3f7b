"""What is to be shown of a recording, read from its tail."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.recording import schema
from gpu_tracker.recording.reading.tail import Tail
from gpu_tracker.resources import GAUGE, Column
from gpu_tracker.views.live.model import ProcessState, RegionState, State
from gpu_tracker.views.live.state import Source
from support.recordings import (
    DEFAULT_COLUMNS,
    ENERGY_COLUMNS,
    IO_COLUMNS,
    ROOT,
    being_written,
    busy_rows,
    region,
    totals_of,
    write_recording,
)

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20
GOES_ON = {'ended': None, 'exit_code': None, 'totals': None}


def state_of(path: Path, *, is_written: bool = True, **recorded: Any) -> State:
    recorded['meta'] = GOES_ON | recorded.get('meta', {})
    write_recording(path, **recorded)
    with being_written(path) if is_written else nullcontext(), Tail(path) as tail:
        return Source(tail).read()


def test_ram_and_cpu(tmp_path: Path) -> None:
    state = state_of(tmp_path / 'run.db', rows=busy_rows(11))
    assert (state.title, state.place, state.seconds, state.ending) == (
        'python train.py',
        'pid 4242 on node1',
        10.0,
        None,
    )
    ram, cpu = state.figures
    assert ram[:6] == ('RAM', 'bytes', 20 * MIB, 20 * MIB, 20 * MIB, 16 * 2**30)
    assert cpu[:6] == ('CPU', 'percent', 100.0, 100.0, 100.0, 800.0)
    assert ram.points[-1] == (10.0, 20 * MIB)
    assert cpu.points[:2] == [(0.0, None), (1.0, 100.0)]
    assert (state.processes, state.regions, state.other_gpus) == (None, [], [])


def test_a_later_reading_goes_on_where_the_one_before_has_ended(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    write_recording(path, rows=busy_rows(3), meta=GOES_ON)
    with being_written(path), Tail(path) as tail:
        source = Source(tail)
        before = source.read()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute('INSERT INTO samples (t, main_cpu, combined_cpu) VALUES (4000000, 6000000, 0)')
            connection.commit()
        after = source.read()
    assert [figure.now for figure in before.figures] == [12 * MIB, 100.0]
    ram, cpu = after.figures
    assert (ram.now, ram.last_known, ram.peak) == (None, 12 * MIB, 12 * MIB)
    assert (cpu.now, cpu.peak) == (200.0, 200.0)
    assert after.seconds == 4.0


def test_the_peaks_of_ram_and_cpu_are_those_of_the_report(tmp_path: Path) -> None:
    totals = totals_of()
    totals['ram']['combined'][0] = 99 * MIB
    totals['cpu']['combined'][1] = 1.25
    state = state_of(tmp_path / 'run.db', rows=busy_rows(3), meta={'totals': json.dumps(totals)})
    assert [figure.peak for figure in state.figures] == [99 * MIB, 125.0]
    strange = state_of(tmp_path / 'strange.db', rows=busy_rows(3), meta={'totals': '{"ram": 3}'})
    assert strange.figures[0].peak == 12 * MIB


def test_gpus_that_the_run_uses_are_shown_before_all_others(tmp_path: Path) -> None:
    state = state_of(
        tmp_path / 'run.db',
        rows=busy_rows(3),
        gpus=[(1, 'GPU-a', 'A', 10 * 1024), (2, 'GPU-b', 'B', None), (3, 'GPU-c', 'C', 5)],
        gpu_samples=[
            *((t, 1, 2048, 0, 100) for t in (0, 1_000_000)),
            *((t, 2, 4096, 1024 + t, 5000) for t in (0, 1_000_000)),
            (0, 3, None, None, None),
        ],
    )
    assert [figure[:6] for gpu in state.gpus for figure in gpu] == [
        ('GPU 1 RAM', 'bytes', (1024 + 1_000_000) * 1024, (1024 + 1_000_000) * 1024, (1024 + 1_000_000) * 1024, None),
        ('GPU 1', 'percent', 50.0, 50.0, 50.0, 100.0),
        ('GPU 2 RAM', 'bytes', None, None, None, 5 * 1024),
        ('GPU 2', 'percent', None, None, None, 100.0),
    ]
    assert [figure[:6] for gpu in state.other_gpus for figure in gpu] == [
        ('GPU 0 RAM', 'bytes', 2 * MIB, 2 * MIB, 2 * MIB, 10 * MIB),
        ('GPU 0', 'percent', 1.0, 1.0, 1.0, 100.0),
    ]


def test_io_and_power_are_rates(tmp_path: Path) -> None:
    rows = [
        (t, {**values, 'combined_io_read': t * 4096, 'cpu_package_energy': 5.0 * t, 'gpu_energy': 0.0})
        for t, values in busy_rows(3)
    ]
    columns = (*DEFAULT_COLUMNS, *IO_COLUMNS, *ENERGY_COLUMNS)
    state = state_of(tmp_path / 'run.db', columns=columns, rows=rows)
    assert [figure[:6] for figure in state.figures[2:]] == [
        ('Disk read', 'bytes/s', 4096.0, 4096.0, 4096.0, None),
        ('Disk write', 'bytes/s', None, None, None, None),
        ('CPU power', 'watts', 5.0, 5.0, 5.0, None),
    ]


def test_the_sm_activity_of_the_gpus_is_one_figure(tmp_path: Path) -> None:
    column = Column('gpu_sm_activity', 'percent', GAUGE, '')
    percents = (30.0, 81.0, 40.0)
    rows = [(t, {**values, 'gpu_sm_activity': percents[n]}) for n, (t, values) in enumerate(busy_rows(3))]
    recorded: dict[str, Any] = {'columns': (*DEFAULT_COLUMNS, column), 'rows': rows}
    gpus = {'gpus': [(1, 'GPU-a', 'A', 10 * 1024)], 'gpu_samples': [(0, 1, 2048, 1024, 100)]}
    state = state_of(tmp_path / 'run.db', **recorded, **gpus)
    assert [figure[:6] for figure in state.figures[2:]] == [('GPU SM', 'percent', 40.0, 40.0, 81.0, 100.0)]
    assert [figure.name for figure in state_of(tmp_path / 'none.db', **recorded).figures] == ['RAM', 'CPU']


def test_the_largest_processes_come_first(tmp_path: Path) -> None:
    state = state_of(
        tmp_path / 'run.db',
        rows=busy_rows(3),
        processes=[
            (1, ROOT, 1, 'python', 0),
            (2, 50, ROOT, 'worker\n', 0, 'worker\n --x'),
            (3, 51, ROOT, 'gone', 0),
            (4, 52, 50, 'new', 2),
        ],
        process_samples=[
            *((1_000_000, number, 1024, 500_000, 1) for number in (1, 2, 3)),
            (2_000_000, 1, 1024, 750_000, 1),
            (2_000_000, 2, 4096, 1_500_000, 1, 2048),
            (2_000_000, 4, None, 100, 1),
        ],
    )
    assert state.processes == [
        ProcessState(50, 'worker?', 100.0, 4 * MIB, 2 * MIB, 'worker? --x'),
        ProcessState(ROOT, 'python', 25.0, MIB, None, None),
        ProcessState(52, 'new', None, None, None, None),
    ]
    assert state.process_count == 3


def test_processes_whose_ram_looks_the_same_are_in_the_order_of_start(tmp_path: Path) -> None:
    sizes = {1: 61_501, 2: 61_502, 3: 61_900}
    state = state_of(
        tmp_path / 'run.db',
        rows=busy_rows(1),
        processes=[(number, 50 + number, 1, 'worker', 0) for number in sizes],
        process_samples=[(0, number, size, 0, 1) for number, size in sizes.items()],
    )
    assert [one.pid for one in state.processes or ()] == [53, 51, 52]


def test_open_regions_are_a_tree(tmp_path: Path) -> None:
    state = state_of(
        tmp_path / 'run.db',
        rows=busy_rows(5),
        regions=[
            region(1, 'training', 0.5, None),
            region(2, 'epoch', 1.0, None, parent=1, attributes={'n': 3, 'kind': 'a b'}),
            region(3, 'over', 1.0, 2.0, parent=1),
            region(4, 'load', 3.9, None, parent=2),
            region(5, 'other', 1.5, None, parent=99),
            region(6, 'itself', 2.0, None, parent=6, attributes='no JSON'),
        ],
    )
    assert state.regions == [
        RegionState('training', 0, 3.5),
        RegionState('epoch n=3 kind=a b', 1, 3.0),
        RegionState('load', 2, pytest.approx(0.1)),
        RegionState('other', 0, 2.5),
        RegionState('itself', 0, 2.0),
    ]


def test_regions_of_processes_that_have_ended_are_not_open(tmp_path: Path) -> None:
    regions = [region(1, 'training', 0.5, None), region(2, 'killed', 0.5, None, pid=77)]
    recorded: dict[str, Any] = {'rows': busy_rows(3), 'regions': regions}
    unknown = state_of(tmp_path / 'run.db', **recorded)
    assert [one.name for one in unknown.regions] == ['training', 'killed']
    processes = [(1, ROOT, 1, 'python', 0), (2, 77, ROOT, 'python', 0)]
    rows = [(0, 1, 1, 1, 1), (0, 2, 1, 1, 1), (2_000_000, 1, 1, 1, 1)]
    known = state_of(tmp_path / 'two.db', **recorded, processes=processes, process_samples=rows)
    assert [one.name for one in known.regions] == ['training']


def test_parents_in_a_circle_end(tmp_path: Path) -> None:
    regions = [region(1, 'a', 0.0, None, parent=2), region(2, 'b', 0.0, None, parent=1)]
    assert state_of(tmp_path / 'run.db', rows=busy_rows(2), regions=regions).regions == []


@pytest.mark.parametrize(
    ('meta', 'is_written', 'ending'),
    [
        ({}, True, None),
        ({}, False, 'The recording has ended before the run: its sampler was killed.'),
        ({'ended': schema.STOPPED, 'exit_code': 3}, False, 'The run has ended with exit code 3.'),
        ({'ended': schema.STOPPED}, True, 'The run has ended.'),
        ({'ended': schema.ABANDONED}, False, 'The recording has ended before the run: its tracker was gone.'),
    ],
)
def test_how_a_run_has_ended(tmp_path: Path, meta: dict[str, object], is_written: bool, ending: str | None) -> None:
    processes = {'processes': [(1, ROOT, 1, 'python', 0)], 'process_samples': [(0, 1, 1, 1, 1)]}
    regions = [region(1, 'training', 0.5, None)]
    state = state_of(
        tmp_path / 'run.db', is_written=is_written, rows=busy_rows(2), meta=meta, regions=regions, **processes
    )
    assert state.ending == ending
    assert (state.processes is None) == (not state.regions) == (ending is not None)


def test_a_recording_without_samples(tmp_path: Path) -> None:
    state = state_of(tmp_path / 'run.db', meta={'command': None, 'host': None, 'root_pid': None})
    assert (state.title, state.place, state.seconds) == ('process N/A', 'pid N/A on N/A', None)
    assert [figure[:5] for figure in state.figures] == [
        ('RAM', 'bytes', None, None, None),
        ('CPU', 'percent', None, None, None),
    ]


def test_the_command_cannot_command_the_terminal(tmp_path: Path) -> None:
    state = state_of(tmp_path / 'run.db', meta={'command': json.dumps(['a\x1b[2J', 'b\nc'])})
    assert state.title == 'a?[2J b c'
