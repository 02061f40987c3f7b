"""Names of kernels of programs that end before, or while, their files are looked at: told from a folder like /proc."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.cache import BinaryCache
from gpu_tracker.cuda_probe.binaries.kernel_names import KernelAt, KernelNames
from support.cuda.compiled_files import library, offsets
from support.simulated_proc import stat_line

if TYPE_CHECKING:
    from pathlib import Path

PID, START = 42, 0x7F00_0000_0000


class Ending:
    """A process that has one library mapped, and lets go of its root before that is reached through it."""

    def __init__(self, path: Path) -> None:
        self.proc = path / 'proc'
        self.folder = self.proc / str(PID)
        self.folder.mkdir(parents=True)
        self.library = library(path / 'libmath.so', 'void axpy(void) {}')
        self.offset = offsets(self.library, 'axpy')['axpy'].pop()
        self.names = KernelNames(PID, BinaryCache(), str(self.proc))
        self.runs()

    def runs(self, state: str = 'S') -> None:
        (self.folder / 'stat').write_text(stat_line(PID, 1, state=state))
        self.names = KernelNames(PID, BinaryCache(), str(self.proc))

    def maps(self, other_device: int = 0, other_inode: int = 0, ending: str = '') -> None:
        """Have it map the library; a file system may tell another device in maps than to those who ask for it."""
        status = self.library.stat()
        device, inode = status.st_dev + other_device, status.st_ino + other_inode
        place = f'{os.major(device):02x}:{os.minor(device):02x} {inode}'
        line = f'{START:x}-{START + 0x10000:x} r-xp 00000000 {place}    {self.library}{ending}\n'
        (self.folder / 'maps').write_text(line)

    def ends(self) -> None:
        shutil.rmtree(self.folder)

    def kernel(self) -> KernelAt:
        return self.names.at(START + self.offset)


@pytest.fixture
def ending(tmp_path: Path) -> Ending:
    return Ending(tmp_path)


def test_a_file_that_cannot_be_reached_through_the_process_any_more_is_found_here(ending: Ending) -> None:
    ending.maps()
    assert ending.names.remember_maps()
    ending.ends()
    assert ending.kernel() == KernelAt('axpy', 'axpy', str(ending.library), None)


@pytest.mark.parametrize('other', [{'other_device': 1}, {'other_inode': 1}, {'ending': ' (deleted)'}])
def test_another_file_of_that_name_is_not_taken_for_it(ending: Ending, other: dict[str, int | str]) -> None:
    ending.maps(**other)
    assert ending.names.remember_maps()
    name = f'libmath.so+{ending.offset:#x}'
    assert ending.kernel() == KernelAt(None, name, str(ending.library), None)
    ending.ends()
    assert ending.kernel() == KernelAt(None, name, str(ending.library), None, is_unread=True)


def test_a_file_that_was_written_to_since_is_not_read(ending: Ending) -> None:
    ending.maps()
    assert ending.names.remember_maps()
    ending.ends()
    ending.library.write_bytes(b'other')
    assert ending.kernel().name == f'libmath.so+{ending.offset:#x}'


@pytest.mark.parametrize('is_reaped', [True, False])
def test_of_a_program_that_had_ended_before_it_is_told_that_nothing_could_be_read(
    ending: Ending, *, is_reaped: bool
) -> None:
    if is_reaped:
        ending.ends()
    else:
        (ending.folder / 'maps').touch()
        ending.runs('Z')
    assert ending.kernel() == KernelAt(None, f'{START + ending.offset:#x}', None, None, is_unread=True)


def test_an_address_in_no_file_of_a_program_that_was_looked_at_is_no_matter_of_its_end(ending: Ending) -> None:
    ending.maps()
    assert ending.names.at(0x5000) == KernelAt(None, '0x5000', None, None)
    ending.ends()
    assert ending.names.at(0x5000) == KernelAt(None, '0x5000', None, None)


def test_the_maps_of_a_later_process_with_its_id_are_not_its_own(ending: Ending) -> None:
    ending.maps()
    (ending.folder / 'stat').write_text(stat_line(PID, 1, start=101))
    assert not ending.names.remember_maps()
    assert ending.kernel().is_unread
