from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.mappings import Mapping, mappings_of
from gpu_tracker.cuda_probe.binaries.process_memory import words_at

if TYPE_CHECKING:
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


def test_mappings_of_files_are_read(tmp_path: Path) -> None:
    (tmp_path / '7').mkdir()
    (tmp_path / '7' / 'maps').write_text(MAPS)
    program = '/home/ann/my program'
    assert mappings_of(str(tmp_path), 7) == [
        Mapping(0x55D0C8A00000, 0x55D0C8A01000, 0, program, deleted=False),
        Mapping(0x55D0C8A01000, 0x55D0C8A02000, 0x1000, program, deleted=False),
        Mapping(0x55D0C9000000, 0x55D0C9021000, 0, None, deleted=False),
        Mapping(0x7F0000000000, 0x7F0000001000, 0, None, deleted=False),
        Mapping(0x7F0000002000, 0x7F0000003000, 0x2000, '/lib/old.so', deleted=True),
        Mapping(0x7F0000004000, 0x7F0000005000, 0, '/lib/two\nlines.so', deleted=False),
        Mapping(0x7F0000006000, 0x7F0000007000, 0, '/dev/zero', deleted=True),
        Mapping(0x7FFC00000000, 0x7FFC00021000, 0, None, deleted=False),
    ]


def test_a_process_that_has_ended_has_no_mappings(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        mappings_of(str(tmp_path), 7)


def test_words_of_a_process_are_read_near_and_far() -> None:
    near = (ctypes.c_uint64 * 2)(7, 1 << 63)
    far = ctypes.create_string_buffer(b'8 bytes.' * 4096)
    at = [ctypes.addressof(near), ctypes.addressof(near) + 8, ctypes.addressof(far) + 16_000]
    words = words_at('/proc', os.getpid(), sorted([*at, 8, 1 << 63]))
    assert words == dict(zip(at, (7, 1 << 63, int.from_bytes(b'8 bytes.', 'little')), strict=True))


def test_the_words_of_no_process_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        words_at(str(tmp_path), 7, [8])
