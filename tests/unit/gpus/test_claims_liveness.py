from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_tracker.gpus.claims import liveness
from gpu_tracker.gpus.claims.liveness import clock_offset, machine, now
from gpu_tracker.system.kernel import boot_id, pid_namespace
from support.simulated_proc import ProcFolder

NOBODYS = 2**22 + 1  # above what pid_max(5) may be


@pytest.fixture
def proc(tmp_path: Path) -> ProcFolder:
    folder = ProcFolder(tmp_path)
    (tmp_path / 'self').symlink_to(str(os.getpid()))
    return folder


def lives(proc: ProcFolder, pid: int, start: float | None) -> bool:
    return liveness.lives(pid, start, proc=str(proc.path))


def start_of(proc: ProcFolder, pid: int) -> float | None:
    return liveness.start_of(pid, proc=str(proc.path))


def test_a_process_is_known_by_its_start(proc: ProcFolder) -> None:
    proc.put(NOBODYS, 1, start=4321, name='a) S 1 (b')
    assert start_of(proc, NOBODYS) == 4321.0
    assert lives(proc, NOBODYS, 4321.0)
    assert lives(proc, NOBODYS, None)
    assert not lives(proc, NOBODYS, 4320.0)


@pytest.mark.parametrize(
    ('state', 'threads', 'alive'), [('Z', 1, False), ('X', 1, False), ('Z', 2, True), ('D', 1, True)]
)
def test_a_zombie_has_ended_unless_only_its_first_thread_has(
    proc: ProcFolder, state: str, threads: int, alive: bool
) -> None:
    proc.put(NOBODYS, 1, start=4321, state=state, threads=threads)
    assert lives(proc, NOBODYS, 4321.0) is alive


def test_a_process_that_is_gone(proc: ProcFolder) -> None:
    assert start_of(proc, NOBODYS) is None
    assert not lives(proc, NOBODYS, 4321.0)
    assert not lives(proc, NOBODYS, None)


def test_a_process_that_is_hidden_is_taken_for_the_one_with_its_number(proc: ProcFolder) -> None:
    assert start_of(proc, os.getppid()) is None
    assert lives(proc, os.getppid(), 4321.0)


def test_a_proc_folder_of_another_pid_namespace_is_not_believed(proc: ProcFolder) -> None:
    proc.put(NOBODYS, 1, start=4321)
    proc.put(os.getpid(), 1, start=4321)
    (proc.path / 'self').unlink()
    (proc.path / 'self').symlink_to('1')
    assert start_of(proc, os.getpid()) is None
    assert lives(proc, os.getpid(), 5.0)
    assert not lives(proc, NOBODYS, 4321.0)


def in_time_namespace(proc: ProcFolder, offsets: str, of_children: str = 'time:[4026532177]') -> None:
    (proc.path / 'self').unlink()
    (proc.path / 'self').symlink_to('own')
    (proc.path / 'own' / 'ns').mkdir(parents=True)
    (proc.path / 'own' / 'ns' / 'time').symlink_to('time:[4026532177]')
    (proc.path / 'own' / 'ns' / 'time_for_children').symlink_to(of_children)
    (proc.path / 'own' / 'timens_offsets').write_text(offsets)


def test_what_a_time_namespace_adds_to_the_clock(proc: ProcFolder) -> None:
    assert clock_offset(str(proc.path)) == 0
    in_time_namespace(proc, 'monotonic          -5         7\nboottime      1000000  500000000\n')
    assert clock_offset(str(proc.path)) == 1_000_000.5


@pytest.mark.parametrize(
    ('offsets', 'of_children'),
    [
        ('boottime 5 0\n', 'time:[4026532999]'),  # those in which children start
        ('', 'time:[4026532177]'),
        ('boottime\n', 'time:[4026532177]'),
        ('boottime a b\n', 'time:[4026532177]'),
    ],
)
def test_what_is_not_known_of_a_time_namespace_changes_nothing(
    proc: ProcFolder, offsets: str, of_children: str
) -> None:
    in_time_namespace(proc, offsets, of_children)
    assert clock_offset(str(proc.path)) == 0


def test_this_process() -> None:
    start = liveness.start_of(os.getpid())
    assert start is not None
    assert liveness.lives(os.getpid(), start)
    assert not liveness.lives(os.getpid(), start - 1)


def test_the_present_moment() -> None:
    first, second = now(), now()
    assert first.boot_id == second.boot_id == Path('/proc/sys/kernel/random/boot_id').read_text().strip()
    assert first.clock <= second.clock
    assert first.host == os.uname().nodename
    assert f'pid:[{first.pid_namespace}]' == os.readlink('/proc/self/ns/pid')


def test_a_machine_is_known_by_what_its_id_cannot_be_computed_from(tmp_path: Path) -> None:
    file = tmp_path / 'machine-id'
    assert machine(str(file)) == ''
    assert machine(str(tmp_path)) == ''
    file.touch()
    assert machine(str(file)) == ''
    file.write_text('0123456789abcdef0123456789abcdef\n')
    assert machine(str(file)) == '7759b50e'
    assert now().machine == machine('/etc/machine-id')


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert boot_id(str(tmp_path)) is None
    assert pid_namespace(str(tmp_path)) is None
