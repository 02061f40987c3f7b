from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cli_program import Marked, Terminal, number_in, shell, text_of
from support.tracked_program import PACKAGE_PARENT
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

PREAMBLE = """
import atexit, os, signal, sys
from pathlib import Path
from gpu_tracker.atopgpud.detach import detach

folder = Path(sys.argv[1])

def write(name, text):
    (folder / name).with_suffix('.part').write_text(f'{text}\\n')
    (folder / name).with_suffix('.part').rename(folder / name)
"""

DAEMON = """
daemon = detach()
write('pid', os.getpid())
(folder / 'go').read_text()  # a named pipe
try:
    daemon.ready()
except BrokenPipeError:
    write('result', 'not wanted')
else:
    signal.pause()
"""


class Programs(Marked):
    """Runs programs that detach, and ends what is left of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.environment['PYTHONPATH'] = str(PACKAGE_PARENT)

    def words(self, text: str) -> list[str]:
        return [sys.executable, '-c', PREAMBLE + text, str(self.folder)]

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(text), env=self.environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )


@pytest.fixture
def programs(tmp_path) -> Iterator[Programs]:
    os.mkfifo(tmp_path / 'go')
    found = Programs(tmp_path)
    yield found
    for pid in found.processes():
        os.kill(pid, signal.SIGKILL)


def stdio_of(pid: int) -> list[str]:
    return [os.readlink(f'/proc/{pid}/fd/{handle}') for handle in range(3)]


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f'/proc/{pid}/status').read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(':') for line in lines)}


def test_the_command_ends_when_the_daemon_is_ready_and_the_daemon_has_let_go_of_everything(programs, tmp_path):
    with subprocess.Popen(
        programs.words(DAEMON),
        env=programs.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        umask=0o077,
    ) as command:
        daemon = number_in(tmp_path / 'pid')
        assert command.poll() is None
        (tmp_path / 'go').write_text('')
        assert command.communicate(timeout=TIMEOUT) == (b'', b'')  # nobody holds the pipes any more
        assert command.returncode == 0
    assert stdio_of(daemon) == ['/dev/null', '/dev/null', '/dev/null']
    assert os.readlink(f'/proc/{daemon}/cwd') == '/'
    assert os.getsid(daemon) not in {os.getsid(0), command.pid, daemon}
    status = status_of(daemon)
    assert int(status['PPid']) not in {os.getpid(), command.pid}
    assert status['Umask'] == '0022'


def test_the_daemons_exit_code_and_what_it_says_on_the_way_come_from_the_command(programs):
    finished = programs.run("""
daemon = detach()
print('the port is taken', file=sys.stderr)
daemon.failed(3)
sys.exit(4)
""")
    assert (finished.returncode, finished.stdout, finished.stderr) == (3, '', 'the port is taken\n')


def test_a_daemon_that_dies_without_a_word_makes_125(programs):
    finished = programs.run('detach()\nos.kill(os.getpid(), signal.SIGKILL)')
    assert finished.returncode == 125
    assert finished.stderr == 'atopgpud: the daemon ended before it was ready\n'


def test_a_daemon_that_fails_after_it_was_ready_tells_nobody(programs, tmp_path):
    finished = programs.run("daemon = detach()\ndaemon.ready()\ndaemon.failed(3)\nwrite('result', 'well')")
    assert finished.returncode == 0
    assert eventually(lambda: text_of(tmp_path / 'result')) == 'well\n'


def test_the_command_may_be_started_by_who_ignores_the_end_of_children(programs):
    finished = programs.run('signal.signal(signal.SIGCHLD, signal.SIG_IGN)\ndetach().failed(3)')
    assert (finished.returncode, finished.stderr) == (3, '')


def test_what_is_buffered_and_what_is_registered_for_the_end_comes_once(programs):
    finished = programs.run("""
atexit.register(lambda: write(f'end-{os.getpid()}', ''))
sys.stdout.write('buffered\\n')
daemon = detach()
daemon.failed(0)
""")
    assert (finished.returncode, finished.stdout) == (0, 'buffered\n')
    eventually(lambda: not programs.processes())
    assert len(list(programs.folder.glob('end-*'))) == 1


def test_the_programs_that_a_daemon_starts_inherit_nothing(programs, tmp_path):
    finished = programs.run("""
daemon = detach()
handles = [int(name) for name in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{name}')]
write('inherited', [handle for handle in handles if os.get_inheritable(handle)])
daemon.ready()
""")
    assert finished.returncode == 0
    assert text_of(tmp_path / 'inherited') == '[0, 1, 2]\n'


def test_ctrl_c_ends_the_command_and_the_daemon_learns_that_it_is_not_wanted(programs, tmp_path):
    with Terminal(programs.words(DAEMON), programs.environment) as terminal:
        eventually(lambda: text_of(tmp_path / 'pid'))
        terminal.press('\x03')
        assert terminal.wait() == 130
        (tmp_path / 'go').write_text('')
        assert eventually(lambda: text_of(tmp_path / 'result')) == 'not wanted\n'
        assert 'Traceback' not in terminal.shown


def test_a_command_without_standard_streams_can_detach(programs, tmp_path):
    words = programs.words("daemon = detach()\nwrite('pid', os.getpid())\ndaemon.ready()\nsignal.pause()")
    finished = shell('shift 3; exec "$@" 0<&- 1>&- 2>&-', *words, env=programs.environment)
    assert finished.returncode == 0
    assert stdio_of(number_in(tmp_path / 'pid')) == ['/dev/null', '/dev/null', '/dev/null']
