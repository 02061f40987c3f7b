from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.region import MappedPart, code_of, mappings_of, words_at
from support.tracked_program import as_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAPS = """\
55d0c8a00000-55d0c8a01000 r--p 00000000 fe:01 1234    /home/ann/my program
55d0c8a01000-55d0c8a02000 r-xp 00001000 fe:01 1234    /home/ann/my program
55d0c9000000-55d0c9021000 rw-p 00000000 00:00 0       [heap]
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 00002000 fe:01 99      /lib/old.so (deleted)
7f0000004000-7f0000005000 r-xp 00000000 fe:01 98      /lib/two\\012lines.so
7f0000006000-7f0000007000 rw-s 00000000 00:01 5       /dev/zero (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0       [stack]
nonsense
"""
CODE = {0x55D0C8A01000, 0x7F0000002000, 0x7F0000004000}


@pytest.fixture
def proc(tmp_path: Path) -> str:
    (tmp_path / '7').mkdir()
    (tmp_path / '7' / 'maps').write_text(MAPS)
    return str(tmp_path)


def test_mappings_of_files_are_read(proc: str) -> None:
    program = '/home/ann/my program'
    disk, none, memory = os.makedev(0xFE, 1), os.makedev(0, 0), os.makedev(0, 1)
    assert mappings_of(proc, 7) == [
        MappedPart(0x55D0C8A00000, 0x55D0C8A01000, 0, disk, 1234, program, deleted=False),
        MappedPart(0x55D0C8A01000, 0x55D0C8A02000, 0x1000, disk, 1234, program, deleted=False),
        MappedPart(0x55D0C9000000, 0x55D0C9021000, 0, none, 0, None, deleted=False),
        MappedPart(0x7F0000000000, 0x7F0000001000, 0, none, 0, None, deleted=False),
        MappedPart(0x7F0000002000, 0x7F0000003000, 0x2000, disk, 99, '/lib/old.so', deleted=True),
        MappedPart(0x7F0000004000, 0x7F0000005000, 0, disk, 98, '/lib/two\nlines.so', deleted=False),
        MappedPart(0x7F0000006000, 0x7F0000007000, 0, memory, 5, '/dev/zero', deleted=True),
        MappedPart(0x7FFC00000000, 0x7FFC00021000, 0, none, 0, None, deleted=False),
    ]


def test_code_of_files_is_read_alone(proc: str) -> None:
    assert code_of(proc, 7) == [mapping for mapping in mappings_of(proc, 7) if mapping.start in CODE]


def test_a_file_is_reached_through_the_process_and_one_without_a_name_through_its_mapping(proc: str) -> None:
    reached = [mapping.reached_through('/proc/7') for mapping in code_of(proc, 7)]
    assert reached == [
        '/proc/7/root/home/ann/my program',
        '/proc/7/map_files/7f0000002000-7f0000003000',
        '/proc/7/root/lib/two\nlines.so',
    ]


IN_CHROOT = """
import mmap, os, sys
root, how = sys.argv[1:]
with open(root + '/lib.so', 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
os.chroot(root + how)
print(flush=True)
sys.stdin.read()
"""


@as_root
@pytest.mark.parametrize('how', ['', '/empty'])  # from the latter the file cannot be named
def test_a_file_of_a_process_in_a_chroot_is_reached(tmp_path: Path, how: str) -> None:
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'lib.so').write_bytes(b'a library')
    words = [sys.executable, '-c', IN_CHROOT, str(tmp_path), how]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (mapping,) = (each for each in mappings_of('/proc', process.pid) if (each.path or '').endswith('/lib.so'))
        reached = mapping.reached_through(f'/proc/{process.pid}')
        assert os.path.samefile(reached, tmp_path / 'lib.so')
        process.kill()


@pytest.mark.parametrize('read', [mappings_of, code_of])
def test_a_process_that_has_ended_has_no_mappings(tmp_path: Path, read: Callable[[str, int], list[MappedPart]]) -> None:
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path), 7)


def test_the_device_and_the_inode_of_this_program_are_those_of_its_file_or_those_of_another_layer() -> None:
    """On Btrfs and overlay file systems another device stands there: then nothing else is taken for the file."""
    with open(__file__, 'rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        [mapping] = (mapping for mapping in mappings_of('/proc', os.getpid()) if mapping.path == __file__)
        status = os.fstat(file.fileno())
    if mapping.device == status.st_dev:
        assert mapping.inode == status.st_ino


def test_words_of_a_process_are_read_near_and_far() -> None:
    near = (ctypes.c_uint64 * 2)(7, 1 << 63)
    far = ctypes.create_string_buffer(b'8 bytes.' * 4096)
    at = [ctypes.addressof(near), ctypes.addressof(near) + 8, ctypes.addressof(far) + 16_000]
    words = words_at('/proc', os.getpid(), sorted([*at, 8, 1 << 63]))
    assert words == dict(zip(at, (7, 1 << 63, int.from_bytes(b'8 bytes.', 'little')), strict=True))


def test_the_words_of_no_process_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        words_at(str(tmp_path), 7, [8])
