from __future__ import annotations

import resource
import signal
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.writing.csv_file import CsvFile
from support.recorder_runs import TOTALS, UNITS, Clock, Used

if TYPE_CHECKING:
    from pathlib import Path

HEAD = (
    'ram_unit,gpu_ram_unit,time_unit,ram_system_capacity,gpu_ram_system_capacity,system_core_count,n_expected_cores,'
    'system_gpu_count,n_expected_gpus\r\n'
    'megabytes,kilobytes,seconds,200.0,1000.0,2,2,4,2\r\n'
    'main_ram,descendants_ram,combined_ram,system_ram,main_gpu_ram,descendants_gpu_ram,combined_gpu_ram,system_gpu_ram,'
    'gpu_sum_utilization_percent,gpu_hardware_utilization_percent,main_n_threads,descendants_n_threads,'
    'combined_n_threads,cpu_system_sum_utilization_percent,cpu_system_hardware_utilization_percent,'
    'cpu_main_sum_utilization_percent,cpu_main_hardware_utilization_percent,cpu_descendants_sum_utilization_percent,'
    'cpu_descendants_hardware_utilization_percent,cpu_combined_sum_utilization_percent,'
    'cpu_combined_hardware_utilization_percent,timestamp\r\n'
)
RAM = '3.145728,5.24288,7.340032,104.8576,'


class Rows:
    def __init__(self, path: Path) -> None:
        path.touch()
        self.path = path
        self.clock = Clock()
        self.used = Used()
        self.file = CsvFile(str(path), units=UNITS, resources=[self.used], interval=1.0, wall_clock=self.clock.wall)

    def sample(self, at: float, **values: float | None) -> None:
        self.clock.now = 1000.0 + at
        self.used.values = values
        self.file.sampled(self.clock.now)

    def publish(self) -> None:
        self.file.published(self.clock.now, TOTALS)


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path / 'run.csv')


def test_the_layout_is_that_of_gpu_tracker_5(rows: Rows) -> None:
    rows.sample(0.0, gpu_utilization=50.0)
    rows.publish()
    rows.sample(2.0, main_cpu=1.0, combined_cpu=1.0, system_cpu=9.0, main_gpu_ram=None, gpu_utilization=None)
    rows.publish()
    assert rows.path.read_bytes().decode() == (
        f'{HEAD}{RAM}0.0,0.0,0.0,0.0,50.0,25.0,1,2,3,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1700000000.0\r\n'
        f'{RAM},0.0,0.0,0.0,,,1,2,3,200.0,100.0,50.0,25.0,0.0,0.0,50.0,25.0,1700000002.0\r\n'
    )


def test_only_whole_lines_are_written_where_there_is_no_room(rows: Rows) -> None:
    rows.sample(0.0)
    rows.publish()
    whole = rows.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, hard))
    try:
        for number in range(3):
            rows.sample(2.0 + number)
            rows.publish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert rows.path.read_bytes() == whole
    [(level, text)] = rows.file.take_messages()
    assert level == 'warning'
    assert text.startswith(f'The samples cannot be written to {rows.path}: File too large. Sampling goes on')
    rows.sample(5.0)
    rows.publish()
    lines = rows.path.read_text().splitlines()
    assert [line.rpartition(',')[2] for line in lines[3:]] == [f'170000000{n}.0' for n in (0, 2, 3, 4, 5)]
