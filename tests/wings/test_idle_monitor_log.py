"""What a monitor says, and what it writes to the logs of its programs."""

from __future__ import annotations

import os
import re

from gpu_tracker.system.users import user_name
from support.cli_program import text_of
from support.idle.idle_monitor import IdleMonitor, config, foreign, make_gpus, make_program, plain, process
from support.waiting import eventually

USER = user_name(os.geteuid())
SAYING = 'echo "$0: GPU $1 of $CUDA_VISIBLE_DEVICES by $CUDA_DEVICE_ORDER, $LEVEL, in $PWD"; exec sleep 3600'


def test_each_decision_is_a_line_with_its_reason(tmp_path):
    make_gpus(tmp_path, 2)
    sections = [
        '[gpu-some]\ngpus=0,1',
        process('one', 'sleep 3600'),
        process('other', 'sh -c "exit 7"', '1', restart_backoff_seconds=200),
    ]
    with IdleMonitor(tmp_path, config(*sections)) as monitor:
        monitor.running('one')
        monitor.says('process-other has ended')
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('one')
        monitor.running('one')
        assert monitor.end() == 0
        said = monitor.said
        assert said[0] == 'INFO watching GPUs 0 and 1 every 0.2 s for 2 programs'
        assert [line for line in said if 'process-one' in line] == [
            'INFO starting process-one on GPU 0: GPU 0 idle',
            'INFO process-one runs: pid N',
            f'INFO stopping process-one: GPU 0 used by sh (pid N, {USER})',
            'INFO process-one has ended, killed by SIGTERM: USAGE',
            'INFO starting process-one on GPU 0: GPU 0 idle',
            'INFO process-one runs: pid N',
            'INFO stopping process-one: the monitor ends: SIGTERM',
            'INFO process-one has ended, killed by SIGTERM: USAGE',
        ]
        assert [line for line in said if 'process-other' in line] == [
            'INFO starting process-other on GPU 1: GPU 1 idle',
            'INFO process-other runs: pid N',
            'INFO process-other has ended, exit code 7: USAGE; not started again for 200 s',
        ]
        assert said[-1] == 'INFO ended by SIGTERM'
        assert len(said) == 1 + 8 + 3 + 1
        assert re.search(r'^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO watching ', monitor.log, re.MULTILINE)


def test_who_asks_first_is_told_of_the_gpus(tmp_path):
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600'))) as monitor:
        status = monitor.status()
        assert [(gpu.gpu, gpu.state) for gpu in status.gpus] == [('0', 'idle'), ('1', 'idle')]
        assert status.programs[0].reason in {'starts at the next look', None}  # None: it has been started meanwhile


def test_a_programs_log_has_its_output_and_why_it_ran_and_what_it_used(tmp_path):
    log = tmp_path / 'job.log'
    log.write_text('older\n')
    job = make_program(tmp_path, 'job', SAYING)
    section = process('a', f"{job} {{gpu}} 'two words'", '1', folder=tmp_path, log=log, env='LEVEL="very high"')
    with IdleMonitor(tmp_path, config(section)) as monitor:
        monitor.running('a')
        eventually(lambda: 'job: GPU' in text_of(log))
        with foreign(monitor.gpus / 'nvidia1'):
            monitor.not_running('a')
            command = "job 1 'two words'"
            eventually(lambda: text_of(log).count('gpu-tracker: ') == 2)  # the monitor is told first
            after, stopped = re.subn(r'after \d+\.\d s', 'after N s', text_of(log))
            assert stopped == 1
            assert plain(after) == [
                'older',
                f'gpu-tracker: starting {command} (pid N) on GPU 1: GPU 1 idle',
                f'{tmp_path}/bin/job: GPU 1 of 1 by PCI_BUS_ID, very high, in {tmp_path}',
                f'gpu-tracker: stopped {command} after N s: GPU 1 used by sh (pid N, {USER}); killed by SIGTERM; USAGE',
            ]
        figures = r'; ([\d.]+) GPU hours, GPU utilization N/A, GPU RAM N/A, RAM ([\d.]+) ([kM])B at most, '
        used = re.search(figures, after)
        assert float(used[1]) < 0.1
        assert 0 < float(used[2]) * {'k': 1e3, 'M': 1e6}[used[3]] < 100e6


def test_a_program_without_a_log_writes_where_the_monitor_does(tmp_path):
    with IdleMonitor(
        tmp_path, config(process('a', 'sh -c "echo printed; echo wrong >&2; exec sleep 3600"'))
    ) as monitor:
        monitor.says('printed\n')
        monitor.says('wrong\n')


def test_a_program_that_cannot_be_started_is_told_of(tmp_path):
    (tmp_path / 'bin').mkdir()
    (tmp_path / 'bin' / 'job').symlink_to('/bin/sleep')  # no script: its interpreter could find that gone
    with IdleMonitor(tmp_path, config(process('a', 'job 3600', restart_backoff_seconds=300))) as monitor:
        monitor.running('a')
        (tmp_path / 'bin' / 'job').unlink()
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('a')
        monitor.says('not started again for 300 s')
        assert monitor.said[-1] == (
            'INFO process-a could not be started: job is in no folder of PATH; not started again for 300 s'
        )
        assert monitor.program('a').state == 'resting'
