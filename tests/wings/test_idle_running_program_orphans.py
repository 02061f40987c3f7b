from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import pytest

from gpu_tracker.processes import descendants
from support.cli_program import state_of, text_of
from support.idle.guarded_program import MONITOR
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.cli_program import Marked

# A program with a child in a session of its own, which has one in another, whose parent has ended.
FAMILY = """
import os, signal, sys, time
if sys.argv[1] == 'ignores':
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            print('ready', flush=True)
            time.sleep(3600)
        os._exit(0)
    os.wait()
time.sleep(3600)
"""


class Monitor:
    """A small program in the monitor's place, which may be killed; see MONITOR."""

    def __init__(self, command: Sequence[str], before: str = '', **options: Any) -> None:
        folders = [path for path in sys.path if path]
        self.process = subprocess.Popen(
            [sys.executable, '-c', before + MONITOR, json.dumps(command), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(folders)},
        )
        assert self.process.stdout is not None
        self._answers = self.process.stdout
        answer = self._answer()
        self.guardian, self.program = answer['guardian'], answer['program']

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)

    def family(self, marked: Marked) -> list[int]:
        """Return the processes of FAMILY."""
        return [pid for pid in marked.processes('argv[1] == ') if pid != self.process.pid]

    def ask(self, what: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(f'{what}\n')
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        return json.loads(self._answers.readline())


@pytest.mark.parametrize(('answer', 'grace'), [('obeys', 3600), ('ignores', 0.2)])
def test_nothing_outlives_a_killed_monitor(marked: Marked, tmp_path: Path, answer: str, grace: float) -> None:
    log = tmp_path / 'log'
    with Monitor([FAMILY, answer], log=str(log), stop_grace=grace) as monitor:
        # The one that says so has been started by another, which may not have ended yet.
        eventually(lambda: 'ready\n' in text_of(log) and len(monitor.family(marked)) == 3)
        monitor.process.kill()
        monitor.process.wait()
        eventually(lambda: not marked.processes())
    assert ': the monitor has ended; killed by SIG' in text_of(log)


def test_a_monitor_that_ends_too_soon_leaves_nothing(marked: Marked, tmp_path: Path) -> None:
    script = (
        'import os, signal\nfrom support.idle.guarded_program import Guarded\n'
        "Guarded(['sleep', '3600'])\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folders = [path for path in sys.path if path]
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(folders)}
    ended = subprocess.run([sys.executable, '-c', script], env=environment, check=False, timeout=TIMEOUT)
    assert ended.returncode == -signal.SIGKILL
    eventually(lambda: not marked.processes())


def test_a_killed_guardian_takes_its_program_along_and_the_monitor_ends_the_rest(
    marked: Marked, tmp_path: Path
) -> None:
    log = tmp_path / 'log'
    with Monitor([FAMILY, 'ignores'], log=str(log)) as monitor:
        eventually(lambda: 'ready\n' in text_of(log))
        os.kill(monitor.guardian, signal.SIGKILL)
        assert monitor.ask('read') == "Lost(reason='its guardian was ended from outside')"
        assert len(monitor.family(marked)) >= 2
        eventually(lambda: monitor.ask('end strays of the lost') == 0)
        assert state_of(monitor.program) in {'', 'Z'}
        assert monitor.family(marked) == []
        eventually(lambda: monitor.ask('end strays of the lost') == 0 and monitor.ask('children') == [])


def test_orphans_that_come_from_no_program_are_left_alone(marked: Marked) -> None:
    before = "import subprocess\nbefore = subprocess.Popen(['sh', '-c', 'sleep 1234 & exec sleep 2345'])\n"
    with Monitor(['sleep', '3600'], before) as monitor:
        (other,) = eventually(lambda: marked.processes('sleep\x001234'))
        (parent,) = eventually(lambda: marked.processes('sleep\x002345'))
        os.kill(parent, signal.SIGKILL)
        eventually(lambda: other in monitor.ask('children'))
        os.kill(monitor.guardian, signal.SIGKILL)
        assert 'Lost' in monitor.ask('read')
        eventually(lambda: monitor.ask('end strays of the lost') == 0)
        assert state_of(other) == 'S'
        os.kill(other, signal.SIGKILL)
        eventually(lambda: monitor.ask('reap') is None and other not in monitor.ask('children'))


def test_orphans_are_known_by_their_session_where_their_variables_are_gone(marked: Marked, tmp_path: Path) -> None:
    log = tmp_path / 'log'
    script = 'env -u GPU_TRACKER_IDLE sleep 4321 & echo ready; wait'
    with Monitor(['sh', '-c', script], log=str(log)) as monitor:
        eventually(lambda: 'ready\n' in text_of(log) and marked.processes('sleep\x004321'))
        (known,) = marked.processes('sleep\x004321')
        os.kill(monitor.guardian, signal.SIGKILL)
        assert 'Lost' in monitor.ask('read')
        eventually(lambda: monitor.ask('end strays of the lost') == 0)
        assert state_of(known) in {'', 'Z'}


def test_what_has_a_clean_environment_and_a_session_of_its_own_is_ended_where_there_are_no_strangers(
    marked: Marked, tmp_path: Path
) -> None:
    log = tmp_path / 'log'
    script = 'env -i /usr/bin/setsid /bin/sleep 771 & echo ready; wait'
    with Monitor(['sh', '-c', script], log=str(log)) as monitor:
        clean = eventually(lambda: clean_sleep(monitor))
        assert os.getsid(clean) == clean
        os.kill(monitor.guardian, signal.SIGKILL)
        assert 'Lost' in monitor.ask('read')
        eventually(lambda: clean in monitor.ask('children'))
        eventually(lambda: monitor.ask('end strays of the lost') == 0)
        assert state_of(clean) in {'', 'Z'}


def test_who_was_once_found_below_a_stray_is_known_among_strangers(marked: Marked) -> None:
    before = "import subprocess\nbefore = subprocess.Popen(['sleep', '1234'])\n"
    script = 'sh -c "env -i /usr/bin/setsid /bin/sleep 771 & exec sleep 3600" & wait'
    with Monitor(['sh', '-c', script], before) as monitor:
        clean = eventually(lambda: clean_sleep(monitor))
        (other,) = marked.processes('sleep\x001234')
        (parent,) = eventually(lambda: marked.processes('sleep\x003600'))
        os.kill(monitor.guardian, signal.SIGKILL)
        assert 'Lost' in monitor.ask('read')
        eventually(lambda: clean in monitor.ask('find strays of the lost'))
        os.kill(parent, signal.SIGKILL)
        eventually(lambda: clean in monitor.ask('children'))
        eventually(lambda: monitor.ask('end strays of the lost') == 0)
        assert state_of(clean) in {'', 'Z'}
        assert state_of(other) == 'S'
        os.kill(other, signal.SIGKILL)


def clean_sleep(monitor: Monitor) -> int | None:
    """Return the process below the guardian that has no mark; None where it is not there yet."""
    below = descendants.descendants([monitor.guardian], descendants.all_processes())
    return next((one.pid for one in below if one.name == b'sleep' and one.session == one.pid), None)


def test_children_that_a_monitor_had_before_are_left_alone(marked: Marked) -> None:
    before = "import subprocess\nbefore = subprocess.Popen(['sleep', '1234'])\n"
    with Monitor(['sleep', '3600'], before) as monitor:
        assert monitor.ask('end strays') == 0
        (other,) = marked.processes('sleep\x001234')
        assert other in monitor.ask('children')
        os.kill(other, signal.SIGKILL)


def test_the_monitor_reaps_the_samplers_that_it_adopts(marked: Marked) -> None:
    with Monitor(['true']) as monitor:
        assert 'Ended' in monitor.ask('read')
        eventually(lambda: monitor.ask('end strays') == 0 and monitor.ask('children') in ([], [monitor.guardian]))
