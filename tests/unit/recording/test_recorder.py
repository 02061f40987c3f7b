from __future__ import annotations

import json
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes.process import Process
from gpu_tracker.recording.writing.recorder import Recorder
from gpu_tracker.recording.writing.region_log import RegionLog
from gpu_tracker.recording.writing.sample_rows import SampleRows
from gpu_tracker.resources import COUNTER, GAUGE, Column, DeviceReading
from support.recorder_runs import COLUMNS, MEGABYTE, NAMES, TOTALS, UNITS, Clock, Used, meta_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path


_RUNS: list[Run] = []


@pytest.fixture(autouse=True)
def closed():
    """Close what a test has left open: Python 3.13 warns of it."""
    yield
    for made in _RUNS:
        made.recorder._file._connection.close()
    _RUNS.clear()


class Run:
    """A recorder with a clock and a resource that a test sets."""

    def __init__(
        self, path: Path, *, interval: float = 1.0, regions: RegionLog | None = None, tree=None, **more
    ) -> None:
        path.touch()
        self.path = path
        self.clock = Clock()
        self.used = Used()
        self.recorder = Recorder(
            str(path),
            meta={'program': 'gpu-tracker', 'cores': 2, 'ram_capacity': 200_000_000},
            units=UNITS,
            resources=[self.used],
            interval=interval,
            tree=tree,
            regions=regions,
            monotonic=self.clock,
            wall_clock=self.clock.wall,
            **more,
        )
        _RUNS.append(self)

    def sample(self, at: float, **values: float | None) -> None:
        self.clock.now = 1000.0 + at
        self.used.values = values
        self.recorder.sampled(self.clock.now)

    def publish(self, **totals: object) -> None:
        self.recorder.published(self.clock.now, {**TOTALS, **totals})

    def rows(self, sql: str) -> list[tuple]:
        return rows_of(self.path, sql)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / 'run.db')


def test_a_file_says_what_it_is(run: Run) -> None:
    assert run.rows('PRAGMA application_id') == [(0x67707574,)]
    assert run.rows('PRAGMA user_version') == [(1,)]


def test_samples_are_stored_as_integers_in_small_units(run: Run) -> None:
    run.sample(0.0)
    run.sample(0.25, main_cpu=0.5, gpu_utilization=12.34, system_ram=7 * MEGABYTE)
    run.publish()
    assert run.rows('SELECT t, main_cpu, gpu_utilization, system_ram, main_private_rss FROM samples') == [
        (0, 0, 0, 102400, 2048),
        (250_000, 500_000, 1234, 7168, 2048),
    ]


def test_counters_of_bytes_are_exact() -> None:
    rows = SampleRows([Column('combined_io_read', 'bytes', COUNTER, ''), Column('ram', 'bytes', GAUGE, '')])
    assert rows.row(0, [3981, 3981]) == [0, 3981, 4]
    assert [row[4] for row in rows.descriptions()[1]] == [1.0, 1024.0]


def test_sums_are_stored_as_what_is_beyond_them_and_read_whole(run: Run) -> None:
    run.sample(0.0, main_cpu=0.25, descendants_cpu=0.5, combined_cpu=0.875)
    run.publish()
    stored = 'SELECT combined_cpu, combined_n_threads, main_total_rss, combined_total_rss, combined_private_rss FROM '
    assert run.rows(stored + 'samples') == [(125_000, 0, 0, 0, 0)]
    assert run.rows(stored + 'readings') == [(0.875, 3, 3 * MEGABYTE, 7 * MEGABYTE, 6 * MEGABYTE)]


def test_what_is_unknown_is_null_in_every_view(run: Run) -> None:
    unknown = dict.fromkeys(('main_cpu', 'combined_cpu', 'main_gpu_ram', 'main_total_rss', 'main_private_rss'))
    run.sample(0.0, **unknown)
    run.publish()
    names = ', '.join(unknown)
    assert run.rows(f'SELECT {names} FROM samples') == [(None,) * 5]
    assert run.rows(f'SELECT {names} FROM readings') == [(None,) * 5]


def test_a_sum_of_which_a_part_is_unknown_is_kept(run: Run) -> None:
    run.sample(0.0, combined_total_rss=9 * MEGABYTE, combined_private_rss=None)
    run.publish()
    assert run.rows('SELECT combined_total_rss, combined_private_rss FROM readings') == [(9 * MEGABYTE, None)]


def test_columns_are_described(run: Run) -> None:
    found = run.rows("SELECT * FROM columns WHERE name IN ('main_cpu', 'combined_cpu') ORDER BY position")
    assert found == [
        (5, 'main_cpu', 'seconds', 'counter', 1e-6, '', 'CPU time of main'),
        (7, 'combined_cpu', 'seconds', 'counter', 1e-6, 'main_cpu descendants_cpu', 'CPU time of combined'),
    ]
    assert run.rows('SELECT count(*) FROM columns') == [(len(COLUMNS),)]


def test_the_start_is_noted_on_three_clocks(run: Run) -> None:
    run.sample(0.0)
    run.publish()
    meta = meta_of(run.path)
    assert meta['started'] == '2023-11-14T22:13:20.000000Z'
    assert meta['start_unix_us'] == 1_700_000_000_000_000
    assert meta['start_monotonic_us'] == 1_000_000_000
    assert 'ended' not in meta
    assert run.rows('SELECT * FROM clock') == [(0, 1_700_000_000_000_000)]


def test_the_clock_is_noted_where_it_was_set(run: Run) -> None:
    for second in range(0, 10, 2):
        run.sample(second)
        run.publish()
        if second == 4:
            run.clock.unix -= 3600
    assert run.rows('SELECT * FROM clock') == [(0, 1_700_000_000_000_000), (6_000_000, 1_699_996_406_000_000)]


def test_a_commit_is_due_every_two_seconds_at_one_sample_a_second(run: Run) -> None:
    due = []
    for number in range(6):
        run.sample(number * 1.001)
        due.append(run.recorder.is_due(run.clock.now))
        if due[-1]:
            run.publish()
    assert due == [True, False, True, False, True, False]


def test_a_commit_is_due_at_every_sample_where_these_are_far_apart(tmp_path: Path) -> None:
    run = Run(tmp_path / 'run.db', interval=5.0)
    for number in range(3):
        run.sample(number * 5.0)
        assert run.recorder.is_due(run.clock.now)
        run.publish()
    assert run.rows('SELECT t FROM samples') == [(0,), (5_000_000,), (10_000_000,)]


def test_a_shorter_commit_interval(tmp_path: Path) -> None:
    run = Run(tmp_path / 'run.db', interval=0.1, commit_interval=0.5)
    committed = []
    for number in range(11):
        run.sample(number / 10)
        if run.recorder.is_due(run.clock.now):
            run.publish()
            committed.append(number)
    assert committed == [0, 5, 10]


def test_nothing_is_in_the_file_before_a_commit(run: Run) -> None:
    run.sample(0.0)
    assert run.rows('SELECT * FROM samples') == []


def test_totals_and_messages_are_those_of_the_last_commit(run: Run) -> None:
    run.sample(0.0)
    run.publish(messages=[('info', 'one')])
    run.sample(2.0)
    run.publish(messages=[('info', 'one'), ('warning', 'two')], seconds=float('nan'))
    assert run.rows('SELECT * FROM messages') == [(0, 'info', 'one'), (2_000_000, 'warning', 'two')]
    totals = json.loads(meta_of(run.path)['totals'])
    assert totals['messages'] == [['info', 'one'], ['warning', 'two']]
    assert totals['seconds'] is None


def test_the_end_is_written_with_the_totals_that_were_reported(run: Run) -> None:
    run.sample(0.0)
    run.publish()
    run.recorder.finish('stopped', {**TOTALS, 'seconds': 1.5}, 3)
    meta = meta_of(run.path)
    assert (meta['ended'], meta['exit_code'], json.loads(meta['totals'])['seconds']) == ('stopped', 3, 1.5)
    assert os.listdir(run.path.parent) == ['run.db']


def test_the_view_of_gpu_tracker_5_has_units_rates_and_times(run: Run) -> None:
    run.sample(0.0, combined_gpu_ram=3000, main_gpu_ram=3000, gpu_utilization=50.0)
    run.sample(2.0, main_cpu=1.0, descendants_cpu=2.0, combined_cpu=3.0, system_cpu=9.0, gpu_utilization=None)
    run.publish()
    names = 'main_ram, cpu_main_sum_utilization_percent, cpu_main_hardware_utilization_percent, combined_n_threads'
    assert run.rows(f'SELECT {names}, timestamp FROM data') == [
        (3.145728, 0.0, 0.0, 3, 1_700_000_000.0),
        (3.145728, 50.0, 25.0, 3, 1_700_000_002.0),
    ]
    gpu = 'gpu_sum_utilization_percent, gpu_hardware_utilization_percent'
    assert run.rows(f'SELECT {gpu}, combined_gpu_ram FROM data') == [(50.0, 25.0, 3.072), (None, None, 0.0)]
    assert run.rows('SELECT cpu_system_sum_utilization_percent FROM data') == [(0.0,), (200.0,)]
    assert run.rows('SELECT * FROM static_data') == [('megabytes', 'kilobytes', 'seconds', 200.0, 1000.0, 2, 2, 4, 2)]


def test_devices_have_rows_when_they_were_read(run: Run) -> None:
    run.sample(0.0)
    kind = {'name': 'X', 'total_ram': 4096 * 1024}
    run.used.devices = [
        DeviceReading(1000.5, 'GPU-1', ram=2048, combined_ram=1024, utilization=7.5, **kind),
        DeviceReading(1000.5, 'GPU-2', ram=None, combined_ram=None, utilization=None, name=None, total_ram=None),
    ]
    run.sample(1.0)
    run.used.devices = [DeviceReading(1001.5, 'GPU-1', ram=4096, combined_ram=0, utilization=0.0, **kind)]
    run.sample(2.0)
    run.publish()
    assert run.rows('SELECT * FROM gpus') == [(1, 'GPU-1', 'X', 4096), (2, 'GPU-2', None, None)]
    assert run.rows('SELECT * FROM gpu_samples') == [
        (500_000, 1, 2, 1, 750),
        (500_000, 2, None, None, None),
        (1_500_000, 1, 4, 0, 0),
    ]


class Tree:
    def __init__(self, *members: Process) -> None:
        self.members = {process.pid: process for process in members}


def a_process(pid: int, name: bytes, cpu: float) -> Process:
    process = Process(pid)
    process.start, process.parent, process.name = pid / 2, 1, name
    process.resident, process.own_cpu, process.threads = pid * 1024, cpu, 2
    return process


def test_processes_have_rows_and_a_pid_that_comes_again_is_another_process(tmp_path: Path) -> None:
    tree = Tree(a_process(7, b'sh', 0.5), a_process(8, b'held', 0.25))
    run = Run(tmp_path / 'run.db', tree=tree)
    tree.members[8].shares_memory = True
    run.sample(0.0)
    tree.members[8].name, tree.members[8].shares_memory = b'python', False
    run.sample(1.0)
    again = a_process(7, b'sed', 0.0)
    again.start = 99.0
    tree.members = {7: again}
    run.sample(2.0)
    run.publish()
    assert run.rows('SELECT * FROM processes') == [
        (1, 7, 1, 'sh', 0, None),
        (2, 8, 1, 'python', 0, None),
        (3, 7, 1, 'sed', 2_000_000, None),
    ]
    assert run.rows('SELECT * FROM process_samples WHERE t = 0') == [
        (0, 1, 7, 500_000, 2, None),
        (0, 2, None, 250_000, 2, None),
    ]
    assert run.rows('SELECT process, rss FROM process_samples WHERE t = 1000000') == [(1, 7), (2, 8)]
    assert run.rows('SELECT process FROM process_samples WHERE t = 2000000') == [(3,)]


def test_a_process_that_runs_another_script_has_the_name_and_command_of_that(tmp_path: Path) -> None:
    process = a_process(7, b'python', 0.5)
    process.command_line = b'python\0launch.py\0'
    run = Run(tmp_path / 'run.db', tree=Tree(process))
    run.sample(0.0)
    process.command_line = b'python\0train.py\0'
    run.sample(1.0)
    run.publish()
    assert run.rows('SELECT * FROM processes') == [(1, 7, 1, 'train.py', 0, 'python train.py')]


@pytest.mark.parametrize(
    ('command_line', 'command'),
    [
        (b'sh\0-c\0a b\0', 'sh -c a b'),
        (b'worker: title\0\0\0\0', 'worker: title'),
        (b'\xff\n\0', '\ufffd\n'),
        (b'x' * 200, 'x' * 200),
        (b'x' * 201, 'x' * 199 + '…'),
        (b'', None),
    ],
)
def test_a_process_has_its_command_line_as_ps_shows_it(
    tmp_path: Path, command_line: bytes, command: str | None
) -> None:
    process = a_process(7, b'sh', 0.5)
    process.command_line = command_line
    run = Run(tmp_path / 'run.db', tree=Tree(process))
    run.sample(0.0)
    run.publish()
    assert run.rows('SELECT command FROM processes') == [(command,)]


def test_processes_have_the_gpu_memory_that_the_driver_reports(tmp_path: Path) -> None:
    run = Run(tmp_path / 'run.db', tree=Tree(*(a_process(pid, b'python', 0.0) for pid in (7, 8, 9, 10))))
    run.sample(0.0)
    run.used.by_process = {7: 3 << 20, 8: 0, 9: None}
    run.sample(1.0)
    run.used.by_process = None
    run.sample(2.0)
    run.publish()
    assert run.rows('SELECT t / 1000000, process, gpu_ram FROM process_samples WHERE gpu_ram IS NOT NULL') == [
        (1, 1, 3072),
        (1, 2, 0),
    ]


def reader_in_the_way(run: Run) -> sqlite3.Connection:
    """Return what has begun to read a recording, which can be written again when this is closed."""
    reader = sqlite3.connect(run.path)
    reader.execute('BEGIN')
    reader.execute('SELECT * FROM samples').fetchall()
    return reader


def test_a_reader_delays_a_commit_and_no_row_is_lost(run: Run) -> None:
    run.sample(0.0)
    run.publish()
    reader = reader_in_the_way(run)
    run.sample(2.0)
    run.publish()
    assert run.recorder.take_messages() == []
    reader.close()
    assert run.rows('SELECT t FROM samples') == [(0,)]
    run.sample(4.0)
    run.publish()
    assert run.rows('SELECT t FROM samples') == [(0,), (2_000_000,), (4_000_000,)]


def test_what_a_reader_has_delayed_is_written_soon_after(run: Run) -> None:
    run.sample(0.0)
    run.publish()
    reader = reader_in_the_way(run)
    run.sample(2.0)
    run.publish()
    due = [run.recorder.due()]
    for _ in range(6):  # a reader that stays is not to make each sample dear
        run.recorder.commit(due[-1])
        due.append(run.recorder.due())
    assert due == pytest.approx([1002.1, 1002.3, 1002.7, 1003.5, 1005.1, 1007.1, 1009.1])
    reader.close()
    run.recorder.commit(1009.1)
    assert run.rows('SELECT t FROM samples') == [(0,), (2_000_000,)]
    assert run.recorder.due() == float('inf')


class FullDisk:
    """Lets a limit on the number of pages stand in for the end of the disk."""

    def __init__(self, run: Run) -> None:
        self._connection = run.recorder._file._connection

    def __enter__(self) -> None:
        self._connection.execute('PRAGMA max_page_count = 1').fetchone()

    def __exit__(self, *_: object) -> None:
        self._connection.execute('PRAGMA max_page_count = 1000000').fetchone()


def test_a_full_disk_is_reported_once_and_rows_are_written_when_there_is_room(run: Run) -> None:
    run.sample(0.0)
    run.publish()
    with FullDisk(run):
        for number in range(1, 1000):
            run.sample(number)
            run.publish()
    [(level, text)] = run.recorder.take_messages()
    assert level == 'warning'
    assert text.startswith(f'The recording cannot be written to {run.path}: database or disk is full. Sampling goes on')
    assert run.rows('SELECT count(*) FROM samples')[0][0] < 1000
    run.sample(1000)
    run.publish()
    assert run.rows('SELECT count(*), max(t) FROM samples') == [(1001, 1_000_000_000)]
    assert run.rows('PRAGMA integrity_check') == [('ok',)]


def test_the_oldest_rows_are_dropped_where_there_is_no_room_for_long(run: Run) -> None:
    run.sample(0.0)
    run.publish()
    with FullDisk(run):
        for number in range(1, 10_501):
            run.sample(number)
        run.publish()
    messages = run.recorder.take_messages()
    run.sample(10_501)
    run.publish()
    count, lost = run.rows('SELECT count(*) FROM samples')[0][0], meta_of(run.path)['samples_lost']
    assert count + lost == 10_502
    assert lost >= 500
    assert any(text.startswith('The oldest samples of the recording were dropped') for _, text in messages)


def test_a_file_whose_locks_fail_is_written_without(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    path.touch()
    other = sqlite3.connect(path)  # stands in for a file system that refuses locks
    other.execute('BEGIN EXCLUSIVE')
    run = Run(path)
    [(level, text)] = run.recorder.take_messages()
    assert (level, text.startswith(f'The file system of {path} does not support file locks')) == ('warning', True)
    other.close()
    run.sample(0.0)
    run.publish()
    assert run.rows('SELECT count(*) FROM samples') == [(1,)]


def test_names_that_are_special_in_addresses_are_opened_without_locks(tmp_path: Path) -> None:
    path = tmp_path / 'a?b#c%20 \u20ac.db'
    path.touch()
    other = sqlite3.connect(path)
    other.execute('BEGIN EXCLUSIVE')
    run = Run(path)
    other.close()
    run.sample(0.0)
    run.publish()
    assert run.rows('SELECT count(*) FROM samples') == [(1,)]


def test_a_discarded_recording_leaves_no_journal(run: Run) -> None:
    run.sample(0.0)
    run.publish()
    run.recorder.discard()
    assert os.listdir(run.path.parent) == ['run.db']


def test_the_names_are_those_of_the_resources() -> None:
    assert len(set(NAMES)) == len(COLUMNS)


def test_regions_are_written_at_a_commit_also_between_samples(tmp_path: Path) -> None:
    log = tmp_path / 'log'
    log.touch()
    run = Run(tmp_path / 'run.db', interval=60.0, regions=RegionLog(str(log)))
    run.sample(0.0)
    run.publish()
    with log.open('a') as lines:
        lines.write('B\t5\t-\t70\t71\t-\t1000500000000\t1000000\t2000\tload\t-\n')
    assert run.recorder.due() == 1002.0
    run.clock.now = 1002.0
    run.recorder.commit(1002.0)
    assert run.rows('SELECT id, parent, pid, thread, name, start, stop FROM regions') == [
        (5, None, 70, 71, 'load', 500_000, None)
    ]
    with log.open('a') as lines:
        lines.write('E\t5\t1001500000000\t3000000\t2500\tValueError\n')
    run.recorder.finish('stopped', None, None)
    assert run.rows('SELECT start, stop, thread_cpu, peak_before, peak_after, error, errors FROM regions') == [
        (500_000, 1_500_000, 2_000, 2000, 2500, 'ValueError', 1)
    ]
    assert not log.exists()


def test_values_that_no_database_takes_are_left_out_and_counted(tmp_path: Path) -> None:
    log = tmp_path / 'log'
    log.write_text(
        f'B\t5\t-\t70\t71\t-\t1000500000000\t-\t{1 << 70}\tlarge\t-\nB\t6\t-\t70\t71\t-\t1000500000000\t-\t-\tload\t-\n'
    )
    run = Run(tmp_path / 'run.db', regions=RegionLog(str(log)))
    run.sample(0.0)
    run.publish()
    assert run.rows('SELECT id, name FROM regions') == [(6, 'load')]
    run.sample(2.0)
    run.publish()
    assert run.rows('SELECT count(*) FROM samples') == [(2,)]
    assert meta_of(run.path)['region_lines_lost'] == 1
