"""The virtual machine of these tests, started anew for each file: containers and systemd leave something in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.vm import GROUPS, VirtualMachine, container, user_manager

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNEL = Path(__file__).parents[2] / '.vm-kernel' / 'vmlinuz'
"""scripts/vm_kernel.sh puts it there."""


@pytest.fixture(scope='session')
def kernel() -> Path:
    """Give the kernel of the machine."""
    kernel = Path(os.environ.get('GPU_TRACKER_TEST_KERNEL', KERNEL))
    if shutil.which('qemu-system-x86_64') is None:
        pytest.skip("needs QEMU, Debian's package qemu-system-x86")
    if not kernel.exists():
        pytest.skip(f"needs a kernel, Debian's package linux-image-cloud-amd64: {kernel}, see scripts/test.sh")
    return kernel


@pytest.fixture(scope='module')
def booted(tmp_path_factory: pytest.TempPathFactory, kernel: Path) -> Iterator[VirtualMachine]:
    """Give a machine whose control groups have all controllers."""
    for is_there, what in (
        (all(map(os.path.exists, user_manager.PROGRAMS)), "systemd and Debian's package dbus-daemon"),
        (os.path.exists(container.CRUN), "crun, Debian's package of that name"),
    ):
        if not is_there:
            pytest.skip(f'needs {what}')
    with VirtualMachine(tmp_path_factory.mktemp('vm'), kernel, [*user_manager.PROGRAMS, container.CRUN]) as machine:
        yield machine


@pytest.fixture
def machine(booted: VirtualMachine) -> Iterator[VirtualMachine]:
    """Give the machine, and check that the test has left no control group of a tracker."""
    yield booted
    assert booted.names(GROUPS) == []
    assert booted.read(f'{GROUPS}/cgroup.subtree_control') == ''


@pytest.fixture
def delegated(machine: VirtualMachine) -> Iterator[str]:
    """Give the folder of a group that is delegated to the ordinary user, with controllers."""
    machine.write(f'{GROUPS}/cgroup.subtree_control', '+memory +io +pids')
    folder = f'{GROUPS}/delegated'
    machine.make_group(folder, owner=1000)
    yield folder
    machine.remove_group(folder)
    machine.write(f'{GROUPS}/cgroup.subtree_control', '-memory -io -pids')
