from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes import proc_fault

if TYPE_CHECKING:
    from pathlib import Path

OWN = os.getpid()


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a folder in which this process is found as itself."""
    namespaces = tmp_path / str(OWN) / 'ns'
    namespaces.mkdir(parents=True)
    (tmp_path / 'self').symlink_to(str(OWN))
    for name in ('pid', 'pid_for_children'):
        (namespaces / name).symlink_to('pid:[4026531836]')
    return tmp_path


def test_the_folder_of_this_namespace_has_no_fault(proc: Path):
    assert proc_fault(str(proc)) is None


def test_before_linux_4_12_nothing_tells_of_children(proc: Path):
    (proc / 'self/ns/pid_for_children').unlink()
    assert proc_fault(str(proc)) is None


def test_nothing_mounted(tmp_path: Path):
    assert proc_fault(str(tmp_path)) == (
        f'{tmp_path} is not mounted, so no process can be measured. Mount it: mount -t proc proc {tmp_path}. '
        'See "gpu-tracker explain proc".'
    )


def test_a_namespace_that_has_this_process_under_another_number(proc: Path):
    (proc / 'self').unlink()
    (proc / 'self').symlink_to('7')
    assert proc_fault(str(proc)) == (
        f'{proc} is that of another PID namespace: it has this process, {OWN}, as 7. '
        f'Mount one of this namespace over it, as unshare --mount-proc does: mount -t proc proc {proc}. '
        'See "gpu-tracker explain proc".'
    )


def test_children_in_another_namespace(proc: Path):
    children = proc / 'self/ns/pid_for_children'
    children.unlink()
    children.symlink_to('pid:[4026532000]')
    assert proc_fault(str(proc)) == (
        f'What this process, {OWN}, starts gets into another PID namespace, so nothing that it starts can measure it. '
        'Start it inside that namespace, as unshare --fork does. See "gpu-tracker explain proc".'
    )
