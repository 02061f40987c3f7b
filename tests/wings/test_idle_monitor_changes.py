"""What changes while a monitor runs: its configuration, its programs' luck, and which GPUs there are."""

from __future__ import annotations

import itertools
import re
import signal
from pathlib import Path

import pytest

from gpu_tracker.idle.gpu_claims import PREFIX
from gpu_tracker.idle.observing.device_files import identity_of
from support.cli_program import text_of
from support.idle.idle_monitor import IdleMonitor, config, foreign, make_gpus, make_program, process
from support.waiting import eventually


def reload(monitor, text, times=1):
    monitor.config.write_text(text)
    monitor.process.send_signal(signal.SIGHUP)
    eventually(lambda: monitor.log.count(' SIGHUP: ') == times)


def test_a_new_configuration_disturbs_only_what_it_changes(tmp_path):
    make_gpus(tmp_path, 4)
    before = config(process('same', 'sleep 3600'), process('changed', 'sleep 3601', '1'), process('gone', 'sleep', '2'))
    before = before.replace('cmd=sleep\n', 'cmd=sleep 3602\n')
    after = config(
        process('new', 'sleep 3603', '3'), process('changed', 'sleep 3604', '1'), process('same', 'sleep 3600')
    )
    with IdleMonitor(tmp_path, before) as monitor:
        same, changed, _ = [monitor.running(name) for name in ('same', 'changed', 'gone')]
        reload(monitor, after)
        assert monitor.running('changed', but=changed)
        assert monitor.running('new')
        eventually(
            lambda: (
                [one.name for one in monitor.status().programs] == ['process-new', 'process-changed', 'process-same']
            )
        )
        assert monitor.running('same') == same
        assert not monitor.marked.processes('3601')
        assert not monitor.marked.processes('3602')
        stops = [
            'INFO stopping process-changed: its configuration has changed',
            'INFO stopping process-gone: no longer configured',
        ]
        eventually(lambda: [line for line in monitor.said if 'stopping' in line] == stops)


def test_a_file_with_errors_or_without_programs_changes_nothing_and_is_told_of(tmp_path):
    text = config(process('a', 'sleep 3600'))
    with IdleMonitor(tmp_path, text) as monitor:
        pid = monitor.running('a')
        reload(monitor, f'{text}[process-b]\ncmd=no-such-program-anywhere\ngpus=0;1\n')
        assert monitor.said[-4:] == [
            f'ERROR {monitor.config}:7: [process-b] dir: is missing',
            f"ERROR {monitor.config}:8: [process-b] cmd: no folder of PATH has a program 'no-such-program-anywhere'",
            f"ERROR {monitor.config}:9: [process-b] gpus: must be ALL or GPU numbers such as 0,1, not '0;1'",
            f'ERROR SIGHUP: {monitor.config} has errors, so nothing changes',
        ]
        monitor.config.unlink()
        monitor.process.send_signal(signal.SIGHUP)
        eventually(lambda: monitor.log.count(' SIGHUP: ') == 2)
        assert monitor.running('a') == pid
        reload(monitor, '', times=3)
        assert monitor.said[-1] == f'ERROR SIGHUP: {monitor.config} has no program, so nothing changes'
        reload(monitor, text.replace('=0.2', '=0.3'), times=4)
        assert monitor.status().monitor.interval_seconds == 0.3
        assert monitor.running('a') == pid


def test_the_file_is_read_again_when_the_working_folder_has_gone(tmp_path):
    (tmp_path / 'gone').mkdir()
    words = ['sh', '-c', 'cd "$0" && exec "$@"', str(tmp_path / 'gone')]
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600')), words=words, config='../idle.conf') as monitor:
        monitor.running('a')
        (tmp_path / 'gone').rmdir()
        reload(monitor, config(process('b', 'sleep 3600')))
        monitor.running('b')
        assert monitor.status().monitor.config_path == str(monitor.config)


def is_claimed(gpu):
    names = Path('/proc/net/unix').read_text(encoding='ascii', errors='replace')
    return f'@{PREFIX}{identity_of(str(gpu))}\n' in names


def test_a_gpu_that_is_not_watched_any_more_is_free_for_another_monitor(tmp_path):
    both = config('[gpu-mine]\ngpus=0,1\n', process('a', 'sleep 3600'), process('b', 'sleep 3600', '1'))
    with IdleMonitor(tmp_path, both) as first:
        pid = first.running('a')
        first.running('b')
        assert is_claimed(first.gpus / 'nvidia1')
        reload(first, config('[gpu-mine]\ngpus=0\n', process('a', 'sleep 3600')))
        eventually(lambda: [one.name for one in first.status().programs] == ['process-a'])
        eventually(lambda: not is_claimed(first.gpus / 'nvidia1'))  # which the next look of the first one gives up
        on_one = config('[gpu-mine]\ngpus=1\n', process('b', 'sleep 3600', '1'))
        with IdleMonitor(tmp_path, on_one, name='second') as second:
            second.running('b')
            assert first.running('a') == pid


def test_a_rest_and_an_idle_time_end_between_two_looks(tmp_path):
    make_program(tmp_path, 'fails', 'exit 3')
    sections = [
        process('a', 'fails', restart_backoff_seconds=0.5),
        process('b', 'sleep 3600', '1', idle_before_start_seconds=1),
    ]
    with IdleMonitor(tmp_path, config(*sections, interval=3600)) as monitor:
        monitor.running('b')
        assert re.search(r'INFO starting process-b on GPU 1: GPU 1 idle for \d s\n', monitor.log)
        eventually(lambda: monitor.program('a').restarts == 2)


def test_a_program_that_fails_at_once_is_started_ever_later(tmp_path):
    make_program(tmp_path, 'fails', f'date +%s.%N >> {tmp_path}/starts\nexit 3')
    section = process('a', 'fails', restart_backoff_seconds=0.2)
    with IdleMonitor(tmp_path, config(section, interval=0.1)) as monitor:
        program = eventually(lambda: (found := monitor.program('a')).failures >= 3 and found.next_start and found)
        starts = [float(line) for line in text_of(tmp_path / 'starts').split()]
        rests = [later - sooner for sooner, later in itertools.pairwise(starts)]
        assert rests[0] >= 0.2
        assert rests[1] >= 0.4
        assert program.state == 'resting'
        assert program.restarts == program.failures - 1
        assert program.reason == f'rests after {program.failures} failures'
        assert program.last_end == 'exit code 3'
        monitor.says('process-a has ended, exit code 3: ')
        expected = ['0.2', '0.4', '0.8']
        rest = re.compile('; not started again for (.*) s\n')  # in seconds
        eventually(lambda: rest.findall(monitor.log)[:3] == expected)


def test_a_stop_that_was_asked_for_is_no_failure(tmp_path):
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600', restart_backoff_seconds=300))) as monitor:
        first = monitor.running('a')
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('a')
        monitor.running('a', but=first)
        assert monitor.program('a').failures == 0


def test_gpus_appear_and_go(tmp_path):
    make_gpus(tmp_path, 0)
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600'), interval=10)) as monitor:
        assert monitor.not_running('a') == 'GPU 0 is not there, or not watched'
        told = ['WARNING there is no GPU at the moment', 'INFO watching no GPU yet every 10 s for 1 program']
        eventually(lambda: monitor.said == told)
        (monitor.gpus / 'nvidia0').touch()
        monitor.running('a')
        (monitor.gpus / 'nvidia0').unlink()
        assert monitor.not_running('a') == 'GPU 0 is not there, or not watched'
        (monitor.gpus / 'nvidia0').touch()
        monitor.running('a')
        told = [
            'WARNING there is no GPU at the moment',
            'WARNING GPU 0 has appeared',
            'WARNING GPU 0 has gone',
            'WARNING there is no GPU at the moment',
            'WARNING GPU 0 has appeared',
        ]
        eventually(lambda: [line for line in monitor.said if line.startswith('WARNING')] == told)


@pytest.mark.parametrize('options', [(), ('--verbose',)])
def test_a_dry_run_only_tells(tmp_path, options):
    make_program(tmp_path, 'job', f'touch {tmp_path}/started')
    with IdleMonitor(tmp_path, config(process('a', 'job')), '--dry-run', *options) as monitor:
        eventually(lambda: monitor.program('a').state == 'running')
        assert monitor.status().monitor.dry_run
        with foreign(monitor.gpus / 'nvidia0') as pid:
            assert monitor.not_running('a').startswith(f'GPU 0 used by sh (pid {pid}')
            assert monitor.marked.processes() == [monitor.process.pid]
        eventually(lambda: monitor.program('a').state == 'running')
        assert monitor.end() == 0
        user = monitor.log.partition(f'(pid {pid}, ')[2].partition(')')[0]
        assert monitor.said == [
            'INFO watching GPUs 0 and 1 every 0.2 s for 1 program',
            'INFO would start process-a on GPU 0: GPU 0 idle',
            f'INFO would stop process-a: GPU 0 used by sh (pid N, {user})',
            f'INFO process-a would have ended (GPU 0 used by sh (pid N, {user}))',
            'INFO would start process-a on GPU 0: GPU 0 idle',
            'INFO would stop process-a: the monitor ends: SIGTERM',
            'INFO process-a would have ended (the monitor ends: SIGTERM)',
            'INFO ended by SIGTERM',
        ]
    assert not (tmp_path / 'started').exists()
