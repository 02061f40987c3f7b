"""The sampling subprocess as the process sees it that starts it: how it is started, asked, stopped and let go."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.errors import SamplerError
from gpu_tracker.processes import SAMPLER_MARK, SAMPLER_NAME
from gpu_tracker.sampler.session import Session
from gpu_tracker.sampler.spawn import interpreter
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)


def configuration(**changes: object) -> dict[str, Any]:
    """Return what a tracker of this process tells its sampler."""
    return {
        'owner': os.getpid(),
        'target': os.getpid(),
        'words': ('train',),
        'version': '6.0.0',
        'launcher': None,
        'exec_handle': None,
        'reader': 'proc',
        'interval': 0.05,
        'brands': None,
        'uuids': None,
        'overhead': None,
        'report': None,
        'keeps': True,
        'settles': False,
        'units': ('bytes', 'bytes', 'seconds', None),
        'sections': (),
        'command': None,
        'recording': None,
        'rows_file': None,
        'recording_handle': None,
        'regions': None,
        'job': None,
        'rank': None,
        'limits': {},
        **changes,
    }


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session(configuration())
    yield session
    session.end()


@pytest.fixture(scope='module')
def running() -> Iterator[int]:
    """Give the PID of a sampler; its program has an inheritable file open, and variables of Python set."""
    with pytest.MonkeyPatch.context() as patch, open('/dev/full', 'rb') as inheritable:
        patch.setenv('PYTHONPATH', '/nowhere')
        patch.setenv('PYTHONHASHSEED', '7')
        patch.setenv('PYTHONPYCACHEPREFIX', '/somewhere')
        os.set_inheritable(inheritable.fileno(), True)
        started = Session(configuration())
        pid: int = started.wait_until_ready()['pid']
    yield pid
    started.end()


def lines_of(pid: int, file: str) -> dict[str, str]:
    """Return the lines of a file in /proc/PID by their first words."""
    with open(f'/proc/{pid}/{file}', encoding='utf-8') as lines:
        return {name: value.strip() for name, _, value in (line.partition(':') for line in lines)}


def content(pid: int, file: str) -> bytes:
    with open(f'/proc/{pid}/{file}', 'rb') as opened:
        return opened.read()


def has_ended(pid: int) -> bool:
    return not os.path.exists(f'/proc/{pid}')


def descriptors() -> set[str]:
    return set(os.listdir('/proc/self/fd'))


def test_a_sampler_is_ready_with_its_first_sample_and_leaves_totals(session: Session) -> None:
    ready = session.wait_until_ready()
    assert os.path.exists(f'/proc/{ready["pid"]}')
    assert session.stop(1.5, attempts=1, timeout=TIMEOUT) is None
    evidence = session.evidence()
    assert evidence is not None
    assert evidence['samples'] >= 2
    assert evidence['record']['tracked_seconds'] == 1.5


def test_a_sampler_that_was_not_waited_for_leaves_no_killed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path))
    started = Session(configuration())
    started.end()
    runs = tmp_path / 'gpu-tracker' / 'runs'
    eventually(lambda: runs.exists() and os.listdir(runs) == [])


def test_it_is_no_child_and_leads_a_session_of_its_own(running: int) -> None:
    assert int(lines_of(running, 'status')['PPid']) != os.getpid()
    assert os.getsid(running) == os.getpgid(running) != os.getsid(0)


def opened_by(pid: int) -> set[str]:
    """Return what the descriptors of a process lead to; it may close some while they are read."""
    found = set()
    for name in os.listdir(f'/proc/{pid}/fd'):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f'/proc/{pid}/fd/{name}'))
    return found


def test_it_keeps_nothing_of_the_program_but_its_channels_and_its_store(running: int) -> None:
    targets = opened_by(running)
    assert '/dev/null' in targets
    assert '/dev/full' not in targets
    assert os.readlink(f'/proc/{running}/cwd') == '/'


def test_it_is_known_by_its_command_line_and_by_its_name(running: int) -> None:
    assert SAMPLER_MARK.encode() in content(running, 'cmdline').split(b'\0')
    assert content(running, 'comm').strip() == SAMPLER_NAME


def test_it_ignores_the_signals_that_end_programs(running: int) -> None:
    ignored = int(lines_of(running, 'status')['SigIgn'], 16)
    assert [number for number in IGNORED if not ignored >> (number - 1) & 1] == []
    assert int(lines_of(running, 'status')['SigBlk'], 16) == 0


def test_variables_of_python_do_not_reach_it(running: int) -> None:
    variables = content(running, 'environ').split(b'\0')
    assert [variable for variable in variables if variable.startswith((b'PYTHONPATH', b'PYTHONHASHSEED'))] == []
    assert b'PYTHONPYCACHEPREFIX=/somewhere' in variables


def test_a_process_that_does_not_exist_is_refused() -> None:
    ended = subprocess.Popen(['true'])
    ended.wait()
    session = Session(configuration(target=ended.pid))
    with pytest.raises(SamplerError):
        session.wait_until_ready()
    assert session.refusal == 'process'
    session.end()


def test_one_that_is_killed_leaves_what_it_has_measured(session: Session) -> None:
    pid = session.wait_until_ready()['pid']
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: has_ended(pid))
    problem = session.stop(1.0, attempts=1, timeout=TIMEOUT)
    assert problem == 'The sampler was ended from outside; the result is what it had measured until then.'
    assert session.evidence() is not None


def test_one_that_does_not_answer_is_ended(session: Session) -> None:
    pid = session.wait_until_ready()['pid']
    os.kill(pid, signal.SIGSTOP)
    problem = session.stop(1.0, attempts=2, timeout=0.05)
    assert problem == (
        'The sampler has not answered for 0.1 s and was ended; the result is what it had measured until then.'
    )
    assert eventually(lambda: has_ended(pid))


@pytest.mark.parametrize('is_held', [False, True], ids=['at the stop', 'before the launch'])
def test_one_that_was_stopped_by_a_signal_is_ended_long_before_the_timeout(session: Session, is_held: bool) -> None:
    pid = session.wait_until_ready()['pid']
    os.kill(pid, signal.SIGSTOP)
    if is_held:
        session.announce_launch()
        assert eventually(lambda: has_ended(pid))
    problem = session.stop(1.0, attempts=1, timeout=TIMEOUT)
    assert problem == 'The sampler was stopped by a signal, and ended; the result is what it had measured until then.'
    assert session.evidence() is not None
    assert eventually(lambda: has_ended(pid))


def test_one_whose_session_ends_without_a_stop_ends_too(session: Session) -> None:
    pid = session.wait_until_ready()['pid']
    session.end()
    assert eventually(lambda: has_ended(pid))


def test_descriptors_that_the_program_has_closed_cost_the_result() -> None:
    program = f"""
import os
from gpu_tracker.errors import SamplerError
from gpu_tracker.sampler.session import Session
session = Session({configuration()!r} | {{'owner': os.getpid(), 'target': os.getpid()}})
session.wait_until_ready()
os.closerange(3, 256)
try:
    session.stop(1.0, 1, 60)
except SamplerError as error:
    print(error)
session.end()
"""
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True)
    assert run.stdout == (
        'The program has closed descriptors of the tracker, as daemons do that close all, and with them the result. '
        'A resource_usage_file keeps it.\n'
    )


def test_nothing_stays_open() -> None:
    before = descriptors()
    session = Session(configuration())
    session.wait_until_ready()
    assert session.stop(1.0, attempts=1, timeout=TIMEOUT) is None
    session.end()
    session.end()  # a second time does nothing
    assert descriptors() == before


@pytest.mark.parametrize(
    ('executable', 'problem'),
    [
        ('', 'is not set'),
        ('/nowhere/python3', "is '/nowhere/python3', which is no executable file"),
        ('/bin', "is '/bin', which is no executable file"),
        ('/bin/sh', "is '/bin/sh', which is not a Python interpreter by its name"),
    ],
)
def test_without_an_interpreter_nothing_is_started_and_nothing_stays_open(
    monkeypatch: pytest.MonkeyPatch, executable: str, problem: str
) -> None:
    before = descriptors()
    monkeypatch.setattr(sys, 'executable', executable)
    with pytest.raises(SamplerError) as error:
        Session(configuration())
    assert str(error.value) == (
        f'The sampler runs in a Python interpreter of its own, but sys.executable {problem}. '
        'Set sys.executable to the path of a Python interpreter before the tracker is started.'
    )
    assert descriptors() == before


def test_the_interpreter_is_the_one_that_runs_this_process() -> None:
    assert interpreter() == sys.executable


def test_a_limit_that_was_exceeded_is_reported_once_and_is_in_the_way_of_no_other_message() -> None:
    session = Session(configuration(limits={'memory_limit': 1, 'cpu_limit': 1e9}))
    try:
        session.wait_until_ready()
        reason, amount = eventually(session.exceeded)
        assert (reason, amount > 1) == ('memory_limit', True)
        assert session.exceeded() == (reason, amount)
        assert not session.has_ended
        assert session.stop(1.5, attempts=1, timeout=TIMEOUT) is None
    finally:
        session.end()


def test_a_limit_that_nobody_asks_for_is_in_the_way_of_no_other_message() -> None:
    session = Session(configuration(limits={'memory_limit': 1}))
    try:
        session.wait_until_ready()
        eventually(lambda: session._channels.is_readable(0))
        session.announce_launch()
        assert session.stop(1.5, attempts=1, timeout=TIMEOUT) is None
        assert session.exceeded() is not None
    finally:
        session.end()


def test_limits_that_are_kept_are_not_reported_and_the_end_of_their_sampler_is_noticed() -> None:
    session = Session(configuration(limits={'memory_limit': 1e18, 'cpu_limit': 1e9, 'gpu_memory_limit': 1}))
    try:
        pid = session.wait_until_ready()['pid']
        assert session.exceeded() is None
        assert not session.has_ended
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: session.exceeded() or session.has_ended)
        assert session.exceeded() is None
        problem = 'The sampler was ended from outside; the result is what it had measured until then.'
        assert session.stop(1.5, attempts=1, timeout=TIMEOUT) == problem
    finally:
        session.end()
