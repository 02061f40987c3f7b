"""``--cgroup`` of an ordinary user whose groups belong to systemd: its manager of that user makes a scope."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.own_group import MEBIBYTE, NO_STORAGE, OPTIONS
from support.vm import ORDINARY_USER, user_manager
from support.vm.tracked import WITHOUT_DISK
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.vm import VirtualMachine


@pytest.fixture(scope='module')
def login(booted: VirtualMachine) -> Iterator[VirtualMachine]:
    """Give the machine with a user who has logged in."""
    user_manager.start(booted)
    yield booted
    user_manager.stop(booted)


def track(machine: VirtualMachine, program: str):
    """Track a program from a shell of the login; return what it and gpu-tracker have said, and the group's figures."""
    words = ['gpu-tracker', *OPTIONS, '--', 'python', '-c', program]
    done = machine.run(
        ['sh', '-c', '"$@"; exit $?', 'sh', *words],
        user=ORDINARY_USER,
        group=user_manager.SESSION,
        environment=user_manager.ENVIRONMENT,
    )
    own, _, report = done.output.partition('\n')
    return done, own, json.loads(report)['own_group']


@pytest.mark.figures
def test_a_command_of_a_login_gets_a_scope(login: VirtualMachine):
    done, own_text, found = track(login, WITHOUT_DISK)
    own = json.loads(own_text)
    assert (found['made_in'], found['problem']) == ('systemd scope', NO_STORAGE)
    assert own['memory_peak'] <= found['memory_peak'] <= own['memory_peak'] + MEBIBYTE
    assert own['cpu'] <= found['cpu_seconds'] <= own['cpu'] + 1
    assert found['max_tasks'] == own['max_tasks'] == 6
    assert '--cgroup' not in done.errors
    eventually(lambda: login.names(user_manager.SCOPES) == ['dbus.service'])


def test_what_a_command_leaves_running_is_ended_with_its_scope(login: VirtualMachine):
    _, _, found = track(login, "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); print()")
    assert (found['made_in'], found['left_processes']) == ('systemd scope', 1)
    eventually(lambda: login.names(user_manager.SCOPES) == ['dbus.service'])


def test_no_scope_takes_a_command_out_of_a_limit(login: VirtualMachine):
    login.write(f'{user_manager.SESSION}/memory.max', str(400 * MEBIBYTE))
    done, _, found = track(login, 'print()')
    login.write(f'{user_manager.SESSION}/memory.max', 'max')
    assert (found['made_in'], found['memory_peak']) == ('cgroup v2', None)
    reason = f'{user_manager.SESSION} limits memory, and a new scope would not have this limit'
    assert reason in found['problem']
    assert reason in done.errors
