"""Which GPUs a process can open, read from recorded trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.devices.access import AccessReader, access_of
from gpu_tracker.cuda_probe.devices.enumeration import GpuAccess

if TYPE_CHECKING:
    from pathlib import Path

V2_MOUNT = '30 1 0:26 / {0}/cgroup rw - cgroup2 cgroup2 rw\n'
V1_MOUNT = '31 1 0:27 / {0}/cgroup rw - cgroup cgroup rw,devices\n'


class Process:
    """Process 7 of a machine with two GPUs whose /proc and /dev are plain folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / 'proc'
        self.group = folder / 'cgroup' / 'job'
        self.group.mkdir(parents=True)
        self.dev = folder / 'dev'
        (self.proc / 'self').mkdir(parents=True)
        (self.proc / '7' / 'fd').mkdir(parents=True)
        (self.proc / '7' / 'root').mkdir()
        self.files(self.dev, 0, 1)
        (self.proc / '7' / 'root' / 'dev').symlink_to(self.dev)
        (self.proc / 'devices').write_text('Character devices:\n  1 mem\n240 nvidia\n\nBlock devices:\n195 nvidia\n')
        self.user(0)
        self.version_2()

    @staticmethod
    def files(dev: Path, *minors: int) -> None:
        dev.mkdir(exist_ok=True)
        for name in (*(f'nvidia{minor}' for minor in minors), 'nvidiactl', 'null'):
            (dev / name).touch()
            (dev / name).chmod(0o666)

    def user(self, number: int) -> None:
        (self.proc / '7' / 'status').write_text(f'Name:\tx\nUid:\t{number}\t{number}\t{number}\t{number}\n')

    def version_2(self) -> None:
        (self.proc / '7' / 'cgroup').write_text('0::/job\n')
        (self.proc / 'self' / 'mountinfo').write_text(V2_MOUNT.format(self.folder))

    def version_1(self, rules: str, path: str = '/job') -> None:
        (self.proc / '7' / 'cgroup').write_text(f'5:devices:{path}\n')
        (self.proc / 'self' / 'mountinfo').write_text(V1_MOUNT.format(self.folder))
        (self.group / 'devices.list').write_text(rules)

    def own_dev(self, *minors: int) -> None:
        (self.proc / '7' / 'root' / 'dev').unlink()
        self.files(self.proc / '7' / 'root' / 'dev', *minors)

    def hold(self, *names: str) -> None:
        for number, name in enumerate(names):
            (self.proc / '7' / 'fd' / str(number)).symlink_to(name)

    def access(self, filters: int | None = 0) -> GpuAccess:
        asked = str(self.group)
        return access_of(7, str(self.proc), str(self.dev), lambda folder: filters if folder == asked else None)

    def gpus(self, filters: int | None = 0) -> set[int] | None:
        found = self.access(filters).gpus
        return None if found is None else set(found)


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_without_limits_all_gpus_with_a_file_can_be_opened(process: Process) -> None:
    assert process.access() == GpuAccess(frozenset({0, 1}), None)


def test_a_filter_of_devices_leaves_it_unknown(process: Process) -> None:
    assert process.gpus(filters=1) is None
    assert process.gpus(filters=None) is None


def test_what_a_process_holds_open_it_may_open(process: Process) -> None:
    process.hold('/dev/nvidia0', '/dev/nvidia1', '/dev/null', 'socket:[1]')
    assert process.gpus(filters=1) == {0, 1}


def test_one_gpu_of_two_that_is_held_open_proves_nothing_of_the_other(process: Process) -> None:
    process.hold('/dev/nvidia0', '/dev/nvidia0')
    assert process.gpus(filters=1) is None


def test_a_container_can_open_what_was_put_into_it(process: Process) -> None:
    process.own_dev(1)
    assert process.gpus(filters=1) == {1}


def test_a_group_of_version_1_lists_what_it_allows(process: Process) -> None:
    process.version_1('c 1:3 rwm\nc 240:1 rw\n')
    assert process.gpus() == {1}
    process.version_1('c 240:* rwm\n')
    assert process.gpus() == {0, 1}
    process.version_1('c 240:0 r\nb 240:1 rwm\n')
    assert process.gpus() == set()


def test_exceptions_of_a_group_of_version_1_that_allows_all_are_not_shown(process: Process) -> None:
    process.version_1('a *:* rwm\n')
    assert process.gpus() is None
    process.own_dev(1)
    assert process.gpus() == {1}


def test_the_root_group_of_version_1_denies_nothing(process: Process) -> None:
    process.version_1('a *:* rwm\n', path='/')
    assert process.gpus() == {0, 1}


def test_a_group_that_is_not_to_be_seen_leaves_it_unknown(process: Process) -> None:
    process.version_1('c 240:* rwm\n', path='/../other')
    assert process.gpus() is None


def test_files_that_are_not_for_all_leave_it_unknown_but_for_root(process: Process) -> None:
    (process.dev / 'nvidia1').chmod(0o660)
    assert process.gpus() == {0, 1}
    process.user(1000)
    assert process.gpus() is None


def test_without_files_of_gpus_nothing_is_known(process: Process) -> None:
    process.own_dev()
    assert process.access() == GpuAccess()


def test_a_process_that_has_ended_leaves_it_unknown(process: Process) -> None:
    assert access_of(8, str(process.proc), str(process.dev)) == GpuAccess()


def test_mig_devices_take_the_capability_files_of_both_instances(process: Process) -> None:
    minors = process.proc / 'driver' / 'nvidia-caps' / 'mig-minors'
    minors.parent.mkdir(parents=True)
    minors.write_text(
        'config 1\nmonitor 2\n'
        'gpu0/gi5/access 48\ngpu0/gi5/ci0/access 49\n'
        'gpu0/gi6/access 57\ngpu0/gi6/ci0/access 58\n'
        'gpu1/gi5/access 183\ngpu1/gi5/ci0/access 184\n'
    )
    caps = process.dev / 'nvidia-caps'
    caps.mkdir()
    for number in (48, 49, 57, 184):
        (caps / f'nvidia-cap{number}').touch()
    assert process.access().instances == frozenset({(0, 5, 0)})


def test_a_later_process_of_the_same_number_is_another(process: Process) -> None:
    def start(ticks: int) -> None:
        (process.proc / '7' / 'stat').write_text(f'7 (x) S {"0 " * 18}{ticks} 0\n')

    start(100)
    process.hold('/dev/nvidia0', '/dev/nvidia1')
    look = AccessReader(7, str(process.proc))
    assert look().gpus == frozenset({0, 1})
    start(101)
    assert look() == GpuAccess()
    assert AccessReader(8, str(process.proc))() == GpuAccess()
