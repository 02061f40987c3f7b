"""Two monitors, and users of a machine."""

from __future__ import annotations

import contextlib
import os
import signal

from gpu_tracker.system.users import user_name
from support.gpus.gpu_machine import NOBODY, words_as_nobody
from support.idle.idle_monitor import IdleMonitor, config, foreign, make_gpus, process
from support.tracked_program import as_root
from support.waiting import TIMEOUT, eventually

USER = user_name(os.geteuid())
ON_ZERO = '[gpu-mine]\ngpus=0\n'
ON_ONE = '[gpu-mine]\ngpus=1\n'
SLEEP = process('a', 'sleep 3600')
SLEEP_ON_ONE = process('a', 'sleep 3600', '1')


def refused(monitor):
    """Return what a monitor says that does not start."""
    with monitor:
        assert monitor.process.wait(TIMEOUT) == 125
        return monitor.said


def test_a_second_monitor_of_the_same_gpus_refuses_and_tells_who_has_them(tmp_path):
    with IdleMonitor(tmp_path, config(SLEEP)) as monitor:
        pid = monitor.running('a')
        who = f'already watched by another idle monitor (pid N, {USER})'
        assert refused(IdleMonitor(tmp_path, config(SLEEP), name='second')) == [
            (
                f'gpu-tracker: GPU 0 is {who}; GPU 1 is {who}. '
                'List the GPUs to watch in a [gpu-NAME] section of the configuration.'
            )
        ]
        assert monitor.running('a') == pid


def test_monitors_of_different_gpus_need_a_socket_each(tmp_path):
    with IdleMonitor(tmp_path, config(ON_ZERO, SLEEP)) as first:
        first.running('a')
        second = IdleMonitor(tmp_path, config(ON_ONE, SLEEP_ON_ONE), f'--socket={first.socket}', name='second')
        assert refused(second) == [
            f'gpu-tracker: another idle monitor (pid N, {USER}) is running: it listens at {first.socket}'
        ]
        with IdleMonitor(tmp_path, config(ON_ONE, SLEEP_ON_ONE), name='third') as third:
            third.running('a')
            first.running('a')
            with foreign(first.gpus / 'nvidia1'):
                third.not_running('a')
                first.running('a')
            assert [gpu.gpu for gpu in first.status().gpus] == ['0']
            assert [gpu.gpu for gpu in third.status().gpus] == ['1']


def test_a_gpu_that_another_monitor_watches_is_left_alone_until_that_has_ended(tmp_path):
    make_gpus(tmp_path, 1)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(IdleMonitor(tmp_path, config(ON_ONE, SLEEP_ON_ONE)))
        first.status()  # two that start at the same moment may refuse
        all_gpus = config('[gpu-all]\ngpus=ALL\n', SLEEP_ON_ONE)
        second = stack.enter_context(IdleMonitor(tmp_path, all_gpus, name='second'))
        second.status()
        (first.gpus / 'nvidia1').touch()
        mine, other = (first, second) if eventually(lambda: holder(first, second)) is first else (second, first)
        eventually(lambda: f'GPU 1 is already watched by another idle monitor (pid {mine.process.pid}, ' in other.log)
        assert other.program('a').state == 'waiting'
        assert mine.end(signal.SIGKILL) == -signal.SIGKILL
        other.running('a')


def holder(*monitors):
    """Return the monitor that runs its program."""
    return next((monitor for monitor in monitors if monitor.program('a').pid is not None), None)


@as_root
def test_another_users_monitor_says_once_what_it_cannot_see_and_cannot_keep_root_away(tmp_path):
    own = tmp_path / 'own'
    own.mkdir()
    gpus = make_gpus(own, 2)
    os.chown(own, NOBODY, -1)
    section = process('a', 'sh -c "id -u; exec sleep 3600"')
    with IdleMonitor(own, config(section), words=words_as_nobody(), name='of-nobody') as monitor:
        first = monitor.running('a')
        monitor.says(f'\n{NOBODY}\n')  # it may be ended before it has said so
        with foreign(gpus / 'nvidia0', words=words_as_nobody()) as pid:
            assert monitor.not_running('a') == f'GPU 0 used by sh (pid {pid}, nobody)'
        monitor.running('a', but=first)
        assert monitor.log.count(' processes can be read by root only: no use of a GPU is seen there\n') == 1
        eventually(lambda: monitor.log.count(f'\n{NOBODY}\n') == 2)
        assert monitor.status().monitor.user == 'nobody'
        on_one = config(SLEEP_ON_ONE)
        of_root = IdleMonitor(own, on_one, f'--socket={tmp_path}/of-root.sock', name='of-root')
        of_root.socket = f'{tmp_path}/of-root.sock'
        with of_root:
            of_root.running('a')
            of_root.says(f'GPU 1 is already watched by another idle monitor (pid {monitor.process.pid}, nobody) too')
            assert of_root.end() == 0
            assert of_root.log.count(', to whom root does not give way\n') == 2


@as_root
def test_root_runs_a_program_as_another_user(tmp_path):
    command = 'sh -c "echo $(id -u) $HOME $USER; exec sleep 3600"'  # in one piece: the monitor writes there too
    section = process('a', command, folder='/', user='nobody', stop_grace_seconds=60)
    with IdleMonitor(tmp_path, config(section)) as monitor:
        pid = monitor.running('a')
        assert os.stat(f'/proc/{pid}').st_uid == NOBODY
        monitor.says(f'\n{NOBODY} {os.path.expanduser("~nobody")} nobody\n')
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('a')
        monitor.running('a', but=pid)
