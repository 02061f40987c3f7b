"""Filters of devices that are attached to a control group of version 2, seen by who may ask."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.control_groups.places import mounts
from gpu_tracker.cuda_probe.devices import control_groups
from support.gpus.gpu_machine import NO_SUCH_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROG_LOAD, _PROG_ATTACH, _OF_CGROUP_DEVICE, _CGROUP_DEVICE = 5, 8, 15, 6
_ALLOW_ALL = struct.pack('<BBhi', 0xB7, 0, 0, 1) + struct.pack('<BBhi', 0x95, 0, 0, 0)
"""r0 = 1; exit"""


def bpf(command: int, attributes: bytes) -> int:
    number = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(number, command, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes))
    assert done >= 0, os.strerror(ctypes.get_errno())
    return done


@pytest.fixture
def group() -> Iterator[Path]:
    points = [mount.point for mount in mounts() if mount.kind == 'cgroup2']
    if not points:
        pytest.skip('this machine has no control groups of version 2')
    if not os.access(points[0], os.W_OK):
        pytest.skip('needs root, or the right to change control groups')
    folder = Path(points[0]) / f'gpu-tracker-test-{os.getpid()}'
    folder.mkdir()
    yield folder
    folder.rmdir()


@contextlib.contextmanager
def filtered(folder: Path) -> Iterator[None]:
    """Attach a filter that allows everything; it goes with its group."""
    instructions = ctypes.create_string_buffer(_ALLOW_ALL, len(_ALLOW_ALL))
    name = ctypes.create_string_buffer(b'GPL')
    loaded = struct.pack('<IIQQ', _OF_CGROUP_DEVICE, 2, ctypes.addressof(instructions), ctypes.addressof(name))
    program = bpf(_PROG_LOAD, loaded)
    target = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        bpf(_PROG_ATTACH, struct.pack('<IIII', target, program, _CGROUP_DEVICE, 0))
        yield
    finally:
        os.close(target)
        os.close(program)


def test_filters_of_a_group_and_of_those_above_it_are_counted(group: Path) -> None:
    above = control_groups.filters_on(str(group))
    assert above is not None
    with filtered(group):
        assert control_groups.filters_on(str(group)) == 1
        inner = group / 'inner'
        inner.mkdir()
        try:
            assert control_groups.filters_on(str(inner)) == 1
        finally:
            inner.rmdir()


def test_a_group_that_is_not_there_tells_nothing() -> None:
    assert control_groups.filters_on(f'/sys/fs/cgroup/{NO_SUCH_PROCESS}') is None
    assert control_groups.filters_on('/tmp') is None
