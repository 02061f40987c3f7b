from __future__ import annotations

import os

import pytest

from gpu_tracker.idle.observing.gpu_processes import Programs
from gpu_tracker.idle.state import GpuUser
from support.simulated_proc import ProcFolder

MONITOR = 5


class Machine:
    """Processes in a folder, and a time that stands still unless it is moved."""

    def __init__(self, path) -> None:
        self.proc = ProcFolder(path)
        self.now = 0.0
        self.names_asked = []
        self.programs = Programs(str(path), name_of=self._name, own_pid=MONITOR, monotonic=lambda: self.now)

    def put(self, pid, parent=1, name='python', words='python\0train.py') -> None:
        self.proc.put(pid, parent, name=name, words=words)

    def _name(self, user) -> str:
        self.names_asked.append(user)
        return 'alice'


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_describes_a_process_by_its_script_and_owner(machine):
    machine.put(10)
    assert machine.programs.describe(10) == GpuUser(10, 'train.py', 'alice')
    assert machine.names_asked == [os.getuid()]


def test_a_name_that_is_not_known_yet_is_asked_for_at_the_next_look(tmp_path):
    ProcFolder(tmp_path).put(10, 1, name='python', words='python')
    names = iter(['1000', 'alice'])
    programs = Programs(str(tmp_path), name_of=lambda _: next(names))
    assert [programs.describe(10).user for _ in range(2)] == ['1000', 'alice']


def test_a_process_that_is_gone_or_hidden_has_no_name(machine):
    assert machine.programs.describe(10) == GpuUser(10, '?', None)
    assert machine.programs.names(10) == ()
    assert not machine.programs.never_counts(10)
    assert not machine.programs.is_ignored(10, ['python'])


def test_a_process_without_command_line_has_its_own_name(machine):
    machine.put(10, name='a b) c', words='')
    assert machine.programs.describe(10) == GpuUser(10, 'a b) c', 'alice')


def test_a_name_of_any_bytes_is_text(machine, tmp_path):
    machine.put(10)
    (tmp_path / '10' / 'cmdline').write_bytes(b'/opt/\xff\0')
    assert machine.programs.names(10) == ('python', '\udcff')


@pytest.mark.parametrize(
    ('ignored', 'answer'), [(['python'], True), (['train.py'], True), (['python3'], False), ([], False)]
)
def test_ignores_programs_by_name(machine, ignored, answer):
    machine.put(10)
    assert machine.programs.is_ignored(10, ignored) is answer


def test_the_monitor_never_counts(machine):
    machine.put(MONITOR, name='something', words='something')
    machine.put(10)
    assert machine.programs.never_counts(MONITOR)
    assert not machine.programs.never_counts(10)


def test_a_daemon_of_the_driver_never_counts(machine):
    machine.put(10, name='nvidia-persiste', words='/usr/bin/nvidia-persistenced\0--verbose')
    assert machine.programs.never_counts(10)


def test_an_exec_is_seen_at_the_next_look(machine):
    machine.put(10, words='python\0a.py')
    assert machine.programs.describe(10).program == 'a.py'
    machine.put(10, words='python\0b.py')
    assert machine.programs.describe(10).program == 'a.py'
    machine.now = 0.1
    assert machine.programs.describe(10).program == 'b.py'


def test_descendants_of_a_guardian_are_ours(machine):
    machine.put(10)
    machine.put(11, 10)
    machine.put(12, 11)
    machine.put(13)
    assert [pid for pid in (10, 11, 12, 13, 99) if machine.programs.is_ours(pid, {10})] == [10, 11, 12]


def test_without_guardians_nothing_is_ours(machine):
    machine.put(10)
    assert not machine.programs.is_ours(10, ())


def test_a_process_of_another_pid_namespace_is_not_ours(machine):
    machine.put(10, 0)
    assert not machine.programs.is_ours(10, {7})


def test_a_circle_of_reused_pids_ends(machine):
    machine.put(10, 11)
    machine.put(11, 10)
    assert not machine.programs.is_ours(10, {7})


def test_a_child_that_is_handed_to_its_guardian_meanwhile_is_ours(machine):
    """Its parent has ended after it was read who that is."""
    machine.put(7)
    machine.put(10, 8)
    assert machine.programs.names(10)  # reads the parent, too
    machine.put(10, 7)
    assert machine.programs.is_ours(10, {7})


def test_a_child_of_a_parent_that_is_not_to_be_seen_is_not_ours(machine):
    machine.put(10, 8)
    assert not machine.programs.is_ours(10, {7})
