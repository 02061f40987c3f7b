"""Whether the file system of a mapped file answers."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.binaries.cache import BinaryCache
from gpu_tracker.cuda_probe.binaries.file_systems import FileSystems
from gpu_tracker.cuda_probe.binaries.kernel_names import KernelNames
from gpu_tracker.cuda_probe.binaries.region import MappedPart
from support.cuda.mounts import Mounts
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

DEAD, LIVING = 47, 8


class Disk:
    """Answers at once, but for the device that is dead, until it is mended."""

    def __init__(self) -> None:
        self.now = 0.0
        self.mended = threading.Event()
        self.read: list[str] = []
        self.file_systems = Mounts('dead', self._read, clock=lambda: self.now)

    def _read(self, path: str) -> None:
        self.read.append(path)
        if 'dead' in path:
            self.mended.wait()

    def answers(self, device: int, path: str) -> bool:
        return self.file_systems.answers(MappedPart(0x1000, 0x2000, 0, device, 7, path, deleted=False), '/proc/1')


def test_a_file_system_is_asked_once_in_a_while() -> None:
    disk = Disk()
    assert disk.answers(LIVING, '/lib/a.so')
    assert disk.answers(LIVING, '/lib/b.so')
    assert disk.read == ['/proc/1/root/lib/a.so']
    disk.now = 5.0
    assert disk.answers(LIVING, '/lib/b.so')
    assert disk.read == ['/proc/1/root/lib/a.so', '/proc/1/root/lib/b.so']


def test_one_that_hangs_is_asked_no_more_until_it_returns() -> None:
    disk = Disk()
    assert not disk.answers(DEAD, '/dead/a.so')
    eventually(lambda: disk.read)
    disk.now = 60.0
    assert not disk.answers(DEAD, '/dead/b.so')
    assert disk.answers(LIVING, '/lib/a.so')
    assert len(disk.read) == 2
    disk.mended.set()
    eventually(lambda: disk.answers(DEAD, '/dead/b.so'))


def test_files_that_are_not_there_and_devices_are_answers_too(tmp_path: Path) -> None:
    file_systems = FileSystems()
    for number, path in enumerate((str(tmp_path / 'gone'), '/dev/null', str(tmp_path), __file__)):
        part = MappedPart(0x1000, 0x2000, 0, number, 7, path, deleted=False)
        assert file_systems.answers(part, f'/proc/{os.getpid()}')


def test_names_of_kernels_are_not_read_where_nothing_answers() -> None:
    never = threading.Event()
    dead = FileSystems(lambda _: never.wait(), timeout=0.01)
    names = KernelNames(os.getpid(), BinaryCache(None, dead))
    assert names.remember_maps()
    assert names.at(0x1000).name == '0x1000'
    never.set()
