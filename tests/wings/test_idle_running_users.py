from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.idle.running.guardian_protocol import Lost, NotStarted
from support.cli_program import state_of, text_of
from support.idle.guarded_program import Guarded
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

TELL_VARIABLES = ['sh', '-c', 'env | sort']


pytestmark = [as_root, pytest.mark.usefixtures('marked')]


@pytest.fixture
def log() -> Iterator[Path]:
    """Return a log that is missing, in nobody's folder: that of pytest is closed to others."""
    folder = tempfile.mkdtemp()
    os.chown(folder, pwd.getpwnam('nobody').pw_uid, -1)
    yield Path(folder, 'log')
    shutil.rmtree(folder)


def run(command: list[str], log: Path, **options: object) -> list[str]:
    """Run a program as nobody, and return what it has written."""
    with Guarded(command, log=str(log), user='nobody', **options) as guarded:
        guarded.started()
        assert guarded.ended().code == 0
    return text_of(log).splitlines()[1:-1]


def why_not(log: Path) -> str:
    """Return why a program of nobody with this log is not started."""
    with Guarded(['echo', 'alice ALL=(ALL) NOPASSWD: ALL'], log=str(log), user='nobody') as guarded:
        return guarded.next(NotStarted).reason


def test_a_program_can_be_another_users(log: Path) -> None:
    user = pwd.getpwnam('nobody')
    script = 'id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL'
    lines = run(['sh', '-c', script], log, environment=(('SHELL', '/bin/mine'),))
    groups = ' '.join(map(str, os.getgrouplist('nobody', user.pw_gid)))
    variables = f'{user.pw_dir} nobody nobody /bin/mine'
    assert lines == [str(user.pw_uid), str(user.pw_gid), groups, variables]


def test_another_users_program_dies_with_its_guardian() -> None:
    with Guarded(['sleep', '3600'], user='nobody') as guarded:
        program = guarded.started().pid
        guarded.running._process.kill()
        assert guarded.next(Lost) == Lost('its guardian was ended from outside')
        eventually(lambda: state_of(program) in {'', 'Z'})


def test_another_users_new_log_is_that_users(log: Path) -> None:
    user = pwd.getpwnam('nobody')
    run(['true'], log)
    assert (log.stat().st_uid, log.stat().st_gid) == (user.pw_uid, user.pw_gid)


def test_a_link_in_the_place_of_another_users_log_opens_nothing_that_the_user_may_not_write(
    log: Path,
) -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    closed = folder / 'sudoers'
    closed.write_text('root ALL=(ALL) ALL\n')
    closed.chmod(0o600)
    log.symlink_to(closed)
    try:
        assert why_not(log) == f'its log {log} cannot be opened by nobody: Permission denied'
        assert closed.read_text() == 'root ALL=(ALL) ALL\n'
    finally:
        shutil.rmtree(folder)


def test_another_users_log_is_not_made_where_that_user_may_not(tmp_path: Path) -> None:
    assert why_not(tmp_path / 'log') == f'its log {tmp_path}/log cannot be opened by nobody: Permission denied'
    assert list(tmp_path.iterdir()) == []


def test_another_users_program_gets_nothing_of_the_monitors_login(log: Path) -> None:
    login = (
        'XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS '
        'SSH_AUTH_SOCK SSH_AGENT_PID KRB5CCNAME XAUTHORITY MAIL OLDPWD SUDO_USER SUDO_UID SUDO_GID SUDO_COMMAND'
    )
    inherited = {**os.environ, **dict.fromkeys(login.split(), 'root'), 'PWD': '/root', 'LANG': 'C.UTF-8'}
    found = dict(line.split('=', 1) for line in run(TELL_VARIABLES, log, inherited=inherited))
    assert [name for name, value in found.items() if value in {'root', '/root'}] == []
    assert found['LANG'] == 'C.UTF-8'


def test_variables_that_are_configured_reach_another_users_program(log: Path) -> None:
    configured = (('SSH_AUTH_SOCK', '/run/agent'), ('HOME', '/srv'), ('CUDA_VISIBLE_DEVICES', '7'))
    found = dict(line.split('=', 1) for line in run(TELL_VARIABLES, log, environment=configured))
    assert (found['SSH_AUTH_SOCK'], found['HOME'], found['CUDA_VISIBLE_DEVICES']) == ('/run/agent', '/srv', '0')
