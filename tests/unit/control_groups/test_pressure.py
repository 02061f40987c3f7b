"""Throttled CPU time and swap, in groups that the test makes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.control_groups.places import Group, Mount
from gpu_tracker.control_groups.pressure import Pressure
from support.control_group_trees import make_group

if TYPE_CHECKING:
    from pathlib import Path

PAGE = os.sysconf('SC_PAGE_SIZE')


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(throttled=2_000_000, swap=4096, pages=7)
        self.share(500)
        make_group(folder / 'job', {'cpu.max': '200000 100000'})
        make_group(folder / 'job/step', {'cpu.max': 'max 100000'})

    def write(self, throttled: int, swap: int, pages: int) -> None:
        make_group(self.folder / 'job', {'cpu.stat': f'usage_usec 5\nthrottled_usec {throttled}\n'})
        make_group(self.folder / 'job/step', {'memory.swap.current': swap, 'cpu.stat': 'throttled_usec 0\n'})
        (self.folder / 'vmstat').write_text(f'pswpin 9\npswpout {pages}\npgalloc 3\n')

    def share(self, kibibytes: int) -> None:
        (self.folder / 'meminfo').write_text(f'MemTotal: 16000 kB\nShmem:  {kibibytes} kB\nSlab: 7 kB\n')

    def pressure(self) -> Pressure:
        groups, mounted = [Group((), '/job/step')], [Mount('cgroup2', (), '/', str(self.folder))]
        return Pressure(groups, mounted, str(self.folder))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_was_counted_before_the_run_is_left_out(machine: Machine) -> None:
    pressure = machine.pressure()
    assert (pressure.throttled_seconds, pressure.group_swap, pressure.swapped_out) == (0.0, 0, None)
    pressure.read(is_last=True)
    assert (pressure.throttled_seconds, pressure.group_swap, pressure.swapped_out) == (0.0, 0, 0)


def test_the_most_swap_and_all_throttled_time_are_kept(machine: Machine) -> None:
    pressure = machine.pressure()
    machine.write(throttled=2_500_000, swap=4096 + 8192, pages=8)
    pressure.read(is_last=False)
    assert (pressure.throttled_seconds, pressure.group_swap, pressure.swapped_out) == (0.5, 8192, None)
    machine.write(throttled=5_000_000, swap=0, pages=10)
    pressure.read(is_last=True)
    assert (pressure.throttled_seconds, pressure.group_swap, pressure.swapped_out) == (3.0, 8192, 3 * PAGE)


def test_the_most_that_files_in_memory_grew_by(machine: Machine) -> None:
    pressure = machine.pressure()
    machine.share(700)
    pressure.read(is_last=False)
    machine.share(400)
    pressure.read(is_last=True)
    assert pressure.shmem_growth == 200 * 1024
    (machine.folder / 'meminfo').unlink()
    assert machine.pressure().shmem_growth is None


def test_the_last_reading_stands_if_the_group_was_removed(machine: Machine) -> None:
    pressure = machine.pressure()
    machine.write(throttled=3_000_000, swap=4096 + 8192, pages=8)
    pressure.read(is_last=False)
    for file in ('job/cpu.stat', 'job/step/memory.swap.current', 'vmstat'):
        (machine.folder / file).unlink()
    pressure.read(is_last=True)
    assert (pressure.throttled_seconds, pressure.group_swap, pressure.swapped_out) == (1.0, 8192, None)


def test_without_quota_and_swap_nothing_is_known(tmp_path: Path) -> None:
    pressure = Pressure([Group((), '/')], [Mount('cgroup2', (), '/', str(tmp_path))], str(tmp_path))
    pressure.read(is_last=True)
    assert (pressure.throttled_seconds, pressure.group_swap, pressure.swapped_out) == (None, None, None)


def test_throttled_time_of_version_1(tmp_path: Path) -> None:
    files = {'cpu.cfs_quota_us': 50000, 'cpu.cfs_period_us': 100000, 'cpu.stat': 'throttled_time 1000000000\n'}
    make_group(tmp_path / 'pod', files)
    mounted = [Mount('cgroup', ('cpu', 'cpuacct'), '/', str(tmp_path))]
    pressure = Pressure([Group(('cpu', 'cpuacct'), '/pod')], mounted, str(tmp_path))
    (tmp_path / 'pod/cpu.stat').write_text('throttled_time 3500000000\n')
    pressure.read(is_last=True)
    assert pressure.throttled_seconds == 2.5
